//! Statements in SQL: each has the plan of a query that begins with PARSE.

use super::*;
use crate::{ParsedText, parse_spelling, sql_spelling};

/// The parts of a plan that determine the result: both spellings name processors differently.
fn plan_of(query: &CheckedQuery) -> CheckedQuery {
    let mut plan = query.clone();
    plan.text.clear();
    for processor in &mut plan.processors {
        processor.name.clear();
        for computed in &mut processor.selection.computed {
            computed.text.clear();
            computed.field.name = "".into();
        }
    }
    plan
}

/// A statement and its query have equal plans, also after each is printed in the other spelling.
fn same(sql: &str, parse: &str) {
    let parsed = ParsedText::new(sql);
    assert!(parsed.is_sql(), "{sql}");
    let by_sql = checked(sql);
    let by_parse = checked(parse);
    assert!(
        plan_of(&by_sql) == plan_of(&by_parse),
        "{sql}\n{:#?}\n{:#?}",
        by_sql.processors,
        by_parse.processors
    );
    let printed = parse_spelling(&parsed);
    assert!(plan_of(&checked(&printed)) == plan_of(&by_sql), "{printed}");
}

/// The statement that is printed for a query has the same plan; `diff` becomes a condition.
fn round_trip(parse: &str) {
    let parsed = ParsedText::new(parse);
    let query = checked(parse);
    let statements = sql_spelling(&parsed, &query);
    let [Some(sql)] = statements.as_slice() else {
        panic!("{parse}: {statements:?}");
    };
    let mut by_parse = plan_of(&query);
    let mut by_sql = plan_of(&checked(sql));
    let is_required = |processor: &mut Pipeline| std::mem::take(&mut processor.value_required);
    if by_parse.processors.iter_mut().any(is_required) {
        for query in [&mut by_parse, &mut by_sql] {
            query.filter = None;
            query
                .inputs
                .iter_mut()
                .for_each(|input| input.filter = None);
        }
    }
    assert!(
        by_sql == by_parse,
        "{sql}\n{:#?}\n{:#?}",
        by_sql.processors,
        by_parse.processors
    );
}

fn refused(sql: &str, place: &str, words: &[&str]) {
    let errors = crate::check(sql, &schemas(), &hosts()).expect_err(sql);
    let text = crate::render(&errors, sql);
    assert_eq!(errors.len(), 1, "{sql}\n{text}");
    assert_eq!(&sql[errors[0].span.range()], place, "{text}");
    for word in words {
        assert!(text.contains(word), "{word} is missing in {text}");
    }
}

#[test]
fn statements_have_the_plans_of_queries() {
    same(
        "SELECT url, count(*) FROM http WHERE status >= 500 GROUP BY url ORDER BY count DESC LIMIT 5",
        "PARSE http WHERE status >= 500 PROCESS (group-count: group=url) ORDER BY count DESC LIMIT 5 ROWS",
    );
    same(
        "select Count(*) as n from http group by url order by n desc limit 5",
        "PARSE http PROCESS (group-aggregate: group=url, columns=count(*) AS n) ORDER BY n DESC LIMIT 5 ROWS",
    );
    same(
        "SELECT host, avg(response_time), p99(response_time) FROM http GROUP BY 1 WINDOW 10s SLIDE 5s LATENESS 0s",
        "PARSE http PROCESS (group-avg-quantile: group=host, q=0.99, w=10s, slide=5s, lateness=0s)",
    );
    same(
        "SELECT status / 100 AS class, sum(response_bytes) FROM http GROUP BY class HAVING sum(response_bytes) > 1MB ORDER BY status / 100;",
        "PARSE http PROCESS (group-sum: group=status / 100 AS class, value=response_bytes) HAVING sum > 1MB ORDER BY class",
    );
    same(
        "SELECT * FROM http LIMIT 20, 5m",
        "PARSE http LIMIT 20 ROWS, 5m",
    );
    same(
        "SELECT ts, url AS u FROM http WHERE status >= 500 ORDER BY response_time DESC LIMIT 3",
        "PARSE http SELECT ts, url AS u WHERE status >= 500 ORDER BY response_time DESC LIMIT 3 ROWS",
    );
    same(
        "SELECT rank(), url, max(response_time) FROM http GROUP BY url ORDER BY max(response_time) DESC LIMIT 3",
        "PARSE http PROCESS (group-max-top-k: group=url, k=3)",
    );
    same(
        "SELECT count(*) FROM http WHERE server = 10.0.0.2:80 AND client in (10.0.0.0/8, 192.168.1.7) AND status < 400",
        "PARSE http FROM 10.0.0.0/8, 192.168.1.7 TO 10.0.0.2:80 WHERE status < 400 PROCESS (count)",
    );
    same(
        "SELECT url, count(*) FROM tcp_conn_time JOIN http_get USING (id) GROUP BY url",
        "PARSE tcp_conn_time, http_get PROCESS (group-count: group=url)",
    );
    same(
        "SELECT count(distinct url), ratio(status >= 500) AS failed, success(), rate(), share() FROM http",
        "PARSE http PROCESS (distinct-ratio-success-rate-share: key=url, of=(status >= 500) AS failed)",
    );
    same(
        "SELECT median(response_time), quantile(response_time, 0.9), percentile(response_time, 99) FROM http SINCE 2h SAMPLE 0.1",
        "PARSE http SINCE 2h SAMPLE 0.1 PROCESS (quantile: q=0.5, 0.9, 0.99)",
    );
    same(
        "SELECT service_map() FROM http WINDOW 1m",
        "PARSE http PROCESS (service-map: w=1m)",
    );
}

/// Aggregates in HAVING and ORDER BY are computed, too.
#[test]
fn aggregates_need_not_be_selected() {
    same(
        "SELECT url FROM http GROUP BY url HAVING max(response_time) > 1s ORDER BY count(*) DESC LIMIT 5",
        "PARSE http PROCESS (group-max-count: group=url) HAVING max > 1s ORDER BY count DESC LIMIT 5 ROWS",
    );
    same(
        "SELECT url, sum(response_bytes) FROM http GROUP BY url ORDER BY sum(response_bytes) / count(*) DESC",
        "PARSE http PROCESS (group-sum-count: group=url, value=response_bytes) ORDER BY sum / count DESC",
    );
}

#[test]
fn queries_are_printed_as_statements() {
    for query in [
        "PARSE http",
        "PARSE http SELECT ts, url AS u WHERE status >= 500 or status = 404 WHERE response_time > 1s LIMIT 5 ROWS, 10s",
        "PARSE http_get FROM * TO 10.0.0.2:80 LIMIT 90s PROCESS (diff-group: group=url, w=10s)",
        "PARSE http_get FROM 10.0.0.0/8, 10.1.1.1 PROCESS (group-count-success: group=url)",
        "PARSE http PROCESS (group-avg-top-k: group=url, k=3)",
        "PARSE http PROCESS (diff-group-top-k: group=host, by=p99, k=5)",
        "PARSE http PROCESS (group-quantile: group=host, value=response_bytes, response_time, q=0.5, 0.999, 0.12345)",
        "PARSE http PROCESS (group-ratio: group=status / 100 AS class, of=(status >= 500) AS failed, (status = 404), w=1m) HAVING failed > 0.1 ORDER BY failed DESC LIMIT 5 ROWS",
        "PARSE http PROCESS (group-distinct: group=host, value=url)",
        "PARSE http PROCESS (throughput-share: value=response_bytes, w=1s)",
        "PARSE tcp_conn_time, http_get FROM * TO *:80 PROCESS (diff-group: group=get)",
        "PARSE http SINCE 1h BASELINE SINCE 7h UNTIL 1h TAPS client PROCESS (hist)",
        "PARSE http PROCESS (service-map)",
    ] {
        round_trip(query);
    }
    let several = "PARSE http PROCESS (count), (group-count: groups_max=5)";
    let spelled = sql_spelling(&ParsedText::new(several), &checked(several));
    assert_eq!(
        spelled,
        [Some("SELECT count(*) FROM http".to_owned()), None]
    );
}

#[test]
fn errors_of_statements() {
    refused(
        "SELECT url, count(*) FROM http",
        "url",
        &["add it to GROUP BY"],
    );
    refused("SELECT url FROM http GROUP BY url", "url", &["count(*)"]);
    refused("SELECT *, count(*) FROM http", "*", &["name the columns"]);
    refused(
        "SELECT sum(response_bytes) / count(*) FROM http",
        "sum(response_bytes) / count(*)",
        &["HAVING and ORDER BY"],
    );
    refused("SELECT count(url) FROM http", "url", &["is not null"]);
    refused(
        "SELECT avg(url) FROM http",
        "url",
        &["text", "a column of numbers"],
    );
    refused(
        "SELECT averge(url) FROM http",
        "averge",
        &["unknown function"],
    );
    refused("SELECT count(*) FROM htp", "htp", &["did you mean `http`?"]);
    refused("SELECT count(*) WHERE status = 500", "", &["FROM"]);
    refused(
        "SELECT url, count(*) FROM http GROUP BY url LIMIT 5 OFFSET 10",
        "OFFSET",
        &[],
    );
    refused(
        "SELECT rank(), url, count(*) FROM http GROUP BY url",
        "rank()",
        &["ORDER BY count(*) DESC LIMIT 10"],
    );
    refused(
        "SELECT count(*) FROM http JOIN http_get ON http.id = http_get.id",
        "ON",
        &["USING (id)"],
    );
    refused(
        "SELECT quantile(response_time) FROM http",
        "quantile",
        &["from 0 to 1"],
    );
    refused(
        "PARSE http PROCESS (aggregate)",
        "aggregate",
        &["columns=count(*)"],
    );
    refused(
        "PARSE http PROCESS (count-aggregate: columns=max(status))",
        "count",
        &["columns="],
    );
}
