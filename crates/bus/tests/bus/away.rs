//! Unreachable brokers that fail and return: messages, waiting and dropped records, and no duplicates.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bus::{
    BusError, Kafka, NewTopic, NextRecord, OverflowPolicy, PartitionEnd, PartitionRange,
    PartitionReader, Producer, ProducerConfig, SendResult, TopicAdmin,
};
use testkit::cluster::{ClusterParts, TestCluster};
use testkit::programs::{PATIENCE, free_port, wait_for};

use crate::{TMP, kafka, read, texts, topic};

fn nobody() -> Kafka {
    Kafka::new(&format!("127.0.0.1:{}", free_port()), []).expect("an address")
}

fn small(away: OverflowPolicy) -> ProducerConfig {
    ProducerConfig {
        bytes_max: 30_000,
        away,
        ..ProducerConfig::default()
    }
}

#[test]
fn unreachable_brokers_are_named() {
    let check = |kafka: &Kafka, reason: &str| {
        let begun = Instant::now();
        let error = TopicAdmin::connect(kafka, Duration::from_secs(3))
            .err()
            .expect("no server");
        assert_eq!(
            error.to_string(),
            format!("no broker responds at {}: {reason}", kafka.servers())
        );
        assert!(begun.elapsed() < PATIENCE);
    };
    check(&nobody(), "Connection refused");
    // A program that accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("its address").to_string();
    check(
        &Kafka::new(&address, []).expect("an address"),
        "no answer in time",
    );
}

#[test]
fn records_are_dropped_or_bounded_when_brokers_are_away() {
    let stop = Arc::new(AtomicBool::new(false));
    let start = |away| {
        let mut producer = Producer::new(&nobody(), small(away), stop.clone()).expect("a producer");
        let target = producer.target("t", 0);
        (producer, target)
    };
    let (dropping, target) = start(OverflowPolicy::Drop);
    let handed: Vec<SendResult> = (0..200)
        .map(|_| dropping.send(target, None, &[7; 44]).expect("it drops"))
        .collect();
    let counters = dropping.counters();
    // 44 bytes and 256 of overhead.
    assert_eq!(
        (counters.records, counters.dropped_full, counters.in_flight),
        (100, 100, 100)
    );
    assert_eq!((counters.bytes, counters.in_flight_bytes), (4400, 30_000));
    assert!(counters.oldest.is_some());
    assert_eq!(handed.iter().map(|one| one.dropped).sum::<u64>(), 100);
    let error = dropping
        .flush(Duration::from_millis(100))
        .expect_err("nobody acknowledges");
    assert!(
        matches!(error, BusError::NotFlushed { records: 100, .. }),
        "{error}"
    );

    let (blocking, target) = start(OverflowPolicy::Block);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut taken = 0;
            loop {
                match blocking.send(target, None, &[7; 44]) {
                    Ok(handed) => taken += handed.taken,
                    Err(error) => return (taken, error),
                }
            }
        });
        wait_for("a full buffer", || match blocking.counters().in_flight {
            100 => Ok(()),
            other => Err(other.to_string()),
        });
        assert!(!waiting.is_finished());
        stop.store(true, Ordering::Relaxed);
        let (taken, error) = waiting.join().expect("it stops");
        assert_eq!(taken, 100);
        assert!(matches!(error, BusError::Stopped(_)), "{error}");
    });
    assert_eq!(blocking.counters().dropped_full, 0);
}

/// A broker is killed under a producer that waits for space and a live reader, and returns: everything arrives once and
/// in order.
#[test]
fn a_broker_that_is_killed_and_comes_back_costs_nothing() {
    let Some(cluster) = TestCluster::start(Path::new(TMP), "bus-away", ClusterParts::Kafka(1))
    else {
        return;
    };
    let kafka = kafka(&cluster);
    let topic = topic(&kafka, "away", 1);
    let stop = Arc::new(AtomicBool::new(false));
    let mut producer =
        Producer::new(&kafka, small(OverflowPolicy::Block), stop).expect("a producer");
    let target = producer.target(&topic, 0);
    let mut reader = PartitionReader::new(&kafka, 1 << 20).expect("a reader");
    let part = PartitionRange {
        topic: topic.clone(),
        partition: 0,
        from: 0,
        until: PartitionEnd::Forever,
    };
    let part = reader.add(part).expect("a partition");
    let total = 40_000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..total {
                producer
                    .send(target, None, number.to_string().as_bytes())
                    .expect("it waits");
            }
            producer.flush(2 * PATIENCE).expect("acknowledged");
        });
        wait_for("the first acknowledgments", || {
            match producer.counters().acknowledged {
                0..1000 => Err("fewer".to_owned()),
                _ => Ok(()),
            }
        });
        cluster.kill("broker-1");
        wait_for("somebody who waits", || match producer.counters() {
            full if full.in_flight_bytes > 29_000 && full.oldest > Some(Duration::from_secs(1)) => {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        });
        assert!(producer.counters().in_flight_bytes <= 30_000);
        cluster.start_again("broker-1");
        // Brokers respond before they are registered, and reject new topics until then.
        let begun = Instant::now();
        let admin = loop {
            match TopicAdmin::connect(&kafka, PATIENCE) {
                Ok(admin) => break admin,
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
            }
        };
        let new = NewTopic {
            partitions: 1,
            replication: None,
            retention: None,
            settings: Vec::new(),
        };
        assert_eq!(admin.create("early", &new), Ok(true));
        let mut seen = 0_u64;
        let begun = Instant::now();
        while seen < total {
            assert!(
                begun.elapsed() < 2 * PATIENCE,
                "{reader:?}: {}",
                reader.trouble()
            );
            if let NextRecord::Record(record) = reader
                .next(part, Duration::from_millis(100))
                .expect("a response")
            {
                assert_eq!(record.payload(), seen.to_string().as_bytes());
                seen += 1;
            }
        }
    });
    let counters = producer.counters();
    assert_eq!(
        (counters.records, counters.acknowledged, counters.in_flight),
        (total, total, 0)
    );
    assert_eq!(
        (counters.bytes, counters.in_flight_bytes),
        (counters.acknowledged_bytes, 0)
    );
    assert_eq!(
        (
            counters.dropped_full,
            counters.dropped_refused,
            counters.oldest
        ),
        (0, 0, None)
    );
    assert_eq!(
        read(&kafka, &topic, 0, 0, PartitionEnd::End),
        texts(0..total)
    );
}
