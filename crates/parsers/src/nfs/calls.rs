//! Calls and replies of one flow, matched by xid; the parts of a message to parse; state learned from both.

use flow::StreamPlace;
use wire::{TcpSeq, Timestamp};

use super::body::{NfsArguments, NfsFileData, NfsResults};
use super::byte_stream::{RpcMessage, RpcMessageKind};
use super::early_replies::NfsEarlyReplies;
use super::emit::{self, LISTING, NfsReply, REPLY_BYTES_MAX};
use super::handle_names::FileHandleNames;
use super::pending_calls::{RpcPendingCall, RpcPendingCalls};
use super::scan::{MARK, word};
use super::suspected_calls::{SuspectedCall, SuspectedCalls};
use super::xdr::XdrReader;
use super::{block_checksums::BlockChecksums, early_replies, field, programs, rpc, scan};
use crate::output::ColumnSet;
use crate::pairing::can_answer;
use crate::{Direction, MessageSpan, ParserOutput, StreamSegment, TupleQuality};

/// Maximum bytes of a call, without file data, that are parsed and stored.
pub const CALL_BYTES_MAX: usize = 4 * 1024;
/// Answered calls remembered to detect repeated replies and, over UDP, repeated calls.
const ANSWERED_MAX: usize = 64;

/// The part of a message to parse, and what follows.
pub enum RpcMessageLayout {
    /// More bytes are needed.
    NeedMore,
    /// Not a message.
    NoMessage,
    /// A head, then optional file data, then nothing relevant.
    Head {
        /// Call or reply.
        kind: RpcMessageKind,
        /// Bytes to parse.
        at: usize,
        /// File data after the head.
        data: Option<NfsFileData>,
        /// A reply whose call is unknown: parsed as far as possible.
        early: bool,
    },
}

/// A record found by search that looks like a call.
pub struct SuspectedRecord<'a> {
    /// First bytes of the message, from the record mark on.
    pub head: &'a [u8],
    /// Arrival of the first byte.
    pub ts: Timestamp,
    /// Position of the first byte.
    pub place: StreamPlace,
    pub begins_segment: bool,
    /// Sequence number after its known part.
    pub known_to: TcpSeq,
    /// Arrival of the last byte of that part.
    pub last: Timestamp,
}

/// Calls and replies.
#[derive(Default)]
pub struct RpcCalls {
    /// Union of the wanted columns of all queries.
    pub wanted: ColumnSet,
    /// Messages are datagrams: they may be retransmitted, and answered again.
    pub is_udp: bool,
    /// Calls of the client, and of the server.
    waiting: [RpcPendingCalls; 2],
    /// Suspected calls of each.
    suspects: [SuspectedCalls; 2],
    /// Replies captured before their calls.
    early: NfsEarlyReplies,
    names: FileHandleNames,
    /// Program of the last call.
    program: Option<u32>,
    /// Ring of recently answered xids.
    answered: Vec<u32>,
    answered_next: usize,
}

/// Array index of a direction.
#[inline]
pub fn index(direction: Direction) -> usize {
    usize::from(direction == Direction::ServerToClient)
}

/// Bytes to parse, and the data after them.
type RpcReadPlan = (usize, Option<NfsFileData>);

impl RpcCalls {
    /// Layout of a message by its first bytes; `whole`: these are all bytes.
    #[inline]
    pub fn layout(
        &mut self,
        direction: Direction,
        message: &[u8],
        whole: bool,
    ) -> RpcMessageLayout {
        let (kind, max) = match (scan::is_call(message, false), scan::is_reply(message)) {
            (Some(true), _) => (RpcMessageKind::Call, CALL_BYTES_MAX),
            (_, Some(true)) => (RpcMessageKind::Reply, REPLY_BYTES_MAX),
            (None, _) | (_, None) if !whole => return RpcMessageLayout::NeedMore,
            _ => return RpcMessageLayout::NoMessage,
        };
        let whole = whole || message.len() >= max;
        let mut early = false;
        let read = match kind {
            RpcMessageKind::Call => of_call(message),
            _ => self.of_reply(direction, message, &mut early),
        };
        match read {
            Some((at, data)) => RpcMessageLayout::Head {
                kind,
                at,
                data,
                early,
            },
            None if !whole => RpcMessageLayout::NeedMore,
            // Truncated or invalid: parsed as far as possible.
            None => RpcMessageLayout::Head {
                kind,
                at: message.len(),
                data: None,
                early,
            },
        }
    }

    fn of_reply(
        &mut self,
        direction: Direction,
        message: &[u8],
        early: &mut bool,
    ) -> Option<RpcReadPlan> {
        let reply = rpc::reply(message)?;
        let mut x = reply.results;
        let waiting = &mut self.waiting[1 - index(direction)];
        let place = waiting
            .find(XdrReader::new(message).u32()?)
            .filter(|_| reply.status.is_success());
        let mut data = None;
        if place.is_none() && reply.status.is_success() {
            *early = true;
            return early_replies::layout(message, x);
        }
        if let Some(place) = place {
            let call = waiting.get(place);
            let mut results = NfsResults::default();
            results.read(&call.target, self.wanted.has_any(LISTING), &mut x)?;
            // The offset of the data is in the call; parsed only if needed.
            let wanted = self.wanted.has(field::BLOCK_CHECKSUMS);
            let offset = || if wanted { offset(call) } else { None }.unwrap_or(u64::MAX);
            data = results.data.map(|len| NfsFileData {
                offset: offset(),
                len,
            });
        }
        Some((message.len() - x.left(), data))
    }

    /// The data if their checksums are wanted and possible.
    #[inline]
    pub fn to_be_checked(&self, data: Option<NfsFileData>) -> Option<NfsFileData> {
        data.filter(|d| self.wanted.has(field::BLOCK_CHECKSUMS) && d.len > 0 && d.offset < u64::MAX)
    }

    /// The waiting call that a reply with this xid at `place` answers.
    pub fn asked(
        &self,
        direction: Direction,
        xid: u32,
        place: StreamPlace,
    ) -> Option<&RpcPendingCall> {
        let waiting = &self.waiting[1 - index(direction)];
        let call = waiting.peek(waiting.find(xid)?);
        call.place
            .is_none_or(|asked| can_answer(asked, place))
            .then_some(call)
    }

    /// The suspected call that a reply with this xid at `place` answers.
    pub fn suspected(
        &self,
        direction: Direction,
        xid: u32,
        place: StreamPlace,
    ) -> Option<&SuspectedCall> {
        self.suspects[1 - index(direction)].find(xid, place)
    }

    /// Whether the record of a reply answers a waiting or suspected call.
    pub fn is_awaited(&self, direction: Direction, record: &[u8], place: StreamPlace) -> bool {
        let Some(xid) = word(record, 1) else {
            return false;
        };
        self.asked(direction, xid, place).is_some()
            || self.suspected(direction, xid, place).is_some()
    }

    /// Client machine name in the calls of a direction.
    pub fn machine(&self, direction: Direction) -> Option<&[u8]> {
        self.waiting[index(direction)].machine()
    }

    /// Adds a record found by search that looks like a call.
    pub fn suspect(
        &mut self,
        direction: Direction,
        record: &SuspectedRecord<'_>,
        cause: TupleQuality,
        out: &mut ParserOutput<'_>,
    ) {
        let &SuspectedRecord {
            head,
            ts,
            place,
            begins_segment,
            known_to,
            last,
        } = record;
        let message = &head[MARK..];
        let end = scan::record_end(head, place.seq);
        let Some(xid) = word(message, 0) else { return };
        let Some(known) = rpc::target(message) else {
            return;
        };
        let target = rpc::call(message).map_or(known, |header| header.target);
        let read = of_call(message);
        let head = read.map_or(message, |(at, _)| &message[..at]);
        let rest = end.distance(known_to);
        let bytes = end.distance(place.seq) as u64 - MARK as u64;
        let ended = rest <= 0;
        let mut span = MessageSpan::at(ts);
        if ended {
            span.extend(last);
        }
        let gap = read.is_none();
        let mut call = RpcPendingCall {
            target,
            gap,
            span,
            place: Some(place),
            ended,
            ..RpcPendingCall::default()
        };
        call.found = Some(cause);
        call.bytes = Some(bytes);
        call.head = head.to_vec();
        out.counters.copied_bytes += head.len() as u64;
        let fills_segments = begins_segment && rest == 0;
        let suspect = SuspectedCall {
            call,
            xid,
            place,
            end,
            begins_segment,
            fills_segments,
        };
        let evicted = self.suspects[index(direction)].push(suspect, out.limits.rpc_bytes_max / 4);
        out.counters.evicted_requests += evicted;
    }

    /// Handles bytes of a direction in search mode.
    pub fn extend_suspects(&mut self, direction: Direction, segment: StreamSegment<'_>) {
        self.suspects[index(direction)].extend(segment);
    }

    /// Marks the last suspect as having missing bytes.
    pub fn cut_last_suspect(&mut self, direction: Direction) {
        self.suspects[index(direction)].cut_last();
    }

    /// Handles missing bytes from `seq` on.
    pub fn suspects_gap(&mut self, direction: Direction, seq: TcpSeq) {
        self.suspects[index(direction)].gap(seq);
    }

    /// Turns the suspects that a reply confirms into calls. Returns the end of the last one.
    #[cold]
    fn confirm(
        &mut self,
        direction: Direction,
        xid: u32,
        reply: &RpcMessage,
        out: &mut ParserOutput<'_>,
    ) -> Option<TcpSeq> {
        let caller = match direction {
            Direction::ClientToServer => Direction::ServerToClient,
            Direction::ServerToClient => Direction::ClientToServer,
        };
        let calls = self.suspects[index(caller)].confirm(xid, reply);
        let end = calls.last()?.end;
        for (nth, mut suspect) in calls.into_iter().enumerate() {
            if nth > 0 {
                // The message directly follows a call; only that call's data, if any, was skipped.
                suspect.call.found = None;
                suspect.call.gap |=
                    of_call(&suspect.call.head).is_some_and(|(_, data)| data.is_some());
            }
            *self.waiting[index(caller)].coming() = suspect.call;
            self.wait(caller, suspect.xid, out);
        }
        Some(end)
    }

    /// Stores the head of a call until [`RpcCalls::call`].
    #[inline]
    pub fn keep(&mut self, direction: Direction, head: &[u8]) {
        let call = self.waiting[index(direction)].coming();
        call.head.clear();
        call.head.extend_from_slice(head);
    }

    /// Adds the stored call to the waiting ones.
    pub fn call(
        &mut self,
        direction: Direction,
        message: &RpcMessage,
        ended: bool,
        blocks: &mut BlockChecksums,
        out: &mut ParserOutput<'_>,
    ) {
        let call = self.waiting[index(direction)].coming();
        let Some(xid) = XdrReader::new(&call.head).u32() else {
            return;
        };
        let Some(known) = rpc::target(&call.head) else {
            return;
        };
        let Some(span) = message.span else {
            return;
        };
        let target = rpc::call(&call.head).map_or(known, |header| header.target);
        blocks.move_to(&mut call.checksums);
        call.target = target;
        call.span = span;
        call.place = message.place;
        call.ended = ended;
        call.gap = message.gap;
        call.found = message.found;
        call.bytes = message.len();
        call.repeats = 0;
        self.wait(direction, xid, out);
    }

    /// Adds the new call to the waiting ones, unless it is a retransmission.
    fn wait(&mut self, direction: Direction, xid: u32, out: &mut ParserOutput<'_>) {
        let target = self.waiting[index(direction)].coming().target;
        out.counters.protected_messages += u64::from(target.protected);
        self.program = Some(target.program);
        let waiting = &mut self.waiting[index(direction)];
        if let Some(place) = waiting.find(xid) {
            if waiting.comes_again(place) {
                out.counters.retransmitted_calls += 1;
                waiting.get(place).repeats += 1;
                return;
            }
            // The xid is reused: the earlier call was not answered.
            self.give_up(direction, place, out);
        }
        let waiting = &mut self.waiting[index(direction)];
        if self.is_udp && self.answered.contains(&xid) {
            // Retransmitted although answered: the reply was lost after the capture.
            out.counters.retransmitted_calls += 1;
            waiting.coming().repeats = 1;
        }
        let coming = waiting.coming();
        if let Some(reply) = self.early.take(direction, xid, coming) {
            emit::tuple(
                coming,
                Some(&reply.reply()),
                self.wanted,
                &mut self.names,
                out,
            );
            self.remember(xid);
            return;
        }
        while !self.waiting[index(direction)].has_room(out.limits.rpc_bytes_max) {
            out.counters.evicted_requests += 1;
            match self.waiting[index(direction)].hopeless() {
                Some(place) => self.give_up(direction, place, out),
                None => return self.refuse(direction, out),
            }
        }
        self.waiting[index(direction)].enter(xid);
    }

    /// Handles a reply. Returns the end of the last suspect that it confirms, if any.
    pub fn reply(
        &mut self,
        direction: Direction,
        reply: &NfsReply<'_>,
        out: &mut ParserOutput<'_>,
    ) -> Option<TcpSeq> {
        let xid = XdrReader::new(reply.head).u32()?;
        let mut end = None;
        let caller = 1 - index(direction);
        if !self.suspects[caller].is_empty() && self.waiting[caller].find(xid).is_none() {
            end = self.confirm(direction, xid, &reply.message, out);
        }
        let waiting = &mut self.waiting[caller];
        if let Some(place) = waiting
            .find(xid)
            .filter(|place| waiting.get(*place).can_get(&reply.message))
        {
            emit::tuple(
                waiting.get(place),
                Some(reply),
                self.wanted,
                &mut self.names,
                out,
            );
            waiting.answer(place);
            self.remember(xid);
        } else {
            let is_repeated = self.answered.contains(&xid);
            if is_repeated && self.is_udp {
                out.counters.repeated_replies += 1;
            } else {
                self.hold(direction, reply, is_repeated, out);
            }
        }
        end
    }

    /// Holds a reply until its call is captured. If too many are held, the new one is written instead,
    /// because the call of the oldest comes first. `is_repeated`: a call with its xid has been answered;
    /// without another call, this is a repeated reply.
    #[cold]
    fn hold(
        &mut self,
        direction: Direction,
        reply: &NfsReply<'_>,
        is_repeated: bool,
        out: &mut ParserOutput<'_>,
    ) {
        if self.early.has_room(out.limits.rpc_bytes_max / 4) {
            out.counters.copied_bytes += reply.head.len() as u64;
            self.early.hold(direction, reply, is_repeated);
        } else {
            out.counters.evicted_requests += 1;
            self.unasked(reply, is_repeated, out);
        }
    }

    /// Advances a direction to `place` and `ts`: all previous bytes have arrived.
    #[inline]
    pub fn come_to(
        &mut self,
        direction: Direction,
        place: Option<StreamPlace>,
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) {
        while self.early.is_overdue(direction, place, ts) {
            self.give_up_early(out);
        }
    }

    #[cold]
    fn give_up_early(&mut self, out: &mut ParserOutput<'_>) {
        if let Some(reply) = self.early.take_oldest() {
            self.unasked(&reply.reply(), reply.is_repeated, out);
        }
    }

    fn unasked(&self, reply: &NfsReply<'_>, is_repeated: bool, out: &mut ParserOutput<'_>) {
        if is_repeated {
            out.counters.repeated_replies += 1;
            return;
        }
        emit::unasked(reply, self.program.is_none_or(|p| p == programs::NFS), out);
    }

    /// Ends the flow.
    pub fn close(&mut self, out: &mut ParserOutput<'_>) {
        while !self.early.is_empty() {
            self.give_up_early(out);
        }
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            while let Some(place) = self.waiting[index(direction)].oldest() {
                self.give_up(direction, place, out);
            }
        }
    }

    fn give_up(&mut self, direction: Direction, place: usize, out: &mut ParserOutput<'_>) {
        let waiting = &mut self.waiting[index(direction)];
        emit::tuple(waiting.get(place), None, self.wanted, &mut self.names, out);
        waiting.remove(place);
    }

    /// Writes the new call immediately, without a reply.
    #[cold]
    fn refuse(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        let waiting = &mut self.waiting[index(direction)];
        emit::tuple(waiting.coming(), None, self.wanted, &mut self.names, out);
        waiting.refuse();
    }

    fn remember(&mut self, xid: u32) {
        if self.answered.len() < ANSWERED_MAX {
            self.answered.push(xid);
        } else {
            self.answered[self.answered_next] = xid;
            self.answered_next = (self.answered_next + 1) % ANSWERED_MAX;
        }
    }
}

fn of_call(message: &[u8]) -> Option<RpcReadPlan> {
    let call = rpc::call(message)?;
    let mut x = call.args;
    let mut args = NfsArguments::default();
    args.read(&call.target, &mut x)?;
    let offset = args.offset.unwrap_or(u64::MAX);
    Some((
        message.len() - x.left(),
        args.data.map(|len| NfsFileData { offset, len }),
    ))
}

/// File offset of a call.
fn offset(call: &RpcPendingCall) -> Option<u64> {
    let header = rpc::call(&call.head)?;
    let mut x = header.args;
    let mut args = NfsArguments::default();
    // The part after the offset may be missing.
    let _ = args.read(&header.target, &mut x);
    args.offset
}
