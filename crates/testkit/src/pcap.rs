//! Writes classic pcap files (<https://ietf-opsawg-wg.github.io/draft-ietf-opsawg-pcap/>): both precisions, both
//! byte orders.

use crate::SentPacket;

/// Unit of the second time field of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampPrecision {
    /// Magic a1b2c3d4.
    Micros,
    /// Magic a1b23c4d.
    Nanos,
}

/// Byte order of the file's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Most significant byte first.
    Big,
    /// Least significant byte first.
    Little,
}

/// A file with these packets on Ethernet.
#[must_use]
pub fn pcap_bytes(sent: &[SentPacket], precision: TimestampPrecision, order: ByteOrder) -> Vec<u8> {
    let (magic, unit_ns) = match precision {
        TimestampPrecision::Micros => (0xa1b2_c3d4, 1000),
        TimestampPrecision::Nanos => (0xa1b2_3c4d, 1),
    };
    let mut out = Vec::new();
    put(&mut out, order, &[magic]);
    out.extend(match order {
        ByteOrder::Big => [0, 2, 0, 4],
        ByteOrder::Little => [2, 0, 4, 0],
    });
    put(&mut out, order, &[0, 0, 262_144, 1]);
    for one in sent {
        let bytes = one.to_bytes();
        let seconds = one.ts.0.div_euclid(1_000_000_000) as u32;
        let fraction = (one.ts.0.rem_euclid(1_000_000_000) / unit_ns) as u32;
        put(
            &mut out,
            order,
            &[
                seconds,
                fraction,
                bytes.len() as u32,
                bytes.len() as u32 + one.cut,
            ],
        );
        out.extend(bytes);
    }
    out
}

fn put(out: &mut Vec<u8>, order: ByteOrder, words: &[u32]) {
    for word in words {
        out.extend(match order {
            ByteOrder::Big => word.to_be_bytes(),
            ByteOrder::Little => word.to_le_bytes(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Timestamp;

    #[test]
    fn headers_in_every_dialect() {
        let ends = (
            "10.0.0.1:1".parse().expect("an address"),
            "10.0.0.2:2".parse().expect("an address"),
        );
        let sent = [SentPacket::udp(Timestamp(3_000_004_005), ends, b"abc")];
        let little = pcap_bytes(&sent, TimestampPrecision::Micros, ByteOrder::Little);
        assert_eq!(little[..8], [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]);
        assert_eq!(
            little[24..40],
            [3, 0, 0, 0, 4, 0, 0, 0, 45, 0, 0, 0, 45, 0, 0, 0]
        );
        let big = pcap_bytes(&sent, TimestampPrecision::Nanos, ByteOrder::Big);
        assert_eq!(big[..8], [0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4]);
        assert_eq!(big[24..32], [0, 0, 0, 3, 0, 0, 15, 165]);
        assert_eq!(big.len(), 24 + 16 + 45);
    }
}
