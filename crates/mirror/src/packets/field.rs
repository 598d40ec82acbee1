//! What a switch sees of a packet: the fields of a match, as Open vSwitch keeps them. A field that a packet does not have is 0; ARP has
//! its addresses and its operation where IP has its addresses and its protocol, ICMP its type and code where TCP has its ports.

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// The port at which the packet entered the switch.
    InPort,
    /// Ethernet source.
    MacSource,
    /// Ethernet destination.
    MacDestination,
    /// 802.1Q: 0 without a tag, else [`TAGGED`] and the number.
    Vlan,
    /// EtherType, behind a tag.
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
    /// Conditions that are not modelled, a bit each: whether it holds.
    Other,
}

/// All of them, in order.
pub const FIELDS: [Field; 12] = [
    Field::InPort,
    Field::MacSource,
    Field::MacDestination,
    Field::Vlan,
    Field::EthType,
    Field::Source,
    Field::Destination,
    Field::Protocol,
    Field::SourcePort,
    Field::DestinationPort,
    Field::TcpFlags,
    Field::Other,
];

/// The bit of [`Field::Vlan`] that says that there is a tag.
pub const TAGGED: u128 = 0x1000;
/// EtherTypes.
pub const IPV4: u128 = 0x0800;
/// See [`IPV4`].
pub const IPV6: u128 = 0x86dd;
/// See [`IPV4`].
pub const ARP: u128 = 0x0806;
/// What a switch says of frames that have a length in this place.
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

impl Field {
    /// How many bits it has.
    #[must_use]
    pub fn width(self) -> u32 {
        match self {
            Field::InPort => 32,
            Field::MacSource | Field::MacDestination => 48,
            Field::Vlan => 13,
            Field::EthType | Field::SourcePort | Field::DestinationPort => 16,
            Field::Source | Field::Destination | Field::Other => 128,
            Field::Protocol => 8,
            Field::TcpFlags => 12,
        }
    }

    /// All of its bits.
    #[must_use]
    pub fn full(self) -> u128 {
        u128::MAX >> (128 - self.width())
    }
}
