//! Installation on one switch: read, compile, prove, install, and prove again with the rules reported by the switch.
//! After a failed second proof the rules are removed immediately.

use std::time::Duration;

use mirror::compose::{ComposeError, CopyTerms, RULES_MAX};
use mirror::diff::{clash, others, ours, owners, renewals};
use mirror::model::{
    self, FloodSetting, PortNeighbor, SwitchMirror, SwitchModel, SwitchNetwork, SwitchPort,
};
use mirror::openflow::FlowRule;
use mirror::{
    CopyExpectation, Counterexample, MatchField, ModelPacket, ProofResult, RuleLayout, SwitchCopy,
    compose, diff, prove,
};
use thiserror::Error;

use crate::backend::{CopyPortRecord, ObservedSwitch, Out, SwitchBackend, SwitchError};

/// Renewals per lease, so that two may fail.
const RENEWALS_IN_A_LEASE: u32 = 3;
/// Maximum number of packets traced.
const WITNESSES_MAX: usize = 64;

/// Copies requested from a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallRequest {
    /// Number of the server that owns the rules; 12 bits.
    pub server: u16,
    /// Name of the switch, for counterexamples.
    pub switch: String,
    /// All copies; empty: all rules are removed.
    pub copies: Vec<SwitchCopy>,
    /// Ports of monitors with their names; for tunnels, the monitor behind.
    pub monitors: Vec<(u32, String)>,
    /// Seconds after which rules expire unless renewed; 0: never.
    pub lease: u16,
}

/// Result of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledRules {
    /// The rules.
    pub rules: Vec<FlowRule>,
    /// Result of the proof over the rules reported by the switch.
    pub proved: ProofResult,
    /// State of the switch after the installation.
    pub switch: SwitchModel,
    /// Interval of renewals.
    pub renew_every: Option<Duration>,
}

/// Reason why nothing was installed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InstallError {
    /// The switch failed.
    #[error(transparent)]
    Failed(#[from] SwitchError),
    /// The rules cannot be compiled.
    #[error(transparent)]
    Refused(#[from] ComposeError),
    /// Unknown switch, port or address.
    #[error("{0}")]
    Unknown(String),
    /// Another server has rules for the same packets.
    #[error("server {} has a rule for the same packets: {theirs}; ours would be {ours}", .theirs.cookie.owner().map_or(0, |owner| owner.server))]
    Clash {
        /// Our rule.
        ours: Box<FlowRule>,
        /// The other server's rule.
        theirs: Box<FlowRule>,
    },
    /// The proof failed before the installation.
    #[error("the rules would have another effect: {}", .0.first().map(ToString::to_string).unwrap_or_default())]
    NotProved(Vec<Counterexample>),
    /// The switch reports other rules than installed; they were removed.
    #[error("the rules on the switch differ from those installed: {}", .0.first().map(ToString::to_string).unwrap_or_default())]
    NotAsGiven(Vec<Counterexample>),
    /// The switch treats a packet differently from the model; the rules were removed.
    #[error(
        "the switch forwards {packet} unexpectedly: to {told:?} instead of one of {expected:?}"
    )]
    NotAsModeled {
        /// The packet.
        packet: Box<ModelPacket>,
        /// Actual output ports with maximum bytes.
        told: Vec<Out>,
        /// Expected ones.
        expected: Vec<Vec<Out>>,
    },
}

/// Reason why a job was not started; no switch has objects of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("switch {switch}: {why}")]
pub struct JobStartError {
    /// Name of the switch or switches that failed.
    pub switch: String,
    /// Reason.
    pub why: InstallError,
}

/// Installs exactly the requested copies on a switch.
///
/// # Errors
/// See [`InstallError`]; then the switch is unchanged, or has no rules of ours.
pub fn install(
    backend: &mut dyn SwitchBackend,
    wish: &InstallRequest,
) -> Result<InstalledRules, InstallError> {
    let mut held = Vec::new();
    let installed = try_install(backend, wish, &mut held);
    if installed.is_err() {
        for name in held {
            // The first error is returned; the record stays on the switch, and a later start repairs it.
            let _ = backend.release_port(&name);
        }
    }
    installed
}

fn try_install(
    backend: &mut dyn SwitchBackend,
    wish: &InstallRequest,
    held: &mut Vec<String>,
) -> Result<InstalledRules, InstallError> {
    let mut seen = backend.list()?;
    let is_monitors = |name: &str| {
        let port = seen.ports.iter().find(|port| port.1 == name);
        port.is_some_and(|port| wish.monitors.iter().any(|(monitor, _)| *monitor == port.0))
    };
    for record in held_by(&seen, wish.server).filter(|record| !is_monitors(&record.port)) {
        backend.release_port(&record.port)?;
    }
    for (monitor, _) in &wish.monitors {
        let open = |port: &&mut (u32, String, FloodSetting, _)| {
            port.0 == *monitor && port.2 == FloodSetting::Yes
        };
        if let Some(port) = seen.ports.iter_mut().find(open) {
            backend.hold_port(port.0, &port.1, wish.server)?;
            held.push(port.1.clone());
            port.2 = FloodSetting::No;
        }
    }
    let foreign = others(&seen.rules, wish.server);
    let layout = RuleLayout::of(&owners(&seen.rules));
    let terms = CopyTerms {
        server: wish.server,
        lease: wish.lease,
        layout,
        rules_max: RULES_MAX,
    };
    let desired = compose(&wish.copies, &terms)?;
    none_clash(&desired, &seen.rules, wish.server)?;
    let before = wish.on_paper(&seen).with_rules(foreign.clone());
    let planned = foreign.iter().chain(&desired).cloned().collect();
    check(&before, before.with_rules(planned), wish).map_err(InstallError::NotProved)?;
    backend.apply(&diff(&desired, &seen.rules, wish.server))?;
    let now = backend.list()?;
    let switch = wish.on_paper(&now);
    // Rules of others may have changed in the meantime: the proof uses the current ones.
    let before = switch.with_rules(others(&now.rules, wish.server));
    let checked = check(&before, switch.clone(), wish).map_err(InstallError::NotAsGiven);
    let follow = |backend: &mut dyn SwitchBackend, proved: &ProofResult| {
        let packets = proved.witnesses.iter().map(|witness| &witness.packet);
        follow(backend, &SwitchNetwork::of(switch.clone()), 0, packets)
    };
    match checked.and_then(|proved| follow(backend, &proved).map(|()| proved)) {
        Ok(proved) => {
            let renew_every = (wish.lease > 0)
                .then(|| Duration::from_secs(wish.lease.into()) / RENEWALS_IN_A_LEASE);
            Ok(InstalledRules {
                rules: ours(&now.rules, wish.server),
                proved,
                switch,
                renew_every,
            })
        }
        Err(why) => {
            backend.apply(&diff(&[], &now.rules, wish.server))?;
            Err(why)
        }
    }
}

/// Checks that no other server has rules for the same packets.
pub(crate) fn none_clash(
    desired: &[FlowRule],
    seen: &[FlowRule],
    server: u16,
) -> Result<(), InstallError> {
    match clash(desired, seen, server) {
        None => Ok(()),
        Some((ours, theirs)) => Err(InstallError::Clash {
            ours: Box::new(ours),
            theirs: Box::new(theirs),
        }),
    }
}

/// Traces one packet of each class on the switch and compares with the model.
pub(crate) fn follow<'a>(
    backend: &mut dyn SwitchBackend,
    network: &SwitchNetwork,
    at: usize,
    packets: impl Iterator<Item = &'a ModelPacket>,
) -> Result<(), InstallError> {
    for packet in packets.take(WITNESSES_MAX) {
        let Some(told) = backend.trace(packet)? else {
            continue;
        };
        let port = packet.get(MatchField::InPort) as u32;
        let expected = network.outputs((at, port), packet, &mut model::UnmodeledTerms::default());
        if !expected.contains(&told) {
            return Err(InstallError::NotAsModeled {
                packet: Box::new(*packet),
                told,
                expected,
            });
        }
    }
    Ok(())
}

/// Renews the leases of rules. Expired rules are not restored.
///
/// # Errors
/// See [`SwitchError`].
pub fn renew(backend: &mut dyn SwitchBackend, rules: &[FlowRule]) -> Result<(), SwitchError> {
    backend.apply(&renewals(rules))
}

/// Removes all rules of a server; returns their number.
///
/// # Errors
/// See [`SwitchError`].
pub fn remove(backend: &mut dyn SwitchBackend, server: u16) -> Result<usize, SwitchError> {
    let seen = backend.list()?;
    let operations = diff(&[], &seen.rules, server);
    backend.apply(&operations)?;
    let prefix = mirror::ovsdb::prefix(server);
    let mirrors: Vec<_> = seen
        .mirrors
        .iter()
        .filter(|mirror| mirror.name.starts_with(&prefix))
        .collect();
    for mirror in &mirrors {
        backend.remove_mirror(&mirror.name)?;
    }
    for record in held_by(&seen, server) {
        backend.release_port(&record.port)?;
    }
    Ok(operations.len() + mirrors.len())
}

/// Ports to which a server has disabled flooding.
fn held_by(seen: &ObservedSwitch, server: u16) -> impl Iterator<Item = &CopyPortRecord> {
    let made = mirror::ovsdb::port_prefix(server);
    seen.records
        .iter()
        .filter(move |record| record.server == server && !record.port.starts_with(&made))
}

fn check(
    before: &SwitchModel,
    after: SwitchModel,
    wish: &InstallRequest,
) -> Result<ProofResult, Vec<Counterexample>> {
    let wanted: Vec<CopyExpectation> = wish
        .copies
        .iter()
        .filter_map(|copy| wanted(copy, wish))
        .collect();
    let before = SwitchNetwork::of(before.clone());
    let after = SwitchNetwork::of(after);
    prove(&before, &after, &wanted, &|rule| {
        rule.cookie.is_of(wish.server)
    })
}

fn wanted(copy: &SwitchCopy, wish: &InstallRequest) -> Option<CopyExpectation> {
    let (_, monitor) = wish
        .monitors
        .iter()
        .find(|(port, _)| *port == copy.target)?;
    Some(CopyExpectation {
        monitor: monitor.clone(),
        enters: None,
        asked: copy.asked_at(),
        part: copy.part,
        others: mirror::StrayPolicy::Never,
    })
}

impl InstallRequest {
    fn on_paper(&self, seen: &ObservedSwitch) -> SwitchModel {
        on_paper(&self.switch, seen, |number| {
            let monitor = self.monitors.iter().find(|(port, _)| *port == number);
            monitor.map_or(PortNeighbor::Hosts, |(_, monitor)| {
                PortNeighbor::Monitor(monitor.clone())
            })
        })
    }
}

/// Model of a switch from its state; `leads`: peer of each port.
pub(crate) fn on_paper(
    name: &str,
    seen: &ObservedSwitch,
    leads: impl Fn(u32) -> PortNeighbor,
) -> SwitchModel {
    let ports = seen
        .ports
        .iter()
        .map(|(number, name, flooded, vlans)| SwitchPort {
            number: *number,
            name: name.clone(),
            leads: leads(*number),
            flooded: *flooded,
            vlans: vlans.clone(),
        });
    let mut switch = SwitchModel::new(name, ports.collect(), seen.rules.clone());
    let number = |name: &String| {
        seen.ports
            .iter()
            .find(|port| port.1 == *name)
            .map(|port| port.0)
    };
    switch.bonds = seen
        .bonds
        .iter()
        .map(|bond| bond.iter().filter_map(number).collect())
        .collect();
    switch.mirrors = seen
        .mirrors
        .iter()
        .filter_map(|mirror| {
            let all: Vec<u32> = seen.ports.iter().map(|port| port.0).collect();
            let chosen = |names: &[String]| {
                if mirror.selects_all {
                    all.clone()
                } else {
                    names.iter().filter_map(number).collect()
                }
            };
            Some(SwitchMirror {
                name: mirror.name.clone(),
                entering: chosen(&mirror.entering),
                leaving: chosen(&mirror.leaving),
                output: mirror.output.as_ref().and_then(number)?,
                max_len: (mirror.snaplen > 0).then_some(mirror.snaplen),
            })
        })
        .collect();
    switch
}
