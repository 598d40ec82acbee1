//! `netalytics overview -r FILE…` or `-i IFACE`: one-screen summary of a capture.

use crate::commands::run_query::Verbosity;
use crate::failure::CommandOutcome;
use crate::flags::{OverviewFlags, OverviewFormat};
use crate::multi_query::{self, look};
use crate::output;
use crate::overview::queries::OverviewQueries;
use crate::overview::{advice, findings, json, screen};

/// Reads the input and prints the summary.
pub fn overview(flags: &OverviewFlags, quiet: bool, verbose: bool) -> anyhow::Result<CommandOutcome> {
    let questions = OverviewQueries::new();
    let (rows, summary) = look(&flags.look, &questions.texts, Verbosity::of(quiet, verbose))?;
    let mut found = findings::find(&questions, &rows, &summary);
    found.next = advice::queries(&found, &questions);
    let text = match flags.format {
        OverviewFormat::Text => screen::text(
            &found,
            &multi_query::names(&flags.look).join(", "),
            &multi_query::input(&flags.look),
            multi_query::width(),
        ),
        OverviewFormat::Json => {
            format!("{:#}\n", json::document(&found, &questions.texts, &multi_query::names(&flags.look)))
        }
    };
    let ended = output::print(output::visible_lines(&text).as_bytes())?;
    Ok(multi_query::told(&summary, ended, verbose))
}
