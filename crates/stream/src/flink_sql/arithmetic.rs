//! Arithmetic that is null where it would leave its type. Flink's wraps, divides by zero with an exception that ends the job, and
//! knows infinity.

use plan::Arithmetic;
use tuple::DataType;

use super::lexical::{floor_to, whole};
use super::value::{Ends, Value, least};

/// A sum, difference or product of whole numbers: by way of decimals, which hold them all, and a text, since decimals wrap
/// when they become whole numbers.
pub fn exact(a: &str, op: Arithmetic, b: &str) -> String {
    let sign = match op {
        Arithmetic::Add => "+",
        Arithmetic::Subtract => "-",
        _ => "*",
    };
    let decimal = |of: &str| format!("CAST({of} AS DECIMAL(19, 0))");
    format!("TRY_CAST(CAST({} {sign} {} AS STRING) AS BIGINT)", decimal(a), decimal(b))
}

/// Of whole numbers, towards zero; `literal` is what `b` is, if that is known.
pub fn quotient(a: &str, b: &str, literal: Option<i64>) -> String {
    let negative = || exact("CAST(0 AS BIGINT)", Arithmetic::Subtract, a);
    match literal {
        Some(-1) => negative(),
        Some(_) => format!("({a} / {b})"),
        None => format!("CASE WHEN {b} = -1 THEN {} ELSE {a} / NULLIF({b}, 0) END", negative()),
    }
}

/// Of whole numbers, with the sign of the first.
pub fn remainder(a: &str, b: &str, literal: Option<i64>) -> String {
    // The quotient leaves its type, and so there is no remainder.
    let of_minus_one = || format!("CASE WHEN {a} <> {} THEN {} END", least(), whole(0));
    match literal {
        Some(-1) => of_minus_one(),
        Some(_) => format!("MOD({a}, {b})"),
        None => format!("CASE WHEN {b} = -1 THEN {} ELSE MOD({a}, NULLIF({b}, 0)) END", of_minus_one()),
    }
}

/// The largest multiple of `step` that is no larger, if there is one.
pub fn truncated(of: &str, step: i64) -> String {
    let first = i64::MIN / step * step;
    format!("CASE WHEN {of} >= {} THEN {} END", whole(first), floor_to(of, step))
}

/// The bits that a whole number and `mask` both have: each run of them cut out of the number by division.
pub fn bits_and(of: &str, mask: i64) -> String {
    // Without the topmost bit, so that division rounds down.
    let rest = format!("(CASE WHEN {of} < 0 THEN {of} + 9223372036854775807 + 1 ELSE {of} END)");
    let mut terms = Vec::new();
    let (mut low, bits) = (0, mask as u64 & (u64::MAX >> 1));
    while bits >> low != 0 {
        low += (bits >> low).trailing_zeros();
        let len = (bits >> low).trailing_ones();
        let above = if low == 0 { rest.clone() } else { format!("{rest} / {}", whole(1 << low)) };
        let run = if low + len == 63 { above } else { format!("MOD({above}, {})", whole(1 << len)) };
        terms.push(format!("({run}) * {}", whole(1 << low)));
        low += len;
    }
    if mask < 0 {
        terms.push(format!("CASE WHEN {of} < 0 THEN {} ELSE {} END", least(), whole(0)));
    }
    let sum = if terms.is_empty() { whole(0) } else { terms.join(" + ") };
    format!("CASE WHEN {of} IS NOT NULL THEN {sum} END")
}

/// The bits that either has: a sum that wraps.
pub fn bits_or(of: &str, mask: i64) -> String {
    format!("({of} + {} - {})", whole(mask), bits_and(of, mask))
}

/// Of real numbers; `None`: there is no such operator.
pub fn of_reals(a: Value, op: Arithmetic, b: Value) -> Option<Value> {
    let sign = match op {
        Arithmetic::Add => "+",
        Arithmetic::Subtract => "-",
        Arithmetic::Multiply => "*",
        Arithmetic::Divide | Arithmetic::Ratio => {
            // A quotient by what is not finite would be.
            let sql = format!("({} / NULLIF({}, CAST(0 AS DOUBLE)))", a.sql, b.finite());
            return Some(Value { sql, data_type: Some(DataType::F64), ends: Ends::Open });
        }
        _ => return None,
    };
    let sql = format!("({} {sign} {})", a.sql, b.sql);
    Some(Value { sql, data_type: Some(DataType::F64), ends: Ends::Open })
}
