//! Endpoint for agents: upgrades the HTTP connection to the link protocol.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::app::{AppState, ClientCertificate};
use super::caller;
use super::failure::ApiFailure;
use super::params::header_text;
use crate::job::counters::LimitKind;
use crate::store::access::{AccessRole, ClientAccess};
use crate::store::service_error::ServiceError;

/// Protocol name of the upgrade.
pub const UPGRADE: &str = "netalytics/1";

/// Interval at which the permission of an agent is checked.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Upgrades an agent's connection.
pub async fn connect(State(app): State<Arc<AppState>>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    match upgrade(&app, &mut parts).await {
        Ok(()) => {
            let answer = Response::builder()
                .status(StatusCode::SWITCHING_PROTOCOLS)
                .header(header::CONNECTION, HeaderValue::from_static("Upgrade"))
                .header(header::UPGRADE, HeaderValue::from_static(UPGRADE))
                .body(Body::empty());
            answer.unwrap_or_else(|_| ApiFailure::internal().into_response())
        }
        Err(failure) => failure.into_response(),
    }
}

async fn upgrade(app: &Arc<AppState>, parts: &mut Parts) -> Result<(), ApiFailure> {
    let who = AgentIdentity::of(app, parts).await?;
    let wants =
        header_text(&parts.headers, "upgrade").is_some_and(|to| to.eq_ignore_ascii_case(UPGRADE));
    let on_upgrade = parts.extensions.remove::<OnUpgrade>().filter(|_| wants);
    let Some(on_upgrade) = on_upgrade else {
        return Err(ApiFailure::bad(
            "agents connect with Connection: Upgrade and Upgrade: netalytics/1",
        ));
    };
    let Some(door) = app.service.jobs.fleet.door() else {
        return Err(ApiFailure::not_found("this server does not accept agents"));
    };
    let entry = door.enter(who.name()).map_err(|limit| {
        app.service.hub().meters.reached(LimitKind::Agents);
        ApiFailure::too_fast(&limit.to_string())
    })?;
    let app = app.clone();
    tokio::spawn(async move {
        // If the connection was closed before the upgrade, there is nothing to report to.
        let Ok(connection) = on_upgrade.await else {
            return;
        };
        let mut ending = app.ending.clone();
        tokio::select! {
            () = entry.carry(TokioIo::new(connection), who.over(&app)) => {}
            _ = ending.wait_for(|ending| *ending) => {}
        }
    });
    Ok(())
}

/// Authentication of an agent.
enum AgentIdentity {
    Token(ClientAccess),
    Certificate(identity::VerifiedPeer),
}

impl AgentIdentity {
    async fn of(app: &Arc<AppState>, parts: &Parts) -> Result<AgentIdentity, ApiFailure> {
        if let Some(access) = caller::find(app, parts).await? {
            return match access.role {
                AccessRole::Agent => Ok(AgentIdentity::Token(access)),
                _ => Err(ApiFailure::forbidden(
                    "an agent needs a token with the role agent",
                )),
            };
        }
        let Some(ClientCertificate(peer)) = parts.extensions.get::<ClientCertificate>().cloned()
        else {
            return Err(ApiFailure::unauthorized(
                "an agent's certificate or token is required",
            ));
        };
        let who = AgentIdentity::Certificate(peer);
        who.may_stay(app)
            .await
            .inspect_err(|why| tracing::warn!("agent rejected: {}", why.message))?;
        caller::record_token(&parts.extensions);
        Ok(who)
    }

    fn name(&self) -> &str {
        match self {
            AgentIdentity::Token(access) => &access.name,
            AgentIdentity::Certificate(peer) => &peer.name,
        }
    }

    async fn may_stay(&self, app: &Arc<AppState>) -> Result<(), ApiFailure> {
        match self {
            AgentIdentity::Certificate(peer) => {
                let peer = peer.clone();
                app.run(move |service| service.enrollments.is_enrolled(&peer))
                    .await
            }
            AgentIdentity::Token(access) => {
                let id = access.id;
                let name = access.name.clone();
                let gone = move || {
                    ServiceError::Forbidden(format!(
                        "the token of agent {name} was revoked or has expired"
                    ))
                };
                app.run(move |service| {
                    service
                        .store()
                        .tokens
                        .has(id)?
                        .then_some(())
                        .ok_or_else(gone)
                })
                .await
            }
        }
    }

    /// Resolves when the permission has been revoked, or shortly after it has expired.
    async fn over(&self, app: &Arc<AppState>) {
        let mut revoked = app.revoked.subscribe();
        loop {
            let _ = tokio::time::timeout(LOOK_EVERY, revoked.changed()).await;
            // An unreadable store is checked again later.
            if let Err(why) = self.may_stay(app).await
                && why.code == "forbidden"
            {
                return tracing::warn!(
                    "the connection of agent {} is closed: {}",
                    self.name(),
                    why.message
                );
            }
        }
    }
}
