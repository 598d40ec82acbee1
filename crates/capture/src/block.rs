//! A block: packets together with their memory. Self-contained, so that it can be sent to another thread, and
//! reusable. Independent of the source.

use std::ops::Range;
use std::sync::Arc;

use wire::{CapturedPacket, LinkType, Timestamp};

/// Maximum packets per block: amortizes the work per block, while all headers still fit the L1 cache.
pub const BLOCK_PACKETS: usize = 256;

/// Memory of packets. A live source's buffer returns to its ring when the last block releases it.
pub type PacketBuffer = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Packets in order of arrival.
#[derive(Default)]
pub struct PacketBlock {
    buffers: Vec<PacketBuffer>,
    /// Storage of records, of which the first `len` are packets; readers fill it in place.
    room: Vec<PacketRecord>,
    len: usize,
    clock: Option<Timestamp>,
}

/// Position and capture metadata of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord {
    /// Time by the capture's clock.
    pub ts: Timestamp,
    /// Type of the first header.
    pub link_type: LinkType,
    /// Length on the wire.
    pub original_len: u32,
    /// Captured length.
    pub len: u32,
    /// Offset in its buffer.
    pub start: u32,
    /// Index of the buffer in the block.
    pub buffer: u32,
}

impl PacketRecord {
    /// Placeholder for unwritten records.
    const NONE: PacketRecord = PacketRecord {
        ts: Timestamp(0),
        link_type: LinkType::Ethernet,
        original_len: 0,
        len: 0,
        start: 0,
        buffer: 0,
    };
}

impl PacketBlock {
    /// Removes all packets and buffers; keeps the storage of records.
    pub fn clear(&mut self) {
        self.buffers.clear();
        self.len = 0;
        self.clock = None;
    }

    /// Adds a shared buffer; returns its index for records.
    pub fn add_buffer(&mut self, buffer: PacketBuffer) -> u32 {
        self.buffers.push(buffer);
        self.buffers.len() as u32 - 1
    }

    /// Adds a buffer with one packet; returns the packet's record.
    pub fn add_packet(
        &mut self,
        ts: Timestamp,
        link_type: LinkType,
        original_len: u32,
        bytes: PacketBuffer,
    ) -> PacketRecord {
        PacketRecord {
            ts,
            link_type,
            original_len,
            len: (*bytes).as_ref().len() as u32,
            start: 0,
            buffer: self.add_buffer(bytes),
        }
    }

    /// A shared reference to a buffer.
    #[must_use]
    pub fn buffer(&self, buffer: u32) -> PacketBuffer {
        self.buffers[buffer as usize].clone()
    }

    /// Adds a packet; its buffer must have been added.
    #[inline]
    pub fn push(&mut self, record: PacketRecord) {
        match self.room.get_mut(self.len) {
            Some(place) => *place = record,
            None => self.room.push(record),
        }
        self.len += 1;
    }

    /// Free records. The caller writes them from the front, and then calls [`PacketBlock::filled`].
    pub(crate) fn room(&mut self) -> &mut [PacketRecord] {
        if self.room.len() < BLOCK_PACKETS {
            self.room.resize(BLOCK_PACKETS, PacketRecord::NONE);
        }
        &mut self.room[self.len.min(BLOCK_PACKETS)..BLOCK_PACKETS]
    }

    /// Declares the first `n` records of [`PacketBlock::room`] to be packets; their buffers must have been added.
    pub(crate) fn filled(&mut self, n: usize) {
        self.len = (self.len + n).min(self.room.len());
    }

    /// Replaces a packet; its buffer must have been added.
    ///
    /// # Panics
    /// If `place` is out of range.
    pub fn replace(&mut self, place: usize, record: PacketRecord) {
        self.room[..self.len][place] = record;
    }

    /// Sets the current time of a live source, with or without packets.
    pub fn set_clock(&mut self, clock: Timestamp) {
        self.clock = Some(clock);
    }

    /// Current time by the source's own clock, if it has one.
    #[must_use]
    pub fn clock(&self) -> Option<Timestamp> {
        self.clock
    }

    /// Number of packets.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no packets.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the block is full.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len >= BLOCK_PACKETS
    }

    /// Records of the packets.
    #[must_use]
    pub fn records(&self) -> &[PacketRecord] {
        &self.room[..self.len]
    }

    /// Removes the packets that `keep` rejects.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&CapturedPacket<'_>) -> bool) {
        let mut view = BlockView {
            records: &[],
            buffers: &self.buffers,
            buffer: u32::MAX,
            bytes: &[],
        };
        let mut kept = 0;
        for at in 0..self.len {
            let record = self.room[at];
            self.room[kept] = record;
            kept += usize::from(keep(&view.captured(&record)));
        }
        self.len = kept;
    }

    /// All packets.
    ///
    /// # Panics
    /// The iterator panics if a record lies outside its buffer, a bug of the source.
    #[inline]
    pub fn packets(&self) -> impl ExactSizeIterator<Item = CapturedPacket<'_>> {
        self.range(0..self.len)
    }

    /// Packets in a range of positions.
    ///
    /// # Panics
    /// As [`PacketBlock::packets`], and for positions out of range.
    #[inline]
    pub fn range(&self, places: Range<usize>) -> impl ExactSizeIterator<Item = CapturedPacket<'_>> {
        let mut view = self.view();
        self.records()[places]
            .iter()
            .map(move |record| view.captured(record))
    }

    /// Access to packets by position.
    #[inline]
    #[must_use]
    pub fn view(&self) -> BlockView<'_> {
        BlockView {
            records: self.records(),
            buffers: &self.buffers,
            buffer: u32::MAX,
            bytes: &[],
        }
    }
}

/// Access to a block's packets; caches the last buffer, which is usually that of the next packet.
pub struct BlockView<'a> {
    records: &'a [PacketRecord],
    buffers: &'a [PacketBuffer],
    buffer: u32,
    bytes: &'a [u8],
}

impl<'a> BlockView<'a> {
    /// The packet at a position.
    ///
    /// # Panics
    /// As [`PacketBlock::packets`], and for a position out of range.
    #[inline]
    pub fn packet(&mut self, place: usize) -> CapturedPacket<'a> {
        let records = self.records;
        self.captured(&records[place])
    }

    #[inline]
    fn captured(&mut self, record: &PacketRecord) -> CapturedPacket<'a> {
        if record.buffer != self.buffer {
            self.buffer = record.buffer;
            self.bytes = (*self.buffers[record.buffer as usize]).as_ref();
        }
        let &PacketRecord {
            ts,
            link_type,
            original_len,
            len,
            start,
            ..
        } = record;
        let bytes = &self.bytes[start as usize..start as usize + len as usize];
        CapturedPacket {
            ts,
            link_type,
            original_len,
            bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(buffer: u32, start: u32, len: u32) -> PacketRecord {
        let ts = Timestamp(i64::from(start));
        let link_type = LinkType::Ethernet;
        PacketRecord {
            ts,
            link_type,
            original_len: 100,
            len,
            start,
            buffer,
        }
    }

    #[test]
    fn packets_lie_in_their_buffers() {
        let mut block = PacketBlock::default();
        let a = block.add_buffer(Arc::new(vec![1, 2, 3, 4]));
        let b = block.add_buffer(Arc::new(vec![5, 6]));
        for r in [
            record(a, 0, 2),
            record(b, 1, 1),
            record(a, 2, 2),
            record(b, 0, 0),
        ] {
            block.push(r);
        }
        let bytes: Vec<_> = block.packets().map(|p| p.bytes).collect();
        assert_eq!(bytes, [&[1, 2][..], &[6], &[3, 4], &[]]);
        let bytes: Vec<_> = [2, 1].map(|at| block.view().packet(at).bytes).to_vec();
        assert_eq!(bytes, [&[3, 4][..], &[6]]);
        block.clear();
        assert!(block.is_empty() && block.clock().is_none());
    }

    #[test]
    fn buffers_are_released_with_their_last_block() {
        let buffer = Arc::new(vec![0; 8]);
        let mut one = PacketBlock::default();
        let mut other = PacketBlock::default();
        one.add_buffer(buffer.clone());
        other.add_buffer(buffer.clone());
        one.clear();
        assert_eq!(Arc::strong_count(&buffer), 2);
        other.clear();
        assert_eq!(Arc::strong_count(&buffer), 1);
    }
}
