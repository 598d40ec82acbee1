//! Search for HTTP/1 messages among other bytes, and the plausibility check of their heads.

use memchr::{memchr, memmem};

use wire::TcpSeq;

use super::head;
use super::transaction::{HttpRequest, HttpResponse};
use crate::Direction;
use crate::pairing::TransactionQueue;
use crate::resync::{self, CandidateVerdict, MessageCandidate, SegmentBeginning};

/// Prefix of every status line.
const RESPONSE: &[u8] = b"HTTP/1.";

/// Search for heads in one direction.
pub struct HttpHeadLocator<'a> {
    pub direction: Direction,
    /// Position of the next head, if known.
    pub at: Option<TcpSeq>,
    /// A write ends directly before the current segment.
    pub begins_write: bool,
    /// Transactions so far.
    pub transactions: &'a TransactionQueue<HttpRequest, HttpResponse>,
}

impl resync::MessageLocator for HttpHeadLocator<'_> {
    const HEAD_BYTES_MAX: usize = 8192;

    /// A request begins a line; a response may begin anywhere.
    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        if self.direction == Direction::ClientToServer {
            return resync::next_line(bytes, from);
        }
        let tail = from.max(bytes.len().saturating_sub(RESPONSE.len() - 1));
        memmem::find(&bytes[from..], RESPONSE)
            .map(|at| from + at)
            .or_else(|| (tail..bytes.len()).find(|at| RESPONSE.starts_with(&bytes[*at..])))
    }

    fn begins_segment(&self, beginning: SegmentBeginning) -> bool {
        self.begins_write || self.transactions.begins_message(self.direction, beginning)
    }

    /// Accepts a start line followed by fields only, at a position where a message may begin: bodies may
    /// quote heads.
    fn judge(&self, candidate: &MessageCandidate<'_>) -> CandidateVerdict {
        if !self
            .at
            .map_or_else(|| self.may_begin(candidate), |at| candidate.place.seq == at)
        {
            return CandidateVerdict::No;
        }
        let mut rest = candidate.bytes;
        let mut begun = false;
        while let Some(nl) = memchr(b'\n', rest) {
            let line = head::without_cr(&rest[..nl]);
            match line {
                [] if begun => return CandidateVerdict::Message,
                [b' ' | b'\t', ..] if begun => {}
                _ if if begun {
                    head::is_field(line)
                } else {
                    self.is_start_line(line, false)
                } => {}
                _ => return CandidateVerdict::No,
            }
            begun = true;
            rest = &rest[nl + 1..];
        }
        match () {
            () if !begun && !self.is_start_line(head::without_cr(rest), true) => {
                CandidateVerdict::No
            }
            // Beyond the examined length.
            () if candidate.bytes.len() == Self::HEAD_BYTES_MAX => CandidateVerdict::Message,
            () => CandidateVerdict::More,
        }
    }
}

impl HttpHeadLocator<'_> {
    fn may_begin(&self, candidate: &MessageCandidate<'_>) -> bool {
        candidate.begins_segment
            || self.direction == Direction::ServerToClient
                && self.transactions.answered_from(candidate.place).is_some()
    }

    /// Whether this is a start line or, if `cut`, the beginning of one.
    fn is_start_line(&self, line: &[u8], cut: bool) -> bool {
        match self.direction {
            Direction::ClientToServer => {
                head::is_plausible_request(line, cut) && (cut || head::begins_request(line))
            }
            Direction::ServerToClient if cut => head::begins_response(line),
            Direction::ServerToClient => head::status_line(line).is_some(),
        }
    }
}
