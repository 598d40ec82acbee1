//! Implementation of the requests, without sockets. All functions may block on the disk.

mod submit;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use plan::{NetworkBudget, Plan, SampleMode};
use tuple::Schema;

use crate::gateway::fleet::{AgentView, Fleet, FleetOrder, StopCause};
use crate::job::{Job, JobEnding, JobId, JobOutcome, JobState, TupleOrigin};
use crate::jobs::leases::JobLeases;
use crate::jobs::limits::ServiceLimits;
use crate::results::delivery::{NamedOutlets, OutletDeliveries, ResultsMetricsPage};
use crate::results::hub::ResultHub;
use crate::rules::actions::{ActionExecutors, ActionRegistry};
use crate::rules::alerts::{AlertRegistry, AlertSenderThreads};
use crate::store::access::{AccessRole, ClientAccess};
use crate::store::history::RowHistory;
use crate::store::recording_store::RecordingStore;
use crate::store::sqlite::{ServerStore, StoreError};

use crate::store::directory_lock::DirectoryLock;
pub use crate::store::service_error::ServiceError;

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> ServiceError {
        ServiceError::Unkept(error.into())
    }
}

/// The service.
pub struct Service {
    /// Sends notifications of alerts; dropped first.
    _sending: AlertSenderThreads,
    /// Carries out the decisions of actions.
    _carrying: ActionExecutors,
    pub(crate) fleet: Arc<dyn Fleet>,
    pub(crate) schemas: Vec<Arc<Schema>>,
    /// Serializes submissions: a key is looked up and stored atomically.
    submitting: Mutex<()>,
    /// Serializes changes of alert rules.
    pub(crate) ruling: Mutex<()>,
    leases: JobLeases,
    pub(crate) deliveries: OutletDeliveries,
    /// Metrics of results.
    pub(crate) shown: ResultsMetricsPage,
    pub(crate) shelf: Option<RecordingStore>,
    hub: Arc<ResultHub>,
    store: ServerStore,
    history: Arc<RowHistory>,
    alerts: Arc<AlertRegistry>,
    actions: Arc<ActionRegistry>,
    limits: ServiceLimits,
    folder: PathBuf,
    /// Dropped last, so that the next process that opens the data directory finds no active thread.
    _lock: DirectoryLock,
}

/// Parts of an opened data directory that the service uses.
pub(crate) struct ServiceParts {
    /// The data directory.
    pub folder: PathBuf,
    pub store: ServerStore,
    pub history: Arc<RowHistory>,
    pub hub: Arc<ResultHub>,
    pub alerts: Arc<AlertRegistry>,
    pub actions: Arc<ActionRegistry>,
    /// Addresses that jobs may use as outlets by name.
    pub outlets: NamedOutlets,
    /// Captures and recordings available for queries.
    pub shelf: Option<RecordingStore>,
    pub limits: ServiceLimits,
    pub lock: DirectoryLock,
}

impl Service {
    /// Starts the service with `fleet` as executor, and resubmits jobs that had not ended.
    ///
    /// # Errors
    /// `StoreError` when the store cannot be read.
    pub(crate) fn start(parts: ServiceParts, fleet: Arc<dyn Fleet>) -> Result<Arc<Service>, StoreError> {
        let ServiceParts { folder, store, history, hub, alerts, actions, outlets, shelf, limits, lock } =
            parts;
        let told = Arc::downgrade(&hub);
        let tell =
            move |job, event: &_| told.upgrade().into_iter().for_each(|hub| hub.tell_alert(job, event));
        let sending = AlertSenderThreads::start(&alerts, Box::new(tell))?;
        let deliveries = OutletDeliveries::new((&store, &history, &hub), outlets.clone(), limits.delivery());
        let carrying = ActionExecutors::start(&actions, outlets);
        let service = Arc::new(Service {
            _sending: sending,
            _carrying: carrying,
            fleet,
            schemas: parsers::registry::schemas(),
            submitting: Mutex::new(()),
            ruling: Mutex::new(()),
            leases: JobLeases::default(),
            deliveries,
            shown: ResultsMetricsPage::default(),
            shelf,
            hub,
            store,
            history,
            alerts,
            actions,
            limits,
            folder,
            _lock: lock,
        });
        service.resume()?;
        Ok(service)
    }

    /// The hub that receives rows.
    #[must_use]
    pub fn hub(&self) -> &Arc<ResultHub> {
        &self.hub
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &ServerStore {
        &self.store
    }

    pub(crate) fn alerts(&self) -> &AlertRegistry {
        &self.alerts
    }

    pub(crate) fn actions(&self) -> &Arc<ActionRegistry> {
        &self.actions
    }

    pub(crate) fn history(&self) -> &RowHistory {
        &self.history
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> &ServiceLimits {
        &self.limits
    }

    /// The data directory.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Records an operation of `who` (a token or an address) on `object` and its outcome in the audit log.
    pub(crate) fn note(&self, who: &str, act: &str, object: &str, outcome: &str) {
        // The operation is not undone.
        if let Err(error) = self.store().audit.add(who, act, object, outcome) {
            tracing::error!("the audit log lacks {act} {object} by {who}: {error}");
        }
    }

    /// Records an operation with a result in the audit log.
    pub(crate) fn note_result<T, E: Display>(
        &self,
        who: &str,
        act: &str,
        object: &str,
        result: &Result<T, E>,
    ) {
        let outcome = result.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned());
        self.note(who, act, object, &outcome);
    }

    /// Housekeeping, called about every ten seconds.
    pub fn look_after(&self) {
        if let Err(error) = self.hub().look_after() {
            tracing::warn!("{error}");
        }
        if let Some(shelf) = &self.shelf {
            shelf.sent().expire();
        }
    }

    /// Resumes jobs that had not ended.
    fn resume(&self) -> Result<(), StoreError> {
        for job in self.store().jobs.unfinished()? {
            let end = |why: &str| {
                let end = JobEnding::new(JobOutcome::Failed, why);
                self.store().jobs.set_state(job.id, &JobState::Ended(end), None)
            };
            let Ok(query) = self.checked_of(&job) else {
                end("this version of the program no longer supports the query")?;
                continue;
            };
            if job.tuples.is_some() && job.tuples != tuples_made(&query) {
                end("this version of the program has different tuples: start the job again")?;
                continue;
            }
            let plan = Arc::new(planner::lower(&query));
            self.leases.begin(job.id, job.spec.lease_seconds);
            if let Err(refused) = self.fleet.start(&order(&job, plan, query.budget)) {
                self.store().jobs.set_state(job.id, &JobState::Planned, Some(&refused.to_string()))?;
            } else if job.state == JobState::Draining {
                self.fleet.stop(job.id, StopCause::Asked);
            }
        }
        for id in self.store().deliveries.unfinished_jobs()? {
            let job = self.store().jobs.get(id)?;
            // A query that this version cannot parse has no new rows, and its existing rows cannot be interpreted.
            let Some(Ok(plan)) = job.map(|job| self.plan_of(&job)) else { continue };
            self.deliveries.begin(id, &plan)?;
        }
        Ok(())
    }

    /// The plan of a query.
    pub(crate) fn plan(&self, text: &str) -> Result<Arc<Plan>, Vec<query::Diagnostic>> {
        self.checked(text).map(|query| Arc::new(planner::lower(&query)))
    }

    /// The query of a job, which may have BUDGET in a network.
    pub(crate) fn checked_of(&self, job: &Job) -> Result<query::CheckedQuery, Vec<query::Diagnostic>> {
        self.checked_in(&job.spec.query, job.spec.capture.network)
    }

    /// Checks a query, with or without a network.
    pub(crate) fn checked_in(
        &self,
        text: &str,
        network: bool,
    ) -> Result<query::CheckedQuery, Vec<query::Diagnostic>> {
        match network {
            true => query::check_for_network(text, &self.schemas, &()),
            false => self.checked(text),
        }
    }

    /// The plan of a job's query.
    pub(crate) fn plan_of(&self, job: &Job) -> Result<Arc<Plan>, Vec<query::Diagnostic>> {
        self.checked_of(job).map(|query| Arc::new(planner::lower(&query)))
    }

    /// Whether `who` may see the rows of a job, and the alerts and actions on them.
    pub(crate) fn may_see_rows_of(&self, who: &ClientAccess, job: JobId) -> bool {
        self.job(who, job).is_ok_and(|job| self.may_see_rows(who, &job).is_ok())
    }

    /// A job that `who` may see.
    pub fn job(&self, who: &ClientAccess, id: JobId) -> Result<Job, ServiceError> {
        let job = self.store().jobs.get(id)?.filter(|job| self.may_see(who, job));
        let mut job = [job.ok_or_else(|| ServiceError::Unknown(format!("there is no job {id}")))?];
        self.tell(&mut job)?;
        let [job] = job;
        Ok(job)
    }

    /// Adds state that is not in the store to jobs.
    pub(crate) fn tell(&self, jobs: &mut [Job]) -> Result<(), StoreError> {
        self.hub().add_unwritten(jobs);
        self.deliveries.tell(jobs)
    }

    /// Agents, each with the jobs that `who` may see.
    pub(crate) fn agents_shown(&self, who: &ClientAccess) -> Vec<AgentView> {
        let mut agents = self.fleet.agents();
        if who.is_scoped() {
            let mut may = BTreeMap::new();
            for agent in &mut agents {
                agent.jobs.retain(|job| *may.entry(*job).or_insert_with(|| self.job(who, *job).is_ok()));
            }
        }
        agents
    }

    /// Whether `who` may see a job: its query stays within the token's networks.
    pub fn may_see(&self, who: &ClientAccess, job: &Job) -> bool {
        !who.is_scoped() || self.plan_of(job).is_ok_and(|plan| who.scope.allows(&plan.monitor))
    }

    /// Checks whether `who` may see a job's rows: tuples, and unredacted texts, require the role *raw*.
    pub fn may_see_rows(&self, who: &ClientAccess, job: &Job) -> Result<(), ServiceError> {
        self.may_see_texts(who, job)?;
        match who.role >= AccessRole::Raw
            || self.plan_of(job).is_ok_and(|plan| !plan.dataflow.pipelines.is_empty())
        {
            true => Ok(()),
            false => {
                Err(ServiceError::Forbidden("this job's rows are tuples, which need the role raw".into()))
            }
        }
    }

    /// Checks whether `who` may see data derived from a job's texts: unredacted ones require the role *raw*.
    pub(crate) fn may_see_texts(&self, who: &ClientAccess, job: &Job) -> Result<(), ServiceError> {
        match job.spec.is_redacted() || who.role >= AccessRole::Raw {
            true => Ok(()),
            false => Err(ServiceError::Forbidden(
                "this job's texts are not redacted: its rows need the role raw".into(),
            )),
        }
    }

    /// Stops a job.
    pub fn stop(&self, who: &ClientAccess, id: JobId) -> Result<Job, ServiceError> {
        let job = self.own(who, id, "stops")?;
        self.end(&job, StopCause::Asked)?;
        self.job(who, id)
    }

    /// Renews the lease of a job.
    pub fn renew(&self, who: &ClientAccess, id: JobId) -> Result<Job, ServiceError> {
        let job = self.own(who, id, "renews")?;
        self.leases.renew(job.id);
        Ok(job)
    }

    /// Ends jobs whose leases have expired.
    pub(crate) fn end_abandoned(&self) {
        for id in self.leases.over() {
            let ended = match self.store().jobs.get(id) {
                Ok(Some(job)) => self.end(&job, StopCause::Abandoned),
                Ok(None) => Ok(()),
                Err(error) => Err(error.into()),
            };
            match ended {
                Ok(()) => self.leases.forget(id),
                Err(error) => tracing::warn!("cannot end the abandoned job {id}: {error}"),
            }
        }
    }

    /// A job that `who` may change as its owner.
    fn own(&self, who: &ClientAccess, id: JobId, what: &str) -> Result<Job, ServiceError> {
        let job = self.job(who, id)?;
        must_own(who, &job.owner, &format!("job {id}"), what)?;
        Ok(job)
    }

    fn end(&self, job: &Job, stop: StopCause) -> Result<(), ServiceError> {
        match job.state {
            JobState::Ended(_) => {}
            // No agent runs it, so there is nothing to wait for.
            JobState::Planned if job.reason.is_some() => {
                let end = JobEnding::new(stop.outcome(), "stopped before it ran");
                self.hub().turn(job.id, JobState::Ended(end), None)?;
            }
            _ => {
                self.hub().turn(job.id, JobState::Draining, None)?;
                self.fleet.stop(job.id, stop);
            }
        }
        Ok(())
    }
}

/// Checks whether `who` is the owner of `thing` or an admin; `what`: the verb for the message, as "stops".
pub(crate) fn must_own(who: &ClientAccess, owner: &str, thing: &str, what: &str) -> Result<(), ServiceError> {
    match owner == who.name || who.role >= AccessRole::Admin {
        true => Ok(()),
        false => Err(ServiceError::Forbidden(format!(
            "{thing} belongs to {owner}: only that token or an admin's {what} it"
        ))),
    }
}

/// Checks whether a token allows a query.
pub(crate) fn may_ask(who: &ClientAccess, plan: &Plan) -> Result<(), ServiceError> {
    if who.role < AccessRole::Raw && plan.dataflow.pipelines.is_empty() {
        return Err(ServiceError::Forbidden(
            "a query without PROCESS returns tuples, which needs the role raw".into(),
        ));
    }
    match who.scope.allows(&plan.monitor) {
        true => Ok(()),
        false => Err(ServiceError::Forbidden(
            "this token is restricted to networks: add FROM or TO with addresses inside them only".into(),
        )),
    }
}

/// Origin of the rows of a query, if they are tuples.
fn tuples_made(query: &query::CheckedQuery) -> Option<TupleOrigin> {
    let sample = match query.sample {
        SampleMode::All => "all".into(),
        SampleMode::Auto => "auto".into(),
        SampleMode::Fraction(share) => share.to_string(),
    };
    let parsers = query.inputs.iter().map(|input| (input.schema.name.to_string(), input.schema.version));
    query.processors.is_empty().then(|| TupleOrigin { parsers: parsers.collect(), sample })
}

fn order(job: &Job, plan: Arc<Plan>, budget: NetworkBudget) -> FleetOrder {
    let network = job.spec.capture.network.then_some(budget);
    FleetOrder { id: job.id, spec: job.spec.clone(), plan, network }
}
