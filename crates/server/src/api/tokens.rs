//! Tokens, sessions, and the audit log.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::app::{AppState, ClientAddress};
use super::caller::{self, RequestCaller, session_of};
use super::failure::ApiFailure;
use super::json::JsonResponse;
use super::params::{JsonBody, QueryParams};
use super::sessions::{self, COOKIE, SESSION_TIME};
use crate::api::service::Service;
use crate::store::access::{self, AccessRole, AccessToken, ClientAccess, NetworkScope, NewToken};
use crate::store::service_error::ServiceError;
use crate::store::sqlite::{AuditEntry, now_ns};

/// A token to create.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// Name: letters, digits, `-`, `_`, `.`, at most 64.
    pub name: String,
    /// Role.
    pub role: AccessRole,
    /// Networks to which it is restricted, as 10.1.0.0/16; empty: none.
    #[serde(default)]
    pub networks: Vec<String>,
    /// Validity in seconds.
    #[serde(default)]
    pub expires_in_seconds: Option<u32>,
}

/// Tokens.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Tokens)]
pub struct TokenList {
    /// In order of creation.
    pub tokens: Vec<AccessToken>,
}

/// A token to exchange for a session.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct LoginRequest {
    /// The token.
    pub token: String,
}

/// Authenticated user.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LoginAnswer {
    /// Name of the token.
    pub name: String,
    /// Role.
    pub role: AccessRole,
}

/// Current user.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WhoAnswer {
    /// Name of the token; null without a valid token or session.
    pub name: Option<String>,
    /// Role.
    pub role: Option<AccessRole>,
    /// Version of the program.
    pub version: String,
}

/// Query parameters of the audit log.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AuditParams {
    /// Only entries older than this number.
    before: Option<i64>,
    /// Maximum number of entries; default 100.
    limit: Option<usize>,
}

/// Entries of the audit log.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Audit)]
pub struct AuditLog {
    /// Newest first.
    pub entries: Vec<AuditEntry>,
}

/// Create a token. Its secret is returned only here.
#[utoipa::path(
    post, path = "/api/v1/tokens", tag = "access", request_body = TokenRequest,
    responses((status = 201, description = "Created", body = NewToken), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn create(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    JsonBody(asked, _): JsonBody<TokenRequest>,
) -> Result<(StatusCode, JsonResponse<NewToken>), ApiFailure> {
    let who = caller.at_least(AccessRole::Admin)?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    // `.` and `..` have a meaning in paths.
    let is_place = [".", ".."].contains(&&*asked.name);
    if !(1..=64).contains(&asked.name.len()) || !asked.name.chars().all(is_name) || is_place {
        return Err(ApiFailure::bad(
            "a token's name has 1 to 64 letters, digits, `-`, `_` and `.`, and is neither `.` nor `..`",
        ));
    }
    if asked.networks.len() > 100 {
        return Err(ApiFailure::bad("a token has at most 100 networks"));
    }
    let scope =
        NetworkScope::of(asked.networks.iter().map(String::as_str)).map_err(ApiFailure::bad)?;
    // A restricted user can only create tokens with the same restriction.
    if who.is_scoped() && (scope != who.scope || asked.role == AccessRole::Agent) {
        return Err(ApiFailure::forbidden(
            "a token restricted to networks can only create tokens for the same networks, and none for agents",
        ));
    }
    let expires = asked
        .expires_in_seconds
        .map(|seconds| now_ns() + i64::from(seconds) * 1_000_000_000);
    let name = asked.name.clone();
    let make = move |service: &Service| {
        let made = access::make(
            &service.store().tokens,
            &asked.name,
            asked.role,
            &scope,
            expires,
        )?;
        let outcome = if made.is_some() {
            "done"
        } else {
            "the name is taken"
        };
        service
            .audit
            .note(&who.name, "token.create", &asked.name, outcome);
        Ok(made)
    };
    let made = app.run(make).await?;
    let made = made.ok_or_else(|| {
        ApiFailure::conflict("name_taken", format!("token {name} already exists"))
    })?;
    Ok((StatusCode::CREATED, JsonResponse(made)))
}

/// List tokens.
#[utoipa::path(
    get, path = "/api/v1/tokens", tag = "access",
    responses((status = 200, description = "Tokens without secrets; a token restricted to networks gets those of the same networks", body = TokenList), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn list(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
) -> Result<JsonResponse<TokenList>, ApiFailure> {
    let who = caller.at_least(AccessRole::Admin)?;
    let tokens = app.run(|service| Ok(service.store().tokens.all()?)).await?;
    let mut tokens: Vec<_> = tokens.into_iter().map(AccessToken::from).collect();
    tokens.retain(|token| may_see(&who, token));
    Ok(JsonResponse(TokenList { tokens }))
}

/// Whether `who` may see a token: a restricted user sees tokens with the same restriction.
fn may_see(who: &ClientAccess, token: &AccessToken) -> bool {
    let of = |token: &AccessToken| NetworkScope::of(token.networks.iter().map(String::as_str));
    !who.is_scoped()
        || (token.role != AccessRole::Agent && of(token).is_ok_and(|scope| scope == who.scope))
}

/// Revoke a token; its sessions and streams end with it.
#[utoipa::path(
    delete, path = "/api/v1/tokens/{id}", tag = "access", params(("id" = String, Path, description = "Token ID")),
    responses((status = 204, description = "Revoked"), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn revoke(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiFailure> {
    let who = caller.at_least(AccessRole::Admin)?;
    let unknown = || ApiFailure::not_found("the token does not exist");
    let id: i64 = name.parse().map_err(|_| unknown())?;
    if id == who.id {
        return Err(ApiFailure::conflict(
            "own_token",
            "a token cannot revoke itself: create another admin token first",
        ));
    }
    let revoke = move |service: &Service| {
        let seen = service
            .store()
            .tokens
            .all()?
            .into_iter()
            .map(AccessToken::from)
            .any(|token| token.id == id && may_see(&who, &token));
        let removed = if seen {
            service.store().tokens.remove(id)?
        } else {
            None
        };
        let object = removed.clone().unwrap_or_else(|| id.to_string());
        let outcome = if removed.is_some() {
            "done"
        } else {
            "there is none"
        };
        service
            .audit
            .note(&who.name, "token.revoke", &object, outcome);
        Ok(removed)
    };
    let revoked = app.run(revoke).await?;
    app.look_again();
    revoked.map(|_| StatusCode::NO_CONTENT).ok_or_else(unknown)
}

/// Show the current user, also without a login.
#[utoipa::path(
    get, path = "/api/v1/login", tag = "access", security(()),
    responses((status = 200, description = "Name and role of the token", body = WhoAnswer), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn whoami(
    State(app): State<Arc<AppState>>,
    request: Request,
) -> Result<JsonResponse<WhoAnswer>, ApiFailure> {
    let (parts, _) = request.into_parts();
    let found = match caller::find(&app, &parts).await {
        Ok(found) => found,
        Err(failure) if failure.is_unauthorized() => None,
        Err(failure) => return Err(failure),
    };
    let (name, role) = found.map(|who| (who.name, who.role)).unzip();
    Ok(JsonResponse(WhoAnswer {
        name,
        role,
        version: env!("CARGO_PKG_VERSION").into(),
    }))
}

/// Exchange a token for a session cookie.
#[utoipa::path(
    post, path = "/api/v1/login", tag = "access", request_body = LoginRequest, security(()),
    responses((status = 200, description = "Name and role; the cookie is in Set-Cookie", body = LoginAnswer), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn login(
    State(app): State<Arc<AppState>>,
    request: Request,
) -> Result<Response, ApiFailure> {
    let (mut parts, body) = request.into_parts();
    let peer = ClientAddress::from_request_parts(&mut parts, &app)
        .await
        .ok();
    let head = Request::from_parts(parts.clone(), body);
    let JsonBody(asked, _) = JsonBody::<LoginRequest>::from_request(head, &app).await?;
    let (access, cookie) = begin(&app, &parts, &asked.token, peer).await?;
    let mut response = JsonResponse(LoginAnswer {
        name: access.name,
        role: access.role,
    })
    .into_response();
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Creates a session; returns its cookie.
pub(super) async fn begin(
    app: &Arc<AppState>,
    parts: &Parts,
    token: &str,
    peer: Option<ClientAddress>,
) -> Result<(ClientAccess, HeaderValue), ApiFailure> {
    let hash = access::hash(token.trim());
    let found = caller::by_hash(app, parts, hash).await;
    let address = peer.map_or_else(String::new, |peer| peer.0.to_string());
    let (who, outcome) = match &found {
        Ok(access) => (access.name.clone(), "done".to_owned()),
        Err(failure) => (address.clone(), failure.message.clone()),
    };
    // A full or failing disk does not prevent a login, so that the problem can be examined.
    let note =
        move |service: &Service| match service.store().audit.add(&who, "login", &address, &outcome)
        {
            Err(error) if error.is_write_failure() => {
                tracing::warn!(
                    "{error}: login of {who} from {address} is not in the audit log: {outcome}"
                );
                Ok(())
            }
            noted => noted.map_err(ServiceError::from),
        };
    app.run(note)
        .await
        .or_else(|failure| if found.is_err() { Ok(()) } else { Err(failure) })?;
    let access = found?;
    let name = app
        .run(move |service| Ok(sessions::begin(&service.store().sessions, hash)?))
        .await?;
    let secure = if app.tls.is_some() { "; Secure" } else { "" };
    let cookie = format!(
        "{COOKIE}={name}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}{secure}",
        SESSION_TIME.as_secs()
    );
    let cookie = HeaderValue::from_str(&cookie).map_err(|_| ApiFailure::internal())?;
    Ok((access, cookie))
}

/// Cookie header that deletes the cookie.
pub(super) const FORGET: &str = "netalytics=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0";

/// End the session that the cookie names.
#[utoipa::path(delete, path = "/api/v1/login", tag = "access", security(()), responses((status = 204, description = "Logged out")))]
pub async fn logout(
    State(app): State<Arc<AppState>>,
    headers: HeaderMap,
) -> Result<Response, ApiFailure> {
    end(&app, &headers).await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, FORGET)]).into_response())
}

/// Ends the session of a request, if it has one.
pub(super) async fn end(app: &Arc<AppState>, headers: &HeaderMap) -> Result<(), ApiFailure> {
    let Some(name) = session_of(headers).map(str::to_owned) else {
        return Ok(());
    };
    app.run(move |service| Ok(sessions::end(&service.store().sessions, &name)?))
        .await
}

/// Read the audit log.
#[utoipa::path(
    get, path = "/api/v1/audit", tag = "access", params(AuditParams),
    responses((status = 200, description = "Entries, newest first", body = AuditLog), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn audit(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    QueryParams(params): QueryParams<AuditParams>,
) -> Result<JsonResponse<AuditLog>, ApiFailure> {
    if caller.at_least(AccessRole::Admin)?.is_scoped() {
        return Err(ApiFailure::forbidden(
            "a token restricted to networks cannot read the audit log",
        ));
    }
    let limit = params.limit.unwrap_or(100).min(1000);
    let entries = app
        .run(move |service| Ok(service.store().audit.entries(params.before, limit)?))
        .await?;
    Ok(JsonResponse(AuditLog { entries }))
}

impl<S: Sync> FromRequestParts<S> for ClientAddress {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<ClientAddress, ApiFailure> {
        parts
            .extensions
            .get::<ClientAddress>()
            .copied()
            .ok_or_else(ApiFailure::internal)
    }
}
