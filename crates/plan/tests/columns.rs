//! Columns: those of results, those that expressions read, and periods of time.

use std::net::{IpAddr, Ipv4Addr};

use plan::result::{self, IntervalMode, ResultColumn};
use plan::{
    AggregateColumn, AggregateFunction, AggregatedValue, ArithmeticOperator, Column,
    ComparisonOperator, ComputedField, Expr, GroupBy, Literal, NetworkBudget, Pipeline, Predicate,
    ResourceUsage, ResultSelection, ShareTotal, TapTable, TextFunction, TimeBounds, TopK, Window,
};
use tuple::{DataType, Field, FieldId, Unit};

fn column(n: u16) -> Column {
    Column {
        input: 0,
        field: FieldId(n),
    }
}

/// Columns of the input: a group, a duration, a size, and a number.
fn input(column: Column) -> Field {
    match column.field.0 {
        0 => Field::new("path", DataType::Text, Unit::None, ""),
        1 => Field::new("response_time", DataType::I64, Unit::Nanoseconds, ""),
        2 => Field::new("response", DataType::U64, Unit::Bytes, ""),
        _ => Field::new("status", DataType::U64, Unit::None, ""),
    }
}

fn pipeline(values: &[u16], aggregates: &[(AggregateFunction, usize)]) -> Pipeline {
    let value = |n: &u16| AggregatedValue {
        column: column(*n),
        unit: input(column(*n)).unit,
    };
    let aggregate = |(function, value): &(AggregateFunction, usize)| AggregateColumn {
        value: *value,
        ..AggregateColumn::from(function.clone())
    };
    Pipeline {
        name: "group".into(),
        values: values.iter().map(value).collect(),
        value_required: false,
        group: vec![GroupBy {
            column: column(0),
            name: "page".into(),
        }],
        aggregates: aggregates.iter().map(aggregate).collect(),
        top_k: None,
        window: None,
        groups_max: 10,
        selection: ResultSelection::default(),
        profile: None,
    }
}

/// Names, types, and units of the aggregates' columns.
fn columns(pipeline: &Pipeline, intervals: IntervalMode) -> Vec<(String, DataType, Unit)> {
    let schema = result::schema(pipeline, intervals, &input);
    schema
        .fields
        .into_iter()
        .map(|field| (field.name.into_owned(), field.data_type, field.unit))
        .collect()
}

fn names(pipeline: &Pipeline, intervals: IntervalMode) -> Vec<String> {
    columns(pipeline, intervals)
        .into_iter()
        .map(|(name, ..)| name)
        .collect()
}

#[test]
fn a_result_has_window_group_rank_aggregates_and_bounds() {
    let ranked = Pipeline {
        window: Some(Window {
            size_ns: 1,
            slide_ns: 1,
            lateness_ns: 0,
        }),
        top_k: Some(TopK { k: 3, by: 0 }),
        ..pipeline(&[], &[(AggregateFunction::Count, 0)])
    };
    let expected = [
        "window_start",
        "window_end",
        "page",
        "rank",
        "count",
        "approximate",
        "error_bound",
        "lost",
    ];
    assert_eq!(names(&ranked, IntervalMode::None), expected);
    use ResultColumn::{
        Aggregate, Approximate, ErrorBound, Group, Lost, Rank, WindowEnd, WindowStart,
    };
    let shown = [
        WindowStart,
        WindowEnd,
        Group(0),
        Rank,
        Aggregate(0),
        Approximate,
        ErrorBound,
        Lost,
    ];
    assert_eq!(result::shown(&ranked), shown);
    assert_eq!(result::first_aggregate(&ranked), 4);
    let plain = pipeline(&[], &[(AggregateFunction::Count, 0)]);
    assert_eq!(result::first_aggregate(&plain), 1);
}

/// Every column without intervals is at the place that `places` returns, with or without intervals.
#[test]
fn intervals_follow_ranks_and_aggregates() {
    let ranked = Pipeline {
        top_k: Some(TopK { k: 3, by: 0 }),
        ..pipeline(
            &[1],
            &[(AggregateFunction::Sum, 0), (AggregateFunction::Hist, 0)],
        )
    };
    let plain = names(&ranked, IntervalMode::None);
    let with = names(&ranked, IntervalMode::Shown);
    let expected = [
        "page",
        "rank",
        "rank_low",
        "rank_high",
        "sum_ns",
        "sum_ns_low",
        "sum_ns_high",
        "hist_ns",
        "hist_ns_low",
        "hist_ns_high",
        "approximate",
        "error_bound",
        "lost",
    ];
    assert_eq!(with, expected);
    let placed: Vec<_> = result::places(&ranked, IntervalMode::Shown)
        .into_iter()
        .map(|place| with[usize::from(place.0)].clone())
        .collect();
    assert_eq!(placed, plain);
    let places = result::places(&ranked, IntervalMode::None);
    assert!(
        places
            .iter()
            .enumerate()
            .all(|(n, place)| usize::from(place.0) == n)
    );
    // Bounds of a distribution are distributions, those of a number are numbers.
    let types: Vec<_> = columns(&ranked, IntervalMode::Shown)
        .into_iter()
        .map(|(_, of, _)| of)
        .collect();
    assert_eq!(types[2..=3], [DataType::U64; 2]);
    assert_eq!((types[5], types[8]), (DataType::F64, DataType::Json));
}

#[test]
fn aggregates_have_the_unit_of_their_value() {
    use AggregateFunction::{Avg, Count, Max, Quantile, Rate, Share, Sum, Throughput};
    let one = |value, function| {
        let found = columns(&pipeline(&[value], &[(function, 0)]), IntervalMode::None);
        (found[1].0.clone(), found[1].1, found[1].2)
    };
    for (value, function, name, data_type, unit) in [
        (1, Avg, "avg_ns", DataType::F64, Unit::Nanoseconds),
        (1, Max, "max_ns", DataType::I64, Unit::Nanoseconds),
        (
            1,
            Quantile(0.999),
            "p99_9_ns",
            DataType::F64,
            Unit::Nanoseconds,
        ),
        (2, Sum, "sum_bytes", DataType::U64, Unit::Bytes),
        (
            2,
            Throughput,
            "throughput_bytes",
            DataType::F64,
            Unit::BytesPerSecond,
        ),
        (3, Throughput, "throughput", DataType::F64, Unit::PerSecond),
        (3, Rate, "rate", DataType::F64, Unit::PerSecond),
        (3, Count, "count", DataType::U64, Unit::None),
        (
            3,
            Share(ShareTotal::Tuples),
            "share",
            DataType::F64,
            Unit::Fraction,
        ),
        (
            3,
            Share(ShareTotal::Values),
            "share_status",
            DataType::F64,
            Unit::Fraction,
        ),
    ] {
        assert_eq!(one(value, function), (name.to_owned(), data_type, unit));
    }
}

#[test]
fn several_values_are_named_after_their_columns() {
    use AggregateFunction::{Count, Distinct, Sum};
    let two = pipeline(&[1, 2], &[(Sum, 0), (Sum, 1), (Count, 0)]);
    assert_eq!(
        names(&two, IntervalMode::None)[1..4],
        ["sum_response_time", "sum_response", "count"]
    );
    let distinct = pipeline(&[], &[(Distinct(column(0)), 0), (Distinct(column(3)), 0)]);
    assert_eq!(
        names(&distinct, IntervalMode::None)[1..3],
        ["distinct_path", "distinct_status"]
    );
    let alone = pipeline(&[], &[(Distinct(column(3)), 0)]);
    assert_eq!(names(&alone, IntervalMode::None)[1], "distinct");
    // A name of the query is kept; the same name again gets a number.
    let mut named = pipeline(&[1], &[(Sum, 0), (Sum, 0)]);
    named
        .aggregates
        .iter_mut()
        .for_each(|of| of.name = Some("page".into()));
    assert_eq!(
        names(&named, IntervalMode::None)[..3],
        ["page", "page_2", "page_3"]
    );
}

/// An expression of every kind, with the columns 0 to 9 in order.
fn expression() -> Expr {
    let read = |n| Box::new(Expr::Column(column(n)));
    let test = |n| Box::new(Predicate::Not(Box::new(Predicate::IsNull(column(n)))));
    Expr::Coalesce(vec![
        Expr::Arithmetic(read(0), ArithmeticOperator::Add, read(1)),
        Expr::Compare(
            read(2),
            ComparisonOperator::Lt,
            Box::new(Expr::Literal(Literal::I64(1))),
        ),
        Expr::Test(test(3)),
        Expr::If(test(4), read(5), Box::new(Expr::Null)),
        Expr::Trunc(read(6), 2),
        Expr::Subnet(read(7), 24, 64),
        Expr::Text(read(8), TextFunction::Lower),
        Expr::Length(read(9)),
    ])
}

fn read_by(expr: &Expr) -> Vec<u16> {
    let mut read = Vec::new();
    expr.columns(&mut |column| read.push(column.field.0));
    read
}

#[test]
fn an_expression_reads_all_of_its_columns() {
    assert_eq!(read_by(&expression()), (0..10).collect::<Vec<_>>());
}

#[test]
fn renaming_replaces_every_column() {
    let renamed = expression().renamed(&|of| column(of.field.0 + 100));
    assert_eq!(read_by(&renamed), (100..110).collect::<Vec<_>>());
    assert_eq!(
        renamed.renamed(&|of| column(of.field.0 - 100)),
        expression()
    );
}

#[test]
fn sources_of_a_computed_column_are_input_columns() {
    let computed = |expr| ComputedField {
        field: Field::new("made", DataType::I64, Unit::None, ""),
        text: String::new(),
        expr,
    };
    let all = [
        computed(Expr::Trunc(Box::new(Expr::Column(column(4))), 2)),
        computed(Expr::Coalesce(vec![
            Expr::Column(Column::computed(0)),
            Expr::Column(column(7)),
        ])),
    ];
    let sources = |of| {
        let mut found = Vec::new();
        ComputedField::sources(&all, of, &mut |source| found.push(source));
        found
    };
    assert_eq!(sources(Column::computed(1)), [column(4), column(7)]);
    assert_eq!(sources(column(9)), [column(9)]);
}

#[test]
fn a_period_includes_its_start_and_excludes_its_end() {
    let bounds = |since_ns, until_ns| TimeBounds { since_ns, until_ns };
    let both = bounds(Some(-5), Some(10));
    assert_eq!(
        [-6, -5, 9, 10].map(|ns| both.contains(ns)),
        [false, true, true, false]
    );
    assert!(bounds(None, Some(0)).contains(i64::MIN) && bounds(Some(0), None).contains(i64::MAX));
    assert!(bounds(Some(3), Some(3)).is_empty() && bounds(Some(4), Some(3)).is_empty());
    assert!(!bounds(Some(3), Some(4)).is_empty() && !bounds(Some(3), None).is_empty());
    assert_eq!(
        (both.nanos(), bounds(None, Some(1)).nanos()),
        (Some(15), None)
    );
    assert_eq!(
        bounds(Some(i64::MIN), Some(i64::MAX)).nanos(),
        Some(i64::MAX)
    );
}

#[test]
fn usage_neither_wraps_nor_becomes_negative() {
    let usage = |cpu_millis, memory_bytes| ResourceUsage {
        cpu_millis,
        memory_bytes,
    };
    assert_eq!(
        usage(u64::MAX, 1).and(usage(1, u64::MAX)),
        usage(u64::MAX, u64::MAX)
    );
    assert_eq!(usage(1, 5).less(usage(2, 3)), usage(0, 2));
    assert!(
        usage(1, 2).fits(usage(1, 2))
            && !usage(2, 2).fits(usage(1, 9))
            && !usage(1, 3).fits(usage(9, 2))
    );
}

#[test]
fn an_unlimited_budget_and_a_table_without_other_taps_have_no_effect() {
    assert!(NetworkBudget::default().is_open());
    assert!(
        !NetworkBudget {
            cpu: Some(0.5),
            ..NetworkBudget::default()
        }
        .is_open()
    );
    let own = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    assert!(
        TapTable {
            own: own.clone(),
            others: vec![]
        }
        .is_empty()
    );
    assert!(
        !TapTable {
            own: vec![],
            others: own
        }
        .is_empty()
    );
}
