//! Statements in SQL: each has the plan of a query that begins with PARSE.

use super::*;
use plan::result::{self, IntervalMode};

use crate::{ParsedText, parse_spelling, sql_spelling};

/// The parts of a plan that determine the result, with the names of its columns: both spellings name processors and
/// computed columns differently.
fn plan_of(query: &CheckedQuery) -> (CheckedQuery, Vec<String>) {
    let names = |pipeline: &Pipeline| {
        let schema = result::schema(pipeline, IntervalMode::None, &|c| query.field(c).clone());
        schema
            .fields
            .into_iter()
            .map(|field| field.name.to_string())
            .collect::<Vec<_>>()
    };
    let selected = query.rows.select.iter().flatten();
    let selected = selected.map(|column| query.field(*column).name.to_string());
    let names = query
        .processors
        .iter()
        .flat_map(names)
        .chain(selected)
        .collect();
    let mut plan = query.clone();
    plan.text.clear();
    let processors = plan.processors.iter_mut();
    let selections = processors.flat_map(|processor| {
        processor.name.clear();
        &mut processor.selection.computed
    });
    for computed in selections.chain(&mut plan.computed) {
        computed.text.clear();
        computed.field.name = "".into();
    }
    (plan, names)
}

/// A statement and its query have equal plans, also after each is printed in the other spelling.
fn same(sql: &str, parse: &str) {
    if let Some(found) = difference(sql, parse) {
        panic!("{found}");
    }
}

/// The difference of the plans of a statement and its query.
pub(super) fn difference(sql: &str, parse: &str) -> Option<String> {
    let check = |text: &str| {
        crate::check(text, &schemas(), &hosts())
            .map(|query| plan_of(&query))
            .map_err(|errors| crate::render(&errors, text))
    };
    let printed = parse_spelling(&ParsedText::new(sql));
    let by_sql = match check(sql) {
        Ok(plan) => plan,
        Err(error) => return Some(error),
    };
    let differs = |text: &str| match check(text) {
        Ok(plan) if plan == by_sql => None,
        Ok(plan) => Some(format!(
            "{sql}\n{:?} {:?} {:?} {:?}\n{text}\n{:?} {:?} {:?} {:?}\n",
            by_sql.1,
            by_sql.0.filter,
            by_sql.0.processors,
            by_sql.0.computed,
            plan.1,
            plan.0.filter,
            plan.0.processors,
            plan.0.computed
        )),
        Err(error) => Some(format!("{sql}\n{error}")),
    };
    differs(parse).or_else(|| differs(&printed))
}

/// The statement that is printed for a query has the same plan; `diff` becomes a condition.
fn round_trip(parse: &str) {
    if let Some(found) = round_trip_difference(parse) {
        panic!("{found}");
    }
}

/// The difference of the plans of a query with one processor and its statement.
pub(super) fn round_trip_difference(parse: &str) -> Option<String> {
    let query = checked(parse);
    let statements = sql_spelling(&ParsedText::new(parse), &query);
    let [Some(sql)] = statements.as_slice() else {
        return Some(format!("{parse}\n{statements:?}"));
    };
    let (mut by_parse, names) = plan_of(&query);
    let (mut by_sql, names_in_sql) = match crate::check(sql, &schemas(), &hosts()) {
        Ok(query) => plan_of(&query),
        Err(errors) => return Some(format!("{parse}\n{}", crate::render(&errors, sql))),
    };
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
    (by_sql != by_parse || names_in_sql != names).then(|| {
        format!(
            "{parse}\n{names:?} {:?} {:?} {:?}\n{sql}\n{names_in_sql:?} {:?} {:?} {:?}\n",
            by_parse.filter,
            by_parse.processors,
            by_parse.computed,
            by_sql.filter,
            by_sql.processors,
            by_sql.computed
        )
    })
}

fn refused(sql: &str, place: &str, words: &[&str]) {
    if let Some(found) = not_refused(sql, place, words) {
        panic!("{found}");
    }
}

/// The difference of a statement's messages to one message at a place.
pub(super) fn not_refused(sql: &str, place: &str, words: &[&str]) -> Option<String> {
    let Err(errors) = crate::check(sql, &schemas(), &hosts()) else {
        return Some(format!("{sql} is accepted"));
    };
    let text = crate::render(&errors, sql);
    let is_it = errors.len() == 1
        && &sql[errors[0].span.range()] == place
        && words.iter().all(|word| text.contains(word));
    (!is_it).then_some(text)
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

/// Nested CASE without parentheses is bounded like parentheses.
#[test]
fn nesting_of_case_is_bounded() {
    let text = format!("SELECT {} FROM http", "case ".repeat(10_000));
    let errors = crate::check(&text, &schemas(), &hosts()).expect_err("too deep");
    assert!(errors[0].message.contains("nested"), "{:?}", errors[0]);
}

/// Double negation is printed as it is written.
#[test]
fn double_negation_keeps_its_text() {
    same(
        "SELECT * FROM http WHERE not (path !~* 'x') and not (host not like 'a%')",
        "PARSE http WHERE path ~* 'x' and host like 'a%'",
    );
    round_trip("PARSE http WHERE not (path !~* 'x')");
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
        "PARSE mysql_query PROCESS (diff-group: group=fingerprint, w=10s) HAVING p99 > 1ms ORDER BY p99_total_time DESC",
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
        &["write GROUP BY url"],
    );
    refused("SELECT *, count(*) FROM http", "*", &["name the columns"]);
    refused(
        "SELECT max(response_bytes) / count(*) FROM http",
        "max(response_bytes) / count(*)",
        &["HAVING and ORDER BY"],
    );
    refused(
        "SELECT count(url, host) FROM http",
        "url",
        &["too many arguments"],
    );
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
        "SELECT count(*) FROM http JOIN http_get ON http.url = http_get.url",
        "http.url = http_get.url",
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
