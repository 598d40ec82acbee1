//! The grammar of the clauses that select columns and rows: SELECT, ORDER BY, and LIMIT.
//!
//! ```text
//! SELECT column {, column}       column = * | expr [AS name]
//! ORDER BY expr [ASC|DESC] {, expr [ASC|DESC]}
//! LIMIT limit {, limit}          limit = 90s | 5000p | n ROWS
//! ```

use plan::SortDirection;

use super::QueryReader;
use super::expr::ExprContext;
use crate::ast::{ParsedQuery, QueryExpr, SelectItem};
use crate::lexer::{TokenKind, WordShape};

impl QueryReader<'_> {
    /// Parses the columns of SELECT.
    pub(super) fn select(&mut self) -> Vec<SelectItem> {
        let mut selected = Vec::new();
        loop {
            let token = self.peek(WordShape::Value);
            if token.kind == TokenKind::Word && &self.text[token.span.range()] == "*" {
                self.at = token.span.end;
                selected.push(SelectItem::All(token.span));
            } else {
                match self.named_expr(ExprContext::Columns) {
                    Some(named) => selected.push(SelectItem::Column(named)),
                    None => self.skip_to(&[',', ';']),
                }
            }
            if self.eat(',').is_none() || self.at_end_of_list() {
                return selected;
            }
        }
    }

    /// Parses the keys of ORDER BY.
    pub(super) fn order_by(&mut self) -> Vec<(QueryExpr, SortDirection)> {
        if self.eat_word("by").is_none() {
            self.unexpected("`BY`");
        }
        self.order_keys()
    }

    /// `expr [ASC|DESC] {, …}`.
    pub(super) fn order_keys(&mut self) -> Vec<(QueryExpr, SortDirection)> {
        let mut keys = Vec::new();
        loop {
            keys.extend(self.order_key());
            if self.eat(',').is_none() || self.at_end_of_list() {
                return keys;
            }
        }
    }

    /// `expr [ASC|DESC]`.
    pub(super) fn order_key(&mut self) -> Option<(QueryExpr, SortDirection)> {
        let Some(mut key) = self.expr(ExprContext::Columns) else {
            self.skip_to(&[',', ')', ';']);
            return None;
        };
        self.name_in_quotes(&mut key);
        let descends = self.eat_word("desc").is_some();
        if !descends {
            self.eat_word("asc");
        }
        Some((
            key,
            if descends {
                SortDirection::Descending
            } else {
                SortDirection::Ascending
            },
        ))
    }

    /// Parses the limits of LIMIT.
    pub(super) fn limits(&mut self, query: &mut ParsedQuery) {
        let open = self.eat('(');
        loop {
            match self.atom(WordShape::Value) {
                Some(atom)
                    if self
                        .eat_word("rows")
                        .or_else(|| self.eat_word("row"))
                        .is_some() =>
                {
                    query.rows.push(atom)
                }
                Some(atom) => query.limits.push(atom),
                None if self.at_end_of_list()
                    && !(query.limits.is_empty() && query.rows.is_empty()) =>
                {
                    break;
                }
                None => {
                    self.unexpected("a limit such as 90s, 5000p or 20 rows");
                    self.skip_to(&[',', ')']);
                }
            }
            if self.eat(',').is_none() {
                break;
            }
        }
        self.close(open, "`,` or `)`");
    }
}
