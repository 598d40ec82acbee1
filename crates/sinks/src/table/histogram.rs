//! A `hist` or `cdf` of one row as a chart: a line per range of values, with its bounds in the value's unit, count,
//! share and bar.
//!
//! The engine's buckets are 1/64 apart; ranges end at round numbers and contain the buckets whose upper bounds are in
//! them.

use tuple::Unit;
use unicode_width::UnicodeWidthStr;

use super::spark::lying;
use super::text::pad;
use crate::units;

/// Approximate maximum of ranges per chart.
const BANDS_MAX: usize = 16;
/// Length of the longest bar.
const BAR_MAX: usize = 40;
const INDENT: usize = 2;

/// Meaning of the buckets' numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistogramKind {
    /// Number of values.
    Counts,
    /// Cumulative share.
    SharesUpTo,
}

/// Values above `low`, if given, up to `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct HistogramBand {
    low: Option<f64>,
    high: f64,
}

/// Lines of the chart of `[[upper bound, count or share], …]`, ascending; the unchanged text if it is malformed.
#[must_use]
pub fn chart(json: &str, unit: Unit, kind: HistogramKind, width: Option<usize>) -> Vec<String> {
    match serde_json::from_str::<Vec<(f64, f64)>>(json) {
        Ok(buckets) if !buckets.is_empty() => draw(&buckets, unit, kind, width),
        _ => vec![format!("  {}", super::text::escape(json))],
    }
}

fn draw(
    buckets: &[(f64, f64)],
    unit: Unit,
    kind: HistogramKind,
    width: Option<usize>,
) -> Vec<String> {
    let bands = bands(&buckets.iter().map(|b| b.0).collect::<Vec<_>>());
    let values: Vec<f64> = bands
        .iter()
        .map(|band| value(buckets, *band, kind))
        .collect();
    let number = |value: f64| units::number(unit, value);
    let all: f64 = if kind == HistogramKind::Counts {
        values.iter().sum()
    } else {
        1.0
    };
    let rows: Vec<[String; 4]> = bands
        .iter()
        .zip(&values)
        .map(|(band, value)| {
            let low = match (band.low, kind) {
                (Some(low), HistogramKind::Counts) => format!("{} –", number(low)),
                _ => "≤".to_owned(),
            };
            let count = if kind == HistogramKind::Counts {
                units::plain(*value)
            } else {
                String::new()
            };
            [
                low,
                number(band.high),
                count,
                units::percentage(value / all),
            ]
        })
        .collect();
    let widest = |i: usize| rows.iter().map(|row| row[i].width()).max().unwrap_or(0);
    let widths = [widest(0), widest(1), widest(2), widest(3)];
    let taken = INDENT + widths.iter().sum::<usize>() + 7;
    let room = width
        .map_or(BAR_MAX, |width| width.saturating_sub(taken))
        .clamp(1, BAR_MAX);
    let largest = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let line = |(row, value): (&[String; 4], &f64)| {
        let mut line = " ".repeat(INDENT);
        for (i, cell) in row.iter().enumerate().filter(|(i, _)| widths[*i] > 0) {
            line.push_str(["", " ", "  ", "  "][i]);
            pad(&mut line, cell, widths[i], true);
        }
        let line = line + "  " + &lying(value / largest, room);
        line.trim_end().to_owned()
    };
    rows.iter().zip(&values).map(line).collect()
}

/// Number of values in a range, or the cumulative share.
fn value(buckets: &[(f64, f64)], band: HistogramBand, kind: HistogramKind) -> f64 {
    let up_to_end = buckets.iter().take_while(|(bound, _)| *bound <= band.high);
    match kind {
        HistogramKind::Counts => {
            let inside = up_to_end.filter(|(bound, _)| band.low.is_none_or(|low| *bound > low));
            inside.fold(0.0, |sum, (_, count)| sum + count)
        }
        HistogramKind::SharesUpTo => up_to_end.last().map_or(0.0, |(_, share)| *share),
    }
}

/// Ranges for buckets with these upper bounds: between round numbers, on a linear or logarithmic scale by their spread.
fn bands(bounds: &[f64]) -> Vec<HistogramBand> {
    let positive: Vec<f64> = bounds
        .iter()
        .copied()
        .filter(|bound| *bound > 0.0)
        .collect();
    let mut bands = Vec::new();
    if let Some(low) = bounds.first().filter(|bound| **bound < 0.0) {
        bands.push(HistogramBand {
            low: Some(low - 1.0),
            high: 0.0,
        });
    } else if bounds[0] == 0.0 {
        bands.push(HistogramBand {
            low: None,
            high: 0.0,
        });
    }
    let (Some(&first), Some(&last)) = (positive.first(), positive.last()) else {
        return bands;
    };
    let is_whole = bounds.iter().all(|bound| bound.fract() == 0.0);
    let edges = if last / first < 4.0 {
        even(first, last, is_whole)
    } else {
        decades(first, last, is_whole)
    };
    bands.extend(edges.windows(2).map(|edge| HistogramBand {
        low: Some(edge[0]),
        high: edge[1],
    }));
    bands
}

/// Bounds at equal distances, a power of ten times 1, 2 or 5, from below `first` to at least `last`. Not closer than
/// the buckets.
fn even(first: f64, last: f64, is_whole: bool) -> Vec<f64> {
    let least = ((last - first) / 10.0)
        .max(last / 32.0)
        .max(if is_whole { 1.0 } else { 0.0 });
    let power = 10_f64.powf(least.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|times| times * power >= least * 0.999)
        .unwrap_or(10.0);
    let step = times * power;
    let begin = (first / step).ceil() - 1.0;
    let end = (last / step).ceil();
    // Products of integers and a power of ten, so that 0.3 does not become 0.30000000000000004.
    let edge = |i: usize| round((begin + i as f64) * step);
    (0..=(end - begin) as usize).map(edge).collect()
}

/// Bounds at round numbers with growing distances.
fn decades(first: f64, last: f64, is_whole: bool) -> Vec<f64> {
    const SERIES: [&[f64]; 4] = [
        &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
        &[1.0, 2.0, 5.0],
        &[1.0, 3.0],
        &[1.0],
    ];
    let powers = (first.log10().floor() as i32 - 1)..=(last.log10().ceil() as i32);
    let of_series = |series: &[f64]| -> Vec<f64> {
        let all = powers
            .clone()
            .flat_map(|power| series.iter().map(move |n| round(n * 10_f64.powi(power))));
        let all: Vec<f64> = all
            .filter(|edge| !is_whole || edge.fract() == 0.0)
            .collect();
        let begin = all.partition_point(|edge| *edge < first).saturating_sub(1);
        let end = all.partition_point(|edge| *edge < last);
        let below = if all[begin] < first { None } else { Some(0.0) };
        below
            .into_iter()
            .chain(all[begin..=end.min(all.len() - 1)].iter().copied())
            .collect()
    };
    let fits = |series: &&&[f64]| of_series(series).len() <= BANDS_MAX + 1;
    of_series(SERIES.iter().find(fits).unwrap_or(&SERIES[3]))
}

/// Removes the noise of the last digits.
fn round(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, unit: Unit, kind: HistogramKind, expected: &str) {
        assert_eq!(
            chart(json, unit, kind, Some(60)).join("\n"),
            expected.trim_matches('\n')
        );
    }

    const NS: Unit = Unit::Nanoseconds;

    #[test]
    fn values_far_apart() {
        let json = "[[1000,1],[11000,8],[100000,4],[1000000,1]]";
        check(
            json,
            NS,
            HistogramKind::Counts,
            "
   500 ns – 1.00 µs  1   7.1 %  ███▌
  1.00 µs – 2.00 µs  0     0 %
  2.00 µs – 5.00 µs  0     0 %
  5.00 µs – 10.0 µs  0     0 %
  10.0 µs – 20.0 µs  8  57.1 %  ████████████████████████████
  20.0 µs – 50.0 µs  0     0 %
  50.0 µs –  100 µs  4  28.6 %  ██████████████
   100 µs –  200 µs  0     0 %
   200 µs –  500 µs  0     0 %
   500 µs – 1.00 ms  1   7.1 %  ███▌
",
        );
        let json = "[[1000,0.25],[10000,0.5],[1000000,1.0]]";
        check(
            json,
            NS,
            HistogramKind::SharesUpTo,
            "
  ≤ 1.00 µs   25 %  █████████▌
  ≤ 2.00 µs   25 %  █████████▌
  ≤ 5.00 µs   25 %  █████████▌
  ≤ 10.0 µs   50 %  ███████████████████
  ≤ 20.0 µs   50 %  ███████████████████
  ≤ 50.0 µs   50 %  ███████████████████
  ≤  100 µs   50 %  ███████████████████
  ≤  200 µs   50 %  ███████████████████
  ≤  500 µs   50 %  ███████████████████
  ≤ 1.00 ms  100 %  ██████████████████████████████████████
",
        );
    }

    #[test]
    fn values_near_each_other() {
        check(
            "[[3440000,1],[4100000,50],[4740000,2]]",
            NS,
            HistogramKind::Counts,
            "
  3.40 ms – 3.60 ms   1   1.9 %  ▌
  3.60 ms – 3.80 ms   0     0 %
  3.80 ms – 4.00 ms   0     0 %
  4.00 ms – 4.20 ms  50  94.3 %  ███████████████████████████
  4.20 ms – 4.40 ms   0     0 %
  4.40 ms – 4.60 ms   0     0 %
  4.60 ms – 4.80 ms   2   3.8 %  █▏
",
        );
        check(
            "[[5000000,3]]",
            NS,
            HistogramKind::Counts,
            "
  4.80 ms – 5.00 ms  3  100 %  █████████████████████████████
",
        );
        check(
            "[[1,5],[2,3],[3,1]]",
            Unit::None,
            HistogramKind::Counts,
            "
  0 – 1  5  55.6 %  ████████████████████████████████████████
  1 – 2  3  33.3 %  ████████████████████████
  2 – 3  1  11.1 %  ████████
",
        );
        check(
            "[[0.31,1],[0.52,3]]",
            Unit::None,
            HistogramKind::Counts,
            "
  0.30 – 0.35  1  25 %  ████████████
  0.35 – 0.40  0   0 %
  0.40 – 0.45  0   0 %
  0.45 – 0.50  0   0 %
  0.50 – 0.55  3  75 %  ████████████████████████████████████
",
        );
    }

    #[test]
    fn zero_and_less() {
        check(
            "[[-5,1],[0,1],[10,2],[100,4]]",
            NS,
            HistogramKind::Counts,
            "
  -6 ns –   0 ns  2  25 %  ████████████████▌
   7 ns –  10 ns  2  25 %  ████████████████▌
  10 ns –  15 ns  0   0 %
  15 ns –  20 ns  0   0 %
  20 ns –  30 ns  0   0 %
  30 ns –  50 ns  0   0 %
  50 ns –  70 ns  0   0 %
  70 ns – 100 ns  4  50 %  █████████████████████████████████
",
        );
        check(
            "[[-5,1],[-2,1]]",
            NS,
            HistogramKind::Counts,
            "
  -6 ns – 0 ns  2  100 %  ██████████████████████████████████
",
        );
        check(
            "[[0,7]]",
            Unit::Bytes,
            HistogramKind::Counts,
            "
  ≤ 0 B  7  100 %  ████████████████████████████████████████
",
        );
    }

    #[test]
    fn every_value_is_in_one_band() {
        for (first, last) in [
            (1.0, 1e18),
            (3.0, 3.5),
            (0.001, 5e6),
            (127.0, 128.0),
            (1e15, 1.01e15),
        ] {
            let bounds: Vec<f64> = (0..=50)
                .map(|i| first + (last - first) * f64::from(i) / 50.0)
                .collect();
            let bands = bands(&bounds);
            let is_in = |bound: f64, band: &HistogramBand| {
                band.low.is_none_or(|low| bound > low) && bound <= band.high
            };
            let count = |bound: f64| bands.iter().filter(|band| is_in(bound, band)).count();
            assert!(
                bounds.iter().all(|bound| count(*bound) == 1),
                "{first} {last} {bands:?}"
            );
            assert!(bands.len() <= 20, "{}", bands.len());
        }
    }

    #[test]
    fn other_json_is_unchanged() {
        for text in ["[]", "{\"a\":1}"] {
            check(
                text,
                Unit::None,
                HistogramKind::Counts,
                &format!("  {text}"),
            );
        }
    }
}
