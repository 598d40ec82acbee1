//! Outstanding calls by xid, bounded in memory. A freed slot keeps its buffers for the next call.
//!
//! When the limit is reached, a new call does not evict the oldest one: under load that one is answered next,
//! and every call would be lost. The new call is rejected, unless the oldest is unlikely to be answered.

use flow::StreamPlace;
use hashbrown::HashTable;

use super::byte_stream::RpcMessage;
use super::rpc::{self, RpcTarget};
use crate::pairing::can_answer;
use crate::{MessageSpan, TupleQuality};

/// Maximum time by which a reply may be captured before its call over UDP, where only time is evidence: a call may
/// be retransmitted when its first reply arrives.
pub const SKEW_NS: i64 = 1_000_000;

/// Maximum memory kept by a free slot.
const KEPT_BYTES: usize = 4096;
/// Maximum number of free slots.
const SPARE_MAX: usize = 64;
/// Age at which a call is unlikely to be answered.
const PATIENCE_NS: i64 = 10_000_000_000;
/// No slot.
const NONE: u32 = u32::MAX;

/// A call.
#[derive(Debug)]
pub struct RpcPendingCall {
    /// Target of the call.
    pub target: RpcTarget,
    /// Sequence number among all calls.
    pub number: u64,
    /// Arrival of its first and last byte.
    pub span: MessageSpan,
    /// Position of its start; TCP only.
    pub place: Option<StreamPlace>,
    /// Whether its end is known.
    pub ended: bool,
    /// Whether bytes are missing.
    pub gap: bool,
    /// Method by which it was found, unless it directly followed another.
    pub found: Option<TupleQuality>,
    /// Number of retransmissions.
    pub repeats: u32,
    /// Length of the message, if known.
    pub bytes: Option<u64>,
    /// Header and arguments, without file data.
    pub head: Vec<u8>,
    /// Checksums of the call's data.
    pub checksums: Vec<u64>,
}

impl Default for RpcPendingCall {
    fn default() -> Self {
        RpcPendingCall {
            target: RpcTarget::default(),
            number: 0,
            span: MessageSpan::at(wire::Timestamp::MIN),
            place: None,
            ended: false,
            gap: false,
            found: None,
            repeats: 0,
            bytes: None,
            head: Vec::new(),
            checksums: Vec::new(),
        }
    }
}

impl RpcPendingCall {
    /// Whether `reply`, which has its xid, can answer it rather than an earlier call with the same xid: by
    /// acknowledgments, otherwise by time.
    pub fn can_get(&self, reply: &RpcMessage) -> bool {
        match (self.place, reply.place, reply.span) {
            (Some(asked), Some(answered), _) => can_answer(asked, answered),
            (_, _, Some(span)) => span.first >= self.span.last.plus(-SKEW_NS),
            _ => true,
        }
    }

    /// Whether `other`, which has its xid, is a retransmission of it. RPCSEC_GSS numbers each transmission.
    pub fn is_again(&self, other: &RpcPendingCall) -> bool {
        let seen = self.head.len().min(other.head.len());
        self.target == other.target
            && (self.head[..seen] == other.head[..seen] || rpc::is_gss(&self.head))
    }

    fn held_bytes(&self) -> usize {
        size_of::<RpcCallSlot>() + self.head.len() + size_of_val(&self.checksums[..])
    }
}

#[derive(Debug)]
struct RpcCallSlot {
    call: RpcPendingCall,
    xid: u32,
    /// Neighbors in the list by age.
    older: u32,
    newer: u32,
}

/// All calls of one direction.
#[derive(Debug)]
pub struct RpcPendingCalls {
    slots: Vec<RpcCallSlot>,
    by_xid: HashTable<u32>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    coming: RpcPendingCall,
    held_bytes: usize,
    numbers: u64,
    /// Number of the latest answered call.
    answered: u64,
}

impl Default for RpcPendingCalls {
    fn default() -> Self {
        RpcPendingCalls {
            slots: Vec::new(),
            by_xid: HashTable::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            coming: RpcPendingCall::default(),
            held_bytes: 0,
            numbers: 0,
            answered: 0,
        }
    }
}

impl RpcPendingCalls {
    /// Slot of the call with `xid`.
    #[inline]
    pub fn find(&self, xid: u32) -> Option<usize> {
        self.by_xid
            .find(hash(xid), |at| self.slots[*at as usize].xid == xid)
            .map(|at| *at as usize)
    }

    /// The call in a slot, mutable.
    #[inline]
    pub fn get(&mut self, place: usize) -> &mut RpcPendingCall {
        &mut self.slots[place].call
    }

    /// The call in a slot.
    pub fn peek(&self, place: usize) -> &RpcPendingCall {
        &self.slots[place].call
    }

    /// Client machine name in one of the latest calls.
    pub fn machine(&self) -> Option<&[u8]> {
        self.slots
            .iter()
            .take(8)
            .find_map(|slot| match rpc::call(&slot.call.head)?.credentials {
                rpc::RpcCredentials::Sys { machine, .. } => Some(machine),
                _ => None,
            })
    }

    /// The new call, to be filled and added by [`RpcPendingCalls::enter`].
    #[inline]
    pub fn coming(&mut self) -> &mut RpcPendingCall {
        &mut self.coming
    }

    /// Whether the new call is a retransmission of the one at `place`.
    pub fn comes_again(&self, place: usize) -> bool {
        self.slots[place].call.is_again(&self.coming)
    }

    /// Whether there is room for the new call; always true for the first.
    #[inline]
    pub fn has_room(&self, bytes_max: usize) -> bool {
        self.by_xid.is_empty() || self.held_bytes + self.coming.held_bytes() <= bytes_max
    }

    /// Adds the new call.
    #[inline]
    pub fn enter(&mut self, xid: u32) {
        self.numbers += 1;
        self.coming.number = self.numbers;
        self.held_bytes += self.coming.held_bytes();
        let at = self.free.pop().unwrap_or(self.slots.len() as u32);
        if at as usize == self.slots.len() {
            self.slots.push(RpcCallSlot {
                call: RpcPendingCall::default(),
                xid,
                older: NONE,
                newer: NONE,
            });
        }
        let slot = &mut self.slots[at as usize];
        std::mem::swap(&mut slot.call, &mut self.coming);
        slot.xid = xid;
        slot.older = self.newest;
        slot.newer = NONE;
        self.link(self.newest, NONE, at, at);
        let slots = &self.slots;
        self.by_xid
            .insert_unique(hash(xid), at, |at| hash(slots[*at as usize].xid));
    }

    /// Discards the new call.
    pub fn refuse(&mut self) {
        self.numbers += 1;
    }

    /// Slot of the oldest call.
    pub fn oldest(&self) -> Option<usize> {
        (self.oldest != NONE).then_some(self.oldest as usize)
    }

    /// Slot of the oldest call, if it is unlikely to be answered: as many later calls as are waiting have
    /// been answered, or it exceeds [`PATIENCE_NS`].
    pub fn hopeless(&self) -> Option<usize> {
        let call = &self.slots[self.oldest()?].call;
        let overtaken = self.answered > call.number + self.by_xid.len() as u64;
        let waited = self.coming.span.first.since(call.span.last);
        (overtaken || waited > PATIENCE_NS).then_some(self.oldest as usize)
    }

    /// Removes the answered call at `place`.
    #[inline]
    pub fn answer(&mut self, place: usize) {
        self.answered = self.answered.max(self.slots[place].call.number);
        self.remove(place);
    }

    /// Removes a call.
    #[inline]
    pub fn remove(&mut self, place: usize) {
        let at = place as u32;
        let RpcCallSlot {
            xid, older, newer, ..
        } = self.slots[place];
        if let Ok(entry) = self.by_xid.find_entry(hash(xid), |other| *other == at) {
            entry.remove();
        }
        self.link(older, newer, newer, older);
        let call = &mut self.slots[place].call;
        self.held_bytes -= call.held_bytes();
        call.number = 0;
        let capacity = call.head.capacity() + size_of::<u64>() * call.checksums.capacity();
        if capacity > KEPT_BYTES || self.free.len() >= SPARE_MAX {
            call.head = Vec::new();
            call.checksums = Vec::new();
        }
        self.free.push(at);
        if self.by_xid.is_empty() && self.slots.len() > SPARE_MAX {
            self.slots = Vec::new();
            self.by_xid = HashTable::new();
            self.free = Vec::new();
        }
    }

    /// Makes `next` follow `older`, and `last` precede `newer`.
    #[inline]
    fn link(&mut self, older: u32, newer: u32, next: u32, last: u32) {
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = next,
            None => self.oldest = next,
        }
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = last,
            None => self.newest = last,
        }
    }
}

/// Clients number their xids; chosen collisions slow down only the sender's own connection, up to the limit.
#[inline]
fn hash(xid: u32) -> u64 {
    u64::from(xid).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
