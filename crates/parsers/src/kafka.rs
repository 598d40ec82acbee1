//! Apache Kafka and compatible brokers: one tuple per request with its response (KIP-35 and KIP-482 describe versions and encodings;
//! `tables` is generated from Kafka's message definitions).
//!
//! A response contains only the correlation id of its request: API and version of outstanding requests are kept, and responses are read
//! by them. Messages are not held: `walk` goes through them part by part, `digest` stores what `write` writes.

use tuple::{FieldId, Schema, SchemaFacts, TAPS, TupleWriter, WorkloadFacts};

use crate::pairing::ResponseExpectation;
use crate::request_response::{
    CorrelationIds, ExchangePattern, HeadContents, MessageBoundary, MessagePosition, MessageView,
    RequestResponseParser, RequestResponseProtocol,
};
use crate::{Direction, ProbeContext, ProbeResult, ProtocolDefinition};

mod batches;
mod columns;
mod connection;
mod digest;
mod errors;
mod fetch_session;
mod header;
#[rustfmt::skip]
mod tables;
#[cfg(test)]
mod tests;
mod walk;
mod write;

use self::columns::{
    FIELDS, REQUEST_BYTES, RESPONSE_BYTES, RESPONSE_TIME_NS, TOPIC, TOTAL_TIME_NS,
    TRANSFER_TIME_NS, WAITED_NS, WAITING,
};
use self::connection::KafkaConnection;
use self::digest::DigestView;
use self::header::{HeaderRead, LENGTH, MESSAGE_BYTES_MIN, RequestHeader};
use self::walk::{Walk, WalkPart};
use crate::shared_names::SharedNames;

/// Variant: every tuple.
pub const ALL: u8 = 0;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "kafka",
    ports: &[9092, 9093, 9094],
    tcp: true,
    udp: false,
    probe,
    start: RequestResponseParser::<KafkaConnection>::start,
};

/// Semantic facts for the query language.
const FACTS: SchemaFacts = SchemaFacts {
    success: Some("ok = true"),
    workload: Some(WorkloadFacts {
        operation: "api",
        reads: "api in ('Fetch', 'ShareFetch')",
        writes: "api = 'Produce'",
        status: "error",
        bytes: ["record_bytes", "record_bytes"],
    }),
    first: &[
        "ts",
        "client_ip",
        "api",
        "topic",
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
    let doc = "Kafka requests with their responses";
    let measure = Some(RESPONSE_TIME_NS);
    let key = Some(TOPIC);
    Schema {
        facts: &FACTS,
        ..Schema::of_parser("kafka", 1, doc, FIELDS, measure, key)
    }
}

/// Steps up to the acknowledgments of Produce, which tell whether it expects a response: the tagged fields of the header, the
/// transactional id, and the acknowledgments.
const FIRST_STEPS: usize = 4;

impl RequestResponseProtocol for KafkaConnection {
    const RESPONSE_TIME_NS: FieldId = RESPONSE_TIME_NS;
    const TRANSFER_TIME_NS: Option<FieldId> = Some(TRANSFER_TIME_NS);
    const TOTAL_TIME_NS: Option<FieldId> = Some(TOTAL_TIME_NS);
    const WAITED_NS: Option<FieldId> = Some(WAITED_NS);
    const WAITING: Option<FieldId> = Some(WAITING);
    const BYTES: [Option<FieldId>; 2] = [Some(REQUEST_BYTES), Some(RESPONSE_BYTES)];
    const BYTES_MIN: u32 = MESSAGE_BYTES_MIN;
    const TALK: ExchangePattern = ExchangePattern::Freely;
    const IDS: CorrelationIds = CorrelationIds::Unique;

    fn cut(&self, direction: Direction, bytes: &[u8]) -> MessageBoundary {
        match direction {
            Direction::ClientToServer => self.cut_request(bytes),
            Direction::ServerToClient => self.cut_response(bytes),
        }
    }

    fn go_on(&self, direction: Direction, _: u64, bytes: &[u8]) -> MessageBoundary {
        let walk = match direction {
            Direction::ClientToServer => self.client.walk,
            Direction::ServerToClient => self.server.walk,
        };
        let part = walk.part(bytes);
        if part.is_within && part.head == 0 {
            return MessageBoundary::NeedMore;
        }
        boundary(0, part, bytes.len())
    }

    /// The first position whose bytes may be a header: its length is below 128 MiB, and a request has a key below 256.
    fn next(direction: Direction, bytes: &[u8], from: usize) -> Option<usize> {
        let may_begin = |at: &usize| {
            let byte = |offset: usize| bytes.get(at + offset).copied();
            byte(0).is_none_or(|high| high < 8)
                && (direction == Direction::ServerToClient || byte(4).is_none_or(|high| high == 0))
        };
        (from..=bytes.len()).find(may_begin)
    }

    /// Records may contain messages: elsewhere than at a proven start, a request must continue those before it, and there is no response,
    /// because correlation ids are small numbers. A response must name an outstanding request, and have its layout.
    fn believe(&self, direction: Direction, bytes: &[u8], found: MessagePosition) -> bool {
        match direction {
            Direction::ClientToServer => match header::begins_request(bytes) {
                None => true,
                Some(begins) => {
                    begins && (found != MessagePosition::Anywhere || self.continues(bytes))
                }
            },
            Direction::ServerToClient => {
                found != MessagePosition::Anywhere
                    && header::response_header(bytes)
                        .is_none_or(|(length, id)| self.may_answer(length, id, bytes))
            }
        }
    }

    fn id(direction: Direction, head: &[u8]) -> Option<u64> {
        header::id(direction, head)
    }

    fn request(&mut self, _: &[u8]) -> ResponseExpectation {
        if self.is_silent() {
            ResponseExpectation::Nothing
        } else {
            ResponseExpectation::Response
        }
    }

    fn read(
        &mut self,
        direction: Direction,
        head: &[u8],
        rest: Option<u64>,
        names: Option<&SharedNames>,
    ) {
        self.read_part(
            direction,
            head,
            rest.is_none(),
            names.map(|names| &names.topics),
        );
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
        kept.clear();
        reading.digest.store(kept);
        if reading.is_bad {
            HeadContents::Unknown
        } else {
            HeadContents::Known
        }
    }

    fn waits(request: &[u8], response: &[u8], elapsed: Option<i64>) -> Option<bool> {
        let (request, response) = DigestView::of(request).zip(DigestView::of(response))?;
        write::waits(request, response, elapsed)
    }

    fn lose(&mut self, direction: Direction) {
        self.forget(direction);
    }

    fn write(
        request: Option<MessageView<'_>>,
        response: Option<MessageView<'_>>,
        w: &mut TupleWriter,
    ) {
        let request = request.and_then(|message| DigestView::of(message.head));
        let response = response.and_then(|message| DigestView::of(message.head));
        write::write(request, response, w);
    }
}

impl KafkaConnection {
    fn cut_request(&self, bytes: &[u8]) -> MessageBoundary {
        match RequestHeader::read(bytes) {
            HeaderRead::Header(header) => {
                let walk = || header.walk();
                first_part(walk, header.size, header.length as usize, bytes)
            }
            HeaderRead::NeedMore => MessageBoundary::NeedMore,
            HeaderRead::Bad if self.has_tokens => tokens(bytes),
            HeaderRead::Bad => MessageBoundary::NoMessage,
        }
    }

    fn may_answer(&self, length: u32, id: u32, bytes: &[u8]) -> bool {
        let Some((key, version)) = self.asked(id) else {
            return false;
        };
        let whole = length as usize + LENGTH;
        header::is_response_length(length)
            && header::response_walk(key, version, length)
                .fits(&bytes[8..bytes.len().min(whole).max(8)])
    }

    fn cut_response(&self, bytes: &[u8]) -> MessageBoundary {
        let Some((length, id)) = header::response_header(bytes) else {
            return if self.has_tokens && bytes == [0; LENGTH] {
                MessageBoundary::Filler(LENGTH)
            } else {
                MessageBoundary::NeedMore
            };
        };
        match self.asked(id) {
            None if self.has_tokens => tokens(bytes),
            _ if !header::is_response_length(length) => MessageBoundary::NoMessage,
            Some((key, version)) => {
                let walk = || header::response_walk(key, version, length);
                first_part(walk, 8, length as usize, bytes)
            }
            None => {
                let walk = || Walk::unknown(length as usize - 4);
                first_part(walk, 8, length as usize, bytes)
            }
        }
    }
}

/// A token of SASL: a length, and bytes.
fn tokens(bytes: &[u8]) -> MessageBoundary {
    let length = header::u32_at(bytes, 0).map(|length| length as usize + LENGTH);
    match length {
        Some(length) if length > 64 << 10 => MessageBoundary::NoMessage,
        Some(length) if length <= bytes.len() => MessageBoundary::Filler(length),
        _ => MessageBoundary::NeedMore,
    }
}

/// The first part of a message whose header has `size` bytes and states `length`.
fn first_part(
    walk: impl FnOnce() -> Walk,
    size: usize,
    length: usize,
    bytes: &[u8],
) -> MessageBoundary {
    let whole = length + LENGTH;
    if bytes.len() >= whole {
        return MessageBoundary::Message {
            head: whole,
            body: 0,
        };
    }
    let part = walk().part(&bytes[size..]);
    if part.is_within && part.steps <= FIRST_STEPS {
        return MessageBoundary::NeedMore;
    }
    boundary(size, part, bytes.len())
}

/// The part behind `size` bytes, of which `available` are there in all.
fn boundary(size: usize, part: WalkPart, available: usize) -> MessageBoundary {
    // A head has at least one byte.
    let more = usize::from(size + part.head == 0 && part.body > 0 && available > 0);
    let head = size + part.head + more;
    let body = (part.body - more) as u64;
    if part.left == 0 {
        return MessageBoundary::Message { head, body };
    }
    MessageBoundary::Part {
        head,
        body,
        rest: 0,
    }
}

/// A request by its header, its client id, and its fields; on another port than the usual ones, with a client id, and complete.
/// A response, which is only a length and a number, on a usual port.
fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let length = header::u32_at(bytes, 0).map(|length| length as usize + LENGTH);
    let is_whole = length == Some(bytes.len());
    let may_be = |direction: Direction| context.speaker.is_none_or(|speaker| speaker == direction);
    let is_response = context.usual_port && is_whole && bytes.len() >= 10;
    match header::begins_request(bytes) {
        Some(true) if may_be(Direction::ClientToServer) => {
            let is_named = matches!(RequestHeader::read(bytes), HeaderRead::Header(header) if header.client.is_some_and(|client| !client.is_empty()));
            if context.usual_port || is_named && length <= Some(bytes.len()) {
                ProbeResult::Request
            } else if is_named {
                ProbeResult::NeedMore
            } else {
                ProbeResult::NotForUs
            }
        }
        _ if is_response && may_be(Direction::ServerToClient) => ProbeResult::Response,
        None if may_be(Direction::ClientToServer) => ProbeResult::NeedMore,
        _ => ProbeResult::NotForUs,
    }
}
