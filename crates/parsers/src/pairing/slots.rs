//! A queue whose places are used again as they were left: what an element has allocated serves the next one there.
//! With one element in and one out, as requests and responses mostly come, it is always the same place, and that lies in
//! the queue itself: it is in the cache when its owner is.
//!
//! Grows by doubling; the caller bounds it. Returns most of its memory, and its loan, when it is empty.

use super::room::Loan;

/// Places kept by an empty queue.
const KEPT_MAX: usize = 8;

/// The queue. Laid out as written.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slots<T> {
    first: usize,
    len: usize,
    /// The place 0.
    one: T,
    /// The others; all together a power of two.
    more: Vec<T>,
    /// The memory for elements beyond those that are always allowed.
    pub loan: Option<Box<Loan>>,
}

impl<T: Default> Slots<T> {
    /// Adds an element, which is what an earlier one left there.
    #[inline]
    pub fn push(&mut self) -> &mut T {
        if self.len == self.places() {
            self.grow();
        }
        self.len += 1;
        let at = self.place(self.len - 1);
        self.at(at)
    }

    /// Takes the oldest element out; there must be one.
    #[inline]
    pub fn pop(&mut self) {
        debug_assert!(self.len > 0, "nothing to take out");
        self.len -= 1;
        // From an empty queue the next element goes to the place that was used last, or to the first.
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
        let mut in_order: Vec<T> = (0..places).map(|i| std::mem::take(self.at(self.place(i)))).collect();
        in_order.resize_with(2 * places, T::default);
        self.first = 0;
        self.one = in_order.remove(0);
        self.more = in_order;
    }
}

impl<T> Slots<T> {
    /// How many elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The element `i`, the oldest being 0.
    #[inline]
    pub fn get(&self, i: usize) -> Option<&T> {
        match self.place(i) {
            _ if i >= self.len => None,
            0 => Some(&self.one),
            at => self.more.get(at - 1),
        }
    }

    /// The same, to change.
    #[inline]
    pub fn get_mut(&mut self, i: usize) -> Option<&mut T> {
        let at = self.place(i);
        if i < self.len { Some(self.at(at)) } else { None }
    }

    #[inline]
    fn at(&mut self, place: usize) -> &mut T {
        if place == 0 { &mut self.one } else { &mut self.more[place - 1] }
    }

    #[inline]
    fn places(&self) -> usize {
        1 + self.more.len()
    }

    /// Where element `i` is, or would be.
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
            let (mut slots, mut queue) = (Slots::<usize>::default(), VecDeque::new());
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
        let mut slots = Slots::<Vec<u8>>::default();
        for n in 0..100 {
            let text = slots.push();
            assert_eq!(text.len(), n);
            text.push(0);
            slots.pop();
        }
        assert_eq!(slots.places(), 1);
    }

    #[test]
    fn empty_it_gives_memory_back() {
        let mut slots = Slots::<u8>::default();
        (0..100).for_each(|_| *slots.push() = 1);
        (0..100).for_each(|_| slots.pop());
        assert_eq!(slots.places(), KEPT_MAX);
    }
}
