//! Colors of messages: `--color`, NO_COLOR (<https://no-color.org>), and whether standard error is a terminal. Results
//! have no colors.

use std::ffi::OsString;
use std::io::{IsTerminal, stderr};
use std::sync::OnceLock;

use clap::{ColorChoice, ValueEnum};

/// Use of colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorMode {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// In any case
    Always,
    /// Not at all
    Never,
}

impl From<ColorMode> for ColorChoice {
    fn from(color: ColorMode) -> ColorChoice {
        match color {
            ColorMode::Auto => ColorChoice::Auto,
            ColorMode::Always => ColorChoice::Always,
            ColorMode::Never => ColorChoice::Never,
        }
    }
}

static CHOSEN: OnceLock<ColorMode> = OnceLock::new();

/// Finds `--color` among unparsed words, so that parse errors are colored accordingly.
pub fn choose(words: impl Iterator<Item = OsString>) {
    let words: Vec<String> = words.filter_map(|word| word.into_string().ok()).collect();
    let mut values =
        words
            .iter()
            .enumerate()
            .filter_map(|(i, word)| match word.strip_prefix("--color")? {
                "" => words.get(i + 1).map(String::as_str),
                rest => rest.strip_prefix('='),
            });
    let color = values
        .next()
        .and_then(|value| ColorMode::from_str(value, false).ok());
    let _ = CHOSEN.set(color.unwrap_or_default());
}

/// The chosen setting.
pub fn chosen() -> ColorMode {
    CHOSEN.get().copied().unwrap_or_default()
}

/// Colors the word at the start of each line that names the kind of message.
pub fn message(text: &str) -> String {
    let shown = match chosen() {
        ColorMode::Always => true,
        ColorMode::Never => false,
        ColorMode::Auto => {
            stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        }
    };
    if shown {
        text.split('\n').map(colored).collect::<Vec<_>>().join("\n")
    } else {
        text.to_owned()
    }
}

fn colored(line: &str) -> String {
    for (kind, color) in [("error:", "1;31"), ("note:", "1;36")] {
        if let Some(rest) = line.strip_prefix(kind) {
            return format!("\x1b[{color}m{kind}\x1b[0m{rest}");
        }
    }
    line.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_colors() {
        assert_eq!(colored("error: no"), "\x1b[1;31merror:\x1b[0m no");
        assert_eq!(colored("  error: quoted"), "  error: quoted");
    }
}
