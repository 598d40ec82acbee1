//! The simple engine: rows in vectors, sorted maps, and a check of every window.

use super::*;

pub(super) fn value(row: &Row, field: FieldId) -> Plain {
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

pub(super) fn truth(predicate: &Predicate, row: &Row) -> Option<bool> {
    truth_of(predicate, &|field| value(row, field))
}

pub(super) fn truth_of(predicate: &Predicate, value: &dyn Fn(FieldId) -> Plain) -> Option<bool> {
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

pub(super) fn as_f64(v: &Plain) -> f64 {
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
pub(super) fn slow(p: &Pipeline, steps: &[Step]) -> (Vec<Vec<Plain>>, u64) {
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
pub(super) fn selected(selection: &ResultSelection, mut lines: Vec<Vec<Plain>>) -> Vec<Vec<Plain>> {
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

pub(super) fn has_value(p: &Pipeline, row: &Row) -> bool {
    p.values
        .first()
        .is_none_or(|v| value(row, v.column.field) != Plain::Null)
}
