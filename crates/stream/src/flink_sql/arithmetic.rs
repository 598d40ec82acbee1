//! Arithmetic with null on overflow. Flink's arithmetic wraps on overflow, fails the job on division by zero, and
//! produces infinities.

use plan::ArithmeticOperator;
use tuple::DataType;

use super::lexical::{floor_to, whole};
use super::value::{RealRangeEnds, SqlValue, least};

/// A sum, difference, or product of integers. Computed in decimals, which represent all results, and converted
/// through text, because the cast from decimal to integer wraps.
pub fn exact(a: &str, op: ArithmeticOperator, b: &str) -> String {
    let sign = match op {
        ArithmeticOperator::Add => "+",
        ArithmeticOperator::Subtract => "-",
        _ => "*",
    };
    let decimal = |of: &str| format!("CAST({of} AS DECIMAL(19, 0))");
    format!(
        "TRY_CAST(CAST({} {sign} {} AS STRING) AS BIGINT)",
        decimal(a),
        decimal(b)
    )
}

/// Integer division rounding toward zero; `literal` is the value of `b`, if known.
pub fn quotient(a: &str, b: &str, literal: Option<i64>) -> String {
    let negative = || exact("CAST(0 AS BIGINT)", ArithmeticOperator::Subtract, a);
    match literal {
        Some(-1) => negative(),
        Some(_) => format!("({a} / {b})"),
        None => format!(
            "CASE WHEN {b} = -1 THEN {} ELSE {a} / NULLIF({b}, 0) END",
            negative()
        ),
    }
}

/// Integer remainder with the sign of the dividend.
pub fn remainder(a: &str, b: &str, literal: Option<i64>) -> String {
    // The quotient overflows, so the remainder is null.
    let of_minus_one = || format!("CASE WHEN {a} <> {} THEN {} END", least(), whole(0));
    match literal {
        Some(-1) => of_minus_one(),
        Some(_) => format!("MOD({a}, {b})"),
        None => format!(
            "CASE WHEN {b} = -1 THEN {} ELSE MOD({a}, NULLIF({b}, 0)) END",
            of_minus_one()
        ),
    }
}

/// The largest multiple of `step` not greater than the value; null if it overflows.
pub fn truncated(of: &str, step: i64) -> String {
    let first = i64::MIN / step * step;
    format!(
        "CASE WHEN {of} >= {} THEN {} END",
        whole(first),
        floor_to(of, step)
    )
}

/// Bitwise AND of an integer and `mask`: each run of mask bits is extracted by division.
pub fn bits_and(of: &str, mask: i64) -> String {
    // The top bit is removed so that division rounds down.
    let rest = format!("(CASE WHEN {of} < 0 THEN {of} + 9223372036854775807 + 1 ELSE {of} END)");
    let mut terms = Vec::new();
    let mut low = 0;
    let bits = mask as u64 & (u64::MAX >> 1);
    while bits >> low != 0 {
        low += (bits >> low).trailing_zeros();
        let len = (bits >> low).trailing_ones();
        let above = if low == 0 {
            rest.clone()
        } else {
            format!("{rest} / {}", whole(1 << low))
        };
        let run = if low + len == 63 {
            above
        } else {
            format!("MOD({above}, {})", whole(1 << len))
        };
        terms.push(format!("({run}) * {}", whole(1 << low)));
        low += len;
    }
    if mask < 0 {
        terms.push(format!(
            "CASE WHEN {of} < 0 THEN {} ELSE {} END",
            least(),
            whole(0)
        ));
    }
    let sum = if terms.is_empty() {
        whole(0)
    } else {
        terms.join(" + ")
    };
    format!("CASE WHEN {of} IS NOT NULL THEN {sum} END")
}

/// Bitwise OR of an integer and `mask`, as a wrapping sum.
pub fn bits_or(of: &str, mask: i64) -> String {
    format!("({of} + {} - {})", whole(mask), bits_and(of, mask))
}

/// Floating point arithmetic; `None` for unsupported operators.
pub fn of_reals(a: SqlValue, op: ArithmeticOperator, b: SqlValue) -> Option<SqlValue> {
    let sign = match op {
        ArithmeticOperator::Add => "+",
        ArithmeticOperator::Subtract => "-",
        ArithmeticOperator::Multiply => "*",
        ArithmeticOperator::Divide | ArithmeticOperator::Ratio => {
            // The quotient of a finite number by a non-finite one would be finite.
            let sql = format!("({} / NULLIF({}, CAST(0 AS DOUBLE)))", a.sql, b.finite());
            return Some(SqlValue {
                sql,
                data_type: Some(DataType::F64),
                ends: RealRangeEnds::Open,
            });
        }
        _ => return None,
    };
    let sql = format!("({} {sign} {})", a.sql, b.sql);
    Some(SqlValue {
        sql,
        data_type: Some(DataType::F64),
        ends: RealRangeEnds::Open,
    })
}
