//! Tuples as results, for queries without processors. Without ORDER BY they become rows on arrival and are not stored
//! as records; with ORDER BY, after all have arrived.

use collect::WorkerReport;
use plan::Plan;
use stream::{EngineSet, TupleProjection};
use tuple::Batch;

use crate::job::engine_config::engine_config;

/// Time at which tuples become rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitTime {
    /// On arrival.
    AtOnce,
    /// After all have arrived, sorted as requested.
    AtTheEnd,
}

/// See the module documentation.
pub struct TupleResults {
    /// Engines of the dataflow; used only for the schema of tuples.
    pub engines: EngineSet,
    /// Displayed columns.
    shown: TupleProjection,
    /// Time at which tuples become rows.
    pub when: EmitTime,
    plan: std::sync::Arc<Plan>,
    bytes_max: usize,
}

impl TupleResults {
    /// `kept`: number of rows stored so far.
    pub fn new(plan: &std::sync::Arc<Plan>, kept: u64, bytes_max: usize) -> TupleResults {
        let engines = EngineSet::new(
            std::slice::from_ref(&plan.dataflow),
            &engine_config(plan, bytes_max),
        );
        let when = if plan.dataflow.rows.order.is_empty() {
            EmitTime::AtOnce
        } else {
            EmitTime::AtTheEnd
        };
        let shown = TupleProjection::new(&plan.dataflow, engines.first(), bytes_max);
        let mut tuples = TupleResults {
            engines,
            shown,
            when,
            plan: plan.clone(),
            bytes_max,
        };
        if when == EmitTime::AtOnce {
            tuples.begin_at(kept);
        }
        tuples
    }

    /// Sets the number of stored rows, which count toward LIMIT.
    pub fn begin_at(&mut self, kept: u64) {
        let mut dataflow = self.plan.dataflow.clone();
        dataflow.rows.rows_max = dataflow.rows.rows_max.map(|max| max.saturating_sub(kept));
        self.shown = TupleProjection::new(&dataflow, self.engines.first(), self.bytes_max);
    }

    /// Displayed columns.
    pub fn shown(&self) -> &TupleProjection {
        &self.shown
    }

    /// Rows of a report.
    pub fn take(&mut self, report: &WorkerReport) -> Vec<Batch> {
        report
            .part
            .rows
            .iter()
            .filter_map(|batch| self.shown.take(batch))
            .collect()
    }

    /// Sorted rows, after all tuples have arrived.
    pub fn finish(&mut self) -> Vec<Batch> {
        let mut rows = Vec::new();
        self.shown.finish(|batch| rows.push(batch));
        rows
    }
}
