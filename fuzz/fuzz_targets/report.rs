//! Arbitrary bytes as an uncompressed report, for engines of tuples and of windows, selected by the first byte. It is
//! rejected, or a collector takes it. Without compression, checksums do not hide edits.
#![no_main]

use std::sync::OnceLock;

use collect::{Collector, IgnoreCoverage, LaneId};
use libfuzzer_sys::fuzz_target;
use plan::Plan;
use stream::{EngineConfig, EngineOutput, EngineSet};

const QUERIES: [&str; 3] = [
    "PARSE http",
    "PARSE http PROCESS (top-k: k=3, w=1s)",
    "PARSE tcp_conn_time, http PROCESS (diff-group: w=1s), (count)",
];

fn plans() -> &'static [Plan] {
    static PLANS: OnceLock<Vec<Plan>> = OnceLock::new();
    let plan = |text: &&str| {
        let checked = query::check(
            text,
            &parsers::registry::schemas(),
            &query::HostTable::default(),
        );
        planner::lower(&checked.expect("a query"))
    };
    PLANS.get_or_init(|| QUERIES.iter().map(plan).collect())
}

fuzz_target!(|input: &[u8]| {
    let Some((which, report)) = input.split_first() else {
        return;
    };
    let plan = &plans()[usize::from(*which) % QUERIES.len()];
    let engines = EngineSet::new(
        std::slice::from_ref(&plan.dataflow),
        &EngineConfig::default(),
    );
    let mut collector = Collector::of_lanes(engines, 1 << 20);
    let Ok(report) = collector.decode(report) else {
        return;
    };
    let again = report.encode();
    assert!(
        collector.decode(&again).is_ok(),
        "what was read is written so that it can be read"
    );
    let mut rows: Vec<EngineOutput> = Vec::new();
    collector.take(LaneId(0), report, &mut IgnoreCoverage(&mut rows));
    collector.end(&mut IgnoreCoverage(&mut rows));
});
