//! Escapes and shortens text from the network for a terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Makes characters with an effect on a terminal visible: control characters as `\n`, `\t`, `\x1b`, and invisible or
/// direction-changing ones as `\u{202e}`. A backslash is not escaped: the text is for display only.
#[must_use]
pub fn escape(text: &str) -> String {
    if !text.chars().any(acts) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if !acts(c) => out.push(c),
            c if (c as u32) < 0x100 => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.extend(c.escape_unicode()),
        }
    }
    out
}

/// Shortens `text` to at most `width` columns: start and end, with `mark` in between. If there is too little space,
/// only the start is kept.
#[must_use]
pub fn cut(text: &str, width: usize, mark: &str) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(mark.width());
    // An end of one or two characters is not informative.
    let tail = if room < 8 { 0 } else { room * 2 / 5 };
    let begin: String = fitting(text.chars(), room - tail).collect();
    let mut end: Vec<char> = fitting(text.chars().rev(), tail).collect();
    end.reverse();
    begin + mark + &String::from_iter(end)
}

/// The first characters that fit into `width` columns.
fn fitting(chars: impl Iterator<Item = char>, width: usize) -> impl Iterator<Item = char> {
    let mut used = 0;
    chars.take_while(move |c| {
        used += c.width().unwrap_or(0);
        used <= width
    })
}

/// Appends `text`, padded with spaces to `width` columns.
pub fn pad(out: &mut String, text: &str, width: usize, right: bool) {
    let spaces = width.saturating_sub(text.width());
    if right {
        out.extend(std::iter::repeat_n(' ', spaces));
    }
    out.push_str(text);
    if !right {
        out.extend(std::iter::repeat_n(' ', spaces));
    }
}

/// Whether a character has an effect on a terminal: controls, line separators, zero-width characters, and those that
/// change the writing direction (UAX #9).
#[must_use]
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{61c}' | '\u{feff}' | '\u{ad}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts() {
        for (text, expected) in [
            ("plain ü 漢", "plain ü 漢"),
            ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\u{9b}31m", "\\x9b31m"),
            ("user\u{202e}gpj.exe", "user\\u{202e}gpj.exe"),
            ("back\\slash", "back\\slash"),
        ] {
            assert_eq!(escape(text), expected);
        }
    }

    #[test]
    fn texts_are_shortened_by_columns() {
        for (text, width, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("漢字漢字", 5, "漢字…"),
            ("漢字漢字", 4, "漢…"),
            ("abc", 1, "…"),
            ("", 0, ""),
            (
                "SELECT name FROM product WHERE id = ?",
                20,
                "SELECT name … id = ?",
            ),
            ("漢字漢字漢字漢字漢字", 12, "漢字漢…漢字"),
        ] {
            assert_eq!(cut(text, width, "…"), expected);
        }
        let mut line = String::new();
        pad(&mut line, "漢", 4, false);
        pad(&mut line, "7", 3, true);
        assert_eq!(line, "漢    7");
    }
}
