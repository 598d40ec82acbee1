//! Calls that wait for their replies: found by xid, bounded in memory. A place that becomes free keeps its buffers for
//! the next call.
//!
//! When the memory is used up a new call does not push out the oldest one, for under load that is the very one that
//! is answered next, and all would be lost. It is refused, unless the oldest is unlikely to be answered.

use flow::Place;
use hashbrown::HashTable;

use super::early::SKEW_NS;
use super::lane::Message;
use super::rpc::{self, Target};
use crate::pairing::can_answer;
use crate::{Quality, Span};

/// Most memory that a free place keeps.
const KEPT_BYTES: usize = 4096;
/// Most free places kept.
const SPARE_MAX: usize = 64;
/// Age at which a call is unlikely to be answered.
const PATIENCE_NS: i64 = 10_000_000_000;
/// So many later calls that were answered make a call an old one.
const OVERTAKEN: u64 = 4;
/// No place.
const NONE: u32 = u32::MAX;

/// A call.
#[derive(Debug)]
pub struct Call {
    /// What is called.
    pub target: Target,
    /// Its place in the order of all calls.
    pub number: u64,
    /// When it was on the wire.
    pub span: Span,
    /// Where it begins in what both sides say.
    pub place: Option<Place>,
    /// When it ended is known.
    pub ended: bool,
    /// Bytes of it are missing.
    pub gap: bool,
    /// How it was found, unless it followed another.
    pub found: Option<Quality>,
    /// How often it was sent again.
    pub repeats: u32,
    /// Length of the message, if known.
    pub bytes: Option<u64>,
    /// Header and arguments, without file data.
    pub head: Vec<u8>,
    /// Check-sums of its data.
    pub checksums: Vec<u64>,
}

impl Default for Call {
    fn default() -> Self {
        Call {
            target: Target::default(),
            number: 0,
            span: Span::at(wire::Timestamp::MIN),
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

impl Call {
    /// Whether `reply`, which has its xid, can be its reply and not that to an earlier call with the same xid. What
    /// either end had heard of the other tells, else the time.
    pub fn can_get(&self, reply: &Message) -> bool {
        match (self.place, reply.place, reply.span) {
            (Some(asked), Some(answered), _) => can_answer(asked, answered),
            (_, _, Some(span)) => span.first >= self.span.last.plus(-SKEW_NS),
            _ => true,
        }
    }

    /// Whether `other`, which has its xid, is the same call sent again. RPCSEC_GSS numbers each sending anew.
    pub fn is_again(&self, other: &Call) -> bool {
        let seen = self.head.len().min(other.head.len());
        self.target == other.target && (self.head[..seen] == other.head[..seen] || rpc::is_gss(&self.head))
    }

    fn held_bytes(&self) -> usize {
        size_of::<Slot>() + self.head.len() + size_of_val(&self.checksums[..])
    }
}

#[derive(Debug)]
struct Slot {
    call: Call,
    xid: u32,
    /// Neighbours among those that wait, by age.
    older: u32,
    newer: u32,
}

/// All calls of one direction.
#[derive(Debug)]
pub struct Waiting {
    slots: Vec<Slot>,
    by_xid: HashTable<u32>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    coming: Call,
    held_bytes: usize,
    numbers: u64,
    /// The latest call that was answered.
    answered: u64,
}

impl Default for Waiting {
    fn default() -> Self {
        Waiting {
            slots: Vec::new(),
            by_xid: HashTable::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            coming: Call::default(),
            held_bytes: 0,
            numbers: 0,
            answered: 0,
        }
    }
}

impl Waiting {
    /// Where the call `xid` is.
    #[inline]
    pub fn find(&self, xid: u32) -> Option<usize> {
        self.by_xid.find(hash(xid), |at| self.slots[*at as usize].xid == xid).map(|at| *at as usize)
    }

    /// The call at `place`.
    #[inline]
    pub fn get(&mut self, place: usize) -> &mut Call {
        &mut self.slots[place].call
    }

    /// The same, to be looked at.
    pub fn peek(&self, place: usize) -> &Call {
        &self.slots[place].call
    }

    /// Whether several calls that were sent after it have been answered.
    pub fn is_overtaken(&self, call: &Call) -> bool {
        self.answered > call.number + OVERTAKEN
    }

    /// What one of the latest calls says is the client's name.
    pub fn machine(&self) -> Option<&[u8]> {
        self.slots.iter().take(8).find_map(|slot| match rpc::call(&slot.call.head)?.credentials {
            rpc::Credentials::Sys { machine, .. } => Some(machine),
            _ => None,
        })
    }

    /// The call that comes in, to be filled and then taken in with [`Waiting::enter`].
    #[inline]
    pub fn coming(&mut self) -> &mut Call {
        &mut self.coming
    }

    /// Whether the call that came in is the one at `place`, sent again.
    pub fn comes_again(&self, place: usize) -> bool {
        self.slots[place].call.is_again(&self.coming)
    }

    /// Whether there is room for the call that came in; for one there always is.
    #[inline]
    pub fn has_room(&self, bytes_max: usize) -> bool {
        self.by_xid.is_empty() || self.held_bytes + self.coming.held_bytes() <= bytes_max
    }

    /// The call that came in waits now.
    #[inline]
    pub fn enter(&mut self, xid: u32) {
        self.numbers += 1;
        self.coming.number = self.numbers;
        self.held_bytes += self.coming.held_bytes();
        let at = self.free.pop().unwrap_or(self.slots.len() as u32);
        if at as usize == self.slots.len() {
            self.slots.push(Slot { call: Call::default(), xid, older: NONE, newer: NONE });
        }
        let slot = &mut self.slots[at as usize];
        std::mem::swap(&mut slot.call, &mut self.coming);
        (slot.xid, slot.older, slot.newer) = (xid, self.newest, NONE);
        self.link(self.newest, NONE, at, at);
        let slots = &self.slots;
        self.by_xid.insert_unique(hash(xid), at, |at| hash(slots[*at as usize].xid));
    }

    /// The call that came in will not wait.
    pub fn refuse(&mut self) {
        self.numbers += 1;
    }

    /// The oldest.
    pub fn oldest(&self) -> Option<usize> {
        (self.oldest != NONE).then_some(self.oldest as usize)
    }

    /// The oldest, if it is unlikely to be answered: as many calls sent after it as there is room for have been
    /// answered, or it has waited for very long.
    pub fn hopeless(&self) -> Option<usize> {
        let call = &self.slots[self.oldest()?].call;
        let overtaken = self.answered > call.number + self.by_xid.len() as u64;
        let waited = self.coming.span.first.since(call.span.last);
        (overtaken || waited > PATIENCE_NS).then_some(self.oldest as usize)
    }

    /// The call at `place` was answered.
    #[inline]
    pub fn answer(&mut self, place: usize) {
        self.answered = self.answered.max(self.slots[place].call.number);
        self.remove(place);
    }

    /// Takes a call out.
    #[inline]
    pub fn remove(&mut self, place: usize) {
        let at = place as u32;
        let Slot { xid, older, newer, .. } = self.slots[place];
        if let Ok(entry) = self.by_xid.find_entry(hash(xid), |other| *other == at) {
            entry.remove();
        }
        self.link(older, newer, newer, older);
        let call = &mut self.slots[place].call;
        self.held_bytes -= call.held_bytes();
        call.number = 0;
        let capacity = call.head.capacity() + size_of::<u64>() * call.checksums.capacity();
        if capacity > KEPT_BYTES || self.free.len() >= SPARE_MAX {
            (call.head, call.checksums) = (Vec::new(), Vec::new());
        }
        self.free.push(at);
        if self.by_xid.is_empty() && self.slots.len() > SPARE_MAX {
            self.slots = Vec::new();
            self.by_xid = HashTable::new();
            self.free = Vec::new();
        }
    }

    /// Behind `older` comes `next`, and before `newer` comes `last`.
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

/// Clients count their xids; who chooses them to collide makes his own connection slow, up to the bound.
#[inline]
fn hash(xid: u32) -> u64 {
    u64::from(xid).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
