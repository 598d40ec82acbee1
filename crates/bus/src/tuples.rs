//! A parser's tuples as records: `wm_ns`, `replicate`, then all fields of the parser's schema, null if the publisher
//! did not fill them.
//!
//! `wm_ns` is the lane's promise: no later tuple of this partition ends before it. `replicate` is the tuple's replicate
//! of a sample, if it has one. A *beat* is a record of an idle lane with only the promise, recognizable by the missing
//! `ts_end`, which every tuple has.

use std::sync::Arc;

use arrow_array::builder::BooleanBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use tuple::batch::arrow_type;
use tuple::{Batch, FieldId, common};

use avro::{AvroDecoder as Datums, MalformedDatum};

/// Column with the lane's promise.
pub const WATERMARK: &str = "wm_ns";
/// Column with the replicate of a sample.
pub const REPLICATE: &str = "replicate";
/// Number of columns before those of the tuple.
const OWN: usize = 2;

/// Schema of the records in a parser's topic, for [`avro`].
#[must_use]
pub fn record_schema(schema: &tuple::Schema) -> SchemaRef {
    let own = [WATERMARK, REPLICATE].map(|name| Field::new(name, DataType::Int64, true));
    let fields = schema
        .fields
        .iter()
        .map(|field| Field::new(&*field.name, arrow_type(field.data_type), true));
    Arc::new(Schema::new(
        own.into_iter().chain(fields).collect::<Vec<_>>(),
    ))
}

/// Promises of a lane for a batch: no later tuple ends before this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanePromise {
    /// Before the batch's last row.
    pub before: i64,
    /// From its last row on.
    pub after: i64,
}

/// The batch's rows as records. `replicates` has one number per row, if they have any.
///
/// # Panics
/// If the numbers of replicates and rows differ, or tuples lack `ts_end`, which is a bug of the caller.
#[must_use]
pub fn to_records(
    batch: &Batch,
    promise: LanePromise,
    replicates: Option<&Int64Array>,
) -> RecordBatch {
    let rows = batch.rows();
    let ends = batch
        .column(common::TS_END)
        .map_or(rows, |ends| ends.null_count());
    assert_eq!(ends, 0, "{}: tuples without an end", batch.schema().name);
    let watermarks = (1..=rows).map(|row| {
        if row == rows {
            promise.after
        } else {
            promise.before
        }
    });
    let schema = record_schema(batch.schema());
    let own: [ArrayRef; OWN] = [
        Arc::new(Int64Array::from_iter_values(watermarks)),
        replicates.map_or_else(
            || new_null_array(&DataType::Int64, rows),
            |shares| Arc::new(shares.clone()),
        ),
    ];
    let nothing = |id| new_null_array(schema.field(OWN + place(id)).data_type(), rows);
    let fields = batch
        .schema()
        .ids()
        .map(|id| batch.column(id).cloned().unwrap_or_else(|| nothing(id)));
    RecordBatch::try_new(schema.clone(), own.into_iter().chain(fields).collect())
        .expect("columns of the schema")
}

/// A record of an idle lane with only the promise.
///
/// # Panics
/// Never: the columns are those of the schema.
#[must_use]
pub fn beat(schema: &tuple::Schema, watermark: i64) -> RecordBatch {
    let schema = record_schema(schema);
    let nulls = schema
        .fields()
        .iter()
        .skip(1)
        .map(|field| new_null_array(field.data_type(), 1));
    let own: ArrayRef = Arc::new(Int64Array::from(vec![watermark]));
    RecordBatch::try_new(schema.clone(), [own].into_iter().chain(nulls).collect())
        .expect("columns of the schema")
}

/// Decodes the records of a parser's topic.
pub struct TupleDecoder {
    schema: Arc<tuple::Schema>,
    /// Requested fields, in the order of the schema.
    wanted: Vec<FieldId>,
    records: Datums,
}

/// Tuples of a partition with the promises of their lane.
#[derive(Clone, Debug)]
pub struct DecodedTuples {
    /// The tuples; columns not requested are absent.
    pub batch: Batch,
    /// Promise of each tuple's record.
    pub watermarks: Int64Array,
    /// Replicate of each tuple, if any.
    pub replicates: Int64Array,
    /// The last promise, also of a beat; `None`: no records.
    pub promise: Option<i64>,
}

impl TupleDecoder {
    /// A decoder for a parser's topic with the `wanted` columns.
    ///
    /// # Panics
    /// Never: every type of a tuple has an encoding.
    #[must_use]
    pub fn new(schema: &Arc<tuple::Schema>, wanted: impl Fn(FieldId) -> bool) -> TupleDecoder {
        let read = |place: usize| {
            let id = place.checked_sub(OWN).map(|field| FieldId(field as u16));
            id.is_none_or(|id| id == common::TS_END || wanted(id))
        };
        TupleDecoder {
            wanted: schema.ids().filter(|id| wanted(*id)).collect(),
            records: Datums::new(&record_schema(schema), read)
                .expect("every type of a tuple has a form"),
            schema: schema.clone(),
        }
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// `MalformedDatum` for an invalid record, including an address of the wrong length; it is skipped.
    pub fn push(&mut self, record: &[u8]) -> Result<(), MalformedDatum> {
        self.records.push(record)
    }

    /// Records decoded since the last call of [`TupleDecoder::finish`], including beats.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.records.rows()
    }

    /// Requested columns unknown to some publisher of an earlier version.
    pub fn lacking(&self) -> impl Iterator<Item = &str> {
        self.records.lacking()
    }

    /// Returns and removes the decoded tuples.
    ///
    /// # Panics
    /// Never: the columns are those requested.
    #[must_use]
    pub fn finish(&mut self) -> DecodedTuples {
        let records = self.records.finish();
        let promise = longs(&records, WATERMARK).iter().flatten().last();
        let ends = &records[&*self.schema.field(common::TS_END).name];
        let tuples = match ends.null_count() {
            0 => records.clone(),
            _ => {
                let mut told = BooleanBuilder::with_capacity(ends.len());
                (0..ends.len()).for_each(|row| told.append_value(ends.is_valid(row)));
                filter_record_batch(&records, &told.finish()).expect("a word for each row")
            }
        };
        let mut columns = vec![None; self.schema.fields.len()];
        for id in &self.wanted {
            columns[place(*id)] = tuples.column_by_name(&self.schema.field(*id).name).cloned();
        }
        DecodedTuples {
            batch: Batch::new(self.schema.clone(), tuples.num_rows(), columns),
            watermarks: longs(&tuples, WATERMARK).clone(),
            replicates: longs(&tuples, REPLICATE).clone(),
            promise,
        }
    }
}

fn longs<'a>(records: &'a RecordBatch, name: &str) -> &'a Int64Array {
    records[name].as_primitive::<Int64Type>()
}

fn place(id: FieldId) -> usize {
    usize::from(id.0)
}

#[cfg(test)]
mod tests {
    use arrow_array::{FixedSizeBinaryArray, StringArray, UInt64Array};
    use tuple::{DataType as Kind, Unit};

    use super::*;
    use avro::{AvroRecords, encode};

    const OWN_FIELDS: &[tuple::Field] = &[
        tuple::Field::new("status", Kind::U64, Unit::None, "its outcome"),
        tuple::Field::new("url", Kind::Text, Unit::None, "what was asked for"),
    ];

    fn schema() -> Arc<tuple::Schema> {
        Arc::new(tuple::Schema::of_parser(
            "http_get", 1, "requests", OWN_FIELDS, None, None,
        ))
    }

    fn id(name: &str) -> FieldId {
        schema().find(name).expect("a field")
    }

    fn column(name: &str) -> Option<ArrayRef> {
        Some(match name {
            "id" => Arc::new(UInt64Array::from(vec![u64::MAX, 0, 7])),
            "ts_end" => Arc::new(Int64Array::from(vec![-5, 0, 1_700_000_000_000_000_000])),
            "client_ip" => {
                let ips = [Some([0xfe; 16]), None, Some([1; 16])];
                Arc::new(
                    FixedSizeBinaryArray::try_from_sparse_iter_with_size(ips.into_iter(), 16)
                        .ok()?,
                )
            }
            "url" => Arc::new(StringArray::from(vec![Some("/"), None, Some("/ä")])),
            _ => return None,
        })
    }

    /// Columns including the extremes of their types.
    fn batch() -> Batch {
        let columns = schema()
            .fields
            .iter()
            .map(|field| column(&field.name))
            .collect();
        Batch::new(schema(), 3, columns)
    }

    fn encoded(record: &RecordBatch) -> AvroRecords {
        let mut records = AvroRecords::default();
        encode(record, &mut records).expect("every type has a form");
        records
    }

    #[test]
    fn tuples_round_trip() {
        let shares = Int64Array::from(vec![Some(3), None, Some(5)]);
        let promise = LanePromise {
            before: 10,
            after: 20,
        };
        let mut decoder =
            TupleDecoder::new(&schema(), |id| column(&schema().field(id).name).is_some());
        for record in encoded(&to_records(&batch(), promise, Some(&shares))).iter() {
            decoder.push(record).expect("our own");
        }
        for record in encoded(&beat(&schema(), 25)).iter() {
            assert_eq!(
                record.len(),
                2 + schema().fields.len() + 1,
                "a beat is as small as can be"
            );
            decoder.push(record).expect("our own");
        }
        assert_eq!(decoder.rows(), 4);
        let tuples = decoder.finish();
        assert_eq!(tuples.batch.rows(), 3);
        for name in ["id", "ts_end", "client_ip", "url"] {
            assert_eq!(
                tuples.batch.column(id(name)),
                column(name).as_ref(),
                "{name}"
            );
        }
        assert_eq!(tuples.batch.present().count(), 4);
        assert_eq!(tuples.watermarks, Int64Array::from(vec![10, 10, 20]));
        assert_eq!(tuples.replicates, shares);
        assert_eq!(tuples.promise, Some(25));
        assert_eq!(decoder.finish().promise, None);
    }

    #[test]
    fn unrequested_columns_are_absent() {
        let records = encoded(&to_records(
            &batch(),
            LanePromise {
                before: 1,
                after: 2,
            },
            None,
        ));
        let mut decoder = TupleDecoder::new(&schema(), |field| field == id("url"));
        records
            .iter()
            .for_each(|record| decoder.push(record).expect("our own"));
        let tuples = decoder.finish();
        assert_eq!(tuples.batch.present().collect::<Vec<_>>(), [id("url")]);
        assert_eq!(tuples.batch.column(id("url")), column("url").as_ref());
        assert_eq!(tuples.replicates.null_count(), 3);
    }

    #[test]
    fn an_address_of_another_length_is_an_error() {
        let ip = (0..OWN + usize::from(common::CLIENT_IP.0)).map(|_| 0);
        let record: Vec<u8> = ip.chain([2, 8, 10, 0, 0, 1]).collect();
        let error = TupleDecoder::new(&schema(), |_| false)
            .push(&record)
            .expect_err("four bytes");
        assert_eq!(
            error.to_string(),
            "`client_ip` at byte 4: 4 bytes instead of 16"
        );
    }
}
