//! Results of standing jobs for Prometheus: the last closed window of each job, and sums since the first scrape. Rows
//! are read only when a page is requested, so jobs without a scraper cost nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use outlets::{MetricsPage, ScrapedResults};
use plan::Plan;

use super::pages;
use super::result_heads::heads;
use crate::job::{Job, JobId};
use crate::store::history::RowHistory;
use crate::store::persist_error::PersistError;
use crate::store::sqlite::{KeptResult, ResultStore};

/// Maximum rows of a result read for one page; older ones count as missed.
const ROWS_MAX: i64 = 200_000;

/// Position in a job's results.
struct JobMetrics {
    results: ScrapedResults,
    /// First unread row of each result.
    next: Vec<i64>,
    /// Rows dropped before a scrape.
    missed: u64,
}

/// See the module documentation.
#[derive(Default)]
pub struct ResultsMetricsPage {
    jobs: Mutex<HashMap<JobId, JobMetrics>>,
}

impl ResultsMetricsPage {
    /// Drops the state of all jobs but these.
    pub fn keep(&self, jobs: &[Job]) {
        let mut known = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|id, _| jobs.iter().any(|job| job.id == *id));
    }

    /// Adds a job's results to a page.
    pub fn add(
        &self,
        (store, history): (&ResultStore, &RowHistory),
        (job, plan): (&Job, &Plan),
        series_max: usize,
        page: &mut MetricsPage,
    ) -> Result<(), PersistError> {
        let kept = store.of_job(job.id)?;
        // Scrapers share the sums: each also sees the rows read for others.
        let mut all = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = all.entry(job.id).or_insert_with(|| {
            let mut results = ScrapedResults::new(series_max);
            results.announce(&heads(plan, &kept));
            JobMetrics {
                results,
                next: Vec::new(),
                missed: 0,
            }
        });
        for result in &kept {
            shown.read(store, history, job.id, result)?;
        }
        let id = job.id.to_string();
        let labels = job.series_labels(&id);
        let count = shown.results.series().count();
        let left_out = shown.results.left_out();
        page.gauge(
            "netalytics_job_series",
            "series of the job on this page",
            &labels,
            count as f64,
        );
        let help =
            "points of the job omitted from this page: beyond the limit of series, or not a number";
        page.counter(
            "netalytics_job_points_left_out_total",
            help,
            &labels,
            left_out as f64,
        );
        let help = "rows of the job that were replaced between two scrapes";
        page.counter(
            "netalytics_job_rows_missed_total",
            help,
            &labels,
            shown.missed as f64,
        );
        page.results(shown.results.series(), &labels);
        Ok(())
    }
}

impl JobMetrics {
    fn read(
        &mut self,
        store: &ResultStore,
        history: &RowHistory,
        job: JobId,
        result: &KeptResult,
    ) -> Result<(), PersistError> {
        if self.next.len() <= result.place {
            // The first scrape starts at the most recent rows.
            let newest = store.last_tail(job, result.place)?;
            self.next.resize(result.place, result.next_row);
            self.next.push(newest.unwrap_or(result.next_row));
        }
        let next = &mut self.next[result.place];
        let from = (*next).max(result.next_row - ROWS_MAX);
        self.missed += (from - *next).unsigned_abs();
        *next = from;
        while *next < result.next_row {
            let rows = pages::read(history, (job, result), *next, None)?;
            rows.batches
                .iter()
                .for_each(|batch| self.results.add(result.place, batch));
            self.results.complete();
            *next = rows.end;
        }
        Ok(())
    }
}
