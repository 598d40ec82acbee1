//! Answers from rows that a job with the same query has stored.

use super::choose::Wanted;
use super::{Answer, Answered, Origin, Question, named};
use crate::history::Ask;
use crate::job::Job;
use crate::service::{Denied, Service};
use crate::store::KeptResult;
use crate::unkept::Unkept;

/// Windows that start within the period.
pub fn answer(
    service: &Service,
    job: &Job,
    results: Vec<KeptResult>,
    wanted: &Wanted<'_>,
    asked: &Question,
) -> Result<Answer, Denied> {
    let (since, until) = wanted.own;
    let ask = Ask { after: None, limit: asked.rows_max, since_ns: Some(since), until_ns: Some(until) };
    let mut notes = vec![format!(
        "answered from the rows that {} made then, of all windows that begin within the time",
        named(job)
    )];
    let mut answered = Vec::new();
    for result in results {
        let page = service.history().read(job.id, &result, &ask)?;
        if let Some(which) = page.stopped {
            return Err(Unkept::Unreadable(which).into());
        }
        if page.next.is_some() {
            notes.push(format!(
                "there are more rows of {} than {}: ask of a shorter time",
                result.table, asked.rows_max
            ));
        }
        if result.rows_dropped > 0 {
            notes.push(format!(
                "{} rows of {} were taken away by retention, the oldest",
                result.rows_dropped, result.table
            ));
        }
        answered.push(Answered { schema: page.schema, batches: page.batches, result, left_out: 0 });
    }
    Ok(Answer {
        results: answered,
        job: Some(job.id),
        recording: None,
        from: Origin::Rows,
        period: Some(wanted.own),
        baseline: None,
        tuples: 0,
        notes,
    })
}
