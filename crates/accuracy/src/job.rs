//! Processes a capture file through the complete program: query, plan, job.

use std::path::Path;
use std::time::Duration;

use monitor::job::{Config, Ended};
use monitor::{Input, Job, Step};

use crate::Observed;

/// The tuples of `PARSE parser` for a file, and the end of the job.
///
/// # Panics
/// If the parser does not exist, or no thread can be started.
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
