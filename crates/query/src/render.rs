//! Renders errors as text: the line of the query, carets below the position, and the hint next to them.
//!
//! Tabs become spaces, wide characters count as two columns, control characters are escaped, and a long line is cut to
//! the surroundings of the position.

use std::fmt::Write;

use unicode_width::UnicodeWidthChar;

use crate::Diagnostic;
use crate::error::visible;

/// Replacement of a tab.
const TAB: &str = "    ";
/// Maximum columns of a printed line.
const SHOWN_COLUMNS_MAX: usize = 160;
/// Columns before the position in a shortened line.
const COLUMNS_BEFORE: usize = 60;

/// All errors, one paragraph each.
///
/// ```text
/// error: unknown parser `htp_get`
///   PARSE htp_get FROM * TO h1:80
///         ^^^^^^^ did you mean `http_get`?
/// ```
#[must_use]
pub fn render(errors: &[Diagnostic], text: &str) -> String {
    let mut out = String::new();
    for error in errors {
        let _ = writeln!(out, "error: {}", error.message);
        render_place(&mut out, error, text);
    }
    out
}

fn render_place(out: &mut String, error: &Diagnostic, text: &str) {
    let start = char_border(text, error.span.start);
    let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
    let end = char_border(text, error.span.end).clamp(start, line_end);
    let gutter = if text.trim_end().contains('\n') {
        format!("  {} | ", text[..start].matches('\n').count() + 1)
    } else {
        "  ".to_owned()
    };
    let place = ErrorExcerpt::new(
        &text[line_start..start],
        &text[start..end],
        text[end..line_end].trim_end(),
    );
    let carets = "^".repeat(place.width.max(1));
    let label = error.label();
    let _ = writeln!(out, "{gutter}{}", place.line);
    let blanks = " ".repeat(gutter.chars().count() + place.column);
    let _ = writeln!(out, "{}", format!("{blanks}{carets} {label}").trim_end());
}

/// The nearest character boundary at or before `at`.
fn char_border(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at)
        .rev()
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(0)
}

/// A printable excerpt of a line.
struct ErrorExcerpt {
    line: String,
    column: usize,
    width: usize,
}

impl ErrorExcerpt {
    fn new(before: &str, place: &str, after: &str) -> ErrorExcerpt {
        let before = shown(before);
        let place = shown(place);
        let after = shown(after);
        let column = width(&before);
        if column + width(&place) + width(&after) <= SHOWN_COLUMNS_MAX {
            let line = format!("{before}{place}{after}");
            return ErrorExcerpt {
                line: line.trim_end().to_owned(),
                column,
                width: width(&place),
            };
        }
        let before = if column > COLUMNS_BEFORE {
            format!("…{}", last(&before, COLUMNS_BEFORE))
        } else {
            before
        };
        let column = width(&before);
        let place = first(&place, SHOWN_COLUMNS_MAX - column);
        let room = SHOWN_COLUMNS_MAX - column - width(place);
        let cut = if width(&after) > room { "…" } else { "" };
        let line = format!("{before}{place}{}{cut}", first(&after, room));
        ErrorExcerpt {
            line,
            column,
            width: width(place),
        }
    }
}

/// The printable text.
fn shown(text: &str) -> String {
    let text = text.strip_suffix('\r').unwrap_or(text);
    text.replace('\t', TAB).chars().map(visible).collect()
}

fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The longest prefix of at most `columns`.
fn first(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > columns
    });
    end.map_or(text, |(i, _)| &text[..i])
}

/// The longest suffix of at most `columns`.
fn last(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let start = text.char_indices().rev().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > columns
    });
    start.map_or(text, |(i, c)| &text[i + c.len_utf8()..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TextSpan;

    fn check(text: &str, place: &str, expected: &str) {
        let start = text.find(place).expect("the place is in the text");
        let error = Diagnostic::new(TextSpan::new(start, start + place.len()), "wrong").hint("so");
        assert_eq!(render(&[error], text), expected);
    }

    #[test]
    fn carets_stand_under_the_place() {
        check("a bad c", "bad", "error: wrong\n  a bad c\n    ^^^ so\n");
        check(
            "\ta\tbad",
            "bad",
            "error: wrong\n      a    bad\n           ^^^ so\n",
        );
        check(
            "'名前' bäd",
            "bäd",
            "error: wrong\n  '名前' bäd\n         ^^^ so\n",
        );
        check(
            "a\r\nb bad\r\nc",
            "bad",
            "error: wrong\n  2 | b bad\n        ^^^ so\n",
        );
        check(
            "bad\u{1b}[31m",
            "bad",
            "error: wrong\n  bad\u{fffd}[31m\n  ^^^ so\n",
        );
        check("a bad\n", "bad", "error: wrong\n  a bad\n    ^^^ so\n");
    }

    #[test]
    fn a_place_over_several_lines_ends_with_the_first() {
        check(
            "x 'a\nb' y",
            "'a\nb'",
            "error: wrong\n  1 | x 'a\n        ^^ so\n",
        );
    }

    #[test]
    fn a_place_at_the_end_has_a_caret() {
        let error = Diagnostic::new(TextSpan::new(3, 3), "wrong").expected("more");
        assert_eq!(
            render(&[error], "abc"),
            "error: wrong\n  abc\n     ^ expected more\n"
        );
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = format!("{} bad {}", "x".repeat(1000), "y".repeat(1000));
        let error = Diagnostic::new(TextSpan::new(1001, 1004), "wrong");
        let shown = render(&[error], &text);
        let lines: Vec<_> = shown.lines().collect();
        assert!(
            lines[1].starts_with("  …xxx") && lines[1].ends_with("yyy…"),
            "{shown}"
        );
        assert!(lines[1].chars().count() < 170);
        let caret = lines[2].find('^').expect("carets");
        assert_eq!(
            lines[1].chars().skip(caret).take(3).collect::<String>(),
            "bad"
        );
    }

    #[test]
    fn spans_within_a_character_or_beyond_the_end_are_moved() {
        for span in [
            TextSpan::new(1, 2),
            TextSpan::new(7, 99),
            TextSpan::new(5, 1),
        ] {
            assert!(render(&[Diagnostic::new(span, "wrong")], "äöü").contains('^'));
        }
    }
}
