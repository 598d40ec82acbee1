//! BSON elements in borrowed bytes ("BSON specification 1.1" at bsonspec.org).

/// A string.
pub const STRING: u8 = 2;
/// A document.
pub const DOCUMENT: u8 = 3;
/// An array: a document whose keys are indices.
pub const ARRAY: u8 = 4;
/// A 64-bit integer.
pub const INT64: u8 = 18;
/// Maximum length of a key in bytes; longer ones are not valid here.
const KEY_BYTES_MAX: usize = 1024;

/// An element without its value.
#[derive(Clone, Copy, Debug)]
pub struct ElementHead<'a> {
    pub kind: u8,
    pub name: &'a [u8],
    /// Length of kind and name, and of the value.
    pub head: usize,
    pub value: usize,
    /// Bytes of the value that determine its length.
    pub read: usize,
}

/// Result of reading an element.
#[derive(Clone, Copy, Debug)]
pub enum ElementRead<'a> {
    Head(ElementHead<'a>),
    /// The terminator of a document.
    End,
    NeedMore,
    Bad,
}

/// Reads the element that `bytes` begin with.
pub fn element(bytes: &[u8]) -> ElementRead<'_> {
    let Some((kind, rest)) = bytes.split_first() else {
        return ElementRead::NeedMore;
    };
    if *kind == 0 {
        return ElementRead::End;
    }
    if !is_kind(*kind) {
        return ElementRead::Bad;
    }
    let Some(name) = cstring(rest, KEY_BYTES_MAX) else {
        return if rest.len() > KEY_BYTES_MAX {
            ElementRead::Bad
        } else {
            ElementRead::NeedMore
        };
    };
    let head = name.len() + 2;
    let value = match value_length(*kind, &bytes[head..]) {
        ValueLength::Of(value) => value,
        ValueLength::NeedMore => return ElementRead::NeedMore,
        ValueLength::Bad => return ElementRead::Bad,
    };
    ElementRead::Head(ElementHead {
        kind: *kind,
        name,
        head,
        value,
        read: match kind {
            2..=5 | 12..=15 => 4,
            11 => value,
            _ => 0,
        },
    })
}

/// Whether elements of this kind exist.
pub fn is_kind(kind: u8) -> bool {
    matches!(kind, 1..=19 | 0x7f | 0xff)
}

enum ValueLength {
    Of(usize),
    NeedMore,
    Bad,
}

fn value_length(kind: u8, value: &[u8]) -> ValueLength {
    let with = |more: usize, min: u32| match length_at(value, 0) {
        None => ValueLength::NeedMore,
        Some(length) if (min..1 << 26).contains(&length) => ValueLength::Of(length as usize + more),
        Some(_) => ValueLength::Bad,
    };
    match kind {
        1 | 9 | 17 | 18 => ValueLength::Of(8),
        2 | 13 | 14 => with(4, 1),
        3 | 4 => with(0, 5),
        15 => with(0, 14),
        5 => with(5, 0),
        12 => with(16, 1),
        7 => ValueLength::Of(12),
        8 => ValueLength::Of(1),
        16 => ValueLength::Of(4),
        19 => ValueLength::Of(16),
        11 => match cstring(value, 1 << 14).and_then(|pattern| {
            let options = cstring(&value[pattern.len() + 1..], 64)?;
            Some(pattern.len() + options.len() + 2)
        }) {
            Some(length) => ValueLength::Of(length),
            None if value.len() > 1 << 15 => ValueLength::Bad,
            None => ValueLength::NeedMore,
        },
        _ => ValueLength::Of(0),
    }
}

/// The text before the first NUL within `max` bytes.
pub fn cstring(bytes: &[u8], max: usize) -> Option<&[u8]> {
    let end = memchr::memchr(0, &bytes[..bytes.len().min(max + 1)])?;
    Some(&bytes[..end])
}

/// A length at `at`.
pub fn length_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The elements of a complete document, with their values; ends at invalid bytes.
pub fn elements(document: &[u8]) -> impl Iterator<Item = (u8, &[u8], &[u8])> {
    let mut rest = document.get(4..).unwrap_or_default();
    std::iter::from_fn(move || {
        let ElementRead::Head(of) = element(rest) else {
            return None;
        };
        let value = rest.get(of.head..of.head + of.value)?;
        rest = &rest[of.head + of.value..];
        Some((of.kind, of.name, value))
    })
}

/// The text of a string value.
pub fn text(kind: u8, value: &[u8]) -> Option<&[u8]> {
    (kind == STRING).then(|| value.get(4..)?.strip_suffix(b"\0"))?
}

/// An integer value, also one that is stored as a number of another type.
pub fn integer(kind: u8, value: &[u8]) -> Option<i64> {
    match kind {
        1 => Some(f64::from_le_bytes(*value.first_chunk()?) as i64),
        8 => Some(i64::from(*value.first()? != 0)),
        16 => Some(i32::from_le_bytes(*value.first_chunk()?).into()),
        INT64 => Some(i64::from_le_bytes(*value.first_chunk()?)),
        _ => None,
    }
}
