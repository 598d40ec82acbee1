//! Buffers packets until their flow is known to be wanted.
//!
//! Packets wait in capture order. The oldest packet is written or discarded when the buffer is full or its wait time
//! has passed, so the file is in order and memory is bounded. A request for a packet that was already discarded is
//! counted.
//!
//! Flows are identified by their five-tuple. A five-tuple stays wanted until it has been silent for five minutes.

use std::collections::{HashMap, VecDeque};

use capture::{PacketFileCounts, PacketSink};
use stream::SelectedFlows;
use wire::{Addr, CapturedPacket, Endpoint, FiveTuple, FlowKey, IpProtocol, LinkType, Timestamp};

/// Silence after which a five-tuple is assumed to belong to another flow.
const SILENCE_NS: i64 = 300_000_000_000;

/// Limits of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookBackLimits {
    /// Maximum bytes of buffered packets.
    pub bytes_max: usize,
    /// Maximum wait in packet time.
    pub ns: i64,
    /// Maximum five-tuples selected at a time.
    pub flows_max: usize,
}

/// A buffer of packets in front of a sink.
#[derive(Debug)]
pub struct LookBack {
    file: Box<dyn PacketSink>,
    chosen: SelectedFlows,
    reach: LookBackLimits,
    waiting: VecDeque<WaitingPacket>,
    /// Concatenated bytes of the buffered packets.
    bytes: VecDeque<u8>,
    /// Selected five-tuples with the time of their last packet or tuple.
    wanted: HashMap<FlowKey, Timestamp>,
    latest: Timestamp,
    /// Latest packet that left the buffer.
    let_go: Timestamp,
    tuples_missed: u64,
    /// Scratch buffer for one packet.
    packet: Vec<u8>,
}

/// A buffered packet.
#[derive(Debug)]
struct WaitingPacket {
    key: FlowKey,
    ts: Timestamp,
    link_type: LinkType,
    original_len: u32,
    len: u32,
}

impl LookBack {
    /// Writes the packets of flows selected by `chosen` to `file`.
    #[must_use]
    pub fn new(
        file: Box<dyn PacketSink>,
        chosen: SelectedFlows,
        reach: LookBackLimits,
    ) -> LookBack {
        LookBack {
            file,
            chosen,
            reach,
            waiting: VecDeque::new(),
            bytes: VecDeque::new(),
            wanted: HashMap::new(),
            latest: Timestamp::MIN,
            let_go: Timestamp::MIN,
            tuples_missed: 0,
            packet: Vec::new(),
        }
    }

    /// Adds a packet.
    pub fn take(&mut self, captured: &CapturedPacket<'_>, five_tuple: &FiveTuple) {
        let &CapturedPacket {
            ts,
            link_type,
            original_len,
            bytes,
        } = captured;
        self.latest = self.latest.max(ts);
        self.bytes.extend(bytes);
        let key = five_tuple.flow_key().0;
        let len = bytes.len() as u32;
        self.waiting.push_back(WaitingPacket {
            key,
            ts,
            link_type,
            original_len,
            len,
        });
        if self.is_over() {
            self.learn();
            while self.is_over() {
                self.leave();
            }
        }
    }

    /// Writes the selected packets that have left the buffer.
    pub fn flush(&mut self) {
        self.file.flush();
    }

    /// Empties the buffer at the end of the input.
    pub fn finish(&mut self) -> (PacketFileCounts, Option<std::io::Error>) {
        self.learn();
        while !self.waiting.is_empty() {
            self.leave();
        }
        let (kept, error) = self.file.finish();
        (
            PacketFileCounts {
                tuples_missed: self.tuples_missed,
                ..kept
            },
            error,
        )
    }

    fn is_over(&self) -> bool {
        let room = size_of::<WaitingPacket>() * self.waiting.len() + self.bytes.len();
        let waits = |oldest: &WaitingPacket| self.latest.since(oldest.ts) > self.reach.ns;
        room > self.reach.bytes_max || self.waiting.front().is_some_and(waits)
    }

    /// Reads newly selected flows from `chosen`.
    fn learn(&mut self) {
        let (news, missed) = self.chosen.news();
        self.tuples_missed += missed;
        for passed in news {
            let [a, b] = passed.ends.map(|(addr, port)| Endpoint {
                addr: Addr(addr),
                port,
            });
            let protocol = protocol(&passed.transport);
            let key = FiveTuple {
                src: a,
                dst: b,
                protocol,
            }
            .flow_key()
            .0;
            if self.wanted.len() >= self.reach.flows_max {
                let latest = self.latest;
                self.wanted
                    .retain(|_, last| latest.since(*last) < SILENCE_NS);
            }
            let is_known = self.wanted.contains_key(&key);
            let has_room = is_known || self.wanted.len() < self.reach.flows_max;
            if has_room {
                self.wanted.insert(key, self.latest);
            }
            self.tuples_missed += u64::from(!has_room || !is_known && passed.ts <= self.let_go.0);
        }
    }

    /// Removes the oldest packet; writes it if its flow is selected.
    fn leave(&mut self) {
        let Some(oldest) = self.waiting.pop_front() else {
            return;
        };
        let WaitingPacket {
            key,
            ts,
            link_type,
            original_len,
            len,
        } = oldest;
        self.packet.clear();
        self.packet.extend(self.bytes.drain(..len as usize));
        match self.wanted.get_mut(&key) {
            Some(last) if ts.since(*last) < SILENCE_NS => {
                *last = ts.max(*last);
                self.file.take(&CapturedPacket {
                    ts,
                    link_type,
                    original_len,
                    bytes: &self.packet,
                });
            }
            _ => {
                self.wanted.remove(&key);
                self.let_go = self.let_go.max(ts);
            }
        }
    }
}

/// Parses a tuple's `transport` column.
fn protocol(transport: &str) -> IpProtocol {
    match transport {
        "tcp" => IpProtocol::TCP,
        "udp" => IpProtocol::UDP,
        "icmp" => IpProtocol::ICMP,
        "icmp6" => IpProtocol::ICMPV6,
        number => IpProtocol(number.parse().unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use capture::{PacketFile, PacketRotation};
    use stream::MatchedTuple;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn look_back(reach: LookBackLimits) -> LookBack {
        let file = PacketFile::create(Path::new("/dev/null"), PacketRotation::default())
            .expect("it exists");
        LookBack::new(Box::new(file), SelectedFlows::with_news(8), reach)
    }

    /// One packet of 100 bytes per second, from each flow in turn; `passed` lists the tuples that pass after each
    /// packet, as `(time, flow, start)`.
    fn check(
        reach: LookBackLimits,
        packets: i64,
        flows: u16,
        passed: &[(i64, u16, i64)],
        expected: (u64, u64),
    ) {
        let mut look_back = look_back(reach);
        let end = |port| Endpoint {
            addr: Addr::v4([10, 0, 0, 1]),
            port,
        };
        for n in 0..packets {
            let src = end(1000 + n as u16 % flows);
            let five_tuple = FiveTuple {
                src,
                dst: end(80),
                protocol: IpProtocol::TCP,
            };
            let ts = Timestamp(n * SECOND);
            let captured = CapturedPacket {
                ts,
                link_type: LinkType::Ethernet,
                original_len: 100,
                bytes: &[7; 100],
            };
            look_back.take(&captured, &five_tuple);
            for (_, flow, begun) in passed.iter().filter(|(after, ..)| *after == n) {
                let [a, b] = [1000 + flow, 80].map(|port| (Addr::v4([10, 0, 0, 1]).0, port));
                // The server may be either endpoint.
                look_back.chosen.tell(MatchedTuple {
                    ends: [b, a],
                    transport: "tcp".into(),
                    ts: begun * SECOND,
                });
            }
        }
        let (kept, error) = look_back.finish();
        assert!(error.is_none());
        assert_eq!((kept.packets, kept.tuples_missed), expected, "{passed:?}");
    }

    #[test]
    fn flows_selected_in_time_are_complete() {
        let reach = LookBackLimits {
            bytes_max: 1 << 20,
            ns: 10 * SECOND,
            flows_max: 8,
        };
        check(reach, 40, 4, &[], (0, 0));
        // All ten packets of the flow: the first is still buffered.
        check(reach, 40, 4, &[(9, 0, 0)], (10, 0));
        // The first two have left the buffer.
        check(reach, 40, 4, &[(18, 0, 0)], (8, 1));
        // A tuple that starts later is complete.
        check(reach, 40, 4, &[(18, 0, 16)], (8, 0));
        check(reach, 40, 4, &[(9, 0, 0), (9, 1, 1), (39, 0, 36)], (20, 0));
    }

    #[test]
    fn memory_is_bounded() {
        let one = size_of::<WaitingPacket>() + 100;
        let reach = LookBackLimits {
            bytes_max: 10 * one,
            ns: i64::MAX,
            flows_max: 2,
        };
        check(reach, 40, 4, &[(9, 0, 0)], (10, 0));
        check(reach, 40, 4, &[(13, 0, 0)], (9, 1));
        // The limit on selected flows excludes the third.
        check(reach, 40, 4, &[(3, 0, 0), (3, 1, 1), (3, 2, 2)], (20, 1));
    }

    #[test]
    fn silent_five_tuples_are_other_flows() {
        let reach = LookBackLimits {
            bytes_max: 1 << 20,
            ns: 10 * SECOND,
            flows_max: 8,
        };
        // Each flow sends a packet every 400 seconds.
        check(reach, 1200, 400, &[(5, 0, 0)], (1, 0));
    }
}
