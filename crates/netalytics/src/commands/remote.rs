//! How a server is asked: its address, the token, and what its errors say. The token is sent to nobody but that server.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use identity::End;
use serde_json::Value;
use ureq::tls::{PemItem, RootCerts, parse_pem};

use crate::failure::wrong_flags;
use crate::flags::service::ServerFlags;

/// Most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 1 << 30;
/// Most bytes of a file with a token.
const TOKEN_BYTES_MAX: u64 = 4096;
/// Where a server listens unless told otherwise.
const USUAL: &str = "http://127.0.0.1:7979";
/// Time for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server.
pub struct Remote {
    agent: ureq::Agent,
    base: String,
    token: String,
}

/// An answer that is none of errors.
pub struct Answer {
    /// `after` of the next page, if there is one.
    pub next: Option<String>,
    /// Its bytes.
    pub body: Vec<u8>,
}

impl Remote {
    /// The server that the flags name.
    pub fn of(flags: &ServerFlags) -> anyhow::Result<Remote> {
        let said = flags.server.clone().or_else(|| std::env::var("NETALYTICS_SERVER").ok());
        let base = said.as_deref().unwrap_or(USUAL).trim_end_matches('/').to_owned();
        if !base.starts_with("http://") && !base.starts_with("https://") {
            return Err(wrong_flags("--server wants an address as http://127.0.0.1:7979"));
        }
        let mut tls = ureq::tls::TlsConfig::builder();
        if let Some(path) = &flags.ca {
            tls = tls.root_certs(trusted(path)?);
        }
        let config = ureq::Agent::config_builder()
            .tls_config(tls.build())
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(PATIENCE))
            .build();
        Ok(Remote { agent: ureq::Agent::new_with_config(config), base, token: token(flags)? })
    }

    /// Asks for JSON.
    pub fn json(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let answer = self.ask(method, path, body)?;
        serde_json::from_slice(&answer.body).context("the server's answer is not JSON")
    }

    /// Asks.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Answer> {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("authorization", format!("Bearer {}", self.token));
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let bytes = body.map(ToString::to_string).unwrap_or_default();
        let request = request.body(bytes).map_err(|_| wrong_flags("--server or the token cannot be sent"))?;
        let failed = || format!("cannot ask {}", self.base);
        let mut response = self.agent.run(request).map_err(in_words).with_context(failed)?;
        let next =
            response.headers().get("netalytics-next").and_then(|next| next.to_str().ok()).map(str::to_owned);
        let status = response.status();
        let limited = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let body = limited.read_to_vec().with_context(failed)?;
        match status.is_success() {
            true => Ok(Answer { next, body }),
            false => Err(said(&body).unwrap_or_else(|| anyhow!("{} answers {status}", self.base))),
        }
    }
}

/// The authorities in a file.
fn trusted(path: &Path) -> anyhow::Result<RootCerts> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let found = parse_pem(&text).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let found: Vec<_> = found.collect();
    match found.is_empty() {
        true => Err(wrong_flags(format!("{} has no certificate (PEM)", path.display()))),
        false => Ok(RootCerts::Specific(found.into())),
    }
}

/// What TLS has against the server, for a person.
fn in_words(error: ureq::Error) -> anyhow::Error {
    let cause: &(dyn std::error::Error + 'static) = match &error {
        ureq::Error::Io(cause) => cause,
        other => other,
    };
    match identity::in_words(cause, End::Client) {
        Some(words) => anyhow!("{words}; --ca FILE says which authority is trusted"),
        None => error.into(),
    }
}

/// What an error says.
fn said(body: &[u8]) -> Option<anyhow::Error> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let mut text = answer["message"].as_str()?.to_owned();
    if let Some(hint) = answer["problems"][0]["hint"].as_str() {
        text = format!("{text}; {hint}");
    }
    Some(match answer["code"].as_str() {
        Some("query" | "bad_request") => wrong_flags(text),
        _ => anyhow!(text),
    })
}

fn token(flags: &ServerFlags) -> anyhow::Result<String> {
    let text = match (&flags.token_file, std::env::var("NETALYTICS_TOKEN")) {
        (Some(path), _) => {
            let mut text = String::new();
            std::fs::File::open(path)
                .and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut text))
                .with_context(|| format!("cannot read the token in {}", path.display()))?;
            text
        }
        (None, Ok(token)) => token,
        (None, Err(_)) => {
            return Err(wrong_flags(
                "a token is wanted: --token-file FILE, or NETALYTICS_TOKEN in the environment",
            ));
        }
    };
    Ok(text.trim().to_owned())
}
