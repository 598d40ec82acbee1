//! A queue that reuses its slots without clearing them: the allocations of an element serve the next one in
//! the same slot. With alternating `push` and `pop`, the common case of requests and responses, it is always
//! the same slot, stored inline in the queue and therefore in the cache with its owner.
//!
//! Grows by doubling; the caller bounds it. Returns most of its memory, and its loan, when it becomes empty.

use super::outstanding_budget::BudgetLoan;

/// Slots kept by an empty queue.
const KEPT_MAX: usize = 8;

/// The queue. Fields are in `repr(C)` order.
#[derive(Debug, Default)]
#[repr(C)]
pub struct SlotQueue<T> {
    first: usize,
    len: usize,
    /// Slot 0.
    one: T,
    /// Slots 1 and up; the total is a power of two.
    more: Vec<T>,
    /// Memory for elements beyond the free allowance.
    pub loan: Option<Box<BudgetLoan>>,
}

impl<T: Default> SlotQueue<T> {
    /// Adds an element, which contains an earlier one.
    #[inline]
    pub fn push(&mut self) -> &mut T {
        if self.len == self.places() {
            self.grow();
        }
        self.len += 1;
        let at = self.place(self.len - 1);
        self.at(at)
    }

    /// Removes the oldest element; the queue must not be empty.
    #[inline]
    pub fn pop(&mut self) {
        debug_assert!(self.len > 0, "nothing to take out");
        self.len -= 1;
        // If the queue is empty, the next element reuses the last slot, or slot 0 after shrinking.
        if self.len > 0 {
            self.first = self.place(1);
        } else if self.places() > KEPT_MAX {
            self.first = 0;
            self.more.truncate(KEPT_MAX - 1);
            self.more.shrink_to_fit();
            self.loan = None;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let places = self.places();
        let mut in_order: Vec<T> = (0..places)
            .map(|i| std::mem::take(self.at(self.place(i))))
            .collect();
        in_order.resize_with(2 * places, T::default);
        self.first = 0;
        self.one = in_order.remove(0);
        self.more = in_order;
    }
}

impl<T> SlotQueue<T> {
    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Element `i`; 0 is the oldest.
    #[inline]
    pub fn get(&self, i: usize) -> Option<&T> {
        match self.place(i) {
            _ if i >= self.len => None,
            0 => Some(&self.one),
            at => self.more.get(at - 1),
        }
    }

    /// Mutable element `i`; 0 is the oldest.
    #[inline]
    pub fn get_mut(&mut self, i: usize) -> Option<&mut T> {
        let at = self.place(i);
        if i < self.len {
            Some(self.at(at))
        } else {
            None
        }
    }

    /// All slots in any order, also unused ones, which keep old contents.
    pub fn slots_mut(&mut self) -> impl Iterator<Item = &mut T> {
        std::iter::once(&mut self.one).chain(&mut self.more)
    }

    #[inline]
    fn at(&mut self, place: usize) -> &mut T {
        if place == 0 {
            &mut self.one
        } else {
            &mut self.more[place - 1]
        }
    }

    #[inline]
    fn places(&self) -> usize {
        1 + self.more.len()
    }

    /// Slot of element `i`.
    #[inline]
    fn place(&self, i: usize) -> usize {
        self.first.wrapping_add(i) & self.more.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn is_a_queue(steps in proptest::collection::vec(any::<bool>(), 0..200)) {
            let mut slots = SlotQueue::<usize>::default();
            let mut queue = VecDeque::new();
            for (n, push) in steps.into_iter().enumerate() {
                if push {
                    *slots.push() = n;
                    queue.push_back(n);
                } else if queue.pop_front().is_some() {
                    slots.pop();
                }
                prop_assert_eq!(slots.len(), queue.len());
                prop_assert!((0..=queue.len()).all(|i| slots.get(i) == queue.get(i)));
                let last = queue.len().wrapping_sub(1);
                prop_assert_eq!(slots.get_mut(last).copied(), queue.get(last).copied());
            }
        }
    }

    #[test]
    fn one_in_and_one_out_is_always_the_same_place() {
        let mut slots = SlotQueue::<Vec<u8>>::default();
        for n in 0..100 {
            let text = slots.push();
            assert_eq!(text.len(), n);
            text.push(0);
            slots.pop();
        }
        assert_eq!(slots.places(), 1);
    }

    #[test]
    fn empty_queues_release_memory() {
        let mut slots = SlotQueue::<u8>::default();
        (0..100).for_each(|_| *slots.push() = 1);
        (0..100).for_each(|_| slots.pop());
        assert_eq!(slots.places(), KEPT_MAX);
    }
}
