//! Malformed records, records of other versions, deleted topics, and late records.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use avro::AvroRecords;
use bus::{
    Kafka, NextRecord, PartitionEnd, PartitionRange, PartitionReader, Producer, ProducerConfig,
    TopicAdmin, tuples,
};
use testkit::cluster::TestCluster;
use testkit::programs::{PATIENCE, wait_for};
use testkit::rng::SeededRng;

use super::{Started, Traffic, as_set, assert_rows, counted, undisturbed};
use crate::{Folder, ROOT, SHOP, run};

/// Arbitrary records; the last one is valid but empty.
pub fn strange() -> Vec<Vec<u8>> {
    let mut rng = SeededRng::new(7);
    let random = rng.bytes(300).iter().map(|byte| byte | 0x80).collect();
    vec![
        random,
        br#"{"a":1}"#.to_vec(),
        vec![0xab; 900_000],
        Vec::new(),
        vec![0; 80],
    ]
}

pub fn write(cluster: &TestCluster, topic: &str, partition: i32, records: &[Vec<u8>]) {
    let kafka = Kafka::new(&cluster.kafka, []).expect("an address");
    let stop = Arc::new(AtomicBool::new(false));
    let mut producer = Producer::new(&kafka, ProducerConfig::default(), stop).expect("a producer");
    let target = producer.target(topic, partition);
    for record in records {
        // Compacted topics reject records without keys.
        assert_eq!(
            producer
                .send(target, Some(b"x"), record)
                .expect("room")
                .taken,
            1
        );
    }
    producer.flush(PATIENCE).expect("acknowledged");
    assert_eq!(producer.counters().acknowledged, records.len() as u64);
}

/// Publishes the whole shop to one partition.
fn publish(cluster: &TestCluster, query: &str) -> String {
    let capture = format!("{ROOT}/{SHOP}");
    let flags = [
        "--kafka",
        &cluster.kafka,
        "--no-redact",
        "--partitions",
        "1",
    ];
    let ran = run(&[&["publish", query, "-r", &capture][..], &flags].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let topic = ran
        .err
        .split("partition 0 of ")
        .nth(1)
        .and_then(|rest| rest.split(';').next());
    topic.unwrap_or_else(|| panic!("{}", ran.err)).to_owned()
}

fn asked(cluster: &TestCluster, query: &str, what: &str) -> crate::Ran {
    let query = format!("{query} SINCE 2001-01-01");
    run(&[
        "query",
        &query,
        "--kafka",
        &cluster.kafka,
        "--published",
        what,
        "--format",
        "jsonl",
    ])
}

pub fn poison(cluster: &TestCluster) {
    let query = "PARSE mysql_query PROCESS (diff-group: group=command, w=200ms)";
    let expected = undisturbed(query, &format!("{ROOT}/{SHOP}"));
    let cells = publish(cluster, query);
    write(cluster, bus::lanes::TOPIC, 0, &strange());
    let tuples = publish(cluster, "PARSE mysql_query");
    // A decodable cell with an invalid value: the sampling rate is missing.
    let time = {
        let mut rest = 2 * 1_795_298_640_000_u64;
        let mut varint = vec![2_u8];
        while rest >= 0x80 {
            varint.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        varint.push(rest as u8);
        varint
    };
    let cell = [vec![0], time, vec![2, 0], vec![0; 60]].concat();
    for (what, topic, more) in [("tuples", tuples, vec![]), ("cells", cells, vec![cell])] {
        let poison = [strange(), more].concat();
        write(cluster, &topic, 0, &poison);
        let ran = asked(cluster, query, what);
        assert_eq!(ran.code, 1, "{}", ran.err);
        let place = format!("error: topic {topic}, partition 0, offset ");
        assert!(ran.err.contains(&place), "{}", ran.err);
        assert_eq!(
            counted(&ran, "malformed"),
            poison.len() as u64 - 1,
            "{}",
            ran.err
        );
        assert_rows(&ran.out, &expected, what);
    }
}

/// Records of publishers of other versions: with fewer and with more columns at the end.
pub fn versions(cluster: &TestCluster) {
    let query = "PARSE memcached PROCESS (group-count: group=command)";
    let expected = undisturbed(query, &format!("{ROOT}/{SHOP}"));
    let topic = publish(cluster, "PARSE memcached");
    let kafka = Kafka::new(&cluster.kafka, []).expect("an address");
    let there = TopicAdmin::connect(&kafka, PATIENCE).expect("a broker");
    let end = there.offsets(&topic).expect("offsets")[0].end;
    let mut reader = PartitionReader::new(&kafka, 1 << 20).expect("a reader");
    let part = PartitionRange {
        topic: topic.clone(),
        partition: 0,
        from: 0,
        until: PartitionEnd::Offset(end),
    };
    let part = reader.add(part).expect("a partition");
    let mut all: Vec<Vec<u8>> = Vec::new();
    while all.len() < end as usize {
        if let NextRecord::Record(record) = reader.next(part, PATIENCE).expect("it can be read") {
            all.push(record.payload().to_vec());
        }
    }
    let schema = parsers::registry::schemas()
        .iter()
        .find(|schema| schema.name == "memcached")
        .expect("it")
        .clone();
    let columns = tuples::record_schema(&schema);
    let last = &schema.fields.last().expect("some").name;
    let places = columns.fields().len();
    let mut earlier = avro::AvroDecoder::new(&columns, |place| place < places - 1).expect("types");
    all.iter()
        .for_each(|record| earlier.push(record).expect("ours"));
    let mut shorter = AvroRecords::default();
    avro::encode(&earlier.finish(), &mut shorter).expect("types");
    let shorter: Vec<Vec<u8>> = shorter.iter().map(<[u8]>::to_vec).collect();
    let longer = all
        .iter()
        .map(|record| [record.as_slice(), &[2, 9]].concat())
        .collect();
    for (version, records) in [("earlier", shorter), ("later", longer)] {
        assert_eq!(there.delete(&topic), Ok(true));
        wait_for("its end", || match there.partitions(&topic) {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        });
        let new = bus::NewTopic {
            partitions: 1,
            replication: None,
            retention: None,
            settings: Vec::new(),
        };
        there.create(&topic, &new).expect("it is made");
        write(cluster, &topic, 0, &records);
        let same = asked(cluster, query, "tuples");
        assert_eq!(same.code, 0, "{}", same.err);
        assert_rows(&same.out, &expected, version);
        // A query for columns unknown to them is reported.
        let query = format!("PARSE memcached PROCESS (group-count: group={last})");
        let other = asked(cluster, &query, "tuples");
        let told = format!("a publisher of an earlier version does not have {last}, ");
        assert_eq!(
            other.err.contains(&told),
            version == "earlier",
            "{}",
            other.err
        );
    }
}

pub fn deleted(cluster: &TestCluster) {
    let folder = Folder::new();
    let traffic = Traffic::stretched(20);
    let query = "PARSE mysql_query";
    let topic = "netalytics.mysql_query.v1";
    let mut publisher = Started::publisher(&folder, "publisher", cluster, query, &[]);
    publisher.says("publishing to partition");
    let asker = Started::new(
        &folder,
        "asker",
        &["query", query, "--kafka", &cluster.kafka],
    );
    asker.says("Ctrl-C ends it");
    publisher.feed(traffic.part(0.0, 0.4), Duration::from_secs(3));
    wait_for("rows", || {
        if asker.rows() > 0 {
            Ok(())
        } else {
            Err(asker.said())
        }
    });
    let tool = "org.apache.kafka.tools.TopicCommand";
    let deleted = cluster
        .kafka_tool(tool)
        .args(["--delete", "--topic", topic])
        .output()
        .expect("java");
    assert!(deleted.status.success());
    publisher.feed(traffic.part(0.4, 1.0), Duration::from_secs(2));
    let published = publisher.ends(PATIENCE);
    let line = format!("topic `{topic}` does not exist at the brokers");
    assert!(
        published.code == 1 && published.err.matches(&line).count() == 1,
        "{}",
        published.err
    );
    // Brokers with automatic topic creation recreate this one, and it is shorter.
    let asked = asker.ends(PATIENCE);
    let is_told = asked.err.contains(&line)
        || asked
            .err
            .contains("the start position of the read is no longer stored");
    assert!(asked.code == 1 && is_told, "{}", asked.err);
}

/// A new publisher finds no free partition, and live readers find the one added.
pub fn a_new_partition(cluster: &TestCluster) {
    let folder = Folder::new();
    let traffic = Traffic::stretched(1);
    let query = "PARSE tcp_conn_time";
    let publisher = |number: u8| {
        let name = format!("publisher-{number}");
        let started = Started::publisher(&folder, &name, cluster, query, &["--partitions", "1"]);
        started.says(&format!("publishing to partition {number} "));
        started
    };
    let first = publisher(0);
    let asks = [
        "query",
        query,
        "--kafka",
        &cluster.kafka,
        "--format",
        "jsonl",
    ];
    let asker = Started::new(&folder, "asker", &asks);
    asker.says("Ctrl-C ends it");
    for mut one in [first, publisher(1)] {
        one.feed(traffic.part(0.0, 1.0), Duration::ZERO);
        let ran = one.ends(PATIENCE);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    let expected = undisturbed(query, &traffic.file(&folder));
    wait_for("all rows", || match asker.rows() {
        rows if rows == 2 * expected.len() => Ok(()),
        rows => Err(format!(
            "{rows} of {}: {}",
            2 * expected.len(),
            asker.said()
        )),
    });
    let asked = asker.interrupted(PATIENCE);
    assert_eq!(asked.code, 0, "{}", asked.err);
    let rows: BTreeSet<String> = asked.out.lines().map(str::to_owned).collect();
    assert_eq!(rows, expected);
}

/// A publisher is suspended beyond the timeout, and returns with data older than that of others.
pub fn late(cluster: &TestCluster) {
    let ran = late_lane(cluster, "w=1100ms", &[]);
    let late: u64 = ran
        .err
        .split("tuples_late ")
        .nth(1)
        .and_then(|rest| rest.split([',', '\n']).next()?.parse().ok())
        .unwrap_or(0);
    let told: u64 = as_set(&ran.out)
        .iter()
        .map(|row| {
            let row: serde_json::Value = serde_json::from_str(row).expect("JSON");
            row["count"].as_u64().expect("a count")
        })
        .sum();
    assert!(late > 0 && told > 0, "{}", ran.err);
    // Each of two has published 221.
    assert_eq!(told + late, 2 * 221, "{}", ran.err);
    assert!(
        ran.out.contains("\"approximate\":true"),
        "the windows that were open are marked: {}",
        ran.out
    );
}

/// Result of a live query with these flags.
pub fn late_lane(cluster: &TestCluster, window: &str, flags: &[&str]) -> crate::Ran {
    let folder = Folder::new();
    let traffic = Traffic::stretched(20);
    let query = format!("PARSE http PROCESS (group-count: group=status, {window})");
    let since = format!("{query} SINCE 2001-01-01");
    let tuples = ["--publish", "tuples"];
    let mut slow = Started::publisher(&folder, "slow", cluster, &query, &tuples);
    let mut quick = Started::publisher(&folder, "quick", cluster, &query, &tuples);
    [&slow, &quick]
        .iter()
        .for_each(|one| one.says("publishing to partition"));
    let fixed = [
        "query",
        &since,
        "--follow",
        "--kafka",
        &cluster.kafka,
        "--published",
        "tuples",
        "--format",
        "jsonl",
    ];
    let asker = Started::new(&folder, "asker", &[&fixed[..], flags].concat());
    asker.says("Ctrl-C ends it");
    slow.feed(traffic.part(0.0, 0.3), Duration::ZERO);
    quick.feed(traffic.part(0.0, 0.3), Duration::from_secs(1));
    wait_for("rows", || match asker.rows() {
        0 => Err(asker.said()),
        _ => Ok(()),
    });
    slow.signal("-STOP");
    // Timeout of a silent lane.
    quick.feed(
        traffic.part(0.3, 1.0),
        runner::bus::SILENCE + Duration::from_secs(2),
    );
    let before = asker.rows();
    wait_for("windows that are over", || match asker.rows() {
        rows if rows > before + 5 => Ok(()),
        rows => Err(format!("{before}, {rows}")),
    });
    slow.signal("-CONT");
    slow.feed(traffic.part(0.3, 1.0), Duration::ZERO);
    for one in [slow, quick] {
        let ran = one.ends(PATIENCE);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    // All published data has been read by then.
    std::thread::sleep(Duration::from_secs(2));
    let ran = asker.interrupted(2 * PATIENCE);
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran
}
