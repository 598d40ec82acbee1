//! What DuckDB says of a recording of the same tuples, where a query can be said in its SQL: a third opinion, that knows nothing of us.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Map, Value};

use super::questions::{Processor, Question};

type Row = Map<String, Value>;

/// Asks queries of SQL, a JSON list of rows for each.
const ASKING: &str = "
import json, sys, duckdb
for line in sys.stdin:
    rows = duckdb.sql(json.loads(line)).fetchall()
    print(json.dumps([list(row) for row in rows], default=str))
";
/// What is not compared.
const SKIPPED: &str = "'skipped'";

/// Recordings of tables, and a Python that has DuckDB.
pub struct Opinion {
    python: PathBuf,
    recordings: PathBuf,
}

impl Opinion {
    /// `None` where there is no DuckDB, which is said.
    pub fn new(recordings: &Path) -> Option<Opinion> {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let python = testkit::programs::python(tmp, "duckdb", "duckdb==2.0.0")?;
        Some(Opinion { python, recordings: recordings.to_owned() })
    }

    /// How many rows agree, or what does not.
    pub fn compare(&self, question: &Question, expected: &[Row]) -> Result<usize, String> {
        let mut rows = 0;
        for processor in &question.processors {
            let Some(sql) = self.sql(question, processor) else { continue };
            let ours: Vec<&Row> = expected.iter().filter(|row| is_of(row, question, processor)).collect();
            let theirs = self.ask(&sql);
            rows += agree(processor, &ours, &theirs)
                .map_err(|why| format!("{}\n{sql}\n{why}", processor.chain()))?;
        }
        Ok(rows)
    }

    fn ask(&self, sql: &str) -> Vec<Vec<Value>> {
        let mut command = Command::new(&self.python);
        command.args(["-c", ASKING]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Python runs");
        let line = Value::String(sql.to_owned()).to_string() + "\n";
        child.stdin.take().expect("piped").write_all(line.as_bytes()).expect("it reads");
        let said = child.wait_with_output().expect("it ends");
        assert!(said.status.success(), "{sql}");
        serde_json::from_slice(&said.stdout).expect("rows")
    }

    /// The query of one processor: window, groups, rank, aggregates.
    fn sql(&self, question: &Question, of: &Processor) -> Option<String> {
        let can_be_said = question.clauses.is_empty() && !of.diff && of.limit.is_none() && of.given.is_none();
        // Of several values nobody needs a third opinion; addresses are in another order there.
        let has_address = of.group.iter().any(|group| group.ours.ends_with("_ip"));
        let can_be_said = can_be_said && of.values.len() < 2 && !(of.rank.is_some() && has_address);
        let filter: Option<Vec<String>> = question.filter.iter().map(|one| one.sql.clone()).collect();
        let groups: Option<Vec<String>> = of.group.iter().map(|one| one.sql.clone()).collect();
        let (filter, groups) = (filter?, groups?);
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
                    let each = of.quantiles.iter().map(|q| format!("quantile_disc({value}, {q})"));
                    aggregates.extend(each);
                }
                (aggregate, value) => aggregates.push(said(aggregate, value.as_deref(), of)?),
            }
        }
        let having = match of.having.as_deref() {
            None => String::new(),
            Some(having) if having.starts_with("count ") && having.contains(' ') => {
                format!(" WHERE {}", having.replacen("count", &format!("a{}", of.place("count")?), 1))
            }
            Some(_) => return None,
        };
        let conditions: Vec<String> = filter.iter().map(|one| format!("({one})")).collect();
        let conditions = if conditions.is_empty() { "true".into() } else { conditions.join(" AND ") };
        let path = self.recordings.join(&question.parse).join("*/*.parquet");
        let (start, more) = match of.window {
            Some((size, slide)) => (
                format!("epoch_ns(ts_end) // {0} * {0} - i * {0}", u64::from(slide) * 1_000_000),
                format!(" CROSS JOIN range({}) AS r(i)", size / slide),
            ),
            None => ("0".to_owned(), String::new()),
        };
        let list = |of: &[String], name: char| -> String {
            of.iter().enumerate().map(|(place, sql)| format!(", {sql} AS {name}{place}")).collect()
        };
        let names = |n: usize, name: char| (0..n).map(|i| format!(", {name}{i}")).collect::<String>();
        let keys = names(groups.len(), 'k');
        let inner = format!(
            "SELECT *, {start} AS ws{} FROM read_parquet('{}'){more} WHERE {conditions}",
            list(&groups, 'k'),
            path.display()
        );
        let grouped = format!("SELECT ws{keys}{} FROM ({inner}) GROUP BY ws{keys}", list(&aggregates, 'a'));
        let ranked = match of.rank {
            Some(k) => {
                let ties: String = (0..groups.len()).map(|i| format!(", k{i} ASC NULLS FIRST")).collect();
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

/// An aggregate that has one column.
fn said(aggregate: &str, value: Option<&str>, of: &Processor) -> Option<String> {
    let seconds = of.window.map(|(size, _)| f64::from(size) / 1e3);
    Some(match (aggregate, value) {
        ("count", _) => "count(*)".into(),
        ("rate", _) => seconds.map_or(SKIPPED.into(), |seconds| format!("count(*) / {seconds}::DOUBLE")),
        ("share", None) => "count(*)::DOUBLE / sum(count(*)) OVER (PARTITION BY ws)".into(),
        ("ratio", _) => {
            let condition = of.of.as_ref()?.sql.clone()?;
            format!("avg(CASE WHEN {condition} THEN 1.0 WHEN NOT ({condition}) THEN 0.0 END)")
        }
        ("sum" | "avg" | "min" | "max", Some(value)) => format!("{aggregate}({value})"),
        ("stddev", Some(value)) => format!("stddev_samp({value})"),
        ("distinct", Some(value)) => format!("count(DISTINCT {value})"),
        ("throughput", Some(value)) => {
            seconds.map_or(SKIPPED.into(), |seconds| format!("sum({value}) / {seconds}::DOUBLE"))
        }
        _ => SKIPPED.into(),
    })
}

fn is_of(row: &Row, question: &Question, processor: &Processor) -> bool {
    question.processors.len() == 1 || row.get("processor").is_some_and(|name| *name == processor.chain())
}

/// Of a row the window's start, the group, the rank and the aggregates.
fn values(of: &Processor, row: &Row) -> Vec<Value> {
    let alias = |group: &str| group.rsplit(" AS ").next().unwrap_or(group).to_owned();
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
    std::iter::once(start).chain(names.iter().enumerate().map(value)).collect()
}

/// How many rows both have.
fn agree(of: &Processor, ours: &[&Row], theirs: &[Vec<Value>]) -> Result<usize, String> {
    let keys = 1 + of.group.len();
    let key = |values: &[Value]| values[..keys].iter().map(Value::to_string).collect::<Vec<_>>().join(" ");
    let mut table: BTreeMap<String, &[Value]> = theirs.iter().map(|row| (key(row), &row[keys..])).collect();
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
            // Windows without a tuple.
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
    let (Some(a), Some(b)) = (number(ours), number(theirs)) else { return false };
    // Quantiles are read from buckets.
    let by = if of.aggregates.contains(&"quantile") { 1.0 / 128.0 } else { 1e-9 };
    (a - b).abs() <= by * b.abs().max(a.abs())
}
