//! One client and one server: divides the bytes of both directions into messages.
//!
//! `text.rs` and `binary.rs` define the format of messages, `messages.rs` their meaning. Values are skipped
//! by length; only a head split across segments is copied (bounded).

use wire::Timestamp;

use super::binary_header::HEADER_LEN;
use super::byte_stream::{MemcachedByteStream, MemcachedStreamState};
use super::command::MemcachedCommandClass;
use super::keys::MemcachedKeyCursor;
use super::opaques::{EvictedOpaques, OpaqueSequence};
use super::recognition::MemcachedMessageLocator;
use super::transaction::{MemcachedRequest, MemcachedResponse};
use crate::pairing::{MessageCompleteness, ResponseSlot, TransactionQueue};
use crate::write_boundaries::ConnectionWrites;
use crate::{Direction, ParserOutput, StreamGap, StreamSegment};

/// Smallest request and smallest response of the text protocol: `mn`, and a counter of one digit, each with a line end.
const TEXT_BYTES_MIN: [u32; 2] = [4, 3];

/// Protocol of the connection, determined by its first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcachedProtocol {
    #[default]
    Unknown,
    Text,
    Binary,
}

/// Whether the next pair is the first of a connection joined midway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcachedJoinState {
    /// No message yet.
    #[default]
    Unknown,
    /// No.
    Behind,
    /// Yes.
    Midway,
}

/// The response in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemcachedOpenResponse {
    pub spot: ResponseSlot,
    /// Class of its request, if known.
    pub class: MemcachedCommandClass,
    /// Expected position of the next key in the request.
    pub cursor: MemcachedKeyCursor,
    pub ends: MemcachedResponseEnd,
}

/// End of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemcachedResponseEnd {
    /// The response ends with the value being skipped.
    WithValue,
    /// The response ends after that value.
    Later,
}

/// Both directions.
pub struct MemcachedConnection {
    pub(super) form: MemcachedProtocol,
    pub(super) start: MemcachedJoinState,
    pub(super) client: MemcachedByteStream,
    pub(super) server: MemcachedByteStream,
    /// The current or last request.
    pub(super) request: u64,
    /// The current response.
    pub(super) answering: Option<MemcachedOpenResponse>,
    /// Memory of the keys and texts of held requests.
    pub(super) weight: usize,
    pub(super) opaques: OpaqueSequence,
    pub(super) evicted: EvictedOpaques,
    packets: ConnectionWrites,
    pub(super) transactions: TransactionQueue<MemcachedRequest, MemcachedResponse>,
}

impl Default for MemcachedConnection {
    fn default() -> Self {
        MemcachedConnection {
            form: MemcachedProtocol::Unknown,
            start: MemcachedJoinState::Unknown,
            client: MemcachedByteStream::default(),
            server: MemcachedByteStream::default(),
            request: 0,
            answering: None,
            weight: 0,
            opaques: OpaqueSequence::default(),
            evicted: EvictedOpaques::default(),
            packets: ConnectionWrites::default(),
            transactions: TransactionQueue::of_messages_from(TEXT_BYTES_MIN[1])
                .with_silent_requests(),
        }
    }
}

impl MemcachedConnection {
    /// Handles the next bytes of one direction.
    pub fn on_bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        if self.form == MemcachedProtocol::Unknown && !segment.bytes.is_empty() {
            self.begin(out);
            self.set_form(segment.bytes[0]);
        }
        self.packets.come(direction, segment);
        self.read(direction, segment, out);
    }

    fn read(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let mut rest = segment;
        while !rest.bytes.is_empty() {
            let used = self.step(direction, rest, out);
            rest = rest.behind(used);
        }
    }

    /// Handles a gap in one direction.
    pub fn on_gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        self.begin(out);
        let cut = self.packets.miss(direction, gap);
        if let Some(start) = cut.filter(|_| direction == Direction::ClientToServer) {
            self.transactions.cut_packet(start);
        }
        let mut beyond = gap;
        if let MemcachedStreamState::Value(left) = self.lane(direction).state {
            let inside = left.min(gap.len);
            self.miss_in_value(direction, gap.ts);
            self.pass_value(direction, left - inside, None, gap.after(inside), out);
            beyond = StreamGap {
                seq: gap.after(inside),
                len: gap.len - inside,
                ..gap
            };
        }
        if beyond.len > 0
            && !(direction == Direction::ServerToClient && self.ends_in_gap(beyond, out))
        {
            self.lose_to_gap(direction, out);
        }
    }

    /// Handles the end of one direction.
    pub fn on_end(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        if direction == Direction::ServerToClient {
            if self.server.state == MemcachedStreamState::Lost {
                self.transactions.miss(direction);
            }
            self.cut_response();
            self.transactions.end_responses();
            self.flush(out);
        }
    }

    /// Ends the connection: everything is written.
    pub fn close(&mut self, out: &mut ParserOutput<'_>) {
        self.cut_response();
        self.transactions.close();
        self.flush(out);
    }

    /// Handles an idle connection: held transactions are written. Returns whether parsing can continue.
    pub fn rest(&mut self, out: &mut ParserOutput<'_>) -> bool {
        let is_between = |lane: &MemcachedByteStream| lane.state == MemcachedStreamState::Between;
        let is_between =
            is_between(&self.client) && is_between(&self.server) && self.answering.is_none();
        if is_between && self.transactions.rest() {
            self.flush(out);
            if self.transactions.held() == 0 {
                return true;
            }
        }
        if self.client.state == MemcachedStreamState::Over
            || self.server.state == MemcachedStreamState::Over
        {
            self.close(out);
            return false;
        }
        let answering = self.answering;
        self.cut_response();
        self.answering = answering;
        if matches!(self.client.state, MemcachedStreamState::Value(_))
            && let Some(request) = self.transactions.request_mut(self.request)
        {
            request.seen = MessageCompleteness::Cut;
        }
        self.transactions.pause();
        self.flush(out);
        self.transactions.held() == 0
    }

    /// Whether no request waits and no response is in progress.
    pub fn is_idle(&self) -> bool {
        self.transactions.held() == 0
            && self.transactions.is_exact()
            && self.answering.is_none()
            && [&self.client, &self.server]
                .iter()
                .all(|lane| lane.state == MemcachedStreamState::Between)
    }

    /// The next bytes begin another conversation, possibly in the other protocol.
    pub fn reset_form(&mut self) {
        self.form = MemcachedProtocol::Unknown;
    }

    fn begin(&mut self, out: &ParserOutput<'_>) {
        if self.start != MemcachedJoinState::Unknown {
            return;
        }
        self.start = MemcachedJoinState::Behind;
        if out.flow.midstream {
            self.start = MemcachedJoinState::Midway;
            self.transactions.join_midway();
            (self.client.state, self.server.state) =
                (MemcachedStreamState::Lost, MemcachedStreamState::Lost);
        }
    }

    fn set_form(&mut self, first: u8) {
        self.form = if matches!(first, 0x80 | 0x81) {
            MemcachedProtocol::Binary
        } else {
            MemcachedProtocol::Text
        };
        let smallest = if self.form == MemcachedProtocol::Binary {
            [HEADER_LEN as u32; 2]
        } else {
            TEXT_BYTES_MIN
        };
        self.transactions.set_smallest_messages(smallest);
    }

    /// Consumes bytes, or changes the state so that the next step does; returns their number.
    #[inline]
    fn step(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        match self.lane(direction).state {
            MemcachedStreamState::Value(left) => {
                let n = usize::try_from(left)
                    .unwrap_or(usize::MAX)
                    .min(segment.bytes.len());
                let end = segment.first(n).end();
                self.pass_value(direction, left - n as u64, Some(segment.ts), end, out);
                n
            }
            MemcachedStreamState::Between
            | MemcachedStreamState::Head
            | MemcachedStreamState::LongHead => match self.form {
                MemcachedProtocol::Binary => self.read_binary(direction, segment, out),
                MemcachedProtocol::Text | MemcachedProtocol::Unknown => {
                    self.read_text(direction, segment, out)
                }
            },
            MemcachedStreamState::Lost => self.search(direction, segment, out),
            MemcachedStreamState::Over => segment.bytes.len(),
        }
    }

    /// Searches for the next message; returns the number of bytes before its remaining part.
    #[cold]
    fn search(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let MemcachedConnection {
            form,
            client,
            server,
            transactions,
            packets,
            ..
        } = self;
        let begins_write = packets.begins_write(direction, segment);
        let lane = if direction == Direction::ClientToServer {
            client
        } else {
            server
        };
        if direction == Direction::ServerToClient {
            transactions.search(segment.place);
        }
        let heads = MemcachedMessageLocator {
            transactions,
            direction,
            begins_write,
            is_binary: *form == MemcachedProtocol::Binary,
        };
        let Some(found) = lane.resync.find(&heads, segment, out) else {
            return segment.bytes.len();
        };
        lane.state = MemcachedStreamState::Between;
        lane.found = true;
        if found.skipped && direction == Direction::ClientToServer {
            // The skipped bytes may be the end of a request, or several requests.
            transactions.lose(direction);
        }
        found.replay(|held| self.read(direction, held, out))
    }

    /// Handles missing bytes that may have contained heads.
    #[cold]
    fn lose_to_gap(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        if self.lane(direction).state == MemcachedStreamState::Over {
            return;
        }
        self.lane(direction).lose(out);
        if direction == Direction::ServerToClient {
            self.cut_response();
        }
        self.transactions.miss(direction);
        self.flush(out);
    }

    /// Handles bytes that are not the expected head.
    #[cold]
    pub(super) fn not_a_head(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        out.counters.malformed_messages += 1;
        self.lane(direction).lose(out);
        if direction == Direction::ServerToClient {
            self.cut_response();
        }
        self.transactions.lose(direction);
        self.flush(out);
    }

    #[inline]
    pub(super) fn lane(&mut self, direction: Direction) -> &mut MemcachedByteStream {
        match direction {
            Direction::ClientToServer => &mut self.client,
            Direction::ServerToClient => &mut self.server,
        }
    }

    /// Handles missing bytes inside a value sent by `direction`.
    fn miss_in_value(&mut self, direction: Direction, ts: Timestamp) {
        // Bytes cut by the snaplen arrived with the bytes before them.
        match direction {
            Direction::ClientToServer => {
                if let Some(request) = self.transactions.request_mut(self.request) {
                    request.seen.miss(ts != request.last);
                }
            }
            Direction::ServerToClient => {
                if let Some(response) = self.response_mut() {
                    response.seen.miss(ts != response.last);
                }
            }
        }
    }
}
