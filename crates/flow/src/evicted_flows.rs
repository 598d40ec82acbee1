//! Set of evicted flows, so that a reopened one is not counted as another. Stores a bounded number of hashes: if two
//! share a slot, the later one stays.

/// The set; empty until a flow is evicted.
#[derive(Debug, Default)]
pub(crate) struct EvictedFlows {
    /// High half of the hash, indexed by its low bits; 0 if empty.
    tags: Vec<u32>,
}

/// Number of slots: 4 MiB.
const PLACES: usize = 1 << 20;

impl EvictedFlows {
    pub fn remember(&mut self, hash: u64) {
        if self.tags.is_empty() {
            self.tags = vec![0; PLACES];
        }
        self.tags[hash as usize % PLACES] = tag(hash);
    }

    /// Removes a flow; returns whether it was in the set.
    pub fn take(&mut self, hash: u64) -> bool {
        let place = self
            .tags
            .get_mut(hash as usize % PLACES)
            .filter(|place| **place == tag(hash));
        place.is_some_and(|place| std::mem::take(place) != 0)
    }
}

fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_remembered_once() {
        let mut evicted = EvictedFlows::default();
        let hash = 0x0123_4567_89ab_cdef;
        assert!(!evicted.take(hash));
        evicted.remember(hash);
        assert!(!evicted.take(hash ^ 1 << 40) && evicted.take(hash) && !evicted.take(hash));
    }
}
