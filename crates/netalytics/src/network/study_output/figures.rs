//! Figures 7 and 8 of the NetAlytics paper from the points of a study.

use planner::placement::PlacementStrategy;
use planner::simulate::{MeanDeviation, PlacementStudy, StudyPoint};

use super::line_plot::{LinePlot, LineStroke, PlotLine};

/// The figures with their file names.
pub fn all(study: &PlacementStudy, points: &[StudyPoint]) -> Vec<(&'static str, LinePlot)> {
    let bandwidth = |title: &str,
                     plain: fn(&StudyPoint) -> MeanDeviation,
                     weighted: fn(&StudyPoint) -> MeanDeviation| {
        let lines = |strategy: &PlacementStrategy| {
            let [a, b, c] = study.weights.0;
            let weights = format!("{}, weights {a}, {b}, {c}", strategy.name());
            [
                line(
                    *strategy,
                    strategy.name().to_owned(),
                    LineStroke::Solid,
                    points,
                    plain,
                ),
                line(*strategy, weights, LineStroke::Dashed, points, weighted),
            ]
        };
        picture(
            title,
            "extra bandwidth, % of the workload",
            study.strategies.iter().flat_map(lines).collect(),
        )
    };
    let processes = |strategy: &PlacementStrategy| {
        line(
            *strategy,
            strategy.name().to_owned(),
            LineStroke::Solid,
            points,
            |point| point.processes,
        )
    };
    vec![
        (
            "figure-7.svg",
            bandwidth(
                "Network cost: monitors to aggregators",
                |point| point.extra,
                |point| point.weighted,
            ),
        ),
        (
            "figure-7-all.svg",
            bandwidth(
                "Network cost: monitors to aggregators to processors",
                |point| point.extra_all,
                |point| point.weighted_all,
            ),
        ),
        (
            "figure-8.svg",
            picture(
                "Resource cost: monitors, aggregators and processors",
                "processes",
                study.strategies.iter().map(processes).collect(),
            ),
        ),
    ]
}

fn picture(title: &str, y: &str, lines: Vec<PlotLine>) -> LinePlot {
    LinePlot {
        title: title.to_owned(),
        x: "flows monitored, thousands".to_owned(),
        y: y.to_owned(),
        lines,
    }
}

fn line(
    strategy: PlacementStrategy,
    name: String,
    stroke: LineStroke,
    points: &[StudyPoint],
    figure: impl Fn(&StudyPoint) -> MeanDeviation,
) -> PlotLine {
    let of = points.iter().filter(|point| point.strategy == strategy);
    let at = |point: &StudyPoint| {
        let MeanDeviation { mean, deviation } = figure(point);
        (f64::from(point.monitored) / 1000.0, mean, deviation)
    };
    PlotLine {
        name,
        color: color(strategy),
        stroke,
        points: of.map(at).collect(),
    }
}

fn color(strategy: PlacementStrategy) -> (u8, u8, u8) {
    match strategy {
        PlacementStrategy::LocalRandom => (0x9a, 0xa0, 0xa6),
        PlacementStrategy::NetalyticsNode => (0xc8, 0x55, 0x3d),
        PlacementStrategy::NetalyticsNetwork(_) => (0x4c, 0x78, 0xa8),
        PlacementStrategy::PackedNode => (0x0b, 0x6e, 0x4f),
        PlacementStrategy::PackedNetwork => (0xb0, 0x8a, 0x1e),
    }
}
