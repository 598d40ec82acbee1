//! The test bed of `deploy/testbed.sh`: that it stands and goes, also when its building is killed, and what its switches show of a shop of
//! which one server is set up wrongly (docs/use-case-multi-tier.md). Truth is what the shop's own servers have logged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use testkit::programs::wait_for;

use crate::capture::{Capture, Captured, text};
use crate::net::shell;

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/netalytics lies two below")
}

/// A bed, taken away when dropped.
struct TestBed {
    folder: TempDir,
}

impl TestBed {
    /// Its folder; nothing stands yet. `None`, said loudly, where this machine can not.
    fn new() -> Option<TestBed> {
        let wanted = ["ip", "nsenter", "ethtool", "ovs-vswitchd", "ovsdb-server", "nginx", "mariadbd", "memcached", "python3"];
        let can = testkit::programs::are_there(&wanted) && {
            let made = Command::new("ip").args(["netns", "add", "tb-try"]).output().is_ok_and(|o| o.status.success());
            let _ = Command::new("ip").args(["netns", "del", "tb-try"]).output();
            made
        };
        if !can {
            testkit::loudly("NO TEST BED CAN BE BUILT HERE: this test has checked NOTHING");
        }
        can.then(|| TestBed { folder: tempfile::Builder::new().prefix("bed-").tempdir_in("/tmp").expect("a folder") })
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
    let mut building = bed.command(&["up"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("bash");
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
        let ping = format!("for to in {}; do ping -q -c 2 -i 0.01 -W 5 10.60.$to | grep -q '2 received, 0%'; done", hosts.join(" "));
        shell(&format!("{}{from}", bed.prefix()), &format!("set -eo pipefail; {ping}"));
    }
    let network = fs::read_to_string(bed.path("network.toml")).expect("a network");
    let tables = |of: &str| network.matches(&format!("[[{of}]]")).count();
    assert_eq!((tables("switch"), tables("host"), tables("link")), (5, 10, 6));
    bed.run(&["down"], &[]);
    assert_eq!(bed.namespaces(), Vec::<String>::new());
}

/// What is sent over the proxy while queries run on the leaf of the application servers.
const REQUESTS: usize = 400;
const TIERS: &str = "PARSE tcp_conn_time TO 10.60.2.0/24:8000, 10.60.3.1:3306, 10.60.3.2:11211 \
    PROCESS (diff-group: group=srcIP, destIP)";
const BYTES: &str = "PARSE tcp_pkt_size FROM 10.60.2.0/24 TO 10.60.3.0/24 \
    PROCESS (group-sum: group=client_ip, server_ip)";
const PROXY: &str = "10.60.1.3";
const APPS: [&str; 2] = ["10.60.2.1", "10.60.2.2"];
const DB: &str = "10.60.3.1";
const CACHE: &str = "10.60.3.2";

#[test]
fn two_queries_find_the_server_that_is_set_up_wrongly() {
    let Some(bed) = TestBed::new() else { return };
    bed.run(&["up"], &[("MISCONFIGURED", "app1")]);
    let apps = ["app1", "app2"];
    let [tiers, bytes, statements, gets] = [
        TIERS,
        BYTES,
        "PARSE mysql_query WHERE command = 'query' PROCESS (group-count: group=client_ip)",
        "PARSE memcached_get PROCESS (group-count-ratio: group=client_ip, of=(hit = true) AS hits)",
    ]
    .map(|query| bed.query("leaf2", &apps, query));
    let pages = bed.query("leaf1", &["proxy"], "PARSE http_get TO 10.60.1.3:80 PROCESS (group-count: group=url)");
    let before = db_bytes(&bed);
    let said = bed.run(&["load", "--requests", &REQUESTS.to_string()], &[]);
    assert!(said.contains(&format!("{REQUESTS} answered with 200")), "{said}");
    let connections = wait_for("the end of all connections", || quiet(&bed));
    let moved = db_bytes(&bed) - before;
    let [tiers, bytes, statements, gets, pages] =
        [tiers, bytes, statements, gets, pages].map(|capture| {
            let captured = capture.interrupt();
            captured.check();
            captured
        });

    // Which server answers how slowly, and whom they ask how often: as they have logged it themselves.
    let logs = apps.map(|app| bed.log(&format!("{app}.requests")));
    let mut expected = BTreeMap::new();
    for (app, log) in APPS.into_iter().zip(&logs) {
        let column = |n: usize| log.iter().map(|line| line[n].parse::<u64>().expect("a number"));
        expected.insert((PROXY.to_owned(), app.to_owned()), log.len() as u64);
        expected.insert((app.to_owned(), DB.to_owned()), column(6).sum());
        expected.insert((app.to_owned(), CACHE.to_owned()), column(5).filter(|&asked| asked > 0).count() as u64);
    }
    expected.retain(|_, count| *count > 0);
    let number = |row: &serde_json::Value, name: &str| row[name].as_u64().expect("a number");
    let pair = |row: &serde_json::Value| (text(&row["client_ip"]), text(&row["server_ip"]));
    let counted: BTreeMap<_, _> = tiers.rows.iter().map(|row| (pair(row), number(row, "count"))).collect();
    assert_eq!(counted, expected);
    assert_eq!(connections, expected.values().sum::<u64>());
    let upstream = |app: &str| {
        bed.log("proxy.requests").iter().filter(|line| line[5] == format!("{app}:8000")).count() as u64
    };
    assert_eq!(APPS.map(upstream), APPS.map(|app| expected[&(PROXY.to_owned(), app.to_owned())]));

    // The first query's answer: by far the slower one, as its own clock says, too.
    let seen = |app: &str| {
        let row = tiers.rows.iter().find(|row| pair(row) == (PROXY.to_owned(), app.to_owned()));
        row.expect("a row")["avg"].as_f64().expect("a number") / 1e6
    };
    for (app, log) in APPS.into_iter().zip(&logs) {
        let own = log.iter().map(|line| line[3].parse::<f64>().expect("a number")).sum::<f64>() / log.len() as f64 / 1e3;
        assert!((own * 0.9..own * 1.5 + 5.0).contains(&seen(app)), "{app}: {} ms seen, {own} ms logged", seen(app));
    }
    assert!(seen(APPS[0]) > 1.5 * seen(APPS[1]), "{} and {} ms", seen(APPS[0]), seen(APPS[1]));

    // The second one's: it moves bytes with the database only. All that the database's interface has counted is there (and ARP).
    let sums: BTreeMap<_, _> = bytes.rows.iter().map(|row| (pair(row), number(row, "sum"))).collect();
    let of = |app: &str, to: &str| sums.get(&(app.to_owned(), to.to_owned())).copied().unwrap_or(0);
    let db = of(APPS[0], DB) + of(APPS[1], DB);
    assert!((db..db + 1000).contains(&moved), "{db} bytes seen, {moved} counted");
    assert!(of(APPS[0], DB) > 2 * of(APPS[1], DB) && of(APPS[0], CACHE) == 0 && of(APPS[1], CACHE) > 0, "{sums:?}");

    // And in the protocols' own words.
    let by_client = |captured: &Captured, name: &str| {
        captured.rows.iter().map(|row| (text(&row["client_ip"]), number(row, name))).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(by_client(&statements, "count"), db_logged(&bed));
    let asked = logs[1].iter().filter(|line| line[5] != "0").count() as u64;
    assert_eq!(by_client(&gets, "count"), BTreeMap::from([(APPS[1].to_owned(), asked)]));
    let hits = logs[1].iter().filter(|line| line[4] == "cache").count() as u64;
    assert_eq!(by_client(&gets, "hits"), BTreeMap::from([(APPS[1].to_owned(), hits)]));
    let mut urls = BTreeMap::new();
    bed.log("proxy.requests").iter().for_each(|line| *urls.entry(line[2].clone()).or_default() += 1_u64);
    let seen: BTreeMap<_, _> = pages.rows.iter().map(|row| (text(&row["url"]), number(row, "count"))).collect();
    assert_eq!(seen, urls);
}
