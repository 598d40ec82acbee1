//! Signatures of TCP protocols other than databases.

use super::bytes::{
    begins, ber_length, either, holds, line, on_usual_port, u16_at, u32_at, when, with,
};
use crate::{Direction, ProbeContext, ProbeResult};

/// TLS record: handshake or alert, midway also application data; or an SSL 2 hello.
pub fn tls(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let record = with(bytes, 6, |b| {
        let len = usize::from(u16_at(b, 3));
        let fits = b[1] == 3 && b[2] <= 4 && (1..=(1 << 14) + 2048).contains(&len);
        fits && match b[0] {
            0x16 => {
                matches!(b[5], 0 | 1 | 2 | 4 | 11 | 12 | 13 | 14 | 15 | 16 | 20)
                    || context.midstream
            }
            0x15 => len == 2 && matches!(b[5], 1 | 2) || len >= 18,
            0x14 => len == 1 && b[5] == 1,
            0x17 => {
                // Bytes after the record must begin another record.
                let next = b.get(5 + len..).unwrap_or_default();
                len >= 17
                    && (next.len() < 3
                        || (0x14..=0x18).contains(&next[0]) && next[1] == 3 && next[2] <= 4)
            }
            _ => false,
        }
    });
    let ssl2 = with(bytes, 11, |b| {
        let len = usize::from(u16_at(b, 0) & 0x7fff);
        let specs = u16_at(b, 5);
        b[0] & 0x80 != 0
            && b[2] == 1
            && (b[3] == 3 && b[4] <= 4 || u16_at(b, 3) == 2)
            && specs > 0
            && specs.is_multiple_of(3)
            && usize::from(specs) + usize::from(u16_at(b, 7)) + usize::from(u16_at(b, 9)) + 9 == len
    });
    either(record, ssl2)
}

/// Client preface, initial settings of a server, or frames of a connection joined midway.
pub fn http2(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let preface = begins(bytes, &[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]);
    if context.speaker == Some(Direction::ClientToServer) && !context.midstream {
        return preface;
    }
    let settings = with(bytes, 9, |b| {
        let len = u32_at(b, 0) >> 8;
        len.is_multiple_of(6)
            && len <= 120
            && b[3] == 4
            && (b[4] == 0 || b[4] == 1 && len == 0)
            && u32_at(b, 5) == 0
            && (len > 0 || b.len() == 9 || b.len() > 18)
    });
    either(preface, either(settings, when(are_frames(bytes))))
}

/// Whether the bytes are HTTP/2 frames, with enough evidence to exclude chance. The last frame may be cut.
fn are_frames(mut bytes: &[u8]) -> bool {
    let mut frames = 0;
    let mut sure = false;
    while bytes.len() >= 9 {
        let len = (u32_at(bytes, 0) >> 8) as usize;
        let (head, rest) = bytes.split_at(9);
        let body = &rest[..len.min(rest.len())];
        let Some(says) = frame(head, len, body) else {
            return false;
        };
        frames += 1;
        sure = sure || says && body.len() == len;
        bytes = &rest[body.len()..];
        if body.len() < len {
            // Only a frame that follows a complete frame counts as evidence.
            return frames > 1 && (sure || frames > 2);
        }
    }
    bytes.is_empty() && (frames > 1 || sure)
}

/// Checks a frame header: `None` if invalid, otherwise whether it is strong evidence.
fn frame(head: &[u8], len: usize, body: &[u8]) -> Option<bool> {
    let flags = head[4];
    let stream = u32_at(head, 5);
    let is_of_all = stream == 0;
    // Per type: whether stream and flags are valid, and whether length or body are strong evidence.
    let (fits, says) = match head[3] {
        0 => (!is_of_all && flags & !0x09 == 0, false),
        1 => (
            !is_of_all && flags & !0x2d == 0 && len > 0,
            stream & 1 == 1 && begins_fields(flags, body),
        ),
        3 => (!is_of_all && flags == 0 && len == 4, true),
        4 => (is_of_all && flags <= 1 && len.is_multiple_of(6), len > 0),
        6 => (is_of_all && flags <= 1 && len == 8, true),
        7 => (is_of_all && flags == 0 && len >= 8, false),
        8 => (flags == 0 && len == 4, true),
        _ => (false, false),
    };
    (fits && len <= 1 << 14 && stream >> 16 == 0).then_some(says)
}

/// Whether a field block begins like a request or response: an indexed `:method`, `:path`, `:scheme`, or
/// `:status`, or a dynamic table entry.
fn begins_fields(flags: u8, body: &[u8]) -> bool {
    let is_whole = flags & 0x04 != 0;
    let at = usize::from(flags >> 3 & 1) + 5 * usize::from(flags >> 5 & 1);
    is_whole && matches!(body.get(at), Some(0x82..=0x8e | 0xbe..=0xd2 | 0x48))
}

/// Client greeting, or a server greeting that names the protocol.
pub fn smtp(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let says = |bytes: &[u8]| holds(bytes, b"SMTP") || context.usual_port && !holds(bytes, b"FTP");
    either(
        begins(bytes, &[b"EHLO ", b"HELO ", b"LHLO ", b"ehlo ", b"helo "]),
        greeting(bytes, &says),
    )
}

/// Client command, or a server greeting that names the protocol.
pub fn ftp(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let says = |bytes: &[u8]| holds(bytes, b"FTP") || context.usual_port;
    either(
        greeting(bytes, &says),
        on_usual_port(
            context,
            begins(bytes, &[b"USER ", b"FEAT\r\n", b"AUTH TLS\r\n"]),
        ),
    )
}

/// `220` and a text.
fn greeting(bytes: &[u8], says: &dyn Fn(&[u8]) -> bool) -> ProbeResult {
    match begins(bytes, &[b"220 ", b"220-"]) {
        ProbeResult::Request => line(bytes).map_or(ProbeResult::NeedMore, |_| when(says(bytes))),
        other => other,
    }
}

/// CONNECT packet.
pub fn mqtt(bytes: &[u8], _: ProbeContext) -> ProbeResult {
    with(bytes, 8, |b| {
        let len = b[1..5].iter().take_while(|b| **b & 0x80 != 0).count() + 1;
        b[0] == 0x10
            && len <= 4
            && [b"\0\x04MQTT".as_slice(), b"\0\x06MQIsdp"]
                .iter()
                .any(|name| {
                    let rest = &b[1 + len..];
                    rest.starts_with(name)
                        || rest.len() < name.len() && name.starts_with(rest) && rest.len() >= 4
                })
    })
}

/// Message of any SMB version, or a NetBIOS session request.
pub fn smb(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let message = with(bytes, 8, |b| {
        b[0] == 0
            && [b"\xffSMB", b"\xfeSMB", b"\xfdSMB"]
                .iter()
                .any(|magic| b[4..].starts_with(*magic))
    });
    let session = with(bytes, 4, |b| {
        matches!((b[0], u16_at(b, 2)), (0x81, 68) | (0x82, 0)) && b[1] == 0
    });
    either(message, on_usual_port(context, session))
}

/// Sequence of a message id and an operation.
pub fn ldap(bytes: &[u8], _: ProbeContext) -> ProbeResult {
    with(bytes, 7, |b| {
        let Some((len, n)) = ber_length(&b[1..]).filter(|_| b[0] == 0x30) else {
            return false;
        };
        let [2, id_len @ 1..=4, rest @ ..] = &b[1 + n..] else {
            return false;
        };
        let operation = rest.get(usize::from(*id_len)).copied().unwrap_or_default();
        let inner = rest.get(usize::from(*id_len) + 1..).and_then(ber_length);
        // Tag, length, and content of the operation end where the sequence does, unless controls follow.
        let fits = inner.is_some_and(|(inner, n)| 2 + usize::from(*id_len) + 1 + n + inner <= len);
        fits && matches!(operation, 0x42 | 0x4a | 0x60 | 0x61 | 0x63..=0x69 | 0x6b..=0x6f | 0x73 | 0x77..=0x79)
    })
}

/// Connection request of a remote desktop in a TPKT.
pub fn rdp(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    with(bytes, 7, |b| {
        let is_opening =
            b[0] == 3 && b[1] == 0 && u16_at(b, 2) >= 11 && matches!(b[5], 0xe0 | 0xd0);
        is_opening && (context.usual_port || holds(b, b"Cookie: mstshash="))
    })
}

/// Marker, length, and type.
pub fn bgp(bytes: &[u8], _: ProbeContext) -> ProbeResult {
    with(bytes, 19, |b| {
        b[..16] == [0xff; 16] && (19..=4096).contains(&u16_at(b, 16)) && (1..=5).contains(&b[18])
    })
}

/// Bind, its response, or a call, of version 5.
pub fn dcerpc(bytes: &[u8], _: ProbeContext) -> ProbeResult {
    with(bytes, 16, |b| {
        let len = u16_at(b, 8).swap_bytes();
        b[0] == 5
            && b[1] <= 1
            && matches!(b[2], 0 | 2 | 3 | 0x0b..=0x10)
            && b[3] & 3 != 0
            && b[4..8] == [0x10, 0, 0, 0]
            && len >= 16
    })
}

/// Option negotiation.
pub fn telnet(bytes: &[u8]) -> ProbeResult {
    with(bytes, 3, |b| b[0] == 0xff && (0xfa..=0xfe).contains(&b[1]))
}

/// APDU.
pub fn iec104(bytes: &[u8]) -> ProbeResult {
    with(bytes, 6, |b| b[0] == 0x68 && (4..=253).contains(&b[1]))
}

/// Header with a valid length.
pub fn modbus(bytes: &[u8]) -> ProbeResult {
    with(bytes, 8, |b| {
        u16_at(b, 2) == 0 && (2..=254).contains(&u16_at(b, 4))
    })
}

/// Request line or status line of SIP.
pub fn sip(bytes: &[u8], _: ProbeContext) -> ProbeResult {
    of_version(bytes, b"SIP/2.0")
}

/// Request line or status line of RTSP.
pub fn rtsp(bytes: &[u8], _: ProbeContext) -> ProbeResult {
    of_version(bytes, b"RTSP/1.0")
}

/// A line that begins with the version, or begins with an upper-case method and ends with the version.
fn of_version(bytes: &[u8], version: &[u8]) -> ProbeResult {
    let is_method = bytes
        .iter()
        .take_while(|b| **b != b' ')
        .all(|b| b.is_ascii_uppercase() || b"_/.0123456789".contains(b));
    if !is_method || bytes.is_empty() {
        return ProbeResult::NotForUs;
    }
    if bytes.starts_with(version) {
        return ProbeResult::Request;
    }
    match line(bytes) {
        Some(line) => when(line.ends_with(version)),
        None if bytes.len() < 512 => ProbeResult::NeedMore,
        None => ProbeResult::NotForUs,
    }
}
