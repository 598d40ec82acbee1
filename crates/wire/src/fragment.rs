//! A fragment of an IP datagram: its datagram, its position, and how to turn the first fragment's headers into those
//! of the complete packet. Reassembly, which needs memory, is not done here.

use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::tunnel::{LAYERS_MAX, Tunnel};
use crate::{Addr, CapturedPacket, DecodeError, Extent, IpProtocol, LinkType, Timestamp};

/// Identity of a datagram: fragments with equal keys belong together (RFC 791 §3.2, RFC 8200 §4.5). It includes the
/// tunnel, so that fragments of independent networks, and a mirror's copies, do not mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FragmentKey {
    src: Addr,
    dst: Addr,
    /// IPv4: the protocol. IPv6: `None`, as only the first fragment contains it.
    protocol: Option<u8>,
    ident: u32,
    layers: u64,
    network: Option<u32>,
}

/// A fragment of an IP datagram.
#[derive(Clone, Copy, Debug)]
pub struct IpFragment<'a> {
    /// Time of the packet.
    pub ts: Timestamp,
    /// Link type of the packet.
    pub link_type: LinkType,
    /// Identity of the datagram.
    pub key: FragmentKey,
    /// IPv6, where fragments must not overlap (RFC 5722).
    pub is_v6: bool,
    /// Offset in the datagram, in bytes.
    pub offset: u32,
    /// Whether more fragments follow.
    pub more: bool,
    /// The fragment's payload.
    pub payload: Extent<'a>,
    /// All headers in front of the payload.
    pub head: &'a [u8],
    /// Changes to `head` for the complete datagram.
    pub repair: HeaderRepair,
}

/// Turns the headers in front of a first fragment into those of the complete datagram.
#[derive(Clone, Copy, Debug)]
pub struct HeaderRepair {
    is_v6: bool,
    is_udp: bool,
    /// Offset of the fragmented IP header.
    ip: usize,
    /// Length fields of the outer headers.
    around: LengthFields,
}

impl<'a> IpFragment<'a> {
    pub(crate) fn of_v4(
        captured: &CapturedPacket<'a>,
        packet: Extent<'a>,
        ip: &Ipv4Header<'a>,
        (tunnel, around): (&Tunnel, LengthFields),
    ) -> IpFragment<'a> {
        let key = FragmentKey {
            src: ip.src(),
            dst: ip.dst(),
            protocol: Some(ip.protocol().0),
            ident: ip.ident().into(),
            layers: tunnel.fingerprint(),
            network: tunnel.id,
        };
        let place = (ip.fragment_offset(), ip.more_fragments());
        IpFragment::new(
            captured,
            packet,
            (key, place),
            (ip.protocol(), ip.payload(), around),
        )
    }

    /// # Errors
    /// None for a fragment's view, whose fragment header has been found.
    pub(crate) fn of_v6(
        captured: &CapturedPacket<'a>,
        packet: Extent<'a>,
        ip: &Ipv6Header<'a>,
        (tunnel, around): (&Tunnel, LengthFields),
    ) -> Result<IpFragment<'a>, DecodeError> {
        let part = ip.fragment().ok_or(DecodeError::Malformed)?;
        let key = FragmentKey {
            src: ip.src(),
            dst: ip.dst(),
            protocol: None,
            ident: part.ident,
            layers: tunnel.fingerprint(),
            network: tunnel.id,
        };
        Ok(IpFragment::new(
            captured,
            packet,
            (key, (part.offset, part.more)),
            (ip.protocol(), ip.payload(), around),
        ))
    }

    fn new(
        captured: &CapturedPacket<'a>,
        packet: Extent<'a>,
        (key, (offset, more)): (FragmentKey, (u32, bool)),
        (protocol, payload, around): (IpProtocol, Extent<'a>, LengthFields),
    ) -> IpFragment<'a> {
        let is_v6 = key.protocol.is_none();
        let ip = place_in(captured.bytes, packet.bytes);
        let head = &captured.bytes[..place_in(captured.bytes, payload.bytes)];
        let ts = captured.ts;
        let link_type = captured.link_type;
        let repair = HeaderRepair {
            is_v6,
            is_udp: protocol == IpProtocol::UDP,
            ip,
            around,
        };
        IpFragment {
            ts,
            link_type,
            key,
            is_v6,
            offset,
            more,
            payload,
            head,
            repair,
        }
    }
}

impl HeaderRepair {
    /// Length of the datagram if stated in its first fragment, as in UDP.
    #[must_use]
    pub fn stated_len(&self, first_part: &[u8]) -> Option<u32> {
        let len = first_part.first_chunk::<8>().filter(|_| self.is_udp)?;
        Some(u16::from_be_bytes([len[4], len[5]]).into())
    }

    /// Changes the `head` of the first fragment to precede all `len` bytes of the datagram. Outer length fields
    /// become 0, which means unlimited. Returns false if no such datagram is possible.
    #[must_use]
    pub fn apply(&self, head: &mut [u8], len: u32) -> bool {
        let Some(ip_len) = head.len().checked_sub(self.ip) else {
            return false;
        };
        // IPv6 does not count its first 40 bytes; IPv4 counts all.
        let counted = len as usize + ip_len - if self.is_v6 { 40 } else { 0 };
        let Ok(counted) = u16::try_from(counted) else {
            return false;
        };
        let (length, offset) = if self.is_v6 {
            // The fragment header is the last 8 bytes; with offset 0 it becomes an atomic fragment (RFC 6946).
            (self.ip + 4, head.len() - 6)
        } else {
            (self.ip + 2, self.ip + 6)
        };
        let set = |head: &mut [u8], at: usize, value: u16| {
            head[at..at + 2].copy_from_slice(&value.to_be_bytes())
        };
        set(head, length, counted);
        // Of IPv4's flags only "do not fragment" is kept.
        let flags = if self.is_v6 {
            0
        } else {
            u16::from_be_bytes([head[offset], head[offset + 1]]) & 0x4000
        };
        set(head, offset, flags);
        if !self.is_v6 {
            // The checksum was that of the fragment's header.
            set(head, self.ip + 10, 0);
        }
        self.around.places().for_each(|at| set(head, at, 0));
        true
    }
}

/// Positions of length fields in a packet's headers: at most two per layer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LengthFields {
    places: [u32; 2 * LAYERS_MAX],
    len: usize,
}

impl LengthFields {
    /// Adds the field at offset `at` of a header in `packet`.
    pub fn add(&mut self, packet: &[u8], header: &[u8], at: usize) {
        if let Some(place) = self.places.get_mut(self.len) {
            *place = (place_in(packet, header) + at) as u32;
            self.len += 1;
        }
    }

    fn places(&self) -> impl Iterator<Item = usize> {
        self.places[..self.len].iter().map(|place| *place as usize)
    }
}

/// Offset of `part`, a subslice of `packet`.
fn place_in(packet: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize - packet.as_ptr() as usize).min(packet.len())
}
