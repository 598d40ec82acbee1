//! A table for people: columns sized to their content, values with units, escaped text.
//!
//! Windows of a result share one header, with their start in a separate column; at the end, a row per group shows the
//! trend. Sections of a report are blocks with titles, histograms are charts. Tuples are streamed: the first rows
//! determine columns and widths. [`Sink::notes`] lists omissions. The format may change and is not for parsing.

mod block;
mod charts;
mod drawing;
mod histogram;
mod layout;
mod open_windows;
mod render;
mod spark;
mod style;
mod text;
mod text_shortener;
mod trend;
mod windows;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::IpAddr;

use tuple::{Batch, FieldId};

use crate::{ResultHead, Sink};
use block::{TableBlock, push_line};
use drawing::TerminalDrawing;
use layout::{BETWEEN, ColumnRole, TableColumn};
use render::{RenderedRows, runs};
pub use style::{TableStyle, WindowPace};
pub use text::{acts, cut, escape, pad};
pub use text_shortener::TextShortener;
use trend::ResultTrend;
use windows::WindowCalendar;

/// Number of first tuples that determine the widths, unless flushed earlier.
const TUPLES_FIRST: usize = 64;
/// Maximum rows of windows held until the end.
const ROWS_HELD: usize = 20_000;

/// Writes tables.
pub struct TableSink<W: Write> {
    out: W,
    style: TableStyle,
    results: Vec<TableResult>,
    block: Option<TableBlock>,
    /// Number of histograms drawn.
    charts: usize,
    /// The first tuples.
    waiting: Option<RenderedRows>,
    rows_held: usize,
    left_out: BTreeSet<String>,
    open: TerminalDrawing,
}

/// State of a result.
struct TableResult {
    head: ResultHead,
    /// Windows of the result, if any.
    calendar: Option<WindowCalendar>,
    trend: ResultTrend,
    /// Rows held until the end.
    held: Option<RenderedRows>,
}

impl<W: Write> TableSink<W> {
    /// A writer of the results announced by `heads`.
    pub fn new(out: W, heads: &[ResultHead], style: TableStyle) -> Self {
        let shown = |head: &ResultHead| TableResult {
            calendar: head
                .slide_ns
                .map(|slide_ns| WindowCalendar::new(slide_ns, &style.zone, head.empty)),
            trend: ResultTrend::new(head.slide_ns.unwrap_or(1)),
            head: head.clone(),
            held: None,
        };
        TableSink {
            out,
            results: heads.iter().map(shown).collect(),
            style,
            block: None,
            charts: 0,
            waiting: None,
            rows_held: 0,
            left_out: BTreeSet::new(),
            open: TerminalDrawing::default(),
        }
    }

    fn take(&mut self, result: usize, batch: &Batch, run: &render::RowRun) -> io::Result<()> {
        let rendered = RenderedRows::of(result, batch, run, &self.style);
        if self.results[result].head.processor.is_none() {
            return self.take_tuples(rendered);
        }
        let Some(window) = run.window.filter(|_| run.section.is_none()) else {
            return self.emit(&rendered);
        };
        let keys: Vec<FieldId> = self.keys(&rendered);
        for (at, row) in run.rows.clone().enumerate() {
            let keys: Vec<_> = keys
                .iter()
                .map(|id| (*id, rendered.cell(*id, at).map(str::to_owned)))
                .collect();
            self.results[result].trend.take(batch, row, window.0, &keys);
        }
        match self.style.pace {
            WindowPace::AtOnce => self.emit(&rendered),
            WindowPace::Whole => self.hold(rendered),
        }
    }

    fn take_tuples(&mut self, rendered: RenderedRows) -> io::Result<()> {
        if self.block.is_some() {
            return self.emit(&rendered);
        }
        match &mut self.waiting {
            Some(waiting) => waiting.append(rendered),
            None => self.waiting = Some(rendered),
        }
        if self
            .waiting
            .as_ref()
            .is_some_and(|w| w.rows >= TUPLES_FIRST)
        {
            self.emit_waiting()
        } else {
            Ok(())
        }
    }

    fn emit_waiting(&mut self) -> io::Result<()> {
        self.waiting
            .take()
            .map_or(Ok(()), |rendered| self.emit(&rendered))
    }

    fn hold(&mut self, rendered: RenderedRows) -> io::Result<()> {
        self.rows_held += rendered.rows;
        let held = &mut self.results[rendered.result].held;
        match held {
            Some(held) => held.append(rendered),
            None => *held = Some(rendered),
        }
        if self.rows_held > ROWS_HELD {
            self.style.pace = WindowPace::AtOnce;
            return (0..self.results.len()).try_for_each(|result| self.emit_held(result));
        }
        Ok(())
    }

    fn emit_held(&mut self, result: usize) -> io::Result<()> {
        self.results[result]
            .held
            .take()
            .map_or(Ok(()), |rendered| self.emit(&rendered))
    }

    /// Writes rows, under the current header if it fits.
    fn emit(&mut self, rendered: &RenderedRows) -> io::Result<()> {
        let mut text = self.open.erase();
        if self.has_charts(rendered) {
            self.push_charts(&mut text, rendered);
            return self.out.write_all(text.as_bytes());
        }
        let mut block = match self.block.take() {
            Some(block) if block.takes(rendered) => block,
            before => {
                if before.is_some() || self.charts > 0 {
                    text.push('\n');
                }
                let is_titled = before.is_some_and(|block| block.is_of_report(rendered));
                self.begin(&mut text, rendered, is_titled)
            }
        };
        self.push_rows(&mut text, &mut block, rendered);
        self.block = Some(block);
        self.out.write_all(text.as_bytes())
    }

    /// Determines the columns of a new block, and prints its title and header.
    fn begin(&mut self, text: &mut String, rendered: &RenderedRows, is_titled: bool) -> TableBlock {
        let block = self.lay_out(rendered);
        if !is_titled {
            text.extend(self.title(rendered).map(|title| title + "\n"));
        }
        self.push_header(text, &block);
        block
    }

    /// Columns for these rows.
    fn lay_out(&mut self, rendered: &RenderedRows) -> TableBlock {
        let RenderedRows {
            result,
            section,
            schema,
            fields,
            ..
        } = rendered;
        let keys = self.keys(rendered);
        let role = |id: FieldId| match schema.field(id).name.as_ref() {
            _ if self.results[*result].head.processor.is_none() => ColumnRole::Field,
            "rank" | "key" => ColumnRole::Key,
            _ if keys.contains(&id) => ColumnRole::Key,
            _ => ColumnRole::Statistic,
        };
        let sized = fields.iter().zip(&rendered.cells).map(|(id, cells)| {
            let column = TableColumn::sized(schema, *id, role(*id), cells);
            match section {
                Some((_, section)) if schema.field(*id).name == "key" => column.headed(section),
                _ => column,
            }
        });
        let mut sized: Vec<TableColumn> = sized.collect();
        let calendar = self.results[*result]
            .calendar
            .as_ref()
            .filter(|_| !rendered.windows.is_empty());
        let margin = calendar.map_or(0, |calendar| calendar.width() + BETWEEN);
        let width = self.style.width.map(|width| width.saturating_sub(margin));
        if calendar.is_some() && self.style.pace == WindowPace::AtOnce {
            layout::loosen(&mut sized, width);
        }
        layout::for_people(&mut sized, schema);
        let fitted = layout::fit(sized, width, schema);
        self.left_out.extend(fitted.left_out);
        let texts = fitted
            .columns
            .iter()
            .map(|_| TextShortener::default())
            .collect();
        TableBlock {
            result: *result,
            section: section.clone(),
            fields: fields.clone(),
            columns: fitted.columns,
            texts,
        }
    }

    fn title(&mut self, rendered: &RenderedRows) -> Option<String> {
        let several = self.results.len() > 1;
        let shown = &mut self.results[rendered.result];
        let name = shown
            .head
            .processor
            .as_deref()
            .map(text::escape)
            .unwrap_or_default();
        match (
            &rendered.section,
            rendered.windows.first(),
            &mut shown.calendar,
        ) {
            (Some((Some((start, end)), _)), ..) => {
                let zone = &self.style.zone;
                Some(format!(
                    "{name}  {} – {}",
                    zone.short_time(*start),
                    zone.short_time(*end)
                ))
            }
            (None, Some((_, window)), Some(calendar)) => Some(calendar.title(&name, *window)),
            _ => several.then_some(name),
        }
    }

    fn push_header(&self, text: &mut String, block: &TableBlock) {
        let margin = self.margin(block);
        let headings = block.columns.iter().map(|c| (c, c.heading.as_str()));
        push_line(text, margin.map(|width| ("window", width)), headings);
        let rules: Vec<String> = block.columns.iter().map(|c| "─".repeat(c.width)).collect();
        let rule = margin.map(|width| ("─".repeat(width), width));
        let rule = rule.as_ref().map(|(rule, width)| (rule.as_str(), *width));
        push_line(
            text,
            rule,
            block.columns.iter().zip(rules.iter().map(String::as_str)),
        );
    }

    /// Width of the window column, if any.
    fn margin(&self, block: &TableBlock) -> Option<usize> {
        let calendar = self.results[block.result]
            .calendar
            .as_ref()
            .filter(|_| block.section.is_none())?;
        Some(calendar.width().max("window".len()))
    }

    /// Prints rows; the start of a window is in its first row. Null is `-`.
    fn push_rows(&mut self, text: &mut String, block: &mut TableBlock, rendered: &RenderedRows) {
        let margin = self.margin(block);
        let mut windows = rendered.windows.iter().peekable();
        for row in 0..rendered.rows {
            let mut start = String::new();
            if let (Some((_, (start_ns, _))), Some(calendar)) = (
                windows.next_if(|(at, _)| *at == row),
                &mut self.results[block.result].calendar,
            ) {
                calendar
                    .go_to(*start_ns)
                    .iter()
                    .for_each(|line| text.push_str(&format!("{line}\n")));
                start = calendar.cell(*start_ns);
            }
            let cells = block.cells(rendered, row);
            let cells = block.columns.iter().zip(cells.iter().map(String::as_str));
            push_line(text, margin.map(|width| (start.as_str(), width)), cells);
        }
    }

    /// Group columns.
    fn keys(&self, rendered: &RenderedRows) -> Vec<FieldId> {
        let head = &self.results[rendered.result].head;
        let bounds = usize::from(head.slide_ns.is_some()) * 2;
        rendered.schema.ids().skip(bounds).take(head.keys).collect()
    }

    /// Prints the trend of a result's groups.
    fn push_trend(&mut self, text: &mut String, result: usize) {
        let shown = &self.results[result];
        let Some(calendar) = &shown.calendar else {
            return;
        };
        let lines = shown
            .trend
            .lines(self.style.width, &|first, last| calendar.span(first, last));
        if !lines.is_empty() {
            let name = shown
                .head
                .processor
                .as_deref()
                .map(text::escape)
                .unwrap_or_default();
            let title = format!("{name}  {}", lines[0]);
            let title = self
                .style
                .width
                .map_or(title.clone(), |width| cut(&title, width, "…"));
            text.push_str(&format!("\n{title}\n{}\n", lines[1..].join("\n")));
        }
    }
}

impl<W: Write> Sink for TableSink<W> {
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()> {
        runs(batch)
            .iter()
            .try_for_each(|run| self.take(result, batch, run))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.emit_waiting()?;
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.emit_waiting()?;
        for result in 0..self.results.len() {
            self.emit_held(result)?;
        }
        let mut text = self.open.erase();
        (0..self.results.len()).for_each(|result| self.push_trend(&mut text, result));
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn show_open(&mut self, rows: &[(usize, Batch)]) -> io::Result<()> {
        self.draw_open(rows)
    }

    fn hide_open(&mut self) -> io::Result<()> {
        let text = self.open.erase();
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn learn_name(&mut self, ip: IpAddr, name: &str) {
        if let Some(names) = &mut self.style.names {
            names.entry(ip).or_insert_with(|| name.to_owned());
        }
    }

    fn notes(&self) -> Vec<String> {
        let names: Vec<&str> = self.left_out.iter().map(String::as_str).collect();
        let is_tuples = self
            .results
            .iter()
            .any(|shown| shown.head.processor.is_none());
        let choice = if is_tuples {
            ", or chosen by SELECT"
        } else {
            ""
        };
        if names.is_empty() {
            Vec::new()
        } else {
            vec![format!(
                "columns that did not fit: {} (all on a wider terminal, with --format jsonl or csv{choice})",
                names.join(", ")
            )]
        }
    }
}

#[cfg(test)]
mod tests;
