//! `netalytics overview -r FILE…` or `-i IFACE`: one-screen summary of a capture.

use crate::commands::work::Telling;
use crate::failure::Ended;
use crate::flags::{OverviewFlags, OverviewFormat};
use crate::looking::{self, look};
use crate::output;
use crate::overview::questions::Questions;
use crate::overview::{advice, found, json, screen};

/// Reads the input and prints the summary.
pub fn overview(flags: &OverviewFlags, quiet: bool, verbose: bool) -> anyhow::Result<Ended> {
    let questions = Questions::new();
    let (rows, summary) = look(&flags.look, &questions.texts, Telling::of(quiet, verbose))?;
    let mut found = found::find(&questions, &rows, &summary);
    found.next = advice::queries(&found, &questions);
    let text = match flags.format {
        OverviewFormat::Text => screen::text(
            &found,
            &looking::names(&flags.look).join(", "),
            &looking::input(&flags.look),
            looking::width(),
        ),
        OverviewFormat::Json => {
            format!("{:#}\n", json::document(&found, &questions.texts, &looking::names(&flags.look)))
        }
    };
    let ended = output::print(output::visible_lines(&text).as_bytes())?;
    Ok(looking::told(&summary, ended, verbose))
}
