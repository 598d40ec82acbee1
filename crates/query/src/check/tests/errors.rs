//! Invalid queries with their errors: position, message, and label.

use super::*;

#[test]
fn errors_of_structure() {
    let check = check_errors;
    check("", &[("", "the query is empty: expected `PARSE`")]);
    check(" -- nothing", &[("", "the query is empty")]);
    check(
        "PRASE http FORM * TO h1 LIMT 3s",
        &[
            ("PRASE", "`PARSE`?"),
            ("FORM", "`FROM`?"),
            ("LIMT", "`LIMIT`?"),
        ],
    );
    check("FROM * PARSE http", &[("FROM", "begins with PARSE")]);
    check("PARSE", &[("", "expected a parser's name")]);
    check("PARSE FROM *", &[("FROM", "expected a parser's name")]);
    check("PARSE http,,http_get", &[(",", "expected a parser's name")]);
    check("PARSE (http, http_get FROM *", &[("(", "is not closed")]);
    check("PARSE http)", &[(")", "unexpected `)`")]);
    check(
        "PARSE http FROM * FROM *",
        &[("FROM", "FROM is given twice")],
    );
    check("PARSE http LIMIT", &[("", "expected a limit")]);
    check(
        "PARSE http SAMPLE LIMIT 1s",
        &[("LIMIT", "expected a rate")],
    );
    check(
        "PARSE http FROM 10.0.0.1 10.0.0.2 TO *",
        &[("10.0.0.2", "expected `,` or a clause: SELECT, TO, WHERE")],
    );
    check("PARSE http; PARSE http", &[("PARSE", "only one query")]);
    check(
        "PARSE http WHERE url = 'x FROM *",
        &[("'x FROM *", "no closing quote")],
    );
    check("PARSE http WHERE url = ‘x’", &[("‘", "quotes are ' or \"")]);
    check(
        "PARSE http @ LIMIT 1x",
        &[("@", "unexpected `@`"), ("1x", "is not a limit")],
    );
}

#[test]
fn errors_of_conditions() {
    let check = |condition: &str, expected: &[(&str, &str)]| {
        check_errors(&format!("PARSE http WHERE {condition}"), expected)
    };
    check("", &[("", "expected a condition")]);
    check(
        "status",
        &[("status", "not a condition: expected a comparison")],
    );
    check("status =", &[("", "expected a value")]);
    check("status = LIMIT 1s", &[("LIMIT", "expected a value")]);
    check("status ~ 5", &[("status", "`~` needs text")]);
    check("url ~ 5", &[("5", "write '5'")]);
    check("url matches 'x'", &[("matches", "write `~ 'pattern'`")]);
    check("url ~ '^a(?=b)'", &[("(?=", "look-around")]);
    check(
        "url ~ 'it''s [a'",
        &[("[", "in the pattern: unclosed character class")],
    );
    check(
        "url ~ '\\w{1000}{1000}'",
        &[("'\\w{1000}{1000}'", "is too large")],
    );
    check("status between 1", &[("", "`and` and the upper end")]);
    check("status = 1 && status = 2", &[("&", "write `and`")]);
    check(
        "status = 1 status = 2",
        &[("status", "expected `and`, `or` or a clause")],
    );
    check("(status = 1", &[("(", "is not closed")]);
    check("status = 1)", &[(")", "expected `and`")]);
    check("and status = 1", &[("and", "expected a condition")]);
    check("not", &[("", "expected a condition")]);
    check(
        "status not 5",
        &[("5", "expected `like`, `ilike`, `in` or `between`")],
    );
    check("status in 5", &[("5", "a list in parentheses")]);
    check("status in ()", &[(")", "expected a value")]);
    check("status is 5", &[("5", "expected `null` or `not null`")]);
    check("status = null", &[("null", "write `is null`")]);
    check("1 = 2", &[("1 = 2", "no field")]);
    check("'status' = 2", &[("'status' = 2", "without quotes")]);
    check("statsu = 1", &[("statsu", "did you mean `status`?")]);
    check(
        "xyzzy = 1",
        &[("xyzzy", "has no field `xyzzy`: expected method")],
    );
    check(
        "packet_bytes > 1",
        &[("packet_bytes", "`tcp_pkt_size` has it")],
    );
    check(
        "mysql_query.query = 'x'",
        &[("mysql_query.query", "add it: PARSE http, mysql_query")],
    );
    check("htp.url = 'x'", &[("htp.url", "did you mean `http`?")]);
    check("http.ulr = 'x'", &[("http.ulr", "did you mean `url`?")]);
    check("method = GET", &[("GET", "write 'GET'")]);
    check(
        "status = path",
        &[("status = path", "a number is compared with text")],
    );
    check("status = abc", &[("abc", "expected a whole number")]);
    check("status = 1.5", &[("1.5", "expected a whole number")]);
    check("status = -1", &[("-1", "never negative")]);
    check("status = 10ms", &[("10ms", "expected a whole number")]);
    check(
        "status = 99999999999999999999999999",
        &[("99999999999999999999999999", "expected a whole number")],
    );
    check(
        "response_time > 100",
        &[(
            "100",
            "expected a duration such as 100ms or 1.5s; a number needs a unit",
        )],
    );
    check("response_time > 10kB", &[("10kB", "expected a duration")]);
    check(
        "response_time > 0.1ns",
        &[("0.1ns", "the resolution is 1ns")],
    );
    check("response_bytes > 10ms", &[("10ms", "expected a size")]);
    check("ts > 'yesterday'", &[("'yesterday'", "expected a time")]);
    check(
        "client_ip > 10.0.0.1",
        &[(
            "client_ip > 10.0.0.1",
            "cannot be ordered: expected = or !=",
        )],
    );
    check("client_ip = h9", &[("h9", "unknown host `h9`")]);
    check(
        "client_ip = 10.0.0.0/40",
        &[("10.0.0.0/40", "expected an address")],
    );
    check("client_guessed = 1", &[("1", "expected true or false")]);
    check("status like '5%'", &[("status", "`like` needs text")]);
    check("url like a%", &[("a%", "write 'a%'")]);
    check("url like 'a\\'", &[("'a\\'", "ends with `\\`")]);
    check(
        "statsu = 1 or (ulr = 2 and status in (1, x))",
        &[("statsu", "status"), ("ulr", "url"), ("x", "whole number")],
    );
    check(&"(".repeat(1000), &[("(", "nested more than 64 deep")]);
    check_errors(
        "PARSE memcached WHERE checksums = 'x'",
        &[("'x'", "expected `is null`")],
    );
    check_errors(
        "PARSE http, mysql_query WHERE qury = 'x'",
        &[("qury", "did you mean `query`?")],
    );
}

#[test]
fn errors_of_processors() {
    let check = |process: &str, expected: &[(&str, &str)]| {
        check_errors(&format!("PARSE http PROCESS {process}"), expected)
    };
    check("", &[("", "expected a processor")]);
    check("()", &[(")", "expected a processor's name")]);
    check("(top-k", &[("(", "is not closed")]);
    check(
        "(top-k: k)",
        &[("k", "expected an argument such as `k=10`")],
    );
    check("(top-k: k=)", &[(")", "expected a value")]);
    check("(top-k k=3)", &[("k", "`:` between")]);
    check(
        "(top-k: k=3 w=1s)",
        &[("w", "`,` before the next argument")],
    );
    check("top-k: k=3", &[("top-k: k=3", "write `(top-k: k=3)`")]);
    check(
        "(tpo-k: k=3)",
        &[("tpo", "unknown processor `tpo`"), ("k", "")],
    );
    check("grop", &[("grop", "did you mean `group`?")]);
    check(
        "group-mean-median",
        &[("mean", "`avg`"), ("median", "`quantile`")],
    );
    check("group-group", &[("group", "twice")]);
    check("diff--group", &[("", "empty block")]);
    check(
        "(top-k: n=3)",
        &[("n", "unknown argument `n`: expected group")],
    );
    check("(top-k: window=3s)", &[("window", "did you mean `w`?")]);
    check("(top-k: k=3, K=4)", &[("K", "given twice")]);
    check("(top-k: k=0)", &[("0", "a whole number from 1")]);
    check("(top-k: k=ten)", &[("ten", "a whole number from 1")]);
    check("(top-k: k=1,2)", &[("k=1,2", "takes one value")]);
    check("(top-5: k=6)", &[("k", "already sets k")]);
    check(
        "top-99999999999999999999",
        &[("top-99999999999999999999", "a number from 1")],
    );
    check("top-0", &[("top-0", "a number from 1")]);
    check("(count: k=6)", &[("k", "belongs to the block `top-k`")]);
    check(
        "(count: q=0.5)",
        &[("q", "belongs to the block `quantile`")],
    );
    check("(quantile: q=95)", &[("95", "numbers from 0 to 1")]);
    check("(quantile: q=0.5,.5)", &[(".5", "named twice")]);
    check("(sum: group=host)", &[("group", "write `group-sum`")]);
    check(
        "(count: value=status)",
        &[("value", "no block in `count` uses a value")],
    );
    check(
        "(sum: value=url)",
        &[("url", "`sum` cannot use `url`, which is text")],
    );
    check("(sum: value=ts)", &[("ts", "only `min` and `max`")]);
    check("(sum: value=nope)", &[("nope", "has no field `nope`")]);
    check(
        "(diff: value=status)",
        &[("status", "a difference of times")],
    );
    check(
        "(count: key=host)",
        &[("key", "belongs to the block `top-k`")],
    );
    check(
        "(group-count: group=host, key=url)",
        &[("key", "names the groups already")],
    );
    check(
        "(group-distinct: group=url)",
        &[("distinct", "within each `url` there is one `url`")],
    );
    check(
        "(group-count: group=host, HOST)",
        &[("HOST", "repeats `http.host`")],
    );
    check("top-k-sum", &[("top-k", "nothing to rank by")]);
    check(
        "group-hist-top-k",
        &[("top-k", "a distribution cannot be ranked")],
    );
    check("(count: w=10)", &[("10", "write 10s")]);
    check("(count: w=0s)", &[("0s", "expected a duration")]);
    check("(count: w=10s, slide=20s)", &[("20s", "leave gaps")]);
    check("(count: w=10s, slide=3s)", &[("3s", "line up")]);
    check("(count: w=10s, slide=1ms)", &[("1ms", "at most 1000")]);
    check(
        "(count: slide=1s, lateness=2s)",
        &[
            ("slide", "without a window"),
            ("lateness", "without a window"),
        ],
    );
    check(
        "(count: w=1s, lateness=-1s)",
        &[("-1s", "expected a duration")],
    );
    check_errors(
        "PARSE tcp_flow_key PROCESS diff",
        &[("diff", "records two times")],
    );
    check_errors(
        "PARSE tcp_flow_key PROCESS group",
        &[(
            "group",
            "`group` needs `group=`: name the columns, as in group=src_ip",
        )],
    );
    check_errors(
        "PARSE tcp_flow_key PROCESS top-k",
        &[("top-k", "needs `key=`")],
    );
    check_errors(
        "PARSE tcp_flow_key PROCESS sum",
        &[("sum", "`sum` needs `value=`")],
    );
    check_errors(
        "PARSE tcp_flow_key PROCESS distinct",
        &[("distinct", "`distinct` needs `value=`")],
    );
    check_errors(
        "PARSE tcp_flow_key PROCESS success",
        &[("success", "those are tcp_conn_time, http,")],
    );
}

#[test]
fn all_errors_at_once_and_none_that_only_follows() {
    check_errors(
        "PARSE htp_get FROM h9 TO 10.0.0.1:x WHERE url = GET LIMIT 90 SAMPLE 2 PROCESS (top-k: k=x), (diff-grop), (sum)",
        &[
            ("htp_get", "did you mean `http_get`?"),
            ("h9", "unknown host"),
            ("10.0.0.1:x", "is not a port"),
            ("90", "write 90s, 90p or 90 rows"),
            ("2", "1/2"),
            ("x", "a whole number"),
            ("grop", "`group`"),
        ],
    );
    check_errors(
        "PARSE http, http LIMIT 1s, 2s, 1p, 0p",
        &[
            ("http", "named twice"),
            ("2s", "second limit"),
            ("0p", "is not a number"),
        ],
    );
    check_errors(
        "PARSE http, nfss, kafka WHERE x = 1",
        &[("nfss", "expected tcp_flow_key"), ("kafka", "")],
    );
}

#[test]
fn fields_called_otherwise_are_known() {
    for (field, meant) in [
        ("response_size", "did you mean `response_bytes`?"),
        ("latency", "did you mean `response_time_ns`?"),
        ("statusCode", "did you mean `status`?"),
    ] {
        check_errors(&format!("PARSE http WHERE {field} > 1"), &[(field, meant)]);
    }
}

#[test]
fn errors_have_the_designed_form() {
    let text = "PARSE htp_get FROM * TO h1:80";
    let errors = crate::check(text, &schemas(), &hosts()).expect_err("a misspelt parser");
    let expected = "error: unknown parser `htp_get`\n  PARSE htp_get FROM * TO h1:80\n        ^^^^^^^ did you mean `http_get`?\n";
    assert_eq!(crate::render(&errors, text), expected);
}

/// Habits of other tools have hints.
#[test]
fn habits_of_other_tools() {
    for (text, place, hint) in [
        (
            "PARSE http WHERE ip.src = 10.0.0.1",
            "ip.src",
            "`client_ip`?",
        ),
        (
            "PARSE http WHERE http.request.method = 'GET'",
            "http.request.method",
            "`method`?",
        ),
        (
            "PARSE http WHERE http.time > 1s",
            "http.time",
            "`response_time_ns`?",
        ),
        ("PARSE http WHERE src = 10.0.0.1", "src", "`client_ip`?"),
        (
            "PARSE http PROCESS (group-count: url)",
            "url",
            "`group=url`?",
        ),
        ("PARSE http WHERE response_bytes > 1 kB", "kB", "`1kB`"),
        ("PARSE http PROCESS (hitratio)", "hitratio", "`ratio`?"),
    ] {
        check_errors(text, &[(place, hint)]);
    }
}
