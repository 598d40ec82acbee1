//! State of a connection: compression, keyspace, outstanding requests by stream, and the messages in progress.

use std::sync::Arc;

use hashbrown::HashMap;

use super::codes::{EVENT, PREPARE, PREPARED, RESULT, SET_KEYSPACE, STARTUP};
use super::compression::{self, CqlCompression};
use super::digest::{CqlDigest, CqlNumber, CqlText};
use super::header::{COMPRESSED, EnvelopeHeader, HEADER};
use super::target::target;
use super::{request, response};
use crate::Direction;
use crate::prepared_texts::{PreparedText, PreparedTexts};

/// Maximum memory of the texts of outstanding PREPAREs, in bytes; those beyond it are not learned.
const PREPARING_BYTES_MAX: usize = 1 << 20;
/// Maximum number of streams whose use is recorded.
const STREAMS_MAX: usize = 4096;

/// A connection.
#[derive(Default)]
pub struct CqlConnection {
    pub client: CqlMessageReading,
    pub server: CqlMessageReading,
    /// From STARTUP, or found by decompression.
    pub compression: Option<CqlCompression>,
    /// Whether frames are compressed (version 5).
    pub has_compressed_frames: bool,
    /// From USE.
    keyspace: Option<Box<[u8]>>,
    outstanding: HashMap<i16, OutstandingStream>,
    preparing_bytes: usize,
}

/// The use of a stream.
#[derive(Default)]
struct OutstandingStream {
    /// The statement to prepare, if the response is certain to be the one to it.
    preparing: Option<Box<PreparedText>>,
}

/// A message in progress.
#[derive(Default)]
pub struct CqlMessageReading {
    pub digest: CqlDigest,
    pub contents: MessageContents,
}

/// How much of a message was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageContents {
    #[default]
    Whole,
    /// It is longer than what is held of it.
    Limited,
    /// It contradicts its layout, or its compression or its prepared statement is not known.
    Unknown,
}

impl CqlConnection {
    /// Whether a request on this stream has no response yet.
    pub fn is_outstanding(&self, stream: i16) -> bool {
        self.outstanding.contains_key(&stream)
    }

    /// Reads the head of a message.
    pub fn read_message(
        &mut self,
        direction: Direction,
        head: &[u8],
        statements: Option<&PreparedTexts>,
    ) {
        let (Some(header), Some(bytes)) = (EnvelopeHeader::read(head), head.first_chunk()) else {
            return;
        };
        let mut reading = std::mem::take(match direction {
            Direction::ClientToServer => &mut self.client,
            Direction::ServerToClient => &mut self.server,
        });
        let digest = &mut reading.digest;
        digest.begin(bytes);
        let here = &head[HEADER..];
        let is_cut = here.len() < header.length as usize;
        let mut inner = None;
        let body = if header.flags & COMPRESSED == 0 || header.opcode == STARTUP {
            Some((here, is_cut))
        } else {
            inner = compression::body(self.compression, here, usize::MAX);
            inner
                .as_ref()
                .map(|inner| (&inner.bytes[..], !inner.is_whole))
        };
        if let Some(inner) = &inner {
            self.compression = Some(inner.algorithm);
        }
        if let Some(algorithm) = self
            .compression
            .filter(|_| inner.is_some() || self.has_compressed_frames)
        {
            digest.set(CqlNumber::Compression, algorithm as u8);
        }
        reading.contents = match body {
            None => MessageContents::Unknown,
            Some((body, is_cut)) => {
                let (is_whole, is_limited) = match direction {
                    Direction::ClientToServer => {
                        self.read_request(header, body, digest, statements)
                    }
                    Direction::ServerToClient => {
                        (self.read_response(header, body, digest, statements), false)
                    }
                };
                match (is_whole, is_cut || is_limited) {
                    (true, _) if !is_limited => MessageContents::Whole,
                    (_, true) => MessageContents::Limited,
                    _ => MessageContents::Unknown,
                }
            }
        };
        match direction {
            Direction::ClientToServer => self.client = reading,
            Direction::ServerToClient => self.server = reading,
        }
    }

    fn read_request(
        &mut self,
        header: EnvelopeHeader,
        body: &[u8],
        digest: &mut CqlDigest,
        statements: Option<&PreparedTexts>,
    ) -> (bool, bool) {
        let facts = request::read(header, body, digest);
        if header.opcode == STARTUP {
            self.compression = facts.compression.and_then(CqlCompression::of);
        }
        let known = facts
            .prepared
            .and_then(|id| statements.and_then(|statements| statements.find(id)));
        if let Some(known) = &known {
            state_prepared(known, digest);
        } else if digest.text(CqlText::Statement).is_some()
            && digest.text(CqlText::Keyspace).is_none()
            && let Some(keyspace) = &self.keyspace
        {
            digest.set_text(CqlText::Keyspace, keyspace);
        }
        let is_complete = facts.is_whole && !facts.is_limited;
        self.begin_stream(header, digest, is_complete);
        let is_resolved = facts.prepared.is_none() || known.is_some();
        (facts.is_whole && is_resolved, facts.is_limited)
    }

    /// Records the use of a stream. A response to an earlier use may still come: what it prepares is not learned.
    fn begin_stream(&mut self, header: EnvelopeHeader, digest: &CqlDigest, is_whole: bool) {
        let statement = digest.text(CqlText::Statement).unwrap_or_default();
        let is_new = !self.is_outstanding(header.stream);
        let is_learned = is_new
            && header.opcode == PREPARE
            && is_whole
            && self.outstanding.len() < STREAMS_MAX
            && self.preparing_bytes + statement.len() <= PREPARING_BYTES_MAX;
        let preparing = is_learned.then(|| {
            self.preparing_bytes += statement.len();
            Box::new(PreparedText {
                text: statement.into(),
                keyspace: digest.text(CqlText::Keyspace).map(Into::into),
                table: None,
            })
        });
        self.end_stream(header.stream);
        if self.outstanding.len() < STREAMS_MAX {
            self.outstanding
                .insert(header.stream, OutstandingStream { preparing });
        }
    }

    fn end_stream(&mut self, stream: i16) -> Option<Box<PreparedText>> {
        let preparing = self.outstanding.remove(&stream)?.preparing?;
        self.preparing_bytes -= preparing.text.len();
        Some(preparing)
    }

    fn read_response(
        &mut self,
        header: EnvelopeHeader,
        body: &[u8],
        digest: &mut CqlDigest,
        statements: Option<&PreparedTexts>,
    ) -> bool {
        let facts = response::read(header, body, digest);
        if header.opcode == EVENT {
            return facts.is_whole;
        }
        let preparing = self.end_stream(header.stream);
        let kind = digest.number(CqlNumber::Kind);
        match (
            header.opcode,
            kind.and_then(|kind| u32::try_from(kind).ok()),
        ) {
            (RESULT, Some(SET_KEYSPACE)) => {
                self.keyspace = digest.text(CqlText::Keyspace).map(Into::into);
            }
            (RESULT, Some(PREPARED)) => {
                if let (Some(mut statement), Some(id), Some(statements)) =
                    (preparing, facts.prepared, statements)
                {
                    let of = |text| digest.text(text).map(Into::into);
                    let named = target(&statement.text);
                    statement.keyspace = of(CqlText::Keyspace)
                        .or(named.keyspace.map(Into::into))
                        .or(statement.keyspace);
                    statement.table = of(CqlText::Table).or(named.table.map(Into::into));
                    statements.learn(id, *statement);
                }
            }
            _ => {}
        }
        facts.is_whole
    }

    /// Messages of a direction may be missing: a keyspace may have been changed, and streams may have been used again.
    pub fn forget(&mut self, direction: Direction) {
        self.keyspace = None;
        if direction == Direction::ClientToServer {
            for stream in self.outstanding.values_mut() {
                stream.preparing = None;
            }
            self.preparing_bytes = 0;
        }
    }
}

fn state_prepared(known: &Arc<PreparedText>, digest: &mut CqlDigest) {
    digest.set_text(CqlText::Statement, &known.text);
    if let Some(keyspace) = &known.keyspace {
        digest.set_text(CqlText::Keyspace, keyspace);
    }
    if let Some(table) = &known.table {
        digest.set_text(CqlText::Table, table);
    }
}
