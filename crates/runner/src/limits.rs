//! Memory limits of a run: one table for the summary's text, its JSON and docs/limits.md. Only limits that change rows,
//! their order, or their number when reached.

use serde_json::{Map, Value, json};

/// Marks of rows affected by a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitMark {
    /// Rows of windows, or of the run, that overlap the period are `approximate`; for tuples it is in `quality`.
    Time,
    /// Rows of the groups, or of the ranking, are `approximate`, with an error bound if known.
    Group,
    /// No row has a wrong value: rows are missing or in another order.
    None,
}

/// A limit.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimit {
    /// Name, also the key in the summary's JSON.
    pub name: &'static str,
    /// Flag that sets it; none: fixed.
    pub flag: Option<&'static str>,
    /// Default, as in docs/limits.md.
    pub default: &'static str,
    /// Path of its counter in the summary's JSON.
    pub counter: &'static str,
    /// The counted event.
    pub event: &'static str,
    /// Marks of rows.
    pub mark: LimitMark,
}

const fn limit(
    name: &'static str,
    flag: Option<&'static str>,
    default: &'static str,
    counter: &'static str,
    event: &'static str,
    mark: LimitMark,
) -> MemoryLimit {
    MemoryLimit {
        name,
        flag,
        default,
        counter,
        event,
        mark,
    }
}

/// All limits.
pub const LIMITS: [MemoryLimit; 21] = [
    limit(
        "flows",
        Some("--flows-max"),
        "a quarter of `--memory-max`",
        "flows.closed.evicted",
        "flows evicted",
        LimitMark::Time,
    ),
    limit(
        "held_bytes",
        Some("--held-bytes-max"),
        "a sixteenth of `--memory-max`",
        "flows.held_overflows",
        "gaps declared early",
        LimitMark::Time,
    ),
    limit(
        "fragment_bytes",
        Some("--fragment-bytes-max"),
        "a 256th of `--memory-max`",
        "fragments.evicted",
        "datagrams evicted",
        LimitMark::Time,
    ),
    limit(
        "outstanding_requests",
        Some("--memory-max"),
        "131,072 for each connection, beyond 1,024 within an eighth of `--memory-max`; `--rpc-bytes-max`: 4M of ONC-RPC calls for each connection",
        "parsers.evicted_requests",
        "requests evicted",
        LimitMark::Time,
    ),
    limit(
        "prepared_statements",
        Some("--statement-bytes-max"),
        "8M for each MySQL or PostgreSQL connection; fixed for Cassandra: 16 MiB for all connections of a worker",
        "parsers.evicted_statements",
        "prepared statements evicted",
        LimitMark::Time,
    ),
    limit(
        "connections_remembered",
        Some("--flows-max"),
        "a quarter of `--memory-max`, together with flows",
        "flows.connections_forgotten",
        "idle connections dropped",
        LimitMark::None,
    ),
    limit(
        "message_heads",
        None,
        "64 KiB for each message head; of a compressed message of MongoDB or Cassandra, 1 MiB decompressed, or 256 times its length if less",
        "parsers.oversized_heads",
        "message heads truncated",
        LimitMark::Time,
    ),
    limit(
        "file_names",
        None,
        "fixed for each NFS client and server",
        "parsers.evicted_names",
        "file names evicted",
        LimitMark::Time,
    ),
    limit(
        "virtual_networks",
        None,
        "fixed",
        "flows.networks_overflowed",
        "packets not distinguished by virtual network",
        LimitMark::Time,
    ),
    limit(
        "joined_tuples",
        Some("--join-tuples-max"),
        "1,048,576; `--join-bytes-max`: an eighth of `--memory-max`",
        "stream.join_dropped",
        "tuples dropped from the join",
        LimitMark::Time,
    ),
    limit(
        "open_windows",
        Some("--window-bytes-max"),
        "an eighth of `--memory-max` or more",
        "stream.windows_forced",
        "windows closed early",
        LimitMark::Time,
    ),
    limit(
        "groups",
        Some("--groups-max"),
        "100,000 for each processor",
        "stream.groups_overflowed",
        "tuples or groups pooled",
        LimitMark::Group,
    ),
    limit(
        "sketches",
        Some("--window-bytes-max"),
        "half of the memory for windows",
        "stream.sketches_coarsened",
        "times that sketches were coarsened",
        LimitMark::Group,
    ),
    limit(
        "sampling_rates",
        None,
        "64 rates for each window",
        "stream.rates_merged",
        "sampling rates merged",
        LimitMark::Time,
    ),
    limit(
        "sums",
        None,
        "64 bits",
        "stream.sums_saturated",
        "sums limited to the range of their type",
        LimitMark::Group,
    ),
    limit(
        "file_positions",
        None,
        "262,144 files",
        "stream.positions_forgotten",
        "file positions evicted",
        LimitMark::Group,
    ),
    limit(
        "profile_blocks",
        None,
        "fixed for each operation",
        "stream.blocks_skipped",
        "blocks omitted from a profile",
        LimitMark::Time,
    ),
    limit(
        "empty_windows",
        Some("--empty-windows-max"),
        "1,000 in a row",
        "stream.empty_windows_skipped",
        "empty windows without a row",
        LimitMark::None,
    ),
    limit(
        "results_bytes",
        Some("--results-bytes-max"),
        "an eighth of `--memory-max`, a quarter for tuples",
        "epochs_cut",
        "epochs whose rows may be out of order",
        LimitMark::None,
    ),
    limit(
        "tls_keys",
        None,
        "131,072 connections",
        "tls.keys_evicted",
        "connections whose keys were evicted",
        LimitMark::None,
    ),
    limit(
        "kept_packets",
        Some("--look-back-bytes-max"),
        "a 32nd of `--memory-max`; `--kept-flows-max`: 1,048,576",
        "packets_kept.tuples_missed",
        "tuples whose packets were not kept",
        LimitMark::None,
    ),
];

impl MemoryLimit {
    /// Value of its counter in a summary.
    #[must_use]
    pub fn count(&self, summary: &Value) -> u64 {
        let pointer = format!("/{}", self.counter.replace('.', "/"));
        summary
            .pointer(&pointer)
            .and_then(Value::as_u64)
            .unwrap_or(0)
    }

    /// Note for people in the summary.
    #[must_use]
    pub fn note(&self) -> String {
        let effect = match self.mark {
            LimitMark::Time => "; rows of that time are approximate",
            LimitMark::Group => "; their rows are approximate",
            LimitMark::None => "",
        };
        let advice = self
            .flag
            .map(|flag| format!(" ({flag} raises the limit)"))
            .unwrap_or_default();
        format!("{}: {}{effect}{advice}", self.name, self.event)
    }
}

/// All limits by name, with flag and count.
#[must_use]
pub fn json(summary: &Value) -> Value {
    let one = |limit: &MemoryLimit| {
        (
            limit.name.to_owned(),
            json!({ "flag": limit.flag, "count": limit.count(summary) }),
        )
    };
    Value::Object(LIMITS.iter().map(one).collect::<Map<_, _>>())
}

/// Limits that took effect, with their counts.
pub fn reached(summary: &Value) -> impl Iterator<Item = (&'static MemoryLimit, u64)> {
    LIMITS
        .iter()
        .map(|limit| (limit, limit.count(summary)))
        .filter(|(_, count)| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/limits.md has a line for every limit, and no other.
    #[test]
    fn the_page_has_every_limit() {
        let page = include_str!("../../../docs/limits.md");
        let lines: Vec<Vec<&str>> = page
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
            .collect();
        assert_eq!(lines.len(), LIMITS.len());
        for (limit, line) in LIMITS.iter().zip(&lines) {
            let flag = limit
                .flag
                .map_or("fixed".to_owned(), |flag| format!("`{flag}`"));
            let counter = format!("`{}`: {}", limit.counter, limit.event);
            let name = format!("`{}`", limit.name);
            assert_eq!(
                (line[0], line[1], line[2], line[4]),
                (&*name, &*flag, limit.default, &*counter)
            );
            assert_eq!(
                line[3].starts_with("none"),
                limit.mark == LimitMark::None,
                "{name}"
            );
        }
    }

    #[test]
    fn names_and_counters_are_unique() {
        for (n, limit) in LIMITS.iter().enumerate() {
            let same =
                |other: &MemoryLimit| other.name == limit.name || other.counter == limit.counter;
            assert!(!LIMITS[..n].iter().any(same), "{}", limit.name);
        }
    }

    #[test]
    fn a_limit_without_its_counter_was_not_reached() {
        let summary = json!({ "flows": { "closed": { "evicted": 3 }, "held_overflows": "x" } });
        let reached: Vec<_> = reached(&summary)
            .map(|(limit, count)| (limit.name, count))
            .collect();
        assert_eq!(reached, [("flows", 3)]);
        assert_eq!(super::reached(&Value::Null).count(), 0);
    }

    #[test]
    fn notes_name_the_effect_and_the_flag() {
        let note = |name| {
            LIMITS
                .iter()
                .find(|limit| limit.name == name)
                .expect("a limit")
                .note()
        };
        assert_eq!(
            note("sums"),
            "sums: sums limited to the range of their type; their rows are approximate"
        );
        assert_eq!(
            note("empty_windows"),
            "empty_windows: empty windows without a row (--empty-windows-max raises the limit)"
        );
        assert_eq!(
            note("message_heads"),
            "message_heads: message heads truncated; rows of that time are approximate"
        );
    }

    #[test]
    fn all_limits_are_in_json() {
        let all = super::json(&json!({ "epochs_cut": 2 }));
        assert_eq!(all.as_object().expect("an object").len(), LIMITS.len());
        assert_eq!(
            all["results_bytes"],
            json!({ "flag": "--results-bytes-max", "count": 2 })
        );
        assert_eq!(all["sums"], json!({ "flag": null, "count": 0 }));
    }
}
