//! Summary of runs with several seeds: mean and standard deviation of each figure.

use super::study::{Run, Study};
use crate::placement::Strategy;
use crate::topology::Weights;

/// Mean and standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of a single run; 0 for only one run.
    pub deviation: f64,
}

/// Cost of a strategy at a number of monitored flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The strategy.
    pub strategy: Strategy,
    /// Number of monitored flows.
    pub monitored: u32,
    /// Number of runs.
    pub runs: usize,
    /// Additional bandwidth from monitors to aggregators, in percent of the workload: rate times number of links.
    pub extra: Figure,
    /// The same with links weighted.
    pub weighted: Figure,
    /// Additional bandwidth from monitors through aggregators to processors.
    pub extra_all: Figure,
    /// The same with links weighted.
    pub weighted_all: Figure,
    /// Monitors.
    pub monitors: Figure,
    /// Aggregators.
    pub aggregators: Figure,
    /// Processors.
    pub processors: Figure,
    /// All processes.
    pub processes: Figure,
    /// Flows without a monitor, and streams without an engine.
    pub left_out: Figure,
}

/// Each strategy with each number of flows, in the order of the study.
#[must_use]
pub fn summarize(study: &Study, runs: &[Run]) -> Vec<Point> {
    let mut points = Vec::new();
    for strategy in &study.strategies {
        for monitored in &study.monitored {
            let of = |run: &&Run| run.strategy == *strategy && run.monitored == *monitored;
            let runs: Vec<&Run> = runs.iter().filter(of).collect();
            if !runs.is_empty() {
                points.push(point(study, &runs));
            }
        }
    }
    points
}

fn point(study: &Study, runs: &[&Run]) -> Point {
    let figure = |of: &dyn Fn(&Run) -> f64| Figure::of(&runs.iter().map(|run| of(run)).collect::<Vec<_>>());
    let share = |weights: Weights, legs: usize| {
        figure(&|run| {
            let legs = &[run.cost.extracted, run.cost.analysed][..legs];
            100.0 * legs.iter().map(|leg| leg.weighed(weights)).sum::<f64>() / study.workload.mbps
        })
    };
    let left_out =
        |run: &Run| f64::from(run.uncovered.too_big + run.uncovered.no_room) + run.unprocessed as f64;
    Point {
        strategy: runs[0].strategy,
        monitored: runs[0].monitored,
        runs: runs.len(),
        extra: share(Weights::HOPS, 1),
        weighted: share(study.weights, 1),
        extra_all: share(Weights::HOPS, 2),
        weighted_all: share(study.weights, 2),
        monitors: figure(&|run| run.cost.monitors as f64),
        aggregators: figure(&|run| run.cost.aggregators as f64),
        processors: figure(&|run| run.cost.processors as f64),
        processes: figure(&|run| run.cost.processes() as f64),
        left_out: figure(&left_out),
    }
}

impl Figure {
    /// Computes the figure of some numbers.
    #[must_use]
    pub fn of(numbers: &[f64]) -> Figure {
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count.max(1.0);
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        Figure { mean, deviation: (squares / (count - 1.0).max(1.0)).sqrt() }
    }
}
