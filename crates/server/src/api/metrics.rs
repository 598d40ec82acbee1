//! Metrics for Prometheus, and durations of requests.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use outlets::{ExpositionFormat, MetricsPage};
use serde::Deserialize;
use utoipa::IntoParams;

use super::app::AppState;
use super::caller::{self, RequestCaller};
use super::failure::ApiFailure;
use super::jobs::id;
use super::params::{QueryParams, header_text};
use crate::api::metrics_page::{self, RequestCounters};
use crate::job::JobId;
use crate::jobs::limits::ScrapeAccess;
use crate::store::access::AccessRole;

/// Metrics of the service.
#[utoipa::path(
    get, path = "/metrics", tag = "service",
    responses((status = 200, description = "Prometheus text format, or protobuf on request", content((String = "text/plain"))), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn own(
    State(app): State<Arc<AppState>>,
    request: Request,
) -> Result<Response, ApiFailure> {
    let (parts, _) = request.into_parts();
    let form = form(&parts.headers);
    if app.service.limits().scrapers == ScrapeAccess::WithToken {
        let who = caller::find(&app, &parts).await?.map(RequestCaller);
        let who =
            who.ok_or_else(|| ApiFailure::unauthorized("a token with the role view is required"))?;
        if who.at_least(AccessRole::View)?.is_scoped() {
            return Err(ApiFailure::forbidden(
                "a token restricted to networks cannot read metrics of all jobs and agents",
            ));
        }
    }
    let of_requests = RequestCounters {
        uptime: app.started.elapsed(),
        refused: app.rates.refused.load(Ordering::Relaxed),
        waited: app.connections_waited.load(Ordering::Relaxed),
        evicted: app.admission.evicted(),
        handshakes_failed: app.tls.as_ref().map_or(0, |tls| tls.refusals()),
    };
    let page = app
        .run(move |service| metrics_page::page(service, &of_requests, form))
        .await?;
    Ok(answer(&page, form))
}

/// Query parameters of job metrics.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ResultsParams {
    /// Numbers of jobs, separated by commas; default: all standing jobs.
    jobs: Option<String>,
}

/// Results of standing jobs as metrics.
#[utoipa::path(
    get, path = "/metrics/jobs", tag = "service", params(ResultsParams),
    responses((status = 200, description = "Prometheus text format, or protobuf with native histograms on request", content((String = "text/plain"))), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn of_jobs(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    QueryParams(params): QueryParams<ResultsParams>,
    headers: HeaderMap,
) -> Result<Response, ApiFailure> {
    let who = caller.at_least(AccessRole::View)?;
    let form = form(&headers);
    let numbers = params
        .jobs
        .as_deref()
        .map(|text| text.split(',').map(|name| id(name.trim())).collect());
    let only: Option<Vec<JobId>> = numbers.transpose()?;
    let page = app
        .run(move |service| metrics_page::results(service, &who, only.as_deref(), form))
        .await?;
    Ok(answer(&page, form))
}

/// Format requested by the scraper.
fn form(headers: &HeaderMap) -> ExpositionFormat {
    ExpositionFormat::wanted(header_text(headers, "accept").unwrap_or_default())
}

fn answer(page: &MetricsPage, form: ExpositionFormat) -> Response {
    ([(header::CONTENT_TYPE, form.content_type())], page.write()).into_response()
}

/// Counts a request, and the time to the start of its response.
pub async fn measured(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = word(request.method());
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map(|path| path.as_str().to_owned());
    let response = next.run(request).await;
    let asked = (
        method,
        route.unwrap_or_default(),
        response.status().as_u16(),
    );
    app.service.hub().meters.answered(asked, begun.elapsed());
    response
}

/// Name of a standard HTTP method; clients may invent others.
fn word(method: &Method) -> &'static str {
    const KNOWN: [&str; 9] = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
    ];
    KNOWN
        .iter()
        .find(|known| **known == method.as_str())
        .copied()
        .unwrap_or("_OTHER")
}
