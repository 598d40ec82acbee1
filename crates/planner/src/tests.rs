//! Golden plans, and invariants of all plans.

use std::sync::Arc;

use plan::{Plan, Predicate, QueryLimit, TimeBounds};
use proptest::prelude::*;
use query::HostTable;
use tuple::{AgentOrigin, DataType, Field, FieldId, Schema, SchemaFacts, Unit, common};

use crate::{PlanInput, PlanOptions, PlanOutput, explain, lower, lower_with};

mod both_taps;
mod sent;

fn schemas() -> Vec<Arc<Schema>> {
    let ip = |name| Field::new(name, DataType::Ip, Unit::None, "");
    let text = |name| Field::new(name, DataType::Text, Unit::None, "");
    let time = |name| Field::new(name, DataType::I64, Unit::Nanoseconds, "");
    let bytes = |name| Field::new(name, DataType::U64, Unit::Bytes, "");
    let n = common::FIELDS.len() as u16;
    let own = |i: u16| Some(FieldId(n + i));
    let status = Field::new("status", DataType::U64, Unit::None, "");
    let http = [
        text("method"),
        text("host"),
        text("url"),
        status,
        bytes("response_bytes"),
        time("response_time_ns"),
    ];
    let connections = const {
        &SchemaFacts {
            success: Some("flag = 'FIN'"),
            whole: Some("event = 'end'"),
            ..SchemaFacts::NONE
        }
    };
    let requests = const {
        &SchemaFacts {
            success: Some("status < 400"),
            ..SchemaFacts::NONE
        }
    };
    let mut schemas = [
        Schema::of_parser(
            "tcp_flow_key",
            1,
            "",
            &[ip("src_ip"), ip("dst_ip")],
            None,
            None,
        ),
        Schema::of_parser(
            "tcp_conn_time",
            1,
            "",
            &[
                text("event"),
                text("flag"),
                time("handshake_ns"),
                time("conn_time_ns"),
            ],
            own(3),
            None,
        ),
        Schema::of_parser(
            "tcp_pkt_size",
            1,
            "",
            &[ip("src_ip"), ip("dst_ip"), bytes("packet_bytes")],
            own(2),
            own(1),
        ),
        Schema::of_parser("http_get", 1, "", &http, own(5), own(2)),
        Schema::of_parser("http", 1, "", &http, own(5), own(2)),
    ];
    schemas[1].facts = connections;
    schemas[3].facts = requests;
    schemas[4].facts = requests;
    schemas.map(Arc::new).into()
}

fn plan(text: &str) -> Plan {
    let mut hosts = HostTable::new();
    hosts.insert_hosts_file("10.0.0.1 h1\n10.0.0.2 h2\n2001:db8::2 h2\n");
    let query = query::check(text, &schemas(), &hosts)
        .unwrap_or_else(|e| panic!("{}", query::render(&e, text)));
    lower(&query)
}

const PAPER_1: &str = "PARSE tcp_conn_time, http_get FROM 10.0.2.8:5555 TO 10.0.2.9:80 LIMIT 90s SAMPLE auto \
                       PROCESS (top-k: k=10, w=10s)";
const PAPER_2: &str = "PARSE tcp_conn_time FROM * TO h1:80, h2:3306 LIMIT 500s SAMPLE * PROCESS (diff-group: group=destIP)";
const PAPER_3: &str = "PARSE (tcp_conn_time, http_get) FROM * TO h1:80 LIMIT 5000p SAMPLE 0.1 PROCESS (diff-group: group=get)";
const PAPER_4: &str = "PARSE (tcp_flow_key, tcp_pkt_size) FROM * TO h1:80, h2:3306, LIMIT 90s SAMPLE * \
                       PROCESS (group-sum: group=srcIP, destIP)";
const MANY: &str = "PARSE http, tcp_conn_time\nWHERE status >= 500 and (event = 'end' or url like '/x''%')\n\
                    WHERE not (http.ts < '2026-01-31' or http.client_ip = 10.0.0.0/8) and response_time > 1.5s\n\
                    PROCESS (success-quantile-rate-top-3: q=0.29, w=1m, slide=30s, lateness=0s, key=host), (distinct: value=http.client_ip)";

/// Compares a plan's text with the golden file; `UPDATE=1` rewrites it, to be reviewed like any change.
fn check(name: &str, text: &str) {
    let path = format!("{}/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let explained = explain(&plan(text));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &explained).expect("the golden directory can be written");
    }
    let golden = std::fs::read_to_string(&path).expect("a golden file for each plan");
    assert!(golden == explained, "{path} differs from\n{explained}");
}

#[test]
fn golden_plans() {
    check("paper_1", PAPER_1);
    check("paper_2", PAPER_2);
    check("paper_3", PAPER_3);
    check("paper_4", PAPER_4);
    check("many", MANY);
    check(
        "tuples",
        "PARSE http WHERE status in (1,2) and not method is null FROM 10.0.0.0/8, *:80 TO [::1]:80 LIMIT 2m, 10p",
    );
    check("count", "PARSE tcp_conn_time PROCESS count");
}

#[test]
fn a_join_is_filtered_before_it_where_that_is_the_same() {
    let p = plan("PARSE http, tcp_conn_time WHERE status = 500 and (status = 1 or flag = 'RST')");
    assert!(matches!(
        p.dataflow.inputs[0].filter,
        Some(Predicate::Compare { .. })
    ));
    assert!(matches!(
        p.dataflow.inputs[1].filter,
        Some(Predicate::Compare { .. })
    ));
    assert!(matches!(p.dataflow.filter, Some(Predicate::Or(_))));
    let p = plan("PARSE http WHERE status = 500");
    assert!(p.dataflow.inputs[0].filter.is_none() && p.dataflow.filter.is_some());
}

#[test]
fn only_used_columns_are_requested() {
    let columns = |text: &str| {
        let p = plan(text);
        assert_eq!(p.monitor.parsers[0].columns, p.dataflow.inputs[0].columns);
        let schema = &p.dataflow.inputs[0].schema;
        p.monitor.parsers[0]
            .columns
            .iter()
            .map(|id| schema.field(*id).name.to_string())
            .collect::<Vec<_>>()
    };
    assert!(columns("PARSE http PROCESS count").is_empty());
    assert_eq!(columns("PARSE http SAMPLE 0.5 PROCESS count"), ["id"]);
    assert_eq!(columns("PARSE http PROCESS (count: w=1s)"), ["ts_end"]);
    assert_eq!(columns("PARSE http PROCESS rate"), ["ts_end"]);
    assert_eq!(
        columns("PARSE http WHERE host = 'a' PROCESS success, top-k"),
        ["host", "url", "status"]
    );
    assert_eq!(
        columns("PARSE http PROCESS (group-distinct: group=url, value=host)"),
        ["host", "url"]
    );
    assert_eq!(columns("PARSE http").len(), common::FIELDS.len() - 1 + 6);
}

#[test]
fn groups_of_one_name_bear_their_parsers() {
    let p =
        plan("PARSE http, http_get PROCESS (group-count: group=http.url, http_get.url, method)");
    let names: Vec<_> = p.dataflow.pipelines[0]
        .group
        .iter()
        .map(|g| g.name.as_str())
        .collect();
    assert_eq!(names, ["http.url", "http_get.url", "method"]);
}

/// The language's assumptions about parsers hold for the actual ones.
#[test]
fn parsers_have_the_columns_that_queries_use() {
    let schemas = parsers::registry::schemas();
    let mut hosts = HostTable::new();
    hosts.insert_hosts_file("10.0.0.1 h1\n10.0.0.2 h2\n");
    let with = |fact: fn(&SchemaFacts) -> bool| {
        schemas
            .iter()
            .filter(move |schema| fact(schema.facts))
            .map(|schema| schema.name.to_string())
    };
    let successes = with(|facts| facts.success.is_some())
        .map(|p| format!("PARSE {p} PROCESS success, diff, (group: group=destIP)"));
    let successes =
        successes.map(|q| q.replace("tcp_conn_time", "tcp_conn_time WHERE event = 'end'"));
    let workloads = with(|facts| facts.workload.is_some())
        .map(|p| format!("PARSE {p} PROCESS workload-profile"));
    let papers = [PAPER_1, PAPER_2, PAPER_3, PAPER_4].map(str::to_owned);
    let all: Vec<String> = successes.chain(workloads).chain(papers).collect();
    assert!(
        all.len() >= 8 + 7 + 4,
        "parsers that know their successes, and their workloads: {all:?}"
    );
    for text in &all {
        if let Err(errors) = query::check(text, &schemas, &hosts) {
            panic!("{}", query::render(&errors, text));
        }
    }
}

#[test]
fn a_column_that_is_only_shown_can_be_left_out() {
    let check = |text: &str, expected: bool| {
        let query = query::check(text, &parsers::registry::schemas(), &()).expect("a sound query");
        let options = PlanOptions {
            omitted: Some("block_checksums"),
            ..PlanOptions::default()
        };
        assert_eq!(
            !options.reads(&query, "block_checksums"),
            expected,
            "{text}"
        );
        let plan = lower_with(&query, &options);
        let id = plan.dataflow.inputs[0].schema.find("block_checksums");
        let kept = id.is_some_and(|id| plan.dataflow.inputs[0].columns.contains(&id));
        assert_eq!(kept, !expected, "{text}");
        assert_eq!(
            plan.monitor.parsers[0].columns, plan.dataflow.inputs[0].columns,
            "{text}"
        );
    };
    check("PARSE nfs", true);
    check("PARSE http", true);
    check("PARSE nfs PROCESS (count)", true);
    check("PARSE nfs WHERE block_checksums is not null", false);
    check("PARSE nfs PROCESS (distinct: value=block_checksums)", false);
}

/// Each option changes its part of the plan, and no other.
#[test]
fn options_are_part_of_the_plan() {
    let planned = |text: &str, options: PlanOptions| {
        let query = query::check(text, &parsers::registry::schemas(), &()).expect("a sound query");
        let with = lower_with(&query, &options);
        let without = lower(&query);
        for plan in [&with, &without] {
            let columns = |i: usize| {
                (
                    &plan.monitor.parsers[i].columns,
                    &plan.monitor.parsers[i].schema,
                )
            };
            for (i, input) in plan.dataflow.inputs.iter().enumerate() {
                assert_eq!(columns(i), (&input.columns, &input.schema), "{text}");
                assert!(
                    input.columns.is_sorted_by(|a, b| a < b),
                    "{text}: {:?}",
                    input.columns
                );
            }
        }
        (with, without)
    };
    let options = PlanOptions::default;

    let limit = QueryLimit {
        packets: Some(5),
        nanos: Some(20_000_000_000),
    };
    let (with, without) = planned(
        "PARSE http LIMIT 10s PROCESS (count)",
        PlanOptions { limit, ..options() },
    );
    assert_eq!(
        with.monitor.limit,
        QueryLimit {
            packets: Some(5),
            nanos: Some(10_000_000_000)
        }
    );
    assert_eq!(with.dataflow, without.dataflow);

    let groups = "PARSE http PROCESS (group-count: group=path)";
    let (with, without) = planned(
        groups,
        PlanOptions {
            groups_max: Some(7),
            sample_seed: 3,
            ..options()
        },
    );
    assert_eq!(
        (
            with.dataflow.pipelines[0].groups_max,
            with.monitor.sample_seed
        ),
        (7, 3)
    );
    assert_eq!(without.dataflow.pipelines[0].groups_max, 100_000);
    let all = PlanOptions {
        groups_max: Some(usize::MAX),
        ..options()
    };
    assert_eq!(planned(groups, all).0, without, "a higher limit");

    let bounds = TimeBounds {
        since_ns: Some(5),
        until_ns: Some(9),
    };
    let text = "PARSE http FROM 10.0.0.1 TO *:80 LIMIT 3s PROCESS (count)";
    let (within, _) = planned(
        text,
        PlanOptions {
            bounds,
            ..options()
        },
    );
    let times = "http.ts_end >= 5 AND http.ts_end < 9";
    let Some(filter) = &within.dataflow.inputs[0].filter else {
        panic!("{times}")
    };
    let Predicate::And(parts) = filter else {
        panic!("{times}: {filter:?}")
    };
    assert_eq!(parts.len(), 2);
    let input = PlanInput::Tuples {
        first_ts: Some(100),
    };
    let (recorded, _) = planned(text, PlanOptions { input, ..options() });
    let ends = [common::CLIENT_IP, common::SERVER_PORT, common::TS_END];
    assert!(
        ends.iter()
            .all(|field| recorded.dataflow.inputs[0].columns.contains(field))
    );
    assert_eq!(recorded.monitor.clients, within.monitor.clients);

    let output = PlanOutput::Recording(AgentOrigin::default());
    let (with, without) = planned(
        "PARSE http SELECT path SAMPLE auto",
        PlanOptions {
            output,
            ..options()
        },
    );
    assert_eq!(
        (
            with.dataflow.rows.select,
            without.dataflow.rows.select.is_some()
        ),
        (None, true)
    );
    assert!(
        with.dataflow.inputs[0]
            .columns
            .contains(&common::SAMPLE_RATE)
    );

    let output = || PlanOutput::Comparison;
    let (with, without) = planned(
        groups,
        PlanOptions {
            output: output(),
            ..options()
        },
    );
    assert_eq!(
        (
            with.dataflow.pipelines.len(),
            without.dataflow.pipelines.len()
        ),
        (0, 1)
    );
    assert!(with.dataflow.inputs[0].columns.contains(&common::TS));
    let (with, _) = planned(
        groups,
        PlanOptions {
            output: output(),
            input,
            ..options()
        },
    );
    assert!(
        !with.dataflow.inputs[0].columns.contains(&common::TS),
        "tuples are in order"
    );

    let pipelines = without.dataflow.pipelines.clone();
    let columns = vec![common::QUALITY];
    let (with, _) = planned(
        groups,
        PlanOptions {
            pipelines,
            columns,
            ..options()
        },
    );
    assert_eq!(with.dataflow.pipelines.len(), 2);
    assert!(with.dataflow.inputs[0].columns.contains(&common::QUALITY));
}

/// A recording stores no column that SELECT only names.
#[test]
fn a_recording_may_omit_a_selected_column() {
    let query = query::check(
        "PARSE nfs SELECT block_checksums",
        &parsers::registry::schemas(),
        &(),
    );
    let query = query.expect("a sound query");
    let recording = PlanOutput::Recording(AgentOrigin::default());
    for (output, expected) in [(PlanOutput::Results, true), (recording, false)] {
        let options = PlanOptions {
            output,
            ..PlanOptions::default()
        };
        assert_eq!(options.reads(&query, "block_checksums"), expected);
    }
}

/// The code blocks of kind `kind` in the documentation of the query language.
fn documented(kind: &str) -> Vec<String> {
    let page = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/query-language.md"
    ));
    let page = page.expect("the page on the query language");
    let mark = format!("\n```{kind}\n");
    let blocks = page.split(&mark).skip(1);
    blocks
        .map(|block| block.split("\n```").next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn the_documentation_is_right() {
    let schemas = parsers::registry::schemas();
    let mut hosts = HostTable::new();
    hosts.insert_hosts_file("10.0.0.1 h1\n10.0.0.2 h2\n");
    let queries = documented("query");
    let errors = documented("error");
    assert!(queries.len() > 8 && errors.len() > 1);
    for text in queries.iter().flat_map(|block| block.split("\n\n")) {
        if let Err(errors) = query::check(text, &schemas, &hosts) {
            panic!("{}", query::render(&errors, text));
        }
    }
    for block in errors {
        let (text, expected) = block
            .split_once('\n')
            .expect("a query and what is said of it");
        let errors = query::check(text, &schemas, &hosts).expect_err(text);
        assert_eq!(query::render(&errors, text).trim_end(), expected);
    }
}

fn condition() -> impl Strategy<Value = String> {
    let tests = [
        "status >= 500",
        "url like 'a''%_\\%'",
        "url not like '%'",
        "status in (1, 2)",
        "status not in (3)",
        "host is null",
        "host is not null",
        "client_guessed",
        "client_ip = 10.0.0.0/8",
        "client_ip != ::1",
        "server_ip = h2",
        "response_time < 1500us",
        "ts >= '2026-01-31T00:00:00.25Z'",
        "id = 00000000000000ff",
        "response_bytes < 4KiB",
        "method = 'it''s'",
    ];
    let leaf = prop::sample::select(tests.to_vec()).prop_map(str::to_owned);
    leaf.prop_recursive(6, 40, 4, |inner| {
        let joined = |word: &'static str| {
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(move |parts| format!("({})", parts.join(word)))
        };
        prop_oneof![
            joined(" and "),
            joined(" or "),
            inner.clone().prop_map(|c| format!("not ({c})"))
        ]
    })
}

proptest! {
    /// A condition printed by `explain` has the same meaning.
    #[test]
    fn conditions_survive_being_printed(condition in condition()) {
        let first = plan(&format!("PARSE http WHERE {condition}")).dataflow;
        let printed = crate::query_text::predicate(&first, first.filter.as_ref().expect("a condition"));
        let second = plan(&format!("PARSE http WHERE {printed}")).dataflow;
        prop_assert_eq!(first.filter, second.filter, "{}", printed);
    }
}
