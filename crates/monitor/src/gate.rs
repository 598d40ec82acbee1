//! Admission by packet headers: LIMIT, FROM and TO, and SAMPLE, in this order, before any further work. Every
//! rejected packet is counted. Decisions that depend on the client are made later, with the flow. Fragments
//! are held here until their datagram is complete.

use std::sync::{Arc, Mutex, PoisonError};

use capture::{PacketFile, PacketsKept};
use plan::{MonitorSpec, Sample};
use wire::{Captured, Fragment, Packet, TakePacket, Timestamp, Undecodable};

use crate::Accounting;
use crate::address_filter::AddressFilter;
use crate::fragments::{self, Fragments, Whole};
use crate::limiter::Limiter;
use crate::look_back::LookBack;
use crate::sample::Sampler;

/// Decides which packets are processed.
pub struct Gate {
    addresses: AddressFilter,
    sampler: Sampler,
    limiter: Limiter,
    /// `None` if all packets are already reassembled.
    fragments: Option<Fragments>,
    /// A completed datagram, not yet admitted.
    whole: Option<Whole>,
    /// Number of captured packets that the current packet counts as.
    weight: u64,
    /// Destination for copies of the admitted packets.
    keep: Option<Keep>,
    /// Set if every decodable packet is admitted and none is stored.
    is_open: bool,
}

/// Storage of admitted packets, shared by all gates of a job.
pub type Keep = Arc<Mutex<Keeper>>;

/// Which admitted packets are stored.
#[derive(Debug)]
pub enum Keeper {
    /// All packets.
    All(PacketFile),
    /// Packets of flows that are selected later.
    LookBack(LookBack),
}

impl Keeper {
    /// Completes the file; returns counts of stored packets and the first error.
    pub fn finish(&mut self) -> (PacketsKept, Option<std::io::Error>) {
        match self {
            Keeper::All(file) => file.finish(),
            Keeper::LookBack(look_back) => look_back.finish(),
        }
    }

    fn take(&mut self, captured: &Captured<'_>, packet: &Packet<'_>) {
        match self {
            Keeper::All(file) => file.take(captured),
            Keeper::LookBack(look_back) => look_back.take(captured, &packet.five_tuple),
        }
    }
}

/// Decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
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
        let (addresses, sampler) = (AddressFilter::new(spec), Sampler::new(spec.sample, spec.sample_seed));
        let is_open = addresses.passes_all() && sampler.takes_all() && limiter.is_open();
        let fragments = Some(Fragments::new(fragment_bytes_max));
        Gate { addresses, sampler, limiter, fragments, whole: None, weight: 1, keep: None, is_open }
    }

    /// Sets the storage for admitted packets.
    #[must_use]
    pub fn keeping(self, keep: Option<Keep>) -> Gate {
        Gate { is_open: self.is_open && keep.is_none(), keep, ..self }
    }

    /// Creates a gate for packets that another gate admitted: every decodable packet passes.
    #[must_use]
    pub fn open() -> Gate {
        Gate {
            addresses: AddressFilter::default(),
            sampler: Sampler::new(Sample::All, 0),
            limiter: Limiter::default(),
            fragments: None,
            whole: None,
            weight: 1,
            keep: None,
            is_open: true,
        }
    }

    /// Decodes a packet and decides. Passes an admitted packet to `enter`; counts a rejected one in
    /// `accounting`.
    #[inline(always)]
    pub fn admit<'a>(
        &mut self,
        captured: &Captured<'a>,
        accounting: &mut Accounting,
        enter: &mut impl TakePacket<'a>,
    ) -> Verdict {
        if self.is_open {
            return match Packet::decode_into(captured, enter) {
                Ok(()) => Verdict::Entered,
                Err(cause) => self.refuse(captured, cause, accounting),
            };
        }
        if self.limiter.is_early(captured.ts) {
            accounting.received += self.weight;
            accounting.filtered.early += self.weight;
            return Verdict::Refused;
        }
        if self.limiter.is_over(captured.ts) {
            return Verdict::Over;
        }
        match Packet::decode(captured) {
            Ok(packet) => {
                let verdict = self.judge(&packet, accounting);
                if verdict == Verdict::Entered {
                    if let Some(keep) = &self.keep {
                        keep.lock().unwrap_or_else(PoisonError::into_inner).take(captured, &packet);
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
    pub fn take_whole(&mut self) -> Option<Whole> {
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
        whole: &'a Whole,
        accounting: &mut Accounting,
        enter: &mut impl TakePacket<'a>,
    ) -> Verdict {
        self.weight = whole.packets;
        let verdict = self.admit(&whole.captured(), accounting, enter);
        self.weight = 1;
        if verdict != Verdict::Over {
            accounting.received -= whole.packets;
            accounting.undecodable[Undecodable::Fragment as usize] -= whole.packets;
        }
        if verdict == Verdict::Entered {
            accounting.received += whole.packets - 1;
            accounting.parsed += whole.packets - 1;
        }
        verdict
    }

    /// Returns the datagrams that timed out at `now`; all incomplete ones if `now` is `None`.
    pub fn give_up(&mut self, now: Option<Timestamp>) -> Vec<Whole> {
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
        captured: &Captured<'_>,
        accounting: &mut Accounting,
    ) -> Option<Verdict> {
        Fragment::of(captured)?;
        Some(self.refuse(captured, Undecodable::Fragment, accounting))
    }

    /// Counters of fragment reassembly.
    #[must_use]
    pub fn fragments(&self) -> fragments::Counters {
        self.fragments.as_ref().map(|fragments| *fragments.counters()).unwrap_or_default()
    }

    fn judge(&self, packet: &Packet<'_>, accounting: &mut Accounting) -> Verdict {
        if !self.addresses.passes(&packet.five_tuple) {
            accounting.received += self.weight;
            accounting.filtered.address += self.weight;
            return Verdict::Refused;
        }
        if !self.limiter.take() {
            return Verdict::Over;
        }
        if !self.sampler.takes_all() && !self.sampler.takes(&packet.five_tuple.flow_key().0) {
            accounting.received += self.weight;
            accounting.sampled_out += self.weight;
            return Verdict::Refused;
        }
        Verdict::Entered
    }

    /// Whether every decodable packet is admitted and none is stored.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
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
        captured: &Captured<'_>,
        cause: Undecodable,
        accounting: &mut Accounting,
    ) -> Verdict {
        accounting.received += self.weight;
        accounting.undecodable[cause as usize] += self.weight;
        if let Some(protocol) = wire::unread_protocol(captured) {
            accounting.count_protocol(protocol, self.weight);
        }
        if cause == Undecodable::Fragment
            && let Some(fragments) = &mut self.fragments
            && let Some(fragment) = Fragment::of(captured)
        {
            self.whole = fragments.add(&fragment, (self.weight, captured.wire_len()));
        }
        if self.whole.is_some() { Verdict::Completed } else { Verdict::Refused }
    }
}
