//! Memory for outstanding requests: each connection has [`OUTSTANDING_MIN`] slots and borrows more from a
//! budget shared by all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Outstanding requests per connection without a loan; also the slots that one step of a loan adds.
pub const OUTSTANDING_MIN: usize = 1024;

/// Maximum number of requests held; beyond it the oldest is returned unfinished. Default of
/// [`crate::ParserLimits::outstanding_max`].
pub const TRANSACTIONS_MAX: usize = 131_072;

/// A budget in bytes; clones share it.
#[derive(Clone, Debug)]
pub struct OutstandingBudget {
    left: Arc<AtomicI64>,
}

impl OutstandingBudget {
    /// Creates a budget of `max` bytes for all connections.
    #[must_use]
    pub fn of_bytes(max: usize) -> OutstandingBudget {
        OutstandingBudget {
            left: Arc::new(AtomicI64::new(i64::try_from(max).unwrap_or(i64::MAX))),
        }
    }

    fn is_left(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    fn take(&self, bytes: usize) {
        self.left.fetch_sub(bytes as i64, Ordering::Relaxed);
    }
}

/// Memory borrowed by a connection; dropping it returns the bytes.
#[derive(Debug, Default)]
pub(crate) struct BudgetLoan {
    room: Option<OutstandingBudget>,
    /// Slots beyond [`OUTSTANDING_MIN`].
    pub places: usize,
    /// Bytes of the texts of outstanding requests.
    pub text: usize,
    bytes: usize,
}

impl BudgetLoan {
    /// Borrows `places` slots of `each` bytes, and the bytes of texts. Returns false if the budget is used
    /// up. Without a budget every loan is granted.
    pub fn extend(
        &mut self,
        room: Option<&OutstandingBudget>,
        places: usize,
        each: usize,
        text: impl FnOnce() -> usize,
    ) -> bool {
        if room.is_some_and(|room| !room.is_left()) {
            return false;
        }
        let text = text();
        let bytes = places * each + text;
        if let Some(room) = room {
            room.take(bytes);
            self.room.get_or_insert_with(|| room.clone());
            self.bytes += bytes;
        }
        self.places += places;
        self.text += text;
        true
    }
}

impl Drop for BudgetLoan {
    fn drop(&mut self) {
        if let Some(room) = &self.room {
            room.left.fetch_add(self.bytes as i64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_loans_are_returned() {
        let room = OutstandingBudget::of_bytes(1000);
        let mut loan = BudgetLoan::default();
        assert!(loan.extend(Some(&room), 2, 300, || 50) && room.is_left());
        assert!(loan.extend(Some(&room), 2, 300, || 50) && !room.is_left());
        assert!(!loan.extend(Some(&room), 2, 300, || 50));
        assert_eq!((loan.places, loan.text), (4, 100));
        drop(loan);
        assert!(room.is_left());
        assert!(BudgetLoan::default().extend(None, 2, 300, || 50));
    }
}
