//! Databases of the switches of a network file: opens them, and reads the exporters that exist.

use std::path::Path;

use plan::Plan;
use planner::physical::{NetworkMode, OccupiedSlot, export_slots};
use planner::topology::{NetworkSite, SiteSwitch, SwitchAccess};
use steer::OpenVSwitch;

use crate::process::failure::wrong_flags;

/// Exporters in the places that a plan could use. A switch that does not answer has none: if the plan uses it, its
/// configuration fails with the reason.
pub fn occupied(site: &NetworkSite, plan: &Plan, mode: NetworkMode) -> Vec<OccupiedSlot> {
    let slots = match mode {
        NetworkMode::Packets => Vec::new(),
        NetworkMode::Auto => export_slots(plan),
        NetworkMode::Export(slot) => vec![slot],
    };
    let mut occupied = Vec::new();
    if slots.is_empty() {
        return occupied;
    }
    for (index, switch) in site.switches.iter().enumerate() {
        let SwitchAccess::Ovsdb(address) = &switch.reached else {
            continue;
        };
        let seen = open_vswitch(switch, address).and_then(|open| Ok(open.running_exporters()?));
        let exporters = seen.map(|seen| seen.exporters).unwrap_or_default();
        let here = exporters.iter().filter(|other| slots.contains(&other.slot));
        occupied.extend(here.map(|other| OccupiedSlot {
            switch: index,
            slot: other.slot,
            exporter: other.to_string(),
        }));
    }
    occupied
}

/// An Open vSwitch by the address of its database.
pub fn open_vswitch(switch: &SiteSwitch, address: &str) -> anyhow::Result<OpenVSwitch> {
    let name = &switch.name;
    let socket = address.strip_prefix("unix:").map(Path::new);
    let folder = socket.and_then(Path::parent).ok_or_else(|| {
        wrong_flags(format!("{name}: {address:?} is not the address of a database on this machine, such as unix:/run/openvswitch/db.sock"))
    })?;
    let bridge = switch.bridge.as_deref().unwrap_or("br0");
    Ok(OpenVSwitch::new(folder, bridge))
}
