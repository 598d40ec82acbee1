//! Jobs: start, list, show, stop; and the agents that run them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::app::AppState;
use super::caller::RequestCaller;
use super::failure::ApiFailure;
use super::json::JsonResponse;
use super::params::{JsonBody, QueryParams, header_text};
use crate::api::service::Service;
use crate::gateway::fleet::AgentView;
use crate::job::columns::{maybe_text, text};
use crate::job::{
    BusKind, CaptureRequest, Job, JobId, JobKind, JobOutcome, JobOutlet, JobSource, JobSpec,
    MergeEngine, RedactionMode, RetainedRows,
};
use crate::results::hub::{AgentAccount, TapAccount};
use crate::store::access::AccessRole;
use crate::store::service_error::ServiceError;
use crate::store::sqlite::JobQuery;

/// Default jobs per page.
const PAGE: usize = 100;
/// Maximum labels of a job.
const LABELS_MAX: usize = 32;
/// Maximum bytes of a name or a label.
const NAME_BYTES_MAX: usize = 200;
/// Maximum bytes of a capture filter.
const FILTER_BYTES_MAX: usize = 10_000;
/// One day.
const LEASE_SECONDS_MAX: u32 = 86_400;

/// A job as requested.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// The query.
    pub query: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Whether the job ends by itself.
    #[serde(default)]
    pub kind: JobKind,
    /// Labels that an agent must have to take part; empty: every agent.
    #[serde(default)]
    pub on: BTreeMap<String, String>,
    /// Labels of the job.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Whether texts that may identify a person are redacted; false requires the role raw.
    #[serde(default = "yes")]
    pub redact: bool,
    /// Source of the packets: interfaces of the agents' hosts, or export messages of switches and routers (sFlow,
    /// NetFlow, IPFIX) that agents receive.
    #[serde(default)]
    pub source: JobSource,
    /// Interfaces from which agents capture, `*` for any characters; empty: all that they may use.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// Capture filter in libpcap's syntax; none: all packets.
    #[serde(default)]
    pub capture_filter: Option<String>,
    /// Runs it in the server's network: the server plans the monitors' locations, and switches mirror to them. BUDGET
    /// limits the resources.
    #[serde(default)]
    pub network: bool,
    /// For a one-off job: it ends if it is not renewed for this number of seconds.
    #[serde(default)]
    pub lease_seconds: Option<u32>,
    /// Destinations of the job's rows in addition to the history: names of outlets, or addresses, which require the role
    /// admin.
    #[serde(default)]
    pub to: Vec<String>,
    /// Data to store for later queries: its results, or its tuples, which requires a standing job without PROCESS.
    #[serde(default)]
    pub keep: RetainedRows,
    /// Bus to which agents publish their results; none: they send them to the server.
    #[serde(default)]
    pub bus: Option<BusKind>,
    /// Engine that merges results on the bus; default: the server.
    #[serde(default)]
    pub engine: Option<MergeEngine>,
}

fn yes() -> bool {
    true
}

/// A job as stored and shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Job)]
pub struct JobView {
    /// Number.
    pub id: JobId,
    /// Name.
    pub name: String,
    /// The query.
    pub query: String,
    /// Whether the job ends by itself.
    pub kind: JobKind,
    /// State.
    #[schema(value_type = JobStateName)]
    pub state: &'static str,
    /// Reason for its end, or for not running.
    pub reason: Option<String>,
    /// Outcome, if ended.
    pub outcome: Option<JobOutcome>,
    /// Token name of the owner.
    pub owner: String,
    /// Labels that an agent must have to take part.
    pub on: BTreeMap<String, String>,
    /// Labels of the job.
    pub labels: BTreeMap<String, String>,
    /// Whether texts that may identify a person are redacted.
    pub redacted: bool,
    /// Source of the packets.
    pub source: JobSource,
    /// Interfaces from which agents capture; empty: all that they may use.
    pub interfaces: Vec<String>,
    /// Capture filter in libpcap's syntax; none: all packets.
    pub capture_filter: Option<String>,
    /// Whether it runs in the server's network: the server plans the monitors' locations, and switches mirror to them.
    pub network: bool,
    /// Seconds without renewal after which it ends; null without a lease.
    pub lease_seconds: Option<u32>,
    /// Data stored for later queries.
    pub keep: RetainedRows,
    /// Bus to which agents publish their results; none: they send them to the server.
    pub bus: Option<BusKind>,
    /// Process that merges the results on the bus.
    pub engine: Option<MergeEngine>,
    /// Time of submission, in nanoseconds since the epoch.
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    pub created_ns: i64,
    /// Time of its end.
    #[serde(serialize_with = "maybe_text")]
    #[schema(value_type = Option<String>)]
    pub ended_ns: Option<i64>,
    /// Destinations of the job's rows besides the history, with their state.
    pub outlets: Vec<JobOutlet>,
}

impl From<Job> for JobView {
    fn from(job: Job) -> JobView {
        let Job {
            id,
            spec,
            owner,
            state,
            reason,
            created_ns,
            ended_ns,
            outlets,
            tuples: _,
        } = job;
        JobView {
            id,
            redacted: spec.is_redacted(),
            name: spec.name,
            query: spec.query,
            kind: spec.kind,
            state: state.word(),
            reason,
            outcome: state.outcome(),
            owner,
            on: spec.on,
            labels: spec.labels,
            source: spec.capture.source,
            interfaces: spec.capture.interfaces,
            capture_filter: spec.capture.filter,
            network: spec.capture.network,
            lease_seconds: spec.lease_seconds,
            keep: spec.keep,
            bus: spec.merged_by.map(|_| BusKind::Kafka),
            engine: spec.merged_by,
            created_ns,
            ended_ns,
            outlets,
        }
    }
}

/// Names of states, for the API description.
#[derive(ToSchema)]
#[schema(as = StateWord)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code)]
pub(super) enum JobStateName {
    Planned,
    Arming,
    Running,
    Draining,
    Ended,
}

/// Jobs.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Jobs)]
pub struct JobList {
    /// Newest first.
    pub jobs: Vec<JobView>,
    /// `before` of the next page, if there may be one.
    pub next: Option<JobId>,
}

/// Query parameters of jobs.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct JobsParams {
    /// Only jobs in this state: planned, arming, running, draining, ended.
    state: Option<String>,
    /// Only jobs older than this one.
    before: Option<String>,
    /// Maximum number of entries; default 100.
    limit: Option<usize>,
}

/// Agents.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Agents)]
pub struct AgentList {
    /// By name.
    pub agents: Vec<AgentView>,
}

fn checked(asked: JobRequest) -> Result<(JobSpec, Vec<String>), ApiFailure> {
    let JobRequest {
        query,
        name,
        kind,
        on,
        labels,
        redact,
        source,
        interfaces,
        capture_filter,
        network,
        lease_seconds,
        to,
        keep,
        bus,
        engine,
    } = asked;
    let is_long_text = |text: &String| text.len() > NAME_BYTES_MAX;
    if interfaces.len() > LABELS_MAX || interfaces.iter().any(is_long_text) {
        return Err(ApiFailure::bad(format!(
            "at most {LABELS_MAX} interfaces may be named, each in at most {NAME_BYTES_MAX} bytes"
        )));
    }
    if capture_filter
        .as_ref()
        .is_some_and(|filter| filter.len() > FILTER_BYTES_MAX)
    {
        return Err(ApiFailure::bad(format!(
            "a capture filter has at most {FILTER_BYTES_MAX} bytes"
        )));
    }
    match lease_seconds {
        Some(_) if kind == JobKind::Standing => {
            return Err(ApiFailure::bad(
                "a standing job has no lease: it runs until it is stopped",
            ));
        }
        Some(seconds) if !(1..=LEASE_SECONDS_MAX).contains(&seconds) => {
            return Err(ApiFailure::bad(format!(
                "a lease has 1 to {LEASE_SECONDS_MAX} seconds"
            )));
        }
        _ => {}
    }
    let is_long = |labels: &BTreeMap<String, String>| {
        labels.len() > LABELS_MAX
            || labels
                .iter()
                .any(|(k, v)| k.len().max(v.len()) > NAME_BYTES_MAX)
    };
    if name.len() > NAME_BYTES_MAX || is_long(&on) || is_long(&labels) {
        return Err(ApiFailure::bad(format!(
            "names and labels have at most {NAME_BYTES_MAX} bytes, and there are at most {LABELS_MAX} labels"
        )));
    }
    let merged_by = match (bus, engine) {
        (Some(BusKind::Kafka), engine) => Some(engine.unwrap_or_default()),
        (None, None | Some(MergeEngine::Embedded)) => None,
        (None, Some(MergeEngine::Flink)) => {
            return Err(ApiFailure::bad(
                "Flink merges only records of a bus: add bus: kafka",
            ));
        }
    };
    if network && (!on.is_empty() || !interfaces.is_empty() || merged_by.is_some()) {
        return Err(ApiFailure::bad(
            "the network's plan selects agents and interfaces, and agents send results to the server: omit \
             on, interfaces, and bus",
        ));
    }
    if source == JobSource::Exports && (!interfaces.is_empty() || network) {
        return Err(ApiFailure::bad(
            "export messages arrive at the listeners of agents: omit interfaces and network",
        ));
    }
    if source == JobSource::Exports && merged_by.is_some() {
        return Err(ApiFailure::bad(
            "agents send results of export messages to the server: omit bus",
        ));
    }
    let redaction = if redact {
        RedactionMode::Folded
    } else {
        RedactionMode::Raw
    };
    let filter = capture_filter.filter(|filter| !filter.trim().is_empty());
    let capture = CaptureRequest {
        source,
        interfaces,
        filter,
        network,
    };
    let spec = JobSpec {
        query,
        name,
        kind,
        on,
        labels,
        redaction,
        capture,
        lease_seconds,
        keep,
        merged_by,
    };
    Ok((spec, to))
}

pub(super) fn id(text: &str) -> Result<JobId, ApiFailure> {
    text.parse()
        .map_err(|()| ApiFailure::not_found("a job is identified by its number"))
}

/// Start a job.
#[utoipa::path(
    post, path = "/api/v1/jobs", tag = "jobs", request_body = JobRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body create one job; remembered for a day")),
    responses(
        (status = 201, description = "Created", body = JobView),
        (status = 200, description = "Created before by the same request", body = JobView),
        (status = "4XX", description = "Error", body = ApiFailure),
    )
)]
pub async fn create(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    headers: HeaderMap,
    JsonBody(asked, bytes): JsonBody<JobRequest>,
) -> Result<(StatusCode, JsonResponse<JobView>), ApiFailure> {
    let who = caller.at_least(AccessRole::Run)?;
    let key = if headers.contains_key("idempotency-key") {
        Some(
            header_text(&headers, "idempotency-key")
                .filter(|key| (1..=NAME_BYTES_MAX).contains(&key.len()))
                .ok_or_else(|| {
                    ApiFailure::bad(
                        "Idempotency-Key must be a single text of at most 200 characters",
                    )
                })?
                .to_owned(),
        )
    } else {
        None
    };
    let (spec, to) = checked(asked)?;
    let text = spec.query.clone();
    let submit = move |service: &Service| {
        let key = key.as_deref().map(|key| (key, &bytes[..]));
        let result = service.jobs.submit(&who, &spec, &to, key);
        let (object, outcome) = match &result {
            Ok((job, true)) => (job.id.to_string(), "done".to_owned()),
            Ok((job, false)) => (job.id.to_string(), "had been done".to_owned()),
            Err(denied) => (String::new(), denied.to_string()),
        };
        service
            .audit
            .note(&who.name, "job.start", &object, &outcome);
        Ok(result)
    };
    match app.run(submit).await? {
        Ok((job, true)) => Ok((StatusCode::CREATED, JsonResponse(job.into()))),
        Ok((job, false)) => Ok((StatusCode::OK, JsonResponse(job.into()))),
        Err(ServiceError::Query(errors)) => Err(ApiFailure::of_query(&text, &errors)),
        Err(denied) => Err(denied.into()),
    }
}

/// List jobs.
#[utoipa::path(
    get, path = "/api/v1/jobs", tag = "jobs", params(JobsParams),
    responses((status = 200, description = "Jobs visible to the token", body = JobList), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn list(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    QueryParams(params): QueryParams<JobsParams>,
) -> Result<JsonResponse<JobList>, ApiFailure> {
    let who = caller.at_least(AccessRole::View)?;
    let before = params.before.as_deref().map(id).transpose()?;
    let limit = params.limit.unwrap_or(PAGE).min(1000);
    let wanted = JobQuery {
        state: params.state,
        before,
        limit,
    };
    let read = move |service: &Service| {
        let mut jobs = service.store().jobs.list(&wanted)?;
        let next = (jobs.len() == wanted.limit)
            .then(|| jobs.last().map(|job| job.id))
            .flatten();
        jobs.retain(|job| service.jobs.may_see(&who, job));
        service.jobs.complete(&mut jobs)?;
        Ok(JobList {
            jobs: jobs.into_iter().map(JobView::from).collect(),
            next,
        })
    };
    Ok(JsonResponse(app.run(read).await?))
}

/// Show a job.
#[utoipa::path(
    get, path = "/api/v1/jobs/{id}", tag = "jobs", params(("id" = String, Path, description = "Job ID")),
    responses((status = 200, description = "The job", body = JobView), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn show(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
) -> Result<JsonResponse<JobView>, ApiFailure> {
    let who = caller.at_least(AccessRole::View)?;
    let id = id(&name)?;
    Ok(JsonResponse(
        app.run(move |service| service.jobs.get(&who, id))
            .await?
            .into(),
    ))
}

/// Stop a job. Its results so far are kept.
#[utoipa::path(
    delete, path = "/api/v1/jobs/{id}", tag = "jobs", params(("id" = String, Path, description = "Job ID")),
    responses((status = 200, description = "The job, draining or ended", body = JobView), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn stop(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
) -> Result<JsonResponse<JobView>, ApiFailure> {
    let who = caller.at_least(AccessRole::Run)?;
    let id = id(&name)?;
    let stop = move |service: &Service| {
        let result = service.jobs.stop(&who, id);
        service
            .audit
            .note_result(&who.name, "job.stop", &id.to_string(), &result);
        result
    };
    Ok(JsonResponse(app.run(stop).await?.into()))
}

/// Renew a job's lease for the same duration.
#[utoipa::path(
    post, path = "/api/v1/jobs/{id}/renew", tag = "jobs", params(("id" = String, Path, description = "Job ID")),
    responses((status = 200, description = "The job; a job without a lease is unchanged", body = JobView), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn renew(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
) -> Result<JsonResponse<JobView>, ApiFailure> {
    let who = caller.at_least(AccessRole::Run)?;
    let id = id(&name)?;
    Ok(JsonResponse(
        app.run(move |service| service.jobs.renew(&who, id))
            .await?
            .into(),
    ))
}

/// Counters of each agent of a job.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AgentAccounts {
    /// By name.
    pub agents: Vec<AgentAccount>,
    /// For a query over both taps of flows (`tap.…`): number of requests by tap.
    pub taps: Option<TapAccount>,
}

/// Show the counters of each agent of a job.
#[utoipa::path(
    get, path = "/api/v1/jobs/{id}/agents", tag = "jobs", params(("id" = String, Path, description = "Job ID")),
    responses((status = 200, description = "Also of an ended job while its results are stored", body = AgentAccounts), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn accounts(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
    Path(name): Path<String>,
) -> Result<JsonResponse<AgentAccounts>, ApiFailure> {
    let who = caller.at_least(AccessRole::View)?;
    let id = id(&name)?;
    let read = move |service: &Service| {
        service.jobs.get(&who, id)?;
        let (agents, taps) = service.hub().agents(id)?;
        Ok(AgentAccounts { agents, taps })
    };
    Ok(JsonResponse(app.run(read).await?))
}

/// List agents.
#[utoipa::path(
    get, path = "/api/v1/agents", tag = "agents",
    responses((status = 200, description = "All known agents", body = AgentList), (status = "4XX", description = "Error", body = ApiFailure))
)]
pub async fn agents(
    State(app): State<Arc<AppState>>,
    caller: RequestCaller,
) -> Result<JsonResponse<AgentList>, ApiFailure> {
    let who = caller.at_least(AccessRole::View)?;
    let agents = app
        .run(move |service| Ok(service.jobs.agents_shown(&who)))
        .await?;
    Ok(JsonResponse(AgentList { agents }))
}
