//! Responses that name their requests, and searches for a request by what it says.

use flow::Place;
use wire::Timestamp;

use super::queue::{Counting, Naming, Transactions};
use super::transaction::{Answers, Part, Transaction};

/// Requests that a search by name may pass, for each request sent so far.
const SEARCHED_PER_REQUEST: u64 = 64;
/// Requests that any search by name may pass.
const SEARCHED_MIN: u64 = 256;

impl<Q: Default, R: Default + Answers<Q>> Transactions<Q, R> {
    /// A response to the request `number`, which it names. Gives its place. Those before that need not be answered were not;
    /// behind missing messages no other is answered any more either.
    pub fn response_to(&mut self, number: u64, first: Timestamp, place: Place) -> Option<&mut R> {
        let hole = self.begin_answer(place);
        self.doubt_responses(hole);
        self.at(number).filter(|t| t.waits())?;
        let exact = match self.counting {
            Counting::Exact => true,
            Counting::ExactBelow(limit) => number < limit,
            Counting::Lost(_) => false,
        };
        if exact {
            self.pass_over_silent(number);
        } else {
            self.give_up(self.base, number);
            self.count_from(number + 1);
        }
        let transaction = self.at(number)?;
        (transaction.answered, transaction.response_first) = (Part::Begun, first);
        transaction.recounted = !exact;
        Some(&mut transaction.response)
    }

    /// From here on every response names its request, and no two requests that wait have the same name: there is nothing to
    /// count. What is not answered with [`Transactions::response_to`] answers nothing.
    pub fn name_requests(&mut self) {
        if self.naming == Naming::None {
            self.naming = Naming::Unique;
            self.end_rounds();
        }
    }

    /// From here on order alone tells again.
    pub fn count_requests(&mut self) {
        if self.naming == Naming::Unique {
            self.naming = Naming::None;
            let waits = |n: &u64| self.get(*n).is_some_and(Transaction::waits);
            self.next_response = (self.base..self.next_request).find(waits).unwrap_or(self.next_request);
        }
    }

    /// The oldest request that waits and `is_it`, with its number; none if that were too long a search.
    pub fn find_waiting(&mut self, is_it: impl Fn(&Q) -> bool) -> Option<u64> {
        let patience = (SEARCHED_PER_REQUEST * self.next_request).saturating_sub(self.searched_by_name);
        let to = self.next_request.min(self.base + patience.max(SEARCHED_MIN));
        let is_found = |n: &u64| self.get(*n).is_some_and(|t| t.waits() && t.request().is_some_and(&is_it));
        let found = (self.base..to).find(is_found);
        self.searched_by_name += found.unwrap_or(to) - self.base;
        found
    }
}
