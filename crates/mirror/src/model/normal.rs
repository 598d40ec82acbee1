//! Possible behaviors of NORMAL: sending a packet to the learned port of its destination, or flooding. The choice
//! depends on earlier traffic, so all are examined; if the host's location is known, only the path there.

use super::network::SwitchNetwork;
use super::run::{PacketClass, PacketEffect, PathState, UnmodeledTerms};
use super::switch::{EntryPort, FloodSetting, SwitchModel};
use crate::packets::{MatchField, PacketCube};

impl SwitchModel {
    /// Ports at which addresses may be learned: those from which a packet may reach NORMAL.
    #[must_use]
    pub fn learns_at(&self, terms: &mut UnmodeledTerms) -> Vec<u32> {
        let mut learns = Vec::new();
        for port in self
            .ports
            .iter()
            .filter(|port| !self.is_mirror_output(port.number))
        {
            let entered = PacketCube::ALL.with(MatchField::InPort, port.number.into());
            let classes = self.run(
                PacketClass::new(entered.into(), PathState::default()),
                terms,
            );
            let is_normal = |effect: &PacketEffect| matches!(effect, PacketEffect::Normal(_));
            if classes
                .iter()
                .any(|class| class.effects.iter().any(is_normal))
            {
                learns.push(port.number);
            }
        }
        learns
    }
}

/// Ports of a flood, with no more than one of each bond.
fn one_of_each_bond(switch: &SwitchModel, flooded: Vec<u32>) -> Vec<u32> {
    let (bonded, single): (Vec<u32>, Vec<u32>) = flooded
        .into_iter()
        .partition(|number| switch.bond(*number).is_some());
    let first = |bond: &Vec<u32>| bond.iter().find(|number| bonded.contains(number)).copied();
    single
        .into_iter()
        .chain(switch.bonds.iter().filter_map(first))
        .collect()
}

/// A port of a bond stands for any of its ports, and for none if all are down.
fn spread(switch: &SwitchModel, ports: Vec<u32>) -> Vec<Vec<u32>> {
    let mut ways = vec![Vec::new()];
    for number in ports {
        let choices: Vec<Option<u32>> = match switch.bond(number) {
            None => vec![Some(number)],
            Some(bond) => bond.iter().copied().map(Some).chain([None]).collect(),
        };
        ways = ways
            .iter()
            .flat_map(|way: &Vec<u32>| {
                choices
                    .iter()
                    .map(|more| way.iter().copied().chain(*more).collect())
            })
            .collect();
    }
    ways
}

impl SwitchNetwork {
    /// Possible sets of output ports of a packet at NORMAL.
    pub(super) fn normal(&self, at: usize, cube: &PacketCube, state: &PathState) -> Vec<Vec<u32>> {
        let switch = &self.switches[at];
        let entered = state.get(cube, MatchField::InPort).value as u32;
        let tag = state.get(cube, MatchField::Vlan);
        if switch.is_mirror_output(entered) {
            return vec![Vec::new()];
        }
        let vlan = switch
            .port(entered)
            .map_or(EntryPort::InAny, |port| port.vlans.entered(tag));
        let may_leave = |number: u32| {
            let port = switch.port(number);
            number != entered
                && switch
                    .bond(number)
                    .is_none_or(|bond| !bond.contains(&entered))
                && !switch.is_mirror_output(number)
                && port.is_some_and(|port| match vlan {
                    EntryPort::In(vlan) | EntryPort::InOrRefused(vlan) => port.vlans.carry(vlan),
                    EntryPort::InAny => true,
                    EntryPort::Refused => false,
                })
        };
        let flooded = switch
            .ports
            .iter()
            .filter(|port| port.flooded == FloodSetting::Yes);
        let flooded: Vec<u32> = flooded
            .map(|port| port.number)
            .filter(|number| may_leave(*number))
            .collect();
        let learned: Vec<u32> = match self.host(
            state.get(cube, MatchField::Destination),
            state.get(cube, MatchField::EthType),
        ) {
            Some(host) => self.toward(at, host.at),
            None => self.learned.get(at).cloned().unwrap_or_default(),
        };
        // A destination learned at the input port receives nothing.
        let learned = learned.into_iter().map(|number| {
            if may_leave(number) {
                vec![number]
            } else {
                Vec::new()
            }
        });
        // A bond may accept a packet at one port and reject it at another.
        let may_refuse =
            matches!(vlan, EntryPort::InOrRefused(_)) || switch.bond(entered).is_some();
        let all = std::iter::once(one_of_each_bond(switch, flooded))
            .chain(learned)
            .chain(may_refuse.then(Vec::new));
        // A destination learned at one port of a bond is reached by any of its ports.
        all.flat_map(|ports| spread(switch, ports)).collect()
    }
}
