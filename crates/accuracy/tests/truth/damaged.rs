//! With any damage, no tuple has a false value, and if clients wait for responses, nearly all transactions that can be
//! found are found: real conversations of all protocols, damaged from seeds. The recorded shop is in the repository;
//! the other captures are next to the checkout. The command of this crate runs more captures, impairments, and seeds.

use std::path::PathBuf;

use accuracy::{FaultKind, GroundTruth, Impairment, OutcomeCounts, PacketRecording};

const SEEDS: u64 = 3;
/// Below this number of transactions, the percentage found is not checked.
const FEW: usize = 200;

/// Impairments, and the minimum percentage of findable transactions found if clients wait for responses. If the packets
/// in the file are not in the order of their times (`reorder`, `shuffle`), connections of a few packets lose the most:
/// their SYN may follow their FIN in the file.
const IMPAIRMENTS: &[(&str, usize)] = &[
    ("none", 100),
    ("loss=1%", 95),
    ("loss=5%", 95),
    ("loss=30%", 0),
    ("bursts=5%", 95),
    ("loss-to-server=1%", 95),
    ("loss-to-server=5%", 95),
    ("loss-to-client=1%", 95),
    ("loss-to-client=5%", 95),
    ("bursts-to-server=5%", 95),
    ("bursts-to-client=5%", 95),
    ("loss-small=5%", 93),
    ("loss-large=5%", 95),
    ("duplicates=10%", 99),
    ("reorder=10%", 95),
    ("all=5%", 92),
    ("joined=30%", 95),
    ("only-to-server", 0),
    ("only-to-client", 0),
    ("delay-1ms=1%", 99),
    ("delay-5ms=10%", 99),
    ("skew-to-server=0.5ms", 99),
    ("skew-to-server=5ms", 99),
    ("skew-to-client=5ms", 99),
    ("shuffle=0.5ms", 80),
    ("shuffle=5ms", 70),
    ("clock-step=30ms", 0),
    ("clock-step=-30ms", 0),
    ("clock-step=-3600000ms", 90),
    ("lossy-clock-step=-200ms", 80),
    ("lossy-clock-step=-5000ms", 80),
    ("pause-310000ms=0.2%", 90),
    ("pause-36000000ms=0.2%", 90),
    ("snaplen=96", 0),
    ("snaplen=128", 0),
    ("snaplen=256", 0),
    ("stray-syn=1%", 0),
    ("stray-reset=1%", 0),
    ("stray-data=1%", 0),
    ("stray-forged=1%", 0),
    ("acknowledgment=0.5%", 0),
    ("mirrored=0.01ms", 99),
    ("mirrored=1ms", 99),
    ("fast-open", 99),
];

/// Damage that only checksums reveal. If undamaged packets have correct checksums and all are verified, no row is
/// wrong.
const IN_BYTES: &[&str] = &[
    "acknowledgment=0.5%",
    "ip-length=0.5%",
    "message-length=0.5%",
    "damaged-bit=0.5%",
    "damaged-bit=5%",
];

/// Lower minimum for the captures of one parser: connections of redis-benchmark have about ten packets, and the MongoDB server and
/// the Kafka broker respond so slowly that the wait for a displaced packet often ends before it arrives.
const LESS: &[(&str, &str, usize)] = &[
    ("redis", "shuffle=5ms", 60),
    ("mongodb", "reorder=10%", 85),
    ("mongodb", "all=5%", 90),
    ("kafka", "reorder=10%", 90),
];

fn check(capture: PathBuf, parser: &str) {
    let recording = PacketRecording::load(&capture, usize::MAX).expect("a capture");
    let truth = GroundTruth::of(&recording, parser);
    let (transactions, unplaced) = truth.size();
    assert!(
        transactions > 20 && unplaced == 0,
        "{}: {transactions}, {unplaced}",
        capture.display()
    );
    let mut failures = Vec::new();
    for (name, found_min) in IMPAIRMENTS {
        let less = LESS
            .iter()
            .find(|(of, impairment, _)| (of, impairment) == (&parser, name));
        let found_min = less.map_or(found_min, |(_, _, found_min)| found_min);
        let count = measure(&recording, &truth, parser, name);
        if let Some(first) = count.faults.first() {
            failures.push(format!(
                "{name}: {} are wrong, as {first}",
                count.faults.len()
            ));
        }
        let (findable, found) = count.waiting;
        if findable >= FEW && found * 100 < findable * found_min {
            failures.push(format!("{name}: {found} of {findable} are found"));
        }
    }
    assert!(
        failures.is_empty(),
        "{}:\n{}",
        capture.display(),
        failures.join("\n")
    );
}

fn measure(
    recording: &PacketRecording,
    truth: &GroundTruth<'_>,
    parser: &str,
    impairment: &str,
) -> OutcomeCounts {
    measure_seeds(recording, truth, parser, (impairment, SEEDS))
}

fn measure_seeds(
    recording: &PacketRecording,
    truth: &GroundTruth<'_>,
    parser: &str,
    (impairment, seeds): (&str, u64),
) -> OutcomeCounts {
    let impairment: Impairment = impairment.parse().expect("an impairment");
    let mut count = OutcomeCounts::default();
    for seed in 0..if impairment.is_by_chance() { seeds } else { 1 } {
        let seen = impairment.apply(recording, &truth.servers(), seed);
        count.add(truth.judge(
            &recording.play(&seen, parser),
            &seen,
            impairment.tolerance(),
        ));
    }
    count
}

fn check_verified(capture: PathBuf, parser: &str) {
    let recording = PacketRecording::load(&capture, usize::MAX).expect("a capture");
    let recording = recording.verified();
    let truth = GroundTruth::of(&recording, parser);
    assert!(truth.size().0 > 20, "{}", capture.display());
    for name in IN_BYTES {
        let count = measure(&recording, &truth, parser, name);
        assert!(
            count.faults.is_empty(),
            "{}, {name}: {}",
            capture.display(),
            count.faults[0]
        );
    }
}

fn check_live(capture: &str, parser: &str) {
    if let Some(root) = testkit::corpus() {
        check(root.join("live-captures").join(capture), parser);
    }
}

fn in_repository(capture: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures")).join(capture)
}

fn check_shop(parser: &str) {
    check(in_repository("shop/in.pcap"), parser);
}

#[test]
fn damaged_bytes_are_discarded_where_checksums_are_verified() {
    check_verified(in_repository("shop/in.pcap"), "http");
    check_verified(in_repository("shop/in.pcap"), "mysql_query");
    check_verified(in_repository("shop/in.pcap"), "memcached");
    check_verified(in_repository("postgresql/in.pcap"), "postgresql");
    check_verified(in_repository("mongodb/in.pcap"), "mongodb");
    check_verified(in_repository("cassandra/in.pcap"), "cassandra");
    check_verified(in_repository("kafka/in.pcap"), "kafka");
    check_verified(in_repository("redis/in.pcap"), "redis");
    check_verified(in_repository("nfs/in.pcap"), "nfs");
}

/// In one capture, a client reuses its port within 2 ms, and a READDIRPLUS of its first connection names the directory of the second one; in
/// the other, a connection of NFS is reset, and the reset precedes a retransmission in the file; so does an acknowledgment of a value of
/// memcached.
#[test]
fn out_of_order() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for (capture, parser, seeds) in [
        ("live-captures/nfs.pcap.gz", "nfs", 20),
        ("bench/mixed_live.pcap.gz", "nfs", 2),
        ("bench/mixed_live.pcap.gz", "memcached", 2),
    ] {
        let recording = PacketRecording::load(&root.join(capture), usize::MAX).expect("a capture");
        let truth = GroundTruth::of(&recording, parser);
        let count = measure_seeds(&recording, &truth, parser, ("shuffle=5ms", seeds));
        let mut faults = count.faults.iter();
        let fault = faults.find(|fault| fault.kind != FaultKind::Half);
        let shown = fault.map(ToString::to_string);
        assert_eq!(shown, None, "{capture}");
    }
}

#[test]
fn http_keepalive() {
    check_live("http_keepalive.pcap.gz", "http");
}

#[test]
fn http_pipelined() {
    check_live("http_pipelined.pcap", "http");
}

#[test]
fn http_short() {
    check_live("http_short.pcap", "http");
}

#[test]
fn http_of_the_shop() {
    check_shop("http");
}

#[test]
fn mysql_text() {
    check_live("mysql_sysbench_text.pcap", "mysql_query");
}

#[test]
fn mysql_prepared() {
    check_live("mysql_sysbench_ps.pcap", "mysql_query");
}

#[test]
fn mysql_mix() {
    check_live("mysql_mix.pcap", "mysql_query");
}

#[test]
fn mysql_of_the_shop() {
    check_shop("mysql_query");
}

#[test]
fn memcached_text() {
    check_live("mc_text.pcap", "memcached");
}

#[test]
fn memcached_binary() {
    check_live("mc_binary.pcap", "memcached");
}

#[test]
fn memcached_load() {
    check_live("mc_load.pcap", "memcached");
}

#[test]
fn memcached_of_the_shop() {
    check_shop("memcached");
}

#[test]
fn mongodb() {
    check(in_repository("mongodb/in.pcap"), "mongodb");
}

#[test]
fn cassandra() {
    check(in_repository("cassandra/in.pcap"), "cassandra");
}

#[test]
fn kafka() {
    check(in_repository("kafka/in.pcap"), "kafka");
    check_live("kafka.pcap", "kafka");
}

#[test]
fn redis_benchmark() {
    check_live("redis_bench.pcap", "redis");
}

#[test]
fn redis_mix() {
    check_live("redis_mix.pcap", "redis");
}
