//! A capture replayed in a loop, in real time, as if it were live; for demonstrations. Its packets arrive when they
//! are due, with current timestamps; there is a pause between rounds. The TCP sequence numbers (over Ethernet without
//! tags) differ between rounds: connections with equal ones would be copies.
//!
//! Synchronized replays have their rounds at the same times, also in other processes, so that they deliver the same
//! packets, like captures of one interface.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wire::Timestamp;

use crate::block::{BLOCK_PACKETS, PacketBlock, PacketRecord};
use crate::live::options::StopSignal;
use crate::open::open;
use crate::source::{PacketSource, SourceCounters, SourceError};

/// Maximum wait before the time is reported.
const PATIENCE: Duration = Duration::from_millis(100);
/// Packets due within this time are delivered together.
const TOGETHER_NS: i64 = 5_000_000;

/// Difference of sequence numbers between rounds; odd, so that all rounds differ.
const SEQ_STEP: u32 = 0x2545_f491;

/// State of a replay.
pub struct LoopedReplay {
    path: PathBuf,
    pause_ns: i64,
    stop: StopSignal,
    round: Option<ReplayRound>,
    /// Packets read but not due yet.
    read: PacketBlock,
    next: usize,
    counters: SourceCounters,
    errors: Vec<SourceError>,
    /// System clock at the start, with the monotonic time.
    began: (i64, Instant),
    /// Start of the next round.
    begins_ns: i64,
    rounds: u32,
    /// Synchronized replay: duration of a round with its pause. Rounds begin at multiples of it since 1970.
    step_ns: Option<i64>,
}

struct ReplayRound {
    source: Box<dyn PacketSource>,
    /// Offset of the packets' times.
    shift_ns: Option<i64>,
}

impl LoopedReplay {
    /// Replays the capture at `path` until `stop` is set, with `pause` between rounds.
    #[must_use]
    pub fn new(path: &Path, pause: Duration, stop: &StopSignal) -> LoopedReplay {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let wall = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        LoopedReplay {
            path: path.to_owned(),
            pause_ns: i64::try_from(pause.as_nanos()).unwrap_or(i64::MAX),
            stop: stop.clone(),
            round: None,
            read: PacketBlock::default(),
            next: 0,
            counters: SourceCounters::default(),
            errors: Vec::new(),
            began: (wall, Instant::now()),
            begins_ns: wall,
            rounds: 0,
            step_ns: None,
        }
    }

    /// Synchronizes with all replays of this capture with this pause: starts with their next round.
    #[must_use]
    pub fn in_step(mut self) -> LoopedReplay {
        let mut source = open(std::slice::from_ref(&self.path));
        let mut block = PacketBlock::default();
        let mut first = None;
        let mut last = i64::MIN;
        while source.next_block(&mut block) {
            for record in block.records() {
                first.get_or_insert(record.ts.0);
                last = last.max(record.ts.0);
            }
            block.clear();
        }
        let length = first.map_or(0, |first| last.saturating_sub(first));
        let step = length.saturating_add(self.pause_ns).max(1_000_000);
        self.step_ns = Some(step);
        let rounds = self.began.0.div_euclid(step).saturating_add(1);
        self.begins_ns = rounds.saturating_mul(step);
        self.rounds = rounds as u32;
        self
    }

    /// Start of the next round, and the number of rounds until then.
    fn next_round(&self) -> (i64, u32) {
        let now = self.now_ns();
        match self.step_ns {
            None => (now.saturating_add(self.pause_ns), 1),
            // Missed rounds, for example after suspension, are skipped.
            Some(step) => {
                let on = now
                    .saturating_sub(self.begins_ns)
                    .div_euclid(step)
                    .max(0)
                    .saturating_add(1);
                (
                    self.begins_ns.saturating_add(on.saturating_mul(step)),
                    on as u32,
                )
            }
        }
    }

    fn now_ns(&self) -> i64 {
        self.began
            .0
            .saturating_add(i64::try_from(self.began.1.elapsed().as_nanos()).unwrap_or(i64::MAX))
    }

    /// Reads packets of this round or the next; returns false if there are none in either.
    fn read_on(&mut self) -> bool {
        for _ in 0..2 {
            let round = self.round.get_or_insert_with(|| ReplayRound {
                source: open(std::slice::from_ref(&self.path)),
                shift_ns: None,
            });
            self.next = 0;
            if round.source.next_block(&mut self.read) && !self.read.is_empty() {
                let first = self.read.records()[0].ts.0;
                round
                    .shift_ns
                    .get_or_insert(self.begins_ns.saturating_sub(first));
                return true;
            }
            if self.errors.is_empty() {
                self.errors.extend_from_slice(round.source.errors());
            }
            let (begins_ns, on) = self.next_round();
            self.rounds = self.rounds.wrapping_add(on);
            self.begins_ns = begins_ns;
            self.round = None;
        }
        false
    }

    /// The next packet, with its due time.
    fn due(&mut self) -> Option<PacketRecord> {
        if self.next >= self.read.len() && !self.read_on() {
            return None;
        }
        let shift_ns = self
            .round
            .as_ref()
            .and_then(|round| round.shift_ns)
            .unwrap_or(0);
        let record = self.read.records()[self.next];
        Some(PacketRecord {
            ts: Timestamp(record.ts.0.saturating_add(shift_ns)),
            ..record
        })
    }
}

impl PacketSource for LoopedReplay {
    fn next_block(&mut self, block: &mut PacketBlock) -> bool {
        block.clear();
        if self.stop.is_asked() {
            return false;
        }
        let Some(first) = self.due() else {
            return false;
        };
        let wait = Duration::from_nanos(
            first
                .ts
                .0
                .saturating_sub(self.now_ns())
                .max(0)
                .unsigned_abs(),
        );
        std::thread::sleep(wait.min(PATIENCE));
        let now_ns = self.now_ns();
        block.set_clock(Timestamp(now_ns));
        if first.ts.0 > now_ns {
            return !self.stop.is_asked();
        }
        let mut bytes = Vec::new();
        let mut due = Vec::new();
        let added = self.rounds.wrapping_mul(SEQ_STEP);
        while due.len() < BLOCK_PACKETS && self.next < self.read.len() {
            let is_due = |record: &PacketRecord| record.ts.0 <= now_ns.saturating_add(TOGETHER_NS);
            let Some(record) = self.due().filter(is_due) else {
                break;
            };
            let start = bytes.len();
            bytes.extend(
                self.read
                    .range(self.next..self.next + 1)
                    .flat_map(|packet| packet.bytes),
            );
            shift(&mut bytes[start..], added);
            due.push(PacketRecord {
                start: start as u32,
                ..record
            });
            self.next += 1;
        }
        let buffer = block.add_buffer(Arc::new(bytes));
        due.into_iter()
            .for_each(|record| block.push(PacketRecord { buffer, ..record }));
        let last = block.records().last().map_or(now_ns, |record| record.ts.0);
        block.set_clock(Timestamp(now_ns.max(last)));
        self.counters.count(block);
        true
    }

    fn errors(&self) -> &[SourceError] {
        &self.errors
    }

    fn counters(&self) -> SourceCounters {
        self.counters
    }

    fn names(&self) -> &[(IpAddr, String)] {
        self.round
            .as_ref()
            .map_or(&[], |round| round.source.names())
    }
}

/// Adds to the sequence numbers of a TCP packet in IPv4, or IPv6 without options, in Ethernet.
fn shift(packet: &mut [u8], added: u32) {
    let tcp = match packet {
        [_, _, _, _, _, _, _, _, _, _, _, _, 8, 0, version, ..] => {
            let length = usize::from(*version & 15) * 4;
            (packet.get(23) == Some(&6)).then_some(14 + length)
        }
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, 0xdd, ..] => {
            (packet.get(20) == Some(&6)).then_some(54)
        }
        _ => None,
    };
    let Some(header) = tcp.and_then(|at| packet.get_mut(at..at + 18)) else {
        return;
    };
    // The checksum is adjusted to the change (RFC 1624, equation 3), since receivers would treat the packet as
    // damaged otherwise.
    let mut sum = u32::from(!u16::from_be_bytes([header[16], header[17]]));
    for number in header[4..12].as_chunks_mut::<4>().0 {
        let before = u32::from_be_bytes(*number);
        let after = before.wrapping_add(added);
        *number = after.to_be_bytes();
        for (before, after) in [
            (before >> 16, after >> 16),
            (before & 0xffff, after & 0xffff),
        ] {
            sum += (!before & 0xffff) + after;
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    header[16..18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use testkit::pcap::{ByteOrder, TimestampPrecision, pcap_bytes};

    use super::*;

    #[test]
    fn a_capture_comes_again_at_the_time_of_now() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("in.pcap");
        let mut talk = testkit::TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:53");
        talk.handshake();
        let mut packets = talk.take();
        for (packet, ns) in packets.iter_mut().zip([0, 20_000_000, 60_000_000]) {
            packet.ts = Timestamp(1_000_000_000 + ns);
        }
        std::fs::write(
            &path,
            pcap_bytes(&packets, TimestampPrecision::Nanos, ByteOrder::Little),
        )
        .expect("written");
        let stop = StopSignal::default();
        let mut source = LoopedReplay::new(&path, Duration::from_secs(1), &stop);
        let began = source.began.0;
        let mut block = PacketBlock::default();
        let mut times = Vec::new();
        let mut numbers = Vec::new();
        while times.len() < 5 {
            assert!(source.next_block(&mut block));
            let clock = block.clock().expect("it keeps the time").0;
            assert!(
                block.records().iter().all(|record| record.ts.0 <= clock),
                "nothing comes before its time"
            );
            let number =
                |bytes: &[u8]| u32::from_be_bytes(bytes[38..42].try_into().expect("four bytes"));
            numbers.extend(block.packets().map(|packet| number(packet.bytes)));
            times.extend(block.records().iter().map(|record| record.ts.0 - began));
        }
        assert_eq!(times[..3], [0, 20_000_000, 60_000_000]);
        assert_eq!(times[4] - times[3], 20_000_000);
        assert!(times[3] >= 1_060_000_000, "after a pause: {times:?}");
        assert_eq!(numbers[3].wrapping_sub(numbers[0]), SEQ_STEP);
        assert_eq!(numbers[4].wrapping_sub(numbers[1]), SEQ_STEP);
        stop.stop();
        assert!(!source.next_block(&mut block));
        assert_eq!(source.counters().packets, times.len() as u64);
    }

    #[test]
    fn those_in_step_play_the_same_at_the_same_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("in.pcap");
        let mut talk = testkit::TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:53");
        talk.handshake();
        std::fs::write(
            &path,
            pcap_bytes(&talk.take(), TimestampPrecision::Nanos, ByteOrder::Little),
        )
        .expect("written");
        let stop = StopSignal::default();
        let first = |begun: Duration| {
            std::thread::sleep(begun);
            let mut source = LoopedReplay::new(&path, Duration::from_millis(300), &stop).in_step();
            let mut block = PacketBlock::default();
            while block.is_empty() {
                assert!(source.next_block(&mut block));
            }
            let number =
                |bytes: &[u8]| u32::from_be_bytes(bytes[38..42].try_into().expect("four bytes"));
            let packet = block.packets().next().expect("a packet");
            (
                block.records()[0].ts.0,
                number(packet.bytes),
                source.step_ns.expect("in step"),
            )
        };
        let others = [Duration::ZERO, Duration::from_millis(110)].map(first);
        for (ts, number, step) in others {
            let (ts_before, number_before, _) = others[0];
            assert_eq!(ts % step, 0, "a round begins at a multiple of its length");
            let on = ((ts - ts_before) / step) as u32;
            assert_eq!(
                number,
                number_before.wrapping_add(on.wrapping_mul(SEQ_STEP))
            );
        }
    }

    #[test]
    fn unreadable_files_end_the_replay() {
        let mut source = LoopedReplay::new(
            Path::new("/nowhere/in.pcap"),
            Duration::ZERO,
            &StopSignal::default(),
        );
        assert!(!source.next_block(&mut PacketBlock::default()));
        assert_eq!(source.errors().len(), 1);
    }
}
