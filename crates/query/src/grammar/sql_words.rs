//! Words of statements in SQL: names in double quotes and after expressions, DISTINCT, and words of other databases,
//! which lead to what the language has instead.

use super::QueryReader;
use super::expr::{CASE_WORDS, WORDS};
use super::sql_tables::continues_from;
use crate::ast::{Atom, ExprForm, QueryExpr};
use crate::lexer::{self, QueryToken, TokenKind, WordShape};
use crate::nearest::nearest;
use crate::{Diagnostic, literal};

/// Words of clauses that the language lacks, with a message and a hint.
const OTHER_CLAUSES: &[(&str, &str, &str)] = &[
    (
        "offset",
        "rows cannot be skipped",
        "omit OFFSET: ORDER BY with LIMIT returns the first rows",
    ),
    ("fetch", "FETCH is not a clause", "write LIMIT 5"),
    ("union", "UNION is not supported", "run one query each"),
    (
        "intersect",
        "INTERSECT is not supported",
        "run one query each",
    ),
    ("except", "EXCEPT is not supported", "run one query each"),
    ("qualify", "QUALIFY is not supported", "write HAVING"),
    (
        "nulls",
        "the order of null is fixed",
        "omit NULLS: null is first, with DESC last",
    ),
];

/// First words of statements that are no query, with a hint.
const OTHER_STATEMENTS: &[(&[&str], &str)] = &[
    (
        &["show", "describe", "desc"],
        "the command netalytics parsers lists the parsers and their fields",
    ),
    (
        &["explain", "analyze"],
        "the command netalytics explain 'QUERY' prints the plan",
    ),
    (
        &["with"],
        "run two queries, or write the conditions into one WHERE",
    ),
];

/// Clauses that only the other spelling of a query has: no names, so that a statement can be printed in it.
const OTHER_SPELLING: &[&str] = &["parse", "process"];

/// A hint for a statement that begins with this word.
pub(super) fn statement_hint(word: &str) -> Option<&'static str> {
    let is_it = |known: &&str| known.eq_ignore_ascii_case(word);
    OTHER_STATEMENTS
        .iter()
        .find(|(words, _)| words.iter().any(is_it))
        .map(|(_, hint)| *hint)
}

impl QueryReader<'_> {
    /// Parses DISTINCT after SELECT; reports TOP.
    pub(super) fn distinct_or_top(&mut self) {
        let Some(sql) = &mut self.sql else { return };
        let first = lexer::token(self.text, self.at, WordShape::Value);
        let second = lexer::token(self.text, first.span.end, WordShape::Value);
        let word = &self.text[first.span.range()];
        let number = &self.text[second.span.range()];
        if word.eq_ignore_ascii_case("distinct") {
            sql.is_distinct = true;
            self.at = first.span.end;
        } else if word.eq_ignore_ascii_case("top")
            && number.starts_with(|c: char| c.is_ascii_digit())
        {
            let error = Diagnostic::new(first.span, "TOP is not supported");
            self.report(error.hint(format!("write LIMIT {number} at the end")));
            self.at = second.span.end;
        }
    }

    /// The name that a word after an expression or a parser gives it.
    pub(super) fn alias_at(&self, token: &QueryToken) -> Option<Atom> {
        self.sql.as_ref()?;
        let word = &self.text[token.span.range()];
        let (text, quoted) = match &token.kind {
            TokenKind::Quoted(text) => (text.clone(), true),
            TokenKind::Word => (word.to_owned(), false),
            _ => return None,
        };
        let is_name = word.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && word.chars().all(|c| c.is_alphanumeric() || c == '_');
        let is_reserved = WORDS
            .iter()
            .chain(&CASE_WORDS)
            .any(|known| known.eq_ignore_ascii_case(word))
            || continues_from(word)
            || other_clause(word).is_some()
            || self.clause_of(token).is_some()
            || OTHER_SPELLING
                .iter()
                .any(|known| known.eq_ignore_ascii_case(word));
        // A misspelt clause is no name.
        let is_misspelt = nearest(word, self.clauses().iter().copied())
            .is_some_and(|clause| clause.len().abs_diff(word.len()) <= 1);
        let is_alias = quoted || (is_name && !is_reserved && !is_misspelt);
        is_alias.then_some(Atom {
            text,
            span: token.span,
            quoted,
        })
    }

    /// Makes an expression that consists of text in double quotes a name.
    pub(super) fn name_in_quotes(&self, expr: &mut QueryExpr) {
        if let ExprForm::Atom(atom) = &mut expr.form
            && self.sql.is_some()
            && self.text[atom.span.range()].starts_with('"')
        {
            atom.quoted = false;
        }
    }

    /// Whether a word is a column although a clause has its name: WINDOW before an operator, a clause, or the end.
    pub(super) fn is_column(&self, token: &QueryToken) -> bool {
        if self.sql.is_none() || !self.text[token.span.range()].eq_ignore_ascii_case("window") {
            return false;
        }
        let next = lexer::token(self.text, token.span.end, WordShape::Value);
        let word = &self.text[next.span.range()];
        let is_known = self
            .clauses()
            .iter()
            .chain(&WORDS)
            .any(|known| known.eq_ignore_ascii_case(word));
        let is_operator = word.starts_with(['+', '-', '*', '/', '%']);
        match next.kind {
            TokenKind::Word => is_known || (is_operator && literal::duration_ns(word).is_err()),
            TokenKind::Quoted(_) => false,
            _ => true,
        }
    }

    /// Whether a word begins a clause of other databases.
    pub(super) fn begins_other_clause(&self, token: &QueryToken) -> bool {
        self.sql.is_some() && other_clause(&self.text[token.span.range()]).is_some()
    }

    /// Reports a clause of other databases and skips the rest.
    pub(super) fn skips_other_clause(&mut self, token: &QueryToken) -> bool {
        let Some((_, message, hint)) =
            other_clause(&self.text[token.span.range()]).filter(|_| self.sql.is_some())
        else {
            return false;
        };
        self.report(Diagnostic::new(token.span, *message).hint(*hint));
        self.at = self.text.len();
        true
    }
}

fn other_clause(word: &str) -> Option<&'static (&'static str, &'static str, &'static str)> {
    OTHER_CLAUSES
        .iter()
        .find(|(known, ..)| known.eq_ignore_ascii_case(word))
}
