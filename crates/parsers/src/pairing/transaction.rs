//! A request with its response, and the state of the transaction.

use flow::StreamPlace;
use wire::{TcpSeq, Timestamp};

use super::numbering::MissingRange;

/// Whether a request is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResponseExpectation {
    /// Always.
    #[default]
    Response,
    /// Only in exceptional cases; silence has a meaning.
    Perhaps,
    /// Never.
    Nothing,
}

/// Whether a response can answer a request, by their contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseMatch {
    /// The response names the request.
    Sure,
    /// Nothing contradicts the pair.
    Maybe,
    /// The response cannot belong to the request.
    No,
}

/// Evidence in a response about its request, used for held responses.
pub trait RequestMatcher<Q> {
    /// Whether it can answer this request.
    fn fit(&self, request: &Q) -> ResponseMatch {
        let _ = request;
        ResponseMatch::Maybe
    }

    /// Discards what was derived from a request that may not be its own.
    fn doubt(&mut self) {}
}

/// Part of a message that has been seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MessageProgress {
    /// Nothing.
    #[default]
    Unseen,
    /// The start of the message was seen.
    Begun,
    /// All that will be seen.
    Ended,
}

/// Meaning of a missing response to an optional request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NoResponseMeaning {
    /// The request was carried out silently.
    #[default]
    Done,
    /// Unknown: a response answered this request or another.
    Unknown,
}

/// Parts that may still follow in a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// The remaining messages of the response.
    #[default]
    Open,
    /// No response: the request has none ([`ResponseExpectation::Nothing`]), or was carried out silently
    /// ([`ResponseExpectation::Perhaps`]).
    Silent,
    /// The other half was not seen or is ambiguous. The half that has begun continues.
    Half,
    /// Nothing, not even the rest of a half that has begun.
    BrokenOff,
}

/// A request and its response. Slots are reused, so fields of an absent half keep old contents. Fields are in
/// `repr(C)` order.
#[derive(Debug, Default)]
#[repr(C)]
pub struct PairedTransaction<Q, R> {
    pub(super) asked: MessageProgress,
    pub(super) answered: MessageProgress,
    pub(super) outcome: TransactionOutcome,
    pub(super) expects: ResponseExpectation,
    pub(super) silence: NoResponseMeaning,
    /// The pair was found although messages are missing before it.
    pub(super) recounted: bool,
    /// The request was found by a search.
    pub(super) found: bool,
    /// The response may answer another request: both are returned as halves.
    pub(super) apart: bool,
    /// A response to an evicted request.
    pub(super) separated: bool,
    /// Start of the request, or of the response while there is no request.
    pub(super) place: StreamPlace,
    pub(super) request_first: Timestamp,
    pub(super) response_first: Timestamp,
    /// Messages of the same direction that may be missing directly before.
    pub(super) hole: MissingRange,
    pub(super) request: Q,
    pub(super) response: R,
}

impl<Q, R> PairedTransaction<Q, R> {
    /// The request, if it was seen.
    #[inline]
    pub fn request(&self) -> Option<&Q> {
        (self.asked != MessageProgress::Unseen).then_some(&self.request)
    }

    /// The response, if there is one that could be attributed.
    #[inline]
    pub fn response(&self) -> Option<&R> {
        (self.answered != MessageProgress::Unseen).then_some(&self.response)
    }

    /// Both slots, to change them or free memory, whether or not the halves are present.
    #[inline]
    pub fn parts_mut(&mut self) -> (&mut Q, &mut R) {
        (&mut self.request, &mut self.response)
    }

    /// Time of the first byte of the request, or of the response if there is no request.
    #[inline]
    pub fn first(&self) -> Timestamp {
        if self.asked != MessageProgress::Unseen {
            self.request_first
        } else {
            self.response_first
        }
    }

    /// Sequence number of the request, if it was seen.
    #[inline]
    pub fn request_seq(&self) -> Option<TcpSeq> {
        (self.asked != MessageProgress::Unseen).then_some(self.place.seq)
    }

    /// Position up to which the client had received the server's bytes when it sent the request.
    #[inline]
    pub fn request_ack(&self) -> Option<TcpSeq> {
        self.place
            .ack
            .filter(|_| self.asked != MessageProgress::Unseen)
    }

    /// Time of the first byte of the response, if there is one.
    #[inline]
    pub fn response_first(&self) -> Timestamp {
        self.response_first
    }

    /// Found after missing messages: the request by a search, or the pair by other evidence than counting.
    #[inline]
    pub fn resynchronized(&self) -> bool {
        self.recounted || self.found
    }

    /// Time of completion, given the times of the last bytes of request and response. `None`: the transaction is abandoned
    /// now, because its other half or its end is missing.
    #[inline]
    pub fn complete_at(&self, asked: Timestamp, told: Timestamp) -> Option<Timestamp> {
        match (self.asked, self.answered) {
            (MessageProgress::Ended, MessageProgress::Unseen)
                if self.expects == ResponseExpectation::Nothing =>
            {
                Some(asked)
            }
            (MessageProgress::Begun | MessageProgress::Ended, MessageProgress::Ended) => {
                Some(asked.max(told))
            }
            _ => None,
        }
    }

    /// A response whose evicted request has a row: it is counted but not written.
    #[inline]
    pub fn is_separated(&self) -> bool {
        self.separated
    }

    /// Reason for a missing response.
    #[inline]
    pub fn outcome(&self) -> TransactionOutcome {
        self.outcome
    }

    /// Whether the request is complete.
    #[inline]
    pub fn request_ended(&self) -> bool {
        self.asked == MessageProgress::Ended
    }

    /// Whether the response is complete.
    #[inline]
    pub fn response_ended(&self) -> bool {
        self.answered == MessageProgress::Ended
    }

    #[inline]
    pub(super) fn begin_request(
        &mut self,
        first: Timestamp,
        place: StreamPlace,
        expects: ResponseExpectation,
    ) {
        self.asked = MessageProgress::Begun;
        self.answered = MessageProgress::Unseen;
        self.outcome = TransactionOutcome::Open;
        self.expects = expects;
        self.silence = NoResponseMeaning::Done;
        self.recounted = false;
        self.found = false;
        self.apart = false;
        self.separated = false;
        self.place = place;
        self.hole = MissingRange::NONE;
        self.request_first = first;
        self.response_first = first;
    }

    pub(super) fn begin_alone(&mut self, first: Timestamp, place: StreamPlace, hole: MissingRange) {
        self.begin_request(first, place, ResponseExpectation::Response);
        (self.asked, self.answered, self.hole) =
            (MessageProgress::Unseen, MessageProgress::Begun, hole);
    }

    /// Initializes the placeholder of a missing request, which counts.
    pub(super) fn begin_missing(&mut self, place: StreamPlace) {
        self.begin_request(Timestamp::MIN, place, ResponseExpectation::Response);
        self.asked = MessageProgress::Unseen;
    }

    /// Whether a response may still follow.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.answered == MessageProgress::Unseen
            && self.outcome == TransactionOutcome::Open
            && self.expects != ResponseExpectation::Nothing
    }

    /// Whether the transaction is finished.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        match self.outcome {
            TransactionOutcome::BrokenOff => true,
            _ if self.asked == MessageProgress::Begun
                || self.answered == MessageProgress::Begun =>
            {
                false
            }
            TransactionOutcome::Open => self.answered == MessageProgress::Ended,
            TransactionOutcome::Silent | TransactionOutcome::Half => true,
        }
    }
}

/// Whether a response at `answer` can answer a request at `question`: its sender had received the request,
/// and the client had not yet received the response.
#[inline]
pub(crate) fn can_answer(question: StreamPlace, answer: StreamPlace) -> bool {
    let heard_question = answer.ack.is_none_or(|ack| ack.distance(question.seq) > 0);
    let news = question.ack.is_none_or(|ack| answer.seq.distance(ack) >= 0);
    heard_question && news
}

/// End of the last message of a direction. If the next one begins elsewhere, messages are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LastMessageEnd {
    /// No message yet: the next one may begin anywhere.
    #[default]
    Start,
    /// A message is in progress.
    Within,
    /// The message ended here, and nothing is known to be missing after it.
    At(TcpSeq),
    /// The message ended here, and bytes after it are missing.
    Missing(TcpSeq),
    /// The end of the message is unknown.
    Unknown,
}
