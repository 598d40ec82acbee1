//! Results of the flow table for a packet: events as plain values. Their bytes are in the packet itself (the common
//! case, without copying) or, for segments that had to wait, in [`FlowEvents`].

use wire::{FlowSide, TcpSeq, Timestamp};

/// A flow's place in its table. Valid from `Opened` until the call after its `Closed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowIdx(pub u32);

/// One event of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedFlowEvent {
    /// The flow.
    pub flow: FlowIdx,
    /// The event.
    pub what: FlowEvent,
}

/// An event. The order for one flow: `Opened`; `Resumed` if it continues a connection; any of the middle ones;
/// `Terminated` at most once; `Closed` last. Stream data of both sides is delivered in the order of sending, as
/// determined by `order`. `side` is the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEvent {
    /// The flow's first packet; the flow is in the table now.
    Opened,
    /// The flow continues a connection whose flow was closed as idle in this call: stream positions and client are
    /// known, and the caller's state is still with `from`. If the flow was closed in an earlier call, the caller's
    /// state is already with the new flow, without this event. Follows `Opened`.
    Resumed {
        /// The closed flow.
        from: FlowIdx,
    },
    /// TCP: the next bytes of `side`'s byte stream, in order, each exactly once.
    Bytes {
        /// Sender.
        side: FlowSide,
        /// Location of the bytes.
        chunk: EventBytes,
        /// Arrival of the segment; earlier than now for one that had to wait.
        ts: Timestamp,
        /// Position in the connection.
        place: StreamPlace,
    },
    /// UDP, or another protocol without streams: the payload of a datagram.
    Datagram {
        /// Sender.
        side: FlowSide,
        /// Location of the bytes.
        chunk: EventBytes,
        /// Payload bytes cut off by the snaplen.
        cut: u32,
        /// Arrival.
        ts: Timestamp,
    },
    /// `len` bytes of `side`'s stream are missing in the capture; the stream continues after them.
    Gap {
        /// Sender.
        side: FlowSide,
        /// Sequence number of the first missing byte.
        seq: TcpSeq,
        /// Length in bytes.
        len: u64,
        /// Time at which the gap was first detected; the bytes were sent before that. For bytes cut off by the
        /// snaplen, the time of their packet.
        ts: Timestamp,
    },
    /// `side` has sent its FIN and everything before it has been delivered.
    End {
        /// Sender of the FIN.
        side: FlowSide,
        /// Arrival of the FIN.
        ts: Timestamp,
    },
    /// No more bytes will follow: both FINs, or a RST. The flow stays in the table for stragglers.
    Terminated {
        /// FIN or RST.
        reason: CloseReason,
        /// Time of termination.
        ts: Timestamp,
    },
    /// Another active timeout has passed.
    ActiveTimeout,
    /// The flow leaves the table; it stays readable until the next call.
    Closed {
        /// Reason.
        reason: CloseReason,
        /// Last packet + idle timeout for `Idle`, otherwise the clock's time.
        ts: Timestamp,
    },
}

/// Position of bytes in a connection: their sequence number, and the acknowledgment of their sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamPlace {
    /// Sequence number of the first byte.
    pub seq: TcpSeq,
    /// Everything of the other side below this was received by the sender, and has been delivered before, as bytes or
    /// as a gap. `None` if the segment has no acknowledgment, or an implausible one.
    pub ack: Option<TcpSeq>,
}

impl StreamPlace {
    /// End of a range of `bytes` that begins here; `None` if its sequence numbers may wrap around.
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
    /// End of the input.
    EndOfInput,
    /// The table was full.
    Evicted,
    /// Both ends sent FIN.
    Fin,
    /// No packet during the idle timeout.
    Idle,
    /// A new SYN on the same five-tuple.
    PortReused,
    /// A RST.
    Rst,
}

impl CloseReason {
    /// Name in tuples and summaries.
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

/// Location of an event's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventBytes {
    /// In the payload of the current packet, from `start` to `end`.
    InPacket {
        /// First byte.
        start: u32,
        /// Position after the last byte.
        end: u32,
    },
    /// Position in [`FlowEvents`] of bytes that were held.
    Held {
        /// First byte.
        start: u32,
        /// Position after the last byte.
        end: u32,
    },
}

impl EventBytes {
    pub(crate) fn len(self) -> u32 {
        let (EventBytes::InPacket { start, end } | EventBytes::Held { start, end }) = self;
        end - start
    }
}

/// Events of one call; reused by the caller, so that nothing is allocated per packet.
#[derive(Debug, Default)]
pub struct FlowEvents {
    list: Vec<IndexedFlowEvent>,
    held: Vec<u8>,
    /// The flow of the packet being processed, and the time of its last packet before; `None` if the events are due to
    /// the clock.
    pub(crate) before: Option<(FlowIdx, Timestamp)>,
}

impl FlowEvents {
    /// The flow whose packet caused the events, and the time of its last packet before; `None` if no packet of a flow
    /// did. A packet may also end other flows.
    #[must_use]
    pub fn last_packet_before(&self) -> Option<(FlowIdx, Timestamp)> {
        self.before
    }

    /// The events, in order.
    #[inline]
    #[must_use]
    pub fn list(&self) -> &[IndexedFlowEvent] {
        &self.list
    }

    /// Bytes of `chunk`; `payload` is that of the processed packet (empty after `expire`).
    #[inline]
    #[must_use]
    pub fn bytes<'a>(&'a self, chunk: EventBytes, payload: &'a [u8]) -> &'a [u8] {
        match chunk {
            EventBytes::InPacket { start, end } => &payload[start as usize..end as usize],
            EventBytes::Held { start, end } => &self.held[start as usize..end as usize],
        }
    }

    /// Removes everything; keeps the memory, unless a burst has made it large.
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
        self.list.push(IndexedFlowEvent { flow, what });
    }

    /// Copies bytes and returns their location.
    pub fn hold(&mut self, bytes: &[u8]) -> EventBytes {
        let start = self.held.len() as u32;
        self.held.extend_from_slice(bytes);
        EventBytes::Held {
            start,
            end: self.held.len() as u32,
        }
    }
}

/// Capacity kept by [`FlowEvents::clear`].
const HELD_KEPT_BYTES: usize = 1 << 20;
