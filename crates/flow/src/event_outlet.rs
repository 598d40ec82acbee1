//! Destination of reassembled bytes, gaps, and ends, and what it needs to know of the flow.

use wire::{FlowSide, TcpSeq, Timestamp};

use crate::delivery_order::{DeliveryContext, DeliveryOrder, PieceContent, StreamPiece};
use crate::metrics::{FlowTableCounters, SideCounters};
use crate::reassembly_budget::ReassemblyBudget;
use crate::{EventBytes, FlowEvents, FlowIdx};

/// Wait time for missing bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReassemblyTimeouts {
    /// After their acknowledgment by the other end.
    pub reorder_wait_ns: i64,
    /// After later bytes arrived, without an acknowledgment.
    pub gap_wait_ns: i64,
}

/// Destination of the results of a call, and its environment.
pub(crate) struct EventOutlet<'a> {
    pub events: &'a mut FlowEvents,
    pub flow: FlowIdx,
    pub side: FlowSide,
    /// Whether bytes and gaps are wanted; if not, only counters and positions are updated.
    pub deliver: bool,
    /// Whether packets of the flow are captured twice, so that a longer copy of a cut segment may follow.
    pub mirrored: bool,
    pub now: Timestamp,
    /// Highest acknowledgment of the other end.
    pub acked: Option<TcpSeq>,
    pub patience: ReassemblyTimeouts,
    pub budget: &'a mut ReassemblyBudget,
    /// Counters of `side`.
    pub counters: &'a mut SideCounters,
    pub totals: &'a mut FlowTableCounters,
    /// Data that waits for the other side.
    pub order: &'a mut Option<Box<DeliveryOrder>>,
    pub heard: DeliveryContext,
}

/// Arrival and acknowledgment of a segment.
pub(crate) type SegmentStamp = (Timestamp, Option<TcpSeq>);

impl EventOutlet<'_> {
    pub fn bytes(&mut self, seq: TcpSeq, chunk: EventBytes, (ts, ack): SegmentStamp) {
        self.say(StreamPiece {
            seq,
            ack,
            ts,
            what: PieceContent::Bytes(chunk),
        });
    }

    pub fn forgotten(&mut self, seq: TcpSeq, len: u32, (ts, ack): SegmentStamp) {
        self.say(StreamPiece {
            seq,
            ack,
            ts,
            what: PieceContent::Forgotten(len),
        });
    }

    pub fn gap(&mut self, seq: TcpSeq, len: u64, (ts, ack): SegmentStamp) {
        self.say(StreamPiece {
            seq,
            ack,
            ts,
            what: PieceContent::Gap(len),
        });
    }

    pub fn end(&mut self, seq: TcpSeq, (ts, ack): SegmentStamp) {
        self.say(StreamPiece {
            seq,
            ack,
            ts,
            what: PieceContent::End,
        });
    }

    /// Delivers a piece, or queues it until the other side's turn.
    fn say(&mut self, piece: StreamPiece) {
        if self.order.is_none() && self.heard.allows(self.side, piece.ack) {
            piece.tell(self.side, self.deliver, self.flow, self.events);
        } else {
            self.order.get_or_insert_default().push(self.side, piece);
        }
    }
}
