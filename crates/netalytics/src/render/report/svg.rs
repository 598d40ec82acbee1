//! SVG pictures: shapes with classes, whose colors are in one style sheet with light and dark variants; and axis
//! scales.

use std::fmt::Write;

use sinks::{DisplayZone, units, zone::TimePrecision};
use tuple::Unit;

use super::html::short;

/// Width of pictures, in pixels.
pub const WIDTH: f64 = 960.0;
/// Number of colors of the Okabe-Ito palette, which is safe for color blindness. Red is reserved for failures.
pub const COLORS: usize = 8;
/// Style sheet for pictures in a page or in separate files.
pub const STYLE: &str = "\
svg{--back:#fff;--text:#1b1f24;--soft:#57606a;--rule:#d8dee4;--box:#f6f8fa;--fail:#b3261e;font:12px system-ui,sans-serif}\
.k0{--k:#0072b2}.k1{--k:#e69f00}.k2{--k:#009e73}.k3{--k:#cc79a7}.k4{--k:#56b4e9}.k5{--k:#b08900}.k6{--k:#7a5fb5}.k7{--k:#4d7f80}\
@media(prefers-color-scheme:dark){svg{--back:#14171a;--text:#e6e8ea;--soft:#9aa4ae;--rule:#343a41;--box:#1d2227;--fail:#f2857d}\
.k0{--k:#4ba3e3}.k6{--k:#a790e0}.k7{--k:#7fb3b4}}\
svg text{fill:var(--soft)}svg .name{fill:var(--text)}svg .failing{fill:var(--fail)}.grid{stroke:var(--rule);fill:none}.whisker{stroke:var(--text);fill:none}\
.band{stroke:var(--k);stroke-opacity:.5}.line{fill:none;stroke:var(--k);stroke-width:2}.area{fill:var(--k);fill-opacity:.2}.bar,.dot{fill:var(--k)}.swatch{color:var(--k)}\
.box{fill:var(--box);stroke:var(--rule)}.edge{fill:none;stroke:var(--soft);stroke-opacity:.7}.edge.failing{stroke:var(--fail);fill:none}\
.d1{stroke-dasharray:8 4}.d2{stroke-dasharray:2 3}.ground{fill:var(--back)}";

/// A picture with its caption and legend.
pub struct ReportFigure {
    /// Caption.
    pub caption: String,
    /// SVG text.
    pub svg: String,
    /// Legend: labels in the order of colors.
    pub legend: Vec<String>,
}

impl ReportFigure {
    /// The picture as part of a page.
    #[must_use]
    pub fn figure(&self) -> String {
        let item = |(nth, name): (usize, &String)| {
            format!(
                "<li class=\"{}\"><span class=\"swatch\">&#9632;</span> {}</li>",
                class(nth),
                super::html::cell(name)
            )
        };
        let legend: String = self.legend.iter().enumerate().map(item).collect();
        let legend = if legend.is_empty() {
            legend
        } else {
            format!("<ul class=\"legend\">{legend}</ul>")
        };
        format!(
            "<figure>{}<figcaption>{}</figcaption>{legend}</figure>\n",
            self.svg,
            super::html::text(&self.caption)
        )
    }

    /// The picture as a separate file.
    #[must_use]
    pub fn alone(&self) -> String {
        let opened = self.svg.find('>').map_or(0, |at| at + 1);
        let (open, rest) = self.svg.split_at(opened);
        format!(
            "{open}<style>{STYLE}</style><rect class=\"ground\" width=\"100%\" height=\"100%\"/>{rest}\n"
        )
    }
}

/// Class of the nth color.
#[must_use]
pub fn class(nth: usize) -> String {
    format!("k{} d{}", nth % COLORS, nth / COLORS % 3)
}

/// A picture in progress.
pub struct SvgCanvas {
    body: String,
    height: f64,
    label: String,
}

impl SvgCanvas {
    /// An empty picture; `label`: description for screen readers.
    #[must_use]
    pub fn new(height: f64, label: &str) -> SvgCanvas {
        SvgCanvas {
            body: String::new(),
            height,
            label: super::html::text(label),
        }
    }

    /// A straight line.
    pub fn line(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2], class: &str) {
        let _ = write!(
            self.body,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        );
    }

    /// A rectangle with the additional attributes `rest`.
    pub fn rect(&mut self, [x, y]: [f64; 2], [w, h]: [f64; 2], rest: &str) {
        let _ = write!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" {rest}/>"
        );
    }

    /// A dot.
    pub fn dot(&mut self, [x, y]: [f64; 2], class: &str) {
        let _ = write!(
            self.body,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" class=\"dot {class}\"/>"
        );
    }

    /// A path with the additional attributes `rest`.
    pub fn path(&mut self, path: &str, rest: &str) {
        let _ = write!(self.body, "<path d=\"{path}\" {rest}/>");
    }

    /// Text of at most `chars` characters; `anchor` is start, middle, or end.
    pub fn text(&mut self, [x, y]: [f64; 2], anchor: &str, class: &str, text: &str, chars: usize) {
        let text = short(text, chars);
        let _ = write!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>"
        );
    }

    /// The complete SVG text.
    #[must_use]
    pub fn end(self) -> String {
        let SvgCanvas {
            body,
            height,
            label,
        } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" aria-label=\"{label}\">{body}</svg>"
        )
    }
}

/// Ticks of a linear axis from at most 0 to `to`, at multiples of 1, 2 or 5 times a power of ten.
#[must_use]
pub fn ticks(from: f64, to: f64) -> Vec<f64> {
    let rough = ((to - from) / 5.0).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .iter()
        .map(|n| n * power)
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let first = (from / step).ceil();
    (0..12)
        .map(|n| (first + f64::from(n)) * step)
        .take_while(|tick| *tick <= to)
        .collect()
}

/// Tick times of an axis, in ns, at whole seconds, minutes, or hours if it is long enough; and their precision.
#[must_use]
pub fn times(from: i64, to: i64) -> (Vec<i64>, TimePrecision) {
    const SECOND: i64 = 1_000_000_000;
    const STEPS: [i64; 15] = [
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 10_800, 43_200, 86_400,
    ];
    let rough = to.saturating_sub(from) / 7;
    let fine = (0..9).flat_map(|power| [1, 2, 5].map(|n| n * 10_i64.pow(power)));
    let long = STEPS
        .into_iter()
        .chain((1..).map(|days| days * 172_800))
        .map(|seconds| seconds.saturating_mul(SECOND));
    let step = fine
        .chain(long)
        .find(|step| *step >= rough)
        .unwrap_or(i64::MAX);
    let first = from.div_euclid(step) + i64::from(from.rem_euclid(step) > 0);
    let ticks = (0..9)
        .filter_map(|n| first.checked_add(n)?.checked_mul(step))
        .take_while(|tick| *tick <= to);
    (ticks.collect(), TimePrecision::for_multiples_of(step))
}

/// Position on a logarithmic axis; values of at most zero share a separate position.
#[must_use]
pub fn log(value: f64) -> f64 {
    if value <= 0.0 {
        -1.0
    } else {
        (1.0 + value).log2()
    }
}

/// Powers of ten between two positions of a logarithmic axis.
#[must_use]
pub fn decades(from: f64, to: f64) -> Vec<f64> {
    let all: Vec<f64> = (0..19)
        .map(|power| 10_f64.powi(power))
        .filter(|tick| (from..=to).contains(&log(*tick)))
        .collect();
    let step = all.len().div_ceil(8).max(1);
    all.into_iter().step_by(step).collect()
}

/// Formats a number for an axis, without trailing zeros.
#[must_use]
pub fn at_axis(unit: Unit, value: f64) -> String {
    let text = units::number(unit, value);
    // For example, 10.0 ms becomes 10 ms.
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!(
                "{} {unit}",
                number.trim_end_matches('0').trim_end_matches('.')
            )
        }
        _ => text,
    }
}

/// The time of day at an axis.
#[must_use]
pub fn clock(zone: &DisplayZone, ns: i64, digits: TimePrecision) -> String {
    zone.clock(ns, digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_a_handful_of_round_numbers() {
        assert_eq!(ticks(0.0, 43.0), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!(
            ticks(0.0, 1.0),
            [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
        );
        assert!(ticks(0.0, 0.0).len() < 13 && ticks(-5.0, 5e18).len() < 13);
        let second = 1_000_000_000;
        let hour = 3_600_000_000_000;
        for (from, to) in [
            (0, 5 * second),
            (1_795_291_157_229_334_000, 1_795_291_158_229_334_000),
            (0, 9 * hour),
            (0, 900 * hour),
            (i64::MIN, i64::MAX),
        ] {
            let (ticks, _) = times(from, to);
            assert!(
                ticks.len() < 10 && ticks.iter().all(|tick| (from..=to).contains(tick)),
                "{from} {to} {ticks:?}"
            );
        }
        assert_eq!(times(0, 60 * second).0[1], 10 * second);
        assert_eq!(decades(log(50.0), log(2e6)), [100.0, 1e3, 1e4, 1e5, 1e6]);
        assert_eq!(
            (at_axis(Unit::Nanoseconds, 1e7), at_axis(Unit::None, 100.0)),
            ("10 ms".into(), "100".into())
        );
    }
}
