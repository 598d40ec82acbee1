//! Processes a capture file through the complete program: query, plan, job.

use std::path::Path;
use std::time::Duration;

use monitor::job::{JobConfig, MonitorOutcome};
use monitor::{JobInput, MonitorJob, MonitorProgress};

use crate::ObservedTuple;

/// The tuples of `PARSE parser` for a file, and the end of the job.
///
/// # Panics
/// If the parser does not exist, or no thread can be started.
#[must_use]
pub fn observe(path: &Path, parser: &str, workers: usize) -> (Vec<ObservedTuple>, MonitorOutcome) {
    let query = format!("PARSE {parser}");
    let query = query::check(&query, &parsers::registry::schemas(), &()).expect("a sound query");
    let input = JobInput::Shared(capture::open(&[path.to_owned()]), workers);
    let mut job =
        MonitorJob::start(&planner::lower(&query), &JobConfig::default(), input).expect("threads");
    let mut out = Vec::new();
    while job.next(Duration::from_secs(60), &mut out) == MonitorProgress::Going {}
    let told = out
        .iter()
        .flat_map(|output| ObservedTuple::of(&output.batch))
        .collect();
    (told, job.end())
}
