//! Input and quality of a result: counters of packets, losses, sampling, quality of tuples.

use std::path::PathBuf;

use runner::{FedInput, RunSummary};
use sinks::{DisplayZone, units};

use super::html;

/// Input and quality of a report.
pub struct ReportAccount<'a> {
    /// Summary of the run.
    pub summary: &'a RunSummary,
    /// Files read.
    pub files: &'a [PathBuf],
    /// Names of other inputs.
    pub others: &'a [String],
    /// Values of `quality` with their numbers of tuples; empty: not counted.
    pub qualities: &'a [(String, u64)],
    /// Number of tuples, if there is one query.
    pub tuples: Option<u64>,
    /// Time zone of the output.
    pub zone: &'a DisplayZone,
}

impl ReportAccount<'_> {
    /// Quality of the numbers, as lines.
    #[must_use]
    pub fn worth(&self) -> Vec<String> {
        let RunSummary {
            source,
            accounting,
            sampling,
            fed,
            ..
        } = self.summary;
        let mut worth = Vec::new();
        if !self.qualities.is_empty() {
            let all: u64 = self.qualities.iter().map(|(_, n)| n).sum();
            let share = |(name, n): &(String, u64)| {
                format!(
                    "{name} {}",
                    units::percentage(*n as f64 / all.max(1) as f64)
                )
            };
            worth.push(format!(
                "quality: {}",
                self.qualities
                    .iter()
                    .map(share)
                    .collect::<Vec<_>>()
                    .join(", ")
            ));
        }
        if fed.is_none() {
            worth.push(match source.lost_before_us {
                None => "packets lost before the capture: unknown".into(),
                Some(0) => "no packet lost before the capture, according to its source".into(),
                Some(n) => format!("{n} packets lost before the capture"),
            });
            let loss = accounting.flows.capture_loss().share();
            worth.push(if loss > 0.0 {
                format!(
                    "{} of the TCP payload was acknowledged but not captured",
                    units::percentage(loss)
                )
            } else {
                "no gaps in the data that TCP acknowledged".into()
            });
        }
        if accounting.sampled_out > 0 {
            worth.push(format!(
                "sampled: {} packets of other flows were omitted, [ ] are 95 % intervals",
                accounting.sampled_out
            ));
        }
        if let Some(lowest) = sampling.lowest {
            worth.push(format!(
                "sampling rate as low as {}",
                units::percentage(lowest)
            ));
        }
        if self.summary.limit_reached {
            worth.push("ended by LIMIT".into());
        }
        worth
    }

    /// Start and end of the input.
    #[must_use]
    pub fn when(&self) -> Option<String> {
        let (first, last) = self.summary.seen?;
        let time = |ns: i64| self.zone.time(ns);
        Some(format!(
            "{} to {} ({})",
            time(first.0),
            time(last.0),
            units::duration(last.since(first) as f64)
        ))
    }

    /// Counters as a table.
    #[must_use]
    pub fn table(&self) -> String {
        let RunSummary {
            source,
            accounting: a,
            stream,
            fed,
            ..
        } = self.summary;
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut row = |what: &str, n: String| rows.push(vec![what.to_owned(), n]);
        for file in self.files {
            let size = file.metadata().ok().filter(std::fs::Metadata::is_file);
            row(
                &file.display().to_string(),
                size.map_or(String::new(), |size| format!("{} bytes", size.len())),
            );
        }
        self.others.iter().for_each(|name| row(name, String::new()));
        match fed {
            None => {
                row("packets received", a.received.to_string());
                row("= parsed", a.parsed.to_string());
                row(
                    "+ filtered: packets of other flows",
                    a.filtered_total().to_string(),
                );
                row("+ sampled out", a.sampled_out.to_string());
                row("+ dropped", a.dropped.to_string());
                row("+ undecodable", a.undecodable_total().to_string());
                row("bytes on the wire", source.original_bytes.to_string());
                if source.truncated_packets > 0 {
                    row(
                        "packets truncated by the capture",
                        source.truncated_packets.to_string(),
                    );
                }
                row(
                    "packets lost before the capture",
                    source
                        .lost_before_us
                        .map_or("unknown".into(), |n| n.to_string()),
                );
                row("flows", a.flows.opened.to_string());
            }
            Some(FedInput::Recording(of)) => row("recorded tuples", of.rows.to_string()),
            Some(FedInput::Published(of)) => row("records", of.records.to_string()),
            Some(FedInput::Monitored(of)) => row("packets of monitors", of.packets.to_string()),
        }
        if let Some(n) = self.tuples {
            row("tuples", n.to_string());
        }
        if stream.tuples_late > 0 {
            row(
                "tuples too late for their window",
                stream.tuples_late.to_string(),
            );
        }
        for (name, n) in self.qualities {
            row(&format!("tuples of quality {name}"), n.to_string());
        }
        let wrong = if fed.is_none() && !a.adds_up() {
            "<p class=\"bad\">These numbers do not add up: please report that as a bug.</p>\n"
        } else {
            ""
        };
        html::list(&["what", "how much"], &rows) + wrong
    }

    /// Errors; the result may be incomplete then.
    #[must_use]
    pub fn complaints(&self) -> String {
        self.summary
            .complaints()
            .map(|text| format!("<p class=\"bad\">{}</p>\n", html::text(text)))
            .collect()
    }
}
