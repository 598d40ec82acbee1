//! Bar chart of a ranking, or of one number per group, with intervals if available.

use sinks::units;
use tuple::Unit;

use super::svg::{SvgCanvas, WIDTH, at_axis, ticks};

const ROW: f64 = 24.0;
const LEFT: f64 = 330.0;
const RIGHT: f64 = 100.0;
const TOP: f64 = 8.0;
const NAME_CHARS: usize = 46;

/// A bar.
pub struct ChartBar {
    /// Label.
    pub name: String,
    /// Value.
    pub value: f64,
    /// Interval; `None` as upper bound: unbounded.
    pub interval: Option<(f64, Option<f64>)>,
}

/// Draws bars in this order.
#[must_use]
pub fn draw(bars: &[ChartBar], unit: Unit, label: &str) -> String {
    let ends = |bar: &ChartBar| {
        bar.interval
            .and_then(|(_, high)| high)
            .map_or(bar.value, |high| high.max(bar.value))
    };
    let low = bars.iter().map(|bar| bar.value).fold(0.0, f64::min);
    let high = bars.iter().map(ends).fold(low, f64::max);
    let high = if high > low { high } else { low + 1.0 };
    let x = |value: f64| LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    let bottom = TOP + bars.len() as f64 * ROW;
    let mut svg = SvgCanvas::new(bottom + 28.0, label);
    for tick in ticks(low, high) {
        svg.line([x(tick), TOP], [x(tick), bottom], "grid");
        svg.text(
            [x(tick), bottom + 18.0],
            "middle",
            "",
            &at_axis(unit, tick),
            14,
        );
    }
    for (nth, bar) in bars.iter().enumerate() {
        let y = TOP + nth as f64 * ROW;
        let [from, to] = if bar.value < 0.0 {
            [x(bar.value), x(0.0)]
        } else {
            [x(0.0), x(bar.value)]
        };
        svg.text(
            [LEFT - 10.0, y + 16.0],
            "end",
            "name",
            &bar.name,
            NAME_CHARS,
        );
        svg.rect(
            [from, y + 4.0],
            [(to - from).max(1.0), ROW - 8.0],
            "class=\"bar k0\"",
        );
        let mut behind = to;
        if let Some((least, most)) = bar.interval {
            let end = most.map_or(WIDTH - RIGHT, x);
            behind = behind.max(end);
            svg.line([x(least), y + ROW / 2.0], [end, y + ROW / 2.0], "whisker");
            svg.line([x(least), y + 8.0], [x(least), y + ROW - 8.0], "whisker");
            if most.is_some() {
                svg.line([end, y + 8.0], [end, y + ROW - 8.0], "whisker");
            }
        }
        svg.text(
            [behind + 8.0, y + 16.0],
            "start",
            "name",
            &units::number(unit, bar.value),
            14,
        );
    }
    svg.end()
}
