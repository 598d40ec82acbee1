//! `netalytics report`: a strict XML reader finds the numbers of `query` over the same packets; no text of packets is
//! active; and the command at its end reproduces it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::hostile;
use crate::{run, text};

const SHOP: &str = "captures/shop/in.pcap";

/// Content of a report with these arguments, according to the reader.
fn report(folder: &Path, args: &[&str]) -> Value {
    let file = folder.join("finding.html");
    let name = file.to_str().expect("a path of letters");
    let output = run(&[&["-q", "report"], args, &["-o", name]].concat());
    assert!(
        output.status.success(),
        "{args:?}: {}",
        text(&output.stderr)
    );
    read(&file)
}

fn read(file: &Path) -> Value {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/report.py");
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new("python3")
        .arg(reader)
        .arg(file)
        .output()
        .expect("python3 starts");
    assert!(status.success(), "{}\n{}", file.display(), text(&stderr));
    let found: Value = serde_json::from_slice(&stdout).expect("JSON");
    assert_eq!(
        (&found["urls"], &found["elements"]["script"]),
        (&Value::from(0), &Value::Null),
        "{found}"
    );
    found
}

fn rows(query: &str, capture: &str) -> Vec<Value> {
    let output = run(&["-q", "query", query, "-r", capture, "--format", "jsonl"]);
    text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect()
}

/// The table after a heading with this prefix.
fn table<'r>(report: &'r Value, heading: &str) -> &'r Value {
    let tables = report["tables"].as_array().expect("a list");
    let is_it = |table: &&Value| {
        table["of"]
            .as_str()
            .is_some_and(|of| of.starts_with(heading))
    };
    tables
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{heading}: {report}"))
}

#[test]
fn its_numbers_are_those_of_the_query() {
    let folder = tempfile::tempdir().expect("a folder");
    for (query, drawn) in [
        (
            "PARSE http PROCESS (diff-group: group=url_template, w=200ms)",
            "by window",
        ),
        (
            "PARSE http SAMPLE 0.9 PROCESS (diff-group: group=host, w=500ms)",
            "95 % intervals",
        ),
        (
            "PARSE http SAMPLE 0.5 PROCESS (diff-group: group=host, w=500ms)",
            "by window",
        ),
        ("PARSE mysql_query PROCESS (group-avg-top-k: k=3)", "avg"),
        (
            "PARSE http PROCESS (group-hist: group=url_template)",
            "Histogram of each group",
        ),
        (
            "PARSE http PROCESS (group-hist: group=url_template, w=100ms)",
            "dark is few",
        ),
        (
            "PARSE memcached PROCESS (group-cdf: group=command)",
            "values up to a size",
        ),
        ("PARSE http PROCESS (service-map)", "Requests between hosts"),
        ("PARSE http WHERE status >= 500", ""),
    ] {
        let found = report(folder.path(), &[query, "-r", SHOP, "-n"]);
        assert!(
            found["captions"].to_string().contains(drawn),
            "{query}: {}",
            found["captions"]
        );
        assert_eq!(
            found["elements"]["svg"].is_null(),
            drawn.is_empty(),
            "{query}"
        );
        let expected = rows(query, SHOP);
        let name = expected[0]["processor"].as_str().unwrap_or("tuples");
        let table = table(&found, name);
        let columns: Vec<&str> = table["columns"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let got = table["rows"].as_array().expect("a list");
        assert_eq!(got.len(), expected.len(), "{query}");
        let mut compared = 0;
        for (got, expected) in got.iter().zip(&expected) {
            for (at, column) in columns.iter().enumerate() {
                let names = [
                    (*column).to_owned(),
                    format!("{column}_ns"),
                    format!("{column}_bytes"),
                ];
                let value = names
                    .iter()
                    .find_map(|name| expected.get(name))
                    .unwrap_or(&Value::Null);
                // Addresses, times and long distributions are formatted differently.
                if value.is_number() && !column.starts_with("ts") && !column.starts_with("window") {
                    let exact: Value =
                        serde_json::from_str(got[at].as_str().expect("text")).expect("a number");
                    assert_eq!(exact.as_f64(), value.as_f64(), "{query}, {column}: {got}");
                    compared += 1;
                } else if value.is_array() && value.to_string().len() < 2000 {
                    let exact: Value =
                        serde_json::from_str(got[at].as_str().expect("text")).expect("JSON");
                    assert_eq!(&exact, value, "{query}, {column}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 0, "{query}: {columns:?}");
        check_account(&found);
        // With sampling, the counters are unscaled.
        if !query.contains("WHERE") {
            let account = rows_of_account(&found);
            let all = account
                .iter()
                .filter(|(what, _)| what.starts_with("tuples of quality"));
            let all: u64 = all.map(|(_, n)| n.parse::<u64>().expect("a number")).sum();
            assert!(
                account.contains(&("tuples".to_owned(), all.to_string())),
                "{query}: {account:?}"
            );
        }
    }
}

/// Lines of the input section.
fn rows_of_account(found: &Value) -> Vec<(String, String)> {
    let text = |cell: &Value| cell.as_str().unwrap_or_default().to_owned();
    let rows = table(found, "Input")["rows"].as_array().expect("a list");
    rows.iter()
        .map(|row| (text(&row[0]), text(&row[1])))
        .collect()
}

/// Checks that every packet is accounted for, and every tuple has a quality.
fn check_account(found: &Value) {
    let account = table(found, "Input")["rows"].as_array().expect("a list");
    let of = |begin: &str| -> u64 {
        let rows = account
            .iter()
            .filter(|row| row[0].as_str().is_some_and(|what| what.starts_with(begin)));
        rows.map(|row| {
            row[1]
                .as_str()
                .and_then(|n| n.parse::<u64>().ok())
                .expect("a number")
        })
        .sum()
    };
    assert_eq!(of("packets received"), 1629);
    assert_eq!(
        of("packets received"),
        of("= parsed") + of("+ "),
        "{account:?}"
    );
    assert!(of("tuples of quality exact") > 0, "{account:?}");
}

#[test]
fn command_at_the_end_reproduces_the_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let query = "PARSE http WHERE method = 'GET' PROCESS (diff-group: group=url_template)";
    let first = report(
        folder.path(),
        &[query, "-r", SHOP, "--title", "it's <slow>"],
    );
    let command = first["pre"]
        .as_array()
        .expect("a list")
        .last()
        .and_then(Value::as_str)
        .expect("a command");
    let program = Path::new(env!("CARGO_BIN_EXE_netalytics"))
        .parent()
        .expect("a folder");
    let path = format!(
        "{}:{}",
        program.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let again = Command::new("sh")
        .args(["-c", command])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("PATH", path)
        .output()
        .expect("sh starts");
    assert!(again.status.success(), "{command}: {}", text(&again.stderr));
    let second = read(&folder.path().join("finding.html"));
    assert_eq!(
        (&first["tables"], &first["captions"]),
        (&second["tables"], &second["captions"])
    );
    assert!(first["texts"].to_string().contains("it's <slow>"));
}

#[test]
fn an_overview_has_its_lists_a_map_and_its_questions() {
    let folder = tempfile::tempdir().expect("a folder");
    let found = report(folder.path(), &["-r", SHOP]);
    let slowest = table(&found, "Slowest requests");
    assert_eq!(
        slowest["rows"][0][0], "10.20.0.10:80 /checkout",
        "{slowest}"
    );
    assert!(
        found["pre"].to_string().contains("PARSE flow PROCESS")
            && found["captions"]
                .to_string()
                .contains("Requests between hosts")
    );
    check_account(&found);
}

/// Elements of the hostile capture are text in a report, in a table and in JSON; none has an effect on a terminal.
#[test]
fn text_from_the_network_is_escaped() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder
        .path()
        .join("<img src=x onerror=alert(4)>\u{202e}.pcap");
    std::fs::write(&capture, hostile::capture()).expect("a file");
    let capture = capture.to_str().expect("a path of letters");
    let acts =
        |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{2066}\u{200b}\u{feff}".contains(c);
    for query in [
        "PARSE http",
        "PARSE http PROCESS (group-count: group=url, host, user_agent, w=100ms)",
        "PARSE http PROCESS (group-hist: group=url)",
        "PARSE http PROCESS (top-k: key=user_agent)",
        "PARSE mysql_query PROCESS (group-count: group=fingerprint)",
        "PARSE mysql_query",
        "PARSE memcached PROCESS (top-k: key=cache_key)",
        "PARSE redis PROCESS (group-count: group=key, error)",
        "PARSE dns PROCESS (group-count: group=query_name)",
        "PARSE tls PROCESS (group-count: group=sni)",
        "PARSE nfs PROCESS (group-count: group=name, path)",
    ] {
        let found = report(folder.path(), &[query, "-r", capture, "--no-redact"]);
        assert!(
            found["elements"]["img"].is_null() && found["elements"]["b"].is_null(),
            "{query}: {}",
            found["elements"]
        );
        let shown = found["texts"].as_str().expect("a text");
        assert!(hostile::is_in(shown), "{query}: {shown}");
        assert!(!shown.contains(acts), "{query}: {shown}");
        let redacted = report(folder.path(), &[query, "-r", capture]);
        assert!(redacted["elements"]["img"].is_null(), "{query}");
        for format in ["table", "jsonl", "csv"] {
            let output = run(&["-q", "query", query, "-r", capture, "--format", format]);
            let printed = text(&output.stdout);
            assert!(
                output.status.success() && hostile::is_in(&printed),
                "{query} {format}: {printed}"
            );
            // CSV is exact: cells contain the original text.
            assert!(
                format == "csv" || !printed.contains(acts),
                "{query} {format}: {printed:?}"
            );
        }
    }
    let found = report(folder.path(), &["-r", capture, "--no-redact"]);
    assert!(
        found["elements"]["img"].is_null()
            && found["texts"].to_string().contains("onerror=alert(4)")
    );
}

#[test]
fn impossible_reports_are_rejected() {
    for (args, code, words) in [
        (
            &[
                "report",
                "PARSE http",
                "-r",
                SHOP,
                "--format",
                "svg",
                "-o",
                "/dev/null",
            ][..],
            1,
            "no chart for this result",
        ),
        (
            &["report", "-r", SHOP, "--format", "svg", "-o", "/dev/null"],
            2,
            "--format svg requires a query",
        ),
        (
            &["report", "PARSE nothing", "-r", SHOP, "-o", "/dev/null"],
            2,
            "nothing",
        ),
        (
            &["report", "PARSE http", "-r", SHOP, "-o", SHOP],
            2,
            "is an input",
        ),
        (
            &["report", "-r", "missing.pcap", "-o", "/dev/null"],
            1,
            "missing.pcap",
        ),
        (
            &["report", "PARSE http", "-r", SHOP, "--for", "1s"],
            2,
            "LIMIT",
        ),
        (&["report", "-o", "/dev/null"], 2, "no input"),
    ] {
        let output = run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

/// docs/report.md: its commands, run in a temporary folder.
#[test]
fn the_commands_of_the_page_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("it exists");
    let page = std::fs::read_to_string(root.join("docs/report.md")).expect("the page");
    let block = page
        .split("```sh\n")
        .nth(1)
        .and_then(|block| block.split("```").next())
        .expect("commands");
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(root.join("captures"), folder.path().join("captures"))
        .expect("a link");
    let program = Path::new(env!("CARGO_BIN_EXE_netalytics"))
        .parent()
        .expect("a folder");
    let path = format!(
        "{}:{}",
        program.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let ran = Command::new("sh")
        .args(["-ec", block])
        .current_dir(folder.path())
        .env("PATH", path)
        .output();
    let ran = ran.expect("sh starts");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    for file in ["finding.html", "overview.html"] {
        read(&folder.path().join(file));
    }
    assert!(
        std::fs::read_to_string(folder.path().join("spread.svg"))
            .expect("a picture")
            .starts_with("<svg")
    );
}

#[test]
fn pictures_are_self_contained() {
    let query = "PARSE http PROCESS (diff-group: group=url_template, w=200ms)";
    let output = run(&["-q", "report", query, "-r", SHOP, "--format", "svg"]);
    let svg = text(&output.stdout);
    assert!(
        output.status.success() && svg.starts_with("<svg xmlns=") && svg.contains("<style>"),
        "{svg}"
    );
    assert!(
        svg.matches("class=\"line ").count() > 3 && !svg.contains("href"),
        "{svg}"
    );
}
