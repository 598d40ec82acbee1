//! Thread of an outlet: takes items from its queue, converts them to messages, and sends each until it is acknowledged,
//! rejected, or timed out.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::backoff::Backoff;
use crate::queue::{Item, Next, Queue};
use crate::tally::{Loss, Tally};

/// Source of the rows.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Name of the query or job.
    pub of: String,
    /// Prefix of message identifiers, unique per run.
    pub run: u64,
}

/// A message to send.
#[derive(Clone)]
pub struct Message {
    /// Body.
    pub body: Body,
    /// Number of rows.
    pub rows: u64,
    /// Number in this run.
    pub number: u64,
}

/// Body in the outlet's format.
#[derive(Clone)]
pub enum Body {
    /// Nothing: already delivered.
    Posted,
    /// Bytes.
    Bytes(Vec<u8>),
    /// Redis commands.
    Commands(redis::Pipeline),
}

impl Body {
    /// The bytes, if it consists of bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Body::Bytes(bytes) => bytes,
            Body::Posted | Body::Commands(_) => &[],
        }
    }
}

/// Converts rows to messages, without clock and I/O.
pub trait Mapping: Send {
    /// Handles an item.
    fn take(&mut self, item: Item, out: &mut Vec<Message>);

    /// Converts the remaining rows.
    fn finish(&mut self, out: &mut Vec<Message>);

    /// Series and points omitted so far.
    fn left_out(&self) -> u64 {
        0
    }
}

/// Failure of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Temporary: another attempt may succeed.
    Passing(String),
    /// Permanent.
    Final(String),
    /// This number of its rows was rejected permanently; the others were accepted.
    Partly(u64, String),
}

/// Sends messages. No call takes much longer than `patience`.
pub trait Transport: Send {
    /// Called first, on the outlet's thread.
    fn begin(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    /// One attempt.
    fn send(&mut self, message: &Message, patience: Duration) -> Result<(), Fault>;

    /// Ends the transmission, and waits until sent rows have arrived; the error has the number of lost ones.
    fn finish(&mut self, _patience: Duration) -> Result<(), (u64, String)> {
        Ok(())
    }
}

/// Approximate maximum duration of an attempt.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);

/// State of an outlet's thread.
pub struct Worker {
    /// Queue.
    pub queue: Arc<Queue>,
    /// Counters of its rows.
    pub tally: Arc<Tally>,
    /// Mapping.
    pub mapping: Box<dyn Mapping>,
    /// Transport.
    pub transport: Box<dyn Transport>,
    /// Maximum time to retry a message.
    pub retry_max: Duration,
}

impl Worker {
    /// Runs until the queue has ended and is empty, or the time limit.
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
            // Unsent rows are counted as lost at the end.
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

    /// Remaining time, after the end of the queue.
    fn left(&self) -> Option<Duration> {
        Some(self.queue.deadline()?.saturating_duration_since(Instant::now()))
    }
}
