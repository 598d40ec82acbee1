//! The transactions of one connection, oldest request first, and the state of counting.
//!
//! A parser reports the start and end of messages; the queue finds the request of each response and returns
//! finished transactions. Holds at most [`TRANSACTIONS_MAX`] requests, and as many responses without a known
//! request, or [`RESPONSES_HELD_MAX`] if that is more.

use flow::Place;
use wire::{TcpSeq, Timestamp};

use super::client::Client;
use super::numbering::Hole;
use super::rounds::{Loose, Opening, Round};
use super::slots::Slots;
use super::transaction::{Answers, Edge, Expects, Fit, Outcome, Part, Transaction};
use super::trial::Trial;
use crate::Direction;

/// Maximum number of requests held; beyond it the oldest is returned unfinished. Default of
/// [`crate::Limits::outstanding_max`].
pub const TRANSACTIONS_MAX: usize = 131_072;
/// Responses that may always be held until their round ends; more are held as long as they are fewer than the
/// requests.
pub const RESPONSES_HELD_MAX: usize = 256;

/// Maximum number of waiting requests that are scanned for each response.
pub(super) const SCAN_MAX: u64 = 1024;

/// Range in which the n-th response answers the n-th request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Counting {
    /// All requests: nothing is missing.
    #[default]
    Exact,
    /// Requests below this number; requests may be missing directly before it.
    ExactBelow(u64),
    /// None until a round begins; with the kind of missing messages.
    Lost(Missing),
}

/// Messages missing when counting is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Responses only.
    Responses,
    /// Requests, possibly responses too.
    Requests,
}

/// Where a response is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// With the request of this number.
    With(u64),
    /// Separately: its request is unknown, possibly only for now.
    Apart(u64),
}

impl Default for Spot {
    fn default() -> Self {
        Spot::Apart(u64::MAX)
    }
}

/// How responses are matched with requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Naming {
    /// By order only.
    #[default]
    None,
    /// A response names its request, and names are unique.
    Unique,
}

/// Which requests are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Answered {
    #[default]
    All,
    /// Not all.
    Some,
}

/// Whether the server sends unsolicited messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Unasked {
    #[default]
    Never,
    /// It may.
    Sometimes,
}

/// The transactions of one connection. `repr(C)` order: the fields used by every message come first.
#[derive(Debug)]
#[repr(C)]
pub struct Transactions<Q, R> {
    /// Number of the oldest transaction held.
    pub(super) base: u64,
    pub(super) next_request: u64,
    /// The oldest request that no response has been counted to.
    pub(super) next_response: u64,
    pub(super) counting: Counting,
    /// End of the last message of each direction.
    pub(super) edges: [Edge; 2],
    pub(super) round: Round,
    pub(super) client: Client,
    /// The connection was joined midway, and messages before that still matter.
    pub(super) joined: bool,
    /// Bytes of the client are missing before its first request.
    pub(super) lacks_first: bool,
    pub(super) naming: Naming,
    answered: Answered,
    unasked: Unasked,
    /// Smallest message of the protocol, in bytes.
    pub(super) message_bytes_min: u32,
    pub(super) evicted: u32,
    /// Smallest request seen, in bytes.
    pub(super) smallest_request: u32,
    /// The count does not rely on the model of the client: no request before [`Self::next_response`] can
    /// still be answered.
    pub(super) anchored: bool,
    /// The request at which counting resumed.
    pub(super) anew: u64,
    /// Requests that may be missing before the next one, besides those directly before it.
    carried: Hole,
    /// Position of the last response.
    pub(super) last_response: Option<Place>,
    /// Position of the last bytes of the server in which a response was searched for.
    pub(super) searched: Option<Place>,
    /// End of server bytes that the parser has received but not yet recognized as a message.
    pub(super) spoken: Option<TcpSeq>,
    pub(super) queue: Slots<Transaction<Q, R>>,
    /// First transaction on trial: from here on none is returned.
    pub(super) held_from: u64,
    pub(super) trial: Option<Box<Trial>>,
    /// Responses without known requests.
    pub(super) loose: Option<Box<Loose<Q, R>>>,
    /// Requests visited by searches by name.
    pub(super) searched_by_name: u64,
}

impl<Q: Default, R: Default + Answers<Q>> Transactions<Q, R> {
    /// Creates a queue for a protocol whose smallest message has `bytes` bytes; this bounds the number of
    /// messages that missing bytes can hide.
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

    /// For protocols that require clients to wait for each response.
    #[must_use]
    pub fn of_clients_that_wait(self) -> Self {
        Transactions { client: Client::that_waits(), ..self }
    }

    /// For protocols with requests that remain unanswered: missing bytes may hide no answered request.
    #[must_use]
    pub fn with_silent_requests(self) -> Self {
        Transactions { answered: Answered::Some, ..self }
    }

    /// For protocols with unsolicited server messages: missing bytes may hide no response.
    #[must_use]
    pub fn with_unsolicited_messages(self) -> Self {
        Transactions { unasked: Unasked::Sometimes, ..self }
    }

    /// Sets the smallest message once the protocol is known.
    pub fn set_smallest_message(&mut self, bytes: u32) {
        self.message_bytes_min = bytes;
    }

    /// Allows unsolicited server messages from here on.
    pub fn allow_unsolicited_messages(&mut self) {
        self.unasked = Unasked::Sometimes;
    }

    /// Marks the connection as joined midway: messages may precede the first one seen.
    pub fn join_midway(&mut self) {
        (self.joined, self.anchored) = (true, false);
        self.edges = [Edge::Unknown; 2];
        self.counting = Counting::Lost(Missing::Requests);
    }

    /// Begins a request. Returns its number and its slot, which contains an earlier request. `found`: it was
    /// found by a search after missing bytes.
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
            // The missing bytes were too few for a message.
            self.counting = Counting::Exact;
        }
        hole = hole.and(std::mem::take(&mut self.carried));
        if begins_round {
            hole = self.begin_round(place, hole);
        } else if place.ack.is_none() && self.edges[Direction::ServerToClient as usize] == Edge::Start {
            // The position of the server's first response is unknown.
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

    /// The request `number`, if it is still held.
    #[inline]
    pub fn request_mut(&mut self, number: u64) -> Option<&mut Q> {
        self.at(number).filter(|t| t.asked != Part::Unseen).map(|t| &mut t.request)
    }

    /// Ends request `number`, at `end` if known. Returns it for final changes if it is still held.
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

    /// Begins a response; `fits` decides by its head whether it can answer a request. Returns its location
    /// and its slot, which contains an earlier response.
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

    /// The response at `spot`, if it is still held.
    #[inline]
    pub fn response_mut(&mut self, spot: Spot) -> Option<&mut R> {
        self.answered(spot).map(|t| &mut t.response)
    }

    /// Ends the response at `spot`, at `end` if known. Returns it for final changes if it is still held.
    #[inline]
    pub fn finish_response(&mut self, spot: Spot, end: Option<TcpSeq>) -> Option<&mut R> {
        self.edges[Direction::ServerToClient as usize] = end.map_or(Edge::Unknown, Edge::At);
        let transaction = self.answered(spot)?;
        transaction.answered = Part::Ended;
        Some(&mut transaction.response)
    }

    /// Skips bytes of `direction` from `begin` to `end` that lie between two messages.
    pub fn pass(&mut self, direction: Direction, begin: TcpSeq, end: Option<TcpSeq>) {
        let edge = &mut self.edges[direction as usize];
        if matches!(edge, Edge::Start) || *edge == Edge::At(begin) {
            *edge = end.map_or(Edge::Unknown, Edge::At);
        }
    }

    /// Records that the server's bytes up to `end` were received but not yet recognized, so nothing is
    /// missing.
    pub fn speaks(&mut self, end: TcpSeq) {
        self.spoken = Some(end);
    }

    /// Records a gap in `direction` after its last message. The number of missing messages is determined when
    /// the next one begins; until then it is unknown.
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

    /// Records bytes of `direction` that were not understood and may contain messages.
    pub fn lose(&mut self, direction: Direction) {
        self.edges[direction as usize] = Edge::Unknown;
        self.miss(direction);
    }

    /// Whether no message is missing and no response to an evicted request will follow.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.counting == Counting::Exact && !self.lacks_oldest()
    }

    /// Concludes request `number` without a response: silent by definition, or the response was not seen.
    pub fn conclude(&mut self, number: u64, outcome: Outcome) {
        if let Some(transaction) = self.at(number).filter(|t| t.answered == Part::Unseen) {
            transaction.outcome = outcome;
        }
    }

    /// Ends the server's stream: unanswered requests get no response.
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

    /// Handles an idle connection: held transactions are settled as at its end. Returns whether counting can
    /// continue, which requires that no request waits for a response.
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

    /// Handles an idle connection: open transactions are returned unfinished. Counting continues after them
    /// if the number of outstanding responses is known; otherwise rounds have to prove it again.
    pub fn pause(&mut self) {
        let open = || (self.next_response..self.next_request).filter_map(|n| self.get(n));
        // With optional requests or unsolicited messages, the number of outstanding responses is unknown.
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

    /// Ends the connection: all transactions are returned as they are.
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

    /// Passes the finished transactions to `take`, oldest first.
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
            // The response to an evicted request will follow and must be counted.
            let is_counted = front.outcome != Outcome::BrokenOff
                || front.expects == Expects::Nothing
                || self.naming == Naming::Unique;
            let hole = front.unsettled_hole();
            let is_silent = front.outcome == Outcome::Silent;
            let is_missing = front.asked == Part::Unseen && front.answered == Part::Unseen;
            if self.next_response == self.base && is_counted {
                self.next_response += 1;
            } else if !is_counted && is_missing {
                // It has no row: the row of its response is the only one.
                self.counting = Counting::Lost(Missing::Requests);
            } else if is_silent && self.lacks_oldest() {
                // The number of evicted requests with a response is no longer known.
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

    /// Returns the request `number` if it is complete and never answered: it is finished even if others
    /// before it are not.
    pub fn hand_out_silent(&mut self, number: u64, take: impl FnOnce(&mut Transaction<Q, R>)) {
        let is_over = |t: &&mut Transaction<Q, R>| t.expects == Expects::Nothing && t.asked == Part::Ended;
        if let Some(transaction) = self.at(number).filter(is_over) {
            take(transaction);
            // Only its slot in the queue remains.
            transaction.asked = Part::Unseen;
        }
    }

    /// Number of transactions held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.queue.len()
    }

    /// Number of requests so far, including counted missing ones.
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

    /// Messages that may be missing in `direction` before one that begins at `seq`.
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

    /// Number of messages that `bytes` missing bytes between two messages may hide.
    pub(super) fn hole_of(&self, bytes: i32) -> Hole {
        match u32::try_from(bytes) {
            Ok(bytes) => Hole::of_whole_messages(bytes, self.message_bytes_min),
            Err(_) => Hole::ANY,
        }
    }

    /// Messages that may be missing after the last one if `direction` ends here.
    pub(super) fn hole_at_end(&self, direction: Direction) -> Hole {
        match self.edges[direction as usize] {
            Edge::At(_) | Edge::Start => Hole::NONE,
            Edge::Missing(_) | Edge::Within | Edge::Unknown => Hole::ANY,
        }
    }

    /// Begins a response. Returns the messages that may be missing before it.
    #[inline]
    pub(super) fn begin_answer(&mut self, place: Place) -> Hole {
        let hole = self.hole_before(Direction::ServerToClient, place.seq);
        self.edges[Direction::ServerToClient as usize] = Edge::Within;
        self.last_response = Some(place);
        hole
    }

    /// Stores a response separately until its round ends, or permanently.
    #[cold]
    fn put_apart(&mut self, first: Timestamp, place: Place, hole: Hole) -> (Spot, &mut R) {
        let is_held =
            matches!(self.counting, Counting::Lost(_)) && self.naming == Naming::None && !self.is_hopeless();
        let max = RESPONSES_HELD_MAX.max(self.queue.len());
        let held_max = if is_held { max } else { 0 };
        let (number, response) = self.loose.get_or_insert_default().push(first, place, hole, held_max);
        (Spot::Apart(number), response)
    }

    /// Returns the unanswered requests `from..to` as halves.
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
    /// Returns request and response as halves.
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
    /// Messages that may be missing before an unanswered request carry over to the next one.
    fn unsettled_hole(&self) -> Hole {
        if self.outcome == Outcome::Silent && self.answered == Part::Unseen { self.hole } else { Hole::NONE }
    }

    /// Marks the transaction to be returned as it is.
    pub(super) fn break_off(&mut self) {
        let silent = self.outcome == Outcome::Silent && self.asked == Part::Ended;
        self.outcome = if silent { Outcome::Silent } else { Outcome::BrokenOff };
    }
}
