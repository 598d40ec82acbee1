//! Writes the fields of a request with its response, or of an event.

use tuple::TupleWriter;

use super::codes::{self, BATCH, EVENT, PREPARE};
use super::columns;
use super::digest::{CqlDigestView, CqlNumber, CqlText};
use super::target::{StatementTarget, target};
use crate::sql::SqlDialect;
use crate::sql::fingerprint::fingerprint_in;
use crate::sql::summary::{SUMMARY_MAX, summary};

/// Names of compression algorithms, as numbered in digests.
const ALGORITHMS: [&str; 2] = ["lz4", "snappy"];

/// Writes a tuple.
pub fn write(
    request: Option<CqlDigestView<'_>>,
    response: Option<CqlDigestView<'_>>,
    w: &mut TupleWriter,
) {
    let messages = || [request, response].into_iter().flatten();
    let first = |of: CqlNumber| messages().find_map(|message| message.number(of));
    if let Some(header) = messages().find_map(CqlDigestView::header) {
        w.i64(columns::STREAM, header.stream.into());
        w.u64(columns::VERSION, header.version.into());
    }
    if let Some(name) = first(CqlNumber::Compression).and_then(|of| ALGORITHMS.get(of as usize)) {
        w.text(columns::COMPRESSION, name.as_bytes());
    }
    let asked = request.map_or_else(StatementTarget::default, |request| {
        write_request(request, w)
    });
    if let Some(response) = response {
        write_response(response, w);
    }
    let answered = |of| response.and_then(|response| response.text(of));
    let known = |of| request.and_then(|request| request.text(of));
    let keyspace = answered(CqlText::Keyspace)
        .or(asked.keyspace.as_deref())
        .or(known(CqlText::Keyspace));
    if let Some(keyspace) = keyspace {
        w.text(columns::KEYSPACE, keyspace);
    }
    let table = answered(CqlText::Table)
        .or(known(CqlText::Table))
        .or(asked.table.as_deref());
    if let Some(table) = table {
        w.text(columns::TABLE, table);
    }
}

/// Writes the fields of a request; returns the target of its statement.
fn write_request(request: CqlDigestView<'_>, w: &mut TupleWriter) -> StatementTarget {
    let number = |of: CqlNumber| request.number(of);
    let opcode = request.header().map_or(0, |header| header.opcode);
    if let Some(command) = codes::command(opcode) {
        w.text(columns::COMMAND, command.as_bytes());
    }
    let level = |of: CqlNumber| {
        let level = u16::try_from(number(of)?).ok()?;
        codes::consistency(level)
    };
    if let Some(level) = level(CqlNumber::Consistency) {
        w.text(columns::CONSISTENCY, level.as_bytes());
    }
    if let Some(level) = level(CqlNumber::SerialConsistency) {
        w.text(columns::SERIAL_CONSISTENCY, level.as_bytes());
    }
    if let Some(size) = number(CqlNumber::PageSize) {
        w.u64(columns::PAGE_SIZE, size);
    }
    if number(CqlNumber::Continues).is_some() {
        w.bool(columns::CONTINUES, true);
    }
    let statements = number(CqlNumber::Statements);
    if let Some(statements) = statements {
        w.u64(columns::STATEMENTS, statements);
        w.text(columns::OPERATION, b"BATCH");
    }
    if let Some(kind) = number(CqlNumber::BatchType).and_then(|kind| codes::batch(kind as u8)) {
        w.text(columns::BATCH_TYPE, kind.as_bytes());
    }
    let Some(statement) = request.text(CqlText::Statement) else {
        return StatementTarget::default();
    };
    write_statement(statement, opcode, w)
}

fn write_statement(statement: &[u8], opcode: u8, w: &mut TupleWriter) -> StatementTarget {
    if w.wants(columns::QUERY) {
        w.text(columns::QUERY, statement);
    }
    let mut text = Vec::new();
    if w.wants(columns::FINGERPRINT) {
        fingerprint_in(SqlDialect::Cql, statement, &mut text);
        w.text(columns::FINGERPRINT, &text);
    }
    if w.wants(columns::SUMMARY) {
        text.clear();
        if opcode == BATCH {
            text.extend_from_slice(b"BATCH ");
        }
        summary(SqlDialect::Cql, statement, &mut text);
        text.truncate(SUMMARY_MAX);
        w.text(columns::SUMMARY, &text);
    }
    let named = target(statement);
    match opcode {
        BATCH => {}
        PREPARE => w.text(columns::OPERATION, b"PREPARE"),
        _ => w.text(columns::OPERATION, &named.operation),
    }
    named
}

fn write_response(response: CqlDigestView<'_>, w: &mut TupleWriter) {
    let number = |of: CqlNumber| response.number(of);
    let opcode = response.header().map_or(0, |header| header.opcode);
    if opcode == EVENT {
        w.text(columns::COMMAND, b"event");
    } else {
        let kind = number(CqlNumber::Kind).and_then(|kind| u32::try_from(kind).ok());
        if let Some(name) = codes::result(opcode, kind) {
            w.text(columns::RESULT, name.as_bytes());
        }
        w.bool(columns::OK, opcode != codes::ERROR);
    }
    if let Some(rows) = number(CqlNumber::Rows) {
        w.u64(columns::RETURNED_ROWS, rows);
    }
    if let Some(more) = number(CqlNumber::MorePages) {
        w.bool(columns::MORE_PAGES, more != 0);
    }
    if opcode == codes::ERROR {
        write_error(number(CqlNumber::ErrorCode), w);
    }
    for (field, of) in [
        (columns::RECEIVED, CqlNumber::Received),
        (columns::REQUIRED, CqlNumber::Required),
    ] {
        if let Some(replicas) = number(of) {
            w.u64(field, replicas);
        }
    }
    for (field, of) in [
        (columns::ERROR_MESSAGE, CqlText::Message),
        (columns::WARNINGS, CqlText::Warnings),
        (columns::EVENT, CqlText::Event),
    ] {
        if let Some(text) = response.text(of) {
            w.text(field, text);
        }
    }
    if let Some(id) = response.text(CqlText::Tracing) {
        w.text(columns::TRACING_ID, uuid(id).as_bytes());
    }
}

fn write_error(code: Option<u64>, w: &mut TupleWriter) {
    let Some(code) = code else {
        return w.text(columns::ERROR, b"?");
    };
    w.u64(columns::ERROR_CODE, code);
    match u32::try_from(code).ok().and_then(codes::error) {
        Some(name) => w.text(columns::ERROR, name.as_bytes()),
        None => w.text(columns::ERROR, code.to_string().as_bytes()),
    }
}

/// The text of a UUID.
fn uuid(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&place) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
