//! Link types of pcap and pcapng (<https://www.tcpdump.org/linktypes.html>): the type of a packet's first header.

/// Link types; the common ones are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// LINKTYPE_ETHERNET, 1.
    Ethernet,
    /// LINKTYPE_NULL, 0: a 4-byte address family in the byte order of the capturing machine.
    Null,
    /// LINKTYPE_LOOP, 108: the same in network byte order.
    Loop,
    /// LINKTYPE_RAW, 101 (12 and 14 on some systems): IPv4 or IPv6 by its version field.
    Raw,
    /// LINKTYPE_IPV4, 228.
    Ipv4,
    /// LINKTYPE_IPV6, 229.
    Ipv6,
    /// LINKTYPE_LINUX_SLL, 113: Linux cooked v1.
    LinuxSll,
    /// LINKTYPE_LINUX_SLL2, 276: Linux cooked v2.
    LinuxSll2,
    /// Any other, by number: some are decoded, the rest is counted as undecodable.
    Other(u16),
}

impl LinkType {
    /// LINKTYPE_MPLS, 219: a stack of labels.
    pub const MPLS: LinkType = LinkType::Other(219);
}

impl From<u16> for LinkType {
    fn from(n: u16) -> Self {
        match n {
            0 => Self::Null,
            1 => Self::Ethernet,
            12 | 14 | 101 => Self::Raw,
            108 => Self::Loop,
            113 => Self::LinuxSll,
            228 => Self::Ipv4,
            229 => Self::Ipv6,
            276 => Self::LinuxSll2,
            n => Self::Other(n),
        }
    }
}

impl From<LinkType> for u16 {
    /// The LINKTYPE_ number for files.
    fn from(link_type: LinkType) -> u16 {
        match link_type {
            LinkType::Null => 0,
            LinkType::Ethernet => 1,
            LinkType::Raw => 101,
            LinkType::Loop => 108,
            LinkType::LinuxSll => 113,
            LinkType::Ipv4 => 228,
            LinkType::Ipv6 => 229,
            LinkType::LinuxSll2 => 276,
            LinkType::Other(n) => n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!([12, 14, 101].map(LinkType::from), [LinkType::Raw; 3]);
        assert_eq!(LinkType::from(276), LinkType::LinuxSll2);
        assert_eq!(LinkType::from(147), LinkType::Other(147));
        for n in (0..300).filter(|n| !matches!(n, 12 | 14)) {
            assert_eq!(u16::from(LinkType::from(n)), n);
        }
    }
}
