//! The data path, from packets to tuples; `Monitor::on_batch` is its outline.
//!
//! `batch` divides packets into batches, `slow_path` handles packets off the fast path, `events` handles flow events,
//! `parse` passes stream data to parsers. Queries about single packets use a shorter path, in `packets`.
//!
//! A monitor runs to completion on one thread: no locks, no allocation per packet.

mod admission;
mod batch;
mod events;
mod packets;
mod parse;
mod setup;
mod slow_path;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrayvec::ArrayVec;
use flow::{Event, Events, FlowEvent, Table};
use parsers::flow_level::flow_record;
use parsers::{Proxied, Segment, Stream};
use plan::slice::share;
use wire::{Captured, Timestamp, Tunnel};

use self::batch::{Admitted, BATCH};
use self::parse::Input;
use self::setup::Asks;
pub use self::setup::Config;
use crate::Accounting;
use crate::address_filter::AddressFilter;
use crate::fragments::Whole;
use crate::gate::Gate;
use crate::limiter::Limiter;
use crate::networks::Networks;
use crate::outputs::{Application, Outputs, TakeTuples};
use crate::sample::Adaptive;
use crate::slice::SharedSlice;
use crate::taps::TapFilter;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More packets are welcome.
    Continue,
    /// LIMIT has been reached: nothing more will be taken.
    LimitReached,
}

/// Turns packets into tuple batches for one query.
pub struct Monitor {
    gate: Gate,
    addresses: AddressFilter,
    /// Whether other taps tell of flows; none where there are no others.
    taps: Option<TapFilter>,
    asks: Asks,
    table: Table<FlowState>,
    outputs: Outputs,
    limits: parsers::Limits,
    outstanding: parsers::pairing::Room,
    networks: Networks,
    /// The rate under SAMPLE auto.
    adaptive: Adaptive,
    /// The slice of flows that switches copy to us, where that may change.
    slice: Option<SharedSlice>,
    events: Events,
    /// Bytes that wait to be recognized, beyond what every flow may hold.
    awaited_bytes: usize,
    accounting: Accounting,
    /// How late it was when time last moved on: the same for all workers of a query that read one input.
    clock: Timestamp,
    /// The time of what is being worked on: the clock, or the packet's if that is later.
    now: Timestamp,
    /// Time of the flow's last packet before the one whose events are processed.
    last_packet_before: Option<Timestamp>,
    /// The latest packet.
    latest: Timestamp,
    /// The latest clock at the end of an epoch.
    watermark: Timestamp,
    /// The clock when the last epoch ended; unlike `watermark`, it follows backward steps.
    promised: Timestamp,
    /// Minimum lateness of the windows that take the tuples.
    lateness_ns: i64,
    /// Whether a flow may have more than one record.
    reports_again: bool,
    /// Set once the job is to end.
    stop: Arc<AtomicBool>,
}

/// What the monitor remembers of a flow: one cache line.
#[derive(Default)]
#[repr(align(64))]
struct FlowState {
    stream: Stream,
    /// The parser did not get the connection's first bytes.
    joined_midway: bool,
    /// What it speaks.
    application: Application,
    /// `tcp_conn_time` has told of the connection's end.
    ended: bool,
    /// And of its beginning.
    started: Option<Timestamp>,
    /// Once SAMPLE auto has changed the rate: that at which such flows are in; else 0.
    rate: f64,
    /// The level of the slice of which such flows are, or [`CUT_OFF`].
    level: u8,
    /// What few flows have, or few queries ask for.
    rare: Option<Box<Rare>>,
}

/// The level of a flow whose packets switches do not copy any more.
const CUT_OFF: u8 = u8::MAX;

impl FlowState {
    /// The share of such flows that is in, where it is not `otherwise`.
    #[inline]
    fn rate(&self, otherwise: f64) -> f64 {
        let own = if self.rate > 0.0 { self.rate } else { otherwise };
        if self.level == 0 { own } else { own * share(self.level) }
    }
}

/// What the monitor remembers of some flows.
#[derive(Default)]
struct Rare {
    /// Counts at the last record, for a flow that may have several records.
    reported: Option<flow_record::Counts>,
    /// The tunnel and the VLAN of its first packet.
    path: (Tunnel, Option<u16>),
    /// What the PROXY protocol header said that it begins with.
    proxied: Option<Proxied>,
}

const _: () = assert!(size_of::<FlowState>() == 64, "every packet with payload touches it");

/// Whether a flow is asked for, and this tap is the one to tell of it; kept as the table's mark, where every packet finds it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FlowVerdict {
    /// It depends on which end is the client, and that is not known yet.
    Open,
    In,
    /// FROM and TO ask for the other direction.
    Out,
    /// Another tap tells of it.
    Elsewhere,
}

impl Monitor {
    /// Works on packets, at whose end it is `clock`, or as late as the latest packet.
    pub fn on_block<'a>(
        &mut self,
        packets: impl Iterator<Item = Captured<'a>>,
        clock: Option<Timestamp>,
        out: &mut dyn TakeTuples,
    ) -> Progress {
        let progress = self.take(packets, out);
        self.advance(clock, out);
        progress
    }

    /// Works on packets; time stands still meanwhile. Tuples are added to `out` when enough have come together;
    /// [`Monitor::end_epoch`] hands over the rest.
    pub fn take<'a>(
        &mut self,
        packets: impl Iterator<Item = Captured<'a>>,
        out: &mut dyn TakeTuples,
    ) -> Progress {
        let progress = if self.asks.packets_only {
            self.on_packets(packets, out)
        } else {
            self.on_batches(packets, out)
        };
        self.flush_full(out);
        progress
    }

    /// The data path. The gate admits packets; the flow table takes each of them in and says what happened; what a side of its flow
    /// said goes to the flow's parser, which writes tuples. Gives how many packets of the batch it got to.
    #[inline]
    fn on_batch(&mut self, batch: &[Captured<'_>], events: &mut Events) -> (Progress, usize) {
        let mut admitted = ArrayVec::<Admitted, BATCH>::new();
        let (progress, n) = self.admit(batch, &mut admitted);
        self.prefetch(&mut admitted);
        let has_fast_path = !self.asks.packets && !self.adaptive.has_changed();
        for ready in &admitted {
            let captured = &batch[usize::from(ready.place)];
            let fast =
                if has_fast_path { self.table.process_fast(&ready.at, &ready.segment, events) } else { None };
            let Some(flow) = fast else {
                self.on_slow_path(captured, &ready.at, events);
                continue;
            };
            if self.asks.payload
                && let [Event { what: FlowEvent::Bytes { side, chunk, ts, place }, .. }] = *events.list()
            {
                self.now = self.clock.max(captured.ts);
                let bytes = events.bytes(chunk, &captured.bytes[ready.payload as usize..]);
                self.parse(flow, side, Input::Bytes(Segment { bytes, ts, place }));
            }
            self.leaves_out(flow);
        }
        (progress, n)
    }

    /// Time moves on, to `clock`, which may have been set back, or to the latest packet: what is not waited for any longer is given up, and idle flows
    /// leave. Results depend on when this is done, so it has to be done behind the same packets each time.
    pub fn advance(&mut self, clock: Option<Timestamp>, out: &mut dyn TakeTuples) {
        let clock = clock.unwrap_or(self.clock.max(self.latest));
        if clock < self.clock {
            // It was set back.
            self.latest = clock;
        }
        let given_up = self.gate.give_up(Some(clock));
        self.on_wholes(given_up);
        (self.clock, self.now) = (clock, clock);
        self.expire(out);
        self.adaptive.forget(clock);
        self.networks.forget(clock);
        self.heed_taps(out);
        self.heed_slice();
    }

    /// Ends an epoch: hands over all tuples written so far. From now on none is earlier than the clock.
    pub fn end_epoch(&mut self, out: &mut dyn TakeTuples) {
        self.flush(out);
        self.watermark = self.watermark.max(self.clock);
        self.promised = self.clock;
    }

    /// Ends every flow and hands over all tuples.
    pub fn finish(&mut self, out: &mut dyn TakeTuples) {
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
        self.flush(out);
    }

    /// Current time by the packets' clock; after a backward step, the time before it.
    #[must_use]
    pub fn clock(&self) -> Timestamp {
        self.clock.max(self.watermark)
    }

    /// Where every packet went.
    #[must_use]
    pub fn accounting(&self) -> Accounting {
        let (flows, fragments) = (*self.table.counters(), self.gate.fragments());
        let networks_overflowed = self.networks.overflowed();
        Accounting { flows, fragments, networks_overflowed, ..self.accounting.clone() }
    }

    /// Tuples are taken by windows that accept them for `lateness_ns` after their end.
    pub fn set_lateness(&mut self, lateness_ns: i64) {
        self.lateness_ns = lateness_ns;
    }

    /// Ends soon once `stop` is set.
    pub fn heed(&mut self, stop: Arc<AtomicBool>) {
        self.stop = stop;
    }

    /// What the packets so far seem to lack.
    #[must_use]
    pub fn capture_loss(&self) -> flow::CaptureLoss {
        self.table.counters().capture_loss()
    }

    /// LIMIT, as all workers share it.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        self.gate.limiter()
    }

    /// Whether the sampling rate may change: SAMPLE auto.
    #[must_use]
    pub fn adapts(&self) -> bool {
        self.asks.adapts
    }

    /// The share of new flows that is looked at.
    #[must_use]
    pub fn sample_rate(&self) -> f64 {
        if self.asks.adapts { self.adaptive.rate() } else { self.asks.rate }
    }

    /// From now on so large a share of new flows is looked at; those that are in stay in. For SAMPLE auto only.
    pub fn set_sample_rate(&mut self, rate: f64) {
        self.adaptive.set(self.clock, rate);
    }

    /// Level of the slice of flows that switches copy.
    #[must_use]
    pub fn slice_level(&self) -> u8 {
        self.adaptive.slice().level
    }

    /// How many flows are in the table.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.table.len()
    }

    /// Packets that were put together, and will not be any wholer.
    fn on_wholes(&mut self, wholes: Vec<Whole>) {
        for whole in &wholes {
            if self.asks.packets_only {
                self.on_whole_packet(whole)
            } else {
                self.on_whole_with_flow(whole)
            };
        }
    }

    /// Hands over the tuples when enough have come together.
    fn flush_full(&mut self, out: &mut dyn TakeTuples) {
        if self.outputs.any_full() {
            self.flush(out);
        }
    }

    fn flush(&mut self, out: &mut dyn TakeTuples) {
        self.accounting.tuples += self.outputs.flush(out);
    }

    /// Takes all idle flows out of the table; once the job is to end, no more than a few, as all will be closed.
    fn expire(&mut self, out: &mut dyn TakeTuples) {
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
