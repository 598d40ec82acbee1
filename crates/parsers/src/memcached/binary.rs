//! The binary protocol: a 24-byte header, extras, key, and value, in both directions.
//!
//! Big-endian; magic 0x80 marks requests and 0x81 responses (memcached's protocol_binary.h).

use flow::StreamPlace;
use wire::TcpSeq;

use super::byte_stream::MemcachedStreamState;
use super::command::{MemcachedCommand, MemcachedCommandClass, MemcachedStatus, OPCODE_QUITQ, OPCODE_STAT};
use super::connection::MemcachedConnection;
use super::messages::MemcachedResponseEnd;
use super::transaction::{
    self, KEY_MAX, MemcachedRequest, MemcachedRequestHead, MemcachedRequestLabel, MemcachedResponseSummary,
};
use crate::pairing::{ResponseExpectation, ResponseSlot};
use crate::{Direction, MessageSpan, ParserOutput, StreamSegment};

/// Length of the header.
pub const HEADER_LEN: usize = 24;
/// Maximum bytes of a head that are read.
const HEAD_MAX: usize = HEADER_LEN + 0xff + KEY_MAX;
/// Maximum requests searched by name if names may repeat.
const CANDIDATES_MAX: usize = 256;
/// Maximum extras of any command.
const EXTRAS_MAX: usize = 24;
/// Maximum plausible body length in a search for the next header.
const PLAUSIBLE_BODY_MAX: u32 = 128 << 20;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemcachedBinaryHeader {
    /// The command.
    pub opcode: u8,
    /// Length of the key.
    pub key_len: usize,
    /// Length of the extras.
    pub extras_len: usize,
    /// Always 0.
    pub data_type: u8,
    /// Requests: virtual bucket; responses: status.
    pub status: u16,
    /// Length of extras, key, and value.
    pub body_len: u32,
    /// Number chosen by the client.
    pub opaque: u32,
}

impl MemcachedBinaryHeader {
    /// Parses a header; `None`: too short, wrong magic, or contradictory lengths.
    #[inline]
    pub fn read(bytes: &[u8], magic: u8) -> Option<MemcachedBinaryHeader> {
        let h: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let header = MemcachedBinaryHeader {
            opcode: h[1],
            key_len: usize::from(u16::from_be_bytes([h[2], h[3]])),
            extras_len: usize::from(h[4]),
            data_type: h[5],
            status: u16::from_be_bytes([h[6], h[7]]),
            body_len: u32::from_be_bytes([h[8], h[9], h[10], h[11]]),
            opaque: u32::from_be_bytes([h[12], h[13], h[14], h[15]]),
        };
        (h[0] == magic && header.key_len + header.extras_len <= header.body_len as usize).then_some(header)
    }

    /// Whether the header is plausible: random bytes rarely match.
    pub fn is_plausible(&self, magic: u8) -> bool {
        let sane = self.data_type == 0
            && self.key_len <= KEY_MAX
            && self.extras_len <= EXTRAS_MAX
            && self.body_len <= PLAUSIBLE_BODY_MAX
            && MemcachedCommand::is_known_opcode(self.opcode);
        match magic {
            0x80 => sane && self.request_shape_is_right(),
            _ => {
                sane && (self.status <= 0x0a
                    || (0x20..=0x24).contains(&self.status)
                    || (0x81..=0x86).contains(&self.status))
            }
        }
    }

    /// Whether extras and key match protocol_binary.h for the usual opcodes.
    fn request_shape_is_right(&self) -> bool {
        let key = self.key_len > 0;
        let extras = self.extras_len;
        let nothing_else = self.body_len as usize == self.key_len + extras;
        match self.opcode {
            0x00 | 0x09 | 0x0c | 0x0d | 0x04 | 0x14 => key && extras == 0 && nothing_else,
            0x01..=0x03 | 0x11..=0x13 => key && extras == 8,
            0x05 | 0x06 | 0x15 | 0x16 => key && extras == 20 && nothing_else,
            0x07 | 0x0a | 0x0b | 0x17 | 0x20 => self.body_len == 0,
            0x08 | 0x18 => !key && matches!(extras, 0 | 4) && nothing_else,
            0x0e | 0x0f | 0x19 | 0x1a => key && extras == 0,
            0x10 => extras == 0 && nothing_else,
            0x1b => !key && extras == 4 && nothing_else,
            0x1c..=0x1e | 0x23 | 0x24 => key && extras == 4 && nothing_else,
            0x21 | 0x22 => key && extras == 0,
            _ => key,
        }
    }

    /// Bytes up to the end of the key, as far as they are parsed.
    #[inline]
    fn head_len(&self) -> usize {
        HEADER_LEN + if self.key_len <= KEY_MAX { self.extras_len + self.key_len } else { 0 }
    }

    /// Bytes after those of [`MemcachedBinaryHeader::head_len`].
    #[inline]
    fn rest_len(&self) -> u64 {
        (u64::from(self.body_len) + HEADER_LEN as u64).saturating_sub(self.head_len() as u64)
    }

    /// Length of the value.
    #[inline]
    fn value_len(&self) -> u64 {
        u64::from(self.body_len) - (self.key_len + self.extras_len) as u64
    }
}

/// A header with extras and key, and its position.
struct MemcachedBinaryHead<'a> {
    header: MemcachedBinaryHeader,
    bytes: &'a [u8],
    span: MessageSpan,
    place: StreamPlace,
    /// Position after its end.
    end: TcpSeq,
}

impl MemcachedBinaryHead<'_> {
    /// The cache key, if any.
    fn key(&self) -> &[u8] {
        let MemcachedBinaryHeader { opcode, key_len, extras_len, .. } = self.header;
        if key_len > KEY_MAX || !has_cache_key(opcode) {
            return b"";
        }
        self.bytes.get(HEADER_LEN + extras_len..self.header.head_len()).unwrap_or_default()
    }
}

/// Magic of messages in one direction.
#[inline]
pub fn magic(direction: Direction) -> u8 {
    match direction {
        Direction::ClientToServer => 0x80,
        Direction::ServerToClient => 0x81,
    }
}

impl MemcachedConnection {
    /// Handles the next binary bytes of one direction, which begin or continue a head; returns the number
    /// consumed.
    #[inline]
    pub(super) fn read_binary(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let StreamSegment { bytes, ts, place } = segment;
        let magic = magic(direction);
        let lane = self.lane(direction);
        if lane.state != MemcachedStreamState::Between {
            return self.fill_head(direction, segment, out);
        }
        match MemcachedBinaryHeader::read(bytes, magic) {
            Some(header) if bytes.len() >= header.head_len() => {
                let head = segment.first(header.head_len());
                let head = MemcachedBinaryHead {
                    header,
                    bytes: head.bytes,
                    span: MessageSpan::at(ts),
                    place,
                    end: head.end(),
                };
                self.on_head(direction, &head, out);
                header.head_len()
            }
            None if bytes.len() >= HEADER_LEN || bytes[0] != magic => {
                self.not_a_head(direction, out);
                0
            }
            _ => {
                lane.hold(segment, HEAD_MAX, out);
                bytes.len()
            }
        }
    }

    /// Adds to a head that is split over segments.
    #[cold]
    fn fill_head(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let magic = magic(direction);
        let lane = self.lane(direction);
        let need = MemcachedBinaryHeader::read(&lane.head, magic).map_or(HEADER_LEN, |h| h.head_len());
        let n = need.saturating_sub(lane.head.len()).min(segment.bytes.len());
        let more = segment.first(n);
        lane.hold(more, HEAD_MAX, out);
        if lane.head.len() < HEADER_LEN {
            return n;
        }
        match MemcachedBinaryHeader::read(&lane.head, magic) {
            None => self.not_a_head(direction, out),
            Some(header) if lane.head.len() >= header.head_len() => {
                let place = lane.place;
                let (bytes, span) = lane.take(segment.ts);
                self.on_head(
                    direction,
                    &MemcachedBinaryHead { header, bytes: &bytes, span, place, end: more.end() },
                    out,
                );
                self.lane(direction).give_back(bytes);
            }
            Some(_) => {}
        }
        n
    }

    #[inline]
    fn on_head(&mut self, direction: Direction, head: &MemcachedBinaryHead<'_>, out: &mut ParserOutput<'_>) {
        match direction {
            Direction::ClientToServer => self.on_request_head(head, out),
            Direction::ServerToClient => self.on_response_head(head, out),
        }
    }

    fn on_request_head(&mut self, head: &MemcachedBinaryHead<'_>, out: &mut ParserOutput<'_>) {
        let MemcachedBinaryHeader { opcode, opaque, .. } = head.header;
        let command = MemcachedCommand::Binary(opcode);
        let name = format_name(command, opcode);
        let expects = match opcode {
            OPCODE_QUITQ => ResponseExpectation::Nothing,
            _ if MemcachedCommand::is_quiet_opcode(opcode) => ResponseExpectation::Perhaps,
            _ => ResponseExpectation::Response,
        };
        let stores = MemcachedStatus::of_binary(opcode, 0) == MemcachedStatus::Stored;
        let asked = MemcachedRequestHead {
            command,
            class: MemcachedCommandClass::Binary,
            expects,
            opaque,
            value_bytes: stores.then(|| head.header.value_len()),
            label: name.as_ref().map_or((MemcachedRequestLabel::None, &b""[..]), |name| {
                (MemcachedRequestLabel::Name, name.as_bytes())
            }),
            ..MemcachedRequestHead::default()
        };
        self.note_opaque(opaque);
        let request = self.begin_request(&asked, head.span, head.place);
        let key = head.key();
        if !key.is_empty() {
            request.keys.push(key, None);
        }
        self.read_request(head.header.rest_len(), head.end, out);
    }

    /// Unique opaques name their requests.
    #[inline]
    fn note_opaque(&mut self, opaque: u32) {
        self.opaques.note(opaque);
        if self.opaques.are_unique() {
            self.transactions.name_requests()
        } else {
            self.transactions.count_requests()
        }
    }

    fn on_response_head(&mut self, head: &MemcachedBinaryHead<'_>, out: &mut ParserOutput<'_>) {
        let header = &head.header;
        let is_stat = header.opcode == OPCODE_STAT;
        if !self.continues_stat(head) {
            self.cut_response();
            if is_stat && !self.is_stat_awaited(head) {
                // One of several responses to a stat, possibly not the first.
                out.counters.skipped_bytes += head.bytes.len() as u64;
                self.transactions.lose(Direction::ServerToClient);
                return self.pass_behind(header.rest_len(), head.end, out);
            }
            self.begin_binary_response(head, out);
        }
        if let Some(answering) = &mut self.answering {
            // The last response to a stat has no key; an error is the only response.
            let goes_on = is_stat && header.key_len > 0 && header.status == 0;
            answering.ends =
                if goes_on { MemcachedResponseEnd::Later } else { MemcachedResponseEnd::WithValue };
        }
        self.pass_behind(header.rest_len(), head.end, out);
    }

    /// Skips the rest of a response's value after `end`.
    #[inline]
    fn pass_behind(&mut self, bytes: u64, end: TcpSeq, out: &mut ParserOutput<'_>) {
        match bytes {
            0 => self.pass_value(Direction::ServerToClient, 0, None, end, out),
            bytes => self.server.state = MemcachedStreamState::Value(bytes),
        }
    }

    fn begin_binary_response(&mut self, head: &MemcachedBinaryHead<'_>, out: &mut ParserOutput<'_>) {
        let MemcachedBinaryHeader { opcode, opaque, status, .. } = head.header;
        let key = head.key();
        let first = head.span.first;
        let place = head.place;
        let named = self.opaques.are_unique();
        let number = if named {
            self.find_named(opcode, opaque, key)
        } else {
            self.find_out_of_order(opcode, opaque, key)
        };
        let was_exact = self.transactions.is_exact();
        let spot = match number {
            Some(number) => {
                self.transactions.response_to(number, first, place);
                ResponseSlot::With(number)
            }
            None if named && self.evicted.contains(opaque, self.opaques) => {
                self.transactions.response_to_evicted(first, place)
            }
            None => {
                let fit = |request: &_| transaction::fit_binary(request, opcode, opaque, key);
                self.transactions.response(first, place, fit).0
            }
        };
        let status = MemcachedStatus::of_binary(opcode, status);
        let value_bytes = (status == MemcachedStatus::Hit).then(|| head.header.value_len());
        if let Some(response) = self.transactions.response_mut(spot) {
            response.become_one(MemcachedResponseSummary::Binary { opcode, opaque, status }, head.span.last);
            response.value_bytes = value_bytes;
            if let ResponseSlot::Apart(_) = spot {
                if !key.is_empty() {
                    response.keep_key(key, value_bytes);
                }
                out.counters.malformed_messages +=
                    u64::from(!named && was_exact && !self.transactions.is_exact());
            }
        }
        self.answering = Some(self.begin_answering(spot));
    }

    /// The waiting request with this name.
    #[inline]
    fn find_named(&mut self, opcode: u8, opaque: u32, key: &[u8]) -> Option<u64> {
        self.transactions.find_waiting(|request| request.is_named(opcode, opaque, key))
    }

    /// The only waiting request with this name, if others must be answered before it, and nothing is missing.
    #[inline]
    fn find_out_of_order(&self, opcode: u8, opaque: u32, key: &[u8]) -> Option<u64> {
        let mut waiting = self.transactions.waiting().take(CANDIDATES_MAX);
        let mut is_later = false;
        let (number, _) = waiting.find(|(_, request)| {
            let is_named = request.is_named(opcode, opaque, key);
            is_later |= !is_named && request.expects == ResponseExpectation::Response;
            is_named
        })?;
        let is_only = is_later
            && self.transactions.held() <= CANDIDATES_MAX
            && self.transactions.is_exact()
            && !waiting.any(|(_, request)| request.is_named(opcode, opaque, key));
        is_only.then_some(number)
    }

    /// Whether this is a further response of the stat in progress.
    fn continues_stat(&mut self, head: &MemcachedBinaryHead<'_>) -> bool {
        let MemcachedBinaryHeader { opcode, opaque, .. } = head.header;
        let same = |said| matches!(said, MemcachedResponseSummary::Binary { opcode: o, opaque: n, .. } if o == opcode && n == opaque);
        let Some(response) = self.response_mut().filter(|r| opcode == OPCODE_STAT && same(r.said)) else {
            return false;
        };
        response.extend(head.span.last);
        true
    }

    /// Whether the first response to a stat may begin here.
    fn is_stat_awaited(&self, head: &MemcachedBinaryHead<'_>) -> bool {
        let MemcachedBinaryHeader { opcode, opaque, .. } = head.header;
        let is_asked = |request: &MemcachedRequest| request.is_named(opcode, opaque, b"");
        self.transactions
            .next_to_answer(head.place)
            .or(self.transactions.answered_from(head.place))
            .is_some_and(is_asked)
    }
}

/// Name of an opcode without one.
#[inline]
fn format_name(command: MemcachedCommand, opcode: u8) -> Option<String> {
    command.name().is_none().then(|| format!("0x{opcode:02x}"))
}

/// Whether the key field holds a cache key, rather than the name of a statistic or SASL mechanism.
fn has_cache_key(opcode: u8) -> bool {
    !matches!(opcode, OPCODE_STAT | 0x20..=0x22)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(magic: u8, opcode: u8, key_len: u16, extras_len: u8, body_len: u32) -> Vec<u8> {
        let mut h = vec![magic, opcode];
        h.extend(key_len.to_be_bytes());
        h.extend([extras_len, 0, 0, 0]);
        h.extend(body_len.to_be_bytes());
        h.extend([0; 12]);
        h
    }

    #[test]
    fn lengths_must_agree() {
        for (magic, opcode, key, extras, body, readable, plausible) in [
            (0x80, 0x00, 3, 0, 3, true, true),
            (0x80, 0x00, 3, 0, 2, false, false),
            (0x80, 0x00, 0, 0, 0, true, false),
            (0x80, 0x01, 3, 8, 500, true, true),
            (0x80, 0x01, 3, 7, 500, true, false),
            (0x80, 0x05, 3, 20, 23, true, true),
            (0x80, 0x42, 3, 0, 3, true, false),
            (0x80, 0x0a, 0, 0, 0, true, true),
            (0x80, 0x00, 300, 0, 300, true, false),
            (0x80, 0x11, 3, 8, u32::MAX, true, false),
            (0x81, 0x00, 0, 4, 9, true, true),
        ] {
            let bytes = header(magic, opcode, key, extras, body);
            let read = MemcachedBinaryHeader::read(&bytes, magic);
            assert_eq!(read.is_some(), readable, "{bytes:02x?}");
            assert_eq!(read.is_some_and(|h| h.is_plausible(magic)), plausible, "{bytes:02x?}");
            assert!(MemcachedBinaryHeader::read(&bytes, magic ^ 1).is_none());
        }
    }
}
