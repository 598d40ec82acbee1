//! Submission of a job: validation, permissions, and start.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError};

use plan::{Plan, Sample};

use super::{Denied, Service, may_ask, order, tuples_made};
use crate::access::{Access, Role};
use crate::delivery::{May, Unusable};
use crate::job::{Job, JobKind, Keep, Redaction, Submission};
use crate::limits::Limits;
use crate::meters::Bound;
use crate::store::{NewJob, Remembered};

impl Service {
    /// Creates a job, or returns the one created by the same request. `key`: idempotency key and body. Returns whether
    /// it is new.
    pub fn submit(
        &self,
        who: &Access,
        asked: &Submission,
        key: Option<(&str, &[u8])>,
    ) -> Result<(Job, bool), Denied> {
        let _one = self.submitting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((key, body)) = key {
            match self.store().remembered(&who.name, key, body)? {
                Remembered::New => {}
                Remembered::Same(id) => return Ok((self.job(who, id)?, false)),
                Remembered::Other => return Err(Denied::KeyReused),
            }
        }
        let query = self.checked_in(&asked.query, asked.capture.network).map_err(Denied::Query)?;
        let (plan, tuples) = (Arc::new(planner::lower(&query)), tuples_made(&query));
        may_ask(who, &plan)?;
        if who.role < Role::Raw && asked.redaction == Redaction::Raw {
            return Err(Denied::Forbidden("texts that are not folded need the role raw".into()));
        }
        can_keep(&query, asked)?;
        self.check_quotas(who)?;
        self.may_deliver(who, &asked.to, &plan)?;
        let outlets = asked.to.iter().map(|to| RandomState::new().hash_one(to)).collect();
        let new = NewJob { asked, owner: &who.name, outlets, tuples };
        let job = self.store().add_job(&new, key)?;
        if let Err(refused) = self.fleet.start(&order(&job, plan.clone(), query.budget)) {
            self.store().forget_job(job.id)?;
            return Err(refused.into());
        }
        self.leases.begin(job.id, job.lease_seconds);
        self.deliveries.begin(job.id, &plan)?;
        Ok((self.job(who, job.id)?, true))
    }

    /// Checks whether `who` may have another job.
    fn check_quotas(&self, who: &Access) -> Result<(), Denied> {
        let Limits { jobs_max, jobs_per_owner_max, .. } = *self.limits();
        let (bound, why) = if self.store().unfinished_count()? >= jobs_max {
            let why = format!("{jobs_max} jobs have not ended, and there may be no more (--jobs-max)");
            (Bound::Jobs, why)
        } else if self.store().unfinished_count_of(&who.name)? >= jobs_per_owner_max {
            let why = format!(
                "{jobs_per_owner_max} jobs of {} have not ended, and one owner may have no more (--jobs-per-owner)",
                who.name
            );
            (Bound::JobsPerOwner, why)
        } else {
            return Ok(());
        };
        self.hub().meters.reached(bound);
        Err(Denied::Quota(why))
    }

    /// Checks whether `who` may use these outlets, and whether they can receive the rows.
    fn may_deliver(&self, who: &Access, to: &[String], plan: &Plan) -> Result<(), Denied> {
        let may = if who.role >= Role::Admin { May::GiveAddresses } else { May::UseNames };
        self.deliveries.named().check(to, may, plan).map_err(|unusable| match unusable {
            Unusable::Wrong(why) => Denied::Outlet(why),
            Unusable::Forbidden(why) => Denied::Forbidden(why),
        })?;
        if !to.is_empty() && !self.deliveries.has_room(to.len()) {
            self.hub().meters.reached(Bound::Outlets);
            let most = self.limits().outlets_max;
            return Err(Denied::Quota(format!(
                "jobs have {most} outlets, and there may be no more (--outlets-max)"
            )));
        }
        Ok(())
    }
}

/// Checks that a job has no SINCE, and that tuples are stored without PROCESS.
fn can_keep(query: &query::Query, asked: &Submission) -> Result<(), Denied> {
    let keeps = asked.keep == Keep::Tuples;
    let rows = &query.rows;
    let why = if !query.period.is_open() || query.baseline.is_some() {
        "a job sees what comes from now on: SINCE, UNTIL and BASELINE ask of what was kept (POST /api/v1/query), and LIMIT says \
         how long a job lasts"
    } else if keeps && asked.kind != JobKind::Standing {
        "tuples are kept by standing jobs: say that it is one (kind, --standing)"
    } else if keeps && !query.processors.is_empty() {
        "what is kept are tuples, of which any results can be made later: leave out PROCESS"
    } else if keeps
        && (!rows.order.is_empty() || rows.rows_max.is_some() || query.limit != plan::Limit::default())
    {
        "tuples are kept for good, as they come: leave out ORDER BY and LIMIT"
    } else if keeps && asked.merged_by.is_some() {
        "what agents publish to a bus is kept there: query --kafka asks of it"
    } else if asked.merged_by.is_some() && query.processors.is_empty() && !asked.to.is_empty() {
        "tuples go to the bus, and the server has none of them that it could deliver: leave out outlets"
    } else if asked.merged_by.is_some()
        && query.processors.is_empty()
        && (!rows.order.is_empty() || rows.rows_max.is_some())
    {
        "tuples go to the bus as they come: leave out ORDER BY and LIMIT … ROWS"
    } else if keeps && query.sample == Sample::Auto {
        "at a rate that changes tuples cannot be scaled later: say which share of the flows, as in SAMPLE 0.1"
    } else {
        return Ok(());
    };
    Err(Denied::Wrong(why.into()))
}
