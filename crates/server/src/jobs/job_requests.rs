//! Requests about jobs, without sockets. All functions may block on the disk.

mod submit;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use plan::{NetworkBudget, Plan, SampleMode};

use crate::gateway::fleet::{AgentView, Fleet, FleetOrder, StopCause};
use crate::job::{Job, JobEnding, JobId, JobKind, JobOutcome, JobState, TupleOrigin};
use crate::jobs::leases::JobLeases;
use crate::jobs::limits::ServiceLimits;
use crate::jobs::permissions::must_own;
use crate::jobs::query_checker::QueryChecker;
use crate::results::delivery::OutletDeliveries;
use crate::results::hub::ResultHub;
use crate::store::access::{AccessRole, ClientAccess};
use crate::store::service_error::ServiceError;
use crate::store::sqlite::{JobQuery, JobStore, StoreError};

/// Limits of jobs.
#[derive(Clone, Copy, Debug)]
pub struct JobQuotas {
    jobs_max: usize,
    jobs_per_owner_max: usize,
    outlets_max: usize,
}

impl JobQuotas {
    /// The limits of jobs among all limits.
    pub fn of(limits: &ServiceLimits) -> JobQuotas {
        let ServiceLimits {
            jobs_max,
            jobs_per_owner_max,
            outlets_max,
            ..
        } = *limits;
        JobQuotas {
            jobs_max,
            jobs_per_owner_max,
            outlets_max,
        }
    }
}

/// See the module documentation.
pub struct JobRequests {
    /// Executor of jobs.
    pub fleet: Arc<dyn Fleet>,
    /// Checks queries.
    pub queries: QueryChecker,
    /// Serializes submissions: a key is looked up and stored atomically.
    submitting: Mutex<()>,
    leases: JobLeases,
    /// Delivery of rows to outlets.
    pub deliveries: OutletDeliveries,
    hub: Arc<ResultHub>,
    store: JobStore,
    quotas: JobQuotas,
}

impl JobRequests {
    /// Accepts requests for `fleet`.
    pub fn new(
        fleet: Arc<dyn Fleet>,
        deliveries: OutletDeliveries,
        hub: Arc<ResultHub>,
        store: JobStore,
        quotas: JobQuotas,
    ) -> JobRequests {
        JobRequests {
            fleet,
            queries: QueryChecker::default(),
            submitting: Mutex::new(()),
            leases: JobLeases::default(),
            deliveries,
            hub,
            store,
            quotas,
        }
    }

    /// Resumes jobs that had not ended.
    ///
    /// # Errors
    /// `StoreError` when the store cannot be read.
    pub fn resume(&self) -> Result<(), StoreError> {
        for job in self.store.unfinished()? {
            let end = |why: &str| {
                let end = JobEnding::new(JobOutcome::Failed, why);
                self.store.set_state(job.id, &JobState::Ended(end), None)
            };
            let Ok(query) = self.queries.check_job(&job) else {
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
                self.store
                    .set_state(job.id, &JobState::Planned, Some(&refused.to_string()))?;
            } else if job.state == JobState::Draining {
                self.fleet.stop(job.id, StopCause::Asked);
            }
        }
        for id in self.deliveries.unfinished_jobs()? {
            let job = self.store.get(id)?;
            // A query that this version cannot parse has no new rows, and its existing rows cannot be interpreted.
            let Some(Ok(plan)) = job.map(|job| self.queries.plan_of(&job)) else {
                continue;
            };
            self.deliveries.begin(id, &plan)?;
        }
        Ok(())
    }

    /// Whether `who` may see the rows of a job, and the alerts and actions on them.
    pub fn may_see_rows_of(&self, who: &ClientAccess, job: JobId) -> bool {
        self.get(who, job)
            .is_ok_and(|job| self.may_see_rows(who, &job).is_ok())
    }

    /// A job that `who` may see.
    pub fn get(&self, who: &ClientAccess, id: JobId) -> Result<Job, ServiceError> {
        let job = self.store.get(id)?.filter(|job| self.may_see(who, job));
        self.completed(id, job)
    }

    /// Adds state that is not in the store to a job, if it exists.
    fn completed(&self, id: JobId, job: Option<Job>) -> Result<Job, ServiceError> {
        let mut job =
            [job.ok_or_else(|| ServiceError::Unknown(format!("job {id} does not exist")))?];
        self.complete(&mut job)?;
        let [job] = job;
        Ok(job)
    }

    /// A standing job by number or name.
    pub fn standing_job(&self, who: &ClientAccess, name: &str) -> Result<Job, ServiceError> {
        let all = self.store.list(&JobQuery {
            limit: usize::MAX,
            ..JobQuery::default()
        })?;
        let is_meant = |job: &Job| {
            job.spec.kind == JobKind::Standing
                && !job.state.has_ended()
                && (job.spec.name == name || job.id.to_string() == name)
                && self.may_see(who, job)
        };
        let found = all.into_iter().find(is_meant);
        found.ok_or_else(|| ServiceError::Unknown(format!("no standing job {name} is running")))
    }

    /// Adds state that is not in the store to jobs.
    pub fn complete(&self, jobs: &mut [Job]) -> Result<(), StoreError> {
        self.hub.add_unwritten(jobs);
        self.deliveries.tell(jobs)
    }

    /// Agents, each with the jobs that `who` may see.
    pub fn agents_shown(&self, who: &ClientAccess) -> Vec<AgentView> {
        let mut agents = self.fleet.agents();
        if who.is_scoped() {
            let mut may = BTreeMap::new();
            for agent in &mut agents {
                agent.jobs.retain(|job| {
                    *may.entry(*job)
                        .or_insert_with(|| self.get(who, *job).is_ok())
                });
            }
        }
        agents
    }

    /// Whether `who` may see a job: its query stays within the token's networks.
    pub fn may_see(&self, who: &ClientAccess, job: &Job) -> bool {
        !who.is_scoped()
            || self
                .queries
                .plan_of(job)
                .is_ok_and(|plan| who.scope.allows(&plan.monitor))
    }

    /// Checks whether `who` may see a job's rows: tuples, and unredacted texts, require the role *raw*.
    pub fn may_see_rows(&self, who: &ClientAccess, job: &Job) -> Result<(), ServiceError> {
        self.may_see_texts(who, job)?;
        if who.role >= AccessRole::Raw
            || self
                .queries
                .plan_of(job)
                .is_ok_and(|plan| !plan.dataflow.pipelines.is_empty())
        {
            Ok(())
        } else {
            Err(ServiceError::Forbidden(
                "this job's rows are tuples, which need the role raw".into(),
            ))
        }
    }

    /// Checks whether `who` may see data derived from a job's texts: unredacted ones require the role *raw*.
    pub fn may_see_texts(&self, who: &ClientAccess, job: &Job) -> Result<(), ServiceError> {
        if job.spec.is_redacted() || who.role >= AccessRole::Raw {
            Ok(())
        } else {
            Err(ServiceError::Forbidden(
                "this job's texts are not redacted: its rows need the role raw".into(),
            ))
        }
    }

    /// Stops a job.
    pub fn stop(&self, who: &ClientAccess, id: JobId) -> Result<Job, ServiceError> {
        let job = self.own(who, id, "stops")?;
        self.end(&job, StopCause::Asked)?;
        self.get(who, id)
    }

    /// Renews the lease of a job.
    pub fn renew(&self, who: &ClientAccess, id: JobId) -> Result<Job, ServiceError> {
        let job = self.own(who, id, "renews")?;
        self.leases.renew(job.id);
        Ok(job)
    }

    /// Ends jobs whose leases have expired.
    pub fn end_abandoned(&self) {
        for id in self.leases.over() {
            let ended = match self.store.get(id) {
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
        let job = self.get(who, id)?;
        must_own(who, &job.owner, &format!("job {id}"), what)?;
        Ok(job)
    }

    fn end(&self, job: &Job, stop: StopCause) -> Result<(), ServiceError> {
        match job.state {
            JobState::Ended(_) => {}
            // No agent runs it, so there is nothing to wait for.
            JobState::Planned if job.reason.is_some() => {
                let end = JobEnding::new(stop.outcome(), "stopped before it ran");
                self.hub.turn(job.id, JobState::Ended(end), None)?;
            }
            _ => {
                self.hub.turn(job.id, JobState::Draining, None)?;
                self.fleet.stop(job.id, stop);
            }
        }
        Ok(())
    }
}

/// Origin of the rows of a query, if they are tuples.
fn tuples_made(query: &query::CheckedQuery) -> Option<TupleOrigin> {
    let sample = match query.sample {
        SampleMode::All => "all".into(),
        SampleMode::Auto => "auto".into(),
        SampleMode::Exported => "exported".into(),
        SampleMode::Fraction(share) => share.to_string(),
    };
    let parsers = query
        .inputs
        .iter()
        .map(|input| (input.schema.name.to_string(), input.schema.version));
    query.processors.is_empty().then(|| TupleOrigin {
        parsers: parsers.collect(),
        sample,
    })
}

fn order(job: &Job, plan: Arc<Plan>, budget: NetworkBudget) -> FleetOrder {
    let network = job.spec.capture.network.then_some(budget);
    FleetOrder {
        id: job.id,
        owner: job.owner.clone(),
        spec: job.spec.clone(),
        plan,
        network,
    }
}
