//! A decoded packet: a plain value that borrows its payload from the captured bytes.

use std::ops::BitOr;

use crate::captured_packet::CapturedPacket;
use crate::five_tuple::FiveTuple;
use crate::seq::TcpSeq;
use crate::time::Timestamp;
use crate::tunnel::Tunnel;

/// A packet decoded down to its transport payload; in tunnels, the innermost one.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Time by the capture's clock.
    pub ts: Timestamp,
    /// Length on the wire, link header and tunnels included.
    pub original_len: u32,
    /// Addresses, ports and protocol.
    pub five_tuple: FiveTuple,
    /// IPv4 TTL or IPv6 hop limit.
    pub ttl: u8,
    /// IPv4 identification, which a sender usually increments (RFC 6864 §3), equal in all copies of a packet; 0 for
    /// IPv6.
    pub ip_id: u16,
    /// The outermost Ethernet addresses, receiver first.
    pub macs: Option<&'a [u8; 12]>,
    /// VLAN; of stacked tags the last.
    pub vlan: Option<u16>,
    /// Tunnels around the packet.
    pub tunnel: Tunnel,
    /// The transport header.
    pub transport: TransportHeader,
    /// TCP or UDP checksum from the header; 0 if none.
    pub checksum: u16,
    /// IPv4 header with its options; empty for IPv6.
    pub ip_header: &'a [u8],
    /// Captured transport header and payload.
    pub segment: &'a [u8],
    /// Captured transport payload, without link padding.
    pub payload: &'a [u8],
    /// Length of the transport payload on the wire; exceeds `payload` if cut by the snaplen.
    pub payload_original_len: u32,
}

/// The transport header of a [`Packet`].
#[derive(Clone, Copy, Debug)]
pub enum TransportHeader {
    /// TCP.
    Tcp(TcpInfo),
    /// UDP.
    Udp,
    /// ICMP or ICMPv6: type and code.
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
    },
    /// Anything else; ports are 0.
    Other,
}

/// Fields of a TCP header that the flow table needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpInfo {
    /// Sequence number.
    pub seq: TcpSeq,
    /// Acknowledgment number; meaningful with [`TcpFlags::ACK`].
    pub ack: TcpSeq,
    /// Flags.
    pub flags: TcpFlags,
    /// Window as in the header, unscaled.
    pub window: u16,
}

/// Flag byte of a TCP header. Test with [`TcpFlags::contains`] (all of) or [`TcpFlags::intersects`] (any of).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: TcpFlags = TcpFlags(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: TcpFlags = TcpFlags(0x02);
    /// Reset.
    pub const RST: TcpFlags = TcpFlags(0x04);
    /// Push.
    pub const PSH: TcpFlags = TcpFlags(0x08);
    /// The acknowledgment field is valid.
    pub const ACK: TcpFlags = TcpFlags(0x10);
    /// The urgent pointer is valid.
    pub const URG: TcpFlags = TcpFlags(0x20);

    /// Whether all of `flags` are set.
    #[inline]
    #[must_use]
    pub fn contains(self, flags: TcpFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    #[inline]
    #[must_use]
    pub fn intersects(self, flags: TcpFlags) -> bool {
        self.0 & flags.0 != 0
    }
}

impl BitOr for TcpFlags {
    type Output = TcpFlags;
    fn bitor(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 | other.0)
    }
}

/// Receiver of decoded packets. Its method should be `#[inline(always)]`, see [`Packet::decode_into`].
pub trait PacketConsumer<'a> {
    /// Handles a packet decoded from `captured`.
    fn packet(&mut self, captured: &CapturedPacket<'a>, packet: &Packet<'a>);
}
