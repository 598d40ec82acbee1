//! The project's own captures: every `captures/<case>/query*.txt` must return the rows of its `expected*.jsonl`, and
//! the recorded ones agree with the servers' own logs. `UPDATE=1` rewrites the expected rows; review the diff.

#[path = "captures/to_packets.rs"]
mod to_packets;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

#[path = "captures/comparing.rs"]
mod comparing;
#[path = "captures/expressions.rs"]
mod expressions;
#[path = "captures/first_look.rs"]
mod first_look;
#[path = "captures/hostile.rs"]
mod hostile;
#[path = "captures/judged.rs"]
mod judged;
#[path = "captures/map.rs"]
mod map;
#[path = "captures/monitor.rs"]
mod monitor;
#[path = "captures/nothing.rs"]
mod nothing;
#[path = "captures/outlets.rs"]
mod outlets;
#[path = "captures/overview.rs"]
mod overview;
#[path = "captures/periods.rs"]
mod periods;
#[path = "captures/report.rs"]
mod report;
#[path = "captures/sql.rs"]
mod sql;
#[path = "captures/two_taps.rs"]
mod two_taps;

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures")
}

/// Runs the program in the root of the repository.
fn run(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_netalytics"))
        .current_dir(root)
        .args(args)
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Output of `netalytics query` as JSON lines.
fn query(text: &str, capture: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_netalytics"))
        .args(["query", text, "--format", "jsonl", "-r"])
        .arg(capture)
        .output()
        .expect("the program starts");
    assert!(
        output.status.success(),
        "{text}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("JSON lines are UTF-8")
}

fn rows(text: &str, capture: &Path) -> Vec<Value> {
    query(text, capture)
        .lines()
        .map(|l| serde_json::from_str(l).expect("a line is JSON"))
        .collect()
}

#[test]
fn every_case_gives_its_expected_rows() {
    let mut cases = 0;
    for folder in std::fs::read_dir(captures())
        .expect("captures/ is there")
        .map(|e| e.expect("an entry").path())
    {
        let files = std::fs::read_dir(&folder)
            .expect("a case is a folder")
            .map(|e| e.expect("an entry").path());
        for file in files.filter(|f| {
            f.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with("query"))
        }) {
            let name = file
                .file_name()
                .expect("a file has a name")
                .to_string_lossy()
                .into_owned();
            let expected = folder.join(name.replace("query", "expected").replace(".txt", ".jsonl"));
            let text = std::fs::read_to_string(&file).expect("a query can be read");
            let got = query(text.trim(), &folder.join("in.pcap"));
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&expected, &got).expect("expected rows can be written");
            }
            let want = std::fs::read_to_string(&expected).unwrap_or_default();
            assert_eq!(got, want, "{}", file.display());
            cases += 1;
        }
    }
    assert!(cases >= 6, "{cases} cases");
}

/// nginx: `$msec $remote_addr $remote_port $request_method $request_uri $status $body_bytes_sent $request_time`.
#[test]
fn shop_requests_are_those_of_nginx() {
    let shop = captures().join("shop");
    let log =
        std::fs::read_to_string(shop.join("nginx-access.log")).expect("the log of the recording");
    let mut want = BTreeMap::<String, usize>::new();
    let mut logged_seconds = BTreeMap::<String, f64>::new();
    for line in log.lines() {
        let f: Vec<&str> = line.split(' ').collect();
        *want.entry(f[1..7].join(" ")).or_default() += 1;
        *logged_seconds
            .entry(format!("{} {}", f[1], f[2]))
            .or_default() += f[7].parse::<f64>().expect("seconds");
    }
    let mut got = BTreeMap::<String, usize>::new();
    let mut seen_seconds = BTreeMap::<String, f64>::new();
    for row in rows("PARSE http", &shop.join("in.pcap")) {
        let text = |f: &str| row[f].as_str().unwrap_or_default().to_owned();
        let uri = match row["url_query"].as_str() {
            Some(q) => format!("{}?{q}", text("path")),
            None => text("path"),
        };
        let connection = format!("{} {}", text("client_ip"), row["client_port"]);
        let line = format!(
            "{connection} {} {uri} {} {}",
            text("method"),
            row["status"],
            row["response_bytes"]
        );
        *got.entry(line).or_default() += 1;
        // nginx answers some requests before their body has arrived.
        let nanos = row["total_time_ns"].as_i64().unwrap_or_default();
        let quality = if row["response_time_ns"].is_null() {
            "untimed"
        } else {
            "exact"
        };
        *seen_seconds.entry(connection).or_default() += nanos as f64 / 1e9;
        assert_eq!(row["quality"], quality);
    }
    assert_eq!(got, want);
    // nginx measures milliseconds from its first read to its last write: never much more than the time on the network.
    for (connection, logged) in logged_seconds {
        let seen = seen_seconds[&connection];
        assert!(
            (logged - seen).abs() < 0.012,
            "{connection}: nginx {logged} s, seen {seen} s"
        );
    }
}

/// Responses that begin at once and end late: the total time is that of nginx's log, the response time is not.
#[test]
fn slow_streams_have_the_time_of_the_log() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let log = std::fs::read_to_string(root.join("live-captures/http_mix.nginx-access.log"))
        .expect("the log of the recording");
    let mut logged = BTreeMap::<(String, String), f64>::new();
    for line in log.lines() {
        let f: Vec<&str> = line.split('\t').collect();
        let ms = f[13].parse::<f64>().expect("seconds") * 1e3;
        logged.insert((f[4].to_owned(), f[9].to_owned()), ms);
    }
    let ms = |row: &Value, field: &str| row[field].as_i64().map(|ns| ns as f64 / 1e6);
    let mut streams = 0;
    for row in rows(
        "PARSE http WHERE server_port = 8080 and total_time > 50ms and response_time < 5ms",
        &root.join("live-captures/http_mix.pcap"),
    ) {
        let path = row["url"].as_str().unwrap_or_default();
        let path = path.split_once('/').map_or("", |(_, path)| path);
        let key = (row["client_port"].to_string(), format!("/{path}"));
        let Some(logged) = logged.get(&key) else {
            continue;
        };
        let total = ms(&row, "total_time_ns").expect("it is selected");
        assert!((total - logged).abs() < 3.0, "nginx {logged} ms: {row}");
        streams += 1;
    }
    assert!(streams >= 3, "{streams} streams");
}

#[test]
fn shop_statements_are_those_of_mariadb() {
    let shop = captures().join("shop");
    let log = std::fs::read_to_string(shop.join("mariadb-queries.log"))
        .expect("the log of the recording");
    let mut want: Vec<&str> = log
        .lines()
        .filter_map(|l| l.split_once("\tQuery\t").map(|(_, text)| text))
        .collect();
    let rows = rows(
        "PARSE mysql_query WHERE command = 'query'",
        &shop.join("in.pcap"),
    );
    let mut got: Vec<&str> = rows
        .iter()
        .map(|r| r["query"].as_str().expect("a statement"))
        .collect();
    want.sort_unstable();
    got.sort_unstable();
    assert_eq!(got, want);
    let failed = rows.iter().filter(|r| r["error_code"] == 1054).count();
    assert_eq!(
        failed,
        want.iter().filter(|q| q.contains("discount")).count(),
        "unknown column: error 1054"
    );
}

#[test]
fn shop_commands_are_those_of_memcached() {
    let shop = captures().join("shop");
    let log = std::fs::read_to_string(shop.join("memcached-commands.log"))
        .expect("the log of the recording");
    let mut want: Vec<String> = log
        .lines()
        .map(|l| l.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    let rows = rows("PARSE memcached", &shop.join("in.pcap"));
    let mut got: Vec<String> = rows
        .iter()
        .map(|r| {
            format!(
                "{} {}",
                r["command"].as_str().expect("a command"),
                r["cache_key"].as_str().expect("a key")
            )
        })
        .collect();
    want.sort_unstable();
    got.sort_unstable();
    assert_eq!(got, want);
}

/// `cmdstat_client|reply:calls=3,…,rejected_calls=0,…`; unknown commands are not counted there.
#[test]
fn redis_commands_are_those_of_the_server() {
    let folder = captures().join("redis");
    let stats =
        std::fs::read_to_string(folder.join("commandstats.txt")).expect("the server's statistics");
    let mut want = BTreeMap::<String, u64>::new();
    for line in stats
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_"))
    {
        let (name, numbers) = line.split_once(':').expect("a name and numbers");
        let number = |of: &str| {
            let text = numbers
                .split(',')
                .find_map(|field| field.strip_prefix(of)?.strip_prefix('='));
            text.expect("it exists").parse::<u64>().expect("a number")
        };
        // Sent by the recording script, not over the network.
        let own = u64::from(name == "config|resetstat");
        let command = name.split('|').next().unwrap_or_default().to_uppercase();
        *want.entry(command).or_default() += number("calls") + number("rejected_calls") - own;
    }
    let mut got = BTreeMap::<String, u64>::new();
    for row in rows(
        "PARSE redis WHERE push = false or push is null",
        &folder.join("in.pcap"),
    ) {
        assert_eq!(row["quality"], "exact", "{row}");
        *got.entry(row["command"].as_str().expect("a command").to_owned())
            .or_default() += 1;
    }
    assert_eq!(got.remove("NOSUCH"), Some(1));
    assert_eq!(got, want);
}

/// Rows of an independent RESP reader in Python.
#[test]
fn redis_numbers_are_those_of_another_reader() {
    let folder = captures().join("redis");
    for name in ["commands", "times", "bytes"] {
        let output = Command::new("python3")
            .arg(folder.join("expected.py"))
            .arg(folder.join("in.pcap"))
            .arg(name)
            .output();
        let output = testkit::require!("python3" => output);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let expected =
            std::fs::read_to_string(folder.join(format!("expected-{name}.jsonl"))).expect("rows");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{name}");
    }
}

/// BIND: client, port, name and type of every query.
#[test]
fn dns_questions_are_those_of_bind() {
    let case = captures().join("dns");
    let log =
        std::fs::read_to_string(case.join("named-queries.log")).expect("the log of the recording");
    let mut want: Vec<String> = log.lines().map(str::to_ascii_lowercase).collect();
    let rows = rows("PARSE dns", &case.join("in.pcap"));
    // The server does not log queries with an unknown EDNS version, and was not running for some queries.
    let answered = rows
        .iter()
        .filter(|row| !matches!(row["response_code"].as_str(), None | Some("BADVERS")));
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let mut got: Vec<String> = answered
        .map(|row| {
            let ip = text(row, "client_ip");
            let name = text(row, "query_name");
            let kind = text(row, "query_type");
            format!("{ip} {} {name} {kind}", row["client_port"]).to_ascii_lowercase()
        })
        .collect();
    // The first ones waited for the server.
    want.retain(|line| !line.contains("version.bind"));
    got.retain(|line| !line.contains("version.bind"));
    want.sort();
    got.sort();
    assert_eq!(got, want);
    assert!(got.len() > 15);
}

/// tshark: id, query or response, name, code, records, addresses, TTLs, truncated, authoritative, time.
#[test]
fn dns_answers_are_those_of_tshark() {
    let case = captures().join("dns");
    let truth = std::fs::read_to_string(case.join("tshark.tsv")).expect("output of tshark");
    let rows = rows("PARSE dns", &case.join("in.pcap"));
    let mut checked = 0;
    for line in truth.lines() {
        let f: Vec<&str> = line.split('\t').collect();
        if f[1] != "1" {
            continue;
        }
        let id = u64::from_str_radix(f[0].trim_start_matches("0x"), 16).expect("an id");
        let same = |row: &&Value| row["transaction_id"] == id && row["response_code"].is_string();
        let row = rows.iter().find(same).unwrap_or_else(|| panic!("{line}"));
        let name = f[2].to_ascii_lowercase();
        assert_eq!(row["query_name"], name, "{line}");
        let code = match f[3] {
            "0" if row["response_code"] == "BADVERS" => "BADVERS",
            "0" => "NOERROR",
            "3" => "NXDOMAIN",
            "5" => "REFUSED",
            other => panic!("{other}"),
        };
        assert_eq!(row["response_code"], code, "{line}");
        assert_eq!(row["answer_count"].to_string(), f[4], "{line}");
        let answers = row["answers"].as_str().unwrap_or_default();
        for address in f[5].split(',').chain(f[6].split(',')) {
            assert!(answers.contains(address), "{line}: {answers}");
        }
        // Includes those of other sections.
        let ttls = f[7]
            .split(',')
            .filter_map(|ttl| ttl.parse::<u64>().ok())
            .take(f[4].parse().expect("a number"));
        assert_eq!(row["ttl_min"].as_u64(), ttls.min(), "{line}");
        assert_eq!(row["truncated"], f[8] == "1", "{line}");
        assert_eq!(row["authoritative"], f[9] == "1", "{line}");
        // The logged time ends with the last byte of the response.
        let nanos = (f[10].parse::<f64>().expect("seconds") * 1e9).round() as i64;
        let time = row["response_time_ns"].as_i64().expect("a time");
        let split = row["transport"] == "tcp" && time < nanos;
        assert!(split || time == nanos, "{line}: {time}");
        checked += 1;
    }
    assert!(checked > 18, "{checked} answers");
}

/// openssl's client: port, New or Reused, version, cipher suite.
#[test]
fn tls_handshakes_are_those_of_openssl() {
    let case = captures().join("tls");
    let log = std::fs::read_to_string(case.join("openssl.log")).expect("the log of the recording");
    let rows = rows("PARSE tls", &case.join("in.pcap"));
    assert_eq!(rows.len(), log.lines().count());
    for (line, row) in log.lines().zip(&rows) {
        let f: Vec<&str> = line.split(' ').collect();
        assert_eq!(row["client_port"].to_string(), f[0]);
        let failed = row["alert"].is_string();
        assert_eq!(row["handshake_time_ns"].is_null(), failed, "{line}");
        if f[2] == "(NONE)" {
            assert!(failed, "{line}");
            continue;
        }
        let text = |field: &str| row[field].as_str().unwrap_or_default();
        assert_eq!(text("version").replace("TLS ", "TLSv"), f[2], "{line}");
        // openssl has its own names of suites.
        let without = |name: &str| {
            name.replace("TLS_", "")
                .replace("WITH_", "")
                .replace(['_', '-'], "")
        };
        let ours = without(text("cipher"));
        let theirs = without(f[3]);
        let hash = ["", "SHA256"]
            .iter()
            .any(|hash| ours == format!("{theirs}{hash}"));
        assert!(hash, "{line}: {ours} {theirs}");
        if !failed {
            assert_eq!(row["resumed"], f[1] == "Reused", "{line}");
        }
    }
    let told = std::fs::read_to_string(case.join("certificate.txt")).expect("output of openssl");
    let row = &rows[0];
    let line = |start: &str| {
        told.lines()
            .find_map(|line| line.trim().strip_prefix(start))
            .expect("a line")
    };
    assert_eq!(
        Some(line("subject=O = Example, CN = ")),
        row["certificate_subject"].as_str()
    );
    assert_eq!(
        Some(line("issuer=O = Example, CN = ")),
        row["certificate_issuer"].as_str()
    );
    let names = told
        .lines()
        .last()
        .expect("names")
        .trim()
        .replace("DNS:", "")
        .replace("IP Address:", "");
    assert_eq!(
        Some(&*names.replace(", ", ",")),
        row["certificate_names"].as_str()
    );
}

/// Results of processors equal those of a few lines of Python over the raw tuples: over files with one and three
/// workers, and over recordings.
#[test]
fn processors_agree_with_arithmetic_over_raw_tuples() {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("witness");
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch).expect("a folder for recordings");
    let found = [
        "http/ppa-http_espn.pcapng",
        "memcached/packetbeat-memcache_text_tcp_multi_store_load.pcap",
        "mysql/percona-tcpdump008.pcap",
    ];
    let found = testkit::corpus().map(|root| found.map(|name| root.join("captures").join(name)));
    let mut args = vec![scratch, captures().join("shop/in.pcap")];
    args.extend(found.iter().flatten().cloned());
    let rows = checked_by("witness.py", &args);
    assert!(rows >= if found.is_some() { 40 } else { 20 }, "{rows} rows");
}

/// Number of results that a script of this folder has checked.
fn checked_by(script: &str, args: &[PathBuf]) -> usize {
    let output = Command::new("python3")
        .arg(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests")
                .join(script),
        )
        .arg(env!("CARGO_BIN_EXE_netalytics"))
        .args(args)
        .output()
        .expect("python3 starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let checked = String::from_utf8_lossy(&output.stdout);
    checked.trim().parse().expect("a number of results")
}

/// The page's twenty queries return the rows derived from servers' logs, tshark and an independent reader of the same
/// packets.
#[test]
fn the_twenty_questions_have_their_answers() {
    let corpus = testkit::corpus();
    let asked = checked_by("questions.py", corpus.as_slice());
    assert_eq!(asked, if corpus.is_some() { 20 } else { 14 });
}

/// Statements in SQL have the rows that SQLite returns for the same text over the exported tuples.
#[test]
fn statements_have_the_rows_of_sqlite() {
    let output = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sql_witness.py"))
        .arg(env!("CARGO_BIN_EXE_netalytics"))
        .output()
        .expect("python3 starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "18");
}

/// Output of `tshark -T fields -e dns.qry.name -e dns.a` on the same capture; tables show the names instead of
/// addresses, other formats do not.
#[test]
fn dns_answers_name_addresses() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let capture = root.join("captures/http/ppa-http_espn.pcapng");
    let shown = |format: &str, names: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_netalytics"))
            .args(["query", "PARSE http PROCESS (group-count: group=server_ip)"])
            .args(["--format", format, "--names", names, "-q", "-r"])
            .arg(&capture)
            .output()
            .expect("the program starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    };
    let table = shown("table", "dns");
    let truth = [
        ("63.85.36.8", "www.masters.com"),
        ("68.71.209.72", "log.go.com"),
        ("68.71.208.11", "espn.go.com"),
    ];
    for (address, name) in truth {
        assert!(
            table.contains(name) && !table.contains(&format!("{address} ")),
            "{name}: {table}"
        );
        assert!(shown("table", "hosts").contains(address));
        assert!(shown("jsonl", "dns").contains(address));
    }
    let standard_input = Command::new(env!("CARGO_BIN_EXE_netalytics"))
        .args([
            "query",
            "PARSE http",
            "--format",
            "table",
            "--names",
            "dns",
            "-r",
            "-",
        ])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("the program starts");
    assert_eq!(standard_input.status.code(), Some(2));
}
