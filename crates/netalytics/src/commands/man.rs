//! `netalytics man`: a manual page with all verbs, the query language, parsers and processors.

use std::io::Write;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::{parsers, processors};
use crate::cli::flags::{self, help};
use crate::process::failure::CommandOutcome;
use crate::process::output;

/// Prints the page in roff.
pub fn print() -> anyhow::Result<CommandOutcome> {
    let page = page()?;
    output::print(&page)
}

fn page() -> std::io::Result<Vec<u8>> {
    let mut cli = flags::command();
    cli.build();
    let mut page = Vec::new();
    let man = Man::new(cli.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    for verb in cli.get_subcommands().filter(|verb| is_shown(verb)) {
        render_verb(verb, &mut page)?;
    }
    section("QUERY LANGUAGE", grammar(), &mut page)?;
    section("PARSERS AND FIELDS", &parsers::everything(), &mut page)?;
    section("PROCESSORS", &processors::everything(), &mut page)?;
    section(
        "EXAMPLES",
        help::EXAMPLES.trim_start_matches("Examples:\n"),
        &mut page,
    )?;
    section("EXIT STATUS", EXIT_STATUS, &mut page)?;
    section("FILES", FILES, &mut page)?;
    Ok(page)
}

fn is_shown(verb: &Command) -> bool {
    !verb.is_hide_set() && verb.get_name() != "help"
}

/// The grammar from the language documentation.
fn grammar() -> &'static str {
    const LANGUAGE: &str = include_str!("../../../../docs/query-language.md");
    let block = LANGUAGE
        .split_once("## Grammar")
        .and_then(|(_, rest)| rest.split_once("```text\n"));
    block
        .and_then(|(_, rest)| rest.split_once("```"))
        .map_or("", |(block, _)| block)
}

const EXIT_STATUS: &str = "\
0  success
1  failure at run time; the result may be incomplete
2  invalid query or flags";

const FILES: &str = "\
/etc/hosts                           host names for queries and tables
~/.config/netalytics/client.toml     server, authority and token of client commands
the file of --config                 limits and tuning; netalytics config prints one";

/// A section for a verb: description, synopsis, flags.
fn render_verb(verb: &Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    Roff::new()
        .control(
            "SH",
            [format!("NETALYTICS {}", verb.get_name())
                .to_uppercase()
                .as_str()],
        )
        .to_writer(page)?;
    if let Some(about) = verb.get_long_about().or_else(|| verb.get_about()) {
        prose(&about.to_string(), page)?;
    }
    // The page's own sections start with a heading, which become subheadings within a verb.
    let man = Man::new(verb.clone());
    let mut parts = Vec::new();
    man.render_synopsis_section(&mut parts)?;
    man.render_options_section(&mut parts)?;
    let parts = String::from_utf8_lossy(&parts).replace("\n.SH ", "\n.SS ");
    let parts = parts
        .strip_prefix(".SH ")
        .map(|rest| format!(".SS {rest}"))
        .unwrap_or(parts);
    page.write_all(parts.as_bytes())
}

fn section(name: &str, text: &str, page: &mut Vec<u8>) -> std::io::Result<()> {
    Roff::new().control("SH", [name]).to_writer(page)?;
    preformatted(text, page)
}

/// Paragraphs; indented ones keep their line breaks.
fn prose(text: &str, page: &mut Vec<u8>) -> std::io::Result<()> {
    for paragraph in text.split("\n\n") {
        if paragraph.starts_with(' ') {
            preformatted(paragraph, page)?;
            continue;
        }
        let mut roff = Roff::new();
        roff.control("PP", []);
        roff.text([roman(paragraph.replace('\n', " "))]);
        roff.to_writer(page)?;
    }
    Ok(())
}

/// Text with its line breaks.
fn preformatted(text: &str, page: &mut Vec<u8>) -> std::io::Result<()> {
    let mut roff = Roff::new();
    roff.control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff.to_writer(page)
}
