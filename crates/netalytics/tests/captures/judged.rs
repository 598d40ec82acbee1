//! Every parser has a capture in `captures/` and a test that compares its rows with those of another program: a server's
//! log or tshark. Those of HTTP/2, Kafka, and TLS are in `judged/`; others are here and in
//! `captures.rs`.

#[path = "judged/cassandra.rs"]
mod cassandra;
#[path = "judged/encrypted.rs"]
mod encrypted;
#[path = "judged/http2.rs"]
mod http2;
#[path = "judged/kafka.rs"]
mod kafka;
#[path = "judged/tables.rs"]
mod tables;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{captures, rows, run, text};
use tables::table;

/// Parser, folder in `captures/`, file with the truth, and the test that compares them.
type Judged = (&'static str, &'static str, &'static str, fn());

const JUDGED: &[Judged] = &[
    (
        "packet",
        "shop",
        "tshark-packets.tsv",
        packets_are_those_of_tshark,
    ),
    (
        "tcp_pkt_size",
        "shop",
        "tshark-packets.tsv",
        packets_are_those_of_tshark,
    ),
    (
        "tcp_flow_key",
        "shop",
        "tshark-packets.tsv",
        connections_are_those_of_tshark,
    ),
    (
        "tcp_conn_time",
        "shop",
        "tshark-packets.tsv",
        connections_are_those_of_tshark,
    ),
    (
        "flow",
        "shop",
        "tshark-packets.tsv",
        connections_are_those_of_tshark,
    ),
    (
        "http",
        "shop",
        "nginx-access.log",
        super::shop_requests_are_those_of_nginx,
    ),
    (
        "http_get",
        "shop",
        "nginx-access.log",
        get_requests_are_those_of_nginx,
    ),
    (
        "http2",
        "http2",
        "nginx-access.jsonl",
        http2::streams_are_those_of_nginx,
    ),
    (
        "grpc",
        "http2",
        "grpc-server.jsonl",
        http2::calls_are_those_of_the_server,
    ),
    (
        "mysql_query",
        "shop",
        "mariadb-queries.log",
        super::shop_statements_are_those_of_mariadb,
    ),
    (
        "postgresql",
        "postgresql",
        "postgresql.log",
        statements_are_those_of_postgresql,
    ),
    (
        "memcached",
        "shop",
        "memcached-commands.log",
        super::shop_commands_are_those_of_memcached,
    ),
    (
        "memcached_get",
        "shop",
        "memcached-commands.log",
        gets_are_those_of_memcached,
    ),
    (
        "mongodb",
        "mongodb",
        "client.jsonl",
        mongodb_commands_are_those_of_the_driver,
    ),
    (
        "cassandra",
        "cassandra",
        "client.jsonl",
        cassandra::cassandra_requests_are_those_of_the_driver,
    ),
    (
        "kafka",
        "kafka",
        "requests.jsonl",
        kafka::kafka_requests_are_those_of_the_broker,
    ),
    (
        "redis",
        "redis",
        "commandstats.txt",
        super::redis_commands_are_those_of_the_server,
    ),
    ("nfs", "nfs", "tshark.tsv", calls_are_those_of_tshark),
    ("rpc", "nfs", "tshark.tsv", calls_are_those_of_tshark),
    (
        "dns",
        "dns",
        "tshark.tsv",
        super::dns_answers_are_those_of_tshark,
    ),
    (
        "tls",
        "tls",
        "openssl.log",
        super::tls_handshakes_are_those_of_openssl,
    ),
    (
        "encrypted",
        "tls-keys",
        "server.log",
        encrypted::turns_are_the_requests_of_nginx,
    ),
    (
        "quic",
        "quic",
        "client.jsonl",
        quic_handshakes_are_those_of_the_client,
    ),
];

#[test]
fn every_parser_has_a_capture_with_truth() {
    let printed = text(&run(&["parsers", "--format", "jsonl"]).stdout);
    let name = |line: &str| {
        serde_json::from_str::<Value>(line).ok()?["parser"]
            .as_str()
            .map(str::to_owned)
    };
    // Counters of interfaces are only in exports: `interfaces_have_the_differences_of_their_counters`.
    let parsers: BTreeSet<String> = printed
        .lines()
        .map(|line| name(line).expect("a parser"))
        .filter(|parser| parser != "interface")
        .collect();
    let judged: BTreeSet<String> = JUDGED
        .iter()
        .map(|(parser, ..)| (*parser).to_owned())
        .collect();
    assert_eq!(
        parsers, judged,
        "parsers, and parsers with a capture in captures/"
    );
    for (parser, folder, truth, _) in JUDGED {
        let folder = captures().join(folder);
        assert!(
            folder.join("README.md").is_file(),
            "{parser}: how it was recorded"
        );
        assert!(folder.join(truth).is_file(), "{parser}: {truth}");
        assert!(
            !rows(&format!("PARSE {parser}"), &folder.join("in.pcap")).is_empty(),
            "{parser}"
        );
    }
}

/// The repository stays small.
#[test]
fn captures_are_small() {
    let folders = std::fs::read_dir(captures())
        .expect("a folder")
        .map(|e| e.expect("an entry").path());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).expect("a folder"));
    let sizes = files.map(|file| file.and_then(|file| file.metadata()).expect("a file").len());
    let sizes: Vec<u64> = sizes.collect();
    assert!(
        sizes.iter().all(|size| *size < 5 << 18),
        "a file exceeds 1.25 MiB"
    );
    assert!(
        sizes.iter().sum::<u64>() < 5 << 20,
        "all files exceed 5 MiB"
    );
}

/// Rows of the shop's capture.
fn of_shop(query: &str) -> Vec<Value> {
    rows(query, &captures().join("shop/in.pcap"))
}

/// A statement: port of the client, name of the prepared statement, text, and whether it failed.
type Statement = (u64, Option<String>, String, bool);

/// Statements of each connection in their order.
fn by_port(all: Vec<Statement>) -> BTreeMap<u64, Vec<Statement>> {
    let mut ports = BTreeMap::<u64, Vec<Statement>>::new();
    for statement in all {
        ports.entry(statement.0).or_default().push(statement);
    }
    ports
}

/// `PORT LOG:  duration: N ms  statement: TEXT`, `… execute NAME: TEXT`, `PORT STATEMENT:  TEXT` of a failed one.
fn statement_of_log(line: &str) -> Option<Statement> {
    let (port, line) = line.split_once(' ')?;
    let port = port.parse().expect("a port");
    if let Some(text) = line.strip_prefix("STATEMENT:  ") {
        return Some((port, None, text.to_owned(), true));
    }
    let (_, done) = line.split_once(" ms  ")?;
    let (what, text) = done.split_once(": ")?;
    let name = what
        .strip_prefix("execute ")
        .filter(|name| *name != "<unnamed>");
    Some((port, name.map(str::to_owned), text.to_owned(), false))
}

#[test]
fn statements_are_those_of_postgresql() {
    let folder = captures().join("postgresql");
    let log = std::fs::read_to_string(folder.join("postgresql.log")).expect("the server's log");
    let want = by_port(log.lines().filter_map(statement_of_log).collect());
    let rows = rows("PARSE postgresql", &folder.join("in.pcap"));
    let mut got = Vec::<Statement>::new();
    let mut last = None;
    for row in rows.iter().filter(|row| row["query"].is_string()) {
        assert_eq!(row["quality"], "exact", "{row}");
        let text = |field: &str| row[field].as_str().map(str::to_owned);
        // The log file keeps the first line of a statement.
        let query = text("query").and_then(|query| query.lines().next().map(str::to_owned));
        let query = query.expect("a statement");
        if text("command").as_deref() == Some("parse") {
            continue;
        }
        let port = row["client_port"].as_u64().expect("a port");
        // The log has a Query with several statements once.
        let request = (port, row["ts"].clone(), row["command"] == "query");
        if last.as_ref() == Some(&request) && request.2 {
            let statement = &mut got.last_mut().expect("the statement before").2;
            *statement = format!("{statement}; {query}");
            continue;
        }
        last = Some(request);
        let failed = row["error_code"].is_string();
        got.push((port, text("statement_name"), query, failed));
    }
    assert!(got.len() > 500, "{} statements", got.len());
    assert_eq!(by_port(got), want);
    let failed_logins = |row: &&Value| row["command"] == "login" && row["error_code"] == "28P01";
    assert_eq!(rows.iter().filter(failed_logins).count(), 1);
    let canceled = rows.iter().find(|row| row["error_code"] == "57014");
    let by = rows.iter().find(|row| row["command"] == "cancel");
    let pid = |row: Option<&Value>| row.map(|row| row["backend_pid"].as_u64());
    assert_eq!(pid(canceled), pid(by));
    assert!(by.is_some(), "a CancelRequest");
}

/// The commands and results that pymongo reported, in their order, also from the same messages in compressed form; hello of its monitor
/// and of new connections are not among them.
#[test]
fn mongodb_commands_are_those_of_the_driver() {
    let folder = captures().join("mongodb");
    let log = std::fs::read_to_string(folder.join("client.jsonl")).expect("the driver's log");
    let reported: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let mut compressors = BTreeSet::new();
    for file in ["in.pcap", "compressed.pcap"] {
        let rows = rows("PARSE mongodb", &folder.join(file));
        let (hellos, commands): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|row| {
            let command = row["command"].as_str().unwrap_or_default();
            ["hello", "isMaster", "ismaster"].contains(&command)
        });
        assert!(hellos.len() > 2, "a monitor");
        assert_eq!(commands.len(), reported.len(), "{file}");
        for (row, reported) in commands.iter().zip(&reported) {
            is_as_reported(row, reported);
            compressors.extend(row["compression"].as_str().map(str::to_owned));
        }
    }
    let names = ["snappy", "zlib", "zstd"].map(str::to_owned);
    assert_eq!(compressors, BTreeSet::from(names));
}

fn is_as_reported(row: &Value, reported: &Value) {
    const FIELDS: [&str; 8] = [
        "command",
        "database",
        "collection",
        "documents",
        "returned",
        "matched",
        "modified",
        "error_code",
    ];
    assert_eq!(row["quality"], "exact", "{row}");
    for field in FIELDS {
        assert_eq!(row[field], reported[field], "{field} of {row}");
    }
    assert_eq!(row["ok"], reported["error_code"].is_null(), "{row}");
    let micros = reported["duration_us"].as_i64().expect("a time");
    let total = row["total_time_ns"].as_i64().expect("a time");
    assert!(total / 1000 <= micros, "{row}: {micros} us at the client");
}

/// The state of aioquic's client after each connection, and the packets as tshark dissects them.
#[test]
fn quic_handshakes_are_those_of_the_client() {
    let folder = captures().join("quic");
    let log = std::fs::read_to_string(folder.join("client.jsonl")).expect("the client's state");
    let rows = rows("PARSE quic", &folder.join("in.pcap"));
    assert_eq!(rows.len(), log.lines().count());
    let of = |port: &Value| rows.iter().find(|row| row["client_port"] == *port);
    for line in log.lines() {
        let state: Value = serde_json::from_str(line).expect("a line of JSON");
        let case = state["case"].as_str().expect("a name");
        let row = of(&state["client_port"]).unwrap_or_else(|| panic!("{case} has no row"));
        assert_eq!(row["sni"], state["sni"], "{case}");
        let offered: Vec<&str> = state["alpn"]
            .as_array()
            .expect("protocols")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        // Lists of more than 1,024 bytes are null.
        let offered = Some(offered.join(",")).filter(|list| list.len() <= 1024);
        assert_eq!(row["alpn_offered"].as_str(), offered.as_deref(), "{case}");
        assert_eq!(row["early_data"], state["early_data"], "{case}");
        let is_answered = case != "no server";
        assert_eq!(row["quality"] == "exact", is_answered, "{case}: {row}");
        if !is_answered {
            assert_eq!(row["quality"], "half");
            assert!(row["retransmissions"].as_u64() > Some(0));
            continue;
        }
        assert_eq!(row["retransmissions"], 0, "{case}");
        assert_eq!(row["retry"], state["retry"], "{case}");
        let is_connected = state["connected"] == true;
        assert_eq!(row["handshake_time_ns"].is_i64(), is_connected, "{case}");
        if !is_connected {
            continue;
        }
        assert_eq!(row["version"], state["version"], "{case}");
        let cipher = row["cipher"].as_str().expect("a suite");
        let theirs = state["cipher"].as_str().expect("a suite");
        assert_eq!(cipher, format!("TLS_{theirs}"), "{case}");
        assert_eq!(row["resumed"], state["resumed"], "{case}");
        assert!(
            row["handshake_time_ns"].as_i64() > row["response_time_ns"].as_i64(),
            "{case}"
        );
    }
    let upgraded = of(&41_003.into()).expect("the compatible upgrade");
    assert_eq!(upgraded["version_offered"], "v1");
    let refused = of(&41_011.into()).expect("no common protocol");
    assert_eq!(refused["error"], "CRYPTO_ERROR handshake_failure");
    assert_eq!(refused["error_by"], "server");
}

/// A decimal number of seconds in nanoseconds.
fn nanos(seconds: &str) -> i64 {
    let (whole, part) = seconds.split_once('.').expect("a fraction");
    assert_eq!(part.len(), 9, "{seconds}");
    format!("{whole}{part}").parse().expect("a number")
}

/// A number in decimal or, after `0x`, hexadecimal digits; `None` if empty.
fn number(text: &str) -> Option<i64> {
    let parsed = text
        .strip_prefix("0x")
        .map_or_else(|| text.parse(), |hex| i64::from_str_radix(hex, 16));
    (!text.is_empty()).then(|| parsed.expect("a number"))
}

/// A packet of `tshark-packets.tsv`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SharkPacket {
    ts: i64,
    stream: i64,
    src: (String, i64),
    dst: (String, i64),
    bytes: i64,
    payload: i64,
    ttl: i64,
    flags: i64,
    seq: i64,
    ack: i64,
    window: i64,
}

fn shark_packets() -> Vec<SharkPacket> {
    let packet = |f: Vec<String>| {
        let number = |n: usize| number(&f[n]).expect("a number");
        SharkPacket {
            ts: nanos(&f[0]),
            stream: number(1),
            src: (f[2].clone(), number(3)),
            dst: (f[4].clone(), number(5)),
            bytes: number(6),
            payload: number(7),
            ttl: number(8),
            flags: number(9),
            seq: number(10),
            ack: number(11),
            window: number(12),
        }
    };
    table("shop", "tshark-packets.tsv")
        .into_iter()
        .map(packet)
        .collect()
}

/// An address and a port of a row.
fn end(row: &Value, side: &str) -> (String, i64) {
    let ip = row[format!("{side}_ip")]
        .as_str()
        .expect("an address")
        .to_owned();
    (ip, row[format!("{side}_port")].as_i64().expect("a port"))
}

/// A number of a row.
fn of(row: &Value, field: &str) -> i64 {
    row[field]
        .as_i64()
        .unwrap_or_else(|| panic!("{field}: {row}"))
}

#[test]
fn packets_are_those_of_tshark() {
    let mut packets = of_shop("PARSE packet");
    let mut sizes = of_shop("PARSE tcp_pkt_size");
    let mut expected = shark_packets();
    // Packets of one time are in any order.
    let time = |row: &Value| {
        (
            of(row, "ts"),
            row["id"].as_u64(),
            row["id"].as_str().map(str::to_owned),
        )
    };
    packets.sort_by_key(time);
    sizes.sort_by_key(time);
    assert_eq!([packets.len(), sizes.len()], [expected.len(); 2]);
    let mut found: Vec<SharkPacket> = packets
        .iter()
        .zip(&sizes)
        .map(|(packet, size)| {
            for field in ["ts", "id", "src_ip", "dst_ip", "packet_bytes"] {
                assert_eq!(packet[field], size[field], "{packet} {size}");
            }
            SharkPacket {
                ts: of(packet, "ts"),
                stream: 0,
                src: end(packet, "src"),
                dst: end(packet, "dst"),
                bytes: of(packet, "packet_bytes"),
                payload: of(size, "payload_bytes"),
                ttl: of(packet, "ttl"),
                flags: of(packet, "tcp_flags"),
                seq: of(packet, "seq"),
                ack: of(packet, "ack"),
                window: of(packet, "window"),
            }
        })
        .collect();
    expected.iter_mut().for_each(|packet| packet.stream = 0);
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn connections_are_those_of_tshark() {
    const SYN: i64 = 0x02;
    const FIN: i64 = 0x01;
    const ACK: i64 = 0x10;
    let mut streams: BTreeMap<i64, Vec<SharkPacket>> = BTreeMap::new();
    shark_packets()
        .into_iter()
        .for_each(|packet| streams.entry(packet.stream).or_default().push(packet));
    let first: Vec<_> = streams
        .values()
        .map(|of| (of[0].ts, of[0].src.clone(), of[0].dst.clone()))
        .collect();
    let keys = of_shop("PARSE tcp_flow_key");
    let keys: Vec<_> = keys
        .iter()
        .map(|row| (of(row, "ts"), end(row, "src"), end(row, "dst")))
        .collect();
    assert_eq!(keys, first);
    let flows = of_shop("PARSE flow");
    let times = of_shop("PARSE tcp_conn_time");
    assert_eq!(
        (flows.len(), times.len()),
        (streams.len(), 2 * streams.len())
    );
    for packets in streams.values() {
        let begun = &packets[0];
        assert_eq!(begun.flags & (SYN | ACK), SYN, "connections are complete");
        let row = flows
            .iter()
            .find(|row| end(row, "client") == begun.src)
            .expect("a flow");
        let (up, down): (Vec<_>, Vec<_>) =
            packets.iter().partition(|packet| packet.src == begun.src);
        let acked = up
            .iter()
            .find(|packet| packet.flags & (SYN | ACK) == ACK)
            .expect("the handshake ends");
        let last = packets.last().expect("packets");
        for (field, expected) in [
            ("ts", begun.ts),
            ("client_packets", up.len() as i64),
            ("server_packets", down.len() as i64),
            ("client_bytes", up.iter().map(|packet| packet.bytes).sum()),
            ("server_bytes", down.iter().map(|packet| packet.bytes).sum()),
            (
                "client_payload_bytes",
                up.iter().map(|packet| packet.payload).sum(),
            ),
            (
                "server_payload_bytes",
                down.iter().map(|packet| packet.payload).sum(),
            ),
            ("duration_ns", last.ts - begun.ts),
            ("handshake_ns", acked.ts - begun.ts),
        ] {
            assert_eq!(of(row, field), expected, "{field}: {row}");
        }
        let fin = packets
            .iter()
            .find(|packet| packet.flags & FIN != 0)
            .expect("it ends with FIN");
        let mut events = times.iter().filter(|row| end(row, "client") == begun.src);
        let start = events.next().expect("a start");
        let ended = events.next().expect("an end");
        assert_eq!(
            (&start["event"], of(start, "ts")),
            (&Value::from("start"), begun.ts)
        );
        assert_eq!(
            (&ended["event"], &ended["flag"]),
            (&Value::from("end"), &Value::from("FIN"))
        );
        assert_eq!(
            (of(ended, "ts"), of(ended, "conn_time_ns")),
            (fin.ts, fin.ts - begun.ts)
        );
        assert_eq!(of(ended, "handshake_ns"), acked.ts - begun.ts);
    }
}

/// URLs with the host of all requests, `shop.example`.
#[test]
fn get_requests_are_those_of_nginx() {
    let log =
        std::fs::read_to_string(captures().join("shop/nginx-access.log")).expect("nginx's log");
    let mut expected: Vec<String> = log
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|f| f[3] == "GET")
        .map(|f| format!("{} {} shop.example{} {}", f[1], f[2], f[4], f[5]))
        .collect();
    let mut found: Vec<String> = of_shop("PARSE http_get")
        .iter()
        .map(|row| {
            let (ip, port) = end(row, "client");
            format!(
                "{ip} {port} {} {}",
                row["url"].as_str().expect("a URL"),
                row["status"]
            )
        })
        .collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn gets_are_those_of_memcached() {
    let log = std::fs::read_to_string(captures().join("shop/memcached-commands.log"))
        .expect("memcached's log");
    let mut expected: Vec<&str> = log
        .lines()
        .filter_map(|line| line.strip_prefix("get "))
        .collect();
    let rows = of_shop("PARSE memcached_get");
    let mut found: Vec<&str> = rows
        .iter()
        .map(|row| row["cache_key"].as_str().expect("a key"))
        .collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
}

/// Name of an ONC RPC program and of its procedure, by RFC 1833 and RFC 1813.
fn called(program: i64, procedure: i64) -> (&'static str, &'static str) {
    const NFS: [&str; 22] = [
        "NULL",
        "GETATTR",
        "SETATTR",
        "LOOKUP",
        "ACCESS",
        "READLINK",
        "READ",
        "WRITE",
        "CREATE",
        "MKDIR",
        "SYMLINK",
        "MKNOD",
        "REMOVE",
        "RMDIR",
        "RENAME",
        "LINK",
        "READDIR",
        "READDIRPLUS",
        "FSSTAT",
        "FSINFO",
        "PATHCONF",
        "COMMIT",
    ];
    let procedure = usize::try_from(procedure).expect("a procedure");
    match program {
        100_000 => ("portmap", ["NULL", "SET", "UNSET", "GETPORT"][procedure]),
        100_003 => ("nfs", NFS[procedure]),
        100_005 => (
            "mount",
            ["NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"][procedure],
        ),
        other => panic!("program {other}"),
    }
}

/// tshark's replies: time, client port, transaction, program, version, procedure, status, seconds since the call.
#[test]
fn calls_are_those_of_tshark() {
    let mut expected: Vec<Vec<String>> = table("nfs", "tshark.tsv")
        .iter()
        .map(|f| {
            let (program, procedure) = called(
                number(&f[3]).expect("a program"),
                number(&f[5]).expect("one"),
            );
            let status = match (program, &*f[6]) {
                ("nfs", "0") => "ok",
                ("nfs", "2") => "noent",
                ("nfs", "17") => "exist",
                ("nfs", "66") => "notempty",
                _ => "",
            };
            let xid = number(&f[2]).expect("a transaction").to_string();
            let ended = nanos(&f[0]).to_string();
            let took = nanos(&f[7]).to_string();
            [
                &f[1], &*xid, program, &*f[4], procedure, status, &*ended, &*took,
            ]
            .map(str::to_owned)
            .to_vec()
        })
        .collect();
    expected.sort_unstable();
    for (parser, programs) in [("rpc", &["nfs", "mount", "portmap"][..]), ("nfs", &["nfs"])] {
        let rows = rows(&format!("PARSE {parser}"), &captures().join("nfs/in.pcap"));
        let field = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let mut found: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                let status = if row["program"] == "nfs" {
                    field(row, "status")
                } else {
                    String::new()
                };
                vec![
                    of(row, "client_port").to_string(),
                    of(row, "xid").to_string(),
                    field(row, "program"),
                    of(row, "version").to_string(),
                    field(row, "procedure"),
                    status,
                    of(row, "ts_end").to_string(),
                    // tshark's time ends with the last byte of a reply.
                    (of(row, "response_time_ns") + of(row, "transfer_time_ns")).to_string(),
                ]
            })
            .collect();
        found.sort_unstable();
        let expected: Vec<_> = expected
            .iter()
            .filter(|f| programs.contains(&&*f[2]))
            .cloned()
            .collect();
        assert_eq!(found, expected, "{parser}");
    }
}
