//! Which flows were evicted, so that one that opens again is not taken for another. Remembers a bounded number by their hashes:
//! where two share a place, the later one stays.

/// See the module's text; empty until a flow is evicted.
#[derive(Debug, Default)]
pub(crate) struct Evicted {
    /// By the low bits of the hash its high half, 0 where there is none.
    tags: Vec<u32>,
}

/// Places: 4 MiB.
const PLACES: usize = 1 << 20;

impl Evicted {
    pub fn remember(&mut self, hash: u64) {
        if self.tags.is_empty() {
            self.tags = vec![0; PLACES];
        }
        self.tags[hash as usize % PLACES] = tag(hash);
    }

    /// Forgets a flow; whether it was known.
    pub fn take(&mut self, hash: u64) -> bool {
        let place = self.tags.get_mut(hash as usize % PLACES).filter(|place| **place == tag(hash));
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
        let mut evicted = Evicted::default();
        let hash = 0x0123_4567_89ab_cdef;
        assert!(!evicted.take(hash));
        evicted.remember(hash);
        assert!(!evicted.take(hash ^ 1 << 40) && evicted.take(hash) && !evicted.take(hash));
    }
}
