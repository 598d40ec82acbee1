//! IPv4 headers (RFC 791 §3.1). The total length determines the end of the payload: link padding follows it, and
//! bytes cut by the snaplen are missing before it. Checksums are not verified: with offloading they are wrong in
//! captures.

use crate::extent::{Extent, array, be16};
use crate::{Addr, DecodeError, IpProtocol};

mod field {
    use std::ops::Range;
    pub const VERSION_IHL: usize = 0;
    pub const TOTAL_LEN: Range<usize> = 2..4;
    pub const IDENT: Range<usize> = 4..6;
    pub const FLAGS_OFFSET: Range<usize> = 6..8;
    pub const TTL: usize = 8;
    pub const PROTOCOL: usize = 9;
    pub const SRC: Range<usize> = 12..16;
    pub const DST: Range<usize> = 16..20;
    pub const END: usize = DST.end;
}

const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// View of an IPv4 header with its options and payload.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4Header<'a> {
    header: &'a [u8; field::END],
    options: &'a [u8],
    payload: Extent<'a>,
}

impl<'a> Ipv4Header<'a> {
    /// Checks version and lengths. A total length of 0 is set by the stack in a segment over 64 KiB that the adapter
    /// will divide (TSO): the payload then extends to the end.
    ///
    /// # Errors
    /// If the header is cut, is not version 4, or its lengths contradict each other.
    #[inline]
    pub fn new_checked(packet: Extent<'a>) -> Result<Self, DecodeError> {
        let (header, rest) = packet.split_header::<{ field::END }>()?;
        let header_len = match header[field::VERSION_IHL] {
            0x45 => field::END,
            v @ 0x46..=0x4f => usize::from(v & 0x0f) * 4,
            _ => return Err(DecodeError::Malformed),
        };
        let payload_len = match u32::from(be16(header, field::TOTAL_LEN)) {
            0 => packet.original_len.saturating_sub(header_len as u32),
            total => total
                .checked_sub(header_len as u32)
                .ok_or(DecodeError::Malformed)?,
        };
        let (options, rest) = match header_len {
            field::END => (&[][..], rest),
            _ => rest.split_at(header_len - field::END)?,
        };
        Ok(Self {
            header,
            options,
            payload: rest.limit(payload_len),
        })
    }

    /// Sender.
    #[inline]
    #[must_use]
    pub fn src(&self) -> Addr {
        Addr::v4(array(self.header, field::SRC))
    }

    /// Receiver.
    #[inline]
    #[must_use]
    pub fn dst(&self) -> Addr {
        Addr::v4(array(self.header, field::DST))
    }

    /// Protocol of the payload.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> IpProtocol {
        IpProtocol(self.header[field::PROTOCOL])
    }

    /// Time to live.
    #[inline]
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.header[field::TTL]
    }

    /// Identification: equal in all fragments of a datagram.
    #[must_use]
    pub fn ident(&self) -> u16 {
        be16(self.header, field::IDENT)
    }

    /// Whether this is a fragment.
    #[inline]
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        be16(self.header, field::FLAGS_OFFSET) & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Whether fragments follow this one.
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        be16(self.header, field::FLAGS_OFFSET) & MORE_FRAGMENTS != 0
    }

    /// Offset of the payload in its datagram, in bytes.
    #[must_use]
    pub fn fragment_offset(&self) -> u32 {
        u32::from(be16(self.header, field::FLAGS_OFFSET) & OFFSET_MASK) * 8
    }

    /// Length of the header with its options.
    #[must_use]
    pub fn header_len(&self) -> usize {
        field::END + self.options.len()
    }

    /// The options, undecoded.
    #[must_use]
    pub fn options(&self) -> &'a [u8] {
        self.options
    }

    /// The payload, limited by the total length.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> Extent<'a> {
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: [u8; 30] = [
        0x45, 0, 0, 24, 0xab, 0xcd, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, // header
        1, 2, 3, 4, 0, 0, 0, 0, 0, 0, // four bytes of payload, six of padding
    ];

    fn with(changes: &[(usize, u8)]) -> [u8; 30] {
        let mut packet = PACKET;
        changes.iter().for_each(|&(at, value)| packet[at] = value);
        packet
    }

    fn check(
        changes: &[(usize, u8)],
        original_len: u32,
        expected: Result<(usize, u32), DecodeError>,
    ) {
        let packet = with(changes);
        let payload =
            Ipv4Header::new_checked(Extent::new(&packet, original_len)).map(|h| h.payload());
        assert_eq!(
            payload.map(|p| (p.bytes.len(), p.original_len)),
            expected,
            "{changes:?}"
        );
    }

    #[test]
    fn deconstruct() {
        let header = Ipv4Header::new_checked(Extent::whole(&PACKET)).expect("valid");
        assert_eq!(header.src().to_string(), "10.0.0.1");
        assert_eq!(header.dst().to_string(), "10.0.0.2");
        assert_eq!(
            (header.protocol(), header.ttl(), header.ident()),
            (IpProtocol::UDP, 64, 0xabcd)
        );
        assert!(!header.is_fragment() && header.options().is_empty());
        assert_eq!(header.payload().bytes, [1, 2, 3, 4]);
    }

    #[test]
    fn lengths() {
        check(&[], 30, Ok((4, 4)));
        check(&[(3, 20)], 30, Ok((0, 0)));
        check(&[(2, 1)], 1000, Ok((10, 260))); // cut by the snaplen: 256 + 24 in all
        check(&[(2, 0), (3, 0)], 70_000, Ok((10, 69_980))); // TSO giant
        check(&[(2, 0), (3, 0)], 30, Ok((10, 10)));
        check(&[(0, 0x46)], 30, Ok((0, 0))); // one option word
        check(&[(0, 0x47)], 30, Err(DecodeError::Malformed)); // total length below the header's
        check(&[(3, 19)], 30, Err(DecodeError::Malformed));
        check(&[(0, 0x44)], 30, Err(DecodeError::Malformed));
        check(&[(0, 0x65)], 30, Err(DecodeError::Malformed));
        check(&[(0, 0x4f), (3, 200)], 300, Err(DecodeError::Truncated)); // options cut
    }

    #[test]
    fn too_short() {
        for n in 0..20 {
            let cut = Ipv4Header::new_checked(Extent::new(&PACKET[..n], 30));
            assert_eq!(cut.err(), Some(DecodeError::Truncated), "{n} bytes");
        }
    }

    #[test]
    fn fragments() {
        for (flags, fragment, more, offset) in [
            ([0x40, 0], false, false, 0),
            ([0x20, 0], true, true, 0),
            ([0, 3], true, false, 24),
        ] {
            let packet = with(&[(6, flags[0]), (7, flags[1])]);
            let header = Ipv4Header::new_checked(Extent::whole(&packet)).expect("valid");
            assert_eq!(
                (header.is_fragment(), header.more_fragments()),
                (fragment, more)
            );
            assert_eq!(header.fragment_offset(), offset);
        }
    }
}
