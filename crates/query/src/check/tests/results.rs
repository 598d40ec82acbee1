//! Aggregates of several values, and the selection of result rows.

use plan::{Pipeline, SortDirection, result};

use super::{check_errors, checked, processor, shown, value_of};
use crate::CheckedQuery;

/// The names of computed columns.
fn columns_of(query: &CheckedQuery, processor: &Pipeline) -> Vec<String> {
    let schema = result::schema(processor, result::IntervalMode::None, &|c| {
        query.field(c).clone()
    });
    let names = schema.fields.into_iter().map(|f| f.name.into_owned());
    names
        .skip(result::first_aggregate(processor))
        .take(processor.aggregates.len())
        .collect()
}

#[test]
fn several_values_and_parts_of_totals() {
    let check = |parse: &str, process: &str, values: &[&str], columns: &[&str]| {
        let (q, p) = processor(parse, process);
        assert_eq!(value_of(&q, &p), values, "{process}");
        assert_eq!(columns_of(&q, &p), columns, "{process}");
    };
    let bytes = "http.response_bytes";
    let time = "http.response_time_ns";
    check(
        "http",
        "(sum-avg: value=response_bytes)",
        &[bytes],
        &["sum_bytes", "avg_bytes"],
    );
    check(
        "http",
        "(count-sum-quantile: value=response_bytes, response_time, q=0.9)",
        &[bytes, time],
        &[
            "count",
            "sum_response_bytes",
            "sum_response_time_ns",
            "p90_response_bytes",
            "p90_response_time_ns",
        ],
    );
    let usual = ["min", "avg", "max", "p50", "p95", "p99"];
    let of_both = usual.iter().flat_map(|a| {
        [
            format!("{a}_response_bytes"),
            format!("{a}_response_time_ns"),
        ]
    });
    let of_both: Vec<String> = std::iter::once("count".to_owned()).chain(of_both).collect();
    let of_both: Vec<&str> = of_both.iter().map(String::as_str).collect();
    check(
        "http",
        "(group: value=response_bytes, response_time)",
        &[bytes, time],
        &of_both,
    );
    let distinct = ["distinct_host", "distinct_url"];
    check(
        "http",
        "(group-distinct: group=client_ip, value=host, url)",
        &[],
        &distinct,
    );
    check(
        "http",
        "(throughput: value=response_bytes)",
        &[bytes],
        &["throughput_bytes"],
    );
    check(
        "tcp_pkt_size",
        "throughput",
        &["tcp_pkt_size.packet_bytes"],
        &["throughput_bytes"],
    );
    check("http", "group-share", &[], &["share"]);
    check("http", "group-avg-share", &[time], &["avg_ns", "share"]);
    check(
        "http",
        "(group-share: value=response_bytes)",
        &[bytes],
        &["share_response_bytes"],
    );
    check(
        "http",
        "(share-rate: value=response_time)",
        &[time],
        &["share_response_time_ns", "rate"],
    );
}

#[test]
fn a_difference_has_the_total_time_beside_it() {
    let usual = "count min_ns avg_ns max_ns p50_ns p95_ns p99_ns";
    let both = format!("{usual} p99_total_time_ns");
    let check = |parse: &str, process: &str, columns: &str| {
        let (q, p) = processor(parse, process);
        assert_eq!(columns_of(&q, &p).join(" "), columns, "{parse} {process}");
        (q, p)
    };
    for process in ["diff", "diff-group", "diff-group-top-k"] {
        let (q, p) = check("mysql_query", process, &both);
        let times = ["mysql_query.response_time_ns", "mysql_query.total_time_ns"];
        assert_eq!(value_of(&q, &p), times, "{process}");
        // Rows without a response time are skipped, as before.
        assert!(p.value_required);
        check("http", process, usual);
    }
    check("mysql_query", "group", usual);
    check("mysql_query", "diff-group-max", "max_ns");
    check("mysql_query", "(diff-group: value=total_time)", usual);
    // The difference is the duration of the connection.
    check("tcp_conn_time, mysql_query", "diff-group", usual);
    let (_, ranked) = processor("mysql_query", "(diff-group-top-k: by=p99_total_time)");
    assert_eq!(ranked.top_k.expect("a ranking").by, 7);
    let (_, worst) = processor("mysql_query", "(diff-group) ORDER BY p99_total_time DESC");
    assert_eq!(worst.selection.order_by.len(), 1);
}

#[test]
fn rankings_by_name() {
    let by = |process: &str| processor("http", process).1.top_k.expect("a ranking").by;
    assert_eq!(by("(diff-group-top-k: by=avg)"), 2);
    assert_eq!(by("(diff-group-top-k: by=P99_ns)"), 6);
    assert_eq!(
        by("(top-k-group-sum-count: by=sum, value=response_bytes)"),
        0
    );
    assert_eq!(
        by("(group-sum-max-top-k: by=sum_response_bytes, value=response_bytes, response_time)"),
        0
    );
    assert_eq!(by("(group-hist-count-top-k-avg: by=count)"), 1);
    let check =
        |args: &str, expected| check_errors(&format!("PARSE http PROCESS ({args})"), &[expected]);
    check(
        "diff-group-top-k: by=p98",
        (
            "p98",
            "expected count, min_ns, avg_ns, max_ns, p50_ns, p95_ns or p99_ns",
        ),
    );
    check(
        "group-avg-count-top-k: by=url",
        (
            "url",
            "is not a result of `group-avg-count-top-k`: expected avg_ns or count",
        ),
    );
    check(
        "group-count-hist-top-k: by=hist",
        ("hist", "a distribution cannot be ranked: expected count"),
    );
    check(
        "group-count: by=count",
        ("by", "it belongs to the block `top-k`"),
    );
    check("top-k-group-avg", ("top-k", "add by="));
}

#[test]
fn values_that_do_not_fit() {
    let check =
        |args: &str, expected| check_errors(&format!("PARSE http PROCESS ({args})"), &[expected]);
    check(
        "throughput",
        (
            "throughput",
            "needs `value=`: name the column, as in value=response_bytes",
        ),
    );
    check(
        "throughput: value=response_time",
        ("response_time", "which is a duration: expected bytes"),
    );
    check(
        "diff: value=response_time, transfer_time",
        ("transfer_time", "`diff` has one value"),
    );
    check(
        "sum: value=response_bytes, url",
        ("url", "`sum` cannot use `url`, which is text"),
    );
    check(
        "sum: value=response_bytes, response_bytes",
        ("response_bytes", "repeats"),
    );
    check(
        "share: value=url",
        ("url", "`share` cannot use `url`, which is text"),
    );
    check("ratio", ("ratio", "needs `of=`"));
}

/// The selection of the last processor as text.
fn selection(query: &str) -> String {
    let q = checked(query);
    let p = q.processors.last().expect("a processor");
    let schema = result::schema(p, result::IntervalMode::None, &|c| q.field(c).clone());
    // The condition refers to the columns of the result.
    let results = crate::checked_query::QueryInput {
        schema: std::sync::Arc::new(schema.clone()),
        filter: None,
    };
    let computed = p.selection.computed.clone();
    let of_results = CheckedQuery {
        inputs: vec![results],
        computed,
        ..q.clone()
    };
    let having = p
        .selection
        .having
        .as_ref()
        .map(|c| format!("having {}", shown(&of_results, c)));
    let key = |k: &plan::SortKey| {
        let sign = if k.direction == SortDirection::Descending {
            "-"
        } else {
            "+"
        };
        format!("{sign}{}", of_results.field(k.column).name)
    };
    let keys = p.selection.order_by.iter().map(key);
    let rows = p.selection.rows_max.map(|n| format!("{n} rows"));
    having
        .into_iter()
        .chain(keys)
        .chain(rows)
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn selections() {
    let check = |text: &str, expected: &str| {
        assert_eq!(
            selection(&format!("PARSE http PROCESS {text}")),
            expected,
            "{text}"
        );
    };
    check("count", "");
    check("(group-count) HAVING count > 10", "having count Gt U64(10)");
    check("group-count having count > 10", "having count Gt U64(10)");
    check("(group-count) ORDER BY count DESC, url", "-count +url");
    check("(group-count) order by get asc limit 1 row", "+url 1 rows");
    check("(group-count) LIMIT 20 ROWS", "20 rows");
    check(
        "(diff-group: w=10s) LIMIT 3 rows ORDER BY p99 DESC HAVING p99 > 1.5ms and not approximate",
        "having (p99_ns Gt F64(1500000.0) and not approximate Eq Bool(true)) -p99_ns 3 rows",
    );
    check(
        "(sum: value=response_bytes) HAVING sum >= 10kB",
        "having sum_bytes Ge U64(10000)",
    );
    check(
        "(throughput: value=response_bytes) HAVING throughput > 4MB",
        "having throughput_bytes Gt F64(4000000.0)",
    );
    check(
        "(group-share) HAVING share > 5%",
        "having share Gt F64(0.05)",
    );
    check("(group-rate) HAVING rate >= 2.5", "having rate Ge F64(2.5)");
    check(
        "(group-count-top-k: group=client_ip) HAVING rank <= 2 or client_ip = h1",
        "having (rank Le U64(2) or client_ip Eq Net(10.0.0.1, 32))",
    );
    check(
        "(count: w=1m) HAVING window_start >= '2026-01-01'",
        "having window_start Ge I64(1767225600000000000)",
    );
    check(
        "(group-count: group=path) HAVING path like '/a%'",
        "having path like \"/a%\"",
    );
    check(
        "(ratio: of=(status >= 500) AS failed, (response_time > 1s)) HAVING failed > 0.01 or ratio is null",
        "having (failed Gt F64(0.01) or ratio is null)",
    );
}

#[test]
fn selections_belong_to_their_processor_and_limits_to_the_query() {
    let q = checked(concat!(
        "PARSE http PROCESS (group-count) HAVING count > 1 ORDER BY count LIMIT 5 ROWS, ",
        "(group-sum) LIMIT 7 ROWS success ORDER BY success, (count) LIMIT 90s SAMPLE 0.5",
    ));
    let rows: Vec<_> = q.processors.iter().map(|p| p.selection.rows_max).collect();
    assert_eq!(rows, [Some(5), Some(7), None, None]);
    let sorted: Vec<_> = q
        .processors
        .iter()
        .map(|p| p.selection.order_by.len())
        .collect();
    assert_eq!(sorted, [1, 0, 1, 0]);
    assert_eq!(q.limit.nanos, Some(90_000_000_000));
}

#[test]
fn wrong_selections() {
    let check = |text: &str, expected: &[(&str, &str)]| {
        check_errors(&format!("PARSE http PROCESS {text}"), expected);
    };
    check(
        "(group-avg) HAVING count > 3",
        &[(
            "count",
            "have no column `count`: expected url, avg_ns, approximate, error_bound or lost; the block `count` computes it",
        )],
    );
    check(
        "(diff-group) ORDER BY p90",
        &[("p90", "the block `quantile` with q=0.90 computes it")],
    );
    check(
        "(diff-group) ORDER BY cuont",
        &[("cuont", "did you mean `count`?")],
    );
    check(
        "(diff-group) HAVING p99 > 10",
        &[("10", "a number needs a unit")],
    );
    check(
        "(group-avg) HAVING avg > url",
        &[("avg > url", "a duration is compared with text")],
    );
    check(
        "(group-hist) ORDER BY hist",
        &[("hist", "a distribution cannot be ordered")],
    );
    check(
        "(group-count) ORDER BY count, count DESC",
        &[("count", "already a sort key")],
    );
    check("(group-count) ORDER count", &[("count", "expected `BY`")]);
    check(
        "(group-count) LIMIT 0 ROWS",
        &[("0", "is not a number of rows")],
    );
    check(
        "(group-count) LIMIT x ROWS",
        &[("x", "is not a number of rows")],
    );
    check("(group-count) HAVING", &[("", "is incomplete")]);
    check(
        "(group-count) HAVIN count > 1",
        &[("HAVIN", "did you mean `HAVING`?")],
    );
    check(
        "(group-count) HAVING count > 1 HAVING count > 2",
        &[("HAVING", "given twice for one processor")],
    );
    check(
        "(group-grop) HAVING x > 1",
        &[("grop", "did you mean `group`?")],
    );
    check("(ratio: of=(url))", &[("url", "is text, not a condition")]);
    check(
        "(count: of=(status = 1))",
        &[("of", "it belongs to the block `ratio`")],
    );
    check_errors(
        "PARSE http HAVING count > 1",
        &[("HAVING", "belongs after a processor")],
    );
    check_errors(
        "PARSE http PROCESS workload-profile LIMIT 3 ROWS",
        &[("workload-profile", "has no effect")],
    );
}
