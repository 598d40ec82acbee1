//! Numbers that identify the owner of rules on switches: 12 bits of a rule's cookie. A server keeps its number while it
//! has no rules, when it cannot be recognized as taken, so the ranges of kept and of temporary numbers are separate.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use anyhow::Context;

/// Count of numbers in each half.
const HALF: u16 = 1 << 11;

/// Half of the range of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleOwnerKind {
    /// Number of a process whose rules end with it.
    Passing,
    /// Number that a process uses again after a restart.
    Kept,
}

impl RuleOwnerKind {
    fn first(self) -> u16 {
        if self == RuleOwnerKind::Kept { HALF } else { 0 }
    }

    /// Whether a number is in this half.
    pub fn has(self, number: u16) -> bool {
        (self.first()..self.first() + HALF).contains(&number)
    }

    /// A number without rules. The search starts at a random one, for processes that start at the same time.
    pub fn free_number(self, taken: &BTreeSet<u16>) -> anyhow::Result<u16> {
        let from = RandomState::new().hash_one(std::process::id()) as u16;
        let mut all = (0..HALF).map(|nth| self.first() + from.wrapping_add(nth) % HALF);
        let free = all.find(|number| !taken.contains(number));
        free.with_context(|| format!("these switches have rules of {HALF} other processes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_owner_numbers_are_unique() {
        for (half, first) in [(RuleOwnerKind::Passing, 0), (RuleOwnerKind::Kept, 2048)] {
            let mut taken: BTreeSet<u16> = (first..first + 2048).collect();
            let why = half
                .free_number(&taken)
                .expect_err("none is left")
                .to_string();
            assert_eq!(why, "these switches have rules of 2048 other processes");
            taken.remove(&(first + 77));
            assert_eq!(half.free_number(&taken).expect("one is left"), first + 77);
            assert!(half.has(first) && half.has(first + 2047) && !half.has(2048 - first));
        }
    }
}
