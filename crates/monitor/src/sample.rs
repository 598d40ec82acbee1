//! Selects flows by the hash of the flow key, so that a flow is selected or rejected as a whole at every
//! observation point. [`Sampler`] has a fixed rate; [`AdaptiveSampler`] a rate that changes while flows are active.

use std::collections::VecDeque;

use plan::{FlowSlice, SampleMode};
use wire::packet::TcpFlags;
use wire::{FlowKey, Packet, Timestamp, TransportHeader};

/// Not secret: every monitor of a query must select the same flows.
const SAMPLE_SEED: u64 = 0x6e65_7461_6c79_7469;

/// Sampler with a fixed rate.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    /// Largest selected hash; `None`: every flow is selected.
    threshold: Option<u64>,
    seed: u64,
}

impl Sampler {
    /// Creates a sampler; each seed gives a different sample. `Auto` starts with every flow.
    #[must_use]
    pub fn new(sample: SampleMode, seed: u64) -> Sampler {
        let threshold = match sample {
            SampleMode::All | SampleMode::Auto | SampleMode::Exported => None,
            SampleMode::Fraction(p) => Some(threshold(p)),
        };
        Sampler {
            threshold,
            seed: SAMPLE_SEED ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    /// Whether every flow is selected.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        self.threshold.is_none()
    }

    /// Whether the flow is selected.
    #[inline]
    #[must_use]
    pub fn takes(&self, key: &FlowKey) -> bool {
        self.threshold
            .is_none_or(|threshold| key.hash(self.seed) <= threshold)
    }
}

/// Largest selected hash. The product is below 2^64 for rates below 1; the cast saturates.
fn threshold(rate: f64) -> u64 {
    (rate.clamp(0.0, 1.0) * u64::MAX as f64) as u64
}

/// A sampling rate that changes over time.
///
/// Every packet has a rate: for a SYN, which starts a connection, the current rate; for other packets the lowest rate
/// of the last idle timeout, because the packet may belong to a rejected flow. A flow is selected when its hash is at
/// most the rate of any of its packets, and stays selected. So its selection probability is the largest rate of its
/// packets so far, and its tuples are scaled by it. A flow rejected long ago may be selected midway after rates have
/// been higher for that time; selected flows then count for less.
///
/// In addition, switches may copy only a slice of the flows. The slice depends on bits of the endpoints and is
/// independent of the hash, so the selection probability is the product. When the slice shrinks, flows outside are cut
/// off, and each remaining flow counts for more.
#[derive(Clone, Debug)]
pub struct AdaptiveSampler {
    rate: f64,
    has_changed: bool,
    tcp: LowestRate,
    others: LowestRate,
    slices: SliceHistory,
}

impl AdaptiveSampler {
    /// Creates a sampler with rate 1, given the idle timeouts of TCP flows and others.
    #[must_use]
    pub fn new(tcp_idle_ns: i64, others_idle_ns: i64) -> AdaptiveSampler {
        let tcp = LowestRate::within(tcp_idle_ns);
        let others = LowestRate::within(others_idle_ns);
        let slices = SliceHistory {
            now: FlowSlice::default(),
            tcp: tcp.clone(),
            others: others.clone(),
        };
        AdaptiveSampler {
            rate: 1.0,
            has_changed: false,
            tcp,
            others,
            slices,
        }
    }

    /// Whether the rate has ever changed from 1; until then flows need no check.
    #[inline]
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Current rate for new connections.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Sets the rate from `now` on.
    pub fn set(&mut self, now: Timestamp, rate: f64) {
        self.tcp.ended(now, (self.rate, rate));
        self.others.ended(now, (self.rate, rate));
        self.rate = rate;
        self.has_changed = true;
    }

    /// Sets the slice of flows that switches copy from `now` on.
    pub fn set_slice(&mut self, now: Timestamp, slice: FlowSlice) {
        let change = (self.slices.now.share(), slice.share());
        self.slices.tcp.ended(now, change);
        self.slices.others.ended(now, change);
        self.slices.now = slice;
        self.has_changed = true;
    }

    /// Slice of the flows that switches copy now.
    #[must_use]
    pub fn slice(&self) -> FlowSlice {
        self.slices.now
    }

    /// Removes rates older than the idle timeouts.
    pub fn forget(&mut self, now: Timestamp) {
        let SliceHistory { tcp, others, .. } = &mut self.slices;
        [&mut self.tcp, &mut self.others, tcp, others]
            .into_iter()
            .for_each(|of| of.forget(now));
    }

    /// The rate of a packet.
    #[must_use]
    pub fn rate_of(&self, packet: &Packet<'_>) -> f64 {
        match &packet.transport {
            TransportHeader::Tcp(tcp) if is_beginning(tcp.flags) => self.rate,
            TransportHeader::Tcp(_) => self.tcp.lowest(self.rate),
            _ => self.others.lowest(self.rate),
        }
    }

    /// Slice that a flow must be in for this packet to select it; same rule as [`AdaptiveSampler::rate_of`].
    #[must_use]
    pub fn slice_of(&self, packet: &Packet<'_>) -> FlowSlice {
        let SliceHistory { now, tcp, others } = &self.slices;
        let share = match &packet.transport {
            TransportHeader::Tcp(tcp) if is_beginning(tcp.flags) => return *now,
            TransportHeader::Tcp(_) => tcp.lowest(now.share()),
            _ => others.lowest(now.share()),
        };
        // Shares are powers of two.
        now.at((-share.log2()).round() as u8)
    }

    /// Whether a flow is selected at a rate.
    #[must_use]
    pub fn takes(key: &FlowKey, rate: f64) -> bool {
        rate >= 1.0 || key.hash(SAMPLE_SEED) <= threshold(rate)
    }
}

fn is_beginning(flags: TcpFlags) -> bool {
    flags.contains(TcpFlags::SYN) && !flags.intersects(TcpFlags::ACK | TcpFlags::RST)
}

/// Current slice of flows that switches copy, and the smallest within the idle timeouts.
#[derive(Clone, Debug)]
struct SliceHistory {
    now: FlowSlice,
    tcp: LowestRate,
    others: LowestRate,
}

/// Lowest rate within a sliding period.
#[derive(Clone, Debug)]
struct LowestRate {
    within_ns: i64,
    /// Earlier rates below all later ones, with their end times; ascending.
    before: VecDeque<(Timestamp, f64)>,
}

impl LowestRate {
    fn within(within_ns: i64) -> LowestRate {
        LowestRate {
            within_ns,
            before: VecDeque::new(),
        }
    }

    fn ended(&mut self, now: Timestamp, (rate, next): (f64, f64)) {
        self.before.push_back((now, rate));
        while self.before.pop_back_if(|(_, rate)| *rate >= next).is_some() {}
    }

    fn forget(&mut self, now: Timestamp) {
        while self
            .before
            .pop_front_if(|(ended, _)| now.since(*ended) > self.within_ns)
            .is_some()
        {}
    }

    fn lowest(&self, now: f64) -> f64 {
        self.before.front().map_or(now, |(_, rate)| rate.min(now))
    }
}

#[cfg(test)]
mod tests {
    use testkit::packet::{SentPacket, tcp_info};
    use wire::{Addr, Endpoint, IpProtocol};

    use super::*;

    fn keys() -> impl Iterator<Item = FlowKey> {
        (0..20_000u32).map(|i| FlowKey {
            a: Endpoint {
                addr: Addr::v4([10, 0, 0, 1]),
                port: 80,
            },
            b: Endpoint {
                addr: Addr::v4((0x0a01_0000 + i / 7).to_be_bytes()),
                port: (i % 60_000) as u16,
            },
            protocol: IpProtocol::TCP,
            network: 0,
        })
    }

    #[test]
    fn the_share_is_the_rate() {
        for p in [0.01, 0.1, 0.5, 0.9] {
            let sampler = Sampler::new(SampleMode::Fraction(p), 0);
            let share = keys().filter(|k| sampler.takes(k)).count() as f64 / 20_000.0;
            assert!((share - p).abs() < 0.015, "{share} of {p}");
        }
        assert!(keys().all(|k| Sampler::new(SampleMode::Auto, 0).takes(&k)));
    }

    #[test]
    fn larger_rates_select_supersets() {
        let small = Sampler::new(SampleMode::Fraction(0.1), 0);
        let large = Sampler::new(SampleMode::Fraction(0.3), 0);
        assert!(keys().filter(|k| small.takes(k)).all(|k| large.takes(&k)));
    }

    #[test]
    fn new_flows_use_the_current_rate() {
        let ends = (
            "10.0.0.1:40000".parse().expect("an end"),
            "10.0.0.2:80".parse().expect("an end"),
        );
        let tcp = |flags| SentPacket::tcp(Timestamp(0), ends, tcp_info(1, 0, flags), b"");
        let syn = tcp(TcpFlags::SYN);
        let answer = tcp(TcpFlags::SYN | TcpFlags::ACK);
        let datagram = SentPacket::udp(Timestamp(0), ends, b"x");
        let mut adaptive = AdaptiveSampler::new(300, 60);
        let mut check = |now, rate, expected: [f64; 3]| {
            adaptive.set(Timestamp(now), rate);
            adaptive.forget(Timestamp(now));
            let rates = [&syn, &answer, &datagram].map(|sent| adaptive.rate_of(&sent.packet()));
            assert_eq!(rates, expected, "at {now}");
        };
        check(0, 1.0, [1.0; 3]);
        check(10, 0.5, [0.5; 3]);
        check(20, 0.25, [0.25; 3]);
        check(30, 0.3, [0.3, 0.25, 0.25]);
        check(40, 0.4, [0.4, 0.25, 0.25]);
        // 0.25 ended at 30, 0.3 at 40.
        check(90, 0.4, [0.4, 0.25, 0.25]);
        check(91, 0.4, [0.4, 0.25, 0.3]);
        check(101, 0.5, [0.5, 0.25, 0.4]);
        check(331, 0.5, [0.5, 0.3, 0.5]);
        check(332, 0.1, [0.1; 3]);
    }

    #[test]
    fn old_rates_take_little_room() {
        let mut adaptive = AdaptiveSampler::new(i64::MAX, i64::MAX);
        for i in 0..100_000 {
            adaptive.set(
                Timestamp(i),
                if i % 40 < 10 {
                    0.5f64.powi((i % 10) as i32)
                } else {
                    (i % 40) as f64 / 40.0
                },
            );
        }
        assert!(adaptive.tcp.before.len() < 50);
    }
}
