//! Queries over export messages of switches and routers: sFlow, NetFlow, IPFIX.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use telemetry::{
    ExportDomain, ExportProtocol, ExportedFlow, FlowDirection, FlowEncoder, FlowEncoderConfig,
    HeaderProtocol, OutgoingRecord, SflowEncoder, SflowEncoderConfig,
};
use testkit::{ByteOrder, SeededRng, SentPacket, TimestampPrecision, pcap_bytes};
use wire::Timestamp;

const BINARY: &str = env!("CARGO_BIN_EXE_netalytics");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const CAPTURES: &str = "../shared/data/captures/flowexport";
const SECOND: i64 = 1_000_000_000;
/// A full second: NetFlow and IPFIX headers have no fractions.
const NOW: Timestamp = Timestamp(1_700_000_000 * SECOND);

/// Rows, and the summary.
fn ask(args: &[&str]) -> (Vec<Value>, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let summary = folder.path().join("summary.json");
    let output = Command::new(BINARY)
        .args(["query", "--format", "jsonl", "--exports", "--summary-json"])
        .arg(&summary)
        .args(args)
        .current_dir(ROOT)
        .output()
        .expect("the program");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    let rows = String::from_utf8(output.stdout).expect("text");
    let rows = rows
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let summary = std::fs::read_to_string(&summary).expect("a summary");
    (rows, serde_json::from_str(&summary).expect("JSON"))
}

fn refused(args: &[&str], words: &str) {
    let output = Command::new(BINARY)
        .arg("query")
        .args(args)
        .current_dir(ROOT)
        .output()
        .expect("the program");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
    assert!(errors.contains(words), "{args:?}: {errors}");
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("a number, not {value}"))
}

fn end(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A capture of datagrams from `exporter`.
fn capture(path: &Path, exporter: &str, datagrams: &[(Timestamp, Vec<u8>)]) {
    let packets: Vec<SentPacket> = datagrams
        .iter()
        .map(|(ts, bytes)| SentPacket::udp(*ts, (end(exporter), end("10.9.9.9:6343")), bytes))
        .collect();
    let bytes = pcap_bytes(&packets, TimestampPrecision::Nanos, ByteOrder::Little);
    std::fs::write(path, bytes).expect("a capture");
}

fn agent(rate: u32) -> SflowEncoder {
    SflowEncoder::new(SflowEncoderConfig {
        agent: IpAddr::from([10, 0, 0, 254]),
        sub_agent: 0,
        rate,
        header_len: 128,
        max_len: 1400,
        started: NOW.plus(-100 * SECOND),
    })
}

fn flow_encoder(protocol: ExportProtocol) -> FlowEncoder {
    FlowEncoder::new(FlowEncoderConfig {
        protocol,
        domain: 7,
        max_len: 1400,
        template_interval_ns: 60 * SECOND,
        template_messages: 1_000_000,
        started: NOW.plus(-1000 * SECOND),
    })
}

/// A record of 10 packets and 1,000 bytes from `from` to `to`.
fn record(protocol: ExportProtocol, from: &str, to: &str) -> ExportedFlow<'static> {
    let domain = ExportDomain {
        exporter: IpAddr::from([10, 0, 0, 254]),
        port: 0,
        protocol,
        id: 7,
    };
    let mut flow = ExportedFlow::new(domain, NOW);
    let from = end(from);
    let to = end(to);
    flow.start = Some(NOW.plus(-5 * SECOND));
    flow.end = Some(NOW.plus(-SECOND));
    flow.source = Some(from.ip());
    flow.source_port = Some(from.port());
    flow.destination = Some(to.ip());
    flow.destination_port = Some(to.port());
    flow.protocol = Some(6);
    flow.packets = Some(10);
    flow.bytes = Some(1000);
    flow
}

/// Messages with these records.
fn messages(protocol: ExportProtocol, flows: &[ExportedFlow<'_>]) -> Vec<(Timestamp, Vec<u8>)> {
    let mut encoder = flow_encoder(protocol);
    let mut sent = Vec::new();
    let mut send = |message: &[u8]| sent.push((NOW.plus(SECOND / 2), message.to_vec()));
    flows
        .iter()
        .for_each(|flow| encoder.push(flow, NOW, &mut send).expect("a record"));
    encoder.flush(NOW, &mut send);
    sent
}

/// Datagrams of NetFlow v5 with `n` records of 10 packets and 1,000 bytes, sampled at one in `interval`. The layout is
/// that of Cisco's "NetFlow Export Datagram Format".
fn netflow5(n: u32, interval: u16) -> Vec<(Timestamp, Vec<u8>)> {
    const RECORDS: u32 = 30;
    let uptime_ms = 1_000_000u32;
    let mut datagrams = Vec::new();
    for first in (0..n).step_by(RECORDS as usize) {
        let count = RECORDS.min(n - first);
        let mut datagram = [5u16.to_be_bytes(), (count as u16).to_be_bytes()].concat();
        for word in [uptime_ms, (NOW.0 / SECOND) as u32, 0, first] {
            datagram.extend(word.to_be_bytes());
        }
        // Engine type and number; mode 1 and the interval.
        datagram.extend([1, 7]);
        datagram.extend((1 << 14 | interval).to_be_bytes());
        for number in first..first + count {
            datagram.extend([10, 1, (number / 250) as u8, (number % 250 + 1) as u8]);
            datagram.extend([10, 2, 0, 1, 0, 0, 0, 0, 0, 1, 0, 2]);
            for word in [10, 1000, uptime_ms - 5000, uptime_ms - 1000] {
                datagram.extend(word.to_be_bytes());
            }
            datagram.extend((40_000 + (number % 1000) as u16).to_be_bytes());
            datagram.extend(443u16.to_be_bytes());
            datagram.extend([0, 0x18, 6, 0, 0, 0, 0, 0, 24, 24, 0, 0]);
        }
        datagrams.push((NOW.plus(SECOND / 2), datagram));
    }
    datagrams
}

/// 200 seconds of traffic of 30 senders, sampled at one in `rate`. Returns packets and bytes by second. `loses` selects
/// datagrams that do not arrive.
fn sampled_seconds(
    path: &Path,
    rate: u32,
    mut loses: impl FnMut(&mut SeededRng) -> bool,
) -> Vec<[u64; 2]> {
    let mut rng = SeededRng::new(17);
    let mut encoder = agent(rate);
    let mut datagrams = Vec::new();
    let mut truth = Vec::new();
    let mut pool = 0;
    let payload = vec![0; 1400];
    for second in 0..200 {
        let mut of_second = [0, 0];
        let packets = 40_000 + rng.below(20_000);
        for n in 0..packets {
            let ts = NOW.plus(second * SECOND + (n * 999_000_000 / packets) as i64);
            let sender = rng.below(30);
            // Some senders use large packets, some small ones.
            let len = if sender < 10 { 1400 } else { rng.below(200) };
            pool += 1;
            of_second[0] += 1;
            of_second[1] += 14 + 20 + 8 + len;
            if rng.below(u64::from(rate)) > 0 {
                continue;
            }
            let from = end(&format!("10.1.0.{}:4000", sender + 1));
            let packet = SentPacket::udp(ts, (from, end("10.2.0.1:53")), &payload[..len as usize]);
            let bytes = packet.to_bytes();
            encoder.push(
                HeaderProtocol::Ethernet,
                bytes.len() as u32,
                &bytes,
                pool,
                ts,
                &mut |message| datagrams.push((ts, message.to_vec())),
            );
        }
        let last = NOW.plus(second * SECOND + 999_500_000);
        encoder.flush(last, &mut |message| {
            datagrams.push((last, message.to_vec()))
        });
        truth.push(of_second);
    }
    datagrams.retain(|_| !loses(&mut rng));
    capture(path, "10.0.0.254:50000", &datagrams);
    truth
}

/// Seconds whose packets and bytes lie in the intervals of the rows. An open upper end contains everything; most are
/// closed, and narrow.
fn covered(rows: &[Value], truth: &[[u64; 2]]) -> [usize; 2] {
    assert_eq!(rows.len(), truth.len());
    let mut covered = [0, 0];
    let mut open = 0;
    for (row, truth) in rows.iter().zip(truth) {
        for (i, name) in ["count", "sum_bytes"].iter().enumerate() {
            let truth = truth[i] as f64;
            let low = number(&row[format!("{name}_low")]);
            let high = row[format!("{name}_high")].as_f64();
            covered[i] += usize::from(low <= truth && high.is_none_or(|high| truth <= high));
            open += usize::from(high.is_none());
            let is_narrow = high.is_none_or(|high| high - low < 0.5 * truth);
            assert!(is_narrow || !row["lost"].is_null(), "useless: {row}");
        }
    }
    assert!(open < rows.len() / 5, "{open} open ends");
    covered
}

#[test]
fn intervals_of_samples_contain_the_packets() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sampled.pcap");
    let query = "PARSE packet PROCESS (count-sum: value=packet_bytes, w=1s)";
    let file = path.to_str().expect("text");
    for loss in [0.0, 0.03] {
        let truth = sampled_seconds(&path, 100, |rng| rng.chance(loss));
        let (rows, summary) = ask(&["-r", file, query]);
        let [packets, bytes] = covered(&rows, &truth);
        assert!(
            packets >= 186 && bytes >= 186,
            "{packets} and {bytes} of 200"
        );
        let exports = &summary["exports"];
        assert_eq!(exports["samples"], exports["samples_read"]);
        let lost = number(&exports["loss"]);
        assert!((lost - loss).abs() < 0.01, "{lost} is not {loss}");
        assert_eq!(rows[199]["lost"].is_null(), loss == 0.0);
    }
}

/// The counters of a real switch: last report minus the first, as tshark 4.0 decodes them.
#[test]
fn interfaces_have_the_differences_of_their_counters() {
    let file = format!("{CAPTURES}/wswiki-sFlow-v5-100-ping-per-second.pcap");
    let values = [
        "in_bytes",
        "in_packets",
        "in_errors",
        "in_discards",
        "out_bytes",
        "out_packets",
        "out_errors",
        "out_discards",
    ];
    let sums = |query: &str| {
        let (rows, summary) = ask(&["-r", &file, query]);
        let [row] = &rows[..] else { panic!("{rows:?}") };
        let exports = &summary["exports"];
        assert_eq!(exports["interface_counters"], 967, "{exports}");
        // The first report of each of 24 interfaces is a base only.
        assert_eq!(exports["interface_counters_read"], 943, "{exports}");
        values.map(|name| number(&row[&format!("sum_{name}")]) as u64)
    };
    let all = values
        .map(|name| format!("sum({name}) AS sum_{name}"))
        .join(", ");
    assert_eq!(
        sums(&format!("SELECT {all} FROM interface")),
        [9_144_983, 88_205, 0, 0, 9_837_412, 90_652, 2, 0]
    );
    assert_eq!(
        sums(&format!("SELECT {all} FROM interface WHERE interface = 21")),
        [4_454_380, 43_648, 0, 0, 4_628_457, 44_613, 0, 0]
    );
    let (rows, _) = ask(&["-r", &file, "PARSE interface WHERE interface = 21"]);
    assert_eq!(rows.len(), 37);
    assert_eq!(
        (&rows[0]["exporter"], &rows[0]["speed"]),
        (&"10.0.0.250".into(), &100_000_000.into())
    );
}

#[test]
fn a_sampled_record_counts_once_and_its_counters_are_scaled() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("v5.pcap");
    let file = path.to_str().expect("text");
    capture(&path, "10.0.0.254:50000", &netflow5(5000, 64));
    let query = "PARSE flow PROCESS (count-sum: value=client_packets, client_bytes), (avg: value=duration_ns)";
    let (rows, summary) = ask(&["-r", file, query]);
    let row = &rows[0];
    assert_eq!(row["count"], 5000);
    assert_eq!(row["count_low"], 5000.0);
    assert!(
        row["count_high"].is_null(),
        "flows without a sampled packet are unknown: {row}"
    );
    assert_eq!(row["sum_client_packets"], 5000 * 10 * 64);
    assert_eq!(row["sum_client_bytes"], 5000 * 1000 * 64);
    assert!(number(&row["sum_client_packets_low"]) < 3_200_000.0);
    assert!(number(&row["sum_client_packets_high"]) > 3_200_000.0);
    assert_eq!(rows[1]["avg_ns"], 4e9);
    assert_eq!(summary["exports"]["assumed_rates"], 0);
    let (rows, _) = ask(&["-r", file, "PARSE flow LIMIT 1 ROWS"]);
    for (field, value) in [
        ("client_packets", Value::from(640)),
        ("server_packets", Value::Null),
        ("packet_rate", Value::from(1.0 / 64.0)),
        ("rate_from", Value::from("options")),
        ("exporter", Value::from("10.0.0.254")),
        ("observation_domain", Value::from(0x0107)),
        ("server_port", Value::from(443)),
        ("client_guessed", Value::from(true)),
        ("handshake_ns", Value::Null),
    ] {
        assert_eq!(rows[0][field], value, "{field}");
    }
}

#[test]
fn a_flow_that_is_observed_twice_counts_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("twice.pcap");
    let mut flows = Vec::new();
    for n in 0..6000 {
        let client = format!("10.1.0.1:{}", 10_000 + n);
        let server = "10.2.0.1:80";
        for (from, to) in [(client.as_str(), server), (server, client.as_str())] {
            for direction in [FlowDirection::Ingress, FlowDirection::Egress] {
                let mut flow = record(ExportProtocol::Netflow9, from, to);
                flow.direction = Some(direction);
                flows.push(flow);
            }
        }
    }
    capture(
        &path,
        "10.0.0.254:50000",
        &messages(ExportProtocol::Netflow9, &flows),
    );
    let query = "PARSE flow PROCESS (count-sum: value=client_packets, server_packets)";
    let (rows, summary) = ask(&["-r", path.to_str().expect("text"), query]);
    assert_eq!(rows[0]["count"], 12_000);
    assert_eq!(rows[0]["sum_client_packets"], 60_000);
    assert_eq!(rows[0]["sum_server_packets"], 60_000);
    assert_eq!(summary["exports"]["reported_twice"], 12_000);
}

/// An exporter whose clock is two hours late: times follow the receiver's clock, and the summary says so.
#[test]
fn a_wrong_clock_is_corrected_and_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("clock.pcap");
    let flows = [record(
        ExportProtocol::Ipfix,
        "10.1.0.1:4000",
        "10.2.0.1:80",
    )];
    let late = messages(ExportProtocol::Ipfix, &flows)
        .into_iter()
        .map(|(ts, bytes)| (ts.plus(7200 * SECOND), bytes));
    capture(&path, "10.0.0.254:50000", &late.collect::<Vec<_>>());
    let (rows, summary) = ask(&["-r", path.to_str().expect("text"), "PARSE flow"]);
    let ts = rows[0]["ts"].as_i64().expect("a time");
    let expected = NOW.plus(7200 * SECOND + SECOND / 2 - 5 * SECOND).0;
    assert!((ts - expected).abs() < SECOND, "{ts} is not {expected}");
    let offset = &summary["exports"]["by_exporter"][0]["clock_offset_ns"];
    assert_eq!(number(offset), -(7200.0 * 1e9 + 5e8));
}

/// Every record of real exporters is a row, or is counted with the reason.
#[test]
fn every_record_of_real_exporters_is_accounted_for() {
    let folder = Path::new(ROOT).join(CAPTURES);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("captures")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "pcap")
        })
        .collect();
    files.sort();
    assert!(files.len() > 15, "{files:?}");
    let mut rows_of_all = 0;
    for path in files {
        let file = path.to_str().expect("text");
        for parser in ["packet", "flow"] {
            let (rows, summary) = ask(&["-r", file, &format!("PARSE {parser}")]);
            let exports = &summary["exports"];
            let of = |name: &str| exports[name].as_u64().unwrap_or(0);
            let read = of("samples_read") + of("flow_records_read");
            assert_eq!(rows.len() as u64, read, "{file} {parser}");
            let all = of("samples") + of("flow_records") + of("discarded_packets");
            let others = ["unread", "filtered", "reported_twice", "undecodable"].map(of);
            assert_eq!(
                read + others.iter().sum::<u64>(),
                all,
                "{file} {parser}: {exports}"
            );
            assert_eq!(summary["packets"]["adds_up"], true, "{file}");
            rows_of_all += read;
        }
    }
    assert!(rows_of_all > 1000, "{rows_of_all}");
}

#[test]
fn queries_that_exports_cannot_answer_are_refused_before_they_run() {
    let file = format!("{CAPTURES}/akvorado-nfv5.pcap");
    let with = |query: &'static str| {
        [
            "-r".to_owned(),
            file.clone(),
            "--exports".into(),
            query.into(),
        ]
    };
    for (query, words) in [
        ("PARSE http", "response times cannot be derived"),
        ("PARSE tcp_conn_time", "PARSE packet or PARSE flow"),
        (
            "PARSE flow PROCESS (quantile: value=handshake_ns)",
            "handshake_ns is measured",
        ),
        (
            "PARSE flow WHERE retransmissions > 0",
            "retransmissions is measured",
        ),
        ("PARSE flow SAMPLE 0.1", "exporters sample"),
        ("PARSE (flow, packet)", "joined"),
        (
            "PARSE interface FROM 10.0.0.1:*",
            "no addresses for FROM and TO",
        ),
        (
            "PARSE interface SAMPLE auto ERROR 5% PROCESS (sum: value=in_bytes, w=10s)",
            "not sampled",
        ),
    ] {
        let args = with(query);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        refused(&args, words);
    }
    refused(&["-r", &file, "PARSE interface"], "add --exports");
    refused(
        &[
            "--listen",
            "sflow://127.0.0.1:1,vxlan://127.0.0.1",
            "PARSE packet",
        ],
        "not both at once",
    );
}

/// A running query with a listening socket.
struct Collector {
    running: std::process::Child,
    port: u16,
}

impl Collector {
    /// Starts a query over what arrives, and waits until it listens. Started by root, it drops its privileges and
    /// restricts its system calls first.
    fn listen(scheme: &str) -> Collector {
        let port = UdpSocket::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .expect("a free port")
            .port();
        let running = Command::new(BINARY)
            .args(["query", "--format", "jsonl", "--listen"])
            .arg(format!("{scheme}://127.0.0.1:{port}"))
            .arg("PARSE flow PROCESS (group-count-sum: group=observation_domain, value=client_bytes)")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let started = Instant::now();
        let listens = || {
            let sockets = std::fs::read_to_string("/proc/net/udp").expect("sockets");
            sockets.contains(&format!("0100007F:{port:04X}"))
        };
        while !listens() {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "nobody listens"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        // Privileges are dropped after the socket is opened.
        std::thread::sleep(Duration::from_millis(500));
        Collector { running, port }
    }

    /// Interrupts the query; returns its first row, and what it says.
    fn end(self) -> (Value, String) {
        std::thread::sleep(Duration::from_millis(500));
        let pid = self.running.id().to_string();
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .expect("kill");
        let output = self.running.wait_with_output().expect("it ends");
        let errors = String::from_utf8(output.stderr).expect("text");
        assert!(output.status.success(), "{errors}");
        let rows = String::from_utf8(output.stdout).expect("text");
        let row = rows
            .lines()
            .next()
            .unwrap_or_else(|| panic!("no row: {errors}"));
        (serde_json::from_str(row).expect("JSON"), errors)
    }
}

/// A port that is taken, and packets that are not export messages.
#[test]
fn wrong_inputs_are_named() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let at = format!("netflow://{}", taken.local_addr().expect("an address"));
    refused(
        &["--listen", &at, "PARSE flow"],
        "another program listens there",
    );
    let query = "PARSE flow PROCESS (count)";
    let (rows, summary) = ask(&["-r", "captures/shop/in.pcap", query]);
    assert_eq!(
        (&rows[0]["count"], &rows[0]["count_high"]),
        (&Value::from(0), &Value::Null)
    );
    assert_eq!(summary["exports"]["messages"], 0);
    assert!(
        number(&summary["exports"]["not_export"]) > 1000.0,
        "{summary}"
    );
    assert_eq!(summary["exports"]["stream_gaps"], 0);
}

/// 9,000 records: more than every internal batch.
fn many(protocol: ExportProtocol) -> Vec<(Timestamp, Vec<u8>)> {
    let flow = |n| record(protocol, &format!("10.1.0.1:{}", 1024 + n), "10.2.0.1:80");
    messages(protocol, &(0..9000).map(flow).collect::<Vec<_>>())
}

#[test]
fn exporters_send_datagrams() {
    let collector = Collector::listen("netflow");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = format!("127.0.0.1:{}", collector.port);
    for (n, (_, message)) in many(ExportProtocol::Netflow9).iter().enumerate() {
        socket.send_to(message, &to).expect("sent");
        if n % 16 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let (row, errors) = collector.end();
    assert_eq!(row["count"], 9000, "{errors}");
    assert_eq!(row["observation_domain"], 7);
    assert!(errors.contains("export messages"), "{errors}");
}

#[test]
fn exporters_send_over_tcp() {
    let collector = Collector::listen("ipfix");
    let to = format!("127.0.0.1:{}", collector.port);
    let mut streams = [(); 2].map(|()| TcpStream::connect(&to).expect("a connection"));
    for (_, message) in many(ExportProtocol::Ipfix) {
        for stream in &mut streams {
            stream.write_all(&message).expect("sent");
        }
    }
    let (row, errors) = collector.end();
    assert_eq!(row["count"], 18_000, "{errors}");
}

/// A restarted collector reads data whose template it received before.
#[test]
fn templates_survive_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("templates.json");
    let flows: Vec<_> = (0..100)
        .map(|n| {
            record(
                ExportProtocol::Ipfix,
                &format!("10.1.0.1:{}", 5000 + n),
                "10.2.0.1:80",
            )
        })
        .collect();
    let messages = messages(ExportProtocol::Ipfix, &flows);
    assert!(
        messages.len() > 2,
        "the template is in the first message only"
    );
    let before = folder.path().join("before.pcap");
    capture(&before, "10.0.0.254:50000", &messages[..1]);
    let after = folder.path().join("after.pcap");
    capture(&after, "10.0.0.254:50000", &messages[1..]);
    let query = "PARSE flow";
    let [before, after, store] = [&before, &after, &store].map(|path| path.to_str().expect("text"));
    let (rows, summary) = ask(&["-r", after, query]);
    assert!(rows.is_empty());
    assert!(number(&summary["exports"]["sets_without_template"]) > 0.0);
    let (first, _) = ask(&["-r", before, "--templates", store, query]);
    let (rest, _) = ask(&["-r", after, "--templates", store, query]);
    assert_eq!(first.len() + rest.len(), 100);
    std::fs::write(store, "no templates").expect("written");
    let (rows, summary) = ask(&["-r", after, "--templates", store, query]);
    assert!(rows.is_empty());
    assert_eq!(summary["exports"]["template_file_errors"], 1);
}

/// Elements of an enterprise by the names of a file: texts and addresses, not numbers and hexadecimal.
#[test]
fn elements_have_the_names_of_a_file() {
    const PEN: u32 = 9999;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("elements.pcap");
    let mut encoder = flow_encoder(ExportProtocol::Ipfix);
    let mut sent = Vec::new();
    let mut send = |message: &[u8]| sent.push((NOW, message.to_vec()));
    // More than every internal batch.
    for n in 0..9000u32 {
        let mut record = OutgoingRecord::default();
        record.put_address(8, 27, Some(IpAddr::from([10, 1, 0, 1])));
        record.put(2, 8, Some(1u64));
        record.put_of(PEN, 1, 4, Some(n));
        record.put_text(PEN, 2, if n % 2 == 0 { b"acme" } else { b"initech" });
        record.put_of(PEN, 3, 4, Some(0xc000_0201u32));
        encoder
            .push_record(&record, NOW, &mut send)
            .expect("a record");
    }
    encoder.flush(NOW, &mut send);
    capture(&path, "10.0.0.254:50000", &sent);
    let names = folder.path().join("names");
    let text = "# QoE probe\nflow-Score(9999/1)<unsigned32>[4]\ncustomer(9999/2)<string>[v]\n\
                resolver(9999/3)<ipv4Address>\npackets(2)<unsigned64>\n";
    std::fs::write(&names, text).expect("a file");
    let [file, names] = [&path, &names].map(|path| path.to_str().expect("text"));
    let query = "PARSE flow WHERE field.customer = 'acme' and field.resolver = '192.0.2.1' \
                 and field.flow_score is not null and field.packets = '1'";
    let (rows, _) = ask(&["-r", file, "--elements", names, query]);
    assert_eq!(rows.len(), 4500);
    for (n, row) in rows.iter().enumerate() {
        assert_eq!(row["field.flow_score"], (2 * n).to_string(), "{row}");
    }
    let query =
        "PARSE flow WHERE field.9999_2 = '1633906021' and field.9999_3 = '3221225985' LIMIT 1 ROWS";
    assert_eq!(ask(&["-r", file, query]).0.len(), 1, "by number: acme");

    let customer = "PARSE flow WHERE field.customer = 'acme'";
    let with = |more: &[&'static str]| [&["-r", file, customer], more].concat();
    refused(&with(&["--exports"]), "field.customer: neither the number");
    refused(
        &[&with(&[])[..], &["--elements", names]].concat(),
        "add --exports",
    );
    std::fs::write(names, "customer(9999/2)<string>\nscore(9999)<number>").expect("a file");
    let wrong = [&with(&["--exports"])[..], &["--elements", names]].concat();
    refused(&wrong, "names, line 2: \"number\" is not a data type");
}

/// VLANs, route, and AS path of a real switch, as tshark 4.0 decodes them.
#[test]
fn samples_have_the_data_of_the_switch() {
    let file = format!("{CAPTURES}/akvorado-data-1140.pcap");
    let (rows, _) = ask(&["-r", &file, "PARSE packet"]);
    // The fifth sample was taken where the packet leaves, in addition to one where it enters.
    let vlans: Vec<_> = rows.iter().map(|row| &row["input_vlan"]).collect();
    assert_eq!(vlans, [&Value::Null, &100.into(), &100.into(), &100.into()]);
    let found: Vec<_> = rows
        .iter()
        .filter(|row| !row["next_hop"].is_null())
        .map(|row| {
            let of = |names: &[&str]| {
                names
                    .iter()
                    .map(|name| row[name].to_string())
                    .collect::<Vec<_>>()
            };
            let route = of(&["next_hop", "src_prefix_length", "dst_prefix_length"]);
            let systems = of(&[
                "bgp_next_hop",
                "src_as",
                "src_peer_as",
                "dst_as",
                "dst_peer_as",
                "as_path",
            ]);
            (route.join(" "), systems.join(" "))
        })
        .collect();
    let expected = [
        (
            "\"45.90.161.46\" 20 27",
            "\"0.0.0.0\" 13335 203698 null null \"\"",
        ),
        (
            "\"31.14.69.110\" 27 17",
            "\"31.14.69.110\" 0 0 26615 203698 \"203698 6762 26615\"",
        ),
    ];
    let expected = expected.map(|(route, systems)| (route.to_owned(), systems.to_owned()));
    assert_eq!(found, expected);
}

/// MPLS labels before IPv6 in the header of a sample, with and without Ethernet, at every length: a packet is a row as
/// soon as its ports are known.
#[test]
fn labels_before_ipv6_in_headers_of_every_length() {
    const ETHERNET: usize = 14;
    const IPV6: usize = 40;
    const UDP: usize = 8;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mpls.pcap");
    let ends = (end("[2001:db8::1]:4000"), end("[2001:db8::2]:53"));
    let frame = SentPacket::udp(NOW, ends, &[0; 200]).to_bytes();
    let starts = [
        (
            HeaderProtocol::Ethernet,
            [&frame[..ETHERNET - 2], &[0x88, 0x47]].concat(),
        ),
        (HeaderProtocol::Mpls, Vec::new()),
    ];
    for (labels, (protocol, start)) in (1..=3u32).flat_map(|n| starts.clone().map(|s| (n, s))) {
        let mut packet = start.clone();
        for n in 1..=labels {
            // Label, the bottom of the stack, and a time to live.
            let entry = (1000 + n) << 12 | u32::from(n == labels) << 8 | 64;
            packet.extend(entry.to_be_bytes());
        }
        packet.extend(&frame[ETHERNET..]);
        let mut agent = agent(1);
        let mut datagrams = Vec::new();
        let mut send = |message: &[u8]| datagrams.push((NOW, message.to_vec()));
        let len = packet.len() as u32;
        for cut in 0..=128 {
            let header = &packet[..cut];
            agent.push(protocol, len, header, cut as u32, NOW, &mut send);
        }
        agent.flush(NOW, &mut send);
        capture(&path, "10.0.0.254:50000", &datagrams);
        let (rows, summary) = ask(&["-r", path.to_str().expect("text"), "PARSE packet"]);
        let needed = start.len() + 4 * labels as usize + IPV6 + UDP;
        assert_eq!(
            rows.len(),
            129 - needed,
            "{labels} labels: {}",
            summary["exports"]
        );
        assert_eq!(number(&summary["exports"]["undecodable"]), needed as f64);
        for row in &rows {
            let found = [
                "src_ip",
                "src_port",
                "dst_ip",
                "dst_port",
                "packet_bytes",
                "transport",
                "tunnel",
                "tunnel_id",
            ]
            .map(|name| row[name].to_string())
            .join(" ");
            // The label at the bottom of the stack.
            let label = 1000 + labels;
            let expected =
                format!("\"2001:db8::1\" 4000 \"2001:db8::2\" 53 {len} \"udp\" \"mpls\" {label}");
            assert_eq!(found, expected, "{row}");
        }
    }
}
