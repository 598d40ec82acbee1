//! Whether a client numbers its binary requests: if its opaques rise, read in either byte order, none comes twice.

/// So many that rise make a client that counts.
const RISING_MIN: u8 = 4;

/// What was seen of a client's opaques.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opaques {
    last: Option<u32>,
    seen: u8,
    rises: bool,
    rises_swapped: bool,
}

impl Opaques {
    /// The next request's opaque.
    #[inline]
    pub fn note(&mut self, opaque: u32) {
        match self.last.replace(opaque) {
            None => (self.rises, self.rises_swapped) = (true, true),
            Some(last) => {
                self.seen = self.seen.saturating_add(1);
                self.rises &= opaque > last;
                self.rises_swapped &= opaque.swap_bytes() > last.swap_bytes();
            }
        }
    }

    /// Whether no two requests have the same one.
    #[inline]
    pub fn are_unique(self) -> bool {
        self.seen >= RISING_MIN && (self.rises || self.rises_swapped)
    }
}
