//! Statements as users of other databases type them: each is accepted, or has one message with the query to write.

use super::sql::{difference, not_refused};

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
    ];
    let found = statements.map(|(sql, parse)| difference(sql, parse).unwrap_or_default());
    assert_eq!(found.concat(), "");
}

#[test]
fn habits_that_lead_to_the_query() {
    let statements = [
        (
            "SELECT url, PERCENTILE_CONT(0.99) WITHIN GROUP (ORDER BY response_time) FROM http GROUP BY url",
            "PERCENTILE_CONT",
            "quantile(response_time, 0.99)",
        ),
        (
            "SELECT date_trunc('minute', ts) AS minute, count(*) FROM http GROUP BY 1",
            "date_trunc",
            "trunc(ts, 1m)",
        ),
        (
            "SELECT * FROM http WHERE ts > now() - interval '1 hour'",
            "interval '1 hour'",
            "SINCE 1h",
        ),
        (
            "SELECT * FROM http WHERE ts > now() - 1h",
            "now",
            "SINCE 1h",
        ),
        (
            "SELECT url FROM http WHERE status = 500 LIMIT 10 OFFSET 20",
            "OFFSET",
            "omit OFFSET",
        ),
        (
            "SELECT url, count(*) FROM http GROUP BY url LIMIT 20, 10",
            "10",
            "one limit of rows",
        ),
        (
            "SELECT url, count(*) OVER () FROM http GROUP BY url",
            "OVER",
            "share()",
        ),
        (
            "SELECT sum(response_bytes) / count(*) FROM http",
            "sum(response_bytes) / count(*)",
            "avg(response_bytes)",
        ),
        (
            "SELECT url FROM http WHERE url IN (SELECT url FROM http WHERE status = 500)",
            "SELECT",
            "two queries",
        ),
        (
            "SELECT count(*) FROM (SELECT url FROM http) t",
            "SELECT",
            "two queries",
        ),
        (
            "SELECT TOP 5 url, count(*) FROM http GROUP BY url",
            "TOP",
            "LIMIT 5",
        ),
        (
            "SELECT url, count(*) FROM http GROUP BY url FETCH FIRST 5 ROWS ONLY",
            "FETCH",
            "LIMIT 5",
        ),
        (
            "SELECT url FROM http UNION SELECT query FROM mysql_query",
            "UNION",
            "one query each",
        ),
        (
            "SELECT url, count(*) FROM http WHERE count(*) > 5 GROUP BY url",
            "count(*)",
            "HAVING count(*) > 5",
        ),
        (
            "SELECT client_ip FROM http WHERE client = '10.0.0.1' OR server = '10.0.0.2'",
            "client",
            "client_ip",
        ),
        (
            "SELECT client_ip FROM http WHERE server = 10.0.0.2 AND server = *:80",
            "server",
            "server = 10.0.0.2:80",
        ),
        (
            "SELECT h.url FROM http h LEFT JOIN tcp_conn_time c ON h.id = c.id",
            "LEFT",
            "JOIN",
        ),
        (
            "SELECT h.url FROM http h JOIN tcp_conn_time c ON h.client_port = c.client_port",
            "h.client_port = c.client_port",
            "USING (id)",
        ),
        ("SHOW TABLES", "SHOW", "netalytics parsers"),
        ("DESCRIBE http", "DESCRIBE", "netalytics parsers"),
        (
            "EXPLAIN SELECT * FROM http",
            "EXPLAIN",
            "netalytics explain",
        ),
        (
            "WITH slow AS (SELECT * FROM http) SELECT * FROM slow",
            "WITH",
            "two queries",
        ),
        ("SELECT * FROM http ORDER BY ts", "ts", "LIMIT 20"),
        ("SELECT * FROM http WHERE host = NULL", "NULL", "is null"),
        (
            "SELECT ifnull(status, 0) AS s FROM http",
            "ifnull",
            "coalesce",
        ),
    ];
    let found =
        statements.map(|(sql, place, word)| not_refused(sql, place, &[word]).unwrap_or_default());
    assert_eq!(found.concat(), "");
}
