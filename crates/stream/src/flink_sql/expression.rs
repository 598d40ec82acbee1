//! Expressions with the semantics of [`plan::expr`]. Operations that may overflow are guarded. Values used twice are
//! printed twice, so deep expressions are rejected by length.

use std::net::Ipv6Addr;
use std::sync::Arc;

use plan::{ArithmeticOperator, Column, ComparisonOperator, ComputedField, Expr, Literal};
use tuple::{Batch, DataType, Field, FieldId, RedactionRule, Schema, SchemaFacts, Unit};

use super::arithmetic;
use super::lexical::{address, real, text_value, whole};
use super::printer::SqlPrinter;
use super::value::{SqlValue, bytes_of, sign};
use crate::column::ColumnView;
use crate::ops::expr::ColumnComputer;
use crate::scalar::Scalar;

/// Maximum length of an expression.
const SQL_BYTES_MAX: usize = 32 * 1024;

impl SqlPrinter<'_> {
    /// Prints an expression. Expressions without columns are evaluated here.
    pub fn expression(&mut self, expr: &Expr) -> SqlValue {
        let before = self.refused.len();
        let value = self.any_expression(expr);
        if let (Some(data_type), Some(constant)) =
            (value.data_type, constant(expr, value.data_type))
        {
            self.refused.truncate(before);
            return constant.map_or(SqlValue::null(Some(data_type)), |literal| {
                self.literal(&literal)
            });
        }
        if value.sql.len() <= SQL_BYTES_MAX {
            return value;
        }
        self.refuse(
            "an expression",
            "it is nested too deeply: repeated parts would make the SQL too long",
        );
        SqlValue::null(value.data_type)
    }

    fn any_expression(&mut self, expr: &Expr) -> SqlValue {
        match expr {
            Expr::Column(column) => self.number_or_other(*column),
            Expr::Literal(literal) => self.literal(literal),
            Expr::Null => SqlValue::null(None),
            Expr::Arithmetic(a, op, b) => self.arithmetic(a, *op, b),
            Expr::Compare(a, op, b) => {
                let (values, data_type) = self.unified(&[a, b]);
                let [a, b] = <[String; 2]>::try_from(values).expect("two values");
                SqlValue::new(
                    compare(&a, *op, &b, data_type.unwrap_or(DataType::I64)),
                    DataType::Bool,
                )
            }
            Expr::Test(condition) => {
                SqlValue::new(format!("({})", self.predicate(condition)), DataType::Bool)
            }
            Expr::If(condition, a, b) => {
                let condition = self.predicate(condition);
                let (values, data_type) = self.unified(&[a, b]);
                let Some(data_type) = data_type else {
                    return SqlValue::null(None);
                };
                let sql = format!(
                    "CASE WHEN {condition} THEN {} ELSE {} END",
                    values[0], values[1]
                );
                SqlValue::new(sql, data_type)
            }
            Expr::Coalesce(list) => {
                let (values, data_type) = self.unified(&list.iter().collect::<Vec<_>>());
                let Some(data_type) = data_type else {
                    return SqlValue::null(None);
                };
                SqlValue::new(format!("COALESCE({})", values.join(", ")), data_type)
            }
            Expr::Trunc(of, step) => {
                let of = self.expression(of).of(DataType::I64).sql;
                SqlValue::new(arithmetic::truncated(&of, *step), DataType::I64)
            }
            Expr::Subnet(_, v4, v6) => {
                let what = format!("subnet(…, {v4}, {v6})");
                self.refuse(
                    &what,
                    "Flink SQL has no functions that write addresses as text",
                );
                SqlValue::null(Some(DataType::Text))
            }
            Expr::Text(of, function) => {
                let of = self.expression(of).of(DataType::Text).sql;
                self.text_function(&of, function)
            }
            Expr::Length(of) => {
                let of = self.expression(of).of(DataType::Text).sql;
                SqlValue::new(format!("CAST(CHAR_LENGTH({of}) AS BIGINT)"), DataType::I64)
            }
        }
    }

    /// A column as a value; an unsigned integer above the signed range is null.
    fn number_or_other(&mut self, column: Column) -> SqlValue {
        let (sql, data_type) = self.column(column);
        match data_type {
            DataType::U64 => SqlValue::new(
                format!("CASE WHEN {sql} >= 0 THEN {sql} END"),
                DataType::I64,
            ),
            DataType::Json => SqlValue::new(sql, DataType::Text),
            other => SqlValue::new(sql, other),
        }
    }

    fn literal(&mut self, literal: &Literal) -> SqlValue {
        match literal {
            Literal::Bool(true) => SqlValue::new("TRUE", DataType::Bool),
            Literal::Bool(false) => SqlValue::new("FALSE", DataType::Bool),
            Literal::I64(value) => SqlValue::new(whole(*value), DataType::I64),
            Literal::U64(value) => match i64::try_from(*value) {
                Ok(value) => SqlValue::new(whole(value), DataType::I64),
                Err(_) => SqlValue::null(Some(DataType::I64)),
            },
            Literal::F64(value) if value.is_finite() => SqlValue::new(real(*value), DataType::F64),
            Literal::F64(value) => {
                self.refuse(&value.to_string(), "the number cannot be written in SQL");
                SqlValue::null(Some(DataType::F64))
            }
            Literal::Text(value) => SqlValue::new(text_value(value), DataType::Text),
            Literal::Net(ip, _) => {
                let ip = match ip {
                    std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    std::net::IpAddr::V6(ip) => *ip,
                };
                SqlValue::new(
                    format!("CAST({} AS BYTES)", address(ip.to_bits())),
                    DataType::Ip,
                )
            }
        }
    }

    /// Converts values to a common type, if there is one: integers become floating point next to floating point.
    fn unified(&mut self, list: &[&Expr]) -> (Vec<String>, Option<DataType>) {
        let values: Vec<SqlValue> = list.iter().map(|expr| self.expression(expr)).collect();
        let types = values.iter().filter_map(|value| value.data_type);
        let common = types.reduce(|a, b| if b == DataType::F64 { b } else { a });
        let wanted = common.unwrap_or(DataType::I64);
        (
            values
                .into_iter()
                .map(|value| value.of(wanted).finite())
                .collect(),
            common,
        )
    }

    fn arithmetic(&mut self, a: &Expr, op: ArithmeticOperator, b: &Expr) -> SqlValue {
        let literal = match b {
            Expr::Literal(Literal::I64(value)) => Some(*value),
            Expr::Literal(Literal::U64(value)) => i64::try_from(*value).ok(),
            _ => None,
        };
        let first = match a {
            Expr::Literal(Literal::I64(value)) => Some(*value),
            _ => None,
        };
        let is_zero = match b {
            Expr::Literal(Literal::F64(value)) => *value == 0.0,
            _ => literal == Some(0),
        };
        let divides = matches!(
            op,
            ArithmeticOperator::Divide | ArithmeticOperator::Ratio | ArithmeticOperator::Remainder
        );
        let a = self.expression(a);
        let b = self.expression(b);
        let is_real = [a.data_type, b.data_type].contains(&Some(DataType::F64))
            || op == ArithmeticOperator::Ratio;
        if a.is_null() || b.is_null() || divides && is_zero {
            return SqlValue::null(Some(if is_real {
                DataType::F64
            } else {
                DataType::I64
            }));
        }
        if is_real {
            return match arithmetic::of_reals(a.of(DataType::F64), op, b.of(DataType::F64)) {
                Some(value) => value,
                None => {
                    self.refuse(
                        "the remainder of real numbers",
                        "Flink SQL has no exact one",
                    );
                    SqlValue::null(Some(DataType::F64))
                }
            };
        }
        let a = a.of(DataType::I64).sql;
        let b = b.of(DataType::I64).sql;
        let bits = match (op, literal, first) {
            (ArithmeticOperator::BitAnd | ArithmeticOperator::BitOr, Some(mask), _) => {
                Some((&a, mask))
            }
            (ArithmeticOperator::BitAnd | ArithmeticOperator::BitOr, None, Some(mask)) => {
                Some((&b, mask))
            }
            _ => None,
        };
        let sql = match (op, bits) {
            (ArithmeticOperator::BitAnd, Some((of, mask))) => arithmetic::bits_and(of, mask),
            (ArithmeticOperator::BitOr, Some((of, mask))) => arithmetic::bits_or(of, mask),
            (ArithmeticOperator::BitAnd | ArithmeticOperator::BitOr, None) => {
                self.refuse(
                    "the bits of two columns",
                    "Flink SQL has no bit operators; they are computed for a constant only",
                );
                "CAST(NULL AS BIGINT)".into()
            }
            (ArithmeticOperator::Divide, _) => arithmetic::quotient(&a, &b, literal),
            (ArithmeticOperator::Remainder, _) => arithmetic::remainder(&a, &b, literal),
            _ => arithmetic::exact(&a, op, &b),
        };
        SqlValue::new(sql, DataType::I64)
    }
}

/// The value of an expression without columns; `None` if it reads columns or is already a literal.
fn constant(expr: &Expr, data_type: Option<DataType>) -> Option<Option<Literal>> {
    let mut reads = matches!(expr, Expr::Literal(_) | Expr::Null);
    expr.columns(&mut |_| reads = true);
    let data_type = data_type.filter(|_| !reads)?;
    let field = Field {
        name: "constant".into(),
        data_type,
        unit: Unit::None,
        doc: "".into(),
        redact: RedactionRule::Keep,
    };
    let computed = ComputedField {
        field,
        text: String::new(),
        expr: expr.clone(),
    };
    let facts = &SchemaFacts::NONE;
    let name = "nothing".into();
    let doc = "".into();
    let fields = Vec::new();
    let parts = &[][..];
    let schema = Schema {
        name,
        version: 1,
        doc,
        fields,
        measure: None,
        key: None,
        parts,
        facts,
    };
    let batch = Batch::new(Arc::new(schema.clone()), 1, Vec::new());
    let batch =
        ColumnComputer::new(&[computed], &schema, &|column| column.field).extend(&batch, &[0]);
    Some(match ColumnView::of(&batch, FieldId(0)).scalar(0) {
        Scalar::Bool(value) => Some(Literal::Bool(value)),
        Scalar::I64(value) => Some(Literal::I64(value)),
        Scalar::F64(value) => Some(Literal::F64(value)),
        Scalar::Text(value) => Some(Literal::Text(String::from_utf8_lossy(value).into_owned())),
        Scalar::Ip(value) => Some(Literal::Net(Ipv6Addr::from(*value).into(), 128)),
        Scalar::Null | Scalar::U64(_) | Scalar::Hashes(_) => None,
    })
}

/// Compares two values of one type.
fn compare(a: &str, op: ComparisonOperator, b: &str, data_type: DataType) -> String {
    let sign = sign(op);
    match (data_type, op) {
        (_, ComparisonOperator::Eq | ComparisonOperator::Ne) => format!("({a} {sign} {b})"),
        (DataType::Bool, _) => format!("(CAST({a} AS INT) {sign} CAST({b} AS INT))"),
        // By bytes: Flink compares Java strings by 16-bit code units.
        (DataType::Text | DataType::Json, _) => format!("({} {sign} {})", bytes_of(a), bytes_of(b)),
        _ => format!("({a} {sign} {b})"),
    }
}
