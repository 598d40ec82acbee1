//! Search for messages at unknown positions.

use memchr::memmem;

use super::framing::typed_header;
use super::messages::{is_version_3, protocol_number};
use super::probe::{is_client_message, is_server_message};
use super::session::PostgresSession;
use crate::Direction;
use crate::resync::{CandidateVerdict, MessageCandidate, MessageLocator, SegmentBeginning};

/// Header of ReadyForQuery.
const READY: &[u8] = b"Z\0\0\0\x05";
const READY_LEN: usize = READY.len() + 1;
/// Bytes of a message that are examined.
const EXAMINED: usize = 64;

/// Search in one direction: messages that begin segments where acknowledgments prove a boundary; of the server, also a
/// ReadyForQuery that ends a segment, as the server sends its output with each one.
pub struct PostgresMessageLocator<'a> {
    pub direction: Direction,
    pub session: &'a PostgresSession,
    /// End of the segment, as sequence number.
    pub segment_end: wire::TcpSeq,
}

impl MessageLocator for PostgresMessageLocator<'_> {
    const HEAD_BYTES_MAX: usize = EXAMINED;

    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        if self.direction == Direction::ClientToServer {
            return None;
        }
        let found = memmem::find(&bytes[from.min(bytes.len())..], READY).map(|n| from + n);
        // The message may be split over segments.
        found.or_else(|| {
            let tail = from.max(bytes.len().saturating_sub(READY_LEN - 1));
            (tail..bytes.len()).find(|at| READY.starts_with(&bytes[*at..]))
        })
    }

    fn begins_segment(&self, beginning: SegmentBeginning) -> bool {
        self.session.begins_message(self.direction, beginning)
    }

    fn judge(&self, candidate: &MessageCandidate<'_>) -> CandidateVerdict {
        let bytes = candidate.bytes;
        let is_ready = bytes.starts_with(READY);
        if self.direction == Direction::ServerToClient && is_ready && bytes.len() < READY_LEN {
            return CandidateVerdict::More;
        }
        let ends = candidate.place.seq.plus(READY_LEN as u32) == self.segment_end;
        let is_message = match self.direction {
            Direction::ServerToClient if is_ready => {
                b"ITE".contains(&bytes[READY.len()]) && (ends || candidate.begins_segment)
            }
            _ if !candidate.begins_segment => READY.starts_with(bytes) && bytes.len() < READY.len(),
            Direction::ServerToClient => match typed_header(bytes) {
                None => return CandidateVerdict::More,
                Some(_) => is_server_message(bytes),
            },
            Direction::ClientToServer => {
                let opens = bytes
                    .get(4..)
                    .and_then(protocol_number)
                    .is_some_and(is_version_3);
                match typed_header(bytes) {
                    None => return CandidateVerdict::More,
                    Some(_) => is_client_message(bytes) || opens,
                }
            }
        };
        match (is_message, bytes.len() < READY.len()) {
            (true, true) => CandidateVerdict::More,
            (true, false) => CandidateVerdict::Message,
            (false, _) => CandidateVerdict::No,
        }
    }
}
