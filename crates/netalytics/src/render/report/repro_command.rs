//! The command that reproduces a report: the arguments of this process, quoted for a shell.

use std::ffi::OsString;

use crate::diagnose::overview::advice::shell_word;

/// The command line.
#[must_use]
pub fn command(words: impl Iterator<Item = OsString>) -> String {
    let words = words.skip(1).map(|word| match word.into_string() {
        Ok(word) => shell_word(&word),
        // Not valid Unicode; no simple quoting exists.
        Err(word) => shell_word(&word.to_string_lossy()),
    });
    ["netalytics".into()]
        .into_iter()
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = [
            "/a/netalytics",
            "report",
            "PARSE http WHERE url = '/a'",
            "-r",
            "a b.pcap",
        ]
        .map(OsString::from);
        let expected = r"netalytics report 'PARSE http WHERE url = '\''/a'\''' -r 'a b.pcap'";
        assert_eq!(command(words.into_iter()), expected);
    }
}
