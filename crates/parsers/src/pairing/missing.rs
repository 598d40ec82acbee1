//! Effect of missing messages on counting: the transitions of [`CountValidity`].

use flow::StreamPlace;
use wire::TcpSeq;

use super::numbering::MissingRange;
use super::queue::{CountValidity, IdMatching, MissingSide, TransactionQueue};
use super::transaction::{LastMessageEnd, PairedTransaction, RequestMatcher, ResponseExpectation};
use crate::Direction;

impl<Q: Default, R: Default + RequestMatcher<Q>> TransactionQueue<Q, R> {
    /// Records that the end of a packet of the client that begins at `start` was cut off by the snaplen.
    #[cold]
    pub fn cut_packet(&mut self, start: TcpSeq) {
        let edge = self.edges[Direction::ClientToServer as usize];
        if matches!(edge, LastMessageEnd::At(end) if end.distance(start) > 0) {
            self.cut_behind_request();
        }
    }

    /// Records that bytes were cut off after the last request in its packet: the client sent several at once.
    #[cold]
    pub fn cut_behind_request(&mut self) {
        if self.next_request > 0
            && matches!(
                self.edges[Direction::ClientToServer as usize],
                LastMessageEnd::At(_)
            )
        {
            self.client.asked_several();
        }
    }

    /// Records that requests may be missing after the last one.
    pub(super) fn doubt_requests(&mut self) {
        self.counting = match self.counting {
            CountValidity::Exact => CountValidity::ExactBelow(self.next_request),
            CountValidity::Lost(_) => CountValidity::Lost(MissingSide::Requests),
            below => below,
        };
    }

    /// Records requests missing before the one at `place`. Returns the hole if the number of requests is
    /// unknown or, at the start of a round, if their round is.
    #[cold]
    pub(super) fn miss_requests(
        &mut self,
        hole: MissingRange,
        place: StreamPlace,
        begins_round: bool,
    ) -> MissingRange {
        self.doubt_requests();
        let is_known = hole.least == hole.most && !begins_round && self.naming == IdMatching::None;
        if is_known && self.counting == CountValidity::ExactBelow(self.next_request) {
            for _ in 0..hole.least {
                self.queue.push().begin_missing(place);
                self.next_request += 1;
            }
            self.counting = CountValidity::Exact;
            return MissingRange::NONE;
        }
        hole
    }

    /// Records responses that may be missing when responses name their requests.
    #[inline]
    pub(super) fn doubt_responses(&mut self, hole: MissingRange) {
        self.counting = match self.counting {
            counting if hole == MissingRange::NONE => counting,
            CountValidity::Exact => CountValidity::Lost(MissingSide::Responses),
            _ => CountValidity::Lost(MissingSide::Requests),
        };
    }

    /// Resumes counting at request `number`, before which nothing is missing, up to the next missing request.
    pub(super) fn count_from(&mut self, number: u64) {
        let has_hole = |n: &u64| self.get(*n).is_some_and(|t| t.hole != MissingRange::NONE);
        let hole = (number..self.next_request).find(has_hole);
        self.next_response = number;
        self.counting = match (hole, self.counting) {
            (Some(number), _) => CountValidity::ExactBelow(number),
            (None, CountValidity::Lost(MissingSide::Requests))
                if self.naming == IdMatching::None =>
            {
                CountValidity::ExactBelow(self.next_request)
            }
            (None, _) => CountValidity::Exact,
        };
    }

    /// Records responses missing before the current one. Returns those that are not counted.
    #[cold]
    pub(super) fn miss_responses(&mut self, hole: MissingRange) -> MissingRange {
        let limit = match self.counting {
            CountValidity::Exact => self.next_request,
            CountValidity::ExactBelow(number) => number,
            CountValidity::Lost(_) => return hole,
        };
        let owed =
            |t: &&PairedTransaction<Q, R>| t.expects == ResponseExpectation::Response && t.waits();
        let n = (self.next_response..limit)
            .filter_map(|n| self.get(n))
            .filter(owed)
            .count();
        if n == 0 && self.counting == CountValidity::Exact && !self.lacks_oldest() {
            // No request is waiting: the missing bytes answer none.
            return hole;
        }
        let is_known = hole.least == hole.most && hole.least as usize <= n;
        if is_known && (self.next_response..limit).all(|n| self.get(n).is_some_and(|t| owed(&t))) {
            let from = self.next_response;
            self.next_response += u64::from(hole.least);
            self.give_up(from, self.next_response);
            return MissingRange::NONE;
        }
        let missing = if self.counting == CountValidity::Exact {
            MissingSide::Responses
        } else {
            MissingSide::Requests
        };
        self.counting = CountValidity::Lost(missing);
        hole
    }
}
