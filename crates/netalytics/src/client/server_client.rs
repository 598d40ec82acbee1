//! Client of a server: its address, the token, and its errors. The token is sent only to that server.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::dial::{IN_CLEAR, travels_in_clear};
use anyhow::{Context, anyhow};
use connect::{AuthorityError, HttpSettings, TrustedAuthorities};
use identity::ConnectionEnd;
use query::{Diagnostic, TextSpan};
use serde_json::Value;
use ureq::http::Uri;

use crate::cli::flags::service::ServerFlags;
use crate::client::profile::ClientProfile;
use crate::process::failure::{UsageError, wrong_flags};

/// Maximum bytes of a response.
const ANSWER_BYTES_MAX: u64 = 1 << 30;
/// Maximum bytes of a token file.
const TOKEN_BYTES_MAX: u64 = 4096;
/// Default address of the server.
const USUAL: &str = "http://127.0.0.1:7979";
/// Timeout of a response.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server connection.
#[derive(Clone)]
pub struct ServerClient {
    agent: ureq::Agent,
    base: String,
    token: String,
    trusted: Option<TrustedAuthorities>,
}

/// A successful response.
#[derive(Debug)]
pub struct ServerResponse {
    /// `after` of the next page, if there is one.
    pub next: Option<String>,
    /// Number of the last row of a page.
    pub last: Option<String>,
    /// Body.
    pub body: Vec<u8>,
}

/// Failure of a request to the server.
#[derive(Debug)]
pub enum ServerRequestError {
    /// No connection: the request was not sent.
    Nobody(anyhow::Error),
    /// The server may have received the request; a retry may succeed.
    Later(anyhow::Error),
    /// Rejected.
    Refused(anyhow::Error),
}

impl From<ServerRequestError> for anyhow::Error {
    fn from(failed: ServerRequestError) -> anyhow::Error {
        match failed {
            ServerRequestError::Nobody(error)
            | ServerRequestError::Later(error)
            | ServerRequestError::Refused(error) => error,
        }
    }
}

/// A request.
pub struct ServerRequest<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Path and query parameters.
    pub path: &'a str,
    /// JSON body.
    pub body: Option<&'a Value>,
    /// Idempotency key.
    pub key: Option<&'a str>,
    /// The query of the request, for error messages.
    pub query: &'a str,
}

impl<'a> ServerRequest<'a> {
    /// A request without a body.
    pub fn plain(method: &'a str, path: &'a str) -> ServerRequest<'a> {
        ServerRequest {
            method,
            path,
            body: None,
            key: None,
            query: "",
        }
    }
}

impl ServerClient {
    /// The server selected by flags, environment or profile.
    pub fn of(flags: &ServerFlags) -> anyhow::Result<ServerClient> {
        let profile = ClientProfile::read()?;
        let said = flags
            .server
            .clone()
            .or_else(|| environment("NETALYTICS_SERVER"));
        let url = said
            .or_else(|| profile.server.clone())
            .unwrap_or_else(|| USUAL.into());
        ServerClient::with(
            &url,
            flags.token_file.as_deref(),
            flags.ca.as_deref(),
            profile,
        )
    }

    /// The server at an address. `ca`: file with its certificate authority.
    pub fn at(
        url: &str,
        token_file: Option<&Path>,
        ca: Option<&Path>,
    ) -> anyhow::Result<ServerClient> {
        ServerClient::with(url, token_file, ca, ClientProfile::read()?)
    }

    fn with(
        url: &str,
        token_file: Option<&Path>,
        ca: Option<&Path>,
        profile: ClientProfile,
    ) -> anyhow::Result<ServerClient> {
        let profile = profile.of_server(url);
        let base = url.trim_end_matches('/').to_owned();
        if !base.starts_with("http://") && !base.starts_with("https://") {
            return Err(wrong_flags(
                "--server: expected an address such as http://127.0.0.1:7979",
            ));
        }
        let uri: Uri = base
            .parse()
            .map_err(|error| wrong_flags(format!("--server {base:?}: {error}")))?;
        if uri
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'))
        {
            return Err(wrong_flags(
                "--server is an address without a user or password: tokens come from --token-file",
            ));
        }
        if travels_in_clear(&uri) {
            return Err(wrong_flags(format!(
                "--server {base}: {IN_CLEAR}, since a token travels with each request"
            )));
        }
        let ca = ca
            .map(Path::to_owned)
            .or_else(|| environment("NETALYTICS_CA").map(PathBuf::from));
        let trusted = authorities(&base, ca.or(profile.ca).as_deref())?;
        let agent = agent(Some(PATIENCE), trusted.as_ref());
        Ok(ServerClient {
            agent,
            base,
            token: token(token_file, profile.token_file)?,
            trusted,
        })
    }

    /// Sets the timeout of responses; `None`: no timeout for the body.
    pub fn patient(&self, patience: Option<Duration>) -> ServerClient {
        ServerClient {
            agent: agent(patience, self.trusted.as_ref()),
            ..self.clone()
        }
    }

    /// Sends a request; returns the JSON response.
    pub fn json(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let query = body
            .and_then(|body| body["query"].as_str())
            .unwrap_or_default();
        Ok(self.try_json(&ServerRequest {
            body,
            query,
            ..ServerRequest::plain(method, path)
        })?)
    }

    /// Sends a request; returns the JSON response.
    pub fn try_json(&self, asked: &ServerRequest<'_>) -> Result<Value, ServerRequestError> {
        let answer = self.try_ask(asked)?;
        let read = serde_json::from_slice(&answer.body).context("the server's answer is not JSON");
        read.map_err(ServerRequestError::Refused)
    }

    /// Sends a request.
    pub fn ask(&self, method: &str, path: &str) -> anyhow::Result<ServerResponse> {
        Ok(self.try_ask(&ServerRequest::plain(method, path))?)
    }

    /// Sends a request.
    pub fn try_ask(&self, asked: &ServerRequest<'_>) -> Result<ServerResponse, ServerRequestError> {
        let mut response = self.open(asked)?;
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let next = header("netalytics-next");
        let last = header("netalytics-last");
        let limited = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let body = limited
            .read_to_vec()
            .map_err(|error| self.unanswered(error))?;
        Ok(ServerResponse { next, last, body })
    }

    /// Sends a request; returns the response as a stream.
    pub fn open(
        &self,
        asked: &ServerRequest<'_>,
    ) -> Result<ureq::http::Response<ureq::Body>, ServerRequestError> {
        let mut request = ureq::http::Request::builder()
            .method(asked.method)
            .uri(format!("{}{}", self.base, asked.path))
            .header("authorization", format!("Bearer {}", self.token));
        if asked.body.is_some() {
            request = request.header("content-type", "application/json");
        }
        if let Some(key) = asked.key {
            request = request.header("idempotency-key", key);
        }
        let bytes = asked.body.map(ToString::to_string).unwrap_or_default();
        let request = request.body(bytes).map_err(|_| {
            ServerRequestError::Refused(wrong_flags(format!(
                "{} is not a server address",
                self.base
            )))
        })?;
        let mut response = self
            .agent
            .run(request)
            .map_err(|error| self.unanswered(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let limited = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let body = limited.read_to_vec().unwrap_or_default();
        let error = said(&body, asked.query)
            .unwrap_or_else(|| anyhow!("{} answers {status}{}", self.base, in_passing(&body)));
        // 500 means a bug or a damaged history; a retry has the same result.
        Err(
            if status.is_server_error() && status.as_u16() != 500 || status.as_u16() == 429 {
                ServerRequestError::Later(error)
            } else {
                ServerRequestError::Refused(error)
            },
        )
    }

    fn unanswered(&self, error: ureq::Error) -> ServerRequestError {
        use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
        let is_nobody = match &error {
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => true,
            ureq::Error::Io(io) => {
                [ConnectionRefused, HostUnreachable, NetworkUnreachable].contains(&io.kind())
            }
            _ => false,
        };
        let refused = matches!(&error, ureq::Error::Io(io) if io.kind() == ConnectionRefused);
        let error = if refused {
            anyhow!("connection refused: is netalytics serve running, and is the port right?")
        } else {
            in_words(error)
        };
        let error = error.context(format!("cannot query {}", self.base));
        if is_nobody {
            ServerRequestError::Nobody(error)
        } else {
            ServerRequestError::Later(error)
        }
    }
}

/// Certificate authorities: of a file, or for `https://` the system's.
fn authorities(base: &str, file: Option<&Path>) -> anyhow::Result<Option<TrustedAuthorities>> {
    let is_needed = base.starts_with("https://") || file.is_some();
    let found = is_needed.then(|| TrustedAuthorities::new(file)).transpose();
    found.map_err(|why| match why {
        AuthorityError::Unreadable { .. } => why.into(),
        AuthorityError::Empty(_) => wrong_flags(why.to_string()),
        AuthorityError::NoneInSystem => wrong_flags(format!("{why}: use --ca FILE")),
    })
}

/// Shortened text of a response that is not from a netalytics server, such as a proxy.
fn in_passing(body: &[u8]) -> String {
    const LONGEST: usize = 200;
    match str::from_utf8(body).map(str::trim) {
        Ok(text) if !text.is_empty() && text.len() <= LONGEST && !text.contains('<') => {
            format!(": {text}")
        }
        _ => String::new(),
    }
}

/// Explains a TLS error.
fn in_words(error: ureq::Error) -> anyhow::Error {
    let cause: &(dyn std::error::Error + 'static) = match &error {
        ureq::Error::Io(cause) => cause,
        other => other,
    };
    match identity::in_words(cause, ConnectionEnd::Client) {
        Some(words) => anyhow!("{words}; --ca FILE sets the trusted authority"),
        None => error.into(),
    }
}

fn agent(patience: Option<Duration>, trusted: Option<&TrustedAuthorities>) -> ureq::Agent {
    let settings = HttpSettings {
        trusted,
        connect_max: Some(PATIENCE),
        answer_max: Some(PATIENCE),
        whole_max: patience,
        ..HttpSettings::default()
    };
    settings.agent()
}

/// Message of an error response; errors in a query are formatted as local ones.
fn said(body: &[u8], query: &str) -> Option<anyhow::Error> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let mut text = answer["message"].as_str()?.to_owned();
    let problems: Vec<Diagnostic> = answer["problems"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(problem)
        .collect();
    if !problems.is_empty() && !query.is_empty() {
        return Some(UsageError::Query(query::render(&problems, query)).into());
    }
    if let Some(hint) = answer["problems"][0]["hint"].as_str() {
        text = format!("{text}; {hint}");
    }
    Some(match answer["code"].as_str() {
        Some("query" | "condition" | "bad_request" | "unauthorized" | "forbidden") => {
            wrong_flags(text)
        }
        _ => anyhow!(text),
    })
}

fn problem(of: &Value) -> Option<Diagnostic> {
    let byte = |name: &str| usize::try_from(of["place"][name].as_u64()?).ok();
    let text = |name: &str| of[name].as_str().map(str::to_owned);
    Some(Diagnostic {
        span: TextSpan::new(byte("start")?, byte("end")?),
        message: text("message")?,
        expected: text("expected"),
        hint: text("hint"),
    })
}

/// A nonempty environment variable.
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The token from the flag, the environment, or the profile, in this order.
fn token(flag: Option<&Path>, profile: Option<PathBuf>) -> anyhow::Result<String> {
    let flag = flag.map(Path::to_owned);
    let token = std::env::var("NETALYTICS_TOKEN")
        .ok()
        .filter(|_| flag.is_none());
    let file = flag
        .or_else(|| environment("NETALYTICS_TOKEN_FILE").map(PathBuf::from))
        .or(profile);
    let (from, text) = match (token, file) {
        (Some(token), _) => ("NETALYTICS_TOKEN".to_owned(), token),
        (None, Some(path)) => {
            let mut text = String::new();
            std::fs::File::open(&path)
                .and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut text))
                .with_context(|| format!("cannot read the token in {}", path.display()))?;
            (path.display().to_string(), text)
        }
        (None, None) => {
            return Err(wrong_flags(
                "no token: use --token-file FILE, NETALYTICS_TOKEN or NETALYTICS_TOKEN_FILE in the environment, or token_file in the client profile",
            ));
        }
    };
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong_flags(format!("{from} has no valid token")));
    }
    Ok(token.to_owned())
}

/// Parses labels; `wanted`: expected syntax, for errors.
pub fn labels(texts: &[String], wanted: &'static str) -> anyhow::Result<Value> {
    let pair = |text: &String| {
        let (name, value) = text.split_once('=').ok_or_else(|| wrong_flags(wanted))?;
        Ok((name.to_owned(), Value::from(value)))
    };
    Ok(Value::Object(
        texts.iter().map(pair).collect::<anyhow::Result<_>>()?,
    ))
}

/// Percent-encodes a parameter value.
pub fn encoded(text: &str) -> String {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let one = |byte: u8| {
        if safe(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_does_not_travel_in_clear() {
        let token = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(token.path(), "nl_1\n").expect("a token");
        for (url, words) in [
            ("http://10.0.0.1:7979", IN_CLEAR),
            ("http://netalytics.example", IN_CLEAR),
            ("http://localhost.example", IN_CLEAR),
            ("http://[2001:db8::1]:7979", IN_CLEAR),
            ("ftp://127.0.0.1", "expected an address"),
            ("http://me:secret@127.0.0.1", "without a user"),
            ("http://", "--server"),
        ] {
            let said = ServerClient::at(url, Some(token.path()), None)
                .err()
                .expect(url)
                .to_string();
            assert!(said.contains(words), "{url}: {said}");
        }
        for url in [
            "http://localhost:1",
            "http://127.1.2.3",
            "http://[::1]:80/",
            "https://10.0.0.1",
        ] {
            assert!(
                ServerClient::at(url, Some(token.path()), None).is_ok(),
                "{url}"
            );
        }
    }

    #[test]
    fn parameters_are_encoded() {
        assert_eq!(
            encoded("2026-11-22T10:00:00Z&x=ä"),
            "2026-11-22T10%3A00%3A00Z%26x%3D%C3%A4"
        );
    }
}
