//! Ends of the last read and write of each file, per connection, to distinguish sequential from random operations. The
//! number is limited; half of the entries, the least recently used, are evicted at once.

use hashbrown::HashTable;

/// End positions by key: the hash of connection, file, and kind of operation.
#[derive(Debug)]
pub struct FilePositions {
    young: HashTable<(u64, u64)>,
    /// The older half, without the entries used since.
    old: HashTable<(u64, u64)>,
    half: usize,
    /// Number of evicted end positions.
    pub forgotten: u64,
}

impl FilePositions {
    /// Creates a table of at most `max` end positions.
    #[must_use]
    pub fn new(max: usize) -> FilePositions {
        FilePositions {
            young: HashTable::new(),
            old: HashTable::new(),
            half: max.div_ceil(2).max(1),
            forgotten: 0,
        }
    }

    /// Sets an end and returns the previous one, if known.
    pub fn replace(&mut self, key: u64, end: u64) -> Option<u64> {
        if let Some((_, held)) = self.young.find_mut(key, |(k, _)| *k == key) {
            return Some(std::mem::replace(held, end));
        }
        let before = match self.old.find_entry(key, |(k, _)| *k == key) {
            Ok(entry) => Some(entry.remove().0.1),
            Err(_) => None,
        };
        if self.young.len() >= self.half {
            self.forgotten += self.old.len() as u64;
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert_unique(key, (key, end), |(k, _)| *k);
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::mix;

    #[test]
    fn recently_used_positions_stay_and_evictions_are_counted() {
        let mut positions = FilePositions::new(10);
        for n in 0..100u64 {
            assert_eq!(positions.replace(mix(1000), n + 1), (n > 0).then_some(n));
            assert_eq!(positions.replace(mix(n), n), None);
        }
        let held = positions.young.len() + positions.old.len();
        assert!(held <= 10, "{held}");
        assert_eq!(positions.forgotten + held as u64, 101);
    }
}
