//! Kills between any two steps, repeatedly: no alert fires twice, no resolution is lost, and each row is stored once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tuple::{Batch, DataType, Field, Schema, TupleWriter, Unit};

use super::*;
use crate::job::JobSpec;
use crate::job::columns;
use crate::rules::windowed_result::WindowedResult;
use crate::store::sqlite::{CommitProgress, KeptResult, LaneMark, NewJob, NewTail, ServerStore};

pub(crate) const STEP_NS: i64 = 10_000_000_000;
const WINDOWS: u64 = 25;

/// Seeded random numbers.
pub(crate) struct CrashDice(pub u64);

impl CrashDice {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// A simulated server with alerts, killed at random by `dice`.
struct AlertTestServer<'f> {
    path: &'f Path,
    alerts: Arc<AlertRegistry>,
    store: ServerStore,
    job: JobId,
    schema: Arc<Schema>,
    /// Names and bodies of acknowledged documents.
    heard: Vec<(String, String)>,
    /// Names of documents sent before a kill that preceded their removal.
    unsure: Vec<String>,
    /// A kill in one of this many steps; 0: never.
    deadly: u64,
    dice: CrashDice,
}

/// Result of a step.
#[derive(PartialEq, Eq)]
enum CrashStep {
    Done,
    Died,
}

pub(crate) fn columns() -> Arc<Schema> {
    let fields = [
        Field::new("window_start", DataType::I64, Unit::EpochNanoseconds, ""),
        Field::new("window_end", DataType::I64, Unit::EpochNanoseconds, ""),
        Field::new("url", DataType::Text, Unit::None, ""),
        Field::new("count", DataType::U64, Unit::None, ""),
    ];
    let heads: Vec<_> = fields.iter().map(columns::ColumnHead::of).collect();
    columns::schema("group-count", &heads).expect("they are columns")
}

/// A window of counts by URL.
pub(crate) fn window(schema: &Arc<Schema>, number: u64, rows: &[(u8, u64)]) -> Batch {
    let ids: Vec<_> = schema.ids().collect();
    let mut writer = TupleWriter::new(schema.clone(), &ids);
    for (url, count) in rows {
        writer.i64(ids[0], number as i64 * STEP_NS);
        writer.i64(ids[1], (number as i64 + 1) * STEP_NS);
        writer.text(ids[2], url.to_string().as_bytes());
        writer.u64(ids[3], *count);
        writer.end_row();
    }
    writer.finish()
}

fn opened(path: &Path) -> (ServerStore, Arc<AlertRegistry>) {
    let store = ServerStore::open(path).expect("the store opens");
    let limits = AlertLimits {
        stall_min: Duration::from_secs(3600),
        ..AlertLimits::default()
    };
    let alerts = AlertRegistry::open(store.alerts.clone(), limits).expect("the rules are read");
    // The test takes waiting documents itself.
    alerts.set_receivers(vec![
        AlertReceiver::read("hook=webhook+http://127.0.0.1:1/#secret-env=PATH").expect("one"),
    ]);
    (store, Arc::new(alerts))
}

impl AlertTestServer<'_> {
    fn begin(path: &Path, deadly: u64, seed: u64) -> AlertTestServer<'_> {
        let (store, alerts) = opened(path);
        let spec = JobSpec::standing("PARSE http PROCESS (group-count: group=url, w=10s)", "");
        let new = NewJob {
            spec: &spec,
            owner: "me",
            outlets: Vec::new(),
            tuples: None,
        };
        let job = store.jobs.add(&new, None).expect("a job").id;
        let schema = columns();
        let ids: Vec<_> = schema.ids().collect();
        let result = KeptResult {
            place: 0,
            processor: Some("group-count".into()),
            table: "group-count".into(),
            columns: columns::heads(&schema, &ids),
            keys: 1,
            next_row: 0,
            rows_dropped: 0,
        };
        store.results.add(job, &[result]).expect("noted");
        let asked = json!({ "name": "many", "job": "1", "when": "count > 10", "for": "20s", "receivers": ["hook"] });
        let rule = AlertRule {
            asked: serde_json::from_value(asked).expect("a rule"),
            looked_at: WindowedResult {
                result: 0,
                size_ns: STEP_NS,
                slide_ns: STEP_NS,
                lateness_ns: 0,
                keys: vec!["url".into()],
            },
        };
        alerts
            .add("me", job, &rule)
            .expect("kept")
            .expect("a new name");
        let heard = Vec::new();
        let unsure = Vec::new();
        let dice = CrashDice(seed);
        AlertTestServer {
            path,
            alerts,
            store,
            job,
            schema,
            heard,
            unsure,
            deadly,
            dice,
        }
    }

    /// Returns false after a simulated kill; then only stored state remains.
    fn survives(&mut self) -> bool {
        let dies = self.deadly > 0 && self.dice.below(self.deadly) == 0;
        if dies {
            (self.store, self.alerts) = opened(self.path);
        }
        !dies
    }

    /// Evaluates, stores, and adopts a complete window.
    fn feed(&mut self, number: u64, rows: &[(u8, u64)]) -> CrashStep {
        let batch = window(&self.schema, number, rows);
        let end_ns = (number as i64 + 1) * STEP_NS;
        let alerts = self.alerts.clone();
        let store = self.store.clone();
        let judged = [(0, &batch, &[][..])];
        let decided = alerts.decide(self.job, &judged, end_ns, &[]);
        if !self.survives() {
            return CrashStep::Died;
        }
        let rows = NewTail {
            rows: batch.rows() as i64,
            first_ns: end_ns - STEP_NS,
            last_ns: end_ns - STEP_NS,
            watermark_ns: end_ns,
            batch: Vec::new(),
        };
        let lane = LaneMark {
            job: self.job,
            lane: "lane".into(),
            seq: number + 1,
            facts: String::new(),
        };
        let progress = CommitProgress {
            watermark_ns: end_ns,
            marks: vec![lane],
            ..CommitProgress::default()
        };
        store
            .frames
            .commit(self.job, &[(0, rows)], &progress, &decided.changes, &[])
            .expect("kept");
        if !self.survives() {
            return CrashStep::Died;
        }
        decided.adopt();
        CrashStep::Done
    }

    /// Takes one document from the store, posts it, and removes it.
    fn send(&mut self) -> CrashStep {
        let Some(next) = self.store.alerts.waiting("hook", 1).expect("read").pop() else {
            return CrashStep::Done;
        };
        if !self.survives() {
            return CrashStep::Died;
        }
        self.heard.push((next.of.key.clone(), next.of.body));
        if !self.survives() {
            self.unsure.push(next.of.key);
            return CrashStep::Died;
        }
        self.store
            .alerts
            .remove_notification(next.id)
            .expect("removed");
        CrashStep::Done
    }

    /// Number of stored windows.
    fn fed(&self) -> u64 {
        self.store
            .frames
            .lanes(self.job)
            .expect("marks")
            .first()
            .map_or(0, |lane| lane.seq)
    }

    fn run(&mut self, history: &[Vec<(u8, u64)>]) {
        while self.fed() < history.len() as u64 {
            let number = self.fed();
            self.feed(number, &history[number as usize]);
            if self.dice.below(2) == 0 {
                self.send();
            }
            if self.dice.below(4) == 0 {
                self.alerts.review();
            }
        }
        while !self
            .store
            .alerts
            .waiting("hook", 1)
            .expect("read")
            .is_empty()
        {
            self.send();
        }
    }

    /// Documents received, without repetitions.
    fn known(&self) -> Vec<&str> {
        let mut seen = std::collections::BTreeSet::new();
        self.heard
            .iter()
            .filter(|(key, _)| seen.insert(key))
            .map(|(_, body)| body.as_str())
            .collect()
    }
}

/// For each group, firing and resolved alternate, starting with firing.
fn check_turns(bodies: &[&str], seed: u64) {
    let mut firing: BTreeMap<String, bool> = BTreeMap::new();
    for body in bodies {
        let document: Value = serde_json::from_str(body).expect("JSON");
        for alert in document["alerts"].as_array().expect("alerts") {
            let fires = alert["status"] == "firing";
            let was = firing
                .insert(alert["fingerprint"].to_string(), fires)
                .unwrap_or(false);
            assert_eq!(was, !fires, "seed {seed}: {document}");
        }
    }
}

#[test]
fn alerts_are_sent_once_despite_any_crash() {
    for seed in 0..12 {
        let mut dice = CrashDice(seed);
        let rows = |dice: &mut CrashDice| -> Vec<(u8, u64)> {
            let groups = (0..3).filter(|_| dice.below(5) > 0).collect::<Vec<u8>>();
            groups
                .into_iter()
                .map(|url| (url, if dice.below(4) > 0 { 11 } else { 1 }))
                .collect()
        };
        let history: Vec<Vec<(u8, u64)>> = (0..WINDOWS).map(|_| rows(&mut dice)).collect();
        let folders = (
            tempfile::tempdir().expect("a folder"),
            tempfile::tempdir().expect("a folder"),
        );
        let paths = (
            folders.0.path().join("store"),
            folders.1.path().join("store"),
        );
        let mut calm = AlertTestServer::begin(&paths.0, 0, seed);
        calm.run(&history);
        let mut rough = AlertTestServer::begin(&paths.1, 4, seed);
        rough.run(&history);
        assert_eq!(rough.known(), calm.known(), "seed {seed}");
        check_turns(&rough.known(), seed);
        // Only documents acknowledged before a kill, and not yet removed, repeat.
        let again = |key: &String| rough.heard.iter().filter(|(heard, _)| heard == key).count() - 1;
        for (key, _) in &rough.heard {
            let unsure = rough.unsure.iter().filter(|unsure| *unsure == key).count();
            assert_eq!(again(key), unsure, "seed {seed}: {key}");
        }
        let rows: usize = history.iter().map(Vec::len).sum();
        let kept = rough.store.results.tail_size(rough.job, 0).expect("read").0;
        assert_eq!(kept, rows as i64, "seed {seed}");
    }
}
