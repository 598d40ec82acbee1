//! Queries of the past: a query with SINCE, answered from data stored by jobs. If the tuples of a job cover the query,
//! an engine processes them; otherwise, if a job has exactly these results, its rows are returned; otherwise the error
//! states which data is missing and how to store it in the future.
//!
//! All data of the period is available, so no tuple within the allowed lateness is late for its window.

mod compare;
mod coverage;
mod data_gaps;
mod past_queries;
mod read;
mod rows;
mod sources;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use query::CheckedQuery;
use tuple::{Batch, FieldId, Schema};

use crate::job::JobId;
use crate::job::columns;
use crate::jobs::permissions::may_ask;
use crate::store::access::ClientAccess;
use crate::store::service_error::ServiceError;
use crate::store::sqlite::{KeptResult, now_ns};
pub(crate) use coverage::Period;
use coverage::named;
pub(crate) use past_queries::PastQueries;
use sources::{PastSource, SourceQuery};

/// A query of the past.
#[derive(Clone, Debug)]
pub struct PastQuery {
    /// The query, with SINCE.
    pub query: String,
    /// Labels by which the job selects its agents.
    pub on: BTreeMap<String, String>,
    /// Confidence level of differences, with BASELINE.
    pub confidence: f64,
    /// Maximum rows per result.
    pub rows_max: usize,
}

/// Answer to a query of the past.
#[derive(Debug)]
pub struct PastResponse {
    /// Results, by processor.
    pub results: Vec<PastTable>,
    /// From which job; none: from a recording, or from a job that the asker may not know of.
    pub job: Option<JobId>,
    /// Source recording; none: a job.
    pub recording: Option<String>,
    /// Kind of the source.
    pub from: AnswerOrigin,
    /// Period, with exclusive end; none: no data.
    pub period: Option<(i64, i64)>,
    /// Baseline, with exclusive end.
    pub baseline: Option<(i64, i64)>,
    /// Number of tuples read.
    pub tuples: u64,
    /// Notes on the answer.
    pub notes: Vec<String>,
}

/// Kind of data from which an answer was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[schema(as = Origin)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOrigin {
    /// Stored tuples.
    Tuples,
    /// Stored rows of the same query.
    Rows,
    /// A capture or recording.
    Recording,
}

/// One result of an answer.
#[derive(Debug)]
pub struct PastTable {
    /// Columns.
    pub result: KeptResult,
    /// Schema of the columns.
    pub schema: Arc<Schema>,
    /// Rows.
    pub batches: Vec<Batch>,
    /// Number of omitted rows.
    pub left_out: u64,
}

impl PastTable {
    /// A computed result with columns of `schema`; rows with the agents that they lack.
    pub(crate) fn made(
        place: usize,
        processor: Option<String>,
        keys: usize,
        (schema, columns): (&Schema, &[FieldId]),
        rows: &[(Batch, Vec<String>)],
    ) -> Option<PastTable> {
        let heads = columns::heads(schema, columns);
        let table = processor.clone().unwrap_or_else(|| schema.name.to_string());
        let shown = columns::schema(&table, &heads)?;
        let as_shown = |(batch, missing): &(Batch, Vec<String>)| {
            columns::as_kept(batch, columns, &shown, missing)
        };
        let batches: Vec<Batch> = rows.iter().map(as_shown).collect::<Option<_>>()?;
        let rows: usize = batches.iter().map(Batch::rows).sum();
        let result = KeptResult {
            place,
            processor,
            table,
            columns: heads,
            keys,
            next_row: rows as i64,
            rows_dropped: 0,
        };
        Some(PastTable {
            result,
            schema: shown,
            batches,
            left_out: 0,
        })
    }
}

/// Deadline of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryDeadline(Instant);

impl QueryDeadline {
    fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

impl PastQueries {
    /// Answers a query of the past.
    pub(crate) fn ask(
        &self,
        who: &ClientAccess,
        asked: &PastQuery,
    ) -> Result<PastResponse, ServiceError> {
        let limits = self.limits;
        let deadline = QueryDeadline(Instant::now() + limits.time);
        let query = self
            .jobs
            .queries
            .check(&asked.query)
            .map_err(ServiceError::Query)?;
        let (own, baseline) = periods(&query, now_ns())?;
        may_ask(who, &planner::lower(&query))?;
        let wanted = SourceQuery {
            query: &query,
            own,
            baseline,
            on: &asked.on,
            now_ns: now_ns(),
        };
        let mut answer = match self.source(who, &wanted)? {
            PastSource::Tuples(kept) if baseline.is_some() => {
                compare::compare(self, &kept, &wanted, (asked, deadline))?
            }
            PastSource::Tuples(kept) => read::answer(self, &kept, &wanted, (asked, deadline))?,
            PastSource::Rows(job, results) => rows::answer(self, &job, results, &wanted, asked)?,
        };
        for one in &answer.results {
            if one.left_out > 0 {
                let most = asked.rows_max;
                answer.notes.push(format!(
                    "{} rows more than {most} of {} are omitted: choose a shorter time, or select rows (HAVING, LIMIT n ROWS)",
                    one.left_out, one.result.table
                ));
            }
            self.hub.meters.query_rows_left_out.add(one.left_out);
        }
        Ok(answer)
    }
}

/// Period and baseline of the query; relative times count back from now.
fn periods(query: &CheckedQuery, now_ns: i64) -> Result<(Period, Option<Period>), ServiceError> {
    if query.period.since.is_none() {
        return Err(ServiceError::Wrong(
            "a query of stored data needs a time: add SINCE, as in SINCE 2h; for new data, start a job"
                .into(),
        ));
    }
    if query.limit.packets.is_some() {
        return Err(ServiceError::Wrong(
            "LIMIT counts packets, which are not stored: limit the time, as in SINCE 2h UNTIL 1h"
                .into(),
        ));
    }
    let settled = query.period.settle(now_ns);
    let own = (
        settled.since_ns.unwrap_or(i64::MIN),
        settled.until_ns.unwrap_or(now_ns.saturating_add(1)),
    );
    let bounds = plan::TimeBounds {
        since_ns: Some(own.0),
        until_ns: Some(own.1),
    };
    let baseline = query.baseline.map(|baseline| {
        let bounds = baseline.settle(bounds, now_ns);
        (
            bounds.since_ns.unwrap_or(i64::MIN),
            bounds.until_ns.unwrap_or(own.0),
        )
    });
    for (name, period) in [("SINCE and UNTIL", Some(own)), ("BASELINE", baseline)] {
        if period.is_some_and(|(since, until)| since >= until) {
            return Err(ServiceError::Wrong(format!(
                "the period of {name} is empty: it ends before it starts; relative times count back from now"
            )));
        }
    }
    Ok((own, baseline))
}
