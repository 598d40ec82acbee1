//! State of monitor placement: the monitor of each flow, and the remaining capacity of each monitor.

use super::demand::{PlacementDemand, PlacementFlow};
use super::result::{NOBODY, PlacedMonitor, UncoveredFlows};
use crate::topology::HostId;

/// State of monitor placement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MonitorAssignment {
    pub(super) monitors: Vec<PlacedMonitor>,
    pub(super) monitor_of: Vec<u32>,
    pub(super) uncovered: UncoveredFlows,
}

impl MonitorAssignment {
    /// Creates a state without monitors.
    pub(super) fn new(flows: usize) -> MonitorAssignment {
        MonitorAssignment {
            monitors: Vec::new(),
            monitor_of: vec![NOBODY; flows],
            uncovered: UncoveredFlows::default(),
        }
    }

    /// Adds a monitor and returns its index.
    pub(super) fn open(&mut self, host: HostId) -> u32 {
        self.monitors.push(PlacedMonitor {
            host,
            mbps: 0.0,
            flows: 0,
        });
        self.monitors.len() as u32 - 1
    }

    /// Assigns a flow to a monitor.
    pub(super) fn give(&mut self, flow: usize, mbps: f32, monitor: u32) {
        self.monitor_of[flow] = monitor;
        let monitor = &mut self.monitors[monitor as usize];
        monitor.mbps += f64::from(mbps);
        monitor.flows += 1;
    }

    /// Removes a flow from its monitor.
    pub(super) fn take(&mut self, flow: usize, mbps: f32) {
        let monitor = &mut self.monitors[self.monitor_of[flow] as usize];
        monitor.mbps -= f64::from(mbps);
        monitor.flows -= 1;
        self.monitor_of[flow] = NOBODY;
    }

    pub(super) fn is_covered(&self, flow: usize) -> bool {
        self.monitor_of[flow] != NOBODY
    }

    /// Removes monitors without flows.
    pub(super) fn without_idle(mut self) -> MonitorAssignment {
        let mut kept = 0;
        let number = |monitor: &PlacedMonitor| {
            let is_kept = monitor.flows > 0;
            kept += u32::from(is_kept);
            if is_kept { kept - 1 } else { NOBODY }
        };
        let renumbered: Vec<u32> = self.monitors.iter().map(number).collect();
        for monitor in self
            .monitor_of
            .iter_mut()
            .filter(|monitor| **monitor != NOBODY)
        {
            *monitor = renumbered[*monitor as usize];
        }
        self.monitors.retain(|monitor| monitor.flows > 0);
        self
    }

    /// Counts the uncovered flows.
    pub(super) fn finish(mut self, demand: &PlacementDemand<'_>) -> MonitorAssignment {
        for (flow, _) in demand
            .flows
            .iter()
            .zip(&self.monitor_of)
            .filter(|(_, monitor)| **monitor == NOBODY)
        {
            if is_too_big(flow, demand) {
                self.uncovered.too_big += 1
            } else {
                self.uncovered.no_room += 1
            }
        }
        self
    }
}

/// Whether the flow exceeds the capacity of any monitor.
pub(super) fn is_too_big(flow: &PlacementFlow, demand: &PlacementDemand<'_>) -> bool {
    f64::from(flow.mbps) > demand.monitor.mbps
}
