//! Messages and sets of NetFlow v9 (RFC 3954) and IPFIX (RFC 7011).

use wire::Timestamp;

use crate::cursor::Cursor;
use crate::template::{Template, TemplateError};

/// Fields of a message header that its records need.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MessageHeader {
    pub exported: Timestamp,
    /// Uptime of the exporter at the export (NetFlow v9).
    pub uptime_ms: Option<u32>,
}

/// The header of a message, after its version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TemplatedMessage<'a> {
    pub header: MessageHeader,
    /// Number of the message (NetFlow v9), or of its first data record (IPFIX).
    pub sequence: u32,
    pub domain: u32,
    pub sets: &'a [u8],
    /// The message is longer than its buffer.
    pub is_truncated: bool,
}

impl<'a> TemplatedMessage<'a> {
    pub fn read_netflow9(cursor: &mut Cursor<'a>) -> Option<TemplatedMessage<'a>> {
        // The number of records counts those of templates and options, too; the sets' lengths decide.
        cursor.u16()?;
        let uptime_ms = Some(cursor.u32()?);
        let exported = seconds(cursor.u32()?);
        let sequence = cursor.u32()?;
        let domain = cursor.u32()?;
        let sets = cursor.take(cursor.len())?;
        let header = MessageHeader {
            exported,
            uptime_ms,
        };
        Some(TemplatedMessage {
            header,
            sequence,
            domain,
            sets,
            is_truncated: false,
        })
    }

    /// Leaves the cursor at the end of the message; another one can follow.
    pub fn read_ipfix(cursor: &mut Cursor<'a>) -> Option<TemplatedMessage<'a>> {
        let len = usize::from(cursor.u16()?).checked_sub(IPFIX_HEADER_LEN)?;
        let exported = seconds(cursor.u32()?);
        let sequence = cursor.u32()?;
        let domain = cursor.u32()?;
        let is_truncated = len > cursor.len();
        let sets = cursor.take(len.min(cursor.len()))?;
        let header = MessageHeader {
            exported,
            uptime_ms: None,
        };
        Some(TemplatedMessage {
            header,
            sequence,
            domain,
            sets,
            is_truncated,
        })
    }
}

const IPFIX_HEADER_LEN: usize = 16;

fn seconds(seconds: u32) -> Timestamp {
    Timestamp(i64::from(seconds) * 1_000_000_000)
}

/// A set (FlowSet) of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageSet<'a> {
    Templates(&'a [u8]),
    OptionsTemplates(&'a [u8]),
    Data {
        template: u16,
        bytes: &'a [u8],
    },
    /// A reserved set identifier.
    Reserved,
}

impl<'a> MessageSet<'a> {
    /// Reads a set; `None` at the end of the message, `Some(Err)` if its length is impossible. A set that the end of
    /// the message cuts is returned up to there, with `is_truncated`.
    pub fn next(
        cursor: &mut Cursor<'a>,
        is_ipfix: bool,
        is_truncated: &mut bool,
    ) -> Option<Result<MessageSet<'a>, TemplateError>> {
        // Padding between sets and at the end.
        if cursor.len() < 4 {
            return None;
        }
        let id = cursor.u16()?;
        let Some(len) = usize::from(cursor.u16()?).checked_sub(4) else {
            return Some(Err(TemplateError::Truncated));
        };
        *is_truncated |= len > cursor.len();
        let bytes = cursor.take(len.min(cursor.len()))?;
        Some(Ok(match id {
            0 if !is_ipfix => MessageSet::Templates(bytes),
            1 if !is_ipfix => MessageSet::OptionsTemplates(bytes),
            2 if is_ipfix => MessageSet::Templates(bytes),
            3 if is_ipfix => MessageSet::OptionsTemplates(bytes),
            256.. => MessageSet::Data {
                template: id,
                bytes,
            },
            _ => MessageSet::Reserved,
        }))
    }
}

/// A change of the templates of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TemplateChange {
    Define(u16, Template),
    /// IPFIX: one template, or all of its kind (`is_options`).
    Withdraw(u16),
    WithdrawAll {
        is_options: bool,
    },
    Reject(u16),
}

/// Reads the next template of a template set; `None` at its end, whose rest is padding.
pub(crate) fn next_template(
    cursor: &mut Cursor<'_>,
    is_options: bool,
    is_ipfix: bool,
) -> Option<Result<TemplateChange, TemplateError>> {
    if cursor.len() < 4 {
        return None;
    }
    let id = cursor.u16()?;
    // Zeros pad a set to four bytes, or more with some exporters.
    if id == 0 && cursor.rest().iter().all(|byte| *byte == 0) {
        return None;
    }
    Some(read_template(cursor, id, is_options, is_ipfix))
}

fn read_template(
    cursor: &mut Cursor<'_>,
    id: u16,
    is_options: bool,
    is_ipfix: bool,
) -> Result<TemplateChange, TemplateError> {
    let count = usize::from(cursor.u16().ok_or(TemplateError::Truncated)?);
    if is_ipfix && count == 0 {
        return Ok(match id {
            2 => TemplateChange::WithdrawAll { is_options: false },
            3 => TemplateChange::WithdrawAll { is_options: true },
            _ => TemplateChange::Withdraw(id),
        });
    }
    let mut fields = count;
    let mut scope_fields = None;
    if is_options {
        let second = usize::from(cursor.u16().ok_or(TemplateError::Truncated)?);
        if is_ipfix {
            scope_fields = Some(second);
        } else {
            // NetFlow v9 has the lengths of both parts in bytes.
            scope_fields = Some(count / 4);
            fields = count / 4 + second / 4;
        }
    }
    match Template::read(cursor, fields, scope_fields, is_ipfix) {
        Ok(template) if id >= 256 => Ok(TemplateChange::Define(id, template)),
        Ok(_) | Err(TemplateError::Impossible) => Ok(TemplateChange::Reject(id)),
        Err(error) => Err(error),
    }
}
