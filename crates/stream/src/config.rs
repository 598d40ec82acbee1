//! Configuration and counters of the engine. Every limit of the engine is defined here or in the dataflow
//! (`groups_max`). Every loss caused by a limit has a counter.

use tuple::Redactor;

use crate::precision::PrecisionLog;
use crate::selected_flows::SelectedFlows;
use crate::server_tap::ServerTap;

/// Limits and the sampling rate. The defaults suit one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineConfig {
    /// Sampling rate of the flows, 0 < p ≤ 1. Below 1, results are scaled and have intervals. Tuples with
    /// `sample_rate` are scaled by their own rate.
    pub sample: f64,
    /// Seed of the flow sample. A different sample assigns flows to replicates differently.
    pub sample_seed: u64,
    /// Seed of the hash tables, which prevents collision attacks by crafted packets. Results do not depend on it.
    /// Workers and their collector share it.
    pub seed: u64,
    /// Maximum tuples waiting in a join, over all its inputs.
    pub join_rows_max: usize,
    /// Maximum bytes of waiting tuples.
    pub join_bytes_max: usize,
    /// Event time after which a flow without tuples is evicted from the join.
    pub join_idle_ns: i64,
    /// Maximum open panes (a window, or its part between two slides) per pipeline, unless the size and lateness of
    /// its windows require more. Beyond it, the oldest windows are emitted early.
    pub panes_max: usize,
    /// Approximate maximum bytes for the windows of all pipelines, divided equally between them. Beyond its share, a
    /// pipeline admits no new groups and emits the oldest windows early.
    pub window_bytes_max: usize,
    /// Maximum bytes of group keys per pipeline, at most a quarter of its share of `window_bytes_max`.
    pub key_bytes_max: usize,
    /// Bytes of histograms and distinct sets per pipeline above which their resolution is reduced step by step. At
    /// most half of the pipeline's share of `window_bytes_max`.
    pub sketch_bytes_max: usize,
    /// Maximum distinct values that `distinct` stores exactly per group.
    pub distinct_exact_max: usize,
    /// Maximum files, by connection and operation type (read or write), with a known end of the last operation in a
    /// profile.
    pub positions_max: usize,
    /// Records the flows of tuples that pass WHERE. If set, the first input must have the columns
    /// [`SelectedFlows::columns`].
    pub chosen: Option<SelectedFlows>,
    /// Observations of the same requests by a tap closer to the servers.
    pub server_tap: Option<ServerTap>,
    /// Redacts texts in results that leave for another machine, after all conditions are evaluated; used by workers.
    /// All workers of a job share one key, so that equal texts stay equal. `None` in their collector.
    pub redactor: Option<Redactor>,
    /// Maximum consecutive empty windows for which a pipeline without groups emits rows. A longer sequence has no
    /// rows.
    pub empty_windows_max: u64,
    /// Records the precision of sampled windows, and adds the columns of the error to their rows.
    pub precision: Option<PrecisionLog>,
}

impl Default for EngineConfig {
    fn default() -> EngineConfig {
        EngineConfig {
            sample: 1.0,
            sample_seed: 0,
            seed: 0,
            join_rows_max: 1 << 20,
            join_bytes_max: 256 << 20,
            join_idle_ns: 300_000_000_000,
            panes_max: 8192,
            window_bytes_max: 512 << 20,
            key_bytes_max: 64 << 20,
            sketch_bytes_max: 256 << 20,
            distinct_exact_max: 1024,
            positions_max: 1 << 18,
            chosen: None,
            server_tap: None,
            redactor: None,
            empty_windows_max: 1000,
            precision: None,
        }
    }
}

/// Tuple counters. The counters after `tuples_joined` are per pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// Tuples pushed.
    pub tuples_in: u64,
    /// Tuples rejected by a predicate, before or after a join.
    pub tuples_filtered: u64,
    /// Tuples produced by a join.
    pub tuples_joined: u64,
    /// Tuples skipped because the required value was null.
    pub tuples_null_value: u64,
    /// Tuples without a time, or with all their windows already emitted.
    pub tuples_late: u64,
    /// Tuples without room for their group, added to the pool or to an evicted group's slot. When merged shares of
    /// workers exceed the limit, groups are counted.
    pub groups_overflowed: u64,
    /// Windows emitted early because `panes_max` or `window_bytes_max` was reached.
    pub windows_forced: u64,
    /// Empty windows without a row because their number exceeded `empty_windows_max`.
    pub empty_windows_skipped: u64,
    /// Reductions of sketch resolution because `sketch_bytes_max` was reached.
    pub sketches_coarsened: u64,
    /// Occurrences of too many sampling rates in one pane; the tuples were counted at the nearest stored rate.
    pub rates_merged: u64,
    /// Sums that were clamped to the range of their type.
    pub sums_saturated: u64,
    /// Result rows rejected by HAVING.
    pub rows_filtered: u64,
    /// Result rows beyond LIMIT … ROWS.
    pub rows_beyond_limit: u64,
    /// Tuples dropped from a join because of its limits, or without an ID.
    pub join_dropped: u64,
    /// Files with a forgotten end position because a profile reached `positions_max`.
    pub positions_forgotten: u64,
    /// Blocks skipped by a profile because one operation covered too many.
    pub blocks_skipped: u64,
    /// Tuples that left a join because their flow was idle, which is the normal case.
    pub join_expired: u64,
}

impl EngineCounters {
    /// Adds another engine's counters.
    pub fn add(&mut self, other: &EngineCounters) {
        let mut other = *other;
        let pairs = self.named().into_iter().zip(other.named());
        pairs.for_each(|((_, mine), (_, theirs))| *mine = mine.saturating_add(*theirs));
    }

    /// All counters with their names.
    pub(crate) fn named(&mut self) -> [(&'static str, &mut u64); 17] {
        [
            ("tuples_in", &mut self.tuples_in),
            ("tuples_filtered", &mut self.tuples_filtered),
            ("tuples_joined", &mut self.tuples_joined),
            ("tuples_null_value", &mut self.tuples_null_value),
            ("tuples_late", &mut self.tuples_late),
            ("groups_overflowed", &mut self.groups_overflowed),
            ("windows_forced", &mut self.windows_forced),
            ("empty_windows_skipped", &mut self.empty_windows_skipped),
            ("sketches_coarsened", &mut self.sketches_coarsened),
            ("rates_merged", &mut self.rates_merged),
            ("sums_saturated", &mut self.sums_saturated),
            ("rows_filtered", &mut self.rows_filtered),
            ("rows_beyond_limit", &mut self.rows_beyond_limit),
            ("join_dropped", &mut self.join_dropped),
            ("positions_forgotten", &mut self.positions_forgotten),
            ("blocks_skipped", &mut self.blocks_skipped),
            ("join_expired", &mut self.join_expired),
        ]
    }
}
