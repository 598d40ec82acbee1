//! Computed columns of whole batches equal a slow row-by-row evaluation of the definition.

use plan::{CaseSensitivity, Predicate, RegexPattern, TextFunction};
use proptest::prelude::*;
use tuple::{Field, SchemaFacts, TupleWriter, Unit};

use super::*;
use crate::scalar::Scalar;

const N: FieldId = FieldId(0);
const I: FieldId = FieldId(1);
const F: FieldId = FieldId(2);
const T: FieldId = FieldId(3);
const IP: FieldId = FieldId(4);
const B: FieldId = FieldId(5);

/// An owned value.
#[derive(Clone, Debug, PartialEq)]
enum OwnedValue {
    Null,
    Whole(i128),
    Real(f64),
    Text(String),
    Ip([u8; 16]),
    Bool(bool),
}

type ExprTestRow = [OwnedValue; 6];

fn column(field: FieldId) -> Column {
    Column { input: 0, field }
}

fn schema() -> Schema {
    let types = [
        DataType::U64,
        DataType::I64,
        DataType::F64,
        DataType::Text,
        DataType::Ip,
        DataType::Bool,
    ];
    let names = ["n", "i", "f", "t", "ip", "b"];
    let fields = names
        .iter()
        .zip(types)
        .map(|(name, data_type)| Field::new(name, data_type, Unit::None, ""));
    Schema {
        name: "t".into(),
        version: 1,
        doc: "".into(),
        fields: fields.collect(),
        measure: None,
        key: None,
        parts: &[],
        facts: &SchemaFacts::NONE,
    }
}

fn batch(rows: &[ExprTestRow]) -> Batch {
    let schema = Arc::new(schema());
    let mut writer = TupleWriter::new(schema.clone(), &schema.ids().collect::<Vec<_>>());
    for row in rows {
        for (id, value) in schema.ids().zip(row) {
            match value {
                OwnedValue::Null => {}
                OwnedValue::Whole(v) if id == N => writer.u64(id, *v as u64),
                OwnedValue::Whole(v) => writer.i64(id, *v as i64),
                OwnedValue::Real(v) => writer.f64(id, *v),
                OwnedValue::Text(v) => writer.text(id, v.as_bytes()),
                OwnedValue::Ip(v) => writer.ip(id, v),
                OwnedValue::Bool(v) => writer.bool(id, *v),
            }
        }
        writer.end_row();
    }
    writer.finish()
}

fn fits(value: i128) -> OwnedValue {
    if i64::try_from(value).is_ok() {
        OwnedValue::Whole(value)
    } else {
        OwnedValue::Null
    }
}

/// The definition: all values of a floating point expression are floating point.
fn slow(expr: &Expr, row: &ExprTestRow) -> OwnedValue {
    match value(expr, row) {
        OwnedValue::Whole(v) if type_of(expr) == Some(DataType::F64) => OwnedValue::Real(v as f64),
        v => v,
    }
}

fn value(expr: &Expr, row: &ExprTestRow) -> OwnedValue {
    let text = |e: &Expr| match slow(e, row) {
        OwnedValue::Text(text) => Some(text),
        _ => None,
    };
    let known = |v: Option<OwnedValue>| v.unwrap_or(OwnedValue::Null);
    match expr {
        Expr::Column(c) => match &row[usize::from(c.field.0)] {
            OwnedValue::Whole(v) => fits(*v),
            v => v.clone(),
        },
        Expr::Null => OwnedValue::Null,
        Expr::Literal(Literal::I64(v)) => OwnedValue::Whole((*v).into()),
        Expr::Literal(Literal::F64(v)) => OwnedValue::Real(*v),
        Expr::Literal(Literal::Text(v)) => OwnedValue::Text(v.clone()),
        Expr::Literal(Literal::Bool(v)) => OwnedValue::Bool(*v),
        Expr::Literal(_) => unreachable!("not generated"),
        Expr::Arithmetic(a, op, b) => match (slow(a, row), slow(b, row)) {
            (OwnedValue::Null, _) | (_, OwnedValue::Null) => OwnedValue::Null,
            (OwnedValue::Whole(x), OwnedValue::Whole(y)) if *op != ArithmeticOperator::Ratio => {
                match op {
                    ArithmeticOperator::Add => fits(x + y),
                    ArithmeticOperator::Subtract => fits(x - y),
                    ArithmeticOperator::Multiply => fits(x * y),
                    ArithmeticOperator::Divide if y != 0 => fits(x / y),
                    // The quotient overflows, so the remainder is null.
                    ArithmeticOperator::Remainder if y == -1 && x == i64::MIN.into() => {
                        OwnedValue::Null
                    }
                    ArithmeticOperator::Remainder if y != 0 => fits(x - x / y * y),
                    ArithmeticOperator::BitAnd => fits(x & y),
                    ArithmeticOperator::BitOr => fits(x | y),
                    _ => OwnedValue::Null,
                }
            }
            (x, y) => {
                let x = as_real(&x);
                let y = as_real(&y);
                let value = match op {
                    ArithmeticOperator::Add => x + y,
                    ArithmeticOperator::Subtract => x - y,
                    ArithmeticOperator::Multiply => x * y,
                    ArithmeticOperator::Remainder => x % y,
                    _ => x / y,
                };
                if value.is_finite() {
                    OwnedValue::Real(value)
                } else {
                    OwnedValue::Null
                }
            }
        },
        Expr::Compare(a, op, b) => known(compare(&slow(a, row), &slow(b, row)).map(|order| {
            OwnedValue::Bool(match op {
                ComparisonOperator::Eq => order.is_eq(),
                ComparisonOperator::Ne => order.is_ne(),
                ComparisonOperator::Lt => order.is_lt(),
                ComparisonOperator::Le => order.is_le(),
                ComparisonOperator::Gt => order.is_gt(),
                ComparisonOperator::Ge => order.is_ge(),
            })
        })),
        Expr::Test(condition) => known(holds(condition, row).map(OwnedValue::Bool)),
        Expr::If(condition, a, b) => slow(
            if holds(condition, row) == Some(true) {
                a
            } else {
                b
            },
            row,
        ),
        Expr::Coalesce(list) => list
            .iter()
            .map(|e| slow(e, row))
            .find(|v| *v != OwnedValue::Null)
            .unwrap_or(OwnedValue::Null),
        Expr::Trunc(of, step) => match slow(of, row) {
            OwnedValue::Whole(v) => fits(v.div_euclid((*step).into()) * i128::from(*step)),
            _ => OwnedValue::Null,
        },
        Expr::Subnet(of, v4, _) => match slow(of, row) {
            // In these tests all addresses are 10.x.y.z.
            OwnedValue::Ip(ip) => {
                let bits = u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]);
                let kept = (0..32)
                    .filter(|bit| *bit < u32::from(*v4))
                    .fold(0, |all, bit| all | bits & 1 << (31 - bit));
                OwnedValue::Text(format!("{}/{v4}", std::net::Ipv4Addr::from_bits(kept)))
            }
            _ => OwnedValue::Null,
        },
        Expr::Text(of, function) => known(text(of).and_then(|text| {
            Some(OwnedValue::Text(match function {
                TextFunction::Lower => text.chars().flat_map(char::to_lowercase).collect(),
                TextFunction::Upper => text.chars().flat_map(char::to_uppercase).collect(),
                TextFunction::Split(by, n) => text
                    .split(by.as_str())
                    .collect::<Vec<_>>()
                    .get(*n as usize - 1)?
                    .to_string(),
                // The pattern is one character, matched greedily.
                TextFunction::Extract(regex) => {
                    let c = regex.pattern.chars().next()?;
                    let start = text.find(c)?;
                    text[start..].chars().take_while(|d| *d == c).collect()
                }
                TextFunction::Replace(regex, with) => text.replace(regex.pattern.as_str(), with),
                TextFunction::UrlQuery(_) => unreachable!("not generated"),
            }))
        })),
        Expr::Length(of) => {
            known(text(of).map(|text| OwnedValue::Whole(text.chars().count() as i128)))
        }
    }
}

fn as_real(value: &OwnedValue) -> f64 {
    match value {
        OwnedValue::Whole(v) => *v as f64,
        OwnedValue::Real(v) => *v,
        other => panic!("{other:?} is no number"),
    }
}

fn compare(a: &OwnedValue, b: &OwnedValue) -> Option<std::cmp::Ordering> {
    match (a, b) {
        (OwnedValue::Null, _) | (_, OwnedValue::Null) => None,
        (OwnedValue::Whole(x), OwnedValue::Whole(y)) => Some(x.cmp(y)),
        (OwnedValue::Text(x), OwnedValue::Text(y)) => Some(x.cmp(y)),
        (OwnedValue::Bool(x), OwnedValue::Bool(y)) => Some(x.cmp(y)),
        (x, y) => as_real(x).partial_cmp(&as_real(y)),
    }
}

fn holds(condition: &Predicate, row: &ExprTestRow) -> Option<bool> {
    match condition {
        Predicate::IsNull(c) => Some(row[usize::from(c.field.0)] == OwnedValue::Null),
        Predicate::Compare {
            column,
            literal: Literal::I64(v),
            ..
        } => match &row[usize::from(column.field.0)] {
            OwnedValue::Whole(w) => Some(w < &i128::from(*v)),
            _ => None,
        },
        other => panic!("{other:?} is not generated"),
    }
}

/// Expressions by type: integer, floating point, text, or condition.
fn number() -> impl Strategy<Value = Expr> {
    let whole = prop_oneof![
        Just(Expr::Column(column(N))),
        Just(Expr::Column(column(I))),
        prop_oneof![-3..4i64, any::<i64>()].prop_map(|v| Expr::Literal(Literal::I64(v))),
    ];
    let leaf = prop_oneof![
        6 => whole,
        1 => Just(Expr::Column(column(F))),
        1 => (-3..4i8).prop_map(|v| Expr::Literal(Literal::F64(v.into()))),
        1 => text().prop_map(|t| Expr::Length(Box::new(t))),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let op = prop::sample::select(vec![
            ArithmeticOperator::Add,
            ArithmeticOperator::Subtract,
            ArithmeticOperator::Multiply,
            ArithmeticOperator::Divide,
            ArithmeticOperator::Ratio,
            ArithmeticOperator::Remainder,
        ]);
        prop_oneof![
            4 => (inner.clone(), op, inner.clone()).prop_map(|(a, op, b)| Expr::Arithmetic(Box::new(a), op, Box::new(b))),
            1 => (condition(), inner.clone(), inner.clone()).prop_map(|(c, a, b)| Expr::If(Box::new(c), Box::new(a), Box::new(b))),
            1 => prop::collection::vec(prop_oneof![3 => inner, 1 => Just(Expr::Null)], 1..4).prop_map(Expr::Coalesce),
        ]
    })
}

fn whole() -> impl Strategy<Value = Expr> {
    let leaf = || prop::sample::select(vec![N, I]).prop_map(|f| Expr::Column(column(f)));
    let bits = prop::sample::select(vec![ArithmeticOperator::BitAnd, ArithmeticOperator::BitOr]);
    prop_oneof![
        (leaf(), bits, leaf()).prop_map(|(a, op, b)| Expr::Arithmetic(
            Box::new(a),
            op,
            Box::new(b)
        )),
        (leaf(), prop_oneof![1..10i64, 1..=i64::MAX])
            .prop_map(|(of, step)| Expr::Trunc(Box::new(of), step)),
    ]
}

fn text() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        3 => Just(Expr::Column(column(T))),
        1 => Just(Expr::Null),
        1 => "[ab/]{0,3}".prop_map(|t| Expr::Literal(Literal::Text(t))),
        1 => (0..33u8).prop_map(|bits| Expr::Subnet(Box::new(Expr::Column(column(IP))), bits, 64)),
    ];
    let regex = |pattern: &str| RegexPattern {
        pattern: pattern.into(),
        case: CaseSensitivity::Sensitive,
    };
    let function = prop_oneof![
        Just(TextFunction::Lower),
        Just(TextFunction::Upper),
        (1..4i64).prop_map(|n| TextFunction::Split("/".into(), n)),
        Just(TextFunction::Extract(regex("a+"))),
        Just(TextFunction::Replace(regex("b"), "é/".into())),
    ];
    leaf.prop_recursive(3, 8, 2, move |inner| {
        prop_oneof![
            (inner.clone(), function.clone()).prop_map(|(of, f)| Expr::Text(Box::new(of), f)),
            (condition(), inner.clone(), inner.clone()).prop_map(|(c, a, b)| Expr::If(
                Box::new(c),
                Box::new(a),
                Box::new(b)
            )),
            prop::collection::vec(inner, 1..3).prop_map(Expr::Coalesce),
        ]
    })
}

fn condition() -> impl Strategy<Value = Predicate> {
    prop_oneof![
        prop::sample::select(vec![N, I, F, T, IP, B]).prop_map(|f| Predicate::IsNull(column(f))),
        (-3..4i64).prop_map(|v| Predicate::Compare {
            column: column(I),
            op: ComparisonOperator::Lt,
            literal: Literal::I64(v)
        }),
    ]
}

fn tested() -> impl Strategy<Value = Expr> {
    let op = prop::sample::select(vec![
        ComparisonOperator::Eq,
        ComparisonOperator::Ne,
        ComparisonOperator::Lt,
        ComparisonOperator::Le,
        ComparisonOperator::Gt,
        ComparisonOperator::Ge,
    ]);
    let of = prop_oneof![(number(), number()), (text(), text()), (whole(), number())];
    prop_oneof![
        3 => (of, op).prop_map(|((a, b), op)| Expr::Compare(Box::new(a), op, Box::new(b))),
        1 => condition().prop_map(|c| Expr::Test(Box::new(c))),
    ]
}

fn row() -> impl Strategy<Value = ExprTestRow> {
    let or_null =
        |value: BoxedStrategy<OwnedValue>| prop_oneof![1 => Just(OwnedValue::Null), 4 => value];
    let signed = prop_oneof![-3..4i128, any::<i64>().prop_map(i128::from)];
    let unsigned = prop_oneof![0..4i128, any::<u64>().prop_map(i128::from)];
    let ip = any::<[u8; 3]>().prop_map(|[a, b, c]| {
        std::net::Ipv4Addr::new(10, a, b, c)
            .to_ipv6_mapped()
            .octets()
    });
    (
        or_null(unsigned.prop_map(OwnedValue::Whole).boxed()),
        or_null(signed.prop_map(OwnedValue::Whole).boxed()),
        or_null(
            (-100..100i16)
                .prop_map(|v| OwnedValue::Real(f64::from(v) / 4.0))
                .boxed(),
        ),
        or_null("[aAbé/]{0,6}".prop_map(OwnedValue::Text).boxed()),
        or_null(ip.prop_map(OwnedValue::Ip).boxed()),
        or_null(any::<bool>().prop_map(OwnedValue::Bool).boxed()),
    )
        .prop_map(|(n, i, f, t, ip, b)| [n, i, f, t, ip, b])
}

/// The type of an expression as inferred by the checker.
fn type_of(expr: &Expr) -> Option<DataType> {
    match expr {
        Expr::Column(c) if c.field == N => Some(DataType::I64),
        Expr::Column(c) => Some(schema().field(c.field).data_type),
        Expr::Null => None,
        Expr::Literal(literal) => Some(super::type_of(literal)),
        Expr::Arithmetic(a, op, b) => {
            let is_real = *op == ArithmeticOperator::Ratio
                || [type_of(a), type_of(b)].contains(&Some(DataType::F64));
            Some(if is_real {
                DataType::F64
            } else {
                DataType::I64
            })
        }
        Expr::Compare(..) | Expr::Test(_) => Some(DataType::Bool),
        Expr::If(_, a, b) => [type_of(a), type_of(b)].into_iter().flatten().reduce(wider),
        Expr::Coalesce(list) => list.iter().filter_map(type_of).reduce(wider),
        Expr::Trunc(..) | Expr::Length(_) => Some(DataType::I64),
        Expr::Subnet(..) | Expr::Text(..) => Some(DataType::Text),
    }
}

fn wider(a: DataType, b: DataType) -> DataType {
    if b == DataType::F64 { b } else { a }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn batches_equal_rows(
        expr in prop_oneof![4 => number(), 1 => whole(), 2 => text(), 2 => tested()],
        rows in prop::collection::vec(row(), 0..20),
    ) {
        // A renamed column keeps its type.
        let is_renamed = expr == Expr::Column(column(N));
        let Some(data_type) = type_of(&expr).filter(|_| !is_renamed) else { return Ok(()) };
        let field = Field::new("it", data_type, Unit::None, "");
        // Through a second column that reads the first.
        let computed = [
            ComputedField { field: field.clone(), text: String::new(), expr: expr.clone() },
            ComputedField { field, text: String::new(), expr: Expr::Coalesce(vec![Expr::Column(Column::computed(0))]) },
        ];
        let computer = ColumnComputer::new(&computed, &schema(), &|c| c.field);
        let batch = computer.extend(&batch(&rows), &[0, 1]);
        for (i, row) in rows.iter().enumerate() {
            for id in [FieldId(6), FieldId(7)] {
                let found = match crate::column::ColumnView::of(&batch, id).scalar(i) {
                    Scalar::Null => OwnedValue::Null,
                    Scalar::U64(v) => OwnedValue::Whole(v.into()),
                    Scalar::I64(v) => OwnedValue::Whole(v.into()),
                    Scalar::F64(v) => OwnedValue::Real(v),
                    Scalar::Text(v) => OwnedValue::Text(String::from_utf8(v.to_vec()).expect("text")),
                    Scalar::Ip(v) => OwnedValue::Ip(*v),
                    Scalar::Bool(v) => OwnedValue::Bool(v),
                    Scalar::Hashes(_) => unreachable!("no such column"),
                };
                let expected = slow(&expr, row);
                prop_assert_eq!(found, expected, "{:?} of {:?}", expr, row);
            }
        }
    }
}
