//! One direction of a TCP connection: messages, each with its length in two bytes before it (RFC 1035 section 4.2.2). A
//! message that lies whole in a segment is read there; one that is split is collected, up to the 64 KiB that it may have.

use flow::Place;

use crate::resync::Resync;
use crate::{Gap, Quality, Segment, Span};

/// Length of the length.
pub const PREFIX: usize = 2;

/// Where a byte stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// In a message, or between two.
    #[default]
    Framed,
    /// In a message with missing bytes, with this many bytes left.
    Skipping(usize),
    /// Anywhere.
    Lost(Quality),
}

/// One direction.
#[derive(Debug, Default)]
pub struct Lane {
    pub state: State,
    /// What has come of a message, its length before it.
    pub held: Vec<u8>,
    /// When and where it began.
    pub begun: Option<(Span, Place)>,
    /// How the next message was found, unless it follows another.
    pub found: Option<Quality>,
    pub resync: Resync,
}

/// What the next bytes are.
pub enum Step {
    /// So many belong to a message that goes on.
    More(usize),
    /// So many bytes complete the message that is held.
    Held(usize),
    /// The first bytes are a message, its length before it.
    Here(usize),
    /// They are not read.
    Skipped(usize),
}

impl Lane {
    /// What the next bytes, of which there is at least one, are.
    pub fn step(&self, bytes: &[u8]) -> Step {
        if let State::Skipping(left) = self.state {
            return Step::Skipped(left.min(bytes.len()));
        }
        let missing = match self.held.len() {
            0 => match bytes.first_chunk::<PREFIX>() {
                Some(length) => {
                    let whole = PREFIX + usize::from(u16::from_be_bytes(*length));
                    return if bytes.len() >= whole { Step::Here(whole) } else { Step::More(bytes.len()) };
                }
                None => return Step::More(bytes.len()),
            },
            1 => return Step::More(1),
            held => PREFIX + self.held_len() - held,
        };
        if bytes.len() >= missing { Step::Held(missing) } else { Step::More(bytes.len()) }
    }

    /// Keeps bytes of a message that goes on.
    pub fn hold(&mut self, segment: Segment<'_>) {
        let (span, _) = self.begun.get_or_insert((Span::at(segment.ts), segment.place));
        span.extend(segment.ts);
        self.held.extend_from_slice(segment.bytes);
    }

    /// Whether all of the message that is held is there: an empty one has only a length.
    pub fn is_whole(&self) -> bool {
        self.held.len() >= PREFIX && self.held.len() == PREFIX + self.held_len()
    }

    /// Bytes of the message that is held are missing: how many of it come behind them, if it goes on so far.
    pub fn behind(&self, gap: Gap) -> Option<usize> {
        match self.state {
            State::Skipping(left) => left.checked_sub(usize::try_from(gap.len).ok()?),
            _ if self.held.len() < PREFIX => None,
            _ => (PREFIX + self.held_len() - self.held.len()).checked_sub(usize::try_from(gap.len).ok()?),
        }
    }

    /// The length that stands before what is held.
    pub fn held_len(&self) -> usize {
        self.held.first_chunk::<PREFIX>().map_or(0, |length| u16::from_be_bytes(*length).into())
    }

    /// The next message begins after `left` bytes.
    pub fn skip(&mut self, left: usize) {
        self.state = if left == 0 { State::Framed } else { State::Skipping(left) };
    }
}
