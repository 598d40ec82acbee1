//! Live events: one stream of server-sent events for all jobs shown by a page.
//!
//! A stream starts with `hello`. A client that reconnects with its last event id then receives the events after it, if
//! they are still kept; other clients receive a `snapshot` of each job, after a `gap` event if they reconnect. An
//! event's id consists of the server's incarnation and the event's number, so that incarnations are not confused.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{Event as Sent, Sse};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::IntoParams;

use super::app::AppState;
use super::caller::RequestCaller;
use super::failure::ApiFailure;
use super::jobs::id;
use super::params::{QueryParams, header_text};
use crate::api::service::Service;
use crate::job::JobId;
use crate::job::counters::LimitKind;
use crate::results::events::{ClientQueue, NextEvent};
use crate::results::hub::ResumePoint;
use crate::store::access::{AccessRole, ClientAccess};
use crate::store::service_error::ServiceError;

/// Maximum jobs of one stream.
const JOBS_MAX: usize = 50;
/// Delay before a client reconnects.
const RETRY: Duration = Duration::from_secs(2);

/// Query parameters of the stream.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StreamParams {
    /// Numbers of jobs, separated by commas; default: all unfinished jobs.
    jobs: Option<String>,
}

/// Watch jobs.
#[utoipa::path(
    get, path = "/api/v1/stream", tag = "jobs",
    params(StreamParams, ("Last-Event-ID" = Option<String>, Header, description = "ID of the last event received")),
    responses(
        (status = 200, description = "Server-sent events: hello, snapshot, window, account, sampling, job, alert, gap, bye", content((String = "text/event-stream"))),
        (status = "4XX", description = "Error", body = ApiFailure),
    )
)]
pub async fn stream(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    QueryParams(params): QueryParams<StreamParams>,
    headers: HeaderMap,
) -> Result<Response, ApiFailure> {
    let who = caller.at_least(AccessRole::View)?;
    let seen = seen(&app, header_text(&headers, "last-event-id"));
    let wanted = wanted(params.jobs.as_deref())?;
    let place = StreamSlot::take(&app, &who.name)?;
    let access = who.clone();
    let queue = app
        .run(move |service| watch(service, &access, wanted, seen))
        .await?;
    let (send, receive) = mpsc::channel(1);
    tokio::spawn(tell(app.clone(), who, queue, send, place));
    let events = ReceiverStream::new(receive).map(Ok::<_, Infallible>);
    let mut response = Sse::new(events).into_response();
    // Disables buffering in proxies, which would delay events.
    response.headers_mut().insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    Ok(response)
}

/// Slot for a stream, released on drop.
struct StreamSlot {
    app: Arc<AppState>,
    /// Name of the token.
    owner: String,
}

impl StreamSlot {
    fn take(app: &Arc<AppState>, owner: &str) -> Result<StreamSlot, ApiFailure> {
        let hub = app.service.hub();
        let limits = app.service.limits();
        let before = hub.streams.fetch_add(1, Ordering::Relaxed);
        let mut of_all = hub
            .streams_of
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let of_owner = of_all.entry(owner.to_owned()).or_default();
        *of_owner += 1;
        let of_owner = *of_owner;
        drop(of_all);
        // From here on, drop releases it.
        let place = StreamSlot {
            app: app.clone(),
            owner: owner.to_owned(),
        };
        let (bound, why) = match () {
            () if before >= limits.streams_max => (
                LimitKind::Streams,
                "the maximum number of live streams is open (--streams-max)",
            ),
            () if of_owner > limits.streams_per_token_max => {
                let why =
                    "this token has the maximum number of live streams open (--streams-per-token)";
                (LimitKind::StreamsPerToken, why)
            }
            () => return Ok(place),
        };
        hub.meters.reached(bound);
        Err(ApiFailure::too_many(why))
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let hub = self.app.service.hub();
        hub.streams.fetch_sub(1, Ordering::Relaxed);
        let mut of_all = hub
            .streams_of
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = of_all.get_mut(&self.owner) {
            *left -= 1;
            if *left == 0 {
                of_all.remove(&self.owner);
            }
        }
    }
}

/// Last event seen by the client.
fn seen(app: &AppState, text: Option<&str>) -> ResumePoint {
    let Some(text) = text else {
        return ResumePoint::Nothing;
    };
    match position(text) {
        Some((boot, seq)) if boot == app.service.hub().boot => ResumePoint::UpTo(seq),
        _ => ResumePoint::OtherLife,
    }
}

/// Parses an event's id: incarnation of the server, and number of the event.
pub fn position(text: &str) -> Option<(u64, u64)> {
    let (boot, seq) = text.split_once(':')?;
    Some((boot.parse().ok()?, seq.parse().ok()?))
}

fn wanted(text: Option<&str>) -> Result<Option<BTreeSet<JobId>>, ApiFailure> {
    let Some(text) = text else { return Ok(None) };
    let jobs: BTreeSet<JobId> = text
        .split(',')
        .map(|name| id(name.trim()))
        .collect::<Result<_, _>>()?;
    if jobs.len() <= JOBS_MAX {
        Ok(Some(jobs))
    } else {
        Err(ApiFailure::bad(format!(
            "a stream has at most {JOBS_MAX} jobs"
        )))
    }
}

fn watch(
    service: &Service,
    who: &ClientAccess,
    wanted: Option<BTreeSet<JobId>>,
    seen: ResumePoint,
) -> Result<Arc<ClientQueue>, ServiceError> {
    let jobs = match wanted {
        Some(jobs) => {
            for job in &jobs {
                service
                    .jobs
                    .may_see_rows(who, &service.jobs.get(who, *job)?)?;
            }
            jobs
        }
        None => {
            let mut jobs = service.store().jobs.unfinished()?;
            jobs.retain(|job| {
                service.jobs.may_see(who, job) && service.jobs.may_see_rows(who, job).is_ok()
            });
            jobs.iter().rev().take(JOBS_MAX).map(|job| job.id).collect()
        }
    };
    let queue = Arc::new(ClientQueue::new(jobs, service.limits().stream_queue_bytes));
    service.hub().watch(&queue, seen)?;
    Ok(queue)
}

/// Sends events to a client until it disconnects, is too slow, or loses its token, or the service ends.
async fn tell(
    app: Arc<AppState>,
    who: ClientAccess,
    queue: Arc<ClientQueue>,
    send: mpsc::Sender<Sent>,
    _place: StreamSlot,
) {
    let boot = app.service.hub().boot;
    let limits = app.service.limits();
    let hello = json!({
        "boot": boot.to_string(),
        "version": env!("CARGO_PKG_VERSION"),
        "jobs": queue.jobs.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "limits": {
            "ring_seconds": limits.ring_time.as_secs(),
            "ring_bytes": limits.ring_bytes,
            "queue_bytes": limits.stream_queue_bytes,
            "heartbeat_seconds": limits.heartbeat.as_secs(),
            "event_rows": crate::results::hub::EVENT_ROWS_MAX,
        },
    });
    let first = Sent::default()
        .event("hello")
        .data(hello.to_string())
        .retry(RETRY);
    if send.send(first).await.is_err() {
        return;
    }
    let mut heartbeat = tokio::time::interval(limits.heartbeat);
    heartbeat.tick().await;
    let mut ending = app.ending.clone();
    let mut revoked = app.revoked.subscribe();
    let why = loop {
        let next = tokio::select! {
            next = queue.next() => next,
            Ok(()) = revoked.changed() => {
                if !is_still_known(&app, &who).await {
                    break "the token was revoked";
                }
                continue;
            }
            _ = heartbeat.tick() => {
                if !is_still_known(&app, &who).await {
                    break "the token was revoked";
                }
                if send.send(Sent::default().comment("")).await.is_err() {
                    return;
                }
                continue;
            }
            () = send.closed() => return,
            () = ended(&mut ending) => break "the server is stopping",
        };
        let event = match next {
            NextEvent::Event(event) => Sent::default()
                .event(event.kind.name())
                .id(format!("{boot}:{}", event.seq))
                .data(&event.data),
            NextEvent::LeftOut(events) => {
                let data = json!({ "reason": "the client is slow", "provisional_events": events });
                Sent::default().event("gap").data(data.to_string())
            }
            NextEvent::Over if *app.ending.borrow() => break "the server is stopping",
            NextEvent::Over => {
                app.service.hub().meters.reached(LimitKind::StreamQueue);
                break "the client is too slow";
            }
        };
        if send.send(event).await.is_err() {
            return;
        }
    };
    let bye = json!({ "reason": why, "retry_after_ms": RETRY.as_millis() });
    let _ = send
        .send(Sent::default().event("bye").data(bye.to_string()))
        .await;
}

async fn ended(ending: &mut watch::Receiver<bool>) {
    // A closed channel also means the end.
    let _ = ending.wait_for(|ending| *ending).await;
}

async fn is_still_known(app: &Arc<AppState>, who: &ClientAccess) -> bool {
    let id = who.id;
    let known = app
        .run(move |service| Ok(service.store().tokens.has(id)?))
        .await;
    known.unwrap_or(true)
}
