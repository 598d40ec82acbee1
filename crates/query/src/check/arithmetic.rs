//! Type rules of arithmetic. Constant expressions are evaluated.

use plan::{ArithmeticOperator, Expr as Planned, Literal};
use tuple::{DataType, Unit};

use super::values::{ConditionChecker, TypedExpr, ValueType};
use crate::Diagnostic;
use crate::ast::QueryExpr;
use crate::error::quoted;

impl ConditionChecker<'_, '_> {
    /// `-x`.
    pub(super) fn negative(&mut self, expr: &QueryExpr, inner: TypedExpr) -> Option<TypedExpr> {
        let is_number = inner.of.is_none_or(ValueType::is_number);
        if !is_number {
            let words = inner.of.map_or("null", ValueType::words);
            return self.fail(Diagnostic::new(expr.span, format!("cannot negate {words}")));
        }
        let zero = TypedExpr {
            of: inner.of,
            ..TypedExpr::new(Planned::Literal(Literal::I64(0)), ValueType::WHOLE)
        };
        let of = inner.of.map(signed);
        self.folded(expr, zero, ArithmeticOperator::Subtract, inner, of)
    }

    /// `a op b`.
    pub(super) fn arithmetic(
        &mut self,
        expr: &QueryExpr,
        (left, a): (&QueryExpr, TypedExpr),
        op: ArithmeticOperator,
        (right, b): (&QueryExpr, TypedExpr),
    ) -> Option<TypedExpr> {
        let (Some(x), Some(y)) = (a.of, b.of) else {
            let of = a.of.or(b.of).map(signed);
            return Some(TypedExpr {
                of,
                expr: Planned::Null,
                ..a
            });
        };
        let Some((op, of)) = result(x, op, y) else {
            return self.refuse(expr, (left, x), op, (right, y));
        };
        // A rate is per second.
        if of.unit == Unit::PerSecond
            && op == ArithmeticOperator::Ratio
            && y.unit == Unit::Nanoseconds
        {
            let by_nanosecond = self.folded(expr, a, op, b, Some(of))?;
            let second = TypedExpr::new(Planned::Literal(Literal::F64(1e9)), ValueType::REAL);
            return self.folded(
                expr,
                by_nanosecond,
                ArithmeticOperator::Multiply,
                second,
                Some(of),
            );
        }
        self.folded(expr, a, op, b, Some(of))
    }

    fn folded(
        &mut self,
        expr: &QueryExpr,
        a: TypedExpr,
        op: ArithmeticOperator,
        b: TypedExpr,
        of: Option<ValueType>,
    ) -> Option<TypedExpr> {
        let unit_written =
            (a.unit_written || b.unit_written) && of.is_some_and(|of| of.unit == Unit::Nanoseconds);
        let is_secret = a.is_secret || b.is_secret;
        let planned = match (&a.expr, &b.expr) {
            (Planned::Literal(x), Planned::Literal(y)) => match constant(x, op, y) {
                Some(literal) => Planned::Literal(literal),
                None => {
                    let message = format!("{} has no value", quoted(&self.text(expr)));
                    return self.fail(Diagnostic::new(expr.span, message));
                }
            },
            _ => Planned::Arithmetic(Box::new(a.expr), op, Box::new(b.expr)),
        };
        Some(TypedExpr {
            expr: planned,
            of,
            unit_written,
            is_secret,
        })
    }

    fn refuse<T>(
        &mut self,
        expr: &QueryExpr,
        (left, x): (&QueryExpr, ValueType),
        op: ArithmeticOperator,
        (right, y): (&QueryExpr, ValueType),
    ) -> Option<T> {
        let sign = sign(op);
        if let Some((of, what)) = [(left, x), (right, y)]
            .into_iter()
            .find(|(_, t)| !t.is_number() && t.unit != Unit::EpochNanoseconds)
        {
            let message = format!(
                "`{sign}` needs numbers; {} is {}",
                quoted(&self.text(of)),
                what.words()
            );
            let hint = (what.data_type == DataType::Text && op == ArithmeticOperator::Add)
                .then(|| "texts cannot be concatenated; name several columns".to_owned());
            return self.fail(Diagnostic::new(of.span, message).maybe_hint(hint));
        }
        let x_words = x.words();
        let y_words = y.words();
        let message = format!("`{sign}` cannot combine {x_words} and {y_words}");
        let durations = [x.unit, y.unit].contains(&Unit::Nanoseconds)
            && (x.is_plain_number() || y.is_plain_number());
        let hint = (durations
            && matches!(op, ArithmeticOperator::Add | ArithmeticOperator::Subtract))
        .then(|| "a number needs a unit, such as 100ms".to_owned());
        let bits = matches!(op, ArithmeticOperator::BitAnd | ArithmeticOperator::BitOr)
            .then(|| "bit operators need whole numbers".to_owned());
        self.fail(Diagnostic::new(expr.span, message).maybe_hint(hint.or(bits)))
    }
}

/// The result type of an operator, and the operator: `/` has two variants.
fn result(
    x: ValueType,
    op: ArithmeticOperator,
    y: ValueType,
) -> Option<(ArithmeticOperator, ValueType)> {
    use ArithmeticOperator::{Add, BitAnd, BitOr, Divide, Multiply, Ratio, Remainder, Subtract};
    use Unit::{Bytes, EpochNanoseconds, Nanoseconds};
    let time = ValueType {
        data_type: DataType::I64,
        unit: EpochNanoseconds,
    };
    let duration = ValueType {
        data_type: DataType::I64,
        unit: Nanoseconds,
    };
    let real = |unit| {
        Some((
            Ratio,
            ValueType {
                data_type: DataType::F64,
                unit,
            },
        ))
    };
    let of = |of: ValueType| Some((op, signed(of)));
    match (op, x.unit, y.unit) {
        (Add, EpochNanoseconds, Nanoseconds) | (Add, Nanoseconds, EpochNanoseconds) => of(time),
        (Subtract, EpochNanoseconds, Nanoseconds) => of(time),
        (Subtract, EpochNanoseconds, EpochNanoseconds) => of(duration),
        _ if !x.is_number() || !y.is_number() => None,
        (BitAnd | BitOr, ..) => {
            (x.unit == Unit::None && y.unit == Unit::None && x.is_whole() && y.is_whole())
                .then_some((op, ValueType::WHOLE))
        }
        (Add | Subtract | Remainder, ..) => of(x.with(y)?),
        (Multiply, _, _) if x.is_plain_number() && y.is_plain_number() => of(x.with(y)?),
        (Multiply, ..) if y.is_plain_number() => of(scaled(x, y)),
        (Multiply, ..) if x.is_plain_number() => of(scaled(y, x)),
        (Divide, _, _) if x.is_plain_number() && y.is_plain_number() => of(x.with(y)?),
        (Divide, a, b) if a == b => real(Unit::None),
        (Divide, _, _) if y.is_plain_number() => of(scaled(x, y)),
        (Divide, Bytes | Unit::None, Nanoseconds) => real(Unit::PerSecond),
        _ => None,
    }
}

/// The type of a quantity multiplied by a number.
fn scaled(quantity: ValueType, number: ValueType) -> ValueType {
    let data_type = if number.data_type == DataType::F64 {
        DataType::F64
    } else {
        quantity.data_type
    };
    ValueType {
        data_type,
        unit: quantity.unit,
    }
}

/// The signed type of a computed value.
pub(super) fn signed(of: ValueType) -> ValueType {
    if of.is_whole() {
        ValueType {
            data_type: DataType::I64,
            ..of
        }
    } else {
        of
    }
}

/// Evaluates an operator on two constants; `None` for null.
fn constant(x: &Literal, op: ArithmeticOperator, y: &Literal) -> Option<Literal> {
    use ArithmeticOperator::{Add, BitAnd, BitOr, Divide, Multiply, Ratio, Remainder, Subtract};
    if let (Literal::I64(x), Literal::I64(y)) = (x, y)
        && op != Ratio
    {
        let whole = match op {
            Add => x.checked_add(*y),
            Subtract => x.checked_sub(*y),
            Multiply => x.checked_mul(*y),
            Divide | Ratio => x.checked_div(*y),
            Remainder => x.checked_rem(*y),
            BitAnd => Some(x & y),
            BitOr => Some(x | y),
        };
        return whole.map(Literal::I64);
    }
    let real = |v: &Literal| match v {
        Literal::I64(v) => Some(*v as f64),
        Literal::F64(v) => Some(*v),
        _ => None,
    };
    let x = real(x)?;
    let y = real(y)?;
    let value = match op {
        Add => x + y,
        Subtract => x - y,
        Multiply => x * y,
        Divide | Ratio => x / y,
        Remainder => x % y,
        BitAnd | BitOr => return None,
    };
    value.is_finite().then_some(Literal::F64(value))
}

fn sign(op: ArithmeticOperator) -> &'static str {
    match op {
        ArithmeticOperator::Add => "+",
        ArithmeticOperator::Subtract => "-",
        ArithmeticOperator::Multiply => "*",
        ArithmeticOperator::Divide | ArithmeticOperator::Ratio => "/",
        ArithmeticOperator::Remainder => "%",
        ArithmeticOperator::BitAnd => "&",
        ArithmeticOperator::BitOr => "|",
    }
}
