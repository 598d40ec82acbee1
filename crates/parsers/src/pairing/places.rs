//! Positions at which messages begin, and the request answered there, as far as acknowledgments prove it.

use flow::StreamPlace;
use wire::TcpSeq;

use super::queue::{CountValidity, MissingSide, ResponseSlot, SCAN_MAX, TransactionQueue};
use super::transaction::{LastMessageEnd, PairedTransaction, RequestMatcher, can_answer};
use crate::Direction;
use crate::resync::SegmentBeginning;

impl<Q: Default, R: Default + RequestMatcher<Q>> TransactionQueue<Q, R> {
    /// The request answered by the response at `spot`.
    #[must_use]
    pub fn request_of(&self, spot: ResponseSlot) -> Option<&Q> {
        let ResponseSlot::With(number) = spot else {
            return None;
        };
        self.get(number)?.request()
    }

    /// Passes the request and the response at `spot` to `change`, with the sequence number of the request, if both are held.
    pub fn with_pair(&mut self, spot: ResponseSlot, change: impl FnOnce(TcpSeq, &mut Q, &mut R)) {
        let ResponseSlot::With(number) = spot else {
            return;
        };
        if let Some(transaction) = self.at(number)
            && let Some(seq) = transaction.request_seq()
        {
            change(seq, &mut transaction.request, &mut transaction.response);
        }
    }

    /// The request that a response beginning at `place` would be attributed to in the current state.
    #[must_use]
    pub fn next_to_answer(&self, place: StreamPlace) -> Option<&Q> {
        let number = match self.counting {
            _ if self.lacks_oldest() => return None,
            CountValidity::Lost(_) if self.round.heard != Some(place.seq) => return None,
            CountValidity::Lost(_) => self.round.first,
            _ => self.next_response,
        };
        let mut later = (number..self.next_request)
            .filter_map(|n| self.get(n))
            .filter(|t| t.waits());
        later.find(|t| can_answer(t.place, place))?.request()
    }

    /// The request whose client had received everything up to `place` and nothing more. A message at `place`
    /// answers it if the client waits for responses.
    #[must_use]
    pub fn answered_from(&self, place: StreamPlace) -> Option<&Q> {
        let to = self.next_request.min(self.next_response + SCAN_MAX);
        let mut waiting = (self.next_response..to).filter_map(|n| self.get(n));
        let heard = |t: &&PairedTransaction<Q, R>| {
            t.place.ack == Some(place.seq) && can_answer(t.place, place)
        };
        waiting
            .find(|t| t.waits() && heard(t))
            .filter(|_| !self.lacks_oldest())?
            .request()
    }

    /// Whether acknowledgments prove that a message of `direction` starts with this segment. A client that
    /// has received more since its last bytes starts a request, and so does one that has received a response
    /// acknowledging exactly what it had sent before. A response starts where the client of a request had
    /// received everything; without a known request, between two segments that acknowledge different requests
    /// of a client that waits.
    #[must_use]
    pub fn begins_message(&self, direction: Direction, beginning: SegmentBeginning) -> bool {
        let SegmentBeginning {
            place,
            first,
            heard_more,
        } = beginning;
        // The missing bytes are too few for a message, so no message began there.
        let hole = match self.edges[direction as usize] {
            LastMessageEnd::At(end) | LastMessageEnd::Missing(end) => {
                u32::try_from(place.seq.distance(end)).ok()
            }
            LastMessageEnd::Start | LastMessageEnd::Within | LastMessageEnd::Unknown => None,
        };
        if hole.is_some_and(|bytes| bytes < self.message_bytes_min[direction as usize]) {
            return true;
        }
        if direction == Direction::ServerToClient {
            return self.answered_from(place).is_some()
                || heard_more && self.client.waits() && self.waiting().next().is_none();
        }
        let is_answered = |last: StreamPlace| {
            last.ack == Some(place.seq) && place.ack.is_some_and(|ack| ack.distance(last.seq) > 0)
        };
        // No evidence exists at the position where a connection was joined.
        let is_joined_here = first && self.joined && self.next_request == 0 && !self.lacks_first;
        let answers = [self.last_response, self.searched];
        heard_more || is_joined_here || answers.into_iter().flatten().any(is_answered)
    }

    /// Records that a response is searched for in bytes of the server from `place` on.
    pub fn search(&mut self, place: StreamPlace) {
        self.searched = Some(place);
    }

    /// Position of the next response, if exactly one request waits and none is missing: the first byte its
    /// client had not received.
    #[must_use]
    pub fn next_response_seq(&self) -> Option<TcpSeq> {
        if self.lacks_oldest()
            || matches!(
                self.counting,
                CountValidity::ExactBelow(_) | CountValidity::Lost(MissingSide::Requests)
            )
        {
            return None;
        }
        let mut waiting = (self.next_response..self.next_request)
            .filter_map(|n| self.get(n))
            .filter(|t| t.waits());
        waiting
            .next()
            .filter(|_| waiting.next().is_none())?
            .place
            .ack
    }

    /// Waiting requests with their numbers.
    pub fn waiting(&self) -> impl Iterator<Item = (u64, &Q)> {
        (self.base..self.next_request)
            .filter_map(|n| Some((n, self.get(n).filter(|t| t.waits())?.request()?)))
    }
}
