//! The shape of a command: its keys and operators with `?` for each value, so that commands that differ in their values only become
//! equal.

use super::bson::{ARRAY, DOCUMENT, elements};

/// Maximum length of a shape; the rest is `…`.
const SHAPE_BYTES_MAX: usize = 4096;
/// Levels of documents; deeper ones are `?`.
const DEPTH_MAX: usize = 20;
/// Maximum length of a key; longer ones are `?`.
const KEY_BYTES_MAX: usize = 128;

/// Whether an element of a command belongs to its shape.
pub fn is_part(name: &[u8]) -> bool {
    matches!(
        name,
        b"filter"
            | b"query"
            | b"q"
            | b"u"
            | b"pipeline"
            | b"sort"
            | b"projection"
            | b"fields"
            | b"key"
            | b"update"
            | b"remove"
            | b"$query"
            | b"$orderby"
    )
}

/// Appends the shape of a value.
pub fn push_value(kind: u8, value: &[u8], out: &mut Vec<u8>) {
    push(kind, value, DEPTH_MAX, out);
}

fn push(kind: u8, value: &[u8], depth: usize, out: &mut Vec<u8>) {
    match kind {
        _ if depth == 0 => out.push(b'?'),
        DOCUMENT => {
            out.push(b'{');
            for (i, (kind, name, value)) in elements(value).enumerate() {
                if is_full(out) {
                    break;
                }
                if i > 0 {
                    out.extend_from_slice(b", ");
                }
                push_key(name, out);
                out.extend_from_slice(b": ");
                push(kind, value, depth - 1, out);
            }
            out.push(b'}');
        }
        ARRAY => push_array(value, depth, out),
        _ => out.push(b'?'),
    }
}

/// Elements of an array; one of those that follow each other with the same shape.
fn push_array(value: &[u8], depth: usize, out: &mut Vec<u8>) {
    out.push(b'[');
    let mut last: Option<std::ops::Range<usize>> = None;
    for (kind, _, value) in elements(value) {
        if is_full(out) {
            break;
        }
        let before = out.len();
        if last.is_some() {
            out.extend_from_slice(b", ");
        }
        let from = out.len();
        push(kind, value, depth - 1, out);
        match &last {
            Some(last) if out[last.clone()] == out[from..] => out.truncate(before),
            _ => last = Some(from..out.len()),
        }
    }
    out.push(b']');
}

fn is_full(out: &mut Vec<u8>) -> bool {
    let is_full = out.len() > SHAPE_BYTES_MAX;
    if is_full && !out.ends_with("…".as_bytes()) {
        out.extend_from_slice("…".as_bytes());
    }
    is_full
}

/// Appends a key; parts that are no names, such as indices and identifiers of objects, are values.
fn push_key(name: &[u8], out: &mut Vec<u8>) {
    if name.len() > KEY_BYTES_MAX {
        return out.push(b'?');
    }
    for (i, part) in name.split(|b| *b == b'.').enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        out.extend_from_slice(if is_name(part) { part } else { b"?" });
    }
}

/// Whether a text is a name: letters, digits, and underscores, not beginning with a digit.
pub fn is_name(text: &[u8]) -> bool {
    let begin = text.strip_prefix(b"$").unwrap_or(text);
    let is_inner = |c: char| c.is_alphanumeric() || c == '_';
    let is_hex = begin.len() == 24 && begin.iter().all(u8::is_ascii_hexdigit);
    !is_hex
        && begin.first().is_some_and(|b| !b.is_ascii_digit())
        && std::str::from_utf8(begin).is_ok_and(|text| text.chars().all(is_inner))
}
