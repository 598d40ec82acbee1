//! Evaluation of rows that are about to be committed, with all alert rules and actions.

use std::sync::Arc;

use serde_json::Value;

use super::actions::{ActionRegistry, PendingActionChanges};
use super::alerts::{AlertRegistry, PendingAlertChanges};
use crate::results::commit_participant::{CommitParticipant, PendingChanges, UncommittedRows};
use crate::store::sqlite::{ActionChange, RuleChange};

/// The rules and actions of all jobs.
pub struct RuleEvaluation {
    /// Alert rules.
    pub alerts: Arc<AlertRegistry>,
    /// Actions.
    pub actions: Arc<ActionRegistry>,
}

impl CommitParticipant for RuleEvaluation {
    fn evaluate(&self, rows: &UncommittedRows<'_>) -> Box<dyn PendingChanges + '_> {
        let UncommittedRows {
            job,
            results,
            watermark_ns,
            lacking,
        } = *rows;
        let alerts = self.alerts.decide(job, results, watermark_ns, lacking);
        let actions = self.actions.decide(job, results, watermark_ns, lacking);
        Box::new(PendingRuleChanges { alerts, actions })
    }
}

/// Changes of both kinds.
struct PendingRuleChanges<'a> {
    alerts: PendingAlertChanges<'a>,
    actions: PendingActionChanges<'a>,
}

impl PendingChanges for PendingRuleChanges<'_> {
    fn rules(&self) -> &[RuleChange] {
        &self.alerts.changes
    }

    fn actions(&self) -> &[ActionChange] {
        &self.actions.changes
    }

    fn adopt(self: Box<Self>) -> Vec<Value> {
        self.actions.adopt();
        self.alerts.adopt()
    }
}
