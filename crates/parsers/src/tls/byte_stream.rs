//! One direction of a connection: records (RFC 8446 section 5.1) and their contents.

use flow::StreamPlace;
use wire::Timestamp;

use super::messages::{TlsHandshakeMessage, TlsMessageCollector};
use crate::StreamSegment;

/// Length of a record's header.
pub const HEAD: usize = 5;
/// Maximum record length: 2^14 plus the overhead of encryption.
pub const RECORD_BYTES_MAX: usize = (1 << 14) + 2048;

/// Record types.
pub mod kind {
    pub const CHANGE_CIPHER_SPEC: u8 = 20;
    pub const ALERT: u8 = 21;
    pub const HANDSHAKE: u8 = 22;
    pub const DATA: u8 = 23;
    pub const HEARTBEAT: u8 = 24;
}

/// Position in a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsRecordState {
    /// In a record header with this many bytes read.
    Head(usize),
    /// In a record with this many bytes left.
    Body(usize),
    /// Unknown: not parsed any more.
    Lost,
}

/// A complete message or alert.
#[derive(Clone, Copy, Debug)]
pub enum TlsEvent {
    /// A handshake message; its body is in the collector.
    Message(TlsHandshakeMessage),
    /// This direction is encrypted from here on, in TLS 1.2 and before.
    ChangeCipherSpec,
    /// An alert: its start, level, and description; `None`: encrypted.
    Alert(Timestamp, Option<(u8, u8)>),
    /// An encrypted handshake message; arrival of its last byte, if known.
    EncryptedMessage(Option<Timestamp>),
    /// The start of a record of application data, which in TLS 1.3 may contain other messages.
    Data {
        ts: Timestamp,
        place: StreamPlace,
        len: usize,
    },
    /// Later bytes cannot be parsed.
    Lost,
}

/// One direction.
#[derive(Debug)]
pub struct TlsByteStream {
    state: TlsRecordState,
    head: [u8; HEAD],
    /// Arrival and position of the record's start.
    begun: (Timestamp, StreamPlace),
    /// First bytes of a short record.
    short: [u8; 2],
    read: usize,
    pub collector: TlsMessageCollector,
    /// Handshake messages and alerts are encrypted.
    pub encrypted: bool,
    /// Bytes have been received.
    pub spoke: bool,
}

impl Default for TlsByteStream {
    fn default() -> Self {
        TlsByteStream {
            state: TlsRecordState::Head(0),
            head: [0; HEAD],
            begun: (Timestamp::MIN, StreamPlace::default()),
            short: [0; 2],
            read: 0,
            collector: TlsMessageCollector::default(),
            encrypted: false,
            spoke: false,
        }
    }
}

impl TlsByteStream {
    /// Whether later bytes cannot be parsed.
    pub fn is_lost(&self) -> bool {
        self.state == TlsRecordState::Lost
    }

    /// Consumes bytes of `segment`, at least one; returns their number and the event.
    pub fn step(&mut self, segment: StreamSegment<'_>) -> (usize, Option<TlsEvent>) {
        self.spoke = true;
        match self.state {
            TlsRecordState::Lost => (segment.bytes.len(), None),
            TlsRecordState::Head(held) => self.read_head(held, segment),
            TlsRecordState::Body(left) => self.read_body(left, segment),
        }
    }

    /// Skips `missing` bytes.
    pub fn gap(&mut self, missing: u64) -> Option<TlsEvent> {
        let left = match self.state {
            TlsRecordState::Body(left) if missing <= left as u64 => left,
            TlsRecordState::Lost => return None,
            _ => {
                self.state = TlsRecordState::Lost;
                return match self.collector.break_off() {
                    Some(message) => Some(TlsEvent::Message(message)),
                    None => Some(TlsEvent::Lost),
                };
            }
        };
        let missing = missing as usize;
        let was_lost = self.collector.is_lost();
        let event = match self.head[0] {
            kind::HANDSHAKE if !self.encrypted => {
                self.collector.gap(missing).map(TlsEvent::Message)
            }
            kind::HANDSHAKE if missing == left => Some(TlsEvent::EncryptedMessage(None)),
            kind::ALERT if missing == left => Some(TlsEvent::Alert(self.begun.0, None)),
            kind::CHANGE_CIPHER_SPEC if missing == left => Some(TlsEvent::ChangeCipherSpec),
            _ => None,
        };
        self.pass(left, missing);
        match event {
            None if self.collector.is_lost() && !was_lost => Some(TlsEvent::Lost),
            event => event,
        }
    }

    fn read_head(&mut self, held: usize, segment: StreamSegment<'_>) -> (usize, Option<TlsEvent>) {
        if held == 0 {
            self.begun = (segment.ts, segment.place);
        }
        let n = segment.bytes.len().min(HEAD - held);
        self.head[held..held + n].copy_from_slice(&segment.bytes[..n]);
        if held + n < HEAD {
            self.state = TlsRecordState::Head(held + n);
            return (n, None);
        }
        let len = usize::from(u16::from_be_bytes([self.head[3], self.head[4]]));
        let known = (kind::CHANGE_CIPHER_SPEC..=kind::HEARTBEAT).contains(&self.head[0]);
        if !known || self.head[1] != 3 || len > RECORD_BYTES_MAX {
            self.state = TlsRecordState::Lost;
            return (n, Some(TlsEvent::Lost));
        }
        self.state = if len == 0 {
            TlsRecordState::Head(0)
        } else {
            TlsRecordState::Body(len)
        };
        self.read = 0;
        let (ts, place) = self.begun;
        (
            n,
            (self.head[0] == kind::DATA).then_some(TlsEvent::Data { ts, place, len }),
        )
    }

    fn read_body(&mut self, left: usize, segment: StreamSegment<'_>) -> (usize, Option<TlsEvent>) {
        let StreamSegment { bytes, ts, .. } = segment.first(segment.bytes.len().min(left));
        if self.head[0] == kind::HANDSHAKE && !self.encrypted {
            let (used, message) = self.collector.feed(bytes, ts);
            self.pass(left, used);
            return (used, message.map(TlsEvent::Message));
        }
        for (byte, at) in bytes.iter().zip(self.read..self.short.len()) {
            self.short[at] = *byte;
        }
        let whole = bytes.len() == left;
        let short = self.read + bytes.len() == self.short.len();
        let event = match self.head[0] {
            kind::CHANGE_CIPHER_SPEC if whole => Some(TlsEvent::ChangeCipherSpec),
            kind::ALERT if whole => {
                let what = (short && !self.encrypted).then_some((self.short[0], self.short[1]));
                Some(TlsEvent::Alert(self.begun.0, what))
            }
            kind::HANDSHAKE if whole => Some(TlsEvent::EncryptedMessage(Some(ts))),
            _ => None,
        };
        self.pass(left, bytes.len());
        (bytes.len(), event)
    }

    /// Advances over bytes of the record.
    fn pass(&mut self, left: usize, n: usize) {
        self.read += n;
        self.state = if n == left {
            TlsRecordState::Head(0)
        } else {
            TlsRecordState::Body(left - n)
        };
    }
}
