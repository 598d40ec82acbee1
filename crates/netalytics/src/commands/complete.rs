//! `netalytics complete query|interface TEXT`, for the shells' completion scripts: what TEXT may go on as, one whole text
//! a line. Knows the order of a query's clauses and little else: what is offered may still be wrong where it stands.

use std::sync::Arc;

use anyhow::Context;
use capture::interfaces::interfaces;
use clap::ValueEnum;
use query::blocks::{ARGS, BLOCKS};
use tuple::Schema;

use crate::failure::Ended;
use crate::output;

/// What is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// A query, in part
    Query,
    /// The name of an interface, in part
    Interface,
}

/// Prints what there is.
pub fn complete(what: What, text: &str) -> anyhow::Result<Ended> {
    let lines = match what {
        What::Query => query_texts(text, &parsers::registry::schemas()),
        What::Interface => {
            let all = interfaces().context("cannot list the interfaces")?;
            let names = all.into_iter().map(|interface| interface.name).chain(["any".to_owned()]);
            names.filter(|name| name.starts_with(text)).collect()
        }
    };
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    output::print(lines.as_bytes())
}

const CLAUSES: &[&str] =
    &["SELECT", "FROM", "TO", "WHERE", "ORDER BY", "LIMIT", "SAMPLE", "PROCESS (", "HAVING"];
const CONDITION: &[&str] = &["and", "or", "not", "like", "in", "is null"];

/// Where in a query the next word stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Beginning,
    Parser,
    /// Behind something complete: a clause may follow.
    Clause,
    /// In an expression.
    Field,
    Chain,
    Argument,
}

fn query_texts(text: &str, schemas: &[Arc<Schema>]) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let start = text.len() - text.chars().rev().take_while(|c| is_part(*c)).count();
    let (head, word) = text.split_at(start);
    let fields = || {
        let named = |schema: &&Arc<Schema>| names(head).any(|name| name.eq_ignore_ascii_case(&schema.name));
        let fields = schemas.iter().filter(named).flat_map(|schema| schema.fields.iter());
        fields.map(|field| field.name.to_string()).collect::<Vec<_>>()
    };
    let owned = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut candidates = match place(head) {
        Place::Beginning => owned(&["PARSE "]),
        Place::Parser => schemas.iter().map(|schema| schema.name.to_string()).collect(),
        Place::Clause => owned(CLAUSES),
        Place::Field => [fields(), owned(CONDITION), owned(CLAUSES)].concat(),
        Place::Chain => chains(word),
        Place::Argument => [ARGS.iter().map(|arg| format!("{}=", arg.name)).collect(), fields()].concat(),
    };
    candidates.retain(|candidate| is_begun(candidate, word));
    candidates.sort();
    candidates.dedup();
    candidates.iter().map(|candidate| format!("{head}{candidate}")).collect()
}

fn is_begun(candidate: &str, word: &str) -> bool {
    candidate.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word))
}

/// The words of a query so far, brackets and signs left out.
fn names(head: &str) -> impl Iterator<Item = &str> {
    head.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn place(head: &str) -> Place {
    let keyword = |word: &&str| {
        let clause =
            |clause: &&&str| names(clause).next().is_some_and(|first| first.eq_ignore_ascii_case(word));
        word.eq_ignore_ascii_case("PARSE") || CLAUSES.iter().any(|c| clause(&c))
    };
    let Some(clause) = names(head).filter(keyword).last().map(str::to_ascii_uppercase) else {
        return Place::Beginning;
    };
    let said = head.trim_end();
    let is_next = said.ends_with([',', '(']) || names(said).last().is_some_and(|last| keyword(&last));
    match clause.as_str() {
        "PARSE" if is_next => Place::Parser,
        "PROCESS" => match head.rsplit_once('(') {
            Some((_, inside)) if inside.contains(')') => Place::Clause,
            Some((_, inside)) if inside.contains(':') => Place::Argument,
            _ => Place::Chain,
        },
        "SELECT" | "WHERE" | "ORDER" | "HAVING" => Place::Field,
        _ => Place::Clause,
    }
}

/// Chains of blocks that go on from a chain that is begun, as `group-co`.
fn chains(word: &str) -> Vec<String> {
    let ends = word.match_indices('-').map(|(at, _)| at).filter(|at| is_chain(&word[..*at]));
    let begins = ends.map(|at| &word[..=at]).chain([""]);
    begins.flat_map(|begin| BLOCKS.iter().map(move |block| format!("{begin}{}", block.name))).collect()
}

fn is_chain(text: &str) -> bool {
    BLOCKS.iter().any(|block| match text.strip_prefix(block.name) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(is_chain),
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_goes_on() {
        let schemas = parsers::registry::schemas();
        for (text, expected) in [
            ("", &["PARSE "][..]),
            ("PARSE mysql_q", &["PARSE mysql_query"]),
            ("PARSE tcp_conn_time, http_g", &["PARSE tcp_conn_time, http_get"]),
            ("PARSE http WH", &["PARSE http WHERE"]),
            ("PARSE http where stat", &["PARSE http where status"]),
            ("PARSE http WHERE status >= 500 PRO", &["PARSE http WHERE status >= 500 PROCESS ("]),
            ("PARSE http PROCESS (wo", &["PARSE http PROCESS (workload-profile"]),
            ("PARSE http PROCESS (group-qu", &["PARSE http PROCESS (group-quantile"]),
            ("PARSE http PROCESS (group-top", &["PARSE http PROCESS (group-top-k"]),
            ("PARSE http PROCESS (top-k: key=url_q", &["PARSE http PROCESS (top-k: key=url_query"]),
            ("PARSE http PROCESS (top-k: sli", &["PARSE http PROCESS (top-k: slide="]),
            ("PARSE http PROCESS (top-k) SAM", &["PARSE http PROCESS (top-k) SAMPLE"]),
            ("PARSE nonsense WHERE sta", &[]),
        ] {
            assert_eq!(query_texts(text, &schemas), expected, "{text}");
        }
    }
}
