//! Cache of conversion results for repeated texts.
//!
//! Direct-mapped and bounded to 2 MiB: each text has one slot, which the next text with that slot replaces.
//! Long texts are not cached.

/// Number of slots; a power of two.
const SLOTS: usize = 1024;
/// Maximum length of cached texts and results.
const BYTES_MAX: usize = 1024;

/// Cache of one conversion.
#[derive(Debug, Default)]
pub struct TextResultCache {
    /// Empty until first use, then [`SLOTS`] slots.
    slots: Vec<TextResultSlot>,
}

#[derive(Clone, Debug, Default)]
struct TextResultSlot {
    /// Empty: unused slot.
    text: Vec<u8>,
    result: Vec<u8>,
}

impl TextResultCache {
    /// Appends the result of `make` for `text` to `out`. `make` must be deterministic.
    #[inline]
    pub fn append(
        &mut self,
        text: &[u8],
        out: &mut Vec<u8>,
        make: impl FnOnce(&[u8], &mut Vec<u8>),
    ) {
        if text.is_empty() || text.len() > BYTES_MAX {
            return make(text, out);
        }
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, TextResultSlot::default());
        }
        let slot = &mut self.slots[slot_of(text)];
        if slot.text != text {
            let start = out.len();
            make(text, out);
            slot.remember(text, &out[start..]);
            return;
        }
        out.extend_from_slice(&slot.result);
    }
}

impl TextResultSlot {
    #[inline(never)]
    fn remember(&mut self, text: &[u8], result: &[u8]) {
        if result.len() <= BYTES_MAX {
            self.text.clear();
            self.text.extend_from_slice(text);
            self.result.clear();
            self.result.extend_from_slice(result);
        }
    }
}

/// Texts chosen to collide slow each other down, without other effects.
#[inline]
fn slot_of(text: &[u8]) -> usize {
    let mix =
        |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (words, rest) = text.as_chunks();
    let hash = words
        .iter()
        .fold(0, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let rest = rest.iter().fold(0, |word, b| word << 8 | u64::from(*b));
    mix(hash, rest) as usize >> (usize::BITS - SLOTS.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_results_equal_computed_ones() {
        let mut memo = TextResultCache::default();
        let mut made = 0;
        for n in (0..3000).flat_map(|n| [n, n]).chain(0..3000) {
            let text = n.to_string().repeat(1 + n % 400);
            let mut out = b"before ".to_vec();
            memo.append(text.as_bytes(), &mut out, |text, out| {
                made += 1;
                out.extend(text.iter().rev());
            });
            let expected: Vec<u8> = text.bytes().rev().collect();
            assert_eq!(out, [b"before ", &expected[..]].concat());
        }
        assert!(
            made < 7000,
            "of 9000 texts 3000 came twice in a row, and a third is too long"
        );
        memo.append(b"", &mut Vec::new(), |_, _| made = 0);
        assert_eq!(made, 0, "nothing is remembered of nothing");
    }
}
