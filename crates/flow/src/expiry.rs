//! Flow expiry: the caller's clock, a timing wheel with ticks of about an eighth of a second, and its lists. Constant
//! work per flow for any clock. Flows are only numbers here; whether one is really due is checked lazily when its
//! tick has passed.

use std::ptr;

use wire::Timestamp;

use crate::store::ChunkedArray;

/// A monotonic clock advanced by the caller; for timeouts, not for measurements.
#[derive(Debug, Default)]
pub(crate) struct TableClock {
    /// Current time; `None` initially.
    now: Option<i64>,
    /// Added to packet times after permanent backward steps.
    offset: i64,
    /// Number of permanent backward steps.
    pub rebases: u64,
}

/// Maximum backward deviation of the caller's time; beyond it, the clock was set back (NTP, a second, older capture
/// file).
const BEHIND_NS: i64 = 500_000_000;

impl TableClock {
    /// Advances to the caller's time; returns the clock's time.
    pub fn advance(&mut self, ts: Timestamp) -> i64 {
        let shown = self.shown(ts);
        let now = self.now.get_or_insert(shown);
        if shown >= *now {
            *now = shown;
        } else if now.saturating_sub(shown) > BEHIND_NS {
            self.offset = now.saturating_sub(ts.0);
            self.rebases += 1;
        }
        *now
    }

    /// Clock time for a flow last seen at `seen_at` when a packet with time `ts` arrives: determined by the flow's
    /// own packets, even if the clock is behind them.
    #[inline]
    pub fn at(&self, ts: Timestamp, seen_at: i64) -> i64 {
        self.now
            .unwrap_or(i64::MIN)
            .max(self.shown(ts))
            .max(seen_at)
    }

    /// For later packets, [`TableClock::at`] returns their own time, unless the flow was seen later.
    #[inline]
    pub fn floor(&self) -> Timestamp {
        Timestamp(if self.offset == 0 {
            self.now.unwrap_or(i64::MIN)
        } else {
            i64::MAX
        })
    }

    #[inline]
    fn shown(&self, ts: Timestamp) -> i64 {
        ts.0.saturating_add(self.offset)
    }
}

/// Index that stands for no flow or no list.
pub(crate) const NONE: u32 = u32::MAX;

/// Doubly linked lists of small numbers, each in at most one list; all operations take constant time.
#[derive(Debug)]
pub(crate) struct LinkedLists {
    links: ChunkedArray<ListLink>,
    /// First and last item of each list.
    ends: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct ListLink {
    prev: u32,
    next: u32,
    list: u32,
}

impl LinkedLists {
    pub fn new(lists: usize) -> LinkedLists {
        LinkedLists {
            links: ChunkedArray::default(),
            ends: vec![(NONE, NONE); lists],
        }
    }

    pub fn list_of(&self, item: u32) -> Option<u32> {
        self.links.get(item).map(|l| l.list).filter(|l| *l != NONE)
    }

    pub fn first(&self, list: u32) -> Option<u32> {
        Some(self.ends[list as usize].0).filter(|i| *i != NONE)
    }

    /// Moves `item` to the end of `list`.
    pub fn push_back(&mut self, list: u32, item: u32) {
        self.remove(item);
        while self.links.get(item).is_none() {
            self.links.push(ListLink {
                prev: NONE,
                next: NONE,
                list: NONE,
            });
        }
        let (first, last) = self.ends[list as usize];
        *self.links.at_mut(item) = ListLink {
            prev: last,
            next: NONE,
            list,
        };
        if last != NONE {
            self.links.at_mut(last).next = item;
        }
        self.ends[list as usize] = (if first == NONE { item } else { first }, item);
    }

    /// Removes `item` from its list, if any.
    pub fn remove(&mut self, item: u32) {
        let Some(list) = self.list_of(item) else {
            return;
        };
        let ListLink { prev, next, .. } = *self.links.at(item);
        let ends = &mut self.ends[list as usize];
        match prev {
            NONE => ends.0 = next,
            prev => self.links.at_mut(prev).next = next,
        }
        match next {
            NONE => ends.1 = prev,
            next => self.links.at_mut(next).prev = prev,
        }
        self.links.at_mut(item).list = NONE;
    }

    /// Moves all items of `from` to the end of `to`.
    pub fn append(&mut self, from: u32, to: u32) {
        while let Some(item) = self.first(from) {
            self.push_back(to, item);
        }
    }
}

/// The timing wheel. An item rescheduled while those due at `now` are popped comes later than `now`, so popping ends
/// for any deadlines.
#[derive(Debug)]
pub(crate) struct TimingWheel {
    /// One list for each tick of a turn, and [`DUE`].
    lists: LinkedLists,
    /// Next tick to process.
    cursor: Option<i64>,
}

/// Ticks of about an eighth of a second.
const TICK_SHIFT: u32 = 27;
/// Ticks per turn; later deadlines are checked once per turn.
const TICKS: i64 = 4096;
/// List of items scheduled a whole turn ago.
const DUE: u32 = TICKS as u32;

impl TimingWheel {
    pub fn new() -> TimingWheel {
        TimingWheel {
            lists: LinkedLists::new(TICKS as usize + 1),
            cursor: None,
        }
    }

    /// Schedules `item` for when the clock has passed `deadline`, with a small delay; a deadline before `now` counts
    /// as `now`.
    pub fn schedule(&mut self, item: u32, deadline: i64, now: i64) {
        let tick = self.tick_after(deadline, now);
        self.lists.push_back((tick % TICKS) as u32, item);
    }

    /// Schedules `item` unless it is already scheduled earlier.
    pub fn hasten(&mut self, item: u32, deadline: i64, now: i64) {
        let tick = self.tick_after(deadline, now);
        let cursor = self.cursor.unwrap_or(tick);
        let list = self.lists.list_of(item);
        let planned = list.map(|list| match list {
            DUE => cursor,
            list => cursor + (i64::from(list) - cursor).rem_euclid(TICKS),
        });
        if planned.is_none_or(|planned| planned > tick) {
            self.lists.push_back((tick % TICKS) as u32, item);
        }
    }

    /// Address of the memory needed to move or cancel an item.
    #[inline]
    pub fn link_of(&self, item: u32) -> *const u8 {
        self.lists
            .links
            .get(item)
            .map_or(ptr::null(), |link| ptr::from_ref(link).cast())
    }

    pub fn cancel(&mut self, item: u32) {
        self.lists.remove(item);
    }

    /// Removes and returns the next item whose tick has passed. After a jump in time each tick is visited once.
    pub fn pop(&mut self, now: i64) -> Option<u32> {
        let current = tick_of(now);
        let cursor = self.cursor.get_or_insert(current);
        if *cursor <= current - TICKS {
            // Items there must not mix with those scheduled for the current tick.
            *cursor = current - TICKS + 1;
            self.lists.append((current % TICKS) as u32, DUE);
        }
        let first = |list: u32| self.lists.first(list);
        let item = first(DUE).or_else(|| {
            (*cursor..current).find_map(|tick| {
                *cursor = tick;
                first((tick % TICKS) as u32)
            })
        });
        match item {
            Some(item) => self.lists.remove(item),
            None => *cursor = current.max(*cursor),
        }
        item
    }

    fn tick_after(&mut self, deadline: i64, now: i64) -> i64 {
        let current = tick_of(now);
        let cursor = *self.cursor.get_or_insert(current);
        tick_of(deadline)
            .max(cursor)
            .max(current)
            .min(cursor + TICKS - 1)
    }
}

/// Tick number, counted from the year 1677, so that none is negative.
fn tick_of(ns: i64) -> i64 {
    (ns >> TICK_SHIFT) + (1 << (63 - TICK_SHIFT))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: i64 = 1 << TICK_SHIFT;

    fn due(wheel: &mut TimingWheel, now: i64) -> Vec<u32> {
        std::iter::from_fn(|| wheel.pop(now)).collect()
    }

    #[test]
    fn items_come_when_their_tick_has_passed() {
        let mut wheel = TimingWheel::new();
        wheel.schedule(1, 5 * TICK, 0);
        wheel.schedule(2, 5 * TICK + 1, 0);
        wheel.schedule(3, 100 * TICK, 0);
        assert_eq!(due(&mut wheel, 5 * TICK), [0u32; 0]);
        assert_eq!(due(&mut wheel, 6 * TICK), [1, 2]);
        assert_eq!(due(&mut wheel, 100 * TICK), [0u32; 0]);
        assert_eq!(due(&mut wheel, 101 * TICK), [3]);
    }

    #[test]
    fn far_deadlines_come_early_and_years_pass_at_once() {
        let mut wheel = TimingWheel::new();
        wheel.schedule(1, i64::MAX, 0);
        wheel.schedule(2, 3 * TICK, 0);
        assert_eq!(due(&mut wheel, (TICKS - 1) * TICK), [2]);
        assert_eq!(due(&mut wheel, TICKS * TICK), [1]);
        wheel.schedule(1, (TICKS + 88) * TICK, TICKS * TICK);
        assert_eq!(due(&mut wheel, i64::MAX), [1]);
        assert_eq!(due(&mut wheel, i64::MAX), [0u32; 0]);
    }

    #[test]
    fn hasten_only_brings_forward() {
        let mut wheel = TimingWheel::new();
        wheel.schedule(1, 100 * TICK, 0);
        wheel.hasten(1, 200 * TICK, 0);
        wheel.hasten(2, 7 * TICK, 0);
        assert_eq!(due(&mut wheel, 101 * TICK), [2, 1]);
        wheel.schedule(1, 300 * TICK, 101 * TICK);
        wheel.hasten(1, 102 * TICK, 101 * TICK);
        assert_eq!(due(&mut wheel, 103 * TICK), [1]);
    }

    #[test]
    fn lists_keep_order() {
        let mut lists = LinkedLists::new(2);
        for i in 0..5 {
            lists.push_back(0, i);
        }
        lists.remove(0);
        lists.remove(2);
        lists.remove(2);
        lists.push_back(1, 3);
        lists.push_back(0, 1);
        assert_eq!((lists.first(0), lists.first(1)), (Some(4), Some(3)));
        lists.remove(4);
        lists.remove(1);
        lists.remove(3);
        assert_eq!((lists.first(0), lists.first(1)), (None, None));
    }

    #[test]
    fn the_clock_stands_while_time_is_a_little_behind_and_follows_when_it_was_set_back() {
        let mut clock = TableClock::default();
        assert_eq!(clock.at(Timestamp(7), 5), 7);
        assert_eq!(
            clock.advance(Timestamp(1_000 * BEHIND_NS)),
            1_000 * BEHIND_NS
        );
        assert_eq!(clock.advance(Timestamp(999 * BEHIND_NS)), 1_000 * BEHIND_NS);
        assert_eq!(clock.floor(), Timestamp(1_000 * BEHIND_NS));
        clock.advance(Timestamp(99));
        assert_eq!((clock.rebases, clock.floor()), (1, Timestamp::MAX));
        let now = clock.advance(Timestamp(100));
        assert_eq!(clock.advance(Timestamp(1_100)), now + 1_000);
        assert_eq!(clock.at(Timestamp(1_200), 0), now + 1_100);
        clock.advance(Timestamp(i64::MIN));
        clock.advance(Timestamp(i64::MAX));
    }
}
