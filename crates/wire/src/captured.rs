//! One packet as a source delivers it, before anybody looks into it.

use crate::link::LinkType;
use crate::time::Timestamp;

/// A packet as a source delivers it: bytes and what the capture says of them.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// When, by the capture's clock.
    pub ts: Timestamp,
    /// What the first byte is.
    pub link_type: LinkType,
    /// Length on the wire; larger than `bytes` when the snaplen cut it.
    pub original_len: u32,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

impl Captured<'_> {
    /// Length on the wire: not less than what was captured, whatever the capture says.
    #[inline]
    #[must_use]
    pub fn wire_len(&self) -> u32 {
        self.original_len.max(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX))
    }
}
