//! `netalytics overview -r FILE…` or `-i IFACE`: one-screen summary of a capture.

use crate::cli::flags::{OverviewFlags, OverviewFormat};
use crate::cli::verbosity::Verbosity;
use crate::diagnose::overview::queries::OverviewQueries;
use crate::diagnose::overview::{advice, findings, json, screen};
use crate::process::failure::CommandOutcome;
use crate::process::output;
use crate::run::multi_query::{self, look};

/// Reads the input and prints the summary.
pub fn overview(
    flags: &OverviewFlags,
    quiet: bool,
    verbose: bool,
) -> anyhow::Result<CommandOutcome> {
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
            format!(
                "{:#}\n",
                json::document(&found, &questions.texts, &multi_query::names(&flags.look))
            )
        }
    };
    let ended = output::print(output::visible_lines(&text).as_bytes())?;
    Ok(multi_query::told(&summary, ended, verbose))
}
