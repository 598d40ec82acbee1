//! A SQL Gateway with a session that is recreated when lost, with the same properties and prepared statements, in
//! order.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::http::{Http, Repeat};
use crate::options::Options;
use crate::rows::Rows;
use crate::session::{self, Session, Trouble};
use crate::version::{OLDEST, Version};

/// Maximum attempts of a statement with a lost session.
const TRIES: usize = 3;

/// See the module documentation. Shared by threads.
pub struct Gateway {
    inner: Arc<Inner>,
    cluster: Option<Cluster>,
    version: Version,
    /// Dropping it ends the keepalive thread.
    _beats: mpsc::Sender<()>,
}

struct Inner {
    http: Http,
    options: Options,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Handle of the session, if any.
    handle: Option<String>,
    prepared: Vec<String>,
}

/// Whether a statement is idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// Yes.
    Harmless,
    /// Possibly not.
    Harmful,
}

impl Gateway {
    /// Opens a session.
    ///
    /// # Errors
    /// `Error::Unreachable` if there is no answer, `Error::Foreign` or `Error::TooOld` if the server is not a supported
    /// gateway.
    pub fn open(url: &str, options: Options) -> Result<Gateway, Error> {
        let http = Http::new("the SQL Gateway", url, &options)?;
        let version = version(&http)?;
        let handle = session::open(&http, &options, Duration::ZERO)?;
        let properties = Session { http: &http, handle: &handle, options: &options }.properties()?;
        let cluster = match &options.cluster {
            Some(url) => Some(Cluster::at(url, &options)?),
            None => Cluster::learned(&properties, &options, &http),
        };
        let every = options.beat.unwrap_or_else(|| session::beat_every(&properties));
        let state = Mutex::new(State { handle: Some(handle), prepared: Vec::new() });
        let inner = Arc::new(Inner { http, options, state });
        let beats = keep_alive(&inner, every);
        Ok(Gateway { inner, cluster, version, _beats: beats })
    }

    /// Version of Flink.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// REST API of the cluster, if known and reachable when the session was opened.
    #[must_use]
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    /// Executes a statement on which later ones depend (`CREATE TABLE`, `SET`, `ADD JAR`), and repeats it in each new
    /// session.
    ///
    /// # Errors
    /// `Error::Statement` if Flink rejects it; then it is not repeated.
    pub fn prepare(&self, statement: &str) -> Result<Rows, Error> {
        let rows = self.run(statement, &[], Again::Harmless)?;
        self.inner.state().prepared.push(statement.to_owned());
        Ok(rows)
    }

    /// Executes a statement once. Its effects end with the session, except jobs.
    ///
    /// # Errors
    /// `Error::Statement` if Flink rejects it, `Error::Unclear` if the connection was lost during the request.
    pub fn execute(&self, statement: &str) -> Result<Rows, Error> {
        self.run(statement, &[], Again::Harmful)
    }

    /// Executes a statement with its own configuration.
    pub(crate) fn run(&self, statement: &str, config: &[(&str, &str)], again: Again) -> Result<Rows, Error> {
        let mut why = String::new();
        for _ in 0..TRIES {
            let handle = self.inner.handle()?;
            match self.inner.session(&handle).run(statement, config) {
                Ok(rows) => return Ok(rows),
                Err(Trouble::Error(error)) => return Err(error),
                Err(Trouble::Late(why)) => return Err(Error::Unclear(why)),
                Err(Trouble::Gone) => self.inner.forget(&handle),
                Err(Trouble::Broken(broken)) => {
                    if again == Again::Harmful {
                        return Err(Error::Unclear(broken));
                    }
                    why = broken;
                    self.inner.forget(&handle);
                }
            }
        }
        Err(Error::Unreachable(format!("{} loses each session: {why}", self.inner.http.whom())))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(handle) = self.inner.state().handle.take() {
            self.inner.session(&handle).close();
        }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session<'s>(&'s self, handle: &'s str) -> Session<'s> {
        Session { http: &self.http, handle, options: &self.options }
    }

    /// Handle of the session; creates and prepares one if there is none.
    fn handle(&self) -> Result<String, Error> {
        let mut state = self.state();
        if let Some(handle) = &state.handle {
            return Ok(handle.clone());
        }
        let handle = session::open(&self.http, &self.options, self.options.patience)?;
        for statement in &state.prepared {
            if let Err(trouble) = self.session(&handle).run(statement, &[]) {
                return Err(match trouble {
                    Trouble::Error(error) => error,
                    Trouble::Gone => Error::Unreachable(format!("{} loses each session", self.http.whom())),
                    Trouble::Broken(why) | Trouble::Late(why) => Error::Unreachable(why),
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
        let Some(handle) = self.state().handle.clone() else { return };
        // Without an answer the state is unknown.
        if matches!(self.session(&handle).beat(), Ok(false)) {
            self.forget(&handle);
        }
    }
}

/// Sends keepalives for the session until the sender is dropped.
fn keep_alive(inner: &Arc<Inner>, every: Duration) -> mpsc::Sender<()> {
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
fn version(http: &Http) -> Result<Version, Error> {
    let ask = |path: &str| http.ask("GET", path, None, Repeat::Harmless, Duration::ZERO);
    let answer = ask("/v1/info")?;
    let said = answer.body["version"].as_str();
    let (true, Some(said)) = (answer.is_fine(), said.filter(|_| answer.body["productName"].is_string()))
    else {
        let other = ask("/config")?;
        return Err(match &other.body["flink-version"] {
            Value::String(_) => Error::WrongUse(format!(
                "{} is Flink's own REST API: the SQL Gateway's address is wanted (usually port 8083)",
                http.whom()
            )),
            _ => http.foreign(&answer),
        });
    };
    match Version::parse(said) {
        Some(version) if version >= OLDEST => Ok(version),
        Some(_) => {
            Err(Error::TooOld(format!("{} is Flink {said}: {OLDEST} or later is needed", http.whom())))
        }
        None => Err(Error::Foreign(format!("{} calls itself Flink {said:?}", http.whom()))),
    }
}
