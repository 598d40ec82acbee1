//! Requests that wait: for their response, or for the requests before them. In order, bounded in number and text.

use std::collections::VecDeque;

use flow::Place;
use wire::Timestamp;

use super::command::{self, Awaited, DefaultDatabase, Kind};
use crate::heard::{Fit, fit};
use crate::{Quality, Span};

/// MariaDB: the statement that was prepared last, for a client that does not wait to hear its id.
pub const LAST_STATEMENT: u32 = u32::MAX;
/// Requests that may wait.
const WAITING_MAX: usize = 1024;
/// Bytes of text that may wait with them.
const WAITING_TEXT_MAX: usize = 1 << 18;
/// Buffers kept for the next texts, and the greatest of them.
const POOL_MAX: usize = 8;
const POOLED_BYTES_MAX: usize = 1 << 14;

/// One request.
#[derive(Debug)]
pub struct Request {
    /// What it is.
    pub kind: Kind,
    /// Its text, up to a limit, if anybody wants it.
    pub text: Vec<u8>,
    /// The statement it is about.
    pub statement: u32,
    /// When it was on the wire.
    pub span: Span,
    /// Its last byte was not seen: `span` ends earlier than it did.
    pub open_end: bool,
    /// Some of its text, of as much as is ever kept, was not seen.
    pub cut: bool,
    /// Where it begins in what both sides say.
    pub place: Option<Place>,
    /// Its bytes on the wire.
    pub wire_bytes: u64,
    /// Packets it is made of: the sequence number of its response. `None`: some were not seen.
    pub packets: Option<u8>,
    /// Its last byte was seen.
    pub complete: bool,
    /// Its response cannot be known for sure.
    pub lost: bool,
    /// The next request may not have been seen.
    pub followed_by_gap: bool,
    /// The response may yet turn out to be that of a later request.
    pub tentative: bool,
    /// Requests may be missing before it.
    pub behind_loss: bool,
    /// What is known of its quality.
    pub quality: Quality,
}

impl Request {
    /// Stands for a request that was not seen.
    pub fn unseen(kind: Kind, ts: Timestamp) -> Request {
        let quality = Quality::Half;
        let (span, packets) = (Span::at(ts), None);
        Request {
            kind,
            text: Vec::new(),
            statement: 0,
            span,
            open_end: false,
            cut: false,
            place: None,
            wire_bytes: 0,
            packets,
            complete: true,
            lost: false,
            followed_by_gap: false,
            tentative: false,
            behind_loss: false,
            quality,
        }
    }

    /// Whether the request itself was seen.
    pub fn is_seen(&self) -> bool {
        self.wire_bytes > 0
    }

    /// What its success does to the default database.
    pub fn database_after(&self) -> DefaultDatabase {
        match self.kind {
            Kind::Command(command::INIT_DB) if self.cut => DefaultDatabase::Unread,
            Kind::Command(command::INIT_DB) if self.text.is_empty() => DefaultDatabase::Unchanged,
            Kind::Command(command::INIT_DB) => DefaultDatabase::Is(self.text.clone()),
            Kind::Command(command::QUERY) => command::database_after(&self.text, self.cut),
            _ => DefaultDatabase::Unchanged,
        }
    }

    /// What the server will answer.
    pub fn awaited(&self) -> Awaited {
        self.kind.awaited()
    }
}

/// The requests that wait, oldest first.
#[derive(Default)]
pub struct Requests {
    waiting: VecDeque<Request>,
    text_bytes: usize,
    pool: Vec<Vec<u8>>,
}

impl Requests {
    /// An empty buffer for a request's text.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.pool.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.pool.len() < POOL_MAX && (1..=POOLED_BYTES_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            self.pool.push(buffer);
        }
    }

    /// A request has come.
    pub fn push(&mut self, request: Request) {
        self.text_bytes += request.text.len();
        self.waiting.push_back(request);
    }

    /// A request that was not seen came before all that wait.
    pub fn push_front(&mut self, request: Request) {
        self.waiting.push_front(request);
    }

    /// Whether more wait than may.
    pub fn overflows(&self) -> bool {
        self.waiting.len() > WAITING_MAX || self.text_bytes > WAITING_TEXT_MAX && self.waiting.len() > 1
    }

    /// The oldest.
    pub fn front(&self) -> Option<&Request> {
        self.waiting.front()
    }

    /// The oldest.
    pub fn front_mut(&mut self) -> Option<&mut Request> {
        self.waiting.front_mut()
    }

    /// The newest.
    pub fn back_mut(&mut self) -> Option<&mut Request> {
        self.waiting.back_mut()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The one at `index`.
    pub fn get(&self, index: usize) -> Option<&Request> {
        self.waiting.get(index)
    }

    /// The one at `index`.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Request> {
        self.waiting.get_mut(index)
    }

    /// Removes the oldest.
    pub fn pop(&mut self) -> Option<Request> {
        let request = self.waiting.pop_front()?;
        self.text_bytes -= request.text.len();
        Some(request)
    }

    /// All of them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.waiting.iter_mut()
    }

    /// The newest that awaits a response which can begin at `place`, and whether it is known to.
    pub fn answered_from(&self, place: Place) -> Option<(usize, Fit)> {
        let fits = |r: &Request| r.place.map(|asked| fit(asked, place));
        self.waiting.iter().enumerate().rev().filter(|(_, r)| r.awaited() != Awaited::Nothing).find_map(
            |(i, r)| match fits(r)? {
                Fit::Impossible => None,
                fit => Some((i, fit)),
            },
        )
    }

    /// The newest that awaits a response and was complete before `ts`: whose response bytes of that time can be.
    pub fn answered_at(&self, ts: Timestamp) -> Option<usize> {
        self.waiting.iter().rposition(|r| r.complete && r.awaited() != Awaited::Nothing && r.span.last < ts)
    }

    /// Whether the request at `index` was sent without waiting for the answer to the one before it.
    pub fn is_pipelined(&self, index: usize) -> bool {
        let Some((before, request)) =
            index.checked_sub(1).and_then(|i| Some((self.waiting.get(i)?, self.waiting.get(index)?)))
        else {
            return false;
        };
        let heard = |r: &Request| r.place.map(|place| place.ack);
        let heard_nothing = heard(request).is_some() && heard(request) == heard(before);
        before.awaited() != Awaited::Nothing
            && (heard_nothing
                || request.span.first <= before.span.last
                || request.statement == LAST_STATEMENT)
    }
}
