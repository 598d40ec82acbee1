//! Several taps see the same flows, and one of them reports each flow: their combined output equals that of a single
//! tap that sees all packets. Truth: one monitor over the whole capture, and one that starts where another tap ends.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use capture::PacketBlock;
use monitor::{Monitor, MonitorConfig, SharedTaps};
use parsers::registry;
use plan::{MonitorSpec, ParserUse, TapSelection, TapTable};
use wire::{CapturedPacket, Packet};

use crate::support::rows;

/// The non-null fields of a tuple except the flow's number, which differs between taps.
type Row = BTreeMap<String, String>;

fn shop() -> PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/shop/in.pcap")
}

fn spec(parser: &str, taps: TapSelection) -> MonitorSpec {
    let parser = registry::find(parser).expect("there is such a parser");
    let parsers = vec![ParserUse::all_columns(Arc::new((parser.schema)()))];
    MonitorSpec {
        parsers,
        taps,
        ..MonitorSpec::default()
    }
}

fn ends(captured: &CapturedPacket<'_>) -> Option<[IpAddr; 2]> {
    let five = Packet::decode(captured).ok()?.five_tuple;
    Some([five.src.addr.to_ip(), five.dst.addr.to_ip()])
}

/// The sorted rows of a tap for the packets that it sees. `change`: packet number, and the table that applies from that
/// packet on.
fn told(
    spec: &MonitorSpec,
    table: Option<TapTable>,
    sees: &Sees<'_>,
    change: Option<(u64, TapTable)>,
) -> Vec<Row> {
    let shared = table.map(SharedTaps::new);
    let mut monitor = Monitor::new(
        spec,
        MonitorConfig {
            taps: shared.clone(),
            ..MonitorConfig::default()
        },
    );
    let mut source = capture::open(&[shop()]);
    let mut block = PacketBlock::default();
    let mut batches = Vec::new();
    let mut n = 0;
    while source.next_block(&mut block) {
        for captured in block.packets() {
            if change.as_ref().is_some_and(|(at, _)| *at == n) {
                let shared = shared.as_ref().expect("taps");
                let (_, table) = change.clone().expect("it is");
                shared.set(table);
                monitor.advance(None, &mut batches);
            }
            n += 1;
            if sees(n - 1, &captured) {
                let _ = monitor.take(std::iter::once(captured), &mut batches);
            }
        }
        monitor.advance(None, &mut batches);
        assert!(monitor.accounting().adds_up());
    }
    monitor.finish(&mut batches);
    assert!(monitor.accounting().adds_up());
    // The time at which the end of a flow is detected depends on other traffic.
    let is_same =
        |name: &str| name != "id" && (name != "ts_end" || spec.parsers[0].schema.name != "flow");
    let all = batches.iter().flat_map(|(_, batch)| rows(batch));
    let mut told: Vec<Row> = all
        .map(|row| row.into_iter().filter(|(name, _)| is_same(name)).collect())
        .collect();
    told.sort();
    told
}

/// Whether a tap sees the packet with this number.
type Sees<'s> = dyn Fn(u64, &CapturedPacket<'_>) -> bool + 's;

fn everything(_: u64, _: &CapturedPacket<'_>) -> bool {
    true
}

fn hosts() -> BTreeSet<IpAddr> {
    let mut source = capture::open(&[shop()]);
    let mut block = PacketBlock::default();
    let mut hosts = BTreeSet::new();
    while source.next_block(&mut block) {
        hosts.extend(
            block
                .packets()
                .filter_map(|captured| ends(&captured))
                .flatten(),
        );
    }
    hosts
}

#[test]
fn all_taps_together_report_the_rows_of_one() {
    let hosts = hosts();
    assert!(hosts.len() > 2, "{hosts:?}");
    for parser in [
        "http",
        "mysql_query",
        "dns",
        "tcp_conn_time",
        "packet",
        "flow",
    ] {
        for taps in [TapSelection::Server, TapSelection::Client] {
            let spec = spec(parser, taps);
            let whole = told(&spec, None, &everything, None);
            // One tap per host, each of which sees its own packets or, as with mirrors, all packets.
            for is_mirror in [false, true] {
                let mut sum: Vec<Row> = Vec::new();
                for host in &hosts {
                    let others = hosts
                        .iter()
                        .copied()
                        .filter(|other| other != host)
                        .collect();
                    let table = TapTable {
                        own: vec![*host],
                        others,
                    };
                    let sees = |_: u64, captured: &CapturedPacket<'_>| {
                        is_mirror || ends(captured).is_some_and(|ends| ends.contains(host))
                    };
                    sum.extend(told(&spec, Some(table), &sees, None));
                }
                sum.sort();
                assert!(
                    sum == whole,
                    "{parser}, {taps:?}: {} and {}",
                    sum.len(),
                    whole.len()
                );
            }
            // Hosts without their own tap: a tap that sees all packets reports the flows between them.
            let own = *hosts.first().expect("there are some");
            let alone = told(
                &spec,
                Some(TapTable {
                    own: vec![own],
                    others: vec![],
                }),
                &everything,
                None,
            );
            let mirror = told(
                &spec,
                Some(TapTable {
                    own: vec![],
                    others: vec![own],
                }),
                &everything,
                None,
            );
            let at_host = told(
                &spec,
                Some(TapTable {
                    own: vec![own],
                    others: vec![],
                }),
                &|_, c| ends(c).is_some_and(|ends| ends.contains(&own)),
                None,
            );
            assert!(alone == whole, "{parser}");
            let mut sum = [mirror, at_host].concat();
            sum.sort();
            assert!(
                sum == whole,
                "{parser}, {taps:?}: {} and {}",
                sum.len(),
                whole.len()
            );
        }
    }
}

#[test]
fn taps_take_over_flows_of_others() {
    let all: Vec<IpAddr> = hosts().into_iter().collect();
    let alone = TapTable::default();
    let silent = TapTable {
        own: vec![],
        others: all,
    };
    let half = told(
        &spec("packet", TapSelection::Server),
        None,
        &everything,
        None,
    )
    .len() as u64
        / 2;
    for parser in ["http", "mysql_query", "packet"] {
        let spec = spec(parser, TapSelection::Server);
        let later = told(&spec, None, &|n, _| n >= half, None);
        let taken_up = told(
            &spec,
            Some(silent.clone()),
            &everything,
            Some((half, alone.clone())),
        );
        let earlier = told(&spec, None, &|n, _| n < half, None);
        let left = told(
            &spec,
            Some(alone.clone()),
            &everything,
            Some((half, silent.clone())),
        );
        assert!(!later.is_empty() && !earlier.is_empty());
        // A tap that has seen the handshake has more information on later packets than one that has not.
        let known = |rows: &[Row]| -> Vec<Row> {
            let is_known = |(name, _): &(&String, &String)| {
                !["quality", "client_guessed"].contains(&name.as_str())
            };
            let pair = |(name, value): (&String, &String)| (name.clone(), value.clone());
            rows.iter()
                .map(|row| row.iter().filter(is_known).map(pair).collect())
                .collect()
        };
        assert_eq!(
            known(&taken_up),
            known(&later),
            "{parser}: what was taken up"
        );
        assert_eq!(known(&left), known(&earlier), "{parser}: what was left");
    }
}
