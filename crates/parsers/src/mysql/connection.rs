//! One connection's bytes: where packets begin, decompression, and in which order both directions are read.
//!
//! Slow mode. A client that was lost is found again where its bytes come after the server has spoken, for then it asks
//! anew; or anywhere by a header with SQL behind it. A server that was lost is found again where its bytes come after
//! a command and look like an answer to it; which command that is, is decided when the client was heard later, if that is
//! not too long. A response without a request waits for it: a hole in the client's stream makes its requests late.

use wire::Timestamp;

use super::compression::{self, Method, Unpacking};
use super::framing::Framing;
use super::held::{Held, Piece};
use super::search::{self, Commands, Responses};
use super::session::{Awaits, Session};
use crate::resync::Resync;
use crate::{Direction, Gap, Output, Segment, StreamParser};

/// Bytes decompressed at a time.
const SCRATCH: usize = 1 << 13;

/// Whether it is known where packets begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    /// It is.
    Sure,
    /// With the next bytes, if they look like it.
    Judging,
    /// No.
    Lost,
}

/// One direction.
struct Side {
    framing: Framing,
    sync: Sync,
    resync: Resync,
    /// Arrival of the last bytes.
    arrived: Timestamp,
    /// The same of those that were read.
    heard: Timestamp,
    /// Arrival of the last bytes before the place was lost.
    lost_at: Timestamp,
}

impl Side {
    fn new() -> Side {
        let never = Timestamp::MIN;
        Side {
            framing: Framing::default(),
            sync: Sync::Sure,
            resync: Resync::default(),
            arrived: never,
            heard: never,
            lost_at: never,
        }
    }

    fn lose(&mut self, out: &mut Output<'_>) {
        self.framing.reset();
        self.resync.start_anew(out);
        self.sync = Sync::Lost;
        self.lost_at = self.heard;
    }
}

/// One connection: both directions' packets, and what they mean.
pub struct Connection {
    client: Side,
    server: Side,
    session: Session,
    /// Server bytes whose turn has not come.
    held: Held,
    /// Nothing is to wait: too much does, or nothing more will come.
    hurried: bool,
    packed: Option<Box<Packed>>,
    is_packed: bool,
    started: bool,
}

/// The compressed protocol's state.
struct Packed {
    client: Unpacking,
    server: Unpacking,
    scratch: Vec<u8>,
}

impl StreamParser for Connection {
    fn on_bytes(&mut self, direction: Direction, segment: Segment<'_>, out: &mut Output<'_>) {
        let Segment { bytes, ts, place } = segment;
        out.set_chunk(bytes, Some(place));
        if !self.started {
            self.start(out);
        }
        self.side(direction).arrived = ts;
        self.bytes(direction, bytes, ts, out);
        if !self.held.is_empty() {
            self.catch_up(direction, out);
        }
    }

    fn on_gap(&mut self, direction: Direction, gap: Gap, out: &mut Output<'_>) {
        let Gap { len, ts, .. } = gap;
        self.start(out);
        if self.session.done {
            return;
        }
        // The gap's time is when the missing bytes were given up. Only when they were cut off a packet by the snaplen is
        // it also that of their arrival.
        let cut = ts == self.side(direction).arrived;
        let inside = match (&mut self.packed, direction) {
            (None, _) => Some(len),
            (Some(packed), Direction::ClientToServer) => packed.client.gap(len),
            (Some(packed), Direction::ServerToClient) => packed.server.gap(len),
        };
        match inside {
            Some(inside) => self.gap(direction, inside, cut, out),
            // Nothing tells where the next compressed packet begins.
            None => self.give_up(out),
        }
        self.catch_up(direction, out);
    }

    fn on_end(&mut self, _: Direction, _: Timestamp, _: &mut Output<'_>) {}

    fn on_close(&mut self, out: &mut Output<'_>) {
        self.give_up(out);
    }

    fn is_done(&self) -> bool {
        self.session.done
    }
}

impl Connection {
    /// A connection of which nothing was seen yet.
    pub fn new() -> Connection {
        Connection {
            client: Side::new(),
            server: Side::new(),
            session: Session::new(),
            held: Held::default(),
            hurried: false,
            packed: None,
            is_packed: false,
            started: false,
        }
    }

    fn start(&mut self, out: &Output<'_>) {
        if !self.started {
            self.started = true;
            self.session.start(out);
            if out.flow.midstream {
                (self.client.sync, self.server.sync) = (Sync::Judging, Sync::Judging);
            }
        }
    }

    fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::ClientToServer => &mut self.client,
            Direction::ServerToClient => &mut self.server,
        }
    }

    /// Bytes as they are on the wire.
    fn bytes(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.session.done {
            if self.packed.is_none() {
                rest = self.plain_bytes(direction, rest, ts, out);
            } else if let Some(mut packed) = self.packed.take() {
                self.packed_bytes(&mut packed, direction, rest, ts, out);
                self.packed = Some(packed);
                rest = &[];
            }
        }
    }

    /// Bytes of the plain protocol; what is left of them belongs to the compressed one.
    fn plain_bytes<'a>(
        &mut self,
        direction: Direction,
        bytes: &'a [u8],
        ts: Timestamp,
        out: &mut Output<'_>,
    ) -> &'a [u8] {
        match direction {
            Direction::ClientToServer => {
                let rest = self.client_bytes(bytes, ts, out);
                self.client.heard = self.client.heard.max(ts);
                rest
            }
            Direction::ServerToClient if !self.held.is_empty() => self.hold(bytes, ts, out),
            Direction::ServerToClient => self.server_bytes(bytes, ts, out),
        }
    }

    /// So many bytes of the plain protocol are missing; `cut`: they arrived with those before them.
    fn gap(&mut self, direction: Direction, len: u64, cut: bool, out: &mut Output<'_>) {
        let is_server = direction == Direction::ServerToClient;
        if len == 0 {
            return;
        }
        if is_server && (!self.held.is_empty() || self.must_wait()) {
            return self.held.push(Piece::Gap(len, cut));
        }
        let side = self.side(direction);
        let known = side.sync == Sync::Sure && side.framing.gap(len, cut);
        let ts = side.heard;
        match known {
            false => self.lose(direction, cut, out),
            true if is_server => _ = self.server_packets(&[], ts, out),
            true => _ = self.client_packets(&[], ts, out),
        }
    }

    /// It is not known any more where packets begin.
    fn lose(&mut self, direction: Direction, cut: bool, out: &mut Output<'_>) {
        let first = self.side(direction).sync == Sync::Sure;
        out.counters.resyncs += u64::from(first);
        match direction {
            Direction::ClientToServer if first => {
                self.session.client_lost(self.client.framing.partial(), cut, out)
            }
            Direction::ClientToServer if !cut => self.session.client_end_lost(),
            Direction::ServerToClient if first => self.session.server_lost(out),
            _ => {}
        }
        if direction == Direction::ServerToClient && !cut {
            self.session.end_unseen();
        }
        self.side(direction).lose(out);
    }

    /// Reads what waits, as far as it can be now that `direction` has spoken.
    fn catch_up(&mut self, direction: Direction, out: &mut Output<'_>) {
        if !self.held.is_empty() && direction == Direction::ClientToServer {
            let too_early = self.server.sync != Sync::Sure && self.held.since() >= Some(self.client.heard);
            if !self.must_wait() && !too_early {
                self.read_held(out);
            }
        }
        if self.held.overflows() {
            self.hurried = true;
            self.read_held(out);
            self.hurried = false;
        }
    }

    fn read_held(&mut self, out: &mut Output<'_>) {
        let (mut pieces, was_packed) = (std::mem::take(&mut self.held), self.is_packed);
        while let Some(piece) = pieces.pop() {
            match piece {
                // What comes before it has to wait again.
                piece if !self.held.is_empty() => self.held.push(piece),
                Piece::Bytes(ts, bytes, _) if was_packed => {
                    _ = self.plain_bytes(Direction::ServerToClient, &bytes, ts, out)
                }
                Piece::Bytes(ts, bytes, place) => {
                    out.set_chunk(&bytes, place);
                    self.bytes(Direction::ServerToClient, &bytes, ts, out);
                }
                Piece::Gap(len, cut) if was_packed == self.is_packed => {
                    self.gap(Direction::ServerToClient, len, cut, out)
                }
                // Everything became compressed before this gap.
                Piece::Gap(..) => self.give_up(out),
            }
        }
    }

    /// Nothing after this can be read: writes what waits.
    fn give_up(&mut self, out: &mut Output<'_>) {
        if !self.session.done {
            self.session.adopt(self.client.framing.partial());
            self.hurried = true;
            self.read_held(out);
            self.session.close(out);
        }
    }

    fn hold<'a>(&mut self, bytes: &[u8], ts: Timestamp, out: &Output<'_>) -> &'a [u8] {
        if !bytes.is_empty() {
            self.held.push(Piece::Bytes(ts, bytes.to_vec(), out.place_of(bytes)));
        }
        &[]
    }

    /// Whether the server's next packet has to wait for its request.
    fn must_wait(&self) -> bool {
        let between = self.server.sync == Sync::Sure && self.server.framing.is_between();
        between && !self.hurried && self.session.lacks_request()
    }

    fn client_bytes<'a>(&mut self, bytes: &'a [u8], ts: Timestamp, out: &mut Output<'_>) -> &'a [u8] {
        if self.client.sync == Sync::Sure {
            return self.client_packets(bytes, ts, out);
        }
        let expected = self.client.sync == Sync::Judging || self.server_spoke_before(ts);
        self.client.sync = Sync::Lost;
        let found =
            self.client.resync.find(&Commands { expected, may_be_packed: !self.is_packed }, Segment { bytes, ts, place: out.place_of(bytes).unwrap_or_default() }, out);
        let Some(found) = found else {
            match self.client.resync.candidate() {
                Some(candidate) if candidate.begins_segment || candidate.bytes.len() >= search::HEAD => {}
                _ if expected => self.client.lost_at = ts,
                _ => self.session.client_skipped(ts),
            }
            return &[];
        };
        let packed = !self.is_packed && search::is_packed(found.first(bytes));
        match packed {
            true => self.join_packed(out),
            false => self.client.sync = Sync::Sure,
        }
        let place = out.place_of(bytes);
        let used = found.replay(|held| {
            out.set_chunk(held.bytes, Some(held.place));
            self.bytes(Direction::ClientToServer, held.bytes, held.ts, out);
        });
        out.set_chunk(bytes, place);
        if packed { &bytes[used..] } else { self.client_packets(&bytes[used..], ts, out) }
    }

    /// Whether the server has spoken after the client was lost and before `ts`: whatever was asked is answered, and a
    /// new command begins.
    fn server_spoke_before(&self, ts: Timestamp) -> bool {
        let (after, heard) = (self.client.lost_at, self.server.heard);
        heard > after && heard < ts || self.held.heard_between(after, ts)
    }

    fn client_packets<'a>(&mut self, bytes: &'a [u8], ts: Timestamp, out: &mut Output<'_>) -> &'a [u8] {
        let mut rest = bytes;
        while !self.session.done {
            let keep = self.session.client_keep();
            self.client.framing.set_place(out.place_of(rest));
            let Some(packet) = self.client.framing.next(&mut rest, ts, keep) else { break };
            if !self.session.client_packet(&packet, out) {
                self.lose(Direction::ClientToServer, true, out);
                out.counters.skipped_bytes += rest.len() as u64;
                break;
            }
        }
        &[]
    }

    fn server_bytes<'a>(&mut self, bytes: &'a [u8], ts: Timestamp, out: &mut Output<'_>) -> &'a [u8] {
        // A server's first packet has number 0, or was not seen.
        let is_first = !self.session.server_spoke() && self.server.framing.is_between();
        match self.server.sync {
            Sync::Sure if is_first && bytes.get(3).is_some_and(|seq| *seq != 0) => {
                self.server.sync = Sync::Judging
            }
            Sync::Judging if self.session.is_opening(bytes) => self.server.sync = Sync::Sure,
            _ => {}
        }
        if self.server.sync != Sync::Sure {
            // Until the client is heard later it may still turn out to have asked before this.
            if ts >= self.client.heard && !self.hurried {
                return self.hold(bytes, ts, out);
            }
            self.server.heard = self.server.heard.max(ts);
            let Some(used) = self.find_response(bytes, ts, out) else { return &[] };
            return self.server_packets(&bytes[used..], ts, out);
        }
        self.server_packets(bytes, ts, out)
    }

    /// Looks for a response; how many bytes come before what is left of it.
    fn find_response(&mut self, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) -> Option<usize> {
        let (at, place) = match self.server.resync.candidate() {
            Some(candidate) => (candidate.ts, Some(candidate.place)),
            None => (ts, out.place_of(bytes)),
        };
        let index = match self.session.awaits_at(at, place) {
            Awaits::Request(index) => Some(index),
            // A response to nobody is only taken for one where nothing was lost before.
            Awaits::Nobody if self.server.sync == Sync::Judging => None,
            Awaits::Nobody | Awaits::NoNew => {
                self.server.sync = Sync::Lost;
                self.server.resync.start_anew(out);
                out.counters.skipped_bytes += bytes.len() as u64;
                return None;
            }
        };
        self.server.sync = Sync::Judging;
        let responses = Responses { session: &self.session, index };
        let Some(found) = self.server.resync.find(&responses, Segment { bytes, ts, place: out.place_of(bytes).unwrap_or_default() }, out) else {
            if self.server.resync.candidate().is_none() {
                self.server.sync = Sync::Lost;
                index.into_iter().for_each(|i| self.session.doubt(i));
            }
            return None;
        };
        self.server.sync = Sync::Sure;
        index.into_iter().for_each(|i| self.session.resume_at(i, place.is_some(), out));
        let place = out.place_of(bytes);
        let used = found.replay(|held| {
            out.set_chunk(held.bytes, Some(held.place));
            self.server_packets(held.bytes, held.ts, out);
        });
        out.set_chunk(bytes, place);
        Some(used)
    }

    fn server_packets<'a>(&mut self, bytes: &'a [u8], ts: Timestamp, out: &mut Output<'_>) -> &'a [u8] {
        let mut rest = bytes;
        while !self.session.done {
            if self.must_wait() {
                return self.hold(rest, ts, out);
            }
            self.server.heard = self.server.heard.max(ts);
            if self.session.in_rows() {
                self.skip_rows(&mut rest, ts);
            }
            let keep = self.session.server_keep();
            self.server.framing.set_place(out.place_of(rest));
            let Some(packet) = self.server.framing.next(&mut rest, ts, keep) else { break };
            if !self.session.server_packet(&packet, out) {
                self.lose(Direction::ServerToClient, true, out);
                out.counters.skipped_bytes += rest.len() as u64;
                return &[];
            }
            if std::mem::take(&mut self.session.packs) {
                self.begin_packed(out);
                return rest;
            }
        }
        &[]
    }

    fn skip_rows(&mut self, bytes: &mut &[u8], ts: Timestamp) {
        let expected = self.session.next_seq();
        let (mut seq, ordered) = (expected.unwrap_or(0), expected.is_some());
        let (rows, wire_bytes) = self.server.framing.skip_rows(bytes, |n, first| {
            let is_row = first < 0xfe && (n == seq || !ordered);
            seq = seq.wrapping_add(1);
            is_row
        });
        if rows > 0 {
            self.session.add_rows(rows, wire_bytes, ts);
        }
    }

    fn begin_packed(&mut self, out: &mut Output<'_>) {
        out.counters.compressed_flows += 1;
        let (client, server) = (Unpacking::default(), Unpacking::default());
        self.packed = Some(Box::new(Packed { client, server, scratch: vec![0; SCRATCH] }));
        self.is_packed = true;
    }

    /// A connection joined late turns out to be compressed.
    fn join_packed(&mut self, out: &mut Output<'_>) {
        (self.client.sync, self.server.sync) = (Sync::Sure, Sync::Sure);
        self.held = Held::default();
        self.session.join_packed();
        self.begin_packed(out);
    }

    fn packed_bytes(
        &mut self,
        packed: &mut Packed,
        direction: Direction,
        bytes: &[u8],
        ts: Timestamp,
        out: &mut Output<'_>,
    ) {
        let unpacking = match direction {
            Direction::ClientToServer => &mut packed.client,
            Direction::ServerToClient => &mut packed.server,
        };
        let mut rest = bytes;
        while !self.session.done {
            match unpacking.next(&mut rest, &mut packed.scratch) {
                Some(compression::Piece::Bytes(piece)) => _ = self.plain_bytes(direction, piece, ts, out),
                Some(compression::Piece::Unreadable) => {
                    if unpacking.method == Some(Method::Zstd) {
                        self.session.encoding = Some("zstd");
                    }
                    self.give_up(out);
                }
                None => return,
            }
        }
    }
}
