//! Prints boxes as matches.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::action::PortName;
use super::fields::{KINDS, exact};
use super::rule::FlowMatch;
use crate::packets::field::{ARP, ICMP, ICMPV6, IPV4, IPV6, SCTP, TAGGED, TCP, UDP};
use crate::packets::packet::FLAGS;
use crate::packets::{FIELDS, MaskedBits, MatchField, ModelPacket, PacketCube};

impl FlowMatch {
    /// Checks that OpenFlow can express the match of the box exactly.
    ///
    /// # Errors
    /// The field that cannot be expressed.
    pub fn check(&self) -> Result<(), String> {
        let given = |field: MatchField| self.cube.get(field).mask != 0;
        let whole = |field: MatchField| !given(field) || exact(&self.cube, field).is_some();
        let kind = exact(&self.cube, MatchField::EthType);
        let protocol = exact(&self.cube, MatchField::Protocol);
        let is_ip = matches!(kind, Some(IPV4 | IPV6));
        let has_addresses = is_ip || kind == Some(ARP);
        let has_ports = is_ip && matches!(protocol, Some(TCP | UDP | SCTP | ICMP | ICMPV6));
        for (field, fits) in [
            (MatchField::InPort, whole(MatchField::InPort)),
            (MatchField::EthType, whole(MatchField::EthType)),
            (MatchField::Source, has_addresses),
            (MatchField::Destination, has_addresses),
            (
                MatchField::Protocol,
                has_addresses && whole(MatchField::Protocol),
            ),
            (MatchField::SourcePort, has_ports),
            (MatchField::DestinationPort, has_ports),
            (MatchField::TcpFlags, is_ip && protocol == Some(TCP)),
            (MatchField::Other, false),
        ] {
            if given(field) && !fits {
                return Err(format!(
                    "no match can express {field:?} for these packets: {self}"
                ));
            }
        }
        Ok(())
    }
}

/// Formats for `ovs-ofctl`.
impl fmt::Display for FlowMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut terms = Vec::new();
        let cube = &self.cube.canonical();
        kind(&mut terms, cube);
        let port = cube.get(MatchField::InPort);
        if port.mask == MatchField::InPort.full() {
            terms.push(format!("in_port={}", PortName(port.value as u32)));
        } else if port.mask != 0 {
            terms.push(format!("in_port={}", number(port, MatchField::InPort)));
        }
        for (name, field) in [
            ("dl_src", MatchField::MacSource),
            ("dl_dst", MatchField::MacDestination),
        ] {
            terms.extend(masked(cube.get(field), field, mac).map(|text| format!("{name}={text}")));
        }
        vlan(&mut terms, cube.get(MatchField::Vlan));
        addresses(&mut terms, cube);
        for (name, field) in [
            ("tp_src", MatchField::SourcePort),
            ("tp_dst", MatchField::DestinationPort),
        ] {
            let bits = cube.get(field);
            if bits.mask != 0 {
                terms.push(format!("{name}={}", number(bits, field)));
            }
        }
        flags(&mut terms, cube.get(MatchField::TcpFlags));
        if cube.get(MatchField::Other).mask != 0 {
            terms.push(format!(
                "other={}",
                number(cube.get(MatchField::Other), MatchField::Other)
            ));
        }
        terms.extend(self.other.iter().cloned());
        f.write_str(&terms.join(","))
    }
}

/// Formats a packet for `ofproto/trace`.
#[must_use]
pub fn flow(packet: &ModelPacket) -> String {
    let flags = packet.get(MatchField::TcpFlags);
    let cube = packet
        .cube()
        .with_bits(MatchField::TcpFlags, MaskedBits::default())
        .with_bits(MatchField::Other, MaskedBits::default());
    let is_tcp = packet.get(MatchField::Protocol) == TCP
        && [IPV4, IPV6].contains(&packet.get(MatchField::EthType));
    let has_ports = [TCP, UDP, SCTP].contains(&packet.get(MatchField::Protocol));
    // Fields absent in the packet cannot be given.
    let has = |field: MatchField| match field {
        MatchField::Source | MatchField::Destination => {
            [IPV4, IPV6, ARP].contains(&packet.get(MatchField::EthType))
        }
        MatchField::SourcePort | MatchField::DestinationPort => {
            has_ports && [IPV4, IPV6].contains(&packet.get(MatchField::EthType))
        }
        MatchField::Protocol => [IPV4, IPV6, ARP].contains(&packet.get(MatchField::EthType)),
        MatchField::Vlan => packet.get(MatchField::Vlan) != 0,
        _ => true,
    };
    let cube = FIELDS
        .iter()
        .filter(|field| !has(**field))
        .fold(cube, |cube, field| {
            cube.with_bits(*field, MaskedBits::default())
        });
    // Port fields are named by protocol here.
    let name = match packet.get(MatchField::Protocol) {
        UDP => "udp_",
        SCTP => "sctp_",
        _ => "tcp_",
    };
    let text = FlowMatch::from(cube).to_string().replace("tp_", name);
    if is_tcp {
        format!("{text},tcp_flags=0x{flags:03x}")
    } else {
        text
    }
}

fn kind(terms: &mut Vec<String>, cube: &PacketCube) {
    let kind = exact(cube, MatchField::EthType);
    let protocol = exact(cube, MatchField::Protocol);
    let word = KINDS
        .iter()
        .find(|(_, k, p)| Some(*k) == kind && p.is_none_or(|p| Some(p) == protocol));
    match word {
        Some((word, ..)) => terms.push((*word).to_owned()),
        None if cube.get(MatchField::EthType).mask != 0 => {
            terms.push(format!(
                "dl_type={}",
                number(cube.get(MatchField::EthType), MatchField::EthType)
            ));
        }
        None => {}
    }
    let is_said = word.is_some_and(|(.., p)| p.is_some());
    if cube.get(MatchField::Protocol).mask != 0 && !is_said {
        let name = if kind == Some(ARP) {
            "arp_op"
        } else {
            "nw_proto"
        };
        terms.push(format!(
            "{name}={}",
            number(cube.get(MatchField::Protocol), MatchField::Protocol)
        ));
    }
}

fn vlan(terms: &mut Vec<String>, bits: MaskedBits) {
    let tag = MatchField::Vlan.full();
    match bits {
        MaskedBits { mask: 0, .. } => {}
        MaskedBits { mask, value } if mask == tag && value & TAGGED != 0 => {
            terms.push(format!("dl_vlan={}", value & 0xfff))
        }
        MaskedBits { mask, value } => terms.push(format!("vlan_tci=0x{value:04x}/0x{mask:04x}")),
    }
}

fn addresses(terms: &mut Vec<String>, cube: &PacketCube) {
    let ends = [MatchField::Source, MatchField::Destination];
    let (names, v6) = match exact(cube, MatchField::EthType) {
        Some(IPV4) => (["nw_src", "nw_dst"], false),
        Some(ARP) => (["arp_spa", "arp_tpa"], false),
        Some(IPV6) => (["ipv6_src", "ipv6_dst"], true),
        _ => (["source", "destination"], true),
    };
    for (name, field) in names.iter().zip(ends) {
        let bits = cube.get(field);
        let text = if v6 {
            address(bits, 128, |n| Ipv6Addr::from(n).to_string())
        } else {
            let low = u128::from(u32::MAX);
            let v4 = |n: u128| Ipv4Addr::from(n as u32).to_string();
            address(MaskedBits::new(bits.value & low, bits.mask & low), 32, v4)
        };
        terms.extend(text.map(|text| format!("{name}={text}")));
    }
}

/// An address with prefix length, or with mask.
fn address(bits: MaskedBits, width: u32, text: impl Fn(u128) -> String) -> Option<String> {
    let full = u128::MAX >> (128 - width);
    let length = bits.mask.count_ones();
    let prefix = full & !full.checked_shr(length).unwrap_or(0);
    match length {
        0 => None,
        _ if bits.mask == full => Some(text(bits.value)),
        _ if bits.mask == prefix => Some(format!("{}/{length}", text(bits.value))),
        _ => Some(format!("{}/{}", text(bits.value), text(bits.mask))),
    }
}

fn masked(bits: MaskedBits, field: MatchField, text: fn(u128) -> String) -> Option<String> {
    match bits.mask {
        0 => None,
        mask if mask == field.full() => Some(text(bits.value)),
        mask => Some(format!("{}/{}", text(bits.value), text(mask))),
    }
}

fn mac(number: u128) -> String {
    let bytes: Vec<String> = number.to_be_bytes()[10..]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    bytes.join(":")
}

fn number(bits: MaskedBits, field: MatchField) -> String {
    let is_hex = matches!(field, MatchField::EthType | MatchField::Other);
    if bits.mask != field.full() {
        format!("0x{:x}/0x{:x}", bits.value, bits.mask)
    } else if is_hex {
        format!("0x{:04x}", bits.value)
    } else {
        bits.value.to_string()
    }
}

fn flags(terms: &mut Vec<String>, bits: MaskedBits) {
    if bits.mask == 0 {
        return;
    }
    let mut text = String::new();
    for (i, name) in FLAGS
        .iter()
        .enumerate()
        .filter(|(i, _)| bits.mask >> i & 1 == 1)
    {
        text.push(if bits.value >> i & 1 == 1 { '+' } else { '-' });
        text.push_str(name);
    }
    terms.push(format!("tcp_flags={text}"));
}
