//! Rows that wait until there are enough to redact, divide, and encode them at once, because small batches have a high
//! overhead: with little traffic every batch has a few rows.

use std::iter::repeat_n;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, Int64Array, new_null_array,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, NullBufferBuilder};
use arrow_select::concat::concat;
use tuple::{Batch, DataType, FieldId};

/// Maximum rows that wait.
pub(crate) const PENDING_ROWS: usize = 1024;
/// Maximum memory of rows that wait.
const PENDING_BYTES: usize = 1 << 20;

/// Rows that wait, with the watermark of each batch.
#[derive(Default)]
pub struct PendingRows {
    batches: Vec<(Batch, i64)>,
    rows: usize,
    bytes: usize,
}

impl PendingRows {
    /// Adds rows released at event time `watermark_ns`. Returns whether all rows should be taken.
    pub fn push(&mut self, batch: &Batch, watermark_ns: i64) -> bool {
        self.rows += batch.rows();
        self.bytes += batch.bytes();
        self.batches.push((batch.clone(), watermark_ns));
        self.rows >= PENDING_ROWS || self.bytes >= PENDING_BYTES
    }

    /// Takes all rows as one batch, with the watermark of each row; `None` without rows.
    pub fn take(&mut self) -> Option<(Batch, Int64Array)> {
        let PendingRows { batches, rows, .. } = std::mem::take(self);
        let of_batch = |(batch, watermark_ns): &(Batch, i64)| repeat_n(*watermark_ns, batch.rows());
        let watermarks = Int64Array::from_iter_values(batches.iter().flat_map(of_batch));
        let first = match &batches[..] {
            [] => return None,
            [(only, _)] => return (rows > 0).then(|| (only.clone(), watermarks)),
            [(first, _), ..] => first.schema().clone(),
        };
        let column = |id: FieldId| {
            let parts: Option<Vec<&ArrayRef>> =
                batches.iter().map(|(batch, _)| batch.column(id)).collect();
            parts.map(|parts| joined(&parts, first.field(id).data_type, rows))
        };
        let columns = first.ids().map(column).collect();
        (rows > 0).then(|| (Batch::new(first.clone(), rows, columns), watermarks))
    }
}

/// The values of all parts of a column, of which there is at least one.
fn joined(parts: &[&ArrayRef], data_type: DataType, rows: usize) -> ArrayRef {
    if parts.iter().all(|part| part.null_count() == part.len()) {
        return new_null_array(parts[0].data_type(), rows);
    }
    match data_type {
        DataType::Ip => {
            let mut bytes = Vec::with_capacity(rows * 16);
            for part in parts {
                bytes.extend_from_slice(part.as_fixed_size_binary().value_data());
            }
            Arc::new(FixedSizeBinaryArray::new(
                16,
                Buffer::from_vec(bytes),
                nulls(parts, rows),
            ))
        }
        DataType::Bool => {
            let mut values = BooleanBufferBuilder::new(rows);
            parts
                .iter()
                .for_each(|part| values.append_buffer(part.as_boolean().values()));
            Arc::new(BooleanArray::new(values.finish(), nulls(parts, rows)))
        }
        _ => {
            let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
            concat(&parts).expect("the columns of a field have one type")
        }
    }
}

fn nulls(parts: &[&ArrayRef], rows: usize) -> Option<NullBuffer> {
    let mut valid = NullBufferBuilder::new(rows);
    for part in parts {
        match part.nulls() {
            Some(nulls) => valid.append_buffer(nulls),
            None => valid.append_n_non_nulls(part.len()),
        }
    }
    valid.finish()
}

#[cfg(test)]
mod tests {
    use tuple::{Schema, TupleWriter, Unit, common};

    use super::*;

    #[test]
    fn rows_of_all_batches_are_taken_in_order_with_their_watermarks() {
        let all = [
            DataType::Bool,
            DataType::U64,
            DataType::I64,
            DataType::F64,
            DataType::Text,
            DataType::Ip,
            DataType::Hashes,
        ];
        let fields = all.map(|data_type| {
            let name = format!("{data_type:?}").to_lowercase();
            tuple::Field {
                name: name.into(),
                ..tuple::Field::new("", data_type, Unit::None, "")
            }
        });
        let schema = Arc::new(Schema::of_parser("t", 1, "", &fields, None, None));
        let own = |place: usize| FieldId((common::FIELDS.len() + place) as u16);
        let [bool, u64, i64, f64, text, ip, hashes] = std::array::from_fn(own);
        let wanted = [
            bool,
            u64,
            i64,
            f64,
            text,
            ip,
            hashes,
            common::VLAN_ID,
            common::TUNNEL_SRC,
        ];
        let write = |w: &mut TupleWriter, rows: std::ops::Range<u64>| {
            for n in rows {
                if n % 3 > 0 {
                    w.bool(bool, n % 2 == 0);
                    w.ip(ip, &[n as u8; 16]);
                }
                w.u64(u64, n);
                w.i64(i64, -(n as i64));
                if n % 5 > 0 {
                    w.f64(f64, n as f64);
                    w.text(text, n.to_string().as_bytes());
                    w.hashes(hashes, &[n, 0, n]);
                }
                w.end_row();
            }
            w.finish()
        };
        let mut writer = TupleWriter::new(schema, &wanted);
        let whole = write(&mut writer, 0..60);
        let mut pending = PendingRows::default();
        assert!(pending.take().is_none());
        // The last one is a slice.
        for (from, to) in [(0, 1), (1, 2), (2, 2), (2, 20), (20, 21)] {
            assert!(!pending.push(&write(&mut writer, from..to), from as i64));
        }
        pending.push(&whole.slice(21, 39), 21);
        let (batch, watermarks) = pending.take().expect("there are rows");
        assert_eq!(batch.rows(), 60);
        for id in whole.schema().ids() {
            assert_eq!(
                batch.column(id),
                whole.column(id),
                "{}",
                whole.schema().field(id).name
            );
        }
        let expected = (0..60).map(|row| {
            if row < 2 {
                row
            } else if row < 20 {
                2
            } else {
                row.min(21)
            }
        });
        assert_eq!(watermarks, Int64Array::from_iter_values(expected));
        assert!(pending.take().is_none());
        assert!(pending.push(&write(&mut writer, 0..PENDING_ROWS as u64), 0));
    }
}
