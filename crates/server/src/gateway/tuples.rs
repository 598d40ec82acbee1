//! Tuples themselves, of a query without processors: they are the result. In the order in which they come they are rows at
//! once, and need not be kept before; ORDER BY has to see all of them first.

use collect::Report;
use plan::Plan;
use stream::{Engines, Shown};
use tuple::Batch;

use super::windows::config;

/// When tuples become rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// As they come.
    AtOnce,
    /// When all have come, in an order that was asked for.
    AtTheEnd,
}

/// See the module's text.
pub struct Tuples {
    /// Of the dataflow; it computes nothing here, and knows what tuples look like.
    pub engines: Engines,
    /// What is shown of them.
    shown: Shown,
    /// When they become rows.
    pub when: When,
    plan: std::sync::Arc<Plan>,
    bytes_max: usize,
}

impl Tuples {
    /// `kept`: how many rows there are already.
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

    /// So many rows are there: LIMIT counts them.
    pub fn begin_at(&mut self, kept: u64) {
        let mut dataflow = self.plan.dataflow.clone();
        dataflow.rows.rows_max = dataflow.rows.rows_max.map(|max| max.saturating_sub(kept));
        self.shown = Shown::new(&dataflow, self.engines.first(), self.bytes_max);
    }

    /// What is shown.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Rows that a report makes.
    pub fn take(&mut self, report: &Report) -> Vec<Batch> {
        report.part.rows.iter().filter_map(|batch| self.shown.take(batch)).collect()
    }

    /// Rows when all have come.
    pub fn finish(&mut self) -> Vec<Batch> {
        let mut rows = Vec::new();
        self.shown.finish(|batch| rows.push(batch));
        rows
    }
}
