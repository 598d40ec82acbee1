//! Responses that name their requests, and searches for a request by its contents.

use flow::StreamPlace;
use wire::Timestamp;

use super::queue::{CountValidity, IdMatching, TransactionQueue};
use super::transaction::{MessageProgress, PairedTransaction, RequestMatcher};

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
        (transaction.answered, transaction.response_first) = (MessageProgress::Begun, first);
        transaction.recounted = !exact;
        Some(&mut transaction.response)
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
