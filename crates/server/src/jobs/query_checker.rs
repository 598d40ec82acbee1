//! Checks queries against the parsers of this version, and plans them.

use std::sync::Arc;

use plan::Plan;
use planner::{PlanOptions, exported_query};
use query::{CheckedQuery, Diagnostic, TextSpan};
use tuple::Schema;

use crate::job::{CaptureRequest, Job, JobSource};

/// See the module documentation.
#[derive(Clone)]
pub struct QueryChecker {
    /// Schemas of all parsers.
    pub schemas: Arc<[Arc<Schema>]>,
}

impl Default for QueryChecker {
    fn default() -> QueryChecker {
        QueryChecker {
            schemas: parsers::registry::schemas().into(),
        }
    }
}

impl QueryChecker {
    /// Parses and checks a query.
    pub fn check(&self, text: &str) -> Result<CheckedQuery, Vec<Diagnostic>> {
        controlled(query::check(text, &self.schemas, &())?)
    }

    /// Checks a query for its source of packets.
    pub fn check_for(
        &self,
        text: &str,
        capture: &CaptureRequest,
    ) -> Result<CheckedQuery, Vec<Diagnostic>> {
        let query = if capture.network {
            controlled(query::check_for_network(text, &self.schemas, &())?)?
        } else {
            self.check(text)?
        };
        let checked = match capture.source {
            JobSource::Interfaces => exported_query::check_captured(&query).map(|()| query),
            JobSource::Exports => exported_query::of(query, &PlanOptions::default()),
        };
        let whole = TextSpan {
            start: 0,
            end: text.len(),
        };
        checked.map_err(|why| vec![Diagnostic::new(whole, why)])
    }

    /// The query of a job.
    pub fn check_job(&self, job: &Job) -> Result<CheckedQuery, Vec<Diagnostic>> {
        self.check_for(&job.spec.query, &job.spec.capture)
    }

    /// The plan of a query.
    pub fn plan(&self, text: &str) -> Result<Arc<Plan>, Vec<Diagnostic>> {
        self.check(text)
            .map(|query| Arc::new(planner::lower(&query)))
    }

    /// The plan of a job's query.
    pub fn plan_of(&self, job: &Job) -> Result<Arc<Plan>, Vec<Diagnostic>> {
        self.check_job(job)
            .map(|query| Arc::new(planner::lower(&query)))
    }
}

/// Rejects goals of the sampling rate, which agents do not follow.
fn controlled(query: CheckedQuery) -> Result<CheckedQuery, Vec<Diagnostic>> {
    let whole = TextSpan::new(0, query.text.len());
    match query.without_goal("by a server") {
        Ok(()) => Ok(query),
        Err(why) => Err(vec![Diagnostic::new(whole, why)]),
    }
}
