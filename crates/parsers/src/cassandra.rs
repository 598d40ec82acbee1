//! Cassandra and compatible servers: one tuple per request with its response, and one per event ("CQL BINARY PROTOCOL v3, v4, v5" in
//! Cassandra's sources).
//!
//! A response names its request by a stream, so that responses come in any order; streams are used again. Envelopes of version 5 are in
//! frames, which `framing` removes. Messages are not held: `request` and `response` read their first bytes, `digest` stores what `write`
//! writes. Prepared statements have identifiers that are digests of their texts: all connections of a worker share them.

use tuple::{FieldId, Schema, SchemaFacts, TAPS, TupleWriter, WorkloadFacts};

use crate::pairing::ResponseExpectation;
use crate::request_response::{
    CorrelationIds, ExchangePattern, HeadContents, MessageBoundary, MessagePosition, MessageView,
    RequestResponseProtocol, ServerMessageRole,
};
use crate::shared_names::SharedNames;
use crate::{Direction, ProtocolDefinition};

mod body;
mod codes;
mod columns;
mod compression;
mod connection;
mod digest;
mod frame_header;
mod frames;
mod framing;
mod header;
mod recognition;
mod request;
mod response;
mod target;
#[cfg(test)]
mod tests;
mod write;

use self::columns::{
    FIELDS, FINGERPRINT, REQUEST_BYTES, RESPONSE_BYTES, RESPONSE_TIME_NS, TOTAL_TIME_NS,
    TRANSFER_TIME_NS,
};
use self::connection::{CqlConnection, MessageContents};
use self::digest::CqlDigestView;
use self::header::{COMPRESSED, EnvelopeHeader, HEADER};
use self::recognition::Evidence;

/// Variant: every tuple.
pub const ALL: u8 = 0;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "cassandra",
    ports: &[9042, 9142],
    tcp: true,
    udp: false,
    probe: recognition::probe,
    start: framing::CassandraParser::start,
};

/// Semantic facts for the query language.
const FACTS: SchemaFacts = SchemaFacts {
    success: Some("ok = true"),
    workload: Some(WorkloadFacts {
        operation: "operation",
        reads: "operation = 'SELECT'",
        writes: "operation in ('INSERT', 'UPDATE', 'DELETE', 'BATCH')",
        status: "error",
        bytes: ["response_bytes", "request_bytes"],
    }),
    first: &[
        "ts",
        "client_ip",
        "fingerprint",
        "error",
        "response_time_ns",
        "total_time_ns",
    ],
    families: &[TAPS],
    ..SchemaFacts::NONE
};

/// The schema.
#[must_use]
pub fn schema() -> Schema {
    let doc = "CQL requests with their responses";
    let measure = Some(RESPONSE_TIME_NS);
    let key = Some(FINGERPRINT);
    Schema {
        facts: &FACTS,
        ..Schema::of_parser("cassandra", 1, doc, FIELDS, measure, key)
    }
}

impl RequestResponseProtocol for CqlConnection {
    const RESPONSE_TIME_NS: FieldId = RESPONSE_TIME_NS;
    const TRANSFER_TIME_NS: Option<FieldId> = Some(TRANSFER_TIME_NS);
    const TOTAL_TIME_NS: Option<FieldId> = Some(TOTAL_TIME_NS);
    const BYTES: [Option<FieldId>; 2] = [Some(REQUEST_BYTES), Some(RESPONSE_BYTES)];
    const BYTES_MIN: u32 = HEADER as u32;
    const TALK: ExchangePattern = ExchangePattern::Freely;
    const IDS: CorrelationIds = CorrelationIds::Reused;

    fn cut(&self, direction: Direction, bytes: &[u8]) -> MessageBoundary {
        let Some(header) = EnvelopeHeader::read(bytes) else {
            return MessageBoundary::NeedMore;
        };
        if !header.is_of(direction) {
            return MessageBoundary::NoMessage;
        }
        let length = HEADER + header.length as usize;
        let limit = length.min(Self::HEAD_BYTES_MAX);
        let head = if bytes.len() >= limit {
            Some(limit)
        } else if header.flags & COMPRESSED == 0 {
            response::bytes_needed(header, bytes)
        } else {
            None
        };
        head.map_or(MessageBoundary::NeedMore, |head| MessageBoundary::Message {
            head,
            body: (length - head) as u64,
        })
    }

    /// The first position whose bytes may be a header: a version, an operation, and a length below 256 MiB.
    fn next(direction: Direction, bytes: &[u8], from: usize) -> Option<usize> {
        let is_response = direction == Direction::ServerToClient;
        let may_begin = |at: &usize| {
            let byte = |offset: usize| bytes.get(at + offset).copied();
            byte(0).is_none_or(|first| {
                header::is_version(first & 0x7f) && (first & 0x80 != 0) == is_response
            }) && byte(4).is_none_or(|opcode| opcode <= 0x10)
                && byte(5).is_none_or(|high| high <= 0x10)
        };
        (from..=bytes.len()).find(may_begin)
    }

    /// A value may contain a message: elsewhere than at a proven start, the body must have its form, and a response must name an
    /// outstanding request.
    fn believe(&self, direction: Direction, bytes: &[u8], found: MessagePosition) -> bool {
        let is_anywhere = found == MessagePosition::Anywhere;
        let is_named = |header: EnvelopeHeader| {
            direction == Direction::ClientToServer
                || header.stream < 0
                || self.is_outstanding(header.stream)
        };
        match recognition::evidence(direction, bytes) {
            None => true,
            Some(Evidence::None) => false,
            Some(Evidence::Header) => !is_anywhere,
            Some(Evidence::Body) => {
                !is_anywhere || EnvelopeHeader::read(bytes).is_some_and(is_named)
            }
        }
    }

    fn id(_: Direction, head: &[u8]) -> Option<u64> {
        u64::try_from(EnvelopeHeader::read(head)?.stream).ok()
    }

    fn request(&mut self, _: &[u8]) -> ResponseExpectation {
        ResponseExpectation::Response
    }

    fn response(&mut self, head: &[u8], _: Option<&[u8]>) -> ServerMessageRole {
        match EnvelopeHeader::read(head) {
            Some(header) if header.opcode == codes::EVENT => ServerMessageRole::Unsolicited,
            _ => ServerMessageRole::Answer,
        }
    }

    fn read(
        &mut self,
        direction: Direction,
        head: &[u8],
        _: Option<u64>,
        names: Option<&SharedNames>,
    ) {
        self.read_message(direction, head, names.map(|names| &names.statements));
    }

    fn keep(
        &self,
        direction: Direction,
        kept: &mut Vec<u8>,
        _: &[u8],
        _: Option<u64>,
    ) -> HeadContents {
        let reading = match direction {
            Direction::ClientToServer => &self.client,
            Direction::ServerToClient => &self.server,
        };
        reading.digest.store(kept);
        match reading.contents {
            MessageContents::Whole => HeadContents::Known,
            MessageContents::Limited => HeadContents::Limited,
            MessageContents::Unknown => HeadContents::Unknown,
        }
    }

    fn lose(&mut self, direction: Direction) {
        self.forget(direction);
    }

    fn write(
        request: Option<MessageView<'_>>,
        response: Option<MessageView<'_>>,
        w: &mut TupleWriter,
    ) {
        let request = request.and_then(|message| CqlDigestView::of(message.head));
        let response = response.and_then(|message| CqlDigestView::of(message.head));
        write::write(request, response, w);
    }
}
