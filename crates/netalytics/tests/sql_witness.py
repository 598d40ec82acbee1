#!/usr/bin/env python3
"""Statements in SQL, run by netalytics over packets and by SQLite over the exported tuples: the same text, the same rows.

    sql_witness.py NETALYTICS

prints the number of compared statements. Quantiles agree within 1 %, as documented; other fractions to the last digits.
"""
import json, math, os, sqlite3, subprocess, sys

SHOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "captures", "shop", "in.pcap")
# The parsers, each with a condition: a join reads the ends of connections only.
TABLES = {"http": "", "mysql_query": "", "memcached": "", "flow": "", "tcp_conn_time": " WHERE event = 'end'"}
STATEMENTS = [
    "SELECT url, count(*) AS n FROM http WHERE status >= 400 GROUP BY url HAVING n >= 1 ORDER BY n DESC, url LIMIT 5",
    "SELECT host, count(*) AS n, count(status) AS answered, count(*) FILTER (WHERE status >= 400) AS failed FROM http GROUP BY host ORDER BY host",
    "SELECT status / 100 AS class, count(*) n, sum(response_bytes) AS bytes, min(response_time_ns) AS fastest, max(response_time_ns) AS slowest FROM http GROUP BY class ORDER BY class",
    "SELECT method, avg(response_time_ns) AS mean, sum(CASE WHEN status >= 500 THEN 1 ELSE 0 END) AS errors, count(DISTINCT client_ip) AS clients FROM http GROUP BY 1 ORDER BY 1",
    "SELECT DISTINCT method, server_port FROM http ORDER BY method, server_port",
    "SELECT path, response_time_ns FROM http WHERE response_time_ns BETWEEN 100000 AND 20000000 AND path LIKE '/_%' ORDER BY response_time_ns DESC, path LIMIT 17",
    "SELECT h.path, h.status AS code FROM http h WHERE h.status NOT IN (200, 304) AND h.path NOT LIKE '%.css' ORDER BY 2 DESC, ts LIMIT 20",
    "SELECT CASE status WHEN 200 THEN 'fine' WHEN 404 THEN 'missing' END AS word, count(*) AS n FROM http GROUP BY word ORDER BY n DESC, word",
    "SELECT path, sum(response_bytes) AS bytes FROM http GROUP BY path HAVING sum(response_bytes) / count(*) > 100 ORDER BY bytes DESC, path LIMIT 10;",
    "SELECT coalesce(status, 0) AS code, count(*) AS n FROM http WHERE NOT (method = 'GET' AND status = 200) OR status IS NULL GROUP BY code ORDER BY code",
    "SELECT host, p99(response_time_ns) AS slow, median(response_time_ns) AS usual FROM http GROUP BY host ORDER BY host",
    "SELECT count(DISTINCT url) FILTER (WHERE status = 200) AS urls, avg(response_time_ns) FILTER (WHERE method = 'GET') AS mean, count(*) AS n FROM http",
    "SELECT \"error_code\", count(*) AS \"n\" FROM \"mysql_query\" WHERE \"error_code\" IS NOT NULL GROUP BY \"error_code\" ORDER BY \"n\" DESC, 1",
    "select fingerprint, count(*) as n, max(response_time_ns) as slowest from mysql_query where command = 'query' group by fingerprint order by slowest desc limit 10",
    "SELECT hit, count(*) AS n FROM memcached WHERE command LIKE 'get%' GROUP BY hit ORDER BY n DESC",
    "SELECT server_port, sum(client_bytes) AS sent, sum(server_bytes) AS received, count(*) AS flows FROM flow GROUP BY server_port ORDER BY sent DESC, server_port",
    "SELECT c.flag, count(*) AS n, count(DISTINCT h.path) AS paths FROM tcp_conn_time AS c JOIN http AS h ON c.id = h.id GROUP BY c.flag ORDER BY n DESC, 1",
    "SELECT count(*) AS n FROM http WHERE status BETWEEN 600 AND 700",
]


class Quantile:
    """The smallest value below or at which a share `q` of the values lies."""

    q = 0.5

    def __init__(self):
        self.values = []

    def step(self, value):
        if value is not None:
            self.values.append(value)

    def finalize(self):
        return sorted(self.values)[max(0, math.ceil(len(self.values) * self.q) - 1)] if self.values else None


class P99(Quantile):
    q = 0.99


def rows(program, query):
    """Rows of netalytics."""
    output = subprocess.run([program, "query", query, "-r", SHOP, "--format", "jsonl", "-q"], stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def database(program):
    """The tuples of each parser as a table. JSON has text for lists and addresses."""
    base = sqlite3.connect(":memory:")
    base.execute("PRAGMA case_sensitive_like = ON")
    base.create_aggregate("p99", 1, P99)
    base.create_aggregate("median", 1, Quantile)
    for name, condition in TABLES.items():
        tuples = rows(program, f"PARSE {name}{condition}")
        columns = list(dict.fromkeys(column for row in tuples for column in row))
        base.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        cell = lambda value: json.dumps(value) if isinstance(value, (list, dict)) else value
        base.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", [[cell(row.get(column)) for column in columns] for row in tuples])
    return base


def same(column, expected, found):
    """Whether two values are equal; a boolean is a number in SQLite."""
    if isinstance(expected, (int, float)) and isinstance(found, (int, float)):
        return math.isclose(expected, found, rel_tol=0.01 if column in ("slow", "usual") else 1e-9)
    return expected == found


def main(program):
    base = database(program)
    empty = 0
    for statement in STATEMENTS:
        answer = base.execute(statement)
        columns = [column for column, *_ in answer.description]
        expected, found = answer.fetchall(), rows(program, statement)
        empty += not expected
        equal = len(expected) == len(found) and all(same(column, value, row.get(column)) for values, row in zip(expected, found) for column, value in zip(columns, values))
        if not equal:
            sys.exit(f"{statement}\nSQLite has\n{expected}\nnetalytics has\n{found}")
    if empty:
        sys.exit(f"{empty} statements have no rows")
    print(len(STATEMENTS))


if __name__ == "__main__":
    main(sys.argv[1])
