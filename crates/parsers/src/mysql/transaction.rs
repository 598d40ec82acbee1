//! What is kept of a request until its response has come, and whether a response can be to it.

use wire::Timestamp;

use super::command::{self, Awaited, DefaultDatabase, Kind};
use super::framing::Packet;
use super::response::Response;
use crate::Span;
use crate::pairing::{Answers, Expects, Fit, Seen};

/// MariaDB: the statement that was prepared last, for a client that does not wait to hear its id.
pub const LAST_STATEMENT: u32 = u32::MAX;
/// Most memory for text that a place in the queue keeps for the next request there.
pub const KEPT_BYTES: usize = 1 << 14;

/// One request.
#[derive(Debug)]
pub struct Request {
    pub kind: Kind,
    /// Its text, up to a limit, if anybody wants it.
    pub text: Vec<u8>,
    /// Some of its text, of as much as is ever kept, was not seen.
    pub text_cut: bool,
    /// Its text is longer than what is ever kept.
    pub shortened: bool,
    /// The statement it is about.
    pub statement: u32,
    /// When it was on the wire.
    pub span: Span,
    /// Its bytes on the wire.
    pub wire_bytes: u64,
    /// The sequence number of its response.
    pub answer_seq: u8,
    pub seen: Seen,
    /// How often requests had been lost when it came.
    pub losses: u32,
}

impl Default for Request {
    fn default() -> Self {
        Request {
            kind: Kind::Unseen,
            text: Vec::new(),
            text_cut: false,
            shortened: false,
            statement: 0,
            span: Span::at(Timestamp::MIN),
            wire_bytes: 0,
            answer_seq: 0,
            seen: Seen::Whole,
            losses: 0,
        }
    }
}

impl Request {
    /// Becomes the request of `kind` that begins with packet `p`.
    pub fn become_one(&mut self, kind: Kind, p: &Packet<'_>) {
        self.text.clear();
        let text = std::mem::take(&mut self.text);
        let seen = match (p.holed, p.open_end) {
            (_, true) => Seen::OpenEnd,
            (true, false) => Seen::Holed,
            (false, false) => Seen::Whole,
        };
        *self = Request {
            kind,
            text,
            span: p.span,
            wire_bytes: p.wire_len(),
            answer_seq: p.seq.wrapping_add(1),
            seen,
            ..Request::default()
        };
    }

    /// A packet that goes on with it.
    pub fn extend(&mut self, p: &Packet<'_>) {
        self.span.extend(p.span.last);
        self.wire_bytes += p.wire_len();
        self.answer_seq = self.answer_seq.wrapping_add(1);
        self.seen = match (self.seen, p.holed, p.open_end) {
            (Seen::Cut, ..) => Seen::Cut,
            (_, _, true) => Seen::OpenEnd,
            (Seen::Whole, false, _) => Seen::Whole,
            _ => Seen::Holed,
        };
    }

    /// What its success does to the default database.
    pub fn database_after(&self) -> DefaultDatabase {
        match self.kind {
            Kind::Command(command::INIT_DB) if self.text_cut => DefaultDatabase::Unread,
            Kind::Command(command::INIT_DB) if self.text.is_empty() => DefaultDatabase::Unchanged,
            Kind::Command(command::INIT_DB) => DefaultDatabase::Is(self.text.clone()),
            Kind::Command(command::QUERY) => command::database_after(&self.text, self.text_cut),
            _ => DefaultDatabase::Unchanged,
        }
    }

    /// What the server will answer.
    pub fn awaited(&self) -> Awaited {
        self.kind.awaited()
    }

    /// Whether its response can begin with a packet of this number; `unordered`: numbers say nothing.
    pub fn can_get(&self, seq: u8, unordered: bool) -> bool {
        unordered || self.seen == Seen::Cut || self.awaited() == Awaited::Auth || self.answer_seq == seq
    }
}

/// Whether a request of `kind` is answered.
pub fn expects(kind: Kind) -> Expects {
    if kind.awaited() == Awaited::Nothing { Expects::Nothing } else { Expects::Response }
}

impl Answers<Request> for Response {
    /// It was read as the answer to a request of some kind; of another kind it would have been read otherwise.
    fn fit(&self, request: &Request) -> Fit {
        let fits = self.awaited() == request.awaited() && request.can_get(self.first_seq, self.unordered);
        if fits { Fit::Maybe } else { Fit::No }
    }
}
