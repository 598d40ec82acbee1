//! Detects the end of a sender's writes by packet lengths: all packets of a write except the last have the
//! maximum length of the path.

use wire::{TcpSeq, Timestamp};

use crate::{Direction, StreamGap, StreamSegment};

/// Minimum segment sizes that IPv4 and IPv6 paths must support (RFC 9293 section 3.7.1).
const PACKET_BYTES_MIN: u32 = 536;
const PACKET_BYTES_MIN_V6: u32 = 1220;

/// Payload size that every path allows.
const LONGEST_MIN: u32 = 40;

/// Packet lengths of a connection.
#[derive(Debug)]
pub struct ConnectionWrites {
    /// Longest packet of both directions; the maximum of the path if either direction has reached it.
    longest: u32,
    lanes: [DirectionPackets; 2],
}

/// Packets of one direction.
#[derive(Clone, Copy, Debug)]
struct DirectionPackets {
    /// Arrival of the last packet.
    ts: Timestamp,
    last: PacketPiece,
    previous: PacketPiece,
}

/// A packet or a gap.
#[derive(Clone, Copy, Debug, Default)]
struct PacketPiece {
    bytes: u32,
    is_missing: bool,
}

impl Default for DirectionPackets {
    fn default() -> Self {
        DirectionPackets {
            ts: Timestamp::MIN,
            last: PacketPiece::default(),
            previous: PacketPiece::default(),
        }
    }
}

impl Default for ConnectionWrites {
    fn default() -> Self {
        ConnectionWrites {
            longest: LONGEST_MIN,
            lanes: [DirectionPackets::default(); 2],
        }
    }
}

impl ConnectionWrites {
    /// Records a packet.
    #[inline]
    pub fn come(&mut self, direction: Direction, segment: StreamSegment<'_>) {
        let bytes = u32::try_from(segment.bytes.len()).unwrap_or(u32::MAX);
        self.longest = self.longest.max(bytes);
        let lane = &mut self.lanes[direction as usize];
        lane.previous = std::mem::replace(
            &mut lane.last,
            PacketPiece {
                bytes,
                is_missing: false,
            },
        );
        lane.ts = segment.ts;
    }

    /// Records a gap after the last packet. Returns the start of that packet if the bytes are its end, cut off by the
    /// snaplen.
    #[cold]
    pub fn miss(&mut self, direction: Direction, gap: StreamGap) -> Option<TcpSeq> {
        let missing = u32::try_from(gap.len).unwrap_or(u32::MAX);
        let lane = &mut self.lanes[direction as usize];
        if gap.ts != lane.ts {
            lane.last = PacketPiece {
                bytes: missing,
                is_missing: true,
            };
            return None;
        }
        let start = gap.seq.plus(lane.last.bytes.wrapping_neg());
        lane.last.bytes = lane.last.bytes.saturating_add(missing);
        self.longest = self.longest.max(lane.last.bytes);
        Some(start)
    }

    /// Whether a write ends directly before `segment`, which is the complete last packet: the previous packet
    /// is short. Lengths of merged packets have a large common divisor; a gap is several packets, or one no
    /// longer than any path allows.
    #[must_use]
    pub fn begins_write(&self, direction: Direction, segment: StreamSegment<'_>) -> bool {
        let DirectionPackets { last, previous, .. } = self.lanes[direction as usize];
        let most = if previous.is_missing {
            self.longest.min(PACKET_BYTES_MIN_V6)
        } else {
            self.longest
        };
        segment.bytes.len() == last.bytes as usize
            && (1..most).contains(&previous.bytes)
            && divisor(previous.bytes, self.longest) < PACKET_BYTES_MIN
    }
}

/// Greatest common divisor.
fn divisor(mut a: u32, mut b: u32) -> u32 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use flow::StreamPlace;

    use super::*;

    const C: Direction = Direction::ClientToServer;
    const S: Direction = Direction::ServerToClient;

    /// Whether a packet of `len` bytes begins a write.
    fn come(packets: &mut ConnectionWrites, direction: Direction, len: usize, ts: i64) -> bool {
        let bytes = vec![0; len];
        let segment = StreamSegment {
            bytes: &bytes,
            ts: Timestamp(ts),
            place: StreamPlace::default(),
        };
        packets.come(direction, segment);
        assert!(!packets.begins_write(direction, segment.behind(1)));
        packets.begins_write(direction, segment)
    }

    #[test]
    fn short_packets_end_writes() {
        let gap = |len, ts| StreamGap {
            seq: TcpSeq(0),
            len,
            ts: Timestamp(ts),
        };
        let mut packets = ConnectionWrites::default();
        assert!(!come(&mut packets, S, 1460, 1));
        assert!(!come(&mut packets, S, 300, 2));
        assert!(come(&mut packets, S, 1460, 3));
        packets.miss(S, gap(300, 4));
        assert!(come(&mut packets, S, 1460, 4));
        packets.miss(S, gap(1460, 5));
        assert!(!come(&mut packets, S, 100, 5));
        // All but the first bytes of a packet were cut off.
        packets.miss(S, gap(1360, 5));
        assert!(!come(&mut packets, S, 100, 6));
        packets.miss(S, gap(100, 7));
        assert!(come(&mut packets, S, 100, 7));
        // Either direction may determine the maximum of the path.
        assert!(!come(&mut packets, C, 20, 8) && come(&mut packets, C, 20, 8));
    }

    #[test]
    fn full_packets_do_not() {
        let mut packets = ConnectionWrites::default();
        assert!(
            !come(&mut packets, S, 40, 1)
                && !come(&mut packets, S, 40, 2)
                && !come(&mut packets, S, 7, 3)
        );
        assert!(come(&mut packets, S, 40, 4));
        // Merged packets.
        let mut packets = ConnectionWrites::default();
        assert!(!come(&mut packets, S, 4344, 1));
        assert!(!come(&mut packets, S, 1448, 2) && !come(&mut packets, S, 2896, 3));
        assert!(!come(&mut packets, S, 3000, 4) && come(&mut packets, S, 1448, 5));
    }
}
