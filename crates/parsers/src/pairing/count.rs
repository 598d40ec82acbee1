//! Counting: the n-th response answers the n-th request, with requests that may remain unanswered.

use flow::StreamPlace;

use super::numbering::MissingRange;
use super::queue::{CountValidity, IdMatching, MissingSide, SCAN_MAX, TransactionQueue};
use super::transaction::{
    MessageProgress, NoResponseMeaning, RequestMatcher, ResponseExpectation, ResponseMatch,
    TransactionOutcome, can_answer,
};

/// Result of counting for one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountMatch {
    To(u64),
    /// One of several optional requests; counting continues.
    OneOf,
    /// No request is waiting.
    Nobody,
    /// The response contradicts the count: several requests are possible, or the required one is not.
    Contradiction,
}

impl<Q: Default, R: Default + RequestMatcher<Q>> TransactionQueue<Q, R> {
    /// Returns the request that a response at `place` answers, as the last one counted, and whether more than
    /// counting proves it.
    #[inline]
    pub(super) fn attribute(
        &mut self,
        place: StreamPlace,
        hole: MissingRange,
        fits: impl Fn(&Q) -> ResponseMatch,
    ) -> Option<(u64, bool)> {
        let limit = match self.counting {
            CountValidity::Exact => self.next_request,
            CountValidity::ExactBelow(number) => number,
            CountValidity::Lost(_) => return self.attribute_in_round(place, hole, fits),
        };
        let counted = self.count(place, limit, &fits);
        match (counted, self.counting) {
            (CountMatch::To(number), _) => {
                self.pass_over_silent(number);
                self.next_response = number + 1;
                return Some((number, false));
            }
            // Every further response would scan all of them again.
            (CountMatch::OneOf, CountValidity::Exact)
                if self.next_request - self.next_response > SCAN_MAX =>
            {
                self.counting = CountValidity::Lost(MissingSide::Responses);
            }
            (CountMatch::OneOf, CountValidity::Exact) => self.doubt_silence(place, &fits),
            (CountMatch::Nobody | CountMatch::Contradiction, CountValidity::Exact)
                if self.trial.is_some() =>
            {
                self.contradict();
            }
            // No request is waiting; or the response was captured too early, which only an acknowledgment
            // shows.
            (CountMatch::Nobody, CountValidity::Exact) if place.ack.is_some() => {}
            (CountMatch::Contradiction, CountValidity::Exact) => {
                self.counting = CountValidity::Lost(MissingSide::Responses);
            }
            _ => self.counting = CountValidity::Lost(MissingSide::Requests),
        }
        None
    }

    /// Counts to the next request, skipping requests that may remain unanswered.
    #[inline]
    fn count(
        &self,
        place: StreamPlace,
        limit: u64,
        fits: &impl Fn(&Q) -> ResponseMatch,
    ) -> CountMatch {
        let mut found = CountMatch::Nobody;
        for number in self.next_response..limit {
            let Some(transaction) = self.get(number).filter(|t| t.waits()) else {
                continue;
            };
            if !can_answer(transaction.place, place) {
                // Later requests had not been received either.
                let must = transaction.expects == ResponseExpectation::Response
                    && found == CountMatch::Nobody;
                return if must {
                    CountMatch::Contradiction
                } else {
                    found
                };
            }
            let fit = if transaction.asked == MessageProgress::Unseen {
                ResponseMatch::Maybe
            } else {
                fits(&transaction.request)
            };
            found = match (fit, found) {
                (ResponseMatch::Sure, _) => return CountMatch::To(number),
                (ResponseMatch::Maybe, CountMatch::Nobody)
                    if transaction.silence == NoResponseMeaning::Unknown =>
                {
                    CountMatch::OneOf
                }
                (ResponseMatch::Maybe, CountMatch::Nobody) => CountMatch::To(number),
                (ResponseMatch::Maybe, _)
                    if transaction.expects == ResponseExpectation::Perhaps =>
                {
                    CountMatch::OneOf
                }
                (ResponseMatch::Maybe, _) => CountMatch::Contradiction,
                (ResponseMatch::No, CountMatch::Nobody)
                    if transaction.expects == ResponseExpectation::Response =>
                {
                    CountMatch::Contradiction
                }
                (ResponseMatch::No, found) => found,
            };
            if transaction.expects == ResponseExpectation::Response {
                return found;
            }
        }
        match (found, self.counting) {
            // An optional request: a missing request after it is equally likely.
            (CountMatch::To(_), CountValidity::ExactBelow(_)) => CountMatch::Contradiction,
            _ => found,
        }
    }

    /// Handles a response to one of several optional requests: the meaning of the others' silence becomes
    /// unknown.
    #[cold]
    fn doubt_silence(&mut self, place: StreamPlace, fits: &impl Fn(&Q) -> ResponseMatch) {
        for number in self.next_response..self.next_request {
            let Some(transaction) = self.at(number).filter(|t| t.waits()) else {
                continue;
            };
            if transaction.expects == ResponseExpectation::Response
                || !can_answer(transaction.place, place)
            {
                return;
            }
            if fits(&transaction.request) != ResponseMatch::No {
                transaction.silence = NoResponseMeaning::Unknown;
            }
        }
    }

    /// Handles a response to request `number`: earlier optional requests have had none.
    #[inline]
    pub(super) fn pass_over_silent(&mut self, number: u64) {
        for before in self.next_response.max(self.base)..number {
            if let Some(transaction) = self
                .at(before)
                .filter(|t| t.waits() && t.expects == ResponseExpectation::Perhaps)
            {
                transaction.outcome = match transaction.silence {
                    NoResponseMeaning::Done => TransactionOutcome::Silent,
                    NoResponseMeaning::Unknown => TransactionOutcome::Half,
                };
            }
        }
    }

    /// Whether a request below `number` still requires a response.
    #[inline]
    pub(super) fn owes(&self, number: u64) -> bool {
        let mut waiting = (self.next_response..number).filter_map(|n| self.get(n));
        self.lacks_oldest()
            || waiting.any(|t| t.waits() && t.expects == ResponseExpectation::Response)
    }

    /// Whether no response can be attributed any more: counting is lost, and there are no rounds.
    #[inline]
    pub(super) fn is_hopeless(&self) -> bool {
        self.naming == IdMatching::None
            && matches!(self.counting, CountValidity::Lost(_))
            && !self.client.waits()
            && !self.counts_on()
    }
}
