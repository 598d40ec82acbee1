//! Repeated kills between any two steps: decisions equal those of a server without kills, and each is carried out in
//! order. A decision repeats only after a kill between its execution and its record.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tuple::Schema;

use super::*;
use crate::job::JobSpec;
use crate::rules::alerts::tests::{CrashDice, STEP_NS, columns, window};
use crate::rules::windowed_result::WindowedResult;
use crate::store::sqlite::{CommitProgress, NewJob, ServerStore};

/// A simulated server with actions, killed at random by `dice`.
struct ActionTestServer<'f> {
    path: &'f Path,
    store: ServerStore,
    actions: Arc<ActionRegistry>,
    job: JobId,
    schema: Arc<Schema>,
    /// Messages received.
    told: Vec<(u64, String)>,
    /// A kill in one of this many steps; 0: never.
    deadly: u64,
    dice: CrashDice,
}

fn opened(path: &Path) -> (ServerStore, Arc<ActionRegistry>) {
    let store = ServerStore::open(path).expect("the store opens");
    // No thread carries decisions out, because no addresses are defined.
    let actions = ActionRegistry::open(store.actions.clone(), ActionLimits::default())
        .expect("they are read");
    (store, Arc::new(actions))
}

impl ActionTestServer<'_> {
    fn begin(path: &Path, deadly: u64, seed: u64) -> ActionTestServer<'_> {
        let (store, actions) = opened(path);
        let spec = JobSpec::standing("PARSE http PROCESS (group-count: group=url, w=10s)", "");
        let new = NewJob {
            spec: &spec,
            owner: "me",
            outlets: Vec::new(),
            tuples: None,
        };
        let job = store.jobs.add(&new, None).expect("a job").id;
        let asked = json!({
            "name": "hot", "job": "1", "upper": 10, "servers": ["a", "b", "c"], "to": ["proxy"],
            "backoff": "20s", "down_for": "10s",
        });
        let looked_at = WindowedResult {
            result: 0,
            size_ns: STEP_NS,
            slide_ns: STEP_NS,
            lateness_ns: 0,
            keys: vec!["url".into()],
        };
        let asked = serde_json::from_value(asked).expect("it is one");
        actions
            .add(
                "me",
                job,
                &ActionSpec {
                    asked,
                    looked_at,
                    full_at: None,
                    is_ranked: false,
                },
            )
            .expect("kept")
            .expect("new");
        ActionTestServer {
            path,
            store,
            actions,
            job,
            schema: columns(),
            told: Vec::new(),
            deadly,
            dice: CrashDice(seed),
        }
    }

    /// Returns false after a simulated kill; then only stored state remains.
    fn survives(&mut self) -> bool {
        let dies = self.deadly > 0 && self.dice.below(self.deadly) == 0;
        if dies {
            (self.store, self.actions) = opened(self.path);
        }
        !dies
    }

    /// Evaluates, stores, and adopts a complete window, possibly repeated. Returns false after a kill.
    fn feed(&mut self, number: u64, rows: &[(u8, u64)]) -> bool {
        let batch = window(&self.schema, number, rows);
        let end_ns = (number as i64 + 1) * STEP_NS;
        let actions = self.actions.clone();
        let store = self.store.clone();
        let acted = actions.decide(self.job, &[(0, &batch, &[])], end_ns, &[]);
        if !self.survives() {
            return false;
        }
        let progress = CommitProgress {
            watermark_ns: end_ns,
            ..CommitProgress::default()
        };
        store
            .frames
            .commit(self.job, &[], &progress, &[], &acted.changes)
            .expect("kept");
        if !self.survives() {
            return false;
        }
        acted.adopt();
        true
    }

    /// Carries out waiting decisions. Returns false after a kill.
    fn carry_out(&mut self) -> bool {
        while let Some(next) = self.store.actions.decision_waiting(1).expect("read") {
            if !self.survives() {
                return false;
            }
            self.told.push((next.version, next.body));
            if !self.survives() {
                return false;
            }
            self.store
                .actions
                .finish_decision(1, next.version)
                .expect("noted");
            if !self.survives() {
                return false;
            }
            self.actions.carried_out(1, next.version);
        }
        true
    }

    fn run(&mut self, history: &[Vec<(u8, u64)>]) {
        while !self.carry_out() {}
        for (number, rows) in history.iter().enumerate() {
            while !self.feed(number as u64, rows) {}
            while !self.carry_out() {}
        }
    }
}

#[test]
fn decisions_survive_any_crash_in_order() {
    for seed in 0..20 {
        let mut dice = CrashDice(seed);
        let rows =
            |dice: &mut CrashDice| (0..3).map(|url| (url, dice.below(40))).collect::<Vec<_>>();
        let history: Vec<Vec<(u8, u64)>> = (0..40).map(|_| rows(&mut dice)).collect();
        let folders = (
            tempfile::tempdir().expect("a folder"),
            tempfile::tempdir().expect("a folder"),
        );
        let paths = (
            folders.0.path().join("store"),
            folders.1.path().join("store"),
        );
        let mut calm = ActionTestServer::begin(&paths.0, 0, seed);
        calm.run(&history);
        let mut rough = ActionTestServer::begin(&paths.1, 4, seed);
        rough.run(&history);
        let versions: Vec<u64> = calm.told.iter().map(|(version, _)| *version).collect();
        assert!(
            versions.len() > 5 && versions.iter().zip(1..).all(|(version, n)| *version == n),
            "{versions:?}"
        );
        assert!(
            rough.told.len() > calm.told.len(),
            "seed {seed}: nothing came again"
        );
        rough.told.dedup();
        assert_eq!(rough.told, calm.told, "seed {seed}");
        let shown = |world: &ActionTestServer<'_>| {
            serde_json::to_value(world.actions.shown()).expect("JSON")
        };
        assert_eq!(shown(&rough), shown(&calm), "seed {seed}");
    }
}

/// Upper bound for a group without a row, from rows of URL and count.
fn rest(
    full_at: Option<usize>,
    is_ranked: bool,
    rows: &[(Option<&str>, Option<u64>)],
) -> Option<f64> {
    let schema = columns();
    let ids: Vec<_> = schema.ids().collect();
    let mut writer = tuple::TupleWriter::new(schema.clone(), &ids);
    for (url, count) in rows {
        writer.i64(ids[0], 0);
        writer.i64(ids[1], STEP_NS);
        url.iter()
            .for_each(|url| writer.text(ids[2], url.as_bytes()));
        count.iter().for_each(|count| writer.u64(ids[3], *count));
        writer.end_row();
    }
    let asked =
        json!({ "name": "hot", "job": "1", "upper": 10, "servers": ["a"], "to": ["proxy"] });
    let asked = serde_json::from_value(asked).expect("it is one");
    let keys = vec!["url".into()];
    let looked_at = WindowedResult {
        result: 0,
        size_ns: STEP_NS,
        slide_ns: STEP_NS,
        lateness_ns: 0,
        keys,
    };
    let action = ActionSpec {
        asked,
        looked_at,
        full_at,
        is_ranked,
    };
    let stored = StoredAction {
        id: 1,
        name: "hot".into(),
        owner: "me".into(),
        job: "1".parse().expect("a job"),
        body: serde_json::to_string(&action).expect("JSON"),
        created_ns: 0,
        standing: serde_json::to_string(&ScalingState::default()).expect("JSON"),
    };
    let mut running = RunningAction::of(stored, 10, false).expect("it can be read");
    let mut gathered = BTreeMap::new();
    running.read(&writer.finish(), &[], &mut gathered);
    running
        .bounded(gathered)
        .remove(&STEP_NS)
        .expect("the window")
        .rest
}

#[test]
fn upper_bound_of_groups_without_a_row() {
    let a = (Some("/a"), Some(9));
    let b = (Some("/b"), Some(4));
    assert_eq!(
        rest(None, true, &[a, b]),
        Some(0.0),
        "all there are have a row"
    );
    assert_eq!(rest(Some(3), true, &[a, b]), Some(0.0));
    assert_eq!(
        rest(Some(2), true, &[a, b]),
        Some(4.0),
        "it is behind the last"
    );
    assert_eq!(
        rest(Some(2), false, &[a, b]),
        None,
        "rows are left out by something else"
    );
    // Rows without a group or a load count toward the limit.
    assert_eq!(rest(Some(3), true, &[a, b, (None, Some(5))]), Some(4.0));
    assert_eq!(rest(Some(3), true, &[a, b, (Some("/c"), None)]), Some(4.0));
    // The group may be among those beyond the engine's limit, whose total is added.
    let others = (Some(stream::OTHER), Some(7));
    assert_eq!(rest(Some(2), true, &[a, b, others]), Some(7.0));
    assert_eq!(rest(None, true, &[a, others]), Some(7.0));
    assert_eq!(
        rest(Some(2), true, &[a, others]),
        Some(7.0),
        "one row is missing to two"
    );
}
