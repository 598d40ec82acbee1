//! A map in Graphviz's language: a node per host, an arrow per edge, from left to right in the direction of calls.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::net::IpAddr;

use sinks::units;

use super::edges::{ServiceEdge, host};

/// The DOT text. Names come from packets: quotes and line breaks are escaped.
#[must_use]
pub fn text(edges: &[ServiceEdge], names: &HashMap<IpAddr, String>) -> String {
    let mut out =
        String::from("digraph services {\n  rankdir=LR;\n  node [shape=box, style=rounded];\n");
    let hosts: BTreeSet<&str> = edges
        .iter()
        .flat_map(|e| [e.client_ip.as_str(), e.server_ip.as_str()])
        .collect();
    for ip in hosts {
        let _ = writeln!(out, "  {} [label={}];", quoted(ip), quoted(host(ip, names)));
    }
    for edge in edges {
        let client = quoted(&edge.client_ip);
        let server = quoted(&edge.server_ip);
        let _ = writeln!(
            out,
            "  {client} -> {server} [label={}];",
            quoted(&label(edge))
        );
    }
    out + "}\n"
}

fn label(edge: &ServiceEdge) -> String {
    let protocol = edge.protocol.as_deref().unwrap_or("?");
    let mut label = format!("{protocol} :{}", edge.server_port);
    let Some(answers) = edge.answers else {
        return label + "\n" + &units::bytes(edge.bytes.iter().sum::<u64>() as f64);
    };
    if let Some(rate) = answers.per_second {
        let _ = write!(label, "\n{}", units::rate(rate));
    }
    if let Some(p99) = answers.p99_ns {
        let _ = write!(label, ", p99 {}", units::duration(p99));
    }
    if let Some(errors) = answers
        .success
        .map(|share| 1.0 - share)
        .filter(|errors| *errors > 0.0)
    {
        let _ = write!(
            label,
            "\n{} errors",
            units::percentage((errors * 1e4).round() / 1e4)
        );
    }
    label
}

fn quoted(text: &str) -> String {
    format!(
        "\"{}\"",
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    )
}
