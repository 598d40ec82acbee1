//! Storage of flows: parallel arrays by place, grown in chunks, so that nothing is moved or copied. Memory follows
//! the places in use: a chunk is reserved as a whole but touched only as it fills. Independent of the meaning of
//! records.

use wire::FlowKey;

use crate::duplicates::LatestPacket;
use crate::flow::{Flow, FlowCore};
use crate::flow_layout::{ColdRecord, HotRecord, flag};
use crate::flow_mut::FlowMut;

/// A growing array that does not move its items.
#[derive(Debug)]
pub(crate) struct ChunkedArray<T> {
    chunks: Vec<Vec<T>>,
}

/// Items per chunk: 2 MiB of hot records.
const CHUNK_SHIFT: u32 = 15;
const CHUNK: usize = 1 << CHUNK_SHIFT;

impl<T> Default for ChunkedArray<T> {
    fn default() -> ChunkedArray<T> {
        ChunkedArray { chunks: Vec::new() }
    }
}

impl<T> ChunkedArray<T> {
    pub fn len(&self) -> usize {
        self.chunks
            .last()
            .map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub fn push(&mut self, item: T) {
        match self.chunks.last_mut().filter(|last| last.len() < CHUNK) {
            Some(last) => last.push(item),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(item);
                self.chunks.push(chunk);
            }
        }
    }

    #[inline(always)]
    pub fn get(&self, place: u32) -> Option<&T> {
        let place = place as usize;
        self.chunks
            .get(place >> CHUNK_SHIFT)?
            .get(place & (CHUNK - 1))
    }

    #[inline(always)]
    pub fn at(&self, place: u32) -> &T {
        let place = place as usize;
        &self.chunks[place >> CHUNK_SHIFT][place & (CHUNK - 1)]
    }

    #[inline(always)]
    pub fn at_mut(&mut self, place: u32) -> &mut T {
        let place = place as usize;
        &mut self.chunks[place >> CHUNK_SHIFT][place & (CHUNK - 1)]
    }

    /// Stores an item at a used place, or appends it at the first unused one.
    pub fn put(&mut self, place: u32, item: T) {
        if place as usize == self.len() {
            self.push(item)
        } else {
            *self.at_mut(place) = item
        }
    }
}

/// Keys that do not fit the hot record, by place; chunks are allocated on demand.
#[derive(Debug, Default)]
struct WideKeys {
    chunks: Vec<Option<Box<[FlowKey]>>>,
}

const WIDE_SHIFT: u32 = 12;
const WIDE_CHUNK: usize = 1 << WIDE_SHIFT;

impl WideKeys {
    fn get(&self, place: u32) -> Option<&FlowKey> {
        let place = place as usize;
        self.chunks
            .get(place >> WIDE_SHIFT)?
            .as_ref()?
            .get(place & (WIDE_CHUNK - 1))
    }

    fn put(&mut self, place: u32, key: FlowKey) {
        let chunk = place as usize >> WIDE_SHIFT;
        let at = place as usize & (WIDE_CHUNK - 1);
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, || None);
        }
        let keys =
            self.chunks[chunk].get_or_insert_with(|| vec![FlowKey::default(); WIDE_CHUNK].into());
        keys[at] = key;
    }
}

/// All records of the flows.
#[derive(Debug, Default)]
pub(crate) struct FlowStore {
    hot: ChunkedArray<HotRecord>,
    cold: ChunkedArray<ColdRecord>,
    /// Empty unless requested.
    latest: ChunkedArray<[LatestPacket; 2]>,
    /// Bytes of flows beyond their records.
    extra: ChunkedArray<u32>,
    wide: WideKeys,
    keeps_latest: bool,
}

impl FlowStore {
    pub fn new(keeps_latest: bool) -> FlowStore {
        FlowStore {
            keeps_latest,
            ..FlowStore::default()
        }
    }

    /// Number of places that are or were used.
    pub fn len(&self) -> usize {
        self.hot.len()
    }

    #[inline(always)]
    pub fn hot(&self, place: u32) -> &HotRecord {
        self.hot.at(place)
    }

    #[inline(always)]
    pub fn hot_mut(&mut self, place: u32) -> &mut HotRecord {
        self.hot.at_mut(place)
    }

    #[inline(always)]
    pub fn cold(&self, place: u32) -> &ColdRecord {
        self.cold.at(place)
    }

    #[inline(always)]
    pub fn cold_mut(&mut self, place: u32) -> &mut ColdRecord {
        self.cold.at_mut(place)
    }

    /// Bytes of a flow beyond its record that have been counted.
    #[cfg(test)]
    pub fn extra(&self, place: u32) -> u32 {
        *self.extra.at(place)
    }

    pub fn extra_mut(&mut self, place: u32) -> &mut u32 {
        self.extra.at_mut(place)
    }

    #[inline]
    pub fn latest_mut(&mut self, place: u32) -> Option<&mut [LatestPacket; 2]> {
        if self.keeps_latest {
            Some(self.latest.at_mut(place))
        } else {
            None
        }
    }

    /// Whether the flow has this wide key.
    pub fn has_wide(&self, place: u32, key: &FlowKey) -> bool {
        self.wide.get(place) == Some(key)
    }

    #[inline(always)]
    pub fn core(&self, place: u32) -> FlowCore<'_> {
        FlowCore {
            hot: self.hot.at(place),
            cold: self.cold.at(place),
        }
    }

    #[inline]
    pub fn flow(&self, place: u32) -> Flow<'_> {
        let core = self.core(place);
        let wide = if core.hot.has(flag::WIDE) {
            self.wide.get(place)
        } else {
            None
        };
        Flow { core, wide }
    }

    #[inline(always)]
    pub fn flow_mut(&mut self, place: u32) -> FlowMut<'_> {
        let latest = if self.keeps_latest {
            Some(self.latest.at_mut(place))
        } else {
            None
        };
        FlowMut {
            hot: self.hot.at_mut(place),
            cold: self.cold.at_mut(place),
            latest,
        }
    }

    /// Stores a new flow at a free place, or at the first unused one.
    pub fn put(&mut self, place: u32, (hot, cold): (HotRecord, ColdRecord), wide: Option<FlowKey>) {
        self.hot.put(place, hot);
        self.cold.put(place, cold);
        self.extra.put(place, 0);
        if self.keeps_latest {
            self.latest.put(place, Default::default());
        }
        if let Some(key) = wide {
            self.wide.put(place, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_one_array() {
        let mut chunks = ChunkedArray::default();
        let n = 2 * CHUNK as u32 + 7;
        for i in 0..n {
            chunks.put(i, i);
        }
        assert_eq!(chunks.len(), n as usize);
        assert!((0..n).all(|i| *chunks.at(i) == i && chunks.get(i) == Some(&i)));
        assert_eq!(chunks.get(n), None);
        chunks.put(CHUNK as u32, 5);
        assert_eq!((*chunks.at(CHUNK as u32), chunks.len()), (5, n as usize));
    }
}
