//! Splits a query into tokens, one at a time on demand, so that the grammar can determine the characters of a word:
//! `top-k: k=10` and `h1:80` differ only in the expected token.
//!
//! Comments extend from `--`, at the start of a token, to the end of the line, or from `/*` to `*/`. Tokenization never fails: an invalid
//! character is a token.

use plan::ComparisonOperator;

use crate::TextSpan;

/// The characters of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordShape {
    /// Letters, digits, `_ . - + %`: names, chains of blocks, numbers with units.
    Name,
    /// The same and `: / * [ ]`: addresses, networks, times.
    Value,
}

/// A token of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryToken {
    /// Kind of the token.
    pub kind: TokenKind,
    /// Position.
    pub span: TextSpan,
}

/// Kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A word of the requested shape.
    Word,
    /// Quoted text, without its quotes.
    Quoted(String),
    /// Quoted text that never ends.
    Unterminated,
    /// `=`, `<` …; `==` is `=`, `<>` is `!=`.
    Compare(ComparisonOperator),
    /// One of `( ) , ; :`.
    Mark(char),
    /// Anything else.
    Stray(char),
    /// The end of the text.
    End,
}

/// The token at or after byte `at`.
pub fn token(text: &str, at: usize, shape: WordShape) -> QueryToken {
    let start = skip_blanks(text, at);
    let rest = &text[start..];
    let Some(c) = rest.chars().next() else {
        return QueryToken {
            kind: TokenKind::End,
            span: TextSpan::new(start, start),
        };
    };
    let (kind, len) = match c {
        '\'' | '"' => quoted(rest, c),
        c if in_word(c, shape) => (TokenKind::Word, word_len(rest, shape)),
        '(' | ')' | ',' | ';' | ':' => (TokenKind::Mark(c), 1),
        _ => comparison(rest).unwrap_or((TokenKind::Stray(c), c.len_utf8())),
    };
    QueryToken {
        kind,
        span: TextSpan::new(start, start + len),
    }
}

fn skip_blanks(text: &str, mut at: usize) -> usize {
    loop {
        let rest = &text[at..];
        let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        at += rest.len() - trimmed.len();
        let ends = [("--", "\n"), ("/*", "*/")];
        let Some((comment, end)) = ends
            .into_iter()
            .find_map(|(start, end)| Some((trimmed.strip_prefix(start)?, end)))
        else {
            return at;
        };
        at += 2 + comment
            .find(end)
            .map_or(comment.len(), |len| len + end.len());
    }
}

fn in_word(c: char, shape: WordShape) -> bool {
    match c {
        '_' | '.' | '-' | '+' | '%' => true,
        ':' | '/' | '*' | '[' | ']' => shape == WordShape::Value,
        c => c.is_alphanumeric(),
    }
}

/// The length of the first operand in a word (of [`WordShape::Value`]), without operators: a complete address or network,
/// a name, or a number with its unit.
pub fn operand_len(word: &str) -> usize {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let len = word.find(|c| !part(c)).unwrap_or(word.len());
    let (first, rest) = word.split_at(len);
    let is_ipv4 = first.parse::<std::net::Ipv4Addr>().is_ok();
    let is_date = word.len() >= 10
        && word
            .bytes()
            .take(10)
            .zip(*b"dddd-dd-dd")
            .all(|(b, shape)| match shape {
                b'd' => b.is_ascii_digit(),
                _ => b == shape,
            });
    if is_date || word.contains([':', '[']) {
        return word.len();
    }
    if is_ipv4 && rest.starts_with('/') {
        return len + 1 + rest[1..].find(|c| !part(c)).unwrap_or(rest.len() - 1);
    }
    if !first.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        // Names of header fields and labels may contain hyphens: `request_header.x-request-id`.
        let has_hyphens = first
            .split('.')
            .rev()
            .skip(1)
            .any(|family| family.ends_with("_header") || family.eq_ignore_ascii_case("label"));
        let goes_on = |c: char| part(c) || c == '-';
        return if has_hyphens {
            word.find(|c| !goes_on(c)).unwrap_or(word.len())
        } else {
            len
        };
    }
    // `1e-3` and `95%` are numbers; in `10%3` and `10%x` it is an operator.
    let is_number = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'_'))
    };
    let exponent =
        first.strip_suffix(['e', 'E']).is_some_and(is_number) && rest.starts_with(['-', '+']);
    let digits = rest.get(1..).map_or(0, |r| {
        r.find(|c: char| !c.is_ascii_digit()).unwrap_or(r.len())
    });
    if exponent && digits > 0 {
        return len + 1 + digits;
    }
    let percent = is_number(first) && rest.starts_with('%') && !rest[1..].starts_with(part);
    len + usize::from(percent)
}

/// The length of the part of a word before `::type`; `None` for addresses.
pub(crate) fn length_before_conversion(word: &str) -> Option<usize> {
    let (before, kind) = word.split_once("::")?;
    let host = word.split('/').next().unwrap_or(word);
    let is_address = word.starts_with('[') || host.parse::<std::net::Ipv6Addr>().is_ok();
    let is_conversion =
        !is_address && !before.is_empty() && kind.starts_with(|c: char| c.is_ascii_alphabetic());
    is_conversion.then_some(before.len())
}

fn word_len(rest: &str, shape: WordShape) -> usize {
    rest.find(|c| !in_word(c, shape)).unwrap_or(rest.len())
}

/// Quoted text, with doubled quotes for a quote.
fn quoted(rest: &str, quote: char) -> (TokenKind, usize) {
    let mut content = String::new();
    let mut at = 1;
    while let Some(len) = rest[at..].find(quote) {
        content.push_str(&rest[at..at + len]);
        at += len + 1;
        if !rest[at..].starts_with(quote) {
            return (TokenKind::Quoted(content), at);
        }
        content.push(quote);
        at += 1;
    }
    (TokenKind::Unterminated, rest.len())
}

fn comparison(rest: &str) -> Option<(TokenKind, usize)> {
    const SIGNS: [(&str, ComparisonOperator); 8] = [
        ("==", ComparisonOperator::Eq),
        ("!=", ComparisonOperator::Ne),
        ("<>", ComparisonOperator::Ne),
        ("<=", ComparisonOperator::Le),
        (">=", ComparisonOperator::Ge),
        ("=", ComparisonOperator::Eq),
        ("<", ComparisonOperator::Lt),
        (">", ComparisonOperator::Gt),
    ];
    SIGNS
        .iter()
        .find(|(sign, _)| rest.starts_with(sign))
        .map(|(sign, op)| (TokenKind::Compare(*op), sign.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, shape: WordShape, expected: &[&str]) {
        let mut at = 0;
        let mut pieces = Vec::new();
        loop {
            let token = token(text, at, shape);
            if token.kind == TokenKind::End {
                break;
            }
            at = token.span.end;
            pieces.push(&text[token.span.range()]);
        }
        assert_eq!(pieces, expected, "{text}");
    }

    #[test]
    fn words_are_as_wide_as_their_shape() {
        check(
            "(top-k: k=10,w=1.5s)",
            WordShape::Name,
            &[
                "(", "top-k", ":", "k", "=", "10", ",", "w", "=", "1.5s", ")",
            ],
        );
        check(
            "h-1.lan:80,[::1]:* 10.0.0.0/8",
            WordShape::Value,
            &["h-1.lan:80", ",", "[::1]:*", "10.0.0.0/8"],
        );
        check(
            "a<=1 b<>-2;",
            WordShape::Value,
            &["a", "<=", "1", "b", "<>", "-2", ";"],
        );
        check("250µs ü", WordShape::Name, &["250µs", "ü"]);
    }

    #[test]
    fn operands_end_before_operators() {
        for (word, operand) in [
            ("status/100", "status"),
            ("http.status-1", "http.status"),
            ("request_header.x-id+1", "request_header.x-id"),
            ("http.request_header.x-id/2", "http.request_header.x-id"),
            ("label.rack-id+1", "label.rack-id"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.0/33*2", "10.0.0.0/33"),
            ("10.0.0.1-2", "10.0.0.1"),
            ("fe80::1/64", "fe80::1/64"),
            ("2*100ms", "2"),
            ("100ms/2", "100ms"),
            ("95%", "95%"),
            ("10%3", "10"),
            ("status%3", "status"),
            ("1e-3*2", "1e-3"),
            ("1e-x", "1e"),
            ("2e+", "2e"),
            ("0xe-1", "0xe"),
            ("2026-01-31", "2026-01-31"),
            ("2026-1-3", "2026"),
            ("*", ""),
            ("-5", ""),
            ("%5", ""),
        ] {
            assert_eq!(&word[..operand_len(word)], operand, "{word}");
        }
    }

    #[test]
    fn comments_and_quotes() {
        check("a -- b 'c\n d--e", WordShape::Name, &["a", "d--e"]);
        check(
            "'it''s' \"a\"\"b\" 'x",
            WordShape::Name,
            &["'it''s'", "\"a\"\"b\"", "'x"],
        );
        assert_eq!(
            token("'it''s'", 0, WordShape::Name).kind,
            TokenKind::Quoted("it's".into())
        );
        assert_eq!(
            token("\"a -- 'b'\"", 0, WordShape::Name).kind,
            TokenKind::Quoted("a -- 'b'".into())
        );
        assert_eq!(token("--", 0, WordShape::Name).kind, TokenKind::End);
    }
}
