//! SAMPLE auto of a publisher follows a throttled Flink: real packets, whose number is known from the sender.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use bus::progress::{ProgressWatch, ReaderStatement};
use bus::{Kafka, TopicAdmin};
use serde_json::Value;
use testkit::cluster::TestCluster;
use testkit::programs::{PATIENCE, wait_for};

use crate::{BINARY, run};

const TOPIC: &str = "netalytics.http.v1";
const QUERY: &str = "PARSE http PROCESS (group-count: group=path, sample_rate, w=1s)";
/// Connections per second, with a known number of packets.
const PACE: &str = "1500";
const PACKETS: u64 = 7;
/// Time to observe whether a CPU share is small enough.
const HELD: Duration = Duration::from_secs(25);

/// A background process of the program, with its messages.
struct Running {
    child: Child,
    folder: PathBuf,
}

impl Running {
    fn start(folder: &Path, args: &[&str]) -> Running {
        fs::create_dir_all(folder).expect("a folder");
        let file = |name: &str| File::create(folder.join(name)).expect("a file");
        let mut command = Command::new(BINARY);
        command
            .args(args)
            .arg("--summary-json")
            .arg(folder.join("summary"));
        command
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"));
        Running {
            child: command.spawn().expect("it starts"),
            folder: folder.to_owned(),
        }
    }

    fn said(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    /// Waits for a line with these words.
    fn wait_for(&mut self, name: &str, words: &str) -> String {
        wait_for(words, || {
            let said = self.said(name);
            let code = self.child.try_wait().expect("it can be waited for");
            assert!(code.is_none(), "{code:?}: {}", self.said("err"));
            if said.contains(words) {
                Ok(said)
            } else {
                Err(self.said("err"))
            }
        })
    }

    /// Ends the publisher with Ctrl-C; returns its counters.
    fn end(mut self) -> Value {
        let killed = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status();
        assert!(killed.is_ok_and(|status| status.success()));
        let code = self.child.wait().expect("it ends");
        assert!(code.success(), "{code}: {}", self.said("err"));
        serde_json::from_str(&self.said("summary")).expect("JSON")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pair of interfaces with generated traffic.
struct Load {
    child: Child,
    input: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    name: String,
}

impl Load {
    /// `None` if no interface can be created and `ALLOW_MISSING` names `veth`.
    fn start() -> Option<Load> {
        let name = format!("nf{}", std::process::id());
        let words = format!(
            "ip link add {name}a type veth peer name {name}b && for i in {name}a {name}b; do \
             echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6; ip link set $i up; done"
        );
        let made = Command::new("sh").args(["-c", &words]).status();
        testkit::require!("veth" => made.is_ok_and(|status| status.success()));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/conversations.py");
        let mut child = Command::new("python3")
            .args([script, &format!("{name}a"), PACE])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python runs");
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        Some(Load {
            input: child.stdin.take(),
            child,
            answers,
            name,
        })
    }

    fn phase(&mut self, name: &str) {
        let input = self.input.as_mut().expect("still running");
        writeln!(input, "phase {name}")
            .and_then(|()| input.flush())
            .expect("an event");
        assert_eq!(self.answer(), "ok\n");
    }

    fn answer(&mut self) -> String {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("text");
        answer
    }

    /// Ends the traffic; returns the requests per path.
    fn end(&mut self) -> BTreeMap<String, u64> {
        self.input = None;
        serde_json::from_str(&self.answer()).expect("JSON")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = Command::new("ip")
            .args(["link", "del", &format!("{}a", self.name)])
            .status();
    }
}

/// A cgroup that limits a process to a CPU share; the limit is removed on drop.
struct Held {
    folder: PathBuf,
    version: u8,
}

impl Held {
    /// `None` without such control groups, if `ALLOW_MISSING` names `cgroup-cpu`.
    fn of(pid: &str) -> Option<Held> {
        let name = format!("netalytics-{}", std::process::id());
        let of = |(version, root): (u8, &str)| Held {
            folder: Path::new(root).join(&name),
            version,
        };
        for held in [(1, "/sys/fs/cgroup/cpu"), (2, "/sys/fs/cgroup")].map(of) {
            let is_there = fs::create_dir(&held.folder).is_ok() && held.limit_file().exists();
            if is_there && fs::write(held.folder.join("cgroup.procs"), pid).is_ok() {
                return Some(held);
            }
        }
        testkit::require::missing("cgroup-cpu", "no control group limits CPU time");
        None
    }

    fn limit_file(&self) -> PathBuf {
        self.folder.join(if self.version == 1 {
            "cpu.cfs_quota_us"
        } else {
            "cpu.max"
        })
    }

    /// Limits the CPU time to this number of milliseconds per second.
    fn to(&self, milliseconds: u64) {
        let quota = milliseconds * 1000;
        let text = if self.version == 1 {
            fs::write(self.folder.join("cpu.cfs_period_us"), "1000000").expect("a period");
            quota.to_string()
        } else {
            format!("{quota} 1000000")
        };
        fs::write(self.limit_file(), text).expect("a limit");
    }

    fn let_go(&self) {
        let text = if self.version == 1 { "-1" } else { "max" };
        let _ = fs::write(self.limit_file(), text);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.let_go();
        let root = self.folder.parent().expect("a root");
        for pid in fs::read_to_string(self.folder.join("cgroup.procs"))
            .unwrap_or_default()
            .lines()
        {
            let _ = fs::write(root.join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Reduces the share until the effect shows. A busy machine sends less traffic, and Flink needs less CPU after warm-up,
/// so the required share is unknown beforehand.
fn hold_until(held: &Held, used: u64, mut shows: impl FnMut() -> bool) {
    let mut milliseconds = used / 5;
    for _ in 0..4 {
        held.to(milliseconds.max(5));
        let begun = Instant::now();
        while begun.elapsed() < HELD {
            if shows() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        milliseconds /= 2;
    }
    panic!("nobody notices that Flink has {milliseconds} ms of a second, where it took {used}");
}

/// CPU time of the process in milliseconds.
fn cpu_ms(pid: &str) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let behind = stat.rsplit(") ").next().expect("its numbers");
    // Assumes ticks of 10 ms.
    behind
        .split(' ')
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum::<u64>()
        * 10
}

/// Lag of a reader in a partition, from both positions.
struct Lag {
    topics: TopicAdmin,
    watch: ProgressWatch,
    partition: usize,
    at: Option<i64>,
}

impl Lag {
    fn open(brokers: &str, partition: usize) -> Lag {
        let kafka = Kafka::new(brokers, []).expect("brokers");
        let topics = TopicAdmin::connect(&kafka, PATIENCE).expect("brokers");
        Lag {
            topics,
            watch: ProgressWatch::open(&kafka, PATIENCE).expect("the topic"),
            partition,
            at: None,
        }
    }

    /// Lag after the next step of the reader.
    fn next(&mut self) -> i64 {
        let at = wait_for("progress", || {
            let mut last = self.at;
            while let Some(note) = self.watch.take().expect("the topic") {
                if note.says == ReaderStatement::Reads {
                    last = note.at.get(self.partition).copied().flatten().or(last);
                }
            }
            last.filter(|_| last != self.at)
                .ok_or_else(|| format!("it stands at {last:?}"))
        });
        self.at = Some(at);
        self.topics.offsets(TOPIC).expect("offsets")[self.partition].end - at
    }

    /// Waits until the backlog has stopped growing for a while.
    fn settle(&mut self) {
        let mut low = (self.next(), Instant::now());
        wait_for("a lag that stops growing", || {
            let lag = self.next();
            if lag <= low.0 && low.1.elapsed() > Duration::from_secs(4) {
                return Ok(());
            }
            if lag > low.0 {
                low = (lag, Instant::now());
            }
            Err(format!("{lag} records"))
        });
    }
}

/// Rows of [`QUERY`] by path: tuples, their weighted number, and its variance.
fn by_path(rows: &str) -> BTreeMap<String, (f64, f64, f64)> {
    let mut paths: BTreeMap<String, (f64, f64, f64)> = BTreeMap::new();
    for row in rows
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
    {
        let number = |name: &str| {
            row[name]
                .as_f64()
                .unwrap_or_else(|| panic!("{name}: {row}"))
        };
        let count = number("count");
        let low = number("count_low");
        let rate = number("sample_rate");
        let tuples = (count * rate).round();
        let sums = paths
            .entry(row["path"].as_str().expect("a path").to_owned())
            .or_default();
        sums.0 += tuples;
        sums.1 += count;
        // The upper bound of few flows is unbounded: the rest of a second in the next window. Each tuple is a separate
        // flow.
        sums.2 += match row["count_high"].as_f64() {
            Some(high) => ((high - low) / 2.0 / 1.96).powi(2),
            None => tuples * (1.0 - rate) / rate.powi(2),
        };
    }
    paths
}

pub fn follows_a_slow_flink(cluster: &TestCluster, tmp: &Path) {
    let Some(mut load) = Load::start() else {
        return;
    };
    let kafka = cluster.kafka.as_str();
    let gateway = cluster.gateway.as_deref().expect("a gateway");
    let jobs = cluster.flink.as_deref().expect("Flink");
    let interface = format!("{}b", load.name);
    let mut publisher = Running::start(
        &tmp.join("publisher"),
        &[
            "publish",
            "PARSE http SAMPLE auto",
            "-i",
            &interface,
            "--kafka",
            kafka,
            "--no-redact",
        ],
    );
    let said = publisher.wait_for("err", "publishing to partition");
    let partition = said
        .split("partition ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let mut asker = Running::start(
        &tmp.join("asker"),
        &[
            &[
                "query",
                QUERY,
                "--kafka",
                kafka,
                "--published",
                "tuples",
                "--format",
                "jsonl",
            ][..],
            &[
                "--engine",
                "flink",
                "--flink-gateway",
                gateway,
                "--flink",
                jobs,
            ],
        ]
        .concat(),
    );
    load.phase("before");
    asker.wait_for("out", "/before/");
    load.phase("fast");
    asker.wait_for("out", "/fast/");
    let pid = cluster.pid("taskmanager-1");
    let used = cpu_ms(&pid);
    let span = Duration::from_secs(2);
    std::thread::sleep(span);
    let used = (cpu_ms(&pid) - used) / span.as_secs();
    let Some(held) = Held::of(&pid) else { return };
    let mut lag = Lag::open(
        kafka,
        partition.and_then(|n| n.parse().ok()).expect("a partition"),
    );
    load.phase("slow");
    hold_until(&held, used, || {
        publisher
            .said("err")
            .contains("is behind: SAMPLE auto reduces the rate to")
    });
    lag.settle();
    load.phase("again");
    held.let_go();
    publisher.wait_for("err", "processes all flows again");
    // Earlier windows are closed once later ones are.
    load.phase("last");
    asker.wait_for("out", "/last/");
    let sent = load.end();
    let rows = by_path(&asker.said("out"));
    let counted = publisher.end();
    let asked = asker.end();

    // Every packet, and every tuple.
    let number =
        |of: &Value, pointer: &str| of.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let received = number(&counted, "/packets/received");
    let lost = number(&counted, "/source/lost_before_us");
    assert_eq!(received + lost, PACKETS * sent.values().sum::<u64>());
    assert_eq!(
        counted.pointer("/packets/adds_up"),
        Some(&Value::Bool(true))
    );
    assert!(number(&counted, "/packets/sampled_out") > 0 && asked["complete"] == Value::Bool(true));
    let published = number(&counted, "/rows");
    assert!(
        published > 0 && published <= number(&counted, "/sent/acknowledged"),
        "{counted}"
    );
    // Data read by Flink is readable by others.
    let chosen =
        "PARSE http WHERE path LIKE '/fast/%' OR path LIKE '/slow/%' OR path LIKE '/again/%'";
    let past = QUERY.replace("PARSE http", chosen) + " SINCE 2001-01-01";
    let past = run(&[
        "query",
        &past,
        "--kafka",
        kafka,
        "--published",
        "tuples",
        "--format",
        "jsonl",
    ]);
    assert_eq!(past.code, 0, "{}", past.err);
    let is_whole = |path: &str| {
        ["/fast/", "/slow/", "/again/"]
            .iter()
            .any(|phase| path.starts_with(phase))
    };
    let there = by_path(&past.out);
    let read: BTreeMap<_, _> = rows
        .into_iter()
        .filter(|(path, _)| is_whole(path))
        .collect();
    assert!(read.keys().eq(there.keys()) && there.len() > 10);
    for (path, (tuples, ..)) in &read {
        assert_eq!(*tuples, there[path].0, "{path}");
    }
    // Results per second and per phase are within four standard errors, unless the kernel has lost packets.
    let mut phases: BTreeMap<&str, (f64, f64, f64)> = BTreeMap::new();
    for (path, (_, count, variance)) in read.iter().filter(|_| lost == 0) {
        let truth = sent[path] as f64;
        assert!(
            (count - truth).abs() <= 4.0 * variance.sqrt() + 1e-6,
            "{path}: {count} of {truth}"
        );
        let phase = phases
            .entry(path.split('/').nth(1).expect("a phase"))
            .or_default();
        *phase = (phase.0 + truth, phase.1 + count, phase.2 + variance);
    }
    for (phase, (truth, count, variance)) in phases {
        assert!(
            (count - truth).abs() <= 4.0 * variance.sqrt() + 1e-6,
            "{phase}: {count} of {truth}"
        );
    }
}
