//! Cost of the flow table, for use under `perf stat`: `table_speed CAPTURE decode|life|segments|payload`. Reads,
//! decodes, and hashes every packet; from `life` on, passes them to a table as well. Prints the amount of data and a
//! hash of the output, which must not change when the table becomes faster.

use std::path::PathBuf;

use flow::{
    FastPathSegment, FlowEvent, FlowEvents, FlowTable, FlowTableConfig, HashedKey,
    IndexedFlowEvent, TrackingDetail,
};
use wire::{FlowSide, Packet, Timestamp};

#[global_allocator]
static ALLOCATOR: capture::HugePages = capture::HugePages;

/// Packets at a time.
const BATCH: usize = 64;

/// Output, as numbers.
#[derive(Default)]
struct Sum {
    packets: u64,
    closed: u64,
    bytes: u64,
    hash: u64,
}

impl Sum {
    fn add(&mut self, n: u64) {
        self.hash = (self.hash ^ n)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }

    fn on_events(&mut self, table: &FlowTable<u64>, events: &FlowEvents, payload: &[u8]) {
        for &IndexedFlowEvent { flow, what } in events.list() {
            match what {
                FlowEvent::Bytes { chunk, .. } => {
                    self.bytes += events.bytes(chunk, payload).len() as u64
                }
                FlowEvent::Closed { reason, ts } => {
                    let flow = table.flow(flow);
                    self.closed += 1;
                    self.add(reason as u64 ^ ts.0 as u64);
                    for side in [FlowSide::A, FlowSide::B] {
                        self.add(flow.packets(side));
                        self.add(flow.bytes(side) ^ flow.unique_bytes(side).rotate_left(32));
                    }
                    self.add(flow.conn_state() as u64 ^ flow.handshake_ns().unwrap_or(-1) as u64);
                }
                _ => (),
            }
        }
    }
}

fn main() {
    const USAGE: &str = "usage: table_speed CAPTURE decode|life|segments|payload";
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        return eprintln!("{USAGE}");
    };
    let Some(detail) = args.next() else {
        return eprintln!("{USAGE}");
    };
    let detail = match detail.as_str() {
        "decode" => None,
        "life" => Some(TrackingDetail::Life),
        "segments" => Some(TrackingDetail::Segments),
        _ => Some(TrackingDetail::Payload),
    };
    let config = FlowTableConfig {
        detail: detail.unwrap_or(TrackingDetail::Life),
        ..FlowTableConfig::default()
    };
    let sum = run(
        PathBuf::from(path),
        FlowTable::new(config),
        detail.is_some(),
    );
    println!(
        "packets {} closed {} bytes {} hash {:016x}",
        sum.packets, sum.closed, sum.bytes, sum.hash
    );
}

fn run(path: PathBuf, mut table: FlowTable<u64>, process: bool) -> Sum {
    let mut sum = Sum::default();
    let mut events = FlowEvents::default();
    let mut source = capture::open(&[path]);
    let mut block = capture::PacketBlock::default();
    let mut batch: Vec<(Packet<'_>, HashedKey)> = Vec::new();
    let mut clock = Timestamp::MIN;
    while source.next_block(&mut block) {
        let mut packets = block
            .packets()
            .filter_map(|captured| Packet::decode(&captured).ok())
            .peekable();
        let mut ready = std::mem::take(&mut batch);
        while packets.peek().is_some() {
            ready.clear();
            for packet in packets.by_ref().take(BATCH) {
                let at = table.hash(&packet);
                table.prefetch_index(&at, capture::prefetch);
                ready.push((packet, at));
            }
            if process {
                ready
                    .iter_mut()
                    .for_each(|(_, at)| table.prefetch_flow(at, capture::prefetch));
                let rest = |(packet, at): &(Packet<'_>, HashedKey)| {
                    table.prefetch_rest(at, &FastPathSegment::of(packet), capture::prefetch);
                };
                ready.iter().for_each(rest);
            }
            for (packet, at) in &ready {
                clock = clock.max(packet.ts);
                sum.packets += 1;
                if process {
                    table.process_hashed(packet, at, &mut events);
                    sum.on_events(&table, &events, packet.payload);
                } else {
                    sum.add(at.hash);
                }
            }
        }
        if process {
            table.expire(clock, &mut events);
            sum.on_events(&table, &events, &[]);
        }
        batch = emptied(ready);
    }
    while table.close_all(clock, &mut events) {
        sum.on_events(&table, &events, &[]);
    }
    sum.on_events(&table, &events, &[]);
    sum
}

/// The same memory for packets of another block.
fn emptied<'b>(mut batch: Vec<(Packet<'_>, HashedKey)>) -> Vec<(Packet<'b>, HashedKey)> {
    batch.clear();
    batch
        .into_iter()
        .map(|_| unreachable!("the batch is empty"))
        .collect()
}
