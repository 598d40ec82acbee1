//! The transactions of one connection, oldest request first, and how far counting holds.
//!
//! A parser says where messages begin and end; the queue finds the request of each response and hands transactions out
//! when they are over. Holds at most [`TRANSACTIONS_MAX`] requests, and as many responses of which the request is not known
//! yet, or [`RESPONSES_HELD_MAX`] if that is more.

use flow::Place;
use wire::{TcpSeq, Timestamp};

use super::client::Client;
use super::numbering::Hole;
use super::rounds::{Loose, Opening, Round};
use super::slots::Slots;
use super::transaction::{Answers, Edge, Expects, Fit, Outcome, Part, Transaction};
use super::trial::Trial;
use crate::Direction;

/// Most requests held; beyond, the oldest is handed out as it is. [`crate::Limits::outstanding_max`] is its default.
pub const TRANSACTIONS_MAX: usize = 131_072;
/// Responses that may always be held until their round ends; more are held while there are fewer than requests.
pub const RESPONSES_HELD_MAX: usize = 256;

/// Where more requests wait, nothing is looked for among all of them for every response.
pub(super) const SCAN_MAX: u64 = 1024;

/// How far the n-th response answers the n-th request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Counting {
    /// Everywhere: nothing is missing.
    #[default]
    Exact,
    /// For requests below this number; just before it requests may be missing.
    ExactBelow(u64),
    /// Nowhere, until a round begins; what is missing.
    Lost(Missing),
}

/// What is missing where counting is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Only responses.
    Responses,
    /// Requests, perhaps responses too.
    Requests,
}

/// Where a response was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// With the request of this number.
    With(u64),
    /// Apart: its request is not known, or not yet.
    Apart(u64),
}

impl Default for Spot {
    fn default() -> Self {
        Spot::Apart(u64::MAX)
    }
}

/// How requests and responses find each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Naming {
    /// By their order alone.
    #[default]
    None,
    /// A response names its request, and no two requests have the same name.
    Unique,
}

/// Which requests are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Answered {
    #[default]
    All,
    /// There are some that are not.
    Some,
}

/// Whether the server says what it was not asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Unasked {
    #[default]
    Never,
    /// It does now and then.
    Sometimes,
}

/// The transactions of one connection. Laid out as written: what every message touches is in front.
#[derive(Debug)]
#[repr(C)]
pub struct Transactions<Q, R> {
    /// The number of the oldest transaction held.
    pub(super) base: u64,
    pub(super) next_request: u64,
    /// The oldest request that no response has been counted to.
    pub(super) next_response: u64,
    pub(super) counting: Counting,
    /// Where the last message of each direction ended.
    pub(super) edges: [Edge; 2],
    pub(super) round: Round,
    pub(super) client: Client,
    /// The connection was joined midway, and what it said before is still of consequence.
    pub(super) joined: bool,
    /// Bytes of the client are missing before its first request.
    pub(super) lacks_first: bool,
    pub(super) naming: Naming,
    answered: Answered,
    unasked: Unasked,
    /// Bytes of the smallest message that the protocol has.
    pub(super) message_bytes_min: u32,
    pub(super) evicted: u32,
    /// Bytes of the smallest request seen.
    pub(super) smallest_request: u32,
    /// The count rests on what was counted, not on what the client is taken for: no request before [`Self::next_response`]
    /// can still be answered.
    pub(super) anchored: bool,
    /// The request with which the count began anew.
    pub(super) anew: u64,
    /// Requests that may be missing before the next one, besides those just before it.
    carried: Hole,
    /// Where the last response began.
    pub(super) last_response: Option<Place>,
    /// Where the last bytes of the server begin in which a response was looked for.
    pub(super) searched: Option<Place>,
    /// Up to here the server has spoken, as far as a parser has told that what it begins is not known yet.
    pub(super) spoken: Option<TcpSeq>,
    pub(super) queue: Slots<Transaction<Q, R>>,
    /// From this one on transactions are not handed out: they are on trial.
    pub(super) held_from: u64,
    pub(super) trial: Option<Box<Trial>>,
    /// Responses whose requests are not known.
    pub(super) loose: Option<Box<Loose<Q, R>>>,
    /// Requests that searches by name passed.
    pub(super) searched_by_name: u64,
}

impl<Q: Default, R: Default + Answers<Q>> Transactions<Q, R> {
    /// A queue for a protocol whose smallest message has `bytes` bytes, which limits the messages that missing bytes
    /// can hide.
    #[must_use]
    pub fn of_messages_from(bytes: u32) -> Self {
        Transactions {
            base: 0,
            next_request: 0,
            next_response: 0,
            counting: Counting::Exact,
            edges: [Edge::Start; 2],
            round: Round::default(),
            client: Client::default(),
            joined: false,
            lacks_first: false,
            naming: Naming::None,
            answered: Answered::All,
            unasked: Unasked::Never,
            message_bytes_min: bytes,
            evicted: 0,
            smallest_request: u32::MAX,
            anchored: true,
            anew: u64::MAX,
            carried: Hole::NONE,
            last_response: None,
            searched: None,
            spoken: None,
            queue: Slots::default(),
            held_from: u64::MAX,
            trial: None,
            loose: None,
            searched_by_name: 0,
        }
    }

    /// Of a protocol whose clients must wait for each response before they ask again.
    #[must_use]
    pub fn of_clients_that_wait(self) -> Self {
        Transactions { client: Client::that_waits(), ..self }
    }

    /// The same for a protocol with unanswered requests: missing bytes may hide no answered request.
    #[must_use]
    pub fn with_silent_requests(self) -> Self {
        Transactions { answered: Answered::Some, ..self }
    }

    /// Of a protocol in which the server also speaks unasked: missing bytes may hide no response.
    #[must_use]
    pub fn with_unsolicited_messages(self) -> Self {
        Transactions { unasked: Unasked::Sometimes, ..self }
    }

    /// Sets the smallest message once the protocol is known.
    pub fn set_smallest_message(&mut self, bytes: u32) {
        self.message_bytes_min = bytes;
    }

    /// From here on the server may also speak unasked.
    pub fn allow_unsolicited_messages(&mut self) {
        self.unasked = Unasked::Sometimes;
    }

    /// The connection is joined midway: before the first message there may have been others.
    pub fn join_midway(&mut self) {
        (self.joined, self.anchored) = (true, false);
        self.edges = [Edge::Unknown; 2];
        self.counting = Counting::Lost(Missing::Requests);
    }

    /// A request begins. Gives its number and its place, which holds what an earlier request left there. `found`: it was
    /// looked for, behind missing bytes.
    pub fn request(
        &mut self,
        first: Timestamp,
        place: Place,
        expects: Expects,
        found: bool,
    ) -> (u64, &mut Q) {
        if self.queue.len() >= TRANSACTIONS_MAX {
            self.evict_oldest();
        }
        let mut hole = self.hole_before(Direction::ClientToServer, place.seq);
        self.edges[Direction::ClientToServer as usize] = Edge::Within;
        let by_order = self.naming == Naming::None;
        let begins_round = by_order && place.ack.is_some() && place.ack != self.round.heard;
        if hole != Hole::NONE {
            hole = self.miss_requests(hole, place, begins_round);
        } else if self.counting == Counting::ExactBelow(self.next_request) {
            // What was missing was too little for a message.
            self.counting = Counting::Exact;
        }
        hole = hole.and(std::mem::take(&mut self.carried));
        if begins_round {
            hole = self.begin_round(place, hole);
        } else if place.ack.is_none() && self.edges[Direction::ServerToClient as usize] == Edge::Start {
            // Nothing tells where the server's first response begins.
            self.counting = Counting::Lost(Missing::Responses);
        }
        if expects != Expects::Nothing {
            self.round.asked += 1;
            if self.round.asked > 1 {
                self.client.asked_several();
            }
        }
        let number = self.next_request;
        self.next_request += 1;
        let hopeless = self.is_hopeless();
        let transaction = self.queue.push();
        transaction.begin_request(first, place, expects);
        (transaction.hole, transaction.found) = (hole, found);
        if expects == Expects::Nothing {
            transaction.outcome = Outcome::Silent;
        } else if hopeless {
            transaction.outcome = Outcome::Half;
        }
        (number, &mut transaction.request)
    }

    /// The request `number`, while it is held.
    #[inline]
    pub fn request_mut(&mut self, number: u64) -> Option<&mut Q> {
        self.at(number).filter(|t| t.asked != Part::Unseen).map(|t| &mut t.request)
    }

    /// The request `number` has ended, at `end` if that is known. Gives it, while it is held, for a last word.
    #[inline]
    pub fn finish_request(&mut self, number: u64, end: Option<TcpSeq>) -> Option<&mut Q> {
        self.edges[Direction::ClientToServer as usize] = end.map_or(Edge::Unknown, Edge::At);
        let transaction = self.at(number).filter(|t| t.asked != Part::Unseen)?;
        transaction.asked = Part::Ended;
        let size = end.map_or(u32::MAX, |end| end.distance(transaction.place.seq) as u32);
        if size < self.smallest_request {
            self.smallest_request = size;
        }
        self.at(number).map(|transaction| &mut transaction.request)
    }

    /// A response begins; `fits` tells by its head whether it can be to a request. Gives where it is and its place, which
    /// holds what an earlier one left there.
    pub fn response(&mut self, first: Timestamp, place: Place, fits: impl Fn(&Q) -> Fit) -> (Spot, &mut R) {
        let hole = self.begin_answer(place);
        if self.naming == Naming::Unique {
            self.doubt_responses(hole);
            return self.put_apart(first, place, hole);
        }
        let uncounted = if hole == Hole::NONE { hole } else { self.miss_responses(hole) };
        if self.lacks_oldest() && !matches!(self.counting, Counting::Lost(_)) {
            return self.separate(first, place);
        }
        let Some((number, recounted)) = self.attribute(place, uncounted, fits) else {
            return self.put_apart(first, place, uncounted);
        };
        let is_anew = number == self.anew;
        let transaction = self.at(number).expect("only requests that are held are answered");
        (transaction.answered, transaction.response_first) = (Part::Begun, first);
        transaction.recounted = recounted || hole != Hole::NONE || is_anew;
        (Spot::With(number), &mut transaction.response)
    }

    /// The response at `spot`, while it is held.
    #[inline]
    pub fn response_mut(&mut self, spot: Spot) -> Option<&mut R> {
        self.answered(spot).map(|t| &mut t.response)
    }

    /// The response at `spot` has ended, at `end` if that is known. Gives it, while it is held, for a last word.
    #[inline]
    pub fn finish_response(&mut self, spot: Spot, end: Option<TcpSeq>) -> Option<&mut R> {
        self.edges[Direction::ServerToClient as usize] = end.map_or(Edge::Unknown, Edge::At);
        let transaction = self.answered(spot)?;
        transaction.answered = Part::Ended;
        Some(&mut transaction.response)
    }

    /// What `direction` says from `begin` to `end` is no message of its own, and comes between two.
    pub fn pass(&mut self, direction: Direction, begin: TcpSeq, end: Option<TcpSeq>) {
        let edge = &mut self.edges[direction as usize];
        if matches!(edge, Edge::Start) || *edge == Edge::At(begin) {
            *edge = end.map_or(Edge::Unknown, Edge::At);
        }
    }

    /// The server has spoken up to `end`, and what it began behind its last message is not known yet: nothing is missing.
    pub fn speaks(&mut self, end: TcpSeq) {
        self.spoken = Some(end);
    }

    /// Bytes of `direction` are missing behind its last message. The number of messages is determined when the next one
    /// begins; until then it is unknown.
    pub fn miss(&mut self, direction: Direction) {
        let edge = &mut self.edges[direction as usize];
        *edge = match *edge {
            Edge::At(end) | Edge::Missing(end) => Edge::Missing(end),
            Edge::Start | Edge::Within | Edge::Unknown => Edge::Unknown,
        };
        if direction == Direction::ClientToServer {
            self.lacks_first |= self.next_request == 0;
            self.doubt_requests();
        }
    }

    /// Bytes of `direction` were not understood: whether there were messages among them is not known.
    pub fn lose(&mut self, direction: Direction) {
        self.edges[direction as usize] = Edge::Unknown;
        self.miss(direction);
    }

    /// Whether no message is missing and no response to an abandoned request will follow.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.counting == Counting::Exact && !self.lacks_oldest()
    }

    /// The request `number` gets no response: it was silently done, or its response was not seen.
    pub fn conclude(&mut self, number: u64, outcome: Outcome) {
        if let Some(transaction) = self.at(number).filter(|t| t.answered == Part::Unseen) {
            transaction.outcome = outcome;
        }
    }

    /// The server has said all: what has no response gets none.
    pub fn end_responses(&mut self) {
        let missing = self.hole_at_end(Direction::ServerToClient);
        if self.counting == Counting::Exact && missing == Hole::NONE {
            let owed = |n: &u64| self.get(*n).is_some_and(|t| t.waits() && t.expects == Expects::Response);
            let to = (self.base..self.next_request).find(owed).unwrap_or(self.next_request);
            self.pass_over_silent(to);
        }
        self.settle_last_round(missing);
        self.give_up(self.base, self.next_request);
    }

    /// The connection is silent, and may stay so for long: what is held is settled as at its end. Whether counting can go on behind
    /// that; not where a request was left without its response, which may still come.
    pub fn rest(&mut self) -> bool {
        let owes = self.counting == Counting::Exact && self.waiting().next().is_some();
        if self.lacks_oldest() || self.carried != Hole::NONE || owes {
            return false;
        }
        self.settle_last_round(Hole::ANY);
        (0..self.queue.len()).all(|i| {
            self.queue.get(i).is_none_or(|t| t.answered == Part::Ended || t.outcome == Outcome::Silent)
        })
    }

    /// The connection is idle, possibly for long: open transactions are returned unfinished. Counting continues behind
    /// them if the number of outstanding responses is known; otherwise rounds have to prove it again.
    pub fn pause(&mut self) {
        let open = || (self.next_response..self.next_request).filter_map(|n| self.get(n));
        // Where some requests are not answered, or the server also speaks unasked, their number is not known.
        let is_known = self.unasked == Unasked::Never
            && open().all(|t| t.waits() && t.expects == Expects::Response && t.asked == Part::Ended);
        let is_counted = self.counting == Counting::Exact && (is_known || !open().any(Transaction::waits));
        let most = open().fold(0u32, |most, t| most.saturating_add(1).saturating_add(t.hole.most));
        self.close();
        if !is_counted {
            (self.counting, self.anchored) = (Counting::Lost(Missing::Requests), false);
            self.round.opening = Opening::Holed;
            self.carried = self.carried.and(Hole { least: 0, most });
        }
    }

    /// The connection has ended: all transactions are returned as they are.
    pub fn close(&mut self) {
        self.settle_last_round(Hole::ANY);
        for i in 0..self.queue.len() {
            if let Some(transaction) = self.queue.get_mut(i) {
                transaction.break_off();
            }
        }
        if let Some(loose) = &mut self.loose {
            loose.close();
        }
    }

    /// Hands out the transactions that are over, oldest first.
    #[inline]
    pub fn hand_out(&mut self, mut take: impl FnMut(&mut Transaction<Q, R>)) {
        if let Some(loose) = &mut self.loose
            && loose.hand_out(&mut take)
        {
            self.loose = None;
        }
        while let Some(front) = self.queue.get_mut(0) {
            if self.base >= self.held_from || !front.is_over() {
                return;
            }
            if front.apart {
                front.part(&mut take);
            } else if front.request().is_some() || front.response().is_some() {
                take(front);
            }
            // The response to one that was evicted will come yet, and has to be counted.
            let is_counted = front.outcome != Outcome::BrokenOff
                || front.expects == Expects::Nothing
                || self.naming == Naming::Unique;
            let hole = front.unsettled_hole();
            let is_silent = front.outcome == Outcome::Silent;
            let is_missing = front.asked == Part::Unseen && front.answered == Part::Unseen;
            if self.next_response == self.base && is_counted {
                self.next_response += 1;
            } else if !is_counted && is_missing {
                // It has no row: that of its response is the only one.
                self.counting = Counting::Lost(Missing::Requests);
            } else if is_silent && self.lacks_oldest() {
                // How many of those that were evicted are answered is not known any more.
                self.counting = Counting::Lost(Missing::Requests);
            }
            self.base += 1;
            self.queue.pop();
            if hole != Hole::NONE {
                let next = self.queue.get_mut(0).map_or(&mut self.carried, |next| &mut next.hole);
                *next = next.and(hole);
            }
        }
    }

    /// Returns the request `number` if it is complete and never answered: it is finished even if others before it are
    /// not.
    pub fn hand_out_silent(&mut self, number: u64, take: impl FnOnce(&mut Transaction<Q, R>)) {
        let is_over = |t: &&mut Transaction<Q, R>| t.expects == Expects::Nothing && t.asked == Part::Ended;
        if let Some(transaction) = self.at(number).filter(is_over) {
            take(transaction);
            // Only its place in the queue is left.
            transaction.asked = Part::Unseen;
        }
    }

    /// Transactions held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.queue.len()
    }

    /// Requests so far, the missing ones that were counted included.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.next_request
    }

    #[inline]
    pub(super) fn at(&mut self, number: u64) -> Option<&mut Transaction<Q, R>> {
        self.queue.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&Transaction<Q, R>> {
        self.queue.get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    #[inline]
    fn answered(&mut self, spot: Spot) -> Option<&mut Transaction<Q, R>> {
        let transaction = match spot {
            Spot::With(number) => self.at(number),
            Spot::Apart(number) => self.loose.as_mut()?.get_mut(number),
        };
        transaction.filter(|t| t.answered != Part::Unseen)
    }

    /// The messages that may be missing in `direction` before one that begins at `seq`.
    #[inline]
    pub(super) fn hole_before(&self, direction: Direction, seq: TcpSeq) -> Hole {
        match self.edges[direction as usize] {
            Edge::At(end) if end == seq => Hole::NONE,
            Edge::At(end) | Edge::Missing(end) => {
                let hole = self.hole_of(seq.distance(end));
                let may_be_none = match direction {
                    Direction::ClientToServer => self.answered == Answered::Some,
                    Direction::ServerToClient => self.unasked == Unasked::Sometimes,
                };
                if may_be_none { hole.in_part() } else { hole }
            }
            Edge::Start => Hole::NONE,
            Edge::Within | Edge::Unknown => Hole::ANY,
        }
    }

    /// The number of messages that `bytes` missing bytes between two messages may hide.
    pub(super) fn hole_of(&self, bytes: i32) -> Hole {
        match u32::try_from(bytes) {
            Ok(bytes) => Hole::of_whole_messages(bytes, self.message_bytes_min),
            Err(_) => Hole::ANY,
        }
    }

    /// The messages that may be missing behind the last one, if `direction` ends here.
    pub(super) fn hole_at_end(&self, direction: Direction) -> Hole {
        match self.edges[direction as usize] {
            Edge::At(_) | Edge::Start => Hole::NONE,
            Edge::Missing(_) | Edge::Within | Edge::Unknown => Hole::ANY,
        }
    }

    /// A response begins. Gives what may be missing before it.
    #[inline]
    pub(super) fn begin_answer(&mut self, place: Place) -> Hole {
        let hole = self.hole_before(Direction::ServerToClient, place.seq);
        self.edges[Direction::ServerToClient as usize] = Edge::Within;
        self.last_response = Some(place);
        hole
    }

    /// Holds a response until its round ends, or permanently.
    #[cold]
    fn put_apart(&mut self, first: Timestamp, place: Place, hole: Hole) -> (Spot, &mut R) {
        let is_held =
            matches!(self.counting, Counting::Lost(_)) && self.naming == Naming::None && !self.is_hopeless();
        let max = RESPONSES_HELD_MAX.max(self.queue.len());
        let held_max = if is_held { max } else { 0 };
        let (number, response) = self.loose.get_or_insert_default().push(first, place, hole, held_max);
        (Spot::Apart(number), response)
    }

    /// Hands out the requests `from..to` that have no response.
    pub(super) fn give_up(&mut self, from: u64, to: u64) {
        for number in from.max(self.base)..to {
            if let Some(transaction) = self.at(number).filter(|t| t.answered == Part::Unseen) {
                let silent = transaction.outcome == Outcome::Silent;
                transaction.outcome = if silent { Outcome::Silent } else { Outcome::Half };
            }
        }
    }
}

impl<Q: Default, R: Default + Answers<Q>> Transaction<Q, R> {
    /// Hands out request and response as halves.
    #[cold]
    fn part(&mut self, take: &mut impl FnMut(&mut Transaction<Q, R>)) {
        if self.asked != Part::Unseen && self.answered != Part::Unseen {
            let mut told =
                Transaction { answered: self.answered, outcome: self.outcome, ..Transaction::default() };
            told.response_first = self.response_first;
            std::mem::swap(&mut told.response, &mut self.response);
            told.response.doubt();
            self.answered = Part::Unseen;
            take(self);
            return take(&mut told);
        }
        if self.asked != Part::Unseen || self.answered != Part::Unseen {
            take(self);
        }
    }
}

impl<Q, R> Transaction<Q, R> {
    /// What may be missing before a request without an answer is missing before the next one.
    fn unsettled_hole(&self) -> Hole {
        if self.outcome == Outcome::Silent && self.answered == Part::Unseen { self.hole } else { Hole::NONE }
    }

    /// It is handed out as it is.
    pub(super) fn break_off(&mut self) {
        let silent = self.outcome == Outcome::Silent && self.asked == Part::Ended;
        self.outcome = if silent { Outcome::Silent } else { Outcome::BrokenOff };
    }
}
