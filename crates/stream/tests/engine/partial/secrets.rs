//! Output of a worker that redacts texts: no query reveals text from a packet, and equal texts remain equal.

use std::sync::Arc;

use plan::{
    AggregateFunction, CaseSensitivity, Column, ComparisonOperator, ComputedField, Dataflow,
    DataflowInput, Expr, GroupBy, Literal, Pipeline, Predicate, ProfileSpec, TextFunction, TopK,
    Window,
};
use stream::{Engine, EngineConfig, EngineOutput};
use tuple::redact::{HASH, PATH as FOLDED_PATH};
use tuple::{
    Batch, DataType, Field, FieldId, RedactionSecret, Redactor, Schema, TupleWriter, Unit, common,
};

use crate::tuples::{Plain, plain, rows_of};

tuple::fields! {
    METHOD: Text, None, "method", "";
    URL: Text, None, "url", "" => FOLDED_PATH;
    USER: Text, None, "user", "" => HASH;
    BYTES: U64, Bytes, "bytes", "";
    TIME: I64, Nanoseconds, "time_ns", "";
}

/// Substrings of texts that must not leave.
const SECRETS: [&str; 4] = ["alice", "tuebingen", "4111-1111", "passw0rd"];

/// Computed from the first two fields: unchanged, and rewritten.
const ALIAS: Column = Column {
    input: plan::COMPUTED,
    field: FieldId(0),
};
const PIECE: Column = Column {
    input: plan::COMPUTED,
    field: FieldId(1),
};
const CHOSEN: Column = Column {
    input: plan::COMPUTED,
    field: FieldId(2),
};
const CLASS: Column = Column {
    input: plan::COMPUTED,
    field: FieldId(3),
};
const LENGTH: Column = Column {
    input: plan::COMPUTED,
    field: FieldId(4),
};

fn of(field: FieldId) -> Column {
    Column { input: 0, field }
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::of_parser("t", 1, "test", FIELDS, None, None))
}

fn columns() -> Vec<FieldId> {
    vec![
        common::ID,
        common::TS_END,
        common::CLIENT_IP,
        METHOD,
        URL,
        USER,
        BYTES,
        TIME,
    ]
}

fn batch(schema: &Arc<Schema>, first: u64) -> Batch {
    let mut w = TupleWriter::new(schema.clone(), &columns());
    for i in first..first + 120 {
        let secret = SECRETS[i as usize % SECRETS.len()];
        w.u64(common::ID, i % 10);
        w.i64(common::TS_END, i as i64);
        w.ip(
            common::CLIENT_IP,
            &std::net::Ipv4Addr::new(10, 0, 0, i as u8 % 3)
                .to_ipv6_mapped()
                .octets(),
        );
        w.text(METHOD, if i % 2 == 0 { b"GET" } else { b"POST" });
        let tail = if i % 7 == 0 {
            "x".repeat(300)
        } else {
            String::new()
        };
        w.text(
            URL,
            format!("/{secret}/{}/{secret}{tail}", i % 30).as_bytes(),
        );
        if i % 5 > 0 {
            w.text(USER, secret.as_bytes());
        }
        w.u64(BYTES, i);
        w.i64(TIME, i as i64 * 1000);
        w.end_row();
    }
    w.finish()
}

/// The checker marks a computed text for redaction; these are not marked.
fn computed() -> Vec<ComputedField> {
    let field = |name: &'static str, data_type| Field::new(name, data_type, Unit::None, "");
    let text = |name, expr| ComputedField {
        field: field(name, DataType::Text),
        text: String::new(),
        expr,
    };
    let url = || Box::new(Expr::Column(of(URL)));
    let like = Predicate::Like {
        column: of(URL),
        pattern: "%alice%".into(),
        case: CaseSensitivity::Sensitive,
    };
    let length = Expr::Length(Box::new(Expr::Column(ALIAS)));
    vec![
        text("alias", Expr::Column(of(URL))),
        text(
            "piece",
            Expr::Text(url(), TextFunction::Split("/".into(), 2)),
        ),
        text(
            "chosen",
            Expr::If(
                Box::new(Predicate::IsNull(of(USER))),
                Box::new(Expr::Text(
                    Box::new(Expr::Column(PIECE)),
                    TextFunction::Upper,
                )),
                Box::new(Expr::Coalesce(vec![
                    Expr::Column(of(USER)),
                    Expr::Literal(Literal::Text("-".into())),
                ])),
            ),
        ),
        text(
            "class",
            Expr::If(
                Box::new(like),
                Box::new(Expr::Literal(Literal::Text("hers".into()))),
                Box::new(Expr::Literal(Literal::Text("another".into()))),
            ),
        ),
        ComputedField {
            field: field("length", DataType::I64),
            text: String::new(),
            expr: length,
        },
    ]
}

fn pipeline(group: &[Column], aggregates: Vec<AggregateFunction>) -> Pipeline {
    let name = |(i, column): (usize, &Column)| GroupBy {
        column: *column,
        name: format!("g{i}"),
    };
    Pipeline {
        values: vec![plan::AggregatedValue {
            column: of(BYTES),
            unit: Unit::Bytes,
        }],
        group: group.iter().enumerate().map(name).collect(),
        ..crate::tuples::pipeline(None, &[], aggregates)
    }
}

fn dataflow(pipelines: Vec<Pipeline>) -> Dataflow {
    let input = DataflowInput {
        schema: schema(),
        columns: columns(),
        filter: None,
    };
    Dataflow {
        inputs: vec![input],
        pipelines,
        computed: computed(),
        ..Dataflow::default()
    }
}

fn profile() -> Pipeline {
    let is = |text: &str| Predicate::Compare {
        column: of(METHOD),
        op: ComparisonOperator::Eq,
        literal: Literal::Text(text.into()),
    };
    let profile = ProfileSpec {
        operation: of(METHOD),
        reads: is("GET"),
        writes: is("POST"),
        success: Some(Predicate::Like {
            column: of(URL),
            pattern: "%alice%".into(),
            case: CaseSensitivity::Sensitive,
        }),
        status: Some(of(USER)),
        response_time: Some(of(TIME)),
        read_bytes: Some(of(BYTES)),
        write_bytes: Some(of(BYTES)),
        size: None,
        offset: Some(of(BYTES)),
        file: Some(of(URL)),
        aligned: None,
        checksums: None,
        object: Some(of(URL)),
        client: of(USER),
        k: 10,
        near: 1,
    };
    Pipeline {
        profile: Some(profile),
        ..pipeline(&[], Vec::new())
    }
}

/// Dataflows that request texts that must not leave.
fn dataflows() -> Vec<Dataflow> {
    let texts = [of(METHOD), of(URL), of(USER), ALIAS, PIECE, CHOSEN, CLASS];
    let counted = || {
        vec![
            AggregateFunction::Count,
            AggregateFunction::Sum,
            AggregateFunction::Quantile(0.5),
        ]
    };
    let distinct = |column| {
        vec![
            AggregateFunction::Distinct(column),
            AggregateFunction::Max,
            AggregateFunction::Hist,
        ]
    };
    let mut flows = Vec::new();
    for text in texts {
        let short = Pipeline {
            groups_max: 3,
            ..pipeline(&[text], counted())
        };
        let ranked = Pipeline {
            top_k: Some(TopK { k: 5, by: 1 }),
            ..short.clone()
        };
        let window = Some(Window {
            size_ns: 50,
            slide_ns: 20,
            lateness_ns: 5,
        });
        flows.extend([
            dataflow(vec![pipeline(&[text], counted())]),
            dataflow(vec![pipeline(
                &[of(common::CLIENT_IP), text, of(BYTES)],
                counted(),
            )]),
            dataflow(vec![
                pipeline(&[], distinct(text)),
                pipeline(&[text, LENGTH], distinct(text)),
            ]),
            dataflow(vec![short, ranked]),
            dataflow(vec![Pipeline {
                window,
                ..pipeline(&[text], counted())
            }]),
        ]);
    }
    flows.push(dataflow(vec![profile()]));
    flows.push(dataflow(vec![profile(), pipeline(&[of(URL)], counted())]));
    flows
}

fn redactor() -> Redactor {
    Redactor::new(RedactionSecret::new(&[7; 16]))
}

fn folding(config: EngineConfig) -> EngineConfig {
    EngineConfig {
        redactor: Some(redactor()),
        ..config
    }
}

/// Neither the texts themselves nor hashes that allow guessing them.
fn assert_nothing_leaks(bytes: &[u8], what: &str) {
    let holds = |piece: &[u8]| {
        bytes
            .windows(piece.len())
            .any(|window| window.eq_ignore_ascii_case(piece))
    };
    for secret in SECRETS {
        assert!(!holds(secret.as_bytes()), "{secret} leaves: {what}");
    }
}

#[test]
fn redacted_texts_never_leave_the_worker() {
    for flow in dataflows() {
        // Without a redactor, the same bytes contain the texts, so the test would detect a leak.
        let encoded = |config| {
            let mut worker = Engine::worker(&flow, config);
            worker.push(0, &batch(&flow.inputs[0].schema, 0), &mut Vec::new());
            let delta = worker
                .detach_open()
                .map(|part| part.encode())
                .unwrap_or_default();
            worker.push(0, &batch(&flow.inputs[0].schema, 120), &mut Vec::new());
            let early = worker
                .detach(200)
                .map(|part| part.encode())
                .unwrap_or_default();
            [delta, early, worker.detach_all().encode()].concat()
        };
        let what = format!("{:?}", flow.pipelines);
        assert_nothing_leaks(&encoded(folding(EngineConfig::default())), &what);
        let texts = [of(URL), of(USER), ALIAS, PIECE, CHOSEN];
        let tells =
            |p: &Pipeline| p.profile.is_some() || p.group.iter().any(|g| texts.contains(&g.column));
        let raw = String::from_utf8_lossy(&encoded(EngineConfig::default())).into_owned();
        let is_told = SECRETS.iter().any(|secret| raw.contains(secret));
        assert_eq!(is_told, flow.pipelines.iter().any(tells), "{what}");
    }
}

/// Without pipelines, tuples are sent with all columns, including computed ones.
#[test]
fn raw_tuples_are_folded() {
    let flow = dataflow(Vec::new());
    let mut worker = Engine::worker(&flow, folding(EngineConfig::default()));
    let mut out = Vec::new();
    worker.push(0, &batch(&flow.inputs[0].schema, 0), &mut out);
    let rows: Vec<_> = out.iter().flat_map(|output| plain(&output.batch)).collect();
    assert_eq!(rows.len(), 120);
    assert_nothing_leaks(format!("{rows:?}").as_bytes(), "tuples");
    let class = Plain::Text("hers".into());
    assert_eq!(
        rows.iter().filter(|row| row.contains(&class)).count(),
        30,
        "conditions see what packets say"
    );
}

/// Hashes of distinct values are computed from redacted texts, so texts cannot be guessed.
#[test]
fn different_values_are_hashed_folded() {
    let flow = dataflow(vec![pipeline(
        &[],
        vec![AggregateFunction::Distinct(of(USER))],
    )]);
    let encoded = |config| {
        let mut worker = Engine::worker(&flow, config);
        let mut w = TupleWriter::new(flow.inputs[0].schema.clone(), &columns());
        w.i64(common::TS_END, 0);
        w.text(METHOD, b"GET");
        w.text(URL, b"/");
        w.text(USER, b"alice");
        w.end_row();
        worker.push(0, &w.finish(), &mut Vec::new());
        worker.detach_all().encode()
    };
    let raw = encoded(EngineConfig::default());
    let folded = encoded(folding(EngineConfig::default()));
    let differ: Vec<usize> = (0..raw.len()).filter(|i| raw[*i] != folded[*i]).collect();
    assert_eq!(raw.len(), folded.len());
    assert!(
        (5..=8).contains(&differ.len()),
        "the eight bytes of a hash: {differ:?}"
    );
}

fn together(flow: &Dataflow, configs: [EngineConfig; 2]) -> Vec<EngineOutput> {
    let mut server = Engine::new(flow, EngineConfig::default());
    let mut out = Vec::new();
    for (config, first) in configs.into_iter().zip([0, 120]) {
        let mut worker = Engine::worker(flow, config);
        worker.push(0, &batch(&flow.inputs[0].schema, first), &mut out);
        let part = server
            .decode_partial(&worker.detach_all().encode())
            .expect("its own");
        server.attach(part);
    }
    server.finish(&mut out);
    out
}

/// Two machines with one secret: the rows equal those of raw texts redacted once.
#[test]
fn equal_texts_stay_equal_across_workers() {
    for flow in dataflows() {
        let folded = [
            folding(EngineConfig {
                seed: 1,
                ..EngineConfig::default()
            }),
            folding(EngineConfig {
                seed: 2,
                ..EngineConfig::default()
            }),
        ];
        let folded = together(&flow, folded);
        let raw = together(&flow, [EngineConfig::default(), EngineConfig::default()]);
        for (i, p) in flow.pipelines.iter().enumerate() {
            if p.groups_max == 3 {
                continue;
            }
            let sorted = |mut rows: Vec<Vec<Plain>>| {
                rows.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
                rows
            };
            let got = sorted(rows_of(&folded, Some(i)));
            if p.profile.is_some() {
                assert_eq!(got.len(), rows_of(&raw, Some(i)).len());
                continue;
            }
            // Redaction as the plan specifies it, including computed texts.
            let fold = |output: &EngineOutput| {
                let schema = output.batch.schema();
                let mut columns = Vec::new();
                for (at, group) in p.group.iter().enumerate() {
                    let id = schema.find(&format!("g{at}")).expect("a group");
                    let is_hashed = [of(USER), PIECE, CHOSEN].contains(&group.column);
                    columns.extend(is_hashed.then_some((id, HASH)));
                    let is_path = group.column == of(URL);
                    columns.extend(is_path.then_some((id, FOLDED_PATH)));
                    columns.extend((group.column == ALIAS).then_some((id, HASH)));
                }
                plain(&redactor().fold_columns(&output.batch, &columns))
            };
            let of_pipeline = raw.iter().filter(|output| output.pipeline == Some(i));
            assert_eq!(got, sorted(of_pipeline.flat_map(fold).collect()), "{p:?}");
        }
    }
}

/// Conditions, values, and shares use the unredacted texts.
#[test]
fn conditions_use_unredacted_texts() {
    let alice = Predicate::Like {
        column: of(URL),
        pattern: "/alice/%".into(),
        case: CaseSensitivity::Sensitive,
    };
    let all = vec![
        AggregateFunction::Count,
        AggregateFunction::Ratio(alice.clone()),
        AggregateFunction::Max,
    ];
    let mut flow = dataflow(vec![pipeline(&[], all)]);
    let rows = |flow: &Dataflow, config: EngineConfig| {
        rows_of(&together(flow, [config.clone(), config]), Some(0))
    };
    let seen = rows(&flow, folding(EngineConfig::default()));
    assert_eq!(seen, rows(&flow, EngineConfig::default()));
    assert_eq!(seen[0][..2], [Plain::U64(240), Plain::F64(0.25)]);
    flow.filter = Some(alice);
    assert_eq!(
        rows(&flow, folding(EngineConfig::default()))[0][0],
        Plain::U64(60)
    );
}
