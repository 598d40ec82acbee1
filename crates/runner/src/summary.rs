//! What a run has done: where every packet went, what was lost to limits, how long it took. A short text for people,
//! and everything as JSON for programs.

use std::time::Duration;

use capture::PacketsKept;
use capture::live::Clock;
use flow::CloseReason;
use monitor::pressure::{Change, History};
use monitor::{Accounting, Ended};
use plan::Plan;
use recording::Kept;
use serde_json::{Map, Value, json};
use sinks::{Delivered, units};
use wire::{Timestamp, Undecodable};

use crate::memory::Memory;

/// Version of the summary's JSON (`--summary-json`): docs/compatibility.md says when it rises.
pub const SUMMARY_FORMAT: u64 = 1;

/// A run in numbers.
pub struct Summary {
    /// The query as written.
    pub query: String,
    /// Where every packet went.
    pub accounting: Accounting,
    /// What the source delivered.
    pub source: capture::Counters,
    /// What was read instead of packets.
    pub replayed: Option<recording::Counters>,
    /// What became of the tuples.
    pub stream: stream::Counters,
    /// Which requests two taps have seen.
    pub taps: Option<stream::TapCounts>,
    /// Rows written.
    pub rows: u64,
    /// What has been recorded.
    pub kept: Option<Kept>,
    /// What other programs were sent.
    pub delivered: Vec<Delivered>,
    /// The packets that have been kept.
    pub packets_kept: Option<PacketsKept>,
    /// Time of the first packet, and of the last.
    pub seen: Option<(Timestamp, Timestamp)>,
    /// How memory was divided.
    pub memory: Option<Memory>,
    /// Epochs whose rows were printed before their end, as there was no room for all of them.
    pub epochs_cut: u64,
    /// LIMIT ended the run.
    pub limit_reached: bool,
    /// How SAMPLE auto has changed the sampling rates.
    pub sampling: History,
    /// What went wrong with the inputs.
    pub errors: Vec<InputError>,
    /// What ended the run before its input did.
    pub cut_short: Option<String>,
    /// What workers said that failed: our own bugs.
    pub panics: Vec<String>,
    /// Why the result, or the packets, could not be written.
    pub output_errors: Vec<String>,
    /// The whole run.
    pub elapsed: Duration,
}

/// Something wrong with an input.
pub struct InputError {
    /// Which.
    pub path: String,
    /// Where, in bytes, if that is known.
    pub offset: Option<u64>,
    /// What, with the place, in one line.
    pub text: String,
    /// Packets of this input delivered before.
    pub after_packets: u64,
}

/// Counts by name, in the order of printing.
type Counts = Vec<(&'static str, u64)>;

impl Summary {
    /// Of a job over packets, of which no row was written.
    #[must_use]
    pub fn of(plan: &Plan, ended: Ended, elapsed: Duration) -> Summary {
        let error = |e: &capture::SourceError| InputError {
            path: e.path.display().to_string(),
            offset: e.offset,
            text: e.to_string(),
            after_packets: e.after_packets,
        };
        Summary {
            query: plan.query.clone(),
            accounting: ended.accounting,
            source: ended.source,
            replayed: None,
            stream: ended.stream,
            taps: None,
            rows: 0,
            kept: None,
            delivered: Vec::new(),
            packets_kept: None,
            seen: ended.seen,
            memory: None,
            epochs_cut: ended.epochs_cut,
            limit_reached: ended.limit_reached,
            sampling: ended.sampling,
            errors: ended.errors.iter().map(error).collect(),
            cut_short: None,
            panics: ended.panics,
            output_errors: Vec::new(),
            elapsed,
        }
    }

    /// A few aligned lines; of what did not happen nothing is said.
    pub fn text(&self) -> String {
        let a = &self.accounting;
        if let Some(replayed) = &self.replayed {
            return self.text_of_replay(replayed);
        }
        let mut lines = vec![("packets", Some(a.received), self.traffic())];
        lines.push(("  parsed", Some(a.parsed), String::new()));
        let mut some = |label, total: u64, causes: &Counts| {
            if total > 0 {
                lines.push((label, Some(total), listed(causes)));
            }
        };
        some("  filtered", a.filtered_total(), &filtered(a));
        some("  sampled out", a.sampled_out, &Vec::new());
        some("  dropped", a.dropped, &Vec::new());
        some("  undecodable", a.undecodable_total(), &undecodable(a));
        some("truncated", self.source.truncated_packets, &vec![]);
        some("lost before us", self.source.lost_before_us.unwrap_or(0), &losses(&self.source));
        some("dropped by the adapter", self.source.nic_drops.unwrap_or(0), &vec![]);
        some("left out by the capture filter", self.source.filtered, &vec![]);
        some("not stamped by the adapter", self.source.unstamped_packets, &vec![]);
        let fragments = listed(&fragment_counts(a));
        if !fragments.is_empty() {
            lines.push(("fragments", None, fragments));
        }
        if let Some(note) = sampling(&self.sampling) {
            lines.push(("sampling", Some(self.sampling.count), note));
        }
        lines.push(("flows", Some(a.flows.opened), listed(&flow_trouble(&a.flows))));
        if let Some(loss) = capture_loss(&a.flows) {
            lines.push(("capture loss", None, loss));
        }
        let trouble = listed(&parser_trouble(&a.parsers));
        if !trouble.is_empty() {
            lines.push(("parsers", None, trouble));
        }
        lines.push(("tuples", Some(a.tuples), listed(&stream_trouble(&self.stream))));
        let mut notes = listed(&vec![("epochs_cut", self.epochs_cut)]);
        if self.limit_reached {
            notes = [notes.as_str(), "LIMIT reached"].map(str::trim).join(" ");
        }
        lines.push(("rows", Some(self.rows), notes.trim().to_owned()));
        lines.extend(self.keeping());
        let mut text = aligned(&lines);
        text.push_str(&self.pace());
        if !a.adds_up() {
            text.push_str("these numbers do not add up: please report that as a bug\n");
        }
        text
    }

    /// The same where tuples were read and not packets.
    fn text_of_replay(&self, replayed: &recording::Counters) -> String {
        let recording::Counters { files, bytes, rows, rows_skipped } = *replayed;
        let note = format!("{files} files, {}", units::bytes(bytes as f64));
        let mut lines = vec![("recorded tuples", Some(rows), note)];
        if rows_skipped > 0 {
            lines.push((
                "  left unread",
                Some(rows_skipped),
                "row groups without a tuple that was asked for".into(),
            ));
        }
        lines.push(("tuples", Some(self.accounting.tuples), listed(&stream_trouble(&self.stream))));
        lines.push(("rows", Some(self.rows), String::new()));
        lines.extend(self.keeping());
        let seconds = self.elapsed.as_secs_f64().max(1e-9);
        let per_second = (rows as f64 / seconds).round();
        format!("{}done in {}: {per_second} tuples/s\n", aligned(&lines), units::duration(seconds * 1e9))
    }

    /// What has been kept for later.
    fn keeping(&self) -> Vec<(&'static str, Option<u64>, String)> {
        let size = |files: u64, bytes: u64| format!("{files} files, {}", units::bytes(bytes as f64));
        let mut lines = Vec::new();
        if let Some(kept) = &self.kept {
            lines.push(("recorded", Some(kept.rows), size(kept.files, kept.bytes)));
            if kept.rows_unfinished > 0 {
                let note = format!(
                    "rows of {} files without an end, which only netalytics reads; the next record into the folder \
                     ends them",
                    kept.files_unfinished
                );
                lines.push(("  unfinished", Some(kept.rows_unfinished), note));
            }
            if kept.rows_lost > 0 {
                lines.push(("  lost", Some(kept.rows_lost), "rows that could not be written".into()));
            }
            if kept.files_recovered > 0 {
                let note =
                    format!("rows of {} files that an earlier run left unfinished", kept.files_recovered);
                lines.push(("recovered", Some(kept.rows_recovered), note));
            }
        }
        if let Some(taps) = &self.taps {
            lines.push(("seen by both taps", Some(taps.joined), listed(&tap_counts(taps))));
        }
        for delivered in &self.delivered {
            let causes: Counts = delivered.lost.iter().chain(&delivered.counts).copied().collect();
            let note = listed(&causes);
            lines.push(("delivered", Some(delivered.sent), format!("to {}; {note}", delivered.to)));
        }
        if let Some(kept) = &self.packets_kept {
            lines.push(("packets kept", Some(kept.packets), size(kept.files, kept.bytes)));
            if kept.packets_lost > 0 {
                lines.push(("  lost", Some(kept.packets_lost), "packets that could not be written".into()));
            }
            if kept.tuples_missed > 0 {
                let note = "tuples whose packets were given up before, or found no room";
                lines.push(("  missed", Some(kept.tuples_missed), note.into()));
            }
        }
        lines
    }

    /// Whether nothing failed.
    pub fn is_complete(&self) -> bool {
        self.complaints().next().is_none()
    }

    /// What failed, a line each.
    pub fn complaints(&self) -> impl Iterator<Item = &str> {
        let panics = self.panics.iter().map(String::as_str);
        self.errors
            .iter()
            .map(|e| e.text.as_str())
            .chain(self.cut_short.as_deref())
            .chain(panics)
            .chain(self.output_errors.iter().map(String::as_str))
    }

    /// Everything, with a line end.
    pub fn json(&self) -> String {
        format!("{:#}\n", self.value())
    }

    pub(crate) fn value(&self) -> Value {
        let a = &self.accounting;
        let mut flows = object(&flow_counts(&a.flows));
        flows.insert("networks_overflowed".into(), a.networks_overflowed.into());
        flows.insert("closed".into(), object(&closed(&a.flows)).into());
        let error = |e: &InputError| json!({"path": e.path, "offset": e.offset, "message": e.text, "after_packets": e.after_packets});
        json!({
            "query": self.query,
            "version": env!("CARGO_PKG_VERSION"),
            "format": SUMMARY_FORMAT,
            "complete": self.is_complete(),
            "errors": self.errors.iter().map(error).collect::<Vec<_>>(),
            "cut_short": self.cut_short,
            "panics": self.panics,
            "output_error": (!self.output_errors.is_empty()).then(|| self.output_errors.join("; ")),
            "limit_reached": self.limit_reached,
            "packets": {
                "received": a.received,
                "parsed": a.parsed,
                "filtered": object(&filtered(a)),
                "sampled_out": a.sampled_out,
                "dropped": a.dropped,
                "undecodable": object(&undecodable(a)),
                "adds_up": a.adds_up(),
            },
            "fragments": object(&fragment_counts(a)),
            "sampling": self.sampling.changes.iter().map(change).collect::<Vec<_>>(),
            "sampling_changes": self.sampling.count,
            "sampling_lowest": self.sampling.lowest,
            "source": {
                "packets": self.source.packets,
                "original_bytes": self.source.original_bytes,
                "captured_bytes": self.source.captured_bytes,
                "truncated_packets": self.source.truncated_packets,
                "lost_before_us": self.source.lost_before_us,
                "buffer_overflows": self.source.buffer_overflows,
                "nic_drops": self.source.nic_drops,
                "filtered": self.source.filtered,
                "clock": self.source.clock.map(Clock::name),
                "unstamped_packets": self.source.unstamped_packets,
            },
            "first_ts": self.seen.map(|s| s.0.0),
            "last_ts": self.seen.map(|s| s.1.0),
            "capture_loss": a.flows.capture_loss().share(),
            "flows": flows,
            "parsers": object(&parser_counts(&a.parsers)),
            "tuples": a.tuples,
            "replayed": self.replayed.map(|r| json!({
                "files": r.files, "bytes": r.bytes, "rows": r.rows, "rows_skipped": r.rows_skipped,
            })),
            "recorded": self.kept.map(|k| json!({
                "files": k.files, "rows": k.rows, "bytes": k.bytes, "rows_lost": k.rows_lost,
                "files_unfinished": k.files_unfinished, "rows_unfinished": k.rows_unfinished,
                "files_recovered": k.files_recovered, "rows_recovered": k.rows_recovered,
            })),
            "delivered": self.delivered.iter().map(|d| json!({
                "to": d.to, "rows": d.rows, "sent": d.sent, "lost": object(&d.lost), "counts": object(&d.counts),
                "problem": d.problem,
            })).collect::<Vec<_>>(),
            "packets_kept": self.packets_kept.map(|k| json!({
                "files": k.files, "packets": k.packets, "bytes": k.bytes, "packets_lost": k.packets_lost,
                "tuples_missed": k.tuples_missed,
            })),
            "stream": object(&stream_counts(&self.stream)),
            "taps": self.taps.map(|taps| object(&tap_counts(&taps))),
            "rows": self.rows,
            "epochs_cut": self.epochs_cut,
            "memory": self.memory.map(|memory| memory.json()),
            "elapsed_ns": u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX),
        })
    }

    fn traffic(&self) -> String {
        let bytes = units::bytes(self.source.original_bytes as f64);
        match self.seen {
            Some((first, last)) => {
                format!("{bytes} in {} of traffic", units::duration(last.since(first) as f64))
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

/// How much of the traffic the capture seems to lack, if any.
fn capture_loss(c: &flow::Counters) -> Option<String> {
    let bytes = units::bytes(c.acked_unseen_bytes as f64);
    (c.acked_unseen_bytes > 0)
        .then(|| format!("{}: {bytes} were acknowledged and not captured", percent(c.capture_loss().share())))
}

/// What SAMPLE auto did, if anything.
fn sampling(history: &History) -> Option<String> {
    let (lowest, last) = (history.lowest?, history.changes.back()?);
    Some(format!("changes of rate, lowest {}, last {}", percent(lowest), percent(last.rate)))
}

fn percent(rate: f64) -> String {
    format!("{:.3} %", rate * 100.0)
}

fn change(change: &Change) -> Value {
    let &Change { ts, worker, rate, backlog, lost } = change;
    json!({"ts": ts.0, "worker": worker, "rate": rate, "backlog": f64::from(backlog), "lost": lost})
}

fn filtered(a: &Accounting) -> Counts {
    let monitor::accounting::Filtered { address, direction, tap, early } = a.filtered;
    vec![("address", address), ("direction", direction), ("tap", tap), ("early", early)]
}

fn tap_counts(taps: &stream::TapCounts) -> Counts {
    let stream::TapCounts { joined, client_only, server_only, unkept } = *taps;
    vec![("joined", joined), ("client_only", client_only), ("server_only", server_only), ("unkept", unkept)]
}

fn fragment_counts(a: &Accounting) -> Counts {
    let monitor::fragments::Counters { reassembled, incomplete, evicted, overlaps, malformed } = a.fragments;
    vec![
        ("reassembled", reassembled),
        ("incomplete", incomplete),
        ("evicted", evicted),
        ("overlaps", overlaps),
        ("malformed", malformed),
    ]
}

fn losses(source: &capture::Counters) -> Counts {
    vec![("buffer_overflows", source.buffer_overflows)]
}

fn undecodable(a: &Accounting) -> Counts {
    Undecodable::ALL.iter().map(|cause| (cause.name(), a.undecodable[*cause as usize])).collect()
}

fn flow_counts(c: &flow::Counters) -> Counts {
    let flow::Counters {
        packets,
        opened,
        closed: _,
        terminated,
        gaps,
        gap_bytes,
        held_overflows,
        acks_disbelieved,
        held_bytes_peak,
        implausible,
        resyncs,
        resets_ignored,
        syns_ignored,
        acks_ignored,
        damaged,
        stragglers,
        duplicates,
        duplicates_ambiguous,
        stream_bytes,
        acked_unseen_bytes,
        unseen_direction_bytes,
        clock_rebases,
    } = *c;
    vec![
        ("opened", opened),
        ("packets", packets),
        ("terminated", terminated),
        ("gaps", gaps),
        ("gap_bytes", gap_bytes),
        ("held_overflows", held_overflows),
        ("acks_disbelieved", acks_disbelieved),
        ("held_bytes_peak", held_bytes_peak),
        ("implausible", implausible),
        ("resyncs", resyncs),
        ("resets_ignored", resets_ignored),
        ("syns_ignored", syns_ignored),
        ("acks_ignored", acks_ignored),
        ("damaged", damaged),
        ("stragglers", stragglers),
        ("duplicates", duplicates),
        ("duplicates_ambiguous", duplicates_ambiguous),
        ("stream_bytes", stream_bytes),
        ("acked_unseen_bytes", acked_unseen_bytes),
        ("unseen_direction_bytes", unseen_direction_bytes),
        ("clock_rebases", clock_rebases),
    ]
}

/// Of the flow table's counts those that say that something may be missing.
fn flow_trouble(c: &flow::Counters) -> Counts {
    let mut counts = flow_counts(c);
    counts.retain(|(name, _)| {
        !matches!(
            *name,
            "opened" | "packets" | "terminated" | "held_bytes_peak" | "stragglers" | "stream_bytes"
        )
    });
    counts.push(("evicted", c.closed_for(CloseReason::Evicted)));
    counts
}

fn closed(c: &flow::Counters) -> Counts {
    use CloseReason::*;
    [EndOfInput, Evicted, Fin, Idle, PortReused, Rst]
        .map(|reason| (reason.name(), c.closed_for(reason)))
        .to_vec()
}

fn parser_counts(c: &parsers::Counters) -> Counts {
    let parsers::Counters {
        malformed_messages,
        skipped_bytes,
        resyncs,
        oversized_heads,
        evicted_requests,
        encrypted_flows,
        compressed_flows,
        protected_messages,
        retransmitted_calls,
        repeated_replies,
        evicted_names,
        unchecked_blocks,
        parsed_bytes,
        copied_bytes,
    } = *c;
    vec![
        ("malformed_messages", malformed_messages),
        ("skipped_bytes", skipped_bytes),
        ("resyncs", resyncs),
        ("oversized_heads", oversized_heads),
        ("evicted_requests", evicted_requests),
        ("encrypted_flows", encrypted_flows),
        ("compressed_flows", compressed_flows),
        ("protected_messages", protected_messages),
        ("retransmitted_calls", retransmitted_calls),
        ("repeated_replies", repeated_replies),
        ("evicted_names", evicted_names),
        ("unchecked_blocks", unchecked_blocks),
        ("parsed_bytes", parsed_bytes),
        ("copied_bytes", copied_bytes),
    ]
}

/// Of the parsers' counts those that say that something was not as it should be.
fn parser_trouble(c: &parsers::Counters) -> Counts {
    let mut counts = parser_counts(c);
    counts.retain(|(name, _)| !matches!(*name, "parsed_bytes" | "copied_bytes"));
    counts
}

fn stream_counts(c: &stream::Counters) -> Counts {
    let stream::Counters {
        tuples_in,
        tuples_filtered,
        tuples_joined,
        tuples_null_value,
        tuples_late,
        groups_overflowed,
        windows_forced,
        empty_windows_skipped,
        sketches_coarsened,
        rates_merged,
        sums_saturated,
        rows_filtered,
        rows_beyond_limit,
        join_dropped,
        positions_forgotten,
        blocks_skipped,
        join_expired,
    } = *c;
    vec![
        ("tuples_in", tuples_in),
        ("tuples_filtered", tuples_filtered),
        ("tuples_joined", tuples_joined),
        ("tuples_null_value", tuples_null_value),
        ("tuples_late", tuples_late),
        ("groups_overflowed", groups_overflowed),
        ("windows_forced", windows_forced),
        ("empty_windows_skipped", empty_windows_skipped),
        ("sketches_coarsened", sketches_coarsened),
        ("rates_merged", rates_merged),
        ("sums_saturated", sums_saturated),
        ("rows_filtered", rows_filtered),
        ("rows_beyond_limit", rows_beyond_limit),
        ("join_dropped", join_dropped),
        ("positions_forgotten", positions_forgotten),
        ("blocks_skipped", blocks_skipped),
        ("join_expired", join_expired),
    ]
}

fn stream_trouble(c: &stream::Counters) -> Counts {
    let mut counts = stream_counts(c);
    counts.retain(|(name, _)| !matches!(*name, "tuples_in" | "join_expired"));
    counts
}

fn object(counts: &Counts) -> Map<String, Value> {
    counts.iter().map(|(name, n)| ((*name).to_owned(), Value::from(*n))).collect()
}

/// Those that are not zero: `not_ip 3, malformed 1`.
fn listed(counts: &Counts) -> String {
    let some: Vec<String> =
        counts.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
    some.join(", ")
}

fn aligned(lines: &[(&str, Option<u64>, String)]) -> String {
    let label_width = lines.iter().map(|l| l.0.len()).max().unwrap_or(0);
    let number = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
    let number_width = lines.iter().map(|l| number(l.1).len()).max().unwrap_or(0);
    let line = |(label, n, note): &(&str, Option<u64>, String)| {
        let line = format!("{label:label_width$}  {:>number_width$}  {note}", number(*n));
        format!("{}\n", line.trim_end())
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        let mut accounting = Accounting { received: 100, parsed: 90, tuples: 7, ..Accounting::default() };
        accounting.filtered.address = 6;
        accounting.undecodable[Undecodable::NotIp as usize] = 4;
        accounting.flows.opened = 3;
        accounting.parsers.resyncs = 2;
        Summary {
            query: "PARSE http".into(),
            accounting,
            source: capture::Counters {
                packets: 100,
                original_bytes: 123_456,
                captured_bytes: 100_000,
                lost_before_us: Some(12),
                buffer_overflows: 2,
                ..Default::default()
            },
            stream: stream::Counters { tuples_in: 7, tuples_late: 1, ..Default::default() },
            rows: 6,
            seen: Some((Timestamp(1_000_000_000), Timestamp(2_500_000_000))),
            memory: None,
            epochs_cut: 0,
            limit_reached: false,
            sampling: History::default(),
            errors: vec![InputError {
                path: "x.pcap".into(),
                offset: Some(9),
                text: "x.pcap: byte 9: cut".into(),
                after_packets: 100,
            }],
            cut_short: None,
            panics: Vec::new(),
            output_errors: Vec::new(),
            replayed: None,
            kept: None,
            delivered: Vec::new(),
            packets_kept: None,
            taps: None,
            elapsed: Duration::from_millis(50),
        }
    }

    #[test]
    fn a_text_for_people() {
        assert_eq!(
            summary().text(),
            "\
packets         100  123.5 kB in 1.50 s of traffic
  parsed         90
  filtered        6  address 6
  undecodable     4  not_ip 4
lost before us   12  buffer_overflows 2
flows             3
parsers              resyncs 2
tuples            7  tuples_late 1
rows              6
done in 50.0 ms: 2000 packets/s, 2.0 MB/s
"
        );
    }

    #[test]
    fn an_account_has_the_counts_by_name() {
        let plan =
            plan::Plan { query: String::new(), monitor: Default::default(), dataflow: Default::default() };
        let order = plan::message::JobOrder {
            job: 7,
            generation: 2,
            attempt: 1,
            plan,
            redaction: None,
            capture: plan::message::Capture::default(),
            packets_max: None,
            memory_max: 0,
            cpu_millis: 0,
            workers: 0,
            taps: plan::TapTable::default(),
            origin: tuple::Origin::default(),
        };
        let closing = summary().closing(&order, false);
        let count = |name| closing.count(name);
        assert_eq!((closing.job, closing.generation, closing.attempt), (7, 2, 1));
        assert_eq!(closing.end, plan::message::End::Input);
        for (name, n) in [
            ("packets.received", 100),
            ("packets.filtered.address", 6),
            ("packets.filtered.early", 0),
            ("packets.undecodable.not_ip", 4),
            ("source.lost_before_us", 12),
            ("flows.opened", 3),
            ("parsers.resyncs", 2),
            ("stream.tuples_late", 1),
            ("rows", 6),
        ] {
            assert_eq!(count(name), Some(n), "{name}");
        }
        assert_eq!((count("format"), count("first_ts"), count("replayed")), (None, None, None));
        assert_eq!((closing.seen, closing.errors.len()), (Some((1_000_000_000, 2_500_000_000)), 1));
        assert_eq!(plan::message::Closing::decode(&closing.encode()), Ok(closing));
    }

    #[test]
    fn rates_that_changed() {
        let mut summary = summary();
        for rate in [0.5, 0.25, 0.3] {
            let ts = Timestamp(2_000_000_000);
            summary.sampling.add(Change { ts, worker: 1, rate, backlog: 0.75, lost: 9 });
        }
        let line = "sampling          3  changes of rate, lowest 25.000 %, last 30.000 %\n";
        assert!(summary.text().contains(line), "{}", summary.text());
        let json: Value = serde_json::from_str(&summary.json()).expect("JSON");
        let first = json!({"ts": 2_000_000_000, "worker": 1, "rate": 0.5, "backlog": 0.75, "lost": 9});
        assert_eq!(json.pointer("/sampling/0"), Some(&first));
        assert_eq!(json.pointer("/sampling_changes"), Some(&json!(3)));
        assert_eq!(json.pointer("/sampling_lowest"), Some(&json!(0.25)));
    }

    #[test]
    fn numbers_that_do_not_add_up_are_a_bug() {
        let mut summary = summary();
        summary.accounting.received += 1;
        assert!(summary.text().contains("report that as a bug"));
    }

    #[test]
    fn everything_as_json() {
        let json: Value = serde_json::from_str(&summary().json()).expect("JSON");
        for (pointer, expected) in [
            ("/packets/received", json!(100)),
            ("/packets/undecodable/not_ip", json!(4)),
            ("/packets/adds_up", json!(true)),
            ("/stream/tuples_late", json!(1)),
            ("/flows/closed/fin", json!(0)),
            ("/first_ts", json!(1_000_000_000)),
            ("/errors/0/offset", json!(9)),
            ("/complete", json!(false)),
        ] {
            assert_eq!(json.pointer(pointer), Some(&expected), "{pointer}");
        }
    }
}
