//! Memcached over UDP: an 8-byte frame header before each datagram (request id, number of the datagram in its message,
//! datagrams of the message, reserved), then text or binary as over TCP.
//!
//! Each request id is a conversation of its own. A message's datagrams may come in any order; a server may answer one
//! request with several messages (1.6 does for each value of a multi-get). What is missing stays missing.

use wire::Timestamp;

use super::conversation::Conversation;
use crate::{Direction, Output};

/// Length of the frame header.
pub const FRAME_LEN: usize = 8;
/// Most requests of one flow that wait.
const EXCHANGES_MAX: usize = 256;
/// Most datagrams that wait for an earlier one, and their bytes, of one exchange.
const LATER_MAX: usize = 64;
const LATER_BYTES_MAX: usize = 64 * 1024;

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Request id.
    pub id: u16,
    /// Number of the datagram in its message, from 0.
    pub number: u16,
    /// Datagrams of the message.
    pub total: u16,
}

impl Frame {
    /// Reads a header whose numbers make sense, and what is behind it.
    pub fn read(datagram: &[u8]) -> Option<(Frame, &[u8])> {
        let (h, rest) = datagram.split_first_chunk::<FRAME_LEN>()?;
        let word = |i: usize| u16::from_be_bytes([h[i], h[i + 1]]);
        let frame = Frame { id: word(0), number: word(2), total: word(4) };
        // The last word is reserved; servers do not look at it, and some clients leave there what was.
        (frame.number < frame.total).then_some((frame, rest))
    }
}

/// The requests of one flow.
#[derive(Default)]
pub struct Exchanges {
    open: Vec<Exchange>,
    spare: Vec<Conversation>,
}

struct Exchange {
    id: u16,
    conversation: Conversation,
    /// The datagram of the response that comes next.
    next: u16,
    later: Vec<Later>,
    later_bytes: usize,
}

struct Later {
    number: u16,
    total: u16,
    ts: Timestamp,
    cut: u32,
    bytes: Vec<u8>,
}

impl Exchanges {
    /// A datagram, the last `cut` bytes of which were not captured.
    pub fn on_datagram(
        &mut self,
        direction: Direction,
        datagram: &[u8],
        cut: u32,
        ts: Timestamp,
        out: &mut Output<'_>,
    ) {
        let Some((frame, bytes)) = Frame::read(datagram).filter(|(_, b)| !b.is_empty()) else {
            out.counters.malformed_messages += 1;
            return;
        };
        match direction {
            Direction::ClientToServer => self.on_request(frame, bytes, cut, ts, out),
            Direction::ServerToClient => self.on_response(frame, bytes, cut, ts, out),
        }
    }

    /// The flow is over.
    pub fn close(&mut self, out: &mut Output<'_>) {
        for mut exchange in self.open.drain(..) {
            exchange.conversation.close(out);
        }
    }

    /// A request must fit one datagram (memcached refuses others).
    fn on_request(&mut self, frame: Frame, bytes: &[u8], cut: u32, ts: Timestamp, out: &mut Output<'_>) {
        if frame.number > 0 {
            out.counters.skipped_bytes += bytes.len() as u64;
            return;
        }
        if let Some(place) = self.place(frame.id)
            && !self.open[place].conversation.awaits_request()
        {
            // The id is used again: the earlier request was not answered.
            self.end(place, out);
        }
        let place = self.place(frame.id).unwrap_or_else(|| self.start(frame.id, out));
        let conversation = &mut self.open[place].conversation;
        feed(conversation, Direction::ClientToServer, bytes, cut, ts, out);
        self.end_if_idle(place, out);
    }

    fn on_response(&mut self, frame: Frame, bytes: &[u8], cut: u32, ts: Timestamp, out: &mut Output<'_>) {
        let place = match self.place(frame.id) {
            Some(place) => place,
            None if frame.number == 0 => self.start(frame.id, out),
            None => {
                out.counters.skipped_bytes += bytes.len() as u64;
                return;
            }
        };
        let exchange = &mut self.open[place];
        match frame.number.cmp(&exchange.next) {
            std::cmp::Ordering::Equal => {
                exchange.read(frame.total, bytes, cut, ts, out);
                exchange.read_later(out);
            }
            std::cmp::Ordering::Greater => exchange.keep(frame, bytes, cut, ts),
            std::cmp::Ordering::Less => {}
        }
        self.end_if_idle(place, out);
    }

    fn place(&self, id: u16) -> Option<usize> {
        self.open.iter().position(|e| e.id == id)
    }

    fn start(&mut self, id: u16, out: &mut Output<'_>) -> usize {
        if self.open.len() >= EXCHANGES_MAX {
            out.counters.evicted_requests += 1;
            self.end(0, out);
        }
        let conversation = self.spare.pop().unwrap_or_default();
        self.open.push(Exchange { id, conversation, next: 0, later: Vec::new(), later_bytes: 0 });
        self.open.len() - 1
    }

    fn end_if_idle(&mut self, place: usize, out: &mut Output<'_>) {
        if self.open[place].conversation.is_idle() {
            self.end(place, out);
        }
    }

    fn end(&mut self, place: usize, out: &mut Output<'_>) {
        let mut conversation = self.open.remove(place).conversation;
        conversation.close(out);
        conversation.reset();
        if self.spare.len() < 4 {
            self.spare.push(conversation);
        }
    }
}

impl Exchange {
    fn read(&mut self, total: u16, bytes: &[u8], cut: u32, ts: Timestamp, out: &mut Output<'_>) {
        feed(&mut self.conversation, Direction::ServerToClient, bytes, cut, ts, out);
        // Behind a message's last datagram the next message of the same id begins.
        self.next = if self.next + 1 >= total { 0 } else { self.next + 1 };
    }

    fn read_later(&mut self, out: &mut Output<'_>) {
        while let Some(i) = self.later.iter().position(|l| l.number == self.next) {
            let later = self.later.swap_remove(i);
            self.later_bytes -= later.bytes.len();
            self.read(later.total, &later.bytes, later.cut, later.ts, out);
        }
    }

    /// Keeps a datagram until the ones before it have come.
    fn keep(&mut self, frame: Frame, bytes: &[u8], cut: u32, ts: Timestamp) {
        let known = self.later.iter().any(|l| l.number == frame.number);
        if !known && self.later.len() < LATER_MAX && self.later_bytes + bytes.len() <= LATER_BYTES_MAX {
            self.later_bytes += bytes.len();
            self.later.push(Later {
                number: frame.number,
                total: frame.total,
                ts,
                cut,
                bytes: bytes.to_vec(),
            });
        }
    }
}

fn feed(
    conversation: &mut Conversation,
    direction: Direction,
    bytes: &[u8],
    cut: u32,
    ts: Timestamp,
    out: &mut Output<'_>,
) {
    conversation.on_bytes(direction, bytes, ts, out);
    if cut > 0 {
        conversation.on_gap(direction, u64::from(cut), ts, out);
    }
}
