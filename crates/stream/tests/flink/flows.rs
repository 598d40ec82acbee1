//! Dataflows that together cover all generated SQL.

use plan::{
    AggregateColumn, AggregateFunction, ArithmeticOperator, Column, ComparisonOperator,
    ComputedField, Dataflow, Expr, Literal, Pipeline, Predicate, ShareTotal, TopK, Window,
};
use tuple::{DataType, Field, RedactionRule, Unit};

use crate::tuples::{DELTA, IP, N, OK, PATH, RATIO, column, dataflow, input, pipeline, weighted};

const SECOND: i64 = 1_000_000_000;

/// Names and dataflows.
pub fn all() -> Vec<(&'static str, Dataflow)> {
    use AggregateFunction::{Avg, Count, Distinct, Max, Min, Quantile, Rate, Stddev, Success, Sum};
    let window = |size_ns, slide_ns| {
        Some(Window {
            size_ns,
            slide_ns,
            lateness_ns: 0,
        })
    };
    let ok = Predicate::Compare {
        column: column(OK),
        op: ComparisonOperator::Eq,
        literal: Literal::Bool(true),
    };
    let numbers = || {
        vec![
            Count,
            Sum,
            Avg,
            Min,
            Max,
            Stddev,
            Quantile(0.5),
            Quantile(0.9),
        ]
    };
    let of_n = Pipeline {
        window: window(SECOND, SECOND),
        ..pipeline(Some(N), &[IP, PATH], numbers())
    };
    let of_delta = Pipeline {
        window: window(3 * SECOND, SECOND),
        ..pipeline(Some(DELTA), &[OK], numbers())
    };
    let of_ratio = vec![Count, Sum, Min, Max, Quantile(0.5), Distinct(column(RATIO))];
    let of_ratio = Pipeline {
        value_required: true,
        ..pipeline(Some(RATIO), &[RATIO], of_ratio)
    };
    let mut large = pipeline(Some(N), &[PATH], vec![Sum, Min, Max, Quantile(0.5)]);
    large.values.push(plan::AggregatedValue {
        column: column(DELTA),
        unit: Unit::None,
    });
    let of_second = |aggregate| AggregateColumn {
        aggregate,
        value: 1,
        name: None,
    };
    large
        .aggregates
        .extend([Sum, Min, Max, Quantile(0.5)].map(of_second));
    let different = vec![
        Distinct(column(IP)),
        Distinct(column(PATH)),
        Distinct(column(N)),
        Success(ok.clone()),
        Rate,
    ];
    let different = Pipeline {
        window: window(SECOND / 2, SECOND / 2),
        ..pipeline(None, &[], different)
    };
    // Few distinct values, so that there are ties.
    let top = |by, group: &[_]| Pipeline {
        top_k: Some(TopK { k: 3, by }),
        window: window(SECOND, SECOND),
        ..pipeline(Some(N), group, vec![Sum, Count, Max])
    };
    let mut filtered = dataflow(vec![computed_pipeline()]);
    filtered.computed = computed();
    filtered.filter = Some(Predicate::Or(vec![
        Predicate::IsNull(column(PATH)),
        Predicate::Compare {
            column: Column::computed(1),
            op: ComparisonOperator::Ge,
            literal: Literal::F64(0.5),
        },
    ]));
    filtered.inputs[0].filter = Some(Predicate::Not(Box::new(ok)));
    let mut joined = dataflow(vec![Pipeline {
        window: window(SECOND, SECOND),
        ..pipeline(
            Some(N),
            &[PATH],
            vec![
                Count,
                Sum,
                Distinct(Column {
                    input: 1,
                    field: PATH,
                }),
            ],
        )
    }]);
    joined.inputs.push(input("other"));
    vec![
        ("whole_numbers", dataflow(vec![of_n])),
        ("sliding", dataflow(vec![of_delta])),
        ("reals", dataflow(vec![of_ratio])),
        ("different", dataflow(vec![different])),
        ("large", dataflow(vec![large])),
        (
            "weighted",
            weighted(vec![pipeline(
                Some(N),
                &[PATH],
                vec![Count, Sum, Avg, Quantile(0.5)],
            )]),
        ),
        ("top_by_count", dataflow(vec![top(1, &[PATH, OK])])),
        (
            "top_by_max",
            dataflow(vec![
                top(2, &[IP]),
                pipeline(
                    None,
                    &[],
                    vec![Count, AggregateFunction::Share(ShareTotal::Tuples)],
                ),
            ]),
        ),
        ("top_by_sum", dataflow(vec![top(0, &[N])])),
        ("computed", filtered),
        ("joined", joined),
        ("tuples", tuples_only()),
    ]
}

fn computed_field(name: &'static str, data_type: DataType) -> Field {
    Field {
        name: name.into(),
        data_type,
        unit: Unit::None,
        doc: "".into(),
        redact: RedactionRule::Keep,
    }
}

/// `n_ns / 2 + delta`, and a column computed from it.
fn computed() -> Vec<ComputedField> {
    let number = |field| Box::new(Expr::Column(column(field)));
    let two = Box::new(Expr::Literal(Literal::I64(2)));
    let half = Box::new(Expr::Arithmetic(number(N), ArithmeticOperator::Divide, two));
    let sum = Expr::Arithmetic(half, ArithmeticOperator::Add, number(DELTA));
    let of_sum = Box::new(Expr::Column(Column::computed(0)));
    let ratio = Expr::Arithmetic(of_sum, ArithmeticOperator::Ratio, number(DELTA));
    let one = |name, data_type, expr| ComputedField {
        field: computed_field(name, data_type),
        text: String::new(),
        expr,
    };
    vec![
        one("sum", DataType::I64, sum),
        one("ratio", DataType::F64, ratio),
    ]
}

fn computed_pipeline() -> Pipeline {
    use AggregateFunction::{Count, Max, Sum};
    let mut of = pipeline(Some(N), &[OK], vec![Count, Sum, Max]);
    of.values[0].column = Column::computed(0);
    of.aggregates.push(AggregateColumn {
        aggregate: Sum,
        value: 0,
        name: Some("again".into()),
    });
    of
}

fn tuples_only() -> Dataflow {
    let mut flow = dataflow(Vec::new());
    flow.computed = computed();
    flow
}
