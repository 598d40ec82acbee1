//! Trend of a result's groups over its windows, printed at the end: a row per group, with a sparkline. It reads the
//! rows as they are written, with limited numbers of groups and cells.

use std::collections::HashMap;

use tuple::{Batch, DataType, FieldId, Schema, Unit};
use unicode_width::UnicodeWidthStr;

use super::layout::{self, BETWEEN};
use super::spark::sparkline;
use super::text::pad;
use super::text_shortener::TextShortener;
use crate::cells::{CellValues, ColumnCells};
use crate::units;

/// Maximum cells of a sparkline; with more windows, several share a cell.
const CELLS_MAX: usize = 128;
/// Maximum tracked groups.
const GROUPS_MAX: usize = 10_000;
/// Maximum displayed groups.
const SHOWN_MAX: usize = 20;
/// Minimum windows for a trend.
const WINDOWS_MIN: u64 = 3;
/// Length of a sparkline if the terminal's width is unknown, and minimum length.
const SPARK_WIDTH: usize = 60;
const SPARK_WIDTH_MIN: usize = 8;
/// Maximum width of text.
const KEY_WIDTH: usize = 40;
/// Statistics omitted from the trend.
const SELDOM: [&str; 6] = ["min", "max", "stddev", "p50", "rank", "error_bound"];

/// Groups of a result.
#[derive(Debug, Default)]
pub struct ResultTrend {
    /// Starts of the first and the last window.
    span_ns: Option<(i64, i64)>,
    slide_ns: i64,
    /// Number of windows per cell.
    step: u64,
    keys: Vec<String>,
    numbers: Vec<(FieldId, String, Unit)>,
    groups: HashMap<Vec<Option<String>>, usize>,
    courses: Vec<GroupTrend>,
    /// Rows of groups that are not tracked.
    others: u64,
}

/// Statistics of a group: for each the maximum per cell.
#[derive(Clone, Debug)]
struct GroupTrend {
    key: Vec<Option<String>>,
    cells: Vec<Vec<Option<f64>>>,
}

impl ResultTrend {
    /// For windows that start at multiples of `slide_ns`.
    #[must_use]
    pub fn new(slide_ns: i64) -> ResultTrend {
        ResultTrend {
            slide_ns: slide_ns.max(1),
            step: 1,
            ..ResultTrend::default()
        }
    }

    /// Adds a row of the window that starts at `start_ns`; `keys`: its group columns with their displayed text.
    pub fn take(
        &mut self,
        batch: &Batch,
        row: usize,
        start_ns: i64,
        keys: &[(FieldId, Option<String>)],
    ) {
        if self.numbers.is_empty() {
            self.begin(batch.schema(), keys);
        }
        let (first, last) = self.span_ns.unwrap_or((start_ns, start_ns));
        if start_ns < first {
            return;
        }
        self.span_ns = Some((first, last.max(start_ns)));
        let key: Vec<Option<String>> = keys.iter().map(|(_, text)| text.clone()).collect();
        let group = match self.groups.get(&key) {
            Some(group) => *group,
            None if self.courses.len() >= GROUPS_MAX => {
                self.others += 1;
                return;
            }
            None => {
                self.groups.insert(key.clone(), self.courses.len());
                self.courses.push(GroupTrend {
                    key,
                    cells: vec![Vec::new(); self.numbers.len()],
                });
                self.courses.len() - 1
            }
        };
        let place = self.place(start_ns.abs_diff(first) / self.slide_ns.unsigned_abs());
        for (number, (field, ..)) in self.numbers.iter().enumerate() {
            let cells = &mut self.courses[group].cells[number];
            cells.resize(cells.len().max(place + 1), None);
            let value = ColumnCells::of(batch, *field).and_then(|cells| value(&cells, row));
            cells[place] = larger(cells[place], value);
        }
    }

    /// The table; empty without enough windows.
    #[must_use]
    pub fn lines(&self, width: Option<usize>, span: &dyn Fn(i64, i64) -> String) -> Vec<String> {
        let Some((first, last)) = self.span_ns else {
            return Vec::new();
        };
        let windows = last.abs_diff(first) / self.slide_ns.unsigned_abs() + 1;
        if windows < WINDOWS_MIN || self.numbers.is_empty() {
            return Vec::new();
        }
        let mut courses: Vec<&GroupTrend> = self.courses.iter().collect();
        courses.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
        let hidden = courses.len().saturating_sub(SHOWN_MAX);
        courses.truncate(SHOWN_MAX);
        let (columns, per_bar) = self.columns(&courses, windows, width);
        let each = match per_bar {
            1 => "1 a bar".to_owned(),
            n => format!("{n} a bar: the largest"),
        };
        let mut lines = vec![format!("{windows} windows, {}, {each}", span(first, last))];
        let widths: Vec<usize> = columns
            .iter()
            .map(|column| column.iter().map(|c| c.width()).max().unwrap_or(0))
            .collect();
        let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        for row in 0..=courses.len() {
            lines.push(line(
                columns.iter().map(|column| column[row].as_str()),
                &widths,
            ));
            if row == 0 {
                lines.push(line(rules.iter().map(String::as_str), &widths));
            }
        }
        if hidden > 0 || self.others > 0 {
            let more = if self.others > 0 { "more than " } else { "" };
            lines.push(format!("… and {more}{hidden} groups with less"));
        }
        lines
    }

    fn begin(&mut self, schema: &Schema, keys: &[(FieldId, Option<String>)]) {
        self.keys = keys
            .iter()
            .map(|(id, _)| layout::heading(schema.field(*id)))
            .collect();
        let is_key = |id: &FieldId| keys.iter().any(|(key, _)| key == id);
        let is_number = |id: &FieldId| {
            let field = schema.field(*id);
            matches!(
                field.data_type,
                DataType::U64 | DataType::I64 | DataType::F64
            ) && !matches!(field.unit, Unit::EpochNanoseconds | Unit::Id)
                && !field.name.ends_with("_low")
                && !field.name.ends_with("_high")
                && field.name != "lost"
        };
        let heading = |id: FieldId| (id, layout::heading(schema.field(id)), schema.field(id).unit);
        let all = schema
            .ids()
            .filter(|id| !is_key(id) && is_number(id))
            .map(heading);
        let (seldom, often): (Vec<_>, Vec<_>) =
            all.partition(|(_, name, _)| SELDOM.contains(&name.as_str()));
        let told = seldom
            .into_iter()
            .filter(|(_, name, _)| name != "rank" && name != "error_bound");
        self.numbers = if often.is_empty() {
            told.collect()
        } else {
            often
        };
    }

    /// Cell of the n-th window. Beyond the maximum, the number of windows per cell is doubled.
    fn place(&mut self, window: u64) -> usize {
        while window / self.step >= CELLS_MAX as u64 {
            self.step = self.step.saturating_mul(2);
            for cells in self.courses.iter_mut().flat_map(|course| &mut course.cells) {
                *cells = merged(cells, 2);
            }
        }
        (window / self.step) as usize
    }

    /// Columns of cells with headings; as many statistics as fit. Also the number of windows per bar.
    fn columns(
        &self,
        courses: &[&GroupTrend],
        windows: u64,
        width: Option<usize>,
    ) -> (Vec<Vec<String>>, u64) {
        let mut columns: Vec<Vec<String>> = Vec::new();
        for (i, heading) in self.keys.iter().enumerate() {
            let mut shortened = TextShortener::default();
            let cell = |course: &&GroupTrend| {
                course.key[i]
                    .as_deref()
                    .map_or_else(|| "-".to_owned(), |key| shortened.show(key, KEY_WIDTH))
            };
            columns.push(
                [heading.clone()]
                    .into_iter()
                    .chain(courses.iter().map(cell))
                    .collect(),
            );
        }
        let wide = |columns: &[Vec<String>]| -> usize {
            columns
                .iter()
                .map(|c| c.iter().map(|cell| cell.width()).max().unwrap_or(0) + BETWEEN)
                .sum()
        };
        let cells = windows.div_ceil(self.step) as usize;
        // The first statistic is always shown, with as many bars as fit; others only if they fit unchanged.
        let range = 22;
        let room = width.map_or(SPARK_WIDTH, |width| {
            width.saturating_sub(wide(&columns) + range)
        });
        let factor = cells.div_ceil(room.max(SPARK_WIDTH_MIN)).max(1);
        for (number, (_, heading, unit)) in self.numbers.iter().enumerate() {
            let cell = |course: &&GroupTrend| course.cell(number, *unit, cells, factor);
            let column: Vec<String> = [heading.clone()]
                .into_iter()
                .chain(courses.iter().map(cell))
                .collect();
            let fits = width.is_none_or(|width| {
                wide(&columns) + wide(std::slice::from_ref(&column)) <= width + BETWEEN
            });
            if number == 0 || fits {
                columns.push(column);
            }
        }
        (columns, self.step.saturating_mul(factor as u64))
    }
}

impl GroupTrend {
    /// Sort key of groups: sum of their first statistic.
    fn weight(&self) -> f64 {
        self.cells[0].iter().flatten().sum()
    }

    /// For example `▂▄█▁ 3 – 14`.
    fn cell(&self, number: usize, unit: Unit, cells: usize, factor: usize) -> String {
        let mut values = self.cells[number].clone();
        values.resize(cells, None);
        let values = merged(&values, factor);
        let known = || values.iter().flatten().copied();
        let low = known().fold(f64::INFINITY, f64::min);
        let high = known().fold(f64::NEG_INFINITY, f64::max);
        let range = if low == high {
            units::number(unit, low)
        } else if low < high {
            format!(
                "{} – {}",
                units::number(unit, low),
                units::number(unit, high)
            )
        } else {
            "-".to_owned()
        };
        format!("{} {range}", sparkline(&values))
    }
}

/// Maximum of every `n` cells.
fn merged(cells: &[Option<f64>], n: usize) -> Vec<Option<f64>> {
    cells
        .chunks(n)
        .map(|some| some.iter().copied().fold(None, larger))
        .collect()
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

fn value(cells: &ColumnCells<'_>, row: usize) -> Option<f64> {
    (!cells.is_null(row)).then(|| match cells.values {
        CellValues::U64(a) => Some(a.value(row) as f64),
        CellValues::I64(a) => Some(a.value(row) as f64),
        CellValues::F64(a) => Some(a.value(row)),
        _ => None,
    })?
}

fn line<'a>(cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    let mut line = String::new();
    for (i, (cell, width)) in cells.zip(widths).enumerate() {
        line.push_str(if i > 0 { "  " } else { "" });
        pad(&mut line, cell, *width, false);
    }
    line.trim_end().to_owned()
}
