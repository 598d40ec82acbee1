//! A test protocol with the features that the simple one lacks: a greeting, messages of several parts, blank
//! lines, requests without a response, responses of several messages, and a change of protocol.
//!
//! A request is `ASK`, `TELL` (no response), `MANY` (answered with several messages), or `BYE` (changes the
//! protocol), and a line of any number of words. A response is a line; one that ends in `+` is followed by
//! another of the same response, and so is one that ends in `~` if the next one begins with `&`. `LIST n` are n strings, each with a length, a line end, and the bytes. `!`
//! starts an unsolicited message.

use memchr::memchr;
use tuple::{FieldId, Schema, TupleWriter};

use super::*;
use crate::dialogue::ParserDialogue;
use crate::resync::next_line;
use crate::{ProbeResult, ProtocolDefinition};

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;

tuple::fields! {
    REQUEST: Text, None, "request", "its first word";
    RESPONSE: Text, None, "response", "what is kept of it";
    REQUEST_BYTES: U64, Bytes, "request_bytes", "its length";
    RESPONSE_BYTES: U64, Bytes, "response_bytes", "its length";
    RESPONSE_TIME_NS: I64, Nanoseconds, "response_time_ns", "response time";
    TRANSFER_TIME_NS: I64, Nanoseconds, "transfer_time_ns", "transfer time";
}

static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "toy",
    ports: &[],
    tcp: true,
    udp: false,
    probe: |_, _| ProbeResult::Request,
    start: RequestResponseParser::<ToyProtocol>::start,
};

#[derive(Default)]
struct ToyProtocol {
    then: MessageSuccessor,
    may_go_on: bool,
}

impl RequestResponseProtocol for ToyProtocol {
    const RESPONSE_TIME_NS: FieldId = RESPONSE_TIME_NS;
    const TRANSFER_TIME_NS: Option<FieldId> = Some(TRANSFER_TIME_NS);
    const BYTES: [Option<FieldId>; 2] = [Some(REQUEST_BYTES), Some(RESPONSE_BYTES)];
    const BYTES_MIN: u32 = 3;
    const HEAD_BYTES_MAX: usize = 100;
    const KEPT_BYTES_MAX: usize = 12;
    const TALK: ExchangePattern = ExchangePattern::Freely;

    fn cut(&self, _: Direction, bytes: &[u8]) -> MessageBoundary {
        match memchr(b'\n', bytes) {
            None => MessageBoundary::NeedMore,
            Some(0) => MessageBoundary::Filler(1),
            Some(end) => match bytes[..end].strip_prefix(b"LIST ").map(number) {
                Some(0) | None => MessageBoundary::Message {
                    head: end + 1,
                    body: 0,
                },
                Some(rest) => MessageBoundary::Part {
                    head: end + 1,
                    body: 0,
                    rest,
                },
            },
        }
    }

    fn go_on(&self, _: Direction, rest: u64, bytes: &[u8]) -> MessageBoundary {
        let Some(end) = memchr(b'\n', bytes) else {
            return MessageBoundary::NeedMore;
        };
        let head = end + 1;
        let body = number(&bytes[..end]);
        if rest == 1 {
            MessageBoundary::Message { head, body }
        } else {
            MessageBoundary::Part {
                head,
                body,
                rest: rest - 1,
            }
        }
    }

    fn next(_: Direction, bytes: &[u8], from: usize) -> Option<usize> {
        next_line(bytes, from)
    }

    fn believe(&self, direction: Direction, _: &[u8], found: MessagePosition) -> bool {
        direction == C || found == MessagePosition::AnswerStart
    }

    fn request(&mut self, head: &[u8]) -> ResponseExpectation {
        if head.starts_with(b"TELL") {
            ResponseExpectation::Nothing
        } else {
            ResponseExpectation::Response
        }
    }

    fn response(&mut self, head: &[u8], asked: Option<&[u8]>) -> ServerMessageRole {
        if asked.is_some_and(|asked| asked.starts_with(b"BYE")) {
            self.then = MessageSuccessor::AnotherProtocol;
        }
        self.may_go_on = head.ends_with(b"~\n");
        match head {
            [b'!', b'!', ..] => ServerMessageRole::Aside,
            [b'!', ..] => ServerMessageRole::Unsolicited,
            [.., b'+', b'\n'] => ServerMessageRole::AnswerGoesOn,
            [.., b'~', b'\n'] => ServerMessageRole::AnswerMayGoOn,
            _ => ServerMessageRole::Answer,
        }
    }

    fn goes_on(&mut self, head: &[u8]) -> bool {
        !self.may_go_on || head.starts_with(b"&")
    }

    fn then(&self) -> MessageSuccessor {
        self.then
    }

    fn write(
        request: Option<MessageView<'_>>,
        response: Option<MessageView<'_>>,
        w: &mut TupleWriter,
    ) {
        let line = |head: &[u8]| head.escape_ascii().to_string().replace("\\n", "/");
        if let Some(request) = request {
            w.text(
                REQUEST,
                request
                    .head
                    .split(u8::is_ascii_whitespace)
                    .next()
                    .unwrap_or_default(),
            );
        }
        if let Some(response) = response {
            w.text(RESPONSE, line(response.head).as_bytes());
        }
    }
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn talk() -> ParserDialogue {
    let schema = Schema::of_parser("toy", 1, "", FIELDS, None, None);
    let fields = &[
        "request",
        "request_bytes",
        "response",
        "response_bytes",
        "response_time_ns",
        "transfer_time_ns",
        "quality",
    ];
    ParserDialogue::new(&PROTOCOL, schema, 0, fields)
}

#[test]
fn messages_of_parts() {
    let mut talk = talk();
    talk.client("ASK a\n")
        .server("LIST 3\n4\nab")
        .server("c\n0\n10\n01234")
        .server("56789")
        .client("ASK b\n")
        .server("b\n");
    assert_eq!(
        talk.rows(),
        [
            "ASK 6 LIST 3/4/0/1 28 1000 2000 exact",
            "ASK 6 b/ 2 1000 0 exact"
        ],
        "the first bytes of the heads are kept"
    );
}

#[test]
fn missing_bytes_of_messages_of_parts() {
    // A gap inside a body, to its end, and beyond it.
    let mut first = talk();
    first
        .client("ASK a\n")
        .server("LIST 2\n4\nab")
        .gap(S, 1)
        .server("c1\nx")
        .client("ASK b\n")
        .server("b\n");
    assert_eq!(
        first.rows(),
        [
            "ASK 6 LIST 2/4/1/ 16 1000 2000 gap_body",
            "ASK 6 b/ 2 1000 0 exact"
        ]
    );
    let mut second = talk();
    second
        .client("ASK a\n")
        .server("LIST 2\n4\nab")
        .gap(S, 2)
        .server("1\nx");
    assert_eq!(second.rows(), ["ASK 6 LIST 2/4/1/ 16 1000 2000 gap_body"]);
    let mut third = talk();
    third
        .client("ASK a\n")
        .server("LIST 2\n4\nab")
        .gap(S, 4)
        .server("x");
    assert_eq!(third.rows(), ["ASK 6 LIST 2/4/ - 1000 - gap_body"]);
}

#[test]
fn unanswered_requests_and_multipart_responses() {
    let mut talk = talk();
    talk.client("TELL a\n\nMANY b\nASK c\n")
        .server("b1+\n\nb2+")
        .server("\nb3\n")
        .server("c\n");
    assert_eq!(
        talk.rows(),
        [
            "TELL 7 - - - - exact",
            "MANY 7 b1+/b2+/b3/ 11 1000 1000 exact",
            "ASK 6 c/ 2 3000 0 exact"
        ]
    );
}

#[test]
fn unsolicited_messages() {
    let mut talk = talk();
    talk.server("!hello\n")
        .client("MANY a\n")
        .server("!!\n!x\na+\n!y\n")
        .server("a\n");
    assert_eq!(
        talk.rows(),
        [
            "- - !hello/ 7 - 0 exact",
            "- - !x/ 3 - 0 exact",
            "- - !y/ 3 - 0 exact",
            "MANY 7 a+/a/ 5 1000 1000 exact"
        ]
    );
}

#[test]
fn responses_that_end_at_the_next_message() {
    let mut talk = talk();
    talk.client("MANY a\nASK b\n")
        .server("a~\n&~\n")
        .server("&~\nb\n");
    for _ in 0..3 {
        talk.client("MANY c\n").server("c~\n");
    }
    talk.client("MANY d\n").server("d~\n").server("&\n");
    talk.client("MANY e\n").server("e~\n");
    assert_eq!(
        talk.rows(),
        [
            "MANY 7 a~/&~/&~/ 9 1000 1000 exact",
            "ASK 6 b/ 2 2000 0 exact",
            "MANY 7 c~/ 3 1000 0 exact",
            "MANY 7 c~/ 3 1000 0 exact",
            "MANY 7 c~/ 3 1000 0 exact",
            "MANY 7 d~/&/ 5 1000 1000 exact",
            "MANY 7 e~/ - 1000 - gap_body"
        ]
    );
}

/// The gap can hide only an unsolicited message: the message after it still answers the request.
#[test]
fn gaps_in_unsolicited_messages() {
    let mut talk = talk();
    for _ in 0..3 {
        talk.client("ASK a\n").server("a\n");
    }
    talk.gap(S, 9)
        .client("ASK b\n")
        .server("b\n")
        .client("ASK c\n")
        .server("c\n");
    let rows = talk.rows();
    assert_eq!(
        &rows[3..],
        ["ASK 6 b/ 2 1000 0 resync", "ASK 6 c/ 2 1000 0 exact"]
    );
}

#[test]
fn multipart_responses_end_at_missing_bytes() {
    let mut talk = talk();
    talk.client("MANY a\n")
        .server("a+\n")
        .gap(S, 3)
        .client("ASK b\n")
        .server("b\n");
    assert_eq!(
        talk.rows(),
        ["MANY 7 a+/ - 1000 - gap_body", "ASK 6 b/ 2 1000 0 resync"]
    );
}

#[test]
fn heads_have_a_limit_of_their_own() {
    let mut talk = talk();
    talk.client("ASK ".to_owned() + &"x".repeat(90))
        .client("\n")
        .server("a\n");
    talk.client("ASK ".to_owned() + &"x".repeat(100))
        .client("\nASK b\n")
        .server("b\n");
    assert_eq!(
        talk.rows(),
        [
            "ASK 95 a/ 2 1000 0 exact",
            "- - b/ 2 - 0 half",
            "ASK 6 - - - - half"
        ]
    );
    assert_eq!(talk.counters.oversized_heads, 1);
}

#[test]
fn another_protocol_follows() {
    let mut talk = talk();
    talk.client("ASK a\n").server("a\n");
    assert!(!talk.is_done());
    talk.client("BYE\n")
        .server("so long\n\x16\x03\x01")
        .client("\x16\x03\x01");
    assert!(talk.is_done() && talk.hands_over());
    assert_eq!(
        talk.rows(),
        ["ASK 6 a/ 2 1000 0 exact", "BYE 4 so long/ 8 1000 0 exact"]
    );
}
