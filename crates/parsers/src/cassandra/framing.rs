//! The parser of a connection: passes envelopes to [`RequestResponseParser`]. Versions 3 and 4 consist of them; in version 5 they are in
//! frames behind the response to STARTUP (`frames.rs`).

use super::codes::{AUTHENTICATE, READY, STARTUP};
use super::compression::CqlCompression;
use super::connection::CqlConnection;
use super::frames::{FrameContents, FrameLane, FrameStep};
use super::header::{EnvelopeHeader, FRAMED_VERSION, HEADER};
use super::recognition::{Evidence, evidence, frame_evidence};
use crate::request_response::RequestResponseParser;
use crate::{Direction, ParserOutput, StreamEnd, StreamGap, StreamParser, StreamSegment};

/// Whether envelopes are in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ConnectionFraming {
    /// Not known yet.
    #[default]
    Unknown,
    /// There are none.
    Envelopes,
    /// From a position that depends on the direction.
    Frames,
}

/// One direction.
enum LaneFraming {
    /// Envelopes, until STARTUP or its response decides: bytes of a header, bytes left of a body, and whether frames follow it.
    Opening(OpeningEnvelope),
    /// The bytes may begin anywhere.
    Unknown,
    Envelopes,
    Frames(Box<FrameLane>),
}

/// An envelope at the start of a connection.
#[derive(Default)]
struct OpeningEnvelope {
    header: Vec<u8>,
    left: usize,
    is_last: bool,
}

/// The parser of a flow.
pub struct CassandraParser {
    inner: RequestResponseParser<CqlConnection>,
    framing: ConnectionFraming,
    lanes: [LaneFraming; 2],
    started: bool,
}

impl CassandraParser {
    /// For [`crate::ProtocolDefinition::start`].
    pub fn start() -> Box<dyn StreamParser> {
        let opening = || LaneFraming::Opening(OpeningEnvelope::default());
        Box::new(CassandraParser {
            inner: RequestResponseParser::new(),
            framing: ConnectionFraming::Unknown,
            lanes: [opening(), opening()],
            started: false,
        })
    }

    fn begin(&mut self, out: &ParserOutput<'_>) {
        if !std::mem::replace(&mut self.started, true) && out.flow.midstream {
            self.lanes = [LaneFraming::Unknown, LaneFraming::Unknown];
        }
    }

    /// Passes bytes of a segment on, or changes the state so that the next step does. Returns the number of bytes used.
    fn step(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let lane = &mut self.lanes[direction as usize];
        match lane {
            LaneFraming::Envelopes => {
                self.pass(direction, segment, out);
                segment.bytes.len()
            }
            LaneFraming::Opening(opening) => {
                let (used, decided) = opening.read(direction, segment.bytes);
                self.pass(direction, segment.first(used), out);
                self.decide(direction, decided, segment.behind(used), false);
                used
            }
            LaneFraming::Unknown => {
                let framing = match self.framing {
                    ConnectionFraming::Unknown if opens(direction, segment.bytes) => {
                        *lane = LaneFraming::Opening(OpeningEnvelope::default());
                        return 0;
                    }
                    ConnectionFraming::Unknown => framing_of(direction, segment.bytes),
                    known => known,
                };
                let is_here = self.framing == ConnectionFraming::Unknown;
                self.decide(direction, framing, segment, !is_here);
                if framing == ConnectionFraming::Unknown {
                    out.counters.skipped_bytes += segment.bytes.len() as u64;
                    let gap = gap_of(segment);
                    self.inner.on_gap(direction, gap, out);
                    return segment.bytes.len();
                }
                0
            }
            LaneFraming::Frames(_) => self.step_in_frames(direction, segment, out),
        }
    }

    /// Takes a decision on the framing behind the bytes read; `is_searched`: `segment` may begin within a frame.
    fn decide(
        &mut self,
        direction: Direction,
        framing: ConnectionFraming,
        segment: StreamSegment<'_>,
        is_searched: bool,
    ) {
        if framing != ConnectionFraming::Unknown {
            self.framing = framing;
            self.lanes[direction as usize] = match framing {
                ConnectionFraming::Frames => {
                    LaneFraming::Frames(Box::new(FrameLane::new(segment.place.seq, is_searched)))
                }
                _ => LaneFraming::Envelopes,
            };
        }
    }

    /// Passes envelopes that are not in frames on.
    fn pass(
        &mut self,
        direction: Direction,
        mut segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        segment.place.ack = self.inner_ack(direction, segment);
        if !segment.bytes.is_empty() {
            self.inner.on_bytes(direction, segment, out);
        }
    }

    /// The acknowledgment of a segment, as a position in the other side's envelopes.
    fn inner_ack(&self, direction: Direction, segment: StreamSegment<'_>) -> Option<wire::TcpSeq> {
        let ack = segment.place.ack?;
        match &self.lanes[1 - direction as usize] {
            LaneFraming::Frames(frames) => frames.inner_of(ack),
            _ => Some(ack),
        }
    }

    fn step_in_frames(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let ack = self.inner_ack(direction, segment);
        let CassandraParser { inner, lanes, .. } = self;
        let LaneFraming::Frames(frames) = &mut lanes[direction as usize] else {
            return segment.bytes.len();
        };
        if frames.is_compressed() == Some(true) {
            inner.protocol.has_compressed_frames = true;
            inner.protocol.compression = Some(CqlCompression::Lz4);
        }
        let (used, step) = frames.step(segment, ack);
        match step {
            FrameStep::Nothing => {}
            FrameStep::Bytes(FrameContents { mut segment, first }) => {
                if let Some((ts, ack)) = first {
                    let mut begin = segment.first(1);
                    begin.ts = ts;
                    begin.place.ack = ack;
                    inner.on_bytes(direction, begin, out);
                    segment = segment.behind(1);
                }
                inner.on_bytes(direction, segment, out);
            }
            FrameStep::Gap(gap) => {
                out.counters.malformed_messages += 1;
                inner.on_gap(direction, gap, out);
            }
            FrameStep::Broken(gap) => {
                out.counters.malformed_messages += 1;
                inner.lose_place(direction, gap, out);
            }
            FrameStep::Found(held) => {
                for held in held {
                    let segment = StreamSegment {
                        bytes: &held.bytes,
                        ts: held.ts,
                        place: held.place,
                    };
                    self.on_segment(direction, segment, out);
                }
            }
        }
        used
    }

    /// Counts what was left out.
    fn count(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        if let LaneFraming::Frames(frames) = &mut self.lanes[direction as usize] {
            out.counters.skipped_bytes += frames.take_skipped();
        }
        if let Some(names) = out.names {
            out.counters.evicted_statements += names.statements.take_evicted();
        }
    }

    fn on_segment(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let mut rest = segment;
        while !rest.bytes.is_empty() {
            let used = self.step(direction, rest, out);
            rest = rest.behind(used);
        }
    }
}

impl OpeningEnvelope {
    /// Reads bytes of an envelope; returns how many, and what follows them.
    fn read(&mut self, direction: Direction, bytes: &[u8]) -> (usize, ConnectionFraming) {
        if self.left > 0 {
            let used = self.left.min(bytes.len());
            self.left -= used;
            return (used, self.follows());
        }
        let used = bytes.len().min(HEADER - self.header.len());
        self.header.extend_from_slice(&bytes[..used]);
        let Some(header) = EnvelopeHeader::read(&self.header) else {
            return (used, ConnectionFraming::Unknown);
        };
        self.header.clear();
        if !header.is_of(direction) || header.version != FRAMED_VERSION {
            return (used, ConnectionFraming::Envelopes);
        }
        self.left = header.length as usize;
        self.is_last = match direction {
            Direction::ClientToServer => header.opcode == STARTUP,
            Direction::ServerToClient => matches!(header.opcode, READY | AUTHENTICATE),
        };
        (used, self.follows())
    }

    fn follows(&self) -> ConnectionFraming {
        if self.left == 0 && self.is_last {
            ConnectionFraming::Frames
        } else {
            ConnectionFraming::Unknown
        }
    }
}

/// Whether `bytes` begin with an envelope of version 5 without a frame: those in front of the frames.
fn opens(direction: Direction, bytes: &[u8]) -> bool {
    let is_envelope = matches!(
        evidence(direction, bytes),
        Some(Evidence::Body | Evidence::Header)
    );
    is_envelope
        && EnvelopeHeader::read(bytes).is_some_and(|header| header.version == FRAMED_VERSION)
}

/// The framing of a connection of which `bytes` are a segment.
fn framing_of(direction: Direction, bytes: &[u8]) -> ConnectionFraming {
    match evidence(direction, bytes) {
        Some(Evidence::Body | Evidence::Header) => ConnectionFraming::Envelopes,
        _ if frame_evidence(direction, bytes) == Some(true) => ConnectionFraming::Frames,
        _ => ConnectionFraming::Unknown,
    }
}

fn gap_of(segment: StreamSegment<'_>) -> StreamGap {
    StreamGap {
        seq: segment.place.seq,
        len: segment.bytes.len() as u64,
        ts: segment.ts,
    }
}

impl StreamParser for CassandraParser {
    fn on_bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        self.begin(out);
        self.on_segment(direction, segment, out);
        self.count(direction, out);
    }

    fn on_gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        self.begin(out);
        let lane = &mut self.lanes[direction as usize];
        match lane {
            LaneFraming::Frames(frames) => {
                let (missing, unknown) = frames.miss(gap);
                if let Some(gap) = missing {
                    self.inner.on_gap(direction, gap, out);
                }
                if let Some(gap) = unknown {
                    self.inner.lose_place(direction, gap, out);
                }
            }
            LaneFraming::Opening(_) => {
                *lane = LaneFraming::Unknown;
                self.inner.on_gap(direction, gap, out);
            }
            LaneFraming::Unknown | LaneFraming::Envelopes => {
                self.inner.on_gap(direction, gap, out);
            }
        }
        self.count(direction, out);
    }

    fn on_end(&mut self, direction: Direction, end: StreamEnd, out: &mut ParserOutput<'_>) {
        self.inner.on_end(direction, end, out);
    }

    fn on_close(&mut self, out: &mut ParserOutput<'_>) {
        self.inner.on_close(out);
    }

    fn on_idle(&mut self, out: &mut ParserOutput<'_>) -> bool {
        self.inner.on_idle(out)
    }

    fn is_done(&self) -> bool {
        self.inner.is_done()
    }

    fn hands_over(&self) -> Option<usize> {
        self.inner.hands_over()
    }
}
