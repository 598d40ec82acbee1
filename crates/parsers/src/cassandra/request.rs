//! The body of a request.

use super::body::BodyReader;
use super::codes::{BATCH, EXECUTE, PREPARE, QUERY, STARTUP};
use super::digest::{CqlDigest, CqlNumber, CqlText};
use super::header::{EnvelopeHeader, WITH_PAYLOAD};

/// Maximum stored length of a statement.
pub const STATEMENT_BYTES_MAX: usize = 32 * 1024;

/// Flags of parameters.
const VALUES: u32 = 0x01;
const PAGE_SIZE: u32 = 0x04;
const PAGING_STATE: u32 = 0x08;
const SERIAL_CONSISTENCY: u32 = 0x10;
const TIMESTAMP: u32 = 0x20;
const NAMES: u32 = 0x40;
const KEYSPACE: u32 = 0x80;
/// A flag of PREPARE in version 5.
const PREPARE_KEYSPACE: u32 = 0x01;

/// What a request states besides the fields of its digest.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestFacts<'a> {
    /// Identifier of the prepared statement; of a batch that of the first statement.
    pub prepared: Option<&'a [u8]>,
    /// Name of the compression in STARTUP.
    pub compression: Option<&'a [u8]>,
    /// A statement is longer than what is stored of it.
    pub is_limited: bool,
    /// Everything was read.
    pub is_whole: bool,
}

/// Reads a request into `digest`.
pub fn read<'a>(
    header: EnvelopeHeader,
    body: &'a [u8],
    digest: &mut CqlDigest,
) -> RequestFacts<'a> {
    let mut facts = RequestFacts::default();
    let mut reader = BodyReader::new(body);
    facts.is_whole = fields(header, &mut reader, digest, &mut facts).is_some();
    facts
}

fn fields<'a>(
    header: EnvelopeHeader,
    reader: &mut BodyReader<'a>,
    digest: &mut CqlDigest,
    facts: &mut RequestFacts<'a>,
) -> Option<()> {
    if header.flags & WITH_PAYLOAD != 0 {
        reader.skip_bytes_map()?;
    }
    match header.opcode {
        STARTUP => {
            for _ in 0..reader.short()? {
                let (key, value) = (reader.string()?, reader.string()?);
                if key.eq_ignore_ascii_case(b"COMPRESSION") {
                    facts.compression = Some(value);
                }
            }
        }
        QUERY => {
            statement(reader, digest, facts)?;
            parameters(header, reader, digest)?;
        }
        PREPARE => {
            statement(reader, digest, facts)?;
            if header.has_int_flags() && !reader.rest().is_empty() {
                let flags = reader.int()?;
                if flags & PREPARE_KEYSPACE != 0 {
                    digest.set_text(CqlText::Keyspace, reader.string()?);
                }
            }
        }
        EXECUTE => {
            facts.prepared = Some(reader.string()?);
            if header.has_result_ids() {
                reader.string()?;
            }
            parameters(header, reader, digest)?;
        }
        BATCH => batch(header, reader, digest, facts)?,
        _ => {}
    }
    Some(())
}

/// The text of a statement, also if only its first bytes are there.
fn statement(
    reader: &mut BodyReader<'_>,
    digest: &mut CqlDigest,
    facts: &mut RequestFacts<'_>,
) -> Option<()> {
    let mut ahead = *reader;
    let length = ahead.int()? as usize;
    let here = &ahead.rest()[..length.min(ahead.rest().len())];
    let end = (0..=here.len().min(STATEMENT_BYTES_MAX))
        .rev()
        .find(|end| here.get(*end).is_none_or(|byte| byte & 0xc0 != 0x80))?;
    digest.set_text(CqlText::Statement, &here[..end]);
    facts.is_limited |= end < length;
    reader.long_string()?;
    Some(())
}

/// Query parameters: consistency, values, page, serial consistency, and keyspace.
fn parameters(
    header: EnvelopeHeader,
    reader: &mut BodyReader<'_>,
    digest: &mut CqlDigest,
) -> Option<()> {
    digest.set(CqlNumber::Consistency, reader.short()?);
    let flags = flags(header, reader)?;
    if flags & VALUES != 0 {
        values(reader, flags & NAMES != 0)?;
    }
    if flags & PAGE_SIZE != 0 {
        digest.set(CqlNumber::PageSize, reader.int()?);
    }
    if flags & PAGING_STATE != 0 {
        digest.set(CqlNumber::Continues, 1u8);
        reader.skip_bytes()?;
    }
    rest_of_parameters(flags, reader, digest)
}

fn rest_of_parameters(
    flags: u32,
    reader: &mut BodyReader<'_>,
    digest: &mut CqlDigest,
) -> Option<()> {
    if flags & SERIAL_CONSISTENCY != 0 {
        digest.set(CqlNumber::SerialConsistency, reader.short()?);
    }
    if flags & TIMESTAMP != 0 {
        reader.take(8)?;
    }
    if flags & KEYSPACE != 0 {
        digest.set_text(CqlText::Keyspace, reader.string()?);
    }
    Some(())
}

fn flags(header: EnvelopeHeader, reader: &mut BodyReader<'_>) -> Option<u32> {
    if header.has_int_flags() {
        reader.int()
    } else {
        reader.byte().map(u32::from)
    }
}

fn values(reader: &mut BodyReader<'_>, are_named: bool) -> Option<()> {
    for _ in 0..reader.short()? {
        if are_named {
            reader.string()?;
        }
        reader.skip_bytes()?;
    }
    Some(())
}

fn batch<'a>(
    header: EnvelopeHeader,
    reader: &mut BodyReader<'a>,
    digest: &mut CqlDigest,
    facts: &mut RequestFacts<'a>,
) -> Option<()> {
    digest.set(CqlNumber::BatchType, reader.byte()?);
    let count = reader.short()?;
    digest.set(CqlNumber::Statements, count);
    for number in 0..count {
        match (reader.byte()?, number) {
            (0, 0) => statement(reader, digest, facts)?,
            (0, _) => drop(reader.long_string()?),
            (_, 0) => facts.prepared = Some(reader.string()?),
            _ => drop(reader.string()?),
        }
        values(reader, false)?;
    }
    digest.set(CqlNumber::Consistency, reader.short()?);
    let flags = flags(header, reader)?;
    rest_of_parameters(flags, reader, digest)
}
