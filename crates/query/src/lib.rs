//! The query language: a text in, a checked query or every one of its errors out.
//!
//! [`check`] goes through three steps, each a module: `lexer` and `grammar` (text to [`ast`], recovering at clause and
//! list borders), `check` (names, types and defaults: [`ast`] to [`Query`]), `error` and `render` (what people read).
//! Promises: no text makes it panic, recurse without bound or take more than about linear time. Reads no file and
//! asks no name server: schemas and host names are arguments. Decides nothing about monitors and operators.

#![forbid(unsafe_code)]

mod aliases;
pub mod ast;
pub mod blocks;
mod check;
pub mod checked;
mod complete;
mod error;
mod grammar;
mod hosts;
mod iso_time;
mod lexer;
mod literal;
mod nearest;
pub mod period;
mod render;
#[cfg(test)]
mod test_schemas;
mod unread;

use std::sync::Arc;

use tuple::Schema;

pub use check::assertion::{Assertion, Rows, check_assertion, check_condition, rows_schema};
pub use check::functions::{FUNCTIONS, Function};
pub use checked::Query;
pub use complete::{Completions, complete};
pub use error::{Diagnostic, Span};
pub use hosts::{HostTable, Hosts};
pub use period::{Baseline, Moment, Period};
pub use render::render;

/// Longest query that is read.
pub const QUERY_BYTES_MAX: usize = 64 * 1024;

/// A length of time as queries write it, `250ms` or `1h`, in nanoseconds; `None` where it is none.
#[must_use]
pub fn duration_ns(text: &str) -> Option<i64> {
    literal::duration_ns(text).ok()
}

/// Reads a query against the parsers there are and the host names that are known.
///
/// # Errors
/// Everything that is wrong with it, in the order of the text; [`render`] makes it readable.
pub fn check(text: &str, schemas: &[Arc<Schema>], hosts: &dyn Hosts) -> Result<Query, Vec<Diagnostic>> {
    check_as(text, schemas, hosts, false)
}

/// The same for a plan in a network, with BUDGET. Elsewhere BUDGET is an error, because it would have no effect.
///
/// # Errors
/// As [`check`].
pub fn check_for_network(
    text: &str,
    schemas: &[Arc<Schema>],
    hosts: &dyn Hosts,
) -> Result<Query, Vec<Diagnostic>> {
    check_as(text, schemas, hosts, true)
}

fn check_as(
    text: &str,
    schemas: &[Arc<Schema>],
    hosts: &dyn Hosts,
    heeds_budget: bool,
) -> Result<Query, Vec<Diagnostic>> {
    if text.len() > QUERY_BYTES_MAX {
        let message = format!("the query has {} bytes; at most {QUERY_BYTES_MAX} are read", text.len());
        return Err(vec![Diagnostic::new(Span::new(0, 0), message)]);
    }
    let (ast, mut errors) = parse(text);
    let query = check::check(text, &ast, schemas, hosts, &mut errors);
    errors.extend(ast.budget.iter().filter(|_| !heeds_budget).map(check::budget::unheeded));
    match query {
        Some(query) if errors.is_empty() => Ok(query),
        _ => Err(error::in_order(errors)),
    }
}

/// The text's structure as far as it has one, and what is wrong with the rest. Names are not looked up.
#[must_use]
pub fn parse(text: &str) -> (ast::Query, Vec<Diagnostic>) {
    grammar::query(text)
}
