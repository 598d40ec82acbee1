//! An assertion: a condition over result columns, with an optional WHERE and quantifier.

use super::Reader;
use crate::Diagnostic;
use crate::ast::Expr;
use crate::lexer::{Kind, Shape};

/// Parses `condition [WHERE condition]`.
pub(crate) fn assertion(text: &str) -> (Option<(Expr, Option<Expr>)>, Vec<Diagnostic>) {
    let mut reader = Reader { text, at: 0, errors: Vec::new() };
    let condition = reader.condition_clause();
    let among = reader.eat_word("WHERE").and_then(|_| reader.condition_clause());
    let next = reader.peek(Shape::Value);
    if next.kind != Kind::End && reader.errors.is_empty() {
        reader.unexpected("the end of the assertion, or `WHERE` and which rows it is about");
    }
    (condition.map(|condition| (condition, among)), reader.errors)
}
