//! The protocol to copy for a parser whose responses name their requests: a toy queue over TCP, with frames.
//!
//! A frame has a length in four bytes, big-endian, that counts what follows it; a correlation id in four bytes; a code;
//! and a text. Codes of requests: 1 puts, 2 gets, and 3 logs, without a response; the text is a topic. Codes of responses:
//! 0 is success, 1 a part of a response that goes on with a later frame of the same id, 2 an error; the text is its reason.
//! Responses come in any order. `docs/write-a-parser.md` explains this file. It is not in the registry.

use memchr::memchr;
use tuple::redact::HASH;
use tuple::{Schema, SchemaFacts, TupleWriter};

use crate::pairing::ResponseExpectation;
use crate::request_response::{
    CorrelationIds, MessageBoundary, MessageView, RequestResponseParser, RequestResponseProtocol,
    ServerMessageRole,
};
use crate::{Direction, ProbeContext, ProbeResult, ProtocolDefinition};

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "queue",
    ports: &[7071],
    tcp: true,
    udp: false,
    probe,
    start: RequestResponseParser::<QueueProtocol>::start,
};

tuple::fields! {
    COMMAND: Text, None, "command", "put, get or log";
    TOPIC: Text, None, "topic", "requested topic" => HASH;
    ERROR: Text, None, "error", "reason in an error response";
    RESPONSE_TIME_NS: I64, Nanoseconds, "response_time_ns", "from the last byte of the request to the first byte of the response";
}

/// The schema.
#[must_use]
pub fn schema() -> Schema {
    let measure = Some(RESPONSE_TIME_NS);
    let facts = &SchemaFacts {
        success: Some("error is null and response_time_ns >= 0ns"),
        ..SchemaFacts::NONE
    };
    Schema {
        facts,
        ..Schema::of_parser(
            "queue",
            1,
            "requests to a toy queue",
            FIELDS,
            measure,
            Some(TOPIC),
        )
    }
}

// begin: the protocol
/// Messages of the queue.
#[derive(Default)]
pub struct QueueProtocol;

impl RequestResponseProtocol for QueueProtocol {
    const RESPONSE_TIME_NS: tuple::FieldId = RESPONSE_TIME_NS;
    const IDS: CorrelationIds = CorrelationIds::Reused;
    const BYTES_MIN: u32 = 9;

    fn cut(&self, direction: Direction, bytes: &[u8]) -> MessageBoundary {
        let Some((length, rest)) = bytes.split_first_chunk() else {
            return MessageBoundary::NeedMore;
        };
        let length = u32::from_be_bytes(*length) as usize;
        let codes = match direction {
            Direction::ClientToServer => 1..=3,
            Direction::ServerToClient => 0..=2,
        };
        let is_code = rest.get(4).is_none_or(|code| codes.contains(code));
        let head = 4 + length;
        if !is_code || !(5..60_000).contains(&length) {
            MessageBoundary::NoMessage
        } else if bytes.len() < head {
            MessageBoundary::NeedMore
        } else {
            MessageBoundary::Message { head, body: 0 }
        }
    }

    fn next(_: Direction, bytes: &[u8], from: usize) -> Option<usize> {
        memchr(0, &bytes[from..]).map(|at| from + at)
    }

    fn id(_: Direction, head: &[u8]) -> Option<u64> {
        let id = head[4..].first_chunk()?;
        Some(u32::from_be_bytes(*id).into())
    }

    fn request(&mut self, head: &[u8]) -> ResponseExpectation {
        match head[8] {
            3 => ResponseExpectation::Nothing,
            _ => ResponseExpectation::Response,
        }
    }

    fn response(&mut self, head: &[u8], _: Option<&[u8]>) -> ServerMessageRole {
        match head[8] {
            1 => ServerMessageRole::AnswerGoesOn,
            _ => ServerMessageRole::Answer,
        }
    }

    fn write(
        request: Option<MessageView<'_>>,
        response: Option<MessageView<'_>>,
        w: &mut TupleWriter,
    ) {
        if let Some((code, topic)) = request.and_then(|view| view.head[8..].split_first()) {
            w.text(
                COMMAND,
                [&b"put"[..], b"get", b"log"][usize::from(*code) - 1],
            );
            w.text(TOPIC, topic);
        }
        if let Some((2, reason)) = response.and_then(|view| view.head[8..].split_first()) {
            w.text(ERROR, reason);
        }
    }
}
// end: the protocol

/// A complete request or response; `NeedMore` while the bytes may still become one.
fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    match (
        QueueProtocol.cut(Direction::ClientToServer, bytes),
        QueueProtocol.cut(Direction::ServerToClient, bytes),
    ) {
        // A length and a code are little evidence.
        _ if !context.usual_port => ProbeResult::NotForUs,
        (MessageBoundary::Message { .. }, _) => ProbeResult::Request,
        (_, MessageBoundary::Message { .. }) => ProbeResult::Response,
        (MessageBoundary::NeedMore, _) | (_, MessageBoundary::NeedMore) => ProbeResult::NeedMore,
        _ => ProbeResult::NotForUs,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::dialogue::ParserDialogue;

    const C: Direction = Direction::ClientToServer;
    const S: Direction = Direction::ServerToClient;
    const FIELDS: &[&str] = &["command", "topic", "error", "response_time_ns", "quality"];

    fn dialogue() -> ParserDialogue {
        ParserDialogue::new(&PROTOCOL, schema(), 0, FIELDS)
    }

    fn frame(id: u32, code: u8, text: &str) -> Vec<u8> {
        let length = 5 + text.len() as u32;
        let head = [length.to_be_bytes(), id.to_be_bytes()].concat();
        [&head[..], &[code], text.as_bytes()].concat()
    }

    #[test]
    fn responses_in_any_order() {
        let mut talk = dialogue();
        talk.client([frame(1, 1, "a"), frame(2, 2, "b"), frame(3, 3, "c")].concat())
            .server(frame(2, 0, ""))
            .client(frame(4, 2, "d"))
            .server([frame(4, 2, "no"), frame(1, 0, "")].concat());
        assert_eq!(
            talk.rows(),
            [
                "log c - - exact",
                "get b - 1000 exact",
                "get d no 1000 exact",
                "put a - 3000 exact"
            ]
        );
    }

    #[test]
    fn responses_of_several_frames_interleave() {
        let mut talk = dialogue();
        talk.client([frame(1, 2, "a"), frame(2, 2, "b")].concat())
            .server(frame(1, 1, "x"))
            .server([frame(2, 1, "x"), frame(1, 1, "x")].concat())
            .server(frame(2, 0, ""))
            .server(frame(1, 0, ""));
        assert_eq!(
            talk.rows(),
            ["get b - 2000 exact", "get a - 1000 exact"],
            "response times are those of first frames"
        );
    }

    /// An unanswered request delays no other, and its slot does not keep those of later ones.
    #[test]
    fn unanswered_requests_delay_nothing() {
        let mut talk = dialogue();
        talk.client(frame(7, 2, "never"));
        for id in 10..200_000 {
            talk.client(frame(id, 1, "a")).server(frame(id, 0, ""));
        }
        assert_eq!(talk.counters.evicted_requests, 0);
        talk.server(frame(7, 0, ""));
        let rows = talk.rows();
        assert_eq!(rows.len(), 199_991);
        assert_eq!(rows[0], "put a - 1000 exact");
        assert!(
            rows[199_990].starts_with("get never - "),
            "{}",
            rows[199_990]
        );
    }

    #[test]
    fn evicted_requests_are_counted_once() {
        let mut talk = dialogue();
        talk.limits.outstanding_max = 1024;
        for id in 0..1030 {
            talk.client(frame(id, 1, "a"));
        }
        assert_eq!(talk.counters.evicted_requests, 6);
        for id in 0..1030 {
            talk.server(frame(id, 0, ""));
        }
        let rows = talk.rows();
        assert_eq!(rows.len(), 1030);
        assert_eq!(rows.iter().filter(|row| row.ends_with("half")).count(), 6);
        assert_eq!(talk.counters.separated_halves, 6);
    }

    #[test]
    fn gaps_hide_no_other_messages() {
        let mut talk = dialogue();
        talk.client([frame(1, 1, "a"), frame(2, 2, "b")].concat())
            .gap(S, 9)
            .client(frame(3, 2, "c"))
            .server(frame(3, 0, ""))
            .server(frame(1, 0, ""));
        assert_eq!(
            talk.rows(),
            ["get c - 1000 exact", "put a - 4000 exact", "get b - - half"]
        );
    }

    /// The missing request may have had the id of the one before it.
    #[test]
    fn ids_that_were_perhaps_used_again_name_nothing() {
        let mut talk = dialogue();
        talk.client(frame(1, 1, "a"))
            .gap(C, 10)
            .server(frame(1, 0, ""))
            .client(frame(2, 2, "b"))
            .server(frame(2, 0, ""));
        assert_eq!(
            talk.rows(),
            ["put a - - half", "- - - - half", "get b - 1000 resync"]
        );
        // The client gave up, and one of the two responses is missing or late.
        let mut talk = dialogue();
        talk.client(frame(1, 1, "a"))
            .client(frame(1, 2, "b"))
            .server(frame(1, 0, ""));
        assert_eq!(
            talk.rows(),
            ["put a - - half", "get b - - half", "- - - - half"]
        );
        // Its response was lost.
        let mut talk = dialogue();
        talk.client(frame(1, 1, "a"))
            .gap(S, 9)
            .client(frame(1, 2, "b"))
            .server(frame(1, 0, ""));
        assert_eq!(talk.rows(), ["put a - - half", "get b - 1000 exact"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// A client with a few ids, a server that answers in any order, and losses: each response repeats the topic of its
        /// request, so that a wrong pair shows.
        #[test]
        fn no_pair_is_wrong(steps in proptest::collection::vec((0..6u32, 0..9u8, 0..12u8), 1..120)) {
            let mut talk = dialogue();
            let mut outstanding = HashMap::new();
            let (mut asked, mut answered) = (0, 0);
            for (number, (id, act, fate)) in steps.into_iter().enumerate() {
                let is_lost = fate == 0;
                let (direction, bytes) = if act < 5 {
                    if outstanding.contains_key(&id) {
                        continue;
                    }
                    let topic = format!("t{number}");
                    outstanding.insert(id, topic.clone());
                    (C, frame(id, 1, &topic))
                } else {
                    let Some(topic) = outstanding.remove(&id) else {
                        continue;
                    };
                    (S, frame(id, 2, &topic))
                };
                if is_lost {
                    talk.gap(direction, bytes.len() as u64);
                } else if direction == C {
                    asked += 1;
                    talk.client(bytes);
                } else {
                    answered += 1;
                    talk.server(bytes);
                }
            }
            let rows = talk.rows();
            let mut seen = (0, 0);
            for row in &rows {
                let fields: Vec<&str> = row.split(' ').collect();
                seen.0 += usize::from(fields[1] != "-");
                seen.1 += usize::from(fields[2] != "-");
                prop_assert!(fields[1] == "-" || fields[2] == "-" || fields[1] == fields[2], "{rows:?}");
            }
            // Messages directly after a gap may be skipped by the search.
            prop_assert!(seen.0 <= asked && seen.1 <= answered, "{rows:?}");
        }

        #[test]
        fn tuples_do_not_depend_on_segmentation(
            ids in proptest::collection::vec(0..4u32, 1..9),
            n in 1..12usize,
        ) {
            let mut whole = dialogue();
            let mut cut = dialogue();
            for (number, id) in ids.iter().enumerate() {
                let request = frame(number as u32, 1, "a");
                let response = [frame(number as u32, 1, "x"), frame(number as u32, *id as u8 % 2 * 2, "y")].concat();
                whole.client(&request).server(&response);
                request.chunks(n).for_each(|part| { cut.client(part); });
                response.chunks(n).for_each(|part| { cut.server(part); });
            }
            let without_times = |rows: Vec<String>| -> Vec<String> {
                rows.iter().map(|row| row.split(' ').take(3).collect()).collect()
            };
            let rows = without_times(whole.rows());
            prop_assert_eq!(rows.len(), ids.len());
            prop_assert_eq!(rows, without_times(cut.rows()));
        }

        #[test]
        fn nothing_panics(steps in proptest::collection::vec((any::<bool>(), proptest::collection::vec(0..9u8, 0..20), 0..20u64), 0..40)) {
            let mut talk = dialogue();
            for (client, bytes, gap) in steps {
                let direction = if client { C } else { S };
                talk.bytes(direction, &bytes);
                if gap < 4 {
                    talk.gap(direction, if gap == 0 { u64::MAX } else { gap });
                }
            }
            talk.rows();
        }
    }

    /// `template.rs` compares the page's code with this file.
    #[test]
    fn the_page_has_the_number_of_lines() {
        let page = include_str!("../../../docs/write-a-parser.md");
        let code = include_str!("template_with_ids.rs");
        let protocol = code
            .split("// begin: the protocol\n")
            .nth(1)
            .and_then(|rest| rest.split("// end: the protocol").next());
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        let lines = protocol.unwrap_or_default().lines().filter(is_code).count();
        assert!(page.contains(&format!(" {lines} lines:")), "{lines} lines");
    }
}
