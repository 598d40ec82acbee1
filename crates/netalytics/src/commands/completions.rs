//! `netalytics completions SHELL`: a script that teaches the shell our verbs and flags.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::failure::Ended;
use crate::flags::Cli;
use crate::output;

/// Prints the script.
pub fn print(shell: Shell) -> anyhow::Result<Ended> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "netalytics", &mut script);
    output::print(&script)
}
