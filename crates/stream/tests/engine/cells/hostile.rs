//! Forged rows: they are rejected, or their contents are encoded again, attached, and printed, within the memory
//! limits.

use plan::{AggregateFunction, Window};
use proptest::prelude::*;
use stream::cells::CellOrigin;
use stream::{Engine, EngineConfig, MalformedPartial};

use super::{cells_of, flow_of, roomy};
use crate::partial::rows;
use crate::tuples::cells::{Rows, Value, batch, place};
use crate::tuples::{N, PATH, Row, column, pipeline};

fn any_value(like: &Value, kind: u8, bits: u64) -> Value {
    let small = bits % 70;
    match (like, kind) {
        (_, 0) => Value::Null,
        (Value::Long(_), 1) => Value::Long(small as i64 - 5),
        (Value::Long(_), _) => Value::Long(bits as i64),
        (Value::Double(_), 1) => Value::Double(f64::from_bits(bits)),
        (Value::Double(_), _) => {
            Value::Double([f64::NAN, 1.0, 0.5, -1.0, f64::INFINITY][bits as usize % 5])
        }
        (Value::Decimal(_), _) => Value::Decimal(i128::from(bits as i64) << small.min(60)),
        (Value::Bytes(bytes), 1) => Value::Bytes(bytes[..bytes.len().min(small as usize)].to_vec()),
        (Value::Bytes(bytes), _) => {
            let mut bytes = bytes.clone();
            if let Some(byte) = bytes.get_mut(small as usize) {
                *byte ^= 1 << (bits >> 60 & 7);
            }
            Value::Bytes(bytes)
        }
        (other, _) => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_rows_do_no_harm(
        p in roomy(), n in 1u64..60, seed in any::<u32>(), groups in 1u64..20, sampling in 0u8..3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..4, any::<u64>()), 0..6),
    ) {
        let (flow, config) = flow_of(&p, sampling, 8);
        let mut told: Rows = cells_of(&flow, &config, &rows(n, seed.into(), groups), 2, true);
        let mut engine = Engine::new(&flow, EngineConfig { window_bytes_max: 1 << 20, ..config });
        let table = engine.cell_table(0).clone();
        let changes = if told.is_empty() { Vec::new() } else { changes };
        for (row, at, kind, bits) in changes {
            // The value of the same column in another row, or a similar value.
            let row = row.index(told.len());
            let at = at.index(table.columns.len());
            let other = told[bits as usize % told.len()][at].clone();
            told[row][at] = if kind == 3 { other } else { any_value(&told[row][at], kind, bits) };
        }
        let rows = batch(&table, CellOrigin::Merged, &told);
        if let Ok(part) = engine.partial_of_cells(0, &rows) {
            let again = part.encode();
            prop_assert_eq!(engine.decode_partial(&again).expect("it was encoded").encode(), again);
            engine.attach(part);
            engine.attach(engine.partial_of_cells(0, &rows).expect("as before"));
            let mut out = Vec::new();
            engine.make_room(&mut out);
            engine.finish(&mut out);
        }
    }
}

/// Changing one column of a row gives the expected error.
#[test]
fn rejected_cells_state_a_reason() {
    let all = vec![
        AggregateFunction::Sum,
        AggregateFunction::Quantile(0.5),
        AggregateFunction::Distinct(column(N)),
        AggregateFunction::Max,
    ];
    let window = Some(Window {
        size_ns: 100,
        slide_ns: 100,
        lateness_ns: 0,
    });
    let (flow, config) = flow_of(
        &plan::Pipeline {
            window,
            ..pipeline(Some(N), &[PATH], all)
        },
        0,
        1000,
    );
    let told = cells_of(
        &flow,
        &config,
        &[Row {
            n: Some(5),
            ..Row::default()
        }],
        1,
        false,
    );
    let engine = Engine::new(&flow, config);
    let table = engine.cell_table(0).clone();
    let slot = |row: &[Value]| row[place(&table, "slot")].clone();
    let check = |of: Value, name: &str, value: Value, what: Option<MalformedPartial>| {
        let mut told = told.clone();
        let row = told
            .iter_mut()
            .find(|row| slot(row) == of)
            .expect("a row of each kind");
        row[place(&table, name)] = value;
        let got = engine
            .partial_of_cells(0, &batch(&table, CellOrigin::Merged, &told))
            .err();
        assert_eq!(got, what, "{name}");
    };
    let invalid = |what| Some(MalformedPartial::Invalid(what));
    let base = Value::Null;
    let quantile = Value::Long(1);
    let distinct = Value::Long(2);
    check(base.clone(), "a0_n", Value::Long(1), None);
    check(base.clone(), "a0_n", Value::Long(-1), invalid("a count"));
    check(
        base.clone(),
        "a0_n",
        Value::Long(1 << 49),
        invalid("a count"),
    );
    check(base.clone(), "a0_sum", Value::Null, invalid("a sum"));
    check(
        base.clone(),
        "a0_sum",
        Value::Decimal(1 << 65),
        invalid("a sum"),
    );
    check(base.clone(), "rate", Value::Double(0.0), invalid("a rate"));
    check(
        base.clone(),
        "rate",
        Value::Double(f64::NAN),
        invalid("a rate"),
    );
    check(
        base.clone(),
        "rate",
        Value::Double(0.5),
        Some(MalformedPartial::OtherDataflow("the sampling rate")),
    );
    check(
        base.clone(),
        "replicate",
        Value::Long(1),
        Some(MalformedPartial::OtherDataflow("the number of replicates")),
    );
    check(
        base.clone(),
        "pane",
        Value::Long(i64::MAX),
        invalid("a time"),
    );
    check(base.clone(), "pane", Value::Null, None);
    check(base.clone(), "first_ns", Value::Long(4), invalid("a time"));
    check(
        base,
        "whole",
        Value::Bytes(vec![9]),
        Some(MalformedPartial::Version(9)),
    );
    check(
        quantile.clone(),
        "slot",
        Value::Long(7),
        invalid("an accumulator"),
    );
    check(
        quantile.clone(),
        "slot",
        Value::Long(0),
        invalid("an accumulator"),
    );
    check(
        quantile.clone(),
        "bits",
        Value::Long(9),
        invalid("a histogram"),
    );
    check(
        quantile.clone(),
        "at",
        Value::Long(1 << 40),
        invalid("a histogram"),
    );
    check(quantile.clone(), "at", Value::Null, invalid("a histogram"));
    check(quantile.clone(), "n", Value::Null, invalid("a count"));
    check(
        quantile,
        "a1_min",
        Value::Double(f64::NAN),
        invalid("a value"),
    );
    check(distinct, "at", Value::Null, invalid("a value"));
    let other = flow_of(
        &pipeline(Some(N), &[PATH, N], vec![AggregateFunction::Max]),
        0,
        1000,
    );
    let refused = Engine::new(&other.0, other.1)
        .partial_of_cells(0, &batch(&table, CellOrigin::Merged, &told));
    assert_eq!(
        refused.err(),
        Some(MalformedPartial::OtherDataflow("the columns of cells"))
    );
}

/// Each row is a group with its own sampling rate, and two rows claim histograms over the full range: they are rejected
/// before the memory is allocated.
#[test]
fn claims_are_weighed() {
    let p = pipeline(
        Some(N),
        &[N],
        vec![
            AggregateFunction::Quantile(0.5),
            AggregateFunction::Distinct(column(N)),
        ],
    );
    let (flow, config) = flow_of(&p, 2, 1000);
    let engine = Engine::new(
        &flow,
        EngineConfig {
            window_bytes_max: 1 << 20,
            ..config
        },
    );
    let table = engine.cell_table(0).clone();
    let row = |key: i64, at: i64, rate: f64| {
        let mut row = vec![Value::Null; table.columns.len()];
        let mut set = |name: &str, value| row[place(&table, name)] = value;
        set("pane", Value::Long(0));
        set("k0", Value::Long(key));
        set("rate", Value::Double(rate));
        set("replicate", Value::Long(key % 32));
        set("slot", Value::Long(0));
        set("at", Value::Long(at));
        set("bits", Value::Long(9));
        set("n", Value::Long(1 << 30));
        row
    };
    let wide: Rows = (0..4000)
        .flat_map(|key| [row(key, 0, 1.0), row(key, 28_000, 1.0)])
        .collect();
    let many: Rows = (0..8000)
        .map(|key| row(key, 5, 1.0 / (1.0 + (key % 64) as f64)))
        .collect();
    for rows in [wide, many] {
        let refused = engine.partial_of_cells(0, &batch(&table, CellOrigin::Merged, &rows));
        assert_eq!(refused.err(), Some(MalformedPartial::TooLarge));
    }
    // A whole pane with a very large count.
    let mut whole = vec![Value::Null; table.columns.len()];
    whole[place(&table, "pane")] = Value::Long(0);
    let bytes = engine
        .partial_of_cells(0, &batch(&table, CellOrigin::Merged, &[row(1, 5, 1.0)]))
        .expect("it is valid");
    // Without version and counters; one pipeline.
    let bytes = [&[1], &bytes.encode()[3..]].concat();
    whole[place(&table, "whole")] = Value::Bytes(bytes);
    for (n, is_refused) in [(3, false), (1 << 48, true)] {
        whole[place(&table, "n")] = Value::Long(n);
        let read = engine.partial_of_cells(0, &batch(&table, CellOrigin::Merged, &[whole.clone()]));
        assert_eq!(
            read.err(),
            is_refused.then_some(MalformedPartial::TooLarge),
            "{n}"
        );
    }
}
