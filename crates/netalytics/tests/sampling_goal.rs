//! SAMPLE auto ERROR and BUDGET over captures: the rate that is found, the error that is stated, and the packets
//! themselves.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use telemetry::{HeaderProtocol, SflowEncoder, SflowEncoderConfig};
use testkit::packet::tcp_info;
use testkit::{ByteOrder, SeededRng, SentPacket, TimestampPrecision, pcap_bytes};
use wire::Timestamp;
use wire::packet::TcpFlags;

const SECOND: i64 = 1_000_000_000;
const NOW: Timestamp = Timestamp(1_700_000_000 * SECOND);

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netalytics"))
        .args(args)
        .output()
        .expect("the program")
}

/// Rows, the summary in JSON, and standard error.
fn ask(args: &[&str]) -> (Vec<Value>, Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let summary = folder.path().join("summary.json");
    let path = summary.to_str().expect("text");
    let output = run(&[
        &["query", "--format", "jsonl", "--summary-json", path],
        args,
    ]
    .concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {errors}");
    let rows = String::from_utf8(output.stdout).expect("text");
    let rows = rows
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let summary = fs::read_to_string(&summary).expect("a summary");
    (rows, serde_json::from_str(&summary).expect("JSON"), errors)
}

fn end(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn write(path: &Path, packets: &[SentPacket]) {
    let bytes = pcap_bytes(packets, TimestampPrecision::Nanos, ByteOrder::Little);
    fs::write(path, bytes).expect("a capture");
}

/// Whether the true count is in the row's interval.
fn is_covered(row: &Value, truth: u64) -> bool {
    let truth = truth as f64;
    row["count_low"].as_f64().is_none_or(|low| low <= truth)
        && row["count_high"].as_f64().is_none_or(|high| truth <= high)
}

/// The median rate of these rows.
fn median_rate(rows: &[Value]) -> f64 {
    let mut rates: Vec<f64> = rows
        .iter()
        .filter_map(|row| row["sampled_at"].as_f64())
        .collect();
    rates.sort_unstable_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn share(rows: &[Value], is: impl Fn(&Value) -> bool) -> f64 {
    rows.iter().filter(|row| is(row)).count() as f64 / rows.len() as f64
}

/// The connections of each second: they double after 25 seconds, and halve after 45.
fn connections(second: i64) -> u64 {
    if (25..45).contains(&second) {
        6000
    } else {
        3000
    }
}

/// 70 seconds of connections, each with one packet.
fn connecting(path: &Path) {
    let mut packets = Vec::new();
    let mut number = 0u32;
    for second in 0..70 {
        let n = connections(second);
        for i in 0..n {
            number += 1;
            let ts = NOW.plus(second * SECOND + (i as i64 * 999_000_000) / n as i64);
            let [_, a, b, c] = number.to_be_bytes();
            let client = SocketAddr::from(([10, a, b, c], 40_000));
            let syn = tcp_info(1, 0, TcpFlags::SYN);
            packets.push(SentPacket::tcp(ts, (client, end("192.0.2.1:80")), syn, b""));
        }
    }
    write(path, &packets);
}

#[test]
fn the_rate_of_packets_follows_the_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("connections.pcap");
    connecting(&path);
    let file = path.to_str().expect("text");
    let query = "PARSE tcp_flow_key SAMPLE auto ERROR 10% PROCESS (count: w=1s)";
    let (rows, summary, errors) = ask(&["-r", file, query]);
    assert_eq!(rows.len(), 70);
    // The query begins with all flows.
    assert_eq!(rows[0]["sampled_at"], 1.0);
    assert_eq!(rows[0]["count"], 3000);
    let rate = |from: usize, to: usize| median_rate(&rows[from..to]);
    let before = rate(12, 25);
    let doubled = rate(33, 45);
    let halved = rate(50, 70);
    // ± 10 % of 3,000 need 400 to 900 samples.
    assert!((0.13..0.35).contains(&before), "{before}");
    assert!(
        (0.35..0.75).contains(&(doubled / before)),
        "{before} {doubled}"
    );
    assert!(
        (1.35..2.8).contains(&(halved / doubled)),
        "{doubled} {halved}"
    );
    let settled = share(&rows[6..], |row| row["within_error"] == true);
    assert!(settled >= 0.75, "{settled}\n{errors}");
    let truth = (0i64..).map(connections);
    let covered = rows.iter().zip(truth);
    let covered = covered
        .filter(|(row, truth)| is_covered(row, *truth))
        .count();
    assert!(covered >= 62, "{covered} of 70");
    for row in &rows {
        let count = row["count"].as_f64().expect("a number");
        let error = row["relative_error"].as_f64();
        let high = row["count_high"].as_f64();
        let stated = high.map(|high| high / count - 1.0);
        let off = error.zip(stated).map_or(0.0, |(a, b)| (a - b).abs());
        assert!(off < 0.01, "{row}");
        let is_within = error.is_some_and(|error| error <= 0.1);
        assert_eq!(row["within_error"], is_within, "{row}");
    }
    let goal = &summary["sampling_goal"];
    let number = |name: &str| goal[name].as_f64().expect("a number");
    let within = share(&rows, |row| row["within_error"] == true) * 70.0;
    assert_eq!(number("held"), within.round());
    assert_eq!((number("windows"), number("error_max")), (70.0, 0.1));
    assert!(number("rate_lowest") <= doubled && number("rate_highest") == 1.0);
    assert!(errors.contains("of 70 windows within ± 10 %"), "{errors}");
    // The rows of a file do not depend on the speed of threads.
    let (again, ..) = ask(&["-r", file, query]);
    assert_eq!(rows, again);
}

/// Sampled datagrams of 60 seconds with 20,000 packets each.
fn sampled(path: &Path, rate: u32) {
    let mut rng = SeededRng::new(u64::from(rate));
    let mut encoder = SflowEncoder::new(SflowEncoderConfig {
        agent: IpAddr::from([10, 0, 0, 254]),
        sub_agent: 0,
        rate,
        header_len: 128,
        max_len: 1400,
        started: NOW.plus(-100 * SECOND),
    });
    let mut datagrams = Vec::new();
    let mut pool = 0;
    for second in 0..60 {
        for n in 0..20_000 {
            let ts = NOW.plus(second * SECOND + n * 49_000);
            pool += 1;
            if rng.below(u64::from(rate)) > 0 {
                continue;
            }
            let ends = (end("10.1.0.1:4000"), end("10.2.0.1:53"));
            let bytes = SentPacket::udp(ts, ends, &[0; 400]).to_bytes();
            let length = bytes.len() as u32;
            encoder.push(
                HeaderProtocol::Ethernet,
                length,
                &bytes,
                pool,
                ts,
                &mut |message| datagrams.push((ts, message.to_vec())),
            );
        }
        let last = NOW.plus(second * SECOND + 990_000_000);
        encoder.flush(last, &mut |message| {
            datagrams.push((last, message.to_vec()));
        });
    }
    let ends = (end("10.0.0.254:50000"), end("10.9.9.9:6343"));
    let packets: Vec<SentPacket> = datagrams
        .iter()
        .map(|(ts, bytes)| SentPacket::udp(*ts, ends, bytes))
        .collect();
    write(path, &packets);
}

#[test]
fn the_rate_that_suffices_for_exporters_suffices() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("samples.pcap");
    let query = "PARSE packet SAMPLE auto ERROR 10% PROCESS (count: w=1s)";
    let look = |rate: u32| {
        sampled(&path, rate);
        let file = path.to_str().expect("text");
        let (rows, summary, errors) = ask(&["-r", file, "--exports", query]);
        assert_eq!(rows.len(), 60);
        let covered = share(&rows, |row| is_covered(row, 20_000));
        assert!(covered >= 0.87, "{covered} at 1/{rate}");
        let held = share(&rows, |row| row["within_error"] == true);
        let goal = &summary["sampling_goal"];
        assert_eq!(goal["is_set"], false);
        assert!(
            errors.contains(&format!("1/{rate} at the exporters")),
            "{errors}"
        );
        (1.0 / goal["sufficient"].as_f64().expect("a rate"), held)
    };
    // From a rate too low, and from one too high.
    let (from_low, held) = look(400);
    assert!(held < 0.05, "{held}");
    let (from_high, held) = look(4);
    assert!(held > 0.9, "{held}");
    for sufficient in [from_low, from_high] {
        assert!((16.0..48.0).contains(&sufficient), "{sufficient}");
    }
    let (_, held) = look(from_low.round() as u32);
    assert!(held >= 0.8, "{held} at 1/{from_low}");
    let (_, held) = look(3 * from_low.round() as u32);
    assert!(held <= 0.2, "{held} at a third of 1/{from_low}");
}

#[test]
fn a_budget_states_the_error_that_it_buys() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("samples.pcap");
    let costs = folder.path().join("costs.toml");
    fs::write(&costs, "[export]\nsflow_sample_ns = 10000.0\n").expect("a file");
    sampled(&path, 20);
    let [file, costs] = [&path, &costs].map(|path| path.to_str().expect("text"));
    let look = |sample: &str| {
        let query = format!("PARSE packet {sample} PROCESS (count: w=1s)");
        let (_, summary, errors) = ask(&["-r", file, "--exports", "--costs", costs, &query]);
        (summary["sampling_goal"].clone(), errors)
    };
    // 1,000 samples per second of 10 µs each are 1 % of a core.
    let (goal, errors) = look("SAMPLE auto BUDGET cpu=2%");
    let cpu = goal["cpu"].as_f64().expect("a share");
    assert!((0.008..0.012).contains(&cpu), "{cpu}");
    let error = goal["error"].as_f64().expect("an error");
    assert!((0.04..0.1).contains(&error), "{error}");
    assert_eq!(
        (&goal["over_budget"], &goal["verdict"]),
        (&0.into(), &"no bound".into())
    );
    assert!(
        errors.contains("of a core of the exporters, budget 2 %"),
        "{errors}"
    );
    // ± 1 % needs more than half of the packets: thirty times the budget.
    let (goal, errors) = look("SAMPLE auto ERROR 1% BUDGET cpu=0.5%");
    assert_eq!(goal["held"], 0);
    assert!(
        goal["budget_short"].as_u64().expect("a number") > 40,
        "{goal}"
    );
    assert!(errors.contains("budget too small"), "{errors}");
    let (goal, _) = look("SAMPLE auto BUDGET cpu=0.1%");
    assert_eq!(goal["over_budget"], 60);
}

#[test]
fn goals_that_cannot_be_reached_are_refused_before_the_query_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("samples.pcap");
    write(&path, &[]);
    let file = path.to_str().expect("text");
    for (query, words) in [
        (
            "PARSE http SAMPLE auto ERROR 5% PROCESS (max: value=response_bytes, w=10s)",
            "the intervals of other aggregates, such as extreme values, do not have a relative error",
        ),
        (
            "PARSE http SAMPLE auto ERROR 5%",
            "tuples have none: add PROCESS",
        ),
        (
            "PARSE http SAMPLE auto ERROR 5% PROCESS count",
            "add a window to every processor",
        ),
        (
            "PARSE http SAMPLE auto ERROR 5% PROCESS (count: w=1s), (count: w=2s)",
            "the same window in every processor",
        ),
        (
            "PARSE http SAMPLE 0.1 ERROR 5% PROCESS (count: w=1s)",
            "write SAMPLE auto ERROR 5%",
        ),
        (
            "PARSE http SAMPLE auto ERROR 0 PROCESS (count: w=1s)",
            "is not a relative error",
        ),
        (
            "PARSE http SAMPLE auto ERROR PROCESS (count: w=1s)",
            "an error such as 5%",
        ),
        (
            "PARSE http ERROR 5% PROCESS (count: w=1s)",
            "it follows the rate: SAMPLE auto ERROR 5%",
        ),
        (
            "PARSE http SAMPLE auto BUDGET cpu=5% PROCESS (count: w=1s)",
            "files are read as fast as possible",
        ),
        (
            "PARSE http SAMPLE auto BUDGET cpu=5%, bandwidth=1Mbps PROCESS (count: w=1s)",
            "this query has no network",
        ),
        (
            "PARSE http BUDGET cpu=5% PROCESS (count: w=1s)",
            "this query has no network",
        ),
    ] {
        let output = run(&["query", "-r", file, query]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{query}: {errors}");
        assert!(errors.contains(words), "{query}: {errors}");
    }
    for (query, words) in [
        (
            "PARSE flow SAMPLE auto ERROR 5% PROCESS (count: w=1s)",
            "that of a sum or throughput",
        ),
        (
            "PARSE flow SAMPLE auto BUDGET cpu=5% PROCESS (sum: value=client_bytes, w=1s)",
            "flow records do not state their number",
        ),
        (
            "PARSE packet SAMPLE auto PROCESS (count: w=1s)",
            "SAMPLE auto ERROR 5% reports the rate that suffices",
        ),
    ] {
        let output = run(&["query", "-r", file, "--exports", query]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{query}: {errors}");
        assert!(errors.contains(words), "{query}: {errors}");
    }
}

#[test]
fn explain_states_the_goal() {
    let query = "PARSE packet SAMPLE auto ERROR 5% BUDGET cpu=2.5% \
                 PROCESS (count-sum-max: value=packet_bytes, w=10s)";
    let output = run(&["explain", query]);
    let text = String::from_utf8_lossy(&output.stdout);
    let line = "the lowest at which count, sum_bytes of the ten largest groups are within ± 5 %, \
                with at most 2.5 % of the CPU time";
    assert!(text.contains(line), "{text}");
}
