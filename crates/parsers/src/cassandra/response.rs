//! The body of a response or event.

use super::body::BodyReader;
use super::codes::{
    ALREADY_EXISTS, CAS_WRITE_UNKNOWN, ERROR, EVENT, PREPARED, READ_FAILURE, READ_TIMEOUT, RESULT,
    ROWS, SCHEMA_CHANGE, SET_KEYSPACE, UNAVAILABLE, WRITE_FAILURE, WRITE_TIMEOUT,
};
use super::digest::{CqlDigest, CqlNumber, CqlText};
use super::header::{EnvelopeHeader, HEADER, TRACED, WITH_PAYLOAD, WITH_WARNINGS};

/// Maximum length of the server's texts.
const MESSAGE_BYTES_MAX: usize = 1024;

/// Flags of the metadata of rows.
const GLOBAL_TABLE: u32 = 0x01;
const MORE_PAGES: u32 = 0x02;
const NO_METADATA: u32 = 0x04;
const METADATA_CHANGED: u32 = 0x08;

/// What a response states besides the fields of its digest.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseFacts<'a> {
    /// Identifier of a statement that was prepared.
    pub prepared: Option<&'a [u8]>,
    /// Everything was read.
    pub is_whole: bool,
}

/// Reads a response or event into `digest`.
pub fn read<'a>(
    header: EnvelopeHeader,
    body: &'a [u8],
    digest: &mut CqlDigest,
) -> ResponseFacts<'a> {
    let mut facts = ResponseFacts::default();
    let mut reader = BodyReader::new(body);
    facts.is_whole = fields(header, &mut reader, digest, &mut facts).is_some();
    facts
}

/// Length of the first bytes of an uncompressed envelope that contain all fields; `None` if it is not known yet, or all of its bytes
/// are needed.
pub fn bytes_needed(header: EnvelopeHeader, bytes: &[u8]) -> Option<usize> {
    if header.opcode != RESULT {
        return None;
    }
    let mut reader = BodyReader::new(bytes.get(HEADER..)?);
    let mut unused = CqlDigest::default();
    extras(header, &mut reader, &mut unused)?;
    if reader.int()? != ROWS {
        return None;
    }
    rows(&mut reader, &mut unused)?;
    Some(HEADER + reader.position())
}

fn fields<'a>(
    header: EnvelopeHeader,
    reader: &mut BodyReader<'a>,
    digest: &mut CqlDigest,
    facts: &mut ResponseFacts<'a>,
) -> Option<()> {
    extras(header, reader, digest)?;
    match header.opcode {
        ERROR => error(reader, digest)?,
        EVENT => event(reader, digest)?,
        RESULT => {
            let kind = reader.int()?;
            digest.set(CqlNumber::Kind, kind);
            match kind {
                ROWS => rows(reader, digest)?,
                SET_KEYSPACE => digest.set_text(CqlText::Keyspace, reader.string()?),
                PREPARED => prepared(header, reader, digest, facts)?,
                SCHEMA_CHANGE => {
                    reader.string()?;
                    schema_change(reader, digest)?;
                }
                _ => {}
            }
        }
        _ => {}
    }
    Some(())
}

/// What precedes the body of any response: the identifier of a trace, warnings, and a payload of the application.
fn extras(
    header: EnvelopeHeader,
    reader: &mut BodyReader<'_>,
    digest: &mut CqlDigest,
) -> Option<()> {
    if header.flags & TRACED != 0 {
        digest.set_text(CqlText::Tracing, reader.take(16)?);
    }
    if header.flags & WITH_WARNINGS != 0 {
        let mut warnings = Vec::new();
        for number in 0..reader.short()? {
            let warning = reader.string()?;
            if number > 0 {
                warnings.push(b'\n');
            }
            warnings.extend_from_slice(shortened(warning));
            warnings.truncate(MESSAGE_BYTES_MAX);
        }
        digest.set_text(CqlText::Warnings, &warnings);
    }
    if header.flags & WITH_PAYLOAD != 0 {
        reader.skip_bytes_map()?;
    }
    Some(())
}

fn shortened(text: &[u8]) -> &[u8] {
    &text[..text.len().min(MESSAGE_BYTES_MAX)]
}

fn error(reader: &mut BodyReader<'_>, digest: &mut CqlDigest) -> Option<()> {
    let code = reader.int()?;
    digest.set(CqlNumber::ErrorCode, code);
    digest.set_text(CqlText::Message, shortened(reader.string()?));
    match code {
        UNAVAILABLE => {
            reader.short()?;
            digest.set(CqlNumber::Required, reader.int()?);
            digest.set(CqlNumber::Received, reader.int()?);
        }
        WRITE_TIMEOUT | READ_TIMEOUT | READ_FAILURE | WRITE_FAILURE | CAS_WRITE_UNKNOWN => {
            reader.short()?;
            digest.set(CqlNumber::Received, reader.int()?);
            digest.set(CqlNumber::Required, reader.int()?);
        }
        ALREADY_EXISTS => table(reader, digest)?,
        _ => {}
    }
    Some(())
}

fn event(reader: &mut BodyReader<'_>, digest: &mut CqlDigest) -> Option<()> {
    let kind = reader.string()?;
    let change = reader.string()?;
    digest.set_text(CqlText::Event, &[kind, b" ", change].concat());
    if kind == b"SCHEMA_CHANGE" {
        schema_change(reader, digest)?;
    }
    Some(())
}

/// The object that was changed.
fn schema_change(reader: &mut BodyReader<'_>, digest: &mut CqlDigest) -> Option<()> {
    let target = reader.string()?;
    digest.set_text(CqlText::Keyspace, reader.string()?);
    if target == b"TABLE" {
        digest.set_text(CqlText::Table, reader.string()?);
    }
    Some(())
}

fn table(reader: &mut BodyReader<'_>, digest: &mut CqlDigest) -> Option<()> {
    let (keyspace, table) = (reader.string()?, reader.string()?);
    digest.set_text(CqlText::Keyspace, keyspace);
    if !table.is_empty() {
        digest.set_text(CqlText::Table, table);
    }
    Some(())
}

/// Metadata of rows, and their number.
fn rows(reader: &mut BodyReader<'_>, digest: &mut CqlDigest) -> Option<()> {
    let flags = metadata(reader, digest, false)?;
    digest.set(CqlNumber::MorePages, u8::from(flags & MORE_PAGES != 0));
    digest.set(CqlNumber::Rows, reader.int()?);
    Some(())
}

/// Metadata of a result, or of the values of a prepared statement, which has indices of its partition key from version 4 on.
fn metadata(reader: &mut BodyReader<'_>, digest: &mut CqlDigest, has_indices: bool) -> Option<u32> {
    let flags = reader.int()?;
    let columns = reader.int()?;
    if has_indices {
        for _ in 0..reader.int()? {
            reader.short()?;
        }
    }
    if flags & MORE_PAGES != 0 {
        reader.skip_bytes()?;
    }
    if flags & METADATA_CHANGED != 0 {
        reader.string()?;
    }
    if flags & NO_METADATA != 0 {
        return Some(flags);
    }
    if flags & GLOBAL_TABLE != 0 {
        table(reader, digest)?;
    }
    for _ in 0..columns {
        if flags & GLOBAL_TABLE == 0 {
            table(reader, digest)?;
        }
        reader.string()?;
        reader.skip_type(0)?;
    }
    Some(flags)
}

fn prepared<'a>(
    header: EnvelopeHeader,
    reader: &mut BodyReader<'a>,
    digest: &mut CqlDigest,
    facts: &mut ResponseFacts<'a>,
) -> Option<()> {
    facts.prepared = Some(reader.string()?);
    if header.has_result_ids() {
        reader.string()?;
    }
    metadata(reader, digest, header.version >= 4)?;
    metadata(reader, digest, false)?;
    Some(())
}
