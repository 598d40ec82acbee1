//! Compares `http` with `http.tsv`: every row of every capture that has one, with method, host, request target,
//! version, statuses, body sizes, and times in nanoseconds; and no tuples for captures without HTTP. Differences are
//! listed in [`DIFFERENCES`] and explained in `docs/truth/http.md`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{Row, compare_captures, nanos, run, truth};

const FOLDERS: &[&str] = &[
    "captures/http",
    "captures/tcp",
    "captures/http2",
    "captures/mixed",
    "captures/pgsql",
    "captures/redis",
    "captures/memcached",
    "captures/mysql",
    "captures/mongodb",
    "captures/kafka",
    "captures/dns",
    "captures/tls",
    "captures/cassandra",
    "captures/malformed",
    "captures/formats",
    "live-captures",
    "derived",
    "bench",
];

/// Tunnels and link types that are not decoded.
const NOT_OPENED: &[&str] = &[
    "erspan1.pcap",
    "erspan2.pcap",
    "erspan3.pcap",
    "geneve.pcap",
    "gre.pcap",
    "gretap.pcap",
    "ipip.pcap",
    "mpls.pcap",
    "vxlan.pcap",
    "vxlanfrag.pcap",
];

/// A capture whose rows differ from the truth.
struct Difference {
    capture: &'static str,
    why: &'static str,
    /// Number of rows only in the truth, and only in our output.
    count: (usize, usize),
    /// All differing rows, `-` truth and `+` ours; for many, the first ones and a digest of all.
    rows: &'static [&'static str],
    digest: u64,
}

/// Known differences and their reasons.
const DIFFERENCES: &[Difference] = &[
    Difference {
        capture: "pcpp-4KHttpRequests.pcap",
        why: "a request behind missing bytes is not found by the truth's search, which wants a line end before it",
        count: (0, 113),
        rows: &[
            "+ 10.0.0.1:60440 212.199.202.68:80 POST www.winwin.co.il /SOA/AutoComplete.asmx/IsCityExist 1.1 ~ ~ 25 ~ 1413746221786210000 ~ ~",
        ],
        digest: 0x7cd6_d795_a96d_da5c,
    },
    Difference {
        capture: "pcpp-http-packets.pcap.gz",
        why: "in six connections a response's head is missing; the truth pairs all later responses one request too early",
        count: (54, 54),
        rows: &[
            "- 172.16.210.84:31600 172.16.30.190:8868 GET 172.16.210.84:31600 /MONITOR/ims/common/bs-table/js/bootstrap-table.js 1.1 200 ~ 0 7288 1573548016212188000 113860000 556000",
            "- 172.16.210.84:31600 172.16.30.190:8868 GET 172.16.210.84:31600 /MONITOR/ims/common/sweet-alert/sweetAlert.js 1.1 200 ~ 0 6218 1573548016321100000 36527000 1077000",
            "+ 172.16.210.84:31600 172.16.30.190:8868 GET 172.16.210.84:31600 /MONITOR/ims/common/bs-table/js/bootstrap-table.js 1.1 ~ ~ 0 ~ 1573548016212188000 ~ ~",
            "+ 172.16.210.84:31600 172.16.30.190:8868 GET 172.16.210.84:31600 /MONITOR/ims/common/sweet-alert/sweetAlert.js 1.1 200 ~ 0 7288 1573548016321100000 4948000 556000",
        ],
        digest: 0x53c9_698b_3ced_6690,
    },
    Difference {
        capture: "suricata-http-start-from-response.pcap",
        why: "the first response answers a request from before the capture; the truth pairs it with the next one",
        count: (2, 2),
        rows: &[
            "- 172.16.9.181:38498 172.16.9.189:80 GET 172.16.9.189 /favicon.ico 1.1 200 ~ 0 11 1530696914780442000 -88652000 0",
            "- 172.16.9.181:38498 172.16.9.189:80 ~ ~ ~ ~ 404 ~ ~ 209 1530696914780694000 ~ 0",
            "+ 172.16.9.181:38498 172.16.9.189:80 ~ ~ ~ ~ 200 ~ ~ 11 1530696914691790000 ~ 0",
            "+ 172.16.9.181:38498 172.16.9.189:80 GET 172.16.9.189 /favicon.ico 1.1 404 ~ 0 209 1530696914780442000 252000 0",
        ],
        digest: 0xd2ec_645c_fe7d_043a,
    },
    Difference {
        capture: "wswiki-c05-http-reply-r1.pcap.gz",
        why: "a Content-Length that is no number delimits nothing, so the body goes on to the end",
        count: (38, 38),
        rows: &[
            "+ 192.168.0.1:1982 192.168.0.2:8000 GET 192.168.0.2:8000 / 1.0 200 ~ 0 80 1014865976276510000 475000 0",
            "- 192.168.0.1:1982 192.168.0.2:8000 GET 192.168.0.2:8000 / 1.0 200 ~ 0 0 1014865976276510000 475000 0",
        ],
        digest: 0x6af5_e30d_ad78_e74d,
    },
    Difference {
        capture: "zeek-1000-requests-one-dropped-response.pcap.gz",
        why: "the head of the first response is missing; the truth pairs every later response one request too early",
        count: (1000, 1000),
        rows: &[
            "+ ::1:44730 ::1:80 GET localhost / 1.1 ~ ~ 0 ~ 1692957822217564000 ~ ~",
            "- ::1:44730 ::1:80 GET localhost / 1.1 200 ~ 0 615 1692957822217564000 1133000 16000",
        ],
        digest: 0x7197_41f6_0300_6deb,
    },
    Difference {
        capture: "zeek-http_09.pcap",
        why: "HTTP/0.9; the truth wants a head that ends",
        count: (0, 1),
        rows: &[
            "+ 127.0.0.1:42960 127.0.0.1:80 GET ~ /zeek.html 0.9 ~ ~ 0 51 1668774216063137000 284000 0",
        ],
        digest: 0x30f2_3fef_3392_ee1b,
    },
    Difference {
        capture: "arkime-http2-nghttp2.pcap",
        why: "HTTP/2's preface is no HTTP/1 request",
        count: (1, 0),
        rows: &[
            "- 10.89.85.15:49570 139.162.123.134:80 PRI ~ * 2.0 ~ ~ 0 ~ 1593995681482643000 ~ ~",
        ],
        digest: 0x7de1_e146_e4fe_41c4,
    },
    Difference {
        capture: "suricata-http2-continuation.pcap",
        why: "HTTP/2's preface is no HTTP/1 request",
        count: (1, 0),
        rows: &["- 127.0.0.1:50321 127.0.0.1:8080 PRI ~ * 2.0 ~ ~ 0 ~ 1703017866757535000 ~ ~"],
        digest: 0x6de7_bb46_5482_9e91,
    },
    Difference {
        capture: "wswiki-http2-h2c.pcap",
        why: "HTTP/2's preface, after 101 Switching Protocols",
        count: (1, 0),
        rows: &["- 10.9.0.2:58038 139.162.123.134:80 PRI ~ * 2.0 ~ ~ 0 ~ 1534095042294261000 ~ ~"],
        digest: 0xd2a5_18c5_1c49_2444,
    },
    Difference {
        capture: "mercury-emix.pcap.gz",
        why: "requests behind a SOCKS handshake, which the truth's search does not find",
        count: (4, 4),
        rows: &[
            "- 10.180.156.185:53533 10.180.156.249:1080 ~ ~ ~ ~ 200 ~ ~ 1270 1386004309478180000 ~ 2000",
            "+ 10.180.156.185:53533 10.180.156.249:1080 GET www.example.com / 1.1 200 ~ 0 1270 1386004309473817000 4363000 2000",
            "- 10.180.156.185:53534 10.180.156.249:1080 ~ ~ ~ ~ 200 ~ ~ 1270 1386004312383668000 ~ 3000",
            "+ 10.180.156.185:53534 10.180.156.249:1080 GET www.example.com / 1.1 200 ~ 0 1270 1386004312379159000 4509000 3000",
            "- 10.180.156.185:53535 10.180.156.249:1080 ~ ~ ~ ~ 200 ~ ~ 1270 1386004317988723000 ~ 1000",
            "+ 10.180.156.185:53535 10.180.156.249:1080 GET www.example.com / 1.1 200 ~ 0 1270 1386004317984371000 4352000 1000",
            "- 10.180.156.185:54072 10.180.156.249:1080 ~ ~ ~ ~ 200 ~ ~ 1270 1386090534578589000 ~ 1000",
            "+ 10.180.156.185:54072 10.180.156.249:1080 GET www.example.com / 1.1 200 ~ 0 1270 1386090534574251000 4338000 1000",
        ],
        digest: 0x1281_c349_7744_d256,
    },
    Difference {
        capture: "drop.pcap",
        why: "a request is missing; the truth pairs the next two with the responses before theirs",
        count: (3, 3),
        rows: &[
            "- 10.77.0.1:8080 10.77.0.2:55756 GET 10.77.0.1:8080 /10k.txt?s1 1.1 200 ~ 0 20 1795291157507143000 -64916000 0",
            "- 10.77.0.1:8080 10.77.0.2:55756 ~ ~ ~ ~ 200 ~ ~ 49 1795291157442517000 ~ 64443000",
            "- 10.77.0.1:8080 10.77.0.2:55756 ~ ~ ~ ~ 200 ~ ~ 9894 1795291157507240000 ~ 14000",
            "+ 10.77.0.1:8080 10.77.0.2:55756 ~ ~ ~ ~ 200 ~ ~ 20 1795291157442227000 ~ 0",
            "+ 10.77.0.1:8080 10.77.0.2:55756 GET 10.77.0.1:8080 /chunked?s1 1.1 200 ~ 0 49 1795291157442476000 41000 64443000",
            "+ 10.77.0.1:8080 10.77.0.2:55756 GET 10.77.0.1:8080 /10k.txt?s1 1.1 200 ~ 0 10000 1795291157507143000 97000 ~",
        ],
        digest: 0x15fd_5a98_4a6f_bd0a,
    },
    Difference {
        capture: "midstream.pcap",
        why: "the first response answers a request from before the capture; the truth pairs it with the next one",
        count: (3, 3),
        rows: &[
            "- 10.77.0.1:8080 10.77.0.2:55756 GET 10.77.0.1:8080 /chunked?s1 1.1 200 ~ 0 20 1795291157442476000 -249000 0",
            "- 10.77.0.1:8080 10.77.0.2:55756 GET 10.77.0.1:8080 /10k.txt?s1 1.1 200 ~ 0 49 1795291157507143000 -64626000 64443000",
            "- 10.77.0.1:8080 10.77.0.2:55756 ~ ~ ~ ~ 200 ~ ~ 10000 1795291157507240000 ~ 27000",
            "+ 10.77.0.1:8080 10.77.0.2:55756 ~ ~ ~ ~ 200 ~ ~ 20 1795291157442227000 ~ 0",
            "+ 10.77.0.1:8080 10.77.0.2:55756 GET 10.77.0.1:8080 /chunked?s1 1.1 200 ~ 0 49 1795291157442476000 41000 64443000",
            "+ 10.77.0.1:8080 10.77.0.2:55756 GET 10.77.0.1:8080 /10k.txt?s1 1.1 200 ~ 0 10000 1795291157507143000 97000 27000",
        ],
        digest: 0x4910_61f8_c30a_bd9c,
    },
];

#[test]
fn transactions_agree_with_the_truth() {
    compare_captures(FOLDERS, 7000, |capture, name| {
        if NOT_OPENED.contains(&name) {
            return Ok(0);
        }
        let expected = truth(capture, "http.tsv").unwrap_or_default();
        let found = differences(capture, &expected);
        let known = DIFFERENCES.iter().find(|d| d.capture == name);
        if agrees(&found, known) {
            Ok(expected.len())
        } else {
            Err(format!(
                "{} digest {:#018x}\n  {}",
                found.len(),
                digest(&found),
                found.join("\n  ")
            ))
        }
    });
}

fn agrees(found: &[String], known: Option<&Difference>) -> bool {
    let Some(known) = known else {
        return found.is_empty();
    };
    assert!(!known.why.is_empty());
    let truths = found.iter().filter(|l| l.starts_with('-')).count();
    (truths, found.len() - truths) == known.count
        && digest(found) == known.digest
        && known.rows.iter().all(|row| found.iter().any(|l| l == row))
}

/// Rows on one side only, per connection.
fn differences(capture: &Path, expected: &[Row]) -> Vec<String> {
    let mut truths = by_connection(expected, of_truth);
    let rows = run_http1(capture);
    let mut ours = by_connection(&rows, of_tuple);
    let (marked, _): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| row["quality"] != "exact");
    let marked = by_connection(&marked, of_tuple);
    let mut connections: Vec<String> = truths.keys().chain(ours.keys()).cloned().collect();
    connections.sort();
    connections.dedup();
    let mut lines = Vec::new();
    for connection in connections {
        let truths = truths.remove(&connection).unwrap_or_default();
        let mut ours = ours.remove(&connection).unwrap_or_default();
        for row in truths {
            let silent = marked.get(&connection).map_or(&[][..], Vec::as_slice);
            let same = ours.iter().position(|o| *o == row);
            match same.or_else(|| {
                ours.iter()
                    .position(|o| silent.contains(o) && leaves_open(o, &row))
            }) {
                Some(at) => drop(ours.remove(at)),
                None => lines.push(format!("- {connection} {row}")),
            }
        }
        lines.extend(ours.iter().map(|row| format!("+ {connection} {row}")));
    }
    lines.sort();
    lines
}

/// Whether our row leaves sizes and times open and otherwise equals the truth's: the truth counts the captured part of
/// a message whose end is missing, a marked tuple leaves the value null.
fn leaves_open(ours: &str, truth: &str) -> bool {
    const SIZES_AND_TIMES: [usize; 4] = [6, 7, 9, 10];
    let mut cells = ours.split(' ').zip(truth.split(' ')).enumerate();
    cells.all(|(i, (ours, truth))| ours == truth || ours == "~" && SIZES_AND_TIMES.contains(&i))
}

fn by_connection(
    rows: &[Row],
    text: impl Fn(&Row) -> (String, String),
) -> BTreeMap<String, Vec<String>> {
    let mut map = BTreeMap::<String, Vec<String>>::new();
    for (connection, row) in rows.iter().map(text) {
        map.entry(connection).or_default().push(row);
    }
    map
}

/// Both endpoints, the smaller first: without a handshake, the truth guesses the client by port.
fn connection(a: String, b: String) -> String {
    if a <= b {
        format!("{a} {b}")
    } else {
        format!("{b} {a}")
    }
}

fn of_truth(row: &Row) -> (String, String) {
    let field = |name: &str| row.get(name).map_or("", |v| v.as_str());
    let time = |name: &str| row.get(name).map(|v| nanos(v));
    let request = time("t_req_first");
    let response = time("t_resp_first");
    let between = |a: Option<i64>, b: Option<i64>| {
        a.zip(b).map_or(String::new(), |(a, b)| (b - a).to_string())
    };
    let version = row
        .get("method")
        .and(row.get("version"))
        .map_or("", |v| v.trim_start_matches("HTTP/"));
    let text = [
        field("method").to_owned(),
        authority(field("method"), field("uri"), field("host")),
        path(field("method"), field("uri")),
        version.to_owned(),
        field("status").to_owned(),
        field("interim").to_owned(),
        field("req_body").to_owned(),
        field("resp_body").to_owned(),
        request.or(response).unwrap_or_default().to_string(),
        between(time("t_req_last"), response),
        between(response, time("t_resp_last")),
    ];
    let [client, server] = [["client", "cport"], ["server", "sport"]]
        .map(|e| format!("{}:{}", field(e[0]), field(e[1])));
    (connection(client, server), shown(&text))
}

fn of_tuple(row: &Row) -> (String, String) {
    let field = |name: &str| row.get(name).cloned().unwrap_or_default();
    let mut target = field("path");
    if let Some(query) = row.get("url_query") {
        target += &format!("?{query}");
    }
    let version = if row.contains_key("method") {
        field("http_version")
    } else {
        String::new()
    };
    let text = [
        field("method"),
        field("host"),
        target,
        version,
        field("status"),
        field("interim_status"),
        field("request_bytes"),
        field("response_bytes"),
        field("ts"),
        field("response_time_ns"),
        field("transfer_time_ns"),
    ];
    let [client, server] = ["client", "server"].map(|e| {
        format!(
            "{}:{}",
            field(&format!("{e}_ip")),
            field(&format!("{e}_port"))
        )
    });
    (connection(client, server), shown(&text))
}

/// The truth has request targets as sent; our parser splits absolute and CONNECT targets.
fn path(method: &str, uri: &str) -> String {
    match uri
        .strip_prefix("http://")
        .map(|rest| rest.split_at(rest.find('/').unwrap_or(rest.len())).1)
    {
        Some(path) => path.to_owned(),
        None if method == "CONNECT" && !uri.starts_with('/') => String::new(),
        None => uri.to_owned(),
    }
}

fn authority(method: &str, uri: &str, host: &str) -> String {
    match uri
        .strip_prefix("http://")
        .map(|rest| rest.split('/').next().unwrap_or_default())
    {
        Some(authority) => authority.to_owned(),
        None if method == "CONNECT" && !uri.starts_with('/') => uri.to_owned(),
        None => host.to_owned(),
    }
}

/// One line; `~` for an absent value; long texts are truncated.
fn shown(fields: &[String]) -> String {
    let show = |f: &String| match f.char_indices().nth(80) {
        _ if f.is_empty() => "~".to_owned(),
        Some((at, _)) => format!("{}…{}", &f[..at], f.len()),
        None => f.clone(),
    };
    fields.iter().map(show).collect::<Vec<_>>().join(" ")
}

/// FNV-1a hash.
pub fn digest(lines: &[String]) -> u64 {
    lines
        .iter()
        .flat_map(|l| l.bytes().chain([b'\n']))
        .fold(0xcbf2_9ce4_8422_2325, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        })
}

/// The rows of HTTP/1: those of HTTP/2 are compared in `http2.rs`.
fn run_http1(capture: &Path) -> Vec<Row> {
    let mut rows = run(capture, "http").rows;
    rows.retain(|row| row.get("http_version").is_none_or(|version| version != "2"));
    rows
}
