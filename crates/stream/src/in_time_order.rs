//! Raw tuples of several workers, put in one order: by the time at which they were complete, then by their begin, then
//! by flow, then as the flow's worker wrote them. The order says nothing of how many workers there were.

use arrow_array::new_null_array;
use arrow_select::interleave::interleave;
use tuple::{Batch, FieldId, common};

use crate::column::{ColumnView, Values};

/// Most rows of a batch that is made here.
const BATCH_ROWS: usize = 4096;

/// Gives all rows of `batches` in order to `out`, a bounded batch at a time. Those of one schema have the same columns; where there are
/// several schemas, the rows of each are in an order of their own. Without `ts_end`, `ts` or `id` they stay as they came.
pub fn in_time_order(batches: Vec<Batch>, out: &mut dyn FnMut(Batch)) {
    const KEY: [FieldId; 3] = [common::TS_END, common::TS, common::ID];
    let keyed = |batch: &Batch| KEY.iter().all(|id| batch.column(*id).is_some());
    if !batches.iter().all(keyed) {
        return batches.into_iter().for_each(out);
    }
    let first = batches.first().map(|batch| batch.schema().clone());
    let is_of_first = |batch: &Batch| first.as_ref().is_some_and(|first| batch.schema().name == first.name);
    if !batches.iter().all(is_of_first) {
        let (of_first, others) = batches.into_iter().partition(is_of_first);
        in_time_order(of_first, out);
        return in_time_order(others, out);
    }
    let mut rows = Vec::with_capacity(batches.iter().map(Batch::rows).sum());
    for (n, batch) in batches.iter().enumerate() {
        let views = KEY.map(|id| ColumnView::of(batch, id).values);
        let [Values::I64(ends), Values::I64(begins), Values::U64(ids)] = views else {
            unreachable!("the columns that every tuple has are of these types")
        };
        let key = |row: usize| (ends[row], begins[row], ids[row]);
        rows.extend((0..batch.rows()).map(|row| Row { key: key(row), place: (n, row) }));
    }
    if rows.is_sorted_by_key(|row| row.key) {
        drop(rows);
        return batches.into_iter().for_each(out);
    }
    // Of one worker often only those of one time are in disorder, who are few.
    if rows.is_sorted_by_key(|row| row.key.0) {
        rows.chunk_by_mut(|a, b| a.key.0 == b.key.0).for_each(|rows| rows.sort_by_key(|row| row.key));
    } else {
        rows.sort_by_key(|row| row.key);
    }
    rows.chunks(BATCH_ROWS).for_each(|rows| out(gather(&batches, rows)));
}

struct Row {
    key: (i64, i64, u64),
    /// Which batch, and which of its rows.
    place: (usize, usize),
}

fn gather(batches: &[Batch], rows: &[Row]) -> Batch {
    let places: Vec<_> = rows.iter().map(|row| row.place).collect();
    let schema = batches[0].schema();
    let columns = schema.ids().map(|id| {
        let arrays: Option<Vec<_>> = batches.iter().map(|b| b.column(id).map(AsRef::as_ref)).collect();
        arrays.map(|arrays| match arrays.iter().all(|array| array.null_count() == array.len()) {
            true => new_null_array(arrays[0].data_type(), rows.len()),
            false => interleave(&arrays, &places).expect("the columns of a field have one type"),
        })
    });
    Batch::new(schema.clone(), rows.len(), columns.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tuple::{DataType, Field, Schema, TupleWriter, Unit};

    use super::*;

    /// Rows as (ts_end, id, text) → the texts in order.
    fn check(batches: &[&[(i64, u64, &str)]], expected: &[&str]) {
        let fields = [Field::new("name", DataType::Text, Unit::None, "a name")];
        let schema = Arc::new(Schema::of_parser("test", 1, "tests", &fields, None, None));
        let name = schema.find("name").expect("it was just made");
        let mut w = TupleWriter::new(schema, &[common::ID, common::TS, common::TS_END, name]);
        let batch = |rows: &&[(i64, u64, &str)]| {
            for (time, id, text) in *rows {
                w.u64(common::ID, *id);
                w.i64(common::TS, 0);
                w.i64(common::TS_END, *time);
                w.text(name, text.as_bytes());
                w.end_row();
            }
            w.finish()
        };
        let mut sorted = Vec::new();
        in_time_order(batches.iter().map(batch).collect(), &mut |batch| sorted.push(batch));
        let texts: Vec<_> =
            sorted.iter().flat_map(|b| b.text(name).iter().flatten().collect::<Vec<_>>()).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn by_time_then_flow_then_as_written() {
        check(&[&[(1, 9, "a"), (3, 9, "d")], &[(2, 5, "b"), (2, 7, "c")]], &["a", "b", "c", "d"]);
        check(&[&[(1, 5, "b"), (1, 5, "c")], &[(1, 4, "a")]], &["a", "b", "c"]);
        check(&[&[(1, 1, "a"), (2, 2, "b")], &[(2, 2, "c")]], &["a", "b", "c"]);
        check(&[], &[]);
    }

    #[test]
    fn many_rows_make_several_batches() {
        let rows: Vec<_> = (0..BATCH_ROWS as i64 + 1).rev().map(|t| (t, 1, "x")).collect();
        check(&[&rows], &vec!["x"; rows.len()]);
    }
}
