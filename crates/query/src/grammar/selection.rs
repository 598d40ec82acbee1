//! The grammar of the clauses after a processor, which select its result rows.
//!
//! ```text
//! selection = [HAVING condition] [ORDER BY keys] [LIMIT n ROWS]      in any order
//! keys      = expr [ASC | DESC] {, expr [ASC | DESC]}
//! ```

use plan::SortDirection;

use super::expr::ExprContext;
use super::{HAVING, QueryReader};
use crate::ast::{Atom, ParsedQuery, ProcessorClause, QueryExpr};
use crate::lexer::{self, QueryToken, TokenKind, WordShape};
use crate::{Diagnostic, TextSpan};

impl QueryReader<'_> {
    /// Parses HAVING, ORDER BY, and LIMIT n ROWS of the processor just read.
    pub(super) fn selection(&mut self, processor: &mut ProcessorClause) {
        loop {
            let token = self.peek(WordShape::Value);
            let clause = match self.clause_of(&token) {
                Some(clause @ (HAVING | "ORDER")) => clause,
                Some("LIMIT") if self.limits_rows(&token) => "LIMIT n ROWS",
                Some(_) => return,
                None => match self.misspelt(&token) {
                    Some(meant) => meant,
                    None => return,
                },
            };
            let given = match clause {
                HAVING => processor.having.is_some(),
                "ORDER" => !processor.order_by.is_empty(),
                _ => processor.rows_max.is_some(),
            };
            if given {
                let message = format!("{clause} is given twice for one processor");
                self.report(Diagnostic::new(token.span, message));
            }
            self.at = token.span.end;
            match clause {
                HAVING => processor.having = self.having().or(processor.having.take()),
                "ORDER" => processor.order_by.extend(self.keys()),
                _ => processor.rows_max = self.rows().or(processor.rows_max.take()),
            }
        }
    }

    /// Handles HAVING without a processor.
    pub(super) fn having_without_processor(&mut self) {
        let place = TextSpan::new(self.at - HAVING.len(), self.at);
        let error = Diagnostic::new(
            place,
            "HAVING belongs after a processor, whose rows it filters",
        );
        self.report(
            error.hint(
                "as in PROCESS (group-count) HAVING count > 10; tuples are filtered by WHERE",
            ),
        );
        self.having();
    }

    /// Parses LIMIT; a row limit belongs to the preceding processor, if any.
    pub(super) fn limits_behind(&mut self, query: &mut ParsedQuery) {
        self.limits(query);
        if let (Some(processor), false) = (query.processors.last_mut(), query.rows.is_empty()) {
            processor.rows_max = query.rows.pop();
        }
    }

    /// Handles a word after a processor that is similar to a clause but not to a block.
    fn misspelt(&mut self, token: &QueryToken) -> Option<&'static str> {
        let word = &self.text[token.span.range()];
        let meant = crate::nearest::nearest(word, [HAVING, "ORDER"])
            .filter(|_| token.kind == TokenKind::Word)?;
        let error = Diagnostic::new(
            token.span,
            format!("{} is not a clause", crate::error::quoted(word)),
        );
        self.report(error.hint(format!("did you mean `{meant}`?")));
        Some(meant)
    }

    /// Parses the condition of HAVING.
    pub(super) fn having(&mut self) -> Option<QueryExpr> {
        let condition = self.expr(ExprContext::Condition);
        let next = self.peek(WordShape::Value);
        let ended = self.begins_clause(&next)
            || matches!(next.kind, TokenKind::End | TokenKind::Mark(',' | '(' | ';'));
        if condition.is_some() && !ended {
            self.unexpected("`and`, `or`, another processor or a clause");
        }
        if condition.is_none() || !ended {
            self.skip_to(&['(', ';']);
        }
        condition
    }

    /// Parses the keys of ORDER BY. A comma before a parenthesis ends the keys: another processor follows.
    fn keys(&mut self) -> Vec<(QueryExpr, SortDirection)> {
        if self.eat_word("by").is_none() {
            self.unexpected("`BY`");
        }
        let mut keys = Vec::new();
        loop {
            keys.extend(self.order_key());
            let before = self.at;
            let goes_on = self.eat(',').is_some() && !self.at_end_of_list();
            if !goes_on || self.peek(WordShape::Name).kind == TokenKind::Mark('(') {
                self.at = before;
                return keys;
            }
        }
    }

    /// Whether LIMIT, at `limit`, has only a row limit.
    fn limits_rows(&self, limit: &QueryToken) -> bool {
        let next = |at: usize| lexer::token(self.text, at, WordShape::Value);
        let number = next(limit.span.end);
        let unit = next(number.span.end);
        let word = &self.text[unit.span.range()];
        let is_unit = ["rows", "row"]
            .iter()
            .any(|name| word.eq_ignore_ascii_case(name));
        let after = next(unit.span.end);
        let another = &self.text[next(after.span.end).span.range()];
        let goes_on =
            after.kind == TokenKind::Mark(',') && another.starts_with(|c: char| c.is_ascii_digit());
        number.kind == TokenKind::Word && is_unit && !goes_on
    }

    /// `n ROWS`.
    fn rows(&mut self) -> Option<Atom> {
        let number = self.atom(WordShape::Value);
        self.at = self.peek(WordShape::Value).span.end;
        number
    }
}
