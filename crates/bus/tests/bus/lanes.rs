//! Lanes of several concurrent publishers, and their log as read by others.

use std::collections::{BTreeMap, BTreeSet};

use bus::lanes::log::{CaptureBytes, LaneStanding};
use bus::lanes::{ClaimedLane, LaneLogReader, TOPIC};
use testkit::cluster;
use testkit::programs::{PATIENCE, wait_for};

use crate::{ask, broker, kafka, tmp, topic, topics};

#[test]
fn each_gets_a_partition_of_its_own() {
    let Some(broker) = broker() else { return };
    let Some(python) = cluster::python(&tmp()) else {
        return;
    };
    let kafka = kafka(&broker);
    let tuples = topic(&kafka, "lanes-tuples", 2);
    let cells = topic(&kafka, "lanes-cells", 1);
    let claim = |name: &str, written: &[String]| -> ClaimedLane {
        let about = BTreeMap::from([("job".to_owned(), "7".to_owned())]);
        let lanes = LaneLogReader::open(&kafka, PATIENCE).expect("a broker");
        lanes
            .claim(name, written, about, PATIENCE)
            .expect("a partition")
    };
    let both = [tuples.clone(), cells.clone()];
    // More concurrent lanes than partitions.
    let lanes: Vec<ClaimedLane> = std::thread::scope(|scope| {
        let claim = &claim;
        let both = &both;
        let started: Vec<_> = (0..4)
            .map(|i| scope.spawn(move || claim(&format!("both-{i}"), both)))
            .collect();
        started
            .into_iter()
            .map(|one| one.join().expect("it claims"))
            .collect()
    });
    let held: BTreeSet<i32> = lanes.iter().map(ClaimedLane::partition).collect();
    assert_eq!(held.len(), 4, "{held:?}");
    for topic in &both {
        let partitions = topics(&kafka)
            .partitions(topic)
            .expect("an answer")
            .expect("the topic");
        assert!(
            held.iter().all(|partition| *partition < partitions),
            "{held:?} of {partitions}"
        );
    }
    // A partition free in one topic may be taken in another.
    let other = topic(&kafka, "lanes-other", 1);
    let alone = claim("alone", std::slice::from_ref(&other));
    assert_eq!(alone.partition(), 0);
    lanes
        .iter()
        .chain([&alone])
        .for_each(|lane| assert_eq!(lane.check(), Ok(())));

    let standing = |topic: &str| -> BTreeMap<String, (LaneStanding, Option<CaptureBytes>)> {
        let mut lanes = LaneLogReader::open(&kafka, PATIENCE).expect("a broker");
        let now = lanes.now_ms();
        let log = lanes.read(PATIENCE).expect("the log");
        assert_eq!(log.malformed(), 0);
        log.of_topic(topic, now)
            .map(|(known, standing)| (known.entry.lane.clone(), (standing, known.entry.capture)))
            .collect()
    };
    let told = standing(&cells);
    assert_eq!(told.len(), 4);
    assert!(
        told.values()
            .all(|(standing, _)| *standing == LaneStanding::Live),
        "{told:?}"
    );

    // One ends, and another takes its place.
    let mut lanes = lanes.into_iter();
    let first = lanes.next().expect("four");
    let freed = first.partition();
    let capture = CaptureBytes {
        seen_bytes: 1000,
        unseen_bytes: 24,
    };
    first.end(Some(capture), PATIENCE);
    wait_for("its end", || match standing(&tuples).get("both-0") {
        Some((LaneStanding::Ended, Some(told))) if *told == capture => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let next = claim("next", &both);
    assert_eq!(next.partition(), freed);
    next.end(None, PATIENCE);

    // Others read it as JSON by key, with the brokers' times.
    let script = "
import json, sys
from kafka import KafkaConsumer, TopicPartition
consumer = KafkaConsumer(bootstrap_servers=sys.argv[1], auto_offset_reset='earliest', group_id=None)
log = TopicPartition(sys.argv[2], 0)
consumer.assign([log])
end = consumer.end_offsets([log])[log]
last = {}
for message in consumer:
    entry = json.loads(message.value)
    assert message.timestamp_type == 1 and message.key.decode() == entry['lane'], message
    last[entry['lane']] = entry
    if message.offset + 1 >= end: break
print(*sorted(f\"{name} {e['says']} {e['about']['job']}\" for name, e in last.items()), sep='\\n')
";
    let said = ask(&python, script, &[&broker.kafka, TOPIC]);
    let expected = [
        "alone holds 7",
        "both-0 ended 7",
        "both-1 holds 7",
        "both-2 holds 7",
        "both-3 holds 7",
    ];
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        [&expected[..], &["next ended 7"]].concat()
    );
}
