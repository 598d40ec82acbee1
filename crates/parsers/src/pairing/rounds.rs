//! Pairing when counting is lost: responses are held until their round ends and are then numbered together with its
//! requests.
//!
//! A round ends when the client sends a request that acknowledges more than the one before. If the client sends only
//! after all responses, the server's bytes between the two acknowledgments are exactly the responses of the round. That
//! is proven if at least as many responses were seen or are missing as there are requests
//! ([`TransactionQueue::is_answered_by_count`]); otherwise the pairs are on trial (`trial`).
//!
//! Sequence: [`TransactionQueue::begin_round`] ends the previous round with [`TransactionQueue::settle`], which numbers it
//! ([`TransactionQueue::pair_round`]) and counts from the first request of the new round ([`TransactionQueue::count_anew`]).
//! [`TransactionQueue::attribute_in_round`] handles the two cases in which a response need not wait for the end of its
//! round.

use flow::StreamPlace;
use wire::TcpSeq;

use super::numbering::{self, MissingRange};
use super::queue::{CountValidity, IdMatching, MissingSide, SCAN_MAX, TransactionQueue};
use super::request_round::{RequestRound, RoundOpening};
use super::transaction::{
    LastMessageEnd, MessageProgress, PairedTransaction, RequestMatcher, ResponseExpectation,
    ResponseMatch, TransactionOutcome, can_answer,
};
use super::unpaired_responses::PairCandidate;
use crate::Direction;

/// Reason why a round has no pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoundMisfit {
    /// The numbers of requests and responses differ, whatever the missing bytes hid: the client did not wait.
    Counts,
    /// A message is incomplete, not held, or contradicts another, or the beginning of the round is assumed.
    Contents,
}

impl<Q: Default, R: Default + RequestMatcher<Q>> TransactionQueue<Q, R> {
    /// Handles a request at `place` that starts a round, with `hole` missing before it; settles the previous
    /// round. Returns the missing messages that may belong to the new round.
    pub(super) fn begin_round(&mut self, place: StreamPlace, hole: MissingRange) -> MissingRange {
        let Some(heard) = place.ack else { return hole };
        // A request that the server had received before the client received this response belongs to the
        // previous round.
        let is_of_round_before = hole != MissingRange::NONE
            && self.last_response.is_some_and(|last| {
                last.ack.is_some_and(|ack| ack.distance(place.seq) >= 0)
                    && last.seq.distance(heard) < 0
            });
        let opening = if hole == MissingRange::NONE || is_of_round_before {
            RoundOpening::Whole
        } else {
            RoundOpening::Holed
        };
        let (before, within) = match opening {
            RoundOpening::Whole => (hole, MissingRange::NONE),
            RoundOpening::Holed => (hole.in_part(), self.part_in_round(place, heard, hole)),
        };
        match self.counting {
            CountValidity::Exact => self.learn(heard),
            _ => {
                if self.has_said_more_than(heard) || self.has_left_unanswered(heard) {
                    self.contradict();
                }
                if !self.counts_on() {
                    self.settle(Some(heard), before, self.unheard(heard));
                }
            }
        }
        if matches!(self.counting, CountValidity::Lost(_)) && !self.counts_on() {
            self.count_anew(opening);
        }
        if self.edges[Direction::ServerToClient as usize] == LastMessageEnd::Start {
            self.edges[Direction::ServerToClient as usize] = LastMessageEnd::At(heard);
        }
        self.round = RequestRound {
            first: self.next_request,
            heard: Some(heard),
            asked: 0,
            opening,
        };
        within
    }

    /// The part of `hole`, before the first request seen of a round, that belongs to the round: at least one request, if
    /// the server had not received all of the missing bytes when it sent the last response that the client had
    /// `heard`, so that none of those answers them.
    fn part_in_round(&self, place: StreamPlace, heard: TcpSeq, hole: MissingRange) -> MissingRange {
        let edge = self.edges[Direction::ServerToClient as usize];
        let read = self
            .last_response
            .and_then(|last| last.ack)
            .filter(|_| edge == LastMessageEnd::At(heard));
        match read.map(|read| place.seq.distance(read)) {
            Some(unread @ 1..) if hole.least > 0 => {
                let unread = self.hole_of(Direction::ClientToServer, unread);
                let most = unread.most.saturating_add(1).min(hole.most);
                MissingRange { least: 1, most }
            }
            _ => hole.in_part(),
        }
    }

    /// Updates the model of the client when no request is missing: whether it waits, and whether responses
    /// are missing.
    #[inline]
    fn learn(&mut self, heard: TcpSeq) {
        let owed = self.owes(self.next_request);
        match self.edges[Direction::ServerToClient as usize] {
            LastMessageEnd::Start => {}
            LastMessageEnd::Within => self.contradict(),
            LastMessageEnd::At(end) | LastMessageEnd::Missing(end) => match heard.distance(end) {
                0 if !owed && self.trial.is_some() => {
                    self.agree(self.round.first, self.round.asked, true)
                }
                0 if !owed => {}
                ..=0 => self.contradict(),
                _ if self.spoken.is_some_and(|end| end.distance(heard) >= 0) => self.contradict(),
                _ if owed => self.miss_answers(heard, self.unheard(heard)),
                _ => {}
            },
            LastMessageEnd::Unknown if owed => self.miss_answers(heard, MissingRange::ANY),
            LastMessageEnd::Unknown => {}
        }
    }

    /// Handles `responses` hidden in missing server bytes that the client has received (up to `heard`):
    /// unanswered requests are marked.
    fn miss_answers(&mut self, heard: TcpSeq, responses: MissingRange) {
        if self.client.waits() {
            self.counting = CountValidity::Lost(MissingSide::Responses);
            self.settle(Some(heard), MissingRange::NONE, responses);
        }
    }

    /// Whether counting can continue without rounds: the client keeps none, and no request is missing, or
    /// none so far.
    pub(super) fn counts_on(&self) -> bool {
        let by_bounds =
            self.counting == CountValidity::Lost(MissingSide::Responses) && self.anchored;
        !self.client.waits() && (by_bounds || matches!(self.counting, CountValidity::ExactBelow(_)))
    }

    /// Whether the server's last message ended after the client's acknowledgment `heard`: it answers an
    /// earlier request.
    fn has_said_more_than(&self, heard: TcpSeq) -> bool {
        let edge = self.edges[Direction::ServerToClient as usize];
        matches!(edge, LastMessageEnd::At(end) | LastMessageEnd::Missing(end) if heard.distance(end) < 0)
    }

    /// Whether the client had `heard` no more than the responses seen, when requests before the missing ones were not answered: it
    /// sent those while responses were outstanding.
    fn has_left_unanswered(&self, heard: TcpSeq) -> bool {
        let CountValidity::ExactBelow(limit) = self.counting else {
            return false;
        };
        let edge = self.edges[Direction::ServerToClient as usize];
        let is_seen = matches!(edge, LastMessageEnd::At(end) | LastMessageEnd::Missing(end) if heard.distance(end) <= 0);
        is_seen && self.owes(limit)
    }

    /// Responses that may be missing after the last one, up to the client's acknowledgment `heard`.
    fn unheard(&self, heard: TcpSeq) -> MissingRange {
        self.hole_before(Direction::ServerToClient, heard)
    }

    /// Resumes counting with a round before which the client had received everything.
    fn count_anew(&mut self, opening: RoundOpening) {
        self.counting = match opening {
            RoundOpening::Whole if self.client.waits() => {
                if !self.anchored && self.trial.is_none() && !self.client.must_wait() {
                    self.begin_trial(self.next_request);
                }
                // A connection joined midway is marked at its first transaction.
                self.anew = if std::mem::take(&mut self.joined) {
                    u64::MAX
                } else {
                    self.next_request
                };
                CountValidity::Exact
            }
            RoundOpening::Whole => CountValidity::Lost(MissingSide::Responses),
            RoundOpening::Holed => CountValidity::Lost(MissingSide::Requests),
        };
    }

    /// Returns the request that a response at `place` answers when counting is lost.
    #[cold]
    pub(super) fn attribute_in_round(
        &mut self,
        place: StreamPlace,
        hole: MissingRange,
        fits: impl Fn(&Q) -> ResponseMatch,
    ) -> Option<(u64, bool)> {
        if self.is_of_earlier_round(place) {
            self.contradict();
        }
        let number = self
            .only_candidate(place, hole)
            .or_else(|| self.first_of_round(place))?;
        let fit = self.get(number).map(|t| fits(&t.request));
        if fit.is_none_or(|fit| fit == ResponseMatch::No) {
            return None;
        }
        self.give_up(self.next_response, number);
        self.count_from(number + 1);
        if let Some(loose) = &mut self.loose {
            loose.end_round(&[]);
        }
        Some((number, true))
    }

    /// Whether the response at `place` belongs to an earlier round: the client had not received it when the
    /// current round began, and the server had not received the round's first request when it sent the
    /// response.
    fn is_of_earlier_round(&self, place: StreamPlace) -> bool {
        let Some((heard, ack)) = self.round.heard.zip(place.ack) else {
            return false;
        };
        let first = self
            .get(self.round.first)
            .filter(|_| self.round.opening == RoundOpening::Whole);
        let unheard = |first: &PairedTransaction<Q, R>| first.place.seq.distance(ack) >= 0;
        place.seq.distance(heard) >= 0 && first.is_some_and(unheard)
    }

    /// The only request that the sender of the response at `place` had received and that cannot have been
    /// answered before.
    fn only_candidate(&self, place: StreamPlace, hole: MissingRange) -> Option<u64> {
        let is_bounded = self.next_request - self.next_response <= SCAN_MAX;
        if self.counting != CountValidity::Lost(MissingSide::Responses)
            || !(self.anchored || self.client.waits())
            || !is_bounded
        {
            return None;
        }
        // Without an acknowledgment, it may answer a later request.
        place.ack?;
        let held = self.loose.as_ref().map_or(0, |loose| loose.least);
        let from = self.next_response + held + u64::from(hole.least);
        let may = |n: &u64| {
            self.get(*n)
                .is_some_and(|t| t.waits() && can_answer(t.place, place))
        };
        let every = (self.next_response..self.next_request).all(|n| {
            self.get(n)
                .is_some_and(|t| t.expects == ResponseExpectation::Response)
        });
        let mut candidates = (from..self.next_request).filter(may);
        let only = candidates
            .next()
            .filter(|_| candidates.next().is_none() && every)?;
        self.get(only)?.request().map(|_| only)
    }

    /// The first request of the current round, if the response at `place` begins where the round's
    /// acknowledgment ends.
    fn first_of_round(&self, place: StreamPlace) -> Option<u64> {
        let known = self.client.waits()
            && self.round.opening == RoundOpening::Whole
            && self.round.heard == Some(place.seq)
            && !self.lacks_oldest();
        let mut asked =
            (self.round.first..self.next_request).filter_map(|n| Some((n, self.get(n)?)));
        let (number, first) = asked
            .find(|(_, t)| t.expects != ResponseExpectation::Nothing)
            .filter(|_| known)?;
        let must = first.expects == ResponseExpectation::Response
            && first.waits()
            && first.request().is_some();
        // After requests that remain unanswered, others may be missing.
        let is_first = (self.round.first..=number)
            .filter_map(|n| self.get(n))
            .all(|t| t.hole == MissingRange::NONE);
        (must && is_first && can_answer(first.place, place)).then_some(number)
    }

    /// Ends the use of rounds.
    pub(super) fn end_rounds(&mut self) {
        if let Some(loose) = &mut self.loose {
            loose.end_round(&[]);
        }
        self.fail_trial();
    }

    /// Settles the last round when the connection ends; `missing` responses may follow at the end.
    pub(super) fn settle_last_round(&mut self, missing: MissingRange) {
        if self.counting != CountValidity::Exact && self.naming == IdMatching::None {
            self.settle(None, self.hole_at_end(Direction::ClientToServer), missing);
        }
        self.end_trial();
    }

    /// Ends the current round: the client has received everything up to `heard`, or the connection ends.
    /// Requests and responses may be missing after the last ones seen.
    #[cold]
    fn settle(&mut self, heard: Option<TcpSeq>, requests: MissingRange, responses: MissingRange) {
        let from = self.next_response.max(self.base);
        let to = self.next_request;
        let counted = self.is_answered_by_count(requests, responses);
        let proven = counted && self.anchored || self.client.must_wait();
        let pairs = if proven || self.client.waits() {
            self.pair_round(heard, requests, responses)
        } else {
            Err(RoundMisfit::Contents)
        };
        match &pairs {
            Err(misfit) => {
                // If the protocol requires clients to wait, a misjudged message is more likely.
                if *misfit == RoundMisfit::Counts && !self.client.must_wait() {
                    self.client.asked_unanswered();
                }
                self.client.misfitted();
                self.fail_trial();
            }
            Ok(_) if proven => {}
            Ok(pairs) => {
                if self.trial.is_none() || !counted {
                    self.begin_trial(from);
                    let holes = (from..to).filter_map(|n| self.get(n)).map(|t| t.hole.most);
                    self.hide(holes.max().unwrap_or(0).max(requests.most));
                }
                if !pairs.is_empty() {
                    let held = self
                        .loose
                        .as_ref()
                        .map_or(0, |loose| loose.of_round().count() as u32);
                    self.agree(
                        from,
                        self.round.asked.saturating_add(requests.least).max(held),
                        counted,
                    );
                }
            }
        }
        self.anchored &= proven && pairs.is_ok();
        let pairs = pairs.unwrap_or_default();
        self.loose.get_or_insert_default().end_round(&pairs);
        self.make(&pairs);
        self.give_up(from, to);
        self.next_response = to;
        if let Some(heard) = heard {
            self.edges[Direction::ServerToClient as usize] = LastMessageEnd::At(heard);
        }
        if self.counting != CountValidity::Exact {
            self.counting = CountValidity::Lost(MissingSide::Responses);
        }
    }

    /// Whether at least as many responses as requests were counted, so that no others are missing.
    fn is_answered_by_count(&self, requests: MissingRange, responses: MissingRange) -> bool {
        if self.counting != CountValidity::Lost(MissingSide::Responses) {
            return false;
        }
        let asked = (self.next_response..self.next_request).map(|n| self.get(n));
        let is_known = |t: &PairedTransaction<Q, R>| {
            t.hole == MissingRange::NONE && t.waits() && t.expects == ResponseExpectation::Response
        };
        let mut all = asked.map(|t| t.is_some_and(is_known));
        let held = self
            .loose
            .iter()
            .flat_map(|loose| loose.of_round().map(|(_, response)| response.hole));
        let least = held.fold(u64::from(responses.least), |least, hole| {
            least + 1 + u64::from(hole.least)
        });
        let overflowed = self.loose.as_ref().is_some_and(|loose| loose.overflowed);
        let asked = self.next_request - self.next_response;
        requests == MissingRange::NONE && !overflowed && all.all(|known| known) && least == asked
    }

    /// Returns the pairs of the current round, by the numbers of request and response.
    fn pair_round(
        &self,
        heard: Option<TcpSeq>,
        requests: MissingRange,
        responses: MissingRange,
    ) -> Result<Vec<PairCandidate>, RoundMisfit> {
        let mut numbers = Vec::new();
        let mut asked = Vec::new();
        let mut is_assumed = false;
        // Evicted requests.
        let mut missing = MissingRange {
            least: 0,
            most: self.base.saturating_sub(self.next_response) as u32,
        };
        for number in self.next_response.max(self.base)..self.next_request {
            let transaction = self.get(number).ok_or(RoundMisfit::Contents)?;
            // A connection joined midway is assumed to begin between two rounds if its first round has one
            // request.
            let is_joined_between =
                number == 0 && self.joined && !self.lacks_first && self.round.asked == 1;
            is_assumed |= is_joined_between;
            missing = missing.and(if is_joined_between {
                MissingRange::NONE
            } else {
                transaction.hole
            });
            match transaction.expects {
                ResponseExpectation::Nothing => {}
                _ if transaction.answered != MessageProgress::Unseen => {
                    return Err(RoundMisfit::Contents);
                }
                ResponseExpectation::Perhaps => {
                    missing = missing.and(MissingRange { least: 0, most: 1 })
                }
                ResponseExpectation::Response => {
                    numbers.push(number);
                    asked.push(std::mem::replace(&mut missing, MissingRange::NONE));
                }
            }
        }
        asked.push(missing.and(requests));
        let held: Vec<_> = self
            .loose
            .iter()
            .flat_map(|loose| loose.of_round())
            .collect();
        let overflowed = self.loose.as_ref().is_some_and(|loose| loose.overflowed);
        let too_late = |t: &PairedTransaction<Q, R>| {
            heard.is_some_and(|heard| t.place.seq.distance(heard) >= 0)
        };
        if overflowed
            || held
                .iter()
                .any(|(_, t)| too_late(t) || t.answered != MessageProgress::Ended)
        {
            return Err(RoundMisfit::Contents);
        }
        let told: Vec<MissingRange> = held
            .iter()
            .map(|(_, t)| t.hole)
            .chain([responses])
            .collect();
        let misfit = if is_assumed {
            RoundMisfit::Contents
        } else {
            RoundMisfit::Counts
        };
        let pairs = numbering::pairs(&asked, &told).ok_or(misfit)?;
        let pair = |(q, r): (usize, usize)| {
            // If only the start of the connection is missing, messages after a pair do not affect it.
            let (asked, told) = if self.joined {
                (&asked[..=q], &told[..=r])
            } else {
                (&asked[..], &told[..])
            };
            let is_whole = asked
                .iter()
                .chain(told)
                .all(|hole| *hole == MissingRange::NONE);
            PairCandidate {
                request: numbers[q],
                response: held[r].0,
                is_whole,
            }
        };
        let pairs = pairs.into_iter().map(pair).collect::<Vec<_>>();
        let can_be = |pair: &PairCandidate| {
            let told = self
                .loose
                .as_ref()
                .and_then(|loose| loose.get(pair.response));
            let asked = self.get(pair.request);
            asked.zip(told).is_some_and(|(asked, told)| {
                can_answer(asked.place, told.place)
                    && (asked.asked == MessageProgress::Unseen
                        || told.response.fit(&asked.request) != ResponseMatch::No)
            })
        };
        if pairs.iter().all(can_be) {
            Ok(pairs)
        } else {
            Err(RoundMisfit::Contents)
        }
    }

    /// Moves responses to their requests.
    fn make(&mut self, pairs: &[PairCandidate]) {
        let Some(loose) = &mut self.loose else { return };
        for PairCandidate {
            request,
            response,
            is_whole,
        } in pairs
        {
            let index = usize::try_from(request.wrapping_sub(self.base)).unwrap_or(usize::MAX);
            let Some(asked) = self.queue.get_mut(index) else {
                continue;
            };
            let Some(told) = loose.get_mut(*response) else {
                continue;
            };
            if asked.waits() && asked.asked != MessageProgress::Unseen {
                std::mem::swap(&mut asked.response, &mut told.response);
                asked.answered = told.answered;
                asked.response_first = told.response_first;
                asked.recounted = !is_whole;
                (told.answered, told.outcome) =
                    (MessageProgress::Unseen, TransactionOutcome::BrokenOff);
            } else {
                told.outcome = TransactionOutcome::Half;
                asked.outcome = TransactionOutcome::Half;
            }
        }
    }
}
