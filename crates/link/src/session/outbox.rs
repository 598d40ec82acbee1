//! Queue of outgoing frames: control messages overtake records. Limited, in case the other end does not read.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::frame::{Frame, PeerMisbehaved, encode};

/// Maximum bytes of waiting control messages: twice the largest message.
const CONTROL_BYTES_MAX: usize = 32 << 20;

#[derive(Debug, Default)]
pub(super) struct FrameOutbox {
    control: VecDeque<Bytes>,
    control_bytes: usize,
    records: VecDeque<Bytes>,
}

impl FrameOutbox {
    pub(super) fn send(&mut self, frame: impl Into<Frame>) {
        for bytes in frame.into().encode() {
            self.control_bytes += bytes.len();
            self.control.push_back(bytes);
        }
    }

    pub(super) fn send_record(&mut self, kind: u8, body: Bytes) {
        self.records.extend(encode(kind, body));
    }

    pub(super) fn check(&self) -> Result<(), PeerMisbehaved> {
        if self.control_bytes > CONTROL_BYTES_MAX {
            Err(PeerMisbehaved::DoesNotRead)
        } else {
            Ok(())
        }
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let control = self
            .control
            .pop_front()
            .inspect(|bytes| self.control_bytes -= bytes.len());
        control.or_else(|| self.records.pop_front())
    }
}
