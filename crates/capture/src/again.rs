//! A capture played again and again, in real time, as if it were live: what a demonstration captures from. Its packets come when
//! they are due and bear the time of now; between two rounds there is a pause of a second.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wire::Timestamp;

use crate::block::{Block, Record};
use crate::live::Stop;
use crate::open::open;
use crate::source::{Counters, Source, SourceError};

/// Between two rounds.
const PAUSE_NS: i64 = 1_000_000_000;
/// Nobody waits longer without saying how late it is.
const PATIENCE: Duration = Duration::from_millis(100);
/// Packets that are due within this time come together.
const TOGETHER_NS: i64 = 5_000_000;

/// See the module's text.
pub struct Again {
    path: PathBuf,
    stop: Stop,
    round: Option<Round>,
    /// What was read and is not due yet.
    read: Block,
    next: usize,
    counters: Counters,
    errors: Vec<SourceError>,
    /// The system's clock when this began, and how long ago that is.
    began: (i64, Instant),
    /// When the next round begins.
    begins_ns: i64,
    rounds: u64,
}

struct Round {
    source: Box<dyn Source>,
    /// What is added to the times of its packets.
    shift_ns: Option<i64>,
}

impl Again {
    /// Plays the capture at `path` until `stop` is asked for.
    #[must_use]
    pub fn new(path: &Path, stop: &Stop) -> Again {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        Again {
            path: path.to_owned(),
            stop: stop.clone(),
            round: None,
            read: Block::default(),
            next: 0,
            counters: Counters::default(),
            errors: Vec::new(),
            began: (wall, Instant::now()),
            begins_ns: wall,
            rounds: 0,
        }
    }

    fn now_ns(&self) -> i64 {
        self.began.0.saturating_add(i64::try_from(self.began.1.elapsed().as_nanos()).unwrap_or(i64::MAX))
    }

    /// Has packets in `read`, of this round or the next; false: there are none, in no round.
    fn read_on(&mut self) -> bool {
        for _ in 0..2 {
            let round = self.round.get_or_insert_with(|| Round {
                source: open(std::slice::from_ref(&self.path)),
                shift_ns: None,
            });
            self.next = 0;
            if round.source.next_block(&mut self.read) && !self.read.is_empty() {
                let first = self.read.records()[0].ts.0;
                round.shift_ns.get_or_insert(self.begins_ns.saturating_sub(first));
                return true;
            }
            if self.rounds == 0 {
                self.errors.extend_from_slice(round.source.errors());
            }
            self.rounds += 1;
            self.round = None;
            self.begins_ns = self.now_ns().saturating_add(PAUSE_NS);
        }
        false
    }

    /// The next packet, at the time at which it is due.
    fn due(&mut self) -> Option<Record> {
        if self.next >= self.read.len() && !self.read_on() {
            return None;
        }
        let shift_ns = self.round.as_ref().and_then(|round| round.shift_ns).unwrap_or(0);
        let record = self.read.records()[self.next];
        Some(Record { ts: Timestamp(record.ts.0.saturating_add(shift_ns)), ..record })
    }
}

impl Source for Again {
    fn next_block(&mut self, block: &mut Block) -> bool {
        block.clear();
        if self.stop.is_asked() {
            return false;
        }
        let Some(first) = self.due() else { return false };
        let wait = Duration::from_nanos(first.ts.0.saturating_sub(self.now_ns()).max(0).unsigned_abs());
        std::thread::sleep(wait.min(PATIENCE));
        let now_ns = self.now_ns();
        block.set_clock(Timestamp(now_ns));
        if first.ts.0 > now_ns {
            return !self.stop.is_asked();
        }
        // Blocks of a file may lie in several buffers; what is handed on lies in as many.
        let mut buffers: Vec<(u32, u32)> = Vec::new();
        while !block.is_full() && self.next < self.read.len() {
            let Some(record) = self.due().filter(|record| record.ts.0 <= now_ns.saturating_add(TOGETHER_NS))
            else {
                break;
            };
            let known = buffers.iter().find(|(theirs, _)| *theirs == record.buffer).map(|(_, ours)| *ours);
            let buffer = known.unwrap_or_else(|| {
                let ours = block.add_buffer(self.read.buffer(record.buffer));
                buffers.push((record.buffer, ours));
                ours
            });
            block.push(Record { buffer, ..record });
            self.next += 1;
        }
        let last = block.records().last().map_or(now_ns, |record| record.ts.0);
        block.set_clock(Timestamp(now_ns.max(last)));
        self.counters.count(block);
        true
    }

    fn errors(&self) -> &[SourceError] {
        &self.errors
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn names(&self) -> &[(IpAddr, String)] {
        self.round.as_ref().map_or(&[], |round| round.source.names())
    }
}

#[cfg(test)]
mod tests {
    use testkit::pcap::{ByteOrder, Precision, pcap_bytes};

    use super::*;

    #[test]
    fn a_capture_comes_again_at_the_time_of_now() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("in.pcap");
        let mut talk = testkit::Dialogue::new("10.0.0.1:40000", "10.0.0.2:53");
        talk.handshake();
        let mut packets = talk.take();
        for (packet, ns) in packets.iter_mut().zip([0, 20_000_000, 60_000_000]) {
            packet.ts = Timestamp(1_000_000_000 + ns);
        }
        std::fs::write(&path, pcap_bytes(&packets, Precision::Nanos, ByteOrder::Little)).expect("written");
        let stop = Stop::default();
        let mut source = Again::new(&path, &stop);
        let began = source.began.0;
        let (mut block, mut times) = (Block::default(), Vec::new());
        while times.len() < 5 {
            assert!(source.next_block(&mut block));
            let clock = block.clock().expect("it keeps the time").0;
            assert!(
                block.records().iter().all(|record| record.ts.0 <= clock),
                "nothing comes before its time"
            );
            times.extend(block.records().iter().map(|record| record.ts.0 - began));
        }
        assert_eq!(times[..3], [0, 20_000_000, 60_000_000]);
        assert_eq!(times[4] - times[3], 20_000_000);
        assert!(times[3] >= 1_060_000_000, "after a pause: {times:?}");
        stop.stop();
        assert!(!source.next_block(&mut block));
        assert_eq!(source.counters().packets, times.len() as u64);
    }

    #[test]
    fn what_cannot_be_read_ends() {
        let mut source = Again::new(Path::new("/nowhere/in.pcap"), &Stop::default());
        assert!(!source.next_block(&mut Block::default()));
        assert_eq!(source.errors().len(), 1);
    }
}
