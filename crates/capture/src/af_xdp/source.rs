//! The source that reads some queues' AF_XDP sockets in turn. Packets stay in the frames that the kernel put them in;
//! only those that need several frames are put together, by copying. When a stop is asked for, or the interface is
//! gone, what has arrived is delivered first. How sockets and program came about is not known here.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wire::{LinkType, Timestamp};

use super::Program;
use crate::block::{BLOCK_PACKETS, Block, Record};
use crate::interfaces::{Interface, interfaces};
use crate::live::{Clock, LiveOptions, Stop};
use crate::source::{Counters, Source, SourceError};
use crate::sys::af_xdp::{Frames, Piece, Receiver, Statistics, wait};
use crate::sys::xdp_program;

/// Packets of some queues of an interface.
pub(super) struct AfXdp {
    receivers: Vec<Receiver>,
    /// The queues that they are bound to.
    queues: Vec<u32>,
    /// Whose turn it is.
    turn: usize,
    program: Arc<Program>,
    interface: Interface,
    /// Whether it is this source that counts what the adapter drops: all have one adapter.
    reports: bool,
    stop: Stop,
    state: State,
    pieces: Vec<Piece>,
    partial: Partial,
    counters: Counters,
    errors: Vec<SourceError>,
}

/// How far an end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// Nothing is given to the sockets any more; what is on its way still arrives.
    Closing,
    /// What has arrived is the rest.
    Closed,
}

/// A packet of several frames, as far as it has come.
#[derive(Debug, Default)]
struct Partial {
    bytes: Vec<u8>,
    original_len: u32,
}

/// More than any packet: what is behind it is cut off.
const PARTIAL_MAX: usize = 256 << 10;
/// When nothing comes, the time is told so often.
const IDLE: Duration = Duration::from_millis(100);
/// What was on its way when a stop was asked for has come by then.
const DRAIN: Duration = Duration::from_millis(10);

impl AfXdp {
    pub(super) fn new(
        options: &LiveOptions,
        interface: &Interface,
        program: Arc<Program>,
        reports: bool,
    ) -> AfXdp {
        AfXdp {
            receivers: Vec::new(),
            queues: Vec::new(),
            turn: 0,
            program,
            interface: interface.clone(),
            reports,
            stop: options.stop.clone(),
            state: State::Running,
            pieces: Vec::with_capacity(BLOCK_PACKETS),
            partial: Partial::default(),
            counters: Counters { clock: Some(Clock::System), ..Counters::default() },
            errors: Vec::new(),
        }
    }

    /// Reads this queue as well.
    pub(super) fn add(&mut self, queue: u32, receiver: Receiver) {
        self.queues.push(queue);
        self.receivers.push(receiver);
    }

    /// The packets of the next queue that has some.
    fn receive(&mut self, block: &mut Block) -> bool {
        for _ in 0..self.receivers.len() {
            self.turn = (self.turn + 1) % self.receivers.len();
            self.pieces.clear();
            if let Some(frames) = self.receivers[self.turn].receive(BLOCK_PACKETS, &mut self.pieces) {
                self.give(frames, block);
                return true;
            }
        }
        false
    }

    fn give(&mut self, frames: Frames, block: &mut Block) {
        let ts = now();
        let frames = Arc::new(frames);
        let buffer = block.add_buffer(frames.clone());
        for &Piece { start, len, more } in &self.pieces {
            let mut record =
                Record { ts, link_type: LinkType::Ethernet, original_len: len, len, start, buffer };
            if more || self.partial.original_len > 0 {
                self.partial.add((*frames).as_ref(), start, len);
                if more {
                    continue;
                }
                let whole = std::mem::take(&mut self.partial);
                (record.original_len, record.len) = (whole.original_len, whole.bytes.len() as u32);
                (record.start, record.buffer) = (0, block.add_buffer(Arc::new(whole.bytes)));
            }
            block.push(record);
        }
        block.set_clock(ts);
        self.counters.count(block);
    }

    /// Nothing is there.
    fn wait(&mut self, block: &mut Block) -> bool {
        let timeout = if self.state == State::Running { IDLE } else { DRAIN };
        if let Err(error) = wait(&self.receivers, timeout) {
            self.errors.push(self.failure(&error));
            self.state = State::Closed;
        }
        if self.receive(block) {
            return true;
        }
        block.set_clock(now());
        match self.state {
            State::Running => true,
            State::Closing => {
                self.state = State::Closed;
                true
            }
            State::Closed => false,
        }
    }

    /// From the moment that a stop is asked for, the stack has all packets again.
    fn heed_stop(&mut self) {
        if self.state == State::Running && self.stop.is_asked() {
            for &queue in &self.queues {
                // Where it fails, the program's end does it.
                let _ = xdp_program::remove_socket(&self.program.map, queue);
            }
            self.state = State::Closing;
        }
    }

    fn failure(&self, error: &io::Error) -> SourceError {
        let what = match error.raw_os_error() {
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => "the interface has been removed".to_owned(),
            _ => format!("receiving failed: {error}"),
        };
        SourceError {
            path: PathBuf::from(&self.interface.name),
            offset: None,
            message: format!("{what}; all that came before is in the result"),
            after_packets: self.counters.packets,
        }
    }

    /// Packets that the adapter dropped since the capture began.
    fn adapter_drops(&self) -> Option<u64> {
        let all = interfaces().ok().filter(|_| self.reports)?;
        let now = all.iter().find(|i| i.index == self.interface.index)?;
        Some(u64::from(now.drops.wrapping_sub(self.interface.drops)))
    }
}

impl Source for AfXdp {
    fn next_block(&mut self, block: &mut Block) -> bool {
        block.clear();
        self.heed_stop();
        self.receive(block) || self.wait(block)
    }

    fn errors(&self) -> &[SourceError] {
        &self.errors
    }

    fn counters(&self) -> Counters {
        let all = self.receivers.iter().map(Receiver::statistics).collect::<io::Result<Vec<_>>>();
        let sum = |of: fn(&Statistics) -> u64| all.as_ref().ok().map(|all| all.iter().map(of).sum());
        Counters {
            lost_before_us: sum(|s| s.dropped),
            buffer_overflows: sum(|s| s.fill_empty).unwrap_or(0),
            nic_drops: self.adapter_drops(),
            ..self.counters
        }
    }
}

impl Partial {
    fn add(&mut self, memory: &[u8], start: u32, len: u32) {
        let piece =
            memory.get(start as usize..).and_then(|rest| rest.get(..len as usize)).unwrap_or_default();
        let room = PARTIAL_MAX - self.bytes.len();
        self.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        self.original_len = self.original_len.saturating_add(len);
    }
}

/// The wall clock.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_packet_come_together_up_to_a_bound() {
        let memory: Vec<u8> = (0..=255).collect();
        let mut partial = Partial::default();
        partial.add(&memory, 10, 3);
        partial.add(&memory, 200, 2);
        assert_eq!((partial.bytes.as_slice(), partial.original_len), (&[10, 11, 12, 200, 201][..], 5));
        let memory = vec![7; 100 << 10];
        (0..3).for_each(|_| partial.add(&memory, 0, 100 << 10));
        assert_eq!((partial.bytes.len(), partial.original_len), (PARTIAL_MAX, 5 + (300 << 10)));
    }
}
