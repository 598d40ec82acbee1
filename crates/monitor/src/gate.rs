//! The gate: decides by a packet's headers whether it is worked on at all. LIMIT, FROM and TO, SAMPLE, in this order,
//! before anything is spent on it; every packet refused is counted. Which end is the client is not known here: what
//! depends on it is decided with the flow.

use plan::{MonitorSpec, Sample};
use wire::{Captured, Packet, TakePacket, Undecodable};

use crate::Accounting;
use crate::address_filter::AddressFilter;
use crate::limiter::Limiter;
use crate::sample::Sampler;

/// See the module's text.
pub struct Gate {
    addresses: AddressFilter,
    sampler: Sampler,
    limiter: Limiter,
    /// Whatever can be decoded enters.
    is_open: bool,
}

/// What the gate says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is worked on.
    Entered,
    /// It is counted and forgotten.
    Refused,
    /// LIMIT is reached: neither this one nor any after it is looked at.
    Over,
}

impl Gate {
    /// The gate of a plan.
    #[must_use]
    pub fn new(spec: &MonitorSpec, limiter: Limiter) -> Gate {
        let (addresses, sampler) = (AddressFilter::new(spec), Sampler::new(spec.sample, spec.sample_seed));
        let is_open = addresses.passes_all() && sampler.takes_all() && limiter.is_open();
        Gate { addresses, sampler, limiter, is_open }
    }

    /// A gate for packets that have passed another: whatever can be decoded enters.
    #[must_use]
    pub fn open() -> Gate {
        let sampler = Sampler::new(Sample::All, 0);
        Gate { addresses: AddressFilter::default(), sampler, limiter: Limiter::default(), is_open: true }
    }

    /// Decodes a packet and decides; one that enters is handed to `enter`, one that does not is counted in
    /// `accounting`.
    #[inline(always)]
    pub fn admit<'a>(
        &self,
        captured: &Captured<'a>,
        accounting: &mut Accounting,
        enter: &mut impl TakePacket<'a>,
    ) -> Verdict {
        if self.is_open {
            return match Packet::decode_into(captured, enter) {
                Ok(()) => Verdict::Entered,
                Err(cause) => refuse(cause, accounting),
            };
        }
        if self.limiter.is_over(captured.ts) {
            return Verdict::Over;
        }
        match Packet::decode(captured) {
            Ok(packet) => {
                let verdict = self.judge(&packet, accounting);
                if verdict == Verdict::Entered {
                    enter.packet(captured, &packet);
                }
                verdict
            }
            Err(cause) => refuse(cause, accounting),
        }
    }

    fn judge(&self, packet: &Packet<'_>, accounting: &mut Accounting) -> Verdict {
        if !self.addresses.passes(&packet.five_tuple) {
            accounting.received += 1;
            accounting.filtered.address += 1;
            return Verdict::Refused;
        }
        if !self.limiter.take() {
            return Verdict::Over;
        }
        if !self.sampler.takes_all() && !self.sampler.takes(&packet.five_tuple.flow_key().0) {
            accounting.received += 1;
            accounting.sampled_out += 1;
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
}

#[cold]
fn refuse(cause: Undecodable, accounting: &mut Accounting) -> Verdict {
    accounting.received += 1;
    accounting.undecodable[cause as usize] += 1;
    Verdict::Refused
}
