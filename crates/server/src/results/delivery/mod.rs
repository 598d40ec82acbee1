//! Delivery of rows to other programs: the committed rows of a job are sent to its outlets, each on its own thread
//! (`outlet_worker.rs`). Waiting rows stay in the job's history; the position of each outlet is in the store, so delivery
//! resumes there after a crash.

mod address;
mod outlet_worker;
mod pages;
mod result_heads;
mod results_page;

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use outlets::{DirectOutlet, MetricsPage, OutletAddress};
use plan::Plan;

pub(crate) use address::shown as shown_address;
pub use address::{NamedOutlets, OUTLETS_MAX, OutletPermission, OutletRefusal};
use outlet_worker::{OutletCondition, OutletContext, OutletWorker};
pub use results_page::ResultsMetricsPage;

use crate::job::{Job, JobId, JobOutlet, OutletLosses, OutletState};
use crate::results::hub::ResultHub;
use crate::store::history::RowHistory;
use crate::store::sqlite::{
    DeliveryStore, JobStore, ResultStore, ServerStore, StoreError, StoredOutlet,
};

/// Limits of the delivery to outlets.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryLimits {
    /// Maximum outlets of all jobs.
    pub outlets_max: usize,
    /// Maximum rows that wait for an outlet.
    pub outlet_rows_max: u64,
    /// Maximum metric series per job.
    pub series_max: usize,
}

impl Default for DeliveryLimits {
    fn default() -> DeliveryLimits {
        DeliveryLimits {
            outlets_max: 64,
            outlet_rows_max: 1_000_000,
            series_max: 1000,
        }
    }
}

/// See the module documentation.
pub struct OutletDeliveries {
    store: DeliveryStore,
    jobs: JobStore,
    results: ResultStore,
    history: Arc<RowHistory>,
    hub: Arc<ResultHub>,
    named: NamedOutlets,
    limits: DeliveryLimits,
    running: Arc<Running>,
}

/// Running outlets.
type Running = Mutex<HashMap<(JobId, usize), Arc<OutletWorker>>>;

impl OutletDeliveries {
    /// Deliveries of a server that has no jobs with outlets yet. `named`: addresses by name.
    pub fn new(
        (store, history, hub): (&ServerStore, &Arc<RowHistory>, &Arc<ResultHub>),
        named: NamedOutlets,
        limits: DeliveryLimits,
    ) -> Self {
        OutletDeliveries {
            store: store.deliveries.clone(),
            jobs: store.jobs.clone(),
            results: store.results.clone(),
            history: history.clone(),
            hub: hub.clone(),
            named,
            limits,
            running: Arc::default(),
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<(JobId, usize), Arc<OutletWorker>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Addresses by name.
    pub fn named(&self) -> &NamedOutlets {
        &self.named
    }

    /// Whether `more` outlets can be added.
    pub fn has_room(&self, more: usize) -> bool {
        self.running().len() + more <= self.limits.outlets_max
    }

    /// Jobs with incomplete delivery.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn unfinished_jobs(&self) -> Result<Vec<JobId>, StoreError> {
        self.store.unfinished_jobs()
    }

    /// Starts or resumes the delivery of a job's rows.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn begin(&self, job: JobId, plan: &Arc<Plan>) -> Result<(), StoreError> {
        for outlet in self
            .store
            .outlets(job, job)?
            .into_iter()
            .filter(|outlet| !outlet.is_done)
        {
            let key = (job, outlet.place);
            let running = self.running.clone();
            if self.running().contains_key(&key) {
                continue;
            }
            let line = Arc::new(OutletWorker::new(job, outlet.place));
            self.running().insert(key, line.clone());
            self.hub.add_notifier(job, &line.bell);
            let work = self.work(&outlet, plan);
            let begun = thread::Builder::new().name("outlet".into()).spawn(move || {
                line.run(&work);
                running
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .remove(&key);
            });
            if let Err(error) = begun {
                // Retried at the next start of the server.
                tracing::error!("cannot deliver rows of job {job}: {error}");
            }
        }
        Ok(())
    }

    fn work(&self, outlet: &StoredOutlet, plan: &Arc<Plan>) -> OutletContext {
        let asked = outlet.asked.clone();
        let run = outlet.run;
        let named = self.named.clone();
        let limits = outlets::OutletLimits::default();
        let limits = outlets::OutletLimits {
            series_max: self.limits.series_max,
            ..limits
        };
        let jobs = self.jobs.clone();
        let job = outlet.job;
        let prepare = move || {
            let address: OutletAddress = named.read(&asked)?;
            let name = jobs
                .get(job)
                .ok()
                .flatten()
                .map(|job| job.spec.name)
                .filter(|name| !name.is_empty());
            let rows = outlets::RowIdentity {
                of: name.unwrap_or_else(|| job.to_string()),
                run,
            };
            DirectOutlet::prepare(&address, &rows, &limits).map_err(|refused| refused.0)
        };
        OutletContext {
            store: self.store.clone(),
            jobs: self.jobs.clone(),
            results: self.results.clone(),
            history: self.history.clone(),
            plan: plan.clone(),
            backlog_max: i64::try_from(self.limits.outlet_rows_max).unwrap_or(i64::MAX),
            prepare: Box::new(prepare),
        }
    }

    /// Adds the delivery state of each job's rows.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn tell(&self, jobs: &mut [Job]) -> Result<(), StoreError> {
        let ids = jobs.iter().map(|job| job.id);
        let Some((first, last)) = ids.clone().min().zip(ids.max()) else {
            return Ok(());
        };
        let mut told: HashMap<JobId, Vec<JobOutlet>> = HashMap::new();
        for outlet in self.store.outlets(first, last)? {
            told.entry(outlet.job).or_default().push(self.told(&outlet));
        }
        jobs.iter_mut()
            .for_each(|job| job.outlets = told.remove(&job.id).unwrap_or_default());
        Ok(())
    }

    fn told(&self, outlet: &StoredOutlet) -> JobOutlet {
        let line = self.running().get(&(outlet.job, outlet.place)).cloned();
        let said = line.as_ref().map(|line| line.said());
        let sums = outlet.sums;
        JobOutlet {
            to: address::shown(&outlet.asked),
            state: match said.as_ref().map(|said| said.condition) {
                _ if outlet.is_done => OutletState::Done,
                Some(OutletCondition::Up) | None => OutletState::Up,
                Some(OutletCondition::Retrying) => OutletState::Retrying,
                Some(OutletCondition::Broken) => OutletState::Broken,
            },
            delivered: sums.delivered.unsigned_abs(),
            behind: if outlet.is_done { 0 } else { outlet.behind },
            lost: OutletLosses {
                refused: sums.refused.unsigned_abs(),
                backlog: sums.backlog.unsigned_abs(),
                gone: sums.gone.unsigned_abs(),
            },
            retries: line.map_or(0, |line| line.retries.load(Relaxed)),
            problem: said.and_then(|said| said.problem),
        }
    }

    /// Adds metrics of the outlets to a page.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn health(&self, jobs: &mut [Job], page: &mut MetricsPage) -> Result<(), StoreError> {
        self.tell(jobs)?;
        for job in jobs.iter() {
            let id = job.id.to_string();
            for (place, outlet) in job.outlets.iter().enumerate() {
                let place = place.to_string();
                let of_job = job.series_labels(&id);
                let labels = [
                    of_job[0],
                    of_job[1],
                    ("outlet", place.as_str()),
                    ("to", outlet.to.as_str()),
                ];
                let is_up = f64::from(u8::from(outlet.state == OutletState::Up));
                page.gauge(
                    "netalytics_outlet_up",
                    "1: the outlet accepts the job's rows",
                    &labels,
                    is_up,
                );
                let behind = outlet.behind as f64;
                page.gauge(
                    "netalytics_outlet_rows_behind",
                    "rows waiting for the outlet",
                    &labels,
                    behind,
                );
                for (name, help, count) in [
                    (
                        "netalytics_outlet_rows_total",
                        "rows delivered to the outlet",
                        outlet.delivered,
                    ),
                    (
                        "netalytics_outlet_retries_total",
                        "attempts beyond the first",
                        outlet.retries,
                    ),
                ] {
                    page.counter(name, help, &labels, count as f64);
                }
                let OutletLosses {
                    refused,
                    backlog,
                    gone,
                } = outlet.lost;
                for (cause, count) in [("refused", refused), ("backlog", backlog), ("gone", gone)] {
                    let labels = [&labels[..], &[("cause", cause)]].concat();
                    let help = "rows lost before the outlet, by cause";
                    page.counter(
                        "netalytics_outlet_lost_rows_total",
                        help,
                        &labels,
                        count as f64,
                    );
                }
            }
        }
        Ok(())
    }
}

impl Drop for OutletDeliveries {
    /// Nothing is written after this returns; a thread that waits for another program ends by itself.
    fn drop(&mut self) {
        self.running().drain().for_each(|(_, line)| line.bell.end());
    }
}
