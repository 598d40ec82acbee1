//! Existing segments and their needed records. Tuples and partial results use separate segments, so that a segment is
//! dropped as a whole. Segment numbers wrap: the ledger has the first.

use std::collections::VecDeque;

use super::queue::RecordPlace;
use super::store::{self, SegmentStore, SegmentStoreError, SpoolLedger};
use crate::message::{DataRecord, PayloadFormat};

#[derive(Debug)]
struct SpoolSegment {
    number: u32,
    form: PayloadFormat,
    bytes: u64,
    /// Number of needed records.
    needed: u64,
    state: SegmentState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SegmentState {
    Growing { synced: bool },
    Full,
}

/// Segments in the order of their numbers.
#[derive(Debug)]
pub(super) struct SpoolSegments {
    segments: VecDeque<SpoolSegment>,
    next: u32,
    segment_bytes: u64,
}

impl SpoolSegments {
    /// Reads all records with their places; counts incomplete segments.
    pub(super) fn open(
        store: &mut dyn SegmentStore,
        ledger: &SpoolLedger,
        segment_bytes: u64,
    ) -> (Self, Vec<(DataRecord, RecordPlace)>, u64) {
        let mut numbers = store.list();
        numbers.sort_unstable_by_key(|number| number.wrapping_sub(ledger.oldest));
        let next = numbers
            .last()
            .map_or(ledger.oldest, |last| last.wrapping_add(1));
        let mut found = Self {
            segments: VecDeque::new(),
            next,
            segment_bytes,
        };
        let mut records = Vec::new();
        let mut torn = 0;
        for number in numbers {
            if ledger.dropped.contains(&number) {
                store.remove(number);
                continue;
            }
            let bytes = store.read(number, 0, u64::MAX).unwrap_or_default();
            let (inside, is_torn) = store::scan(&bytes);
            torn += u64::from(is_torn);
            let form = inside
                .first()
                .map_or(PayloadFormat::Tuples, |(data, ..)| data.form());
            let needed = inside.len() as u64;
            found.segments.push_back(SpoolSegment {
                number,
                form,
                bytes: bytes.len() as u64,
                needed,
                state: SegmentState::Full,
            });
            records.extend(inside.into_iter().map(|(data, offset, length)| {
                (
                    data,
                    RecordPlace::Segment {
                        segment: number,
                        offset,
                        length,
                    },
                )
            }));
        }
        (found, records, torn)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// First number.
    pub(super) fn first_number(&self) -> u32 {
        self.segments
            .front()
            .map_or(self.next, |segment| segment.number)
    }

    pub(super) fn append(
        &mut self,
        store: &mut dyn SegmentStore,
        form: PayloadFormat,
        body: &[u8],
    ) -> Result<RecordPlace, SegmentStoreError> {
        let sealed = store::seal(body);
        let segment = self.growing(form);
        if let Err(failed) = store.append(segment.number, &sealed) {
            // The write was incomplete: nothing may follow.
            segment.state = SegmentState::Full;
            return Err(failed);
        }
        let offset = segment.bytes;
        let length = sealed.len() as u64;
        segment.bytes += length;
        segment.needed += 1;
        segment.state = SegmentState::Growing { synced: false };
        Ok(RecordPlace::Segment {
            segment: segment.number,
            offset,
            length,
        })
    }

    fn growing(&mut self, form: PayloadFormat) -> &mut SpoolSegment {
        for segment in &mut self.segments {
            let is_growing = matches!(segment.state, SegmentState::Growing { synced: true });
            if is_growing && segment.bytes >= self.segment_bytes {
                segment.state = SegmentState::Full;
            }
        }
        let room = |s: &SpoolSegment, max| {
            s.form == form && s.state != SegmentState::Full && s.bytes < max
        };
        let at = self
            .segments
            .iter()
            .position(|segment| room(segment, self.segment_bytes));
        let at = at.unwrap_or_else(|| {
            let state = SegmentState::Growing { synced: true };
            self.segments.push_back(SpoolSegment {
                number: self.next,
                form,
                bytes: 0,
                needed: 0,
                state,
            });
            self.next = self.next.wrapping_add(1);
            self.segments.len() - 1
        });
        &mut self.segments[at]
    }

    pub(super) fn sync(&mut self, store: &mut dyn SegmentStore) {
        for segment in &mut self.segments {
            if segment.state == (SegmentState::Growing { synced: false }) {
                let synced = store.sync(segment.number).is_ok();
                segment.state = if synced {
                    SegmentState::Growing { synced }
                } else {
                    SegmentState::Full
                };
            }
        }
    }

    /// Decrements the number of needed records.
    pub(super) fn forget(&mut self, number: u32) {
        if let Some(segment) = self
            .segments
            .iter_mut()
            .find(|segment| segment.number == number)
        {
            segment.needed = segment.needed.saturating_sub(1);
        }
    }

    /// Marks all records as not needed.
    pub(super) fn forget_all(&mut self) {
        self.segments
            .iter_mut()
            .for_each(|segment| segment.needed = 0);
    }

    /// The oldest segment of a form without records of `sent`.
    pub(super) fn oldest(&self, form: PayloadFormat, sent: &[u32]) -> Option<u32> {
        let may_go =
            |s: &&SpoolSegment| s.form == form && s.needed > 0 && !sent.contains(&s.number);
        self.segments
            .iter()
            .find(may_go)
            .map(|segment| segment.number)
    }

    pub(super) fn unneeded(&self) -> Vec<u32> {
        self.segments
            .iter()
            .filter(|segment| segment.needed == 0)
            .map(|segment| segment.number)
            .collect()
    }

    pub(super) fn drop(&mut self, number: u32) {
        self.segments.retain(|segment| segment.number != number);
    }
}
