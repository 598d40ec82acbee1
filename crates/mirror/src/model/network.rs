//! Connected switches: follows packets from their entry to the arrival of copies.

use std::net::IpAddr;

use super::run::{PacketClass, PacketEffect, PathState, UnmodeledTerms};
use super::switch::{PortNeighbor, SwitchModel};
use crate::packets::field::{IPV4, IPV6};
use crate::packets::{MaskedBits, MatchField, ModelPacket, PacketCube, PacketRegion};

/// Maximum switches on a path; more mean a loop.
const HOPS_MAX: usize = 16;
/// Maximum behaviors examined per box.
const BEHAVIORS_MAX: usize = 100_000;

/// Index of a switch, and one of its ports.
pub type At = (usize, u32);

/// A cable, or a tunnel between two switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchLink(pub At, pub At);

/// A host with a known location: it sends with its own address, from its own port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownHost {
    /// Address.
    pub address: IpAddr,
    /// Location.
    pub at: At,
}

/// See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchNetwork {
    /// The switches.
    pub switches: Vec<SwitchModel>,
    /// Links between switches.
    pub links: Vec<SwitchLink>,
    /// Hosts with known locations.
    pub hosts: Vec<KnownHost>,
    /// Per switch, the ports at which the switch may learn addresses.
    pub(super) learned: Vec<Vec<u32>>,
}

/// Copies of a packet: monitor and maximum bytes; sorted.
pub type Counts = Vec<(String, Option<u32>)>;

/// A possible behavior.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketBehavior {
    /// Packets, as they entered.
    pub region: PacketRegion,
    /// Arriving copies.
    pub copies: Counts,
    /// Whether the packet leaves by a host port.
    pub is_delivered: bool,
    /// Unknown effects on the path.
    pub doubts: Vec<String>,
}

impl SwitchNetwork {
    /// A network of these switches.
    #[must_use]
    pub fn new(
        switches: Vec<SwitchModel>,
        links: Vec<SwitchLink>,
        hosts: Vec<KnownHost>,
    ) -> SwitchNetwork {
        let mut network = SwitchNetwork {
            switches,
            links,
            hosts,
            learned: Vec::new(),
        };
        let mut terms = UnmodeledTerms::default();
        network.learned = network
            .switches
            .iter()
            .map(|switch| switch.learns_at(&mut terms))
            .collect();
        network
    }

    /// A network of one switch.
    #[must_use]
    pub fn of(switch: SwitchModel) -> SwitchNetwork {
        SwitchNetwork::new(vec![switch], Vec::new(), Vec::new())
    }

    /// The other end of a link.
    #[must_use]
    pub fn peer(&self, at: At) -> Option<At> {
        self.links.iter().find_map(|SwitchLink(a, b)| match at {
            _ if at == *a => Some(*b),
            _ if at == *b => Some(*a),
            _ => None,
        })
    }

    pub(super) fn host(&self, address: MaskedBits, kind: MaskedBits) -> Option<&KnownHost> {
        self.hosts.iter().find(|host| {
            let (number, version) = numbers(host.address);
            address == MaskedBits::new(number, MatchField::Source.full())
                && kind == MaskedBits::new(version, MatchField::EthType.full())
        })
    }

    /// Ports of a switch on a shortest path to a host.
    pub(super) fn toward(&self, from: usize, (home, port): At) -> Vec<u32> {
        if from == home {
            return vec![port];
        }
        let mut distance = vec![usize::MAX; self.switches.len()];
        let mut reached = vec![home];
        if let Some(zero) = distance.get_mut(home) {
            *zero = 0;
        }
        let mut next = 0;
        while let Some(&at) = reached.get(next) {
            next += 1;
            for (_, (neighbor, _)) in self.ends(at) {
                if distance[neighbor] == usize::MAX {
                    distance[neighbor] = distance[at] + 1;
                    reached.push(neighbor);
                }
            }
        }
        let nearer = |end: &(u32, At)| distance[end.1.0].checked_add(1) == Some(distance[from]);
        self.ends(from)
            .filter(nearer)
            .map(|(port, _)| port)
            .collect()
    }

    /// Links of a switch for traffic other than copies: its port, and the other end.
    fn ends(&self, at: usize) -> impl Iterator<Item = (u32, At)> {
        let here = move |(a, b): (At, At)| (a.0 == at).then_some((a.1, b));
        let is_there = move |end: &(u32, At)| {
            end.1.0 < self.switches.len() && !self.switches[at].is_for_copies(end.0)
        };
        self.links
            .iter()
            .flat_map(move |SwitchLink(a, b)| [here((*a, *b)), here((*b, *a))])
            .flatten()
            .filter(is_there)
    }

    /// All possible behaviors of packets that enter at a port.
    #[must_use]
    pub fn behaviors(
        &self,
        (switch, port): At,
        region: &PacketRegion,
        terms: &mut UnmodeledTerms,
    ) -> Vec<PacketBehavior> {
        let entered = region.and(&PacketCube::ALL.with(MatchField::InPort, port.into()));
        let follow = |entered| {
            self.follow(
                switch,
                PacketClass::new(entered, PathState::default()),
                0,
                terms,
            )
        };
        entered.map(follow).unwrap_or_default()
    }

    fn follow(
        &self,
        at: usize,
        class: PacketClass,
        hops: usize,
        terms: &mut UnmodeledTerms,
    ) -> Vec<PacketBehavior> {
        let nothing = |region, doubts| PacketBehavior {
            region,
            copies: Vec::new(),
            is_delivered: false,
            doubts,
        };
        let Some(switch) = self.switches.get(at).filter(|_| hops < HOPS_MAX) else {
            return vec![nothing(class.region, vec!["it loops".to_owned()])];
        };
        let mut all = Vec::new();
        for class in switch.run(class, terms) {
            let (ways, doubts) = self.ways(at, &class);
            for way in ways {
                let mut so_far = vec![nothing(class.region.clone(), doubts.clone())];
                for (port, max_len, state) in self.mirrored(at, &class, way) {
                    so_far = so_far
                        .into_iter()
                        .flat_map(|begun| {
                            self.leave((at, port), max_len, &state, begun, hops, terms)
                        })
                        .collect();
                }
                all.extend(so_far);
            }
            if all.len() > BEHAVIORS_MAX {
                return vec![nothing(
                    class.region,
                    vec!["it has too many possible paths to examine".to_owned()],
                )];
            }
        }
        all
    }

    /// Possible sets of outputs of a class, and unknown effects.
    fn ways(&self, at: usize, class: &PacketClass) -> (Vec<Vec<Out>>, Vec<String>) {
        let mut ways: Vec<Vec<Out>> = vec![Vec::new()];
        let mut doubts = Vec::new();
        for effect in &class.effects {
            let choices: Vec<Vec<Out>> = match effect {
                PacketEffect::Output {
                    port,
                    max_len,
                    state,
                } => vec![vec![(*port, *max_len, state.clone())]],
                PacketEffect::Normal(state) => {
                    let out = |ports: Vec<u32>| {
                        ports
                            .into_iter()
                            .map(|port| (port, None, state.clone()))
                            .collect()
                    };
                    self.normal(at, &class.region.cube, state)
                        .into_iter()
                        .map(out)
                        .collect()
                }
                PacketEffect::Controller(..) => continue,
                PacketEffect::Unknown(text) => {
                    doubts.push(format!(
                        "{}: {text} cannot be modeled",
                        self.switches[at].name
                    ));
                    continue;
                }
            };
            ways = ways
                .iter()
                .flat_map(|way| choices.iter().map(|more| [&way[..], &more[..]].concat()))
                .collect();
        }
        (ways, doubts)
    }

    /// Adds the copies of the switch's port mirrors, each once.
    fn mirrored(&self, at: usize, class: &PacketClass, mut way: Vec<Out>) -> Vec<Out> {
        let entered = class.get(MatchField::InPort).value as u32;
        for mirror in &self.switches[at].mirrors {
            let leaves = way.iter().any(|(port, ..)| mirror.leaving.contains(port));
            if (mirror.entering.contains(&entered) || leaves) && entered != mirror.output {
                way.push((mirror.output, mirror.max_len, PathState::default()));
            }
        }
        way
    }

    fn leave(
        &self,
        at: At,
        max_len: Option<u32>,
        state: &PathState,
        begun: PacketBehavior,
        hops: usize,
        terms: &mut UnmodeledTerms,
    ) -> Vec<PacketBehavior> {
        let Some(port) = self.switches[at.0].port(at.1) else {
            return vec![begun];
        };
        if let PortNeighbor::Monitor(monitor) = &port.leads {
            let mut copied = begun;
            copied.copies.push((monitor.clone(), max_len));
            copied.copies.sort();
            return vec![copied];
        }
        let Some((switch, entrance)) = self.peer(at) else {
            let is_delivered = begun.is_delivered || port.leads != PortNeighbor::Copies;
            return vec![PacketBehavior {
                is_delivered,
                ..begun
            }];
        };
        let mut state = state.clone();
        state.set.insert(MatchField::InPort, entrance.into());
        let further = self.follow(
            switch,
            PacketClass::new(begun.region.clone(), state),
            hops + 1,
            terms,
        );
        let both = |mut there: PacketBehavior| {
            // Truncation is kept on the rest of the path.
            for (_, len) in &mut there.copies {
                *len = len.iter().copied().chain(max_len).min();
            }
            there.copies.extend(begun.copies.iter().cloned());
            there.copies.sort();
            there.is_delivered |= begun.is_delivered;
            there.doubts.extend(begun.doubts.iter().cloned());
            there
        };
        further.into_iter().map(both).collect()
    }

    /// Possible sets of output ports of a packet at the switch it enters, each with its part; sorted.
    #[must_use]
    pub fn outputs(
        &self,
        (switch, port): At,
        packet: &ModelPacket,
        terms: &mut UnmodeledTerms,
    ) -> Vec<Vec<(u32, Option<u32>)>> {
        let Some(entered) = self.switches.get(switch) else {
            return Vec::new();
        };
        let cube = packet.with(MatchField::InPort, port.into()).cube();
        let mut all = Vec::new();
        for class in entered.run(PacketClass::new(cube.into(), PathState::default()), terms) {
            for way in self.ways(switch, &class).0 {
                let way = self.mirrored(switch, &class, way).into_iter();
                let mut ports: Vec<_> = way.map(|(port, max_len, _)| (port, max_len)).collect();
                ports.sort_unstable();
                all.push(ports);
            }
        }
        all
    }

    /// Path of a packet, one line per matched rule.
    #[must_use]
    pub fn narrate(
        &self,
        (switch, port): At,
        packet: PacketCube,
        terms: &mut UnmodeledTerms,
    ) -> String {
        let mut out = String::new();
        let class = PacketClass::new(
            packet.with(MatchField::InPort, port.into()).into(),
            PathState::default(),
        );
        self.tell(switch, class, 0, terms, &mut out);
        out
    }

    fn tell(
        &self,
        at: usize,
        class: PacketClass,
        hops: usize,
        terms: &mut UnmodeledTerms,
        out: &mut String,
    ) {
        use std::fmt::Write;
        let Some(switch) = self.switches.get(at).filter(|_| hops < 4) else {
            return;
        };
        let indent = "  ".repeat(hops + 1);
        let entered = class.get(MatchField::InPort).value;
        let _ = writeln!(out, "{indent}{}, in at port {entered}", switch.name);
        for class in switch.run(class, terms) {
            for step in &class.steps {
                let rule = step.rule.map_or("no rule".to_owned(), |place| {
                    switch.rules[place].to_string()
                });
                let _ = writeln!(out, "{indent}  table {}: {rule}", step.table);
            }
            let (ways, _) = self.ways(at, &class);
            let mut ports: Vec<Out> = ways
                .into_iter()
                .flat_map(|way| self.mirrored(at, &class, way))
                .collect();
            ports.sort();
            ports.dedup();
            for (port, _, mut state) in ports {
                let to = switch
                    .monitor(port)
                    .map(|monitor| format!(", to monitor {monitor}"))
                    .unwrap_or_default();
                let _ = writeln!(out, "{indent}  out at port {port}{to}");
                if let Some((next, entrance)) = self.peer((at, port)) {
                    state.set.insert(MatchField::InPort, entrance.into());
                    self.tell(
                        next,
                        PacketClass::new(class.region.clone(), state),
                        hops + 1,
                        terms,
                        out,
                    );
                }
            }
        }
    }
}

/// Output port, maximum bytes, and state of the packet.
type Out = (u32, Option<u32>, PathState);

/// EtherType and field value of an address.
#[must_use]
pub fn numbers(address: IpAddr) -> (u128, u128) {
    match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), IPV4),
        IpAddr::V6(v6) => (u128::from(v6), IPV6),
    }
}
