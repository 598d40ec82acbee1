//! A server with a real gateway, which can be killed and restarted on its data directory.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use server::{
    DataDirectory, Fleet, Gateway, GatewayBackends, GatewaySettings, HttpServer, Service,
    ServiceLimits,
};
use tokio::runtime::Runtime;

/// Timeout.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// See the module documentation.
pub struct Center {
    pub folder: tempfile::TempDir,
    pub settings: GatewaySettings,
    doors: GatewayBackends,
    /// Current address, for agents.
    pub address: Arc<Mutex<SocketAddr>>,
    pub service: Option<Arc<Service>>,
    runtime: Option<Runtime>,
    admin: String,
}

impl Center {
    pub fn start(settings: GatewaySettings) -> Center {
        Center::with(settings, GatewayBackends::default())
    }

    pub fn with(settings: GatewaySettings, doors: GatewayBackends) -> Center {
        let nowhere: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        let mut center = Center {
            folder: tempfile::tempdir().expect("a folder"),
            settings,
            doors,
            address: Arc::new(Mutex::new(nowhere)),
            service: None,
            runtime: None,
            admin: String::new(),
        };
        center.begin();
        center
    }

    pub fn begin(&mut self) {
        let started = Instant::now();
        let opened = loop {
            // The previous process may not have released the directory yet.
            match DataDirectory::open(self.folder.path(), ServiceLimits::default()) {
                Ok(opened) => break opened,
                Err(error) => assert!(started.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let gateway = Gateway::open_with(&opened, self.settings, self.doors.clone())
            .expect("the gateway opens");
        let service = opened
            .serve(gateway as Arc<dyn Fleet>)
            .expect("the service begins");
        let runtime = Runtime::new().expect("a runtime");
        let loopback: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let serving = runtime
            .block_on(HttpServer::bind(service.clone(), loopback, &[]))
            .expect("a port");
        *self.address.lock().expect("an address") = serving.address().expect("its address");
        runtime.spawn(serving.until(std::future::pending()));
        let admin = std::fs::read_to_string(self.folder.path().join("admin.token"))
            .expect("the first token");
        self.admin = admin.trim().to_owned();
        self.service = Some(service);
        self.runtime = Some(runtime);
    }

    /// Only data on disk survives.
    pub fn kill(&mut self) {
        self.service = None;
        self.runtime
            .take()
            .into_iter()
            .for_each(|runtime| runtime.shutdown_timeout(PATIENCE));
    }

    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let url = format!("http://{}{path}", self.address.lock().expect("an address"));
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(url)
            .header("authorization", format!("Bearer {}", self.admin))
            .header("content-type", "application/json")
            .body(body.map(Value::to_string).unwrap_or_default())
            .expect("a request");
        let mut answer = agent.run(request).expect("an answer");
        let text = answer.body_mut().read_to_string().expect("a text");
        (
            answer.status().as_u16(),
            serde_json::from_str(&text).unwrap_or(Value::String(text)),
        )
    }

    /// Token for an agent.
    pub fn token(&self, name: &str) -> String {
        let (status, made) = self.ask(
            "POST",
            "/api/v1/tokens",
            Some(&json!({ "name": name, "role": "agent" })),
        );
        assert_eq!(status, 201, "{made}");
        made["secret"].as_str().expect("a secret").to_owned()
    }

    /// Submits a job.
    pub fn submit(&self, query: &str, kind: &str) -> (u16, Value) {
        let body = json!({ "query": query, "kind": kind, "redact": false });
        self.ask("POST", "/api/v1/jobs", Some(&body))
    }

    /// Starts a job; returns its number.
    pub fn job(&self, query: &str, kind: &str) -> String {
        let (status, made) = self.submit(query, kind);
        assert_eq!(status, 201, "{made}");
        made["id"].as_str().expect("a number").to_owned()
    }

    pub fn show(&self, job: &str) -> Value {
        self.ask("GET", &format!("/api/v1/jobs/{job}"), None).1
    }

    /// Rows of a job's result as lists of cells.
    pub fn rows(&self, job: &str, result: usize) -> Vec<Value> {
        let mut rows = Vec::new();
        let mut after = String::new();
        loop {
            let path = format!("/api/v1/jobs/{job}/rows?result={result}&limit=1000{after}");
            let (status, page) = self.ask("GET", &path, None);
            if status != 200 {
                return rows;
            }
            rows.extend(page["rows"].as_array().cloned().unwrap_or_default());
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return rows,
            }
        }
    }

    /// The live stream of a job up to a text.
    pub fn watch(&self, job: &str, until: &str) -> String {
        let address = *self.address.lock().expect("an address");
        let mut stream = TcpStream::connect(address).expect("it listens");
        let token = &self.admin;
        write!(
            stream,
            "GET /api/v1/stream?jobs={job} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        .expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut said = String::new();
        let mut buffer = [0; 4096];
        while !said.contains(until) {
            let n = stream.read(&mut buffer).expect("more is said");
            assert!(n > 0, "the stream has ended: {said}");
            said.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
        said
    }

    /// Waits until the condition holds.
    pub fn until<T>(&self, what: &str, is_so: impl Fn(&Center) -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(found) = is_so(self) {
                return found;
            }
            assert!(started.elapsed() < PATIENCE, "{what}: it does not come");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn ended(&self, job: &str) -> Value {
        let started = Instant::now();
        loop {
            let shown = self.show(job);
            if shown["state"] == "ended" {
                return shown;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "job {job} does not end: {shown}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until `n` agents are connected.
    pub fn agents(&self, n: usize) {
        self.until("agents", |center| {
            let (_, told) = center.ask("GET", "/api/v1/agents", None);
            let agents = told["agents"].as_array()?;
            (agents
                .iter()
                .filter(|agent| agent["connected"] == true)
                .count()
                >= n)
                .then_some(())
        });
    }
}
