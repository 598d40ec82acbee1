//! MongoDB and compatible servers: one tuple per command or operation with its response ("MongoDB Wire Protocol" in the MongoDB
//! manual). OP_MSG, also compressed, and the operations before it: OP_QUERY, OP_GET_MORE, OP_INSERT, OP_UPDATE, OP_DELETE,
//! OP_KILL_CURSORS with OP_REPLY.
//!
//! A response names its request (`responseTo`), so that responses come in any order. In an exhaust stream each further reply names
//! the reply before it: all are one response. Documents are not held: `scan` walks through them, `digest` stores what `command`
//! and `response` write.

use tuple::{FieldId, Schema, SchemaFacts, TAPS, TupleWriter, WorkloadFacts};

use crate::pairing::ResponseExpectation;
use crate::request_response::{
    CorrelationIds, ExchangePattern, HeadContents, MessageBoundary, MessagePosition, MessageView,
    RequestResponseParser, RequestResponseProtocol, ServerMessageRole,
};
use crate::{Direction, ProbeContext, ProbeResult, ProtocolDefinition};

mod bson;
mod columns;
mod command;
mod compression;
mod digest;
mod errors;
mod header;
mod response;
mod scan;
mod shape;
#[cfg(test)]
mod tests;

use self::columns::{
    FIELDS, FINGERPRINT, REQUEST_BYTES, RESPONSE_BYTES, RESPONSE_TIME_NS, TOTAL_TIME_NS,
    TRANSFER_TIME_NS, WAITED_NS,
};
use self::command::Command;
use self::digest::MessageDigest;
use self::header::{
    MESSAGE_BYTES_MIN, MessageHeader, NAMESPACE_BYTES_MAX, OP_COMPRESSED, OP_DELETE, OP_INSERT,
    OP_KILL_CURSORS, OP_UPDATE,
};
use self::scan::ScanState;

/// Variant: every tuple.
pub const ALL: u8 = 0;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "mongodb",
    ports: &[27017, 27018, 27019],
    tcp: true,
    udp: false,
    probe,
    start: RequestResponseParser::<MongoConnection>::start,
};

/// Semantic facts for the query language.
const FACTS: SchemaFacts = SchemaFacts {
    success: Some("ok = true"),
    workload: Some(WorkloadFacts {
        operation: "command",
        reads: "command in ('find', 'aggregate', 'count', 'distinct', 'getMore', 'query', 'get_more')",
        writes: "command in ('insert', 'update', 'delete', 'findAndModify', 'findandmodify', 'bulkWrite')",
        status: "error_name",
        bytes: ["response_bytes", "request_bytes"],
    }),
    first: &[
        "ts",
        "client_ip",
        "fingerprint",
        "error_name",
        "response_time_ns",
        "total_time_ns",
    ],
    families: &[TAPS],
    ..SchemaFacts::NONE
};

/// The schema.
#[must_use]
pub fn schema() -> Schema {
    let doc = "MongoDB commands with their responses";
    let measure = Some(RESPONSE_TIME_NS);
    let key = Some(FINGERPRINT);
    Schema {
        facts: &FACTS,
        ..Schema::of_parser("mongodb", 1, doc, FIELDS, measure, key)
    }
}

/// Messages of MongoDB. A connection has no state: each message is complete by itself.
#[derive(Default)]
pub struct MongoConnection;

impl RequestResponseProtocol for MongoConnection {
    const RESPONSE_TIME_NS: FieldId = RESPONSE_TIME_NS;
    const TRANSFER_TIME_NS: Option<FieldId> = Some(TRANSFER_TIME_NS);
    const TOTAL_TIME_NS: Option<FieldId> = Some(TOTAL_TIME_NS);
    const WAITED_NS: Option<FieldId> = Some(WAITED_NS);
    const BYTES: [Option<FieldId>; 2] = [Some(REQUEST_BYTES), Some(RESPONSE_BYTES)];
    const BYTES_MIN: u32 = MESSAGE_BYTES_MIN;
    const TALK: ExchangePattern = ExchangePattern::Freely;
    const IDS: CorrelationIds = CorrelationIds::Unique;

    fn cut(&self, direction: Direction, bytes: &[u8]) -> MessageBoundary {
        let Some(header) = MessageHeader::read(bytes) else {
            return MessageBoundary::NeedMore;
        };
        if !header.is_of(direction) {
            return MessageBoundary::NoMessage;
        }
        let length = header.length as usize;
        let whole = |head: usize| MessageBoundary::Message {
            head,
            body: (length - head) as u64,
        };
        if bytes.len() >= length {
            return whole(length);
        }
        if header.opcode == OP_COMPRESSED {
            return if bytes.len() >= Self::HEAD_BYTES_MAX {
                whole(Self::HEAD_BYTES_MAX)
            } else {
                MessageBoundary::NeedMore
            };
        }
        match scan::start(bytes) {
            Some(start) => start.state.cut_first(start.used, bytes),
            None if bytes.len() >= NAMESPACE_BYTES_MAX + 64 => whole(bytes.len()),
            None => MessageBoundary::NeedMore,
        }
    }

    fn go_on(&self, _: Direction, rest: u64, bytes: &[u8]) -> MessageBoundary {
        ScanState::unpack(rest).cut(0, bytes)
    }

    /// The first position whose bytes may be a header: its length is below 48 MB, and its operation has the bytes of one.
    fn next(_: Direction, bytes: &[u8], from: usize) -> Option<usize> {
        let may_begin = |at: &usize| {
            let byte = |offset: usize| bytes.get(at + offset).copied();
            let is_operation = match byte(13) {
                Some(7) | None => true,
                Some(0) => byte(12) == Some(1),
                Some(_) => false,
            };
            is_operation
                && byte(3).is_none_or(|high| high <= 2)
                && byte(14).is_none_or(|zero| zero == 0)
                && byte(15).is_none_or(|zero| zero == 0)
        };
        (from..=bytes.len()).find(may_begin)
    }

    /// A stored document may contain a message, but a proven start or everything that its first bytes must contain decides.
    fn believe(&self, direction: Direction, bytes: &[u8], _: MessagePosition) -> bool {
        header::begins_message(direction, bytes) != Some(false)
    }

    fn id(direction: Direction, head: &[u8]) -> Option<u64> {
        let header = MessageHeader::read(head)?;
        Some(match direction {
            Direction::ClientToServer => header.request_id.into(),
            Direction::ServerToClient => header.response_to.into(),
        })
    }

    fn id_of_rest(head: &[u8]) -> Option<u64> {
        Some(MessageHeader::read(head)?.request_id.into())
    }

    fn request(&mut self, head: &[u8]) -> ResponseExpectation {
        match digest::opcode(head) {
            Some(OP_INSERT | OP_UPDATE | OP_DELETE | OP_KILL_CURSORS) => {
                ResponseExpectation::Nothing
            }
            _ if digest::has_more_to_come(head) => ResponseExpectation::Nothing,
            _ => ResponseExpectation::Response,
        }
    }

    fn response(&mut self, head: &[u8], asked: Option<&[u8]>) -> ServerMessageRole {
        if asked.is_some() && digest::has_more_to_come(head) {
            ServerMessageRole::AnswerGoesOn
        } else {
            ServerMessageRole::Answer
        }
    }

    fn keep(
        &self,
        _: Direction,
        kept: &mut Vec<u8>,
        head: &[u8],
        rest: Option<u64>,
    ) -> HeadContents {
        if digest::keep(kept, head, rest) {
            HeadContents::Known
        } else {
            HeadContents::Limited
        }
    }

    fn waits(request: &[u8], response: &[u8], _: Option<i64>) -> Option<bool> {
        let command = MessageDigest::of(request).and_then(Command::of);
        command.map_or(Some(false), |command| {
            command.waits(MessageDigest::of(response))
        })
    }

    fn write(
        request: Option<MessageView<'_>>,
        response: Option<MessageView<'_>>,
        w: &mut TupleWriter,
    ) {
        let request = request.and_then(|view| MessageDigest::of(view.head));
        let response = response.and_then(|view| MessageDigest::of(view.head));
        let command = request.and_then(Command::of);
        if let Some(command) = &command {
            command.write(response, w);
        }
        if let Some(response) = response {
            response::write(command.as_ref(), response, w);
        }
        let cursor = response.and_then(response::cursor_id);
        if let Some(id) = cursor.or(command.as_ref().and_then(Command::cursor_id)) {
            w.i64(columns::CURSOR_ID, id);
        }
        let mut messages = [request, response].into_iter().flatten();
        if let Some(name) = messages.find_map(MessageDigest::compression) {
            w.text(columns::COMPRESSION, name.as_bytes());
        }
    }
}

/// A message by everything that its first bytes must contain; `NeedMore` while they may still become one.
fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let is_of = |direction: Direction| match context.speaker {
        Some(speaker) if speaker != direction => Some(false),
        _ => header::begins_message(direction, bytes),
    };
    let request = is_of(Direction::ClientToServer);
    let response = is_of(Direction::ServerToClient);
    match (request, response) {
        (Some(true), _) => ProbeResult::Request,
        (_, Some(true)) => ProbeResult::Response,
        (None, _) | (_, None) => ProbeResult::NeedMore,
        _ => ProbeResult::NotForUs,
    }
}
