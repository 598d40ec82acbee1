//! An outlet's thread: takes what waits in its queue, has messages made of it, and has them delivered, each until it is taken, refused,
//! or has taken too long.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::backoff::Backoff;
use crate::queue::{Item, Next, Queue};
use crate::tally::{Loss, Tally};

/// Whose rows they are.
#[derive(Clone, Debug)]
pub struct Rows {
    /// What people call the query or job.
    pub of: String,
    /// Begins the identifiers of messages: another run's are others.
    pub run: u64,
}

/// A message on its way.
#[derive(Clone)]
pub struct Message {
    /// What is sent.
    pub body: Body,
    /// The rows in it.
    pub rows: u64,
    /// Its number in this run.
    pub number: u64,
}

/// What is sent, in the outlet's own form.
#[derive(Clone)]
pub enum Body {
    /// Nothing: it is there already.
    Posted,
    /// These bytes.
    Bytes(Vec<u8>),
    /// Commands for Redis.
    Commands(redis::Pipeline),
}

impl Body {
    /// The bytes, where it is made of some.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Body::Bytes(bytes) => bytes,
            Body::Posted | Body::Commands(_) => &[],
        }
    }
}

/// Makes messages of rows. Reads no clock and opens nothing.
pub trait Mapping: Send {
    /// Takes what comes next.
    fn take(&mut self, item: Item, out: &mut Vec<Message>);

    /// What is left.
    fn finish(&mut self, out: &mut Vec<Message>);

    /// Series and points that were left out by now.
    fn left_out(&self) -> u64 {
        0
    }
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Another attempt may succeed.
    Passing(String),
    /// None will.
    Final(String),
    /// This number of its rows was rejected permanently; the others were accepted.
    Partly(u64, String),
}

/// Takes messages to the other side. No call takes much longer than `patience`.
pub trait Transport: Send {
    /// Begins, on the outlet's own thread.
    fn begin(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    /// One attempt.
    fn send(&mut self, message: &Message, patience: Duration) -> Result<(), Fault>;

    /// Says that nothing more comes, and waits until what was sent is there; rows that are not, after all.
    fn finish(&mut self, _patience: Duration) -> Result<(), (u64, String)> {
        Ok(())
    }
}

/// One attempt takes no longer, about.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);

/// What an outlet's thread works with.
pub struct Worker {
    /// What waits.
    pub queue: Arc<Queue>,
    /// Counters of its rows.
    pub tally: Arc<Tally>,
    /// Makes messages.
    pub mapping: Box<dyn Mapping>,
    /// Delivers them.
    pub transport: Box<dyn Transport>,
    /// Maximum time to retry a message.
    pub retry_max: Duration,
}

impl Worker {
    /// Works until the queue is ended and empty, or time is up.
    pub fn run(mut self) {
        let mut messages = Vec::new();
        if let Err(error) = self.transport.begin() {
            return self.tally.problem(&error.to_string());
        }
        while let Next::Item(item) = self.queue.pop() {
            self.mapping.take(item, &mut messages);
            self.deliver_all(&mut messages);
        }
        self.mapping.finish(&mut messages);
        self.deliver_all(&mut messages);
        if let Err((rows, why)) = self.transport.finish(self.left().unwrap_or_default()) {
            self.tally.problem(&why);
            self.tally.take_back(Loss::GaveUp, rows);
        }
    }

    fn deliver_all(&mut self, messages: &mut Vec<Message>) {
        for message in messages.drain(..) {
            self.deliver(&message);
        }
        self.tally.left_out.store(self.mapping.left_out(), Relaxed);
    }

    fn deliver(&mut self, message: &Message) {
        let give_up_at = Instant::now() + self.retry_max;
        let backoff = Backoff::new(RandomState::new().hash_one(message.number));
        for wait in backoff {
            let left = self.left().unwrap_or(ATTEMPT_MAX);
            // What is not sent now will be counted as lost at the end.
            if left.is_zero() {
                return;
            }
            match self.transport.send(message, left.min(ATTEMPT_MAX)) {
                Ok(()) => return self.tally.sent(message.rows),
                Err(Fault::Final(why)) => {
                    self.tally.problem(&why);
                    return self.tally.lost(Loss::Refused, message.rows);
                }
                Err(Fault::Partly(rows, why)) => {
                    self.tally.problem(&why);
                    self.tally.sent(message.rows);
                    return self.tally.take_back(Loss::Refused, rows);
                }
                Err(Fault::Passing(why)) => self.tally.problem(&why),
            }
            if Instant::now() + wait >= give_up_at {
                return self.tally.lost(Loss::GaveUp, message.rows);
            }
            self.queue.pause(self.left().map_or(wait, |left| wait.min(left)));
            self.tally.retries.fetch_add(1, Relaxed);
        }
    }

    /// How much time there is, once the queue is ended.
    fn left(&self) -> Option<Duration> {
        Some(self.queue.deadline()?.saturating_duration_since(Instant::now()))
    }
}
