//! Keeps the topics of a job active while it is drained. At the end, Flink sends a final watermark that emits open
//! windows. But a source whose partitions were all silent for a while counts as idle, and that watermark is ignored for
//! idle sources: the last windows would be lost. A watermark later than all before reactivates it, so one more
//! millisecond is promised for the most advanced partition, in records without a row.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::bus::{BusError, Kafka, Producer, ProducerConfig, TopicAdmin, lane_promises};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, new_null_array};
use arrow_schema::SchemaRef;
use avro::AvroRecords;

/// Interval of these records; a source is idle after five seconds without one.
const EVERY: Duration = Duration::from_secs(1);
/// Timeout of brokers.
const ANSWER: Duration = Duration::from_secs(10);
/// Maximum time until Flink reads a record.
const NOTICED: Duration = Duration::from_millis(1500);
const LOOK: Duration = Duration::from_millis(20);

/// A topic that a job reads.
pub struct AwakeTopic {
    /// Name.
    pub topic: String,
    /// Schema of its records; the first column is the promise.
    pub schema: SchemaRef,
    /// A millisecond in the unit of that column.
    pub millisecond: i64,
}

/// Keeps topics active until dropped.
pub struct TopicKeepAlive {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TopicKeepAlive {
    /// Returns when Flink should have read the record.
    ///
    /// # Errors
    /// `BusError` if the brokers do not deliver or accept records.
    pub fn start(
        kafka: &Kafka,
        there: &TopicAdmin,
        sources: &[AwakeTopic],
    ) -> Result<TopicKeepAlive, BusError> {
        let stop = Arc::new(AtomicBool::new(false));
        let config = ProducerConfig {
            linger: Duration::ZERO,
            ..ProducerConfig::default()
        };
        let mut producer = Producer::new(kafka, config, stop.clone())?;
        let mut beats = Vec::new();
        for source in sources {
            let last = lane_promises::last(kafka, there, (&source.topic, &source.schema), None)?;
            let furthest = last
                .into_iter()
                .filter_map(|(partition, promise)| Some((promise?, partition)))
                .max();
            if let Some((promise, partition)) = furthest {
                let target = producer.target(&source.topic, partition);
                beats.push((target, source.schema.clone(), promise, source.millisecond));
            }
        }
        let mut write = move |producer: &Producer| {
            beats
                .iter_mut()
                .try_for_each(|(target, schema, promise, millisecond)| {
                    *promise = promise.saturating_add(*millisecond);
                    producer
                        .send_all(*target, &beat(schema, *promise))
                        .map(drop)
                })
        };
        write(&producer)?;
        producer.flush(ANSWER)?;
        let its = stop.clone();
        let keep = move || {
            let mut written = Instant::now();
            while !its.load(Ordering::Relaxed) {
                if written.elapsed() >= EVERY {
                    written = Instant::now();
                    // An earlier record was accepted.
                    let _ = write(&producer);
                }
                std::thread::sleep(LOOK);
            }
        };
        let thread = std::thread::Builder::new()
            .name("waking".into())
            .spawn(keep)
            .ok();
        std::thread::sleep(NOTICED);
        Ok(TopicKeepAlive { stop, thread })
    }
}

impl Drop for TopicKeepAlive {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// A record with a promise and no row.
fn beat(schema: &SchemaRef, promise: i64) -> AvroRecords {
    let first: ArrayRef = Arc::new(Int64Array::from(vec![promise]));
    let others = schema
        .fields()
        .iter()
        .skip(1)
        .map(|field| new_null_array(field.data_type(), 1));
    let columns = std::iter::once(first).chain(others).collect();
    let row = RecordBatch::try_new(schema.clone(), columns).expect("columns of the schema");
    let mut records = AvroRecords::default();
    avro::encode(&row, &mut records).expect("records have a form");
    records
}

#[cfg(test)]
mod tests {
    use ::bus::tuples;

    use super::*;

    /// Every parser's topic: the promise is read, and no tuple.
    #[test]
    fn a_record_has_a_promise_and_no_tuple() {
        for schema in parsers::registry::schemas() {
            let record_schema = tuples::record_schema(&schema);
            for promise in [0, -1, i64::MIN, i64::MAX] {
                let records = beat(&record_schema, promise);
                let mut decoder = tuples::TupleDecoder::new(&schema, |_| true);
                for record in records.iter() {
                    decoder.push(record).expect("a record");
                }
                let decoded = decoder.finish();
                assert_eq!(decoded.promise, Some(promise), "{}", schema.name);
                assert_eq!(decoded.batch.rows(), 0, "{}", schema.name);
            }
        }
    }
}
