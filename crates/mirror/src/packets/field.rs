//! Fields of a packet seen by a switch, as in Open vSwitch. A field that a packet does not have is 0; ARP has its
//! addresses and operation in place of IP addresses and protocol, ICMP its type and code in place of ports.

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MatchField {
    /// Input port of the switch.
    InPort,
    /// Ethernet source.
    MacSource,
    /// Ethernet destination.
    MacDestination,
    /// 802.1Q: 0 without a tag, otherwise [`TAGGED`] and the VLAN id.
    Vlan,
    /// EtherType, after a tag.
    EthType,
    /// Network source; IPv4 in the last 32 bits.
    Source,
    /// Network destination.
    Destination,
    /// IP protocol.
    Protocol,
    /// Transport source port.
    SourcePort,
    /// Transport destination port.
    DestinationPort,
    /// TCP flags.
    TcpFlags,
    /// Conditions outside the model, one bit each.
    Other,
}

/// All fields, in order.
pub const FIELDS: [MatchField; 12] = [
    MatchField::InPort,
    MatchField::MacSource,
    MatchField::MacDestination,
    MatchField::Vlan,
    MatchField::EthType,
    MatchField::Source,
    MatchField::Destination,
    MatchField::Protocol,
    MatchField::SourcePort,
    MatchField::DestinationPort,
    MatchField::TcpFlags,
    MatchField::Other,
];

/// Bit of [`MatchField::Vlan`] for a tagged packet.
pub const TAGGED: u128 = 0x1000;
/// EtherTypes.
pub const IPV4: u128 = 0x0800;
/// See [`IPV4`].
pub const IPV6: u128 = 0x86dd;
/// See [`IPV4`].
pub const ARP: u128 = 0x0806;
/// Value used by switches for frames with a length field.
pub const WITHOUT_TYPE: u128 = 0x05ff;
/// IP protocols.
pub const TCP: u128 = 6;
/// See [`TCP`].
pub const UDP: u128 = 17;
/// See [`TCP`].
pub const SCTP: u128 = 132;
/// See [`TCP`].
pub const ICMP: u128 = 1;
/// See [`TCP`].
pub const ICMPV6: u128 = 58;

impl MatchField {
    /// Width in bits.
    #[must_use]
    pub fn width(self) -> u32 {
        match self {
            MatchField::InPort => 32,
            MatchField::MacSource | MatchField::MacDestination => 48,
            MatchField::Vlan => 13,
            MatchField::EthType | MatchField::SourcePort | MatchField::DestinationPort => 16,
            MatchField::Source | MatchField::Destination | MatchField::Other => 128,
            MatchField::Protocol => 8,
            MatchField::TcpFlags => 12,
        }
    }

    /// Mask of all bits.
    #[must_use]
    pub fn full(self) -> u128 {
        u128::MAX >> (128 - self.width())
    }
}
