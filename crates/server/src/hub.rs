//! The door through which results come: whoever runs a job tells the hub its columns, its rows and its state, and the hub
//! keeps and shows them.
//!
//! Promises: when [`Hub::publish`] of closed rows has returned `Ok`, they and their marks are on disk together, and will be
//! there exactly once whatever is killed; when it has returned an error, nothing of them is kept, and the same delivery may
//! be tried again. Rows of a result are kept in the order in which they are published. Open rows are shown and never kept.
//! No call waits for a client. Any thread may call.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};
use tuple::{Batch, FieldId, Schema};
use utoipa::ToSchema;

use crate::alerts::Alerts;
use crate::bell::Bell;
use crate::columns::{self, as_kept, encode, time_column};
use crate::events::{Event, Queue, Ring};
use crate::history::History;
use crate::job::{JobId, Keep, State};
use crate::limits::Limits;
use crate::meters::Meters;
use crate::store::{KeptResult, NewTail, Progress, Store};
use crate::unkept::Unkept;

/// Most rows told in one event, and shown of a result to a client that has just come.
pub const EVENT_ROWS_MAX: usize = 1000;
/// Most bytes of an event, about.
pub const EVENT_BYTES_MAX: usize = 256 << 10;

/// A result of a job before its first row.
#[derive(Clone, Debug)]
pub struct ResultTable {
    /// The processor that makes it; `None`: tuples.
    pub processor: Option<String>,
    /// What its batches look like.
    pub schema: Arc<Schema>,
    /// The columns that they have.
    pub columns: Vec<FieldId>,
    /// How many of them, behind those of the window, say which group a row is of.
    pub keys: usize,
}

/// Whether rows may still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowState {
    /// They may: the next rows of that result, open or closed, take the place of those of the same window.
    Open,
    /// They never will.
    Closed,
}

/// Who took part in rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Names of agents that should have and did not.
    pub missing: Vec<String>,
}

/// How far a lane has come: everything up to `seq` is in what has been published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The lane, in the gateway's words.
    pub lane: String,
    /// The last number.
    pub seq: u64,
}

/// Rows of one result of a job.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'d> {
    /// Of which job.
    pub job: JobId,
    /// Of which of its results.
    pub result: usize,
    /// The rows, in their order; may be none, where only marks move on.
    pub batch: &'d Batch,
    /// Whether they may still change.
    pub state: WindowState,
    /// Event time has come here.
    pub watermark_ns: i64,
    /// Who took part.
    pub coverage: &'d Coverage,
    /// How far the lanes have come with this; kept with closed rows only.
    pub marks: &'d [Mark],
}

/// What a job has seen by now, for people who watch it. Told about once a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Account {
    /// Event time, in nanoseconds since the epoch.
    #[serde(serialize_with = "columns::maybe_text")]
    pub watermark_ns: Option<i64>,
    /// Packets received.
    pub received: u64,
    /// Of these: given to parsers.
    pub parsed: u64,
    /// Refused by FROM, TO or LIMIT.
    pub filtered: u64,
    /// Not of the sample.
    pub sampled_out: u64,
    /// Lost within.
    pub dropped: u64,
    /// No packets that we can read.
    pub undecodable: u64,
    /// Lost before they were received.
    pub lost_before_us: u64,
    /// Tuples by quality.
    pub quality: HashMap<String, u64>,
    /// The share of flows that is looked at: at the agent that looks at the fewest.
    pub sample_rate: Option<f64>,
    /// Which requests two taps have seen, where the query asks for both.
    pub taps: Option<TapAccount>,
    /// The same of each agent; not told in events.
    #[serde(skip)]
    pub agents: Vec<AgentAccount>,
}

/// How many requests were found at which taps of their connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct TapAccount {
    /// At both.
    pub joined: u64,
    /// At the client's only.
    pub client_only: u64,
    /// At the server's only.
    pub server_only: u64,
    /// Requests for which there was no room: they were not waited for, or forgotten.
    pub unkept: u64,
}

impl From<stream::TapCounts> for TapAccount {
    fn from(counts: stream::TapCounts) -> TapAccount {
        let stream::TapCounts { joined, client_only, server_only, unkept } = counts;
        TapAccount { joined, client_only, server_only, unkept }
    }
}

/// What an agent has seen of a job, and how it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct AgentAccount {
    /// Its name.
    pub agent: String,
    /// How the job does there: waiting, starting, running, stopping, flushing, finished, poisoned, refused, absent.
    pub state: String,
    /// Why, where it is not as it should be.
    pub reason: Option<String>,
    /// What its monitors have counted, over all their starts: packets, bytes, tuples, flows, gaps, lost.
    pub counters: BTreeMap<String, u64>,
    /// Records that never came.
    pub records_lost: u64,
    /// Tuples in these, as far as is known.
    pub tuples_lost: u64,
}

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

/// A job that runs, or has been looked at.
struct Live {
    state: State,
    results: Vec<LiveResult>,
    account: Value,
    agents: Vec<AgentAccount>,
    taps: Option<TapAccount>,
    /// The share of flows that is looked at, as it was told last.
    sample_rate: Option<f64>,
    ring: Ring,
}

struct LiveResult {
    kept: KeptResult,
    /// What its batches look like when they come; `None`: none has come to this life of the server.
    columns: Option<Vec<FieldId>>,
    schema: Arc<Schema>,
    /// The last rows that were told: of windows the last window, of tuples the last.
    closed: Shown,
    open: Shown,
}

/// Rows as they were told last.
#[derive(Default)]
struct Shown {
    window: Option<(i64, i64)>,
    /// Each with its bytes.
    rows: VecDeque<(usize, Value)>,
    bytes: usize,
}

impl Shown {
    /// Adds a row, if there is room.
    fn push(&mut self, row: Value) -> bool {
        let bytes = row.to_string().len();
        let has_room = self.rows.len() < EVENT_ROWS_MAX && self.bytes + bytes <= EVENT_BYTES_MAX;
        if has_room {
            self.bytes += bytes;
            self.rows.push_back((bytes, row));
        }
        has_room
    }

    fn values(&self) -> Vec<&Value> {
        self.rows.iter().map(|(_, row)| row).collect()
    }
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

    /// Wakes `bell` from now on when there are rows of a job, or it has ended.
    pub(crate) fn wake(&self, job: JobId, bell: &Arc<Bell>) {
        all(&self.bells).push((job, Arc::downgrade(bell)));
    }

    fn ring(&self, job: JobId) {
        let mut bells = all(&self.bells);
        bells.retain(|(_, bell)| bell.strong_count() > 0);
        bells
            .iter()
            .filter(|(of, _)| *of == job)
            .filter_map(|(_, bell)| bell.upgrade())
            .for_each(|b| b.ring());
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

    /// Whether somebody looks at a job as it runs.
    pub(crate) fn is_watched(&self, job: JobId) -> bool {
        all(&self.clients).iter().filter_map(Weak::upgrade).any(|client| client.jobs.contains(&job.0))
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
            let mut shown = Shown { window, ..Shown::default() };
            for row in from..from + rows {
                if !shown.push(Value::from(columns::row(batch, row))) {
                    break;
                }
            }
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
        all(&self.jobs).retain(|_, live| {
            let live = lock(live);
            !matches!(live.state, State::Ended(_)) || live.ring.newest().is_some_and(|at| at.elapsed() < ring)
        });
        Ok(())
    }

    /// The job, from the store where it is not known yet.
    fn live(&self, job: JobId) -> Result<Arc<Mutex<Live>>, Unkept> {
        let mut jobs = all(&self.jobs);
        if let Some(live) = jobs.get(&job) {
            return Ok(live.clone());
        }
        let known = self.store.job(job)?.ok_or(Unkept::NoJob(job))?;
        let results = self.store.results(job)?;
        let results = results.into_iter().map(LiveResult::new).collect::<Result<_, _>>()?;
        let live = Live {
            state: known.state,
            results,
            account: Value::Null,
            agents: Vec::new(),
            taps: None,
            sample_rate: None,
            ring: Ring::default(),
        };
        let live = Arc::new(Mutex::new(live));
        jobs.insert(job, live.clone());
        Ok(live)
    }

    fn tell(&self, live: &mut Live, job: JobId, kind: &'static str, data: &Value, provisional: bool) {
        let seq = self.seq.fetch_add(1, Ordering::Relaxed) + 1;
        let event = Event::new(seq, kind, data, provisional);
        let bounds = (Instant::now(), self.limits.ring_time, self.limits.ring_bytes);
        live.ring.push(event.clone(), bounds);
        let mut clients = all(&self.clients);
        clients.retain(|client| client.strong_count() > 0);
        for client in clients.iter().filter_map(Weak::upgrade).filter(|client| client.jobs.contains(&job.0)) {
            client.push(&event);
        }
    }

    /// A client comes: behind what it has seen, if that is still here, else with how things stand. Its queue begins with
    /// what it lacks, and everything that comes later is put behind that.
    pub(crate) fn watch(&self, queue: &Arc<Queue>, seen: Seen) -> Result<(), Unkept> {
        // In the order of their numbers, as everybody who takes several.
        let jobs: Vec<_> = queue.jobs.iter().map(|id| self.live(JobId(*id))).collect::<Result<_, _>>()?;
        let locked: Vec<MutexGuard<'_, Live>> = jobs.iter().map(|live| lock(live)).collect();
        let replayed = match seen {
            Seen::UpTo(seq) => locked
                .iter()
                .map(|live| Some(live.ring.behind(seq)?.collect::<Vec<_>>()))
                .collect::<Option<Vec<_>>>(),
            Seen::Nothing | Seen::OtherLife => None,
        };
        match replayed {
            Some(events) => {
                let mut events: Vec<_> = events.into_iter().flatten().collect();
                events.sort_by_key(|event| event.seq);
                events.into_iter().for_each(|event| queue.begin(event));
            }
            None => {
                let seq = self.seq.load(Ordering::Relaxed);
                if let Seen::UpTo(_) | Seen::OtherLife = seen {
                    let reason = match seen {
                        Seen::OtherLife => "the server was started again",
                        _ => "the events between are not kept any more",
                    };
                    queue.begin(Event::new(seq, "gap", &json!({ "reason": reason }), false));
                }
                for (id, live) in queue.jobs.iter().zip(&locked) {
                    queue.begin(Event::new(seq, "snapshot", &live.snapshot(JobId(*id)), false));
                }
            }
        }
        all(&self.clients).push(Arc::downgrade(queue));
        Ok(())
    }

    /// Ends all streams.
    pub(crate) fn end_streams(&self) {
        all(&self.clients).iter().filter_map(Weak::upgrade).for_each(|client| client.end());
    }
}

/// What a client that comes has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Nothing,
    /// Events up to this one.
    UpTo(u64),
    /// Events of a life of the server that is over, or of no life at all.
    OtherLife,
}

impl Live {
    /// The rows as they are kept; `None` when they are not those that were announced.
    fn as_kept(&self, delivery: &Delivery<'_>) -> Option<Batch> {
        let result = self.results.get(delivery.result)?;
        as_kept(delivery.batch, result.columns.as_ref()?, &result.schema, &delivery.coverage.missing)
    }

    fn snapshot(&self, job: JobId) -> Value {
        let result = |result: &LiveResult| {
            let window = |shown: &Shown| {
                json!({
                    "start": shown.window.map(|(start, _)| start.to_string()),
                    "end": shown.window.map(|(_, end)| end.to_string()),
                    "rows": shown.values(),
                })
            };
            json!({
                "processor": result.kept.processor,
                "columns": columns::with_bounds(&result.kept.columns),
                "keys": result.kept.keys,
                "total": result.kept.next_row.to_string(),
                "closed": window(&result.closed),
                "open": window(&result.open),
            })
        };
        json!({
            "job": job,
            "state": self.state.word(),
            "reason": self.state.reason(),
            "outcome": self.state.outcome(),
            "account": self.account,
            "results": self.results.iter().map(result).collect::<Vec<_>>(),
        })
    }
}

impl LiveResult {
    fn new(kept: KeptResult) -> Result<LiveResult, Unkept> {
        let schema = columns::schema(&kept.table, &kept.columns).ok_or(Unkept::Damaged)?;
        Ok(LiveResult { kept, columns: None, schema, closed: Shown::default(), open: Shown::default() })
    }

    /// Rows that came last: of the window that was told last all of them, of tuples the last ones.
    fn close(&mut self, shown: Shown) {
        if self.open.window <= shown.window {
            self.open = Shown::default();
        }
        if self.closed.window != shown.window {
            self.closed = shown;
            return;
        }
        let all = &mut self.closed;
        all.bytes += shown.bytes;
        all.rows.extend(shown.rows);
        while all.rows.len() > EVENT_ROWS_MAX || all.bytes > EVENT_BYTES_MAX {
            let Some((bytes, _)) = all.rows.pop_front() else { break };
            all.bytes -= bytes;
        }
    }
}

/// Rows of one window: its bounds, the first row, how many.
type Stretch = (Option<(i64, i64)>, usize, usize);

/// The stretches of a batch.
fn windows(batch: &Batch) -> Vec<Stretch> {
    let bounds = batch.schema().find("window_start").zip(batch.schema().find("window_end"));
    let Some((start, end)) = bounds else {
        // A client learns of any number of tuples by events of a size that it can take.
        let chunks = (0..batch.rows()).step_by(EVENT_ROWS_MAX);
        return chunks.map(|from| (None, from, EVENT_ROWS_MAX.min(batch.rows() - from))).collect();
    };
    let (starts, ends) = (batch.i64(start), batch.i64(end));
    let mut found: Vec<Stretch> = Vec::new();
    for row in 0..batch.rows() {
        let window = Some((starts.value(row), ends.value(row)));
        match found.last_mut() {
            Some((last, _, rows)) if *last == window => *rows += 1,
            _ => found.push((window, row, 1)),
        }
    }
    found
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

fn lock(live: &Mutex<Live>) -> MutexGuard<'_, Live> {
    live.lock().unwrap_or_else(PoisonError::into_inner)
}

fn all<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
