//! An overview as text: one screen of 80 columns and about 40 lines, or more columns side by side.

use sinks::{DisplayZone, units};

use super::advice::command;
use super::findings::{
    ApplicationTraffic, FailedLookups, FailingRequests, OverviewFindings, RefusedConnections,
    ServiceTraffic, SlowConnects, SlowRequests, TalkerPair,
};
use super::layout::{OverviewList, beside, choose, middle};
use crate::diagnose::no_rows;

/// Minimum width for lists side by side.
const WIDE: usize = 150;
/// Maximum characters of a status.
const STATUS_CHARS: usize = 24;
/// Characters reserved for the time in the title.
const WHEN_CHARS: usize = 40;
/// Screen height up to which lists are separated by empty lines.
const SCREEN_LINES: usize = 40;
/// Minimum width of the layout.
const NARROW: usize = 60;

/// Maximum rows per list.
struct ListLengths {
    applications: usize,
    services: usize,
    talkers: usize,
    slowest: usize,
    others: usize,
}

/// The screen: input, results, and suggested commands. `input`: as on the command line.
#[must_use]
pub fn text(found: &OverviewFindings, title: &str, input: &str, width: usize) -> String {
    let mut lines = head(
        found,
        &middle(title, width.saturating_sub(WHEN_CHARS).max(WHEN_CHARS)),
    );
    if found.packets == 0 {
        return lines.join("\n") + "\n";
    }
    lines.push(String::new());
    if width >= WIDE {
        let half = (width - 4) / 2;
        let rows = ListLengths {
            applications: 10,
            services: 10,
            talkers: 8,
            slowest: 10,
            others: 8,
        };
        let lists = lists(found, &rows);
        let column = |places: &[usize]| {
            let lists = places
                .iter()
                .map(|place| lists[*place].lines(half))
                .filter(|lines| !lines.is_empty());
            lists.collect::<Vec<_>>().join(&String::new())
        };
        lines.extend(beside(
            &column(&[0, 2, 6, 7]),
            &column(&[1, 3, 4, 5, 8]),
            half,
        ));
    } else {
        let rows = ListLengths {
            applications: 5,
            services: 5,
            talkers: 2,
            slowest: 5,
            others: 3,
        };
        let lists: Vec<_> = lists(found, &rows)
            .iter()
            .map(|list| list.lines(width.max(NARROW)))
            .collect();
        let lists: Vec<_> = lists
            .into_iter()
            .filter(|lines| !lines.is_empty())
            .collect();
        let used =
            lines.len() + lists.iter().map(|list| list.len() + 1).sum::<usize>() + found.next.len();
        lines.extend(if used < SCREEN_LINES {
            lists.join(&String::new())
        } else {
            lists.concat()
        });
    }
    lines.push(String::new());
    lines.push("ASK NEXT".into());
    lines.extend(found.next.iter().map(|query| command(query, input)));
    lines.join("\n") + "\n"
}

/// Input, and data missing in it.
fn head(found: &OverviewFindings, title: &str) -> Vec<String> {
    let mut head = Vec::new();
    let Some((first, last)) = found.seen_ns else {
        return vec![format!("{title}: no packets")];
    };
    let seconds = (last - first) as f64 / 1e9;
    head.push(format!(
        "{title}: {} from {}",
        units::duration((last - first) as f64),
        DisplayZone::default().short_time(first / 1_000_000_000 * 1_000_000_000)
    ));
    let rate = if seconds > 0.0 {
        format!(" ({}/s)", units::bytes(found.bytes as f64 / seconds))
    } else {
        String::new()
    };
    head.push(format!(
        "{}, {}{rate}, {}",
        some(found.packets, "packet"),
        units::bytes(found.bytes as f64),
        some(found.flows, "flow")
    ));
    let mut missing = Vec::new();
    match found.lost_packets {
        Some(lost) if lost > 0 => missing.push(format!(
            "{} lost before being captured",
            some(lost, "packet")
        )),
        _ => {}
    }
    if found.capture_loss > 0.0 {
        missing.push(format!(
            "{} of the TCP payload was acknowledged but not captured",
            units::percentage(found.capture_loss)
        ));
    }
    if found.undecodable > 0 {
        missing.push(format!(
            "{} not decodable",
            some(found.undecodable, "packet")
        ));
    }
    head.extend(
        missing
            .into_iter()
            .map(|what| format!("incomplete: {what}")),
    );
    head
}

/// The lists with at most `most` rows each, in reading order.
#[must_use]
pub fn lists_of(found: &OverviewFindings, most: usize) -> Vec<OverviewList> {
    lists(
        found,
        &ListLengths {
            applications: most,
            services: most,
            talkers: most,
            slowest: most,
            others: most,
        },
    )
}

/// Protocols, services, talkers, slowest, failing, lookups, retransmissions, refusals, slow connects.
fn lists(found: &OverviewFindings, rows: &ListLengths) -> Vec<OverviewList> {
    vec![
        applications(found, rows.applications),
        services(found, rows.services),
        talkers(found, rows.talkers),
        slowest(found, rows.slowest),
        failing(found, rows.slowest),
        not_found(found, rows.others),
        retransmitting(found, rows.others),
        refused(found, rows.others),
        slow_connects(found, rows.others),
    ]
}

fn applications(found: &OverviewFindings, n: usize) -> OverviewList {
    let all: u64 = found.applications.iter().map(|a| a.bytes).sum();
    let share = |bytes: u64| format!("{:.1} %", bytes as f64 / all.max(1) as f64 * 100.0);
    let row = |name: String, flows: u64, bytes: u64, parser: &str| {
        vec![
            name,
            flows.to_string(),
            units::bytes(bytes as f64),
            share(bytes),
            parser.to_owned(),
        ]
    };
    let shown = if found.applications.len() > n {
        n - 1
    } else {
        n
    };
    let of_one = |a: &ApplicationTraffic| {
        let parser = a
            .parser
            .as_ref()
            .map_or_else(|| unread(a), |parser| format!("PARSE {parser}"));
        row(
            name_of(a, &found.applications),
            a.flows,
            a.bytes,
            if a.application.is_some() { &parser } else { "" },
        )
    };
    let mut rows: Vec<Vec<String>> = found.applications.iter().take(shown).map(of_one).collect();
    if let Some(rest) = found
        .applications
        .get(shown..)
        .filter(|rest| !rest.is_empty())
    {
        let (flows, bytes) = rest
            .iter()
            .fold((0, 0), |(f, b), a| (f + a.flows, b + a.bytes));
        rows.push(row(format!("{} others", rest.len()), flows, bytes, ""));
    }
    OverviewList {
        titles: vec!["PROTOCOLS", "flows", "bytes", "share", "read by"],
        rows,
        more: 0,
    }
}

/// Why an application has no parser.
fn unread(application: &ApplicationTraffic) -> String {
    let is_encrypted = application
        .application
        .as_deref()
        .is_some_and(no_rows::is_encrypted);
    if is_encrypted {
        "encrypted"
    } else {
        "named only"
    }
    .to_owned()
}

/// Name of an application; with the transport protocol if ambiguous.
fn name_of(application: &ApplicationTraffic, all: &[ApplicationTraffic]) -> String {
    let transport = &application.transport;
    match &application.application {
        None if transport.parse::<u8>().is_ok() => format!("IP protocol {transport}"),
        None => format!("{transport} without a name"),
        Some(name)
            if all
                .iter()
                .filter(|a| a.application.as_ref() == Some(name))
                .count()
                > 1 =>
        {
            format!("{name} over {transport}")
        }
        Some(name) => name.clone(),
    }
}

fn services(found: &OverviewFindings, n: usize) -> OverviewList {
    let row = |s: &ServiceTraffic| {
        let name = s.application.as_deref().unwrap_or("without a name");
        let name = format!("{} {name}", end(&s.server_ip, s.server_port));
        let time = |ns: Option<f64>| ns.map_or("-".into(), units::duration);
        let numbers = match &s.answers {
            Some(a) => [
                a.requests.to_string(),
                a.success.map_or("-".into(), |share| {
                    units::percentage(((1.0 - share) * 1e4).round() / 1e4)
                }),
                time(a.p50_ns),
                time(a.p99_ns),
                time(a.p99_total_ns),
            ],
            None => std::array::from_fn(|_| "-".into()),
        };
        [name, s.flows.to_string()]
            .into_iter()
            .chain(numbers)
            .collect()
    };
    let titles = vec![
        "SERVICES",
        "flows",
        "requests",
        "errors",
        "p50",
        "p99",
        "p99 total",
    ];
    // Some rows are reserved for services without a parser.
    let (read, others) = found
        .services
        .split_at(found.services.partition_point(|s| s.answers.is_some()));
    let kept = (n / 3).min(others.len()).max(n.saturating_sub(read.len()));
    let protocol = |s: &ServiceTraffic| s.application.clone().unwrap_or_default();
    let mut shown = choose(read, n.saturating_sub(kept), &[&protocol]);
    shown.extend(others.iter().take(n.saturating_sub(shown.len())));
    OverviewList::of(titles, &found.services, &shown, row)
}

fn talkers(found: &OverviewFindings, n: usize) -> OverviewList {
    let row = |t: &TalkerPair| {
        let [out, back] = t.bytes.map(|bytes| units::bytes(bytes as f64));
        vec![
            format!("{} → {}", t.client_ip, t.server_ip),
            t.flows.to_string(),
            out,
            back,
        ]
    };
    let titles = vec!["TOP TALKERS", "flows", "sent", "received"];
    let shown = choose(&found.talkers, n, &[]);
    OverviewList::of(titles, &found.talkers, &shown, row)
}

fn slowest(found: &OverviewFindings, n: usize) -> OverviewList {
    let time = |ns: Option<f64>| ns.map_or("-".into(), units::duration);
    let row = |s: &SlowRequests| {
        vec![
            request(&s.server_ip, s.server_port, s.request.as_deref()),
            s.requests.to_string(),
            time(s.p99_ns),
            time(s.p99_total_ns),
        ]
    };
    let titles = vec!["SLOWEST REQUESTS", "requests", "p99", "p99 total"];
    let shown = choose(&found.slowest, n, &[]);
    OverviewList::of(titles, &found.slowest, &shown, row)
}

fn failing(found: &OverviewFindings, n: usize) -> OverviewList {
    let row = |f: &FailingRequests| {
        vec![
            request(&f.server_ip, f.server_port, f.request.as_deref()),
            middle(f.status.as_deref().unwrap_or_default(), STATUS_CHARS),
            f.requests.to_string(),
        ]
    };
    let titles = vec!["FAILING REQUESTS", "status", "requests"];
    let status = |f: &FailingRequests| format!("{} {:?}", f.parser, f.status);
    let shown = choose(&found.failing, n, &[&|f| f.parser.clone(), &status]);
    OverviewList::of(titles, &found.failing, &shown, row)
}

/// Name of a request to a service.
fn request(server_ip: &str, server_port: u64, request: Option<&str>) -> String {
    format!("{} {}", end(server_ip, server_port), request.unwrap_or("-"))
}

fn not_found(found: &OverviewFindings, n: usize) -> OverviewList {
    let row = |f: &FailedLookups| {
        vec![
            format!("{} {}", end(&f.server_ip, f.server_port), f.protocol),
            f.lookups.to_string(),
            units::percentage((f.not_found * 1e3).round() / 1e3),
        ]
    };
    let titles = vec!["NOT FOUND (CACHE, NXDOMAIN)", "lookups", "not found"];
    let shown = choose(&found.not_found, n, &[&|f| f.protocol.to_owned()]);
    OverviewList::of(titles, &found.not_found, &shown, row)
}

fn retransmitting(found: &OverviewFindings, n: usize) -> OverviewList {
    let row = |t: &TalkerPair| {
        vec![
            format!("{} → {}", t.client_ip, t.server_ip),
            t.flows.to_string(),
            t.retransmissions.to_string(),
        ]
    };
    let titles = vec!["SENT AGAIN", "flows", "segments"];
    let shown = choose(&found.retransmitting, n, &[]);
    OverviewList::of(titles, &found.retransmitting, &shown, row)
}

fn refused(found: &OverviewFindings, n: usize) -> OverviewList {
    let row = |r: &RefusedConnections| {
        let how = if r.conn_state == "REJ" {
            "refused"
        } else {
            "no answer"
        };
        vec![
            format!("{} {how}", end(&r.server_ip, r.server_port)),
            r.connections.to_string(),
        ]
    };
    let shown = choose(&found.refused, n, &[&|r| r.conn_state.clone()]);
    OverviewList::of(vec!["NOT CONNECTED", "times"], &found.refused, &shown, row)
}

fn slow_connects(found: &OverviewFindings, n: usize) -> OverviewList {
    let with_lost_syn = found.delayed.iter().map(|c| (c, "SYN sent again"));
    let others = found
        .slow_connects
        .iter()
        .map(|c| (c, "slow path or server"));
    let all: Vec<(&SlowConnects, &str)> = with_lost_syn.chain(others).collect();
    let row = |(connects, why): &(&SlowConnects, &str)| {
        vec![
            format!("{} {why}", end(&connects.server_ip, connects.server_port)),
            connects.connections.to_string(),
            units::duration(connects.longest_ns),
        ]
    };
    let shown = choose(&all, n, &[&|(_, why)| (*why).to_owned()]);
    OverviewList::of(vec!["SLOW CONNECTS", "times", "longest"], &all, &shown, row)
}

/// Address with port.
pub fn end(ip: &str, port: u64) -> String {
    if ip.contains(':') {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    }
}

/// A count with its noun.
pub fn some(n: u64, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}
