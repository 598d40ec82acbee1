//! A parser for any protocol in which a server answers requests in order. A protocol supplies message ends
//! ([`Messages::cut`]), possible message starts ([`Messages::next`]), and the fields of its tuple
//! ([`Messages::write`]); everything else has a default that a less simple protocol overrides.
//!
//! This module does the rest: heads in several segments (copied, bounded), bodies (skipped, not copied), messages whose
//! end is known only from the bytes behind them, pairing across gaps ([`crate::pairing`]), times, lengths, qualities,
//! halves, and counters. `template.rs` is the simple case; `redis.rs` uses nearly all features. Protocols with
//! responses out of order need their own parser.

use tuple::{FieldId, TupleWriter};

use crate::Direction;
use crate::pairing::{Expects, Fit};

mod connection;
mod lane;
mod losses;
mod tuples;

#[cfg(test)]
mod tests;

pub use self::connection::RequestResponse;

/// What a protocol has to say of its messages. The type itself is what is remembered of one connection: of a simple
/// protocol, nothing.
pub trait Messages: Default + Send + 'static {
    /// The field that takes the response time.
    const RESPONSE_TIME_NS: FieldId;
    /// The field that takes the time from the first to the last byte of the response.
    const TRANSFER_TIME_NS: Option<FieldId> = None;
    /// The fields that take the lengths of request and response.
    const BYTES: [Option<FieldId>; 2] = [None; 2];

    /// Bytes of the smallest message: missing bytes hide the fewer messages, the larger this is.
    const BYTES_MIN: u32 = 1;
    /// Maximum head size; bytes that are not recognized within it are not a message (`oversized_heads`).
    const HEAD_BYTES_MAX: usize = 64 * 1024;
    /// So much of the heads of a message is kept for [`Messages::write`].
    const KEPT_BYTES_MAX: usize = 8 * 1024;
    /// Whether there are messages other than requests and their answers.
    const TALK: Talk = Talk::OneForOne;

    /// Cuts the first message from `bytes`, which start with it, or the part that determines how to continue. Repeated
    /// calls return the same.
    fn cut(&self, direction: Direction, bytes: &[u8]) -> Cut;

    /// The same of a message that is under way: what comes next of it, `rest` being what [`Cut::Part`] said.
    fn go_on(&self, direction: Direction, rest: u64, bytes: &[u8]) -> Cut {
        let _ = (direction, rest, bytes);
        Cut::NoMessage
    }

    /// Where in `bytes[from..]` a message could start: by this one is found again where the place was lost, besides at the
    /// start of segments. See [`crate::resync::Heads::next`].
    fn next(direction: Direction, bytes: &[u8], from: usize) -> Option<usize>;

    /// Whether what was found there is believed to be the start of a message. `bytes` may be the beginning of what `cut`
    /// needs: false as soon as it cannot be.
    fn believe(&self, direction: Direction, bytes: &[u8], found: Found) -> bool {
        let _ = (direction, bytes);
        found != Found::Anywhere
    }

    /// A request begins, with this head. Whether it is answered.
    fn request(&mut self, head: &[u8]) -> Expects {
        let _ = head;
        Expects::Response
    }

    /// The server says something, with this head. `asked`: what is kept of the request that it answers if it answers one,
    /// as far as that is known.
    fn response(&mut self, head: &[u8], asked: Option<&[u8]>) -> Role {
        let _ = (head, asked);
        Role::Answer
    }

    /// Whether a response can be to a request, by what is kept of both.
    fn fit(request: &[u8], response: &[u8]) -> Fit {
        let _ = (request, response);
        Fit::Maybe
    }

    /// Bytes of `direction` are missing or were not understood: what was learnt from them may not hold any more.
    fn lose(&mut self, direction: Direction) {
        let _ = direction;
    }

    /// What comes behind the message that has just ended.
    fn then(&self) -> Then {
        Then::Messages
    }

    /// Writes the protocol's own fields, those above aside. `None`: not seen.
    fn write(request: Option<Said<'_>>, response: Option<Said<'_>>, w: &mut TupleWriter);
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The head goes on behind these bytes.
    NeedMore,
    /// A message, or its last part: bytes to parse, and bytes behind them to skip.
    Message {
        /// At least one, and no more than there are.
        head: usize,
        /// Any number; they need not have come yet.
        body: u64,
    },
    /// The same, and the message goes on behind them.
    Part {
        /// At least one, and no more than there are.
        head: usize,
        /// Any number.
        body: u64,
        /// What [`Messages::go_on`] needs to know: how many parts follow, say.
        rest: u64,
    },
    /// So many bytes between messages that say nothing: blank lines, say.
    Filler(usize),
    /// No message begins, or goes on, here.
    NoMessage,
}

/// Whether there are messages other than requests and their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Talk {
    /// Every request is answered, and the server says nothing else.
    OneForOne,
    /// Some requests are not answered, or the server also speaks unasked: missing bytes may hide nothing that counts.
    Freely,
}

/// What a message of the server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The answer to a request.
    #[default]
    Answer,
    /// A part of the answer, which the server's next message goes on with.
    AnswerGoesOn,
    /// It was not asked for: a tuple of its own.
    Unsolicited,
    /// It answers no request and is ignored.
    Aside,
    /// It is a part of an unknown answer that was not seen completely.
    Fragment,
}

/// What comes behind a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Then {
    /// More messages.
    #[default]
    Messages,
    /// Another protocol, which is recognized again.
    AnotherProtocol,
    /// Nothing that is read.
    Nothing,
}

/// Where a message was found that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Where [`Messages::next`] said: it may be a part of another message.
    Anywhere,
    /// At the start of a segment where acknowledgments prove that a message begins.
    SegmentStart,
    /// Where the answer to a request begins, if its client waits for answers: it had heard everything up to here.
    AnswerStart,
}

/// A message, for [`Messages::write`].
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// What `cut` and `go_on` said are its heads, up to [`Messages::KEPT_BYTES_MAX`].
    pub head: &'a [u8],
    /// Of a request always the same.
    pub role: Role,
}
