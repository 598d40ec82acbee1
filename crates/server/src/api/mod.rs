//! The service over HTTP/1.1: connections, limits, and authentication; `jobs::service` implements the requests.
//!
//! All errors have one format. Cross-origin requests and foreign host names are rejected. Requests other than streams
//! have a time limit.

mod actions;
mod admission;
mod agent;
mod alerts;
mod app;
mod assets;
mod caller;
mod catalog;
mod connections;
mod enrollments;
mod failure;
mod flows;
mod front;
mod help;
mod jobs;
mod json;
mod metrics;
mod metrics_page;
mod network;
mod openapi;
mod packets;
mod page;
mod params;
mod past;
mod proxy_header;
mod query_assist;
mod rate;
mod recordings;
pub(crate) mod row_formats;
mod rows;
mod rule_requests;
pub(crate) mod service;
mod sessions;
mod stream;
mod stream_events;
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
use axum::routing::{delete, get, post, put};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::api::catalog::CatalogText;
use crate::api::service::Service;
use crate::job::counters::LimitKind;
use crate::store::tls::ServerTls;
use admission::ConnectionAdmission;
use app::AppState;
use assets::PageAssets;
use failure::ApiFailure;
use rate::RateLimits;

pub use assets::PageFile;
pub use openapi::openapi;
pub(crate) use {params::time as read_time, stream::position as read_position};

/// Time limit for requests in progress when the service ends.
const END_TIME: Duration = Duration::from_secs(5);
/// Maximum concurrent uploads.
const SENDING_AT_ONCE: usize = 4;
/// Housekeeping interval.
const LOOK_AFTER_EVERY: Duration = Duration::from_secs(10);
/// Interval at which leases of jobs are checked.
const LEASES_EVERY: Duration = Duration::from_millis(500);

/// A listening service.
pub struct HttpServer {
    listener: TcpListener,
    app: AppState,
    /// Certificates are reloaded when it changes.
    anew: watch::Receiver<u64>,
    end: watch::Sender<bool>,
}

impl HttpServer {
    /// Listens on `address`; `names` are host names that clients may use in addition to those of the loopback
    /// interface.
    ///
    /// # Errors
    /// If the address is unavailable.
    pub async fn bind(
        service: Arc<Service>,
        address: SocketAddr,
        names: &[String],
    ) -> io::Result<HttpServer> {
        let listener = TcpListener::bind(address).await?;
        let bound = listener.local_addr()?;
        let (end, ending) = watch::channel(false);
        let app = AppState {
            hosts: hosts(bound, names),
            assets: PageAssets::default(),
            rates: RateLimits::new(service.limits().requests_per_second),
            catalog: CatalogText::of(service.jobs.queries.schemas.iter().map(AsRef::as_ref)),
            started: Instant::now(),
            ending,
            admission: ConnectionAdmission::new(service.limits().connections_max),
            connections_waited: AtomicU64::new(0),
            tls: None,
            revoked: watch::Sender::default(),
            sending_room: Arc::new(Semaphore::new(SENDING_AT_ONCE)),
            past_room: Arc::new(Semaphore::new(service.limits().past.at_once)),
            selecting_room: Arc::new(Semaphore::new(service.limits().past.at_once)),
            service,
        };
        Ok(HttpServer {
            listener,
            app,
            anew: watch::channel(0).1,
            end,
        })
    }

    /// Sets the files of the page for browsers.
    pub fn show(&mut self, files: Vec<PageFile>) {
        self.app.assets = PageAssets::of(files);
    }

    /// Requires TLS. Changing the returned value reloads the certificates.
    pub fn secure(&mut self, tls: ServerTls) -> watch::Sender<u64> {
        let https: Vec<_> = self
            .app
            .hosts
            .iter()
            .filter_map(|name| Some(name.strip_suffix(":443")?.to_owned()))
            .collect();
        self.app.hosts.extend(https);
        self.app.tls = Some(Arc::new(tls));
        let (anew, asked) = watch::channel(0);
        self.anew = asked;
        anew
    }

    /// Address on which it listens.
    ///
    /// # Errors
    /// The socket's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `end` resolves, then finishes the requests in progress.
    pub async fn until(self, end: impl Future<Output = ()>) {
        let HttpServer {
            listener,
            app,
            anew,
            end: tell_end,
        } = self;
        let app = Arc::new(app);
        if let Some(tls) = app.tls.clone() {
            tokio::spawn(tls.keep(anew, app.ending.clone()));
        }
        let router = router(app.clone());
        let room = Arc::new(Semaphore::new(app.service.limits().connections_max));
        let looking = tokio::spawn(look_after(app.service.clone(), app.ending.clone()));
        tokio::pin!(end);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut end => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // For example, no file descriptors: some will be free soon.
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            if room.available_permits() == 0 {
                app.connections_waited.fetch_add(1, Ordering::Relaxed);
                app.admission.make_room();
            }
            // If all connections are authenticated, it waits for one to end, as do those in the listen queue.
            let permit = tokio::select! {
                permit = room.clone().acquire_owned() => permit,
                () = &mut end => break,
            };
            let accepted = connections::AcceptedConnection::new(&app, stream, peer);
            let app = app.clone();
            let router = router.clone();
            tokio::spawn(async move {
                accepted.serve(app, router).await;
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

/// Periodic housekeeping of the service and its leases.
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
            service.jobs.end_abandoned();
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

/// Host names accepted from clients, with the port. The operator's names also without one: a proxy may listen at the
/// default port.
fn hosts(bound: SocketAddr, names: &[String]) -> Vec<String> {
    let address = match bound {
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    };
    let own = ["localhost", "127.0.0.1", "[::1]", &address].map(str::to_owned);
    let given: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    let port = bound.port();
    let is_default = port == 80;
    let with_port = |name: &String| format!("{name}:{port}");
    let all = own.iter().chain(&given).map(with_port);
    let bare = own.iter().filter(|_| is_default).chain(&given).cloned();
    all.chain(bare).collect()
}

fn router(app: Arc<AppState>) -> Router {
    let timed = Router::new()
        .route("/", get(front::home))
        .route("/favicon.svg", get(front::icon))
        .route("/LICENSES.txt", get(front::licenses))
        .route("/assets/{name}", get(front::file))
        .route("/status", get(page::status))
        .route("/login", post(page::login))
        .route("/logout", post(page::logout))
        .route("/style.css", get(page::style))
        .route("/metrics", get(metrics::own))
        .route("/metrics/jobs", get(metrics::of_jobs))
        .route("/api/v1/health", get(help::health))
        .route("/api/v1/counters", get(help::counters))
        .route("/api/v1/openapi.json", get(openapi::document))
        .route("/api/v1/catalog", get(help::catalog))
        .route("/api/v1/check", post(help::check))
        .route("/api/v1/explain", post(help::explain))
        .route("/api/v1/query", post(past::query))
        .route("/api/v1/jobs", get(jobs::list).post(jobs::create))
        .route("/api/v1/jobs/{id}", get(jobs::show).delete(jobs::stop))
        .route("/api/v1/jobs/{id}/renew", post(jobs::renew))
        .route("/api/v1/jobs/{id}/agents", get(jobs::accounts))
        .route("/api/v1/jobs/{id}/results", get(rows::results))
        .route("/api/v1/jobs/{id}/rows", get(rows::rows))
        .route("/api/v1/agents", get(jobs::agents))
        .route("/api/v1/network", get(network::show))
        .route("/api/v1/recordings", get(recordings::list))
        .route("/api/v1/recordings/{id}", delete(recordings::remove))
        .route(
            "/api/v1/recordings/{id}/conversation",
            get(flows::conversation),
        )
        .route("/api/v1/recordings/{id}/packets", get(flows::packets))
        .route("/api/v1/packets", post(packets::fetch))
        .route("/api/v1/tokens", get(tokens::list).post(tokens::create))
        .route("/api/v1/tokens/{id}", delete(tokens::revoke))
        .route(
            "/api/v1/login",
            get(tokens::whoami)
                .post(tokens::login)
                .delete(tokens::logout),
        )
        .route("/api/v1/audit", get(tokens::audit))
        .route(
            "/api/v1/enrolments",
            get(enrollments::list).post(enrollments::invite),
        )
        .route("/api/v1/enrolments/{agent}", delete(enrollments::revoke))
        .route("/api/v1/enrol", post(enrollments::enroll))
        .route("/api/v1/renew", post(enrollments::renew))
        .route("/api/v1/alerts", get(alerts::list))
        .route(
            "/api/v1/alert-rules",
            get(alerts::rules).post(alerts::create_rule),
        )
        .route(
            "/api/v1/alert-rules/{id}",
            get(alerts::show_rule)
                .put(alerts::replace_rule)
                .delete(alerts::remove_rule),
        )
        .route(
            "/api/v1/silences",
            get(alerts::silences).post(alerts::create_silence),
        )
        .route(
            "/api/v1/silences/{id}",
            put(alerts::replace_silence).delete(alerts::end_silence),
        )
        .route("/api/v1/receivers", get(alerts::receivers))
        .route("/api/v1/receivers/{id}/test", post(alerts::test_receiver))
        .route("/api/v1/actions", get(actions::list).post(actions::create))
        .route(
            "/api/v1/actions/{id}",
            get(actions::show).delete(actions::remove),
        )
        .route("/api/v1/actions/{id}/decisions", get(actions::decisions))
        .layer(middleware::from_fn_with_state(app.clone(), in_time));
    Router::new()
        .route("/api/v1/stream", get(stream::stream))
        .route("/api/v1/agent", get(agent::connect))
        // Large files take longer than the time limit.
        .route("/api/v1/recordings", post(recordings::send))
        .merge(timed)
        .fallback(async || ApiFailure::not_found("no resource exists at this address"))
        .method_not_allowed_fallback(async || ApiFailure::method())
        .layer(DefaultBodyLimit::max(app.service.limits().body_bytes_max))
        .layer(middleware::from_fn_with_state(app.clone(), guard))
        .layer(middleware::from_fn_with_state(
            app.clone(),
            metrics::measured,
        ))
        .with_state(app)
}

/// Rejects foreign host names and origins; adds security headers.
async fn guard(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let is_remembered = app.tls.is_some() && caller::is_usual_https(request.headers());
    let mut response = match caller::is_for_us(&app, request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    };
    let headers = response.headers_mut();
    let mut say = |name, value| {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    };
    say(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    say(header::REFERRER_POLICY, "no-referrer");
    say(header::CACHE_CONTROL, "no-store");
    say(header::X_FRAME_OPTIONS, "DENY");
    say(
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    );
    if is_remembered {
        say(header::STRICT_TRANSPORT_SECURITY, "max-age=31536000");
    }
    response
}

async fn in_time(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(app.service.limits().request_time, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            app.service.hub().meters.reached(LimitKind::RequestTime);
            ApiFailure::late().into_response()
        }
    }
}
