//! Live packets from a DPDK port: polled from the adapter, or from one of DPDK's virtual devices, without the kernel.
//! Each source has complete flows: an adapter distributes them by a symmetric hash that is configured here; if a
//! device has none, one source reads all its queues. Time is that of the wall clock when a batch was read, or the
//! device's own timestamps if they are a time of day and requested.
//!
//! DPDK starts once per process and cannot be stopped, so there is one capture. An input has no end: a source ends
//! when it is stopped. A waiting source polls continuously; without packets for a while it sleeps for some
//! microseconds in between.

pub(crate) mod error;

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tracing::{info, warn};
use wire::{LinkType, Timestamp};

use crate::block::{PacketBlock, PacketRecord};
use crate::live::options::{LiveOptions, StopSignal, TimestampClock};
use crate::source::{PacketSource, SourceCounters, SourceError};
use crate::sys::dpdk::{
    DpdkPort, DpdkQueue, MbufBatch, ReceivedMbuf, ports, register_thread, start,
};
pub use error::DpdkError;

/// Opens at most `options.workers` sources of the port given by `options.interface`, by name or number.
pub(crate) fn open(options: &LiveOptions) -> Result<Vec<Box<dyn PacketSource>>, DpdkError> {
    start(&options.dpdk_args).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => DpdkError::AlreadyStarted,
        _ => DpdkError::Start(error),
    })?;
    let (id, name) = find(&options.interface)?;
    let workers = options.workers.clamp(1, usize::from(u16::MAX)) as u16;
    let port =
        DpdkPort::start(id, workers, n_mbufs(options), options.promiscuous).map_err(|error| {
            match error.kind() {
                io::ErrorKind::OutOfMemory => DpdkError::NoMemory(name.clone()),
                _ => DpdkError::Port {
                    name: name.clone(),
                    error,
                },
            }
        })?;
    tell(&name, &port);
    let n_sources = if port.started().whole_flows {
        usize::from(port.started().queues)
    } else {
        1
    };
    let port = Arc::new(port);
    let mut sources: Vec<DpdkSource> = (0..n_sources)
        .map(|i| DpdkSource::new(options, port.clone(), i == 0))
        .collect();
    for (i, queue) in DpdkQueue::all(&port).into_iter().enumerate() {
        sources[i % n_sources].queues.push(queue);
    }
    Ok(sources
        .into_iter()
        .map(|source| Box::new(source) as Box<dyn PacketSource>)
        .collect())
}

/// Port with this name or number.
fn find(name: &str) -> Result<(u16, String), DpdkError> {
    let all = ports();
    match all
        .iter()
        .find(|(id, port)| port == name || name == id.to_string())
    {
        Some(found) => Ok(found.clone()),
        None => Err(DpdkError::NoSuchPort {
            name: name.to_owned(),
            available: all
                .into_iter()
                .map(|(id, name)| format!("{name} ({id})"))
                .collect(),
        }),
    }
}

/// Buffers per source, besides those held by the adapter.
fn n_mbufs(options: &LiveOptions) -> u32 {
    /// Size of a packet buffer with DPDK's metadata.
    const MBUF_BYTES: usize = 2176 + 128 + 64;
    (options.buffer_bytes / MBUF_BYTES).clamp(4096, 1 << 19) as u32
}

fn tell(name: &str, port: &DpdkPort) {
    let started = port.started();
    let link = match (started.link_up, started.speed_mbps) {
        (false, _) => "link down".to_owned(),
        (true, 1..=4_000_000) => format!("link up, {} Mb/s", started.speed_mbps),
        (true, _) => "link up".to_owned(),
    };
    info!(
        "DPDK port {name} ({}): {link}, {} queues",
        started.driver(),
        started.queues
    );
    if !started.link_up {
        warn!("DPDK port {name}: the link is down; packets arrive when it is up");
    }
}

/// Packets of several queues of a port.
struct DpdkSource {
    queues: Vec<DpdkQueue>,
    /// Queue to read next.
    turn: usize,
    port: Arc<DpdkPort>,
    /// Whether this source reports the adapter's drops, which all sources share.
    reports: bool,
    snaplen: u32,
    stop: StopSignal,
    /// After a stop: maximum number of packets that may have arrived before it.
    left: Option<usize>,
    registered: bool,
    received: Vec<ReceivedMbuf>,
    counters: SourceCounters,
}

/// Maximum packets in a queue, and thus of places requested.
const QUEUE_PACKETS: usize = 4096;
/// Interval at which the time is reported without packets.
const IDLE: Duration = Duration::from_millis(100);
/// Number of empty polls before a pause.
const SPINS: u32 = 2000;
/// Pause between polls; short compared with the time in which an adapter's queue fills.
const REST: Duration = Duration::from_micros(20);

impl DpdkSource {
    fn new(options: &LiveOptions, port: Arc<DpdkPort>, reports: bool) -> DpdkSource {
        DpdkSource {
            queues: Vec::new(),
            turn: 0,
            port,
            reports,
            snaplen: options.snaplen,
            stop: options.stop.clone(),
            left: None,
            registered: false,
            received: Vec::new(),
            counters: SourceCounters {
                clock: Some(options.clock),
                ..SourceCounters::default()
            },
        }
    }

    /// Reads packets of the next queue that has some.
    fn receive(&mut self, block: &mut PacketBlock) -> bool {
        for _ in 0..self.queues.len() {
            self.turn = (self.turn + 1) % self.queues.len();
            self.received.clear();
            if let Some(mbufs) = self.queues[self.turn].receive(&mut self.received) {
                self.give(mbufs, block);
                return true;
            }
        }
        false
    }

    /// Reads packets that arrived before the stop: at most the capacity of the queues.
    fn rest(&mut self, block: &mut PacketBlock) -> bool {
        let held = self.queues.len() * QUEUE_PACKETS;
        let left = *self.left.get_or_insert(held);
        if left == 0 || !self.receive(block) {
            return false;
        }
        self.left = Some(left.saturating_sub(block.len()));
        true
    }

    fn give(&mut self, mbufs: MbufBatch, block: &mut PacketBlock) {
        let now = now();
        let mbufs = Arc::new(mbufs);
        let buffer = block.add_buffer(mbufs.clone());
        for (at, received) in self.received.iter().enumerate() {
            let len = received.len.min(self.snaplen);
            // Several segments, or memory outside the pool, as some virtual devices have.
            let (start, buffer) = match received.start {
                Some(start) => (start, buffer),
                None => (0, block.add_buffer(Arc::new(mbufs.copy(at, len)))),
            };
            let ts = match self.counters.clock {
                Some(TimestampClock::Adapter) => self.stamp(received).unwrap_or_else(|| {
                    self.counters.unstamped_packets += 1;
                    now
                }),
                _ => now,
            };
            let link_type = LinkType::Ethernet;
            block.push(PacketRecord {
                ts,
                link_type,
                original_len: received.len,
                len,
                start,
                buffer,
            });
        }
        if self.counters.clock != Some(TimestampClock::Adapter) {
            block.set_clock(now);
        }
        self.counters.count(block);
    }

    /// The device's timestamp, if the device reports a time of day; many adapters count from power-on.
    fn stamp(&self, received: &ReceivedMbuf) -> Option<Timestamp> {
        /// September 2001: no adapter has been running since then.
        const EARLIEST_NS: i64 = 1_000_000_000_000_000_000;
        match (received.stamp, self.port.started().stamps_in_us) {
            (0, _) => None,
            (us, true) => i64::try_from(us).ok()?.checked_mul(1000).map(Timestamp),
            (ns, false) => i64::try_from(ns)
                .ok()
                .filter(|&ns| ns >= EARLIEST_NS)
                .map(Timestamp),
        }
    }
}

impl PacketSource for DpdkSource {
    fn next_block(&mut self, block: &mut PacketBlock) -> bool {
        if !self.registered {
            self.registered = true;
            register_thread();
        }
        block.clear();
        if self.stop.is_asked() {
            return self.rest(block);
        }
        if self.receive(block) {
            return true;
        }
        let began = Instant::now();
        let mut spins = 0u32;
        while !self.stop.is_asked() && began.elapsed() < IDLE {
            if self.receive(block) {
                return true;
            }
            spins = spins.saturating_add(1);
            if spins > SPINS {
                thread::sleep(REST);
            } else {
                std::hint::spin_loop();
            }
        }
        if self.counters.clock != Some(TimestampClock::Adapter) {
            block.set_clock(now());
        }
        true
    }

    fn errors(&self) -> &[SourceError] {
        &[]
    }

    fn counters(&self) -> SourceCounters {
        let nic_drops = if self.reports {
            self.port.drops()
        } else {
            None
        };
        SourceCounters {
            lost_before_us: Some(0),
            nic_drops,
            ..self.counters
        }
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (self.counters.captured_bytes, None)
    }
}

/// The wall clock.
fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mbufs_within_bounds() {
        let n = |buffer_bytes| {
            n_mbufs(&LiveOptions {
                buffer_bytes,
                ..LiveOptions::new("0")
            })
        };
        assert_eq!([n(0), n(32 << 20), n(usize::MAX)], [4096, 14169, 1 << 19]);
    }
}
