//! Where one direction stands in its byte stream, and what is kept of its messages.

use std::marker::PhantomData;

use flow::Place;
use wire::Timestamp;

use super::{Messages, Role, Said};
use crate::Span;
use crate::pairing::{Answers, Fit, Seen, Spot};
use crate::resync::Resync;

/// What the next byte is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// A message that begins here, or of whose head a part is held.
    #[default]
    Between,
    /// The message under way, of which this is still to come.
    Inside(u64),
    /// A body: bytes to come, and what comes of the message behind them, if anything.
    Body { left: u64, rest: Option<u64> },
    /// A message may begin anywhere.
    Lost,
    /// Nothing that is read.
    Over,
}

/// One direction.
#[derive(Default)]
pub struct Lane {
    pub state: State,
    /// A head of which not all has come, and when it came.
    pub head: Vec<u8>,
    pub span: Option<Span>,
    /// Where the message in progress, or the next one, begins, and its bytes as far as they are known.
    pub place: Place,
    pub bytes: u64,
    /// It was looked for.
    pub found: bool,
    pub resync: Resync,
}

impl Lane {
    /// Whether a message is under way.
    pub fn is_within(&self) -> bool {
        match self.state {
            State::Between => !self.head.is_empty(),
            State::Inside(_) | State::Body { .. } => true,
            State::Lost | State::Over => false,
        }
    }
}

/// Where the server's message in progress goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answering {
    #[default]
    Nothing,
    /// To its request.
    Request(Spot),
    /// Into a tuple of its own.
    Unsolicited,
    /// Nowhere.
    Aside,
    /// Nowhere, and there it leaves a hole.
    Fragment,
}

/// What is kept of a message.
pub struct Message<M> {
    pub span: Span,
    pub seen: Seen,
    pub role: Role,
    pub head: Vec<u8>,
    /// All of them, unless its end is missing.
    pub bytes: u64,
    protocol: PhantomData<fn() -> M>,
}

impl<M: Messages> Message<M> {
    /// Begins anew, in the memory of an earlier one.
    pub fn begin(&mut self, span: Span, role: Role) {
        (self.span, self.seen, self.role, self.bytes) = (span, Seen::Whole, role, 0);
        self.head.clear();
    }

    /// A head of it, and a body behind that.
    pub fn add(&mut self, head: &[u8], body: u64) {
        let room = M::KEPT_BYTES_MAX.saturating_sub(self.head.len());
        self.head.extend_from_slice(&head[..head.len().min(room)]);
        self.bytes = self.bytes.saturating_add(body).saturating_add(head.len() as u64);
    }

    /// What `write` sees of it.
    pub fn said(&self) -> Said<'_> {
        Said { head: &self.head, role: self.role }
    }

    /// More of it came at `ts`.
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
