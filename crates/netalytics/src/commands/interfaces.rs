//! `netalytics interfaces`: lists capture interfaces.

use anyhow::Context;
use capture::interfaces::{NetworkInterface, interfaces};

use super::listing;
use crate::cli::flags::{ListFlags, OutputFormat};
use crate::process::failure::CommandOutcome;
use crate::process::output;

/// Lists the requested interfaces.
pub fn list(flags: &ListFlags) -> anyhow::Result<CommandOutcome> {
    let all = interfaces().context("cannot list the interfaces")?;
    let chosen = listing::choose("interface", &all, |i| &i.name, &flags.names)?;
    let rows: Vec<Vec<String>> = chosen.iter().map(|i| row(i)).collect();
    match flags.format() {
        OutputFormat::Table => output::print(text(&rows).as_bytes()),
        format => listing::print_rows(&["interface", "state", "addresses"], &rows, format),
    }
}

fn row(interface: &NetworkInterface) -> Vec<String> {
    let addresses: Vec<String> = interface
        .addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    vec![
        interface.name.clone(),
        interface.state.to_string(),
        addresses.join(" "),
    ]
}

fn text(rows: &[Vec<String>]) -> String {
    let width = rows
        .iter()
        .map(|row| row[0].chars().count())
        .max()
        .unwrap_or(0);
    let line = |row: &Vec<String>| {
        format!(
            "{}\n",
            format!("{:width$}  {:10}  {}", row[0], row[1], row[2]).trim_end()
        )
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        assert_eq!(
            text(&[
                row(["lo", "up", "127.0.0.1 ::1"]),
                row(["eth0", "no carrier", ""])
            ]),
            "lo    up          127.0.0.1 ::1\neth0  no carrier\n"
        );
    }
}
