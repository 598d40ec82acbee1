//! The grammar of CASE and FILTER, which stand for calls of `if`.
//!
//! ```text
//! case   = CASE {WHEN condition THEN expr} [ELSE expr] END | CASE expr {WHEN expr THEN expr} [ELSE expr] END
//! filter = aggregate(…) FILTER (WHERE condition)
//! ```

use plan::ComparisonOperator;

use super::QueryReader;
use super::expr::{ExprContext, ExprProgress};
use crate::aggregates::{self, CalledAggregate};
use crate::ast::{Atom, ExprForm, QueryExpr};
use crate::blocks::ProcessorBlock;
use crate::error::quoted;
use crate::lexer::{TokenKind, WordShape};
use crate::{Diagnostic, TextSpan};

impl QueryReader<'_> {
    /// Parses the part after CASE.
    pub(super) fn case(&mut self, case: TextSpan, reading: &mut ExprProgress) -> Option<QueryExpr> {
        self.enter(case, reading)?;
        reading.cases += 1;
        let token = self.peek(WordShape::Value);
        let of = if self.text[token.span.range()].eq_ignore_ascii_case("when") {
            None
        } else {
            Some(self.value(0, reading)?)
        };
        let mut branches = Vec::new();
        while let Some(when) = self.eat_word("when") {
            self.enter(when, reading)?;
            self.count(when, reading)?;
            let condition = match &of {
                Some(of) => equals(of, self.value(0, reading)?),
                None => self.any(reading)?,
            };
            self.required("then")?;
            branches.push((condition, self.any(reading)?));
        }
        let mut value = match self.eat_word("else") {
            Some(_) => self.any(reading)?,
            None => null(case),
        };
        if branches.is_empty() {
            self.unexpected("`when`");
            return None;
        }
        self.required("end")?;
        reading.cases -= 1;
        reading.depth -= 1 + branches.len() as u32;
        let span = case.to(TextSpan::new(self.at, self.at));
        for (condition, then) in branches.into_iter().rev() {
            value = choice(case, span, [condition, then, value]);
        }
        Some(value)
    }

    /// Parses FILTER after a call of an aggregate, if it is next: tuples for which the condition is not true have null
    /// as their value.
    pub(super) fn filtered(
        &mut self,
        call: QueryExpr,
        reading: &mut ExprProgress,
    ) -> Option<QueryExpr> {
        let ExprForm::Call(name, mut args) = call.form else {
            return Some(call);
        };
        if self.sql.is_some() && self.eat_word("within").is_some() {
            return self.percentile(&name, &args);
        }
        if self.sql.is_some()
            && let Some(over) = self.eat_word("over")
        {
            self.skip_parentheses();
            let error = Diagnostic::new(over, "window functions are not supported");
            let hint = "share() is the share of all tuples; WINDOW 10s divides the time";
            self.report(error.hint(hint));
            return None;
        }
        let called = aggregates::named(&name.text);
        let filter = called.and_then(|_| self.eat_word("filter"));
        let (Some(called), Some(filter)) = (called, filter) else {
            return Some(QueryExpr {
                form: ExprForm::Call(name, args),
                ..call
            });
        };
        let Some(open) = self.eat('(') else {
            self.unexpected("`(WHERE condition)`");
            return None;
        };
        self.required("where")?;
        self.enter(open, reading)?;
        let outside = std::mem::replace(&mut reading.within, ExprContext::Columns);
        let condition = self.any(reading)?;
        reading.within = outside;
        self.close(Some(open), "`and`, `or` or `)`");
        reading.depth -= 1;
        let span = call.span.to(TextSpan::new(self.at, self.at));
        if args.is_empty() && called == CalledAggregate::Block(ProcessorBlock::Count) {
            args.push(QueryExpr {
                form: ExprForm::Atom(word("1", filter)),
                span: filter,
            });
        }
        let Some(value) = args.first_mut().filter(|_| has_filter(called)) else {
            let message = format!("{} cannot be filtered", quoted(&name.text));
            self.report(Diagnostic::new(filter, message).hint("put the condition into WHERE"));
            return None;
        };
        *value = choice(filter, span, [condition, value.clone(), null(filter)]);
        Some(QueryExpr {
            form: ExprForm::Call(name, args),
            span,
        })
    }

    /// Reports `percentile_cont(0.99) WITHIN GROUP (ORDER BY x)`, at WITHIN.
    fn percentile<T>(&mut self, name: &Atom, args: &[QueryExpr]) -> Option<T> {
        self.eat_word("group");
        let open = self.peek(WordShape::Name).span.end;
        self.skip_parentheses();
        let inside = self
            .text
            .get(open..self.at.saturating_sub(1))
            .unwrap_or_default();
        let value = inside.split_whitespace().nth(2).unwrap_or("response_time");
        let share = args
            .first()
            .map_or("0.99", |arg| &self.text[arg.span.range()]);
        let error = Diagnostic::new(name.span, "WITHIN GROUP is not supported");
        self.report(error.hint(format!("write quantile({value}, {share})")));
        None
    }

    /// Consumes a word that must follow.
    pub(super) fn required(&mut self, word: &str) -> Option<()> {
        if self.eat_word(word).is_none() {
            self.unexpected(&quoted(word));
            return None;
        }
        Some(())
    }

    /// Reports a statement in parentheses, which is skipped.
    pub(super) fn skips_subquery(&mut self) -> bool {
        let open = self.peek(WordShape::Name);
        let first = crate::lexer::token(self.text, open.span.end, WordShape::Name);
        let is_subquery = open.kind == TokenKind::Mark('(')
            && self.text[first.span.range()].eq_ignore_ascii_case("select");
        if is_subquery {
            let error = Diagnostic::new(first.span, "subqueries are not supported");
            self.report(error.hint("run two queries, or write the conditions into one WHERE"));
            self.skip_parentheses();
        }
        is_subquery
    }

    /// Skips to the parenthesis that closes the next one.
    pub(super) fn skip_parentheses(&mut self) {
        let mut depth = 0;
        loop {
            let token = self.peek(WordShape::Name);
            match token.kind {
                TokenKind::End => return,
                TokenKind::Mark('(') => depth += 1,
                TokenKind::Mark(')') => depth -= 1,
                _ => {}
            }
            self.at = token.span.end;
            if depth == 0 {
                return;
            }
        }
    }
}

/// Whether an aggregate skips null, so that a condition can restrict its tuples.
fn has_filter(called: CalledAggregate) -> bool {
    let counts_all = [
        ProcessorBlock::Rate,
        ProcessorBlock::Success,
        ProcessorBlock::Ratio,
        ProcessorBlock::Share,
    ];
    !counts_all
        .into_iter()
        .any(|block| called == CalledAggregate::Block(block))
}

fn equals(left: &QueryExpr, right: QueryExpr) -> QueryExpr {
    QueryExpr {
        span: left.span.to(right.span),
        form: ExprForm::Compare(
            Box::new(left.clone()),
            ComparisonOperator::Eq,
            Box::new(right),
        ),
    }
}

/// `if(condition, then, otherwise)`, written at `place` in other words.
fn choice(place: TextSpan, span: TextSpan, args: [QueryExpr; 3]) -> QueryExpr {
    QueryExpr {
        form: ExprForm::Call(word("if", place), args.into()),
        span,
    }
}

fn null(place: TextSpan) -> QueryExpr {
    QueryExpr {
        form: ExprForm::Atom(word("null", place)),
        span: place,
    }
}

fn word(text: &str, span: TextSpan) -> Atom {
    Atom {
        text: text.to_owned(),
        span,
        quoted: false,
    }
}
