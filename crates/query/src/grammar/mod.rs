//! The grammar of clauses and lists, by recursive descent. After an error, parsing continues at the next
//! comma, parenthesis, or clause, so that one pass finds all errors.
//!
//! ```text
//! query = PARSE names [SELECT columns] [FROM addresses] [TO addresses] [WHERE condition]… [SINCE time] [UNTIL time]
//!         [BASELINE earlier] [ORDER BY keys] [LIMIT limits] [SAMPLE rate [ERROR error]] [TAPS which]
//!         [BUDGET bounds] [PROCESS processors] [;]
//! ```
//!
//! A text that begins with SELECT is a statement in SQL, see `sql`.

pub(crate) mod assertion;
mod budget;
mod columns;
mod conditional;
mod conversions;
mod expr;
mod period;
mod processor;
mod selection;
mod sql;
mod sql_endpoints;
mod sql_tables;
mod sql_words;

use crate::ast::{Atom, ErrorBound, ParsedQuery};
use crate::lexer::{self, QueryToken, TokenKind, WordShape};
use crate::nearest::{nearest, one_of};
use crate::{Diagnostic, TextSpan, error};

/// The clauses in their usual order.
const CLAUSES: [&str; 14] = [
    "PARSE", "SELECT", "FROM", "TO", "WHERE", "SINCE", "UNTIL", "BASELINE", "ORDER", "LIMIT",
    "SAMPLE", "TAPS", "BUDGET", "PROCESS",
];
/// The clauses of SQL in their usual order.
const SQL_CLAUSES: [&str; 14] = [
    "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "WINDOW", "SINCE", "UNTIL",
    "BASELINE", "SAMPLE", "TAPS", "BUDGET",
];
/// The clause available only for processors.
const HAVING: &str = "HAVING";
/// Follows the rate of SAMPLE.
const ERROR: &str = "ERROR";

/// Parses a query; invalid parts are omitted and recorded as errors.
pub(crate) fn query(text: &str) -> (ParsedQuery, Vec<Diagnostic>) {
    let mut reader = QueryReader {
        text,
        at: 0,
        errors: Vec::new(),
        sql: None,
    };
    let query = reader.query();
    (query, reader.errors)
}

/// Whether a text is a statement in SQL.
pub(crate) fn is_sql(text: &str) -> bool {
    let first = lexer::token(text, 0, WordShape::Value);
    first.kind == TokenKind::Word && text[first.span.range()].eq_ignore_ascii_case("SELECT")
}

/// Position in the text, and the errors so far.
struct QueryReader<'a> {
    text: &'a str,
    at: usize,
    errors: Vec<Diagnostic>,
    /// In a statement in SQL, its clauses so far.
    sql: Option<sql::SqlClauses>,
}

impl<'a> QueryReader<'a> {
    fn query(&mut self) -> ParsedQuery {
        let mut query = ParsedQuery::default();
        let mut given: Vec<&'static str> = Vec::new();
        let first = self.peek(WordShape::Value);
        if is_sql(self.text) {
            self.sql = Some(sql::SqlClauses::default());
        } else if self.clause_of(&first) != Some("PARSE") {
            self.begins_wrongly(&first, &mut query, &mut given);
        }
        self.clauses_of_query(&mut query, given);
        self.translate(&mut query);
        query
    }

    fn clauses_of_query(&mut self, query: &mut ParsedQuery, mut given: Vec<&'static str>) {
        loop {
            let token = self.peek(WordShape::Value);
            match self.clause_of(&token) {
                Some(clause) => {
                    self.at = token.span.end;
                    if given.contains(&clause) && !["WHERE", HAVING].contains(&clause) {
                        self.report(Diagnostic::new(
                            token.span,
                            format!("{clause} is given twice"),
                        ));
                    }
                    given.push(clause);
                    self.clause(clause, query);
                }
                None if token.kind == TokenKind::End => return,
                None if token.kind == TokenKind::Mark(';') => {
                    self.at = token.span.end;
                    return self.end_of_query();
                }
                None => {
                    if let Some(meant) = self.not_a_clause(&token, &given) {
                        given.push(meant);
                        self.clause(meant, query);
                    }
                }
            }
        }
    }

    fn clause(&mut self, clause: &str, query: &mut ParsedQuery) {
        if self.sql_clause(clause, query) {
            return;
        }
        match clause {
            "PARSE" => query
                .parsers
                .extend(self.list(WordShape::Name, "a parser's name")),
            "FROM" => query
                .from
                .extend(self.list(WordShape::Value, "an address or `*`")),
            "TO" => query
                .to
                .extend(self.list(WordShape::Value, "an address or `*`")),
            "WHERE" => query.filters.extend(self.condition_clause()),
            "SELECT" => {
                self.distinct_or_top();
                query.select.extend(self.select());
            }
            "SINCE" => query.since = self.moment().or(query.since.take()),
            "UNTIL" => query.until = self.moment().or(query.until.take()),
            "BASELINE" => query.baseline = Some(self.baseline()),
            "ORDER" => query.order.extend(self.order_by()),
            "LIMIT" => self.limits_behind(query),
            "SAMPLE" => {
                query.sample = self.sample().or(query.sample.take());
                query.error = self.error_bound().or(query.error.take());
            }
            "TAPS" => query.taps = self.taps().or(query.taps.take()),
            "BUDGET" => query.budget = Some(self.budget()),
            HAVING => self.having_without_processor(),
            _ => query.processors.extend(self.processors()),
        }
    }

    fn sample(&mut self) -> Option<Atom> {
        let atom = self.atom(WordShape::Value);
        if atom.is_none() {
            self.unexpected("a rate such as 0.1, 1/1000, auto or *");
        }
        atom
    }

    /// Parses ERROR after a rate, if it is next.
    fn error_bound(&mut self) -> Option<ErrorBound> {
        let span = self.eat_word(ERROR)?;
        let value = self.atom(WordShape::Value);
        if value.is_none() {
            self.unexpected("an error such as 5%");
        }
        Some(ErrorBound {
            span,
            value: value?,
        })
    }

    fn taps(&mut self) -> Option<Atom> {
        let atom = self.atom(WordShape::Name);
        if atom.is_none() {
            self.unexpected("server, client or all");
        }
        atom
    }

    /// Parses `a, b, c` with optional parentheses and an optional trailing comma.
    fn list(&mut self, shape: WordShape, what: &str) -> Vec<Atom> {
        let errors_before = self.errors.len();
        let open = self.eat('(');
        let mut atoms = Vec::new();
        loop {
            match self.atom(shape) {
                Some(atom) => atoms.push(atom),
                None if self.at_end_of_list() => break,
                None => {
                    self.unexpected(what);
                    self.skip_to(&[',', ')']);
                }
            }
            if self.eat(',').is_none() {
                break;
            }
        }
        if atoms.is_empty() && self.errors.len() == errors_before {
            self.unexpected(what);
        }
        self.close(open, "`,` or `)`");
        atoms
    }

    fn at_end_of_list(&self) -> bool {
        let token = self.peek(WordShape::Value);
        self.clause_of(&token).is_some()
            || matches!(token.kind, TokenKind::End | TokenKind::Mark(')' | ';'))
    }

    /// Parses the `)` that matches `open`, if any.
    fn close(&mut self, open: Option<TextSpan>, expected: &str) {
        let Some(open) = open else { return };
        if self.eat(')').is_some() {
            return;
        }
        let token = self.peek(WordShape::Value);
        if self.clause_of(&token).is_some() || token.kind == TokenKind::End {
            self.report(
                Diagnostic::new(open, "this `(` is not closed").hint("add the missing `)`"),
            );
        } else {
            self.unexpected(expected);
            self.skip_to(&[')']);
            self.eat(')');
        }
    }

    /// Handles a first word other than PARSE. A similar word is treated as PARSE; another clause is processed later.
    fn begins_wrongly(
        &mut self,
        token: &QueryToken,
        query: &mut ParsedQuery,
        given: &mut Vec<&'static str>,
    ) {
        let word = &self.text[token.span.range()];
        if token.kind == TokenKind::End {
            let empty = Diagnostic::new(token.span, "the query is empty");
            return self.report(empty.expected("`PARSE` and the names of parsers"));
        }
        let error = Diagnostic::new(token.span, "a query begins with PARSE or SELECT");
        if let Some(hint) = sql_words::statement_hint(word) {
            self.report(error.hint(hint));
            self.at = self.text.len();
            return;
        }
        if token.kind == TokenKind::Word && nearest(word, ["PARSE"]).is_some() {
            self.report(error.hint("did you mean `PARSE`?"));
            self.at = token.span.end;
            given.push("PARSE");
            return self.clause("PARSE", query);
        }
        self.report(error.hint("name the parsers first: PARSE http_get FROM …"));
        if self.clause_of(token).is_none() {
            self.at = token.span.end;
            self.skip_to(&[]);
        }
    }

    /// Handles a token that is neither a clause nor the end. A word similar to a missing clause is treated as that
    /// clause; otherwise parsing continues at the next clause.
    fn not_a_clause(&mut self, token: &QueryToken, given: &[&str]) -> Option<&'static str> {
        let word = &self.text[token.span.range()];
        if token.kind == TokenKind::Word && ERROR.eq_ignore_ascii_case(word) {
            self.report(
                Diagnostic::new(token.span, "ERROR is not a clause of its own")
                    .hint("it follows the rate: SAMPLE auto ERROR 5%"),
            );
            self.at = token.span.end;
            self.skip_to(&[';']);
            return None;
        }
        if self.skips_other_clause(token) {
            return None;
        }
        let left = self
            .clauses()
            .iter()
            .copied()
            .filter(|c| *c == "WHERE" || !given.contains(c));
        let meant = if token.kind == TokenKind::Word {
            nearest(word, left.clone())
        } else {
            None
        };
        if let Some(meant) = meant {
            let error = Diagnostic::new(
                token.span,
                format!("{} is not a clause", error::quoted(word)),
            );
            self.report(error.hint(format!("did you mean `{meant}`?")));
        } else {
            self.unexpected(&format!("`,` or a clause: {}", one_of(left)));
        }
        self.at = token.span.end;
        if meant.is_none() {
            self.skip_to(&[';']);
        }
        meant
    }

    fn end_of_query(&mut self) {
        let token = self.peek(WordShape::Value);
        if token.kind != TokenKind::End {
            self.report(Diagnostic::new(
                token.span,
                "text after `;`: only one query is allowed",
            ));
        }
    }

    /// The clause that a word begins.
    fn clause_of(&self, token: &QueryToken) -> Option<&'static str> {
        let word = &self.text[token.span.range()];
        let is_word = token.kind == TokenKind::Word && !self.is_column(token);
        let clauses = self.clauses().iter().copied().chain([HAVING]);
        clauses
            .into_iter()
            .find(|clause| is_word && clause.eq_ignore_ascii_case(word))
    }

    fn clauses(&self) -> &'static [&'static str] {
        match self.sql {
            Some(_) => &SQL_CLAUSES,
            None => &CLAUSES,
        }
    }

    fn peek(&self, shape: WordShape) -> QueryToken {
        lexer::token(self.text, self.at, shape)
    }

    /// Consumes a mark if it is next.
    fn eat(&mut self, mark: char) -> Option<TextSpan> {
        let token = self.peek(WordShape::Name);
        (token.kind == TokenKind::Mark(mark)).then(|| {
            self.at = token.span.end;
            token.span
        })
    }

    /// Consumes a word other than a clause, or quoted text, if it is next.
    fn atom(&mut self, shape: WordShape) -> Option<Atom> {
        let token = self.peek(shape);
        let clause = self.clause_of(&token).is_some();
        let (text, quoted) = match token.kind {
            TokenKind::Word if !clause => (self.text[token.span.range()].to_owned(), false),
            TokenKind::Quoted(text) => (text, true),
            _ => return None,
        };
        self.at = token.span.end;
        Some(Atom {
            text,
            span: token.span,
            quoted,
        })
    }

    /// Consumes this word if it is next.
    fn eat_word(&mut self, word: &str) -> Option<TextSpan> {
        let token = self.peek(WordShape::Value);
        let is_it = token.kind == TokenKind::Word
            && self.text[token.span.range()].eq_ignore_ascii_case(word);
        is_it.then(|| {
            self.at = token.span.end;
            token.span
        })
    }

    /// Skips to the next of `marks` (not consumed), the next clause, or the end.
    fn skip_to(&mut self, marks: &[char]) {
        loop {
            let token = self.peek(WordShape::Value);
            match token.kind {
                TokenKind::End => return,
                TokenKind::Mark(mark) if marks.contains(&mark) => return,
                TokenKind::Word if self.clause_of(&token).is_some() => return,
                _ => self.at = token.span.end,
            }
        }
    }

    /// Reports an unexpected token.
    fn unexpected(&mut self, expected: &str) {
        let token = self.peek(WordShape::Value);
        let found = error::quoted(&self.text[token.span.range()]);
        let error = match token.kind {
            TokenKind::End => {
                Diagnostic::new(token.span, "the query is incomplete").expected(expected)
            }
            TokenKind::Unterminated => {
                Diagnostic::new(token.span, "this text has no closing quote")
                    .hint("add the missing quote")
            }
            TokenKind::Stray('`') => Diagnostic::new(token.span, format!("unexpected {found}"))
                .hint("names have no quotes, or \" in SQL; quotes of text are ' or \""),
            TokenKind::Stray('‘' | '’' | '“' | '”') => {
                Diagnostic::new(token.span, format!("unexpected {found}"))
                    .hint("quotes are ' or \"")
            }
            _ => Diagnostic::new(token.span, format!("unexpected {found}")).expected(expected),
        };
        self.report(error);
    }

    fn report(&mut self, error: Diagnostic) {
        self.errors.push(error);
    }
}
