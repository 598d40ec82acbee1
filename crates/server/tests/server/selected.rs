//! Rows sorted, searched and skipped by the server, compared with a simple implementation over all rows.

use std::collections::BTreeSet;

use serde_json::Value;
use server::{AgentCoverage, JobId, JobState, ResultDelivery, WindowState};

use crate::client::Server;
use crate::fleet::{TestFleet, Way};
use crate::history::{begin, publish, window};

const PATHS: usize = 12_000;
/// Index of the slow row: after the maximum of 10,000 rows per page.
const SLOW: usize = 11_321;

/// A window of 12,000 paths, one with a unique count; and two small windows around it, the last one without an agent.
fn filled(server: &Server) -> JobId {
    let job = begin(server);
    publish(
        server,
        job,
        &window(0, &[("/before", 900)]),
        WindowState::Closed,
    );
    let names: Vec<String> = (0..PATHS).map(|n| format!("/p/{n:05}")).collect();
    let rows: Vec<(&str, u64)> = names
        .iter()
        .enumerate()
        .map(|(n, name)| {
            if n == SLOW {
                ("/Slow/É", 500)
            } else {
                (name.as_str(), (n % 7) as u64)
            }
        })
        .collect();
    // As from engines: a window's rows in several batches.
    for part in rows.chunks(4096) {
        publish(server, job, &window(10, part), WindowState::Closed);
    }
    let coverage = AgentCoverage {
        missing: vec!["web-1".into()],
    };
    let batch = window(20, &[("/behind", 1)]);
    let delivery = ResultDelivery {
        job,
        result: 0,
        batch: &batch,
        state: WindowState::Closed,
        watermark_ns: 0,
        coverage: &coverage,
    };
    server.fleet.hub().publish(&delivery).expect("kept");
    job
}

fn rows(page: &Value) -> &Vec<Value> {
    page["rows"].as_array().expect("rows")
}

/// All rows in order of arrival.
fn all(server: &Server, job: JobId) -> Vec<Value> {
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let page = server
            .get(&format!("/api/v1/jobs/{job}/rows?limit=10000{after}"))
            .of(200)
            .json();
        found.extend(rows(&page).iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return found,
        }
    }
}

#[test]
fn large_windows_are_sorted_and_searched() {
    let server = Server::start(TestFleet::new(Way::Note));
    let job = filled(&server);
    // In the store, and in files.
    for _ in 0..2 {
        let get = |what: &str| {
            let path =
                format!("/api/v1/jobs/{job}/rows?since=10000000000&until=10000000001&{what}");
            server.get(&path).of(200)
        };
        let worst = get("sort=count&order=desc&limit=3");
        assert_eq!(worst.header("netalytics-matches"), Some("12000"));
        let worst = worst.json();
        assert_eq!(
            (&worst["matches"], &worst["next"]),
            (&Value::from("12000"), &Value::Null)
        );
        assert_eq!(
            (&rows(&worst)[0][2], &rows(&worst)[0][3]),
            (&"/Slow/É".into(), &500.into())
        );
        assert_eq!(
            rows(&worst)
                .iter()
                .map(|row| row[3].as_u64())
                .collect::<Vec<_>>(),
            [500, 6, 6].map(Some)
        );
        // Equal ones are in order of arrival.
        assert_eq!(rows(&worst)[1][2], "/p/00006");
        let found = get("find=SLOW/%C3%A9").json();
        assert_eq!(
            (&found["matches"], &rows(&found)[0][3]),
            (&Value::from("1"), &500.into())
        );
        assert_eq!(
            get("find=/p/1132&sort=url&order=desc&limit=1").json()["matches"],
            "9"
        );
        assert_eq!(get("find=nothing").json()["matches"], "0");
        assert_eq!(
            get("sort=count&format=csv&limit=1&order=desc")
                .text()
                .lines()
                .count(),
            2
        );
        server
            .fleet
            .hub()
            .turn(job, JobState::Ended("done".into()), None)
            .expect("noted");
    }
}

#[test]
fn pages_of_sorted_rows_have_each_row_once() {
    let server = Server::start(TestFleet::new(Way::Note));
    let job = filled(&server);
    let all = all(&server, job);
    assert_eq!(all.len(), PATHS + 2);
    let number = |row: &Value| row[3].as_i64().expect("a count");
    let text = |row: &Value, at: usize| row[at].as_str().map(str::to_owned);
    let mut expected: [Vec<Value>; 4] = std::array::from_fn(|_| all.clone());
    expected[0].sort_by_key(number);
    expected[1].sort_by_key(|row| -number(row));
    expected[2].sort_by_key(|row| std::cmp::Reverse(text(row, 2)));
    // Null is last in both orders.
    expected[3].sort_by_key(|row| row[4].is_null());
    let orders = [
        "sort=count",
        "sort=count&order=desc",
        "sort=url&order=desc",
        "sort=agents_missing&order=desc",
    ];
    for (order, expected) in orders.iter().zip(&expected) {
        let mut found = Vec::new();
        while found.len() < all.len() {
            let path = format!(
                "/api/v1/jobs/{job}/rows?{order}&limit=1700&offset={}",
                found.len()
            );
            let page = server.get(&path).of(200).json();
            assert_eq!(page["matches"], all.len().to_string());
            assert!(!rows(&page).is_empty(), "{path}");
            found.extend(rows(&page).iter().cloned());
        }
        assert!(found == *expected, "{order}");
        let distinct: BTreeSet<String> = found.iter().map(Value::to_string).collect();
        assert_eq!(distinct.len(), all.len());
    }
    let behind = format!("/api/v1/jobs/{job}/rows?offset={}", all.len());
    assert!(rows(&server.get(&behind).of(200).json()).is_empty());
}

#[test]
fn invalid_sort_orders_are_rejected() {
    let server = Server::start(TestFleet::new(Way::Note));
    let job = filled(&server);
    for (asked, words) in [
        (
            "sort=p99",
            "no column p99; it has window_start, window_end, url, count, agents_missing",
        ),
        ("sort=count&order=down", "asc or desc"),
        ("order=desc", "`sort`"),
        ("sort=count&after=3", "`offset`"),
        ("offset=99999&limit=2", "100000"),
        ("offset=-1", "offset"),
    ] {
        let failure = server
            .get(&format!("/api/v1/jobs/{job}/rows?{asked}"))
            .of(400)
            .json();
        assert_eq!(failure["code"], "bad_request");
        assert!(
            failure["message"].as_str().expect("words").contains(words),
            "{asked}: {failure}"
        );
    }
    let other = server
        .get(&format!("/api/v1/jobs/{job}/rows?sort=count&result=none"))
        .of(404)
        .json();
    assert!(
        other["message"]
            .as_str()
            .expect("words")
            .contains("group-count"),
        "{other}"
    );
}
