//! Replies whose calls have not come yet: the client's bytes wait for a segment that is missing, or the two directions of a
//! mirrored link are captured out of order. Held, bounded, until the call comes or cannot come any more.

use std::collections::VecDeque;

use flow::Place;
use wire::Timestamp;

use super::body::Results;
use super::calls::FileData;
use super::emit::Reply;
use super::lane::Message;
use super::v3;
use super::waiting::Call;
use super::xdr::Xdr;
use crate::Direction;

/// Most bytes of one, file data aside.
const REPLY_BYTES_MAX: usize = 4 * 1024;
/// How much earlier than its call a reply may be captured, where nothing but the time tells: over UDP, where a call may be
/// sent again just when its first reply comes.
pub const SKEW_NS: i64 = 1_000_000;
/// NFSv3's READ.
const READ: u32 = 6;

/// What is to be read of a reply whose call is not known. If its results have the form of a READ's, with one length told
/// twice, its data are check-summed as if they began at a whole block: whether both is so the call will say.
pub fn layout(message: &[u8], mut x: Xdr<'_>) -> Option<(usize, Option<FileData>)> {
    let mut results = Results::default();
    if v3::results(READ, false, &mut x, &mut results).is_some()
        && let (Some(_), Some(len)) = (results.attributes, results.data)
        && len > 0
        && results.count == Some(len.into())
    {
        return Some((message.len() - x.left(), Some(FileData { offset: 0, len })));
    }
    (message.len() >= REPLY_BYTES_MAX).then_some((message.len(), None))
}

/// The replies held, oldest first.
#[derive(Default)]
pub struct Early {
    replies: VecDeque<Held>,
    bytes: usize,
}

/// A reply.
pub struct Held {
    xid: u32,
    direction: Direction,
    head: Vec<u8>,
    message: Message,
    ended: bool,
    checksums: Vec<u64>,
    /// A call with its xid has been answered before.
    pub is_repeated: bool,
}

impl Held {
    /// The reply as it came.
    pub fn reply(&self) -> Reply<'_> {
        Reply { head: &self.head, message: self.message, ended: self.ended, checksums: &self.checksums }
    }

    fn first(&self) -> Timestamp {
        self.message.span.map_or(Timestamp::MIN, |span| span.first)
    }

    fn bytes(&self) -> usize {
        size_of::<Held>() + self.head.len() + size_of_val(&self.checksums[..])
    }
}

impl Early {
    /// Whether none is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Whether another may be held.
    pub fn has_room(&self, bytes_max: usize) -> bool {
        self.bytes < bytes_max
    }

    /// Holds a reply.
    pub fn hold(&mut self, direction: Direction, reply: &Reply<'_>, is_repeated: bool) {
        let Some(xid) = Xdr::new(reply.head).u32() else { return };
        let (head, checksums) = (reply.head.to_vec(), reply.checksums.to_vec());
        let (message, ended) = (reply.message, reply.ended);
        let held = Held { xid, direction, head, message, ended, checksums, is_repeated };
        self.bytes += held.bytes();
        self.replies.push_back(held);
    }

    /// Takes the reply to a call out, if there is one.
    #[inline]
    pub fn take(&mut self, caller: Direction, xid: u32, call: &Call) -> Option<Held> {
        if self.replies.is_empty() {
            return None;
        }
        let answers = |h: &Held| h.xid == xid && h.direction != caller && call.can_get(&h.message);
        let held = self.replies.remove(self.replies.iter().position(answers)?)?;
        self.bytes -= held.bytes();
        Some(held)
    }

    /// Takes the oldest out.
    pub fn take_oldest(&mut self) -> Option<Held> {
        let held = self.replies.pop_front()?;
        self.bytes -= held.bytes();
        Some(held)
    }

    /// Whether the caller of the oldest, of whom bytes come that begin at `place` and `ts`, has come so far that its call
    /// would have been seen: what had been heard of the caller when the reply was sent tells, else the time.
    #[inline]
    pub fn is_overdue(&self, caller: Direction, place: Option<Place>, ts: Timestamp) -> bool {
        let Some(oldest) = self.replies.front().filter(|h| h.direction != caller) else { return false };
        match (oldest.message.place.and_then(|replied| replied.ack), place) {
            (Some(heard), Some(now)) => now.seq.distance(heard) >= 0,
            _ => oldest.first().plus(SKEW_NS) < ts,
        }
    }
}
