//! A total order for raw tuples of several workers: by completion time, then by flow in the order of the earliest
//! start among these rows, then in the worker's order. It does not depend on the number of workers.

use arrow_array::{BooleanArray, new_null_array};
use arrow_select::filter::filter;
use arrow_select::interleave::interleave;
use tuple::{Batch, FieldId, common};

use crate::column::{ColumnValues, ColumnView};

/// Maximum rows of an output batch.
const BATCH_ROWS: usize = 4096;

/// Passes all rows of `batches` to `out` in order, in bounded batches. Batches of one schema have the same columns;
/// each schema is ordered separately. Batches without `ts_end`, `ts`, or `id` keep their order. Rows completed by the
/// same packet keep the stream's order, so that a replay of a recording yields the order of the packets.
pub fn in_time_order(batches: Vec<Batch>, out: &mut dyn FnMut(Batch)) {
    const KEY: [FieldId; 3] = [common::TS_END, common::TS, common::ID];
    let keyed = |batch: &Batch| KEY.iter().all(|id| batch.column(*id).is_some());
    if !batches.iter().all(keyed) {
        return batches.into_iter().for_each(out);
    }
    let first = batches.first().map(|batch| batch.schema().clone());
    let is_of_first = |batch: &Batch| {
        first
            .as_ref()
            .is_some_and(|first| batch.schema().name == first.name)
    };
    if !batches.iter().all(is_of_first) {
        let (of_first, others) = batches.into_iter().partition(is_of_first);
        in_time_order(of_first, out);
        return in_time_order(others, out);
    }
    let mut rows = Vec::with_capacity(batches.iter().map(Batch::rows).sum());
    for (n, batch) in batches.iter().enumerate() {
        let views = KEY.map(|id| ColumnView::of(batch, id).values);
        let [
            ColumnValues::I64(ends),
            ColumnValues::I64(begins),
            ColumnValues::U64(ids),
        ] = views
        else {
            unreachable!("the columns that every tuple has are of these types")
        };
        rows.extend((0..batch.rows()).map(|row| TimeOrderedRow {
            end: ends[row],
            begin: begins[row],
            id: ids[row],
            place: (n, row),
        }));
    }
    rows.sort_by_key(|row| (row.end, row.id));
    for rows in rows.chunk_by_mut(|a, b| (a.end, a.id) == (b.end, b.id)) {
        let first = rows.iter().map(|row| row.begin).min().unwrap_or_default();
        rows.iter_mut().for_each(|row| row.begin = first);
    }
    rows.sort_by_key(|row| (row.end, row.begin, row.id));
    if rows.is_sorted_by_key(|row| row.place) {
        drop(rows);
        return batches.into_iter().for_each(out);
    }
    rows.chunks(BATCH_ROWS)
        .for_each(|rows| out(gather(&batches, rows)));
}

/// Splits a batch into rows completed before `time` and all others, keeping the order.
#[must_use]
pub fn split_at_time(batch: &Batch, time: i64) -> (Batch, Batch) {
    let ends = batch.i64(common::TS_END).values();
    let chosen = |is_before: bool| {
        let rows: BooleanArray = ends
            .iter()
            .map(|end| Some((*end < time) == is_before))
            .collect();
        let column = |id| {
            batch
                .column(id)
                .map(|column| filter(column, &rows).expect("a value for each row"))
        };
        Batch::new(
            batch.schema().clone(),
            rows.true_count(),
            batch.schema().ids().map(column).collect(),
        )
    };
    (chosen(true), chosen(false))
}

struct TimeOrderedRow {
    end: i64,
    /// Start of the row; later the earliest start of the rows with the same flow and end.
    begin: i64,
    id: u64,
    /// Batch and row index.
    place: (usize, usize),
}

fn gather(batches: &[Batch], rows: &[TimeOrderedRow]) -> Batch {
    let places: Vec<_> = rows.iter().map(|row| row.place).collect();
    let schema = batches[0].schema();
    let columns = schema.ids().map(|id| {
        let arrays: Option<Vec<_>> = batches
            .iter()
            .map(|b| b.column(id).map(AsRef::as_ref))
            .collect();
        arrays.map(|arrays| {
            if arrays.iter().all(|array| array.null_count() == array.len()) {
                new_null_array(arrays[0].data_type(), rows.len())
            } else {
                interleave(&arrays, &places).expect("the columns of a field have one type")
            }
        })
    });
    Batch::new(schema.clone(), rows.len(), columns.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tuple::{DataType, Field, Schema, TupleWriter, Unit};

    use super::*;

    /// Checks the order of rows (ts_end, ts, id, text) by their texts.
    fn check(batches: &[&[(i64, i64, u64, &str)]], expected: &[&str]) {
        let fields = [Field::new("name", DataType::Text, Unit::None, "a name")];
        let schema = Arc::new(Schema::of_parser("test", 1, "tests", &fields, None, None));
        let name = schema.find("name").expect("it was just made");
        let mut w = TupleWriter::new(schema, &[common::ID, common::TS, common::TS_END, name]);
        let batch = |rows: &&[(i64, i64, u64, &str)]| {
            for (time, begin, id, text) in *rows {
                w.u64(common::ID, *id);
                w.i64(common::TS, *begin);
                w.i64(common::TS_END, *time);
                w.text(name, text.as_bytes());
                w.end_row();
            }
            w.finish()
        };
        let mut sorted = Vec::new();
        in_time_order(batches.iter().map(batch).collect(), &mut |batch| {
            sorted.push(batch)
        });
        let texts: Vec<_> = sorted
            .iter()
            .flat_map(|b| b.text(name).iter().flatten().collect::<Vec<_>>())
            .collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn by_time_then_flow_then_as_written() {
        check(
            &[
                &[(1, 0, 9, "a"), (3, 0, 9, "d")],
                &[(2, 0, 5, "b"), (2, 0, 7, "c")],
            ],
            &["a", "b", "c", "d"],
        );
        check(
            &[&[(1, 0, 5, "b"), (1, 0, 5, "c")], &[(1, 0, 4, "a")]],
            &["a", "b", "c"],
        );
        check(
            &[&[(1, 0, 1, "a"), (2, 0, 2, "b")], &[(2, 0, 2, "c")]],
            &["a", "b", "c"],
        );
        check(&[], &[]);
    }

    #[test]
    fn flows_are_in_the_order_of_their_begins_and_their_rows_as_written() {
        check(
            &[
                &[(9, 5, 1, "b"), (9, 4, 1, "c")],
                &[(9, 3, 2, "a"), (9, 7, 2, "a")],
            ],
            &["a", "a", "b", "c"],
        );
        check(
            &[&[(9, 5, 1, "b"), (9, 3, 2, "a"), (9, 4, 1, "c")]],
            &["a", "b", "c"],
        );
    }

    #[test]
    fn a_split_keeps_the_order_on_both_sides() {
        let schema = Arc::new(Schema::of_parser("test", 1, "tests", &[], None, None));
        let mut w = TupleWriter::new(schema, &[common::ID, common::TS_END]);
        for (id, end) in [(1, 5), (2, 9), (3, 4), (4, 7)] {
            w.u64(common::ID, id);
            w.i64(common::TS_END, end);
            w.end_row();
        }
        let (before, after) = split_at_time(&w.finish(), 7);
        let ids = |batch: &Batch| batch.u64(common::ID).values().to_vec();
        assert_eq!((ids(&before), ids(&after)), (vec![1, 3], vec![2, 4]));
    }

    #[test]
    fn many_rows_make_several_batches() {
        let rows: Vec<_> = (0..BATCH_ROWS as i64 + 1)
            .rev()
            .map(|t| (t, 0, 1, "x"))
            .collect();
        check(&[&rows], &vec!["x"; rows.len()]);
    }
}
