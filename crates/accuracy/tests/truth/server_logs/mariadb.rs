//! MariaDB's slow log with every statement: text, rows sent and changed, and duration.

use accuracy::ObservedTuple;

use super::{Log, check, live, number, text};

/// The server's duration of a statement is within the captured one, except for the time that logging takes.
const IMPRECISE: i64 = 20_000;

struct MariaDb(Vec<Statement>);

struct Statement {
    text: String,
    rows: i128,
    affected: i128,
    took: i64,
    taken: bool,
}

impl MariaDb {
    fn read(log: &str) -> MariaDb {
        let mut all = Vec::new();
        let mut rows = 0;
        let mut affected = 0;
        let mut took = 0;
        let mut statement = String::new();
        for line in log.lines() {
            let after = |name: &str| {
                line.split(name)
                    .nth(1)
                    .and_then(|rest| rest.split_whitespace().next())
            };
            if let Some(seconds) = after("Query_time: ") {
                took = (seconds.parse::<f64>().expect("seconds") * 1e9) as i64;
                rows = after("Rows_sent: ").map_or(0, |n| n.parse().expect("rows"));
            } else if let Some(n) = after("Rows_affected: ") {
                affected = n.parse().expect("rows");
            } else if !(line.starts_with('#')
                || line.starts_with("SET timestamp=")
                || line.starts_with("use `"))
            {
                statement.push_str(line);
                match statement.strip_suffix(';') {
                    Some(text) => {
                        let text = text.to_owned();
                        all.push(Statement {
                            text,
                            rows,
                            affected,
                            took,
                            taken: false,
                        });
                        statement.clear();
                    }
                    None => statement.push('\n'),
                }
            }
        }
        MariaDb(all)
    }
}

impl Log for MariaDb {
    fn take(&mut self, pair: &ObservedTuple, tolerance: i64) -> Result<(), String> {
        let Some(query) = text(pair, "query").filter(|_| text(pair, "command") == Some("query"))
        else {
            return Ok(());
        };
        let of_it = |s: &&mut Statement| s.text == query.trim_end() && !s.taken;
        let right = |s: &&mut Statement| {
            let slow_enough = pair
                .response_time
                .is_none_or(|t| t + IMPRECISE + tolerance >= s.took);
            number(pair, "rows").is_none_or(|rows| rows == s.rows)
                && number(pair, "affected_rows").is_none_or(|rows| rows == s.affected)
                && slow_enough
        };
        // The slowest matching entry; the others remain for faster statements.
        let can_be = self.0.iter_mut().filter(of_it).filter(right);
        let statement = can_be
            .max_by_key(|s| s.took)
            .ok_or("no such statement had that result")?;
        statement.taken = true;
        Ok(())
    }

    fn left(&self) -> usize {
        self.0
            .iter()
            .filter(|statement| !statement.taken && !statement.text.starts_with("# administrator"))
            .count()
    }
}

#[test]
fn sysbench() {
    let Some((capture, log)) = live(
        "mysql_sysbench_text.pcap",
        "mysql_sysbench_text.mariadb-slow.log",
    ) else {
        return;
    };
    check(&capture, "mysql_query", 10, || MariaDb::read(&log));
}
