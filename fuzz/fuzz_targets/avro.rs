//! Arbitrary bytes as Avro records of a topic. They are rejected, or round-trip; valid records among them are read
//! regardless of what surrounds them.
#![no_main]

use std::sync::{Arc, LazyLock};

use avro::{AvroDecoder, AvroRecords, encode};
use bus::tuples;
use libfuzzer_sys::fuzz_target;
use tuple::{Schema, common};

tuple::fields! {
    NAME: Text, None, "name", "";
    N: U64, None, "n", "";
    RATIO: F64, None, "ratio", "";
    OK: Bool, None, "ok", "";
    BLOCKS: Hashes, None, "blocks", "";
}

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    Arc::new(Schema::of_parser(
        "t",
        1,
        "fuzz",
        FIELDS,
        Some(N),
        Some(NAME),
    ))
});

fuzz_target!(|input: &[u8]| {
    let schema = tuples::record_schema(&SCHEMA);
    let mut decoder = AvroDecoder::new(&schema, |_| true).expect("every type has a form");
    let mut tuples = tuples::TupleDecoder::new(&SCHEMA, |id| id >= common::TS_END);
    let mut beat = AvroRecords::default();
    encode(&tuples::beat(&SCHEMA, 7), &mut beat).expect("every type has a form");
    let beat = beat.iter().next().expect("one");
    let mut taken = 0;
    // Each record has a length prefix.
    let mut rest = input;
    while let Some((length, bytes)) = rest.split_first() {
        let (record, after) = bytes.split_at(usize::from(*length).min(bytes.len()));
        rest = after;
        let is_taken = decoder.push(record).is_ok();
        assert_eq!(tuples.push(record).is_ok(), is_taken);
        taken += usize::from(is_taken);
        decoder.push(beat).expect("a beat");
        tuples.push(beat).expect("a beat");
        taken += 1;
    }
    assert_eq!((decoder.rows(), tuples.rows()), (taken, taken));
    let batch = decoder.finish();
    assert_eq!(batch.num_rows(), taken);
    assert!(tuples.finish().batch.rows() <= taken);
    let mut written = AvroRecords::default();
    encode(&batch, &mut written).expect("every type has a form");
    written
        .iter()
        .for_each(|record| decoder.push(record).expect("our own"));
    let mut again = AvroRecords::default();
    encode(&decoder.finish(), &mut again).expect("every type has a form");
    assert!(written.iter().eq(again.iter()));
});
