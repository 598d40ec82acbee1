//! The protocol to copy for your own parser: a toy store over TCP, with lines.
//!
//! A request is `GET key`, `DEL key`, or `PUT key bytes` and the value; a response is `OK`, `OK bytes` and the value,
//! or `ERR reason`. The protocol consists of three short functions, [`StoreProtocol`]; [`crate::request_response`] does the
//! rest. `docs/write-a-parser.md` explains this file. It is not in the registry.

use memchr::memchr;
use tuple::redact::HASH;
use tuple::{Schema, SchemaFacts, TupleWriter};

use crate::request_response::{
    MessageBoundary, MessageView, RequestResponseParser, RequestResponseProtocol,
};
use crate::resync::next_line;
use crate::{Direction, ProbeContext, ProbeResult, ProtocolDefinition};

/// Variant: every transaction.
pub const ALL: u8 = 0;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "store",
    ports: &[7070],
    tcp: true,
    udp: false,
    probe,
    start: RequestResponseParser::<StoreProtocol>::start,
};

tuple::fields! {
    COMMAND: Text, None, "command", "GET, DEL or PUT";
    KEY: Text, None, "key", "requested key" => HASH;
    ERROR: Text, None, "error", "reason in an ERR response";
    RESPONSE_TIME_NS: I64, Nanoseconds, "response_time_ns", "from the last byte of the request to the first byte of the response";
}

/// The schema.
#[must_use]
pub fn schema() -> Schema {
    let measure = Some(RESPONSE_TIME_NS);
    let key = Some(KEY);
    let facts = &SchemaFacts {
        success: Some("error is null and response_time_ns >= 0ns"),
        ..SchemaFacts::NONE
    };
    Schema {
        facts,
        ..Schema::of_parser("store", 1, "requests to a toy store", FIELDS, measure, key)
    }
}

// begin: the protocol
/// Messages of the store.
#[derive(Default)]
pub struct StoreProtocol;

impl RequestResponseProtocol for StoreProtocol {
    const RESPONSE_TIME_NS: tuple::FieldId = RESPONSE_TIME_NS;

    fn cut(&self, direction: Direction, bytes: &[u8]) -> MessageBoundary {
        let Some(end) = memchr(b'\n', bytes) else {
            return MessageBoundary::NeedMore;
        };
        let body = match (direction, words(&bytes[..end])) {
            (Direction::ClientToServer, [b"GET" | b"DEL", _, b""]) => Some(0),
            (Direction::ClientToServer, [b"PUT", _, len])
            | (Direction::ServerToClient, [b"OK", len, b""]) => number(len),
            (Direction::ServerToClient, [b"ERR", ..]) => Some(0),
            _ => None,
        };
        body.map_or(MessageBoundary::NoMessage, |body| {
            MessageBoundary::Message {
                head: end + 1,
                body,
            }
        })
    }

    fn next(_: Direction, bytes: &[u8], from: usize) -> Option<usize> {
        next_line(bytes, from)
    }

    fn write(
        request: Option<MessageView<'_>>,
        response: Option<MessageView<'_>>,
        w: &mut TupleWriter,
    ) {
        if let Some([command, key, _]) = request.map(|said| words(said.head)) {
            w.text(COMMAND, command);
            w.text(KEY, key);
        }
        if let Some(reason) = response.and_then(|said| said.head.strip_prefix(b"ERR ")) {
            w.text(ERROR, reason.trim_ascii_end());
        }
    }
}
// end: the protocol

/// A complete request or response; `NeedMore` while the bytes may still become one.
fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    match (
        StoreProtocol.cut(Direction::ClientToServer, bytes),
        StoreProtocol.cut(Direction::ServerToClient, bytes),
    ) {
        (MessageBoundary::Message { .. }, _) => ProbeResult::Request,
        // `OK` and `ERR` occur in many protocols.
        (_, MessageBoundary::Message { .. }) if context.usual_port => ProbeResult::Response,
        (MessageBoundary::NeedMore, _) if bytes.len() < 512 && bytes.is_ascii() => {
            ProbeResult::NeedMore
        }
        _ => ProbeResult::NotForUs,
    }
}

/// The first three words of a line.
fn words(line: &[u8]) -> [&[u8]; 3] {
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|w| !w.is_empty());
    std::array::from_fn(|_| words.next().unwrap_or_default())
}

/// A length; none is 0.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        Some(0)
    } else {
        std::str::from_utf8(digits).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dialogue::ParserDialogue;

    const C: Direction = Direction::ClientToServer;
    const S: Direction = Direction::ServerToClient;

    fn dialogue() -> ParserDialogue {
        ParserDialogue::new(
            &PROTOCOL,
            schema(),
            ALL,
            &["command", "key", "error", "response_time_ns", "quality"],
        )
    }

    #[test]
    fn requests_and_responses() {
        let mut talk = dialogue();
        talk.client("PUT a 5\nhel")
            .client("loGET a\n")
            .server("OK\nOK 5\n")
            .server("hello")
            .client("DEL b\r\n");
        talk.server("ERR no such")
            .server(" key\r\n")
            .client("GET c\n");
        assert_eq!(
            talk.rows(),
            [
                "PUT a - 1000 exact",
                "GET a - 1000 exact",
                "DEL b no such key 1000 exact",
                "GET c - - half"
            ]
        );
    }

    #[test]
    fn gaps() {
        let mut talk = dialogue();
        talk.client("GET a\n")
            .server("OK 9\n123")
            .gap(S, 5)
            .server("9")
            .client("GET b\n")
            .server("OK\n");
        assert_eq!(talk.rows(), ["GET a - 1000 gap_body", "GET b - 1000 exact"]);
        let mut talk = dialogue();
        talk.client("GET a\n")
            .server("OK\n")
            .client("GET b\n")
            .gap(S, 3)
            .client("GET c\n")
            .server("ERR x\n");
        assert_eq!(
            talk.rows(),
            [
                "GET a - 1000 exact",
                "GET b - - half",
                "GET c x 1000 resync"
            ]
        );
        let mut talk = dialogue();
        talk.client("GET a\n")
            .server("OK\n")
            .gap(C, 6)
            .server("ERR b\n")
            .client("GET c\n")
            .server("OK\n");
        assert_eq!(
            talk.rows(),
            ["GET a - 1000 exact", "- - b - half", "GET c - 1000 resync"]
        );
    }

    #[test]
    fn malformed_messages_are_skipped() {
        let mut talk = dialogue();
        talk.client("GET a\n")
            .server("OK\n")
            .client("HELLO\nGET x\n")
            .server("OK\n")
            .client("GET b\n");
        assert_eq!(talk.counters.malformed_messages, 1);
        assert_eq!(
            talk.rows(),
            ["GET a - 1000 exact", "- - - - half", "GET b - - half"]
        );
        let mut talk = dialogue();
        talk.client("x".repeat(70_000))
            .server("OK\n")
            .client("GET b\n");
        assert_eq!((talk.counters.oversized_heads, talk.rows().len()), (1, 2));
    }

    /// docs/write-a-parser.md shows the code of this file.
    #[test]
    fn the_page_shows_this_code() {
        let page = include_str!("../../../docs/write-a-parser.md");
        let code = include_str!("template.rs");
        let all = [code, include_str!("template_with_ids.rs")].concat();
        let shown: Vec<&str> = page
            .split("```rust\n")
            .skip(1)
            .filter_map(|s| s.split("\n```").next())
            .collect();
        assert_eq!(shown.len(), 4);
        for part in shown.iter().flat_map(|s| s.split("\n\n")) {
            assert!(all.contains(part), "not in the templates:\n{part}");
        }
        let product = code
            .split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap_or_default();
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        let lines = product.lines().filter(is_code).count();
        assert!(
            page.contains(&format!(": {lines} lines in all")),
            "{lines} lines"
        );
    }

    #[test]
    fn probing() {
        let check = |bytes: &[u8], usual_port, expected| {
            let context = ProbeContext {
                transport: wire::IpProtocol::TCP,
                usual_port,
                midstream: false,
                speaker: None,
                answers: false,
            };
            assert_eq!(probe(bytes, context), expected, "{}", bytes.escape_ascii());
        };
        check(b"GET a\n", false, ProbeResult::Request);
        check(b"OK 3\n", true, ProbeResult::Response);
        check(b"OK 3\n", false, ProbeResult::NotForUs);
        check(b"PU", false, ProbeResult::NeedMore);
        check(b"GET / HTTP/1.1\r\n", false, ProbeResult::NotForUs);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn tuples_do_not_depend_on_segmentation(
            messages in proptest::collection::vec(("(GET|DEL) [a-z]{1,9}\n|PUT k 3\n[a-z\n]{3}", "OK\n|OK 4\n[A-Z\n]{4}|ERR [a-z]{0,5}\n"), 1..8),
            n in 1..9usize,
        ) {
            let fields = &["command", "key", "error", "quality"];
            let mut whole = ParserDialogue::new(&PROTOCOL, schema(), ALL, fields);
            let mut cut = ParserDialogue::new(&PROTOCOL, schema(), ALL, fields);
            for (request, response) in &messages {
                whole.client(request).server(response);
                for piece in request.as_bytes().chunks(n) {
                    cut.client(piece);
                }
                for piece in response.as_bytes().chunks(n) {
                    cut.server(piece);
                }
            }
            let rows = whole.rows();
            prop_assert_eq!(rows.len(), messages.len());
            prop_assert_eq!(rows, cut.rows());
        }

        #[test]
        fn nothing_panics(steps in proptest::collection::vec((any::<bool>(), "(GET |PUT |OK|ERR|[0-9]{1,20}|\n|[a-z]| ){0,9}", 0..20u64), 0..40)) {
            let mut talk = dialogue();
            for (client, text, gap) in steps {
                let direction = if client { C } else { S };
                talk.bytes(direction, text.as_bytes());
                if gap < 4 {
                    talk.gap(direction, if gap == 0 { u64::MAX } else { gap });
                }
            }
            talk.rows();
        }
    }
}
