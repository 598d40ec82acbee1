//! Limits of the bytes held for reassembly and for the order of delivery. The owner of held bytes charges their cost when
//! it keeps them, and releases it when it delivers or drops them; what is left when a flow ends is released by
//! [`crate::flow_layout::SpillRecord::release`].

use crate::metrics::FlowTableCounters;

/// Overhead of a held segment in bytes.
pub(crate) const HELD_OVERHEAD_BYTES: usize = 256;

/// Limits of held bytes, per direction and for the whole table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReassemblyBudget {
    held: usize,
    max: usize,
    max_per_direction: usize,
}

impl ReassemblyBudget {
    pub fn new(max: usize, max_per_direction: usize) -> ReassemblyBudget {
        ReassemblyBudget {
            held: 0,
            max,
            max_per_direction,
        }
    }

    /// Bytes held by all flows.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether a direction with `cost` may hold `more` bytes.
    pub fn fits(&self, cost: usize, more: usize) -> bool {
        cost + more <= self.max_per_direction && self.fits_table(more)
    }

    /// Whether the table may hold `more` bytes.
    pub fn fits_table(&self, more: usize) -> bool {
        self.held + more <= self.max
    }

    pub fn take(&mut self, cost: usize, totals: &mut FlowTableCounters) {
        self.held += cost;
        totals.held_bytes_peak = totals.held_bytes_peak.max(self.held as u64);
    }

    pub fn release(&mut self, cost: usize) {
        debug_assert!(cost <= self.held, "{cost} of {} bytes", self.held);
        self.held -= cost;
    }
}
