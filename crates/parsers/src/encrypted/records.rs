//! Records of one direction (RFC 8446 section 5.1) by their headers: kind, length, and times. Contents are skipped.

use flow::StreamPlace;
use wire::Timestamp;

use crate::StreamSegment;
use crate::tls::byte_stream::{HEAD, RECORD_BYTES_MAX, kind};

/// Minimum length of a record that is encrypted with authentication.
const SEALED_BYTES_MIN: usize = 17;

/// A record whose header was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// [`kind`] of the record.
    pub kind: u8,
    /// Length in bytes without the header.
    pub len: u16,
    /// Arrival of its first byte.
    pub first: Timestamp,
    /// Position of its first byte.
    pub place: StreamPlace,
}

/// Progress of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordStep {
    /// The header is complete.
    Begun(RecordHead),
    /// The last byte has arrived.
    Ended(Timestamp),
}

/// Position in a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordState {
    /// Before the first record: bytes of another protocol may precede it (STARTTLS).
    Unread,
    /// In a header with this many bytes read.
    Head(usize),
    /// In a record with this many bytes left.
    Body(usize),
    /// Unknown: the next record is searched for at starts of segments.
    Lost,
}

/// One direction.
#[derive(Clone, Copy, Debug)]
pub struct RecordStream {
    state: RecordState,
    head: [u8; HEAD],
    begun: (Timestamp, StreamPlace),
}

impl RecordStream {
    /// A direction before its first record.
    pub fn new() -> RecordStream {
        RecordStream {
            state: RecordState::Unread,
            head: [0; HEAD],
            begun: (Timestamp::MIN, StreamPlace::default()),
        }
    }

    /// Whether the stream is between two records.
    pub fn is_between(&self) -> bool {
        self.state == RecordState::Head(0)
    }

    /// Prepares for the bytes of a segment: after missing bytes, records begin again with a plausible header. Returns
    /// whether the bytes can be read.
    pub fn resume(&mut self, bytes: &[u8]) -> bool {
        let is_start = match self.state {
            RecordState::Unread => bytes.first().is_some_and(|kind| is_kind(*kind)),
            RecordState::Lost => begins_record(bytes),
            RecordState::Head(_) | RecordState::Body(_) => return true,
        };
        if is_start {
            self.state = RecordState::Head(0);
        }
        is_start
    }

    /// Consumes bytes of `segment`, at least one; returns their number and what they complete.
    pub fn step(&mut self, segment: StreamSegment<'_>) -> (usize, Option<RecordStep>) {
        match self.state {
            RecordState::Unread | RecordState::Lost => (segment.bytes.len(), None),
            RecordState::Head(held) => self.read_head(held, segment),
            RecordState::Body(left) => {
                let n = segment.bytes.len().min(left);
                (n, self.pass(left, n, segment.ts))
            }
        }
    }

    /// Skips `missing` bytes. Returns the end of a record, and whether the stream can still be read.
    pub fn gap(&mut self, missing: u64, ts: Timestamp) -> (Option<RecordStep>, bool) {
        match self.state {
            RecordState::Body(left) if missing <= left as u64 => {
                (self.pass(left, missing as usize, ts), true)
            }
            _ => {
                self.state = RecordState::Lost;
                (None, false)
            }
        }
    }

    fn read_head(
        &mut self,
        held: usize,
        segment: StreamSegment<'_>,
    ) -> (usize, Option<RecordStep>) {
        if held == 0 {
            self.begun = (segment.ts, segment.place);
        }
        let n = segment.bytes.len().min(HEAD - held);
        self.head[held..held + n].copy_from_slice(&segment.bytes[..n]);
        if held + n < HEAD {
            self.state = RecordState::Head(held + n);
            return (n, None);
        }
        let Some((kind, len)) = header(&self.head) else {
            self.state = RecordState::Lost;
            return (n, None);
        };
        self.state = match len {
            0 => RecordState::Head(0),
            len => RecordState::Body(len.into()),
        };
        let (first, place) = self.begun;
        (
            n,
            Some(RecordStep::Begun(RecordHead {
                kind,
                len,
                first,
                place,
            })),
        )
    }

    fn pass(&mut self, left: usize, n: usize, ts: Timestamp) -> Option<RecordStep> {
        if n < left {
            self.state = RecordState::Body(left - n);
            return None;
        }
        self.state = RecordState::Head(0);
        Some(RecordStep::Ended(ts))
    }
}

fn is_kind(kind: u8) -> bool {
    (kind::CHANGE_CIPHER_SPEC..=kind::HEARTBEAT).contains(&kind)
}

/// Kind and length of a record, if the header is valid.
fn header(head: &[u8; HEAD]) -> Option<(u8, u16)> {
    let [kind, major, minor, high, low] = *head;
    let len = u16::from_be_bytes([high, low]);
    let is_valid =
        is_kind(kind) && major == 3 && minor <= 4 && usize::from(len) <= RECORD_BYTES_MAX;
    is_valid.then_some((kind, len))
}

/// Whether `bytes` begin with a record, and other records follow as far as there are bytes.
fn begins_record(bytes: &[u8]) -> bool {
    let Some((kind, len)) = bytes.first_chunk().and_then(header) else {
        return false;
    };
    let len = usize::from(len);
    let is_plausible = match kind {
        kind::CHANGE_CIPHER_SPEC => len == 1,
        kind::HANDSHAKE => len >= 4,
        kind::ALERT => len == 2 || len >= SEALED_BYTES_MIN,
        _ => len >= SEALED_BYTES_MIN,
    };
    let next = bytes.get(HEAD + len..).unwrap_or_default();
    is_plausible && next.first_chunk().is_none_or(|head| header(head).is_some())
}

/// Whether `bytes` begin with application data of a connection joined midway.
pub fn begins_data(bytes: &[u8]) -> bool {
    bytes.first() == Some(&kind::DATA) && begins_record(bytes)
}
