//! The gate: decides by a packet's headers whether it is worked on at all. LIMIT, FROM and TO, SAMPLE, in this order,
//! before anything is spent on it; every packet refused is counted. Which end is the client is not known here: what
//! depends on it is decided with the flow. Parts of datagrams wait here until they are whole.

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

/// See the module's text.
pub struct Gate {
    addresses: AddressFilter,
    sampler: Sampler,
    limiter: Limiter,
    /// None where whole packets come only.
    fragments: Option<Fragments>,
    /// A datagram that has become whole and has not been admitted yet.
    whole: Option<Whole>,
    /// How many packets the one was that is being decided on.
    weight: u64,
    /// Where the packets that enter are kept.
    keep: Option<Keep>,
    /// Whatever can be decoded enters, and is not kept.
    is_open: bool,
}

/// Where all gates of a job bring the packets that enter.
pub type Keep = Arc<Mutex<Keeper>>;

/// Which of them are kept.
#[derive(Debug)]
pub enum Keeper {
    /// All.
    All(PacketFile),
    /// Those of flows that turn out to be wanted.
    LookBack(LookBack),
}

impl Keeper {
    /// The file has all that is kept: what that is, and what went wrong.
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

/// What the gate says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is worked on.
    Entered,
    /// It is counted and forgotten.
    Refused,
    /// It made a datagram whole, which is now to be taken from the gate: [`Gate::take_whole`].
    Completed,
    /// LIMIT is reached: this packet and all later ones are not processed.
    Over,
}

impl Gate {
    /// The gate of a plan, with a limit on held fragment bytes.
    #[must_use]
    pub fn new(spec: &MonitorSpec, limiter: Limiter, fragment_bytes_max: usize) -> Gate {
        let (addresses, sampler) = (AddressFilter::new(spec), Sampler::new(spec.sample, spec.sample_seed));
        let is_open = addresses.passes_all() && sampler.takes_all() && limiter.is_open();
        let fragments = Some(Fragments::new(fragment_bytes_max));
        Gate { addresses, sampler, limiter, fragments, whole: None, weight: 1, keep: None, is_open }
    }

    /// The same, and the packets that enter are kept.
    #[must_use]
    pub fn keeping(self, keep: Option<Keep>) -> Gate {
        Gate { is_open: self.is_open && keep.is_none(), keep, ..self }
    }

    /// A gate for packets that have passed another: whatever can be decoded enters.
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

    /// Decodes a packet and decides; one that enters is handed to `enter`, one that does not is counted in
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

    /// The datagram that the last packet completed. It is to be admitted with [`Gate::admit_whole`] before the next.
    pub fn take_whole(&mut self) -> Option<Whole> {
        self.whole.take()
    }

    /// Whether there is one.
    #[inline]
    #[must_use]
    pub fn has_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// As [`Gate::admit`], a datagram that came in several packets, all of which it then stands for.
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

    /// Datagrams that parts are missing of and that are not waited for any longer at `now`, or at the end of all input.
    pub fn give_up(&mut self, now: Option<Timestamp>) -> Vec<Whole> {
        match (&mut self.fragments, now) {
            (None, _) => Vec::new(),
            (Some(fragments), Some(now)) => fragments.give_up(now),
            (Some(fragments), None) => fragments.give_up_all(),
        }
    }

    /// Whether a packet is a fragment: for who does not admit every packet.
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

    /// Counters of fragments.
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

    /// Whether whatever can be decoded enters.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// LIMIT, as all workers share it.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Counts a packet that is not whole, or not to be read.
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
