//! Walks the documents of a message without holding them: values of interest are read, others are skipped by their lengths. The state
//! between two parts of a message fits into 64 bits, since documents end with a terminator and each place has one parent.

use super::bson::{ARRAY, DOCUMENT, ElementHead, ElementRead, cstring, element, length_at};
use super::header::{
    CHECKSUM_PRESENT, HEADER, MessageHeader, NAMESPACE_BYTES_MAX, OP_DELETE, OP_GET_MORE,
    OP_INSERT, OP_KILL_CURSORS, OP_MSG, OP_QUERY, OP_REPLY, OP_UPDATE,
};
use crate::request_response::MessageBoundary;

/// Values of more bytes are skipped.
pub const VALUE_BYTES_MAX: usize = 16 * 1024;

/// Place in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ScanPlace {
    /// A section of OP_MSG, or the end.
    Section,
    /// The document of a command or reply.
    Document,
    /// Its first element, and the others.
    First,
    Top,
    Cursor,
    Batch,
    WriteConcernError,
    WriteErrors,
    WriteError,
    /// Statements in an array, of which the first is read; those whose number alone matters.
    FirstStatement,
    Statements,
    /// The same in a section.
    FirstInSection,
    InSection,
    /// Contents that are not read.
    Rest,
}

const PLACES: [ScanPlace; 14] = [
    ScanPlace::Section,
    ScanPlace::Document,
    ScanPlace::First,
    ScanPlace::Top,
    ScanPlace::Cursor,
    ScanPlace::Batch,
    ScanPlace::WriteConcernError,
    ScanPlace::WriteErrors,
    ScanPlace::WriteError,
    ScanPlace::FirstStatement,
    ScanPlace::Statements,
    ScanPlace::FirstInSection,
    ScanPlace::InSection,
    ScanPlace::Rest,
];

/// Position in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanState {
    /// Bytes of the message after this position, without the checksum.
    left: u32,
    /// The same of a section of kind 1.
    section_left: u32,
    place: ScanPlace,
    has_checksum: bool,
    /// Whether more sections may follow the document.
    has_sections: bool,
}

/// Contents that were read.
#[derive(Clone, Copy, Debug)]
pub enum ScanToken<'a> {
    /// Nothing of interest.
    Other,
    /// A batch of results begins.
    Batch,
    /// An element, with its value unless that is too long.
    Element {
        place: ScanPlace,
        kind: u8,
        name: &'a [u8],
        value: Option<&'a [u8]>,
    },
    /// A document of a batch.
    Returned,
    /// A statement; its document if that is read.
    Statement(Option<&'a [u8]>),
}

/// A step.
#[derive(Clone, Copy, Debug)]
pub enum ScanStep<'a> {
    NeedMore,
    Bad,
    /// `used` bytes of input, then `skip` bytes that are not read.
    Token {
        used: usize,
        skip: usize,
        token: ScanToken<'a>,
    },
}

/// The fixed first fields of a message.
#[derive(Clone, Copy, Debug)]
pub struct MessageStart<'a> {
    pub header: MessageHeader,
    /// Length of these fields.
    pub used: usize,
    pub flags: u32,
    /// Database and collection, of operations before OP_MSG.
    pub namespace: Option<&'a [u8]>,
    pub cursor_id: Option<i64>,
    /// Documents in an OP_REPLY.
    pub returned: Option<u32>,
    pub state: ScanState,
}

/// Reads the fixed first fields of a complete message or of its first bytes. `None`: they are incomplete or invalid.
pub fn start(bytes: &[u8]) -> Option<MessageStart<'_>> {
    let header = MessageHeader::read(bytes)?;
    let mut flags = 0;
    let mut namespace = None;
    let mut cursor_id = None;
    let mut returned = None;
    let id_at = |at: usize| Some(i64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let mut name = || {
        let name = cstring(bytes.get(20..)?, NAMESPACE_BYTES_MAX)?;
        namespace = Some(name);
        Some(20 + name.len() + 1)
    };
    let (used, place) = match header.opcode {
        OP_MSG => {
            flags = length_at(bytes, HEADER)?;
            (20, ScanPlace::Section)
        }
        OP_REPLY => {
            flags = length_at(bytes, HEADER)?;
            cursor_id = Some(id_at(20)?);
            returned = Some(length_at(bytes, 32)?);
            (36, ScanPlace::Document)
        }
        OP_QUERY => (name()? + 8, ScanPlace::Document),
        OP_INSERT => (name()?, ScanPlace::InSection),
        OP_UPDATE | OP_DELETE => (name()? + 4, ScanPlace::FirstInSection),
        OP_GET_MORE => {
            let used = name()? + 12;
            cursor_id = Some(id_at(used - 8)?);
            (used, ScanPlace::Rest)
        }
        OP_KILL_CURSORS => {
            cursor_id = Some(id_at(24)?);
            (32, ScanPlace::Rest)
        }
        _ => return None,
    };
    // The document of a query that is no command is its filter.
    let is_filter = header.opcode == OP_QUERY && !namespace?.ends_with(b".$cmd");
    let place = if is_filter {
        ScanPlace::FirstInSection
    } else {
        place
    };
    let has_checksum = header.opcode == OP_MSG && flags & CHECKSUM_PRESENT != 0;
    let end = header
        .length
        .checked_sub(if has_checksum { 4 } else { 0 })?;
    let left = end.checked_sub(used as u32)?;
    let in_section = matches!(place, ScanPlace::InSection | ScanPlace::FirstInSection);
    (bytes.len() >= used).then_some(MessageStart {
        header,
        used,
        flags,
        namespace,
        cursor_id,
        returned,
        state: ScanState {
            left,
            section_left: if in_section { left } else { 0 },
            place,
            has_checksum,
            has_sections: header.opcode == OP_MSG,
        },
    })
}

impl ScanState {
    /// The state in 64 bits: lengths are below 2^28.
    pub fn pack(self) -> u64 {
        u64::from(self.left)
            | u64::from(self.section_left) << 28
            | (self.place as u64) << 56
            | u64::from(self.has_checksum) << 60
            | u64::from(self.has_sections) << 61
    }

    /// The state that was packed.
    pub fn unpack(packed: u64) -> ScanState {
        let length = |shift: u32| (packed >> shift) as u32 & ((1 << 28) - 1);
        ScanState {
            left: length(0),
            section_left: length(28),
            place: PLACES[(packed >> 56 & 15) as usize % PLACES.len()],
            has_checksum: packed >> 60 & 1 == 1,
            has_sections: packed >> 61 & 1 == 1,
        }
    }

    /// Whether the message ends here, up to its checksum.
    pub fn is_over(self) -> bool {
        self.left == 0
    }

    /// Whether nothing that is read follows.
    pub fn is_read(self) -> bool {
        self.is_over() || self.place == ScanPlace::Rest
    }

    /// Bytes up to the end of the message.
    fn to_end(self) -> u64 {
        u64::from(self.left) + if self.has_checksum { 4 } else { 0 }
    }

    /// Cuts the first part, which contains the first element of a command or reply unless a section precedes it.
    pub fn cut_first(self, at: usize, bytes: &[u8]) -> MessageBoundary {
        let (mut state, mut end) = (self, at);
        while !state.is_over()
            && !matches!(
                state.place,
                ScanPlace::Top | ScanPlace::Cursor | ScanPlace::Rest
            )
        {
            match state.step(&bytes[end..]) {
                ScanStep::NeedMore => return MessageBoundary::NeedMore,
                ScanStep::Token { used, skip, .. } if end + used + skip <= bytes.len() => {
                    end += used + skip;
                }
                _ => break,
            }
        }
        self.cut(at, bytes)
    }

    /// Cuts the next part of the message from `bytes`, of which `at` bytes are read.
    pub fn cut(mut self, mut at: usize, bytes: &[u8]) -> MessageBoundary {
        loop {
            if self.is_over() {
                let body = self.to_end();
                return MessageBoundary::Message { head: at, body };
            }
            match self.step(&bytes[at..]) {
                ScanStep::NeedMore if at == 0 => return MessageBoundary::NeedMore,
                ScanStep::NeedMore => {
                    return MessageBoundary::Part {
                        head: at,
                        body: 0,
                        rest: self.pack(),
                    };
                }
                ScanStep::Bad => {
                    let here = bytes.len() - at;
                    let used = if at == 0 {
                        here.min(self.to_end() as usize)
                    } else {
                        0
                    };
                    return MessageBoundary::Message {
                        head: at + used,
                        body: self.to_end() - used as u64,
                    };
                }
                ScanStep::Token { used, skip, .. } => {
                    at += used;
                    let missing = (at + skip).saturating_sub(bytes.len()) as u64;
                    if missing > 0 {
                        return self.part(at, skip as u64);
                    }
                    at += skip;
                }
            }
        }
    }

    /// A part that ends with `body` bytes to skip; the state is the one after them.
    fn part(self, at: usize, skip: u64) -> MessageBoundary {
        // A head has at least one byte.
        let head = at.max(1);
        let body = skip - (head - at) as u64;
        if self.left == 0 {
            let body = body + self.to_end();
            return MessageBoundary::Message { head, body };
        }
        let rest = self.pack();
        MessageBoundary::Part { head, body, rest }
    }

    /// Reads the next contents. The result depends on the state and on a bounded number of bytes only.
    pub fn step<'a>(&mut self, bytes: &'a [u8]) -> ScanStep<'a> {
        let before = *self;
        let step = match self.place {
            ScanPlace::Section => self.section(bytes),
            ScanPlace::Document => self.document(bytes),
            ScanPlace::FirstInSection | ScanPlace::InSection => self.in_section(bytes),
            ScanPlace::Rest => token(0, self.left as usize, ScanToken::Other),
            _ => self.element(bytes),
        };
        match step {
            ScanStep::Token { used, skip, .. }
                if used > bytes.len() || used + skip > self.left as usize =>
            {
                *self = before;
                if used + skip > self.left as usize {
                    ScanStep::Bad
                } else {
                    ScanStep::NeedMore
                }
            }
            ScanStep::Token { used, skip, .. } => {
                self.left -= (used + skip) as u32;
                step
            }
            _ => {
                *self = before;
                step
            }
        }
    }

    fn section<'a>(&mut self, bytes: &'a [u8]) -> ScanStep<'a> {
        match bytes.first() {
            None => ScanStep::NeedMore,
            Some(0) => {
                self.place = ScanPlace::Document;
                token(1, 0, ScanToken::Other)
            }
            Some(1) => {
                let name = bytes
                    .get(5..)
                    .and_then(|rest| cstring(rest, NAMESPACE_BYTES_MAX));
                let Some((size, name)) = length_at(bytes, 1).zip(name) else {
                    let is_long = bytes.len() > 6 + NAMESPACE_BYTES_MAX;
                    return if is_long {
                        ScanStep::Bad
                    } else {
                        ScanStep::NeedMore
                    };
                };
                let Some(inside) = size.checked_sub(name.len() as u32 + 5) else {
                    return ScanStep::Bad;
                };
                let used = 6 + name.len();
                let Some(place) = statements(name) else {
                    return token(used, inside as usize, ScanToken::Other);
                };
                self.section_left = inside;
                self.place = match place {
                    ScanPlace::FirstStatement => ScanPlace::FirstInSection,
                    _ => ScanPlace::InSection,
                };
                token(used, 0, ScanToken::Other)
            }
            Some(_) => ScanStep::Bad,
        }
    }

    fn document<'a>(&mut self, bytes: &'a [u8]) -> ScanStep<'a> {
        match length_at(bytes, 0) {
            None => ScanStep::NeedMore,
            Some(length) if length < 5 || length > self.left => ScanStep::Bad,
            Some(_) => {
                self.place = ScanPlace::First;
                token(4, 0, ScanToken::Other)
            }
        }
    }

    fn in_section<'a>(&mut self, bytes: &'a [u8]) -> ScanStep<'a> {
        if self.section_left == 0 {
            self.place = self.after_document();
            return token(0, 0, ScanToken::Other);
        }
        let Some(length) = length_at(bytes, 0) else {
            return ScanStep::NeedMore;
        };
        if length < 5 || length > self.section_left {
            return ScanStep::Bad;
        }
        let is_read = self.place == ScanPlace::FirstInSection;
        self.section_left -= length;
        self.place = ScanPlace::InSection;
        statement(bytes, 0, length as usize, is_read)
    }

    fn after_document(self) -> ScanPlace {
        if self.has_sections {
            ScanPlace::Section
        } else {
            ScanPlace::Rest
        }
    }

    fn element<'a>(&mut self, bytes: &'a [u8]) -> ScanStep<'a> {
        let of = match element(bytes) {
            ElementRead::Head(of) => of,
            ElementRead::NeedMore => return ScanStep::NeedMore,
            ElementRead::Bad => return ScanStep::Bad,
            ElementRead::End => {
                self.place = match self.place {
                    ScanPlace::Batch => ScanPlace::Cursor,
                    ScanPlace::WriteError => ScanPlace::WriteErrors,
                    ScanPlace::First | ScanPlace::Top => self.after_document(),
                    _ => ScanPlace::Top,
                };
                return token(1, 0, ScanToken::Other);
            }
        };
        let place = self.place;
        match place {
            ScanPlace::Batch | ScanPlace::FirstStatement | ScanPlace::Statements
                if !matches!(of.kind, DOCUMENT | ARRAY) =>
            {
                return ScanStep::Bad;
            }
            ScanPlace::Batch => return token(of.head + 4, of.value - 4, ScanToken::Returned),
            ScanPlace::FirstStatement | ScanPlace::Statements => {
                self.place = ScanPlace::Statements;
                let is_read = place == ScanPlace::FirstStatement;
                return statement(bytes, of.head, of.value, is_read);
            }
            ScanPlace::First => self.place = ScanPlace::Top,
            _ => {}
        }
        if let Some(inside) = inside(place, of) {
            self.place = inside;
            let begins = if inside == ScanPlace::Batch {
                ScanToken::Batch
            } else {
                ScanToken::Other
            };
            return token(of.head + 4, 0, begins);
        }
        if !is_kept(place, of.name) {
            return token(of.head + of.read, of.value - of.read, ScanToken::Other);
        }
        let element = |value| ScanToken::Element {
            place,
            kind: of.kind,
            name: of.name,
            value,
        };
        if of.value > VALUE_BYTES_MAX {
            return token(of.head + of.read, of.value - of.read, element(None));
        }
        match bytes.get(of.head..of.head + of.value) {
            Some(value) => token(of.head + of.value, 0, element(Some(value))),
            None => ScanStep::NeedMore,
        }
    }
}

fn token(used: usize, skip: usize, token: ScanToken<'_>) -> ScanStep<'_> {
    ScanStep::Token { used, skip, token }
}

/// The statement whose document begins at `at` and has `length` bytes.
fn statement(bytes: &[u8], at: usize, length: usize, is_read: bool) -> ScanStep<'_> {
    if !is_read || length > VALUE_BYTES_MAX {
        return token(at + 4, length.saturating_sub(4), ScanToken::Statement(None));
    }
    match bytes.get(at..at + length) {
        Some(document) => token(at + length, 0, ScanToken::Statement(Some(document))),
        None => ScanStep::NeedMore,
    }
}

/// The place of statements with this name; inserted documents are not read.
fn statements(name: &[u8]) -> Option<ScanPlace> {
    match name {
        b"documents" | b"ops" => Some(ScanPlace::Statements),
        b"updates" | b"deletes" => Some(ScanPlace::FirstStatement),
        _ => None,
    }
}

/// The place inside of an element that is walked through.
fn inside(place: ScanPlace, of: ElementHead<'_>) -> Option<ScanPlace> {
    match (place, of.kind, of.name) {
        (ScanPlace::Top | ScanPlace::First, DOCUMENT, b"cursor") => Some(ScanPlace::Cursor),
        (ScanPlace::Top | ScanPlace::First, DOCUMENT, b"writeConcernError") => {
            Some(ScanPlace::WriteConcernError)
        }
        (ScanPlace::Top | ScanPlace::First, ARRAY, b"writeErrors") => Some(ScanPlace::WriteErrors),
        (ScanPlace::Top, ARRAY, name) => statements(name),
        (ScanPlace::Cursor, ARRAY, b"firstBatch" | b"nextBatch") => Some(ScanPlace::Batch),
        (ScanPlace::WriteErrors, DOCUMENT, b"0") => Some(ScanPlace::WriteError),
        _ => None,
    }
}

/// Whether an element is read.
fn is_kept(place: ScanPlace, name: &[u8]) -> bool {
    match place {
        ScanPlace::First => true,
        ScanPlace::Cursor => name == b"id",
        ScanPlace::WriteConcernError | ScanPlace::WriteError => {
            matches!(name, b"code" | b"codeName" | b"errmsg")
        }
        ScanPlace::Top => {
            super::shape::is_part(name)
                || matches!(
                    name,
                    b"$db"
                        | b"collection"
                        | b"txnNumber"
                        | b"maxTimeMS"
                        | b"maxAwaitTimeMS"
                        | b"ok"
                        | b"code"
                        | b"codeName"
                        | b"errmsg"
                        | b"err"
                        | b"n"
                        | b"nModified"
                        | b"nErrors"
                )
        }
        _ => false,
    }
}
