//! Selects the `k` largest groups by one aggregate. Ties are broken by the group key, ascending. Groups without a
//! value rank last.

use std::cmp::Ordering;

use crate::ops::group_by::KeyTable;
use crate::scalar::order_rows;

/// A ranking value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RankWeight {
    /// No value.
    Null,
    /// An integer.
    Integer(i128),
    /// A floating point number.
    Real(f64),
}

impl RankWeight {
    /// Null first, then by value. Integers and floating point numbers are not mixed in one ranking.
    #[must_use]
    pub fn order(&self, other: &RankWeight) -> Ordering {
        match (self, other) {
            (RankWeight::Integer(a), RankWeight::Integer(b)) => a.cmp(b),
            (RankWeight::Real(a), RankWeight::Real(b)) => a.total_cmp(b),
            (RankWeight::Null, RankWeight::Null) => Ordering::Equal,
            (RankWeight::Null, _) => Ordering::Less,
            _ => Ordering::Greater,
        }
    }
}

/// The first `k` of `groups` in order; `weights` are in the order of `groups`.
#[must_use]
pub fn top_k(groups: &[u32], weights: &[RankWeight], keys: &KeyTable, k: usize) -> Vec<u32> {
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
