//! Correct checksums in recorded packets, as on the wire: a capture at a sender has those left to its adapter.

use wire::{CapturedPacket, Packet, TransportHeader};

/// The bytes of a packet with the right checksums of IPv4 and of TCP or UDP; the latter is unchanged if the packet was not captured
/// completely, or has none.
#[must_use]
pub fn completed(captured: &CapturedPacket<'_>) -> Vec<u8> {
    let mut bytes = captured.bytes.to_vec();
    let Ok(packet) = Packet::decode(captured) else {
        return bytes;
    };
    if !packet.ip_header.is_empty() {
        let start = offset_in(captured, packet.ip_header);
        complete_ip_header(&mut bytes[start..start + packet.ip_header.len()]);
    }
    let at = match packet.transport {
        TransportHeader::Tcp(_) => 16,
        TransportHeader::Udp => 6,
        _ => return bytes,
    };
    if packet.payload.len() as u32 != packet.payload_original_len {
        return bytes;
    }
    let mut segment = packet.segment.to_vec();
    segment[at..at + 2].fill(0);
    let tuple = &packet.five_tuple;
    let rest = segment.len() as u32 + u32::from(tuple.protocol.0);
    // The first bytes of an IPv4-mapped address are 0, or 0xffff, which is 0 in one's complement.
    let pseudo = [
        &tuple.src.addr.0[..],
        &tuple.dst.addr.0,
        &rest.to_be_bytes(),
    ]
    .concat();
    let sum = match !sum(&pseudo, &segment) {
        0 => 0xffff,
        sum => sum,
    };
    let start = offset_in(captured, packet.segment) + at;
    bytes[start..start + 2].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Sets the checksum of an IPv4 header (RFC 791 §3.1).
pub fn complete_ip_header(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = !sum(&[], header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Position of a part of a packet.
#[must_use]
pub fn offset_in(captured: &CapturedPacket<'_>, part: &[u8]) -> usize {
    part.as_ptr() as usize - captured.bytes.as_ptr() as usize
}

/// Sum of all words in one's complement (RFC 1071); the last is padded with 0. The first part has an even length.
fn sum(first: &[u8], second: &[u8]) -> u16 {
    let words = first.chunks(2).chain(second.chunks(2));
    let sum = words.fold(0u32, |sum, word| {
        let sum = sum + u32::from(word[0]) * 256 + u32::from(*word.get(1).unwrap_or(&0));
        (sum & 0xffff) + (sum >> 16)
    });
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{SentPacket, packet::tcp_info};
    use wire::Timestamp;
    use wire::packet::TcpFlags;

    #[test]
    fn a_checksum_left_to_the_adapter_becomes_that_of_the_generator() {
        for (a, b) in [
            ("10.0.0.1:1024", "10.0.0.2:80"),
            ("[2001:db8::1]:1024", "[2001:db8::2]:80"),
        ] {
            let ends = (
                a.parse().expect("an address"),
                b.parse().expect("an address"),
            );
            for payload in [&b""[..], b"hello", b"hello!"] {
                let sent =
                    SentPacket::tcp(Timestamp(0), ends, tcp_info(5, 6, TcpFlags::ACK), payload);
                let right = sent.to_bytes();
                let mut partial = right.clone();
                let at = right.len() - payload.len() - 4;
                partial[at..at + 2].copy_from_slice(&[0x12, 0x34]);
                assert_eq!(completed(&sent.captured(&partial)), right);
                let cut = &partial[..right.len() - usize::from(!payload.is_empty())];
                let mut captured = sent.captured(cut);
                captured.original_len = right.len() as u32;
                if !payload.is_empty() {
                    assert_eq!(completed(&captured), cut);
                }
            }
        }
    }
}
