//! Selects the job that answers a query of the past: among those whose tuples cover the query, the one that covers most
//! of the period, then the one with the narrowest filter.

use std::collections::BTreeMap;

use query::CheckedQuery;

use super::coverage::{CoveredQuery, Period, covers, named};
use super::data_gaps::OfAgents;
use super::past_queries::PastQueries;
use crate::gateway::LaneEnd;
use crate::job::{Job, JobId, JobKind, JobState};
use crate::store::access::ClientAccess;
use crate::store::service_error::ServiceError;
use crate::store::sqlite::{KeptResult, ResultExtent};

/// Maximum jobs listed in an error about missing data.
const REASONS_MAX: usize = 8;

/// Longest time between a job's creation and the first report of an agent that was connected then.
const BEGINS_WITHIN_NS: i64 = 10_000_000_000;

/// Requirements of a query.
pub struct SourceQuery<'q> {
    /// The query.
    pub query: &'q CheckedQuery,
    /// Period of the source.
    pub own: Period,
    /// Baseline of the comparison.
    pub baseline: Option<Period>,
    /// Labels of the agents.
    pub on: &'q BTreeMap<String, String>,
    /// Current time.
    pub now_ns: i64,
}

/// Source of the answer.
pub enum PastSource {
    /// Tuples of a job.
    Tuples(Box<KeptTuples>),
    /// From the rows of a job with the same query.
    Rows(Box<Job>, Vec<KeptResult>),
}

/// Stored tuples that cover the query.
pub struct KeptTuples {
    /// Job that stored them.
    pub job: Job,
    /// Whether the asker may know of the job; else answers do not name it.
    pub named: JobNaming,
    /// The tuples in the form of a result.
    pub result: KeptResult,
    /// The query over these tuples.
    pub covered: CoveredQuery,
    /// Period for which tuples are stored.
    pub kept: Period,
    /// Period for which tuples are stored and agents are known to have worked.
    worked: Period,
}

/// Whether answers name the job that kept the tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobNaming {
    /// Job, by number and name.
    Yes,
    /// The job's query reaches beyond the asker's networks; the asked query does not.
    No,
}

impl KeptTuples {
    /// The job's number, where answers name it.
    pub fn job_named(&self) -> Option<JobId> {
        (self.named == JobNaming::Yes).then_some(self.job.id)
    }

    /// The job in words, where answers name it.
    pub fn in_words(&self) -> String {
        match self.named {
            JobNaming::Yes => named(&self.job),
            JobNaming::No => "a job".to_owned(),
        }
    }

    /// Whether all tuples of a period up to now were kept.
    pub fn covers(&self, (since, until): Period) -> bool {
        self.kept.0 <= since && (self.kept.1 >= until || self.job.ended_ns.is_none())
    }
}

impl SourceQuery<'_> {
    /// From the earlier start to the later end of the period and the baseline.
    fn whole(&self) -> Period {
        let (since, until) = self.baseline.unwrap_or(self.own);
        (since.min(self.own.0), until.max(self.own.1))
    }

    /// Overlap with `kept`, in nanoseconds.
    fn overlap(&self, (from, to): Period) -> i128 {
        let of = |(since, until): Period| {
            (i128::from(until.min(to)) - i128::from(since.max(from))).max(0)
        };
        of(self.own) + self.baseline.map_or(0, of)
    }
}

impl PastQueries {
    /// See the module documentation.
    pub(super) fn source(
        &self,
        who: &ClientAccess,
        wanted: &SourceQuery<'_>,
    ) -> Result<PastSource, ServiceError> {
        let mut suitable = Vec::new();
        let mut reasons = Vec::new();
        for id in self.store.results.jobs_with_tuples()? {
            let result = self.store.results.of_job(id)?.into_iter().next();
            let Some((job, result)) = self.store.jobs.get(id)?.zip(result) else {
                continue;
            };
            let seen = self.jobs.may_see(who, &job);
            let name = named(&job);
            match self.suits(who, (job, result), wanted)? {
                Ok(kept) => suitable.push(kept),
                Err(why) if seen && reasons.len() < REASONS_MAX => {
                    reasons.push(format!("{name}: {why}"))
                }
                Err(_) => {}
            }
        }
        let rank = |kept: &KeptTuples| {
            let overlaps = (wanted.overlap(kept.worked), wanted.overlap(kept.kept));
            (overlaps, kept.covered.narrowness, kept.job.id)
        };
        if let Some(best) = suitable.into_iter().max_by_key(rank) {
            return Ok(PastSource::Tuples(Box::new(best)));
        }
        match self.same(who, wanted)? {
            Some((job, results)) => Ok(PastSource::Rows(Box::new(job), results)),
            None => Err(ServiceError::NotKept(missing(wanted.query, &reasons))),
        }
    }

    /// Checks whether a job's tuples cover the query.
    fn suits(
        &self,
        who: &ClientAccess,
        (job, result): (Job, KeptResult),
        wanted: &SourceQuery<'_>,
    ) -> Result<Result<KeptTuples, String>, ServiceError> {
        if let Err(why) = self.jobs.may_see_texts(who, &job) {
            return Ok(Err(why.to_string()));
        }
        if !wanted
            .on
            .iter()
            .all(|(label, value)| job.spec.on.get(label) == Some(value))
        {
            return Ok(Err("it runs on other agents (on)".into()));
        }
        if !job.spec.capture.interfaces.is_empty() || job.spec.capture.filter.is_some() {
            return Ok(Err("it captures only some interfaces or packets".into()));
        }
        let Ok(own) = self.jobs.queries.check_job(&job) else {
            return Ok(Err(
                "this version of the program no longer supports its query".into(),
            ));
        };
        let covered = match covers(&job, &result, &own, wanted.query, wanted.whole()) {
            Ok(covered) => covered,
            Err(why) => return Ok(Err(why)),
        };
        let extent = self.store.segments.extent(job.id, result.place)?;
        let Some(JobRunSpan {
            began_ns,
            worked_to_ns,
        }) = self.ran(&job, &extent, wanted.now_ns)?
        else {
            return Ok(Err("it has not run: no agent has sent data".into()));
        };
        let kept = kept_when(&job, &extent, began_ns, wanted.now_ns);
        if wanted.overlap(kept) == 0 {
            return Ok(Err("it has no data of that time".into()));
        }
        let last = extent
            .last_ns
            .map_or(i64::MIN, |last| last.saturating_add(1));
        let worked = (kept.0, worked_to_ns.max(last).min(kept.1));
        let named = if self.jobs.may_see(who, &job) {
            JobNaming::Yes
        } else {
            JobNaming::No
        };
        Ok(Ok(KeptTuples {
            job,
            named,
            result,
            covered,
            kept,
            worked,
        }))
    }

    /// Period in which a job has run; `None`: not yet.
    fn ran(
        &self,
        job: &Job,
        extent: &ResultExtent,
        now_ns: i64,
    ) -> Result<Option<JobRunSpan>, ServiceError> {
        let (lanes, _) = self.lanes_of(job, now_ns)?;
        let agents = self.jobs.fleet.agents();
        let is_at_work = |agent: &str| {
            job.ended_ns.is_none() && agents.iter().any(|one| one.name == agent && one.connected)
        };
        Ok(ran(job, extent, &lanes, &is_at_work, now_ns))
    }

    /// A job with exactly the requested results and windows.
    fn same(
        &self,
        who: &ClientAccess,
        wanted: &SourceQuery<'_>,
    ) -> Result<Option<(Job, Vec<KeptResult>)>, ServiceError> {
        let asked = without_period(wanted.query);
        let has_windows =
            !asked.processors.is_empty() && asked.processors.iter().all(|p| p.window.is_some());
        if !has_windows || wanted.baseline.is_some() {
            return Ok(None);
        }
        let asked = planner::lower(&asked);
        for id in self.store.results.jobs_with_rows(wanted.own)? {
            let Some(job) = self.store.jobs.get(id)? else {
                continue;
            };
            let is_seen = job.spec.kind == JobKind::Standing
                && job.spec.capture.interfaces.is_empty()
                && job.spec.capture.filter.is_none()
                && self.jobs.may_see(who, &job)
                && self.jobs.may_see_rows(who, &job).is_ok()
                && wanted
                    .on
                    .iter()
                    .all(|(label, value)| job.spec.on.get(label) == Some(value));
            let is_same = |query: &CheckedQuery| {
                let own = planner::lower(query);
                own.monitor == asked.monitor && own.dataflow == asked.dataflow
            };
            if is_seen
                && self
                    .jobs
                    .queries
                    .check_job(&job)
                    .is_ok_and(|query| is_same(&query))
            {
                let results = self.store.results.of_job(job.id)?;
                return Ok(Some((job, results)));
            }
        }
        Ok(None)
    }
}

/// The query without its period, as a job runs it.
fn without_period(query: &CheckedQuery) -> CheckedQuery {
    CheckedQuery {
        period: query::TimePeriod::default(),
        baseline: None,
        ..query.clone()
    }
}

/// Period in which a job has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JobRunSpan {
    /// Start.
    began_ns: i64,
    /// Time until which agents are known to have worked.
    worked_to_ns: i64,
}

/// See [`Service::ran`].
fn ran(
    job: &Job,
    extent: &ResultExtent,
    lanes: &OfAgents,
    is_at_work: &dyn Fn(&str) -> bool,
    now_ns: i64,
) -> Option<JobRunSpan> {
    let heard: Vec<_> = lanes
        .iter()
        .filter(|(_, facts)| facts.watermark_ns > i64::MIN)
        .collect();
    let Some(begin) = heard.iter().map(|(_, facts)| facts.begin()).min() else {
        // Without lanes, rows or the state of monitors indicate that it ran.
        let has_rows = extent.first_ns.is_some() || extent.rows_dropped > 0;
        let captures = matches!(job.state, JobState::Running | JobState::Draining);
        let worked_to_ns = if has_rows {
            job.ended_ns.unwrap_or(now_ns)
        } else {
            job.created_ns
        };
        return (has_rows || captures).then_some(JobRunSpan {
            began_ns: job.created_ns,
            worked_to_ns,
        });
    };
    // Connected agents start shortly after their job.
    let is_at_once = begin.saturating_sub(job.created_ns) <= BEGINS_WITHIN_NS;
    let began_ns = if is_at_once {
        begin.min(job.created_ns)
    } else {
        begin
    };
    let goes_on = heard
        .iter()
        .any(|(agent, facts)| facts.end == LaneEnd::Open && is_at_work(agent));
    let last = heard
        .iter()
        .map(|(_, facts)| facts.watermark_ns)
        .max()
        .unwrap_or(begin);
    Some(JobRunSpan {
        began_ns,
        worked_to_ns: if goes_on { now_ns } else { last },
    })
}

/// Period for which a job has stored all data: from its start, except for rows removed by retention.
fn kept_when(job: &Job, extent: &ResultExtent, began_ns: i64, now_ns: i64) -> Period {
    let first = extent.first_ns.unwrap_or(began_ns);
    let from = if extent.rows_dropped > 0 {
        first
    } else {
        first.min(began_ns)
    };
    let last = extent
        .last_ns
        .map_or(i64::MIN, |last| last.saturating_add(1));
    (from, job.ended_ns.unwrap_or(now_ns).max(last))
}

/// Error message: the missing data, and how to store it in the future.
fn missing(query: &CheckedQuery, reasons: &[String]) -> String {
    let parsers: Vec<&str> = query
        .inputs
        .iter()
        .map(|input| input.schema.name.as_ref())
        .collect();
    let why = match reasons {
        [] => "no job keeps tuples".to_owned(),
        reasons => reasons.join("; "),
    };
    format!(
        "no stored data answers this query: {why}. To store tuples from now on: netalytics jobs start \
         'PARSE {}' --keep-tuples",
        parsers.join(", ")
    )
}
