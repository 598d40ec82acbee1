//! Signatures of datagram protocols, and of DNS, which also uses TCP.

use wire::IpProtocol;

use super::bytes::{ber_length, u16_at, u32_at, when, with};
use crate::{ProbeContext, ProbeResult};

/// DNS message, over TCP with a length prefix: questions with valid names, or records only.
pub fn dns(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    in_message(bytes, context, |message| match u16_at(message, 4) {
        0 => {
            let is_response = message[2] & 0x80 != 0;
            let fits = u16_at(message, 6) > 0 || u16_at(message, 8) > 0;
            // Multicast announcements have no question, and an error may omit it.
            context.usual_port && is_response && (fits || message.len() == 12)
        }
        1..=16 => question(&message[12..]).is_some_and(|(_, kind, class)| {
            let class = class & 0x7fff;
            kind > 0
                && (matches!(class, 1 | 3 | 4 | 254 | 255) || context.usual_port && class < 0x100)
        }),
        _ => false,
    })
}

/// NetBIOS name message: a name of 32 letters, each encoding half a byte.
pub fn netbios(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    in_message(bytes, context, |message| {
        let name = message.get(13..45);
        message.get(12) == Some(&32)
            && name.is_some_and(|name| name.iter().all(|b| (b'A'..=b'P').contains(b)))
    })
}

fn in_message(bytes: &[u8], context: ProbeContext, is: impl FnOnce(&[u8]) -> bool) -> ProbeResult {
    let bytes = match context.transport {
        IpProtocol::TCP if bytes.len() < 14 => return ProbeResult::NeedMore,
        IpProtocol::TCP if usize::from(u16_at(bytes, 0)) < 12 => return ProbeResult::NotForUs,
        IpProtocol::TCP
            if usize::from(u16_at(bytes, 0)) + 2 > bytes.len() && !context.usual_port =>
        {
            return ProbeResult::NotForUs;
        }
        IpProtocol::TCP => &bytes[2..],
        _ => bytes,
    };
    when(bytes.len() >= 12 && is_header(bytes, context) && is(bytes))
}

/// Header with defined operation and response codes, zero reserved bits, and a plausible number of records.
fn is_header(message: &[u8], context: ProbeContext) -> bool {
    let operation = message[2] >> 3 & 0xf;
    let is_query = message[2] & 0x80 == 0;
    let records = [6, 8, 10]
        .iter()
        .map(|at| u32::from(u16_at(message, *at)))
        .sum::<u32>();
    let few = if is_query && operation == 0 { 16 } else { 4096 };
    (operation <= 2 || (4..=6).contains(&operation) || context.usual_port)
        && message[3] & 0x40 == 0
        && records <= few
}

/// First question: number of labels, type, and class.
fn question(mut bytes: &[u8]) -> Option<(usize, u16, u16)> {
    for labels in 0..128 {
        let (len, rest) = bytes.split_first()?;
        match usize::from(*len) {
            0 => {
                return Some((labels, u16_at(rest, 0), u16_at(rest, 2)))
                    .filter(|_| rest.len() >= 4);
            }
            len @ 1..=63 => {
                let label = rest.get(..len)?;
                if label.iter().any(|b| *b < 0x20 && *b != 0) {
                    return None;
                }
                bytes = &rest[len..];
            }
            _ => return None,
        }
    }
    None
}

/// Request or response: an ASN.1 application tag and its length; over TCP with a length prefix.
pub fn kerberos(bytes: &[u8], transport: IpProtocol) -> ProbeResult {
    with(bytes, 10, |b| {
        let b = if transport == IpProtocol::TCP {
            &b[4..]
        } else {
            b
        };
        matches!(b[0], 0x6a..=0x6f | 0x74..=0x76 | 0x7e)
            && ber_length(&b[1..]).is_some_and(|(len, _)| len > 8)
    })
}

/// Magic cookie of RFC 8489, and a matching length.
pub fn stun(bytes: &[u8], _: ProbeContext) -> ProbeResult {
    with(bytes, 20, |b| {
        b[0] & 0xc0 == 0 && u16_at(b, 2).is_multiple_of(4) && u32_at(b, 4) == 0x2112_a442
    })
}

/// Long header of a known version, or the first packet of Google QUIC.
pub fn quic(bytes: &[u8], _: ProbeContext) -> ProbeResult {
    let is_version = |version: u32| {
        matches!(version, 1 | 0x6b33_43cf | 0x709a_50c4)
            || (0xff00_0011..=0xff00_0022).contains(&version)
            || version & 0xffff_f0f0 == 0x5130_3030
            || version >> 8 == 0x54_3035
    };
    when(
        bytes.len() >= 20
            && (bytes[0] & 0x80 != 0 && is_version(u32_at(bytes, 1)) && bytes[5] <= 0x55
                || bytes[0] & 0xc9 == 0x09 && is_version(u32_at(bytes, 9))),
    )
}

/// DTLS record.
pub fn dtls(bytes: &[u8], _: ProbeContext) -> ProbeResult {
    when(
        bytes.len() >= 14
            && (0x14..=0x19).contains(&bytes[0])
            && bytes[1] == 0xfe
            && matches!(bytes[2], 0xff | 0xfd)
            && usize::from(u16_at(bytes, 11)) + 13 <= bytes.len(),
    )
}

/// BOOTP with the magic cookie; on the usual ports also without it, in truncated captures.
pub fn dhcp(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let is_bootp = matches!(bytes, [1 | 2, 1, 6, ..]);
    when(match bytes.len() {
        240.. => matches!(bytes[0], 1 | 2) && u32_at(bytes, 236) == 0x6382_5363,
        _ => is_bootp && context.usual_port,
    })
}

/// NetBIOS datagram header.
pub fn netbios_datagram(bytes: &[u8]) -> ProbeResult {
    when(bytes.len() >= 14 && (0x10..=0x16).contains(&bytes[0]))
}

/// Defined message type, followed by an option.
pub fn dhcpv6(bytes: &[u8]) -> ProbeResult {
    when(bytes.len() >= 8 && (1..=36).contains(&bytes[0]))
}

/// Version, mode, and a matching length.
pub fn ntp(bytes: &[u8]) -> ProbeResult {
    let version = bytes.first().map_or(0, |b| b >> 3 & 7);
    let mode = bytes.first().map_or(0, |b| b & 7);
    when(
        (1..=4).contains(&version)
            && (mode >= 6 && bytes.len() >= 8 || mode >= 1 && bytes.len() >= 48),
    )
}

/// Sequence of version and community, or version 3 and its header.
pub fn snmp(bytes: &[u8], _: ProbeContext) -> ProbeResult {
    let is = || {
        let (_, n) = ber_length(bytes.get(1..)?)?;
        let rest = bytes.get(1 + n..)?;
        Some(bytes[0] == 0x30 && matches!(rest, [2, 1, 0 | 1, 4, ..] | [2, 1, 3, 0x30, ..]))
    };
    when(is().unwrap_or(false))
}

/// Priority in angle brackets.
pub fn syslog(bytes: &[u8]) -> ProbeResult {
    let digits = bytes
        .iter()
        .skip(1)
        .take_while(|b| b.is_ascii_digit())
        .count();
    when(
        bytes.first() == Some(&b'<')
            && (1..=3).contains(&digits)
            && bytes.get(1 + digits) == Some(&b'>'),
    )
}

/// Defined code, and a matching length.
pub fn radius(bytes: &[u8]) -> ProbeResult {
    let len = usize::from(u16_at(bytes, 2));
    when(bytes.len() >= 20 && (1..=50).contains(&bytes[0]) && (20..=bytes.len()).contains(&len))
}

/// Defined TFTP opcode.
pub fn tftp(bytes: &[u8]) -> ProbeResult {
    when(bytes.len() >= 4 && matches!(u16_at(bytes, 0), 1..=6))
}

/// Version 1, and a valid token length.
pub fn coap(bytes: &[u8]) -> ProbeResult {
    when(bytes.len() >= 4 && bytes[0] >> 6 == 1 && bytes[0] & 0xf <= 8)
}

/// The two handshake messages, which have fixed lengths.
pub fn wireguard(bytes: &[u8], _: ProbeContext) -> ProbeResult {
    when(matches!(
        (bytes.len(), bytes),
        (148, [1, 0, 0, 0, ..]) | (92, [2, 0, 0, 0, ..])
    ))
}

/// Version 5 with the length of its records, or version 9.
pub fn netflow(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let records = usize::from(u16_at(bytes, 2));
    when(match u16_at(bytes, 0) {
        5 => (1..=30).contains(&records) && bytes.len() >= 24 + 48 * records,
        9 => {
            let set = u16_at(bytes, 20);
            let len = usize::from(u16_at(bytes, 22));
            let begins = set <= 1 || set > 255 && context.usual_port;
            begins
                && bytes.len() >= 24
                && (1..1000).contains(&records)
                && (4..=bytes.len() - 20).contains(&len)
        }
        _ => false,
    })
}

/// Version 10 with the length of the message.
pub fn ipfix(bytes: &[u8], _: ProbeContext) -> ProbeResult {
    when(
        bytes.len() >= 20 && u16_at(bytes, 0) == 10 && usize::from(u16_at(bytes, 2)) == bytes.len(),
    )
}
