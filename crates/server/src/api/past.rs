//! Queries of the past: answered immediately from data stored by jobs, or from a capture or recording.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::{IntoParams, ToSchema};

use super::app::AppState;
use super::caller::RequestCaller;
use super::failure::ApiFailure;
use super::params::{JsonBody, QueryParams};
use super::rows::{format_of, in_form};
use crate::api::row_formats::{RowFormat, write};
use crate::api::service::Service;
use crate::job::JobId;
use crate::job::columns::{self, CellValue, ColumnHead};
use crate::queries::past::{AnswerOrigin, PastQuery, PastResponse, PastTable};
use crate::store::access::AccessRole;
use crate::store::history::RowPage;
use crate::store::service_error::ServiceError;

/// Header for each note on an answer whose format has no place for notes.
const NOTE: HeaderName = HeaderName::from_static("netalytics-note");
/// Maximum time a query waits for others.
const WAIT: Duration = Duration::from_secs(5);
/// Default confidence level of differences.
const CONFIDENCE: f64 = 0.95;

/// A query of the past.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PastRequest {
    /// The query, with SINCE; relative times count back from now. For a recording, SINCE is optional and relative times
    /// count back from its end.
    pub query: String,
    /// Capture or recording to read, by its id; none: data stored by jobs.
    #[serde(default)]
    pub recording: Option<String>,
    /// Labels by which the job selects its agents.
    #[serde(default)]
    pub on: BTreeMap<String, String>,
    /// Result to return, by index from 0 or by the name of its processor; formats other than JSON contain one result.
    #[serde(default)]
    pub result: Option<String>,
    /// With BASELINE: confidence level of differences; default 0.95.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// Maximum number of rows per result; default and maximum 10000.
    #[serde(default)]
    pub limit: Option<usize>,
}

/// Query parameters: format.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PastParams {
    /// json, jsonl, csv, arrow or parquet; default: by the header `Accept`.
    format: Option<String>,
}

/// A result.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PastResult {
    /// Processor; none: tuples.
    pub processor: Option<String>,
    /// Name of the table.
    pub table: String,
    /// Columns.
    pub columns: Vec<ColumnHead>,
    /// Number of group columns, which follow those of the window.
    pub keys: usize,
    /// Rows as lists of cells. Times, durations in whole nanoseconds and ids are strings.
    #[schema(value_type = Vec<Vec<Option<CellValue>>>)]
    pub rows: Vec<Vec<Value>>,
    /// Number of omitted rows.
    pub left_out: u64,
}

/// Answer from stored data.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PastAnswer {
    /// Job that kept it; null for a recording, and for a job that the token may not see.
    pub job: Option<JobId>,
    /// Recording that was read.
    pub recording: Option<String>,
    /// Source: tuples of a job, rows of a job with the same query, or a recording.
    pub from: AnswerOrigin,
    /// Start of the period, if limited.
    pub since_ns: Option<String>,
    /// End of the period, exclusive.
    pub until_ns: Option<String>,
    /// Start of the baseline.
    pub baseline_since_ns: Option<String>,
    /// End of the baseline, exclusive.
    pub baseline_until_ns: Option<String>,
    /// Number of tuples read.
    pub tuples: u64,
    /// Notes on the answer.
    pub notes: Vec<String>,
    /// The results, by processor.
    pub results: Vec<PastResult>,
}

/// Query stored data.
#[utoipa::path(
    post, path = "/api/v1/query", tag = "jobs", request_body = PastRequest, params(PastParams),
    responses(
        (status = 200, description = "Result from stored data; Netalytics-Note headers have the notes", headers(("Netalytics-Note" = String)), content(
            (PastAnswer = "application/json"), (String = "application/x-ndjson"), (String = "text/csv"),
            (String = "application/vnd.apache.arrow.stream"), (String = "application/vnd.apache.parquet"),
        )),
        (status = "4XX", description = "Error; `not_kept`: missing data", body = ApiFailure),
    )
)]
pub async fn query(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    headers: HeaderMap,
    QueryParams(params): QueryParams<PastParams>,
    JsonBody(asked, _): JsonBody<PastRequest>,
) -> Result<Response, ApiFailure> {
    let who = caller.at_least(AccessRole::Run)?;
    let format = format_of(params.format.as_deref(), &headers)?;
    let confidence = asked.confidence.unwrap_or(CONFIDENCE);
    if !(confidence > 0.5 && confidence < 1.0) {
        return Err(ApiFailure::bad("`confidence` must be between 0.5 and 1"));
    }
    let most = app.service.limits().page_rows_max;
    let rows_max = asked.limit.unwrap_or(most).min(most);
    let PastRequest {
        query,
        recording,
        on,
        result,
        ..
    } = asked;
    let text = query.clone();
    let question = PastQuery {
        query,
        on,
        confidence,
        rows_max,
    };
    let room = room(&app).await?;
    let answer = app.run(move |service: &Service| {
        // The query is aborted at its deadline and holds its permit until then.
        let _room = room;
        let asked = match &recording {
            None => service.past.ask(&who, &question),
            Some(id) => service.recordings.ask(&who, id, &question),
        };
        service.audit.note_result(
            &who.name,
            "query",
            recording.as_deref().unwrap_or_default(),
            &asked,
        );
        match asked {
            Err(ServiceError::Query(errors)) => Ok(Err(errors)),
            asked => asked
                .and_then(|answer| said(answer, result.as_deref(), format))
                .map(Ok),
        }
    });
    match answer.await? {
        Ok((bytes, notes)) => Ok(response(bytes, &notes, format)),
        Err(errors) => Err(ApiFailure::of_query(&text, &errors)),
    }
}

/// Waits until few enough others read stored data.
pub(super) async fn room(app: &AppState) -> Result<OwnedSemaphorePermit, ApiFailure> {
    match tokio::time::timeout(WAIT, app.past_room.clone().acquire_owned()).await {
        Ok(Ok(room)) => Ok(room),
        _ => Err(ApiFailure::busy("other queries of stored data are running")),
    }
}

fn response(bytes: Vec<u8>, notes: &[String], format: RowFormat) -> Response {
    let mut response = in_form(bytes, format);
    add_notes(&mut response, notes);
    response
}

/// Adds notes as headers.
pub(super) fn add_notes<'n>(response: &mut Response, notes: impl IntoIterator<Item = &'n String>) {
    for note in notes
        .into_iter()
        .filter_map(|note| HeaderValue::from_bytes(note.as_bytes()).ok())
    {
        response.headers_mut().append(NOTE, note);
    }
}

/// Encodes the answer; returns its bytes and notes.
fn said(
    answer: PastResponse,
    result: Option<&str>,
    format: RowFormat,
) -> Result<(Vec<u8>, Vec<String>), ServiceError> {
    if format == RowFormat::Json {
        let answer = json(answer);
        return Ok((
            serde_json::to_vec(&answer).unwrap_or_default(),
            answer.notes,
        ));
    }
    let names: Vec<String> = answer
        .results
        .iter()
        .map(|one| one.result.table.clone())
        .collect();
    let one = match result {
        None if answer.results.len() == 1 => answer.results.into_iter().next(),
        None => None,
        Some(wanted) => answer
            .results
            .into_iter()
            .find(|one| one.result.is_called(wanted)),
    };
    let Some(one) = one else {
        return Err(ServiceError::Wrong(format!(
            "this format holds one result, and the query has {}: choose one (`result`)",
            names.join(", ")
        )));
    };
    let page = RowPage {
        schema: one.schema,
        batches: one.batches,
        last: None,
        next: None,
        stopped: None,
    };
    let bytes = write(&page, None, &one.result, format)
        .map_err(crate::store::persist_error::PersistError::Disk)?;
    Ok((bytes, answer.notes))
}

fn json(answer: PastResponse) -> PastAnswer {
    let result = |one: PastTable| PastResult {
        processor: one.result.processor,
        table: one.result.table,
        columns: one.result.columns,
        keys: one.result.keys,
        rows: one
            .batches
            .iter()
            .flat_map(|batch| (0..batch.rows()).map(|row| columns::row(batch, row)))
            .collect(),
        left_out: one.left_out,
    };
    PastAnswer {
        job: answer.job,
        recording: answer.recording,
        from: answer.from,
        since_ns: answer.period.map(|(since, _)| since.to_string()),
        until_ns: answer.period.map(|(_, until)| until.to_string()),
        baseline_since_ns: answer.baseline.map(|(since, _)| since.to_string()),
        baseline_until_ns: answer.baseline.map(|(_, until)| until.to_string()),
        tuples: answer.tuples,
        notes: answer.notes,
        results: answer.results.into_iter().map(result).collect(),
    }
}
