//! NetAlytics' Algorithm 1: repeatedly picks a switch, places a monitor on its least used host, and assigns the
//! switch's flows in order up to the first that exceeds the capacity.
//!
//! Cases left open by the paper: a flow too large for any monitor is skipped, because the loop would never end; a
//! switch without a host with capacity for another monitor is no longer picked. Each flow is processed once for each
//! of its racks, and once more if it ended the filling of a monitor.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::assignment::{MonitorAssignment, is_too_big};
use super::by_rack::FlowsByRack;
use super::demand::PlacementDemand;
use crate::random::SeededRandom;
use crate::topology::{NetworkLoad, RackId};

/// Selection of the next switch.
pub(super) enum SwitchPick<'r> {
    /// Any switch that covers a flow.
    Random(&'r mut SeededRandom),
    /// The switch that covers the most flows, the first of several. Counts only decrease, so stale heap entries are
    /// updated when they reach the top.
    MostFlows(BinaryHeap<(u32, Reverse<RackId>)>),
}

impl<'r> SwitchPick<'r> {
    pub(super) fn random(random: &'r mut SeededRandom) -> SwitchPick<'r> {
        SwitchPick::Random(random)
    }

    pub(super) fn most_flows(by_rack: &FlowsByRack) -> SwitchPick<'r> {
        let racks = 0..by_rack.racks() as RackId;
        SwitchPick::MostFlows(
            racks
                .map(|rack| (by_rack.flows(rack).len() as u32, Reverse(rack)))
                .collect(),
        )
    }

    /// The next switch with uncovered flows.
    fn next(&mut self, left: &[u32]) -> Option<RackId> {
        match self {
            SwitchPick::Random(random) => {
                // Uniform: switches without flows are drawn again.
                left.iter().any(|left| *left > 0).then_some(())?;
                std::iter::repeat_with(|| random.below(left.len()))
                    .find(|rack| left[*rack] > 0)
                    .map(|r| r as RackId)
            }
            SwitchPick::MostFlows(heap) => loop {
                let (count, Reverse(rack)) = heap.pop()?;
                let now = left[usize::from(rack)];
                if now == 0 {
                    continue;
                }
                heap.push((now, Reverse(rack)));
                if now == count {
                    return Some(rack);
                }
            },
        }
    }
}

/// Places monitors.
pub(super) fn cover(
    demand: &PlacementDemand<'_>,
    by_rack: &FlowsByRack,
    mut pick: SwitchPick<'_>,
    load: &mut NetworkLoad<'_>,
) -> MonitorAssignment {
    let need = demand.monitor.need_mirrored();
    let mut assignment = MonitorAssignment::new(demand.flows.len());
    let mut left = vec![0u32; by_rack.racks()];
    for flow in demand.flows.iter().filter(|flow| !is_too_big(flow, demand)) {
        flow.distinct_racks()
            .for_each(|rack| left[usize::from(rack)] += 1);
    }
    let mut next: Vec<usize> = (0..by_rack.racks())
        .map(|rack| by_rack.range(rack as RackId).start)
        .collect();
    while let Some(rack) = pick.next(&left) {
        let hosts = load.network.hosts_of(rack);
        let Some(host) = load.least_used(hosts, |host| load.bears(host, &need)) else {
            left[usize::from(rack)] = 0;
            continue;
        };
        load.place(host, &need);
        let monitor = assignment.open(host);
        let mut room = demand.monitor.mbps;
        let next = &mut next[usize::from(rack)];
        while *next < by_rack.range(rack).end {
            let index = by_rack.flow_at(*next);
            let flow = &demand.flows[index];
            if !assignment.is_covered(index) && !is_too_big(flow, demand) {
                if f64::from(flow.mbps) > room {
                    break;
                }
                room -= f64::from(flow.mbps);
                assignment.give(index, flow.mbps, monitor);
                // A rack without capacity counts as having no flows left.
                for rack in flow.distinct_racks() {
                    let left = &mut left[usize::from(rack)];
                    *left = left.saturating_sub(1);
                }
            }
            *next += 1;
        }
    }
    assignment.finish(demand)
}
