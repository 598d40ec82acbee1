//! The test bed of `deploy/testbed.sh`: that it stands and goes, also when its building is killed, and what its switches show of a shop of
//! which one server is set up wrongly (docs/use-cases.md). Truth is what the shop's own servers have logged.

mod aggregated;
mod answers;
mod controller;
mod copied;
mod discovered;
mod served;
mod state;
mod story;
mod traffic;
mod upheaval;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use planner::topology::NetworkSite;
use serde_json::Value;
use tempfile::TempDir;
use testkit::programs::{TestProgram, free_port, wait_for};

use crate::capture::{BINARY, Capture, text};
use crate::net::{ip, shell, within};
use crate::turn::TestTurn;
use controller::Sdn;
use upheaval::CUTS;

/// Root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/netalytics lies two below")
}

/// A bed, removed on drop.
pub struct TestBed {
    folder: TempDir,
    /// Folder of a controller's socket: the bed's own folder must be empty when it is built.
    sdn: TempDir,
    _turn: TestTurn,
}

impl TestBed {
    /// Folder of a test bed, without the bed. `None` if this machine cannot run one and `ALLOW_MISSING` names the
    /// requirement.
    pub fn new() -> Option<TestBed> {
        let folder = tempfile::Builder::new()
            .prefix("bed-")
            .tempdir_in("/tmp")
            .expect("a folder");
        let sdn = tempfile::Builder::new()
            .prefix("sdn-")
            .tempdir_in("/tmp")
            .expect("a folder");
        let bed = TestBed {
            folder,
            sdn,
            _turn: TestTurn::wait(),
        };
        testkit::require!(
            "ip",
            "nsenter",
            "ethtool",
            "ovs-vswitchd",
            "nginx",
            "mariadbd",
            "memcached"
        );
        testkit::require!("python3", "curl");
        let namespace = format!("netns add {}try", bed.prefix());
        testkit::require!("namespaces" => ip(&namespace).and_then(|()| ip(&namespace.replace("add", "del"))));
        Some(bed)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(root().join("deploy/testbed.sh"));
        command
            .arg(words[0])
            .arg(self.folder.path())
            .args(&words[1..])
            .stdin(Stdio::null());
        command
    }

    /// Output of a command of the script, which must succeed.
    pub fn run(&self, words: &[&str], env: &[(&str, &str)]) -> String {
        let Output {
            status,
            stdout,
            stderr,
        } = self
            .command(words)
            .envs(env.iter().copied())
            .output()
            .expect("bash");
        assert!(
            status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&stderr)
        );
        String::from_utf8(stdout).expect("text")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Tab-separated fields of a log's lines.
    pub fn log(&self, name: &str) -> Vec<Vec<String>> {
        let log = fs::read_to_string(self.path("log").join(name)).expect("a log");
        log.lines()
            .map(|line| line.split('\t').map(str::to_owned).collect())
            .collect()
    }

    /// Prefix of the bed's namespaces.
    pub fn prefix(&self) -> String {
        let script = format!(
            "printf %s {} | cksum | cut -d' ' -f1",
            self.folder.path().display()
        );
        let sum = Command::new("bash")
            .args(["-c", &script])
            .output()
            .expect("bash")
            .stdout;
        format!("tb{}-", String::from_utf8(sum).expect("text").trim())
    }

    fn namespaces(&self) -> Vec<String> {
        let prefix = self.prefix();
        let output = Command::new("ip")
            .args(["netns", "list"])
            .output()
            .expect("ip");
        let all = String::from_utf8(output.stdout).expect("text");
        let ours = all
            .lines()
            .filter_map(|line| line.split(' ').next())
            .filter(|ns| ns.starts_with(&prefix));
        ours.map(str::to_owned).collect()
    }

    /// Bytes on a host's interface, by its kernel's counters.
    fn bytes_of(&self, host: &str) -> u64 {
        let files =
            "cat /sys/class/net/eth0/statistics/rx_bytes /sys/class/net/eth0/statistics/tx_bytes";
        let counted = shell(&format!("{}{host}", self.prefix()), files).stdout;
        String::from_utf8(counted)
            .expect("text")
            .lines()
            .map(|line| line.parse::<u64>().expect("a number"))
            .sum()
    }
}

impl Drop for TestBed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for log in ["app1", "app2", "db", "proxy", "nginx.error"] {
                let said = fs::read_to_string(self.path("log").join(log)).unwrap_or_default();
                eprintln!("{log}: {said}");
            }
        }
        let _ = self.command(&["down"]).output();
    }
}

#[test]
fn beds_are_built_and_removed_even_if_the_build_is_killed() {
    let Some(bed) = TestBed::new() else { return };
    let mut building = bed
        .command(&["up"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("bash");
    wait_for("switches", || {
        (bed.namespaces().len() > 12)
            .then_some(())
            .ok_or_else(|| "too few".to_owned())
    });
    building.kill().expect("it runs");
    building.wait().expect("it has ended");
    bed.run(&["down"], &[]);
    bed.run(&["down"], &[]);
    assert_eq!(
        (
            bed.namespaces(),
            fs::read_dir(bed.folder.path()).expect("a folder").count()
        ),
        (vec![], 0)
    );

    // Two spines, and rules without loops: every host reaches every other.
    bed.run(&["up"], &[("FORWARDING", "rules"), ("SERVERS", "none")]);
    let addresses = fs::read_to_string(bed.path("addresses")).expect("addresses");
    let hosts: Vec<_> = addresses
        .lines()
        .filter_map(|line| Some(line.split_once("=10.60.")?.1))
        .collect();
    assert_eq!(hosts.len(), 15);
    for from in ["client1", "app1", "spare3"] {
        let ping = format!(
            "for to in {}; do ping -q -c 1 -W 20 10.60.$to >&2; done",
            hosts.join(" ")
        );
        shell(
            &format!("{}{from}", bed.prefix()),
            &format!("set -e; {ping}"),
        );
    }
    let heard = bed.bytes_of("spare2");
    assert!(
        heard < 100_000,
        "{heard} bytes, of some pings and of what is asked of all"
    );
    let network = fs::read_to_string(bed.path("network.toml")).expect("a network");
    let site = NetworkSite::parse(&network).unwrap_or_else(|why| panic!("{why:?}\n{network}"));
    assert_eq!(
        (site.switches.len(), site.hosts.len(), site.links.len()),
        (5, 10, 6)
    );
    let racks = site.network().expect("a network").racks();
    assert_eq!(racks, 3);
    // A control socket may have any name: only the one given to the daemon is left.
    for switch in &site.switches {
        let links = fs::read_dir(bed.path(&format!("run/{}", switch.name))).expect("a folder");
        let links = links.map(|entry| entry.expect("an entry").path());
        links
            .filter(|path| path.is_symlink())
            .for_each(|link| fs::remove_file(link).expect("it is there"));
    }
    bed.is_found(&network);
    bed.agents_are_found(&site);
    // With forwarding rules of others, each switch is proved separately, and copies use a free table.
    let file = bed.path("asked.toml");
    fs::write(&file, bed.with_leaf2_here(&network)).expect("a file");
    let flags = [
        "--network",
        file.to_str().expect("text"),
        "--expect",
        "10.60.2.0/24:9=500Mbps",
    ];
    let query = Capture::start(&format!("{}leaf2", bed.prefix()), PAGES_OF_APPS, &flags);
    assert!(bed.copies("leaf2").contains("resubmit(,10)"));
    assert_eq!(query.interrupt().code, Some(0));
    assert_eq!(bed.copies("leaf2"), "");
    fs::remove_file(&file).expect("it exists");
    bed.run(&["down"], &[]);
    assert_eq!(bed.namespaces(), Vec::<String>::new());
}

/// Number of pages requested during the capture on the leaves.
const REQUESTS: &str = "300";
const TIERS: &str = "PARSE tcp_conn_time TO 10.60.2.0/24:8000, 10.60.3.1:3306, 10.60.3.2:11211 \
    PROCESS (diff-group: group=srcIP, destIP)";
const BYTES: &str = "PARSE tcp_pkt_size FROM 10.60.2.0/24 TO 10.60.3.0/24 \
    PROCESS (group-sum: group=client_ip, server_ip)";
const PROXY: &str = "10.60.1.3";
const APPS: [&str; 2] = ["10.60.2.1", "10.60.2.2"];
const DB: &str = "10.60.3.1";
const CACHE: &str = "10.60.3.2";

/// Client and server.
type Pair = (String, String);

fn pair(client: &str, server: &str) -> Pair {
    (client.to_owned(), server.to_owned())
}

/// A numeric column by both endpoints.
fn by_pair(rows: &[Value], column: &str) -> BTreeMap<Pair, f64> {
    rows.iter()
        .map(|row| (ends_of(row), row[column].as_f64().expect("a number")))
        .collect()
}

/// Counts by other columns.
fn counts(rows: &[Value], groups: &[&str]) -> BTreeMap<String, u64> {
    let key = |row: &Value| {
        groups
            .iter()
            .map(|group| text(&row[group]))
            .collect::<Vec<_>>()
            .join(" ")
    };
    rows.iter()
        .map(|row| (key(row), row["count"].as_u64().expect("a number")))
        .collect()
}

/// Costs with which a port mirror is cheaper than rules.
const MIRRORS: &str = "[switch]\ncopy_ns = 9000.0\nmirror_ns = 100.0\n";

const PAGES_OF_APPS: &str =
    "PARSE tcp_conn_time TO 10.60.2.0/24:8000 PROCESS (diff-group: group=srcIP, destIP)";

/// Settings of a query in the network.
struct Asked<'a> {
    flags: &'a [&'a str],
    /// Kind of copies at the switches.
    of: &'static str,
    /// Expected message.
    said: &'static str,
    /// Host on which the program runs, if not the bed's.
    from: Option<&'static str>,
}

/// A column by both endpoints.
fn numbers(rows: &[Value], column: &str) -> BTreeMap<Pair, u64> {
    rows.iter()
        .map(|row| (ends_of(row), row[column].as_u64().expect("a number")))
        .collect()
}

/// A network file without programs on switches.
pub fn without_sniffers(network: &str) -> String {
    let lines: Vec<&str> = network
        .lines()
        .filter(|line| !line.ends_with("# at its ports"))
        .collect();
    lines.join("\n")
}

/// The network file with this host not available for monitors.
pub fn not_spare(network: &str, host: &str) -> String {
    let (before, after) = network
        .split_once(&format!("name = \"{host}\""))
        .expect("a host");
    format!(
        "{before}name = \"{host}\"{}",
        after.replacen("spare = true", "", 1)
    )
}

const LEAVES: [&str; 3] = ["leaf1", "leaf2", "leaf3"];

fn ends_of(row: &Value) -> Pair {
    pair(&text(&row["client_ip"]), &text(&row["server_ip"]))
}

/// The row with the same endpoints.
fn find<'r>(rows: &'r [Value], like: &Value) -> &'r Value {
    rows.iter()
        .find(|row| ends_of(row) == ends_of(like))
        .expect("the same ends")
}

impl TestBed {
    /// Disables flooding to a port as the owner of a switch.
    fn keeps_floods_from(&self, leaf: &str, port: &str) {
        let bridge = format!("unix:{}/run/{leaf}/br0.mgmt", self.folder.path().display());
        let kept = Command::new("ovs-ofctl")
            .args(["mod-port", &bridge, port, "no-flood"])
            .status();
        assert!(kept.expect("ovs-ofctl").success());
    }

    /// Adds a rule of another owner above all others, which drops packets to a port.
    fn add_foreign_rule(&self, leaf: &str, port: u16) {
        let rule = format!("priority=65535,tcp,tp_dst={port},actions=drop");
        self.change_rules(leaf, &["add-flow"], &rule);
    }

    /// Removes the rule that [`TestBed::add_foreign_rule`] added.
    fn remove_foreign_rule(&self, leaf: &str, port: u16) {
        let rule = format!("priority=65535,tcp,tp_dst={port}");
        self.change_rules(leaf, &["--strict", "del-flows"], &rule);
    }

    fn change_rules(&self, leaf: &str, command: &[&str], rule: &str) {
        let bridge = format!("unix:{}/run/{leaf}/br0.mgmt", self.folder.path().display());
        let done = Command::new("ovs-ofctl")
            .args(["-O", "OpenFlow13"])
            .args(command)
            .args([&bridge, rule])
            .status();
        assert!(done.expect("ovs-ofctl").success());
    }

    /// A network file for a program that runs on the second leaf's host.
    fn with_leaf2_here(&self, network: &str) -> String {
        let away = format!(
            "via = [\"nsenter\", \"--net=/var/run/netns/{}leaf2\"]",
            self.prefix()
        );
        network.replace(&away, "via = []")
    }

    /// Kinds of copies on a switch (rules, mirrors, created ports), with all its rules, mirrors and ports.
    pub fn copies(&self, leaf: &str) -> String {
        let run = |name: &str| {
            format!(
                "unix:{}",
                self.path(&format!("run/{leaf}/{name}")).display()
            )
        };
        let said = |program: &str, words: &[&str]| {
            let output = Command::new(program)
                .args(words)
                .output()
                .expect("Open vSwitch's own tools");
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8(output.stdout).expect("text")
        };
        let rules = said(
            "ovs-ofctl",
            &["-O", "OpenFlow13", "dump-flows", &run("br0.mgmt")],
        );
        assert!(
            rules.contains("NORMAL") || rules.contains("resubmit(,10)"),
            "{rules}"
        );
        let database = format!("--db={}", run("db.sock"));
        let mirrors = said(
            "ovs-vsctl",
            &[&database, "--columns=name", "list", "mirror"],
        );
        let ports = said("ovs-vsctl", &[&database, "list-ports", "br0"]);
        let mut copies = String::new();
        if rules.contains("cookie=0x6e61") {
            copies += &format!("rules:\n{rules}");
        }
        if mirrors.contains("netalytics-") {
            copies += &format!("mirrors:\n{mirrors}");
        }
        // Tunnels and interfaces.
        if ports.lines().any(|port| port.starts_with("na")) {
            let types = said(
                "ovs-vsctl",
                &[&database, "--columns=type", "list", "interface"],
            );
            let types = types.replace(' ', "").replace(':', ": ");
            copies += &format!("ports:\n{ports}{types}");
        }
        copies
    }
}
