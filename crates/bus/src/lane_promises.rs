//! The last promises of partitions, read from their last records.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::SchemaRef;
use avro::AvroDecoder;

use crate::{
    BusError, Kafka, NextRecord, PartitionEnd, PartitionRange, PartitionReader, TopicAdmin,
};

/// Number of last records to read; one of them has a promise unless all are foreign.
const LAST: i64 = 16;
const PREFETCH_BYTES: usize = 1 << 20;
/// Timeout of brokers for the records.
const ANSWER: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// The last promise of each partition of a topic with records, or of the `only` one: the maximum of the first column of
/// its last records. `None`: no readable promise. `schema`: that of the records.
///
/// # Errors
/// `BusError::NoTopic` if the topic is missing, `BusError::Unreachable` if the brokers do not answer in time.
///
/// # Panics
/// If the schema has a type without an Avro encoding, which is a bug of the caller.
pub fn last(
    kafka: &Kafka,
    there: &TopicAdmin,
    (topic, schema): (&str, &SchemaRef),
    only: Option<i32>,
) -> Result<BTreeMap<i32, Option<i64>>, BusError> {
    let mut reader = PartitionReader::new(kafka, PREFETCH_BYTES)?;
    let mut parts = Vec::new();
    for (partition, range) in (0..).zip(there.offsets(topic)?) {
        if !range.is_empty() && only.is_none_or(|only| only == partition) {
            let from = range.start.max(range.end - LAST);
            let until = PartitionEnd::Offset(range.end);
            let part = PartitionRange {
                topic: topic.to_owned(),
                partition,
                from,
                until,
            };
            parts.push((partition, reader.add(part)?));
        }
    }
    let begun = Instant::now();
    let mut all = BTreeMap::new();
    for (partition, part) in parts {
        let mut promises =
            AvroDecoder::new(schema, |place| place == 0).expect("records have a form");
        loop {
            match reader.next(part, LOOK)? {
                // Unreadable records are foreign.
                NextRecord::Record(record) => drop(promises.push(record.payload())),
                NextRecord::Over => break,
                NextRecord::Nothing | NextRecord::CaughtUp if begun.elapsed() <= ANSWER => {}
                NextRecord::Nothing | NextRecord::CaughtUp => {
                    reader.is_answered(LOOK)?;
                    let reason = format!(
                        "its last records did not arrive within {} s",
                        ANSWER.as_secs()
                    );
                    return Err(BusError::Refused {
                        doing: format!("topic `{topic}`, partition {partition}"),
                        reason,
                    });
                }
            }
        }
        let last = promises
            .finish()
            .column(0)
            .as_primitive::<Int64Type>()
            .iter()
            .flatten()
            .max();
        all.insert(partition, last);
    }
    Ok(all)
}
