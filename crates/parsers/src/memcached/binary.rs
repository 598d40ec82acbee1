//! The binary protocol: a 24-byte header, extras, key and value, in both directions.
//!
//! The byte order is the network's, magic 0x80 asks and 0x81 answers (memcached's protocol_binary.h).

use wire::Timestamp;

use super::command::{Class, Command, OPCODE_QUITQ, OPCODE_STAT, Status};
use super::conversation::Conversation;
use super::emit::Outcome;
use super::waiting::{Marks, Request};
use crate::{Direction, Output, Span};

/// Length of the header.
pub const HEADER_LEN: usize = 24;
/// Longest key that a server takes.
const KEY_MAX: usize = 250;
/// Most extras that any command has.
const EXTRAS_MAX: usize = 24;
/// Largest body taken for real while looking for the next header.
const PLAUSIBLE_BODY_MAX: u32 = 128 << 20;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The command.
    pub opcode: u8,
    /// Length of the key.
    pub key_len: usize,
    /// Length of the extras.
    pub extras_len: usize,
    /// Always 0.
    pub data_type: u8,
    /// Requests: the virtual bucket; responses: the status.
    pub status: u16,
    /// Length of extras, key and value.
    pub body_len: u32,
    /// The client's number.
    pub opaque: u32,
}

impl Header {
    /// Reads a header; `None`: too short, another magic, or lengths that contradict each other.
    #[inline]
    pub fn read(bytes: &[u8], magic: u8) -> Option<Header> {
        let h: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let header = Header {
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

    /// Whether a sane peer would send it: what chance does not produce.
    pub fn is_plausible(&self, magic: u8) -> bool {
        let sane = self.data_type == 0
            && self.key_len <= KEY_MAX
            && self.extras_len <= EXTRAS_MAX
            && self.body_len <= PLAUSIBLE_BODY_MAX
            && Command::is_known_opcode(self.opcode);
        match magic {
            0x80 => sane && self.request_shape_is_right(),
            _ => {
                sane && (self.status <= 0x0a
                    || (0x20..=0x24).contains(&self.status)
                    || (0x81..=0x86).contains(&self.status))
            }
        }
    }

    /// Extras and key as protocol_binary.h prescribes for the usual opcodes.
    fn request_shape_is_right(&self) -> bool {
        let (key, extras) = (self.key_len > 0, self.extras_len);
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

    /// Bytes up to the end of the key, as far as they are looked at.
    #[inline]
    fn head_len(&self) -> usize {
        HEADER_LEN + if self.key_len <= KEY_MAX { self.extras_len + self.key_len } else { 0 }
    }

    /// Bytes behind what [`Header::head_len`] counts.
    #[inline]
    fn rest_len(&self) -> u64 {
        (u64::from(self.body_len) + HEADER_LEN as u64).saturating_sub(self.head_len() as u64)
    }

    /// Length of the value.
    #[inline]
    fn value_len(&self) -> u64 {
        u64::from(self.body_len) - (self.key_len + self.extras_len) as u64
    }

    fn key<'h>(&self, head: &'h [u8]) -> &'h [u8] {
        if self.key_len > KEY_MAX {
            return b"";
        }
        head.get(HEADER_LEN + self.extras_len..self.head_len()).unwrap_or_default()
    }
}

/// The magic of messages in one direction.
#[inline]
pub fn magic(direction: Direction) -> u8 {
    match direction {
        Direction::ClientToServer => 0x80,
        Direction::ServerToClient => 0x81,
    }
}

impl Conversation {
    /// The next binary bytes of one direction.
    pub(super) fn read_binary(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        ts: Timestamp,
        out: &mut Output<'_>,
    ) {
        let mut bytes = bytes;
        let magic = magic(direction);
        while !bytes.is_empty() {
            let reader = self.reader(direction);
            if reader.skip > 0 {
                bytes = self.skip_value(direction, bytes, ts, out);
                continue;
            }
            if reader.scanning {
                bytes = self.search(direction, bytes, ts, out);
                continue;
            }
            if !reader.head.is_empty() {
                bytes = self.fill_head(direction, bytes, ts, out);
                continue;
            }
            if direction == Direction::ServerToClient && self.must_hold() {
                return self.hold(bytes, ts, out);
            }
            self.reader(direction).place = out.place_of(bytes);
            match Header::read(bytes, magic) {
                Some(header) if bytes.len() >= header.head_len() => {
                    let (head, rest) = bytes.split_at(header.head_len());
                    bytes = rest;
                    self.on_head(direction, &header, head, Span::at(ts), out);
                }
                None if bytes.len() >= HEADER_LEN || bytes[0] != magic => self.lose_way(direction, out),
                _ => {
                    let reader = self.reader(direction);
                    reader.span = Some(Span::at(ts));
                    reader.head.extend_from_slice(bytes);
                    return;
                }
            }
        }
    }

    /// Adds to a head that is split over segments.
    #[cold]
    fn fill_head<'b>(
        &mut self,
        direction: Direction,
        bytes: &'b [u8],
        ts: Timestamp,
        out: &mut Output<'_>,
    ) -> &'b [u8] {
        let magic = magic(direction);
        let reader = self.reader(direction);
        let need = Header::read(&reader.head, magic).map_or(HEADER_LEN, |h| h.head_len());
        let n = need.saturating_sub(reader.head.len()).min(bytes.len());
        let (more, rest) = bytes.split_at(n);
        reader.head.extend_from_slice(more);
        let span = reader.span.get_or_insert(Span::at(ts));
        span.extend(ts);
        let span = *span;
        if reader.head.len() < HEADER_LEN {
            return rest;
        }
        match Header::read(&reader.head, magic) {
            None => {
                self.lose_way(direction, out);
            }
            Some(header) if reader.head.len() >= header.head_len() => {
                reader.span = None;
                let mut head = std::mem::take(&mut reader.head);
                self.on_head(direction, &header, &head, span, out);
                head.clear();
                self.reader(direction).head = head;
            }
            Some(_) => {}
        }
        rest
    }

    /// What should have been a header is none.
    #[cold]
    fn lose_way(&mut self, direction: Direction, out: &mut Output<'_>) {
        out.counters.malformed_messages += 1;
        self.lose(direction, out);
    }

    #[inline]
    fn on_head(
        &mut self,
        direction: Direction,
        header: &Header,
        head: &[u8],
        span: Span,
        out: &mut Output<'_>,
    ) {
        match direction {
            Direction::ClientToServer => self.on_request_head(header, head, span, out),
            Direction::ServerToClient => self.on_response_head(header, head, span, out),
        }
    }

    fn on_request_head(&mut self, header: &Header, head: &[u8], span: Span, out: &mut Output<'_>) {
        let command = Command::Binary(header.opcode);
        let mut request = Request::new(command, Class::Binary, span);
        request.opaque = header.opaque;
        request.marks.set(Marks::when(Command::is_quiet_opcode(header.opcode), Marks::QUIET));
        request.marks.set(Marks::when(header.opcode == OPCODE_QUITQ, Marks::SILENT));
        request.marks.set(Marks::when(command.name().is_none(), Marks::NAMED));
        if Status::of_binary(header.opcode, 0) == Status::Stored {
            request.value_bytes = Some(header.value_len());
        }
        self.order.note_opaque(header.opaque);
        self.begin_request(request, out);
        if command.name().is_none() {
            self.keep_text(format!("0x{:02x}", header.opcode).as_bytes(), out);
        }
        let key = header.key(head);
        if !key.is_empty() && has_cache_key(header.opcode) {
            self.keep_text(key, out);
        }
        match header.rest_len() {
            0 => self.end_request(span.last, out),
            n => self.asked.skip = n,
        }
    }

    fn on_response_head(&mut self, header: &Header, head: &[u8], span: Span, out: &mut Output<'_>) {
        if !self.continues_stat(header, span) {
            if self.answer.active {
                self.finish_answer(false, out);
            }
            let key = if has_cache_key(header.opcode) { header.key(head) } else { b"" };
            let target = self.attribute_binary(header.opcode, header.opaque, key, span.first, out);
            if target.is_none() && header.opcode == OPCODE_STAT && !self.may_begin_answer(self.told.place) {
                // One of several responses to a stat, perhaps not the first.
                out.counters.skipped_bytes += head.len() as u64;
                self.answer.ends_with_value = false;
                self.told.skip = header.rest_len();
                return;
            }
            let status = Status::of_binary(header.opcode, header.status);
            let value_bytes = (status == Status::Hit).then(|| header.value_len());
            self.begin_answer(
                target,
                Outcome { span, ended: false, status, value_bytes, gap_body: false, last_lost: false },
            );
            self.answer.command = Some(Command::Binary(header.opcode));
            self.answer.opaque = header.opaque;
            if target.is_none() && !key.is_empty() {
                self.value_came(key, value_bytes);
            }
        }
        // The last of a stat's responses has no key (and an error is the only one).
        self.answer.ends_with_value =
            header.opcode != OPCODE_STAT || header.key_len == 0 || header.status != 0;
        match header.rest_len() {
            0 if self.answer.ends_with_value => self.finish_answer(true, out),
            n => self.told.skip = n,
        }
    }

    /// Whether this is a further response of the stat being read.
    fn continues_stat(&mut self, header: &Header, span: Span) -> bool {
        let continues = self.answer.active
            && header.opcode == OPCODE_STAT
            && self.answer.command == Some(Command::Binary(OPCODE_STAT))
            && self.answer.opaque == header.opaque;
        if continues && let Some(outcome) = &mut self.answer.outcome {
            outcome.extend(span.last);
        }
        continues
    }
}

/// Whether the key field holds a key of the cache, not the name of a statistic or of a SASL mechanism.
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
            let read = Header::read(&bytes, magic);
            assert_eq!(read.is_some(), readable, "{bytes:02x?}");
            assert_eq!(read.is_some_and(|h| h.is_plausible(magic)), plausible, "{bytes:02x?}");
            assert!(Header::read(&bytes, magic ^ 1).is_none());
        }
    }
}
