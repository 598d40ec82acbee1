//! The summary as text: aligned lines, without zero counters.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use monitor::accounting::TlsAccounting;
use monitor::sampling_control::RateHistory;
use monitor::{ExportAccounting, ExporterState};
use sinks::{DisplayZone, units};

use super::counts::{
    Counts, export_trouble, exports, filtered, flow_trouble, fragments, losses, parser_trouble,
    protocols, stream_trouble, tap_counts, tls_counts, undecodable,
};
use super::line::Line;
use super::rate;
use super::{FedInput, RunSummary};
use crate::limits;

/// Maximum protocols of undecodable packets shown; JSON has all.
const PROTOCOLS_SHOWN: usize = 8;
/// Maximum exporters shown; JSON has more.
const EXPORTERS_SHOWN: usize = 8;
/// Maximum periods of empty windows shown; JSON has more.
const STRETCHES_SHOWN: usize = 4;

impl RunSummary {
    /// A few aligned lines; zero counters are omitted.
    pub fn text(&self) -> String {
        let a = &self.accounting;
        if let Some(fed) = &self.fed {
            return self.text_of(fed);
        }
        let mut lines = vec![("packets", Some(a.received), self.traffic())];
        lines.push(("  parsed", Some(a.parsed), String::new()));
        let some = |lines: &mut Vec<Line>, label, total: u64, causes: &Counts| {
            if total > 0 {
                lines.push((label, Some(total), listed(causes)));
            }
        };
        some(&mut lines, "  filtered", a.filtered_total(), &filtered(a));
        some(&mut lines, "  sampled out", a.sampled_out, &Vec::new());
        some(&mut lines, "  dropped", a.dropped, &Vec::new());
        some(
            &mut lines,
            "  undecodable",
            a.undecodable_total(),
            &undecodable(a),
        );
        if !a.undecodable_protocols.is_empty() {
            lines.push(("    not read", None, most_frequent(protocols(a))));
        }
        some(
            &mut lines,
            "truncated",
            self.source.truncated_packets,
            &Vec::new(),
        );
        some(
            &mut lines,
            "lost before us",
            self.source.lost_before_us.unwrap_or(0),
            &losses(&self.source),
        );
        some(
            &mut lines,
            "dropped by the adapter",
            self.source.nic_drops.unwrap_or(0),
            &Vec::new(),
        );
        some(
            &mut lines,
            "excluded by the capture filter",
            self.source.filtered,
            &Vec::new(),
        );
        some(
            &mut lines,
            "without a timestamp of the adapter",
            self.source.unstamped_packets,
            &Vec::new(),
        );
        let finer = self.source.nanosecond_fractions;
        some(
            &mut lines,
            "times in a finer unit than stated",
            finer,
            &Vec::new(),
        );
        let fragments = listed(&fragments(a));
        if !fragments.is_empty() {
            lines.push(("fragments", None, fragments));
        }
        if let Some(note) = sampling(&self.sampling) {
            lines.push(("sampling", Some(self.sampling.count), note));
        }
        lines.extend(self.regulated.iter().flat_map(rate::lines));
        if a.exports.is_empty() {
            lines.push((
                "flows",
                Some(a.flows.flows()),
                listed(&flow_trouble(&a.flows)),
            ));
        } else {
            lines.extend(exporters(&a.exports));
        }
        if let Some(loss) = capture_loss(&a.flows) {
            lines.push(("capture loss", None, loss));
        }
        if let Some(line) = tls(&a.tls) {
            lines.push(line);
        }
        let trouble = listed(&parser_trouble(&a.parsers));
        if !trouble.is_empty() {
            lines.push(("parsers", None, trouble));
        }
        lines.push((
            "tuples",
            Some(a.tuples),
            listed(&stream_trouble(&self.stream)),
        ));
        let mut notes = listed(&vec![("epochs_cut", self.epochs_cut)]);
        if self.limit_reached {
            notes = [notes.as_str(), "LIMIT reached"].map(str::trim).join(" ");
        }
        lines.push(("rows", Some(self.rows), notes.trim().to_owned()));
        lines.extend(self.silences.iter().map(empty_windows));
        lines.extend(self.limits());
        lines.extend(self.keeping());
        let mut text = aligned(&lines);
        text.push_str(&self.pace());
        if !a.adds_up() {
            text.push_str("these numbers do not add up: please report that as a bug\n");
        }
        text
    }

    /// The text for input other than packets.
    fn text_of(&self, fed: &FedInput) -> String {
        let mut lines = match fed {
            FedInput::Recording(replayed) => {
                let note = format!(
                    "{} files, {}",
                    replayed.files,
                    units::bytes(replayed.bytes as f64)
                );
                let mut lines = vec![("recorded tuples", Some(replayed.rows), note)];
                if replayed.rows_skipped > 0 {
                    let note = "row groups without matching tuples".to_owned();
                    lines.push(("  left unread", Some(replayed.rows_skipped), note));
                }
                lines
            }
            FedInput::Published(published) => {
                let note = units::bytes(published.bytes as f64);
                let mut lines = vec![("records", Some(published.records), note)];
                if published.malformed > 0 {
                    lines.push(("  malformed", Some(published.malformed), String::new()));
                }
                if published.late > 0 {
                    lines.push((
                        "  too late",
                        Some(published.late),
                        "dropped by Flink".to_owned(),
                    ));
                }
                if published.hurried > 0 {
                    let note = "may be out of order, due to the memory limit (--results-bytes-max)"
                        .to_owned();
                    lines.push(("  hurried", Some(published.hurried), note));
                }
                lines
            }
            FedInput::Monitored(monitored) => {
                let mut lines = vec![("packets", Some(monitored.packets), String::new())];
                if monitored.sampled_out > 0 {
                    lines.push(("  sampled out", Some(monitored.sampled_out), String::new()));
                }
                lines.extend(self.lacks.iter().map(|lack| ("lacks", None, lack.clone())));
                if let Some(note) = sampling(&self.sampling) {
                    lines.push(("sampling", Some(self.sampling.count), note));
                }
                if monitored.cut_off > 0 {
                    let note = "flows ended because switches copy fewer flows".to_owned();
                    lines.push(("  cut off", Some(monitored.cut_off), note));
                }
                if monitored.lost > 0 {
                    lines.push((
                        "  lost before",
                        Some(monitored.lost),
                        "the monitors were too slow".to_owned(),
                    ));
                }
                lines.push((
                    "reports",
                    Some(monitored.reports),
                    units::bytes(monitored.bytes as f64),
                ));
                if monitored.malformed > 0 {
                    lines.push(("  malformed", Some(monitored.malformed), String::new()));
                }
                lines
            }
        };
        let told = if self.published().is_some() {
            "tuples or cells"
        } else {
            "tuples"
        };
        lines.push((
            told,
            Some(self.accounting.tuples),
            listed(&stream_trouble(&self.stream)),
        ));
        lines.push(("rows", Some(self.rows), String::new()));
        lines.extend(self.silences.iter().map(empty_windows));
        lines.extend(self.limits());
        lines.extend(self.keeping());
        let seconds = self.elapsed.as_secs_f64().max(1e-9);
        let per_second = (fed.tuples() as f64 / seconds).round();
        format!(
            "{}done in {}: {per_second} {told}/s\n",
            aligned(&lines),
            units::duration(seconds * 1e9)
        )
    }

    /// Limits that took effect.
    fn limits(&self) -> Vec<(&'static str, Option<u64>, String)> {
        let value = self.value();
        limits::reached(&value)
            .map(|(limit, count)| ("limit reached", Some(count), limit.note()))
            .collect()
    }

    /// Recorded data and written packets.
    fn keeping(&self) -> Vec<(&'static str, Option<u64>, String)> {
        let size =
            |files: u64, bytes: u64| format!("{files} files, {}", units::bytes(bytes as f64));
        let mut lines = Vec::new();
        if let Some(sent) = &self.sent {
            let dropped = sent.dropped();
            lines.push((
                "sent to Kafka",
                Some(sent.acknowledged),
                units::bytes(sent.bytes as f64),
            ));
            if dropped > 0 {
                lines.push((
                    "  dropped",
                    Some(dropped),
                    "buffer full, too large, or rejected".to_owned(),
                ));
            }
        }
        if let Some(kept) = &self.kept {
            lines.push(("recorded", Some(kept.rows), size(kept.files, kept.bytes)));
            if kept.rows_unfinished > 0 {
                let note = format!(
                    "rows of {} incomplete files, which only netalytics reads; the next record into the \
                     folder completes them",
                    kept.files_unfinished
                );
                lines.push(("  unfinished", Some(kept.rows_unfinished), note));
            }
            if kept.rows_lost > 0 {
                lines.push((
                    "  lost",
                    Some(kept.rows_lost),
                    "rows that could not be written".into(),
                ));
            }
            if kept.files_recovered > 0 {
                let note = format!(
                    "rows of {} files that an earlier run left unfinished",
                    kept.files_recovered
                );
                lines.push(("recovered", Some(kept.rows_recovered), note));
            }
        }
        if let Some(taps) = &self.taps {
            lines.push((
                "seen by both taps",
                Some(taps.joined),
                listed(&tap_counts(taps)),
            ));
        }
        for delivered in &self.delivered {
            let causes: Counts = delivered
                .lost
                .iter()
                .chain(&delivered.counts)
                .copied()
                .collect();
            let note = listed(&causes);
            lines.push((
                "delivered",
                Some(delivered.sent),
                format!("to {}; {note}", delivered.to),
            ));
        }
        if let Some(kept) = &self.packets_kept {
            lines.push((
                "packets kept",
                Some(kept.packets),
                size(kept.files, kept.bytes),
            ));
            if kept.packets_lost > 0 {
                lines.push((
                    "  lost",
                    Some(kept.packets_lost),
                    "packets that could not be written".into(),
                ));
            }
            if kept.tuples_missed > 0 {
                let note = "tuples whose packets were evicted earlier or exceeded the limit";
                lines.push(("  missed", Some(kept.tuples_missed), note.into()));
            }
        }
        lines
    }

    fn traffic(&self) -> String {
        let bytes = units::bytes(self.source.original_bytes as f64);
        match self.seen {
            Some((first, last)) => {
                format!(
                    "{bytes} in {} of traffic",
                    units::duration(last.since(first) as f64)
                )
            }
            None => bytes,
        }
    }

    fn pace(&self) -> String {
        let seconds = self.elapsed.as_secs_f64().max(1e-9);
        let elapsed = units::duration(seconds * 1e9);
        let packets = (self.accounting.received as f64 / seconds).round();
        let bytes = units::bytes(self.source.captured_bytes as f64 / seconds);
        format!("done in {elapsed}: {packets} packets/s, {bytes}/s\n")
    }
}

/// Export messages and their exporters.
fn exporters(of: &ExportAccounting) -> Vec<Line> {
    let mut lines = vec![(
        "export messages",
        Some(of.decoded.messages),
        listed(&exports(of)[1..].to_vec()),
    )];
    let trouble = listed(&export_trouble(of));
    if !trouble.is_empty() {
        lines.push(("  not as expected", None, trouble));
    }
    let has_news = |exporter: &&ExporterState| {
        let losses = &exporter.losses;
        losses.lost + losses.repeated + losses.restarts > 0 || exporter.is_clock_off()
    };
    let shown = of.exporters.iter().filter(has_news).take(EXPORTERS_SHOWN);
    lines.extend(shown.map(|exporter| {
        let losses = &exporter.losses;
        let counts = vec![
            ("lost", losses.lost),
            ("reordered", losses.reordered),
            ("repeated", losses.repeated),
            ("restarts", losses.restarts),
        ];
        let clock = exporter.clock_offset_ns.filter(|_| exporter.is_clock_off());
        let clock = clock.map(|ns| format!("clock off by {}", units::duration(ns as f64)));
        let news: Vec<String> = [listed(&counts)]
            .into_iter()
            .filter(|counts| !counts.is_empty())
            .chain(clock)
            .collect();
        let note = format!(
            "{} domain {} ({}): {}",
            exporter.exporter,
            exporter.domain,
            exporter.protocol,
            news.join(", ")
        );
        ("  exporter", Some(losses.received), note)
    }));
    lines
}

/// Estimated capture loss, if any.
fn capture_loss(c: &flow::FlowTableCounters) -> Option<String> {
    let bytes = units::bytes(c.acked_unseen_bytes as f64);
    (c.acked_unseen_bytes > 0).then(|| {
        format!(
            "{}: {bytes} were acknowledged but not captured",
            percent(c.capture_loss().share())
        )
    })
}

/// Empty windows of a result with groups, which have no rows.
fn empty_windows(silence: &stream::EmptyWindows) -> Line {
    let zone = DisplayZone::default();
    let shown = silence.stretches.iter().take(STRETCHES_SHOWN);
    let mut times: Vec<_> = shown
        .map(|(start, end)| format!("{} to {}", zone.short_time(*start), zone.short_time(*end)))
        .collect();
    if silence.stretches.len() > STRETCHES_SHOWN {
        times.push("…".to_owned());
    }
    ("empty windows", Some(silence.windows), times.join(", "))
}

/// Changes by SAMPLE auto, if any.
fn sampling(history: &RateHistory) -> Option<String> {
    let lowest = history.lowest?;
    let last = history.changes.back()?;
    Some(format!(
        "changes of rate, lowest {}, last {}",
        percent(lowest),
        percent(last.rate * last.copied)
    ))
}

fn percent(rate: f64) -> String {
    format!("{:.3} %", rate * 100.0)
}

/// Nonzero counters: `not_ip 3, malformed 1`.
fn listed(counts: &Counts) -> String {
    let some: Vec<String> = counts
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    some.join(", ")
}

/// Protocols with the most packets, and the number of others.
fn most_frequent(protocols: BTreeMap<String, u64>) -> String {
    let mut counts: Vec<_> = protocols.into_iter().collect();
    counts.sort_by_key(|(_, packets)| Reverse(*packets));
    let others = counts.split_off(counts.len().min(PROTOCOLS_SHOWN)).len();
    let others = (others > 0).then(|| format!("and {others} more"));
    let shown = counts
        .into_iter()
        .map(|(name, packets)| format!("{name} {packets}"));
    shown.chain(others).collect::<Vec<_>>().join(", ")
}

fn aligned(lines: &[(&str, Option<u64>, String)]) -> String {
    let label_width = lines.iter().map(|l| l.0.len()).max().unwrap_or(0);
    let number = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
    let number_width = lines.iter().map(|l| number(l.1).len()).max().unwrap_or(0);
    let line = |(label, n, note): &(&str, Option<u64>, String)| {
        let line = format!(
            "{label:label_width$}  {:>number_width$}  {note}",
            number(*n)
        );
        format!("{}\n", line.trim_end())
    };
    lines.iter().map(line).collect()
}

/// Decrypted connections, and the reasons for others.
fn tls(of: &TlsAccounting) -> Option<(&'static str, Option<u64>, String)> {
    let mut notes = tls_counts(of);
    notes.retain(|(name, _)| *name != "decrypted");
    let unsupported = of.unsupported.iter().map(|(name, flows)| (*name, *flows));
    notes.extend(unsupported);
    (*of != TlsAccounting::default()).then(|| ("decrypted", Some(of.decrypted), listed(&notes)))
}
