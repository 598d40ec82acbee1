//! Stored rows: pages compared with a list, segments, retention, and files that are missing or damaged.

use proptest::prelude::*;
use tempfile::TempDir;
use tuple::{DataType, Field, FieldId, TupleWriter, Unit};

use super::{FOLDER, PageQuery, RowHistory, RowPage, RowRetention, segment_path};
use crate::job::columns::{ColumnHead, encode, schema};
use crate::job::{JobId, JobSpec, JobState, RetainedRows};
use crate::store::persist_error::PersistError;
use crate::store::sqlite::{CommitProgress, KeptResult, NewJob, NewTail, ServerStore};

/// A history with one job of one result, whose rows count from 0; row N is of second N.
struct TestHistory {
    store: ServerStore,
    history: RowHistory,
    job: JobId,
    rows: i64,
    folder: TempDir,
}

const SECOND: i64 = 1_000_000_000;

fn columns() -> Vec<ColumnHead> {
    let fields = [
        Field::new("window_start", DataType::I64, Unit::EpochNanoseconds, ""),
        Field::new("count", DataType::U64, Unit::None, ""),
    ];
    fields.iter().map(ColumnHead::of).collect()
}

impl TestHistory {
    fn new() -> TestHistory {
        let folder = tempfile::tempdir().expect("a folder");
        let store = ServerStore::open(&folder.path().join("store.sqlite")).expect("a store");
        let spec = JobSpec::standing("PARSE http PROCESS (count: w=1s)", "");
        let new = NewJob {
            spec: &spec,
            owner: "",
            outlets: Vec::new(),
            tuples: None,
        };
        let job = store.jobs.add(&new, None).expect("a job").id;
        let result = KeptResult {
            place: 0,
            processor: Some("count".into()),
            table: "count".into(),
            columns: columns(),
            keys: 0,
            next_row: 0,
            rows_dropped: 0,
        };
        store.results.add(job, &[result]).expect("a result");
        let history = RowHistory::open(&store, folder.path().join(FOLDER)).expect("a history");
        TestHistory {
            store,
            history,
            job,
            rows: 0,
            folder,
        }
    }

    fn result(&self) -> KeptResult {
        self.store
            .results
            .of_job(self.job)
            .expect("the store")
            .remove(0)
    }

    /// Commits batches with these numbers of rows.
    fn add(&mut self, batches: &[i64]) {
        let schema = schema("count", &columns()).expect("a schema");
        let mut tails = Vec::new();
        for rows in batches {
            let mut w = TupleWriter::new(schema.clone(), &[FieldId(0), FieldId(1)]);
            for n in self.rows..self.rows + rows {
                w.i64(FieldId(0), n * SECOND);
                w.u64(FieldId(1), n.unsigned_abs());
                w.end_row();
            }
            let tail = NewTail {
                rows: *rows,
                first_ns: self.rows * SECOND,
                last_ns: (self.rows + rows - 1) * SECOND,
                watermark_ns: (self.rows + rows) * SECOND,
                batch: encode(&w.finish()),
            };
            tails.push((0, tail));
            self.rows += rows;
        }
        let progress = CommitProgress::default();
        let committed = self
            .store
            .frames
            .commit(self.job, &tails, &progress, &[], &[]);
        committed.expect("committed");
    }

    /// Moves all rows to segments.
    fn settle(&self, state: &JobState) {
        self.history
            .settle(self.job, state, &self.result())
            .expect("settled");
    }

    fn settle_all(&self) {
        self.settle(&JobState::Ended("done".into()));
    }

    /// First row and number of rows of each segment.
    fn segments(&self) -> Vec<(i64, i64)> {
        let mut all = Vec::new();
        let mut from = 0;
        while let Some(segment) = self
            .store
            .segments
            .at(self.job, 0, from)
            .expect("the store")
        {
            all.push((segment.first_row, segment.rows));
            from = segment.first_row + segment.rows;
        }
        all
    }

    fn page(&self, ask: &PageQuery) -> Result<RowPage, PersistError> {
        self.history.read(self.job, &self.result(), ask)
    }

    /// Folder of a segment.
    fn path(&self, first_row: i64) -> std::path::PathBuf {
        segment_path(&self.folder.path().join(FOLDER), self.job, 0, first_row)
    }
}

fn ask(after: Option<i64>, limit: usize) -> PageQuery {
    PageQuery {
        after,
        limit,
        since_ns: None,
        until_ns: None,
    }
}

fn numbers(page: &RowPage) -> Vec<i64> {
    let counts = page
        .batches
        .iter()
        .flat_map(|batch| batch.u64(FieldId(1)).values().to_vec());
    counts.map(u64::cast_signed).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever part of the rows is in segments.
    #[test]
    fn pages_are_those_of_a_list(
        settled in prop::collection::vec(prop::collection::vec(1i64..40, 1..4), 0..4),
        tail in prop::collection::vec(1i64..40, 0..4),
        questions in prop::collection::vec(
            (prop::option::of(-1i64..200), 1usize..60, prop::option::of(-5i64..200), prop::option::of(-5i64..200)), 1..12),
    ) {
        let mut test = TestHistory::new();
        for batches in &settled {
            test.add(batches);
            test.settle_all();
        }
        test.add(&tail);
        for (after, limit, since, until) in questions {
            let ask = PageQuery {
                after,
                limit,
                since_ns: since.map(|second| second * SECOND),
                until_ns: until.map(|second| second * SECOND),
            };
            let page = test.page(&ask).expect("readable");
            let is_wanted = |n: &i64| {
                after.is_none_or(|after| *n > after)
                    && since.is_none_or(|since| *n >= since)
                    && until.is_none_or(|until| *n < until)
            };
            let all: Vec<i64> = (0..test.rows).filter(is_wanted).collect();
            let expected = &all[..all.len().min(limit)];
            prop_assert_eq!(numbers(&page), expected);
            prop_assert_eq!(page.last, expected.last().copied());
            prop_assert_eq!(page.next, page.last.filter(|_| all.len() > limit));
        }
    }
}

#[test]
fn rows_become_segments_once_they_are_many() {
    let mut test = TestHistory::new();
    test.add(&[1000; 16]);
    test.settle(&JobState::Running);
    assert_eq!(test.segments(), []);
    test.add(&[1000; 20]);
    test.settle(&JobState::Running);
    // As many batches as come before the limit of 16,384 rows, and the one that exceeds it.
    assert_eq!(test.segments(), [(0, 17_000), (17_000, 17_000)]);
    test.settle_all();
    assert_eq!(
        test.segments(),
        [(0, 17_000), (17_000, 17_000), (34_000, 2000)]
    );
    let page = test.page(&ask(Some(16_990), 20)).expect("readable");
    assert_eq!(numbers(&page), (16_991..17_011).collect::<Vec<_>>());
    // Nothing is left to move.
    test.settle_all();
    assert_eq!(test.segments().len(), 3);
}

#[test]
fn a_batch_beyond_the_limit_is_a_segment() {
    let mut test = TestHistory::new();
    test.add(&[1, 20_000, 1]);
    test.settle_all();
    assert_eq!(test.segments(), [(0, 20_001), (20_001, 1)]);
    assert_eq!(
        numbers(&test.page(&ask(Some(19_999), 9)).expect("readable")),
        [20_000, 20_001]
    );
}

#[test]
fn retention_continues_after_a_folder_that_is_missing() {
    let mut test = TestHistory::new();
    for _ in 0..4 {
        test.add(&[10]);
        test.settle_all();
    }
    std::fs::remove_dir_all(test.path(0)).expect("removed by hand");
    let one_segment = test.store.segments.at(test.job, 0, 30).expect("the store");
    let bytes = one_segment.expect("a segment").bytes.unsigned_abs();
    let retention = RowRetention { age_ns: 0, bytes };
    test.history
        .retain(RetainedRows::Tuples, &retention)
        .expect("of other jobs");
    assert_eq!(test.segments().len(), 4);
    test.history
        .retain(RetainedRows::Results, &retention)
        .expect("retained");
    assert_eq!(test.segments(), [(30, 10)]);
    assert!(!test.path(10).exists() && test.path(30).exists());
    assert_eq!(test.history.kept().expect("counters").rows_dropped, 30);
    // By age: all of them are older than a nanosecond.
    let retention = RowRetention {
        age_ns: 1,
        bytes: 0,
    };
    test.history
        .retain(RetainedRows::Results, &retention)
        .expect("retained");
    assert_eq!(test.segments(), []);
    assert!(numbers(&test.page(&ask(None, 9)).expect("readable")).is_empty());
}

/// As after a crash between the files of a segment and its entry in the store.
#[test]
fn folders_that_the_store_does_not_know_are_removed() {
    let mut test = TestHistory::new();
    test.add(&[10]);
    test.settle_all();
    test.add(&[10]);
    let orphan = test.path(10);
    std::fs::create_dir_all(orphan.join("count")).expect("a folder");
    std::fs::write(orphan.join("count/part.parquet"), b"half").expect("a file");
    let own = test.folder.path().join(FOLDER).join("notes");
    std::fs::create_dir_all(own.join("0-000000000010")).expect("a folder");
    let other = test.path(10).with_file_name("by-hand");
    std::fs::create_dir_all(&other).expect("a folder");
    test.history =
        RowHistory::open(&test.store, test.folder.path().join(FOLDER)).expect("a history");
    assert!(!orphan.exists() && test.path(0).exists());
    assert!(
        own.exists() && other.exists(),
        "folders with other names stay"
    );
    test.settle_all();
    let page = test.page(&ask(None, 100)).expect("readable");
    assert_eq!(numbers(&page), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_page_ends_before_a_damaged_segment() {
    let mut test = TestHistory::new();
    for _ in 0..3 {
        test.add(&[10]);
        test.settle_all();
    }
    let mut files = vec![test.path(10)];
    let file = loop {
        let path = files.pop().expect("a file");
        match std::fs::read_dir(&path) {
            Ok(entries) => files.extend(entries.map(|entry| entry.expect("an entry").path())),
            Err(_) => break path,
        }
    };
    let mut bytes = std::fs::read(&file).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).expect("a file");
    let page = test.page(&ask(None, 100)).expect("the rows before");
    assert_eq!(numbers(&page), (0..10).collect::<Vec<_>>());
    assert_eq!(
        (page.next, page.stopped.map(|rows| rows.first_row)),
        (Some(9), Some(10))
    );
    let Err(PersistError::Unreadable(rows)) = test.page(&ask(Some(9), 100)) else {
        panic!("an error")
    };
    assert_eq!((rows.first_row, rows.end_row), (10, 20));
    assert!(!rows.file.is_absolute(), "users see it: {rows}");
    // The rows behind it, and a period without it.
    assert_eq!(
        numbers(&test.page(&ask(Some(19), 3)).expect("readable")),
        [20, 21, 22]
    );
    let later = PageQuery {
        since_ns: Some(25 * SECOND),
        ..ask(None, 2)
    };
    assert_eq!(numbers(&test.page(&later).expect("readable")), [25, 26]);
    assert_eq!(test.history.kept().expect("counters").segments_damaged, 2);
}

/// A reader has listed its pieces before they are moved, or removed.
#[test]
fn pieces_are_read_wherever_they_are_now() {
    let mut test = TestHistory::new();
    test.add(&[10, 20, 5]);
    let pieces = test
        .store
        .segments
        .pieces(test.job, 0, (i64::MIN, i64::MAX))
        .expect("the store");
    let read = |test: &TestHistory| {
        let mut rows = Vec::new();
        let mut lacks = 0;
        for piece in &pieces {
            let mut take = |batch: &tuple::Batch| {
                rows.extend(
                    batch
                        .u64(FieldId(1))
                        .values()
                        .iter()
                        .map(|n| n.cast_signed()),
                );
                true
            };
            let of = (test.job, &test.result());
            let outcome = test
                .history
                .read_piece(of, &[FieldId(0), FieldId(1)], piece, &mut take);
            if let super::ReadOutcome::Lacks(n) = outcome.expect("readable") {
                lacks += n;
            }
        }
        (rows, lacks)
    };
    let all: Vec<i64> = (0..35).collect();
    assert_eq!(read(&test), (all.clone(), 0));
    test.settle_all();
    assert_eq!(read(&test), (all, 0));
    let retention = RowRetention {
        age_ns: 1,
        bytes: 0,
    };
    test.history
        .retain(RetainedRows::Results, &retention)
        .expect("retained");
    assert_eq!(read(&test), (vec![], 35));
}
