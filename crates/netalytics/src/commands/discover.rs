//! `netalytics network discover`: reads the links and hosts of switches from their databases or controller, and agents
//! from a server; writes the network file, and reports missing information.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Context;
use mirror::diff::owners;
use planner::topology::{NetworkSite, SiteError};
use serde_json::Value;
use steer::{OpenVSwitch, SwitchBackend, SwitchDescription, explore};

use crate::cli::flags::discover::{DiscoverFlags, NamedSwitch};
use crate::client::server_client::ServerClient;
use crate::network;
use crate::network::discovery::{
    DiscoveredAgent, DiscoveredNetwork, DiscoveredSwitch, NetworkFileDraft, SwitchControl, draw,
};
use crate::network::run::rule_owners::RuleOwnerKind;
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::file_owner::FileOwner;
use crate::process::output;
use crate::render::hosts;

/// Maximum addresses to probe; each is probed at every port.
const ADDRESSES_MAX: usize = 4096;
/// Named network namespaces.
const NAMED_NETWORKS: &str = "/var/run/netns";

/// Discovers the network and writes the file.
pub fn discover(flags: &DiscoverFlags, quiet: bool) -> anyhow::Result<CommandOutcome> {
    let names: BTreeSet<&String> = flags.switches.iter().map(|switch| &switch.name).collect();
    if names.len() < flags.switches.len() {
        return Err(wrong_flags("two --switch have the same name"));
    }
    let before = match &flags.into {
        Some(path) => {
            let text = network::plan::read(path)?;
            parsed(&text).map_err(|why| wrong_flags(format!("{}: {why}", path.display())))?;
            NetworkFileDraft::read(&text)
        }
        None => NetworkFileDraft::default(),
    };
    let agents = agents(flags)?;
    let asked = addresses(flags, &agents, &before)?;
    let mut notes = Vec::new();
    let told = told(flags, &mut notes)?;
    let mut switches = Vec::new();
    let mut taken = BTreeSet::new();
    for named in &flags.switches {
        let cannot = || format!("cannot query {}", named.name);
        let folder = named.socket.parent().unwrap_or(Path::new("/"));
        let mut switch = OpenVSwitch::new(folder, &named.bridge);
        let rules = switch.list().with_context(cannot)?.rules;
        let described = switch.describe().with_context(cannot)?;
        taken.extend(
            rules
                .iter()
                .filter_map(|rule| rule.cookie.owner())
                .map(|owner| owner.server),
        );
        switches.push((named, switch, described, owners(&rules)));
    }
    let number = RuleOwnerKind::Passing.free_number(&taken)?;
    let met: Vec<_> = switches
        .iter()
        .map(|(named, switch, of, _)| (named.name.as_str(), switch, of))
        .collect();
    let found = explore(&met, number, &asked)?;
    let seen = switches
        .into_iter()
        .map(|(named, _, described, rules)| DiscoveredSwitch {
            name: named.name.clone(),
            told: reached(flags, named, &described, &told, &mut notes),
            bridge: named.bridge.clone(),
            via: described.process.and_then(via),
            described,
            rules,
        });
    let world = DiscoveredNetwork {
        switches: seen.collect(),
        found,
        agents,
        names: hosts::read(None)?.names,
        link_mbps: flags.link_mbps,
        via: flags.via.iter().cloned().collect(),
        before,
    };
    let (draft, more) = draw(&world);
    notes.extend(more);
    let is_known = |name: &String| {
        draft
            .switches
            .iter()
            .chain(&draft.hosts)
            .any(|entry| entry.text("name") == name)
    };
    notes.extend(
        world
            .via
            .keys()
            .filter(|name| !is_known(name))
            .map(|name| format!("--via {name}: no switch or host has this name")),
    );
    let text = draft.print();
    parsed(&text).map_err(|why| anyhow::anyhow!("the discovered network is invalid: {why}"))?;
    if !quiet {
        notes
            .iter()
            .for_each(|note| output::complain(&format!("note: {note}")));
    }
    match &flags.output {
        None => output::print(text.as_bytes()),
        Some(path) => {
            let cannot = || format!("cannot write {}", path.display());
            output::create(path, FileOwner::Us)?
                .write_all(text.as_bytes())
                .with_context(cannot)?;
            Ok(CommandOutcome::Done)
        }
    }
}

/// Parses a network file; the error lists all problems.
fn parsed(text: &str) -> Result<NetworkSite, String> {
    let told = |errors: Vec<SiteError>| {
        errors
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    };
    NetworkSite::parse(text).map_err(told)
}

/// Agents of the server, if given.
fn agents(flags: &DiscoverFlags) -> anyhow::Result<Vec<DiscoveredAgent>> {
    let Some(server) = &flags.server else {
        return Ok(Vec::new());
    };
    let remote = ServerClient::at(server, flags.token_file.as_deref(), flags.ca.as_deref())?;
    let answer = remote.json("GET", "/api/v1/agents", None)?;
    let texts = |of: &Value, key: &str| -> Vec<String> {
        let all = of[key].as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let agent = |of: &Value| {
        let shared = texts(of, "addresses_shared");
        let own = texts(of, "addresses")
            .into_iter()
            .filter(|address| !shared.contains(address));
        DiscoveredAgent {
            name: of["name"].as_str().unwrap_or_default().to_owned(),
            addresses: own.filter_map(|address| address.parse().ok()).collect(),
            interfaces: texts(of, "interfaces"),
            cores: of["cores"].as_u64().unwrap_or(1),
            memory: of["memory_bytes"].as_u64().unwrap_or(0),
        }
    };
    Ok(answer["agents"]
        .as_array()
        .into_iter()
        .flatten()
        .map(agent)
        .collect())
}

/// Addresses to probe.
fn addresses(
    flags: &DiscoverFlags,
    agents: &[DiscoveredAgent],
    before: &NetworkFileDraft,
) -> anyhow::Result<Vec<Ipv4Addr>> {
    let v4 = |address: IpAddr| match address {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(_) => None,
    };
    let mut all: BTreeSet<Ipv4Addr> = agents
        .iter()
        .flat_map(|agent| &agent.addresses)
        .copied()
        .filter_map(v4)
        .collect();
    let known = before.hosts.iter().flat_map(|host| host.texts("addresses"));
    all.extend(known.filter_map(|address| address.parse().ok().and_then(v4)));
    for (address, length) in &flags.addresses {
        let count = 1_u64 << (32 - length);
        if count > ADDRESSES_MAX as u64 {
            return Err(wrong_flags(format!(
                "--addresses {address}/{length} has {count} addresses; the maximum is {ADDRESSES_MAX}"
            )));
        }
        let first = u64::from(u32::from(*address)) & !(count - 1);
        all.extend((first..first + count).map(|number| Ipv4Addr::from(number as u32)));
    }
    if all.len() > ADDRESSES_MAX {
        let count = all.len();
        return Err(wrong_flags(format!(
            "{count} addresses; the maximum is {ADDRESSES_MAX}"
        )));
    }
    Ok(all.into_iter().collect())
}

/// Datapath ids of the controller's switches.
fn told(
    flags: &DiscoverFlags,
    notes: &mut Vec<String>,
) -> anyhow::Result<Option<(String, Vec<String>)>> {
    let Some(url) = &flags.controller else {
        return Ok(None);
    };
    if !url.starts_with("http://") {
        return Err(wrong_flags(
            "--controller: expected an address such as http://127.0.0.1:8081",
        ));
    }
    let file = flags.controller_token.as_deref();
    let token = file
        .map(crate::network::run::switches::controller_token)
        .transpose()?;
    let has = steer::datapaths(url, token.as_deref()).context("cannot query the controller")?;
    if has.len() > flags.switches.len() {
        let all = has.len();
        let named = flags.switches.len();
        notes.push(format!("the controller has {all} switches; the {named} named by --switch are described, the others omitted: a controller does not report links"));
    }
    Ok(Some((url.clone(), has)))
}

fn reached(
    flags: &DiscoverFlags,
    named: &NamedSwitch,
    described: &SwitchDescription,
    told: &Option<(String, Vec<String>)>,
    notes: &mut Vec<String>,
) -> SwitchControl {
    let token_file = || {
        flags
            .controller_token
            .as_ref()
            .map(|file| file.display().to_string())
    };
    let database = || SwitchControl::Database(format!("unix:{}", named.socket.display()));
    match told {
        Some((url, has)) if has.contains(&described.datapath) => {
            SwitchControl::Controller(url.clone(), token_file())
        }
        Some(_) => {
            let name = &named.name;
            let number = &described.datapath;
            notes.push(format!(
                "the controller has no switch {number}: {name} is read from its database"
            ));
            database()
        }
        None => database(),
    }
}

/// Command prefix to run a program in the network namespace of a process: empty for this one, or a named namespace.
fn via(process: u32) -> Option<Vec<String>> {
    let of = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let there = of(Path::new(&format!("/proc/{process}/ns/net")))?;
    if of(Path::new("/proc/self/ns/net"))? == there {
        return Some(Vec::new());
    }
    let named = fs::read_dir(NAMED_NETWORKS)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let path = named.into_iter().find(|path| of(path) == Some(there))?;
    Some(vec![
        "nsenter".to_owned(),
        format!("--net={}", path.display()),
    ])
}
