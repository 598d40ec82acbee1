//! An agent's disk: a crash loses unsynced data, completely or from any byte on; and it can be full.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use control::StartNote;
use link::{SegmentStore, SegmentStoreError};

use crate::random::Random;

#[derive(Default)]
struct Content {
    segments: BTreeMap<u32, (Vec<u8>, usize)>,
    ledger: Vec<u8>,
    notes: BTreeMap<u64, u32>,
    is_full: bool,
}

/// Shared with the spool.
#[derive(Clone, Default)]
pub struct AgentDisk(Rc<RefCell<Content>>);

impl AgentDisk {
    pub fn crash(&self, random: &mut Random) {
        for (bytes, synced) in self.0.borrow_mut().segments.values_mut() {
            let kept = random.between(*synced as u64, bytes.len() as u64 + 1) as usize;
            bytes.truncate(kept);
            *synced = kept;
        }
    }

    pub fn set_full(&self, is_full: bool) {
        self.0.borrow_mut().is_full = is_full;
    }

    pub fn note(&self, note: StartNote) {
        self.0.borrow_mut().notes.insert(note.job, note.crashes);
    }

    pub fn forget(&self, job: u64) {
        self.0.borrow_mut().notes.remove(&job);
    }

    pub fn notes(&self) -> Vec<StartNote> {
        self.0
            .borrow()
            .notes
            .iter()
            .map(|(&job, &crashes)| StartNote { job, crashes })
            .collect()
    }
}

impl SegmentStore for AgentDisk {
    fn append(&mut self, segment: u32, bytes: &[u8]) -> Result<(), SegmentStoreError> {
        let mut content = self.0.borrow_mut();
        let is_full = content.is_full;
        let file = content.segments.entry(segment).or_default();
        // A full disk accepts a part of the data.
        file.0.extend(
            &bytes[..if is_full {
                bytes.len() / 2
            } else {
                bytes.len()
            }],
        );
        if is_full {
            Err(SegmentStoreError)
        } else {
            Ok(())
        }
    }

    fn sync(&mut self, segment: u32) -> Result<(), SegmentStoreError> {
        let mut content = self.0.borrow_mut();
        let (bytes, synced) = content
            .segments
            .get_mut(&segment)
            .ok_or(SegmentStoreError)?;
        *synced = bytes.len();
        Ok(())
    }

    fn read(
        &mut self,
        segment: u32,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, SegmentStoreError> {
        let content = self.0.borrow();
        let (bytes, _) = content.segments.get(&segment).ok_or(SegmentStoreError)?;
        Ok(bytes
            .iter()
            .skip(offset as usize)
            .take(length.min(1 << 30) as usize)
            .copied()
            .collect())
    }

    fn remove(&mut self, segment: u32) {
        self.0.borrow_mut().segments.remove(&segment);
    }

    fn list(&mut self) -> Vec<u32> {
        self.0.borrow().segments.keys().copied().collect()
    }

    fn write_ledger(&mut self, bytes: &[u8]) -> Result<(), SegmentStoreError> {
        let mut content = self.0.borrow_mut();
        if content.is_full {
            return Err(SegmentStoreError);
        }
        content.ledger = bytes.into();
        Ok(())
    }

    fn read_ledger(&mut self) -> Vec<u8> {
        self.0.borrow().ledger.clone()
    }
}
