//! The header of a message: its length, identifiers, and operation; and whether bytes may begin with a message.

use super::bson::{cstring, is_kind, length_at};
use crate::Direction;

/// Length of the header.
pub const HEADER: usize = 16;
/// Minimum length of a message, that of an operation with an empty namespace.
pub const MESSAGE_BYTES_MIN: u32 = 24;
/// Maximum length of a message, as in the server.
const MESSAGE_BYTES_MAX: u32 = 48_000_000;
/// Maximum length of a namespace, as in the server, with a margin.
pub const NAMESPACE_BYTES_MAX: usize = 512;

pub const OP_REPLY: u32 = 1;
pub const OP_UPDATE: u32 = 2001;
pub const OP_INSERT: u32 = 2002;
pub const OP_QUERY: u32 = 2004;
pub const OP_GET_MORE: u32 = 2005;
pub const OP_DELETE: u32 = 2006;
pub const OP_KILL_CURSORS: u32 = 2007;
pub const OP_COMPRESSED: u32 = 2012;
pub const OP_MSG: u32 = 2013;

/// Flags of OP_MSG.
pub const CHECKSUM_PRESENT: u32 = 1;
pub const MORE_TO_COME: u32 = 2;
const EXHAUST_ALLOWED: u32 = 1 << 16;

/// A message header.
#[derive(Clone, Copy, Debug)]
pub struct MessageHeader {
    pub length: u32,
    pub request_id: u32,
    pub response_to: u32,
    pub opcode: u32,
}

impl MessageHeader {
    /// The header at the start of `bytes`.
    pub fn read(bytes: &[u8]) -> Option<MessageHeader> {
        Some(MessageHeader {
            length: length_at(bytes, 0)?,
            request_id: length_at(bytes, 4)?,
            response_to: length_at(bytes, 8)?,
            opcode: length_at(bytes, 12)?,
        })
    }

    /// Whether `direction` has messages like this.
    pub fn is_of(self, direction: Direction) -> bool {
        let length_min = match self.opcode {
            OP_REPLY => 36,
            OP_QUERY => 34,
            OP_MSG => 26,
            OP_COMPRESSED => 25,
            OP_UPDATE | OP_INSERT | OP_GET_MORE | OP_DELETE | OP_KILL_CURSORS => MESSAGE_BYTES_MIN,
            _ => return false,
        };
        let has = match (self.opcode, direction) {
            (OP_MSG | OP_COMPRESSED, _) => true,
            (OP_REPLY, direction) => direction == Direction::ServerToClient,
            (_, direction) => direction == Direction::ClientToServer,
        };
        has && (length_min..=MESSAGE_BYTES_MAX).contains(&self.length)
    }
}

/// Whether `bytes` begin with a message of `direction`, by everything that its first bytes must contain. `None`: not known yet.
pub fn begins_message(direction: Direction, bytes: &[u8]) -> Option<bool> {
    if !(MESSAGE_BYTES_MIN..=MESSAGE_BYTES_MAX).contains(&length_at(bytes, 0)?) {
        return Some(false);
    }
    let header = MessageHeader::read(bytes)?;
    let is_reply = direction == Direction::ServerToClient;
    if !header.is_of(direction) || !is_reply && !matches!(header.response_to, 0 | u32::MAX) {
        return Some(false);
    }
    let length = header.length as usize;
    match header.opcode {
        OP_MSG => {
            let flags = length_at(bytes, HEADER)?;
            let kind = *bytes.get(20)?;
            let defined = CHECKSUM_PRESENT | MORE_TO_COME | EXHAUST_ALLOWED;
            if flags & !defined != 0 || kind > 1 || is_reply && kind == 1 {
                return Some(false);
            }
            let inside = length_at(bytes, 21)? as usize;
            let checksum = if flags & CHECKSUM_PRESENT != 0 { 4 } else { 0 };
            let end = 21 + inside + checksum;
            match kind {
                0 if is_reply => Some(end == length && begins_document(&bytes[21..])?),
                0 => Some(end <= length && begins_document(&bytes[21..])?),
                _ => {
                    let name = cstring(&bytes[25..], NAMESPACE_BYTES_MAX);
                    let is_name = |name: &[u8]| {
                        !name.is_empty() && name.iter().all(u8::is_ascii_alphanumeric)
                    };
                    match name {
                        Some(name) => Some(end <= length && is_name(name)),
                        None if bytes.len() > 25 + 64 => Some(false),
                        None => None,
                    }
                }
            }
        }
        OP_COMPRESSED => {
            let compressor = *bytes.get(24)?;
            let original = length_at(bytes, HEADER)?;
            let size = length_at(bytes, 20)?;
            let fits = (MessageHeader {
                opcode: original,
                length: size.saturating_add(HEADER as u32),
                ..header
            })
            .is_of(direction);
            Some(fits && original != OP_COMPRESSED && compressor <= 3)
        }
        OP_REPLY => {
            let flags = length_at(bytes, HEADER)?;
            let returned = length_at(bytes, 32)?;
            let has_documents = length > 36;
            let fits = flags < 16 && has_documents == (returned > 0);
            if !fits || !has_documents {
                return Some(fits);
            }
            begins_document(&bytes[36..])
        }
        OP_KILL_CURSORS => {
            let zero = length_at(bytes, HEADER)?;
            let cursors = length_at(bytes, 20)? as usize;
            Some(zero == 0 && cursors > 0 && length == 24 + 8 * cursors)
        }
        _ => {
            let flags = length_at(bytes, HEADER)?;
            let name = match cstring(&bytes[20..], NAMESPACE_BYTES_MAX) {
                Some(name) => name,
                None if bytes.len() > 20 + NAMESPACE_BYTES_MAX => return Some(false),
                None => return None,
            };
            let is_name = name.contains(&b'.') && std::str::from_utf8(name).is_ok();
            let is_printable = name.iter().all(|b| *b > b' ' && *b != 0x7f);
            Some(flags < 256 && is_name && is_printable)
        }
    }
}

/// Whether `bytes` begin with a document: its length, and its end or the kind of an element.
fn begins_document(bytes: &[u8]) -> Option<bool> {
    let length = length_at(bytes, 0)?;
    let kind = *bytes.get(4)?;
    Some(match kind {
        0 => length == 5,
        kind => is_kind(kind) && length > 5,
    })
}
