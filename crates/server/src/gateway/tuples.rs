//! Tuples as results, for queries without processors. Without ORDER BY they become rows on arrival and are not stored
//! as records; with ORDER BY, after all have arrived.

use collect::Report;
use plan::Plan;
use stream::{Engines, Shown};
use tuple::Batch;

use super::windows::config;

/// Time at which tuples become rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// On arrival.
    AtOnce,
    /// After all have arrived, sorted as requested.
    AtTheEnd,
}

/// See the module documentation.
pub struct Tuples {
    /// Engines of the dataflow; used only for the schema of tuples.
    pub engines: Engines,
    /// Displayed columns.
    shown: Shown,
    /// Time at which tuples become rows.
    pub when: When,
    plan: std::sync::Arc<Plan>,
    bytes_max: usize,
}

impl Tuples {
    /// `kept`: number of rows stored so far.
    pub fn new(plan: &std::sync::Arc<Plan>, kept: u64, bytes_max: usize) -> Tuples {
        let engines = Engines::new(std::slice::from_ref(&plan.dataflow), &config(plan, bytes_max));
        let when = if plan.dataflow.rows.order.is_empty() { When::AtOnce } else { When::AtTheEnd };
        let shown = Shown::new(&plan.dataflow, engines.first(), bytes_max);
        let mut tuples = Tuples { engines, shown, when, plan: plan.clone(), bytes_max };
        if when == When::AtOnce {
            tuples.begin_at(kept);
        }
        tuples
    }

    /// Sets the number of stored rows, which count toward LIMIT.
    pub fn begin_at(&mut self, kept: u64) {
        let mut dataflow = self.plan.dataflow.clone();
        dataflow.rows.rows_max = dataflow.rows.rows_max.map(|max| max.saturating_sub(kept));
        self.shown = Shown::new(&dataflow, self.engines.first(), self.bytes_max);
    }

    /// Displayed columns.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Rows of a report.
    pub fn take(&mut self, report: &Report) -> Vec<Batch> {
        report.part.rows.iter().filter_map(|batch| self.shown.take(batch)).collect()
    }

    /// Sorted rows, after all tuples have arrived.
    pub fn finish(&mut self) -> Vec<Batch> {
        let mut rows = Vec::new();
        self.shown.finish(|batch| rows.push(batch));
        rows
    }
}
