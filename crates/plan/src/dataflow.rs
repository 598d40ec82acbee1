//! The only description of an analysis. The embedded engine runs it; other engines print it in their own language.
//!
//! Order of steps: every input is filtered by its own predicate; several inputs are joined by `id` (inner join; the
//! joined tuple's event time is the latest of its parts); columns are computed; the WHERE predicate; then each pipeline on its own. Without
//! pipelines the tuples themselves are the result, their columns and order those of [`RawRows`]. Comparisons with null are neither true nor false (SQL's
//! three-valued logic); a predicate keeps what is true.

use std::sync::Arc;

use tuple::{FieldId, Schema, Unit};

use crate::expr::{Column, Computed, Predicate};

/// An analysis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dataflow {
    /// The tuples that come in; joined by `id` when there are several.
    pub inputs: Vec<Input>,
    /// WHERE.
    pub filter: Option<Predicate>,
    /// PROCESS, in the order of the query.
    pub pipelines: Vec<Pipeline>,
    /// Columns computed of others. What filters an input reads none of them.
    pub computed: Vec<Computed>,
    /// Without PROCESS: how tuples are shown.
    pub rows: RawRows,
}

/// How tuples are shown that are the result themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawRows {
    /// SELECT: the columns in their order; `None`: all, in theirs.
    pub select: Option<Vec<Column>>,
    /// ORDER BY; empty: in the order of time. Null is less than everything.
    pub order: Vec<(Column, Direction)>,
    /// LIMIT n ROWS.
    pub rows_max: Option<u64>,
}

/// Which end comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The least.
    #[default]
    Ascending,
    /// The largest.
    Descending,
}

/// One parser's tuples.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Their schema.
    pub schema: Arc<Schema>,
    /// The columns that are there.
    pub columns: Vec<FieldId>,
    /// Which of them take part: with `diff` or a join, `tcp_conn_time` brings its ends only.
    pub filter: Option<Predicate>,
}

/// One processor of the query, fully decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// The processor's name as written: `diff-group`.
    pub name: String,
    /// What is aggregated; empty when only tuples are counted.
    pub values: Vec<Value>,
    /// With `diff`, which has one value: tuples whose value is null do not take part at all.
    pub value_required: bool,
    /// The group's columns; empty: one group of everything.
    pub group: Vec<GroupBy>,
    /// What is computed for each group and window, in the order of the output columns.
    pub aggregates: Vec<Aggregated>,
    /// Keep only the largest groups.
    pub top_k: Option<TopK>,
    /// `None`: one window, the whole run.
    pub window: Option<Window>,
    /// Most groups held exactly, over all open windows; of a profile most keys of each of its lists and windows.
    pub groups_max: usize,
    /// Which rows of a window are shown, and in which order.
    pub selection: Selection,
    /// A profile of the workload in place of groups and aggregates: there are none of those then.
    pub profile: Option<Profile>,
}

/// What a profile of a workload reads of a tuple, which tells of one operation. Without a column, what needs it is not
/// in the profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// What was done: text.
    pub operation: Column,
    /// Which operations read.
    pub reads: Predicate,
    /// Which write.
    pub writes: Predicate,
    /// Which did what they should.
    pub success: Option<Predicate>,
    /// How they ended; shown of those that failed.
    pub status: Option<Column>,
    /// A duration.
    pub response_time: Option<Column>,
    /// Bytes that a read moved.
    pub read_bytes: Option<Column>,
    /// Bytes that a write moved.
    pub write_bytes: Option<Column>,
    /// Bytes asked for; without it those that were moved.
    pub size: Option<Column>,
    /// First byte in the file.
    pub offset: Option<Column>,
    /// Which file.
    pub file: Option<Column>,
    /// Whether offset and size are multiples of a block.
    pub aligned: Option<Column>,
    /// Check-sums of the blocks read or written: hexadecimal digits, blanks between.
    pub checksums: Option<Column>,
    /// The objects that are ranked besides clients: files, keys, addresses.
    pub object: Option<Column>,
    /// Who asks.
    pub client: Column,
    /// How many of the hottest objects and clients are shown.
    pub k: usize,
    /// An operation is sequential when it begins at most this many times its own size away from the end of the one
    /// before.
    pub near: u64,
}

impl Profile {
    /// The columns that it reads, those of predicates aside.
    pub fn columns(&self) -> impl Iterator<Item = Column> {
        let optional = [
            self.status,
            self.response_time,
            self.read_bytes,
            self.write_bytes,
            self.size,
            self.offset,
            self.file,
            self.aligned,
            self.checksums,
            self.object,
        ];
        [self.operation, self.client].into_iter().chain(optional.into_iter().flatten())
    }

    /// Its predicates.
    pub fn predicates(&self) -> impl Iterator<Item = &Predicate> {
        [&self.reads, &self.writes].into_iter().chain(&self.success)
    }
}

/// The aggregated value: a column and what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// The column; numeric.
    pub column: Column,
    /// Its unit; the results of `avg`, `p95` … have the same.
    pub unit: Unit,
}

/// A column to group by, and its name in the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupBy {
    /// The column.
    pub column: Column,
    /// The result column's name.
    pub name: String,
}

/// A column of a result that is computed: what, and of what.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregated {
    /// What.
    pub aggregate: Aggregate,
    /// Index of the pipeline's value; ignored by aggregates without a value.
    pub value: usize,
    /// The column's name, where the query gives it one.
    pub name: Option<String>,
}

impl From<Aggregate> for Aggregated {
    /// Of the first value, under the usual name.
    fn from(aggregate: Aggregate) -> Aggregated {
        Aggregated { aggregate, value: 0, name: None }
    }
}

/// What is computed of a group's values. Nulls do not take part, as in SQL.
#[derive(Clone, Debug, PartialEq)]
pub enum Aggregate {
    /// Tuples.
    Count,
    /// Sum of the values.
    Sum,
    /// Mean.
    Avg,
    /// Least.
    Min,
    /// Largest.
    Max,
    /// Sample standard deviation (n − 1).
    Stddev,
    /// Tuples per second of the window (of the run from first to last tuple when there is no window).
    Rate,
    /// Different values of a column.
    Distinct(Column),
    /// A quantile, 0 to 1, within 1 % relative error.
    Quantile(f64),
    /// Counts by logarithmic bucket, 1 % relative error.
    Hist,
    /// The same, cumulated, as shares of the total.
    Cdf,
    /// Share of tuples for which the predicate is true among those for which it is true or false.
    Success(Predicate),
    /// The same of a predicate that the query gives.
    Ratio(Predicate),
    /// Sum of the values, per second as `Rate` is.
    Throughput,
    /// The group's part of the window's total over all groups, those that are not shown among them.
    Share(Total),
}

/// The total of which groups have shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    /// The number of tuples.
    Tuples,
    /// The sum of the values.
    Values,
}

impl Aggregate {
    /// Whether it looks at a value.
    #[must_use]
    pub fn takes_value(&self) -> bool {
        use Aggregate::{Avg, Cdf, Hist, Max, Min, Quantile, Share, Stddev, Sum, Throughput};
        match self {
            Sum | Avg | Min | Max | Stddev | Quantile(_) | Hist | Cdf | Throughput => true,
            Share(total) => *total == Total::Values,
            _ => false,
        }
    }

    /// Whether it depends on how long its window is.
    #[must_use]
    pub fn is_per_second(&self) -> bool {
        matches!(self, Aggregate::Rate | Aggregate::Throughput)
    }

    /// Whether its results are distributions, which have no order.
    #[must_use]
    pub fn is_distribution(&self) -> bool {
        matches!(self, Aggregate::Hist | Aggregate::Cdf)
    }
}

/// Which rows of a window are shown, and in which order: HAVING, ORDER BY and LIMIT … ROWS, in this order, after the
/// ranking. Columns are those of [`crate::result::schema`] without intervals, as of an only input. The row of all groups
/// that found no room is always shown, and last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Columns computed of those of the results, for conditions and keys; they are not shown.
    pub computed: Vec<Computed>,
    /// Rows for which it is true.
    pub having: Option<Predicate>,
    /// The first decides, the next where it is equal, and where all are the order without them.
    pub order_by: Vec<SortKey>,
    /// Maximum number of rows.
    pub rows_max: Option<usize>,
}

impl Selection {
    /// Whether every row is shown, in the usual order.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.having.is_none() && self.order_by.is_empty() && self.rows_max.is_none()
    }
}

/// A column to sort by. Null is less than everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The column.
    pub column: Column,
    /// Which way.
    pub direction: Direction,
}

/// Keep the `k` groups that are largest by one aggregate; ties by the group's key, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopK {
    /// How many.
    pub k: usize,
    /// Place in what the pipeline computes.
    pub by: usize,
}

/// Windows of event time (`ts_end`), aligned to the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Length.
    pub size_ns: i64,
    /// Distance between starts; equal to the length: tumbling; shorter: sliding.
    pub slide_ns: i64,
    /// How long after a window's end tuples are still taken.
    pub lateness_ns: i64,
}
