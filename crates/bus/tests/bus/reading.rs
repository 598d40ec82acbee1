//! Topics and their offsets; start and end of reading; uncommitted records; deleted topics.

use std::time::Duration;

use bus::{
    BusError, ConsumerGroup, NewTopic, NextRecord, PartitionEnd, PartitionRange, PartitionReader,
    TopicAdmin,
};
use testkit::cluster;
use testkit::programs::{PATIENCE, wait_for};

use crate::{ask, broker, kafka, producer, read, texts, tmp, topic, topics, write};

#[test]
fn topics_are_made_grown_and_deleted() {
    let Some(broker) = broker() else { return };
    let kafka = kafka(&broker);
    let topics = topics(&kafka);
    assert_eq!(topics.partitions("made"), Ok(None));
    let kept = Some(Duration::from_secs(3600));
    let settings = vec![("cleanup.policy", "compact,delete".to_owned())];
    let new = NewTopic {
        partitions: 2,
        replication: None,
        retention: kept,
        settings,
    };
    assert_eq!(topics.create("made", &new), Ok(true));
    assert_eq!(topics.create("made", &new), Ok(false));
    assert_eq!(topics.partitions("made"), Ok(Some(2)));
    assert_eq!(topics.grow("made", 5), Ok(()));
    // A smaller number than existing has no effect.
    assert_eq!(topics.grow("made", 3), Ok(()));
    assert_eq!(topics.list().expect("topics").get("made"), Some(&5));
    assert_eq!(topics.offsets("made"), Ok(vec![0..0; 5]));
    assert_eq!(topics.delete("made"), Ok(true));
    wait_for("the topic to go", || match topics.partitions("made") {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(topics.delete("made"), Ok(false));
    assert_eq!(
        topics.grow("made", 2),
        Err(BusError::NoTopic("made".into()))
    );
    assert_eq!(
        topics.offsets("made"),
        Err(BusError::NoTopic("made".into()))
    );
    let refused = topics.create("not a name", &new).expect_err("blanks");
    assert!(
        refused
            .to_string()
            .starts_with("topic `not a name` cannot be created: "),
        "{refused}"
    );
}

#[test]
fn parts_start_and_end_at_the_given_offsets() {
    let Some(broker) = broker() else { return };
    let kafka = kafka(&broker);
    let topic = topic(&kafka, "parts", 2);
    write(&kafka, &topic, 1, 0..1000);
    assert_eq!(topics(&kafka).offsets(&topic), Ok(vec![0..0, 0..1000]));
    assert_eq!(read(&kafka, &topic, 0, 0, PartitionEnd::End), texts(0..0));
    assert_eq!(
        read(&kafka, &topic, 1, 0, PartitionEnd::End),
        texts(0..1000)
    );
    assert_eq!(
        read(&kafka, &topic, 1, 990, PartitionEnd::End),
        texts(990..1000)
    );
    assert_eq!(
        read(&kafka, &topic, 1, 10, PartitionEnd::Offset(20)),
        texts(10..20)
    );
    assert_eq!(
        read(&kafka, &topic, 1, 10, PartitionEnd::Offset(10)),
        texts(0..0)
    );
    // Later records are waited for.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| read(&kafka, &topic, 1, 998, PartitionEnd::Offset(1002)));
        write(&kafka, &topic, 1, 1000..1005);
        assert_eq!(waiting.join().expect("it ends"), texts(998..1002));
    });
    // Offsets that never existed.
    let mut reader = PartitionReader::new(&kafka, 1 << 20).expect("a reader");
    let part = PartitionRange {
        topic: topic.clone(),
        partition: 1,
        from: 5000,
        until: PartitionEnd::End,
    };
    let part = reader.add(part).expect("a partition");
    let gone = wait_for("an error", || {
        match reader.next(part, Duration::from_millis(100)) {
            Err(error) => Ok(error),
            other => Err(format!("{other:?}")),
        }
    });
    assert!(
        matches!(&gone, BusError::Gone { topic, partition: 1, .. } if topic == "parts"),
        "{gone}"
    );
}

/// The caller selects the partition to read; the other waits at the broker.
#[test]
fn partitions_are_read_in_the_callers_order_within_bounded_memory() {
    let Some(broker) = broker() else { return };
    let kafka = kafka(&broker);
    let topic = topic(&kafka, "turns", 2);
    write(&kafka, &topic, 0, 0..50_000);
    write(&kafka, &topic, 1, 0..50_000);
    let mut reader = PartitionReader::new(&kafka, 64 << 10).expect("a reader");
    let add = |reader: &mut PartitionReader, partition| {
        let part = PartitionRange {
            topic: topic.clone(),
            partition,
            from: 0,
            until: PartitionEnd::Forever,
        };
        reader.add(part).expect("a partition")
    };
    let first = add(&mut reader, 0);
    let drain = |reader: &mut PartitionReader, part: usize| {
        let mut count = 0_u64;
        while count < 49_000 {
            match reader
                .next(part, Duration::from_secs(10))
                .expect("it can be read")
            {
                NextRecord::Record(record) => {
                    assert_eq!(record.payload(), count.to_string().as_bytes());
                    assert_eq!(record.offset(), count as i64);
                    assert!(
                        record
                            .timestamp_ms()
                            .is_some_and(|at| at > 1_600_000_000_000)
                    );
                    count += 1;
                }
                other => panic!("{other:?} after {count}"),
            }
        }
    };
    drain(&mut reader, first);
    // A partition added later.
    let second = add(&mut reader, 1);
    drain(&mut reader, second);
    assert_eq!(
        (reader.position(first), reader.position(second)),
        (49_000, 49_000)
    );
    assert_eq!(reader.parts().count(), 2);
    // A reader at the end of all partitions waits for any new record.
    for part in [first, second] {
        while !matches!(
            reader
                .next(part, Duration::from_secs(10))
                .expect("it can be read"),
            NextRecord::CaughtUp
        ) {}
    }
    std::thread::scope(|scope| {
        scope.spawn(|| write(&kafka, &topic, 1, 50_000..50_001));
        wait_for("the last record", || {
            reader.wait(Duration::from_secs(1));
            match reader.next(second, Duration::ZERO) {
                Ok(NextRecord::Record(record)) if record.payload() == b"50000" => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    });
}

#[test]
fn times_and_progress_are_known() {
    let Some(broker) = broker() else { return };
    let Some(python) = cluster::python(&tmp()) else {
        return;
    };
    let kafka = kafka(&broker);
    let topic = topic(&kafka, "times", 2);
    // Another client sets timestamps and commits offsets.
    let script = "
import sys
from kafka import KafkaConsumer, KafkaProducer, TopicPartition, OffsetAndMetadata
servers, topic = sys.argv[1:]
producer = KafkaProducer(bootstrap_servers=servers)
for i in range(10):
    producer.send(topic, b'x', partition=0, timestamp_ms=1_000_000_000_000 + 1000 * i)
producer.flush()
consumer = KafkaConsumer(bootstrap_servers=servers, group_id='others', enable_auto_commit=False)
consumer.assign([TopicPartition(topic, 0)])
consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(7, '', -1)})
consumer.close()
";
    ask(&python, script, &[&broker.kafka, &topic]);
    let topics = topics(&kafka);
    let check = |milliseconds, expected: [i64; 2]| {
        assert_eq!(
            topics.offsets_at(&topic, milliseconds),
            Ok(expected.to_vec()),
            "{milliseconds}"
        );
    };
    check(0, [0, 0]);
    check(1_000_000_003_000, [3, 0]);
    check(1_000_000_003_001, [4, 0]);
    check(2_000_000_000_000, [10, 0]);
    let group = |name| {
        ConsumerGroup::new(&kafka, name, PATIENCE)
            .expect("a group")
            .committed(&topic, 2)
    };
    assert_eq!(group("others"), Ok(vec![Some(7), None]));
    assert_eq!(group("nobody"), Ok(vec![None, None]));
}

/// Uncommitted records of another client's transaction are not read, and transaction markers do not prevent the end of
/// a part.
#[test]
fn only_committed_records_are_read() {
    let Some(broker) = broker() else { return };
    let Some(python) = cluster::python(&tmp()) else {
        return;
    };
    let kafka = kafka(&broker);
    let topic = topic(&kafka, "committed", 1);
    let script = "
import sys
from kafka import KafkaProducer
servers, topic, outcome, name = sys.argv[1:]
producer = KafkaProducer(bootstrap_servers=servers, transactional_id='t-' + name)
producer.init_transactions()
producer.begin_transaction()
for i in range(3):
    producer.send(topic, f'{name}{i}'.encode(), partition=0).get(30)
if outcome == 'commit': producer.commit_transaction()
if outcome == 'abort': producer.abort_transaction()
if outcome != 'leave': producer.close()
else: sys.stdout.flush(); import os; os._exit(0)
";
    for (outcome, name) in [
        ("commit", "a"),
        ("abort", "b"),
        ("commit", "c"),
        ("leave", "d"),
    ] {
        ask(&python, script, &[&broker.kafka, &topic, outcome, name]);
    }
    let expected = ["a0", "a1", "a2", "c0", "c1", "c2"];
    assert_eq!(read(&kafka, &topic, 0, 0, PartitionEnd::End), expected);
    let offsets = topics(&kafka).offsets(&topic).expect("offsets");
    // Three records and a marker each, without the open transaction.
    assert_eq!((offsets.len(), offsets[0].clone()), (1, 0..12));
    assert_eq!(
        read(&kafka, &topic, 0, 0, PartitionEnd::Offset(12)),
        expected
    );
}

#[test]
fn a_topic_that_is_deleted_is_an_error() {
    let Some(broker) = broker() else { return };
    let kafka = kafka(&broker);
    let topic = topic(&kafka, "deleted", 2);
    write(&kafka, &topic, 1, 0..3);
    let mut producer = producer(&kafka);
    let target = producer.target(&topic, 1);
    producer.send(target, None, b"3").expect("room");
    producer.flush(PATIENCE).expect("acknowledged");
    let mut reader = PartitionReader::new(&kafka, 1 << 20).expect("a reader");
    let part = PartitionRange {
        topic: topic.clone(),
        partition: 1,
        from: 0,
        until: PartitionEnd::Forever,
    };
    let part = reader.add(part).expect("a partition");
    while !matches!(
        reader
            .next(part, Duration::from_secs(10))
            .expect("it can be read"),
        NextRecord::CaughtUp
    ) {}
    assert_eq!(
        TopicAdmin::connect(&kafka, PATIENCE).and_then(|topics| topics.delete(&topic)),
        Ok(true)
    );
    let error = wait_for("the reader's error", || {
        match reader.next(part, Duration::from_millis(100)) {
            Err(error) => Ok(error),
            other => Err(format!("{other:?}")),
        }
    });
    assert_eq!(
        error.to_string(),
        "topic `deleted` does not exist at the brokers"
    );
    let error = wait_for("the producer's error", || {
        match producer.send(target, None, b"4") {
            Err(error) => Ok(error),
            Ok(_) => Err(format!("{:?}: {}", producer.counters(), producer.trouble())),
        }
    });
    assert_eq!(error, BusError::NoTopic("deleted".into()));
}
