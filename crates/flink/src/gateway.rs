//! A SQL Gateway with a session that is recreated when lost, with the same properties and prepared statements, in
//! order.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::FlinkCluster;
use crate::error::FlinkError;
use crate::http::{HttpClient, RequestRepeat};
use crate::options::GatewayOptions;
use crate::rows::StatementRows;
use crate::session::{self, SqlSession, StatementFailure};
use crate::version::{FlinkVersion, OLDEST};

/// Maximum attempts of a statement with a lost session.
const TRIES: usize = 3;

/// See the module documentation. Shared by threads.
pub struct SqlGateway {
    inner: Arc<SqlGatewayShared>,
    cluster: Option<FlinkCluster>,
    version: FlinkVersion,
    /// Dropping it ends the keepalive thread.
    _beats: mpsc::Sender<()>,
}

struct SqlGatewayShared {
    http: HttpClient,
    options: GatewayOptions,
    state: Mutex<SqlSessionState>,
}

#[derive(Default)]
struct SqlSessionState {
    /// Handle of the session, if any.
    handle: Option<String>,
    prepared: Vec<String>,
}

/// Whether a statement is idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementRepeat {
    /// Yes.
    Harmless,
    /// Possibly not.
    Harmful,
}

impl SqlGateway {
    /// Opens a session.
    ///
    /// # Errors
    /// `FlinkError::Unreachable` if there is no answer, `FlinkError::Foreign` or `FlinkError::TooOld` if the server is not a supported
    /// gateway.
    pub fn open(url: &str, options: GatewayOptions) -> Result<SqlGateway, FlinkError> {
        let http = HttpClient::new("the SQL Gateway", url, &options)?;
        let version = version(&http)?;
        let handle = session::open(&http, &options, Duration::ZERO)?;
        let properties = SqlSession {
            http: &http,
            handle: &handle,
            options: &options,
        }
        .properties()?;
        let cluster = match &options.cluster {
            Some(url) => Some(FlinkCluster::at(url, &options)?),
            None => FlinkCluster::learned(&properties, &options, &http),
        };
        let every = options
            .beat
            .unwrap_or_else(|| session::beat_every(&properties));
        let state = Mutex::new(SqlSessionState {
            handle: Some(handle),
            prepared: Vec::new(),
        });
        let inner = Arc::new(SqlGatewayShared {
            http,
            options,
            state,
        });
        let beats = keep_alive(&inner, every);
        Ok(SqlGateway {
            inner,
            cluster,
            version,
            _beats: beats,
        })
    }

    /// Version of Flink.
    #[must_use]
    pub fn version(&self) -> FlinkVersion {
        self.version
    }

    /// REST API of the cluster, if known and reachable when the session was opened.
    #[must_use]
    pub fn cluster(&self) -> Option<&FlinkCluster> {
        self.cluster.as_ref()
    }

    pub(crate) fn options(&self) -> &GatewayOptions {
        &self.inner.options
    }

    /// Executes a statement on which later ones depend (`CREATE TABLE`, `SET`, `ADD JAR`), and repeats it in each new
    /// session.
    ///
    /// # Errors
    /// `FlinkError::Statement` if Flink rejects it; then it is not repeated.
    pub fn prepare(&self, statement: &str) -> Result<StatementRows, FlinkError> {
        let rows = self.run(statement, &[], StatementRepeat::Harmless)?;
        self.inner.state().prepared.push(statement.to_owned());
        Ok(rows)
    }

    /// Executes a statement once. Its effects end with the session, except jobs.
    ///
    /// # Errors
    /// `FlinkError::Statement` if Flink rejects it, `FlinkError::Unclear` if the connection was lost during the request.
    pub fn execute(&self, statement: &str) -> Result<StatementRows, FlinkError> {
        self.run(statement, &[], StatementRepeat::Harmful)
    }

    /// Executes a statement with its own configuration.
    pub(crate) fn run(
        &self,
        statement: &str,
        config: &[(&str, &str)],
        again: StatementRepeat,
    ) -> Result<StatementRows, FlinkError> {
        let mut why = String::new();
        for _ in 0..TRIES {
            let handle = self.inner.handle()?;
            match self.inner.session(&handle).run(statement, config) {
                Ok(rows) => return Ok(rows),
                Err(StatementFailure::Error(error)) => return Err(error),
                Err(StatementFailure::Late(why)) => return Err(FlinkError::Unclear(why)),
                Err(StatementFailure::Gone) => self.inner.forget(&handle),
                Err(StatementFailure::Broken(broken)) => {
                    if again == StatementRepeat::Harmful {
                        return Err(FlinkError::Unclear(broken));
                    }
                    why = broken;
                    self.inner.forget(&handle);
                }
            }
        }
        Err(FlinkError::Unreachable(format!(
            "{} loses each session: {why}",
            self.inner.http.peer()
        )))
    }
}

impl Drop for SqlGateway {
    fn drop(&mut self) {
        if let Some(handle) = self.inner.state().handle.take() {
            self.inner.session(&handle).close();
        }
    }
}

impl SqlGatewayShared {
    fn state(&self) -> MutexGuard<'_, SqlSessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session<'s>(&'s self, handle: &'s str) -> SqlSession<'s> {
        SqlSession {
            http: &self.http,
            handle,
            options: &self.options,
        }
    }

    /// Handle of the session; creates and prepares one if there is none.
    fn handle(&self) -> Result<String, FlinkError> {
        let mut state = self.state();
        if let Some(handle) = &state.handle {
            return Ok(handle.clone());
        }
        let handle = session::open(&self.http, &self.options, self.options.patience)?;
        for statement in &state.prepared {
            if let Err(trouble) = self.session(&handle).run(statement, &[]) {
                return Err(match trouble {
                    StatementFailure::Error(error) => error,
                    StatementFailure::Gone => {
                        FlinkError::Unreachable(format!("{} loses each session", self.http.peer()))
                    }
                    StatementFailure::Broken(why) | StatementFailure::Late(why) => {
                        FlinkError::Unreachable(why)
                    }
                });
            }
        }
        state.handle = Some(handle.clone());
        Ok(handle)
    }

    /// Notes the loss of a session, unless another thread has replaced it.
    fn forget(&self, gone: &str) {
        let mut state = self.state();
        if state.handle.as_deref() == Some(gone) {
            state.handle = None;
        }
    }

    fn beat(&self) {
        let Some(handle) = self.state().handle.clone() else {
            return;
        };
        // Without an answer the state is unknown.
        if matches!(self.session(&handle).beat(), Ok(false)) {
            self.forget(&handle);
        }
    }
}

/// Sends keepalives for the session until the sender is dropped.
fn keep_alive(inner: &Arc<SqlGatewayShared>, every: Duration) -> mpsc::Sender<()> {
    let (sender, receiver) = mpsc::channel();
    let inner = Arc::downgrade(inner);
    thread::spawn(move || {
        while receiver.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
            match inner.upgrade() {
                Some(inner) => inner.beat(),
                None => return,
            }
        }
    });
    sender
}

/// Version of Flink at an address.
fn version(http: &HttpClient) -> Result<FlinkVersion, FlinkError> {
    let ask = |path: &str| http.ask("GET", path, None, RequestRepeat::Harmless, Duration::ZERO);
    let answer = ask("/v1/info")?;
    let is_gateway = answer.is_fine() && answer.body["productName"].is_string();
    let Some(said) = answer.body["version"].as_str().filter(|_| is_gateway) else {
        let other = ask("/config")?;
        return Err(match &other.body["flink-version"] {
            Value::String(_) => FlinkError::WrongUse(format!(
                "{} is Flink's own REST API: the SQL Gateway's address is required (usually port 8083)",
                http.peer()
            )),
            _ => http.foreign(&answer),
        });
    };
    match FlinkVersion::parse(said) {
        Some(version) if version >= OLDEST => Ok(version),
        Some(_) => Err(FlinkError::TooOld(format!(
            "{} is Flink {said}: {OLDEST} or later is needed",
            http.peer()
        ))),
        None => Err(FlinkError::Foreign(format!(
            "{} reports the invalid version {said:?}",
            http.peer()
        ))),
    }
}
