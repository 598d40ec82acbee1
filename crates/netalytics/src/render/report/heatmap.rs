//! Heat map of a group's distribution per window: dark is few, bright is many. Bounds are equal in all windows, so no
//! values are rebinned.

use std::collections::BTreeMap;

use sinks::{DisplayZone, units};
use tuple::Unit;

use super::svg::{SvgCanvas, WIDTH, clock, log, times};

const HEIGHT: f64 = 300.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 44.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 28.0;
/// Width reserved for axis labels.
const LABEL: f64 = 88.0;
/// Rows per power of two.
const FINE: f64 = 4.0;
/// Maximum columns; with more windows, several share a column.
const COLUMNS_MAX: i64 = 240;

/// Windows by start, in ns, each with the number of values per bucket, given by its upper bound.
pub type HeatmapWindows = BTreeMap<i64, Vec<(f64, f64)>>;

/// Draws the heat map; windows start every `slide_ns`. The label states how many share a column.
#[must_use]
pub fn draw(
    windows: &HeatmapWindows,
    unit: Unit,
    slide_ns: i64,
    zone: &DisplayZone,
    label: &str,
) -> String {
    let from = windows.keys().next().copied().unwrap_or(0);
    let last = windows.keys().next_back().copied().unwrap_or(0);
    let slide = slide_ns.max(1);
    let all = last.saturating_sub(from) / slide + 1;
    let step = per_column(all);
    let columns = (all + per_column(all) - 1) / per_column(all);
    let mut cells: BTreeMap<(i64, i64), f64> = BTreeMap::new();
    for (start, buckets) in windows {
        for (bound, n) in buckets {
            *cells
                .entry((
                    (start - from) / slide / step,
                    (log(*bound) * FINE).floor() as i64,
                ))
                .or_default() += n;
        }
    }
    let least = cells.keys().map(|(_, bin)| *bin).min().unwrap_or(0);
    let most = cells.keys().map(|(_, bin)| *bin).max().unwrap_or(0);
    let peak = cells.values().copied().fold(f64::MIN_POSITIVE, f64::max);
    let width = ((WIDTH - LEFT - RIGHT) / columns as f64).min(36.0);
    let height = (HEIGHT - TOP - BOTTOM) / (most - least + 1) as f64;
    let mut svg = SvgCanvas::new(HEIGHT, label);
    for ((column, bin), n) in cells {
        let x = LEFT + column as f64 * width;
        let y = TOP + (most - bin) as f64 * height;
        let fill = color((1.0 + n).ln() / (1.0 + peak).ln().max(f64::MIN_POSITIVE));
        svg.rect(
            [x, y],
            [(width - 0.5).max(0.5), (height - 0.5).max(0.5)],
            &format!("fill=\"{fill}\""),
        );
    }
    let every = ((most - least + 1) as usize).div_ceil(9).max(1);
    for bin in (least..=most).rev().step_by(every) {
        let upper = 2_f64.powf((bin + 1) as f64 / FINE) - 1.0;
        let y = TOP + (most - bin) as f64 * height + 4.0;
        svg.text(
            [LEFT - 8.0, y],
            "end",
            "",
            &units::number(unit, two_digits(upper)),
            12,
        );
    }
    let end = from.saturating_add(slide.saturating_mul(step).saturating_mul(columns));
    let (ticks, digits) = times(from, end);
    let mut behind = f64::NEG_INFINITY;
    for tick in ticks {
        let x = LEFT + (tick - from) as f64 / slide.saturating_mul(step) as f64 * width;
        if x - behind > LABEL {
            svg.text(
                [x, HEIGHT - 8.0],
                "middle",
                "",
                &clock(zone, tick, digits),
                20,
            );
            behind = x;
        }
    }
    svg.end()
}

/// Number of windows per column.
#[must_use]
pub fn per_column(windows: i64) -> i64 {
    (windows + COLUMNS_MAX - 1) / COLUMNS_MAX
}

fn two_digits(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(value)
}

/// Color of the Cividis scale, from few to many, which is also monotonic in gray.
fn color(share: f64) -> String {
    const STOPS: [[f64; 3]; 5] = [
        [0.0, 32.0, 77.0],
        [60.0, 77.0, 110.0],
        [124.0, 123.0, 120.0],
        [188.0, 175.0, 111.0],
        [255.0, 234.0, 70.0],
    ];
    let at = share.clamp(0.0, 0.9999) * (STOPS.len() - 1) as f64;
    let a = STOPS[at as usize];
    let b = STOPS[at as usize + 1];
    let mix = |i: usize| (a[i] + (b[i] - a[i]) * at.fract()).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}
