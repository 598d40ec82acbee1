//! Recognizes HTTP/2, and finds the next frame after missing bytes: a chain of frames whose headers fit each
//! other.

use super::frames::{FRAME_BYTES_DEFAULT, FRAME_HEAD_BYTES, FrameHead, PREFACE, kind};
use super::hpack::HpackDecoder;
use crate::resync::{CandidateVerdict, MessageCandidate, MessageLocator, SegmentBeginning};
use crate::{Direction, ProbeContext, ProbeResult};

/// Frames of a chain whose start nothing else confirms.
const CHAIN: usize = 3;
/// Same at the start of a segment.
const CHAIN_OF_SEGMENT: usize = 2;

/// Starts of frames.
pub struct Http2FrameLocator {
    /// Longest frame that the receiver permits.
    pub len_max: u32,
}

impl MessageLocator for Http2FrameLocator {
    // Three frames of the usual length.
    const HEAD_BYTES_MAX: usize = 3 << 14;

    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let is_start = |at: &usize| {
            let rest = &bytes[*at..];
            match rest.first_chunk() {
                Some(head) => FrameHead::is_plausible(head, self.len_max),
                // The length has 24 bits, and most frames have less than 64 KiB.
                None => rest.first().is_none_or(|byte| *byte == 0),
            }
        };
        (from..=bytes.len()).find(is_start)
    }

    fn begins_segment(&self, _: SegmentBeginning) -> bool {
        true
    }

    fn judge(&self, candidate: &MessageCandidate<'_>) -> CandidateVerdict {
        let wanted = if candidate.begins_segment {
            CHAIN_OF_SEGMENT
        } else {
            CHAIN
        };
        match FrameChain::follow(candidate.bytes, self.len_max) {
            None => CandidateVerdict::No,
            Some(chain) if chain.frames >= wanted => CandidateVerdict::Message,
            // A segment that is one frame, or ends with one.
            Some(chain) if chain.is_whole && chain.frames + 1 >= wanted => {
                CandidateVerdict::Message
            }
            Some(_) => CandidateVerdict::More,
        }
    }
}

/// Frames that follow each other.
struct FrameChain {
    /// Complete frame headers.
    frames: usize,
    /// The bytes end with a frame.
    is_whole: bool,
}

impl FrameChain {
    /// `None` if the bytes are not frames.
    fn follow(bytes: &[u8], len_max: u32) -> Option<FrameChain> {
        let mut frames = 0;
        let mut rest = bytes;
        while let Some(head) = rest.first_chunk() {
            if !FrameHead::is_plausible(head, len_max) {
                return None;
            }
            frames += 1;
            let len = FRAME_HEAD_BYTES + FrameHead::parse(head).len as usize;
            let Some(after) = rest.get(len..) else {
                return Some(FrameChain {
                    frames,
                    is_whole: false,
                });
            };
            rest = after;
        }
        Some(FrameChain {
            frames,
            is_whole: rest.is_empty(),
        })
    }
}

/// Recognizes the preface, the first SETTINGS of a server, and midway a chain of frames with a header block
/// that is a request or a response.
pub fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let preface = PREFACE.len().min(bytes.len());
    if bytes[..preface] == PREFACE[..preface] {
        return if bytes.len() >= PREFACE.len() {
            ProbeResult::Request
        } else {
            ProbeResult::NeedMore
        };
    }
    if context.speaker == Some(Direction::ClientToServer) && !context.midstream {
        return ProbeResult::NotForUs;
    }
    if !context.midstream && context.speaker.is_some() {
        return first_settings(bytes);
    }
    match FrameChain::follow(bytes, FRAME_BYTES_DEFAULT) {
        Some(chain) if !bytes.is_empty() => match speaker(bytes) {
            Some(who) if chain.frames >= CHAIN || chain.is_whole => who,
            _ => ProbeResult::NeedMore,
        },
        Some(_) => ProbeResult::NeedMore,
        None => ProbeResult::NotForUs,
    }
}

/// A server begins with SETTINGS, which has few of them.
fn first_settings(bytes: &[u8]) -> ProbeResult {
    const LEN_MAX: u32 = 120;
    let Some(head) = bytes.first_chunk() else {
        let begin = [0, 0];
        return if bytes.starts_with(&begin[..bytes.len().min(2)]) {
            ProbeResult::NeedMore
        } else {
            ProbeResult::NotForUs
        };
    };
    let settings = FrameHead::parse(head);
    let fits = FrameHead::is_plausible(head, LEN_MAX)
        && settings.kind == kind::SETTINGS
        && !settings.is_ack();
    if fits {
        ProbeResult::Response
    } else {
        ProbeResult::NotForUs
    }
}

/// Who sent the first complete header block that says so: a request has `:method` and `:path` or `:scheme`, a
/// response `:status`.
fn speaker(bytes: &[u8]) -> Option<ProbeResult> {
    let mut rest = bytes;
    while let Some(bytes) = rest.first_chunk() {
        let head = FrameHead::parse(bytes);
        let payload = rest.get(FRAME_HEAD_BYTES..FRAME_HEAD_BYTES + head.len as usize)?;
        if head.kind == kind::HEADERS && head.ends_headers() {
            let who = head.fragment(payload).and_then(speaker_of_block);
            if who.is_some() {
                return who;
            }
        }
        rest = &rest[FRAME_HEAD_BYTES + payload.len()..];
    }
    None
}

fn speaker_of_block(block: &[u8]) -> Option<ProbeResult> {
    let mut parts = [false; 3];
    let valid = HpackDecoder::new(false).decode(block, |field| match field.name {
        Some(b":method") => parts[0] = true,
        Some(b":path" | b":scheme") => parts[1] = true,
        Some(b":status") => parts[2] = true,
        _ => {}
    });
    match parts {
        _ if valid.is_err() => None,
        [true, true, false] => Some(ProbeResult::Request),
        [false, false, true] => Some(ProbeResult::Response),
        _ => None,
    }
}
