//! Options of a gateway client: authentication, timeouts and limits.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;

/// Credentials for Flink or a proxy in front of it; never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct FlinkAuthorization(String);

impl FlinkAuthorization {
    /// Bearer token.
    #[must_use]
    pub fn bearer(token: &str) -> FlinkAuthorization {
        FlinkAuthorization(format!("Bearer {token}"))
    }

    /// User name and password.
    #[must_use]
    pub fn basic(user: &str, password: &str) -> FlinkAuthorization {
        let both = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        FlinkAuthorization(format!("Basic {both}"))
    }

    /// Complete value of the header.
    #[must_use]
    pub fn raw(value: impl Into<String>) -> FlinkAuthorization {
        FlinkAuthorization(value.into())
    }

    pub(crate) fn header(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for FlinkAuthorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// Address of the JobManager's REST API. `None`: the one reported by the gateway, if reachable.
    pub cluster: Option<String>,
    /// Credentials for the gateway and `cluster`; never sent to an address reported by the gateway.
    pub authorization: Option<FlinkAuthorization>,
    /// PEM file with trusted certificate authorities, instead of the system's.
    pub authorities: Option<PathBuf>,
    /// Properties of the session, from Flink's configuration.
    pub properties: Vec<(String, String)>,
    /// Heartbeat interval of the session. `None`: three times per session timeout.
    pub beat: Option<Duration>,
    /// Timeout of a response.
    pub answer: Duration,
    /// Timeout of a statement; a job may have to be compiled.
    pub statement: Duration,
    /// Time for which unanswered requests are retried.
    pub patience: Duration,
    /// Time limit for a job to end after a request.
    pub ending: Duration,
    /// Maximum bytes of a response.
    pub answer_bytes_max: u64,
    /// Maximum rows of a statement's result.
    pub rows_max: usize,
}

impl Default for GatewayOptions {
    fn default() -> GatewayOptions {
        GatewayOptions {
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
