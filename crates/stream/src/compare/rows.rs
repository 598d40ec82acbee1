//! Rows of a comparison: the group, and for each result its number, the baseline's number, difference, ratio, and
//! whether it differs.

use std::sync::Arc;

use plan::{Pipeline, ResultSelection, result};
use tuple::{Batch, DataType, Field, FieldId, Schema, TupleWriter, Unit};

use super::difference_test::DifferenceTest;
use super::measure::ComparisonMeasure;
use super::period_engine::{PeriodResults, number};
use crate::column::ColumnView;
use crate::scalar::Scalar;

/// The compared results of a pipeline.
pub struct ComparedResult {
    schema: Arc<Schema>,
    /// Name of the processor.
    pub processor: String,
    /// Number of group columns.
    pub keys: usize,
    /// Position of the first aggregate in rows of the period and of the baseline.
    first: [usize; 2],
    aggregates: usize,
    /// Whether a top-k or row limit selected the rows of the period; groups found only in the baseline are then
    /// omitted.
    is_chosen: bool,
}

/// Columns per aggregate: number, baseline number, difference, ratio, and whether it differs.
pub const COLUMNS_EACH: usize = 5;

impl ComparedResult {
    /// Describes the comparison rows of a pipeline with results of `schema`.
    pub(super) fn new(pipeline: &Pipeline, schema: &Schema) -> ComparedResult {
        let first = result::first_aggregate(pipeline);
        let aggregates = pipeline.aggregates.len();
        let mut fields: Vec<Field> = schema.fields[..first].to_vec();
        schema.fields[first..first + aggregates]
            .iter()
            .for_each(|field| fields.extend(of_aggregate(field)));
        fields.push(Field::new(
            "approximate",
            DataType::Bool,
            Unit::None,
            "whether a memory bound was reached",
        ));
        ComparedResult {
            schema: Arc::new(Schema {
                fields,
                ..schema.clone()
            }),
            processor: pipeline.name.clone(),
            keys: pipeline.group.len(),
            first: [first, pipeline.group.len()],
            aggregates,
            is_chosen: pipeline.top_k.is_some() || pipeline.selection != ResultSelection::default(),
        }
    }

    /// The schema of the rows.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Position of the first aggregate's columns. Each aggregate has [`COLUMNS_EACH`] columns.
    #[must_use]
    pub fn first_aggregate(&self) -> usize {
        self.first[0]
    }

    pub(super) fn write(
        &self,
        own: &PeriodResults,
        baseline: &PeriodResults,
        measures: &[ComparisonMeasure],
        judge: &DifferenceTest<'_>,
        out: &mut dyn FnMut(Batch),
    ) {
        let wanted: Vec<FieldId> = self.schema.ids().collect();
        let mut writer = TupleWriter::new(self.schema.clone(), &wanted);
        let gone = baseline
            .groups
            .iter()
            .filter(|(key, _)| !self.is_chosen && !own.place.contains_key(key));
        for (key, place) in own.groups.iter().chain(gone) {
            let rows = [
                own.place.get(key).map(|at| (own, *at)),
                baseline.place.get(key).map(|at| (baseline, *at)),
            ];
            let names = if rows[0].is_some() { own } else { baseline };
            let named = if rows[0].is_some() {
                self.first[0]
            } else {
                self.keys
            };
            for i in 0..named {
                cell(names, *place, i).write(&mut writer, FieldId(i as u16));
            }
            for (i, measure) in measures.iter().enumerate() {
                self.write_aggregate(&mut writer, rows, i, judge.differs(key, *measure));
            }
            let is_approximate = |side: usize| {
                let of_row = |(all, at)| {
                    cell(all, at, self.first[side] + self.aggregates) == Scalar::Bool(true)
                };
                rows[side].is_some_and(of_row)
            };
            writer.bool(
                FieldId((self.schema.fields.len() - 1) as u16),
                is_approximate(0) || is_approximate(1),
            );
            writer.end_row();
            if writer.is_full() {
                out(writer.finish());
            }
        }
        if writer.rows() > 0 {
            out(writer.finish());
        }
    }

    fn write_aggregate(
        &self,
        writer: &mut TupleWriter,
        rows: [Option<(&PeriodResults, (usize, usize))>; 2],
        i: usize,
        differs: Option<bool>,
    ) {
        let column = |n: usize| FieldId((self.first[0] + i * COLUMNS_EACH + n) as u16);
        let cells =
            [0, 1].map(|side| rows[side].map(|(all, at)| cell(all, at, self.first[side] + i)));
        for (n, cell) in cells.iter().enumerate() {
            cell.iter().for_each(|cell| cell.write(writer, column(n)));
        }
        let [Some(own), Some(baseline)] = cells else {
            // A group missing in one period: only counts are known to be 0.
            differs
                .into_iter()
                .for_each(|differs| writer.bool(column(4), differs));
            return;
        };
        match (own, baseline) {
            (Scalar::U64(a), Scalar::U64(b)) => {
                writer.i64(column(2), difference(a.into(), b.into()))
            }
            (Scalar::I64(a), Scalar::I64(b)) => {
                writer.i64(column(2), difference(a.into(), b.into()))
            }
            (Scalar::F64(a), Scalar::F64(b)) => writer.f64(column(2), a - b),
            _ => {}
        }
        let Some((own, baseline)) = number(own).zip(number(baseline)) else {
            return;
        };
        if baseline != 0.0 {
            writer.f64(column(3), own / baseline);
        }
        if let Some(differs) = differs {
            writer.bool(column(4), differs);
        }
    }
}

fn difference(a: i128, b: i128) -> i64 {
    i64::try_from(a - b).unwrap_or(if a > b { i64::MAX } else { i64::MIN })
}

fn cell(all: &PeriodResults, (batch, row): (usize, usize), column: usize) -> Scalar<'_> {
    ColumnView::of(&all.batches[batch], FieldId(column as u16)).scalar(row)
}

fn of_aggregate(field: &Field) -> [Field; COLUMNS_EACH] {
    let name = field.name.as_ref();
    let bare = ["_ns", "_bytes"]
        .iter()
        .find_map(|unit| name.strip_suffix(unit))
        .unwrap_or(name);
    let signed = if field.data_type == DataType::U64 {
        DataType::I64
    } else {
        field.data_type
    };
    let named = |name: String, data_type, unit, doc: &'static str| Field {
        name: name.into(),
        ..Field::new("", data_type, unit, doc)
    };
    [
        field.clone(),
        named(
            format!("baseline_{name}"),
            field.data_type,
            field.unit,
            "the value in the baseline",
        ),
        named(
            format!("difference_{name}"),
            signed,
            field.unit,
            "difference from the baseline",
        ),
        named(
            format!("ratio_{bare}"),
            DataType::F64,
            Unit::None,
            "ratio to the baseline",
        ),
        named(
            format!("differs_{bare}"),
            DataType::Bool,
            Unit::None,
            "whether the difference is significant",
        ),
    ]
}
