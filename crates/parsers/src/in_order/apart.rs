//! Responses without a request: those whose request will never be known, and those of a damaged batch, which may find
//! theirs when it is over.

use std::collections::VecDeque;

use wire::Timestamp;

use super::batch::Hole;
use super::exchange::{Exchange, is};
use crate::slots::Slots;

/// The responses, by number.
#[derive(Debug)]
pub struct Apart<Q, R> {
    /// The number of the oldest held.
    base: u64,
    exchanges: Slots<Exchange<Q, R>>,
    /// What may be missing before each.
    holes: VecDeque<Hole>,
    /// Those before this one are settled: their requests are not known, or in `pairs`.
    settled: u64,
    /// Requests and responses that belong together if the client asks in batches.
    pairs: Vec<(u64, u64)>,
    /// The last response found its request before it was complete: its number, and the request's.
    pub(super) moved: Option<(u64, u64)>,
}

impl<Q: Default, R: Default> Default for Apart<Q, R> {
    fn default() -> Self {
        Apart {
            base: 0,
            exchanges: Slots::default(),
            holes: VecDeque::new(),
            settled: 0,
            pairs: Vec::new(),
            moved: None,
        }
    }
}

impl<Q: Default, R: Default> Apart<Q, R> {
    /// A response begins at `first`. `hole`: what may be missing before it, if it waits for its request.
    pub fn push(&mut self, first: Timestamp, hole: Option<Hole>) -> (u64, &mut Exchange<Q, R>) {
        let number = self.base + self.exchanges.len() as u64;
        self.moved = None;
        self.holes.push_back(hole.unwrap_or(Hole::NONE));
        let exchange = self.exchanges.push();
        exchange.begin(first);
        exchange.set(is::GIVEN_UP, hole.is_none());
        (number, exchange)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut Exchange<Q, R>> {
        self.exchanges.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    pub fn get(&self, number: u64) -> Option<&Exchange<Q, R>> {
        self.exchanges.get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    pub fn len(&self) -> usize {
        self.exchanges.len()
    }

    /// They are handed out as they are.
    pub fn close(&mut self) {
        for i in 0..self.exchanges.len() {
            if let Some(exchange) = self.exchanges.get_mut(i) {
                exchange.is |= is::FORCED;
            }
        }
    }

    pub fn has_unsettled(&self) -> bool {
        !self.unsettled().is_empty()
    }

    /// Those of the present batch, and what may be missing before each.
    pub fn unsettled(&self) -> Vec<(u64, Hole)> {
        let from = self.settled.max(self.base);
        (from..self.base + self.exchanges.len() as u64)
            .filter(|number| self.get(*number).is_some_and(|e| !e.has(is::GIVEN_UP | is::FORCED)))
            .map(|number| (number, self.holes[(number - self.base) as usize]))
            .collect()
    }

    /// The present batch is over, with these pairs.
    pub fn settle(&mut self, pairs: Vec<(u64, u64)>) {
        for (number, _) in self.unsettled() {
            if !pairs.iter().any(|pair| pair.1 == number)
                && let Some(exchange) = self.get_mut(number)
            {
                exchange.is |= is::GIVEN_UP;
            }
        }
        self.settled = self.base + self.exchanges.len() as u64;
        self.pairs.extend(pairs);
    }

    /// The pairs that nothing has been decided on.
    pub fn pairs(&self) -> &[(u64, u64)] {
        &self.pairs
    }

    pub fn take_pairs(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.pairs)
    }

    /// Hands out those that are over, oldest first. Whether none is left.
    pub fn hand_out(&mut self, mut take: impl FnMut(&mut Exchange<Q, R>)) -> bool {
        while let Some(front) = self.exchanges.get_mut(0) {
            if !front.is_over() {
                return false;
            }
            if front.has(is::ANSWERED) {
                take(front);
            }
            self.base += 1;
            self.holes.pop_front();
            self.exchanges.pop();
        }
        self.moved.is_none()
    }
}
