//! Expressions, SELECT, ORDER BY, and LIMIT n ROWS: their types, and errors.

use plan::{ComputedField, Expr, Literal, SortDirection};

use super::conditions::check_condition;
use super::{check_errors, checked};

/// Checks the type of a computed column, or the value of a constant.
fn check(expr: &str, expected: &str) {
    let q = checked(&format!("PARSE http, tcp_pkt_size SELECT {expr} AS it"));
    let Some(ComputedField { field, text, .. }) = q.computed.last() else {
        panic!("{expr}: nothing is computed")
    };
    assert_eq!(
        format!("{:?} {:?}", field.data_type, field.unit),
        expected,
        "{expr}"
    );
    assert_eq!((field.name.as_ref(), text.as_str()), ("it", expr));
}

#[test]
fn types_of_arithmetic() {
    check("status / 100", "I64 None");
    check("status % 100 * 2 - 1", "I64 None");
    check("status * 1.5", "F64 None");
    check("status | 1", "I64 None");
    check("response_time * 2", "I64 Nanoseconds");
    check("2 * response_time", "I64 Nanoseconds");
    check("response_time * 0.5", "F64 Nanoseconds");
    check("response_time + 100ms", "I64 Nanoseconds");
    check("response_time % 1s", "I64 Nanoseconds");
    check("response_time / 1ms", "F64 None");
    check("response_time / 2", "I64 Nanoseconds");
    check("response_bytes + packet_bytes", "I64 Bytes");
    check("response_bytes - 1", "I64 Bytes");
    check("response_bytes / packet_bytes", "F64 None");
    check("response_bytes / response_time", "F64 PerSecond");
    check("ts + 1h", "I64 EpochNanoseconds");
    check("ts_end - ts", "I64 Nanoseconds");
    check("-response_time", "I64 Nanoseconds");
    check("- -5 * status", "I64 None");
    check("status = 200 or status is null", "Bool None");
}

#[test]
fn types_of_functions() {
    check("trunc(ts, 1m)", "I64 EpochNanoseconds");
    check("trunc(response_time, 10ms)", "I64 Nanoseconds");
    check("trunc(response_bytes, 4KiB)", "I64 Bytes");
    check("trunc(status, 100)", "I64 None");
    check("subnet(client_ip, 24)", "Text None");
    check("subnet(srcIP, 24, 48)", "Text None");
    check("URL_QUERY(url, 'id')", "Text None");
    check("split(host, ':', -1)", "Text None");
    check("extract(url, '([a-z]+)$')", "Text None");
    check("replace(path, '[0-9]+', 'N')", "Text None");
    check("length(lower(upper(url)))", "I64 None");
    check("coalesce(status, 0)", "I64 None");
    check("coalesce(status, 0.5)", "F64 None");
    check("coalesce(null, host, 'none')", "Text None");
    check("coalesce(response_bytes, 0)", "I64 Bytes");
    check("if(status >= 500, 'bad', null)", "Text None");
    check(
        "if(client_ip = 10.0.0.0/8, client_ip, server_ip)",
        "Ip None",
    );
    check("ACK | rst", "I64 None");
}

#[test]
fn constants_are_computed_at_once() {
    let check = |condition, expected| check_condition("http", condition, expected);
    check(
        "response_time > 2 * 100ms",
        "response_time_ns Gt I64(200000000)",
    );
    check("-(1 + 2) * 3 < status / 100", "status / 100 Gt I64(-9)");
    check(
        "response_time_ns > 2 * 1000 * 1us",
        "response_time_ns Gt I64(2000000)",
    );
    check("response_bytes >= 2 * 4KiB", "response_bytes Ge U64(8192)");
    check("status = 2 * 100", "status Eq U64(200)");
    check("status > 0 - 5", "status > 0 - 5 Eq Bool(true)");
    check(
        "response_time / 1ms > 7 / 2.0",
        "response_time / 1ms Gt F64(3.5)",
    );
}

#[test]
fn conditions_with_expressions() {
    let check = |condition, expected| check_condition("http", condition, expected);
    check("status / 100 = 5", "status / 100 Eq I64(5)");
    check("5 = status/100", "status/100 Eq I64(5)");
    check(
        "status / 100 in (4, 5) and not lower(host) like 'a%'",
        "(status / 100 in [I64(4), I64(5)] and not lower(host) like \"a%\")",
    );
    check("length(url) > 10", "length(url) Gt I64(10)");
    check(
        "trunc(ts, 1m) = '2026-01-31T12:00:00Z'",
        "trunc(ts, 1m) Eq I64(1769860800000000000)",
    );
    check(
        "response_time * 2 > 1s",
        "response_time * 2 Gt I64(1000000000)",
    );
    check("status & 4", "status & 4 Ne I64(0)");
    check("status & 4 = 4", "status & 4 Eq I64(4)");
    check(
        "client_port > server_port",
        "client_port > server_port Eq Bool(true)",
    );
    check(
        "client_ip = server_ip",
        "client_ip = server_ip Eq Bool(true)",
    );
    check(
        "response_time_ns / 2 > 5000",
        "response_time_ns / 2 Gt I64(5000)",
    );
    check(
        "(status + 1) * 2 = 4 and (status = 1)",
        "((status + 1) * 2 Eq I64(4) and status Eq U64(1))",
    );
    check(
        "url_query(url, 'a') is not null",
        "not url_query(url, 'a') is null",
    );
    check(
        "url ilike '%Cart%' or url !~* '^/A'",
        "(url ilike \"%Cart%\" or not url ~* \"^/A\")",
    );
    check("url not ilike 'a'", "not url ilike \"a\"");
    check("url ~ 'it''s'", "url ~ \"it's\"");
    check(
        "client_ip in (10.0.0.0/8, 192.168.1.1, h1)",
        "client_ip in [Net(10.0.0.0, 8), Net(192.168.1.1, 32), Net(10.0.0.1, 32)]",
    );
    check(
        "server_ip = web-1.example.com",
        "server_ip Eq Net(10.0.0.9, 32)",
    );
    check(
        "if(status > 400, client_guessed, true)",
        "if(status > 400, client_guessed, true) Eq Bool(true)",
    );
}

#[test]
fn the_same_expression_is_computed_once() {
    let q = checked(
        "PARSE http SELECT status / 100, url WHERE status / 100 = 5 or status / 100 = 4 ORDER BY status / 100 LIMIT 1 ROWS",
    );
    assert_eq!(q.computed.len(), 1);
    let q = checked(
        "PARSE http PROCESS (group-count: group=status/100 AS class, w=1s), (group-avg: group=status/100 AS class, value=response_time*2)",
    );
    assert_eq!(
        q.computed
            .iter()
            .map(|c| c.field.name.as_ref())
            .collect::<Vec<_>>(),
        ["class", "response_time*2"]
    );
    assert_eq!(q.processors[0].group[0].name, "class");
    assert_eq!(
        q.processors[0].group[0].column,
        q.processors[1].group[0].column
    );
}

#[test]
fn selected_columns_have_their_names() {
    let names = |text: &str| -> Vec<String> {
        let q = checked(text);
        q.rows
            .select
            .as_ref()
            .expect("SELECT")
            .iter()
            .map(|c| q.field(*c).name.to_string())
            .collect()
    };
    assert_eq!(
        names("PARSE http SELECT url, response_time AS t, status / 100"),
        ["url", "t", "status / 100"]
    );
    let all = names("PARSE http SELECT url, *, status/100 AS class");
    assert_eq!(
        (
            all[0].as_str(),
            all[1].as_str(),
            all.last().map(String::as_str)
        ),
        ("url", "id", Some("class"))
    );
    assert_eq!(
        all.len(),
        checked("PARSE http").inputs[0].schema.fields.len(),
        "each once, without sample_rate"
    );
    let q = checked("PARSE http ORDER BY response_time DESC, url LIMIT 20 ROWS, 90s");
    let [
        (first, SortDirection::Descending),
        (second, SortDirection::Ascending),
    ] = q.rows.order[..]
    else {
        panic!("two keys")
    };
    assert_eq!(
        (&*q.field(first).name, &*q.field(second).name),
        ("response_time_ns", "url")
    );
    assert_eq!(
        (q.rows.rows_max, q.limit.nanos),
        (Some(20), Some(90_000_000_000))
    );
    let q = checked("PARSE http select -status as x_y from * limit 1 row");
    let Expr::Arithmetic(zero, ..) = &q.computed[0].expr else {
        panic!("a difference")
    };
    assert_eq!(**zero, Expr::Literal(Literal::I64(0)));
}

#[test]
fn computed_columns_inherit_redaction() {
    // No field of these schemas is redacted; a renamed field keeps its redaction.
    let q = checked("PARSE http SELECT url AS u, lower(url) AS l");
    assert!(
        q.computed
            .iter()
            .all(|c| c.field.redact == tuple::RedactionRule::Keep)
    );
}

#[test]
fn errors_of_expressions() {
    let check = |condition: &str, errors: &[(&str, &str)]| {
        check_errors(&format!("PARSE http WHERE {condition}"), errors)
    };
    check(
        "response_time + 5 > 1s",
        &[("response_time + 5", "a number needs a unit")],
    );
    check(
        "response_time > status",
        &[(
            "response_time > status",
            "a duration is compared with a number",
        )],
    );
    check(
        "url + 1 = 2",
        &[("url", "`+` needs numbers; `url` is text")],
    );
    check(
        "ts * 2 > 1",
        &[("ts * 2", "`*` cannot combine a point in time and a number")],
    );
    check(
        "ts + ts = 1",
        &[(
            "ts + ts",
            "`+` cannot combine a point in time and a point in time",
        )],
    );
    check(
        "response_time & 1",
        &[("response_time & 1", "bit operators need whole numbers")],
    );
    check("status + 1", &[("status + 1", "a number, not a condition")]);
    check("status = 1 / 0", &[("1 / 0", "has no value")]);
    check(
        "status = 9223372036854775807 + 1",
        &[("9223372036854775807 + 1", "has no value")],
    );
    check("lenght(url) > 1", &[("lenght", "did you mean `length`?")]);
    check("p99(url) > 1", &[("p99", "unknown function `p99`")]);
    check("avg(status) > 1", &[("avg", "aggregates are processors")]);
    check("length(url, 1) > 1", &[("length(url, 1)", "`length(url)`")]);
    check(
        "length(status) > 1",
        &[("status", "`length` needs text; `status` is a number")],
    );
    check("trunc(ts, 5) > 1s", &[("ts, 5", "`trunc(ts, 1m)`")]);
    check(
        "trunc(ts, response_time) > 1s",
        &[("response_time", "a constant above 0")],
    );
    check(
        "subnet(url, 24) = 'a'",
        &[("url", "`subnet` needs an address")],
    );
    check("subnet(client_ip, 33) = 'a'", &[("33", "0 to 32")]);
    check("split(url, '', 1) = 'a'", &[("''", "nothing separates")]);
    check("split(url, '/', 0) = 'a'", &[("0", "counted from 1")]);
    check(
        "extract(url, '(') = 'a'",
        &[("(", "in the pattern: unclosed group")],
    );
    check("if(status, 1, 2) = 1", &[("status", "not a condition")]);
    check(
        "if(status = 1, 1, 'a') = 1",
        &[("1, 'a'", "one column cannot hold a number and text")],
    );
    check("ulr || 'x' = 'a'", &[("|", "write `or`")]);
    check("(status + 1 > 5", &[("(", "is not closed")]);
    check("status + > 5", &[(">", "expected a value")]);
    check(
        "lower(client_ip) = 'a' and sttus = 1",
        &[
            ("client_ip", "needs text"),
            ("sttus", "did you mean `status`?"),
        ],
    );
    let deep = format!(
        "{}status{} = 1",
        "length(lower(".repeat(40),
        "))".repeat(40)
    );
    check(&deep, &[("(", "nested more than 64 deep")]);
    let long = format!("status{} = 1", " + 1".repeat(300));
    let said = crate::check(
        &format!("PARSE http WHERE {long}"),
        &super::schemas(),
        &super::hosts(),
    )
    .expect_err("too long");
    assert!(
        said[0].message.contains("more than 256 operators"),
        "{said:?}"
    );
}

#[test]
fn errors_of_select_and_order() {
    let check =
        |rest: &str, errors: &[(&str, &str)]| check_errors(&format!("PARSE http {rest}"), errors);
    check(
        "SELECT url, path AS url",
        &[("url", "two columns are named `url`")],
    );
    check("SELECT url, *, *", &[("*", "`*` occurs twice")]);
    check("SELECT ulr", &[("ulr", "did you mean `url`?")]);
    check("SELECT 5", &[("5", "is a value, not a field")]);
    check("SELECT null AS x", &[("null", "is always null")]);
    check("SELECT", &[("", "a field, or an expression")]);
    check(
        "SELECT url path",
        &[("path", "an operator, `AS name` or `,`")],
    );
    check(
        "SELECT url PROCESS (count)",
        &[("url", "SELECT applies to tuples")],
    );
    check(
        "ORDER BY url PROCESS (count)",
        &[("url", "put ORDER BY after the processor")],
    );
    check("ORDER BY url", &[("url", "LIMIT 20 ROWS")]);
    check("ORDER url LIMIT 1 ROWS", &[("url", "expected `BY`")]);
    check("LIMIT 0 ROWS", &[("0", "from 1 to")]);
    check("LIMIT 1 ROWS, 2 rows", &[("2", "a second limit of rows")]);
    check(
        "PROCESS (count) ERROR x",
        &[("ERROR", "it follows the rate: SAMPLE auto ERROR 5%")],
    );
    check(
        "PROCESS (group-count: group=status/, w=1s)",
        &[(",", "expected a value")],
    );
}
