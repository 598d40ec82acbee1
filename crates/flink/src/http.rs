//! Requests to one address, with limits of time and size. A request that did not reach the server is retried within a
//! time limit; one that may have reached it only if it is idempotent.

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use connect::{HttpSettings, RetryPolicy, TrustedAuthorities};
use serde_json::Value;
use ureq::Agent;
use ureq::http::Request;

use crate::address::address;
use crate::error::FlinkError;
use crate::error_summary::ErrorSummary;
use crate::options::{FlinkAuthorization, GatewayOptions};

/// Timeout of requests whose result does not matter.
const FAREWELL: Duration = Duration::from_secs(3);
/// Connection timeout.
const CONNECT: Duration = Duration::from_secs(5);

/// Whether a request is idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestRepeat {
    /// Yes.
    Harmless,
    /// Possibly not.
    Harmful,
}

/// A response with its status.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    /// Null if the body is not JSON.
    pub(crate) body: Value,
    text: String,
}

impl HttpAnswer {
    pub(crate) fn is_fine(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Stack traces in an error response of Flink.
    pub(crate) fn stack(&self) -> String {
        let errors = self.body["errors"].as_array();
        let texts: Vec<&str> = errors
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        texts.join("\n")
    }
}

/// Failure of a request.
#[derive(Debug)]
enum HttpFailure {
    /// The request did not reach the server.
    Unheard(String),
    /// The request may have reached the server.
    Unanswered(String),
    /// The response is malformed.
    Unreadable(String),
}

/// A client for one server.
pub(crate) struct HttpClient {
    agent: Agent,
    base: String,
    /// Name of the server for messages.
    peer: &'static str,
    authorization: Option<FlinkAuthorization>,
    answer: Duration,
    bytes_max: u64,
}

impl HttpClient {
    /// A client for an address, which may contain credentials.
    pub(crate) fn new(
        peer: &'static str,
        url: &str,
        options: &GatewayOptions,
    ) -> Result<HttpClient, FlinkError> {
        let (base, in_url) = address(peer, url)?;
        let file = options.authorities.as_deref();
        let is_tls = base.starts_with("https://") || file.is_some();
        let trusted = is_tls.then(|| TrustedAuthorities::new(file)).transpose();
        let trusted = trusted.map_err(|why| FlinkError::WrongUse(why.to_string()))?;
        let settings = HttpSettings {
            trusted: trusted.as_ref(),
            connect_max: Some(CONNECT.min(options.answer)),
            closes_connections: true,
            ..HttpSettings::default()
        };
        Ok(HttpClient {
            agent: settings.agent(),
            base,
            peer,
            authorization: in_url.or_else(|| options.authorization.clone()),
            answer: options.answer,
            bytes_max: options.answer_bytes_max,
        })
    }

    /// Name and address of the server without secrets, for messages.
    pub(crate) fn peer(&self) -> String {
        format!("{} at {}", self.peer, self.base)
    }

    /// Host name in the address.
    pub(crate) fn host(&self) -> &str {
        let rest = self.base.split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split('/').next().unwrap_or(rest);
        match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => authority,
        }
    }

    /// Sends a request, with retries until `patience` has elapsed.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        repeat: RequestRepeat,
        patience: Duration,
    ) -> Result<HttpAnswer, FlinkError> {
        let begun = Instant::now();
        let mut delays = RetryPolicy::FLINK.delays(u64::from(std::process::id()));
        loop {
            let asked = self.ask_once(method, path, body, self.answer);
            let may_again = match &asked {
                Err(HttpFailure::Unheard(_)) => true,
                Err(HttpFailure::Unanswered(_)) => repeat == RequestRepeat::Harmless,
                // Sent by a proxy whose upstream is not available.
                Ok(answer) => {
                    matches!(answer.status, 502..=504) && repeat == RequestRepeat::Harmless
                }
                Err(HttpFailure::Unreadable(_)) => false,
            };
            let delay = delays.next_delay();
            if !may_again || begun.elapsed() + delay > patience {
                return self.told(asked, repeat);
            }
            thread::sleep(delay);
        }
    }

    fn told(
        &self,
        asked: Result<HttpAnswer, HttpFailure>,
        repeat: RequestRepeat,
    ) -> Result<HttpAnswer, FlinkError> {
        let peer = self.peer();
        let answer = match asked {
            Ok(answer) => answer,
            Err(HttpFailure::Unheard(why)) => {
                return Err(FlinkError::Unreachable(format!(
                    "cannot query {peer}: {why}"
                )));
            }
            Err(HttpFailure::Unanswered(why)) => {
                let sentence = format!("{peer} does not respond: {why}");
                return Err(match repeat {
                    RequestRepeat::Harmless => FlinkError::Unreachable(sentence),
                    RequestRepeat::Harmful => FlinkError::Unclear(sentence),
                });
            }
            Err(HttpFailure::Unreadable(why)) => {
                return Err(FlinkError::Foreign(format!(
                    "the response of {peer} cannot be read: {why}"
                )));
            }
        };
        match answer.status {
            401 => Err(FlinkError::Refused(format!(
                "{peer} requires authentication (status 401)"
            ))),
            403 => Err(FlinkError::Refused(format!(
                "{peer} denies access (status 403)"
            ))),
            502..=504 => Err(FlinkError::Unreachable(format!(
                "{peer} cannot be reached: status {}",
                answer.status
            ))),
            300..=399 => Err(FlinkError::Foreign(format!(
                "{peer} answers with status {}: use the address of the redirect",
                answer.status
            ))),
            _ => Ok(answer),
        }
    }

    /// Error for a response that is not from Flink.
    pub(crate) fn foreign(&self, answer: &HttpAnswer) -> FlinkError {
        let peer = self.peer();
        let stack = answer.stack();
        if stack.is_empty() {
            let text: String = answer.text.trim().chars().take(120).collect();
            FlinkError::Foreign(format!(
                "{peer} does not respond like Flink (status {}): {text:?}",
                answer.status
            ))
        } else {
            FlinkError::Refused(format!("{peer}: {}", ErrorSummary::of(&stack)))
        }
    }

    /// Requests a deletion once, without waiting long for the answer.
    pub(crate) fn farewell(&self, path: &str) {
        let _ = self.ask_once("DELETE", path, None, FAREWELL);
    }

    fn ask_once(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        within: Duration,
    ) -> Result<HttpAnswer, HttpFailure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("accept", "application/json");
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization.header());
        }
        let bytes = body.map(ToString::to_string).unwrap_or_default();
        let request = request
            .body(bytes)
            .map_err(|error| HttpFailure::Unheard(error.to_string()))?;
        let request = self
            .agent
            .configure_request(request)
            .timeout_global(Some(within))
            .build();
        let mut response = self
            .agent
            .run(request)
            .map_err(|error| self.failure(&error))?;
        let limited = response.body_mut().with_config().limit(self.bytes_max);
        let bytes = limited.read_to_vec().map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => {
                HttpFailure::Unreadable(format!("it has more than {} bytes", self.bytes_max))
            }
            other => self.failure(&other),
        })?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(HttpAnswer {
            status: response.status().as_u16(),
            body,
            text,
        })
    }

    fn failure(&self, error: &ureq::Error) -> HttpFailure {
        use ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
        // An error may quote the address, but never the header.
        let why = match error {
            ureq::Error::Timeout(_) => "it takes too long".to_owned(),
            ureq::Error::Io(io) if io.kind() == ConnectionRefused => {
                "nothing listens there".to_owned()
            }
            other => other.to_string(),
        };
        match error {
            ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => {
                HttpFailure::Unheard(why)
            }
            ureq::Error::Io(io)
                if [ConnectionRefused, HostUnreachable, NetworkUnreachable]
                    .contains(&io.kind()) =>
            {
                HttpFailure::Unheard(why)
            }
            // A certificate error is permanent.
            ureq::Error::Io(io)
                if io.kind() == ErrorKind::InvalidData && why.contains("ertificate") =>
            {
                HttpFailure::Unreadable(format!("its certificate is not trusted here: {why}"))
            }
            ureq::Error::Tls(_) | ureq::Error::Pem(_) | ureq::Error::Rustls(_) => {
                HttpFailure::Unreadable(format!("TLS: {why}"))
            }
            ureq::Error::Protocol(_)
            | ureq::Error::LargeResponseHeader(..)
            | ureq::Error::Http(_) => HttpFailure::Unreadable(why),
            _ => HttpFailure::Unanswered(why),
        }
    }
}
