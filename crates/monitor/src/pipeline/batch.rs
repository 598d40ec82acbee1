//! Divides packets into batches and prepares each batch: admits its packets, unless another thread has done so, and
//! prefetches the memory of their flows.

use arrayvec::ArrayVec;
use flow::{FastPathSegment, FlowEvents, FlowTable, HashedKey};
use parsers::FlowProtocol;
use wire::{CapturedPacket, Packet, PacketConsumer};

use super::{AdmittedPacket, BATCH, BatchProgress, FlowState, Monitor, PreparedPacket};
use crate::fragments::ReassembledPacket;
use crate::gate::GateVerdict;
use crate::tuple_outputs::TupleConsumer;
use crate::virtual_networks::VirtualNetworks;

/// Cache lines of a parser to prefetch.
const PARSER_LINES: usize = 8;
/// Flows whose records and parsers stay in a core's cache: prefetching them would cost more than it saves.
const CACHED_FLOWS: usize = 512;

impl Monitor {
    /// Processes packets that need flows, in batches.
    pub(super) fn on_batches<'a>(
        &mut self,
        mut packets: impl Iterator<Item = CapturedPacket<'a>>,
        out: &mut dyn TupleConsumer,
    ) -> BatchProgress {
        let mut events = std::mem::take(&mut self.events);
        let mut progress = BatchProgress::Continue;
        let mut batch = ArrayVec::<CapturedPacket<'a>, BATCH>::new();
        while progress == BatchProgress::Continue {
            batch.clear();
            batch.extend(packets.by_ref().take(BATCH));
            if batch.is_empty() {
                break;
            }
            progress = self.on_whole_batch(&batch, &mut events);
            self.flush_full(out);
        }
        self.events = events;
        progress
    }

    /// Processes prepared packets, in batches.
    pub(super) fn on_prepared<'a>(
        &mut self,
        mut packets: impl Iterator<Item = (CapturedPacket<'a>, PreparedPacket)>,
        out: &mut dyn TupleConsumer,
    ) {
        let mut events = std::mem::take(&mut self.events);
        let mut batch = ArrayVec::<CapturedPacket<'a>, BATCH>::new();
        let mut admitted = ArrayVec::<AdmittedPacket, BATCH>::new();
        loop {
            batch.clear();
            admitted.clear();
            for (captured, prepared) in packets.by_ref().take(BATCH) {
                self.latest = self.latest.max(captured.ts);
                self.admit_prepared(&captured, &prepared, batch.len(), &mut admitted);
                batch.push(captured);
            }
            if batch.is_empty() {
                break;
            }
            self.on_admitted(&batch, &mut admitted, &mut events);
            self.flush_full(out);
        }
        self.events = events;
    }

    #[inline(always)]
    fn admit_prepared(
        &mut self,
        captured: &CapturedPacket<'_>,
        prepared: &PreparedPacket,
        place: usize,
        admitted: &mut ArrayVec<AdmittedPacket, BATCH>,
    ) {
        let table = &self.table;
        let place = place as u8;
        let &PreparedPacket {
            at,
            segment,
            payload,
            is_tunneled,
        } = prepared;
        if is_tunneled {
            let networks = &mut self.networks;
            let mut enter = FlowPrefetcher {
                table,
                networks,
                place,
                admitted,
            };
            self.gate.admit(captured, &mut self.accounting, &mut enter);
            return;
        }
        table.prefetch_index(&at, capture::prefetch);
        admitted.push(AdmittedPacket {
            at,
            segment,
            place,
            payload,
        });
    }

    /// Processes a reassembled packet, and the datagram it completes if it is a fragment itself.
    pub(super) fn on_whole_with_flow(&mut self, whole: &ReassembledPacket) -> BatchProgress {
        let mut events = std::mem::take(&mut self.events);
        let progress = self.on_whole(whole, &mut events);
        self.events = events;
        progress
    }

    /// Processes a batch; a datagram completed by a packet is processed before the next packet.
    #[inline]
    fn on_whole_batch(
        &mut self,
        mut batch: &[CapturedPacket<'_>],
        events: &mut FlowEvents,
    ) -> BatchProgress {
        loop {
            let (progress, n) = self.on_batch(batch, events);
            batch = &batch[n..];
            if progress == BatchProgress::LimitReached || batch.is_empty() && !self.gate.has_whole()
            {
                return progress;
            }
            if self.complete(events) == BatchProgress::LimitReached {
                return BatchProgress::LimitReached;
            }
        }
    }

    /// Processes the datagram completed by the last packet.
    #[cold]
    fn complete(&mut self, events: &mut FlowEvents) -> BatchProgress {
        self.gate
            .take_whole()
            .map_or(BatchProgress::Continue, |whole| {
                self.on_whole(&whole, events)
            })
    }

    fn on_whole(&mut self, whole: &ReassembledPacket, events: &mut FlowEvents) -> BatchProgress {
        let mut admitted = ArrayVec::<AdmittedPacket, BATCH>::new();
        let table = &self.table;
        let networks = &mut self.networks;
        let mut enter = FlowPrefetcher {
            table,
            networks,
            place: 0,
            admitted: &mut admitted,
        };
        let verdict = self
            .gate
            .admit_whole(whole, &mut self.accounting, &mut enter);
        for ready in &admitted {
            self.accounting.received += 1;
            self.accounting.parsed += 1;
            self.on_slow_path(&whole.captured(), &ready.at, events);
        }
        if verdict == GateVerdict::Over {
            BatchProgress::LimitReached
        } else {
            self.complete(events)
        }
    }

    /// Prefetches the flows of admitted packets and counts the packets.
    #[inline]
    pub(super) fn prefetch(&mut self, admitted: &mut ArrayVec<AdmittedPacket, BATCH>) {
        for ready in admitted.iter_mut() {
            self.table.prefetch_flow(&mut ready.at, capture::prefetch);
        }
        if self.table.len() > CACHED_FLOWS {
            self.prefetch_states(admitted);
        }
        self.accounting.received += admitted.len() as u64;
        self.accounting.parsed += admitted.len() as u64;
    }

    /// Prefetches what the packets need of their flows besides the hot records.
    #[inline]
    fn prefetch_states(&self, admitted: &[AdmittedPacket]) {
        for ready in admitted {
            self.table
                .prefetch_rest(&ready.at, &ready.segment, capture::prefetch);
            if self.asks.payload
                && let Some(state) = self.table.state_of(&ready.at)
            {
                capture::prefetch(std::ptr::from_ref(state).cast());
            }
        }
        if !self.asks.payload {
            return;
        }
        for state in admitted
            .iter()
            .filter_map(|ready| self.table.state_of(&ready.at))
        {
            if let FlowProtocol::Parsing { parser, .. } = &state.stream {
                // The first lines hold the fields that every message uses.
                let lines = size_of_val(parser.as_ref()).div_ceil(64).min(PARSER_LINES);
                let parser: *const u8 = std::ptr::from_ref(parser.as_ref()).cast();
                (0..lines).for_each(|line| capture::prefetch(parser.wrapping_add(64 * line)));
            }
        }
    }

    /// Admits packets of a batch and prefetches their flows. Also returns the number examined, up to and
    /// including one that completes a datagram.
    #[inline]
    pub(super) fn admit(
        &mut self,
        batch: &[CapturedPacket<'_>],
        admitted: &mut ArrayVec<AdmittedPacket, BATCH>,
    ) -> (BatchProgress, usize) {
        for (place, captured) in batch.iter().enumerate() {
            let table = &self.table;
            let networks = &mut self.networks;
            let mut enter = FlowPrefetcher {
                table,
                networks,
                place: place as u8,
                admitted,
            };
            let verdict = self.gate.admit(captured, &mut self.accounting, &mut enter);
            if verdict == GateVerdict::Over {
                return (BatchProgress::LimitReached, place);
            }
            self.latest = self.latest.max(captured.ts);
            if verdict == GateVerdict::Completed {
                return (BatchProgress::Continue, place + 1);
            }
        }
        (BatchProgress::Continue, batch.len())
    }
}

/// Records the flow position of an admitted packet.
struct FlowPrefetcher<'m> {
    table: &'m FlowTable<FlowState>,
    networks: &'m mut VirtualNetworks,
    place: u8,
    admitted: &'m mut ArrayVec<AdmittedPacket, BATCH>,
}

impl<'a> PacketConsumer<'a> for FlowPrefetcher<'_> {
    #[inline(always)]
    fn packet(&mut self, captured: &CapturedPacket<'a>, packet: &Packet<'a>) {
        let at = self.table.hash_in(packet, self.networks.of(packet));
        self.table.prefetch_index(&at, capture::prefetch);
        self.admitted.push(AdmittedPacket {
            at,
            segment: FastPathSegment::of(packet),
            place: self.place,
            payload: payload_offset(captured, packet),
        });
    }
}

impl PreparedPacket {
    /// Prepares a packet; `seed`: that of the flow tables.
    #[inline(always)]
    pub(crate) fn new(
        captured: &CapturedPacket<'_>,
        packet: &Packet<'_>,
        seed: u64,
    ) -> PreparedPacket {
        PreparedPacket {
            at: HashedKey::of(packet, 0, seed),
            segment: FastPathSegment::of(packet),
            payload: payload_offset(captured, packet),
            is_tunneled: !packet.tunnel.is_none(),
        }
    }

    /// Hash of the flow key outside virtual networks.
    #[inline(always)]
    pub(crate) fn hash(&self) -> u64 {
        self.at.hash
    }
}

#[inline(always)]
fn payload_offset(captured: &CapturedPacket<'_>, packet: &Packet<'_>) -> u32 {
    let payload = packet.payload.as_ptr().addr();
    payload.wrapping_sub(captured.bytes.as_ptr().addr()) as u32
}
