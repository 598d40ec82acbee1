//! Search for messages in a direction with unknown position, using the connection's calls.

use flow::StreamPlace;
use wire::TcpSeq;

use super::body::{NfsArguments, NfsResults};
use super::calls::RpcCalls;
use super::rpc::{self, RpcCredentials, RpcTarget};
use super::scan::{self, LAST, MARK, word};
use super::xdr::XdrReader;
use crate::Direction;
use crate::resync::{CandidateVerdict, MessageCandidate, MessageLocator, SegmentBeginning};

/// Maximum length of a message whose contents do not determine it.
const UNREAD_BYTES_MAX: usize = 4 << 20;

/// Records with a call of a known program, or a reply to a waiting call. Their lengths must match their
/// contents.
pub struct RpcMessageLocator<'a> {
    /// The waiting calls.
    pub calls: &'a RpcCalls,
    /// Direction of the bytes.
    pub direction: Direction,
    /// Whether the current bytes begin a segment.
    pub begins_segment: bool,
    /// Whether nothing of the other direction was captured.
    pub alone: bool,
    pub evidence: ReplyEvidence,
}

/// Facts that distinguish a reply from a copy of an earlier one in file data.
#[derive(Clone, Copy, Debug)]
pub struct ReplyEvidence {
    /// Start of the last segment that begins a write.
    pub write: Option<TcpSeq>,
    /// End of the last missing bytes, if known.
    pub lost_to: Option<TcpSeq>,
    /// The latest acknowledgment of the caller, unless its following bytes are missing.
    pub heard: Option<TcpSeq>,
}

impl ReplyEvidence {
    /// Whether the reply at `seq` to the call at `call` is not a copy: it begins a write; or all missing bytes were sent
    /// before its call; or the caller had not received anything since that call, so nothing to read a copy of.
    fn is_original(&self, seq: TcpSeq, call: Option<StreamPlace>) -> bool {
        let Some(heard) = call.and_then(|call| call.ack) else {
            return false;
        };
        let is_later = self.lost_to.is_some_and(|to| heard.distance(to) >= 0);
        let is_news = self.heard != Some(heard);
        self.write == Some(seq) || is_later || !is_news
    }
}

impl MessageLocator for RpcMessageLocator<'_> {
    const HEAD_BYTES_MAX: usize = MARK + super::calls::CALL_BYTES_MAX;

    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        scan::next(bytes, from)
    }

    fn begins_segment(&self, _: SegmentBeginning) -> bool {
        self.begins_segment
    }

    fn judge(&self, candidate: &MessageCandidate<'_>) -> CandidateVerdict {
        let Some(mark) = word(candidate.bytes, 0) else {
            return CandidateVerdict::More;
        };
        let len = (mark & !LAST) as usize;
        if mark & LAST == 0 || len < scan::SIGNATURE - MARK || !scan::is_plausible_mark(mark) {
            return CandidateVerdict::No;
        }
        let message = &candidate.bytes[MARK..candidate.bytes.len().min(MARK + len)];
        let range = match (scan::is_call(message, true), scan::is_reply(message)) {
            (Some(true), _) => call_len(message, self.calls.machine(self.direction)),
            (_, Some(true)) => {
                if self.is_awaited(candidate, message, len) {
                    self.reply_len(candidate, message)
                } else {
                    return CandidateVerdict::No;
                }
            }
            (Some(false), Some(false)) => return CandidateVerdict::No,
            _ => None,
        };
        match range {
            Some((least, most)) if (least..=most).contains(&len) => CandidateVerdict::Message,
            None if message.len() < len => CandidateVerdict::More,
            _ => CandidateVerdict::No,
        }
    }
}

impl RpcMessageLocator<'_> {
    /// Whether a reply answers a waiting call. If its reply may be among the missing bytes, so that this one may be a copy
    /// in file data, it must fill its segments or be proven an original. If the call was itself found by search, one
    /// of them must also be alone in its segments, or both must begin one, which calls and replies in file data
    /// rarely do.
    fn is_awaited(&self, candidate: &MessageCandidate<'_>, message: &[u8], len: usize) -> bool {
        let Some(xid) = word(message, 0) else {
            return false;
        };
        let seq = candidate.place.seq;
        let begins = candidate.begins_segment;
        let fills = begins && candidate.bytes.len() == MARK + len;
        if let Some(call) = self.calls.asked(self.direction, xid, candidate.place) {
            return fills || self.evidence.is_original(seq, call.place);
        }
        match self.calls.suspected(self.direction, xid, candidate.place) {
            Some(call) => {
                let is_alone = call.fills_segments || begins && call.begins_segment;
                fills || is_alone && self.evidence.is_original(seq, Some(call.place))
            }
            None => self.alone && begins,
        }
    }

    fn reply_len(
        &self,
        candidate: &MessageCandidate<'_>,
        message: &[u8],
    ) -> Option<(usize, usize)> {
        let xid = word(message, 0)?;
        let asked = self.calls.asked(self.direction, xid, candidate.place);
        let suspected = self
            .calls
            .suspected(self.direction, xid, candidate.place)
            .map(|s| &s.call);
        let target = asked.or(suspected).map(|call| call.target);
        reply_len(message, target)
    }
}

/// Minimum and maximum length of a call by its contents; `None`: incomplete or invalid. `machine`: client
/// machine name in the connection's other calls, if known.
fn call_len(message: &[u8], machine: Option<&[u8]>) -> Option<(usize, usize)> {
    let header = rpc::call(message)?;
    if let (RpcCredentials::Sys { machine: named, .. }, Some(machine)) =
        (header.credentials, machine)
        && named != machine
    {
        return None;
    }
    let mut x = header.args;
    let mut args = NfsArguments::default();
    args.read(&header.target, &mut x)?;
    let least = read(message, x, args.data);
    Some((least, least + header.target.unread_args_max()))
}

/// Minimum and maximum length of a reply to a call of `target`.
fn reply_len(message: &[u8], target: Option<RpcTarget>) -> Option<(usize, usize)> {
    let reply = rpc::reply(message)?;
    let mut x = reply.results;
    let mut results = NfsResults::default();
    let unread = match target {
        // Supported versions may follow.
        _ if !reply.status.is_success() => 8,
        None => UNREAD_BYTES_MAX,
        Some(target) => {
            results.read(&target, false, &mut x)?;
            target.unread_results_max()
        }
    };
    let least = read(message, x, results.data);
    Some((least, least + unread))
}

/// Parsed bytes of a message, with `x` after them, and of the file data that follows.
fn read(message: &[u8], x: XdrReader<'_>, data: Option<u32>) -> usize {
    message.len() - x.left() + data.map_or(0, |len| (len as usize).next_multiple_of(4))
}

impl RpcTarget {
    /// Maximum bytes of arguments that are not parsed.
    fn unread_args_max(&self) -> usize {
        match (self.program, self.version) {
            _ if self.protected => UNREAD_BYTES_MAX,
            (super::programs::NFS, 3) => 0,
            (super::programs::NFS, 4) if self.procedure > 0 => UNREAD_BYTES_MAX,
            _ => 8 << 10,
        }
    }

    /// Maximum bytes of results that are not parsed.
    fn unread_results_max(&self) -> usize {
        match (self.program, self.version, self.procedure) {
            _ if self.protected => UNREAD_BYTES_MAX,
            // Names in a directory.
            (super::programs::NFS, 3, 16 | 17) => UNREAD_BYTES_MAX,
            (super::programs::NFS, 3, _) => 256,
            (super::programs::NFS, 4, 1..) => UNREAD_BYTES_MAX,
            _ => 64 << 10,
        }
    }
}
