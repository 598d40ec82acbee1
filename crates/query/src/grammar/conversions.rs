//! Expressions as other databases write them: conversions of types, intervals, ESCAPE, IS DISTINCT FROM, and conditions
//! on the present time.
//!
//! ```text
//! interval   = INTERVAL 'n unit' | INTERVAL n unit                              a duration
//! conversion = expr::type | CAST(expr AS type) | expr IS [NOT] DISTINCT FROM expr      reported with the equivalent
//! ```

use plan::{ArithmeticOperator, ComparisonOperator};

use super::QueryReader;
use super::expr::{ExprContext, ExprProgress};
use crate::ast::{Atom, ExprForm, QueryExpr};
use crate::error::quoted;
use crate::lexer::{TokenKind, WordShape};
use crate::{Diagnostic, TextSpan, aggregates, literal};

/// Names of units, and their units in durations.
const UNITS: &[(&[&str], &str)] = &[
    (&["microsecond", "us"], "us"),
    (&["millisecond", "ms"], "ms"),
    (&["second", "sec", "s"], "s"),
    (&["minute", "min", "m"], "m"),
    (&["hour", "h"], "h"),
    (&["day", "d"], "d"),
];
/// Types of numbers with fractions.
const FRACTIONS: [&str; 7] = [
    "float", "float4", "float8", "real", "double", "decimal", "numeric",
];
/// Functions and words for the present time.
const PRESENT: [&str; 6] = [
    "now",
    "current_timestamp",
    "localtimestamp",
    "getdate",
    "sysdate",
    "systimestamp",
];

impl QueryReader<'_> {
    /// The expression without a conversion `::type`, which is reported.
    pub(super) fn without_conversion(&mut self, of: QueryExpr) -> QueryExpr {
        let start = self.peek(WordShape::Value).span.start;
        if !self.text[start..].starts_with("::") {
            return of;
        }
        self.at = start + 2;
        let kind = self.type_name();
        let start = of.span;
        self.converted(of, &kind, start)
    }

    /// Parses `(expr AS type)` after CAST, which is reported; the result is the expression.
    pub(super) fn cast(&mut self, name: &Atom, reading: &mut ExprProgress) -> Option<QueryExpr> {
        let open = self.eat('(')?;
        self.enter(open, reading)?;
        let outside = std::mem::replace(&mut reading.within, ExprContext::Columns);
        let of = self.any(reading)?;
        reading.within = outside;
        reading.depth -= 1;
        self.required("as")?;
        let kind = self.type_name();
        self.close(Some(open), "`)`");
        Some(self.converted(of, &kind, name.span))
    }

    /// Parses `int`, `double precision`, `numeric(10, 2)`.
    fn type_name(&mut self) -> String {
        let rest = self.text[self.at..].trim_start();
        let len = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let kind = rest[..len].to_ascii_lowercase();
        self.at = self.text.len() - rest.len() + len;
        self.eat_word("precision");
        if self.peek(WordShape::Name).kind == TokenKind::Mark('(') {
            self.skip_parentheses();
        }
        kind
    }

    /// Reports a conversion that begins at `start`; the result is the expression, or the duration of an interval.
    fn converted(&mut self, of: QueryExpr, kind: &str, start: TextSpan) -> QueryExpr {
        let text = &self.text[of.span.range()];
        let is_text = matches!(&of.form, ExprForm::Atom(atom) if atom.quoted);
        let interval = match &of.form {
            ExprForm::Atom(atom) if kind == "interval" => duration(&atom.text),
            _ => None,
        };
        let instead = match &interval {
            Some(duration) => duration.clone(),
            None if kind == "date" && !is_text => format!("trunc({text}, 1d)"),
            None if FRACTIONS.contains(&kind) && !is_text && !aggregates::is_call(&of) => {
                format!("{text} * 1.0")
            }
            None => text.to_owned(),
        };
        let span = start.to(TextSpan::new(self.at, self.at));
        let error = Diagnostic::new(span, "values are converted where an operator needs it");
        self.report(error.hint(format!("write {instead}")));
        match interval {
            Some(duration) => QueryExpr {
                form: ExprForm::Atom(atom(&duration, of.span)),
                ..of
            },
            None => of,
        }
    }

    /// The duration of `INTERVAL '5 minutes'` or `INTERVAL 5 MINUTE`; `word` is the first word.
    pub(super) fn interval(&mut self, word: &Atom) -> Option<Atom> {
        let value = self.peek(WordShape::Value);
        let number = &self.text[value.span.range()];
        let number = match &value.kind {
            TokenKind::Quoted(text) => text.as_str(),
            TokenKind::Word if number.starts_with(|c: char| c.is_ascii_digit()) => number,
            _ => return None,
        };
        if word.quoted || !word.text.eq_ignore_ascii_case("interval") {
            return None;
        }
        self.at = value.span.end;
        let unit = self.peek(WordShape::Name);
        let with_unit = format!("{number} {}", &self.text[unit.span.range()]);
        let text = duration(number).or_else(|| {
            self.at = unit.span.end;
            duration(&with_unit)
        });
        let span = word.span.to(TextSpan::new(self.at, self.at));
        let Some(text) = text else {
            let error = Diagnostic::new(span, "a duration is one number with one unit");
            self.report(error.hint("write 90m, or interval '90 minutes'"));
            return Some(atom("1s", span));
        };
        Some(atom(&text, span))
    }

    /// Reports a comparison with the present time minus a duration.
    pub(super) fn is_since_now(
        &mut self,
        operator: ComparisonOperator,
        right: &QueryExpr,
        span: TextSpan,
    ) -> bool {
        let ExprForm::Arithmetic(now, ArithmeticOperator::Subtract, duration) = &right.form else {
            return false;
        };
        let (ExprForm::Call(name, _) | ExprForm::Atom(name), ExprForm::Atom(duration)) =
            (&now.form, &duration.form)
        else {
            return false;
        };
        let clause = match operator {
            ComparisonOperator::Gt | ComparisonOperator::Ge => "SINCE",
            ComparisonOperator::Lt | ComparisonOperator::Le => "UNTIL",
            _ => return false,
        };
        let is_present = PRESENT.iter().any(|p| p.eq_ignore_ascii_case(&name.text));
        if !is_present || literal::duration_ns(&duration.text).is_err() {
            return false;
        }
        let error = Diagnostic::new(span, "a condition cannot refer to the present time");
        let clause = format!("omit it, and write the clause {clause} {}", duration.text);
        self.report(error.hint(clause));
        true
    }

    /// Consumes `ESCAPE '\'` after a pattern, and reports other characters with the equivalent pattern.
    pub(super) fn skip_escape(&mut self, pattern: &Atom) {
        let Some(word) = self.eat_word("escape") else {
            return;
        };
        let Some(escape) = self.atom(WordShape::Value) else {
            return self.unexpected("a character in quotes");
        };
        let mut chars = escape.text.chars();
        let sign = chars.next().filter(|_| chars.next().is_none());
        if sign == Some('\\') {
            return;
        }
        let mut text = String::new();
        let mut is_escaped = false;
        for c in pattern.text.chars() {
            is_escaped = !is_escaped && Some(c) == sign;
            match c {
                _ if is_escaped => text.push('\\'),
                '\\' | '\'' => text.extend([c, c]),
                _ => text.push(c),
            }
        }
        let span = pattern.span.to(word).to(escape.span);
        let error = Diagnostic::new(span, "the escape character of patterns is `\\`");
        self.report(error.hint(format!("write '{text}'")));
    }

    /// Reports `IS [NOT] DISTINCT FROM`, if it is next, with the equivalent; the result tests the value.
    pub(super) fn distinct_from(
        &mut self,
        value: &QueryExpr,
        negated: bool,
        reading: &mut ExprProgress,
    ) -> Option<QueryExpr> {
        self.eat_word("distinct")?;
        self.required("from")?;
        let right = self.value(0, reading)?;
        let left = &self.text[value.span.range()];
        let other = &self.text[right.span.range()];
        let instead = match (other.eq_ignore_ascii_case("null"), negated) {
            (true, true) => format!("{left} is null"),
            (true, false) => format!("{left} is not null"),
            (false, true) => format!("{left} = {other}"),
            (false, false) => format!("({left} is null or {left} != {other})"),
        };
        let span = value.span.to(right.span);
        let error = Diagnostic::new(span, "IS DISTINCT FROM is not supported");
        self.report(error.hint(format!("write {instead}")));
        Some(QueryExpr {
            form: ExprForm::IsNull(Box::new(value.clone())),
            span,
        })
    }

    /// Parses `FROM ts)` in `extract(hour FROM ts)` and similar calls, which are reported; the result is the value.
    pub(super) fn value_behind_from(&mut self, name: &Atom, arg: &QueryExpr) -> Option<QueryExpr> {
        let from = self.eat_word("from")?;
        let value = self.atom(WordShape::Name)?;
        let hint = match duration(&format!("1 {}", &self.text[arg.span.range()])) {
            Some(unit) => format!("write trunc({}, {unit})", value.text),
            None => format!("write extract({}, 'id=([0-9]+)')", value.text),
        };
        let message = format!("{} does not accept FROM", quoted(&name.text));
        self.report(Diagnostic::new(from, message).hint(hint));
        self.skip_to(&[')']);
        Some(QueryExpr {
            span: value.span,
            form: ExprForm::Atom(value),
        })
    }
}

/// `5 minutes` is 5m; `None` for several units.
fn duration(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = match words.as_slice() {
        [one] => (*one).to_owned(),
        [number, unit] => {
            let unit = unit.to_ascii_lowercase();
            let singular = unit.strip_suffix('s').filter(|rest| rest.len() > 1);
            let is_it = |name: &&str| *name == unit || Some(*name) == singular;
            let (_, unit) = UNITS.iter().find(|(names, _)| names.iter().any(is_it))?;
            format!("{number}{unit}")
        }
        _ => return None,
    };
    literal::duration_ns(&text).is_ok().then_some(text)
}

fn atom(text: &str, span: TextSpan) -> Atom {
    Atom {
        text: text.to_owned(),
        span,
        quoted: false,
    }
}
