//! Encoding of a report between processes.
//!
//! # Format
//!
//! A byte for the version, 1 or 2, and a byte for the compression of the rest: 0 none, 1 a single zstd frame with its
//! content size. Then, with numbers of eight bytes and lengths of four, little endian:
//!
//! - the watermark; the bytes of byte streams captured and missing;
//! - 1 and a stretch (from, to, packets seen and lost, bytes seen and lost), or 0;
//! - in version 2 the period in which limits took effect (from, to, count);
//! - the number of partial results, and each with its length ([`stream::PartialResultSet::encode`]);
//! - 1 and the partial result of open windows, or 0;
//! - the length of the rows, and the rows: none, or a stream in Arrow's IPC format with its schema, readable by any
//!   Arrow implementation. Fields are identified by name.
//!
//! Epochs are not included: they have no meaning in another process.

mod rows;

use std::fmt;

use stream::{EngineSet, LimitedStretch, LossCount, LossStretch, PartialResultSet};
use wire::Timestamp;

use crate::report::{ReportPart, WorkerReport};

/// Format versions: without and with the period of limits. Older readers reject the second, which is rare.
const PLAIN: u8 = 1;
const LIMITED: u8 = 2;
/// Minimum size for compression, in bytes.
const PACKED_MIN: usize = 256;
/// zstd level: fast, and halves the size.
const LEVEL: i32 = 1;
/// Maximum bytes of an uncompressed report; larger ones are rejected.
pub const REPORT_BYTES_MAX: usize = 64 << 20;

/// Reason why bytes are not a report for an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportError {
    /// Unknown version.
    Version(u8),
    /// Truncated.
    Short,
    /// More than [`REPORT_BYTES_MAX`].
    TooLarge,
    /// Invalid value.
    Invalid(&'static str),
    /// Invalid windows.
    Windows(stream::MalformedPartial),
    /// Invalid rows.
    Rows(String),
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReportError::Version(version) => write!(f, "report of version {version}"),
            ReportError::Short => f.write_str("truncated report"),
            ReportError::TooLarge => f.write_str("report that is too large"),
            ReportError::Invalid(what) => write!(f, "report with invalid {what}"),
            ReportError::Windows(why) => write!(f, "report with a {why}"),
            ReportError::Rows(why) => write!(f, "report with rows that cannot be read: {why}"),
        }
    }
}

impl std::error::Error for ReportError {}

impl From<stream::MalformedPartial> for ReportError {
    fn from(why: stream::MalformedPartial) -> ReportError {
        ReportError::Windows(why)
    }
}

/// Properties of a report readable without an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportHead {
    /// Watermark: no earlier data follows.
    pub watermark: Timestamp,
    /// Capture loss of the lane's packets so far.
    pub loss: LossCount,
    /// Content.
    pub brings: ReportContent,
}

/// Content of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportContent {
    /// Parts of windows, or only the watermark: such reports can be merged.
    Windows,
    /// Tuples, with their number.
    Rows(u64),
}

/// Reads the header of a report, for processes that only pass it on.
///
/// # Errors
/// As [`WorkerReport::decode`], for the parts read.
pub fn head(bytes: &[u8]) -> Result<ReportHead, ReportError> {
    let unpacked;
    let mut from = ReportReader(match bytes {
        [PLAIN | LIMITED, 0, plain @ ..] => plain,
        [PLAIN | LIMITED, 1, packed @ ..] => {
            unpacked = unpack(packed)?;
            &unpacked
        }
        [PLAIN | LIMITED, ..] => return Err(ReportError::Invalid("compression")),
        [other, ..] => return Err(ReportError::Version(*other)),
        [] => return Err(ReportError::Short),
    });
    let watermark = Timestamp(from.signed()?);
    let loss = from.loss()?;
    if from.flag()? {
        from.take(6 * 8)?;
    }
    if bytes[0] == LIMITED {
        from.take(3 * 8)?;
    }
    for _ in 0..from.len()? {
        from.bytes()?;
    }
    if from.flag()? {
        from.bytes()?;
    }
    let brings = match from.bytes()? {
        [] => ReportContent::Windows,
        rows => ReportContent::Rows(rows::count(rows)),
    };
    Ok(ReportHead {
        watermark,
        loss,
        brings,
    })
}

/// Replaces the capture loss of an encoded report by the part since `before`, for processes that only pass it on.
///
/// # Errors
/// As [`head`].
pub fn since(bytes: &[u8], before: LossCount) -> Result<Vec<u8>, ReportError> {
    let loss = head(bytes)?.loss;
    let mut plain = match bytes {
        [_, 1, packed @ ..] => unpack(packed)?,
        _ => bytes[2..].to_vec(),
    };
    // After the watermark.
    let mut since = Vec::new();
    put(&mut since, loss.seen.saturating_sub(before.seen));
    put(&mut since, loss.lost.saturating_sub(before.lost));
    plain[8..8 + since.len()].copy_from_slice(&since);
    Ok(pack(bytes[0], plain))
}

impl WorkerReport {
    /// Encodes as described in the module documentation.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let plain = self.plain();
        let version = if self.limited.is_some() {
            LIMITED
        } else {
            PLAIN
        };
        pack(version, plain)
    }

    /// Decodes the output of [`WorkerReport::encode`] for engines of the same dataflows. Input is untrusted: invalid bytes
    /// are rejected or result in wrong numbers, without other harm.
    ///
    /// # Errors
    /// See [`ReportError`].
    pub fn decode(bytes: &[u8], engines: &EngineSet) -> Result<WorkerReport, ReportError> {
        match bytes {
            [PLAIN | LIMITED, 0, plain @ ..] if plain.len() > REPORT_BYTES_MAX => {
                Err(ReportError::TooLarge)
            }
            [version @ (PLAIN | LIMITED), 0, plain @ ..] => read(plain, *version, engines),
            [version @ (PLAIN | LIMITED), 1, packed @ ..] => {
                read(&unpack(packed)?, *version, engines)
            }
            [PLAIN | LIMITED, ..] => Err(ReportError::Invalid("compression")),
            [other, ..] => Err(ReportError::Version(*other)),
            [] => Err(ReportError::Short),
        }
    }

    fn plain(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, self.watermark.0 as u64);
        put_loss(&mut out, self.loss);
        out.push(u8::from(self.lost.is_some()));
        if let Some(LossStretch {
            from_ns,
            to_ns,
            packets,
            bytes,
        }) = self.lost
        {
            put(&mut out, from_ns as u64);
            put(&mut out, to_ns as u64);
            put_loss(&mut out, packets);
            put_loss(&mut out, bytes);
        }
        if let Some(LimitedStretch {
            from_ns,
            to_ns,
            times,
        }) = self.limited
        {
            put(&mut out, from_ns as u64);
            put(&mut out, to_ns as u64);
            put(&mut out, times);
        }
        put_len(&mut out, self.part.windows.len());
        self.part
            .windows
            .iter()
            .for_each(|windows| put_bytes(&mut out, &windows.encode()));
        out.push(u8::from(self.open.is_some()));
        self.open
            .iter()
            .for_each(|open| put_bytes(&mut out, &open.encode()));
        put_bytes(&mut out, &rows::encode(&self.part.rows));
        out
    }
}

fn pack(version: u8, plain: Vec<u8>) -> Vec<u8> {
    let packed = (plain.len() >= PACKED_MIN)
        .then(|| zstd::bulk::compress(&plain, LEVEL).ok())
        .flatten();
    match packed {
        Some(packed) => [&[version, 1][..], &packed].concat(),
        None => [&[version, 0][..], &plain].concat(),
    }
}

fn unpack(packed: &[u8]) -> Result<Vec<u8>, ReportError> {
    // The compressor writes the content size into the header.
    let bytes = zstd::zstd_safe::get_frame_content_size(packed)
        .ok()
        .flatten();
    let bytes = bytes.ok_or(ReportError::Invalid("compression"))?;
    if bytes > REPORT_BYTES_MAX as u64 {
        return Err(ReportError::TooLarge);
    }
    zstd::bulk::decompress(packed, bytes as usize).map_err(|_| ReportError::Invalid("compression"))
}

fn read(plain: &[u8], version: u8, engines: &EngineSet) -> Result<WorkerReport, ReportError> {
    let mut from = ReportReader(plain);
    let watermark = Timestamp(from.signed()?);
    let loss = from.loss()?;
    let lost = if from.flag()? {
        Some(LossStretch {
            from_ns: from.signed()?,
            to_ns: from.signed()?,
            packets: from.loss()?,
            bytes: from.loss()?,
        })
    } else {
        None
    };
    let limited = match version {
        LIMITED => Some(LimitedStretch {
            from_ns: from.signed()?,
            to_ns: from.signed()?,
            times: from.number()?,
        }),
        _ => None,
    };
    let mut part = ReportPart::default();
    for _ in 0..from.len()? {
        part.add_windows(engines.decode_partials(from.bytes()?)?);
    }
    let open: Option<PartialResultSet> = if from.flag()? {
        Some(engines.decode_partials(from.bytes()?)?)
    } else {
        None
    };
    let rows = rows::decode(from.bytes()?, engines.first()).map_err(ReportError::Rows)?;
    rows.into_iter().for_each(|rows| part.add_rows(rows));
    match from.0 {
        [] => Ok(WorkerReport {
            epoch: 0,
            watermark,
            part,
            loss,
            lost,
            limited,
            open,
        }),
        _ => Err(ReportError::Invalid("trailing bytes")),
    }
}

fn put(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put_loss(out: &mut Vec<u8>, loss: LossCount) {
    put(out, loss.seen);
    put(out, loss.lost);
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Remaining bytes.
struct ReportReader<'a>(&'a [u8]);

impl<'a> ReportReader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], ReportError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(ReportError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReportError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(ReportError::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<u64, ReportError> {
        self.array().map(u64::from_le_bytes)
    }

    fn signed(&mut self) -> Result<i64, ReportError> {
        self.array().map(i64::from_le_bytes)
    }

    fn flag(&mut self) -> Result<bool, ReportError> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [_] => Err(ReportError::Invalid("flag")),
        }
    }

    fn len(&mut self) -> Result<usize, ReportError> {
        self.array().map(|len| u32::from_le_bytes(len) as usize)
    }

    fn bytes(&mut self) -> Result<&'a [u8], ReportError> {
        let len = self.len()?;
        self.take(len)
    }

    fn loss(&mut self) -> Result<LossCount, ReportError> {
        Ok(LossCount {
            seen: self.number()?,
            lost: self.number()?,
        })
    }
}

#[cfg(test)]
mod tests;
