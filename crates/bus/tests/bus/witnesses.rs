//! Other clients and Avro implementations (kafka-python, fastavro) read our records, and vice versa.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use avro::{AvroDecoder, AvroRecords, DECIMAL_DIGITS, encode, schema_json};
use bus::tuples::{LanePromise, beat, to_records};
use bus::{
    BatchCompression, NextRecord, PartitionEnd, PartitionRange, PartitionReader, Producer,
    ProducerConfig,
};
use testkit::cluster;
use testkit::programs::{PATIENCE, wait_for};
use tuple::Batch;

use crate::{ask, ask_with, broker, kafka, producer, tmp, topic};

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

/// Rows with extreme values, and one of nulls.
fn batch() -> RecordBatch {
    let mut ips = FixedSizeBinaryBuilder::new(16);
    ips.append_value([0xab; 16]).expect("16 bytes");
    ips.append_null();
    ips.append_value([0; 16]).expect("16 bytes");
    let digits = 10_i128.pow(DECIMAL_DIGITS.into()) - 1;
    let sums = Decimal128Array::from(vec![Some(digits), None, Some(-128)]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)])),
        Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(1)])),
        Arc::new(Float64Array::from(vec![Some(0.1), None, Some(-1e300)])),
        Arc::new(StringArray::from(vec![Some("größe"), None, Some("")])),
        Arc::new(BinaryArray::from(vec![
            Some(&b"\x00\xff"[..]),
            None,
            Some(b""),
        ])),
        Arc::new(ips.finish()),
        Arc::new(
            sums.with_precision_and_scale(DECIMAL_DIGITS, 0)
                .expect("38 digits"),
        ),
    ];
    RecordBatch::try_new(schema(), columns).expect("columns of the schema")
}

/// The same rows in Python; ids are compared bit by bit.
const ROWS: &str = "[
    (True, -2**63, -1, 0.1, 'größe', bytes([0, 255]), bytes([0xab] * 16), Decimal(10**38 - 1)),
    (None,) * 8,
    (False, 2**63 - 1, 1, -1e300, '', b'', bytes(16), Decimal(-128)),
]";

#[test]
fn other_clients_read_our_records() {
    let Some(broker) = broker() else { return };
    let Some(python) = cluster::python(&tmp()) else {
        return;
    };
    let kafka = kafka(&broker);
    let script = format!(
        "
import io, json, sys
from decimal import Decimal, getcontext
from fastavro import parse_schema, schemaless_reader
from kafka import KafkaConsumer
getcontext().prec = 50
servers, topic, schema = sys.argv[1:]
schema = parse_schema(json.loads(schema))
consumer = KafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset='earliest', consumer_timeout_ms=5000, group_id=None)
rows = []
for message in consumer:
    datum = io.BytesIO(message.value)
    rows.append(tuple(schemaless_reader(datum, schema, None).values()))
    assert datum.read() == b'', 'bytes are left'
    assert (message.partition, message.key) == (1, None)
    if len(rows) == 3 * 500: break
assert rows == {ROWS} * 500, rows
print('alike', list(f['name'] for f in schema['fields']))
"
    );
    let text = schema_json(&schema(), "all").expect("a schema").to_string();
    for (name, compression) in [
        ("zstd", BatchCompression::Zstd),
        ("lz4", BatchCompression::Lz4),
    ] {
        let topic = topic(&kafka, name, 2);
        let config = ProducerConfig {
            compression,
            ..ProducerConfig::default()
        };
        let mut producer =
            Producer::new(&kafka, config, Arc::new(AtomicBool::new(false))).expect("a producer");
        let target = producer.target(&topic, 1);
        let mut records = AvroRecords::default();
        encode(&batch(), &mut records).expect("every kind has a form");
        (0..500)
            .for_each(|_| assert_eq!(producer.send_all(target, &records).expect("room").taken, 3));
        producer.flush(PATIENCE).expect("acknowledged");
        let said = ask(&python, &script, &[&broker.kafka, &topic, &text]);
        assert!(
            said.starts_with("alike ['yes', 'count', 'id', 'share', 'request_header_host'"),
            "{said}"
        );
        // Repetitive records are compressed, and the counter shows it.
        let counters = producer.counters();
        assert_eq!(counters.acknowledged_bytes, 500 * records.bytes() as u64);
        let wire = wait_for("statistics", || match producer.counters().wire_bytes {
            0 => Err("none yet".to_owned()),
            bytes => Ok(bytes),
        });
        assert!(wire < counters.bytes / 2, "{wire} of {}", counters.bytes);
    }
}

/// With two threads handling acknowledgments, an existing topic was reported as deleted: one publisher of four, with a
/// million records.
#[test]
fn waiting_for_acknowledgments_preserves_their_order() {
    let Some(broker) = broker() else { return };
    let kafka = kafka(&broker);
    let topic = topic(&kafka, "flushed", 1);
    let mut producer = Producer::new(
        &kafka,
        ProducerConfig::default(),
        Arc::new(AtomicBool::new(false)),
    )
    .expect("a producer");
    let target = producer.target(&topic, 0);
    let mut records = AvroRecords::default();
    (0..2_000).for_each(|_| encode(&batch(), &mut records).expect("every kind has a form"));
    for sent in (1..=20).map(|i| i * records.len() as u64) {
        assert_eq!(
            producer.send_all(target, &records).expect("room").taken,
            records.len() as u64
        );
        producer.flush(PATIENCE).expect("acknowledged");
        assert_eq!(
            (producer.counters().acknowledged, producer.end(target)),
            (sent, Some(sent as i64))
        );
    }
}

#[test]
fn records_of_other_clients_are_read() {
    let Some(broker) = broker() else { return };
    let Some(python) = cluster::python(&tmp()) else {
        return;
    };
    let kafka = kafka(&broker);
    let topic = topic(&kafka, "theirs", 1);
    let script = format!(
        "
import io, json, sys
from decimal import Decimal, getcontext
from fastavro import parse_schema, schemaless_writer
from kafka import KafkaProducer
getcontext().prec = 50
servers, topic, schema = sys.argv[1:]
schema = parse_schema(json.loads(schema))
producer = KafkaProducer(bootstrap_servers=servers, compression_type='lz4')
for row in {ROWS}:
    datum = io.BytesIO()
    schemaless_writer(datum, schema, dict(zip((f['name'] for f in schema['fields']), row)))
    producer.send(topic, datum.getvalue(), partition=0)
producer.flush()
"
    );
    let text = schema_json(&schema(), "all").expect("a schema").to_string();
    ask(&python, &script, &[&broker.kafka, &topic, &text]);
    let mut decoder = AvroDecoder::new(&schema(), |_| true).expect("every kind has a form");
    let mut reader = PartitionReader::new(&kafka, 1 << 20).expect("a reader");
    let part = PartitionRange {
        topic,
        partition: 0,
        from: 0,
        until: PartitionEnd::Offset(3),
    };
    let part = reader.add(part).expect("a partition");
    wait_for("three records", || {
        match reader.next(part, PATIENCE).expect("it can be read") {
            NextRecord::Record(record) => {
                decoder.push(record.payload()).expect("fastavro's");
                Err("one".to_owned())
            }
            NextRecord::Over => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    assert_eq!(decoder.finish(), batch());
}

/// The consumer in docs/kafka.md, verbatim.
#[test]
fn the_consumer_of_the_documentation_reads_tuples() {
    let Some(broker) = broker() else { return };
    let Some(python) = cluster::python(&tmp()) else {
        return;
    };
    let kafka = kafka(&broker);
    let topic = topic(&kafka, "netalytics.pings.v1", 1);
    let columns: Vec<Option<ArrayRef>> = pings()
        .fields
        .iter()
        .map(|field| -> Option<ArrayRef> {
            Some(match &*field.name {
                "id" => Arc::new(UInt64Array::from(vec![u64::MAX, 1])),
                "ts_end" => Arc::new(Int64Array::from(vec![5, 6])),
                "server_ip" => {
                    let mut ips = FixedSizeBinaryBuilder::new(16);
                    let ip = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped();
                    ips.append_value(ip.octets()).expect("16 bytes");
                    ips.append_null();
                    Arc::new(ips.finish())
                }
                "blocks" => Arc::new(BinaryArray::from(vec![None, Some(&[1; 8][..])])),
                _ => return None,
            })
        })
        .collect();
    let tuples = Batch::new(pings(), 2, columns);
    let mut records = AvroRecords::default();
    let promise = LanePromise {
        before: 3,
        after: 4,
    };
    for batch in [to_records(&tuples, promise, None), beat(&pings(), 9)] {
        encode(&batch, &mut records).expect("every type has a form");
    }
    let mut producer = producer(&kafka);
    let target = producer.target(&topic, 0);
    assert_eq!(producer.send_all(target, &records).expect("room").taken, 3);
    producer.flush(PATIENCE).expect("acknowledged");
    // As listed by `netalytics parsers`.
    let line = |field: &tuple::Field| {
        let kind = format!("{:?}", field.data_type).to_lowercase();
        format!("{{\"field\": \"{}\", \"type\": \"{kind}\"}}\n", field.name)
    };
    let listed: String = pings().fields.iter().map(line).collect();
    let page = include_str!("../../../../docs/kafka.md");
    let script = page
        .split("```python\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("a script");
    let said = ask_with(&python, script, &[&broker.kafka, &topic], &listed);
    let expected = [
        r#"{"wm_ns": 3, "id": 18446744073709551615, "server_ip": "10.0.0.1", "ts_end": 5}"#,
        r#"{"wm_ns": 4, "id": 1, "ts_end": 6, "blocks": "0101010101010101"}"#,
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

fn pings() -> Arc<tuple::Schema> {
    let own = [tuple::Field::new(
        "blocks",
        tuple::DataType::Hashes,
        tuple::Unit::None,
        "check-sums",
    )];
    Arc::new(tuple::Schema::of_parser(
        "pings", 1, "pings", &own, None, None,
    ))
}
