//! Summary of runs with several seeds: mean and standard deviation of each figure.

use super::study::{PlacementStudy, StudyRun};
use crate::placement::PlacementStrategy;
use crate::topology::LinkWeights;

/// Mean and standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeanDeviation {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of a single run; 0 for only one run.
    pub deviation: f64,
}

/// Cost of a strategy at a number of monitored flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StudyPoint {
    /// The strategy.
    pub strategy: PlacementStrategy,
    /// Number of monitored flows.
    pub monitored: u32,
    /// Number of runs.
    pub runs: usize,
    /// Additional bandwidth from monitors to aggregators, in percent of the workload: rate times number of links.
    pub extra: MeanDeviation,
    /// Additional bandwidth to aggregators, with links weighted.
    pub weighted: MeanDeviation,
    /// Additional bandwidth from monitors through aggregators to processors.
    pub extra_all: MeanDeviation,
    /// Additional bandwidth to processors, with links weighted.
    pub weighted_all: MeanDeviation,
    /// Monitors.
    pub monitors: MeanDeviation,
    /// Aggregators.
    pub aggregators: MeanDeviation,
    /// Processors.
    pub processors: MeanDeviation,
    /// All processes.
    pub processes: MeanDeviation,
    /// Flows without a monitor, and streams without an engine.
    pub left_out: MeanDeviation,
}

/// Each strategy with each number of flows, in the order of the study.
#[must_use]
pub fn summarize(study: &PlacementStudy, runs: &[StudyRun]) -> Vec<StudyPoint> {
    let mut points = Vec::new();
    for strategy in &study.strategies {
        for monitored in &study.monitored {
            let of = |run: &&StudyRun| run.strategy == *strategy && run.monitored == *monitored;
            let runs: Vec<&StudyRun> = runs.iter().filter(of).collect();
            if !runs.is_empty() {
                points.push(point(study, &runs));
            }
        }
    }
    points
}

fn point(study: &PlacementStudy, runs: &[&StudyRun]) -> StudyPoint {
    let figure = |of: &dyn Fn(&StudyRun) -> f64| {
        MeanDeviation::of(&runs.iter().map(|run| of(run)).collect::<Vec<_>>())
    };
    let share = |weights: LinkWeights, legs: usize| {
        figure(&|run| {
            let legs = &[run.cost.extracted, run.cost.analyzed][..legs];
            100.0 * legs.iter().map(|leg| leg.weighed(weights)).sum::<f64>() / study.workload.mbps
        })
    };
    let left_out = |run: &StudyRun| {
        f64::from(run.uncovered.too_big + run.uncovered.no_room) + run.unprocessed as f64
    };
    StudyPoint {
        strategy: runs[0].strategy,
        monitored: runs[0].monitored,
        runs: runs.len(),
        extra: share(LinkWeights::HOPS, 1),
        weighted: share(study.weights, 1),
        extra_all: share(LinkWeights::HOPS, 2),
        weighted_all: share(study.weights, 2),
        monitors: figure(&|run| run.cost.monitors as f64),
        aggregators: figure(&|run| run.cost.aggregators as f64),
        processors: figure(&|run| run.cost.processors as f64),
        processes: figure(&|run| run.cost.processes() as f64),
        left_out: figure(&left_out),
    }
}

impl MeanDeviation {
    /// Computes the figure of some numbers.
    #[must_use]
    pub fn of(numbers: &[f64]) -> MeanDeviation {
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count.max(1.0);
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        MeanDeviation {
            mean,
            deviation: (squares / (count - 1.0).max(1.0)).sqrt(),
        }
    }
}
