//! Recognizes ONC-RPC messages by their first bytes at unknown positions: in a new flow, and after a loss.

use memchr::memmem;
use wire::{IpProtocol, TcpSeq};

use super::programs;
use super::rpc::{self, RPC_VERSION};
use crate::resync::{self, CandidateVerdict, MessageCandidate, MessageLocator};
use crate::{Direction, ProbeContext, ProbeResult};

/// Length of a record mark (RFC 5531 section 11).
pub const MARK: usize = 4;
/// Flag of a record mark: last fragment of a message.
pub const LAST: u32 = 1 << 31;
/// Bytes from a record mark on that identify a message.
pub const SIGNATURE: usize = MARK + 24;
/// Minimum bytes from a record mark on that are any evidence.
const WINDOW_MIN: usize = 17;
/// Bytes per search step.
const SCANNED: usize = 1024;
/// Maximum fragment length: servers accept at most a few MiB of data.
pub const FRAGMENT_BYTES_MAX: u32 = 64 << 20;
/// Maximum bytes of credentials and verifiers.
const AUTH_BYTES_MAX: u32 = 400;
/// Maximum header length of a call.
const HEADER_BYTES_MAX: usize = 24 + 2 * (8 + AUTH_BYTES_MAX as usize);
/// Maximum plausible procedure number.
const PROCEDURES_MAX: u32 = 256;
/// Maximum plausible version.
const VERSION_MAX: u32 = 256;
/// First reserved program number (RFC 5531 section 8.5).
const PROGRAM_MAX: u32 = 0x6000_0000;

/// Whether a fragment may have this length.
#[inline]
pub fn is_plausible_mark(mark: u32) -> bool {
    (1..=FRAGMENT_BYTES_MAX).contains(&(mark & 0x7fff_ffff))
}

#[inline]
pub fn word(bytes: &[u8], i: usize) -> Option<u32> {
    bytes
        .get(4 * i..4 * i + 4)?
        .first_chunk()
        .map(|word| u32::from_be_bytes(*word))
}

/// End of a record that begins at `seq` with these bytes.
pub fn record_end(record: &[u8], seq: TcpSeq) -> TcpSeq {
    seq.plus(MARK as u32 + (word(record, 0).unwrap_or_default() & !LAST))
}

/// Whether `message` begins like a call: of any program, or if `known` of a known one.
pub fn is_call(message: &[u8], known: bool) -> Option<bool> {
    if word(message, 1)? != 0 || word(message, 2)? != RPC_VERSION {
        return Some(false);
    }
    let target = rpc::target(message)?;
    Some(!known || programs::procedure(&target).is_some())
}

/// Whether `message` begins like a reply.
pub fn is_reply(message: &[u8]) -> Option<bool> {
    let kind = word(message, 1)?;
    let accepted = word(message, 2)?;
    if kind != 1 || accepted > 1 {
        return Some(false);
    }
    if accepted == 1 {
        return Some(word(message, 3)? <= 1);
    }
    let flavor = word(message, 3)?;
    let len = word(message, 4)?;
    let plain =
        flavor <= 7 && len <= AUTH_BYTES_MAX && len.is_multiple_of(4) && (flavor > 0 || len == 0);
    Some(plain && (len > 0 || word(message, 5)? <= 5))
}

/// Next possible start of a record: the message type is two words after the mark, and the following bytes
/// hardly vary.
pub fn next(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while bytes.len() - at >= WINDOW_MIN {
        let window = &bytes[at + 2 * MARK..bytes.len().min(at + 2 * MARK + SCANNED)];
        let call = memmem::find(window, b"\0\0\0\0\0\0\0\x02\0");
        let reply = memmem::find(
            &window[..call.map_or(window.len(), |at| at + 6)],
            b"\0\0\0\x01\0\0\0",
        );
        if let Some(hit) = reply.or(call) {
            return Some(at + hit);
        }
        at += window.len() - 2 * MARK;
    }
    // Too few bytes for a verdict.
    (at < bytes.len()).then_some(at)
}

/// Search for a record with a call of a known program, or a reply accepted by the function.
pub struct RpcRecordLocator<F>(pub F);

impl<F: Fn(u32) -> bool> MessageLocator for RpcRecordLocator<F> {
    const HEAD_BYTES_MAX: usize = SIGNATURE;

    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        next(bytes, from)
    }

    fn judge(&self, candidate: &MessageCandidate<'_>) -> CandidateVerdict {
        let record = candidate.bytes;
        let Some(mark) = word(record, 0) else {
            return CandidateVerdict::More;
        };
        let message = &record[MARK..];
        let awaits = || word(message, 0).is_some_and(&self.0);
        match (is_call(message, true), is_reply(message)) {
            _ if !is_plausible_mark(mark) || mark & 0x7fff_ffff < (SIGNATURE - MARK) as u32 => {
                CandidateVerdict::No
            }
            (Some(false), Some(false)) => CandidateVerdict::No,
            (_, Some(true)) if !awaits() => CandidateVerdict::No,
            (Some(true), _) | (_, Some(true)) if record.len() == SIGNATURE => {
                CandidateVerdict::Message
            }
            _ => CandidateVerdict::More,
        }
    }
}

/// Recognizes a call of a known program, a reply, or in a connection joined midway a later call.
pub fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    if context.transport == IpProtocol::UDP {
        return match verdict(bytes) {
            ProbeResult::NeedMore => ProbeResult::NotForUs,
            // Mostly zeros: DHCP, for example, has them in the same positions.
            ProbeResult::Response if !context.usual_port => ProbeResult::NotForUs,
            probe => probe,
        };
    }
    let begins = match word(bytes, 0) {
        Some(mark) if is_plausible_mark(mark) => verdict(&bytes[MARK..]),
        Some(_) => ProbeResult::NotForUs,
        None if bytes.first().is_some_and(|b| matches!(b, 0 | 0x80)) => ProbeResult::NeedMore,
        None => ProbeResult::NotForUs,
    };
    // File data may contain calls: those of the side with the usual port are not requests.
    let may_ask = context.speaker == Some(Direction::ClientToServer) || !context.usual_port;
    match begins {
        ProbeResult::NotForUs
            if context.midstream
                && may_ask
                && resync::is_in(&RpcRecordLocator(|_| false), bytes) =>
        {
            ProbeResult::Request
        }
        probe => probe,
    }
}

/// Whether the call of an unknown program is plausible: its numbers are small, and procedure 0 has no
/// arguments. Other protocols have zeros and a timestamp in these positions.
fn is_sensible(call: &rpc::RpcCallHeader<'_>, message: &[u8]) -> bool {
    let rpc::RpcTarget {
        program,
        version,
        procedure,
        ..
    } = call.target;
    let is_numbered =
        (1..=VERSION_MAX).contains(&version) && procedure < PROCEDURES_MAX && program < PROGRAM_MAX;
    let without = matches!(word(message, 6), Some(0)).then(|| word(message, 7));
    is_numbered
        && without.is_none_or(|len| len == Some(0))
        && (procedure > 0 || call.args.left() == 0)
}

fn verdict(message: &[u8]) -> ProbeResult {
    match (is_call(message, false), is_reply(message)) {
        (Some(true), _) if is_call(message, true) == Some(true) => ProbeResult::Request,
        // Another program: its complete header must be plausible.
        (Some(true), _) => match rpc::call(message) {
            Some(call) if is_sensible(&call, message) => ProbeResult::Request,
            None if message.len() < HEADER_BYTES_MAX => ProbeResult::NeedMore,
            _ => ProbeResult::NotForUs,
        },
        (_, Some(true)) => ProbeResult::Response,
        (Some(false), Some(false)) => ProbeResult::NotForUs,
        _ => ProbeResult::NeedMore,
    }
}
