//! The fast path of pcapng files: consecutive enhanced packet blocks, which are most of a file. All other and unusual
//! blocks are handled by [`PcapNg::read_block`], which alone defines their meaning; both give the same result
//! otherwise.

use wire::Timestamp;

use super::{ENHANCED_PACKET, PcapNg, PcapngInterface, TimestampResolution};
use crate::records::{PacketLengths, RECORD_MAX, RecordSink};
use crate::sys;

impl PcapNg {
    /// Reads enhanced packet blocks at the front of `window`, the part of the whole window from `start` on; returns
    /// the length of the blocks.
    pub(super) fn read_fast(
        &mut self,
        window: &[u8],
        start: usize,
        records: &mut RecordSink<'_>,
    ) -> usize {
        if self.big_endian {
            self.read_fast_with(u32::from_be_bytes, window, start, records)
        } else {
            self.read_fast_with(u32::from_le_bytes, window, start, records)
        }
    }

    #[inline(always)]
    fn read_fast_with(
        &mut self,
        word: fn([u8; 4]) -> u32,
        window: &[u8],
        start: usize,
        records: &mut RecordSink<'_>,
    ) -> usize {
        let (origin, places) = records.places();
        let mut at = 0;
        let mut n = 0;
        for place in places {
            let rest = &window[at..];
            let Some(packet) = EnhancedPacket::at_front(word, rest) else {
                break;
            };
            let Some(of) = self.interfaces.get(packet.interface as usize) else {
                break;
            };
            let Some(ts) = of.ts_of_multiple(packet.units) else {
                break;
            };
            *place = origin.record(
                ts,
                of.link_type,
                packet.lengths,
                start + at + EnhancedPacket::HEAD,
            );
            n += 1;
            self.last_ts = ts;
            sys::prefetch_ahead(rest, packet.block_len);
            at += packet.block_len;
        }
        records.filled(n);
        at
    }
}

impl PcapngInterface {
    /// The time, if its unit is a multiple of a nanosecond and it is in range.
    #[inline(always)]
    fn ts_of_multiple(&self, units: u64) -> Option<Timestamp> {
        let TimestampResolution::Multiply(by) = self.resolution else {
            return None;
        };
        let nanos = i64::try_from(units.checked_mul(by)?).ok()?;
        Some(Timestamp(nanos.checked_add(self.offset_nanos)?))
    }
}

/// An enhanced packet block with consistent lengths.
struct EnhancedPacket {
    block_len: usize,
    interface: u32,
    units: u64,
    lengths: PacketLengths,
}

impl EnhancedPacket {
    /// Offset of the packet's bytes in the block.
    const HEAD: usize = 28;
    const TRAILER: usize = 4;

    #[inline(always)]
    fn at_front(word: fn([u8; 4]) -> u32, rest: &[u8]) -> Option<EnhancedPacket> {
        let head = rest.first_chunk::<{ Self::HEAD }>()?;
        let field = |i: usize| {
            word(
                head[4 * i..][..4]
                    .try_into()
                    .expect("28 bytes are seven words"),
            )
        };
        let block_len = field(1) as usize;
        let len = field(5);
        if (field(0) != ENHANCED_PACKET) | !block_len.is_multiple_of(4) | (block_len > RECORD_MAX) {
            return None;
        }
        let data_len = block_len.checked_sub(Self::HEAD + Self::TRAILER)?;
        let trailer = rest
            .get(block_len - Self::TRAILER..block_len)?
            .first_chunk()?;
        if (word(*trailer) as usize != block_len) | (len as usize > data_len) {
            return None;
        }
        let interface = field(2);
        let units = u64::from(field(3)) << 32 | u64::from(field(4));
        Some(EnhancedPacket {
            block_len,
            interface,
            units,
            lengths: PacketLengths {
                original_len: field(6),
                len,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::samples::PcapngBlockWriter;
    use super::super::{RecordStop, SIMPLE_PACKET};
    use super::*;
    use crate::block::{PacketBlock, PacketRecord};

    /// All packets of a file, how far it was read, and the reason for the stop; with or without the fast path.
    fn read(file: &[u8], is_fast: bool) -> (Vec<PacketRecord>, usize, RecordStop, Timestamp) {
        let mut pcapng =
            PcapNg::of_header(file.first_chunk().expect("a header")).expect("a section");
        let mut found = Vec::new();
        let mut at = 0;
        loop {
            let mut block = PacketBlock::default();
            let buffer = block.add_buffer(Arc::new(Vec::new()));
            let mut records = RecordSink::new(&mut block, buffer, at);
            let (len, stop) = if is_fast {
                pcapng.read(&file[at..], &mut records)
            } else {
                match pcapng.read_block(&file[at..], 0, &mut records) {
                    Ok(len) => (len, RecordStop::Full),
                    Err(stop) => (0, stop),
                }
            };
            found.extend_from_slice(block.records());
            at += len;
            if stop != RecordStop::Full {
                return (found, at, stop, pcapng.last_ts);
            }
        }
    }

    #[derive(Clone, Debug)]
    enum FastPathPiece {
        Packets(u32, u64, usize, u8),
        Simple(usize),
        Other,
        Section(bool),
    }

    fn pieces() -> impl Strategy<Value = Vec<FastPathPiece>> {
        let units = prop_oneof![0u64..1 << 50, any::<u64>()];
        let piece = prop_oneof![
            8 => (0u32..4, units, 0usize..70, any::<u8>()).prop_map(|(i, u, n, times)| FastPathPiece::Packets(i, u, n, times)),
            1 => (0usize..30).prop_map(FastPathPiece::Simple),
            1 => Just(FastPathPiece::Other),
            1 => any::<bool>().prop_map(FastPathPiece::Section),
        ];
        proptest::collection::vec(piece, 1..12)
    }

    /// Four interfaces: microseconds, nanoseconds with an offset, picoseconds, and 2^-20 seconds.
    fn interfaces(blocks: PcapngBlockWriter) -> PcapngBlockWriter {
        let offset = blocks.option(14, &blocks.long(3));
        let [nanos, picos, binary] =
            [9, 12, 0x80 | 20].map(|resolution| blocks.option(9, &[resolution]));
        let blocks = blocks
            .interface(1, 0, &[])
            .interface(1, 0, &[nanos, offset].concat());
        blocks.interface(101, 64, &picos).interface(1, 0, &binary)
    }

    fn file(pieces: &[FastPathPiece]) -> Vec<u8> {
        let blocks = pieces.iter().fold(
            interfaces(PcapngBlockWriter::new(false)),
            |blocks, piece| match *piece {
                FastPathPiece::Packets(interface, units, len, times) => {
                    (0..times).fold(blocks, |blocks, i| {
                        blocks.enhanced(
                            interface,
                            units.wrapping_add(u64::from(i)),
                            60,
                            &[7; 70][..len],
                        )
                    })
                }
                FastPathPiece::Simple(len) => {
                    let original_len = blocks.word(20);
                    blocks.block(SIMPLE_PACKET, &[&original_len, &[1; 30][..len]])
                }
                FastPathPiece::Other => blocks.block(0xbad, &[&[1; 9]]),
                FastPathPiece::Section(big_endian) => interfaces(blocks.section(big_endian)),
            },
        );
        blocks.bytes
    }

    #[test]
    fn common_blocks_take_the_fast_path() {
        for big_endian in [false, true] {
            let head = interfaces(PcapngBlockWriter::new(big_endian)).bytes.len();
            let blocks = interfaces(PcapngBlockWriter::new(big_endian))
                .enhanced(0, 5, 60, &[7; 9])
                .enhanced(1, 6, 60, &[]);
            let mut pcapng = PcapNg::of_header(blocks.bytes.first_chunk().expect("a header"))
                .expect("a section");
            let mut block = PacketBlock::default();
            pcapng.read(
                &blocks.bytes[..head],
                &mut RecordSink::new(&mut block, 0, 0),
            );
            let len = pcapng.read_fast(
                &blocks.bytes[head..],
                head,
                &mut RecordSink::new(&mut block, 0, 0),
            );
            assert_eq!((len, block.len()), (blocks.bytes.len() - head, 2));
            let ends: Vec<_> = block
                .records()
                .iter()
                .map(|r| (r.ts.0, r.start as usize, r.len))
                .collect();
            assert_eq!(
                ends,
                [(5_000, head + 28, 9), (3_000_000_006, head + 44 + 28, 0)]
            );
        }
    }

    proptest! {
        #[test]
        fn fast_path_equals_single_blocks(
            pieces in pieces(),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut file = file(&pieces);
            let len = file.len();
            changes.iter().for_each(|(at, value)| file[12 + at.index(len - 12)] = *value);
            prop_assert_eq!(read(&file, true), read(&file, false));
            let file = &file[..12 + cut.index(len - 12)];
            prop_assert_eq!(read(file, true), read(file, false));
        }
    }
}
