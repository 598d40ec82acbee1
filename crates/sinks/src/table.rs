//! A readable table: columns sized to their content, values with units, text made harmless.
//!
//! Windows of a result stand in blocks with a title each, and so do the sections of a report. Tuples stream: the first rows decide columns and widths, the
//! rest follow under the same header. What is left out is said in [`Sink::notes`]. Never to be parsed.

mod layout;
mod spark;
mod text;

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;

use arrow_array::{Array, StringArray};
use tuple::{Batch, DataType, FieldId, Schema, Unit};

use crate::cells::{self, Cells, Values};
use crate::{ResultHead, Sink, units};
use layout::Column;
pub use text::{acts, cut, escape, pad};

/// How to show.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// Columns of the terminal; `None`: as wide as it gets.
    pub width: Option<usize>,
    /// Names to show in place of addresses; `None`: show addresses.
    pub names: Option<HashMap<IpAddr, String>>,
}

/// Tuples that wait, unless flushed, until there are enough to decide the widths by.
const TUPLES_FIRST: usize = 64;

/// Writes tables.
pub struct Table<W: Write> {
    out: W,
    style: Style,
    titles: Vec<Option<String>>,
    open: Option<Block>,
    /// The first tuples.
    waiting: Option<Rendered>,
    left_out: BTreeSet<String>,
}

/// What stands under one header.
struct Block {
    result: usize,
    window: Option<(i64, i64)>,
    section: Option<String>,
    columns: Vec<Column>,
}

/// Rows as text, column by column; `None` is null.
struct Rendered {
    result: usize,
    window: Option<(i64, i64)>,
    section: Option<String>,
    schema: Arc<Schema>,
    fields: Vec<FieldId>,
    cells: Vec<Vec<Option<String>>>,
    rows: usize,
}

/// Consecutive rows of a batch that belong to one window, and of a report to one section.
struct Run {
    window: Option<(i64, i64)>,
    section: Option<String>,
    rows: std::ops::Range<usize>,
}

impl<W: Write> Table<W> {
    /// A writer of the results announced by `heads`.
    pub fn new(out: W, heads: &[ResultHead], style: Style) -> Self {
        let titles = heads.iter().map(|h| h.processor.clone()).collect();
        Table { out, style, titles, open: None, waiting: None, left_out: BTreeSet::new() }
    }

    fn write_run(&mut self, result: usize, batch: &Batch, run: &Run) -> io::Result<()> {
        let rendered = self.render(result, batch, run);
        if self.titles[result].is_some() || self.open.is_some() {
            return self.emit(&rendered);
        }
        match &mut self.waiting {
            Some(waiting) => waiting.append(rendered),
            None => self.waiting = Some(rendered),
        }
        if self.waiting.as_ref().is_some_and(|w| w.rows >= TUPLES_FIRST) {
            self.emit_waiting()
        } else {
            Ok(())
        }
    }

    fn emit_waiting(&mut self) -> io::Result<()> {
        self.waiting.take().map_or(Ok(()), |rendered| self.emit(&rendered))
    }

    /// Writes rows, under the header that is open if it is theirs.
    fn emit(&mut self, rendered: &Rendered) -> io::Result<()> {
        let mut text = String::new();
        let block = match self.open.take() {
            Some(open) if open.takes(rendered) => open,
            before => {
                if before.is_some() {
                    text.push('\n');
                }
                let goes_on = before.is_some_and(|open| open.is_of_window(rendered));
                self.begin(&mut text, rendered, goes_on && rendered.section.is_some())
            }
        };
        for row in 0..rendered.rows {
            push_row(&mut text, &block.columns, rendered, row);
        }
        self.open = Some(block);
        self.out.write_all(text.as_bytes())
    }

    /// Decides the columns of a new block and prints its title and header.
    fn begin(&mut self, text: &mut String, rendered: &Rendered, is_titled: bool) -> Block {
        let Rendered { result, window, section, schema, .. } = rendered;
        let is_key = |id: &FieldId| schema.field(*id).name == "key";
        let column = |(id, cells): (&FieldId, &Vec<_>)| match section {
            Some(section) if is_key(id) => Column::sized(schema, *id, cells).headed(section),
            _ => Column::sized(schema, *id, cells),
        };
        let sized = rendered.fields.iter().zip(&rendered.cells).map(column).collect();
        let title = self.titles[*result].as_deref();
        let (columns, left_out) = layout::fit(sized, self.style.width, title.is_none().then_some(schema));
        self.left_out.extend(left_out);
        if !is_titled {
            push_title(text, title, *window, self.titles.len() > 1);
        }
        push_line(text, columns.iter().map(|c| (c, c.heading.as_str())));
        let rules: Vec<String> = columns.iter().map(|c| "─".repeat(c.width)).collect();
        push_line(text, columns.iter().zip(rules.iter().map(String::as_str)));
        Block { result: *result, window: *window, section: section.clone(), columns }
    }

    fn render(&self, result: usize, batch: &Batch, run: &Run) -> Rendered {
        let fields = shown_fields(batch, run);
        Rendered {
            result,
            window: run.window,
            section: run.section.clone(),
            schema: batch.schema().clone(),
            cells: fields.iter().map(|id| self.render_column(batch, *id, run)).collect(),
            fields,
            rows: run.rows.len(),
        }
    }

    fn render_column(&self, batch: &Batch, id: FieldId, run: &Run) -> Vec<Option<String>> {
        let cells = Cells::of(batch, id).expect("only fields that are present are shown");
        let name = &batch.schema().field(id).name;
        let cumulative = name.starts_with("cdf");
        let names = self.style.names.as_ref();
        let interval = interval(batch, name).filter(|_| !matches!(cells.values, Values::Json(_)));
        let render = |row: usize| {
            let text = (!cells.is_null(row)).then(|| render(&cells, row, cumulative, names))?;
            let [low, high] = match interval {
                Some(ends) if ends.iter().all(|end| !end.is_null(row)) => {
                    ends.map(|end| render(&end, row, false, None))
                }
                _ => return Some(text),
            };
            Some(format!("{text} ({low} – {high})"))
        };
        run.rows.clone().map(render).collect()
    }
}

impl<W: Write> Sink for Table<W> {
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()> {
        runs(batch).iter().try_for_each(|run| self.write_run(result, batch, run))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.emit_waiting()?;
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }

    fn learn_name(&mut self, ip: IpAddr, name: &str) {
        if let Some(names) = &mut self.style.names {
            names.entry(ip).or_insert_with(|| name.to_owned());
        }
    }

    fn notes(&self) -> Vec<String> {
        let names: Vec<&str> = self.left_out.iter().map(String::as_str).collect();
        match names.is_empty() {
            true => Vec::new(),
            false => vec![format!(
                "columns that did not fit: {} (all with --format jsonl or csv)",
                names.join(", ")
            )],
        }
    }
}

impl Block {
    /// Whether rows go on under the block's header.
    fn takes(&self, rows: &Rendered) -> bool {
        let is_tuples = rows.window.is_none();
        let same_columns = || self.columns.iter().map(|c| c.field).eq(rows.fields.iter().copied());
        let same_section = self.section == rows.section;
        self.is_of_window(rows) && same_section && (is_tuples && self.section.is_none() || same_columns())
    }

    fn is_of_window(&self, rows: &Rendered) -> bool {
        self.result == rows.result && self.window == rows.window
    }
}

impl Rendered {
    /// More rows of the same columns.
    fn append(&mut self, more: Rendered) {
        debug_assert_eq!(self.fields, more.fields, "tuples have the same columns all the time");
        self.rows += more.rows;
        self.cells.iter_mut().zip(more.cells).for_each(|(mine, theirs)| mine.extend(theirs));
    }
}

/// The columns to print of these rows: not the window, which is in the title; not the ends of intervals, which stand
/// with their value; and what says how exact a row is only when there is something to say. Of a report's section every
/// column must have something to say.
fn shown_fields(batch: &Batch, run: &Run) -> Vec<FieldId> {
    let is_shown = |id: &FieldId| match batch.schema().field(*id).name.as_ref() {
        "window_start" | "window_end" => run.window.is_none(),
        "section" if run.section.is_some() => false,
        "approximate" | "error_bound" | "lost" => says_something(batch, *id, run),
        _ if run.section.is_some() => says_something(batch, *id, run),
        name => interval_of(batch, name).is_none(),
    };
    batch.present().filter(is_shown).collect()
}

fn says_something(batch: &Batch, id: FieldId, run: &Run) -> bool {
    let Some(cells) = Cells::of(batch, id) else { return false };
    let speaks = |row: usize| match cells.values {
        Values::Bool(flags) => flags.value(row),
        _ => true,
    };
    run.rows.clone().any(|row| !cells.is_null(row) && speaks(row))
}

/// The column whose interval `name` is an end of: `count` for `count_low`, where all three are there.
fn interval_of(batch: &Batch, name: &str) -> Option<FieldId> {
    let value = name.strip_suffix("_low").or_else(|| name.strip_suffix("_high"))?;
    interval(batch, value).and_then(|_| batch.schema().find(value))
}

/// The ends of the interval around a column's values.
fn interval<'a>(batch: &'a Batch, name: &str) -> Option<[Cells<'a>; 2]> {
    let end = |suffix: &str| Cells::of(batch, batch.schema().find(&format!("{name}{suffix}"))?);
    batch.schema().find(name).and_then(|id| batch.column(id))?;
    Some([end("_low")?, end("_high")?])
}

/// Cuts a batch where its window changes, and a report where its section does.
fn runs(batch: &Batch) -> Vec<Run> {
    let column = |name: &str| {
        let id = batch.schema().find(name)?;
        let field = batch.schema().field(id);
        let is_time = field.data_type == DataType::I64 && field.unit == Unit::EpochNanoseconds;
        (is_time && batch.column(id).is_some()).then(|| batch.i64(id))
    };
    let window = |row: usize| match (column("window_start"), column("window_end")) {
        (Some(start), Some(end)) if !start.is_null(row) && !end.is_null(row) => {
            Some((start.value(row), end.value(row)))
        }
        _ => None,
    };
    let sections = report_sections(batch);
    let section = |row: usize| sections.map(|sections| sections.value(row));
    let mut runs: Vec<Run> = Vec::new();
    for row in 0..batch.rows() {
        match runs.last_mut() {
            Some(run) if run.window == window(row) && run.section.as_deref() == section(row) => {
                run.rows.end = row + 1;
            }
            _ => {
                let section = section(row).map(str::to_owned);
                runs.push(Run { window: window(row), section, rows: row..row + 1 });
            }
        }
    }
    runs
}

/// The sections of a report, whose rows have a `section` and a `key`.
fn report_sections(batch: &Batch) -> Option<&StringArray> {
    let text = |name: &str| {
        let id = batch.schema().find(name)?;
        (batch.schema().field(id).data_type == DataType::Text)
            .then_some(batch.column(id).map(|_| batch.text(id))?)
    };
    text("key").and(text("section"))
}

fn render(
    cells: &Cells<'_>,
    row: usize,
    cumulative: bool,
    names: Option<&HashMap<IpAddr, String>>,
) -> String {
    match cells.values {
        Values::Bool(a) => a.value(row).to_string(),
        Values::U64(a) if cells.unit == Unit::None => a.value(row).to_string(),
        Values::U64(a) if cells.unit == Unit::Id => units::id(a.value(row)),
        Values::U64(a) => units::number(cells.unit, a.value(row) as f64),
        Values::I64(a) if cells.unit == Unit::None => a.value(row).to_string(),
        Values::I64(a) if cells.unit == Unit::EpochNanoseconds => units::time(a.value(row)),
        Values::I64(a) => units::number(cells.unit, a.value(row) as f64),
        Values::F64(a) => units::number(cells.unit, a.value(row)),
        Values::Text(a) => text::escape(a.value(row)),
        Values::Hashes(a) => tuple::hashes::to_text(a.value(row)),
        Values::Json(a) => text::escape(&spark::sparkline(a.value(row), cells.unit, cumulative)),
        Values::Ip(a) => {
            let ip = cells::ip(a.value(row));
            names.and_then(|n| n.get(&ip)).map_or_else(|| ip.to_string(), |name| text::escape(name))
        }
    }
}

fn push_title(text: &mut String, name: Option<&str>, window: Option<(i64, i64)>, several: bool) {
    let name = name.map(text::escape).unwrap_or_default();
    match window {
        Some((start, end)) => {
            text.push_str(&format!("{name}  {} – {}\n", units::short_time(start), units::short_time(end)));
        }
        None if several => text.push_str(&format!("{name}\n")),
        None => {}
    }
}

/// The cells of one row; a null is `-`.
fn push_row(text: &mut String, columns: &[Column], rendered: &Rendered, row: usize) {
    let cell = |c: &Column| {
        let at = rendered.fields.iter().position(|id| *id == c.field)?;
        Some(c.shorten(rendered.cells[at][row].as_deref()?))
    };
    let values: Vec<String> = columns.iter().map(|c| cell(c).unwrap_or_else(|| "-".to_owned())).collect();
    push_line(text, columns.iter().zip(values.iter().map(String::as_str)));
}

fn push_line<'a>(text: &mut String, cells: impl Iterator<Item = (&'a Column, &'a str)>) {
    let start = text.len();
    for (i, (column, cell)) in cells.enumerate() {
        if i > 0 {
            text.push_str("  ");
        }
        text::pad(text, cell, column.width, column.right);
    }
    text.truncate(start + text[start..].trim_end_matches(' ').len());
    text.push('\n');
}

#[cfg(test)]
mod tests;
