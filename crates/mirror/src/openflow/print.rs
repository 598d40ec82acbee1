//! Prints boxes as matches.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::action::PortName;
use super::fields::{KINDS, exact};
use super::rule::Match;
use crate::packets::field::{ARP, ICMP, ICMPV6, IPV4, IPV6, SCTP, TAGGED, TCP, UDP};
use crate::packets::packet::FLAGS;
use crate::packets::{Bits, Cube, FIELDS, Field, Packet};

impl Match {
    /// Checks that OpenFlow can express the match of the box exactly.
    ///
    /// # Errors
    /// The field that cannot be expressed.
    pub fn check(&self) -> Result<(), String> {
        let given = |field: Field| self.cube.get(field).mask != 0;
        let whole = |field: Field| !given(field) || exact(&self.cube, field).is_some();
        let (kind, protocol) = (exact(&self.cube, Field::EthType), exact(&self.cube, Field::Protocol));
        let is_ip = matches!(kind, Some(IPV4 | IPV6));
        let has_addresses = is_ip || kind == Some(ARP);
        let has_ports = is_ip && matches!(protocol, Some(TCP | UDP | SCTP | ICMP | ICMPV6));
        for (field, fits) in [
            (Field::InPort, whole(Field::InPort)),
            (Field::EthType, whole(Field::EthType)),
            (Field::Source, has_addresses),
            (Field::Destination, has_addresses),
            (Field::Protocol, has_addresses && whole(Field::Protocol)),
            (Field::SourcePort, has_ports),
            (Field::DestinationPort, has_ports),
            (Field::TcpFlags, is_ip && protocol == Some(TCP)),
            (Field::Other, false),
        ] {
            if given(field) && !fits {
                return Err(format!("no match says {field:?} of these packets: {self}"));
            }
        }
        Ok(())
    }
}

/// Formats for `ovs-ofctl`.
impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut terms = Vec::new();
        let cube = &self.cube.canonical();
        kind(&mut terms, cube);
        let port = cube.get(Field::InPort);
        if port.mask == Field::InPort.full() {
            terms.push(format!("in_port={}", PortName(port.value as u32)));
        } else if port.mask != 0 {
            terms.push(format!("in_port={}", number(port, Field::InPort)));
        }
        for (name, field) in [("dl_src", Field::MacSource), ("dl_dst", Field::MacDestination)] {
            terms.extend(masked(cube.get(field), field, mac).map(|text| format!("{name}={text}")));
        }
        vlan(&mut terms, cube.get(Field::Vlan));
        addresses(&mut terms, cube);
        for (name, field) in [("tp_src", Field::SourcePort), ("tp_dst", Field::DestinationPort)] {
            let bits = cube.get(field);
            if bits.mask != 0 {
                terms.push(format!("{name}={}", number(bits, field)));
            }
        }
        flags(&mut terms, cube.get(Field::TcpFlags));
        if cube.get(Field::Other).mask != 0 {
            terms.push(format!("other={}", number(cube.get(Field::Other), Field::Other)));
        }
        terms.extend(self.other.iter().cloned());
        f.write_str(&terms.join(","))
    }
}

/// Formats a packet for `ofproto/trace`.
#[must_use]
pub fn flow(packet: &Packet) -> String {
    let flags = packet.get(Field::TcpFlags);
    let cube =
        packet.cube().with_bits(Field::TcpFlags, Bits::default()).with_bits(Field::Other, Bits::default());
    let is_tcp = packet.get(Field::Protocol) == TCP && [IPV4, IPV6].contains(&packet.get(Field::EthType));
    let has_ports = [TCP, UDP, SCTP].contains(&packet.get(Field::Protocol));
    // Fields absent in the packet cannot be given.
    let has = |field: Field| match field {
        Field::Source | Field::Destination => [IPV4, IPV6, ARP].contains(&packet.get(Field::EthType)),
        Field::SourcePort | Field::DestinationPort => {
            has_ports && [IPV4, IPV6].contains(&packet.get(Field::EthType))
        }
        Field::Protocol => [IPV4, IPV6, ARP].contains(&packet.get(Field::EthType)),
        Field::Vlan => packet.get(Field::Vlan) != 0,
        _ => true,
    };
    let cube = FIELDS
        .iter()
        .filter(|field| !has(**field))
        .fold(cube, |cube, field| cube.with_bits(*field, Bits::default()));
    // Port fields are named by protocol here.
    let name = match packet.get(Field::Protocol) {
        UDP => "udp_",
        SCTP => "sctp_",
        _ => "tcp_",
    };
    let text = Match::from(cube).to_string().replace("tp_", name);
    if is_tcp { format!("{text},tcp_flags=0x{flags:03x}") } else { text }
}

fn kind(terms: &mut Vec<String>, cube: &Cube) {
    let (kind, protocol) = (exact(cube, Field::EthType), exact(cube, Field::Protocol));
    let word = KINDS.iter().find(|(_, k, p)| Some(*k) == kind && p.is_none_or(|p| Some(p) == protocol));
    match word {
        Some((word, ..)) => terms.push((*word).to_owned()),
        None if cube.get(Field::EthType).mask != 0 => {
            terms.push(format!("dl_type={}", number(cube.get(Field::EthType), Field::EthType)));
        }
        None => {}
    }
    let is_said = word.is_some_and(|(.., p)| p.is_some());
    if cube.get(Field::Protocol).mask != 0 && !is_said {
        let name = if kind == Some(ARP) { "arp_op" } else { "nw_proto" };
        terms.push(format!("{name}={}", number(cube.get(Field::Protocol), Field::Protocol)));
    }
}

fn vlan(terms: &mut Vec<String>, bits: Bits) {
    let tag = Field::Vlan.full();
    match bits {
        Bits { mask: 0, .. } => {}
        Bits { mask, value } if mask == tag && value & TAGGED != 0 => {
            terms.push(format!("dl_vlan={}", value & 0xfff))
        }
        Bits { mask, value } => terms.push(format!("vlan_tci=0x{value:04x}/0x{mask:04x}")),
    }
}

fn addresses(terms: &mut Vec<String>, cube: &Cube) {
    let ends = [Field::Source, Field::Destination];
    let (names, v6) = match exact(cube, Field::EthType) {
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
            address(Bits::new(bits.value & low, bits.mask & low), 32, v4)
        };
        terms.extend(text.map(|text| format!("{name}={text}")));
    }
}

/// An address with prefix length, or with mask.
fn address(bits: Bits, width: u32, text: impl Fn(u128) -> String) -> Option<String> {
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

fn masked(bits: Bits, field: Field, text: fn(u128) -> String) -> Option<String> {
    match bits.mask {
        0 => None,
        mask if mask == field.full() => Some(text(bits.value)),
        mask => Some(format!("{}/{}", text(bits.value), text(mask))),
    }
}

fn mac(number: u128) -> String {
    let bytes: Vec<String> = number.to_be_bytes()[10..].iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

fn number(bits: Bits, field: Field) -> String {
    let is_hex = matches!(field, Field::EthType | Field::Other);
    match bits.mask == field.full() {
        true if is_hex => format!("0x{:04x}", bits.value),
        true => bits.value.to_string(),
        false => format!("0x{:x}/0x{:x}", bits.value, bits.mask),
    }
}

fn flags(terms: &mut Vec<String>, bits: Bits) {
    if bits.mask == 0 {
        return;
    }
    let mut text = String::new();
    for (i, name) in FLAGS.iter().enumerate().filter(|(i, _)| bits.mask >> i & 1 == 1) {
        text.push(if bits.value >> i & 1 == 1 { '+' } else { '-' });
        text.push_str(name);
    }
    terms.push(format!("tcp_flags={text}"));
}
