//! SAMPLE auto in a network (docs/explain.md): for a throttled monitor, its switch mirrors fewer flows. Scaled counts
//! equal the servers' logs, and at the end switches mirror nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::capture::{BINARY, Capture, text};
use crate::net::within;
use crate::testbed::{TestBed, without_sniffers};

/// Connections to the application servers, by client.
const QUERY: &str =
    "PARSE tcp_flow_key TO 10.60.2.0/24:8000 SAMPLE auto PROCESS (group-count: group=client_ip)";
const PROXY: &str = "10.60.1.3";
const REQUESTS: u64 = 1500;

/// A monitor suspended for 19/20 of the time, as on an overloaded host, while this file exists.
const HELD_UP: &str = r#"#!/bin/bash
exec 3<&0
"$PROGRAM" "$@" --buffer-size 16M <&3 &
while [ -e "$FILE" ] && kill -STOP $!; do sleep 1; kill -CONT $!; sleep 0.05; done
wait $!
"#;

/// Opens and closes some hundred connections per second until it is ended.
const CONNECTIONS: &str = "
import socket, time
while True:
    try:
        socket.create_connection(('10.60.2.1', 8000), timeout=5).close()
    except OSError:
        pass
    time.sleep(0.004)
";

#[test]
fn a_monitor_that_is_held_up_gets_fewer_flows() {
    let Some(bed) = TestBed::new() else { return };
    bed.run(&["up"], &[]);
    bed.run(&["load", "--requests", "50"], &[]);
    let [file, held_up, program] =
        ["asked.toml", "held-up", "monitor.sh"].map(|name| bed.path(name));
    let network = fs::read_to_string(bed.path("network.toml")).expect("a network");
    fs::write(&file, without_sniffers(&network)).expect("a file");
    fs::write(&held_up, "").expect("a file");
    let script = HELD_UP
        .replace("$PROGRAM", BINARY)
        .replace("$FILE", held_up.to_str().expect("text"));
    fs::write(&program, script).expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let [file, program] = [&file, &program].map(|path| path.to_str().expect("text"));

    let mut query = Capture::of(
        Command::new(BINARY),
        QUERY,
        &["--network", file, "--exact", "--monitor-program", program],
    );
    let all = bed.copies("leaf2");
    assert!(all.contains("rules") && !all.contains("tp_src=0x"), "{all}");
    let client = &mut within(&format!("{}client2", bed.prefix()), "python3");
    let mut opening = client
        .args(["-c", CONNECTIONS])
        .stdin(Stdio::null())
        .spawn()
        .expect("python3");
    query.wait_for("note: leaf2 copies 1/");
    let fewer = bed.copies("leaf2");
    fs::remove_file(&held_up).expect("it exists");
    opening.kill().expect("it runs");
    opening.wait().expect("it ends");
    assert!(
        fewer.contains("tp_src=0x") && fewer.contains("tp_dst=0x"),
        "{fewer}"
    );

    // The monitor's own rate recovers while the switch still mirrors a part.
    sleep(Duration::from_secs(24));
    let requests = || {
        ["app1.requests", "app2.requests"]
            .map(|log| bed.log(log).len() as u64)
            .iter()
            .sum::<u64>()
    };
    let before = requests();
    let n = REQUESTS.to_string();
    bed.run(
        &["load", "--requests", &n, "--clients", "8", "--think", "0"],
        &[],
    );
    testkit::programs::wait_for("the last log lines", || {
        let logged = requests() - before;
        if logged >= REQUESTS {
            Ok(())
        } else {
            Err(format!("{logged} requests"))
        }
    });
    assert!(bed.copies("leaf2").contains("tp_src=0x"));
    let logged = (requests() - before) as f64;
    let asked = query.interrupt();
    assert_eq!(asked.code, Some(0), "{}", asked.err);
    let of_proxy = |row: &&Value| text(&row["client_ip"]) == PROXY;
    match asked.rows.iter().find(of_proxy) {
        Some(row) => {
            let count = row["count"].as_f64().expect("a number");
            // An unbounded end of the interval, from too few flows, is null.
            let [low, high] = [("count_low", 0.0), ("count_high", f64::INFINITY)]
                .map(|(name, end)| row[name].as_f64().unwrap_or(end));
            eprintln!(
                "{logged} logged, {count} counted, from {low} to {high}\n{}",
                asked.err
            );
            // Twice the width of a 95 % interval, so that it always holds.
            assert!(
                low < count && (count - logged).abs() <= high - low,
                "{logged} logged, {count} counted, {low} to {high}"
            );
        }
        // The minimum of its rate depends on the machine.
        None => testkit::print_uncaptured(
            "live: the sample has no flow of the load; no count was compared",
        ),
    }
    assert!(asked.count("/monitored/sampled_out") > 0 && asked.count("/monitored/malformed") == 0);
    let changes = asked
        .summary
        .pointer("/sampling")
        .and_then(Value::as_array)
        .expect("changes");
    assert!(
        changes
            .iter()
            .any(|change| change["copied"].as_f64().is_some_and(|share| share < 1.0)),
        "{changes:?}"
    );
    for leaf in ["leaf1", "leaf2", "leaf3"] {
        assert_eq!(bed.copies(leaf), "", "{leaf}");
    }
}
