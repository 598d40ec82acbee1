//! Which flows are looked at: by the flow's hash, so that a flow is wholly in or wholly out wherever it is seen.

use plan::Sample;
use wire::FlowKey;

/// Not a secret: every monitor of a query must choose the same flows.
const SAMPLE_SEED: u64 = 0x6e65_7461_6c79_7469;

/// The decision for every flow.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    /// Flows whose hash is at most this are in; `None`: all are.
    threshold: Option<u64>,
}

impl Sampler {
    /// A sampler for the query's rate. `auto` starts with every flow.
    #[must_use]
    pub fn new(sample: Sample) -> Sampler {
        let threshold = match sample {
            Sample::All | Sample::Auto => None,
            // The product is below 2^64 for p < 1; the cast saturates.
            Sample::Fraction(p) => Some((p.clamp(0.0, 1.0) * u64::MAX as f64) as u64),
        };
        Sampler { threshold }
    }

    /// Whether every flow is.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        self.threshold.is_none()
    }

    /// Whether the flow is looked at.
    #[inline]
    #[must_use]
    pub fn takes(&self, key: &FlowKey) -> bool {
        self.threshold.is_none_or(|threshold| key.hash(SAMPLE_SEED) <= threshold)
    }
}

#[cfg(test)]
mod tests {
    use wire::{Addr, Endpoint, IpProtocol};

    use super::*;

    fn keys() -> impl Iterator<Item = FlowKey> {
        (0..20_000u32).map(|i| FlowKey {
            a: Endpoint { addr: Addr::v4([10, 0, 0, 1]), port: 80 },
            b: Endpoint { addr: Addr::v4((0x0a01_0000 + i / 7).to_be_bytes()), port: (i % 60_000) as u16 },
            protocol: IpProtocol::TCP,
        })
    }

    #[test]
    fn the_share_is_the_rate() {
        for p in [0.01, 0.1, 0.5, 0.9] {
            let sampler = Sampler::new(Sample::Fraction(p));
            let share = keys().filter(|k| sampler.takes(k)).count() as f64 / 20_000.0;
            assert!((share - p).abs() < 0.015, "{share} of {p}");
        }
        assert!(keys().all(|k| Sampler::new(Sample::Auto).takes(&k)));
    }

    #[test]
    fn a_larger_rate_keeps_what_a_smaller_one_kept() {
        let (small, large) = (Sampler::new(Sample::Fraction(0.1)), Sampler::new(Sample::Fraction(0.3)));
        assert!(keys().filter(|k| small.takes(k)).all(|k| large.takes(&k)));
    }
}
