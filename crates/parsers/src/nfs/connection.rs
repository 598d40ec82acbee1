//! One flow: divides records into messages and passes them to [`RpcCalls`]. Either end may call (NFSv4.1's back
//! channel).
//!
//! *Fast mode* uses lengths: only the relevant part of a message is parsed; file data is skipped or
//! checksummed. After a loss of unknown content, *slow mode* searches every byte for a possible message,
//! until one is confirmed (see `suspects` and `search`).

use wire::Timestamp;

use super::body::NfsFileData;
use super::byte_stream::{
    RpcByteStream, RpcMessageChain, RpcMessageKind, RpcMessageStart, RpcStreamStage,
};
use super::calls::{RpcCalls, RpcMessageLayout, SuspectedRecord, index};
use super::emit::NfsReply;
use super::scan::{self, MARK};
use super::search::{ReplyEvidence, RpcMessageLocator};
use crate::resync::{MessageLocator, ResyncedMessage};
use crate::write_boundaries::ConnectionWrites;
use crate::{Direction, ParserOutput, StreamGap, StreamSegment, TupleQuality};

/// Minimum bytes of a split head copied before it is examined again.
const COPY_BYTES: usize = 512;

/// A flow.
#[derive(Default)]
pub struct NfsConnection {
    started: bool,
    lanes: [RpcByteStream; 2],
    calls: RpcCalls,
    writes: ConnectionWrites,
}

impl NfsConnection {
    /// Handles the next bytes of one direction.
    pub fn on_bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        self.start(out);
        out.counters.parsed_bytes += segment.bytes.len() as u64;
        let lane = &mut self.lanes[index(direction)];
        (lane.last_ts, lane.segment, lane.heard) =
            (segment.ts, segment.place.seq, segment.place.ack);
        self.writes.come(direction, segment);
        self.calls
            .come_to(direction, Some(segment.place), segment.ts, out);
        self.feed(direction, segment, out);
    }

    /// Handles a gap in one direction.
    pub fn on_gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        self.start(out);
        let StreamGap { len, ts, seq } = gap;
        let _ = self.writes.miss(direction, gap);
        self.lanes[index(direction)].has_gap = true;
        // A gap reported with the arrival of its segment was cut by the snaplen: these bytes arrived, too.
        let came = self.lanes[index(direction)].last_ts == ts;
        if self.lanes[index(direction)].stage == RpcStreamStage::Lost
            && !self.is_cut_message(direction, gap, out)
        {
            let lane = &mut self.lanes[index(direction)];
            lane.resync.start_anew(out);
            lane.lose();
            lane.lost_to = Some(gap.after(len));
            self.calls.suspects_gap(direction, seq);
            return;
        }
        let lane = &mut self.lanes[index(direction)];
        let inside = len.min(lane.left.into());
        if inside > 0 {
            if lane.stage == RpcStreamStage::Head {
                self.freeze_head(direction, out);
            }
            let lane = &mut self.lanes[index(direction)];
            lane.pass_gap(inside);
            if lane.is_over() {
                self.end_message(direction, came, out);
            }
        }
        if inside < len {
            self.lose(direction, out);
            self.lanes[index(direction)].lost_to = Some(gap.after(len));
        }
    }

    /// Handles a datagram, the last `cut` bytes of which were not captured.
    pub fn on_datagram(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        cut: u32,
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) {
        self.start(out);
        self.calls.is_udp = true;
        out.counters.parsed_bytes += bytes.len() as u64;
        self.calls.come_to(direction, None, ts, out);
        let lane = &mut self.lanes[index(direction)];
        lane.begin_datagram(bytes.len() as u64 + u64::from(cut), cut > 0, ts);
        match self.calls.layout(direction, bytes, true) {
            RpcMessageLayout::Head {
                kind,
                at,
                data,
                early,
            } => {
                lane.message.early = early;
                self.message_in_place(direction, kind, bytes, (at, data), out);
            }
            _ => out.counters.malformed_messages += 1,
        }
        self.lanes[index(direction)].next_message();
    }

    /// Ends the flow: everything is written.
    pub fn close(&mut self, out: &mut ParserOutput<'_>) {
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            let lane = &mut self.lanes[index(direction)];
            if lane.stage != RpcStreamStage::Lost && lane.message.span.is_some() {
                if lane.stage == RpcStreamStage::Head {
                    self.freeze_head(direction, out);
                }
                self.lanes[index(direction)].break_off();
                self.end_message(direction, false, out);
            }
        }
        self.calls.close(out);
    }

    /// Whether no message is in progress.
    pub fn is_between(&self) -> bool {
        self.lanes.iter().all(RpcByteStream::is_between)
    }

    fn start(&mut self, out: &ParserOutput<'_>) {
        if !self.started {
            self.started = true;
            self.calls.wanted = out.columns();
            if out.flow.midstream {
                for lane in &mut self.lanes {
                    lane.stage = RpcStreamStage::Lost;
                    lane.cause = TupleQuality::Midstream;
                }
            }
        }
    }

    fn feed(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let mut rest = segment;
        while !rest.bytes.is_empty() {
            let lane = &mut self.lanes[index(direction)];
            if lane.message.span.is_none() {
                lane.message.place = Some(rest.place);
            }
            let used = self.step(direction, rest, out);
            rest = rest.behind(used);
        }
    }

    /// Consumes bytes of `segment`, or changes the state so that the next step does.
    fn step(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let StreamSegment { bytes, ts, .. } = segment;
        let lane = &mut self.lanes[index(direction)];
        if lane.stage == RpcStreamStage::Lost {
            return self.search(direction, segment, out);
        }
        if lane.left == 0 {
            return lane
                .read_mark(bytes, ts)
                .unwrap_or_else(|| self.no_message(direction, out));
        }
        let piece = &bytes[..bytes.len().min(lane.left as usize)];
        let used = match lane.stage {
            RpcStreamStage::Head if lane.head.is_empty() => {
                return self.head_in_place(direction, piece, ts, out);
            }
            RpcStreamStage::Head => return self.split_head(direction, piece, ts, out),
            RpcStreamStage::Data => lane.read_data(piece),
            RpcStreamStage::Rest | RpcStreamStage::Lost => piece.len(),
        };
        self.pass(direction, used, ts, out);
        used
    }

    /// Advances over parsed bytes.
    #[inline]
    fn pass(&mut self, direction: Direction, n: usize, ts: Timestamp, out: &mut ParserOutput<'_>) {
        let lane = &mut self.lanes[index(direction)];
        lane.pass(n, ts);
        if lane.is_over() {
            self.end_message(direction, true, out);
        }
    }

    /// Handles the first bytes of a message.
    #[inline]
    fn head_in_place(
        &mut self,
        direction: Direction,
        piece: &[u8],
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let lane = &mut self.lanes[index(direction)];
        let whole = lane.last && piece.len() == lane.left as usize;
        match self.calls.layout(direction, piece, whole) {
            RpcMessageLayout::Head {
                kind,
                at,
                data,
                early,
            } if whole => {
                lane.message.early = early;
                lane.pass(piece.len(), ts);
                self.message_in_place(direction, kind, piece, (at, data), out);
                self.lanes[index(direction)].next_message();
                piece.len()
            }
            RpcMessageLayout::Head {
                kind,
                at,
                data,
                early,
            } => {
                lane.message.early = early;
                self.begin(direction, kind, &piece[..at], data, out);
                self.pass(direction, at, ts, out);
                at
            }
            RpcMessageLayout::NeedMore => {
                out.counters.copied_bytes += piece.len() as u64;
                lane.head.extend_from_slice(piece);
                self.pass(direction, piece.len(), ts, out);
                piece.len()
            }
            RpcMessageLayout::NoMessage => self.no_message(direction, out),
        }
    }

    /// Handles more bytes of a message whose first ones were insufficient.
    fn split_head(
        &mut self,
        direction: Direction,
        piece: &[u8],
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let lane = &mut self.lanes[index(direction)];
        let before = lane.head.len();
        let piece = &piece[..piece.len().min(before.max(COPY_BYTES))];
        lane.head.extend_from_slice(piece);
        out.counters.copied_bytes += piece.len() as u64;
        let whole = lane.last && piece.len() == lane.left as usize;
        let used = match self.calls.layout(direction, &lane.head, whole) {
            RpcMessageLayout::Head {
                kind,
                at,
                data,
                early,
            } => {
                lane.message.early = early;
                let head = std::mem::take(&mut lane.head);
                self.begin(direction, kind, &head[..at], data, out);
                at.saturating_sub(before)
            }
            RpcMessageLayout::NeedMore => piece.len(),
            RpcMessageLayout::NoMessage => return self.no_message(direction, out),
        };
        self.pass(direction, used, ts, out);
        used
    }

    /// Handles the relevant part of a message that continues.
    fn begin(
        &mut self,
        direction: Direction,
        kind: RpcMessageKind,
        head: &[u8],
        data: Option<NfsFileData>,
        out: &mut ParserOutput<'_>,
    ) {
        let lane = &mut self.lanes[index(direction)];
        lane.message.kind = kind;
        lane.stage = RpcStreamStage::Rest;
        out.counters.copied_bytes += head.len() as u64;
        match kind {
            RpcMessageKind::Call => self.calls.keep(direction, head),
            _ => {
                lane.head.clear();
                lane.head.extend_from_slice(head);
            }
        }
        match self.calls.to_be_checked(data) {
            Some(NfsFileData { offset, len }) => {
                out.counters.unchecked_blocks += lane.blocks.begin(offset, len.into());
                lane.stage = RpcStreamStage::Data;
                lane.data_left = len;
            }
            None => lane.blocks.clear(),
        }
    }

    /// Handles a complete message in place.
    fn message_in_place(
        &mut self,
        direction: Direction,
        kind: RpcMessageKind,
        bytes: &[u8],
        (at, data): (usize, Option<NfsFileData>),
        out: &mut ParserOutput<'_>,
    ) {
        let lane = &mut self.lanes[index(direction)];
        lane.message.kind = kind;
        lane.blocks.clear();
        if let Some(NfsFileData { offset, len }) = self.calls.to_be_checked(data) {
            out.counters.unchecked_blocks += lane.blocks.begin(offset, len.into());
            let here = (bytes.len() - at).min(len as usize);
            lane.blocks.push(&bytes[at..at + here]);
            lane.blocks.gap(u64::from(len) - here as u64);
        }
        if kind == RpcMessageKind::Call {
            out.counters.copied_bytes += at as u64;
            self.calls.keep(direction, &bytes[..at]);
        }
        self.hand_over(direction, &bytes[..at], true, out);
    }

    /// Completes the message at its last byte, or without it if not `ended`.
    fn end_message(&mut self, direction: Direction, ended: bool, out: &mut ParserOutput<'_>) {
        let head = std::mem::take(&mut self.lanes[index(direction)].head);
        self.hand_over(direction, &head, ended, out);
        let lane = &mut self.lanes[index(direction)];
        lane.head = head;
        lane.next_message();
    }

    /// Passes a message to the calls.
    fn hand_over(
        &mut self,
        direction: Direction,
        head: &[u8],
        ended: bool,
        out: &mut ParserOutput<'_>,
    ) {
        let lane = &mut self.lanes[index(direction)];
        out.counters.copied_bytes += std::mem::take(&mut lane.blocks.copied);
        match lane.message.kind {
            RpcMessageKind::Unknown => {}
            RpcMessageKind::Call => {
                self.calls
                    .call(direction, &lane.message, ended, &mut lane.blocks, out);
            }
            RpcMessageKind::Reply => {
                let checksums = lane.blocks.finish();
                let reply = NfsReply {
                    head,
                    message: lane.message,
                    ended,
                    checksums,
                };
                if let Some(end) = self.calls.reply(direction, &reply, out) {
                    let caller = &mut self.lanes[1 - index(direction)];
                    caller.follows = Some(end).filter(|_| caller.stage == RpcStreamStage::Lost);
                    caller.cause = TupleQuality::Resync;
                }
            }
        }
    }

    /// Handles missing bytes in a head: parses the bytes before them.
    fn freeze_head(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        let lane = &mut self.lanes[index(direction)];
        lane.stage = RpcStreamStage::Rest;
        if let RpcMessageLayout::Head {
            kind,
            at,
            data,
            early,
        } = self.calls.layout(direction, &lane.head, true)
        {
            lane.message.early = early;
            let head = std::mem::take(&mut lane.head);
            self.begin(direction, kind, &head[..at], data, out);
        }
    }

    /// Handles bytes that are not the expected message.
    #[cold]
    fn no_message(&mut self, direction: Direction, out: &mut ParserOutput<'_>) -> usize {
        out.counters.malformed_messages += 1;
        let lane = &mut self.lanes[index(direction)];
        lane.message.kind = RpcMessageKind::Unknown;
        lane.lost_to = None;
        self.lose(direction, out);
        0
    }

    /// Enters slow mode.
    fn lose(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        let lane = &mut self.lanes[index(direction)];
        out.counters.resyncs += u64::from(lane.stage != RpcStreamStage::Lost);
        if lane.message.kind != RpcMessageKind::Unknown {
            lane.break_off();
            self.end_message(direction, false, out);
        }
        self.lanes[index(direction)].lose();
    }

    /// Searches for the next message.
    #[cold]
    fn search(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        // The other side has sent bytes, but none were captured.
        let other = &self.lanes[1 - index(direction)];
        let alone = other.last_ts == Timestamp::MIN && other.has_gap;
        let is_cut = other
            .lost_to
            .is_some_and(|to| to.distance(other.segment) > 0);
        let heard = other.heard.filter(|_| !is_cut);
        let NfsConnection {
            lanes,
            calls,
            writes,
            ..
        } = self;
        calls.extend_suspects(direction, segment);
        let lane = &mut lanes[index(direction)];
        if lane.follows == Some(segment.place.seq) && lane.resync.candidate().is_none() {
            lane.resync.start_anew(out);
            lane.follow();
            return 0;
        }
        let begins_segment = lane.segment == segment.place.seq;
        // A call is confirmed by its reply; a reply has nothing before it to confirm it.
        if lane.expects == RpcMessageStart::First {
            let replies = direction == Direction::ServerToClient;
            let seq = segment.place.seq;
            let here = RpcMessageStart::Behind(RpcMessageChain {
                start: seq,
                end: seq,
                begins_segment: true,
            });
            lane.expects = if replies {
                here
            } else {
                RpcMessageStart::Nothing
            };
        }
        if writes.begins_write(direction, segment) {
            lane.write = Some(segment.place.seq);
        }
        let evidence = ReplyEvidence {
            write: lane.write,
            lost_to: lane.lost_to,
            heard,
        };
        let messages = RpcMessageLocator {
            calls,
            direction,
            begins_segment,
            alone,
            evidence,
        };
        let Some(found) = lane.resync.find(&messages, segment, out) else {
            return segment.bytes.len();
        };
        let head: Vec<u8> = found
            .first(segment.bytes)
            .take(RpcMessageLocator::HEAD_BYTES_MAX)
            .collect();
        if self.is_message(direction, &found, &head, alone) {
            return found.replay(|held| self.feed(direction, held, out));
        }
        if scan::is_call(&head[MARK..], true) == Some(true) {
            let cause = self.lanes[index(direction)].cause;
            let bytes = scan::record_end(&head, found.place.seq).distance(found.place.seq) as usize;
            let record = SuspectedRecord {
                head: &head,
                ts: found.ts,
                place: found.place,
                begins_segment: found.begins_segment(),
                known_to: segment.end(),
                last: found.time_of(bytes - 1),
            };
            self.calls.suspect(direction, &record, cause, out);
        }
        // Messages may begin inside a false match.
        let mut passed = 0;
        let used = found.replay(|held| {
            self.lanes[index(direction)].segment = held.place.seq;
            let held = held.behind(1 - std::mem::replace(&mut passed, 1));
            if !held.bytes.is_empty() {
                self.feed(direction, held, out);
            }
        });
        if begins_segment {
            self.lanes[index(direction)].segment = segment.place.seq;
        }
        used + 1 - passed
    }

    /// Handles a candidate cut by a gap, if it begins a segment: a call becomes a suspect, a reply to a
    /// waiting call is parsed. Returns whether it was such a reply.
    #[cold]
    fn is_cut_message(
        &mut self,
        direction: Direction,
        gap: StreamGap,
        out: &mut ParserOutput<'_>,
    ) -> bool {
        let lane = &mut self.lanes[index(direction)];
        let candidate = lane
            .resync
            .candidate()
            .filter(|c| c.place.seq == lane.segment && c.begins_segment);
        let Some(candidate) = candidate.filter(|c| c.bytes.len() >= scan::SIGNATURE) else {
            return false;
        };
        let head = candidate.bytes.to_vec();
        let ts = candidate.ts;
        let place = candidate.place;
        if scan::is_reply(&head[MARK..]) == Some(true) {
            let xid = scan::word(&head, 1).unwrap_or_default();
            if lane.write != Some(place.seq) || self.calls.asked(direction, xid, place).is_none() {
                return false;
            }
            lane.resync.start_anew(out);
            lane.find();
            self.feed(
                direction,
                StreamSegment {
                    bytes: &head,
                    ts,
                    place,
                },
                out,
            );
            return true;
        }
        if scan::is_call(&head[MARK..], true) != Some(true) {
            return false;
        }
        // Bytes cut by the snaplen arrived with the rest.
        let missing = if lane.last_ts == gap.ts {
            gap.len as usize
        } else {
            0
        };
        let cause = lane.cause;
        let known_to = gap.seq.plus(missing as u32);
        let record = SuspectedRecord {
            head: &head,
            ts,
            place,
            begins_segment: true,
            known_to,
            last: ts,
        };
        self.calls.suspect(direction, &record, cause, out);
        self.calls.cut_last_suspect(direction);
        false
    }

    /// Whether the match is certainly a message, which ends the search in its direction.
    fn is_message(
        &mut self,
        direction: Direction,
        found: &ResyncedMessage,
        head: &[u8],
        alone: bool,
    ) -> bool {
        let seq = found.place.seq;
        let begins = found.begins_segment();
        let lane = &mut self.lanes[index(direction)];
        if lane.follows == Some(seq) {
            lane.follow();
            return true;
        }
        let is_reply = scan::is_reply(&head[MARK..]) == Some(true);
        let is_expected = alone && lane.expects.confirms(seq, begins);
        if is_expected || is_reply && self.calls.is_awaited(direction, head, found.place) {
            lane.find();
            return true;
        }
        lane.expects.note(seq, scan::record_end(head, seq), begins);
        false
    }
}
