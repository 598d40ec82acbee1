//! What the flow table returns for a packet: events as plain values. The bytes they speak of lie in the packet
//! itself (the common case, nothing copied) or, for segments that had to wait, in [`Events`].

use wire::{Side, TcpSeq, Timestamp};

/// A flow's place in its table. Valid from `Opened` until the call after its `Closed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowIdx(pub u32);

/// One thing that happened to one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// To which flow.
    pub flow: FlowIdx,
    /// What.
    pub what: FlowEvent,
}

/// What happened. For one flow the order is: `Opened`, `Resumed` where it goes on, then any of the middle ones, `Terminated` at most once,
/// `Closed` last; what both sides of a connection say comes in the order in which they said it, as `order` tells it.
/// `side` is the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEvent {
    /// The flow's first packet; the flow is in the table now.
    Opened,
    /// The flow goes on with the connection of a flow that was closed as idle in this call: where that has come to, and who is
    /// the client, the table knows; what the caller keeps is still with `from`. Of a flow that was closed in an earlier call
    /// the caller's state is with the new flow at once. Comes after `Opened`.
    Resumed {
        /// The flow that was closed.
        from: FlowIdx,
    },
    /// TCP: the next bytes of `side`'s byte stream, in order, each exactly once.
    Bytes {
        /// Sender.
        side: Side,
        /// Where the bytes lie.
        chunk: Chunk,
        /// When the segment that carried them arrived; for one that had to wait this is earlier than now.
        ts: Timestamp,
        /// Where they belong in what both sides say.
        place: Place,
    },
    /// UDP (or another protocol without streams): one datagram's payload.
    Datagram {
        /// Sender.
        side: Side,
        /// Where the bytes lie.
        chunk: Chunk,
        /// Bytes of the payload that the snaplen cut off.
        cut: u32,
        /// Arrival.
        ts: Timestamp,
    },
    /// `len` bytes of `side`'s stream are not in the capture; the stream goes on behind them.
    Gap {
        /// Sender.
        side: Side,
        /// Sequence number of the first missing byte.
        seq: TcpSeq,
        /// How many bytes.
        len: u64,
        /// When it first showed that they are missing: they were on the wire before that. Of bytes that the snaplen cut
        /// off: when they were.
        ts: Timestamp,
    },
    /// `side` has sent its FIN and everything before it has been delivered: its byte stream is complete.
    End {
        /// Sender of the FIN.
        side: Side,
        /// When the FIN arrived.
        ts: Timestamp,
    },
    /// No more bytes will come: both FINs, or a RST. The flow stays in the table for stragglers.
    Terminated {
        /// FIN or RST.
        reason: CloseReason,
        /// When.
        ts: Timestamp,
    },
    /// The flow has lived another active timeout.
    ActiveTimeout,
    /// The flow leaves the table; it stays readable until the next call.
    Closed {
        /// Why.
        reason: CloseReason,
        /// When: last packet + idle timeout for `Idle`, the clock's time otherwise.
        ts: Timestamp,
    },
}

/// The place of some bytes in a connection: what one side had heard of the other when it said them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Sequence number of the first of them.
    pub seq: TcpSeq,
    /// Up to which sequence number of the other side's their sender had received everything; all of that has been
    /// delivered before, as bytes or as a gap. `None` where the segment did not say, or what it said is not believed.
    pub ack: Option<TcpSeq>,
}

impl Place {
    /// Where what begins here and has `bytes` ends, unless that is so far away that sequence numbers may repeat.
    #[inline]
    #[must_use]
    pub fn behind(self, bytes: u64) -> Option<TcpSeq> {
        let bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes < 1 << 30)?;
        Some(self.seq.plus(bytes))
    }
}

/// Why a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The input ended.
    EndOfInput,
    /// The table was full.
    Evicted,
    /// Both ends sent FIN.
    Fin,
    /// No packet for the idle timeout.
    Idle,
    /// A new SYN on the same five-tuple.
    PortReused,
    /// A RST.
    Rst,
}

impl CloseReason {
    /// The reason in tuples and summaries.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::EndOfInput => "end_of_input",
            Self::Evicted => "evicted",
            Self::Fin => "fin",
            Self::Idle => "idle",
            Self::PortReused => "port_reused",
            Self::Rst => "rst",
        }
    }
}

/// Where an event's bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// In the payload of the packet being processed, from `start` to `end`.
    InPacket {
        /// First byte.
        start: u32,
        /// One past the last.
        end: u32,
    },
    /// In [`Events`]: bytes that had waited for a gap to close.
    Held {
        /// First byte.
        start: u32,
        /// One past the last.
        end: u32,
    },
}

/// The events of one call; kept by the caller and used again, so that nothing is allocated per packet.
#[derive(Debug, Default)]
pub struct Events {
    list: Vec<Event>,
    held: Vec<u8>,
    /// Time of the flow's last packet before the one being processed; `None` if the events are due to the clock.
    pub(crate) before: Option<Timestamp>,
}

impl Events {
    /// Time of the flow's last packet before the one that caused the events; `None` if they are due to the clock.
    #[must_use]
    pub fn last_packet_before(&self) -> Option<Timestamp> {
        self.before
    }

    /// The events, in order.
    #[inline]
    #[must_use]
    pub fn list(&self) -> &[Event] {
        &self.list
    }

    /// The bytes of `chunk`; `payload` is that of the packet that was processed (empty after `expire`).
    #[inline]
    #[must_use]
    pub fn bytes<'a>(&'a self, chunk: Chunk, payload: &'a [u8]) -> &'a [u8] {
        match chunk {
            Chunk::InPacket { start, end } => &payload[start as usize..end as usize],
            Chunk::Held { start, end } => &self.held[start as usize..end as usize],
        }
    }

    /// Forgets everything; the memory stays, unless a burst has made it large.
    #[inline]
    pub fn clear(&mut self) {
        self.list.clear();
        if !self.held.is_empty() {
            self.forget_held();
        }
    }

    #[inline(never)]
    fn forget_held(&mut self) {
        if self.held.capacity() > HELD_KEPT_BYTES {
            self.held = Vec::new();
        }
        self.held.clear();
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, flow: FlowIdx, what: FlowEvent) {
        self.list.push(Event { flow, what });
    }

    /// Takes bytes over and says where they lie.
    pub fn hold(&mut self, bytes: &[u8]) -> Chunk {
        let start = self.held.len() as u32;
        self.held.extend_from_slice(bytes);
        Chunk::Held { start, end: self.held.len() as u32 }
    }
}

/// Capacity that [`Events::clear`] keeps.
const HELD_KEPT_BYTES: usize = 1 << 20;
