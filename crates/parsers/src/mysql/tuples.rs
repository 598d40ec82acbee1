//! Writes one tuple: a request, its response as far as it was seen, and the connection's state.

use tuple::{FieldId, TupleWriter};

use super::request::Request;
use super::response::{Response, UNREAD_ERROR};
use super::{
    AFFECTED_ROWS, COMMAND, DATABASE, ENCODING, ERROR_CODE, FINGERPRINT, QUERY, REQUEST_BYTES,
    RESPONSE_BYTES, RESPONSE_TIME, ROWS, TRANSFER_TIME, USER,
};
use crate::Span;

/// What the tuple shows besides.
pub struct Context<'a> {
    /// The statement.
    pub query: Option<&'a [u8]>,
    /// Its fingerprint.
    pub fingerprint: Option<&'a [u8]>,
    /// Who is logged in.
    pub user: Option<&'a [u8]>,
    /// The default database.
    pub database: Option<&'a [u8]>,
    /// How the connection is wrapped.
    pub encoding: Option<&'static str>,
}

/// Sets the tuple's own fields; a response comes with whether it is over.
pub fn write(
    w: &mut TupleWriter,
    request: &Request,
    response: Option<(&Response, bool)>,
    context: &Context<'_>,
) {
    set_text(w, QUERY, context.query);
    set_text(w, FINGERPRINT, context.fingerprint);
    set_text(w, COMMAND, request.kind.name().map(str::as_bytes));
    set_text(w, DATABASE, context.database);
    set_text(w, USER, context.user);
    set_text(w, ENCODING, context.encoding.map(str::as_bytes));
    if request.is_seen() && request.packets.is_some() && request.complete {
        w.u64(REQUEST_BYTES, request.wire_bytes);
    }
    let Some((response, over)) = response else { return };
    if over {
        write_outcome(w, response);
    }
    if let Some(span) = response.span {
        write_times(w, request, span, over && !response.open_end);
    }
}

#[inline]
fn set_text(w: &mut TupleWriter, field: FieldId, value: Option<&[u8]>) {
    if let Some(value) = value.filter(|_| w.wants(field)) {
        w.text(field, value);
    }
}

fn write_outcome(w: &mut TupleWriter, response: &Response) {
    let outcome = &response.outcome;
    let error = outcome.error.filter(|code| *code != UNREAD_ERROR);
    for (field, value) in [(ROWS, outcome.rows), (AFFECTED_ROWS, outcome.affected_rows), (ERROR_CODE, error)]
    {
        value.into_iter().for_each(|v| w.u64(field, v));
    }
    if !response.holed {
        w.u64(RESPONSE_BYTES, response.wire_bytes);
    }
}

fn write_times(w: &mut TupleWriter, request: &Request, span: Span, ended: bool) {
    if request.is_seen() && !request.open_end {
        w.i64(RESPONSE_TIME, span.first.since(request.span.last));
    }
    if ended {
        w.i64(TRANSFER_TIME, span.last.since(span.first));
    }
}
