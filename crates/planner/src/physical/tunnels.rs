//! Monitors behind another switch, used if the covered switch has no spare host with capacity: copies are sent there
//! through a tunnel, which both switches must support. Encapsulated packets are longer, and count on every link of
//! the path.

use std::collections::BTreeMap;

use mirror::{MirrorMode, PacketSelection};

use super::rates::copied;
use super::request::PlanningProblem;
use crate::topology::{
    HostId, LINK_CLASSES, LinkClass, LinkTraffic, NetworkLoad, ProcessNeed, RackId, SwitchAccess,
};

/// Overhead of VXLAN per packet: Ethernet, IPv4, UDP, and VXLAN headers.
const WRAPPING_BYTES: f64 = 50.0;

/// Mb/s of copies within a tunnel.
pub(super) fn wrapped(mbps: f64, packets: f64) -> f64 {
    mbps + packets * WRAPPING_BYTES * 8.0 / 1e6
}

impl PlanningProblem<'_> {
    /// The nearest host behind another switch with capacity for a monitor of `cores` that is not used by another
    /// switch; the least used of these. `load` is the free capacity of hosts and links, which is reduced by the
    /// result.
    pub(super) fn behind_another(
        &self,
        switch: usize,
        mode: MirrorMode,
        cores: f64,
        load: &mut NetworkLoad<'_>,
        taken: &BTreeMap<usize, HostId>,
    ) -> Result<HostId, String> {
        if mode.which == PacketSelection::Port {
            return Err("port mirrors are not sent through tunnels".to_owned());
        }
        if !self.has_tunnels(switch) {
            return Err(
                "tunnels cannot start there: this needs ovsdb and tunnel in the network file"
                    .to_owned(),
            );
        }
        let (mbps, packets) = copied(mode, &self.at[&switch].1, self.ask.costs);
        let mbps = wrapped(mbps, packets);
        let rack = self.rack(switch);
        let memory_gb = self.ask.costs.monitor.memory_gb;
        // The input of the monitor is counted per link.
        let need = ProcessNeed {
            cores,
            memory_gb,
            mirrored_mbps: 0.0,
        };
        let at = |host: HostId| self.ask.site.hosts[host as usize].at.switch;
        let fits = |host: &HostId| {
            self.has_tunnels(at(*host))
                && at(*host) != switch
                && !taken.values().any(|other| other == host)
                && load.bears(*host, &need)
                && load.carries_from_rack(rack, *host, mbps)
        };
        let order = |host: &HostId| (self.is_other_pod(switch, at(*host)), load.used(*host));
        let fit = load.network.all_hosts().filter(fits);
        let nearest = fit.min_by(|a, b| {
            order(a)
                .partial_cmp(&order(b))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let host =
            nearest.ok_or_else(|| "and none at another switch reachable by a tunnel".to_owned())?;
        load.place(host, &need);
        load.carry_from_rack(rack, host, mbps);
        Ok(host)
    }

    /// Whether a switch supports tunnels.
    fn has_tunnels(&self, switch: usize) -> bool {
        let of = &self.ask.site.switches[switch];
        of.tunnel.is_some() && matches!(of.reached, SwitchAccess::Ovsdb(_))
    }

    /// The rack of a switch with hosts.
    pub(super) fn rack(&self, switch: usize) -> RackId {
        self.ask
            .site
            .rack_of(switch)
            .expect("the file has hosts on edge switches alone")
    }

    fn is_other_pod(&self, from: usize, to: usize) -> bool {
        self.network.pod_of(self.rack(from)) != self.network.pod_of(self.rack(to))
    }

    /// The load of a tunnel between two edge switches on the links between switches.
    pub(super) fn between(&self, from: usize, to: usize, mbps: f64) -> LinkTraffic {
        let is_crossed = |class: LinkClass| match class {
            LinkClass::Access => false,
            LinkClass::Aggregation => true,
            LinkClass::Core => self.is_other_pod(from, to),
        };
        LinkTraffic(LINK_CLASSES.map(|class| if is_crossed(class) { 2.0 * mbps } else { 0.0 }))
    }
}
