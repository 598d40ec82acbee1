//! Conditions: the side with the column, and the conversion of the other side to its type.

use plan::{ArithmeticOperator, CaseSensitivity, Column, ComparisonOperator, Literal, Predicate};
use tuple::{DataType, Field, Unit};

use super::names::{NameScope, ResolvedField};
use super::values::{ConditionChecker, kind};
use super::{address, functions};
use crate::ast::{Atom, ExprForm, QueryExpr};
use crate::error::quoted;
use crate::literal::{self, LiteralError};
use crate::{Diagnostic, TextSpan, iso_time};

impl ConditionChecker<'_, '_> {
    /// Checks a condition; `None` if it has errors, which are recorded.
    pub(super) fn check(&mut self, expr: &QueryExpr) -> Option<Predicate> {
        match &expr.form {
            ExprForm::And(parts) => self.all(parts).map(conjunction),
            ExprForm::Or(parts) => self.all(parts).map(Predicate::Or),
            ExprForm::Not(inner) => self.check(inner).map(|c| Predicate::Not(Box::new(c))),
            ExprForm::Compare(left, op, right) => self.compare(left, *op, right),
            ExprForm::Like(value, pattern, case) => self.like(value, pattern, *case),
            ExprForm::Matches(value, pattern, case) => self.matches(value, pattern, *case),
            ExprForm::In(value, list) => self.in_list(value, list),
            ExprForm::Between(value, low, high) => {
                let low = self.compare(value, ComparisonOperator::Ge, low)?;
                let high = self.compare(value, ComparisonOperator::Le, high)?;
                Some(Predicate::And(vec![low, high]))
            }
            ExprForm::IsNull(value) => self
                .operand(value)
                .map(|named| Predicate::IsNull(named.column)),
            _ => self.truth(expr),
        }
    }

    /// Checks every part, so that all errors are found.
    fn all(&mut self, parts: &[QueryExpr]) -> Option<Vec<Predicate>> {
        let checked: Vec<_> = parts.iter().map(|part| self.check(part)).collect();
        checked.into_iter().collect()
    }

    fn compare(
        &mut self,
        left: &QueryExpr,
        op: ComparisonOperator,
        right: &QueryExpr,
    ) -> Option<Predicate> {
        match (literal_of(left), literal_of(right)) {
            (Some(_), Some(_)) => {
                let error =
                    Diagnostic::new(left.span.to(right.span), "the comparison has no field");
                let is_quoted = matches!(&left.form, ExprForm::Atom(atom) if atom.quoted);
                let hint = if is_quoted {
                    "write field names without quotes"
                } else {
                    "omit it"
                };
                self.fail(error.hint(hint))
            }
            (None, Some(value)) => self.compare_with(left, op, &value, left.span.to(right.span)),
            (Some(value), None) => {
                self.compare_with(right, mirrored(op), &value, left.span.to(right.span))
            }
            (None, None) => {
                if let Some(value) = self.named_value(left, right) {
                    self.compare_with(left, op, &value, left.span.to(right.span))
                } else if let Some(value) = self.named_value(right, left) {
                    self.compare_with(right, mirrored(op), &value, left.span.to(right.span))
                } else {
                    self.compare_values(left, op, right)
                }
            }
        }
    }

    /// Treats a name that is not a field, next to a field, as a host name or an error. Host names may look like
    /// differences: `web-1`.
    fn named_value(&self, field: &QueryExpr, value: &QueryExpr) -> Option<Atom> {
        let ExprForm::Atom(field) = &field.form else {
            return None;
        };
        let field = self.scope.field(self.scope.find(field).ok()?.column);
        match &value.form {
            // `method = GET` lacks quotes, although `GET` is an alias of a field.
            ExprForm::Atom(atom) if field.data_type == DataType::Text && self.is_alias(atom) => {
                Some(atom.clone())
            }
            ExprForm::Atom(atom) if !self.is_known(atom) && self.scope.is_complete() => {
                Some(atom.clone())
            }
            ExprForm::Arithmetic(..) if field.data_type == DataType::Ip => {
                let text = &self.scope.text[value.span.range()];
                let is_word = |c: char| c.is_alphanumeric() || "_-./".contains(c);
                text.chars().all(is_word).then(|| Atom {
                    text: text.to_owned(),
                    span: value.span,
                    quoted: false,
                })
            }
            _ => None,
        }
    }

    /// Whether a name is known.
    fn is_known(&self, name: &Atom) -> bool {
        self.scope.find(name).is_ok() || functions::tcp_flag(&name.text).is_some()
    }

    /// Whether a field is referred to by an alias.
    fn is_alias(&self, name: &Atom) -> bool {
        let is_own = |field: &str| {
            let own = field.trim_end_matches("_ns");
            [field, own]
                .iter()
                .any(|own| own.eq_ignore_ascii_case(&name.text))
                || name.text.contains('.')
        };
        self.scope
            .find(name)
            .is_ok_and(|named| !is_own(&self.scope.field(named.column).name))
    }

    fn compare_with(
        &mut self,
        left: &QueryExpr,
        op: ComparisonOperator,
        value: &Atom,
        place: TextSpan,
    ) -> Option<Predicate> {
        let named = self.operand(left)?;
        self.is_ordered(self.scope.field(named.column), op, place)?;
        let mut literals = self.literals(named, value)?;
        if literals.len() == 1 {
            let column = named.column;
            return literals.pop().map(|literal| Predicate::Compare {
                column,
                op,
                literal,
            });
        }
        let inside = Predicate::In {
            column: named.column,
            literals,
        };
        Some(if op == ComparisonOperator::Ne {
            Predicate::Not(Box::new(inside))
        } else {
            inside
        })
    }

    /// Reports an error if a type without order is compared by order.
    pub(super) fn is_ordered(
        &mut self,
        field: &Field,
        op: ComparisonOperator,
        place: TextSpan,
    ) -> Option<()> {
        let equality = matches!(op, ComparisonOperator::Eq | ComparisonOperator::Ne);
        if matches!(field.data_type, DataType::Bool | DataType::Ip) && !equality {
            let error = Diagnostic::new(place, format!("`{}` cannot be ordered", field.name));
            return self.fail(error.expected("= or !="));
        }
        Some(())
    }

    fn like(
        &mut self,
        value: &QueryExpr,
        pattern: &Atom,
        case: CaseSensitivity,
    ) -> Option<Predicate> {
        let word = if case == CaseSensitivity::Sensitive {
            "like"
        } else {
            "ilike"
        };
        let column = self.text_operand(value, pattern, word)?;
        let trailing = pattern.text.len() - pattern.text.trim_end_matches('\\').len();
        if trailing % 2 == 1 {
            let error = Diagnostic::new(
                pattern.span,
                "the pattern ends with `\\`, which must precede a character",
            );
            return self.fail(error.hint("write \\\\ for a backslash"));
        }
        Some(Predicate::Like {
            column,
            pattern: pattern.text.clone(),
            case,
        })
    }

    fn matches(
        &mut self,
        value: &QueryExpr,
        pattern: &Atom,
        case: CaseSensitivity,
    ) -> Option<Predicate> {
        let column = self.text_operand(value, pattern, "~")?;
        Some(Predicate::Matches {
            column,
            regex: self.regex(pattern, case)?,
        })
    }

    /// The text operand of a pattern.
    fn text_operand(&mut self, value: &QueryExpr, pattern: &Atom, word: &str) -> Option<Column> {
        let named = self.operand(value)?;
        let field = self.scope.field(named.column);
        if !matches!(field.data_type, DataType::Text | DataType::Hashes) {
            let message = format!("`{word}` needs text; `{}` is {}", field.name, kind(field));
            let is_address = field.data_type == DataType::Ip;
            let hint = is_address.then(|| {
                let field = &self.scope.text[value.span.range()];
                format!("write {field} in ({})", network_of(&pattern.text))
            });
            return self.fail(Diagnostic::new(value.span, message).maybe_hint(hint));
        }
        if !pattern.quoted {
            let error = Diagnostic::new(
                pattern.span,
                format!("{} needs quotes", quoted(&pattern.text)),
            );
            return self.fail(error.hint(format!("write '{}'", pattern.text)));
        }
        Some(named.column)
    }

    fn in_list(&mut self, value: &QueryExpr, values: &[Atom]) -> Option<Predicate> {
        let named = self.operand(value)?;
        let checked: Vec<_> = values
            .iter()
            .map(|value| self.literals(named, value))
            .collect();
        let literals: Option<Vec<Vec<Literal>>> = checked.into_iter().collect();
        literals.map(|lists| Predicate::In {
            column: named.column,
            literals: lists.concat(),
        })
    }

    /// A boolean value used as a condition.
    fn truth(&mut self, expr: &QueryExpr) -> Option<Predicate> {
        // Without the surrounding parentheses.
        let place = if let ExprForm::Atom(atom) = &expr.form {
            atom.span
        } else {
            expr.span
        };
        if let Some(value) = literal_of(expr) {
            let error = Diagnostic::new(
                place,
                format!("{} is a value, not a condition", quoted(&value.text)),
            );
            return self.fail(error.expected("a condition such as `status >= 500`"));
        }
        let column = self.operand(expr)?.column;
        let field = self.scope.field(column);
        if field.data_type == DataType::Bool {
            return Some(Predicate::Compare {
                column,
                op: ComparisonOperator::Eq,
                literal: Literal::Bool(true),
            });
        }
        if matches!(
            expr.form,
            ExprForm::Arithmetic(_, ArithmeticOperator::BitAnd, _)
        ) {
            return Some(Predicate::Compare {
                column,
                op: ComparisonOperator::Ne,
                literal: Literal::I64(0),
            });
        }
        let error = Diagnostic::new(
            place,
            format!("`{}` is {}, not a condition", field.name, kind(field)),
        );
        self.fail(error.expected("a comparison: =, !=, <, <=, >, >=, like, in or is null"))
    }

    /// The column of a field, or a computed column.
    pub(super) fn operand(&mut self, expr: &QueryExpr) -> Option<ResolvedField> {
        match &expr.form {
            ExprForm::Atom(atom)
                if literal_of(expr).is_none() && functions::tcp_flag(&atom.text).is_none() =>
            {
                self.column(atom)
            }
            ExprForm::Atom(atom) if self.scope.find(atom).is_ok() && !atom.quoted => {
                self.column(atom)
            }
            _ => self.computed(expr, None),
        }
    }

    pub(super) fn column(&mut self, name: &Atom) -> Option<ResolvedField> {
        match self.scope.find(name) {
            Ok(named) => Some(named),
            Err(error) => {
                self.errors.extend(error);
                None
            }
        }
    }

    /// Converts a value to literals of the column's type: several for a host with several addresses.
    fn literals(&mut self, named: ResolvedField, value: &Atom) -> Option<Vec<Literal>> {
        let field = self.scope.field(named.column);
        if !value.quoted && value.text.eq_ignore_ascii_case("null") {
            let error = Diagnostic::new(value.span, "a comparison with null is never true");
            return self.fail(error.hint("write `is null` or `is not null`"));
        }
        if field.data_type == DataType::Ip {
            return self.networks(field, value);
        }
        match literal(field, named.unit_written, value) {
            Ok(literal) => Some(vec![literal]),
            Err(hint) => {
                let message = format!("{} is not a value of `{}`", quoted(&value.text), field.name);
                self.fail(
                    Diagnostic::new(value.span, message)
                        .expected(wanted(field))
                        .maybe_hint(hint),
                )
            }
        }
    }

    fn networks(&mut self, field: &Field, value: &Atom) -> Option<Vec<Literal>> {
        let nets = match literal::net(&value.text) {
            Some(net) => Ok(vec![net]),
            None if value.text.contains(['/', ':']) => Err((
                format!("{} is not a value of `{}`", quoted(&value.text), field.name),
                None,
            )),
            None => address::named(&value.text, self.scope.hosts),
        };
        match nets {
            Ok(nets) => Some(
                nets.into_iter()
                    .map(|(ip, bits)| Literal::Net(ip, bits))
                    .collect(),
            ),
            Err((message, hint)) => self.fail(
                Diagnostic::new(value.span, message)
                    .expected(wanted(field))
                    .maybe_hint(hint),
            ),
        }
    }
}

/// The conjunction, without conjunctions in it.
fn conjunction(parts: Vec<Predicate>) -> Predicate {
    let flat = parts.into_iter().flat_map(|part| match part {
        Predicate::And(parts) => parts,
        other => vec![other],
    });
    Predicate::And(flat.collect())
}

/// The operator with its sides exchanged.
pub(super) fn mirrored(op: ComparisonOperator) -> ComparisonOperator {
    match op {
        ComparisonOperator::Lt => ComparisonOperator::Gt,
        ComparisonOperator::Le => ComparisonOperator::Ge,
        ComparisonOperator::Gt => ComparisonOperator::Lt,
        ComparisonOperator::Ge => ComparisonOperator::Le,
        same => same,
    }
}

/// The literal that an operand is by syntax alone; its type depends on the other side.
pub(super) fn literal_of(expr: &QueryExpr) -> Option<Atom> {
    match &expr.form {
        ExprForm::Atom(atom) => (!may_be_column(atom)).then(|| atom.clone()),
        ExprForm::Negative(inner) => match &inner.form {
            ExprForm::Atom(atom)
                if !atom.quoted
                    && atom
                        .text
                        .starts_with(|c: char| c.is_ascii_digit() || c == '.') =>
            {
                Some(Atom {
                    text: format!("-{}", atom.text),
                    span: expr.span,
                    quoted: false,
                })
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether it has the syntax of a name.
fn may_be_column(atom: &Atom) -> bool {
    let begins = atom
        .text
        .starts_with(|c: char| c.is_alphabetic() || c == '_');
    let reserved = ["true", "false", "null"]
        .iter()
        .any(|w| w.eq_ignore_ascii_case(&atom.text));
    begins && !atom.quoted && !reserved && !atom.text.contains([':', '/', '*'])
}

/// Converts a value to a literal of the field's type, or returns an optional hint.
fn literal(field: &Field, unit_written: bool, value: &Atom) -> Result<Literal, Option<String>> {
    let text = value.text.as_str();
    match field.data_type {
        DataType::Text if value.quoted => Ok(Literal::Text(text.to_owned())),
        DataType::Text => Err(Some(format!("write '{text}'"))),
        DataType::Bool if text.eq_ignore_ascii_case("true") => Ok(Literal::Bool(true)),
        DataType::Bool if text.eq_ignore_ascii_case("false") => Ok(Literal::Bool(false)),
        DataType::F64
            if matches!(
                field.unit,
                Unit::None | Unit::PerSecond | Unit::Fraction | Unit::Id
            ) =>
        {
            let percent = text.ends_with('%') && field.unit != Unit::Fraction;
            literal::real(text)
                .ok()
                .filter(|_| !percent)
                .map(Literal::F64)
                .ok_or(None)
        }
        DataType::U64 | DataType::I64 | DataType::F64 => {
            let number = integer(field.unit, unit_written, text).map_err(|bad| why(bad, field))?;
            let out_of_range = || (number < 0).then(|| "it is never negative".to_owned());
            match field.data_type {
                DataType::U64 => u64::try_from(number)
                    .map(Literal::U64)
                    .map_err(|_| out_of_range()),
                DataType::I64 => i64::try_from(number).map(Literal::I64).map_err(|_| None),
                _ => Ok(Literal::F64(number as f64)),
            }
        }
        DataType::Bool | DataType::Json | DataType::Hashes | DataType::Ip => Err(None),
    }
}

/// A number in the column's smallest unit.
fn integer(unit: Unit, unit_written: bool, text: &str) -> Result<i128, LiteralError> {
    let bare = || literal::whole(text);
    match unit {
        Unit::Nanoseconds => match literal::duration_ns(text).map(i128::from) {
            // Without a unit only 0 is unambiguous, unless the field's full name contains the unit.
            Err(LiteralError::NoUnit) if unit_written || bare() == Ok(0) => bare(),
            result => result,
        },
        Unit::Bytes | Unit::BytesPerSecond => match literal::size_bytes(text).map(i128::from) {
            Err(LiteralError::NoUnit) => bare(),
            result => result,
        },
        Unit::EpochNanoseconds => match iso_time::epoch_ns(text) {
            Some(nanos) => Ok(nanos.into()),
            None => literal::duration_ns(text)
                .map(i128::from)
                .or_else(|_| bare()),
        },
        Unit::Id => {
            let hex = text
                .strip_prefix("0x")
                .or((text.len() == 16).then_some(text))
                .filter(|t| t.len() <= 16);
            let hex = hex.filter(|t| t.bytes().all(|b| b.is_ascii_hexdigit()));
            hex.and_then(|t| u64::from_str_radix(t, 16).ok())
                .map_or_else(bare, |id| Ok(id.into()))
        }
        Unit::None | Unit::PerSecond | Unit::Fraction => bare(),
    }
}

fn why(bad: LiteralError, field: &Field) -> Option<String> {
    match (bad, field.unit) {
        (LiteralError::NoUnit, _) => Some("a number needs a unit".to_owned()),
        (LiteralError::TooLarge, _) => Some("it is too large".to_owned()),
        (LiteralError::TooFine, Unit::Nanoseconds) => Some("the resolution is 1ns".to_owned()),
        _ => None,
    }
}

/// Description of the values of a field in a query.
fn wanted(field: &Field) -> &'static str {
    match (field.data_type, field.unit) {
        (DataType::Text, _) => "text in quotes",
        (DataType::Bool, _) => "true or false",
        (DataType::Ip, _) => "an address, a network such as 10.0.0.0/8 or a host name",
        (DataType::Hashes, _) => "`like '%0123456789abcdef%'` or `is null`",
        (DataType::Json, _) => "`is null` or `is not null`: no other comparison is possible",
        (_, Unit::Nanoseconds) => "a duration such as 100ms or 1.5s",
        (_, Unit::EpochNanoseconds) => "a time such as '2026-01-31T12:00:00Z'",
        (_, Unit::Bytes) => "a size such as 1500, 10kB or 4KiB",
        (_, Unit::BytesPerSecond) => "bytes per second such as 1500, 10kB or 4MB",
        (_, Unit::Id) => "an id of 16 hexadecimal digits",
        (_, Unit::Fraction) => "a share such as 0.95 or 95%",
        (DataType::F64, _) => "a number",
        _ => "a whole number",
    }
}

/// A built-in condition on one input, given as text; `None` if its schema lacks the fields.
pub(super) fn builtin(text: &str, scope: NameScope<'_>, input: usize) -> Option<Predicate> {
    let text = format!("PARSE p WHERE {text}");
    let (query, syntax_errors) = crate::parse(&text);
    let scope = scope.only(input, &text);
    let mut errors = Vec::new();
    let condition = ConditionChecker::new(&scope, &mut errors).check(query.filters.first()?);
    condition.filter(|_| syntax_errors.is_empty() && errors.is_empty())
}

/// Whether `filter` implies `part`.
pub(super) fn implies(filter: Option<&Predicate>, part: &Predicate) -> bool {
    match filter {
        Some(Predicate::And(parts)) => parts.contains(part),
        Some(other) => other == part,
        None => false,
    }
}

/// The network of the addresses that `10.1.%` matches.
fn network_of(pattern: &str) -> String {
    let parts: Vec<&str> = pattern
        .split(['.', '%'])
        .filter(|part| !part.is_empty())
        .collect();
    let is_prefix =
        (1..4).contains(&parts.len()) && parts.iter().all(|part| part.parse::<u8>().is_ok());
    if !is_prefix || !pattern.ends_with(".%") {
        return "10.0.0.0/8".to_owned();
    }
    let bits = 8 * parts.len();
    let whole: Vec<&str> = parts.iter().copied().chain(["0"; 4]).take(4).collect();
    format!("{}/{bits}", whole.join("."))
}
