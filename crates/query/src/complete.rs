//! Completions of an incomplete query, for shells and editors. Uses little more than the order of clauses, so that a
//! candidate may be invalid in its context.

use std::sync::Arc;

use tuple::{AGENT, Schema};

use crate::TextSpan;
use crate::blocks::{ARGS, BLOCKS, ProcessorBlock};

/// Possible continuations of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryCompletions {
    /// The incomplete word to be replaced.
    pub word: TextSpan,
    /// Candidate words in alphabetical order.
    pub candidates: Vec<String>,
}

const CLAUSES: &[&str] = &[
    "SELECT",
    "FROM",
    "TO",
    "WHERE",
    "SINCE",
    "UNTIL",
    "BASELINE",
    "ORDER BY",
    "LIMIT",
    "SAMPLE",
    "TAPS",
    "BUDGET",
    "PROCESS (",
    "HAVING",
];
/// The clauses of a statement in SQL after SELECT.
const SQL_CLAUSES: &[&str] = &[
    "FROM", "JOIN", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "WINDOW", "SINCE", "UNTIL",
    "BASELINE", "SAMPLE", "TAPS", "BUDGET",
];
/// Words of statements in SQL within expressions.
const SQL_NAMES: &[&str] = &[
    "DISTINCT",
    "CASE WHEN",
    "client",
    "server",
    "p50(",
    "p95(",
    "p99(",
];
const CONDITION: &[&str] = &["and", "or", "not", "like", "in", "between", "is null"];

/// Position of the next word in a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompletionContext {
    Beginning,
    Parser,
    /// After a complete part: a clause may follow.
    Clause,
    /// In an expression.
    Field,
    Chain,
    Argument,
}

/// Completions at the end of `text`.
#[must_use]
pub fn complete(text: &str, schemas: &[Arc<Schema>]) -> QueryCompletions {
    complete_at(text, text.len(), schemas)
}

/// Completions at byte `at` of `text`. The rest of the text may name the parsers, as in `SELECT … FROM http`.
///
/// # Panics
/// If `at` is not a boundary of characters in the text.
#[must_use]
pub fn complete_at(text: &str, at: usize, schemas: &[Arc<Schema>]) -> QueryCompletions {
    let whole = text;
    let text = &text[..at];
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let start = text.len() - text.chars().rev().take_while(|c| is_part(*c)).count();
    let (head, word) = text.split_at(start);
    let is_sql = crate::grammar::is_sql(head);
    let fields = || {
        let named = |schema: &&Arc<Schema>| {
            names(whole).any(|name| name.eq_ignore_ascii_case(&schema.name))
        };
        // Before FROM, the columns of any parser may follow.
        let is_open = is_sql && !schemas.iter().any(|schema| named(&schema));
        let schemas = schemas.iter().filter(|schema| is_open || named(schema));
        let of_schema = |schema: &Arc<Schema>| -> Vec<String> {
            let families = schema.families().map(|family| format!("{}.", family.name));
            let fields = schema.fields.iter().map(|field| field.name.to_string());
            fields.chain(families).chain([AGENT.to_owned()]).collect()
        };
        schemas.flat_map(of_schema).collect::<Vec<_>>()
    };
    let owned = |list: &[&str]| {
        list.iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    let clauses = if is_sql { SQL_CLAUSES } else { CLAUSES };
    let calls = || -> Vec<String> {
        let blocks = BLOCKS
            .iter()
            .filter(|doc| is_sql && doc.block.is_aggregate())
            .filter(|doc| doc.block != ProcessorBlock::Aggregate);
        let words: &[&str] = if is_sql { SQL_NAMES } else { &[] };
        let given = after_as(whole).filter(|_| is_sql).map(str::to_owned);
        blocks
            .map(|doc| format!("{}(", doc.name))
            .chain(owned(words))
            .chain(given)
            .collect()
    };
    let mut candidates = match place(head, clauses) {
        CompletionContext::Beginning => owned(&["PARSE ", "SELECT "]),
        CompletionContext::Parser => schemas
            .iter()
            .map(|schema| schema.name.to_string())
            .collect(),
        CompletionContext::Clause => {
            let is_auto = names(head)
                .last()
                .is_some_and(|last| last.eq_ignore_ascii_case("auto"));
            let bound: &[&str] = if is_auto { &["ERROR"] } else { &[] };
            [owned(clauses), owned(bound)].concat()
        }
        CompletionContext::Field => [fields(), calls(), owned(CONDITION), owned(clauses)].concat(),
        CompletionContext::Chain => chains(word),
        CompletionContext::Argument => [
            ARGS.iter().map(|arg| format!("{}=", arg.name)).collect(),
            fields(),
        ]
        .concat(),
    };
    candidates.retain(|candidate| is_begun(candidate, word));
    candidates.sort();
    candidates.dedup();
    QueryCompletions {
        word: TextSpan::new(start, text.len()),
        candidates,
    }
}

fn is_begun(candidate: &str, word: &str) -> bool {
    candidate
        .get(..word.len())
        .is_some_and(|begin| begin.eq_ignore_ascii_case(word))
}

/// The words of the query so far, without punctuation.
fn names(head: &str) -> impl Iterator<Item = &str> {
    head.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// The names given with AS.
fn after_as(text: &str) -> impl Iterator<Item = &str> {
    let words = names(text).zip(names(text).skip(1));
    words
        .filter(|(word, _)| word.eq_ignore_ascii_case("as"))
        .map(|(_, name)| name)
}

fn place(head: &str, clauses: &[&str]) -> CompletionContext {
    let keyword = |word: &&str| {
        let clause = |clause: &&&str| {
            names(clause)
                .next()
                .is_some_and(|first| first.eq_ignore_ascii_case(word))
        };
        let begins = ["PARSE", "SELECT"]
            .iter()
            .any(|first| word.eq_ignore_ascii_case(first));
        begins || clauses.iter().any(|c| clause(&c))
    };
    let Some(clause) = names(head)
        .filter(keyword)
        .last()
        .map(str::to_ascii_uppercase)
    else {
        return CompletionContext::Beginning;
    };
    let said = head.trim_end();
    let is_next =
        said.ends_with([',', '(']) || names(said).last().is_some_and(|last| keyword(&last));
    match clause.as_str() {
        "PARSE" | "JOIN" if is_next => CompletionContext::Parser,
        "FROM" if is_next && crate::grammar::is_sql(head) => CompletionContext::Parser,
        "PROCESS" => match head.rsplit_once('(') {
            Some((_, inside)) if inside.contains(')') => CompletionContext::Clause,
            Some((_, inside)) if inside.contains(':') => CompletionContext::Argument,
            _ => CompletionContext::Chain,
        },
        "SELECT" | "WHERE" | "GROUP" | "ORDER" | "HAVING" => CompletionContext::Field,
        _ => CompletionContext::Clause,
    }
}

/// Chains of blocks that extend an incomplete chain such as `group-co`.
fn chains(word: &str) -> Vec<String> {
    let ends = word
        .match_indices('-')
        .map(|(at, _)| at)
        .filter(|at| is_chain(&word[..*at]));
    let begins = ends.map(|at| &word[..=at]).chain([""]);
    begins
        .flat_map(|begin| {
            BLOCKS
                .iter()
                .map(move |block| format!("{begin}{}", block.name))
        })
        .collect()
}

fn is_chain(text: &str) -> bool {
    BLOCKS
        .iter()
        .any(|block| match text.strip_prefix(block.name) {
            Some("") => true,
            Some(rest) => rest.strip_prefix('-').is_some_and(is_chain),
            None => false,
        })
}

#[cfg(test)]
mod tests {
    use crate::test_schemas::schemas;

    /// Candidates at `|`.
    fn candidates(text: &str) -> Vec<String> {
        let at = text.find('|').expect("a cursor");
        super::complete_at(&text.replacen('|', "", 1), at, &schemas()).candidates
    }

    #[test]
    fn statements_are_completed() {
        for (text, offered, not) in [
            ("SELECT url, coun|", "count(", "client_ip"),
            ("SELECT sta| FROM http", "status", "command"),
            // Before FROM, columns of all parsers.
            ("SELECT finger|", "fingerprint", "http"),
            ("SELECT finger| FROM http", "", "fingerprint"),
            ("SELECT p9|", "p99(", "path"),
            ("SELECT * FROM |", "mysql_query", "status"),
            ("SELECT * FROM http JOIN tcp|", "tcp_conn_time", "status"),
            ("SELECT * FROM http WHERE cl|", "client", "status"),
            (
                "SELECT * FROM http WHERE status |",
                "between",
                "mysql_query",
            ),
            ("SELECT * FROM http GR|", "GROUP BY", "status"),
            ("SELECT url FROM http GROUP BY ho|", "host", "GROUP BY"),
            (
                "SELECT url, count(*) AS requests FROM http GROUP BY url ORDER BY re|",
                "requests",
                "path",
            ),
            ("SELECT count(*) FROM http WI|", "WINDOW", "url"),
        ] {
            let found = candidates(text);
            let has = |word: &str| found.iter().any(|candidate| candidate == word);
            assert!(
                (offered.is_empty() || has(offered)) && !has(not),
                "{text}: {found:?}"
            );
        }
    }
}
