//! Agent side: decides which monitors run, by the desired set and its leases. Monitors die with the process, so it
//! starts with none; starts of the previous process that had not been confirmed healthy are in its notes.

mod settings;
mod task;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use link::{
    AgentOrder, DesiredJobs, GrantedLease, ObservedJob, ObservedJobs, ObservedState, RecordLane,
    Renew, SessionTime, TapTableMessage,
};

pub use settings::AgentSettings;
use task::{MonitorTask, TaskState};

/// End of a monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MonitorEnd {
    /// By itself or on request, with its last record in the spool.
    Clean,
    /// By itself, before the job ended, with its last record in the spool; with the reason.
    Early(String),
    /// Any other end, with the reason.
    Crashed(String),
    /// Not started, and a retry would not help; with the reason.
    Refused(String),
    /// Not started for lack of capacity; with the reason.
    Crowded(String),
}

/// Event for an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// A session is open. Its Hello contained [`AgentControl::hello`].
    Connected,
    /// The session has ended.
    Disconnected,
    /// Complete set of jobs to run.
    Desired(DesiredJobs),
    /// Leases for running monitors.
    Granted(GrantedLease),
    /// The server requests a complete report.
    ObserveAll,
    /// A monitor captures, or has sent its first result.
    Reported(RecordLane),
    /// Packets that a monitor has used so far.
    Used {
        /// Lane of the monitor.
        lane: RecordLane,
        /// Packets.
        used: u64,
        /// More packets wait for an allowance.
        waits: bool,
    },
    /// A monitor reduced its allowance, as requested by [`AgentAction::TakeBack`].
    TookBack {
        /// Lane of the monitor.
        lane: RecordLane,
        /// The reduced allowance, equal to the packets used.
        allowed: u64,
        /// Number of the request.
        grant: u64,
    },
    /// A monitor has ended.
    Exited {
        /// Lane of the monitor.
        lane: RecordLane,
        /// Kind of its end.
        end: MonitorEnd,
    },
    /// All records of a lane are committed.
    Drained(RecordLane),
    /// A timer expired.
    Tick,
}

/// Action of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentAction {
    /// Before a start: write a note that survives a crash of this process.
    Note(StartNote),
    /// Remove the note of a job.
    Forget {
        /// Number of the job.
        job: u64,
    },
    /// Start a monitor.
    Start {
        /// Lane of the job.
        lane: RecordLane,
        /// Order of the job.
        order: AgentOrder,
        /// Tap table of the job.
        taps: TapTableMessage,
        /// End of its lease, by the monotonic clock.
        deadline_ns: u64,
        /// Allowance of packets; `None`: unlimited.
        allowed: Option<u64>,
    },
    /// Send a monitor its new deadline and allowance.
    Extend {
        /// Lane of the job.
        lane: RecordLane,
        /// End of its lease, by the monotonic clock.
        deadline_ns: u64,
        /// Allowance of packets since its start; if it has used more, it stops.
        allowed: Option<u64>,
    },
    /// Send a monitor a new tap table.
    Retap {
        /// Lane of the job.
        lane: RecordLane,
        /// The table.
        taps: TapTableMessage,
    },
    /// Have a monitor reduce its allowance to the packets used and report it.
    TakeBack {
        /// Lane of the job.
        lane: RecordLane,
        /// Number to repeat in the reply.
        grant: u64,
    },
    /// Have a monitor send its results and end.
    Stop {
        /// Lane of the job.
        lane: RecordLane,
    },
    /// Kill a monitor.
    Kill {
        /// Lane of the job.
        lane: RecordLane,
    },
    /// Append a last record to a lane's spool that reports a loss.
    Close {
        /// The lane.
        lane: RecordLane,
    },
    /// Report the states of jobs to the server.
    Observe(ObservedJobs),
    /// Request leases from the server.
    Renew(Renew),
}

/// A start that has not been confirmed healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartNote {
    /// Number of the job.
    pub job: u64,
    /// Consecutive failed starts before this one.
    pub crashes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkState {
    Down,
    Up { renew_at_ns: u64 },
}

/// State machine of an agent.
#[derive(Debug)]
pub struct AgentControl {
    boot: u64,
    settings: AgentSettings,
    tasks: BTreeMap<u64, MonitorTask>,
    generation: u64,
    link: LinkState,
    /// Last report to the server.
    told: BTreeMap<u64, ObservedJob>,
    told_generation: u64,
    number: u64,
    actions: Vec<AgentAction>,
}

impl AgentControl {
    /// Starts with the notes of the previous process.
    pub fn new(boot: u64, settings: AgentSettings, notes: &[StartNote]) -> Self {
        let task = |note: &StartNote| {
            let mut task = MonitorTask::new(None);
            task.crashes = note.crashes.saturating_add(1);
            task.is_noted = true;
            (note.job, task)
        };
        Self {
            boot,
            settings,
            tasks: notes.iter().map(task).collect(),
            generation: 0,
            link: LinkState::Down,
            told: BTreeMap::new(),
            told_generation: 0,
            number: 0,
            actions: Vec::new(),
        }
    }

    /// Whether the server is known to want this job on this agent.
    #[must_use]
    pub fn wants(&self, job: u64) -> bool {
        self.tasks
            .get(&job)
            .is_some_and(|task| task.order.is_some())
    }

    /// States of all jobs, for the Hello of a session. Later changes are reported separately.
    pub fn hello(&mut self) -> ObservedJobs {
        self.link = LinkState::Down;
        self.told = self.snapshot();
        self.told_generation = self.generation;
        self.observed(true, self.told.values().cloned().collect())
    }

    /// Handles an event. The actions must be executed in order.
    pub fn handle(&mut self, event: AgentEvent, now: SessionTime) -> Vec<AgentAction> {
        let now_ns = now.monotonic_ns;
        match event {
            AgentEvent::Connected => {
                self.link = LinkState::Up {
                    renew_at_ns: now_ns,
                }
            }
            AgentEvent::Disconnected => self.link = LinkState::Down,
            AgentEvent::Desired(desired) => self.take_in(desired, now_ns),
            AgentEvent::Granted(granted) => self.take_grant(&granted, now_ns),
            AgentEvent::ObserveAll => self.tell_everything(),
            AgentEvent::Reported(lane) => self.reported(lane),
            AgentEvent::Used { lane, used, waits } => self.used(lane, (used, waits), now_ns),
            AgentEvent::TookBack {
                lane,
                allowed,
                grant,
            } => self.took_back(lane, allowed, grant, now_ns),
            AgentEvent::Exited { lane, end } => self.exited(lane, end, now_ns),
            AgentEvent::Drained(lane) => {
                for task in self.tasks.values_mut() {
                    task.flushing.remove(&lane);
                }
            }
            AgentEvent::Tick => {}
        }
        self.reconcile(now_ns);
        self.ask(now_ns);
        self.tell_changes();
        std::mem::take(&mut self.actions)
    }

    /// Monotonic time at which [`AgentEvent::Tick`] is due.
    pub fn timeout(&self) -> Option<u64> {
        let renew = match self.link {
            LinkState::Up { renew_at_ns } if !self.tasks.is_empty() => Some(renew_at_ns),
            _ => None,
        };
        let of_task = |task: &MonitorTask| match task.state {
            TaskState::Waiting { not_before_ns }
                if task.order.is_some() && task.deadline_ns > not_before_ns =>
            {
                Some(not_before_ns)
            }
            TaskState::Starting { .. } => {
                Some(task.deadline_ns.saturating_sub(self.settings.grace_ns))
            }
            TaskState::Running { since_ns } => {
                let end = task.deadline_ns.saturating_sub(self.settings.grace_ns);
                let healthy = since_ns.saturating_add(self.settings.healthy_after_ns);
                Some(if task.is_noted { end.min(healthy) } else { end })
            }
            TaskState::Stopping { until_ns } => Some(until_ns),
            TaskState::Crowded { again_ns }
                if task.order.is_some() && task.deadline_ns > again_ns =>
            {
                Some(again_ns)
            }
            _ => None,
        };
        self.tasks.values().filter_map(of_task).chain(renew).min()
    }

    /// Adopts a desired set, unless an older one.
    fn take_in(&mut self, desired: DesiredJobs, now_ns: u64) {
        if desired.generation < self.generation {
            return;
        }
        self.generation = desired.generation;
        let DesiredJobs { jobs, taps, .. } = desired;
        let table = |order: &AgentOrder| {
            (order.taps as usize)
                .checked_sub(1)
                .and_then(|place| taps.get(place))
        };
        let mut orders: BTreeMap<u64, (TapTableMessage, AgentOrder)> = jobs
            .into_iter()
            .map(|order| {
                (
                    order.job,
                    (table(&order).cloned().unwrap_or_default(), order),
                )
            })
            .collect();
        let settings = self.settings;
        for (job, task) in &mut self.tasks {
            let was_wanted = task.order.is_some();
            task.order = orders.remove(job).map(|(taps, order)| {
                task.taps = taps;
                order
            });
            if !was_wanted
                && matches!(task.state, TaskState::Waiting { .. })
                && task.crashes >= settings.crashes_max
            {
                // Starts of this task failed in an earlier process.
                task.state = TaskState::Waiting {
                    not_before_ns: now_ns.saturating_add(settings.pause(task.crashes)),
                };
            }
        }
        self.tasks
            .extend(orders.into_iter().map(|(job, (taps, order))| {
                let task = MonitorTask {
                    taps,
                    ..MonitorTask::new(Some(order))
                };
                (job, task)
            }));
        // New jobs need a lease.
        self.ask_at(now_ns);
    }

    fn take_grant(&mut self, granted: &GrantedLease, now_ns: u64) {
        // The lease starts at the time of the request, so a slow grant is shorter.
        let deadline_ns = granted.asked_ns.min(now_ns).saturating_add(granted.ttl_ns);
        for job in &granted.jobs {
            let Some(task) = self.tasks.get_mut(job) else {
                continue;
            };
            task.deadline_ns = task.deadline_ns.max(deadline_ns);
        }
        for budget in &granted.budgets {
            let Some(task) = self.tasks.get_mut(&budget.job) else {
                continue;
            };
            if budget.grant > task.share.grant {
                task.share.grant = budget.grant;
                task.share.allowed = task.share.allowed.max(budget.allowed);
                task.share.chunk = task.share.allowed - task.share.used;
            }
            if budget.give_back && budget.grant == task.share.grant {
                if task.is_running() {
                    let lane = RecordLane {
                        boot: self.boot,
                        job: budget.job,
                        attempt: task.attempt,
                    };
                    task.share.taking_back = Some(budget.grant);
                    self.actions.push(AgentAction::TakeBack {
                        lane,
                        grant: budget.grant,
                    });
                } else if !task.has_monitor() {
                    task.share.allowed = task.share.used;
                }
            }
        }
        for (&job, task) in &self.tasks {
            if task.is_running() {
                let lane = RecordLane {
                    boot: self.boot,
                    job,
                    attempt: task.attempt,
                };
                let deadline_ns = task.deadline_ns;
                let allowed = task.allowed();
                let extend = AgentAction::Extend {
                    lane,
                    deadline_ns,
                    allowed,
                };
                // Before a request to reduce the allowance, never after.
                let at = self
                    .actions
                    .iter()
                    .position(|action| matches!(action, AgentAction::TakeBack { .. }));
                self.actions
                    .insert(at.unwrap_or(self.actions.len()), extend);
            }
        }
    }

    /// The task of this lane, if it is the current one.
    fn task(&mut self, lane: RecordLane) -> Option<&mut MonitorTask> {
        let boot = self.boot;
        self.tasks
            .get_mut(&lane.job)
            .filter(|task| lane.boot == boot && lane.attempt == task.attempt)
    }

    fn reported(&mut self, lane: RecordLane) {
        if let Some(task) = self.task(lane)
            && let TaskState::Starting { since_ns } = task.state
        {
            task.state = TaskState::Running { since_ns };
            if task.crashes == 0 {
                // The task had waited for capacity.
                task.reason.clear();
            }
        }
    }

    fn used(&mut self, lane: RecordLane, (used, waits): (u64, bool), now_ns: u64) {
        let Some(task) = self.task(lane) else { return };
        let share = &mut task.share;
        share.used = share
            .used
            .max(share.before.saturating_add(used))
            .min(share.allowed);
        // Half of the allowance is used: request more early, so that the monitor need not stop. Once per grant.
        let is_short = (share.allowed - share.used) * 2 < share.chunk;
        let waited = std::mem::replace(&mut share.waits, waits);
        let begins_to_wait = waits && !waited;
        if is_short {
            share.chunk = 0;
        }
        if is_short || begins_to_wait {
            self.ask_at(now_ns);
        }
    }

    fn took_back(&mut self, lane: RecordLane, allowed: u64, grant: u64, now_ns: u64) {
        let Some(task) = self.task(lane) else { return };
        // A later grant has already been passed to the monitor and is valid.
        if task.share.grant == grant && task.has_monitor() {
            task.share.used = task
                .share
                .before
                .saturating_add(allowed)
                .min(task.share.allowed);
            task.share.allowed = task.share.used;
            task.share.taking_back = None;
            self.ask_at(now_ns);
        }
    }

    fn exited(&mut self, lane: RecordLane, end: MonitorEnd, now_ns: u64) {
        let settings = self.settings;
        let mut actions = Vec::new();
        let Some(task) = self.task(lane).filter(|task| task.has_monitor()) else {
            return;
        };
        // A rejected start has produced nothing.
        let has_begun = !matches!(end, MonitorEnd::Refused(_) | MonitorEnd::Crowded(_));
        if has_begun {
            task.flushing.insert(lane);
        }
        task.settle_share(!matches!(end, MonitorEnd::Crashed(_)));
        let was_told = !task.is_running();
        let is_said = matches!(end, MonitorEnd::Early(_));
        match end {
            MonitorEnd::Clean if was_told => {
                task.state = TaskState::Waiting {
                    not_before_ns: now_ns,
                }
            }
            MonitorEnd::Clean => task.state = TaskState::Through,
            MonitorEnd::Refused(reason) => {
                task.state = if was_told {
                    TaskState::Waiting {
                        not_before_ns: now_ns,
                    }
                } else {
                    TaskState::Refused
                };
                task.reason = reason;
            }
            MonitorEnd::Crowded(reason) => {
                let again_ns = now_ns.saturating_add(settings.crowded_pause_ns);
                task.state = TaskState::Crowded { again_ns };
                if was_told {
                    task.state = TaskState::Waiting {
                        not_before_ns: now_ns,
                    };
                }
                task.reason = reason;
            }
            MonitorEnd::Early(reason) | MonitorEnd::Crashed(reason) => {
                if !is_said {
                    actions.push(AgentAction::Close { lane });
                }
                task.state = TaskState::Waiting {
                    not_before_ns: now_ns,
                };
                if !was_told {
                    task.crashes = task.crashes.saturating_add(1);
                    let pause = settings.pause(task.crashes);
                    task.state = TaskState::Waiting {
                        not_before_ns: now_ns.saturating_add(pause),
                    };
                    task.reason = reason;
                    task.is_noted = true;
                    actions.push(AgentAction::Note(StartNote {
                        job: lane.job,
                        crashes: task.crashes.saturating_sub(1),
                    }));
                }
            }
        }
        if was_told
            || matches!(
                task.state,
                TaskState::Through | TaskState::Refused | TaskState::Crowded { .. }
            )
        {
            task.is_noted = false;
            task.crashes = 0;
            actions.push(AgentAction::Forget { job: lane.job });
        }
        self.actions.extend(actions);
        if has_begun {
            // The capacity of the ended task is free now.
            for task in self.tasks.values_mut() {
                if let TaskState::Crowded { again_ns } = &mut task.state {
                    *again_ns = now_ns.min(*again_ns);
                }
            }
        }
    }

    /// Moves every task one step toward the desired state.
    fn reconcile(&mut self, now_ns: u64) {
        let mut actions = std::mem::take(&mut self.actions);
        for (&job, task) in &mut self.tasks {
            let lane = RecordLane {
                boot: self.boot,
                job,
                attempt: task.attempt,
            };
            step(task, lane, &self.settings, now_ns, &mut actions);
        }
        for (&job, _) in self
            .tasks
            .iter()
            .filter(|(_, task)| task.is_gone() && task.is_noted && self.generation > 0)
        {
            actions.push(AgentAction::Forget { job });
        }
        let knows = self.generation > 0;
        // Notes are kept until the server has reported whether their jobs are wanted.
        self.tasks
            .retain(|_, task| !task.is_gone() || (task.is_noted && !knows));
        self.actions = actions;
    }

    fn ask_at(&mut self, at_ns: u64) {
        if let LinkState::Up { renew_at_ns } = &mut self.link {
            *renew_at_ns = at_ns.min(*renew_at_ns);
        }
    }

    fn ask(&mut self, now_ns: u64) {
        let LinkState::Up { renew_at_ns } = &mut self.link else {
            return;
        };
        if *renew_at_ns > now_ns || self.tasks.values().all(|task| task.order.is_none()) {
            return;
        }
        *renew_at_ns = now_ns.saturating_add(self.settings.renew_every_ns);
        let budgets = self
            .tasks
            .iter()
            .filter_map(|(&job, task)| task.ask(job))
            .collect();
        // The caller adds the packet rate and health.
        self.actions.push(AgentAction::Renew(Renew {
            asked_ns: now_ns,
            budgets,
            ..Renew::default()
        }));
    }

    fn snapshot(&self) -> BTreeMap<u64, ObservedJob> {
        let known = self.tasks.iter().filter(|(_, task)| !task.is_gone());
        known
            .map(|(&job, task)| (job, task.observed(job, self.settings.crashes_max)))
            .collect()
    }

    fn observed(&self, is_everything: bool, jobs: Vec<ObservedJob>) -> ObservedJobs {
        ObservedJobs {
            number: self.number,
            generation: self.generation,
            is_everything,
            jobs,
        }
    }

    fn tell_everything(&mut self) {
        if self.link == LinkState::Down {
            return;
        }
        self.number += 1;
        self.told = self.snapshot();
        self.told_generation = self.generation;
        let everything = self.observed(true, self.told.values().cloned().collect());
        self.actions.push(AgentAction::Observe(everything));
    }

    /// Reports the differences from the last report.
    fn tell_changes(&mut self) {
        let snapshot = self.snapshot();
        let gone = self
            .told
            .keys()
            .filter(|job| !snapshot.contains_key(job))
            .map(|&job| {
                let state = ObservedState::Gone.into();
                ObservedJob {
                    job,
                    state,
                    ..ObservedJob::default()
                }
            });
        let changed = snapshot
            .values()
            .filter(|job| self.told.get(&job.job) != Some(job))
            .cloned();
        let jobs: Vec<ObservedJob> = changed.chain(gone).collect();
        if self.link == LinkState::Down
            || (jobs.is_empty() && self.told_generation == self.generation)
        {
            return;
        }
        self.number += 1;
        self.told = snapshot;
        self.told_generation = self.generation;
        self.actions
            .push(AgentAction::Observe(self.observed(false, jobs)));
    }
}

/// Moves a task one step toward the desired state, within its lease.
fn step(
    task: &mut MonitorTask,
    lane: RecordLane,
    settings: &AgentSettings,
    now_ns: u64,
    actions: &mut Vec<AgentAction>,
) {
    let ends_at_ns = task.deadline_ns.saturating_sub(settings.grace_ns);
    if let TaskState::Crowded { again_ns } = task.state
        && again_ns <= now_ns
    {
        task.state = TaskState::Waiting {
            not_before_ns: again_ns,
        };
    }
    match task.state {
        TaskState::Waiting { .. } if task.crashes >= settings.crashes_max && task.is_final() => {
            task.state = TaskState::Poisoned;
        }
        TaskState::Waiting { not_before_ns } => {
            let Some(order) = &task.order else { return };
            if not_before_ns > now_ns || ends_at_ns <= now_ns {
                return;
            }
            task.attempt += 1;
            task.is_noted = true;
            let lane = RecordLane {
                attempt: task.attempt,
                ..lane
            };
            actions.push(AgentAction::Note(StartNote {
                job: lane.job,
                crashes: task.crashes,
            }));
            let order = order.clone();
            let deadline_ns = task.deadline_ns;
            let allowed = task.allowed();
            let taps = task.taps.clone();
            task.taps_told = taps.clone();
            actions.push(AgentAction::Start {
                lane,
                order,
                taps,
                deadline_ns,
                allowed,
            });
            task.state = TaskState::Starting { since_ns: now_ns };
        }
        TaskState::Starting { since_ns } | TaskState::Running { since_ns } => {
            if task.order.is_none() || ends_at_ns <= now_ns {
                actions.push(AgentAction::Stop { lane });
                // An agent that was suspended finds its leases ended; the monitors' last results are still to be read.
                let until_ns = now_ns.saturating_add(settings.grace_ns);
                task.state = TaskState::Stopping {
                    until_ns: until_ns.max(task.deadline_ns),
                };
                return;
            }
            if task.taps != task.taps_told {
                task.taps_told = task.taps.clone();
                actions.push(AgentAction::Retap {
                    lane,
                    taps: task.taps.clone(),
                });
            }
            if task.is_noted
                && matches!(task.state, TaskState::Running { .. })
                && since_ns.saturating_add(settings.healthy_after_ns) <= now_ns
            {
                task.is_noted = false;
                task.crashes = 0;
                task.reason.clear();
                actions.push(AgentAction::Forget { job: lane.job });
            }
        }
        TaskState::Stopping { until_ns } if until_ns <= now_ns => {
            actions.push(AgentAction::Kill { lane });
            task.state = TaskState::Killed;
        }
        TaskState::Crowded { .. } | TaskState::Stopping { .. } | TaskState::Killed => {}
        TaskState::Through | TaskState::Poisoned | TaskState::Refused => {}
    }
}
