//! Live jobs whose sources report a backlog, lose packets, or fail: the remaining results are correct, every packet is
//! counted, and no flow is joined midstream.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use capture::live::TimestampClock;
use capture::{PacketBlock, PacketRecord, PacketSource, SourceCounters, SourceError};
use monitor::job::JobConfig;
use monitor::sampling_control::RATE_MIN;
use monitor::slice::is_in;
use monitor::{JobInput, Monitor, MonitorJob, MonitorOutcome, MonitorProgress, SharedSlice};
use plan::{FlowSlice, SliceSource};
use stream::EngineOutput;
use testkit::packet::{SentPacket, tcp_info};
use tuple::{Batch, DataType};
use wire::packet::TcpFlags;
use wire::{LinkType, Timestamp};

const MS: i64 = 1_000_000;
const SECOND: i64 = 1000 * MS;

/// An event of the scripted source.
#[derive(Clone)]
struct Part {
    packets: Vec<SentPacket>,
    clock: i64,
    backlog: f32,
    lost: u64,
    fails: bool,
    slice: Option<FlowSlice>,
}

/// A live source that follows a script.
struct Scripted {
    parts: VecDeque<Part>,
    backlog: f32,
    counters: SourceCounters,
    slice: SharedSlice,
}

impl PacketSource for Scripted {
    fn next_block(&mut self, block: &mut PacketBlock) -> bool {
        block.clear();
        let Some(part) = self.parts.pop_front() else {
            return false;
        };
        assert!(!part.fails, "the script says so");
        for sent in &part.packets {
            let bytes = sent.to_bytes();
            let ts = sent.ts;
            let len = bytes.len() as u32;
            let buffer = block.add_buffer(Arc::new(bytes));
            let link_type = LinkType::Ethernet;
            block.push(PacketRecord {
                ts,
                link_type,
                original_len: len,
                len,
                start: 0,
                buffer,
            });
        }
        block.set_clock(Timestamp(part.clock));
        part.slice
            .into_iter()
            .for_each(|slice| self.slice.set(slice));
        self.backlog = part.backlog;
        self.counters.packets += part.packets.len() as u64;
        self.counters.lost_before_us = Some(part.lost);
        true
    }

    fn errors(&self) -> &[SourceError] {
        &[]
    }

    fn counters(&self) -> SourceCounters {
        self.counters
    }

    fn backlog(&self) -> f32 {
        self.backlog
    }
}

/// A source that delivers `packets` in parts of 50 ms; `pressure` returns the backlog and the total loss at a time.
fn scripted(packets: &[SentPacket], until: i64, pressure: impl Fn(i64) -> (f32, u64)) -> Vec<Part> {
    let mut left = packets.iter().peekable();
    let part = |n: i64| {
        let clock = n * 50 * MS;
        let mut packets = Vec::new();
        while let Some(sent) = left.next_if(|sent| sent.ts.0 < clock) {
            packets.push(sent.clone());
        }
        let (backlog, lost) = pressure(clock);
        Part {
            packets,
            clock,
            backlog,
            lost,
            fails: false,
            slice: None,
        }
    };
    (1..=until / (50 * MS)).map(part).collect()
}

fn run(
    query: &str,
    config: &JobConfig,
    scripts: Vec<Vec<Part>>,
) -> (Vec<EngineOutput>, MonitorOutcome) {
    run_by(TimestampClock::System, query, config, scripts)
}

/// [`run`] with sources that report this clock.
fn run_by(
    clock: TimestampClock,
    query: &str,
    config: &JobConfig,
    scripts: Vec<Vec<Part>>,
) -> (Vec<EngineOutput>, MonitorOutcome) {
    let source = |parts| source(clock, config, parts);
    run_input(
        query,
        config,
        JobInput::Each(scripts.into_iter().map(source).collect()),
    )
}

fn source(clock: TimestampClock, config: &JobConfig, parts: Vec<Part>) -> Box<dyn PacketSource> {
    let counters = SourceCounters {
        clock: Some(clock),
        ..SourceCounters::default()
    };
    let slice = config.monitor.slice.clone().unwrap_or_default();
    Box::new(Scripted {
        parts: parts.into(),
        backlog: 0.0,
        counters,
        slice,
    })
}

fn run_input(
    query: &str,
    config: &JobConfig,
    input: JobInput,
) -> (Vec<EngineOutput>, MonitorOutcome) {
    let query = query::check(query, &parsers::registry::schemas(), &()).expect("a sound query");
    let mut job = MonitorJob::start(&planner::lower(&query), config, input).expect("threads");
    let mut out = Vec::new();
    while job.next(Duration::from_secs(60), &mut out) == MonitorProgress::Going {}
    (out, job.end())
}

fn client(n: u32) -> SocketAddr {
    SocketAddr::from(([10, (n >> 16) as u8, (n >> 8) as u8, n as u8], 40000))
}

/// Packets of connection `n`: opened at `start`, one byte per `pause`, `times` times, and closed.
fn connection(n: u32, start: i64, (pause, times): (i64, u32)) -> Vec<SentPacket> {
    let client = client(n);
    let server = SocketAddr::from(([192, 168, 0, 1], 80));
    let up = |ts, seq, flags, payload: &[u8]| {
        SentPacket::tcp(
            Timestamp(ts),
            (client, server),
            tcp_info(seq, 5001, flags),
            payload,
        )
    };
    let syn = TcpFlags::SYN;
    let ack = TcpFlags::ACK;
    let fin = TcpFlags::FIN;
    let mut sent = vec![
        up(start, 1000, syn, b""),
        SentPacket::tcp(
            Timestamp(start + 1),
            (server, client),
            tcp_info(5000, 1001, syn | ack),
            b"",
        ),
    ];
    sent.extend((0..times).map(|i| up(start + 2 + i64::from(i) * pause, 1001 + i, ack, b"x")));
    let end = start + 2 + i64::from(times) * pause;
    sent.push(up(end, 1001 + times, fin | ack, b""));
    sent.push(SentPacket::tcp(
        Timestamp(end + 1),
        (server, client),
        tcp_info(5001, 1002 + times, fin | ack),
        b"",
    ));
    sent
}

fn in_order(connections: impl IntoIterator<Item = Vec<SentPacket>>) -> Vec<SentPacket> {
    let mut all: Vec<SentPacket> = connections.into_iter().flatten().collect();
    all.sort_by_key(|sent| sent.ts);
    all
}

fn number(batch: &Batch, row: usize, name: &str) -> f64 {
    let schema = batch.schema();
    let id = schema.ids().find(|id| schema.field(*id).name == name);
    let id = id.unwrap_or_else(|| panic!("no column {name}"));
    match schema.field(id).data_type {
        DataType::U64 => batch.u64(id).value(row) as f64,
        DataType::I64 => batch.i64(id).value(row) as f64,
        _ => batch.f64(id).value(row),
    }
}

/// The only row of a result.
fn single(out: &[EngineOutput]) -> &Batch {
    assert_eq!(
        out.iter().map(|output| output.batch.rows()).sum::<usize>(),
        1
    );
    &out.iter()
        .find(|output| output.batch.rows() == 1)
        .expect("a row")
        .batch
}

fn check_accounting(ended: &MonitorOutcome, packets: usize) {
    assert!(ended.panics.is_empty(), "{:?}", ended.panics);
    assert!(ended.accounting.adds_up());
    assert_eq!(ended.accounting.received, packets as u64);
}

/// Backlog from 2 s to 4 s.
fn behind(clock: i64) -> (f32, u64) {
    (
        if (2 * SECOND..4 * SECOND).contains(&clock) {
            0.8
        } else {
            0.0
        },
        0,
    )
}

/// The only number of the result, and its confidence interval.
fn total(
    query: &str,
    column: &str,
    packets: &[SentPacket],
    pressure: impl Fn(i64) -> (f32, u64),
) -> ([f64; 3], MonitorOutcome) {
    let (out, ended) = run(
        query,
        &JobConfig::default(),
        vec![scripted(packets, 15 * SECOND, pressure)],
    );
    check_accounting(&ended, packets.len());
    let row = single(&out);
    (
        ["", "_low", "_high"].map(|end| number(row, 0, &format!("{column}{end}"))),
        ended,
    )
}

#[test]
fn totals_are_scaled_by_each_flows_rate() {
    const POPULATIONS: u32 = 20;
    let mut covered = 0;
    let mut sum = 0.0;
    for population in 0..POPULATIONS {
        let flows = (0..12_000)
            .map(|n| connection(n + population * 20_000, i64::from(n) * MS, (3 * MS, 1)));
        let query = "PARSE tcp_flow_key SAMPLE auto PROCESS (count)";
        let ([seen, low, high], ended) = total(query, "count", &in_order(flows), behind);
        assert!(ended.accounting.sampled_out > 12_000 && low < high);
        assert_eq!(ended.sampling.lowest, Some(1.0 / 16.0));
        covered += u32::from(low <= 12_000.0 && 12_000.0 <= high);
        sum += seen;
    }
    assert!(covered >= POPULATIONS - 3, "{covered} of {POPULATIONS}");
    let mean = sum / f64::from(POPULATIONS);
    assert!((mean / 12_000.0 - 1.0).abs() < 0.02, "{mean}");
}

/// Switches copy an eighth of the flows from 2 s to 8 s, a quarter until 10 s, and then all: monitors are notified
/// before copies decrease and after copies increase.
fn sliced(packets: &[SentPacket], drawn: u16, pressure: impl Fn(i64) -> (f32, u64)) -> Vec<Part> {
    let at = |level| FlowSlice {
        coin: SliceSource::Addresses,
        level,
        drawn,
    };
    let told = [(2, 3), (9, 2), (11, 0)];
    let copied = [(3, 3), (8, 2), (10, 0)];
    let level = |steps: [(i64, u8); 3], now: i64| {
        steps
            .iter()
            .rev()
            .find(|(from, _)| now >= from * SECOND)
            .map_or(0, |(_, level)| *level)
    };
    let is_copied = |sent: &&SentPacket| {
        let bytes = sent.to_bytes();
        let ends = wire::Packet::decode(&sent.captured(&bytes))
            .expect("a packet")
            .five_tuple;
        is_in(at(level(copied, sent.ts.0)), &[ends.src, ends.dst])
    };
    let packets: Vec<SentPacket> = packets.iter().filter(is_copied).cloned().collect();
    let mut parts = scripted(&packets, 15 * SECOND, pressure);
    parts
        .iter_mut()
        .for_each(|part| part.slice = Some(at(level(told, part.clock))));
    parts
}

#[test]
fn totals_are_scaled_by_the_copied_share() {
    const POPULATIONS: u32 = 20;
    let mut covered = 0;
    let mut sum = 0.0;
    for population in 0..POPULATIONS {
        // Each flow lasts about a second.
        let flows = (0..12_000).map(|n| {
            let spread = (n + population * 12_000).wrapping_mul(2_654_435_761) >> 8;
            connection(spread, i64::from(n) * MS, (300 * MS, 3))
        });
        let packets = in_order(flows);
        let mut config = JobConfig::default();
        config.monitor.slice = Some(SharedSlice::default());
        let parts = sliced(&packets, (population * 37) as u16, |clock| {
            (if clock == 5 * SECOND { 0.9 } else { 0.0 }, 0)
        });
        let (out, ended) = run(
            "PARSE tcp_flow_key SAMPLE auto PROCESS (count)",
            &config,
            vec![parts.clone()],
        );
        check_accounting(&ended, parts.iter().map(|part| part.packets.len()).sum());
        assert!(
            ended.accounting.cut_off > 500,
            "{}",
            ended.accounting.cut_off
        );
        assert!(
            ended.accounting.strays > 0 && ended.accounting.strays <= ended.accounting.sampled_out
        );
        assert_eq!(ended.sampling.lowest, Some(1.0 / 16.0));
        let row = single(&out);
        let [seen, low, high] =
            ["count", "count_low", "count_high"].map(|name| number(row, 0, name));
        covered += u32::from(low <= 12_000.0 && 12_000.0 <= high);
        sum += seen;
    }
    assert!(covered >= POPULATIONS - 3, "{covered} of {POPULATIONS}");
    let mean = sum / f64::from(POPULATIONS);
    assert!((mean / 12_000.0 - 1.0).abs() < 0.03, "{mean}");
}

#[test]
fn bytes_of_cut_off_flows_equal_those_of_complete_ones() {
    // Flows start before the slices and end long after them; each contributes the same amount in every second.
    let flows = 4000;
    let packets =
        in_order((0..flows).map(|n| connection(n * 7919, i64::from(n) * MS / 8, (500 * MS, 28))));
    let mut config = JobConfig::default();
    config.monitor.slice = Some(SharedSlice::default());
    let query = "PARSE packet SAMPLE auto PROCESS (count: w=1s)";
    let (out, ended) = run(query, &config, vec![sliced(&packets, 5, |_| (0.0, 0))]);
    assert!(ended.accounting.adds_up() && ended.accounting.cut_off > 3000);
    let windows = out.iter().flat_map(|output| {
        (0..output.batch.rows()).map(|row| {
            (
                number(&output.batch, row, "window_start"),
                number(&output.batch, row, "count"),
            )
        })
    });
    let mut all = 0.0;
    let mut n = 0;
    // Between the notification of monitors and of switches, nothing is duplicated or missing.
    for (start, count) in windows.filter(|(start, _)| (1e9..13e9).contains(start)) {
        assert!(
            (count / f64::from(flows) / 2.0 - 1.0).abs() < 0.2,
            "{count} from {start}"
        );
        all += count;
        n += 1;
    }
    assert!(
        n == 12 && (all / f64::from(n) / f64::from(flows) / 2.0 - 1.0).abs() < 0.1,
        "{all} in {n}"
    );
}

#[test]
fn every_kind_of_parser_reports_the_rate() {
    let packets =
        in_order((0..12_000).map(|n| connection(n, i64::from(n) * MS, (3 * MS, 1 + n % 5))));
    for (query, column) in [
        (
            "PARSE flow SAMPLE auto PROCESS (sum: value=client_packets)",
            "sum",
        ),
        ("PARSE tcp_pkt_size SAMPLE auto PROCESS (sum)", "sum_bytes"),
        ("PARSE tcp_conn_time SAMPLE auto PROCESS (count)", "count"),
        ("PARSE packet SAMPLE auto PROCESS (count)", "count"),
    ] {
        let ([truth, low, high], ended) = total(query, column, &packets, |_| (0.0, 0));
        assert_eq!((ended.accounting.sampled_out, ended.sampling.count), (0, 0));
        assert_eq!((low, high), (truth, truth), "{query}");
        let ([seen, low, high], ended) = total(query, column, &packets, behind);
        assert!(ended.accounting.sampled_out > packets.len() as u64 / 4);
        assert!(
            low < seen && seen < high && (seen / truth - 1.0).abs() < 0.15,
            "{query}: {seen} of {truth}"
        );
    }
}

#[test]
fn a_flow_is_wholly_in_or_wholly_out() {
    // Each flow lasts 5 s: before, during, and after the backlog.
    let packets = in_order((0..2000).map(|n| connection(n, i64::from(n) * 4 * MS, (500 * MS, 10))));
    let (out, ended) = run(
        "PARSE flow SAMPLE auto",
        &JobConfig::default(),
        vec![scripted(&packets, 20 * SECOND, behind)],
    );
    check_accounting(&ended, packets.len());
    let rows = out
        .iter()
        .flat_map(|output| (0..output.batch.rows()).map(|row| (&output.batch, row)));
    let counts: Vec<f64> = rows
        .map(|(batch, row)| {
            number(batch, row, "client_packets") + number(batch, row, "server_packets")
        })
        .collect();
    assert!(counts.iter().all(|packets| *packets == 14.0), "{counts:?}");
    assert!((700..1500).contains(&counts.len()), "{}", counts.len());
    assert_eq!(ended.accounting.parsed, 14 * counts.len() as u64);
}

#[test]
fn flows_older_than_all_low_rates_count_as_much_as_others() {
    // All flows start during the backlog and last long after it; rejected flows return halfway.
    let flows = 4000;
    let times = 100;
    let packets = in_order(
        (0..flows).map(|n| connection(n, 3 * SECOND + i64::from(n) * MS / 4, (SECOND, times))),
    );
    let mut config = JobConfig::default();
    config.monitor.flow.tcp_idle_ns = 5 * SECOND;
    let query = "PARSE packet SAMPLE auto PROCESS (count: w=10s)";
    let (out, ended) = run(
        query,
        &config,
        vec![scripted(&packets, 110 * SECOND, behind)],
    );
    check_accounting(&ended, packets.len());
    let windows = out.iter().flat_map(|output| {
        let count = |row| {
            (
                number(&output.batch, row, "window_start"),
                number(&output.batch, row, "count"),
            )
        };
        (0..output.batch.rows()).map(count)
    });
    let windows: Vec<(f64, f64)> = windows.collect();
    assert!(windows.len() > 8);
    for (start, count) in windows.iter().skip(1).filter(|(start, _)| *start < 100e9) {
        assert!(
            (count / f64::from(flows) / 10.0 - 1.0).abs() < 0.15,
            "{count} from {start}"
        );
    }
    let last = windows
        .iter()
        .rev()
        .find(|(start, _)| *start == 90e9)
        .expect("a window");
    assert_eq!(last.1, f64::from(flows) * 10.0, "all are in by then");
}

#[test]
fn losses_count_as_pressure_and_are_recorded() {
    let packets = in_order((0..1000).map(|n| connection(n, i64::from(n) * MS, (MS, 2))));
    let lossy = |clock: i64| (0.0, (clock / SECOND).min(3) as u64 * 100);
    let query = "PARSE tcp_flow_key SAMPLE auto PROCESS (count)";
    let (_, ended) = run(
        query,
        &JobConfig::default(),
        vec![scripted(&packets, 60 * SECOND, lossy)],
    );
    check_accounting(&ended, packets.len());
    let changes = &ended.sampling.changes;
    assert_eq!(changes.iter().map(|change| change.lost).sum::<u64>(), 300);
    assert_eq!(
        changes
            .iter()
            .map(|change| change.rate)
            .take(4)
            .collect::<Vec<_>>(),
        [0.5, 0.25, 0.125, 0.175]
    );
    assert_eq!(changes.back().map(|change| change.rate), Some(1.0));
    assert_eq!(
        (ended.sampling.count, ended.sampling.lowest),
        (changes.len() as u64, Some(0.125))
    );
}

#[test]
fn windows_report_losses_of_their_time() {
    let packets = in_order((0..5000).map(|n| connection(n, i64::from(n) * MS, (MS, 2))));
    let lossy = |clock: i64| (0.0, if clock > 2 * SECOND { 500 } else { 0 });
    let query = "PARSE packet PROCESS (count: w=1s)";
    let (out, ended) = run(
        query,
        &JobConfig::default(),
        vec![scripted(&packets, 6 * SECOND, lossy)],
    );
    check_accounting(&ended, packets.len());
    let lost = |output: &EngineOutput| {
        let id = output.batch.schema().find("lost").expect("a column");
        output
            .batch
            .column(id)
            .is_some_and(|c| c.is_valid(0))
            .then(|| number(&output.batch, 0, "lost"))
    };
    let lost: Vec<_> = out.iter().map(lost).collect();
    // Losses detected at 2.25 s occurred since 2.0 s; 6,000 packets arrive per second.
    let expected = [None, None, Some(500.0 / 6500.0), None, None, None];
    assert_eq!(lost.len(), expected.len());
    for (lost, expected) in lost.iter().zip(expected) {
        assert_eq!(lost.is_some(), expected.is_some());
        assert!(
            (lost.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs() < 0.02,
            "{lost:?}, {expected:?}"
        );
    }
}

fn monitor(query: &str) -> Monitor {
    let query = query::check(query, &parsers::registry::schemas(), &()).expect("a sound query");
    Monitor::new(
        &planner::lower(&query).monitor,
        monitor::MonitorConfig::default(),
    )
}

fn give(monitor: &mut Monitor, packets: &[SentPacket]) {
    let bytes: Vec<Vec<u8>> = packets.iter().map(SentPacket::to_bytes).collect();
    let captured = packets
        .iter()
        .zip(&bytes)
        .map(|(sent, bytes)| sent.captured(bytes));
    let _ = monitor.on_block(captured, None, &mut Vec::new());
    assert!(monitor.accounting().adds_up());
}

#[test]
fn refused_flows_take_no_memory() {
    let mut monitor = monitor("PARSE http SAMPLE auto PROCESS (count)");
    monitor.set_sample_rate(RATE_MIN);
    for chunk in 0..100 {
        let flows = chunk * 1000..(chunk + 1) * 1000;
        give(
            &mut monitor,
            &in_order(flows.map(|n| connection(n, i64::from(n), (1, 2)))),
        );
    }
    let accounting = monitor.accounting();
    assert!((40..200).contains(&monitor.flows()), "{}", monitor.flows());
    assert_eq!(accounting.received, 600_000);
    assert_eq!(accounting.sampled_out, 600_000 - 6 * monitor.flows() as u64);
}

#[test]
fn reused_ports_are_sampled_anew() {
    let mut monitor = monitor("PARSE http SAMPLE auto PROCESS (count)");
    give(
        &mut monitor,
        &in_order((0..100).map(|n| connection(n, 0, (1, 1)))),
    );
    assert_eq!(
        (monitor.flows(), monitor.accounting().sampled_out),
        (100, 0)
    );
    monitor.set_sample_rate(RATE_MIN);
    // The same five-tuples again: no packet may be taken for a straggler of the earlier flows.
    let again = in_order((0..100).map(|n| {
        let mut sent = connection(n, SECOND, (1, 5));
        sent.iter_mut().for_each(|sent| {
            if let testkit::packet::TransportCarrier::Tcp(tcp) = &mut sent.carrier {
                tcp.seq.0 += 1_000_000;
                tcp.ack.0 += 1_000_000;
            }
        });
        sent
    }));
    give(&mut monitor, &again);
    let sampled_out = monitor.accounting().sampled_out;
    assert!(
        sampled_out >= 9 * 97 && sampled_out.is_multiple_of(9),
        "{sampled_out}"
    );
}

#[test]
fn a_worker_that_fails_ends_the_job_and_no_other_result_is_lost() {
    let packets = in_order((0..500).map(|n| connection(n, i64::from(n) * MS, (MS, 2))));
    let sound = scripted(&packets, 2 * SECOND, |_| (0.0, 0));
    let mut failing = sound.clone();
    failing.truncate(3);
    failing.push(Part {
        fails: true,
        ..failing[0].clone()
    });
    let query = "PARSE tcp_flow_key PROCESS (count)";
    let (out, ended) = run(
        query,
        &JobConfig::default(),
        vec![sound.clone(), failing, sound],
    );
    assert_eq!(ended.panics.len(), 1);
    assert!(ended.panics[0].contains("worker 1") && ended.panics[0].contains("the script says so"));
    assert!(ended.accounting.adds_up());
    // The other workers end at this point; the result includes what they had received.
    let of_flows = ended.accounting.flows.opened as f64;
    assert!(number(single(&out), 0, "count") >= of_flows);
}

/// Whichever worker reads when a shared source fails, the others do not wait for it.
#[test]
fn a_shared_source_that_fails_ends_the_job() {
    let packets = in_order((0..500).map(|n| connection(n, i64::from(n) * MS, (MS, 2))));
    let mut failing = scripted(&packets, 2 * SECOND, |_| (0.0, 0));
    let last = failing.len() - 1;
    failing[last].fails = true;
    let config = JobConfig::default();
    for workers in [2, 3, 8] {
        let source = source(TimestampClock::System, &config, failing.clone());
        let input = JobInput::Shared(source, workers);
        let (_, ended) = run_input("PARSE tcp_flow_key PROCESS (count)", &config, input);
        assert_eq!(ended.panics.len(), 1);
        assert!(ended.panics[0].contains("the script says so"));
        assert!(ended.accounting.adds_up());
    }
}

/// Windows, each with its count and its approximate mark.
fn marks(out: &[EngineOutput]) -> Vec<(u64, bool)> {
    let of = |output: &EngineOutput| {
        let id = |name| output.batch.schema().find(name).expect("a column");
        let counts = id("count");
        let marks = id("approximate");
        let row = |row| {
            (
                output.batch.u64(counts).value(row),
                output.batch.bool(marks).value(row),
            )
        };
        (0..output.batch.rows()).map(row).collect::<Vec<_>>()
    };
    out.iter().flat_map(of).collect()
}

#[test]
fn the_window_in_which_a_capture_begins_is_marked_by_the_clock_of_the_packets() {
    const HOUR: i64 = 3600 * SECOND;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("a time after 1970").as_nanos() as i64;
    // A second packet per window, so that the capture does not begin at a boundary.
    let middle = now.div_euclid(SECOND) * SECOND + SECOND / 2;
    let config = JobConfig {
        marks_begin: true,
        ..JobConfig::default()
    };
    for offset in [-HOUR, HOUR] {
        let packets: Vec<SentPacket> = (0..6)
            .map(|n| SentPacket {
                ts: Timestamp(middle + offset + n * SECOND / 2),
                ..connection(1, 0, (0, 0)).swap_remove(0)
            })
            .collect();
        // The first packet is read when it arrives, about when the capture begins.
        let part = |packets: &[SentPacket]| Part {
            packets: packets.to_vec(),
            clock: packets[packets.len() - 1].ts.0,
            backlog: 0.0,
            lost: 0,
            fails: false,
            slice: None,
        };
        let script = [part(&packets[..1]), part(&packets[1..])];
        for (clock, is_marked) in [
            (TimestampClock::Adapter, true),
            (TimestampClock::System, false),
        ] {
            let query = "PARSE packet PROCESS (count: w=1s)";
            let (out, _) = run_by(clock, query, &config, vec![script.to_vec()]);
            assert_eq!(
                marks(&out),
                [(1, is_marked), (2, false), (2, false), (1, false)],
                "{clock:?} {offset}"
            );
        }
    }
}
