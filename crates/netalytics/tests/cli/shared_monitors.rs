//! Jobs with the same query share a monitor on each host, as processes. Their rows equal those of a monitor of its own on
//! the same packets, and they begin, end, fail, and continue like separate jobs.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Folder;
use super::resilience::{agent, children, is_connected, start};
use super::service::{Process, Server, wait};
use super::stopped::{lacks_nobody, signal};

const QUERY: &str = "PARSE http PROCESS (group-count: group=method, w=1s)";

/// An agent with one round of the capture per second, the same for all monitors.
fn agent_in_step(server: &Server, folder: &Folder) -> Vec<String> {
    let policy = folder.file("policy.toml", b"leaves = 'raw'\n");
    let more = ["--demo-in-step".to_owned(), "--policy".to_owned(), policy];
    agent(server, folder, "one")
        .into_iter()
        .chain(more)
        .collect()
}

fn monitors(agent: &Process, n: usize) -> Result<Vec<u32>, String> {
    let all = children(agent.0.id());
    if all.len() == n {
        Ok(all)
    } else {
        Err(format!("{all:?}"))
    }
}

/// Number of jobs that the job's monitor serves, as reported.
fn jobs_of_monitor(server: &Server, id: &str) -> Option<u64> {
    server.rows(&["jobs", "show", id])[0]["agents"][0]["counters"]["monitor_jobs"].as_u64()
}

fn reason(server: &Server, id: &str) -> String {
    server.rows(&["jobs", "show", id])[0]["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Rows by window, without their number in the job.
fn windows(server: &Server, id: &str) -> BTreeMap<i64, Vec<Value>> {
    let mut windows: BTreeMap<i64, Vec<Value>> = BTreeMap::new();
    for row in server.rows(&["jobs", "results", id]) {
        let window = row["window_start"].as_i64().expect("a window");
        let columns = [
            "window_end",
            "method",
            "count",
            "approximate",
            "lost",
            "agents_missing",
        ];
        windows
            .entry(window)
            .or_default()
            .push(columns.map(|name| row[name].clone()).into_iter().collect());
    }
    windows
}

/// Waits for `n` windows that both jobs have, which must be equal except the first and the last one.
fn have_equal_rows(server: &Server, (one, other): (&str, &str), n: usize) {
    let common = || {
        let one = windows(server, one);
        let other = windows(server, other);
        let both: Vec<_> = one
            .into_iter()
            .filter_map(|(at, rows)| Some((rows, other.get(&at)?.clone())))
            .collect();
        both
    };
    wait("windows of both", || match common().len() {
        enough if enough >= n + 2 => Ok(()),
        few => Err(format!("{few}; {}", reason(server, one))),
    });
    let both = common();
    for (one, other) in &both[1..both.len() - 1] {
        assert_eq!(one, other);
        assert!(one.iter().all(|row| row[2].as_u64() > Some(0)), "{one:?}");
    }
}

fn starts_more_rows(server: &Server, id: &str) {
    let before = windows(server, id).len();
    wait("more rows", || match windows(server, id).len() {
        n if n > before + 2 => lacks_nobody(server, id),
        n => Err(format!("{n}; {}", reason(server, id))),
    });
}

#[test]
fn jobs_with_the_same_query_share_a_monitor_and_end_by_themselves() {
    let folder = Folder::new();
    let mut server = Server::start(&folder);
    let [one, two] = [QUERY, QUERY].map(|query| server.start_job(query));
    let started = server.rows(&["jobs", "start", QUERY, "--standing", "--raw"]);
    let alone = started[0]["id"].as_str().expect("a number").to_owned();
    let arguments = agent_in_step(&server, &folder);
    let first = start(&arguments);
    wait("it comes", || is_connected(&server, "one"));
    // The unredacted job has its own.
    wait("two monitors for three jobs", || {
        monitors(&first, 2).map(drop)
    });
    have_equal_rows(&server, (&one, &two), 4);
    have_equal_rows(&server, (&one, &alone), 4);
    assert_eq!(
        [&one, &two, &alone].map(|id| jobs_of_monitor(&server, id)),
        [Some(2), Some(2), None]
    );
    assert!(
        server
            .ask(&["jobs", "show", &one])
            .contains("running, monitor of 2 jobs")
    );

    server.ask(&["jobs", "stop", &alone]);
    wait("its monitor ends", || monitors(&first, 1).map(drop));
    let shared = monitors(&first, 1).expect("one");
    signal(shared[0], "KILL");
    wait("one monitor again", || match monitors(&first, 1)? {
        same if same == shared => Err("the same".into()),
        _ => Ok(()),
    });
    for id in [&one, &two] {
        starts_more_rows(&server, id);
        let said = reason(&server, id);
        assert!(said.contains("signal: 9"), "{said}");
        assert_eq!(jobs_of_monitor(&server, id), Some(2));
    }

    let shared = monitors(&first, 1).expect("one");
    server.start_again(&folder);
    wait("the agent returns", || is_connected(&server, "one"));
    [&one, &two]
        .into_iter()
        .for_each(|id| starts_more_rows(&server, id));
    assert_eq!(monitors(&first, 1), Ok(shared.clone()));

    // A later job joins the monitor. It has the results and the counters since then.
    let late = server.start_job(QUERY);
    starts_more_rows(&server, &late);
    assert_eq!(jobs_of_monitor(&server, &late), Some(3));
    assert_eq!(monitors(&first, 1), Ok(shared.clone()));
    have_equal_rows(&server, (&two, &late), 3);
    let [begins, next] = [0, 1].map(|n| windows(&server, &late).into_values().nth(n));
    let is_partial = |rows: Option<Vec<Value>>| rows.is_some_and(|rows| rows[0][3] == true);
    assert!(is_partial(begins) && !is_partial(next), "its first window");
    let packets =
        |id| server.rows(&["jobs", "show", id])[0]["agents"][0]["counters"]["packets"].as_u64();
    assert!(packets(&late) < packets(&two) && packets(&late) > Some(0));

    // Jobs that began at different times restart with one monitor.
    signal(shared[0], "KILL");
    wait("one monitor for three jobs", || {
        let jobs = [&one, &two, &late].map(|id| jobs_of_monitor(&server, id));
        match (monitors(&first, 1)?, jobs) {
            (new, [Some(3), Some(3), Some(3)]) if new != shared => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    let shared = monitors(&first, 1).expect("one");
    for id in [&one, &two, &late] {
        starts_more_rows(&server, id);
        let said = reason(&server, id);
        assert!(said.contains("signal: 9"), "{said}");
    }

    server.ask(&["jobs", "stop", &one]);
    starts_more_rows(&server, &two);
    assert!(
        children(first.0.id()).contains(&shared[0]),
        "it still serves the other"
    );
    assert_eq!(jobs_of_monitor(&server, &two), Some(2));
    let stopped = windows(&server, &one);
    let others = windows(&server, &two);
    let (&last, _) = stopped.last_key_value().expect("it had rows");
    // A monitor is killed before or after it has sent the records of either job: such windows are marked in both.
    let is_marked = |rows: &[Value]| rows.iter().any(|row| row[3] == true);
    for (window, rows) in stopped.range(..last) {
        let others = &others[window];
        if !is_marked(rows) || !is_marked(others) {
            assert_eq!(rows, others);
        }
    }
    assert!(
        server.rows(&["jobs", "show", &one])[0]["reason"]
            .as_str()
            .is_some_and(|why| why.contains("stopped"))
    );

    // Jobs that start together share.
    drop(first);
    let again = start(&arguments);
    wait("it comes", || is_connected(&server, "one"));
    wait("one monitor for both", || {
        match (
            children(again.0.id()).len(),
            jobs_of_monitor(&server, &late),
        ) {
            (1, Some(2)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    [&two, &late]
        .into_iter()
        .for_each(|id| starts_more_rows(&server, id));
    [&two, &late]
        .into_iter()
        .for_each(|id| drop(server.ask(&["jobs", "stop", id])));
    wait("no monitor is left", || monitors(&again, 0).map(drop));
}
