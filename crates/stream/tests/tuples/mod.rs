//! Tuples for tests: a schema with a column of every type, rows, and results as plain values.
#![allow(dead_code)]

pub mod cells;

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use plan::{
    AggregateColumn, AggregateFunction, AggregatedValue, Column, Dataflow, DataflowInput, GroupBy,
    Pipeline, ResultSelection,
};
use stream::cells::CellOrigin;
use stream::{Engine, EngineConfig, EngineCounters, EngineOutput, PartialResult};
use tuple::{Batch, DataType, FieldId, Schema, TupleWriter, common};

tuple::fields! {
    PATH: Text, None, "path", "";
    N: U64, Nanoseconds, "n_ns", "";
    DELTA: I64, Bytes, "delta", "";
    RATIO: F64, None, "ratio", "";
    OK: Bool, None, "ok", "";
}

/// One tuple.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    pub id: u64,
    pub ts_end: i64,
    pub ip: Option<[u8; 16]>,
    pub path: Option<String>,
    pub n: Option<u64>,
    pub delta: Option<i64>,
    pub ratio: Option<f64>,
    pub ok: Option<bool>,
    /// Sampling rate of the flow; used only if the dataflow requests it.
    pub rate: Option<f64>,
}

/// A value of any column.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub enum Plain {
    Null,
    Bool(bool),
    U64(u64),
    I64(i64),
    F64(f64),
    Text(String),
    Ip(Vec<u8>),
}

pub const IP: FieldId = common::CLIENT_IP;
pub const COLUMNS: [FieldId; 8] = [common::ID, common::TS_END, IP, PATH, N, DELTA, RATIO, OK];

pub fn schema(name: &'static str) -> Arc<Schema> {
    Arc::new(Schema::of_parser(name, 1, "test", FIELDS, None, None))
}

pub fn column(field: FieldId) -> Column {
    Column { input: 0, field }
}

pub fn input(name: &'static str) -> DataflowInput {
    DataflowInput {
        schema: schema(name),
        columns: COLUMNS.to_vec(),
        filter: None,
    }
}

pub fn dataflow(pipelines: Vec<Pipeline>) -> Dataflow {
    Dataflow {
        inputs: vec![input("t")],
        filter: None,
        pipelines,
        ..Dataflow::default()
    }
}

/// The same with tuples that carry the sampling rate of their flow.
pub fn weighted(pipelines: Vec<Pipeline>) -> Dataflow {
    let mut flow = dataflow(pipelines);
    flow.inputs[0].columns.push(common::SAMPLE_RATE);
    flow
}

/// A pipeline without window or ranking.
pub fn pipeline(
    value: Option<FieldId>,
    group: &[FieldId],
    aggregates: Vec<AggregateFunction>,
) -> Pipeline {
    let unit = |f: FieldId| schema("t").field(f).unit;
    let name = |f: &FieldId| schema("t").field(*f).name.to_string();
    Pipeline {
        name: "test".into(),
        values: value
            .iter()
            .map(|f| AggregatedValue {
                column: column(*f),
                unit: unit(*f),
            })
            .collect(),
        value_required: false,
        group: group
            .iter()
            .map(|f| GroupBy {
                column: column(*f),
                name: name(f),
            })
            .collect(),
        aggregates: aggregates.into_iter().map(AggregateColumn::from).collect(),
        top_k: None,
        window: None,
        groups_max: 100_000,
        selection: ResultSelection::default(),
        profile: None,
    }
}

pub fn batch_of(schema: &Arc<Schema>, rows: &[Row]) -> Batch {
    batch_with(schema, &COLUMNS, rows)
}

pub fn batch_with(schema: &Arc<Schema>, columns: &[FieldId], rows: &[Row]) -> Batch {
    let mut w = TupleWriter::new(schema.clone(), columns);
    for row in rows {
        w.u64(common::ID, row.id);
        w.i64(common::TS_END, row.ts_end);
        row.ip.iter().for_each(|v| w.ip(IP, v));
        row.path.iter().for_each(|v| w.text(PATH, v.as_bytes()));
        row.n.iter().for_each(|v| w.u64(N, *v));
        row.delta.iter().for_each(|v| w.i64(DELTA, *v));
        row.ratio.iter().for_each(|v| w.f64(RATIO, *v));
        row.ok.iter().for_each(|v| w.bool(OK, *v));
        row.rate.iter().for_each(|v| w.f64(common::SAMPLE_RATE, *v));
        w.end_row();
    }
    w.finish()
}

/// The rows of a batch; absent columns are left out.
pub fn plain(batch: &Batch) -> Vec<Vec<Plain>> {
    (0..batch.rows())
        .map(|row| columns(batch).map(|id| cell(batch, id, row)).collect())
        .collect()
}

/// The names of the present columns.
pub fn names(batch: &Batch) -> Vec<String> {
    columns(batch)
        .map(|id| batch.schema().field(id).name.to_string())
        .collect()
}

/// The present columns, except those on capture loss, which separate tests cover.
fn columns(batch: &Batch) -> impl Iterator<Item = FieldId> {
    batch
        .present()
        .filter(|id| batch.schema().field(*id).name != "lost")
}

pub fn cell(batch: &Batch, id: FieldId, row: usize) -> Plain {
    if batch.column(id).expect("present").is_null(row) {
        return Plain::Null;
    }
    match batch.schema().field(id).data_type {
        DataType::Bool => Plain::Bool(batch.bool(id).value(row)),
        DataType::U64 => Plain::U64(batch.u64(id).value(row)),
        DataType::I64 => Plain::I64(batch.i64(id).value(row)),
        DataType::F64 => Plain::F64(batch.f64(id).value(row)),
        DataType::Text | DataType::Json => Plain::Text(batch.text(id).value(row).to_string()),
        DataType::Hashes => Plain::Text(tuple::hashes::to_text(batch.hashes(id).value(row))),
        DataType::Ip => Plain::Ip(batch.ip(id).value(row).to_vec()),
    }
}

/// All rows of one pipeline's outputs.
pub fn rows_of(out: &[EngineOutput], pipeline: Option<usize>) -> Vec<Vec<Plain>> {
    out.iter()
        .filter(|o| o.pipeline == pipeline)
        .flat_map(|o| plain(&o.batch))
        .collect()
}

/// Runs a dataflow with one input over rows, `chunk` per batch.
pub fn run(
    flow: &Dataflow,
    config: EngineConfig,
    rows: &[Row],
    chunk: usize,
) -> (Vec<EngineOutput>, EngineCounters) {
    let mut engine = Engine::new(flow, config);
    let mut out = Vec::new();
    for rows in rows.chunks(chunk.max(1)) {
        engine.push(
            0,
            &batch_with(&flow.inputs[0].schema, &flow.inputs[0].columns, rows),
            &mut out,
        );
    }
    engine.finish(&mut out);
    (out, engine.counters())
}

/// Transport of partial windows from workers to the collecting engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Between threads.
    Attached,
    /// Between machines.
    Sent,
    /// As rows, in any order and any number of batches.
    Cells,
}

impl Way {
    /// A worker's configuration; on another machine it has another seed.
    pub fn config(self, config: &EngineConfig, worker: u64) -> EngineConfig {
        match self {
            Way::Attached => config.clone(),
            Way::Sent | Way::Cells => EngineConfig {
                seed: config.seed ^ (worker + 1) << 40,
                ..config.clone()
            },
        }
    }

    /// Passes a part to an engine.
    pub fn bring(self, part: PartialResult, to: &mut Engine) {
        match self {
            Way::Attached => to.attach(part),
            Way::Sent => {
                let bytes = part.encode();
                let there = to
                    .decode_partial(&bytes)
                    .expect("it was encoded for the same dataflow");
                assert_eq!(there.encode(), bytes);
                to.attach(there);
            }
            Way::Cells => {
                for (pipeline, batches) in to.cells(&part, 0).iter().enumerate() {
                    let table = to.cell_table(pipeline).clone();
                    let mut rows = cells::rows(&table, batches);
                    cells::shuffle(&mut rows, batches.len() as u64);
                    for rows in rows.chunks(100) {
                        bring_rows(
                            &cells::batch(&table, CellOrigin::Merged, rows),
                            pipeline,
                            to,
                        );
                    }
                }
            }
        }
    }
}

/// Passes rows of cells to an engine.
pub fn bring_rows(batch: &RecordBatch, pipeline: usize, to: &mut Engine) {
    let part = to
        .partial_of_cells(pipeline, batch)
        .expect("they were made for the same dataflow");
    let bytes = part.encode();
    assert_eq!(
        to.decode_partial(&bytes).expect("it was encoded").encode(),
        bytes
    );
    to.attach(part);
}

/// Whether results are equal; real numbers may differ by the order of summation.
pub fn are_alike(a: &[Vec<Plain>], b: &[Vec<Plain>]) -> bool {
    let rows = |a: &Vec<Plain>, b: &Vec<Plain>| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_alike(a, b))
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| rows(a, b))
}

fn is_alike(a: &Plain, b: &Plain) -> bool {
    let near = |a: f64, b: f64| a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0);
    match (a, b) {
        (Plain::F64(a), Plain::F64(b)) => near(*a, *b),
        // Buckets.
        (Plain::Text(a), Plain::Text(b)) if a.starts_with("[[") && b.starts_with("[[") => {
            let numbers = |text: &str| -> Vec<f64> {
                let is_other = |c: char| !(c.is_ascii_digit() || "-+.e".contains(c));
                text.split(is_other)
                    .filter_map(|number| number.parse().ok())
                    .collect()
            };
            let a = numbers(a);
            let b = numbers(b);
            a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| near(*a, *b))
        }
        (a, b) => a == b,
    }
}

/// A number of a result row, by its column's name.
pub fn number(out: &[EngineOutput], row: usize, name: &str) -> Option<f64> {
    let batch = &out[0].batch;
    match cell(
        batch,
        batch
            .schema()
            .find(name)
            .unwrap_or_else(|| panic!("no {name} in {:?}", names(batch))),
        row,
    ) {
        Plain::U64(v) => Some(v as f64),
        Plain::I64(v) => Some(v as f64),
        Plain::F64(v) => Some(v),
        _ => None,
    }
}
