//! Texts shortened to the width of their column, so that two different ones never look the same in a table: if they
//! would, the mark between start and end has a number.

use std::collections::HashMap;

use unicode_width::UnicodeWidthStr;
use xxhash_rust::xxh3::xxh3_64;

use super::text::cut;

/// Maximum remembered cut texts; later ones are distinguished by a hash.
const REMEMBERED_MAX: usize = 4096;

/// Shortened texts of a column.
#[derive(Debug, Default)]
pub struct TextShortener {
    /// By shortened text without number: the first text, and further ones with their numbers.
    alike: HashMap<String, (String, HashMap<String, usize>)>,
    /// Number of remembered texts.
    remembered: usize,
    /// Last number used; the first text has none.
    number: usize,
}

impl TextShortener {
    /// `text` in at most `width` columns.
    #[must_use]
    pub fn show(&mut self, text: &str, width: usize) -> String {
        if text.width() <= width {
            return text.to_owned();
        }
        let short = cut(text, width, "…");
        let is_full = self.remembered >= REMEMBERED_MAX;
        let by_hash = || {
            cut(
                text,
                width,
                &format!("…{:04x}…", xxh3_64(text.as_bytes()) & 0xffff),
            )
        };
        let Some((first, others)) = self.alike.get_mut(&short) else {
            if is_full {
                return by_hash();
            }
            self.remembered += 1;
            self.alike
                .insert(short.clone(), (text.to_owned(), HashMap::new()));
            return short;
        };
        if first == text {
            return short;
        }
        // Numbers are unique in a column: a text with a number is shortened further, and may then equal others.
        let number = others.get(text).copied().or_else(|| {
            (!is_full).then(|| {
                self.remembered += 1;
                self.number = self.number.max(1) + 1;
                others.insert(text.to_owned(), self.number);
                self.number
            })
        });
        number.map_or_else(by_hash, |number| cut(text, width, &format!("…{number}…")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_texts_look_different() {
        let mut column = TextShortener::default();
        let text = |n: u32| format!("/shop/products/{n}/reviews/all.html");
        let shown: Vec<String> = [1, 2, 1, 3].map(|n| column.show(&text(n), 20)).into();
        assert_eq!(
            shown,
            [
                "/shop/produc…ll.html",
                "/shop/produ…2…l.html",
                "/shop/produc…ll.html",
                "/shop/produ…3…l.html"
            ]
        );
        assert_eq!(column.show("/short", 20), "/short");
    }

    #[test]
    fn there_is_a_bound() {
        let mut column = TextShortener::default();
        let text = |n: usize| format!("/aaaaaaaaaaaaaaaaa/{n}/bbbbbbbbbbbbbbbbbbbbb");
        let first: Vec<String> = (0..REMEMBERED_MAX)
            .map(|n| column.show(&text(n), 20))
            .collect();
        assert_eq!(first[1], "/aaaaaaaaaa…2…bbbbbb");
        assert_ne!(
            column.show(&text(REMEMBERED_MAX), 20),
            column.show(&text(REMEMBERED_MAX + 1), 20)
        );
        assert_eq!(column.remembered, REMEMBERED_MAX);
    }
}
