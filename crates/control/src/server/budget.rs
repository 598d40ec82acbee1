//! A job's limit of packets, dealt to agents in chunks. What agents may take, all together, is never more than the limit,
//! and is saved before they hear of it; what an agent does not use it gives back when others have nothing left. What an
//! agent was allowed that is gone counts as taken.

use link::{Budget, BudgetAsk};

use super::peer::Share;
use crate::job::Job;

/// How the job's agents do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowd {
    /// How many agents there are.
    pub agents: u64,
    /// Some have used all they were allowed.
    pub is_hungry: bool,
    /// Whether more can be allowed: it has to be saved.
    pub may_save: bool,
}

/// What an agent gets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dealt {
    pub budget: Budget,
    /// The job is to be saved.
    pub is_changed: bool,
    /// The agent has used all it was allowed.
    pub is_hungry: bool,
}

/// Deals to one agent.
pub(super) fn deal(job: &mut Job, share: &mut Share, ask: &BudgetAsk, crowd: Crowd) -> Dealt {
    let granted = job.granted;
    // Only an answer to the last grant says what was given back.
    if ask.grant == share.grant && ask.allowed < share.allowed && ask.used <= ask.allowed {
        // No less than it has said that it took.
        let allowed = ask.allowed.max(share.used);
        job.granted = job.granted.saturating_sub(share.allowed - allowed);
        share.allowed = allowed;
        share.gave_back = true;
    }
    let used = ask.used.min(share.allowed).max(share.used);
    let spent = used - share.used;
    share.used = used;
    share.gave_back &= spent == 0 && !ask.waits;
    let unused = share.allowed - share.used;
    let is_hungry = unused == 0 && (ask.waits || used > 0 && !share.gave_back);
    // A fair part of half of what is left, or, for who takes more than the others, twice what it took.
    let left = job.packets_left();
    let fair = left / (2 * crowd.agents.max(1));
    let chunk = fair.max(spent.saturating_mul(2).min(left / 2)).max(1).min(left);
    let waits = share.gave_back && crowd.is_hungry;
    if crowd.may_save && chunk > 0 && unused <= chunk && !waits {
        share.allowed += chunk;
        share.grant = share.grant.saturating_add(1);
        job.granted += chunk;
    }
    // Who waits takes at once what it gets.
    let is_spare = share.allowed > share.used && !ask.waits;
    let give_back = job.packets_left() == 0 && is_spare && crowd.is_hungry;
    let budget = Budget { job: job.id, allowed: share.allowed, grant: share.grant, give_back };
    Dealt { budget, is_changed: job.granted != granted, is_hungry }
}
