//! One job on an agent: its monitor, lease, and share of the job's packets.

use std::collections::BTreeSet;

use link::{AgentOrder, BudgetRequest, ObservedJob, ObservedState, RecordLane, TapTableMessage};

/// State of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskState {
    /// No monitor; started with a lease, not before this time.
    Waiting { not_before_ns: u64 },
    /// The monitor was started.
    Starting { since_ns: u64 },
    /// The monitor has reported.
    Running { since_ns: u64 },
    /// The monitor has been asked to stop by this time.
    Stopping { until_ns: u64 },
    /// The monitor was killed.
    Killed,
    /// The monitor ended by itself.
    Through,
    /// Not restarted after too many crashes.
    Poisoned,
    /// Not started: not allowed or not possible.
    Refused,
    /// Not started for lack of capacity; retried at this time.
    Crowded { again_ns: u64 },
}

/// An agent's share of a job's packets, over all starts of its monitor.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PacketShare {
    pub allowed: u64,
    pub used: u64,
    /// Used by earlier monitors.
    pub before: u64,
    /// Number of the last grant.
    pub grant: u64,
    /// Unused packets after the last grant; 0: a further grant was requested since.
    pub chunk: u64,
    /// Packets wait at the monitor for an allowance.
    pub waits: bool,
    /// Grant at which the monitor was asked to reduce its allowance and has not replied; until then its allowance is 0.
    pub taking_back: Option<u64>,
}

#[derive(Debug)]
pub(super) struct MonitorTask {
    /// `None`: no longer wanted.
    pub order: Option<AgentOrder>,
    /// Tap table as sent to its monitor.
    pub taps: TapTableMessage,
    pub taps_told: TapTableMessage,
    pub state: TaskState,
    pub attempt: u32,
    /// Consecutive failed starts.
    pub crashes: u32,
    /// Whether a note of the last start is on disk.
    pub is_noted: bool,
    /// End of the lease.
    pub deadline_ns: u64,
    pub share: PacketShare,
    /// Lanes of ended monitors with records in the spool.
    pub flushing: BTreeSet<RecordLane>,
    pub reason: String,
}

impl MonitorTask {
    pub(super) fn new(order: Option<AgentOrder>) -> Self {
        Self {
            order,
            taps: TapTableMessage::default(),
            taps_told: TapTableMessage::default(),
            state: TaskState::Waiting { not_before_ns: 0 },
            attempt: 0,
            crashes: 0,
            is_noted: false,
            deadline_ns: 0,
            share: PacketShare::default(),
            flushing: BTreeSet::new(),
            reason: String::new(),
        }
    }

    /// Whether a monitor should capture.
    pub(super) fn is_running(&self) -> bool {
        matches!(
            self.state,
            TaskState::Starting { .. } | TaskState::Running { .. }
        )
    }

    pub(super) fn has_monitor(&self) -> bool {
        self.is_running() || matches!(self.state, TaskState::Stopping { .. } | TaskState::Killed)
    }

    /// Whether neither a monitor nor results of the task remain.
    pub(super) fn is_gone(&self) -> bool {
        self.order.is_none() && !self.has_monitor() && self.flushing.is_empty()
    }

    /// Whether its monitor is no longer restarted after failures.
    pub(super) fn is_final(&self) -> bool {
        self.order.as_ref().is_some_and(|order| !order.is_retried)
    }

    /// State for the server; `crashes_max`: consecutive failed starts that count as a failure.
    pub(super) fn observed(&self, job: u64, crashes_max: u32) -> ObservedJob {
        let state = match self.state {
            TaskState::Starting { .. } => ObservedState::Starting,
            TaskState::Running { .. } => ObservedState::Running,
            TaskState::Stopping { .. } | TaskState::Killed => ObservedState::Stopping,
            _ if self.order.is_none() => ObservedState::Flushing,
            TaskState::Through if self.flushing.is_empty() => ObservedState::Finished,
            TaskState::Through => ObservedState::Flushing,
            TaskState::Poisoned => ObservedState::Poisoned,
            TaskState::Refused | TaskState::Crowded { .. } => ObservedState::Refused,
            TaskState::Waiting { .. } if self.crashes >= crashes_max => ObservedState::Poisoned,
            TaskState::Waiting { .. } => ObservedState::Waiting,
        };
        ObservedJob {
            job,
            state: state.into(),
            attempt: self.attempt,
            reason: self.reason.clone(),
        }
    }

    pub(super) fn packets_max(&self) -> Option<u64> {
        self.order
            .as_ref()
            .map(|order| order.packets_max)
            .filter(|max| *max > 0)
    }

    /// Allowance of the current monitor.
    pub(super) fn allowed(&self) -> Option<u64> {
        let waits = self.share.taking_back == Some(self.share.grant);
        let allowed = if waits {
            0
        } else {
            self.share.allowed.saturating_sub(self.share.before)
        };
        self.packets_max().map(|_| allowed)
    }

    pub(super) fn ask(&self, job: u64) -> Option<BudgetRequest> {
        let PacketShare {
            allowed,
            used,
            grant,
            waits,
            ..
        } = self.share;
        self.packets_max().map(|_| BudgetRequest {
            job,
            used,
            allowed,
            grant,
            waits,
        })
    }

    /// Adds the packets of an ended monitor: those it reported if `is_known`, otherwise its whole allowance.
    pub(super) fn settle_share(&mut self, is_known: bool) {
        let share = &mut self.share;
        if is_known {
            // The unused rest is returned with the next request.
            share.allowed = share.used;
        } else {
            share.used = share.allowed;
        }
        share.before = share.used;
        share.waits = false;
        share.taking_back = None;
    }
}
