//! Answers from rows that a job with the same query has stored.

use super::past_queries::PastQueries;
use super::sources::SourceQuery;
use super::{AnswerOrigin, PastQuery, PastResponse, PastTable, named};
use crate::job::Job;
use crate::store::history::PageQuery;
use crate::store::persist_error::PersistError;
use crate::store::service_error::ServiceError;
use crate::store::sqlite::KeptResult;

/// Windows that start within the period.
pub fn answer(
    past: &PastQueries,
    job: &Job,
    results: Vec<KeptResult>,
    wanted: &SourceQuery<'_>,
    asked: &PastQuery,
) -> Result<PastResponse, ServiceError> {
    let (since, until) = wanted.own;
    let ask = PageQuery {
        after: None,
        limit: asked.rows_max,
        since_ns: Some(since),
        until_ns: Some(until),
    };
    let mut notes = vec![format!(
        "answered from the stored rows of {}, for all windows that start within the time",
        named(job)
    )];
    let mut answered = Vec::new();
    for result in results {
        let page = past.history.read(job.id, &result, &ask)?;
        if let Some(which) = page.stopped {
            return Err(PersistError::Unreadable(which).into());
        }
        if page.next.is_some() {
            notes.push(format!(
                "{} has more than {} rows: choose a shorter time",
                result.table, asked.rows_max
            ));
        }
        if result.rows_dropped > 0 {
            notes.push(format!(
                "retention removed the {} oldest rows of {}",
                result.rows_dropped, result.table
            ));
        }
        answered.push(PastTable {
            schema: page.schema,
            batches: page.batches,
            result,
            left_out: 0,
        });
    }
    Ok(PastResponse {
        results: answered,
        job: Some(job.id),
        recording: None,
        from: AnswerOrigin::Rows,
        period: Some(wanted.own),
        baseline: None,
        tuples: 0,
        notes,
    })
}
