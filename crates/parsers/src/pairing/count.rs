//! Counting: the n-th response answers the n-th request, with requests that may remain unanswered.

use flow::Place;

use super::numbering::Hole;
use super::queue::{Counting, Missing, Naming, SCAN_MAX, Transactions};
use super::transaction::{Answers, Expects, Fit, Outcome, Part, Silence, can_answer};

/// Result of counting for one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    To(u64),
    /// One of several optional requests; counting continues.
    OneOf,
    /// No request is waiting.
    Nobody,
    /// The response contradicts the count: several requests are possible, or the required one is not.
    Contradiction,
}

impl<Q: Default, R: Default + Answers<Q>> Transactions<Q, R> {
    /// Returns the request that a response at `place` answers, as the last one counted, and whether more than
    /// counting proves it.
    #[inline]
    pub(super) fn attribute(
        &mut self,
        place: Place,
        hole: Hole,
        fits: impl Fn(&Q) -> Fit,
    ) -> Option<(u64, bool)> {
        let limit = match self.counting {
            Counting::Exact => self.next_request,
            Counting::ExactBelow(number) => number,
            Counting::Lost(_) => return self.attribute_in_round(place, hole, fits),
        };
        let counted = self.count(place, limit, &fits);
        match (counted, self.counting) {
            (Counted::To(number), _) => {
                self.pass_over_silent(number);
                self.next_response = number + 1;
                return Some((number, false));
            }
            // Every further response would scan all of them again.
            (Counted::OneOf, Counting::Exact) if self.next_request - self.next_response > SCAN_MAX => {
                self.counting = Counting::Lost(Missing::Responses);
            }
            (Counted::OneOf, Counting::Exact) => self.doubt_silence(place, &fits),
            (Counted::Nobody | Counted::Contradiction, Counting::Exact) if self.trial.is_some() => {
                self.contradict();
            }
            // No request is waiting; or the response was captured too early, which only an acknowledgment
            // shows.
            (Counted::Nobody, Counting::Exact) if place.ack.is_some() => {}
            (Counted::Contradiction, Counting::Exact) => {
                self.counting = Counting::Lost(Missing::Responses);
            }
            _ => self.counting = Counting::Lost(Missing::Requests),
        }
        None
    }

    /// Counts to the next request, skipping requests that may remain unanswered.
    #[inline]
    fn count(&self, place: Place, limit: u64, fits: &impl Fn(&Q) -> Fit) -> Counted {
        let mut found = Counted::Nobody;
        for number in self.next_response..limit {
            let Some(transaction) = self.get(number).filter(|t| t.waits()) else { continue };
            if !can_answer(transaction.place, place) {
                // Later requests had not been received either.
                let must = transaction.expects == Expects::Response && found == Counted::Nobody;
                return if must { Counted::Contradiction } else { found };
            }
            let fit = if transaction.asked == Part::Unseen { Fit::Maybe } else { fits(&transaction.request) };
            found = match (fit, found) {
                (Fit::Sure, _) => return Counted::To(number),
                (Fit::Maybe, Counted::Nobody) if transaction.silence == Silence::Unknown => Counted::OneOf,
                (Fit::Maybe, Counted::Nobody) => Counted::To(number),
                (Fit::Maybe, _) if transaction.expects == Expects::Perhaps => Counted::OneOf,
                (Fit::Maybe, _) => Counted::Contradiction,
                (Fit::No, Counted::Nobody) if transaction.expects == Expects::Response => {
                    Counted::Contradiction
                }
                (Fit::No, found) => found,
            };
            if transaction.expects == Expects::Response {
                return found;
            }
        }
        match (found, self.counting) {
            // An optional request: a request missing behind it is equally likely.
            (Counted::To(_), Counting::ExactBelow(_)) => Counted::Contradiction,
            _ => found,
        }
    }

    /// Handles a response to one of several optional requests: the meaning of the others' silence becomes
    /// unknown.
    #[cold]
    fn doubt_silence(&mut self, place: Place, fits: &impl Fn(&Q) -> Fit) {
        for number in self.next_response..self.next_request {
            let Some(transaction) = self.at(number).filter(|t| t.waits()) else { continue };
            if transaction.expects == Expects::Response || !can_answer(transaction.place, place) {
                return;
            }
            if fits(&transaction.request) != Fit::No {
                transaction.silence = Silence::Unknown;
            }
        }
    }

    /// Handles a response to request `number`: earlier optional requests have had none.
    #[inline]
    pub(super) fn pass_over_silent(&mut self, number: u64) {
        for before in self.next_response.max(self.base)..number {
            if let Some(transaction) = self.at(before).filter(|t| t.waits() && t.expects == Expects::Perhaps)
            {
                transaction.outcome = match transaction.silence {
                    Silence::Done => Outcome::Silent,
                    Silence::Unknown => Outcome::Half,
                };
            }
        }
    }

    /// Whether a request below `number` still requires a response.
    #[inline]
    pub(super) fn owes(&self, number: u64) -> bool {
        let mut waiting = (self.next_response..number).filter_map(|n| self.get(n));
        self.lacks_oldest() || waiting.any(|t| t.waits() && t.expects == Expects::Response)
    }

    /// Whether no response can be attributed any more: counting is lost, and there are no rounds.
    #[inline]
    pub(super) fn is_hopeless(&self) -> bool {
        self.naming == Naming::None
            && matches!(self.counting, Counting::Lost(_))
            && !self.client.waits()
            && !self.counts_on()
    }
}
