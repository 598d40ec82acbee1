//! Calls and replies of one flow, matched by xid; what is to be read of a message; what was learned from both.

use flow::Place;
use wire::Timestamp;

use super::body::{Args, Results};
use super::early::Early;
use super::emit::{self, Reply};
use super::lane::{Kind, Message};
use super::learned::Names;
use super::waiting::{Call, Waiting};
use super::xdr::Xdr;
use super::{blocks::Blocks, early, field, programs, rpc, scan};
use crate::output::Columns;
use crate::{Direction, Output};

/// Most bytes of a call, without file data, that are read and kept.
const CALL_BYTES_MAX: usize = 4 * 1024;
/// Most bytes of a reply, without file data, that are read.
pub const REPLY_BYTES_MAX: usize = 64 * 1024;
/// Of so many answered calls of a UDP flow it is known if they are sent or answered again.
const ANSWERED_MAX: usize = 64;
/// What needs the names in directories.
pub const LISTING: Columns = Columns::of(&[field::ENTRIES, field::PATH, field::EOF]);

/// File data in a message.
#[derive(Clone, Copy, Debug)]
pub struct FileData {
    /// Where in the file; `u64::MAX`: not known.
    pub offset: u64,
    /// How many bytes.
    pub len: u32,
}

/// What is to be read of a message, and what follows.
pub enum Layout {
    /// Its end has not come.
    NeedMore,
    /// No message begins like this.
    NoMessage,
    /// So many bytes, then file data, then nothing of interest.
    Head {
        /// Call or reply.
        kind: Kind,
        /// Length of what is to be read.
        at: usize,
        /// What follows it.
        data: Option<FileData>,
        /// A reply whose call is not known: read as far as that goes.
        early: bool,
    },
}

/// Calls and replies.
#[derive(Default)]
pub struct Calls {
    /// Columns that any query asked for.
    pub wanted: Columns,
    /// Messages come in datagrams: they may be sent, and answered, again.
    pub is_udp: bool,
    /// Calls of the client, and of the server.
    waiting: [Waiting; 2],
    /// Replies whose calls have not come.
    early: Early,
    names: Names,
    /// Program called last.
    program: Option<u32>,
    /// xids answered last; a ring.
    answered: Vec<u32>,
    answered_next: usize,
}

/// The place of a direction in arrays of both.
#[inline]
pub fn index(direction: Direction) -> usize {
    usize::from(direction == Direction::ServerToClient)
}

/// Length of what is to be read, and the data behind it.
type Read = (usize, Option<FileData>);

impl Calls {
    /// What the first bytes of a message are; `whole`: there are no more.
    #[inline]
    pub fn layout(&mut self, direction: Direction, message: &[u8], whole: bool) -> Layout {
        let (kind, max) = match (scan::is_call(message, false), scan::is_reply(message)) {
            (Some(true), _) => (Kind::Call, CALL_BYTES_MAX),
            (_, Some(true)) => (Kind::Reply, REPLY_BYTES_MAX),
            (None, _) | (_, None) if !whole => return Layout::NeedMore,
            _ => return Layout::NoMessage,
        };
        let whole = whole || message.len() >= max;
        let mut early = false;
        let read = match kind {
            Kind::Call => of_call(message),
            _ => self.of_reply(direction, message, &mut early),
        };
        match read {
            Some((at, data)) => Layout::Head { kind, at, data, early },
            None if !whole => Layout::NeedMore,
            // It breaks off, or makes no sense: what can be read will be.
            None => Layout::Head { kind, at: message.len(), data: None, early },
        }
    }

    fn of_reply(&mut self, direction: Direction, message: &[u8], early: &mut bool) -> Option<Read> {
        let reply = rpc::reply(message)?;
        let mut x = reply.results;
        let waiting = &mut self.waiting[1 - index(direction)];
        let place = waiting.find(Xdr::new(message).u32()?).filter(|_| reply.status.is_success());
        let mut data = None;
        if place.is_none() && reply.status.is_success() {
            *early = true;
            return early::layout(message, x);
        }
        if let Some(place) = place {
            let (call, mut results) = (waiting.get(place), Results::default());
            results.read(&call.target, self.wanted.has_any(LISTING), &mut x)?;
            // Where the data belong is in the call; it is asked only if that matters.
            let wanted = self.wanted.has(field::BLOCK_CHECKSUMS);
            let offset = || if wanted { offset(call) } else { None }.unwrap_or(u64::MAX);
            data = results.data.map(|len| FileData { offset: offset(), len });
        }
        Some((message.len() - x.left(), data))
    }

    /// The data if somebody wants their check-sums, and they can be had.
    #[inline]
    pub fn to_be_checked(&self, data: Option<FileData>) -> Option<FileData> {
        data.filter(|d| self.wanted.has(field::BLOCK_CHECKSUMS) && d.len > 0 && d.offset < u64::MAX)
    }

    /// Whether somebody waits for such a reply.
    pub fn awaits(&self, direction: Direction, xid: u32) -> bool {
        self.waiting[1 - index(direction)].find(xid).is_some()
    }

    /// Keeps the head of a call until [`Calls::call`].
    #[inline]
    pub fn keep(&mut self, direction: Direction, head: &[u8]) {
        let call = self.waiting[index(direction)].coming();
        call.head.clear();
        call.head.extend_from_slice(head);
    }

    /// The call that is kept waits from now on. Returns its number, unless it was known.
    pub fn call(
        &mut self,
        direction: Direction,
        message: &Message,
        ended: bool,
        blocks: &mut Blocks,
        out: &mut Output<'_>,
    ) -> Option<u64> {
        let call = self.waiting[index(direction)].coming();
        let (xid, known) = (Xdr::new(&call.head).u32()?, rpc::target(&call.head)?);
        let target = rpc::call(&call.head).map_or(known, |header| header.target);
        blocks.move_to(&mut call.checksums);
        call.target = target;
        (call.span, call.place) = (message.span?, message.place);
        (call.ended, call.gap, call.found) = (ended, message.gap, message.found);
        call.bytes = message.len();
        call.repeats = 0;
        out.counters.protected_messages += u64::from(target.protected);
        self.program = Some(target.program);
        let waiting = &mut self.waiting[index(direction)];
        if let Some(place) = waiting.find(xid) {
            if waiting.comes_again(place) {
                out.counters.retransmitted_calls += 1;
                waiting.get(place).repeats += 1;
                return None;
            }
            // The number is used again: the earlier call was not answered.
            self.give_up(direction, place, out);
        }
        let waiting = &mut self.waiting[index(direction)];
        if self.answered.contains(&xid) {
            // Sent again though it was answered: the reply was lost behind us.
            out.counters.retransmitted_calls += 1;
            waiting.coming().repeats = 1;
        }
        let coming = waiting.coming();
        if let Some(reply) = self.early.take(direction, xid, coming) {
            emit::tuple(coming, Some(&reply.reply()), self.wanted, &mut self.names, out);
            self.remember(xid);
            return None;
        }
        while !self.waiting[index(direction)].has_room(out.limits.rpc_bytes_max) {
            out.counters.evicted_requests += 1;
            match self.waiting[index(direction)].hopeless() {
                Some(place) => self.give_up(direction, place, out),
                None => {
                    self.refuse(direction, out);
                    return None;
                }
            }
        }
        Some(self.waiting[index(direction)].enter(xid))
    }

    /// A reply.
    pub fn reply(&mut self, direction: Direction, reply: &Reply<'_>, out: &mut Output<'_>) {
        let Some(xid) = Xdr::new(reply.head).u32() else { return };
        let waiting = &mut self.waiting[1 - index(direction)];
        if let Some(place) = waiting.find(xid).filter(|place| waiting.get(*place).can_get(&reply.message)) {
            emit::tuple(waiting.get(place), Some(reply), self.wanted, &mut self.names, out);
            waiting.answer(place);
            self.remember(xid);
        } else if self.answered.contains(&xid) {
            out.counters.repeated_replies += 1;
        } else {
            self.hold(direction, reply, out);
        }
    }

    /// A reply whose call is not known waits for it. Where too many do, the new one does not: the call of the oldest
    /// comes first.
    #[cold]
    fn hold(&mut self, direction: Direction, reply: &Reply<'_>, out: &mut Output<'_>) {
        if self.early.has_room(out.limits.rpc_bytes_max / 4) {
            out.counters.copied_bytes += reply.head.len() as u64;
            self.early.hold(direction, reply);
        } else {
            out.counters.evicted_requests += 1;
            self.unasked(reply, out);
        }
    }

    /// What one direction says from here on, at `place` and `ts`, comes now: what was said before has come.
    #[inline]
    pub fn come_to(
        &mut self,
        direction: Direction,
        place: Option<Place>,
        ts: Timestamp,
        out: &mut Output<'_>,
    ) {
        while self.early.is_overdue(direction, place, ts) {
            self.give_up_early(out);
        }
    }

    #[cold]
    fn give_up_early(&mut self, out: &mut Output<'_>) {
        if let Some(reply) = self.early.take_oldest() {
            self.unasked(&reply.reply(), out);
        }
    }

    fn unasked(&self, reply: &Reply<'_>, out: &mut Output<'_>) {
        emit::unasked(reply, self.program.is_none_or(|p| p == programs::NFS), out);
    }

    /// What was taken for a call was none.
    pub fn forget(&mut self, direction: Direction, number: u64) {
        let waiting = &mut self.waiting[index(direction)];
        if let Some(place) = waiting.of_number(number) {
            waiting.remove(place);
        }
    }

    /// No reply will come.
    pub fn close(&mut self, out: &mut Output<'_>) {
        while !self.early.is_empty() {
            self.give_up_early(out);
        }
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            while let Some(place) = self.waiting[index(direction)].oldest() {
                self.give_up(direction, place, out);
            }
        }
    }

    fn give_up(&mut self, direction: Direction, place: usize, out: &mut Output<'_>) {
        let waiting = &mut self.waiting[index(direction)];
        emit::tuple(waiting.get(place), None, self.wanted, &mut self.names, out);
        waiting.remove(place);
    }

    /// The call that came in is written at once, as if no reply came.
    #[cold]
    fn refuse(&mut self, direction: Direction, out: &mut Output<'_>) {
        let waiting = &mut self.waiting[index(direction)];
        emit::tuple(waiting.coming(), None, self.wanted, &mut self.names, out);
        waiting.refuse();
    }

    fn remember(&mut self, xid: u32) {
        if !self.is_udp {
            return;
        }
        if self.answered.len() < ANSWERED_MAX {
            self.answered.push(xid);
        } else {
            self.answered[self.answered_next] = xid;
            self.answered_next = (self.answered_next + 1) % ANSWERED_MAX;
        }
    }
}

fn of_call(message: &[u8]) -> Option<Read> {
    let call = rpc::call(message)?;
    let (mut x, mut args) = (call.args, Args::default());
    args.read(&call.target, &mut x)?;
    let offset = args.offset.unwrap_or(u64::MAX);
    Some((message.len() - x.left(), args.data.map(|len| FileData { offset, len })))
}

/// Where in its file a call reads.
fn offset(call: &Call) -> Option<u64> {
    let header = rpc::call(&call.head)?;
    let (mut x, mut args) = (header.args, Args::default());
    // What comes behind the offset may be missing.
    let _ = args.read(&header.target, &mut x);
    args.offset
}
