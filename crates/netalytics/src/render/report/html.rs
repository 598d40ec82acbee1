//! Escapes text for HTML and SVG. Packets may contain anything: text never becomes an element, and control and
//! bidirectional characters are made visible.

use sinks::table::{cut, escape};

/// Maximum characters of a cell's text.
const TEXT_CHARS_MAX: usize = 300;

/// Escapes text between tags and in attributes.
#[must_use]
pub fn text(text: &str) -> String {
    let shown = escape(text);
    let mut out = String::with_capacity(shown.len() + 16);
    for c in shown.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Noncharacters not allowed in XML.
            '\u{fffe}' | '\u{ffff}' => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Escapes several lines and keeps line breaks.
#[must_use]
pub fn lines(text: &str) -> String {
    text.trim_end()
        .split('\n')
        .map(self::text)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Escapes and shortens the text of a cell; appends the original length.
#[must_use]
pub fn cell(text: &str) -> String {
    match text.chars().count() {
        n if n > TEXT_CHARS_MAX => {
            // Escaped before cutting, so that the visible length is limited.
            let begin: String = text.chars().take(TEXT_CHARS_MAX * 2).collect();
            format!(
                "{} <i>({n} characters)</i>",
                self::text(&cut(&escape(&begin), TEXT_CHARS_MAX, "…"))
            )
        }
        _ => self::text(text),
    }
}

/// Escapes text for a picture, shortened to `chars` characters.
#[must_use]
pub fn short(text: &str, chars: usize) -> String {
    let begin: String = text.chars().take(chars * 2).collect();
    self::text(&cut(&escape(&begin), chars, "…"))
}

/// A table; the first column is text, the others are numbers.
#[must_use]
pub fn list(titles: &[&str], rows: &[Vec<String>]) -> String {
    let class = |at: usize| if at > 0 { " class=\"n\"" } else { "" };
    let heads: String = titles
        .iter()
        .enumerate()
        .map(|(at, title)| format!("<th scope=\"col\"{}>{}</th>", class(at), text(title)))
        .collect();
    let line = |row: &Vec<String>| -> String {
        let cells = row
            .iter()
            .enumerate()
            .map(|(at, one)| format!("<td{}>{}</td>", class(at), cell(one)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let body: String = rows.iter().map(line).collect();
    format!("<div><table><thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_becomes_an_element_or_acts_on_a_reader() {
        for (hostile, shown) in [
            (
                "</td><script>alert(1)</script>",
                "&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;",
            ),
            ("\" onload='x' &amp;", "&quot; onload=&#39;x&#39; &amp;amp;"),
            ("a\u{202e}gnp\0\n", "a\\u{202e}gnp\\x00\\n"),
            ("\u{fffe}", "\\u{fffe}"),
        ] {
            assert_eq!(text(hostile), shown);
        }
        let long = cell(&"<b>".repeat(30_000));
        assert!(
            long.len() < 3000
                && long.ends_with("<i>(90000 characters)</i>")
                && !long.contains("<b>"),
            "{long}"
        );
    }
}
