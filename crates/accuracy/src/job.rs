//! A capture file through the program's own path: query, plan, job.

use std::path::Path;
use std::time::Duration;

use monitor::job::{Config, Ended};
use monitor::{Input, Job, Step};

use crate::Observed;

/// The tuples of `PARSE parser` over a file, and how it ended.
///
/// # Panics
/// When there is no such parser, or the system has no more threads.
#[must_use]
pub fn observe(path: &Path, parser: &str, workers: usize) -> (Vec<Observed>, Ended) {
    let query = format!("PARSE {parser}");
    let query = query::check(&query, &parsers::registry::schemas(), &()).expect("a sound query");
    let input = Input::Shared(capture::open(&[path.to_owned()]), workers);
    let mut job = Job::start(&planner::lower(&query), &Config::default(), input).expect("threads");
    let mut out = Vec::new();
    while job.next(Duration::from_secs(60), &mut out) == Step::Going {}
    let told = out.iter().flat_map(|output| Observed::of(&output.batch)).collect();
    (told, job.end())
}
