//! Requests and what became of them, written as tuples: one for each key asked for, one with a null key for a command
//! that has none.

use tuple::TupleWriter;
use wire::Timestamp;

use super::command::{Class, Command, Status};
use super::waiting::{Marks, Request, Waiting};
use super::words::base64;
use super::{ALL, field};
use crate::{Output, Quality, Span};

/// What a response said.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// When it was on the wire.
    pub span: Span,
    /// Its end was seen, so that `span.last` means something.
    pub ended: bool,
    /// What it says; for a retrieval, of the keys that did not come back.
    pub status: Status,
    /// Length of the value it carries, where that is not told key by key.
    pub value_bytes: Option<u64>,
    /// Bytes of its value are missing.
    pub gap_body: bool,
    /// Among them the last so far, which came later than `span.last`.
    pub last_lost: bool,
}

impl Outcome {
    /// More bytes of the response.
    #[inline]
    pub fn extend(&mut self, ts: Timestamp) {
        self.span.extend(ts);
        self.last_lost = false;
    }

    fn transfer_time(&self) -> Option<i64> {
        (self.ended && !self.last_lost).then(|| self.span.last.since(self.span.first))
    }
}

struct Row<'a> {
    command: Option<&'a [u8]>,
    key: Option<&'a [u8]>,
    /// The key is to be decoded.
    base64: bool,
    value_bytes: Option<u64>,
    status: Status,
    response_time: Option<i64>,
    transfer_time: Option<i64>,
}

/// A request with its response.
pub fn answered(
    waiting: &Waiting,
    request: &Request,
    outcome: &Outcome,
    quality: Quality,
    out: &mut Output<'_>,
) {
    let mut row = Row {
        command: Some(name(waiting, request)),
        key: None,
        base64: request.marks.has(Marks::BASE64),
        value_bytes: outcome.value_bytes.or(request.value_bytes),
        status: outcome.status,
        response_time: (!request.marks.has(Marks::LAST_LOST))
            .then(|| outcome.span.first.since(request.span.last)),
        transfer_time: outcome.transfer_time(),
    };
    let (read, keyed) = (request.command.is_read(), request.class == Class::Retrieval);
    each_key(waiting, request, |key, value_bytes| {
        row.key = key;
        if keyed {
            row.value_bytes = value_bytes;
            row.status = if value_bytes.is_some() { Status::Hit } else { outcome.status };
        }
        write(&row, read, request.span.first, quality, out);
    });
}

/// A request without a response: none was due, or none was seen.
pub fn unanswered(
    waiting: &Waiting,
    request: &Request,
    status: Status,
    quality: Quality,
    out: &mut Output<'_>,
) {
    let mut row = Row {
        command: Some(name(waiting, request)),
        key: None,
        base64: request.marks.has(Marks::BASE64),
        value_bytes: request.value_bytes,
        status,
        response_time: None,
        transfer_time: None,
    };
    let read = request.command.is_read();
    each_key(waiting, request, |key, _| {
        row.key = key;
        write(&row, read, request.span.first, quality, out);
    });
}

/// A response, or one value of it, without a request.
pub fn unasked(key: Option<&[u8]>, outcome: &Outcome, out: &mut Output<'_>, command: Command) {
    let row = Row {
        command: command.name(),
        key,
        base64: false,
        value_bytes: outcome.value_bytes,
        status: outcome.status,
        response_time: None,
        transfer_time: outcome.transfer_time(),
    };
    let read = command.is_read() || matches!(outcome.status, Status::Hit | Status::Miss);
    write(&row, read, outcome.span.first, Quality::Half, out);
}

fn name<'a>(waiting: &'a Waiting, request: &Request) -> &'a [u8] {
    request.command.name().unwrap_or_else(|| waiting.name(request))
}

/// Every key of a request with the length of its value, if it came back; once without, if the command has none.
#[inline]
fn each_key<'a>(waiting: &'a Waiting, request: &Request, mut row: impl FnMut(Option<&'a [u8]>, Option<u64>)) {
    let keys = request.keys();
    if keys == 0 {
        return row(None, None);
    }
    for i in 0..keys {
        let (key, value_bytes) = waiting.key(request, i);
        row(Some(key), value_bytes);
    }
}

#[inline]
fn write(row: &Row<'_>, read: bool, ts: Timestamp, quality: Quality, out: &mut Output<'_>) {
    out.emit(ts, quality, |variant| variant == ALL || read, |w| fill(row, w));
}

#[inline]
fn fill(row: &Row<'_>, w: &mut TupleWriter) {
    if let Some(name) = row.command {
        w.text(field::COMMAND, name);
    }
    match row.key {
        Some(key) if row.base64 => decode_key(key, w),
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
    if let Some(ns) = row.transfer_time {
        w.i64(field::TRANSFER_TIME, ns);
    }
}

/// Sets the key that `key` is the base64 of, or itself where it is none.
#[cold]
fn decode_key(key: &[u8], w: &mut TupleWriter) {
    let mut room = [0; 256];
    w.text(field::CACHE_KEY, base64(key, &mut room).unwrap_or(key));
}

/// `0x` and four digits, or two where they are enough.
fn hex(code: u16) -> Vec<u8> {
    format!("0x{code:02x}").into_bytes()
}
