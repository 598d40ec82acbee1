//! A parser for any protocol of requests and responses, in order or with correlation ids. A protocol supplies message ends
//! ([`RequestResponseProtocol::cut`]), possible message starts ([`RequestResponseProtocol::next`]), and the fields of its tuple
//! ([`RequestResponseProtocol::write`]); everything else has a default that a more complex protocol overrides.
//!
//! This module handles the rest: heads in several segments (copied, bounded), bodies (skipped, not copied),
//! messages whose end is known only from later bytes, pairing across gaps ([`crate::pairing`]), times,
//! lengths, qualities, halves, and counters. `template.rs` is the simple case, `template_with_ids.rs` that of responses in
//! any order; `redis.rs` uses nearly all features.

use tuple::{FieldId, TupleWriter};

use crate::Direction;
use crate::pairing::{ResponseExpectation, ResponseMatch};
use crate::shared_names::SharedNames;

mod byte_stream;
mod connection;
mod ids;
mod losses;
mod request_ids;
mod tuples;

#[cfg(test)]
mod tests;

pub use connection::RequestResponseParser;

/// Message syntax of a protocol. The implementing type is the per-connection state, which is empty for a
/// simple protocol.
pub trait RequestResponseProtocol: Default + Send + 'static {
    /// Field of the response time.
    const RESPONSE_TIME_NS: FieldId;
    /// Field of the time from the first to the last byte of the response.
    const TRANSFER_TIME_NS: Option<FieldId> = None;
    /// Field of the time from the last byte of the request to the last byte of the response.
    const TOTAL_TIME_NS: Option<FieldId> = None;
    /// Field of the time from the last byte of the request to the first byte of a response for which the server waited
    /// ([`RequestResponseProtocol::waits`]): the other times are null then.
    const WAITED_NS: Option<FieldId> = None;
    /// Field of whether the server waited.
    const WAITING: Option<FieldId> = None;
    /// Fields of the lengths of request and response.
    const BYTES: [Option<FieldId>; 2] = [None; 2];

    /// Smallest message in bytes. A larger value bounds the number of messages hidden in a gap more tightly.
    const BYTES_MIN: u32 = 1;
    /// Maximum head size; bytes that are not recognized within it are not a message (`oversized_heads`).
    const HEAD_BYTES_MAX: usize = 64 * 1024;
    /// Bytes of a message's heads kept for [`RequestResponseProtocol::write`].
    const KEPT_BYTES_MAX: usize = 8 * 1024;
    /// Whether the protocol has messages other than requests and their responses.
    const TALK: ExchangePattern = ExchangePattern::OneForOne;
    /// Whether messages have correlation ids, so that responses come in any order.
    const IDS: CorrelationIds = CorrelationIds::None;

    /// Cuts the first message from `bytes`, which start with it, or the part that determines how to continue.
    /// Repeated calls return the same.
    fn cut(&self, direction: Direction, bytes: &[u8]) -> MessageBoundary;

    /// Same for a message in progress: cuts its next part; `rest` is the value from [`MessageBoundary::Part`].
    fn go_on(&self, direction: Direction, rest: u64, bytes: &[u8]) -> MessageBoundary {
        let _ = (direction, rest, bytes);
        MessageBoundary::NoMessage
    }

    /// Position in `bytes[from..]` where a message could start. Used, besides segment starts, to find
    /// messages after missing bytes. See [`crate::resync::MessageLocator::next`].
    fn next(direction: Direction, bytes: &[u8], from: usize) -> Option<usize>;

    /// Whether a message found there is accepted. `bytes` may be a prefix of the input that `cut` needs;
    /// returns false as soon as it cannot be a message.
    fn believe(&self, direction: Direction, bytes: &[u8], found: MessagePosition) -> bool {
        let _ = (direction, bytes);
        found != MessagePosition::Anywhere
    }

    /// Correlation id of a message, by its head. `None`: the message has none. Not called without
    /// [`RequestResponseProtocol::IDS`].
    fn id(direction: Direction, head: &[u8]) -> Option<u64> {
        let _ = (direction, head);
        None
    }

    /// Correlation id of the message that continues a response after the message with this head: that of the response,
    /// unless a protocol chains them.
    fn id_of_rest(head: &[u8]) -> Option<u64> {
        Self::id(Direction::ServerToClient, head)
    }

    /// Handles the head of a request; returns whether it is answered.
    fn request(&mut self, head: &[u8]) -> ResponseExpectation {
        let _ = head;
        ResponseExpectation::Response
    }

    /// Handles the head of a server message; returns its role. `asked` is the stored head of the request it
    /// answers, if known.
    fn response(&mut self, head: &[u8], asked: Option<&[u8]>) -> ServerMessageRole {
        let _ = (head, asked);
        ServerMessageRole::Answer
    }

    /// Whether the server message with this head may belong to the response in progress. If not, the response ended
    /// before it.
    fn goes_on(&mut self, head: &[u8]) -> bool {
        let _ = head;
        true
    }

    /// Whether a response can answer a request, by their stored heads.
    fn fit(request: &[u8], response: &[u8]) -> ResponseMatch {
        let _ = (request, response);
        ResponseMatch::Maybe
    }

    /// Handles the head of each part of a message, in the order of the stream, before the functions below. `rest` is the value from
    /// [`MessageBoundary::Part`] of the part before it, if any; `names` are shared by the connections of a worker.
    fn read(
        &mut self,
        direction: Direction,
        head: &[u8],
        rest: Option<u64>,
        names: Option<&SharedNames>,
    ) {
        let _ = (direction, head, rest, names);
    }

    /// Adds the head of a part of a message to its stored heads. `rest` is the value from [`MessageBoundary::Part`] of the part
    /// before it, if any.
    fn keep(
        &self,
        direction: Direction,
        kept: &mut Vec<u8>,
        head: &[u8],
        rest: Option<u64>,
    ) -> HeadContents {
        let _ = (direction, rest);
        let room = Self::KEPT_BYTES_MAX.saturating_sub(kept.len());
        kept.extend_from_slice(&head[..head.len().min(room)]);
        HeadContents::Known
    }

    /// Whether the server waited for an event before it responded, as the client asked. By their stored heads, and the time up to the
    /// response in nanoseconds, if known. `None`: not known, so that no time is written.
    fn waits(request: &[u8], response: &[u8], elapsed: Option<i64>) -> Option<bool> {
        let _ = (request, response, elapsed);
        Some(false)
    }

    /// Handles missing or invalid bytes of `direction`: state derived from them may be outdated.
    fn lose(&mut self, direction: Direction) {
        let _ = direction;
    }

    /// Data after the message that has just ended.
    fn then(&self) -> MessageSuccessor {
        MessageSuccessor::Messages
    }

    /// Writes the protocol's fields other than those above. `None`: not seen.
    fn write(
        request: Option<MessageView<'_>>,
        response: Option<MessageView<'_>>,
        w: &mut TupleWriter,
    );
}

/// Classification of the next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageBoundary {
    /// The head continues after these bytes.
    NeedMore,
    /// A message, or its last part: bytes to parse, followed by bytes to skip.
    Message {
        /// At least 1, at most the bytes available.
        head: usize,
        /// Length of the body; may exceed the received bytes.
        body: u64,
    },
    /// A part of a message that continues after it.
    Part {
        /// At least 1, at most the bytes available.
        head: usize,
        /// Length of the body; may exceed the received bytes.
        body: u64,
        /// State for [`RequestResponseProtocol::go_on`], for example the number of remaining parts.
        rest: u64,
    },
    /// Bytes between messages to ignore, for example blank lines.
    Filler(usize),
    /// No message begins or continues here.
    NoMessage,
}

/// Whether the contents of a head are known. If not, the tuple is `gap_body`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadContents {
    /// All of them.
    Known,
    /// A limit hides some of them (`oversized_heads`).
    Limited,
    /// Some depend on messages that were not seen, or are not understood.
    Unknown,
}

/// Whether there are messages other than requests and their responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangePattern {
    /// Every request is answered, and the server sends nothing else.
    OneForOne,
    /// Some requests are not answered, or the server sends unsolicited messages: missing bytes may hide no
    /// message that counts.
    Freely,
}

/// Use of correlation ids in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorrelationIds {
    /// There are none: responses come in the order of requests.
    None,
    /// No id is used twice.
    Unique,
    /// An id is used again after its response.
    Reused,
}

/// Role of a server message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerMessageRole {
    /// The response to a request.
    #[default]
    Answer,
    /// A part of the response, continued by the server's next message.
    AnswerGoesOn,
    /// A part of the response, continued by the server's next message if [`RequestResponseProtocol::goes_on`].
    AnswerMayGoOn,
    /// Unsolicited: written as its own tuple.
    Unsolicited,
    /// The message answers no request and is ignored.
    Aside,
    /// A part of a response that was not seen completely.
    Fragment,
}

/// Data after a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageSuccessor {
    /// More messages.
    #[default]
    Messages,
    /// Another protocol, which is recognized again.
    AnotherProtocol,
    /// Nothing that is parsed.
    Nothing,
}

/// Method by which the start of a message was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagePosition {
    /// By [`RequestResponseProtocol::next`]: it may be a part of another message.
    Anywhere,
    /// At the start of a segment where acknowledgments prove that a message begins.
    SegmentStart,
    /// At the position of a response if its client waits: the client had received everything up to here.
    AnswerStart,
}

/// A message, for [`RequestResponseProtocol::write`].
#[derive(Clone, Copy, Debug)]
pub struct MessageView<'a> {
    /// Heads from `cut` and `go_on`, as stored by [`RequestResponseProtocol::keep`].
    pub head: &'a [u8],
    /// Not used for requests.
    pub role: ServerMessageRole,
}
