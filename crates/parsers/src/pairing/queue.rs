//! The transactions of one connection, oldest request first, and the state of counting.
//!
//! A parser reports the start and end of messages; the queue finds the request of each response and returns
//! finished transactions. Holds at most [`TRANSACTIONS_MAX`] requests, and as many responses without a known
//! request, or [`RESPONSES_HELD_MAX`] if that is more.

use flow::StreamPlace;
use wire::{TcpSeq, Timestamp};

use super::client::ClientModel;
use super::numbering::MissingRange;
use super::outstanding_budget::TRANSACTIONS_MAX;
use super::pairing_trial::PairingTrial;
use super::request_round::{RequestRound, RoundOpening};
use super::slot_queue::SlotQueue;
use super::transaction::{
    LastMessageEnd, MessageProgress, PairedTransaction, RequestMatcher, ResponseExpectation,
    ResponseMatch, TransactionOutcome, can_answer,
};
use super::unpaired_responses::UnpairedResponses;
use crate::Direction;

/// Responses that may always be held until their round ends; more are held as long as they are fewer than the
/// requests.
pub const RESPONSES_HELD_MAX: usize = 256;

/// Maximum number of waiting requests that are scanned for each response.
pub(super) const SCAN_MAX: u64 = 1024;

/// Range in which the n-th response answers the n-th request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CountValidity {
    /// Valid for all requests: nothing is missing.
    #[default]
    Exact,
    /// Requests below this number; requests may be missing directly before it.
    ExactBelow(u64),
    /// No range until a round begins; with the kind of missing messages.
    Lost(MissingSide),
}

/// Messages missing when counting is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingSide {
    /// Responses only.
    Responses,
    /// Requests, possibly responses too.
    Requests,
}

/// Place of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseSlot {
    /// Stored with the request of this number.
    With(u64),
    /// Stored separately: its request is unknown, possibly only for now.
    Apart(u64),
}

impl Default for ResponseSlot {
    fn default() -> Self {
        ResponseSlot::Apart(u64::MAX)
    }
}

/// Method of matching responses with requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum IdMatching {
    /// By order only.
    #[default]
    None,
    /// A response names its request, and names are unique.
    Unique,
    /// The same, and responses come in any order.
    AnyOrder,
}

/// Selection of requests that are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AnswerCoverage {
    #[default]
    All,
    /// Some requests have responses.
    Some,
}

/// Whether the server sends unsolicited messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum UnsolicitedResponses {
    #[default]
    Never,
    /// The server may send unsolicited responses.
    Sometimes,
}

/// The transactions of one connection. `repr(C)` order: the fields used by every message come first.
#[derive(Debug)]
#[repr(C)]
pub struct TransactionQueue<Q, R> {
    /// Number of the oldest transaction held.
    pub(super) base: u64,
    pub(super) next_request: u64,
    /// The oldest request that no response has been counted to.
    pub(super) next_response: u64,
    pub(super) counting: CountValidity,
    /// End of the last message of each direction.
    pub(super) edges: [LastMessageEnd; 2],
    pub(super) round: RequestRound,
    pub(super) client: ClientModel,
    /// The connection was joined midway, and messages before that still matter.
    pub(super) joined: bool,
    /// Bytes of the client are missing before its first request.
    pub(super) lacks_first: bool,
    pub(super) naming: IdMatching,
    answered: AnswerCoverage,
    unasked: UnsolicitedResponses,
    /// Smallest request and smallest response of the protocol, in bytes.
    pub(super) message_bytes_min: [u32; 2],
    pub(super) evicted: u32,
    /// Smallest request seen, in bytes.
    pub(super) smallest_request: u32,
    /// The count does not rely on the model of the client: no request before [`Self::next_response`] can
    /// still be answered.
    pub(super) anchored: bool,
    /// The request at which counting resumed.
    pub(super) anew: u64,
    /// Requests that may be missing before the next one, besides those directly before it.
    carried: MissingRange,
    /// Position of the last response.
    pub(super) last_response: Option<StreamPlace>,
    /// Position of the last bytes of the server in which a response was searched for.
    pub(super) searched: Option<StreamPlace>,
    /// End of server bytes that the parser has received but not yet recognized as a message.
    pub(super) spoken: Option<TcpSeq>,
    pub(super) queue: SlotQueue<PairedTransaction<Q, R>>,
    /// First transaction on trial: from here on none is returned.
    pub(super) held_from: u64,
    pub(super) trial: Option<Box<PairingTrial>>,
    /// Responses without known requests.
    pub(super) loose: Option<Box<UnpairedResponses<Q, R>>>,
    /// Requests visited by searches by name.
    pub(super) searched_by_name: u64,
    /// Ordinary messages are placed by the general path, too.
    #[cfg(test)]
    pub(super) has_no_shortcuts: bool,
}

impl<Q: Default, R: Default + RequestMatcher<Q>> TransactionQueue<Q, R> {
    /// Creates a queue for a protocol whose smallest message has `bytes` bytes; this bounds the number of
    /// messages that missing bytes can hide.
    #[must_use]
    pub fn of_messages_from(bytes: u32) -> Self {
        TransactionQueue {
            base: 0,
            next_request: 0,
            next_response: 0,
            counting: CountValidity::Exact,
            edges: [LastMessageEnd::Start; 2],
            round: RequestRound::default(),
            client: ClientModel::default(),
            joined: false,
            lacks_first: false,
            naming: IdMatching::None,
            answered: AnswerCoverage::All,
            unasked: UnsolicitedResponses::Never,
            message_bytes_min: [bytes; 2],
            evicted: 0,
            smallest_request: u32::MAX,
            anchored: true,
            anew: u64::MAX,
            carried: MissingRange::NONE,
            last_response: None,
            searched: None,
            spoken: None,
            queue: SlotQueue::default(),
            held_from: u64::MAX,
            trial: None,
            loose: None,
            searched_by_name: 0,
            #[cfg(test)]
            has_no_shortcuts: false,
        }
    }

    /// For protocols that require clients to wait for each response.
    #[must_use]
    pub fn of_clients_that_wait(self) -> Self {
        TransactionQueue {
            client: ClientModel::that_waits(),
            ..self
        }
    }

    /// For protocols with requests that remain unanswered: missing bytes may hide no answered request.
    #[must_use]
    pub fn with_silent_requests(self) -> Self {
        TransactionQueue {
            answered: AnswerCoverage::Some,
            ..self
        }
    }

    /// For protocols with unsolicited server messages: missing bytes may hide no response.
    #[must_use]
    pub fn with_unsolicited_messages(self) -> Self {
        TransactionQueue {
            unasked: UnsolicitedResponses::Sometimes,
            ..self
        }
    }

    /// Sets the smallest request and the smallest response once the protocol is known.
    pub fn set_smallest_messages(&mut self, bytes: [u32; 2]) {
        self.message_bytes_min = bytes;
    }

    /// Allows unsolicited server messages from here on.
    pub fn allow_unsolicited_messages(&mut self) {
        self.unasked = UnsolicitedResponses::Sometimes;
    }

    /// Marks the connection as joined midway: messages may precede the first one seen.
    pub fn join_midway(&mut self) {
        self.joined = true;
        self.anchored = false;
        self.edges = [LastMessageEnd::Unknown; 2];
        self.counting = CountValidity::Lost(MissingSide::Requests);
    }

    /// Begins a request. Returns its number and its slot, which contains an earlier request. `found`: it was
    /// found by a search after missing bytes.
    pub fn request(
        &mut self,
        first: Timestamp,
        place: StreamPlace,
        expects: ResponseExpectation,
        found: bool,
    ) -> (u64, &mut Q) {
        if self.queue.len() >= TRANSACTIONS_MAX {
            self.evict_oldest();
        }
        let hole = if self.follows_last_response(place) {
            self.edges[Direction::ClientToServer as usize] = LastMessageEnd::Within;
            self.round = RequestRound {
                first: self.next_request,
                heard: place.ack,
                asked: 0,
                opening: RoundOpening::Whole,
            };
            MissingRange::NONE
        } else {
            self.place_request(place)
        };
        if expects != ResponseExpectation::Nothing {
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
        transaction.hole = hole;
        transaction.found = found;
        if expects == ResponseExpectation::Nothing {
            transaction.outcome = TransactionOutcome::Silent;
        } else if hopeless {
            transaction.outcome = TransactionOutcome::Half;
        }
        (number, &mut transaction.request)
    }

    /// Whether a request at `place` is the ordinary next one, which [`TransactionQueue::place_request`] would only
    /// note as a round: its client has received the last response, and nothing is missing or outstanding.
    #[inline]
    fn follows_last_response(&self, place: StreamPlace) -> bool {
        #[cfg(test)]
        if self.has_no_shortcuts {
            return false;
        }
        let [client, server] = self.edges;
        self.queue.len() == 0
            && self.counting == CountValidity::Exact
            && self.naming == IdMatching::None
            && client == LastMessageEnd::At(place.seq)
            && place.ack != self.round.heard
            && place
                .ack
                .is_some_and(|ack| server == LastMessageEnd::At(ack))
            && !self.lacks_oldest()
            && self.carried == MissingRange::NONE
            && self.trial.is_none()
    }

    /// Settles what was missing before a request at `place`, and the round before it. Returns what may be missing
    /// directly before it.
    fn place_request(&mut self, place: StreamPlace) -> MissingRange {
        let mut hole = self.hole_before(Direction::ClientToServer, place.seq);
        self.edges[Direction::ClientToServer as usize] = LastMessageEnd::Within;
        let by_order = self.naming == IdMatching::None;
        let begins_round = by_order && place.ack.is_some() && place.ack != self.round.heard;
        if hole != MissingRange::NONE {
            hole = self.miss_requests(hole, place, begins_round);
        } else if self.counting == CountValidity::ExactBelow(self.next_request) {
            // The missing bytes were too few for a message.
            self.counting = CountValidity::Exact;
        }
        hole = hole.and(std::mem::take(&mut self.carried));
        if begins_round {
            hole = self.begin_round(place, hole);
        } else if place.ack.is_none()
            && self.edges[Direction::ServerToClient as usize] == LastMessageEnd::Start
        {
            // The position of the server's first response is unknown.
            self.counting = CountValidity::Lost(MissingSide::Responses);
        }
        hole
    }

    /// The request `number`, if it is still held.
    #[inline]
    pub fn request_mut(&mut self, number: u64) -> Option<&mut Q> {
        self.at(number)
            .filter(|t| t.asked != MessageProgress::Unseen)
            .map(|t| &mut t.request)
    }

    /// Ends request `number`, at `end` if known. Returns it for final changes if it is still held.
    #[inline]
    pub fn finish_request(&mut self, number: u64, end: Option<TcpSeq>) -> Option<&mut Q> {
        self.edges[Direction::ClientToServer as usize] =
            end.map_or(LastMessageEnd::Unknown, LastMessageEnd::At);
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        let asked = |t: &&mut PairedTransaction<Q, R>| t.asked != MessageProgress::Unseen;
        let transaction = self.queue.get_mut(at).filter(asked)?;
        transaction.asked = MessageProgress::Ended;
        let size = end.map_or(u32::MAX, |end| end.distance(transaction.place.seq) as u32);
        self.smallest_request = self.smallest_request.min(size);
        Some(&mut transaction.request)
    }

    /// Begins a response; `fits` decides by its head whether it can answer a request. Returns its location
    /// and its slot, which contains an earlier response.
    pub fn response(
        &mut self,
        first: Timestamp,
        place: StreamPlace,
        fits: impl Fn(&Q) -> ResponseMatch,
    ) -> (ResponseSlot, &mut R) {
        if self.answers_only_request(place, &fits) {
            self.begin_answer(place);
            self.next_response += 1;
            let number = self.base;
            let recounted = number == self.anew;
            return (
                ResponseSlot::With(number),
                self.begin_response(number, first, recounted),
            );
        }
        let hole = self.begin_answer(place);
        if self.naming != IdMatching::None {
            self.doubt_responses(hole);
            return self.put_apart(first, place, hole);
        }
        let uncounted = if hole == MissingRange::NONE {
            hole
        } else {
            self.miss_responses(hole)
        };
        if self.lacks_oldest() && !matches!(self.counting, CountValidity::Lost(_)) {
            return self.separate(first, place);
        }
        let Some((number, recounted)) = self.attribute(place, uncounted, fits) else {
            return self.put_apart(first, place, uncounted);
        };
        let recounted = recounted || hole != MissingRange::NONE || number == self.anew;
        (
            ResponseSlot::With(number),
            self.begin_response(number, first, recounted),
        )
    }

    /// Whether a response at `place` answers the only request held, by a count of which
    /// [`TransactionQueue::attribute`] would find the same: nothing is missing.
    #[inline]
    fn answers_only_request(
        &self,
        place: StreamPlace,
        fits: &impl Fn(&Q) -> ResponseMatch,
    ) -> bool {
        #[cfg(test)]
        if self.has_no_shortcuts {
            return false;
        }
        let is_answered = |t: &PairedTransaction<Q, R>| {
            t.waits()
                && t.expects == ResponseExpectation::Response
                && t.asked != MessageProgress::Unseen
                && can_answer(t.place, place)
                && fits(&t.request) != ResponseMatch::No
        };
        self.queue.len() == 1
            && self.next_response == self.base
            && self.counting == CountValidity::Exact
            && self.naming == IdMatching::None
            && self.edges[Direction::ServerToClient as usize] == LastMessageEnd::At(place.seq)
            && self.queue.get(0).is_some_and(is_answered)
    }

    /// Begins the response to request `number`, which is held.
    #[inline]
    fn begin_response(&mut self, number: u64, first: Timestamp, recounted: bool) -> &mut R {
        let transaction = self
            .at(number)
            .expect("only requests that are held are answered");
        transaction.answered = MessageProgress::Begun;
        transaction.response_first = first;
        transaction.recounted = recounted;
        &mut transaction.response
    }

    /// The response at `spot`, if it is still held.
    #[inline]
    pub fn response_mut(&mut self, spot: ResponseSlot) -> Option<&mut R> {
        self.answered(spot).map(|t| &mut t.response)
    }

    /// Ends the response at `spot`, at `end` if known. Returns it for final changes if it is still held.
    #[inline]
    pub fn finish_response(&mut self, spot: ResponseSlot, end: Option<TcpSeq>) -> Option<&mut R> {
        self.edges[Direction::ServerToClient as usize] =
            end.map_or(LastMessageEnd::Unknown, LastMessageEnd::At);
        let transaction = self.answered(spot)?;
        transaction.answered = MessageProgress::Ended;
        Some(&mut transaction.response)
    }

    /// Records that the response in progress may end at `end`: a client that sends afterwards may have waited.
    pub fn may_end(&mut self, end: Option<TcpSeq>) {
        self.edges[Direction::ServerToClient as usize] =
            end.map_or(LastMessageEnd::Unknown, LastMessageEnd::At);
    }

    /// Skips bytes of `direction` from `begin` to `end` that lie between two messages.
    pub fn pass(&mut self, direction: Direction, begin: TcpSeq, end: Option<TcpSeq>) {
        let edge = &mut self.edges[direction as usize];
        if matches!(edge, LastMessageEnd::Start) || *edge == LastMessageEnd::At(begin) {
            *edge = end.map_or(LastMessageEnd::Unknown, LastMessageEnd::At);
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
            LastMessageEnd::At(end) | LastMessageEnd::Missing(end) => LastMessageEnd::Missing(end),
            LastMessageEnd::Start | LastMessageEnd::Within | LastMessageEnd::Unknown => {
                LastMessageEnd::Unknown
            }
        };
        if direction == Direction::ClientToServer {
            self.lacks_first |= self.next_request == 0;
            self.doubt_requests();
        }
    }

    /// Records bytes of `direction` that were not understood and may contain messages.
    pub fn lose(&mut self, direction: Direction) {
        self.edges[direction as usize] = LastMessageEnd::Unknown;
        self.miss(direction);
    }

    /// Whether no message is missing and no response to an evicted request will follow.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.counting == CountValidity::Exact && !self.lacks_oldest()
    }

    /// Concludes request `number` without a response: silent by definition, or the response was not seen.
    pub fn conclude(&mut self, number: u64, outcome: TransactionOutcome) {
        if let Some(transaction) = self
            .at(number)
            .filter(|t| t.answered == MessageProgress::Unseen)
        {
            transaction.outcome = outcome;
        }
    }

    /// Ends the server's stream: unanswered requests get no response.
    pub fn end_responses(&mut self) {
        let missing = self.hole_at_end(Direction::ServerToClient);
        if self.counting == CountValidity::Exact && missing == MissingRange::NONE {
            let owed = |n: &u64| {
                self.get(*n)
                    .is_some_and(|t| t.waits() && t.expects == ResponseExpectation::Response)
            };
            let to = (self.base..self.next_request)
                .find(owed)
                .unwrap_or(self.next_request);
            self.pass_over_silent(to);
        }
        self.settle_last_round(missing);
        self.give_up(self.base, self.next_request);
    }

    /// Handles an idle connection: held transactions are settled as at its end. Returns whether counting can
    /// continue, which requires that no request waits for a response.
    pub fn rest(&mut self) -> bool {
        let owes = self.counting == CountValidity::Exact && self.waiting().next().is_some();
        if self.lacks_oldest() || self.carried != MissingRange::NONE || owes {
            return false;
        }
        self.settle_last_round(MissingRange::ANY);
        (0..self.queue.len()).all(|i| {
            self.queue.get(i).is_none_or(|t| {
                t.answered == MessageProgress::Ended || t.outcome == TransactionOutcome::Silent
            })
        })
    }

    /// Handles an idle connection: open transactions are returned unfinished. Counting continues after them
    /// if the number of outstanding responses is known; otherwise rounds have to prove it again.
    pub fn pause(&mut self) {
        let open = || (self.next_response..self.next_request).filter_map(|n| self.get(n));
        // With optional requests or unsolicited messages, the number of outstanding responses is unknown.
        let is_known = self.unasked == UnsolicitedResponses::Never
            && open().all(|t| {
                t.waits()
                    && t.expects == ResponseExpectation::Response
                    && t.asked == MessageProgress::Ended
            });
        let is_counted = self.counting == CountValidity::Exact
            && (is_known || !open().any(PairedTransaction::waits));
        let most = open().fold(0u32, |most, t| {
            most.saturating_add(1).saturating_add(t.hole.most)
        });
        self.close();
        if !is_counted || self.counting != CountValidity::Exact {
            self.counting = CountValidity::Lost(MissingSide::Requests);
            self.anchored = false;
            self.round.opening = RoundOpening::Holed;
            self.carried = self.carried.and(MissingRange { least: 0, most });
        }
    }

    /// Ends the connection: all transactions are returned as they are.
    pub fn close(&mut self) {
        self.settle_last_round(MissingRange::ANY);
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
    pub fn hand_out(&mut self, take: impl FnMut(&mut PairedTransaction<Q, R>)) {
        if self.loose.is_some() || self.queue.get(0).is_some_and(PairedTransaction::is_over) {
            self.hand_out_finished(take);
        }
    }

    #[inline(never)]
    fn hand_out_finished(&mut self, mut take: impl FnMut(&mut PairedTransaction<Q, R>)) {
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
            let is_counted = front.outcome != TransactionOutcome::BrokenOff
                || front.expects == ResponseExpectation::Nothing
                || self.naming != IdMatching::None;
            let hole = front.unsettled_hole();
            let is_silent = front.outcome == TransactionOutcome::Silent;
            let is_missing =
                front.asked == MessageProgress::Unseen && front.answered == MessageProgress::Unseen;
            if self.next_response == self.base && is_counted {
                self.next_response += 1;
            } else if !is_counted && is_missing {
                // The request has no row: the row of its response is the only one.
                self.counting = CountValidity::Lost(MissingSide::Requests);
            } else if is_silent && self.lacks_oldest() {
                // The number of evicted requests with a response is no longer known.
                self.counting = CountValidity::Lost(MissingSide::Requests);
            }
            self.base += 1;
            self.queue.pop();
            if hole != MissingRange::NONE {
                let next = self
                    .queue
                    .get_mut(0)
                    .map_or(&mut self.carried, |next| &mut next.hole);
                *next = next.and(hole);
            }
        }
    }

    /// Returns the request `number` if it is complete and never answered: it is finished even if others
    /// before it are not.
    pub fn hand_out_silent(
        &mut self,
        number: u64,
        take: impl FnOnce(&mut PairedTransaction<Q, R>),
    ) {
        let is_over = |t: &&mut PairedTransaction<Q, R>| {
            t.expects == ResponseExpectation::Nothing && t.asked == MessageProgress::Ended
        };
        if let Some(transaction) = self.at(number).filter(is_over) {
            take(transaction);
            // Only its slot in the queue remains.
            transaction.asked = MessageProgress::Unseen;
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
    pub(super) fn at(&mut self, number: u64) -> Option<&mut PairedTransaction<Q, R>> {
        self.queue
            .get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&PairedTransaction<Q, R>> {
        self.queue
            .get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    #[inline]
    fn answered(&mut self, spot: ResponseSlot) -> Option<&mut PairedTransaction<Q, R>> {
        let transaction = match spot {
            ResponseSlot::With(number) => self.at(number),
            ResponseSlot::Apart(number) => self.loose.as_mut()?.get_mut(number),
        };
        transaction.filter(|t| t.answered != MessageProgress::Unseen)
    }

    /// Messages that may be missing in `direction` before one that begins at `seq`.
    #[inline]
    pub(super) fn hole_before(&self, direction: Direction, seq: TcpSeq) -> MissingRange {
        match self.edges[direction as usize] {
            LastMessageEnd::At(end) if end == seq => MissingRange::NONE,
            LastMessageEnd::At(end) | LastMessageEnd::Missing(end) => {
                let hole = self.hole_of(direction, seq.distance(end));
                let may_be_none = match direction {
                    Direction::ClientToServer => self.answered == AnswerCoverage::Some,
                    Direction::ServerToClient => self.unasked == UnsolicitedResponses::Sometimes,
                };
                if may_be_none { hole.in_part() } else { hole }
            }
            LastMessageEnd::Start => MissingRange::NONE,
            LastMessageEnd::Within | LastMessageEnd::Unknown => MissingRange::ANY,
        }
    }

    /// Number of messages that `bytes` missing bytes of `direction` between two messages may hide.
    pub(super) fn hole_of(&self, direction: Direction, bytes: i32) -> MissingRange {
        let smallest = self.message_bytes_min[direction as usize];
        match u32::try_from(bytes) {
            Ok(bytes) => MissingRange::of_whole_messages(bytes, smallest),
            Err(_) => MissingRange::ANY,
        }
    }

    /// Messages that may be missing after the last one if `direction` ends here.
    pub(super) fn hole_at_end(&self, direction: Direction) -> MissingRange {
        match self.edges[direction as usize] {
            LastMessageEnd::At(_) | LastMessageEnd::Start => MissingRange::NONE,
            LastMessageEnd::Missing(_) | LastMessageEnd::Within | LastMessageEnd::Unknown => {
                MissingRange::ANY
            }
        }
    }

    /// Begins a response. Returns the messages that may be missing before it.
    #[inline]
    pub(super) fn begin_answer(&mut self, place: StreamPlace) -> MissingRange {
        let hole = self.hole_before(Direction::ServerToClient, place.seq);
        self.edges[Direction::ServerToClient as usize] = LastMessageEnd::Within;
        self.last_response = Some(place);
        hole
    }

    /// Stores a response separately until its round ends, or permanently.
    #[cold]
    fn put_apart(
        &mut self,
        first: Timestamp,
        place: StreamPlace,
        hole: MissingRange,
    ) -> (ResponseSlot, &mut R) {
        let is_held = matches!(self.counting, CountValidity::Lost(_))
            && self.naming == IdMatching::None
            && !self.is_hopeless();
        let max = RESPONSES_HELD_MAX.max(self.queue.len());
        let held_max = if is_held { max } else { 0 };
        let (number, response) = self
            .loose
            .get_or_insert_default()
            .push(first, place, hole, held_max);
        (ResponseSlot::Apart(number), response)
    }

    /// Returns the unanswered requests `from..to` as halves.
    pub(super) fn give_up(&mut self, from: u64, to: u64) {
        for number in from.max(self.base)..to {
            if let Some(transaction) = self
                .at(number)
                .filter(|t| t.answered == MessageProgress::Unseen)
            {
                let silent = transaction.outcome == TransactionOutcome::Silent;
                transaction.outcome = if silent {
                    TransactionOutcome::Silent
                } else {
                    TransactionOutcome::Half
                };
            }
        }
    }
}

impl<Q: Default, R: Default + RequestMatcher<Q>> PairedTransaction<Q, R> {
    /// Returns request and response as halves.
    #[cold]
    fn part(&mut self, take: &mut impl FnMut(&mut PairedTransaction<Q, R>)) {
        if self.asked != MessageProgress::Unseen && self.answered != MessageProgress::Unseen {
            let mut told = PairedTransaction {
                answered: self.answered,
                outcome: self.outcome,
                ..PairedTransaction::default()
            };
            told.response_first = self.response_first;
            std::mem::swap(&mut told.response, &mut self.response);
            told.response.doubt();
            self.answered = MessageProgress::Unseen;
            take(self);
            return take(&mut told);
        }
        if self.asked != MessageProgress::Unseen || self.answered != MessageProgress::Unseen {
            take(self);
        }
    }
}

impl<Q, R> PairedTransaction<Q, R> {
    /// Messages that may be missing before an unanswered request carry over to the next one.
    fn unsettled_hole(&self) -> MissingRange {
        if self.outcome == TransactionOutcome::Silent && self.answered == MessageProgress::Unseen {
            self.hole
        } else {
            MissingRange::NONE
        }
    }

    /// Marks the transaction to be returned as it is.
    pub(super) fn break_off(&mut self) {
        let silent =
            self.outcome == TransactionOutcome::Silent && self.asked == MessageProgress::Ended;
        self.outcome = if silent {
            TransactionOutcome::Silent
        } else {
            TransactionOutcome::BrokenOff
        };
    }
}
