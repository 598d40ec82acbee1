//! Redis and compatible servers (Valkey, KeyDB): RESP2 and RESP3, inline commands, pipelines, transactions,
//! publish/subscribe, pushes.
//!
//! One tuple per command with its reply, and one per unsolicited message of the server. A subscription has
//! one reply per channel; `CLIENT REPLY OFF` and `SKIP` are respected; parsing ends where replication begins.
//! Not parsed: TLS, the cluster bus, and RESP3's streamed strings and aggregates, which no server sends.
//!
//! Sources: the RESP specification and the command reference of redis.io.

use tuple::redact::HASH;
use tuple::{FieldId, Schema, SchemaFacts, TAPS, TupleWriter, WorkloadFacts};

use crate::pairing::{ResponseExpectation, ResponseMatch};
use crate::request_response::{
    ExchangePattern, MessageBoundary, MessagePosition, MessageSuccessor, MessageView,
    RequestResponseParser, RequestResponseProtocol, ServerMessageRole,
};
use crate::resync::next_line;
use crate::{Direction, ProtocolDefinition};

mod commands;
mod probe;
mod redact;
mod resp;
mod subscriptions;

#[cfg(test)]
mod tests;

use self::redact::{COMMAND_WORDS, ERROR_CODE};
use self::subscriptions::RedisSubscriptions;

/// Variant: every tuple.
pub const ALL: u8 = 0;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "redis",
    ports: &[6379, 6380, 26379],
    tcp: true,
    udp: false,
    probe: probe::probe,
    start: RequestResponseParser::<RedisConnection>::start,
};

tuple::fields! {
    COMMAND: Text, None, "command", "command in upper case, without its subcommand; for unsolicited messages of the server the kind: MESSAGE, PMESSAGE, INVALIDATE, MONITOR, ...; null if the request was not captured" => COMMAND_WORDS;
    KEY: Text, None, "key", "first key, or channel; null for commands without a key, and for keys of more than 1,024 bytes" => HASH;
    ARGS: U64, None, "args", "number of arguments after the command";
    HIT: Bool, None, "hit", "whether GET, HGET, GETEX, GETDEL, GETSET, LINDEX, or ZSCORE found a value; null for other commands and errors";
    ERROR: Text, None, "error", "text of an error reply; null without an error" => ERROR_CODE;
    PUSH: Bool, None, "push", "whether the message is unsolicited: a published message, an invalidation, or a line of MONITOR";
    REQUEST_BYTES: U64, Bytes, "request_bytes", "length of the command on the wire";
    RESPONSE_BYTES: U64, Bytes, "response_bytes", "length of the reply on the wire";
    RESPONSE_TIME_NS: I64, Nanoseconds, "response_time_ns", "from the last byte of the command to the first byte of the reply";
    TRANSFER_TIME_NS: I64, Nanoseconds, "transfer_time_ns", "from the first to the last byte of the reply";
    TOTAL_TIME_NS: I64, Nanoseconds, "total_time_ns", "from the last byte of the command to the last byte of the reply";
}

/// Semantic facts for the query language.
const FACTS: SchemaFacts = SchemaFacts {
    success: Some("error is null and response_time_ns >= 0ns"),
    not_found: Some("hit = false"),
    workload: Some(WorkloadFacts {
        operation: "command",
        reads: commands::IS_READ,
        writes: commands::IS_WRITE,
        status: "error",
        bytes: ["response_bytes", "request_bytes"],
    }),
    first: &[
        "ts",
        "client_ip",
        "command",
        "key",
        "error",
        "response_time_ns",
        "total_time_ns",
    ],
    added: &["total_time_ns"],
    families: &[TAPS],
    ..SchemaFacts::NONE
};

/// The schema.
#[must_use]
pub fn schema() -> Schema {
    let doc = "Redis commands with their replies, and unsolicited messages of the server";
    let measure = Some(RESPONSE_TIME_NS);
    let key = Some(COMMAND);
    Schema {
        facts: &FACTS,
        ..Schema::of_parser("redis", 1, doc, FIELDS, measure, key)
    }
}

/// State of one connection.
#[derive(Default)]
pub struct RedisConnection {
    replies: RedisReplyMode,
    subscriptions: RedisSubscriptions,
    replication: RedisReplication,
}

/// Selection of the client's commands that are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RedisReplyMode {
    #[default]
    All,
    /// All but the next one.
    NotNext,
    None,
}

/// Progress toward replication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RedisReplication {
    #[default]
    NotAsked,
    /// By SYNC, whose reply is a bulk string without an end.
    AskedWithSync,
    Begun,
}

impl RequestResponseProtocol for RedisConnection {
    const RESPONSE_TIME_NS: FieldId = RESPONSE_TIME_NS;
    const TRANSFER_TIME_NS: Option<FieldId> = Some(TRANSFER_TIME_NS);
    const TOTAL_TIME_NS: Option<FieldId> = Some(TOTAL_TIME_NS);
    const BYTES: [Option<FieldId>; 2] = [Some(REQUEST_BYTES), Some(RESPONSE_BYTES)];
    /// An inline command of one letter.
    const BYTES_MIN: u32 = 2;
    const KEPT_BYTES_MAX: usize = 2048;
    const TALK: ExchangePattern = ExchangePattern::Freely;

    fn cut(&self, direction: Direction, bytes: &[u8]) -> MessageBoundary {
        match direction {
            Direction::ClientToServer => resp::cut_command(bytes),
            Direction::ServerToClient if self.replication == RedisReplication::AskedWithSync => {
                resp::cut_line(bytes)
            }
            Direction::ServerToClient => resp::cut_reply(bytes),
        }
    }

    fn go_on(&self, direction: Direction, rest: u64, bytes: &[u8]) -> MessageBoundary {
        resp::go_on(direction, rest, bytes)
    }

    fn next(_: Direction, bytes: &[u8], from: usize) -> Option<usize> {
        next_line(bytes, from)
    }

    /// The inside of a reply may look like a reply: a reply is only accepted at a proven message start.
    fn believe(&self, direction: Direction, bytes: &[u8], found: MessagePosition) -> bool {
        match direction {
            Direction::ClientToServer => {
                found != MessagePosition::Anywhere && resp::may_be_command(bytes)
            }
            Direction::ServerToClient => {
                found != MessagePosition::Anywhere || resp::may_be_push(bytes)
            }
        }
    }

    fn request(&mut self, head: &[u8]) -> ResponseExpectation {
        let mut words = resp::words(head);
        let mut is = |word: &str| {
            words
                .next()
                .flatten()
                .is_some_and(|w| w.eq_ignore_ascii_case(word.as_bytes()))
        };
        let name = resp::name(head).unwrap_or_default();
        if name.eq_ignore_ascii_case(b"SYNC") {
            self.replication = RedisReplication::AskedWithSync;
        }
        let is_reply_mode = is("CLIENT") && is("REPLY");
        let mode = resp::words(head)
            .nth(2)
            .flatten()
            .filter(|_| is_reply_mode)
            .unwrap_or_default();
        let answered = self.replies == RedisReplyMode::All;
        self.replies = match (&*mode.to_ascii_uppercase(), self.replies) {
            (b"ON", _) => {
                self.replies = RedisReplyMode::All;
                return ResponseExpectation::Response;
            }
            (b"OFF", _) | (_, RedisReplyMode::None) => RedisReplyMode::None,
            (b"SKIP", _) => RedisReplyMode::NotNext,
            _ => RedisReplyMode::All,
        };
        let is_silent = matches!(&*mode.to_ascii_uppercase(), b"OFF" | b"SKIP");
        if answered && !is_silent {
            ResponseExpectation::Response
        } else {
            ResponseExpectation::Nothing
        }
    }

    fn response(&mut self, head: &[u8], asked: Option<&[u8]>) -> ServerMessageRole {
        let asked_for = |name: &str| {
            asked
                .and_then(resp::name)
                .is_some_and(|n| n.eq_ignore_ascii_case(name.as_bytes()))
        };
        match head {
            [b'+', ..] if asked_for("PSYNC") => self.replication = RedisReplication::Begun,
            [b'$', ..] if self.replication == RedisReplication::AskedWithSync => {
                self.replication = RedisReplication::Begun
            }
            [b'+', ..] if asked_for("RESET") => self.subscriptions = RedisSubscriptions::default(),
            _ if resp::is_monitor_line(head) => return ServerMessageRole::Unsolicited,
            _ => {}
        }
        self.subscriptions.role(head, asked)
    }

    fn goes_on(&mut self, head: &[u8]) -> bool {
        self.subscriptions.goes_on(head)
    }

    fn fit(request: &[u8], response: &[u8]) -> ResponseMatch {
        subscriptions::fit(request, response)
    }

    fn lose(&mut self, direction: Direction) {
        match direction {
            Direction::ClientToServer => self.replies = RedisReplyMode::All,
            Direction::ServerToClient => self.subscriptions.lose(),
        }
    }

    fn then(&self) -> MessageSuccessor {
        if self.replication == RedisReplication::Begun {
            MessageSuccessor::Nothing
        } else {
            MessageSuccessor::Messages
        }
    }

    fn write(
        request: Option<MessageView<'_>>,
        response: Option<MessageView<'_>>,
        w: &mut TupleWriter,
    ) {
        let mut room = [0; 64];
        let name = request.and_then(|said| resp::upper_name(said.head, &mut room));
        if let (Some(request), Some(name)) = (request, name) {
            w.text(COMMAND, name);
            w.u64(ARGS, resp::count(request.head).saturating_sub(1));
            if w.wants(KEY)
                && let Some(key) = commands::key(name, request.head)
            {
                w.text(KEY, &key);
            }
        }
        let Some(response) = response else { return };
        w.bool(PUSH, response.is_unsolicited());
        if response.is_unsolicited() {
            write_push(response.head, w);
        } else if let Some(error) = resp::error(response.head) {
            w.text(ERROR, error);
        } else if let Some(hit) = name
            .filter(|name| commands::may_miss(name))
            .and_then(|_| resp::is_there(response.head))
        {
            w.bool(HIT, hit);
        }
    }
}

/// Writes kind and channel of a push.
fn write_push(head: &[u8], w: &mut TupleWriter) {
    if head.first() == Some(&b'+') {
        return w.text(COMMAND, b"MONITOR");
    }
    let mut words = resp::words(head);
    let kind = words
        .next()
        .flatten()
        .unwrap_or_default()
        .to_ascii_uppercase();
    w.text(COMMAND, &kind);
    let channel = match &*kind {
        b"MESSAGE" | b"SMESSAGE" => words.next(),
        b"PMESSAGE" => words.nth(1),
        _ => None,
    };
    if let Some(channel) = channel.flatten() {
        w.text(KEY, &channel);
    }
}
