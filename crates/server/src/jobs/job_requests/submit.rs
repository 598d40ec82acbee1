//! Submission of a job: validation, permissions, and start.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError};

use plan::{Plan, SampleMode};

use super::{JobQuotas, JobRequests, order, tuples_made};
use crate::job::counters::LimitKind;
use crate::job::{Job, JobKind, JobSpec, RetainedRows};
use crate::jobs::permissions::may_ask;
use crate::results::delivery::{OutletPermission, OutletRefusal};
use crate::store::access::{AccessRole, ClientAccess};
use crate::store::service_error::ServiceError;
use crate::store::sqlite::{KeyLookup, NewJob};

impl JobRequests {
    /// Creates a job, or returns the one created by the same request. `to`: outlets for its rows, names or addresses. `key`: idempotency key and body. Returns whether
    /// it is new.
    pub fn submit(
        &self,
        who: &ClientAccess,
        spec: &JobSpec,
        to: &[String],
        key: Option<(&str, &[u8])>,
    ) -> Result<(Job, bool), ServiceError> {
        let _one = self
            .submitting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((key, body)) = key {
            match self.store.remembered(&who.name, key, body)? {
                KeyLookup::New => {}
                KeyLookup::Same(id) => return Ok((self.get(who, id)?, false)),
                KeyLookup::Other => return Err(ServiceError::KeyReused),
            }
        }
        let query = self
            .queries
            .check_for(&spec.query, &spec.capture)
            .map_err(ServiceError::Query)?;
        // A statement in SQL is stored with PARSE, which the page divides into clauses.
        let spec = &JobSpec {
            query: stored_text(&spec.query),
            ..spec.clone()
        };
        let plan = Arc::new(planner::lower(&query));
        let tuples = tuples_made(&query);
        may_ask(who, &plan)?;
        if who.role < AccessRole::Raw && !spec.is_redacted() {
            return Err(ServiceError::Forbidden(
                "unredacted texts need the role raw".into(),
            ));
        }
        can_keep(&query, spec, to)?;
        self.check_quotas(who)?;
        self.may_deliver(who, to, &plan)?;
        let outlets = to
            .iter()
            .map(|to| (&**to, RandomState::new().hash_one(to)))
            .collect();
        let new = NewJob {
            spec,
            owner: &who.name,
            outlets,
            tuples,
        };
        let job = self.store.add(&new, key)?;
        if let Err(refused) = self.fleet.start(&order(&job, plan.clone(), query.budget)) {
            self.store.remove(job.id)?;
            return Err(refused.into());
        }
        self.leases.begin(job.id, job.spec.lease_seconds);
        self.deliveries.begin(job.id, &plan)?;
        Ok((self.completed(job.id, self.store.get(job.id)?)?, true))
    }

    /// Checks whether `who` may have another job.
    fn check_quotas(&self, who: &ClientAccess) -> Result<(), ServiceError> {
        let JobQuotas {
            jobs_max,
            jobs_per_owner_max,
            ..
        } = self.quotas;
        let (bound, why) = if self.store.unfinished_count()? >= jobs_max {
            let why = format!("{jobs_max} jobs are active, which is the maximum (--jobs-max)");
            (LimitKind::Jobs, why)
        } else if self.store.unfinished_count_of(&who.name)? >= jobs_per_owner_max {
            let why = format!(
                "{jobs_per_owner_max} jobs of {} are active, which is the maximum per owner (--jobs-per-owner)",
                who.name
            );
            (LimitKind::JobsPerOwner, why)
        } else {
            return Ok(());
        };
        self.hub.meters.reached(bound);
        Err(ServiceError::Quota(why))
    }

    /// Checks whether `who` may use these outlets, and whether they can receive the rows.
    fn may_deliver(
        &self,
        who: &ClientAccess,
        to: &[String],
        plan: &Plan,
    ) -> Result<(), ServiceError> {
        let may = if who.role >= AccessRole::Admin {
            OutletPermission::GiveAddresses
        } else {
            OutletPermission::UseNames
        };
        self.deliveries
            .named()
            .check(to, may, plan)
            .map_err(|unusable| match unusable {
                OutletRefusal::Wrong(why) => ServiceError::Outlet(why),
                OutletRefusal::Forbidden(why) => ServiceError::Forbidden(why),
            })?;
        if !to.is_empty() && !self.deliveries.has_room(to.len()) {
            self.hub.meters.reached(LimitKind::Outlets);
            let most = self.quotas.outlets_max;
            return Err(ServiceError::Quota(format!(
                "jobs have {most} outlets, which is the maximum (--outlets-max)"
            )));
        }
        Ok(())
    }
}

/// Checks that a job has no SINCE, and that tuples are stored without PROCESS.
fn can_keep(
    query: &query::CheckedQuery,
    spec: &JobSpec,
    to: &[String],
) -> Result<(), ServiceError> {
    let keeps = spec.keep == RetainedRows::Tuples;
    let rows = &query.rows;
    let why = if !query.period.is_open() || query.baseline.is_some() {
        "a job processes new data: SINCE, UNTIL, and BASELINE query stored data (POST /api/v1/query), and \
         LIMIT sets the duration of a job"
    } else if keeps && spec.kind != JobKind::Standing {
        "only standing jobs store tuples: make this one standing (kind, --standing)"
    } else if keeps && !query.processors.is_empty() {
        "stored tuples can be processed by any later query: omit PROCESS"
    } else if keeps
        && (!rows.order.is_empty()
            || rows.rows_max.is_some()
            || query.limit != plan::QueryLimit::default())
    {
        "tuples are stored in the order of arrival: omit ORDER BY and LIMIT"
    } else if keeps && spec.merged_by.is_some() {
        "data published to a bus is stored there: use query --kafka"
    } else if spec.merged_by.is_some() && query.processors.is_empty() && !to.is_empty() {
        "tuples go to the bus, not to the server, which cannot deliver them: omit outlets"
    } else if spec.merged_by.is_some()
        && query.processors.is_empty()
        && (!rows.order.is_empty() || rows.rows_max.is_some())
    {
        "tuples go to the bus in the order of arrival: omit ORDER BY and LIMIT … ROWS"
    } else if keeps && query.sample == SampleMode::Exported {
        "tuples of export messages are not stored: use PROCESS, or record --listen"
    } else if keeps && query.sample == SampleMode::Auto {
        "tuples sampled at a varying rate cannot be scaled later: choose a fixed rate, as in SAMPLE 0.1"
    } else {
        return Ok(());
    };
    Err(ServiceError::Wrong(why.into()))
}

/// The text of a valid query with PARSE.
fn stored_text(query: &str) -> String {
    let parsed = query::ParsedText::new(query);
    if parsed.is_sql() {
        query::parse_spelling(&parsed)
    } else {
        query.to_owned()
    }
}
