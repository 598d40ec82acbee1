//! `netalytics` without arguments: a short description with three examples.

use crate::cli::flags::help;
use crate::process::failure::CommandOutcome;
use crate::process::output;

/// Prints a short help.
pub fn introduce() -> anyhow::Result<CommandOutcome> {
    let first_line = help::ABOUT.lines().next().unwrap_or_default();
    output::print(format!("{first_line}\n\n{}\n", help::EXAMPLES).as_bytes())
}
