//! Rows of flows to collectors: nfdump and tshark read the records of the rows, and a decoder counts those of a million.
//! Collectors that are absent, restarted, or stand still lose rows that are counted.

#[path = "collectors/flows.rs"]
mod flows;

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use flows::{FlowLine, batch, lines, million_batch};
use outlets::address::SystemSecrets;
use outlets::{OutletAddress, OutletLimits, OutletSink};
use sinks::{DeliveryOutcome, ResultHead, Sink};
use telemetry::{ElementId, ExportDecoder, ExportEvent, ExportLimits};
use testkit::programs::{TestProgram, free_port, wait_for};
use testkit::{ByteOrder, TcpDialogue, TimestampPrecision, pcap_bytes};
use tuple::Batch;
use wire::ipfix::split_messages;
use wire::{FlowSide, Timestamp};

/// Patient enough for a busy machine.
const LIMITS: OutletLimits = OutletLimits {
    queue_bytes: 1 << 30,
    series_max: 1,
    retry_max: Duration::from_secs(60),
    end_max: Duration::from_secs(120),
};

/// An outlet without rows.
fn opened(to: &str, limits: OutletLimits) -> OutletSink {
    let address = OutletAddress::read(to, &SystemSecrets).expect("an address");
    let mut sink = OutletSink::prepare(&[address], limits, "flows").expect("an outlet");
    sink.start(&(Arc::new(|| {}) as Arc<dyn Fn() + Send + Sync>))
        .expect("threads");
    sink.announce(&[ResultHead {
        parsers: vec!["flow".into()],
        ..ResultHead::default()
    }]);
    sink
}

/// Outcome of the delivery.
fn ended(mut sink: OutletSink) -> DeliveryOutcome {
    sink.finish().expect("no I/O");
    let outcome = sink.delivered().remove(0);
    assert_eq!(outcome.sent + outcome.lost_rows(), outcome.rows);
    outcome
}

fn delivered(to: &str, batches: &[Batch], limits: OutletLimits) -> DeliveryOutcome {
    let mut sink = opened(to, limits);
    for batch in batches {
        sink.write(0, batch).expect("no I/O");
    }
    ended(sink)
}

/// Datagrams that arrive at a port while `deliver` runs.
fn received<T>(host: &str, deliver: impl FnOnce(SocketAddr) -> T) -> (Vec<Vec<u8>>, T) {
    let socket = UdpSocket::bind((host, 0)).expect("a free port");
    let to = socket.local_addr().expect("an address");
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .expect("a timeout");
    let (done, is_done) = mpsc::channel();
    let receiver = thread::spawn(move || {
        let mut datagrams = Vec::new();
        let mut buffer = vec![0; 65_536];
        loop {
            match socket.recv(&mut buffer) {
                Ok(len) => datagrams.push(buffer[..len].to_vec()),
                Err(_) if is_done.try_recv().is_ok() => return datagrams,
                Err(_) => {}
            }
        }
    });
    let outcome = deliver(to);
    done.send(()).expect("a receiver");
    (receiver.join().expect("datagrams"), outcome)
}

/// The bytes that a collector receives over one connection.
fn streamed<T>(deliver: impl FnOnce(SocketAddr) -> T) -> (Vec<u8>, T) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let to = listener.local_addr().expect("an address");
    let receiver = thread::spawn(move || {
        let mut stream = Vec::new();
        let mut connection = listener.accept().expect("a connection").0;
        connection.read_to_end(&mut stream).expect("a stream");
        stream
    });
    let outcome = deliver(to);
    (receiver.join().expect("a stream"), outcome)
}

/// The messages of a stream.
fn messages(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let used = split_messages(stream, |message| messages.push(message.to_vec()));
    assert_eq!(used, Ok(stream.len()));
    messages
}

/// Values of fields in these messages as tshark reads them, in the order of the records.
fn by_tshark(folder: &Path, messages: &[impl AsRef<[u8]>], fields: &[&str]) -> Vec<Vec<String>> {
    let mut talk = TcpDialogue::new("127.0.0.1:5000", "127.0.0.1:4739");
    for message in messages {
        talk.datagram(FlowSide::A, message.as_ref());
    }
    let file = folder.join("export.pcap");
    let bytes = pcap_bytes(&talk.take(), TimestampPrecision::Micros, ByteOrder::Little);
    std::fs::write(&file, bytes).expect("a capture");
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-d", "udp.port==4739,cflow", "-T", "fields", "-r"]);
    tshark.arg(&file).args(["-e", "_ws.malformed"]);
    fields.iter().for_each(|field| {
        tshark.args(["-e", field]);
    });
    let text = String::from_utf8(tshark.output().expect("it runs").stdout).expect("text");
    let mut values = vec![Vec::new(); fields.len() + 1];
    for line in text.lines() {
        for (column, cell) in line.split('\t').enumerate() {
            let cells = cell.split(',').filter(|cell| !cell.is_empty());
            values[column].extend(cells.map(str::to_owned));
        }
    }
    assert!(values[0].is_empty(), "malformed: {:?}", values[0]);
    values.split_off(1)
}

/// A running nfcapd.
struct Nfcapd {
    program: TestProgram,
    folder: tempfile::TempDir,
}

impl Nfcapd {
    fn start(port: u16, is_v6: bool) -> Nfcapd {
        let folder = tempfile::tempdir().expect("a folder");
        let (family, host) = if is_v6 {
            ("-6", "::1")
        } else {
            ("-4", "127.0.0.1")
        };
        let mut command = Command::new("nfcapd");
        command.args([
            family,
            "-b",
            host,
            "-p",
            &port.to_string(),
            "-t",
            "3600",
            "-w",
        ]);
        let program = TestProgram::start(command.arg(folder.path()));
        wait_for("nfcapd", || match UdpSocket::bind((host, port)) {
            Ok(_) => Err("the port is free".into()),
            Err(_) => Ok(()),
        });
        Nfcapd { program, folder }
    }

    /// Records of the collector, after its end.
    fn records(mut self) -> Vec<FlowLine> {
        thread::sleep(Duration::from_millis(300));
        let pid = self.program.0.id().to_string();
        let ended = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(ended.expect("kill").success());
        self.program.0.wait().expect("it ends");
        let format = "fmt:%sa|%da|%sp|%dp|%pr|%tsr|%ts|%ter|%te|%ipkt|%ibyt|%opkt|%obyt";
        let mut nfdump = Command::new("nfdump");
        nfdump.arg("-R").arg(self.folder.path());
        nfdump.args(["-q", "-6", "-N", "-o", format]);
        let output = nfdump.output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().filter_map(FlowLine::of_nfdump).collect()
    }
}

#[test]
fn nfdump_reads_the_rows() {
    testkit::require!("nfcapd", "nfdump");
    let rows = lines(500);
    for (scheme, options, is_biflow) in [
        ("ipfix", "", true),
        ("ipfix", "#directions=split", false),
        ("netflow9", "", false),
    ] {
        for is_v6 in [false, true] {
            let port = free_port();
            let nfcapd = Nfcapd::start(port, is_v6);
            let host = if is_v6 { "[::1]" } else { "127.0.0.1" };
            let to = format!("{scheme}://{host}:{port}{options}");
            let outcome = delivered(&to, &[batch(&rows)], LIMITS);
            assert_eq!((outcome.sent, outcome.problem), (500, None), "{to}");
            let mut expected: Vec<FlowLine> =
                rows.iter().flat_map(|row| row.records(is_biflow)).collect();
            let mut read = nfcapd.records();
            expected.sort();
            read.sort();
            assert_eq!(read.len(), expected.len(), "{to}");
            for (read, expected) in read.iter().zip(&expected) {
                assert_eq!(read, expected, "{to}");
            }
        }
    }
}

/// Every value, also those that nfdump does not read, and no value for null.
#[test]
fn tshark_reads_the_values_of_all_elements() {
    testkit::require!("tshark");
    let folder = tempfile::tempdir().expect("a folder");
    let rows = lines(300);
    let fields = [
        "cflow.octets",
        "cflow.packets",
        "cflow.flow_end_reason",
        "cflow.flow_id",
        "cflow.vlanid",
        "cflow.biflow_direction",
        "cflow.transport_octet_delta_count",
    ];
    let (datagrams, outcome) = received("127.0.0.1", |to| {
        delivered(
            &format!("ipfix://{to}#directions=split"),
            &[batch(&rows)],
            LIMITS,
        )
    });
    assert_eq!(outcome.sent, 300);
    assert!(datagrams.iter().all(|datagram| datagram.len() <= 1400));
    let read = by_tshark(folder.path(), &datagrams, &fields);
    let of = |name: &str| {
        let place = fields
            .iter()
            .position(|field| *field == name)
            .expect("a field");
        &read[place]
    };
    let records: Vec<&FlowLine> = rows.iter().collect();
    let expected = |value: fn(&FlowLine) -> Option<String>| -> Vec<String> {
        let each = |row: &&FlowLine| vec![value(row); row.records(false).len()];
        records.iter().flat_map(each).flatten().collect()
    };
    assert_eq!(
        *of("cflow.vlanid"),
        expected(|row| row.vlan.map(|id| id.to_string()))
    );
    assert_eq!(
        *of("cflow.flow_id"),
        expected(|row| Some(row.id.to_string()))
    );
    assert_eq!(
        *of("cflow.flow_end_reason"),
        expected(|row| Some(row.reason.1.to_string()))
    );
    assert_eq!(
        *of("cflow.biflow_direction"),
        expected(|row| Some(u8::from(!row.is_guessed).to_string()))
    );
    let bytes: Vec<String> = rows
        .iter()
        .flat_map(|row| row.records(false))
        .map(|record| record.bytes[0].to_string())
        .collect();
    assert_eq!(*of("cflow.octets"), bytes);
}

/// Elements of an enterprise have the number of the column, and the type of its values.
#[test]
fn columns_without_an_element_are_sent_for_an_enterprise() {
    let rows = lines(50);
    let (datagrams, outcome) = received("::1", |to| {
        delivered(
            &format!("ipfix://{to}#pen=32473&domain=9"),
            &[batch(&rows)],
            LIMITS,
        )
    });
    assert_eq!((outcome.sent, outcome.problem), (50, None));
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    let mut read = Vec::new();
    for datagram in &datagrams {
        let from = SocketAddr::from((Ipv6Addr::LOCALHOST, 1));
        decoder.decode(from, Timestamp(0), datagram, |event| {
            let ExportEvent::Flow(flow, Some(record)) = event else {
                panic!("a record")
            };
            assert_eq!(flow.domain.id, 9);
            let own: BTreeMap<u16, Vec<u8>> = record
                .fields()
                .filter(|field| field.element.enterprise == 32473)
                .map(|field| (field.element.id, field.value.to_vec()))
                .collect();
            let name = record
                .fields()
                .find(|field| {
                    field.element
                        == ElementId {
                            enterprise: 0,
                            id: 96,
                        }
                })
                .map(|field| field.value.to_vec());
            read.push((own.get(&1).cloned(), own.get(&12).cloned(), name));
        });
    }
    let expected = rows.iter().map(|row| {
        let handshake = row.handshake_ns.map(|ns| ns.to_be_bytes().to_vec());
        let name = row.application.map(|name| name.as_bytes().to_vec());
        (Some(b"exact".to_vec()), handshake, name)
    });
    assert!(read.into_iter().eq(expected));
    assert_eq!(decoder.counters().malformed, 0);
}

/// A counter of each million, read with sequence numbers.
#[test]
fn a_million_rows_arrive() {
    const BATCHES: u64 = 250;
    let (stream, outcome) = streamed(|to| {
        let batches: Vec<Batch> = (0..BATCHES)
            .map(|n| million_batch(n * 4000, 4000))
            .collect();
        delivered(&format!("ipfix+tcp://{to}"), &batches, LIMITS)
    });
    assert_eq!(
        (outcome.rows, outcome.sent, outcome.problem),
        (1_000_000, 1_000_000, None)
    );
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    let mut count = 0u64;
    let mut sum = 0u64;
    for message in &messages(&stream) {
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        decoder.decode(from, Timestamp(0), message, |event| {
            if let ExportEvent::Flow(flow, _) = event {
                count += 1;
                sum += flow.packets.unwrap_or(0);
            }
        });
    }
    assert_eq!((count, sum), (1_000_000, 999_999 * 1_000_000 / 2));
    assert!(
        decoder
            .losses()
            .all(|(_, losses)| losses.lost + losses.repeated == 0)
    );
}

/// Nothing listens: the system reports it, and rows are lost and counted. Later rows arrive, with their templates.
#[test]
fn rows_for_an_absent_collector_are_counted() {
    testkit::require!("nfcapd", "nfdump");
    let rows = lines(40);
    for scheme in ["ipfix", "netflow9"] {
        let port = free_port();
        let limits = OutletLimits {
            retry_max: Duration::from_millis(50),
            ..LIMITS
        };
        let mut sink = opened(&format!("{scheme}://127.0.0.1:{port}"), limits);
        sink.write(0, &batch(&rows)).expect("no I/O");
        wait_for("lost rows", || match sink.delivered()[0].lost_rows() {
            0 => Err("none".into()),
            lost => Ok(lost),
        });
        // `at_end` is what is neither sent nor lost: nothing, once the message is.
        wait_for("the loss", || {
            let lost = &sink.delivered()[0].lost;
            lost.contains(&("gave_up", 40))
                .then_some(())
                .ok_or_else(|| format!("{lost:?}"))
        });
        let nfcapd = Nfcapd::start(port, false);
        sink.write(0, &batch(&rows)).expect("no I/O");
        let outcome = ended(sink);
        assert_eq!((outcome.rows, outcome.sent), (80, 40), "{outcome:?}");
        assert!(outcome.problem.expect("a problem").contains("refused"));
        let records: usize = rows
            .iter()
            .map(|row| row.records(scheme == "ipfix").len())
            .sum();
        assert_eq!(nfcapd.records().len(), records);
    }
}

/// A collector that was restarted reads rows again after the interval of templates.
#[test]
fn templates_reach_a_restarted_collector() {
    testkit::require!("nfcapd", "nfdump");
    let rows = lines(20);
    let port = free_port();
    let mut sink = opened(&format!("ipfix://127.0.0.1:{port}#templates=1"), LIMITS);
    let count = rows
        .iter()
        .map(|row| row.records(true).len())
        .sum::<usize>();
    for _ in 0..2 {
        let nfcapd = Nfcapd::start(port, false);
        thread::sleep(Duration::from_millis(1100));
        sink.write(0, &batch(&rows)).expect("no I/O");
        wait_for("delivery", || {
            let outcome = &sink.delivered()[0];
            (outcome.sent == outcome.rows)
                .then_some(())
                .ok_or_else(|| format!("{outcome:?}"))
        });
        assert_eq!(nfcapd.records().len(), count);
    }
    assert_eq!(ended(sink).sent, 40);
}

/// A collector that accepts a connection and reads nothing.
#[test]
fn stalled_collectors_lose_rows_without_delay() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let to = listener.local_addr().expect("an address");
    let limits = OutletLimits {
        queue_bytes: 4 << 20,
        end_max: Duration::from_millis(500),
        ..LIMITS
    };
    let begun = std::time::Instant::now();
    let batches: Vec<Batch> = (0..100).map(|n| million_batch(n * 4000, 4000)).collect();
    let outcome = delivered(&format!("ipfix+tcp://{to}"), &batches, limits);
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(outcome.rows, 400_000);
    assert!(
        outcome
            .lost
            .iter()
            .any(|(cause, rows)| *cause == "queue_full" && *rows > 0),
        "{outcome:?}"
    );
    assert!(outcome.sent < 400_000);
}

/// Options and columns that cannot be sent are errors.
#[test]
fn wrong_options_are_named() {
    for (to, part) in [
        ("ipfix://h#pen=4294967296", "pen=4294967296"),
        ("ipfix://h#directions=both", "directions=both"),
        ("ipfix://h#octets=l3", "octets=l3"),
        ("ipfix://h#message=100", "message=100"),
        ("ipfix://h#domain=99999999999", "domain=99999999999"),
        ("sflow://h", "-w sflow://HOST:PORT"),
    ] {
        let address = OutletAddress::read(to, &SystemSecrets).expect("an address");
        let why = OutletSink::prepare(&[address], LIMITS, "flows")
            .err()
            .expect(to);
        assert!(why.0.contains(part), "{to}: {}", why.0);
    }
    let why = OutletAddress::read("netflow9://h#pen=1", &SystemSecrets).expect_err("no option");
    assert!(why.contains("has no option \"pen\""), "{why}");
}
