//! A block of a table: rows under one header.

use tuple::FieldId;

use super::layout::{BETWEEN, TableColumn};
use super::render::RenderedRows;
use super::text;
use super::text_shortener::TextShortener;

/// A block of a table.
pub struct TableBlock {
    /// Index of the result.
    pub result: usize,
    /// For a report: window and section.
    pub section: Option<(Option<(i64, i64)>, String)>,
    /// All columns, including omitted ones.
    pub fields: Vec<FieldId>,
    /// Displayed columns.
    pub columns: Vec<TableColumn>,
    /// Shortened texts per column.
    pub texts: Vec<TextShortener>,
}

impl TableBlock {
    /// Whether rows can continue the block.
    pub fn takes(&self, rows: &RenderedRows) -> bool {
        let is_tuples = rows.windows.is_empty() && rows.section.is_none();
        let same_columns = match rows.section {
            Some(_) => self.fields == rows.fields,
            None => is_tuples || rows.fields.iter().all(|id| self.fields.contains(id)),
        };
        self.result == rows.result && self.section == rows.section && same_columns
    }

    /// Whether rows are another section of the same report.
    pub fn is_of_report(&self, rows: &RenderedRows) -> bool {
        let window = |section: &Option<(Option<(i64, i64)>, String)>| section.as_ref().map(|s| s.0);
        self.result == rows.result
            && self.section.is_some()
            && window(&self.section) == window(&rows.section)
    }

    /// The same columns, without rows.
    pub fn copy(&self) -> TableBlock {
        let texts = self
            .columns
            .iter()
            .map(|_| TextShortener::default())
            .collect();
        let fields = self.fields.clone();
        let columns = self.columns.clone();
        TableBlock {
            result: self.result,
            section: self.section.clone(),
            fields,
            columns,
            texts,
        }
    }

    /// Cells of a row.
    pub fn cells(&mut self, rendered: &RenderedRows, row: usize) -> Vec<String> {
        let cell = |(column, texts): (&TableColumn, &mut TextShortener)| {
            let Some(cell) = rendered.cell(column.field, row) else {
                return "-".to_owned();
            };
            column.cut_to().map_or_else(
                || column.clock(cell).to_owned(),
                |width| texts.show(cell, width),
            )
        };
        self.columns.iter().zip(&mut self.texts).map(cell).collect()
    }
}

/// Appends a line of cells, after a margin if there is one.
pub fn push_line<'a>(
    text: &mut String,
    margin: Option<(&str, usize)>,
    cells: impl Iterator<Item = (&'a TableColumn, &'a str)>,
) {
    let begin = text.len();
    if let Some((cell, width)) = margin {
        text::pad(text, cell, width + BETWEEN, false);
    }
    for (i, (column, cell)) in cells.enumerate() {
        if i > 0 {
            text.push_str("  ");
        }
        text::pad(text, cell, column.width, column.right);
    }
    text.truncate(begin + text[begin..].trim_end_matches(' ').len());
    text.push('\n');
}
