//! Messages not produced by this program: newer versions, malicious ones, and expressions of every kind.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use tuple::{DataType, Field, FieldId, Unit, common};

use tuple::AgentOrigin;

use super::column_names::{ColumnNames, ColumnPlaces};
use super::expression::{condition, read_condition, read_value, value};
use super::*;
use crate::dataflow::{Dataflow, DataflowInput};
use crate::expr::{
    ArithmeticOperator, CaseSensitivity, Column, ComparisonOperator, ComputedField, Expr, Literal,
    Predicate, RegexPattern, TextFunction,
};
use crate::monitor_spec::{MonitorSpec, ParserUse};
use crate::taps::TapTable;

const STATUS: FieldId = FieldId(common::FIELDS.len() as u16);
const HOST: FieldId = FieldId(STATUS.0 + 1);

fn schema() -> Arc<Schema> {
    let own = [
        Field::new("status", DataType::U64, Unit::None, ""),
        Field::folded("host", DataType::Text, Unit::None, "", &[tuple::HASH]),
    ];
    Arc::new(Schema::of_parser("test", 1, "", &own, None, None))
}

fn column(field: FieldId) -> Column {
    Column { input: 0, field }
}

fn plan() -> Plan {
    let schema = schema();
    let columns = vec![common::ID, common::TS_END, STATUS, HOST];
    let filter = Predicate::Compare {
        column: column(STATUS),
        op: ComparisonOperator::Ge,
        literal: Literal::U64(500),
    };
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
            filter: Some(filter),
            ..Dataflow::default()
        },
    }
}

fn read_by_us(bytes: &[u8]) -> Result<Plan, MessageRefusal> {
    decode(bytes, &|name| (name == "test").then(schema))
}

/// Changes the plan's message and checks the errors.
fn check(change: impl FnOnce(&mut proto::PlanProto), expected: &[&str]) {
    let mut message = proto::PlanProto::decode(&*encode(&plan())).expect("our own message");
    change(&mut message);
    let refused = read_by_us(&message.encode_to_vec()).map_err(|refused| refused.lacks);
    let texts = refused.map_err(|lacks| lacks.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(texts.err().unwrap_or_default(), expected);
}

/// The steps of the filter.
fn steps(message: &mut proto::PlanProto) -> &mut Vec<proto::StepProto> {
    let dataflow = message.dataflow.as_mut().expect("a dataflow");
    &mut dataflow.filter.as_mut().expect("a filter").steps
}

#[test]
fn unknown_requirements_of_newer_senders_are_rejected() {
    check(|_| {}, &[]);
    check(
        |m| m.version = 0,
        &["malformed: the message has no version"],
    );
    check(
        |m| {
            m.version = FORM + 1;
            m.needs = vec!["sessions".into()];
        },
        &[
            "unknown name \"sessions\"",
            "the message needs format version 2; this program supports 1",
        ],
    );
    check(
        |m| m.needs = vec!["sessions".into(), "seances".into()],
        &["unknown name \"sessions\"", "unknown name \"seances\""],
    );
    check(
        |m| steps(m)[0].name = "is_near".into(),
        &["unknown operation \"is_near\""],
    );
    check(
        |m| steps(m)[0].numbers.push(1),
        &["unknown operation \"is_ge\""],
    );
    check(
        |m| steps(m)[0].literals[0].of = None,
        &["malformed: a literal is missing or of an unknown kind"],
    );
}

#[test]
fn malformed_messages_are_rejected() {
    check(
        |m| m.monitor = None,
        &["malformed: the specification of monitors is missing"],
    );
    check(
        |m| steps(m).clear(),
        &["malformed: an expression has no end"],
    );
    check(
        |m| steps(m)[0].operands = u32::MAX,
        &["malformed: an operator lacks operands"],
    );
    check(
        |m| {
            let step = steps(m)[0].clone();
            *steps(m) = vec![step; 2];
        },
        &["malformed: an expression has no end"],
    );
    check(
        |m| steps(m)[0].literals[0].of = Some(proto::LiteralKindProto::Text("500".into())),
        &["malformed: status is compared with a value of another type"],
    );
    check(
        |m| m.dataflow.as_mut().expect("a dataflow").inputs.clear(),
        &["malformed: unknown input 0"],
    );
    check(
        |m| m.monitor.as_mut().expect("a monitor").parsers.clear(),
        &["malformed: the numbers of parsers and inputs differ"],
    );
    check(
        |m| {
            m.dataflow.as_mut().expect("a dataflow").inputs[0]
                .columns
                .clear()
        },
        &["malformed: an unknown column"],
    );
}

#[test]
fn lists_have_an_end() {
    let input =
        |m: &mut proto::PlanProto| m.dataflow.as_mut().expect("a dataflow").inputs[0].clone();
    check(
        |m| {
            let input = input(m);
            m.dataflow.as_mut().expect("a dataflow").inputs = vec![input; INPUTS_MAX + 1];
        },
        &["more than 64 inputs"],
    );
    check(
        |m| {
            let column = steps(m)[0].column.clone();
            let texts = vec!["x".to_owned()];
            let step = proto::StepProto {
                name: "matches".into(),
                column,
                texts,
                ..proto::StepProto::default()
            };
            *steps(m) = vec![step; PATTERNS_MAX + 1];
            let operands = steps(m).len() as u32;
            steps(m).push(proto::StepProto {
                name: "and".into(),
                operands,
                ..proto::StepProto::default()
            });
        },
        &["more than 1024 regular expressions"],
    );
    let refused = read_by_us(&vec![0; BYTES_MAX + 1]).expect_err("too long");
    assert_eq!(refused.to_string(), "more than 1048576 bytes");
    check(|m| m.needs = (0..1000).map(|i| i.to_string()).collect(), &{
        let all: Vec<String> = (0..LACKS_MAX)
            .map(|i| format!("unknown name \"{i}\""))
            .collect();
        all.leak().iter().map(String::as_str).collect::<Vec<_>>()
    });
}

/// A truncated plan is rejected, so that no condition is lost.
#[test]
fn a_part_of_a_plan_is_none() {
    let bytes = encode(&plan());
    for end in 0..bytes.len() {
        assert!(
            read_by_us(&bytes[..end]).is_err(),
            "{end} bytes of {}",
            bytes.len()
        );
    }
}

/// A sender may request a text, but cannot bypass redaction by declaring it unredacted.
#[test]
fn redaction_cannot_be_bypassed() {
    let lower = |redact| {
        let of = Box::new(Expr::Column(column(HOST)));
        let field = Field {
            redact,
            ..Field::new("small", DataType::Text, Unit::None, "")
        };
        let expr = Expr::Text(of, TextFunction::Lower);
        let mut plan = plan();
        plan.dataflow.computed = vec![ComputedField {
            field,
            text: "lower(host)".into(),
            expr,
        }];
        read_by_us(&encode(&plan))
            .map(|read| assert_eq!(read, plan))
            .map_err(|e| e.to_string())
    };
    assert_eq!(lower(tuple::RedactionRule::Fold(tuple::HASH)), Ok(()));
    assert_eq!(
        lower(tuple::RedactionRule::Keep),
        Err("malformed: small would show redacted text".into())
    );
    let other = tuple::TextFold {
        name: "nothing",
        fold: |_, _, _| {},
    };
    assert_eq!(
        lower(tuple::RedactionRule::Fold(other)),
        Err("unknown fold \"nothing\"".into())
    );
}

fn order() -> JobOrder {
    let mut plan = plan();
    plan.monitor.limit.packets = Some(1000);
    plan.monitor.span = crate::TimeSpan {
        start_ns: Some(-5),
        end_ns: Some(i64::MAX),
    };
    JobOrder {
        job: 7,
        generation: u64::MAX,
        attempt: 2,
        plan,
        redaction: Some(RedactionKey(*b"sixteen secrets!")),
        capture: CaptureSpec {
            input: OrderInput::Exports,
            interfaces: vec!["eth0".into()],
            filter: Some("tcp".into()),
        },
        packets_max: Some(10),
        memory_max: 1 << 30,
        cpu_millis: 1500,
        workers: 2,
        taps: TapTable::default(),
        topics: vec!["netalytics.cells.v1.7".into()],
        origin: AgentOrigin {
            agent: Some("web-1".into()),
            labels: [("role", "web"), ("rack", "7")]
                .map(|(k, v)| (k.into(), v.into()))
                .into(),
        },
    }
}

#[test]
fn orders_arrive() {
    let decode = |bytes: &[u8]| JobOrder::decode(bytes, &|name| (name == "test").then(schema));
    let order = order();
    for capture in [order.capture.clone(), CaptureSpec::default()] {
        let order = JobOrder {
            capture,
            ..order.clone()
        };
        assert_eq!(decode(&order.encode()).as_ref(), Ok(&order));
    }
    assert!(!format!("{order:?}").contains("115"), "a key is shown");
    // Missing items of the plan are missing items of the order.
    let refused = JobOrder::decode(&order.encode(), &|_| None).expect_err("no parser");
    assert_eq!(refused.lacks, [UnmetRequirement::Parser("test".into())]);
    let bytes = JobOrder {
        origin: AgentOrigin::default(),
        ..order
    }
    .encode();
    for end in 0..bytes.len() {
        assert!(
            decode(&bytes[..end]).is_err(),
            "{end} bytes of {}",
            bytes.len()
        );
    }
}

/// Except an order without any table, as from programs without this feature.
#[test]
fn a_table_of_addresses_arrives_whole() {
    let decode = |bytes: &[u8]| JobOrder::decode(bytes, &|name| (name == "test").then(schema));
    let without = order().encode().len();
    let taps = TapTable {
        own: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        others: vec![
            IpAddr::V6(Ipv6Addr::LOCALHOST),
            IpAddr::V4(Ipv4Addr::BROADCAST),
        ],
    };
    let order = JobOrder { taps, ..order() };
    let bytes = order.encode();
    assert_eq!(decode(&bytes).as_ref(), Ok(&order));
    for end in without + 1..bytes.len() {
        assert!(
            decode(&bytes[..end]).is_err(),
            "{end} bytes of {}",
            bytes.len()
        );
    }
}

#[test]
fn accounts_arrive() {
    let closing = MonitorFinalReport {
        job: 7,
        generation: 1,
        attempt: 3,
        end: MonitorEndReason::Failed("a worker panicked".into()),
        counts: vec![
            ("packets.received".into(), u64::MAX),
            ("packets.filtered.early".into(), 0),
        ],
        seen: Some((-1, i64::MAX)),
        errors: vec![InputFault {
            path: "eth0".into(),
            offset: Some(3),
            text: "cut".into(),
            after_packets: 9,
        }],
        panics: vec!["index out of bounds".into()],
        sampling_lowest: Some(0.25),
    };
    for end in [
        MonitorEndReason::Input,
        MonitorEndReason::Limit,
        MonitorEndReason::Stopped,
        closing.end.clone(),
    ] {
        let closing = MonitorFinalReport {
            end,
            ..closing.clone()
        };
        assert_eq!(
            MonitorFinalReport::decode(&closing.encode()).as_ref(),
            Ok(&closing)
        );
    }
    assert_eq!(closing.count("packets.received"), Some(u64::MAX));
    let twice = MonitorFinalReport {
        counts: vec![("a".into(), 1); 2],
        ..closing
    };
    let refused = MonitorFinalReport::decode(&twice.encode()).expect_err("one name, two counts");
    assert_eq!(refused.to_string(), "malformed: a is counted twice");
    assert!(MonitorFinalReport::decode(b"").is_err() && JobOrder::decode(b"", &|_| None).is_err());
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        any::<bool>().prop_map(Literal::Bool),
        any::<u64>().prop_map(Literal::U64),
        any::<i64>().prop_map(Literal::I64),
        (-1e300..1e300).prop_map(Literal::F64),
        ".{0,8}".prop_map(Literal::Text),
        (any::<u32>(), 0..=32_u8)
            .prop_map(|(ip, n)| Literal::Net(IpAddr::V4(Ipv4Addr::from_bits(ip)), n)),
        (any::<u128>(), 0..=128_u8)
            .prop_map(|(ip, n)| Literal::Net(IpAddr::V6(Ipv6Addr::from_bits(ip)), n)),
    ]
}

fn columns() -> impl Strategy<Value = Column> {
    prop_oneof![
        (0..HOST.0).prop_map(|field| column(FieldId(field))),
        (0..9_usize).prop_map(Column::computed),
    ]
}

fn case() -> impl Strategy<Value = CaseSensitivity> {
    prop_oneof![
        Just(CaseSensitivity::Sensitive),
        Just(CaseSensitivity::Ignored)
    ]
}

fn op() -> impl Strategy<Value = ComparisonOperator> {
    use ComparisonOperator::{Eq, Ge, Gt, Le, Lt, Ne};
    prop::sample::select(vec![Eq, Ne, Lt, Le, Gt, Ge])
}

fn regex() -> impl Strategy<Value = RegexPattern> {
    (".{0,8}", case()).prop_map(|(pattern, case)| RegexPattern { pattern, case })
}

fn predicate() -> impl Strategy<Value = Predicate> {
    let leaf = prop_oneof![
        columns().prop_map(Predicate::IsNull),
        (columns(), op(), literal()).prop_map(|(column, op, literal)| Predicate::Compare {
            column,
            op,
            literal
        }),
        (columns(), ".{0,8}", case()).prop_map(|(column, pattern, case)| Predicate::Like {
            column,
            pattern,
            case
        }),
        (columns(), regex()).prop_map(|(column, regex)| Predicate::Matches { column, regex }),
        (columns(), prop::collection::vec(literal(), 0..4))
            .prop_map(|(column, literals)| Predicate::In { column, literals }),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Predicate::And),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Predicate::Or),
            inner.prop_map(|inner| Predicate::Not(Box::new(inner))),
        ]
    })
}

fn function() -> impl Strategy<Value = TextFunction> {
    prop_oneof![
        Just(TextFunction::Lower),
        Just(TextFunction::Upper),
        ".{0,8}".prop_map(TextFunction::UrlQuery),
        (".{0,3}", any::<i64>()).prop_map(|(by, place)| TextFunction::Split(by, place)),
        regex().prop_map(TextFunction::Extract),
        (regex(), ".{0,8}").prop_map(|(regex, with)| TextFunction::Replace(regex, with)),
    ]
}

fn expr() -> impl Strategy<Value = Expr> {
    use ArithmeticOperator::{Add, BitAnd, BitOr, Divide, Multiply, Ratio, Remainder, Subtract};
    let arithmetic = prop::sample::select(vec![
        Add, Subtract, Multiply, Divide, Ratio, Remainder, BitAnd, BitOr,
    ]);
    let leaf = prop_oneof![
        columns().prop_map(Expr::Column),
        literal().prop_map(Expr::Literal),
        Just(Expr::Null),
        predicate().prop_map(|p| Expr::Test(Box::new(p))),
    ];
    leaf.prop_recursive(5, 32, 3, move |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            (boxed(), arithmetic.clone(), boxed())
                .prop_map(|(a, op, b)| Expr::Arithmetic(a, op, b)),
            (boxed(), op(), boxed()).prop_map(|(a, op, b)| Expr::Compare(a, op, b)),
            (predicate(), boxed(), boxed()).prop_map(|(p, a, b)| Expr::If(Box::new(p), a, b)),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Expr::Coalesce),
            (boxed(), any::<i64>()).prop_map(|(of, step)| Expr::Trunc(of, step)),
            (boxed(), any::<u8>(), any::<u8>()).prop_map(|(of, v4, v6)| Expr::Subnet(of, v4, v6)),
            (boxed(), function()).prop_map(|(of, function)| Expr::Text(of, function)),
            boxed().prop_map(Expr::Length),
        ]
    })
}

proptest! {
    #[test]
    fn every_expression_arrives(expr in expr(), predicate in predicate()) {
        let plan = plan();
        let names = ColumnNames::Inputs(&plan.dataflow.inputs);
        let schemas = [Some(schema())];
        let mut lacks = UnmetRequirements::default();
        let places = ColumnPlaces::Inputs(&schemas);
        prop_assert_eq!(read_value(&value(&expr, names), places, &mut lacks), Some(expr));
        prop_assert_eq!(read_condition(&condition(&predicate, names), places, &mut lacks), Some(predicate));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (read_by_us(&bytes), JobOrder::decode(&bytes, &|_| None), MonitorFinalReport::decode(&bytes));
    }
}
