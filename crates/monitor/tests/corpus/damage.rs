//! Splitting, reordering, and duplicating the segments of a conversation does not change its tuples: real conversations
//! are damaged from a seed and compared with the originals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use testkit::pcap::{ByteOrder, TimestampPrecision, pcap_bytes};
use testkit::{SeededRng, SentPacket};
use wire::packet::TcpFlags;
use wire::{FlowKey, Packet, TcpInfo, TcpSeq, TransportHeader};

use crate::support::{Row, run};

const SEEDS: u64 = 6;

/// Columns excluded from the comparison: times depend on the segments.
const TIMES: &[&str] = &[
    "ts",
    "ts_end",
    "response_time_ns",
    "transfer_time_ns",
    "total_time_ns",
    "call_time_ns",
    "handshake_time_ns",
    "id",
];

#[test]
fn damage_that_tcp_repairs_changes_no_tuple() {
    let shop = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../captures/shop/in.pcap"
    ));
    let mut cases = vec![
        (shop.clone(), "http"),
        (shop.clone(), "mysql_query"),
        (shop, "memcached"),
    ];
    if let Some(root) = testkit::corpus() {
        for (name, parser) in [
            ("live-captures/http_mix.pcap", "http"),
            ("live-captures/http_pipelined.pcap", "http"),
            ("live-captures/mysql_mix.pcap", "mysql_query"),
            ("live-captures/mysql_sysbench_ps.pcap", "mysql_query"),
            ("live-captures/nfs_lossy.pcap", "rpc"),
            ("live-captures/mc_text.pcap", "memcached"),
            ("live-captures/mc_binary.pcap", "memcached"),
            ("captures/dns/dsc-dnso1tcp.pcap", "dns"),
            ("captures/tls/retina-tls_ciphers.pcap", "tls"),
        ] {
            cases.push((root.join(name), parser));
        }
    }
    for (capture, parser) in cases {
        let whole = tuples(&capture, parser);
        assert!(whole.len() > 20, "{}", capture.display());
        for seed in 0..SEEDS {
            let damaged = damage(&capture, seed);
            let file = tempfile::NamedTempFile::new().expect("a temporary file");
            std::fs::write(
                file.path(),
                pcap_bytes(&damaged, TimestampPrecision::Nanos, ByteOrder::Little),
            )
            .expect("it can be written");
            let again = tuples(file.path(), parser);
            for (was, is) in whole.iter().zip(&again) {
                assert_eq!(is, was, "{} seed {seed}", capture.display());
            }
            assert_eq!(
                again.len(),
                whole.len(),
                "{} seed {seed}",
                capture.display()
            );
        }
    }
}

/// The tuples of a capture without times, sorted.
fn tuples(capture: &Path, parser: &str) -> Vec<BTreeMap<String, String>> {
    let timeless = |row: Row| {
        row.into_iter()
            .filter(|(field, _)| !TIMES.contains(&field.as_str()))
            .collect()
    };
    let mut tuples: Vec<_> = run(capture, parser)
        .rows
        .into_iter()
        .map(timeless)
        .collect();
    tuples.sort();
    tuples
}

/// The TCP packets of the capture, damaged per flow and sorted by time.
fn damage(capture: &Path, seed: u64) -> Vec<SentPacket> {
    let mut flows = Vec::<(FlowKey, Vec<SentPacket>)>::new();
    let mut source = capture::open(&[capture.to_owned()]);
    let mut block = capture::PacketBlock::default();
    while source.next_block(&mut block) {
        for packet in block.packets().filter_map(|c| Packet::decode(&c).ok()) {
            let TransportHeader::Tcp(tcp) = packet.transport else {
                continue;
            };
            let five = packet.five_tuple;
            let end = |e: wire::Endpoint| std::net::SocketAddr::new(e.addr.to_ip(), e.port);
            let sent = SentPacket::tcp(
                packet.ts,
                (end(five.src), end(five.dst)),
                tcp,
                packet.payload,
            );
            let key = five.flow_key().0;
            match flows.iter_mut().rev().find(|f| f.0 == key) {
                Some(flow) => flow.1.push(sent),
                None => flows.push((key, vec![sent])),
            }
        }
    }
    let mut rng = SeededRng::new(seed);
    let mut damaged: Vec<SentPacket> = flows
        .iter()
        .flat_map(|(_, sent)| damage_flow(&mut rng, sent))
        .collect();
    damaged.sort_by_key(|s| s.ts);
    damaged
}

/// Splits, shuffles, and duplicates the segments between two changes of direction; handshake and teardown are
/// unchanged.
fn damage_flow(rng: &mut SeededRng, sent: &[SentPacket]) -> Vec<SentPacket> {
    let mut out = Vec::new();
    let mut rest = sent;
    while let Some(first) = rest.first() {
        let len = rest
            .iter()
            .take_while(|s| s.src == first.src && is_plain_data(s))
            .count();
        let (run, behind) = rest.split_at(len.max(1));
        rest = behind;
        if len == 0 {
            out.push(first.clone());
            continue;
        }
        let last_ts = run[run.len() - 1].ts;
        let mut pieces: Vec<SentPacket> = run.iter().flat_map(|s| cut(rng, s)).collect();
        for i in (1..pieces.len()).rev() {
            pieces.swap(i, rng.below(i as u64 + 1) as usize);
        }
        for mut piece in pieces {
            piece.ts = last_ts;
            let copies = if rng.chance(0.2) { 2 } else { 1 };
            out.extend(std::iter::repeat_n(piece, copies));
        }
    }
    out
}

fn is_plain_data(sent: &SentPacket) -> bool {
    let special = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
    !sent.payload.is_empty()
        && sent
            .tcp_info()
            .is_some_and(|tcp| !tcp.flags.intersects(special))
}

/// One to four parts; a later part may overlap the previous one.
fn cut(rng: &mut SeededRng, sent: &SentPacket) -> Vec<SentPacket> {
    let tcp = sent.tcp_info().expect("only TCP is cut");
    let n = sent.payload.len();
    let mut ends: Vec<usize> = (0..rng.below(4))
        .map(|_| rng.below(n as u64 + 1) as usize)
        .collect();
    ends.push(n);
    ends.sort_unstable();
    ends.dedup();
    let mut start = 0;
    let mut pieces = Vec::new();
    for end in ends.into_iter().filter(|end| *end > 0) {
        let from = if rng.chance(0.3) {
            start - rng.below(start as u64 + 1) as usize
        } else {
            start
        };
        let tcp = TcpInfo {
            seq: TcpSeq(tcp.seq.0.wrapping_add(from as u32)),
            ..tcp
        };
        pieces.push(SentPacket::tcp(
            sent.ts,
            (sent.src, sent.dst),
            tcp,
            &sent.payload[from..end],
        ));
        start = end;
    }
    pieces
}
