//! Assistance for editors, and the state of the service.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::AppState;
use super::caller::RequestCaller;
use super::failure::ApiFailure;
use super::json::JsonResponse;
use super::params::{JsonBody, header_text};
use crate::api::catalog::Catalog;
use crate::api::catalog::CatalogText;
use crate::api::query_assist::{self, CheckAnswer, CheckRequest, ExplainAnswer, ExplainRequest};
use crate::job::counters::LimitKind;
use crate::store::access::AccessRole;

/// Health of the service.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Health)]
pub struct ServiceHealth {
    /// `ok`.
    pub status: String,
    /// Version of the program.
    pub version: String,
}

/// Current usage, and counters of losses and rejections since the start.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Counters)]
pub struct ServiceCounters {
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// Jobs that have not ended.
    pub jobs_unfinished: usize,
    /// Connected agents.
    pub agents_connected: usize,
    /// Open live streams.
    pub streams: usize,
    /// Bytes of results that are kept: of the history's files, and of the newest rows in the store.
    pub history_bytes: u64,
    /// Bytes of results that are kept for jobs that keep their tuples.
    pub tuple_bytes: u64,
    /// Queries of the past aborted at their time limit.
    pub queries_given_up: u64,
    /// Rows omitted from answers to queries of the past because of their limit.
    pub query_rows_left_out: u64,
    /// Rows removed by retention.
    pub rows_dropped: u64,
    /// Rows that could not be stored, counted at each attempt.
    pub rows_unkept: u64,
    /// Rows omitted from live streams because there were too many at once.
    pub rows_unshown: u64,
    /// Segments of the history that could not be read.
    pub segments_damaged: u64,
    /// Jobs rejected because of the limit in total or per owner.
    pub jobs_refused: u64,
    /// Live streams rejected because of the limit in total or per token.
    pub streams_refused: u64,
    /// Requests rejected by rate limits.
    pub requests_refused: u64,
    /// Times that connections waited for others to end.
    pub connections_waited: u64,
    /// Failed TLS handshakes: invalid certificate, rejected server certificate, no TLS, or timeout.
    pub handshakes_failed: u64,
    /// Connections closed because of malformed HTTP or a request head that is too long.
    pub heads_refused: u64,
    /// Connections closed because no complete request head arrived in time, including idle ones.
    pub connections_silent: u64,
    /// Unauthenticated connections closed to make room for others.
    pub connections_evicted: u64,
    /// Connections of agents closed because of a protocol violation.
    pub links_broken: u64,
    /// Number of alert rules.
    pub alert_rules: usize,
    /// Number of firing alerts.
    pub alerts_firing: usize,
    /// Groups without an alert because of the limit per rule.
    pub alert_groups_left_out: u64,
    /// Notifications acknowledged by receivers.
    pub notifications_sent: u64,
    /// Attempts that failed and were retried.
    pub notifications_retried: u64,
    /// Notifications not accepted in time, or dropped for lack of room.
    pub notifications_lost: u64,
    /// Number of actions.
    pub actions: usize,
    /// Decisions of actions that were carried out.
    pub decisions_done: u64,
    /// Failed attempts to carry out decisions, which were retried.
    pub decisions_retried: u64,
    /// Groups not tracked by actions because of the limit.
    pub action_groups_left_out: u64,
}

/// Check whether the service is running. Needs no token.
#[utoipa::path(get, path = "/api/v1/health", tag = "service", security(()), responses((status = 200, description = "The server is running", body = ServiceHealth)))]
pub async fn health() -> JsonResponse<ServiceHealth> {
    JsonResponse(ServiceHealth {
        status: "ok".into(),
        version: env!("CARGO_PKG_VERSION").into(),
    })
}

/// Show current usage, and counters of losses and rejections.
#[utoipa::path(get, path = "/api/v1/counters", tag = "service", responses((status = 200, description = "Counters", body = ServiceCounters), (status = "4XX", description = "Error", body = ApiFailure)))]
pub async fn counters(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
) -> Result<JsonResponse<ServiceCounters>, ApiFailure> {
    if caller.at_least(AccessRole::View)?.is_scoped() {
        return Err(ApiFailure::forbidden(
            "a token restricted to networks cannot read counters of all jobs and agents",
        ));
    }
    Ok(JsonResponse(counted(&app).await?))
}

pub(super) async fn counted(app: &Arc<AppState>) -> Result<ServiceCounters, ApiFailure> {
    let uptime = app.started.elapsed().as_secs();
    let rates = app.rates.refused.load(Ordering::Relaxed);
    let handshakes_failed = app.tls.as_ref().map_or(0, |tls| tls.refusals());
    let waited = app.connections_waited.load(Ordering::Relaxed);
    let evicted = app.admission.evicted();
    app.run(move |service| {
        let hub = service.hub();
        let kept = service.history.kept()?;
        let reached = |bounds: [LimitKind; 2]| {
            bounds
                .map(|bound| hub.meters.times_reached(bound))
                .iter()
                .sum()
        };
        let rules = service.rules.alerts.rules();
        let tally = &service.rules.alerts.tally;
        let actions = service.actions.registry.shown();
        Ok(ServiceCounters {
            uptime_seconds: uptime,
            jobs_unfinished: service.store().jobs.unfinished_count()?,
            agents_connected: service
                .jobs
                .fleet
                .agents()
                .iter()
                .filter(|agent| agent.connected)
                .count(),
            streams: hub.streams.load(Ordering::Relaxed),
            history_bytes: kept.bytes,
            tuple_bytes: kept.tuple_bytes,
            queries_given_up: hub.meters.queries_given_up.get(),
            query_rows_left_out: hub.meters.query_rows_left_out.get(),
            rows_dropped: kept.rows_dropped,
            rows_unkept: hub.meters.rows_unkept.get(),
            rows_unshown: hub.meters.rows_unshown.get(),
            segments_damaged: kept.segments_damaged,
            jobs_refused: reached([LimitKind::Jobs, LimitKind::JobsPerOwner]),
            streams_refused: reached([LimitKind::Streams, LimitKind::StreamsPerToken]),
            requests_refused: rates,
            connections_waited: waited,
            handshakes_failed,
            heads_refused: hub.meters.heads_refused.get(),
            connections_silent: hub.meters.connections_silent.get(),
            connections_evicted: evicted,
            links_broken: hub.meters.links_broken.get(),
            alert_rules: rules.len(),
            alerts_firing: rules.iter().map(|rule| rule.firing).sum(),
            alert_groups_left_out: rules.iter().map(|rule| rule.groups_left_out).sum(),
            notifications_sent: tally.sent.get(),
            notifications_retried: tally.retried.get(),
            notifications_lost: tally.lost.get(),
            actions: actions.len(),
            decisions_done: service.actions.registry.tally.done.get(),
            decisions_retried: service.actions.registry.tally.retried.get(),
            action_groups_left_out: actions.iter().map(|action| action.groups_left_out).sum(),
        })
    })
    .await
}

/// List the elements of queries: parsers with their fields, processors, functions.
#[utoipa::path(
    get, path = "/api/v1/catalog", tag = "editor",
    responses((status = 200, description = "The vocabulary; its ETag changes with the program", body = Catalog), (status = 304, description = "Not modified"), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn catalog(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    headers: HeaderMap,
) -> Result<Response, ApiFailure> {
    caller.at_least(AccessRole::View)?;
    let CatalogText { json, etag } = &app.catalog;
    let known = header_text(&headers, "if-none-match").unwrap_or_default();
    let is_known = known
        .split(',')
        .any(|tag| tag.trim().trim_start_matches("W/") == etag);
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, "application/json")], json.clone()).into_response()
    };
    let tag = HeaderValue::from_str(etag).map_err(|_| ApiFailure::internal())?;
    response.headers_mut().insert(header::ETAG, tag);
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, no-cache"),
    );
    Ok(response)
}

/// Check a query that is being written, and list completions.
#[utoipa::path(
    post, path = "/api/v1/check", tag = "editor", request_body = CheckRequest,
    responses((status = 200, description = "Errors and completions", body = CheckAnswer), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn check(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    JsonBody(asked, _): JsonBody<CheckRequest>,
) -> Result<JsonResponse<CheckAnswer>, ApiFailure> {
    caller.at_least(AccessRole::View)?;
    Ok(JsonResponse(
        app.run(move |service| Ok(query_assist::check(service, &asked)))
            .await?,
    ))
}

/// Explain a query.
#[utoipa::path(
    post, path = "/api/v1/explain", tag = "editor", request_body = ExplainRequest,
    responses((status = 200, description = "The plan", body = ExplainAnswer), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn explain(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    JsonBody(asked, _): JsonBody<ExplainRequest>,
) -> Result<JsonResponse<ExplainAnswer>, ApiFailure> {
    caller.at_least(AccessRole::View)?;
    let text = asked.query.clone();
    let explained = app
        .run(move |service| Ok(query_assist::explain(service, &asked.query)))
        .await?;
    explained
        .map(JsonResponse)
        .map_err(|errors| ApiFailure::of_query(&text, &errors))
}
