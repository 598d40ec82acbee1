//! Pages of rows and their formats.

use serde_json::Value;
use server::WindowState;

use super::noted;
use crate::history::{begin, counts, publish, window};

#[test]
fn pages_of_rows_have_bounds() {
    let server = noted();
    let job = begin(&server);
    for start in 0..3 {
        let rows: Vec<_> = (0..5000).map(|n| ("/a", start * 5000 + n)).collect();
        publish(
            &server,
            job,
            &window(start as i64 * 10, &rows),
            WindowState::Closed,
        );
    }
    assert_eq!(counts(&server, job), (0..15_000).collect::<Vec<_>>());
    let rows = |query: &str| server.get(&format!("/api/v1/jobs/{job}/rows?{query}"));
    let found = |query: &str| {
        let page = rows(query).of(200).json();
        let rows = page["rows"].as_array().expect("rows");
        let counts = rows.iter().map(|row| row[3].as_u64().expect("a count"));
        (
            counts.collect::<Vec<_>>(),
            page["next"].as_str().map(str::to_owned),
        )
    };
    assert_eq!(found("limit=100000").0.len(), 10_000, "the limit of a page");
    assert_eq!(found("after=14998"), (vec![14_999], None));
    for empty in [
        "after=14999",
        "after=9223372036854775807",
        "since=10&until=10",
        "since=9&until=3",
    ] {
        assert_eq!(found(empty), (vec![], None), "{empty}");
    }
    // Windows start at 0, 10, and 20 seconds.
    assert_eq!(found("since=20000000000&limit=1").0, [10_000]);
    assert_eq!(found("until=1&after=4998").0, [4999]);
    assert_eq!(
        found(&format!("since={}&until={}&limit=2", i64::MIN, i64::MAX)).0,
        [0, 1]
    );
    for wrong in [
        "after=-1",
        "after=x",
        "after=9223372036854775808",
        "limit=-1",
        "since=soon",
        "order=up",
    ] {
        rows(wrong).of(400);
    }
    assert_eq!(rows("format=xml").status, 406);
    for unknown in ["result=1", "result=-1", "result=count"] {
        assert_eq!(
            rows(unknown).of(404).json()["code"],
            "not_found",
            "{unknown}"
        );
    }
    assert_eq!(
        found("result=group-count&limit=1").0,
        found("result=0&limit=1").0
    );
}

/// The page ends where the next one starts, whatever its format.
#[test]
fn every_format_has_the_same_rows() {
    let server = noted();
    let job = begin(&server);
    let rows: Vec<_> = (0..100).map(|n| ("a,\"b\"\n\u{1f980}", n)).collect();
    publish(&server, job, &window(0, &rows), WindowState::Closed);
    let page = |format: &str| {
        let page = server
            .get(&format!("/api/v1/jobs/{job}/rows?limit=40&format={format}"))
            .of(200);
        assert_eq!(page.header("netalytics-next"), Some("39"), "{format}");
        assert_eq!(page.header("netalytics-last"), Some("39"), "{format}");
        page
    };
    let urls = page("json").json()["rows"]
        .as_array()
        .expect("rows")
        .clone();
    assert!(urls.iter().all(|row| row[2] == "a,\"b\"\n\u{1f980}"));
    let lines = page("jsonl").text();
    assert_eq!(lines.lines().count(), 40);
    for line in lines.lines() {
        let row: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(row["url"], "a,\"b\"\n\u{1f980}");
    }
    // A quoted cell with a line feed and doubled quotes (RFC 4180).
    let csv = page("csv").text();
    assert_eq!(
        csv.matches("\"a,\"\"b\"\"\n\u{1f980}\"").count(),
        40,
        "{csv}"
    );
}

/// A client that resends a batch after a restart of the server, and rows of an earlier window.
#[test]
fn rows_are_kept_in_the_order_of_arrival() {
    let server = noted();
    let job = begin(&server);
    for (start, count) in [
        (50, 1),
        (10, 2),
        (50, 3),
        (i64::MIN / 2_000_000_000, 4),
        (0, 5),
    ] {
        publish(
            &server,
            job,
            &window(start, &[("/a", count)]),
            WindowState::Closed,
        );
    }
    publish(&server, job, &window(60, &[]), WindowState::Closed);
    // Rows of an open window are replaced, and never stored.
    publish(&server, job, &window(70, &[("/a", 99)]), WindowState::Open);
    assert_eq!(counts(&server, job), [1, 2, 3, 4, 5]);
    let early = server
        .get(&format!("/api/v1/jobs/{job}/rows?until=0"))
        .of(200)
        .json();
    assert_eq!(early["rows"].as_array().map(Vec::len), Some(1));
    let total = server
        .get(&format!("/api/v1/jobs/{job}/results"))
        .of(200)
        .json();
    assert_eq!(total["results"][0]["total"], "5");
}
