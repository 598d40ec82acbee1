//! An assertion: a condition over result columns, with an optional WHERE and quantifier.

use super::QueryReader;
use crate::Diagnostic;
use crate::ast::QueryExpr;
use crate::lexer::{TokenKind, WordShape};

/// Parses `condition [WHERE condition]`.
pub(crate) fn assertion(text: &str) -> (Option<(QueryExpr, Option<QueryExpr>)>, Vec<Diagnostic>) {
    let mut reader = QueryReader {
        text,
        at: 0,
        errors: Vec::new(),
        sql: None,
    };
    let condition = reader.condition_clause();
    let among = reader
        .eat_word("WHERE")
        .and_then(|_| reader.condition_clause());
    let next = reader.peek(WordShape::Value);
    if next.kind != TokenKind::End && reader.errors.is_empty() {
        reader.unexpected("the end of the assertion, or `WHERE` with a condition on rows");
    }
    (condition.map(|condition| (condition, among)), reader.errors)
}
