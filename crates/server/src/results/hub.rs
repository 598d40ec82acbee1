//! Receives results: the executor of a job reports its columns, rows, and state to the hub, which stores and shows
//! them.
//!
//! Guarantees: when [`ResultHub::publish`] of closed rows has returned `Ok`, they are on disk exactly once, even after a
//! crash; after an error, none of them is stored, and the same delivery may be repeated. Rows of a result are stored in
//! the order of publication. Open rows are shown and never stored. No call waits for a client. Any thread may call.

mod live_job;
mod subscribers;
mod updates;

use std::collections::HashMap;
use std::slice;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use tuple::Batch;

use crate::job::columns::{self, encode, time_column};
use crate::job::counters::ServiceMetrics;
use crate::job::{Job, JobId, JobState, RetainedRows};
use crate::results::commit_participant::{CommitParticipant, UncommittedRows};
use crate::results::events::{ClientQueue, EventKind};
use crate::results::notifier::DeliveryNotifier;
use crate::store::history::{RowHistory, RowRetention};
use crate::store::persist_error::{PersistError, WriteObstacle};
use crate::store::sqlite::{
    CommitProgress, FrameStore, JobStore, KeptResult, NewTail, ResultStore, ServerStore,
};
use live_job::{LatestRows, LiveJob, LiveResult, windows};

pub use subscribers::ResumePoint;
pub use updates::{
    AgentAccount, AgentCoverage, JobAccount, ResultDelivery, ResultTable, TapAccount, WindowState,
};

pub use live_job::EVENT_ROWS_MAX;

/// Limits of live and stored rows.
#[derive(Clone, Copy, Debug)]
pub struct HubLimits {
    /// Time for which events are kept for reconnecting streams.
    pub ring_time: Duration,
    /// Maximum bytes of a job's events kept for reconnecting streams.
    pub ring_bytes: usize,
    /// Retention of results.
    pub retention: RowRetention,
    /// Retention of tuples.
    pub tuples_retention: RowRetention,
}

impl Default for HubLimits {
    fn default() -> HubLimits {
        HubLimits {
            ring_time: Duration::from_secs(60),
            ring_bytes: 4 << 20,
            retention: RowRetention::default(),
            tuples_retention: RowRetention::default(),
        }
    }
}

/// Called with the job of an alert rule, and the new state of the alert as in the API.
pub(crate) type AlertListener = Box<dyn Fn(JobId, &Value) + Send + Sync>;

/// Stores results and shows them to clients.
pub struct ResultHub {
    jobs: JobStore,
    results: ResultStore,
    frames: FrameStore,
    history: Arc<RowHistory>,
    participant: Box<dyn CommitParticipant>,
    limits: HubLimits,
    /// Counters.
    pub(crate) meters: ServiceMetrics,
    /// Incarnation of the server.
    pub(crate) boot: u64,
    seq: AtomicU64,
    live_jobs: Mutex<HashMap<JobId, Arc<Mutex<LiveJob>>>>,
    clients: Mutex<Vec<Weak<ClientQueue>>>,
    /// Threads to wake when rows of a job arrive.
    bells: Mutex<Vec<(JobId, Weak<DeliveryNotifier>)>>,
    /// Number of clients.
    pub(crate) streams: AtomicUsize,
    /// Number of clients per token name.
    pub(crate) streams_of: Mutex<HashMap<String, usize>>,
    alert_listener: OnceLock<AlertListener>,
    /// Reason why the store rejects writes; cannot be written to the stored jobs.
    obstacle: Mutex<Option<WriteObstacle>>,
}

impl ResultHub {
    pub(crate) fn new(
        store: &ServerStore,
        history: Arc<RowHistory>,
        participant: Box<dyn CommitParticipant>,
        limits: HubLimits,
        boot: u64,
    ) -> ResultHub {
        ResultHub {
            jobs: store.jobs.clone(),
            results: store.results.clone(),
            frames: store.frames.clone(),
            history,
            participant,
            limits,
            meters: ServiceMetrics::default(),
            boot,
            seq: AtomicU64::new(0),
            live_jobs: Mutex::default(),
            clients: Mutex::default(),
            bells: Mutex::default(),
            streams: AtomicUsize::new(0),
            streams_of: Mutex::default(),
            alert_listener: OnceLock::new(),
            obstacle: Mutex::default(),
        }
    }

    /// Sets the columns of a job's results before the first row; repeated with the same columns after a restart of the
    /// server.
    ///
    /// # Errors
    /// `PersistError` if they cannot be stored, or differ from those set before.
    pub fn open(&self, job: JobId, tables: &[ResultTable]) -> Result<(), PersistError> {
        let live = self.live(job)?;
        let mut live = lock(&live);
        let told = tables.iter().enumerate().map(|(place, table)| KeptResult {
            place,
            processor: table.processor.clone(),
            table: table
                .processor
                .clone()
                .unwrap_or_else(|| table.schema.name.to_string()),
            columns: columns::heads(&table.schema, &table.columns),
            keys: table.keys,
            next_row: 0,
            rows_dropped: 0,
        });
        let told: Vec<KeptResult> = told.collect();
        if live.results.is_empty() {
            self.results.add(job, &told)?;
            live.results = told
                .into_iter()
                .map(LiveResult::new)
                .collect::<Result<_, _>>()?;
        }
        let same = live.results.len() == tables.len()
            && live.results.iter().zip(tables).all(|(known, table)| {
                known.kept.columns == columns::heads(&table.schema, &table.columns)
            });
        if !same {
            return Err(PersistError::Columns);
        }
        for (known, table) in live.results.iter_mut().zip(tables) {
            known.columns = Some(table.columns.clone());
        }
        let snapshot = live.snapshot(job);
        self.notify(&mut live, job, EventKind::Snapshot, &snapshot);
        Ok(())
    }

    /// Stores and shows rows; see the module documentation.
    ///
    /// # Errors
    /// `PersistError` when they cannot be stored; the delivery may be repeated.
    pub fn publish(&self, delivery: &ResultDelivery<'_>) -> Result<(), PersistError> {
        let ResultDelivery {
            job, watermark_ns, ..
        } = *delivery;
        if delivery.state == WindowState::Closed {
            let progress = CommitProgress {
                watermark_ns,
                ..CommitProgress::default()
            };
            return self.commit(job, slice::from_ref(delivery), &progress);
        }
        let live = self.live(job)?;
        let mut live = lock(&live);
        if live.state.has_ended() {
            return Err(PersistError::NoJob(job));
        }
        let batch = live.as_kept(delivery)?;
        self.show(&mut live, delivery, &batch);
        drop(live);
        self.wake(job);
        Ok(())
    }

    /// Stores closed rows of a job's results in one transaction with its position and the changes that they cause, and
    /// shows them.
    ///
    /// # Errors
    /// `PersistError` when they cannot be stored; the call may be repeated.
    pub(crate) fn commit(
        &self,
        job: JobId,
        deliveries: &[ResultDelivery<'_>],
        progress: &CommitProgress,
    ) -> Result<(), PersistError> {
        let live = self.live(job)?;
        let mut live = lock(&live);
        if live.state.has_ended() {
            return Err(PersistError::NoJob(job));
        }
        let mut rows = Vec::new();
        for delivery in deliveries {
            rows.push((delivery, live.as_kept(delivery)?));
        }
        let tails: Vec<_> = rows
            .iter()
            .map(|(d, batch)| (d.result, new_tail(batch, d.watermark_ns)))
            .collect();
        let results: Vec<_> = rows
            .iter()
            .map(|(d, batch)| (d.result, batch, &d.coverage.missing[..]))
            .collect();
        let n: usize = rows.iter().map(|(_, batch)| batch.rows()).sum();
        let pending = self.participant.evaluate(&UncommittedRows {
            job,
            results: &results,
            watermark_ns: progress.watermark_ns,
            lacking: &progress.lacking,
        });
        self.frames
            .commit(job, &tails, progress, pending.rules(), pending.actions())
            .inspect_err(|_| self.meters.rows_unkept.add(n as u64))?;
        self.meters.rows_kept.add(n as u64);
        for event in pending.adopt() {
            self.tell_alert(&mut live, job, &event);
        }
        for result in &live.results {
            if tails.iter().any(|(place, _)| *place == result.kept.place) {
                self.settle(job, &live, result);
            }
        }
        for (delivery, batch) in &rows {
            self.show(&mut live, delivery, batch);
        }
        drop(live);
        self.wake(job);
        Ok(())
    }

    /// Moves rows to files if due; after a failure they remain in the store.
    fn settle(&self, job: JobId, live: &LiveJob, result: &LiveResult) {
        if let Err(error) = self.history.settle(job, &live.state, &result.kept) {
            tracing::warn!("cannot delete rows of job {job} from the store: {error}");
        }
    }

    /// Reports a change of an alert without rows.
    pub(crate) fn notify_alert(&self, job: JobId, event: &Value) {
        if let Ok(live) = self.live(job) {
            self.tell_alert(&mut lock(&live), job, event);
        }
    }

    /// Sets the listener of all changes of alerts. It must not wait: a job is locked while it runs.
    pub(crate) fn listen_to_alerts(&self, listener: AlertListener) {
        // Set once, at the start of the service.
        let _ = self.alert_listener.set(listener);
    }

    fn tell_alert(&self, live: &mut LiveJob, job: JobId, event: &Value) {
        self.notify(live, job, EventKind::Alert, event);
        if let Some(listener) = self.alert_listener.get() {
            listener(job, event);
        }
    }

    /// Number of rows of a job's result so far.
    pub(crate) fn rows_kept(&self, job: JobId, place: usize) -> Result<u64, PersistError> {
        let results = self.results.of_job(job)?;
        Ok(results
            .get(place)
            .map_or(0, |result| result.next_row.unsigned_abs()))
    }

    /// Sends rows to clients, by window.
    fn show(&self, live: &mut LiveJob, delivery: &ResultDelivery<'_>, batch: &Batch) {
        let place = delivery.result;
        for (window, from, rows) in windows(batch) {
            let shown = LatestRows::of(batch, window, from..from + rows);
            let unshown = rows - shown.rows.len();
            self.meters.rows_unshown.add(unshown as u64);
            let data = json!({
                "job": delivery.job, "result": place,
                "start": window.map(|(start, _)| start.to_string()),
                "end": window.map(|(_, end)| end.to_string()),
                "state": if delivery.state == WindowState::Open { "open" } else { "closed" },
                "rows": shown.values(), "rows_left_out": unshown,
            });
            let result = &mut live.results[place];
            let kind = match delivery.state {
                WindowState::Open => {
                    result.open = shown;
                    EventKind::OpenWindow
                }
                WindowState::Closed => {
                    let is_next = window.is_some() && window != result.closed.window;
                    self.meters.windows_closed.add(u64::from(is_next));
                    result.kept.next_row += rows as i64;
                    result.close(shown);
                    EventKind::ClosedWindow
                }
            };
            self.notify(live, delivery.job, kind, &data);
        }
    }

    /// Publishes the counters of a job.
    ///
    /// # Errors
    /// `PersistError` if the job does not exist.
    pub fn account(&self, job: JobId, account: &JobAccount) -> Result<(), PersistError> {
        let live = self.live(job)?;
        let mut live = lock(&live);
        let mut data = json!({ "job": job });
        if let (Some(all), Ok(Value::Object(own))) =
            (data.as_object_mut(), serde_json::to_value(account))
        {
            all.extend(own);
            let lag = account
                .watermark_ns
                .map(|at| (crate::store::sqlite::now_ns() - at).to_string());
            all.insert("lag_ns".into(), lag.into());
        }
        live.account = data.clone();
        live.agents.clone_from(&account.agents);
        live.taps = account.taps;
        self.notify(&mut live, job, EventKind::Account, &data);
        if live.sample_rate != account.sample_rate {
            live.sample_rate = account.sample_rate;
            let is_whole = account.sample_rate.is_none_or(|rate| rate >= 1.0);
            let reason = if is_whole {
                "every flow is processed"
            } else {
                "the query has a SAMPLE, or an agent receives more packets than it can process"
            };
            let data = json!({ "job": job, "rate": account.sample_rate, "reason": reason });
            self.notify(&mut live, job, EventKind::Sampling, &data);
        }
        Ok(())
    }

    /// Counters of each agent of a job; for an ended job only if it keeps results.
    ///
    /// # Errors
    /// `PersistError` if the job does not exist.
    pub(crate) fn agents(
        &self,
        job: JobId,
    ) -> Result<(Vec<AgentAccount>, Option<TapAccount>), PersistError> {
        let live = self.live(job)?;
        let live = lock(&live);
        Ok((live.agents.clone(), live.taps))
    }

    /// Sets the state of a job. `reason`: a problem for users, such as missing agents. After [`JobState::Ended`], nothing
    /// more is accepted, and its rows are in files.
    ///
    /// # Errors
    /// `PersistError` when the store fails.
    pub fn turn(
        &self,
        job: JobId,
        state: JobState,
        reason: Option<&str>,
    ) -> Result<(), PersistError> {
        let live = self.live(job)?;
        let mut live = lock(&live);
        if !self.jobs.set_state(job, &state, reason)? {
            return Ok(());
        }
        let has_ended = state.has_ended();
        if has_ended && !live.agents.is_empty() {
            let accounts = serde_json::to_string(&live.agents).unwrap_or_default();
            self.jobs.keep_accounts(job, &accounts)?;
        }
        let why = reason.or(state.reason()).map(str::to_owned);
        let data =
            json!({ "job": job, "state": state.word(), "reason": why, "outcome": state.outcome() });
        live.state = state;
        self.notify(&mut live, job, EventKind::Job, &data);
        if has_ended {
            live.results
                .iter()
                .for_each(|result| self.settle(job, &live, result));
            drop(live);
            self.wake(job);
        }
        Ok(())
    }

    /// Sets the reason why the store rejects writes; `None`: it accepts them.
    pub(crate) fn set_obstacle(&self, obstacle: Option<WriteObstacle>) {
        *lock(&self.obstacle) = obstacle;
    }

    /// Adds state that could not be written to the stored jobs.
    pub(crate) fn add_unwritten(&self, jobs: &mut [Job]) {
        if let Some(obstacle) = &*lock(&self.obstacle) {
            let lacks = format!(
                "{obstacle}: agents spool their results, and lose those that exceed the spool"
            );
            for job in jobs.iter_mut().filter(|job| !job.state.has_ended()) {
                job.reason = Some(
                    job.reason
                        .iter()
                        .map(String::as_str)
                        .chain([lacks.as_str()])
                        .collect::<Vec<_>>()
                        .join("; "),
                );
            }
        }
    }

    /// Housekeeping: moves old rows to files, applies retention, and unloads ended jobs without watchers.
    pub(crate) fn look_after(&self) -> Result<(), PersistError> {
        for (job, place) in self
            .results
            .old_tails(crate::store::sqlite::now_ns() - 60_000_000_000)?
        {
            let live = self.live(job)?;
            let live = lock(&live);
            if let Some(result) = live.results.get(place) {
                self.history.settle(job, &live.state, &result.kept)?;
            }
        }
        self.history
            .retain(RetainedRows::Results, &self.limits.retention)?;
        self.history
            .retain(RetainedRows::Tuples, &self.limits.tuples_retention)?;
        if self.limits.retention.age_ns > 0 {
            self.jobs.forget_accounts(
                crate::store::sqlite::now_ns().saturating_sub(self.limits.retention.age_ns),
            )?;
        }
        let ring = self.limits.ring_time;
        lock(&self.live_jobs).retain(|_, live| {
            let live = lock(live);
            !live.state.has_ended() || live.ring.newest().is_some_and(|at| at.elapsed() < ring)
        });
        Ok(())
    }

    /// The job; loaded from the store on first use.
    fn live(&self, job: JobId) -> Result<Arc<Mutex<LiveJob>>, PersistError> {
        let mut jobs = lock(&self.live_jobs);
        if let Some(live) = jobs.get(&job) {
            return Ok(live.clone());
        }
        let known = self.jobs.get(job)?.ok_or(PersistError::NoJob(job))?;
        let agents = self
            .jobs
            .accounts(job)?
            .and_then(|kept| serde_json::from_str(&kept).ok());
        let mut live = LiveJob::new(known.state, self.results.of_job(job)?)?;
        live.agents = agents.unwrap_or_default();
        let live = Arc::new(Mutex::new(live));
        jobs.insert(job, live.clone());
        Ok(live)
    }
}

fn new_tail(batch: &Batch, watermark_ns: i64) -> NewTail {
    let times = time_column(batch.schema()).map(|id| batch.i64(id));
    let known = || {
        times
            .iter()
            .flat_map(|times| times.iter())
            .map(|at| at.unwrap_or(watermark_ns))
    };
    NewTail {
        rows: batch.rows() as i64,
        first_ns: known().min().unwrap_or(watermark_ns),
        last_ns: known().max().unwrap_or(watermark_ns),
        watermark_ns,
        batch: encode(batch),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
