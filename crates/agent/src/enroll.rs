//! Certificates of an agent: enrollment with a one-time token, then renewal with the certificate itself before it
//! expires.

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use identity::{
    AuthorityPin, IdentityError, SigningRequest, TrustedServers, client_config, time_in_words,
};
use serde::Deserialize;

use crate::credentials::{AgentCredentials, CredentialsError, system};
use crate::dial::{DialError, ServerEndpoint};

/// Paths of enrollment and renewal.
const ENROLL: &str = "/api/v1/enrol";
const RENEW: &str = "/api/v1/renew";
/// Limits of the retry delay, which is a share of the remaining validity.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(600);

/// Failure to get a certificate.
#[derive(Debug, thiserror::Error)]
pub enum EnrollError {
    /// The token is malformed.
    #[error("this is not a one-time token: `netalytics agents enroll NAME` creates one")]
    BadToken,
    /// The server is unreachable or rejects the request.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The response is malformed.
    #[error("the server's response is not a certificate: {0}")]
    Strange(serde_json::Error),
    /// A key cannot be generated, or the certificate is unusable.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The credentials cannot be stored.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The given authority is not the one in the token.
    #[error("the server's authority does not have the fingerprint in the token")]
    OtherAuthority,
}

/// Response of the server.
#[derive(Deserialize)]
struct CertificateResponse {
    certificate: String,
    authority: String,
}

/// A one-time token: the secret, and the fingerprint of the server's own certificate authority, if it has one.
struct EnrollmentToken {
    secret: String,
    pin: Option<AuthorityPin>,
}

impl EnrollmentToken {
    fn of(text: &str) -> Option<EnrollmentToken> {
        let (secret, pin) = text
            .split_once('.')
            .map_or((text, None), |(secret, pin)| (secret, Some(pin)));
        let is_secret = secret
            .strip_prefix("nle_")?
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit());
        let pin = pin.map(str::parse).transpose().ok()?;
        is_secret.then(|| EnrollmentToken {
            secret: secret.to_owned(),
            pin,
        })
    }
}

/// Generates a key, requests a certificate for it, and stores both in `folder`. `authority`: certificate authority of
/// the server; default: the one named by the token, or the system's.
///
/// # Errors
/// See [`EnrollError`].
pub async fn enroll(
    url: &str,
    token: &str,
    authority: Option<String>,
    folder: &Path,
) -> Result<AgentCredentials, EnrollError> {
    let token = EnrollmentToken::of(token.trim()).ok_or(EnrollError::BadToken)?;
    let trusts = match (&authority, token.pin) {
        (Some(pem), _) => TrustedServers::Of(pem),
        (None, Some(pin)) => TrustedServers::Pinned(pin),
        (None, None) => system(),
    };
    let server = ServerEndpoint::new(url, Some(client_config(trusts, None)?), None)?;
    let made = SigningRequest::create()?;
    let body = serde_json::json!({ "token": token.secret, "request": made.request_pem });
    let certified = ask(&server, ENROLL, &body).await?;
    let authority = match (authority, token.pin) {
        (None, Some(pin)) if AuthorityPin::of_pem(&certified.authority)? == pin => {
            Some(certified.authority)
        }
        (None, Some(_)) => return Err(EnrollError::OtherAuthority),
        (told, _) => told,
    };
    Ok(AgentCredentials::keep(
        folder,
        &made.key_pem,
        &certified.certificate,
        authority,
    )?)
}

async fn ask(
    server: &ServerEndpoint,
    path: &str,
    body: &serde_json::Value,
) -> Result<CertificateResponse, EnrollError> {
    let answer = server
        .post(path, body.to_string(), StatusCode::CREATED)
        .await?;
    serde_json::from_slice(&answer).map_err(EnrollError::Strange)
}

/// Renews the certificate when a third of its validity remains, for the lifetime of the agent. New connections use the
/// newest one; the current connection continues.
pub async fn keep_renewed(server: ServerEndpoint, mut own: AgentCredentials) {
    loop {
        sleep_until(own.peer.lifetime.renew_at()).await;
        match renew(&server, &own).await {
            Ok(new) => {
                tracing::info!("new certificate, valid until {}", CertificateExpiry(&new));
                own = new;
            }
            Err(why) => {
                tracing::warn!(
                    "cannot renew the certificate, which is valid until {}: {why}",
                    CertificateExpiry(&own)
                );
                let pause = match u64::try_from(own.peer.lifetime.to - now()) {
                    Ok(left @ 1..) => Duration::from_secs(left / 20).clamp(SOONEST, LATEST),
                    // Expired, unless a clock is wrong.
                    _ => LATEST,
                };
                tokio::time::sleep(pause).await;
            }
        }
    }
}

async fn renew(
    server: &ServerEndpoint,
    own: &AgentCredentials,
) -> Result<AgentCredentials, EnrollError> {
    let made = SigningRequest::create()?;
    let certified = ask(
        server,
        RENEW,
        &serde_json::json!({ "request": made.request_pem }),
    )
    .await?;
    let new = own.renewed(&made.key_pem, &certified.certificate)?;
    server.bear(new.tls()?);
    Ok(new)
}

/// Checks the wall clock periodically, because it may be set.
async fn sleep_until(at: i64) {
    while let Ok(left @ 1..) = u64::try_from(at - now()) {
        tokio::time::sleep(Duration::from_secs(left).min(LATEST)).await;
    }
}

fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Formats the expiration of a certificate.
struct CertificateExpiry<'a>(&'a AgentCredentials);

impl fmt::Display for CertificateExpiry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&time_in_words(self.0.peer.lifetime.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_distinguished_from_other_texts() {
        let pin = "ab".repeat(32);
        for (text, is_one, has_pin) in [
            ("nle_0123abcd".to_owned(), true, false),
            (format!("nle_0123abcd.{pin}"), true, true),
            ("nle_0123abcd.12".to_owned(), false, false),
            ("nl_0123abcd".to_owned(), false, false),
            ("nle_x\r\n".to_owned(), false, false),
            (String::new(), false, false),
        ] {
            let token = EnrollmentToken::of(&text);
            assert_eq!(
                (token.is_some(), token.is_some_and(|t| t.pin.is_some())),
                (is_one, has_pin),
                "{text}"
            );
        }
    }
}
