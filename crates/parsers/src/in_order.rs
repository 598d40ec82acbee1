//! Matches responses to requests where the protocol matches them by order alone, and keeps that honest over gaps.
//!
//! Holds the exchanges that are not over, oldest first. As long as both byte streams are whole, the nth response
//! answers the nth request. Where messages may have been lost, that count is worth nothing until it is known again:
//!
//! - requests sent before a loss of requests keep their order, and a loss too small for two requests is one request;
//! - where it is known what each side had heard of the other ([`crate::heard`]), a response that is the next thing that a
//!   request's sender heard answers it, if that client has been seen to wait;
//! - a client that has been seen to wait for each response (or for all responses of a batch) before it asks again
//!   says by asking that everything earlier was answered; a response is then the latest request's, if that was sent
//!   after the response before and no response was lost between them;
//! - of a damaged batch the messages are held until the next one begins, and then counted from both ends.
//!
//! Everything else is handed out in halves: two halves are true, a wrong pair is not.
//!
//! Knows no bytes and no protocol. Holds at most [`WAITING_MAX`] exchanges and 256 responses apart from them.

mod apart;
mod batch;
mod exchange;
mod habit;
mod settle;
#[cfg(test)]
mod tests;

use std::ops::Range;

use flow::Place;
use wire::{TcpSeq, Timestamp};

use self::apart::Apart;
use self::batch::Hole;
pub use self::exchange::Exchange;
use self::exchange::is;
use self::habit::{Habit, When};
use crate::Direction;
use crate::heard::{Fit, fit};
use crate::slots::Slots;

/// Most exchanges held; beyond, the oldest is handed out as it is.
pub const WAITING_MAX: usize = 1024;
/// Most responses held that came before their requests: packets that a capture put into the wrong order, or requests
/// that wait behind bytes of which it is not known yet that they are missing.
const EARLY_MAX: u64 = 256;
/// Most responses of a damaged batch that are held until it is over.
const APART_MAX: usize = 256;
/// Most losses of requests remembered.
const BREAKS_MAX: usize = 64;
/// A response that is further ahead of a request than this was not put into the wrong order: it answers another one.
const EARLY_NS_MAX: i64 = 10_000_000;

/// Where a response was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// With this request.
    With(u64),
    /// By itself: its request is not known, or not yet.
    Apart(u64),
}

impl Default for Spot {
    fn default() -> Self {
        Spot::Apart(u64::MAX)
    }
}

/// Missing bytes behind which a message may begin, from [`InOrder::loss`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// How many, with those of a head that was begun and dropped; beyond the end of the message before.
    bytes: u64,
    /// The first of them began a message.
    next_began: bool,
    /// Requests seen when it was known that they are missing: later ones were not yet answered in it.
    requests_before: u64,
}

impl Loss {
    /// How many messages of at least `smallest` bytes it may be, if what follows is the head of one (`at_head`), or else is
    /// somewhere in one.
    fn hole(self, at_head: bool, smallest: u32) -> Hole {
        let hole = Hole::of_whole_messages(u32::try_from(self.bytes).unwrap_or(u32::MAX), smallest);
        match (self.next_began, at_head) {
            (true, true) => hole,
            (true, false) => Hole { most: hole.most.saturating_add(1), ..hole },
            (false, _) => Hole { least: 0, most: hole.most.saturating_add(1) },
        }
    }
}

/// What is known of a response's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attributed {
    /// Its number, and whether that is by more than counting.
    To(u64, bool),
    /// It is of the present batch; so much may be missing before this response.
    ToTheBatch(Hole),
    /// Nothing.
    Nobody,
}

/// The exchanges of one flow. Laid out as written: what every message touches is in front.
#[derive(Debug)]
#[repr(C)]
pub struct InOrder<Q, R> {
    /// The number of the oldest exchange held.
    base: u64,
    next_request: u64,
    next_response: u64,
    /// What the client had heard when it asked last.
    heard_before: Option<TcpSeq>,
    /// Where the next message of each direction begins, if that is known.
    ends: [Option<TcpSeq>; 2],
    /// The first request of the present batch: of those that were asked after the same.
    batch: u64,
    /// Nothing is missing just before it.
    batch_begins_whole: bool,
    /// The connection was joined midway.
    joined: bool,
    /// First byte of the last response, if no responses were lost since.
    heard: When,
    habit: Habit,
    /// Size of the smallest request seen.
    request_bytes_min: u32,
    /// Bytes of the smallest message that the protocol has.
    message_bytes_min: u32,
    evicted: u32,
    /// Requests may be missing behind the last one; how many will be known when there is a next one.
    suspected: bool,
    /// Responses may be missing before the next one.
    responses_lost: bool,
    /// A response was seen that nothing could be said of.
    ambiguous: bool,
    /// Requests may be missing just before each of these, ascending, and how many.
    request_breaks: Vec<(u64, Hole)>,
    exchanges: Slots<Exchange<Q, R>>,
    /// Responses whose requests are not known.
    apart: Option<Box<Apart<Q, R>>>,
}

impl<Q: Default, R: Default> Default for InOrder<Q, R> {
    fn default() -> Self {
        InOrder {
            exchanges: Slots::default(),
            apart: None,
            base: 0,
            next_request: 0,
            next_response: 0,
            request_bytes_min: u32::MAX,
            message_bytes_min: 1,
            suspected: false,
            request_breaks: Vec::new(),
            responses_lost: false,
            ambiguous: false,
            heard_before: None,
            ends: [None; 2],
            batch: 0,
            batch_begins_whole: false,
            joined: false,
            heard: When::NEVER,
            habit: Habit::default(),
            evicted: 0,
        }
    }
}

impl<Q: Default, R: Default> InOrder<Q, R> {
    /// Of a protocol whose smallest message has so many bytes: what is missing hides the fewer, the larger they are.
    #[must_use]
    pub fn of_messages_from(bytes: u32) -> InOrder<Q, R> {
        InOrder { message_bytes_min: bytes, ..InOrder::default() }
    }

    /// A request begins, with a head of `bytes`. Gives its number, for [`InOrder::request_mut`] and
    /// [`InOrder::finish_request`], and its place, which holds what an earlier request left there. `asked`: where it
    /// begins in what both sides say, if that is known.
    pub fn request(
        &mut self,
        bytes: usize,
        first: Timestamp,
        asked: Option<Place>,
        resync: bool,
    ) -> (u64, &mut Q) {
        self.request_bytes_min = self.request_bytes_min.min(u32::try_from(bytes).unwrap_or(u32::MAX));
        if self.exchanges.len() >= WAITING_MAX {
            self.evict_oldest();
        }
        if self.next_request < self.next_response {
            self.give_up_stale_responses(first, asked);
        }
        let number = self.next_request;
        if let Some(asked) = asked {
            if self.heard_before == Some(asked.ack) {
                self.habit.asks(number + 1 - self.batch);
            } else {
                self.begin_batch(number, asked);
            }
        }
        self.next_request += 1;
        let synced = !self.certain() && self.habit.begins_batch(first);
        if synced {
            self.give_up(self.next_response, number);
            self.next_response = number;
            self.settle(number);
        }
        self.habit.responded_since_request = false;
        self.habit.fresh_loss = false;
        // Its response may have come early.
        let held = self.index(number).filter(|i| *i < self.exchanges.len());
        let i = held.unwrap_or_else(|| {
            self.exchanges.push().begin(first);
            self.exchanges.len() - 1
        });
        let exchange =
            self.exchanges.get_mut(i).expect("it is held: it was found, or has just been put there");
        (exchange.request_first, exchange.asked) = (first, asked);
        let opens = number == self.batch && !self.request_breaks.iter().any(|b| b.0 == number);
        exchange.set(is::OPENS, opens);
        exchange.set(is::RESYNC, resync || synced && held.is_none());
        exchange.is |= is::ASKED;
        (number, &mut exchange.request)
    }

    /// The request `number`, while it is held.
    #[inline]
    pub fn request_mut(&mut self, number: u64) -> Option<&mut Q> {
        self.at(number).filter(|e| e.has(is::ASKED)).map(|e| &mut e.request)
    }

    /// The request `number` is complete. Gives it, while it is held, for a last word.
    #[inline]
    pub fn finish_request(&mut self, number: u64) -> Option<&mut Q> {
        let exchange = self.at(number)?;
        exchange.is |= is::REQUEST_OVER;
        exchange.has(is::ASKED).then_some(&mut exchange.request)
    }

    /// A response begins. `may_be_early`: its request may still come (a capture in the wrong order); else a response
    /// without a request stays alone. Gives where it is and its place, which holds what an earlier one left there.
    pub fn response(
        &mut self,
        first: Timestamp,
        told: Option<Place>,
        resync: bool,
        may_be_early: bool,
    ) -> (Spot, &mut R) {
        self.habit.responded_since_request = true;
        if self.joined
            && self.next_response == 0
            && let Some(hole) = told.map(|told| self.hole_before(Direction::ServerToClient, told.seq))
        {
            // Of a connection joined midway nobody tells what is missing before the first.
            self.responses_lost |= hole.least > 0;
        }
        let attributed = if self.certain() && self.is_waiting() {
            self.count_on(first, told).map_or(Attributed::Nobody, |number| Attributed::To(number, false))
        } else {
            self.attribute(first, told, may_be_early)
        };
        self.heard = When::at(first);
        let held = match attributed {
            Attributed::To(number, guided) => {
                self.index(number).filter(|i| *i < self.exchanges.len()).map(|i| (number, i, guided))
            }
            _ => None,
        };
        let (place, exchange) = match held.and_then(|(n, i, g)| Some((n, self.exchanges.get_mut(i)?, g))) {
            Some((number, exchange, guided)) => {
                exchange.response_first = first;
                exchange.set(is::RESYNC, resync || guided);
                (Spot::With(number), exchange)
            }
            None => {
                let hole = if let Attributed::ToTheBatch(hole) = attributed { Some(hole) } else { None };
                let (number, exchange) = self.apart.get_or_insert_default().push(first, hole);
                (Spot::Apart(number), exchange)
            }
        };
        exchange.is |= is::ANSWERED;
        if !exchange.has(is::ASKED) {
            exchange.asked = told;
        }
        (place, &mut exchange.response)
    }

    /// The first request that is seen begins at `first`; `midstream`: there may have been others, whose responses came
    /// before it.
    pub fn begin(&mut self, first: Option<Place>, midstream: bool) {
        self.joined = midstream;
        if self.certain() && !self.suspected {
            self.ends = [first.map(|first| first.seq).filter(|_| !midstream), first.map(|first| first.ack)];
        }
    }

    /// What the server says from `place` to `end` is no response, and comes before the next one.
    pub fn pass(&mut self, place: Option<Place>, end: Option<TcpSeq>) {
        let next = &mut self.ends[Direction::ServerToClient as usize];
        if place.is_some_and(|place| *next == Some(place.seq)) {
            *next = end;
        }
    }

    /// The message of `direction` that has just begun, or was just completed, ends at `end`, if that is known.
    #[inline]
    pub fn ends(&mut self, direction: Direction, end: Option<TcpSeq>) {
        self.ends[direction as usize] = end;
    }

    /// The request that the response at `place` answers.
    #[must_use]
    pub fn request_of(&self, place: Spot) -> Option<&Q> {
        let Spot::With(number) = place else { return None };
        self.exchanges.get(self.index(number)?)?.request()
    }

    /// The response at `place`, while it is held.
    #[inline]
    pub fn response_mut(&mut self, place: Spot) -> Option<&mut R> {
        self.answered(place).filter(|e| e.has(is::ANSWERED)).map(|e| &mut e.response)
    }

    /// The response at `place` is complete; its last byte arrived at `last`. Gives it, while it is held, for a last
    /// word.
    #[inline]
    pub fn finish_response(&mut self, place: Spot, last: Timestamp) -> Option<&mut R> {
        self.habit.responded(last);
        let exchange = self.answered(place)?;
        exchange.is |= is::RESPONSE_OVER;
        exchange.has(is::ANSWERED).then_some(&mut exchange.response)
    }

    /// `bytes` are missing in `direction`; `before`: a loss before them that nothing has come behind yet;
    /// `next_began`: they begin a message, or one of which all else was dropped. To be given to [`InOrder::resume`].
    pub fn loss(&mut self, direction: Direction, before: Option<Loss>, bytes: u64, next_began: bool) -> Loss {
        self.suspected |= direction == Direction::ClientToServer;
        Loss {
            bytes: before.map_or(0, |l| l.bytes).saturating_add(bytes),
            next_began: before.map_or(next_began, |l| l.next_began),
            requests_before: self.next_request,
        }
    }

    /// Bytes behind a loss in `direction` have come at `ts`; `head`: they begin a message, and where that begins in what both
    /// sides say, if that is known.
    pub fn resume(&mut self, direction: Direction, loss: Loss, head: Option<Option<Place>>, ts: Timestamp) {
        if loss.hole(head.is_some(), self.message_bytes_min).most == 0 {
            // Too little for a message, and not a part of the next one either.
            self.suspected = false;
            return;
        }
        match direction {
            Direction::ServerToClient => self.lose_responses(loss, ts),
            Direction::ClientToServer => {
                let room_for_one = loss.next_began && loss.bytes < 2 * u64::from(self.request_bytes_min);
                if room_for_one && self.next_request > 0 && head.is_some_and(|place| self.asks_singly(place))
                {
                    self.lose_one_request();
                } else {
                    self.lose_requests(loss.hole(head.is_some(), self.message_bytes_min));
                }
            }
        }
    }

    /// Whether nothing says that the client asks several things at once, nor that it does so with the request at `place`.
    fn asks_singly(&self, place: Option<Place>) -> bool {
        let heard_more = place.is_some_and(|place| self.heard_before != Some(place.ack));
        self.heard_before.is_none() || heard_more && self.certain() && !self.habit.pipelines()
    }

    /// Bytes of `direction`, seen at `ts`, may have been messages that were not recognised.
    pub fn lose(&mut self, direction: Direction, ts: Timestamp) {
        self.ends(direction, None);
        match direction {
            Direction::ClientToServer => self.lose_requests(Hole::ANY),
            Direction::ServerToClient if !self.is_waiting() => {}
            Direction::ServerToClient => {
                let loss = Loss { bytes: 0, next_began: false, requests_before: self.next_request };
                self.lose_responses(loss, ts);
            }
        }
    }

    /// The next response may answer a request from before anything was seen.
    pub fn join_midway(&mut self) {
        self.responses_lost = true;
        self.ambiguous = true;
    }

    /// No response will come any more: requests without one are handed out.
    pub fn no_more_responses(&mut self) {
        self.give_up_apart();
        self.give_up(self.base, self.next_request);
    }

    /// No request will come any more: responses that waited for one are handed out.
    pub fn no_more_requests(&mut self) {
        for number in self.next_request..self.next_response {
            if let Some(exchange) = self.at(number) {
                exchange.is |= is::GIVEN_UP;
            }
        }
    }

    /// Everything is handed out as it is.
    pub fn close(&mut self) {
        for i in 0..self.exchanges.len() {
            if let Some(exchange) = self.exchanges.get_mut(i) {
                exchange.is |= is::FORCED;
            }
        }
        if let Some(apart) = &mut self.apart {
            apart.close();
        }
    }

    /// Hands out the exchanges that are over, oldest first.
    #[inline]
    pub fn hand_out(&mut self, mut take: impl FnMut(&mut Exchange<Q, R>)) {
        if let Some(apart) = &mut self.apart
            && apart.hand_out(&mut take)
        {
            self.apart = None;
        }
        while let Some(front) = self.exchanges.get_mut(0) {
            if !front.is_over() {
                return;
            }
            if front.has(is::ASKED | is::ANSWERED) {
                take(front);
            } else if !front.has(is::FORCED) && self.base >= self.next_response {
                // A request that was lost is there to be counted until its response has come or is known to be lost too.
                return;
            }
            self.base += 1;
            self.exchanges.pop();
        }
    }

    /// Lets the oldest exchange be handed out as it is; false: there is none.
    pub fn evict_oldest(&mut self) -> bool {
        let Some(oldest) = self.exchanges.get_mut(0) else { return false };
        oldest.is |= is::FORCED;
        self.evicted += 1;
        true
    }

    /// Whether exchanges have been given up since the last [`InOrder::take_evicted`].
    #[inline]
    #[must_use]
    pub fn has_evicted(&self) -> bool {
        self.evicted > 0
    }

    /// Exchanges given up since the last call because there were too many.
    pub fn take_evicted(&mut self) -> u64 {
        std::mem::take(&mut self.evicted).into()
    }

    /// Whether a response would be expected to answer a request that is held.
    #[inline]
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.next_response < self.next_request
    }

    /// The request that the next response answers, if nothing was lost.
    #[must_use]
    pub fn next_to_answer(&self) -> Option<&Q> {
        if !self.certain() {
            return None;
        }
        self.request_of(Spot::With(self.next_response))
    }

    /// Exchanges held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.exchanges.len()
    }

    /// Requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.next_request
    }

    #[inline]
    fn certain(&self) -> bool {
        self.request_breaks.is_empty() && !self.responses_lost && !self.ambiguous
    }

    /// It is known which response answers request `number`: what was lost up to it is over.
    fn settle(&mut self, number: u64) {
        while self.request_breaks.first().is_some_and(|b| b.0 <= number) {
            self.request_breaks.remove(0);
        }
        self.responses_lost = false;
        self.ambiguous = false;
    }

    /// Requests may be missing between the last one and the next.
    fn lose_requests(&mut self, hole: Hole) {
        self.suspected = false;
        self.no_more_requests();
        self.next_request = self.next_request.max(self.next_response);
        match self.request_breaks.last_mut() {
            Some((number, before)) if *number == self.next_request => *before = before.and(hole),
            _ => self.request_breaks.push((self.next_request, hole)),
        }
        if self.request_breaks.len() > BREAKS_MAX {
            // Order says nothing any more until the count is known again.
            self.request_breaks.remove(0);
            self.ambiguous = true;
        }
        self.habit.lose_requests(self.heard_before.is_some());
    }

    /// Exactly one request is missing between the last one and the next.
    fn lose_one_request(&mut self) {
        self.suspected = false;
        self.habit.lose_requests(self.heard_before.is_some());
        let number = self.next_request;
        self.next_request += 1;
        match self.at(number) {
            Some(early) => early.is |= is::GIVEN_UP,
            None => {
                let last = self.exchanges.len().checked_sub(1).and_then(|i| self.exchanges.get(i));
                let not_before = last.map_or(Timestamp::MIN, |e| e.request_first);
                let missing = self.exchanges.push();
                missing.begin(not_before);
                missing.is |= is::GIVEN_UP;
            }
        }
    }

    /// Responses may be missing between the last one and the next. How many cannot be told: behind a request that is
    /// known there may be others in a hole of the client's that is not known yet.
    fn lose_responses(&mut self, loss: Loss, resumed: Timestamp) {
        self.habit.blurred = true;
        self.heard = When::NEVER;
        if self.holds_batches() {
            self.settle_batches_before();
            self.responses_lost = true;
            return;
        }
        self.responses_lost = true;
        let waiting = self.waiting();
        let exposed = waiting.clone().any(|n| n < loss.requests_before && self.sent_by(n, resumed));
        let given_up = u64::from(loss.next_began && exposed);
        self.give_up(waiting.start, waiting.start + given_up);
        self.next_response = self.next_response.max(waiting.start + given_up);
    }

    #[inline]
    fn at(&mut self, number: u64) -> Option<&mut Exchange<Q, R>> {
        self.exchanges.get_mut(self.index(number)?)
    }

    /// Where the exchange `number` is, unless it was before all that are held.
    #[inline]
    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.base)?).ok()
    }

    #[inline]
    fn answered(&mut self, place: Spot) -> Option<&mut Exchange<Q, R>> {
        match place {
            Spot::With(number) => self.at(number),
            Spot::Apart(number) => match self.apart.as_ref()?.moved {
                Some((moved, with)) if moved == number => self.at(with),
                _ => self.apart.as_mut()?.get_mut(number),
            },
        }
    }

    /// The oldest request without a response, where counting says which that is: a response that begins at `first`
    /// answers it, unless that is too early.
    #[inline]
    fn count_on(&mut self, first: Timestamp, told: Option<Place>) -> Option<u64> {
        let number = self.next_response;
        let is_early = |e: &Exchange<Q, R>| match e.asked.zip(told) {
            Some((asked, told)) => fit(asked, told) == Fit::Impossible,
            None => e.request_first > first.plus(EARLY_NS_MAX),
        };
        let exchange = self.at(number).filter(|e| !is_early(e));
        let Some(exchange) = exchange else {
            // It began before its request did: the count is wrong.
            self.ambiguous = true;
            return None;
        };
        let request_first = exchange.has(is::ASKED).then_some(exchange.request_first);
        self.next_response += 1;
        if told.is_none() {
            self.habit.observe(request_first, first);
        }
        Some(number)
    }

    /// The request that a response beginning at `first` answers where counting alone does not say, and whether that was
    /// not by count.
    #[inline(never)]
    fn attribute(&mut self, first: Timestamp, told: Option<Place>, may_be_early: bool) -> Attributed {
        let number = self.next_response;
        if self.certain() {
            if !may_be_early {
                return Attributed::Nobody;
            }
            if self.next_response - self.next_request >= EARLY_MAX {
                // Which requests these answer will not be known by counting when they come.
                self.lose_requests(Hole::ANY);
                return Attributed::Nobody;
            }
            self.expect_request(first);
            return Attributed::To(self.next_response - 1, false);
        }
        let in_order = !self.responses_lost
            && !self.ambiguous
            && self.request_breaks.first().is_some_and(|b| number < b.0);
        if in_order {
            self.next_response += 1;
            return Attributed::To(number, false);
        }
        if let Some(told) = told
            && self.holds_batches()
        {
            return self.attribute_to_batch(told);
        }
        self.attribute_after_loss(first, told)
            .map_or(Attributed::Nobody, |number| Attributed::To(number, true))
    }

    fn attribute_after_loss(&mut self, first: Timestamp, told: Option<Place>) -> Option<u64> {
        let waiting = self.waiting();
        if let Some(next) = told.and_then(|told| self.heard_next(told)) {
            self.habit.alternates(next + 1 - waiting.start);
            self.give_up(waiting.start, next);
            self.settle(next);
            self.next_response = next + 1;
            return Some(next);
        }
        let latest = waiting.clone().rev().find(|n| self.sent_by(*n, first));
        self.habit.alternates(latest.map_or(0, |latest| latest + 1 - waiting.start));
        let latest = latest?;
        let waits = self.habit.waits() && self.request_breaks.first().is_none_or(|b| b.0 <= latest);
        // Where a request is missing the response may answer that one or the one before.
        let suspected = self.suspected && latest + 1 == self.next_request;
        // Sent after the response before, with nothing lost between: no other response can be this one's.
        let fresh = self.heard.get().is_some_and(|heard| !self.sent_by(latest, heard));
        let has_place = told.is_some() && self.at(latest).is_some_and(|e| e.asked.is_some());
        let known = waits && fresh && !suspected && !has_place && !self.is_missing(latest);
        self.give_up(waiting.start, if known { latest } else { latest + 1 });
        if known {
            self.settle(latest);
        }
        self.ambiguous |= !waits;
        self.next_response = latest + 1;
        known.then_some(latest)
    }

    /// The request that is surely answered by the response at `told`: its sender heard that next, and is known to have
    /// waited for everything before.
    fn heard_next(&mut self, told: Place) -> Option<u64> {
        let fits =
            |e: &Exchange<Q, R>| e.has(is::ASKED) && e.asked.is_some_and(|a| fit(a, told) == Fit::Next);
        let next = self.waiting().find(|n| self.at(*n).is_some_and(|e| fits(e)))?;
        let opens = self.at(next).is_some_and(|e| e.has(is::OPENS));
        let alone = !self.at(next + 1).is_some_and(|e| fits(e));
        (self.habit.waits() && alone || self.habit.asks_in_batches() && opens).then_some(next)
    }

    /// Whether this request was lost.
    fn is_missing(&mut self, number: u64) -> bool {
        self.at(number).is_some_and(|e| !e.has(is::ASKED))
    }

    /// The requests without a response.
    fn waiting(&self) -> Range<u64> {
        self.next_response.max(self.base)..self.next_request.max(self.next_response)
    }

    fn sent_by(&mut self, number: u64, ts: Timestamp) -> bool {
        self.at(number).is_some_and(|e| e.request_first <= ts)
    }

    /// An exchange for a response whose request is to come.
    fn expect_request(&mut self, first: Timestamp) {
        self.next_response += 1;
        self.exchanges.push().begin(first);
    }

    /// Hands out responses that cannot answer a request that begins at `first` and `asked`.
    fn give_up_stale_responses(&mut self, first: Timestamp, asked: Option<Place>) {
        while self.next_request < self.next_response {
            let number = self.next_request;
            match self.at(number) {
                Some(early) if early.is_stale(first, asked) => early.is |= is::GIVEN_UP,
                Some(_) => return,
                None => {}
            }
            self.next_request += 1;
        }
    }

    /// Hands out the requests `from..to` that have no response.
    fn give_up(&mut self, from: u64, to: u64) {
        for number in from.max(self.base)..to {
            if let Some(exchange) = self.at(number) {
                exchange.is |= is::GIVEN_UP;
            }
        }
    }
}

impl<Q, R> Exchange<Q, R> {
    /// Whether its response cannot answer a request that begins at `first` and `asked`.
    fn is_stale(&self, first: Timestamp, asked: Option<Place>) -> bool {
        match asked.zip(self.asked) {
            Some((asked, told)) => fit(asked, told) == Fit::Impossible,
            None => first.since(self.response_first) > EARLY_NS_MAX,
        }
    }
}
