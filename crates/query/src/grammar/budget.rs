//! BUDGET: names and values, such as `cpu=5%, bandwidth=100Mbps`.

use plan::ComparisonOperator;

use super::QueryReader;
use crate::TextSpan;
use crate::ast::{BudgetBound, BudgetClause};
use crate::lexer::{TokenKind, WordShape};

impl QueryReader<'_> {
    /// Parses the limits of BUDGET.
    pub(super) fn budget(&mut self) -> BudgetClause {
        let span = TextSpan::new(self.at - "BUDGET".len(), self.at);
        let mut bounds = Vec::new();
        loop {
            let Some(name) = self.atom(WordShape::Name) else {
                self.unexpected("cpu=5% or bandwidth=100Mbps");
                break;
            };
            let equals = self.peek(WordShape::Name);
            if equals.kind != TokenKind::Compare(ComparisonOperator::Eq) {
                self.unexpected("`=` and a limit, as in cpu=5%");
                break;
            }
            self.at = equals.span.end;
            let Some(value) = self.atom(WordShape::Value) else {
                self.unexpected("a limit such as 5% or 100Mbps");
                break;
            };
            bounds.push(BudgetBound { name, value });
            if self.eat(',').is_none() {
                break;
            }
        }
        BudgetClause { span, bounds }
    }
}
