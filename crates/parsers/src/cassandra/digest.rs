//! Stored form of a message: numbers and texts of its fields.

use std::ops::Range;

use super::header::{EnvelopeHeader, HEADER};

/// Numbers of a message; for each message those of its kind are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CqlNumber {
    /// 0 LZ4, 1 Snappy.
    Compression,
    Consistency,
    SerialConsistency,
    PageSize,
    /// 1: the request has a paging state.
    Continues,
    Statements,
    BatchType,
    Kind,
    Rows,
    /// 1: the result has a paging state.
    MorePages,
    ErrorCode,
    Received,
    Required,
}

const NUMBERS: usize = CqlNumber::Required as usize + 1;

/// Texts of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CqlText {
    Statement,
    Keyspace,
    Table,
    Message,
    Warnings,
    Tracing,
    Event,
}

const TEXTS: usize = CqlText::Event as usize + 1;
/// Length of the stored form without texts: the header of the envelope, numbers, and lengths of texts.
const FIXED: usize = HEADER + 8 * NUMBERS + 4 * TEXTS;
/// A number or length that is not known.
const NONE: u64 = u64::MAX;
const NO_TEXT: u32 = u32::MAX;

/// The fields of a message in progress.
#[derive(Default)]
pub struct CqlDigest {
    header: [u8; HEADER],
    numbers: [Option<u64>; NUMBERS],
    bytes: Vec<u8>,
    texts: [Option<Range<usize>>; TEXTS],
}

impl CqlDigest {
    /// Begins a message with this header.
    pub fn begin(&mut self, header: &[u8; HEADER]) {
        self.header = *header;
        self.numbers = [None; NUMBERS];
        self.bytes.clear();
        self.texts = [const { None }; TEXTS];
    }

    pub fn set(&mut self, of: CqlNumber, value: impl Into<u64>) {
        self.numbers[of as usize] = Some(value.into());
    }

    pub fn set_text(&mut self, of: CqlText, text: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        self.texts[of as usize] = Some(start..self.bytes.len());
    }

    pub fn number(&self, of: CqlNumber) -> Option<u64> {
        self.numbers[of as usize]
    }

    pub fn text(&self, of: CqlText) -> Option<&[u8]> {
        Some(&self.bytes[self.texts[of as usize].clone()?])
    }

    /// Writes the stored form.
    pub fn store(&self, kept: &mut Vec<u8>) {
        kept.clear();
        kept.extend_from_slice(&self.header);
        for number in self.numbers {
            kept.extend_from_slice(&number.unwrap_or(NONE).to_le_bytes());
        }
        for text in &self.texts {
            let length = text.as_ref().map_or(NO_TEXT, |range| range.len() as u32);
            kept.extend_from_slice(&length.to_le_bytes());
        }
        for range in self.texts.iter().flatten() {
            kept.extend_from_slice(&self.bytes[range.clone()]);
        }
    }
}

/// A stored message.
#[derive(Clone, Copy)]
pub struct CqlDigestView<'a>(&'a [u8]);

impl<'a> CqlDigestView<'a> {
    pub fn of(kept: &'a [u8]) -> Option<CqlDigestView<'a>> {
        (kept.len() >= FIXED).then_some(CqlDigestView(kept))
    }

    /// Its header.
    pub fn header(self) -> Option<EnvelopeHeader> {
        EnvelopeHeader::read(self.0)
    }

    pub fn number(self, of: CqlNumber) -> Option<u64> {
        let bytes = self.0.get(HEADER + 8 * of as usize..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes)).filter(|number| *number != NONE)
    }

    /// Length of a text.
    fn length(self, of: usize) -> Option<usize> {
        let bytes = self.0.get(HEADER + 8 * NUMBERS + 4 * of..)?.first_chunk()?;
        let length = Some(u32::from_le_bytes(*bytes)).filter(|length| *length != NO_TEXT)?;
        Some(length as usize)
    }

    pub fn text(self, of: CqlText) -> Option<&'a [u8]> {
        let length = self.length(of as usize)?;
        let before: usize = (0..of as usize).filter_map(|text| self.length(text)).sum();
        self.0.get(FIXED + before..)?.get(..length)
    }
}
