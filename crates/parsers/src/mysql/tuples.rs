//! Writes one tuple: a request, the captured part of its response, and the connection's state.

use tuple::{FieldId, TupleWriter};

use super::columns::{
    AFFECTED_ROWS, COMMAND, DATABASE, ENCODING, ERROR_CODE, FINGERPRINT, QUERY, REQUEST_BYTES,
    RESPONSE_BYTES, RESPONSE_TIME, ROWS, SUMMARY, TOTAL_TIME, TRANSFER_TIME, USER,
};
use super::command::{self, MysqlRequestKind};
use super::response::{MysqlResponse, UNREAD_ERROR};
use super::transaction::MysqlRequest;
use crate::pairing::MessageCompleteness;
use crate::sql::SqlDialect;
use crate::sql::summary::summary;

/// Other columns of the tuple.
pub struct MysqlTupleContext<'a> {
    /// Text of the statement.
    pub query: Option<&'a [u8]>,
    /// Fingerprint of the statement.
    pub fingerprint: Option<&'a [u8]>,
    /// User name.
    pub user: Option<&'a [u8]>,
    /// The default database.
    pub database: Option<&'a [u8]>,
    /// Encoding of the connection.
    pub encoding: Option<&'static str>,
}

/// Input of a tuple.
pub struct MysqlTupleSource<'a> {
    /// The request, if captured.
    pub request: Option<&'a MysqlRequest>,
    /// Kind of the request, if known.
    pub kind: MysqlRequestKind,
    /// The response, and whether its contents are complete.
    pub response: Option<(&'a MysqlResponse, bool)>,
}

/// Writes the columns specific to the parser.
pub fn write(w: &mut TupleWriter, tuple: &MysqlTupleSource<'_>, context: &MysqlTupleContext<'_>) {
    set_text(w, QUERY, context.query);
    set_text(w, FINGERPRINT, context.fingerprint);
    let is_name = tuple.kind == MysqlRequestKind::Command(command::INIT_DB);
    let statement = context.query.filter(|_| !is_name);
    if let Some(query) = statement.filter(|_| w.wants(SUMMARY)) {
        let mut text = Vec::new();
        summary(SqlDialect::MySql, query, &mut text);
        w.text(SUMMARY, &text);
    }
    set_text(w, COMMAND, tuple.kind.name().map(str::as_bytes));
    set_text(w, DATABASE, context.database);
    set_text(w, USER, context.user);
    set_text(w, ENCODING, context.encoding.map(str::as_bytes));
    if let Some(request) = tuple.request.filter(|r| r.seen != MessageCompleteness::Cut) {
        w.u64(REQUEST_BYTES, request.wire_bytes);
    }
    let Some((response, over)) = tuple.response else {
        return;
    };
    if over {
        write_outcome(w, response);
    }
    if let Some(time) = tuple
        .request
        .and_then(|request| response_time(request, response))
        .filter(|t| *t >= 0)
    {
        w.i64(RESPONSE_TIME, time);
    }
    if let Some(span) = response.span.filter(|_| over && !response.open_end) {
        w.i64(TRANSFER_TIME, span.last.since(span.first));
        let asked = tuple.request.filter(|request| request.seen.has_end());
        let total = asked.map(|request| span.last.since(request.span.last));
        if let Some(time) = total.filter(|time| *time >= 0) {
            w.i64(TOTAL_TIME, time);
        }
    }
}

/// Time from the request's last byte to the response's first, if both were captured.
pub fn response_time(request: &MysqlRequest, response: &MysqlResponse) -> Option<i64> {
    Some(
        response
            .span
            .filter(|_| request.seen.has_end())?
            .first
            .since(request.span.last),
    )
}

#[inline]
fn set_text(w: &mut TupleWriter, field: FieldId, value: Option<&[u8]>) {
    if let Some(value) = value.filter(|_| w.wants(field)) {
        w.text(field, value);
    }
}

fn write_outcome(w: &mut TupleWriter, response: &MysqlResponse) {
    let outcome = &response.outcome;
    let error = outcome.error.filter(|code| *code != UNREAD_ERROR);
    for (field, value) in [
        (ROWS, outcome.rows),
        (AFFECTED_ROWS, outcome.affected_rows),
        (ERROR_CODE, error),
    ] {
        value.into_iter().for_each(|v| w.u64(field, v));
    }
    if !response.holed {
        w.u64(RESPONSE_BYTES, response.wire_bytes);
    }
}
