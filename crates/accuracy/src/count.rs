//! What a comparison comes to: how much was found, and what was wrong.

use std::fmt;

use crate::Observed;

/// Outcomes of the transactions of a capture.
#[derive(Clone, Debug, Default)]
pub struct Count {
    /// Transactions that the whole capture has.
    pub transactions: usize,
    /// Those of which the packets with the request's first and last byte and the response's first were all seen.
    pub findable: usize,
    /// Those of them that were found.
    pub found: usize,
    /// The same where clients wait for their answers.
    pub waiting: (usize, usize),
    /// Found whole and marked `exact`.
    pub exact: usize,
    /// Found whole with another mark.
    pub marked: usize,
    /// One half was reported, or both separately.
    pub half: usize,
    /// Not reported.
    pub missed: usize,
    /// Tuples with both halves, by their own account.
    pub pairs: usize,
    /// Tuples that claim what is not so.
    pub faults: Vec<Fault>,
}

/// A tuple that claims what is not so.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What is wrong with it.
    pub kind: FaultKind,
    /// In words.
    pub why: String,
    /// The tuple.
    pub told: Observed,
    /// The transaction that begins there, or was meant.
    pub truth: Option<Observed>,
}

/// What can be wrong with a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Request and response belong to different transactions, no transaction starts there, or it was reported twice.
    Pair,
    /// A value is not so, or `exact` lacks one, or was complete before the end.
    Value,
    /// `exact`, and a byte is missing.
    ExactWithHole,
    /// Any of that in a tuple that is marked `half`.
    Half,
}

impl Count {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: Count) {
        self.transactions += other.transactions;
        self.findable += other.findable;
        self.found += other.found;
        self.waiting.0 += other.waiting.0;
        self.waiting.1 += other.waiting.1;
        self.exact += other.exact;
        self.marked += other.marked;
        self.half += other.half;
        self.missed += other.missed;
        self.pairs += other.pairs;
        self.faults.extend(other.faults);
    }

    /// How many faults there are of a kind.
    #[must_use]
    pub fn of(&self, kind: FaultKind) -> usize {
        self.faults.iter().filter(|f| f.kind == kind).count()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}\n      told  {}", self.kind, self.why, self.told)?;
        self.truth.as_ref().map_or(Ok(()), |truth| write!(f, "\n      true  {truth}"))
    }
}
