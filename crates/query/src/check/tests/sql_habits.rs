//! Statements as users of other databases type them: each is accepted, or has one message with the query to write.

use super::sql::{difference, not_refused};
use super::{hosts, schemas};

#[test]
fn habits_that_work() {
    let statements = [
        (
            "SELECT url, count(*) FROM http WHERE status >= 500 GROUP BY url ORDER BY count(*) DESC LIMIT 5;",
            "PARSE http WHERE status >= 500 PROCESS (group-count: group=url) ORDER BY count DESC LIMIT 5 ROWS",
        ),
        (
            "select url, count(*) as n, avg(response_time) from http group by url having n > 10 order by n desc limit 5",
            "PARSE http PROCESS (group-aggregate: group=url, columns=count(*) AS n, avg(response_time)) \
             HAVING n > 10 ORDER BY n DESC LIMIT 5 ROWS",
        ),
        (
            "SELECT url, COUNT(*) n FROM http GROUP BY url ORDER BY 2 DESC LIMIT 5",
            "PARSE http PROCESS (group-aggregate: group=url, columns=count(*) AS n) ORDER BY n DESC LIMIT 5 ROWS",
        ),
        (
            "SELECT DISTINCT host FROM http",
            "PARSE http PROCESS (group-count: group=host)",
        ),
        (
            "SELECT host FROM http GROUP BY host",
            "PARSE http PROCESS (group-count: group=host)",
        ),
        (
            "SELECT * FROM http WHERE response_time BETWEEN 100ms AND 1s AND status NOT BETWEEN 200 AND 399 LIMIT 10",
            "PARSE http WHERE response_time >= 100ms and response_time <= 1s and not (status >= 200 and status <= 399) LIMIT 10 ROWS",
        ),
        (
            "SELECT method, SUM(CASE WHEN status >= 500 THEN 1 ELSE 0 END) AS errors, COUNT(*) FROM http GROUP BY method",
            "PARSE http PROCESS (group-aggregate: group=method, columns=sum(if(status >= 500, 1, 0)) AS errors, count(*))",
        ),
        (
            "SELECT CASE status WHEN 200 THEN 'fine' WHEN 404 THEN 'missing' END AS word, count(*) FROM http GROUP BY word",
            "PARSE http PROCESS (group-count: group=if(status = 200, 'fine', if(status = 404, 'missing', null)) AS word)",
        ),
        (
            "SELECT host, COUNT(*) FILTER (WHERE status >= 500) AS errors FROM http GROUP BY host",
            "PARSE http PROCESS (group-aggregate: group=host, columns=count(if(status >= 500, 1, null)) AS errors)",
        ),
        (
            "SELECT COUNT(status) AS answered, COUNT(1) FROM http",
            "PARSE http PROCESS (aggregate: columns=sum(if(status is null, 0, 1)) AS answered, count(*))",
        ),
        (
            "SELECT COUNT(DISTINCT client_ip) AS clients FROM http",
            "PARSE http PROCESS (aggregate: columns=distinct(client_ip) AS clients)",
        ),
        (
            "SELECT client_ip, SUM(response_bytes) AS bytes FROM http GROUP BY client_ip HAVING SUM(response_bytes) > 1000000 ORDER BY bytes DESC",
            "PARSE http PROCESS (group-aggregate: group=client_ip, columns=sum(response_bytes) AS bytes) HAVING bytes > 1MB ORDER BY bytes DESC",
        ),
        (
            "SELECT \"url\", \"status\" AS \"code\" FROM \"http\" WHERE \"status\" = 500 AND method = \"GET\"",
            "PARSE http SELECT url, status AS code WHERE status = 500 and method = 'GET'",
        ),
        (
            "SELECT \"url\", count(*) AS \"n\" FROM http GROUP BY \"url\" ORDER BY \"n\" DESC",
            "PARSE http PROCESS (group-aggregate: group=url, columns=count(*) AS n) ORDER BY n DESC",
        ),
        (
            "SELECT h.url, h.status FROM http h WHERE h.status >= 500",
            "PARSE http SELECT url, status WHERE status >= 500",
        ),
        (
            "SELECT url, response_time AS t FROM http ORDER BY t DESC LIMIT 3",
            "PARSE http SELECT url, response_time AS t ORDER BY response_time DESC LIMIT 3 ROWS",
        ),
        (
            "SELECT url, response_time FROM http ORDER BY 2 DESC LIMIT 3",
            "PARSE http SELECT url, response_time ORDER BY response_time DESC LIMIT 3 ROWS",
        ),
        (
            "SELECT c.flag, count(*) AS n FROM tcp_conn_time AS c INNER JOIN http h ON c.id = h.id GROUP BY c.flag",
            "PARSE tcp_conn_time, http PROCESS (group-aggregate: group=flag, columns=count(*) AS n)",
        ),
        (
            "SELECT count(*) FROM http WHERE server_ip = '10.0.0.2' AND server_port = 80",
            "PARSE http WHERE server_ip = 10.0.0.2 and server_port = 80 PROCESS (count)",
        ),
        (
            "SELECT count(*) FROM http WHERE (client = '10.0.0.1' OR client = 10.0.0.2) AND server = h1:80",
            "PARSE http FROM 10.0.0.1, 10.0.0.2 TO h1:80 PROCESS (count)",
        ),
        (
            "SELECT url FROM http WHERE url LIKE '/a\\_b%' ESCAPE '\\' AND method <> 'GET'",
            "PARSE http SELECT url WHERE url like '/a\\_b%' and method != 'GET'",
        ),
        (
            "SELECT url FROM http WHERE response_time > INTERVAL '5 milliseconds' AND response_time < INTERVAL 2 SECOND",
            "PARSE http SELECT url WHERE response_time > 5ms and response_time < 2s",
        ),
        (
            "SELECT url, response_bytes / 1000 AS kb, response_time * 2 FROM http -- sizes\nWHERE url ILIKE '%A%'; /* the end */",
            "PARSE http SELECT url, response_bytes / 1000 AS kb, response_time * 2 WHERE url ilike '%A%'",
        ),
        (
            "SELECT /* all */ COUNT(DISTINCT(url)) FROM http",
            "PARSE http PROCESS (distinct: value=url)",
        ),
        (
            "SELECT status FROM http WHERE server_ip = fe80::beef AND client_ip IN (2001:db8::/32)",
            "PARSE http SELECT status WHERE server_ip = fe80::beef and client_ip in (2001:db8::/32)",
        ),
    ];
    let found = statements.map(|(sql, parse)| difference(sql, parse).unwrap_or_default());
    assert_eq!(found.concat(), "");
}

/// Statements, each with the place of its message, words of the message, and the statement that follows the hint.
const LEADING: &[[&str; 4]] = &[
    [
        "SELECT url, PERCENTILE_CONT(0.99) WITHIN GROUP (ORDER BY response_time) FROM http GROUP BY url",
        "PERCENTILE_CONT",
        "quantile(response_time, 0.99)",
        "SELECT url, quantile(response_time, 0.99) FROM http GROUP BY url",
    ],
    [
        "SELECT date_trunc('minute', ts) AS minute, count(*) FROM http GROUP BY 1",
        "date_trunc",
        "trunc(ts, 1m)",
        "SELECT trunc(ts, 1m) AS minute, count(*) FROM http GROUP BY 1",
    ],
    [
        "SELECT count(*) FROM http GROUP BY window(10s)",
        "window",
        "WINDOW 1m",
        "SELECT count(*) FROM http WINDOW 1m",
    ],
    [
        "SELECT extract(hour FROM ts) AS h, count(*) FROM http GROUP BY h",
        "FROM",
        "trunc(ts, 1h)",
        "SELECT trunc(ts, 1h) AS h, count(*) FROM http GROUP BY h",
    ],
    [
        "SELECT * FROM http WHERE ts > now() - interval '5 minutes' AND status = 500",
        "ts > now() - interval '5 minutes'",
        "write the clause SINCE 5m",
        "SELECT * FROM http WHERE status = 500 SINCE 5m",
    ],
    [
        "SELECT * FROM http WHERE ts >= NOW() - INTERVAL 5 MINUTE",
        "ts >= NOW() - INTERVAL 5 MINUTE",
        "write the clause SINCE 5m",
        "SELECT * FROM http SINCE 5m",
    ],
    [
        "SELECT * FROM http WHERE ts < current_timestamp - INTERVAL '1' DAY",
        "ts < current_timestamp - INTERVAL '1' DAY",
        "write the clause UNTIL 1d",
        "SELECT * FROM http UNTIL 1d",
    ],
    [
        "SELECT * FROM http WHERE ts > now() - 1h",
        "ts > now() - 1h",
        "write the clause SINCE 1h",
        "SELECT * FROM http SINCE 1h",
    ],
    [
        "SELECT * FROM http WHERE ts > now()",
        "now",
        "SINCE 1h",
        "SELECT * FROM http SINCE 1h",
    ],
    [
        "SELECT * FROM http WHERE response_time > interval '1 hour 30 minutes'",
        "interval '1 hour 30 minutes'",
        "90m",
        "SELECT * FROM http WHERE response_time > 90m",
    ],
    [
        "SELECT url FROM http WHERE status = 500 LIMIT 10 OFFSET 20",
        "OFFSET",
        "omit OFFSET",
        "SELECT url FROM http WHERE status = 500 LIMIT 10",
    ],
    [
        "SELECT url, count(*) FROM http GROUP BY url LIMIT 20, 10",
        "10",
        "LIMIT 20",
        "SELECT url, count(*) FROM http GROUP BY url LIMIT 20",
    ],
    [
        "SELECT url, count(*) OVER () FROM http GROUP BY url",
        "OVER",
        "share()",
        "SELECT url, share() FROM http GROUP BY url",
    ],
    [
        "SELECT url, response_bytes / 1000 AS kb FROM http WHERE kb > 5",
        "kb",
        "response_bytes / 1000",
        "SELECT url, response_bytes / 1000 AS kb FROM http WHERE response_bytes / 1000 > 5",
    ],
    [
        "SELECT url, count(*) AS n FROM http WHERE n > 5 GROUP BY url",
        "n",
        "HAVING",
        "SELECT url, count(*) AS n FROM http GROUP BY url HAVING n > 5",
    ],
    [
        "SELECT url, count(*) FROM http WHERE count(*) > 5 GROUP BY url",
        "count(*)",
        "HAVING count(*) > 5",
        "SELECT url, count(*) FROM http GROUP BY url HAVING count(*) > 5",
    ],
    [
        "SELECT count FROM http",
        "count",
        "count(*)",
        "SELECT count(*) FROM http",
    ],
    [
        "SELECT url, count(*) FROM http",
        "url",
        "GROUP BY url",
        "SELECT url, count(*) FROM http GROUP BY url",
    ],
    [
        "SELECT url, method, count(*) FROM http GROUP BY url",
        "method",
        "GROUP BY url, method",
        "SELECT url, method, count(*) FROM http GROUP BY url, method",
    ],
    [
        "SELECT host, string_agg(url, ',') FROM http GROUP BY host",
        "string_agg",
        "GROUP BY",
        "SELECT host, url FROM http GROUP BY host, url",
    ],
    [
        "SELECT sum(response_bytes) / count(*) FROM http",
        "sum(response_bytes) / count(*)",
        "avg(response_bytes)",
        "SELECT avg(response_bytes) FROM http",
    ],
    [
        "SELECT url, round(sum(response_bytes) * 1.0 / nullif(count(*), 0), 2) AS mean FROM http GROUP BY url ORDER BY mean",
        "round(sum(response_bytes) * 1.0 / nullif(count(*), 0), 2)",
        "avg(response_bytes)",
        "SELECT url, avg(response_bytes) AS mean FROM http GROUP BY url ORDER BY mean",
    ],
    [
        "SELECT host, 100.0*count(*) FILTER (WHERE status >= 500)/count(*) AS pct FROM http GROUP BY host HAVING pct > 1",
        "100.0*count(*) FILTER (WHERE status >= 500)/count(*)",
        "ratio(status >= 500)",
        "SELECT host, ratio(status >= 500) AS pct FROM http GROUP BY host HAVING pct > 1%",
    ],
    [
        "SELECT sum(CASE WHEN status >= 500 THEN 1 ELSE 0 END) * 100.0 / count(*) FROM http",
        "sum(CASE WHEN status >= 500 THEN 1 ELSE 0 END) * 100.0 / count(*)",
        "ratio(status >= 500)",
        "SELECT ratio(status >= 500) FROM http",
    ],
    [
        "SELECT max(response_time) - min(response_time) AS spread FROM http ORDER BY spread",
        "max(response_time) - min(response_time)",
        "max(response_time), min(response_time)",
        "SELECT max(response_time), min(response_time) FROM http ORDER BY max(response_time) - min(response_time)",
    ],
    [
        "SELECT quantile(0.99, response_time) FROM http",
        "0.99, response_time",
        "quantile(response_time, 0.99)",
        "SELECT quantile(response_time, 0.99) FROM http",
    ],
    [
        "SELECT status::int FROM http",
        "status::int",
        "status",
        "SELECT status FROM http",
    ],
    [
        "SELECT url FROM http WHERE status::text = '500' AND method = 'GET'",
        "status::text",
        "status",
        "SELECT url FROM http WHERE status = '500' AND method = 'GET'",
    ],
    [
        "SELECT (response_time / 1ms)::double precision AS ms FROM http",
        "(response_time / 1ms)::double precision",
        "(response_time / 1ms) * 1.0",
        "SELECT (response_time / 1ms) * 1.0 AS ms FROM http",
    ],
    [
        "SELECT response_bytes::numeric(10, 2) / 1024 FROM http",
        "response_bytes::numeric(10, 2)",
        "response_bytes * 1.0",
        "SELECT response_bytes * 1.0 / 1024 FROM http",
    ],
    [
        "SELECT ts::date AS day, count(*) FROM http GROUP BY day",
        "ts::date",
        "trunc(ts, 1d)",
        "SELECT trunc(ts, 1d) AS day, count(*) FROM http GROUP BY day",
    ],
    [
        "SELECT url FROM http WHERE response_time > '5 minutes'::interval",
        "'5 minutes'::interval",
        "5m",
        "SELECT url FROM http WHERE response_time > 5m",
    ],
    [
        "SELECT url FROM http WHERE ts > '2026-01-01'::timestamp",
        "'2026-01-01'::timestamp",
        "'2026-01-01'",
        "SELECT url FROM http WHERE ts > '2026-01-01'",
    ],
    [
        "SELECT count(*)::float FROM http",
        "count(*)::float",
        "count(*)",
        "SELECT count(*) FROM http",
    ],
    [
        "SELECT url, CAST(status AS varchar(3)) FROM http",
        "CAST(status AS varchar(3))",
        "status",
        "SELECT url, status FROM http",
    ],
    [
        "SELECT url FROM http WHERE CAST(status AS integer) >= 500",
        "CAST(status AS integer)",
        "status",
        "SELECT url FROM http WHERE status >= 500",
    ],
    [
        "SELECT url FROM http WHERE url LIKE '/a!_b%' ESCAPE '!'",
        "'/a!_b%' ESCAPE '!'",
        "'/a\\_b%'",
        "SELECT url FROM http WHERE url LIKE '/a\\_b%'",
    ],
    [
        "SELECT url FROM http WHERE status IS NOT DISTINCT FROM 500",
        "status IS NOT DISTINCT FROM 500",
        "status = 500",
        "SELECT url FROM http WHERE status = 500",
    ],
    [
        "SELECT url FROM http WHERE status IS DISTINCT FROM 500 AND method = 'GET'",
        "status IS DISTINCT FROM 500",
        "(status is null or status != 500)",
        "SELECT url FROM http WHERE (status is null or status != 500) AND method = 'GET'",
    ],
    [
        "SELECT url FROM http WHERE status IS DISTINCT FROM NULL",
        "status IS DISTINCT FROM NULL",
        "status is not null",
        "SELECT url FROM http WHERE status is not null",
    ],
    [
        "SELECT url FROM http WHERE client_ip LIKE '10.1.%'",
        "client_ip",
        "client_ip in (10.1.0.0/16)",
        "SELECT url FROM http WHERE client_ip in (10.1.0.0/16)",
    ],
    [
        "SELECT url FROM http WHERE url SIMILAR TO '/a.*'",
        "SIMILAR",
        "~ 'pattern'",
        "SELECT url FROM http WHERE url ~ 'pattern'",
    ],
    [
        "SELECT url FROM http WHERE 1 = 1 AND status = 500",
        "1 = 1",
        "omit it",
        "SELECT url FROM http WHERE status = 500",
    ],
    [
        "SELECT method || url FROM http",
        "|",
        "cannot be joined",
        "SELECT method, url FROM http",
    ],
    [
        "SELECT concat(method, url) FROM http",
        "concat",
        "cannot be joined",
        "SELECT method, url FROM http",
    ],
    [
        "SELECT nullif(status, 0) FROM http",
        "nullif",
        "if(status = 0, null, status)",
        "SELECT if(status = 0, null, status) FROM http",
    ],
    [
        "SELECT ifnull(status, 0) AS s FROM http",
        "ifnull",
        "coalesce(status, 0)",
        "SELECT coalesce(status, 0) AS s FROM http",
    ],
    [
        "SELECT url FROM http WHERE url IN (SELECT url FROM http WHERE status = 500)",
        "SELECT",
        "one WHERE",
        "SELECT url FROM http WHERE status = 500",
    ],
    [
        "SELECT url FROM http WHERE EXISTS (SELECT 1 FROM http) AND status = 500",
        "SELECT",
        "one WHERE",
        "SELECT url FROM http WHERE status = 500",
    ],
    [
        "SELECT count(*) FROM (SELECT url FROM http) t",
        "SELECT",
        "two queries",
        "SELECT count(*) FROM http",
    ],
    [
        "SELECT TOP 5 url, count(*) FROM http GROUP BY url",
        "TOP",
        "LIMIT 5",
        "SELECT url, count(*) FROM http GROUP BY url LIMIT 5",
    ],
    [
        "SELECT url, count(*) FROM http GROUP BY url FETCH FIRST 5 ROWS ONLY",
        "FETCH",
        "LIMIT 5",
        "SELECT url, count(*) FROM http GROUP BY url LIMIT 5",
    ],
    [
        "SELECT url FROM http UNION SELECT query FROM mysql_query",
        "UNION",
        "one query each",
        "SELECT url FROM http",
    ],
    [
        "SELECT client_ip FROM http WHERE client = '10.0.0.1' OR server = '10.0.0.2'",
        "client",
        "client_ip",
        "SELECT client_ip FROM http WHERE client_ip = '10.0.0.1' OR server_ip = '10.0.0.2'",
    ],
    [
        "SELECT client_ip FROM http WHERE server = 10.0.0.2 AND server = *:80",
        "server",
        "server = 10.0.0.2:80",
        "SELECT client_ip FROM http WHERE server = 10.0.0.2:80",
    ],
    [
        "SELECT h.url FROM http h LEFT JOIN tcp_conn_time c ON h.id = c.id",
        "LEFT",
        "JOIN",
        "SELECT h.url FROM http h JOIN tcp_conn_time c ON h.id = c.id",
    ],
    [
        "SELECT h.url FROM http h JOIN tcp_conn_time c ON h.client_port = c.client_port",
        "h.client_port = c.client_port",
        "USING (id)",
        "SELECT h.url FROM http h JOIN tcp_conn_time c USING (id)",
    ],
    ["SHOW TABLES", "SHOW", "netalytics parsers", ""],
    ["DESCRIBE http", "DESCRIBE", "netalytics parsers", ""],
    [
        "EXPLAIN SELECT * FROM http",
        "EXPLAIN",
        "netalytics explain",
        "",
    ],
    [
        "WITH slow AS (SELECT * FROM http) SELECT * FROM slow",
        "WITH",
        "two queries",
        "SELECT * FROM http",
    ],
    [
        "SELECT * FROM http ORDER BY ts",
        "ts",
        "LIMIT 20",
        "SELECT * FROM http ORDER BY ts LIMIT 20",
    ],
    [
        "SELECT * FROM http WHERE host = NULL",
        "NULL",
        "is null",
        "SELECT * FROM http WHERE host is null",
    ],
];

/// The messages of a statement; empty if it is accepted.
fn messages(sql: &str) -> String {
    crate::check(sql, &schemas(), &hosts())
        .map_or_else(|errors| crate::render(&errors, sql), |_| String::new())
}

#[test]
fn habits_that_lead_to_the_query() {
    let mut found = String::new();
    for [sql, place, offered, corrected] in LEADING {
        found += &not_refused(sql, place, &[offered]).unwrap_or_default();
        if corrected.is_empty() {
            continue;
        }
        found += &messages(corrected);
        let message = messages(sql);
        if message.contains(&format!("write {offered}")) && !corrected.contains(offered) {
            found += &format!("{corrected} differs from the hint: {message}");
        }
    }
    assert_eq!(found, "");
}
