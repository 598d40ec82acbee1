//! Assigns the losses that a source reports to periods of time. A live source is read at the end of every epoch and
//! reports the losses since the previous one. A file contains statistics at some positions, for the time since the
//! previous position.

use std::time::{SystemTime, UNIX_EPOCH};

use capture::{PacketSource, SourceCounters};
use stream::{LossCount, LossStretch};
use wire::Timestamp;

use crate::epochs::EpochSplitter;

/// State between two reports.
#[derive(Debug)]
pub(crate) struct LossMeter {
    /// Time of the last report, with the packets received and lost by then.
    told: (Timestamp, u64, u64),
}

impl Default for LossMeter {
    fn default() -> LossMeter {
        LossMeter {
            told: (Timestamp::MIN, 0, 0),
        }
    }
}

impl LossMeter {
    /// Reads the source's counters at the end of an epoch or of the input.
    pub fn look(
        &mut self,
        source: &dyn PacketSource,
        epochs: &EpochSplitter,
    ) -> Option<LossStretch> {
        let counters = source.counters();
        let is_live = counters.clock.is_some();
        let now = if is_live {
            reading_time(epochs.clock(), wall_clock())
        } else {
            epochs.clock()
        };
        self.note((now, epochs.packets(), lost(&counters)), is_live)
    }

    fn note(&mut self, now: (Timestamp, u64, u64), is_live: bool) -> Option<LossStretch> {
        let before = self.told;
        if !is_live && now.2 == before.2 {
            return None;
        }
        self.told = now;
        let packets = LossCount {
            seen: now.1.saturating_sub(before.1),
            lost: now.2.saturating_sub(before.2),
        };
        Some(LossStretch {
            from_ns: before.0.0,
            to_ns: now.0.0,
            packets,
            bytes: LossCount::default(),
        })
    }
}

/// Total packets lost between the network and the source.
pub(crate) fn lost(counters: &SourceCounters) -> u64 {
    counters
        .lost_before_us
        .unwrap_or(0)
        .saturating_add(counters.nic_drops.unwrap_or(0))
}

/// Time to which losses are assigned. When the buffer is full, packets are lost at its end, which is later
/// than the packets being read: the current wall time. If packets have a different clock, the time of the
/// last packet.
fn reading_time(clock: Timestamp, wall: Timestamp) -> Timestamp {
    const BUFFERED_NS: i64 = 60_000_000_000;
    if (0..BUFFERED_NS).contains(&wall.since(clock)) {
        wall
    } else {
        clock
    }
}

fn wall_clock() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each report (time, packets, lost): the expected period with packets seen and lost.
    fn check(is_live: bool, notes: &[(i64, u64, u64)], expected: &[Option<(i64, i64, u64, u64)>]) {
        let mut meter = LossMeter::default();
        let note = |&(at, packets, lost): &(i64, u64, u64)| {
            let stretch = meter.note((Timestamp(at), packets, lost), is_live)?;
            Some((
                stretch.from_ns,
                stretch.to_ns,
                stretch.packets.seen,
                stretch.packets.lost,
            ))
        };
        assert_eq!(notes.iter().map(note).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn live_sources_speak_of_the_time_since_the_last_look() {
        let expected = [
            Some((i64::MIN, 5, 10, 0)),
            Some((5, 7, 20, 3)),
            Some((7, 9, 0, 0)),
        ];
        check(true, &[(5, 10, 0), (7, 30, 3), (9, 30, 3)], &expected);
    }

    #[test]
    fn losses_of_files_cover_the_time_since_the_previous_report() {
        let expected = [None, Some((i64::MIN, 7, 30, 3)), None, Some((7, 20, 30, 6))];
        check(
            false,
            &[(5, 10, 0), (7, 30, 3), (9, 40, 3), (20, 60, 9)],
            &expected,
        );
    }

    #[test]
    fn losses_are_not_older_than_buffered_packets() {
        let check = |clock, wall, expected| {
            assert_eq!(
                reading_time(Timestamp(clock), Timestamp(wall)),
                Timestamp(expected)
            );
        };
        check(1_000_000_000, 3_000_000_000, 3_000_000_000);
        check(1_000_000_000, 999_999_999, 1_000_000_000);
        check(1_000_000_000, 100_000_000_000, 1_000_000_000);
        check(i64::MIN, i64::MAX, i64::MIN);
    }
}
