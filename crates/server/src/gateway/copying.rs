//! A job in a network: switches copy for it while it runs. A thread of its own tells them, as that may take seconds. They begin when all
//! monitors of the job capture, and end before these are told to; a job has ended when nothing is copied for it any more.
//!
//! Where switches do not copy, or no longer, the job ends and says why. A server that begins again plans anew: where that comes to what
//! agents were told, they go on, and its rules take the place of those that were there; else the job ends.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use control::{ServerEvent, Why};
use link::ObservedState;
use plan::Plan;

use super::Event;
use super::order::is_of;
use super::thread::Core;
use crate::job::{End as JobEnd, JobId, Outcome, State};
use crate::network::{AgentPart, Copies, Planned};

/// How often it is asked whether switches still copy.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Packets that were copied before the rules went have come by then.
const LAST_PACKETS: Duration = Duration::from_millis(100);

/// How far copies are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// For monitors.
    Waiting,
    /// Switches are being told.
    Beginning,
    /// They copy.
    Copying,
    /// They are being told to end.
    Ending,
    /// Nothing is copied.
    Gone,
}

/// What is wanted of the thread.
enum Wish {
    Begin,
    End,
}

/// What the thread says.
pub enum Said {
    /// Switches copy, or do not; why.
    Begun(Result<(), String>),
    /// They do not any more.
    Lost(String),
    /// That was all; what is left there.
    Gone(Result<(), String>),
}

/// The thread, as the gateway has it.
pub struct Copying {
    pub stage: Stage,
    /// The job is to end so when nothing is copied any more.
    then: Option<Why>,
    /// It ends for the network's sake.
    failed: Option<String>,
    /// What is left on switches.
    left: Option<String>,
    tell: Option<Sender<Wish>>,
    thread: Option<JoinHandle<()>>,
}

impl Copying {
    /// What the thread says comes as events. Where the system gives no more threads it is over at once.
    pub fn new(job: JobId, copies: Box<dyn Copies>, events: Sender<Event>) -> Copying {
        let (tell, wishes) = mpsc::channel();
        let work = move || run(job, copies, &wishes, &events);
        let thread = std::thread::Builder::new().name(format!("copies {job}")).spawn(work);
        let (failed, thread) = match thread {
            Ok(thread) => (None, Some(thread)),
            Err(why) => (Some(why.to_string()), None),
        };
        let stage = if failed.is_some() { Stage::Gone } else { Stage::Waiting };
        Copying { stage, then: None, failed, left: None, tell: Some(tell), thread }
    }

    /// Of a job that there is no plan for any more.
    pub fn impossible(why: String) -> Copying {
        let (then, left, tell, thread) = Default::default();
        Copying { stage: Stage::Gone, then, failed: Some(why), left, tell, thread }
    }

    /// Whether the job has to end for the network's sake.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn ask(&mut self, wish: Wish, stage: Stage) {
        self.stage = stage;
        // A thread that is gone has said so.
        let _ = self.tell.as_ref().map(|tell| tell.send(wish));
    }

    /// Nothing is to be copied any more.
    pub fn end(&mut self) {
        if self.stage < Stage::Ending {
            self.ask(Wish::End, Stage::Ending);
        }
    }

    /// What people are told of a job that control has in this state.
    pub fn shown(&self, state: State) -> State {
        match (self.stage, state) {
            (_, state) if self.then.is_some() && !matches!(state, State::Ended(_)) => State::Draining,
            (Stage::Waiting | Stage::Beginning, State::Running) => State::Arming,
            (_, state) => state,
        }
    }
}

impl Drop for Copying {
    /// The process may be about to end: what is on switches goes first.
    fn drop(&mut self) {
        self.tell = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(job: JobId, mut copies: Box<dyn Copies>, wishes: &Receiver<Wish>, events: &Sender<Event>) {
    let say = |said| drop(events.send(Event::Copies(job, said)));
    let mut are_there = false;
    loop {
        match wishes.recv_timeout(LOOK_EVERY) {
            Ok(Wish::Begin) => {
                let begun = copies.begin();
                are_there = begun.is_ok();
                say(Said::Begun(begun));
            }
            Ok(Wish::End) => {
                let ended = copies.end();
                if are_there {
                    std::thread::sleep(LAST_PACKETS);
                }
                return say(Said::Gone(ended));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Some(why) = copies.lost().filter(|_| are_there) {
                    are_there = false;
                    say(Said::Lost(why));
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Core {
    /// Has switches copy for jobs of which all monitors capture.
    pub fn look_at_copies(&mut self) {
        let waiting = self
            .works
            .iter()
            .filter(|(_, work)| work.copying.as_ref().is_some_and(|copying| copying.stage == Stage::Waiting));
        let ready: Vec<JobId> = waiting.map(|(job, _)| *job).filter(|job| self.all_capture(*job)).collect();
        for job in ready {
            if let Some(copying) = self.copying(job) {
                copying.ask(Wish::Begin, Stage::Beginning);
            }
        }
    }

    fn all_capture(&self, job: JobId) -> bool {
        let id = job.0.unsigned_abs();
        let Some(saved) = self.saved.get(&id).filter(|job| job.state.is_active()) else { return false };
        saved.agents.keys().all(|agent| {
            let mut of_agent = self.control.observed(agent);
            of_agent.any(|observed| observed.job == id && observed.state() == ObservedState::Running)
        })
    }

    pub fn copying(&mut self, job: JobId) -> Option<&mut Copying> {
        self.works.get_mut(&job)?.copying.as_mut()
    }

    /// A job of the server's last life, as it is planned now.
    pub fn copy_again(&self, job: JobId, planned: Result<Planned, String>) -> Copying {
        let saved = self.saved.get(&job.0.unsigned_abs());
        let told = |agent: &str| saved.and_then(|job| job.request.parts.get(agent));
        let is_same = |parts: &[AgentPart]| {
            saved.is_some_and(|job| job.request.parts.len() == parts.len())
                && parts.iter().all(|part| told(&part.agent).is_some_and(|body| is_of(part, body)))
        };
        match planned {
            Ok(planned) if is_same(&planned.parts) => Copying::new(job, planned.copies, self.events.clone()),
            Ok(_) => Copying::impossible(
                "since the server was started again the network's file has its monitors elsewhere: start it anew"
                    .to_owned(),
            ),
            Err(why) => Copying::impossible(format!("the server was started again, and now {why}")),
        }
    }

    /// A job is to end: first what is copied for it.
    pub fn stop_job(&mut self, job: JobId, why: Why) {
        match self.copying(job).filter(|copying| copying.stage != Stage::Gone) {
            Some(copying) => {
                copying.then.get_or_insert(why);
                copying.end();
                self.tell(job);
            }
            None => self.decide(ServerEvent::Stop { job: job.0.unsigned_abs(), why }),
        }
    }

    /// A job ends, since its network is not as it was to be.
    pub fn fail_in_network(&mut self, job: JobId) {
        self.decide(ServerEvent::Stop { job: job.0.unsigned_abs(), why: Why::Stopped { by: String::new() } });
    }

    /// Whoever tells switches has something to say.
    pub fn hear_copies(&mut self, job: JobId, said: Said) {
        let Some(copying) = self.copying(job) else { return };
        match said {
            Said::Begun(Ok(())) => {
                if copying.stage == Stage::Beginning {
                    copying.stage = Stage::Copying;
                }
                self.tell(job);
            }
            Said::Begun(Err(why)) | Said::Lost(why) => {
                copying.failed.get_or_insert(why);
                self.fail_in_network(job);
            }
            Said::Gone(ended) => {
                copying.stage = Stage::Gone;
                copying.left = ended.err();
                // It has done all that there was to do, and nobody waits for it.
                copying.thread = None;
                if let Some(why) = copying.then.take() {
                    self.decide(ServerEvent::Stop { job: job.0.unsigned_abs(), why });
                }
                self.end_jobs();
            }
        }
    }

    /// Whether nothing is copied for a job that ends. `end`: hears what went wrong with it.
    pub fn is_copied_no_more(&mut self, job: JobId, end: &mut JobEnd) -> bool {
        let Some(copying) = self.copying(job) else { return true };
        copying.end();
        if let Some(why) = &copying.failed {
            *end = JobEnd::new(Outcome::Failed, why.clone());
        }
        if let Some(left) = &copying.left {
            end.why = format!("{}; what switches have for it goes with its lease: {left}", end.why);
        }
        copying.stage == Stage::Gone
    }
}

impl AgentPart {
    /// A job's plan as this agent carries it out.
    pub fn of(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        (plan.monitor.clients, plan.monitor.servers) = (self.clients.clone(), self.servers.clone());
        plan
    }
}
