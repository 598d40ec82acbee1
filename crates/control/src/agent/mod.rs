//! The agent's half: which monitors run, by what is desired and while a lease lasts. Monitors die with the process, so
//! it begins with none; what it had started and not seen healthy is in its notes.

mod settings;
mod task;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use link::{Desired, Granted, Lane, Now, Observed, ObservedJob, ObservedState, Order, Renew, TapTable};

pub use settings::AgentSettings;
use task::{State, Task};

/// How a monitor ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// By itself or on request; its last record is in the spool.
    Clean,
    /// By itself, before the job ended, with its last record in the spool; why, for people.
    Early(String),
    /// Otherwise; why, for people.
    Crashed(String),
    /// It was not begun, and would not be at another try; why, for people.
    Refused(String),
    /// It was not started for lack of capacity; the reason.
    Crowded(String),
}

/// What happens to an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// A session is open. Its Hello contained [`Agent::hello`].
    Connected,
    /// The session has ended.
    Disconnected,
    /// All that is to run.
    Desired(Desired),
    /// What runs may go on.
    Granted(Granted),
    /// The server wants to hear everything.
    ObserveAll,
    /// A monitor captures, or has told its first result.
    Reported(Lane),
    /// Packets that a monitor has taken so far.
    Used {
        /// Its lane.
        lane: Lane,
        /// Packets.
        used: u64,
        /// It has others, and may not take them yet.
        waits: bool,
    },
    /// A monitor took back its allowance, as [`AgentAction::TakeBack`] asked.
    TookBack {
        /// Its lane.
        lane: Lane,
        /// What it allows itself now; it has taken as many.
        allowed: u64,
        /// The number in the question.
        grant: u64,
    },
    /// A monitor is gone.
    Exited {
        /// Its lane.
        lane: Lane,
        /// How.
        end: End,
    },
    /// Everything of a lane is committed.
    Drained(Lane),
    /// Time has passed.
    Tick,
}

/// What an agent is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentAction {
    /// Write down that a start is tried, so that it outlives a crash of this process. Before the start.
    Note(Note),
    /// Take the note of a job away.
    Forget {
        /// The job.
        job: u64,
    },
    /// Start a monitor.
    Start {
        /// Its lane.
        lane: Lane,
        /// What it is to do.
        order: Order,
        /// Whose addresses are whose.
        taps: TapTable,
        /// When it has to be gone.
        deadline_ns: u64,
        /// Packets that it may take; `None`: any number.
        allowed: Option<u64>,
    },
    /// Tell a monitor its new deadline and allowance.
    Extend {
        /// Its lane.
        lane: Lane,
        /// When it has to be gone.
        deadline_ns: u64,
        /// Packets that it may take, since its start; it may have taken more, and then takes none.
        allowed: Option<u64>,
    },
    /// Tell a monitor whose addresses are whose from now on.
    Retap {
        /// Its lane.
        lane: Lane,
        /// The table.
        taps: TapTable,
    },
    /// Tell a monitor to allow itself no more than it has taken, and to say how much that is.
    TakeBack {
        /// Its lane.
        lane: Lane,
        /// Number to repeat in the answer.
        grant: u64,
    },
    /// Tell a monitor to say what it has, and to end.
    Stop {
        /// Its lane.
        lane: Lane,
    },
    /// End a monitor at once.
    Kill {
        /// Its lane.
        lane: Lane,
    },
    /// Put a last record into a lane's spool that says that something is lost.
    Close {
        /// The lane.
        lane: Lane,
    },
    /// Tell the server how jobs do.
    Observe(Observed),
    /// Ask the server for leases.
    Renew(Renew),
}

/// A start that has not succeeded yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// The job.
    pub job: u64,
    /// Starts in a row that failed before this one.
    pub crashes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Down,
    Up { renew_at_ns: u64 },
}

/// The agent's half.
#[derive(Debug)]
pub struct Agent {
    boot: u64,
    settings: AgentSettings,
    tasks: BTreeMap<u64, Task>,
    generation: u64,
    link: Link,
    /// Last report to the server.
    told: BTreeMap<u64, ObservedJob>,
    told_generation: u64,
    number: u64,
    actions: Vec<AgentAction>,
}

impl Agent {
    /// Begins a life with the notes of the last.
    pub fn new(boot: u64, settings: AgentSettings, notes: &[Note]) -> Self {
        let task = |note: &Note| {
            let mut task = Task::new(None);
            task.crashes = note.crashes.saturating_add(1);
            task.is_noted = true;
            (note.job, task)
        };
        Self {
            boot,
            settings,
            tasks: notes.iter().map(task).collect(),
            generation: 0,
            link: Link::Down,
            told: BTreeMap::new(),
            told_generation: 0,
            number: 0,
            actions: Vec::new(),
        }
    }

    /// Whether the server wants this job to go on here, as far as is known.
    #[must_use]
    pub fn wants(&self, job: u64) -> bool {
        self.tasks.get(&job).is_some_and(|task| task.order.is_some())
    }

    /// All jobs that it runs, for the Hello of a session. Later changes are reported separately.
    pub fn hello(&mut self) -> Observed {
        self.link = Link::Down;
        self.told = self.snapshot();
        self.told_generation = self.generation;
        self.observed(true, self.told.values().cloned().collect())
    }

    /// Takes in an event. The actions are to be carried out in their order.
    pub fn handle(&mut self, event: AgentEvent, now: Now) -> Vec<AgentAction> {
        let now_ns = now.monotonic_ns;
        match event {
            AgentEvent::Connected => self.link = Link::Up { renew_at_ns: now_ns },
            AgentEvent::Disconnected => self.link = Link::Down,
            AgentEvent::Desired(desired) => self.take_in(desired, now_ns),
            AgentEvent::Granted(granted) => self.take_grant(&granted, now_ns),
            AgentEvent::ObserveAll => self.tell_everything(),
            AgentEvent::Reported(lane) => self.reported(lane),
            AgentEvent::Used { lane, used, waits } => self.used(lane, (used, waits), now_ns),
            AgentEvent::TookBack { lane, allowed, grant } => self.took_back(lane, allowed, grant, now_ns),
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

    /// When [`AgentEvent::Tick`] is due, by the monotonic clock.
    pub fn timeout(&self) -> Option<u64> {
        let renew = match self.link {
            Link::Up { renew_at_ns } if !self.tasks.is_empty() => Some(renew_at_ns),
            _ => None,
        };
        let of_task = |task: &Task| match task.state {
            State::Waiting { not_before_ns } if task.order.is_some() && task.deadline_ns > not_before_ns => {
                Some(not_before_ns)
            }
            State::Starting { .. } => Some(task.deadline_ns.saturating_sub(self.settings.grace_ns)),
            State::Running { since_ns } => {
                let end = task.deadline_ns.saturating_sub(self.settings.grace_ns);
                let healthy = since_ns.saturating_add(self.settings.healthy_after_ns);
                Some(if task.is_noted { end.min(healthy) } else { end })
            }
            State::Stopping { until_ns } => Some(until_ns),
            State::Crowded { again_ns } if task.order.is_some() && task.deadline_ns > again_ns => {
                Some(again_ns)
            }
            _ => None,
        };
        self.tasks.values().filter_map(of_task).chain(renew).min()
    }

    /// Of two sets the later counts.
    fn take_in(&mut self, desired: Desired, now_ns: u64) {
        if desired.generation < self.generation {
            return;
        }
        self.generation = desired.generation;
        let Desired { jobs, taps, .. } = desired;
        let table = |order: &Order| (order.taps as usize).checked_sub(1).and_then(|place| taps.get(place));
        let mut orders: BTreeMap<u64, (TapTable, Order)> = jobs
            .into_iter()
            .map(|order| (order.job, (table(&order).cloned().unwrap_or_default(), order)))
            .collect();
        let settings = self.settings;
        for (job, task) in &mut self.tasks {
            let was_wanted = task.order.is_some();
            task.order = orders.remove(job).map(|(taps, order)| {
                task.taps = taps;
                order
            });
            if !was_wanted
                && matches!(task.state, State::Waiting { .. })
                && task.crashes >= settings.crashes_max
            {
                // Its starts failed in an earlier life of this process.
                task.state =
                    State::Waiting { not_before_ns: now_ns.saturating_add(settings.pause(task.crashes)) };
            }
        }
        self.tasks.extend(orders.into_iter().map(|(job, (taps, order))| {
            let task = Task { taps, ..Task::new(Some(order)) };
            (job, task)
        }));
        // Those that are new wait for a lease.
        self.ask_at(now_ns);
    }

    fn take_grant(&mut self, granted: &Granted, now_ns: u64) {
        // The lease counts from the question: a grant that was on its way for long is worth less.
        let deadline_ns = granted.asked_ns.min(now_ns).saturating_add(granted.ttl_ns);
        for job in &granted.jobs {
            let Some(task) = self.tasks.get_mut(job) else { continue };
            task.deadline_ns = task.deadline_ns.max(deadline_ns);
        }
        for budget in &granted.budgets {
            let Some(task) = self.tasks.get_mut(&budget.job) else { continue };
            if budget.grant > task.share.grant {
                task.share.grant = budget.grant;
                task.share.allowed = task.share.allowed.max(budget.allowed);
                task.share.chunk = task.share.allowed - task.share.used;
            }
            if budget.give_back && budget.grant == task.share.grant {
                if task.is_running() {
                    let lane = Lane { boot: self.boot, job: budget.job, attempt: task.attempt };
                    task.share.taking_back = Some(budget.grant);
                    self.actions.push(AgentAction::TakeBack { lane, grant: budget.grant });
                } else if !task.has_monitor() {
                    task.share.allowed = task.share.used;
                }
            }
        }
        for (&job, task) in &self.tasks {
            if task.is_running() {
                let lane = Lane { boot: self.boot, job, attempt: task.attempt };
                let (deadline_ns, allowed) = (task.deadline_ns, task.allowed());
                let extend = AgentAction::Extend { lane, deadline_ns, allowed };
                // Before an allowance is taken back, never after.
                let at =
                    self.actions.iter().position(|action| matches!(action, AgentAction::TakeBack { .. }));
                self.actions.insert(at.unwrap_or(self.actions.len()), extend);
            }
        }
    }

    /// The task of a monitor that is its newest.
    fn task(&mut self, lane: Lane) -> Option<&mut Task> {
        let boot = self.boot;
        self.tasks.get_mut(&lane.job).filter(|task| lane.boot == boot && lane.attempt == task.attempt)
    }

    fn reported(&mut self, lane: Lane) {
        if let Some(task) = self.task(lane)
            && let State::Starting { since_ns } = task.state
        {
            task.state = State::Running { since_ns };
            if task.crashes == 0 {
                // There had been no room.
                task.reason.clear();
            }
        }
    }

    fn used(&mut self, lane: Lane, (used, waits): (u64, bool), now_ns: u64) {
        let Some(task) = self.task(lane) else { return };
        let share = &mut task.share;
        share.used = share.used.max(share.before.saturating_add(used)).min(share.allowed);
        // Half of it is gone: better asked too early than stood still. Once for each grant.
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

    fn took_back(&mut self, lane: Lane, allowed: u64, grant: u64, now_ns: u64) {
        let Some(task) = self.task(lane) else { return };
        // A later grant has already been passed to the monitor and is valid.
        if task.share.grant == grant && task.has_monitor() {
            task.share.used = task.share.before.saturating_add(allowed).min(task.share.allowed);
            task.share.allowed = task.share.used;
            task.share.taking_back = None;
            self.ask_at(now_ns);
        }
    }

    fn exited(&mut self, lane: Lane, end: End, now_ns: u64) {
        let settings = self.settings;
        let mut actions = Vec::new();
        let Some(task) = self.task(lane).filter(|task| task.has_monitor()) else { return };
        // What was refused has never said anything.
        let has_begun = !matches!(end, End::Refused(_) | End::Crowded(_));
        if has_begun {
            task.flushing.insert(lane);
        }
        task.settle_share(!matches!(end, End::Crashed(_)));
        let was_told = !task.is_running();
        let is_said = matches!(end, End::Early(_));
        match end {
            End::Clean if was_told => task.state = State::Waiting { not_before_ns: now_ns },
            End::Clean => task.state = State::Through,
            End::Refused(reason) => {
                task.state = if was_told { State::Waiting { not_before_ns: now_ns } } else { State::Refused };
                task.reason = reason;
            }
            End::Crowded(reason) => {
                let again_ns = now_ns.saturating_add(settings.crowded_pause_ns);
                task.state = State::Crowded { again_ns };
                if was_told {
                    task.state = State::Waiting { not_before_ns: now_ns };
                }
                task.reason = reason;
            }
            End::Early(reason) | End::Crashed(reason) => {
                if !is_said {
                    actions.push(AgentAction::Close { lane });
                }
                task.state = State::Waiting { not_before_ns: now_ns };
                if !was_told {
                    task.crashes = task.crashes.saturating_add(1);
                    let pause = settings.pause(task.crashes);
                    task.state = State::Waiting { not_before_ns: now_ns.saturating_add(pause) };
                    task.reason = reason;
                    task.is_noted = true;
                    actions.push(AgentAction::Note(Note {
                        job: lane.job,
                        crashes: task.crashes.saturating_sub(1),
                    }));
                }
            }
        }
        if was_told || matches!(task.state, State::Through | State::Refused | State::Crowded { .. }) {
            task.is_noted = false;
            task.crashes = 0;
            actions.push(AgentAction::Forget { job: lane.job });
        }
        self.actions.extend(actions);
        if has_begun {
            // It leaves room.
            for task in self.tasks.values_mut() {
                if let State::Crowded { again_ns } = &mut task.state {
                    *again_ns = now_ns.min(*again_ns);
                }
            }
        }
    }

    /// Brings every task a step nearer to what is desired.
    fn reconcile(&mut self, now_ns: u64) {
        let mut actions = std::mem::take(&mut self.actions);
        for (&job, task) in &mut self.tasks {
            let lane = Lane { boot: self.boot, job, attempt: task.attempt };
            step(task, lane, &self.settings, now_ns, &mut actions);
        }
        for (&job, _) in
            self.tasks.iter().filter(|(_, task)| task.is_gone() && task.is_noted && self.generation > 0)
        {
            actions.push(AgentAction::Forget { job });
        }
        let knows = self.generation > 0;
        // Notes are kept until the server has said whether their jobs are wanted.
        self.tasks.retain(|_, task| !task.is_gone() || (task.is_noted && !knows));
        self.actions = actions;
    }

    fn ask_at(&mut self, at_ns: u64) {
        if let Link::Up { renew_at_ns } = &mut self.link {
            *renew_at_ns = at_ns.min(*renew_at_ns);
        }
    }

    fn ask(&mut self, now_ns: u64) {
        let Link::Up { renew_at_ns } = &mut self.link else { return };
        if *renew_at_ns > now_ns || self.tasks.values().all(|task| task.order.is_none()) {
            return;
        }
        *renew_at_ns = now_ns.saturating_add(self.settings.renew_every_ns);
        let budgets = self.tasks.iter().filter_map(|(&job, task)| task.ask(job)).collect();
        // How much traffic there is, and how the agent does, the shell knows.
        self.actions.push(AgentAction::Renew(Renew { asked_ns: now_ns, budgets, ..Renew::default() }));
    }

    fn snapshot(&self) -> BTreeMap<u64, ObservedJob> {
        let known = self.tasks.iter().filter(|(_, task)| !task.is_gone());
        known.map(|(&job, task)| (job, task.observed(job, self.settings.crashes_max))).collect()
    }

    fn observed(&self, is_everything: bool, jobs: Vec<ObservedJob>) -> Observed {
        Observed { number: self.number, generation: self.generation, is_everything, jobs }
    }

    fn tell_everything(&mut self) {
        if self.link == Link::Down {
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
        let gone = self.told.keys().filter(|job| !snapshot.contains_key(job)).map(|&job| {
            let state = ObservedState::Gone.into();
            ObservedJob { job, state, ..ObservedJob::default() }
        });
        let changed = snapshot.values().filter(|job| self.told.get(&job.job) != Some(job)).cloned();
        let jobs: Vec<ObservedJob> = changed.chain(gone).collect();
        if self.link == Link::Down || (jobs.is_empty() && self.told_generation == self.generation) {
            return;
        }
        self.number += 1;
        self.told = snapshot;
        self.told_generation = self.generation;
        self.actions.push(AgentAction::Observe(self.observed(false, jobs)));
    }
}

/// Brings a task a step nearer to what is desired, as far as its lease allows.
fn step(task: &mut Task, lane: Lane, settings: &AgentSettings, now_ns: u64, actions: &mut Vec<AgentAction>) {
    let ends_at_ns = task.deadline_ns.saturating_sub(settings.grace_ns);
    if let State::Crowded { again_ns } = task.state
        && again_ns <= now_ns
    {
        task.state = State::Waiting { not_before_ns: again_ns };
    }
    match task.state {
        State::Waiting { .. } if task.crashes >= settings.crashes_max && task.is_final() => {
            task.state = State::Poisoned;
        }
        State::Waiting { not_before_ns } => {
            let Some(order) = &task.order else { return };
            if not_before_ns > now_ns || ends_at_ns <= now_ns {
                return;
            }
            task.attempt += 1;
            task.is_noted = true;
            let lane = Lane { attempt: task.attempt, ..lane };
            actions.push(AgentAction::Note(Note { job: lane.job, crashes: task.crashes }));
            let (order, deadline_ns, allowed) = (order.clone(), task.deadline_ns, task.allowed());
            let taps = task.taps.clone();
            task.taps_told = taps.clone();
            actions.push(AgentAction::Start { lane, order, taps, deadline_ns, allowed });
            task.state = State::Starting { since_ns: now_ns };
        }
        State::Starting { since_ns } | State::Running { since_ns } => {
            if task.order.is_none() || ends_at_ns <= now_ns {
                actions.push(AgentAction::Stop { lane });
                task.state = State::Stopping { until_ns: task.deadline_ns };
                return;
            }
            if task.taps != task.taps_told {
                task.taps_told = task.taps.clone();
                actions.push(AgentAction::Retap { lane, taps: task.taps.clone() });
            }
            if task.is_noted
                && matches!(task.state, State::Running { .. })
                && since_ns.saturating_add(settings.healthy_after_ns) <= now_ns
            {
                task.is_noted = false;
                task.crashes = 0;
                task.reason.clear();
                actions.push(AgentAction::Forget { job: lane.job });
            }
        }
        State::Stopping { until_ns } if until_ns <= now_ns => {
            actions.push(AgentAction::Kill { lane });
            task.state = State::Killed;
        }
        State::Crowded { .. } | State::Stopping { .. } | State::Killed => {}
        State::Through | State::Poisoned | State::Refused => {}
    }
}
