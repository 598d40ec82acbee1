//! Checksums of file data: XXH3-64 of every complete block of 512 bytes at a multiple of 512 in the file.
//! Reads slices without assembling them. A block in one slice is hashed in place; a split one is hashed by
//! words of 8 bytes, of which only split ones are copied.

use xxhash_rust::xxh3::xxh3_64;

/// Length of a block.
pub const BLOCK: u64 = 512;
/// Maximum blocks of one operation; later ones are skipped and counted.
pub const BLOCKS_MAX: u64 = 8192;

/// Data of one operation.
#[derive(Default)]
pub struct BlockChecksums {
    /// Bytes before the first complete block.
    skip: u64,
    /// Remaining bytes of complete blocks.
    left: u64,
    /// The block in progress.
    begun: PartialBlock,
    /// Checksums so far; 0 for a block with missing bytes.
    list: Vec<u64>,
    /// Number of bytes copied.
    pub copied: u64,
}

/// A partly received block.
#[derive(Default)]
struct PartialBlock {
    acc: [u64; 8],
    /// Bytes received.
    at: usize,
    /// The word in progress.
    word: u64,
    /// Whether bytes are missing.
    broken: bool,
}

impl BlockChecksums {
    /// Begins data of `len` bytes at file `offset`. Returns the number of blocks over the limit.
    pub fn begin(&mut self, offset: u64, len: u64) -> u64 {
        self.clear();
        self.begun.reset();
        self.skip = (offset.wrapping_neg() % BLOCK).min(len);
        let blocks = (len - self.skip) / BLOCK;
        self.left = blocks.min(BLOCKS_MAX) * BLOCK;
        blocks.saturating_sub(BLOCKS_MAX)
    }

    /// Resets to no data.
    pub fn clear(&mut self) {
        self.list.clear();
        self.left = 0;
    }

    /// Adds the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut bytes = self.of_whole_blocks(bytes.len() as u64, bytes);
        if self.begun.at > 0 {
            let (head, rest) = bytes.split_at(bytes.len().min(BLOCK as usize - self.begun.at));
            self.begun.push(head, &mut self.copied);
            self.end_block();
            bytes = rest;
        }
        let (blocks, rest) = bytes.as_chunks::<{ BLOCK as usize }>();
        self.list.extend(blocks.iter().map(|block| xxh3_64(block)));
        if !rest.is_empty() {
            self.begun.push(rest, &mut self.copied);
        }
    }

    /// Skips `len` missing bytes.
    pub fn gap(&mut self, len: u64) {
        let before = self.left;
        self.of_whole_blocks(len, &[]);
        let mut len = before - self.left;
        while len > 0 {
            let step = len.min(BLOCK - self.begun.at as u64);
            self.begun.broken = true;
            self.begun.at += step as usize;
            self.end_block();
            len -= step;
        }
    }

    /// Returns the checksums of the complete data.
    pub fn finish(&mut self) -> &[u64] {
        self.left = 0;
        &self.list
    }

    /// Moves the checksums of [`BlockChecksums::finish`] to `list`.
    pub fn move_to(&mut self, list: &mut Vec<u64>) {
        std::mem::swap(list, &mut self.list);
        self.clear();
    }

    /// Counts `len` bytes; returns the part of `bytes` in complete blocks.
    #[inline]
    fn of_whole_blocks<'b>(&mut self, len: u64, bytes: &'b [u8]) -> &'b [u8] {
        let skipped = self.skip.min(len);
        self.skip -= skipped;
        let taken = self.left.min(len - skipped);
        self.left -= taken;
        bytes
            .get(skipped as usize..(skipped + taken) as usize)
            .unwrap_or_default()
    }

    fn end_block(&mut self) {
        if self.begun.at == BLOCK as usize {
            self.list.push(if self.begun.broken {
                0
            } else {
                self.begun.finish()
            });
            self.begun.reset();
        }
    }
}

impl PartialBlock {
    fn reset(&mut self) {
        self.acc = ACC;
        self.at = 0;
        self.broken = false;
    }

    /// Adds bytes that end within the block.
    fn push(&mut self, mut bytes: &[u8], copied: &mut u64) {
        let within = self.at % 8;
        let mut n = self.at / 8;
        self.at += bytes.len();
        if self.broken {
            return;
        }
        if within > 0 {
            self.word |= first_word(bytes) << (8 * within);
            let taken = bytes.len().min(8 - within);
            *copied += taken as u64;
            if within + taken < 8 {
                return;
            }
            mix(&mut self.acc, n, self.word);
            n += 1;
            bytes = &bytes[taken..];
        }
        let (words, rest) = bytes.as_chunks::<8>();
        let (head, words) = words.split_at(words.len().min(n.wrapping_neg() % 8));
        let (stripes, tail) = words.as_chunks::<8>();
        // The order does not matter: only sums, up to 1024 bytes.
        mix_stripes(&mut self.acc, stripes, &KEYS[(n + head.len()) / 8 % 8..]);
        let behind = n + head.len() + 8 * stripes.len();
        for (n, word) in (n..).zip(head).chain((behind..).zip(tail)) {
            mix(&mut self.acc, n, u64::from_le_bytes(*word));
        }
        self.word = last_bytes(bytes, rest.len());
        *copied += rest.len() as u64;
    }

    fn finish(&self) -> u64 {
        let mut hash = BLOCK.wrapping_mul(PRIME64_1);
        for (pair, keys) in self
            .acc
            .as_chunks::<2>()
            .0
            .iter()
            .zip(FINAL_KEYS.as_chunks::<2>().0)
        {
            let product = u128::from(pair[0] ^ keys[0]) * u128::from(pair[1] ^ keys[1]);
            hash = hash.wrapping_add(product as u64 ^ (product >> 64) as u64);
        }
        hash = (hash ^ (hash >> 37)).wrapping_mul(0x1656_6791_9e37_79f9);
        hash ^ (hash >> 32)
    }
}

/// The first 8 bytes, or fewer padded with zeros.
#[inline]
fn first_word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or_else(
        || last_bytes(bytes, bytes.len()),
        |word| u64::from_le_bytes(*word),
    )
}

/// The last `n` < 8 bytes padded with zeros.
#[inline]
fn last_bytes(bytes: &[u8], n: usize) -> u64 {
    match bytes.last_chunk() {
        Some(word) if n > 0 => u64::from_le_bytes(*word) >> (64 - 8 * n),
        _ => bytes
            .iter()
            .rev()
            .take(n)
            .fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

// XXH3 for inputs of 512 bytes with seed 0 (xxHash's doc/xxhash_spec.md); tests compare it with the library.

const PRIME32_1: u64 = 0x9e37_79b1;
const PRIME32_2: u64 = 0x85eb_ca77;
const PRIME32_3: u64 = 0xc2b2_ae3d;
const PRIME64_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME64_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const PRIME64_5: u64 = 0x27d4_eb2f_1656_67c5;
const ACC: [u64; 8] = [
    PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1,
];

/// Keys of the words of each stripe except the last.
const KEYS: [[u64; 8]; 8] = {
    let mut keys = [[0; 8]; 8];
    let mut stripe = 0;
    while stripe < 8 {
        keys[stripe] = secret_at(if stripe < 7 {
            8 * stripe
        } else {
            SECRET.len() - 64 - 7
        });
        stripe += 1;
    }
    keys
};
/// Keys of the final mix.
const FINAL_KEYS: [u64; 8] = secret_at(11);

const fn secret_at(at: usize) -> [u64; 8] {
    let mut words = [0; 8];
    let mut i = 0;
    while i < 64 {
        words[i / 8] |= (SECRET[at + i] as u64) << (8 * (i % 8));
        i += 1;
    }
    words
}

/// Mixes word `n` of the block: a lane of one of its eight stripes.
#[inline]
fn mix(acc: &mut [u64; 8], n: usize, word: u64) {
    let lane = n % 8;
    acc[lane ^ 1] = acc[lane ^ 1].wrapping_add(word);
    acc[lane] = acc[lane].wrapping_add(halves_multiplied(word ^ KEYS[n / 8 % 8][lane]));
}

/// Mixes complete stripes; a separate function, so that the sums stay in (vector) registers.
#[inline(never)]
fn mix_stripes(sums: &mut [u64; 8], stripes: &[[[u8; 8]; 8]], keys: &[[u64; 8]]) {
    let mut acc = *sums;
    for (stripe, keys) in stripes.iter().zip(keys) {
        let words = stripe.map(u64::from_le_bytes);
        acc = std::array::from_fn(|lane| {
            let product = halves_multiplied(words[lane] ^ keys[lane]);
            acc[lane]
                .wrapping_add(words[lane ^ 1])
                .wrapping_add(product)
        });
    }
    *sums = acc;
}

#[inline]
fn halves_multiplied(key: u64) -> u64 {
    (key & 0xffff_ffff).wrapping_mul(key >> 32)
}

#[rustfmt::skip]
const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checksums of a complete payload; reference implementation.
    fn slow(offset: u64, data: &[u8]) -> Vec<u64> {
        let skip = (offset.wrapping_neg() % BLOCK) as usize;
        let blocks = data
            .get(skip..)
            .unwrap_or_default()
            .chunks_exact(BLOCK as usize);
        blocks.map(xxh3_64).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn checksums_do_not_depend_on_segmentation(
            data in proptest::collection::vec(any::<u8>(), 0..4000),
            offset in 0..2000u64,
            cuts in proptest::collection::vec(1..1500usize, 1..40),
        ) {
            let mut blocks = BlockChecksums::default();
            blocks.begin(offset, data.len() as u64);
            let mut rest = &data[..];
            for cut in cuts.iter().cycle() {
                let (piece, more) = rest.split_at(rest.len().min(*cut));
                blocks.push(piece);
                rest = more;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(blocks.finish(), slow(offset, &data));
        }

        #[test]
        fn missing_bytes_cost_their_blocks_only(
            data in proptest::collection::vec(any::<u8>(), 1..4000),
            offset in 0..2000u64,
            gap in (0..4000usize, 1..2000usize),
        ) {
            let from = gap.0.min(data.len());
            let to = (gap.0 + gap.1).min(data.len());
            let mut blocks = BlockChecksums::default();
            blocks.begin(offset, data.len() as u64);
            blocks.push(&data[..from]);
            blocks.gap((to - from) as u64);
            blocks.push(&data[to..]);
            let skip = (offset.wrapping_neg() % BLOCK) as usize;
            let is = blocks.finish();
            let was = slow(offset, &data);
            prop_assert_eq!(is.len(), was.len());
            for (n, (is, was)) in is.iter().zip(&was).enumerate() {
                let begin = skip + 512 * n;
                let end = skip + 512 * (n + 1);
                prop_assert_eq!(*is, if from < to && begin < to && from < end { 0 } else { *was }, "block {}", n);
            }
        }
    }

    #[test]
    fn too_many_blocks_are_left_out() {
        let mut blocks = BlockChecksums::default();
        assert_eq!(blocks.begin(1, (BLOCKS_MAX + 3) * BLOCK), 2);
        blocks.gap(u64::MAX);
        assert_eq!(blocks.finish().len() as u64, BLOCKS_MAX);
    }

    #[test]
    fn hardly_anything_is_copied() {
        let mut blocks = BlockChecksums::default();
        blocks.begin(0, 1 << 20);
        (0..725).for_each(|_| blocks.push(&[7; 1447]));
        assert!(blocks.copied * 100 < 1 << 20, "{}", blocks.copied);
    }
}
