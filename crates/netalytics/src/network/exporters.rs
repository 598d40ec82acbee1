//! Exporters on the switches of a plan: settings, receiver, and how the receiver recognizes them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use mirror::exporter::{ExporterSettings, ExporterSlot, IpfixSettings, SflowSettings};
use mirror::mode::HEADER_BYTES;
use monitor::address_filter::AddressFilter;
use monitor::exports::{ConfiguredExporter, ConfiguredExporters, ExporterIdentity};
use planner::physical::ExportPart;
use planner::topology::{NetworkSite, SwitchAccess};
use steer::{ExporterSite, OpenVSwitch};

use crate::network::plan::NetworkPlan;
use crate::network::switch_access::open_vswitch;
use crate::process::failure::wrong_flags;

/// Maximum number of flows in the cache of an IPFIX exporter.
const CACHE_FLOWS: u32 = 65_536;
/// Range of the active timeout of its cache, in seconds: a tenth of the query's window within it.
const CACHE_SECONDS: [f64; 2] = [1.0, 60.0];
/// Interval of templates in seconds.
const TEMPLATE_SECONDS: u16 = 10;

/// The switches of an export.
pub fn switches(planned: &NetworkPlan, part: &ExportPart) -> anyhow::Result<Vec<OpenVSwitch>> {
    let of = |index: usize| {
        let switch = &planned.site.switches[index];
        match &switch.reached {
            SwitchAccess::Ovsdb(address) => open_vswitch(switch, address),
            _ => Err(wrong_flags(format!("{} has no ovsdb", switch.name))),
        }
    };
    part.switches
        .iter()
        .map(|switch| of(switch.index))
        .collect()
}

/// The address at which exports are received.
///
/// # Errors
/// If the switches cannot send there.
pub fn receiver(
    part: &ExportPart,
    switches: &[OpenVSwitch],
    requested: Option<SocketAddr>,
) -> anyhow::Result<SocketAddr> {
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let address = requested.unwrap_or(loopback);
    let named = part.switches.iter().zip(switches);
    let elsewhere = named
        .filter(|(_, switch)| !switch.process().is_some_and(shares_network))
        .map(|(named, _)| named.name.as_str());
    match elsewhere.collect::<Vec<_>>().as_slice() {
        [name, ..] if address.ip().is_loopback() => Err(wrong_flags(format!(
            "{name} is not known to share the loopback interface of this program, and may be unable to send there: set --receive to an address of this machine that {name} reaches"
        ))),
        _ => Ok(address),
    }
}

/// Whether a process has the network of this one.
fn shares_network(process: u32) -> bool {
    let of = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let there = of(Path::new(&format!("/proc/{process}/ns/net")));
    there.is_some() && there == of(Path::new("/proc/self/ns/net"))
}

/// Exporters to configure on these switches.
pub fn sites(
    planned: &NetworkPlan,
    part: &ExportPart,
    switches: Vec<OpenVSwitch>,
    target: SocketAddr,
) -> Vec<ExporterSite> {
    let named = part.switches.iter().zip(switches);
    named
        .map(|(named, switch)| ExporterSite {
            name: named.name.clone(),
            switch,
            settings: match part.slot {
                ExporterSlot::Ipfix => ExporterSettings::Ipfix(IpfixSettings {
                    target,
                    sampling: part.sampling,
                    cache_active_timeout: cache_seconds(part),
                    cache_max_flows: CACHE_FLOWS,
                    domain: domain(named.index),
                    point: domain(named.index),
                    template_interval: TEMPLATE_SECONDS,
                }),
                _ => ExporterSettings::Sflow(SflowSettings {
                    target,
                    agent: agent(&planned.site, named.index).to_string(),
                    sampling: part.sampling,
                    header: HEADER_BYTES,
                    polling: 0,
                }),
            },
        })
        .collect()
}

fn cache_seconds(part: &ExportPart) -> u16 {
    (part.period / 10.0).clamp(CACHE_SECONDS[0], CACHE_SECONDS[1]) as u16
}

/// Observation domain of a switch.
fn domain(switch: usize) -> u32 {
    switch as u32 + 1
}

/// Agent address of a switch: its tunnel address, or a loopback address with its number in the file.
fn agent(site: &NetworkSite, switch: usize) -> Ipv4Addr {
    match site.switches[switch].tunnel {
        Some(IpAddr::V4(address)) => address,
        _ => Ipv4Addr::from((127 << 24) | domain(switch)),
    }
}

/// The same exporters, as the receiver recognizes them.
pub fn identities(planned: &NetworkPlan, part: &ExportPart) -> ConfiguredExporters {
    let is_ipfix = part.slot == ExporterSlot::Ipfix;
    let covered = planned.plan.covered.iter();
    let exporters = covered.map(|flows| ConfiguredExporter {
        identity: if is_ipfix {
            ExporterIdentity::Domain(domain(flows.switch))
        } else {
            ExporterIdentity::Agent(agent(&planned.site, flows.switch).into())
        },
        flows: AddressFilter::of(&flows.clients, &flows.servers),
        scaled_by: is_ipfix.then_some(f64::from(part.sampling)),
    });
    ConfiguredExporters(exporters.collect())
}
