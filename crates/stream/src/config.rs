//! Configuration and counters of the engine. Every limit of the engine is here or in the dataflow (`groups_max`); every
//! loss to a limit has a counter.

use tuple::Redactor;

use crate::chosen::Chosen;
use crate::server_tap::ServerTap;

/// Seed of the hashes that show in results (replicates, estimates of `distinct`): the same in every run.
pub(crate) const RESULT_SEED: u64 = 0x6e65_7461_6c79_7469;

/// Bounds and the sampling rate. The defaults suit one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The share of flows that the tuples come from, 0 < p ≤ 1; below 1 the results are scaled and carry intervals.
    /// Tuples with `sample_rate` are scaled by that instead, each by its own.
    pub sample: f64,
    /// The seed by which these flows were drawn: another sample deals its flows into replicates anew.
    pub sample_seed: u64,
    /// Seed of the hash tables, so that senders of packets cannot target one bucket; results do not depend on it.
    /// Workers and their collector share it.
    pub seed: u64,
    /// Most tuples that wait for their partners, over all inputs of a join.
    pub join_rows_max: usize,
    /// Most bytes that they take.
    pub join_bytes_max: usize,
    /// A flow without a tuple for this long, in event time, leaves the join.
    pub join_idle_ns: i64,
    /// Most panes (a window, or its part between two slides) that a pipeline keeps open, unless size and lateness of
    /// its windows need more; the oldest windows beyond are emitted before their time.
    pub panes_max: usize,
    /// Most bytes, about, that all pipelines of an engine take for their windows, each an equal part of it. Where those
    /// of a pipeline take more, groups find no room, and the oldest windows are emitted before their time.
    pub window_bytes_max: usize,
    /// Most bytes of group keys that a pipeline holds; a quarter of its part of all at most.
    pub key_bytes_max: usize,
    /// Bytes of histograms and distinct sets of a pipeline above which they are made coarser, step by step; half of its
    /// part of all at most.
    pub sketch_bytes_max: usize,
    /// Different values that `distinct` holds exactly, for each group.
    pub distinct_exact_max: usize,
    /// Files, by connection and reads or writes, of which a profile knows where the last operation ended.
    pub positions_max: usize,
    /// Where the flows are noted whose tuples pass WHERE; the first input has [`Chosen::columns`] then.
    pub chosen: Option<Chosen>,
    /// What a tap nearer to the servers has seen of the same requests.
    pub server_tap: Option<ServerTap>,
    /// Folds the texts that leave with results, behind all conditions: of a worker whose results go to another machine. Workers
    /// of one job have one key, so that equal texts stay equal; who collects from them has none.
    pub redactor: Option<Redactor>,
    /// Most windows without a tuple, one after the other, of which a pipeline without groups gives rows. Of more there are
    /// none.
    pub empty_windows_max: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
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
        }
    }
}

/// Counters of tuples. Those after `tuples_joined` are counted per pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Tuples pushed.
    pub tuples_in: u64,
    /// Tuples (of a join: before or after it) that a predicate left out.
    pub tuples_filtered: u64,
    /// Tuples that a join made.
    pub tuples_joined: u64,
    /// Tuples left out because the required value was null.
    pub tuples_null_value: u64,
    /// Tuples all of whose windows had been emitted, or without a time.
    pub tuples_late: u64,
    /// Tuples whose group found no room: they went to the pool or took another group's place. Where the shares of
    /// workers find no room together, groups.
    pub groups_overflowed: u64,
    /// Windows emitted early because `panes_max` or `window_bytes_max` was reached.
    pub windows_forced: u64,
    /// Windows without a tuple that have no row because there were more than `empty_windows_max` of them.
    pub empty_windows_skipped: u64,
    /// Times that sketches were made coarser because `sketch_bytes_max` was reached.
    pub sketches_coarsened: u64,
    /// Times that there were more sampling rates in a pane than it tells apart, and tuples counted as sampled at the
    /// nearest of those.
    pub rates_merged: u64,
    /// Sums that left the range of their type and were cut to it.
    pub sums_saturated: u64,
    /// Rows of results that HAVING left out.
    pub rows_filtered: u64,
    /// Rows of results beyond LIMIT … ROWS.
    pub rows_beyond_limit: u64,
    /// Tuples that left a join for want of room, or had no id.
    pub join_dropped: u64,
    /// Files of which a profile forgot where the last operation ended, because there were too many.
    pub positions_forgotten: u64,
    /// Blocks that a profile left out because one operation claimed too many.
    pub blocks_skipped: u64,
    /// Tuples that left a join because their flow was idle; the ordinary end.
    pub join_expired: u64,
}

impl Counters {
    /// Adds another engine's counters.
    pub fn add(&mut self, other: &Counters) {
        let mut other = *other;
        let pairs = self.named().into_iter().zip(other.named());
        pairs.for_each(|((_, mine), (_, theirs))| *mine = mine.saturating_add(*theirs));
    }

    /// All of them with their names.
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
