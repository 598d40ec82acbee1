//! Queries of the past to a server, as processes: stored data of three hosts gives the answer of one process over all
//! packets.

use serde_json::Value;

use super::service::{Server, counts, wait};
use super::{Folder, check, run};

#[test]
fn stored_tuples_give_the_results_of_one_process() {
    const BY_PATH: &str = "PROCESS (group-count: group=path)";
    let folder = Folder::new();
    let server = Server::start(&folder);
    let _agents = server.agents(&folder, "1h");
    server.ask(&["jobs", "start", "PARSE http", "--keep-tuples"]);
    let whole = check(
        &[
            "query",
            &format!("PARSE http {BY_PATH}"),
            "-r",
            "captures/shop/in.pcap",
            "--json",
        ],
        0,
        &[],
    );
    let whole: Vec<Value> = whole
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect();
    let to = ["--server", &server.url, "--token-file", &server.token];
    let ran = |args: &[&str]| run(&[args, &to[..]].concat());
    let query = format!("PARSE http SINCE 1h {BY_PATH}");
    // A query of the past fails until the job has run.
    wait("all of it is kept", || {
        let ran = ran(&["query", &query, "-q", "--format", "jsonl"]);
        let rows: Vec<Value> = ran
            .out
            .lines()
            .map(|line| serde_json::from_str(line).expect("a row"))
            .collect();
        if counts(&rows) == counts(&whole) {
            Ok(())
        } else {
            Err(ran.out + &ran.err)
        }
    });
    let table = ran(&["query", &query, "--format", "table"]);
    assert!(
        table.out.contains("/checkout") && !table.out.contains("agents_missing"),
        "{}",
        table.out
    );
    assert!(
        table
            .err
            .contains("answered from the tuples that job 1 keeps"),
        "{}",
        table.err
    );
    // Assertions over stored data of the service.
    for (assertion, code) in [
        ("rows > 3", 0),
        ("count > 1000", 1),
        ("agents_missing is null", 0),
        ("p99 < 1s", 2),
    ] {
        let checked = ran(&["check", &query, "--assert", assertion]);
        assert_eq!(
            checked.code, code,
            "{assertion}: {}{}",
            checked.out, checked.err
        );
    }
    let against = ran(&[
        "check",
        &format!("PARSE http SINCE 1h BASELINE 1d {BY_PATH}"),
        "--assert",
        "coalesce(baseline.count, 0) = 0",
    ]);
    assert_eq!(against.code, 0, "{}{}", against.out, against.err);
    let compared = ran(&[
        "compare",
        &format!("PARSE http SINCE 1h BASELINE 1d {BY_PATH}"),
        "--format",
        "table",
    ]);
    assert!(
        compared.out.contains("differs") && compared.out.contains("/checkout"),
        "{}",
        compared.out
    );
    assert!(
        compared.err.contains("the baseline has no data"),
        "{}",
        compared.err
    );
    let missing = ran(&["query", "PARSE mysql_query SINCE 1h PROCESS (count)"]);
    assert_eq!(missing.code, 1, "{}{}", missing.out, missing.err);
    assert!(
        missing
            .err
            .contains("jobs start 'PARSE mysql_query' --keep-tuples"),
        "{}",
        missing.err
    );
}
