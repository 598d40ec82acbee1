//! The door through which results come: whoever runs a job tells the hub its columns, its rows and its state, and the hub
//! keeps and shows them.
//!
//! Promises: when [`Hub::publish`] of closed rows has returned `Ok`, they and their marks are on disk together, and will be
//! there exactly once whatever is killed; when it has returned an error, nothing of them is kept, and the same delivery may
//! be tried again. Rows of a result are kept in the order in which they are published. Open rows are shown and never kept.
//! No call waits for a client. Any thread may call.

mod live;
mod told;
mod watching;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::{Value, json};
use tuple::Batch;

use crate::alerts::Alerts;
use crate::bell::Bell;
use crate::columns::{self, encode, time_column};
use crate::events::Queue;
use crate::history::History;
use crate::job::{JobId, Keep, State};
use crate::limits::Limits;
use crate::meters::Meters;
use crate::store::{KeptResult, NewTail, Progress, Store};
use crate::unkept::Unkept;
use live::{Live, LiveResult, Shown, windows};

pub use told::{Account, AgentAccount, Coverage, Delivery, Mark, ResultTable, TapAccount, WindowState};
pub use watching::Seen;

/// Most rows told in one event, and shown of a result to a client that has just come.
pub const EVENT_ROWS_MAX: usize = 1000;
/// Most bytes of an event, about.
pub const EVENT_BYTES_MAX: usize = 256 << 10;

/// Keeps and shows what comes.
pub struct Hub {
    store: Arc<Store>,
    history: Arc<History>,
    alerts: Arc<Alerts>,
    limits: Limits,
    /// What is counted.
    pub(crate) meters: Meters,
    /// A number for this life of the server.
    pub(crate) boot: u64,
    seq: AtomicU64,
    jobs: Mutex<HashMap<JobId, Arc<Mutex<Live>>>>,
    clients: Mutex<Vec<Weak<Queue>>>,
    /// Who is woken when there are rows of a job.
    bells: Mutex<Vec<(JobId, Weak<Bell>)>>,
    /// How many clients there are.
    pub(crate) streams: AtomicUsize,
    /// The same by the token's name.
    pub(crate) streams_of: Mutex<HashMap<String, usize>>,
    /// Rows that could not be kept, by tries.
    pub(crate) rows_unkept: AtomicU64,
    /// Rows left out of events, since they were too many.
    pub(crate) rows_unshown: AtomicU64,
}

impl Hub {
    pub(crate) fn new(
        store: Arc<Store>,
        history: Arc<History>,
        alerts: Arc<Alerts>,
        limits: Limits,
        boot: u64,
    ) -> Hub {
        Hub {
            store,
            history,
            alerts,
            limits,
            meters: Meters::default(),
            boot,
            seq: AtomicU64::new(0),
            jobs: Mutex::default(),
            clients: Mutex::default(),
            bells: Mutex::default(),
            streams: AtomicUsize::new(0),
            streams_of: Mutex::default(),
            rows_unkept: AtomicU64::new(0),
            rows_unshown: AtomicU64::new(0),
        }
    }

    /// Tells the columns of a job's results, before its first row; again, with the same, after the server was restarted.
    ///
    /// # Errors
    /// When they cannot be noted, or are not those that were told before.
    pub fn open(&self, job: JobId, tables: &[ResultTable]) -> Result<(), Unkept> {
        let live = self.live(job)?;
        let mut live = lock(&live);
        let told = tables.iter().enumerate().map(|(place, table)| KeptResult {
            place,
            processor: table.processor.clone(),
            table: table.processor.clone().unwrap_or_else(|| table.schema.name.to_string()),
            columns: columns::heads(&table.schema, &table.columns),
            keys: table.keys,
            next_row: 0,
            rows_dropped: 0,
        });
        let told: Vec<KeptResult> = told.collect();
        if live.results.is_empty() {
            self.store.add_results(job, &told)?;
            live.results = told.into_iter().map(LiveResult::new).collect::<Result<_, _>>()?;
        }
        let same =
            live.results.len() == tables.len()
                && live.results.iter().zip(tables).all(|(known, table)| {
                    known.kept.columns == columns::heads(&table.schema, &table.columns)
                });
        if !same {
            return Err(Unkept::Columns);
        }
        for (known, table) in live.results.iter_mut().zip(tables) {
            known.columns = Some(table.columns.clone());
        }
        let snapshot = live.snapshot(job);
        self.tell(&mut live, job, "snapshot", &snapshot, false);
        Ok(())
    }

    /// Keeps and shows rows; see the module's text.
    ///
    /// # Errors
    /// Why they are not kept: the delivery may be tried again.
    pub fn publish(&self, delivery: &Delivery<'_>) -> Result<(), Unkept> {
        let result = self.take_in(delivery);
        if result.is_err() {
            self.rows_unkept.fetch_add(delivery.batch.rows() as u64, Ordering::Relaxed);
        }
        result
    }

    fn take_in(&self, delivery: &Delivery<'_>) -> Result<(), Unkept> {
        let job = delivery.job;
        let live = self.live(job)?;
        let mut live = lock(&live);
        if matches!(live.state, State::Ended(_)) {
            return Err(Unkept::NoJob(job));
        }
        let batch = live.as_kept(delivery).ok_or(Unkept::Columns)?;
        if delivery.state == WindowState::Closed {
            let marks: Vec<_> = delivery.marks.iter().map(|mark| (mark.lane.clone(), mark.seq)).collect();
            let new = new_tail(&batch, delivery.watermark_ns);
            let rows = [(delivery.result, &batch, &delivery.coverage.missing[..])];
            let decided = self.alerts.decide(job, &rows, delivery.watermark_ns, &[]);
            self.store.keep((job, delivery.result), &new, &marks, &decided.changes)?;
            self.meters.rows_kept.add(batch.rows() as u64);
            self.tell_alerts(&mut live, job, &decided.adopt());
            let result = &live.results[delivery.result];
            // The rows are kept by now, also where they cannot be moved to a file.
            if let Err(error) = self.history.settle(job, &result.kept, false) {
                tracing::warn!("rows of job {job} stay in the store: {error}");
            }
        }
        self.show(&mut live, delivery, &batch);
        drop(live);
        self.ring(job);
        Ok(())
    }

    /// Keeps closed rows of some results of a job, and with them how far it has come: all of it or nothing. Then shows them.
    ///
    /// # Errors
    /// Why they are not kept: the same may be tried again.
    pub(crate) fn release(
        &self,
        job: JobId,
        deliveries: &[Delivery<'_>],
        progress: &Progress,
    ) -> Result<(), Unkept> {
        let live = self.live(job)?;
        let mut live = lock(&live);
        if matches!(live.state, State::Ended(_)) {
            return Err(Unkept::NoJob(job));
        }
        let batches: Vec<Batch> =
            deliveries.iter().map(|d| live.as_kept(d).ok_or(Unkept::Columns)).collect::<Result<_, _>>()?;
        let tails = deliveries.iter().zip(&batches);
        let tails: Vec<_> = tails.map(|(d, batch)| (d.result, new_tail(batch, d.watermark_ns))).collect();
        let rows: usize = batches.iter().map(Batch::rows).sum();
        let judged = deliveries.iter().zip(&batches);
        let judged: Vec<_> = judged.map(|(d, batch)| (d.result, batch, &d.coverage.missing[..])).collect();
        let decided = self.alerts.decide(job, &judged, progress.watermark_ns, &progress.lacking);
        self.store.release(job, &tails, progress, &decided.changes).inspect_err(|_| {
            self.rows_unkept.fetch_add(rows as u64, Ordering::Relaxed);
        })?;
        self.tell_alerts(&mut live, job, &decided.adopt());
        self.meters.rows_kept.add(rows as u64);
        for result in live.results.iter().filter(|result| tails.iter().any(|(p, _)| *p == result.kept.place))
        {
            if let Err(error) = self.history.settle(job, &result.kept, false) {
                tracing::warn!("rows of job {job} stay in the store: {error}");
            }
        }
        for (delivery, batch) in deliveries.iter().zip(&batches) {
            self.show(&mut live, delivery, batch);
        }
        drop(live);
        self.ring(job);
        Ok(())
    }

    fn tell_alerts(&self, live: &mut Live, job: JobId, events: &[Value]) {
        events.iter().for_each(|event| self.tell(live, job, "alert", event, false));
    }

    /// Tells what has become of an alert without rows.
    pub(crate) fn tell_alert(&self, job: JobId, event: &Value) {
        if let Ok(live) = self.live(job) {
            self.tell(&mut lock(&live), job, "alert", event, false);
        }
    }

    /// How many rows there have been of a job's result.
    pub(crate) fn rows_kept(&self, job: JobId, place: usize) -> Result<u64, Unkept> {
        let results = self.store.results(job)?;
        Ok(results.get(place).map_or(0, |result| result.next_row.unsigned_abs()))
    }

    /// Tells clients of rows, window by window.
    fn show(&self, live: &mut Live, delivery: &Delivery<'_>, batch: &Batch) {
        let place = delivery.result;
        for (window, from, rows) in windows(batch) {
            let shown = Shown::of(batch, window, from..from + rows);
            let unshown = rows - shown.rows.len();
            self.rows_unshown.fetch_add(unshown as u64, Ordering::Relaxed);
            let is_open = delivery.state == WindowState::Open;
            let data = json!({
                "job": delivery.job, "result": place,
                "start": window.map(|(start, _)| start.to_string()),
                "end": window.map(|(_, end)| end.to_string()),
                "state": if is_open { "open" } else { "closed" },
                "rows": shown.values(), "rows_left_out": unshown,
            });
            let result = &mut live.results[place];
            let is_next = !is_open && window.is_some() && window != result.closed.window;
            self.meters.windows_closed.add(u64::from(is_next));
            result.kept.next_row += if is_open { 0 } else { rows as i64 };
            match is_open {
                true => result.open = shown,
                false => result.close(shown),
            }
            self.tell(live, delivery.job, "window", &data, is_open);
        }
    }

    /// Tells what the job has seen by now.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn account(&self, job: JobId, account: &Account) -> Result<(), Unkept> {
        let live = self.live(job)?;
        let mut live = lock(&live);
        let mut data = json!({ "job": job });
        if let (Some(all), Ok(Value::Object(own))) = (data.as_object_mut(), serde_json::to_value(account)) {
            all.extend(own);
            let lag = account.watermark_ns.map(|at| (crate::store::now_ns() - at).to_string());
            all.insert("lag_ns".into(), lag.into());
        }
        live.account = data.clone();
        live.agents.clone_from(&account.agents);
        live.taps = account.taps;
        self.tell(&mut live, job, "account", &data, true);
        if live.sample_rate != account.sample_rate {
            live.sample_rate = account.sample_rate;
            let is_whole = account.sample_rate.is_none_or(|rate| rate >= 1.0);
            let reason = match is_whole {
                true => "every flow is looked at",
                false => "the query has a SAMPLE, or an agent has more packets than it can look at",
            };
            let data = json!({ "job": job, "rate": account.sample_rate, "reason": reason });
            self.tell(&mut live, job, "sampling", &data, false);
        }
        Ok(())
    }

    /// What is known of each agent of a job; nothing, when that ended long ago.
    ///
    /// # Errors
    /// When there is no such job.
    pub(crate) fn agents(&self, job: JobId) -> Result<(Vec<AgentAccount>, Option<TapAccount>), Unkept> {
        let live = self.live(job)?;
        let live = lock(&live);
        Ok((live.agents.clone(), live.taps))
    }

    /// The job has come so far. `reason`: what people should know, as that nobody runs it at the moment. After
    /// [`State::Ended`] nothing is taken any more, and its rows are in files.
    ///
    /// # Errors
    /// The store's.
    pub fn turn(&self, job: JobId, state: State, reason: Option<&str>) -> Result<(), Unkept> {
        let live = self.live(job)?;
        let mut live = lock(&live);
        if !self.store.set_state(job, &state, reason)? {
            return Ok(());
        }
        let has_ended = matches!(state, State::Ended(_));
        let why = reason.or(state.reason()).map(str::to_owned);
        let data = json!({ "job": job, "state": state.word(), "reason": why, "outcome": state.outcome() });
        live.state = state;
        self.tell(&mut live, job, "job", &data, false);
        if has_ended {
            for result in &live.results {
                if let Err(error) = self.history.settle(job, &result.kept, true) {
                    tracing::warn!("rows of job {job} stay in the store: {error}");
                }
            }
            drop(live);
            self.ring(job);
        }
        Ok(())
    }

    /// How far the lanes of a job have come, of what is on disk.
    ///
    /// # Errors
    /// The store's.
    pub fn marks(&self, job: JobId) -> Result<Vec<Mark>, Unkept> {
        let marks = self.store.marks(job)?;
        Ok(marks.into_iter().map(|(lane, seq)| Mark { lane, seq }).collect())
    }

    /// Looks after what waits: rows that have waited long become files, what is too old goes, jobs nobody looks at that
    /// have ended are let go of.
    pub(crate) fn look_after(&self) -> Result<(), Unkept> {
        for (job, place) in self.store.old_tails(crate::store::now_ns() - 60_000_000_000)? {
            let live = self.live(job)?;
            let live = lock(&live);
            if let Some(result) = live.results.get(place) {
                let all = matches!(live.state, State::Ended(_));
                self.history.settle(job, &result.kept, all)?;
            }
        }
        self.history.retain(Keep::Results, &self.limits.retention)?;
        self.history.retain(Keep::Tuples, &self.limits.tuples_retention)?;
        let ring = self.limits.ring_time;
        lock(&self.jobs).retain(|_, live| {
            let live = lock(live);
            !matches!(live.state, State::Ended(_)) || live.ring.newest().is_some_and(|at| at.elapsed() < ring)
        });
        Ok(())
    }

    /// The job, from the store where it is not known yet.
    fn live(&self, job: JobId) -> Result<Arc<Mutex<Live>>, Unkept> {
        let mut jobs = lock(&self.jobs);
        if let Some(live) = jobs.get(&job) {
            return Ok(live.clone());
        }
        let known = self.store.job(job)?.ok_or(Unkept::NoJob(job))?;
        let live = Live::new(known.state, self.store.results(job)?)?;
        let live = Arc::new(Mutex::new(live));
        jobs.insert(job, live.clone());
        Ok(live)
    }
}

fn new_tail(batch: &Batch, watermark_ns: i64) -> NewTail {
    let times = time_column(batch.schema()).map(|id| batch.i64(id));
    let known = || times.iter().flat_map(|times| times.iter()).map(|at| at.unwrap_or(watermark_ns));
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
