//! A job in a network: a thread of its own tells switches to copy for it, and to end, as that may take seconds; in between it looks whether
//! they still do. When, `copies.rs` knows.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use control::Why;

use super::Event;
use crate::job::{JobId, State};
use crate::network::Copies;

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
pub enum Wish {
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
    pub then: Option<Why>,
    /// It ends for the network's sake.
    pub failed: Option<String>,
    /// What is left on switches.
    pub left: Option<String>,
    tell: Option<Sender<Wish>>,
    /// Waited for at the end of this, unless it has done all.
    pub thread: Option<JoinHandle<()>>,
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

    /// Tells the thread what is wanted.
    pub fn ask(&mut self, wish: Wish, stage: Stage) {
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
