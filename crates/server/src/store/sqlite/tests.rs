//! The stores over a file: what restarts, clocks, a full disk, and errors in the middle of a change leave behind.

mod access;
mod commits;
mod forms;
mod jobs;
mod rules;

use std::path::Path;

use tempfile::TempDir;

use super::{KeptResult, NewJob, NewTail, ServerStore};
use crate::job::{JobId, JobSpec};

/// A store in a folder of its own.
struct TestStore {
    store: ServerStore,
    folder: TempDir,
}

impl TestStore {
    fn new() -> TestStore {
        let folder = tempfile::tempdir().expect("a folder");
        TestStore {
            store: open(folder.path()),
            folder,
        }
    }

    /// As another process would find it.
    fn reopened(&self) -> ServerStore {
        open(self.folder.path())
    }

    /// A job of `owner`.
    fn job_of(&self, owner: &str) -> JobId {
        let spec = JobSpec::standing("PARSE http PROCESS (rate)", "");
        let new = NewJob {
            spec: &spec,
            owner,
            outlets: vec![("first", 1), ("second", 2)],
            tuples: None,
        };
        self.store.jobs.add(&new, None).expect("a job").id
    }

    /// A job with two results without rows.
    fn job(&self) -> JobId {
        let job = self.job_of("admin");
        let result = |place| KeptResult {
            place,
            processor: Some("rate".into()),
            table: "t".into(),
            columns: Vec::new(),
            keys: 0,
            next_row: 0,
            rows_dropped: 0,
        };
        let results = [result(0), result(1)];
        self.store.results.add(job, &results).expect("results");
        job
    }

    /// Changes the database behind the stores.
    fn change(&self, sql: &str) {
        let changed = self.store.database.write(|t| t.execute_batch(sql));
        changed.expect("a change");
    }

    /// A number of the database.
    fn number(&self, sql: &str) -> i64 {
        let connection = self.store.database.lock();
        connection
            .query_row(sql, [], |row| row.get(0))
            .expect("a number")
    }
}

fn open(folder: &Path) -> ServerStore {
    ServerStore::open(&folder.join("store.sqlite")).expect("a store")
}

/// Rows of this time.
fn rows(rows: i64, at_ns: i64) -> NewTail {
    NewTail {
        rows,
        first_ns: at_ns,
        last_ns: at_ns,
        watermark_ns: at_ns,
        batch: vec![7; 10],
    }
}
