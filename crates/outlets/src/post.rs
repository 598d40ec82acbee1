//! POST over HTTP or HTTPS: one request with a time limit, and the classification of responses as retriable or final.

use std::time::Duration;

use connect::HttpSettings;
use ureq::Agent;
use ureq::http::Uri;

use crate::address::OutletAddress;
use crate::net;
use crate::worker::DeliveryFault;

/// Maximum bytes read of a response.
const ANSWER_MAX: u64 = 64 << 10;

/// A client for one URL.
pub struct HttpPoster {
    agent: Agent,
    url: String,
}

impl HttpPoster {
    /// A client for this address; `usual_path`: default path.
    ///
    /// # Errors
    /// A message, if TLS is not available or the address is not a URL.
    pub fn new(address: &OutletAddress, usual_path: &str) -> Result<HttpPoster, String> {
        let is_tls = address.scheme.name().ends_with("+https");
        let path = match address.path.reveal() {
            "" | "/" => usual_path.to_owned(),
            path if path.starts_with('/') => path.to_owned(),
            query => format!("/{query}"),
        };
        let trusted = is_tls.then(|| net::authorities(address)).transpose()?;
        let settings = HttpSettings {
            trusted: trusted.as_ref(),
            ..HttpSettings::default()
        };
        let scheme = if is_tls { "https" } else { "http" };
        let url = format!("{scheme}://{}{path}", address.authority());
        // The error is dropped: it may quote a secret.
        if url.parse::<Uri>().is_err() {
            return Err("its host or path has characters that must be percent-encoded".into());
        }
        Ok(HttpPoster {
            agent: settings.agent(),
            url,
        })
    }

    /// Posts `body`; returns the response.
    pub fn post(
        &self,
        headers: &[(&str, String)],
        body: &[u8],
        patience: Duration,
    ) -> Result<Vec<u8>, DeliveryFault> {
        let mut request = self.agent.post(&self.url);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let sent = request
            .config()
            .timeout_global(Some(patience))
            .build()
            .send(body);
        // The address may contain a secret, which errors may quote.
        let hidden = |error: ureq::Error| error.to_string().replace(&self.url, "(the address)");
        let mut answer =
            sent.map_err(|error| DeliveryFault::Passing(net::in_words(hidden(error))))?;
        let status = answer.status().as_u16();
        let text = answer
            .body_mut()
            .with_config()
            .limit(ANSWER_MAX)
            .read_to_vec()
            .unwrap_or_default();
        match status {
            200..300 => Ok(text),
            408 | 425 | 429 | 500.. => Err(DeliveryFault::Passing(format!(
                "the response status was {status}"
            ))),
            _ => Err(DeliveryFault::Final(format!(
                "the response status was {status}"
            ))),
        }
    }
}

/// Authorization header: a user's password, or a token.
pub fn authorization(address: &OutletAddress) -> Option<String> {
    use base64::Engine as _;
    let secret = address.secret.as_ref().map(|secret| secret.reveal());
    match (&address.user, secret) {
        (Some(user), secret) => {
            let both = format!("{user}:{}", secret.unwrap_or_default());
            Some(format!(
                "Basic {}",
                base64::engine::general_purpose::STANDARD.encode(both)
            ))
        }
        (None, secret) => secret.map(|token| format!("Bearer {token}")),
    }
}
