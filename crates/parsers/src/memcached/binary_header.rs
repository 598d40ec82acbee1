//! The header of the binary protocol, and its plausibility.

use super::command::MemcachedCommand;
use super::transaction::KEY_MAX;
use crate::Direction;

/// Length of the header.
pub const HEADER_LEN: usize = 24;
/// Maximum extras of any command.
const EXTRAS_MAX: usize = 24;
/// Maximum plausible body length in a search for the next header.
const PLAUSIBLE_BODY_MAX: u32 = 128 << 20;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemcachedBinaryHeader {
    /// The command.
    pub opcode: u8,
    /// Length of the key.
    pub key_len: usize,
    /// Length of the extras.
    pub extras_len: usize,
    /// Always 0.
    pub data_type: u8,
    /// Requests: virtual bucket; responses: status.
    pub status: u16,
    /// Length of extras, key, and value.
    pub body_len: u32,
    /// Number chosen by the client.
    pub opaque: u32,
}

impl MemcachedBinaryHeader {
    /// Parses a header; `None`: too short, wrong magic, or contradictory lengths.
    #[inline]
    pub fn read(bytes: &[u8], magic: u8) -> Option<MemcachedBinaryHeader> {
        let h: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let header = MemcachedBinaryHeader {
            opcode: h[1],
            key_len: usize::from(u16::from_be_bytes([h[2], h[3]])),
            extras_len: usize::from(h[4]),
            data_type: h[5],
            status: u16::from_be_bytes([h[6], h[7]]),
            body_len: u32::from_be_bytes([h[8], h[9], h[10], h[11]]),
            opaque: u32::from_be_bytes([h[12], h[13], h[14], h[15]]),
        };
        (h[0] == magic && header.key_len + header.extras_len <= header.body_len as usize)
            .then_some(header)
    }

    /// Whether the header is plausible: random bytes rarely match.
    pub fn is_plausible(&self, magic: u8) -> bool {
        let sane = self.data_type == 0
            && self.key_len <= KEY_MAX
            && self.extras_len <= EXTRAS_MAX
            && self.body_len <= PLAUSIBLE_BODY_MAX
            && MemcachedCommand::is_known_opcode(self.opcode);
        match magic {
            0x80 => sane && self.request_shape_is_right(),
            _ => {
                sane && (self.status <= 0x0a
                    || (0x20..=0x24).contains(&self.status)
                    || (0x81..=0x86).contains(&self.status))
            }
        }
    }

    /// Whether extras and key match protocol_binary.h for the usual opcodes.
    fn request_shape_is_right(&self) -> bool {
        let key = self.key_len > 0;
        let extras = self.extras_len;
        let nothing_else = self.body_len as usize == self.key_len + extras;
        match self.opcode {
            0x00 | 0x09 | 0x0c | 0x0d | 0x04 | 0x14 => key && extras == 0 && nothing_else,
            0x01..=0x03 | 0x11..=0x13 => key && extras == 8,
            0x05 | 0x06 | 0x15 | 0x16 => key && extras == 20 && nothing_else,
            0x07 | 0x0a | 0x0b | 0x17 | 0x20 => self.body_len == 0,
            0x08 | 0x18 => !key && matches!(extras, 0 | 4) && nothing_else,
            0x0e | 0x0f | 0x19 | 0x1a => key && extras == 0,
            0x10 => extras == 0 && nothing_else,
            0x1b => !key && extras == 4 && nothing_else,
            0x1c..=0x1e | 0x23 | 0x24 => key && extras == 4 && nothing_else,
            0x21 | 0x22 => key && extras == 0,
            _ => key,
        }
    }

    /// Bytes up to the end of the key, as far as they are parsed.
    #[inline]
    pub fn head_len(&self) -> usize {
        HEADER_LEN
            + if self.key_len <= KEY_MAX {
                self.extras_len + self.key_len
            } else {
                0
            }
    }

    /// Bytes after those of [`MemcachedBinaryHeader::head_len`].
    #[inline]
    pub fn rest_len(&self) -> u64 {
        (u64::from(self.body_len) + HEADER_LEN as u64).saturating_sub(self.head_len() as u64)
    }

    /// Length of the value.
    #[inline]
    pub fn value_len(&self) -> u64 {
        u64::from(self.body_len) - (self.key_len + self.extras_len) as u64
    }
}

/// Magic of messages in one direction.
#[inline]
pub fn magic(direction: Direction) -> u8 {
    match direction {
        Direction::ClientToServer => 0x80,
        Direction::ServerToClient => 0x81,
    }
}
