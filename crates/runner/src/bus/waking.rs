//! Keeps the topics that a job reads awake while it is drained. Flink says at the end that all time is over, by which windows that are
//! still open are told. But a source whose partitions were all silent for a while counts as idle, and of an idle one that word is passed
//! over: the last windows would be lost. What wakes it is a watermark that is later than all before; so one millisecond more is
//! promised for the partition that has come furthest, in records without a row.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::bus::{Error, Kafka, Next, Part, Producer, ProducerConfig, Reader, Topics, Until};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, new_null_array};
use arrow_schema::SchemaRef;
use avro::{Decoder, Records};

/// Between two such records; after five seconds without one a source is idle.
const EVERY: Duration = Duration::from_secs(1);
/// How long brokers may take to give or to take a record.
const ANSWER: Duration = Duration::from_secs(10);
/// So long Flink may take to read it.
const NOTICED: Duration = Duration::from_millis(1500);
const LOOK: Duration = Duration::from_millis(20);
/// Among so many of a partition's last records there is one with a promise, unless all are somebody else's.
const LAST: i64 = 16;
const PREFETCH_BYTES: usize = 1 << 20;

/// A topic that a job reads.
pub struct Read {
    /// Its name.
    pub topic: String,
    /// What its records are; the first column is the promise.
    pub schema: SchemaRef,
    /// A millisecond, as that column has it.
    pub millisecond: i64,
}

/// Topics that are kept awake until this is dropped.
pub struct Waking {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Waking {
    /// Returns when Flink should have noticed.
    ///
    /// # Errors
    /// When the brokers do not give or take the records.
    pub fn start(kafka: &Kafka, there: &Topics, sources: &[Read]) -> Result<Waking, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let config = ProducerConfig { linger: Duration::ZERO, ..ProducerConfig::default() };
        let mut producer = Producer::new(kafka, config, stop.clone())?;
        let mut beats = Vec::new();
        for source in sources {
            if let Some((promise, partition)) = furthest(kafka, there, source)? {
                let target = producer.target(&source.topic, partition);
                beats.push((target, source.schema.clone(), promise, source.millisecond));
            }
        }
        let mut write = move |producer: &Producer| {
            beats.iter_mut().try_for_each(|(target, schema, promise, millisecond)| {
                *promise = promise.saturating_add(*millisecond);
                producer.send_all(*target, &beat(schema, *promise)).map(drop)
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
                    // What is refused now was taken before.
                    let _ = write(&producer);
                }
                std::thread::sleep(LOOK);
            }
        };
        let thread = std::thread::Builder::new().name("waking".into()).spawn(keep).ok();
        std::thread::sleep(NOTICED);
        Ok(Waking { stop, thread })
    }
}

impl Drop for Waking {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// The latest of all partitions' promises, and whose it is.
fn furthest(kafka: &Kafka, there: &Topics, source: &Read) -> Result<Option<(i64, i32)>, Error> {
    let mut reader = Reader::new(kafka, PREFETCH_BYTES)?;
    let mut parts = Vec::new();
    for (partition, range) in (0..).zip(there.offsets(&source.topic)?) {
        if !range.is_empty() {
            let (from, until) = (range.start.max(range.end - LAST), Until::Offset(range.end));
            let part = Part { topic: source.topic.clone(), partition, from, until };
            parts.push((partition, reader.add(part)?));
        }
    }
    let mut furthest = None;
    let begun = Instant::now();
    for (partition, part) in parts {
        let mut promises = Decoder::new(&source.schema, |place| place == 0).expect("records have a form");
        loop {
            match reader.next(part, LOOK)? {
                // What cannot be read is others'.
                Next::Record(record) => drop(promises.push(record.payload())),
                Next::Over => break,
                _ if begun.elapsed() > ANSWER => return reader.is_answered(LOOK).map(|()| furthest),
                Next::Nothing | Next::CaughtUp => {}
            }
        }
        let last = promises.finish().column(0).as_primitive::<Int64Type>().iter().flatten().max();
        furthest = furthest.max(last.map(|promise| (promise, partition)));
    }
    Ok(furthest)
}

/// A record that promises, and has no row.
fn beat(schema: &SchemaRef, promise: i64) -> Records {
    let first: ArrayRef = Arc::new(Int64Array::from(vec![promise]));
    let others = schema.fields().iter().skip(1).map(|field| new_null_array(field.data_type(), 1));
    let columns = std::iter::once(first).chain(others).collect();
    let row = RecordBatch::try_new(schema.clone(), columns).expect("columns of the schema");
    let mut records = Records::default();
    avro::encode(&row, &mut records).expect("records have a form");
    records
}
