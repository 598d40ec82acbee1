//! Memcached over UDP: an 8-byte frame header before each datagram (request id, number of the datagram in its
//! message, datagrams of the message, reserved), then text or binary as over TCP.
//!
//! Each request id is a separate conversation. A message's datagrams may arrive in any order; a server may
//! answer one request with several messages (1.6 does for each value of a multi-get). Missing datagrams are
//! not recovered.
//!
//! A response captured before its request waits for it if this client does not reuse ids soon: then it cannot
//! be the late response to an earlier use, and a later use is far away. It waits for a few requests only. If
//! ids are reused, a request that follows an unanswered one of the same id within the lifetime of a datagram,
//! and the responses of that id, are halves: their pairs are ambiguous.

use std::cmp::Ordering;

use flow::StreamPlace;
use wire::{TcpSeq, Timestamp};

use super::connection::MemcachedConnection;
use super::udp_frame::MemcachedUdpFrame;
use crate::{Direction, ParserOutput, StreamGap, StreamSegment};

/// Maximum outstanding requests of a flow.
const EXCHANGES_MAX: usize = 256;
/// Maximum datagrams of an exchange that wait for an earlier one, and their bytes.
const LATER_MAX: usize = 64;
const LATER_BYTES_MAX: usize = 64 * 1024;

/// Connections kept for reuse by later exchanges.
const SPARE_MAX: usize = 4;
/// Number of recent ids stored.
const RECENT: usize = 64;
/// Requests with different ids required to assume that ids are not reused soon.
const FRESH_MIN: u64 = 4;
/// Number of later requests during which an early response waits for its own.
const EARLY_MAX: u64 = 32;
/// Maximum lifetime of a datagram in the network.
const LIFETIME_NS: i64 = 1_000_000_000;

/// The requests of one flow.
#[derive(Default)]
pub struct MemcachedUdpExchanges {
    open: Vec<MemcachedUdpExchange>,
    spare: Vec<MemcachedUdpStream>,
    ids: MemcachedRequestIds,
}

/// Conversation of one request id.
struct MemcachedUdpExchange {
    id: u16,
    stage: MemcachedUdpStage,
    stream: MemcachedUdpStream,
    /// Number of the next datagram of the response.
    next: u16,
    /// Arrival of the last datagram.
    last: Timestamp,
    later: Vec<OutOfOrderDatagram>,
    later_bytes: usize,
}

/// State of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemcachedUdpStage {
    /// The request was captured, or is known to be missing.
    Asked,
    /// Responses were captured before their request; holds the number of requests at that time.
    Early(u64),
    /// The id was reused before the earlier request was answered: responses are ambiguous.
    Doubtful,
}

/// The datagrams of one exchange as two streams.
#[derive(Default)]
struct MemcachedUdpStream {
    connection: MemcachedConnection,
    next: [TcpSeq; 2],
}

struct OutOfOrderDatagram {
    number: u16,
    total: u16,
    ts: Timestamp,
    cut: u32,
    bytes: Vec<u8>,
}

/// Use of ids by the client.
#[derive(Default)]
struct MemcachedRequestIds {
    /// Ring of recent ids.
    last: Vec<u16>,
    requests: u64,
    /// An id was reused while in the ring.
    again: bool,
}

impl MemcachedRequestIds {
    fn note(&mut self, id: u16) {
        self.again |= self.last.contains(&id);
        let at = (self.requests % RECENT as u64) as usize;
        match self.last.get_mut(at) {
            Some(oldest) => *oldest = id,
            None => self.last.push(id),
        }
        self.requests += 1;
    }

    /// Whether `id` was not used recently, and the client does not reuse ids soon.
    fn is_fresh(&self, id: u16) -> bool {
        self.requests >= FRESH_MIN && !self.again && !self.last.contains(&id)
    }
}

impl MemcachedUdpExchanges {
    /// Handles a datagram, the last `cut` bytes of which were not captured.
    pub fn on_datagram(
        &mut self,
        direction: Direction,
        datagram: &[u8],
        cut: u32,
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) {
        let Some((frame, bytes)) = MemcachedUdpFrame::read(datagram).filter(|(_, b)| !b.is_empty())
        else {
            out.counters.malformed_messages += 1;
            return;
        };
        let piece = OutOfOrderDatagram {
            number: frame.number,
            total: frame.total,
            ts,
            cut,
            bytes: Vec::new(),
        };
        match direction {
            Direction::ClientToServer => self.on_request(frame.id, piece, bytes, out),
            Direction::ServerToClient => self.on_response(frame.id, piece, bytes, out),
        }
    }

    /// The flow has ended.
    pub fn close(&mut self, out: &mut ParserOutput<'_>) {
        for mut exchange in self.open.drain(..) {
            exchange.close(out);
        }
    }

    /// Handles a request, which must fit one datagram (memcached rejects others).
    fn on_request(
        &mut self,
        id: u16,
        piece: OutOfOrderDatagram,
        bytes: &[u8],
        out: &mut ParserOutput<'_>,
    ) {
        if piece.number > 0 {
            out.counters.skipped_bytes += bytes.len() as u64;
            return;
        }
        self.ids.note(id);
        let mut stage = MemcachedUdpStage::Asked;
        if let Some(place) = self.place(id) {
            let before = &self.open[place];
            match before.stage {
                MemcachedUdpStage::Early(_) => {}
                // The id is reused: the earlier request is unanswered, and may still be answered.
                _ if self.ids.again && piece.ts.since(before.last) < LIFETIME_NS => {
                    stage = MemcachedUdpStage::Doubtful;
                    self.end(place, out);
                }
                _ => self.end(place, out),
            }
        }
        let place = self.place(id).unwrap_or_else(|| self.start(id, stage, out));
        let exchange = &mut self.open[place];
        exchange.stage = stage;
        exchange.last = piece.ts;
        exchange
            .stream
            .feed(Direction::ClientToServer, bytes, piece.cut, piece.ts, out);
        match stage {
            MemcachedUdpStage::Doubtful => exchange.stream.forget(out),
            _ => exchange.read_later(out),
        }
        self.end_if_idle(place, out);
        self.end_late(out);
    }

    fn on_response(
        &mut self,
        id: u16,
        piece: OutOfOrderDatagram,
        bytes: &[u8],
        out: &mut ParserOutput<'_>,
    ) {
        let place = match self.place(id) {
            Some(place) => place,
            None if self.ids.is_fresh(id) => {
                self.start(id, MemcachedUdpStage::Early(self.ids.requests), out)
            }
            None if piece.number == 0 => self.start(id, MemcachedUdpStage::Asked, out),
            None => {
                out.counters.skipped_bytes += bytes.len() as u64;
                return;
            }
        };
        let exchange = &mut self.open[place];
        exchange.last = piece.ts;
        match (exchange.stage, piece.number.cmp(&exchange.next)) {
            (MemcachedUdpStage::Early(_), _) | (_, Ordering::Greater) => {
                exchange.keep(piece, bytes, out)
            }
            (_, Ordering::Equal) => {
                exchange.read(&piece, bytes, out);
                exchange.read_later(out);
            }
            (_, Ordering::Less) => {}
        }
        if self.open[place].stage == MemcachedUdpStage::Doubtful && self.open[place].next == 0 {
            self.open[place].stream.forget(out);
        }
        self.end_if_idle(place, out);
    }

    fn place(&self, id: u16) -> Option<usize> {
        self.open.iter().position(|e| e.id == id)
    }

    fn start(&mut self, id: u16, stage: MemcachedUdpStage, out: &mut ParserOutput<'_>) -> usize {
        if self.open.len() >= EXCHANGES_MAX {
            out.counters.evicted_requests += 1;
            self.end(0, out);
        }
        let stream = self.spare.pop().unwrap_or_default();
        let last = Timestamp::MIN;
        self.open.push(MemcachedUdpExchange {
            id,
            stage,
            stream,
            next: 0,
            last,
            later: Vec::new(),
            later_bytes: 0,
        });
        self.open.len() - 1
    }

    fn end_if_idle(&mut self, place: usize, out: &mut ParserOutput<'_>) {
        let exchange = &self.open[place];
        if exchange.stage == MemcachedUdpStage::Asked && exchange.stream.connection.is_idle() {
            self.end(place, out);
        }
    }

    /// Removes early responses whose requests have not followed.
    fn end_late(&mut self, out: &mut ParserOutput<'_>) {
        let requests = self.ids.requests;
        let is_late = |e: &MemcachedUdpExchange| matches!(e.stage, MemcachedUdpStage::Early(then) if requests - then > EARLY_MAX);
        while let Some(place) = self.open.iter().position(is_late) {
            self.end(place, out);
        }
    }

    fn end(&mut self, place: usize, out: &mut ParserOutput<'_>) {
        let mut exchange = self.open.remove(place);
        if exchange.stream.connection.is_idle() && exchange.later.is_empty() {
            exchange.stream.connection.reset_form();
            if self.spare.len() < SPARE_MAX {
                self.spare.push(exchange.stream);
            }
        } else {
            exchange.close(out);
        }
    }
}

impl MemcachedUdpExchange {
    fn read(&mut self, piece: &OutOfOrderDatagram, bytes: &[u8], out: &mut ParserOutput<'_>) {
        self.stream
            .feed(Direction::ServerToClient, bytes, piece.cut, piece.ts, out);
        // After a message's last datagram, the next message of the same id begins.
        self.next = if self.next + 1 >= piece.total {
            0
        } else {
            self.next + 1
        };
    }

    fn read_later(&mut self, out: &mut ParserOutput<'_>) {
        while let Some(i) = self.later.iter().position(|l| l.number == self.next) {
            let later = self.later.remove(i);
            self.later_bytes -= later.bytes.len();
            self.read(&later, &later.bytes, out);
        }
    }

    /// Holds a datagram until its predecessors have arrived.
    fn keep(&mut self, piece: OutOfOrderDatagram, bytes: &[u8], out: &mut ParserOutput<'_>) {
        // A server may send several messages of one datagram each.
        let known = piece.total > 1 && self.later.iter().any(|l| l.number == piece.number);
        if known
            || self.later.len() >= LATER_MAX
            || self.later_bytes + bytes.len() > LATER_BYTES_MAX
        {
            out.counters.skipped_bytes += bytes.len() as u64;
            return;
        }
        self.later_bytes += bytes.len();
        self.later.push(OutOfOrderDatagram {
            bytes: bytes.to_vec(),
            ..piece
        });
    }

    fn close(&mut self, out: &mut ParserOutput<'_>) {
        if let MemcachedUdpStage::Early(_) = self.stage {
            self.read_later(out);
        }
        self.stream.connection.close(out);
    }
}

impl MemcachedUdpStream {
    /// Passes on a datagram of one side, which has received all earlier ones of the other.
    fn feed(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        cut: u32,
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) {
        let [at, other] = [direction as usize, 1 - direction as usize];
        let place = StreamPlace {
            seq: self.next[at],
            ack: Some(self.next[other]),
        };
        let segment = StreamSegment { bytes, ts, place };
        self.next[at] = segment.end();
        self.connection.on_bytes(direction, segment, out);
        if cut > 0 {
            let gap = StreamGap {
                seq: self.next[at],
                len: cut.into(),
                ts,
            };
            self.next[at] = gap.after(gap.len);
            self.connection.on_gap(direction, gap, out);
        }
    }

    /// Writes pending transactions as halves.
    fn forget(&mut self, out: &mut ParserOutput<'_>) {
        std::mem::take(self).connection.close(out);
    }
}
