//! Data of agents: the tuples of a capture, divided by flow, in reports of equal periods.

use std::path::Path;
use std::sync::Arc;

use capture::live::StopSignal;
use collect::{ReportPart, WorkerReport};
use monitor::job::JobConfig;
use monitor::{JobInput, SharedTaps};
use plan::{Plan, RawRows, TapTable};
use runner::QueryRun;
use sinks::Sink;
use stream::{EngineSet, LossCount};
use tuple::{Batch, common};
use wire::Timestamp;

/// Plan of a query.
pub fn plan_of(query: &str) -> Plan {
    let schemas = parsers::registry::schemas();
    planner::lower(&query::check(query, &schemas, &()).expect("a query"))
}

/// Tuples that monitors would produce for `plan` over a capture; `table`: tap table.
pub fn tuples(plan: &Plan, capture: &Path, table: Option<TapTable>) -> Vec<Batch> {
    let mut raw = plan.clone();
    raw.dataflow.pipelines.clear();
    raw.dataflow.rows = RawRows::default();
    // Columns for the division by flow and period.
    for columns in [
        &mut raw.monitor.parsers[0].columns,
        &mut raw.dataflow.inputs[0].columns,
    ] {
        columns.extend([common::ID, common::TS_END]);
        columns.sort();
        columns.dedup();
    }
    let input = JobInput::Shared(
        capture::open_until(&[capture.to_owned()], &StopSignal::default()),
        1,
    );
    let mut config = JobConfig::default();
    config.monitor.taps = table.map(SharedTaps::new);
    let mut run = QueryRun::start(&raw, &config, input).expect("threads");
    let mut all = All(Vec::new());
    run.go(&mut all, &mut ())
        .expect("writing to memory cannot fail");
    all.0
}

struct All(Vec<Batch>);

impl Sink for All {
    fn write(&mut self, _: usize, batch: &Batch) -> std::io::Result<()> {
        self.0.push(batch.clone());
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Selected rows of a batch.
fn chosen(batch: &Batch, is_chosen: impl Fn(usize) -> bool) -> Batch {
    let rows: Vec<bool> = (0..batch.rows()).map(is_chosen).collect();
    let mask = arrow_array::BooleanArray::from(rows);
    let column = |id| {
        batch
            .column(id)
            .map(|array| arrow_select::filter::filter(array, &mask).expect("columns"))
    };
    let columns = batch.schema().ids().map(column).collect();
    Batch::new(batch.schema().clone(), mask.true_count(), columns)
}

/// Watermark and encoded report.
pub type Said = (i64, Vec<u8>);

/// Reports of agent `n` of `agents`: tuples of its flows, per `step_ns` of event time.
pub fn reports(plan: &Plan, tuples: &[Batch], (n, agents): (u64, u64), step_ns: i64) -> Vec<Said> {
    let engines = || {
        let config = stream::EngineConfig::default();
        match plan.dataflow.pipelines.len() {
            0 => EngineSet::new(std::slice::from_ref(&plan.dataflow), &config),
            _ => EngineSet::worker(std::slice::from_ref(&plan.dataflow), &config),
        }
    };
    let mut engines = engines();
    let times = |batch: &Batch| batch.i64(common::TS_END).values().to_vec();
    let all: Vec<i64> = tuples.iter().flat_map(times).collect();
    let (Some(first), Some(last)) = (all.iter().min(), all.iter().max()) else {
        return vec![say(0, ReportPart::default())];
    };
    let mine = |id: u64| (id ^ id >> 17) % agents == n;
    let mut said = Vec::new();
    let mut from = *first;
    let is_windows = !plan.dataflow.pipelines.is_empty();
    while from <= *last {
        let to = from + step_ns;
        let mut part = ReportPart::default();
        for batch in tuples {
            let ids = batch.u64(common::ID);
            let ends = batch.i64(common::TS_END);
            let rows = chosen(batch, |row| {
                mine(ids.value(row)) && (from..to).contains(&ends.value(row))
            });
            let mut out = Vec::new();
            engines.push(0, &rows, &mut out);
            out.into_iter()
                .filter(|output| output.batch.rows() > 0)
                .for_each(|output| part.add_rows(output.batch));
        }
        if is_windows {
            engines
                .detach(to)
                .into_iter()
                .for_each(|windows| part.add_windows(windows));
            engines
                .detach_open()
                .into_iter()
                .for_each(|windows| part.add_windows(windows));
        }
        said.push(say(to, part));
        from = to;
    }
    if is_windows {
        let mut part = ReportPart::default();
        part.add_windows(engines.detach_all());
        said.push(say(from, part));
    }
    said
}

/// A report up to this event time.
pub fn say(watermark_ns: i64, part: ReportPart) -> Said {
    let loss = LossCount::default();
    let watermark = Timestamp(watermark_ns);
    (
        watermark_ns,
        WorkerReport {
            epoch: 0,
            watermark,
            part,
            loss,
            lost: None,
            limited: None,
            open: None,
        }
        .encode(),
    )
}

/// Reports of every agent.
pub fn feeds(query: &str, capture: &Path, agents: u64, step_ns: i64) -> Vec<Arc<Vec<Said>>> {
    let plan = plan_of(query);
    let tuples = tuples(&plan, capture, None);
    (0..agents)
        .map(|n| Arc::new(reports(&plan, &tuples, (n, agents), step_ns)))
        .collect()
}
