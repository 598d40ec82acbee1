//! Where parsers write: tuples of one flow, with the common fields filled in.

use tuple::{TupleWriter, common};
use wire::{Endpoint, IpProtocol, Timestamp};

use crate::community_id::community_id;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Requests.
    ClientToServer,
    /// Responses.
    ServerToClient,
}

/// How a tuple was obtained (DESIGN section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quality {
    /// Every byte that matters was seen.
    Exact,
    /// Bytes of a body are missing; times and sizes are right.
    GapBody,
    /// The first transaction after a resynchronisation.
    Resync,
    /// The connection was joined late.
    Midstream,
    /// The request or the response was not seen.
    Half,
}

impl Quality {
    /// The text in the tuple.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::GapBody => "gap_body",
            Self::Resync => "resync",
            Self::Midstream => "midstream",
            Self::Half => "half",
        }
    }
}

/// What a flow's tuples have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowContext {
    /// The flow's id.
    pub id: u64,
    /// Who opened it, or asks.
    pub client: Endpoint,
    /// Who answers.
    pub server: Endpoint,
    /// TCP, UDP, …
    pub protocol: IpProtocol,
    /// Neither a SYN nor a parser said which end is the client.
    pub client_guessed: bool,
    /// The connection was joined after its start.
    pub midstream: bool,
}

/// One query's use of one parser: the writer of its tuples, and which of the protocol's parsers it is.
pub struct Tap {
    /// The protocol's own number for the parser's name: `http` keeps every transaction, `http_get` only some.
    pub variant: u8,
    /// Where the rows go.
    pub writer: TupleWriter,
}

/// What parsers met and could not use; part of the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that broke the protocol's rules.
    pub malformed_messages: u64,
    /// Bytes passed over while looking for the next message head.
    pub skipped_bytes: u64,
    /// Times a parser had to look for the next message head.
    pub resyncs: u64,
    /// Message heads longer than the limit: what was over is cut.
    pub oversized_heads: u64,
    /// Requests given up because too many waited for a response.
    pub evicted_requests: u64,
    /// Connections whose content cannot be read: encrypted.
    pub encrypted_flows: u64,
    /// Connections whose content cannot be read: compressed.
    pub compressed_flows: u64,
}

impl Counters {
    /// Adds what other parsers have met with.
    pub fn add(&mut self, other: &Counters) {
        self.malformed_messages += other.malformed_messages;
        self.skipped_bytes += other.skipped_bytes;
        self.resyncs += other.resyncs;
        self.oversized_heads += other.oversized_heads;
        self.evicted_requests += other.evicted_requests;
        self.encrypted_flows += other.encrypted_flows;
        self.compressed_flows += other.compressed_flows;
    }
}

/// The sink of one flow's tuples for the length of one call.
pub struct Output<'a> {
    /// The flow.
    pub flow: &'a FlowContext,
    /// The packet clock: when what is written now was complete.
    pub now: Timestamp,
    /// What went wrong.
    pub counters: &'a mut Counters,
    taps: &'a mut [Tap],
}

impl<'a> Output<'a> {
    /// An output to `taps`.
    #[must_use]
    pub fn new(
        flow: &'a FlowContext,
        now: Timestamp,
        counters: &'a mut Counters,
        taps: &'a mut [Tap],
    ) -> Self {
        Output { flow, now, counters, taps }
    }

    /// Whether any tap asked for this column: spares work that only it needs.
    #[must_use]
    pub fn wants(&self, id: tuple::FieldId) -> bool {
        self.taps.iter().any(|t| t.writer.wants(id))
    }

    /// Writes one tuple to every tap whose variant `keep`s it: the common fields, then what `fill` sets.
    /// `ts` is when the tuple's subject began.
    #[inline]
    pub fn emit(
        &mut self,
        ts: Timestamp,
        quality: Quality,
        keep: impl Fn(u8) -> bool,
        mut fill: impl FnMut(&mut TupleWriter),
    ) {
        for tap in self.taps.iter_mut().filter(|t| keep(t.variant)) {
            write_common(&mut tap.writer, self.flow, ts, self.now, quality);
            fill(&mut tap.writer);
            tap.writer.end_row();
        }
    }
}

/// Sets the fields that every tuple begins with. `ts` and `end` are the times of its subject's begin and end.
pub fn write_common(
    w: &mut TupleWriter,
    flow: &FlowContext,
    ts: Timestamp,
    end: Timestamp,
    quality: Quality,
) {
    w.u64(common::ID, flow.id);
    w.i64(common::TS, ts.0);
    w.ip(common::CLIENT_IP, &flow.client.addr.0);
    w.u64(common::CLIENT_PORT, u64::from(flow.client.port));
    w.ip(common::SERVER_IP, &flow.server.addr.0);
    w.u64(common::SERVER_PORT, u64::from(flow.server.port));
    if w.wants(common::TRANSPORT) {
        match flow.protocol {
            IpProtocol::TCP => w.text(common::TRANSPORT, b"tcp"),
            IpProtocol::UDP => w.text(common::TRANSPORT, b"udp"),
            IpProtocol::ICMP => w.text(common::TRANSPORT, b"icmp"),
            IpProtocol::ICMPV6 => w.text(common::TRANSPORT, b"icmp6"),
            other => w.text(common::TRANSPORT, other.0.to_string().as_bytes()),
        }
    }
    w.text(common::QUALITY, quality.name().as_bytes());
    w.bool(common::CLIENT_GUESSED, flow.client_guessed);
    w.i64(common::TS_END, end.0);
    if w.wants(common::COMMUNITY_ID) {
        w.text(common::COMMUNITY_ID, community_id(flow).as_bytes());
    }
}
