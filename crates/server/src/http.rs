//! The service over HTTP/1.1: connections, limits, and who is let in; what requests mean is `service`'s.
//!
//! Whatever is answered has one form of errors, says nothing to other origins, and names no host but ours. Streams aside, a
//! request has a time in which it is answered.

mod agent;
mod app;
mod caller;
mod failure;
mod help;
mod jobs;
mod json;
mod openapi;
mod page;
mod params;
mod rate;
mod rows;
mod sessions;
mod stream;
mod tokens;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::catalog::CatalogText;
use crate::service::Service;
use app::{App, Peer};
use failure::Failure;
use rate::Rates;
use sessions::Sessions;

pub use openapi::openapi;

/// Time for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Bytes of a request's head, and of what is read at once.
const HEAD_BYTES: usize = 64 << 10;
/// Time for what is being answered when the service ends.
const END_TIME: Duration = Duration::from_secs(5);
/// How often is looked after what waits.
const LOOK_AFTER_EVERY: Duration = Duration::from_secs(10);
/// How often is looked whether a job's lease is over.
const LEASES_EVERY: Duration = Duration::from_millis(500);

/// A service that listens.
pub struct Serving {
    listener: TcpListener,
    app: Arc<App>,
    end: watch::Sender<bool>,
}

impl Serving {
    /// Listens on `address`; `names` are hosts' names beside those of this machine's loopback by which clients may call us.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn bind(service: Arc<Service>, address: SocketAddr, names: &[String]) -> io::Result<Serving> {
        let listener = TcpListener::bind(address).await?;
        let bound = listener.local_addr()?;
        let (end, ending) = watch::channel(false);
        let app = App {
            hosts: hosts(bound, names),
            sessions: Sessions::default(),
            rates: Rates::new(service.limits().requests_per_second),
            catalog: CatalogText::of(service.schemas.iter().map(AsRef::as_ref)),
            started: Instant::now(),
            ending,
            connections_waited: AtomicU64::new(0),
            service,
        };
        Ok(Serving { listener, app: Arc::new(app), end })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `end` comes, then lets what is being answered come to its end.
    pub async fn until(self, end: impl Future<Output = ()>) {
        let Serving { listener, app, end: tell_end } = self;
        let router = router(app.clone());
        let room = Arc::new(Semaphore::new(app.service.limits().connections_max));
        let looking = tokio::spawn(look_after(app.service.clone(), app.ending.clone()));
        tokio::pin!(end);
        loop {
            if room.available_permits() == 0 {
                app.connections_waited.fetch_add(1, Ordering::Relaxed);
            }
            let accepted = async {
                // Whoever comes when there is no room waits in the listener's queue.
                let permit = room.clone().acquire_owned().await;
                (listener.accept().await, permit)
            };
            let (accepted, permit) = tokio::select! {
                both = accepted => both,
                () = &mut end => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // As when there are no more descriptors: some will be free soon.
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            let router = router.clone();
            let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
                request.extensions_mut().insert(Peer(peer));
                TowerToHyperService::new(router.clone()).call(request)
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            let mut ending = app.ending.clone();
            tokio::spawn(async move {
                tokio::pin!(connection);
                let ended = async move { drop(ending.wait_for(|is_ending| *is_ending).await) };
                // What a client does to its connection is its own affair.
                tokio::select! {
                    _ = connection.as_mut() => {}
                    () = ended => {
                        connection.as_mut().graceful_shutdown();
                        let _ = connection.await;
                    }
                }
                drop(permit);
            });
        }
        drop(listener);
        let _ = tell_end.send(true);
        app.service.hub().end_streams();
        let all = u32::try_from(app.service.limits().connections_max).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(END_TIME, room.acquire_many(all)).await;
        looking.abort();
    }
}

/// Looks after what waits, now and then, and after leases.
async fn look_after(service: Arc<Service>, mut ending: watch::Receiver<bool>) {
    let mut looked = Instant::now();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LEASES_EVERY) => {}
            _ = ending.changed() => return,
        }
        let service = service.clone();
        let is_due = looked.elapsed() >= LOOK_AFTER_EVERY;
        let look = move || {
            service.end_abandoned();
            if is_due {
                service.look_after();
            }
        };
        let _ = tokio::task::spawn_blocking(look).await;
        if is_due {
            looked = Instant::now();
        }
    }
}

/// The names by which clients may call us, with the port and, where it is HTTP's own, without.
fn hosts(bound: SocketAddr, names: &[String]) -> Vec<String> {
    let own = ["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
    let address = match bound {
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    };
    let all = own.into_iter().chain([address]).chain(names.iter().map(|name| name.to_ascii_lowercase()));
    let with_port = |name: String| match bound.port() {
        80 => vec![format!("{name}:80"), name],
        port => vec![format!("{name}:{port}")],
    };
    all.flat_map(with_port).collect()
}

fn router(app: Arc<App>) -> Router {
    let timed = Router::new()
        .route("/", get(page::status))
        .route("/login", post(page::login))
        .route("/logout", post(page::logout))
        .route("/style.css", get(page::style))
        .route("/api/v1/health", get(help::health))
        .route("/api/v1/counters", get(help::counters))
        .route("/api/v1/openapi.json", get(openapi::document))
        .route("/api/v1/catalog", get(help::catalog))
        .route("/api/v1/check", post(help::check))
        .route("/api/v1/explain", post(help::explain))
        .route("/api/v1/jobs", get(jobs::list).post(jobs::create))
        .route("/api/v1/jobs/{id}", get(jobs::show).delete(jobs::stop))
        .route("/api/v1/jobs/{id}/renew", post(jobs::renew))
        .route("/api/v1/jobs/{id}/agents", get(jobs::accounts))
        .route("/api/v1/jobs/{id}/results", get(rows::results))
        .route("/api/v1/jobs/{id}/rows", get(rows::rows))
        .route("/api/v1/agents", get(jobs::agents))
        .route("/api/v1/tokens", get(tokens::list).post(tokens::create))
        .route("/api/v1/tokens/{id}", delete(tokens::revoke))
        .route("/api/v1/login", post(tokens::login).delete(tokens::logout))
        .route("/api/v1/audit", get(tokens::audit))
        .layer(middleware::from_fn_with_state(app.clone(), in_time));
    Router::new()
        .route("/api/v1/stream", get(stream::stream))
        .route("/api/v1/agent", get(agent::connect))
        .merge(timed)
        .fallback(async || Failure::not_found("there is nothing at this address"))
        .method_not_allowed_fallback(async || Failure::method())
        .layer(DefaultBodyLimit::max(app.service.limits().body_bytes_max))
        .layer(middleware::from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

/// Refuses requests by other names and from other origins; adds what keeps browsers careful.
async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = match caller::is_for_us(&app, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    };
    let headers = response.headers_mut();
    let mut say = |name, value| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    say(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    say(header::REFERRER_POLICY, "no-referrer");
    say(header::CACHE_CONTROL, "no-store");
    say(header::X_FRAME_OPTIONS, "DENY");
    say(
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    );
    response
}

async fn in_time(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(app.service.limits().request_time, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Failure::late().into_response(),
    }
}
