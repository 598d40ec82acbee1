//! Matches responses to requests where the protocol matches them by order alone, and keeps that honest over gaps.
//!
//! Holds the exchanges that are not over, oldest first. As long as both byte streams are whole, the nth response
//! answers the nth request. Where messages may have been lost, that count is worth nothing until it is known again:
//!
//! - requests sent before a loss of requests keep their order, and a loss too small for two requests is one request;
//! - a client that has been seen to wait for each response (or for all responses of a batch) before it asks again
//!   says by asking that everything earlier was answered; a response is then the latest request's, if that was sent
//!   after the response before and no response was lost between them.
//!
//! Everything else is handed out in halves: two halves are true, a wrong pair is not.
//!
//! Knows no bytes and no protocol. Holds at most [`WAITING_MAX`] exchanges.

use std::collections::VecDeque;
use std::ops::Range;

use wire::Timestamp;

use crate::Direction;

/// Most exchanges held; beyond, the oldest is handed out as it is.
pub const WAITING_MAX: usize = 1024;
/// Most responses held that came before their requests: packets that a capture put into the wrong order, or requests
/// that wait behind bytes of which it is not known yet that they are missing.
const EARLY_MAX: u64 = 256;
/// Most losses of requests remembered.
const BREAKS_MAX: usize = 64;
/// A response that is further ahead of a request than this was not put into the wrong order: it answers another one.
const EARLY_NS_MAX: i64 = 10_000_000;
/// Silence after which a batch is answered. Longer than the flow table waits for bytes that were acknowledged.
const SILENCE_NS: i64 = 1_000_000_000;
/// Responses after one request each that count as a client that waits, though messages were lost.
const WEAK_TURNS: u32 = 3;

/// A request and its response, as far as they are known.
#[derive(Debug)]
pub struct Exchange<Q, R> {
    /// The request, unless it was not seen.
    pub request: Option<Q>,
    /// The response, unless there was none or it could not be attributed.
    pub response: Option<R>,
    /// Matched after a loss, by what the client is known to do.
    pub resync: bool,
    request_first: Timestamp,
    response_first: Timestamp,
    request_open: bool,
    response_open: bool,
    /// What is missing will not come.
    given_up: bool,
    /// Not even the rest of what is here.
    forced: bool,
}

/// Where a response was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// With this request.
    With(u64),
    /// With none: its request is not known.
    Alone,
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

/// The exchanges of one flow.
#[derive(Debug)]
pub struct InOrder<Q, R> {
    exchanges: VecDeque<Exchange<Q, R>>,
    alone: Option<Exchange<Q, R>>,
    /// The number of the oldest exchange held.
    base: u64,
    next_request: u64,
    next_response: u64,
    /// Size of the smallest request seen.
    request_bytes_min: u64,
    /// Requests may be missing behind the last one; how many will be known when there is a next one.
    suspected: bool,
    /// Requests may be missing just before each of these, ascending.
    request_breaks: VecDeque<u64>,
    /// Responses may be missing before the next one.
    responses_lost: bool,
    /// A response was seen that nothing could be said of.
    ambiguous: bool,
    /// First byte of the last response, if no responses were lost since.
    heard: Option<Timestamp>,
    habit: Habit,
    evicted: u64,
}

/// What the client has been seen to do.
#[derive(Debug, Default)]
struct Habit {
    /// Times it asked after everything earlier had been answered.
    turns: u32,
    /// Responses in a row, while the count was lost, that came after exactly one request each.
    weak_turns: u32,
    /// Most requests that it sent before the first of them was answered.
    depth_max: u32,
    depth: u32,
    /// It asked while only a part of what it had asked was answered.
    overlaps: bool,
    /// First byte of the first response to the present batch.
    batch_answered: Option<Timestamp>,
    /// Last byte of the last response.
    response_last: Option<Timestamp>,
    responded_since_request: bool,
    /// Requests were lost and none seen since.
    fresh_loss: bool,
    /// Messages were lost just before the present batch, and since it began: it may be larger than it seems.
    blurred_before: bool,
    blurred: bool,
}

impl<Q, R> Default for InOrder<Q, R> {
    fn default() -> Self {
        InOrder {
            exchanges: VecDeque::new(),
            alone: None,
            base: 0,
            next_request: 0,
            next_response: 0,
            request_bytes_min: u64::MAX,
            suspected: false,
            request_breaks: VecDeque::new(),
            responses_lost: false,
            ambiguous: false,
            heard: None,
            habit: Habit::default(),
            evicted: 0,
        }
    }
}

impl<Q, R> InOrder<Q, R> {
    /// A request begins, with a head of `bytes`; the number is for [`InOrder::request_mut`] and
    /// [`InOrder::finish_request`].
    pub fn request(&mut self, request: Q, bytes: usize, first: Timestamp, resync: bool) -> u64 {
        self.request_bytes_min = self.request_bytes_min.min(bytes as u64);
        if self.exchanges.len() >= WAITING_MAX {
            self.evict_oldest();
        }
        self.give_up_stale_responses(first);
        let number = self.next_request;
        self.next_request += 1;
        let synced = !self.certain() && self.habit.begins_batch(first);
        if synced {
            self.give_up(self.next_response, number);
            self.next_response = number;
            self.settle(number);
        }
        self.habit.responded_since_request = false;
        self.habit.fresh_loss = false;
        match self.at(number) {
            Some(early) => {
                early.request = Some(request);
                early.request_first = first;
                early.resync |= resync;
            }
            None => self.exchanges.push_back(Exchange {
                request: Some(request),
                resync: resync || synced,
                ..Exchange::empty(first)
            }),
        }
        number
    }

    /// The request `number`, while it is held.
    pub fn request_mut(&mut self, number: u64) -> Option<&mut Q> {
        self.at(number)?.request.as_mut()
    }

    /// The request `number` is complete.
    pub fn finish_request(&mut self, number: u64) {
        if let Some(exchange) = self.at(number) {
            exchange.request_open = false;
        }
    }

    /// A response begins. `may_be_early`: its request may still come (a capture in the wrong order); else a response
    /// without a request stays alone.
    pub fn response(&mut self, response: R, first: Timestamp, resync: bool, may_be_early: bool) -> Place {
        self.habit.responded_since_request = true;
        let attributed = self.attribute(first, may_be_early);
        self.heard = Some(first);
        match attributed {
            Some((number, guided)) => match self.at(number) {
                Some(exchange) => {
                    exchange.response = Some(response);
                    exchange.response_first = first;
                    exchange.resync |= resync || guided;
                    Place::With(number)
                }
                None => self.put_alone(response, first),
            },
            None => self.put_alone(response, first),
        }
    }

    /// The request that the response at `place` answers.
    #[must_use]
    pub fn request_of(&self, place: Place) -> Option<&Q> {
        let Place::With(number) = place else { return None };
        self.exchanges.get(usize::try_from(number.checked_sub(self.base)?).ok()?)?.request.as_ref()
    }

    /// The response at `place`, while it is held.
    pub fn response_mut(&mut self, place: Place) -> Option<&mut R> {
        match place {
            Place::With(number) => self.at(number)?.response.as_mut(),
            Place::Alone => self.alone.as_mut()?.response.as_mut(),
        }
    }

    /// The response at `place` is complete; its last byte arrived at `last`.
    pub fn finish_response(&mut self, place: Place, last: Timestamp) {
        self.habit.response_last = Some(self.habit.response_last.map_or(last, |l| l.max(last)));
        let exchange = match place {
            Place::With(number) => self.at(number),
            Place::Alone => self.alone.as_mut(),
        };
        if let Some(exchange) = exchange {
            exchange.response_open = false;
        }
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

    /// Bytes behind a loss in `direction` have come at `ts`; `at_head`: they begin a message.
    pub fn resume(&mut self, direction: Direction, loss: Loss, at_head: bool, ts: Timestamp) {
        match direction {
            Direction::ServerToClient => self.lose_responses(loss, ts),
            Direction::ClientToServer => {
                let one = at_head && loss.next_began && loss.bytes < self.request_bytes_min.saturating_mul(2);
                if one && self.next_request > 0 { self.lose_one_request() } else { self.lose_requests() }
            }
        }
    }

    /// Bytes of `direction`, seen at `ts`, may have been messages that were not recognised.
    pub fn lose(&mut self, direction: Direction, ts: Timestamp) {
        match direction {
            Direction::ClientToServer => self.lose_requests(),
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
        self.give_up(self.base, self.next_request);
    }

    /// No request will come any more: responses that waited for one are handed out.
    pub fn no_more_requests(&mut self) {
        for number in self.next_request..self.next_response {
            if let Some(exchange) = self.at(number) {
                exchange.given_up = true;
            }
        }
    }

    /// Everything is handed out as it is.
    pub fn close(&mut self) {
        self.exchanges.iter_mut().chain(&mut self.alone).for_each(|e| e.forced = true);
    }

    /// The next exchange that is over, oldest first.
    pub fn pop(&mut self) -> Option<Exchange<Q, R>> {
        if self.alone.as_ref().is_some_and(Exchange::is_over) {
            return self.alone.take();
        }
        loop {
            let front = self.exchanges.front()?;
            let missing = front.request.is_none() && front.response.is_none();
            // A request that was lost is there to be counted until its response has come or is known to be lost too.
            if !front.is_over() || missing && !front.forced && self.base >= self.next_response {
                return None;
            }
            self.base += 1;
            let front = self.exchanges.pop_front()?;
            if !missing {
                return Some(front);
            }
        }
    }

    /// Hands out the oldest exchange as it is; false: there is none.
    pub fn evict_oldest(&mut self) -> bool {
        let Some(oldest) = self.exchanges.front_mut() else { return false };
        oldest.forced = true;
        self.evicted += 1;
        true
    }

    /// Exchanges given up since the last call because there were too many.
    pub fn take_evicted(&mut self) -> u64 {
        std::mem::take(&mut self.evicted)
    }

    /// Whether a response would be expected to answer a request that is held.
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
        self.request_of(Place::With(self.next_response))
    }

    /// Requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.next_request
    }

    fn certain(&self) -> bool {
        self.request_breaks.is_empty() && !self.responses_lost && !self.ambiguous
    }

    /// It is known which response answers request `number`: what was lost up to it is over.
    fn settle(&mut self, number: u64) {
        while self.request_breaks.front().is_some_and(|b| *b <= number) {
            self.request_breaks.pop_front();
        }
        self.responses_lost = false;
        self.ambiguous = false;
    }

    /// Requests may be missing between the last one and the next.
    fn lose_requests(&mut self) {
        self.suspected = false;
        self.no_more_requests();
        self.next_request = self.next_request.max(self.next_response);
        if self.request_breaks.back() != Some(&self.next_request) {
            self.request_breaks.push_back(self.next_request);
        }
        if self.request_breaks.len() > BREAKS_MAX {
            // Order says nothing any more until the count is known again.
            self.request_breaks.pop_front();
            self.ambiguous = true;
        }
        self.habit.lose_requests();
    }

    /// Exactly one request is missing between the last one and the next.
    fn lose_one_request(&mut self) {
        self.suspected = false;
        self.habit.lose_requests();
        let number = self.next_request;
        self.next_request += 1;
        match self.at(number) {
            Some(early) => early.given_up = true,
            None => {
                let not_before = self.exchanges.back().map_or(Timestamp::MIN, |e| e.request_first);
                self.exchanges.push_back(Exchange { given_up: true, ..Exchange::empty(not_before) });
            }
        }
    }

    /// Responses may be missing between the last one and the next. How many cannot be told: behind a request that is
    /// known there may be others in a hole of the client's that is not known yet.
    fn lose_responses(&mut self, loss: Loss, resumed: Timestamp) {
        self.habit.blurred = true;
        self.heard = None;
        let waiting = self.waiting();
        let exposed = waiting.clone().any(|n| n < loss.requests_before && self.sent_by(n, resumed));
        let given_up = u64::from(loss.next_began && exposed);
        self.give_up(waiting.start, waiting.start + given_up);
        self.next_response = self.next_response.max(waiting.start + given_up);
        self.responses_lost = true;
    }

    fn at(&mut self, number: u64) -> Option<&mut Exchange<Q, R>> {
        self.exchanges.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    /// The request that a response beginning at `first` answers, and whether that was not by count alone.
    fn attribute(&mut self, first: Timestamp, may_be_early: bool) -> Option<(u64, bool)> {
        let number = self.next_response;
        if self.certain() {
            if number >= self.next_request {
                if !may_be_early {
                    return None;
                }
                if self.next_response - self.next_request >= EARLY_MAX {
                    // Which requests these answer will not be known by counting when they come.
                    self.lose_requests();
                    return None;
                }
                self.expect_request(first);
                return Some((self.next_response - 1, false));
            }
            if !self.sent_by(number, first.plus(EARLY_NS_MAX)) {
                // It began before its request did: the count is wrong.
                self.ambiguous = true;
                return None;
            }
            self.next_response += 1;
            let exchange = self.at(number)?;
            let request_first = exchange.request.is_some().then_some(exchange.request_first);
            self.habit.observe(request_first, first);
            return Some((number, false));
        }
        let in_order = !self.responses_lost
            && !self.ambiguous
            && self.request_breaks.front().is_some_and(|b| number < *b);
        if in_order {
            self.next_response += 1;
            return Some((number, false));
        }
        self.attribute_after_loss(first).map(|number| (number, true))
    }

    fn attribute_after_loss(&mut self, first: Timestamp) -> Option<u64> {
        let waiting = self.waiting();
        let latest = waiting.clone().rev().find(|n| self.sent_by(*n, first));
        self.habit.alternates(latest.map_or(0, |latest| latest + 1 - waiting.start));
        let latest = latest?;
        let waits = self.habit.waits() && self.request_breaks.front().is_none_or(|b| *b <= latest);
        // Where a request is missing the response may answer that one or the one before.
        let suspected = self.suspected && latest + 1 == self.next_request;
        // Sent after the response before, with nothing lost between: no other response can be this one's.
        let fresh = self.heard.is_some_and(|heard| !self.sent_by(latest, heard));
        let known = waits && fresh && !suspected && !self.is_missing(latest);
        self.give_up(waiting.start, if known { latest } else { latest + 1 });
        if known {
            self.settle(latest);
        }
        self.ambiguous |= !waits;
        self.next_response = latest + 1;
        known.then_some(latest)
    }

    /// Whether this request was lost.
    fn is_missing(&mut self, number: u64) -> bool {
        self.at(number).is_some_and(|e| e.request.is_none())
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
        self.exchanges.push_back(Exchange::empty(first));
    }

    /// Hands out responses that are too old to answer a request that begins at `first`.
    fn give_up_stale_responses(&mut self, first: Timestamp) {
        while self.next_request < self.next_response {
            let number = self.next_request;
            match self.at(number) {
                Some(early) if first.since(early.response_first) > EARLY_NS_MAX => early.given_up = true,
                Some(_) => return,
                None => {}
            }
            self.next_request += 1;
        }
    }

    fn put_alone(&mut self, response: R, first: Timestamp) -> Place {
        self.alone = Some(Exchange { response: Some(response), given_up: true, ..Exchange::empty(first) });
        Place::Alone
    }

    /// Hands out the requests `from..to` that have no response.
    fn give_up(&mut self, from: u64, to: u64) {
        for number in from.max(self.base)..to {
            if let Some(exchange) = self.at(number) {
                exchange.given_up = true;
            }
        }
    }
}

impl<Q, R> Exchange<Q, R> {
    fn empty(first: Timestamp) -> Self {
        Exchange {
            request: None,
            response: None,
            resync: false,
            request_first: first,
            response_first: first,
            request_open: true,
            response_open: true,
            given_up: false,
            forced: false,
        }
    }

    #[inline]
    fn is_over(&self) -> bool {
        let request_over = if self.request.is_some() { !self.request_open } else { self.given_up };
        let response_over = if self.response.is_some() { !self.response_open } else { self.given_up };
        self.forced || request_over && response_over
    }
}

impl Habit {
    /// A response that surely answers a request sent at `request`.
    fn observe(&mut self, request: Option<Timestamp>, response: Timestamp) {
        let Some(request) = request else { return };
        match (self.response_last, self.batch_answered) {
            (Some(last), Some(answered)) if request < last => {
                if request <= answered {
                    self.depth += 1;
                } else {
                    self.overlaps = true;
                }
            }
            (last, _) => {
                let clear = last.is_some() && !self.blurred_before && !self.blurred;
                self.turns = self.turns.saturating_add(u32::from(clear));
                self.blurred_before = std::mem::take(&mut self.blurred);
                self.depth = 1;
                self.batch_answered = Some(response);
            }
        }
        self.depth_max = self.depth_max.max(self.depth);
    }

    fn lose_requests(&mut self) {
        (self.fresh_loss, self.blurred) = (true, true);
        self.weak_turns = 0;
    }

    /// A response after a loss came after so many requests since the last one.
    fn alternates(&mut self, requests: u64) {
        self.weak_turns = if requests == 1 { self.weak_turns.saturating_add(1) } else { 0 };
    }

    /// Never asks while it waits for a response.
    fn waits(&self) -> bool {
        self.depth_max <= 1 && !self.overlaps && (self.turns >= 1 || self.weak_turns >= WEAK_TURNS)
    }

    /// A request sent at `first` is the first of a batch, and all earlier ones have been answered: the server has been
    /// silent for longer than bytes of its stream are held back.
    fn begins_batch(&self, first: Timestamp) -> bool {
        self.depth_max > 1
            && !self.overlaps
            && self.turns >= 1
            && !self.fresh_loss
            && self.responded_since_request
            && self.response_last.is_some_and(|last| first.since(last) >= SILENCE_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: Direction = Direction::ClientToServer;
    const S: Direction = Direction::ServerToClient;

    /// Plays `script`, one step a microsecond, and shows what comes out. `q1` is request 1 and `r1` its response, `Q` and `R`
    /// are losses of 40 and 100 bytes, in which messages began, with the next message right behind.
    fn check(script: &str, expected: &str) {
        let mut exchanges = InOrder::<char, char>::default();
        let mut loss = [None; 2];
        let mut out = Vec::new();
        for (i, step) in script.split(' ').enumerate() {
            let ts = Timestamp(i as i64 * 1000);
            let name = step.chars().nth(1).unwrap_or_default();
            match &step[..1] {
                "Q" => loss[0] = Some(exchanges.loss(C, loss[0], 40, true)),
                "R" => loss[1] = Some(exchanges.loss(S, loss[1], 100, true)),
                "q" => {
                    if let Some(loss) = loss[0].take() {
                        exchanges.resume(C, loss, true, ts);
                    }
                    let number = exchanges.request(name, 30, ts, false);
                    exchanges.finish_request(number);
                }
                _ => {
                    if let Some(loss) = loss[1].take() {
                        exchanges.resume(S, loss, true, ts);
                    }
                    let place = exchanges.response(name, ts, false, true);
                    exchanges.finish_response(place, ts);
                }
            }
            out.extend(std::iter::from_fn(|| exchanges.pop()));
        }
        exchanges.close();
        out.extend(std::iter::from_fn(|| exchanges.pop()));
        let show =
            |e: &Exchange<char, char>| format!("{}{}", e.request.unwrap_or('-'), e.response.unwrap_or('-'));
        assert_eq!(out.iter().map(show).collect::<Vec<_>>().join(" "), expected, "{script}");
    }

    #[test]
    fn whole_streams() {
        check("q1 r1 q2 r2", "11 22");
        check("q1 q2 q3 r1 r2 r3", "11 22 33");
        check("r1 q1 q2 r2", "11 22");
        check("q1 q2 r1", "11 2-");
        check("q1 r1 r2", "11 -2");
    }

    #[test]
    fn lost_responses() {
        // Two were asked, one at least is lost: what comes answers the other, or one that is not known yet.
        check("q1 q2 R r2 q3 r3", "-2 1- 2- -3 3-");
        // Three were asked: what comes may answer any of the others, and nothing more is known of this client.
        check("q1 q2 q3 R r3 q4 r4", "-3 1- 2- 3- -4 4-");
        // This one waits for each response: after the first that was heard again it is known what it asks.
        check("q1 r1 q2 r2 q3 R q4 r4 q5 r5", "11 22 -4 3- 4- 55");
        // The loss becomes known when later requests have been seen.
        check("q1 r1 q2 r2 q3 q4 R r4 q5 r5", "11 22 -4 3- 4- 55");
    }

    #[test]
    fn lost_requests() {
        // There is room for one.
        check("q1 r1 Q r2 q3 r3", "11 -2 33");
        check("q1 q2 Q q4 r1 r2 r3 r4", "11 22 -3 44");
        // There is room for more, and nothing is known of this client.
        check("q1 Q Q q4 r1 r2 r4", "11 -2 4- -4");
    }

    #[test]
    fn both_lost() {
        // The response may be the third's, which is lost, or the second's.
        check("q1 r1 q2 R Q r3", "11 -3 2-");
    }

    #[test]
    fn waiting_is_bounded() {
        let mut exchanges = InOrder::<u64, u64>::default();
        for i in 0..WAITING_MAX as u64 + 5 {
            let number = exchanges.request(i, 30, Timestamp(i as i64), false);
            exchanges.finish_request(number);
            while exchanges.pop().is_some() {}
        }
        assert_eq!(exchanges.take_evicted(), 5);
        // The responses to those that were given up are not given to others.
        let place = exchanges.response(0, Timestamp(9999), false, true);
        assert_eq!(place, Place::Alone);
    }
}
