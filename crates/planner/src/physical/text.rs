//! A physical plan as text, one fact per line, and the difference between two plans. The text depends only on the
//! plan.

use std::fmt::Write;

use mirror::exporter::ExporterSlot;
use mirror::mode::HEADER_BYTES;
use plan::AddressMatch;

use super::model::{INTERFACE, TUNNEL};
use super::physical_plan::{
    AggregatorPart, CopyProof, CoveredFlows, MonitorPart, PacketPath, PhysicalPlan, SwitchPart,
};
use crate::query_text;
use crate::topology::LINK_CLASSES;

/// Position of the right-hand column.
const INDENT: usize = 14;

/// The plan as text.
#[must_use]
pub fn to_text(plan: &PhysicalPlan) -> String {
    let mut out = String::from("network\n");
    for covering in &plan.covered {
        row(&mut out, &covering.name, &flows(covering));
    }
    for text in &plan.uncovered {
        row(&mut out, "not covered", text);
    }
    out.push_str("mode\n");
    row(&mut out, "copied", &mode(plan));
    row(&mut out, "why", &plan.choice.why);
    for other in &plan.choice.passed_over {
        row(
            &mut out,
            "not",
            &format!(
                "{}: {}",
                other.what,
                other.why.lines().next().unwrap_or_default()
            ),
        );
    }
    match plan.lacks.as_slice() {
        [] => row(&mut out, "lacks", "nothing: the result covers all packets"),
        lacks => lacks.iter().for_each(|lack| row(&mut out, "lacks", lack)),
    }
    out.push_str("switches\n");
    for part in &plan.switches {
        switch(&mut out, part);
    }
    if let Some(part) = &plan.export {
        let header = match part.slot {
            ExporterSlot::Ipfix => String::new(),
            _ => format!(", the first {HEADER_BYTES} bytes of each"),
        };
        let text = format!("{part}{header}, to this process; no rule");
        for switch in &part.switches {
            row(&mut out, &switch.name, &text);
        }
    }
    row(&mut out, "proved", &proof(plan.proof));
    out.push_str("monitors\n");
    for part in &plan.monitors {
        row(&mut out, &part.host, &monitor(part));
    }
    for part in &plan.aggregators {
        row(&mut out, &part.name, &aggregator(plan, part));
    }
    plan.unaggregated
        .iter()
        .for_each(|why| row(&mut out, "no aggregator", why));
    let whom = if plan.aggregators.is_empty() {
        ""
    } else {
        " and aggregators"
    };
    let received = match plan.export {
        Some(_) => ", which receives and decodes the exports",
        None => ": one engine for all monitors",
    };
    row(
        &mut out,
        "collected",
        &format!("by the process that runs the query{received}{whom}"),
    );
    out.push_str("takes\n");
    taken(&mut out, plan);
    out
}

fn row(out: &mut String, label: &str, text: &str) {
    let _ = writeln!(out, "  {label:INDENT$}{text}");
}

/// Endpoints in the syntax of a query.
pub(super) fn ends(ends: &[AddressMatch]) -> String {
    match ends {
        [] => "any".to_owned(),
        ends => ends
            .iter()
            .map(query_text::end)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn flows(covering: &CoveredFlows) -> String {
    let rates = &covering.rates;
    format!(
        "{} to {}: {} Mb/s, {:.0} packets/s, {:.1} connections/s{}",
        ends(&covering.clients),
        ends(&covering.servers),
        number(rates.mbps),
        rates.packets,
        rates.connections,
        if rates.supposed { ", estimated" } else { "" }
    )
}

/// Description of the mode.
#[must_use]
pub fn mode(plan: &PhysicalPlan) -> String {
    if let Some(part) = &plan.export {
        let s = if part.switches.len() == 1 { "s" } else { "" };
        return format!("nothing: {} export{s} {part}", part.names());
    }
    match plan.choice.mode {
        None => "nothing: monitors read at the switches' ports".to_owned(),
        Some(mode) => mode.to_string(),
    }
}

fn switch(out: &mut String, part: &SwitchPart) {
    let ports: Vec<String> = part.ports.iter().map(ToString::to_string).collect();
    let ports = format!(
        "{} {}",
        if ports.len() == 1 { "port" } else { "ports" },
        ports.join(", ")
    );
    match part.way {
        PacketPath::Sniffer => row(
            out,
            &part.name,
            &format!("no rule; the monitor reads at {ports}"),
        ),
        PacketPath::Mirror { port } => row(
            out,
            &part.name,
            &format!("a mirror of {ports} to port {port}"),
        ),
        PacketPath::Rules { .. } | PacketPath::Tunnel { .. } | PacketPath::Interface => {
            let to = match part.way {
                PacketPath::Rules { port } => format!("port {port}"),
                PacketPath::Tunnel { end } => {
                    let to = part
                        .landing
                        .as_ref()
                        .map_or("another switch", |landing| landing.name.as_str());
                    format!("a tunnel ({TUNNEL} here) to port {} of {to}", end.port)
                }
                _ => format!("a new interface ({INTERFACE} here)"),
            };
            let count = part.rules.len();
            let rules = if count == 1 { "rule" } else { "rules" };
            row(out, &part.name, &format!("{count} {rules}, copies to {to}"));
            part.rules
                .iter()
                .for_each(|rule| row(out, "", &rule.to_string()));
            let there = part
                .landing
                .iter()
                .flat_map(|landing| landing.rules.iter().map(|rule| (&landing.name, rule)));
            there.for_each(|(name, rule)| row(out, "", &format!("at {name}: {rule}")));
        }
    }
}

fn proof(proof: CopyProof) -> String {
    match proof {
        CopyProof::NotNeeded => "nothing is copied, so no proof is needed".to_owned(),
        CopyProof::TooManyHosts => {
            "deferred, because many hosts are covered: each switch is proved when its rules are installed"
                .to_owned()
        }
        CopyProof::Holds(classes) => format!(
            "on a model of the network: selected packets reach their monitor once, no others do, forwarding is unchanged ({classes} classes of packets)"
        ),
    }
}

fn monitor(part: &MonitorPart) -> String {
    let MonitorPart {
        mbps,
        cores,
        memory_gb,
        host_cores,
        ..
    } = part;
    let share = cores / host_cores * 100.0;
    format!(
        "{}: {} Mb/s, {cores:.4} of {host_cores} cores ({share:.2} %), {memory_gb} GB",
        part.name,
        number(*mbps)
    )
}

/// Description of an aggregator.
pub(super) fn aggregator(plan: &PhysicalPlan, part: &AggregatorPart) -> String {
    let AggregatorPart {
        in_mbps,
        cores,
        memory_gb,
        ..
    } = part;
    format!(
        "aggregator of the monitors on {}: one partial result of each window instead of {}, so up to {} of {} Mb/s less on links above the pod; {cores} cores, {memory_gb} GB",
        plan.members(part),
        part.monitors.len(),
        number(part.saved_mbps()),
        number(*in_mbps)
    )
}

fn taken(out: &mut String, plan: &PhysicalPlan) {
    let taken = &plan.taken;
    let of = |class: usize| {
        format!(
            "{:?} {}",
            LINK_CLASSES[class],
            number(taken.copied.0[class])
        )
        .to_lowercase()
    };
    let copied: Vec<String> = (0..LINK_CLASSES.len()).map(of).collect();
    row(
        out,
        "copies",
        &format!("{} Mb/s by class of link", copied.join(", ")),
    );
    row(
        out,
        "results",
        &format!("about {} Mb/s", number(taken.results_mbps)),
    );
    row(
        out,
        "cores",
        &format!(
            "{:.4} {}, {:.4} of switches",
            taken.monitor_cores,
            plan.monitors_are(),
            taken.switch_cores
        ),
    );
    row(
        out,
        "delay",
        &format!("{:.2} µs per copied packet", taken.delay_us),
    );
}

/// Formats a number with its significant decimals.
pub(super) fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v < 0.01 => format!("{v:.4}"),
        v if v < 100.0 => format!("{v:.2}"),
        v => format!("{v:.0}"),
    }
}

/// The differing lines of two texts, removed ones with `-`, added ones with `+`, below their section titles.
#[must_use]
pub fn difference(before: &str, after: &str) -> String {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    // Length of the longest common subsequence of the remaining lines.
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let mut i = 0;
    let mut j = 0;
    let mut title = "";
    let mut told = "";
    let mut out = String::new();
    while i < old.len() || j < new.len() {
        let is_same = i < old.len() && j < new.len() && old[i] == new[j];
        if is_same {
            if !old[i].starts_with(' ') {
                title = old[i];
            }
            i += 1;
            j += 1;
            continue;
        }
        if title != told {
            let _ = writeln!(out, "{title}");
            told = title;
        }
        if j >= new.len() || i < old.len() && common[i + 1][j] >= common[i][j + 1] {
            let _ = writeln!(out, "-{}", old[i]);
            i += 1;
        } else {
            let _ = writeln!(out, "+{}", new[j]);
            j += 1;
        }
    }
    out
}
