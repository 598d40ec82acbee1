//! Rows of a job, by page, in the requested format.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::app::AppState;
use super::caller::RequestCaller;
use super::failure::ApiFailure;
use super::jobs::id;
use super::json::JsonResponse;
use super::params::{QueryParams, header_text, time};
use crate::api::row_formats::{RowFormat, write};
use crate::api::service::Service;
use crate::job::JobId;
use crate::job::columns::{CellValue, ColumnHead};
use crate::store::access::{AccessRole, ClientAccess};
use crate::store::history::{PageQuery, RowSelection};
use crate::store::service_error::ServiceError;
use crate::store::sqlite::KeptResult;

/// Default rows per page.
const PAGE: usize = 1000;
/// Header with `after` of the next page, also for formats without a place for it.
const NEXT: HeaderName = HeaderName::from_static("netalytics-next");
/// Header with the number of the last row, for a later request of the rows after it.
const LAST: HeaderName = HeaderName::from_static("netalytics-last");

/// Number of matching rows.
const MATCHES: HeaderName = HeaderName::from_static("netalytics-matches");
/// Maximum wait for other requests with sorted or searched rows.
const WAIT: Duration = Duration::from_secs(5);

/// Query parameters of rows.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RowsParams {
    /// Result, by index from 0 or by the name of its processor; default: the first.
    result: Option<String>,
    /// Rows whose window starts, or that ended, at or after this time: nanoseconds since 1970, or 2026-11-22T10:00:00Z.
    since: Option<String>,
    /// Rows before this time.
    until: Option<String>,
    /// Rows after this number: `next` of the previous page.
    after: Option<String>,
    /// Maximum number of rows; default 1000, at most 10000.
    limit: Option<usize>,
    /// Sort column; rows without a value are last, equal ones in order of arrival. Not with `after`.
    sort: Option<String>,
    /// asc (default) or desc: largest first.
    order: Option<String>,
    /// Text that a text, address, id or group column of the row contains, case-insensitive. Not with `after`.
    find: Option<String>,
    /// Number of matching rows to skip; `offset` + `limit` is at most 100000. Not with `after`.
    offset: Option<usize>,
    /// json, jsonl, csv, arrow or parquet; default: by the header `Accept`.
    format: Option<String>,
}

/// Rows as JSON.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RowsAnswer {
    /// Processor; none: tuples.
    pub processor: Option<String>,
    /// Columns.
    pub columns: Vec<ColumnHead>,
    /// Number of group columns, which follow those of the window.
    pub keys: usize,
    /// Rows as lists of cells. Times, durations in whole nanoseconds and ids are strings.
    #[schema(value_type = Vec<Vec<Option<CellValue>>>)]
    pub rows: Vec<Vec<Value>>,
    /// `after` of the next page, if there may be more.
    pub next: Option<String>,
    /// With `sort`, `find` or `offset`: total number of matching rows.
    pub matches: Option<String>,
    /// Number of rows so far, including removed ones.
    pub total: String,
    /// Rows removed by retention.
    pub dropped: String,
}

/// Read a job's rows.
#[utoipa::path(
    get, path = "/api/v1/jobs/{id}/rows", tag = "jobs", params(("id" = String, Path, description = "Job ID"), RowsParams),
    responses(
        (status = 200, description = "A page of rows. Headers: Netalytics-Next: `after` of the next page; Netalytics-Last: number of the last row; Netalytics-Matches: number of rows when sorted or searched", headers(("Netalytics-Next" = String), ("Netalytics-Last" = String), ("Netalytics-Matches" = String)), content(
            (RowsAnswer = "application/json"), (String = "application/x-ndjson"), (String = "text/csv"),
            (String = "application/vnd.apache.arrow.stream"), (String = "application/vnd.apache.parquet"),
        )),
        (status = "4XX", description = "Error", body = ApiFailure), (status = 503, description = "Busy with other requests, or timeout", body = ApiFailure),
    )
)]
pub async fn rows(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
    headers: HeaderMap,
    QueryParams(params): QueryParams<RowsParams>,
) -> Result<Response, ApiFailure> {
    let who = caller.at_least(AccessRole::View)?;
    let id = id(&name)?;
    let format = format_of(params.format.as_deref(), &headers)?;
    if let Some(selection) = selection(&params, app.service.limits().page_rows_max)? {
        return selected(&app, (who, id), (params.result, selection), format).await;
    }
    let ask = PageQuery {
        after: params.after.as_deref().map(row_number).transpose()?,
        limit: params
            .limit
            .unwrap_or(PAGE)
            .min(app.service.limits().page_rows_max),
        since_ns: params.since.as_deref().map(time).transpose()?,
        until_ns: params.until.as_deref().map(time).transpose()?,
    };
    let read = move |service: &Service| {
        let job = service.jobs.get(&who, id)?;
        service.jobs.may_see_rows(&who, &job)?;
        let result = chosen(service, id, params.result.as_deref())?;
        let page = service.history.read(id, &result, &ask)?;
        let bytes = write(&page, None, &result, format)
            .map_err(crate::store::persist_error::PersistError::Disk)?;
        Ok((bytes, page.next, page.last))
    };
    let (bytes, next, last) = app.run(read).await?;
    let mut response = in_form(bytes, format);
    for (name, row) in [(NEXT, next), (LAST, last)] {
        if let Some(row) = row.and_then(|row| HeaderValue::from_str(&row.to_string()).ok()) {
            response.headers_mut().insert(name, row);
        }
    }
    Ok(response)
}

fn row_number(text: &str) -> Result<i64, ApiFailure> {
    let number = text.parse::<i64>().ok().filter(|after| *after >= 0);
    number.ok_or_else(|| ApiFailure::bad("`after` must be `next` of the previous page"))
}

/// Requested selection, if rows are to be sorted, searched or skipped.
fn selection(
    params: &RowsParams,
    page_rows_max: usize,
) -> Result<Option<RowSelection>, ApiFailure> {
    let is_descending = match params.order.as_deref() {
        None | Some("asc") => false,
        Some("desc") => true,
        Some(other) => {
            return Err(ApiFailure::bad(format!(
                "`order` is asc or desc, not {other}"
            )));
        }
    };
    if params.order.is_some() && params.sort.is_none() {
        return Err(ApiFailure::bad("`order` needs the column (`sort`)"));
    }
    if params.sort.is_none() && params.find.is_none() && params.offset.is_none() {
        return Ok(None);
    }
    if params.after.is_some() {
        return Err(ApiFailure::bad(
            "`after` continues in the order of arrival: use `offset` with `sort` and `find`",
        ));
    }
    Ok(Some(RowSelection {
        since_ns: params.since.as_deref().map(time).transpose()?,
        until_ns: params.until.as_deref().map(time).transpose()?,
        sort: params.sort.clone(),
        is_descending,
        find: params.find.clone(),
        offset: params.offset.unwrap_or(0),
        limit: params.limit.unwrap_or(PAGE).min(page_rows_max),
    }))
}

/// Returns a page of a selection; concurrent reads are limited.
async fn selected(
    app: &Arc<AppState>,
    (who, id): (ClientAccess, JobId),
    (result, selection): (Option<String>, RowSelection),
    format: RowFormat,
) -> Result<Response, ApiFailure> {
    let room = tokio::time::timeout(WAIT, app.selecting_room.clone().acquire_owned()).await;
    let Ok(Ok(room)) = room else {
        return Err(ApiFailure::busy(
            "rows are being sorted and searched for other requests",
        ));
    };
    let read = move |service: &Service| {
        let _room = room;
        let job = service.jobs.get(&who, id)?;
        service.jobs.may_see_rows(&who, &job)?;
        let result = chosen(service, id, result.as_deref())?;
        let deadline = Instant::now() + service.limits().past.time;
        let found = service.history.select((id, &result), &selection, deadline);
        if let Err(ServiceError::Late(_)) = found {
            service.hub().meters.queries_given_up.add(1);
        }
        let (page, matches) = found?;
        let bytes = write(&page, Some(matches), &result, format)
            .map_err(crate::store::persist_error::PersistError::Disk)?;
        Ok((bytes, matches))
    };
    let (bytes, matches) = app.run(read).await?;
    let mut response = in_form(bytes, format);
    response
        .headers_mut()
        .insert(MATCHES, HeaderValue::from(matches));
    Ok(response)
}

/// Requested format, by parameter or by the header `Accept`.
pub(super) fn format_of(name: Option<&str>, headers: &HeaderMap) -> Result<RowFormat, ApiFailure> {
    RowFormat::wanted(name, header_text(headers, "accept")).ok_or_else(|| {
        ApiFailure::not_acceptable("the formats of rows are json, jsonl, csv, arrow, and parquet")
    })
}

/// Response with rows in a format.
pub(super) fn in_form(bytes: Vec<u8>, format: RowFormat) -> Response {
    let mut response = ([(header::CONTENT_TYPE, format.content_type())], bytes).into_response();
    response
        .headers_mut()
        .insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

/// Schemas of a job's results.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Results)]
pub struct ResultList {
    /// By index.
    pub results: Vec<ResultAnswer>,
}

/// Schema of a result.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ResultAnswer {
    /// Processor; none: tuples.
    pub processor: Option<String>,
    /// Name of its table.
    pub table: String,
    /// Columns.
    pub columns: Vec<ColumnHead>,
    /// Number of group columns, which follow those of the window.
    pub keys: usize,
    /// Number of rows so far, including removed ones.
    pub total: String,
    /// Rows removed by retention.
    pub dropped: String,
}

/// List a job's results.
#[utoipa::path(
    get, path = "/api/v1/jobs/{id}/results", tag = "jobs", params(("id" = String, Path, description = "Job ID")),
    responses((status = 200, description = "Results; none before the job starts", body = ResultList), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn results(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
) -> Result<JsonResponse<ResultList>, ApiFailure> {
    let who = caller.at_least(AccessRole::View)?;
    let id = id(&name)?;
    let read = move |service: &Service| {
        service.jobs.get(&who, id)?;
        let of = |result: KeptResult| ResultAnswer {
            processor: result.processor,
            table: result.table,
            columns: result.columns,
            keys: result.keys,
            total: result.next_row.to_string(),
            dropped: result.rows_dropped.to_string(),
        };
        Ok(ResultList {
            results: service
                .store()
                .results
                .of_job(id)?
                .into_iter()
                .map(of)
                .collect(),
        })
    };
    Ok(JsonResponse(app.run(read).await?))
}

/// The requested result.
fn chosen(service: &Service, job: JobId, wanted: Option<&str>) -> Result<KeptResult, ServiceError> {
    let mut results = service.store().results.of_job(job)?;
    if results.is_empty() {
        return Err(ServiceError::Unknown(format!(
            "job {job} has no rows yet: it has not started"
        )));
    }
    let at = match wanted {
        None => Some(0),
        Some(wanted) => results.iter().position(|result| result.is_called(wanted)),
    };
    match at.filter(|at| *at < results.len()) {
        Some(at) => Ok(results.swap_remove(at)),
        None => {
            let names: Vec<_> = results.iter().map(|result| result.table.as_str()).collect();
            Err(ServiceError::Unknown(format!(
                "job {job} has no such result; it has {}",
                names.join(", ")
            )))
        }
    }
}
