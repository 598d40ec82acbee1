//! Queries over both taps of a flow: the assignment of conditions, and unsupported queries.

use plan::TapSelection;

use super::*;
use crate::both_taps;
use crate::query_text::predicate;

fn plan(text: &str) -> Plan {
    let schemas = parsers::registry::schemas();
    lower(
        &query::check(text, &schemas, &())
            .unwrap_or_else(|e| panic!("{}", query::render(&e, text))),
    )
}

/// The conditions for agents, and after the join.
fn check(text: &str, at_agents: &str, joined: &str) {
    let plan = plan(text);
    let both = both_taps(&plan)
        .expect("it can be asked")
        .expect("it asks for both");
    let said = |plan: &Plan| {
        plan.dataflow
            .filter
            .as_ref()
            .map(|filter| predicate(&plan.dataflow, filter))
            .unwrap_or_default()
    };
    assert_eq!(
        (said(&both.agents), said(&both.joined)),
        (at_agents.into(), joined.into()),
        "{text}"
    );
    let agents = &both.agents;
    assert_eq!(
        (agents.monitor.taps, agents.dataflow.pipelines.len()),
        (TapSelection::Ends, 0)
    );
    assert!(plan::validate::check(agents).is_empty(), "{text}");
    let input = &agents.dataflow.inputs[0];
    let parser = &agents.monitor.parsers[0];
    assert_eq!(input.columns, parser.columns);
    let has = |name: &str| {
        input
            .schema
            .find(name)
            .is_some_and(|id| input.columns.contains(&id))
    };
    for name in [
        "tap.request",
        "tap.seen",
        "ts_end",
        "client_ip",
        "server_port",
        "response_time_ns",
    ] {
        assert!(has(name), "{text}: {name}");
    }
    // The columns `tap.…` exist only after the join.
    assert!(
        !has("tap.network_time_ns") && !has("tap.server_time_ns"),
        "{text}"
    );
}

#[test]
fn conditions_are_evaluated_at_one_tap_when_possible() {
    check("PARSE http SELECT tap.seen", "", "");
    check(
        "PARSE http WHERE status >= 500 AND tap.network_time > 5ms SELECT url",
        "tap.seen = 'server' or status >= 500",
        "tap.network_time_ns > 5ms",
    );
    check(
        "PARSE http WHERE (status >= 500 OR tap.seen = 'client') AND url LIKE '/a%' PROCESS (count)",
        "tap.seen = 'server' or url like '/a%'",
        "status >= 500 or tap.seen = 'client'",
    );
    // Computed columns are evaluated with the remaining condition.
    check(
        "PARSE http WHERE response_bytes * 2 > 100 AND method = 'GET' PROCESS (group-count: group=tap.seen)",
        "tap.seen = 'server' or method = 'GET'",
        "response_bytes * 2 > 100",
    );
}

#[test]
fn unsupported_queries_are_rejected() {
    for (text, why) in [
        (
            "PARSE http, tcp_conn_time PROCESS (group-count: group=tap.seen)",
            "one parser",
        ),
        ("PARSE http TAPS client SELECT tap.seen", "omit TAPS"),
        ("PARSE http SAMPLE auto SELECT tap.seen", "SAMPLE 0.1"),
    ] {
        let refused = both_taps(&plan(text)).expect_err(text);
        assert!(refused.contains(why), "{text}: {refused}");
    }
    assert!(
        both_taps(&plan("PARSE http TAPS all"))
            .expect("nothing is asked")
            .is_none()
    );
}
