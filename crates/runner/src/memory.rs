//! Division of the memory limit among the parts of a run. An explicit limit of a part overrides its share. The parts
//! enforce their limits.

use std::fmt;

use flow::FlowBudget;
use plan::{ParserUse, Plan};
use serde_json::{Value, json};
use sinks::units;

/// Default memory limit.
pub const DEFAULT: usize = 1 << 30;
/// Minimum memory limit, in bytes.
pub const LEAST: usize = 64 << 20;
/// Bytes of a flow without a parser. With a parser it takes about a kilobyte; actual use is counted.
const FLOW_BYTES: usize = 256;

/// Kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowWriting {
    /// Row by row.
    AtOnce,
    /// In row groups of Parquet.
    InRowGroups,
}

/// Configured limits; all others are shares of `max`.
#[derive(Clone, Debug, Default)]
pub struct MemoryLimits {
    /// Total in bytes; default [`DEFAULT`].
    pub max: Option<usize>,
    /// Maximum concurrent flows.
    pub flows_max: Option<usize>,
    /// As in [`MemoryDivision`], as are the following.
    pub held_bytes: Option<usize>,
    /// IP fragments, in bytes.
    pub fragment_bytes: Option<usize>,
    /// Results, in bytes.
    pub results_bytes: Option<usize>,
    /// Windows, in bytes.
    pub window_bytes: Option<usize>,
    /// Tuples that wait for a join, in bytes.
    pub join_bytes: Option<usize>,
    /// Limits of the monitor outside this memory.
    pub monitor: monitor::MonitorConfig,
    /// Limits of the engine.
    pub stream: stream::EngineConfig,
}

/// The division. Each number is for all workers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryDivision {
    /// Total in bytes.
    pub max: usize,
    /// Maximum concurrent flows without a parser: a quarter.
    pub flows_max: usize,
    /// Maximum bytes of flows; none if their number was given.
    pub flow_bytes: Option<usize>,
    /// Out-of-order bytes of connections: a sixteenth.
    pub held_bytes: usize,
    /// IP fragments that wait for others: a 256th.
    pub fragment_bytes: usize,
    /// Requests that wait for their responses, beyond the space of each connection: an eighth.
    pub outstanding_bytes: usize,
    /// Rows and closed windows that wait for other workers or for the output: an eighth; a quarter if the rows are
    /// tuples.
    pub results_bytes: usize,
    /// Open windows, their groups and sketches: an eighth, and the unused shares of joins and row groups.
    pub window_bytes: usize,
    /// Tuples that wait for a join: an eighth if the query has several parsers or two taps, otherwise none.
    pub join_bytes: usize,
    /// Row groups of Parquet: an eighth if the run writes any, otherwise none.
    pub row_group_bytes: usize,
}

impl MemoryDivision {
    /// Divides the memory among the parts of a plan.
    pub fn divide(limits: &MemoryLimits, plan: &Plan, writing: RowWriting) -> MemoryDivision {
        let max = limits.max.unwrap_or(DEFAULT);
        let eighth = max / 8;
        let waits = plan.dataflow.inputs.len() > 1
            || plan.monitor.parsers.iter().any(ParserUse::reads_two_taps);
        let join_bytes = if waits { eighth } else { 0 };
        let row_group_bytes = if writing == RowWriting::InRowGroups {
            eighth
        } else {
            0
        };
        let rest = max / 2 - join_bytes - row_group_bytes;
        let (results_bytes, window_bytes) = if !plan.dataflow.pipelines.is_empty() {
            (eighth, rest - eighth)
        } else if !plan.dataflow.rows.order.is_empty() {
            // Rows that wait for ORDER BY use the share of windows.
            (eighth, eighth)
        } else {
            (2 * eighth, 0)
        };
        MemoryDivision {
            max,
            flows_max: limits.flows_max.unwrap_or(max / 4 / FLOW_BYTES),
            flow_bytes: limits.flows_max.is_none().then_some(max / 4),
            held_bytes: limits.held_bytes.unwrap_or(max / 16),
            fragment_bytes: limits.fragment_bytes.unwrap_or(max / 256),
            outstanding_bytes: eighth,
            results_bytes: limits.results_bytes.unwrap_or(results_bytes),
            window_bytes: limits.window_bytes.unwrap_or(window_bytes),
            join_bytes: limits.join_bytes.unwrap_or(join_bytes),
            row_group_bytes,
        }
    }

    /// Configuration of a job's threads.
    pub fn config(&self, limits: &MemoryLimits) -> monitor::job::JobConfig {
        let monitor = &limits.monitor;
        let stream = &limits.stream;
        monitor::job::JobConfig {
            monitor: monitor::MonitorConfig {
                fragment_bytes_max: self.fragment_bytes,
                parsers: monitor.parsers,
                outstanding: parsers::pairing::OutstandingBudget::of_bytes(self.outstanding_bytes),
                taps: monitor.taps.clone(),
                slice: monitor.slice.clone(),
                exports: monitor.exports.clone(),
                keys: monitor.keys.clone(),
                origin: monitor.origin.clone(),
                flow: flow::FlowTableConfig {
                    room: self.flow_bytes.map_or_else(
                        || FlowBudget::of_flows(self.flows_max),
                        FlowBudget::of_bytes,
                    ),
                    held_bytes_max: self.held_bytes,
                    ..monitor.flow.clone()
                },
            },
            stream: stream::EngineConfig {
                window_bytes_max: self.window_bytes,
                join_bytes_max: self.join_bytes,
                ..stream.clone()
            },
            results_bytes_max: self.results_bytes,
            ..monitor::job::JobConfig::default()
        }
    }

    /// The division as JSON, for the summary.
    pub fn json(&self) -> Value {
        let MemoryDivision {
            max,
            flows_max,
            flow_bytes,
            held_bytes,
            fragment_bytes,
            outstanding_bytes,
            results_bytes,
            window_bytes,
            join_bytes,
            row_group_bytes,
        } = *self;
        json!({
            "max": max, "flows_max": flows_max, "flow_bytes_max": flow_bytes, "held_bytes_max": held_bytes,
            "fragment_bytes_max": fragment_bytes, "outstanding_bytes_max": outstanding_bytes,
            "results_bytes_max": results_bytes,
            "window_bytes_max": window_bytes, "join_bytes_max": join_bytes,
            "row_group_bytes_max": row_group_bytes,
        })
    }
}

impl fmt::Display for MemoryDivision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "memory: {}, of which {} flows",
            units::bytes(self.max as f64),
            self.flows_max
        )?;
        let parts = [
            ("bytes of connections", self.held_bytes),
            ("fragments", self.fragment_bytes),
            ("outstanding requests", self.outstanding_bytes),
            ("results", self.results_bytes),
            ("windows", self.window_bytes),
            ("joins", self.join_bytes),
            ("row groups", self.row_group_bytes),
        ];
        parts
            .iter()
            .filter(|(_, bytes)| *bytes > 0)
            .try_for_each(|(what, bytes)| write!(f, ", {what} {}", units::bytes(*bytes as f64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(limits: &MemoryLimits, query: &str, writing: RowWriting) -> MemoryDivision {
        let checked = query::check(query, &parsers::registry::schemas(), &());
        MemoryDivision::divide(limits, &planner::lower(&checked.expect("a query")), writing)
    }

    fn of(max: usize) -> MemoryLimits {
        MemoryLimits {
            max: Some(max),
            ..MemoryLimits::default()
        }
    }

    fn bytes_of(memory: &MemoryDivision) -> usize {
        let MemoryDivision {
            held_bytes,
            fragment_bytes,
            results_bytes,
            window_bytes,
            ..
        } = *memory;
        let rest = memory.flows_max * FLOW_BYTES
            + memory.outstanding_bytes
            + memory.join_bytes
            + memory.row_group_bytes;
        held_bytes + fragment_bytes + results_bytes + window_bytes + rest
    }

    #[test]
    fn the_parts_are_less_than_the_whole() {
        for query in [
            "PARSE http",
            "PARSE http ORDER BY response_time_ns DESC LIMIT 5 ROWS",
            "PARSE http PROCESS (diff-group: w=1s)",
            "PARSE tcp_conn_time, http PROCESS (count)",
        ] {
            for writing in [RowWriting::AtOnce, RowWriting::InRowGroups] {
                for limits in [MemoryLimits::default(), of(LEAST), of(5 << 30)] {
                    let memory = check(&limits, query, writing);
                    assert!(bytes_of(&memory) <= memory.max, "{query} {memory:?}");
                    assert!(bytes_of(&memory) > memory.max / 2, "{query} {memory:?}");
                }
            }
        }
    }

    #[test]
    fn explicit_limits_override_shares() {
        let memory = check(&of(256 << 20), "PARSE http", RowWriting::AtOnce);
        assert_eq!(
            (memory.flows_max, memory.held_bytes, memory.fragment_bytes),
            (1 << 18, 16 << 20, 1 << 20)
        );
        let limits = MemoryLimits {
            flows_max: Some(7),
            results_bytes: Some(8 << 20),
            ..of(256 << 20)
        };
        let other = check(&limits, "PARSE http", RowWriting::AtOnce);
        assert_eq!(
            (other.flows_max, other.results_bytes, other.held_bytes),
            (7, 8 << 20, 16 << 20)
        );
    }

    #[test]
    fn joins_and_row_groups_reduce_the_windows() {
        let windows = |query: &str, writing| check(&of(800), query, writing).window_bytes;
        let count = "PARSE http PROCESS (count)";
        let joined = "PARSE tcp_conn_time, http PROCESS (count)";
        assert_eq!(windows(count, RowWriting::AtOnce), 300);
        assert_eq!(windows(count, RowWriting::InRowGroups), 200);
        assert_eq!(windows(joined, RowWriting::AtOnce), 200);
        assert_eq!(windows(joined, RowWriting::InRowGroups), 100);
    }

    #[test]
    fn tuples_use_the_share_of_windows_unless_they_are_sorted() {
        let shares = |query: &str| {
            let memory = check(&of(800), query, RowWriting::AtOnce);
            (memory.results_bytes, memory.window_bytes)
        };
        assert_eq!(shares("PARSE http"), (200, 0));
        assert_eq!(shares("PARSE http ORDER BY ts LIMIT 5 ROWS"), (100, 100));
    }

    /// A number of flows replaces their limit in bytes.
    #[test]
    fn flows_are_limited_by_number_or_by_bytes() {
        let by_bytes = check(&of(1 << 30), "PARSE http", RowWriting::AtOnce);
        assert_eq!(
            (by_bytes.flows_max, by_bytes.flow_bytes),
            (1 << 20, Some(1 << 28))
        );
        let limits = MemoryLimits {
            flows_max: Some(1000),
            ..of(1 << 30)
        };
        let by_number = check(&limits, "PARSE http", RowWriting::AtOnce);
        assert_eq!((by_number.flows_max, by_number.flow_bytes), (1000, None));
        let config = by_number.config(&limits);
        assert_eq!(config.results_bytes_max, by_number.results_bytes);
        assert_eq!(config.stream.window_bytes_max, by_number.window_bytes);
        assert_eq!(config.monitor.fragment_bytes_max, by_number.fragment_bytes);
    }

    #[test]
    fn the_summary_has_every_part() {
        let memory = check(
            &of(1 << 30),
            "PARSE tcp_conn_time, http PROCESS (count)",
            RowWriting::InRowGroups,
        );
        let json = memory.json();
        let numbers = json
            .as_object()
            .expect("an object")
            .values()
            .filter_map(Value::as_u64);
        // The total, the number of flows, and their bytes.
        let parts: u64 = numbers.sum::<u64>() - (1 << 30) - (1 << 20) - (1 << 28);
        assert_eq!(
            parts,
            bytes_of(&memory) as u64 - (1 << 20) * FLOW_BYTES as u64
        );
        let text = memory.to_string();
        assert!(
            text.starts_with("memory: 1.07 GB, of which 1048576 flows") || text.contains("flows"),
            "{text}"
        );
        assert!(
            text.contains("joins") && text.contains("row groups"),
            "{text}"
        );
        let alone = check(&of(1 << 30), "PARSE http", RowWriting::AtOnce).to_string();
        assert!(
            !alone.contains("joins") && !alone.contains("row groups"),
            "parts without memory: {alone}"
        );
    }

    /// Any limit, also one that is not a multiple of the shares.
    #[test]
    fn no_limit_is_divided_into_more_than_it_has() {
        for max in [
            0,
            1,
            7,
            8,
            255,
            256,
            1000,
            1023,
            LEAST - 1,
            usize::MAX / 2,
            usize::MAX,
        ] {
            for query in ["PARSE http", "PARSE tcp_conn_time, http PROCESS (count)"] {
                for writing in [RowWriting::AtOnce, RowWriting::InRowGroups] {
                    let memory = check(&of(max), query, writing);
                    assert!(bytes_of(&memory) <= max, "{max} {memory:?}");
                }
            }
        }
    }

    #[test]
    fn the_greatest_explicit_limits_are_no_overflow() {
        let limits = MemoryLimits {
            flows_max: Some(usize::MAX),
            held_bytes: Some(usize::MAX),
            window_bytes: Some(usize::MAX),
            join_bytes: Some(usize::MAX),
            ..of(usize::MAX)
        };
        let memory = check(&limits, "PARSE http PROCESS (count)", RowWriting::AtOnce);
        let config = memory.config(&limits);
        assert_eq!(config.stream.window_bytes_max, usize::MAX);
        assert_eq!(config.monitor.flow.room.flows_max(), Some(usize::MAX));
    }
}
