//! Keeps the `k` largest groups by one aggregate; ties by the group's key, ascending. A group without a value comes
//! last.

use std::cmp::Ordering;

use crate::ops::group_by::KeyTable;
use crate::scalar::order_rows;

/// What groups are ranked by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weight {
    /// No value.
    Null,
    /// Exact.
    Integer(i128),
    /// Of the others.
    Real(f64),
}

impl Weight {
    /// Null first, then by value. Integers and reals are not mixed in one ranking.
    #[must_use]
    pub fn order(&self, other: &Weight) -> Ordering {
        match (self, other) {
            (Weight::Integer(a), Weight::Integer(b)) => a.cmp(b),
            (Weight::Real(a), Weight::Real(b)) => a.total_cmp(b),
            (Weight::Null, Weight::Null) => Ordering::Equal,
            (Weight::Null, _) => Ordering::Less,
            _ => Ordering::Greater,
        }
    }
}

/// The first `k` of `groups` in order; `weights` are theirs, by place.
#[must_use]
pub fn top_k(groups: &[u32], weights: &[Weight], keys: &KeyTable, k: usize) -> Vec<u32> {
    let order = |a: &usize, b: &usize| {
        let by_key = || order_rows(keys.key(groups[*a]), keys.key(groups[*b]));
        weights[*b].order(&weights[*a]).then_with(by_key)
    };
    let mut places: Vec<usize> = (0..groups.len()).collect();
    if k < places.len() {
        if k > 0 {
            places.select_nth_unstable_by(k - 1, order);
        }
        places.truncate(k);
    }
    places.sort_unstable_by(order);
    places.into_iter().map(|place| groups[place]).collect()
}
