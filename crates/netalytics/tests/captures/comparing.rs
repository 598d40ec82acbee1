//! Comparisons and assertions: numbers equal those of two separate queries, exit codes and reports are correct, and the
//! examples of docs/compare.md and docs/check.md run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

const SHOP: &str = "captures/shop/in.pcap";
const BINARY: &str = env!("CARGO_BIN_EXE_netalytics");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(BINARY)
        .args(args)
        .current_dir(root())
        .stdin(Stdio::null())
        .output();
    let output = output.expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (
        output.status.code().expect("ended by itself"),
        text(output.stdout),
        text(output.stderr),
    )
}

fn rows(args: &[&str]) -> Vec<Value> {
    let (code, out, err) = run(&[args, &["-q", "--format", "jsonl"]].concat());
    assert_eq!(code, 0, "{args:?}\n{err}");
    out.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Every number of a comparison equals that of a query over that period alone.
#[test]
fn both_sides_equal_single_queries() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("recording").display().to_string();
    assert_eq!(
        run(&[
            "record",
            "PARSE http",
            "-r",
            SHOP,
            "-o",
            &recording,
            "-q",
            "--no-redact"
        ])
        .0,
        0
    );
    const PROCESS: &str = "PROCESS (diff-group-count-avg-max-quantile: group=url_template), (group-success-sum: group=client_ip, value=response_bytes)";
    for input in [SHOP, recording.as_str()] {
        let own = rows(&[
            "query",
            &format!("PARSE http SINCE 600ms {PROCESS}"),
            "-r",
            input,
        ]);
        let other = rows(&[
            "query",
            &format!("PARSE http SINCE 1200ms UNTIL 600ms {PROCESS}"),
            "-r",
            input,
        ]);
        let both = rows(&[
            "query",
            &format!("PARSE http SINCE 600ms BASELINE 600ms {PROCESS}"),
            "-r",
            input,
        ]);
        assert!(
            both.len() >= own.len() && own.len() > 5,
            "{input}: {}",
            both.len()
        );
        let mut compared = 0;
        for row in &both {
            let same = |r: &&Value| {
                ["processor", "url_template", "client_ip"]
                    .iter()
                    .all(|key| r[key] == row[key])
            };
            let own = own.iter().find(same);
            let other = other.iter().find(same);
            assert!(own.is_some() || other.is_some(), "{row}");
            for name in [
                "count",
                "avg_ns",
                "max_ns",
                "p50_ns",
                "p99_ns",
                "success",
                "sum_bytes",
            ] {
                assert_eq!(
                    row[name],
                    own.map_or(Value::Null, |own| own[name].clone()),
                    "{name}: {row}"
                );
                let baseline = other.map_or(Value::Null, |other| other[name].clone());
                assert_eq!(row[format!("baseline_{name}")], baseline, "{name}: {row}");
                if let (Some(a), Some(b)) = (row[name].as_f64(), baseline.as_f64()) {
                    compared += 1;
                    let difference = row[format!("difference_{name}")]
                        .as_f64()
                        .expect("a number");
                    assert!(
                        (difference - (a - b)).abs() <= 1e-9 * a.abs().max(b.abs()),
                        "{name}: {row}"
                    );
                }
            }
        }
        assert!(compared > 30, "{compared}");
    }
}

#[test]
fn the_same_does_not_differ_and_the_slower_does() {
    let query = "PARSE http PROCESS (diff-group-count-avg-quantile: group=url_template, q=0.5)";
    let same = rows(&["compare", query, "-r", SHOP, "--baseline", SHOP]);
    assert_eq!(same.len(), 7);
    for row in &same {
        assert_eq!(row["ratio_count"], 1.0, "{row}");
        for name in ["differs_count", "differs_avg", "differs_p50"] {
            assert_ne!(row[name], true, "{name}: {row}");
        }
    }
    // Pages of the shop with more work take longer.
    let group = "PARSE http WHERE url_template in ('/', '/product/{id}') and status = 200";
    let folder = tempfile::tempdir().expect("a folder");
    for (page, name) in [("/", "fast"), ("/product/{id}", "slow")] {
        let recording = folder.path().join(name).display().to_string();
        let query = format!("PARSE http WHERE url_template = '{page}'");
        assert_eq!(
            run(&[
                "record",
                &query,
                "-r",
                SHOP,
                "-o",
                &recording,
                "-q",
                "--no-redact"
            ])
            .0,
            0
        );
    }
    let [fast, slow] = ["fast", "slow"].map(|name| folder.path().join(name).display().to_string());
    let query = format!("{group} PROCESS (diff-group-count-avg-quantile: group=server_ip)");
    let differs = rows(&["compare", &query, "-r", &slow, "--baseline", &fast]);
    assert_eq!(differs.len(), 1);
    for name in ["differs_avg", "differs_p50", "differs_p95"] {
        assert_eq!(differs[0][name], true, "{name}: {}", differs[0]);
    }
    assert_eq!(
        differs[0]["differs_count"], false,
        "65 and 66 requests: {}",
        differs[0]
    );
}

#[test]
fn all_formats_have_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("compared.parquet").display().to_string();
    let query = "PARSE http SINCE 600ms BASELINE 600ms PROCESS (group-count: group=host)";
    let (code, out, _) = run(&["query", query, "-r", SHOP, "-q", "--format", "csv"]);
    assert_eq!(code, 0);
    assert!(
        out.starts_with(
            "host,count,baseline_count,difference_count,ratio_count,differs_count,approximate"
        ),
        "{out}"
    );
    let (code, ..) = run(&[
        "query", query, "-r", SHOP, "-q", "--format", "parquet", "-o", &file,
    ]);
    assert_eq!(code, 0);
    assert!(fs::read(&file).expect("a file").starts_with(b"PAR1"));
    let (_, out, err) = run(&["query", query, "-r", SHOP, "--format", "table"]);
    assert!(out.contains("shop.example  count   98      110"), "{out}");
    assert!(
        err.contains("period ") && err.contains("98 tuples") && err.contains("110 tuples"),
        "{err}"
    );
}

#[test]
fn impossible_comparisons_are_rejected() {
    let says = |args: &[&str], words: &str| {
        let (code, _, err) = run(args);
        assert!(code == 2 && err.contains(words), "{args:?}: {code} {err}");
    };
    let clauses = "SINCE 1s BASELINE 1s";
    says(
        &[
            "query",
            &format!("PARSE http {clauses} PROCESS (diff: w=1s)"),
            "-r",
            SHOP,
        ],
        "omit w=",
    );
    says(
        &[
            "query",
            &format!("PARSE http {clauses} PROCESS (workload-profile)"),
            "-r",
            SHOP,
        ],
        "workload profile",
    );
    says(
        &[
            "query",
            &format!("PARSE http {clauses} PROCESS (hist)"),
            "-r",
            SHOP,
        ],
        "distributions cannot be compared",
    );
    says(
        &[
            "query",
            &format!("PARSE http {clauses} SAMPLE 0.5 PROCESS (count)"),
            "-r",
            SHOP,
        ],
        "omit SAMPLE",
    );
    says(
        &[
            "query",
            &format!("PARSE http {clauses} PROCESS (count)"),
            "-i",
            "lo",
        ],
        "reads captures or recordings",
    );
    says(
        &[
            "record",
            &format!("PARSE http {clauses} PROCESS (count)"),
            "-r",
            SHOP,
            "-o",
            "/tmp/x",
        ],
        "BASELINE compares results",
    );
    says(
        &["compare", "PARSE http PROCESS (count)", "-r", SHOP],
        "nothing to compare with",
    );
    says(
        &[
            "compare",
            &format!("PARSE http {clauses} PROCESS (count)"),
            "-r",
            SHOP,
            "-b",
            SHOP,
        ],
        "BASELINE cannot be combined",
    );
    says(
        &["compare", "PARSE http", "-r", SHOP, "-b", SHOP],
        "without PROCESS",
    );
    says(
        &[
            "compare",
            "PARSE http PROCESS (count)",
            "-r",
            SHOP,
            "-b",
            SHOP,
            "--confidence",
            "2",
        ],
        "50%",
    );
    says(
        &[
            "query",
            &format!("PARSE http {clauses} PROCESS (count)"),
            "-r",
            "-",
        ],
        "read the input twice",
    );
}

#[test]
fn checks_end_with_their_exit_codes() {
    const PAGES: &str = "PARSE http PROCESS (diff-group: group=url_template)";
    let ends = |query: &str, more: &[&str], code: i32, words: &str| {
        let (found, out, err) = run(&[&["check", query, "-r", SHOP], more].concat());
        assert!(
            found == code && format!("{out}{err}").contains(words),
            "{more:?}: {found}\n{out}{err}"
        );
    };
    ends(
        PAGES,
        &["--assert", "p99 < 200ms"],
        0,
        "ok      p99 < 200ms",
    );
    ends(
        PAGES,
        &["--assert", "p99 < 50ms"],
        1,
        "url_template /checkout: p99_ns 182 ms",
    );
    ends(
        PAGES,
        &["--assert", "count > 1 and p99 < 50ms"],
        1,
        "             ^^^^^^^^^^",
    );
    ends(
        PAGES,
        &["--assert", "p99 < 200ms", "--assert", "p99 < 50ms"],
        1,
        "false for 1 of 7 rows",
    );
    ends(
        PAGES,
        &["--assert", "p99 < 50ms where url_template != '/checkout'"],
        0,
        "ok",
    );
    ends(
        PAGES,
        &["--assert", "p99 < 50ms where url_template = '/nowhere'"],
        1,
        "no row matches WHERE",
    );
    ends(
        PAGES,
        &[
            "--assert",
            "p99 < 50ms where url_template = '/nowhere'",
            "--allow-empty",
        ],
        0,
        "ok",
    );
    ends(PAGES, &["--assert", "any(count > 60)"], 0, "ok");
    ends(
        PAGES,
        &["--assert", "any(count > 1000)"],
        1,
        "false for all 7 rows",
    );
    ends(PAGES, &["--assert", "rows = 7"], 0, "ok");
    ends(PAGES, &["--assert", "rows > 7"], 1, "rows 7");
    ends(
        &format!("{PAGES} HAVING count > 1000"),
        &["--assert", "p99 < 1s"],
        1,
        "no rows",
    );
    ends(
        PAGES,
        &["--assert", "p98 < 50ms"],
        2,
        "have no column `p98`",
    );
    ends(PAGES, &["--assert", "p99 < 50"], 2, "a number needs a unit");
    ends(PAGES, &[], 2, "--assert");
    ends("PARSE http", &["--assert", "rows > 0"], 2, "add PROCESS");
    ends(
        "PARSE http PROCESS (count), (success)",
        &["--assert", "rows > 0"],
        2,
        "apply to one result",
    );
    ends(
        "PARSE htp PROCESS (count)",
        &["--assert", "rows > 0"],
        2,
        "unknown parser",
    );
    let baseline = &["--baseline", SHOP, "--assert"];
    ends(
        PAGES,
        &[&baseline[..], &["p99 <= 1.01 * baseline.p99"]].concat(),
        0,
        "ok",
    );
    ends(
        PAGES,
        &[&baseline[..], &["p99 < 0.9 * baseline.p99"]].concat(),
        1,
        "baseline_p99_ns",
    );
    ends(
        PAGES,
        &[&baseline[..], &["baseline.p98 > 1ms"]].concat(),
        2,
        "no column `baseline.p98`",
    );
}

#[test]
fn reports_can_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let [json, xml] =
        ["report.json", "junit.xml"].map(|name| folder.path().join(name).display().to_string());
    let query = "PARSE http PROCESS (diff-group: group=url_template)";
    for report in [&json, &xml] {
        let (code, ..) = run(&[
            "check",
            query,
            "-r",
            SHOP,
            "--assert",
            "p99 < 50ms",
            "--assert",
            "rows > 0",
            "--report",
            report,
        ]);
        assert_eq!(code, 1);
    }
    let report: Value =
        serde_json::from_str(&fs::read_to_string(&json).expect("a report")).expect("JSON");
    assert_eq!(
        (&report["passed"], &report["rows"]),
        (&Value::Bool(false), &Value::from(7))
    );
    let violation = &report["assertions"][0]["violations"][0];
    assert_eq!(violation["row"]["url_template"], "/checkout");
    assert!(
        violation["values"]["p99_ns"]
            .as_f64()
            .is_some_and(|ns| ns > 180e6),
        "{violation}"
    );
    assert_eq!(report["assertions"][1]["passed"], true);
    let xml = fs::read_to_string(&xml).expect("a report");
    assert!(
        xml.contains("<testsuite name=\"PARSE http") && xml.contains("tests=\"2\" failures=\"1\""),
        "{xml}"
    );
    assert!(
        xml.contains("name=\"p99 &lt; 50ms\"") && xml.contains("/checkout"),
        "{xml}"
    );
}

/// Commands of ```sh blocks end with 0; ```text blocks contain their output after `$`.
#[test]
fn the_examples_of_the_documentation_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = root().canonicalize().expect("it exists");
    std::os::unix::fs::symlink(root.join("captures"), folder.path().join("captures"))
        .expect("a link");
    let bin = Path::new(BINARY).parent().expect("in a folder").display();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let shell = |code: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-ec", code])
            .current_dir(folder.path())
            .env("PATH", &path)
            .stdin(Stdio::null());
        command.output().expect("it starts")
    };
    let mut tried = 0;
    for page in ["compare", "check"] {
        let text = fs::read_to_string(root.join(format!("docs/{page}.md"))).expect("the page");
        for block in text.split("\n```").collect::<Vec<_>>().chunks(2) {
            let [_, block] = block else { continue };
            let (kind, code) = block.split_once('\n').expect("a block has lines");
            match (
                kind,
                code.strip_prefix("$ ")
                    .and_then(|shown| shown.split_once('\n')),
            ) {
                ("sh", _) => {
                    let output = shell(code);
                    let err = String::from_utf8_lossy(&output.stderr);
                    assert!(
                        output.status.success(),
                        "{code}\n{}{err}",
                        String::from_utf8_lossy(&output.stdout)
                    );
                }
                ("text", Some((command, want))) => {
                    let output = shell(command);
                    let found = String::from_utf8_lossy(&output.stdout);
                    assert_eq!(found.trim_end(), want.trim_end(), "{command}\n{found}");
                }
                _ => continue,
            }
            tried += 1;
        }
    }
    assert!(tried >= 8, "{tried} examples found");
}
