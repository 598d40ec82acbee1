//! Keys with their counts: all keys up to a limit, then the keys with the largest weights (Space-Saving). A new key
//! replaces the one with the smallest weight and inherits its weight; its other counts start at zero.
//!
//! Keys are compared by 64-bit hashes, for long texts by the hash of the displayed part ([`name_of`]). Merging
//! follows Agarwal et al. 2012, "Mergeable summaries": weights are never underestimated, and overestimated by at most
//! the error.

use std::cmp::Reverse;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::seed::RESULT_SEED;
use crate::sketch::SpaceSaving;

/// Maximum bytes of a key's text.
pub const NAME_BYTES: usize = 256;

/// Counts of a key besides its weight.
pub trait KeyCounts: Default {
    /// Adds the counts of another part or worker.
    fn merge(&mut self, other: &Self);
}

impl KeyCounts for u128 {
    fn merge(&mut self, other: &u128) {
        *self = self.saturating_add(*other);
    }
}

/// Keys with weights and other counts.
#[derive(Clone, Debug)]
pub struct HeavyHitters<T> {
    max: usize,
    places: HashTable<u32>,
    entries: Vec<HeavyHitter<T>>,
    weights: SpaceSaving,
    /// Bytes of all texts.
    name_bytes: usize,
    /// Whether a key was evicted.
    overflowed: bool,
}

#[derive(Clone, Debug)]
struct HeavyHitter<T> {
    hash: u64,
    name: Box<str>,
    counted: T,
}

/// A key for output.
#[derive(Debug)]
pub struct RankedKey<'a, T> {
    /// Text of the key.
    pub name: &'a str,
    /// Upper bound of the weight.
    pub weight: u128,
    /// Maximum overestimate of the weight.
    pub error: u128,
    /// Further counts, since the key was added.
    pub counted: &'a T,
}

impl<T: KeyCounts> HeavyHitters<T> {
    /// Creates a list of at most `max` keys.
    #[must_use]
    pub fn new(max: usize) -> HeavyHitters<T> {
        HeavyHitters {
            max: max.max(1),
            places: HashTable::new(),
            entries: Vec::new(),
            weights: SpaceSaving::default(),
            name_bytes: 0,
            overflowed: false,
        }
    }

    /// Adds weight to a key; `name` is called only for a new key. Returns the key's counts, and whether it evicted
    /// another key.
    pub fn add(
        &mut self,
        hash: u64,
        name: impl FnOnce() -> Box<str>,
        weight: u128,
    ) -> (&mut T, bool) {
        let entries = &self.entries;
        let found = self
            .places
            .find(hash, |place| entries[*place as usize].hash == hash)
            .copied();
        let evicts = found.is_none() && self.entries.len() >= self.max;
        let place = found.unwrap_or_else(|| {
            let entry = HeavyHitter {
                hash,
                name: name(),
                counted: T::default(),
            };
            if evicts {
                self.take_over(entry)
            } else {
                self.list(entry)
            }
        });
        self.weights
            .add(place, i128::try_from(weight).unwrap_or(i128::MAX));
        (&mut self.entries[place as usize].counted, evicts)
    }

    /// Merges another list; returns the number of evicted keys.
    pub fn merge(&mut self, other: HeavyHitters<T>) -> usize {
        let my_floor = self.floor();
        let their_floor = other.floor();
        let mut weights: Vec<(u128, u128)> = (0..self.entries.len() as u32)
            .map(|place| (self.weights.weight(place), self.weights.error(place)))
            .map(|(weight, error)| {
                (
                    weight.saturating_add(their_floor),
                    error.saturating_add(their_floor),
                )
            })
            .collect();
        self.overflowed |= other.overflowed;
        for (theirs, place) in other.entries.into_iter().zip(0..) {
            let weight = other.weights.weight(place);
            let error = other.weights.error(place);
            let entries = &self.entries;
            match self.places.find(theirs.hash, |place| {
                entries[*place as usize].hash == theirs.hash
            }) {
                Some(&place) => {
                    let (mine, my_error) = weights[place as usize];
                    weights[place as usize] = (
                        mine.saturating_sub(their_floor).saturating_add(weight),
                        my_error.saturating_sub(their_floor).saturating_add(error),
                    );
                    self.entries[place as usize].counted.merge(&theirs.counted);
                }
                None => {
                    self.list(theirs);
                    weights.push((
                        weight.saturating_add(my_floor),
                        error.saturating_add(my_floor),
                    ));
                }
            }
        }
        self.keep_heaviest(weights)
    }

    /// The weight of a listed key.
    #[must_use]
    pub fn weight_of(&self, hash: u64) -> Option<u128> {
        self.place_of(hash).map(|place| self.weights.weight(place))
    }

    /// Whether keys were evicted: weights may then be too high, and keys may be missing.
    #[must_use]
    pub fn is_overflowed(&self) -> bool {
        self.overflowed
    }

    /// Keys by descending weight, equal ones by text.
    #[must_use]
    pub fn ranking(&self) -> Vec<RankedKey<'_, T>> {
        let mut all = self.in_order();
        all.sort_unstable_by_key(|ranked| (Reverse(ranked.weight), ranked.name));
        all
    }

    /// All keys in the order of their entries.
    #[must_use]
    pub fn in_order(&self) -> Vec<RankedKey<'_, T>> {
        let weights = (0..).map(|place| (self.weights.weight(place), self.weights.error(place)));
        let all = self.entries.iter().zip(weights);
        all.map(
            |(HeavyHitter { name, counted, .. }, (weight, error))| RankedKey {
                name,
                weight,
                error,
                counted,
            },
        )
        .collect()
    }

    /// Maximum number of keys.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max
    }

    /// The index of a listed key.
    #[must_use]
    pub fn place_of(&self, hash: u64) -> Option<u32> {
        self.places
            .find(hash, |place| self.entries[*place as usize].hash == hash)
            .copied()
    }

    /// The hash of the key at an index.
    #[must_use]
    pub fn hash_at(&self, place: u64) -> Option<u64> {
        self.entries
            .get(usize::try_from(place).ok()?)
            .map(|entry| entry.hash)
    }

    /// Adds a key with its weight to be set by [`HeavyHitters::set_weights`]; false for a duplicate or a text that is too
    /// long.
    #[must_use]
    pub fn enlist(&mut self, hash: u64, name: &str, counted: T) -> bool {
        let is_new = self.place_of(hash).is_none() && name.len() <= NAME_BYTES;
        if is_new {
            self.list(HeavyHitter {
                hash,
                name: name.into(),
                counted,
            });
        }
        is_new
    }

    /// Sets the weights and errors of all keys.
    pub fn set_weights(&mut self, weights: Vec<(u128, u128)>, is_overflowed: bool) {
        let (weights, errors) = weights.into_iter().unzip();
        self.weights = SpaceSaving::from_parts(weights, errors, 0);
        self.overflowed = is_overflowed;
    }

    /// The counts of each key.
    pub fn counted(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.counted)
    }

    /// Approximate memory, without the heap memory of the counts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<HeavyHitter<T>>();
        entries + self.places.allocation_size() + self.weights.bytes() + self.name_bytes
    }

    /// Maximum weight of an unlisted key.
    fn floor(&self) -> u128 {
        if self.overflowed {
            self.weights.least()
        } else {
            0
        }
    }

    fn list(&mut self, entry: HeavyHitter<T>) -> u32 {
        let place = self.entries.len() as u32;
        self.name_bytes += entry.name.len();
        self.enter(entry.hash, place);
        self.entries.push(entry);
        self.weights.push();
        place
    }

    fn take_over(&mut self, entry: HeavyHitter<T>) -> u32 {
        self.overflowed = true;
        let place = self.weights.evict();
        let old = self.entries[place as usize].hash;
        if let Ok(held) = self.places.find_entry(old, |held| *held == place) {
            held.remove();
        }
        self.enter(entry.hash, place);
        self.name_bytes += entry.name.len();
        let old = std::mem::replace(&mut self.entries[place as usize], entry);
        self.name_bytes -= old.name.len();
        place
    }

    fn enter(&mut self, hash: u64, place: u32) {
        let entries = &self.entries;
        self.places
            .insert_unique(hash, place, |held| entries[*held as usize].hash);
    }

    /// Keeps only the maximum number of keys, with these weights and errors.
    fn keep_heaviest(&mut self, weights: Vec<(u128, u128)>) -> usize {
        let mut all: Vec<(HeavyHitter<T>, (u128, u128))> = std::mem::take(&mut self.entries)
            .into_iter()
            .zip(weights)
            .collect();
        let lost = all.len().saturating_sub(self.max);
        if lost > 0 {
            self.overflowed = true;
            all.sort_unstable_by(|(a, (x, _)), (b, (y, _))| {
                y.cmp(x).then_with(|| a.name.cmp(&b.name))
            });
            all.truncate(self.max);
        }
        self.places.clear();
        self.name_bytes = all.iter().map(|(entry, _)| entry.name.len()).sum();
        let (entries, weights): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        for (entry, place) in entries.into_iter().zip(0..) {
            self.entries.push(entry);
            let entries = &self.entries;
            let hash = entries[place as usize].hash;
            self.places
                .insert_unique(hash, place, |held| entries[*held as usize].hash);
        }
        let (weights, errors) = weights.into_iter().unzip();
        self.weights = SpaceSaving::from_parts(weights, errors, 0);
        lost
    }
}

/// The displayed text of a key. A long text is cut and ends with a hash of the whole, so that texts with the same
/// prefix differ.
#[must_use]
pub fn name_of(text: &str) -> Box<str> {
    if text.len() <= NAME_BYTES {
        return text.into();
    }
    let hash = format!("…{:016x}", xxh3_64_with_seed(text.as_bytes(), RESULT_SEED));
    let end = text.floor_char_boundary(NAME_BYTES - hash.len());
    format!("{}{hash}", &text[..end]).into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::column::mix;

    proptest! {
        #[test]
        fn bounds_hold_over_parts(
            parts in prop::collection::vec(prop::collection::vec((0u64..40, 0u32..20), 0..200), 1..4), max in 1usize..50,
        ) {
            let mut truth: HashMap<String, u128> = HashMap::new();
            let mut all = HeavyHitters::<u128>::new(max);
            for part in parts {
                let mut heavy = HeavyHitters::<u128>::new(max);
                for (key, weight) in part {
                    *truth.entry(key.to_string()).or_default() += u128::from(weight);
                    *heavy.add(mix(key), || name_of(&key.to_string()), weight.into()).0 += 1;
                }
                all.merge(heavy);
            }
            let ranking = all.ranking();
            prop_assert!(ranking.len() <= max);
            prop_assert!(ranking.is_sorted_by_key(|r| (Reverse(r.weight), r.name)));
            prop_assert_eq!(all.is_overflowed(), truth.len() > max);
            for listed in &ranking {
                let weight = truth.remove(listed.name).expect("it was added");
                prop_assert!(weight <= listed.weight && weight >= listed.weight - listed.error);
                prop_assert!(all.is_overflowed() || listed.error == 0);
            }
            prop_assert!(truth.values().all(|weight| *weight <= all.floor()));
        }
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(&*name_of("a/b"), "a/b");
        let long = "ü".repeat(300);
        let name = name_of(&long);
        assert!(
            name.len() <= NAME_BYTES && name.starts_with(&"ü".repeat(118)),
            "{name}"
        );
        assert_ne!(name, name_of(&format!("{long}x")));
        assert_eq!(name_of(&name), name);
    }
}
