//! Writes transactions as tuples: one per requested key, one with a null key for a command without keys, and
//! one per returned key that was not requested.

use tuple::TupleWriter;
use wire::Timestamp;

use super::command::{Class, Command, Status};
use super::keys::Cursor;
use super::transaction::{KeyForm, Request, Response, Said};
use super::words::base64;
use super::{ALL, field};
use crate::pairing::Seen;
use crate::pairing::{Expects, Outcome, Transaction};
use crate::{Output, Quality};

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// A request with its response.
    Pair,
    /// Anything else.
    Other,
}

/// Fields common to the tuples of a transaction.
struct Row<'a> {
    /// Start time, and the time of the last byte.
    times: (Timestamp, Option<Timestamp>),
    quality: Quality,
    /// Whether `memcached_get` has the tuple, too.
    read: bool,
    command: Option<&'a [u8]>,
    key: Option<&'a [u8]>,
    key_form: KeyForm,
    value_bytes: Option<u64>,
    status: Status,
    response_time: Option<i64>,
    transfer_time: Option<i64>,
}

/// Writes the tuples of `transaction`; `midway`: a pair is marked as the first of a connection joined midway.
#[inline]
pub fn emit(transaction: &mut Transaction<Request, Response>, midway: bool, out: &mut Output<'_>) -> Written {
    let quality = quality(transaction, midway);
    let response_time = response_time(transaction).filter(|ns| *ns >= 0);
    let transfer_time = transfer_time(transaction);
    let (has_request, has_response) = (transaction.request().is_some(), transaction.response().is_some());
    let last = transaction.response().map_or(Timestamp::MIN, |response| response.last);
    let asked_last = transaction.request().map_or(Timestamp::MIN, |request| request.last);
    let times =
        (transaction.first(), transaction.complete_at(asked_last, last.max(transaction.response_first())));
    let told = (transaction.response_first(), Some(last.max(transaction.response_first())));
    let silent = transaction.outcome() == Outcome::Silent && transaction.request_ended();
    let (request, response) = transaction.parts_mut();
    let mut rest = 0;
    if has_response && !response.came.is_empty() {
        rest = emit_strays(has_request.then_some(&mut *request), response, told, transfer_time, out);
    }
    match (has_request, has_response) {
        (true, true) => {
            let status = response.status(request.class);
            let value_bytes = response.value_bytes.or(request.value_bytes);
            let row =
                Row { response_time, transfer_time, ..Row::of(request, times, quality, status, value_bytes) };
            emit_each_key(request, row, out);
            Written::Pair
        }
        // Not answered like an unknown command: a part of another message.
        (true, false) if request.command == Command::Other => {
            out.counters.malformed_messages += 1;
            Written::Other
        }
        (true, false) => {
            let hushed = silent && request.expects == Expects::Perhaps;
            let status = if hushed { request.command.silence() } else { Status::Unknown };
            emit_each_key(request, Row::of(request, times, quality, status, request.value_bytes), out);
            Written::Other
        }
        _ => {
            if rest == 0 {
                write(&Row::of_stray(response, None, told, transfer_time), out);
            }
            Written::Other
        }
    }
}

fn quality(transaction: &Transaction<Request, Response>, midway: bool) -> Quality {
    let Some(request) = transaction.request() else { return Quality::Half };
    let response = match transaction.response() {
        Some(response) => Some(response),
        None if transaction.outcome() == Outcome::Silent && transaction.request_ended() => None,
        None => return Quality::Half,
    };
    let is_whole = transaction.request_ended()
        && request.seen == Seen::Whole
        && response.is_none_or(|r| r.seen == Seen::Whole && transaction.response_ended());
    match () {
        () if midway && response.is_some() => Quality::Midstream,
        () if transaction.resynchronised() && response.is_some() => Quality::Resync,
        () if !is_whole => Quality::GapBody,
        () if response_time(transaction).is_some_and(|ns| ns < 0) => Quality::Untimed,
        () if transfer_time(transaction).is_some_and(|ns| ns < 0) => Quality::Untimed,
        () => Quality::Exact,
    }
}

/// Time from the last byte of the request to the first byte of the response, if both were seen. Negative if
/// the response began before the request was complete, or timestamps are wrong.
fn response_time(transaction: &Transaction<Request, Response>) -> Option<i64> {
    let (request, _) = transaction.request().zip(transaction.response())?;
    let seen = request.seen.has_end() && transaction.request_ended();
    seen.then(|| transaction.response_first().since(request.last))
}

/// Time from the first to the last byte of the response, if both were seen.
fn transfer_time(transaction: &Transaction<Request, Response>) -> Option<i64> {
    let response = transaction.response()?;
    let seen = response.seen.has_end() && transaction.response_ended();
    seen.then(|| response.last.since(transaction.response_first()))
}

impl<'a> Row<'a> {
    fn of(
        request: &'a Request,
        times: (Timestamp, Option<Timestamp>),
        quality: Quality,
        status: Status,
        value_bytes: Option<u64>,
    ) -> Row<'a> {
        Row {
            times,
            quality,
            read: request.command.is_read(),
            command: Some(request.name()),
            key: None,
            key_form: request.key_form,
            value_bytes,
            status,
            response_time: None,
            transfer_time: None,
        }
    }

    /// A row for a response without a request.
    fn of_stray(
        response: &Response,
        value: Option<(&'a [u8], Option<u64>)>,
        times: (Timestamp, Option<Timestamp>),
        transfer_time: Option<i64>,
    ) -> Row<'a> {
        let command = response.command();
        let status = match (response.said, value) {
            (Said::Text { .. }, Some(_)) => Status::Hit,
            _ => response.status(Class::Any),
        };
        Row {
            times,
            quality: Quality::Half,
            read: command.is_read() || matches!(status, Status::Hit | Status::Miss),
            command: command.name(),
            key: value.map(|(key, _)| key),
            key_form: KeyForm::Plain,
            value_bytes: value.map_or(response.value_bytes, |(_, bytes)| bytes),
            status,
            response_time: None,
            transfer_time,
        }
    }
}

/// Handles returned keys without a known request: assigns those of `request` to it and writes the others;
/// returns their number.
#[cold]
fn emit_strays(
    mut request: Option<&mut Request>,
    response: &Response,
    times: (Timestamp, Option<Timestamp>),
    transfer_time: Option<i64>,
    out: &mut Output<'_>,
) -> usize {
    let (mut written, mut cursor) = (0, Cursor::default());
    for (key, value_bytes) in response.came.iter() {
        let was_asked = request.as_mut().is_some_and(|request| match response.said {
            Said::Text { .. } => request.keys.came(key, value_bytes.unwrap_or(0), &mut cursor),
            // It repeats the request's key.
            _ => true,
        });
        if !was_asked {
            write(&Row::of_stray(response, Some((key, value_bytes)), times, transfer_time), out);
            written += 1;
        }
    }
    written
}

/// Writes one row per key of a request with the length of its value, if returned; one row without a key if
/// the command has none.
#[inline]
fn emit_each_key<'a>(request: &'a Request, mut row: Row<'a>, out: &mut Output<'_>) {
    if request.keys.is_empty() {
        return write(&row, out);
    }
    let (status, told) = (row.status, row.quality != Quality::Half && request.class == Class::Retrieval);
    for (key, value_bytes) in request.keys.iter() {
        row.key = Some(key);
        if told {
            row.value_bytes = value_bytes;
            row.status = if value_bytes.is_some() { Status::Hit } else { status };
        }
        write(&row, out);
    }
}

#[inline]
fn write(row: &Row<'_>, out: &mut Output<'_>) {
    out.emit(row.times, row.quality, |variant| variant == ALL || row.read, |w| fill(row, w));
}

#[inline]
fn fill(row: &Row<'_>, w: &mut TupleWriter) {
    if let Some(name) = row.command {
        w.text(field::COMMAND, name);
    }
    match row.key {
        Some(key) if row.key_form == KeyForm::Base64 => decode_key(key, w),
        Some(key) => w.text(field::CACHE_KEY, key),
        None => {}
    }
    match row.status {
        Status::Hit => w.bool(field::HIT, true),
        Status::Miss => w.bool(field::HIT, false),
        _ => {}
    }
    if let Some(bytes) = row.value_bytes {
        w.u64(field::VALUE_BYTES, bytes);
    }
    if w.wants(field::STATUS) {
        match (row.status, row.status.name()) {
            (Status::Unknown, _) => {}
            (Status::Binary(code), "") => w.text(field::STATUS, &hex(code)),
            (_, name) => w.text(field::STATUS, name.as_bytes()),
        }
    }
    if let Some(ns) = row.response_time {
        w.i64(field::RESPONSE_TIME, ns);
    }
    if let Some(ns) = row.transfer_time.filter(|ns| *ns >= 0) {
        w.i64(field::TRANSFER_TIME, ns);
    }
}

/// Writes the key decoded from Base64, or unchanged if it is not Base64.
#[cold]
fn decode_key(key: &[u8], w: &mut TupleWriter) {
    let mut room = [0; 256];
    w.text(field::CACHE_KEY, base64(key, &mut room).unwrap_or(key));
}

/// `0x` and two or four digits.
fn hex(code: u16) -> Vec<u8> {
    format!("0x{code:02x}").into_bytes()
}
