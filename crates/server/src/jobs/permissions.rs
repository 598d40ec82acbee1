//! Permissions of tokens: ownership, and queries.

use plan::Plan;

use crate::store::access::{AccessRole, ClientAccess};
use crate::store::service_error::ServiceError;

/// Checks whether `who` is the owner of `thing` or an admin; `what`: the verb for the message, as "stops".
pub(crate) fn must_own(
    who: &ClientAccess,
    owner: &str,
    thing: &str,
    what: &str,
) -> Result<(), ServiceError> {
    if owner == who.name || who.role >= AccessRole::Admin {
        Ok(())
    } else {
        Err(ServiceError::Forbidden(format!(
            "{thing} belongs to {owner}: only that token or an admin's {what} it"
        )))
    }
}

/// Checks whether a token allows a query.
pub(crate) fn may_ask(who: &ClientAccess, plan: &Plan) -> Result<(), ServiceError> {
    if who.role < AccessRole::Raw && plan.dataflow.pipelines.is_empty() {
        return Err(ServiceError::Forbidden(
            "a query without PROCESS returns tuples, which needs the role raw".into(),
        ));
    }
    if who.scope.allows(&plan.monitor) {
        Ok(())
    } else {
        Err(ServiceError::Forbidden(
            "this token is restricted to networks: add FROM or TO with addresses inside them only"
                .into(),
        ))
    }
}
