//! Runtime of a job: its results, lanes, and published position.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use collect::{LaneActivity, LaneId, ReportError, ReportPart, WorkerReport};
use control::{JobPace, PaceSettings, PaceState};
use link::ClockOffset;
use plan::Plan;
use planner::BothTaps;
use serde::{Deserialize, Serialize};
use sinks::distinct_names;
use stream::LossCount;
use tuple::{Batch, FieldId};
use wire::Timestamp;

use super::GatewaySettings;
use super::commit_queue::PendingRecord;
use super::fleet::FleetOrder;
use super::job_input::JobInput;
use super::job_joiner::{JOINED, JobJoiner, JoinLimits};
use super::lanes::{AwaitedLane, JobLanes, LaneEnd, LaneFacts, LaneKey, read_mark};
use super::mirror_worker::MirrorWorker;
use super::tuple_results::{EmitTime, TupleResults};
use super::window_results::{ALL_LANES, ReleasedRows, WindowResults};
use crate::job::{JobEnding, JobId, JobState};
use crate::results::coverage;
use crate::results::hub::{AgentCoverage, JobAccount, ResultDelivery, ResultTable, WindowState};
use crate::store::sqlite::{FrameFilter, FrameStore, StoreError};

/// Records per read from the store.
const FRAMES: usize = 64;

/// Results of a job.
pub enum JobResults {
    /// Of processors.
    Windows(Box<WindowResults>),
    /// Tuples.
    Tuples(Box<TupleResults>),
}

/// Published position of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobProgress {
    /// Windows that end before this event time are published; `i64::MAX`: all.
    pub watermark_ns: i64,
    /// Start of the last published window of each processor.
    pub latest_ns: Vec<Option<i64>>,
    /// Late tuples: their windows were closed.
    pub late: u64,
}

/// Unpublished rows.
pub struct UnpublishedRows {
    /// Index of the result.
    pub result: usize,
    /// The rows.
    pub batch: Batch,
    /// Watermark.
    pub watermark_ns: i64,
    /// Missing agents.
    pub coverage: AgentCoverage,
}

impl UnpublishedRows {
    /// Rows of tuples, which lack no agent.
    pub fn of_tuples(batch: Batch, watermark_ns: i64) -> UnpublishedRows {
        UnpublishedRows {
            result: 0,
            batch,
            watermark_ns,
            coverage: AgentCoverage::default(),
        }
    }

    /// The rows as the hub receives them.
    pub fn delivery(&self, job: JobId, state: WindowState) -> ResultDelivery<'_> {
        ResultDelivery {
            job,
            result: self.result,
            batch: &self.batch,
            state,
            watermark_ns: self.watermark_ns,
            coverage: &self.coverage,
        }
    }
}

/// See the module documentation.
pub struct JobRuntime {
    pub id: JobId,
    pub plan: Arc<Plan>,
    pub results: JobResults,
    pub input: JobInput,
    /// Mirroring of switches, for a job in a network.
    pub mirror: Option<MirrorWorker>,
    /// Whether the monitors lack packets because switches have not begun to mirror since the start of the server.
    pub lacks_mirrors: bool,
    pub lanes: JobLanes,
    /// Agents for which windows wait.
    pub pace: JobPace,
    pub progress: JobProgress,
    /// Stored position.
    pub published: Option<JobProgress>,
    /// Late tuples counted before this start of the gateway, minus those in records read again.
    late_before: i128,
    pub rows: Vec<UnpublishedRows>,
    /// Set when its agents have finished: its remaining rows must be published.
    pub ending: Option<JobEnding>,
    /// Upper bound of the bytes of stored records.
    pub frames_bytes: u64,
    /// Size at which records are replaced by their partial result.
    pub frames_bytes_max: u64,
    /// Monotonic time of the last publication.
    pub published_at_ns: u64,
    /// State last shown to users.
    pub told: Option<(JobState, Option<String>)>,
    /// Unreadable stored records of an earlier process.
    pub unreadable: u64,
    /// Per result, the columns that are unknown if agents are missing.
    upper_ends: Vec<Vec<FieldId>>,
    /// Account last shown to users.
    pub accounted: Option<JobAccount>,
    /// Reasons of agents that cannot run the job.
    pub troubles: BTreeMap<String, String>,
}

impl JobRuntime {
    /// A job without data. `kept`: stored rows of its first result.
    pub fn new(
        id: JobId,
        plan: &Arc<Plan>,
        kept: u64,
        (window_bytes, frames_bytes): (usize, u64),
    ) -> JobRuntime {
        let pipelines = plan.dataflow.pipelines.len();
        let results = match pipelines {
            0 => JobResults::Tuples(Box::new(TupleResults::new(plan, kept, window_bytes))),
            _ => JobResults::Windows(Box::new(WindowResults::new(plan, window_bytes))),
        };
        let progress = JobProgress {
            watermark_ns: i64::MIN,
            latest_ns: vec![None; pipelines],
            late: 0,
        };
        JobRuntime {
            id,
            plan: plan.clone(),
            results,
            input: JobInput::Agents,
            mirror: None,
            lacks_mirrors: false,
            lanes: JobLanes::default(),
            pace: JobPace::default(),
            progress,
            published: None,
            late_before: 0,
            rows: Vec::new(),
            ending: None,
            frames_bytes: 0,
            frames_bytes_max: frames_bytes,
            published_at_ns: 0,
            told: None,
            unreadable: 0,
            upper_ends: (0..pipelines)
                .map(|result| coverage::upper_ends(&plan.dataflow, result, plan.monitor.sample))
                .collect(),
            accounted: None,
            troubles: BTreeMap::new(),
        }
    }

    /// A job as ordered, without data; `both`: joins the requests of both taps.
    pub fn of_order(
        order: &FleetOrder,
        both: Option<&BothTaps>,
        kept: u64,
        settings: &GatewaySettings,
    ) -> JobRuntime {
        let bounds = (settings.window_bytes_max, settings.frames_bytes);
        let Some(both) = both else {
            return JobRuntime::new(order.id, &order.plan, kept, bounds).paced(settings.pace);
        };
        let patience_ns = i64::try_from(settings.join_patience.as_nanos()).unwrap_or(i64::MAX);
        let limits = JoinLimits {
            patience_ns,
            bytes_max: settings.join_bytes_max,
        };
        let joining = JobJoiner::new(order.id, both, limits, settings.window_bytes_max);
        JobRuntime::new(order.id, &both.joined, kept, bounds)
            .paced(settings.pace)
            .joining(joining)
    }

    /// Sets the limits of waiting for agents.
    pub fn paced(mut self, settings: PaceSettings) -> JobRuntime {
        self.pace = JobPace::new(settings);
        self
    }

    /// Sets the join of a job over both taps.
    pub fn joining(mut self, joining: JobJoiner) -> JobRuntime {
        self.input = JobInput::BothTaps(Box::new(joining));
        self.with_collector(|collector, _| collector.join(JOINED));
        self
    }

    /// Schemas of its results.
    pub fn tables(&self) -> Vec<ResultTable> {
        match &self.results {
            JobResults::Tuples(tuples) => {
                let (schema, columns) = tuples.shown().columns();
                vec![ResultTable {
                    processor: None,
                    schema: schema.clone(),
                    columns,
                    keys: 0,
                }]
            }
            JobResults::Windows(windows) => {
                let pipelines = &self.plan.dataflow.pipelines;
                let names = distinct_names(pipelines.iter().map(|p| p.name.as_str()));
                let table = |(i, name)| {
                    let schema = windows.collector.engine().result_schema(i).clone();
                    let columns = schema.ids().collect();
                    let keys = pipelines[i].group.len();
                    ResultTable {
                        processor: Some(name),
                        schema,
                        columns,
                        keys,
                    }
                };
                names.into_iter().enumerate().map(table).collect()
            }
        }
    }

    /// Whether rows are stored in the transaction that commits the records.
    pub fn is_direct(&self) -> bool {
        matches!(&self.results, JobResults::Tuples(tuples) if tuples.when == EmitTime::AtOnce)
    }

    /// Decodes a record.
    pub fn decode(&self, payload: &[u8]) -> Result<WorkerReport, ReportError> {
        match self.input.joiner() {
            Some(joining) => joining.decode(payload),
            None => self.decode_result(payload),
        }
    }

    /// Decodes a record of results.
    fn decode_result(&self, payload: &[u8]) -> Result<WorkerReport, ReportError> {
        match &self.results {
            JobResults::Windows(windows) => windows.collector.decode(payload),
            JobResults::Tuples(tuples) => WorkerReport::decode(payload, &tuples.engines),
        }
    }

    /// Restores results that were committed and not published before a restart. `agents` have the order: windows also
    /// wait for those without a committed record.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn go_on<'a>(
        &mut self,
        store: &FrameStore,
        progress: Option<&str>,
        agents: impl Iterator<Item = &'a String>,
        until_ns: u64,
    ) -> Result<(), StoreError> {
        let known = progress.and_then(|text| serde_json::from_str::<JobProgress>(text).ok());
        if let Some(known) = known {
            self.progress = known.clone();
            self.published = Some(known);
        }
        if let JobResults::Windows(windows) = &mut self.results {
            windows.begin_at(self.progress.watermark_ns, &self.progress.latest_ns);
        }
        let marks: Vec<_> = store.lanes(self.id)?.iter().filter_map(read_mark).collect();
        for (key, seq, facts) in &marks {
            let (id, _) = self.lanes.join(key);
            if let Some(known) = self.lanes.known.get_mut(key) {
                known.seq = *seq;
                known.facts = facts.clone();
            }
            self.adopt(id, facts, i64::MIN);
        }
        agents.for_each(|agent| self.expect(agent, until_ns));
        if let Some(joining) = self.input.joiner_mut() {
            self.unreadable += joining.go_on(store)?;
        }
        self.replay(store)?;
        for (key, _, facts) in &marks {
            let (id, _) = self.lanes.join(key);
            self.adopt(id, facts, facts.watermark_ns);
            if let Some(joining) = self.input.joiner_mut() {
                joining.come_to(id, facts.state(), facts);
            }
        }
        if let (Some(joining), JobResults::Windows(windows)) =
            (self.input.joiner(), &mut self.results)
        {
            windows.collector.adopt(
                JOINED,
                LaneActivity::Active,
                joining.watermark(),
                LossCount::default(),
            );
        }
        self.remember_losses();
        if let JobResults::Windows(windows) = &self.results {
            self.late_before = i128::from(self.progress.late) - i128::from(windows.late());
        }
        self.frames_bytes = store.bytes(self.id, self.frames_kept())?;
        Ok(())
    }

    /// Selects the stored records that contain results.
    pub fn frames_kept(&self) -> FrameFilter {
        match self.input.joiner() {
            Some(_) => FrameFilter::OfMany,
            None => FrameFilter::All,
        }
    }

    /// Notes the losses of lanes until a later lane of the same agent covers whole windows.
    fn remember_losses(&mut self) {
        let reach = self.reach_ns();
        let now = self.progress.watermark_ns;
        let later: BTreeMap<String, i64> = self
            .lanes
            .known
            .iter()
            .filter(|(_, known)| known.facts.end == LaneEnd::Open)
            .map(|(key, known)| {
                let from = known
                    .facts
                    .begin_ns
                    .unwrap_or_else(|| known.facts.watermark_ns.max(now));
                (key.agent.clone(), from.saturating_add(reach))
            })
            .collect();
        let lost = self
            .lanes
            .known
            .iter_mut()
            .filter(|(_, known)| known.facts.end == LaneEnd::Lost);
        lost.for_each(|(key, known)| known.missed_until_ns = later.get(&key.agent).copied());
    }

    fn adopt(&mut self, id: LaneId, facts: &LaneFacts, watermark_ns: i64) {
        if let JobResults::Windows(windows) = &mut self.results {
            windows
                .collector
                .adopt(id, facts.state(), Timestamp(watermark_ns), facts.loss());
        }
    }

    fn replay(&mut self, store: &FrameStore) -> Result<(), StoreError> {
        let mut last = 0;
        loop {
            let frames = store.read(self.id, last, FRAMES)?;
            let Some(newest) = frames.last() else {
                return Ok(());
            };
            last = newest.id;
            for frame in frames {
                let key = frame.of.lane.as_deref().and_then(LaneKey::read);
                if self.input.joiner().is_some() && key.is_some() {
                    // Counted as part of the join's output.
                    continue;
                }
                let lane = key.map_or(ALL_LANES, |key| self.lanes.join(&key).0);
                match self.decode_result(&frame.of.payload) {
                    Ok(report) => self.merge(lane, report),
                    // Written by another version of the program.
                    Err(_) => self.unreadable += 1,
                }
            }
        }
    }

    /// Adds a report to the results.
    pub fn merge(&mut self, lane: LaneId, report: WorkerReport) {
        match &mut self.results {
            JobResults::Tuples(tuples) => {
                let watermark_ns = report.watermark.0;
                let rows = tuples.take(&report).into_iter();
                self.rows
                    .extend(rows.map(|batch| UnpublishedRows::of_tuples(batch, watermark_ns)));
            }
            JobResults::Windows(windows) => {
                let mut out = ReleasedRows::default();
                if self.lacks_mirrors {
                    windows.mark_until(report.watermark.0);
                }
                windows.merge(lane, report, &mut out);
                self.add_rows(out);
            }
        }
    }

    /// Switches have begun to mirror: the windows up to this time lack packets.
    pub fn begin_mirrored(&mut self, until_ns: i64) {
        let lacked = std::mem::take(&mut self.lacks_mirrors);
        if let JobResults::Windows(windows) = &mut self.results
            && lacked
        {
            windows.mark_until(until_ns);
        }
    }

    /// Adds joined requests to the results.
    pub fn merge_joined(&mut self, mut report: WorkerReport) {
        if let JobResults::Windows(windows) = &self.results {
            // Re-encoded as an agent's report, because agents have their own random seeds.
            match windows.collector.decode(&report.encode()) {
                Ok(decoded) => report = decoded,
                Err(_) => self.unreadable += 1,
            }
        }
        self.merge(JOINED, report);
    }

    pub fn add_rows(&mut self, released: ReleasedRows) {
        for (output, missing) in released.0 {
            let Some(result) = output.pipeline else {
                continue;
            };
            let start = output
                .batch
                .schema()
                .find("window_start")
                .map(|id| output.batch.i64(id).clone());
            let latest = start.and_then(|starts| starts.iter().flatten().max());
            let known = &mut self.progress.latest_ns[result];
            *known = (*known).max(latest);
            let row = self.row(result, output, &missing);
            self.rows.push(row);
        }
    }

    /// Rows with the agents of the missing lanes.
    fn row(
        &self,
        result: usize,
        output: stream::EngineOutput,
        missing: &[LaneId],
    ) -> UnpublishedRows {
        let missing = self.lanes.names(missing);
        let batch = if missing.is_empty() {
            output.batch
        } else {
            coverage::without(&output.batch, &self.upper_ends[result])
        };
        UnpublishedRows {
            result,
            batch,
            watermark_ns: output.watermark_ns,
            coverage: AgentCoverage { missing },
        }
    }

    /// Adds a committed record to the results. `clock`: offset of the agent's clock, for a job over both taps.
    pub fn merge_record(&mut self, entry: PendingRecord, clock: Option<ClockOffset>) {
        if self.ending.is_some() && self.input.joiner().is_some() {
            // The join has emitted everything.
            return;
        }
        let PendingRecord {
            key,
            record,
            report,
            ..
        } = entry;
        let key = &key;
        let (_, mut facts) = self.lanes.mark(key);
        facts.take(
            &record,
            report
                .as_ref()
                .map(|report| (report.watermark.0, report.loss)),
        );
        if let Some(clock) = clock {
            facts.ahead_ns = clock.ns;
            facts.uncertain_ns = clock.uncertain_ns;
        }
        // Direct rows were committed with the record.
        let is_merged = self.is_direct() && matches!(self.input, JobInput::Agents);
        let report = report.filter(|_| !is_merged);
        let (lane, is_new) = self.lanes.join(key);
        if is_new {
            self.arrive(key, lane, report.as_ref().map(|report| report.watermark.0));
        }
        if let Some(known) = self.lanes.known.get_mut(key) {
            known.seq = record.seq();
            known.facts = facts;
        }
        if let (Some(joining), Some(known)) = (self.input.joiner_mut(), self.lanes.known.get(key)) {
            joining.come_to(lane, known.facts.state(), &known.facts);
        }
        if let Some(mut report) = report {
            if !matches!(self.input, JobInput::Agents) {
                // Counted as part of the output of the join or merge.
                report.part = ReportPart::default();
            }
            self.merge(lane, report);
        }
        match self.lanes.known.get(key).map(|known| known.facts.end) {
            Some(LaneEnd::Finished) => self.turn(&[lane], LaneActivity::Finished),
            Some(LaneEnd::Lost) => self.lose(key),
            _ => {}
        }
        self.heal();
    }

    /// Marks the rest of a lane as lost.
    fn lose(&mut self, key: &LaneKey) {
        let later = self
            .lanes
            .open_of(&key.agent)
            .map(|(_, known)| known.facts.watermark_ns)
            .min();
        let reach = self.reach_ns();
        let now = self.progress.watermark_ns;
        let Some(known) = self.lanes.known.get_mut(key) else {
            return;
        };
        known.facts.end = LaneEnd::Lost;
        known.missed_until_ns = later.map(|from| from.max(now).saturating_add(reach));
        let id = known.id;
        self.turn(&[id], LaneActivity::Lost);
    }

    fn reach_ns(&self) -> i64 {
        match &self.results {
            JobResults::Windows(windows) => windows.collector.engine().reach_ns(),
            JobResults::Tuples(_) => 0,
        }
    }

    /// Handles the first record of a lane: windows no longer wait for its agent as a whole, and the loss of an earlier
    /// lane of the agent ends when this one covers whole windows.
    fn arrive(&mut self, key: &LaneKey, lane: LaneId, watermark_ns: Option<i64>) {
        let awaited = self.lanes.awaited.remove(&key.agent);
        if self.pace.wait(&key.agent) == PaceState::Waited {
            self.turn(&[lane], LaneActivity::Active);
        } else {
            self.turn(&[lane], LaneActivity::Idle);
        }
        awaited
            .into_iter()
            .for_each(|awaited| self.turn(&[awaited.id], LaneActivity::Finished));
        // No lane covers closed windows.
        let from = watermark_ns.map_or(self.progress.watermark_ns, |ns| {
            ns.max(self.progress.watermark_ns)
        });
        let until = from.saturating_add(self.reach_ns());
        let earlier = |(known, of): &(&LaneKey, &mut super::lanes::KnownLane)| {
            known.agent == key.agent && *known != key && of.facts.end == LaneEnd::Lost
        };
        let lost = self.lanes.known.iter_mut().filter(earlier);
        lost.for_each(|(_, known)| known.missed_until_ns = known.missed_until_ns.or(Some(until)));
    }

    fn heal(&mut self) {
        let JobResults::Windows(windows) = &self.results else {
            return;
        };
        let now = windows.collector.watermark().0;
        let due = |until: &Option<i64>| until.is_some_and(|until| now >= until);
        let healed = self
            .lanes
            .known
            .values_mut()
            .filter(|known| due(&known.missed_until_ns));
        let healed: Vec<LaneId> = healed
            .map(|known| {
                known.missed_until_ns = None;
                known.id
            })
            .collect();
        self.turn(&healed, LaneActivity::Finished);
    }

    /// Agents behind the watermark.
    pub fn lacking(&self) -> Vec<String> {
        let JobResults::Windows(windows) = &self.results else {
            return Vec::new();
        };
        let now = windows.collector.watermark();
        self.lanes
            .names(&windows.collector.lanes().coverage((now, now), 0).missing)
    }

    /// Changes the state of lanes and collects completed windows.
    pub fn with_collector(&mut self, act: impl FnOnce(&mut collect::Collector, &mut ReleasedRows)) {
        if let JobResults::Windows(windows) = &mut self.results {
            let mut out = ReleasedRows::default();
            act(&mut windows.collector, &mut out);
            self.add_rows(out);
        }
    }

    /// An agent receives the order: windows wait for its first report.
    pub fn expect(&mut self, agent: &str, until_ns: u64) {
        let is_known = self.lanes.known.keys().any(|key| key.agent == agent);
        if !is_known && !self.lanes.awaited.contains_key(agent) {
            let id = self.lanes.number(agent);
            self.lanes.awaited.insert(
                agent.to_owned(),
                AwaitedLane {
                    id,
                    until_ns: Some(until_ns),
                },
            );
            self.turn(&[id], LaneActivity::Active);
        }
    }

    /// Sets the state of lanes in the collector.
    pub fn turn(&mut self, ids: &[LaneId], state: LaneActivity) {
        if let Some(joining) = self.input.joiner_mut() {
            ids.iter().for_each(|id| joining.lanes.set(*id, state));
        }
        self.with_collector(|collector, out| {
            ids.iter().for_each(|id| collector.turn(*id, state, out))
        });
    }

    /// Closes all windows.
    pub fn end(&mut self) {
        if self.progress.watermark_ns == i64::MAX {
            return;
        }
        if let Some(joining) = self.input.joiner_mut() {
            let report = joining.give_all();
            self.merge_joined(report);
        }
        match &mut self.results {
            JobResults::Windows(_) => self.with_collector(|collector, out| collector.end(out)),
            JobResults::Tuples(tuples) => {
                let rows = tuples.finish().into_iter();
                self.rows
                    .extend(rows.map(|batch| UnpublishedRows::of_tuples(batch, i64::MAX)));
            }
        }
        self.note_progress();
        self.progress.watermark_ns = i64::MAX;
    }

    /// Updates the position up to which results may be published.
    pub fn note_progress(&mut self) {
        if let (JobResults::Windows(windows), None) = (&self.results, self.input.reader()) {
            // The maximum is reserved for the end.
            let watermark_ns = windows.collector.watermark().0.min(i64::MAX - 1);
            self.progress.watermark_ns = self.progress.watermark_ns.max(watermark_ns);
            let late = i128::from(windows.late()) + self.late_before;
            self.progress.late = u64::try_from(late).unwrap_or(0);
        }
    }

    /// Content of open windows. Lanes that are not waited for count as missing; active lanes have not reached the end
    /// yet.
    pub fn open_rows(&mut self) -> Vec<UnpublishedRows> {
        let JobResults::Windows(windows) = &mut self.results else {
            return Vec::new();
        };
        let mut out = ReleasedRows::default();
        windows.collector.open_rows(&mut out);
        let active = windows
            .collector
            .lanes()
            .states()
            .filter(|(_, state)| *state == LaneActivity::Active);
        let active: BTreeSet<LaneId> = active.map(|(id, _)| id).collect();
        out.0
            .iter_mut()
            .for_each(|(_, missing)| missing.retain(|id| !active.contains(id)));
        let row = |(output, missing): (stream::EngineOutput, Vec<LaneId>)| {
            let result = output.pipeline?;
            Some(self.row(result, output, &missing))
        };
        out.0.into_iter().filter_map(row).collect()
    }

    /// Reasons of agents that cannot run it.
    pub fn agent_troubles(&self) -> impl Iterator<Item = String> {
        self.troubles
            .iter()
            .map(|(agent, why)| format!("{agent}: {why}"))
    }

    /// Whether LIMIT … ROWS is reached.
    pub fn is_full(&self) -> bool {
        matches!(&self.results, JobResults::Tuples(tuples) if tuples.shown().is_full())
    }

    /// Sampling rate of flows: the lowest of the running monitors.
    fn sample_rate(&self) -> Option<f64> {
        let open = self
            .lanes
            .known
            .values()
            .filter(|known| known.facts.end == LaneEnd::Open);
        let rates = open.filter_map(|known| known.facts.counters.get("sample_ppm"));
        rates.min().map(|millionths| *millionths as f64 / 1e6)
    }

    /// Current counters of its monitors.
    pub fn account(&self) -> JobAccount {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        let mut records_lost = 0;
        let mut tuples_lost = 0;
        for known in self.lanes.known.values() {
            records_lost += known.facts.records_lost;
            tuples_lost += known.facts.tuples_lost;
            for (name, n) in &known.facts.counters {
                *sums.entry(name.as_str()).or_default() += n;
            }
        }
        let sum = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| sums.get(name))
                .copied()
                .unwrap_or_default()
        };
        let of_quality =
            |(name, n): (&&str, &u64)| Some((name.strip_prefix("quality.")?.to_owned(), *n));
        let watermark =
            Some(self.progress.watermark_ns).filter(|ns| ![i64::MIN, i64::MAX].contains(ns));
        JobAccount {
            watermark_ns: watermark,
            received: sum(&["received", "packets"]),
            parsed: sum(&["parsed"]),
            filtered: sum(&["filtered"]),
            sampled_out: sum(&["sampled_out"]),
            dropped: sum(&["dropped"]),
            undecodable: sum(&["undecodable"]),
            lost_before_us: sum(&["lost_before_us", "lost"]),
            tuples: sum(&["tuples"]),
            records_lost,
            tuples_lost,
            quality: sums.iter().filter_map(of_quality).collect(),
            taps: self.input.joiner().map(|joining| joining.counts().into()),
            agents: Vec::new(),
            sample_rate: self.sample_rate(),
        }
    }
}
