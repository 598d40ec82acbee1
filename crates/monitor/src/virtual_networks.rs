//! Distinguishes flows with equal endpoints in different virtual networks: two tenants may use the same
//! addresses. A different network number alone is not sufficient; the TCP sequence numbers under the two
//! numbers must also be unrelated. The numbers of the two directions may differ (routed overlays use the
//! receiver's network, some write the sender's identity there), a packet may be captured before and after
//! encapsulation, and mirrors deliver copies of one packet under several numbers. Tracks at most
//! [`FLOWS_MAX`] flows.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use wire::{FlowSide, Packet, TcpSeq, Timestamp, TransportHeader};

/// Maximum flows in virtual networks that are tracked. Packets of further flows are assigned to the first
/// network and counted.
pub const FLOWS_MAX: usize = 1 << 18;
/// Maximum networks with flows between the same endpoints.
const NETWORKS_MAX: usize = 64;
/// Network numbers stored per direction: its own, and a mirror's.
const NUMBERS_MAX: usize = 2;
/// Maximum sequence number distance between segments of one byte stream. Unrelated streams are this close by
/// chance once in 2,000 cases.
const NEAR: u32 = 1 << 20;
/// Silence after which a flow is removed, in packet time; also the interval of the check.
const FORGET_NS: i64 = 600_000_000_000;
const LOOK_EVERY_NS: i64 = 10_000_000_000;
/// Not secret: on a collision a flow is at worst assigned to the network of another.
const SEED: u64 = 0x6e65_7477_6f72_6b73;

/// Known flows in virtual networks.
#[derive(Debug, Default)]
pub struct VirtualNetworks {
    flows: HashMap<u64, EndpointFlows, BuildHasherDefault<IdentityHasher>>,
    looked: Timestamp,
    overflowed: u64,
}

/// Flows between the same endpoints.
#[derive(Debug)]
struct EndpointFlows {
    last_ts: Timestamp,
    first: VirtualNetwork,
    others: Vec<VirtualNetwork>,
}

/// One flow in one network.
#[derive(Clone, Copy, Debug, Default)]
struct VirtualNetwork {
    /// By side: network numbers of its packets, and its latest sequence number.
    numbers: [[Option<u32>; NUMBERS_MAX]; 2],
    latest: [Option<TcpSeq>; 2],
}

impl VirtualNetworks {
    /// Returns the network of a packet among those with the same endpoints; 0 for the first and for packets
    /// outside a tunnel.
    #[inline(always)]
    pub fn of(&mut self, packet: &Packet<'_>) -> u8 {
        if packet.tunnel.is_none() {
            0
        } else {
            self.of_tunneled(*packet)
        }
    }

    /// Packets assigned to the first network because the table was full.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Removes flows that are idle at `now`.
    pub fn forget(&mut self, now: Timestamp) {
        // The time advances even without flows, because all workers must check at the same times.
        if now.since(self.looked) > LOOK_EVERY_NS {
            self.looked = now;
            self.flows
                .retain(|_, ends| now.since(ends.last_ts) <= FORGET_NS);
        }
    }

    #[inline(never)]
    fn of_tunneled(&mut self, packet: Packet<'_>) -> u8 {
        let Some(number) = packet.tunnel.network() else {
            return 0;
        };
        let (key, side) = packet.five_tuple.flow_key();
        let seq = match packet.transport {
            TransportHeader::Tcp(tcp) => Some(tcp.seq),
            _ => None,
        };
        let hash = key.hash(SEED);
        let is_full = self.flows.len() >= FLOWS_MAX;
        if is_full && !self.flows.contains_key(&hash) {
            self.overflowed += 1;
            return 0;
        }
        let new = || EndpointFlows {
            last_ts: packet.ts,
            first: VirtualNetwork::default(),
            others: Vec::new(),
        };
        let ends = self.flows.entry(hash).or_insert_with(new);
        ends.last_ts = ends.last_ts.max(packet.ts);
        let found = ends.find(side, number, seq);
        self.overflowed += u64::from(found.is_none());
        found.unwrap_or(0)
    }
}

impl EndpointFlows {
    /// Returns the network with the strongest evidence, or a new one if the evidence contradicts all known
    /// ones.
    fn find(&mut self, side: FlowSide, number: u32, seq: Option<TcpSeq>) -> Option<u8> {
        let evidence = |network: &VirtualNetwork| network.evidence(side, number, seq);
        let known = std::iter::once(&self.first).chain(&self.others);
        let best = known
            .enumerate()
            .max_by_key(|(place, network)| (evidence(network), usize::MAX - place));
        let place = match best {
            Some((place, network)) if evidence(network) > 0 => place,
            _ if self.others.len() + 1 >= NETWORKS_MAX => return None,
            _ => {
                self.others.push(VirtualNetwork::default());
                self.others.len()
            }
        };
        let network = if place == 0 {
            &mut self.first
        } else {
            &mut self.others[place - 1]
        };
        network.learn(side, number, seq);
        Some(place as u8)
    }
}

impl VirtualNetwork {
    /// Strength of the evidence that a packet belongs to this network: its number was seen in this direction,
    /// or in the other; no number is known for this direction; or its sequence number continues this
    /// direction, as a mirror's copy does.
    fn evidence(&self, side: FlowSide, number: u32, seq: Option<TcpSeq>) -> u8 {
        let own = &self.numbers[side.index()];
        let other = &self.numbers[side.other().index()];
        let is_near = |latest: TcpSeq, seq: TcpSeq| seq.distance(latest).unsigned_abs() < NEAR;
        let goes_on = self.latest[side.index()]
            .zip(seq)
            .is_some_and(|(latest, seq)| is_near(latest, seq));
        match () {
            () if own.contains(&Some(number)) => 4,
            () if own[0].is_none() && other.contains(&Some(number)) => 3,
            () if goes_on => 2,
            () if own[0].is_none() => 1,
            () => 0,
        }
    }

    fn learn(&mut self, side: FlowSide, number: u32, seq: Option<TcpSeq>) {
        let own = &mut self.numbers[side.index()];
        if !own.contains(&Some(number)) {
            let free = own
                .iter()
                .position(Option::is_none)
                .unwrap_or(NUMBERS_MAX - 1);
            own[free] = Some(number);
        }
        self.latest[side.index()] = seq.or(self.latest[side.index()]);
    }
}

/// Hasher for keys that are already hashes.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

#[cfg(test)]
mod tests {
    use testkit::packet::{SentPacket, tcp_info};
    use wire::Packet;
    use wire::packet::TcpFlags;

    use super::*;

    const CLIENT: &str = "10.0.0.1:9";
    const SERVER: &str = "10.0.0.2:80";

    /// A segment, or a datagram if `seq` is `None`, in VXLAN with this network number.
    fn vxlan(up: bool, seq: Option<u32>, network: u32) -> Vec<u8> {
        let client = CLIENT.parse().expect("an end");
        let server = SERVER.parse().expect("an end");
        let ends = if up {
            (client, server)
        } else {
            (server, client)
        };
        let inner = match seq {
            Some(seq) => SentPacket::tcp(Timestamp(0), ends, tcp_info(seq, 0, TcpFlags::ACK), b"x"),
            None => SentPacket::udp(Timestamp(0), ends, b"x"),
        };
        let header = [&[8, 0, 0, 0][..], &(network << 8).to_be_bytes()].concat();
        let tunnel = (
            "172.16.0.1:5000".parse().expect("an end"),
            "172.16.0.2:4789".parse().expect("an end"),
        );
        SentPacket::udp(Timestamp(0), tunnel, &[header, inner.to_bytes()].concat()).to_bytes()
    }

    /// Packets as direction, sequence number, and network number, with the expected network of each.
    fn check(packets: &[(bool, Option<u32>, u32, u8)]) {
        let mut networks = VirtualNetworks::default();
        for (n, &(up, seq, network, expected)) in packets.iter().enumerate() {
            let bytes = vxlan(up, seq, network);
            let captured = wire::CapturedPacket {
                ts: Timestamp(n as i64),
                link_type: wire::LinkType::Ethernet,
                original_len: 0,
                bytes: &bytes,
            };
            let packet = Packet::decode(&captured).expect("a packet in a tunnel");
            assert_eq!(networks.of(&packet), expected, "packet {n} of {packets:?}");
        }
    }

    #[test]
    fn tenants_with_the_same_addresses_are_two() {
        let mine = Some(7);
        let yours = Some(2_000_000_000);
        check(&[
            (true, mine, 1, 0),
            (true, yours, 2, 1),
            (false, yours, 2, 1),
            (false, mine, 1, 0),
            (true, yours, 2, 1),
        ]);
        check(&[
            (true, None, 1, 0),
            (true, None, 2, 1),
            (false, None, 2, 1),
            (false, None, 1, 0),
        ]);
    }

    #[test]
    fn directions_may_have_numbers_of_their_own() {
        check(&[
            (true, Some(7), 1, 0),
            (false, Some(9), 2, 0),
            (true, Some(8), 1, 0),
            (false, Some(10), 2, 0),
        ]);
        check(&[(true, None, 1, 0), (false, None, 2, 0), (true, None, 1, 0)]);
    }

    #[test]
    fn copies_by_another_mirror_are_the_same_flow() {
        check(&[
            (true, Some(7), 1, 0),
            (true, Some(7), 2, 0),
            (false, Some(9), 2, 0),
            (false, Some(9), 1, 0),
        ]);
    }

    #[test]
    fn idle_flows_are_forgotten() {
        let mut networks = VirtualNetworks::default();
        let bytes = vxlan(true, None, 1);
        let captured = wire::CapturedPacket {
            ts: Timestamp(0),
            link_type: wire::LinkType::Ethernet,
            original_len: 0,
            bytes: &bytes,
        };
        networks.of(&Packet::decode(&captured).expect("a packet in a tunnel"));
        networks.forget(Timestamp(FORGET_NS));
        assert_eq!(networks.flows.len(), 1);
        networks.forget(Timestamp(FORGET_NS + LOOK_EVERY_NS + 1));
        assert!(networks.flows.is_empty());
    }
}
