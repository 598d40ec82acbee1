//! More than 1,024 outstanding requests, and the memory for them that connections share.

use monitor::{Monitor, MonitorConfig};
use parsers::pairing::OutstandingBudget;
use plan::MonitorSpec;

use crate::support::run;

/// Every row is a pair, and there are no duplicates.
#[test]
fn long_pipelines_are_exact() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for (file, parser, count) in [
        ("found/redis_pipe3000.pcap.gz", "redis", 3000),
        ("found/bugs/redis_pipeline_over_1024.pcap", "redis", 1500),
        ("found/bugs/mc_binary_setq_over_256.pcap", "memcached", 301),
    ] {
        let found = run(&root.join(file), parser);
        let exact = found
            .rows
            .iter()
            .filter(|row| row["quality"] == "exact")
            .count();
        assert_eq!((found.rows.len(), exact), (count, count), "{file}");
        let counters = found.accounting.parsers;
        assert_eq!(
            (counters.evicted_requests, counters.separated_halves),
            (0, 0),
            "{file}"
        );
        if parser == "memcached" {
            let stored = found
                .rows
                .iter()
                .filter(|row| row["status"] == "stored")
                .count();
            let noop = found
                .rows
                .iter()
                .find(|row| row["command"] == "noop")
                .expect("a noop");
            assert_eq!((stored, &*noop["status"]), (300, "ok"));
            assert!(noop.contains_key("response_time_ns"));
        }
    }
}

/// Connections that exceed the shared budget evict requests, and evictions are counted.
#[test]
fn outstanding_requests_are_bounded_by_the_budget() {
    let mut talk = testkit::TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80");
    talk.handshake();
    for _ in 0..300 {
        talk.client().send(&b"GET / HTTP/1.1\r\n\r\n".repeat(20));
    }
    let path = std::env::temp_dir().join(format!("outstanding-{}.pcap", std::process::id()));
    let file = testkit::pcap_bytes(
        talk.sent(),
        testkit::TimestampPrecision::Nanos,
        testkit::ByteOrder::Little,
    );
    std::fs::write(&path, file).expect("a file");
    let schema =
        std::sync::Arc::new((parsers::registry::find("http").expect("it exists").schema)());
    let spec = MonitorSpec {
        parsers: vec![plan::ParserUse::all_columns(schema)],
        ..MonitorSpec::default()
    };
    let evicted = |bytes| {
        let mut monitor = Monitor::new(
            &spec,
            MonitorConfig {
                outstanding: OutstandingBudget::of_bytes(bytes),
                ..MonitorConfig::default()
            },
        );
        let mut source = capture::open(std::slice::from_ref(&path));
        let mut block = capture::PacketBlock::default();
        let mut batches = Vec::new();
        while source.next_block(&mut block) {
            let _ = monitor.on_block(block.packets(), block.clock(), &mut batches);
        }
        monitor.finish(&mut batches);
        monitor.accounting().parsers.evicted_requests
    };
    // 1,024 entries fit into the connection, another 1,024 are borrowed with the only byte of the budget; the rest is
    // evicted.
    assert_eq!([64 << 20, 1, 0].map(evicted), [0, 6000 - 2048, 6000 - 1024]);
    std::fs::remove_file(&path).expect("the file");
}
