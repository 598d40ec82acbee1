//! A value of several groups over time, each with its 95 % band if both ends are known. A missing window is a gap in
//! the line.

use sinks::DisplayZone;
use tuple::Unit;

use super::svg::{SvgCanvas, WIDTH, at_axis, class, clock, ticks, times};

const HEIGHT: f64 = 280.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 44.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 28.0;

/// Values of a group over time.
pub struct ChartSeries {
    /// Label.
    pub name: String,
    /// Points by window start.
    pub points: Vec<SeriesPoint>,
}

/// Value of a window.
#[derive(Clone, Copy)]
pub struct SeriesPoint {
    /// Start of the window, in ns.
    pub at_ns: i64,
    /// Value.
    pub value: f64,
    /// Interval; `None` as upper bound: unbounded.
    pub band: Option<(f64, Option<f64>)>,
}

/// Draws the lines; windows start every `slide_ns`.
#[must_use]
pub fn draw(
    courses: &[ChartSeries],
    unit: Unit,
    slide_ns: i64,
    zone: &DisplayZone,
    label: &str,
) -> String {
    let points = || courses.iter().flat_map(|course| &course.points);
    let from = points().map(|point| point.at_ns).min().unwrap_or(0);
    let to = points()
        .map(|point| point.at_ns)
        .max()
        .unwrap_or(0)
        .max(from.saturating_add(slide_ns));
    let ends = |point: &SeriesPoint| {
        [
            Some(point.value),
            point.band.map(|(low, _)| low),
            point.band.and_then(|(_, high)| high),
        ]
    };
    let values = || points().flat_map(ends).flatten();
    let low = values().fold(0.0, f64::min);
    let high = values().fold(low, f64::max);
    let high = if high > low {
        low + (high - low) * 1.08
    } else {
        low + 1.0
    };
    let x = |ns: i64| {
        LEFT + (ns.saturating_sub(from)) as f64 / (to - from).max(1) as f64 * (WIDTH - LEFT - RIGHT)
    };
    let y = |value: f64| TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM);
    let mut svg = SvgCanvas::new(HEIGHT, label);
    for tick in ticks(low, high) {
        svg.line([LEFT, y(tick)], [WIDTH - RIGHT, y(tick)], "grid");
        svg.text(
            [LEFT - 8.0, y(tick) + 4.0],
            "end",
            "",
            &at_axis(unit, tick),
            14,
        );
    }
    let (all, digits) = times(from, to);
    for tick in all {
        svg.line([x(tick), TOP], [x(tick), HEIGHT - BOTTOM], "grid");
        svg.text(
            [x(tick), HEIGHT - 8.0],
            "middle",
            "",
            &clock(zone, tick, digits),
            20,
        );
    }
    for (nth, course) in courses.iter().enumerate() {
        let class = class(nth);
        for whole in course
            .points
            .chunk_by(|a, b| b.at_ns.saturating_sub(a.at_ns) <= slide_ns.saturating_mul(3) / 2)
        {
            let ends = |point: &SeriesPoint| {
                let (low, high) = point.band?;
                Some((x(point.at_ns), y(low), y(high?)))
            };
            for point in whole.iter().filter_map(ends) {
                svg.line(
                    [point.0, point.1],
                    [point.0, point.2],
                    &format!("band {class}"),
                );
            }
            for two in whole.windows(2) {
                if let (Some((x1, low1, high1)), Some((x2, low2, high2))) =
                    (ends(&two[0]), ends(&two[1]))
                {
                    let around = [[x1, low1], [x1, high1], [x2, high2], [x2, low2]];
                    let path = move_to(around.into_iter()) + "Z";
                    svg.path(&path, &format!("class=\"area {class}\""));
                }
            }
            match whole {
                [one] => svg.dot([x(one.at_ns), y(one.value)], &class),
                _ => {
                    let path = move_to(whole.iter().map(|point| [x(point.at_ns), y(point.value)]));
                    svg.path(&path, &format!("class=\"line {class}\""));
                }
            }
        }
    }
    svg.end()
}

/// SVG path through points.
pub fn move_to(points: impl Iterator<Item = [f64; 2]>) -> String {
    let step = |(nth, [x, y]): (usize, [f64; 2])| {
        format!("{}{x:.1} {y:.1}", if nth == 0 { 'M' } else { 'L' })
    };
    points.enumerate().map(step).collect()
}
