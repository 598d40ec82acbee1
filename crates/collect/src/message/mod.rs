//! A report's form for the way from one process to another.
//!
//! # The form
//!
//! A byte for the version, which is 1 or 2, and one for how what follows is packed: 0 as it is, 1 by zstd in one frame that says
//! its length. Then, numbers being of
//! eight bytes, lengths of four, the lowest first:
//!
//! - the watermark; the bytes of streams seen and lacking;
//! - 1 and a stretch (from, to, packets seen and lost, bytes seen and lost), or 0;
//! - in version 2 the time in which limits took effect (from, to, how often);
//! - how many partial results there are, and each with its length ([`stream::Partials::encode`]);
//! - 1 and the partial result of open windows, or 0;
//! - the length of the rows, and these: none, or a stream of Arrow's IPC format that says its schema itself and that any
//!   program reads which knows Arrow. A field is known by its name.
//!
//! Of epochs it says nothing: those of one process mean nothing in another.

mod rows;

use std::fmt;

use stream::{Engines, Limited, Loss, Partials, Stretch};
use wire::Timestamp;

use crate::report::{Part, Report};

/// Versions of the form: without and with the time of limits. Readers that know only the first refuse the second, which is
/// rare.
const PLAIN: u8 = 1;
const LIMITED: u8 = 2;
/// What less takes is not packed.
const PACKED_MIN: usize = 256;
/// Fast, and half as large.
const LEVEL: i32 = 1;
/// Most bytes of a report, unpacked; what is larger is refused.
pub const REPORT_BYTES_MAX: usize = 64 << 20;

/// Why bytes are no report for an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They are of another version.
    Version(u8),
    /// They end before what they claim to hold.
    Short,
    /// There are more than [`REPORT_BYTES_MAX`].
    TooLarge,
    /// What they say cannot be.
    Invalid(&'static str),
    /// Its windows.
    Windows(stream::Malformed),
    /// Its rows.
    Rows(String),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Version(version) => write!(f, "report of version {version}"),
            Malformed::Short => f.write_str("report that is cut off"),
            Malformed::TooLarge => f.write_str("report that is too large"),
            Malformed::Invalid(what) => write!(f, "report with {what} that cannot be"),
            Malformed::Windows(why) => write!(f, "report with a {why}"),
            Malformed::Rows(why) => write!(f, "report with rows that cannot be read: {why}"),
        }
    }
}

impl std::error::Error for Malformed {}

impl From<stream::Malformed> for Malformed {
    fn from(why: stream::Malformed) -> Malformed {
        Malformed::Windows(why)
    }
}

/// What a report says of itself without an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Event time: nothing from before it will follow.
    pub watermark: Timestamp,
    /// What its packets seem to lack so far.
    pub loss: Loss,
    /// What it brings.
    pub brings: Brings,
}

/// What a report brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brings {
    /// Parts of windows, or nothing but its time: reports that can be merged.
    Windows,
    /// So many tuples.
    Rows(u64),
}

/// What a report says of itself, for those who only pass it on.
///
/// # Errors
/// As [`Report::decode`], of what is looked at.
pub fn head(bytes: &[u8]) -> Result<Head, Malformed> {
    let unpacked;
    let mut from = Reader(match bytes {
        [PLAIN | LIMITED, 0, plain @ ..] => plain,
        [PLAIN | LIMITED, 1, packed @ ..] => {
            unpacked = unpack(packed)?;
            &unpacked
        }
        [PLAIN | LIMITED, ..] => return Err(Malformed::Invalid("packing")),
        [other, ..] => return Err(Malformed::Version(*other)),
        [] => return Err(Malformed::Short),
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
        [] => Brings::Windows,
        rows => Brings::Rows(rows::count(rows)),
    };
    Ok(Head { watermark, loss, brings })
}

impl Report {
    /// The form of the module's text.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (plain, version) = (self.plain(), if self.limited.is_some() { LIMITED } else { PLAIN });
        let packed = (plain.len() >= PACKED_MIN).then(|| zstd::bulk::compress(&plain, LEVEL).ok()).flatten();
        match packed {
            Some(packed) => [&[version, 1][..], &packed].concat(),
            None => [&[version, 0][..], &plain].concat(),
        }
    }

    /// What [`Report::encode`] wrote, for engines of the same dataflows. Bytes that anybody sent do no harm: what they can say is
    /// said, in numbers that may be false, or they are refused.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn decode(bytes: &[u8], engines: &Engines) -> Result<Report, Malformed> {
        match bytes {
            [PLAIN | LIMITED, 0, plain @ ..] if plain.len() > REPORT_BYTES_MAX => Err(Malformed::TooLarge),
            [version @ (PLAIN | LIMITED), 0, plain @ ..] => read(plain, *version, engines),
            [version @ (PLAIN | LIMITED), 1, packed @ ..] => read(&unpack(packed)?, *version, engines),
            [PLAIN | LIMITED, ..] => Err(Malformed::Invalid("packing")),
            [other, ..] => Err(Malformed::Version(*other)),
            [] => Err(Malformed::Short),
        }
    }

    fn plain(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, self.watermark.0 as u64);
        put_loss(&mut out, self.loss);
        out.push(u8::from(self.lost.is_some()));
        if let Some(Stretch { from_ns, to_ns, packets, bytes }) = self.lost {
            put(&mut out, from_ns as u64);
            put(&mut out, to_ns as u64);
            put_loss(&mut out, packets);
            put_loss(&mut out, bytes);
        }
        if let Some(Limited { from_ns, to_ns, times }) = self.limited {
            put(&mut out, from_ns as u64);
            put(&mut out, to_ns as u64);
            put(&mut out, times);
        }
        put_len(&mut out, self.part.windows.len());
        self.part.windows.iter().for_each(|windows| put_bytes(&mut out, &windows.encode()));
        out.push(u8::from(self.open.is_some()));
        self.open.iter().for_each(|open| put_bytes(&mut out, &open.encode()));
        put_bytes(&mut out, &rows::encode(&self.part.rows));
        out
    }
}

fn unpack(packed: &[u8]) -> Result<Vec<u8>, Malformed> {
    // The compressor writes the length at the front.
    let bytes = zstd::zstd_safe::get_frame_content_size(packed).ok().flatten();
    let bytes = bytes.ok_or(Malformed::Invalid("packing"))?;
    if bytes > REPORT_BYTES_MAX as u64 {
        return Err(Malformed::TooLarge);
    }
    zstd::bulk::decompress(packed, bytes as usize).map_err(|_| Malformed::Invalid("packing"))
}

fn read(plain: &[u8], version: u8, engines: &Engines) -> Result<Report, Malformed> {
    let mut from = Reader(plain);
    let watermark = Timestamp(from.signed()?);
    let loss = from.loss()?;
    let lost = match from.flag()? {
        false => None,
        true => Some(Stretch {
            from_ns: from.signed()?,
            to_ns: from.signed()?,
            packets: from.loss()?,
            bytes: from.loss()?,
        }),
    };
    let limited = match version {
        LIMITED => Some(Limited { from_ns: from.signed()?, to_ns: from.signed()?, times: from.number()? }),
        _ => None,
    };
    let mut part = Part::default();
    for _ in 0..from.len()? {
        part.add_windows(engines.decode_partials(from.bytes()?)?);
    }
    let open: Option<Partials> = match from.flag()? {
        false => None,
        true => Some(engines.decode_partials(from.bytes()?)?),
    };
    let rows = rows::decode(from.bytes()?, engines.first()).map_err(Malformed::Rows)?;
    rows.into_iter().for_each(|rows| part.add_rows(rows));
    match from.0 {
        [] => Ok(Report { epoch: 0, watermark, part, loss, lost, limited, open }),
        _ => Err(Malformed::Invalid("more bytes")),
    }
}

fn put(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put_loss(out: &mut Vec<u8>, loss: Loss) {
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

/// What is left to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    fn signed(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_le_bytes)
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [_] => Err(Malformed::Invalid("a flag")),
        }
    }

    fn len(&mut self) -> Result<usize, Malformed> {
        self.array().map(|len| u32::from_le_bytes(len) as usize)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.len()?;
        self.take(len)
    }

    fn loss(&mut self) -> Result<Loss, Malformed> {
        Ok(Loss { seen: self.number()?, lost: self.number()? })
    }
}

#[cfg(test)]
mod tests;
