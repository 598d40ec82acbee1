//! A server started for a test, and its client.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::Value;
use server::{DataDirectory, HttpServer, NamedOutlets, Service, ServiceLimits};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::fleet::TestFleet;

/// Timeout.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, ended on drop.
pub struct Server {
    pub address: SocketAddr,
    pub token: String,
    pub fleet: Arc<TestFleet>,
    pub service: Option<Arc<Service>>,
    pub folder: PathBuf,
    runtime: Option<Runtime>,
    end: Option<oneshot::Sender<()>>,
    ended: Option<tokio::task::JoinHandle<()>>,
    _own: Option<tempfile::TempDir>,
}

/// A response.
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The response; panics for another status.
    pub fn of(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }
}

impl Server {
    /// Starts with its own folder.
    pub fn start(fleet: Arc<TestFleet>) -> Server {
        Server::with(fleet, ServiceLimits::default())
    }

    pub fn with(fleet: Arc<TestFleet>, limits: ServiceLimits) -> Server {
        let own = tempfile::tempdir().expect("a folder");
        let mut server = Server::over(own.path(), fleet, limits);
        server._own = Some(own);
        server
    }

    /// Starts with receivers of alerts, as in `serve --receiver`.
    pub fn telling(fleet: Arc<TestFleet>, limits: ServiceLimits, receivers: &[&str]) -> Server {
        let own = tempfile::tempdir().expect("a folder");
        let mut server = Server::over_with(
            own.path(),
            fleet,
            limits,
            receivers,
            NamedOutlets::default(),
        );
        server._own = Some(own);
        server
    }

    /// Starts on a data directory.
    pub fn over(folder: &Path, fleet: Arc<TestFleet>, limits: ServiceLimits) -> Server {
        Server::over_with(folder, fleet, limits, &[], NamedOutlets::default())
    }

    /// Starts on a data directory, with receivers of alerts and named outlets.
    pub fn over_with(
        folder: &Path,
        fleet: Arc<TestFleet>,
        limits: ServiceLimits,
        receivers: &[&str],
        outlets: NamedOutlets,
    ) -> Server {
        let mut opened = DataDirectory::open(folder, limits).expect("the data directory opens");
        opened.outlets = outlets;
        let receivers = receivers
            .iter()
            .map(|text| server::AlertReceiver::read(text).expect("a receiver"));
        opened.set_receivers(receivers.collect());
        fleet.attach(&opened.hub);
        let service = opened.serve(fleet.clone()).expect("the service begins");
        let runtime = Runtime::new().expect("a runtime");
        let loopback: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let serving = runtime
            .block_on(HttpServer::bind(service.clone(), loopback, &[]))
            .expect("a port");
        let address = serving.address().expect("its address");
        let (end, ending) = oneshot::channel();
        let ended = runtime.spawn(serving.until(async move {
            let _ = ending.await;
        }));
        let token = std::fs::read_to_string(folder.join("admin.token")).expect("the first token");
        Server {
            address,
            token: token.trim().to_owned(),
            fleet,
            service: Some(service),
            folder: folder.to_owned(),
            runtime: Some(runtime),
            end: Some(end),
            ended: Some(ended),
            _own: None,
        }
    }

    /// Sends a request as the admin.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        self.ask_with(method, path, &[("authorization", &bearer)], body)
    }

    /// Sends a request with another token.
    pub fn ask_as(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let bearer = format!("Bearer {token}");
        self.ask_with(method, path, &[("authorization", &bearer)], body)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None)
    }

    /// Sends a request with only these headers.
    pub fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Answer {
        let body = body.map(ToString::to_string);
        let kind = body.as_ref().map(|_| ("content-type", "application/json"));
        let headers: Vec<_> = headers.iter().copied().chain(kind).collect();
        self.ask_bytes(method, path, &headers, body.unwrap_or_default().as_bytes())
    }

    pub fn ask_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .allow_non_standard_methods(true)
            .timeout_global(Some(PATIENCE))
            .build();
        let agent = ureq::Agent::new_with_config(config);
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = agent
            .run(request.body(body.to_vec()).expect("a request"))
            .expect("an answer");
        let headers = response.headers().iter().map(|(name, value)| {
            (
                name.as_str().to_owned(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        });
        let status = response.status().as_u16();
        assert!(
            is_described(method, path, status),
            "{method} {path}: {status} is not in the API's description"
        );
        Answer {
            status,
            headers: headers.collect(),
            body: response
                .body_mut()
                .with_config()
                .limit(1 << 30)
                .read_to_vec()
                .expect("a body"),
        }
    }

    /// Starts a job; returns its number.
    pub fn job(&self, query: &str) -> String {
        self.job_of(&serde_json::json!({ "query": query }))
    }

    /// Starts a job by a request body; returns its number.
    pub fn job_of(&self, body: &Value) -> String {
        let made = self.ask("POST", "/api/v1/jobs", Some(body)).of(201);
        made.json()["id"].as_str().expect("a number").to_owned()
    }

    /// Waits until a job has ended; returns its rows.
    pub fn rows_at_end(&self, job: &str) -> Value {
        self.ended(job);
        let rows = format!("/api/v1/jobs/{job}/rows?limit=10000");
        self.get(&rows).of(200).json()["rows"].clone()
    }

    /// Waits until a job has ended.
    pub fn ended(&self, job: &str) -> Value {
        let started = Instant::now();
        loop {
            let found = self.get(&format!("/api/v1/jobs/{job}")).of(200).json();
            if found["state"] == "ended" {
                return found;
            }
            assert!(!self.fleet.has_panicked(), "the fleet has panicked");
            assert!(
                started.elapsed() < PATIENCE,
                "job {job} does not end: {found}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the server as by a signal.
    pub fn end(&mut self) {
        let (Some(runtime), Some(end), Some(ended)) =
            (self.runtime.take(), self.end.take(), self.ended.take())
        else {
            return;
        };
        let _ = end.send(());
        runtime.block_on(ended).expect("it ends");
        runtime.shutdown_timeout(PATIENCE);
        self.service = None;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}

/// Whether the API's description has this status for this request; true for what it does not describe, as the page.
fn is_described(method: &str, path: &str, status: u16) -> bool {
    static API: OnceLock<Value> = OnceLock::new();
    let api = API.get_or_init(|| serde_json::from_str(&server::openapi()).expect("JSON"));
    let segments: Vec<&str> = path
        .split('?')
        .next()
        .unwrap_or_default()
        .split('/')
        .collect();
    let is_of = |template: &str| {
        let of: Vec<&str> = template.split('/').collect();
        of.len() == segments.len()
            && of
                .iter()
                .zip(&segments)
                .all(|(of, is)| of.starts_with('{') || of == is)
    };
    let item = api["paths"]
        .as_object()
        .expect("paths")
        .iter()
        .find(|(template, _)| is_of(template));
    let responses = item.and_then(|(_, item)| item.get(method.to_lowercase())?.get("responses"));
    let statuses = [status.to_string(), format!("{}XX", status / 100)];
    responses.is_none_or(|responses| {
        statuses
            .iter()
            .any(|status| responses.get(status).is_some())
    })
}
