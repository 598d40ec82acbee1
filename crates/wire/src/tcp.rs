//! TCP headers (RFC 9293 §3.1) and their options. A header whose options were cut by the snaplen is valid: its
//! payload is empty, with its length on the wire.

use crate::extent::{Extent, be16, be32};
use crate::packet::TcpFlags;
use crate::{DecodeError, TcpSeq};

mod field {
    use std::ops::Range;
    pub const SRC_PORT: Range<usize> = 0..2;
    pub const DST_PORT: Range<usize> = 2..4;
    pub const SEQ: Range<usize> = 4..8;
    pub const ACK: Range<usize> = 8..12;
    pub const DATA_OFFSET: usize = 12;
    pub const FLAGS: usize = 13;
    pub const WINDOW: Range<usize> = 14..16;
    pub const END: usize = 20;
}

/// A view of a TCP header with its options and payload.
#[derive(Clone, Copy, Debug)]
pub struct TcpHeader<'a> {
    header: &'a [u8; field::END],
    options: &'a [u8],
    payload: Extent<'a>,
}

impl<'a> TcpHeader<'a> {
    /// Checks the lengths once.
    ///
    /// # Errors
    /// When the first 20 bytes are cut, or the data offset lies inside them or after the end of the segment.
    #[inline]
    pub fn new_checked(segment: Extent<'a>) -> Result<Self, DecodeError> {
        let (header, rest) = segment.split_header::<{ field::END }>()?;
        let options_len = match header[field::DATA_OFFSET] >> 4 {
            words @ 5.. => usize::from(words - 5) * 4,
            _ => return Err(DecodeError::Malformed),
        };
        let Some(payload_len) = rest.original_len.checked_sub(options_len as u32) else {
            return Err(DecodeError::Malformed);
        };
        let (options, payload) = rest.bytes.split_at(options_len.min(rest.bytes.len()));
        Ok(Self {
            header,
            options,
            payload: Extent {
                bytes: payload,
                original_len: payload_len,
            },
        })
    }

    /// Sender's port.
    #[inline]
    #[must_use]
    pub fn src_port(&self) -> u16 {
        be16(self.header, field::SRC_PORT)
    }

    /// Receiver's port.
    #[inline]
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        be16(self.header, field::DST_PORT)
    }

    /// Sequence number of the first byte, or of the SYN.
    #[inline]
    #[must_use]
    pub fn seq(&self) -> TcpSeq {
        TcpSeq(be32(self.header, field::SEQ))
    }

    /// Next sequence number that the sender expects; valid with [`TcpFlags::ACK`].
    #[inline]
    #[must_use]
    pub fn ack(&self) -> TcpSeq {
        TcpSeq(be32(self.header, field::ACK))
    }

    /// Flags.
    #[inline]
    #[must_use]
    pub fn flags(&self) -> TcpFlags {
        TcpFlags(self.header[field::FLAGS])
    }

    /// Window, unscaled.
    #[inline]
    #[must_use]
    pub fn window(&self) -> u16 {
        be16(self.header, field::WINDOW)
    }

    /// The captured part of the options.
    #[must_use]
    pub fn options(&self) -> TcpOptions<'a> {
        TcpOptions { rest: self.options }
    }

    /// The payload.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> Extent<'a> {
        self.payload
    }
}

/// One option of a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Maximum segment size that the sender accepts (RFC 9293 §3.7.1).
    MaxSegmentSize(u16),
    /// Shift of the window (RFC 7323 §2); at most 14.
    WindowScale(u8),
    /// The sender supports SACK (RFC 2018 §2).
    SackPermitted,
    /// Ranges received beyond the acknowledgment (RFC 2018 §3): pairs of left and right edge, 8 bytes each.
    Sack(&'a [[u8; 8]]),
    /// Timestamps (RFC 7323 §3): the sender's, and the echoed one.
    Timestamps {
        /// TSval.
        value: u32,
        /// TSecr.
        echo: u32,
    },
    /// Any other, or one of the above with an invalid length.
    Other {
        /// Option kind.
        kind: u8,
        /// Bytes after kind and length.
        bytes: &'a [u8],
    },
}

impl TcpOption<'_> {
    /// Left and right edge of a SACK block of [`TcpOption::Sack`].
    #[must_use]
    pub fn sack_edges(block: &[u8; 8]) -> (TcpSeq, TcpSeq) {
        (TcpSeq(be32(block, 0..4)), TcpSeq(be32(block, 4..8)))
    }
}

/// Iterator over options; ends at a malformed one.
#[derive(Clone, Copy, Debug)]
pub struct TcpOptions<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = TcpOption<'a>;

    fn next(&mut self) -> Option<TcpOption<'a>> {
        // Kind 1 is padding without a length, kind 0 ends the list.
        while let [1, rest @ ..] = self.rest {
            self.rest = rest;
        }
        let (&[kind, len], _) = self.rest.split_first_chunk::<2>()?;
        let (option, rest) = self.rest.split_at_checked(usize::from(len))?;
        if kind == 0 || len < 2 {
            self.rest = &[];
            return None;
        }
        self.rest = rest;
        Some(option_of(kind, &option[2..]))
    }
}

fn option_of(kind: u8, bytes: &[u8]) -> TcpOption<'_> {
    match (kind, bytes) {
        (2, &[high, low]) => TcpOption::MaxSegmentSize(u16::from_be_bytes([high, low])),
        (3, &[shift]) => TcpOption::WindowScale(shift.min(14)),
        (4, []) => TcpOption::SackPermitted,
        (5, blocks) if blocks.len().is_multiple_of(8) => TcpOption::Sack(blocks.as_chunks().0),
        (8, &[a, b, c, d, e, f, g, h]) => TcpOption::Timestamps {
            value: u32::from_be_bytes([a, b, c, d]),
            echo: u32::from_be_bytes([e, f, g, h]),
        },
        _ => TcpOption::Other { kind, bytes },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: [u8; 26] = [
        0x1f, 0x90, 0, 80, 0, 0, 1, 0, 0, 0, 2, 0, 0x60, 0x12, 0x72, 0x10, 0, 0, 0,
        0, // header
        2, 4, 5, 0xb4, // MSS 1460
        b'h', b'i',
    ];

    fn check_options(bytes: &[u8], expected: &[TcpOption<'_>]) {
        assert_eq!(
            TcpOptions { rest: bytes }.collect::<Vec<_>>(),
            expected,
            "{bytes:?}"
        );
    }

    #[test]
    fn deconstruct() {
        let tcp = TcpHeader::new_checked(Extent::whole(&SEGMENT)).expect("valid");
        assert_eq!(
            (tcp.src_port(), tcp.dst_port(), tcp.window()),
            (8080, 80, 0x7210)
        );
        assert_eq!((tcp.seq(), tcp.ack()), (TcpSeq(256), TcpSeq(512)));
        assert_eq!(tcp.flags(), TcpFlags::SYN | TcpFlags::ACK);
        assert_eq!(
            tcp.options().collect::<Vec<_>>(),
            [TcpOption::MaxSegmentSize(1460)]
        );
        assert_eq!(tcp.payload(), Extent::whole(b"hi"));
    }

    #[test]
    fn options() {
        check_options(&[], &[]);
        check_options(&[1, 1, 1, 4, 2, 0, 3, 3, 7], &[TcpOption::SackPermitted]);
        check_options(&[3, 3, 200], &[TcpOption::WindowScale(14)]);
        check_options(
            &[8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
            &[TcpOption::Timestamps { value: 1, echo: 2 }],
        );
        check_options(
            &[5, 10, 0, 0, 0, 1, 0, 0, 0, 2],
            &[TcpOption::Sack(&[[0, 0, 0, 1, 0, 0, 0, 2]])],
        );
        check_options(
            &[30, 3, 9, 4, 2],
            &[
                TcpOption::Other {
                    kind: 30,
                    bytes: &[9],
                },
                TcpOption::SackPermitted,
            ],
        );
        check_options(
            &[2, 3, 9],
            &[TcpOption::Other {
                kind: 2,
                bytes: &[9],
            }],
        );
        assert_eq!(
            TcpOption::sack_edges(&[0, 0, 0, 1, 0, 0, 0, 2]),
            (TcpSeq(1), TcpSeq(2))
        );
    }

    #[test]
    fn malformed_options_end() {
        check_options(&[4, 2, 2, 0, 9], &[TcpOption::SackPermitted]);
        check_options(&[4, 2, 2, 1, 9], &[TcpOption::SackPermitted]);
        check_options(&[4, 2, 2, 5, 9], &[TcpOption::SackPermitted]);
        check_options(&[4, 2, 2], &[TcpOption::SackPermitted]);
    }

    #[test]
    fn cut_in_the_options() {
        let tcp = TcpHeader::new_checked(Extent::new(&SEGMENT[..22], 100))
            .expect("the first 20 bytes are there");
        assert_eq!(
            tcp.payload(),
            Extent {
                bytes: &[],
                original_len: 76
            }
        );
        assert_eq!(tcp.options().count(), 0);
    }

    #[test]
    fn impossible_lengths() {
        for n in 0..20 {
            let cut = TcpHeader::new_checked(Extent::new(&SEGMENT[..n], 26));
            assert_eq!(cut.err(), Some(DecodeError::Truncated), "{n} bytes");
            let short = TcpHeader::new_checked(Extent::whole(&SEGMENT[..n]));
            assert_eq!(short.err(), Some(DecodeError::Malformed), "{n} bytes");
        }
        for offset in [0x00, 0x40, 0x70, 0xf0] {
            let mut segment = SEGMENT;
            segment[12] = offset;
            let view = TcpHeader::new_checked(Extent::whole(&segment));
            assert_eq!(view.err(), Some(DecodeError::Malformed), "{offset:#x}");
        }
    }
}
