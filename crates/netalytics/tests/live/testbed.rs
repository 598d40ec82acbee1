//! The test bed of `deploy/testbed.sh`: that it stands and goes, also when its building is killed, and what its switches show of a shop of
//! which one server is set up wrongly (docs/use-cases.md). Truth is what the shop's own servers have logged.

mod aggregated;
mod served;
mod state;
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
}

impl TestBed {
    /// Its folder, without a bed. `None` if this machine does not support it and `ALLOW_MISSING` names the requirement.
    pub fn new() -> Option<TestBed> {
        let folder = tempfile::Builder::new()
            .prefix("bed-")
            .tempdir_in("/tmp")
            .expect("a folder");
        let sdn = tempfile::Builder::new()
            .prefix("sdn-")
            .tempdir_in("/tmp")
            .expect("a folder");
        let bed = TestBed { folder, sdn };
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
fn a_bed_stands_and_goes_also_when_its_building_is_killed() {
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
    fs::remove_file(&file).expect("it is there");
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

/// Output of examples/multi-tier/run.sh: results of queries, and the servers' logs.
struct Story {
    folder: TempDir,
}

impl Story {
    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn rows(&self, name: &str) -> Vec<Value> {
        self.text(&format!("{name}.jsonl"))
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    /// Tab-separated fields of a log's lines.
    fn of(&self, log: &str) -> Vec<Vec<String>> {
        self.text(log)
            .lines()
            .map(|line| line.split('\t').map(str::to_owned).collect())
            .collect()
    }

    /// Connections by both endpoints: each page causes one to its application server, and one to each backend that this
    /// uses.
    fn connections(&self) -> BTreeMap<Pair, u64> {
        let mut found = BTreeMap::new();
        for (app, log) in APPS.into_iter().zip(["app1.requests", "app2.requests"]) {
            let log = self.of(log);
            let asked =
                |column: usize| log.iter().filter(|line| line[column] != "0").count() as u64;
            found.insert(pair(PROXY, app), log.len() as u64);
            found.insert(pair(app, DB), asked(6));
            found.insert(pair(app, CACHE), asked(5));
        }
        found.retain(|_, count| *count > 0);
        found
    }

    /// An application server according to the proxy: number of requests, and average time in milliseconds.
    fn upstream(&self, app: &str) -> (u64, f64) {
        let lines = self.of("proxy.requests");
        let times = lines
            .iter()
            .filter(|line| line[5] == format!("{app}:8000"))
            .map(|line| &line[6]);
        let times: Vec<f64> = times.map(|time| time.parse().expect("seconds")).collect();
        (
            times.len() as u64,
            1e3 * times.iter().sum::<f64>() / times.len() as f64,
        )
    }

    /// Statements by client: the database logs each connection's client under a number.
    fn statements(&self) -> BTreeMap<String, u64> {
        let (mut clients, mut found) = (BTreeMap::new(), BTreeMap::new());
        for line in self
            .of("db.queries")
            .into_iter()
            .map(|fields| fields.join(" "))
        {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(at) = words
                .iter()
                .position(|word| ["Connect", "Query"].contains(word))
                .filter(|at| *at > 0)
            else {
                continue;
            };
            let connection = words[at - 1].to_owned();
            if let Some(client) = words
                .get(at + 1)
                .and_then(|user| user.strip_prefix("shop@"))
            {
                clients.insert(connection, client.to_owned());
            } else if let Some(client) = clients.get(&connection) {
                *found.entry(client.clone()).or_default() += 1;
            }
        }
        found
    }
}

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

#[test]
fn two_queries_find_the_server_that_is_set_up_wrongly() {
    let Some(bed) = TestBed::new() else { return };
    drop(bed);
    let logs = Story {
        folder: tempfile::Builder::new()
            .prefix("tiers-")
            .tempdir_in("/tmp")
            .expect("a folder"),
    };
    let ran = Command::new(root().join("examples/multi-tier/run.sh"))
        .arg(logs.folder.path())
        .arg(REQUESTS)
        .env("NETALYTICS", BINARY)
        .output()
        .expect("bash runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(
        said.contains(&format!("{REQUESTS} answered with 200")),
        "{said}"
    );
    for capture in ["leaf1.json", "leaf2.json"] {
        let summary: Value = serde_json::from_str(&logs.text(capture)).expect("JSON");
        let lost = (
            &summary["source"]["lost_before_us"],
            &summary["packets"]["adds_up"],
        );
        assert_eq!(lost, (&Value::from(0), &Value::from(true)), "{summary:#}");
    }
    let [tiers, bytes, statements, gets, pages] =
        ["tiers", "bytes", "statements", "gets", "pages"].map(|name| logs.rows(name));

    // Exactly the expected connections.
    let expected = logs.connections();
    let counted = by_pair(&tiers, "count")
        .into_iter()
        .map(|(pair, count)| (pair, count as u64));
    assert_eq!(counted.collect::<BTreeMap<_, _>>(), expected);
    // The first query shows that one server is much slower, in agreement with the proxy.
    let seen = APPS.map(|app| by_pair(&tiers, "avg_ns")[&pair(PROXY, app)] / 1e6);
    for (app, seen) in APPS.into_iter().zip(seen) {
        let (requests, own) = logs.upstream(app);
        assert_eq!(requests, expected[&pair(PROXY, app)]);
        assert!(
            (seen - own).abs() < 3.0 + 0.2 * own,
            "{app}: {seen} ms seen, {own} ms logged"
        );
    }
    assert!(seen[0] > 1.3 * seen[1], "{seen:?} ms");

    // The second query shows that it uses only the database. Bytes equal the database's interface counters, except for
    // ARP.
    let sums = by_pair(&bytes, "sum_bytes");
    let of = |app: &str, to: &str| sums.get(&pair(app, to)).copied().unwrap_or(0.0);
    let db = of(APPS[0], DB) + of(APPS[1], DB);
    let moved: f64 = logs.text("db.bytes").trim().parse().expect("a number");
    assert!(
        (db..db + 2000.0).contains(&moved),
        "{db} bytes seen, {moved} counted"
    );
    assert!(
        of(APPS[0], DB) > 3.0 * of(APPS[1], DB)
            && of(APPS[0], CACHE) == 0.0
            && of(APPS[1], CACHE) > 0.0,
        "{sums:?}"
    );
    // The map agrees: no edge from that server to the cache.
    let map: Value = serde_json::from_str(&logs.text("map.json")).expect("JSON");
    let edges: Vec<Pair> = map["edges"]
        .as_array()
        .expect("a list")
        .iter()
        .map(ends_of)
        .collect();
    let has = |client: &str, server: &str| edges.contains(&pair(client, server));
    assert!(
        has(APPS[0], DB) && has(APPS[1], DB) && has(APPS[1], CACHE) && !has(APPS[0], CACHE),
        "{edges:?}"
    );

    // And by protocol.
    assert_eq!(counts(&statements, &["client_ip"]), logs.statements());
    let mut gets_logged = BTreeMap::new();
    for line in logs.of("app2.requests") {
        *gets_logged
            .entry(format!("{} {}", APPS[1], line[4] == "cache"))
            .or_default() += 1_u64;
    }
    assert_eq!(counts(&gets, &["client_ip", "hit"]), gets_logged);
    let mut paths = BTreeMap::new();
    logs.of("proxy.requests")
        .iter()
        .for_each(|line| *paths.entry(line[2].clone()).or_default() += 1_u64);
    assert_eq!(counts(&pages, &["path"]), paths);
}

/// Costs with which a port mirror is cheaper than rules.
const MIRRORS: &str = "[switch]\ncopy_ns = 9000.0\nmirror_ns = 100.0\n";

/// The two queries of the use case in the network: monitors at switches' ports, and rules and port mirrors that copy to
/// spare hosts, give the results of captures at the servers, and leave nothing behind, also after a kill.
#[test]
fn queries_of_the_network_answer_as_captures_at_the_servers() {
    let Some(bed) = TestBed::new() else { return };
    let sdn = Sdn::start(&bed.sdn, None);
    let controller = sdn.as_ref().map_or(String::new(), |sdn| {
        format!("unix:{}", sdn.socket.display())
    });
    bed.run(
        &["up"],
        &[("MISCONFIGURED", "app1"), ("CONTROLLER", &controller)],
    );
    bed.run(&["load", "--requests", "100"], &[]);
    let network = fs::read_to_string(bed.path("network.toml")).expect("a network");
    bed.is_found(&network);
    if let Some(sdn) = &sdn {
        let site = NetworkSite::parse(&network).expect("the bed's file");
        let (url, token) = (
            format!("http://{}", sdn.listen),
            sdn.token.to_str().expect("text"),
        );
        let controller = ["--controller", &url, "--controller-token", token];
        let found = bed.discovered(&site, &[&controller, &EVERYBODY[..]].concat());
        let told = NetworkSite::parse(&sdn.instead_of_databases(&network)).expect("a file");
        assert_eq!(
            NetworkSite::parse(&found).expect("a file").switches,
            told.switches
        );
    }
    let [file, costs] = ["asked.toml", "costs.toml"].map(|name| bed.path(name));
    fs::write(&costs, MIRRORS).expect("a file");
    let [file, costs] = [&file, &costs].map(|path| path.to_str().expect("text"));
    let flags = vec!["--network", file, "--exact"];
    let mirrors = [&flags[..], &["--costs", costs]].concat();
    let without = without_sniffers(&network);
    for (network, asked) in [
        (
            &network,
            Asked {
                flags: &flags,
                of: "",
                said: "no switch copies anything",
                from: None,
            },
        ),
        (
            &without,
            Asked {
                flags: &flags,
                of: "rules",
                said: ", proved for ",
                from: None,
            },
        ),
        (
            &without,
            Asked {
                flags: &mirrors,
                of: "mirrors",
                said: ", proved for ",
                from: None,
            },
        ),
    ] {
        fs::write(file, network).expect("a file");
        let tiers = bed.beside(TIERS, &["app1", "app2", "db", "cache"], &asked);
        assert!(tiers.0.len() >= 4, "{:?}", tiers.0);
        assert_eq!(
            numbers(&tiers.0, "count"),
            numbers(&tiers.1, "count"),
            "{network}"
        );
        // Times are measured at the switch; the delay in between is negligible.
        for (seen, own) in tiers.0.iter().map(|row| (row, find(&tiers.1, row))) {
            let [seen, own] = [seen, own].map(|row| row["avg_ns"].as_f64().expect("a time") / 1e6);
            assert!(
                (seen - own).abs() < 3.0 + 0.2 * own,
                "{seen} ms seen, {own} ms at the server"
            );
        }
        let bytes = bed.beside(BYTES, &["db", "cache"], &asked);
        assert!(bytes.0.len() >= 2, "{:?}", bytes.0);
        assert_eq!(
            numbers(&bytes.0, "sum_bytes"),
            numbers(&bytes.1, "sum_bytes"),
            "{network}"
        );
    }
    // Run on the switch's host: copies go to an interface there.
    fs::write(file, bed.with_leaf2_here(&network)).expect("a file");
    let here = [&flags[..], &["--expect", "10.60.2.0/24:9=500Mbps"]].concat();
    let here = Asked {
        flags: &here,
        of: "rules",
        said: "monitors on leaf2; 1 switch copies",
        from: Some("leaf2"),
    };
    let pages = bed.beside(PAGES_OF_APPS, &["app1", "app2"], &here);
    assert_eq!(pages.0.len(), 2, "{:?}", pages.0);
    assert_eq!(numbers(&pages.0, "count"), numbers(&pages.1, "count"));
    fs::write(file, &without).expect("a file");
    // The third leaf has no spare host: through a tunnel to one at the first.
    let tunnelled = not_spare(&without, "spare3");
    let said = "monitors on spare2, spare1; 2 switches copy";
    for (ends, of) in [
        ("tunnel = \"gre://", "type: gre"),
        ("tunnel = \"", "type: vxlan"),
    ] {
        fs::write(file, tunnelled.replace("tunnel = \"", ends)).expect("a file");
        let through = Asked {
            flags: &flags,
            of,
            said,
            from: None,
        };
        let tiers = bed.beside(TIERS, &["app1", "app2", "db", "cache"], &through);
        assert!(tiers.0.len() >= 4, "{:?}", tiers.0);
        assert_eq!(
            numbers(&tiers.0, "count"),
            numbers(&tiers.1, "count"),
            "{of}"
        );
    }
    let through = Asked {
        flags: &flags,
        of: "type: vxlan",
        said,
        from: None,
    };
    let through = Asked {
        said: "monitors on spare",
        ..through
    };
    let bytes = bed.beside(BYTES, &["db", "cache"], &through);
    assert_eq!(
        numbers(&bytes.0, "sum_bytes"),
        numbers(&bytes.1, "sum_bytes")
    );
    fs::write(file, &without).expect("a file");
    bed.says_what_it_lacks(file, costs);
    // Told by the controller: the owner keeps floods from spare hosts.
    if let Some(sdn) = &sdn {
        for (leaf, port) in [("leaf1", "4"), ("leaf2", "3"), ("leaf3", "3")] {
            bed.keeps_floods_from(leaf, port);
        }
        fs::write(file, sdn.instead_of_databases(&without)).expect("a file");
        let told = Asked {
            flags: &flags,
            of: "rules",
            said: ", proved for ",
            from: None,
        };
        let tiers = bed.beside(TIERS, &["app1", "app2", "db", "cache"], &told);
        assert_eq!(numbers(&tiers.0, "count"), numbers(&tiers.1, "count"));
        fs::write(file, &without).expect("a file");
    }
    // A foreign rule above those that copy is detected at the next renewal.
    let lost = Capture::of(Command::new(BINARY), TIERS, &flags);
    let bridge = format!("unix:{}", bed.path("run/leaf3/br0.mgmt").display());
    let rule = |words: &[&str]| {
        let done = Command::new("ovs-ofctl")
            .args(["-O", "OpenFlow13"])
            .args(words)
            .status();
        assert!(done.expect("ovs-ofctl").success());
    };
    rule(&[
        "add-flow",
        &bridge,
        "priority=65535,tcp,tp_dst=3306,actions=drop",
    ]);
    let lost = lost.end();
    assert!(
        lost.err
            .contains("switches no longer copy packets: switch leaf3: "),
        "{}",
        lost.err
    );
    assert_eq!(
        (lost.code, bed.copies("leaf2").as_str()),
        (Some(1), ""),
        "{}",
        lost.err
    );
    rule(&[
        "--strict",
        "del-flows",
        &bridge,
        "priority=65535,tcp,tp_dst=3306",
    ]);
    // After a kill, everything is removed automatically.
    let mut killed = Capture::of(Command::new(BINARY), TIERS, &mirrors);
    assert!(bed.copies("leaf2").contains("mirrors") && bed.copies("leaf2").contains("rules"));
    killed.kill();
    for leaf in LEAVES {
        wait_for("the end of the lease", || match bed.copies(leaf) {
            nothing if nothing.is_empty() => Ok(()),
            left => Err(left),
        });
    }
}

impl TestBed {
    /// A mode that cannot deliver everything: the answer reports it as `explain` does.
    fn says_what_it_lacks(&self, file: &str, costs: &str) {
        fs::write(costs, CUTS).expect("a file");
        let flags = ["--network", file, "--costs", costs];
        let explained = Command::new(BINARY)
            .args(["explain", TIERS, "--format", "json"])
            .args(flags)
            .output();
        let explained = explained.expect("it runs");
        let plan: Value = serde_json::from_slice(&explained.stdout).expect("JSON");
        let lacks = plan.get("lacks").cloned().unwrap_or_default();
        assert!(
            lacks.as_array().is_some_and(|lacks| !lacks.is_empty()),
            "{plan:#}"
        );
        let answer = Capture::of(Command::new(BINARY), TIERS, &flags).interrupt();
        assert_eq!(
            (answer.code, &answer.summary["lacks"]),
            (Some(0), &lacks),
            "{}",
            answer.err
        );
        for lack in lacks.as_array().expect("an array") {
            let note = format!("the answer lacks something: {}", text(lack));
            assert!(answer.err.contains(&note), "{note}\n{}", answer.err);
        }
        fs::write(costs, MIRRORS).expect("a file");
    }
}

/// The controller of `sdn/`, at a socket and on a port of this machine.
struct Sdn {
    program: TestProgram,
    socket: PathBuf,
    listen: String,
    token: PathBuf,
}

impl Sdn {
    /// `None` if it cannot be installed and `ALLOW_MISSING` names `os-ken`; `listen`: address of its HTTP interface.
    fn start(folder: &TempDir, listen: Option<String>) -> Option<Sdn> {
        let venv = root().join("target/sdn");
        let installed = Command::new(root().join("sdn/install.sh"))
            .arg(&venv)
            .output()
            .expect("bash");
        testkit::require!("os-ken" => installed.status.success());
        let listen = listen.unwrap_or_else(|| format!("127.0.0.1:{}", free_port()));
        let socket = folder.path().join("openflow");
        // The socket of a killed controller does not count.
        let _ = fs::remove_file(&socket);
        let mut python = Command::new(venv.join("bin/python"));
        python
            .arg(root().join("sdn"))
            .arg("--openflow")
            .arg(format!("unix:{}", socket.display()));
        let token = folder.path().join("sdn.token");
        let program = TestProgram::start(
            python
                .args(["--listen", &listen])
                .arg("--token-file")
                .arg(&token),
        );
        wait_for("the controller", || {
            let made = socket.metadata().map_err(|e| e.to_string())?;
            (made.permissions().mode() != 0)
                .then_some(())
                .ok_or_else(String::new)
        });
        Some(Sdn {
            program,
            socket,
            listen,
            token,
        })
    }

    /// A network file with the controller in place of the switches' databases.
    fn instead_of_databases(&self, network: &str) -> String {
        let url = format!("http://{}", self.listen);
        let token = self.token.display();
        let line = |line: &str| {
            let name = line
                .strip_prefix("ovsdb = ")
                .and_then(|path| path.split('/').rev().nth(1));
            match name.map(|name| (name.strip_prefix("leaf"), name.strip_prefix("spine"))) {
                Some((Some(leaf), _)) => format!(
                    "controller = {url:?}\ncontroller_token = \"{token}\"\ndatapath = \"{leaf:0>16}\""
                ),
                Some((_, Some(spine))) => {
                    format!(
                        "controller = {url:?}\ncontroller_token = \"{token}\"\ndatapath = \"{:0>16}\"",
                        format!("10{spine}")
                    )
                }
                _ if line == "spare = true" => format!("{line}\nquiet = true"),
                _ => line.to_owned(),
            }
        };
        network.lines().map(line).collect::<Vec<_>>().join("\n")
    }
}

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
    /// Rows of a query in the network, and those of concurrent captures at the servers, each restricted to its server.
    fn beside(&self, query: &str, servers: &[&str], asked: &Asked<'_>) -> (Vec<Value>, Vec<Value>) {
        let addresses = fs::read_to_string(self.path("addresses")).expect("addresses");
        let address = |host: &str| {
            let name = format!("{}=", host.to_uppercase());
            addresses
                .lines()
                .find_map(|line| line.strip_prefix(&name))
                .expect("an address")
                .to_owned()
        };
        let own: Vec<(String, Capture)> = servers
            .iter()
            .map(|host| {
                let namespace = format!("{}{host}", self.prefix());
                (
                    address(host),
                    Capture::start(&namespace, query, &["-i", "eth0"]),
                )
            })
            .collect();
        let Asked {
            flags,
            of,
            said,
            from,
        } = asked;
        let program = from.map(|host| within(&format!("{}{host}", self.prefix()), BINARY));
        let asked = Capture::of(
            program.unwrap_or_else(|| Command::new(BINARY)),
            query,
            flags,
        );
        let copies = LEAVES.map(|leaf| self.copies(leaf)).concat();
        assert_eq!(copies.is_empty(), of.is_empty(), "{copies}");
        assert_eq!(
            (copies.contains("mirrors:"), copies.contains(of)),
            (*of == "mirrors", true),
            "{copies}"
        );
        self.run(&["load", "--requests", "100"], &[]);
        let mut before = 0;
        wait_for("the last packets", || {
            let now = self.bytes_of("db");
            (now == std::mem::replace(&mut before, now))
                .then_some(())
                .ok_or(format!("{now} bytes"))
        });
        let asked = asked.interrupt();
        assert_eq!(asked.code, Some(0), "{}", asked.err);
        assert!(asked.err.contains(*said), "{}", asked.err);
        for leaf in LEAVES {
            assert_eq!(self.copies(leaf), "", "{leaf}");
        }
        let mut rows = Vec::new();
        for (address, capture) in own {
            let captured = capture.interrupt();
            captured.check();
            rows.extend(
                captured
                    .rows
                    .into_iter()
                    .filter(|row| text(&row["server_ip"]) == address),
            );
        }
        (asked.rows, rows)
    }
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

/// Runs the controller's own tests in Python, before the bed's switches.
#[test]
fn the_controllers_tests_pass() {
    if TestBed::new().is_none() {
        return;
    }
    let installed = Command::new(root().join("sdn/install.sh"))
        .output()
        .expect("bash");
    let reason = String::from_utf8_lossy(&installed.stderr);
    testkit::require!("os-ken" => installed.status.success().then_some(()).ok_or(reason));
    let tested = Command::new(root().join("sdn/test.sh"))
        .stdin(Stdio::null())
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&tested.stderr);
    assert!(tested.status.success(), "{said}");
    eprintln!(
        "{}",
        said.lines().rev().take(3).collect::<Vec<_>>().join(" ")
    );
}

/// Hosts of the bed, probed behind all ports.
const EVERYBODY: [&str; 6] = [
    "--addresses",
    "10.60.1.0/29",
    "--addresses",
    "10.60.2.0/29",
    "--addresses",
    "10.60.3.0/29",
];

impl TestBed {
    /// Output of `network discover` on the bed with these flags; it prints nothing, and leaves nothing on the switches.
    fn discovered(&self, network: &NetworkSite, more: &[&str]) -> String {
        self.discovered_from(Command::new(BINARY), network, more)
    }

    /// Like `discovered`, with a command that already has the program.
    fn discovered_from(
        &self,
        mut program: Command,
        network: &NetworkSite,
        more: &[&str],
    ) -> String {
        program
            .args(["network", "discover", "--link-mbps", "1000"])
            .args(more)
            .stdin(Stdio::null());
        for switch in &network.switches {
            let database = self.path(&format!("run/{}/db.sock", switch.name));
            program.args([
                "--switch",
                &format!("{}=unix:{}", switch.name, database.display()),
            ]);
        }
        let before = LEAVES.map(|leaf| self.rules(leaf));
        let Output {
            status,
            stdout,
            stderr,
        } = program.output().expect("it starts");
        let said = String::from_utf8_lossy(&stderr);
        assert!(status.success() && said.is_empty(), "{said}");
        assert_eq!(LEAVES.map(|leaf| self.rules(leaf)), before);
        String::from_utf8(stdout).expect("text")
    }

    /// All rules of a switch, without counters.
    fn rules(&self, switch: &str) -> Vec<String> {
        let bridge = format!(
            "unix:{}",
            self.path(&format!("run/{switch}/br0.mgmt")).display()
        );
        let output = Command::new("ovs-ofctl")
            .args(["-O", "OpenFlow13", "--no-stats", "dump-flows", &bridge])
            .output();
        let text = String::from_utf8(output.expect("ovs-ofctl").stdout).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    /// An agent is assigned to the host that replies for its address, with its reported properties. Its server is on
    /// the same host because the connection is not encrypted.
    fn agents_are_found(&self, network: &NetworkSite) {
        let on = || within(&format!("{}client2", self.prefix()), BINARY);
        let (data, url) = (self.path("served"), "http://127.0.0.1:7979");
        let [admin, own, folder] = ["admin.token", "agent.token", "agent"]
            .map(|name| data.join(name).display().to_string());
        let _server = TestProgram::start(
            on().args(["serve", "--listen", "127.0.0.1:7979", "--data"])
                .arg(&data),
        );
        let asked = |words: &[&str]| {
            let output = on()
                .args(words)
                .args(["--server", url, "--token-file", &admin])
                .output()
                .expect("it starts");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() {
                Ok(output.stdout)
            } else {
                Err(said)
            }
        };
        let token = wait_for("the server", || {
            asked(&["tokens", "create", "web-2", "--role", "agent"])
        });
        fs::write(&own, token).expect("a file");
        let _agent = TestProgram::start(on().args([
            "agent",
            "--server",
            url,
            "--token-file",
            &own,
            "--name",
            "web-2",
            "--folder",
            &folder,
        ]));
        wait_for("the agent", || {
            let listed = asked(&["agents", "--format", "jsonl"])?;
            let listed = String::from_utf8_lossy(&listed).into_owned();
            if listed.contains("10.60.1.2") {
                Ok(())
            } else {
                Err(listed)
            }
        });
        let flags = [&EVERYBODY[..], &["--server", url, "--token-file", &admin]].concat();
        let found = self.discovered_from(on(), network, &flags);
        let found = NetworkSite::parse(&found).unwrap_or_else(|why| panic!("{why:?}\n{found}"));
        let host = found
            .hosts
            .iter()
            .find(|host| host.name == "web-2")
            .expect("the agent's host");
        let said = (
            host.addresses[0].to_string(),
            host.at.port,
            host.starts.agent.as_deref(),
            host.interface.as_deref(),
        );
        assert_eq!(
            said,
            ("10.60.1.2".to_owned(), 2, Some("web-2"), Some("eth0"))
        );
        assert_eq!(
            (found.hosts.len(), host.has.cores_used),
            (network.hosts.len(), 0.0)
        );
    }

    /// The discovered network equals the bed's own file; with the owner's additions, plans are equal.
    fn is_found(&self, network: &str) {
        let site = NetworkSite::parse(network).expect("the bed's file");
        let of = |text: &str| {
            let site = NetworkSite::parse(text).unwrap_or_else(|why| panic!("{why:?}\n{text}"));
            let switch = |switch: &planner::topology::SiteSwitch| format!("{switch:?}");
            let host = |host: &planner::topology::SiteHost| {
                format!(
                    "{} {:?} {:?} {}",
                    host.name, host.addresses, host.at, host.has.mbps
                )
            };
            let mut all = [
                site.switches.iter().map(switch).collect::<Vec<_>>(),
                site.hosts.iter().map(host).collect(),
                site.links.iter().map(|link| format!("{link:?}")).collect(),
            ];
            all.iter_mut().for_each(|of| of.sort_unstable());
            all
        };
        assert_eq!(of(&self.discovered(&site, &EVERYBODY)), of(network));
        // The owner's file with wrong ports and missing links.
        let wrong = network
            .replace("\"leaf1:1\"", "\"leaf1:x\"")
            .replace("\"leaf1:4\"", "\"leaf1:1\"");
        let wrong = wrong.replace("\"leaf1:x\"", "\"leaf1:4\"");
        let [owners, asked] = ["owners.toml", "found.toml"].map(|name| self.path(name));
        fs::write(
            &owners,
            wrong.split("\n[[link]]").next().expect("a beginning"),
        )
        .expect("a file");
        let found = self.discovered(&site, &["--into", owners.to_str().expect("text")]);
        assert_eq!(of(&found), of(network));
        fs::write(&asked, found).expect("a file");
        fs::write(&owners, network).expect("a file");
        let plan = |file: &Path| {
            let flags = [
                "explain",
                TIERS,
                "--format",
                "json",
                "--network",
                file.to_str().expect("text"),
            ];
            let output = Command::new(BINARY)
                .args(flags)
                .output()
                .expect("it starts");
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8(output.stdout).expect("text")
        };
        assert_eq!(plan(&asked), plan(&owners));
        [owners, asked]
            .iter()
            .for_each(|path| fs::remove_file(path).expect("it is there"));
    }
}
