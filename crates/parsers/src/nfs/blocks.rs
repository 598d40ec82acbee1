//! Check-sums of file data as it passes: XXH3-64 of every whole block of 512 bytes at a multiple of 512 of the file.
//! Takes slices as they come; nothing is put together. A block in one slice is hashed where it lies; one that is cut is
//! hashed by words of 8 bytes, of which only those that are cut themselves are copied.

use xxhash_rust::xxh3::xxh3_64;

/// Length of a block.
pub const BLOCK: u64 = 512;
/// Most blocks of one operation; later ones are left out and counted.
pub const BLOCKS_MAX: u64 = 8192;

/// The data of one operation.
#[derive(Default)]
pub struct Blocks {
    /// Bytes before the first whole block.
    skip: u64,
    /// Bytes of whole blocks to come.
    left: u64,
    /// The block that has begun.
    begun: Begun,
    /// The check-sums so far as 16 hexadecimal digits each, `-` for a block of which bytes are missing; a blank behind
    /// every one.
    text: Vec<u8>,
    /// Bytes copied.
    pub copied: u64,
}

/// A block of which a part has come.
#[derive(Default)]
struct Begun {
    acc: [u64; 8],
    /// Bytes that have come.
    at: usize,
    /// The word that has begun.
    word: [u8; 8],
    /// Bytes are missing.
    broken: bool,
}

impl Blocks {
    /// Data of `len` bytes at `offset` of a file follow. Returns how many blocks are over the limit.
    pub fn begin(&mut self, offset: u64, len: u64) -> u64 {
        self.clear();
        self.begun.reset();
        self.skip = (offset.wrapping_neg() % BLOCK).min(len);
        let blocks = (len - self.skip) / BLOCK;
        self.left = blocks.min(BLOCKS_MAX) * BLOCK;
        blocks.saturating_sub(BLOCKS_MAX)
    }

    /// Nothing follows.
    pub fn clear(&mut self) {
        self.text.clear();
        self.left = 0;
    }

    /// The next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut bytes = self.of_whole_blocks(bytes.len() as u64, bytes);
        if self.begun.at > 0 {
            let (head, rest) = bytes.split_at(bytes.len().min(BLOCK as usize - self.begun.at));
            self.begun.push(head, &mut self.copied);
            self.end_block();
            bytes = rest;
        }
        let (blocks, rest) = bytes.as_chunks::<{ BLOCK as usize }>();
        for block in blocks {
            push_hex(xxh3_64(block), &mut self.text);
        }
        if !rest.is_empty() {
            self.begun.push(rest, &mut self.copied);
        }
    }

    /// The next `len` bytes are missing.
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

    /// All has come: the check-sums, blanks between them.
    pub fn finish(&mut self) -> &[u8] {
        self.left = 0;
        self.text.pop();
        &self.text
    }

    /// Puts what [`Blocks::finish`] shows into `list`.
    pub fn move_to(&mut self, list: &mut Vec<u8>) {
        self.finish();
        std::mem::swap(list, &mut self.text);
        self.text.clear();
    }

    /// Counts off `len` bytes; what of `bytes` belongs to whole blocks.
    #[inline]
    fn of_whole_blocks<'b>(&mut self, len: u64, bytes: &'b [u8]) -> &'b [u8] {
        let skipped = self.skip.min(len);
        self.skip -= skipped;
        let taken = self.left.min(len - skipped);
        self.left -= taken;
        bytes.get(skipped as usize..(skipped + taken) as usize).unwrap_or_default()
    }

    fn end_block(&mut self) {
        if self.begun.at == BLOCK as usize {
            match self.begun.broken {
                true => self.text.extend_from_slice(b"- "),
                false => push_hex(self.begun.finish(), &mut self.text),
            }
            self.begun.reset();
        }
    }
}

fn push_hex(hash: u64, text: &mut Vec<u8>) {
    let mut digits = [b' '; 17];
    for (i, digit) in digits[..16].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(hash >> (60 - 4 * i)) as usize & 15];
    }
    text.extend_from_slice(&digits);
}

impl Begun {
    fn reset(&mut self) {
        (self.acc, self.at, self.broken) = (ACC, 0, false);
    }

    /// Bytes that do not go beyond the block.
    fn push(&mut self, mut bytes: &[u8], copied: &mut u64) {
        let within = self.at % 8;
        if self.broken {
            self.at += bytes.len();
            return;
        }
        if within > 0 {
            let n = bytes.len().min(8 - within);
            self.word[within..within + n].copy_from_slice(&bytes[..n]);
            *copied += n as u64;
            self.at += n;
            if within + n < 8 {
                return;
            }
            self.mix(self.at / 8 - 1, u64::from_le_bytes(self.word));
            bytes = &bytes[n..];
        }
        let (words, rest) = bytes.as_chunks::<8>();
        let mut n = self.at / 8;
        let (head, words) = words.split_at(words.len().min(n.wrapping_neg() % 8));
        for word in head {
            self.mix(n, u64::from_le_bytes(*word));
            n += 1;
        }
        let (stripes, tail) = words.as_chunks::<8>();
        for stripe in stripes {
            self.mix_stripe(n / 8, stripe);
            n += 8;
        }
        for word in tail {
            self.mix(n, u64::from_le_bytes(*word));
            n += 1;
        }
        self.word[..rest.len()].copy_from_slice(rest);
        *copied += rest.len() as u64;
        self.at += bytes.len();
    }

    /// Word `n` of the block: a lane of one of its eight stripes.
    #[inline]
    fn mix(&mut self, n: usize, word: u64) {
        let (lane, key) = (n % 8, word ^ secret_of(n / 8)[n % 8]);
        self.acc[lane ^ 1] = self.acc[lane ^ 1].wrapping_add(word);
        self.acc[lane] = self.acc[lane].wrapping_add(halves_multiplied(key));
    }

    /// All lanes of a stripe.
    #[inline]
    fn mix_stripe(&mut self, stripe: usize, words: &[[u8; 8]; 8]) {
        let (secret, words) = (secret_of(stripe), words.map(u64::from_le_bytes));
        for (lane, acc) in self.acc.iter_mut().enumerate() {
            let product = halves_multiplied(words[lane] ^ secret[lane]);
            *acc = acc.wrapping_add(words[lane ^ 1]).wrapping_add(product);
        }
    }

    fn finish(&self) -> u64 {
        let mut hash = BLOCK.wrapping_mul(PRIME64_1);
        for (i, pair) in self.acc.as_chunks::<2>().0.iter().enumerate() {
            let (a, b) = (pair[0] ^ secret_at(11 + 16 * i), pair[1] ^ secret_at(11 + 16 * i + 8));
            let product = u128::from(a) * u128::from(b);
            hash = hash.wrapping_add(product as u64 ^ (product >> 64) as u64);
        }
        hash = (hash ^ (hash >> 37)).wrapping_mul(0x1656_6791_9e37_79f9);
        hash ^ (hash >> 32)
    }
}

// XXH3 for inputs of 512 bytes with seed 0 (xxHash's doc/xxhash_spec.md); tests compare it with the library's.

const PRIME32_1: u64 = 0x9e37_79b1;
const PRIME32_2: u64 = 0x85eb_ca77;
const PRIME32_3: u64 = 0xc2b2_ae3d;
const PRIME64_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME64_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const PRIME64_5: u64 = 0x27d4_eb2f_1656_67c5;
const ACC: [u64; 8] =
    [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1];

#[inline]
fn halves_multiplied(key: u64) -> u64 {
    (key & 0xffff_ffff).wrapping_mul(key >> 32)
}

/// What a stripe is mixed with; the last one's has another place.
#[inline]
fn secret_of(stripe: usize) -> [u64; 8] {
    let at = if stripe < 7 { 8 * stripe } else { SECRET.len() - 64 - 7 };
    std::array::from_fn(|lane| secret_at(at + 8 * lane))
}

#[inline]
fn secret_at(at: usize) -> u64 {
    SECRET[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
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

    /// The list of a whole payload, put together.
    fn slow(offset: u64, data: &[u8]) -> String {
        let skip = (offset.wrapping_neg() % BLOCK) as usize;
        let blocks = data.get(skip..).unwrap_or_default().chunks_exact(BLOCK as usize);
        blocks.map(|block| format!("{:016x}", xxh3_64(block))).collect::<Vec<_>>().join(" ")
    }

    fn list(blocks: &mut Blocks) -> String {
        String::from_utf8(blocks.finish().to_vec()).expect("hexadecimal digits and blanks")
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_cutting_gives_the_check_sums_of_the_whole(
            data in proptest::collection::vec(any::<u8>(), 0..4000),
            offset in 0..2000u64,
            cuts in proptest::collection::vec(1..1500usize, 1..40),
        ) {
            let mut blocks = Blocks::default();
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
            prop_assert_eq!(list(&mut blocks), slow(offset, &data));
        }

        #[test]
        fn missing_bytes_cost_their_blocks_only(
            data in proptest::collection::vec(any::<u8>(), 1..4000),
            offset in 0..2000u64,
            gap in (0..4000usize, 1..2000usize),
        ) {
            let (from, to) = (gap.0.min(data.len()), (gap.0 + gap.1).min(data.len()));
            let mut blocks = Blocks::default();
            blocks.begin(offset, data.len() as u64);
            blocks.push(&data[..from]);
            blocks.gap((to - from) as u64);
            blocks.push(&data[to..]);
            let (skip, is) = ((offset.wrapping_neg() % BLOCK) as usize, list(&mut blocks));
            let was = slow(offset, &data);
            let (is, was): (Vec<_>, Vec<_>) = (is.split(' ').collect(), was.split(' ').collect());
            prop_assert_eq!(is.len(), was.len());
            for (n, (is, was)) in is.iter().zip(&was).enumerate().filter(|_| data.len() >= skip + 512) {
                let (begin, end) = (skip + 512 * n, skip + 512 * (n + 1));
                prop_assert_eq!(*is, if from < to && begin < to && from < end { "-" } else { was }, "block {}", n);
            }
        }
    }

    #[test]
    fn too_many_blocks_are_left_out() {
        let mut blocks = Blocks::default();
        assert_eq!(blocks.begin(1, (BLOCKS_MAX + 3) * BLOCK), 2);
        blocks.gap(u64::MAX);
        assert_eq!(list(&mut blocks).split(' ').count() as u64, BLOCKS_MAX);
    }

    #[test]
    fn hardly_anything_is_copied() {
        let mut blocks = Blocks::default();
        blocks.begin(0, 1 << 20);
        (0..725).for_each(|_| blocks.push(&[7; 1447]));
        assert!(blocks.copied * 100 < 1 << 20, "{}", blocks.copied);
    }
}
