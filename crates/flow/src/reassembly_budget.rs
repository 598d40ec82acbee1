//! Limits of the bytes held for reassembly and for the order of delivery.

use crate::metrics::FlowTableCounters;

/// Overhead of a held segment in bytes.
pub(crate) const HELD_OVERHEAD_BYTES: usize = 256;

/// Limits of held bytes, per direction and for the whole table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReassemblyBudget {
    /// Bytes held by all flows.
    pub held: usize,
    pub max: usize,
    pub max_per_direction: usize,
}

impl ReassemblyBudget {
    /// Whether a direction with `cost` may hold `more` bytes.
    pub fn fits(&self, cost: usize, more: usize) -> bool {
        cost + more <= self.max_per_direction && self.held + more <= self.max
    }

    pub fn take(&mut self, cost: usize, totals: &mut FlowTableCounters) {
        self.held += cost;
        totals.held_bytes_peak = totals.held_bytes_peak.max(self.held as u64);
    }
}
