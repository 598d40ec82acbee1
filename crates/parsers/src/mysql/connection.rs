//! Bytes of one connection: packet boundaries, and decompression.
//!
//! When the position of the next packet is unknown (*slow mode*), the client is found at its first segment
//! after receiving more bytes, which begins a request, or at any header followed by SQL. The server is found
//! where its bytes are the first that a client received after a command and match the expected response.

use flow::StreamPlace;
use wire::{TcpSeq, Timestamp};

use super::compression::{self, MysqlCompression, MysqlDecompressor};
use super::framing::MysqlFraming;
use super::search::{self, MysqlCommandLocator, MysqlResponseLocator};
use super::session::{MysqlExpectedResponse, MysqlSession};
use crate::resync::ResyncSearch;
use crate::{Direction, ParserOutput, StreamEnd, StreamGap, StreamParser, StreamSegment};

/// Bytes decompressed at a time.
const SCRATCH: usize = 1 << 13;

/// Whether packet boundaries are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MysqlSyncState {
    /// Known.
    Reading,
    /// Unknown; the next segment may begin a packet.
    Joining,
    /// Unknown.
    Lost,
}

/// One direction.
struct MysqlByteStream {
    framing: MysqlFraming,
    sync: MysqlSyncState,
    resync: ResyncSearch,
    /// Arrival of the last bytes, and their acknowledgment.
    arrived: Timestamp,
    heard: Option<TcpSeq>,
    /// Position after the bytes consumed so far.
    end: TcpSeq,
}

impl MysqlByteStream {
    fn new() -> MysqlByteStream {
        MysqlByteStream {
            framing: MysqlFraming::default(),
            sync: MysqlSyncState::Reading,
            resync: ResyncSearch::default(),
            arrived: Timestamp::MIN,
            heard: None,
            end: TcpSeq(0),
        }
    }

    fn lose(&mut self, out: &mut ParserOutput<'_>) {
        self.framing.reset();
        self.resync.start_anew(out);
        self.sync = MysqlSyncState::Lost;
    }
}

/// One connection: packets of both directions, and their meaning.
pub struct MysqlConnection {
    lanes: [MysqlByteStream; 2],
    session: MysqlSession,
    packed: Option<Box<MysqlCompressedLayer>>,
    started: bool,
    /// Bytes of the last segment behind a request for TLS.
    unread: usize,
}

/// State of the compressed protocol. Decompressed bytes continue the sequence numbers of the uncompressed
/// ones.
struct MysqlCompressedLayer {
    unpacking: [MysqlDecompressor; 2],
    next: [TcpSeq; 2],
    scratch: Vec<u8>,
}

impl StreamParser for MysqlConnection {
    fn on_bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        if !self.started {
            self.start(out);
        }
        self.bytes(direction, segment, out);
        let lane = &mut self.lanes[direction as usize];
        lane.arrived = segment.ts;
        lane.heard = segment.place.ack.or(lane.heard);
    }

    fn on_gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        self.start(out);
        if self.session.done {
            return;
        }
        // Bytes cut by the snaplen arrived with the bytes before them.
        let cut = gap.ts == self.lanes[direction as usize].arrived;
        let Some(packed) = &mut self.packed else {
            return self.gap(direction, gap, cut, out);
        };
        match packed.unpacking[direction as usize].gap(gap.len) {
            Some(inside) => {
                let next = &mut packed.next[direction as usize];
                let gap = StreamGap {
                    seq: *next,
                    len: inside,
                    ..gap
                };
                *next = gap.after(inside);
                self.gap(direction, gap, cut, out);
            }
            // The position of the next compressed packet is unknown.
            None => self.give_up(out),
        }
    }

    fn on_end(&mut self, direction: Direction, end: StreamEnd, out: &mut ParserOutput<'_>) {
        if (direction, end) == (Direction::ServerToClient, StreamEnd::Fin) && !self.session.done {
            self.session.end_responses(out);
        }
    }

    fn on_close(&mut self, out: &mut ParserOutput<'_>) {
        self.give_up(out);
    }

    fn on_idle(&mut self, out: &mut ParserOutput<'_>) -> bool {
        let is_between = |lane: &MysqlByteStream| {
            lane.sync == MysqlSyncState::Reading && lane.framing.is_between()
        };
        let goes_on =
            self.packed.is_none() && self.lanes.iter().all(is_between) && self.session.rest(out);
        if !goes_on {
            self.on_close(out);
        }
        goes_on
    }

    fn is_done(&self) -> bool {
        self.session.done
    }

    fn hands_over(&self) -> Option<usize> {
        self.session.is_encrypted.then_some(self.unread)
    }
}

impl MysqlConnection {
    /// A connection without any bytes so far.
    pub fn new() -> MysqlConnection {
        MysqlConnection {
            lanes: [MysqlByteStream::new(), MysqlByteStream::new()],
            session: MysqlSession::new(),
            packed: None,
            started: false,
            unread: 0,
        }
    }

    fn start(&mut self, out: &ParserOutput<'_>) {
        if !self.started {
            self.started = true;
            self.session.start(out);
            if out.flow.midstream {
                self.lanes
                    .iter_mut()
                    .for_each(|lane| lane.sync = MysqlSyncState::Joining);
            }
        }
    }

    /// Handles bytes as on the wire.
    fn bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let mut rest = segment;
        while !rest.bytes.is_empty() && !self.session.done {
            match self.packed.take() {
                None => rest = self.plain_bytes(direction, rest, out),
                Some(mut packed) => {
                    self.packed_bytes(&mut packed, direction, rest, out);
                    self.packed = Some(packed);
                    return;
                }
            }
        }
    }

    /// Handles bytes of the uncompressed protocol; returns the rest, which is compressed.
    #[inline]
    fn plain_bytes<'a>(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'a>,
        out: &mut ParserOutput<'_>,
    ) -> StreamSegment<'a> {
        self.lanes[direction as usize].end = segment.end();
        match direction {
            Direction::ClientToServer => self.client_bytes(segment, out),
            Direction::ServerToClient => self.server_bytes(segment, out),
        }
    }

    /// Handles missing bytes of the uncompressed protocol; `cut`: they arrived with those before them.
    fn gap(&mut self, direction: Direction, gap: StreamGap, cut: bool, out: &mut ParserOutput<'_>) {
        if gap.len == 0 {
            return;
        }
        let lane = &mut self.lanes[direction as usize];
        if lane.sync != MysqlSyncState::Reading || !lane.framing.gap(gap.len, cut) {
            return self.lose(direction, out);
        }
        let place = StreamPlace {
            seq: gap.after(gap.len),
            ack: lane.heard,
        };
        let ended = StreamSegment {
            bytes: &[],
            ts: lane.arrived,
            place,
        };
        match direction {
            Direction::ClientToServer => self.client_packets(ended, out),
            Direction::ServerToClient => self.server_packets(ended, out),
        };
    }

    /// Enters slow mode in one direction.
    fn lose(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        let lane = &mut self.lanes[direction as usize];
        let first = lane.sync == MysqlSyncState::Reading;
        out.counters.resyncs += u64::from(first);
        match direction {
            Direction::ClientToServer if first => {
                self.session.client_lost(lane.framing.partial(), out)
            }
            Direction::ClientToServer => self.session.miss_requests(),
            Direction::ServerToClient => self.session.server_lost(out),
        }
        self.lanes[direction as usize].lose(out);
    }

    /// Ends parsing: pending transactions are written.
    fn give_up(&mut self, out: &mut ParserOutput<'_>) {
        if !self.session.done {
            self.session.adopt(
                self.lanes[Direction::ClientToServer as usize]
                    .framing
                    .partial(),
                out,
            );
            self.session.close(out);
        }
    }

    fn client_bytes<'a>(
        &mut self,
        segment: StreamSegment<'a>,
        out: &mut ParserOutput<'_>,
    ) -> StreamSegment<'a> {
        let lane = &mut self.lanes[Direction::ClientToServer as usize];
        if lane.sync == MysqlSyncState::Reading {
            return self.client_packets(segment, out);
        }
        let has_heard = segment.place.ack.is_some() && segment.place.ack != lane.heard;
        let expected = lane.sync == MysqlSyncState::Joining || has_heard;
        lane.sync = MysqlSyncState::Lost;
        let may_be_packed = self.packed.is_none();
        let found = lane.resync.find(
            &MysqlCommandLocator {
                expected,
                may_be_packed,
            },
            segment,
            out,
        );
        let Some(found) = found else {
            self.session.miss_requests();
            return segment.behind(segment.bytes.len());
        };
        let packed = may_be_packed && search::is_packed(found.first(segment.bytes));
        if packed {
            self.join_packed(out)
        } else {
            lane.sync = MysqlSyncState::Reading
        }
        if found.skipped {
            self.session.miss_requests();
        }
        let used = found.replay(|held| self.bytes(Direction::ClientToServer, held, out));
        let rest = segment.behind(used);
        if packed {
            rest
        } else {
            self.client_packets(rest, out)
        }
    }

    #[inline]
    fn client_packets<'a>(
        &mut self,
        segment: StreamSegment<'a>,
        out: &mut ParserOutput<'_>,
    ) -> StreamSegment<'a> {
        let mut rest = segment.bytes;
        while !self.session.done {
            let keep = self.session.client_keep();
            let framing = &mut self.lanes[Direction::ClientToServer as usize].framing;
            framing.set_place(segment.behind(segment.bytes.len() - rest.len()).place);
            let Some(packet) = framing.next(&mut rest, segment.ts, keep) else {
                break;
            };
            if !self.session.client_packet(&packet, out) {
                self.lose(Direction::ClientToServer, out);
                out.counters.skipped_bytes += rest.len() as u64;
                break;
            }
            if rest.is_empty() {
                break;
            }
        }
        if self.session.is_encrypted {
            self.unread = rest.len();
        }
        segment.behind(segment.bytes.len())
    }

    #[inline]
    fn server_bytes<'a>(
        &mut self,
        segment: StreamSegment<'a>,
        out: &mut ParserOutput<'_>,
    ) -> StreamSegment<'a> {
        let lane = &mut self.lanes[Direction::ServerToClient as usize];
        let is_first = !self.session.server_spoke();
        if is_first && lane.sync == MysqlSyncState::Reading && lane.framing.is_between() {
            // A server's first packet has number 0, or was not seen.
            let begins = segment.bytes.get(3).is_none_or(|seq| *seq == 0);
            lane.sync = if begins {
                MysqlSyncState::Reading
            } else {
                MysqlSyncState::Joining
            };
        } else if lane.sync == MysqlSyncState::Joining && self.session.is_opening(segment.bytes) {
            lane.sync = MysqlSyncState::Reading;
        }
        if lane.sync == MysqlSyncState::Reading {
            let [client, server] = &mut self.lanes;
            if server.framing.is_between() && !client.framing.is_between() {
                // The command may be answered before it is complete.
                self.session.adopt(client.framing.partial(), out);
            }
            return self.server_packets(segment, out);
        }
        match self.find_response(segment, out) {
            Some(used) => self.server_packets(segment.behind(used), out),
            None => segment.behind(segment.bytes.len()),
        }
    }

    /// Searches for a response; returns the number of bytes before its remaining part.
    #[cold]
    fn find_response(
        &mut self,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> Option<usize> {
        let lane = &mut self.lanes[Direction::ServerToClient as usize];
        let place = lane
            .resync
            .candidate()
            .map_or(segment.place, |candidate| candidate.place);
        // In a connection joined midway, the first response may answer an earlier request.
        let joining = (lane.sync == MysqlSyncState::Joining).then_some(MysqlExpectedResponse::ANY);
        let Some(expected) = self.session.expected_at(place).or(joining) else {
            lane.resync.start_anew(out);
            out.counters.skipped_bytes += segment.bytes.len() as u64;
            return None;
        };
        lane.sync = MysqlSyncState::Lost;
        let found = lane
            .resync
            .find(&MysqlResponseLocator(expected), segment, out)?;
        lane.sync = MysqlSyncState::Reading;
        Some(found.replay(|held| _ = self.server_packets(held, out)))
    }

    #[inline]
    fn server_packets<'a>(
        &mut self,
        segment: StreamSegment<'a>,
        out: &mut ParserOutput<'_>,
    ) -> StreamSegment<'a> {
        let mut rest = segment.bytes;
        while !self.session.done {
            if self.session.in_rows() {
                self.skip_rows(&mut rest, segment.ts);
            }
            let keep = self.session.server_keep();
            let framing = &mut self.lanes[Direction::ServerToClient as usize].framing;
            framing.set_place(segment.behind(segment.bytes.len() - rest.len()).place);
            let Some(packet) = framing.next(&mut rest, segment.ts, keep) else {
                break;
            };
            if !self.session.server_packet(&packet, out) {
                self.lose(Direction::ServerToClient, out);
                out.counters.skipped_bytes += rest.len() as u64;
                break;
            }
            if std::mem::take(&mut self.session.packs) {
                let rest = segment.behind(segment.bytes.len() - rest.len());
                self.begin_packed(rest.place.seq, out);
                return rest;
            }
            if rest.is_empty() {
                break;
            }
        }
        segment.behind(segment.bytes.len())
    }

    fn skip_rows(&mut self, bytes: &mut &[u8], ts: Timestamp) {
        let expected = self.session.next_seq();
        let mut seq = expected.unwrap_or(0);
        let ordered = expected.is_some();
        let framing = &mut self.lanes[Direction::ServerToClient as usize].framing;
        let (rows, wire_bytes) = framing.skip_rows(bytes, |n, first| {
            let is_row = first < 0xfe && (n == seq || !ordered);
            seq = seq.wrapping_add(1);
            is_row
        });
        if rows > 0 {
            self.session.add_rows(rows, wire_bytes, ts);
        }
    }

    /// Starts decompression in both directions; the server's next byte is `server`.
    fn begin_packed(&mut self, server: TcpSeq, out: &mut ParserOutput<'_>) {
        out.counters.compressed_flows += 1;
        let next = [self.lanes[Direction::ClientToServer as usize].end, server];
        let unpacking = [MysqlDecompressor::default(), MysqlDecompressor::default()];
        self.packed = Some(Box::new(MysqlCompressedLayer {
            unpacking,
            next,
            scratch: vec![0; SCRATCH],
        }));
    }

    /// Handles a connection joined midway that turns out to be compressed.
    fn join_packed(&mut self, out: &mut ParserOutput<'_>) {
        self.lanes
            .iter_mut()
            .for_each(|lane| lane.sync = MysqlSyncState::Reading);
        self.session.join_packed();
        self.begin_packed(TcpSeq(0), out);
    }

    fn packed_bytes(
        &mut self,
        packed: &mut MysqlCompressedLayer,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let MysqlCompressedLayer {
            unpacking,
            next,
            scratch,
        } = packed;
        let unpacking = &mut unpacking[direction as usize];
        let mut rest = segment.bytes;
        while !self.session.done {
            match unpacking.next(&mut rest, scratch) {
                Some(compression::DecompressedPiece::Bytes(bytes)) => {
                    // The sender had received everything decompressed earlier.
                    let place = StreamPlace {
                        seq: next[direction as usize],
                        ack: Some(next[1 - direction as usize]),
                    };
                    let piece = StreamSegment {
                        bytes,
                        place,
                        ..segment
                    };
                    next[direction as usize] = piece.end();
                    self.plain_bytes(direction, piece, out);
                }
                Some(compression::DecompressedPiece::Unreadable) => {
                    if unpacking.method == Some(MysqlCompression::Zstd) {
                        self.session.is_zstd();
                    }
                    self.give_up(out);
                }
                None => return,
            }
        }
    }
}
