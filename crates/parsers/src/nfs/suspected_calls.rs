//! Messages found by search at unknown positions: after a loss, and in a connection joined midway. File data
//! may contain RPC messages, so a record that looks like a call is a *suspect*: it becomes a call when a
//! reply with its xid acknowledges all of it, or when it directly follows a call that was confirmed this way.
//! A suspect alone never becomes a tuple.

use std::collections::VecDeque;

use flow::StreamPlace;
use wire::TcpSeq;

use super::byte_stream::RpcMessage;
use super::pending_calls::RpcPendingCall;
use crate::StreamSegment;

/// Maximum time for a reply to confirm a suspect.
const PATIENCE_NS: i64 = 10_000_000_000;
/// Maximum number of suspects that are still completed.
const OPEN_MAX: usize = 64;

/// A possible call.
#[derive(Debug)]
pub struct SuspectedCall {
    /// The message as a call, if it is one.
    pub call: RpcPendingCall,
    /// Transaction id.
    pub xid: u32,
    /// Position of its first byte.
    pub place: StreamPlace,
    /// Sequence number after its last byte.
    pub end: TcpSeq,
    /// The message begins a segment.
    pub begins_segment: bool,
    /// The message also ends a segment.
    pub fills_segments: bool,
}

impl SuspectedCall {
    /// Whether a reply with its xid at `place` can answer it: the server had received all of it, and the
    /// client had not received the reply when it sent the call.
    fn can_get(&self, reply: StreamPlace) -> bool {
        let received = reply.ack.is_some_and(|ack| ack.distance(self.end) >= 0);
        received
            && self
                .place
                .ack
                .is_none_or(|heard| reply.seq.distance(heard) >= 0)
    }

    fn bytes(&self) -> usize {
        size_of::<SuspectedCall>() + self.call.head.len()
    }
}

/// The suspects of one direction, oldest first.
#[derive(Debug, Default)]
pub struct SuspectedCalls {
    list: VecDeque<SuspectedCall>,
    bytes: usize,
}

impl SuspectedCalls {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a suspect; returns the number evicted for it.
    pub fn push(&mut self, suspect: SuspectedCall, bytes_max: usize) -> u64 {
        self.bytes += suspect.bytes();
        self.list.push_back(suspect);
        let mut evicted = 0;
        while self.bytes > bytes_max && self.list.len() > 1 {
            self.remove(0);
            evicted += 1;
        }
        evicted
    }

    /// The suspect that a reply with this xid at `place` can answer, if it is the only one.
    pub fn find(&self, xid: u32, place: StreamPlace) -> Option<&SuspectedCall> {
        let mut fitting = self
            .list
            .iter()
            .filter(|s| s.xid == xid && s.can_get(place));
        fitting.next().filter(|_| fitting.next().is_none())
    }

    /// Removes and returns the call that `reply` confirms, and those directly after it. Other suspects in
    /// between lie inside one of them.
    pub fn confirm(&mut self, xid: u32, reply: &RpcMessage) -> Vec<SuspectedCall> {
        let Some(place) = reply.place else {
            return Vec::new();
        };
        let Some(span) = reply.span else {
            return Vec::new();
        };
        let Some(found) = self.find(xid, place) else {
            return Vec::new();
        };
        if span.first.since(found.call.span.first) > PATIENCE_NS {
            return Vec::new();
        }
        let first = found.place.seq;
        let mut calls = Vec::new();
        let mut end = first;
        let mut next = self.list.iter().position(|s| s.place.seq == first);
        while let Some(suspect) = next.and_then(|at| self.remove(at)) {
            end = suspect.end;
            calls.push(suspect);
            next = self.list.iter().position(|s| s.place.seq == end);
        }
        let inside = |seq: TcpSeq| seq.distance(first) > 0 && seq.distance(end) < 0;
        self.list.retain(|s| !inside(s.place.seq));
        self.bytes = self.list.iter().map(SuspectedCall::bytes).sum();
        calls
    }

    /// Handles the next bytes of the direction: records the arrival of suspects that end in them.
    pub fn extend(&mut self, segment: StreamSegment<'_>) {
        for s in self.open() {
            let rest = s.end.distance(segment.place.seq);
            if (1..=segment.bytes.len() as i32).contains(&rest) {
                s.call.span.extend(segment.ts);
                s.call.ended = true;
                s.fills_segments = s.begins_segment && s.end == segment.end();
            }
        }
    }

    /// Marks the last one as having missing bytes.
    pub fn cut_last(&mut self) {
        if let Some(last) = self.list.back_mut() {
            last.call.gap = true;
        }
    }

    /// Handles missing bytes from `seq` on.
    pub fn gap(&mut self, seq: TcpSeq) {
        for s in self.open() {
            s.call.gap |= s.end.distance(seq) > 0;
        }
    }

    fn open(&mut self) -> impl Iterator<Item = &mut SuspectedCall> {
        self.list
            .iter_mut()
            .rev()
            .take(OPEN_MAX)
            .filter(|s| !s.call.ended)
    }

    fn remove(&mut self, at: usize) -> Option<SuspectedCall> {
        let suspect = self.list.remove(at)?;
        self.bytes -= suspect.bytes();
        Some(suspect)
    }
}
