//! PROXY protocol header, versions 1 and 2, which a proxy sends before the first byte of its client: the
//! client's address, and the address it connected to. It is removed before a protocol is recognized, so no
//! parser sees it.
//!
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{Addr, Endpoint};

/// Maximum header length for which the checksum is verified. A longer header is skipped by its length,
/// without holding it.
pub const CHECKED_BYTES_MAX: usize = 4096;
/// Maximum length of a version 1 header, with its line end.
const LINE_BYTES_MAX: usize = 107;
/// Prefix of version 1.
const V1: &[u8] = b"PROXY ";
/// Signature of version 2.
const V2: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of version 2 up to and including the length of the rest.
const FIXED: usize = 16;
/// Type of the element that holds a CRC-32c of the header.
const CRC32C: u8 = 3;

/// Endpoints of the connection between the original client and the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxiedEndpoints {
    /// The original client.
    pub client: Endpoint,
    /// The address the client connected to.
    pub server: Endpoint,
}

/// A header with its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Length of the header; payload follows.
    pub len: usize,
    /// Absent for `LOCAL`, `UNKNOWN`, and Unix sockets.
    pub proxied: Option<ProxiedEndpoints>,
}

/// Result for the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderProbe {
    /// No header, or a malformed one.
    Other,
    /// Possibly the start of a header.
    Open,
    /// A header, which may be longer than the bytes.
    Header(ProxyHeader),
}

/// Whether a header of either version begins with this byte.
#[must_use]
pub fn begins(first: u8) -> bool {
    first == V1[0] || first == V2[0]
}

/// Parses the first bytes of a client.
#[must_use]
pub fn read(bytes: &[u8]) -> ProxyHeaderProbe {
    let begins = |with: &[u8]| bytes.iter().zip(with).all(|(a, b)| a == b);
    match () {
        () if begins(V1) => v1(bytes),
        () if begins(V2) => v2(bytes),
        () => ProxyHeaderProbe::Other,
    }
}

/// Length of a version 2 header whose addresses may be incomplete.
#[must_use]
pub fn v2_len(bytes: &[u8]) -> Option<usize> {
    let fixed = bytes
        .first_chunk::<FIXED>()
        .filter(|fixed| fixed.starts_with(V2) && fixed[12] >> 4 == 2)?;
    Some(FIXED + usize::from(u16::from_be_bytes([fixed[14], fixed[15]])))
}

fn v1(bytes: &[u8]) -> ProxyHeaderProbe {
    let head = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = memchr::memchr(b'\n', head) else {
        return if head.len() < LINE_BYTES_MAX {
            ProxyHeaderProbe::Open
        } else {
            ProxyHeaderProbe::Other
        };
    };
    let line = head[..end]
        .strip_suffix(b"\r")
        .and_then(|line| std::str::from_utf8(line).ok());
    let Some(rest) = line.and_then(|line| line.strip_prefix("PROXY ")) else {
        return ProxyHeaderProbe::Other;
    };
    let is_unknown = rest == "UNKNOWN" || rest.starts_with("UNKNOWN ");
    match v1_ends(rest) {
        None if !is_unknown => ProxyHeaderProbe::Other,
        proxied => ProxyHeaderProbe::Header(ProxyHeader {
            len: end + 1,
            proxied,
        }),
    }
}

/// `TCP4 client server port port`, or the same with `TCP6`.
fn v1_ends(line: &str) -> Option<ProxiedEndpoints> {
    let mut words = line.split(' ');
    let is_v4 = match words.next()? {
        "TCP4" => true,
        "TCP6" => false,
        _ => return None,
    };
    let mut address = || {
        words
            .next()?
            .parse::<IpAddr>()
            .ok()
            .filter(|ip| ip.is_ipv4() == is_v4)
    };
    let client = address()?;
    let server = address()?;
    let mut port = || {
        let word = words.next().filter(|word| !word.starts_with('+'))?;
        word.parse::<u16>().ok()
    };
    let ports = [port()?, port()?];
    words.next().is_none().then_some(())?;
    let end = |ip: IpAddr, port| Endpoint {
        addr: Addr::from(ip),
        port,
    };
    Some(ProxiedEndpoints {
        client: end(client, ports[0]),
        server: end(server, ports[1]),
    })
}

fn v2(bytes: &[u8]) -> ProxyHeaderProbe {
    let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED>() else {
        // Version and command, if present.
        let is_sound = bytes
            .get(V2.len())
            .is_none_or(|byte| matches!(byte, 0x20 | 0x21));
        return if is_sound {
            ProxyHeaderProbe::Open
        } else {
            ProxyHeaderProbe::Other
        };
    };
    let is_local = match fixed[12] {
        0x20 => true,
        0x21 => false,
        _ => return ProxyHeaderProbe::Other,
    };
    let len = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let addresses = match fixed[13] {
        0x11 | 0x12 => 12,
        0x21 | 0x22 => 36,
        0x31 | 0x32 => 216,
        0 => 0,
        _ if is_local => 0,
        _ => return ProxyHeaderProbe::Other,
    };
    let header = ProxyHeader {
        len: FIXED + len,
        proxied: None,
    };
    match rest.split_at_checked(addresses) {
        _ if is_local => ProxyHeaderProbe::Header(header),
        _ if len < addresses => ProxyHeaderProbe::Other,
        None => ProxyHeaderProbe::Open,
        Some((ends, _)) => ProxyHeaderProbe::Header(ProxyHeader {
            proxied: v2_ends(ends),
            ..header
        }),
    }
}

/// Addresses, then ports.
fn v2_ends(bytes: &[u8]) -> Option<ProxiedEndpoints> {
    let ip = |bytes: &[u8]| -> Option<IpAddr> {
        let v4 = <[u8; 4]>::try_from(bytes).map(|ip| Ipv4Addr::from(ip).into());
        v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|ip| Ipv6Addr::from(ip).into()))
            .ok()
    };
    let width = match bytes.len() {
        12 => 4,
        36 => 16,
        _ => return None,
    };
    let (addresses, ports) = bytes.split_at(2 * width);
    let end = |i: usize| {
        let addr = Addr::from(ip(&addresses[i * width..(i + 1) * width])?);
        Some(Endpoint {
            addr,
            port: u16::from_be_bytes([ports[2 * i], ports[2 * i + 1]]),
        })
    };
    Some(ProxiedEndpoints {
        client: end(0)?,
        server: end(1)?,
    })
}

/// Whether the checksum of a complete header is correct, if it has one.
#[must_use]
pub fn is_sound(header: &[u8]) -> bool {
    let addresses = match header.get(13) {
        Some(0x11 | 0x12) => 12,
        Some(0x21 | 0x22) => 36,
        Some(0x31 | 0x32) => 216,
        _ => 0,
    };
    let mut at = FIXED + addresses;
    if !header.starts_with(V2) {
        return true;
    }
    while let Some([kind, a, b]) = header.get(at..at + 3) {
        let value = at + 3..at + 3 + usize::from(u16::from_be_bytes([*a, *b]));
        let Some(bytes) = header.get(value.clone()) else {
            break;
        };
        if *kind == CRC32C {
            let told = <[u8; 4]>::try_from(bytes).map(u32::from_be_bytes);
            let zeroed = header
                .iter()
                .enumerate()
                .map(|(i, b)| if value.contains(&i) { 0 } else { *b });
            return told.is_ok_and(|told| told == crc32c(zeroed));
        }
        at = value.end;
    }
    true
}

fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(ip: &str, port: u16) -> Endpoint {
        Endpoint {
            addr: Addr::from(ip.parse::<IpAddr>().expect("an address")),
            port,
        }
    }

    /// Examples and limits of the specification; each prefix may still become a header.
    #[test]
    fn lines() {
        let four = ProxiedEndpoints {
            client: end("192.168.0.1", 56324),
            server: end("192.168.0.11", 443),
        };
        let six = ProxiedEndpoints {
            client: end("2001:db8::1", 1),
            server: end("::1", 65535),
        };
        for (line, expected) in [
            (
                "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n",
                Some(Some(four)),
            ),
            ("PROXY TCP6 2001:db8::1 ::1 1 65535\r\n", Some(Some(six))),
            ("PROXY UNKNOWN\r\n", Some(None)),
            (
                "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n",
                Some(None),
            ),
            ("PROXY UNKNOWNS\r\n", None),
            ("PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\n", None),
            ("PROXY TCP4 192.168.0.1 192.168.0.11 56324 65536\r\n", None),
            ("PROXY TCP4 192.168.0.1 192.168.0.11 +1 443\r\n", None),
            ("PROXY TCP4 192.168.0.1 192.168.0.11 1 443 \r\n", None),
            ("PROXY TCP4  192.168.0.1 192.168.0.11 1 443\r\n", None),
            ("PROXY TCP4 ::1 ::1 1 443\r\n", None),
            ("PROXY TCP6 10.0.0.1 10.0.0.2 1 443\r\n", None),
            ("PROXY UDP4 10.0.0.1 10.0.0.2 1 443\r\n", None),
            ("PROXY * HTTP/1.1\r\n", None),
        ] {
            let found = read(line.as_bytes());
            let header = expected.map(|proxied| {
                ProxyHeaderProbe::Header(ProxyHeader {
                    len: line.len(),
                    proxied,
                })
            });
            assert_eq!(found, header.unwrap_or(ProxyHeaderProbe::Other), "{line:?}");
            if expected.is_some() {
                let cuts = 0..line.len();
                assert!(
                    cuts.into_iter()
                        .all(|n| read(&line.as_bytes()[..n]) == ProxyHeaderProbe::Open),
                    "{line:?}"
                );
                assert!(is_sound(line.as_bytes()));
            }
        }
        let endless = [b"PROXY UNKNOWN ".as_slice(), &[b'a'; 100]].concat();
        assert_eq!(read(&endless), ProxyHeaderProbe::Other);
    }

    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let len = (rest.len() as u16).to_be_bytes();
        [V2.as_slice(), &[command, family], &len, rest].concat()
    }

    #[test]
    fn binary_headers() {
        let four = [10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 1, 187];
        let ends = ProxiedEndpoints {
            client: end("10.0.0.1", 80),
            server: end("10.0.0.2", 443),
        };
        let six = [[0; 15].as_slice(), &[1], &[0; 15], &[2], &[0, 1, 0, 2]].concat();
        let six_ends = ProxiedEndpoints {
            client: end("::1", 1),
            server: end("::2", 2),
        };
        let known = |rest: &[u8], proxied| {
            ProxyHeaderProbe::Header(ProxyHeader {
                len: FIXED + rest.len(),
                proxied,
            })
        };
        assert_eq!(read(&header(0x21, 0x11, &four)), known(&four, Some(ends)));
        assert_eq!(read(&header(0x21, 0x21, &six)), known(&six, Some(six_ends)));
        let elements = [four.as_slice(), &[4, 0, 2, 7, 7]].concat();
        assert_eq!(
            read(&header(0x21, 0x11, &elements)),
            known(&elements, Some(ends))
        );
        assert_eq!(read(&header(0x20, 0x11, &four)), known(&four, None));
        assert_eq!(read(&header(0x20, 0x77, &[])), known(&[], None));
        assert_eq!(read(&header(0x21, 0, &[])), known(&[], None));
        assert_eq!(read(&header(0x21, 0x31, &[1; 216])), known(&[1; 216], None));
        for malformed in [
            header(0x11, 0x11, &four),
            header(0x22, 0x11, &four),
            header(0x21, 0x44, &four),
            header(0x21, 0x11, &four[..11]),
        ] {
            assert_eq!(read(&malformed), ProxyHeaderProbe::Other, "{malformed:x?}");
        }
        let whole = header(0x21, 0x11, &four);
        assert!((0..whole.len()).all(|n| read(&whole[..n]) == ProxyHeaderProbe::Open));
        let long = [four.as_slice(), &[0; 65523]].concat();
        let known = ProxyHeaderProbe::Header(ProxyHeader {
            len: FIXED + 65535,
            proxied: Some(ends),
        });
        assert_eq!(read(&header(0x21, 0x11, &long)[..28]), known);
    }

    #[test]
    fn a_checksum_has_to_be_right() {
        // Check value of CRC-32c.
        assert_eq!(crc32c(b"123456789".iter().copied()), 0xe306_9283);
        let four = [10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 1, 187];
        let elements = [
            four.as_slice(),
            &[4, 0, 1, 9, CRC32C, 0, 4, 0, 0, 0, 0, 5, 0, 1, 1],
        ]
        .concat();
        let mut bytes = header(0x21, 0x11, &elements);
        let crc = crc32c(bytes.iter().copied());
        bytes[35..39].copy_from_slice(&crc.to_be_bytes());
        assert!(is_sound(&bytes));
        bytes[17] ^= 1;
        assert!(!is_sound(&bytes));
        assert!(is_sound(&header(
            0x21,
            0x11,
            &[four.as_slice(), &[4, 0, 200]].concat()
        )));
    }
}
