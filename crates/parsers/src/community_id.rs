//! Community ID v1: the flow identifier of Zeek, Suricata, and others, for joins with their logs
//! (<https://github.com/corelight/community-id-spec>). Seed 0.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::block_api::compress;
use wire::{Endpoint, IpProtocol};

/// Initial hash state (RFC 3174, section 6.1).
const BEGIN: [u32; 5] = [
    0x6745_2301,
    0xefcd_ab89,
    0x98ba_dcfe,
    0x1032_5476,
    0xc3d2_e1f0,
];
/// `1:` followed by 20 bytes in Base64.
const LENGTH: usize = 2 + 28;

/// Community ID of the flows between two endpoints, in any order.
#[must_use]
pub fn community_id(protocol: IpProtocol, ends: [Endpoint; 2]) -> String {
    community_id_text(protocol, ends)
        .iter()
        .copied()
        .map(char::from)
        .collect()
}

/// Community ID in ASCII. The hash input fits into one block and is built in place, because packet tuples
/// need one ID each.
pub(crate) fn community_id_text(protocol: IpProtocol, ends: [Endpoint; 2]) -> [u8; LENGTH] {
    let [mut first, mut second] = ends;
    // The specification orders by address, then port; an IPv4 address compares like its mapped form.
    if (second.addr, second.port) < (first.addr, first.port) {
        std::mem::swap(&mut first, &mut second);
    }
    let mut block = Sha1Block {
        bytes: [0; 64],
        at: 2,
    };
    for end in [first, second] {
        match end.addr.to_ip() {
            IpAddr::V4(addr) => block.push(addr.octets()),
            IpAddr::V6(addr) => block.push(addr.octets()),
        }
    }
    block.push([protocol.0, 0]);
    if has_ports(protocol) {
        block.push(first.port.to_be_bytes());
        block.push(second.port.to_be_bytes());
    }
    let hash = block.hash();
    let mut text = [0; LENGTH];
    text[..2].copy_from_slice(b"1:");
    STANDARD
        .encode_slice(hash, &mut text[2..])
        .expect("20 bytes are 28 in base 64");
    text
}

/// A message of at most 55 bytes to hash.
struct Sha1Block {
    bytes: [u8; 64],
    at: usize,
}

impl Sha1Block {
    fn push<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.at..][..N].copy_from_slice(&bytes);
        self.at += N;
    }

    /// SHA-1 of the message.
    fn hash(mut self) -> [u8; 20] {
        let bits = 8 * self.at as u64;
        self.push([0x80]);
        self.at = 56;
        self.push(bits.to_be_bytes());
        let mut state = BEGIN;
        compress(&mut state, &[self.bytes]);
        let mut hash = [0; 20];
        hash.as_chunks_mut()
            .0
            .iter_mut()
            .zip(state)
            .for_each(|(to, word)| *to = word.to_be_bytes());
        hash
    }
}

/// Whether ports are hashed. Flows do not store ICMP's pseudo ports (type and counterpart type), so ICMP is
/// hashed without ports, as the specification requires for protocols without ports.
fn has_ports(protocol: IpProtocol) -> bool {
    matches!(
        protocol,
        IpProtocol::TCP | IpProtocol::UDP | IpProtocol(132)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(protocol: IpProtocol, client: (&str, u16), server: (&str, u16), expected: &str) {
        let end = |(addr, port): (&str, u16)| Endpoint {
            addr: addr.parse::<std::net::IpAddr>().expect("an address").into(),
            port,
        };
        let ends = [end(client), end(server)];
        assert_eq!(community_id(protocol, ends), expected);
        let [first, second] = ends;
        assert_eq!(community_id(protocol, [second, first]), expected);
    }

    /// Values of the specification's baseline files.
    #[test]
    fn baseline() {
        check(
            IpProtocol::TCP,
            ("128.232.110.120", 34855),
            ("66.35.250.204", 80),
            "1:LQU9qZlK+B5F3KDmev6m5PMibrg=",
        );
        check(
            IpProtocol::UDP,
            ("192.168.1.52", 54585),
            ("8.8.8.8", 53),
            "1:d/FP5EW3wiY1vCndhwleRRKHowQ=",
        );
    }
}
