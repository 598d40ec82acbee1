//! Requests on actions: permissions to create and see them.

use outlets::DesiredStateSender;

use crate::jobs::rule_requests::RuleRejection;
use crate::jobs::service::{Service, ServiceError, must_own};
use crate::results::delivery::{NamedOutlets, OutletPermission, OutletRefusal, shown_address};
use crate::rules::actions::{ActionRequest, ActionSpec, ActionView, DecisionView};
use crate::store::access::{AccessRole, ClientAccess};

impl Service {
    /// Adds an action.
    pub fn add_action(&self, who: &ClientAccess, asked: &ActionRequest) -> Result<ActionView, RuleRejection> {
        let most = self.limits().actions.actions_max;
        if self.actions().count() >= most {
            return Err(ServiceError::Quota(format!(
                "there are {most} actions, which is the maximum (--actions-max)"
            ))
            .into());
        }
        asked.check().map_err(RuleRejection::Wrong)?;
        let job = self.standing_job(who, &asked.job)?;
        self.may_see_rows(who, &job)?;
        must_own(who, &job.owner, &format!("job {}", job.id), "makes actions over")?;
        let plan =
            self.plan_of(&job).map_err(|errors| RuleRejection::Query(job.spec.query.clone(), errors))?;
        let action = ActionSpec::of(asked.clone(), &plan).map_err(RuleRejection::Wrong)?;
        self.may_tell(who, asked)?;
        let added = self.actions().add(&who.name, job.id, &action)?;
        added.ok_or_else(|| RuleRejection::Taken(format!("there is an action {} already", asked.name)))
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
            let address = self.deliveries.named().read(to);
            let made = address.and_then(|address| DesiredStateSender::new(&address));
            made.map_err(|why| ServiceError::Outlet(format!("to {}: {why}", shown_address(to))))?;
        }
        Ok(())
    }

    /// Removes an action. Receivers keep its last decision.
    pub fn remove_action(&self, who: &ClientAccess, id: i64) -> Result<(), ServiceError> {
        let action = self.action(who, id)?;
        must_own(who, &action.owner, &format!("the action {}", action.name), "removes")?;
        self.actions().remove(id)?;
        Ok(())
    }

    /// Actions that `who` may see.
    pub fn actions_shown(&self, who: &ClientAccess) -> Vec<ActionView> {
        let mut actions = self.actions().shown();
        actions.retain(|action| self.may_see_rows_of(who, action.job_id));
        actions
    }

    /// An action that `who` may see.
    pub fn action(&self, who: &ClientAccess, id: i64) -> Result<ActionView, ServiceError> {
        let action = self.actions().one(id).filter(|action| self.may_see_rows_of(who, action.job_id));
        action.ok_or_else(|| ServiceError::Unknown(format!("there is no action {id}")))
    }

    /// Decisions of an action that `who` may see, newest first.
    pub fn decisions(
        &self,
        who: &ClientAccess,
        id: i64,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DecisionView>, ServiceError> {
        self.action(who, id)?;
        Ok(self.actions().decisions(id, before, limit)?)
    }
}
