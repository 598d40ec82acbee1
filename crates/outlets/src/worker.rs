//! Thread of an outlet: takes items from its queue, converts them to messages, and sends each until it is acknowledged,
//! rejected, or timed out.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use connect::RetryPolicy;

use crate::counters::{OutletCounters, OutletLoss};
use crate::flow_row::FlowRow;
use crate::queue::{NextItem, OutletItem, OutletQueue};

/// Source of the rows.
#[derive(Clone, Debug)]
pub struct RowIdentity {
    /// Name of the query or job.
    pub of: String,
    /// Prefix of message identifiers, unique per run.
    pub run: u64,
}

/// A message to send.
#[derive(Clone)]
pub struct OutletMessage {
    /// Body.
    pub body: MessageBody,
    /// Number of rows.
    pub rows: u64,
    /// Number in this run.
    pub number: u64,
}

/// Body in the outlet's format.
#[derive(Clone)]
pub enum MessageBody {
    /// Nothing: already delivered.
    Posted,
    /// Bytes.
    Bytes(Vec<u8>),
    /// Redis commands.
    Commands(redis::Pipeline),
    /// Flow records, encoded when they are sent.
    Flows(Vec<FlowRow>),
}

impl MessageBody {
    /// The bytes, if the message consists of bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            MessageBody::Bytes(bytes) => bytes,
            MessageBody::Posted | MessageBody::Commands(_) | MessageBody::Flows(_) => &[],
        }
    }
}

/// Converts rows to messages, without clock and I/O.
pub trait RowMapping: Send {
    /// Handles an item.
    fn take(&mut self, item: OutletItem, out: &mut Vec<OutletMessage>);

    /// Converts the remaining rows.
    fn finish(&mut self, out: &mut Vec<OutletMessage>);

    /// Series, points, and values omitted so far.
    fn left_out(&self) -> u64 {
        0
    }
}

/// Failure of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryFault {
    /// Temporary: another attempt may succeed.
    Passing(String),
    /// Permanent.
    Final(String),
    /// Number of rows of the message that were rejected permanently; the others were accepted.
    Partly(u64, String),
}

/// Sends messages. No call takes much longer than `patience`.
pub trait OutletTransport: Send {
    /// Called first, on the outlet's thread.
    fn begin(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    /// One attempt.
    fn send(&mut self, message: &OutletMessage, patience: Duration) -> Result<(), DeliveryFault>;

    /// Ends the transmission, and waits until sent rows have arrived; the error has the number of lost ones.
    fn finish(&mut self, _patience: Duration) -> Result<(), (u64, String)> {
        Ok(())
    }
}

/// Approximate maximum duration of an attempt.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);

/// State of an outlet's thread.
pub struct OutletThread {
    /// Queue.
    pub queue: Arc<OutletQueue>,
    /// Counters of the outlet's rows.
    pub tally: Arc<OutletCounters>,
    /// Mapping.
    pub mapping: Box<dyn RowMapping>,
    /// Transport.
    pub transport: Box<dyn OutletTransport>,
    /// Maximum time to retry a message.
    pub retry_max: Duration,
}

impl OutletThread {
    /// Runs until the queue has ended and is empty, or the time limit.
    pub fn run(mut self) {
        let mut messages = Vec::new();
        if let Err(error) = self.transport.begin() {
            return self.tally.problem(&error.to_string());
        }
        while let NextItem::Item(item) = self.queue.pop() {
            self.mapping.take(item, &mut messages);
            self.deliver_all(&mut messages);
        }
        self.mapping.finish(&mut messages);
        self.deliver_all(&mut messages);
        if let Err((rows, why)) = self.transport.finish(self.left().unwrap_or_default()) {
            self.tally.problem(&why);
            self.tally.take_back(OutletLoss::GaveUp, rows);
        }
    }

    fn deliver_all(&mut self, messages: &mut Vec<OutletMessage>) {
        for message in messages.drain(..) {
            self.deliver(&message);
        }
        self.tally.left_out.store(self.mapping.left_out(), Relaxed);
    }

    fn deliver(&mut self, message: &OutletMessage) {
        let give_up_at = Instant::now() + self.retry_max;
        let mut delays = RetryPolicy::RECEIVER.delays(RandomState::new().hash_one(message.number));
        loop {
            let wait = delays.next_delay();
            let left = self.left().unwrap_or(ATTEMPT_MAX);
            // Unsent rows are counted as lost at the end.
            if left.is_zero() {
                return;
            }
            match self.transport.send(message, left.min(ATTEMPT_MAX)) {
                Ok(()) => return self.tally.sent(message.rows),
                Err(DeliveryFault::Final(why)) => {
                    self.tally.problem(&why);
                    return self.tally.lost(OutletLoss::Refused, message.rows);
                }
                Err(DeliveryFault::Partly(rows, why)) => {
                    self.tally.problem(&why);
                    self.tally.sent(message.rows);
                    return self.tally.take_back(OutletLoss::Refused, rows);
                }
                Err(DeliveryFault::Passing(why)) => self.tally.problem(&why),
            }
            if Instant::now() + wait >= give_up_at {
                return self.tally.lost(OutletLoss::GaveUp, message.rows);
            }
            self.queue
                .pause(self.left().map_or(wait, |left| wait.min(left)));
            self.tally.retries.fetch_add(1, Relaxed);
        }
    }

    /// Remaining time, after the end of the queue.
    fn left(&self) -> Option<Duration> {
        Some(
            self.queue
                .deadline()?
                .saturating_duration_since(Instant::now()),
        )
    }
}
