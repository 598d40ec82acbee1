//! Actions and their decisions.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::alerts::{done, number};
use super::app::App;
use super::caller::Caller;
use super::failure::Failure;
use super::json::Json;
use super::params::{Body, Params};
use crate::access::Role;
use crate::actions::{ActionRequest, ActionShown, DecisionShown};

/// Default decisions per page.
const PAGE: usize = 100;
/// Maximum decisions per page.
const PAGE_MAX: usize = 1000;

/// Actions.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ActionList {
    /// Oldest first.
    pub actions: Vec<ActionShown>,
}

/// Decisions.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DecisionList {
    /// Newest first.
    pub decisions: Vec<DecisionShown>,
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
    responses((status = 200, description = "Those over jobs that the token may see rows of", body = ActionList), (status = "4XX", description = "Why not", body = Failure))
)]
pub async fn list(State(app): State<Arc<App>>, caller: Caller) -> Result<Json<ActionList>, Failure> {
    let who = caller.at_least(Role::View)?;
    Ok(Json(ActionList { actions: app.run(move |service| Ok(service.actions_shown(&who))).await? }))
}

/// Create an action.
#[utoipa::path(
    post, path = "/api/v1/actions", tag = "actions", request_body = ActionRequest,
    responses(
        (status = 201, description = "It is at work", body = ActionShown),
        (status = "4XX", description = "Why not", body = Failure),
    )
)]
pub async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(asked, _): Body<ActionRequest>,
) -> Result<(StatusCode, Json<ActionShown>), Failure> {
    let who = caller.at_least(Role::Run)?;
    let act = ("action.create", asked.name.clone());
    let made = done(&app, who, act, move |service, who| service.add_action(who, &asked)).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// Show an action.
#[utoipa::path(
    get, path = "/api/v1/actions/{id}", tag = "actions", params(("id" = String, Path, description = "Its number")),
    responses((status = 200, description = "The action", body = ActionShown), (status = "4XX", description = "Why not", body = Failure))
)]
pub async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<ActionShown>, Failure> {
    let (who, id) = (caller.at_least(Role::View)?, number(&name, "an action")?);
    Ok(Json(app.run(move |service| service.action(&who, id)).await?))
}

/// Remove an action. Receivers keep its last decision.
#[utoipa::path(
    delete, path = "/api/v1/actions/{id}", tag = "actions", params(("id" = String, Path, description = "Its number")),
    responses((status = 204, description = "It is gone"), (status = "4XX", description = "Why not", body = Failure))
)]
pub async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Failure> {
    let (who, id) = (caller.at_least(Role::Run)?, number(&name, "an action")?);
    let act = ("action.remove", id.to_string());
    done(&app, who, act, move |service, who| Ok(service.remove_action(who, id)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List decisions of an action; the most recent 1000 are stored.
#[utoipa::path(
    get, path = "/api/v1/actions/{id}/decisions", tag = "actions",
    params(("id" = String, Path, description = "Its number"), DecisionParams),
    responses((status = 200, description = "A page of them", body = DecisionList), (status = "4XX", description = "Why not", body = Failure))
)]
pub async fn decisions(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Params(params): Params<DecisionParams>,
) -> Result<Json<DecisionList>, Failure> {
    let (who, id) = (caller.at_least(Role::View)?, number(&name, "an action")?);
    let limit = params.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let decisions = app.run(move |service| service.decisions(&who, id, params.before, limit)).await?;
    let last = decisions.last().map(|decision| decision.version);
    let next = last.filter(|last| decisions.len() == limit && *last > 1);
    Ok(Json(DecisionList { decisions, next }))
}
