//! IPv6 headers (RFC 8200 §3) and the extension headers before the payload (§4): hop-by-hop options, routing,
//! fragment, destination options, authentication (RFC 4302 §2), mobility, HIP, and shim6 (RFC 7045). At most
//! [`EXTENSIONS_MAX`] are parsed. Parsing ends at encrypted payload (ESP).

use crate::extent::{Extent, array, be16, be32};
use crate::{Addr, DecodeError, IpProtocol};

/// Maximum extension headers parsed in one packet.
pub const EXTENSIONS_MAX: usize = 16;

mod field {
    use std::ops::Range;
    pub const VERSION_CLASS: usize = 0;
    pub const PAYLOAD_LEN: Range<usize> = 4..6;
    pub const NEXT_HEADER: usize = 6;
    pub const HOP_LIMIT: usize = 7;
    pub const SRC: Range<usize> = 8..24;
    pub const DST: Range<usize> = 24..40;
    pub const END: usize = DST.end;
}

mod extension {
    use std::ops::Range;
    pub const NEXT_HEADER: usize = 0;
    pub const LEN: usize = 1;
    pub const FRAGMENT_OFFSET: Range<usize> = 2..4;
    pub const FRAGMENT_IDENT: Range<usize> = 4..8;
    /// Length unit of all extension headers (AH: 4, and at least 8 with its SPI).
    pub const UNIT: usize = 8;
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const NO_NEXT_HEADER: u8 = 59;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;

/// View of an IPv6 header with its extension headers and payload.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Header<'a> {
    header: &'a [u8; field::END],
    fragment: Option<Ipv6Fragment>,
    protocol: IpProtocol,
    payload: Extent<'a>,
}

/// Contents of a fragment header (RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Fragment {
    /// Offset in the datagram, in bytes.
    pub offset: u32,
    /// Whether more fragments follow.
    pub more: bool,
    /// Equal in all fragments of a datagram.
    pub ident: u32,
}

impl<'a> Ipv6Header<'a> {
    /// Checks version, lengths, and extension headers once. A payload length of 0 is a jumbogram (RFC 2675 §3) or a
    /// segment that the adapter will divide (TSO): the payload then extends to the end.
    ///
    /// # Errors
    /// When a header is cut, the version is not 6, lengths contradict each other, or there are too many extension
    /// headers.
    #[inline]
    pub fn new_checked(packet: Extent<'a>) -> Result<Self, DecodeError> {
        let (header, rest) = packet.split_header::<{ field::END }>()?;
        if header[field::VERSION_CLASS] >> 4 != 6 {
            return Err(DecodeError::Malformed);
        }
        let next = header[field::NEXT_HEADER];
        let payload = match u32::from(be16(header, field::PAYLOAD_LEN)) {
            0 if next == NO_NEXT_HEADER => rest.limit(0),
            0 => rest,
            len => rest.limit(len),
        };
        let mut view = Self {
            header,
            fragment: None,
            protocol: IpProtocol(next),
            payload,
        };
        if is_extension(next) {
            view.walk_extensions()?;
        }
        Ok(view)
    }

    /// Advances `protocol` and `payload` past the extension headers; stops after the header of a true fragment, whose
    /// payload is incomplete.
    fn walk_extensions(&mut self) -> Result<(), DecodeError> {
        for _ in 0..EXTENSIONS_MAX {
            let kind = self.protocol.0;
            if !is_extension(kind) || self.is_fragment() {
                return Ok(());
            }
            let (start, _) = self.payload.split_header::<{ extension::UNIT }>()?;
            let len = usize::from(start[extension::LEN]);
            let len = match kind {
                FRAGMENT => 8,
                AUTHENTICATION => (len + 2) * 4,
                _ => (len + 1) * 8,
            };
            // The offset is in the upper 13 bits; the lowest bit announces more fragments.
            if kind == FRAGMENT {
                let place = be16(start, extension::FRAGMENT_OFFSET);
                let part = Ipv6Fragment {
                    offset: (place & 0xfff8).into(),
                    more: place & 1 != 0,
                    ident: be32(start, extension::FRAGMENT_IDENT),
                };
                self.fragment = Some(part).filter(|part| part.more || part.offset > 0);
            }
            self.protocol = IpProtocol(start[extension::NEXT_HEADER]);
            self.payload = self.payload.split_at(len)?.1;
        }
        if is_extension(self.protocol.0) && !self.is_fragment() {
            Err(DecodeError::Malformed)
        } else {
            Ok(())
        }
    }

    /// Sender.
    #[inline]
    #[must_use]
    pub fn src(&self) -> Addr {
        Addr(array(self.header, field::SRC))
    }

    /// Receiver.
    #[inline]
    #[must_use]
    pub fn dst(&self) -> Addr {
        Addr(array(self.header, field::DST))
    }

    /// Protocol of the payload: the last next-header.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> IpProtocol {
        self.protocol
    }

    /// Hop limit.
    #[inline]
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        self.header[field::HOP_LIMIT]
    }

    /// Whether this is a fragment; an atomic fragment (RFC 6946) is complete.
    #[inline]
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.fragment.is_some()
    }

    /// Position of the fragment in its datagram; `None` for a complete datagram.
    #[must_use]
    pub fn fragment(&self) -> Option<Ipv6Fragment> {
        self.fragment
    }

    /// Payload after the extension headers.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> Extent<'a> {
        self.payload
    }
}

#[inline]
fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION | MOBILITY | HIP | SHIM6
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(next: u8, payload_len: u16, payload: &[u8]) -> Vec<u8> {
        let [high, low] = payload_len.to_be_bytes();
        let mut bytes = vec![0x60, 0, 0, 0, high, low, next, 64];
        bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        bytes.extend(payload);
        bytes
    }

    /// Bytes of extensions with the first next-header → protocol, payload.
    fn check(next: u8, payload: &[u8], expected: Result<(u8, &[u8]), DecodeError>) {
        let bytes = packet(next, payload.len() as u16, payload);
        let header = Ipv6Header::new_checked(Extent::whole(&bytes));
        assert_eq!(
            header.as_ref().map(|h| (h.protocol().0, h.payload().bytes)),
            expected.as_ref().map(|e| *e)
        );
    }

    #[test]
    fn deconstruct() {
        let bytes = packet(17, 3, &[1, 2, 3, 0xff]);
        let header = Ipv6Header::new_checked(Extent::whole(&bytes)).expect("valid");
        assert_eq!(
            (header.src().to_string(), header.dst().to_string()),
            ("2001:db8::1".into(), "2001:db8::2".into())
        );
        assert_eq!(
            (header.protocol(), header.hop_limit(), header.is_fragment()),
            (IpProtocol::UDP, 64, false)
        );
        assert_eq!(header.payload().bytes, [1, 2, 3]);
    }

    #[test]
    fn extension_headers() {
        check(0, &[6, 0, 1, 4, 0, 0, 0, 0, 7], Ok((6, &[7])));
        check(
            60,
            &[[43, 0, 1, 4, 0, 0, 0, 0], [17, 0, 0, 0, 0, 0, 0, 0]].concat(),
            Ok((17, &[])),
        );
        let authenticated = [[58, 4, 0, 0, 0, 0, 0, 1].as_slice(), &[0; 16], &[9]].concat();
        check(AUTHENTICATION, &authenticated, Ok((58, &[9])));
        check(NO_NEXT_HEADER, &[], Ok((NO_NEXT_HEADER, &[])));
        check(0, &[6, 9, 1, 4, 0, 0, 0, 0, 7], Err(DecodeError::Malformed)); // longer than the packet
        check(0, &[6, 0, 1], Err(DecodeError::Malformed));
    }

    #[test]
    fn extension_headers_end() {
        let chain = |n: usize| {
            [[60, 0, 1, 4, 0, 0, 0, 0]]
                .repeat(n - 1)
                .concat()
                .into_iter()
                .chain([6; 8].map(|b| b & 6))
        };
        let last = |n| {
            let mut bytes: Vec<u8> = chain(n).collect();
            let at = bytes.len() - 7;
            bytes[at] = 0;
            bytes
        };
        check(60, &last(EXTENSIONS_MAX), Ok((6, &[])));
        check(60, &last(EXTENSIONS_MAX + 1), Err(DecodeError::Malformed));
    }

    #[test]
    fn fragments() {
        for (offset, more, expected) in [(0u16, 0, false), (0, 1, true), (0x100, 0, true)] {
            let [high, low] = (offset << 3 | more).to_be_bytes();
            let bytes = packet(FRAGMENT, 9, &[6, 0, high, low, 0, 0, 0, 1, 7]);
            let header = Ipv6Header::new_checked(Extent::whole(&bytes)).expect("valid");
            assert_eq!((header.is_fragment(), header.protocol().0), (expected, 6));
        }
    }

    #[test]
    fn lengths() {
        let jumbo = packet(0, 0, &[6, 0, 0xc2, 4, 0, 1, 0, 0, 7, 7]);
        let header = Ipv6Header::new_checked(Extent::new(&jumbo, 40 + 65_536)).expect("valid");
        assert_eq!(
            header.payload(),
            Extent {
                bytes: &[7, 7],
                original_len: 65_528
            }
        );
        let padded = packet(NO_NEXT_HEADER, 0, &[0; 6]);
        let header = Ipv6Header::new_checked(Extent::whole(&padded)).expect("valid");
        assert_eq!(header.payload(), Extent::whole(&[]));
        let cut = packet(6, 1000, &[7]);
        let header = Ipv6Header::new_checked(Extent::new(&cut, 1040)).expect("valid");
        assert_eq!(
            header.payload(),
            Extent {
                bytes: &[7],
                original_len: 1000
            }
        );
    }

    #[test]
    fn too_short() {
        let bytes = packet(0, 8, &[6, 0, 1, 4, 0, 0, 0, 0]);
        for n in 0..bytes.len() {
            let cut = Ipv6Header::new_checked(Extent::new(&bytes[..n], bytes.len() as u32));
            assert_eq!(cut.err(), Some(DecodeError::Truncated), "{n} bytes");
        }
        let version_4 = [&[0x45], &bytes[1..]].concat();
        assert_eq!(
            Ipv6Header::new_checked(Extent::whole(&version_4)).err(),
            Some(DecodeError::Malformed)
        );
    }
}
