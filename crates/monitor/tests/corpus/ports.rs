//! Rows do not depend on ports: captures of every protocol with their servers' ports renamed to unassigned ones.

use std::collections::BTreeMap;

use crate::frames::Frames;
use crate::support::{Row, captures, run};

/// Server ports in the corpus.
const USUAL: &[u16] = &[
    53, 80, 111, 443, 1080, 2049, 3000, 3306, 3307, 4430, 5000, 5001, 5353, 5432, 6379, 6380, 8000,
    8001, 8080, 8081, 8443, 9092, 11211, 11311, 20048, 27017, 33060,
];

/// Folders, and the parser for most of their captures.
const READ: &[(&str, &str)] = &[
    ("captures/dns", "dns"),
    ("captures/cassandra", "cassandra"),
    ("captures/http", "http"),
    ("captures/kafka", "kafka"),
    ("captures/memcached", "memcached"),
    ("captures/mongodb", "mongodb"),
    ("captures/mysql", "mysql_query"),
    ("captures/nfs", "rpc"),
    ("captures/redis", "redis"),
    ("captures/tls", "tls"),
];

/// Captures with different rows on another port, and the reason.
const OTHERWISE: &[(&str, &str)] = &[
    (
        "deepflow-memcached-userdata.pcap.gz",
        "joined midway with a line that other protocols have, too",
    ),
    (
        "mc_text.pcap",
        "a connection begins with what is no command",
    ),
    (
        "mc_text_lossy.pcap",
        "a connection begins with what is no command",
    ),
    (
        "nfstrace-eth-ipv4-udp-nfsv3-dup-retransm.pcap",
        "a reply whose call was not captured is known by its port",
    ),
    ("pcpp-DnsPackets.pcap", "multicast DNS is known by its port"),
    (
        "percona-tcpdump008.pcap",
        "joined midway with a command of one byte",
    ),
    (
        "zeek-attr.pcap",
        "a connection begins with what is no command",
    ),
    ("zeek-http_09.pcap", "a request of HTTP/0.9 has no version"),
    ("zeek-ipv6-fragmented-dns.pcap", "part of a message"),
    ("zeek-mdns.pcap", "multicast DNS is known by its port"),
];

#[test]
fn rows_do_not_depend_on_ports() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let mut all = Vec::new();
    for (folder, parser) in READ {
        all.extend(
            captures(&root, &[folder])
                .into_iter()
                .map(|capture| (capture, *parser)),
        );
    }
    for capture in captures(&root, &["live-captures"]) {
        let name = capture
            .file_name()
            .expect("a file has a name")
            .to_string_lossy()
            .into_owned();
        let parsers = [
            ("http_", "http"),
            ("redis_", "redis"),
            ("mc_", "memcached"),
            ("mysql_", "mysql_query"),
            ("nfs", "rpc"),
            ("dns", "dns"),
            ("tls", "tls"),
        ];
        if let Some((_, parser)) = parsers.iter().find(|(begin, _)| name.starts_with(begin)) {
            all.push((capture, *parser));
        }
    }
    let mut compared = 0;
    let mut different = BTreeMap::new();
    for (capture, parser) in all {
        let Some(mut frames) = Frames::read(&capture) else {
            continue;
        };
        frames.rename_ports(|port| {
            if USUAL.contains(&port) {
                port + 25000
            } else {
                port
            }
        });
        let file = frames.write();
        let before = lines(run(&capture, parser).rows);
        let after = lines(run(file.path(), parser).rows);
        compared += before.len();
        if before != after {
            let name = capture
                .file_name()
                .expect("a file has a name")
                .to_string_lossy()
                .into_owned();
            let only = |a: &[String], b: &[String]| {
                a.iter()
                    .filter(|line| !b.contains(line))
                    .cloned()
                    .collect::<Vec<_>>()
            };
            different.insert(name, (only(&before, &after), only(&after, &before)));
        }
    }
    for (name, (before, after)) in &different {
        println!(
            "{name}: {} rows only on the usual port, {} only on another",
            before.len(),
            after.len()
        );
        before
            .iter()
            .take(2)
            .for_each(|line| println!("  - {line}"));
        after.iter().take(2).for_each(|line| println!("  + {line}"));
    }
    assert!(compared > 20_000, "{compared} rows were compared");
    let names: Vec<&str> = different.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        OTHERWISE.iter().map(|(name, _)| *name).collect::<Vec<_>>()
    );
}

/// Rows without columns that depend on ports, sorted.
fn lines(rows: Vec<Row>) -> Vec<String> {
    let of_ports = ["id", "community_id", "client_port", "server_port"];
    let line = |row: Row| {
        let mut cells: Vec<_> = row
            .into_iter()
            .filter(|(name, _)| !of_ports.contains(&name.as_str()))
            .collect();
        cells.sort();
        cells
            .into_iter()
            .map(|(name, value)| format!("{name}={value} "))
            .collect::<String>()
    };
    let mut lines: Vec<String> = rows.into_iter().map(line).collect();
    lines.sort();
    lines
}
