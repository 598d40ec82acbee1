//! The header of an envelope: version, flags, stream, operation, and length of the body.

use super::codes::{
    AUTH_CHALLENGE, AUTH_RESPONSE, AUTH_SUCCESS, AUTHENTICATE, BATCH, ERROR, EVENT, EXECUTE,
    OPTIONS, PREPARE, QUERY, READY, REGISTER, RESULT, STARTUP, SUPPORTED,
};
use crate::Direction;

/// Length of the header.
pub const HEADER: usize = 9;
/// Maximum length of a body, as in the specification.
pub const BODY_BYTES_MAX: u32 = 256 << 20;
/// Bit of the version in responses.
const RESPONSE: u8 = 0x80;

/// The first version whose messages are in frames.
pub const FRAMED_VERSION: u8 = 5;
/// Versions of DataStax: envelopes as in version 4, parameters as in version 5.
const DATASTAX: [u8; 2] = [0x41, 0x42];

pub const COMPRESSED: u8 = 0x01;
pub const TRACED: u8 = 0x02;
pub const WITH_PAYLOAD: u8 = 0x04;
pub const WITH_WARNINGS: u8 = 0x08;
/// A beta version of the protocol.
const BETA: u8 = 0x10;

/// An envelope header.
#[derive(Clone, Copy, Debug)]
pub struct EnvelopeHeader {
    pub version: u8,
    pub is_response: bool,
    pub flags: u8,
    pub stream: i16,
    pub opcode: u8,
    /// Length of the body.
    pub length: u32,
}

impl EnvelopeHeader {
    /// The header at the start of `bytes`.
    pub fn read(bytes: &[u8]) -> Option<EnvelopeHeader> {
        let bytes: &[u8; HEADER] = bytes.first_chunk()?;
        let [version, flags, high, low, opcode, length @ ..] = *bytes;
        Some(EnvelopeHeader {
            version: version & !RESPONSE,
            is_response: version & RESPONSE != 0,
            flags,
            stream: i16::from_be_bytes([high, low]),
            opcode,
            length: u32::from_be_bytes(length),
        })
    }

    /// Whether `direction` has messages like this.
    pub fn is_of(self, direction: Direction) -> bool {
        let is_known = is_version(self.version) && self.length <= BODY_BYTES_MAX;
        let is_compressed = self.flags & COMPRESSED != 0;
        let has = match direction {
            Direction::ClientToServer => {
                let flags = COMPRESSED | TRACED | WITH_PAYLOAD | BETA;
                !self.is_response
                    && self.flags & !flags == 0
                    && self.stream >= 0
                    && is_request(self.opcode)
            }
            Direction::ServerToClient => {
                let flags = COMPRESSED | TRACED | WITH_PAYLOAD | WITH_WARNINGS | BETA;
                let is_event = self.opcode == EVENT;
                self.is_response
                    && self.flags & !flags == 0
                    && (self.stream >= 0) != is_event
                    && (is_event || is_response(self.opcode))
            }
        };
        is_known && has && (self.length > 0 || !is_compressed)
    }

    /// Whether results of prepared statements have identifiers.
    pub fn has_result_ids(self) -> bool {
        matches!(self.version, 5 | 0x42)
    }

    /// Whether the parameters of requests have the form of version 5.
    pub fn has_int_flags(self) -> bool {
        self.version >= 5
    }
}

/// Whether a byte is a version that is read, without the bit of responses.
pub fn is_version(version: u8) -> bool {
    (3..=FRAMED_VERSION).contains(&version) || DATASTAX.contains(&version)
}

fn is_request(opcode: u8) -> bool {
    matches!(
        opcode,
        STARTUP | OPTIONS | QUERY | PREPARE | EXECUTE | REGISTER | BATCH | AUTH_RESPONSE
    )
}

fn is_response(opcode: u8) -> bool {
    matches!(
        opcode,
        ERROR | READY | AUTHENTICATE | SUPPORTED | RESULT | AUTH_CHALLENGE | AUTH_SUCCESS
    )
}
