//! Walks through a message by the layout of its API and version, across the parts in which it arrives. `tables` contains the layouts
//! up to the last field that is read; record sets are walked by the headers of their batches.

use super::batches::{BatchRead, RecordBatch};

/// An API: requests and responses with one key.
pub struct Api {
    pub key: i16,
    pub name: &'static str,
    /// First and last version of these layouts.
    pub versions: (i16, i16),
    /// First version with compact lengths and tagged fields.
    pub flexible_from: i16,
    pub request: &'static [Field],
    pub response: &'static [Field],
}

/// A field of a message.
pub struct Field {
    kind: FieldKind,
    slot: FieldSlot,
    versions: (i16, i16),
}

enum FieldKind {
    Fixed(u8),
    Text,
    Bytes,
    Records,
    Tags,
    Array(&'static [Field]),
    Inside(&'static [Field]),
    Nullable(&'static [Field]),
}

/// Use of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldSlot {
    Skip,
    Topic,
    TopicId,
    Partition,
    ForgottenTopic,
    ForgottenTopicId,
    ForgottenPartition,
    Group,
    Transaction,
    Key,
    KeyType,
    Acks,
    MaxWait,
    MinBytes,
    SessionId,
    SessionEpoch,
    FetchOffset,
    Throttle,
    BaseOffset,
    HighWatermark,
    Error,
}

const fn field(kind: FieldKind, slot: FieldSlot) -> Field {
    Field {
        kind,
        slot,
        versions: (0, i16::MAX),
    }
}

/// An integer or a UUID of `length` bytes, or fields that are skipped.
pub const fn fixed(length: u8, slot: FieldSlot) -> Field {
    field(FieldKind::Fixed(length), slot)
}

pub const fn text(slot: FieldSlot) -> Field {
    field(FieldKind::Text, slot)
}

pub const fn bytes() -> Field {
    field(FieldKind::Bytes, FieldSlot::Skip)
}

/// Record batches.
pub const fn records() -> Field {
    field(FieldKind::Records, FieldSlot::Skip)
}

/// Tagged fields at the end of a structure.
pub const fn tags() -> Field {
    field(FieldKind::Tags, FieldSlot::Skip)
}

pub const fn array(of: &'static [Field]) -> Field {
    field(FieldKind::Array(of), FieldSlot::Skip)
}

/// A structure.
pub const fn inside(of: &'static [Field]) -> Field {
    field(FieldKind::Inside(of), FieldSlot::Skip)
}

/// A structure that may be absent.
pub const fn nullable(of: &'static [Field]) -> Field {
    field(FieldKind::Nullable(of), FieldSlot::Skip)
}

impl Field {
    /// In versions from `first` on.
    pub const fn since(self, first: i16) -> Field {
        let versions = (first, self.versions.1);
        Field { versions, ..self }
    }

    /// In versions up to `last`.
    pub const fn until(self, last: i16) -> Field {
        let versions = (self.versions.0, last);
        Field { versions, ..self }
    }
}

/// Maximum length of a text that is read; names of topics have up to 249 bytes.
const TEXT_BYTES_MAX: usize = 1024;
/// Maximum number of structures inside of each other, with a margin.
const LEVELS_MAX: usize = 8;

/// Contents of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkEvent<'a> {
    None,
    Number(FieldSlot, i64),
    /// `None`: null.
    Text(FieldSlot, Option<&'a [u8]>),
    Uuid(FieldSlot, [u8; 16]),
    /// Length of a record set that is not null.
    RecordSet(u32),
    Batch(RecordBatch),
    /// The rest of a record set has an unknown format.
    UnknownBatch,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkStep<'a> {
    /// `used` bytes were read; `skip` more follow that are not.
    Token {
        used: usize,
        skip: usize,
        event: WalkEvent<'a>,
    },
    NeedMore,
    /// The fields that are read have ended.
    End,
    /// The bytes contradict the layout.
    Bad,
}

/// A part of a message: bytes that are read, and bytes that are skipped.
#[derive(Clone, Copy, Debug)]
pub struct WalkPart {
    pub head: usize,
    pub body: usize,
    /// Bytes of the message behind the part.
    pub left: usize,
    /// The part ends in front of a field of which bytes are missing.
    pub is_within: bool,
    /// Number of steps in it.
    pub steps: usize,
}

/// Position in a message.
#[derive(Clone, Copy)]
pub struct Walk {
    version: i16,
    is_flexible: bool,
    is_known: bool,
    /// Bytes of the message that follow.
    pub left: usize,
    /// Tagged fields to skip.
    tags: u32,
    /// Bytes of the record set in progress that follow.
    records: usize,
    levels: [WalkLevel; LEVELS_MAX],
    depth: usize,
}

#[derive(Clone, Copy)]
struct WalkLevel {
    fields: &'static [Field],
    at: usize,
    /// Elements of the array that follow, with the one in progress.
    times: u32,
}

impl Default for Walk {
    fn default() -> Self {
        Walk::unknown(0)
    }
}

impl Walk {
    /// Begins at a body of `left` bytes with `fields`. `format`: the version, and whether it is flexible.
    pub fn new(fields: &'static [Field], format: (i16, bool), left: usize) -> Walk {
        let level = WalkLevel {
            fields,
            at: 0,
            times: 1,
        };
        Walk {
            version: format.0,
            is_flexible: format.1,
            is_known: true,
            left,
            tags: 0,
            records: 0,
            levels: [level; LEVELS_MAX],
            depth: 1,
        }
    }

    /// Begins at a body of `left` bytes that is not read.
    pub fn unknown(left: usize) -> Walk {
        Walk {
            is_known: false,
            ..Walk::new(&[], (0, false), left)
        }
    }

    /// Begins with `fields` in front of the body if `is_there`.
    pub fn behind(mut self, fields: &'static [Field], is_there: bool) -> Walk {
        if is_there {
            self.levels[1] = WalkLevel {
                fields,
                at: 0,
                times: 1,
            };
            self.depth = 2;
        }
        self
    }

    /// Whether `bytes` may be the beginning of the rest.
    pub fn fits(&mut self, bytes: &[u8]) -> bool {
        let mut at = 0;
        loop {
            match self.step(bytes.get(at..).unwrap_or_default()) {
                WalkStep::Token { used, skip, .. } => at += used + skip,
                WalkStep::NeedMore => return self.left + at > bytes.len(),
                WalkStep::End => return true,
                WalkStep::Bad => return false,
            }
        }
    }

    /// Where a part of the message ends: `bytes` begin with the contents at this position.
    pub fn part(mut self, bytes: &[u8]) -> WalkPart {
        let mut at = 0;
        let mut steps = 0;
        loop {
            steps += 1;
            match self.step(&bytes[at..]) {
                WalkStep::Token { used, skip, .. } if at + used + skip > bytes.len() => {
                    let (head, body) = (at + used, skip);
                    return WalkPart {
                        head,
                        body,
                        left: self.left,
                        is_within: false,
                        steps,
                    };
                }
                WalkStep::Token { used, skip, .. } => at += used + skip,
                step => {
                    let is_within = step == WalkStep::NeedMore;
                    let body = if is_within { 0 } else { self.left };
                    return WalkPart {
                        head: at,
                        body,
                        left: self.left - body,
                        is_within,
                        steps,
                    };
                }
            }
        }
    }

    /// Whether the layout is known.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Ends: nothing of the rest is read.
    pub fn stop(&mut self) {
        self.depth = 0;
        (self.tags, self.records) = (0, 0);
    }

    /// Ends, and forgets the layout.
    pub fn clear(&mut self) {
        self.stop();
        (self.is_known, self.left) = (false, 0);
    }

    /// Reads the next contents.
    #[inline]
    pub fn step<'a>(&mut self, bytes: &'a [u8]) -> WalkStep<'a> {
        let step = self.next(bytes);
        if let WalkStep::Token { used, skip, .. } = step {
            if used + skip > self.left {
                self.stop();
                return WalkStep::Bad;
            }
            self.left -= used + skip;
        } else if step == WalkStep::Bad || step == WalkStep::NeedMore && bytes.len() >= self.left {
            self.stop();
            return WalkStep::Bad;
        }
        step
    }

    #[inline(always)]
    fn next<'a>(&mut self, bytes: &'a [u8]) -> WalkStep<'a> {
        if self.tags > 0 {
            return self.tagged_field(bytes);
        }
        if self.records > 0 {
            return self.batch(bytes);
        }
        while self.depth > 0 {
            let level = &mut self.levels[self.depth - 1];
            let Some(field) = level.fields.get(level.at) else {
                level.times -= 1;
                level.at = 0;
                self.depth -= usize::from(level.times == 0);
                continue;
            };
            let is_absent = self.version < field.versions.0 || self.version > field.versions.1;
            if is_absent || !self.is_flexible && matches!(field.kind, FieldKind::Tags) {
                level.at += 1;
                continue;
            }
            return self.field(field, bytes);
        }
        WalkStep::End
    }

    #[inline(always)]
    fn field<'a>(&mut self, field: &'static Field, bytes: &'a [u8]) -> WalkStep<'a> {
        match field.kind {
            FieldKind::Fixed(length) => self.fixed(usize::from(length), field.slot, bytes),
            FieldKind::Text => self.text(field.slot, bytes),
            FieldKind::Bytes => match self.length(bytes, 4) {
                Some((used, length)) => {
                    self.pass();
                    token(used, length.unwrap_or(0), WalkEvent::None)
                }
                None => WalkStep::NeedMore,
            },
            FieldKind::Records => match self.length(bytes, 4) {
                Some((used, length)) => {
                    self.pass();
                    self.records = length.unwrap_or(0);
                    let event = length.map_or(WalkEvent::None, |length| {
                        WalkEvent::RecordSet(length as u32)
                    });
                    if self.records + used > self.left {
                        return WalkStep::Bad;
                    }
                    token(used, 0, event)
                }
                None => WalkStep::NeedMore,
            },
            FieldKind::Tags => match varint(bytes) {
                Some((used, count)) => {
                    self.pass();
                    self.tags = count;
                    token(used, 0, WalkEvent::None)
                }
                None => WalkStep::NeedMore,
            },
            FieldKind::Array(of) => match self.length(bytes, 4) {
                Some((used, count)) => self.array(of, used, count.unwrap_or(0)),
                None => WalkStep::NeedMore,
            },
            FieldKind::Inside(of) => self.enter(of, 1, 0),
            FieldKind::Nullable(of) => match bytes.first() {
                Some(0x80..) => {
                    self.pass();
                    token(1, 0, WalkEvent::None)
                }
                Some(_) => self.enter(of, 1, 1),
                None => WalkStep::NeedMore,
            },
        }
    }

    fn pass(&mut self) {
        self.levels[self.depth - 1].at += 1;
    }

    #[inline(always)]
    fn fixed<'a>(&mut self, length: usize, slot: FieldSlot, bytes: &'a [u8]) -> WalkStep<'a> {
        if slot == FieldSlot::Skip {
            self.pass();
            return token(0, length, WalkEvent::None);
        }
        let Some(value) = bytes.get(..length) else {
            return WalkStep::NeedMore;
        };
        self.pass();
        let event = match *value {
            [a] => WalkEvent::Number(slot, i64::from(a as i8)),
            [a, b] => WalkEvent::Number(slot, i16::from_be_bytes([a, b]).into()),
            [a, b, c, d] => WalkEvent::Number(slot, i32::from_be_bytes([a, b, c, d]).into()),
            _ => match (value.first_chunk(), value.first_chunk()) {
                (Some(id), _) => WalkEvent::Uuid(slot, *id),
                (None, Some(number)) => WalkEvent::Number(slot, i64::from_be_bytes(*number)),
                _ => WalkEvent::None,
            },
        };
        token(length, 0, event)
    }

    fn text<'a>(&mut self, slot: FieldSlot, bytes: &'a [u8]) -> WalkStep<'a> {
        let Some((used, length)) = self.length(bytes, 2) else {
            return WalkStep::NeedMore;
        };
        if slot == FieldSlot::Skip {
            self.pass();
            return token(used, length.unwrap_or(0), WalkEvent::None);
        }
        let Some(length) = length else {
            self.pass();
            return token(used, 0, WalkEvent::Text(slot, None));
        };
        let read = length.min(TEXT_BYTES_MAX);
        match bytes.get(used..used + read) {
            Some(text) => {
                self.pass();
                token(
                    used + read,
                    length - read,
                    WalkEvent::Text(slot, Some(text)),
                )
            }
            None => WalkStep::NeedMore,
        }
    }

    fn array<'a>(&mut self, of: &'static [Field], used: usize, count: usize) -> WalkStep<'a> {
        if count == 0 {
            self.pass();
            return token(used, 0, WalkEvent::None);
        }
        match *of {
            [
                Field {
                    kind: FieldKind::Fixed(length),
                    slot: FieldSlot::Skip,
                    ..
                },
            ] => {
                self.pass();
                token(used, count * usize::from(length), WalkEvent::None)
            }
            // An element has at least one byte.
            _ if count > self.left => WalkStep::Bad,
            _ => self.enter(of, count as u32, used),
        }
    }

    fn enter<'a>(&mut self, fields: &'static [Field], times: u32, used: usize) -> WalkStep<'a> {
        self.pass();
        let Some(level) = self.levels.get_mut(self.depth) else {
            return WalkStep::Bad;
        };
        *level = WalkLevel {
            fields,
            at: 0,
            times,
        };
        self.depth += 1;
        token(used, 0, WalkEvent::None)
    }

    fn tagged_field<'a>(&mut self, bytes: &'a [u8]) -> WalkStep<'a> {
        let tag = varint(bytes);
        let size = tag.and_then(|(used, _)| varint(&bytes[used..]));
        let Some(((first, _), (second, size))) = tag.zip(size) else {
            return if bytes.len() >= 10 {
                WalkStep::Bad
            } else {
                WalkStep::NeedMore
            };
        };
        self.tags -= 1;
        token(first + second, size as usize, WalkEvent::None)
    }

    fn batch<'a>(&mut self, bytes: &'a [u8]) -> WalkStep<'a> {
        let (used, skip, event) = match RecordBatch::read(bytes, self.records) {
            BatchRead::NeedMore => return WalkStep::NeedMore,
            BatchRead::Batch { used, skip, batch } => (used, skip, WalkEvent::Batch(batch)),
            BatchRead::Cut => (0, self.records, WalkEvent::None),
            BatchRead::Unknown => (0, self.records, WalkEvent::UnknownBatch),
        };
        self.records -= used + skip;
        token(used, skip, event)
    }

    /// Reads a length or a count with its number of bytes: compact, or of `wide` bytes. Inner `None`: null.
    fn length(&self, bytes: &[u8], wide: usize) -> Option<(usize, Option<usize>)> {
        if self.is_flexible {
            let (used, length) = varint(bytes)?;
            return Some((used, (length as usize).checked_sub(1)));
        }
        let length = match *bytes.get(..wide)? {
            [a, b] => i16::from_be_bytes([a, b]).into(),
            [a, b, c, d] => i32::from_be_bytes([a, b, c, d]),
            _ => 0,
        };
        Some((wide, usize::try_from(length).ok()))
    }
}

fn token(used: usize, skip: usize, event: WalkEvent<'_>) -> WalkStep<'_> {
    WalkStep::Token { used, skip, event }
}

/// Reads an unsigned number of up to 32 bits, and its length.
fn varint(bytes: &[u8]) -> Option<(usize, u32)> {
    let mut value = 0u32;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((at + 1, value));
        }
    }
    // A longer one is an absurd length.
    (bytes.len() >= 5).then_some((5, u32::MAX))
}
