//! The data path, from packets to tuples; `Monitor::on_batch` is its outline.
//!
//! `batch` divides packets into batches, `slow_path` handles packets off the fast path, `events` handles flow events,
//! `parse` passes stream data to parsers. Queries about single packets use a shorter path, in `packets`.
//!
//! A monitor runs to completion on one thread: no locks, no allocation per packet.

mod admission;
mod batch;
mod events;
mod exported;
mod packets;
mod parse;
mod setup;
mod slow_path;
mod tls_stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrayvec::ArrayVec;
use flow::{FastPathSegment, FlowEvents, FlowIdx, FlowTable, HashedKey};
use parsers::flow_level::flow_record;
use parsers::tls_decrypt::TlsKeyStore;
use parsers::{
    FlowProtocol, ProbeBuffer, ProxiedEndpoints, StreamEnd, StreamGap, StreamSegment, TlsNames,
};
use plan::slice::share;
use wire::{CapturedPacket, Timestamp, Tunnel};

use crate::PacketAccounting;
use crate::address_filter::AddressFilter;
use crate::exports::ExportReader;
use crate::fragments::ReassembledPacket;
use crate::gate::Gate;
use crate::limiter::Limiter;
use crate::sample::AdaptiveSampler;
use crate::silences::SilenceQueue;
use crate::slice::SharedSlice;
use crate::taps::TapFilter;
use crate::tuple_outputs::{FlowApplication, TupleConsumer, TupleOutputs};
use crate::virtual_networks::VirtualNetworks;
pub use setup::MonitorConfig;

/// Whether to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchProgress {
    /// More packets may follow.
    Continue,
    /// LIMIT is reached: no more packets are processed.
    LimitReached,
}

/// Turns packets into tuple batches for one query.
pub struct Monitor {
    gate: Gate,
    addresses: AddressFilter,
    /// Selects the tap that reports a flow; `None` if there is only one tap.
    taps: Option<TapFilter>,
    asks: MonitorNeeds,
    /// Reads export messages instead of flows.
    exports: Option<Box<ExportReader>>,
    table: FlowTable<FlowState>,
    outputs: TupleOutputs,
    limits: parsers::ParserLimits,
    outstanding: parsers::pairing::OutstandingBudget,
    names: parsers::SharedNames,
    networks: VirtualNetworks,
    /// State of SAMPLE auto.
    adaptive: AdaptiveSampler,
    /// The slice of flows that switches copy; `None` if it never changes.
    slice: Option<SharedSlice>,
    /// Keys of TLS connections to decrypt.
    keys: Option<Arc<TlsKeyStore>>,
    /// Whether a stream of a decrypted connection is being parsed: its plaintext, or its records.
    is_inside_tls: bool,
    events: FlowEvents,
    /// Bytes held for protocol recognition beyond the limit of each flow.
    awaited_bytes: usize,
    /// Parsers that wait for silence.
    silences: SilenceQueue,
    accounting: PacketAccounting,
    /// Event time of the last [`Monitor::advance`]; equal for all workers that share an input.
    clock: Timestamp,
    /// Time of the current operation: the clock, or the packet's timestamp if later.
    now: Timestamp,
    /// The flow whose packet caused the events being processed, and the time of its last packet before.
    last_packet_before: Option<(FlowIdx, Timestamp)>,
    /// Timestamp of the latest packet.
    latest: Timestamp,
    /// The latest clock at the end of an epoch.
    watermark: Timestamp,
    /// Start of the windows that are still open; unlike `watermark`, it follows backward steps of the clock.
    open_from: Timestamp,
    /// Minimum lateness of the windows that take the tuples.
    lateness_ns: i64,
    /// Whether a flow may have several records.
    reports_again: bool,
    /// Set to stop the job.
    stop: Arc<AtomicBool>,
}

/// Requirements of a plan, computed once.
#[derive(Clone, Copy)]
struct MonitorNeeds {
    /// Packet headers only; no flow lookup.
    packets_only: bool,
    packets: bool,
    connections: bool,
    payload: bool,
    /// Every flow is reported: FROM, TO and taps exclude none.
    every_flow: bool,
    /// Endpoint columns in packet and flow tuples.
    identity: bool,
    /// Counting columns in flow records.
    counts: bool,
    /// Connection state columns in flow records.
    life: bool,
    /// Tunnel or VLAN columns.
    path: bool,
    /// PROXY protocol columns.
    proxied: bool,
    /// Columns of decrypted connections.
    decrypted: bool,
    /// The sampling rate may change (SAMPLE auto).
    adapts: bool,
    /// Fixed sampling rate.
    rate: f64,
}

/// Per-flow state of the monitor: one cache line.
#[derive(Default)]
#[repr(align(64))]
struct FlowState {
    stream: FlowProtocol,
    /// Whether the parser missed the start of the connection.
    joined_midway: bool,
    /// Application protocol.
    application: FlowApplication,
    /// Whether `tcp_conn_time` has reported the end of the connection.
    ended: bool,
    /// Time of the connection's start, if `tcp_conn_time` has reported it.
    started: Option<Timestamp>,
    /// Sampling rate of the flow after a change by SAMPLE auto; 0 before any change.
    rate: f64,
    /// Slice level of the flow, or [`CUT_OFF`].
    level: u8,
    /// State that few flows have or few queries need.
    rare: Option<Box<RareFlowState>>,
}

/// Level of a flow outside the slice that switches copy.
const CUT_OFF: u8 = u8::MAX;

impl FlowState {
    /// Selection probability of the flow; `otherwise` is the rate without SAMPLE auto.
    #[inline]
    fn rate(&self, otherwise: f64) -> f64 {
        let own = if self.rate > 0.0 {
            self.rate
        } else {
            otherwise
        };
        if self.level == 0 {
            own
        } else {
            self.share_of(own)
        }
    }

    #[cold]
    fn share_of(&self, rate: f64) -> f64 {
        rate * share(self.level)
    }
}

/// Less frequent per-flow state.
#[derive(Default)]
struct RareFlowState {
    /// Counts at the last record, for a flow that may have several records.
    reported: Option<flow_record::FlowCounts>,
    /// Tunnel and VLAN of its first packet.
    path: (Tunnel, Option<u16>),
    /// Contents of the PROXY protocol header at its start.
    proxied: Option<ProxiedEndpoints>,
    /// Names of its TLS connection, if it is decrypted.
    decrypted: Option<Arc<TlsNames>>,
}

const _: () = assert!(
    size_of::<FlowState>() == 64,
    "every packet with payload touches it"
);

/// Whether a flow matches the query and this tap reports it; stored as the mark in the flow table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FlowVerdict {
    /// Undecided until the client is known.
    Open,
    In,
    /// FROM and TO select the reverse direction.
    Out,
    /// Another tap reports the flow.
    Elsewhere,
}

/// Packets per batch: enough to hide a cache miss, few enough to stay in the L1 cache.
const BATCH: usize = 64;

/// An admitted packet, prepared by any thread. Packets off the fast path are decoded again, which costs less than storing
/// the first result.
#[derive(Clone, Copy)]
pub(crate) struct PreparedPacket {
    /// Position of its flow in the table.
    at: HashedKey,
    /// Header fields for the fast path.
    segment: FastPathSegment,
    /// Offset of the payload in the packet.
    payload: u32,
    /// Whether the packet came through a tunnel: only the flow's worker can determine the virtual network.
    is_tunneled: bool,
}

/// An admitted packet of a batch.
struct AdmittedPacket {
    /// Position of its flow in the table.
    at: HashedKey,
    /// Header fields for the fast path.
    segment: FastPathSegment,
    /// Index in the batch.
    place: u8,
    /// Offset of the payload in the packet.
    payload: u32,
}

/// Input of a parser.
enum ParserEvent<'a> {
    Bytes(StreamSegment<'a>),
    /// A datagram, and the number of bytes cut from it.
    Datagram(StreamSegment<'a>, u32),
    Gap(StreamGap),
    /// End of one direction.
    End(StreamEnd),
    /// The flow has ended, at this time.
    Close(Timestamp),
    /// The flow is idle, since this time, and may continue.
    Rest(Timestamp),
    /// The time that the parser asked for has come.
    Silence(Timestamp),
    /// Bytes held from before the protocol was recognized.
    Earlier(Box<ProbeBuffer>),
}

impl Monitor {
    /// Processes packets, then advances time to `clock`, or to the latest packet if `None`.
    pub fn on_block<'a>(
        &mut self,
        packets: impl Iterator<Item = CapturedPacket<'a>>,
        clock: Option<Timestamp>,
        out: &mut dyn TupleConsumer,
    ) -> BatchProgress {
        let progress = self.take(packets, out);
        self.advance(clock, out);
        progress
    }

    /// Processes packets without advancing time. Full batches of tuples go to `out`; [`Monitor::end_epoch`]
    /// emits the rest.
    pub fn take<'a>(
        &mut self,
        packets: impl Iterator<Item = CapturedPacket<'a>>,
        out: &mut dyn TupleConsumer,
    ) -> BatchProgress {
        let progress = if self.exports.is_some() {
            self.on_exports(packets, out)
        } else if self.asks.packets_only {
            self.on_packets(packets, out)
        } else {
            self.on_batches(packets, out)
        };
        self.flush_full(out);
        progress
    }

    /// Like [`Monitor::take`], for packets that other threads have admitted and prepared.
    pub(crate) fn take_prepared<'a>(
        &mut self,
        packets: impl Iterator<Item = (CapturedPacket<'a>, PreparedPacket)>,
        out: &mut dyn TupleConsumer,
    ) -> BatchProgress {
        if self.exports.is_some() || self.asks.packets_only {
            return self.take(packets.map(|(captured, _)| captured), out);
        }
        self.on_prepared(packets, out);
        BatchProgress::Continue
    }

    /// The data path. The gate admits packets, the flow table adds each to its flow and returns events, and
    /// stream data goes to the flow's parser, which writes tuples. Returns the number of packets of the batch
    /// processed.
    #[inline]
    fn on_batch(
        &mut self,
        batch: &[CapturedPacket<'_>],
        events: &mut FlowEvents,
    ) -> (BatchProgress, usize) {
        let mut admitted = ArrayVec::<AdmittedPacket, BATCH>::new();
        let (progress, n) = self.admit(batch, &mut admitted);
        self.on_admitted(batch, &mut admitted, events);
        (progress, n)
    }

    /// Processes the admitted packets of a batch.
    #[inline]
    fn on_admitted(
        &mut self,
        batch: &[CapturedPacket<'_>],
        admitted: &mut ArrayVec<AdmittedPacket, BATCH>,
        events: &mut FlowEvents,
    ) {
        self.prefetch(admitted);
        let has_fast_path =
            !self.asks.packets && !self.adaptive.has_changed() && !self.table.verifies_checksums();
        for ready in admitted.iter() {
            let captured = &batch[usize::from(ready.place)];
            let taken = if has_fast_path {
                self.table.process_fast(&ready.at, &ready.segment)
            } else {
                None
            };
            let Some(taken) = taken else {
                self.on_slow_path(captured, &ready.at, events);
                continue;
            };
            if let Some(place) = taken.bytes {
                self.now = self.clock.max(captured.ts);
                let payload = &captured.bytes[ready.payload as usize..];
                let segment = StreamSegment {
                    bytes: &payload[..ready.segment.payload_len()],
                    ts: captured.ts,
                    place,
                };
                self.parse_bytes(taken.flow, ready.at.side, segment);
            }
            self.leaves_out(taken.flow);
        }
    }

    /// Advances time to `clock`, which may be earlier after a backward step, or to the latest packet: pending
    /// data times out and idle flows expire. Results depend on the position of this call in the packet
    /// sequence, so it must be the same in every run.
    pub fn advance(&mut self, clock: Option<Timestamp>, out: &mut dyn TupleConsumer) {
        let clock = clock.unwrap_or(self.clock.max(self.latest));
        if clock < self.clock {
            // The clock was set back.
            self.latest = clock;
        }
        let given_up = self.gate.give_up(Some(clock));
        self.on_wholes(given_up);
        self.clock = clock;
        self.now = clock;
        self.call_silent();
        self.expire(out);
        self.adaptive.forget(clock);
        self.networks.forget(clock);
        self.heed_taps(out);
        self.heed_slice();
        if let Some(exports) = &mut self.exports {
            exports.report(clock, false);
        }
    }

    /// Ends an epoch: emits all tuples written so far and advances the watermark.
    pub fn end_epoch(&mut self, out: &mut dyn TupleConsumer) {
        self.flush(out);
        self.gate.flush_kept();
        self.watermark = self.watermark.max(self.clock);
        self.open_from = self.clock.plus(-self.lateness_ns);
    }

    /// Closes every flow and emits all tuples.
    pub fn finish(&mut self, out: &mut dyn TupleConsumer) {
        let given_up = self.gate.give_up(None);
        self.on_wholes(given_up);
        self.advance(None, out);
        let mut events = std::mem::take(&mut self.events);
        loop {
            let more = self.table.close_all(self.clock, &mut events);
            self.on_events(&events, &[], None);
            self.flush_full(out);
            if !more {
                break;
            }
        }
        self.events = events;
        if let Some(exports) = &mut self.exports {
            exports.report(self.clock, true);
        }
        self.flush(out);
    }

    /// Current event time; after a backward step, the time before it.
    #[must_use]
    pub fn clock(&self) -> Timestamp {
        self.clock.max(self.watermark)
    }

    /// Packet counts.
    #[must_use]
    pub fn accounting(&self) -> PacketAccounting {
        let flows = *self.table.counters();
        let fragments = self.gate.fragments();
        let networks_overflowed = self.networks.overflowed();
        let exports = self.exports.as_deref().map(ExportReader::accounting);
        let mut tls = self.accounting.tls.clone();
        tls.keys_evicted = self.keys.as_ref().map_or(0, |keys| keys.counters().evicted);
        PacketAccounting {
            flows,
            fragments,
            networks_overflowed,
            tls,
            exports: exports.cloned().unwrap_or_default(),
            ..self.accounting.clone()
        }
    }

    /// Windows accept tuples for `lateness_ns` after their end.
    pub fn set_lateness(&mut self, lateness_ns: i64) {
        self.lateness_ns = lateness_ns;
    }

    /// Sets the flag that stops processing early.
    pub fn heed(&mut self, stop: Arc<AtomicBool>) {
        self.stop = stop;
    }

    /// Bytes missing from the capture so far.
    #[must_use]
    pub fn capture_loss(&self) -> flow::CaptureLoss {
        match &self.exports {
            Some(exports) => exports.loss(),
            None => self.table.counters().capture_loss(),
        }
    }

    /// LIMIT, shared by all workers.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        self.gate.limiter()
    }

    /// Whether the sampling rate may change (SAMPLE auto).
    #[must_use]
    pub fn adapts(&self) -> bool {
        self.asks.adapts
    }

    /// Current sampling rate for new flows.
    #[must_use]
    pub fn sample_rate(&self) -> f64 {
        if self.asks.adapts {
            self.adaptive.rate()
        } else {
            self.asks.rate
        }
    }

    /// Sets the sampling rate for new flows; selected flows stay selected. Only for SAMPLE auto.
    pub fn set_sample_rate(&mut self, rate: f64) {
        self.adaptive.set(self.clock, rate);
    }

    /// Level of the slice of flows that switches copy.
    #[must_use]
    pub fn slice_level(&self) -> u8 {
        self.adaptive.slice().level
    }

    /// Number of flows in the table.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.table.len()
    }

    /// Processes datagrams abandoned by the reassembly.
    fn on_wholes(&mut self, wholes: Vec<ReassembledPacket>) {
        for whole in &wholes {
            if self.exports.is_some() {
                self.on_whole_export(whole)
            } else if self.asks.packets_only {
                self.on_whole_packet(whole)
            } else {
                self.on_whole_with_flow(whole)
            };
        }
    }

    /// Emits all tuples if any writer is full.
    fn flush_full(&mut self, out: &mut dyn TupleConsumer) {
        if self.outputs.any_full() {
            self.flush(out);
        }
    }

    fn flush(&mut self, out: &mut dyn TupleConsumer) {
        self.accounting.tuples += self.outputs.flush(out);
    }

    /// Expires idle flows; only a few if the job is stopping, because all flows are closed then.
    fn expire(&mut self, out: &mut dyn TupleConsumer) {
        let mut events = std::mem::take(&mut self.events);
        while self.table.make_room(self.clock, &mut events) || !events.list().is_empty() {
            self.on_events(&events, &[], None);
            self.flush_full(out);
        }
        loop {
            let more = self.table.expire(self.clock, &mut events);
            self.on_events(&events, &[], None);
            self.flush_full(out);
            if !more || self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        self.events = events;
    }
}
