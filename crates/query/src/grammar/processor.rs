//! The grammar of PROCESS. A value list extends to the next `name=`.
//!
//! ```text
//! processors = processor [selection] {[,] processor [selection]}       processor = "(" name [":" args] ")" | name
//! args       = name "=" values {, name "=" values}      values = value {, value} | "(" value {, value} ")"
//!            | of "=" condition [AS name] {, condition [AS name]}      each condition in parentheses
//! ```

use plan::ComparisonOperator;

use super::QueryReader;
use super::expr::ExprContext;

use crate::ast::{Atom, ExprForm, NamedExpr, ProcessorArg, ProcessorClause};
use crate::lexer::{QueryToken, TokenKind, WordShape};
use crate::{Diagnostic, TextSpan};

impl QueryReader<'_> {
    /// Parses the processors of PROCESS.
    pub(super) fn processors(&mut self) -> Vec<ProcessorClause> {
        const WHAT: &str = "a processor such as (top-k: k=10)";
        let errors_before = self.errors.len();
        let mut processors = Vec::new();
        while !self.at_end_of_list() && !self.begins_clause(&self.peek(WordShape::Value)) {
            if self.eat(',').is_some() {
                continue;
            }
            if let Some(open) = self.eat('(') {
                let mut processor = self.bracketed(open);
                processor
                    .iter_mut()
                    .for_each(|processor| self.selection(processor));
                processors.extend(processor);
            } else if let Some(name) = self.atom(WordShape::Name) {
                let mut processor = self.bare(name);
                self.selection(&mut processor);
                processors.push(processor);
            } else {
                self.unexpected(WHAT);
                self.at = self.peek(WordShape::Name).span.end;
                self.skip_to(&['(', ',', ';']);
            }
        }
        if processors.is_empty() && self.errors.len() == errors_before {
            self.unexpected(WHAT);
        }
        processors
    }

    /// Parses the part after `(`.
    fn bracketed(&mut self, open: TextSpan) -> Option<ProcessorClause> {
        let Some(name) = self.atom(WordShape::Name) else {
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
        Some(ProcessorClause {
            name,
            args,
            ..ProcessorClause::default()
        })
    }

    /// A processor without parentheses has no arguments; any that follow are parsed and reported.
    fn bare(&mut self, name: Atom) -> ProcessorClause {
        let args = match self.eat(':') {
            Some(_) => self.args(),
            None => Vec::new(),
        };
        if let Some(last) = args.last().and_then(|a| a.values.last()) {
            let error = Diagnostic::new(
                name.span.to(last.span),
                "write a processor with arguments in parentheses",
            );
            let written = &self.text[name.span.to(last.span).range()];
            self.report(error.hint(format!(
                "write {}",
                crate::error::quoted(&format!("({written})"))
            )));
        }
        ProcessorClause {
            name,
            args,
            ..ProcessorClause::default()
        }
    }

    fn args(&mut self) -> Vec<ProcessorArg> {
        let mut args = Vec::new();
        while !self.at_end_of_list() {
            if self.eat(',').is_some() {
                continue;
            }
            if !self.at_arg() {
                let word = self.peek(WordShape::Name);
                self.unexpected("an argument such as `k=10`");
                if let (TokenKind::Word, Some(error)) = (word.kind, self.errors.last_mut()) {
                    let text = &self.text[word.span.range()];
                    error.hint = Some(format!("did you mean `group={text}`?"));
                }
                self.skip_to(&[',', ')', ';']);
                continue;
            }
            let Some(name) = self.atom(WordShape::Name) else {
                break;
            };
            self.at = self.peek(WordShape::Name).span.end;
            let is_one_of =
                |args: &[&str]| args.iter().any(|arg| name.text.eq_ignore_ascii_case(arg));
            let of_columns = is_one_of(&["group", "value", "key", "by", "columns"]);
            let of_conditions = is_one_of(&["of"]);
            let columns = match (of_columns, of_conditions) {
                (true, _) => self.arg_columns(),
                (_, true) => self.column_list(),
                _ => Vec::new(),
            };
            let has_columns = of_columns || of_conditions;
            let values = if has_columns {
                self.texts_of(&columns)
            } else {
                self.arg_values()
            };
            args.extend((!values.is_empty()).then_some(ProcessorArg {
                name,
                values,
                columns,
            }));
            if self.at_arg() {
                self.unexpected("`,` before the next argument");
            }
        }
        args
    }

    fn arg_values(&mut self) -> Vec<Atom> {
        if self.peek(WordShape::Name).kind == TokenKind::Mark('(') {
            return self.list(WordShape::Name, "a value");
        }
        let mut values = Vec::new();
        loop {
            match self.atom(WordShape::Name) {
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

    /// Parses columns, which may be computed.
    fn arg_columns(&mut self) -> Vec<NamedExpr> {
        let start = self.at;
        let errors = self.errors.len();
        if let Some(open) = self.eat('(') {
            let columns = self.column_list();
            self.eat(',');
            // `(a + b) / c` is not a list in parentheses.
            let after = crate::lexer::token(
                self.text,
                self.peek(WordShape::Name).span.end,
                WordShape::Name,
            );
            let goes_on = !matches!(after.kind, TokenKind::Mark(_) | TokenKind::End)
                && columns.len() == 1
                && !self.is_arg(&after);
            if !goes_on || self.peek(WordShape::Name).kind != TokenKind::Mark(')') {
                self.close(Some(open), "`,` or `)`");
                return columns;
            }
            self.at = start;
            self.errors.truncate(errors);
        }
        self.column_list()
    }

    fn column_list(&mut self) -> Vec<NamedExpr> {
        let mut columns = Vec::new();
        loop {
            match self.named_expr(ExprContext::Argument) {
                Some(mut named) => {
                    // A column name may be quoted here.
                    if let ExprForm::Atom(atom) = &mut named.expr.form {
                        atom.quoted = false;
                    }
                    columns.push(named);
                }
                None => self.skip_to(&[',', ')', ';']),
            }
            let before = self.at;
            if self.eat(',').is_none() || self.at_arg() || self.at_end_of_list() {
                self.at = before;
                return columns;
            }
        }
    }

    /// The source texts of expressions.
    pub(super) fn texts_of(&self, columns: &[NamedExpr]) -> Vec<Atom> {
        let atom = |NamedExpr { expr, .. }: &NamedExpr| match &expr.form {
            ExprForm::Atom(atom) => atom.clone(),
            _ => Atom {
                text: self.text[expr.span.range()].to_owned(),
                span: expr.span,
                quoted: false,
            },
        };
        columns.iter().map(atom).collect()
    }

    /// Whether `name=` comes next.
    pub(super) fn at_arg(&self) -> bool {
        self.is_arg(&self.peek(WordShape::Name))
    }

    fn is_arg(&self, name: &QueryToken) -> bool {
        let equals = crate::lexer::token(self.text, name.span.end, WordShape::Name);
        name.kind == TokenKind::Word && equals.kind == TokenKind::Compare(ComparisonOperator::Eq)
    }
}
