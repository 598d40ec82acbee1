//! The query language: translates text to a checked query, or returns all of its errors. A text is spelled with clauses
//! that begin with PARSE, or as a statement in SQL; both have the same syntax tree.
//!
//! [`check`] has three steps, each a module: `lexer` and `grammar` (text to [`ast`], with recovery at clauses and
//! list elements), `check` (names, types, and defaults: [`ast`] to [`CheckedQuery`]), `error` and `render` (messages).
//! Guarantees: no text causes panics, unbounded recursion, or more than approximately linear time. There is no access
//! to files or name servers: schemas and host names are arguments. Monitors and operators are determined elsewhere.

#![forbid(unsafe_code)]

mod aggregates;
mod aliases;
pub mod ast;
pub mod blocks;
mod check;
pub mod checked_query;
mod complete;
mod error;
mod functions;
mod grammar;
mod hosts;
mod iso_time;
mod lexer;
mod literal;
mod nearest;
pub mod period;
mod render;
mod spelling;
#[cfg(test)]
mod test_schemas;
mod unsupported_protocols;

use std::sync::Arc;

use tuple::Schema;

pub use check::assertion::{
    Assertion, AssertionScope, check_assertion, check_condition, rows_schema,
};
pub use checked_query::CheckedQuery;
pub use complete::{QueryCompletions, complete, complete_at};
pub use error::{Diagnostic, TextSpan};
pub use functions::{FUNCTIONS, FunctionDoc};
pub use hosts::{HostResolver, HostTable};
pub use period::{BaselinePeriod, PeriodMoment, TimePeriod};
pub use render::render;
pub use spelling::{parse_spelling, sql_spelling};

/// Maximum size of a query in bytes.
pub const QUERY_BYTES_MAX: usize = 64 * 1024;

/// Parses a duration in query syntax, `250ms` or `1h`, to nanoseconds; `None` if it is invalid.
#[must_use]
pub fn duration_ns(text: &str) -> Option<i64> {
    literal::duration_ns(text).ok()
}

/// Checks a query with the available parsers and known host names.
///
/// # Errors
/// All errors in the order of the text; [`render`] formats them.
pub fn check(
    text: &str,
    schemas: &[Arc<Schema>],
    hosts: &dyn HostResolver,
) -> Result<CheckedQuery, Vec<Diagnostic>> {
    ParsedText::new(text).check(schemas, hosts)
}

/// The same for a plan in a network, with BUDGET. Elsewhere BUDGET is an error, unless it limits the rate of SAMPLE
/// auto.
///
/// # Errors
/// As [`check`].
pub fn check_for_network(
    text: &str,
    schemas: &[Arc<Schema>],
    hosts: &dyn HostResolver,
) -> Result<CheckedQuery, Vec<Diagnostic>> {
    ParsedText::new(text).check_for_network(schemas, hosts)
}

/// The text of a query with its syntax tree, which can be checked with several tables of host names.
#[derive(Clone, Debug)]
pub struct ParsedText {
    text: String,
    ast: ast::ParsedQuery,
    errors: Vec<Diagnostic>,
}

impl ParsedText {
    /// Parses a text. A text longer than [`QUERY_BYTES_MAX`] has one error and no syntax tree.
    #[must_use]
    pub fn new(text: impl Into<String>) -> ParsedText {
        let text = text.into();
        let (ast, errors) = if text.len() > QUERY_BYTES_MAX {
            let message = format!(
                "the query has {} bytes, more than the limit of {QUERY_BYTES_MAX}",
                text.len()
            );
            (
                ast::ParsedQuery::default(),
                vec![Diagnostic::new(TextSpan::new(0, 0), message)],
            )
        } else {
            parse(&text)
        };
        ParsedText { text, ast, errors }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is a statement in SQL.
    #[must_use]
    pub fn is_sql(&self) -> bool {
        grammar::is_sql(&self.text)
    }

    /// The valid parts.
    #[must_use]
    pub fn ast(&self) -> &ast::ParsedQuery {
        &self.ast
    }

    /// As [`check`].
    ///
    /// # Errors
    /// As [`check`].
    pub fn check(
        &self,
        schemas: &[Arc<Schema>],
        hosts: &dyn HostResolver,
    ) -> Result<CheckedQuery, Vec<Diagnostic>> {
        self.check_as(schemas, hosts, false)
    }

    /// As [`check_for_network`].
    ///
    /// # Errors
    /// As [`check`].
    pub fn check_for_network(
        &self,
        schemas: &[Arc<Schema>],
        hosts: &dyn HostResolver,
    ) -> Result<CheckedQuery, Vec<Diagnostic>> {
        self.check_as(schemas, hosts, true)
    }

    fn check_as(
        &self,
        schemas: &[Arc<Schema>],
        hosts: &dyn HostResolver,
        heeds_budget: bool,
    ) -> Result<CheckedQuery, Vec<Diagnostic>> {
        let ParsedText { text, ast, errors } = self;
        let mut errors = errors.clone();
        if text.len() > QUERY_BYTES_MAX {
            return Err(errors);
        }
        let mut query = check::check(text, ast, schemas, hosts, &mut errors);
        if let (Some(clause), false) = (&ast.budget, heeds_budget) {
            check::goal::budget_of_rate(clause, query.as_mut(), &mut errors);
        }
        match query {
            Some(query) if errors.is_empty() => Ok(query),
            _ => Err(error::in_order(errors)),
        }
    }
}

/// Parses a query and returns its valid parts and all syntax errors. Names are not resolved.
#[must_use]
pub fn parse(text: &str) -> (ast::ParsedQuery, Vec<Diagnostic>) {
    grammar::query(text)
}
