//! Recognition of memcached messages: to identify a flow, and to resynchronize after missing bytes.
//!
//! Off the usual port, text must be distinguishable from other line protocols: `get k` and `quit` are also
//! Redis inline commands, `stats` is also beanstalkd. For such lines, the server's response decides.

use memchr::memchr;
use wire::IpProtocol;

use super::binary_header::{HEADER_LEN, MemcachedBinaryHeader, magic};
use super::command::{MemcachedCommand, MemcachedCommandClass, OPCODE_STAT};
use super::reply::{MemcachedReply, MemcachedReplyKind};
use super::transaction::{self, MemcachedRequest, MemcachedResponse};
use super::udp_frame::{FRAME_LEN, MemcachedUdpFrame};
use super::words::{MemcachedWords, block_length, is_signed_number, number, without_end};
use crate::pairing::{ResponseMatch, TransactionQueue};
use crate::resync::{
    CandidateVerdict, MessageCandidate, MessageLocator, SegmentBeginning, next_line,
};
use crate::{Direction, ProbeContext, ProbeResult};

/// Maximum length of an incomplete line, except for a multi-get.
const LINE_MAX: usize = 2048;

/// Maximum plausible number of datagrams of a message: about one megabyte.
const TOTAL_MAX: u16 = 4096;

/// Strength of the evidence in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MemcachedEvidence {
    None,
    /// Memcached or another protocol.
    Weak,
    Strong,
}

/// See [`crate::ProtocolDefinition::probe`].
pub fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    if context.transport != IpProtocol::UDP {
        return probe_payload(bytes, context);
    }
    match MemcachedUdpFrame::read(bytes) {
        Some((frame, payload)) if frame.number == 0 && frame.total <= TOTAL_MAX => {
            probe_payload(payload, context)
        }
        // Datagrams are complete: more bytes will not follow.
        Some(_) if context.usual_port && bytes.len() > FRAME_LEN => ProbeResult::Response,
        _ => ProbeResult::NotForUs,
    }
}

fn probe_payload(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let whole = context.transport == IpProtocol::UDP;
    let may_ask = context.speaker != Some(Direction::ServerToClient);
    let may_answer = context.speaker != Some(Direction::ClientToServer);
    let found = match bytes.first() {
        None => ProbeResult::NeedMore,
        Some(0x80) if may_ask => probe_header(bytes, 0x80, ProbeResult::Request),
        Some(0x81) if may_answer => probe_header(bytes, 0x81, ProbeResult::Response),
        Some(0x80 | 0x81) => ProbeResult::NotForUs,
        Some(_) => probe_text(bytes, context, may_ask, may_answer),
    };
    if whole && found == ProbeResult::NeedMore {
        ProbeResult::NotForUs
    } else {
        found
    }
}

fn probe_header(bytes: &[u8], magic: u8, found: ProbeResult) -> ProbeResult {
    if bytes.len() < HEADER_LEN {
        // The data type is 0, and keys are short.
        let sound = bytes
            .get(1)
            .is_none_or(|op| MemcachedCommand::is_known_opcode(*op))
            && bytes.get(2).is_none_or(|b| *b == 0)
            && bytes.get(5).is_none_or(|b| *b == 0);
        return if sound {
            ProbeResult::NeedMore
        } else {
            ProbeResult::NotForUs
        };
    }
    match MemcachedBinaryHeader::read(bytes, magic) {
        Some(header) if header.is_plausible(magic) => found,
        _ => ProbeResult::NotForUs,
    }
}

fn probe_text(bytes: &[u8], context: ProbeContext, may_ask: bool, may_answer: bool) -> ProbeResult {
    // Off the usual port and midway, a matching line is more often a part of another text.
    let patient = context.usual_port || !context.midstream;
    let Some(end) = memchr(b'\n', bytes) else {
        return match probe_unfinished(bytes, may_ask, may_answer) {
            ProbeResult::NeedMore if !patient || bytes.len() > LINE_MAX => ProbeResult::NotForUs,
            ProbeResult::Request if !context.usual_port => ProbeResult::NotForUs,
            found => found,
        };
    };
    let line = without_end(&bytes[..end + 1]);
    let asks = if may_ask {
        request_evidence(line)
    } else {
        MemcachedEvidence::None
    };
    let answers = if may_answer {
        response_evidence(line)
    } else {
        MemcachedEvidence::None
    };
    let enough = if context.usual_port {
        MemcachedEvidence::Weak
    } else {
        MemcachedEvidence::Strong
    };
    // A response shared with other protocols is sufficient after a command shared with them.
    let is_told = context.answers && MemcachedReply::read(line).kind != MemcachedReplyKind::Error;
    let may_be_mistyped = may_ask && context.usual_port && is_plain(line);
    if asks >= enough {
        ProbeResult::Request
    } else if answers >= enough || is_told && answers == MemcachedEvidence::Weak {
        ProbeResult::Response
    } else if patient
        && line.len() <= LINE_MAX
        && (asks == MemcachedEvidence::Weak || may_be_mistyped)
    {
        // The server's response decides; `ERROR` if the first command is invalid.
        ProbeResult::NeedMore
    } else {
        ProbeResult::NotForUs
    }
}

/// Checks the start of a line: `NeedMore` while it may become a command or reply.
fn probe_unfinished(bytes: &[u8], may_ask: bool, may_answer: bool) -> ProbeResult {
    let mut words = MemcachedWords(bytes);
    let first = words.next().unwrap_or_default();
    let command = MemcachedCommand::of_word(first);
    let whole_word = bytes.len() > first.len();
    let multi_get = command
        .and_then(MemcachedCommand::word)
        .is_some_and(|w| w.class == MemcachedCommandClass::Retrieval);
    if bytes.len() > LINE_MAX {
        let keys = words.take_while(|k| is_key(k)).count();
        return if may_ask && multi_get && keys > 1 {
            ProbeResult::Request
        } else {
            ProbeResult::NotForUs
        };
    }
    let begins_request = if whole_word {
        command.is_some()
    } else {
        super::command::WORDS
            .iter()
            .any(|w| w.name.starts_with(first))
    };
    let begins_response = if whole_word {
        !matches!(MemcachedReply::read(first).kind, MemcachedReplyKind::Other)
            || first == b"VALUE"
            || first == b"VA"
    } else {
        first
            .iter()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_')
    };
    if may_ask && begins_request || may_answer && begins_response && first.len() < 16 {
        ProbeResult::NeedMore
    } else {
        ProbeResult::NotForUs
    }
}

/// Search for the next message of one direction.
pub struct MemcachedMessageLocator<'a> {
    /// The requests so far.
    pub transactions: &'a TransactionQueue<MemcachedRequest, MemcachedResponse>,
    /// Direction of the bytes.
    pub direction: Direction,
    /// A write ends directly before the current segment.
    pub begins_write: bool,
    /// Whether the connection uses the binary protocol.
    pub is_binary: bool,
}

impl MessageLocator for MemcachedMessageLocator<'_> {
    const HEAD_BYTES_MAX: usize = LINE_MAX;

    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        if self.is_binary {
            return memchr(magic(self.direction), &bytes[from..]).map(|at| from + at);
        }
        next_line(bytes, from)
    }

    fn begins_segment(&self, beginning: SegmentBeginning) -> bool {
        self.begins_write || self.transactions.begins_message(self.direction, beginning)
    }

    fn judge(&self, candidate: &MessageCandidate<'_>) -> CandidateVerdict {
        let bytes = candidate.bytes;
        let magic = magic(self.direction);
        if self.is_binary {
            return match MemcachedBinaryHeader::read(bytes, magic) {
                Some(header)
                    if header.is_plausible(magic) && self.may_begin(&header, candidate) =>
                {
                    CandidateVerdict::Message
                }
                None if bytes.len() < HEADER_LEN && bytes[0] == magic => CandidateVerdict::More,
                _ => CandidateVerdict::No,
            };
        }
        let line = match memchr(b'\n', bytes) {
            Some(end) => without_end(&bytes[..end + 1]),
            None if bytes.len() < LINE_MAX => return CandidateVerdict::More,
            None => bytes,
        };
        let found = match self.direction {
            Direction::ClientToServer => {
                candidate.begins_segment && request_evidence(line) > MemcachedEvidence::None
            }
            Direction::ServerToClient => {
                let reply = MemcachedReply::read(line);
                let asked = self.transactions.answered_from(candidate.place);
                reply.kind.is_telling()
                    && asked.is_some_and(|request| {
                        transaction::fit_reply(request, &reply) != ResponseMatch::No
                    })
            }
        };
        if found {
            CandidateVerdict::Message
        } else {
            CandidateVerdict::No
        }
    }
}

impl MemcachedMessageLocator<'_> {
    /// Whether `header` may begin a message at its position: only the first response to a stat may.
    fn may_begin(&self, header: &MemcachedBinaryHeader, candidate: &MessageCandidate<'_>) -> bool {
        self.direction == Direction::ClientToServer
            || header.opcode != OPCODE_STAT
            || self.transactions.answered_from(candidate.place).is_some()
    }
}

/// Evidence in a line that its sender is a memcached client.
fn request_evidence(line: &[u8]) -> MemcachedEvidence {
    let mut words = MemcachedWords(line);
    let Some(command) = words.next().and_then(MemcachedCommand::of_word) else {
        return MemcachedEvidence::None;
    };
    let Some(word) = command.word() else {
        return MemcachedEvidence::None;
    };
    let name = word.name;
    match word.class {
        MemcachedCommandClass::Storage => storage_evidence(words, name == b"cas"),
        MemcachedCommandClass::Retrieval => {
            let timed = word.key_after == Some(1);
            let time_is_right = !timed || words.next().is_some_and(is_signed_number);
            let mut keys = words;
            let sound = time_is_right && keys.next().is_some_and(is_key) && keys.all(is_key);
            evidence(sound, timed)
        }
        MemcachedCommandClass::Arithmetic => {
            let sound = words.next().is_some_and(is_key)
                && words.next().is_some_and(|w| number(w).is_some());
            evidence(sound && ends_right(words), true)
        }
        MemcachedCommandClass::Touch => {
            let sound =
                words.next().is_some_and(is_key) && words.next().is_some_and(is_signed_number);
            evidence(sound && ends_right(words), false)
        }
        MemcachedCommandClass::Deletion => {
            let sound = words.next().is_some_and(is_key);
            // Old clients send "delete key 0".
            let mut rest = words;
            if rest.next().is_some_and(|w| number(w).is_some()) {
                words = rest;
            }
            evidence(sound && ends_right(words), false)
        }
        MemcachedCommandClass::MetaSet => {
            let sound = words.next().is_some_and(is_key)
                && words
                    .next()
                    .is_some_and(|w| block_length(w.strip_prefix(b"S").unwrap_or(w)).is_some());
            evidence(sound && words.all(is_meta_flag), true)
        }
        MemcachedCommandClass::MetaGet
        | MemcachedCommandClass::MetaDelete
        | MemcachedCommandClass::MetaArithmetic
        | MemcachedCommandClass::MetaDebug => evidence(
            words.next().is_some_and(is_key) && words.all(is_meta_flag),
            false,
        ),
        MemcachedCommandClass::MetaNoop => evidence(words.next().is_none(), false),
        MemcachedCommandClass::Version | MemcachedCommandClass::Farewell => {
            evidence(words.next().is_none(), false)
        }
        MemcachedCommandClass::Admin => evidence(
            words.count() <= 4,
            matches!(name, b"flush_all" | b"cache_memlimit" | b"lru_crawler"),
        ),
        MemcachedCommandClass::Lines | MemcachedCommandClass::Watch => {
            evidence(words.count() <= 4, false)
        }
        MemcachedCommandClass::Any | MemcachedCommandClass::Binary => MemcachedEvidence::None,
    }
}

fn evidence(sound: bool, strong: bool) -> MemcachedEvidence {
    match (sound, strong) {
        (false, _) => MemcachedEvidence::None,
        (true, false) => MemcachedEvidence::Weak,
        (true, true) => MemcachedEvidence::Strong,
    }
}

fn storage_evidence(mut words: MemcachedWords<'_>, cas: bool) -> MemcachedEvidence {
    let sound = words.next().is_some_and(is_key)
        && words.next().is_some_and(|w| number(w).is_some())
        && words.next().is_some_and(is_signed_number)
        && words.next().is_some_and(|w| block_length(w).is_some())
        && (!cas || words.next().is_some_and(|w| number(w).is_some()));
    evidence(sound && ends_right(words), true)
}

/// Whether nothing else, or `noreply`, follows.
fn ends_right(mut words: MemcachedWords<'_>) -> bool {
    matches!(
        (words.next(), words.next()),
        (None | Some(b"noreply"), None)
    )
}

/// Whether a line could be a mistyped command.
fn is_plain(line: &[u8]) -> bool {
    line.len() <= LINE_MAX
        && line.iter().all(|b| (b' '..=b'~').contains(b))
        && !line.windows(5).any(|w| w == b"HTTP/")
}

/// Whether a word is a key: 1 to 250 bytes without blanks and control characters.
fn is_key(word: &[u8]) -> bool {
    (1..=250).contains(&word.len()) && word.iter().all(|b| *b > b' ' && *b != 0x7f)
}

fn is_meta_flag(word: &[u8]) -> bool {
    word[0].is_ascii_alphabetic() && word.len() <= 252
}

/// Evidence in a line that its sender is a memcached server.
fn response_evidence(line: &[u8]) -> MemcachedEvidence {
    let reply = MemcachedReply::read(line);
    match reply.kind {
        MemcachedReplyKind::Value => evidence(is_key(reply.key), true),
        MemcachedReplyKind::Stored
        | MemcachedReplyKind::NotStored
        | MemcachedReplyKind::Deleted
        | MemcachedReplyKind::Touched => evidence(
            !line.contains(&b' '),
            !matches!(reply.kind, MemcachedReplyKind::Deleted),
        ),
        MemcachedReplyKind::Item => evidence(
            MemcachedWords(line).count() >= 2,
            line.starts_with(b"STAT pid "),
        ),
        MemcachedReplyKind::Va => evidence(reply.flags.into_iter().all(is_meta_flag), false),
        MemcachedReplyKind::End
        | MemcachedReplyKind::Exists
        | MemcachedReplyKind::NotFound
        | MemcachedReplyKind::Ok
        | MemcachedReplyKind::Mn
        | MemcachedReplyKind::Error => evidence(!line.contains(&b' '), false),
        MemcachedReplyKind::Hd
        | MemcachedReplyKind::En
        | MemcachedReplyKind::Nf
        | MemcachedReplyKind::Ns
        | MemcachedReplyKind::Ex => evidence(reply.flags.into_iter().all(is_meta_flag), false),
        MemcachedReplyKind::Version
        | MemcachedReplyKind::ClientError
        | MemcachedReplyKind::ServerError
        | MemcachedReplyKind::Me => MemcachedEvidence::Weak,
        MemcachedReplyKind::Number | MemcachedReplyKind::Busy | MemcachedReplyKind::Other => {
            MemcachedEvidence::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], usual_port: bool, expected: ProbeResult) {
        let context = ProbeContext {
            transport: IpProtocol::TCP,
            usual_port,
            midstream: false,
            speaker: None,
            answers: false,
        };
        assert_eq!(
            probe(bytes, context),
            expected,
            "{:?}, usual port: {usual_port}",
            String::from_utf8_lossy(bytes)
        );
    }

    #[test]
    fn requests_are_recognized_anywhere() {
        for text in [
            "set k 0 0 3\r\n",
            "set k 0 -1 3 noreply\r\nabc\r\n",
            "gat 10 k\r\n",
            "incr k 1\r\n",
            "ms k 3 T0\r\nabc\r\n",
            "cas k 0 0 1 99\r\n",
            "flush_all\r\n",
        ] {
            check(text.as_bytes(), true, ProbeResult::Request);
            check(text.as_bytes(), false, ProbeResult::Request);
        }
    }

    #[test]
    fn ambiguous_lines_require_the_port() {
        for text in [
            "get k\r\n",
            "get an email\n",
            "gets better\n",
            "delete k\r\n",
            "delete k 0 noreply\r\n",
            "quit\r\n",
            "stats\r\n",
            "version\r\n",
            "watch k\r\n",
            "touch k 1\r\n",
            "mg k v\r\n",
            "mn\r\n",
        ] {
            check(text.as_bytes(), true, ProbeResult::Request);
            check(text.as_bytes(), false, ProbeResult::NeedMore);
            let midway = ProbeContext {
                transport: IpProtocol::TCP,
                usual_port: false,
                midstream: true,
                speaker: None,
                answers: false,
            };
            assert_eq!(probe(text.as_bytes(), midway), ProbeResult::NotForUs);
        }
    }

    #[test]
    fn others_are_left_alone() {
        for text in [
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\n",
            "EHLO me\r\n",
            "220 mail ESMTP\r\n",
            "250 OK\r\n",
            "*1\r\n$4\r\nPING\r\n",
            "PING\r\n",
            "set k v\r\n",
            "SET k v\r\n",
            "+OK\r\n",
            "-ERR x\r\n",
            "USER me\r\n",
            "SSH-2.0-OpenSSH_9\r\n",
            "incr k\r\n",
            "\x16\x03\x01\x02\x00\x01",
            "",
        ] {
            check(
                text.as_bytes(),
                false,
                if text.is_empty() {
                    ProbeResult::NeedMore
                } else {
                    ProbeResult::NotForUs
                },
            );
            let at_home = ProbeContext {
                transport: IpProtocol::TCP,
                usual_port: true,
                midstream: false,
                speaker: None,
                answers: false,
            };
            assert!(
                matches!(
                    probe(text.as_bytes(), at_home),
                    ProbeResult::NeedMore | ProbeResult::NotForUs
                ),
                "{text:?}"
            );
        }
    }

    #[test]
    fn responses_need_the_port_or_a_value() {
        for (text, elsewhere) in [
            ("VALUE k 0 3\r\n", ProbeResult::Response),
            ("STORED\r\n", ProbeResult::Response),
            ("END\r\n", ProbeResult::NotForUs),
            ("OK\r\n", ProbeResult::NotForUs),
            ("HD\r\n", ProbeResult::NotForUs),
            ("STAT pid 1\r\n", ProbeResult::Response),
        ] {
            check(text.as_bytes(), true, ProbeResult::Response);
            check(text.as_bytes(), false, elsewhere);
        }
    }

    #[test]
    fn a_little_is_not_enough() {
        for text in ["s", "set ", "ge", "VAL", "mg some", "\u{0}"] {
            let expected = if text == "\0" {
                ProbeResult::NotForUs
            } else {
                ProbeResult::NeedMore
            };
            check(text.as_bytes(), true, expected);
        }
        let header = [
            0x80, 0x01, 0, 1, 8, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        check(&header[..10], false, ProbeResult::NeedMore);
        check(&header, false, ProbeResult::Request);
        // An SSL 2 hello begins with 0x80, too.
        check(
            &[0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10],
            false,
            ProbeResult::NotForUs,
        );
        let mut keys = b"get".to_vec();
        (0..600).for_each(|i| keys.extend(format!(" key:{i}").bytes()));
        check(&keys, true, ProbeResult::Request);
        check(&keys, false, ProbeResult::NotForUs);
    }
}
