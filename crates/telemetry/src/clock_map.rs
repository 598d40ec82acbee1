//! A map with a bounded number of entries; the CLOCK algorithm selects the entry to evict.

use std::collections::HashMap;
use std::hash::Hash;

#[derive(Debug)]
/// See the module documentation.
pub struct ClockMap<K, V> {
    slots_by_key: HashMap<K, usize>,
    slots: Vec<ClockSlot<K, V>>,
    /// Slot of the latest key, which is often asked for again.
    latest: usize,
    hand: usize,
    capacity: usize,
}

#[derive(Debug)]
struct ClockSlot<K, V> {
    key: K,
    value: V,
    /// Used since the hand last passed.
    is_used: bool,
}

impl<K: Hash + Eq + Copy, V> ClockMap<K, V> {
    /// `capacity`: at least one entry.
    pub fn new(capacity: usize) -> ClockMap<K, V> {
        ClockMap {
            slots_by_key: HashMap::new(),
            slots: Vec::new(),
            latest: 0,
            hand: 0,
            capacity: capacity.max(1),
        }
    }

    /// The value of a key, without noting the use.
    pub fn get(&self, key: &K) -> Option<&V> {
        Some(&self.slots[self.place(key)?].value)
    }

    /// The value of a key; notes the use.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.latest = self.place(key)?;
        let slot = &mut self.slots[self.latest];
        slot.is_used = true;
        Some(&mut slot.value)
    }

    fn place(&self, key: &K) -> Option<usize> {
        match self.slots.get(self.latest) {
            Some(slot) if slot.key == *key => Some(self.latest),
            _ => self.slots_by_key.get(key).copied(),
        }
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.slots.iter().map(|slot| (&slot.key, &slot.value))
    }

    /// Inserts or replaces; returns the evicted entry, if any.
    pub fn insert(&mut self, key: K, value: V) -> Option<(K, V)> {
        if let Some(kept) = self.get_mut(&key) {
            *kept = value;
            return None;
        }
        let slot = ClockSlot {
            key,
            value,
            is_used: true,
        };
        if self.slots.len() < self.capacity {
            self.slots_by_key.insert(key, self.slots.len());
            self.slots.push(slot);
            return None;
        }
        let victim = self.advance();
        self.slots_by_key.insert(key, victim);
        let evicted = std::mem::replace(&mut self.slots[victim], slot);
        self.slots_by_key.remove(&evicted.key);
        Some((evicted.key, evicted.value))
    }

    /// Removes an entry that was not used recently; `None` if only `except` is left.
    pub fn evict(&mut self, except: &K) -> Option<(K, V)> {
        if self.slots.is_empty() || self.slots.len() == 1 && self.slots[0].key == *except {
            return None;
        }
        let mut victim = self.advance();
        while self.slots[victim].key == *except {
            victim = self.advance();
        }
        let evicted = self.slots.swap_remove(victim);
        self.slots_by_key.remove(&evicted.key);
        if let Some(moved) = self.slots.get(victim) {
            self.slots_by_key.insert(moved.key, victim);
        }
        self.hand = if self.slots.is_empty() {
            0
        } else {
            self.hand % self.slots.len()
        };
        Some((evicted.key, evicted.value))
    }

    /// The next slot that was not used since the hand's last turn.
    fn advance(&mut self) -> usize {
        loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            if !std::mem::take(&mut self.slots[at].is_used) {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_entries_stay() {
        let mut map = ClockMap::new(3);
        (0..3).for_each(|key| assert_eq!(map.insert(key, key), None));
        assert_eq!(map.insert(3, 3), Some((0, 0)));
        assert!(map.get_mut(&1).is_some());
        assert_eq!(map.insert(4, 4), Some((2, 2)));
        assert_eq!(map.get_mut(&1), Some(&mut 1));
        assert_eq!(map.get_mut(&2), None);
        assert_eq!(map.insert(1, 9), None);
        assert_eq!(map.get_mut(&1), Some(&mut 9));
    }

    #[test]
    fn everything_but_one_can_be_evicted() {
        let mut map = ClockMap::new(100);
        (0..50).for_each(|key| assert_eq!(map.insert(key, key), None));
        let evicted: Vec<_> = std::iter::from_fn(|| map.evict(&7)).collect();
        assert_eq!(evicted.len(), 49);
        assert_eq!(map.iter().collect::<Vec<_>>(), [(&7, &7)]);
    }
}
