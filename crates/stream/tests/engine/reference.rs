//! Compares the engine with a simple, slow one: rows in vectors, sorted maps, and a check of every window.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::tuples::{
    DELTA, IP, N, OK, PATH, Plain, RATIO, Row, Way, are_alike, batch_of, batch_with, column,
    dataflow, pipeline, plain, rows_of, run,
};
use plan::{
    AggregateColumn, AggregateFunction, AggregatedValue, CaseSensitivity, Column,
    ComparisonOperator, Dataflow, Literal, Pipeline, Predicate, RegexPattern, ResultSelection,
    ShareTotal, SortDirection, SortKey, TopK, Window, result,
};
use proptest::prelude::*;
use stream::{Engine, EngineConfig, EngineCounters};
use tuple::{DataType, FieldId, common};

// ---- slow engine ----

fn value(row: &Row, field: FieldId) -> Plain {
    match field {
        IP => row.ip.map_or(Plain::Null, |v| Plain::Ip(v.to_vec())),
        PATH => row.path.clone().map_or(Plain::Null, Plain::Text),
        N => row.n.map_or(Plain::Null, Plain::U64),
        DELTA => row.delta.map_or(Plain::Null, Plain::I64),
        RATIO => row.ratio.map_or(Plain::Null, Plain::F64),
        OK => row.ok.map_or(Plain::Null, Plain::Bool),
        _ => Plain::U64(row.id),
    }
}

fn literal(literal: &Literal) -> Plain {
    match literal {
        Literal::Bool(v) => Plain::Bool(*v),
        Literal::U64(v) => Plain::U64(*v),
        Literal::I64(v) => Plain::I64(*v),
        Literal::F64(v) => Plain::F64(*v),
        Literal::Text(v) => Plain::Text(v.clone()),
        Literal::Net(..) => unreachable!("networks have their own arm"),
    }
}

fn truth(predicate: &Predicate, row: &Row) -> Option<bool> {
    truth_of(predicate, &|field| value(row, field))
}

fn truth_of(predicate: &Predicate, value: &dyn Fn(FieldId) -> Plain) -> Option<bool> {
    let known = |field, f: &dyn Fn(Plain) -> bool| match value(field) {
        Plain::Null => None,
        v => Some(f(v)),
    };
    let truth = |predicate: &Predicate| truth_of(predicate, value);
    match predicate {
        Predicate::And(list) => {
            let parts: Vec<Option<bool>> = list.iter().map(truth).collect();
            if parts.contains(&Some(false)) {
                Some(false)
            } else {
                (!parts.contains(&None)).then_some(true)
            }
        }
        Predicate::Or(list) => {
            let none = list
                .iter()
                .map(|p| Predicate::Not(Box::new(p.clone())))
                .collect();
            truth(&Predicate::And(none)).map(|v| !v)
        }
        Predicate::Not(inner) => truth(inner).map(|v| !v),
        Predicate::IsNull(c) => Some(value(c.field) == Plain::Null),
        Predicate::In { column, literals } => {
            known(column.field, &|v| literals.iter().any(|l| literal(l) == v))
        }
        Predicate::Like {
            column, pattern, ..
        } => known(column.field, &|v| {
            let Plain::Text(text) = v else { return false };
            text.contains(pattern.trim_matches('%'))
        }),
        // Patterns in these tests are literal texts after `^`.
        Predicate::Matches { column, regex } => known(column.field, &|v| {
            let Plain::Text(text) = v else { return false };
            text.to_lowercase()
                .starts_with(&regex.pattern[1..].to_lowercase())
        }),
        Predicate::Compare {
            column,
            op,
            literal: Literal::Net(_, prefix),
        } => known(column.field, &|v| {
            let Plain::Ip(ip) = v else { return false };
            // All networks in these tests are prefixes of 10.0.0.0.
            let is_v4 = ip[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
            let address = u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]);
            let inside = is_v4 && (*prefix == 0 || (address ^ 0x0a00_0000) >> (32 - prefix) == 0);
            inside == (*op == ComparisonOperator::Eq)
        }),
        Predicate::Compare {
            column,
            op,
            literal: l,
        } => known(column.field, &|v| {
            let order = v.partial_cmp(&literal(l)).expect("no NaN");
            match op {
                ComparisonOperator::Eq => order == Ordering::Equal,
                ComparisonOperator::Ne => order != Ordering::Equal,
                ComparisonOperator::Lt => order == Ordering::Less,
                ComparisonOperator::Le => order != Ordering::Greater,
                ComparisonOperator::Gt => order == Ordering::Greater,
                ComparisonOperator::Ge => order != Ordering::Less,
            }
        }),
    }
}

fn as_f64(v: &Plain) -> f64 {
    match v {
        Plain::U64(v) => *v as f64,
        Plain::I64(v) => *v as f64,
        Plain::F64(v) => *v,
        other => panic!("{other:?} is no number"),
    }
}

/// Aggregate of a group's rows; shares also use the rows of the window.
fn aggregate(
    p: &Pipeline,
    c: &AggregateColumn,
    rows: &[&Row],
    all: &[&Row],
    seconds: f64,
) -> Plain {
    let field = p.values.get(c.value).map(|v| v.column.field);
    let values_of = |rows: &[&Row]| -> Vec<Plain> {
        field.map_or(Vec::new(), |f| {
            rows.iter()
                .map(|r| value(r, f))
                .filter(|v| *v != Plain::Null)
                .collect()
        })
    };
    let values = values_of(rows);
    let mut sorted = values.clone();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
    let n = values.len() as f64;
    let sum_f64 = || values.iter().map(as_f64).sum::<f64>();
    let sum_of = |values: &[Plain]| -> i128 {
        let integer = |v: &Plain| match v {
            Plain::U64(v) => i128::from(*v),
            Plain::I64(v) => i128::from(*v),
            _ => 0,
        };
        values.iter().map(integer).sum()
    };
    let sum_int = || sum_of(&values);
    let real_sum = |values: &[Plain]| match values.first() {
        Some(Plain::F64(_)) => values.iter().map(as_f64).sum::<f64>(),
        _ => sum_of(values) as f64,
    };
    let part = |part: f64, whole: f64| {
        if whole > 0.0 {
            Plain::F64(part / whole)
        } else {
            Plain::Null
        }
    };
    match &c.aggregate {
        AggregateFunction::Count => Plain::U64(rows.len() as u64),
        AggregateFunction::Rate if seconds == 0.0 => Plain::Null,
        AggregateFunction::Rate => Plain::F64(rows.len() as f64 / seconds),
        AggregateFunction::Distinct(c) => {
            let mut all: Vec<Plain> = rows
                .iter()
                .map(|r| value(r, c.field))
                .filter(|v| *v != Plain::Null)
                .collect();
            all.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
            all.dedup();
            Plain::U64(all.len() as u64)
        }
        AggregateFunction::Share(ShareTotal::Tuples) => part(rows.len() as f64, all.len() as f64),
        AggregateFunction::Success(predicate) | AggregateFunction::Ratio(predicate) => {
            let known: Vec<bool> = rows.iter().filter_map(|r| truth(predicate, r)).collect();
            let yes = known.iter().filter(|v| **v).count();
            if known.is_empty() {
                Plain::Null
            } else {
                Plain::F64(yes as f64 / known.len() as f64)
            }
        }
        _ if values.is_empty() => Plain::Null,
        AggregateFunction::Share(ShareTotal::Values) => {
            part(real_sum(&values), real_sum(&values_of(all)))
        }
        AggregateFunction::Throughput if seconds == 0.0 => Plain::Null,
        AggregateFunction::Throughput => Plain::F64(real_sum(&values) / seconds),
        AggregateFunction::Sum => match values[0] {
            Plain::U64(_) => Plain::U64(sum_int().min(u64::MAX.into()) as u64),
            Plain::I64(_) => Plain::I64(sum_int().clamp(i64::MIN.into(), i64::MAX.into()) as i64),
            _ => Plain::F64(sum_f64()),
        },
        AggregateFunction::Avg => match values[0] {
            Plain::F64(_) => Plain::F64(sum_f64() / n),
            _ => Plain::F64(sum_int() as f64 / n),
        },
        AggregateFunction::Min => sorted[0].clone(),
        AggregateFunction::Max => sorted[sorted.len() - 1].clone(),
        AggregateFunction::Stddev if n < 2.0 => Plain::Null,
        AggregateFunction::Stddev => {
            let mean = sum_f64() / n;
            let squares: f64 = values.iter().map(|v| (as_f64(v) - mean).powi(2)).sum();
            Plain::F64((squares / (n - 1.0)).sqrt())
        }
        AggregateFunction::Quantile(q) => {
            let rank = ((q * n - 1e-9).ceil() as usize).clamp(1, sorted.len());
            Plain::F64(as_f64(&sorted[rank - 1]))
        }
        AggregateFunction::Hist | AggregateFunction::Cdf => Plain::U64(values.len() as u64),
    }
}

/// Result rows as window, key, and aggregates.
fn slow(p: &Pipeline, steps: &[Step]) -> (Vec<Vec<Plain>>, u64) {
    let mut windows: BTreeMap<Option<i128>, Vec<&Row>> = BTreeMap::new();
    let mut late = 0;
    let mut closed = i128::MIN;
    for step in steps {
        match step {
            Step::Advance(watermark) => closed = closed.max((*watermark).into()),
            Step::Push(rows) => {
                for row in rows.iter().filter(|r| !p.value_required || has_value(p, r)) {
                    let Some(w) = p.window else {
                        windows.entry(None).or_default().push(row);
                        continue;
                    };
                    let size = i128::from(w.size_ns);
                    let slide = i128::from(w.slide_ns);
                    let mut start = i128::from(row.ts_end).div_euclid(slide) * slide;
                    let mut taken = false;
                    while start + size > row.ts_end.into() {
                        if start + size + i128::from(w.lateness_ns) > closed {
                            windows.entry(Some(start)).or_default().push(row);
                            taken = true;
                        }
                        start -= slide;
                    }
                    late += u64::from(!taken);
                }
            }
        }
    }
    if p.window.is_none() && p.group.is_empty() {
        windows.entry(None).or_default();
    }
    if let (Some(w), true) = (p.window, p.group.is_empty()) {
        let starts: Vec<i128> = windows.keys().flatten().copied().collect();
        for pair in starts.windows(2) {
            let empty = (pair[1] - pair[0]) / i128::from(w.slide_ns) - 1;
            for i in 1..=empty.min(EngineConfig::default().empty_windows_max.into()) {
                windows.insert(Some(pair[0] + i * i128::from(w.slide_ns)), Vec::new());
            }
        }
    }
    let mut out = Vec::new();
    for (start, rows) in &windows {
        let seconds = match (
            &p.window,
            rows.iter().map(|r| r.ts_end).min(),
            rows.iter().map(|r| r.ts_end).max(),
        ) {
            (Some(w), ..) => w.size_ns as f64 / 1e9,
            (None, Some(a), Some(b)) => (i128::from(b) - i128::from(a)) as f64 / 1e9,
            _ => 0.0,
        };
        let mut groups: Vec<(Vec<Plain>, Vec<&Row>)> = Vec::new();
        for row in rows {
            let key: Vec<Plain> = p.group.iter().map(|g| value(row, g.column.field)).collect();
            match groups.iter_mut().find(|(k, _)| *k == key) {
                Some((_, members)) => members.push(row),
                None => groups.push((key, vec![row])),
            }
        }
        if p.group.is_empty() && groups.is_empty() {
            groups.push((Vec::new(), Vec::new()));
        }
        groups.sort_by(|a, b| a.0.partial_cmp(&b.0).expect("no NaN"));
        let mut lines: Vec<(Vec<Plain>, Vec<Plain>)> = groups
            .into_iter()
            .map(|(key, group)| {
                (
                    key,
                    p.aggregates
                        .iter()
                        .map(|c| aggregate(p, c, &group, rows, seconds))
                        .collect(),
                )
            })
            .collect();
        if let Some(TopK { k, by }) = p.top_k {
            // A stable sort, so that ties keep the order of keys; Null is the smallest `OwnedValue`.
            lines.sort_by(|a, b| b.1[by].partial_cmp(&a.1[by]).expect("no NaN"));
            lines.truncate(k);
        }
        let mut window = Vec::new();
        for (rank, (key, aggregates)) in lines.into_iter().enumerate() {
            let mut line = Vec::new();
            if let (Some(start), Some(w)) = (start, p.window) {
                let cut = |t: i128| Plain::I64(t.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
                line.extend([cut(*start), cut(start + i128::from(w.size_ns))]);
            }
            line.extend(key);
            line.extend(p.top_k.map(|_| Plain::U64(rank as u64 + 1)));
            line.extend(aggregates);
            window.push(line);
        }
        out.extend(selected(&p.selection, window));
    }
    (out, late)
}

/// HAVING, ORDER BY, LIMIT.
fn selected(selection: &ResultSelection, mut lines: Vec<Vec<Plain>>) -> Vec<Vec<Plain>> {
    let cell = |line: &[Plain], field: FieldId| line[usize::from(field.0)].clone();
    lines.retain(|line| {
        selection
            .having
            .as_ref()
            .is_none_or(|p| truth_of(p, &|field| cell(line, field)) == Some(true))
    });
    for key in selection.order_by.iter().rev() {
        let of = |line: &[Plain]| cell(line, key.column.field);
        lines.sort_by(|a, b| {
            let order = of(a).partial_cmp(&of(b)).expect("no NaN");
            if key.direction == SortDirection::Descending {
                order.reverse()
            } else {
                order
            }
        });
    }
    lines.truncate(selection.rows_max.unwrap_or(usize::MAX));
    lines
}

fn has_value(p: &Pipeline, row: &Row) -> bool {
    p.values
        .first()
        .is_none_or(|v| value(row, v.column.field) != Plain::Null)
}

// ---- comparison ----

#[derive(Clone, Debug)]
enum Step {
    Push(Vec<Row>),
    Advance(i64),
}

/// Runs both engines and compares them; also workers with a share of the flows each, whose rows must equal those of one
/// engine.
fn check(p: &Pipeline, steps: &[Step]) {
    let flow = dataflow(vec![p.clone()]);
    let (expected, late) = slow(p, steps);
    let mut engine = Engine::new(&flow, EngineConfig::default());
    let mut out = Vec::new();
    for step in steps {
        match step {
            Step::Push(rows) => engine.push(0, &batch_of(&flow.inputs[0].schema, rows), &mut out),
            Step::Advance(watermark) => engine.advance(*watermark, &mut out),
        }
    }
    engine.finish(&mut out);
    let got = rows_of(&out, Some(0));
    assert_eq!(
        got.len(),
        expected.len(),
        "{p:?}\ngot {got:?}\nexpected {expected:?}"
    );
    let sent = by_workers(&flow, steps, Way::Sent);
    let (cells, _) = by_workers(&flow, steps, Way::Cells);
    let (by_workers, counters) = by_workers(&flow, steps, Way::Attached);
    assert_eq!(sent, (by_workers.clone(), counters), "{p:?}");
    assert!(
        are_alike(&cells, &by_workers),
        "{cells:?} is not {by_workers:?}\n{p:?}"
    );
    let is_of = |c: &AggregateColumn, field| {
        p.values
            .get(c.value)
            .is_some_and(|v| v.column.field == field)
    };
    if p.aggregates
        .iter()
        .any(|c| c.aggregate == AggregateFunction::Stddev && is_of(c, RATIO))
    {
        assert_eq!(by_workers.len(), got.len());
    } else {
        assert_eq!(by_workers, got, "{p:?}");
    }
    assert_eq!(counters, engine.counters());
    let all = steps.iter().flat_map(|s| {
        if let Step::Push(rows) = s {
            &rows[..]
        } else {
            &[]
        }
    });
    let of_row = |r| p.values.iter().map(move |v| value(r, v.column.field));
    let values = all.flat_map(of_row).filter(|v| *v != Plain::Null);
    let largest = values.map(|v| as_f64(&v).abs()).fold(0.0, f64::max);
    let first = expected.first().map_or(0, |l| l.len() - p.aggregates.len());
    for (got, expected) in got.iter().zip(&expected) {
        assert_eq!(got[..first], expected[..first], "{p:?}");
        for ((c, got), expected) in p
            .aggregates
            .iter()
            .zip(&got[first..])
            .zip(&expected[first..])
        {
            assert!(
                agree(&c.aggregate, got, expected, largest),
                "{c:?}: {got:?} is not {expected:?}\n{p:?}"
            );
        }
    }
    let counters = engine.counters();
    assert_eq!(counters.tuples_late, late);
    let rows: u64 = steps
        .iter()
        .map(|s| {
            if let Step::Push(rows) = s {
                rows.len() as u64
            } else {
                0
            }
        })
        .sum();
    assert_eq!(counters.tuples_in, rows);
}

/// Runs the same steps on three workers whose parts are attached in a varying order.
fn by_workers(flow: &Dataflow, steps: &[Step], way: Way) -> (Vec<Vec<Plain>>, EngineCounters) {
    let mut workers =
        [0, 1, 2].map(|w| Engine::worker(flow, way.config(&EngineConfig::default(), w)));
    let mut engine = Engine::new(flow, EngineConfig::default());
    let mut out = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        match step {
            Step::Push(rows) => {
                for (w, worker) in workers.iter_mut().enumerate() {
                    let share: Vec<Row> = rows
                        .iter()
                        .filter(|r| r.id % 3 == w as u64)
                        .cloned()
                        .collect();
                    worker.push(0, &batch_of(&flow.inputs[0].schema, &share), &mut out);
                }
            }
            Step::Advance(watermark) => {
                workers.rotate_left(i % 3);
                let parts = workers.iter_mut().filter_map(|w| w.detach(*watermark));
                parts.for_each(|part| way.bring(part, &mut engine));
                workers.rotate_right(i % 3);
                engine.advance(*watermark, &mut out);
            }
        }
    }
    workers
        .iter_mut()
        .rev()
        .for_each(|w| way.bring(w.detach_all(), &mut engine));
    engine.finish(&mut out);
    (rows_of(&out, Some(0)), engine.counters())
}

fn agree(aggregate: &AggregateFunction, got: &Plain, expected: &Plain, largest: f64) -> bool {
    match (aggregate, got, expected) {
        (AggregateFunction::Quantile(_), Plain::F64(a), Plain::F64(b)) => {
            (a - b).abs() <= b.abs() / 128.0 + 1e-9
        }
        // Deviations of large numbers are small differences of rounded numbers.
        (AggregateFunction::Stddev, Plain::F64(a), Plain::F64(b)) => {
            (a - b).abs() <= 1e-9 * b.abs() + 1e-14 * largest
        }
        (_, Plain::F64(a), Plain::F64(b)) => (a - b).abs() <= 1e-9 * b.abs().max(1e-3),
        (AggregateFunction::Hist, Plain::Text(text), Plain::U64(n)) => {
            let pairs = text.trim_matches(|c| c == '[' || c == ']').split("],[");
            pairs
                .map(|p| {
                    p.split(',')
                        .nth(1)
                        .expect("a pair")
                        .parse::<u64>()
                        .expect("a count")
                })
                .sum::<u64>()
                == *n
        }
        (AggregateFunction::Cdf, Plain::Text(text), Plain::U64(_)) => text.ends_with(",1]]"),
        _ => got == expected,
    }
}

// ---- inputs ----

fn rows(max: usize, time: impl Strategy<Value = i64>) -> impl Strategy<Value = Vec<Row>> {
    let maybe = |v: BoxedStrategy<u64>| prop::option::weighted(0.8, v);
    let n = maybe(prop_oneof![4 => 0u64..6, 2 => 0u64..100_000, 1 => any::<u64>()].boxed());
    let delta = prop::option::weighted(
        0.8,
        prop_oneof![4 => -9i64..9, 2 => -100_000i64..100_000, 1 => any::<i64>()],
    );
    let ratio = prop::option::weighted(0.8, (-9i32..9).prop_map(|v| f64::from(v) / 4.0));
    let path = prop::option::weighted(0.9, "[ab]{0,2}");
    let ip = prop::option::weighted(
        0.9,
        prop_oneof![
            (0u8..4).prop_map(|b| std::net::Ipv4Addr::new(10, b, 0, 1)
                .to_ipv6_mapped()
                .octets()),
            (0u8..2).prop_map(|b| [b; 16]),
        ],
    );
    let row = (
        0u64..9,
        time,
        ip,
        path,
        n,
        delta,
        ratio,
        any::<Option<bool>>(),
    )
        .prop_map(|(id, ts_end, ip, path, n, delta, ratio, ok)| Row {
            id,
            ts_end,
            ip,
            path,
            n,
            delta,
            ratio,
            ok,
            rate: None,
        });
    prop::collection::vec(row, 0..max)
}

fn aggregates() -> impl Strategy<Value = Vec<AggregateFunction>> {
    let failed = Predicate::Compare {
        column: column(DELTA),
        op: ComparisonOperator::Lt,
        literal: Literal::I64(0),
    };
    let one = prop::sample::select(vec![
        AggregateFunction::Count,
        AggregateFunction::Sum,
        AggregateFunction::Avg,
        AggregateFunction::Min,
        AggregateFunction::Max,
        AggregateFunction::Stddev,
        AggregateFunction::Rate,
        AggregateFunction::Distinct(column(PATH)),
        AggregateFunction::Distinct(column(IP)),
        AggregateFunction::Distinct(column(RATIO)),
        AggregateFunction::Quantile(0.5),
        AggregateFunction::Quantile(0.95),
        AggregateFunction::Hist,
        AggregateFunction::Cdf,
        AggregateFunction::Success(failed.clone()),
        AggregateFunction::Ratio(Predicate::Not(Box::new(failed))),
        AggregateFunction::Throughput,
        AggregateFunction::Share(ShareTotal::Tuples),
        AggregateFunction::Share(ShareTotal::Values),
    ]);
    prop::collection::vec(one, 1..6)
}

/// A condition and keys that do not depend on the precision of a number.
fn selection(
    p: &Pipeline,
    choices: &[(prop::sample::Index, u64)],
    rows_max: Option<usize>,
) -> ResultSelection {
    let field = |c: Column| crate::tuples::schema("t").field(c.field).clone();
    let schema = result::schema(p, result::IntervalMode::None, &field);
    let is_exact = |id: &FieldId| {
        let first = schema.fields.len() - 3 - p.aggregates.len();
        let of = usize::from(id.0)
            .checked_sub(first)
            .and_then(|i| p.aggregates.get(i));
        of.is_none_or(|c| {
            matches!(
                c.aggregate,
                AggregateFunction::Count
                    | AggregateFunction::Distinct(_)
                    | AggregateFunction::Min
                    | AggregateFunction::Max
            )
        })
    };
    let columns: Vec<FieldId> = schema
        .ids()
        .take(schema.fields.len() - 3)
        .filter(is_exact)
        .collect();
    let mut selection = ResultSelection {
        rows_max,
        ..ResultSelection::default()
    };
    for (which, n) in choices.iter().filter(|_| !columns.is_empty()) {
        let column = Column {
            input: 0,
            field: columns[which.index(columns.len())],
        };
        let direction = if n % 2 == 0 {
            SortDirection::Ascending
        } else {
            SortDirection::Descending
        };
        match n % 3 {
            0 => selection.order_by.push(SortKey { column, direction }),
            1 => selection.having = Some(Predicate::Not(Box::new(Predicate::IsNull(column)))),
            _ if schema.field(column.field).data_type == DataType::U64 => {
                let literal = Literal::U64(n % 7);
                selection.having = Some(Predicate::Compare {
                    column,
                    op: ComparisonOperator::Ge,
                    literal,
                });
            }
            _ => selection.order_by.push(SortKey { column, direction }),
        }
    }
    selection
}

fn pipelines() -> impl Strategy<Value = Pipeline> {
    let values = prop::sample::subsequence(vec![N, DELTA, RATIO], 1..=3).prop_shuffle();
    let group = prop::sample::subsequence(vec![IP, PATH, N, DELTA, RATIO, OK], 0..=3);
    let top_k = prop::option::of(0usize..6);
    let choices = prop::collection::vec((any::<prop::sample::Index>(), 0u64..100), 0..4);
    let selected = (choices, prop::option::of(0usize..5));
    (
        values,
        group,
        aggregates(),
        top_k,
        any::<prop::sample::Index>(),
        any::<bool>(),
        selected,
    )
        .prop_map(
            |(values, group, aggregates, k, by, value_required, (choices, rows_max))| {
                let mut p = pipeline(None, &group, aggregates);
                p.values = values
                    .iter()
                    .map(|f| AggregatedValue {
                        column: column(*f),
                        unit: tuple::Unit::None,
                    })
                    .collect();
                (0..)
                    .zip(&mut p.aggregates)
                    .for_each(|(i, c): (usize, _)| c.value = i % values.len());
                let by = by.index(p.aggregates.len());
                // Buckets have no order, and sketched or rounded values differ from those of the slow engine.
                let exact = !matches!(
                    p.aggregates[by].aggregate,
                    AggregateFunction::Hist
                        | AggregateFunction::Cdf
                        | AggregateFunction::Stddev
                        | AggregateFunction::Avg
                        | AggregateFunction::Quantile(_)
                        | AggregateFunction::Sum
                        | AggregateFunction::Throughput
                        | AggregateFunction::Share(ShareTotal::Values)
                );
                p.top_k = k.filter(|_| exact).map(|k| TopK { k, by });
                p.value_required = value_required;
                p.selection = selection(&p, &choices, rows_max);
                p
            },
        )
}

/// Adds windows, whose columns come first.
fn windowed(mut p: Pipeline, window: Window) -> Pipeline {
    let behind = |column: &mut Column| column.field.0 += 2;
    p.selection
        .order_by
        .iter_mut()
        .for_each(|key| behind(&mut key.column));
    match &mut p.selection.having {
        Some(Predicate::Compare { column, .. }) => behind(column),
        Some(Predicate::Not(inner)) => {
            if let Predicate::IsNull(column) = &mut **inner {
                behind(column);
            }
        }
        _ => {}
    }
    Pipeline {
        window: Some(window),
        ..p
    }
}

fn steps(time: BoxedStrategy<i64>) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => rows(30, time.clone()).prop_map(Step::Push),
        1 => time.prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 1..6)
}

fn predicates() -> impl Strategy<Value = Predicate> {
    let op = prop::sample::select(vec![
        ComparisonOperator::Eq,
        ComparisonOperator::Ne,
        ComparisonOperator::Lt,
        ComparisonOperator::Le,
        ComparisonOperator::Gt,
        ComparisonOperator::Ge,
    ]);
    let compare = (op, 0u8..6, -2i64..3).prop_map(|(op, which, v)| {
        let (field, literal) = match which {
            0 => (N, Literal::U64(v.unsigned_abs())),
            1 => (DELTA, Literal::I64(v)),
            2 => (RATIO, Literal::F64(v as f64 / 2.0)),
            3 => (PATH, Literal::Text("a".repeat(v.unsigned_abs() as usize))),
            4 => (OK, Literal::Bool(v > 0)),
            _ => {
                let prefix = [0, 8, 15, 16, 32][(v + 2) as usize];
                let op = if op == ComparisonOperator::Eq {
                    op
                } else {
                    ComparisonOperator::Ne
                };
                let net = Literal::Net([10, 0, 0, 0].into(), prefix);
                return Predicate::Compare {
                    column: column(IP),
                    op,
                    literal: net,
                };
            }
        };
        Predicate::Compare {
            column: column(field),
            op,
            literal,
        }
    });
    let in_list = prop::collection::vec(-2i64..3, 0..4).prop_map(|list| Predicate::In {
        column: column(DELTA),
        literals: list.into_iter().map(Literal::I64).collect(),
    });
    let in_text = prop::collection::vec("[ab]{0,2}", 0..4).prop_map(|list| Predicate::In {
        column: column(PATH),
        literals: list.into_iter().map(Literal::Text).collect(),
    });
    let in_ratio = prop::collection::vec(-2i8..3, 0..4).prop_map(|list| Predicate::In {
        column: column(RATIO),
        literals: list.into_iter().map(|v| Literal::F64(v.into())).collect(),
    });
    let like = "[ab]{1,2}".prop_map(|s| Predicate::Like {
        column: column(PATH),
        pattern: format!("%{s}%"),
        case: CaseSensitivity::Sensitive,
    });
    let matches = "[abAB]{1,2}".prop_map(|s| Predicate::Matches {
        column: column(PATH),
        regex: RegexPattern {
            pattern: format!("^{s}"),
            case: CaseSensitivity::Ignored,
        },
    });
    let null =
        prop::sample::select(vec![IP, PATH, N, OK]).prop_map(|f| Predicate::IsNull(column(f)));
    prop_oneof![4 => compare, 1 => in_list, 1 => in_text, 1 => in_ratio, 1 => like, 1 => matches, 1 => null]
        .prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Predicate::And),
                prop::collection::vec(inner.clone(), 0..3).prop_map(Predicate::Or),
                inner.prop_map(|p| Predicate::Not(Box::new(p))),
            ]
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn filters_equal_the_definition(predicate in predicates(), rows in rows(40, (0i64..5).boxed()), at_input in any::<bool>()) {
        let mut flow = dataflow(Vec::new());
        *(if at_input { &mut flow.inputs[0].filter } else { &mut flow.filter }) = Some(predicate.clone());
        let (out, counters) = run(&flow, EngineConfig::default(), &rows, 7);
        let kept: Vec<Row> = rows.iter().filter(|r| truth(&predicate, r) == Some(true)).cloned().collect();
        prop_assert_eq!(rows_of(&out, None), plain(&batch_of(&flow.inputs[0].schema, &kept)));
        prop_assert_eq!(counters.tuples_filtered, (rows.len() - kept.len()) as u64);
    }

    #[test]
    fn aggregates_of_groups_equal_the_definition(p in pipelines(), rows in prop::collection::vec(rows(60, (0i64..1 << 40).boxed()), 1..4)) {
        check(&p, &rows.into_iter().map(Step::Push).collect::<Vec<_>>());
    }

    #[test]
    fn windows_equal_the_definition(
        p in pipelines(), size in 1i64..40, slide in 1i64..40, lateness in 0i64..20, tumbling in any::<bool>(),
        steps in steps((-120i64..120).boxed()),
    ) {
        let slide_ns = if tumbling { size } else { slide.min(size) };
        check(&windowed(p, Window { size_ns: size, slide_ns, lateness_ns: lateness }), &steps);
    }

    #[test]
    fn windows_at_the_ends_of_time(
        p in pipelines(), size in (1i64 << 60)..i64::MAX, parts in 1i64..4,
        steps in steps(prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), Just(0)].boxed()),
    ) {
        check(&windowed(p, Window { size_ns: size, slide_ns: size / parts, lateness_ns: 0 }), &steps);
    }
}

#[test]
fn jumps_of_years_cost_nothing() {
    let mut p = pipeline(None, &[], vec![AggregateFunction::Count]);
    p.window = Some(Window {
        size_ns: 1000,
        slide_ns: 1,
        lateness_ns: 0,
    });
    let at = |ts_end| {
        Step::Push(vec![Row {
            ts_end,
            ..Row::default()
        }])
    };
    let year = 365 * 86_400 * 1_000_000_000;
    check(
        &p,
        &[
            at(0),
            Step::Advance(5),
            Step::Advance(50 * year),
            at(50 * year),
            at(-year),
            Step::Advance(i64::MAX),
            at(0),
        ],
    );
    check(&p, &[at(i64::MIN), at(i64::MAX)]);
}

#[test]
fn windows_without_a_tuple_have_rows_where_there_are_no_groups() {
    let row = |ts_end| Row {
        ts_end,
        ..Row::default()
    };
    let window = Some(Window {
        size_ns: 10,
        slide_ns: 10,
        lateness_ns: 0,
    });
    let rows = |group: &[FieldId], times: [i64; 3]| {
        let p = Pipeline {
            window,
            ..pipeline(
                Some(N),
                group,
                vec![AggregateFunction::Count, AggregateFunction::Max],
            )
        };
        let (out, counters) = run(
            &dataflow(vec![p]),
            EngineConfig::default(),
            &times.map(row),
            1,
        );
        (rows_of(&out, Some(0)), counters.empty_windows_skipped)
    };
    let (all, skipped) = rows(&[], [3, 14, 45]);
    let line = |start: i64, n: u64| {
        [
            Plain::I64(start),
            Plain::I64(start + 10),
            Plain::U64(n),
            Plain::Null,
        ]
    };
    let expected = [
        line(0, 1),
        line(10, 1),
        line(20, 0),
        line(30, 0),
        line(40, 1),
    ];
    assert_eq!(
        (all.iter().map(|row| &row[..4]).collect::<Vec<_>>(), skipped),
        (expected.iter().map(|l| &l[..]).collect(), 0)
    );
    assert_eq!(
        (
            rows(&[PATH], [3, 14, 45]).0.len(),
            rows(&[PATH], [3, 14, 45]).1
        ),
        (3, 0)
    );
    // The maximum number of windows, and one more.
    assert_eq!(
        (
            rows(&[], [0, 10, 10_020]).0.len(),
            rows(&[], [0, 10, 10_020]).1
        ),
        (1003, 0)
    );
    assert_eq!(
        (
            rows(&[], [0, 10, 10_030]).0.len(),
            rows(&[], [0, 10, 10_030]).1
        ),
        (1003, 1)
    );
}

/// Counts of windows of ten seconds as the clock advances to these times, each with or without a tuple of that time.
fn counts_over(filter: Option<Predicate>, clock: &[(i64, bool)]) -> Vec<(i64, u64)> {
    let window = Some(Window {
        size_ns: 10,
        slide_ns: 10,
        lateness_ns: 0,
    });
    let mut flow = dataflow(vec![Pipeline {
        window,
        ..pipeline(None, &[], vec![AggregateFunction::Count])
    }]);
    flow.filter = filter;
    let mut engine = Engine::new(&flow, EngineConfig::default());
    let mut out = Vec::new();
    engine.begin_run(clock[0].0);
    for (now, has_tuple) in clock {
        let rows: Vec<Row> = has_tuple
            .then(|| Row {
                ts_end: *now,
                ..Row::default()
            })
            .into_iter()
            .collect();
        engine.push(
            0,
            &batch_with(&flow.inputs[0].schema, &flow.inputs[0].columns, &rows),
            &mut out,
        );
        engine.advance(*now, &mut out);
        engine.pass(*now, &mut out);
    }
    engine.finish(&mut out);
    let line = |row: &Vec<Plain>| match (&row[0], &row[2]) {
        (Plain::I64(start), Plain::U64(n)) => (*start, *n),
        other => panic!("{other:?}"),
    };
    rows_of(&out, Some(0)).iter().map(line).collect()
}

#[test]
fn silence_is_zero_as_far_as_the_clock_has_come() {
    let expected = [(0, 0), (10, 0), (20, 1), (30, 0), (40, 1), (50, 0), (60, 0)];
    let clock = [(5, false), (25, true), (45, true), (57, false), (61, false)];
    assert_eq!(counts_over(None, &clock), expected);
    // In more steps, or without steps between.
    let steps: Vec<(i64, bool)> = (5..=61).map(|now| (now, now == 25 || now == 45)).collect();
    assert_eq!(counts_over(None, &steps), expected);
    assert_eq!(counts_over(None, &[(5, false), (61, false)]).len(), 7);
    // Within the requested period.
    let at = |op, ns| Predicate::Compare {
        column: column(common::TS_END),
        op,
        literal: Literal::I64(ns),
    };
    let period = Predicate::And(vec![
        at(ComparisonOperator::Ge, 20),
        at(ComparisonOperator::Lt, 50),
    ]);
    assert_eq!(
        counts_over(Some(period), &clock),
        [(20, 1), (30, 0), (40, 1)]
    );
    // A window that would start exactly at the end has not started.
    assert_eq!(
        counts_over(None, &[(35, false), (36, true), (50, false)]),
        [(30, 1), (40, 0)]
    );
}

#[test]
fn nothing_in_nothing_out_but_the_total_of_nothing() {
    let all = vec![
        AggregateFunction::Count,
        AggregateFunction::Sum,
        AggregateFunction::Avg,
        AggregateFunction::Quantile(0.5),
        AggregateFunction::Hist,
        AggregateFunction::Rate,
    ];
    check(&pipeline(Some(N), &[], all.clone()), &[]);
    check(
        &pipeline(Some(N), &[], all.clone()),
        &[Step::Push(Vec::new()), Step::Push(vec![Row::default()])],
    );
    check(&pipeline(Some(N), &[PATH], all.clone()), &[]);
    let mut windowed = pipeline(Some(N), &[], all);
    windowed.window = Some(Window {
        size_ns: 10,
        slide_ns: 10,
        lateness_ns: 0,
    });
    check(&windowed, &[Step::Advance(100)]);
}

#[test]
fn sums_beyond_their_type_are_cut_and_say_so() {
    let rows: Vec<Row> = (0..3)
        .map(|_| Row {
            n: Some(u64::MAX),
            delta: Some(i64::MIN),
            ..Row::default()
        })
        .collect();
    for value in [N, DELTA] {
        let p = pipeline(
            Some(value),
            &[],
            vec![AggregateFunction::Sum, AggregateFunction::Avg],
        );
        check(&p, &[Step::Push(rows.clone())]);
        let (out, counters) = run(&dataflow(vec![p]), EngineConfig::default(), &rows, 10);
        assert_eq!(rows_of(&out, Some(0))[0][2], Plain::Bool(true));
        assert_eq!(counters.sums_saturated, 1);
    }
}

#[test]
fn long_sliding_windows_equal_the_definition() {
    let mut p = pipeline(
        Some(N),
        &[PATH],
        vec![
            AggregateFunction::Count,
            AggregateFunction::Sum,
            AggregateFunction::Max,
            AggregateFunction::Quantile(0.5),
        ],
    );
    p.window = Some(Window {
        size_ns: 120,
        slide_ns: 3,
        lateness_ns: 10,
    });
    for keys in [3, 1000] {
        let rows = |chunk: i64| -> Vec<Row> {
            let row = |i: i64| {
                let mixed = (chunk * 40 + i).wrapping_mul(0x5851_f42d_4c95_7f2d) as u64 >> 33;
                let ts_end = chunk * 40 + i - (mixed % 25) as i64;
                Row {
                    ts_end,
                    path: Some(format!("/{}", mixed % keys)),
                    n: Some(mixed),
                    ..Row::default()
                }
            };
            (0..40).map(row).collect()
        };
        let steps = (0..12).flat_map(|c| [Step::Push(rows(c)), Step::Advance(c * 40)]);
        check(&p, &steps.collect::<Vec<_>>());
    }
}
