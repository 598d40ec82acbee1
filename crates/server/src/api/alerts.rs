//! Alerts, alert rules, silences, and receivers.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::app::AppState;
use super::caller::RequestCaller;
use super::failure::ApiFailure;
use super::json::JsonResponse;
use super::params::{JsonBody, QueryParams, time};
use super::rule_requests::{addressed, audited};
use crate::jobs::rule_requests::NewSilence;
use crate::rules::alerts::{
    AlertSilence, AlertView, ReceiverState, ReceiverTestResult, RuleRequest, RuleView,
};
use crate::store::access::AccessRole;
use crate::store::sqlite::now_ns;

/// Default alerts per page.
const PAGE: usize = 100;
/// Maximum alerts per page.
const PAGE_MAX: usize = 1000;

/// Alerts.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AlertList {
    /// By rule.
    pub alerts: Vec<AlertView>,
    /// `after` of the next page, if there is one.
    pub next: Option<String>,
}

/// Query parameters of alerts.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AlertParams {
    /// Only alerts in this state: pending, firing, resolved.
    state: Option<String>,
    /// Only alerts of the rule with this name.
    rule: Option<String>,
    /// Only alerts after this one: `next` of the previous page.
    after: Option<String>,
    /// Maximum number of entries; default 100, at most 1000.
    limit: Option<usize>,
}

/// Stable position of an alert in the list: by rule, those about the rule itself first, then by labels.
type Place = (i64, u8, BTreeMap<String, String>);

fn place(alert: &AlertView) -> Place {
    let rank = ["no_data", "missing_agents"]
        .iter()
        .position(|reason| *reason == alert.reason);
    (
        alert.rule_id.parse().unwrap_or(0),
        rank.unwrap_or(2) as u8,
        alert.labels.clone(),
    )
}

/// Parses `next`.
fn read_place(text: &str) -> Result<Place, ApiFailure> {
    serde_json::from_str(text)
        .map_err(|_| ApiFailure::bad("`after` must be a value of `next`".to_owned()))
}

/// Rules.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RuleList {
    /// Oldest first.
    pub rules: Vec<RuleView>,
}

/// Silences.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SilenceList {
    /// Silences that have not ended, oldest first.
    pub silences: Vec<AlertSilence>,
}

/// Receivers.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ReceiverList {
    /// In the order of the server's flags.
    pub receivers: Vec<ReceiverState>,
}

/// A silence as requested.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SilenceRequest {
    /// `label=value`, `label!=value`, `label=~expression`, `label!~expression`; all must match.
    pub matchers: Vec<String>,
    /// Start: 2026-11-22T10:00:00Z, or nanoseconds since the epoch; default: now.
    #[serde(default)]
    pub starts: Option<String>,
    /// End; alternatively `for`.
    #[serde(default)]
    pub ends: Option<String>,
    /// Duration, such as `2h`; alternatively `ends`.
    #[serde(default, rename = "for")]
    pub for_time: Option<String>,
    /// Reason.
    #[serde(default)]
    pub comment: String,
}

/// List alerts.
#[utoipa::path(
    get, path = "/api/v1/alerts", tag = "alerts", params(AlertParams),
    responses((status = 200, description = "Limited to jobs whose rows the token may read", body = AlertList), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn list(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    QueryParams(params): QueryParams<AlertParams>,
) -> Result<JsonResponse<AlertList>, ApiFailure> {
    let who = caller.at_least(AccessRole::View)?;
    let after = params.after.as_deref().map(read_place).transpose()?;
    let limit = params.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let mut alerts = app
        .run(move |service| Ok(service.rules.alerts_shown(&who)))
        .await?;
    alerts.retain(|alert| {
        params
            .state
            .as_ref()
            .is_none_or(|state| *state == alert.state)
            && params.rule.as_ref().is_none_or(|rule| *rule == alert.rule)
            && after.as_ref().is_none_or(|after| *after < place(alert))
    });
    alerts.sort_by_cached_key(place);
    let is_last = alerts.len() <= limit;
    alerts.truncate(limit);
    let next = alerts.last().filter(|_| !is_last).map(place);
    let next = next.and_then(|place| serde_json::to_string(&place).ok());
    Ok(JsonResponse(AlertList { alerts, next }))
}

/// List alert rules.
#[utoipa::path(
    get, path = "/api/v1/alert-rules", tag = "alerts",
    responses((status = 200, description = "Limited to jobs whose rows the token may read", body = RuleList), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn rules(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
) -> Result<JsonResponse<RuleList>, ApiFailure> {
    let who = caller.at_least(AccessRole::View)?;
    Ok(JsonResponse(RuleList {
        rules: app.run(move |service| Ok(service.rules.list(&who))).await?,
    }))
}

/// Create an alert rule.
#[utoipa::path(
    post, path = "/api/v1/alert-rules", tag = "alerts", request_body = RuleRequest,
    responses(
        (status = 201, description = "Created", body = RuleView),
        (status = "4XX", description = "Error", body = ApiFailure),
    )
)]
pub async fn create_rule(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    JsonBody(asked, _): JsonBody<RuleRequest>,
) -> Result<(StatusCode, JsonResponse<RuleView>), ApiFailure> {
    let who = caller.at_least(AccessRole::Run)?;
    let act = ("alert_rule.create", asked.name.clone());
    let made = audited(&app, who, act, move |service, who| {
        service.rules.add(who, &asked)
    })
    .await?;
    Ok((StatusCode::CREATED, JsonResponse(made)))
}

/// Show an alert rule.
#[utoipa::path(
    get, path = "/api/v1/alert-rules/{id}", tag = "alerts", params(("id" = String, Path, description = "Rule ID")),
    responses((status = 200, description = "The rule", body = RuleView), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn show_rule(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
) -> Result<JsonResponse<RuleView>, ApiFailure> {
    let (who, id) = addressed(caller, AccessRole::View, &name, "an alert rule")?;
    Ok(JsonResponse(
        app.run(move |service| service.rules.get(&who, id)).await?,
    ))
}

/// Replace an alert rule. Firing alerts resolve, unless only annotations or receivers change.
#[utoipa::path(
    put, path = "/api/v1/alert-rules/{id}", tag = "alerts", request_body = RuleRequest,
    params(("id" = String, Path, description = "Rule ID")),
    responses(
        (status = 200, description = "The changed rule", body = RuleView),
        (status = "4XX", description = "Error", body = ApiFailure),
    )
)]
pub async fn replace_rule(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
    JsonBody(asked, _): JsonBody<RuleRequest>,
) -> Result<JsonResponse<RuleView>, ApiFailure> {
    let (who, id) = addressed(caller, AccessRole::Run, &name, "an alert rule")?;
    let act = ("alert_rule.replace", asked.name.clone());
    Ok(JsonResponse(
        audited(&app, who, act, move |service, who| {
            service.rules.replace(who, id, &asked)
        })
        .await?,
    ))
}

/// Remove an alert rule: its alerts resolve, and its own job ends.
#[utoipa::path(
    delete, path = "/api/v1/alert-rules/{id}", tag = "alerts", params(("id" = String, Path, description = "Rule ID")),
    responses((status = 204, description = "Deleted"), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn remove_rule(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiFailure> {
    let (who, id) = addressed(caller, AccessRole::Run, &name, "an alert rule")?;
    let act = ("alert_rule.remove", id.to_string());
    audited(&app, who, act, move |service, who| {
        Ok(service.rules.remove(who, id)?)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn silence_asked(asked: SilenceRequest) -> Result<NewSilence, ApiFailure> {
    let starts_ns = asked.starts.as_deref().map_or(Ok(now_ns()), time)?;
    let ends_ns = match (&asked.ends, &asked.for_time) {
        (Some(ends), None) => time(ends)?,
        (None, Some(length)) => query::duration_ns(length)
            .map(|ns| starts_ns.saturating_add(ns))
            .ok_or_else(|| {
                ApiFailure::bad(format!(
                    "`{length}` is not a duration, such as 90s, 5m, or 1h"
                ))
            })?,
        _ => {
            return Err(ApiFailure::bad(
                "a silence needs an end or a duration".to_owned(),
            ));
        }
    };
    Ok(NewSilence {
        matchers: asked.matchers,
        starts_ns,
        ends_ns,
        comment: asked.comment,
    })
}

/// List silences.
#[utoipa::path(
    get, path = "/api/v1/silences", tag = "alerts",
    responses((status = 200, description = "Silences that have not ended; a token restricted to networks gets its own", body = SilenceList), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn silences(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
) -> Result<JsonResponse<SilenceList>, ApiFailure> {
    let who = caller.at_least(AccessRole::View)?;
    Ok(JsonResponse(SilenceList {
        silences: app.service.rules.silences_shown(&who),
    }))
}

/// Create a silence: that of an admin applies to all alerts, that of another user to alerts of the user's own rules.
#[utoipa::path(
    post, path = "/api/v1/silences", tag = "alerts", request_body = SilenceRequest,
    responses(
        (status = 201, description = "Created", body = AlertSilence),
        (status = "4XX", description = "Error", body = ApiFailure),
    )
)]
pub async fn create_silence(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    JsonBody(asked, _): JsonBody<SilenceRequest>,
) -> Result<(StatusCode, JsonResponse<AlertSilence>), ApiFailure> {
    let who = caller.at_least(AccessRole::Run)?;
    let act = ("silence.create", asked.matchers.join(" "));
    let asked = silence_asked(asked)?;
    let made = audited(&app, who, act, move |service, who| {
        service.rules.keep_silence(who, None, asked)
    })
    .await?;
    Ok((StatusCode::CREATED, JsonResponse(made)))
}

/// Replace a silence.
#[utoipa::path(
    put, path = "/api/v1/silences/{id}", tag = "alerts", request_body = SilenceRequest,
    params(("id" = String, Path, description = "Silence ID")),
    responses(
        (status = 200, description = "The changed silence", body = AlertSilence),
        (status = "4XX", description = "Error", body = ApiFailure),
    )
)]
pub async fn replace_silence(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
    JsonBody(asked, _): JsonBody<SilenceRequest>,
) -> Result<JsonResponse<AlertSilence>, ApiFailure> {
    let (who, id) = addressed(caller, AccessRole::Run, &name, "a silence")?;
    let act = ("silence.replace", id.to_string());
    let asked = silence_asked(asked)?;
    Ok(JsonResponse(
        audited(&app, who, act, move |service, who| {
            service.rules.keep_silence(who, Some(id), asked)
        })
        .await?,
    ))
}

/// End a silence.
#[utoipa::path(
    delete, path = "/api/v1/silences/{id}", tag = "alerts", params(("id" = String, Path, description = "Silence ID")),
    responses((status = 200, description = "The ended silence", body = AlertSilence), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn end_silence(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
) -> Result<JsonResponse<AlertSilence>, ApiFailure> {
    let (who, id) = addressed(caller, AccessRole::Run, &name, "a silence")?;
    let act = ("silence.end", id.to_string());
    Ok(JsonResponse(
        audited(&app, who, act, move |service, who| {
            Ok(service.rules.end_silence(who, id)?)
        })
        .await?,
    ))
}

/// List receivers.
#[utoipa::path(
    get, path = "/api/v1/receivers", tag = "alerts",
    responses((status = 200, description = "Receivers configured at the server", body = ReceiverList), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn receivers(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
) -> Result<JsonResponse<ReceiverList>, ApiFailure> {
    caller.at_least(AccessRole::View)?;
    Ok(JsonResponse(ReceiverList {
        receivers: app
            .run(|service| Ok(service.rules.alerts.receiver_states()?))
            .await?,
    }))
}

/// Send a test notification to a receiver.
#[utoipa::path(
    post, path = "/api/v1/receivers/{id}/test", tag = "alerts", params(("id" = String, Path, description = "Receiver name")),
    responses((status = 200, description = "Result of the test notification", body = ReceiverTestResult), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn test_receiver(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
) -> Result<JsonResponse<ReceiverTestResult>, ApiFailure> {
    let who = caller.at_least(AccessRole::Run)?;
    let act = ("receiver.test", name.clone());
    Ok(JsonResponse(
        audited(&app, who, act, move |service, who| {
            Ok(service.rules.test_receiver(who, &name)?)
        })
        .await?,
    ))
}
