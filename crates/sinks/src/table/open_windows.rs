//! Open windows on a terminal: their rows so far, redrawn below the table, and removed before final rows.

use std::io::{self, Write};

use tuple::Batch;

use super::render::{RenderedRows, runs};
use super::{TableSink, cut};

/// Default height of the terminal.
const HEIGHT: usize = 24;

impl<W: Write> TableSink<W> {
    /// Draws these rows in place of the previous drawing. No line is wider than the terminal and all lines fit on it,
    /// otherwise the start of the drawing would be unknown.
    pub(super) fn draw_open(&mut self, rows: &[(usize, Batch)]) -> io::Result<()> {
        let mut text = self.open.erase();
        let mut lines = Vec::new();
        for (result, batch) in rows {
            for run in runs(batch).iter().filter(|run| run.section.is_none()) {
                let rendered = RenderedRows::of(*result, batch, run, &self.style);
                lines.extend(self.open_lines(&rendered));
            }
        }
        for (result, shown) in self.results.iter().enumerate() {
            if shown.head.processor.is_some() && !rows.iter().any(|(of, _)| *of == result) {
                let name = shown
                    .head
                    .processor
                    .as_deref()
                    .map(super::escape)
                    .unwrap_or_default();
                lines.push(format!("── {name}  nothing so far ──"));
            }
        }
        let height = self.style.height.unwrap_or(HEIGHT).saturating_sub(3).max(2);
        if lines.len() > height {
            let more = lines.len() - (height - 1);
            lines.truncate(height - 1);
            lines.push(format!("… and {more} more lines"));
        }
        let width = self.style.width.unwrap_or(80);
        lines
            .iter()
            .for_each(|line| text.push_str(&format!("{}\n", cut(line, width, "…"))));
        self.open.stands(lines.len());
        if !text.is_empty() {
            self.out.write_all(text.as_bytes())?;
        }
        self.out.flush()
    }

    /// A line about the open window, and the rows: under the current header if it fits, otherwise with their own.
    fn open_lines(&mut self, rendered: &RenderedRows) -> Vec<String> {
        let shown = &self.results[rendered.result];
        let name = shown
            .head
            .processor
            .as_deref()
            .map(super::escape)
            .unwrap_or_default();
        let what = match (rendered.windows.first(), &shown.calendar) {
            (Some((_, (start, end))), Some(calendar)) => {
                format!(
                    "{name}  {} – {}, still open: so far",
                    calendar.cell(*start),
                    calendar.cell(*end)
                )
            }
            _ => format!("{name}, so far"),
        };
        let mut lines = vec![format!("── {what} ──")];
        let mut text = String::new();
        if self.has_charts(rendered) {
            let block = self.block.take();
            let charts = std::mem::take(&mut self.charts);
            self.push_charts(&mut text, rendered);
            self.block = block;
            self.charts = charts;
        } else {
            self.push_open_rows(&mut text, rendered);
        }
        lines.extend(text.trim_end().lines().map(str::to_owned));
        lines
    }

    fn push_open_rows(&mut self, text: &mut String, rendered: &RenderedRows) {
        // Drawing must not change the state of gaps and omitted columns.
        let calendar = self.results[rendered.result].calendar.clone();
        let left_out = self.left_out.clone();
        if let (Some(calendar), Some((_, (start_ns, _)))) = (
            &mut self.results[rendered.result].calendar,
            rendered.windows.first(),
        ) {
            calendar.jump_to(*start_ns);
        }
        let mut block = match &self.block {
            Some(block) if block.takes(rendered) => block.copy(),
            _ => {
                let block = self.lay_out(rendered);
                self.push_header(text, &block);
                block
            }
        };
        self.push_rows(text, &mut block, rendered);
        self.results[rendered.result].calendar = calendar;
        self.left_out = left_out;
    }
}
