//! The invariance run: every capture as a file, from a pipe, compressed and as pcapng, with 1, 2, 3 and 8 workers, two runs of
//! each: rows, their order, and all counters are those of one worker that reads the file.
//! `cargo test -p monitor --test corpus invariance -- --ignored --nocapture`; `NETALYTICS_INVARIANCE` may name a folder of
//! further captures, such as `accuracy --write` writes.

use std::collections::BTreeMap;
use std::path::Path;

use crate::forms::Forms;
use crate::support::{EVERYWHERE, captures};
use crate::workers::run;

const QUERIES: [&str; 14] = [
    "PARSE flow",
    "PARSE http",
    "PARSE mysql_query",
    "PARSE postgresql",
    "PARSE memcached",
    "PARSE mongodb",
    // Prepared statements are shared by the connections of a worker.
    "PARSE cassandra PROCESS (group-count: group=command, error, quality)",
    // Names of topics are shared by the connections of a worker.
    "PARSE kafka PROCESS (group-count: group=api, error, quality)",
    "PARSE redis",
    "PARSE rpc",
    "PARSE dns",
    "PARSE tls",
    "PARSE quic",
    "PARSE packet PROCESS (group-count: group=src_ip, w=1s)",
];
const WORKERS: [usize; 4] = [1, 2, 3, 8];
const RUNS: usize = 2;
/// Larger captures are left out.
const BYTES_MAX: u64 = 1 << 20;

#[test]
#[ignore = "takes many minutes"]
fn every_form_with_every_number_of_workers() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let mut all = captures(&root, EVERYWHERE);
    if let Some(folder) = std::env::var_os("NETALYTICS_INVARIANCE") {
        let more = Path::new(&folder).read_dir().expect("a folder");
        all.extend(more.map(|entry| entry.expect("a file").path()));
    }
    all.retain(|capture| capture.metadata().is_ok_and(|file| file.len() <= BYTES_MAX));
    all.sort();
    let mut compared = BTreeMap::<String, usize>::new();
    let mut different = Vec::new();
    for capture in &all {
        for (form, workers, query) in differing(capture, &mut compared) {
            different.push(format!(
                "{query}, {form}, {workers} workers, {}",
                capture.display()
            ));
        }
    }
    let runs: usize = compared.values().sum();
    println!(
        "{} captures, {runs} comparisons, {} differ: {compared:?}",
        all.len(),
        different.len()
    );
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// The runs over a capture that differ from the first one.
fn differing(
    capture: &Path,
    compared: &mut BTreeMap<String, usize>,
) -> Vec<(String, usize, &'static str)> {
    let forms = Forms::of(capture);
    let chosen = |form: &str| !form.contains("zstd") && !form.contains(',');
    let mut different = Vec::new();
    for query in QUERIES {
        let expected = run(forms.all()[0].1(), query, 1);
        for (form, open) in forms.all().into_iter().filter(|(form, _)| chosen(form)) {
            for workers in WORKERS {
                for _ in 0..RUNS {
                    *compared.entry(form.clone()).or_default() += 1;
                    if run(open(), query, workers) != expected {
                        different.push((form.clone(), workers, query));
                    }
                }
            }
        }
    }
    different
}
