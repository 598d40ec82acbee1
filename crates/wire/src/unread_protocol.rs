//! Names of the protocols at which decoding ends: the non-IP content of a capture.

use std::fmt;

use crate::ieee80211::UnreadFrame;

/// Protocol of the innermost decoded header of a packet that is not decodable IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnreadProtocol {
    /// By EtherType.
    EtherType(u16),
    /// By LLC service access point, or network layer protocol of frame relay.
    Llc(u8),
    /// By PPP protocol number.
    Ppp(u16),
    /// A wireless frame.
    Wifi(UnreadFrame),
    /// By link type.
    LinkType(u16),
    /// Any protocol, if there are too many to count separately.
    Other,
}

const ETHER_TYPES: &[(u16, &str)] = &[
    (0x0806, "arp"),
    (0x0842, "wake_on_lan"),
    (0x2000, "cdp"),
    (0x22ea, "msrp"),
    (0x22f0, "avtp"),
    (0x22f3, "trill"),
    (0x6003, "decnet"),
    (0x8035, "rarp"),
    (0x809b, "appletalk"),
    (0x80f3, "appletalk_arp"),
    (0x8137, "ipx"),
    (0x8809, "slow_protocols"),
    (0x880b, "ppp"),
    (0x8863, "pppoe_discovery"),
    (0x8874, "broadcom"),
    (0x887b, "homeplug"),
    (0x888e, "eapol"),
    (0x8892, "profinet"),
    (0x889a, "hyperscsi"),
    (0x88a2, "aoe"),
    (0x88a4, "ethercat"),
    (0x88ab, "powerlink"),
    (0x88b8, "goose"),
    (0x88ba, "sampled_values"),
    (0x88ca, "tipc"),
    (0x88cc, "lldp"),
    (0x88e5, "macsec"),
    (0x88f5, "mvrp"),
    (0x88f7, "ptp"),
    (0x88fb, "prp"),
    (0x8902, "cfm"),
    (0x8906, "fcoe"),
    (0x890d, "wifi_tdls"),
    (0x8914, "fip"),
    (0x8915, "roce"),
    (0x891d, "ttethernet"),
    (0x9000, "loopback_test"),
];

const LLC: &[(u8, &str)] = &[
    (0x42, "stp"),
    (0xaa, "snap"),
    (0xe0, "ipx"),
    (0xf0, "netbios"),
    (0xfe, "osi"),
    (0xff, "ipx"),
];

const PPP: &[(u16, &str)] = &[
    (0x002d, "ppp_compressed_tcp"),
    (0x002f, "ppp_compressed_tcp"),
    (0x0031, "ppp_bridging"),
    (0x003d, "ppp_multilink"),
    (0x00fd, "ppp_compressed"),
    (0x8021, "ppp_ipcp"),
    (0x8057, "ppp_ipv6cp"),
    (0x80fd, "ppp_ccp"),
    (0xc021, "ppp_lcp"),
    (0xc023, "ppp_pap"),
    (0xc025, "ppp_lqr"),
    (0xc223, "ppp_chap"),
];

const LINK_TYPES: &[(u16, &str)] = &[
    (143, "docsis"),
    (187, "bluetooth"),
    (189, "usb"),
    (195, "ieee802_15_4"),
    (201, "bluetooth"),
    (220, "usb"),
    (227, "can"),
    (230, "ieee802_15_4"),
    (231, "dbus"),
    (249, "usb"),
    (253, "netlink"),
    (254, "bluetooth"),
    (271, "vsock"),
    (283, "ieee802_15_4"),
];

fn named<T: Copy + PartialEq>(table: &[(T, &'static str)], number: T) -> Option<&'static str> {
    table
        .iter()
        .find_map(|(known, name)| (*known == number).then_some(*name))
}

impl fmt::Display for UnreadProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::EtherType(number) => named(ETHER_TYPES, number),
            Self::Llc(number) => named(LLC, number),
            Self::Ppp(number) => named(PPP, number),
            Self::Wifi(frame) => Some(frame.name()),
            Self::LinkType(number) => named(LINK_TYPES, number),
            Self::Other => Some("other"),
        };
        match (name, *self) {
            (Some(name), _) => f.write_str(name),
            (None, Self::EtherType(number)) => write!(f, "ethertype_0x{number:04x}"),
            (None, Self::Llc(number)) => write!(f, "llc_0x{number:02x}"),
            (None, Self::Ppp(number)) => write!(f, "ppp_0x{number:04x}"),
            (None, Self::LinkType(number)) => write!(f, "link_type_{number}"),
            (None, Self::Wifi(_) | Self::Other) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (protocol, name) in [
            (UnreadProtocol::EtherType(0x88cc), "lldp"),
            (UnreadProtocol::EtherType(0x1234), "ethertype_0x1234"),
            (UnreadProtocol::Llc(0x42), "stp"),
            (UnreadProtocol::Llc(7), "llc_0x07"),
            (UnreadProtocol::Ppp(0xc021), "ppp_lcp"),
            (UnreadProtocol::Ppp(0x0fff), "ppp_0x0fff"),
            (
                UnreadProtocol::Wifi(UnreadFrame::Encrypted),
                "wifi_encrypted",
            ),
            (UnreadProtocol::LinkType(147), "link_type_147"),
            (UnreadProtocol::LinkType(253), "netlink"),
        ] {
            assert_eq!(protocol.to_string(), name);
        }
    }
}
