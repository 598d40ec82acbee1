//! Rows of cells with arbitrary edits. They are rejected, or round-trip, and can be attached and printed.
#![no_main]

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array,
    RecordBatch, StringArray,
};
use libfuzzer_sys::fuzz_target;
use netalytics_fuzz::dataflows::{config, dataflows, detached};
use plan::Dataflow;
use stream::Engine;
use stream::cells::CellType;

/// Pipelines of dataflows, and the cells that a worker of each sends.
static VALID: LazyLock<Vec<(Dataflow, usize, RecordBatch)>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for flow in dataflows() {
        let engine = Engine::worker(&flow, config());
        let cells = engine.cells(&detached(&flow), 0);
        for (pipeline, batches) in cells.into_iter().enumerate() {
            all.extend(
                batches
                    .into_iter()
                    .map(|batch| (flow.clone(), pipeline, batch)),
            );
        }
    }
    all
});

/// An edit of eight bytes: row, column, kind, and value.
struct Edit {
    row: usize,
    column: usize,
    how: u8,
    value: u32,
}

fn edits(input: &[u8]) -> impl Iterator<Item = Edit> + '_ {
    input
        .as_chunks()
        .0
        .iter()
        .map(|[low, high, column, how, a, b, c, d]| Edit {
            row: usize::from(u16::from_le_bytes([*low, *high])),
            column: usize::from(*column),
            how: *how,
            value: u32::from_le_bytes([*a, *b, *c, *d]),
        })
}

impl Edit {
    /// A small number, or any.
    fn number(&self) -> i64 {
        let value = i64::from(self.value as i32);
        match self.how % 6 {
            0 => value % 70,
            1 => value,
            2 => value << 31,
            _ => value.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64),
        }
    }

    fn real(&self) -> f64 {
        match self.how % 6 {
            0 => [0.0, 1.0, 0.25, -1.0, f64::NAN, f64::INFINITY][self.value as usize % 6],
            _ => f64::from_bits(u64::from(self.value) << 32 | u64::from(self.how)),
        }
    }

    fn bytes(&self, old: &[u8]) -> Vec<u8> {
        let mut bytes = old.to_vec();
        let at = self.value as usize % (bytes.len() + 1);
        let byte = (self.value >> 16) as u8;
        match self.how % 6 {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, byte),
            _ if at < bytes.len() => bytes[at] = byte,
            _ => {}
        }
        bytes
    }
}

/// A column with values of some rows replaced by another row's, null, or a new value.
macro_rules! edited {
    ($array:expr, $edits:expr, $own:expr, $new:expr) => {{
        let array = $array;
        let mut values: Vec<_> = (0..array.len())
            .map(|row| array.is_valid(row).then(|| $own(array, row)))
            .collect();
        for edit in $edits {
            let row = edit.row % values.len();
            values[row] = match edit.how / 64 {
                0 => None,
                1 => values[edit.value as usize % values.len()].clone(),
                _ => Some($new(edit, &values[row])),
            };
        }
        values
    }};
}

fn edited(array: &ArrayRef, data: CellType, edits: &[Edit]) -> ArrayRef {
    match data {
        CellType::Bool => Arc::new(BooleanArray::from(edited!(
            array.as_boolean(),
            edits,
            BooleanArray::value,
            |edit: &Edit, _: &_| edit.value % 2 == 0
        ))),
        CellType::Long => Arc::new(Int64Array::from(edited!(
            array.as_primitive::<Int64Type>(),
            edits,
            Int64Array::value,
            |edit: &Edit, _: &_| edit.number()
        ))),
        CellType::Double => Arc::new(Float64Array::from(edited!(
            array.as_primitive::<Float64Type>(),
            edits,
            Float64Array::value,
            |edit: &Edit, _: &_| edit.real()
        ))),
        CellType::Text => Arc::new(StringArray::from(edited!(
            array.as_string::<i32>(),
            edits,
            |array: &StringArray, row| array.value(row).to_owned(),
            |edit: &Edit, _: &_| edit.value.to_string()
        ))),
        CellType::Bytes => Arc::new(BinaryArray::from_iter(edited!(
            array.as_binary::<i32>(),
            edits,
            |array: &BinaryArray, row| array.value(row).to_owned(),
            |edit: &Edit, old: &Option<Vec<u8>>| edit.bytes(old.as_deref().unwrap_or_default())
        ))),
        CellType::Decimal => {
            let values = edited!(
                array.as_primitive::<Decimal128Type>(),
                edits,
                Decimal128Array::value,
                |edit: &Edit, _: &_| i128::from(edit.number()) << (edit.how % 60)
            );
            let array = Decimal128Array::from(values).with_precision_and_scale(38, 0);
            Arc::new(array.expect("38 digits"))
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((which, input)) = input.split_first() else {
        return;
    };
    let (flow, pipeline, valid) = &VALID[usize::from(*which) % VALID.len()];
    let mut engine = Engine::new(flow, config());
    let table = engine.cell_table(*pipeline).clone();
    let mut of_columns: Vec<Vec<Edit>> = valid.columns().iter().map(|_| Vec::new()).collect();
    let n = of_columns.len();
    edits(input).for_each(|edit| of_columns[edit.column % n].push(edit));
    let columns = valid
        .schema_ref()
        .fields()
        .iter()
        .zip(valid.columns())
        .zip(&of_columns);
    let columns = columns.map(|((field, array), edits)| {
        let column = table
            .columns
            .iter()
            .find(|column| column.name == *field.name());
        (
            field.name(),
            edited(array, column.expect("it is its table's").data, edits),
            true,
        )
    });
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length");
    let Ok(partial) = engine.partial_of_cells(*pipeline, &batch) else {
        return;
    };
    // Relayed by a worker, and together with valid rows.
    let mut worker = Engine::worker(flow, config());
    let bytes = partial.encode();
    worker.attach(partial);
    worker.attach(
        engine
            .partial_of_cells(*pipeline, &batch)
            .expect("as before"),
    );
    if let Ok(back) = engine.decode_partial(&bytes) {
        assert_eq!(back.encode(), bytes);
        worker.attach(back);
    }
    let all = worker.detach_all();
    for again in &worker.cells(&all, i64::MAX)[*pipeline] {
        // The sum may exceed the limit for one part.
        let _ = worker.partial_of_cells(*pipeline, again);
    }
    engine.attach(all);
    engine.attach(
        engine
            .partial_of_cells(*pipeline, valid)
            .expect("they are valid"),
    );
    let mut out = Vec::new();
    engine.make_room(&mut out);
    engine.advance(60, &mut out);
    engine.finish(&mut out);
});
