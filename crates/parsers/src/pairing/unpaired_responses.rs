//! Responses without a known request, oldest first. Those of the current round are held until the round ends.

use flow::StreamPlace;
use wire::Timestamp;

use super::numbering::MissingRange;
use super::slot_queue::SlotQueue;
use super::transaction::{PairedTransaction, TransactionOutcome};

/// A request and a separate response, by number, that belong together if the client waits for responses.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairCandidate {
    pub request: u64,
    pub response: u64,
    /// Nothing is missing in their round.
    pub is_whole: bool,
}

/// Responses without a known request.
#[derive(Debug)]
pub(super) struct UnpairedResponses<Q, R> {
    base: u64,
    responses: SlotQueue<PairedTransaction<Q, R>>,
    /// Responses below this number belong to finished rounds.
    settled: u64,
    /// Minimum number of responses in the current round: those held, and those missing before them.
    pub least: u64,
    /// Some responses of the current round could not be held.
    pub overflowed: bool,
}

impl<Q: Default, R: Default> Default for UnpairedResponses<Q, R> {
    fn default() -> Self {
        UnpairedResponses {
            base: 0,
            responses: SlotQueue::default(),
            settled: 0,
            least: 0,
            overflowed: false,
        }
    }
}

impl<Q: Default, R: Default> UnpairedResponses<Q, R> {
    /// Adds a response. At most `held_max` are held because their requests may become known.
    pub fn push(
        &mut self,
        first: Timestamp,
        place: StreamPlace,
        hole: MissingRange,
        held_max: usize,
    ) -> (u64, &mut R) {
        let is_held = self.responses.len() < held_max;
        self.overflowed |= held_max > 0 && !is_held;
        self.least += if is_held {
            1 + u64::from(hole.least)
        } else {
            0
        };
        let number = self.end();
        let response = self.responses.push();
        response.begin_alone(first, place, hole);
        if !is_held {
            response.outcome = TransactionOutcome::Half;
        }
        (number, &mut response.response)
    }

    /// Adds a response to an evicted request.
    pub fn push_separated(&mut self, first: Timestamp, place: StreamPlace) -> (u64, &mut R) {
        let number = self.end();
        let response = self.responses.push();
        response.begin_alone(first, place, MissingRange::NONE);
        response.outcome = TransactionOutcome::Half;
        response.separated = true;
        (number, &mut response.response)
    }

    pub fn get(&self, number: u64) -> Option<&PairedTransaction<Q, R>> {
        self.responses
            .get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut PairedTransaction<Q, R>> {
        self.responses
            .get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    /// Marks all responses to be returned as they are.
    pub fn close(&mut self) {
        for i in 0..self.responses.len() {
            if let Some(response) = self.responses.get_mut(i) {
                response.break_off();
            }
        }
    }

    /// Passes the finished responses to `take`, oldest first. Returns whether none is left.
    pub fn hand_out(&mut self, mut take: impl FnMut(&mut PairedTransaction<Q, R>)) -> bool {
        while let Some(front) = self.responses.get_mut(0) {
            // A response of the current round waits for its request.
            if front.outcome == TransactionOutcome::Open || !front.is_over() {
                return false;
            }
            if front.response().is_some() {
                take(front);
            }
            self.base += 1;
            self.responses.pop();
        }
        true
    }

    fn end(&self) -> u64 {
        self.base + self.responses.len() as u64
    }

    /// Responses of the current round.
    pub fn of_round(&self) -> impl Iterator<Item = (u64, &PairedTransaction<Q, R>)> {
        let held =
            (self.settled.max(self.base)..self.end()).filter_map(|n| Some((n, self.get(n)?)));
        held.filter(|(_, response)| response.outcome == TransactionOutcome::Open)
    }

    /// Ends the current round; its responses outside of `pairs` answer no known request. `pairs` are in the
    /// order of their responses.
    pub fn end_round(&mut self, pairs: &[PairCandidate]) {
        let alone: Vec<u64> = self.of_round().map(|(n, _)| n).collect();
        let is_alone = |n: &u64| pairs.binary_search_by_key(n, |pair| pair.response).is_err();
        for number in alone.into_iter().filter(is_alone) {
            if let Some(response) = self.get_mut(number) {
                response.outcome = TransactionOutcome::Half;
            }
        }
        self.settled = self.end();
        self.least = 0;
        self.overflowed = false;
    }
}
