//! A cycle's response: results of statements, up to ReadyForQuery.

use std::ops::Range;

use wire::{TcpSeq, Timestamp};

use super::cycle::{PostgresRequest, PostgresRequestKind};
use super::framing::PostgresMessage;
use super::messages::{TagRows, error_field, tag_rows};
use crate::MessageSpan;
use crate::pairing::{RequestMatcher, ResponseMatch};

/// Maximum results of a cycle that are held.
pub const RESULTS_MAX: usize = 1 << 16;
/// Maximum bytes of an error message.
const MESSAGE_MAX: usize = 1024;
const KEPT_RESULTS: usize = 256;
/// Code of an ErrorResponse without one, or of which it was not captured.
const UNKNOWN_ERROR: [u8; 5] = *b"?    ";

/// End of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgresResultEnd {
    /// CommandComplete, or the response to a FunctionCall.
    Complete,
    /// EmptyQueryResponse.
    Empty,
    /// PortalSuspended.
    Suspended,
    /// ErrorResponse.
    Error,
}

/// Data that a statement copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgresCopy {
    /// From the client.
    In,
    /// To the client.
    Out,
    /// In both directions: replication.
    Both,
}

/// An error of the server.
#[derive(Clone, Debug)]
pub struct PostgresError {
    /// SQLSTATE.
    pub code: [u8; 5],
    /// Severity and message, in the response's texts, if captured.
    pub severity: Option<Range<u32>>,
    pub message: Option<Range<u32>>,
}

/// The result of one statement, or an error of another step.
#[derive(Clone, Debug)]
pub struct PostgresResult {
    /// Number of the step in its cycle; of the statement in a Query.
    pub step: u32,
    pub end: PostgresResultEnd,
    /// Arrival of its first and last byte.
    pub span: MessageSpan,
    /// Rows seen, if it has rows.
    pub rows: Option<u64>,
    pub tag: TagRows,
    pub copy: Option<PostgresCopy>,
    pub wire_bytes: u64,
    pub error: Option<PostgresError>,
}

/// Progress of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgresProgress {
    /// More messages follow.
    More,
    /// The result is complete.
    Done,
    /// Nothing that can be read follows.
    Endless,
    /// The message cannot occur here.
    Malformed,
}

/// The response of a cycle.
#[derive(Debug)]
pub struct PostgresResponse {
    /// Kind of its request.
    pub of: PostgresRequestKind,
    /// Type of its first message.
    pub first_kind: u8,
    pub span: MessageSpan,
    pub wire_bytes: u64,
    /// Results that have no tuple yet.
    pub results: Vec<PostgresResult>,
    pub texts: Vec<u8>,
    /// Steps completed.
    pub steps_done: u32,
    /// State of the transaction at the end.
    pub transaction: Option<u8>,
    pub holed: bool,
    pub open_end: bool,
    /// Position behind its last byte.
    pub end: TcpSeq,
    /// The result in progress.
    first: Option<Timestamp>,
    rows: Option<u64>,
    copy: Option<PostgresCopy>,
    counted_bytes: u64,
}

impl Default for PostgresResponse {
    fn default() -> Self {
        PostgresResponse {
            of: PostgresRequestKind::Unseen,
            first_kind: 0,
            span: MessageSpan::at(Timestamp::MIN),
            wire_bytes: 0,
            results: Vec::new(),
            texts: Vec::new(),
            steps_done: 0,
            transaction: None,
            holed: false,
            open_end: false,
            end: TcpSeq::default(),
            first: None,
            rows: None,
            copy: None,
            counted_bytes: 0,
        }
    }
}

impl PostgresResponse {
    /// Replaces the contents by a response to a request of kind `of` that begins with `m`.
    pub fn restart(&mut self, of: PostgresRequestKind, m: &PostgresMessage<'_>) {
        let mut results = std::mem::take(&mut self.results);
        let mut texts = std::mem::take(&mut self.texts);
        results.clear();
        texts.clear();
        *self = PostgresResponse {
            of,
            first_kind: m.kind,
            span: m.span,
            results,
            texts,
            ..PostgresResponse::default()
        };
    }

    /// Frees memory that a long response took.
    pub fn shrink(&mut self) {
        if self.results.capacity() > KEPT_RESULTS {
            self.results = Vec::new();
        }
        if self.texts.capacity() > KEPT_RESULTS * 64 {
            self.texts = Vec::new();
        }
    }

    /// Adds rows that were skipped.
    pub fn add_rows(&mut self, n: u64, wire_bytes: u64, ts: Timestamp) {
        self.span.extend(ts);
        self.wire_bytes += wire_bytes;
        self.first.get_or_insert(ts);
        *self.rows.get_or_insert(0) += n;
    }

    /// Adds the length of a message.
    pub fn add_bytes(&mut self, m: &PostgresMessage<'_>) {
        self.span.extend(m.span.last);
        self.wire_bytes += u64::from(m.wire_len);
        self.holed |= m.holed;
        self.open_end = m.open_end;
        self.end = m.end();
    }

    /// Handles its next message.
    pub fn on_message(&mut self, m: &PostgresMessage<'_>) -> PostgresProgress {
        self.add_bytes(m);
        let is_extended = self.of == PostgresRequestKind::Extended;
        match m.kind {
            b'D' => self.begin_rows(m, 1),
            b'd' => self.begin_rows(m, u64::from(self.copy == Some(PostgresCopy::Out))),
            // Of Describe: a step. Of a Query: the start of a result.
            b'T' if is_extended => self.steps_done += 1,
            b'T' => self.begin_rows(m, 0),
            b'1' | b'2' | b'3' | b'n' => self.steps_done += 1,
            // A refused login is answered from the request for a password on.
            b'R' | b'v' => {
                self.first.get_or_insert(m.span.first);
            }
            b't' | b'c' => {}
            b'C' => {
                let tag = tag_rows(m.head);
                self.end_result(PostgresResultEnd::Complete, m, tag, None);
            }
            b'V' => self.end_result(PostgresResultEnd::Complete, m, TagRows::default(), None),
            b'I' => self.end_result(PostgresResultEnd::Empty, m, TagRows::default(), None),
            b's' => self.end_result(PostgresResultEnd::Suspended, m, TagRows::default(), None),
            b'G' => self.begin_copy(m, PostgresCopy::In),
            b'H' => self.begin_copy(m, PostgresCopy::Out),
            b'W' => {
                self.begin_copy(m, PostgresCopy::Both);
                self.end_result(PostgresResultEnd::Complete, m, TagRows::default(), None);
                return PostgresProgress::Endless;
            }
            b'E' => {
                let error = self.error(m.head);
                self.end_result(PostgresResultEnd::Error, m, TagRows::default(), Some(error));
                if self.of == PostgresRequestKind::Login {
                    return PostgresProgress::Done;
                }
            }
            b'Z' => {
                self.transaction = m.head.first().copied();
                if let Some(last) = self.results.last_mut() {
                    last.wire_bytes += self.wire_bytes - self.counted_bytes;
                }
                return PostgresProgress::Done;
            }
            _ => return PostgresProgress::Malformed,
        }
        PostgresProgress::More
    }

    /// Whether messages of type `kind` can be skipped and counted as rows.
    pub fn counts_rows(&self) -> bool {
        self.rows.is_some()
    }

    fn begin_rows(&mut self, m: &PostgresMessage<'_>, n: u64) {
        self.first.get_or_insert(m.span.first);
        *self.rows.get_or_insert(0) += n;
    }

    fn begin_copy(&mut self, m: &PostgresMessage<'_>, copy: PostgresCopy) {
        self.first.get_or_insert(m.span.first);
        self.copy = Some(copy);
    }

    fn end_result(
        &mut self,
        end: PostgresResultEnd,
        m: &PostgresMessage<'_>,
        tag: TagRows,
        error: Option<PostgresError>,
    ) {
        let first = self.first.take().unwrap_or(m.span.first);
        let copy = self.copy.take();
        let rows = self.rows.take().filter(|_| copy.is_none());
        let result = PostgresResult {
            step: self.steps_done,
            end,
            span: MessageSpan {
                first,
                last: m.span.last.max(first),
            },
            rows,
            tag,
            copy,
            wire_bytes: self.wire_bytes - self.counted_bytes,
            error,
        };
        self.counted_bytes = self.wire_bytes;
        self.steps_done += 1;
        if self.results.len() < RESULTS_MAX {
            self.results.push(result);
        }
    }

    fn error(&mut self, body: &[u8]) -> PostgresError {
        let code = error_field(body, b'C').and_then(|code| code.first_chunk().copied());
        let severity = error_field(body, b'V').or_else(|| error_field(body, b'S'));
        let message = error_field(body, b'M');
        PostgresError {
            code: code.unwrap_or(UNKNOWN_ERROR),
            severity: severity.map(|text| self.keep(text)),
            message: message.map(|text| self.keep(text)),
        }
    }

    fn keep(&mut self, text: &[u8]) -> Range<u32> {
        let start = self.texts.len() as u32;
        self.texts
            .extend_from_slice(&text[..text.len().min(MESSAGE_MAX)]);
        start..self.texts.len() as u32
    }

    /// A text of an error.
    pub fn text(&self, range: &Option<Range<u32>>) -> Option<&[u8]> {
        let range = range.as_ref()?;
        self.texts.get(range.start as usize..range.end as usize)
    }
}

impl RequestMatcher<PostgresRequest> for PostgresResponse {
    fn fit(&self, request: &PostgresRequest) -> ResponseMatch {
        if request.can_begin(self.first_kind) {
            ResponseMatch::Maybe
        } else {
            ResponseMatch::No
        }
    }
}
