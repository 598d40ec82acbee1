//! Round trips of known and random bytes; malformed input is reported and discarded.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Float64Array,
    Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// One column of each kind.
fn schema() -> SchemaRef {
    let fields = [
        ("yes", DataType::Boolean),
        ("count", DataType::Int64),
        ("id", DataType::UInt64),
        ("share", DataType::Float64),
        ("request_header.host", DataType::Utf8),
        ("hashes", DataType::Binary),
        ("ip", DataType::FixedSizeBinary(16)),
        ("sum", DataType::Decimal128(DECIMAL_DIGITS, 0)),
    ];
    Arc::new(Schema::new(
        fields
            .map(|(name, kind)| Field::new(name, kind, true))
            .to_vec(),
    ))
}

/// A row of [`schema`].
type AvroTestRow = (
    Option<bool>,
    Option<i64>,
    Option<u64>,
    Option<f64>,
    Option<String>,
    Option<Vec<u8>>,
    Option<[u8; 16]>,
    Option<i128>,
);

fn batch(rows: &[AvroTestRow]) -> RecordBatch {
    let ips = rows.iter().map(|row| row.6);
    let sums: Decimal128Array = rows.iter().map(|row| row.7).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<BooleanArray>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<UInt64Array>()),
        Arc::new(rows.iter().map(|row| row.3).collect::<Float64Array>()),
        Arc::new(
            rows.iter()
                .map(|row| row.4.as_deref())
                .collect::<StringArray>(),
        ),
        Arc::new(
            rows.iter()
                .map(|row| row.5.as_deref())
                .collect::<BinaryArray>(),
        ),
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(ips, 16).expect("16 bytes")),
        Arc::new(
            sums.with_precision_and_scale(DECIMAL_DIGITS, 0)
                .expect("38 digits"),
        ),
    ];
    RecordBatch::try_new(schema(), columns).expect("columns of the schema")
}

fn encoded(batch: &RecordBatch) -> AvroRecords {
    let mut records = AvroRecords::default();
    encode(batch, &mut records).expect("every kind has a form");
    records
}

fn decoder() -> AvroDecoder {
    AvroDecoder::new(&schema(), |_| true).expect("every kind has a form")
}

const NOTHING: AvroTestRow = (None, None, None, None, None, None, None, None);

#[test]
fn bytes_are_those_of_the_specification() {
    let row: AvroTestRow = (
        Some(true),
        Some(-65),
        Some(u64::MAX),
        Some(1.5),
        Some("foo".into()),
        Some(vec![0xff]),
        None,
        Some(-129),
    );
    let expected: &[&[u8]] = &[
        &[2, 1],
        &[2, 0x81, 0x01],
        // All bits set are -1.
        &[2, 1],
        &[2, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f],
        &[2, 6, b'f', b'o', b'o'],
        &[2, 2, 0xff],
        &[0],
        &[2, 4, 0xff, 0x7f],
    ];
    let records = encoded(&batch(&[row, NOTHING]));
    assert_eq!(
        records.iter().collect::<Vec<_>>(),
        [&expected.concat()[..], &[0; 8]]
    );
}

#[test]
fn schemas_are_printed() {
    let nullable = |name: &str, kind: serde_json::Value| json!({"name": name, "type": ["null", kind], "default": null});
    let mut host = nullable("request_header_host", json!("string"));
    host["doc"] = json!("request_header.host");
    let expected = json!({"type": "record", "name": "http_get", "fields": [
        nullable("yes", json!("boolean")),
        nullable("count", json!("long")),
        nullable("id", json!("long")),
        nullable("share", json!("double")),
        host,
        nullable("hashes", json!("bytes")),
        nullable("ip", json!("bytes")),
        nullable("sum", json!({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0})),
    ]});
    assert_eq!(
        schema_json(&schema(), "http-get").expect("a schema")["name"],
        "http_get"
    );
    assert_eq!(schema_json(&schema(), "http_get"), Ok(expected));
    let types = "BOOLEAN BIGINT BIGINT DOUBLE STRING BYTES BYTES DECIMAL(38,0)";
    assert_eq!(sql_type(&schema()).expect("types").join(" "), types);
    let other = Schema::new(vec![Field::new("x", DataType::Int32, true)]);
    assert_eq!(
        schema_json(&other, "x").expect_err("no form").to_string(),
        "column `x`: Int32 has no Avro form here"
    );
}

#[test]
fn malformed_records_are_reported_and_discarded() {
    let good: AvroTestRow = (
        Some(false),
        Some(1),
        Some(2),
        Some(0.0),
        Some("x".into()),
        Some(vec![]),
        Some([7; 16]),
        Some(9),
    );
    let check = |record: &[u8], expected: &str| {
        let mut decoder = decoder();
        decoder
            .push(
                encoded(&batch(std::slice::from_ref(&good)))
                    .iter()
                    .next()
                    .expect("one"),
            )
            .expect("good");
        let error = decoder.push(record).expect_err(expected);
        assert_eq!(error.to_string(), expected);
        assert_eq!(decoder.finish(), batch(std::slice::from_ref(&good)));
    };
    let after = |nulls: usize, rest: &[u8]| [&vec![0; nulls], rest].concat();
    check(&[], "`yes` at byte 0: the record ends here");
    check(&[4], "`yes` at byte 0: union branch 2; expected 0 or 1");
    check(&[2, 2], "`yes` at byte 0: a boolean of 2");
    check(
        &after(1, &[2, 0x80]),
        "`count` at byte 1: the record ends here",
    );
    check(
        &after(1, &[2, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2]),
        "`count` at byte 1: a number of more than 64 bits",
    );
    check(
        &after(3, &[2, 1, 2, 3]),
        "`share` at byte 3: the record ends here",
    );
    check(
        &after(4, &[2, 1]),
        "`request_header.host` at byte 4: a length of -1, with 0 bytes left",
    );
    check(
        &after(4, &[2, 8, b'a']),
        "`request_header.host` at byte 4: a length of 4, with 1 bytes left",
    );
    check(
        &after(4, &[2, 254, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        "`request_header.host` at byte 4: a length of 9223372036854775807, with 0 bytes left",
    );
    check(
        &after(4, &[2, 2, 0xff]),
        "`request_header.host` at byte 4: text that is not UTF-8",
    );
    check(
        &after(6, &[2, 8, 1, 2, 3, 4]),
        "`ip` at byte 6: 4 bytes instead of 16",
    );
    check(
        &after(7, &[2, 0]),
        "`sum` at byte 7: a decimal of 0 bytes; expected 1 to 38 digits",
    );
    // 2^127 - 1 has 39 digits.
    let large = [&[2, 32, 0x7f][..], &[0xff; 15]].concat();
    check(
        &after(7, &large),
        "`sum` at byte 7: a decimal of 16 bytes; expected 1 to 38 digits",
    );
}

#[test]
fn fields_of_later_versions_are_skipped() {
    let mut decoder = decoder();
    decoder
        .push(&[0, 0, 0, 0, 0, 0, 0, 0, 2, 9, 9])
        .expect("more fields");
    assert_eq!(decoder.finish(), batch(&[NOTHING]));
    assert_eq!(decoder.finish().num_rows(), 0);
}

#[test]
fn fields_missing_in_earlier_versions_are_null_and_reported() {
    let mut decoder = decoder();
    assert_eq!(decoder.lacking().count(), 0);
    decoder.push(&[2, 1, 0, 0]).expect("fewer fields");
    decoder.push(&[0, 0, 0, 0, 0, 0]).expect("a few more");
    let lacking: Vec<&str> = decoder.lacking().collect();
    assert_eq!(
        lacking,
        ["share", "request_header.host", "hashes", "ip", "sum"]
    );
    let mut yes = NOTHING;
    yes.0 = Some(true);
    assert_eq!(decoder.finish(), batch(&[yes, NOTHING]));
    // Columns that are not required are not reported.
    let mut some = AvroDecoder::new(&schema(), |place| place < 4).expect("types");
    some.push(&[0, 0, 0, 0]).expect("fewer fields");
    assert_eq!(some.lacking().count(), 0);
}

fn rows() -> impl Strategy<Value = Vec<AvroTestRow>> {
    let digits = 10_i128.pow(DECIMAL_DIGITS.into()) - 1;
    let decimal = prop_oneof![-300..300_i128, -digits..=digits];
    let long = prop_oneof![any::<i64>(), -70..70_i64, Just(i64::MIN), Just(i64::MAX)];
    let row = (
        option::of(any::<bool>()),
        option::of(long),
        option::of(any::<u64>()),
        option::of(any::<i32>().prop_map(|x| f64::from(x) / 7.0)),
        option::of(".{0,6}"),
        option::of(vec(any::<u8>(), 0..6)),
        option::of(any::<[u8; 16]>()),
        option::of(decimal),
    );
    vec(row, 0..20)
}

proptest! {
    #[test]
    fn records_round_trip(rows in rows()) {
        let batch = batch(&rows);
        let mut decoder = decoder();
        for record in encoded(&batch).iter() {
            decoder.push(record).expect("our own");
        }
        prop_assert_eq!(decoder.finish(), batch);
    }

    #[test]
    fn skipped_columns_consume_the_same_bytes(rows in rows(), wanted in any::<[bool; 8]>()) {
        let batch = batch(&rows);
        let mut decoder = AvroDecoder::new(&schema(), |place| wanted[place]).expect("every kind has a form");
        for record in encoded(&batch).iter() {
            decoder.push(record).expect("our own");
        }
        let places: Vec<usize> = (0..8).filter(|place| wanted[*place]).collect();
        prop_assert_eq!(decoder.finish(), batch.project(&places).expect("places"));
    }

    #[test]
    fn damaged_records_leave_the_others(rows in rows(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let batch = batch(&rows);
        let mut whole = decoder();
        let mut damaged = decoder();
        let mut kept = Vec::new();
        for (row, record) in encoded(&batch).iter().enumerate() {
            let mut bytes = record.to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            // The result does not depend on the data decoded before.
            prop_assert_eq!(damaged.push(&bytes).is_ok(), decoder().push(&bytes).is_ok());
            if damaged.push(record).is_ok() {
                kept.push(row);
            }
            whole.push(record).expect("our own");
        }
        prop_assert_eq!(kept.len(), rows.len());
        let rows_of_damaged = damaged.rows();
        prop_assert_eq!(damaged.finish().num_rows(), rows_of_damaged);
        prop_assert_eq!(whole.finish(), batch);
    }
}
