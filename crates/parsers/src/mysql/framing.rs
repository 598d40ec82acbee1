//! Divides one direction into MySQL packets: three bytes of length, one of sequence, payload.
//!
//! Returns complete packets with the first bytes of their payload: borrowed if the packet is contiguous,
//! otherwise copied up to the number of bytes that the caller needs. Other bytes are skipped by length, as is
//! a gap inside a payload; a gap that contains a header is reported. The contents of packets are not
//! interpreted.

use flow::StreamPlace;
use wire::{TcpSeq, Timestamp};

use crate::MessageSpan;

/// Length of a packet that continues in the next one.
pub const PACKET_MAX: u32 = 0xff_ffff;
const HEADER: usize = 4;

/// A complete packet.
#[derive(Clone, Copy, Debug)]
pub struct MysqlPacket<'a> {
    /// Sequence number.
    pub seq: u8,
    /// Length of the payload.
    pub len: u32,
    /// First bytes of the payload: all, or as many as were wanted or captured.
    pub head: &'a [u8],
    /// Arrival of the packet's first and last byte.
    pub span: MessageSpan,
    /// Bytes are missing.
    pub holed: bool,
    /// The last byte is missing, and its arrival is unknown: `span` ends with the last byte captured.
    pub open_end: bool,
    /// Position of its start.
    pub place: StreamPlace,
}

impl MysqlPacket<'_> {
    /// Length including the header.
    pub fn wire_len(&self) -> u64 {
        u64::from(self.len) + HEADER as u64
    }

    /// Whether `head` is the whole payload.
    pub fn is_whole(&self) -> bool {
        self.head.len() == self.len as usize
    }

    /// Position after its end.
    pub fn end(&self) -> TcpSeq {
        self.place.seq.plus(self.len + HEADER as u32)
    }

    /// First byte of the payload, if present and captured.
    pub fn first(&self) -> Option<u8> {
        self.head.first().copied()
    }
}

/// The packet in progress.
pub struct MysqlFraming {
    header: [u8; HEADER],
    header_len: u8,
    /// Remaining payload bytes.
    left: u32,
    /// Payload bytes to keep; known with the first of them.
    keep: Option<usize>,
    kept: Vec<u8>,
    span: MessageSpan,
    holed: bool,
    open_end: bool,
    /// Start of the current or next packet.
    place: StreamPlace,
}

impl Default for MysqlFraming {
    fn default() -> Self {
        let span = MessageSpan::at(Timestamp::MIN);
        MysqlFraming {
            header: [0; HEADER],
            header_len: 0,
            left: 0,
            keep: None,
            kept: Vec::new(),
            span,
            holed: false,
            open_end: false,
            place: StreamPlace::default(),
        }
    }
}

impl MysqlFraming {
    /// Sets the position of the next bytes.
    #[inline]
    pub fn set_place(&mut self, place: StreamPlace) {
        if self.is_between() {
            self.place = place;
        }
    }

    /// Returns the next packet that ends in `bytes` and consumes it. `keep` returns, by the first byte of a
    /// payload, how much of a split packet is wanted.
    #[inline]
    pub fn next<'a, 'b: 'a>(
        &'a mut self,
        bytes: &mut &'b [u8],
        ts: Timestamp,
        keep: impl Fn(u8) -> usize,
    ) -> Option<MysqlPacket<'a>> {
        if self.header_len == 0 {
            if let Some((len, seq)) = header_of(bytes) {
                if let Some(payload) = bytes.get(HEADER..HEADER + len as usize) {
                    *bytes = &bytes[HEADER + len as usize..];
                    return Some(MysqlPacket {
                        seq,
                        len,
                        head: payload,
                        span: MessageSpan::at(ts),
                        holed: false,
                        open_end: false,
                        place: self.place,
                    });
                }
            } else if bytes.is_empty() {
                return None;
            }
        }
        self.resume(bytes, ts, keep)
    }

    /// Skips complete packets while `is_row` accepts their sequence number and first byte; returns their
    /// number and bytes.
    #[inline]
    pub fn skip_rows(
        &mut self,
        bytes: &mut &[u8],
        mut is_row: impl FnMut(u8, u8) -> bool,
    ) -> (u64, u64) {
        if self.header_len != 0 {
            return (0, 0);
        }
        let mut rest = *bytes;
        let mut rows = 0;
        while let (Some((len, seq)), Some(first)) = (header_of(rest), rest.get(HEADER)) {
            let Some(behind) = rest.get(HEADER + len as usize..) else {
                break;
            };
            if len == PACKET_MAX || len == 0 || !is_row(seq, *first) {
                break;
            }
            rest = behind;
            rows += 1;
        }
        let skipped = bytes.len() - rest.len();
        *bytes = rest;
        (rows, skipped as u64)
    }

    /// Handles `len` missing bytes. Returns whether the position of the next header is still known; a packet
    /// that ended in the gap is returned by the next [`MysqlFraming::next`]. `cut`: they arrived with the last
    /// bytes captured.
    pub fn gap(&mut self, len: u64, cut: bool) -> bool {
        if self.header_len as usize != HEADER || len > u64::from(self.left) {
            return false;
        }
        self.left -= len as u32;
        self.holed = true;
        self.open_end = self.left == 0 && !cut;
        self.keep = Some(self.kept.len());
        true
    }

    /// Whether no packet is in progress.
    pub fn is_between(&self) -> bool {
        self.header_len == 0
    }

    /// Discards the packet in progress.
    pub fn reset(&mut self) {
        self.header_len = 0;
        self.kept.clear();
    }

    /// The packet in progress as if it ended here, once its header is complete.
    pub fn partial(&self) -> Option<MysqlPacket<'_>> {
        (self.header_len as usize == HEADER).then(|| MysqlPacket {
            seq: self.header[3],
            len: self.len(),
            head: &self.kept,
            span: self.span,
            holed: self.holed,
            open_end: true,
            place: self.place,
        })
    }

    fn len(&self) -> u32 {
        u32::from_le_bytes([self.header[0], self.header[1], self.header[2], 0])
    }

    /// Continues a packet that began earlier or ends later.
    fn resume<'a, 'b: 'a>(
        &'a mut self,
        bytes: &mut &'b [u8],
        ts: Timestamp,
        keep: impl Fn(u8) -> usize,
    ) -> Option<MysqlPacket<'a>> {
        if (self.header_len as usize) < HEADER {
            if bytes.is_empty() {
                return None;
            }
            self.take_header(bytes, ts);
            if (self.header_len as usize) < HEADER {
                return None;
            }
        }
        let n = bytes.len().min(self.left as usize);
        if n > 0 {
            let keep = *self.keep.get_or_insert_with(|| keep(bytes[0]));
            let wanted = keep.saturating_sub(self.kept.len()).min(n);
            self.kept.extend_from_slice(&bytes[..wanted]);
            self.left -= n as u32;
            self.span.extend(ts);
            *bytes = &bytes[n..];
        }
        if self.left > 0 {
            return None;
        }
        self.header_len = 0;
        Some(MysqlPacket {
            seq: self.header[3],
            len: self.len(),
            head: &self.kept,
            span: self.span,
            holed: self.holed,
            open_end: self.open_end,
            place: self.place,
        })
    }

    fn take_header(&mut self, bytes: &mut &[u8], ts: Timestamp) {
        if self.header_len == 0 {
            self.span = MessageSpan::at(ts);
            self.kept.clear();
            self.keep = None;
            self.holed = false;
            self.open_end = false;
        }
        let have = self.header_len as usize;
        let n = bytes.len().min(HEADER - have);
        self.header[have..have + n].copy_from_slice(&bytes[..n]);
        self.header_len += n as u8;
        *bytes = &bytes[n..];
        self.span.extend(ts);
        if self.header_len as usize == HEADER {
            self.left = self.len();
        }
    }
}

/// Length and sequence number of the packet that begins here.
#[inline]
fn header_of(bytes: &[u8]) -> Option<(u32, u8)> {
    let word = u32::from_le_bytes(*bytes.first_chunk::<HEADER>()?);
    Some((word & 0xff_ffff, (word >> 24) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(chunks: &[&[u8]], keep: usize) -> Vec<(u8, u32, Vec<u8>, i64, i64)> {
        let mut framing = MysqlFraming::default();
        let mut out = Vec::new();
        for (i, chunk) in chunks.iter().enumerate() {
            let mut bytes = *chunk;
            while let Some(p) = framing.next(&mut bytes, Timestamp(i as i64), |_| keep) {
                out.push((p.seq, p.len, p.head.to_vec(), p.span.first.0, p.span.last.0));
            }
            assert!(bytes.is_empty());
        }
        out
    }

    #[test]
    fn whole_and_cut_packets() {
        let whole = b"\x03\0\0\x01abc\0\0\0\x02\x01\0\0\x03d";
        assert_eq!(
            packets(&[whole], 2),
            [
                (1, 3, b"abc".to_vec(), 0, 0),
                (2, 0, vec![], 0, 0),
                (3, 1, b"d".to_vec(), 0, 0)
            ]
        );
        for cut in 1..7 {
            let (a, b) = whole.split_at(cut);
            let got = packets(&[a, b], 2);
            assert_eq!(
                (got[0].0, got[0].1, &got[0].2[..], got[0].3, got[0].4),
                (1, 3, &b"ab"[..], 0, 1),
                "{cut}"
            );
            assert_eq!(got.len(), 3);
        }
    }

    #[test]
    fn gaps_in_a_payload_are_stepped_over() {
        let mut framing = MysqlFraming::default();
        assert!(
            framing
                .next(&mut &b"\x08\0\0\x01ab"[..], Timestamp(0), |_| 8)
                .is_none()
        );
        assert!(framing.gap(3, false));
        let mut bytes = &b"cde\x01\0"[..];
        let p = framing
            .next(&mut bytes, Timestamp(2), |_| 8)
            .expect("a packet ends here");
        assert_eq!((p.head, p.holed, p.span.last.0), (&b"ab"[..], true, 2));
        assert!(framing.next(&mut bytes, Timestamp(2), |_| 8).is_none());
        assert!(!framing.gap(1, false), "a header is missing");
        framing.reset();
        assert!(
            framing
                .next(&mut &b"\x02\0\0\x01a"[..], Timestamp(0), |_| 8)
                .is_none()
        );
        assert!(framing.gap(1, false));
        let p = framing
            .next(&mut &b""[..], Timestamp(7), |_| 8)
            .expect("the packet ends in the gap");
        assert_eq!((p.head, p.span.last.0), (&b"a"[..], 0));
    }

    #[test]
    fn rows_are_counted_without_being_read() {
        let mut framing = MysqlFraming::default();
        let mut bytes = &b"\x01\0\0\x01a\x02\0\0\x02bb\x01\0\0\x03\xfe\x01\0\0\x04a"[..];
        assert_eq!(framing.skip_rows(&mut bytes, |_, b| b < 0xfe), (2, 11));
        assert_eq!(bytes.len(), 10);
    }
}
