//! Compares docs/command-line.md, and the pages that it names for a command, with the command line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use clap::Command;

/// Text of a page.
fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The long flags in a text.
fn flags_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let starts = text.match_indices("--").filter(|(at, _)| {
        let is_start = text[..*at]
            .chars()
            .next_back()
            .is_none_or(|c| !c.is_alphanumeric() && c != '-');
        is_start && text[at + 2..].starts_with(|c: char| c.is_ascii_lowercase())
    });
    let names = starts.map(|(at, _)| {
        text[at + 2..]
            .split(|c| !is_part(c))
            .next()
            .unwrap_or_default()
    });
    names.map(str::to_owned).collect()
}

/// The pages in the rows of the table of commands, by command.
fn pages_of_commands(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut pages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let table = text
        .split("| command | does | page |")
        .nth(1)
        .expect("the table of commands");
    for row in table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
    {
        let links = row
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', '#']).next());
        let links: BTreeSet<String> = links
            .filter(|link| !link.is_empty())
            .map(str::to_owned)
            .collect();
        let cell = row.split(" | ").next().unwrap_or_default();
        for command in cell
            .split('`')
            .skip(1)
            .step_by(2)
            .filter_map(|code| code.split(' ').next())
        {
            pages
                .entry(command.to_owned())
                .or_default()
                .extend(links.clone());
        }
    }
    pages
}

/// The long flags of a command and its subcommands.
fn flags_of(command: &Command) -> BTreeSet<String> {
    let own = command
        .get_arguments()
        .filter_map(|arg| arg.get_long())
        .map(str::to_owned);
    own.chain(command.get_subcommands().flat_map(flags_of))
        .collect()
}

#[test]
fn every_flag_is_on_its_page() {
    let text = page("command-line.md");
    let pages = pages_of_commands(&text);
    let mut missing = Vec::new();
    for command in super::command().get_subcommands() {
        let name = command.get_name();
        assert!(
            command.is_hide_set() || pages.contains_key(name),
            "{name} is not in the table of commands"
        );
        let mut described = flags_in(&text);
        for linked in pages.get(name).into_iter().flatten() {
            described.extend(flags_in(&page(linked)));
        }
        missing.extend(
            flags_of(command)
                .difference(&described)
                .map(|flag| format!("{name} --{flag}")),
        );
    }
    assert!(missing.is_empty(), "on no page: {missing:?}");
}

#[test]
fn every_flag_on_the_page_exists() {
    let mut known = flags_of(&super::command());
    known.extend(["help".to_owned(), "version".to_owned()]);
    let unknown: Vec<String> = flags_in(&page("command-line.md"))
        .difference(&known)
        .cloned()
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn flags_are_found_in_a_text() {
    let found =
        flags_in("`-w, --write FILE`, `--pin[=CORES]` |---|---| a--b, (--to-retry), --, `--k N`");
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        ["k", "pin", "to-retry", "write"]
    );
}
