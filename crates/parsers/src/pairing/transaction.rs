//! A request and its response, as far as they are known, and the state they are in.

use flow::Place;
use wire::{TcpSeq, Timestamp};

use super::numbering::Hole;

/// Whether a request is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expects {
    /// Always.
    #[default]
    Response,
    /// Only when something unusual happens; silence has a meaning.
    Perhaps,
    /// Never.
    Nothing,
}

/// Whether a response can be to a request, by what both say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It names the request.
    Sure,
    /// Nothing speaks against it.
    Maybe,
    /// No.
    No,
}

/// What a response says of the request that it answers, for responses that were held.
pub trait Answers<Q> {
    /// Whether it can be to this one.
    fn fit(&self, request: &Q) -> Fit {
        let _ = request;
        Fit::Maybe
    }

    /// It was read as the answer to a request that may be another's: what was taken from that does not hold.
    fn doubt(&mut self) {}
}

/// How much of a message has been seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Part {
    /// Nothing.
    #[default]
    Unseen,
    /// Its beginning.
    Begun,
    /// All that there will be.
    Ended,
}

/// What it would mean that a request which need not be answered was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Silence {
    /// It was silently done.
    #[default]
    Done,
    /// Nothing: a response was this one's or that of another.
    Unknown,
}

/// What may still come of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The rest of it.
    #[default]
    Open,
    /// No response: the request has none ([`Expects::Nothing`]), or what it asked was done without a word
    /// ([`Expects::Perhaps`]).
    Silent,
    /// The other half was not seen or is ambiguous. The half that has begun continues.
    Half,
    /// Nothing, not even the rest of a half that has begun.
    BrokenOff,
}

/// A request and its response. Used again and again, so what is absent is not gone. Laid out as written.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Transaction<Q, R> {
    pub(super) asked: Part,
    pub(super) answered: Part,
    pub(super) outcome: Outcome,
    pub(super) expects: Expects,
    pub(super) silence: Silence,
    /// Messages are missing before, and the pair was found in spite of that.
    pub(super) recounted: bool,
    /// The request was found by looking for it.
    pub(super) found: bool,
    /// The response may be that to another request: both are handed out as halves.
    pub(super) apart: bool,
    /// A response to a request that was evicted.
    pub(super) separated: bool,
    /// Start of the request, or of the response while there is no request.
    pub(super) place: Place,
    pub(super) request_first: Timestamp,
    pub(super) response_first: Timestamp,
    /// Messages of the same direction that may be missing just before.
    pub(super) hole: Hole,
    pub(super) request: Q,
    pub(super) response: R,
}

impl<Q, R> Transaction<Q, R> {
    /// The request, unless it was not seen.
    #[inline]
    pub fn request(&self) -> Option<&Q> {
        (self.asked != Part::Unseen).then_some(&self.request)
    }

    /// The response, unless there was none or it could not be attributed.
    #[inline]
    pub fn response(&self) -> Option<&R> {
        (self.answered != Part::Unseen).then_some(&self.response)
    }

    /// Both, to change or to let go of memory, whether or not they are there.
    #[inline]
    pub fn parts_mut(&mut self) -> (&mut Q, &mut R) {
        (&mut self.request, &mut self.response)
    }

    /// First byte of the request, else of the response.
    #[inline]
    pub fn first(&self) -> Timestamp {
        if self.asked != Part::Unseen { self.request_first } else { self.response_first }
    }

    /// The place of the request's first byte, unless it was not seen.
    #[inline]
    pub fn request_seq(&self) -> Option<TcpSeq> {
        (self.asked != Part::Unseen).then_some(self.place.seq)
    }

    /// First byte of the response, if there is one.
    #[inline]
    pub fn response_first(&self) -> Timestamp {
        self.response_first
    }

    /// Found behind missing messages: the request by looking for it, or the pair in spite of them.
    #[inline]
    pub fn resynchronised(&self) -> bool {
        self.recounted || self.found
    }

    /// Time of completion, given the times of the last bytes of request and response. `None`: the transaction is abandoned
    /// now, because its other half or its end is missing.
    #[inline]
    pub fn complete_at(&self, asked: Timestamp, told: Timestamp) -> Option<Timestamp> {
        match (self.asked, self.answered) {
            (Part::Ended, Part::Unseen) if self.expects == Expects::Nothing => Some(asked),
            (Part::Begun | Part::Ended, Part::Ended) => Some(asked.max(told)),
            _ => None,
        }
    }

    /// A response whose request was evicted and has a row: to be counted, not to be written.
    #[inline]
    pub fn is_separated(&self) -> bool {
        self.separated
    }

    /// Why there is no response, where there is none.
    #[inline]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// All of the request was seen.
    #[inline]
    pub fn request_ended(&self) -> bool {
        self.asked == Part::Ended
    }

    /// All of the response was seen.
    #[inline]
    pub fn response_ended(&self) -> bool {
        self.answered == Part::Ended
    }

    #[inline]
    pub(super) fn begin_request(&mut self, first: Timestamp, place: Place, expects: Expects) {
        (self.asked, self.answered, self.outcome) = (Part::Begun, Part::Unseen, Outcome::Open);
        (self.expects, self.silence) = (expects, Silence::Done);
        (self.recounted, self.found, self.apart, self.separated) = (false, false, false, false);
        (self.place, self.hole) = (place, Hole::NONE);
        (self.request_first, self.response_first) = (first, first);
    }

    pub(super) fn begin_alone(&mut self, first: Timestamp, place: Place, hole: Hole) {
        self.begin_request(first, place, Expects::Response);
        (self.asked, self.answered, self.hole) = (Part::Unseen, Part::Begun, hole);
    }

    /// A request that is missing, and has its place in the count.
    pub(super) fn begin_missing(&mut self, place: Place) {
        self.begin_request(Timestamp::MIN, place, Expects::Response);
        self.asked = Part::Unseen;
    }

    /// It waits for a response, or may get one.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.answered == Part::Unseen && self.outcome == Outcome::Open && self.expects != Expects::Nothing
    }

    /// Nothing more of it will come.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        match self.outcome {
            Outcome::BrokenOff => true,
            _ if self.asked == Part::Begun || self.answered == Part::Begun => false,
            Outcome::Open => self.answered == Part::Ended,
            Outcome::Silent | Outcome::Half => true,
        }
    }
}

/// Whether a response that begins at `answer` can be to a request that begins at `question`: its sender had heard the
/// question, and the asker had not heard it yet.
#[inline]
pub(crate) fn can_answer(question: Place, answer: Place) -> bool {
    let heard_question = answer.ack.is_none_or(|ack| ack.distance(question.seq) > 0);
    let news = question.ack.is_none_or(|ack| answer.seq.distance(ack) >= 0);
    heard_question && news
}

/// Where the last message of a direction ended, as far as that is known. If the next one begins elsewhere, messages are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Edge {
    /// No message yet: the next one may begin anywhere.
    #[default]
    Start,
    /// A message is under way.
    Within,
    /// It ended here, and nothing is known to be missing behind it.
    At(TcpSeq),
    /// It ended here, and bytes behind it are missing.
    Missing(TcpSeq),
    /// Where it ended is not known.
    Unknown,
}
