//! Failures of publishers and brokers.

use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::cluster::TestCluster;
use testkit::programs::{PATIENCE, wait_for};

use super::{Started, Traffic, as_set, counted, offsets, undisturbed};
use crate::{Folder, Ran, run};

/// Event time that a killed publisher of cells may lose: unreported open windows, a window, and its lateness.
const LOST_NS: i64 = 5_000_000_000 + 1_000_000_000 + 250_000_000;

pub fn a_killed_publisher(cluster: &TestCluster) {
    let folder = Folder::new();
    let traffic = Traffic::stretched(20);
    let query = "PARSE http PROCESS (diff-group: group=url_template, w=1s)";
    let mut publisher = Started::publisher(&folder, "publisher", cluster, query, &[]);
    publisher.says("publishing to partition 0");
    let part = traffic.part(0.0, 0.8);
    publisher.feed(part, Duration::from_secs(2));
    std::thread::sleep(Duration::from_secs(1));
    publisher.signal("-KILL");
    publisher.ends(PATIENCE);
    // The publisher's partition is reserved until the publisher counts as dead.
    let ran = run(&[
        "publish",
        query,
        "-r",
        crate::SHOP,
        "--kafka",
        &cluster.kafka,
        "--no-redact",
    ]);
    assert!(
        ran.code == 0 && ran.err.contains("publishing to partition 1"),
        "{}",
        ran.err
    );
    let since = format!("{query} SINCE 2001-01-01");
    let ran = run(&[
        "query",
        &since,
        "--kafka",
        &cluster.kafka,
        "--published",
        "cells",
        "--format",
        "jsonl",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    // The other's windows are the first two.
    let of = |row: &str, key: &str| -> i64 {
        let row: Value = serde_json::from_str(row).expect("JSON");
        row[key].as_i64().expect("a time")
    };
    let time = |packet: &[u8]| {
        let word = |at: usize| {
            i64::from(u32::from_le_bytes(
                *packet[at..].first_chunk().expect("four bytes"),
            ))
        };
        word(0) * 1_000_000_000 + word(4) * 1000
    };
    let first = time(&traffic.packets[0]).div_euclid(1_000_000_000) * 1_000_000_000 + 2_000_000_000;
    let until = time(part.last().expect("some")) - LOST_NS;
    assert!(until - first > 5_000_000_000);
    let is_sure =
        |row: &&String| of(row, "window_start") >= first && of(row, "window_end") <= until;
    let expected = undisturbed(query, &traffic.file(&folder));
    let found = as_set(&ran.out);
    let found: Vec<_> = found.iter().filter(is_sure).collect();
    let expected: Vec<_> = expected.iter().filter(is_sure).collect();
    assert!(!expected.is_empty());
    assert_eq!(found, expected);
}

/// A publisher of all packets with this memory limit.
fn publisher(folder: &Folder, cluster: &TestCluster, away: &str) -> (Started, u64) {
    let flags = ["--away", away, "--unacknowledged-max", "100KiB"];
    let publisher = Started::publisher(folder, away, cluster, "PARSE packet", &flags);
    publisher.says("publishing to partition ");
    let said = publisher.said();
    let number = said
        .split("publishing to partition ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next()?.parse().ok());
    (publisher, number.expect("its number"))
}

fn start_broker_again(cluster: &TestCluster) {
    cluster.start_again("broker-1");
}

/// While the broker is unreachable, one publisher waits and another drops, with a live reader. The first loses nothing,
/// drops of the second are counted, and Kafka's counts agree.
pub fn away(cluster: &TestCluster) {
    let folder = Folder::new();
    let traffic = Traffic::stretched(20);
    let (mut waits, its) = publisher(&folder, cluster, "block");
    let (mut drops, other) = publisher(&folder, cluster, "drop");
    let asker = Started::new(
        &folder,
        "asker",
        &[
            "query",
            "PARSE packet",
            "--kafka",
            &cluster.kafka,
            "--format",
            "jsonl",
        ],
    );
    asker.says("Ctrl-C ends it");
    for one in [&mut waits, &mut drops] {
        one.feed(traffic.part(0.0, 0.2), Duration::from_secs(1));
    }
    wait_for("rows", || {
        if asker.rows() > 100 {
            Ok(())
        } else {
            Err(asker.said())
        }
    });
    cluster.kill("broker-1");
    // The first does not read while it waits; its pipe is large enough.
    drops.feed(traffic.part(0.2, 0.9), Duration::ZERO);
    waits.feed(traffic.part(0.2, 0.4), Duration::ZERO);
    drops.says("no broker has accepted a record for 5 s (");
    waits.says("no broker has accepted a record for 5 s (");
    asker.says("no broker responds at ");
    start_broker_again(cluster);
    waits.says("brokers accept records again; nothing was dropped");
    drops.says("brokers accept records again; ");
    asker.says("brokers respond again");
    waits.feed(traffic.part(0.4, 1.0), Duration::ZERO);
    drops.feed(traffic.part(0.9, 1.0), Duration::ZERO);
    let waited = waits.ends(PATIENCE);
    let dropped = drops.ends(PATIENCE);
    assert_eq!(waited.code, 0, "{}", waited.err);
    let number = counted(&dropped, "dropped");
    assert!(dropped.code == 1 && number > 100, "{}", dropped.err);
    let line =
        format!("error: {number} records were dropped: the buffer was full (--unacknowledged-max)");
    assert!(dropped.err.contains(&line), "{}", dropped.err);
    for (ran, partition) in [(&waited, its), (&dropped, other)] {
        let there = offsets(cluster, "netalytics.packet.v1", partition);
        assert_eq!(there, counted(ran, "sent to Kafka"), "{}", ran.err);
    }
    // Missing packets equal the drops, except for beats, which are dropped, too.
    let all = traffic.packets.len() as u64;
    let rows = |ran: &Ran| counted(ran, "rows");
    assert_eq!((rows(&waited), rows(&dropped)), (all, all));
    let expected = 2 * all as usize - number as usize;
    wait_for("all rows", || match asker.rows() {
        rows if (expected..expected + 100).contains(&rows) => Ok(()),
        rows => Err(format!("{rows} of {expected}")),
    });
    let asked = asker.interrupted(PATIENCE);
    assert_eq!(asked.code, 0, "{}", asked.err);
}

/// With the broker gone for good, a publisher asked to end does so within a time limit, and reports missing data.
pub fn an_end_while_they_are_away(cluster: &TestCluster) {
    let folder = Folder::new();
    let traffic = Traffic::stretched(20);
    let (mut publisher, _) = publisher(&folder, cluster, "block");
    let asker = Started::new(
        &folder,
        "asker",
        &["query", "PARSE packet", "--kafka", &cluster.kafka],
    );
    asker.says("Ctrl-C ends it");
    publisher.feed(traffic.part(0.0, 0.2), Duration::from_secs(2));
    wait_for("rows", || {
        if asker.rows() > 0 {
            Ok(())
        } else {
            Err(asker.said())
        }
    });
    cluster.kill("broker-1");
    // Less than a pipe's capacity: a publisher that waits does not read.
    publisher.feed(traffic.part(0.2, 0.4), Duration::ZERO);
    asker.says("no broker responds at ");
    let begun = Instant::now();
    publisher.signal("-INT");
    let asked = asker.interrupted(Duration::from_secs(5));
    assert!(
        asked.code == 1 && asked.err.contains("error: Kafka: no broker responds at "),
        "{}",
        asked.err
    );
    let published = publisher.ends(Duration::from_secs(25));
    eprintln!(
        "  a publisher ended {:.1?} after it was asked to",
        begun.elapsed()
    );
    assert!(
        published.code == 1 && published.err.contains("records are not acknowledged yet"),
        "{}",
        published.err
    );
    start_broker_again(cluster);
}
