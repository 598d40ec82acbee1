//! Certificates of agents: one-time tokens, enrollment, renewal, revocation.

use std::sync::Arc;

use axum::extract::{FromRequest, Path, Request, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::app::{AppState, ClientAddress, ClientCertificate};
use super::caller::{self, RequestCaller};
use super::failure::ApiFailure;
use super::json::JsonResponse;
use super::params::JsonBody;
use crate::api::service::Service;
use crate::jobs::enrollment::{AgentCertificate, INVITATION_SECONDS_MAX, Invitation};
use crate::store::access::{AccessRole, ClientAccess};
use crate::store::sqlite::EnrolledAgent;
use crate::store::tls::ServerTls;

/// An agent to invite.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvitationRequest {
    /// Name: letters, digits, `-`, `_`, `.`, at most 64.
    pub agent: String,
    /// Validity of the token in seconds; default one hour, at most one week.
    #[serde(default = "an_hour")]
    pub expires_in_seconds: u32,
}

fn an_hour() -> u32 {
    3600
}

/// Enrollment of a host.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EnrolmentRequest)]
pub struct EnrollmentRequest {
    /// One-time token.
    pub token: String,
    /// Certificate signing request (PKCS #10), PEM. Only its public key is used.
    pub request: String,
}

/// Renewal of an agent's certificate.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewalRequest {
    /// Certificate signing request, as for the enrollment.
    pub request: String,
}

/// Enrolled agents.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Enrolments)]
pub struct EnrollmentList {
    /// By name.
    #[serde(rename = "enrolments")]
    pub enrollments: Vec<EnrolledAgent>,
}

fn tls(app: &AppState) -> Result<Arc<ServerTls>, ApiFailure> {
    let none = "this server has no TLS (--tls): agents connect with tokens of the role agent";
    app.tls
        .clone()
        .ok_or_else(|| ApiFailure::conflict("no_tls", none))
}

/// Requires an admin without restriction to networks: agents see all networks.
fn admin(caller: RequestCaller) -> Result<ClientAccess, ApiFailure> {
    let who = caller.at_least(AccessRole::Admin)?;
    if who.is_admin_of_all() {
        Ok(who)
    } else {
        Err(ApiFailure::forbidden(
            "a token restricted to networks cannot manage agents",
        ))
    }
}

/// Create a one-time token for the enrollment of an agent with this name. The token is returned only here.
#[utoipa::path(
    post, path = "/api/v1/enrolments", tag = "agents", request_body = InvitationRequest,
    responses((status = 201, description = "Created", body = Invitation), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn invite(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    JsonBody(asked, _): JsonBody<InvitationRequest>,
) -> Result<(StatusCode, JsonResponse<Invitation>), ApiFailure> {
    let who = admin(caller)?;
    let tls = tls(&app)?;
    if !(1..=INVITATION_SECONDS_MAX).contains(&asked.expires_in_seconds) {
        return Err(ApiFailure::bad(
            "the lifetime of a one-time token is 1 to 604800 seconds",
        ));
    }
    let invite = move |service: &Service| {
        let made = service
            .enrollments
            .invite(&tls, &asked.agent, asked.expires_in_seconds);
        service
            .audit
            .note_result(&who.name, "agent.invite", &asked.agent, &made);
        made
    };
    Ok((StatusCode::CREATED, JsonResponse(app.run(invite).await?)))
}

/// List enrolled agents and the expiration of their certificates.
#[utoipa::path(
    get, path = "/api/v1/enrolments", tag = "agents",
    responses((status = 200, description = "All agents, including revoked ones", body = EnrollmentList), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn list(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
) -> Result<JsonResponse<EnrollmentList>, ApiFailure> {
    admin(caller)?;
    let enrollments = app
        .run(|service| Ok(service.store().enrollments.all()?))
        .await?;
    Ok(JsonResponse(EnrollmentList { enrollments }))
}

/// Revoke an agent: invalidates its certificates, one-time tokens and tokens, and closes its connection.
#[utoipa::path(
    delete, path = "/api/v1/enrolments/{agent}", tag = "agents", params(("agent" = String, Path, description = "Agent name")),
    responses((status = 204, description = "Revoked"), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn revoke(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(agent): Path<String>,
) -> Result<StatusCode, ApiFailure> {
    let who = admin(caller)?;
    let revoke = move |service: &Service| {
        let revoked = service.enrollments.revoke_agent(&agent);
        service
            .audit
            .note_result(&who.name, "agent.revoke", &agent, &revoked);
        revoked
    };
    app.run(revoke).await?;
    app.look_again();
    Ok(StatusCode::NO_CONTENT)
}

/// Enroll an agent: issue its first certificate for a one-time token.
#[utoipa::path(
    post, path = "/api/v1/enrol", operation_id = "enrol", tag = "agents", request_body = EnrollmentRequest, security(()),
    responses((status = 201, description = "The certificate", body = AgentCertificate), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn enroll(
    State(app): State<Arc<AppState>>,
    ClientAddress(address): ClientAddress,
    request: Request,
) -> Result<(StatusCode, JsonResponse<AgentCertificate>), ApiFailure> {
    let tls = tls(&app)?;
    let JsonBody(asked, _) = JsonBody::<EnrollmentRequest>::from_request(request, &app).await?;
    let token = asked.token.clone();
    if app
        .run(move |service| service.enrollments.invited(&token))
        .await?
        .is_none()
    {
        caller::count_wrong(&app, address)?;
        return Err(ApiFailure::unauthorized(
            "unknown one-time token: it was used or has expired",
        ));
    }
    let enroll = move |service: &Service| {
        let made = service
            .enrollments
            .enroll(&tls, &asked.token, &asked.request);
        let agent = made
            .as_ref()
            .map(|made| made.agent.clone())
            .unwrap_or_default();
        service
            .audit
            .note_result(&address.to_string(), "agent.enrol", &agent, &made);
        made
    };
    Ok((StatusCode::CREATED, JsonResponse(app.run(enroll).await?)))
}

/// Renew the certificate of an agent authenticated by its current one.
#[utoipa::path(
    post, path = "/api/v1/renew", tag = "agents", request_body = RenewalRequest, security(()),
    responses((status = 201, description = "The certificate", body = AgentCertificate), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn renew(
    State(app): State<Arc<AppState>>,
    request: Request,
) -> Result<(StatusCode, JsonResponse<AgentCertificate>), ApiFailure> {
    let tls = tls(&app)?;
    let Some(ClientCertificate(peer)) = request.extensions().get::<ClientCertificate>().cloned()
    else {
        return Err(ApiFailure::unauthorized(
            "an agent's certificate is required",
        ));
    };
    let JsonBody(asked, _) = JsonBody::<RenewalRequest>::from_request(request, &app).await?;
    let renew = move |service: &Service| {
        let made = service.enrollments.renew_agent(&tls, &peer, &asked.request);
        service
            .audit
            .note_result(&peer.name, "agent.renew", &peer.name, &made);
        made
    };
    Ok((StatusCode::CREATED, JsonResponse(app.run(renew).await?)))
}
