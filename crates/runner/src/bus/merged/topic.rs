//! A topic with the output of another engine: rows by pane, until all rows of a pane have arrived.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, SchemaRef};
use arrow_select::filter::filter_record_batch;
use plan::Dataflow;
use stream::Engine;
use stream::cells::{CellOrigin, CellTable};
use stream::flink_sql::{self, TupleColumn};
use tuple::batch::arrow_type;
use tuple::{Batch, FieldId, Schema};

/// Length of the panes by which cells are merged if there are no windows.
const WHOLE_RUN_MS: i64 = 10_000;

/// State of a topic.
pub struct MergedTopic {
    pub holds: MergedContent,
    pub part: usize,
    pub name: String,
    pub decoder: avro::AvroDecoder,
    /// Length of a pane, or of the interval marked like one.
    pub pane_ms: i64,
    /// Columns with the start of a pane and its number of rows.
    says: (&'static str, &'static str),
    panes: BTreeMap<i64, Vec<RecordBatch>>,
    /// Size of waiting rows, in bytes.
    pub waiting: usize,
    /// Whether all output was read.
    pub is_over: bool,
    /// Panes in order, with their numbers of cells.
    marks: VecDeque<(i64, u64)>,
}

/// Content of the topic.
pub enum MergedContent {
    /// Cells of this pipeline.
    Cells(usize),
    /// Tuples of this schema, if tuples are the result, and the field of each column.
    Tuples(Arc<Schema>, Vec<Option<FieldId>>),
}

impl MergedTopic {
    /// A topic with the cells of a pipeline.
    pub fn of_cells(
        table: &CellTable,
        origin: CellOrigin,
        pipeline: usize,
        name: &str,
        part: usize,
    ) -> MergedTopic {
        let pane_ms = table.pane_ns.map_or(WHOLE_RUN_MS, |ns| ns / 1_000_000);
        MergedTopic::new(
            MergedContent::Cells(pipeline),
            name,
            part,
            (&table.arrow(origin), pane_ms, ("et_ms", "mark")),
        )
    }

    /// A topic with tuples as the result.
    pub fn of_tuples(dataflow: &Dataflow, engine: &Engine, name: &str, part: usize) -> MergedTopic {
        let columns = flink_sql::tuple_columns(dataflow);
        let schema = engine.tuples().0.clone();
        let arrow = |column: &TupleColumn| {
            let data = column
                .field
                .map_or(DataType::Int64, |id| arrow_type(schema.field(id).data_type));
            Field::new(&column.name, data, true)
        };
        let arrow = Arc::new(arrow_schema::Schema::new(
            columns.iter().map(arrow).collect::<Vec<_>>(),
        ));
        let fields = columns.iter().map(|column| column.field).collect();
        let says = ("_second_ms", "_mark");
        MergedTopic::new(
            MergedContent::Tuples(schema, fields),
            name,
            part,
            (&arrow, flink_sql::MARKED_MS, says),
        )
    }

    fn new(
        holds: MergedContent,
        name: &str,
        part: usize,
        (schema, pane_ms, says): (&SchemaRef, i64, (&'static str, &'static str)),
    ) -> MergedTopic {
        MergedTopic {
            holds,
            part,
            name: name.to_owned(),
            decoder: avro::AvroDecoder::new(schema, |_| true)
                .expect("cells and tuples have a form"),
            pane_ms,
            says,
            panes: BTreeMap::new(),
            waiting: 0,
            is_over: false,
            marks: VecDeque::new(),
        }
    }

    /// The first marked pane, with its start, once complete.
    pub fn next_whole(&mut self) -> Option<(i64, Vec<RecordBatch>)> {
        let (et_ms, n) = *self.marks.front()?;
        let have: usize = self
            .panes
            .get(&et_ms)
            .map_or(0, |rows| rows.iter().map(RecordBatch::num_rows).sum());
        if (have as u64) < n {
            return None;
        }
        self.marks.pop_front();
        let rows = self.panes.remove(&et_ms).unwrap_or_default();
        self.waiting -= rows
            .iter()
            .map(RecordBatch::get_array_memory_size)
            .sum::<usize>();
        Some((et_ms, rows))
    }

    /// Number of incomplete panes.
    pub fn missing(&self) -> usize {
        self.marks.len().max(self.panes.len())
    }

    /// Assigns rows to their panes.
    pub fn sort(&mut self, rows: &RecordBatch) {
        let longs = |name: &str| rows[name].as_primitive::<Int64Type>();
        let times = longs(self.says.0);
        let marks = longs(self.says.1);
        let mut panes: Vec<i64> = Vec::new();
        for row in 0..rows.num_rows() {
            match (times.is_valid(row), marks.is_valid(row)) {
                (true, true) => self
                    .marks
                    .push_back((times.value(row), marks.value(row).cast_unsigned())),
                (true, false) if panes.last() != Some(&times.value(row)) => {
                    panes.push(times.value(row))
                }
                _ => {}
            }
        }
        panes.sort_unstable();
        panes.dedup();
        for pane in panes {
            let is_of = |row| times.is_valid(row) && times.value(row) == pane && marks.is_null(row);
            let chosen: BooleanArray = (0..rows.num_rows()).map(|row| Some(is_of(row))).collect();
            let Ok(rows) = filter_record_batch(rows, &chosen) else {
                continue;
            };
            self.waiting += rows.get_array_memory_size();
            self.panes.entry(pane).or_default().push(rows);
        }
    }
}

/// Converts rows to tuples.
pub fn tuples(rows: &RecordBatch, schema: &Arc<Schema>, fields: &[Option<FieldId>]) -> Batch {
    let mut columns = vec![None; schema.fields.len()];
    for (field, column) in fields.iter().zip(rows.columns()) {
        if let Some(field) = field {
            columns[usize::from(field.0)] = Some(column.clone());
        }
    }
    Batch::new(schema.clone(), rows.num_rows(), columns)
}
