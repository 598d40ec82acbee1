//! Random queries and random statements: each has the same plan in the other spelling.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::sql::{difference, round_trip_difference};

const TEXTS: &[&str] = &[
    "url",
    "host",
    "Path",
    "method",
    "lower(host)",
    "split(path, '/', 2)",
];
const NUMBERS: &[&str] = &[
    "status",
    "response_bytes",
    "response_time",
    "transfer_time_ns",
    "response_bytes * 2",
    "if(status >= 500, 1, 0)",
    "response_time + transfer_time",
];
const GROUPS: &[&str] = &[
    "url",
    "host",
    "client_ip",
    "server_port",
    "get",
    "status / 100 AS class",
    "subnet(client_ip, 24)",
    "trunc(ts, 1m) AS minute",
    "if(status is null, 'none', 'some') AS 'has status'",
];
const TESTS: &[&str] = &[
    "status >= 500",
    "status != 404",
    "url like '%/a_b\\%'",
    "host ilike 'A%'",
    "path ~ '^/(a|b)'",
    "path !~* 'x'",
    "method in ('GET', \"it's\")",
    "client_ip in (10.0.0.0/8, ::1)",
    "status is null",
    "host is not null",
    "response_time between 1ms and 1.5s",
    "status not between 200 and 299",
    "response_bytes > 1_000 + 2kB",
    "client_port > server_port",
    "not client_guessed",
    "status & 4",
];
const BLOCKS: &[&str] = &[
    "count", "sum", "avg", "min", "max", "stddev", "rate", "distinct", "quantile", "hist", "cdf",
    "success", "ratio", "share",
];
const CALLS: &[&str] = &[
    "count(*)",
    "count(1)",
    "count(status)",
    "count(DISTINCT client_ip)",
    "count(*) FILTER (WHERE status >= 500 or host = 'a')",
    "sum(CASE WHEN status >= 500 THEN response_bytes ELSE 0 END)",
    "avg(response_time)",
    "AVG(transfer_time) FILTER (WHERE method = 'GET')",
    "max(CASE status WHEN 200 THEN 1 WHEN 404 THEN 2 END)",
    "p99(response_time)",
    "median(response_bytes)",
    "quantile(response_time, 0.999)",
    "success()",
    "rate()",
    "ratio(status between 500 and 599)",
];
const ADDRESSES: &[&str] = &[
    "10.0.0.0/8",
    "10.0.0.1, h2",
    "*",
    "[::1]:80",
    "*:443",
    "h1:80, 10.0.0.2:81",
];
const COMMON: &[&str] = &[
    "",
    "SINCE 2h",
    "SINCE 2h UNTIL 1h",
    "SINCE 1h BASELINE 1d",
    "SAMPLE 0.1",
    "SAMPLE 1/1000",
    "TAPS client",
];

fn condition() -> impl Strategy<Value = String> {
    let leaf = select(TESTS).prop_map(str::to_owned);
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} and {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} or {b})")),
            inner.prop_map(|a| format!("not ({a})")),
        ]
    })
}

/// A clause, or nothing.
fn maybe(word: &'static str, body: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    prop::option::of(body).prop_map(move |body| match body {
        Some(body) => format!(" {word} {body}"),
        None => String::new(),
    })
}

fn joined(list: &[&str]) -> String {
    list.join(", ")
}

/// Clauses for tuples: FROM, TO, WHERE.
fn tuples() -> impl Strategy<Value = String> {
    (
        maybe("FROM", select(&ADDRESSES[..4]).prop_map(str::to_owned)),
        maybe("TO", select(&ADDRESSES[2..]).prop_map(str::to_owned)),
        maybe("WHERE", condition()),
        maybe("WHERE", condition()),
    )
        .prop_map(|(from, to, filter, other)| [from, to, filter, other].concat())
}

fn windows() -> impl Strategy<Value = &'static str> {
    select(
        &[
            "",
            ", w=10s",
            ", w=10s, slide=5s",
            ", w=1m, lateness=0s",
            ", w=+10s",
            ", w='5s'",
        ][..],
    )
}

/// `PROCESS (…)` with arguments for its blocks.
fn process() -> impl Strategy<Value = String> {
    let chain = subsequence(BLOCKS, 0..4).prop_shuffle();
    let group = subsequence(GROUPS, 0..3);
    let value = subsequence(NUMBERS, 1..3);
    let selection = (
        maybe(
            "HAVING",
            select(&["count >= 10", "count > 2 and not count = 7"][..]).prop_map(str::to_owned),
        ),
        maybe(
            "ORDER BY",
            select(&["count DESC", "count / 2, count"][..]).prop_map(str::to_owned),
        ),
        maybe("LIMIT", (1..9u8).prop_map(|n| format!("{n} ROWS"))),
    );
    (
        chain,
        group,
        value,
        any::<bool>(),
        windows(),
        selection,
        select(&["", "diff-", "top"][..]),
    )
        .prop_map(
            |(mut chain, group, value, has_value, window, (having, order, rows), kind)| {
                let selects = [&having, &order]
                    .into_iter()
                    .any(|clause| !clause.is_empty());
                if selects && !chain.contains(&"count") {
                    chain.push("count");
                }
                let has = |block: &str| chain.contains(&block);
                let mut args = Vec::new();
                if !group.is_empty() || kind == "top" {
                    args.push(format!(
                        "group={}",
                        if group.is_empty() {
                            "url".to_owned()
                        } else {
                            joined(&group)
                        }
                    ));
                }
                let uses = [
                    "sum", "avg", "min", "max", "stddev", "quantile", "hist", "cdf", "share",
                ];
                if has_value && uses.into_iter().any(has) && kind != "diff-" {
                    args.push(format!("value={}", joined(&value)));
                }
                if has("quantile") {
                    args.push("q=0.5, 0.999, 0.12345".to_owned());
                }
                if has("ratio") {
                    args.push("of=(status >= 500) AS failed, (status = 404)".to_owned());
                }
                let start = if args.iter().any(|arg| arg.starts_with("group=")) {
                    "group-"
                } else {
                    ""
                };
                if chain.is_empty() {
                    chain.push("count");
                }
                let (end, selection) = match kind {
                    "top" => ("-top-3", String::new()),
                    _ => ("", [having, order, rows].concat()),
                };
                // Without an aggregate of the difference, `diff` is only a condition.
                let uses_difference = |block: &&str| *block != "share" && chain.contains(block);
                let is_used = uses.iter().any(uses_difference);
                let diff = if kind == "diff-" && is_used { kind } else { "" };
                let args = format!("{}{window}", args.join(", "));
                let args = args.trim_start_matches(", ");
                format!(
                    " PROCESS ({diff}{start}{}{end}{}{args}){selection}",
                    chain.join("-"),
                    if args.is_empty() { "" } else { ": " }
                )
            },
        )
}

/// `SELECT …` of tuples, with an order and a limit.
fn rows() -> impl Strategy<Value = String> {
    let columns = subsequence([TEXTS, &NUMBERS[..4]].concat(), 1..5);
    let limited = select(
        &[
            "",
            " LIMIT 5 ROWS",
            " ORDER BY ts DESC, status / 100 LIMIT 3 ROWS, 90s",
        ][..],
    );
    (prop::option::of(columns), limited).prop_map(|(columns, limited)| match columns {
        Some(columns) => format!(" SELECT {}, *{limited}", joined(&columns)),
        None => limited.to_owned(),
    })
}

/// A statement with aggregates.
fn statement() -> impl Strategy<Value = String> {
    let aliased = (select(CALLS), select(&["", " AS a", " b", " \"c d\""][..]));
    let calls = prop::collection::vec(aliased, 1..4);
    let table = select(
        &[
            "http",
            "http h",
            "tcp_conn_time AS c JOIN http h ON c.id = h.id",
            "\"http\"",
        ][..],
    );
    let addresses = select(
        &[
            "",
            "server = 10.0.0.2:80 and ",
            "client in (h1, h2) and ",
            "(client = h1 or client = h2) and ",
        ][..],
    );
    let tail = select(
        &[
            "",
            " LIMIT 5",
            " WINDOW 10s",
            " ORDER BY 1 DESC LIMIT 3 WINDOW 10s SLIDE 5s",
            " ORDER BY count(*) DESC",
        ][..],
    );
    let having = maybe(
        "HAVING",
        select(
            &[
                "count(*) > 5",
                "avg(response_time) * 2 > 1s or count(status) = 3",
            ][..],
        )
        .prop_map(str::to_owned),
    );
    (calls, subsequence(GROUPS, 0..3), table, addresses, condition(), having, tail, select(COMMON)).prop_map(
        |(calls, group, table, addresses, filter, having, tail, common)| {
            let mut seen = Vec::new();
            let mut items: Vec<String> = group.iter().map(|group| (*group).to_owned()).collect();
            for (call, alias) in calls {
                // A name is given once.
                let alias = if seen.contains(&alias) { "" } else { alias };
                seen.push(alias);
                items.push(format!("{call}{alias}"));
            }
            let places: Vec<String> = (1..=group.len()).map(|place| place.to_string()).collect();
            let group = if group.is_empty() { String::new() } else { format!(" GROUP BY {}", places.join(", ")) };
            format!("SELECT {} FROM {table} WHERE {addresses}{filter}{group}{having}{tail} {common};", items.join(", "))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 2000, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn queries_have_the_same_plan_in_sql(start in tuples(), work in prop_oneof![3 => process().boxed(), 1 => rows().boxed()], common in select(COMMON)) {
        let query = format!("PARSE http{start} {common}{work}");
        prop_assume!(crate::check(&query, &super::schemas(), &super::hosts()).is_ok());
        let found = round_trip_difference(&query);
        prop_assert!(found.is_none(), "{}", found.unwrap_or_default());
    }

    #[test]
    fn statements_have_the_same_plan_with_parse(sql in statement()) {
        prop_assume!(crate::check(&sql, &super::schemas(), &super::hosts()).is_ok());
        let found = difference(&sql, &sql);
        prop_assert!(found.is_none(), "{}", found.unwrap_or_default());
    }
}
