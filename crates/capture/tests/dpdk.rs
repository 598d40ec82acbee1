//! DPDK's virtual devices: a capture file, a null device, rings, and a cable. DPDK can be started only once per
//! process, so each test runs itself again in a separate process.
#![cfg(feature = "dpdk")]

mod cable;

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use cable::{end, inside, receive, send, this_test};
use capture::dpdk::DpdkError;
use capture::live::{self, CaptureBackend, LiveError, LiveOptions, TimestampClock};
use capture::{PacketBlock, PacketSource};
use testkit::{ByteOrder, SentPacket, TcpDialogue, TimestampPrecision};
use wire::{LinkType, Timestamp};

/// Set in a separate process.
const ALONE: &str = "DPDK_TEST_ALONE";

#[test]
fn capture_file_equals_the_file_source() {
    alone("capture_file_equals_the_file_source", || {
        let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80");
        talk.handshake();
        for i in 0..300u64 {
            talk.client().send(&vec![i as u8; 1 + 4 * i as usize]);
            talk.advance(1_000_000);
            talk.server().send(b"yes");
        }
        let mut sent = talk.sent().to_vec();
        let ends = (
            "10.0.0.1:5".parse().expect("an end"),
            "10.0.0.2:53".parse().expect("an end"),
        );
        // Needs several segments, then a single one again.
        for len in [9000, 2048, 2049, 1] {
            sent.push(SentPacket::udp(
                Timestamp(1_700_000_000_000_000_000),
                ends,
                &vec![len as u8; len],
            ));
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("in.pcap");
        let bytes = testkit::pcap_bytes(&sent, TimestampPrecision::Micros, ByteOrder::Little);
        std::fs::write(&path, bytes).expect("a file");
        same_packets(&path);
    });
}

/// DPDK and the file source must deliver the same packets.
fn same_packets(path: &Path) {
    let expected = packets(&mut *capture::open(&[PathBuf::from(path)]), usize::MAX);
    let file = path.display();
    let mut options = options("net_pcap0", &format!("--vdev=net_pcap0,rx_pcap={file}"));
    options.clock = TimestampClock::Adapter;
    let mut sources = live::open(&options).expect("opens");
    let got = packets(&mut *sources[0], expected.len());
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(&expected) {
        assert_eq!(got, expected);
    }
    let counters = sources[0].counters();
    assert_eq!(
        (counters.nic_drops, counters.unstamped_packets),
        (Some(0), 0)
    );
    options.stop.stop();
    assert!(
        !sources[0].next_block(&mut PacketBlock::default()),
        "a file has no more"
    );
}

/// Time, length on the wire and bytes of up to `n` packets.
fn packets(source: &mut dyn PacketSource, n: usize) -> Vec<(Timestamp, LinkType, u32, Vec<u8>)> {
    let mut all = Vec::new();
    let mut block = PacketBlock::default();
    let began = Instant::now();
    while all.len() < n
        && began.elapsed() < Duration::from_secs(20)
        && source.next_block(&mut block)
    {
        all.extend(
            block
                .packets()
                .map(|c| (c.ts, c.link_type, c.original_len, c.bytes.to_vec())),
        );
    }
    all
}

#[test]
fn buffers_are_returned_and_endless_sources_stop() {
    alone("buffers_are_returned_and_endless_sources_stop", || {
        let mut options = options("0", "--vdev=net_null0,size=200");
        options.workers = 2;
        options.snaplen = 100;
        let sources = live::open(&options).expect("opens");
        assert_eq!(sources.len(), 2);
        let both = Barrier::new(2);
        let read = |mut source: Box<dyn PacketSource>| {
            let mut block = PacketBlock::default();
            // Many times the number of buffers.
            while source.counters().packets < 200_000 {
                assert!(source.next_block(&mut block));
            }
            assert!(
                block
                    .packets()
                    .all(|c| (c.original_len, c.bytes.len()) == (200, 100))
            );
            both.wait();
            options.stop.stop();
            while source.next_block(&mut block) {}
            drop(source);
            assert!(
                block.packets().all(|c| c.bytes.len() == 100),
                "a block outlives its source"
            );
        };
        std::thread::scope(|scope| {
            sources.into_iter().for_each(|source| {
                scope.spawn(|| read(source));
            });
        });
    });
}

#[test]
fn nothing_comes_but_the_time() {
    alone("nothing_comes_but_the_time", || {
        let options = options("net_ring0", "--vdev=net_ring0");
        let mut sources = live::open(&options).expect("opens");
        let mut block = PacketBlock::default();
        for _ in 0..2 {
            assert!(sources[0].next_block(&mut block));
            assert!(block.is_empty() && block.clock().is_some());
        }
        options.stop.stop();
        assert!(!sources[0].next_block(&mut block));
    });
}

#[test]
fn packets_arrive_over_a_cable() {
    inside("packets_arrive_over_a_cable", &[], || {
        let mut sources = live::open(&options(
            "net_af_packet0",
            "--vdev=net_af_packet0,iface=mon",
        ))
        .expect("opens");
        let sender = send("10.9.0.2:80 2000 200");
        let seen = receive(&mut sources, |seen| seen.len() == 2000);
        end(sender);
        assert!(
            seen.iter().map(|s| s.number).eq(0..2000),
            "each once, in order"
        );
        assert!(seen.iter().all(|s| s.intact));
    });
}

#[test]
fn too_little_memory() {
    alone("too_little_memory", || {
        let options = LiveOptions {
            buffer_bytes: 512 << 20,
            ..options("0", "--vdev=net_null0")
        };
        let error = live::open(&options).err().expect("more than there is");
        assert!(
            matches!(error, LiveError::Dpdk(DpdkError::NoMemory(_))),
            "{error}"
        );
    });
}

#[test]
fn dpdk_starts_once() {
    alone("dpdk_starts_once", || {
        let error = live::open(&options("net_null1", "--vdev=net_null0"))
            .err()
            .expect("there is no such port");
        let LiveError::Dpdk(error @ DpdkError::NoSuchPort { .. }) = error else {
            panic!("{error}")
        };
        assert_eq!(
            error.to_string(),
            "DPDK has no port \"net_null1\"; available: net_null0 (0)"
        );
        let error = live::open(&options("net_null0", "--vdev=net_null0"))
            .err()
            .expect("it has been started");
        assert!(
            matches!(error, LiveError::Dpdk(DpdkError::AlreadyStarted)),
            "{error}"
        );
    });
}

#[test]
fn invalid_arguments() {
    alone("invalid_arguments", || {
        let error = live::open(&options(
            "0",
            "--vdev=net_null0,size=x --vdev=no_such_driver",
        ))
        .err();
        let error = error.expect("there is no such driver");
        assert!(
            matches!(error, LiveError::Dpdk(DpdkError::Start(_))),
            "{error}"
        );
    });
}

/// Used by the test above that needs a cable.
#[test]
fn sender() {
    cable::sender();
}

fn options(port: &str, devices: &str) -> LiveOptions {
    let mut options = LiveOptions {
        backend: CaptureBackend::Dpdk,
        buffer_bytes: 8 << 20,
        ..LiveOptions::new(port)
    };
    let args = format!("--no-huge -m 128 --no-pci --no-shconf --no-telemetry {devices}");
    options.dpdk_args = args.split(' ').map(str::to_owned).collect();
    options
}

/// Runs `body` as the test `name` in a separate process.
fn alone(name: &str, body: impl FnOnce()) {
    if env::var_os(ALONE).is_some() {
        return body();
    }
    let output = this_test(name).env(ALONE, "1").output().expect("it runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
