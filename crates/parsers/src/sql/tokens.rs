//! Tables for fingerprints: byte classes, relevant words, and white space between tokens.
//!
//! Computed at compile time; `fingerprint` reads the text.

/// Role of a token for its neighbors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlToken {
    /// None yet.
    Start,
    /// A name or a keyword.
    Word,
    /// IN, VALUES: a list follows.
    ListWord,
    /// A keyword followed by a value, whose sign belongs to it.
    ValueWord,
    /// A literal.
    Value,
    Open,
    Close,
    Comma,
    Dot,
    Semicolon,
    /// `=`, `<`, `>` and combinations.
    Comparison,
    Operator,
}

impl SqlToken {
    const ALL: [SqlToken; 12] = [
        SqlToken::Start,
        SqlToken::Word,
        SqlToken::ListWord,
        SqlToken::ValueWord,
        SqlToken::Value,
        SqlToken::Open,
        SqlToken::Close,
        SqlToken::Comma,
        SqlToken::Dot,
        SqlToken::Semicolon,
        SqlToken::Comparison,
        SqlToken::Operator,
    ];

    /// Whether it ends an operand, so that a following sign or dot does not begin one.
    pub fn ends_operand(self) -> bool {
        matches!(self, SqlToken::Word | SqlToken::Value | SqlToken::Close)
    }
}

/// White space between two tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenSpacing {
    Never,
    Always,
    /// White space as in the text.
    Kept,
}

/// White space between two tokens, the earlier one first.
pub static SPACES: [[TokenSpacing; 12]; 12] = {
    let mut table = [[TokenSpacing::Kept; 12]; 12];
    let mut i = 0;
    while i < 144 {
        let last = SqlToken::ALL[i / 12];
        let next = SqlToken::ALL[i % 12];
        assert!(last as usize == i / 12, "all tokens in their order");
        table[i / 12][i % 12] = match (last, next) {
            (SqlToken::Start | SqlToken::Open | SqlToken::Dot, _)
            | (_, SqlToken::Comma | SqlToken::Close | SqlToken::Dot | SqlToken::Semicolon) => {
                TokenSpacing::Never
            }
            (SqlToken::Comma | SqlToken::Semicolon | SqlToken::Comparison, _)
            | (_, SqlToken::Comparison) => TokenSpacing::Always,
            (SqlToken::ListWord, SqlToken::Open) => TokenSpacing::Always,
            _ => TokenSpacing::Kept,
        };
        i += 1;
    }
    table
};

/// Role of the word with this [`keyword`].
#[inline]
pub fn word_of(key: u64) -> SqlToken {
    let (known, word) = WORDS[place(key)];
    if known == key { word } else { SqlToken::Word }
}

/// Hash table of relevant words.
static WORDS: [(u64, SqlToken); 1 << PLACE_BITS] = {
    let mut table = [(0, SqlToken::Word); 1 << PLACE_BITS];
    let mut i = 0;
    while i < LISTS.len() + BEFORE_VALUES.len() {
        let (key, word) = match i.checked_sub(LISTS.len()) {
            None => (LISTS[i], SqlToken::ListWord),
            Some(i) => (BEFORE_VALUES[i], SqlToken::ValueWord),
        };
        assert!(
            table[place(key)].0 == 0,
            "each word has a place of its own; otherwise choose another factor"
        );
        table[place(key)] = (key, word);
        i += 1;
    }
    table
};

const LISTS: [u64; 3] = [IN, VALUE, VALUES];
const BEFORE_VALUES: [u64; 29] = [
    SELECT, AND, OR, LIKE, BETWEEN, THEN, WHEN, ELSE, LIMIT, OFFSET, BY, WHERE, SET, ON, NOT,
    INTERVAL, CASE, HAVING, DIV, MOD, XOR, IF, DEFAULT, RETURN, IS, ALL, DISTINCT, REGEXP, RLIKE,
];
const PLACE_BITS: u32 = 8;
/// Found by search.
const FACTOR: u64 = 0x612e_7696_a6ce_cc1b;

#[inline]
const fn place(key: u64) -> usize {
    (key.wrapping_mul(FACTOR) >> (u64::BITS - PLACE_BITS)) as usize
}

/// Maximum length of a relevant word.
pub const KEYWORD_MAX: usize = 8;

/// A word of at most eight letters as a number, in lower case.
const fn keyword(word: &[u8]) -> u64 {
    assert!(word.len() <= KEYWORD_MAX);
    let mut n = 0;
    let mut i = 0;
    while i < word.len() {
        n = n << 8 | (word[i] | 0x20) as u64;
        i += 1;
    }
    n
}

macro_rules! keywords {
    ($($name:ident)*) => { $(pub const $name: u64 = keyword(stringify!($name).as_bytes());)* };
}
keywords! {
    IN VALUE VALUES NULL TRUE FALSE SELECT AND OR LIKE BETWEEN THEN WHEN ELSE LIMIT OFFSET BY WHERE SET ON NOT INTERVAL
    CASE HAVING DIV MOD XOR IF DEFAULT RETURN IS ALL DISTINCT REGEXP RLIKE
}

/// Class of a byte that begins a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SqlByteClass {
    /// Part of a name, as is [`SqlByteClass::Digit`].
    Word,
    Digit,
    Space,
    Quote,
    Comparison,
    Other,
}

/// The class of every byte.
pub static CLASS: [SqlByteClass; 256] = {
    let mut table = [SqlByteClass::Other; 256];
    let mut b = 0;
    while b < 256 {
        table[b] = match b as u8 {
            b'0'..=b'9' => SqlByteClass::Digit,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'@' | 0x80.. => SqlByteClass::Word,
            0..=b' ' | 0x7f => SqlByteClass::Space,
            b'\'' | b'"' => SqlByteClass::Quote,
            b'=' | b'<' | b'>' | b'!' => SqlByteClass::Comparison,
            _ => SqlByteClass::Other,
        };
        b += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_at_their_places() {
        for (word, token) in [
            ("in", SqlToken::ListWord),
            ("VALUES", SqlToken::ListWord),
            ("Select", SqlToken::ValueWord),
            ("rlike", SqlToken::ValueWord),
            ("selec", SqlToken::Word),
            ("null", SqlToken::Word),
            ("", SqlToken::Word),
            ("distinct", SqlToken::ValueWord),
        ] {
            assert_eq!(word_of(keyword(word.as_bytes())), token, "{word}");
        }
        assert!(LISTS.iter().all(|key| word_of(*key) == SqlToken::ListWord));
        assert!(
            BEFORE_VALUES
                .iter()
                .all(|key| word_of(*key) == SqlToken::ValueWord)
        );
    }
}
