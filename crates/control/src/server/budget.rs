//! Distributes a job's packet limit to agents in chunks. The total allowance never exceeds the limit and is saved
//! before agents receive it. Unused allowance is taken back when others have none left. The allowance of a lost agent
//! counts as used.

use link::{BudgetRequest, PacketBudget};

use super::peer::GrantedShare;
use crate::job::ControlledJob;

/// State of the job's agents.
#[derive(Debug, Clone, Copy)]
pub(super) struct AgentDemand {
    /// Number of agents.
    pub agents: u64,
    /// Whether some have used their whole allowance.
    pub is_hungry: bool,
    /// Whether more can be granted, which requires a save.
    pub may_save: bool,
}

/// Result for an agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct BudgetGrant {
    pub budget: PacketBudget,
    /// Whether the job must be saved.
    pub is_changed: bool,
    /// Whether the agent has used its whole allowance.
    pub is_hungry: bool,
}

/// Computes a grant for one agent.
pub(super) fn deal(
    job: &mut ControlledJob,
    share: &mut GrantedShare,
    ask: &BudgetRequest,
    crowd: AgentDemand,
) -> BudgetGrant {
    let granted = job.granted;
    // Only a reply to the last grant reports the current allowance.
    if ask.grant == share.grant && ask.allowed < share.allowed && ask.used <= ask.allowed {
        // At least the number of packets that the agent has reported as used.
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
    // An equal part of half of the remaining packets, or, for an agent with more traffic, twice its last use.
    let left = job.packets_left();
    let fair = left / (2 * crowd.agents.max(1));
    let chunk = fair
        .max(spent.saturating_mul(2).min(left / 2))
        .max(1)
        .min(left);
    let waits = share.gave_back && crowd.is_hungry;
    if crowd.may_save && chunk > 0 && unused <= chunk && !waits {
        share.allowed += chunk;
        share.grant = share.grant.saturating_add(1);
        job.granted += chunk;
    }
    // A waiting agent uses its grant immediately.
    let is_spare = share.allowed > share.used && !ask.waits;
    let give_back = job.packets_left() == 0 && is_spare && crowd.is_hungry;
    let budget = PacketBudget {
        job: job.id,
        allowed: share.allowed,
        grant: share.grant,
        give_back,
    };
    BudgetGrant {
        budget,
        is_changed: job.granted != granted,
        is_hungry,
    }
}
