//! A source that reads the AF_XDP sockets of several queues in turn. Packets stay in the kernel's frames; only those
//! in several frames are copied. After a stop, or the removal of the interface, packets that have arrived are
//! delivered first. Sockets and the program are set up elsewhere.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wire::{LinkType, Timestamp};

use crate::block::{BLOCK_PACKETS, PacketBlock, PacketRecord};
use crate::interfaces::{NetworkInterface, interfaces};
use crate::live::options::{LiveOptions, StopSignal, TimestampClock};
use crate::source::{PacketSource, SourceCounters, SourceError};
use crate::sys::af_xdp::{FramePiece, ReceivedFrames, XdpReceiver, XdpStatistics, wait};
use crate::sys::packet_socket::PacketSocket;
use crate::sys::xdp_program::{self, XdpHook};

/// A program attached to an interface; detached when dropped, also when the process dies.
pub(super) struct XdpProgram {
    pub map: OwnedFd,
    pub hook: XdpHook,
    /// The program accepts packets of several frames.
    pub multi: bool,
    pub _link: OwnedFd,
    /// Keeps the interface promiscuous.
    pub _port: PacketSocket,
}

/// Packets of several queues of an interface.
pub(super) struct AfXdpSource {
    queues: Vec<XdpQueue>,
    /// Queue to read next.
    turn: usize,
    program: Arc<XdpProgram>,
    interface: NetworkInterface,
    /// Whether this source reports the adapter's drops, which all sources share.
    reports: bool,
    stop: StopSignal,
    state: ShutdownState,
    snaplen: u32,
    /// After a stop: maximum number of packets that may have arrived before it.
    left: usize,
    pieces: Vec<FramePiece>,
    counters: SourceCounters,
    errors: Vec<SourceError>,
}

/// A queue, and a packet of it that is incomplete.
struct XdpQueue {
    number: u32,
    receiver: XdpReceiver,
    partial: PartialPacket,
}

/// Progress of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShutdownState {
    Running,
    /// The sockets are removed; packets in transit still arrive.
    Closing,
    /// No more packets arrive.
    Closed,
}

/// The received part of a packet in several frames.
#[derive(Debug, Default)]
struct PartialPacket {
    bytes: Vec<u8>,
    original_len: u32,
}

/// Maximum packet length; the rest is cut off.
const PARTIAL_MAX: usize = 256 << 10;
/// Interval at which the time is reported without packets.
const IDLE: Duration = Duration::from_millis(100);
/// Time after a stop by which packets in transit have arrived.
const DRAIN: Duration = Duration::from_millis(10);

impl AfXdpSource {
    pub(super) fn new(
        options: &LiveOptions,
        interface: &NetworkInterface,
        program: Arc<XdpProgram>,
        reports: bool,
    ) -> AfXdpSource {
        AfXdpSource {
            queues: Vec::new(),
            turn: 0,
            program,
            interface: interface.clone(),
            reports,
            stop: options.stop.clone(),
            state: ShutdownState::Running,
            snaplen: options.snaplen,
            left: 0,
            pieces: Vec::with_capacity(BLOCK_PACKETS),
            counters: SourceCounters {
                clock: Some(TimestampClock::System),
                ..SourceCounters::default()
            },
            errors: Vec::new(),
        }
    }

    /// Adds a queue.
    pub(super) fn add(&mut self, number: u32, receiver: XdpReceiver) {
        self.left += receiver.n_frames();
        self.queues.push(XdpQueue {
            number,
            receiver,
            partial: PartialPacket::default(),
        });
    }

    /// Reads packets of the next queue that has some.
    fn receive(&mut self, block: &mut PacketBlock) -> bool {
        for _ in 0..self.queues.len() {
            self.turn = (self.turn + 1) % self.queues.len();
            self.pieces.clear();
            if let Some(frames) = self.queues[self.turn]
                .receiver
                .receive(BLOCK_PACKETS, &mut self.pieces)
            {
                self.give(frames, block);
                return true;
            }
        }
        false
    }

    /// Puts the received packets of the current queue into `block`.
    fn give(&mut self, frames: ReceivedFrames, block: &mut PacketBlock) {
        let ts = now();
        let frames = Arc::new(frames);
        let buffer = block.add_buffer(frames.clone());
        let partial = &mut self.queues[self.turn].partial;
        let link_type = LinkType::Ethernet;
        for &FramePiece { start, len, more } in &self.pieces {
            let record = if more || partial.original_len > 0 {
                partial.add((*frames).as_ref(), start, len);
                if more {
                    continue;
                }
                let PartialPacket {
                    mut bytes,
                    original_len,
                } = std::mem::take(partial);
                bytes.truncate(self.snaplen as usize);
                block.add_packet(ts, link_type, original_len, Arc::new(bytes))
            } else {
                PacketRecord {
                    ts,
                    link_type,
                    original_len: len,
                    len: len.min(self.snaplen),
                    start,
                    buffer,
                }
            };
            block.push(record);
        }
        block.set_clock(ts);
        self.counters.count(block);
    }

    /// Waits for packets.
    fn wait(&mut self, block: &mut PacketBlock) -> bool {
        let timeout = if self.state == ShutdownState::Running {
            IDLE
        } else {
            DRAIN
        };
        if let Err(error) = wait(self.queues.iter().map(|q| &q.receiver), timeout) {
            self.errors.push(self.failure(&error));
            self.state = ShutdownState::Closed;
        }
        if self.receive(block) {
            return true;
        }
        block.set_clock(now());
        match self.state {
            ShutdownState::Running => true,
            ShutdownState::Closing => {
                self.state = ShutdownState::Closed;
                true
            }
            ShutdownState::Closed => false,
        }
    }

    /// Returns all packets to the stack once a stop is requested.
    fn heed_stop(&mut self) {
        if self.state == ShutdownState::Running && self.stop.is_asked() {
            for queue in &self.queues {
                // Without privileges, the end of the program has this effect, and later packets are not waited for.
                let _ = xdp_program::remove_socket(&self.program.map, queue.number);
            }
            self.state = ShutdownState::Closing;
        }
    }

    fn failure(&self, error: &io::Error) -> SourceError {
        let what = match error.raw_os_error() {
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                "the interface has been removed".to_owned()
            }
            _ => format!("receiving failed: {error}"),
        };
        SourceError {
            path: PathBuf::from(&self.interface.name),
            offset: None,
            message: format!("{what}; the result includes all earlier packets"),
            after_packets: self.counters.packets,
        }
    }

    /// Packets dropped by the adapter since the start of the capture.
    fn adapter_drops(&self) -> Option<u64> {
        let all = interfaces().ok().filter(|_| self.reports)?;
        let now = all.iter().find(|i| i.index == self.interface.index)?;
        Some(u64::from(now.drops.wrapping_sub(self.interface.drops)))
    }
}

impl PacketSource for AfXdpSource {
    fn next_block(&mut self, block: &mut PacketBlock) -> bool {
        block.clear();
        self.heed_stop();
        if self.left == 0 {
            return false;
        }
        let more = self.receive(block) || self.wait(block);
        if self.state != ShutdownState::Running {
            self.left = self.left.saturating_sub(block.len());
        }
        more
    }

    fn errors(&self) -> &[SourceError] {
        &self.errors
    }

    fn counters(&self) -> SourceCounters {
        let all = self
            .queues
            .iter()
            .map(|q| q.receiver.statistics())
            .collect::<io::Result<Vec<_>>>();
        let sum =
            |of: fn(&XdpStatistics) -> u64| all.as_ref().ok().map(|all| all.iter().map(of).sum());
        SourceCounters {
            lost_before_us: sum(|s| s.dropped),
            buffer_overflows: sum(|s| s.fill_empty).unwrap_or(0),
            nic_drops: self.adapter_drops(),
            ..self.counters
        }
    }

    fn backlog(&self) -> f32 {
        let share =
            |q: &XdpQueue| q.receiver.n_waiting() as f32 / q.receiver.n_frames().max(1) as f32;
        self.queues.iter().map(share).fold(0.0, f32::max)
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (self.counters.captured_bytes, None)
    }
}

impl PartialPacket {
    fn add(&mut self, memory: &[u8], start: u32, len: u32) {
        let piece = memory
            .get(start as usize..)
            .and_then(|rest| rest.get(..len as usize))
            .unwrap_or_default();
        let room = PARTIAL_MAX - self.bytes.len();
        self.bytes
            .extend_from_slice(&piece[..piece.len().min(room)]);
        self.original_len = self.original_len.saturating_add(len);
    }
}

/// The wall clock.
fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_packet_come_together_up_to_a_bound() {
        let memory: Vec<u8> = (0..=255).collect();
        let mut partial = PartialPacket::default();
        partial.add(&memory, 10, 3);
        partial.add(&memory, 200, 2);
        assert_eq!(
            (partial.bytes.as_slice(), partial.original_len),
            (&[10, 11, 12, 200, 201][..], 5)
        );
        let memory = vec![7; 100 << 10];
        (0..3).for_each(|_| partial.add(&memory, 0, 100 << 10));
        assert_eq!(
            (partial.bytes.len(), partial.original_len),
            (PARTIAL_MAX, 5 + (300 << 10))
        );
    }
}
