//! What a packet is once it is decoded: a plain value, whose payload is borrowed from the captured bytes.

use std::ops::BitOr;

use crate::captured::Captured;
use crate::five_tuple::FiveTuple;
use crate::seq::TcpSeq;
use crate::time::Timestamp;
use crate::tunnel::Tunnel;

/// A packet decoded down to its transport payload: the innermost one, where it came through tunnels.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// When.
    pub ts: Timestamp,
    /// Length on the wire, link header and tunnels included.
    pub original_len: u32,
    /// Addresses, ports and protocol.
    pub five_tuple: FiveTuple,
    /// IPv4 TTL or IPv6 hop limit.
    pub ttl: u8,
    /// IPv4 identification, which a sender usually counts up (RFC 6864 §3), equal in all copies of a packet; 0 with IPv6.
    pub ip_id: u16,
    /// The outermost Ethernet addresses, the receiver's before the sender's.
    pub macs: Option<&'a [u8; 12]>,
    /// Its VLAN; of stacked tags that of the last.
    pub vlan: Option<u16>,
    /// What it came through.
    pub tunnel: Tunnel,
    /// The transport header.
    pub transport: Transport,
    /// The checksum of TCP or UDP as the header has it; 0 where there is none.
    pub checksum: u16,
    /// Transport header and payload as captured.
    pub segment: &'a [u8],
    /// Transport payload as captured; link padding is not part of it.
    pub payload: &'a [u8],
    /// Transport payload on the wire: more than `payload` when the snaplen cut it.
    pub payload_original_len: u32,
}

/// The transport header of a [`Packet`].
#[derive(Clone, Copy, Debug)]
pub enum Transport {
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

/// What the flow table needs of a TCP header.
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

/// The flag byte of a TCP header. Test with [`TcpFlags::contains`] (all of) or [`TcpFlags::intersects`] (any of).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: TcpFlags = TcpFlags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: TcpFlags = TcpFlags(0x02);
    /// Reset.
    pub const RST: TcpFlags = TcpFlags(0x04);
    /// Push.
    pub const PSH: TcpFlags = TcpFlags(0x08);
    /// The acknowledgment field counts.
    pub const ACK: TcpFlags = TcpFlags(0x10);
    /// Urgent pointer counts.
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

/// Who takes decoded packets. Its method is best `#[inline(always)]`, see [`Packet::decode_into`].
pub trait TakePacket<'a> {
    /// Takes one, which was `captured`.
    fn packet(&mut self, captured: &Captured<'a>, packet: &Packet<'a>);
}
