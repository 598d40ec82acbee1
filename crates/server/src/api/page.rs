//! The page without scripts, at `/status` and, if the program was built without its page, at `/`: state of the server,
//! its jobs and agents. Text from queries or the network is escaped.

use std::sync::Arc;

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::app::{AppState, ClientAddress};
use super::caller;
use super::failure::ApiFailure;
use super::help::{ServiceCounters, counted};
use super::tokens;
use crate::api::service::Service;
use crate::gateway::fleet::AgentView;
use crate::job::Job;
use crate::rules::alerts::{AlertView, time};
use crate::store::access::{AccessRole, ClientAccess};
use crate::store::sqlite::JobQuery;

/// Maximum jobs shown.
const JOBS: usize = 50;
/// Maximum alerts shown.
const ALERTS: usize = 100;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;width:100%;margin:.5rem 0 2rem}th,td{text-align:left;padding:.2rem .8rem .2rem 0;\
border-bottom:1px solid #8884;vertical-align:top}code{white-space:pre-wrap;overflow-wrap:anywhere}\
@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#9cf}}";

/// Style sheet of the page.
pub async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

/// The page: the state for authenticated users, otherwise the login form.
pub async fn status(State(app): State<Arc<AppState>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match caller::find(&app, &parts).await {
        Ok(Some(who)) if who.role < AccessRole::View => (
            StatusCode::FORBIDDEN,
            Html(document(&form(Some("this request needs the role view")))),
        )
            .into_response(),
        Ok(Some(who)) => match show(&app, who).await {
            Ok(page) => Html(page).into_response(),
            Err(failure) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                Html(document(&escape(&failure.message))),
            )
                .into_response(),
        },
        Ok(None) => Html(document(&form(None))).into_response(),
        Err(failure) => (
            StatusCode::UNAUTHORIZED,
            Html(document(&form(Some(&failure.message)))),
        )
            .into_response(),
    }
}

/// Fields of the login form.
#[derive(Deserialize)]
pub struct LoginForm {
    token: String,
}

/// Handles the login form.
pub async fn login(State(app): State<Arc<AppState>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let request = Request::from_parts(parts.clone(), body);
    let form: Result<Form<LoginForm>, FormRejection> = Form::from_request(request, &()).await;
    let peer = parts.extensions.get::<ClientAddress>().copied();
    let begun = match form {
        Ok(Form(LoginForm { token })) => tokens::begin(&app, &parts, &token, peer).await,
        Err(_) => Err(ApiFailure::bad("the form needs a token")),
    };
    match begun {
        Ok((_, cookie)) => {
            let mut response = Redirect::to("/status").into_response();
            response.headers_mut().insert(header::SET_COOKIE, cookie);
            response
        }
        Err(failure) => (
            StatusCode::UNAUTHORIZED,
            Html(document(&self::form(Some(&failure.message)))),
        )
            .into_response(),
    }
}

/// Logs out.
pub async fn logout(State(app): State<Arc<AppState>>, headers: HeaderMap) -> Response {
    match tokens::end(&app, &headers).await {
        Ok(()) => (
            [(header::SET_COOKIE, tokens::FORGET)],
            Redirect::to("/status"),
        )
            .into_response(),
        Err(failure) => failure.into_response(),
    }
}

async fn show(app: &Arc<AppState>, who: ClientAccess) -> Result<String, ApiFailure> {
    // Counters are of all jobs and agents.
    let counters = if who.is_scoped() {
        None
    } else {
        Some(counted(app).await?)
    };
    let name = who.name.clone();
    let read = move |service: &Service| {
        let mut jobs = service.store().jobs.list(&JobQuery {
            limit: JOBS,
            ..JobQuery::default()
        })?;
        jobs.retain(|job| service.jobs.may_see(&who, job));
        service.jobs.complete(&mut jobs)?;
        let mut alerts = service.rules.alerts_shown(&who);
        alerts.retain(|alert| alert.state == "firing");
        Ok((jobs, service.jobs.agents_shown(&who), alerts))
    };
    let (jobs, agents, alerts) = app.run(read).await?;
    Ok(document(&format!(
        "<form method=post action=/logout><p>{} · <button>log out</button></p></form>{}<h2>Alerts</h2>{}<h2>Jobs</h2>{}<h2>Agents</h2>{}",
        escape(&name),
        counters.as_ref().map(summary).unwrap_or_default(),
        of_alerts(&alerts),
        of_jobs(&jobs),
        of_agents(&agents),
    )))
}

fn summary(c: &ServiceCounters) -> String {
    let lost = [
        (c.rows_dropped, "rows dropped by retention"),
        (c.rows_unkept, "rows could not be stored"),
        (c.rows_unshown, "rows omitted from live streams"),
        (c.segments_damaged, "parts of the history could not be read"),
        (c.jobs_refused, "jobs too many"),
        (c.streams_refused, "live streams rejected"),
        (c.requests_refused, "requests rejected by the rate limit"),
        (c.notifications_lost, "notifications of alerts lost"),
    ];
    let lost = lost
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!(" · {n} {what}"));
    format!(
        "<p>up {} s · {} jobs not ended · {} agents connected · {} live streams · {} bytes of history{}</p>",
        c.uptime_seconds,
        c.jobs_unfinished,
        c.agents_connected,
        c.streams,
        c.history_bytes,
        lost.collect::<String>()
    )
}

fn of_alerts(alerts: &[AlertView]) -> String {
    let row = |alert: &AlertView| {
        let list = |pairs: Vec<String>| escape(&pairs.join(" "));
        format!(
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}",
            escape(&alert.rule),
            list(
                alert
                    .labels
                    .iter()
                    .map(|(k, v)| format!("{k}={v}"))
                    .collect()
            ),
            list(alert.annotations.values().cloned().collect()),
            escape(&time(alert.fired_ns.unwrap_or(alert.since_ns))),
            match (alert.silenced_by.is_empty(), alert.held.as_deref()) {
                (false, _) => "silenced".into(),
                (true, held) => escape(&held.unwrap_or_default().replace('_', " ")),
            },
        )
    };
    match alerts {
        [] => "<p>none fires.</p>".into(),
        alerts => format!(
            "<table><tr><th>rule<th>labels<th>says<th>fires since<th>{}</table>",
            alerts.iter().take(ALERTS).map(row).collect::<String>()
        ),
    }
}

fn of_jobs(jobs: &[Job]) -> String {
    let row = |job: &Job| {
        format!(
            "<tr><td>{id}<td>{}<td>{}<td>{}<td><code>{}</code><td><a href=\"/api/v1/jobs/{id}/rows?format=csv\">rows</a>",
            escape(&job.spec.name),
            job.state.word(),
            escape(job.reason.as_deref().unwrap_or_default()),
            escape(&job.spec.query),
            id = job.id,
        )
    };
    match jobs {
        [] => "<p>none yet: <code>netalytics jobs start 'QUERY' --server …</code></p>".into(),
        jobs => format!(
            "<table><tr><th>job<th>name<th>state<th>why<th>query<th>{}</table>",
            jobs.iter().map(row).collect::<String>()
        ),
    }
}

fn of_agents(agents: &[AgentView]) -> String {
    let row = |agent: &AgentView| {
        let labels: Vec<_> = agent
            .labels
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        format!(
            "<tr><td>{}<td>{}<td>{}<td>{}",
            escape(&agent.name),
            if agent.connected { "connected" } else { "gone" },
            escape(&labels.join(" ")),
            escape(&agent.interfaces.join(" ")),
        )
    };
    match agents {
        [] => "<p>No agent is connected; queries need one.</p>".into(),
        agents => format!(
            "<table><tr><th>agent<th>state<th>labels<th>interfaces{}</table>",
            agents.iter().map(row).collect::<String>()
        ),
    }
}

fn form(said: Option<&str>) -> String {
    let said = said
        .map(|said| format!("<p>{}</p>", escape(said)))
        .unwrap_or_default();
    format!(
        "{said}<form method=post action=/login><p><label>Token <input type=password name=token autocomplete=off \
         required></label> <button>log in</button></p></form>"
    )
}

fn document(body: &str) -> String {
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>netalytics</title><link rel=stylesheet href=/style.css><h1>netalytics {}</h1>{body}\
         <p><a href=/api/v1/openapi.json>API</a></p>",
        env!("CARGO_PKG_VERSION")
    )
}

/// Escapes text for HTML; makes control and bidirectional characters visible.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in sinks::table::escape(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
