//! Requests on actions: permissions to create and see them.

use outlets::Steward;

use crate::access::{Access, Role};
use crate::actions::{Action, ActionRequest, ActionShown, DecisionShown};
use crate::delivery::{May, Named, Unusable, shown_address};
use crate::rules::Unwatched;
use crate::service::{Denied, Service, must_own};

impl Service {
    /// Adds an action.
    pub fn add_action(&self, who: &Access, asked: &ActionRequest) -> Result<ActionShown, Unwatched> {
        let most = self.limits().actions.actions_max;
        if self.actions().count() >= most {
            return Err(Denied::Quota(format!(
                "there are {most} actions, and there may be no more (--actions-max)"
            ))
            .into());
        }
        asked.check().map_err(Unwatched::Wrong)?;
        let job = self.standing_job(who, &asked.job)?;
        self.may_see_rows(who, &job)?;
        must_own(who, &job.owner, &format!("job {}", job.id), "makes actions over")?;
        let plan = self.plan_of(&job).map_err(|errors| Unwatched::Query(job.query.clone(), errors))?;
        let action = Action::of(asked.clone(), &plan).map_err(Unwatched::Wrong)?;
        self.may_tell(who, asked)?;
        let added = self.actions().add(&who.name, job.id, &action)?;
        added.ok_or_else(|| Unwatched::Taken(format!("there is an action {} already", asked.name)))
    }

    /// Checks whether `who` may use these receivers, and whether they can carry out decisions.
    fn may_tell(&self, who: &Access, asked: &ActionRequest) -> Result<(), Unwatched> {
        let may = if who.role >= Role::Admin { May::GiveAddresses } else { May::UseNames };
        for to in &asked.to {
            Named::allow(to, may).map_err(|unusable| match unusable {
                Unusable::Wrong(why) => Denied::Outlet(why),
                Unusable::Forbidden(why) => Denied::Forbidden(why),
            })?;
            let address = self.deliveries.named().read(to);
            let made = address.and_then(|address| Steward::new(&address));
            made.map_err(|why| Denied::Outlet(format!("to {}: {why}", shown_address(to))))?;
        }
        Ok(())
    }

    /// Removes an action. Receivers keep its last decision.
    pub fn remove_action(&self, who: &Access, id: i64) -> Result<(), Denied> {
        let action = self.action(who, id)?;
        must_own(who, &action.owner, &format!("the action {}", action.name), "removes")?;
        self.actions().remove(id)?;
        Ok(())
    }

    /// Actions that `who` may see.
    pub fn actions_shown(&self, who: &Access) -> Vec<ActionShown> {
        let mut actions = self.actions().shown();
        actions.retain(|action| self.may_see_rows_of(who, action.job_id));
        actions
    }

    /// An action that `who` may see.
    pub fn action(&self, who: &Access, id: i64) -> Result<ActionShown, Denied> {
        let action = self.actions().one(id).filter(|action| self.may_see_rows_of(who, action.job_id));
        action.ok_or_else(|| Denied::Unknown(format!("there is no action {id}")))
    }

    /// Decisions of an action that `who` may see, newest first.
    pub fn decisions(
        &self,
        who: &Access,
        id: i64,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DecisionShown>, Denied> {
        self.action(who, id)?;
        Ok(self.actions().decisions(id, before, limit)?)
    }
}
