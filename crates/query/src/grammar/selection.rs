//! The grammar of what stands behind a processor: which rows of its results are shown.
//!
//! ```text
//! selection = [HAVING condition] [ORDER BY keys] [LIMIT n ROWS]      in any order
//! keys      = column [ASC | DESC] {, column [ASC | DESC]}
//! ```

use plan::Direction;

use super::Reader;
use crate::Diagnostic;
use crate::ast::{Atom, Expr, Processor};
use crate::lexer::{self, Kind, Shape, Token};

impl Reader<'_> {
    /// What is said of the processor just read.
    pub(super) fn selection(&mut self, processor: &mut Processor) {
        loop {
            let token = self.peek(Shape::Value);
            let clause = match self.clause_of(&token) {
                Some(clause @ ("HAVING" | "ORDER")) => clause,
                Some("LIMIT") if self.limits_rows(&token) => "LIMIT n ROWS",
                Some(_) => return,
                None => match self.misspelt(&token) {
                    Some(meant) => meant,
                    None => return,
                },
            };
            let given = match clause {
                "HAVING" => processor.having.is_some(),
                "ORDER" => !processor.order_by.is_empty(),
                _ => processor.rows_max.is_some(),
            };
            if given {
                let message = format!("{clause} is given twice for one processor");
                self.report(Diagnostic::new(token.span, message));
            }
            self.at = token.span.end;
            match clause {
                "HAVING" => processor.having = self.having().or(processor.having.take()),
                "ORDER" => processor.order_by.extend(self.order_by()),
                _ => processor.rows_max = self.rows().or(processor.rows_max.take()),
            }
        }
    }

    /// A word behind a processor that no block resembles and one of its clauses does.
    fn misspelt(&mut self, token: &Token) -> Option<&'static str> {
        let word = &self.text[token.span.range()];
        let meant =
            crate::nearest::nearest(word, ["HAVING", "ORDER"]).filter(|_| token.kind == Kind::Word)?;
        let error = Diagnostic::new(token.span, format!("{} is not a clause", crate::error::quoted(word)));
        self.report(error.hint(format!("did you mean `{meant}`?")));
        Some(meant)
    }

    /// What follows HAVING.
    pub(super) fn having(&mut self) -> Option<Expr> {
        let condition = self.condition(0);
        let next = self.peek(Shape::Value);
        let ended =
            self.clause_of(&next).is_some() || matches!(next.kind, Kind::End | Kind::Mark(',' | '(' | ';'));
        if condition.is_some() && !ended {
            self.unexpected("`and`, `or`, another processor or a clause");
        }
        if condition.is_none() || !ended {
            self.skip_to(&['(', ';']);
        }
        condition
    }

    /// What follows ORDER.
    pub(super) fn order_by(&mut self) -> Vec<(Atom, Direction)> {
        let mut keys = Vec::new();
        if self.eat_word("by").is_none() {
            self.unexpected("`BY`");
        }
        loop {
            match self.atom(Shape::Name) {
                Some(column) => {
                    let descends = self.eat_word("desc").is_some();
                    if !descends {
                        self.eat_word("asc");
                    }
                    keys.push((column, if descends { Direction::Descending } else { Direction::Ascending }));
                }
                None => self.unexpected("a column of the results"),
            }
            let before = self.at;
            if self.eat(',').is_none() || self.peek(Shape::Name).kind != Kind::Word || self.at_end_of_list() {
                self.at = before;
                return keys;
            }
        }
    }

    /// Whether LIMIT, at `limit`, counts rows.
    fn limits_rows(&self, limit: &Token) -> bool {
        let number = lexer::token(self.text, limit.span.end, Shape::Value);
        let unit = lexer::token(self.text, number.span.end, Shape::Value);
        let unit = &self.text[unit.span.range()];
        number.kind == Kind::Word && ["rows", "row"].iter().any(|word| unit.eq_ignore_ascii_case(word))
    }

    /// `n ROWS`.
    fn rows(&mut self) -> Option<Atom> {
        let number = self.atom(Shape::Value);
        self.at = self.peek(Shape::Value).span.end;
        number
    }
}
