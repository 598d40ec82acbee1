//! SQL LIKE: `%` any run of characters, `_` one character, `\` makes the next one literal (a last `\` is itself).
//! The whole text must match. A match costs at most pattern × text steps.

use plan::CaseSensitivity;

use crate::ops::text::lowered;

/// A pattern, taken apart once.
///
/// ```
/// let like = stream::ops::like::LikePattern::new(r"/users/%/100\%_", plan::CaseSensitivity::Sensitive);
/// assert!(like.matches("/users/7/100%!"));
/// assert!(!like.matches("/users/7/1000!"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LikePattern {
    /// The pieces between `%`, at least one; in lowercase if case is ignored.
    pieces: Vec<LikePiece>,
    case: CaseSensitivity,
}

/// Literals separated by one-character wildcards: `a_b` is ["a", "b"].
#[derive(Clone, Debug, PartialEq, Eq)]
struct LikePiece(Vec<String>);

impl LikePattern {
    /// Parses a pattern. Every text is a valid pattern.
    #[must_use]
    pub fn new(pattern: &str, case: CaseSensitivity) -> LikePattern {
        let lowered = lowered(pattern);
        let pattern = if case == CaseSensitivity::Ignored {
            &lowered
        } else {
            pattern
        };
        let mut pieces = vec![LikePiece(vec![String::new()])];
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            let LikePiece(texts) = pieces.last_mut().expect("there is always a piece");
            match c {
                '%' => pieces.push(LikePiece(vec![String::new()])),
                '_' => texts.push(String::new()),
                '\\' => texts
                    .last_mut()
                    .expect("there is always a text")
                    .push(chars.next().unwrap_or('\\')),
                _ => texts.last_mut().expect("there is always a text").push(c),
            }
        }
        LikePattern { pieces, case }
    }

    /// Whether the whole `text` matches.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        match self.case {
            CaseSensitivity::Sensitive => self.fits(text),
            CaseSensitivity::Ignored => self.fits(&lowered(text)),
        }
    }

    fn fits(&self, text: &str) -> bool {
        let (first, rest) = self.pieces.split_first().expect("there is always a piece");
        let Some(mut text) = first.strip_from(text) else {
            return false;
        };
        let Some((last, middle)) = rest.split_last() else {
            return text.is_empty();
        };
        for piece in middle {
            match piece.find_in(text) {
                Some(after) => text = after,
                None => return false,
            }
        }
        last.ends(text)
    }
}

impl LikePiece {
    /// Matches the piece at the start of `text` and returns the rest.
    fn strip_from<'t>(&self, text: &'t str) -> Option<&'t str> {
        let (first, rest) = self.0.split_first()?;
        let mut text = text.strip_prefix(first.as_str())?;
        for literal in rest {
            let mut chars = text.chars();
            chars.next()?;
            text = chars.as_str().strip_prefix(literal.as_str())?;
        }
        Some(text)
    }

    /// Searches the first match of the piece and returns the rest.
    fn find_in<'t>(&self, text: &'t str) -> Option<&'t str> {
        if let [literal] = &self.0[..] {
            return text
                .find(literal.as_str())
                .map(|at| &text[at + literal.len()..]);
        }
        self.starts(text).find_map(|start| self.strip_from(start))
    }

    fn ends(&self, text: &str) -> bool {
        if let [literal] = &self.0[..] {
            return text.ends_with(literal.as_str());
        }
        // A piece has a fixed number of characters, so only one start can reach the end.
        let chars: usize =
            self.0.iter().map(|t| t.chars().count()).sum::<usize>() + self.0.len() - 1;
        let total = text.chars().count();
        total >= chars
            && self
                .starts(text)
                .nth(total - chars)
                .and_then(|s| self.strip_from(s))
                == Some("")
    }

    /// All suffixes of `text`, longest first.
    fn starts<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        text.char_indices()
            .map(|(at, _)| &text[at..])
            .chain(std::iter::once(""))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, with backtracking.
    fn slow(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => (0..=text.len()).any(|n| slow(rest, &text[n..])),
            ['_', rest @ ..] => !text.is_empty() && slow(rest, &text[1..]),
            ['\\', c, rest @ ..] | [c, rest @ ..] => {
                text.first() == Some(c) && slow(rest, &text[1..])
            }
        }
    }

    #[test]
    fn examples() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("/users/%", "/users/7", true),
            ("/users/_", "/users/é", true),
            ("/users/_", "/users/77", false),
            ("%.css", "a.css", true),
            ("%.css", "a.css?", false),
            (r"100\%", "100%", true),
            (r"100\%", "1000", false),
            (r"a\", r"a\", true),
            ("A%", "abc", false),
            ("a%a", "a", false),
            ("%a_c%d", "xabcxd", true),
        ] {
            assert_eq!(
                LikePattern::new(pattern, CaseSensitivity::Sensitive).matches(text),
                expected,
                "{pattern} {text}"
            );
        }
    }

    proptest! {
        #[test]
        fn equals_the_definition(pattern in r"[abé%_\\]{0,8}", text in "[abé]{0,10}") {
            let chars = |s: &str| s.chars().collect::<Vec<_>>();
            prop_assert_eq!(LikePattern::new(&pattern, CaseSensitivity::Sensitive).matches(&text), slow(&chars(&pattern), &chars(&text)));
            // In uppercase, too, if case is ignored.
            let capitals = text.to_uppercase();
            let lowered = chars(&pattern.to_lowercase());
            prop_assert_eq!(LikePattern::new(&pattern, CaseSensitivity::Ignored).matches(&capitals), slow(&lowered, &chars(&text)));
        }
    }
}
