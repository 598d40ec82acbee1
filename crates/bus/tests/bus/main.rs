//! The bus with real brokers, and other clients as independent readers and writers.

mod away;
mod lanes;
mod reading;
mod secured;
mod witnesses;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use bus::{
    Kafka, NewTopic, NextRecord, PartitionEnd, PartitionRange, PartitionReader, Producer,
    ProducerConfig, TopicAdmin,
};
use testkit::cluster::{ClusterParts, TestCluster};
use testkit::programs::PATIENCE;

const TMP: &str = env!("CARGO_TARGET_TMPDIR");

fn tmp() -> PathBuf {
    PathBuf::from(TMP)
}

/// One broker shared by all concurrent tests; ended with the last of them.
fn broker() -> Option<Arc<TestCluster>> {
    static SHARED: Mutex<Weak<TestCluster>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(cluster) = shared.upgrade() {
        return Some(cluster);
    }
    let cluster = Arc::new(TestCluster::start(
        Path::new(TMP),
        "bus",
        ClusterParts::Kafka(1),
    )?);
    *shared = Arc::downgrade(&cluster);
    Some(cluster)
}

fn kafka(cluster: &TestCluster) -> Kafka {
    Kafka::new(&cluster.kafka, []).expect("an address")
}

fn topics(kafka: &Kafka) -> TopicAdmin {
    TopicAdmin::connect(kafka, PATIENCE).expect("a broker")
}

/// A topic for one test without retention, since brokers soon delete records with old timestamps.
fn topic(kafka: &Kafka, name: &str, partitions: i32) -> String {
    let new = NewTopic {
        partitions,
        replication: None,
        retention: None,
        settings: vec![("retention.ms", "-1".into())],
    };
    assert_eq!(topics(kafka).create(name, &new), Ok(true));
    name.to_owned()
}

fn producer(kafka: &Kafka) -> Producer {
    Producer::new(
        kafka,
        ProducerConfig::default(),
        Arc::new(AtomicBool::new(false)),
    )
    .expect("a producer")
}

/// Writes numbers as text.
fn write(kafka: &Kafka, topic: &str, partition: i32, numbers: std::ops::Range<u64>) {
    let mut producer = producer(kafka);
    let target = producer.target(topic, partition);
    for number in numbers {
        producer
            .send(target, None, number.to_string().as_bytes())
            .expect("room");
    }
    producer.flush(PATIENCE).expect("acknowledged");
}

/// Reads a part to its end.
fn read(kafka: &Kafka, topic: &str, partition: i32, from: i64, until: PartitionEnd) -> Vec<String> {
    let mut reader = PartitionReader::new(kafka, 1 << 20).expect("a reader");
    let part = PartitionRange {
        topic: topic.to_owned(),
        partition,
        from,
        until,
    };
    let part = reader.add(part).expect("a partition");
    let mut texts = Vec::new();
    let begun = Instant::now();
    loop {
        assert!(
            begun.elapsed() < PATIENCE,
            "{reader:?}: {}",
            reader.trouble()
        );
        match reader
            .next(part, Duration::from_millis(100))
            .expect("it can be read")
        {
            NextRecord::Record(record) => {
                texts.push(String::from_utf8_lossy(record.payload()).into_owned())
            }
            NextRecord::Nothing | NextRecord::CaughtUp => {}
            NextRecord::Over => return texts,
        }
    }
}

fn texts(numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|number| number.to_string()).collect()
}

/// Output of a Python script.
fn ask(python: &Path, script: &str, arguments: &[&str]) -> String {
    ask_with(python, script, arguments, "")
}

/// Output of a Python script with input.
fn ask_with(python: &Path, script: &str, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new(python);
    command
        .args(["-c", script])
        .args(arguments)
        .stdin(Stdio::piped());
    let mut running = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut pipe = running.stdin.take().expect("piped");
    pipe.write_all(input.as_bytes()).expect("it reads");
    drop(pipe);
    let asked = running.wait_with_output().expect("it ends");
    let complaint = String::from_utf8_lossy(&asked.stderr);
    assert!(asked.status.success(), "{complaint}");
    String::from_utf8(asked.stdout).expect("UTF-8")
}
