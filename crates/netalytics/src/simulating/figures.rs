//! Figures 7 and 8 of the NetAlytics paper from the points of a study.

use planner::placement::Strategy;
use planner::simulate::{Figure, Point, Study};

use super::plot::{Line, Picture, Stroke};

/// The figures with their file names.
pub fn all(study: &Study, points: &[Point]) -> Vec<(&'static str, Picture)> {
    let bandwidth = |title: &str, plain: fn(&Point) -> Figure, weighted: fn(&Point) -> Figure| {
        let lines = |strategy: &Strategy| {
            let [a, b, c] = study.weights.0;
            let weights = format!("{}, weights {a}, {b}, {c}", strategy.name());
            [
                line(*strategy, strategy.name().to_owned(), Stroke::Solid, points, plain),
                line(*strategy, weights, Stroke::Dashed, points, weighted),
            ]
        };
        picture(
            title,
            "extra bandwidth, % of the workload",
            study.strategies.iter().flat_map(lines).collect(),
        )
    };
    let processes = |strategy: &Strategy| {
        line(*strategy, strategy.name().to_owned(), Stroke::Solid, points, |point| point.processes)
    };
    vec![
        (
            "figure-7.svg",
            bandwidth("Network cost: monitors to aggregators", |point| point.extra, |point| point.weighted),
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

fn picture(title: &str, y: &str, lines: Vec<Line>) -> Picture {
    Picture { title: title.to_owned(), x: "flows monitored, thousands".to_owned(), y: y.to_owned(), lines }
}

fn line(
    strategy: Strategy,
    name: String,
    stroke: Stroke,
    points: &[Point],
    figure: impl Fn(&Point) -> Figure,
) -> Line {
    let of = points.iter().filter(|point| point.strategy == strategy);
    let at = |point: &Point| {
        let Figure { mean, deviation } = figure(point);
        (f64::from(point.monitored) / 1000.0, mean, deviation)
    };
    Line { name, colour: colour(strategy), stroke, points: of.map(at).collect() }
}

fn colour(strategy: Strategy) -> (u8, u8, u8) {
    match strategy {
        Strategy::LocalRandom => (0x9a, 0xa0, 0xa6),
        Strategy::NetalyticsNode => (0xc8, 0x55, 0x3d),
        Strategy::NetalyticsNetwork(_) => (0x4c, 0x78, 0xa8),
        Strategy::PackedNode => (0x0b, 0x6e, 0x4f),
        Strategy::PackedNetwork => (0xb0, 0x8a, 0x1e),
    }
}
