//! Failures between publishers and readers, with real processes that are killed: messages, losses, ends. Rows are
//! compared with an undisturbed run over the same packets. `docs/distributed.md` has the table; scenarios with three
//! brokers and Flink are ignored tests.

mod at_random;
mod brokers;
mod disk;
mod flink;
pub mod records;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use testkit::cluster::{ClusterParts, TestCluster};
use testkit::programs::wait_for;

use super::{BINARY, Folder, ROOT, Ran, run};

/// The shop's packets, spread over a longer time: header of the capture, and each packet.
pub struct Traffic {
    head: Vec<u8>,
    packets: Vec<Vec<u8>>,
}

impl Traffic {
    fn stretched(times: u64) -> Traffic {
        let bytes = fs::read(format!("{ROOT}/{}", super::SHOP)).expect("the shop");
        let (head, mut rest) = bytes.split_at(24);
        let word =
            |at: &[u8]| u64::from(u32::from_le_bytes(*at.first_chunk().expect("four bytes")));
        let mut packets: Vec<Vec<u8>> = Vec::new();
        let mut first_us = None;
        while !rest.is_empty() {
            let (packet, behind) = rest.split_at(16 + word(&rest[8..]) as usize);
            let us = word(packet) * 1_000_000 + word(&packet[4..]);
            let first_us = *first_us.get_or_insert(us);
            let us = first_us + (us - first_us) * times;
            let time = [us / 1_000_000, us % 1_000_000].map(|part| (part as u32).to_le_bytes());
            packets.push([&time.concat(), &packet[8..]].concat());
            rest = behind;
        }
        Traffic {
            head: head.to_vec(),
            packets,
        }
    }

    /// The complete capture as a file.
    fn file(&self, folder: &Folder) -> String {
        folder.file(
            "all.pcap",
            &[&self.head[..], &self.packets.concat()].concat(),
        )
    }

    /// A part of the capture, from 0 to 1.
    fn part(&self, from: f64, to: f64) -> &[Vec<u8>] {
        let place = |share: f64| (share * self.packets.len() as f64) as usize;
        &self.packets[place(from)..place(to)]
    }
}

/// A running process whose messages can be read.
pub struct Started {
    child: Child,
    stdin: Option<ChildStdin>,
    out: String,
    err: String,
}

impl Started {
    pub fn new(folder: &Folder, name: &str, args: &[&str]) -> Started {
        let out = folder.path(&format!("{name}.out"));
        let err = folder.path(&format!("{name}.err"));
        let file = |path: &str| fs::File::create(path).expect("a file");
        let mut command = Command::new(BINARY);
        command
            .args(args)
            .current_dir(ROOT)
            .stdin(Stdio::piped())
            .stdout(file(&out))
            .stderr(file(&err));
        let mut child = command.spawn().expect("the binary runs");
        Started {
            stdin: child.stdin.take(),
            child,
            out,
            err,
        }
    }

    /// A publisher, fed by [`Started::feed`].
    fn publisher(
        folder: &Folder,
        name: &str,
        cluster: &TestCluster,
        query: &str,
        flags: &[&str],
    ) -> Started {
        let fixed = [
            "publish",
            query,
            "-r",
            "-",
            "--kafka",
            &cluster.kafka,
            "--no-redact",
        ];
        let mut started = Started::new(folder, name, &[&fixed[..], flags].concat());
        started.feed(&[Traffic::stretched(1).head], Duration::ZERO);
        started
    }

    /// Feeds packets, spread over `within`.
    pub fn feed(&mut self, packets: &[Vec<u8>], within: Duration) {
        let begun = Instant::now();
        for (place, packet) in packets.iter().enumerate() {
            let due = within.mul_f64(place as f64 / packets.len() as f64);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
            // The process may have ended, which its exit status shows.
            let _ = self.stdin.as_mut().expect("not closed").write_all(packet);
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.err).expect("its words")
    }

    #[track_caller]
    pub fn says(&self, words: &str) {
        wait_for(words, || match self.said() {
            said if said.contains(words) => Ok(()),
            said => Err(said),
        });
    }

    pub fn rows(&self) -> usize {
        fs::read_to_string(&self.out)
            .expect("its rows")
            .lines()
            .count()
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status();
        assert!(sent.expect("kill").success());
    }

    /// Waits until the process ends after the end of its input.
    #[track_caller]
    pub fn ends(mut self, within: Duration) -> Ran {
        drop(self.stdin.take());
        let begun = Instant::now();
        let code = loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                break status.code().unwrap_or(-1);
            }
            assert!(begun.elapsed() < within, "it goes on: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        };
        let ran = Ran {
            code,
            out: fs::read_to_string(&self.out).expect("its rows"),
            err: self.said(),
        };
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran
    }

    pub fn interrupted(self, within: Duration) -> Ran {
        self.signal("-INT");
        self.ends(within)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Rows over the packets, unordered.
fn undisturbed(query: &str, capture: &str) -> BTreeSet<String> {
    let ran = run(&["query", query, "-r", capture, "--format", "jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    as_set(&ran.out)
}

/// Rows as a set; panics on duplicates.
#[track_caller]
fn as_set(rows: &str) -> BTreeSet<String> {
    let all: BTreeSet<String> = rows.lines().map(str::to_owned).collect();
    assert_eq!(all.len(), rows.lines().count(), "a row is told twice");
    all
}

#[track_caller]
fn assert_rows(found: &str, expected: &BTreeSet<String>, what: &str) {
    let found = as_set(found);
    let lacking: Vec<_> = expected.difference(&found).collect();
    let other: Vec<_> = found.difference(expected).collect();
    assert!(
        lacking.is_empty() && other.is_empty(),
        "{what}: lacking {lacking:#?}, and there are {other:#?}"
    );
}

/// The number after a label in the summary.
#[track_caller]
fn counted(ran: &Ran, label: &str) -> u64 {
    let line = ran
        .err
        .lines()
        .find_map(|line| line.trim().strip_prefix(label));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// Number of records in a partition, by Kafka's own tool.
fn offsets(cluster: &TestCluster, topic: &str, partition: u64) -> u64 {
    let tool = cluster
        .kafka_tool("org.apache.kafka.tools.GetOffsetShell")
        .args(["--topic", topic])
        .output();
    let said = String::from_utf8(tool.expect("java").stdout).expect("text");
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{topic}:{partition}:")));
    line.and_then(|end| end.parse().ok())
        .unwrap_or_else(|| panic!("{topic} {partition}: {said}"))
}

fn topics(cluster: &TestCluster) -> String {
    let listed = cluster
        .kafka_tool("org.apache.kafka.tools.TopicCommand")
        .arg("--list")
        .output();
    String::from_utf8(listed.expect("java").stdout).expect("text")
}

/// One cluster at a time: several on few cores lose their components.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // A failed test has ended its cluster.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

type Scenario = fn(&TestCluster);

/// Runs the scenarios one after the other on one cluster.
fn play(cluster: &TestCluster, scenarios: &[(&str, Scenario)]) {
    let mut failed: Vec<&str> = Vec::new();
    for (what, scenario) in scenarios {
        let begun = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| scenario(cluster)));
        eprintln!(
            "{}: {what}: {:.1?}",
            if outcome.is_ok() { "fine" } else { "FAILED" },
            begun.elapsed()
        );
        failed.extend(outcome.is_err().then_some(*what));
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

fn cluster(name: &str, parts: ClusterParts) -> Option<TestCluster> {
    TestCluster::start(Path::new(env!("CARGO_TARGET_TMPDIR")), name, parts)
}

#[test]
fn faults_on_the_bus_are_reported_and_bounded() {
    let _alone = alone();
    let Some(cluster) = cluster("faults", ClusterParts::Kafka(1)) else {
        return;
    };
    play(
        &cluster,
        &[
            ("records that are none", records::poison),
            ("publishers of other versions", records::versions),
            ("a topic that is deleted", records::deleted),
            ("a publisher that is killed", brokers::a_killed_publisher),
            ("a lane that comes back late", records::late),
            ("a partition that is new", records::a_new_partition),
            ("brokers that go and come back", brokers::away),
            (
                "an end while brokers are away",
                brokers::an_end_while_they_are_away,
            ),
        ],
    );
}

#[test]
fn publishers_at_random_lose_and_repeat_nothing() {
    let _alone = alone();
    if let Some(cluster) = cluster("faults-random", ClusterParts::Kafka(1)) {
        at_random::publishers_come_and_go(&cluster);
    }
}

#[test]
#[ignore = "takes minutes and 2 GB of memory"]
fn faults_with_three_brokers_and_flink() {
    let _alone = alone();
    let Some(cluster) = cluster("faults-flink", ClusterParts::ThreeBrokersAndFlink) else {
        return;
    };
    play(
        &cluster,
        &[
            ("topics awake at the end", flink::silent_topics),
            ("one of three brokers is killed", flink::a_killed_broker),
            ("the TaskManager is killed", flink::a_killed_taskmanager),
            ("the gateway is killed", flink::a_killed_gateway),
            ("the asking program is killed", flink::a_killed_asker),
            ("records that are none", flink::poison),
            ("a lane that comes back late", flink::late),
            ("the topic is deleted", flink::deleted),
            (
                "all brokers are away at the end",
                flink::an_end_without_brokers,
            ),
        ],
    );
}

/// Requires the permission to mount.
#[test]
#[ignore = "takes minutes"]
fn a_full_disk() {
    let _alone = alone();
    disk::a_full_disk();
}
