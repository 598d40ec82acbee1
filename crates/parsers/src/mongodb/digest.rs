//! Stored form of a message: its header, counts, and the elements of interest, without the rest of its documents.

use super::bson::{INT64, STRING, integer, length_at, text};
use super::compression::{self, InnerMessage};
use super::header::{HEADER, MORE_TO_COME, MessageHeader, OP_COMPRESSED, OP_REPLY};
use super::scan::{ScanPlace, ScanState, ScanStep, ScanToken, start};

/// Length of the fixed part.
const FIXED: usize = HEADER + 4 * COUNTS;
const COUNTS: usize = 7;
/// Stored bytes of a message from which no elements are added.
pub const KEPT_BYTES_MAX: usize = 24 * 1024;
/// A count that is not known.
const NONE: u32 = u32::MAX;

/// Counts in the fixed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DigestCount {
    Opcode,
    Flags,
    Compressor,
    /// Statements.
    Documents,
    Returned,
    /// Messages of a response.
    Replies,
    /// Known if the last message was read to its end.
    Ends,
}

/// Origin of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementOrigin {
    /// A field of an operation before OP_MSG.
    Operation,
    /// The first element of a command or reply, and the others.
    First,
    Top,
    Cursor,
    WriteConcernError,
    WriteError,
    /// A statement: an update, a deletion, or a filter.
    Statement,
}

const ORIGINS: [ElementOrigin; 7] = [
    ElementOrigin::Operation,
    ElementOrigin::First,
    ElementOrigin::Top,
    ElementOrigin::Cursor,
    ElementOrigin::WriteConcernError,
    ElementOrigin::WriteError,
    ElementOrigin::Statement,
];

/// A stored element.
#[derive(Clone, Copy, Debug)]
pub struct DigestElement<'a> {
    pub origin: ElementOrigin,
    pub kind: u8,
    pub name: &'a [u8],
    /// `None`: too long.
    pub value: Option<&'a [u8]>,
}

impl<'a> DigestElement<'a> {
    /// Its text, if it is a string.
    pub fn text(self) -> Option<&'a [u8]> {
        text(self.kind, self.value?)
    }

    /// Its number, if it is one.
    pub fn number(self) -> Option<i64> {
        integer(self.kind, self.value?)
    }
}

/// A stored message.
#[derive(Clone, Copy)]
pub struct MessageDigest<'a>(&'a [u8]);

impl<'a> MessageDigest<'a> {
    /// The message in stored bytes. `None`: its fixed fields were not read.
    pub fn of(kept: &'a [u8]) -> Option<MessageDigest<'a>> {
        (kept.len() >= FIXED).then_some(MessageDigest(kept))
    }

    /// Operation; of a compressed message that of the inner one.
    pub fn opcode(self) -> u32 {
        self.count(DigestCount::Opcode).unwrap_or(0)
    }

    pub fn flags(self) -> u32 {
        self.count(DigestCount::Flags).unwrap_or(0)
    }

    pub fn compression(self) -> Option<&'static str> {
        self.count(DigestCount::Compressor)
            .and_then(compression::name)
    }

    pub fn documents(self) -> Option<u32> {
        self.count(DigestCount::Documents)
            .filter(|_| self.is_whole())
    }

    /// Documents of a batch or of an OP_REPLY.
    pub fn returned(self) -> Option<u32> {
        let returned = self.count(DigestCount::Returned);
        returned.filter(|_| self.is_whole() || self.opcode() == OP_REPLY)
    }

    /// Messages of a response, if the last one was seen.
    pub fn replies(self) -> Option<u32> {
        let is_last = self.is_whole() && self.flags() & MORE_TO_COME == 0;
        self.count(DigestCount::Replies).filter(|_| is_last)
    }

    /// Whether the last message was read to its end: what has no element is not there.
    pub fn is_whole(self) -> bool {
        self.count(DigestCount::Ends).is_some()
    }

    fn count(self, of: DigestCount) -> Option<u32> {
        length_at(self.0, HEADER + 4 * of as usize).filter(|count| *count != NONE)
    }

    /// The elements, in their order.
    pub fn elements(self) -> impl Iterator<Item = DigestElement<'a>> {
        let mut rest = &self.0[FIXED..];
        std::iter::from_fn(move || {
            let [origin, kind, name, behind @ ..] = rest else {
                return None;
            };
            let (name, behind) = behind.split_at_checked(usize::from(*name))?;
            let length = length_at(behind, 0)?;
            let (value, behind) = match length {
                NONE => (None, &behind[4..]),
                _ => {
                    let (value, behind) = behind[4..].split_at_checked(length as usize)?;
                    (Some(value), behind)
                }
            };
            rest = behind;
            Some(DigestElement {
                origin: *ORIGINS.get(usize::from(*origin))?,
                kind: *kind,
                name,
                value,
            })
        })
    }

    /// The element of this name at the top, or of a fixed field.
    pub fn element(self, name: &[u8]) -> Option<DigestElement<'a>> {
        use ElementOrigin::{First, Operation, Top};
        let is_outer = |of: &DigestElement<'_>| matches!(of.origin, First | Top | Operation);
        self.elements().find(|of| is_outer(of) && of.name == name)
    }

    /// The element of this name and origin.
    pub fn inner(self, origin: ElementOrigin, name: &[u8]) -> Option<DigestElement<'a>> {
        self.elements()
            .find(|of| of.origin == origin && of.name == name)
    }
}

/// Flags of an OP_MSG by its first bytes, also of a compressed one.
pub fn has_more_to_come(head: &[u8]) -> bool {
    let more = |bytes: &[u8]| {
        let start = start(bytes);
        start.is_some_and(|start| {
            start.namespace.is_none()
                && start.cursor_id.is_none()
                && start.flags & MORE_TO_COME != 0
        })
    };
    match MessageHeader::read(head) {
        Some(header) if header.opcode == OP_COMPRESSED => {
            compression::inner(head, 8).is_some_and(|inner| more(&inner.bytes))
        }
        _ => more(head),
    }
}

/// Operation of a message by its first bytes, also of a compressed one.
pub fn opcode(head: &[u8]) -> Option<u32> {
    let header = MessageHeader::read(head)?;
    match header.opcode {
        OP_COMPRESSED => length_at(head, HEADER),
        opcode => Some(opcode),
    }
}

/// Adds a part of a message to its stored form. Returns false if a limit hides contents.
pub fn keep(kept: &mut Vec<u8>, head: &[u8], rest: Option<u64>) -> bool {
    if let Some(rest) = rest {
        scan(kept, ScanState::unpack(rest), head);
        return true;
    }
    let inner = match MessageHeader::read(head) {
        Some(header) if header.opcode == OP_COMPRESSED => compression::inner(head, usize::MAX),
        _ => None,
    };
    match inner {
        Some(InnerMessage {
            bytes,
            compressor,
            is_whole,
        }) => {
            begin(kept, &bytes, compressor);
            is_whole
        }
        None => {
            begin(kept, head, NONE);
            true
        }
    }
}

/// Begins a message, or a further message of the same response.
fn begin(kept: &mut Vec<u8>, bytes: &[u8], compressor: u32) {
    let Some(start) = start(bytes) else {
        if kept.is_empty() {
            kept.extend_from_slice(&bytes[..bytes.len().min(HEADER)]);
        }
        return;
    };
    if kept.len() >= FIXED {
        add_to(kept, DigestCount::Replies, 1);
        set(kept, DigestCount::Flags, start.flags);
        set(kept, DigestCount::Ends, NONE);
    } else {
        kept.clear();
        kept.extend_from_slice(&bytes[..HEADER]);
        let counts: [u32; COUNTS] = [
            start.header.opcode,
            start.flags,
            compressor,
            NONE,
            start.returned.unwrap_or(NONE),
            1,
            NONE,
        ];
        kept.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
        if let Some(namespace) = start.namespace {
            let length = namespace.len() as u32 + 1;
            let value = [&length.to_le_bytes(), namespace, b"\0"].concat();
            push(
                kept,
                ElementOrigin::Operation,
                STRING,
                b"namespace",
                Some(&value),
            );
        }
        if let Some(id) = start.cursor_id {
            let value = id.to_le_bytes();
            push(
                kept,
                ElementOrigin::Operation,
                INT64,
                b"cursor_id",
                Some(&value),
            );
        }
    }
    scan(kept, start.state, &bytes[start.used..]);
}

/// Reads the elements in a part of a message.
fn scan(kept: &mut Vec<u8>, mut state: ScanState, bytes: &[u8]) {
    if kept.len() < FIXED {
        return;
    }
    let is_first = MessageDigest(kept).count(DigestCount::Replies) == Some(1);
    let mut rest = bytes;
    while !rest.is_empty() && !state.is_over() {
        let ScanStep::Token { used, skip, token } = state.step(rest) else {
            return;
        };
        match token {
            ScanToken::Other => {}
            ScanToken::Batch => add_to(kept, DigestCount::Returned, 0),
            ScanToken::Returned => add_to(kept, DigestCount::Returned, 1),
            ScanToken::Statement(document) => {
                add_to(kept, DigestCount::Documents, 1);
                if let Some(document) = document {
                    push(
                        kept,
                        ElementOrigin::Statement,
                        super::bson::DOCUMENT,
                        b"",
                        Some(document),
                    );
                }
            }
            ScanToken::Element {
                place,
                kind,
                name,
                value,
            } => {
                if is_first && let Some(origin) = origin(place) {
                    push(kept, origin, kind, name, value);
                }
            }
        }
        rest = rest.get(used + skip..).unwrap_or_default();
    }
    if state.is_read() {
        set(kept, DigestCount::Ends, 1);
    }
}

fn origin(place: ScanPlace) -> Option<ElementOrigin> {
    Some(match place {
        ScanPlace::First => ElementOrigin::First,
        ScanPlace::Top => ElementOrigin::Top,
        ScanPlace::Cursor => ElementOrigin::Cursor,
        ScanPlace::WriteConcernError => ElementOrigin::WriteConcernError,
        ScanPlace::WriteError => ElementOrigin::WriteError,
        _ => return None,
    })
}

fn push(kept: &mut Vec<u8>, origin: ElementOrigin, kind: u8, name: &[u8], value: Option<&[u8]>) {
    let value = value.filter(|value| kept.len() + value.len() <= KEPT_BYTES_MAX);
    let Ok(length) = u8::try_from(name.len()) else {
        return;
    };
    if kept.len() > KEPT_BYTES_MAX {
        return;
    }
    kept.extend_from_slice(&[origin as u8, kind, length]);
    kept.extend_from_slice(name);
    let length = value.map_or(NONE, |value| value.len() as u32);
    kept.extend_from_slice(&length.to_le_bytes());
    kept.extend_from_slice(value.unwrap_or_default());
}

/// Adds to a count, which becomes known.
fn add_to(kept: &mut [u8], of: DigestCount, more: u32) {
    let before = MessageDigest(kept).count(of).unwrap_or(0);
    set(kept, of, before.saturating_add(more));
}

fn set(kept: &mut [u8], of: DigestCount, count: u32) {
    let at = HEADER + 4 * of as usize;
    kept[at..at + 4].copy_from_slice(&count.to_le_bytes());
}
