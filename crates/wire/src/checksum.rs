//! The checksum of TCP and UDP (RFC 9293 §3.1, RFC 768), by default verified only for suspicious packets: summing every
//! packet costs as much as parsing it. A checksum left to the capturing machine's adapter is meaningless, as is one
//! of incomplete bytes.

use crate::extent::be16;
use crate::{Packet, TransportHeader};

/// Result of checksum verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumStatus {
    /// Correct.
    Right,
    /// Damaged bits, or segments merged by an adapter that kept the checksum of the first.
    Wrong,
    /// Not verifiable: cut by the snaplen, neither TCP nor UDP, or left to the adapter.
    Unknown,
}

/// Length in bytes from which four sums at a time are faster.
const LONG: usize = 128;

impl Packet<'_> {
    /// Verifies the checksums of the segment or datagram, and of its IPv4 header.
    #[must_use]
    pub fn verify_checksum(&self) -> ChecksumStatus {
        let has_one = matches!(
            self.transport,
            TransportHeader::Tcp(_) | TransportHeader::Udp
        );
        let is_whole = self.payload.len() as u32 == self.payload_original_len;
        if self.is_ip_header_damaged() {
            return ChecksumStatus::Wrong;
        }
        if !has_one || !is_whole || self.checksum == 0 || self.segment.is_empty() {
            return ChecksumStatus::Unknown;
        }
        let pseudo = self.pseudo_header_sum();
        let stated = self.checksum.swap_bytes();
        if same(pseudo, stated.into()) {
            return ChecksumStatus::Unknown;
        }
        if same(pseudo + sum(self.segment), 0) {
            ChecksumStatus::Right
        } else {
            ChecksumStatus::Wrong
        }
    }

    /// Whether the header of IPv4 contradicts its checksum (RFC 791 §3.1); 0 is left to the adapter. A wrong length makes a packet
    /// look cut by the snaplen.
    fn is_ip_header_damaged(&self) -> bool {
        let header = self.ip_header;
        let is_stated = header.get(10..12).is_some_and(|stated| stated != [0, 0]);
        let sum = match header.as_array::<20>() {
            // Without options.
            Some(header) => sum_words(header.as_chunks().0),
            None => sum(header),
        };
        is_stated && !same(sum, 0)
    }

    /// An IPv4-mapped address has two additional bytes, 0xffff, which are 0 in one's complement.
    fn pseudo_header_sum(&self) -> u64 {
        let tuple = &self.five_tuple;
        let rest = self.segment.len() as u32 + u32::from(tuple.protocol.0);
        sum_words(tuple.src.addr.0.as_chunks().0)
            + sum_words(tuple.dst.addr.0.as_chunks().0)
            + sum_words(&[rest.to_be_bytes()])
    }
}

/// Sum of all 16-bit words, the last padded with 0, in the machine's byte order; only the bytes of the result are
/// swapped (RFC 1071 §2).
fn sum(bytes: &[u8]) -> u64 {
    if bytes.len() >= LONG {
        return long_sum(bytes);
    }
    let (words, rest) = bytes.as_chunks::<4>();
    let last = match *rest {
        [a, b, c] => [a, b, c, 0],
        [a, b] => [a, b, 0, 0],
        [a] => [a, 0, 0, 0],
        _ => [0; 4],
    };
    sum_words(words) + u64::from(u32::from_le_bytes(last))
}

#[inline(always)]
fn sum_words(words: &[[u8; 4]]) -> u64 {
    let word = |word: &[u8; 4]| u64::from(u32::from_le_bytes(*word));
    words.iter().map(word).sum()
}

/// The same: words of 64 bits with the carry added give the same sum in one's complement.
fn long_sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let add = |sum: u64, word: &[u8; 8]| {
        let (sum, carry) = sum.overflowing_add(u64::from_le_bytes(*word));
        sum + u64::from(carry)
    };
    let (blocks, words) = words.as_chunks::<4>();
    let mut sums = [0; 4];
    for block in blocks {
        for (sum, word) in sums.iter_mut().zip(block) {
            *sum = add(*sum, word);
        }
    }
    let sum = words.iter().fold(0, add) % 0xffff + add(0, &last) % 0xffff;
    sum + sums.iter().map(|sum| sum % 0xffff).sum::<u64>()
}

/// Whether two sums are equal in one's complement, in which 0xffff is 0.
fn same(a: u64, b: u64) -> bool {
    a % 0xffff == b % 0xffff
}

/// Checksum field of a TCP or UDP header.
pub(crate) fn of_segment(transport: &TransportHeader, segment: &[u8]) -> u16 {
    match transport {
        TransportHeader::Tcp(_) => segment
            .first_chunk::<18>()
            .map_or(0, |header| be16(header, 16..18)),
        TransportHeader::Udp => segment
            .first_chunk::<8>()
            .map_or(0, |header| be16(header, 6..8)),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CapturedPacket, LinkType, Timestamp};

    /// Reference implementation of RFC 1071.
    fn by_words(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    fn datagram(payload: &[u8]) -> Vec<u8> {
        let len = 8 + payload.len() as u8;
        let mut udp = [&[0x80, 0, 0, 53, 0, len, 0, 0], payload].concat();
        let pseudo = [10, 0, 0, 1, 10, 0, 0, 2, 0, 17, 0, len];
        let sum = !by_words(&[&pseudo, udp.as_slice()].concat());
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
        let ip = [
            0x45,
            0,
            0,
            20 + len,
            0,
            1,
            0,
            0,
            64,
            17,
            0,
            0,
            10,
            0,
            0,
            1,
            10,
            0,
            0,
            2,
        ];
        [ip.as_slice(), &udp].concat()
    }

    fn check(bytes: &[u8], original_len: usize, expected: ChecksumStatus) {
        let ts = Timestamp(1);
        let link_type = LinkType::Raw;
        let captured = CapturedPacket {
            ts,
            link_type,
            original_len: original_len as u32,
            bytes,
        };
        let packet = Packet::decode(&captured).expect("a datagram");
        assert_eq!(packet.verify_checksum(), expected, "{bytes:x?}");
    }

    #[test]
    fn sums() {
        for len in (0..20).chain([31, 32, 33, 63, 100, 191]) {
            let payload: Vec<u8> = (0..len).map(|n| 0xf1 ^ n).collect();
            let right = datagram(&payload);
            check(&right, right.len(), ChecksumStatus::Right);
            for at in 20..right.len() {
                let mut wrong = right.clone();
                wrong[at] ^= 0x10;
                // A wrong UDP length is malformed.
                if !(24..26).contains(&at) {
                    check(&wrong, right.len(), ChecksumStatus::Wrong);
                }
            }
        }
    }

    /// A wrong length makes a packet look cut by the snaplen; the checksum of the header shows it.
    #[test]
    fn headers_of_ipv4() {
        let mut right = datagram(b"abc");
        let sum = !by_words(&right[..20]);
        right[10..12].copy_from_slice(&sum.to_be_bytes());
        check(&right, right.len(), ChecksumStatus::Right);
        check(
            &right[..right.len() - 1],
            right.len(),
            ChecksumStatus::Unknown,
        );
        for at in [1, 2, 4, 8, 10, 11, 15] {
            let mut wrong = right.clone();
            wrong[at] ^= 0x10;
            check(&wrong, right.len(), ChecksumStatus::Wrong);
            check(
                &wrong[..right.len() - 1],
                right.len(),
                ChecksumStatus::Wrong,
            );
        }
    }

    #[test]
    fn undecidable_checksums() {
        let mut none = datagram(b"abc");
        check(&none[..none.len() - 1], none.len(), ChecksumStatus::Unknown);
        none[26..28].copy_from_slice(&[0, 0]);
        check(&none, none.len(), ChecksumStatus::Unknown);
        // Linux leaves the sum of the pseudo-header for the adapter to complete.
        let pseudo = by_words(&[10, 0, 0, 1, 10, 0, 0, 2, 0, 17, 0, 11]);
        none[26..28].copy_from_slice(&pseudo.to_be_bytes());
        check(&none, none.len(), ChecksumStatus::Unknown);
    }
}
