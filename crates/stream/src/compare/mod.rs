//! Compares two periods: the results of each group in both, and the differences that exceed noise.
//!
//! Results are computed by the engine, separately for each period. Noise is estimated from the periods themselves:
//! each is divided into [`SLICES`] equal slices, and their differences show the variation without change, including
//! bursts and correlated load. The variance is at least that of independent tuples, so that a few slices with few
//! tuples do not seem stable. See `judge` for each kind of number.

mod difference_test;
mod interval;
mod measure;
mod period_engine;
mod rows;
#[cfg(test)]
mod tests;

use plan::{Dataflow, TimeBounds};
use tuple::Batch;

use crate::EngineConfig;
pub use measure::{GROUPS_JUDGED_MAX, SLICES};
use period_engine::PeriodEngine;
pub use rows::{COLUMNS_EACH, ComparedResult};

/// One of the two periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonSide {
    /// The requested period.
    Own,
    /// The period it is compared with.
    Baseline,
}

/// A running comparison.
pub struct PeriodComparison {
    dataflow: Dataflow,
    own: PeriodEngine,
    baseline: PeriodEngine,
    /// Confidence level of a difference, for example 0.95.
    confidence: f64,
}

/// The reason that the results cannot be compared; `None` if they can.
#[must_use]
pub fn refused(dataflow: &Dataflow) -> Option<&'static str> {
    let any = |is_so: fn(&plan::Pipeline) -> bool| dataflow.pipelines.iter().any(is_so);
    if dataflow.pipelines.is_empty() {
        Some("a comparison needs results, and a query without PROCESS has only tuples")
    } else if any(|p| p.window.is_some()) {
        Some("a comparison uses whole periods: omit w=")
    } else if any(|p| p.profile.is_some()) {
        Some(
            "a workload profile is a report, which cannot be compared: compare its values with other processors",
        )
    } else if any(|p| p.aggregates.iter().any(|a| a.aggregate.is_distribution())) {
        Some("distributions cannot be compared: use quantiles")
    } else {
        None
    }
}

impl PeriodComparison {
    /// Creates a comparison of the results of `dataflow`, for which [`refused`] must return `None`. Both periods must
    /// be bounded.
    #[must_use]
    pub fn new(
        dataflow: &Dataflow,
        config: &EngineConfig,
        own: TimeBounds,
        baseline: TimeBounds,
        confidence: f64,
    ) -> PeriodComparison {
        let dataflow = crate::flat(dataflow);
        let mut unchosen = dataflow.clone();
        for pipeline in &mut unchosen.pipelines {
            pipeline.top_k = None;
            pipeline.selection = plan::ResultSelection::default();
        }
        let config = EngineConfig {
            window_bytes_max: config.window_bytes_max / 2,
            ..config.clone()
        };
        PeriodComparison {
            own: PeriodEngine::new(&dataflow, &config, own),
            baseline: PeriodEngine::new(&unchosen, &config, baseline),
            dataflow,
            confidence,
        }
    }

    /// Processes tuples of the dataflow returned by [`Dataflow::tuples`]. Tuples outside the period are skipped.
    pub fn push(&mut self, side: ComparisonSide, batch: &Batch) {
        match side {
            ComparisonSide::Own => self.own.push(batch),
            ComparisonSide::Baseline => self.baseline.push(batch),
        }
    }

    /// Descriptions of the comparison's results, by pipeline.
    #[must_use]
    pub fn results(&self) -> Vec<ComparedResult> {
        let schema = |i| self.own.result_schema(i);
        let pipelines = self.dataflow.pipelines.iter().enumerate();
        pipelines
            .map(|(i, pipeline)| ComparedResult::new(pipeline, schema(i)))
            .collect()
    }

    /// Emits the comparison rows, by pipeline.
    pub fn finish(mut self, out: &mut dyn FnMut(usize, Batch)) {
        let results = self.results();
        let measures = self.own.measures.clone();
        let spans = [self.own.seconds(), self.baseline.seconds()];
        let own = self.own.finish();
        let baseline = self.baseline.finish();
        for (i, ((compared, own), baseline)) in results.iter().zip(own).zip(baseline).enumerate() {
            let judge = difference_test::DifferenceTest::new(
                &own.slices,
                &baseline.slices,
                spans,
                self.confidence,
            );
            compared.write(&own, &baseline, &measures[i], &judge, &mut |batch| {
                out(i, batch)
            });
        }
    }
}
