//! Authentication of requests: a token in the header `Authorization`, or a session in a cookie, for which a browser has
//! exchanged a token. A session ends with its token.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Uri};

use super::admission::{AdmittedConnection, network_of};
use super::app::{AppState, ClientAddress};
use super::failure::ApiFailure;
use super::params::header_text;
use super::sessions::{self, COOKIE, Hash};
use crate::store::access::{self, AccessRole, ClientAccess};

/// Session cookie of a request.
pub fn session_of(headers: &HeaderMap) -> Option<&str> {
    let cookies = header_text(headers, "cookie")?;
    let mut pairs = cookies
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value)
}

/// Checks that a request names an accepted host and comes from no other origin. The host of an absolute target must be
/// accepted, too.
pub fn is_for_us(app: &AppState, target: &Uri, headers: &HeaderMap) -> Result<(), ApiFailure> {
    let host = header_text(headers, "host").map(str::to_ascii_lowercase);
    let Some(host) = host.filter(|host| app.hosts.contains(host)) else {
        return Err(ApiFailure::misdirected(
            "this server does not answer to the name in the header Host; --host NAME adds names",
        ));
    };
    if target
        .authority()
        .is_some_and(|name| !app.hosts.contains(&name.as_str().to_ascii_lowercase()))
    {
        return Err(ApiFailure::misdirected(
            "this server does not answer to the name in the request's target; --host NAME adds names",
        ));
    }
    let is_ours = |origin: &str| {
        origin
            .split_once("://")
            .is_some_and(|(_, of)| of.eq_ignore_ascii_case(&host))
    };
    match headers
        .get("origin")
        .map(|origin| origin.to_str().unwrap_or_default())
    {
        Some(origin) if !is_ours(origin) => Err(ApiFailure::forbidden(
            "requests from pages of other origins are rejected",
        )),
        _ => Ok(()),
    }
}

/// Whether the request used HTTPS on its default port. Only then the browser is instructed to require TLS, because the
/// instruction applies to all ports of the name.
pub fn is_usual_https(headers: &HeaderMap) -> bool {
    let host = header_text(headers, "host").unwrap_or_default();
    let name = host.strip_suffix(":443").unwrap_or(host);
    !name.contains(':') && !name.eq_ignore_ascii_case("localhost")
}

/// An authenticated client.
pub struct RequestCaller(pub ClientAccess);

impl RequestCaller {
    /// Rejects a client whose role is lower than `role`.
    pub fn at_least(self, role: AccessRole) -> Result<ClientAccess, ApiFailure> {
        if self.0.role >= role {
            Ok(self.0)
        } else {
            Err(ApiFailure::forbidden(format!(
                "this request needs the role {}, and the token has {}",
                role.word(),
                self.0.role.word()
            )))
        }
    }
}

/// Client of a request by its token or session; `None` without one.
pub async fn find(app: &Arc<AppState>, parts: &Parts) -> Result<Option<ClientAccess>, ApiFailure> {
    let bearer = header_text(&parts.headers, "authorization").map(|value| {
        let (kind, token) = value.split_once(' ').unwrap_or((value, ""));
        (kind.eq_ignore_ascii_case("bearer"), token.trim())
    });
    let hash = match bearer {
        Some((true, token)) => Some(access::hash(token)),
        Some((false, _)) => {
            return Err(ApiFailure::unauthorized(
                "Authorization: Bearer TOKEN is required",
            ));
        }
        None => match session_of(&parts.headers) {
            None => return Ok(None),
            Some(name) => {
                let name = name.to_owned();
                app.run(move |service| Ok(sessions::token(&service.store().sessions, &name)?))
                    .await?
            }
        },
    };
    let Some(hash) = hash else {
        return Err(ApiFailure::unauthorized(
            "the session has ended: log in again",
        ));
    };
    by_hash(app, parts, hash).await.map(Some)
}

/// Client by the hash of its token; wrong tokens are rate-limited per address. Valid ones are still accepted because
/// clients may share the address.
pub async fn by_hash(
    app: &Arc<AppState>,
    parts: &Parts,
    hash: Hash,
) -> Result<ClientAccess, ApiFailure> {
    let address = parts.extensions.get::<ClientAddress>().map(|peer| peer.0);
    let found = app
        .run(move |service| Ok(access::find_hash(&service.store().tokens, &hash)?))
        .await?;
    let Some(access) = found else {
        address.map_or(Ok(()), |address| count_wrong(app, address))?;
        return Err(ApiFailure::unauthorized(
            "the token does not exist or was revoked",
        ));
    };
    record_token(&parts.extensions);
    if app.rates.may_ask(access.id) {
        Ok(access)
    } else {
        Err(ApiFailure::too_fast(
            "too many requests with this token (--requests-per-second)",
        ))
    }
}

/// Counts a wrong token of an address; rejects the request after too many.
pub fn count_wrong(app: &AppState, address: IpAddr) -> Result<(), ApiFailure> {
    let network = network_of(address);
    if !app.rates.may_try(network) {
        return Err(ApiFailure::too_fast(
            "too many wrong tokens from this address",
        ));
    }
    app.rates.was_wrong(network);
    Ok(())
}

/// Marks the connection of a request as authenticated.
pub fn record_token(of: &Extensions) {
    if let Some(connection) = of.get::<Arc<AdmittedConnection>>() {
        connection.record_token();
    }
}

impl FromRequestParts<Arc<AppState>> for RequestCaller {
    type Rejection = ApiFailure;

    async fn from_request_parts(
        parts: &mut Parts,
        app: &Arc<AppState>,
    ) -> Result<RequestCaller, ApiFailure> {
        let access = find(app, parts).await?;
        access.map(RequestCaller).ok_or_else(|| {
            ApiFailure::unauthorized(
                "a token is required: Authorization: Bearer TOKEN, or a cookie from /api/v1/login",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(
            axum::http::HeaderName::from_static(name),
            HeaderValue::from_str(value).expect("a value"),
        )])
    }

    #[test]
    fn a_session_is_one_of_several_cookies() {
        let session = |cookies: &str| session_of(&headers("cookie", cookies)).map(str::to_owned);
        assert_eq!(session("netalytics=abc").as_deref(), Some("abc"));
        assert_eq!(session("a=1; netalytics=a=b;c=2").as_deref(), Some("a=b"));
        assert_eq!(session("netalytics=1; netalytics=2").as_deref(), Some("1"));
        for without in ["", "xnetalytics=1", "netalytics", "Netalytics=1"] {
            assert_eq!(session(without), None, "{without}");
        }
        assert_eq!(session_of(&HeaderMap::new()), None);
    }

    #[test]
    fn tls_is_required_of_names_on_the_default_port_only() {
        let is_usual = |host: &str| is_usual_https(&headers("host", host));
        assert!(is_usual("netalytics.example") && is_usual("netalytics.example:443"));
        for host in [
            "netalytics.example:8443",
            "localhost",
            "LOCALHOST:443",
            "[::1]:443",
        ] {
            assert!(!is_usual(host), "{host}");
        }
    }
}
