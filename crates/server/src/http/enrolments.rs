//! Certificates of agents: one-time tokens, enrolment, renewal, revocation.

use std::sync::Arc;

use axum::extract::{FromRequest, Path, Request, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::app::{App, Certificate, Peer};
use super::caller::{self, Caller};
use super::failure::Failure;
use super::json::Json;
use super::params::Body;
use crate::access::{Access, Role};
use crate::enrolment::{Certified, INVITATION_SECONDS_MAX, Invitation};
use crate::service::Service;
use crate::store::Enrolled;
use crate::tls::Tls;

/// An agent that is to enrol.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvitationRequest {
    /// Its name: letters, digits, `-`, `_`, `.`, at most 64.
    pub agent: String,
    /// Validity of the token in seconds; default one hour, at most one week.
    #[serde(default = "an_hour")]
    pub expires_in_seconds: u32,
}

fn an_hour() -> u32 {
    3600
}

/// A host that enrols.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnrolmentRequest {
    /// The one-time token.
    pub token: String,
    /// A certificate signing request (PKCS #10), PEM. Of what it says only the public key counts.
    pub request: String,
}

/// An agent that wants its next certificate.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewalRequest {
    /// As for the first one.
    pub request: String,
}

/// Agents that have enrolled.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Enrolments {
    /// By name.
    pub enrolments: Vec<Enrolled>,
}

fn tls(app: &App) -> Result<Arc<Tls>, Failure> {
    let none = "this server has no TLS (--tls): agents connect with tokens of the role agent";
    app.tls.clone().ok_or_else(|| Failure::conflict("no_tls", none))
}

/// An admin who is not held to networks: agents see them all.
fn admin(caller: Caller) -> Result<Access, Failure> {
    let who = caller.at_least(Role::Admin)?;
    match who.is_admin_of_all() {
        true => Ok(who),
        false => Err(Failure::forbidden("a token that is for some networks has no say over agents")),
    }
}

/// Make a one-time token, with which a host becomes an agent of this name. It is in the answer, and nowhere else.
#[utoipa::path(
    post, path = "/api/v1/enrolments", tag = "agents", request_body = InvitationRequest,
    responses((status = 201, description = "It is made", body = Invitation), (status = "4XX", description = "Why not", body = Failure))
)]
pub async fn invite(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(asked, _): Body<InvitationRequest>,
) -> Result<(StatusCode, Json<Invitation>), Failure> {
    let (who, tls) = (admin(caller)?, tls(&app)?);
    if !(1..=INVITATION_SECONDS_MAX).contains(&asked.expires_in_seconds) {
        return Err(Failure::bad("a one-time token lasts 1 to 604800 seconds"));
    }
    let invite = move |service: &Service| {
        let made = service.invite(&tls, &asked.agent, asked.expires_in_seconds);
        service.note_result(&who.name, "agent.invite", &asked.agent, &made);
        made
    };
    Ok((StatusCode::CREATED, Json(app.run(invite).await?)))
}

/// List agents that have enrolled, and until when their certificates are good.
#[utoipa::path(
    get, path = "/api/v1/enrolments", tag = "agents",
    responses((status = 200, description = "All, those that were revoked as well", body = Enrolments), (status = "4XX", description = "Why not", body = Failure))
)]
pub async fn list(State(app): State<Arc<App>>, caller: Caller) -> Result<Json<Enrolments>, Failure> {
    admin(caller)?;
    let enrolments = app.run(|service| Ok(service.store().enrolments()?)).await?;
    Ok(Json(Enrolments { enrolments }))
}

/// Revoke an agent: its certificates, one-time tokens and tokens are good for nothing any more, and its connection is cut.
#[utoipa::path(
    delete, path = "/api/v1/enrolments/{agent}", tag = "agents", params(("agent" = String, Path, description = "Its name")),
    responses((status = 204, description = "It does not come in any more"), (status = "4XX", description = "Why not", body = Failure))
)]
pub async fn revoke(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(agent): Path<String>,
) -> Result<StatusCode, Failure> {
    let who = admin(caller)?;
    let revoke = move |service: &Service| {
        let revoked = service.revoke_agent(&agent);
        service.note_result(&who.name, "agent.revoke", &agent, &revoked);
        revoked
    };
    app.run(revoke).await?;
    app.look_again();
    Ok(StatusCode::NO_CONTENT)
}

/// Get the first certificate of an agent for a one-time token.
#[utoipa::path(
    post, path = "/api/v1/enrol", tag = "agents", request_body = EnrolmentRequest, security(()),
    responses((status = 201, description = "The certificate", body = Certified), (status = "4XX", description = "Why not", body = Failure))
)]
pub async fn enrol(
    State(app): State<Arc<App>>,
    Peer(address): Peer,
    request: Request,
) -> Result<(StatusCode, Json<Certified>), Failure> {
    let tls = tls(&app)?;
    let Body(asked, _) = Body::<EnrolmentRequest>::from_request(request, &app).await?;
    let token = asked.token.clone();
    if app.run(move |service| service.invited(&token)).await?.is_none() {
        caller::count_wrong(&app, address)?;
        return Err(Failure::unauthorized("there is no such one-time token: it was used, or has ended"));
    }
    let enrol = move |service: &Service| {
        let made = service.enrol(&tls, &asked.token, &asked.request);
        let agent = made.as_ref().map(|made| made.agent.clone()).unwrap_or_default();
        service.note_result(&address.to_string(), "agent.enrol", &agent, &made);
        made
    };
    Ok((StatusCode::CREATED, Json(app.run(enrol).await?)))
}

/// Get the next certificate of an agent, whose present one the connection shows.
#[utoipa::path(
    post, path = "/api/v1/renew", tag = "agents", request_body = RenewalRequest, security(()),
    responses((status = 201, description = "The certificate", body = Certified), (status = "4XX", description = "Why not", body = Failure))
)]
pub async fn renew(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<(StatusCode, Json<Certified>), Failure> {
    let tls = tls(&app)?;
    let Some(Certificate(peer)) = request.extensions().get::<Certificate>().cloned() else {
        return Err(Failure::unauthorized("an agent's certificate is wanted"));
    };
    let Body(asked, _) = Body::<RenewalRequest>::from_request(request, &app).await?;
    let renew = move |service: &Service| {
        let made = service.renew_agent(&tls, &peer, &asked.request);
        service.note_result(&peer.name, "agent.renew", &peer.name, &made);
        made
    };
    Ok((StatusCode::CREATED, Json(app.run(renew).await?)))
}
