//! HTTPS connections decrypted with their keys, compared with the log of the server: every cipher suite, version, and way
//! of resumption, complete and under loss, reordering, and duplicates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monitor::{Monitor, MonitorConfig};
use parsers::tls_decrypt::TlsKeyStore;
use plan::{MonitorSpec, ParserUse};

use crate::support::{Row, rows, without_packets};
use crate::tls_capture::{decrypted, folder, key_store, keys_in};

const CAPTURE: &str = "tls-keys";

/// A line of the server's log: client port and request, and the status.
struct LoggedRequest {
    port: String,
    request: String,
    status: String,
    body_bytes: String,
    cipher: String,
}

fn logged() -> Vec<LoggedRequest> {
    let text =
        std::fs::read_to_string(folder(CAPTURE).join("server.log")).expect("the server's log");
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
    let (rows, accounting) = decrypted(
        &folder(CAPTURE).join("in.pcap"),
        &["http"],
        Some(key_store(CAPTURE)),
    );
    let mut expected: Vec<String> = logged()
        .iter()
        .filter(|line| !line.request.contains("secret"))
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
    assert!(tls.unsupported.is_empty(), "{tls:?}");
    let ports: BTreeSet<String> = logged().into_iter().map(|line| line.port).collect();
    assert_eq!(tls.decrypted + 1, ports.len() as u64);
    let mut ciphers: Vec<String> = logged().into_iter().map(|line| line.cipher).collect();
    ciphers.sort();
    ciphers.dedup();
    assert_eq!(ciphers.len(), 13, "{ciphers:?}");
}

/// A request behind a second handshake inside each of four connections, by suites of every kind.
#[test]
fn renegotiated_connections_continue_with_their_new_keys() {
    let folder = folder(CAPTURE);
    let keys = keys_in(&folder.join("renegotiation-keys.log"));
    let (rows, accounting) = decrypted(&folder.join("renegotiation.pcap"), &["http"], Some(keys));
    let found: Vec<_> = rows
        .iter()
        .map(|row| {
            let columns = ["status", "response_bytes", "quality"].map(|field| cell(row, field));
            (request(row), columns)
        })
        .collect();
    let expected = ("GET /small".to_owned(), ["200", "300", "exact"]);
    assert_eq!(found, vec![expected; 4]);
    let tls = accounting.tls;
    assert_eq!((tls.decrypted, tls.sealed_records), (4, 0), "{tls:?}");
}

/// The names of a handshake are in the rows of its connection.
#[test]
fn rows_have_the_names_of_their_connection() {
    let capture = folder(CAPTURE).join("in.pcap");
    let (rows, _) = decrypted(&capture, &["http"], Some(key_store(CAPTURE)));
    let (handshakes, _) = decrypted(&capture, &["tls"], None);
    let names: BTreeMap<&str, Option<&String>> = handshakes
        .iter()
        .map(|row| (cell(row, "client_port"), row.get("sni")))
        .collect();
    for row in &rows {
        assert_eq!(cell(row, "encrypted"), "true");
        assert_eq!(
            row.get("tls_sni"),
            names[cell(row, "client_port")],
            "{row:?}"
        );
    }
    assert!(rows.iter().any(|row| row.contains_key("tls_sni")));
}

#[test]
fn without_keys_there_are_no_rows_and_handshakes_are_the_same() {
    let capture = folder(CAPTURE).join("in.pcap");
    let (rows, accounting) = decrypted(&capture, &["http"], None);
    assert!(rows.is_empty());
    assert_eq!(accounting.tls, Default::default());
    let (handshakes, _) = decrypted(&capture, &["tls"], None);
    let (beside, _) = decrypted(&capture, &["tls", "http"], Some(key_store(CAPTURE)));
    let beside: Vec<Row> = beside
        .into_iter()
        .filter(|row| row.contains_key("version_offered"))
        .map(|mut row| {
            // A handshake whose end is seen later has the names of its connection.
            for column in ["encrypted", "tls_sni", "tls_alpn"] {
                row.remove(column);
            }
            row
        })
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
    let whole = std::fs::read(folder(CAPTURE).join("in.pcap")).expect("the capture");
    let mut statuses: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for line in logged() {
        let of_request = statuses.entry((line.port, line.request)).or_default();
        of_request.push(format!("{} {}", line.status, line.body_bytes));
    }
    let all = logged().len();
    for (loss, at_least) in [(0.01, 0.9), (0.05, 0.65)] {
        let (mut pairs, mut resyncs) = (0, 0);
        for seed in 0..10 {
            let file = tempfile::Builder::new()
                .suffix(".pcap")
                .tempfile()
                .expect("a temporary file");
            std::fs::write(file.path(), without_packets(&whole, loss, seed))
                .expect("it can be written");
            let (rows, accounting) = decrypted(file.path(), &["http"], Some(key_store(CAPTURE)));
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
        let mut source = capture::open(&[folder(CAPTURE).join("in.pcap")]);
        let mut block = capture::PacketBlock::default();
        let mut batches = Vec::new();
        let mut keys = std::fs::read(folder(CAPTURE).join("keys.log")).expect("the key log");
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
