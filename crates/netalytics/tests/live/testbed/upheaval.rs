//! Queries of the network that start and stop at random on one bed: several at a time, with all kinds of copies, ended,
//! interrupted and killed at any moment, as are their monitors, tools, and the controller. In all cases nothing of them
//! remains: no rule (after its lease), mirror, port, interface, namespace or process; and traffic between two hosts is
//! not affected.
//!
//! The seed is printed. `NETALYTICS_CHAOS=200` runs that number of steps instead of 20, `NETALYTICS_CHAOS_SEED=7` those
//! of that seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use testkit::SeededRng;
use testkit::programs::wait_for;

use super::traffic::HostTraffic;
use super::{LEAVES, MIRRORS, Sdn, TestBed, not_spare, state, without_sniffers};
use crate::capture::{BINARY, wait};
use crate::net::within;

/// Environment variable of every process started by a query.
pub const MARK: &str = "NETALYTICS_TESTED_BY";
/// Lifetime of rules without renewal; `planner::physical::LEASE`.
const LEASE: Duration = Duration::from_secs(10);
/// Modes in which the answer lacks something, and cut copies, are as cheap as can be.
pub const CUTS: &str =
    "exact_worth_cores = 0.0\n[switch]\ncopy_ns = 9000.0\nmirror_ns = 9000.0\ncut_ns = 1.0\n";

/// Settings of a query in the network.
struct Way {
    name: &'static str,
    /// PARSE clause, for the hosts of one leaf.
    parse: &'static str,
    network: &'static str,
    flags: &'static [&'static str],
    costs: Option<&'static str>,
}

const EXACT: &[&str] = &["--exact"];
const WAYS: [Way; 10] = [
    Way {
        name: "at ports",
        parse: "tcp_conn_time",
        network: "whole",
        flags: EXACT,
        costs: None,
    },
    Way {
        name: "flows",
        parse: "packet",
        network: "copied",
        flags: EXACT,
        costs: None,
    },
    Way {
        name: "flows of TCP",
        parse: "tcp_pkt_size",
        network: "copied",
        flags: EXACT,
        costs: None,
    },
    Way {
        name: "ends",
        parse: "tcp_conn_time",
        network: "copied",
        flags: &[],
        costs: Some("cuts"),
    },
    Way {
        name: "heads",
        parse: "http",
        network: "copied",
        flags: &[],
        costs: Some("cuts"),
    },
    Way {
        name: "mirrors",
        parse: "tcp_conn_time",
        network: "copied",
        flags: EXACT,
        costs: Some("mirrors"),
    },
    Way {
        name: "tunnels",
        parse: "tcp_conn_time",
        network: "tunneled",
        flags: EXACT,
        costs: None,
    },
    Way {
        name: "tunnels of GRE",
        parse: "tcp_conn_time",
        network: "gre",
        flags: EXACT,
        costs: None,
    },
    Way {
        name: "interface",
        parse: "tcp_conn_time",
        network: "here",
        flags: &["--exact", "--expect", "10.60.2.0/24:9=500Mbps"],
        costs: None,
    },
    Way {
        name: "controller",
        parse: "tcp_conn_time",
        network: "told",
        flags: EXACT,
        costs: None,
    },
];

/// Intended end of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Interrupted,
    Terminated,
    Killed,
    /// One of the query's monitors is killed; the query ends by itself.
    NoMonitor,
    /// A keeper that would clean up is killed; then it is interrupted.
    NoKeeper,
    /// One of the query's running tools is killed; a query that continues nevertheless is interrupted.
    NoTool,
}

const FATES: [Fate; 8] = [
    Fate::Interrupted,
    Fate::Interrupted,
    Fate::Terminated,
    Fate::Killed,
    Fate::Killed,
    Fate::NoMonitor,
    Fate::NoKeeper,
    Fate::NoTool,
];

/// A running query.
struct Query {
    way: &'static str,
    fate: Fate,
    /// Delay of the intended end; `None`: as soon as it runs.
    after: Option<Duration>,
    begun: Instant,
    child: Child,
    said: std::path::PathBuf,
    is_done: bool,
    has_lost_tool: bool,
}

impl Query {
    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    fn is_at_work(&self) -> bool {
        self.said().contains("capturing from")
    }

    /// Causes the intended end if due.
    fn meet(&mut self) {
        let is_time = match self.after {
            None => self.is_at_work(),
            Some(after) => self.begun.elapsed() >= after,
        };
        if self.is_done || !is_time {
            return;
        }
        let pid = self.child.id();
        self.is_done = match self.fate {
            Fate::Interrupted => send(pid, "INT"),
            Fate::Terminated => send(pid, "TERM"),
            Fate::Killed => send(pid, "KILL"),
            // An existing monitor is killed; there may be none.
            Fate::NoMonitor => kill_child(pid, "monitor") || send(pid, "INT"),
            Fate::NoKeeper => kill_child(pid, "flock") | send(pid, "INT"),
            // Tools run for milliseconds: one may have ended before the signal arrives, and leases are renewed again.
            Fate::NoTool => {
                self.has_lost_tool = self.has_lost_tool || kill_child(pid, "ovs-");
                self.is_at_work() && send(pid, "INT")
            }
        };
    }
}

/// If the child has ended, this only reaps it.
impl Drop for Query {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal; ignores whether the process exists.
fn send(pid: u32, name: &str) -> bool {
    let _ = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .stderr(Stdio::null())
        .status();
    true
}

/// Kills a child by a prefix of its program's name, or by an argument, if it exists.
pub fn kill_child(of: u32, name: &str) -> bool {
    child(of, name).is_some_and(|pid| send(pid, "KILL"))
}

/// A child process with this name.
pub fn child(of: u32, name: &str) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    // Between fork and exec, a child has the arguments of its parent.
    let is_it = |pid: &&str| {
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.starts_with(name) || words.split('\0').any(|word| word == name)
    };
    children
        .split_whitespace()
        .find(is_it)
        .and_then(|pid| pid.parse().ok())
}

/// Remaining objects of queries; for rules, their owners.
type Left = BTreeSet<String>;

/// See the module documentation.
struct Upheaval<'b> {
    bed: &'b TestBed,
    sdn: Option<Sdn>,
    rng: SeededRng,
    mark: String,
    namespaces: Vec<String>,
    /// Rules of killed processes, with the end of their leases.
    dying: BTreeMap<String, Instant>,
    /// Counts of the ends of queries.
    ends: BTreeMap<String, u32>,
    longest: Duration,
    number: u32,
    /// State of every switch, and hosts that replied, before the first query.
    state: String,
    answered: Vec<String>,
}

impl Upheaval<'_> {
    fn any(&mut self) -> (&'static Way, Fate, Option<Duration>) {
        let ways = if self.sdn.is_some() {
            WAYS.len()
        } else {
            WAYS.len() - 1
        };
        let way = &WAYS[self.rng.below(ways as u64) as usize];
        let fate = FATES[self.rng.below(FATES.len() as u64) as usize];
        (
            way,
            fate,
            self.rng
                .chance(0.4)
                .then(|| Duration::from_millis(self.rng.below(900))),
        )
    }

    fn start_query(
        &mut self,
        leaf: u64,
        (way, fate, after): (&'static Way, Fate, Option<Duration>),
    ) -> Query {
        let is_here = way.network == "here";
        let leaf = match way.network {
            "here" => 2,
            // The leaf whose owner disables flooding to its spare host.
            "told" => 3,
            _ => leaf,
        };
        // If most traffic is not requested, copies to an interface are cheapest.
        let port = if is_here { ":8000" } else { "" };
        let query = format!("PARSE {} TO 10.60.{leaf}.0/24{port}", way.parse);
        let path = |name: &str| self.bed.path(name).to_str().expect("text").to_owned();
        let mut command = if is_here {
            within(&format!("{}leaf2", self.bed.prefix()), "env")
        } else {
            Command::new("env")
        };
        // A background process of a shell ignores SIGINT by default.
        command.args(["--default-signal=INT", BINARY]);
        command
            .args([
                "query",
                &query,
                "--network",
                &path(&format!("{}.toml", way.network)),
            ])
            .args(way.flags);
        if let Some(costs) = way.costs {
            command.args(["--costs", &path(&format!("{costs}.costs"))]);
        }
        self.number += 1;
        let said = self.bed.path(&format!("said{}", self.number));
        let err = File::create(&said).expect("a file");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(err)
            .env(MARK, &self.mark);
        let child = command.spawn().expect("it starts");
        let begun = Instant::now();
        let is_done = false;
        let has_lost_tool = false;
        Query {
            way: way.name,
            fate,
            after,
            begun,
            child,
            said,
            is_done,
            has_lost_tool,
        }
    }

    /// Queries of different flows, each with its own monitor, are independent.
    fn beside_each_other(&mut self) {
        let mut queries: Vec<Query> = Vec::new();
        for leaf in 1..=3 {
            queries.push(self.start_query(leaf, (&WAYS[1], Fate::Interrupted, None)));
            let query = &queries[queries.len() - 1];
            wait_for("a query at work", || {
                query.is_at_work().then_some(()).ok_or_else(|| query.said())
            });
        }
        for mut query in queries {
            query.meet();
            let words = self.ended(query);
            assert!(words.ends_with("at work: good"), "{words}");
        }
        self.check(false, "side by side");
    }

    /// Runs some queries with their intended ends; then nothing remains but rules of killed ones.
    fn step(&mut self) -> String {
        let mut queries = Vec::new();
        let first = self.rng.below(3);
        for nth in 0..=self.rng.below(3) {
            // Mostly on different leaves; otherwise they may conflict.
            let leaf = if self.rng.chance(0.75) {
                (first + nth) % 3 + 1
            } else {
                first + 1
            };
            let any = self.any();
            queries.push(self.start_query(leaf, any));
            sleep(Duration::from_millis(self.rng.below(200)));
        }
        let kills_controller = self.sdn.is_some() && self.rng.chance(0.15);
        let begun = Instant::now();
        let mut is_controller_dead = false;
        while queries.iter_mut().any(|query| {
            query
                .child
                .try_wait()
                .expect("it can be waited for")
                .is_none()
        }) {
            if kills_controller && !is_controller_dead && queries.iter().any(Query::is_at_work) {
                self.sdn.as_mut().expect("it runs").program.kill();
                is_controller_dead = true;
            }
            queries.iter_mut().for_each(Query::meet);
            let words: Vec<_> = queries
                .iter()
                .map(|q| (q.way, q.fate, q.after, q.said()))
                .collect();
            assert!(
                begun.elapsed() < Duration::from_secs(90),
                "a query does not end: {words:?}"
            );
            sleep(Duration::from_millis(5));
        }
        let killed = is_controller_dead || queries.iter().any(|query| query.fate == Fate::Killed);
        let words: Vec<String> = queries.into_iter().map(|query| self.ended(query)).collect();
        let mut words = words.join("; ");
        if is_controller_dead {
            words += "; the controller was killed";
            self.sdn = Sdn::start(&self.bed.sdn, self.sdn.take().map(|sdn| sdn.listen));
        }
        self.check(killed, &words);
        words
    }

    fn ended(&mut self, mut query: Query) -> String {
        let status = wait(&mut query.child);
        let said = query.said();
        assert!(!said.contains("panicked"), "{said}");
        let end = match status.code() {
            None => "killed",
            Some(0) => "good",
            Some(1) => "failed",
            Some(2) => "refused",
            Some(130 | 143) => "interrupted",
            Some(code) => panic!("exit code {code}: {said}"),
        };
        let at_work = if query.is_at_work() {
            "at work"
        } else {
            "before"
        };
        *self.ends.entry(format!("{end}, {at_work}")).or_default() += 1;
        let last = said.lines().last().unwrap_or_default();
        let why = if end == "good" {
            String::new()
        } else {
            format!(" ({last:.300})")
        };
        format!("{}, {:?}, {at_work}: {end}{why}", query.way, query.fate)
    }

    fn check(&mut self, killed: bool, words: &str) {
        let begun = Instant::now();
        let processes = || {
            let left = processes(&format!("{MARK}={}", self.mark));
            left.is_empty()
                .then_some(())
                .ok_or_else(|| format!("{left:?}: {words}"))
        };
        wait_for("the last process", processes);
        if killed {
            // Objects bound to a process are removed with it; rules have leases.
            let rules = self.rules();
            let until = Instant::now() + LEASE;
            for rule in rules {
                self.dying.entry(rule).or_insert(until);
            }
        }
        let left = |all: &Upheaval<'_>| {
            let mut left = all.left();
            left.retain(|rule| !all.dying.contains_key(rule));
            left
        };
        if killed {
            wait_for("what goes with a process", || {
                let left = left(self);
                left.is_empty()
                    .then_some(())
                    .ok_or_else(|| format!("{left:?}: {words}"))
            });
        }
        let found = left(self);
        assert!(found.is_empty(), "left behind: {found:?}: {words}");
        assert_eq!(self.bed.namespaces(), self.namespaces, "{words}");
        self.longest = self.longest.max(begun.elapsed());
        wait_for("the state of the switches before", || {
            let now = state::of_switches(self.bed);
            (now == self.state)
                .then_some(())
                .ok_or_else(|| format!("{words}: {}", state::difference(&self.state, &now)))
        });
        if self.dying.is_empty() {
            assert_eq!(state::hosts_that_answer(self.bed), self.answered, "{words}");
        }
        // A switch checks expired leases every second.
        let over: Vec<String> = self
            .dying
            .iter()
            .filter(|(_, until)| **until < Instant::now())
            .map(|(rule, _)| rule.clone())
            .collect();
        if !over.is_empty() {
            wait_for("the end of leases", || {
                let rules = self.rules();
                let left: Vec<&String> = over.iter().filter(|rule| rules.contains(*rule)).collect();
                left.is_empty()
                    .then_some(())
                    .ok_or_else(|| format!("{left:?}"))
            });
            self.dying.retain(|rule, _| !over.contains(rule));
        }
    }

    /// Owners of rules by switch.
    fn rules(&self) -> Left {
        let mut found = Left::new();
        for switch in LEAVES.into_iter().chain(["spine1"]) {
            let dump = self.tool("ovs-ofctl", switch, &["-O", "OpenFlow13", "dump-flows"]);
            assert!(
                dump.contains("actions=NORMAL"),
                "{switch} forwards nothing any more: {dump}"
            );
            let owners = dump
                .split("cookie=0x6e61")
                .skip(1)
                .map(|rest| &rest[..3.min(rest.len())]);
            found.extend(owners.map(|owner| format!("{switch}: rules of {owner}")));
        }
        found
    }

    /// All objects of queries on switches.
    fn left(&self) -> Left {
        let mut found = self.rules();
        for switch in LEAVES.into_iter().chain(["spine1"]) {
            let mirrors = self.tool(
                "ovs-vsctl",
                switch,
                &["--bare", "--columns=name", "list", "mirror"],
            );
            let ports = self.tool("ovs-vsctl", switch, &["list-ports", "br0"]);
            let links = within(&format!("{}{switch}", self.bed.prefix()), "ls")
                .arg("/sys/class/net")
                .output();
            let links = String::from_utf8(links.expect("ls").stdout).expect("text");
            let ours = |name: &&str| {
                name.starts_with("netalytics-")
                    || name.as_bytes().get(5) == Some(&b'-') && name.starts_with("na")
            };
            let names = mirrors
                .lines()
                .chain(ports.lines())
                .chain(links.lines())
                .map(str::trim)
                .filter(ours);
            found.extend(names.map(|name| format!("{switch}: {name}")));
        }
        found
    }

    fn tool(&self, program: &str, switch: &str, words: &[&str]) -> String {
        let run = self.bed.path(&format!("run/{switch}"));
        let mut command = Command::new(program);
        match program {
            "ovs-vsctl" => command
                .arg(format!("--db=unix:{}/db.sock", run.display()))
                .args(words),
            _ => command
                .args(words)
                .arg(format!("unix:{}/br0.mgmt", run.display())),
        };
        let output = command.output().expect("Open vSwitch's own tools");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    }
}

/// Processes with this environment variable, and their commands.
pub fn processes(mark: &str) -> Vec<String> {
    let all = fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(|entry| Some(entry.ok()?.path()));
    let is_marked = |path: &std::path::PathBuf| {
        fs::read(path.join("environ")).is_ok_and(|all| {
            all.split(|byte| *byte == 0)
                .any(|one| one == mark.as_bytes())
        })
    };
    let words = |path: std::path::PathBuf| {
        let words = fs::read(path.join("cmdline")).unwrap_or_default();
        format!(
            "{}: {}",
            path.display(),
            String::from_utf8_lossy(&words).replace('\0', " ")
        )
    };
    all.filter(is_marked).map(words).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

#[test]
fn random_queries_leave_nothing_behind() {
    let Some(bed) = TestBed::new() else { return };
    let seed = number("NETALYTICS_CHAOS_SEED")
        .unwrap_or_else(|| SeededRng::new(std::process::id().into()).next_u64() >> 32);
    let steps = number("NETALYTICS_CHAOS").unwrap_or(20);
    eprintln!("NETALYTICS_CHAOS_SEED={seed}");
    let sdn = Sdn::start(&bed.sdn, None);
    let controller = sdn.as_ref().map_or(String::new(), |sdn| {
        format!("unix:{}", sdn.socket.display())
    });
    bed.run(&["up"], &[("SERVERS", "none"), ("CONTROLLER", &controller)]);
    let network = fs::read_to_string(bed.path("network.toml")).expect("a network");
    let copied = without_sniffers(&network);
    // One host for all leaves: from two of them through tunnels.
    let tunneled = not_spare(&not_spare(&copied, "spare2"), "spare3");
    let told = sdn
        .as_ref()
        .map_or(String::new(), |sdn| sdn.instead_of_databases(&copied));
    for (name, text) in [
        ("whole.toml", network.as_str()),
        ("copied.toml", &copied),
        ("tunneled.toml", &tunneled),
        (
            "gre.toml",
            &tunneled.replace("tunnel = \"", "tunnel = \"gre://"),
        ),
        ("here.toml", &bed.with_leaf2_here(&network)),
        ("told.toml", &told),
        ("mirrors.costs", MIRRORS),
        ("cuts.costs", CUTS),
    ] {
        fs::write(bed.path(name), text).expect("a file");
    }
    // Behind the controller, only the owner can disable flooding to a spare host.
    bed.keeps_floods_from("leaf3", "3");
    let answered = state::hosts_that_answer(&bed);
    assert_eq!(answered.len(), 9, "all hosts but spare3: {answered:?}");
    let traffic = HostTraffic::start(&bed);
    let mut upheaval = Upheaval {
        bed: &bed,
        sdn,
        rng: SeededRng::new(seed),
        mark: bed.prefix(),
        namespaces: bed.namespaces(),
        dying: BTreeMap::new(),
        ends: BTreeMap::new(),
        longest: Duration::ZERO,
        number: 0,
        state: state::of_switches(&bed),
        answered,
    };
    upheaval.beside_each_other();
    for step in 1..=steps {
        let words = upheaval.step();
        // Places the numbers of lost datagrams in a step.
        let arrived = HostTraffic::arrived(&bed);
        eprintln!("step {step}: {words}; {arrived} datagrams");
    }
    let dying = upheaval.dying.keys().cloned().collect::<Vec<_>>();
    wait_for("the end of leases", || {
        let left = upheaval.left();
        left.is_empty()
            .then_some(())
            .ok_or_else(|| format!("{left:?}, of {dying:?}"))
    });
    assert_eq!(state::of_switches(&bed), upheaval.state);
    assert_eq!(state::hosts_that_answer(&bed), upheaval.answered);
    let sent = traffic.end(&bed);
    let Upheaval { ends, longest, .. } = upheaval;
    eprintln!(
        "{steps} steps of seed {seed}: queries {ends:?}; cleared after {longest:?} at most, but for leases; {sent} datagrams, all there"
    );
    let of = |end: &str| {
        ends.iter()
            .filter(|(name, _)| name.starts_with(end))
            .map(|(_, n)| n)
            .sum::<u32>()
    };
    assert!(of("good") > 0 && of("killed") > 0, "{ends:?}");
}
