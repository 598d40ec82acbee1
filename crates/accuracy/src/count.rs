//! Results of a comparison: numbers of transactions and faults.

use std::fmt;

use crate::ObservedTuple;

/// Outcomes of the transactions of a capture.
#[derive(Clone, Debug, Default)]
pub struct OutcomeCounts {
    /// Transactions of the whole capture.
    pub transactions: usize,
    /// Transactions for which the packets with the first and last byte of the request and the first byte of the
    /// response were seen.
    pub findable: usize,
    /// Findable transactions that were found.
    pub found: usize,
    /// `findable` and `found` of clients that wait for responses.
    pub waiting: (usize, usize),
    /// Found completely and marked `exact`.
    pub exact: usize,
    /// Found completely with another mark.
    pub marked: usize,
    /// One half was reported, or both separately.
    pub half: usize,
    /// Not reported.
    pub missed: usize,
    /// Tuples reported as having both halves.
    pub pairs: usize,
    /// Tuples with false values.
    pub faults: Vec<TupleFault>,
}

/// A tuple with a false value.
#[derive(Clone, Debug)]
pub struct TupleFault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Description.
    pub why: String,
    /// The tuple.
    pub told: ObservedTuple,
    /// The transaction that begins there, or was intended.
    pub truth: Option<ObservedTuple>,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Request and response belong to different transactions, no transaction starts there, or it was reported twice.
    Pair,
    /// A value is false, or is missing from an `exact` tuple, or was complete before the end.
    Value,
    /// `exact`, although a byte is missing.
    ExactWithHole,
    /// Any of these faults in a tuple marked `half`.
    Half,
}

impl OutcomeCounts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: OutcomeCounts) {
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

    /// Number of faults of a kind.
    #[must_use]
    pub fn of(&self, kind: FaultKind) -> usize {
        self.faults.iter().filter(|f| f.kind == kind).count()
    }
}

impl fmt::Display for TupleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}: {}\n      told  {}",
            self.kind, self.why, self.told
        )?;
        self.truth
            .as_ref()
            .map_or(Ok(()), |truth| write!(f, "\n      true  {truth}"))
    }
}
