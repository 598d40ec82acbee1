//! One job on an agent: its monitor, its lease, and its share of the job's packets.

use std::collections::BTreeSet;

use link::{BudgetAsk, Lane, ObservedJob, ObservedState, Order, TapTable};

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// No monitor; one is started when there is a lease, not before this time.
    Waiting { not_before_ns: u64 },
    /// A monitor was started.
    Starting { since_ns: u64 },
    /// The monitor has reported.
    Running { since_ns: u64 },
    /// The monitor has been asked to stop by this time.
    Stopping { until_ns: u64 },
    /// The monitor was killed.
    Killed,
    /// The monitor ended by itself.
    Through,
    /// Not restarted anymore, after too many crashes.
    Poisoned,
    /// Not to be started: it may not be, or cannot.
    Refused,
    /// Not started, for want of room; to be tried again then.
    Crowded { again_ns: u64 },
}

/// An agent's share of a job's packets, over all starts of its monitor.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Share {
    pub allowed: u64,
    pub used: u64,
    /// Used by monitors that are gone.
    pub before: u64,
    /// The last grant.
    pub grant: u64,
    /// Unused after the last grant; 0: more was asked for since.
    pub chunk: u64,
    /// The monitor has packets that it may not take.
    pub waits: bool,
    /// The monitor was asked to take back, at this grant, and has not answered: until then it may take nothing.
    pub taking_back: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Task {
    /// `None`: not wanted any more.
    pub order: Option<Order>,
    /// Tap table as sent to its monitor.
    pub taps: TapTable,
    pub taps_told: TapTable,
    pub state: State,
    pub attempt: u32,
    /// Starts in a row that did not live long enough.
    pub crashes: u32,
    /// Whether a note of the last start is on disk.
    pub is_noted: bool,
    /// When the lease ends.
    pub deadline_ns: u64,
    pub share: Share,
    /// Lanes of monitors that are gone, of which the spool holds something.
    pub flushing: BTreeSet<Lane>,
    pub reason: String,
}

impl Task {
    pub(super) fn new(order: Option<Order>) -> Self {
        Self {
            order,
            taps: TapTable::default(),
            taps_told: TapTable::default(),
            state: State::Waiting { not_before_ns: 0 },
            attempt: 0,
            crashes: 0,
            is_noted: false,
            deadline_ns: 0,
            share: Share::default(),
            flushing: BTreeSet::new(),
            reason: String::new(),
        }
    }

    /// Whether a monitor is to take packets.
    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Starting { .. } | State::Running { .. })
    }

    pub(super) fn has_monitor(&self) -> bool {
        self.is_running() || matches!(self.state, State::Stopping { .. } | State::Killed)
    }

    /// Nothing of it is left.
    pub(super) fn is_gone(&self) -> bool {
        self.order.is_none() && !self.has_monitor() && self.flushing.is_empty()
    }

    /// Whether its monitor is not started again after it has failed so often.
    pub(super) fn is_final(&self) -> bool {
        self.order.as_ref().is_some_and(|order| !order.is_retried)
    }

    /// Its report to the server; `crashes_max`: starts that have to fail for it to count as failed.
    pub(super) fn observed(&self, job: u64, crashes_max: u32) -> ObservedJob {
        let state = match self.state {
            State::Starting { .. } => ObservedState::Starting,
            State::Running { .. } => ObservedState::Running,
            State::Stopping { .. } | State::Killed => ObservedState::Stopping,
            _ if self.order.is_none() => ObservedState::Flushing,
            State::Through if self.flushing.is_empty() => ObservedState::Finished,
            State::Through => ObservedState::Flushing,
            State::Poisoned => ObservedState::Poisoned,
            State::Refused | State::Crowded { .. } => ObservedState::Refused,
            State::Waiting { .. } if self.crashes >= crashes_max => ObservedState::Poisoned,
            State::Waiting { .. } => ObservedState::Waiting,
        };
        ObservedJob { job, state: state.into(), attempt: self.attempt, reason: self.reason.clone() }
    }

    pub(super) fn packets_max(&self) -> Option<u64> {
        self.order.as_ref().map(|order| order.packets_max).filter(|max| *max > 0)
    }

    /// Packets that the monitor of now may take.
    pub(super) fn allowed(&self) -> Option<u64> {
        let waits = self.share.taking_back == Some(self.share.grant);
        let allowed = if waits { 0 } else { self.share.allowed.saturating_sub(self.share.before) };
        self.packets_max().map(|_| allowed)
    }

    pub(super) fn ask(&self, job: u64) -> Option<BudgetAsk> {
        let Share { allowed, used, grant, waits, .. } = self.share;
        self.packets_max().map(|_| BudgetAsk { job, used, allowed, grant, waits })
    }

    /// A monitor is gone. `used`: how many packets it took, if it could say so; else all that it might have.
    pub(super) fn settle_share(&mut self, is_known: bool) {
        let share = &mut self.share;
        if is_known {
            // What it did not need goes back with the next question.
            share.allowed = share.used;
        } else {
            share.used = share.allowed;
        }
        share.before = share.used;
        share.waits = false;
        share.taking_back = None;
    }
}
