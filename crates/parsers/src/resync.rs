//! Resynchronization: finds the next message after missing bytes, after invalid bytes, and in a connection
//! joined midway.
//!
//! A protocol supplies two functions ([`MessageLocator`]): candidate positions from a fast search, and a check of a
//! candidate. [`ResyncSearch`] does the rest for one direction: it holds an incomplete candidate over the following
//! segments, with the arrival time and position of each byte, and counts skipped bytes. The messages found do
//! not depend on segment boundaries. Holds at most [`MessageLocator::HEAD_BYTES_MAX`] bytes.

use flow::StreamPlace;
use memchr::memchr;
use wire::{TcpSeq, Timestamp};

use crate::{ParserOutput, StreamSegment};

/// Message starts of a protocol.
pub trait MessageLocator {
    /// Bytes sufficient for a verdict: more cannot change it.
    const HEAD_BYTES_MAX: usize;

    /// The first position in `bytes[from..]` where a message could start, judged by the bytes there and
    /// before; including positions that need more bytes. The length of `bytes` if the next byte is a
    /// candidate.
    fn next(&self, bytes: &[u8], from: usize) -> Option<usize>;

    /// Whether a message may begin with a segment, whatever precedes it.
    fn begins_segment(&self, beginning: SegmentBeginning) -> bool {
        beginning.first
    }

    /// Whether a message starts here.
    fn judge(&self, candidate: &MessageCandidate<'_>) -> CandidateVerdict;
}

/// Facts about the start of a segment.
#[derive(Clone, Copy, Debug)]
pub struct SegmentBeginning {
    /// Sequence number and acknowledgment of the message.
    pub place: StreamPlace,
    /// The search starts with this segment.
    pub first: bool,
    /// The bytes directly before it were seen, with a lower acknowledgment.
    pub heard_more: bool,
}

/// Bytes with which a message could start.
#[derive(Clone, Copy, Debug)]
pub struct MessageCandidate<'a> {
    /// At least 1, at most [`MessageLocator::HEAD_BYTES_MAX`].
    pub bytes: &'a [u8],
    /// Arrival of the first byte.
    pub ts: Timestamp,
    /// Position of the first byte.
    pub place: StreamPlace,
    /// The bytes begin a segment that passed [`MessageLocator::begins_segment`].
    pub begins_segment: bool,
}

/// Verdict on a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateVerdict {
    /// The start of a message; parsing can continue here.
    Message,
    /// Not a message.
    No,
    /// More bytes are needed. At [`MessageLocator::HEAD_BYTES_MAX`] bytes the same as `No`.
    More,
}

/// A message that was found.
#[derive(Debug)]
pub struct ResyncedMessage {
    /// Arrival of its first byte.
    pub ts: Timestamp,
    /// Position of its first byte.
    pub place: StreamPlace,
    /// Bytes were skipped before it.
    pub skipped: bool,
    /// Bytes of the candidate from earlier segments.
    held: Vec<u8>,
    /// Starts of those segments, and of the current one.
    starts: Vec<SegmentOffset>,
    used: usize,
}

impl ResyncedMessage {
    /// Passes the held bytes of the message to `read`, segment by segment. Returns the offset of the
    /// remaining bytes in the current segment.
    pub fn replay(self, mut read: impl FnMut(StreamSegment<'_>)) -> usize {
        for pair in self.starts.windows(2) {
            let SegmentOffset { ts, place, .. } = pair[0];
            read(StreamSegment {
                bytes: &self.held[pair[0].at..pair[1].at],
                ts,
                place,
            });
        }
        self.used
    }

    /// Whether the message begins a segment that passed [`MessageLocator::begins_segment`].
    pub fn begins_segment(&self) -> bool {
        self.starts[0].may_begin
    }

    /// Arrival of its byte `at`, if already received.
    pub fn time_of(&self, at: usize) -> Timestamp {
        self.starts[self
            .starts
            .partition_point(|s| s.at <= at)
            .saturating_sub(1)]
        .ts
    }

    /// The message's first bytes; `bytes` is the segment in which it was found.
    pub fn first<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = u8> + 'a {
        self.held.iter().chain(&bytes[self.used..]).copied()
    }
}

/// Search in one direction.
#[derive(Debug, Default)]
pub struct ResyncSearch {
    /// A candidate, and the bytes after it.
    held: Vec<u8>,
    /// Starts of the segments in the held bytes and in the current ones.
    starts: Vec<SegmentOffset>,
    /// The next byte is a candidate.
    at_next: bool,
    /// End of the last segment, and its acknowledgment.
    end: Option<StreamPlace>,
    /// Bytes were skipped.
    skipped: bool,
}

/// Start of a segment.
#[derive(Clone, Copy, Debug)]
struct SegmentOffset {
    at: usize,
    ts: Timestamp,
    place: StreamPlace,
    may_begin: bool,
}

impl SegmentOffset {
    /// The candidate `into` bytes after this start.
    fn candidate<'a>(&self, bytes: &'a [u8], into: usize) -> MessageCandidate<'a> {
        let place = StreamPlace {
            seq: self.place.seq.plus(into as u32),
            ..self.place
        };
        MessageCandidate {
            bytes,
            ts: self.ts,
            place,
            begins_segment: self.may_begin && into == 0,
        }
    }
}

impl ResyncSearch {
    /// Searches for a message that starts in `segment` or in held bytes. Without a result all bytes are
    /// consumed.
    pub fn find<H: MessageLocator>(
        &mut self,
        heads: &H,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> Option<ResyncedMessage> {
        let StreamSegment { bytes, ts, place } = segment;
        let mut window = std::mem::take(&mut self.held);
        let held = window.len();
        let before = self.end.replace(StreamPlace {
            seq: segment.end(),
            ..place
        });
        let heard_more =
            before.is_some_and(|end| end.seq == place.seq && has_heard_more(end.ack, place.ack));
        let may_begin = heads.begins_segment(SegmentBeginning {
            place,
            first: before.is_none(),
            heard_more,
        });
        self.starts.push(SegmentOffset {
            at: held,
            ts,
            place,
            may_begin,
        });
        if held > 0 {
            window.extend_from_slice(bytes);
        }
        let all = if held > 0 { &window } else { bytes };
        let known = std::mem::take(&mut self.at_next) || held > 0;
        let (at, verdict) = first(heads, all, known, &self.starts);
        out.counters.skipped_bytes += at as u64;
        self.skipped |= at > 0;
        self.forget(at);
        if verdict == CandidateVerdict::Message {
            let ResyncSearch {
                starts, skipped, ..
            } = std::mem::take(self);
            let SegmentOffset { ts, place, .. } = starts[0];
            window.truncate(held);
            window.drain(..at.min(held));
            return Some(ResyncedMessage {
                ts,
                place,
                skipped,
                held: window,
                starts,
                used: at.saturating_sub(held),
            });
        }
        self.held = all[at..].to_vec();
        if self.held.is_empty() {
            self.starts.clear();
            self.at_next = verdict == CandidateVerdict::More;
        }
        None
    }

    /// The held candidate, if any.
    #[must_use]
    pub fn candidate(&self) -> Option<MessageCandidate<'_>> {
        let first = self.starts.first().filter(|_| !self.held.is_empty())?;
        Some(first.candidate(&self.held, 0))
    }

    /// Resets the search at a discontinuity; returns the number of bytes that were held.
    pub fn start_anew(&mut self, out: &mut ParserOutput<'_>) -> usize {
        let held = std::mem::take(self).held.len();
        out.counters.skipped_bytes += held as u64;
        held
    }

    /// Drops the first `n` bytes.
    fn forget(&mut self, n: usize) {
        let behind = self.starts.partition_point(|s| s.at <= n);
        self.starts.drain(..behind.saturating_sub(1));
        for start in &mut self.starts {
            let MessageCandidate {
                place,
                begins_segment,
                ..
            } = start.candidate(&[], n.saturating_sub(start.at));
            start.place = place;
            start.may_begin = begins_segment;
            start.at = start.at.saturating_sub(n);
        }
    }
}

fn has_heard_more(before: Option<TcpSeq>, now: Option<TcpSeq>) -> bool {
    before
        .zip(now)
        .is_some_and(|(before, now)| now.distance(before) > 0)
}

/// The first position that is not rejected, with its verdict; the end if there is none. `known`: the first
/// byte is a candidate.
fn first<H: MessageLocator>(
    heads: &H,
    bytes: &[u8],
    known: bool,
    starts: &[SegmentOffset],
) -> (usize, CandidateVerdict) {
    let mut beginnings = starts
        .iter()
        .filter(|s| s.may_begin)
        .map(|s| s.at)
        .peekable();
    let mut next = |from| {
        while beginnings.next_if(|start| *start < from).is_some() {}
        let end = beginnings.peek().copied();
        heads
            .next(&bytes[..end.unwrap_or(bytes.len())], from)
            .or(end)
    };
    let mut candidate = if known { Some(0) } else { next(0) };
    while let Some(at) = candidate.filter(|at| *at < bytes.len()) {
        let start = &starts[starts.partition_point(|s| s.at <= at) - 1];
        let head = &bytes[at..bytes.len().min(at + H::HEAD_BYTES_MAX)];
        match heads.judge(&start.candidate(head, at - start.at)) {
            CandidateVerdict::More if head.len() < H::HEAD_BYTES_MAX => {
                return (at, CandidateVerdict::More);
            }
            CandidateVerdict::Message => return (at, CandidateVerdict::Message),
            CandidateVerdict::No | CandidateVerdict::More => candidate = next(at + 1),
        }
    }
    (
        bytes.len(),
        if candidate.is_some() {
            CandidateVerdict::More
        } else {
            CandidateVerdict::No
        },
    )
}

/// Whether a message starts anywhere in `bytes`, which do not begin a segment.
pub fn is_in<H: MessageLocator>(heads: &H, bytes: &[u8]) -> bool {
    let whole = SegmentOffset {
        at: 0,
        ts: Timestamp::MIN,
        place: StreamPlace::default(),
        may_begin: false,
    };
    first(heads, bytes, false, &[whole]).1 == CandidateVerdict::Message
}

/// Start of the next line, for [`MessageLocator::next`].
#[must_use]
pub fn next_line(bytes: &[u8], from: usize) -> Option<usize> {
    match from.checked_sub(1).and_then(|before| bytes.get(before)) {
        Some(b'\n') => Some(from),
        _ => memchr(b'\n', &bytes[from..]).map(|nl| from + nl + 1),
    }
}

#[cfg(test)]
mod tests;
