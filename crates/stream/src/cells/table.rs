//! Which columns the cells of a pipeline have.

use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Field, Schema, SchemaRef};
use plan::{Column, Dataflow, Window};
use tuple::{DataType, common};

use super::column::CellType;
use super::{Accumulated, End, Measured};
use crate::config::Config;
use crate::ops::accumulated::Accumulation;
use crate::sampling::REPLICATES;
use crate::window::Windows;

/// The cells of a pipeline: their columns, and what these are of.
#[derive(Clone, Debug, PartialEq)]
pub struct CellTable {
    /// All columns in their order. A table has those that [`CellTable::columns_of`] says.
    pub columns: Vec<CellColumn>,
    /// Length of a pane; `None`: there are no windows, and `pane` is 0.
    pub pane_ns: Option<i64>,
    /// The group's columns: `k0`, `k1`, …
    pub keys: Vec<Measured>,
    /// Accumulators by number: `a0…`, `a1…`, and `slot`. Empty for a profile, whose rows are whole.
    pub accumulators: Vec<Accumulated>,
    /// Tuples whose value in this column is null take no part.
    pub required: Option<Column>,
    /// Whether the tuples say at what rate their flows were sampled; a rate that is null or not in (0, 1] is 1.
    pub is_weighted: bool,
    /// What `rate` is where they do not.
    pub sample: f64,
    /// Into how many replicates flows are dealt: 1 without sampling, and `replicate` is 0.
    pub replicates: usize,
    /// Whether it is a profile of a workload.
    pub is_profile: bool,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellColumn {
    /// Its name.
    pub name: String,
    /// What it holds; every column may be null.
    pub data: CellType,
    /// What it is for.
    pub role: Role,
}

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// What the sender promises of rows to come.
    Promise,
    /// Event time, in milliseconds. Rows of one `pane` have one, and it is merged by it.
    Time,
    /// Rows are merged that are equal in all of them.
    Key,
    /// The distinct value itself, for tuples identified by their values.
    Value,
    /// What is merged, and how. Null is nothing.
    Merge(Merge),
    /// How many rows of a pane are there once all are.
    Mark,
}

/// How values are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// They are added.
    Sum,
    /// The least is kept.
    Min,
    /// The largest is kept.
    Max,
}

/// Which rows a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Cells as monitors send them.
    Sent,
    /// What was merged of those.
    Merged,
    /// What was merged of tuples.
    OfTuples,
}

/// Where columns are in a table of [`Origin::Sent`]: the first few, then after the group's.
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
    /// Those of accumulators.
    pub const PARTS: usize = 10;
}

impl CellTable {
    /// The cells of a pipeline of a dataflow.
    ///
    /// # Panics
    /// When there is no such pipeline, or the dataflow is not sound.
    #[must_use]
    pub fn new(dataflow: &Dataflow, pipeline: usize, config: &Config) -> CellTable {
        let of = &dataflow.pipelines[pipeline];
        let key = |column| Measured { column, data_type: data_type(dataflow, column) };
        let keys: Vec<Measured> = of.group.iter().map(|group| key(group.column)).collect();
        let accumulators = accumulation(dataflow, pipeline, config).list;
        CellTable {
            columns: columns(&keys, &accumulators),
            pane_ns: of.window.as_ref().map(|window: &Window| Windows::new(window).pane_ns),
            keys,
            accumulators,
            required: of.values.first().filter(|_| of.value_required).map(|value| value.column),
            is_weighted: is_weighted(dataflow),
            sample: config.sample,
            replicates: if is_sampled(dataflow, config) { REPLICATES } else { 1 },
            is_profile: of.profile.is_some(),
        }
    }

    /// How many columns each accumulator has.
    pub(crate) fn widths(&self) -> Vec<usize> {
        self.accumulators.iter().map(|one| merged_columns(one).len()).collect()
    }

    /// The columns of a table of such rows.
    pub fn columns_of(&self, origin: Origin) -> impl Iterator<Item = &CellColumn> {
        self.columns.iter().filter(move |column| match column.role {
            Role::Promise => origin == Origin::Sent,
            Role::Value => origin == Origin::OfTuples,
            Role::Mark => origin != Origin::Sent,
            Role::Time | Role::Key | Role::Merge(_) => true,
        })
    }
}

/// What a pipeline accumulates.
pub(crate) fn accumulation(dataflow: &Dataflow, pipeline: usize, config: &Config) -> Accumulation {
    let data_type = |column| data_type(dataflow, column);
    Accumulation::new(&dataflow.pipelines[pipeline], is_sampled(dataflow, config), &data_type)
}

fn is_weighted(dataflow: &Dataflow) -> bool {
    dataflow.inputs[0].columns.contains(&common::SAMPLE_RATE)
}

fn is_sampled(dataflow: &Dataflow, config: &Config) -> bool {
    is_weighted(dataflow) || config.sample < 1.0
}

fn data_type(dataflow: &Dataflow, column: Column) -> DataType {
    match column.computed_place() {
        Some(place) => dataflow.computed[place].field.data_type,
        None => dataflow.inputs[usize::from(column.input)].schema.field(column.field).data_type,
    }
}

impl CellTable {
    /// The same columns as Arrow has them.
    #[must_use]
    pub fn arrow(&self, origin: Origin) -> SchemaRef {
        let fields = self.columns_of(origin).map(|of| Field::new(&of.name, of.data.arrow(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

impl CellType {
    /// Arrow's type.
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
    fn new(name: impl Into<String>, data: CellType, role: Role) -> CellColumn {
        CellColumn { name: name.into(), data, role }
    }
}

fn columns(keys: &[Measured], accumulators: &[Accumulated]) -> Vec<CellColumn> {
    use CellType::{Bytes, Double, Long};
    let (sum, min, max) = (Role::Merge(Merge::Sum), Role::Merge(Merge::Min), Role::Merge(Merge::Max));
    let mut all = vec![
        CellColumn::new("wm_ms", Long, Role::Promise),
        CellColumn::new("et_ms", Long, Role::Time),
        CellColumn::new("pane", Long, Role::Key),
    ];
    let key = |(i, key): (usize, &Measured)| {
        CellColumn::new(format!("k{i}"), CellType::of(key.data_type), Role::Key)
    };
    all.extend(keys.iter().enumerate().map(key));
    let fixed = [("rate", Double), ("replicate", Long), ("slot", Long), ("at", Long), ("bits", Long)];
    all.extend(fixed.map(|(name, data)| CellColumn::new(name, data, Role::Key)));
    for (i, one) in accumulators.iter().enumerate() {
        if let Accumulated::Distinct(of) = one {
            all.push(CellColumn::new(format!("d{i}"), CellType::of(of.data_type), Role::Value));
        }
    }
    all.push(CellColumn::new("whole", Bytes, Role::Key));
    let merged = [("tuples", sum), ("first_ns", min), ("last_ns", max), ("n", sum)];
    all.extend(merged.map(|(name, role)| CellColumn::new(name, Long, role)));
    for (i, one) in accumulators.iter().enumerate() {
        let of_one = merged_columns(one).into_iter();
        all.extend(
            of_one
                .map(|(part, data, merge)| CellColumn::new(format!("a{i}{part}"), data, Role::Merge(merge))),
        );
    }
    all.push(CellColumn::new("mark", Long, Role::Mark));
    all
}

/// What is merged of an accumulator (of a histogram in entry rows, else in base rows): how the names of columns go on, what they hold, how they are merged.
fn merged_columns(one: &Accumulated) -> Vec<(&'static str, CellType, Merge)> {
    use CellType::{Decimal, Double, Long};
    use Merge::{Max, Min, Sum};
    let is_real = |of: &Measured| of.data_type == DataType::F64;
    match one {
        Accumulated::Count => vec![("_n", Long, Sum)],
        Accumulated::Sum(of) => {
            vec![("_n", Long, Sum), ("_sum", if is_real(of) { Double } else { Decimal }, Sum)]
        }
        Accumulated::Extreme(of, end) => {
            let merge = if *end == End::Min { Min } else { Max };
            vec![("", if is_real(of) { Double } else { Long }, merge)]
        }
        Accumulated::Spread(of) if is_real(of) => Vec::new(),
        Accumulated::Spread(_) => {
            vec![("_n", Long, Sum), ("_sum", Decimal, Sum), ("_squares", Decimal, Sum)]
        }
        Accumulated::Histogram(..) => vec![("_min", Double, Min), ("_max", Double, Max)],
        Accumulated::Distinct(_) => Vec::new(),
        Accumulated::Outcome(_) => vec![("_known", Long, Sum), ("_yes", Long, Sum)],
    }
}
