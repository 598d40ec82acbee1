//! Position of one direction in its byte stream, and the stored parts of its messages.

use std::marker::PhantomData;

use flow::StreamPlace;
use wire::Timestamp;

use super::{HeadContents, MessageView, RequestResponseProtocol, ServerMessageRole};
use crate::pairing::{MessageCompleteness, RequestMatcher, ResponseMatch, ResponseSlot};
use crate::resync::ResyncSearch;
use crate::{Direction, MessageSpan};

/// Part to which the next byte belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageStreamState {
    /// A message that begins here, or whose head is partly held.
    #[default]
    Between,
    /// The next part of the message in progress, with its state.
    Inside(u64),
    /// A body: bytes left, and the state of the parts after them, if any.
    Body { left: u64, rest: Option<u64> },
    /// Unknown: a message may begin anywhere.
    Lost,
    /// Nothing that is parsed.
    Over,
}

/// State of one direction.
#[derive(Default)]
pub struct MessageByteStream {
    pub state: MessageStreamState,
    /// An incomplete head, and its arrival time.
    pub head: Vec<u8>,
    pub span: Option<MessageSpan>,
    /// Start of the current or next message, and its length so far.
    pub place: StreamPlace,
    pub bytes: u64,
    /// The message was found by a search.
    pub found: bool,
    pub resync: ResyncSearch,
}

impl MessageByteStream {
    /// Whether a message is in progress.
    pub fn is_within(&self) -> bool {
        match self.state {
            MessageStreamState::Between => !self.head.is_empty(),
            MessageStreamState::Inside(_) | MessageStreamState::Body { .. } => true,
            MessageStreamState::Lost | MessageStreamState::Over => false,
        }
    }
}

/// Destination of the server's message in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerMessageTarget {
    #[default]
    Nothing,
    /// The transaction of its request.
    Request(ResponseSlot),
    /// The same; the response goes on with a later message, found by its id.
    RequestInPart(ResponseSlot),
    /// A tuple of its own.
    Unsolicited,
    /// No tuple.
    Aside,
    /// No tuple; the message counts as missing.
    Fragment,
}

impl ServerMessageTarget {
    /// The slot of the response that the message belongs to.
    pub fn slot(self) -> Option<ResponseSlot> {
        match self {
            ServerMessageTarget::Request(slot) | ServerMessageTarget::RequestInPart(slot) => {
                Some(slot)
            }
            _ => None,
        }
    }
}

/// Stored parts of a message.
pub struct ParsedMessage<M> {
    pub span: MessageSpan,
    pub seen: MessageCompleteness,
    pub role: ServerMessageRole,
    pub head: Vec<u8>,
    /// Total length, unless its end is missing.
    pub bytes: u64,
    protocol: PhantomData<fn() -> M>,
}

impl<M: RequestResponseProtocol> ParsedMessage<M> {
    /// Resets the message, reusing its memory.
    pub fn begin(&mut self, span: MessageSpan, role: ServerMessageRole) {
        self.span = span;
        self.seen = MessageCompleteness::Whole;
        self.role = role;
        self.bytes = 0;
        self.head.clear();
    }

    /// Adds the head of a part and the body that follows it; `rest` is the state before the head. Returns false if a limit
    /// hides contents.
    pub fn add(
        &mut self,
        (protocol, direction): (&M, Direction),
        head: &[u8],
        rest: Option<u64>,
        body: u64,
    ) -> bool {
        self.bytes = self
            .bytes
            .saturating_add(body)
            .saturating_add(head.len() as u64);
        let contents = protocol.keep(direction, &mut self.head, head, rest);
        if contents != HeadContents::Known {
            self.seen.miss(false);
        }
        contents != HeadContents::Limited
    }

    /// The message in the form that `write` reads.
    pub fn said(&self) -> MessageView<'_> {
        MessageView {
            head: &self.head,
            role: self.role,
        }
    }

    /// Records that bytes arrived at `ts`.
    pub fn extend(&mut self, ts: Timestamp) {
        self.span.extend(ts);
        self.seen.go_on();
    }
}

impl<M> Default for ParsedMessage<M> {
    fn default() -> Self {
        ParsedMessage {
            span: MessageSpan::at(Timestamp::MIN),
            seen: MessageCompleteness::Whole,
            role: ServerMessageRole::Answer,
            head: Vec::new(),
            bytes: 0,
            protocol: PhantomData,
        }
    }
}

impl<M: RequestResponseProtocol> RequestMatcher<ParsedMessage<M>> for ParsedMessage<M> {
    fn fit(&self, request: &ParsedMessage<M>) -> ResponseMatch {
        M::fit(&request.head, &self.head)
    }
}
