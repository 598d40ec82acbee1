//! Index from a flow key's hash to the flow's place: open addressing with linear probing, eight bytes per entry, at
//! most half full, so that one cache line usually suffices. Keys are stored with the flows; a 32-bit tag makes
//! accesses to wrong flows rare. Deletion closes the hole, so there are no tombstones.

/// The index; an entry is the low half of the hash above, the place plus one below, or 0 if empty.
#[derive(Debug)]
pub(crate) struct FlowIndex {
    entries: Vec<u64>,
    len: usize,
}

const SMALLEST: usize = 1 << 10;

impl FlowIndex {
    pub fn new() -> FlowIndex {
        FlowIndex {
            entries: vec![0; SMALLEST],
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The place with a matching tag that `is_it` accepts.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.mask();
        let mut at = home(hash, mask);
        loop {
            let entry = self.entries[at & mask];
            if entry == 0 {
                return None;
            }
            if tag(entry) == hash as u32 && is_it(place(entry)) {
                return Some(place(entry));
            }
            at += 1;
        }
    }

    /// Address of the first entry that [`FlowIndex::find`] reads.
    #[inline]
    pub fn first_entry(&self, hash: u64) -> *const u64 {
        self.entries.as_ptr().wrapping_add(home(hash, self.mask()))
    }

    /// The probable result of [`FlowIndex::find`], by tag only.
    #[inline]
    pub fn guess(&self, hash: u64) -> Option<u32> {
        self.find(hash, |_| true)
    }

    /// Adds a place that is not in the index.
    pub fn insert(&mut self, hash: u64, place: u32) {
        if (self.len + 1) * 2 > self.entries.len() {
            self.grow();
        }
        self.len += 1;
        self.put(u64::from(hash as u32) << 32 | (u64::from(place) + 1));
    }

    /// Removes a place.
    pub fn remove(&mut self, hash: u64, gone: u32) {
        let mask = self.mask();
        let mut at = home(hash, mask);
        while place(self.entries[at & mask]) != gone {
            if self.entries[at & mask] == 0 {
                return;
            }
            at += 1;
        }
        self.len -= 1;
        self.close_hole(at & mask);
    }

    /// Moves back entries that would not be found after the hole (Knuth, vol. 3, 6.4, algorithm R).
    fn close_hole(&mut self, mut hole: usize) {
        let mask = self.mask();
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let entry = self.entries[at];
            if entry == 0 {
                break;
            }
            let wanted = home(entry >> 32, mask);
            if (at.wrapping_sub(wanted) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.entries[hole] = entry;
                hole = at;
            }
        }
        self.entries[hole] = 0;
    }

    fn put(&mut self, entry: u64) {
        let mask = self.mask();
        let mut at = home(entry >> 32, mask);
        while self.entries[at & mask] != 0 {
            at += 1;
        }
        self.entries[at & mask] = entry;
    }

    fn grow(&mut self) {
        let doubled = vec![0; self.entries.len() * 2];
        for entry in std::mem::replace(&mut self.entries, doubled) {
            if entry != 0 {
                self.put(entry);
            }
        }
    }

    #[inline]
    fn mask(&self) -> usize {
        self.entries.len() - 1
    }
}

#[inline]
fn home(hash: u64, mask: usize) -> usize {
    hash as u32 as usize & mask
}

#[inline]
fn tag(entry: u64) -> u32 {
    (entry >> 32) as u32
}

#[inline]
fn place(entry: u64) -> u32 {
    (entry as u32).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Compares with a map; few distinct home slots, so that probe sequences are long and wrap around.
        #[test]
        fn agrees_with_a_map(steps in prop::collection::vec((any::<bool>(), 0u32..3000), 1..4000)) {
            let hash = |n: u32| u64::from((n / 40).wrapping_mul(2_654_435_769).wrapping_add(n % 3)) | 0x3f0;
            let mut index = FlowIndex::new();
            let mut map = HashMap::new();
            for (insert, n) in steps {
                if insert && !map.contains_key(&n) {
                    index.insert(hash(n), n);
                    map.insert(n, hash(n));
                } else if !insert && map.remove(&n).is_some() {
                    index.remove(hash(n), n);
                }
                prop_assert_eq!(index.len(), map.len());
            }
            for n in 0..3000 {
                let found = index.find(hash(n), |place| place == n);
                prop_assert_eq!(found, map.contains_key(&n).then_some(n));
            }
        }
    }
}
