//! Actions and their decisions.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::app::AppState;
use super::caller::RequestCaller;
use super::failure::ApiFailure;
use super::json::JsonResponse;
use super::params::{JsonBody, QueryParams};
use super::rule_requests::{addressed, audited};
use crate::rules::actions::{ActionRequest, ActionView, DecisionView};
use crate::store::access::AccessRole;

/// Default decisions per page.
const PAGE: usize = 100;
/// Maximum decisions per page.
const PAGE_MAX: usize = 1000;

/// Actions.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ActionList {
    /// Oldest first.
    pub actions: Vec<ActionView>,
}

/// Decisions.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DecisionList {
    /// Newest first.
    pub decisions: Vec<DecisionView>,
    /// `before` of the next page, if there is one.
    pub next: Option<u64>,
}

/// Query parameters of decisions.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DecisionParams {
    /// Only decisions before this number: `next` of the previous page.
    before: Option<u64>,
    /// Maximum number of entries; default 100, at most 1000.
    limit: Option<usize>,
}

/// List actions.
#[utoipa::path(
    get, path = "/api/v1/actions", tag = "actions",
    responses((status = 200, description = "Actions on jobs whose rows the token may read", body = ActionList), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn list(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
) -> Result<JsonResponse<ActionList>, ApiFailure> {
    let who = caller.at_least(AccessRole::View)?;
    Ok(JsonResponse(ActionList {
        actions: app
            .run(move |service| Ok(service.actions.list(&who)))
            .await?,
    }))
}

/// Create an action.
#[utoipa::path(
    post, path = "/api/v1/actions", tag = "actions", request_body = ActionRequest,
    responses(
        (status = 201, description = "Created", body = ActionView),
        (status = "4XX", description = "Error", body = ApiFailure),
    )
)]
pub async fn create(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    JsonBody(asked, _): JsonBody<ActionRequest>,
) -> Result<(StatusCode, JsonResponse<ActionView>), ApiFailure> {
    let who = caller.at_least(AccessRole::Run)?;
    let act = ("action.create", asked.name.clone());
    let made = audited(&app, who, act, move |service, who| {
        service.actions.add(who, &asked)
    })
    .await?;
    Ok((StatusCode::CREATED, JsonResponse(made)))
}

/// Show an action.
#[utoipa::path(
    get, path = "/api/v1/actions/{id}", tag = "actions", params(("id" = String, Path, description = "Action ID")),
    responses((status = 200, description = "The action", body = ActionView), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn show(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
) -> Result<JsonResponse<ActionView>, ApiFailure> {
    let (who, id) = addressed(caller, AccessRole::View, &name, "an action")?;
    Ok(JsonResponse(
        app.run(move |service| service.actions.get(&who, id))
            .await?,
    ))
}

/// Remove an action. Receivers keep its last decision.
#[utoipa::path(
    delete, path = "/api/v1/actions/{id}", tag = "actions", params(("id" = String, Path, description = "Action ID")),
    responses((status = 204, description = "Deleted"), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn remove(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiFailure> {
    let (who, id) = addressed(caller, AccessRole::Run, &name, "an action")?;
    let act = ("action.remove", id.to_string());
    audited(&app, who, act, move |service, who| {
        Ok(service.actions.remove(who, id)?)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List decisions of an action; the most recent 1000 are stored.
#[utoipa::path(
    get, path = "/api/v1/actions/{id}/decisions", tag = "actions",
    params(("id" = String, Path, description = "Action ID"), DecisionParams),
    responses((status = 200, description = "A page of decisions", body = DecisionList), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn decisions(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
    QueryParams(params): QueryParams<DecisionParams>,
) -> Result<JsonResponse<DecisionList>, ApiFailure> {
    let (who, id) = addressed(caller, AccessRole::View, &name, "an action")?;
    let limit = params.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let decisions = app
        .run(move |service| service.actions.decisions(&who, id, params.before, limit))
        .await?;
    let last = decisions.last().map(|decision| decision.version);
    let next = last.filter(|last| decisions.len() == limit && *last > 1);
    Ok(JsonResponse(DecisionList { decisions, next }))
}
