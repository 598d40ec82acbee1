//! A map as text: one line per edge, in the direction of calls.

use std::collections::HashMap;
use std::net::IpAddr;

use sinks::units;

use super::edges::{ServiceEdge, host};
use crate::diagnose::overview::layout::OverviewList;
use crate::diagnose::overview::screen::{end, some};

/// Maximum edges shown.
const EDGES_MAX: usize = 50;
/// Minimum width of the layout.
const NARROW: usize = 60;
/// Minimum width for all columns.
const WIDE: usize = 110;
/// Indexes of columns omitted on narrow screens: requests, p50, bytes.
const ONLY_WIDE: [usize; 3] = [1, 4, 7];

/// The text of the map.
#[must_use]
pub fn text(
    edges: &[ServiceEdge],
    title: &str,
    names: &HashMap<IpAddr, String>,
    width: usize,
) -> String {
    let hosts = edges
        .iter()
        .flat_map(|edge| [&edge.client_ip, &edge.server_ip]);
    let hosts = hosts.collect::<std::collections::BTreeSet<_>>().len() as u64;
    let mut lines = vec![
        format!(
            "{title}: {}, {}",
            some(hosts, "host"),
            some(edges.len() as u64, "edge")
        ),
        String::new(),
    ];
    let shown = |place: &usize| width >= WIDE || !ONLY_WIDE.contains(place);
    let titles = [
        "CLIENT → SERVICE",
        "requests",
        "rate",
        "errors",
        "p50",
        "p99",
        "p99 total",
        "bytes",
        "its time",
    ];
    let places: Vec<usize> = (0..titles.len()).filter(shown).collect();
    let rows = edges.iter().take(EDGES_MAX).map(|edge| {
        let row = row(edge, names);
        places.iter().map(|place| row[*place].clone()).collect()
    });
    let titles = places.iter().map(|place| titles[*place]).collect();
    let rows = rows.collect();
    lines.extend(
        OverviewList {
            titles,
            rows,
            more: 0,
        }
        .lines(width.max(NARROW)),
    );
    if edges.len() > EDGES_MAX {
        lines.push(format!(
            "{} more: --format json has all of them",
            edges.len() - EDGES_MAX
        ));
    }
    lines.join("\n").trim_end().to_owned() + "\n"
}

fn row(edge: &ServiceEdge, names: &HashMap<IpAddr, String>) -> Vec<String> {
    let known = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let numbers = edge.answers.map(|a| {
        [
            Some(a.requests.to_string()),
            a.per_second.map(units::rate),
            a.success
                .map(|share| units::percentage(((1.0 - share) * 1e4).round() / 1e4)),
            a.p50_ns.map(units::duration),
            a.p99_ns.map(units::duration),
            a.p99_total_ns.map(units::duration),
        ]
    });
    let service = end(host(&edge.server_ip, names), edge.server_port);
    let protocol = edge.protocol.as_deref().unwrap_or("without a name");
    let name = format!(
        "{}{} → {service} {protocol}",
        "  ".repeat(edge.depth),
        host(&edge.client_ip, names)
    );
    let bytes = units::bytes(edge.bytes.iter().sum::<u64>() as f64);
    let share = edge
        .share
        .map(|share| units::percentage((share * 1e3).round() / 1e3));
    [name]
        .into_iter()
        .chain(numbers.unwrap_or_default().map(known))
        .chain([bytes, known(share)])
        .collect()
}
