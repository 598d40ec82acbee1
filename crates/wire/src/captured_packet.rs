//! One packet as delivered by a source, before decoding.

use crate::link::LinkType;
use crate::time::Timestamp;

/// A packet as delivered by a source: bytes and capture metadata.
#[derive(Clone, Copy, Debug)]
pub struct CapturedPacket<'a> {
    /// Time by the capture's clock.
    pub ts: Timestamp,
    /// Type of the first header.
    pub link_type: LinkType,
    /// Length on the wire; larger than `bytes` if cut by the snaplen.
    pub original_len: u32,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

impl CapturedPacket<'_> {
    /// Length on the wire, at least the captured length, even if the capture states less.
    #[inline]
    #[must_use]
    pub fn wire_len(&self) -> u32 {
        self.original_len
            .max(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX))
    }
}
