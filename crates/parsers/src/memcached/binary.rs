//! The binary protocol: a 24-byte header, extras, key, and value, in both directions.
//!
//! Big-endian; magic 0x80 marks requests and 0x81 responses (memcached's protocol_binary.h).

use flow::StreamPlace;
use wire::TcpSeq;

use super::binary_header::{HEADER_LEN, MemcachedBinaryHeader, magic};
use super::byte_stream::MemcachedStreamState;
use super::command::{
    MemcachedCommand, MemcachedCommandClass, MemcachedStatus, OPCODE_QUITQ, OPCODE_STAT,
};
use super::connection::{MemcachedConnection, MemcachedResponseEnd};
use super::transaction::{
    self, KEY_MAX, MemcachedRequest, MemcachedRequestHead, MemcachedRequestLabel,
    MemcachedResponseSummary,
};
use crate::pairing::{ResponseExpectation, ResponseSlot};
use crate::{Direction, MessageSpan, ParserOutput, StreamSegment};

/// Maximum bytes of a head that are read.
const HEAD_MAX: usize = HEADER_LEN + 0xff + KEY_MAX;
/// Maximum requests searched by name if names may repeat.
const CANDIDATES_MAX: usize = 256;

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
        let MemcachedBinaryHeader {
            opcode,
            key_len,
            extras_len,
            ..
        } = self.header;
        if key_len > KEY_MAX || !has_cache_key(opcode) {
            return b"";
        }
        self.bytes
            .get(HEADER_LEN + extras_len..self.header.head_len())
            .unwrap_or_default()
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
        let need =
            MemcachedBinaryHeader::read(&lane.head, magic).map_or(HEADER_LEN, |h| h.head_len());
        let n = need
            .saturating_sub(lane.head.len())
            .min(segment.bytes.len());
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
                    &MemcachedBinaryHead {
                        header,
                        bytes: &bytes,
                        span,
                        place,
                        end: more.end(),
                    },
                    out,
                );
                self.lane(direction).give_back(bytes);
            }
            Some(_) => {}
        }
        n
    }

    #[inline]
    fn on_head(
        &mut self,
        direction: Direction,
        head: &MemcachedBinaryHead<'_>,
        out: &mut ParserOutput<'_>,
    ) {
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
            label: name
                .as_ref()
                .map_or((MemcachedRequestLabel::None, &b""[..]), |name| {
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
            answering.ends = if goes_on {
                MemcachedResponseEnd::Later
            } else {
                MemcachedResponseEnd::WithValue
            };
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

    fn begin_binary_response(
        &mut self,
        head: &MemcachedBinaryHead<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let MemcachedBinaryHeader {
            opcode,
            opaque,
            status,
            ..
        } = head.header;
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
            response.become_one(
                MemcachedResponseSummary::Binary {
                    opcode,
                    opaque,
                    status,
                },
                head.span.last,
            );
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
        self.transactions
            .find_waiting(|request| request.is_named(opcode, opaque, key))
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
        let Some(response) = self
            .response_mut()
            .filter(|r| opcode == OPCODE_STAT && same(r.said))
        else {
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
            assert_eq!(
                read.is_some_and(|h| h.is_plausible(magic)),
                plausible,
                "{bytes:02x?}"
            );
            assert!(MemcachedBinaryHeader::read(&bytes, magic ^ 1).is_none());
        }
    }
}
