//! The summary as JSON.

use capture::live::TimestampClock;
use monitor::sampling_control::RateChange;
use monitor::{ExportAccounting, ExporterState};
use serde_json::{Map, Value, json};

use super::counts::{
    Counts, closed, export_trouble, exports, filtered, flow_counts, fragments, parser_counts,
    protocols, stream_counts, tap_counts, tls_counts, undecodable,
};
use super::rate;
use super::{InputError, RunSummary, SUMMARY_FORMAT};
use crate::limits;

impl RunSummary {
    /// The complete summary, with a line break.
    pub fn json(&self) -> String {
        format!("{:#}\n", self.value())
    }

    pub(crate) fn value(&self) -> Value {
        let a = &self.accounting;
        let mut flows = object(&flow_counts(&a.flows));
        flows.insert("networks_overflowed".into(), a.networks_overflowed.into());
        flows.insert("cut_off".into(), a.cut_off.into());
        flows.insert("closed".into(), object(&closed(&a.flows)).into());
        let error = |e: &InputError| json!({"path": e.path, "offset": e.offset, "message": e.text, "after_packets": e.after_packets});
        let stretch =
            |(start_ns, end_ns): &(i64, i64)| json!({"start_ns": start_ns, "end_ns": end_ns});
        let silence = |s: &stream::EmptyWindows| json!({"windows": s.windows, "stretches": s.stretches.iter().map(stretch).collect::<Vec<_>>()});
        let mut value = json!({
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
                "strays": a.strays,
                "dropped": a.dropped,
                "undecodable": object(&undecodable(a)),
                "undecodable_protocols": protocols(a),
                "adds_up": a.adds_up(),
            },
            "fragments": object(&fragments(a)),
            "lacks": self.lacks,
            "sampling": self.sampling.changes.iter().map(change).collect::<Vec<_>>(),
            "sampling_changes": self.sampling.count,
            "sampling_lowest": self.sampling.lowest,
            "sampling_goal": self.regulated.as_ref().map(rate::json),
            "source": {
                "packets": self.source.packets,
                "original_bytes": self.source.original_bytes,
                "captured_bytes": self.source.captured_bytes,
                "truncated_packets": self.source.truncated_packets,
                "lost_before_us": self.source.lost_before_us,
                "buffer_overflows": self.source.buffer_overflows,
                "nic_drops": self.source.nic_drops,
                "filtered": self.source.filtered,
                "clock": self.source.clock.map(TimestampClock::name),
                "unstamped_packets": self.source.unstamped_packets,
                "nanosecond_fractions": self.source.nanosecond_fractions,
            },
            "first_ts": self.seen.map(|s| s.0.0),
            "last_ts": self.seen.map(|s| s.1.0),
            "capture_loss": a.flows.capture_loss().share(),
            "flows": flows,
            "parsers": object(&parser_counts(&a.parsers)),
            "tls": (a.tls != monitor::accounting::TlsAccounting::default()).then(|| tls_value(&a.tls)),
            "exports": (!a.exports.is_empty()).then(|| exports_value(&a.exports)),
            "tuples": a.tuples,
            "replayed": self.replayed().map(|r| json!({
                "files": r.files, "bytes": r.bytes, "rows": r.rows, "rows_skipped": r.rows_skipped,
            })),
            "published": self.published().map(|p| json!({
                "records": p.records, "bytes": p.bytes, "rows": p.rows, "malformed": p.malformed, "late": p.late,
                "hurried": p.hurried,
            })),
            "monitored": self.monitored().map(|m| json!({
                "packets": m.packets, "tuples": m.tuples, "lost": m.lost, "sampled_out": m.sampled_out,
                "cut_off": m.cut_off, "reports": m.reports, "bytes": m.bytes, "malformed": m.malformed,
            })),
            "sent": self.sent.as_ref().map(|s| json!({
                "records": s.records, "bytes": s.bytes, "acknowledged": s.acknowledged, "wire_bytes": s.wire_bytes,
                "dropped_full": s.dropped_full, "dropped_too_large": s.dropped_too_large, "dropped_refused": s.dropped_refused,
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
            "empty_windows": self.silences.iter().map(silence).collect::<Vec<_>>(),
            "taps": self.taps.map(|taps| object(&tap_counts(&taps))),
            "rows": self.rows,
            "epochs_cut": self.epochs_cut,
            "memory": self.memory.map(|memory| memory.json()),
            "elapsed_ns": u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX),
        });
        value["limits"] = limits::json(&value);
        value
    }
}

fn tls_value(of: &monitor::accounting::TlsAccounting) -> Value {
    let mut value = object(&tls_counts(of));
    value.insert("unsupported".into(), json!(of.unsupported));
    value.into()
}

fn exports_value(of: &ExportAccounting) -> Value {
    let exporter = |of: &ExporterState| {
        json!({
            "exporter": of.exporter, "protocol": of.protocol.name(), "domain": of.domain,
            "received": of.losses.received, "lost": of.losses.lost, "reordered": of.losses.reordered,
            "repeated": of.losses.repeated, "restarts": of.losses.restarts, "clock_offset_ns": of.clock_offset_ns,
        })
    };
    let mut value = object(&exports(of));
    value.extend(object(&export_trouble(of)));
    value.insert("loss".into(), of.loss.share().into());
    let exporters: Vec<Value> = of.exporters.iter().map(exporter).collect();
    value.insert("by_exporter".into(), exporters.into());
    value.into()
}

fn change(change: &RateChange) -> Value {
    let &RateChange {
        ts,
        worker,
        rate,
        backlog,
        lost,
        ceiling,
        copied,
    } = change;
    json!({
        "ts": ts.0, "worker": worker, "rate": rate, "backlog": f64::from(backlog), "lost": lost, "ceiling": ceiling,
        "copied": copied,
    })
}

fn object(counts: &Counts) -> Map<String, Value> {
    counts
        .iter()
        .map(|(name, n)| ((*name).to_owned(), Value::from(*n)))
        .collect()
}
