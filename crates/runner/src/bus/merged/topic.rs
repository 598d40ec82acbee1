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

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array};
    use proptest::prelude::*;

    use super::*;

    fn topic() -> MergedTopic {
        let fields = ["et_ms", "mark", "cell"].map(|name| Field::new(name, DataType::Int64, true));
        let schema = Arc::new(arrow_schema::Schema::new(fields.to_vec()));
        MergedTopic::new(
            MergedContent::Cells(0),
            "t",
            0,
            (&schema, 10, ("et_ms", "mark")),
        )
    }

    /// A cell of a pane, or the number of its cells.
    #[derive(Clone, Copy, Debug)]
    enum MergedRow {
        Cell(i64, i64),
        Mark(i64, i64),
    }

    fn rows(rows: &[MergedRow]) -> RecordBatch {
        let column = |value: fn(&MergedRow) -> Option<i64>| -> ArrayRef {
            Arc::new(rows.iter().map(value).collect::<Int64Array>())
        };
        let et_ms = column(|row| match row {
            MergedRow::Cell(pane, _) | MergedRow::Mark(pane, _) => Some(*pane),
        });
        let mark = column(|row| match row {
            MergedRow::Cell(..) => None,
            MergedRow::Mark(_, n) => Some(*n),
        });
        let cell = column(|row| match row {
            MergedRow::Cell(_, cell) => Some(*cell),
            MergedRow::Mark(..) => None,
        });
        let columns = [
            ("et_ms", et_ms, true),
            ("mark", mark, true),
            ("cell", cell, true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
    }

    /// Complete panes with their cells, sorted.
    fn complete(topic: &mut MergedTopic) -> Vec<(i64, Vec<i64>)> {
        let mut panes = Vec::new();
        while let Some((pane, batches)) = topic.next_whole() {
            let cells = batches
                .iter()
                .flat_map(|batch| batch["cell"].as_primitive::<Int64Type>().values().to_vec());
            let mut cells: Vec<i64> = cells.collect();
            cells.sort_unstable();
            panes.push((pane, cells));
        }
        panes
    }

    proptest! {
        /// Marks are in order, cells are not; a pane is complete with its last cell, after all panes before.
        #[test]
        fn panes_are_complete_in_order_with_exactly_their_cells(
            sizes in prop::collection::vec(0usize..6, 1..8),
            order in prop::collection::vec(any::<u16>(), 60),
            batch_size in 1usize..9,
        ) {
            let marks: Vec<_> = (0..).zip(&sizes).map(|(n, size)| MergedRow::Mark(n * 10, *size as i64)).collect();
            let cells = (0..).zip(&sizes).flat_map(|(n, size)| (0..*size as i64).map(move |i| (n * 10, n * 100 + i)));
            let mut stream: Vec<(u16, MergedRow)> = cells
                .zip(order.iter())
                .map(|((pane, cell), place)| (*place, MergedRow::Cell(pane, cell)))
                .collect();
            stream.sort_by_key(|(place, _)| *place);
            // Marks between the cells, in their order.
            let step = (stream.len() + 1).div_ceil(marks.len());
            let mut arriving: Vec<MergedRow> = stream.into_iter().map(|(_, row)| row).collect();
            for (n, mark) in marks.iter().enumerate() {
                arriving.insert((n * step + n).min(arriving.len()), *mark);
            }
            let mut topic = topic();
            let mut found = Vec::new();
            for (n, batch) in arriving.chunks(batch_size).enumerate() {
                topic.sort(&rows(batch));
                found.extend(complete(&mut topic));
                // Recomputed from all rows so far.
                let so_far = &arriving[..arriving.len().min((n + 1) * batch_size)];
                let marked = so_far.iter().filter_map(|row| match row {
                    MergedRow::Mark(pane, size) => Some((*pane, *size as usize)),
                    MergedRow::Cell(..) => None,
                });
                let has_all = |(pane, size): &(i64, usize)| {
                    let is_of = |row: &&MergedRow| matches!(row, MergedRow::Cell(of, _) if of == pane);
                    so_far.iter().filter(is_of).count() >= *size
                };
                prop_assert_eq!(found.len(), marked.take_while(has_all).count());
            }
            let expected: Vec<_> = (0..)
                .zip(&sizes)
                .map(|(n, size)| (n * 10, (0..*size as i64).map(|i| n * 100 + i).collect::<Vec<_>>()))
                .collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!((topic.waiting, topic.missing()), (0, 0));
        }
    }

    #[test]
    fn incomplete_panes_are_counted() {
        use MergedRow::{Cell, Mark};
        for (arrived, missing) in [
            (vec![Mark(0, 2), Cell(0, 1)], 1),
            // Without a mark, as if the output ended between.
            (vec![Cell(0, 1), Cell(10, 2)], 2),
            // A complete pane behind an incomplete one waits, too.
            (vec![Mark(0, 1), Mark(10, 1), Cell(10, 2)], 2),
            (vec![Mark(0, 0)], 0),
            // A number that cannot be one.
            (vec![Mark(0, -1), Cell(0, 1)], 1),
        ] {
            let mut topic = topic();
            topic.sort(&rows(&arrived));
            complete(&mut topic);
            assert_eq!(topic.missing(), missing, "{arrived:?}");
            assert_eq!(
                topic.waiting > 0,
                arrived.iter().any(|row| matches!(row, Cell(..)))
            );
        }
    }

    #[test]
    fn rows_without_a_time_are_ignored() {
        let mut batch = rows(&[
            MergedRow::Mark(0, 1),
            MergedRow::Cell(0, 7),
            MergedRow::Cell(0, 8),
        ]);
        let times: ArrayRef = Arc::new(Int64Array::from(vec![Some(0), None, Some(0)]));
        let mut columns = batch.columns().to_vec();
        columns[0] = times;
        batch = RecordBatch::try_new(batch.schema(), columns).expect("a batch");
        let mut topic = topic();
        topic.sort(&batch);
        assert_eq!(complete(&mut topic), [(0, vec![8])]);
    }
}
