//! One direction in frames of version 5: removes headers and checksums, decompresses payloads, and finds the next frame after missing
//! bytes by its checksums.
//!
//! Envelopes have positions in a sequence space of their own, as the plaintext of TLS (`tls_decrypt/lane.rs`): an acknowledgment is the
//! position behind the last complete frame that the other end has received.

use std::collections::VecDeque;

use flow::StreamPlace;
use wire::{TcpSeq, Timestamp};

use super::frame_header::{FRAME_HEADER_MAX, FrameHeader, FrameHeaderRead, TRAILER};
use crate::block_compression::lz4;
use crate::{StreamGap, StreamSegment};

/// Ends of frames stored to translate acknowledgments.
const ENDS_MAX: usize = 1024;

/// Part of a frame to which the next byte belongs.
#[derive(Debug)]
enum FramePart {
    /// A header, of which some bytes may be held.
    Header,
    /// An uncompressed payload: bytes left. The last one is held up to the checksum, with which the contents are complete.
    Payload(usize),
    /// A compressed payload, which is held up to the end of its checksum.
    Compressed(FrameHeader),
    /// Bytes left that are skipped: a checksum, or the rest of a compressed frame of which others are missing.
    Skipped(usize),
    /// Unknown: a frame may begin anywhere.
    Lost,
}

/// What [`FrameLane::step`] found.
pub enum FrameStep<'a> {
    /// Nothing yet.
    Nothing,
    /// Bytes of envelopes.
    Bytes(FrameContents<'a>),
    /// Missing bytes of envelopes.
    Gap(StreamGap),
    /// The bytes are no frame; the position of the next is searched for.
    Broken(StreamGap),
    /// The next frame was found: its bytes are to be read again.
    Found(Vec<SearchedSegment>),
}

/// Bytes of envelopes.
pub struct FrameContents<'a> {
    pub segment: StreamSegment<'a>,
    /// Arrival and acknowledgment of the first byte, if it arrived in an earlier segment.
    pub first: Option<(Timestamp, Option<TcpSeq>)>,
}

/// A segment held while a frame is searched for.
pub struct SearchedSegment {
    pub bytes: Vec<u8>,
    pub ts: Timestamp,
    pub place: StreamPlace,
}

/// One direction.
pub struct FrameLane {
    part: FramePart,
    /// Format of the headers, if known.
    is_compressed: Option<bool>,
    /// Bytes of a header, of a compressed payload, or of a search.
    held: Vec<u8>,
    /// Contents of a compressed payload.
    contents: Vec<u8>,
    /// Arrival and acknowledgment of the first byte of a compressed payload.
    first: Option<(Timestamp, Option<TcpSeq>)>,
    /// Held segments of a search: the position of their first byte in the held bytes, and their places.
    marks: Vec<(usize, Timestamp, StreamPlace)>,
    /// Position of the next byte of an envelope.
    inner: TcpSeq,
    /// Ends of frames: sequence number, and position of the envelopes behind it.
    ends: VecDeque<(TcpSeq, TcpSeq)>,
    /// Bytes since the last frame while one is searched for.
    missing: u64,
    /// Captured bytes that were not read, since the last call of [`FrameLane::take_skipped`].
    skipped: u64,
}

impl FrameLane {
    /// Frames from `seq` on, where both spaces have the same position; `is_searched`: a frame may begin anywhere.
    pub fn new(seq: TcpSeq, is_searched: bool) -> FrameLane {
        FrameLane {
            part: if is_searched {
                FramePart::Lost
            } else {
                FramePart::Header
            },
            is_compressed: None,
            held: Vec::new(),
            contents: Vec::new(),
            first: None,
            marks: Vec::new(),
            inner: seq,
            ends: VecDeque::from([(seq, seq)]),
            missing: 0,
            skipped: 0,
        }
    }

    /// Whether frames may be compressed; `None` before the first.
    pub fn is_compressed(&self) -> Option<bool> {
        self.is_compressed
    }

    /// Number of captured bytes that were not read, since the last call.
    pub fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped)
    }

    /// Position in the envelopes of an acknowledgment of this direction.
    pub fn inner_of(&self, ack: TcpSeq) -> Option<TcpSeq> {
        let reached = |end: &&(TcpSeq, TcpSeq)| ack.distance(end.0) >= 0;
        if let Some(end) = self.ends.iter().rev().find(reached) {
            return Some(end.1);
        }
        // In front of the first frame, both positions are the same.
        let first = self.ends.front()?;
        (first.0 == first.1).then_some(ack)
    }

    /// Notes that a frame ends at `seq`.
    fn end_frame(&mut self, seq: TcpSeq) {
        if self.ends.len() == ENDS_MAX {
            self.ends.pop_front();
        }
        self.ends.push_back((seq, self.inner));
    }

    fn advance(&mut self, bytes: usize) -> TcpSeq {
        let seq = self.inner;
        self.inner = seq.plus(bytes as u32);
        seq
    }

    /// Reads the next part of `segment`, whose acknowledgment is that of the other side's envelopes. Returns the bytes used.
    pub fn step<'a>(
        &'a mut self,
        segment: StreamSegment<'a>,
        ack: Option<TcpSeq>,
    ) -> (usize, FrameStep<'a>) {
        let StreamSegment { bytes, ts, .. } = segment;
        match self.part {
            FramePart::Header => self.header(segment),
            FramePart::Payload(1) => {
                let used = (1 + TRAILER - self.held.len()).min(bytes.len());
                self.held.extend_from_slice(&bytes[..used]);
                if self.held.len() <= TRAILER {
                    return (used, FrameStep::Nothing);
                }
                self.contents.clear();
                self.contents.push(self.held[0]);
                self.held.clear();
                let seq = self.advance(1);
                self.skip(0, segment.first(used).end());
                let segment = StreamSegment {
                    bytes: &self.contents,
                    ts,
                    place: StreamPlace { seq, ack },
                };
                let first = None;
                (used, FrameStep::Bytes(FrameContents { segment, first }))
            }
            FramePart::Payload(left) => {
                let used = (left - 1).min(bytes.len());
                self.part = FramePart::Payload(left - used);
                let seq = self.advance(used);
                let contents = FrameContents {
                    segment: StreamSegment {
                        bytes: &bytes[..used],
                        ts,
                        place: StreamPlace { seq, ack },
                    },
                    first: None,
                };
                (used, FrameStep::Bytes(contents))
            }
            FramePart::Compressed(header) => {
                let left = header.payload + TRAILER - self.held.len();
                let used = left.min(bytes.len());
                self.first.get_or_insert((ts, ack));
                self.held.extend_from_slice(&bytes[..used]);
                if used < left {
                    return (used, FrameStep::Nothing);
                }
                let end = segment.first(used).end();
                (used, self.decompress(header, segment, (ack, end)))
            }
            FramePart::Skipped(left) => {
                let used = left.min(bytes.len());
                self.skip(left - used, segment.first(used).end());
                (used, FrameStep::Nothing)
            }
            FramePart::Lost => (bytes.len(), self.search(segment)),
        }
    }

    fn skip(&mut self, left: usize, end: TcpSeq) {
        self.part = if left > 0 {
            FramePart::Skipped(left)
        } else {
            self.end_frame(end);
            FramePart::Header
        };
    }

    /// Reads a header, which may be split.
    fn header<'a>(&'a mut self, segment: StreamSegment<'a>) -> (usize, FrameStep<'a>) {
        let before = self.held.len();
        let more = segment.bytes.len().min(FRAME_HEADER_MAX - before);
        self.held.extend_from_slice(&segment.bytes[..more]);
        match FrameHeader::read(&self.held, self.is_compressed) {
            FrameHeaderRead::NeedMore => (more, FrameStep::Nothing),
            FrameHeaderRead::Header(header) => {
                self.held.clear();
                self.is_compressed = Some(header.inner.is_some());
                self.first = None;
                self.part = if header.is_compressed() {
                    FramePart::Compressed(header)
                } else {
                    FramePart::Payload(header.payload)
                };
                // The header's bytes in earlier segments were its first ones.
                (header.size.saturating_sub(before), FrameStep::Nothing)
            }
            FrameHeaderRead::Bad => {
                self.missing = before as u64;
                self.skipped += before as u64;
                self.held.clear();
                let gap = StreamGap {
                    seq: self.inner,
                    len: 1,
                    ts: segment.ts,
                };
                self.part = FramePart::Lost;
                (0, FrameStep::Broken(gap))
            }
        }
    }

    /// Decompresses a payload, all of which is held. Its last bytes arrived with `segment`.
    fn decompress<'a>(
        &'a mut self,
        header: FrameHeader,
        segment: StreamSegment<'a>,
        (ack, end): (Option<TcpSeq>, TcpSeq),
    ) -> FrameStep<'a> {
        let size = header.contents();
        self.contents.clear();
        let payload = &self.held[..header.payload];
        let is_whole = lz4(payload, size, &mut self.contents) && self.contents.len() == size;
        self.held.clear();
        let seq = self.advance(size);
        self.skip(0, end);
        let ts = segment.ts;
        if is_whole {
            let segment = StreamSegment {
                bytes: &self.contents,
                ts,
                place: StreamPlace { seq, ack },
            };
            FrameStep::Bytes(FrameContents {
                segment,
                first: self.first.take(),
            })
        } else {
            FrameStep::Gap(StreamGap {
                seq,
                len: size as u64,
                ts,
            })
        }
    }

    /// Handles missing bytes. Returns the missing bytes of envelopes; and if more may be missing behind them, so that the next frame is
    /// searched for, their position.
    pub fn miss(&mut self, gap: StreamGap) -> (Option<StreamGap>, Option<StreamGap>) {
        let mut left = gap.len;
        let mut lost = None;
        let mut take = |part: usize| {
            let taken = part.min(usize::try_from(left).unwrap_or(usize::MAX));
            left -= taken as u64;
            taken
        };
        if let FramePart::Payload(1) = self.part
            && !self.held.is_empty()
        {
            // The checksum is missing, and with it the last byte is not complete.
            let seq = self.advance(1);
            lost = Some(StreamGap {
                seq,
                len: 1,
                ts: gap.ts,
            });
            self.part = FramePart::Skipped(1 + TRAILER - self.held.len());
            self.held.clear();
        } else if let FramePart::Payload(part) = self.part {
            let taken = take(part);
            let seq = self.advance(taken);
            lost = (taken > 0).then_some(StreamGap {
                seq,
                len: taken as u64,
                ts: gap.ts,
            });
            self.part = if taken == part {
                FramePart::Skipped(TRAILER)
            } else {
                FramePart::Payload(part - taken)
            };
        } else if let FramePart::Compressed(header) = self.part {
            let size = header.contents();
            let seq = self.advance(size);
            lost = Some(StreamGap {
                seq,
                len: size as u64,
                ts: gap.ts,
            });
            self.part = FramePart::Skipped(header.payload + TRAILER - self.held.len());
            self.skipped += self.held.len() as u64;
            self.held.clear();
        }
        if let FramePart::Skipped(part) = self.part {
            let taken = take(part);
            self.skip(part - taken, gap.after(gap.len - left));
        }
        let is_lost = match self.part {
            FramePart::Header => left > 0 || !self.held.is_empty(),
            FramePart::Lost => true,
            _ => false,
        };
        if is_lost {
            self.missing += self.held.len() as u64 + left;
            self.skipped += self.held.len() as u64;
            self.held.clear();
            self.marks.clear();
            self.part = FramePart::Lost;
        }
        let seq = self.inner;
        (lost, is_lost.then_some(StreamGap { seq, ..gap }))
    }

    /// Searches for a frame with right checksums.
    fn search(&mut self, segment: StreamSegment<'_>) -> FrameStep<'static> {
        let StreamSegment { bytes, ts, place } = segment;
        self.marks.push((self.held.len(), ts, place));
        self.held.extend_from_slice(bytes);
        let mut at = 0;
        let found = loop {
            match FrameHeader::read(&self.held[at..], self.is_compressed) {
                FrameHeaderRead::NeedMore => break None,
                FrameHeaderRead::Bad => at += 1,
                FrameHeaderRead::Header(header) => {
                    let Some(frame) = self.held.get(at..at + header.length()) else {
                        break None;
                    };
                    if header.is_intact(frame) {
                        break Some(header);
                    }
                    at += 1;
                }
            }
        };
        self.missing += at as u64;
        self.drop_held(at);
        let Some(header) = found else {
            return FrameStep::Nothing;
        };
        self.is_compressed = Some(header.inner.is_some());
        let missing = std::mem::take(&mut self.missing);
        self.inner = self.inner.plus(missing as u32);
        if let Some((_, _, place)) = self.marks.first() {
            self.end_frame(place.seq);
        }
        self.part = FramePart::Header;
        let held = std::mem::take(&mut self.held);
        let marks = std::mem::take(&mut self.marks);
        let ends = marks.iter().skip(1).map(|mark| mark.0).chain([held.len()]);
        let segments = marks
            .iter()
            .zip(ends)
            .map(|((from, ts, place), to)| SearchedSegment {
                bytes: held[*from..to].to_vec(),
                ts: *ts,
                place: *place,
            });
        FrameStep::Found(segments.collect())
    }

    /// Removes the first `n` held bytes of a search.
    fn drop_held(&mut self, n: usize) {
        self.skipped += n as u64;
        self.held.drain(..n);
        let behind = self.marks.partition_point(|mark| mark.0 <= n);
        self.marks.drain(..behind.saturating_sub(1));
        for (from, _, place) in &mut self.marks {
            place.seq = place.seq.plus(n.saturating_sub(*from) as u32);
            *from = from.saturating_sub(n);
        }
    }
}
