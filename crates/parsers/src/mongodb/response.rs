//! Responses: counts, and errors of the command, of its writes, and of the write concern.

use tuple::TupleWriter;

use super::columns::{
    ERROR_CODE, ERROR_MESSAGE, ERROR_NAME, MATCHED, MODIFIED, OK, REPLIES, RETURNED,
};
use super::command::Command;
use super::digest::{DigestElement, ElementOrigin, MessageDigest};
use super::errors;
use super::header::OP_REPLY;

/// Maximum length of a message.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Flags of OP_REPLY.
const CURSOR_NOT_FOUND: u32 = 1;
const QUERY_FAILURE: u32 = 2;

/// An error.
struct ResponseError<'a> {
    code: Option<i64>,
    name: Option<&'a [u8]>,
    message: Option<&'a [u8]>,
}

/// Writes the fields of the response.
pub fn write(command: Option<&Command<'_>>, response: MessageDigest<'_>, w: &mut TupleWriter) {
    let number = |name: &[u8]| response.element(name).and_then(DigestElement::number);
    let is_result = command.is_none_or(|command| !command.is_command());
    if let Some(returned) = response.returned()
        && (response.opcode() != OP_REPLY || is_result)
    {
        w.u64(RETURNED, returned.into());
    }
    for (field, name) in [(MATCHED, &b"n"[..]), (MODIFIED, b"nModified")] {
        if let Some(count) = number(name).and_then(|count| u64::try_from(count).ok()) {
            w.u64(field, count);
        }
    }
    if let Some(replies) = response.replies().filter(|replies| *replies > 1) {
        w.u64(REPLIES, replies.into());
    }
    let error = error(response);
    let has_result = number(b"ok").is_some() || response.opcode() == OP_REPLY && is_result;
    if error.is_some() || has_result && response.is_whole() {
        w.bool(OK, error.is_none());
    }
    if let Some(error) = error {
        write_error(&error, response.is_whole(), w);
    }
}

/// The cursor that the response leaves open.
pub fn cursor_id(response: MessageDigest<'_>) -> Option<i64> {
    let of_cursor = response.inner(ElementOrigin::Cursor, b"id");
    let cursor = of_cursor.or(response.inner(ElementOrigin::Operation, b"cursor_id"));
    cursor.and_then(DigestElement::number).filter(|id| *id != 0)
}

/// Writes an error; without the end of its message, only what that states.
fn write_error(error: &ResponseError<'_>, is_whole: bool, w: &mut TupleWriter) {
    if let Some(code) = error.code {
        w.i64(ERROR_CODE, code);
    }
    let code = error.code.map(|code| code.to_string());
    let known = error.code.and_then(errors::name).or(code.as_deref());
    let derived = is_whole.then(|| known.unwrap_or("?").as_bytes());
    if let Some(name) = error.name.or(derived) {
        w.text(ERROR_NAME, name);
    }
    if let Some(message) = error.message {
        w.text(
            ERROR_MESSAGE,
            &message[..message.len().min(MESSAGE_BYTES_MAX)],
        );
    }
}

/// The error of a response: of the command, else of its first failed write, else of the write concern.
fn error(response: MessageDigest<'_>) -> Option<ResponseError<'_>> {
    let of = |name: &[u8]| response.element(name);
    let number = |name: &[u8]| of(name).and_then(DigestElement::number);
    let text = |name: &[u8]| of(name).and_then(DigestElement::text);
    if response.opcode() == OP_REPLY && response.flags() & (CURSOR_NOT_FOUND | QUERY_FAILURE) != 0 {
        let is_lost = response.flags() & CURSOR_NOT_FOUND != 0;
        return Some(ResponseError {
            code: number(b"code").or(is_lost.then_some(43)),
            name: None,
            message: text(b"$err"),
        });
    }
    // `err` is that of getLastError.
    let message = text(b"errmsg").or(text(b"err"));
    if number(b"ok") == Some(0) || of(b"err").and_then(DigestElement::text).is_some() {
        return Some(ResponseError {
            code: number(b"code"),
            name: text(b"codeName"),
            message,
        });
    }
    [ElementOrigin::WriteError, ElementOrigin::WriteConcernError]
        .into_iter()
        .find_map(|origin| inner_error(response, origin))
        .or_else(|| {
            number(b"nErrors").filter(|errors| *errors > 0)?;
            Some(ResponseError {
                code: None,
                name: Some(b"BulkWriteError"),
                message: None,
            })
        })
}

/// An error in a document of the response.
fn inner_error(response: MessageDigest<'_>, origin: ElementOrigin) -> Option<ResponseError<'_>> {
    let of = |name: &[u8]| response.inner(origin, name);
    response.elements().find(|of| of.origin == origin)?;
    Some(ResponseError {
        code: of(b"code").and_then(DigestElement::number),
        name: of(b"codeName").and_then(DigestElement::text),
        message: of(b"errmsg").and_then(DigestElement::text),
    })
}
