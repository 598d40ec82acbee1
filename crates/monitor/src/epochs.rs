//! Divides the packets of an input into epochs. At the end of an epoch event time advances: idle flows
//! expire, workers report, windows close. The position of an epoch end depends only on the packets and their
//! timestamps, not on block boundaries or the number of workers, so a file, its compressed form, and a pipe
//! give the same rows.

use capture::PacketRecord;
use wire::Timestamp;

/// Duration of an epoch in event time; also the delay of results.
pub(crate) const EPOCH_NS: i64 = 250_000_000;
/// Maximum packets of an epoch. Bounds the results held until its end: a 7-byte request becomes a 200-byte
/// row.
const EPOCH_PACKETS: u32 = 64 * 256;
const EPOCH_BYTES: u64 = 2 << 20;
/// Minimum packets of an epoch at low packet rates, because ending an epoch costs more than they do.
const FEW_PACKETS: u32 = 64;
/// A packet more than this behind the clock is more than reordered.
const BEHIND_NS: i64 = 1_000_000_000;
/// After this many consecutive packets behind the clock, the clock is set back.
const BEHIND_PACKETS: u32 = 256;
/// Maximum duration of an epoch with fewer than [`FEW_PACKETS`] packets.
const FEW_NS: i64 = 1_000_000_000;

/// State of the current epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EpochSplitter {
    /// Start time of the epoch, and its packets and captured bytes so far.
    began: Timestamp,
    packets: u32,
    bytes: u64,
    /// Packets of all previous epochs.
    packets_before: u64,
    /// Latest packet time since the last backward step, or the source's clock.
    clock: Timestamp,
    /// Number of consecutive packets behind the clock, and the latest of their timestamps.
    behind: (u32, Timestamp),
    /// Latest packet time since the last [`EpochSplitter::ends_at`].
    latest: Timestamp,
    /// Lead of the source's clock over its packets' timestamps, if more than [`BEHIND_NS`]; otherwise 0.
    lead_ns: i64,
}

impl Default for EpochSplitter {
    fn default() -> EpochSplitter {
        let began = Timestamp::MIN;
        let clock = Timestamp::MIN;
        let behind = (0, Timestamp::MIN);
        let latest = Timestamp::MIN;
        EpochSplitter {
            began,
            packets: 0,
            bytes: 0,
            packets_before: 0,
            clock,
            behind,
            latest,
            lead_ns: 0,
        }
    }
}

impl EpochSplitter {
    /// Adds a packet with this time and number of captured bytes; returns true if the epoch ends with it. The first
    /// packet is an epoch of its own, so that all workers know the start time.
    #[inline]
    pub fn ends_with(&mut self, ts: Timestamp, bytes: usize) -> bool {
        self.packets += 1;
        self.bytes += bytes as u64;
        if ts >= self.clock {
            self.clock = ts;
            self.behind.0 = 0;
        } else {
            self.is_earlier(ts);
        }
        let lasts = self.clock.since(self.began);
        (lasts >= EPOCH_NS || self.is_full()) && self.is_over(lasts)
    }

    /// Adds the next packets. If the epoch ends with one of them, returns the number up to and including it.
    pub fn ends_within(&mut self, records: &[PacketRecord]) -> Option<usize> {
        let add = |(first, last, bytes): (Timestamp, Timestamp, u64), record: &PacketRecord| {
            (
                first.min(record.ts),
                last.max(record.ts),
                bytes + u64::from(record.len),
            )
        };
        let (first, last, bytes) = records
            .iter()
            .fold((Timestamp::MAX, Timestamp::MIN, self.bytes), add);
        // Not with `self.latest`: the clock may have been set back since.
        let clock = self.clock.max(last);
        self.latest = self.latest.max(last);
        let packets = self.packets.saturating_add(records.len() as u32);
        let all = EpochSplitter {
            packets,
            bytes,
            clock,
            ..*self
        };
        let in_time = self.behind.0 == 0 && clock.since(first) <= BEHIND_NS;
        if in_time && clock.since(self.began) < EPOCH_NS && !all.is_full() {
            *self = all;
            return None;
        }
        let ends = |record: &PacketRecord| self.ends_with(record.ts, record.len as usize);
        records.iter().position(ends).map(|place| place + 1)
    }

    /// Advances to the clock of a live source, with or without packets; returns true if the epoch ends. If the source's
    /// clock is ahead of its packets by more than they can be late, time follows the packets, so that their tuples are
    /// not behind the clock.
    pub fn ends_at(&mut self, clock: Timestamp) -> bool {
        if self.latest > Timestamp::MIN {
            let lead = clock.since(std::mem::replace(&mut self.latest, Timestamp::MIN));
            self.lead_ns = if lead > BEHIND_NS { lead } else { 0 };
        }
        self.clock = self.clock.max(clock.plus(-self.lead_ns));
        let is_over = self.clock.since(self.began) >= EPOCH_NS;
        if is_over {
            self.begin();
        }
        is_over
    }

    /// Total packets of all epochs.
    pub fn packets(&self) -> u64 {
        self.packets_before + u64::from(self.packets)
    }

    /// Current event time.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Handles a packet behind the clock. After [`BEHIND_PACKETS`] in a row the clock is set back and the
    /// epoch ends.
    #[cold]
    fn is_earlier(&mut self, ts: Timestamp) {
        if self.clock.since(ts) <= BEHIND_NS {
            self.behind.0 = 0;
            return;
        }
        let latest = if self.behind.0 == 0 {
            ts
        } else {
            self.behind.1.max(ts)
        };
        self.behind = (self.behind.0 + 1, latest);
        if self.behind.0 >= BEHIND_PACKETS {
            self.clock = latest;
            self.began = Timestamp::MIN;
            self.behind.0 = 0;
        }
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.packets >= EPOCH_PACKETS || self.bytes >= EPOCH_BYTES
    }

    #[cold]
    fn is_over(&mut self, lasts: i64) -> bool {
        let is_over = self.packets >= FEW_PACKETS || lasts >= FEW_NS || self.is_full();
        if is_over {
            self.begin();
        }
        is_over
    }

    fn begin(&mut self) {
        self.packets_before = self.packets();
        self.began = self.clock;
        self.packets = 0;
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::LinkType;

    use super::*;

    const MS: i64 = 1_000_000;
    const LEN: usize = 100;

    fn records(times: &[i64]) -> Vec<PacketRecord> {
        let record = |ts: &i64| PacketRecord {
            ts: Timestamp(*ts),
            link_type: LinkType::Ethernet,
            original_len: 0,
            len: LEN as u32,
            start: 0,
            buffer: 0,
        };
        times.iter().map(record).collect()
    }

    /// Returns the packet numbers at which epochs end.
    fn ends(times: &[i64]) -> Vec<usize> {
        let mut epochs = EpochSplitter::default();
        (1..=times.len())
            .filter(|n| epochs.ends_with(Timestamp(times[n - 1]), LEN))
            .collect()
    }

    /// The same for packets in blocks, whose lengths repeat.
    fn ends_in_blocks(times: &[i64], lengths: &[usize]) -> Vec<usize> {
        let mut epochs = EpochSplitter::default();
        let mut found = Vec::new();
        let mut at = 0;
        for length in lengths.iter().cycle() {
            let block = records(&times[at..times.len().min(at + length)]);
            let mut from = 0;
            while let Some(n) = epochs.ends_within(&block[from..]) {
                from += n;
                found.push(at + from);
            }
            at += block.len();
            if at == times.len() {
                break;
            }
        }
        found
    }

    /// After it was set back, the clock does not return to the time before with a block of packets.
    #[test]
    fn times_before_a_backward_step_are_forgotten() {
        let mut times = vec![10_000 * MS];
        times.extend((0..=9800).map(|i| i * MS));
        // Less than a second behind the packets before, more than a second behind the first one.
        times.extend([8900 * MS; 300]);
        times.extend((9801..10_500).map(|i| i * MS));
        assert_eq!(ends_in_blocks(&times, &[50]), ends(&times));
    }

    #[test]
    fn by_time_by_packets_and_by_the_first() {
        let every = |ns: i64, n: i64| (0..n).map(|i| i * ns).collect::<Vec<_>>();
        assert_eq!(ends(&every(MS, 1000)), [1, 251, 501, 751]);
        assert_eq!(ends(&every(0, 40_000)), [1, 16_385, 32_769]);
        // Low packet rate: epochs of 64 packets or one second.
        assert_eq!(ends(&every(10 * MS, 200)), [1, 65, 129, 193]);
        assert_eq!(ends(&every(400 * MS, 10)), [1, 4, 7, 10]);
        assert_eq!(ends(&every(5000 * MS, 4)), [1, 2, 3, 4]);
        let mut epochs = EpochSplitter::default();
        let large: Vec<_> = (1..3000)
            .filter(|_| epochs.ends_with(Timestamp(0), 1500))
            .collect();
        assert_eq!(
            (large.as_slice(), epochs.packets()),
            (&[1, 1400, 2799][..], 2999)
        );
        // Isolated packets with earlier timestamps do not end an epoch.
        assert_eq!(
            ends(&[7000 * MS, 0, 6999 * MS, 8000 * MS, i64::MIN, i64::MAX]),
            [1, 4, 6]
        );
    }

    #[test]
    fn clock_continues_after_being_set_back() {
        let mut times: Vec<i64> = (0..500).map(|i| 3_600_000 * MS + i * MS).collect();
        times.extend((0..2000).map(|i| i * MS));
        let ends = ends(&times);
        assert_eq!(&ends[..3], [1, 251, 756]);
        assert_eq!(ends[3..], [1006, 1256, 1506, 1756, 2006, 2256]);
        // One packet with a timestamp in the future.
        let mut times: Vec<i64> = (0..2000).map(|i| i * MS).collect();
        times[100] = i64::MAX;
        assert_eq!(
            self::ends(&times),
            [1, 101, 357, 607, 857, 1107, 1357, 1607, 1857]
        );
    }

    #[test]
    fn live_sources_end_epochs_without_packets() {
        let mut epochs = EpochSplitter::default();
        assert!(epochs.ends_at(Timestamp(0)) && !epochs.ends_at(Timestamp(EPOCH_NS - 1)));
        assert!(
            !epochs.ends_with(Timestamp(EPOCH_NS - 1), LEN) && epochs.ends_at(Timestamp(EPOCH_NS))
        );
        assert_eq!(epochs.clock(), Timestamp(EPOCH_NS));
    }

    proptest! {
        /// Epoch ends do not depend on block boundaries.
        #[test]
        fn blocks_do_not_matter(
            steps in prop::collection::vec(
                prop_oneof![20 => 0..9 * MS, 1 => -5000 * MS..5000 * MS, 1 => -9 * MS..0],
                1..3000,
            ),
            cuts in prop::collection::vec(1usize..200, 1..9),
        ) {
            let times: Vec<i64> = steps.iter().scan(0i64, |t, step| { *t += step; Some(*t) }).collect();
            prop_assert_eq!(ends_in_blocks(&times, &cuts), ends(&times));
        }
    }
}
