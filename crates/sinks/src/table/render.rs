//! Renders batches to text: selection of columns and formatting of cells.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, StringArray};
use tuple::{Batch, DataType, FieldId, Schema, Unit};

use super::text;
use crate::cells::{self, CellValues, ColumnCells};
use crate::zone::DisplayZone;
use crate::{TableStyle, units};

/// Rows as text, by column; `None` is null.
pub struct RenderedRows {
    /// Index of the result.
    pub result: usize,
    /// For a report: window and section.
    pub section: Option<(Option<(i64, i64)>, String)>,
    /// Starts of windows: row index, and bounds of the window.
    pub windows: Vec<(usize, (i64, i64))>,
    /// Schema of the columns.
    pub schema: Arc<Schema>,
    /// Columns.
    pub fields: Vec<FieldId>,
    /// Cells by column.
    pub cells: Vec<Vec<Option<String>>>,
    /// Number of rows.
    pub rows: usize,
}

/// Consecutive rows of a batch with the same window and, in a report, the same section.
pub struct RowRun {
    /// Bounds of the window.
    pub window: Option<(i64, i64)>,
    /// Section.
    pub section: Option<String>,
    /// Row indexes.
    pub rows: Range<usize>,
}

impl RenderedRows {
    /// Renders a run.
    #[must_use]
    pub fn of(result: usize, batch: &Batch, run: &RowRun, style: &TableStyle) -> RenderedRows {
        let fields = shown_fields(batch, run);
        RenderedRows {
            result,
            section: run.section.clone().map(|section| (run.window, section)),
            windows: run
                .window
                .filter(|_| run.section.is_none())
                .map(|w| (0, w))
                .into_iter()
                .collect(),
            schema: batch.schema().clone(),
            cells: fields
                .iter()
                .map(|id| column(batch, *id, run, style))
                .collect(),
            fields,
            rows: run.rows.len(),
        }
    }

    /// Appends rows. A column missing in one of both has no values there.
    pub fn append(&mut self, more: RenderedRows) {
        for id in &more.fields {
            if let Err(at) = self.fields.binary_search(id) {
                self.fields.insert(at, *id);
                self.cells.insert(at, vec![None; self.rows]);
            }
        }
        for (id, cells) in self.fields.iter().zip(&mut self.cells) {
            match more.fields.binary_search(id) {
                Ok(at) => cells.extend_from_slice(&more.cells[at]),
                Err(_) => cells.resize(self.rows + more.rows, None),
            }
        }
        self.windows.extend(
            more.windows
                .iter()
                .map(|(row, window)| (self.rows + row, *window)),
        );
        self.rows += more.rows;
    }

    /// Cell of a row, if the column exists.
    #[must_use]
    pub fn cell(&self, field: FieldId, row: usize) -> Option<&str> {
        let at = self.fields.iter().position(|id| *id == field)?;
        self.cells[at][row].as_deref()
    }
}

/// Whether a column is drawn as a chart.
#[must_use]
pub fn is_chart(schema: &Schema, id: FieldId) -> bool {
    let field = schema.field(id);
    field.data_type == DataType::Json
        && (field.name.starts_with("hist") || field.name.starts_with("cdf"))
}

/// Columns to print: without the window, which is separate; without interval bounds, which are printed with their
/// value; and quality columns only if they are not trivial. In a report's section, only columns with values.
fn shown_fields(batch: &Batch, run: &RowRun) -> Vec<FieldId> {
    let is_shown = |id: &FieldId| match batch.schema().field(*id).name.as_ref() {
        "window_start" | "window_end" => run.window.is_none(),
        "section" if run.section.is_some() => false,
        "approximate" | "error_bound" | "lost" => says_something(batch, *id, run),
        _ if run.section.is_some() => says_something(batch, *id, run),
        name => interval_of(batch, name).is_none(),
    };
    let mut fields: Vec<FieldId> = batch.present().filter(is_shown).collect();
    if run.window.is_some() && run.section.is_none() {
        fields.sort_unstable();
    }
    fields
}

fn says_something(batch: &Batch, id: FieldId, run: &RowRun) -> bool {
    let Some(cells) = ColumnCells::of(batch, id) else {
        return false;
    };
    let speaks = |row: usize| match cells.values {
        CellValues::Bool(flags) => flags.value(row),
        _ => true,
    };
    run.rows
        .clone()
        .any(|row| !cells.is_null(row) && speaks(row))
}

/// The column of which `name` is an interval bound: `count` for `count_low`, if all three exist.
fn interval_of(batch: &Batch, name: &str) -> Option<FieldId> {
    let value = name
        .strip_suffix("_low")
        .or_else(|| name.strip_suffix("_high"))?;
    interval(batch, value).and_then(|_| batch.schema().find(value))
}

/// Interval bounds of a column.
fn interval<'a>(batch: &'a Batch, name: &str) -> Option<[ColumnCells<'a>; 2]> {
    let end =
        |suffix: &str| ColumnCells::of(batch, batch.schema().find(&format!("{name}{suffix}"))?);
    batch.schema().find(name).and_then(|id| batch.column(id))?;
    Some([end("_low")?, end("_high")?])
}

/// Splits a batch by window, and a report by section.
#[must_use]
pub fn runs(batch: &Batch) -> Vec<RowRun> {
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
    let mut runs: Vec<RowRun> = Vec::new();
    for row in 0..batch.rows() {
        match runs.last_mut() {
            Some(run) if run.window == window(row) && run.section.as_deref() == section(row) => {
                run.rows.end = row + 1;
            }
            _ => {
                let section = section(row).map(str::to_owned);
                runs.push(RowRun {
                    window: window(row),
                    section,
                    rows: row..row + 1,
                });
            }
        }
    }
    runs
}

/// Sections of a report, whose rows have a `section` and a `key`.
fn report_sections(batch: &Batch) -> Option<&StringArray> {
    let text = |name: &str| {
        let id = batch.schema().find(name)?;
        (batch.schema().field(id).data_type == DataType::Text)
            .then_some(batch.column(id).map(|_| batch.text(id))?)
    };
    text("key").and(text("section"))
}

fn column(batch: &Batch, id: FieldId, run: &RowRun, style: &TableStyle) -> Vec<Option<String>> {
    let cells = ColumnCells::of(batch, id).expect("only fields that are present are shown");
    let name = &batch.schema().field(id).name;
    let interval = interval(batch, name).filter(|_| !matches!(cells.values, CellValues::Json(_)));
    let names = style.names.as_ref();
    let render = |row: usize| {
        let text = (!cells.is_null(row)).then(|| render(&cells, row, names, &style.zone))?;
        let [low, high] = match interval {
            Some(ends) if ends.iter().all(|end| !end.is_null(row)) => {
                ends.map(|end| render(&end, row, None, &style.zone))
            }
            _ => return Some(text),
        };
        Some(format!("{text} ({low} – {high})"))
    };
    run.rows.clone().map(render).collect()
}

fn render(
    cells: &ColumnCells<'_>,
    row: usize,
    names: Option<&HashMap<IpAddr, String>>,
    zone: &DisplayZone,
) -> String {
    match cells.values {
        CellValues::Bool(a) => a.value(row).to_string(),
        CellValues::U64(a) if cells.unit == Unit::None => a.value(row).to_string(),
        CellValues::U64(a) if cells.unit == Unit::Id => units::id(a.value(row)),
        CellValues::U64(a) => units::number(cells.unit, a.value(row) as f64),
        CellValues::I64(a) if cells.unit == Unit::None => a.value(row).to_string(),
        CellValues::I64(a) if cells.unit == Unit::EpochNanoseconds => zone.time(a.value(row)),
        CellValues::I64(a) => units::number(cells.unit, a.value(row) as f64),
        CellValues::F64(a) if cells.unit == Unit::EpochNanoseconds => {
            zone.time(a.value(row) as i64)
        }
        CellValues::F64(a) => units::number(cells.unit, a.value(row)),
        CellValues::Text(a) => text::escape(a.value(row)),
        CellValues::Hashes(a) => tuple::hashes::to_text(a.value(row)),
        CellValues::Json(a) => text::escape(a.value(row)),
        CellValues::Ip(a) => {
            let ip = cells::ip(a.value(row));
            names
                .and_then(|n| n.get(&ip))
                .map_or_else(|| ip.to_string(), |name| text::escape(name))
        }
    }
}
