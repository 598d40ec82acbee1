//! Replies captured before their calls: the client's bytes wait for a missing segment, or the two directions
//! of a mirrored link are captured out of order. Held, bounded, until the call is captured or can no longer
//! be.

use std::collections::VecDeque;

use flow::StreamPlace;
use wire::Timestamp;

use super::body::{NfsFileData, NfsResults};
use super::byte_stream::RpcMessage;
use super::emit::NfsReply;
use super::pending_calls::{RpcPendingCall, SKEW_NS};
use super::v3;
use super::xdr::XdrReader;
use crate::Direction;

/// Maximum bytes of a reply, without file data.
const REPLY_BYTES_MAX: usize = 4 * 1024;
/// NFSv3's READ.
const READ: u32 = 6;

/// The part to parse of a reply whose call is unknown. If its results have the form of a READ, with the same
/// length twice, its data is checksummed as if it began at a complete block; the call verifies both
/// assumptions.
pub fn layout(message: &[u8], mut x: XdrReader<'_>) -> Option<(usize, Option<NfsFileData>)> {
    let mut results = NfsResults::default();
    if v3::results(READ, false, &mut x, &mut results).is_some()
        && let (Some(_), Some(len)) = (results.attributes, results.data)
        && len > 0
        && results.count == Some(len.into())
    {
        return Some((
            message.len() - x.left(),
            Some(NfsFileData { offset: 0, len }),
        ));
    }
    (message.len() >= REPLY_BYTES_MAX).then_some((message.len(), None))
}

/// Held replies, oldest first.
#[derive(Default)]
pub struct NfsEarlyReplies {
    replies: VecDeque<NfsEarlyReply>,
    bytes: usize,
}

/// A held reply.
pub struct NfsEarlyReply {
    xid: u32,
    direction: Direction,
    head: Vec<u8>,
    message: RpcMessage,
    ended: bool,
    checksums: Vec<u64>,
    /// A call with its xid has been answered before.
    pub is_repeated: bool,
}

impl NfsEarlyReply {
    /// The reply as received.
    pub fn reply(&self) -> NfsReply<'_> {
        NfsReply {
            head: &self.head,
            message: self.message,
            ended: self.ended,
            checksums: &self.checksums,
        }
    }

    fn first(&self) -> Timestamp {
        self.message.span.map_or(Timestamp::MIN, |span| span.first)
    }

    fn bytes(&self) -> usize {
        size_of::<NfsEarlyReply>() + self.head.len() + size_of_val(&self.checksums[..])
    }
}

impl NfsEarlyReplies {
    /// Whether none is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Whether another may be held.
    pub fn has_room(&self, bytes_max: usize) -> bool {
        self.bytes < bytes_max
    }

    /// Adds a reply.
    pub fn hold(&mut self, direction: Direction, reply: &NfsReply<'_>, is_repeated: bool) {
        let Some(xid) = XdrReader::new(reply.head).u32() else {
            return;
        };
        let head = reply.head.to_vec();
        let checksums = reply.checksums.to_vec();
        let message = reply.message;
        let ended = reply.ended;
        let held = NfsEarlyReply {
            xid,
            direction,
            head,
            message,
            ended,
            checksums,
            is_repeated,
        };
        self.bytes += held.bytes();
        self.replies.push_back(held);
    }

    /// Removes and returns the reply to a call, if held.
    #[inline]
    pub fn take(
        &mut self,
        caller: Direction,
        xid: u32,
        call: &RpcPendingCall,
    ) -> Option<NfsEarlyReply> {
        if self.replies.is_empty() {
            return None;
        }
        let answers =
            |h: &NfsEarlyReply| h.xid == xid && h.direction != caller && call.can_get(&h.message);
        let held = self
            .replies
            .remove(self.replies.iter().position(answers)?)?;
        self.bytes -= held.bytes();
        Some(held)
    }

    /// Removes and returns the oldest reply.
    pub fn take_oldest(&mut self) -> Option<NfsEarlyReply> {
        let held = self.replies.pop_front()?;
        self.bytes -= held.bytes();
        Some(held)
    }

    /// Whether the call of the oldest reply would already have been captured, given the caller's bytes at
    /// `place` and `ts`: by the reply's acknowledgment, otherwise by time.
    #[inline]
    pub fn is_overdue(&self, caller: Direction, place: Option<StreamPlace>, ts: Timestamp) -> bool {
        let Some(oldest) = self.replies.front().filter(|h| h.direction != caller) else {
            return false;
        };
        match (oldest.message.place.and_then(|replied| replied.ack), place) {
            (Some(heard), Some(now)) => now.seq.distance(heard) >= 0,
            _ => oldest.first().plus(SKEW_NS) < ts,
        }
    }
}
