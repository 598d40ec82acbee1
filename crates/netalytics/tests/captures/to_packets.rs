//! From results to packets: header fields by name, packets of the tuples that pass WHERE, and data of both sides of a
//! flow. Compared with tshark.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::{ByteOrder, TcpDialogue, TimestampPrecision, corpus, pcap_bytes};

const SHOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/shop/in.pcap");

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netalytics"))
        .args(args)
        .output()
        .expect("the program starts")
}

/// Checks the exit code and the words in its messages; returns standard output.
fn check(args: &[&str], code: i32, words: &[&str]) -> String {
    let output = run(args);
    // Columns are as wide as their widest line.
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    words
        .iter()
        .for_each(|word| assert!(said.contains(word), "{args:?}: {word:?} is not in {said}"));
    String::from_utf8(output.stdout).unwrap_or_default()
}

fn rows(args: &[&str]) -> Vec<Value> {
    let printed = check(&[args, &["--format", "jsonl", "-q"]].concat(), 0, &[]);
    printed
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect()
}

/// Output of tshark on a capture; `None` without tshark, if `ALLOW_MISSING` names it.
fn tshark(capture: &str, args: &[&str]) -> Option<String> {
    let output = Command::new("tshark")
        .args(["-n", "-r", capture])
        .args(args)
        .output();
    Some(String::from_utf8_lossy(&testkit::require!("tshark" => output).stdout).into_owned())
}

/// Available captures of the corpus.
fn captures(names: &[&str]) -> Vec<String> {
    let Some(root) = corpus() else {
        return Vec::new();
    };
    names
        .iter()
        .map(|name| root.join("captures").join(name).display().to_string())
        .collect()
}

/// Number of values per header field.
type Values = BTreeMap<(String, String), usize>;

/// Fields of all requests or responses of a capture, by tshark: names as in queries, repeated fields joined.
fn fields_by_tshark(capture: &str, of: &str) -> Option<Values> {
    let filter = format!("http.{of}");
    let field = format!("http.{of}.line");
    let args = [
        "-Y",
        &filter,
        "-T",
        "fields",
        "-e",
        &field,
        "-E",
        "aggregator=\u{1}",
    ];
    let mut values = Values::new();
    for head in tshark(capture, &args)?.lines() {
        let mut joined = BTreeMap::<String, Vec<&str>>::new();
        for (name, value) in head.split('\u{1}').filter_map(|line| line.split_once(':')) {
            let value = value.trim_end_matches("\\n").trim_end_matches("\\r").trim();
            joined
                .entry(name.to_lowercase().replace('-', "_"))
                .or_default()
                .push(value);
        }
        for (name, lines) in joined {
            *values.entry((name, lines.join(", "))).or_default() += 1;
        }
    }
    Some(values)
}

#[test]
fn header_fields_are_those_of_tshark() {
    let captures = captures(&[
        "http/ndpi-http_asymmetric.pcapng",
        "http/packetbeat-http_minitwit.pcap",
        "http/pcpp-http-packets.pcap.gz",
        "http/scapy-http_chunk.pcap",
        "http/wswiki-http_redirects.pcapng",
        "http/zeek-docker-http-upgrade.pcap",
        "http/zeek-get_nosyn.pcap",
        "http/zeek-pipelined-requests.pcap",
        "http/zeek-smuggle-http-request.pcap",
    ]);
    for capture in captures.iter().map(String::as_str).chain([SHOP]) {
        for of in ["request", "response"] {
            let Some(want) = fields_by_tshark(capture, of) else {
                return;
            };
            let mut names: Vec<&str> = want.keys().map(|(name, _)| name.as_str()).collect();
            names.dedup();
            let mut got = Values::new();
            for some in names.chunks(16) {
                let parts: Vec<_> = some
                    .iter()
                    .map(|name| format!("{of}_header.{name} is not null"))
                    .collect();
                for row in rows(&[
                    "query",
                    &format!("PARSE http WHERE {}", parts.join(" or ")),
                    "-r",
                    capture,
                ]) {
                    for name in some {
                        if let Some(value) = row[format!("{of}_header.{name}")].as_str() {
                            *got.entry(((*name).to_owned(), value.to_owned()))
                                .or_default() += 1;
                        }
                    }
                }
            }
            assert_eq!(got, want, "{capture}: {of}");
        }
    }
}

#[test]
fn header_fields_are_recorded_and_redacted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let query = "PARSE http WHERE request_header.user_agent is not null and response_header.server is not null";
    let group = "PARSE http PROCESS (group-count: group=(request_header.user_agent, response_header.server))";
    check(
        &[
            "record",
            query,
            "-r",
            SHOP,
            "-o",
            &path("plain"),
            "--no-redact",
        ],
        0,
        &[],
    );
    assert_eq!(
        rows(&["query", query, "-r", &path("plain")]),
        rows(&["query", query, "-r", SHOP])
    );
    assert_eq!(
        rows(&["query", group, "-r", &path("plain")]),
        rows(&["query", group, "-r", SHOP])
    );
    check(
        &["record", query, "-r", SHOP, "-o", &path("redacted")],
        0,
        &[],
    );
    let redacted = rows(&["query", group, "-r", &path("redacted")]);
    assert!(!redacted.is_empty());
    for row in redacted {
        let agent = row["request_header.user_agent"].as_str().expect("a text");
        assert!(agent.starts_with('~') && agent.len() == 17, "{agent}");
    }
    let other = "PARSE http PROCESS (group-count: group=request_header.cookie)";
    check(
        &["query", other, "-r", &path("plain")],
        1,
        &["request_header.cookie was not recorded"],
    );
}

/// Filter of tshark for the packets of a tuple's flow.
fn between(row: &Value) -> String {
    let ends = [("client_ip", "client_port"), ("server_ip", "server_port")];
    let each = ends.map(|(ip, port)| {
        let ip = row[ip].as_str().expect("an address");
        let version = if ip.contains(':') { "ipv6" } else { "ip" };
        format!("{version}.addr == {ip} and tcp.port == {}", row[port])
    });
    format!("({})", each.join(" and "))
}

/// Written packets are all packets of the rows' flows: the query returns the same rows over them, and tshark counts the
/// same number.
#[test]
fn packets_of_tuples_that_pass_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("kept.pcapng").display().to_string();
    let looked_back = folder.path().join("back.pcapng").display().to_string();
    let cases = [
        (
            "http/zeek-pipelined-requests.pcap",
            "PARSE http WHERE status = 200",
        ),
        ("http/ppa-http_espn.pcapng", "PARSE http WHERE status = 302"),
        (
            "http/packetbeat-http_over_vlan.pcap",
            "PARSE http WHERE method = 'GET'",
        ),
        (
            "mysql/zeek-mysql.pcap",
            "PARSE mysql_query WHERE response_bytes > 0",
        ),
        (
            "tcp/deepflow-l4-source-port-reuse.pcap",
            "PARSE tcp_conn_time WHERE event = 'start'",
        ),
    ];
    let all = cases
        .into_iter()
        .flat_map(|(name, query)| Some((captures(&[name]).pop()?, query)));
    for (capture, query) in all.chain([(SHOP.to_owned(), "PARSE http WHERE status >= 500")]) {
        let args = ["query", query, "-r", &capture];
        let found = rows(&[&args[..], &["-w", &kept]].concat());
        assert!(!found.is_empty(), "{capture}: {query}");
        assert_eq!(
            rows(&["query", query, "-r", &kept]),
            found,
            "{capture}: {query}"
        );
        // Packets from a pipe are buffered, with the same result.
        let output = Command::new(env!("CARGO_BIN_EXE_netalytics"))
            .args([
                "query",
                query,
                "-r",
                "-",
                "-w",
                &looked_back,
                "--look-back",
                "24h",
                "-q",
            ])
            .stdin(File::open(&capture).expect("a capture"))
            .stdout(Stdio::null())
            .status();
        assert!(output.expect("the program starts").success());
        let bytes = |path: &str| fs::read(path).expect("packets");
        assert_eq!(bytes(&looked_back), bytes(&kept), "{capture}: {query}");
        // By tshark: the same number of packets between these endpoints.
        let mut ends: Vec<String> = found.iter().map(between).collect();
        ends.sort_unstable();
        ends.dedup();
        let filter = ends.join(" or ");
        let count = |file: &str| Some(tshark(file, &["-Y", &filter])?.lines().count());
        let Some(in_capture) = count(&capture) else {
            continue;
        };
        assert_eq!(count(&kept), Some(in_capture), "{capture}: {query}");
    }
}

/// Two connections with the same endpoints: only the packets of one are written.
#[test]
fn connections_with_the_same_endpoints_are_distinguished() {
    let mut all = Vec::new();
    let mut packets = Vec::new();
    for (n, status) in [(0, "200 OK"), (1, "500 Oops"), (2, "200 OK")] {
        let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80").with_isn(n << 28, n << 27);
        talk.advance(i64::from(n) * 10_000_000_000);
        talk.handshake();
        talk.client().send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        talk.server()
            .send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes());
        talk.close();
        packets.push(talk.sent().len());
        all.extend(talk.take());
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let capture = path("in.pcap");
    let kept = path("kept.pcapng");
    fs::write(
        &capture,
        pcap_bytes(&all, TimestampPrecision::Nanos, ByteOrder::Little),
    )
    .expect("written");
    let found = rows(&[
        "query",
        "PARSE http WHERE status = 500",
        "-r",
        &capture,
        "-w",
        &kept,
    ]);
    assert_eq!(found.len(), 1);
    assert_eq!(
        rows(&["query", "PARSE packet", "-r", &kept]).len(),
        packets[1]
    );
    assert_eq!(rows(&["query", "PARSE http", "-r", &kept]), found);
    // With their common identifier both are printed one after the other.
    let id = found[0]["community_id"].as_str().expect("a text");
    let shown = check(&["follow", id, "-r", &capture], 0, &[]);
    let told = shown
        .lines()
        .filter(|line| line.starts_with("flow ") || line.starts_with("< HTTP"));
    let told: Vec<&str> = told
        .map(|line| line.split(' ').nth(2).unwrap_or_default())
        .collect();
    assert_eq!(
        told.iter().filter(|word| **word == "500").count(),
        1,
        "{shown}"
    );
    assert_eq!(told.len(), 6, "{shown}");
}

#[test]
fn packets_are_written_to_standard_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let kept = path("kept.pcapng");
    let piped = path("piped.pcapng");
    let query = "PARSE http WHERE status >= 500";
    check(
        &["query", query, "-r", SHOP, "-w", &kept, "-o", &path("rows")],
        0,
        &["packets kept 78"],
    );
    let output = run(&[
        "query",
        query,
        "-r",
        SHOP,
        "-w",
        "-",
        "-o",
        &path("rows"),
        "-q",
    ]);
    assert_eq!(output.stdout, fs::read(&kept).expect("packets"));
    fs::write(&piped, output.stdout).expect("written");
    assert_eq!(
        rows(&["query", query, "-r", &piped]),
        rows(&["query", query, "-r", SHOP])
    );
}

#[test]
fn flows_beyond_the_limit_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("kept.pcapng").display().to_string();
    let query = [
        "query",
        "PARSE http WHERE status >= 500",
        "-w",
        &kept,
        "-o",
        "/dev/null",
        "-r",
    ];
    check(
        &[&query[..], &[SHOP, "--kept-flows-max", "2"]].concat(),
        0,
        &["missed 3"],
    );
    let output = Command::new(env!("CARGO_BIN_EXE_netalytics"))
        .args(query)
        .args(["-", "--look-back-bytes-max", "10k"])
        .stdin(File::open(SHOP).expect("a capture"))
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("packets kept 0") && said.contains("missed 5"),
        "{said}"
    );
}

/// Data of client and server in our hexadecimal output.
fn said(id: &str, capture: &str) -> [String; 2] {
    let printed = check(
        &["follow", id, "-r", capture, "--hex", "--bytes-max", "all"],
        0,
        &[],
    );
    let of = |mark: &str| -> String {
        let lines = printed
            .lines()
            .filter_map(|line| line.strip_prefix(mark)?.get(9..57));
        lines.flat_map(|hex| hex.split_whitespace()).collect()
    };
    [of("> 0"), of("< 0")]
}

/// The same by tshark, for a stream whose client is its first or second node.
fn said_by_tshark(stream: &str, capture: &str, client: &str) -> Option<[String; 2]> {
    let printed = tshark(capture, &["-q", "-z", &format!("follow,tcp,raw,{stream}")])?;
    let lines = || {
        printed
            .lines()
            .skip_while(|line| !line.starts_with("Node 1"))
            .skip(1)
    };
    let hex = |line: &&str| line.trim_start().bytes().all(|b| b.is_ascii_hexdigit());
    let of_first: String = lines()
        .filter(|line| !line.starts_with('\t'))
        .filter(hex)
        .collect();
    let of_second: String = lines().filter_map(|line| line.strip_prefix('\t')).collect();
    let first = printed
        .lines()
        .find_map(|line| line.strip_prefix("Node 0: "))
        .expect("its ends");
    Some(if first == client {
        [of_first, of_second]
    } else {
        [of_second, of_first]
    })
}

#[test]
fn conversations_are_those_of_tshark() {
    let captures = captures(&[
        // Segments out of order, retransmitted, or both.
        "http/zeek-bro.org.pcap",
        "http/packetbeat-http_minitwit.pcap",
        "http/zeek-pipelined-requests.pcap",
        "http/mercury-multi_packet_http_request.pcap",
        "tcp/arkime-wireshark-retrans.pcap",
        "tcp/pcpp-one_tcp_stream.pcap",
        "tcp/ppa-tcp_retransmissions.pcapng",
        "tcp/wswiki-out-of-order.pcap.gz",
        "mysql/packetbeat-mysql_long.pcap",
    ]);
    for capture in captures.iter().map(String::as_str).chain([SHOP]) {
        let query = "PARSE flow WHERE transport = 'tcp' and gaps = 0 and client_payload_bytes > 0";
        let flows = rows(&["query", query, "-r", capture]);
        assert!(!flows.is_empty(), "{capture}");
        for flow in flows.iter().take(2) {
            let text = |field: &str| flow[field].as_str().expect("a text");
            let filter = between(flow);
            let client = format!("{}:{}", text("client_ip"), flow["client_port"]);
            let Some(streams) = tshark(
                capture,
                &["-Y", &filter, "-T", "fields", "-e", "tcp.stream"],
            ) else {
                return;
            };
            let stream = streams.lines().next().expect("a stream");
            let want = said_by_tshark(stream, capture, &client).expect("it is here");
            assert_eq!(said(text("id"), capture), want, "{capture}: {}", text("id"));
        }
    }
}

#[test]
fn a_flow_is_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let flow = rows(&[
        "query",
        "PARSE http WHERE status >= 500 LIMIT 5s",
        "-r",
        SHOP,
    ])
    .remove(0);
    let text = |field: &str| flow[field].as_str().expect("a text").to_owned();
    let id = text("id");
    let community_id = text("community_id");
    let shown = check(
        &["follow", &id, "-r", SHOP, "-w", &path("flow.pcapng")],
        0,
        &["packets kept"],
    );
    let first = format!(
        "flow {id}  {community_id}  tcp\n> client {}:{}\n",
        text("client_ip"),
        flow["client_port"]
    );
    assert!(shown.starts_with(&first), "{shown}");
    for line in [
        "> GET /broken HTTP/1.1",
        "< HTTP/1.1 500 Internal Server Error",
        "[server closed its side]",
    ] {
        assert!(
            shown.contains(&format!("\n{line}\n")),
            "{line} is not in\n{shown}"
        );
    }
    assert_eq!(check(&["follow", &community_id, "-r", SHOP], 0, &[]), shown);
    assert_eq!(
        check(&["follow", &id, "-r", &path("flow.pcapng")], 0, &[]),
        shown
    );
    // The same capture twice: duplicates add nothing.
    assert_eq!(check(&["follow", &id, "-r", SHOP, SHOP], 0, &[]), shown);
    let short = check(&["follow", &id, "-r", SHOP, "--bytes-max", "100"], 0, &[]);
    assert!(
        short.len() < shown.len() && short.contains("are not shown: --bytes-max all"),
        "{short}"
    );
}

#[test]
fn flows_that_cannot_be_followed_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("recording").display().to_string();
    check(
        &["record", "PARSE http", "-r", SHOP, "-o", &recording],
        0,
        &[],
    );
    let id = "0123456789abcdef";
    for (args, code, words) in [
        (
            &[id, "-r", SHOP][..],
            1,
            &["none of the 43 flows has the id 0123456789abcdef"][..],
        ),
        (&["0123", "-r", SHOP], 2, &["16 hexadecimal digits"]),
        (&[id], 2, &["--read"]),
        (&[id, "-r", &recording], 2, &["a recording has no packets"]),
        (&[id, "-r", "/none.pcap"], 1, &["/none.pcap: no such file"]),
        (&[id, "-r", "-", "-"], 2, &["can be read once only"]),
        (
            &[id, "-r", SHOP, "-w", "/none/x"],
            1,
            &["cannot write packets to /none/x"],
        ),
        (&[id, "-r", SHOP, "-w", SHOP], 2, &["is an input"]),
        (
            &[id, "-r", SHOP, "-w", "-"],
            2,
            &["write the text to a file with -o FILE"],
        ),
    ] {
        check(&[&["follow"], args].concat(), code, words);
    }
    let query = ["query", "PARSE http WHERE status = 1", "-r", SHOP, "-w"];
    check(
        &[&query[..], &["-"]].concat(),
        2,
        &["write the result to a file with -o FILE"],
    );
    check(
        &[&query[..], &["/none/x"]].concat(),
        1,
        &["cannot write packets to /none/x"],
    );
    check(
        &[&query[..], &["-", "-o", "/dev/null", "--rotate", "1h"]].concat(),
        2,
        &["--rotate needs files"],
    );
}

/// Control characters in packets are escaped for terminals.
#[test]
fn controls_are_escaped() {
    let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:7000");
    talk.handshake();
    talk.client()
        .send(b"\x1b[31mred\x07\r\n\xff\xfe na\xc3\xafve \xe2\x80\xae\xc2\x9b1m\r\r\nno end");
    talk.server().send(b"\tok\0\n");
    talk.close();
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("in.pcap").display().to_string();
    fs::write(
        &capture,
        pcap_bytes(talk.sent(), TimestampPrecision::Nanos, ByteOrder::Little),
    )
    .expect("written");
    let id = rows(&["query", "PARSE flow", "-r", &capture])[0]["id"]
        .as_str()
        .expect("a text")
        .to_owned();
    let shown = check(&["follow", &id, "-r", &capture], 0, &[]);
    let marked = shown
        .lines()
        .filter(|line| line.starts_with(['>', '<']))
        .skip(2)
        .collect::<Vec<_>>();
    let expected = [
        "> \\x1b[31mred\\x07",
        "> \\xff\\xfe na\u{ef}ve \\u{202e}\\x9b1m\\r",
        "> no end",
        "< \\tok\\x00",
    ];
    assert_eq!(marked, expected);
    assert!(
        shown.chars().all(|c| c == '\n' || !c.is_control()),
        "{shown:?}"
    );
}
