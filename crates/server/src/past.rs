//! The past asked: a query with SINCE, answered in the same language from what jobs have kept. Where some job's tuples cover
//! what the query reads, an engine goes over them; else a job that makes exactly these results has them already; else it is
//! said what is missing, and how it can be kept from now on.
//!
//! The past is read when all of it is there: no tuple is late for its window, as late as it may have come.

mod absent;
mod choose;
mod compare;
mod cover;
mod read;
mod rows;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use query::{Diagnostic, Query};
use tuple::{Batch, FieldId, Schema};

use crate::access::Access;
use crate::columns;
use crate::job::JobId;
use crate::service::{Denied, Service, may_ask};
use crate::store::{KeptResult, now_ns};
use choose::{Source, Wanted};
pub(crate) use cover::Period;
use cover::named;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The query, with SINCE.
    pub query: String,
    /// Labels that the agents of the job that kept it were chosen by.
    pub on: BTreeMap<String, String>,
    /// At what level numbers differ, with BASELINE.
    pub confidence: f64,
    /// Most rows of each result.
    pub rows_max: usize,
}

/// What it is answered.
#[derive(Debug)]
pub struct Answer {
    /// By processor.
    pub results: Vec<Answered>,
    /// From which job; none: from a recording, or from a job that the asker may not know of.
    pub job: Option<JobId>,
    /// From which recording; none: from a job.
    pub recording: Option<String>,
    /// From its tuples, or from the rows that it made then.
    pub from: Origin,
    /// From when, and before when; none: nothing is known to lie there.
    pub period: Option<(i64, i64)>,
    /// The same of the baseline.
    pub baseline: Option<(i64, i64)>,
    /// Tuples that were read.
    pub tuples: u64,
    /// What to know of it, a sentence each.
    pub notes: Vec<String>,
}

/// From what an answer was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Tuples that were kept.
    Tuples,
    /// Rows of the same query that were kept.
    Rows,
    /// A capture or recording.
    Recording,
}

/// One of the results.
#[derive(Debug)]
pub struct Answered {
    /// What it looks like.
    pub result: KeptResult,
    /// The same as a schema.
    pub schema: Arc<Schema>,
    /// Its rows.
    pub batches: Vec<Batch>,
    /// Rows that there were more, and that are left out.
    pub left_out: u64,
}

impl Answered {
    /// A result that was made just now, of columns of `schema`; rows with the agents that they lack.
    pub(crate) fn made(
        place: usize,
        processor: Option<String>,
        keys: usize,
        (schema, columns): (&Schema, &[FieldId]),
        rows: &[(Batch, Vec<String>)],
    ) -> Option<Answered> {
        let heads = columns::heads(schema, columns);
        let table = processor.clone().unwrap_or_else(|| schema.name.to_string());
        let shown = columns::schema(&table, &heads)?;
        let as_shown =
            |(batch, missing): &(Batch, Vec<String>)| columns::as_kept(batch, columns, &shown, missing);
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
        Some(Answered { result, schema: shown, batches, left_out: 0 })
    }
}

/// When an answer has to be there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

impl Service {
    /// Answers a query of the past.
    pub(crate) fn ask_past(&self, who: &Access, asked: &Question) -> Result<Answer, Denied> {
        let limits = self.limits().past;
        let deadline = Deadline(Instant::now() + limits.time);
        let query = self.checked(&asked.query).map_err(Denied::Query)?;
        let (own, baseline) = periods(&query, now_ns())?;
        may_ask(who, &planner::lower(&query))?;
        let wanted = Wanted { query: &query, own, baseline, on: &asked.on, now_ns: now_ns() };
        let mut answer = match self.source(who, &wanted)? {
            Source::Tuples(kept) if baseline.is_some() => {
                compare::compare(self, &kept, &wanted, (asked, deadline))?
            }
            Source::Tuples(kept) => read::answer(self, &kept, &wanted, (asked, deadline))?,
            Source::Rows(job, results) => rows::answer(self, &job, results, &wanted, asked)?,
        };
        for one in &answer.results {
            if one.left_out > 0 {
                let most = asked.rows_max;
                answer.notes.push(format!(
                    "{} rows more than {most} of {} are left out: ask of a shorter time, or choose rows (HAVING, LIMIT n ROWS)",
                    one.left_out, one.result.table
                ));
            }
            self.hub().meters.query_rows_left_out.add(one.left_out);
        }
        Ok(answer)
    }

    /// A text as a checked query.
    pub(crate) fn checked(&self, text: &str) -> Result<Query, Vec<Diagnostic>> {
        query::check(text, &self.schemas, &())
    }
}

/// When the query asks about; relative times count back from now.
fn periods(query: &Query, now_ns: i64) -> Result<(Period, Option<Period>), Denied> {
    if query.period.since.is_none() {
        return Err(Denied::Wrong(
            "what was kept is asked of a time: say since when, as in SINCE 2h; what comes from now on is a job's".into(),
        ));
    }
    if query.limit.packets.is_some() {
        return Err(Denied::Wrong(
            "LIMIT counts packets, and these are gone: limit the time, as in SINCE 2h UNTIL 1h".into(),
        ));
    }
    let settled = query.period.settle(now_ns);
    let own = (settled.since_ns.unwrap_or(i64::MIN), settled.until_ns.unwrap_or(now_ns.saturating_add(1)));
    let bounds = plan::Bounds { since_ns: Some(own.0), until_ns: Some(own.1) };
    let baseline = query.baseline.map(|baseline| {
        let bounds = baseline.settle(bounds, now_ns);
        (bounds.since_ns.unwrap_or(i64::MIN), bounds.until_ns.unwrap_or(own.0))
    });
    for (name, period) in [("SINCE and UNTIL", Some(own)), ("BASELINE", baseline)] {
        if period.is_some_and(|(since, until)| since >= until) {
            return Err(Denied::Wrong(format!(
                "nothing can lie within {name}: the period ends before it begins; relative times count back from now"
            )));
        }
    }
    Ok((own, baseline))
}
