//! Interface to files, and their formats: segments of records, each with a hash, and a ledger that lists the valid
//! segments. Lanes and limits are not known here.

use bytes::Bytes;
use prost::Message;
use xxhash_rust::xxh3::xxh3_64;

use crate::message::{DataRecord, LostRecords, RecordLane};

/// The operation failed: for example, the disk is full, or a file is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the spool's store failed")]
pub struct SegmentStoreError;

/// Storage of segments; files of a directory in the agent.
pub trait SegmentStore {
    /// Appends bytes to a segment, which is created if missing. After a failure, the segment is not written to again.
    fn append(&mut self, segment: u32, bytes: &[u8]) -> Result<(), SegmentStoreError>;
    /// Syncs the appended data.
    fn sync(&mut self, segment: u32) -> Result<(), SegmentStoreError>;
    /// Reads up to `length` bytes from `offset`.
    fn read(
        &mut self,
        segment: u32,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, SegmentStoreError>;
    /// Removes a segment that is no longer needed.
    fn remove(&mut self, segment: u32);
    /// Existing segments, in any order.
    fn list(&mut self) -> Vec<u32>;
    /// Replaces the ledger atomically and durably.
    fn write_ledger(&mut self, bytes: &[u8]) -> Result<(), SegmentStoreError>;
    /// The ledger; empty: none.
    fn read_ledger(&mut self) -> Vec<u8>;
}

/// A store without space: the spool uses memory only.
#[derive(Debug, Clone, Copy)]
pub struct NoDisk;

impl SegmentStore for NoDisk {
    fn append(&mut self, _: u32, _: &[u8]) -> Result<(), SegmentStoreError> {
        Err(SegmentStoreError)
    }
    fn sync(&mut self, _: u32) -> Result<(), SegmentStoreError> {
        Err(SegmentStoreError)
    }
    fn read(&mut self, _: u32, _: u64, _: u64) -> Result<Vec<u8>, SegmentStoreError> {
        Err(SegmentStoreError)
    }
    fn remove(&mut self, _: u32) {}
    fn list(&mut self) -> Vec<u32> {
        Vec::new()
    }
    fn write_ledger(&mut self, _: &[u8]) -> Result<(), SegmentStoreError> {
        Err(SegmentStoreError)
    }
    fn read_ledger(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

/// Bytes of a record's header: length and hash.
const HEAD_BYTES: usize = 4 + 8;

/// Encodes a record for a segment.
pub(super) fn seal(body: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(HEAD_BYTES + body.len());
    sealed.extend(
        u32::try_from(body.len())
            .expect("records are shorter than segments")
            .to_be_bytes(),
    );
    sealed.extend(xxh3_64(body).to_be_bytes());
    sealed.extend(body);
    sealed
}

/// The first record in `bytes`, and its length with the header; `None`: incomplete, or none.
pub(super) fn unseal(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (hash, rest) = rest.split_first_chunk::<8>()?;
    let body = rest.get(..u32::from_be_bytes(*length) as usize)?;
    (xxh3_64(body) == u64::from_be_bytes(*hash)).then_some((body, HEAD_BYTES + body.len()))
}

/// Records in a segment, each with offset and length; and whether the last one is incomplete.
pub(super) fn scan(bytes: &[u8]) -> (Vec<(DataRecord, u64, u64)>, bool) {
    let mut records = Vec::new();
    let mut at = 0;
    while let Some((body, length)) = unseal(&bytes[at..]) {
        if let Ok(data) = DataRecord::decode(body) {
            records.push((data, at as u64, length as u64));
        }
        at += length;
    }
    (records, at < bytes.len())
}

/// Reads one record.
pub(super) fn read(
    store: &mut dyn SegmentStore,
    segment: u32,
    offset: u64,
    length: u64,
) -> Option<Bytes> {
    let bytes = store.read(segment, offset, length).ok()?;
    unseal(&bytes).map(|(body, _)| Bytes::copy_from_slice(body))
}

/// State that segments alone do not contain.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SpoolLedger {
    /// Number of the first valid segment; numbers wrap.
    #[prost(uint32, tag = "1")]
    pub oldest: u32,
    /// Invalid segments that may still exist.
    #[prost(uint32, repeated, tag = "2")]
    pub dropped: Vec<u32>,
    /// Acknowledged positions of lanes.
    #[prost(message, repeated, tag = "3")]
    pub lanes: Vec<AcknowledgedLane>,
    /// Dropped records.
    #[prost(message, repeated, tag = "4")]
    pub lost: Vec<LostRecords>,
}

/// Acknowledged position of a lane.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct AcknowledgedLane {
    #[prost(message, required, tag = "1")]
    pub lane: RecordLane,
    #[prost(uint64, tag = "2")]
    pub seq: u64,
}

impl SpoolLedger {
    pub(super) fn load(store: &mut dyn SegmentStore) -> Option<Self> {
        let bytes = store.read_ledger();
        unseal(&bytes).and_then(|(body, _)| Self::decode(body).ok())
    }

    pub(super) fn save(&self, store: &mut dyn SegmentStore) -> Result<(), SegmentStoreError> {
        store.write_ledger(&seal(&self.encode_to_vec()))
    }
}
