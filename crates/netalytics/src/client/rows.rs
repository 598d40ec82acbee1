//! Rows of a job, read by page and number, each exactly once, even across disconnections and restarts of the server.
//! The server describes the results; additional formatting is derived from the query if this program parses it to the
//! same result.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::anyhow;
use plan::Plan;
use recording::{FileMetadata, TableKind};
use runner::RunResultTable;
use serde_json::Value;
use server::{AGENTS_MISSING, ColumnHead};
use sinks::{EmptyReason, ResultHead};
use tuple::{Batch, FieldId, Schema};

use crate::client::server_client::{ServerClient, ServerRequest, ServerRequestError};

/// Rows per page.
const PAGE: usize = 10_000;

/// A result and the read position.
pub struct JobResultReader {
    /// Description.
    pub head: ResultHead,
    /// Columns of the result, followed by the column of missing agents.
    pub schema: Arc<Schema>,
    table: String,
    path: String,
    /// Number of the last row read.
    after: Option<String>,
}

/// Agents missing in rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowCoverage {
    /// Number of rows that lack agents.
    pub rows: u64,
    /// The missing agents.
    pub agents: BTreeSet<String>,
}

/// Results of a job, not read yet; empty before it has started.
pub fn results(
    remote: &ServerClient,
    job: &str,
    plan: Option<&Plan>,
) -> Result<Vec<JobResultReader>, ServerRequestError> {
    let path = format!("/api/v1/jobs/{job}/results");
    let answer = remote.try_json(&ServerRequest::plain("GET", &path))?;
    let all = answer["results"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate();
    let read = all.map(|(place, of)| {
        let path = format!("/api/v1/jobs/{job}/rows?format=arrow&limit={PAGE}&result={place}");
        served(of, place, path, plan)
            .ok_or_else(|| anyhow!("the server has results of an unknown kind"))
    });
    read.collect::<anyhow::Result<_>>()
        .map_err(ServerRequestError::Refused)
}

/// A result from its API view.
pub fn served(
    of: &Value,
    place: usize,
    path: String,
    plan: Option<&Plan>,
) -> Option<JobResultReader> {
    let columns: Vec<ColumnHead> = serde_json::from_value(of["columns"].clone()).ok()?;
    let table = of["table"].as_str()?.to_owned();
    let mut schema = server::schema(&table, &columns)?;
    let pipeline = plan.and_then(|plan| plan.dataflow.pipelines.get(place));
    let inputs = plan
        .map(|plan| plan.dataflow.inputs.as_slice())
        .unwrap_or_default();
    let processor = of["processor"].as_str().map(str::to_owned);
    if let ([input], None) = (inputs, &processor) {
        let known = &input.schema;
        let same = |id: Option<FieldId>| id.and_then(|id| schema.find(&known.field(id).name));
        let measure = same(known.measure);
        let key = same(known.key);
        schema = Arc::new(Schema {
            measure,
            key,
            facts: known.facts,
            ..(*schema).clone()
        });
    }
    let head = ResultHead {
        processor,
        columns: columns.iter().map(|column| column.name.clone()).collect(),
        keys: usize::try_from(of["keys"].as_u64()?).ok()?,
        slide_ns: pipeline
            .and_then(|pipeline| pipeline.window)
            .map(|window| window.slide_ns),
        empty: if pipeline.is_some_and(|pipeline| pipeline.selection.having.is_some()) {
            EmptyReason::NoneChosen
        } else {
            EmptyReason::NoTuples
        },
        parsers: inputs
            .iter()
            .map(|input| input.schema.name.to_string())
            .collect(),
    };
    Some(JobResultReader {
        head,
        schema,
        table,
        path,
        after: None,
    })
}

impl JobResultReader {
    /// Restricts the rows by further query parameters.
    pub fn with(self, params: &str) -> JobResultReader {
        JobResultReader {
            path: format!("{}{params}", self.path),
            ..self
        }
    }

    /// The next rows, and whether there may be more.
    pub fn next(
        &mut self,
        remote: &ServerClient,
    ) -> Result<(Vec<Batch>, bool), ServerRequestError> {
        let after = self
            .after
            .as_ref()
            .map(|after| format!("&after={after}"))
            .unwrap_or_default();
        let page = remote.try_ask(&ServerRequest::plain(
            "GET",
            &format!("{}{after}", self.path),
        ))?;
        let batches = server::read_arrow(&page.body, &self.schema).map_err(|why| {
            ServerRequestError::Refused(anyhow!("the server's rows cannot be read: {why}"))
        })?;
        self.after = page.last.or_else(|| self.after.take());
        Ok((batches, page.next.is_some()))
    }

    /// Description as a table of a data set.
    pub fn result_table(&self, query: &str) -> RunResultTable {
        let head = FileMetadata {
            parsers: self
                .head
                .parsers
                .iter()
                .map(|parser| (parser.clone(), 1))
                .collect(),
            query: query.to_owned(),
            ..FileMetadata::of(
                &self.table,
                if self.head.processor.is_some() {
                    TableKind::Result
                } else {
                    TableKind::Tuples
                },
            )
        };
        RunResultTable {
            head,
            schema: self.schema.clone(),
            columns: self.schema.ids().collect(),
        }
    }
}

impl RowCoverage {
    /// Notes the missing agents of rows.
    pub fn note(&mut self, batch: &Batch) {
        let Some(id) = batch
            .schema()
            .find(AGENTS_MISSING)
            .filter(|id| batch.column(*id).is_some())
        else {
            return;
        };
        for names in batch.text(id).iter().flatten() {
            self.rows += 1;
            self.agents.extend(names.split(' ').map(str::to_owned));
        }
    }
}

/// Removes the column of missing agents if it has no values, so that tables equal those of local queries.
pub fn without_coverage(batch: &Batch) -> Batch {
    let Some(id) = batch
        .schema()
        .find(AGENTS_MISSING)
        .filter(|id| batch.column(*id).is_some())
    else {
        return batch.clone();
    };
    if batch.text(id).iter().any(|names| names.is_some()) {
        return batch.clone();
    }
    let columns = batch
        .schema()
        .ids()
        .map(|of| batch.column(of).filter(|_| of != id).cloned())
        .collect();
    Batch::new(batch.schema().clone(), batch.rows(), columns)
}

/// Sorts the windows of results as one process would output them: by start, then by result.
pub fn in_order(batches: Vec<(usize, Batch)>) -> Vec<(usize, Batch)> {
    let has_one = batches.windows(2).all(|pair| pair[0].0 == pair[1].0);
    if has_one {
        return batches;
    }
    let mut stretches: Vec<(Option<i64>, usize, Batch)> = Vec::new();
    for (result, batch) in batches {
        let starts = batch
            .schema()
            .find("window_start")
            .map(|id| batch.i64(id).clone());
        let start = |row: usize| starts.as_ref().map(|starts| starts.value(row));
        let mut from = 0;
        for row in 1..=batch.rows() {
            if row == batch.rows() || start(row) != start(from) {
                stretches.push((start(from), result, batch.slice(from, row - from)));
                from = row;
            }
        }
    }
    stretches.sort_by_key(|(start, result, _)| (*start, *result));
    stretches
        .into_iter()
        .map(|(_, result, batch)| (result, batch))
        .collect()
}
