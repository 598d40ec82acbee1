//! The test bed of `deploy/testbed.sh`: that it stands and goes, also when its building is killed, and what its switches show of a shop of
//! which one server is set up wrongly (docs/use-case-multi-tier.md). Truth is what the shop's own servers have logged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use planner::topology::Site;
use serde_json::Value;
use tempfile::TempDir;
use testkit::programs::wait_for;

use crate::capture::{BINARY, Capture, Captured, text};
use crate::net::{ip, shell};

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/netalytics lies two below")
}

/// A bed, taken away when dropped.
pub struct TestBed {
    folder: TempDir,
}

impl TestBed {
    /// Its folder; nothing stands yet. `None`, said loudly, where this machine can not.
    pub fn new() -> Option<TestBed> {
        let folder = tempfile::Builder::new().prefix("bed-").tempdir_in("/tmp").expect("a folder");
        let bed = TestBed { folder };
        let wanted =
            ["ip", "nsenter", "ethtool", "ovs-vswitchd", "nginx", "mariadbd", "memcached", "python3", "curl"];
        if !testkit::programs::are_there(&wanted) {
            return None;
        }
        let namespace = format!("netns add {}try", bed.prefix());
        if let Err(why) = ip(&namespace).and_then(|()| ip(&namespace.replace("add", "del"))) {
            testkit::loudly(&format!("NO NETWORK NAMESPACES ({why}): this test has checked NOTHING"));
            return None;
        }
        Some(bed)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(root().join("deploy/testbed.sh"));
        command.arg(words[0]).arg(self.folder.path()).args(&words[1..]).stdin(Stdio::null());
        command
    }

    /// What a command of the script says; it must not fail.
    fn run(&self, words: &[&str], env: &[(&str, &str)]) -> String {
        let Output { status, stdout, stderr } =
            self.command(words).envs(env.iter().copied()).output().expect("bash");
        assert!(status.success(), "{words:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).expect("text")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The tab-separated fields of a log's lines.
    fn log(&self, name: &str) -> Vec<Vec<String>> {
        let log = fs::read_to_string(self.path("log").join(name)).expect("a log");
        log.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// What the bed's namespaces begin with.
    fn prefix(&self) -> String {
        let script = format!("printf %s {} | cksum | cut -d' ' -f1", self.folder.path().display());
        let sum = Command::new("bash").args(["-c", &script]).output().expect("bash").stdout;
        format!("tb{}-", String::from_utf8(sum).expect("text").trim())
    }

    fn namespaces(&self) -> Vec<String> {
        let prefix = self.prefix();
        let output = Command::new("ip").args(["netns", "list"]).output().expect("ip");
        let all = String::from_utf8(output.stdout).expect("text");
        let ours = all.lines().filter_map(|line| line.split(' ').next()).filter(|ns| ns.starts_with(&prefix));
        ours.map(str::to_owned).collect()
    }

    /// Bytes that have passed a host's interface, as its kernel counts.
    fn bytes_of(&self, host: &str) -> u64 {
        let files = "cat /sys/class/net/eth0/statistics/rx_bytes /sys/class/net/eth0/statistics/tx_bytes";
        let counted = shell(&format!("{}{host}", self.prefix()), files).stdout;
        String::from_utf8(counted)
            .expect("text")
            .lines()
            .map(|line| line.parse::<u64>().expect("a number"))
            .sum()
    }

    /// Starts a query on a switch's own host, of what passes some of its ports.
    fn query(&self, switch: &str, ports: &[&str], query: &str) -> Capture {
        let args: Vec<&str> = ports.iter().flat_map(|&port| ["-i", port]).collect();
        Capture::start(&format!("{}{switch}", self.prefix()), query, &args)
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
    let mut building =
        bed.command(&["up"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("bash");
    wait_for("switches", || (bed.namespaces().len() > 12).then_some(()).ok_or_else(|| "too few".to_owned()));
    building.kill().expect("it runs");
    building.wait().expect("it has ended");
    bed.run(&["down"], &[]);
    bed.run(&["down"], &[]);
    assert_eq!((bed.namespaces(), fs::read_dir(bed.folder.path()).expect("a folder").count()), (vec![], 0));

    // Two spines, and rules that send nothing round: every host reaches every other.
    bed.run(&["up"], &[("FORWARDING", "rules"), ("SERVERS", "none")]);
    let addresses = fs::read_to_string(bed.path("addresses")).expect("addresses");
    let hosts: Vec<_> = addresses.lines().filter_map(|line| Some(line.split_once("=10.60.")?.1)).collect();
    assert_eq!(hosts.len(), 15);
    for from in ["client1", "app1", "spare3"] {
        let ping = format!("for to in {}; do ping -q -c 1 -W 20 10.60.$to >&2; done", hosts.join(" "));
        shell(&format!("{}{from}", bed.prefix()), &format!("set -e; {ping}"));
    }
    let heard = bed.bytes_of("spare2");
    assert!(heard < 100_000, "{heard} bytes, of some pings and of what is asked of all");
    let network = fs::read_to_string(bed.path("network.toml")).expect("a network");
    let site = Site::parse(&network).unwrap_or_else(|why| panic!("{why:?}\n{network}"));
    assert_eq!((site.switches.len(), site.hosts.len(), site.links.len()), (5, 10, 6));
    let racks = site.network().expect("a network").racks();
    assert_eq!(racks, 3);
    bed.run(&["down"], &[]);
    assert_eq!(bed.namespaces(), Vec::<String>::new());
}

/// So many pages are asked for while queries run on the leaf of the application servers.
const REQUESTS: &str = "300";
const TIERS: &str = "PARSE tcp_conn_time TO 10.60.2.0/24:8000, 10.60.3.1:3306, 10.60.3.2:11211 \
    PROCESS (diff-group: group=srcIP, destIP)";
const BYTES: &str = "PARSE tcp_pkt_size FROM 10.60.2.0/24 TO 10.60.3.0/24 \
    PROCESS (group-sum: group=client_ip, server_ip)";
const STATEMENTS: &str = "PARSE mysql_query WHERE command = 'query' PROCESS (group-count: group=client_ip)";
const GETS: &str = "PARSE memcached_get PROCESS (group-count: group=client_ip, hit)";
const PAGES: &str = "PARSE http TO 10.60.1.3:80 PROCESS (group-count: group=path)";
const PROXY: &str = "10.60.1.3";
const APPS: [&str; 2] = ["10.60.2.1", "10.60.2.2"];
const DB: &str = "10.60.3.1";
const CACHE: &str = "10.60.3.2";

/// What the servers have logged since a moment.
struct Logs<'b> {
    bed: &'b TestBed,
    begin: BTreeMap<&'static str, usize>,
    db_bytes: u64,
}

impl<'b> Logs<'b> {
    fn begin(bed: &'b TestBed) -> Logs<'b> {
        let begin = ["app1.requests", "app2.requests", "proxy.requests", "db.queries"]
            .map(|log| (log, bed.log(log).len()));
        Logs { bed, begin: begin.into(), db_bytes: bed.bytes_of("db") }
    }

    fn of(&self, log: &str) -> Vec<Vec<String>> {
        self.bed.log(log).split_off(self.begin[log])
    }

    /// Connections by their two ends: each page is one to its application server, and one to whomever that asks for it.
    fn connections(&self) -> BTreeMap<Pair, u64> {
        let mut found = BTreeMap::new();
        for (app, log) in APPS.into_iter().zip(["app1.requests", "app2.requests"]) {
            let log = self.of(log);
            let asked = |column: usize| log.iter().filter(|line| line[column] != "0").count() as u64;
            found.insert(pair(PROXY, app), log.len() as u64);
            found.insert(pair(app, DB), asked(6));
            found.insert(pair(app, CACHE), asked(5));
        }
        found.retain(|_, count| *count > 0);
        found
    }

    /// What the proxy says of an application server: how often it was asked, and how long that took on average, in milliseconds.
    fn upstream(&self, app: &str) -> (u64, f64) {
        let lines = self.of("proxy.requests");
        let times = lines.iter().filter(|line| line[5] == format!("{app}:8000")).map(|line| &line[6]);
        let times: Vec<f64> = times.map(|time| time.parse().expect("seconds")).collect();
        (times.len() as u64, 1e3 * times.iter().sum::<f64>() / times.len() as f64)
    }

    /// Statements by who has sent them: the database logs that of each connection, under a number.
    fn statements(&self) -> BTreeMap<String, u64> {
        let (mut clients, mut found) = (BTreeMap::new(), BTreeMap::new());
        for line in self.of("db.queries").into_iter().map(|fields| fields.join(" ")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(at) =
                words.iter().position(|word| ["Connect", "Query"].contains(word)).filter(|at| *at > 0)
            else {
                continue;
            };
            let connection = words[at - 1].to_owned();
            if let Some(client) = words.get(at + 1).and_then(|user| user.strip_prefix("shop@")) {
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

/// A column of numbers by both ends.
fn by_pair(captured: &Captured, column: &str) -> BTreeMap<Pair, f64> {
    let of = |row: &Value| pair(&text(&row["client_ip"]), &text(&row["server_ip"]));
    captured.rows.iter().map(|row| (of(row), row[column].as_f64().expect("a number"))).collect()
}

/// Counts by other columns.
fn counts(captured: &Captured, groups: &[&str]) -> BTreeMap<String, u64> {
    let key = |row: &Value| groups.iter().map(|group| text(&row[group])).collect::<Vec<_>>().join(" ");
    captured.rows.iter().map(|row| (key(row), row["count"].as_u64().expect("a number"))).collect()
}

#[test]
fn two_queries_find_the_server_that_is_set_up_wrongly() {
    let Some(bed) = TestBed::new() else { return };
    bed.run(&["up"], &[("MISCONFIGURED", "app1")]);
    // A shop that has been at work: the cache holds what is asked for most.
    bed.run(&["load", "--requests", "200"], &[]);
    let logs = Logs::begin(&bed);
    let capture = |query| bed.query("leaf2", &["app1", "app2"], query);
    let [tiers, bytes, statements, gets] = [TIERS, BYTES, STATEMENTS, GETS].map(capture);
    let pages = bed.query("leaf1", &["proxy"], PAGES);
    let said = bed.run(&["load", "--requests", REQUESTS], &[]);
    assert!(said.contains(&format!("{REQUESTS} answered with 200")), "{said}");
    wait_for("the last log lines", || {
        let lines = logs.of("app1.requests").len() + logs.of("app2.requests").len();
        (lines.to_string() == REQUESTS).then_some(()).ok_or(format!("{lines} requests"))
    });
    let mut before = 0;
    let all = wait_for("the last packets", || {
        let now = bed.bytes_of("db");
        (now == std::mem::replace(&mut before, now)).then_some(now).ok_or(format!("{now} bytes"))
    });
    let moved = all - logs.db_bytes;
    let [tiers, bytes, statements, gets, pages] =
        [tiers, bytes, statements, gets, pages].map(Capture::interrupt);
    for captured in [&tiers, &bytes, &statements, &gets, &pages] {
        captured.check();
    }

    // Every connection is there, and none but these.
    let expected = logs.connections();
    let counted = by_pair(&tiers, "count").into_iter().map(|(pair, count)| (pair, count as u64));
    assert_eq!(counted.collect::<BTreeMap<_, _>>(), expected);
    // The first query's answer: one server is by far the slower one, as the proxy's own clock says, too.
    let seen = APPS.map(|app| by_pair(&tiers, "avg_ns")[&pair(PROXY, app)] / 1e6);
    for (app, seen) in APPS.into_iter().zip(seen) {
        let (requests, own) = logs.upstream(app);
        assert_eq!(requests, expected[&pair(PROXY, app)]);
        assert!((seen - own).abs() < 3.0 + 0.2 * own, "{app}: {seen} ms seen, {own} ms logged");
    }
    assert!(seen[0] > 1.3 * seen[1], "{seen:?} ms");

    // The second one's: that server speaks with the database only. All bytes that the database's interface has counted are there, but for ARP.
    let sums = by_pair(&bytes, "sum_bytes");
    let of = |app: &str, to: &str| sums.get(&pair(app, to)).copied().unwrap_or(0.0);
    let db = of(APPS[0], DB) + of(APPS[1], DB);
    assert!((db..db + 2000.0).contains(&(moved as f64)), "{db} bytes seen, {moved} counted");
    assert!(
        of(APPS[0], DB) > 3.0 * of(APPS[1], DB) && of(APPS[0], CACHE) == 0.0 && of(APPS[1], CACHE) > 0.0,
        "{sums:?}"
    );

    // And in the protocols' own words.
    assert_eq!(counts(&statements, &["client_ip"]), logs.statements());
    let mut gets_logged = BTreeMap::new();
    for line in logs.of("app2.requests") {
        *gets_logged.entry(format!("{} {}", APPS[1], line[4] == "cache")).or_default() += 1_u64;
    }
    assert_eq!(counts(&gets, &["client_ip", "hit"]), gets_logged);
    let mut paths = BTreeMap::new();
    logs.of("proxy.requests").iter().for_each(|line| *paths.entry(line[2].clone()).or_default() += 1_u64);
    assert_eq!(counts(&pages, &["path"]), paths);
}

/// The two queries of the use case, asked of the network: monitors at switches' ports, and rules that copy to spare hosts, answer as captures
/// at the servers do, and leave nothing behind.
#[test]
fn queries_of_the_network_answer_as_captures_at_the_servers() {
    let Some(bed) = TestBed::new() else { return };
    bed.run(&["up"], &[("MISCONFIGURED", "app1")]);
    bed.run(&["load", "--requests", "100"], &[]);
    let network = fs::read_to_string(bed.path("network.toml")).expect("a network");
    let without: Vec<&str> = network.lines().filter(|line| !line.ends_with("# at its ports")).collect();
    for (network, said) in
        [(network.clone(), "no switch copies anything"), (without.join("\n"), "switches copy, by")]
    {
        let file = bed.path("asked.toml");
        fs::write(&file, network).expect("a file");
        let file = file.to_str().expect("text");
        let tiers = bed.beside(TIERS, &["app1", "app2", "db", "cache"], file, said);
        let counts = |rows: &[Value]| -> BTreeMap<Pair, u64> {
            rows.iter().map(|row| (ends_of(row), row["count"].as_u64().expect("a number"))).collect()
        };
        assert!(tiers.0.len() >= 4, "{:?}", tiers.0);
        assert_eq!(counts(&tiers.0), counts(&tiers.1), "{said}");
        // Times are those of the switch: all that is between is a wire.
        for (seen, own) in tiers.0.iter().map(|row| (row, find(&tiers.1, row))) {
            let [seen, own] = [seen, own].map(|row| row["avg_ns"].as_f64().expect("a time") / 1e6);
            assert!((seen - own).abs() < 3.0 + 0.2 * own, "{seen} ms seen, {own} ms at the server");
        }
        let bytes = bed.beside(BYTES, &["db", "cache"], file, said);
        let sums = |rows: &[Value]| -> BTreeMap<Pair, u64> {
            rows.iter().map(|row| (ends_of(row), row["sum_bytes"].as_u64().expect("a number"))).collect()
        };
        assert!(bytes.0.len() >= 2, "{:?}", bytes.0);
        assert_eq!(sums(&bytes.0), sums(&bytes.1), "{said}");
    }
}

fn ends_of(row: &Value) -> Pair {
    pair(&text(&row["client_ip"]), &text(&row["server_ip"]))
}

/// The row of the same two ends.
fn find<'r>(rows: &'r [Value], like: &Value) -> &'r Value {
    rows.iter().find(|row| ends_of(row) == ends_of(like)).expect("the same ends")
}

impl TestBed {
    /// The rows of a query of the network, and those of captures at the servers meanwhile, each of its own server.
    fn beside(&self, query: &str, servers: &[&str], network: &str, said: &str) -> (Vec<Value>, Vec<Value>) {
        let addresses = fs::read_to_string(self.path("addresses")).expect("addresses");
        let address = |host: &str| {
            let name = format!("{}=", host.to_uppercase());
            addresses.lines().find_map(|line| line.strip_prefix(&name)).expect("an address").to_owned()
        };
        let own: Vec<(String, Capture)> = servers
            .iter()
            .map(|host| {
                let namespace = format!("{}{host}", self.prefix());
                (address(host), Capture::start(&namespace, query, &["-i", "eth0"]))
            })
            .collect();
        let asked = Capture::of(Command::new(BINARY), query, &["--network", network, "--exact"]);
        self.run(&["load", "--requests", "100"], &[]);
        let mut before = 0;
        wait_for("the last packets", || {
            let now = self.bytes_of("db");
            (now == std::mem::replace(&mut before, now)).then_some(()).ok_or(format!("{now} bytes"))
        });
        let asked = asked.interrupt();
        assert_eq!(asked.code, Some(0), "{}", asked.err);
        assert!(asked.err.contains(said), "{}", asked.err);
        for leaf in ["leaf1", "leaf2", "leaf3"] {
            let bridge = format!("unix:{}", self.path(&format!("run/{leaf}/br0.mgmt")).display());
            let dump = Command::new("ovs-ofctl").args(["-O", "OpenFlow13", "dump-flows", &bridge]).output();
            let rules = String::from_utf8(dump.expect("ovs-ofctl").stdout).expect("text");
            assert!(rules.contains("NORMAL") && !rules.contains("cookie=0x6e61"), "{rules}");
        }
        let mut rows = Vec::new();
        for (address, capture) in own {
            let captured = capture.interrupt();
            captured.check();
            rows.extend(captured.rows.into_iter().filter(|row| text(&row["server_ip"]) == address));
        }
        (asked.rows, rows)
    }
}

/// What cannot be found here is in Python: the controller's own tests, before the bed's switches.
#[test]
fn the_controllers_tests_pass() {
    if TestBed::new().is_none() {
        return;
    }
    let installed = Command::new(root().join("sdn/install.sh")).output().expect("bash");
    if !installed.status.success() {
        let why = String::from_utf8_lossy(&installed.stderr);
        testkit::loudly(&format!("os-ken COULD NOT BE INSTALLED: this test has checked NOTHING: {why}"));
        return;
    }
    let tested = Command::new(root().join("sdn/test.sh")).stdin(Stdio::null()).output().expect("bash");
    let said = String::from_utf8_lossy(&tested.stderr);
    assert!(tested.status.success(), "{said}");
    eprintln!("{}", said.lines().rev().take(3).collect::<Vec<_>>().join(" "));
}
