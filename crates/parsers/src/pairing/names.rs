//! Responses that name their requests, and searches for a request by its contents.

use flow::StreamPlace;
use wire::Timestamp;

use super::numbering::MissingRange;
use super::queue::{CountValidity, IdMatching, TransactionQueue};
use super::transaction::{
    MessageProgress, PairedTransaction, RequestMatcher, TransactionOutcome, can_answer,
};

/// Total requests that searches by name may visit, per request sent.
const SEARCHED_PER_REQUEST: u64 = 64;
/// Requests that any search by name may visit.
const SEARCHED_MIN: u64 = 256;

impl<Q: Default, R: Default + RequestMatcher<Q>> TransactionQueue<Q, R> {
    /// Begins the response to request `number`, which it names; returns its slot. Earlier optional requests
    /// have had no response; after missing messages, no earlier request can be answered any more.
    pub fn response_to(
        &mut self,
        number: u64,
        first: Timestamp,
        place: StreamPlace,
    ) -> Option<&mut R> {
        let hole = self.begin_answer(place);
        self.doubt_responses(hole);
        self.at(number).filter(|t| t.waits())?;
        let exact = match self.counting {
            CountValidity::Exact => true,
            CountValidity::ExactBelow(limit) => number < limit,
            CountValidity::Lost(_) => false,
        };
        if exact {
            self.pass_over_silent(number);
        } else {
            self.give_up(self.base, number);
            self.count_from(number + 1);
        }
        let transaction = self.at(number)?;
        transaction.answered = MessageProgress::Begun;
        transaction.response_first = first;
        transaction.recounted = !exact;
        Some(&mut transaction.response)
    }

    /// For protocols whose responses come in any order and name their requests: nothing is counted.
    #[must_use]
    pub fn with_ids(mut self) -> Self {
        self.naming = IdMatching::AnyOrder;
        self
    }

    /// Begins the response to request `number` in a queue [`TransactionQueue::with_ids`]; returns its slot. `None`: the
    /// request is not held, is answered, or was sent after the response.
    pub fn response_by_id(
        &mut self,
        number: u64,
        first: Timestamp,
        place: StreamPlace,
    ) -> Option<&mut R> {
        let can_be = |t: &PairedTransaction<Q, R>| t.waits() && can_answer(t.place, place);
        self.get(number).filter(|t| can_be(t))?;
        self.begin_answer(place);
        let transaction = self.at(number)?;
        transaction.answered = MessageProgress::Begun;
        transaction.response_first = first;
        Some(&mut transaction.response)
    }

    /// Position of request `number`, if it is held.
    #[must_use]
    pub fn place_of(&self, number: u64) -> Option<StreamPlace> {
        let transaction = self.get(number)?;
        transaction.request().map(|_| transaction.place)
    }

    /// Whether the response to request `number` has begun and has not ended.
    #[must_use]
    pub fn is_in_answer(&self, number: u64) -> bool {
        self.get(number)
            .is_some_and(|t| t.answered == MessageProgress::Begun)
    }

    /// Responses that have begun and have not ended.
    pub fn begun_responses(&mut self) -> impl Iterator<Item = &mut R> {
        self.queue
            .slots_mut()
            .filter(|t| t.answered == MessageProgress::Begun)
            .map(|t| &mut t.response)
    }

    /// Passes transaction `number` to `take` if it is finished, even if others before it are not.
    pub fn hand_out_one(&mut self, number: u64, take: impl FnOnce(&mut PairedTransaction<Q, R>)) {
        if let Some(transaction) = self.at(number).filter(|t| t.is_over()) {
            take(transaction);
            transaction.vacate();
        }
    }

    /// Moves the oldest request behind all others if it waits, so that the slots of finished ones after it are released.
    /// Returns its new number.
    pub fn defer_oldest(&mut self) -> Option<u64> {
        let is_complete =
            |t: &&mut PairedTransaction<Q, R>| t.waits() && t.asked == MessageProgress::Ended;
        let oldest = self.queue.get_mut(0).filter(is_complete)?;
        let request = std::mem::take(oldest);
        oldest.vacate();
        *self.queue.push() = request;
        self.next_request += 1;
        Some(self.next_request - 1)
    }

    /// Disables counting: from here on every response names its request, and names of waiting requests are
    /// unique. A response without [`TransactionQueue::response_to`] answers no request.
    pub fn name_requests(&mut self) {
        if self.naming == IdMatching::None {
            self.naming = IdMatching::Unique;
            self.end_rounds();
        }
    }

    /// Enables counting again: from here on requests are matched by order.
    pub fn count_requests(&mut self) {
        if self.naming == IdMatching::Unique {
            self.naming = IdMatching::None;
            let waits = |n: &u64| self.get(*n).is_some_and(PairedTransaction::waits);
            self.next_response = (self.base..self.next_request)
                .find(waits)
                .unwrap_or(self.next_request);
        }
    }

    /// Returns the number of the oldest waiting request that satisfies `is_it`; `None` also if the search
    /// limit is reached.
    pub fn find_waiting(&mut self, is_it: impl Fn(&Q) -> bool) -> Option<u64> {
        let patience =
            (SEARCHED_PER_REQUEST * self.next_request).saturating_sub(self.searched_by_name);
        let to = self
            .next_request
            .min(self.base + patience.max(SEARCHED_MIN));
        let is_found = |n: &u64| {
            self.get(*n)
                .is_some_and(|t| t.waits() && t.request().is_some_and(&is_it))
        };
        let found = (self.base..to).find(is_found);
        self.searched_by_name += found.unwrap_or(to) - self.base;
        found
    }
}

impl<Q, R> PairedTransaction<Q, R> {
    /// Leaves only its slot in the queue.
    fn vacate(&mut self) {
        self.asked = MessageProgress::Unseen;
        self.answered = MessageProgress::Unseen;
        self.outcome = TransactionOutcome::Silent;
        self.hole = MissingRange::NONE;
    }
}
