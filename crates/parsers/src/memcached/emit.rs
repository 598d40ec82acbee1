//! Writes transactions as tuples: one per requested key, one with a null key for a command without keys, and
//! one per returned key that was not requested.

use tuple::TupleWriter;
use wire::Timestamp;

use super::command::{MemcachedCommand, MemcachedCommandClass, MemcachedStatus};
use super::field;
use super::keys::MemcachedKeyCursor;
use super::transaction::{MemcachedRequest, MemcachedResponse, MemcachedResponseSummary};
use super::words::{MemcachedKeyEncoding, base64};
use crate::pairing::MessageCompleteness;
use crate::pairing::{PairedTransaction, ResponseExpectation, TransactionOutcome};
use crate::{ParserOutput, TupleQuality};

/// Variant: every tuple.
pub const ALL: u8 = 0;
/// Variant: reads only.
pub const GET_ONLY: u8 = 1;

/// Kind of a written tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemcachedTupleKind {
    /// A request with its response.
    Pair,
    /// Anything else.
    Other,
}

/// Fields common to the tuples of a transaction.
struct MemcachedRow<'a> {
    /// Start time, and the time of the last byte.
    times: (Timestamp, Option<Timestamp>),
    quality: TupleQuality,
    /// Whether `memcached_get` has the tuple, too.
    read: bool,
    command: Option<&'a [u8]>,
    key: Option<&'a [u8]>,
    key_form: MemcachedKeyEncoding,
    value_bytes: Option<u64>,
    status: MemcachedStatus,
    response_time: Option<i64>,
    transfer_time: Option<i64>,
    total_time: Option<i64>,
}

/// Writes the tuples of `transaction`; `midway`: a pair is marked as the first of a connection joined midway.
#[inline]
pub fn emit(
    transaction: &mut PairedTransaction<MemcachedRequest, MemcachedResponse>,
    midway: bool,
    out: &mut ParserOutput<'_>,
) -> MemcachedTupleKind {
    let quality = quality(transaction, midway);
    let response_time = response_time(transaction).filter(|ns| *ns >= 0);
    let transfer_time = transfer_time(transaction);
    let total_time = total_time(transaction);
    let has_request = transaction.request().is_some();
    let has_response = transaction.response().is_some();
    let last = transaction
        .response()
        .map_or(Timestamp::MIN, |response| response.last);
    let asked_last = transaction
        .request()
        .map_or(Timestamp::MIN, |request| request.last);
    let times = (
        transaction.first(),
        transaction.complete_at(asked_last, last.max(transaction.response_first())),
    );
    let told = (
        transaction.response_first(),
        Some(last.max(transaction.response_first())),
    );
    let silent = transaction.outcome() == TransactionOutcome::Silent && transaction.request_ended();
    let (request, response) = transaction.parts_mut();
    let mut rest = 0;
    if has_response && !response.came.is_empty() {
        rest = emit_strays(
            has_request.then_some(&mut *request),
            response,
            told,
            transfer_time,
            out,
        );
    }
    match (has_request, has_response) {
        (true, true) => {
            let status = response.status(request.class);
            let value_bytes = response.value_bytes.or(request.value_bytes);
            let row = MemcachedRow {
                response_time,
                transfer_time,
                total_time,
                ..MemcachedRow::of(request, times, quality, status, value_bytes)
            };
            emit_each_key(request, row, out);
            MemcachedTupleKind::Pair
        }
        // Not answered like an unknown command: a part of another message.
        (true, false) if request.command == MemcachedCommand::Other => {
            out.counters.malformed_messages += 1;
            MemcachedTupleKind::Other
        }
        (true, false) => {
            let hushed = silent && request.expects == ResponseExpectation::Perhaps;
            let status = if hushed {
                request.command.silence()
            } else {
                MemcachedStatus::Unknown
            };
            emit_each_key(
                request,
                MemcachedRow::of(request, times, quality, status, request.value_bytes),
                out,
            );
            MemcachedTupleKind::Other
        }
        _ => {
            if rest == 0 {
                write(
                    &MemcachedRow::of_stray(response, None, told, transfer_time),
                    out,
                );
            }
            MemcachedTupleKind::Other
        }
    }
}

fn quality(
    transaction: &PairedTransaction<MemcachedRequest, MemcachedResponse>,
    midway: bool,
) -> TupleQuality {
    let Some(request) = transaction.request() else {
        return TupleQuality::Half;
    };
    let response = match transaction.response() {
        Some(response) => Some(response),
        None if transaction.outcome() == TransactionOutcome::Silent
            && transaction.request_ended() =>
        {
            None
        }
        None => return TupleQuality::Half,
    };
    let is_whole = transaction.request_ended()
        && request.seen == MessageCompleteness::Whole
        && response
            .is_none_or(|r| r.seen == MessageCompleteness::Whole && transaction.response_ended());
    match () {
        () if midway && response.is_some() => TupleQuality::Midstream,
        () if transaction.resynchronized() && response.is_some() => TupleQuality::Resync,
        () if !is_whole => TupleQuality::GapBody,
        () if response_time(transaction).is_some_and(|ns| ns < 0) => TupleQuality::Untimed,
        () if transfer_time(transaction).is_some_and(|ns| ns < 0) => TupleQuality::Untimed,
        () => TupleQuality::Exact,
    }
}

/// Time from the last byte of the request to the first byte of the response, if both were seen. Negative if
/// the response began before the request was complete, or timestamps are wrong.
fn response_time(
    transaction: &PairedTransaction<MemcachedRequest, MemcachedResponse>,
) -> Option<i64> {
    let (request, _) = transaction.request().zip(transaction.response())?;
    let seen = request.seen.has_end() && transaction.request_ended();
    seen.then(|| transaction.response_first().since(request.last))
}

/// Time from the first to the last byte of the response, if both were seen.
fn transfer_time(
    transaction: &PairedTransaction<MemcachedRequest, MemcachedResponse>,
) -> Option<i64> {
    let response = transaction.response()?;
    let seen = response.seen.has_end() && transaction.response_ended();
    seen.then(|| response.last.since(transaction.response_first()))
}

/// Time from the last byte of the request to the last byte of the response, if both were seen.
fn total_time(transaction: &PairedTransaction<MemcachedRequest, MemcachedResponse>) -> Option<i64> {
    let (request, response) = transaction.request().zip(transaction.response())?;
    let ends_seen = request.seen.has_end() && response.seen.has_end();
    let is_whole = transaction.request_ended() && transaction.response_ended();
    (ends_seen && is_whole).then(|| response.last.since(request.last))
}

impl<'a> MemcachedRow<'a> {
    fn of(
        request: &'a MemcachedRequest,
        times: (Timestamp, Option<Timestamp>),
        quality: TupleQuality,
        status: MemcachedStatus,
        value_bytes: Option<u64>,
    ) -> MemcachedRow<'a> {
        MemcachedRow {
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
            total_time: None,
        }
    }

    /// A row for a response without a request.
    fn of_stray(
        response: &MemcachedResponse,
        value: Option<(&'a [u8], Option<u64>)>,
        times: (Timestamp, Option<Timestamp>),
        transfer_time: Option<i64>,
    ) -> MemcachedRow<'a> {
        let command = response.command();
        let status = match (response.said, value) {
            (MemcachedResponseSummary::Text { .. }, Some(_)) => MemcachedStatus::Hit,
            _ => response.status(MemcachedCommandClass::Any),
        };
        MemcachedRow {
            times,
            quality: TupleQuality::Half,
            read: command.is_read()
                || matches!(status, MemcachedStatus::Hit | MemcachedStatus::Miss),
            command: command.name(),
            key: value.map(|(key, _)| key),
            key_form: MemcachedKeyEncoding::Plain,
            value_bytes: value.map_or(response.value_bytes, |(_, bytes)| bytes),
            status,
            response_time: None,
            transfer_time,
            total_time: None,
        }
    }
}

/// Handles returned keys without a known request: assigns those of `request` to it and writes the others;
/// returns their number.
#[cold]
fn emit_strays(
    mut request: Option<&mut MemcachedRequest>,
    response: &MemcachedResponse,
    times: (Timestamp, Option<Timestamp>),
    transfer_time: Option<i64>,
    out: &mut ParserOutput<'_>,
) -> usize {
    let mut written = 0;
    let mut cursor = MemcachedKeyCursor::default();
    for (key, value_bytes) in response.came.iter() {
        let was_asked = request.as_mut().is_some_and(|request| match response.said {
            MemcachedResponseSummary::Text { .. } => {
                request
                    .keys
                    .came(key, value_bytes.unwrap_or(0), &mut cursor)
            }
            // The response repeats the request's key.
            _ => true,
        });
        if !was_asked {
            write(
                &MemcachedRow::of_stray(response, Some((key, value_bytes)), times, transfer_time),
                out,
            );
            written += 1;
        }
    }
    written
}

/// Writes one row per key of a request with the length of its value, if returned; one row without a key if
/// the command has none.
#[inline]
fn emit_each_key<'a>(
    request: &'a MemcachedRequest,
    mut row: MemcachedRow<'a>,
    out: &mut ParserOutput<'_>,
) {
    if request.keys.is_empty() {
        return write(&row, out);
    }
    let status = row.status;
    let told =
        row.quality != TupleQuality::Half && request.class == MemcachedCommandClass::Retrieval;
    for (key, value_bytes) in request.keys.iter() {
        row.key = Some(key);
        if told {
            row.value_bytes = value_bytes;
            row.status = if value_bytes.is_some() {
                MemcachedStatus::Hit
            } else {
                status
            };
        }
        write(&row, out);
    }
}

#[inline]
fn write(row: &MemcachedRow<'_>, out: &mut ParserOutput<'_>) {
    out.emit(
        row.times,
        row.quality,
        |variant| variant == ALL || row.read,
        |w| fill(row, w),
    );
}

#[inline]
fn fill(row: &MemcachedRow<'_>, w: &mut TupleWriter) {
    if let Some(name) = row.command {
        w.text(field::COMMAND, name);
    }
    match row.key {
        Some(key) if row.key_form == MemcachedKeyEncoding::Base64 => decode_key(key, w),
        Some(key) => w.text(field::CACHE_KEY, key),
        None => {}
    }
    match row.status {
        MemcachedStatus::Hit => w.bool(field::HIT, true),
        MemcachedStatus::Miss => w.bool(field::HIT, false),
        _ => {}
    }
    if let Some(bytes) = row.value_bytes {
        w.u64(field::VALUE_BYTES, bytes);
    }
    if w.wants(field::STATUS) {
        match (row.status, row.status.name()) {
            (MemcachedStatus::Unknown, _) => {}
            (MemcachedStatus::Binary(code), "") => w.text(field::STATUS, &hex(code)),
            (_, name) => w.text(field::STATUS, name.as_bytes()),
        }
    }
    if let Some(ns) = row.response_time {
        w.i64(field::RESPONSE_TIME, ns);
    }
    if let Some(ns) = row.transfer_time.filter(|ns| *ns >= 0) {
        w.i64(field::TRANSFER_TIME, ns);
    }
    if let Some(ns) = row.total_time.filter(|ns| *ns >= 0) {
        w.i64(field::TOTAL_TIME, ns);
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
