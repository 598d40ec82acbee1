//! HTTPS connections decrypted with their keys, compared with the log of the server: every cipher suite, version, and way
//! of resumption, complete and under loss, reordering, and duplicates.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use monitor::{Monitor, MonitorConfig, PacketAccounting};
use parsers::tls_decrypt::TlsKeyStore;
use plan::{MonitorSpec, ParserUse};

use crate::support::{Row, rows, without_packets};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/tls-keys")
}

fn store() -> Arc<TlsKeyStore> {
    let store = TlsKeyStore::new(|_| {});
    store.add_lines(&std::fs::read(folder().join("keys.log")).expect("the key log"));
    Arc::new(store)
}

fn decrypted(
    capture: &Path,
    parsers: &[&str],
    keys: Option<Arc<TlsKeyStore>>,
) -> (Vec<Row>, PacketAccounting) {
    let uses = parsers.iter().map(|name| {
        let parser = parsers::registry::find(name).expect("a parser");
        ParserUse::all_columns(Arc::new((parser.schema)()))
    });
    let spec = MonitorSpec {
        parsers: uses.collect(),
        ..MonitorSpec::default()
    };
    let config = MonitorConfig {
        keys,
        ..MonitorConfig::default()
    };
    let mut monitor = Monitor::new(&spec, config);
    let mut source = capture::open(&[capture.to_owned()]);
    let mut block = capture::PacketBlock::default();
    let mut batches = Vec::new();
    while source.next_block(&mut block) {
        let _ = monitor.on_block(block.packets(), block.clock(), &mut batches);
    }
    monitor.finish(&mut batches);
    let rows = batches.iter().flat_map(|(_, batch)| rows(batch)).collect();
    (rows, monitor.accounting())
}

/// A line of the server's log: client port and request, and the status.
struct LoggedRequest {
    port: String,
    request: String,
    status: String,
    body_bytes: String,
    cipher: String,
}

fn logged() -> Vec<LoggedRequest> {
    let text = std::fs::read_to_string(folder().join("server.log")).expect("the server's log");
    let line = |line: &str| {
        let [port, method, uri, status, body_bytes, _, cipher, ..] =
            line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("{line}")
        };
        LoggedRequest {
            port: port.into(),
            request: format!("{method} {uri}"),
            status: status.into(),
            body_bytes: body_bytes.into(),
            cipher: cipher.into(),
        }
    };
    text.lines().map(line).collect()
}

fn is_supported(cipher: &str) -> bool {
    cipher.contains("GCM") || cipher.contains("CHACHA20")
}

fn cell<'a>(row: &'a Row, field: &str) -> &'a str {
    row.get(field).map_or("", String::as_str)
}

fn request(row: &Row) -> String {
    let query = row.get("url_query").map(|query| format!("?{query}"));
    format!(
        "{} {}{}",
        cell(row, "method"),
        cell(row, "path"),
        query.unwrap_or_default()
    )
}

#[test]
fn every_request_of_the_log_is_an_exact_row() {
    let (rows, accounting) = decrypted(&folder().join("in.pcap"), &["http"], Some(store()));
    let mut expected: Vec<String> = logged()
        .iter()
        .filter(|line| is_supported(&line.cipher) && !line.request.contains("secret"))
        .map(|line| {
            format!(
                "{} {} {} {}",
                line.port, line.request, line.status, line.body_bytes
            )
        })
        .collect();
    let mut found: Vec<String> = rows
        .iter()
        .map(|row| {
            // The server answers an upload before it has received all of it.
            let may_be_untimed = cell(row, "method") == "POST";
            let quality = cell(row, "quality");
            assert!(
                quality == "exact" || may_be_untimed && quality == "untimed",
                "{row:?}"
            );
            let (port, status) = (cell(row, "client_port"), cell(row, "status"));
            format!(
                "{port} {} {status} {}",
                request(row),
                cell(row, "response_bytes")
            )
        })
        .collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    let tls = accounting.tls;
    assert_eq!(
        (tls.keys_missing, tls.unreadable, tls.sealed_records),
        (1, 0, 0),
        "{tls:?}"
    );
    let unsupported: u64 = tls.unsupported.values().sum();
    let ports = |of: fn(&str) -> bool| {
        let mut ports: Vec<_> = logged()
            .into_iter()
            .filter(|line| of(&line.cipher))
            .collect();
        ports.dedup_by(|a, b| a.port == b.port);
        ports.len() as u64
    };
    assert_eq!(unsupported, ports(|cipher| !is_supported(cipher)));
    assert_eq!(tls.decrypted + 1, ports(is_supported));
}

#[test]
fn without_keys_there_are_no_rows_and_handshakes_are_the_same() {
    let capture = folder().join("in.pcap");
    let (rows, accounting) = decrypted(&capture, &["http"], None);
    assert!(rows.is_empty());
    assert_eq!(accounting.tls, Default::default());
    let (handshakes, _) = decrypted(&capture, &["tls"], None);
    let (beside, _) = decrypted(&capture, &["tls", "http"], Some(store()));
    let beside: Vec<Row> = beside
        .into_iter()
        .filter(|row| row.contains_key("version_offered"))
        .collect();
    let text = |rows: Vec<Row>| {
        let mut rows: Vec<String> = rows
            .into_iter()
            .map(|row| format!("{:?}", row.into_iter().collect::<BTreeMap<_, _>>()))
            .collect();
        rows.sort();
        rows
    };
    assert!(!handshakes.is_empty());
    assert_eq!(text(beside), text(handshakes));
}

#[test]
fn lost_packets_leave_no_wrong_pairs_and_records_are_found_again() {
    let whole = std::fs::read(folder().join("in.pcap")).expect("the capture");
    let mut statuses: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for line in logged() {
        let of_request = statuses.entry((line.port, line.request)).or_default();
        of_request.push(format!("{} {}", line.status, line.body_bytes));
    }
    let all = logged()
        .iter()
        .filter(|line| is_supported(&line.cipher))
        .count();
    for (loss, at_least) in [(0.01, 0.9), (0.05, 0.65)] {
        let (mut pairs, mut resyncs) = (0, 0);
        for seed in 0..10 {
            let file = tempfile::Builder::new()
                .suffix(".pcap")
                .tempfile()
                .expect("a temporary file");
            std::fs::write(file.path(), without_packets(&whole, loss, seed))
                .expect("it can be written");
            let (rows, accounting) = decrypted(file.path(), &["http"], Some(store()));
            resyncs += accounting.tls.resyncs;
            for row in &rows {
                let (Some(_), Some(status)) = (row.get("path"), row.get("status")) else {
                    continue;
                };
                let key = (cell(row, "client_port").to_owned(), request(row));
                let known = statuses.get(&key).unwrap_or_else(|| panic!("{row:?}"));
                let answer = |known: &String| match row.get("response_bytes") {
                    Some(bytes) => *known == format!("{status} {bytes}"),
                    None => known.starts_with(status),
                };
                assert!(known.iter().any(answer), "{known:?}: {row:?}");
                pairs += 1;
            }
        }
        let share = f64::from(pairs) / (10 * all) as f64;
        assert!(share >= at_least, "{share} paired under a loss of {loss}");
        assert!(resyncs > 0);
    }
}

#[test]
fn connections_wait_for_keys_that_arrive_after_their_handshake() {
    let ports = |wait_ns| {
        let store = Arc::new(TlsKeyStore::new(|_| {}));
        store.set_wait(wait_ns);
        store.add_lines(b"");
        let schema = (parsers::registry::find("http").expect("a parser").schema)();
        let spec = MonitorSpec {
            parsers: vec![ParserUse::all_columns(Arc::new(schema))],
            ..MonitorSpec::default()
        };
        let config = MonitorConfig {
            keys: Some(store.clone()),
            ..MonitorConfig::default()
        };
        let mut monitor = Monitor::new(&spec, config);
        let mut source = capture::open(&[folder().join("in.pcap")]);
        let mut block = capture::PacketBlock::default();
        let mut batches = Vec::new();
        let mut keys = std::fs::read(folder().join("keys.log")).expect("the key log");
        while source.next_block(&mut block) {
            for packet in block.packets() {
                let _ = monitor.on_block(std::iter::once(packet), None, &mut batches);
                // The third connection with data has begun.
                if packet.ts.0 > START_NS + 900_000_000 {
                    store.add_lines(&std::mem::take(&mut keys));
                }
            }
        }
        monitor.finish(&mut batches);
        let rows = batches.iter().flat_map(|(_, batch)| rows(batch));
        let mut ports: BTreeMap<String, usize> = BTreeMap::new();
        for row in rows {
            *ports
                .entry(cell(&row, "client_port").to_owned())
                .or_default() += 1;
        }
        ports
    };
    let (waiting, hasty) = (ports(1_000_000_000), ports(0));
    let gained: Vec<_> = waiting
        .iter()
        .filter(|(port, _)| !hasty.contains_key(*port))
        .collect();
    assert!(matches!(gained[..], [(_, 2)]), "{gained:?}");
}

/// Time of the capture's first packet.
const START_NS: i64 = 1_795_936_576_495_638_000;
