//! Finding the next message where it is not known where one begins: behind missing bytes, behind bytes that make no
//! sense, and in a connection joined midway.
//!
//! A protocol says two things ([`Heads`]): where a message could start, by what a fast search finds, and whether what stands
//! there is plausible. [`Resync`] does the rest for one direction: it keeps a candidate of which too little has come over
//! the segments that follow, knows when each of its bytes came and where they belong, and counts what is passed over.
//! However the bytes are cut into segments the same messages are found. Holds at most [`Heads::HEAD_BYTES_MAX`] bytes.

use flow::Place;
use memchr::memchr;
use wire::{TcpSeq, Timestamp};

use crate::{Output, Segment};

/// What a protocol knows of the places where its messages start.
pub trait Heads {
    /// So many bytes are enough to judge: with them, more can change nothing.
    const HEAD_BYTES_MAX: usize;

    /// The first place in `bytes[from..]` where a message could start, as far as the bytes there and before tell, or may
    /// when there are more; their length, if it is the byte to come.
    fn next(&self, bytes: &[u8], from: usize) -> Option<usize>;

    /// Whether a message may begin with a segment, whatever comes before it.
    fn begins_segment(&self, beginning: Beginning) -> bool {
        beginning.first
    }

    /// Whether a message starts here.
    fn judge(&self, candidate: &Candidate<'_>) -> Verdict;
}

/// What is known of the start of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    /// Its sequence number, and what its sender had received.
    pub place: Place,
    /// The search starts with this segment.
    pub first: bool,
    /// The bytes directly before it were seen, and their sender had received less.
    pub heard_more: bool,
}

/// Bytes with which a message could start.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// At least one, at most [`Heads::HEAD_BYTES_MAX`].
    pub bytes: &'a [u8],
    /// When the first came.
    pub ts: Timestamp,
    /// Where they belong in what both sides say.
    pub place: Place,
    /// They begin a segment of which [`Heads::begins_segment`] said that a message may begin with it.
    pub begins_segment: bool,
}

/// What a candidate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// So much like the start of a message that reading can go on with it.
    Message,
    /// Something else.
    No,
    /// More bytes will tell. With [`Heads::HEAD_BYTES_MAX`] it means the same as `No`.
    More,
}

/// A message that was found.
#[derive(Debug)]
pub struct Found {
    /// When it began.
    pub ts: Timestamp,
    /// Where that belongs in what both sides say.
    pub place: Place,
    /// Bytes were passed over before it.
    pub skipped: bool,
    /// Its bytes from earlier segments.
    held: Vec<u8>,
    /// Where those segments began, and the one at hand.
    starts: Vec<Start>,
    used: usize,
}

impl Found {
    /// Hands what is held of the message to `read`, as it came. Gives the number of bytes of the segment in which it was
    /// found that come before the rest of it.
    pub fn replay(self, mut read: impl FnMut(Segment<'_>)) -> usize {
        for pair in self.starts.windows(2) {
            let Start { ts, place, .. } = pair[0];
            read(Segment { bytes: &self.held[pair[0].at..pair[1].at], ts, place });
        }
        self.used
    }

    /// It begins a segment of which [`Heads::begins_segment`] said that a message may begin with it.
    pub fn begins_segment(&self) -> bool {
        self.starts[0].may_begin
    }

    /// When its byte number `at` came, as far as it has come.
    pub fn time_of(&self, at: usize) -> Timestamp {
        self.starts[self.starts.partition_point(|s| s.at <= at).saturating_sub(1)].ts
    }

    /// The message's first bytes, of which some were found in `bytes`.
    pub fn first<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = u8> + 'a {
        self.held.iter().chain(&bytes[self.used..]).copied()
    }
}

/// One direction's search.
#[derive(Debug, Default)]
pub struct Resync {
    /// A candidate, and what came behind it.
    held: Vec<u8>,
    /// Where the segments in these bytes begin, and in those at hand.
    starts: Vec<Start>,
    /// The next byte is a candidate.
    at_next: bool,
    /// Where the last segment ends, and what its sender had received.
    end: Option<Place>,
    /// Some of them were passed over.
    skipped: bool,
}

/// Where a segment begins.
#[derive(Clone, Copy, Debug)]
struct Start {
    at: usize,
    ts: Timestamp,
    place: Place,
    may_begin: bool,
}

impl Start {
    /// What begins so far behind its start.
    fn candidate<'a>(&self, bytes: &'a [u8], into: usize) -> Candidate<'a> {
        let place = Place { seq: self.place.seq.plus(into as u32), ..self.place };
        Candidate { bytes, ts: self.ts, place, begins_segment: self.may_begin && into == 0 }
    }
}

impl Resync {
    /// Looks for a message that starts in `segment`, or in bytes held before it. When there is none, all of it is used.
    pub fn find<H: Heads>(&mut self, heads: &H, segment: Segment<'_>, out: &mut Output<'_>) -> Option<Found> {
        let Segment { bytes, ts, place } = segment;
        let mut window = std::mem::take(&mut self.held);
        let held = window.len();
        let before = self.end.replace(Place { seq: segment.end(), ..place });
        let heard_more = before.is_some_and(|end| end.seq == place.seq && has_heard_more(end.ack, place.ack));
        let may_begin = heads.begins_segment(Beginning { place, first: before.is_none(), heard_more });
        self.starts.push(Start { at: held, ts, place, may_begin });
        if held > 0 {
            window.extend_from_slice(bytes);
        }
        let all = if held > 0 { &window } else { bytes };
        let known = std::mem::take(&mut self.at_next) || held > 0;
        let (at, verdict) = first(heads, all, known, &self.starts);
        out.counters.skipped_bytes += at as u64;
        self.skipped |= at > 0;
        self.forget(at);
        if verdict == Verdict::Message {
            let Resync { starts, skipped, .. } = std::mem::take(self);
            let Start { ts, place, .. } = starts[0];
            window.truncate(held);
            window.drain(..at.min(held));
            return Some(Found { ts, place, skipped, held: window, starts, used: at.saturating_sub(held) });
        }
        self.held = all[at..].to_vec();
        if self.held.is_empty() {
            self.starts.clear();
            self.at_next = verdict == Verdict::More;
        }
        None
    }

    /// The candidate held, if there is one.
    #[must_use]
    pub fn candidate(&self) -> Option<Candidate<'_>> {
        let first = self.starts.first().filter(|_| !self.held.is_empty())?;
        Some(first.candidate(&self.held, 0))
    }

    /// What comes next does not follow what came before: forgets it, and tells how many bytes were held.
    pub fn start_anew(&mut self, out: &mut Output<'_>) -> usize {
        let held = std::mem::take(self).held.len();
        out.counters.skipped_bytes += held as u64;
        held
    }

    /// The first `n` bytes are of no use any more.
    fn forget(&mut self, n: usize) {
        let behind = self.starts.partition_point(|s| s.at <= n);
        self.starts.drain(..behind.saturating_sub(1));
        for start in &mut self.starts {
            let Candidate { place, begins_segment, .. } = start.candidate(&[], n.saturating_sub(start.at));
            (start.place, start.may_begin) = (place, begins_segment);
            start.at = start.at.saturating_sub(n);
        }
    }
}

fn has_heard_more(before: Option<TcpSeq>, now: Option<TcpSeq>) -> bool {
    before.zip(now).is_some_and(|(before, now)| now.distance(before) > 0)
}

/// The first place that is not refused, and what is there; the end, if there is none. `known`: the first byte is a candidate.
fn first<H: Heads>(heads: &H, bytes: &[u8], known: bool, starts: &[Start]) -> (usize, Verdict) {
    let mut beginnings = starts.iter().filter(|s| s.may_begin).map(|s| s.at).peekable();
    let mut next = |from| {
        while beginnings.next_if(|start| *start < from).is_some() {}
        let end = beginnings.peek().copied();
        heads.next(&bytes[..end.unwrap_or(bytes.len())], from).or(end)
    };
    let mut candidate = if known { Some(0) } else { next(0) };
    while let Some(at) = candidate.filter(|at| *at < bytes.len()) {
        let start = &starts[starts.partition_point(|s| s.at <= at) - 1];
        let head = &bytes[at..bytes.len().min(at + H::HEAD_BYTES_MAX)];
        match heads.judge(&start.candidate(head, at - start.at)) {
            Verdict::More if head.len() < H::HEAD_BYTES_MAX => return (at, Verdict::More),
            Verdict::Message => return (at, Verdict::Message),
            Verdict::No | Verdict::More => candidate = next(at + 1),
        }
    }
    (bytes.len(), if candidate.is_some() { Verdict::More } else { Verdict::No })
}

/// Whether a message starts anywhere in `bytes`, which begin none.
pub fn is_in<H: Heads>(heads: &H, bytes: &[u8]) -> bool {
    let whole = Start { at: 0, ts: Timestamp::MIN, place: Place::default(), may_begin: false };
    first(heads, bytes, false, &[whole]).1 == Verdict::Message
}

/// Where the next line starts, for [`Heads::next`].
#[must_use]
pub fn next_line(bytes: &[u8], from: usize) -> Option<usize> {
    match from.checked_sub(1).and_then(|before| bytes.get(before)) {
        Some(b'\n') => Some(from),
        _ => memchr(b'\n', &bytes[from..]).map(|nl| from + nl + 1),
    }
}

#[cfg(test)]
mod tests;
