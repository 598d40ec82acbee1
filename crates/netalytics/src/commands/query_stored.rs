//! `netalytics query 'PARSE … SINCE 2h …' --server URL`, also for `compare` and `check`: a server answers from stored
//! data; output is as for a local query.

use std::sync::Arc;

use anyhow::anyhow;
use query::CheckedQuery;
use serde_json::{Value, json};
use sinks::{Sink, WindowPace};
use tuple::{Batch, FieldId, Schema};

use crate::cli::flags::{OutputFormat, QueryFlags, ServerQueryFlags};
use crate::cli::query_text::CommandQuery;
use crate::cli::verbosity::Verbosity;
use crate::client::rows::{JobResultReader, served, without_coverage};
use crate::client::server_client::{ServerClient, ServerRequest, labels};
use crate::process::failure::CommandOutcome;
use crate::process::output;
use crate::render::{comparison_table, hosts};
use crate::run::open_outlets;
use crate::run::result_target::{ResultTarget, SinkContext};

/// Row group size of Parquet files, in bytes.
const ROW_GROUP_BYTES: usize = 8 << 20;

/// Answer from stored data.
pub struct StoredResults {
    /// Results with their rows.
    pub results: Vec<(JobResultReader, Vec<Batch>)>,
    /// Notes on the answer.
    notes: Vec<String>,
    /// Text of the query.
    text: String,
    /// The query as this program understands it.
    checked: Option<CheckedQuery>,
    /// Whether the results are a comparison.
    is_compared: bool,
}

/// Sends the query to a server.
pub fn ask(
    server: &str,
    flags: &ServerQueryFlags,
    query: &CommandQuery,
    confidence: f64,
) -> anyhow::Result<StoredResults> {
    let remote = ServerClient::at(server, flags.token_file.as_deref(), flags.ca.as_deref())?;
    let text = query.text();
    let checked = query.check_for_server(false);
    let is_compared = checked
        .as_ref()
        .is_some_and(|query| query.baseline.is_some());
    let plan = checked.as_ref().map(planner::lower);
    let body = json!({ "query": text, "on": labels(&flags.on, "--on requires LABEL=VALUE")?, "confidence": confidence });
    let path = "/api/v1/query";
    let answer = remote.try_json(&ServerRequest {
        body: Some(&body),
        query: text,
        ..ServerRequest::plain("POST", path)
    })?;
    let results = answer["results"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate();
    let read = |(place, of): (usize, &Value)| {
        let known = served(of, place, String::new(), plan.as_ref())?;
        let rows = server::read_rows(of["rows"].as_array()?, &known.schema)?;
        Some((known, vec![rows]))
    };
    let results: Option<Vec<_>> = results.map(read).collect();
    let notes = answer["notes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let notes = notes.map(str::to_owned).collect();
    let results = results.ok_or_else(|| anyhow!("the server has results of an unknown kind"))?;
    Ok(StoredResults {
        results,
        notes,
        text: text.to_owned(),
        checked,
        is_compared,
    })
}

impl StoredResults {
    /// Prints the notes.
    pub fn mention(&self, telling: Verbosity) {
        if telling != Verbosity::Errors {
            self.notes
                .iter()
                .for_each(|note| output::complain(&format!("note: {note}")));
        }
    }

    /// Prints the answer.
    pub fn print(self, flags: &QueryFlags, telling: Verbosity) -> anyhow::Result<CommandOutcome> {
        if let Some(query) = &self.checked {
            open_outlets::check(&flags.outlets, query)?;
        }
        let mut ready = flags.prepare(&self.text)?;
        flags.start(&mut ready)?;
        self.mention(telling);
        let is_table = flags.format_for(&ready.0) == OutputFormat::Table;
        let mut heads = Vec::new();
        let mut tables = Vec::new();
        let mut rows = Vec::new();
        for (served, batches) in self.results {
            let mut head = served.head.clone();
            let mut table = served.result_table(&self.text);
            let mut batches = batches;
            if is_table && self.is_compared {
                let (schema, first) = comparison_table::shape_of(&served.schema);
                let long = comparison_table::long_schema(&schema, first);
                batches = batches
                    .iter()
                    .map(|batch| {
                        comparison_table::long_rows(first, &long, &first_of(batch, &schema))
                    })
                    .collect();
                head.columns = long
                    .fields
                    .iter()
                    .map(|field| field.name.to_string())
                    .collect();
                head.keys = first;
                table = runner::RunResultTable {
                    schema: long.clone(),
                    columns: long.ids().collect(),
                    ..table
                };
            } else if is_table {
                batches = batches.iter().map(without_coverage).collect();
            }
            heads.push(head);
            tables.push(table);
            rows.push(batches);
        }
        let opened = SinkContext {
            heads,
            tables,
            names: hosts::read(flags.work.text.hosts.as_deref())?,
            pace: WindowPace::Whole,
            row_group_bytes: ROW_GROUP_BYTES,
        };
        let mut sink = flags.open(ready, opened)?;
        match write(sink.as_mut(), &rows) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                return Err(error.into());
            }
            _ => {}
        }
        let lost: Vec<String> = sink
            .delivered()
            .iter()
            .filter_map(open_outlets::complaint)
            .collect();
        lost.iter()
            .for_each(|text| output::complain(&format!("error: {text}")));
        Ok(if lost.is_empty() {
            CommandOutcome::Done
        } else {
            CommandOutcome::Incomplete
        })
    }
}

/// Leading columns of a batch that are in `schema`.
fn first_of(batch: &Batch, schema: &Arc<Schema>) -> Batch {
    let columns = (0..schema.fields.len())
        .map(|at| batch.column(FieldId(at as u16)).cloned())
        .collect();
    Batch::new(schema.clone(), batch.rows(), columns)
}

fn write(sink: &mut dyn Sink, rows: &[Vec<Batch>]) -> std::io::Result<()> {
    for (i, batches) in rows.iter().enumerate() {
        batches
            .iter()
            .filter(|batch| batch.rows() > 0)
            .try_for_each(|batch| sink.write(i, batch))?;
    }
    sink.finish()
}
