//! The description of an analysis. The embedded engine executes it; other engines translate it to their language.
//!
//! Order of steps: every input is filtered by its own predicate; several inputs are joined by `id` (inner join; the
//! event time of a joined tuple is the maximum of its parts); columns are computed; the WHERE predicate is applied;
//! each pipeline runs separately. Without pipelines the tuples are the result, with columns and order from
//! [`RawRows`]. Comparisons with null are neither true nor false (SQL's three-valued logic); a predicate selects
//! tuples for which it is true.

use std::sync::Arc;

use tuple::{FieldId, Schema, Unit, common};

use crate::expr::{Column, ComputedField, Predicate};

/// An analysis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dataflow {
    /// Input tuples; several inputs are joined by `id`.
    pub inputs: Vec<DataflowInput>,
    /// WHERE.
    pub filter: Option<Predicate>,
    /// PROCESS, in the order of the query.
    pub pipelines: Vec<Pipeline>,
    /// Computed columns. Input filters read none of them.
    pub computed: Vec<ComputedField>,
    /// Output of tuples without PROCESS.
    pub rows: RawRows,
}

/// Meaning of a tuple's sampling rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampledUnit {
    /// The tuple is one of a sample: it stands for 1/rate tuples.
    Tuples,
    /// The tuple's counters are estimates from a sample of packets, already scaled by 1/rate.
    Counters,
}

impl Dataflow {
    /// The column of the first input with the sampling rate of each tuple, if the rate is not the same for all.
    #[must_use]
    pub fn rates(&self) -> Option<(FieldId, SampledUnit)> {
        let input = self.inputs.first()?;
        let counters = || {
            let name = input.schema.facts.counter_rate?;
            Some((input.schema.find(name)?, SampledUnit::Counters))
        };
        [Some((common::SAMPLE_RATE, SampledUnit::Tuples)), counters()]
            .into_iter()
            .flatten()
            .find(|(field, _)| input.columns.contains(field))
    }

    /// The dataflow with at most `max` groups per pipeline.
    #[must_use]
    pub fn with_groups_max(mut self, max: Option<usize>) -> Dataflow {
        let max = max.unwrap_or(usize::MAX);
        self.pipelines
            .iter_mut()
            .for_each(|pipeline| pipeline.groups_max = pipeline.groups_max.min(max));
        self
    }

    /// The part of the dataflow that yields the tuples for a comparison of two periods: with the join, and with filters
    /// that need no computed column.
    #[must_use]
    pub fn tuples(&self) -> Dataflow {
        let reads_computed = |predicate: &Predicate| {
            let mut any = false;
            predicate.columns(&mut |column| any |= column.computed_place().is_some());
            any
        };
        Dataflow {
            inputs: self.inputs.clone(),
            filter: self.filter.clone().filter(|filter| !reads_computed(filter)),
            pipelines: Vec::new(),
            computed: Vec::new(),
            rows: RawRows::default(),
        }
    }
}

/// Output of tuples that are the result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawRows {
    /// SELECT: the columns in order; `None` for all columns in the order of the schema.
    pub select: Option<Vec<Column>>,
    /// ORDER BY; if empty, ordered by time. Null is the smallest value.
    pub order: Vec<(Column, SortDirection)>,
    /// LIMIT n ROWS.
    pub rows_max: Option<u64>,
}

/// Sort direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortDirection {
    /// Smallest first.
    #[default]
    Ascending,
    /// Largest first.
    Descending,
}

/// Tuples of one parser.
#[derive(Clone, Debug, PartialEq)]
pub struct DataflowInput {
    /// Schema of the tuples.
    pub schema: Arc<Schema>,
    /// The columns present.
    pub columns: Vec<FieldId>,
    /// Condition for tuples to be processed. With `diff` or a join, `tcp_conn_time` uses only tuples at the end of
    /// connections.
    pub filter: Option<Predicate>,
}

/// A processor of the query, fully specified.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// Name of the processor as written, for example `diff-group`.
    pub name: String,
    /// The aggregated values; empty if only tuples are counted.
    pub values: Vec<AggregatedValue>,
    /// Set for `diff`, whose difference is the first value: tuples for which it is null are skipped.
    pub value_required: bool,
    /// The group columns; if empty, all tuples form a single group.
    pub group: Vec<GroupBy>,
    /// The aggregates per group and window, in the order of the output columns.
    pub aggregates: Vec<AggregateColumn>,
    /// Output only the largest groups.
    pub top_k: Option<TopK>,
    /// `None` for a single window over the whole run.
    pub window: Option<Window>,
    /// Maximum exact groups over all open windows; for a profile, the maximum keys per list and window.
    pub groups_max: usize,
    /// The rows of a window to output, and their order.
    pub selection: ResultSelection,
    /// A profile of the workload, used instead of groups and aggregates, which are then empty.
    pub profile: Option<ProfileSpec>,
}

/// The columns that a profile of a workload reads from a tuple, which represents one operation. Without a column, the
/// sections that need it are omitted.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileSpec {
    /// Name of the operation: text.
    pub operation: Column,
    /// Condition for reads.
    pub reads: Predicate,
    /// Condition for writes.
    pub writes: Predicate,
    /// Condition for success.
    pub success: Option<Predicate>,
    /// Status, output for failed operations.
    pub status: Option<Column>,
    /// A duration.
    pub response_time: Option<Column>,
    /// Bytes transferred by a read.
    pub read_bytes: Option<Column>,
    /// Bytes transferred by a write.
    pub write_bytes: Option<Column>,
    /// Bytes requested; without it, the bytes transferred are used.
    pub size: Option<Column>,
    /// Offset of the first byte in the file.
    pub offset: Option<Column>,
    /// File identifier.
    pub file: Option<Column>,
    /// Whether offset and size are multiples of a block.
    pub aligned: Option<Column>,
    /// Checksums of the blocks read or written: hexadecimal digits separated by spaces.
    pub checksums: Option<Column>,
    /// The objects ranked in addition to clients: files, keys, or addresses.
    pub object: Option<Column>,
    /// The client.
    pub client: Column,
    /// Number of top objects and clients in the output.
    pub k: usize,
    /// An operation is sequential if the distance between its start and the end of the previous one is at most this
    /// multiple of its size.
    pub near: u64,
}

impl ProfileSpec {
    /// The columns read, without those of predicates.
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
        [self.operation, self.client]
            .into_iter()
            .chain(optional.into_iter().flatten())
    }

    /// Predicates of the profile.
    pub fn predicates(&self) -> impl Iterator<Item = &Predicate> {
        [&self.reads, &self.writes].into_iter().chain(&self.success)
    }
}

/// An aggregated value: a column and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregatedValue {
    /// The column; numeric.
    pub column: Column,
    /// Unit of the value, and of `avg`, `p95`, and similar results.
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

/// A computed column of a result: the aggregate and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateColumn {
    /// The aggregate.
    pub aggregate: AggregateFunction,
    /// Index of the pipeline's value; ignored by aggregates without a value.
    pub value: usize,
    /// Name of the column, if given in the query.
    pub name: Option<String>,
}

impl From<AggregateFunction> for AggregateColumn {
    /// Uses the first value and the default name.
    fn from(aggregate: AggregateFunction) -> AggregateColumn {
        AggregateColumn {
            aggregate,
            value: 0,
            name: None,
        }
    }
}

/// Aggregate functions over a group's values. Nulls are ignored, as in SQL.
#[derive(Clone, Debug, PartialEq)]
pub enum AggregateFunction {
    /// Number of tuples.
    Count,
    /// Sum of the values.
    Sum,
    /// Mean.
    Avg,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Sample standard deviation (n − 1).
    Stddev,
    /// Tuples per second of the window (without windows, of the time from first to last tuple).
    Rate,
    /// Number of distinct values of a column.
    Distinct(Column),
    /// A quantile, 0 to 1, within 1 % relative error.
    Quantile(f64),
    /// Counts by logarithmic bucket, 1 % relative error.
    Hist,
    /// The cumulative distribution by bucket, as proportions of the total.
    Cdf,
    /// Proportion of tuples for which the predicate is true, of those for which it is not null.
    Success(Predicate),
    /// As `Success`, for a predicate given in the query.
    Ratio(Predicate),
    /// Sum of the values per second, as for `Rate`.
    Throughput,
    /// The group's share of the window's total over all groups, including those not in the output.
    Share(ShareTotal),
}

/// The total that shares refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareTotal {
    /// The number of tuples.
    Tuples,
    /// The sum of the values.
    Values,
}

impl AggregateFunction {
    /// Whether its relative error decreases with the number of samples, so that a sampling rate can bound it.
    #[must_use]
    pub fn has_error(&self, unit: SampledUnit) -> bool {
        use AggregateFunction::{Avg, Count, Rate, Share, Sum, Throughput};
        match unit {
            SampledUnit::Tuples => {
                matches!(self, Count | Sum | Rate | Throughput | Avg | Share(_))
            }
            // Flows without a sampled packet have no record.
            SampledUnit::Counters => matches!(self, Sum | Throughput),
        }
    }

    /// Whether it requires a value.
    #[must_use]
    pub fn takes_value(&self) -> bool {
        use AggregateFunction::{
            Avg, Cdf, Hist, Max, Min, Quantile, Share, Stddev, Sum, Throughput,
        };
        match self {
            Sum | Avg | Min | Max | Stddev | Quantile(_) | Hist | Cdf | Throughput => true,
            Share(total) => *total == ShareTotal::Values,
            _ => false,
        }
    }

    /// Whether it depends on the length of the window.
    #[must_use]
    pub fn is_per_second(&self) -> bool {
        matches!(
            self,
            AggregateFunction::Rate | AggregateFunction::Throughput
        )
    }

    /// Whether its results are distributions, which cannot be ordered.
    #[must_use]
    pub fn is_distribution(&self) -> bool {
        matches!(self, AggregateFunction::Hist | AggregateFunction::Cdf)
    }
}

/// The rows of a window to output, and their order: HAVING, ORDER BY, and LIMIT … ROWS, in this order, after the
/// ranking. Columns refer to [`crate::result::schema`] without intervals as input 0. The row of pooled groups is
/// always output last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultSelection {
    /// Columns computed from result columns for conditions and sort keys; they are not output.
    pub computed: Vec<ComputedField>,
    /// Condition for rows to be output.
    pub having: Option<Predicate>,
    /// Sort keys by precedence; rows equal in all keys keep their default order.
    pub order_by: Vec<SortKey>,
    /// Maximum number of rows.
    pub rows_max: Option<usize>,
}

impl ResultSelection {
    /// Whether all rows are output in the default order.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.having.is_none() && self.order_by.is_empty() && self.rows_max.is_none()
    }
}

/// A sort key. Null is the smallest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The column.
    pub column: Column,
    /// Sort direction.
    pub direction: SortDirection,
}

/// Selects the `k` largest groups by one aggregate; ties are broken by the group key, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopK {
    /// Number of groups.
    pub k: usize,
    /// Index of the aggregate.
    pub by: usize,
}

/// Windows of event time (`ts_end`), aligned to the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Length.
    pub size_ns: i64,
    /// Distance between starts: tumbling if equal to the length, sliding if shorter.
    pub slide_ns: i64,
    /// Time after the end of a window during which tuples are still accepted.
    pub lateness_ns: i64,
}
