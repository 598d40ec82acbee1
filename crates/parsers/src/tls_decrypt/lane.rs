//! One direction of a TLS connection: cuts records, decrypts them, and finds the next record after a gap.
//!
//! Positions of plaintext are in a sequence space of their own, without record headers, tags, and handshake messages:
//! records follow each other without gaps, and an acknowledgment is the position after the last complete record that
//! the other end has received, because it cannot have used more. The length of missing plaintext is an upper bound: padding,
//! which CBC always has and TLS 1.3 permits, counts as content.

use std::collections::VecDeque;
use std::ops::Range;

use flow::StreamPlace;
use wire::{TcpSeq, Timestamp};

use super::record_keys::{HEAD, TlsRecordKeys};
use crate::tls::byte_stream::{RECORD_BYTES_MAX, kind};
use crate::tls::messages::TlsMessageCollector;
use crate::{StreamGap, StreamSegment};

/// Record ends stored to translate acknowledgments.
const ENDS_MAX: usize = 4096;
/// Numbers tried for a record after a gap.
const NUMBERS_MAX: u64 = 8192;
/// Numbers tried beyond those of the missing bytes.
const NUMBERS_SPARE: u64 = 64;
/// Bytes of failed attempts after which a connection is left.
const ATTEMPTED_BYTES_MAX: u64 = 256 << 20;
/// Consecutive records that are not decrypted after which a connection is left.
const FAILURES_MAX: u8 = 16;

/// Protection of a connection's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsEpoch {
    /// Data of TLS 1.3 before the server's answer.
    Early,
    /// Encrypted handshake of TLS 1.3.
    Handshake,
    /// Data; in TLS 1.2 also the end of the handshake.
    Application,
}

/// Keys with the part of the connection they protect.
pub struct TlsEpochKeys {
    pub epoch: TlsEpoch,
    pub keys: TlsRecordKeys,
}

/// Result of [`TlsLane::step`].
pub enum TlsLaneStep {
    /// More bytes are needed.
    More,
    /// A record that is not encrypted: its type and content.
    Plain(u8, Range<usize>),
    /// A decrypted record: its type and content.
    Opened(u8, Range<usize>),
    /// A record that could not be decrypted, and its data.
    Sealed(Option<StreamGap>),
    /// An encrypted record before the keys are known; it stays in the buffer.
    Waits,
    /// The record after a gap was found; the missing plaintext before it.
    Found(StreamGap),
    /// Later bytes cannot be read.
    Lost,
}

/// Arrival and acknowledgment of buffered bytes.
#[derive(Clone, Copy)]
struct SegmentMark {
    /// Position of the first byte in the buffer.
    at: usize,
    ts: Timestamp,
    ack: Option<TcpSeq>,
}

/// Search for the record after a gap.
struct RecordSearch {
    /// Bytes since the end of the last known record.
    missing: u64,
    ts: Timestamp,
}

/// One direction.
#[derive(Default)]
pub struct TlsLane {
    buffer: Vec<u8>,
    /// Buffered bytes that were used.
    used: usize,
    marks: VecDeque<SegmentMark>,
    /// Sequence number of the first unused byte, and position of its plaintext; `None` before the first byte.
    place: Option<(TcpSeq, TcpSeq)>,
    /// Ends of records: sequence number and plaintext position.
    ends: VecDeque<(TcpSeq, TcpSeq)>,
    current: Option<TlsEpochKeys>,
    /// Keys of later parts of the connection.
    pub next: VecDeque<TlsEpochKeys>,
    pub messages: TlsMessageCollector,
    search: Option<RecordSearch>,
    /// Bytes left of a record of which others are missing.
    incomplete: usize,
    /// A change of keys may have been missed.
    doubtful: bool,
    failures: u8,
    attempted_bytes: u64,
    /// A copy of the record that is being tried.
    scratch: Vec<u8>,
}

impl TlsLane {
    /// Size of its buffers in bytes.
    pub fn bytes(&self) -> usize {
        self.buffer.capacity()
            + self.scratch.capacity()
            + self.marks.len() * size_of::<SegmentMark>()
            + self.ends.len() * size_of::<(TcpSeq, TcpSeq)>()
    }

    /// Bytes of the buffer.
    pub fn content(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// Adds handshake bytes of the buffer to the messages.
    pub fn collect(
        &mut self,
        range: Range<usize>,
        ts: Timestamp,
    ) -> (usize, Option<crate::tls::messages::TlsHandshakeMessage>) {
        self.messages.feed(&self.buffer[range], ts)
    }

    /// Whether the next record is searched for.
    pub fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Whether records are encrypted with known keys.
    pub fn is_encrypted(&self) -> bool {
        self.current.is_some()
    }

    /// The current part of the connection.
    pub fn epoch(&self) -> Option<TlsEpoch> {
        self.current.as_ref().map(|current| current.epoch)
    }

    /// Whether the limit of failed records is reached, which ends decryption.
    fn is_hopeless(&self) -> bool {
        self.failures >= FAILURES_MAX || self.attempted_bytes > ATTEMPTED_BYTES_MAX
    }

    /// Adds bytes to the buffer.
    pub fn push(&mut self, segment: StreamSegment<'_>) {
        let StreamSegment { bytes, ts, place } = segment;
        self.begin_at(place.seq);
        self.compact();
        self.marks.push_back(SegmentMark {
            at: self.buffer.len(),
            ts,
            ack: place.ack,
        });
        self.buffer.extend_from_slice(bytes);
    }

    /// The first byte has the same position in both spaces.
    fn begin_at(&mut self, seq: TcpSeq) {
        if self.place.is_none() {
            self.place = Some((seq, seq));
            self.note_end();
        }
    }

    /// Removes used bytes.
    fn compact(&mut self) {
        if self.used == 0 {
            return;
        }
        let used = std::mem::take(&mut self.used);
        self.buffer.copy_within(used.., 0);
        self.buffer.truncate(self.buffer.len() - used);
        let behind = self.marks.partition_point(|mark| mark.at <= used);
        self.marks.drain(..behind.saturating_sub(1));
        for mark in &mut self.marks {
            mark.at = mark.at.saturating_sub(used);
        }
        if self.buffer.is_empty() {
            self.marks.clear();
        }
    }

    fn mark(&self, at: usize) -> SegmentMark {
        let behind = self.marks.partition_point(|mark| mark.at <= at);
        self.marks[behind.saturating_sub(1)]
    }

    /// Plaintext position of an acknowledgment of this direction.
    pub fn plain_of(&mut self, ack: TcpSeq) -> Option<TcpSeq> {
        if self.place.is_none() {
            return Some(ack);
        }
        let reached = |end: &(TcpSeq, TcpSeq)| ack.distance(end.0) >= 0;
        while self.ends.get(1).is_some_and(reached) {
            self.ends.pop_front();
        }
        self.ends
            .front()
            .filter(|end| reached(end))
            .map(|end| end.1)
    }

    /// Stores the end of a record.
    fn note_end(&mut self) {
        let Some(place) = self.place else {
            return;
        };
        if self.ends.len() == ENDS_MAX {
            self.ends.pop_front();
        }
        self.ends.push_back(place);
    }

    /// Advances over `bytes` of ciphertext and `plain` bytes of plaintext.
    fn advance(&mut self, bytes: u64, plain: u64) {
        if let Some((seq, position)) = &mut self.place {
            *seq = seq.plus(bytes as u32);
            *position = position.plus(plain as u32);
        }
    }

    /// Advances over `len` bytes of data of the record read last; returns their place.
    pub fn place_data(&mut self, len: usize, ack: Option<TcpSeq>) -> StreamPlace {
        let seq = self.place.map(|place| place.1).unwrap_or_default();
        self.advance(0, len as u64);
        // The end of the record was noted before its content was known.
        if let (Some(end), Some(place)) = (self.ends.back_mut(), self.place) {
            end.1 = place.1;
        }
        StreamPlace { seq, ack }
    }

    /// Arrival of a record's last byte, and the acknowledgment of its first.
    pub fn times(&self, record: &Range<usize>) -> (Timestamp, Option<TcpSeq>) {
        let first = self.mark(record.start);
        let last = self.mark(record.end.saturating_sub(1).max(record.start));
        (last.ts.max(first.ts), first.ack)
    }

    /// Reads the next record of the buffer. Also returns the range of the whole record.
    pub fn step(&mut self) -> (TlsLaneStep, Range<usize>) {
        if self.incomplete > 0 {
            let skipped = self.incomplete.min(self.buffer.len() - self.used);
            self.incomplete -= skipped;
            self.used += skipped;
            if self.incomplete > 0 {
                return (TlsLaneStep::More, 0..0);
            }
        }
        if self.search.is_some() {
            return self.find();
        }
        let at = self.used;
        let rest = &self.buffer[at..];
        let Some(head) = rest.first_chunk::<HEAD>() else {
            return (TlsLaneStep::More, 0..0);
        };
        let Some(len) = record_len(head) else {
            return (TlsLaneStep::Lost, 0..0);
        };
        let kind = head[0];
        if kind == kind::DATA && self.current.is_none() && self.next.is_empty() {
            return (TlsLaneStep::Waits, 0..0);
        }
        if rest.len() < len {
            return (TlsLaneStep::More, 0..0);
        }
        let record = at..at + len;
        (self.read(kind, record.clone()), record)
    }

    /// Reads a complete record.
    fn read(&mut self, kind: u8, record: Range<usize>) -> TlsLaneStep {
        if self.is_plain(kind) {
            self.finish(record.len());
            return TlsLaneStep::Plain(kind, record.start + HEAD..record.end);
        }
        let opened = self.open(record.clone(), 0..1);
        if opened.is_none() && self.is_hopeless() {
            return TlsLaneStep::Lost;
        }
        if let Some((_, content)) = opened {
            self.finish(record.len());
            return self.content_of(kind, content);
        }
        let ts = self.mark(record.end - 1).ts;
        let data = self.data_in(kind, record.len());
        self.used += record.len();
        TlsLaneStep::Sealed(self.lose(record.len() as u64, data, ts))
    }

    /// Whether a record of this type is not encrypted.
    fn is_plain(&self, kind: u8) -> bool {
        let tls13 = |keys: &TlsEpochKeys| keys.keys.is_tls13();
        match (&self.current, self.next.front()) {
            (Some(current), _) if !tls13(current) => false,
            (None, Some(next)) if !tls13(next) => true,
            (None, None) => true,
            _ => kind != kind::DATA,
        }
    }

    /// Advances over a record.
    fn finish(&mut self, len: usize) {
        self.used += len;
        self.advance(len as u64, 0);
        self.note_end();
    }

    /// Type and content of a decrypted record: in TLS 1.3, the type follows the content, before padding.
    fn content_of(&self, kind: u8, content: Range<usize>) -> TlsLaneStep {
        if self
            .current
            .as_ref()
            .is_none_or(|current| !current.keys.is_tls13())
        {
            return TlsLaneStep::Opened(kind, content);
        }
        let bytes = &self.buffer[content.clone()];
        let Some(end) = bytes.iter().rposition(|byte| *byte != 0) else {
            return TlsLaneStep::Sealed(None);
        };
        TlsLaneStep::Opened(bytes[end], content.start..content.start + end)
    }

    /// Changes to the next keys.
    pub fn change_keys(&mut self) {
        if let Some(next) = self.next.pop_front() {
            self.current = Some(next);
            self.messages = TlsMessageCollector::default();
        }
    }

    /// Changes to the keys after a KeyUpdate.
    pub fn update_keys(&mut self) {
        if let Some(current) = &mut self.current
            && let Some(keys) = current.keys.updated()
        {
            current.keys = keys;
        }
    }

    /// Decrypts a record in place with the current keys and a number of `ahead` (relative to the next), or with later
    /// keys. Returns the number of records before it with these keys, if the keys are the same, and the content.
    fn open(
        &mut self,
        record: Range<usize>,
        ahead: Range<u64>,
    ) -> Option<(Option<u64>, Range<usize>)> {
        let inside =
            |content: Range<usize>| record.start + content.start..record.start + content.end;
        let bytes = &mut self.buffer[record.clone()];
        if let Some(TlsEpochKeys { keys, .. }) = &mut self.current
            && ahead == (0..1)
            && self.next.is_empty()
            && !self.doubtful
        {
            let content = keys.open(bytes, keys.sequence);
            keys.sequence += 1;
            self.failures = if content.is_some() {
                0
            } else {
                self.failures + 1
            };
            self.doubtful = content.is_none();
            return content.map(|content| (Some(0), inside(content)));
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(bytes);
        let mut attempt = |keys: &TlsRecordKeys, number: u64| {
            self.attempted_bytes += self.scratch.len() as u64;
            bytes.copy_from_slice(&self.scratch);
            keys.open(bytes, number)
        };
        if let Some(TlsEpochKeys { keys, .. }) = &mut self.current {
            for missed in ahead.clone() {
                if let Some(content) = attempt(keys, keys.sequence + missed) {
                    keys.sequence += missed + 1;
                    (self.failures, self.attempted_bytes, self.doubtful) = (0, 0, false);
                    return Some((Some(missed), inside(content)));
                }
            }
        }
        let numbers = 0..if ahead.end > 1 || self.doubtful {
            ahead.end - ahead.start + NUMBERS_SPARE
        } else {
            1
        };
        let updated = self.current.as_ref().and_then(|current| {
            let keys = current.keys.updated().filter(|_| numbers.end > 1)?;
            let epoch = current.epoch;
            Some(TlsEpochKeys { epoch, keys })
        });
        let later = self.next.iter().chain(&updated).enumerate();
        let mut found = None;
        'keys: for (place, TlsEpochKeys { keys, .. }) in later {
            for number in numbers.clone() {
                if let Some(content) = attempt(keys, number) {
                    found = Some((place, number, content));
                    break 'keys;
                }
            }
        }
        let Some((place, number, content)) = found else {
            if let Some(current) = &mut self.current
                && ahead == (0..1)
            {
                current.keys.sequence += 1;
                self.failures += 1;
                self.doubtful = true;
            }
            return None;
        };
        if place < self.next.len() {
            self.current = self.next.drain(..=place).next_back();
        } else {
            self.current = updated;
        }
        if let Some(current) = &mut self.current {
            current.keys.sequence = number + 1;
        }
        self.messages = TlsMessageCollector::default();
        (self.failures, self.attempted_bytes, self.doubtful) = (0, 0, false);
        Some((None, inside(content)))
    }

    /// Handles missing bytes. Returns the plaintext that is missing for certain.
    pub fn on_gap(&mut self, gap: StreamGap) -> Option<StreamGap> {
        self.begin_at(gap.seq);
        if let Some(search) = &mut self.search {
            search.missing += (self.buffer.len() - self.used) as u64 + gap.len;
            self.clear();
            return None;
        }
        let mut missing = gap.len;
        if self.incomplete > 0 {
            let inside = missing.min(self.incomplete as u64);
            self.incomplete -= inside as usize;
            missing -= inside;
            self.search_behind(missing, gap.ts);
            return None;
        }
        let held = self.buffer.len() - self.used;
        let head = self.buffer[self.used..].first_chunk::<HEAD>().copied();
        let Some((kind, len)) = head.and_then(|head| Some((head[0], record_len(&head)?))) else {
            self.search_behind(held as u64 + missing, gap.ts);
            return None;
        };
        let left = len - held;
        let inside = missing.min(left as u64);
        if self.is_plain(kind) {
            self.miss_plain(kind, inside as usize);
        }
        let lost = self.data_in(kind, len);
        if let Some(current) = &mut self.current {
            current.keys.sequence += 1;
        }
        self.clear();
        self.doubtful = true;
        let lost = self.lose(len as u64, lost, gap.ts);
        self.incomplete = left - inside as usize;
        self.search_behind(missing - inside, gap.ts);
        lost
    }

    /// Feeds the held part of a plaintext handshake record to the collector, then its missing bytes.
    fn miss_plain(&mut self, kind: u8, inside: usize) {
        let mut at = self.used + HEAD;
        let ts = self.mark(at.min(self.buffer.len() - 1)).ts;
        while kind == kind::HANDSHAKE && at < self.buffer.len() {
            let (n, message) = self.messages.feed(&self.buffer[at..], ts);
            at += n;
            // A complete message would be overwritten; the missing bytes are behind it.
            if message.is_some() {
                return;
            }
        }
        self.messages.gap(inside);
    }

    /// Bytes of data in a record of `len` bytes.
    fn data_in(&self, kind: u8, len: usize) -> u64 {
        match &self.current {
            Some(TlsEpochKeys { epoch, keys })
                if *epoch == TlsEpoch::Application && kind == kind::DATA =>
            {
                len.saturating_sub(keys.overhead()) as u64
            }
            _ => 0,
        }
    }

    /// Advances over lost plaintext, and returns it as a gap if there is any.
    fn lose(&mut self, bytes: u64, plain: u64, ts: Timestamp) -> Option<StreamGap> {
        let seq = self.place.map(|place| place.1).unwrap_or_default();
        self.advance(bytes, plain);
        self.note_end();
        (plain > 0).then_some(StreamGap {
            seq,
            len: plain,
            ts,
        })
    }

    fn search_behind(&mut self, missing: u64, ts: Timestamp) {
        if missing > 0 {
            self.clear();
            self.search = Some(RecordSearch { missing, ts });
        }
    }

    fn clear(&mut self) {
        self.buffer.clear();
        self.marks.clear();
        self.used = 0;
    }

    /// Ends the stall of a search: the missing bytes so far count as plaintext.
    pub fn give_up_missing(&mut self) -> Option<StreamGap> {
        let search = self.search.as_mut()?;
        let missing = std::mem::take(&mut search.missing);
        let ts = search.ts;
        self.lose(missing, missing, ts)
    }

    /// Searches the buffer for the next record: a plausible header whose record has a valid tag.
    fn find(&mut self) -> (TlsLaneStep, Range<usize>) {
        loop {
            let rest = &self.buffer[self.used..];
            let Some((skipped, len)) = self.candidate(rest) else {
                // A header may begin in the last bytes.
                let skipped = rest.len().saturating_sub(HEAD - 1);
                self.skip(skipped);
                return (TlsLaneStep::More, 0..0);
            };
            self.skip(skipped);
            if self.buffer.len() - self.used < len {
                return (TlsLaneStep::More, 0..0);
            }
            if let Some(gap) = self.verify(len) {
                return (TlsLaneStep::Found(gap), 0..0);
            }
            if self.is_hopeless() {
                return (TlsLaneStep::Lost, 0..0);
            }
            self.skip(1);
        }
    }

    fn skip(&mut self, n: usize) {
        self.used += n;
        if let Some(search) = &mut self.search {
            search.missing += n as u64;
        }
    }

    /// The first position that may begin a record, and the record's length.
    fn candidate(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let fits = |window: &[u8; HEAD]| {
            let len = record_len(window)?;
            let is_change = window[0] == kind::CHANGE_CIPHER_SPEC && len == HEAD + 1;
            let keys = self.current.as_ref().or(self.next.front())?;
            let is_sealed =
                len >= keys.keys.overhead() && (window[0] == kind::DATA || !keys.keys.is_tls13());
            (window[2] == 3 && (is_sealed || is_change)).then_some(len)
        };
        let mut from = 0;
        while let Some(at) = memchr::memchr(3, bytes.get(from + 1..)?) {
            let at = from + at;
            let window = bytes.get(at..)?.first_chunk::<HEAD>()?;
            if let Some(len) = fits(window) {
                return Some((at, len));
            }
            from = at + 1;
        }
        None
    }

    /// Verifies a candidate by its tag. A verified record stays in the buffer: only the keys' position changes.
    fn verify(&mut self, len: usize) -> Option<StreamGap> {
        let search = self.search.as_ref()?;
        let (missing, ts) = (search.missing, search.ts);
        let record = self.used..self.used + len;
        let head = self.buffer[self.used];
        if head == kind::CHANGE_CIPHER_SPEC && len == HEAD + 1 {
            let is_first = self.current.is_none() && self.next.front().is_some();
            return (is_first && self.buffer[record.end - 1] == 1)
                .then(|| self.found(missing, 0, ts));
        }
        let smallest = self.current.as_ref().map_or(1, |keys| keys.keys.overhead()) as u64;
        let least = missing.div_ceil((RECORD_BYTES_MAX + HEAD) as u64);
        let most = (missing.div_ceil(smallest) + NUMBERS_SPARE).min(least + NUMBERS_MAX);
        let was_data = self.epoch() == Some(TlsEpoch::Application);
        let opened = self.open(record.clone(), least..most + 1);
        let original = std::mem::take(&mut self.scratch);
        self.buffer[record].copy_from_slice(&original);
        self.scratch = original;
        let (missed, _) = opened?;
        let current = self.current.as_mut()?;
        current.keys.sequence -= 1;
        let missed = missed.unwrap_or(current.keys.sequence);
        let is_data = was_data || missed > 0 && current.epoch == TlsEpoch::Application;
        let headers = missed * current.keys.overhead() as u64;
        let plain = if is_data {
            missing.saturating_sub(headers)
        } else {
            0
        };
        Some(self.found(missing, plain, ts))
    }

    fn found(&mut self, missing: u64, plain: u64, ts: Timestamp) -> StreamGap {
        self.search = None;
        let seq = self.place.map(|place| place.1).unwrap_or_default();
        self.lose(missing, plain, ts)
            .unwrap_or(StreamGap { seq, len: 0, ts })
    }
}

/// Length of a record with its header; `None`: not the header of a record.
fn record_len(head: &[u8; HEAD]) -> Option<usize> {
    let len = usize::from(u16::from_be_bytes([head[3], head[4]]));
    let is_known = (kind::CHANGE_CIPHER_SPEC..=kind::HEARTBEAT).contains(&head[0]);
    (is_known && head[1] == 3 && len <= RECORD_BYTES_MAX).then_some(HEAD + len)
}
