//! Position of one direction in its byte stream, and the stored parts of its messages.

use std::marker::PhantomData;

use flow::Place;
use wire::Timestamp;

use super::{Messages, Role, Said};
use crate::Span;
use crate::pairing::{Answers, Fit, Seen, Spot};
use crate::resync::Resync;

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// A message that begins here, or whose head is partly held.
    #[default]
    Between,
    /// The next part of the message in progress, with its state.
    Inside(u64),
    /// A body: bytes left, and the state of the parts after them, if any.
    Body { left: u64, rest: Option<u64> },
    /// Unknown: a message may begin anywhere.
    Lost,
    /// Nothing that is parsed.
    Over,
}

/// State of one direction.
#[derive(Default)]
pub struct Lane {
    pub state: State,
    /// An incomplete head, and its arrival time.
    pub head: Vec<u8>,
    pub span: Option<Span>,
    /// Start of the current or next message, and its length so far.
    pub place: Place,
    pub bytes: u64,
    /// It was found by a search.
    pub found: bool,
    pub resync: Resync,
}

impl Lane {
    /// Whether a message is in progress.
    pub fn is_within(&self) -> bool {
        match self.state {
            State::Between => !self.head.is_empty(),
            State::Inside(_) | State::Body { .. } => true,
            State::Lost | State::Over => false,
        }
    }
}

/// Destination of the server's message in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answering {
    #[default]
    Nothing,
    /// The transaction of its request.
    Request(Spot),
    /// Its own tuple.
    Unsolicited,
    /// None.
    Aside,
    /// None; it counts as missing.
    Fragment,
}

/// Stored parts of a message.
pub struct Message<M> {
    pub span: Span,
    pub seen: Seen,
    pub role: Role,
    pub head: Vec<u8>,
    /// Total length, unless its end is missing.
    pub bytes: u64,
    protocol: PhantomData<fn() -> M>,
}

impl<M: Messages> Message<M> {
    /// Resets the message, reusing its memory.
    pub fn begin(&mut self, span: Span, role: Role) {
        (self.span, self.seen, self.role, self.bytes) = (span, Seen::Whole, role, 0);
        self.head.clear();
    }

    /// Adds a head and the body that follows it.
    pub fn add(&mut self, head: &[u8], body: u64) {
        let room = M::KEPT_BYTES_MAX.saturating_sub(self.head.len());
        self.head.extend_from_slice(&head[..head.len().min(room)]);
        self.bytes = self.bytes.saturating_add(body).saturating_add(head.len() as u64);
    }

    /// The message in the form that `write` reads.
    pub fn said(&self) -> Said<'_> {
        Said { head: &self.head, role: self.role }
    }

    /// Records that bytes arrived at `ts`.
    pub fn extend(&mut self, ts: Timestamp) {
        self.span.extend(ts);
        self.seen.go_on();
    }
}

impl<M> Default for Message<M> {
    fn default() -> Self {
        Message {
            span: Span::at(Timestamp::MIN),
            seen: Seen::Whole,
            role: Role::Answer,
            head: Vec::new(),
            bytes: 0,
            protocol: PhantomData,
        }
    }
}

impl<M: Messages> Answers<Message<M>> for Message<M> {
    fn fit(&self, request: &Message<M>) -> Fit {
        M::fit(&request.head, &self.head)
    }
}
