//! BUDGET: names and values, such as `cpu=5%, bandwidth=100Mbps`.

use plan::Compare;

use super::Reader;
use crate::Span;
use crate::ast::{Bound, Budget};
use crate::lexer::{Kind, Shape};

impl Reader<'_> {
    /// Parses the limits of BUDGET.
    pub(super) fn budget(&mut self) -> Budget {
        let span = Span::new(self.at - "BUDGET".len(), self.at);
        let mut bounds = Vec::new();
        loop {
            let Some(name) = self.atom(Shape::Name) else {
                self.unexpected("cpu=5% or bandwidth=100Mbps");
                break;
            };
            let equals = self.peek(Shape::Name);
            if equals.kind != Kind::Compare(Compare::Eq) {
                self.unexpected("`=` and how much, as in cpu=5%");
                break;
            }
            self.at = equals.span.end;
            let Some(value) = self.atom(Shape::Value) else {
                self.unexpected("how much, as 5% or 100Mbps");
                break;
            };
            bounds.push(Bound { name, value });
            if self.eat(',').is_none() {
                break;
            }
        }
        Budget { span, bounds }
    }
}
