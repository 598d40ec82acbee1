//! Search for MySQL packets at unknown positions, and plausibility checks of commands and responses.

use memchr::memchr;

use super::session::MysqlExpectedResponse;
use super::{command, probe};
use crate::resync::{CandidateVerdict, MessageCandidate, MessageLocator, SegmentBeginning};

/// Header and first byte of a payload.
pub const HEAD: usize = 5;
/// Same for a packet inside a compressed one.
const PACKED_HEAD: usize = 12;
/// Minimum length of a login.
const LOGIN_LEN_MIN: u32 = 32;
/// Bytes of SQL that are examined to distinguish it from other text.
const SQL: usize = 256;

/// Search for the client's commands.
pub struct MysqlCommandLocator {
    /// The current segment begins a command if plausible. Elsewhere only SQL is accepted.
    pub expected: bool,
    /// The command may be a packet of the compressed protocol.
    pub may_be_packed: bool,
}

impl MessageLocator for MysqlCommandLocator {
    const HEAD_BYTES_MAX: usize = HEAD + SQL;

    /// A command's packet has sequence number 0.
    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        match bytes.get(from + 3..) {
            Some(numbers) => Some(from + memchr(0, numbers).unwrap_or(numbers.len())),
            None => Some(from),
        }
    }

    fn begins_segment(&self, _: SegmentBeginning) -> bool {
        self.expected
    }

    fn judge(&self, candidate: &MessageCandidate<'_>) -> CandidateVerdict {
        let bytes = candidate.bytes;
        let Some([a, b, c, number, code]) = bytes.first_chunk() else {
            return CandidateVerdict::More;
        };
        let len = u32::from_le_bytes([*a, *b, *c, 0]);
        let is_command = *number == 0 && command::is_plausible(*code, len);
        let is_text = is_command && matches!(*code, command::QUERY | command::STMT_PREPARE);
        let expected = candidate.begins_segment;
        let sql = &bytes[HEAD..];
        let may_be_packed = expected && self.may_be_packed && (*number, *code) == (0, 0);
        let found = match () {
            () if may_be_packed && bytes.len() < PACKED_HEAD => return CandidateVerdict::More,
            () if may_be_packed => is_packed(bytes.iter().copied()),
            () if expected => is_command || *number == 1 && len >= LOGIN_LEN_MIN,
            () if is_text && sql.len() < SQL.min(len as usize - 1) => {
                return CandidateVerdict::More;
            }
            () => is_text && len > 6 && command::is_sql(sql),
        };
        if found {
            CandidateVerdict::Message
        } else {
            CandidateVerdict::No
        }
    }
}

/// Whether a packet of the compressed protocol begins with these bytes.
pub fn is_packed(bytes: impl Iterator<Item = u8>) -> bool {
    let mut head = [0; PACKED_HEAD];
    let n = head
        .iter_mut()
        .zip(bytes)
        .map(|(to, byte)| *to = byte)
        .count();
    let len = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
    n == PACKED_HEAD && probe::is_packed_head(len, &head[4..])
}

/// A response: it begins a segment and matches the outstanding request.
pub struct MysqlResponseLocator(pub MysqlExpectedResponse);

impl MessageLocator for MysqlResponseLocator {
    const HEAD_BYTES_MAX: usize = HEAD;

    fn next(&self, _: &[u8], _: usize) -> Option<usize> {
        None
    }

    fn begins_segment(&self, _: SegmentBeginning) -> bool {
        true
    }

    fn judge(&self, candidate: &MessageCandidate<'_>) -> CandidateVerdict {
        match candidate.bytes.first_chunk() {
            Some(head) if self.0.can_begin(*head) => CandidateVerdict::Message,
            Some(_) => CandidateVerdict::No,
            None => CandidateVerdict::More,
        }
    }
}
