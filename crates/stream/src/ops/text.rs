//! Text functions with a text result, applied to one value at a time.

use std::borrow::Cow;
use std::fmt::Write;

use plan::TextFunction;
use regex::Regex;

/// Maximum length of the result of `replace`.
const REPLACED_BYTES_MAX: usize = 64 * 1024;

/// A function with compiled patterns.
#[derive(Clone, Debug)]
pub enum CompiledTextFunction {
    /// Lowercase.
    Lower,
    /// Uppercase.
    Upper,
    /// Value of a query string parameter.
    UrlQuery(String),
    /// A part between separators.
    Split(String, i64),
    /// The match of a pattern.
    Extract(Regex),
    /// Replacement of matches.
    Replace(Regex, String),
}

impl CompiledTextFunction {
    /// Compiles a function of a plan.
    #[must_use]
    pub fn new(function: &TextFunction) -> CompiledTextFunction {
        match function {
            TextFunction::Lower => CompiledTextFunction::Lower,
            TextFunction::Upper => CompiledTextFunction::Upper,
            TextFunction::UrlQuery(name) => CompiledTextFunction::UrlQuery(name.clone()),
            TextFunction::Split(separator, place) => {
                CompiledTextFunction::Split(separator.clone(), *place)
            }
            TextFunction::Extract(regex) => CompiledTextFunction::Extract(compiled(regex)),
            TextFunction::Replace(regex, with) => {
                CompiledTextFunction::Replace(compiled(regex), with.clone())
            }
        }
    }

    /// Applies the function to a text; `None` for null.
    #[must_use]
    pub fn of<'t>(&self, text: &'t str) -> Option<Cow<'t, str>> {
        match self {
            CompiledTextFunction::Lower => Some(lowered(text).into()),
            CompiledTextFunction::Upper => Some(text.to_uppercase().into()),
            CompiledTextFunction::UrlQuery(name) => url_query(text, name),
            CompiledTextFunction::Split(separator, place) => {
                let nth = |n: i64| usize::try_from(n - 1).ok();
                match *place {
                    n @ 1.. => text.split(separator.as_str()).nth(nth(n)?),
                    n => text.rsplit(separator.as_str()).nth(nth(n.checked_neg()?)?),
                }
                .map(Cow::Borrowed)
            }
            CompiledTextFunction::Extract(regex) => {
                let groups = regex.captures(text)?;
                let place = usize::from(groups.len() > 1);
                Some(groups.get(place)?.as_str().into())
            }
            CompiledTextFunction::Replace(regex, with) => replace(regex, text, with),
        }
    }
}

/// Lowercase, character by character: a capital sigma always becomes σ, even at the end of a word, where engines
/// differ on word boundaries.
#[must_use]
pub fn lowered(text: &str) -> String {
    if text.contains('Σ') {
        text.chars().flat_map(char::to_lowercase).collect()
    } else {
        text.to_lowercase()
    }
}

/// Compiles a pattern.
///
/// # Panics
/// If the pattern is invalid or too large; the checker rejects these.
#[must_use]
pub fn compiled(regex: &plan::RegexPattern) -> Regex {
    regex.compile().expect("patterns of a plan are checked")
}

fn replace<'t>(regex: &Regex, text: &'t str, with: &str) -> Option<Cow<'t, str>> {
    let mut out = String::new();
    let mut copied = 0;
    for groups in regex.captures_iter(text) {
        let all = groups.get(0)?;
        out.push_str(&text[copied..all.start()]);
        groups.expand(with, &mut out);
        copied = all.end();
        if out.len() > REPLACED_BYTES_MAX {
            return None;
        }
    }
    if copied == 0 && out.is_empty() && !regex.is_match(text) {
        return Some(text.into());
    }
    out.push_str(&text[copied..]);
    Some(out.into())
}

/// The value of the first parameter named `name`.
fn url_query<'t>(text: &'t str, name: &str) -> Option<Cow<'t, str>> {
    let pairs = query_string(text)?
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut named = pairs.filter(|(key, _)| decoded(key) == name);
    named.next().map(|(_, value)| decoded(value))
}

/// The part of a URL after `?`. A text that begins with a parameter is treated as a query string.
fn query_string(text: &str) -> Option<&str> {
    let text = text.split('#').next()?;
    let begins = text
        .find(['/', '?', '=', '&'])
        .map(|at| text.as_bytes()[at]);
    match begins {
        Some(b'/' | b'?') => text.split_once('?').map(|(_, query)| query),
        _ => Some(text),
    }
}

/// Decodes `%XX` and `+`; bytes that are not UTF-8 become `\xNN`.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return text.into();
    }
    let digit = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16));
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let pair = digit(bytes.get(at + 1)).zip(digit(bytes.get(at + 2)));
        match (byte, pair) {
            (b'%', Some((high, low))) => {
                out.push((high * 16 + low) as u8);
                at += 3;
                continue;
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    let mut text = String::with_capacity(out.len());
    for chunk in out.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|b| {
            let _ = write!(text, "\\x{b:02x}");
        });
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(function: TextFunction, texts: &[(&str, Option<&str>)]) {
        let compiled = CompiledTextFunction::new(&function);
        for (text, expected) in texts {
            assert_eq!(
                compiled.of(text).as_deref(),
                *expected,
                "{function:?} of {text}"
            );
        }
    }

    fn regex(pattern: &str) -> plan::RegexPattern {
        plan::RegexPattern {
            pattern: pattern.into(),
            case: plan::CaseSensitivity::Sensitive,
        }
    }

    #[test]
    fn parameters_of_urls_and_of_query_strings() {
        let long = [
            ("shop/x?id=7&id=8", Some("7")),
            ("shop/x?a=1&id=", Some("")),
            ("shop/x?id", Some("")),
            ("shop/x?di=7", None),
            ("shop/id=7", None),
            ("shop/x=1?id=2", Some("2")),
            ("id=7&a=/b?id=9", Some("7")),
            ("a=/b&id=9", Some("9")),
            ("?id=a%20b+c%C3%A9", Some("a b cé")),
            ("?id=%ff%4", Some("\\xff%4")),
            ("?%69d=3", Some("3")),
            ("/x?id=1#?id=2", Some("1")),
            ("", None),
        ];
        check(TextFunction::UrlQuery("id".into()), &long);
    }

    #[test]
    fn pieces_matches_and_replacements() {
        let split = |n| TextFunction::Split("::".into(), n);
        check(
            split(1),
            &[("a::b::c", Some("a")), ("", Some("")), ("a", Some("a"))],
        );
        check(split(3), &[("a::b::c", Some("c")), ("a::b", None)]);
        check(split(-1), &[("a::b::c", Some("c")), ("a", Some("a"))]);
        check(split(-3), &[("a::b::c", Some("a")), ("a::b", None)]);
        check(split(i64::MIN), &[("a", None)]);
        check(
            TextFunction::Extract(regex("id=([0-9]+)")),
            &[("x id=7", Some("7")), ("id=x", None)],
        );
        check(
            TextFunction::Extract(regex("[0-9]+")),
            &[("x id=7", Some("7"))],
        );
        check(
            TextFunction::Extract(regex("a|(b)")),
            &[("a", None), ("b", Some("b"))],
        );
        let numbers = TextFunction::Replace(regex("/([0-9])[0-9]*"), "/$1…".into());
        check(
            numbers,
            &[
                ("/a/77/8", Some("/a/7…/8…")),
                ("/a", Some("/a")),
                ("", Some("")),
            ],
        );
        check(
            TextFunction::Replace(regex("$"), "x".into()),
            &[("", Some("x")), ("a", Some("ax"))],
        );
        check(
            TextFunction::Replace(regex(""), "x".repeat(40_000)),
            &[("aaaa", None)],
        );
        check(TextFunction::Upper, &[("aß", Some("ASS"))]);
        check(
            TextFunction::Lower,
            &[("ÄΣ", Some("äσ")), ("İ", Some("i\u{307}"))],
        );
    }
}
