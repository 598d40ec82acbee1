//! Results of DuckDB over a recording of the same tuples, for queries that its SQL can express: an independent
//! implementation.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use serde_json::{Map, Value};

use super::questions::{Processor, Question};

type Row = Map<String, Value>;

/// Answers each SQL query with a JSON list of rows, or an error message.
const ANSWERING: &str = "
import json, sys, duckdb
for line in sys.stdin:
    try:
        answer = [list(row) for row in duckdb.sql(json.loads(line)).fetchall()]
    except duckdb.Error as error:
        answer = str(error)
    print(json.dumps(answer, default=str), flush=True)
";
/// Marks cells that are not compared.
const SKIPPED: &str = "'skipped'";

/// Recordings of parsers' tuples, with DuckDB.
pub struct Opinion<'a> {
    pub witness: &'a Witness,
    pub recordings: PathBuf,
    /// Columns by recorded parser.
    pub columns: &'a BTreeMap<String, Vec<String>>,
}

/// A Python process with DuckDB, ended on drop.
pub struct Witness(Mutex<Talk>);

struct Talk {
    child: Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Witness {
    /// `None`, with a message, without DuckDB.
    pub fn start() -> Option<Witness> {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let python = testkit::programs::python(tmp, "duckdb", "duckdb==2.0.0")?;
        let mut command = Command::new(python);
        command
            .args(["-c", ANSWERING])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("Python runs");
        let asks = child.stdin.take();
        let answers = child.stdout.take().expect("piped");
        Some(Witness(Mutex::new(Talk {
            child,
            asks,
            answers: BufReader::new(answers),
        })))
    }

    /// Rows of a query.
    fn ask(&self, sql: &str) -> Result<Vec<Vec<Value>>, String> {
        let mut talk = self.0.lock().expect("the previous owner has not panicked");
        writeln!(
            talk.asks.as_mut().expect("still running"),
            "{}",
            Value::from(sql)
        )
        .expect("an event");
        let mut answer = String::new();
        talk.answers.read_line(&mut answer).expect("text");
        serde_json::from_str(&answer).map_err(|_| answer)
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.asks = None;
        let _ = self.child.wait();
    }
}

impl Opinion<'_> {
    /// Number of equal rows, or the difference.
    pub fn compare(&self, question: &Question, expected: &[Row]) -> Result<usize, String> {
        let mut rows = 0;
        for of in &question.processors {
            let Some(sql) = self.sql(question, of) else {
                continue;
            };
            let ours: Vec<&Row> = expected
                .iter()
                .filter(|row| is_of(row, question, of))
                .collect();
            let agreed = self
                .witness
                .ask(&sql)
                .and_then(|theirs| agree(of, &ours, &theirs));
            rows += agreed.map_err(|why| format!("{}\n{sql}\n{why}", of.chain()))?;
        }
        Ok(rows)
    }

    /// Tuples read; those of several parsers joined by flow.
    fn tuples(&self, parse: &str) -> String {
        let file = |parser: &str| {
            let path = self.recordings.join(parser).join(parser).join("*.parquet");
            // Only the ends of connections take part in a join.
            let is_of_ends = parser == "tcp_conn_time" && parse != parser;
            let ends = if is_of_ends {
                " WHERE event = 'end'"
            } else {
                ""
            };
            format!("(SELECT * FROM read_parquet('{}'){ends})", path.display())
        };
        let parsers: Vec<&str> = parse.split(", ").collect();
        let mut names: Vec<&str> = self.columns[parsers[0]]
            .iter()
            .map(String::as_str)
            .collect();
        let mut columns = String::new();
        let mut from = format!("{} AS t0", file(parsers[0]));
        let mut latest = "t0.ts_end".to_owned();
        for (place, parser) in parsers.iter().enumerate().skip(1) {
            for column in &self.columns[*parser] {
                if names.contains(&column.as_str()) {
                    columns.push_str(&format!(", t{place}.\"{column}\" AS \"{parser}.{column}\""))
                } else {
                    names.push(column);
                    columns.push_str(&format!(", t{place}.\"{column}\""));
                }
            }
            from.push_str(&format!(
                " JOIN {} AS t{place} ON t0.id = t{place}.id",
                file(parser)
            ));
            latest = format!("greatest({latest}, t{place}.ts_end)");
        }
        format!("(SELECT t0.* REPLACE ({latest} AS ts_end){columns} FROM {from})")
    }

    /// SQL of one processor: window, groups, rank, aggregates.
    fn sql(&self, question: &Question, of: &Processor) -> Option<String> {
        let can_be_said =
            question.clauses.is_empty() && !of.diff && of.limit.is_none() && of.given.is_none();
        // Operations on several values are not compared; addresses have another order there.
        let has_address = of.group.iter().any(|group| group.ours.ends_with("_ip"));
        // Requests of a file server are recorded in several tables.
        let can_be_said = can_be_said && !["nfs", "rpc"].contains(&question.parse.as_str());
        // With two groups of equal name the second is renamed.
        let names: BTreeSet<String> = of.group.iter().map(|group| alias(&group.ours)).collect();
        let can_be_said = can_be_said
            && names.len() == of.group.len()
            && of.values.len() < 2
            && !(of.rank.is_some() && has_address);
        let filter: Option<Vec<String>> =
            question.filter.iter().map(|one| one.sql.clone()).collect();
        let groups: Option<Vec<String>> = of.group.iter().map(|one| one.sql.clone()).collect();
        let filter = filter?;
        let groups = groups?;
        if !can_be_said {
            return None;
        }
        let value = match of.values.first() {
            Some(value) => Some(value.sql.clone()?),
            None => None,
        };
        let mut aggregates = Vec::new();
        for aggregate in &of.aggregates {
            match (*aggregate, &value) {
                ("quantile", Some(value)) => {
                    let each = of
                        .quantiles
                        .iter()
                        .map(|q| format!("quantile_disc({value}, {q})"));
                    aggregates.extend(each);
                }
                (aggregate, value) => {
                    aggregates.push(said(aggregate, value.as_deref(), of, question.sample)?)
                }
            }
        }
        if of.rank.is_some() && aggregates.last().is_some_and(|last| last == SKIPPED) {
            return None;
        }
        let having = match of.having.as_deref() {
            None => String::new(),
            Some(having) if having.starts_with("count ") && having.contains(' ') => {
                format!(
                    " WHERE {}",
                    having.replacen("count", &format!("a{}", of.place("count")?), 1)
                )
            }
            Some(_) => return None,
        };
        let conditions: Vec<String> = filter.iter().map(|one| format!("({one})")).collect();
        let conditions = if conditions.is_empty() {
            "true".into()
        } else {
            conditions.join(" AND ")
        };
        let (start, more) = match of.window {
            Some((size, slide)) => (
                format!(
                    "epoch_ns(ts_end) // {0} * {0} - i * {0}",
                    u64::from(slide) * 1_000_000
                ),
                format!(" CROSS JOIN range({}) AS r(i)", size / slide),
            ),
            None => ("0".to_owned(), String::new()),
        };
        let list = |of: &[String], name: char| -> String {
            of.iter()
                .enumerate()
                .map(|(place, sql)| format!(", {sql} AS {name}{place}"))
                .collect()
        };
        let names =
            |n: usize, name: char| (0..n).map(|i| format!(", {name}{i}")).collect::<String>();
        let keys = names(groups.len(), 'k');
        let inner = format!(
            "SELECT *, {start} AS ws{} FROM {}{more} WHERE {conditions}",
            list(&groups, 'k'),
            self.tuples(&question.parse)
        );
        let grouped = format!(
            "SELECT ws{keys}{} FROM ({inner}) GROUP BY ws{keys}",
            list(&aggregates, 'a')
        );
        let ranked = match of.rank {
            Some(k) => {
                let ties: String = (0..groups.len())
                    .map(|i| format!(", k{i} ASC NULLS FIRST"))
                    .collect();
                let by = aggregates.len() - 1;
                format!(
                    "SELECT ws{keys}, row_number() OVER (PARTITION BY ws ORDER BY a{by} DESC NULLS LAST{ties}) AS rank{} \
                     FROM ({grouped}) QUALIFY rank <= {k}",
                    names(aggregates.len(), 'a')
                )
            }
            None => grouped,
        };
        Some(format!("SELECT * FROM ({ranked}){having}"))
    }
}

/// An aggregate of one column. Totals of a sample are scaled to all flows.
fn said(
    aggregate: &str,
    value: Option<&str>,
    of: &Processor,
    sample: Option<&str>,
) -> Option<String> {
    let share = sample
        .map(|share| format!(" / {share}::DOUBLE"))
        .unwrap_or_default();
    let whole = |total: String| {
        if share.is_empty() {
            total
        } else {
            format!("round({total}{share})")
        }
    };
    let each_second = |total: String| {
        let seconds = of.window.map(|(size, _)| f64::from(size) / 1e3);
        seconds.map_or(SKIPPED.into(), |seconds| {
            format!("{total}{share} / {seconds}::DOUBLE")
        })
    };
    Some(match (aggregate, value) {
        ("count", _) => whole("count(*)".into()),
        ("rate", _) => each_second("count(*)".into()),
        ("share", None) => "count(*)::DOUBLE / sum(count(*)) OVER (PARTITION BY ws)".into(),
        ("ratio", _) => {
            let condition = of.of.as_ref()?.sql.clone()?;
            format!("avg(CASE WHEN {condition} THEN 1.0 WHEN NOT ({condition}) THEN 0.0 END)")
        }
        ("sum", Some(value)) if value.contains("DOUBLE") => format!("sum({value}){share}"),
        ("sum", Some(value)) => whole(format!("sum({value})")),
        ("avg" | "min" | "max", Some(value)) => format!("{aggregate}({value})"),
        ("stddev", Some(value)) => format!("stddev_samp({value})"),
        ("distinct", Some(value)) => format!("count(DISTINCT {value})"),
        ("throughput", Some(value)) => each_second(format!("sum({value})")),
        _ => SKIPPED.into(),
    })
}

fn is_of(row: &Row, question: &Question, processor: &Processor) -> bool {
    question.processors.len() == 1
        || row
            .get("processor")
            .is_some_and(|name| *name == processor.chain())
}

/// Name of a group's column, without the parser's prefix.
fn alias(group: &str) -> String {
    let name = group.rsplit(" AS ").next().unwrap_or(group);
    name.rsplit('.').next().unwrap_or(name).to_owned()
}

/// Start of the window, group, rank and aggregates of a row.
fn values(of: &Processor, row: &Row) -> Vec<Value> {
    let groups: Vec<String> = of.group.iter().map(|group| alias(&group.ours)).collect();
    let mut names: Vec<String> = groups.clone();
    names.extend(of.rank.map(|_| "rank".to_owned()));
    for aggregate in &of.aggregates {
        match *aggregate {
            "quantile" => names.extend(
                of.quantiles
                    .iter()
                    .map(|q| format!("p{}", (q.parse::<f64>().expect("a number") * 100.0).round())),
            ),
            other => names.push(other.into()),
        }
    }
    let value = |(place, name): (usize, &String)| {
        let with_unit = format!("{name}_");
        let mut others = row.iter().filter(|(column, _)| !groups.contains(column));
        match row.get(name) {
            Some(value) if place < groups.len() || !groups.contains(name) => value.clone(),
            _ => others
                .find(|(column, _)| column.starts_with(&with_unit))
                .map_or(Value::Null, |(_, v)| v.clone()),
        }
    };
    let start = row.get("window_start").cloned().unwrap_or(Value::from(0));
    std::iter::once(start)
        .chain(names.iter().enumerate().map(value))
        .collect()
}

/// Number of rows in both.
fn agree(of: &Processor, ours: &[&Row], theirs: &[Vec<Value>]) -> Result<usize, String> {
    let keys = 1 + of.group.len();
    let key = |values: &[Value]| {
        values[..keys]
            .iter()
            .map(Value::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut table: BTreeMap<String, &[Value]> =
        theirs.iter().map(|row| (key(row), &row[keys..])).collect();
    let mut n = 0;
    for row in ours {
        let values = values(of, row);
        match table.remove(&key(&values)) {
            Some(theirs) => {
                let ours = &values[keys..];
                let is_alike = |(a, b): (&Value, &Value)| is_alike(a, b, of);
                if ours.len() != theirs.len() || !ours.iter().zip(theirs).all(is_alike) {
                    return Err(format!("ours {values:?}\nDuckDB's {theirs:?}"));
                }
                n += 1;
            }
            // Windows without tuples.
            None if of.group.is_empty() => {}
            None => return Err(format!("DuckDB lacks {values:?}")),
        }
    }
    match table.pop_first() {
        Some((key, row)) if !(of.window.is_none() && of.group.is_empty()) => {
            Err(format!("DuckDB has {key}: {row:?} besides"))
        }
        _ => Ok(n),
    }
}

fn is_alike(ours: &Value, theirs: &Value, of: &Processor) -> bool {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
    if theirs == "skipped" || ours == theirs {
        return true;
    }
    let (Some(a), Some(b)) = (number(ours), number(theirs)) else {
        return false;
    };
    // Quantiles come from buckets.
    let by = if of.aggregates.contains(&"quantile") {
        1.0 / 128.0
    } else {
        1e-9
    };
    (a - b).abs() <= by * b.abs().max(a.abs())
}
