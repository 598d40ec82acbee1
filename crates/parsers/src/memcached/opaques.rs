//! Detects clients that number their binary requests: ascending opaques, in either byte order, are unique.

use std::collections::VecDeque;

use crate::pairing::TRANSACTIONS_MAX;

/// Ascending opaques required to assume numbering.
const RISING_MIN: u8 = 4;

/// Opaques of a client so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpaqueSequence {
    last: Option<u32>,
    seen: u8,
    rises: bool,
    rises_swapped: bool,
}

impl OpaqueSequence {
    /// Records the next request's opaque.
    #[inline]
    pub fn note(&mut self, opaque: u32) {
        match self.last.replace(opaque) {
            None => {
                self.rises = true;
                self.rises_swapped = true;
            }
            Some(last) => {
                self.seen = self.seen.saturating_add(1);
                self.rises &= opaque > last;
                self.rises_swapped &= opaque.swap_bytes() > last.swap_bytes();
            }
        }
    }

    /// Whether opaques are unique.
    #[inline]
    pub fn are_unique(self) -> bool {
        self.seen >= RISING_MIN && (self.rises || self.rises_swapped)
    }

    /// Sort key of an opaque.
    fn order(self, opaque: u32) -> u32 {
        if self.rises {
            opaque
        } else {
            opaque.swap_bytes()
        }
    }
}

/// The opaques of the last requests that were evicted while opaques were unique, ascending.
#[derive(Debug, Default)]
pub struct EvictedOpaques(VecDeque<u32>);

impl EvictedOpaques {
    /// Adds an evicted request.
    #[cold]
    pub fn push(&mut self, opaque: u32) {
        if self.0.len() >= TRANSACTIONS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(opaque);
    }

    /// Whether a request with this opaque was evicted.
    #[inline]
    pub fn contains(&self, opaque: u32, all: OpaqueSequence) -> bool {
        !self.0.is_empty()
            && self
                .0
                .binary_search_by_key(&all.order(opaque), |other| all.order(*other))
                .is_ok()
    }
}
