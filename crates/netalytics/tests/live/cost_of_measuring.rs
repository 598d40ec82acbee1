//! `bench/cost_of_measuring.py`: plausible values in every cell, packets and samples that add up, a cost file for
//! `explain`, and nothing left behind, also after a kill.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use planner::physical::PlanCosts;
use testkit::programs::wait_for;

use crate::calibrated::{at_work, mark};
use crate::capture::BINARY;
use crate::turn::TestTurn;

/// Ratio of CPU time to wall time that two readings of the clocks can add.
const SKEW: f64 = 1.2;

fn study(mark: &str, out: &Path, temporary: &Path) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/cost_of_measuring.py");
    let mut command = Command::new("python3");
    command
        .arg(script)
        .args(["--quick", "--netalytics", BINARY, "--out"])
        .arg(out)
        .env("CALIBRATED_BY", mark)
        .env("TMPDIR", temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// A row of `runs.csv`.
struct Row(BTreeMap<String, String>);

impl Row {
    fn text(&self, name: &str) -> &str {
        &self.0[name]
    }

    fn number(&self, name: &str) -> f64 {
        let text = self.text(name);
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is {text:?}"))
    }
}

fn rows(out: &Path) -> Vec<Row> {
    let text = fs::read_to_string(out.join("runs.csv")).expect("rows");
    let mut lines = text.lines().map(|line| line.split(','));
    let names: Vec<&str> = lines.next().expect("names").collect();
    let row = |line: std::str::Split<'_, char>| {
        let cells = names.iter().zip(line);
        Row(cells
            .map(|(name, value)| ((*name).to_owned(), value.to_owned()))
            .collect())
    };
    lines.map(row).collect()
}

#[test]
fn a_study_measures_every_cell_and_leaves_nothing() {
    let _turn = TestTurn::wait();
    testkit::require!(
        "unshare",
        "nsenter",
        "ip",
        "ss",
        "ethtool",
        "ovs-vswitchd",
        "ovsdb-server",
        "tcpdump",
        "rustc",
        "python3"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).expect("a folder");
    let done = mark("study");
    let output = study(&done, &out, &temporary).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    testkit::require!("namespaces" => !said.contains("requires root"));
    assert!(output.status.success(), "{said}");
    assert_eq!(at_work(&done), Vec::<String>::new());

    let rows = rows(&out);
    let cells: BTreeSet<(&str, &str)> = rows
        .iter()
        .map(|row| (row.text("block"), row.text("method")))
        .collect();
    for block in [
        "bulk", "bursts", "pinning", "header", "polling", "requests", "flows",
    ] {
        for method in ["none", "sflow"] {
            assert!(cells.contains(&(block, method)), "{block}: {method}");
        }
    }
    for method in [
        "ipfix",
        "ipfix-cache",
        "netflow",
        "mirror",
        "sniffer",
        "netalytics-packets",
    ] {
        assert!(cells.contains(&("bursts", method)), "{method}");
    }
    assert!(cells.contains(&("requests", "netalytics-http")));
    rows.iter().for_each(is_plausible);
    // On a busy machine, the switch or the traffic may pause for a whole measurement, but not for all of a block.
    for block in ["bulk", "bursts", "requests", "flows"] {
        let of_block = rows.iter().filter(|row| row.text("block") == block);
        let forwarded: f64 = of_block.map(|row| row.number("forwarded")).sum();
        assert!(forwarded > 0.0, "{block}");
    }

    // The script itself ends with an error if packets of a block are neither forwarded nor counted as dropped.
    let machine: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("machine.json")).expect("machine.json"))
            .expect("JSON");
    assert!(
        machine["balanced_packets"].as_u64() > Some(10_000),
        "{machine}"
    );
    let costs = fs::read_to_string(out.join("costs.toml")).expect("costs");
    PlanCosts::parse(&costs).unwrap_or_else(|why| panic!("{why}\n{costs}"));
    let page = fs::read_to_string(out.join("README.md")).expect("a page");
    assert!(page.contains("| sFlow 1:1 |"), "{page}");

    for signal in ["TERM", "KILL"] {
        let ended = mark(&format!("study-{signal}"));
        let mut program = study(&ended, &folder.path().join(signal), &temporary)
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        wait_for("its switch and its traffic", || {
            let names = at_work(&ended);
            let is_at_work = |name: &str| names.iter().any(|other| other == name);
            if is_at_work("ovs-vswitchd") && is_at_work("traffic") {
                Ok(())
            } else {
                Err(format!("{names:?}"))
            }
        });
        let pid = program.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.expect("kill").success());
        assert!(!program.wait().expect("it ends").success());
        wait_for("the end of all that it has started", || {
            let names = at_work(&ended);
            if names.is_empty() {
                Ok(())
            } else {
                Err(format!("{names:?}"))
            }
        });
    }
    assert_eq!(fs::read_dir(&temporary).expect("a folder").count(), 0);
}

/// Values within physical limits; samples and copies that agree with the packets. Never a speed.
fn is_plausible(row: &Row) {
    let number = |name: &str| row.number(name);
    let seconds = number("seconds");
    assert!(seconds >= 0.18, "{:?}", row.0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    for name in [
        "switch_cpu_s",
        "traffic_cpu_s",
        "monitor_cpu_s",
        "collector_cpu_s",
    ] {
        assert!(
            (0.0..=cores * seconds * SKEW).contains(&number(name)),
            "{name}: {:?}",
            row.0
        );
    }
    // On a busy machine, the switch may not run at all during a short measurement.
    assert!(
        number("switch_cpu_s") > 0.0 || number("forwarded") == 0.0,
        "{:?}",
        row.0
    );
    assert_eq!(number("undecodable"), 0.0, "{:?}", row.0);
    let forwarded = number("forwarded");
    let reports = number("reports");
    // Packets and samples in queues at the start and the end.
    let pending = 300.0 + 0.1 * forwarded;
    let rate = number("rate");
    // The switch observes each packet at its entry and at its exit.
    let expected = match row.text("method") {
        "sflow" => forwarded / rate,
        "ipfix" => 2.0 * forwarded / rate,
        "netflow" => return,
        _ => 0.0,
    };
    let lost = 10.0 * number("lost_datagrams");
    let likely = 5.0 * expected.sqrt() + lost;
    assert!(
        (reports - expected).abs() <= likely + if expected > 0.0 { pending } else { 0.0 },
        "{:?}",
        row.0
    );
    let is_mirrored = matches!(
        row.text("method"),
        "mirror" | "netalytics-packets" | "netalytics-http"
    );
    if is_mirrored {
        // With two hosts, each packet passes the mirrored port.
        let copied = number("mirrored") - forwarded;
        assert!(copied.abs() <= pending, "{:?}", row.0);
    } else {
        assert_eq!(number("mirrored"), 0.0, "{:?}", row.0);
    }
}
