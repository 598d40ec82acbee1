//! In which order a flow's bytes, gaps and ends reach its parser: at once where nothing is missing, else in the order in
//! which they were said ([`parsers::in_time`]). `past`: events of one call tell of the past, perhaps of both sides'.

use flow::{Event, Events, FlowEvent, FlowIdx, Place};
use parsers::Stream;
use parsers::in_time::Piece;
use parsers::probing::direction;
use wire::{Side, Timestamp};

use super::Monitor;

impl Monitor {
    /// What an ordinary segment said: one of a flow in which nothing is missing.
    #[inline]
    pub(super) fn on_ordinary(&mut self, idx: FlowIdx, events: &Events, payload: &[u8]) {
        match *events.list() {
            [Event { what: FlowEvent::Bytes { side, chunk, ts, place }, .. }] if !self.waits(idx) => {
                self.on_bytes(idx, side, events.bytes(chunk, payload), (ts, place));
            }
            _ => self.on_events(events, payload, None),
        }
    }

    pub(super) fn say_bytes(
        &mut self,
        idx: FlowIdx,
        side: Side,
        bytes: &[u8],
        at: (Timestamp, Place),
        past: bool,
    ) {
        match past || self.must_wait(idx) {
            false => self.on_bytes(idx, side, bytes, at),
            true => self.wait(idx, side, at.0, Piece::Bytes(bytes.to_vec(), at.1)),
        }
    }

    pub(super) fn say_gap(&mut self, idx: FlowIdx, side: Side, len: u64, ts: Timestamp) {
        self.wait(idx, side, ts, Piece::Gap(len));
    }

    pub(super) fn say_end(&mut self, idx: FlowIdx, side: Side, ts: Timestamp, past: bool) {
        match past || self.must_wait(idx) {
            false => self.on_end(idx, side, ts),
            true => self.wait(idx, side, ts, Piece::End),
        }
    }

    /// Whether what a flow says now may have been said after something that is still to come.
    #[inline]
    fn must_wait(&self, idx: FlowIdx) -> bool {
        self.table.flow(idx).lacks_bytes() != [false; 2] || self.waits(idx)
    }

    /// Whether anything waits.
    #[inline]
    fn waits(&self, idx: FlowIdx) -> bool {
        self.table.state(idx).rare.as_ref().is_some_and(|rare| !rare.in_time.is_empty())
    }

    #[cold]
    fn wait(&mut self, idx: FlowIdx, side: Side, ts: Timestamp, piece: Piece) {
        let state = self.table.state_mut(idx);
        if !matches!(state.stream, Stream::Ignored) {
            state.rare.get_or_insert_default().in_time.push(side, ts, piece);
        }
    }

    /// Lets the parser have what waits, as far as it has its turn; `all`: nothing more will come.
    #[inline]
    pub(super) fn release(&mut self, idx: FlowIdx, all: bool) {
        if self.waits(idx) {
            self.release_waiting(idx, all);
        }
    }

    #[cold]
    fn release_waiting(&mut self, idx: FlowIdx, all: bool) {
        let Some(rare) = &mut self.table.state_mut(idx).rare else { return };
        let mut in_time = std::mem::take(&mut rare.in_time);
        let hurried = !all && in_time.overflows();
        self.accounting.parsers.hurried_flows += u64::from(hurried);
        let lacks = if all || hurried { [false; 2] } else { self.table.flow(idx).lacks_bytes() };
        while let Some((side, ts, piece)) = in_time.pop(lacks) {
            match piece {
                Piece::Bytes(bytes, place) => self.on_bytes(idx, side, &bytes, (ts, place)),
                Piece::Gap(len) => self.on_gap(idx, side, len, ts),
                Piece::End => self.on_end(idx, side, ts),
            }
        }
        if !in_time.is_empty() {
            self.table.state_mut(idx).rare.get_or_insert_default().in_time = in_time;
        }
    }

    /// The connection was reset: neither side has more to say.
    pub(super) fn end_streams(&mut self, idx: FlowIdx, ts: Timestamp) {
        self.release(idx, true);
        self.on_end(idx, Side::A, ts);
        self.on_end(idx, Side::B, ts);
    }

    fn on_end(&mut self, idx: FlowIdx, side: Side, ts: Timestamp) {
        self.parse(idx, |parser, asker, out| parser.on_end(direction(side, asker), ts, out));
    }
}
