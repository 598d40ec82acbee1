//! Space-Saving (Metwally et al. 2005): the weights of the largest groups in a fixed number of entries. A new group
//! replaces the one with the smallest weight and inherits that weight as its possible error.
//!
//! For non-negative additions, the true weight of a listed group is in `[weight − error, weight]`; that of an
//! unlisted group is at most [`SpaceSaving::least`], which is at most total / entries. Negative additions count as
//! zero and are summed in `negative`: true weights may be lower by up to that amount. Groups are numbers; keys are
//! stored elsewhere.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Weights and errors by group number.
///
/// ```
/// let mut summary = stream::sketch::SpaceSaving::new([5, 3].into_iter());
/// let place = summary.evict(); // for a third group: that of the lighter one
/// summary.add(place, 1);
/// assert_eq!((place, summary.weight(place), summary.error(place)), (1, 4, 3));
/// ```
#[derive(Clone, Debug, Default)]
pub struct SpaceSaving {
    weights: Vec<u128>,
    errors: Vec<u128>,
    negative: u128,
    /// One entry per group with an earlier weight. Weights only grow, so the smallest up-to-date entry is the
    /// minimum.
    heap: BinaryHeap<Reverse<(u128, u32)>>,
}

impl SpaceSaving {
    /// Approximate memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.weights.len() * (2 * size_of::<u128>() + size_of::<Reverse<(u128, u32)>>())
    }

    /// Creates a summary from groups with exact weights.
    #[must_use]
    pub fn new(exact: impl Iterator<Item = i128>) -> SpaceSaving {
        let mut weights = Vec::new();
        let mut errors = Vec::new();
        for weight in exact {
            weights.push(weight.max(0) as u128);
            errors.push(weight.min(0).unsigned_abs());
        }
        SpaceSaving::from_parts(weights, errors, 0)
    }

    /// Creates a summary from the results of [`SpaceSaving::weight`], [`SpaceSaving::error`], and
    /// [`SpaceSaving::negative`].
    #[must_use]
    pub fn from_parts(weights: Vec<u128>, errors: Vec<u128>, negative: u128) -> SpaceSaving {
        let heap = weights
            .iter()
            .enumerate()
            .map(|(group, weight)| Reverse((*weight, group as u32)))
            .collect();
        SpaceSaving {
            weights,
            errors,
            negative,
            heap,
        }
    }

    /// Adds a new group with weight zero.
    pub fn push(&mut self) {
        self.heap.push(Reverse((0, self.weights.len() as u32)));
        self.weights.push(0);
        self.errors.push(0);
    }

    /// Adds a group that is never replaced: its weight is the maximum.
    pub fn push_pinned(&mut self) {
        self.heap
            .push(Reverse((u128::MAX, self.weights.len() as u32)));
        self.weights.push(u128::MAX);
        self.errors.push(0);
    }

    /// Adds to the weight of a listed group.
    #[inline]
    pub fn add(&mut self, group: u32, weight: i128) {
        let up = weight.max(0) as u128;
        let sum = &mut self.weights[group as usize];
        *sum = sum.saturating_add(up);
        self.negative = self.negative.saturating_add(weight.min(0).unsigned_abs());
    }

    /// Merges the weight and error of a group from another summary. A group that is new here gets the next number;
    /// its earlier weight here was at most `floor`.
    pub fn merge(&mut self, group: u32, (weight, error): (u128, u128), floor: u128) {
        if group as usize == self.weights.len() {
            self.weights.push(floor);
            self.errors.push(floor);
            self.heap.push(Reverse((floor, group)));
        }
        let mine = &mut self.weights[group as usize];
        let possible = &mut self.errors[group as usize];
        *mine = mine.saturating_add(weight);
        *possible = possible.saturating_add(error);
    }

    /// Replaces the group with the smallest weight and returns its number for the new group.
    ///
    /// # Panics
    /// If there is no group.
    pub fn evict(&mut self) -> u32 {
        let group = self.lightest();
        self.errors[group as usize] = self.weights[group as usize];
        group
    }

    /// The smallest weight: the maximum weight of an unlisted group.
    #[must_use]
    pub fn least(&self) -> u128 {
        self.weights.iter().copied().min().unwrap_or(0)
    }

    /// Upper bound of a group's weight.
    #[must_use]
    pub fn weight(&self, group: u32) -> u128 {
        self.weights[group as usize]
    }

    /// Maximum overestimate of a group's weight, without negative additions.
    #[must_use]
    pub fn error(&self, group: u32) -> u128 {
        self.errors[group as usize]
    }

    /// The absolute sum of negative additions.
    #[must_use]
    pub fn negative(&self) -> u128 {
        self.negative
    }

    /// The group with the smallest weight, which [`SpaceSaving::evict`] replaces.
    ///
    /// # Panics
    /// If there is no group.
    pub fn lightest(&mut self) -> u32 {
        loop {
            let mut top = self
                .heap
                .peek_mut()
                .expect("a full summary has at least one group");
            let Reverse((stale, group)) = *top;
            let weight = self.weights[group as usize];
            if stale == weight {
                return group;
            }
            *top = Reverse((weight, group));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bounds_hold(adds in prop::collection::vec((0u8..40, 0i64..20), 1..400), places in 1usize..20) {
            let mut truth: HashMap<u8, u128> = HashMap::new();
            let mut places_of: HashMap<u8, u32> = HashMap::new();
            let mut summary = SpaceSaving::default();
            for (key, weight) in adds {
                *truth.entry(key).or_default() += weight as u128;
                let group = match places_of.get(&key) {
                    Some(group) => *group,
                    None if places_of.len() < places => {
                        summary.push();
                        places_of.len() as u32
                    }
                    None => {
                        let group = summary.evict();
                        places_of.retain(|_, g| *g != group);
                        group
                    }
                };
                places_of.insert(key, group);
                summary.add(group, i128::from(weight));
            }
            let total: u128 = truth.values().sum();
            prop_assert!(summary.least() <= total / places as u128 || places_of.len() < places);
            for (key, weight) in truth {
                match places_of.get(&key) {
                    Some(&g) => prop_assert!(
                        weight <= summary.weight(g) && weight >= summary.weight(g) - summary.error(g)
                    ),
                    None => prop_assert!(weight <= summary.least()),
                }
            }
        }
    }
}
