//! Help for editors, and how the service is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::App;
use super::caller::Caller;
use super::failure::Failure;
use super::json::Json;
use super::params::{Body, header_text};
use crate::access::Role;
use crate::asking::{self, CheckAnswer, CheckRequest, ExplainAnswer, ExplainRequest};
use crate::catalog::Catalog;
use crate::catalog::CatalogText;
use crate::meters::Bound;

/// How the service is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// The program's version.
    pub version: String,
}

/// What the service has at the moment, and what it had to leave out since it was started.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Counters {
    /// Seconds since it was started.
    pub uptime_seconds: u64,
    /// Jobs that have not ended.
    pub jobs_unfinished: usize,
    /// Agents that are connected.
    pub agents_connected: usize,
    /// Live streams.
    pub streams: usize,
    /// Bytes of results that are kept: of the history's files, and of the newest rows in the store.
    pub history_bytes: u64,
    /// The same of jobs that keep their tuples.
    pub tuple_bytes: u64,
    /// Queries of the past that took too long, and were given up.
    pub queries_given_up: u64,
    /// Rows that answers to queries of the past left out, since they were too many.
    pub query_rows_left_out: u64,
    /// Rows that retention has taken away.
    pub rows_dropped: u64,
    /// Rows that could not be kept, counted at each try.
    pub rows_unkept: u64,
    /// Rows that live streams were not shown, since they were too many at once.
    pub rows_unshown: u64,
    /// Parts of the history that could not be read.
    pub segments_damaged: u64,
    /// Jobs that were not taken, since there were too many, in all or of one owner.
    pub jobs_refused: u64,
    /// Live streams that were not opened, since there were too many, in all or of one token.
    pub streams_refused: u64,
    /// Requests that came too fast.
    pub requests_refused: u64,
    /// Times that connections had to wait for others to end.
    pub connections_waited: u64,
    /// Handshakes of TLS that came to nothing: a certificate was not good, the other end did not take ours, speaks no TLS, or was silent.
    pub handshakes_failed: u64,
    /// Connections that were cut, since what came was no request of HTTP, or had too long a head.
    pub heads_refused: u64,
    /// Connections closed because no complete request head arrived in time, including idle ones.
    pub connections_silent: u64,
    /// Connections without a valid token that were closed, since others needed their places.
    pub connections_evicted: u64,
    /// Connections of agents that were cut, since what came breaks the link's rules.
    pub links_broken: u64,
    /// Alert rules.
    pub alert_rules: usize,
    /// Alerts that fire.
    pub alerts_firing: usize,
    /// Groups that got no alert, since their rules had too many.
    pub alert_groups_left_out: u64,
    /// Notifications that receivers have taken.
    pub notifications_sent: u64,
    /// Attempts that failed and were made again.
    pub notifications_retried: u64,
    /// Notifications not accepted in time, or dropped for lack of room.
    pub notifications_lost: u64,
    /// Actions.
    pub actions: usize,
    /// Decisions of actions that were carried out.
    pub decisions_done: u64,
    /// Attempts to carry decisions out that failed and were made again.
    pub decisions_retried: u64,
    /// Groups that actions did not follow, since there were too many.
    pub action_groups_left_out: u64,
}

/// Say whether the service is there. Needs no token.
#[utoipa::path(get, path = "/api/v1/health", tag = "service", security(()), responses((status = 200, description = "It is", body = Health)))]
pub async fn health() -> Json<Health> {
    Json(Health { status: "ok".into(), version: env!("CARGO_PKG_VERSION").into() })
}

/// Say what the service has, and what it had to leave out.
#[utoipa::path(get, path = "/api/v1/counters", tag = "service", responses((status = 200, description = "Counters", body = Counters), (status = "4XX", description = "Why not", body = Failure)))]
pub async fn counters(State(app): State<Arc<App>>, caller: Caller) -> Result<Json<Counters>, Failure> {
    if caller.at_least(Role::View)?.is_scoped() {
        return Err(Failure::forbidden(
            "a token for some networks does not see counters of all jobs and agents",
        ));
    }
    Ok(Json(counted(&app).await?))
}

pub(super) async fn counted(app: &Arc<App>) -> Result<Counters, Failure> {
    let (uptime, rates) = (app.started.elapsed().as_secs(), app.rates.refused.load(Ordering::Relaxed));
    let handshakes_failed = app.tls.as_ref().map_or(0, |tls| tls.refusals());
    let waited = app.connections_waited.load(Ordering::Relaxed);
    let evicted = app.admission.evicted();
    app.run(move |service| {
        let (hub, kept) = (service.hub(), service.history().kept()?);
        let reached = |bounds: [Bound; 2]| bounds.map(|bound| hub.meters.times_reached(bound)).iter().sum();
        let (rules, tally) = (service.alerts().rules(), &service.alerts().tally);
        let actions = service.actions().shown();
        Ok(Counters {
            uptime_seconds: uptime,
            jobs_unfinished: service.store().unfinished_count()?,
            agents_connected: service.fleet.agents().iter().filter(|agent| agent.connected).count(),
            streams: hub.streams.load(Ordering::Relaxed),
            history_bytes: kept.bytes,
            tuple_bytes: kept.tuple_bytes,
            queries_given_up: hub.meters.queries_given_up.get(),
            query_rows_left_out: hub.meters.query_rows_left_out.get(),
            rows_dropped: kept.rows_dropped,
            rows_unkept: hub.meters.rows_unkept.get(),
            rows_unshown: hub.meters.rows_unshown.get(),
            segments_damaged: kept.segments_damaged,
            jobs_refused: reached([Bound::Jobs, Bound::JobsPerOwner]),
            streams_refused: reached([Bound::Streams, Bound::StreamsPerToken]),
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
            decisions_done: service.actions().tally.done.get(),
            decisions_retried: service.actions().tally.retried.get(),
            action_groups_left_out: actions.iter().map(|action| action.groups_left_out).sum(),
        })
    })
    .await
}

/// List what queries may be made of: parsers with their fields, processors, functions.
#[utoipa::path(
    get, path = "/api/v1/catalog", tag = "editor",
    responses((status = 200, description = "All there is; its ETag changes with the program", body = Catalog), (status = 304, description = "As it was"), (status = "4XX", description = "Why not", body = Failure))
)]
pub async fn catalog(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    caller.at_least(Role::View)?;
    let CatalogText { json, etag } = &app.catalog;
    let known = header_text(&headers, "if-none-match").unwrap_or_default();
    let is_known = known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag);
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, "application/json")], json.clone()).into_response(),
    };
    let tag = HeaderValue::from_str(etag).map_err(|_| Failure::internal())?;
    response.headers_mut().insert(header::ETAG, tag);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}

/// Check a query that is being written, and say what may follow.
#[utoipa::path(
    post, path = "/api/v1/check", tag = "editor", request_body = CheckRequest,
    responses((status = 200, description = "What is wrong, and what may follow", body = CheckAnswer), (status = "4XX", description = "Why not", body = Failure))
)]
pub async fn check(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(asked, _): Body<CheckRequest>,
) -> Result<Json<CheckAnswer>, Failure> {
    caller.at_least(Role::View)?;
    Ok(Json(app.run(move |service| Ok(asking::check(service, &asked))).await?))
}

/// Say what a query would do.
#[utoipa::path(
    post, path = "/api/v1/explain", tag = "editor", request_body = ExplainRequest,
    responses((status = 200, description = "The plan", body = ExplainAnswer), (status = "4XX", description = "Why not", body = Failure))
)]
pub async fn explain(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(asked, _): Body<ExplainRequest>,
) -> Result<Json<ExplainAnswer>, Failure> {
    caller.at_least(Role::View)?;
    let text = asked.query.clone();
    let explained = app.run(move |service| Ok(asking::explain(service, &asked.query))).await?;
    explained.map(Json).map_err(|errors| Failure::of_query(&text, &errors))
}
