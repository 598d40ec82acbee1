//! Calls of parsers that wait for silence: nothing else tells them that a response is complete.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flow::FlowIdx;
use parsers::SILENCE_NS;
use wire::Timestamp;

/// Times at which parsers are called, with the flow's place and id. At most one per flow, and one for each that has
/// ended since.
#[derive(Debug, Default)]
pub(crate) struct SilenceQueue(BinaryHeap<Reverse<(Timestamp, u32, u64)>>);

impl SilenceQueue {
    /// Schedules a call when the flow has been silent since `last`.
    #[cold]
    pub fn push(&mut self, last: Timestamp, idx: FlowIdx, id: u64) {
        self.0.push(Reverse((last.plus(SILENCE_NS), idx.0, id)));
    }

    /// Removes the first call whose time has passed, or lies too far ahead because the clock was set back.
    pub fn pop(&mut self, now: Timestamp) -> Option<(FlowIdx, u64)> {
        let Reverse((due, idx, id)) = *self.0.peek()?;
        let has_passed = due < now || due > now.plus(2 * SILENCE_NS);
        has_passed.then(|| self.0.pop())?;
        Some((FlowIdx(idx), id))
    }
}
