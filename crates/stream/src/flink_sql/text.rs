//! Text patterns and functions.

use std::fmt::Write;

use plan::TextFunction;
use tuple::DataType;

use super::lexical::text;
use super::printer::SqlPrinter;
use super::value::SqlValue;

/// A token of a LIKE pattern.
enum LikeToken {
    Run,
    One,
    Char(char),
}

impl SqlPrinter<'_> {
    /// Prints a text function.
    pub fn text_function(&mut self, of: &str, function: &TextFunction) -> SqlValue {
        let sql = match function {
            TextFunction::Lower => lowered(of),
            TextFunction::Upper => uppered(of),
            TextFunction::Split(separator, place) => self.split(of, separator, *place),
            TextFunction::UrlQuery(name) => {
                let what = format!("url_query(…, '{name}')");
                self.refused_text(&what, "Flink SQL decodes invalid UTF-8 differently")
            }
            TextFunction::Extract(regex) | TextFunction::Replace(regex, _) => {
                let what = format!("the regular expression '{}'", regex.pattern);
                self.refused_text(
                    &what,
                    "Flink's regular expressions have a different syntax, and may backtrack without bound",
                )
            }
        };
        SqlValue::new(sql, DataType::Text)
    }

    fn refused_text(&mut self, what: &str, why: &str) -> String {
        self.refuse(what, why);
        "CAST(NULL AS STRING)".into()
    }

    /// SPLIT_INDEX returns null for an empty text, which has one part, and counts only from the start: negative
    /// positions split the reversed text.
    fn split(&mut self, of: &str, separator: &str, place: i64) -> String {
        if separator.is_empty() {
            return self.refused_text(
                "split by an empty text",
                "Flink SQL splits by blanks in that case",
            );
        }
        let from_end = place < 0;
        let Some(index) = place
            .checked_abs()
            .and_then(|n| i32::try_from(n - 1).ok())
            .filter(|i| *i >= 0)
        else {
            return "CAST(NULL AS STRING)".into();
        };
        let piece = if from_end {
            let backward: String = separator.chars().rev().collect();
            format!(
                "REVERSE(SPLIT_INDEX(REVERSE({of}), {}, {index}))",
                text(&backward)
            )
        } else {
            format!("SPLIT_INDEX({of}, {}, {index})", text(separator))
        };
        match index {
            0 => format!("CASE WHEN {of} = '' THEN {of} ELSE {piece} END"),
            _ => piece,
        }
    }
}

/// Uppercase letters not known to Java 17, as ranges.
const NEWER: [(u32, u32); 18] = [
    (0x1c89, 0x1c89),
    (0x2c2f, 0x2c2f),
    (0xa7c0, 0xa7c0),
    (0xa7cb, 0xa7cc),
    (0xa7ce, 0xa7ce),
    (0xa7d0, 0xa7d0),
    (0xa7d2, 0xa7d2),
    (0xa7d4, 0xa7d4),
    (0xa7d6, 0xa7d6),
    (0xa7d8, 0xa7d8),
    (0xa7da, 0xa7da),
    (0xa7dc, 0xa7dc),
    (0x10570, 0x1057a),
    (0x1057c, 0x1058a),
    (0x1058c, 0x10592),
    (0x10594, 0x10595),
    (0x10d50, 0x10d65),
    (0x16ea0, 0x16eb8),
];

/// Uppercase letters and their lowercase forms, as literals.
fn newer() -> (String, String) {
    let capitals: String = NEWER
        .iter()
        .flat_map(|(first, last)| *first..=*last)
        .filter_map(char::from_u32)
        .collect();
    (text(&capitals), text(&capitals.to_lowercase()))
}

/// Lowercase, character by character: Java's final sigma rule is avoided.
pub fn lowered(of: &str) -> String {
    let (capitals, small) = newer();
    format!("TRANSLATE(LOWER(TRANSLATE({of}, 'Σ', 'σ')), {capitals}, {small})")
}

/// Uppercase.
fn uppered(of: &str) -> String {
    let (capitals, small) = newer();
    format!("TRANSLATE(UPPER({of}), {small}, {capitals})")
}

/// SQL LIKE. Flink's `_` does not match a line break, so patterns with it are printed as regular expressions whose
/// parts are each searched once.
pub fn like(of: &str, pattern: &str) -> String {
    let tokens = tokens(pattern);
    if tokens.iter().any(|token| matches!(token, LikeToken::One)) {
        format!("REGEXP({of}, {})", text(&regex(&tokens)))
    } else {
        let is_special = |c: char| matches!(c, '%' | '_' | '\\');
        let escapes = tokens
            .iter()
            .any(|token| matches!(token, LikeToken::Char(c) if is_special(*c)));
        let plain: String = tokens
            .iter()
            .map(|token| token.of_like(&is_special))
            .collect();
        let escape = if escapes { " ESCAPE '\\'" } else { "" };
        format!("{of} LIKE {}{escape}", text(&plain))
    }
}

fn tokens(pattern: &str) -> Vec<LikeToken> {
    let mut chars = pattern.chars();
    let mut tokens = Vec::new();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            '%' => LikeToken::Run,
            '_' => LikeToken::One,
            '\\' => LikeToken::Char(chars.next().unwrap_or('\\')),
            c => LikeToken::Char(c),
        });
    }
    tokens
}

impl LikeToken {
    fn of_like(&self, is_special: &dyn Fn(char) -> bool) -> String {
        match self {
            LikeToken::Run => "%".into(),
            LikeToken::One => "_".into(),
            LikeToken::Char(c) if is_special(*c) => format!("\\{c}"),
            LikeToken::Char(c) => c.to_string(),
        }
    }
}

/// The pattern as a Java regular expression; the part between two `%` matches at its first occurrence.
fn regex(tokens: &[LikeToken]) -> String {
    let pieces: Vec<&[LikeToken]> = tokens
        .split(|token| matches!(token, LikeToken::Run))
        .collect();
    let mut out = String::from("(?s)\\A");
    for (i, piece) in pieces.iter().enumerate() {
        let is_last = i + 1 == pieces.len();
        match i {
            0 => push_piece(&mut out, piece),
            _ if is_last => {
                out.push_str(".*");
                push_piece(&mut out, piece);
            }
            _ => {
                out.push_str("(?>.*?");
                push_piece(&mut out, piece);
                out.push(')');
            }
        }
    }
    out + "\\z"
}

fn push_piece(out: &mut String, piece: &[LikeToken]) {
    for token in piece {
        match token {
            LikeToken::One => out.push('.'),
            LikeToken::Char(c) if c.is_alphanumeric() => out.push(*c),
            LikeToken::Char(c) => {
                let _ = write!(out, "\\x{{{:x}}}", u32::from(*c));
            }
            LikeToken::Run => {}
        }
    }
}
