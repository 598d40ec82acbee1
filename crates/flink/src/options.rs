//! How a gateway is asked, and for how long.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;

/// What a proxy in front of Flink, or Flink itself, is shown. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorization(String);

impl Authorization {
    /// A token.
    #[must_use]
    pub fn bearer(token: &str) -> Authorization {
        Authorization(format!("Bearer {token}"))
    }

    /// A name and a password.
    #[must_use]
    pub fn basic(user: &str, password: &str) -> Authorization {
        let both = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        Authorization(format!("Basic {both}"))
    }

    /// The header's whole value, as it came from elsewhere.
    #[must_use]
    pub fn raw(value: impl Into<String>) -> Authorization {
        Authorization(value.into())
    }

    pub(crate) fn header(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address of Flink's own REST API, which is the JobManager's. `None`: where the gateway says that it is, if it can be
    /// reached from here.
    pub cluster: Option<String>,
    /// Who asks. It goes to the gateway, and to `cluster`, but never to an address that was only learned.
    pub authorization: Option<Authorization>,
    /// A file (PEM) with the certificates of the authorities that are trusted, instead of the usual ones.
    pub authorities: Option<PathBuf>,
    /// What the session is made with, as of Flink's configuration.
    pub properties: Vec<(String, String)>,
    /// Heartbeat interval of the session. `None`: three times per session timeout.
    pub beat: Option<Duration>,
    /// Time for one answer.
    pub answer: Duration,
    /// Time for a statement; a job may have to be compiled.
    pub statement: Duration,
    /// Time for which unanswered requests are retried.
    pub patience: Duration,
    /// Time for a job to end that is asked to.
    pub ending: Duration,
    /// Most bytes of one answer.
    pub answer_bytes_max: u64,
    /// Most rows of one statement's result.
    pub rows_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cluster: None,
            authorization: None,
            authorities: None,
            properties: Vec::new(),
            beat: None,
            answer: Duration::from_secs(20),
            statement: Duration::from_secs(120),
            patience: Duration::from_secs(60),
            ending: Duration::from_secs(90),
            answer_bytes_max: 16 << 20,
            rows_max: 100_000,
        }
    }
}
