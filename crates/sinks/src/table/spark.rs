//! A distribution in one cell: `▁▂▅█▃▁ 120 µs – 4.30 ms`.

use tuple::Unit;

use crate::units;

/// Characters of a sparkline.
const CELLS: usize = 16;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The line for the buckets of a `hist` or `cdf` column, `[[upper_bound, count or share], …]` ascending; the text
/// itself when it is something else.
#[must_use]
pub fn sparkline(json: &str, unit: Unit, cumulative: bool) -> String {
    match serde_json::from_str::<Vec<(f64, f64)>>(json) {
        Ok(buckets) if !buckets.is_empty() => draw(&buckets, unit, cumulative),
        _ => json.to_owned(),
    }
}

fn draw(buckets: &[(f64, f64)], unit: Unit, cumulative: bool) -> String {
    let (low, high) = (buckets[0].0, buckets[buckets.len() - 1].0);
    let positive = buckets.iter().map(|b| b.0).find(|bound| *bound > 0.0).unwrap_or(high);
    let heights = if cumulative { shares(buckets, positive, high) } else { counts(buckets, positive, high) };
    let tallest = heights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let bars: String = heights.iter().map(|h| bar(h / tallest)).collect();
    match low == high {
        true => format!("█ {}", units::number(unit, low)),
        false => format!("{bars} {} – {}", units::number(unit, low), units::number(unit, high)),
    }
}

/// The counts of the buckets that fall into each cell.
fn counts(buckets: &[(f64, f64)], low: f64, high: f64) -> [f64; CELLS] {
    let mut cells = [0.0; CELLS];
    for (bound, count) in buckets {
        cells[cell_of(*bound, low, high)] += count;
    }
    cells
}

/// The share reached by the end of each cell.
fn shares(buckets: &[(f64, f64)], low: f64, high: f64) -> [f64; CELLS] {
    let mut cells = [0.0; CELLS];
    for (bound, share) in buckets {
        cells[cell_of(*bound, low, high)] = *share;
    }
    for i in 1..CELLS {
        cells[i] = cells[i].max(cells[i - 1]);
    }
    cells
}

/// Cells are equally wide on a logarithmic scale, as the buckets are, from `low` on; what is below is in the first.
fn cell_of(bound: f64, low: f64, high: f64) -> usize {
    if bound <= low || low <= 0.0 {
        return 0;
    }
    let share = (bound / low).ln() / (high / low).ln();
    ((share * CELLS as f64) as usize).min(CELLS - 1)
}

fn bar(height: f64) -> char {
    if height <= 0.0 { ' ' } else { BARS[((height * 8.0).ceil() as usize).clamp(1, 8) - 1] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, cumulative: bool, expected: &str) {
        assert_eq!(sparkline(json, Unit::Nanoseconds, cumulative), expected);
    }

    #[test]
    fn shapes() {
        check("[[1000,1],[10000,8],[100000,4],[1000000,1]]", false, "▁    █    ▄    ▁ 1.00 µs – 1.00 ms");
        check("[[1000,0.25],[10000,0.5],[1000000,1.0]]", true, "▂▂▂▂▂▄▄▄▄▄▄▄▄▄▄█ 1.00 µs – 1.00 ms");
        check("[[5000000,3]]", false, "█ 5.00 ms");
        check("[[-5,1],[0,1],[10,2],[100,4]]", false, "█              █ -5 ns – 100 ns");
        check("[[-5,1],[-2,1]]", false, "█                -5 ns – -2 ns");
        check("[]", false, "[]");
        check("{\"a\":1}", false, "{\"a\":1}");
    }
}
