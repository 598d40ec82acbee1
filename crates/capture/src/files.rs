//! Several inputs as one source, merged by timestamp. At equal timestamps the earlier input's packet goes first, and
//! the order within an input is kept, even if its clock went back. A single input is passed through unchanged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::net::IpAddr;

use wire::Timestamp;

use crate::block::{PacketBlock, PacketRecord};
use crate::input::CaptureInput;
use crate::source::{PacketSource, SourceCounters, SourceError};

/// A merge of inputs.
pub(crate) struct MergedFiles {
    inputs: Vec<CaptureInput>,
    /// Packets read but not delivered, per input; unused with a single input.
    ahead: Vec<PendingBlock>,
    /// Time of each input's next packet, the earliest first.
    heads: BinaryHeap<Reverse<(Timestamp, usize)>>,
    started: bool,
    errors: Vec<SourceError>,
    counters: SourceCounters,
    names: Vec<(IpAddr, String)>,
}

/// Packets of one input that wait for those of the others.
#[derive(Default)]
struct PendingBlock {
    block: PacketBlock,
    /// Number of packets of the block already delivered.
    taken: usize,
    /// Index of its buffer in the block being filled, once added.
    buffer: Option<u32>,
}

impl MergedFiles {
    /// Merges `inputs`; `errors` are those of files that could not be opened.
    pub fn new(inputs: Vec<CaptureInput>, errors: Vec<SourceError>) -> MergedFiles {
        let ahead = inputs.iter().map(|_| PendingBlock::default()).collect();
        let heads = BinaryHeap::new();
        let names = Vec::new();
        MergedFiles {
            inputs,
            ahead,
            heads,
            started: false,
            errors,
            counters: SourceCounters::default(),
            names,
        }
    }

    fn read_on(&mut self, i: usize, block: &mut PacketBlock) -> bool {
        let more = self.inputs[i].fill(block, &mut self.errors);
        self.names.append(&mut self.inputs[i].format().take_names());
        more
    }

    /// Updates the inputs' counters of losses and clocks.
    fn note_accounts(&mut self) {
        let lost = self.inputs.iter().filter_map(CaptureInput::lost_before_us);
        self.counters.lost_before_us = lost.reduce(u64::saturating_add);
        self.counters.nanosecond_fractions = self
            .inputs
            .iter()
            .map(CaptureInput::nanosecond_fractions)
            .sum();
    }

    /// Reads more of an input whose packets have all been delivered.
    fn refill(&mut self, i: usize) {
        let mut ahead = std::mem::take(&mut self.ahead[i]);
        ahead.block.clear();
        ahead.taken = 0;
        ahead.buffer = None;
        if self.read_on(i, &mut ahead.block) {
            self.heads.push(Reverse((ahead.block.records()[0].ts, i)));
        }
        self.ahead[i] = ahead;
    }

    fn merge(&mut self, block: &mut PacketBlock) {
        if !std::mem::replace(&mut self.started, true) {
            (0..self.inputs.len()).for_each(|i| self.refill(i));
        }
        self.ahead.iter_mut().for_each(|ahead| ahead.buffer = None);
        while !block.is_full() {
            let second = self.second();
            let Some(mut head) = self.heads.peek_mut() else {
                return;
            };
            let Reverse((_, i)) = *head;
            let is_first = |ts| second.is_none_or(|second| (ts, i) < second);
            if let Some(next) = self.ahead[i].deliver(block, is_first) {
                *head = Reverse((next, i));
            } else {
                PeekMut::pop(head);
                self.refill(i);
            }
        }
    }

    /// The second-earliest head: in a heap one of the two below the top.
    fn second(&self) -> Option<(Timestamp, usize)> {
        self.heads
            .as_slice()
            .iter()
            .take(3)
            .skip(1)
            .map(|Reverse(head)| *head)
            .min()
    }
}

impl PendingBlock {
    /// Delivers the next packet, and those after it while their time satisfies `is_first`; returns the time of the
    /// next one.
    fn deliver(
        &mut self,
        block: &mut PacketBlock,
        is_first: impl Fn(Timestamp) -> bool,
    ) -> Option<Timestamp> {
        let of = self.block.records()[self.taken].buffer;
        let buffer = *self
            .buffer
            .get_or_insert_with(|| block.add_buffer(self.block.buffer(of)));
        let waiting = &self.block.records()[self.taken..];
        let mut n = 0;
        let room = block.room();
        for (record, place) in waiting.iter().zip(room) {
            if n > 0 && !is_first(record.ts) {
                break;
            }
            *place = PacketRecord { buffer, ..*record };
            n += 1;
        }
        let next = waiting.get(n).map(|record| record.ts);
        block.filled(n);
        self.taken += n;
        next
    }
}

impl PacketSource for MergedFiles {
    fn next_block(&mut self, block: &mut PacketBlock) -> bool {
        block.clear();
        match self.inputs.len() {
            1 => {
                self.read_on(0, block);
                self.note_accounts();
            }
            _ => {
                // Counters exclude packets read ahead for the next block.
                self.note_accounts();
                self.merge(block);
            }
        }
        self.counters.count(block);
        !block.is_empty()
    }

    fn errors(&self) -> &[SourceError] {
        &self.errors
    }

    fn counters(&self) -> SourceCounters {
        self.counters
    }

    fn names(&self) -> &[(IpAddr, String)] {
        &self.names
    }

    fn progress(&self) -> (u64, Option<u64>) {
        let each = self.inputs.iter().map(CaptureInput::progress);
        each.fold((0, Some(0)), |(done, all), (more, len)| {
            (done + more, all.zip(len).map(|(a, b)| a + b))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pcap_file::samples::pcap;
    use crate::pcapng::samples::PcapngBlockWriter;
    use crate::window::InputWindow;
    use crate::window::samples::{mapped, streamed};

    /// Time in microseconds and bytes of each packet, and the final errors.
    fn read(windows: Vec<InputWindow>) -> (Vec<(i64, Vec<u8>)>, Vec<SourceError>) {
        let input = |(i, window)| CaptureInput::new(format!("{i}").as_ref(), window);
        let mut files = MergedFiles::new(
            windows.into_iter().enumerate().map(input).collect(),
            Vec::new(),
        );
        let mut packets = Vec::new();
        // Blocks are kept, as by other threads: their contents must not change.
        let mut blocks = Vec::new();
        let mut block = PacketBlock::default();
        while files.next_block(&mut block) {
            assert!(!block.is_empty());
            blocks.push(std::mem::take(&mut block));
        }
        assert!(!files.next_block(&mut block), "the end is the end");
        for block in blocks {
            packets.extend(block.packets().map(|p| (p.ts.0 / 1000, p.bytes.to_vec())));
        }
        assert_eq!(files.counters().packets, packets.len() as u64);
        (packets, files.errors)
    }

    fn pcapng(packets: &[(u32, &[u8])]) -> Vec<u8> {
        let start = PcapngBlockWriter::new(true).interface(1, 0, &[]);
        packets
            .iter()
            .fold(start, |blocks, (ts, bytes)| {
                blocks.enhanced(0, u64::from(*ts), 9, bytes)
            })
            .bytes
    }

    /// A file cut at any byte delivers its complete packets, mapped and streamed, and reports the cut.
    #[test]
    fn cut_at_every_byte() {
        let packets: [(u32, &[u8]); 3] = [(5, &[1, 2, 3, 4]), (6, &[]), (7, &[5; 16])];
        for whole in [pcap, pcapng] {
            let lengths: Vec<_> = (0..=3).map(|n| whole(&packets[..n]).len()).collect();
            let file = whole(&packets);
            for len in 0..=file.len() {
                let complete = lengths
                    .iter()
                    .filter(|&&l| l <= len)
                    .count()
                    .saturating_sub(1);
                let between =
                    lengths.contains(&len) || (whole(&[])[..] == pcapng(&[]) && len == 28);
                let mut windows = vec![streamed(&file[..len], vec![7])];
                // An empty file cannot be mapped, and never is.
                windows.extend((len > 0).then(|| mapped(&file[..len], 10)));
                for window in windows {
                    let (read, errors) = self::read(vec![window]);
                    assert_eq!(read.len(), complete, "{len} bytes: {errors:?}");
                    assert_eq!(
                        errors.len(),
                        usize::from(!between),
                        "{len} bytes: {errors:?}"
                    );
                    for e in errors {
                        assert_eq!(e.after_packets, complete as u64);
                        assert!(
                            e.message.contains("the file ends inside") || len == 0,
                            "{len} bytes: {e}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn truncation_is_reported_with_its_position() {
        let file = pcap(&[(5, &[1; 10]), (6, &[2; 20])]);
        let check = |len: usize, expected: &str| {
            let (_, errors) = read(vec![mapped(&file[..len], 100)]);
            assert_eq!(errors[0].to_string(), expected);
        };
        let reason = "it was probably cut while being written";
        check(
            60 + 12,
            &format!("0: byte 50: the file ends inside packet 2: 6 of 20 bytes; {reason}"),
        );
        check(
            52,
            &format!(
                "0: byte 50: the file ends inside the header of packet 2: 2 of 16 bytes; {reason}"
            ),
        );
        check(
            20,
            &format!("0: the file ends inside its header: 20 bytes; {reason}"),
        );
    }

    #[test]
    fn a_bad_file_does_not_stop_the_others() {
        let packets: Vec<(u32, &[u8])> = (0..200).map(|i| (2 * i, &[1][..])).collect();
        let good = pcap(&packets);
        let mut bad = good.clone();
        bad[24 + 17 * 100 + 8..][..4].copy_from_slice(&[0xff; 4]);
        let windows = vec![
            mapped(&bad, 100),
            streamed(b"<html><body>not found</body>", vec![3]),
            mapped(&good, 100),
        ];
        let (read, errors) = read(windows);
        assert_eq!(read.len(), 300);
        let errors: Vec<_> = errors
            .iter()
            .map(|e| (e.path.to_string_lossy(), e.offset, e.after_packets))
            .collect();
        assert_eq!(
            errors,
            [
                ("1".into(), None, 0),
                ("0".into(), Some(24 + 17 * 100), 100)
            ]
        );
    }

    #[test]
    fn records_longer_than_buffer_and_window() {
        let long = vec![7; 300_000];
        let file = pcap(&[(1, &[1]), (2, &long), (3, &[3])]);
        for window in [streamed(&file, vec![1000, 65_536]), mapped(&file, 4096)] {
            let (read, errors) = read(vec![window]);
            assert!(errors.is_empty(), "{errors:?}");
            assert_eq!(
                read.iter().map(|p| p.1.len()).collect::<Vec<_>>(),
                [1, 300_000, 1]
            );
        }
    }

    fn any_packets() -> impl Strategy<Value = Vec<(u32, Vec<u8>)>> {
        let bytes = (any::<u8>(), 0usize..300).prop_map(|(b, n)| vec![b; n]);
        proptest::collection::vec((0u32..50, bytes), 0..150)
    }

    fn borrowed(packets: &[(u32, Vec<u8>)]) -> Vec<(u32, &[u8])> {
        packets
            .iter()
            .map(|(ts, bytes)| (*ts, &bytes[..]))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn streams_and_mapped_files_have_the_same_packets(
            packets in any_packets(),
            chunks in proptest::collection::vec(1usize..500, 1..5),
            wanted in 1usize..2000,
        ) {
            for file in [pcap(&borrowed(&packets)), pcapng(&borrowed(&packets))] {
                let (from_file, errors) = read(vec![mapped(&file, wanted)]);
                prop_assert!(errors.is_empty());
                let (from_stream, errors) = read(vec![streamed(&file, chunks.clone())]);
                prop_assert!(errors.is_empty());
                prop_assert_eq!(&from_file, &from_stream);
                let expected: Vec<_> = packets.iter().map(|(ts, b)| (i64::from(*ts), b.clone())).collect();
                prop_assert_eq!(from_file, expected);
            }
        }

        /// Merging sorted files equals a stable sort of their concatenation.
        #[test]
        fn merged_by_time(mut files in proptest::collection::vec(any_packets(), 2..5), chunk in 1usize..500) {
            let mut windows = Vec::new();
            for (i, packets) in files.iter_mut().enumerate() {
                packets.sort_by_key(|p| p.0);
                let file = if i % 2 == 0 { pcap(&borrowed(packets)) } else { pcapng(&borrowed(packets)) };
                windows.push(if i % 3 == 0 { streamed(&file, vec![chunk]) } else { mapped(&file, chunk) });
            }
            let (merged, errors) = read(windows);
            prop_assert!(errors.is_empty());
            let mut expected: Vec<_> = files.concat().into_iter().map(|(ts, b)| (i64::from(ts), b)).collect();
            expected.sort_by_key(|p| p.0);
            prop_assert_eq!(merged, expected);
        }

        /// For any bytes reading ends, with the same result for mapped files and streams.
        #[test]
        fn any_bytes(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
            chunk in 1usize..100,
        ) {
            for mut file in [pcap(&[(1, &[1; 20]), (2, &[2; 30])]), pcapng(&[(1, &[1; 20]), (2, &[2; 30])])] {
                let len = file.len();
                changes.iter().for_each(|(at, value)| file[at.index(len)] = *value);
                let (from_file, file_errors) = read(vec![mapped(&file, 10)]);
                let (from_stream, stream_errors) = read(vec![streamed(&file, vec![chunk])]);
                prop_assert_eq!(from_file, from_stream);
                prop_assert_eq!(format!("{file_errors:?}"), format!("{stream_errors:?}"));
            }
        }
    }
}
