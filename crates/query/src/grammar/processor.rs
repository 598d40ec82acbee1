//! The grammar of PROCESS. A value list goes on until the next `name=`.
//!
//! ```text
//! processors = processor [selection] {[,] processor [selection]}       processor = "(" name [":" args] ")" | name
//! args       = name "=" values {, name "=" values}      values = value {, value} | "(" value {, value} ")"
//!            | of "=" condition [AS name] {, condition [AS name]}      each condition in brackets
//! ```

use super::Reader;
use plan::Compare;

use crate::ast::{Arg, Atom, Condition, Expr, Processor};
use crate::lexer::{Kind, Shape};
use crate::{Diagnostic, Span};

impl Reader<'_> {
    /// What follows PROCESS.
    pub(super) fn processors(&mut self) -> Vec<Processor> {
        const WHAT: &str = "a processor such as (top-k: k=10)";
        let errors_before = self.errors.len();
        let mut processors = Vec::new();
        while !self.at_end_of_list() {
            if self.eat(',').is_some() {
                continue;
            }
            if let Some(open) = self.eat('(') {
                let mut processor = self.bracketed(open);
                processor.iter_mut().for_each(|processor| self.selection(processor));
                processors.extend(processor);
            } else if let Some(name) = self.atom(Shape::Name) {
                let mut processor = self.bare(name);
                self.selection(&mut processor);
                processors.push(processor);
            } else {
                self.unexpected(WHAT);
                self.at = self.peek(Shape::Name).span.end;
                self.skip_to(&['(', ',', ';']);
            }
        }
        if processors.is_empty() && self.errors.len() == errors_before {
            self.unexpected(WHAT);
        }
        processors
    }

    /// What follows `(`.
    fn bracketed(&mut self, open: Span) -> Option<Processor> {
        let Some(name) = self.atom(Shape::Name) else {
            self.unexpected("a processor's name");
            self.skip_to(&[')', ';']);
            self.eat(')');
            return None;
        };
        if self.eat(':').is_none() && self.at_arg() {
            self.unexpected("`:` between a processor's name and its arguments");
        }
        let args = self.args();
        self.close(Some(open), "`,` or `)`");
        Some(Processor { name, args, ..Processor::default() })
    }

    /// A processor without brackets has no arguments; those it is given are read and complained of.
    fn bare(&mut self, name: Atom) -> Processor {
        let args = match self.eat(':') {
            Some(_) => self.args(),
            None => Vec::new(),
        };
        if let Some(last) = args.last().and_then(|a| a.values.last()) {
            let error =
                Diagnostic::new(name.span.to(last.span), "a processor with arguments stands in brackets");
            let written = &self.text[name.span.to(last.span).range()];
            self.report(error.hint(format!("write {}", crate::error::quoted(&format!("({written})")))));
        }
        Processor { name, args, ..Processor::default() }
    }

    fn args(&mut self) -> Vec<Arg> {
        let mut args = Vec::new();
        while !self.at_end_of_list() {
            if self.eat(',').is_some() {
                continue;
            }
            if !self.at_arg() {
                self.unexpected("an argument such as `k=10`");
                self.skip_to(&[',', ')', ';']);
                continue;
            }
            let Some(name) = self.atom(Shape::Name) else { break };
            self.at = self.peek(Shape::Name).span.end;
            let conditions =
                if name.text.eq_ignore_ascii_case("of") { self.arg_conditions() } else { Vec::new() };
            let values = match conditions.as_slice() {
                [] => self.arg_values(),
                conditions => conditions.iter().map(|(place, _)| place.clone()).collect(),
            };
            let conditions = conditions.into_iter().map(|(_, named)| named).collect();
            args.extend((!values.is_empty()).then_some(Arg { name, values, conditions }));
            if self.at_arg() {
                self.unexpected("`,` before the next argument");
            }
        }
        args
    }

    fn arg_values(&mut self) -> Vec<Atom> {
        if self.peek(Shape::Name).kind == Kind::Mark('(') {
            return self.list(Shape::Name, "a value");
        }
        let mut values = Vec::new();
        loop {
            match self.atom(Shape::Name) {
                Some(value) => values.push(value),
                None => self.unexpected("a value"),
            }
            let before = self.at;
            if self.eat(',').is_none() || self.at_arg() || self.at_end_of_list() {
                self.at = before;
                return values;
            }
        }
    }

    /// Conditions, each in brackets, and as they are written; one that is just a column needs none.
    fn arg_conditions(&mut self) -> Vec<(Atom, Condition)> {
        let mut conditions = Vec::new();
        loop {
            let start = self.peek(Shape::Value).span.start;
            let expr = match self.eat('(') {
                Some(open) => {
                    let inner = self.condition(0);
                    if inner.is_none() {
                        self.skip_to(&[')', ';']);
                    }
                    self.close(Some(open), "`and`, `or` or `)`");
                    inner
                }
                None => self.bare_condition(),
            };
            let span = Span::new(start, self.at);
            let name = self.eat_word("as").and_then(|_| self.atom(Shape::Name));
            let Some(expr) = expr else { return conditions };
            let text = self.text[span.range()].to_owned();
            conditions.push((Atom { text, span, quoted: false }, Condition { expr, name }));
            let before = self.at;
            if self.eat(',').is_none() || self.at_arg() || self.at_end_of_list() {
                self.at = before;
                return conditions;
            }
        }
    }

    /// A condition without brackets: just a column; what is more is read and complained of.
    fn bare_condition(&mut self) -> Option<Expr> {
        let start = self.peek(Shape::Value).span.start;
        let column = self.atom(Shape::Name)?;
        if let Kind::Mark(_) | Kind::End = self.peek(Shape::Name).kind {
            return Some(Expr::Truth(column));
        }
        if self.peek(Shape::Name).kind == Kind::Word && self.eat_word("as").is_some() {
            self.at = column.span.end;
            return Some(Expr::Truth(column));
        }
        self.at = start;
        let condition = self.condition(0)?;
        let span = Span::new(start, self.at);
        let written = format!("of=({})", &self.text[span.range()]);
        let error = Diagnostic::new(span, "a condition stands in brackets");
        self.report(error.hint(format!("write {}", crate::error::quoted(&written))));
        Some(condition)
    }

    /// Whether `name=` comes next.
    fn at_arg(&self) -> bool {
        let name = self.peek(Shape::Name);
        let equals = crate::lexer::token(self.text, name.span.end, Shape::Name);
        name.kind == Kind::Word && equals.kind == Kind::Compare(Compare::Eq)
    }
}
