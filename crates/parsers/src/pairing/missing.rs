//! Effect of missing messages on counting: the transitions of [`Counting`].

use flow::Place;

use super::numbering::Hole;
use super::queue::{Counting, Missing, Naming, Transactions};
use super::transaction::{Answers, Expects, Transaction};

impl<Q: Default, R: Default + Answers<Q>> Transactions<Q, R> {
    /// Records that requests may be missing after the last one.
    pub(super) fn doubt_requests(&mut self) {
        self.counting = match self.counting {
            Counting::Exact => Counting::ExactBelow(self.next_request),
            Counting::Lost(_) => Counting::Lost(Missing::Requests),
            below => below,
        };
    }

    /// Records requests missing before the one at `place`. Returns the hole if the number of requests is
    /// unknown or, at the start of a round, if their round is.
    #[cold]
    pub(super) fn miss_requests(&mut self, hole: Hole, place: Place, begins_round: bool) -> Hole {
        self.doubt_requests();
        let is_known = hole.least == hole.most && !begins_round && self.naming == Naming::None;
        if is_known && self.counting == Counting::ExactBelow(self.next_request) {
            for _ in 0..hole.least {
                self.queue.push().begin_missing(place);
                self.next_request += 1;
            }
            self.counting = Counting::Exact;
            return Hole::NONE;
        }
        hole
    }

    /// Records responses that may be missing when responses name their requests.
    #[inline]
    pub(super) fn doubt_responses(&mut self, hole: Hole) {
        self.counting = match self.counting {
            counting if hole == Hole::NONE => counting,
            Counting::Exact => Counting::Lost(Missing::Responses),
            _ => Counting::Lost(Missing::Requests),
        };
    }

    /// Resumes counting at request `number`, before which nothing is missing, up to the next missing request.
    pub(super) fn count_from(&mut self, number: u64) {
        let has_hole = |n: &u64| self.get(*n).is_some_and(|t| t.hole != Hole::NONE);
        let hole = (number..self.next_request).find(has_hole);
        self.next_response = number;
        self.counting = match (hole, self.counting) {
            (Some(number), _) => Counting::ExactBelow(number),
            (None, Counting::Lost(Missing::Requests)) if self.naming == Naming::None => {
                Counting::ExactBelow(self.next_request)
            }
            (None, _) => Counting::Exact,
        };
    }

    /// Records responses missing before the current one. Returns those that are not counted.
    #[cold]
    pub(super) fn miss_responses(&mut self, hole: Hole) -> Hole {
        let limit = match self.counting {
            Counting::Exact => self.next_request,
            Counting::ExactBelow(number) => number,
            Counting::Lost(_) => return hole,
        };
        let owed = |t: &&Transaction<Q, R>| t.expects == Expects::Response && t.waits();
        let n = (self.next_response..limit).filter_map(|n| self.get(n)).filter(owed).count();
        if n == 0 && self.counting == Counting::Exact && !self.lacks_oldest() {
            // No request is waiting: the missing bytes answer none.
            return hole;
        }
        let is_known = hole.least == hole.most && hole.least as usize <= n;
        if is_known && (self.next_response..limit).all(|n| self.get(n).is_some_and(|t| owed(&t))) {
            let from = self.next_response;
            self.next_response += u64::from(hole.least);
            self.give_up(from, self.next_response);
            return Hole::NONE;
        }
        let missing = if self.counting == Counting::Exact { Missing::Responses } else { Missing::Requests };
        self.counting = Counting::Lost(missing);
        hole
    }
}
