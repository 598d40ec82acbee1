//! Connections that start with a PROXY protocol header: captures of such connections, and other captures with inserted
//! headers. Tuples equal those without a header, and every row has the header's addresses.

use std::path::PathBuf;

use testkit::TcpDialogue;

use crate::frames::Frames;
use crate::support::{Row, run, written};

const ADDRESSES: [&str; 4] = [
    "proxied_client_ip",
    "proxied_client_port",
    "proxied_server_ip",
    "proxied_server_port",
];

fn found(file: &str) -> Option<PathBuf> {
    Some(testkit::corpus()?.join("found").join("bugs").join(file))
}

/// Some columns of each row, `-` for null.
fn columns(rows: &[Row], names: &[&str]) -> Vec<String> {
    let line = |row: &Row| {
        let cells = names
            .iter()
            .map(|name| row.get(*name).map_or("-", String::as_str));
        cells.collect::<Vec<_>>().join(" ")
    };
    rows.iter().map(line).collect()
}

#[test]
fn captures_with_headers() {
    for (file, parser, names, expected) in [
        (
            "http_proxy_v1_short.pcap",
            "http",
            &["method", "status", "response_time_ns", "quality"][..],
            &["GET 200 40049920 exact"; 5][..],
        ),
        (
            "http_proxy_v2_short.pcap",
            "http",
            &["path", "status", "response_time_ns", "quality"],
            &[
                "/s0 200 40049920 exact",
                "/s1 200 40049920 exact",
                "/s2 200 40049920 exact",
                "/s3 200 40049920 exact",
                "/s4 200 40049920 exact",
            ],
        ),
        (
            "dns_tcp_proxy_v2.pcap",
            "dns",
            &["query_name", "response_time_ns", "quality"],
            &["t0.x.org 100049920 exact", "t1.x.org 100049920 exact"],
        ),
        (
            "tls_proxy_v1_same_segment.pcap",
            "tls",
            &["sni", "response_time_ns", "quality"],
            &["asecuritysite.com 10050048 exact"],
        ),
        (
            "mysql_proxy_v1.pcap",
            "mysql_query",
            &["command", "user", "database", "quality"],
            &[
                "login t shop exact",
                "query t shop exact",
                "query t shop exact",
                "query t shop exact",
                "query t shop exact",
                "quit t shop exact",
            ],
        ),
    ] {
        let Some(capture) = found(file) else { return };
        let rows = run(&capture, parser).rows;
        assert_eq!(columns(&rows, names), expected, "{file}");
        let addresses = columns(&rows, &ADDRESSES);
        assert!(
            addresses.iter().all(|line| !line.contains('-')),
            "{file}: {addresses:?}"
        );
    }
}

/// The parts of a header, whether the request follows in the last one, and the header's addresses.
type Header = (Vec<Vec<u8>>, bool, [&'static str; 4]);

/// Headers in segments of their own or in the client's first segment, with the expected addresses except the first
/// port.
fn headers() -> Vec<Header> {
    let line = b"PROXY TCP4 192.0.2.7 198.51.100.9 50123 8443\r\n".to_vec();
    let four = ["192.0.2.7", "50123", "198.51.100.9", "8443"];
    let v2 = |family: u8, rest: &[u8]| {
        let len = (rest.len() as u16).to_be_bytes();
        [
            b"\r\n\r\n\0\r\nQUIT\n\x21".as_slice(),
            &[family],
            &len,
            rest,
        ]
        .concat()
    };
    let short = [192, 0, 2, 7, 198, 51, 100, 9, 0xc3, 0xcb, 0x20, 0xfb];
    let elements = [short.as_slice(), &[4, 0xff, 0xf0], &[b'G'; 0xfff0]].concat();
    let long = v2(0x11, &elements)
        .chunks(1400)
        .map(<[u8]>::to_vec)
        .collect();
    let six = [[0x20; 16], [0x30; 16]].concat();
    let six = v2(0x21, &[six.as_slice(), &[0, 1, 0, 2]].concat());
    let six_ends = [
        "2020:2020:2020:2020:2020:2020:2020:2020",
        "1",
        "3030:3030:3030:3030:3030:3030:3030:3030",
        "2",
    ];
    vec![
        (vec![line.clone()], false, four),
        (vec![line.clone()], true, four),
        (line.iter().map(|byte| vec![*byte]).collect(), false, four),
        (vec![v2(0x11, &short)], true, four),
        (
            v2(0x11, &short).chunks(9).map(<[u8]>::to_vec).collect(),
            false,
            four,
        ),
        (long, false, four),
        (vec![six], false, six_ends),
        (vec![b"PROXY UNKNOWN\r\n".to_vec()], false, ["-"; 4]),
    ]
}

#[test]
fn a_header_changes_nothing_else() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for (capture, parser, server_first) in [
        ("live-captures/http_mix.pcap", "http", false),
        ("live-captures/http_pipelined.pcap", "http", false),
        ("live-captures/redis_mix.pcap", "redis", false),
        ("live-captures/mc_text.pcap", "memcached", false),
        ("live-captures/mc_binary.pcap", "memcached", false),
        ("live-captures/tls.pcap", "tls", false),
        ("live-captures/dns.pcap", "dns", false),
        ("live-captures/mysql_mix.pcap", "mysql_query", true),
    ] {
        let path = root.join(capture);
        let before = run(&path, parser).rows;
        for (segments, merged, addresses) in headers() {
            if merged && server_first {
                continue;
            }
            let mut frames = Frames::read(&path).expect("a pcap file");
            frames.put_in_front(&segments, merged);
            let file = frames.write();
            let mut after = run(file.path(), parser).rows;
            let of_tcp: Vec<Row> = after
                .iter()
                .filter(|row| row["transport"] == "tcp")
                .cloned()
                .collect();
            assert!(!of_tcp.is_empty(), "{capture}");
            let told = columns(&of_tcp, &ADDRESSES);
            assert!(
                told.iter().all(|line| *line == addresses.join(" ")),
                "{capture}: {told:?}"
            );
            after
                .iter_mut()
                .for_each(|row| ADDRESSES.iter().for_each(|name| drop(row.remove(*name))));
            assert_same(
                &before,
                &after,
                &format!(
                    "{capture} with {:?}",
                    segments[0].escape_ascii().to_string()
                ),
            );
        }
    }
}

/// Compares rows in any order.
fn assert_same(before: &[Row], after: &[Row], what: &str) {
    let lines = |rows: &[Row]| {
        let mut lines: Vec<String> = rows
            .iter()
            .map(|row| {
                // The time at which an incomplete transaction ends depends on the number of packets.
                let of_half = |name: &str| name == "ts_end" && row["quality"] == "half";
                let cells = row.iter().filter(|(name, _)| !of_half(name));
                let mut cells: Vec<_> = cells
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                cells.sort();
                cells.join(" ")
            })
            .collect();
        lines.sort();
        lines
    };
    let before = lines(before);
    let after = lines(after);
    let missing: Vec<_> = before
        .iter()
        .filter(|line| !after.contains(line))
        .take(3)
        .collect();
    let surplus: Vec<_> = after
        .iter()
        .filter(|line| !before.contains(line))
        .take(3)
        .collect();
    assert!(
        before == after,
        "{what}: {} and {} rows\n{missing:#?}\n{surplus:#?}",
        before.len(),
        after.len()
    );
}

/// A request and its response after the bytes that `begin` sends.
fn talk(server: &str, begin: impl FnOnce(&mut TcpDialogue)) -> Vec<Row> {
    let mut talk = TcpDialogue::new("10.0.0.1:40000", server);
    talk.handshake();
    begin(&mut talk);
    talk.client().send(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    talk.server()
        .send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    talk.client().send(b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n");
    talk.server()
        .send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    talk.close();
    rows_of(&talk)
}

fn rows_of(talk: &TcpDialogue) -> Vec<Row> {
    let file = written(talk.sent());
    run(file.path(), "http").rows
}

const V2: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14\x0a\x01\x01\x01\x0a\x02\x02\x02\0\x07\0\x50\x04\0\x05\0\0\0\0\0";

#[test]
fn headers_with_missing_bytes() {
    let names = ["proxied_client_ip", "path", "quality"];
    // The element is lost; its length and the addresses are known.
    let rows = talk("10.0.0.2:80", |talk| {
        talk.client().send(&V2[..30]);
        talk.client().send_unseen(V2.len() - 30);
    });
    assert_eq!(
        columns(&rows, &names),
        ["10.1.1.1 /a exact", "10.1.1.1 /b exact"]
    );
    // An address is lost.
    let rows = talk("10.0.0.2:80", |talk| {
        talk.client().send(&V2[..20]);
        talk.client().send_unseen(V2.len() - 20);
    });
    assert_eq!(columns(&rows, &names), ["- /a midstream", "- /b exact"]);
    // The whole header is lost, or the end of its line.
    for seen in [0, 20] {
        let line = b"PROXY TCP4 10.1.1.1 10.2.2.2 7 80\r\n";
        let rows = talk("10.0.0.2:80", |talk| {
            if seen > 0 {
                talk.client().send(&line[..seen]);
            }
            talk.client().send_unseen(line.len() - seen);
        });
        let urls = columns(&rows, &["proxied_client_ip", "path"]);
        assert_eq!(urls, ["- /a", "- /b"]);
        assert_ne!(rows[0]["quality"], "exact", "{rows:?}");
    }
    // With a snaplen, the addresses of a header with elements remain.
    let rows = talk("10.0.0.2:80", |talk| {
        talk.client().send(V2).amend(|sent| sent.cut = 6);
    });
    assert_eq!(
        columns(&rows, &names),
        ["10.1.1.1 /a exact", "10.1.1.1 /b exact"]
    );
}

#[test]
fn malformed_proxy_headers_are_ignored() {
    for begin in [
        b"PROXY TCP4 10.1.1.1 10.2.2.2 7 99999\r\n".as_slice(),
        b"PROXY TCP4 10.1.1.1 10.2.2.2 7 80\n",
        b"PROXY UDP9 x\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x04\x0a\x01\x01\x01",
        // The checksum is wrong.
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x13\x0a\x01\x01\x01\x0a\x02\x02\x02\0\x07\0\x50\x03\0\x04\0\0\0\0",
    ] {
        let rows = talk("10.0.0.2:80", |talk| {
            talk.client().send(begin);
        });
        assert!(columns(&rows, &ADDRESSES).iter().all(|line| line == "- - - -"), "{rows:?}");
        assert!(
            rows.iter()
                .all(|row| row["quality"] != "exact" || row.get("path").is_some_and(|path| path == "/b")),
            "{rows:?}"
        );
    }
}

/// A header is recognized only at the start of the client's stream.
#[test]
fn headers_elsewhere() {
    let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80");
    talk.handshake();
    talk.client()
        .send(b"POST /a HTTP/1.1\r\nContent-Length: 35\r\n\r\n");
    talk.client().send(b"PROXY TCP4 10.1.1.1 10.2.2.2 7 80\r\n");
    talk.server()
        .send(b"HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\n");
    talk.server().send(b"PROXY TCP4 10.1.1.1 10.2.2.2 7 80\r\n");
    talk.close();
    let rows = rows_of(&talk);
    assert_eq!(
        columns(&rows, &["path", "quality", "proxied_client_ip"]),
        ["/a exact -"]
    );
}
