//! Whether a client numbers its binary requests: if its opaques rise, read in either byte order, none comes twice.

use std::collections::VecDeque;

use crate::pairing::TRANSACTIONS_MAX;

/// So many that rise make a client that counts.
const RISING_MIN: u8 = 4;

/// What was seen of a client's opaques.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opaques {
    last: Option<u32>,
    seen: u8,
    rises: bool,
    rises_swapped: bool,
}

impl Opaques {
    /// The next request's opaque.
    #[inline]
    pub fn note(&mut self, opaque: u32) {
        match self.last.replace(opaque) {
            None => (self.rises, self.rises_swapped) = (true, true),
            Some(last) => {
                self.seen = self.seen.saturating_add(1);
                self.rises &= opaque > last;
                self.rises_swapped &= opaque.swap_bytes() > last.swap_bytes();
            }
        }
    }

    /// Whether no two requests have the same one.
    #[inline]
    pub fn are_unique(self) -> bool {
        self.seen >= RISING_MIN && (self.rises || self.rises_swapped)
    }

    /// A key by which they are in order.
    fn order(self, opaque: u32) -> u32 {
        if self.rises { opaque } else { opaque.swap_bytes() }
    }
}

/// The opaques of the last requests that were evicted while opaques were unique, in order.
#[derive(Debug, Default)]
pub struct Evicted(VecDeque<u32>);

impl Evicted {
    /// Another one.
    #[cold]
    pub fn push(&mut self, opaque: u32) {
        if self.0.len() >= TRANSACTIONS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(opaque);
    }

    /// Whether a request with this opaque was evicted.
    #[inline]
    pub fn contains(&self, opaque: u32, all: Opaques) -> bool {
        !self.0.is_empty()
            && self.0.binary_search_by_key(&all.order(opaque), |other| all.order(*other)).is_ok()
    }
}
