//! Queries that configure sFlow and IPFIX on two bridges of a real Open vSwitch: totals against the packets that were sent,
//! and the whole database before and after every way of ending.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use testkit::namespaces::{TestNamespaces, ip, run};
use testkit::programs::{TestProgram, wait_for};

use crate::capture::{BINARY, Capture, Captured, signal, text};
use crate::turn::TestTurn;

/// Namespace of the switch; its program's, too.
const SWITCH: &str = "s";
/// Bridge, OpenFlow port, and host; the second host of each bridge is a server.
const HOSTS: [(&str, u32, u32); 4] = [("b1", 1, 1), ("b1", 2, 2), ("b2", 1, 3), ("b2", 2, 4)];
/// Flows from each client to the server at the other bridge: each packet passes both bridges.
const FLOWS: [(u32, u32); 2] = [(1, 4), (3, 2)];
/// Datagrams sent over each flow.
const SENT: f64 = 6000.0;
const SAMPLES: &str =
    "PARSE packet TO 10.9.0.2:9000, 10.9.0.4:9000 PROCESS (group-count: group=dst_ip)";
const RECORDS: &str = "PARSE flow TO 10.9.0.2:9000, 10.9.0.4:9000 PROCESS (group-sum: group=server_ip, value=client_packets)";

/// An interval's width is an estimate, too: its variance is that between 32 random groups of samples, with this many
/// degrees of freedom. Its standard deviation is 25 % of it; that of the width is 13 %.
const DEGREES: f64 = 31.0;
/// Student's t for 95 % with these degrees of freedom.
const STUDENT: f64 = 2.0395;

/// Sends numbered datagrams at a steady rate.
const SEND: &str = "import socket, sys, time\n\
    to, count, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])\n\
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
    begun = time.monotonic()\n\
    for n in range(count):\n\
    \x20   late = begun + n / rate - time.monotonic()\n\
    \x20   if late > 0: time.sleep(late)\n\
    \x20   s.sendto(b'x' * 100, (to, 9000))\n";
/// Receives datagrams; replies with nothing.
const RECEIVE: &str = "import socket\n\
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
    s.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)\n\
    s.bind(('0.0.0.0', 9000))\n\
    print('ready', flush=True)\n\
    while True: s.recv(2000)\n";

/// Two bridges in one namespace, connected by a cable, with two hosts each.
pub struct SteeredBed {
    /// Ended before the namespaces.
    servers: Vec<TestProgram>,
    daemons: Vec<TestProgram>,
    spaces: TestNamespaces,
    _turn: TestTurn,
}

impl SteeredBed {
    pub fn new() -> Option<SteeredBed> {
        testkit::require!(
            "ovs-vswitchd",
            "ovsdb-server",
            "ovs-vsctl",
            "ovsdb-client",
            "ip",
            "ethtool",
            "python3",
            "flock"
        );
        let mut bed = SteeredBed {
            servers: Vec::new(),
            daemons: Vec::new(),
            spaces: TestNamespaces::new("sq"),
            _turn: TestTurn::wait(),
        };
        testkit::require!("openvswitch" => bed.build());
        Some(bed)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.spaces.folder().join(name)
    }

    fn build(&mut self) -> Result<(), String> {
        self.spaces.add_quiet(SWITCH)?;
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        run(Command::new("ovsdb-tool")
            .arg("create")
            .arg(self.path("conf.db"))
            .arg(schema))?;
        let socket = self.path("db.sock");
        let remote = format!("--remote=punix:{}", socket.display());
        let conf = self.path("conf.db").display().to_string();
        let database = self.daemon("ovsdb-server", &[&conf, &remote], "db.sock");
        self.vsctl("--no-wait init");
        let database_address = format!("unix:{}", socket.display());
        let pid = format!("--pidfile={}", self.path("ovs-vswitchd.pid").display());
        let switch = self.daemon(
            "ovs-vswitchd",
            &[&database_address, &pid],
            "ovs-vswitchd.pid",
        );
        self.daemons.extend([switch, database]);
        let ns = self.spaces.name(SWITCH);
        ip(&format!("-n {ns} link add x1 type veth peer name x2"))?;
        for (bridge, cable) in [("b1", "x1"), ("b2", "x2")] {
            self.vsctl(&format!(
                "add-br {bridge} -- set bridge {bridge} datapath_type=netdev"
            ));
            ip(&format!("-n {ns} link set {cable} up"))?;
            self.vsctl(&format!(
                "add-port {bridge} {cable} -- set interface {cable} ofport_request=9"
            ));
        }
        for (bridge, port, host) in HOSTS {
            let name = host.to_string();
            self.spaces.add_quiet(&name)?;
            let there = self.spaces.name(&name);
            ip(&format!(
                "-n {ns} link add v{host} type veth peer name e0 netns {there}"
            ))?;
            ip(&format!("-n {ns} link set v{host} up"))?;
            ip(&format!("-n {there} link set e0 up"))?;
            ip(&format!("-n {there} addr add 10.9.0.{host}/24 dev e0"))?;
            run(self
                .spaces
                .within(&name, "ethtool")
                .args(["-K", "e0", "tx", "off"]))?;
            self.vsctl(&format!(
                "add-port {bridge} v{host} -- set interface v{host} ofport_request={port}"
            ));
        }
        for (_, server) in FLOWS {
            let mut python = self.spaces.within(&server.to_string(), "python3");
            let mut child = python
                .args(["-c", RECEIVE])
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|e| e.to_string())?;
            let mut ready = [0; 6];
            let said = child.stdout.as_mut().expect("piped");
            said.read_exact(&mut ready).map_err(|e| e.to_string())?;
            self.servers.push(TestProgram(child));
        }
        // Both bridges learn the hosts.
        for (client, server) in FLOWS {
            let mut ping = self.spaces.within(&client.to_string(), "ping");
            run(ping.args(["-q", "-c", "2", "-i", "0.2", &format!("10.9.0.{server}")]))?;
        }
        let switch = |name: &str| {
            format!(
                "[[switch]]\nname = \"{name}\"\ntier = \"edge\"\nbridge = \"{name}\"\novsdb = \"{database_address}\"\nvia = []\ncores = 2\nmemory = \"1GiB\"\n\n"
            )
        };
        let mut network = switch("b1") + &switch("b2");
        network += "[[switch]]\nname = \"core\"\ntier = \"core\"\n\n";
        for (bridge, port, host) in HOSTS {
            network += &format!(
                "[[host]]\nname = \"h{host}\"\naddresses = [\"10.9.0.{host}\"]\nat = \"{bridge}:{port}\"\ncores = 2\nmemory = \"1GiB\"\nmbps = 1000\n\n"
            );
        }
        network += "[[link]]\nends = [\"b1:9\", \"core:1\"]\nmbps = 1000\n\n[[link]]\nends = [\"b2:9\", \"core:2\"]\nmbps = 1000\n";
        fs::write(self.path("network.toml"), network).map_err(|e| e.to_string())
    }

    fn daemon(&self, program: &str, words: &[&str], file: &str) -> TestProgram {
        let mut command = self.spaces.within(SWITCH, program);
        command.args(words);
        for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR"] {
            command.env(variable, self.spaces.folder());
        }
        let started = TestProgram::start(&mut command);
        let file = self.path(file);
        wait_for(program, || {
            file.exists()
                .then_some(())
                .ok_or_else(|| "no file".to_owned())
        });
        started
    }

    pub fn vsctl(&self, words: &str) -> String {
        let database = format!("--db=unix:{}", self.path("db.sock").display());
        run(Command::new("ovs-vsctl")
            .arg(database)
            .args(words.split_whitespace()))
        .expect("it does")
    }

    /// All tables of the database, without counters.
    fn database(&self) -> String {
        const COUNTERS: [&str; 5] = [
            "statistics",
            "next_cfg",
            "cur_cfg",
            "status",
            "is_connected",
        ];
        let socket = format!("unix:{}", self.path("db.sock").display());
        let dump = run(Command::new("ovsdb-client").args(["--format=json", "dump", &socket]));
        let mut rows = Vec::new();
        for table in dump.expect("it does").lines() {
            let table: Value = serde_json::from_str(table).expect("JSON");
            let titles = table["headings"].as_array().expect("titles");
            for row in table["data"].as_array().expect("rows") {
                let cells = titles.iter().zip(row.as_array().expect("cells"));
                let cells =
                    cells.filter(|(title, _)| !COUNTERS.iter().any(|counter| *title == counter));
                let cells = cells.map(|(title, cell)| format!("{title}={cell}"));
                rows.push(format!(
                    "{} {}",
                    table["caption"],
                    cells.collect::<Vec<_>>().join(" ")
                ));
            }
        }
        rows.sort();
        rows.join("\n")
    }

    fn same_database(&self, before: &str, what: &str) {
        wait_for(what, || {
            let now = self.database();
            let other = |line: &&str| !before.contains(*line);
            if now == before {
                Ok(())
            } else {
                Err(now.lines().filter(other).collect::<String>())
            }
        });
    }

    fn flags<'a>(&self, file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["--network", file][..], more].concat()
    }

    pub fn query(&self, query: &str, more: &[&str]) -> Capture {
        let file = self.path("network.toml").display().to_string();
        Capture::start(&self.spaces.name(SWITCH), query, &self.flags(&file, more))
    }

    /// A command of the program that ends by itself.
    fn output(&self, words: &[&str], more: &[&str]) -> Output {
        let file = self.path("network.toml").display().to_string();
        let mut command = self.spaces.within(SWITCH, BINARY);
        command.args(words).args(self.flags(&file, more));
        command.output().expect("it starts")
    }

    /// Sends datagrams over each flow, and waits until they have been sent.
    pub fn send(&self, count: u32, rate: u32) {
        let send = |(client, server): (u32, u32)| {
            let mut python = self.spaces.within(&client.to_string(), "python3");
            python.args(["-c", SEND, &format!("10.9.0.{server}")]);
            python.args([count.to_string(), rate.to_string()]);
            python.spawn().expect("python")
        };
        for mut sending in FLOWS.map(send) {
            assert!(sending.wait().expect("it ends").success());
        }
    }

    /// Datagrams that a server has received, by its kernel.
    fn received(&self, server: u32) -> u64 {
        let told = run(self
            .spaces
            .within(&server.to_string(), "cat")
            .arg("/proc/net/snmp"));
        let told = told.expect("counters");
        let mut lines = told.lines().filter(|line| line.starts_with("Udp:"));
        let count = lines.nth(1).and_then(|line| line.split(' ').nth(1));
        count.expect("a count").parse().expect("a number")
    }
}

/// The estimate for a server, and its interval; an end may be unknown.
fn estimate(captured: &Captured, group: &str, value: &str, server: u32) -> [Option<f64>; 3] {
    let address = format!("10.9.0.{server}");
    let rows = &captured.rows;
    let row = rows.iter().find(|row| text(&row[group]) == address);
    let row = row.unwrap_or_else(|| panic!("no {address} in {rows:?}\n{}", captured.err));
    ["", "_low", "_high"].map(|end| row[format!("{value}{end}")].as_f64())
}

#[test]
fn totals_of_two_bridges_agree_with_the_packets_sent() {
    let Some(bed) = SteeredBed::new() else { return };
    let before = bed.database();
    let mut variances = Vec::new();
    for (mode, query, group, value, samplings) in [
        ("sflow", SAMPLES, "dst_ip", "count", &[1, 4, 8][..]),
        ("ipfix", RECORDS, "server_ip", "sum", &[1, 8]),
    ] {
        for sampling in samplings {
            let start = FLOWS.map(|(_, server)| bed.received(server));
            let rate = sampling.to_string();
            let running = bed.query(query, &["--mode", mode, "--sampling", &rate]);
            let configured = bed.vsctl(&format!("--columns=targets,sampling list {mode}"));
            assert_eq!(configured.matches("127.0.0.1:").count(), 2, "{configured}");
            bed.send(SENT as u32, 1500);
            let captured = running.interrupt();
            captured.check();
            for ((_, server), start) in FLOWS.into_iter().zip(start) {
                // On a busy machine, the switch loses packets before or after its samples.
                let received = (bed.received(server) - start) as f64;
                let found = estimate(&captured, group, value, server);
                let what =
                    format!("{mode} 1:{sampling}: {found:?}, sent {SENT}, received {received}");
                let estimated = found[0].expect("an estimate");
                if *sampling == 1 {
                    assert_eq!(found, [Some(estimated); 3], "{what}");
                    assert!((received..=SENT).contains(&estimated), "{what}");
                    continue;
                }
                // Five standard deviations, so that the test does not fail by chance.
                let deviation = (f64::from(sampling - 1) * SENT).sqrt();
                let expected = received - 5.0 * deviation..SENT + 5.0 * deviation;
                assert!(expected.contains(&estimated), "{what}");
                // The interval treats a record as one sample, so it is wide, or open with few records.
                let [low, high] = [found[1].unwrap_or(0.0), found[2].unwrap_or(f64::INFINITY)];
                let half = (high - low) / 2.0;
                assert!(low <= estimated && estimated <= high, "{what}");
                if mode == "ipfix" {
                    assert!(half > 0.75 * 1.96 * deviation, "{what}");
                } else if received == SENT && half.is_finite() {
                    variances.push((half / (STUDENT * deviation)).powi(2));
                }
            }
            bed.same_database(&before, mode);
        }
    }
    // 3.5 standard deviations of the mean of variances. On a busy machine, the switch may lose packets in every case, or an
    // interval may be open.
    let n = variances.len() as f64;
    let excess = variances.iter().map(|of| of - 1.0).sum::<f64>() / n.max(1.0);
    assert!(
        n == 0.0 || excess.abs() < 3.5 * (2.0 / (DEGREES * n)).sqrt(),
        "{variances:?}"
    );
}

#[test]
fn exporters_are_removed_on_every_way_of_ending() {
    let Some(bed) = SteeredBed::new() else { return };
    // The operator's exporters of the other protocol, and of a collector set.
    for (mode, query, other) in [("sflow", SAMPLES, "ipfix"), ("ipfix", RECORDS, "sflow")] {
        bed.vsctl(&format!(
            "-- --id=@o create {other} targets=\"10.9.0.200:9\" external_ids:owner=operator -- set bridge b1 {other}=@o"
        ));
        let before = bed.database();
        for ending in ["LIMIT", "INT", "TERM", "INT INT", "KILL"] {
            let limited = format!("{query} LIMIT 2s");
            let query = if ending == "LIMIT" { &limited } else { query };
            let mut running = bed.query(query, &["--mode", mode, "--sampling", "4"]);
            let listed = bed.vsctl(&format!("--columns=_uuid list {mode}"));
            assert_eq!(listed.matches("_uuid").count(), 2, "{listed}");
            bed.send(200, 1000);
            match ending {
                "LIMIT" => {}
                "KILL" => running.kill(),
                signals => {
                    for (nth, name) in signals.split(' ').enumerate() {
                        thread::sleep(Duration::from_millis(1100 * nth as u64));
                        signal(running.pid(), name);
                    }
                }
            }
            if !["KILL", "INT INT"].contains(&ending) {
                let captured = running.end();
                assert_eq!(captured.code, Some(0), "{ending}: {}", captured.err);
                let is_limited = captured.summary["limit_reached"] == Value::Bool(true);
                assert_eq!(is_limited, ending == "LIMIT", "{}", captured.summary);
                assert_eq!(captured.rows.len(), 2, "{ending}: {:?}", captured.rows);
            }
            bed.same_database(&before, &format!("{mode}, {ending}"));
        }
        bed.vsctl(&format!("clear bridge b1 {other}"));
    }
}

/// An exporter of the operator stays, and the query refuses its place or selects packets, with the reason.
#[test]
fn a_place_of_the_operator_is_not_used() {
    let Some(bed) = SteeredBed::new() else { return };
    bed.vsctl("-- --id=@o create sflow targets=\"10.9.0.200:6343\" -- set bridge b2 sflow=@o");
    let before = bed.database();
    let told =
        "b2: sFlow is configured by the operator of the switch, to 10.9.0.200:6343; it stays";
    let refused = bed.output(&["query", SAMPLES], &["--mode", "sflow"]);
    let err = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(2) && err.contains(told),
        "{err}"
    );
    let explained = bed.output(&["explain", SAMPLES], &["--mode", "auto"]);
    let text = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(text.contains(told), "{text}");
    assert!(
        text.contains("nothing: monitors read at the switches' ports"),
        "{text}"
    );
    // Another loopback interface than that of the switch.
    let file = bed.path("network.toml");
    let elsewhere = Command::new(BINARY)
        .args(["query", RECORDS, "--mode", "ipfix", "--network"])
        .arg(&file)
        .output()
        .expect("it starts");
    let err = String::from_utf8_lossy(&elsewhere.stderr).into_owned();
    assert!(
        elsewhere.status.code() == Some(2) && err.contains("set --receive"),
        "{err}"
    );
    // The place of the other protocol is free.
    let running = bed.query(RECORDS, &["--mode", "ipfix", "--sampling", "2"]);
    bed.send(100, 1000);
    assert_eq!(running.interrupt().code, Some(0));
    bed.same_database(&before, "the operator's exporter");
}

/// `SAMPLE auto ERROR` sets the sampling rate at the exporters, and follows the traffic.
#[test]
fn the_rate_of_exporters_follows_an_error() {
    let Some(bed) = SteeredBed::new() else { return };
    let before = bed.database();
    let query =
        "PARSE packet TO 10.9.0.2:9000, 10.9.0.4:9000 SAMPLE auto ERROR 10% PROCESS (count: w=2s)";
    let running = bed.query(query, &["--mode", "sflow", "--sampling", "1"]);
    let sampling = || -> Vec<u32> {
        let list = bed.vsctl("--bare --columns=sampling list sflow");
        list.split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect()
    };
    assert_eq!(sampling(), [1, 1]);
    // A sender that stands still for a moment changes the rate: traffic continues until it has settled.
    let settle = |packets: u32, per_second: u32, least: u32, most: u32| -> Vec<u32> {
        bed.send(packets, per_second);
        let mut found = sampling();
        for _ in 0..15 {
            if found.len() == 2 && found.iter().all(|n| (least..=most).contains(n)) {
                return found;
            }
            bed.send(2 * per_second, per_second);
            found = sampling();
        }
        panic!("1 in {found:?}, not in {least} to {most}");
    };
    // 20,000 packets in a window: 385 samples, thus one in 52, have an error of 10 %.
    let fast = settle(100_000, 5_000, 15, 80);
    // A quarter of the packets: one in 13.
    let slow = settle(20_000, 1_250, 4, 25);
    let captured = running.interrupt();
    captured.check();
    assert!(fast[0] > slow[0], "{fast:?} and {slow:?}");
    bed.same_database(&before, "a goal of the rate");
}
