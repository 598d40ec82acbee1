//! Parts of the requests about alert rules, silences, receivers, and actions.

use std::sync::Arc;

use super::app::AppState;
use super::caller::RequestCaller;
use super::failure::ApiFailure;
use super::service::Service;
use crate::jobs::rule_requests::RuleRejection;
use crate::store::access::{AccessRole, ClientAccess};

/// The caller, who must have `role`, and the number of the object in the path; `what`: the object with its article.
pub fn addressed(
    caller: RequestCaller,
    role: AccessRole,
    number: &str,
    what: &str,
) -> Result<(ClientAccess, i64), ApiFailure> {
    let who = caller.at_least(role)?;
    let number = number.parse().ok().filter(|n: &i64| *n > 0);
    let number = number
        .ok_or_else(|| ApiFailure::not_found(&format!("{what} is identified by its number")))?;
    Ok((who, number))
}

impl From<RuleRejection> for ApiFailure {
    fn from(rejection: RuleRejection) -> ApiFailure {
        match rejection {
            RuleRejection::Wrong(words) => ApiFailure::bad(words),
            RuleRejection::Query(text, errors) => ApiFailure::of_query(&text, &errors),
            RuleRejection::Condition(text, errors) => {
                let mut failure = ApiFailure::of_query(&text, &errors);
                failure.code = "condition".into();
                failure
            }
            RuleRejection::Taken(words) => ApiFailure::conflict("name_taken", words),
            RuleRejection::Denied(denied) => denied.into(),
        }
    }
}

/// Executes a request and records the user and the result in the audit log.
pub async fn audited<T: Send + 'static>(
    app: &Arc<AppState>,
    who: ClientAccess,
    (act, object): (&'static str, String),
    request: impl FnOnce(&Service, &ClientAccess) -> Result<T, RuleRejection> + Send + 'static,
) -> Result<T, ApiFailure> {
    let both = move |service: &Service| {
        let result = request(service, &who).map_err(ApiFailure::from);
        service.audit.note_result(
            &who.name,
            act,
            &object,
            &result.as_ref().map_err(|failure| &failure.message),
        );
        Ok(result)
    };
    app.run(both).await?
}
