//! Packing of monitors, not from the paper: as few monitors as possible. Large flows are processed first. Flows
//! within a rack fill its monitors; flows between two racks fill the remaining capacity, in the emptier rack; for the
//! rest, monitors are added where most of it is. A local search on pairs of racks follows: monitors are emptied into
//! others and closed, and flows that may be at either end are moved to the fuller monitor, so that the emptier ones
//! share an aggregator.

use super::assignment::{MonitorAssignment, is_too_big};
use super::by_rack::FlowsByRack;
use super::demand::{PlacementDemand, PlacementFlow};
use super::result::{NOBODY, PlacedMonitor};
use crate::topology::{NetworkLoad, RackId};

/// Places monitors.
pub(super) fn cover(
    demand: &PlacementDemand<'_>,
    by_rack: &FlowsByRack,
    load: &mut NetworkLoad<'_>,
) -> MonitorAssignment {
    let mut packing = MonitorPacking {
        demand,
        by_rack,
        load,
        assignment: MonitorAssignment::new(demand.flows.len()),
        of_rack: vec![Vec::new(); by_rack.racks()],
    };
    let mut largest_first = largest_first(demand);
    packing.cover(&largest_first);
    packing.close_emptiest();
    packing.concentrate();
    // Closed monitors may have freed capacity for uncovered flows.
    largest_first.retain(|index| !packing.assignment.is_covered(*index as usize));
    packing.cover(&largest_first);
    packing.free_idle();
    packing.assignment.without_idle().finish(demand)
}

/// Indices of flows that a monitor can cover, by descending rate.
fn largest_first(demand: &PlacementDemand<'_>) -> Vec<u32> {
    let flows = demand.flows;
    let fits = |index: &u32| !is_too_big(&flows[*index as usize], demand);
    let mut order: Vec<u32> = (0..flows.len() as u32).filter(fits).collect();
    // Bits of positive numbers have the order of the numbers. Ties are broken by index.
    order.sort_unstable_by_key(|index| (!flows[*index as usize].mbps.to_bits(), *index));
    order
}

struct MonitorPacking<'p, 'n> {
    demand: &'p PlacementDemand<'p>,
    by_rack: &'p FlowsByRack,
    load: &'p mut NetworkLoad<'n>,
    assignment: MonitorAssignment,
    /// The monitors of each rack.
    of_rack: Vec<Vec<u32>>,
}

impl MonitorPacking<'_, '_> {
    fn flow(&self, index: u32) -> PlacementFlow {
        self.demand.flows[index as usize]
    }

    fn room(&self, monitor: u32) -> f64 {
        self.demand.monitor.mbps - self.assignment.monitors[monitor as usize].mbps
    }

    /// Adds a monitor in a rack, if a host has capacity.
    fn open(&mut self, rack: RackId) -> Option<u32> {
        let need = self.demand.monitor.need_mirrored();
        let hosts = self.load.network.hosts_of(rack);
        // The monitor's output is best merged on the same host, so a host with much free capacity is selected.
        let host = self
            .load
            .roomiest(hosts, &need, |host| self.load.bears(host, &need))?;
        self.load.place(host, &need);
        let monitor = self.assignment.open(host);
        self.of_rack[usize::from(rack)].push(monitor);
        Some(monitor)
    }

    /// Assigns a flow to a monitor if it has capacity; returns whether it did.
    fn try_give(&mut self, index: u32, monitor: u32) -> bool {
        let mbps = self.flow(index).mbps;
        let fits = f64::from(mbps) <= self.room(monitor);
        if fits {
            self.assignment.give(index as usize, mbps, monitor);
        }
        fits
    }

    /// Covers flows up to the available capacity.
    fn cover(&mut self, largest_first: &[u32]) {
        self.within_racks(largest_first);
        let mut waiting = self.between_racks(largest_first);
        self.open_for(&mut waiting);
    }

    fn within_racks(&mut self, largest_first: &[u32]) {
        for index in largest_first {
            let [rack, other] = self.flow(*index).racks;
            if rack != other {
                continue;
            }
            let at = usize::from(rack);
            let found =
                (0..self.of_rack[at].len()).any(|i| self.try_give(*index, self.of_rack[at][i]));
            if !found && let Some(monitor) = self.open(rack) {
                self.try_give(*index, monitor);
            }
        }
    }

    /// Assigns flows between racks to the available capacity. Returns the waiting flows by rack.
    fn between_racks(&mut self, largest_first: &[u32]) -> WaitingFlows {
        let mut waiting = WaitingFlows::new(self.by_rack.racks());
        for index in largest_first {
            let flow = self.flow(*index);
            let [a, b] = flow.racks;
            if a == b {
                continue;
            }
            let monitors = [a, b]
                .into_iter()
                .flat_map(|rack| &self.of_rack[usize::from(rack)]);
            let emptiest = monitors
                .copied()
                .max_by(|a, b| self.room(*a).total_cmp(&self.room(*b)));
            if !emptiest.is_some_and(|monitor| self.try_give(*index, monitor)) {
                waiting.add(*index, &flow);
            }
        }
        waiting
    }

    /// Adds monitors in the racks with the most waiting traffic.
    fn open_for(&mut self, waiting: &mut WaitingFlows) {
        while let Some(rack) = waiting.fullest() {
            match self.open(rack) {
                None => waiting.give_up(rack),
                Some(monitor) => {
                    self.fill(monitor, rack, waiting);
                    self.relieve(monitor, rack, waiting);
                }
            }
        }
    }

    /// Assigns waiting flows of a rack to a monitor up to its capacity.
    fn fill(&mut self, monitor: u32, rack: RackId, waiting: &mut WaitingFlows) {
        let mut flows = std::mem::take(&mut waiting.flows[usize::from(rack)]);
        flows.retain(|index| {
            if self.assignment.is_covered(*index as usize) {
                return false;
            }
            let given = self.try_give(*index, monitor);
            if given {
                waiting.forget(&self.flow(*index));
            }
            !given
        });
        waiting.flows[usize::from(rack)] = flows;
    }

    /// Remaining capacity of a new monitor takes flows from racks with waiting flows, which then use the freed
    /// capacity.
    fn relieve(&mut self, monitor: u32, rack: RackId, waiting: &mut WaitingFlows) {
        let by_rack = self.by_rack;
        let mut relieved: Vec<(u32, RackId)> = Vec::new();
        for index in by_rack.flows(rack) {
            let flow = self.flow(*index);
            let Some(other) = flow.other_rack(rack) else {
                continue;
            };
            let from = self.assignment.monitor_of[*index as usize];
            let is_wanted =
                from != NOBODY && from != monitor && waiting.count[usize::from(other)] > 0;
            if is_wanted && self.is_in(from, other) && f64::from(flow.mbps) <= self.room(monitor) {
                self.assignment.take(*index as usize, flow.mbps);
                self.assignment.give(*index as usize, flow.mbps, monitor);
                relieved.push((from, other));
            }
        }
        relieved.sort_unstable();
        relieved.dedup();
        for (monitor, rack) in relieved {
            self.fill(monitor, rack, waiting);
        }
    }

    fn is_in(&self, monitor: u32, rack: RackId) -> bool {
        self.load
            .network
            .rack_of(self.assignment.monitors[monitor as usize].host)
            == rack
    }

    /// Empties monitors into others, the least loaded first, and closes them.
    fn close_emptiest(&mut self) {
        for monitor in self.by_rate() {
            let Some(moves) = self.all_elsewhere(monitor) else {
                continue;
            };
            for (index, to) in moves {
                let mbps = self.flow(index).mbps;
                self.assignment.take(index as usize, mbps);
                self.assignment.give(index as usize, mbps, to);
            }
            let host = self.assignment.monitors[monitor as usize].host;
            self.load.remove(host, &self.demand.monitor.need_mirrored());
            self.of_rack[usize::from(self.load.network.rack_of(host))]
                .retain(|other| *other != monitor);
        }
    }

    /// Monitors by ascending load.
    fn by_rate(&self) -> Vec<u32> {
        let mut monitors: Vec<u32> = (0..self.assignment.monitors.len() as u32).collect();
        monitors.sort_by(|a, b| self.room(*b).total_cmp(&self.room(*a)));
        monitors
    }

    /// A target for each flow of a monitor, if all flows can be moved.
    fn all_elsewhere(&self, monitor: u32) -> Option<Vec<(u32, u32)>> {
        let rack = self
            .load
            .network
            .rack_of(self.assignment.monitors[monitor as usize].host);
        let mut room: Vec<f64> = (0..self.assignment.monitors.len() as u32)
            .map(|m| self.room(m))
            .collect();
        let mut moves = Vec::new();
        let flows = self.by_rack.flows(rack).iter();
        for index in flows.filter(|index| self.assignment.monitor_of[**index as usize] == monitor) {
            let flow = self.flow(*index);
            let monitors = flow
                .distinct_racks()
                .flat_map(|rack| &self.of_rack[usize::from(rack)]);
            let to = monitors
                .copied()
                .filter(|to| *to != monitor)
                .max_by(|a, b| room[*a as usize].total_cmp(&room[*b as usize]))
                .filter(|to| f64::from(flow.mbps) <= room[*to as usize])?;
            room[to as usize] -= f64::from(flow.mbps);
            moves.push((*index, to));
        }
        Some(moves)
    }

    /// Releases the resources of monitors without flows.
    fn free_idle(&mut self) {
        for monitor in self.of_rack.iter().flatten() {
            let PlacedMonitor { host, flows, .. } = self.assignment.monitors[*monitor as usize];
            if flows == 0 {
                self.load.remove(host, &self.demand.monitor.need_mirrored());
            }
        }
    }

    /// Moves flows from emptier monitors at the other end to fuller ones.
    fn concentrate(&mut self) {
        let by_rack = self.by_rack;
        for monitor in self.by_rate().into_iter().rev() {
            if self.assignment.monitors[monitor as usize].flows == 0 {
                continue;
            }
            let rack = self
                .load
                .network
                .rack_of(self.assignment.monitors[monitor as usize].host);
            for index in by_rack.flows(rack) {
                let from = self.assignment.monitor_of[*index as usize];
                let mbps = self.flow(*index).mbps;
                if from != NOBODY
                    && from != monitor
                    && self.room(from) > self.room(monitor)
                    && f64::from(mbps) <= self.room(monitor)
                {
                    self.assignment.take(*index as usize, mbps);
                    self.assignment.give(*index as usize, mbps, monitor);
                }
            }
        }
    }
}

/// Waiting flows by rack, largest first, with their total rates.
struct WaitingFlows {
    flows: Vec<Vec<u32>>,
    mbps: Vec<f64>,
    count: Vec<u32>,
}

impl WaitingFlows {
    fn new(racks: usize) -> WaitingFlows {
        WaitingFlows {
            flows: vec![Vec::new(); racks],
            mbps: vec![0.0; racks],
            count: vec![0; racks],
        }
    }

    fn add(&mut self, index: u32, flow: &PlacementFlow) {
        for rack in flow.distinct_racks() {
            self.flows[usize::from(rack)].push(index);
            self.mbps[usize::from(rack)] += f64::from(flow.mbps);
            self.count[usize::from(rack)] += 1;
        }
    }

    fn forget(&mut self, flow: &PlacementFlow) {
        for rack in flow.distinct_racks().map(usize::from) {
            self.mbps[rack] -= f64::from(flow.mbps);
            self.count[rack] = self.count[rack].saturating_sub(1);
        }
    }

    /// The rack with the most waiting traffic.
    fn fullest(&self) -> Option<RackId> {
        let waiting = (0..self.mbps.len()).filter(|rack| self.count[*rack] > 0);
        waiting
            .max_by(|a, b| self.mbps[*a].total_cmp(&self.mbps[*b]))
            .map(|rack| rack as RackId)
    }

    /// Drops the waiting flows of a rack.
    fn give_up(&mut self, rack: RackId) {
        self.flows[usize::from(rack)].clear();
        self.count[usize::from(rack)] = 0;
    }
}
