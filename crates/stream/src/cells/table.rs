//! The columns of a pipeline's cells.

use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Field, Schema, SchemaRef};
use plan::{Column, Dataflow, Window};
use tuple::{DataType, FieldId};

use super::column::CellType;
use super::{AccumulatorSpec, ExtremeEnd, MeasuredColumn};
use crate::config::EngineConfig;
use crate::ops::accumulator_spec::AccumulatorPlan;
use crate::sampling::REPLICATES;
use crate::window::WindowLayout;

/// The columns of a pipeline's cells and their meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct CellTable {
    /// All columns in order. [`CellTable::columns_of`] selects those of a table.
    pub columns: Vec<CellColumn>,
    /// Pane length; `None` without windows, where `pane` is 0.
    pub pane_ns: Option<i64>,
    /// The group columns `k0`, `k1`, …
    pub keys: Vec<MeasuredColumn>,
    /// Accumulators by number: `a0…`, `a1…`, and `slot`. Empty for a profile, whose rows are whole rows.
    pub accumulators: Vec<AccumulatorSpec>,
    /// Tuples with null in this column are skipped.
    pub required: Option<Column>,
    /// The column with the sampling rate of tuples, if they carry one. A rate that is null or outside (0, 1] is 1.
    pub rates: Option<FieldId>,
    /// The value of `rate` if tuples carry no rate.
    pub sample: f64,
    /// Number of replicates that flows are assigned to. Without sampling it is 1, and `replicate` is 0.
    pub replicates: usize,
    /// Whether the pipeline is a profile of a workload.
    pub is_profile: bool,
}

/// A column of cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellColumn {
    /// Column name.
    pub name: String,
    /// Value type. Every column is nullable.
    pub data: CellType,
    /// Purpose of the column.
    pub role: CellColumnRole,
}

/// Purpose of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellColumnRole {
    /// The sender's lower bound on later rows.
    Promise,
    /// Event time in milliseconds, the time of the merge. All rows of one `pane` have the same time.
    Time,
    /// Rows with equal keys are merged.
    Key,
    /// The distinct value itself, for tuples identified by their values.
    Value,
    /// Merged by this function. Nulls are ignored.
    Merge(CellMerge),
    /// Number of rows of the complete pane.
    Mark,
}

/// The merge function of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellMerge {
    /// Sum.
    Sum,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
}

/// The source of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellOrigin {
    /// Cells as sent by monitors.
    Sent,
    /// Cells merged from sent cells.
    Merged,
    /// Cells merged from tuples.
    OfTuples,
}

/// Column positions in a table of [`CellOrigin::Sent`]: the first columns, then the columns after the group's.
pub(crate) mod places {
    pub const PROMISE: usize = 0;
    pub const TIME: usize = 1;
    pub const PANE: usize = 2;
    pub const KEYS: usize = 3;
    pub const RATE: usize = 0;
    pub const REPLICATE: usize = 1;
    pub const SLOT: usize = 2;
    pub const AT: usize = 3;
    pub const BITS: usize = 4;
    pub const WHOLE: usize = 5;
    pub const TUPLES: usize = 6;
    pub const FIRST: usize = 7;
    pub const LAST: usize = 8;
    pub const N: usize = 9;
    /// First accumulator column.
    pub const PARTS: usize = 10;
}

impl CellTable {
    /// The columns for the cells of `pipeline`.
    ///
    /// # Panics
    /// If the pipeline does not exist or the dataflow is invalid.
    #[must_use]
    pub fn new(dataflow: &Dataflow, pipeline: usize, config: &EngineConfig) -> CellTable {
        let of = &dataflow.pipelines[pipeline];
        let key = |column| MeasuredColumn {
            column,
            data_type: data_type(dataflow, column),
        };
        let keys: Vec<MeasuredColumn> = of.group.iter().map(|group| key(group.column)).collect();
        let accumulators = accumulation(dataflow, pipeline, config).list;
        CellTable {
            columns: columns(&keys, &accumulators),
            pane_ns: of
                .window
                .as_ref()
                .map(|window: &Window| WindowLayout::new(window).pane_ns),
            keys,
            accumulators,
            required: of
                .values
                .first()
                .filter(|_| of.value_required)
                .map(|value| value.column),
            rates: dataflow.rates().map(|(field, _)| field),
            sample: config.sample,
            replicates: if is_sampled(dataflow, config) {
                REPLICATES
            } else {
                1
            },
            is_profile: of.profile.is_some(),
        }
    }

    /// Number of columns per accumulator.
    pub(crate) fn widths(&self) -> Vec<usize> {
        self.accumulators
            .iter()
            .map(|one| merged_columns(one).len())
            .collect()
    }

    /// The columns of a table with rows of this origin.
    pub fn columns_of(&self, origin: CellOrigin) -> impl Iterator<Item = &CellColumn> {
        self.columns.iter().filter(move |column| match column.role {
            CellColumnRole::Promise => origin == CellOrigin::Sent,
            CellColumnRole::Value => origin == CellOrigin::OfTuples,
            CellColumnRole::Mark => origin != CellOrigin::Sent,
            CellColumnRole::Time | CellColumnRole::Key | CellColumnRole::Merge(_) => true,
        })
    }
}

/// The accumulators of a pipeline.
pub(crate) fn accumulation(
    dataflow: &Dataflow,
    pipeline: usize,
    config: &EngineConfig,
) -> AccumulatorPlan {
    let data_type = |column| data_type(dataflow, column);
    AccumulatorPlan::new(
        &dataflow.pipelines[pipeline],
        is_sampled(dataflow, config),
        &data_type,
    )
}

fn is_sampled(dataflow: &Dataflow, config: &EngineConfig) -> bool {
    dataflow.rates().is_some() || config.sample < 1.0
}

fn data_type(dataflow: &Dataflow, column: Column) -> DataType {
    match column.computed_place() {
        Some(place) => dataflow.computed[place].field.data_type,
        None => {
            dataflow.inputs[usize::from(column.input)]
                .schema
                .field(column.field)
                .data_type
        }
    }
}

impl CellTable {
    /// The same columns as an Arrow schema.
    #[must_use]
    pub fn arrow(&self, origin: CellOrigin) -> SchemaRef {
        let fields = self
            .columns_of(origin)
            .map(|of| Field::new(&of.name, of.data.arrow(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

impl CellType {
    /// The Arrow type.
    #[must_use]
    pub fn arrow(self) -> ArrowType {
        match self {
            CellType::Bool => ArrowType::Boolean,
            CellType::Long => ArrowType::Int64,
            CellType::Double => ArrowType::Float64,
            CellType::Text => ArrowType::Utf8,
            CellType::Bytes => ArrowType::Binary,
            CellType::Decimal => ArrowType::Decimal128(38, 0),
        }
    }
}

impl CellColumn {
    fn new(name: impl Into<String>, data: CellType, role: CellColumnRole) -> CellColumn {
        CellColumn {
            name: name.into(),
            data,
            role,
        }
    }
}

fn columns(keys: &[MeasuredColumn], accumulators: &[AccumulatorSpec]) -> Vec<CellColumn> {
    use CellType::{Bytes, Double, Long};
    let sum = CellColumnRole::Merge(CellMerge::Sum);
    let min = CellColumnRole::Merge(CellMerge::Min);
    let max = CellColumnRole::Merge(CellMerge::Max);
    let mut all = vec![
        CellColumn::new("wm_ms", Long, CellColumnRole::Promise),
        CellColumn::new("et_ms", Long, CellColumnRole::Time),
        CellColumn::new("pane", Long, CellColumnRole::Key),
    ];
    let key = |(i, key): (usize, &MeasuredColumn)| {
        CellColumn::new(
            format!("k{i}"),
            CellType::of(key.data_type),
            CellColumnRole::Key,
        )
    };
    all.extend(keys.iter().enumerate().map(key));
    let fixed = [
        ("rate", Double),
        ("replicate", Long),
        ("slot", Long),
        ("at", Long),
        ("bits", Long),
    ];
    all.extend(fixed.map(|(name, data)| CellColumn::new(name, data, CellColumnRole::Key)));
    for (i, one) in accumulators.iter().enumerate() {
        if let AccumulatorSpec::Distinct(of) = one {
            all.push(CellColumn::new(
                format!("d{i}"),
                CellType::of(of.data_type),
                CellColumnRole::Value,
            ));
        }
    }
    all.push(CellColumn::new("whole", Bytes, CellColumnRole::Key));
    let merged = [
        ("tuples", sum),
        ("first_ns", min),
        ("last_ns", max),
        ("n", sum),
    ];
    all.extend(merged.map(|(name, role)| CellColumn::new(name, Long, role)));
    for (i, one) in accumulators.iter().enumerate() {
        let of_one = merged_columns(one).into_iter();
        all.extend(of_one.map(|(part, data, merge)| {
            CellColumn::new(format!("a{i}{part}"), data, CellColumnRole::Merge(merge))
        }));
    }
    all.push(CellColumn::new("mark", Long, CellColumnRole::Mark));
    all
}

/// The merged columns of an accumulator (in entry rows for a histogram, otherwise in base rows): name suffix, type,
/// and merge function.
fn merged_columns(one: &AccumulatorSpec) -> Vec<(&'static str, CellType, CellMerge)> {
    use CellMerge::{Max, Min, Sum};
    use CellType::{Decimal, Double, Long};
    let is_real = |of: &MeasuredColumn| of.data_type == DataType::F64;
    match one {
        AccumulatorSpec::Count => vec![("_n", Long, Sum)],
        AccumulatorSpec::Sum(of) => {
            vec![
                ("_n", Long, Sum),
                ("_sum", if is_real(of) { Double } else { Decimal }, Sum),
            ]
        }
        AccumulatorSpec::Extreme(of, end) => {
            let merge = if *end == ExtremeEnd::Min { Min } else { Max };
            vec![("", if is_real(of) { Double } else { Long }, merge)]
        }
        AccumulatorSpec::Spread(of) if is_real(of) => Vec::new(),
        AccumulatorSpec::Spread(_) => {
            vec![
                ("_n", Long, Sum),
                ("_sum", Decimal, Sum),
                ("_squares", Decimal, Sum),
            ]
        }
        AccumulatorSpec::Histogram(..) => vec![("_min", Double, Min), ("_max", Double, Max)],
        AccumulatorSpec::Distinct(_) => Vec::new(),
        AccumulatorSpec::Outcome(_) => vec![("_known", Long, Sum), ("_yes", Long, Sum)],
    }
}
