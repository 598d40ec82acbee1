//! Cells derived from single tuples by the definitions in `stream::cells`, as another engine's SQL derives them.

use plan::{ComparisonOperator, Literal, Predicate};
use proptest::prelude::*;
use stream::cells::{AccumulatorSpec, CellOrigin, CellTable, ExtremeEnd};
use stream::sampling::replicate;
use stream::{Engine, EngineConfig};
use tuple::{DataType, FieldId};

use super::{Between, betweens, finished, flow_of, roomy};
use crate::partial::rows;
use crate::tuples::cells::{Rows, Value, place};
use crate::tuples::{DELTA, IP, N, OK, PATH, RATIO, Row, are_alike, rows_of, run};

/// A column of a tuple as the value of a cell.
fn value(row: &Row, field: FieldId) -> Value {
    let of = |value: Option<Value>| value.unwrap_or(Value::Null);
    match field {
        PATH => of(row.path.clone().map(Value::Text)),
        N => of(row.n.map(|n| Value::Long(n as i64))),
        DELTA => of(row.delta.map(Value::Long)),
        RATIO => of(row.ratio.map(Value::Double)),
        OK => of(row.ok.map(Value::Bool)),
        IP => of(row.ip.map(|ip| Value::Bytes(ip.to_vec()))),
        other => panic!("{other:?}"),
    }
}

/// An integer, independent of its column's type.
fn integer(value: &Value, data_type: DataType) -> i128 {
    match (value, data_type) {
        (Value::Long(v), DataType::U64) => i128::from(*v as u64),
        (Value::Long(v), _) => i128::from(*v),
        other => panic!("{other:?}"),
    }
}

fn power(exponent: i32) -> f64 {
    f64::powi(2.0, exponent)
}

fn bucket_of_integer(x: i128, b: u32) -> i64 {
    let m = x.unsigned_abs();
    let bucket = if m < 1 << (b + 1) {
        m
    } else {
        let e = (0..128)
            .rev()
            .find(|e| m >= 1 << e)
            .expect("it is not zero");
        u128::from(e - b) * (1 << b) + m / (1 << (e - b))
    };
    if x < 0 {
        -(bucket as i64)
    } else {
        bucket as i64
    }
}

fn bucket_of_real(x: f64, b: i32) -> i64 {
    let m = x.abs();
    let bucket = if m < power(-32) {
        0.0
    } else if m >= power(64) {
        96.0 * power(b)
    } else {
        let e = (-32..64)
            .rev()
            .find(|e| m >= power(*e))
            .expect("it is large enough");
        f64::from(e + 32) * power(b) + ((m / power(e) - 1.0) * power(b)).floor() + 1.0
    };
    if x < 0.0 {
        -(bucket as i64)
    } else {
        bucket as i64
    }
}

/// Evaluates the only predicate of these pipelines.
fn is_true(predicate: &Predicate, row: &Row) -> Option<bool> {
    let Predicate::Compare {
        column,
        op: ComparisonOperator::Ge,
        literal: Literal::I64(least),
    } = predicate
    else {
        panic!("{predicate:?}")
    };
    assert_eq!(column.field, DELTA);
    row.delta.map(|delta| delta >= *least)
}

struct Made<'a> {
    table: &'a CellTable,
    row: Vec<Value>,
}

impl Made<'_> {
    fn set(&mut self, name: &str, value: Value) {
        self.row[place(self.table, name)] = value;
    }
}

/// The cells of one tuple.
fn of_tuple(table: &CellTable, tuple: &Row) -> Rows {
    if table
        .required
        .is_some_and(|column| value(tuple, column.field) == Value::Null)
    {
        return Rows::new();
    }
    let mut key = Made {
        table,
        row: vec![Value::Null; table.columns.len()],
    };
    let pane = table
        .pane_ns
        .map_or(0, |pane_ns| tuple.ts_end.div_euclid(pane_ns));
    key.set("et_ms", Value::Long(0));
    key.set("pane", Value::Long(pane));
    for (i, column) in table.keys.iter().enumerate() {
        let normal = match value(tuple, column.column.field) {
            Value::Double(v) => Value::Double(v + 0.0),
            other => other,
        };
        key.set(&format!("k{i}"), normal);
    }
    let rate = tuple
        .rate
        .filter(|rate| *rate > 0.0 && *rate <= 1.0)
        .unwrap_or(1.0);
    key.set(
        "rate",
        Value::Double(if table.rates.is_some() {
            rate
        } else {
            table.sample
        }),
    );
    let dealt = if table.replicates > 1 {
        replicate(tuple.id, 0)
    } else {
        0
    };
    key.set("replicate", Value::Long(dealt.into()));
    let entry = |slot: usize| {
        let mut entry = Made {
            table,
            row: key.row.clone(),
        };
        entry.set("slot", Value::Long(slot as i64));
        entry.set("n", Value::Long(1));
        entry
    };
    let mut base = Made {
        table,
        row: key.row.clone(),
    };
    base.set("tuples", Value::Long(1));
    base.set("first_ns", Value::Long(tuple.ts_end));
    base.set("last_ns", Value::Long(tuple.ts_end));
    let mut entries = Vec::new();
    for (i, one) in table.accumulators.iter().enumerate() {
        let name = |part: &str| format!("a{i}{part}");
        let known = |of: &stream::cells::MeasuredColumn| {
            Some(value(tuple, of.column.field)).filter(|value| *value != Value::Null)
        };
        match one {
            AccumulatorSpec::Count => base.set(&name("_n"), Value::Long(1)),
            AccumulatorSpec::Outcome(predicate) => {
                if let Some(is_true) = is_true(predicate, tuple) {
                    base.set(&name("_known"), Value::Long(1));
                    base.set(&name("_yes"), Value::Long(is_true.into()));
                }
            }
            AccumulatorSpec::Sum(of) => {
                let Some(x) = known(of) else { continue };
                base.set(&name("_n"), Value::Long(1));
                let sum = if let Value::Double(_) = x {
                    x
                } else {
                    Value::Decimal(integer(&x, of.data_type))
                };
                base.set(&name("_sum"), sum);
            }
            AccumulatorSpec::Spread(of) => {
                let Some(x) = known(of) else { continue };
                let x = integer(&x, of.data_type);
                base.set(&name("_n"), Value::Long(1));
                base.set(&name("_sum"), Value::Decimal(x));
                base.set(&name("_squares"), Value::Decimal(x * x));
            }
            AccumulatorSpec::Extreme(of, ExtremeEnd::Min | ExtremeEnd::Max) => {
                let Some(x) = known(of) else { continue };
                base.set(
                    &name(""),
                    match (x, of.data_type) {
                        (Value::Long(bits), DataType::U64) => {
                            Value::Long((bits as u64 ^ 1 << 63) as i64)
                        }
                        (x, _) => x,
                    },
                );
            }
            AccumulatorSpec::Histogram(of, b) => {
                let Some(x) = known(of) else { continue };
                let (at, x) = match x {
                    Value::Double(x) => (bucket_of_real(x, (*b).into()), x),
                    x => {
                        let x = integer(&x, of.data_type);
                        (bucket_of_integer(x, (*b).into()), x as f64)
                    }
                };
                let mut entry = entry(i);
                entry.set("at", Value::Long(at));
                entry.set("bits", Value::Long((*b).into()));
                entry.set(&name("_min"), Value::Double(x));
                entry.set(&name("_max"), Value::Double(x));
                entries.push(entry.row);
            }
            AccumulatorSpec::Distinct(of) => {
                let Some(x) = known(of) else { continue };
                let mut entry = entry(i);
                entry.set(&format!("d{i}"), x);
                entries.push(entry.row);
            }
        }
    }
    entries.push(base.row);
    entries
}

/// Numbers at bucket boundaries and at the ends of the range.
fn edges() -> impl Strategy<Value = Row> {
    let integer = (any::<u64>(), 0u32..64, 0i64..3)
        .prop_map(|(n, shift, off)| (n >> shift).wrapping_add_signed(off - 1));
    let real = (-40i32..70, -3i64..3, any::<bool>()).prop_map(|(e, off, is_negative)| {
        let near = f64::from_bits(power(e).to_bits().wrapping_add_signed(off));
        if is_negative { -near } else { near }
    });
    (
        0u64..40,
        integer,
        any::<i64>(),
        0u32..64,
        prop_oneof![real, Just(0.0), Just(-0.0)],
    )
        .prop_map(|(id, n, delta, shift, ratio)| Row {
            id,
            n: Some(n),
            delta: Some(delta >> shift),
            ratio: Some(ratio),
            ..Row::default()
        })
}

fn check(p: &plan::Pipeline, sampling: u8, exact: usize, tuples: &[Row], between: Between) {
    let mut p = p.clone();
    // Squares of large numbers and deviations of real numbers have no cells from tuples.
    p.aggregates.retain(|one| {
        one.aggregate != plan::AggregateFunction::Stddev || p.values[0].column.field == DELTA
    });
    let (flow, config): (_, EngineConfig) = flow_of(&p, sampling, exact);
    let table = Engine::new(&flow, config.clone()).cell_table(0).clone();
    let told: Rows = tuples
        .iter()
        .flat_map(|tuple| of_tuple(&table, tuple))
        .collect();
    let got = finished(&flow, &config, |engine| {
        between.bring(&told, CellOrigin::OfTuples, engine)
    });
    let alone = rows_of(&run(&flow, config, tuples, 64).0, Some(0));
    assert!(are_alike(&got, &alone), "{got:#?}\nis not\n{alone:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn cells_of_tuples_equal_those_of_the_engine(
        p in roomy(), n in 0u64..200, seed in any::<u32>(), groups in 1u64..40, sampling in 0u8..3,
        exact in prop::sample::select(vec![2usize, 1000]), between in betweens(),
    ) {
        check(&p, sampling, exact, &rows(n, seed.into(), groups), between);
    }

    #[test]
    fn so_at_the_ends_of_buckets(
        value in prop::sample::select(vec![N, DELTA, RATIO]), fine in any::<bool>(),
        tuples in prop::collection::vec(edges(), 1..60), between in betweens(),
    ) {
        use plan::AggregateFunction::{Cdf, Distinct, Hist, Max, Min, Quantile, Sum};
        let quantiles = [0.0, 0.1, 0.5, 0.9, 1.0].map(Quantile);
        let mut all = vec![Min, Max, Distinct(crate::tuples::column(value))];
        // The sum of real numbers of different magnitudes that cancel out depends on their order.
        all.extend((value != RATIO).then_some(Sum));
        all.extend(quantiles);
        all.extend(if fine { vec![] } else { vec![Hist, Cdf] });
        let p = crate::tuples::pipeline(Some(value), &[], all);
        check(&p, u8::from(fine), 1000, &tuples, between);
    }
}

#[test]
fn ids_are_dealt_evenly() {
    let mut dealt = [0u32; stream::sampling::REPLICATES];
    (0..32_000).for_each(|id| dealt[usize::from(replicate(id, 7))] += 1);
    assert!(dealt.iter().all(|n| (800..1200).contains(n)), "{dealt:?}");
}
