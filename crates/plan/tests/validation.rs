//! Validation of plans: a valid plan, and one change at a time that makes it invalid.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use plan::{
    AddressMatch, AggregateColumn, AggregateFunction, AggregatedValue, ArithmeticOperator,
    CaseSensitivity, Column, ComparisonOperator, ComputedField, Dataflow, DataflowInput, Expr,
    GroupBy, Literal, MonitorSpec, ParserUse, Pipeline, Plan, Predicate, ProfileSpec, RegexPattern,
    ResultSelection, SampleMode, SortDirection, SortKey, TextFunction, TopK, Window, validate,
};
use tuple::{DataType, Field, FieldId, RedactionRule, Schema, Unit, common};

const STATUS: FieldId = FieldId(common::FIELDS.len() as u16);
const HOST: FieldId = FieldId(STATUS.0 + 1);
const SHARE: FieldId = FieldId(STATUS.0 + 2);
const PARTS: FieldId = FieldId(STATUS.0 + 3);
/// A column of the schema that the plan does not read.
const UNREAD: FieldId = FieldId(STATUS.0 + 4);

fn schema() -> Arc<Schema> {
    let own = [
        Field::new("status", DataType::U64, Unit::None, ""),
        Field::folded("host", DataType::Text, Unit::None, "", &[tuple::HASH]),
        Field::new("share", DataType::F64, Unit::Fraction, ""),
        Field::new("parts", DataType::Json, Unit::None, ""),
        Field::new("unread", DataType::U64, Unit::None, ""),
    ];
    Arc::new(Schema::of_parser("test", 1, "", &own, None, None))
}

fn column(field: FieldId) -> Column {
    Column { input: 0, field }
}

fn pipeline() -> Pipeline {
    Pipeline {
        name: "group-sum".into(),
        values: vec![AggregatedValue {
            column: column(STATUS),
            unit: Unit::None,
        }],
        value_required: false,
        group: vec![GroupBy {
            column: column(HOST),
            name: "host".into(),
        }],
        aggregates: vec![AggregateFunction::Sum.into()],
        top_k: None,
        window: Some(Window {
            size_ns: 10,
            slide_ns: 5,
            lateness_ns: 0,
        }),
        groups_max: 1000,
        selection: ResultSelection::default(),
        profile: None,
    }
}

fn plan() -> Plan {
    let schema = schema();
    let columns = vec![
        common::ID,
        common::CLIENT_IP,
        common::TS_END,
        STATUS,
        HOST,
        SHARE,
        PARTS,
    ];
    Plan {
        query: "PARSE test".into(),
        monitor: MonitorSpec {
            parsers: vec![ParserUse {
                schema: schema.clone(),
                columns: columns.clone(),
            }],
            ..MonitorSpec::default()
        },
        dataflow: Dataflow {
            inputs: vec![DataflowInput {
                schema,
                columns,
                filter: None,
            }],
            pipelines: vec![pipeline()],
            ..Dataflow::default()
        },
    }
}

/// Changes the valid plan; compares the errors.
#[track_caller]
fn check(change: impl FnOnce(&mut Plan), expected: &[&str]) {
    let mut plan = plan();
    change(&mut plan);
    assert_eq!(validate::check(&plan), expected);
}

/// Changes the plan's pipeline.
#[track_caller]
fn check_pipeline(change: impl FnOnce(&mut Pipeline), expected: &[&str]) {
    check(|plan| change(&mut plan.dataflow.pipelines[0]), expected);
}

#[track_caller]
fn check_filter(filter: Predicate, expected: &[&str]) {
    check(|plan| plan.dataflow.filter = Some(filter), expected);
}

/// A computed column of this type.
#[track_caller]
fn check_computed(data_type: DataType, expr: Expr, expected: &[&str]) {
    let field = Field::new("made", data_type, Unit::None, "");
    check(
        |plan| {
            plan.dataflow.computed = vec![ComputedField {
                field,
                text: String::new(),
                expr,
            }]
        },
        expected,
    );
}

fn compare(field: FieldId, op: ComparisonOperator, literal: Literal) -> Predicate {
    Predicate::Compare {
        column: column(field),
        op,
        literal,
    }
}

fn of(field: FieldId) -> Box<Expr> {
    Box::new(Expr::Column(column(field)))
}

const WRONG_TYPE: &[&str] = &["made has another type than declared"];

#[test]
fn the_unchanged_plan_is_valid() {
    check(|_| {}, &[]);
}

#[test]
fn networks_have_a_prefix_of_their_family() {
    let client = |ip, prefix| {
        move |plan: &mut Plan| {
            plan.monitor.clients = vec![AddressMatch {
                net: Some((ip, prefix)),
                port: None,
            }]
        }
    };
    let v4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    check(client(v4, 32), &[]);
    check(client(v6, 128), &[]);
    check(client(v4, 33), &["an invalid network"]);
    check(client(v6, 129), &["an invalid network"]);
}

#[test]
fn a_time_limit_is_not_negative() {
    check(|plan| plan.monitor.limit.nanos = Some(0), &[]);
    check(
        |plan| plan.monitor.limit.nanos = Some(-1),
        &["a negative time limit"],
    );
}

#[test]
fn a_sampled_share_is_between_none_and_all() {
    for share in [f64::MIN_POSITIVE, 0.999] {
        check(
            |plan| plan.monitor.sample = SampleMode::Fraction(share),
            &[],
        );
    }
    for (share, text) in [(0.0, "0"), (1.0, "1"), (f64::NAN, "NaN"), (-0.5, "-0.5")] {
        let expected = format!("{text} is not a share of the flows");
        check(
            |plan| plan.monitor.sample = SampleMode::Fraction(share),
            &[&expected],
        );
    }
}

#[test]
fn an_input_is_a_parsers() {
    check(
        |plan| {
            plan.monitor.parsers[0].schema = Arc::new(Schema {
                version: 2,
                ..Schema::clone(&schema())
            })
        },
        &["input test belongs to no parser"],
    );
    check(
        |plan| plan.monitor.parsers[0].columns.push(FieldId(UNREAD.0 + 1)),
        &["an unknown column of test"],
    );
    check(
        |plan| plan.dataflow.inputs[0].columns.push(UNREAD),
        &["a column of test that its parser does not produce"],
    );
}

#[test]
fn there_is_an_input() {
    check(
        |plan| (plan.monitor.parsers.clear(), plan.dataflow.inputs.clear()).1,
        &["no input"],
    );
}

#[test]
fn joins_and_windows_read_identity_and_time() {
    let without = |id: FieldId| {
        move |plan: &mut Plan| {
            plan.dataflow.inputs[0]
                .columns
                .retain(|column| *column != id)
        }
    };
    check(without(common::ID), &[]);
    check(without(common::TS_END), &["test lacks ts_end"]);
    check(
        |plan| {
            without(common::TS_END)(plan);
            plan.dataflow.pipelines[0].window = None;
        },
        &[],
    );
    // A rate needs the time also without windows.
    check(
        |plan| {
            without(common::TS_END)(plan);
            plan.dataflow.pipelines[0].window = None;
            plan.dataflow.pipelines[0].aggregates = vec![AggregateFunction::Rate.into()];
        },
        &["test lacks ts_end"],
    );
    check(
        |plan| {
            plan.monitor.parsers = vec![plan.monitor.parsers[0].clone(); 2];
            plan.dataflow.inputs = vec![plan.dataflow.inputs[0].clone(); 2];
            without(common::ID)(plan);
        },
        &["test lacks id"],
    );
}

#[test]
fn a_filter_of_an_input_reads_no_other_input() {
    let other = Predicate::IsNull(Column {
        input: 1,
        field: STATUS,
    });
    check(
        |plan| {
            plan.monitor.parsers = vec![plan.monitor.parsers[0].clone(); 2];
            plan.dataflow.inputs = vec![plan.dataflow.inputs[0].clone(); 2];
            plan.dataflow.inputs[0].filter = Some(other);
        },
        &["the filter of an input reads another input"],
    );
}

#[test]
fn a_literal_has_the_type_of_its_column() {
    use ComparisonOperator::{Eq, Ge, Ne};
    let net = Literal::Net(IpAddr::V4(Ipv4Addr::LOCALHOST), 8);
    for valid in [
        compare(STATUS, Ge, Literal::U64(500)),
        compare(HOST, Ge, Literal::Text("a".into())),
        compare(SHARE, Ge, Literal::F64(0.5)),
        compare(common::CLIENT_IP, Eq, net.clone()),
        compare(common::CLIENT_IP, Ne, net.clone()),
        Predicate::In {
            column: column(STATUS),
            literals: vec![Literal::U64(1), Literal::U64(2)],
        },
    ] {
        check_filter(valid, &[]);
    }
    for (invalid, name) in [
        (compare(STATUS, Ge, Literal::I64(500)), "status"),
        (compare(SHARE, Ge, Literal::F64(f64::INFINITY)), "share"),
        (compare(common::CLIENT_IP, Ge, net), "client_ip"),
        (
            Predicate::In {
                column: column(STATUS),
                literals: vec![Literal::U64(1), Literal::Text("1".into())],
            },
            "status",
        ),
    ] {
        let text = format!("{name} is compared with a value of another type");
        check_filter(invalid.clone(), &[&text]);
        // Errors inside of other conditions are found.
        let nested = Predicate::Or(vec![
            Predicate::And(vec![]),
            Predicate::Not(Box::new(invalid)),
        ]);
        check_filter(nested, &[&text]);
    }
}

#[test]
fn patterns_are_for_text() {
    let like = |field| Predicate::Like {
        column: column(field),
        pattern: "%".into(),
        case: CaseSensitivity::Ignored,
    };
    let matches = |field, pattern: &str| Predicate::Matches {
        column: column(field),
        regex: RegexPattern {
            pattern: pattern.into(),
            case: CaseSensitivity::Sensitive,
        },
    };
    check_filter(like(HOST), &[]);
    check_filter(like(PARTS), &[]);
    check_filter(like(STATUS), &["status is not text"]);
    check_filter(matches(HOST, "^a+$"), &[]);
    check_filter(matches(STATUS, "a"), &["status is not text"]);
    check_filter(
        matches(HOST, "("),
        &["an invalid or too large regular expression"],
    );
    check_filter(
        matches(HOST, "(((a{1000}){1000}){1000})"),
        &["an invalid or too large regular expression"],
    );
}

#[test]
fn columns_exist() {
    check_filter(Predicate::IsNull(column(UNREAD)), &["an unknown column"]);
    check_filter(
        Predicate::IsNull(Column {
            input: 7,
            field: STATUS,
        }),
        &["an unknown input"],
    );
    check_filter(
        Predicate::IsNull(Column::computed(0)),
        &["computed column 0 is undefined"],
    );
}

#[test]
fn arithmetic_is_of_numbers() {
    use ArithmeticOperator::{Add, BitAnd, Ratio};
    let arithmetic = |a, op, b| Expr::Arithmetic(of(a), op, of(b));
    check_computed(DataType::I64, arithmetic(STATUS, Add, STATUS), &[]);
    check_computed(DataType::F64, arithmetic(STATUS, Add, SHARE), &[]);
    check_computed(DataType::F64, arithmetic(STATUS, Ratio, STATUS), &[]);
    check_computed(DataType::I64, arithmetic(STATUS, Ratio, STATUS), WRONG_TYPE);
    check_computed(
        DataType::F64,
        arithmetic(SHARE, BitAnd, STATUS),
        &["bit operators on real numbers"],
    );
    check_computed(
        DataType::I64,
        arithmetic(STATUS, Add, HOST),
        &["arithmetic on a value that is not a number"],
    );
    check_computed(DataType::I64, *of(PARTS), WRONG_TYPE);
}

#[test]
fn branches_have_a_common_type() {
    let null = || Box::new(Expr::Null);
    let choose = |a, b| Expr::If(Box::new(Predicate::And(vec![])), a, b);
    check_computed(DataType::I64, choose(of(STATUS), null()), &[]);
    check_computed(DataType::F64, choose(of(STATUS), of(SHARE)), &[]);
    check_computed(
        DataType::I64,
        choose(of(STATUS), of(HOST)),
        &["values of different types"],
    );
    check_computed(
        DataType::F64,
        Expr::Coalesce(vec![*of(SHARE), *of(STATUS)]),
        &[],
    );
    check_computed(
        DataType::Text,
        Expr::Coalesce(vec![Expr::Literal(Literal::Text("-".into())), *of(STATUS)]),
        &["values of different types"],
    );
    // The type of nothing but null is unknown.
    check_computed(DataType::I64, Expr::Coalesce(vec![]), WRONG_TYPE);
    check_computed(
        DataType::Bool,
        Expr::Compare(of(STATUS), ComparisonOperator::Lt, of(HOST)),
        &["values of different types"],
    );
}

#[test]
fn functions_have_operands_in_their_range() {
    check_computed(DataType::I64, Expr::Trunc(of(STATUS), 1), &[]);
    check_computed(
        DataType::I64,
        Expr::Trunc(of(STATUS), 0),
        &["multiples of 0"],
    );
    check_computed(
        DataType::I64,
        Expr::Trunc(of(SHARE), 1),
        &["a function of a wrong argument type"],
    );
    check_computed(
        DataType::Text,
        Expr::Subnet(of(common::CLIENT_IP), 32, 128),
        &[],
    );
    let too_long = &["more bits than an address has"];
    check_computed(
        DataType::Text,
        Expr::Subnet(of(common::CLIENT_IP), 33, 128),
        too_long,
    );
    check_computed(
        DataType::Text,
        Expr::Subnet(of(common::CLIENT_IP), 32, 129),
        too_long,
    );
    check_computed(
        DataType::I64,
        Expr::Length(of(STATUS)),
        &["a function of a wrong argument type"],
    );
    check_computed(
        DataType::F64,
        Expr::Literal(Literal::F64(f64::NAN)),
        &["a number that is not finite"],
    );
}

/// Text of a redacted column stays redacted through every function that keeps part of it; its length does not reveal it.
#[test]
fn a_computed_text_does_not_reveal_a_redacted_one() {
    let secret = &["made would show redacted text"];
    let upper = || Expr::Text(of(HOST), TextFunction::Upper);
    let literal = || Box::new(Expr::Literal(Literal::Text("-".into())));
    check_computed(DataType::Text, upper(), secret);
    check_computed(DataType::Text, *of(HOST), secret);
    check_computed(
        DataType::Text,
        Expr::Coalesce(vec![Expr::Null, upper()]),
        secret,
    );
    let condition = || {
        Box::new(compare(
            HOST,
            ComparisonOperator::Eq,
            Literal::Text("a".into()),
        ))
    };
    check_computed(
        DataType::Text,
        Expr::If(condition(), literal(), Box::new(upper())),
        secret,
    );
    check_computed(
        DataType::Text,
        Expr::If(condition(), literal(), literal()),
        &[],
    );
    check_computed(DataType::I64, Expr::Length(of(HOST)), &[]);
    let folded = Field {
        redact: RedactionRule::Fold(tuple::HASH),
        ..Field::new("made", DataType::Text, Unit::None, "")
    };
    let computed = ComputedField {
        field: folded,
        text: String::new(),
        expr: upper(),
    };
    check(|plan| plan.dataflow.computed = vec![computed], &[]);
}

#[test]
fn computed_columns_read_preceding_ones_only() {
    let made = |name: &'static str, place| ComputedField {
        field: Field::new(name, DataType::I64, Unit::None, ""),
        text: String::new(),
        expr: Expr::Trunc(Box::new(Expr::Column(Column::computed(place))), 2),
    };
    let first = ComputedField {
        expr: Expr::Trunc(of(STATUS), 2),
        ..made("first", 0)
    };
    check(
        |plan| plan.dataflow.computed = vec![first.clone(), made("second", 0)],
        &[],
    );
    for place in [1, 2] {
        check(
            |plan| plan.dataflow.computed = vec![first.clone(), made("second", place)],
            &["a computed column uses a later one"],
        );
    }
}

#[test]
fn raw_rows_have_columns_and_a_sorted_result_has_an_end() {
    check(
        |plan| plan.dataflow.rows.select = Some(vec![]),
        &["no column is shown"],
    );
    check(
        |plan| plan.dataflow.rows.select = Some(vec![column(UNREAD)]),
        &["an unknown column"],
    );
    let order = vec![(column(STATUS), SortDirection::Descending)];
    check(
        |plan| plan.dataflow.rows.order = order.clone(),
        &["an order of rows without a limit"],
    );
    check(
        |plan| {
            plan.dataflow.rows.order = order;
            plan.dataflow.rows.rows_max = Some(1);
        },
        &[],
    );
}

#[test]
fn windows_are_multiples_of_their_slide() {
    let window = |size_ns, slide_ns, lateness_ns| {
        move |pipeline: &mut Pipeline| {
            pipeline.window = Some(Window {
                size_ns,
                slide_ns,
                lateness_ns,
            })
        }
    };
    check_pipeline(window(1000, 1, 7), &[]);
    for (size, slide, lateness) in [
        (0, 1, 0),
        (10, 0, 0),
        (10, -5, 0),
        (10, 3, 0),
        (1001, 1, 0),
        (10, 5, -1),
    ] {
        let text = format!("windows of {size} ns every {slide} ns, {lateness} ns late");
        check_pipeline(window(size, slide, lateness), &[&text]);
    }
}

#[test]
fn the_group_limit_is_bounded() {
    for (limit, expected) in [
        (1, None),
        (100_000_000, None),
        (0, Some("0")),
        (100_000_001, Some("100000001")),
    ] {
        let expected: Vec<String> = expected
            .iter()
            .map(|n| format!("{n} groups at most"))
            .collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check_pipeline(|pipeline| pipeline.groups_max = limit, &expected);
    }
}

#[test]
fn aggregates_have_a_numeric_value() {
    check_pipeline(|pipeline| pipeline.values.clear(), &["an unknown value"]);
    check_pipeline(
        |pipeline| pipeline.aggregates[0].value = 1,
        &["an unknown value"],
    );
    check_pipeline(
        |pipeline| pipeline.values[0].column = column(HOST),
        &["host is not a number"],
    );
    // Counts have no value.
    check_pipeline(
        |pipeline| {
            pipeline.values.clear();
            pipeline.aggregates = vec![AggregateFunction::Count.into()];
        },
        &[],
    );
}

#[test]
fn quantiles_and_conditions_of_aggregates_are_checked() {
    let aggregate = |function| {
        move |pipeline: &mut Pipeline| pipeline.aggregates = vec![AggregateColumn::from(function)]
    };
    for q in [0.0, 1.0] {
        check_pipeline(aggregate(AggregateFunction::Quantile(q)), &[]);
    }
    check_pipeline(
        aggregate(AggregateFunction::Quantile(1.01)),
        &["1.01 is not a quantile"],
    );
    check_pipeline(
        aggregate(AggregateFunction::Quantile(f64::NAN)),
        &["NaN is not a quantile"],
    );
    check_pipeline(
        aggregate(AggregateFunction::Distinct(column(UNREAD))),
        &["an unknown column"],
    );
    let condition = compare(STATUS, ComparisonOperator::Lt, Literal::Bool(true));
    for function in [
        AggregateFunction::Success(condition.clone()),
        AggregateFunction::Ratio(condition),
    ] {
        check_pipeline(
            aggregate(function),
            &["status is compared with a value of another type"],
        );
    }
}

#[test]
fn a_ranking_is_by_an_ordered_aggregate() {
    let top = |k, by, function: AggregateFunction| {
        move |pipeline: &mut Pipeline| {
            pipeline.aggregates = vec![function.into()];
            pipeline.top_k = Some(TopK { k, by });
        }
    };
    check_pipeline(top(1, 0, AggregateFunction::Sum), &[]);
    check_pipeline(
        top(1, 1, AggregateFunction::Sum),
        &["a ranking by a missing aggregate"],
    );
    check_pipeline(
        top(1, 0, AggregateFunction::Hist),
        &["a distribution cannot be ranked"],
    );
    check_pipeline(top(0, 0, AggregateFunction::Sum), &["the first 0 groups"]);
    check_pipeline(
        top(1_000_001, 0, AggregateFunction::Sum),
        &["the first 1000001 groups"],
    );
}

/// Columns of the result: `window_start`, `window_end`, `host`, `sum`, `approximate`, `error_bound`, `lost`.
#[test]
fn a_selection_refers_to_columns_of_the_result() {
    let select =
        |selection: ResultSelection| move |pipeline: &mut Pipeline| pipeline.selection = selection;
    let having = |field, literal| ResultSelection {
        having: Some(compare(FieldId(field), ComparisonOperator::Ge, literal)),
        ..ResultSelection::default()
    };
    check_pipeline(select(having(3, Literal::U64(1))), &[]);
    check_pipeline(select(having(2, Literal::Text("a".into()))), &[]);
    check_pipeline(
        select(having(3, Literal::F64(1.0))),
        &["sum is compared with a value of another type"],
    );
    check_pipeline(
        select(having(7, Literal::U64(1))),
        &["an unknown column of results"],
    );
    for (rows_max, expected) in [
        (1, None),
        (0, Some("a number of rows")),
        (1_000_001, Some("a number of rows")),
    ] {
        let selection = ResultSelection {
            rows_max: Some(rows_max),
            ..ResultSelection::default()
        };
        check_pipeline(select(selection), expected.as_slice());
    }
    let by = |column| ResultSelection {
        order_by: vec![SortKey {
            column,
            direction: SortDirection::Descending,
        }],
        ..ResultSelection::default()
    };
    check_pipeline(select(by(column(FieldId(3)))), &[]);
    check_pipeline(select(by(Column::computed(0))), &["an unknown column"]);
    check_pipeline(
        |pipeline| {
            pipeline.aggregates = vec![AggregateFunction::Hist.into()];
            pipeline.selection = by(column(FieldId(3)));
        },
        &["a distribution cannot be ordered"],
    );
}

#[test]
fn a_profile_replaces_groups_and_aggregates() {
    let all = || Predicate::And(vec![]);
    let profile = ProfileSpec {
        operation: column(HOST),
        reads: all(),
        writes: all(),
        success: None,
        status: None,
        response_time: None,
        read_bytes: None,
        write_bytes: None,
        size: None,
        offset: None,
        file: None,
        aligned: None,
        checksums: None,
        object: None,
        client: column(common::CLIENT_IP),
        k: 10,
        near: 1,
    };
    let alone = |profile: &ProfileSpec| {
        let profile = profile.clone();
        move |pipeline: &mut Pipeline| {
            pipeline.values = vec![];
            pipeline.group = vec![];
            pipeline.aggregates = vec![];
            pipeline.profile = Some(profile);
        }
    };
    check_pipeline(alone(&profile), &[]);
    check_pipeline(
        |pipeline| pipeline.profile = Some(profile.clone()),
        &["a profile has no groups and aggregates"],
    );
    check_pipeline(
        alone(&ProfileSpec {
            k: 0,
            ..profile.clone()
        }),
        &["the 0 hottest"],
    );
    check_pipeline(
        alone(&ProfileSpec {
            offset: Some(column(UNREAD)),
            ..profile.clone()
        }),
        &["an unknown column"],
    );
    let wrong = compare(STATUS, ComparisonOperator::Eq, Literal::Bool(true));
    check_pipeline(
        alone(&ProfileSpec {
            success: Some(wrong),
            ..profile
        }),
        &["status is compared with a value of another type"],
    );
}

/// Each part is checked; no error hides another one.
#[test]
fn all_errors_are_reported() {
    check(
        |plan| {
            plan.dataflow.filter = Some(Predicate::IsNull(column(UNREAD)));
            plan.dataflow.rows.select = Some(vec![]);
            plan.dataflow.pipelines.push(Pipeline {
                groups_max: 0,
                ..pipeline()
            });
            plan.dataflow.pipelines[0].values.clear();
        },
        &[
            "an unknown column",
            "an unknown value",
            "0 groups at most",
            "no column is shown",
        ],
    );
}
