//! Writes one tuple: a statement or another request, its result, and the connection's state.

use tuple::{FieldId, TupleWriter};
use wire::Timestamp;

use super::columns::{
    AFFECTED_ROWS, APPLICATION_NAME, BACKEND_PID, BATCH_SIZE, COMMAND, COPIED_BYTES, COPY,
    DATABASE, ENCODING, ERROR_CODE, ERROR_MESSAGE, FINGERPRINT, PORTAL, QUERY, QUEUED,
    REQUEST_BYTES, RESPONSE_BYTES, RESPONSE_TIME, RETURNED_ROWS, SERVICE_TIME, SEVERITY, SKIPPED,
    STATEMENT_NAME, SUMMARY, SUSPENDED, TOTAL_TIME, TRANSACTION, TRANSFER_TIME, USER,
};
use super::messages::parameter;
use super::response::{PostgresCopy, PostgresResponse, PostgresResult, PostgresResultEnd};
use super::statements::DIALECT;
use crate::MessageSpan;
use crate::sql::summary::summary;

/// The connection, as far as its start was captured.
#[derive(Clone, Copy, Debug, Default)]
pub struct PostgresAccount<'a> {
    /// Parameters of the StartupMessage.
    pub parameters: Option<&'a [u8]>,
    /// Process that serves it.
    pub backend_pid: Option<u32>,
}

/// The captured part of a response.
#[derive(Clone, Copy, Debug)]
pub enum PostgresOutcome<'a> {
    /// Nothing, or nothing that could be attributed.
    None,
    /// Arrival of the first byte; the rest is missing.
    Begun(Timestamp),
    /// A statement's result.
    Result(&'a PostgresResult, &'a PostgresResponse),
    /// A response without results.
    Whole(&'a PostgresResponse),
    /// The server discarded the statement.
    Skipped,
}

impl PostgresOutcome<'_> {
    /// Arrival of its first byte, and of its last one if captured.
    pub fn times(&self) -> Option<(Timestamp, Option<Timestamp>)> {
        let of = |span: MessageSpan| (span.first, Some(span.last));
        match self {
            PostgresOutcome::None | PostgresOutcome::Skipped => None,
            PostgresOutcome::Begun(first) => Some((*first, None)),
            PostgresOutcome::Result(result, _) => Some(of(result.span)),
            PostgresOutcome::Whole(response) if response.open_end => {
                Some((response.span.first, None))
            }
            PostgresOutcome::Whole(response) => Some(of(response.span)),
        }
    }
}

/// Input of a tuple.
#[derive(Clone, Copy, Debug)]
pub struct PostgresTuple<'a> {
    pub command: Option<&'static str>,
    pub query: Option<&'a [u8]>,
    pub fingerprint: Option<&'a [u8]>,
    pub statement_name: Option<&'a [u8]>,
    pub portal: Option<&'a [u8]>,
    pub batch_size: Option<u32>,
    pub encoding: Option<&'static str>,
    pub transaction: Option<u8>,
    /// Arrival of the last byte of Query or Execute, if captured.
    pub sent: Option<Timestamp>,
    pub request_bytes: Option<u64>,
    pub copied_bytes: Option<u64>,
    /// The last byte of the result before it, if known.
    pub previous_end: Option<Timestamp>,
    pub outcome: PostgresOutcome<'a>,
    pub account: PostgresAccount<'a>,
}

impl PostgresTuple<'_> {
    /// Time from the last byte of the request to the first byte of the response, if both were captured; negative if the clock
    /// or the order contradicts.
    pub fn response_time(&self) -> Option<i64> {
        Some(self.outcome.times()?.0.since(self.sent?))
    }

    /// Writes the columns specific to the parser.
    pub fn write(&self, w: &mut TupleWriter) {
        set_text(w, QUERY, self.query);
        set_text(w, FINGERPRINT, self.fingerprint);
        if let Some(query) = self.query.filter(|_| w.wants(SUMMARY)) {
            let mut text = Vec::new();
            summary(DIALECT, query, &mut text);
            w.text(SUMMARY, &text);
        }
        set_text(w, COMMAND, self.command.map(str::as_bytes));
        set_text(
            w,
            STATEMENT_NAME,
            self.statement_name.filter(|name| !name.is_empty()),
        );
        set_text(w, PORTAL, self.portal.filter(|name| !name.is_empty()));
        set_text(w, ENCODING, self.encoding.map(str::as_bytes));
        self.write_account(w);
        for (field, value) in [
            (
                BATCH_SIZE,
                self.batch_size.filter(|n| *n > 1).map(u64::from),
            ),
            (REQUEST_BYTES, self.request_bytes),
            (COPIED_BYTES, self.copied_bytes),
        ] {
            value.into_iter().for_each(|value| w.u64(field, value));
        }
        let transaction = match self.transaction {
            Some(b'I') => Some(&b"idle"[..]),
            Some(b'T') => Some(&b"open"[..]),
            Some(b'E') => Some(&b"failed"[..]),
            _ => None,
        };
        set_text(w, TRANSACTION, transaction);
        self.write_outcome(w);
        self.write_times(w);
    }

    fn write_account(&self, w: &mut TupleWriter) {
        let PostgresAccount {
            parameters,
            backend_pid,
        } = self.account;
        if let Some(pid) = backend_pid {
            w.u64(BACKEND_PID, pid.into());
        }
        let Some(parameters) = parameters else {
            return;
        };
        let user = parameter(parameters, b"user");
        // Without a name, the database is that of the user's name.
        let is_whole = parameters.ends_with(b"\0\0");
        let database = parameter(parameters, b"database").or(user.filter(|_| is_whole));
        set_text(w, USER, user);
        set_text(w, DATABASE, database);
        let name = parameter(parameters, b"application_name");
        set_text(w, APPLICATION_NAME, name.filter(|name| !name.is_empty()));
    }

    fn write_outcome(&self, w: &mut TupleWriter) {
        match self.outcome {
            PostgresOutcome::None | PostgresOutcome::Begun(_) => {}
            PostgresOutcome::Skipped => w.bool(SKIPPED, true),
            PostgresOutcome::Whole(response) => {
                if !response.holed {
                    w.u64(RESPONSE_BYTES, response.wire_bytes);
                }
            }
            PostgresOutcome::Result(result, response) => {
                let returned = result.tag.returned.or(result.rows);
                for (field, value) in [
                    (RETURNED_ROWS, returned),
                    (AFFECTED_ROWS, result.tag.affected),
                    (
                        RESPONSE_BYTES,
                        Some(result.wire_bytes).filter(|_| !response.holed),
                    ),
                ] {
                    value.into_iter().for_each(|value| w.u64(field, value));
                }
                let copy = result.copy.map(|copy| match copy {
                    PostgresCopy::In => &b"in"[..],
                    PostgresCopy::Out => b"out",
                    PostgresCopy::Both => b"both",
                });
                set_text(w, COPY, copy);
                if result.end == PostgresResultEnd::Suspended {
                    w.bool(SUSPENDED, true);
                }
                if let Some(error) = &result.error {
                    w.text(ERROR_CODE, error.code.trim_ascii_end());
                    set_text(w, SEVERITY, response.text(&error.severity));
                    set_text(w, ERROR_MESSAGE, response.text(&error.message));
                }
            }
        }
    }

    fn write_times(&self, w: &mut TupleWriter) {
        let Some((first, last)) = self.outcome.times() else {
            return;
        };
        if let Some(last) = last {
            w.i64(TRANSFER_TIME, last.since(first));
            let total = self.sent.map(|sent| last.since(sent));
            if let Some(total) = total.filter(|time| *time >= 0) {
                w.i64(TOTAL_TIME, total);
            }
        }
        if let Some(time) = self.response_time().filter(|time| *time >= 0) {
            w.i64(RESPONSE_TIME, time);
            // A later one is that of another statement.
            let previous_end = self.previous_end.filter(|end| *end <= first);
            if let Some((sent, previous_end)) = self.sent.zip(previous_end) {
                let queued = previous_end.since(sent).clamp(0, time);
                w.i64(QUEUED, queued);
                w.i64(SERVICE_TIME, time - queued);
            }
        }
    }
}

#[inline]
fn set_text(w: &mut TupleWriter, field: FieldId, value: Option<&[u8]>) {
    if let Some(value) = value.filter(|_| w.wants(field)) {
        w.text(field, value);
    }
}
