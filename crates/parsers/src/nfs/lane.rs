//! One direction of a TCP connection: where it stands in its records (RFC 5531 section 11) and in the message they
//! carry.

use flow::Place;

use crate::resync::Resync;
use crate::{Quality, Span};
use wire::{TcpSeq, Timestamp};

use super::blocks::Blocks;
use super::scan::{MARK, is_plausible_mark};

/// Most memory that an empty head keeps.
const KEPT_BYTES: usize = 4096;

/// Where one direction stands.
pub struct Lane {
    /// In the message.
    pub stage: Stage,
    /// The record mark that has begun.
    mark: [u8; MARK],
    mark_len: u8,
    /// Bytes of the fragment to come; 0: a record mark comes.
    pub left: u32,
    /// The fragment is the message's last.
    pub last: bool,
    /// The message.
    pub message: Message,
    /// When bytes came last.
    pub last_ts: Timestamp,
    /// Bytes of it are missing.
    pub has_gap: bool,
    /// The part of the head that has come, or of the reply whose data are passing.
    pub head: Vec<u8>,
    /// The search for the next message.
    pub resync: Resync,
    /// File data.
    pub blocks: Blocks,
    /// Bytes of it to come.
    pub data_left: u32,
    /// What the next message that a search finds is.
    pub cause: Quality,
    /// Where the segment at hand begins.
    pub segment: TcpSeq,
    /// While lost: the next message begins here, because a call that was confirmed ends here.
    pub follows: Option<TcpSeq>,
    /// While lost, and the other direction was not captured: where the next message may begin.
    pub expects: Expects,
}

/// Where a message may begin without another that confirms it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expects {
    /// Nowhere.
    Nothing,
    /// Where the direction's first bytes begin.
    First,
    /// Where the last message that was found ends, if it is one.
    Behind(Chain),
}

/// Messages that were found one directly behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Where the first begins.
    pub start: TcpSeq,
    /// Where the last ends.
    pub end: TcpSeq,
    /// The last begins a segment.
    pub begins_segment: bool,
}

/// Longer than any message: after a chain of this length the next message is outside of any file data it started in.
const CHAIN_BYTES: i32 = 2 << 20;

impl Expects {
    /// Whether a message that was found at `seq`, where a segment begins or not, follows from those before it.
    pub fn confirms(&self, seq: TcpSeq, begins_segment: bool) -> bool {
        match self {
            Expects::Behind(chain) if chain.end == seq => {
                begins_segment && chain.begins_segment || seq.distance(chain.start) > CHAIN_BYTES
            }
            _ => false,
        }
    }

    /// A message was found from `seq` to `end`, which may be one. One that lies in the last one says nothing.
    pub fn note(&mut self, seq: TcpSeq, end: TcpSeq, begins_segment: bool) {
        let start = match self {
            Expects::Behind(chain) if chain.end == seq => chain.start,
            Expects::Behind(chain) if chain.begins_segment || !begins_segment => {
                if chain.end.distance(seq) > 0 {
                    return;
                }
                seq
            }
            _ => seq,
        };
        *self = Expects::Behind(Chain { start, end, begins_segment });
    }
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The part of a message that is read.
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
pub struct Message {
    /// Its kind, if known.
    pub kind: Kind,
    /// When it was on the wire, from its first byte on.
    pub span: Option<Span>,
    /// Where it begins in what both sides say.
    pub place: Option<Place>,
    /// Its bytes so far.
    pub bytes: u64,
    /// Bytes are missing.
    pub gap: bool,
    /// How it was found, unless it followed another.
    pub found: Option<Quality>,
    /// A reply that was read before its call was known.
    pub early: bool,
    /// Where it ended is known.
    measured: bool,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not known, or not readable.
    Unknown,
    /// A call; it lies in the spare place of those that wait.
    Call,
    /// A reply; its head is kept.
    Reply,
}

const NOTHING: Message = Message {
    kind: Kind::Unknown,
    span: None,
    place: None,
    bytes: 0,
    gap: false,
    found: None,
    early: false,
    measured: true,
};

impl Message {
    /// Its length, if that is known.
    pub fn len(&self) -> Option<u64> {
        self.measured.then_some(self.bytes)
    }
}

impl Default for Lane {
    fn default() -> Self {
        Lane {
            stage: Stage::Head,
            mark: [0; MARK],
            mark_len: 0,
            left: 0,
            last: false,
            message: NOTHING,
            last_ts: Timestamp::MIN,
            has_gap: false,
            head: Vec::new(),
            resync: Resync::default(),
            blocks: Blocks::default(),
            data_left: 0,
            cause: Quality::Resync,
            segment: TcpSeq(0),
            follows: None,
            expects: Expects::First,
        }
    }
}

impl Lane {
    /// Reads (a part of) a record mark. `None`: there is none here.
    #[inline]
    pub fn read_mark(&mut self, bytes: &[u8], ts: Timestamp) -> Option<usize> {
        self.message.span.get_or_insert(Span::at(ts)).extend(ts);
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
            (self.left, self.last) = (mark & 0x7fff_ffff, mark >> 31 == 1);
        }
        Some(n)
    }

    /// Whether no message is under way.
    pub fn is_between(&self) -> bool {
        self.stage == Stage::Head && self.message.span.is_none()
    }

    /// Counts off `n` bytes of the fragment.
    #[inline]
    pub fn pass(&mut self, n: usize, ts: Timestamp) {
        self.left -= n as u32;
        self.message.bytes += n as u64;
        if let Some(span) = &mut self.message.span {
            span.extend(ts);
        }
    }

    /// Counts off missing bytes of the fragment.
    pub fn pass_gap(&mut self, n: u64) {
        self.message.gap = true;
        self.message.bytes += n;
        self.left -= n as u32;
        if self.stage == Stage::Data {
            let data = n.min(self.data_left.into());
            self.blocks.gap(data);
            self.count_data(data as u32);
        }
    }

    /// Takes the file data at the start of `bytes`; how many these are.
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
            self.stage = Stage::Rest;
        }
    }

    /// A message that came at once.
    pub fn begin_datagram(&mut self, bytes: u64, gap: bool, ts: Timestamp) {
        self.message = Message { span: Some(Span::at(ts)), bytes, gap, ..NOTHING };
    }

    /// The message breaks off.
    pub fn break_off(&mut self) {
        (self.message.gap, self.message.measured) = (true, false);
        if self.stage == Stage::Data {
            self.blocks.gap(self.data_left.into());
        }
    }

    /// Whether the message's last byte has come.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.left == 0 && self.last
    }

    /// The next message begins here.
    #[inline]
    pub fn next_message(&mut self) {
        self.stage = Stage::Head;
        self.message = NOTHING;
        self.last = false;
        self.head.clear();
        if self.head.capacity() > KEPT_BYTES {
            self.head = Vec::new();
        }
    }

    /// Where the next message begins is not known.
    pub fn lose(&mut self) {
        self.next_message();
        (self.stage, self.left, self.mark_len) = (Stage::Lost, 0, 0);
        self.follows = None;
        self.expects = if self.last_ts == Timestamp::MIN { Expects::First } else { Expects::Nothing };
    }

    /// The next message begins here, because the previous one is complete.
    pub fn follow(&mut self) {
        self.next_message();
        (self.follows, self.cause) = (None, Quality::Resync);
    }

    /// A search has found the next message.
    pub fn find(&mut self) {
        self.next_message();
        self.message.found = Some(std::mem::replace(&mut self.cause, Quality::Resync));
    }
}
