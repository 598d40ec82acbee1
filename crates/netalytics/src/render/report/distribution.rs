//! Distribution of values: a histogram per group, and a CDF of all groups.

use tuple::Unit;

use super::svg::{SvgCanvas, WIDTH, at_axis, class, decades, log};

/// Histogram buckets per power of two, and height of one histogram.
const FINE: f64 = 6.0;
const BAND: f64 = 64.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const HEIGHT: f64 = 250.0;

/// Distribution of a group.
pub struct GroupHistogram {
    /// Label.
    pub name: String,
    /// Upper bound with count or share.
    pub buckets: Vec<(f64, f64)>,
}

impl GroupHistogram {
    fn sum(&self) -> f64 {
        self.buckets
            .iter()
            .map(|(_, n)| n)
            .sum::<f64>()
            .max(f64::MIN_POSITIVE)
    }
}

/// Value axis shared by both pictures.
struct Axis {
    least: f64,
    most: f64,
}

impl Axis {
    fn of(spreads: &[GroupHistogram]) -> Axis {
        let places = || {
            spreads
                .iter()
                .flat_map(|spread| &spread.buckets)
                .map(|(bound, _)| log(*bound))
        };
        let least = places().fold(f64::INFINITY, f64::min);
        let most = places().fold(1.0, f64::max);
        Axis {
            least: if least.is_finite() {
                (least - 0.5).max(-1.5)
            } else {
                0.0
            },
            most: most + 0.1,
        }
    }

    fn x(&self, place: f64) -> f64 {
        LEFT + (place - self.least) / (self.most - self.least).max(1e-3) * (WIDTH - LEFT - RIGHT)
    }

    fn draw(&self, svg: &mut SvgCanvas, unit: Unit, [top, bottom]: [f64; 2]) {
        for tick in decades(self.least, self.most) {
            let x = self.x(log(tick));
            svg.line([x, top], [x, bottom], "grid");
            svg.text([x, bottom + 18.0], "middle", "", &at_axis(unit, tick), 14);
        }
    }
}

/// Draws a histogram per group.
#[must_use]
pub fn histograms(spreads: &[GroupHistogram], unit: Unit, label: &str) -> String {
    let axis = Axis::of(spreads);
    let bottom = spreads.len() as f64 * BAND + 6.0;
    let mut svg = SvgCanvas::new(bottom + 28.0, label);
    axis.draw(&mut svg, unit, [6.0, bottom]);
    for (nth, spread) in spreads.iter().enumerate() {
        let ground = (nth + 1) as f64 * BAND;
        svg.line([LEFT, ground], [WIDTH - RIGHT, ground], "grid");
        let mut bins: Vec<(f64, f64)> = Vec::new();
        for (bound, n) in &spread.buckets {
            let bin = (log(*bound) * FINE).ceil() / FINE;
            match bins.last_mut() {
                Some((last, sum)) if (*last - bin).abs() < 1e-9 => *sum += n,
                _ => bins.push((bin, *n)),
            }
        }
        let peak = bins
            .iter()
            .map(|(_, n)| *n)
            .fold(f64::MIN_POSITIVE, f64::max);
        for (bin, n) in bins {
            let width = (axis.x(bin) - axis.x(bin - 1.0 / FINE) - 1.0).max(3.0);
            let height = (n / peak * (BAND - 24.0)).max(1.5);
            svg.rect(
                [axis.x(bin) - width, ground - height],
                [width, height],
                &format!("class=\"bar {}\"", class(nth)),
            );
        }
        svg.text(
            [LEFT, ground - BAND + 16.0],
            "start",
            "name",
            &spread.name,
            110,
        );
    }
    svg.end()
}

/// Draws the CDF.
#[must_use]
pub fn shares(spreads: &[GroupHistogram], unit: Unit, label: &str) -> String {
    let axis = Axis::of(spreads);
    let bottom = HEIGHT - 28.0;
    let y = |share: f64| 10.0 + (1.0 - share) * (bottom - 10.0);
    let mut svg = SvgCanvas::new(HEIGHT, label);
    axis.draw(&mut svg, unit, [10.0, bottom]);
    for share in [0.0, 0.5, 0.9, 1.0] {
        svg.line([LEFT, y(share)], [WIDTH - RIGHT, y(share)], "grid");
        svg.text(
            [LEFT - 8.0, y(share) + 4.0],
            "end",
            "",
            &format!("{:.0} %", share * 100.0),
            6,
        );
    }
    for (nth, spread) in spreads.iter().enumerate() {
        let sum = spread.sum();
        let mut share = 0.0;
        let mut points = vec![[axis.x(axis.least), y(0.0)]];
        for (bound, n) in &spread.buckets {
            let x = axis.x(log(*bound));
            points.push([x, y(share / sum)]);
            share += n;
            points.push([x, y(share / sum)]);
        }
        let path = super::line_chart::move_to(points.into_iter());
        svg.path(&path, &format!("class=\"line {}\"", class(nth)));
    }
    svg.end()
}

/// Smallest bound with at least this share of the values.
#[must_use]
pub fn quantile(buckets: &[(f64, f64)], q: f64) -> Option<f64> {
    let all: f64 = buckets.iter().map(|(_, n)| n).sum();
    let mut sum = 0.0;
    let found = buckets.iter().find(|(_, n)| {
        sum += n;
        sum >= all * q - 1e-9
    });
    found.or(buckets.last()).map(|(bound, _)| *bound)
}
