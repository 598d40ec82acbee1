//! The gate: decides by a packet's headers whether it is worked on at all. LIMIT, FROM and TO, SAMPLE, in this order,
//! before anything is spent on it; every packet refused is counted. Which end is the client is not known here: what
//! depends on it is decided with the flow.

use plan::{MonitorSpec, Sample};
use wire::{Captured, Packet};

use crate::Accounting;
use crate::address_filter::AddressFilter;
use crate::limiter::Limiter;
use crate::sample::Sampler;

/// See the module's text.
pub struct Gate {
    addresses: AddressFilter,
    sampler: Sampler,
    limiter: Limiter,
}

/// What the gate says of a packet.
pub enum Verdict<'a> {
    /// It is worked on.
    Enter(Packet<'a>),
    /// It is counted and forgotten.
    Refused,
    /// LIMIT is reached: neither this one nor any after it is looked at.
    Over,
}

impl Gate {
    /// The gate of a plan.
    #[must_use]
    pub fn new(spec: &MonitorSpec, limiter: Limiter) -> Gate {
        Gate { addresses: AddressFilter::new(spec), sampler: Sampler::new(spec.sample), limiter }
    }

    /// A gate for packets that have passed another: whatever can be decoded enters.
    #[must_use]
    pub fn open() -> Gate {
        Gate {
            addresses: AddressFilter::default(),
            sampler: Sampler::new(Sample::All),
            limiter: Limiter::default(),
        }
    }

    /// Decodes a packet and decides. A packet that does not enter is counted in `accounting`.
    #[inline(always)]
    pub fn admit<'a>(&self, captured: &Captured<'a>, accounting: &mut Accounting) -> Verdict<'a> {
        if self.limiter.is_over(captured.ts) {
            return Verdict::Over;
        }
        let packet = match Packet::decode(captured) {
            Ok(packet) => packet,
            Err(cause) => {
                accounting.received += 1;
                accounting.undecodable[cause as usize] += 1;
                return Verdict::Refused;
            }
        };
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
        Verdict::Enter(packet)
    }

    /// LIMIT, as all workers share it.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }
}
