//! Losses by sequence numbers, told from reordering and restarts.

/// Losses of one domain, in the unit of its sequence numbers: datagrams (sFlow, NetFlow v9) or records (NetFlow v5,
/// IPFIX).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceLosses {
    /// Units received.
    pub received: u64,
    /// Units missing, without those that arrived late.
    pub lost: u64,
    /// Units that arrived after later ones.
    pub reordered: u64,
    /// Units that arrived twice, or so late that their loss was counted.
    pub repeated: u64,
    /// Restarts of the exporter; units lost around a restart are unknown.
    pub restarts: u64,
}

/// Gaps that late units can still close.
const OPEN_GAPS: usize = 8;
/// Larger jumps are restarts.
const MAX_JUMP: u32 = 1 << 20;

#[derive(Clone, Copy, Debug, Default)]
struct SequenceGap {
    start: u32,
    len: u32,
}

/// Units that a sequence number counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SequenceOrigin {
    /// Not yet decided: so far all messages had the same number of units.
    #[default]
    Unknown,
    /// Units before the message, as the RFCs require.
    Before,
    /// Units before the message and in it (softflowd's IPFIX).
    Inclusive,
}

/// The sequence of one domain.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceTracker {
    next: Option<u32>,
    origin: SequenceOrigin,
    /// Sequence number and units of the last message.
    last: Option<(u32, u32)>,
    gaps: [SequenceGap; OPEN_GAPS],
    oldest_gap: usize,
    losses: SequenceLosses,
}

impl SequenceTracker {
    pub fn losses(&self) -> SequenceLosses {
        self.losses
    }

    /// Takes a message with `count` units and the number `sequence`. `restarted`: the exporter's uptime went back.
    pub fn advance(&mut self, sequence: u32, count: u32, restarted: bool) {
        self.losses.received += u64::from(count);
        self.learn_origin(sequence, count);
        self.last = Some((sequence, count));
        let start = if self.origin == SequenceOrigin::Inclusive {
            sequence.wrapping_sub(count)
        } else {
            sequence
        };
        let after = start.wrapping_add(count);
        let Some(next) = self.next else {
            self.next = Some(after);
            return;
        };
        let ahead = start.wrapping_sub(next);
        let behind = next.wrapping_sub(start);
        if restarted || ahead.min(behind) > MAX_JUMP {
            self.restart(after);
        } else if ahead <= MAX_JUMP {
            if ahead > 0 {
                self.open_gap(next, ahead);
            }
            self.next = Some(after);
        } else {
            self.close_gap(start, count);
        }
    }

    /// The number of units of a message is unknown: the next one is not compared.
    pub fn lose_count(&mut self) {
        self.next = None;
        self.last = None;
    }

    /// Two successive messages with different numbers of units decide what their numbers count.
    fn learn_origin(&mut self, sequence: u32, count: u32) {
        let Some((last, last_count)) = self.last.filter(|last| last.1 != count) else {
            return;
        };
        if self.origin != SequenceOrigin::Unknown {
            return;
        }
        if sequence == last.wrapping_add(last_count) {
            self.origin = SequenceOrigin::Before;
        } else if sequence == last.wrapping_add(count) {
            self.origin = SequenceOrigin::Inclusive;
            self.next = Some(last);
        }
    }

    fn restart(&mut self, next: u32) {
        self.losses.restarts += 1;
        self.gaps = Default::default();
        self.next = Some(next);
    }

    fn open_gap(&mut self, start: u32, len: u32) {
        self.losses.lost += u64::from(len);
        self.gaps[self.oldest_gap] = SequenceGap { start, len };
        self.oldest_gap = (self.oldest_gap + 1) % OPEN_GAPS;
    }

    /// Late units close (part of) the gap that contains their first one. A gap that they split keeps its longer part.
    fn close_gap(&mut self, start: u32, count: u32) {
        let gap = self
            .gaps
            .iter_mut()
            .find(|gap| start.wrapping_sub(gap.start) < gap.len);
        let Some(gap) = gap else {
            self.losses.repeated += u64::from(count);
            return;
        };
        let before = start.wrapping_sub(gap.start);
        let late = count.min(gap.len - before);
        let after = gap.len - before - late;
        *gap = if before >= after {
            SequenceGap {
                start: gap.start,
                len: before,
            }
        } else {
            SequenceGap {
                start: start.wrapping_add(late),
                len: after,
            }
        };
        self.losses.lost -= u64::from(late);
        self.losses.reordered += u64::from(late);
        self.losses.repeated += u64::from(count - late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(units: &[(u32, u32)]) -> SequenceLosses {
        let mut tracker = SequenceTracker::default();
        units
            .iter()
            .for_each(|(start, count)| tracker.advance(*start, *count, false));
        tracker.losses()
    }

    #[test]
    fn gaps_are_losses_and_wrap() {
        assert_eq!(
            after(&[(u32::MAX - 1, 2), (0, 3), (5, 1)]),
            SequenceLosses {
                received: 6,
                lost: 2,
                ..SequenceLosses::default()
            }
        );
    }

    #[test]
    fn late_units_are_not_lost() {
        let found = after(&[(0, 10), (30, 10), (10, 10), (20, 10), (40, 1)]);
        assert_eq!((found.lost, found.reordered, found.repeated), (0, 20, 0));
    }

    #[test]
    fn the_middle_of_a_gap_can_arrive_late() {
        let found = after(&[(0, 1), (10, 1), (4, 2), (6, 4)]);
        assert_eq!((found.lost, found.reordered), (3, 6));
    }

    #[test]
    fn repeated_units_are_counted_once() {
        let found = after(&[(0, 5), (5, 5), (0, 5)]);
        assert_eq!((found.lost, found.repeated), (0, 5));
    }

    #[test]
    fn some_exporters_count_the_message_itself() {
        let found = after(&[(25, 25), (42, 17), (50, 8), (60, 5)]);
        assert_eq!((found.received, found.lost, found.repeated), (55, 5, 0));
        let found = after(&[(0, 25), (25, 17), (47, 8), (55, 5)]);
        assert_eq!((found.received, found.lost, found.repeated), (55, 5, 0));
    }

    #[test]
    fn a_restart_is_no_loss() {
        let found = after(&[(40_000_000, 5), (0, 5), (5, 5)]);
        assert_eq!((found.lost, found.restarts), (0, 1));
        let mut tracker = SequenceTracker::default();
        tracker.advance(700, 5, false);
        tracker.advance(0, 5, true);
        tracker.advance(6, 5, false);
        let found = tracker.losses();
        assert_eq!((found.lost, found.restarts, found.repeated), (1, 1, 0));
    }
}
