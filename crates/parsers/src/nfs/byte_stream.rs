//! One direction of a TCP connection: its position in records (RFC 5531 section 11) and in their message.

use flow::StreamPlace;

use crate::resync::ResyncSearch;
use crate::{MessageSpan, TupleQuality};
use wire::{TcpSeq, Timestamp};

use super::block_checksums::BlockChecksums;
use super::scan::{MARK, is_plausible_mark};

/// Maximum memory kept by an empty head.
const KEPT_BYTES: usize = 4096;

/// State of one direction.
pub struct RpcByteStream {
    /// Position in the message.
    pub stage: RpcStreamStage,
    /// A partly received record mark.
    mark: [u8; MARK],
    mark_len: u8,
    /// Remaining bytes of the fragment; 0: a record mark follows.
    pub left: u32,
    /// Whether the fragment is the message's last.
    pub last: bool,
    /// The current message.
    pub message: RpcMessage,
    /// Arrival of the last bytes.
    pub last_ts: Timestamp,
    /// Whether bytes of the direction are missing.
    pub has_gap: bool,
    /// End of the last missing bytes that may hide a message; none after a message that is not understood.
    pub lost_to: Option<TcpSeq>,
    /// The received part of the head, or the head of a reply whose data follows.
    pub head: Vec<u8>,
    /// Search for the next message.
    pub resync: ResyncSearch,
    /// Checksums of file data.
    pub blocks: BlockChecksums,
    /// Remaining bytes of file data.
    pub data_left: u32,
    /// Quality of the next message found by the search.
    pub cause: TupleQuality,
    /// Start of the current segment.
    pub segment: TcpSeq,
    /// Acknowledgment of the current segment.
    pub heard: Option<TcpSeq>,
    /// While lost: start of the last segment that begins a write.
    pub write: Option<TcpSeq>,
    /// While lost: end of a confirmed call, where the next message begins.
    pub follows: Option<TcpSeq>,
    /// While lost, if the other direction was not captured: where the next message may begin.
    pub expects: RpcMessageStart,
}

/// Positions where a message may begin without confirmation by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcMessageStart {
    /// None.
    Nothing,
    /// The first bytes of the direction.
    First,
    /// The end of the last message found, if it is one.
    Behind(RpcMessageChain),
}

/// Messages found directly one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcMessageChain {
    /// Start of the first.
    pub start: TcpSeq,
    /// End of the last.
    pub end: TcpSeq,
    /// Whether the last begins a segment.
    pub begins_segment: bool,
}

/// Longer than any message: after a chain of this length the next message is outside of any file data it
/// started in.
const CHAIN_BYTES: i32 = 2 << 20;

impl RpcMessageStart {
    /// Whether the previous messages confirm one found at `seq`; `begins_segment`: it begins a segment.
    pub fn confirms(&self, seq: TcpSeq, begins_segment: bool) -> bool {
        match self {
            RpcMessageStart::Behind(chain) if chain.end == seq => {
                begins_segment && chain.begins_segment || seq.distance(chain.start) > CHAIN_BYTES
            }
            _ => false,
        }
    }

    /// Records a possible message from `seq` to `end`. One inside the last one is ignored.
    pub fn note(&mut self, seq: TcpSeq, end: TcpSeq, begins_segment: bool) {
        let start = match self {
            RpcMessageStart::Behind(chain) if chain.end == seq => chain.start,
            RpcMessageStart::Behind(chain) if chain.begins_segment || !begins_segment => {
                if chain.end.distance(seq) > 0 {
                    return;
                }
                seq
            }
            _ => seq,
        };
        *self = RpcMessageStart::Behind(RpcMessageChain {
            start,
            end,
            begins_segment,
        });
    }
}

/// Kind of the next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcStreamStage {
    /// The parsed part of a message.
    Head,
    /// File data.
    Data,
    /// Bytes to skip.
    Rest,
    /// A message may begin anywhere.
    Lost,
}

/// The message in progress.
#[derive(Clone, Copy, Debug)]
pub struct RpcMessage {
    /// Kind of the message, if known.
    pub kind: RpcMessageKind,
    /// Arrival times, from its first byte on.
    pub span: Option<MessageSpan>,
    /// Position of its start; TCP only.
    pub place: Option<StreamPlace>,
    /// Bytes so far.
    pub bytes: u64,
    /// Whether bytes are missing.
    pub gap: bool,
    /// Method by which it was found, unless it directly followed another.
    pub found: Option<TupleQuality>,
    /// A reply parsed before its call was known.
    pub early: bool,
    /// Whether its end is known.
    measured: bool,
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcMessageKind {
    /// Unknown or unreadable.
    Unknown,
    /// A call, stored in the spare slot of the waiting ones.
    Call,
    /// A reply, whose head is kept.
    Reply,
}

const NOTHING: RpcMessage = RpcMessage {
    kind: RpcMessageKind::Unknown,
    span: None,
    place: None,
    bytes: 0,
    gap: false,
    found: None,
    early: false,
    measured: true,
};

impl RpcMessage {
    /// Length in bytes, if known.
    pub fn len(&self) -> Option<u64> {
        self.measured.then_some(self.bytes)
    }
}

impl Default for RpcByteStream {
    fn default() -> Self {
        RpcByteStream {
            stage: RpcStreamStage::Head,
            mark: [0; MARK],
            mark_len: 0,
            left: 0,
            last: false,
            message: NOTHING,
            last_ts: Timestamp::MIN,
            has_gap: false,
            lost_to: None,
            head: Vec::new(),
            resync: ResyncSearch::default(),
            blocks: BlockChecksums::default(),
            data_left: 0,
            cause: TupleQuality::Resync,
            segment: TcpSeq(0),
            heard: None,
            write: None,
            follows: None,
            expects: RpcMessageStart::First,
        }
    }
}

impl RpcByteStream {
    /// Reads a record mark or part of it. `None`: invalid.
    #[inline]
    pub fn read_mark(&mut self, bytes: &[u8], ts: Timestamp) -> Option<usize> {
        self.message
            .span
            .get_or_insert(MessageSpan::at(ts))
            .extend(ts);
        let have = usize::from(self.mark_len);
        let n = bytes.len().min(MARK - have);
        self.mark[have..have + n].copy_from_slice(&bytes[..n]);
        self.mark_len += n as u8;
        if usize::from(self.mark_len) == MARK {
            self.mark_len = 0;
            let mark = u32::from_be_bytes(self.mark);
            if !is_plausible_mark(mark) {
                return None;
            }
            self.left = mark & 0x7fff_ffff;
            self.last = mark >> 31 == 1;
        }
        Some(n)
    }

    /// Whether no message is in progress.
    pub fn is_between(&self) -> bool {
        self.stage == RpcStreamStage::Head && self.message.span.is_none()
    }

    /// Consumes `n` bytes of the fragment.
    #[inline]
    pub fn pass(&mut self, n: usize, ts: Timestamp) {
        self.left -= n as u32;
        self.message.bytes += n as u64;
        if let Some(span) = &mut self.message.span {
            span.extend(ts);
        }
    }

    /// Skips missing bytes of the fragment.
    pub fn pass_gap(&mut self, n: u64) {
        self.message.gap = true;
        self.message.bytes += n;
        self.left -= n as u32;
        if self.stage == RpcStreamStage::Data {
            let data = n.min(self.data_left.into());
            self.blocks.gap(data);
            self.count_data(data as u32);
        }
    }

    /// Consumes the file data at the start of `bytes`; returns its length.
    #[inline]
    pub fn read_data(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.data_left as usize);
        self.blocks.push(&bytes[..n]);
        self.count_data(n as u32);
        n
    }

    #[inline]
    fn count_data(&mut self, n: u32) {
        self.data_left -= n;
        if self.data_left == 0 {
            self.stage = RpcStreamStage::Rest;
        }
    }

    /// Begins the message of a datagram.
    pub fn begin_datagram(&mut self, bytes: u64, gap: bool, ts: Timestamp) {
        self.message = RpcMessage {
            span: Some(MessageSpan::at(ts)),
            bytes,
            gap,
            ..NOTHING
        };
    }

    /// Ends the message early.
    pub fn break_off(&mut self) {
        self.message.gap = true;
        self.message.measured = false;
        if self.stage == RpcStreamStage::Data {
            self.blocks.gap(self.data_left.into());
        }
    }

    /// Whether the message's last byte was received.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.left == 0 && self.last
    }

    /// Prepares for the next message.
    #[inline]
    pub fn next_message(&mut self) {
        self.stage = RpcStreamStage::Head;
        self.message = NOTHING;
        self.last = false;
        self.head.clear();
        if self.head.capacity() > KEPT_BYTES {
            self.head = Vec::new();
        }
    }

    /// Enters the state in which the start of the next message is unknown.
    pub fn lose(&mut self) {
        self.next_message();
        self.stage = RpcStreamStage::Lost;
        self.left = 0;
        self.mark_len = 0;
        self.follows = None;
        self.expects = if self.last_ts == Timestamp::MIN {
            RpcMessageStart::First
        } else {
            RpcMessageStart::Nothing
        };
    }

    /// The next message begins here, because the previous one is complete.
    pub fn follow(&mut self) {
        self.next_message();
        self.follows = None;
        self.cause = TupleQuality::Resync;
    }

    /// Begins a message found by the search.
    pub fn find(&mut self) {
        self.next_message();
        self.message.found = Some(std::mem::replace(&mut self.cause, TupleQuality::Resync));
    }
}
