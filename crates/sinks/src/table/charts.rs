//! Results with histograms: each row is a chart.

use std::io::Write;

use super::render::{RenderedRows, is_chart};
use super::{TableSink, cut, histogram, layout, text};

impl<W: Write> TableSink<W> {
    /// Whether a processor's rows are histograms.
    pub(super) fn has_charts(&self, rendered: &RenderedRows) -> bool {
        let is_result = self.results[rendered.result].head.processor.is_some();
        is_result
            && rendered
                .fields
                .iter()
                .any(|id| is_chart(&rendered.schema, *id))
    }

    /// Each row as a chart, with the other columns in its title.
    pub(super) fn push_charts(&mut self, text: &mut String, rendered: &RenderedRows) {
        let keys = self.keys(rendered);
        let mut window = None;
        for row in 0..rendered.rows {
            if self.block.take().is_some() || self.charts > 0 {
                text.push('\n');
            }
            self.charts += 1;
            window = rendered
                .windows
                .iter()
                .find(|(at, _)| *at == row)
                .map(|(_, w)| *w)
                .or(window);
            let zone = &self.style.zone;
            let name = self.results[rendered.result]
                .head
                .processor
                .as_deref()
                .map(text::escape);
            let mut parts: Vec<String> = name
                .filter(|_| self.results.len() > 1)
                .into_iter()
                .collect();
            parts.extend(
                window.map(|(from, to)| {
                    format!("{} – {}", zone.short_time(from), zone.short_time(to))
                }),
            );
            for id in rendered
                .fields
                .iter()
                .filter(|id| !is_chart(&rendered.schema, **id))
            {
                let heading = layout::heading(rendered.schema.field(*id));
                let cell = rendered.cell(*id, row).unwrap_or("-");
                parts.push(if keys.contains(id) {
                    cell.to_owned()
                } else {
                    format!("{heading} {cell}")
                });
            }
            if !parts.is_empty() {
                let title = parts.join("  ");
                let title = self
                    .style
                    .width
                    .map_or(title.clone(), |width| cut(&title, width, "…"));
                text.push_str(&format!("{title}\n"));
            }
            for id in rendered
                .fields
                .iter()
                .filter(|id| is_chart(&rendered.schema, **id))
            {
                let field = rendered.schema.field(*id);
                let kind = if field.name.starts_with("cdf") {
                    histogram::HistogramKind::SharesUpTo
                } else {
                    histogram::HistogramKind::Counts
                };
                let json = rendered.cell(*id, row).unwrap_or("no values");
                let lines = histogram::chart(json, field.unit, kind, self.style.width);
                lines
                    .iter()
                    .for_each(|line| text.push_str(&format!("{line}\n")));
            }
        }
    }
}
