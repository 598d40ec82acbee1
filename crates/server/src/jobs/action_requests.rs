//! Requests on actions: permissions to create and see them.

use std::sync::Arc;

use outlets::DesiredStateSender;

use crate::jobs::job_requests::JobRequests;
use crate::jobs::permissions::must_own;
use crate::jobs::rule_requests::RuleRejection;
use crate::results::delivery::{NamedOutlets, OutletPermission, OutletRefusal, shown_address};
use crate::rules::actions::{ActionRegistry, ActionRequest, ActionSpec, ActionView, DecisionView};
use crate::store::access::{AccessRole, ClientAccess};
use crate::store::service_error::ServiceError;

/// Requests about actions.
pub struct ActionRequests {
    jobs: Arc<JobRequests>,
    /// Running actions.
    pub registry: Arc<ActionRegistry>,
}

impl ActionRequests {
    /// Accepts requests about the actions of `registry`.
    pub fn new(jobs: Arc<JobRequests>, registry: Arc<ActionRegistry>) -> ActionRequests {
        ActionRequests { jobs, registry }
    }

    /// Adds an action.
    pub fn add(
        &self,
        who: &ClientAccess,
        asked: &ActionRequest,
    ) -> Result<ActionView, RuleRejection> {
        let most = self.registry.limits().actions_max;
        if self.registry.count() >= most {
            return Err(ServiceError::Quota(format!(
                "there are {most} actions, which is the maximum (--actions-max)"
            ))
            .into());
        }
        asked.check().map_err(RuleRejection::Wrong)?;
        let job = self.jobs.standing_job(who, &asked.job)?;
        self.jobs.may_see_rows(who, &job)?;
        must_own(
            who,
            &job.owner,
            &format!("job {}", job.id),
            "makes actions over",
        )?;
        let plan = self
            .jobs
            .queries
            .plan_of(&job)
            .map_err(|errors| RuleRejection::Query(job.spec.query.clone(), errors))?;
        let action = ActionSpec::of(asked.clone(), &plan).map_err(RuleRejection::Wrong)?;
        self.may_tell(who, asked)?;
        let added = self.registry.add(&who.name, job.id, &action)?;
        added.ok_or_else(|| RuleRejection::Taken(format!("action {} already exists", asked.name)))
    }

    /// Checks whether `who` may use these receivers, and whether they can carry out decisions.
    fn may_tell(&self, who: &ClientAccess, asked: &ActionRequest) -> Result<(), RuleRejection> {
        let may = if who.role >= AccessRole::Admin {
            OutletPermission::GiveAddresses
        } else {
            OutletPermission::UseNames
        };
        for to in &asked.to {
            NamedOutlets::allow(to, may).map_err(|unusable| match unusable {
                OutletRefusal::Wrong(why) => ServiceError::Outlet(why),
                OutletRefusal::Forbidden(why) => ServiceError::Forbidden(why),
            })?;
            let address = self.jobs.deliveries.named().read(to);
            let made = address.and_then(|address| DesiredStateSender::new(&address));
            made.map_err(|why| ServiceError::Outlet(format!("to {}: {why}", shown_address(to))))?;
        }
        Ok(())
    }

    /// Removes an action. Receivers keep its last decision.
    pub fn remove(&self, who: &ClientAccess, id: i64) -> Result<(), ServiceError> {
        let action = self.get(who, id)?;
        must_own(
            who,
            &action.owner,
            &format!("the action {}", action.name),
            "removes",
        )?;
        self.registry.remove(id)?;
        Ok(())
    }

    /// Actions that `who` may see.
    pub fn list(&self, who: &ClientAccess) -> Vec<ActionView> {
        let mut actions = self.registry.shown();
        actions.retain(|action| self.jobs.may_see_rows_of(who, action.job_id));
        actions
    }

    /// An action that `who` may see.
    pub fn get(&self, who: &ClientAccess, id: i64) -> Result<ActionView, ServiceError> {
        let action = self
            .registry
            .one(id)
            .filter(|action| self.jobs.may_see_rows_of(who, action.job_id));
        action.ok_or_else(|| ServiceError::Unknown(format!("action {id} does not exist")))
    }

    /// Decisions of an action that `who` may see, newest first.
    pub fn decisions(
        &self,
        who: &ClientAccess,
        id: i64,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DecisionView>, ServiceError> {
        self.get(who, id)?;
        Ok(self.registry.decisions(id, before, limit)?)
    }
}
