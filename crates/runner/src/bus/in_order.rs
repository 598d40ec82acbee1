//! Tuples of several lanes in the order of time: they wait until no lane has older ones.

use arrow_array::BooleanArray;
use arrow_select::filter::filter;
use stream::{Output, TakeOutput, in_time_order};
use tuple::{Batch, common};

/// Tuples that wait for older ones are no more than this; beyond it the oldest are let go.
const ROWS_MAX: usize = 1 << 20;

/// See the module's text.
#[derive(Default)]
pub struct InOrder {
    held: Vec<Batch>,
    rows: usize,
}

impl TakeOutput for InOrder {
    fn take(&mut self, output: Output) {
        self.rows += output.batch.rows();
        self.held.push(output.batch);
    }
}

impl InOrder {
    /// Lets go what is from before `watermark_ns`: older tuples do not come.
    pub fn release(&mut self, watermark_ns: i64, out: &mut dyn TakeOutput) {
        let is_over = watermark_ns == i64::MAX || self.rows > ROWS_MAX;
        let (mut ready, mut held) = (Vec::new(), Vec::new());
        for batch in std::mem::take(&mut self.held) {
            if is_over || batch.column(common::TS_END).is_none() {
                ready.push(batch);
                continue;
            }
            let ends = batch.i64(common::TS_END);
            let is_ready: Vec<bool> = ends.values().iter().map(|end| *end < watermark_ns).collect();
            match (is_ready.contains(&true), is_ready.contains(&false)) {
                (true, true) => {
                    ready.push(chosen(&batch, is_ready.iter().copied()));
                    held.push(chosen(&batch, is_ready.iter().map(|is_ready| !is_ready)));
                }
                (true, false) => ready.push(batch),
                _ => held.push(batch),
            }
        }
        self.rows = held.iter().map(Batch::rows).sum();
        self.held = held;
        in_time_order(ready, &mut |batch| out.take(Output { pipeline: None, batch, watermark_ns }));
    }
}

/// The rows that are.
fn chosen(batch: &Batch, are: impl Iterator<Item = bool>) -> Batch {
    let are: BooleanArray = are.map(Some).collect();
    let column = |id| batch.column(id).map(|column| filter(column, &are).expect("a word for each row"));
    Batch::new(batch.schema().clone(), are.true_count(), batch.schema().ids().map(column).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn tuples(ends: &[i64]) -> Output {
        let schema = Arc::new(tuple::Schema::of_parser("t", 1, "test", &[], None, None));
        let columns: Vec<_> = schema.ids().collect();
        let mut writer = tuple::TupleWriter::new(schema, &columns);
        for end in ends {
            writer.u64(common::ID, 1);
            writer.i64(common::TS, *end);
            writer.i64(common::TS_END, *end);
            writer.end_row();
        }
        Output { pipeline: None, batch: writer.finish(), watermark_ns: 0 }
    }

    #[test]
    fn older_ones_are_waited_for() {
        let (mut held, mut out): (InOrder, Vec<Output>) = Default::default();
        held.take(tuples(&[1, 5, 7]));
        held.take(tuples(&[2, 3, 9]));
        let told = |out: &[Output]| -> Vec<i64> {
            out.iter().flat_map(|output| output.batch.i64(common::TS_END).values().to_vec()).collect()
        };
        held.release(1, &mut out);
        assert!(out.is_empty());
        held.release(5, &mut out);
        assert_eq!(told(&out), [1, 2, 3]);
        held.take(tuples(&[6]));
        held.release(i64::MAX, &mut out);
        assert_eq!((told(&out), held.rows), (vec![1, 2, 3, 5, 6, 7, 9], 0));
    }
}
