//! Redaction of recordings: no literal, cache key, URL query value or file name is anywhere in the bytes; equality, and
//! every answer independent of these texts, is preserved.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Magic number of a zstd frame.
const FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Runs the program; returns standard output and standard error.
fn netalytics(args: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netalytics"));
    let output = command
        .args(args)
        .current_dir(ROOT)
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let [out, err] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    assert!(output.status.success(), "{args:?}\n{err}");
    (out, err)
}

fn query(query: &str, input: &str) -> String {
    netalytics(&["query", query, "-r", input, "--format", "jsonl"]).0
}

fn record(query: &str, capture: &str, folder: &TempDir, more: &[&str]) -> String {
    let recording = folder.path().join("recording").display().to_string();
    fs::remove_dir_all(&recording).ok();
    netalytics(&[&["record", query, "-r", capture, "-o", &recording], more].concat());
    recording
}

/// A capture of the corpus.
fn shared(name: &str) -> Option<String> {
    Some(testkit::corpus()?.join(name).display().to_string())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .expect("a folder")
        .map(|e| e.expect("an entry").path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// All bytes of a recording, raw and decompressed.
fn bytes(recording: &str) -> Vec<u8> {
    let mut all = Vec::new();
    for file in files(Path::new(recording)) {
        let file = fs::read(file).expect("a file");
        for at in memchr::memmem::find_iter(&file, &FRAME) {
            let decoder = zstd::stream::read::Decoder::with_buffer(&file[at..]).expect("a decoder");
            // A false match ends with an error.
            let _ = std::io::copy(&mut decoder.single_frame(), &mut all);
        }
        all.extend(file);
    }
    all
}

/// Texts of rows: those of `columns`, and all others.
fn texts(rows: &str, columns: &[&str]) -> (Vec<String>, Vec<String>) {
    let mut some = Vec::new();
    let mut others = Vec::new();
    for row in rows.lines() {
        let Ok(Value::Object(row)) = serde_json::from_str(row) else {
            panic!("{row}")
        };
        for (name, value) in row {
            let Value::String(text) = value else { continue };
            if columns.contains(&name.as_str()) {
                some.push(text)
            } else {
                others.push(text)
            }
        }
    }
    (some, others)
}

/// Checks that no secret by `parts` of the texts in `columns` remains, unless another column contains it, too.
fn nothing_is_left(
    parser: &str,
    capture: &str,
    columns: &[&str],
    parts: fn(&str) -> Vec<&str>,
    least: usize,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let parse = format!("PARSE {parser}");
    let (some, others) = texts(&query(&parse, capture), columns);
    // Metadata of a file contain descriptions of fields, and parameters keep their names.
    let mut others = others.join("\n") + &netalytics(&["parsers", parser]).0;
    if parser == "http" {
        others.extend(
            some.iter()
                .flat_map(|text| text.split(['?', '&', ';']))
                .map(|p| p.split('=').next().unwrap_or(p)),
        );
    }
    let secrets = some
        .iter()
        .flat_map(|text| parts(text))
        .filter(|part| part.len() >= 5);
    let secrets: BTreeSet<&str> = secrets.filter(|part| !others.contains(part)).collect();
    assert!(
        secrets.len() >= least,
        "{capture}: only {} secrets",
        secrets.len()
    );
    let has = |bytes: &[u8], secret: &str| memchr::memmem::find(bytes, secret.as_bytes()).is_some();
    // The check itself finds them in an unredacted recording.
    let kept = bytes(&record(&parse, capture, &folder, &["--no-redact"]));
    assert!(secrets.iter().filter(|secret| has(&kept, secret)).count() * 10 > secrets.len() * 9);
    let recording = record(&parse, capture, &folder, &[]);
    let read = query(&parse, &recording);
    let redacted = bytes(&recording);
    let left = texts(&read, &[]).1.join("\n");
    for secret in secrets {
        assert!(
            !has(&redacted, secret) && !left.contains(secret),
            "{capture}: {secret:?}"
        );
    }
    assert_eq!(read.lines().count(), query(&parse, capture).lines().count());
}

fn of_query(text: &str) -> Vec<&str> {
    let (_, query) = text.split_once('?').unwrap_or(("", text));
    query
        .split(['&', ';'])
        .filter_map(|pair| pair.split('=').nth(1))
        .collect()
}

fn of_sql(text: &str) -> Vec<&str> {
    text.split('\'').skip(1).step_by(2).collect()
}

fn of_path(text: &str) -> Vec<&str> {
    text.split('/').collect()
}

#[test]
fn values_of_urls() {
    for (name, least) in [
        ("pcpp-4KHttpRequests.pcap", 100),
        ("ppa-http_espn.pcapng", 5),
    ] {
        if let Some(capture) = shared(&format!("captures/http/{name}")) {
            nothing_is_left("http", &capture, &["url", "url_query"], of_query, least);
        }
    }
}

#[test]
fn literals_of_sql() {
    for name in [
        "live-captures/mysql_mix.pcap",
        "live-captures/mysql_sysbench_text.pcap",
    ] {
        if let Some(capture) = shared(name) {
            nothing_is_left("mysql_query", &capture, &["query"], of_sql, 20);
        }
    }
    nothing_is_left(
        "mysql_query",
        "captures/shop/in.pcap",
        &["query"],
        of_sql,
        0,
    );
}

#[test]
fn cache_keys() {
    for name in ["live-captures/mc_text.pcap", "live-captures/mc_binary.pcap"] {
        if let Some(capture) = shared(name) {
            nothing_is_left("memcached", &capture, &["cache_key"], |key| vec![key], 20);
        }
    }
}

#[test]
fn statements_and_messages_of_cassandra() {
    nothing_is_left(
        "cassandra",
        "captures/cassandra/in.pcap",
        &["error_message", "warnings"],
        |text| vec![text],
        3,
    );
    nothing_is_left(
        "cassandra",
        "captures/cassandra/in.pcap",
        &["query"],
        of_sql,
        3,
    );
}

#[test]
fn messages_of_mongodb() {
    nothing_is_left(
        "mongodb",
        "captures/mongodb/in.pcap",
        &["error_message"],
        |text| vec![text],
        3,
    );
}

#[test]
fn names_of_files() {
    if let Some(capture) = shared("live-captures/nfs.pcap.gz") {
        nothing_is_left(
            "nfs",
            &capture,
            &["name", "path", "to_name", "machine"],
            of_path,
            5,
        );
    }
}

/// Results independent of redacted texts are equal; grouped ones have the same groups under other names.
#[test]
fn answers_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cases = vec![
        (
            "http",
            "captures/shop/in.pcap".to_owned(),
            "url_template",
            "url",
        ),
        (
            "mysql_query",
            "captures/shop/in.pcap".to_owned(),
            "fingerprint",
            "fingerprint",
        ),
    ];
    cases.extend(
        shared("live-captures/mc_text.pcap").map(|c| ("memcached", c, "status", "cache_key")),
    );
    cases.extend(shared("live-captures/http_mix.pcap").map(|c| ("http", c, "url_template", "url")));
    cases.extend(shared("live-captures/nfs.pcap.gz").map(|c| ("nfs", c, "procedure", "path")));
    for (parser, capture, kept, folded) in cases {
        let recording = record(&format!("PARSE {parser}"), &capture, &folder, &[]);
        let both = |process: &str| {
            let text = format!("PARSE {parser} PROCESS ({process})");
            (query(&text, &capture), query(&text, &recording))
        };
        let (over_packets, over_tuples) = both(&format!("diff-group: group={kept}"));
        assert_eq!(over_tuples, over_packets, "{capture}");
        let counts = |rows: String| -> Vec<Value> {
            rows.lines()
                .map(|row| serde_json::from_str::<Value>(row).expect("JSON")["count"].take())
                .collect()
        };
        let (over_packets, over_tuples) = both(&format!("group-count-top-k: group={folded}, k=50"));
        assert_eq!(counts(over_tuples), counts(over_packets), "{capture}");
    }
}

#[test]
fn a_key_makes_recordings_agree() {
    let Some(capture) = shared("live-captures/mc_text.pcap") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key").display().to_string();
    fs::write(&key, "00112233445566778899aabbccddeeff\n").expect("written");
    let keys = |more: &[&str]| {
        let recording = record("PARSE memcached", &capture, &folder, more);
        query(
            "PARSE memcached PROCESS (group-count: group=cache_key)",
            &recording,
        )
    };
    let [with, again] = [(); 2].map(|()| keys(&["--redact-key", &key]));
    assert_eq!(with, again);
    let [without, other] = [(); 2].map(|()| keys(&[]));
    assert!(with != without && without != other);
    // Results are redacted like tuples, and so are the hottest objects of a profile.
    for process in ["top-k: k=5", "workload-profile: k=3"] {
        let query = format!("PARSE memcached PROCESS ({process})");
        let recording = record(&query, &capture, &folder, &["--redact-key", &key]);
        let bytes = bytes(&recording);
        let hash = with
            .split("\"~")
            .nth(1)
            .expect("a hash")
            .split('"')
            .next()
            .expect("its end");
        assert_eq!(hash.len(), 16);
        assert!(memchr::memmem::find(&bytes, b"~").is_some(), "{process}");
        let rows = netalytics(&["query", &query, "-r", &capture, "--format", "jsonl"]).0;
        for row in rows
            .lines()
            .map(|row| serde_json::from_str::<Value>(row).expect("JSON"))
        {
            let is_key = row["section"]
                .as_str()
                .is_none_or(|s| s.starts_with("cache_key"));
            let text = row["cache_key"]
                .as_str()
                .or(row["key"].as_str())
                .unwrap_or_default();
            let is_there = memchr::memmem::find(&bytes, text.as_bytes()).is_some();
            assert!(!(is_key && text.len() > 4 && is_there), "{process}: {text}");
        }
    }
}

#[test]
fn searches_in_redacted_fields_are_noted() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = "captures/shop/in.pcap";
    let recording = record("PARSE http", capture, &folder, &[]);
    let notes = |query: &str| netalytics(&["query", query, "-r", &recording]).1;
    assert!(notes("PARSE http WHERE url like '%x%'").contains("note: url was redacted"));
    assert!(!notes("PARSE http WHERE method like '%x%'").contains("redacted"));
    netalytics(&["record", "PARSE http", "-r", capture, "-o", &recording]);
    assert!(notes("PARSE http").contains("different keys"));
    assert!(!notes("PARSE http PROCESS (group-count: group=method)").contains("different keys"));
}
