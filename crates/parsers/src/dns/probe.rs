//! Recognizes DNS by a message's header and question. An unusual but possible header is accepted if the
//! records fill the message exactly.

use wire::IpProtocol;

use super::byte_stream::PREFIX;
use super::codes;
use super::message::{self, DnsHeader, DnsQuestion, DnsRecords, HEADER_LEN};
use crate::resync::{self, CandidateVerdict, MessageCandidate, MessageLocator};
use crate::{ProbeContext, ProbeResult};

/// Bytes needed to judge the start of a message over TCP: length, header, and question.
const START_BYTES_MAX: usize = PREFIX + HEADER_LEN + super::name::NAME_BYTES_MAX + 4;
/// Maximum number of records in a 64 KiB message.
const RECORDS_MAX: u16 = 5956;

/// Recognizes a question or a response.
pub fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    if context.transport == IpProtocol::UDP {
        return datagram(bytes, context.usual_port);
    }
    match start(bytes) {
        CandidateVerdict::Message
            if DnsHeader::read(&bytes[PREFIX..]).is_some_and(DnsHeader::is_answer) =>
        {
            ProbeResult::Response
        }
        CandidateVerdict::Message => ProbeResult::Request,
        CandidateVerdict::More => ProbeResult::NeedMore,
        CandidateVerdict::No => match unusual_start(bytes) {
            Some(header) if header.is_answer() => ProbeResult::Response,
            Some(_) => ProbeResult::Request,
            None if context.midstream
                && context.usual_port
                && resync::is_in(&DnsMessageLocator, bytes) =>
            {
                ProbeResult::Request
            }
            None => ProbeResult::NotForUs,
        },
    }
}

/// The header of a complete message over TCP, if it is unusual but its records fill the message.
#[cold]
fn unusual_start(bytes: &[u8]) -> Option<DnsHeader> {
    let (length, rest) = bytes.split_first_chunk::<PREFIX>()?;
    let message = rest.get(..u16::from_be_bytes(*length).into())?;
    let header = DnsHeader::read(message)?;
    match DnsQuestion::read(message, header) {
        DnsQuestion::Whole(question) if is_plausible_question(question, header) => {
            is_unusual(message, header).then_some(header)
        }
        _ => None,
    }
}

/// Whether an unusual header alone identifies DNS.
fn is_unusual(message: &[u8], header: DnsHeader) -> bool {
    codes::opcode(header.opcode()).is_some() && is_consistent(message, header)
}

/// Checks a datagram: on a usual port by header and question, elsewhere up to the last byte.
fn datagram(bytes: &[u8], usual_port: bool) -> ProbeResult {
    let Some(header) = DnsHeader::read(bytes) else {
        return ProbeResult::NotForUs;
    };
    if !is_plausible(header) && !is_unusual(bytes, header) {
        return ProbeResult::NotForUs;
    }
    let plausible = match DnsQuestion::read(bytes, header) {
        DnsQuestion::Whole(question) => is_plausible_question(question, header),
        DnsQuestion::Cut(_) => usual_port && bytes.len() > HEADER_LEN,
        // A server that could not parse the question, or does not repeat it.
        DnsQuestion::None => usual_port && header.is_answer(),
        DnsQuestion::Malformed => false,
    };
    if !plausible || !usual_port && !is_whole(bytes, header) {
        ProbeResult::NotForUs
    } else if header.is_answer() {
        ProbeResult::Response
    } else {
        ProbeResult::Request
    }
}

/// Whether the message's records fill the bytes exactly.
fn is_whole(bytes: &[u8], header: DnsHeader) -> bool {
    let mut records = DnsRecords::behind_questions(bytes, header);
    let count = header.counts[1..]
        .iter()
        .map(|n| u32::from(*n))
        .sum::<u32>();
    (0..count).all(|_| records.read().is_some()) && records.at() == Some(bytes.len())
}

/// Whether a message whose header is not [`is_plausible`] is valid DNS: its questions and records end exactly
/// at its end. Servers respond to reserved bits, unknown operations and response codes, answers in queries,
/// and several questions.
#[cold]
pub fn is_consistent(message: &[u8], header: DnsHeader) -> bool {
    message.len() > HEADER_LEN && is_whole(message, header)
}

/// Whether a header is usual: one question, a possible number of records, and no answers in a question.
pub fn is_plausible(header: DnsHeader) -> bool {
    let [questions, answers, authorities, others] = header.counts;
    let codes_make_sense = if header.is_answer() {
        header.code() <= 11
    } else {
        // A question has no result.
        header.code() == 0 && !header.is_truncated()
    };
    let query = header.opcode() == 0;
    let counts_make_sense = if header.is_answer() || !query {
        answers <= RECORDS_MAX && authorities <= RECORDS_MAX && others <= RECORDS_MAX
    } else {
        // IXFR contains its current version as an authority record.
        answers == 0 && authorities <= 1 && others <= 4
    };
    questions <= 1
        && (questions == 1 || header.is_answer())
        && codes::opcode(header.opcode()).is_some()
        && !header.reserved()
        && codes_make_sense
        && counts_make_sense
}

/// Whether type and class are plausible.
fn is_plausible_question(question: &[u8], header: DnsHeader) -> bool {
    let kind = message::type_of(question);
    let class = message::class_of(question);
    let known = codes::is_known_type(kind) || kind >= 0xff00 || header.is_answer() && kind > 0;
    known && matches!(class, 1 | 3 | 4 | 254 | 255)
}

/// Verdict on the start of a message over TCP.
fn start(bytes: &[u8]) -> CandidateVerdict {
    let Some(length) = bytes
        .first_chunk::<PREFIX>()
        .map(|n| usize::from(u16::from_be_bytes(*n)))
    else {
        return CandidateVerdict::More;
    };
    let message = &bytes[PREFIX..bytes.len().min(PREFIX + length)];
    let Some(header) = DnsHeader::read(message) else {
        return if message.len() < length {
            CandidateVerdict::More
        } else {
            CandidateVerdict::No
        };
    };
    if length <= HEADER_LEN || !is_plausible(header) {
        return CandidateVerdict::No;
    }
    match DnsQuestion::read(message, header) {
        DnsQuestion::Whole(question) if is_plausible_question(question, header) => {
            CandidateVerdict::Message
        }
        DnsQuestion::Cut(_) if message.len() < length => CandidateVerdict::More,
        _ => CandidateVerdict::No,
    }
}

/// Search for message starts after missing bytes.
pub struct DnsMessageLocator;

impl MessageLocator for DnsMessageLocator {
    const HEAD_BYTES_MAX: usize = START_BYTES_MAX;

    /// Matches one question and a non-empty header before its count: `id flags 0 1` after the length prefix.
    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        const COUNT: usize = PREFIX + 4;
        (from..bytes.len()).find(|at| match bytes[*at..].get(COUNT..COUNT + 2) {
            Some(count) => count == [0, 1],
            None => bytes.get(at + COUNT).is_none_or(|first| *first == 0),
        })
    }

    fn judge(&self, candidate: &MessageCandidate<'_>) -> CandidateVerdict {
        start(candidate.bytes)
    }
}
