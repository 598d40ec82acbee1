//! Publishers that start and stop at random, with a broker that is killed. Packets that a publisher has reported as
//! published
//! are counted once; a killed or interrupted publisher adds at most the packets given to it. No promise is broken: a
//! query of the complete past has no late tuple.
//!
//! The seed is printed. `NETALYTICS_CHAOS=200` runs 200 steps instead of 5; `NETALYTICS_CHAOS_SEED=7` repeats the steps
//! of seed 7.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::time::Duration;

use testkit::SeededRng;
use testkit::cluster::TestCluster;
use testkit::programs::{PATIENCE, wait_for};

use super::Started;
use crate::Folder;
use crate::bus::periods::{START, capture, counted};

const QUERY: &str = "PARSE tcp_pkt_size PROCESS (group-count: group=server_ip, w=10s)";
const FATES: [&str; 8] = [
    "ended",
    "ended",
    "ended",
    "interrupted",
    "killed",
    "killed",
    "stopped",
    "without a broker",
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

/// Published data: tuples or cells, and the minimum and maximum number of packets per server.
#[derive(Default)]
struct Truth(BTreeMap<&'static str, BTreeMap<String, (u64, u64)>>);

impl Truth {
    fn check(&self, what: &'static str, cluster: &TestCluster, words: &str) {
        let Some(expected) = self.0.get(what) else {
            return;
        };
        // A publisher that is killed early has created no topic.
        if expected.values().all(|(least, _)| *least == 0) {
            return;
        }
        let (found, inexact) = counted(&cluster.kafka, QUERY, what, &[]);
        assert_eq!(inexact, 0, "late in a complete past: {words}");
        for (server, (least, most)) in expected {
            let count = found.get(server).copied().unwrap_or(0);
            assert!(
                (*least..=*most).contains(&count),
                "{server}: {count}, not {least} to {most}: {words}"
            );
        }
        assert!(
            found.keys().all(|server| expected.contains_key(server)),
            "{found:?}: {words}"
        );
    }
}

pub fn publishers_come_and_go(cluster: &TestCluster) {
    let steps = number("NETALYTICS_CHAOS").unwrap_or(5);
    let seed = number("NETALYTICS_CHAOS_SEED")
        .unwrap_or_else(|| SeededRng::new(std::process::id().into()).next_u64() >> 32);
    eprintln!("NETALYTICS_CHAOS_SEED={seed}");
    let folder = Folder::new();
    let mut rng = SeededRng::new(seed);
    let mut truth = Truth::default();
    let mut net = 0_u8;
    let mut fates = BTreeMap::new();
    for step in 1..=steps {
        let mut words = Vec::new();
        let mut running = Vec::new();
        for _ in 0..=rng.below(3) {
            // Servers are distinguished by one byte: after 250 of them the first ones are reused.
            net = net % 250 + 1;
            let what = if rng.chance(0.5) { "tuples" } else { "cells" };
            let fate = FATES[rng.below(FATES.len() as u64) as usize];
            *fates.entry(fate).or_insert(0) += 1;
            // Later than previous ones, or of an earlier period.
            let start = START
                + if rng.chance(0.7) {
                    step * 60
                } else {
                    rng.below(step * 60)
                };
            let packets = 100 + rng.below(3000);
            let file = fs::read(capture(&folder, net, (start, 1 + rng.below(60)), packets))
                .expect("a capture");
            let query = if what == "tuples" {
                "PARSE tcp_pkt_size"
            } else {
                QUERY
            };
            let fixed = [
                "publish",
                query,
                "-r",
                "-",
                "--kafka",
                &cluster.kafka,
                "--publish",
                what,
                "--no-redact",
            ];
            let mut publisher = Started::new(&folder, &format!("publisher-{net}"), &fixed);
            let packets: Vec<Vec<u8>> = file[24..].chunks(80).map(<[u8]>::to_vec).collect();
            publisher.feed(&[file[..24].to_vec()], Duration::ZERO);
            let part = match fate {
                "killed" | "interrupted" => rng.below(packets.len() as u64) as usize,
                _ => packets.len() / 2,
            };
            publisher.feed(&packets[..part], Duration::from_millis(rng.below(300)));
            words.push(format!("10.{net}.0.2 {what} {fate}"));
            running.push((
                format!("10.{net}.0.2"),
                what,
                fate,
                publisher,
                packets,
                part,
            ));
        }
        let loses_broker = running
            .iter()
            .any(|(_, _, fate, ..)| *fate == "without a broker");
        if loses_broker {
            // A publisher started without a broker ends with exit code 1.
            running
                .iter()
                .for_each(|(.., publisher, _, _)| publisher.says("publishing to partition"));
            cluster.kill("broker-1");
        }
        for (.., fate, publisher, _, _) in &running {
            match *fate {
                "killed" => publisher.signal("-KILL"),
                "interrupted" if !loses_broker => publisher.signal("-INT"),
                "stopped" => publisher.signal("-STOP"),
                _ => {}
            }
        }
        if loses_broker {
            std::thread::sleep(Duration::from_millis(rng.below(3000)));
            cluster.start_again("broker-1");
        }
        let words = words.join("; ");
        for (server, what, fate, mut publisher, packets, part) in running {
            let is_whole = !matches!(fate, "killed" | "interrupted");
            if fate == "stopped" {
                publisher.signal("-CONT");
            }
            if is_whole {
                publisher.feed(&packets[part..], Duration::ZERO);
            }
            if fate == "interrupted" && loses_broker {
                publisher.signal("-INT");
            }
            if loses_broker {
                // From the end of its input, a publisher waits 30 s for acknowledgments; a busy machine starts a
                // broker slowly.
                wait_for("the broker", || {
                    TcpStream::connect(&cluster.kafka)
                        .map(drop)
                        .map_err(|error| error.to_string())
                });
            }
            let ran = publisher.ends(2 * PATIENCE);
            assert!(!is_whole || ran.code == 0, "{}: {words}", ran.err);
            let (least, most) = if is_whole {
                (packets.len(), packets.len())
            } else {
                (0, part)
            };
            let of = truth
                .0
                .entry(what)
                .or_default()
                .entry(server)
                .or_insert((0, 0));
            *of = (of.0 + least as u64, of.1 + most as u64);
        }
        truth.check("tuples", cluster, &words);
        truth.check("cells", cluster, &words);
        eprintln!("step {step}: {words}");
    }
    eprintln!(
        "{steps} steps of seed {seed}: publishers {fates:?}; all that was reported is there, once"
    );
}
