//! Who asks: a token in the header `Authorization`, or a session that a token was exchanged for and that a browser names in
//! a cookie. A session ends with its token.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Uri};

use super::admission::{Connection, network_of};
use super::app::{App, Peer};
use super::failure::Failure;
use super::params::header_text;
use super::sessions::{self, COOKIE, Hash};
use crate::access::{self, Access, Role};

/// The session that a request names.
pub fn session_of(headers: &HeaderMap) -> Option<&str> {
    let cookies = header_text(headers, "cookie")?;
    let mut pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// Whether a request calls us by one of our names, and comes from no other origin. The name in an absolute target has to be one
/// of ours, too.
pub fn is_for_us(app: &App, target: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
    let host = header_text(headers, "host").map(str::to_ascii_lowercase);
    let Some(host) = host.filter(|host| app.hosts.contains(host)) else {
        return Err(Failure::misdirected(
            "this server does not answer to the name in the header Host; --host NAME adds names",
        ));
    };
    if target.authority().is_some_and(|name| !app.hosts.contains(&name.as_str().to_ascii_lowercase())) {
        return Err(Failure::misdirected(
            "this server does not answer to the name in the request's target; --host NAME adds names",
        ));
    }
    let is_ours =
        |origin: &str| origin.split_once("://").is_some_and(|(_, of)| of.eq_ignore_ascii_case(&host));
    match headers.get("origin").map(|origin| origin.to_str().unwrap_or_default()) {
        Some(origin) if !is_ours(origin) => {
            Err(Failure::forbidden("requests from pages of other origins are not answered"))
        }
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
pub struct Caller(pub Access);

impl Caller {
    /// Refuses whom the token does not allow that much.
    pub fn at_least(self, role: Role) -> Result<Access, Failure> {
        match self.0.role >= role {
            true => Ok(self.0),
            false => Err(Failure::forbidden(format!(
                "this needs the role {}, and the token has {}",
                role.word(),
                self.0.role.word()
            ))),
        }
    }
}

/// Whose token, or session, a request brings; `None` where it brings none.
pub async fn find(app: &Arc<App>, parts: &Parts) -> Result<Option<Access>, Failure> {
    let bearer = header_text(&parts.headers, "authorization").map(|value| {
        let (kind, token) = value.split_once(' ').unwrap_or((value, ""));
        (kind.eq_ignore_ascii_case("bearer"), token.trim())
    });
    let hash = match bearer {
        Some((true, token)) => Some(access::hash(token)),
        Some((false, _)) => return Err(Failure::unauthorized("Authorization: Bearer TOKEN is wanted")),
        None => match session_of(&parts.headers) {
            None => return Ok(None),
            Some(name) => {
                let name = name.to_owned();
                app.run(move |service| Ok(sessions::token(service.store(), &name)?)).await?
            }
        },
    };
    let Some(hash) = hash else { return Err(Failure::unauthorized("the session is over: log in again")) };
    by_hash(app, parts, hash).await.map(Some)
}

/// Whose token has that hash; who shows wrong ones has to wait. Right ones are taken meanwhile: others may share the address.
pub async fn by_hash(app: &Arc<App>, parts: &Parts, hash: Hash) -> Result<Access, Failure> {
    let address = parts.extensions.get::<Peer>().map(|peer| peer.0);
    let found = app.run(move |service| Ok(access::find_hash(service.store(), &hash)?)).await?;
    let Some(access) = found else {
        address.map_or(Ok(()), |address| count_wrong(app, address))?;
        return Err(Failure::unauthorized("there is no such token, or it was revoked"));
    };
    record_token(&parts.extensions);
    match app.rates.may_ask(access.id) {
        true => Ok(access),
        false => Err(Failure::too_fast("too many requests with this token (--requests-per-second)")),
    }
}

/// Counts a wrong token of an address; refuses the request where there were too many.
pub fn count_wrong(app: &App, address: IpAddr) -> Result<(), Failure> {
    let network = network_of(address);
    if !app.rates.may_try(network) {
        return Err(Failure::too_fast("too many wrong tokens from this address"));
    }
    app.rates.was_wrong(network);
    Ok(())
}

/// Records on the connection of a request that it has shown a valid token or certificate.
pub fn record_token(of: &Extensions) {
    if let Some(connection) = of.get::<Arc<Connection>>() {
        connection.record_token();
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Caller, Failure> {
        let access = find(app, parts).await?;
        access.map(Caller).ok_or_else(|| {
            Failure::unauthorized(
                "a token is wanted: Authorization: Bearer TOKEN, or a cookie from /api/v1/login",
            )
        })
    }
}
