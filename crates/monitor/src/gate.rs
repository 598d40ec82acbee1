//! Admission by packet headers: LIMIT, FROM and TO, and SAMPLE, in this order, before any further work. Every
//! rejected packet is counted. Decisions that depend on the client are made later, with the flow. Fragments
//! are held here until their datagram is complete.

use std::sync::{Arc, Mutex, PoisonError};

use capture::{PacketFileCounts, PacketSink};
use plan::{MonitorSpec, SampleMode};
use wire::{CapturedPacket, DecodeError, IpFragment, Packet, PacketConsumer, Timestamp};

use crate::PacketAccounting;
use crate::address_filter::AddressFilter;
use crate::fragments::{self, FragmentReassembler, ReassembledPacket};
use crate::limiter::Limiter;
use crate::look_back::LookBack;
use crate::sample::Sampler;

/// Decides which packets are processed.
pub struct Gate {
    addresses: AddressFilter,
    sampler: Sampler,
    limiter: Limiter,
    /// `None` if all packets are already reassembled.
    fragments: Option<FragmentReassembler>,
    /// A completed datagram, not yet admitted.
    whole: Option<ReassembledPacket>,
    /// Number of captured packets that the current packet counts as.
    weight: u64,
    /// Destination for copies of the admitted packets.
    keep: Option<SharedPacketRetention>,
    /// Set if every decodable packet is admitted and none is stored.
    is_open: bool,
}

/// Storage of admitted packets, shared by all gates of a job.
pub type SharedPacketRetention = Arc<Mutex<PacketRetention>>;

/// Selection of admitted packets to store.
#[derive(Debug)]
pub enum PacketRetention {
    /// All packets.
    All(Box<dyn PacketSink>),
    /// Packets of flows that are selected later.
    LookBack(LookBack),
}

impl PacketRetention {
    /// Completes the file; returns counts of stored packets and the first error.
    pub fn finish(&mut self) -> (PacketFileCounts, Option<std::io::Error>) {
        match self {
            PacketRetention::All(file) => file.finish(),
            PacketRetention::LookBack(look_back) => look_back.finish(),
        }
    }

    fn flush(&mut self) {
        match self {
            PacketRetention::All(file) => file.flush(),
            PacketRetention::LookBack(look_back) => look_back.flush(),
        }
    }

    fn take(&mut self, captured: &CapturedPacket<'_>, packet: &Packet<'_>) {
        match self {
            PacketRetention::All(file) => file.take(captured),
            PacketRetention::LookBack(look_back) => look_back.take(captured, &packet.five_tuple),
        }
    }
}

/// Decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateVerdict {
    /// Admitted.
    Entered,
    /// Rejected and counted.
    Refused,
    /// Completed a datagram, to be read with [`Gate::take_whole`].
    Completed,
    /// LIMIT is reached: this packet and all later ones are not processed.
    Over,
}

impl Gate {
    /// Creates the gate of a plan, with a limit in bytes for held fragments.
    #[must_use]
    pub fn new(spec: &MonitorSpec, limiter: Limiter, fragment_bytes_max: usize) -> Gate {
        // The addresses of export messages are those of exporters and collectors.
        let addresses = match spec.sample {
            SampleMode::Exported => AddressFilter::default(),
            _ => AddressFilter::new(spec),
        };
        let sampler = Sampler::new(spec.sample, spec.sample_seed);
        let is_open = addresses.passes_all() && sampler.takes_all() && limiter.is_open();
        let fragments = Some(FragmentReassembler::new(fragment_bytes_max));
        Gate {
            addresses,
            sampler,
            limiter,
            fragments,
            whole: None,
            weight: 1,
            keep: None,
            is_open,
        }
    }

    /// Sets the storage for admitted packets.
    #[must_use]
    pub fn keeping(self, keep: Option<SharedPacketRetention>) -> Gate {
        Gate {
            is_open: self.is_open && keep.is_none(),
            keep,
            ..self
        }
    }

    /// Writes the stored packets that are buffered.
    pub fn flush_kept(&self) {
        if let Some(keep) = &self.keep {
            keep.lock().unwrap_or_else(PoisonError::into_inner).flush();
        }
    }

    /// Creates a gate for packets that another gate admitted: every decodable packet passes.
    #[must_use]
    pub fn open() -> Gate {
        Gate {
            addresses: AddressFilter::default(),
            sampler: Sampler::new(SampleMode::All, 0),
            limiter: Limiter::default(),
            fragments: None,
            whole: None,
            weight: 1,
            keep: None,
            is_open: true,
        }
    }

    /// Creates a gate with the conditions of this one that do not depend on other packets: FROM, TO, and SAMPLE.
    #[must_use]
    pub fn conditions(&self) -> Gate {
        Gate {
            is_open: self.addresses.passes_all() && self.sampler.takes_all(),
            addresses: self.addresses.clone(),
            sampler: self.sampler,
            ..Gate::open()
        }
    }

    /// Decodes a packet and decides. Passes an admitted packet to `enter`; counts a rejected one in
    /// `accounting`.
    #[inline(always)]
    pub fn admit<'a>(
        &mut self,
        captured: &CapturedPacket<'a>,
        accounting: &mut PacketAccounting,
        enter: &mut impl PacketConsumer<'a>,
    ) -> GateVerdict {
        if self.is_open {
            return match Packet::decode_into(captured, enter) {
                Ok(()) => GateVerdict::Entered,
                Err(cause) => self.refuse(captured, cause, accounting),
            };
        }
        if self.limiter.is_early(captured.ts) {
            accounting.received += self.weight;
            accounting.filtered.early += self.weight;
            return GateVerdict::Refused;
        }
        if self.limiter.is_over(captured.ts) {
            return GateVerdict::Over;
        }
        match Packet::decode(captured) {
            Ok(packet) => {
                let verdict = self.judge(&packet, accounting);
                if verdict == GateVerdict::Entered {
                    if let Some(keep) = &self.keep {
                        keep.lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .take(captured, &packet);
                    }
                    enter.packet(captured, &packet);
                }
                verdict
            }
            Err(cause) => self.refuse(captured, cause, accounting),
        }
    }

    /// Returns the datagram completed by the last packet. The caller passes it to [`Gate::admit_whole`]
    /// before the next packet.
    pub fn take_whole(&mut self) -> Option<ReassembledPacket> {
        self.whole.take()
    }

    /// Whether a completed datagram is pending.
    #[inline]
    #[must_use]
    pub fn has_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// Like [`Gate::admit`], for a reassembled datagram; counts as all its packets.
    pub fn admit_whole<'a>(
        &mut self,
        whole: &'a ReassembledPacket,
        accounting: &mut PacketAccounting,
        enter: &mut impl PacketConsumer<'a>,
    ) -> GateVerdict {
        self.weight = whole.packets;
        let verdict = self.admit(&whole.captured(), accounting, enter);
        self.weight = 1;
        if verdict != GateVerdict::Over {
            accounting.received -= whole.packets;
            accounting.undecodable[DecodeError::Fragment as usize] -= whole.packets;
        }
        if verdict == GateVerdict::Entered {
            accounting.received += whole.packets - 1;
            accounting.parsed += whole.packets - 1;
        }
        verdict
    }

    /// Returns the datagrams that timed out at `now`; all incomplete ones if `now` is `None`.
    pub fn give_up(&mut self, now: Option<Timestamp>) -> Vec<ReassembledPacket> {
        match (&mut self.fragments, now) {
            (None, _) => Vec::new(),
            (Some(fragments), Some(now)) => fragments.give_up(now),
            (Some(fragments), None) => fragments.give_up_all(),
        }
    }

    /// Handles a packet only if it is a fragment; for callers that skip [`Gate::admit`] for complete packets.
    #[cold]
    #[inline(never)]
    pub fn admit_fragment(
        &mut self,
        captured: &CapturedPacket<'_>,
        accounting: &mut PacketAccounting,
    ) -> Option<GateVerdict> {
        IpFragment::of(captured)?;
        Some(self.refuse(captured, DecodeError::Fragment, accounting))
    }

    /// Counters of fragment reassembly.
    #[must_use]
    pub fn fragments(&self) -> fragments::FragmentCounters {
        self.fragments
            .as_ref()
            .map(|fragments| *fragments.counters())
            .unwrap_or_default()
    }

    fn judge(&self, packet: &Packet<'_>, accounting: &mut PacketAccounting) -> GateVerdict {
        if !self.addresses.passes(&packet.five_tuple) {
            accounting.received += self.weight;
            accounting.filtered.address += self.weight;
            return GateVerdict::Refused;
        }
        if !self.limiter.take() {
            return GateVerdict::Over;
        }
        if !self.sampler.takes_all() && !self.sampler.takes(&packet.five_tuple.flow_key().0) {
            accounting.received += self.weight;
            accounting.sampled_out += self.weight;
            return GateVerdict::Refused;
        }
        GateVerdict::Entered
    }

    /// Whether every decodable packet is admitted and none is stored.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether decisions on complete packets depend on earlier packets, or admitted packets are stored.
    #[must_use]
    pub fn needs_order(&self) -> bool {
        !self.limiter.is_open() || self.keep.is_some()
    }

    /// LIMIT, shared by all workers.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Counts an undecodable packet; adds a fragment to its datagram.
    #[cold]
    #[inline(never)]
    fn refuse(
        &mut self,
        captured: &CapturedPacket<'_>,
        cause: DecodeError,
        accounting: &mut PacketAccounting,
    ) -> GateVerdict {
        accounting.received += self.weight;
        accounting.undecodable[cause as usize] += self.weight;
        if let Some(protocol) = wire::unread_protocol(captured) {
            accounting.count_protocol(protocol, self.weight);
        }
        if cause == DecodeError::Fragment
            && let Some(fragments) = &mut self.fragments
            && let Some(fragment) = IpFragment::of(captured)
        {
            self.whole = fragments.add(&fragment, self.weight, captured.wire_len());
        }
        if self.whole.is_some() {
            GateVerdict::Completed
        } else {
            GateVerdict::Refused
        }
    }
}
