//! The address at which agents connect: the connection is theirs from then on.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::App;
use super::caller::{self, Caller};
use super::failure::Failure;
use super::params::header_text;
use super::stream::is_still_known;
use crate::access::{Access, Role};

/// What connections are turned into.
pub const UPGRADE: &str = "netalytics/1";

/// How often it is looked whether an agent's token was revoked.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Takes an agent's connection.
pub async fn connect(State(app): State<Arc<App>>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    match upgrade(&app, &mut parts).await {
        Ok(()) => {
            let answer = Response::builder()
                .status(StatusCode::SWITCHING_PROTOCOLS)
                .header(header::CONNECTION, HeaderValue::from_static("Upgrade"))
                .header(header::UPGRADE, HeaderValue::from_static(UPGRADE))
                .body(Body::empty());
            answer.unwrap_or_else(|_| Failure::internal().into_response())
        }
        Err(failure) => failure.into_response(),
    }
}

async fn upgrade(app: &Arc<App>, parts: &mut Parts) -> Result<(), Failure> {
    let caller = caller::find(app, parts).await?.map(Caller);
    let who = caller.ok_or_else(|| Failure::unauthorized("an agent's token is wanted"))?.0;
    if who.role != Role::Agent {
        return Err(Failure::forbidden("only a token with the role agent connects an agent"));
    }
    let wants = header_text(&parts.headers, "upgrade").is_some_and(|to| to.eq_ignore_ascii_case(UPGRADE));
    let on_upgrade = parts.extensions.remove::<OnUpgrade>().filter(|_| wants);
    let Some(on_upgrade) = on_upgrade else {
        return Err(Failure::bad("agents connect with Connection: Upgrade and Upgrade: netalytics/1"));
    };
    let Some(door) = app.service.fleet.door() else {
        return Err(Failure::not_found("this server has no agents"));
    };
    let entry = door.enter().map_err(|_| Failure::too_fast("the server has as many agents as it may"))?;
    let (mut ending, app) = (app.ending.clone(), app.clone());
    tokio::spawn(async move {
        // Where the connection is gone before it is theirs there is nobody to tell.
        let Ok(connection) = on_upgrade.await else { return };
        tokio::select! {
            () = entry.carry(who.name.clone(), TokioIo::new(connection)) => {}
            () = revoked(&app, &who) => {}
            _ = ending.wait_for(|ending| *ending) => {}
        }
    });
    Ok(())
}

/// Until the token is no longer good.
async fn revoked(app: &Arc<App>, who: &Access) {
    while is_still_known(app, who).await {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
