//! Random rows, pipelines, windows, and steps.

use super::*;

pub(super) fn rows(
    max: usize,
    time: impl Strategy<Value = i64>,
) -> impl Strategy<Value = Vec<Row>> {
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

pub(super) fn aggregates() -> impl Strategy<Value = Vec<AggregateFunction>> {
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
pub(super) fn selection(
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

pub(super) fn pipelines() -> impl Strategy<Value = Pipeline> {
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
pub(super) fn windowed(mut p: Pipeline, window: Window) -> Pipeline {
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

pub(super) fn steps(time: BoxedStrategy<i64>) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => rows(30, time.clone()).prop_map(Step::Push),
        1 => time.prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 1..6)
}

pub(super) fn predicates() -> impl Strategy<Value = Predicate> {
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
