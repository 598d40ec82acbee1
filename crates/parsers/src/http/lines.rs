//! Positions of line ends, found 64 bytes at a time: one comparison of a block gives all its line feeds. A
//! search per line would restart at each of a head's short lines.
//!
//! Does not interpret the lines.

use wide::u8x16;

/// Bytes per comparison.
const BLOCK: usize = 64;

/// Iterator over the positions of all line feeds, ascending.
pub struct LineFeeds<'a> {
    bytes: &'a [u8],
    /// Remaining line feeds of the current block; bit 0 is at `base`.
    mask: u64,
    base: usize,
    /// Start of the next block.
    next: usize,
}

impl<'a> LineFeeds<'a> {
    /// The line feeds in `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> LineFeeds<'a> {
        LineFeeds {
            bytes,
            mask: 0,
            base: 0,
            next: 0,
        }
    }

    /// Advances to the next block with a line feed; returns false at the end.
    #[inline]
    fn next_block(&mut self) -> bool {
        while let Some(block) = self.bytes[self.next..].first_chunk() {
            self.base = self.next;
            self.next += BLOCK;
            self.mask = line_feeds(block);
            if self.mask != 0 {
                return true;
            }
        }
        self.last_block()
    }

    /// Handles the bytes after the last complete block.
    #[inline]
    fn last_block(&mut self) -> bool {
        let len = self.bytes.len();
        let rest = len - std::mem::replace(&mut self.next, len);
        if rest == 0 {
            return false;
        }
        if let Some(block) = self.bytes.last_chunk() {
            // The last block overlaps the previous one.
            self.base = len - BLOCK;
            self.mask = line_feeds(block) & (u64::MAX << (BLOCK - rest));
        } else {
            let mut block = [0; BLOCK];
            block[..len].copy_from_slice(self.bytes);
            self.base = 0;
            self.mask = line_feeds(&block);
        }
        self.mask != 0
    }
}

impl Iterator for LineFeeds<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.mask == 0 && !self.next_block() {
            return None;
        }
        let at = self.base + self.mask.trailing_zeros() as usize;
        self.mask &= self.mask - 1;
        Some(at)
    }
}

/// One bit per line feed.
#[inline]
fn line_feeds(block: &[u8; BLOCK]) -> u64 {
    let (quarters, _) = block.as_chunks::<16>();
    let bits = |i: usize| {
        u64::from(
            u8x16::new(quarters[i])
                .simd_eq(u8x16::splat(b'\n'))
                .to_bitmask(),
        )
    };
    bits(0) | bits(1) << 16 | bits(2) << 32 | bits(3) << 48
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn search_equals_a_plain_search(bytes in proptest::collection::vec(
            prop_oneof![4 => any::<u8>(), 1 => Just(b'\n')], 0..300,
        )) {
            let found: Vec<usize> = LineFeeds::new(&bytes).collect();
            let expected: Vec<usize> = (0..bytes.len()).filter(|i| bytes[*i] == b'\n').collect();
            prop_assert_eq!(found, expected);
        }
    }
}
