//! The number of workers changes nothing: the same rows in the same order, and the same packets accounted for.

use std::path::Path;
use std::time::Duration;

use monitor::job::Config;
use monitor::{Ended, Input, Job, Step};

use crate::support::{EVERYWHERE, Row, captures, rows};

/// What is asked of every capture: raw tuples of each kind, groups, rankings, windows of both kinds, a join, filters.
const QUERIES: [&str; 10] = [
    "PARSE http",
    "PARSE mysql_query",
    "PARSE memcached PROCESS (diff-group: group=command), (success)",
    "PARSE rpc",
    "PARSE flow",
    "PARSE tcp_conn_time, http PROCESS (diff-group: group=url), (top-k: k=5)",
    "PARSE packet PROCESS (group-count-sum: group=src_ip, w=1s), (distinct: value=dst_port, w=2s, slide=500ms)",
    "PARSE tcp_pkt_size TO *:80 LIMIT 300p PROCESS (stddev), (quantile: q=0.1,0.9)",
    "PARSE http FROM * TO *:80 WHERE status >= 200 SAMPLE 0.5 PROCESS (diff-group: group=status)",
    "PARSE tcp_flow_key",
];

/// Rows as they came, by pipeline.
type Results = Vec<(Option<usize>, Vec<Row>)>;

fn run(capture: &Path, query: &str, workers: usize) -> (Results, Ended) {
    let query = query::check(query, &parsers::registry::schemas(), &()).expect("a sound query");
    let input = Input::Shared(capture::open(&[capture.to_owned()]), workers);
    let mut job = Job::start(&planner::lower(&query), &Config::default(), input).expect("threads");
    let mut out = Vec::new();
    while job.next(Duration::from_secs(60), &mut out) == Step::Going {}
    let mut results = Results::new();
    for output in out {
        match results.last_mut() {
            Some((pipeline, some)) if *pipeline == output.pipeline => some.extend(rows(&output.batch)),
            _ => results.push((output.pipeline, rows(&output.batch))),
        }
    }
    (results, job.end())
}

#[test]
fn as_many_workers_as_one_likes() {
    let Some(root) = testkit::corpus() else { return };
    for (i, capture) in captures(&root, EVERYWHERE).iter().enumerate() {
        for query in QUERIES {
            let (alone, ended) = run(capture, query, 1);
            let workers = [2, 3, 5][i % 3];
            let (together, shared) = run(capture, query, workers);
            let what = format!("{query}, {workers} workers, {}", capture.display());
            assert!(ended.panics.is_empty() && shared.panics.is_empty(), "{what}");
            assert_eq!(alone, together, "{what}");
            assert_eq!(ended.seen, shared.seen, "{what}");
            assert_eq!(ended.source, shared.source, "{what}");
            assert_eq!(ended.limit_reached, shared.limit_reached, "{what}");
            // Of the most bytes held each worker has its own.
            let comparable = |mut ended: Ended| {
                ended.accounting.flows.held_bytes_peak = 0;
                ended.accounting
            };
            let (alone, together) = (comparable(ended), comparable(shared));
            assert!(alone.adds_up() && together.adds_up(), "{what}");
            assert_eq!(alone, together, "{what}");
        }
    }
}
