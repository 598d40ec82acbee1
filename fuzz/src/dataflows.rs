//! Dataflows of every kind of partial result, and tuples for them.

use std::sync::Arc;

use plan::{
    AggregateColumn, AggregateFunction, AggregatedValue, Column, ComparisonOperator, Dataflow,
    DataflowInput, GroupBy, Literal, Pipeline, Predicate, ProfileSpec, ResultSelection, ShareTotal,
    TopK, Window,
};
use stream::{Engine, EngineConfig, PartialResult};
use tuple::{Batch, FieldId, Schema, TupleWriter, common};

tuple::fields! {
    NAME: Text, None, "name", "";
    N: U64, Bytes, "n", "";
    TIME: I64, Nanoseconds, "time_ns", "";
    RATIO: F64, None, "ratio", "";
    OK: Bool, None, "ok", "";
}

const COLUMNS: [FieldId; 9] = [
    common::ID,
    common::TS_END,
    common::CLIENT_IP,
    common::SAMPLE_RATE,
    NAME,
    N,
    TIME,
    RATIO,
    OK,
];

fn of(field: FieldId) -> Column {
    Column { input: 0, field }
}

fn pipeline(value: FieldId, group: &[FieldId], aggregates: Vec<AggregateFunction>) -> Pipeline {
    let named = |(i, field): (usize, &FieldId)| GroupBy {
        column: of(*field),
        name: format!("g{i}"),
    };
    Pipeline {
        name: "fuzz".into(),
        values: vec![AggregatedValue {
            column: of(value),
            unit: tuple::Unit::None,
        }],
        value_required: false,
        group: group.iter().enumerate().map(named).collect(),
        aggregates: aggregates.into_iter().map(AggregateColumn::from).collect(),
        top_k: None,
        window: None,
        groups_max: 50,
        selection: ResultSelection::default(),
        profile: None,
    }
}

fn is(field: FieldId, text: &str) -> Predicate {
    Predicate::Compare {
        column: of(field),
        op: ComparisonOperator::Eq,
        literal: Literal::Text(text.into()),
    }
}

fn everything() -> Vec<AggregateFunction> {
    vec![
        AggregateFunction::Count,
        AggregateFunction::Sum,
        AggregateFunction::Avg,
        AggregateFunction::Min,
        AggregateFunction::Max,
        AggregateFunction::Stddev,
        AggregateFunction::Rate,
        AggregateFunction::Distinct(of(N)),
        AggregateFunction::Quantile(0.9),
        AggregateFunction::Success(is(NAME, "name1")),
        AggregateFunction::Hist,
        AggregateFunction::Cdf,
        AggregateFunction::Throughput,
    ]
}

fn profile() -> Pipeline {
    let profile = ProfileSpec {
        operation: of(NAME),
        reads: is(NAME, "name1"),
        writes: is(NAME, "name2"),
        success: Some(is(NAME, "name1")),
        status: Some(of(OK)),
        response_time: Some(of(TIME)),
        read_bytes: Some(of(N)),
        write_bytes: Some(of(N)),
        size: None,
        offset: Some(of(N)),
        file: Some(of(NAME)),
        aligned: Some(of(OK)),
        checksums: None,
        object: Some(of(RATIO)),
        client: of(common::CLIENT_IP),
        k: 5,
        near: 1,
    };
    Pipeline {
        profile: Some(profile),
        ..pipeline(N, &[], Vec::new())
    }
}

/// One batch after the other, without and with sampling rates.
#[must_use]
pub fn dataflows() -> Vec<Dataflow> {
    let sliding = Some(Window {
        size_ns: 50,
        slide_ns: 20,
        lateness_ns: 5,
    });
    let tumbling = Some(Window {
        size_ns: 50,
        slide_ns: 50,
        lateness_ns: 0,
    });
    let shares = vec![
        AggregateFunction::Count,
        AggregateFunction::Share(ShareTotal::Values),
        AggregateFunction::Share(ShareTotal::Tuples),
    ];
    let ranked = |by| Pipeline {
        top_k: Some(TopK { k: 3, by }),
        groups_max: 8,
        window: tumbling,
        ..pipeline(
            N,
            &[N],
            vec![
                AggregateFunction::Count,
                AggregateFunction::Sum,
                AggregateFunction::Quantile(0.5),
            ],
        )
    };
    let all = [
        vec![pipeline(N, &[], everything())],
        vec![pipeline(
            RATIO,
            &[NAME, common::CLIENT_IP, OK, RATIO, TIME],
            everything(),
        )],
        vec![Pipeline {
            window: sliding,
            ..pipeline(TIME, &[common::CLIENT_IP], everything())
        }],
        vec![ranked(0), ranked(1), pipeline(N, &[NAME], shares)],
        vec![Pipeline {
            window: tumbling,
            ..profile()
        }],
        vec![profile()],
    ];
    let mut flows = Vec::new();
    for pipelines in all {
        for is_weighted in [false, true] {
            let mut columns = COLUMNS.to_vec();
            columns.retain(|field| is_weighted || *field != common::SAMPLE_RATE);
            let schema = Arc::new(Schema::of_parser("t", 1, "fuzz", FIELDS, None, None));
            let input = DataflowInput {
                schema,
                columns,
                filter: None,
            };
            flows.push(Dataflow {
                inputs: vec![input],
                pipelines: pipelines.clone(),
                ..Dataflow::default()
            });
        }
    }
    flows
}

/// Small limits.
#[must_use]
pub fn config() -> EngineConfig {
    EngineConfig {
        distinct_exact_max: 8,
        window_bytes_max: 4 << 20,
        ..EngineConfig::default()
    }
}

fn batch(input: &DataflowInput) -> Batch {
    let mut w = TupleWriter::new(input.schema.clone(), &input.columns);
    for i in 0..60u64 {
        w.u64(common::ID, i % 7);
        w.i64(common::TS_END, i as i64 * 3);
        if i % 4 > 0 {
            w.ip(common::CLIENT_IP, &[i as u8 % 3; 16]);
        }
        w.text(NAME, format!("name{}", i % 5).as_bytes());
        w.u64(N, i * i);
        w.i64(TIME, 100 - i as i64);
        w.f64(RATIO, i as f64 / 3.0);
        w.bool(OK, i % 3 == 0);
        if input.columns.contains(&common::SAMPLE_RATE) {
            w.f64(common::SAMPLE_RATE, [1.0, 0.25][i as usize % 7 % 2]);
        }
        w.end_row();
    }
    w.finish()
}

/// The partial results of a worker for the tuples.
#[must_use]
pub fn detached(flow: &Dataflow) -> PartialResult {
    let mut worker = Engine::worker(flow, config());
    worker.push(0, &batch(&flow.inputs[0]), &mut Vec::new());
    worker.detach_all()
}
