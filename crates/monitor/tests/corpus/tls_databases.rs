//! TLS that begins inside another protocol, decrypted with its keys: statements of MariaDB and PostgreSQL and requests
//! through a proxy, compared with the logs of the servers and with tshark.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{Row, nanos};
use crate::tls_capture::{decrypted, folder, key_store};

const CAPTURE: &str = "tls-databases";
/// Characters of a statement in the logs.
const TEXT_MAX: usize = 200;

fn rows_of(parser: &str) -> Vec<Row> {
    rows_in(&folder(CAPTURE).join("in.pcap"), parser)
}

fn rows_in(capture: &Path, parser: &str) -> Vec<Row> {
    let (mut rows, accounting) = decrypted(capture, &[parser], Some(key_store(CAPTURE)));
    let tls = &accounting.tls;
    assert_eq!(
        (tls.decrypted, tls.keys_missing, tls.sealed_records),
        (8, 0, 0),
        "{tls:?}"
    );
    rows.sort_by_key(|row| cell(row, "ts").parse::<i64>().expect("a time"));
    rows
}

fn lines(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder(CAPTURE).join(file)).expect("a server's log");
    text.lines().map(str::to_owned).collect()
}

fn cell<'a>(row: &'a Row, field: &str) -> &'a str {
    row.get(field).map_or("", String::as_str)
}

fn text(row: &Row) -> String {
    cell(row, "query").chars().take(TEXT_MAX).collect()
}

/// Each connection's values, in their order.
fn by_port<T>(values: impl Iterator<Item = (String, T)>) -> BTreeMap<String, Vec<T>> {
    let mut ports = BTreeMap::<String, Vec<T>>::new();
    for (port, value) in values {
        ports.entry(port).or_default().push(value);
    }
    ports
}

#[test]
fn statements_are_those_of_mariadb() {
    let rows = rows_of("mysql_query");
    let logged = by_port(lines("mariadb.log").iter().filter_map(|line| {
        let (connection, text) = line.split_once('\t')?;
        Some((connection.to_owned(), text.to_owned()))
    }));
    let is_query = |row: &&Row| cell(row, "command") == "query";
    let found = by_port(rows.iter().filter(is_query).map(|row| {
        assert_eq!(cell(row, "quality"), "exact", "{row:?}");
        let is_wrong = text(row).contains("nothing");
        assert_eq!(cell(row, "error_code") == "1054", is_wrong, "{row:?}");
        (cell(row, "client_port").to_owned(), text(row))
    }));
    // The log has numbers of connections, and rows have ports: both in the order of time.
    assert_eq!(sorted(found), sorted(logged));
    let count = |command: &str| {
        rows.iter()
            .filter(|row| cell(row, "command") == command)
            .count()
    };
    assert_eq!(
        (count("ssl_request"), count("login"), count("quit")),
        (2, 2, 2)
    );
    for row in rows.iter().filter(|row| cell(row, "command") == "login") {
        assert_eq!((cell(row, "user"), cell(row, "database")), ("app", "shop"));
    }
    is_timed_as_by_tshark(rows.iter().filter(is_query), 3);
    sleeps(&rows);
}

/// A network card may merge the client's request for TLS with the hello that follows it.
#[test]
fn a_hello_may_share_a_packet_with_the_request_for_tls() {
    let whole = std::fs::read(folder(CAPTURE).join("in.pcap")).expect("the capture");
    let (merged, packets) = with_merged_hellos(&whole);
    assert_eq!(packets, 2);
    let file = tempfile::Builder::new()
        .suffix(".pcap")
        .tempfile()
        .expect("a temporary file");
    std::fs::write(file.path(), merged).expect("it can be written");
    let statements = |rows: Vec<Row>| -> Vec<_> {
        let queries = rows.iter().filter(|row| cell(row, "command") == "query");
        queries.map(|row| (nanos_of(row), text(row))).collect()
    };
    let found = statements(rows_in(file.path(), "mysql_query"));
    assert_eq!(found, statements(rows_of("mysql_query")));
}

/// Appends the client's next payload to each packet with MySQL's request for TLS. Returns the capture, and the number of such packets.
fn with_merged_hellos(file: &[u8]) -> (Vec<u8>, usize) {
    const IP: usize = 14;
    let (head, mut rest) = file.split_at(24);
    let mut out = head.to_vec();
    let mut held: Option<Vec<u8>> = None;
    let mut merged = 0;
    while let Some(len) = rest.get(8..12) {
        let len = u32::from_le_bytes(len.try_into().expect("four bytes")) as usize;
        let (record, after) = rest.split_at(16 + len);
        rest = after;
        let packet = &record[16..];
        let tcp = IP + usize::from(packet[IP] & 15) * 4;
        let end = IP + usize::from(u16::from_be_bytes([packet[IP + 2], packet[IP + 3]]));
        let payload = &packet[tcp + usize::from(packet[tcp + 12] >> 4) * 4..end];
        let is_to_server = packet[tcp + 2..tcp + 4] == 3306_u16.to_be_bytes();
        if is_to_server && payload.len() == 36 && payload[3] == 1 {
            held = Some(record.to_vec());
            continue;
        }
        if is_to_server
            && payload.first() == Some(&22)
            && let Some(mut record) = held.take()
        {
            record.extend_from_slice(payload);
            let len = record.len() - 16;
            record[8..12].copy_from_slice(&(len as u32).to_le_bytes());
            record[12..16].copy_from_slice(&(len as u32).to_le_bytes());
            record[16 + IP + 2..16 + IP + 4].copy_from_slice(&((len - IP) as u16).to_be_bytes());
            out.extend(record);
            merged += 1;
            continue;
        }
        out.extend_from_slice(record);
    }
    (out, merged)
}

#[test]
fn statements_are_those_of_postgresql() {
    let rows = rows_of("postgresql");
    let executed = |row: &&Row| ["query", "execute"].contains(&cell(row, "command"));
    let found = by_port(rows.iter().filter(executed).map(|row| {
        assert_eq!(cell(row, "quality"), "exact", "{row:?}");
        let total = cell(row, "total_time_ns").parse::<i64>().expect("a time");
        (cell(row, "client_port").to_owned(), (text(row), total))
    }));
    let logged = by_port(lines("postgresql.log").iter().map(|line| {
        let (port, rest) = line.split_once(' ').expect("a port");
        let (head, text) = rest.split_once(": ").expect("a statement");
        // A failed statement has no duration.
        let (text, ms) = match text.trim_start().strip_prefix("duration: ") {
            Some(of_time) => {
                let (ms, kind) = of_time.split_once(" ms ").expect("a duration");
                let (_, text) = kind.split_once(": ").expect("a statement");
                (text, ms.parse::<f64>().expect("milliseconds"))
            }
            None => (text.trim_start(), 0.0),
        };
        assert!(["LOG", "STATEMENT"].contains(&head), "{line}");
        (port.to_owned(), (text.to_owned(), (ms * 1e6) as i64))
    }));
    assert_eq!(found.len(), 4);
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        logged.keys().collect::<Vec<_>>()
    );
    for (port, logged) in logged {
        let found = &found[&port];
        let texts =
            |of: &[(String, i64)]| of.iter().map(|(text, _)| text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(found), texts(&logged), "{port}");
        for ((text, total), (_, at_server)) in found.iter().zip(logged) {
            assert!(
                *total >= at_server,
                "{text}: {total} ns, {at_server} ns at the server"
            );
        }
    }
    let of_text = rows
        .iter()
        .filter(|row| ["query", "parse"].contains(&cell(row, "command")));
    is_timed_as_by_tshark(of_text, 4);
    sleeps(&rows);
}

#[test]
fn requests_behind_a_proxy_are_those_of_nginx() {
    let rows = rows_of("http");
    let is_connect = |row: &&Row| cell(row, "method") == "CONNECT";
    for row in &rows {
        let names =
            [row.get("encrypted"), row.get("tls_alpn")].map(|cell| cell.map(String::as_str));
        let inside = [Some("true"), Some("http/1.1")];
        let expected = if is_connect(&row) { [None; 2] } else { inside };
        assert_eq!(names, expected, "{row:?}");
    }
    assert_eq!(rows.iter().filter(is_connect).count(), 2);
    let inside: Vec<String> = rows
        .iter()
        .filter(|row| !is_connect(row))
        .map(|row| {
            assert_eq!(cell(row, "quality"), "exact", "{row:?}");
            ["method", "path", "url_query", "status", "response_bytes"]
                .map(|field| cell(row, field))
                .join("\t")
        })
        .collect();
    let logged: Vec<String> = lines("nginx.log")
        .iter()
        .map(|line| line.replace('?', "\t"))
        .collect();
    assert_eq!(inside, logged);
    is_timed_as_by_tshark(rows.iter(), 2);
}

fn sorted(connections: BTreeMap<String, Vec<String>>) -> Vec<Vec<String>> {
    let mut connections: Vec<_> = connections.into_values().collect();
    connections.sort();
    connections
}

/// Each text has the time of the packet in which tshark found it with the same keys. `column`: that of tshark.
fn is_timed_as_by_tshark<'a>(rows: impl Iterator<Item = &'a Row>, column: usize) {
    let mut known = BTreeMap::new();
    for line in lines("tshark.tsv") {
        let cells: Vec<&str> = line.split('\t').collect();
        if let Some(text) = cells.get(column).filter(|text| !text.is_empty()) {
            known.insert(
                (cells[1].to_owned(), nanos(cells[0])),
                text.chars().take(TEXT_MAX).collect(),
            );
        }
    }
    let mut compared = 0;
    for row in rows {
        let text = match (row.get("path"), row.get("url_query")) {
            (Some(path), Some(query)) => format!("{path}?{query}"),
            _ => text(row),
        };
        // tshark shows a long statement at its last packet, and a name but no path for CONNECT.
        if text.len() >= TEXT_MAX || cell(row, "method") == "CONNECT" {
            continue;
        }
        let key = (cell(row, "client_port").to_owned(), nanos_of(row));
        assert_eq!(known.get(&key), Some(&text), "{row:?}");
        compared += 1;
    }
    assert!(compared >= 12, "{compared}");
}

fn nanos_of(row: &Row) -> i64 {
    cell(row, "ts").parse().expect("a time")
}

/// Statements that sleep for 50 ms.
fn sleeps(rows: &[Row]) {
    let sleeping: Vec<_> = rows
        .iter()
        .filter(|row| text(row).to_lowercase().contains("sleep"))
        .filter(|row| cell(row, "command") != "parse")
        .map(|row| cell(row, "total_time_ns").parse::<i64>().expect("a time"))
        .collect();
    assert_eq!(sleeping.len(), 2);
    assert!(sleeping.iter().all(|ns| *ns >= 50_000_000), "{sleeping:?}");
}
