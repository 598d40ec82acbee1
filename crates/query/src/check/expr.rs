//! Values: types of expressions, and the computed columns of a query.

use plan::{ComparisonOperator, ComputedField, Expr as Planned, Literal, Predicate};
use tuple::{DataType, Field, RedactionRule, Unit, redact};

use super::computed_fields::COMPUTED_MAX;
use super::condition::{literal_of, mirrored};
use super::functions;
use super::names::ResolvedField;
use super::values::{ConditionChecker, TypedExpr, ValueType, kind};
use crate::Diagnostic;
use crate::ast::{Atom, ExprForm, QueryExpr};
use crate::error::quoted;
use crate::literal;

impl ConditionChecker<'_, '_> {
    /// The computed column of an expression, named `name` or as written.
    pub(super) fn computed(
        &mut self,
        expr: &QueryExpr,
        name: Option<&Atom>,
    ) -> Option<ResolvedField> {
        let typed = self.value(expr)?;
        if typed.is_constant() && name.is_none() {
            let message = format!("{} is a value, not a field", quoted(&self.text(expr)));
            return self.fail(
                Diagnostic::new(expr.span, message).expected("a field, or an expression of fields"),
            );
        }
        self.add(expr, typed, name)
    }

    /// The same for an expression of known type.
    pub(super) fn add(
        &mut self,
        expr: &QueryExpr,
        typed: TypedExpr,
        name: Option<&Atom>,
    ) -> Option<ResolvedField> {
        let text = self.text(expr);
        let Some(of) = typed.of else {
            return self.fail(Diagnostic::new(
                expr.span,
                format!("{} is always null", quoted(&text)),
            ));
        };
        let redact = match (of.data_type, typed.is_secret) {
            (DataType::Text, true) => RedactionRule::Fold(redact::HASH),
            _ => RedactionRule::Keep,
        };
        // A renamed field keeps its redaction.
        let redact = match &typed.expr {
            Planned::Column(column) => match &self.scope.field(*column).redact {
                RedactionRule::Where(..) => redact,
                same => same.clone(),
            },
            _ => redact,
        };
        let field = Field {
            name: name
                .map_or_else(|| text.clone(), |name| name.text.clone())
                .into(),
            data_type: of.data_type,
            unit: of.unit,
            doc: "computed".into(),
            redact,
        };
        let unit_written = typed.unit_written;
        match self.scope.computing.add(ComputedField {
            field,
            text,
            expr: typed.expr,
        }) {
            Some(column) => Some(ResolvedField {
                column,
                unit_written,
            }),
            None => {
                let message = format!("the query computes more than {COMPUTED_MAX} columns");
                self.fail(Diagnostic::new(expr.span, message))
            }
        }
    }

    /// The text of an expression in one line.
    pub(super) fn text(&self, expr: &QueryExpr) -> String {
        self.scope.text[expr.span.range()]
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The value of an expression with its type.
    pub(super) fn value(&mut self, expr: &QueryExpr) -> Option<TypedExpr> {
        match &expr.form {
            ExprForm::Atom(_) if literal_of(expr).is_some() => self.literal_value(expr),
            ExprForm::Atom(atom) => self.named(atom),
            ExprForm::Negative(_) if literal_of(expr).is_some() => self.literal_value(expr),
            ExprForm::Negative(inner) => {
                let inner = self.value(inner)?;
                self.negative(expr, inner)
            }
            ExprForm::Arithmetic(left, op, right) => {
                let a = self.value(left);
                let b = self.value(right);
                self.arithmetic(expr, (left, a?), *op, (right, b?))
            }
            ExprForm::Call(name, args) => self.call(expr, name, args),
            _ => {
                let condition = self.check(expr)?;
                let of = ValueType {
                    data_type: DataType::Bool,
                    unit: Unit::None,
                };
                Some(TypedExpr::new(Planned::Test(Box::new(condition)), of))
            }
        }
    }

    fn named(&mut self, name: &Atom) -> Option<TypedExpr> {
        let flag = functions::tcp_flag(&name.text).filter(|_| self.scope.find(name).is_err());
        if let Some(bit) = flag {
            return Some(TypedExpr::new(
                Planned::Literal(Literal::I64(bit)),
                ValueType::WHOLE,
            ));
        }
        let ResolvedField {
            column,
            unit_written,
        } = self.column(name)?;
        let field = self.scope.field(column);
        if matches!(field.data_type, DataType::Json | DataType::Hashes) {
            let message = format!(
                "expressions cannot use `{}`, which is {}",
                field.name,
                kind(field)
            );
            return self.fail(Diagnostic::new(name.span, message));
        }
        let is_secret = field.redact != RedactionRule::Keep;
        let of = ValueType {
            data_type: field.data_type,
            unit: field.unit,
        };
        let unit_written = unit_written && of.unit == Unit::Nanoseconds;
        Some(TypedExpr {
            unit_written,
            is_secret,
            ..TypedExpr::new(Planned::Column(column), of)
        })
    }

    /// A literal, with its type determined by its syntax.
    fn literal_value(&mut self, expr: &QueryExpr) -> Option<TypedExpr> {
        let atom = literal_of(expr)?;
        let text = atom.text.as_str();
        let of = |data_type, unit, literal| {
            TypedExpr::new(Planned::Literal(literal), ValueType { data_type, unit })
        };
        if atom.quoted {
            return Some(of(DataType::Text, Unit::None, Literal::Text(atom.text)));
        }
        for (word, value) in [("true", true), ("false", false)] {
            if text.eq_ignore_ascii_case(word) {
                return Some(of(DataType::Bool, Unit::None, Literal::Bool(value)));
            }
        }
        if text.eq_ignore_ascii_case("null") {
            return Some(TypedExpr {
                of: None,
                ..TypedExpr::new(Planned::Null, ValueType::WHOLE)
            });
        }
        // `2.0` is floating point, as required for `7 / 2.0`.
        if let Ok(number) = literal::whole(text)
            && !text.contains('.')
            && let Ok(number) = i64::try_from(number)
        {
            return Some(TypedExpr::new(
                Planned::Literal(Literal::I64(number)),
                ValueType::WHOLE,
            ));
        }
        if let Ok(nanos) = literal::duration_ns(text) {
            return Some(of(DataType::I64, Unit::Nanoseconds, Literal::I64(nanos)));
        }
        if let Ok(bytes) = literal::size_bytes(text) {
            return Some(of(DataType::I64, Unit::Bytes, Literal::I64(bytes)));
        }
        if let Ok(number) = literal::real(text) {
            return Some(TypedExpr::new(
                Planned::Literal(Literal::F64(number)),
                ValueType::REAL,
            ));
        }
        if let Some((ip, bits)) = literal::net(text)
            && bits == if ip.is_ipv4() { 32 } else { 128 }
        {
            return Some(of(DataType::Ip, Unit::None, Literal::Net(ip, bits)));
        }
        let error = Diagnostic::new(atom.span, format!("{} is not a value", quoted(text)));
        self.fail(error.expected(
            "a number, a duration such as 100ms, a size such as 4KiB, an address, or text in quotes",
        ))
    }

    /// Compares two values, neither of them a literal.
    pub(super) fn compare_values(
        &mut self,
        left: &QueryExpr,
        op: ComparisonOperator,
        right: &QueryExpr,
    ) -> Option<Predicate> {
        let a = self.value(left);
        let b = self.value(right);
        let a = a?;
        let b = b?;
        let place = left.span.to(right.span);
        let (Some(a_of), Some(b_of)) = (a.of, b.of) else {
            let error = Diagnostic::new(place, "a comparison with null is never true");
            return self.fail(error.hint("write `is null` or `is not null`"));
        };
        if a_of.with(b_of).is_none() {
            let message = format!("{} is compared with {}", a_of.words(), b_of.words());
            let units = [a_of.unit, b_of.unit].contains(&Unit::Nanoseconds)
                && (a_of.is_plain_number() || b_of.is_plain_number());
            let hint = units.then(|| "a number needs a unit, such as 100ms".to_owned());
            return self.fail(Diagnostic::new(place, message).maybe_hint(hint));
        }
        self.is_ordered(&Field::new("", a_of.data_type, a_of.unit, ""), op, place)?;
        match (a.is_constant(), b.is_constant()) {
            (true, true) => self.fail(Diagnostic::new(place, "the comparison has no field")),
            (false, true) => self.compare_constant((left, a), op, b, right),
            (true, false) => self.compare_constant((right, b), mirrored(op), a, left),
            (false, false) => self.compare_columns(left.span.to(right.span), a, op, b),
        }
    }

    /// Compares a value with a constant: as with a literal, if the constant fits the type.
    fn compare_constant(
        &mut self,
        (expr, value): (&QueryExpr, TypedExpr),
        op: ComparisonOperator,
        constant: TypedExpr,
        right: &QueryExpr,
    ) -> Option<Predicate> {
        let of = value.of.map(|of| of.data_type);
        let literal = match (of, &constant.expr) {
            (Some(DataType::U64), Planned::Literal(Literal::I64(v))) => {
                u64::try_from(*v).ok().map(Literal::U64)
            }
            (Some(DataType::I64), Planned::Literal(Literal::I64(v))) => Some(Literal::I64(*v)),
            (Some(DataType::F64), Planned::Literal(Literal::I64(v))) => {
                Some(Literal::F64(*v as f64))
            }
            (Some(DataType::F64), Planned::Literal(Literal::F64(v))) => Some(Literal::F64(*v)),
            (Some(DataType::Text | DataType::Bool | DataType::Ip), Planned::Literal(same)) => {
                Some(same.clone())
            }
            _ => None,
        };
        let Some(literal) = literal else {
            return self.compare_columns(expr.span.to(right.span), value, op, constant);
        };
        let column = match &value.expr {
            Planned::Column(column) => *column,
            _ => self.add(expr, value, None)?.column,
        };
        Some(Predicate::Compare {
            column,
            op,
            literal,
        })
    }

    fn compare_columns(
        &mut self,
        place: crate::TextSpan,
        a: TypedExpr,
        op: ComparisonOperator,
        b: TypedExpr,
    ) -> Option<Predicate> {
        let of = ValueType {
            data_type: DataType::Bool,
            unit: Unit::None,
        };
        let typed = TypedExpr::new(Planned::Compare(Box::new(a.expr), op, Box::new(b.expr)), of);
        let whole = QueryExpr {
            form: ExprForm::And(Vec::new()),
            span: place,
        };
        let column = self.add(&whole, typed, None)?.column;
        Some(Predicate::Compare {
            column,
            op: ComparisonOperator::Eq,
            literal: Literal::Bool(true),
        })
    }
}
