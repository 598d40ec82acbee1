//! Mirroring for a job in a network: a thread per job installs and removes rules, which may take seconds, and checks
//! them in between.
//!
//! Switches mirror from the time when all monitors of a job capture until its end. If a user stops a job, its monitors
//! are stopped after the mirroring; if it ends by its limits or fails, at the same time. It has ended when both are
//! done.
//!
//! If switches do not mirror, or stop mirroring, the job ends with the reason. After a restart, the server plans again:
//! if the plan equals the agents' orders, they continue, and its rules replace the previous ones; otherwise the job
//! ends.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use control::{ControlledJob, EndReason};

use super::GatewayEvent;
use super::agent_orders::is_of;
use crate::gateway::network::{AgentShare, MirrorSession, PlannedJob};
use crate::job::{JobEnding, JobId, JobOutcome, JobState};

/// Interval at which switches are checked.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Time for the arrival of packets mirrored before the rules were removed.
const LAST_PACKETS: Duration = Duration::from_millis(100);

/// Stage of mirroring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MirrorStage {
    /// Waits for monitors.
    Waiting,
    /// Rules are being installed.
    Beginning,
    /// Switches mirror.
    Copying,
    /// Rules are being removed.
    Ending,
    /// Switches do not mirror.
    Gone,
}

/// Command to the thread.
enum MirrorCommand {
    Begin,
    End,
}

/// Message of the thread.
pub enum MirrorEvent {
    /// Installation finished, or failed with the reason.
    Begun(Result<(), String>),
    /// Switches stopped mirroring, with the reason.
    Lost(String),
    /// Removal finished; the error names remaining rules.
    Gone(Result<(), String>),
}

/// Change after a message of the thread.
pub enum MirrorChange {
    /// Switches mirror.
    Begun,
    /// A failure in the network: the job must end.
    Failed,
    /// Switches do not mirror any more; the reason for which a user ended the job, if any.
    Gone(Option<EndReason>),
}

/// Handle of the thread, owned by the gateway.
pub struct MirrorWorker {
    stage: MirrorStage,
    /// Reason with which the job ends after the removal of the rules.
    then: Option<EndReason>,
    /// Failure in the network that ends the job.
    failed: Option<String>,
    /// Remaining rules on switches.
    left: Option<String>,
    /// Limitations of the results in the mode in which switches mirror.
    lacks: Vec<String>,
    tell: Option<Sender<MirrorCommand>>,
    /// Joined on drop unless finished.
    thread: Option<JoinHandle<()>>,
}

impl MirrorWorker {
    /// Starts the thread, which sends `events`.
    pub fn new(job: JobId, planned: PlannedJob, events: Sender<GatewayEvent>) -> MirrorWorker {
        let PlannedJob { copies, lacks, .. } = planned;
        let (tell, wishes) = mpsc::channel();
        let to = events.clone();
        let work = move || run(job, copies, &wishes, &to);
        let thread = std::thread::Builder::new()
            .name(format!("copies {job}"))
            .spawn(work);
        let mut copying = MirrorWorker::on(job, thread, tell, &events);
        copying.lacks = lacks;
        copying
    }

    /// If the system cannot create a thread, mirroring ends immediately with the message that a thread would send.
    fn on(
        job: JobId,
        thread: io::Result<JoinHandle<()>>,
        tell: Sender<MirrorCommand>,
        events: &Sender<GatewayEvent>,
    ) -> MirrorWorker {
        let (then, failed, left, lacks) = Default::default();
        let (stage, thread) = match thread {
            Ok(thread) => (MirrorStage::Waiting, Some(thread)),
            Err(why) => {
                let why = format!("cannot start the thread that configures switches: {why}");
                let _ = events.send(GatewayEvent::Copies(job, MirrorEvent::Lost(why)));
                (MirrorStage::Gone, None)
            }
        };
        MirrorWorker {
            stage,
            then,
            failed,
            left,
            lacks,
            tell: Some(tell),
            thread,
        }
    }

    /// Resumes the mirroring for a job of the previous server process, as it was saved, with its new plan.
    pub fn resume(
        job: JobId,
        saved: Option<&ControlledJob>,
        planned: Result<PlannedJob, String>,
        events: Sender<GatewayEvent>,
    ) -> MirrorWorker {
        let order = |agent: &str| saved.and_then(|job| job.request.parts.get(agent));
        let is_same = |parts: &[AgentShare]| {
            saved.is_some_and(|job| job.request.parts.len() == parts.len())
                && parts
                    .iter()
                    .all(|part| order(&part.agent).is_some_and(|body| is_of(part, body)))
        };
        match planned {
            Ok(planned) if is_same(&planned.parts) => MirrorWorker::new(job, planned, events),
            Ok(_) => MirrorWorker::impossible(
                "after the restart of the server, the network file places its monitors elsewhere: start the job again"
                    .to_owned(),
            ),
            Err(why) => MirrorWorker::impossible(format!("after the restart of the server, {why}")),
        }
    }

    /// For a job that could not be planned.
    fn impossible(why: String) -> MirrorWorker {
        let (then, left, lacks, tell, thread) = Default::default();
        MirrorWorker {
            stage: MirrorStage::Gone,
            then,
            failed: Some(why),
            left,
            lacks,
            tell,
            thread,
        }
    }

    /// Whether a failure in the network ends the job.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Whether the rules are not requested yet.
    pub fn is_waiting(&self) -> bool {
        self.stage == MirrorStage::Waiting
    }

    /// Installs the rules.
    pub fn begin(&mut self) {
        self.ask(MirrorCommand::Begin, MirrorStage::Beginning);
    }

    /// Sends a command to the thread.
    fn ask(&mut self, wish: MirrorCommand, stage: MirrorStage) {
        self.stage = stage;
        // A thread that has ended has reported it.
        let _ = self.tell.as_ref().map(|tell| tell.send(wish));
    }

    /// Removes the rules.
    pub fn end(&mut self) {
        if self.stage < MirrorStage::Ending {
            self.ask(MirrorCommand::End, MirrorStage::Ending);
        }
    }

    /// Removes the rules before a user's stop of the job; [`MirrorChange::Gone`] returns the reason.
    ///
    /// # Errors
    /// Returns the reason if switches do not mirror: the job may be stopped now.
    pub fn stop(&mut self, why: EndReason) -> Result<(), EndReason> {
        if self.stage == MirrorStage::Gone {
            return Err(why);
        }
        self.then.get_or_insert(why);
        self.end();
        Ok(())
    }

    /// Handles a message of the thread.
    pub fn handle(&mut self, event: MirrorEvent) -> MirrorChange {
        match event {
            MirrorEvent::Begun(Ok(())) => {
                if self.stage == MirrorStage::Beginning {
                    self.stage = MirrorStage::Copying;
                }
                MirrorChange::Begun
            }
            MirrorEvent::Begun(Err(why)) | MirrorEvent::Lost(why) => {
                self.failed.get_or_insert(why);
                MirrorChange::Failed
            }
            MirrorEvent::Gone(ended) => {
                self.stage = MirrorStage::Gone;
                self.left = ended.err();
                // The thread has finished; its handle is dropped without join.
                self.thread = None;
                MirrorChange::Gone(self.then.take())
            }
        }
    }

    /// Ends the mirroring for an ending job; returns whether it has ended. `ending`: collects its errors.
    pub fn finish(&mut self, ending: &mut JobEnding) -> bool {
        self.end();
        if let Some(why) = &self.failed {
            *ending = JobEnding::new(JobOutcome::Failed, why.clone());
        }
        if let Some(left) = &self.left {
            ending.why = format!(
                "{}; its rules on switches expire with its lease: {left}",
                ending.why
            );
        }
        if ending.outcome != JobOutcome::Failed {
            let why = [std::mem::take(&mut ending.why)]
                .into_iter()
                .chain(self.lacking());
            ending.why = why.collect::<Vec<_>>().join("; ");
        }
        self.stage == MirrorStage::Gone
    }

    /// Limitations of the results, a sentence each.
    pub fn lacking(&self) -> impl Iterator<Item = String> {
        self.lacks
            .iter()
            .map(|lack| format!("the result is incomplete: {lack}"))
    }

    /// The state shown to users for this state of the control.
    pub fn shown(&self, state: JobState) -> JobState {
        match (self.stage, state) {
            (_, state) if self.then.is_some() && !state.has_ended() => JobState::Draining,
            (MirrorStage::Waiting | MirrorStage::Beginning, JobState::Running) => JobState::Arming,
            (_, state) => state,
        }
    }
}

impl Drop for MirrorWorker {
    /// The process may be about to end: rules are removed first.
    fn drop(&mut self) {
        self.tell = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(
    job: JobId,
    mut copies: Box<dyn MirrorSession>,
    wishes: &Receiver<MirrorCommand>,
    events: &Sender<GatewayEvent>,
) {
    let say = |said| drop(events.send(GatewayEvent::Copies(job, said)));
    let worked = catch_unwind(AssertUnwindSafe(|| work(copies.as_mut(), wishes, &say)));
    if let Err(panic) = worked {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without a message");
        let why = format!("the thread that configures switches has failed: {text}");
        // Reports the end of the thread.
        say(MirrorEvent::Lost(why));
        say(MirrorEvent::Gone(Err("their state is unknown".to_owned())));
    }
}

fn work(
    copies: &mut dyn MirrorSession,
    wishes: &Receiver<MirrorCommand>,
    say: &dyn Fn(MirrorEvent),
) {
    let mut are_there = false;
    loop {
        match wishes.recv_timeout(LOOK_EVERY) {
            Ok(MirrorCommand::Begin) => {
                let begun = copies.begin();
                are_there = begun.is_ok();
                say(MirrorEvent::Begun(begun));
            }
            Ok(MirrorCommand::End) => {
                let ended = copies.end();
                if are_there {
                    std::thread::sleep(LAST_PACKETS);
                }
                return say(MirrorEvent::Gone(ended));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Some(why) = copies.lost().filter(|_| are_there) {
                    are_there = false;
                    say(MirrorEvent::Lost(why));
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId(1);

    /// Panics, for the test.
    struct FaultyMirrorSession;

    impl MirrorSession for FaultyMirrorSession {
        fn begin(&mut self) -> Result<(), String> {
            panic!("no such switch")
        }

        fn lost(&mut self) -> Option<String> {
            None
        }

        fn end(&mut self) -> Result<(), String> {
            panic!("no such job")
        }
    }

    fn said(events: &Receiver<GatewayEvent>) -> MirrorEvent {
        match events
            .recv_timeout(Duration::from_secs(10))
            .expect("some output")
        {
            GatewayEvent::Copies(JOB, said) => said,
            _ => panic!("something else was said"),
        }
    }

    #[test]
    fn panics_are_reported_and_delay_nothing() {
        for (wish, text) in [
            (MirrorCommand::Begin, "no such switch"),
            (MirrorCommand::End, "no such job"),
        ] {
            let (tell, events) = mpsc::channel();
            let planned = PlannedJob {
                parts: Vec::new(),
                lacks: Vec::new(),
                is_mirrored: true,
                copies: Box::new(FaultyMirrorSession),
            };
            let mut copying = MirrorWorker::new(JOB, planned, tell);
            copying.ask(wish, MirrorStage::Beginning);
            let lost = said(&events);
            let gone = said(&events);
            assert!(matches!(lost, MirrorEvent::Lost(why) if why.ends_with(text)));
            assert!(matches!(gone, MirrorEvent::Gone(Err(_))));
        }
    }

    #[test]
    fn a_job_that_gets_no_thread_ends() {
        let (to, events) = mpsc::channel();
        let (tell, _wishes) = mpsc::channel();
        let copying = MirrorWorker::on(JOB, Err(io::Error::other("none is left")), tell, &to);
        assert_eq!(copying.stage, MirrorStage::Gone);
        assert!(matches!(said(&events), MirrorEvent::Lost(why) if why.ends_with(": none is left")));
    }
}
