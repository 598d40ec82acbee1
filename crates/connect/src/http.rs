//! The set-up of HTTP clients. Redirects are not followed, so that credentials are sent only to the given address, and
//! a status is not an error.

use std::time::Duration;

use ureq::Agent;
use ureq::tls::TlsConfig;

use crate::authorities::TrustedAuthorities;

/// Settings of a client.
#[derive(Clone, Debug, Default)]
pub struct HttpSettings<'a> {
    /// Authorities of servers; `None`: for `http://` only.
    pub trusted: Option<&'a TrustedAuthorities>,
    /// Timeout of a connection.
    pub connect_max: Option<Duration>,
    /// Timeout of the head of a response.
    pub answer_max: Option<Duration>,
    /// Timeout of a request with its response.
    pub whole_max: Option<Duration>,
    /// Closes connections after a response. With one that breaks while idle it is unknown whether a request was
    /// received.
    pub closes_connections: bool,
}

impl HttpSettings<'_> {
    /// A client.
    #[must_use]
    pub fn agent(&self) -> Agent {
        let HttpSettings {
            trusted,
            connect_max,
            answer_max,
            whole_max,
            closes_connections,
        } = *self;
        let tls = trusted
            .into_iter()
            .fold(TlsConfig::builder(), |tls, trusted| {
                tls.root_certs(trusted.roots())
            });
        let mut config = Agent::config_builder()
            .tls_config(tls.build())
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(connect_max)
            .timeout_recv_response(answer_max)
            .timeout_global(whole_max)
            .user_agent(concat!("netalytics/", env!("CARGO_PKG_VERSION")));
        if closes_connections {
            config = config.max_idle_connections(0);
        }
        config.build().into()
    }
}
