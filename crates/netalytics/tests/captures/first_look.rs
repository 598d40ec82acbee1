//! The overview at 80 columns shows ten faults planted in one capture, and tables keep the columns that
//! identify a row.

use std::sync::Arc;

use sinks::table::{TableSink, TableStyle};
use sinks::{ResultHead, Sink};
use testkit::mysql;
use testkit::{ByteOrder, SentPacket, TcpDialogue, TimestampPrecision, pcap_bytes};
use tuple::{DataType, FieldId, TupleWriter, Unit};
use wire::FlowSide;
use wire::packet::TcpFlags;

use crate::{run, text};

const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1000 * MILLISECOND;
/// Capabilities of a MySQL client without compression and encryption.
const PLAIN_MYSQL: u32 = 0x828d;

/// A connection to a service, `n` tenths of a second after the start of the capture.
fn connection(n: u16, server: &str) -> TcpDialogue {
    let mut talk = TcpDialogue::new(&format!("10.0.0.9:{}", 20_000 + n), server);
    talk.advance(i64::from(n) * SECOND / 10);
    talk
}

/// A request and its response: the first byte after `wait_ms`, the rest of it after further `transfer_ms`.
fn exchange(talk: &mut TcpDialogue, request: &[u8], response: &[u8], [wait, transfer]: [i64; 2]) {
    talk.client().send(request);
    talk.advance(wait * MILLISECOND);
    let (first, rest) = response.split_at(response.len() / 2);
    talk.server().send(first);
    talk.advance(transfer * MILLISECOND);
    talk.server().send(rest);
}

fn http(n: u16, server: &str, path: &str, status: u16, times: [i64; 2]) -> Vec<SentPacket> {
    let mut talk = connection(n, server);
    talk.handshake();
    let request = format!("GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n");
    let response = format!("HTTP/1.1 {status} Such\r\nContent-Length: 10\r\n\r\n0123456789");
    exchange(&mut talk, request.as_bytes(), response.as_bytes(), times);
    talk.close();
    talk.take()
}

fn sql(n: u16, statement: &str, error: Option<u16>) -> Vec<SentPacket> {
    let mut talk = connection(n, "10.0.0.4:3306");
    talk.handshake();
    talk.server().send(&mysql::greeting(PLAIN_MYSQL));
    let mut login = PLAIN_MYSQL.to_le_bytes().to_vec();
    login.extend([0, 0, 0, 1, 45]);
    login.extend([0; 23]);
    login.extend(b"app\0\x02pwshop\0");
    talk.client().send(&mysql::packet(1, login));
    talk.server().send(&mysql::packet(2, [0, 0, 0, 2, 0, 0, 0]));
    talk.client()
        .send(&mysql::packet(0, format!("\x03{statement}")));
    let answer = match error {
        Some(code) => {
            let mut answer = vec![0xff];
            answer.extend(code.to_le_bytes());
            answer.extend(b"#HY000Lock wait timeout exceeded");
            answer
        }
        None => vec![0, 1, 0, 2, 0, 0, 0],
    };
    talk.server().send(&mysql::packet(1, answer));
    talk.close();
    talk.take()
}

fn cache_get(n: u16, is_hit: bool) -> Vec<SentPacket> {
    let mut talk = connection(n, "10.0.0.5:11211");
    talk.handshake();
    let answer = if is_hit {
        "VALUE cart 0 2\r\nab\r\nEND\r\n"
    } else {
        "END\r\n"
    };
    exchange(&mut talk, b"get cart\r\n", answer.as_bytes(), [1, 0]);
    talk.close();
    talk.take()
}

/// A question for the address of `name`, and its answer with this response code.
fn dns(n: u16, name: &str, code: u8) -> Vec<SentPacket> {
    let mut talk = connection(n, "10.0.0.6:53");
    let mut question = Vec::new();
    for label in name.split('.') {
        question.push(label.len() as u8);
        question.extend(label.as_bytes());
    }
    question.extend([0, 0, 1, 0, 1]);
    let id = n.to_be_bytes();
    let message = |flags: [u8; 2]| [&id[..], &flags, &[0, 1, 0, 0, 0, 0, 0, 0], &question].concat();
    talk.datagram(FlowSide::A, &message([1, 0]));
    talk.advance(MILLISECOND);
    talk.datagram(FlowSide::B, &message([0x81, 0x80 | code]));
    talk.take()
}

/// A TLS server that rejects the handshake.
fn rejected_tls(n: u16) -> Vec<SentPacket> {
    let name = b"pay.example.org";
    let len = |n: usize| (n as u16).to_be_bytes();
    let mut sni = vec![0, 0];
    sni.extend(len(name.len() + 5));
    sni.extend(len(name.len() + 3));
    sni.push(0);
    sni.extend(len(name.len()));
    sni.extend(name);
    let mut hello = vec![3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0x13, 1, 1, 0]);
    hello.extend(len(sni.len()));
    hello.extend(sni);
    let mut record = vec![0x16, 3, 1];
    record.extend(len(hello.len() + 4));
    record.extend([1, 0]);
    record.extend(len(hello.len()));
    record.extend(hello);
    let mut talk = connection(n, "10.0.0.7:443");
    talk.handshake();
    talk.client().send(&record);
    talk.server().send(&[0x15, 3, 3, 0, 2, 2, 40]);
    talk.close();
    talk.take()
}

fn refused(n: u16) -> Vec<SentPacket> {
    let mut talk = connection(n, "10.0.0.8:9200");
    talk.client().syn();
    talk.server().segment(0, TcpFlags::RST | TcpFlags::ACK, b"");
    talk.take()
}

/// A connect whose SYN is lost, or that takes long.
fn slow_connect(n: u16, server: &str, is_syn_lost: bool) -> Vec<SentPacket> {
    let mut talk = connection(n, server);
    talk.client().syn();
    if is_syn_lost {
        talk.advance(SECOND);
        talk.client().segment(-1, TcpFlags::SYN, b"");
    } else {
        talk.advance(400 * MILLISECOND);
    }
    talk.server().syn_ack();
    talk.client().ack();
    talk.close();
    talk.take()
}

/// A shop with ten faults among normal traffic.
fn shop_with_faults() -> Vec<SentPacket> {
    let mut sent = Vec::new();
    for n in 0..100 {
        sent.extend(http(n, "10.0.0.2:80", "/products/7", 200, [2, 0]));
        // Harmless errors outnumber the errors that matter.
        sent.extend(http(1000 + n, "10.0.0.2:80", "/favicon.ico", 404, [1, 0]));
        sent.extend(cache_get(2000 + n, n % 10 == 0));
        sent.extend(dns(
            3000 + n,
            if n % 4 == 0 {
                "gone.example.org"
            } else {
                "shop.example.org"
            },
            if n % 4 == 0 { 3 } else { 0 },
        ));
        sent.extend(sql(4000 + n, "SELECT 1", None));
    }
    for n in 0..4 {
        sent.extend(http(5000 + n, "10.0.0.2:80", "/checkout", 500, [3, 0]));
        sent.extend(sql(5100 + n, "UPDATE stock SET n = 3", Some(1205)));
        // The proxy waits for the application behind it.
        sent.extend(http(5200 + n, "10.0.0.2:80", "/report", 200, [310, 0]));
        sent.extend(http(5300 + n, "10.0.0.3:8080", "/report", 200, [300, 0]));
        sent.extend(http(5400 + n, "10.0.0.2:80", "/export.csv", 200, [1, 812]));
        sent.extend(rejected_tls(5500 + n));
        sent.extend(refused(5600 + n));
        sent.extend(slow_connect(5700 + n, "10.0.0.10:8443", true));
        sent.extend(slow_connect(5800 + n, "10.0.0.11:8443", false));
    }
    sent.sort_by_key(|one| one.ts);
    sent
}

/// The capture of the shop with faults, and its folder.
fn faulty_capture() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("shop.pcap");
    let bytes = pcap_bytes(
        &shop_with_faults(),
        TimestampPrecision::Nanos,
        ByteOrder::Little,
    );
    std::fs::write(&capture, bytes).expect("it is written");
    let path = capture.to_str().expect("UTF-8").to_owned();
    (folder, path)
}

/// Per fault, one query and a row of its table, with single spaces.
const QUERIES: [(&str, &str); 11] = [
    (
        "SELECT path, status, count(*) FROM http WHERE status >= 500 GROUP BY path, status",
        "/checkout 500 4",
    ),
    (
        "PARSE mysql_query WHERE error_code != 0 PROCESS (group-count: group=fingerprint, error_code)",
        "UPDATE stock SET n = ? 1205 4",
    ),
    (
        "SELECT sni, alert, count(*) FROM tls WHERE alert IS NOT NULL GROUP BY sni, alert",
        "pay.example.org handshake_failure 4",
    ),
    (
        "SELECT path, p99(response_time), p99(total_time) AS total FROM http GROUP BY path ORDER BY total DESC LIMIT 1",
        "/export.csv 1.02 ms 813 ms",
    ),
    (
        "SELECT server_ip, p50(total_time) FROM http WHERE path = '/report' GROUP BY server_ip",
        "10.0.0.3 300 ms",
    ),
    (
        "SELECT server_ip, p50(total_time) FROM http WHERE path = '/report' GROUP BY server_ip",
        "10.0.0.2 310 ms",
    ),
    (
        "SELECT server_ip, ratio(hit = false) AS missed FROM memcached GROUP BY server_ip",
        "10.0.0.5 90 %",
    ),
    (
        "SELECT query_name, count(*) FROM dns WHERE response_code = 'NXDOMAIN' GROUP BY query_name",
        "gone.example.org 25",
    ),
    (
        "SELECT server_ip, server_port, count(*) FROM flow WHERE conn_state = 'REJ' GROUP BY 1, 2",
        "10.0.0.8 9200 4",
    ),
    (
        "SELECT server_ip, sum(syn_retransmissions) AS again FROM flow GROUP BY 1 HAVING again > 0",
        "10.0.0.10 4",
    ),
    (
        "SELECT server_ip, min(handshake) FROM flow WHERE syn_retransmissions = 0 GROUP BY server_ip HAVING min(handshake) > 300ms",
        "10.0.0.11 400 ms",
    ),
];

#[test]
fn one_query_finds_each_fault() {
    let (_folder, capture) = faulty_capture();
    let mut found = String::new();
    for (query, row) in QUERIES {
        let output = run(&["-q", "query", query, "-r", &capture, "--format", "table"]);
        let table = text(&output.stdout);
        let is_row = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") == row;
        let is_narrow = table.lines().all(|line| line.chars().count() <= 80);
        if !is_narrow || !table.lines().any(is_row) {
            found += &format!("{query}\n{table}{}", text(&output.stderr));
        }
    }
    assert_eq!(found, "");
}

#[test]
fn ten_planted_faults_are_on_the_screen() {
    let (_folder, capture) = faulty_capture();
    let output = run(&["overview", "-r", &capture]);
    let screen = text(&output.stdout);
    let lists = screen.split("ASK NEXT").next().unwrap_or_default();
    assert!(
        lists.lines().all(|line| line.chars().count() <= 80),
        "{lists}"
    );
    let list = |title: &str| {
        let from = lists
            .find(title)
            .unwrap_or_else(|| panic!("no {title}:\n{lists}"));
        let rest = lists[from..].lines().skip(1);
        rest.take_while(|line| !line.is_empty() && !line.starts_with(char::is_uppercase))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    for (fault, title, row) in [
        (
            "errors of the web server",
            "FAILING",
            "10.0.0.2:80 /checkout 500 4",
        ),
        (
            "errors of the database",
            "FAILING",
            "10.0.0.4:3306 UPDATE stock SET n = ? 1205 4",
        ),
        (
            "rejected TLS handshakes",
            "FAILING",
            "10.0.0.7:443 pay.example.org handshake_failure 4",
        ),
        (
            "a slow stream",
            "SLOWEST",
            "10.0.0.2:80 /export.csv 4 1.02 ms 813 ms",
        ),
        (
            "a slow application",
            "SLOWEST",
            "10.0.0.3:8080 /report 4 300 ms 300 ms",
        ),
        (
            "the proxy before it",
            "SLOWEST",
            "10.0.0.2:80 /report 4 310 ms 310 ms",
        ),
        (
            "a cold cache",
            "NOT FOUND",
            "10.0.0.5:11211 memcached 100 90 %",
        ),
        ("unknown names", "NOT FOUND", "10.0.0.6:53 dns 100 25 %"),
        ("a refused port", "NOT CONNECTED", "10.0.0.8:9200 refused 4"),
        (
            "lost SYNs",
            "SLOW CONNECTS",
            "10.0.0.10:8443 SYN sent again 4 1.00 s",
        ),
        (
            "slow handshakes",
            "SLOW CONNECTS",
            "10.0.0.11:8443 slow path or server 4 400 ms",
        ),
    ] {
        let rows = list(title);
        assert!(
            rows.iter().any(|one| one == row),
            "{fault}: {row} is none of {rows:#?}\n{lists}"
        );
    }
    let mut rows: Vec<&str> = lists.lines().filter(|line| !line.is_empty()).collect();
    let n = rows.len();
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len(), n, "rows look alike:\n{lists}");
}

/// Fields with short texts.
const SHORT: [&str; 6] = [
    "method",
    "command",
    "status",
    "application",
    "version",
    "procedure",
];

/// The header of a table of a parser's tuples in which every field has a value.
fn header(parser: &str, width: usize) -> String {
    let registration = parsers::registry::find(parser).expect("a parser");
    let schema = Arc::new((registration.schema)());
    let ids: Vec<FieldId> = schema.ids().collect();
    let mut writer = TupleWriter::new(schema.clone(), &ids);
    for id in &ids {
        let field = schema.field(*id);
        match field.data_type {
            DataType::Bool => writer.bool(*id, true),
            DataType::U64 => writer.u64(*id, 12_345),
            DataType::I64 if field.unit == Unit::EpochNanoseconds => writer.i64(*id, SECOND),
            DataType::I64 => writer.i64(*id, 12_345_678),
            DataType::F64 => writer.f64(*id, 0.5),
            DataType::Ip => writer.ip(*id, &wire::Addr::v4([192, 168, 100, 100]).0),
            DataType::Text if SHORT.contains(&&*field.name) => writer.text(*id, b"GET"),
            DataType::Text => {
                writer.text(*id, "a text of a request, too long for a line".as_bytes())
            }
            DataType::Json | DataType::Hashes => {}
        }
    }
    writer.end_row();
    let batch = writer.finish();
    let head = ResultHead {
        columns: ids
            .iter()
            .map(|id| schema.field(*id).name.to_string())
            .collect(),
        parsers: vec![parser.to_owned()],
        ..ResultHead::default()
    };
    let style = TableStyle {
        width: Some(width),
        ..TableStyle::default()
    };
    let mut table = Vec::new();
    let mut sink = TableSink::new(&mut table, &[head], style);
    sink.write(0, &batch)
        .and_then(|()| sink.finish())
        .expect("writing to memory cannot fail");
    assert!(
        !sink.notes().is_empty(),
        "{parser} at {width}: columns are omitted silently"
    );
    drop(sink);
    let table = text(&table);
    assert!(
        table.lines().all(|line| line.chars().count() <= width),
        "{parser} at {width}:\n{table}"
    );
    table.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn tables_keep_identifying_columns() {
    for width in [80, 120, 200] {
        for (parser, identity) in [
            ("flow", &["ts", "client_ip", "server_ip", "server_port"][..]),
            (
                "http",
                &[
                    "ts",
                    "client_ip",
                    "method",
                    "path",
                    "status",
                    "response_time",
                ],
            ),
            (
                "mysql_query",
                &["ts", "client_ip", "query", "error_code", "response_time"],
            ),
            ("memcached", &["ts", "client_ip", "command", "cache_key"]),
            ("redis", &["ts", "client_ip", "command", "key"]),
            ("mongodb", &["ts", "client_ip", "fingerprint"]),
            ("cassandra", &["ts", "client_ip", "fingerprint"]),
            ("kafka", &["ts", "client_ip", "api", "topic"]),
            ("dns", &["ts", "client_ip", "query_name", "response_code"]),
            ("nfs", &["ts", "client_ip", "procedure", "name"]),
            ("tls", &["ts", "client_ip", "sni", "version"]),
            ("encrypted", &["ts", "client_ip", "sni", "protocol"]),
            ("quic", &["ts", "client_ip", "sni", "error"]),
            ("packet", &["ts", "src_ip", "dst_ip"]),
            (
                "tcp_flow_key",
                &["ts", "src_ip", "src_port", "dst_ip", "dst_port"],
            ),
            (
                "tcp_conn_time",
                &["ts", "client_ip", "server_ip", "server_port", "event"],
            ),
            ("tcp_pkt_size", &["ts", "src_ip", "dst_ip", "packet_bytes"]),
            ("postgresql", &["ts", "client_ip", "query", "error_code"]),
        ] {
            let header = header(parser, width);
            let shown: Vec<&str> = header.split_whitespace().collect();
            let lacks = identity.iter().find(|name| !shown.contains(name));
            assert!(
                lacks.is_none(),
                "{parser} at {width} lacks {lacks:?}: {header}"
            );
            let has_total = shown.contains(&"total_time");
            assert!(
                has_total || width < 120 || !identity.contains(&"response_time"),
                "{parser} at {width}: {header}"
            );
        }
    }
}
