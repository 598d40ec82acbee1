//! Windows in a table: the start of each in a separate column, the date once, and a line for windows without tuples.

use crate::zone::{DisplayZone, TimePrecision};
use crate::{EmptyReason, units};

/// Maximum consecutive empty windows with a line each.
const LINES_EACH: u64 = 3;
const DAY_NS: i64 = 86_400_000_000_000;

/// Windows of a result.
#[derive(Clone, Debug)]
pub struct WindowCalendar {
    zone: DisplayZone,
    slide_ns: i64,
    /// Text shown for a window without rows.
    nothing: &'static str,
    digits: TimePrecision,
    /// Start of the last window shown.
    last_ns: Option<i64>,
    /// Last date shown.
    date: String,
}

impl WindowCalendar {
    /// For windows that start at multiples of `slide_ns`.
    #[must_use]
    pub fn new(slide_ns: i64, zone: &DisplayZone, empty: EmptyReason) -> WindowCalendar {
        let slide_ns = slide_ns.max(1);
        WindowCalendar {
            zone: zone.clone(),
            slide_ns,
            nothing: match empty {
                EmptyReason::NoTuples => "no tuples",
                EmptyReason::NoneChosen => "no rows",
            },
            digits: TimePrecision::for_multiples_of(slide_ns),
            last_ns: None,
            date: String::new(),
        }
    }

    /// Title of a result's table: `top-k  windows of 10 s, 2026-11-21 UTC`.
    #[must_use]
    pub fn title(&mut self, name: &str, (start, end): (i64, i64)) -> String {
        let size = units::chosen_duration(end.saturating_sub(start));
        let every = if end.saturating_sub(start) > self.slide_ns {
            format!(" every {}", units::chosen_duration(self.slide_ns))
        } else {
            String::new()
        };
        self.date = self.zone.date(start);
        format!(
            "{name}  windows of {size}{every}, {} {}",
            self.date,
            self.zone.name(start)
        )
    }

    /// Cell of the window's column.
    #[must_use]
    pub fn cell(&self, start_ns: i64) -> String {
        self.zone.clock(start_ns, self.digits)
    }

    /// Width of that column.
    #[must_use]
    pub fn width(&self) -> usize {
        self.cell(0).len()
    }

    /// Advances to the window with that start: returns the lines before its rows.
    #[must_use]
    pub fn go_to(&mut self, start_ns: i64) -> Vec<String> {
        let mut lines = self.empty_before(start_ns);
        let date = self.zone.date(start_ns);
        if date != self.date && self.slide_ns < DAY_NS {
            lines.push(format!("{date} {}", self.zone.name(start_ns)));
        }
        self.date = date;
        self.last_ns = Some(start_ns);
        lines
    }

    /// Advances to the window with that start, without lines.
    pub fn jump_to(&mut self, start_ns: i64) {
        self.last_ns = None;
        self.date = self.zone.date(start_ns);
    }

    /// Period from the start of a window to the end of another.
    #[must_use]
    pub fn span(&self, first_ns: i64, last_ns: i64) -> String {
        let end = |ns| {
            if self.zone.date(ns) == self.zone.date(first_ns) {
                self.cell(ns)
            } else {
                format!("{} {}", self.zone.date(ns), self.cell(ns))
            }
        };
        format!(
            "{} – {}",
            self.cell(first_ns),
            end(last_ns.saturating_add(self.slide_ns))
        )
    }

    fn empty_before(&self, start_ns: i64) -> Vec<String> {
        let nothing = self.nothing;
        let Some(next) = self.last_ns.map(|last| last.saturating_add(self.slide_ns)) else {
            return Vec::new();
        };
        if start_ns <= next {
            return Vec::new();
        }
        match start_ns.abs_diff(next) / self.slide_ns.unsigned_abs() {
            n @ ..=LINES_EACH => (0..n)
                .map(|i| {
                    format!(
                        "{}  — {nothing} —",
                        self.cell(next + i as i64 * self.slide_ns)
                    )
                })
                .collect(),
            n => vec![format!("{}  — {nothing} in {n} windows —", self.cell(next))],
        }
    }
}
