//! One direction of a TCP connection: messages with a two-byte length prefix (RFC 1035 section 4.2.2). A
//! message inside one segment is parsed in place; a split one is collected, up to 64 KiB.

use flow::StreamPlace;

use crate::resync::ResyncSearch;
use crate::{MessageSpan, StreamGap, StreamSegment, TupleQuality};

/// Size of the length prefix.
pub const PREFIX: usize = 2;

/// Position in a byte stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DnsStreamState {
    /// In a message or between two.
    #[default]
    Framed,
    /// In a message with missing bytes, with this many bytes left.
    Skipping(usize),
    /// Unknown; the quality is that of the next message found.
    Lost(TupleQuality),
}

/// One direction.
#[derive(Debug, Default)]
pub struct DnsByteStream {
    pub state: DnsStreamState,
    /// Received bytes of a message, including the length prefix.
    pub held: Vec<u8>,
    /// Time and position of its start.
    pub begun: Option<(MessageSpan, StreamPlace)>,
    /// Method by which the next message was found, unless it directly follows another.
    pub found: Option<TupleQuality>,
    pub resync: ResyncSearch,
}

/// Classification of the next bytes.
pub enum DnsFramingStep {
    /// Number of bytes that belong to an incomplete message.
    More(usize),
    /// Number of bytes that complete the held message.
    Held(usize),
    /// Length of a complete message with its length prefix.
    Here(usize),
    /// Number of bytes to skip.
    Skipped(usize),
}

impl DnsByteStream {
    /// Classifies the next bytes, at least one.
    pub fn step(&self, bytes: &[u8]) -> DnsFramingStep {
        if let DnsStreamState::Skipping(left) = self.state {
            return DnsFramingStep::Skipped(left.min(bytes.len()));
        }
        let missing = match self.held.len() {
            0 => match bytes.first_chunk::<PREFIX>() {
                Some(length) => {
                    let whole = PREFIX + usize::from(u16::from_be_bytes(*length));
                    return if bytes.len() >= whole {
                        DnsFramingStep::Here(whole)
                    } else {
                        DnsFramingStep::More(bytes.len())
                    };
                }
                None => return DnsFramingStep::More(bytes.len()),
            },
            1 => return DnsFramingStep::More(1),
            held => PREFIX + self.held_len() - held,
        };
        if bytes.len() >= missing {
            DnsFramingStep::Held(missing)
        } else {
            DnsFramingStep::More(bytes.len())
        }
    }

    /// Appends bytes of an incomplete message.
    pub fn hold(&mut self, segment: StreamSegment<'_>) {
        let (span, _) = self
            .begun
            .get_or_insert((MessageSpan::at(segment.ts), segment.place));
        span.extend(segment.ts);
        self.held.extend_from_slice(segment.bytes);
    }

    /// Whether the held message is complete. An empty message has only the prefix.
    pub fn is_whole(&self) -> bool {
        self.held.len() >= PREFIX && self.held.len() == PREFIX + self.held_len()
    }

    /// Handles a gap in the held message: returns the bytes of the message after the gap, or `None` if the
    /// gap exceeds the message.
    pub fn behind(&self, gap: StreamGap) -> Option<usize> {
        match self.state {
            DnsStreamState::Skipping(left) => left.checked_sub(usize::try_from(gap.len).ok()?),
            _ if self.held.len() < PREFIX => None,
            _ => (PREFIX + self.held_len() - self.held.len())
                .checked_sub(usize::try_from(gap.len).ok()?),
        }
    }

    /// Length in the prefix of the held message.
    pub fn held_len(&self) -> usize {
        self.held
            .first_chunk::<PREFIX>()
            .map_or(0, |length| u16::from_be_bytes(*length).into())
    }

    /// The next message begins after `left` bytes.
    pub fn skip(&mut self, left: usize) {
        self.state = if left == 0 {
            DnsStreamState::Framed
        } else {
            DnsStreamState::Skipping(left)
        };
    }
}
