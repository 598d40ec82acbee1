//! Rows with the progress of their job: what is written together, and how rows move to segments.

use super::{TestStore, rows};
use crate::job::{JobId, JobSpec, RetainedRows, TupleOrigin};
use crate::store::sqlite::{
    CommitProgress, FrameFilter, HistorySegment, JoinedFrames, LaneMark, NewFrame, NewJob,
};

fn frame(job: JobId, lane: Option<&str>, over_ns: i64) -> NewFrame {
    NewFrame {
        job,
        lane: lane.map(str::to_owned),
        over_ns,
        payload: vec![1; 10].into(),
    }
}

fn mark(job: JobId, lane: &str, seq: u64) -> LaneMark {
    LaneMark {
        job,
        lane: lane.into(),
        seq,
        facts: format!("{{\"seq\":{seq}}}"),
    }
}

impl TestStore {
    /// Ends of the stored records, in order.
    fn frames(&self, job: JobId) -> Vec<i64> {
        let frames = self.store.frames.read(job, 0, 100_000).expect("the store");
        frames.into_iter().map(|frame| frame.of.over_ns).collect()
    }

    fn next_rows(&self, job: JobId) -> Vec<i64> {
        let results = self.reopened().results.of_job(job).expect("the store");
        results.into_iter().map(|result| result.next_row).collect()
    }
}

#[test]
fn a_commit_is_whole_or_nothing() {
    let test = TestStore::new();
    let job = test.job();
    test.store
        .jobs
        .save_control(job, "{}", b"order")
        .expect("saved");
    let frames = [1, 5, 9].map(|over| frame(job, Some("a"), over));
    test.store
        .frames
        .append(&frames, &[mark(job, "a", 3)])
        .expect("appended");
    let progress = CommitProgress {
        text: "at 5".into(),
        watermark_ns: 5,
        marks: vec![mark(job, "a", 4), mark(job, "b", u64::MAX)],
        ..CommitProgress::default()
    };
    // The third result does not exist.
    let unknown = [(0, rows(3, 1)), (2, rows(1, 1))];
    let failed = test.store.frames.commit(job, &unknown, &progress, &[], &[]);
    failed.expect_err("no such result");
    assert_eq!(
        (test.next_rows(job), test.frames(job)),
        (vec![0, 0], vec![1, 5, 9])
    );
    assert_eq!(
        test.store.frames.lanes(job).expect("the store"),
        [mark(job, "a", 3)]
    );
    let good = [(0, rows(3, 1)), (1, rows(0, 1)), (0, rows(2, 2))];
    test.store
        .frames
        .commit(job, &good, &progress, &[], &[])
        .expect("committed");
    assert_eq!(
        (test.next_rows(job), test.frames(job)),
        (vec![5, 0], vec![9])
    );
    let lanes = test.reopened().frames.lanes(job).expect("the store");
    let seqs: Vec<_> = lanes.iter().map(|mark| (&*mark.lane, mark.seq)).collect();
    // SQLite has no unsigned numbers.
    assert_eq!(seqs, [("a", 4), ("b", i64::MAX.unsigned_abs())]);
    let saved = test
        .reopened()
        .jobs
        .unfinished_controls()
        .expect("the store")
        .remove(0);
    assert_eq!(saved.progress.as_deref(), Some("at 5"));
}

#[test]
fn records_are_read_in_order_by_page() {
    let test = TestStore::new();
    let [job, other] = [test.job(), test.job()];
    let frames: Vec<_> = (0..5000)
        .map(|n| frame([job, other][n % 2], Some("a"), n as i64))
        .collect();
    test.store.frames.append(&frames, &[]).expect("appended");
    let mut seen = Vec::new();
    let mut after = 0;
    loop {
        let page = test.store.frames.read(job, after, 999).expect("the store");
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 999);
        after = last.id;
        seen.extend(page.into_iter().map(|frame| frame.of.over_ns));
    }
    assert_eq!(seen, (0..5000).step_by(2).collect::<Vec<i64>>());
    assert_eq!(
        test.store
            .frames
            .bytes(job, FrameFilter::All)
            .expect("the store"),
        25_000
    );
}

#[test]
fn partial_results_replace_the_records_of_their_job() {
    let test = TestStore::new();
    let [job, other] = [test.job(), test.job()];
    let some = [
        frame(job, Some("a"), 1),
        frame(job, None, 2),
        frame(other, None, 3),
    ];
    test.store.frames.append(&some, &[]).expect("appended");
    test.store
        .frames
        .replace(job, FrameFilter::OfMany, &[frame(job, None, 7)])
        .expect("replaced");
    assert_eq!(
        (test.frames(job), test.frames(other)),
        (vec![1, 7], vec![3])
    );
    let bytes = |which| test.store.frames.bytes(job, which).expect("the store");
    assert_eq!(
        (bytes(FrameFilter::All), bytes(FrameFilter::OfMany)),
        (20, 10)
    );
    test.store
        .frames
        .replace(job, FrameFilter::All, &[frame(job, None, 8)])
        .expect("replaced");
    assert_eq!((test.frames(job), test.frames(other)), (vec![8], vec![3]));
}

/// Of a join, records of agents and its output end at different times.
#[test]
fn a_join_keeps_the_records_that_it_still_needs() {
    let test = TestStore::new();
    let job = test.job();
    let some = [
        frame(job, Some("a"), 5),
        frame(job, Some("a"), 20),
        frame(job, None, 5),
        frame(job, None, 20),
    ];
    test.store.frames.append(&some, &[]).expect("appended");
    let progress = CommitProgress {
        watermark_ns: 10,
        joined: Some(JoinedFrames {
            frames: vec![frame(job, None, 30)],
            marks: vec![mark(job, "a", 9)],
            over_ns: 4,
        }),
        ..CommitProgress::default()
    };
    test.store
        .frames
        .commit(job, &[], &progress, &[], &[])
        .expect("committed");
    assert_eq!(
        test.frames(job),
        [5, 20, 20, 30],
        "the output up to the watermark is gone"
    );
    let joined = JoinedFrames {
        over_ns: 5,
        ..JoinedFrames::default()
    };
    test.store
        .frames
        .append_joined(job, &joined)
        .expect("appended");
    assert_eq!(test.frames(job), [20, 20, 30]);
    assert_eq!(
        test.store.frames.lanes(job).expect("the store"),
        [mark(job, "a", 9)]
    );
}

#[test]
fn rows_are_in_a_segment_or_in_the_store() {
    let test = TestStore::new();
    let job = test.job();
    let tails: Vec<_> = (0..10).map(|n| (0, rows(10, n))).collect();
    test.store
        .frames
        .commit(job, &tails, &CommitProgress::default(), &[], &[])
        .expect("committed");
    let segment = HistorySegment {
        job,
        place: 0,
        first_row: 0,
        rows: 40,
        first_ns: 0,
        last_ns: 3,
        kept_ns: 1,
        bytes: 7,
        checksum: Some(i64::MIN),
    };
    let (segments, results) = (&test.store.segments, &test.store.results);
    segments.add(&segment).expect("added");
    let firsts = |period| {
        let pieces = segments.pieces(job, 0, period).expect("the store");
        pieces
            .into_iter()
            .map(|piece| (piece.first_row, piece.rows))
            .collect::<Vec<_>>()
    };
    let all = firsts((i64::MIN, i64::MAX));
    assert_eq!(all.iter().map(|(_, rows)| rows).sum::<i64>(), 100);
    assert_eq!(all[..2], [(0, 40), (40, 10)]);
    // Up to the end, exclusive.
    assert_eq!(firsts((3, 4)), [(0, 40)]);
    assert_eq!(firsts((3, 5)), [(0, 40), (40, 10)]);
    for (from, expected) in [(0, Some(0)), (39, Some(0)), (40, None)] {
        let at = segments.at(job, 0, from).expect("the store");
        assert_eq!(at.map(|found| found.first_row), expected, "{from}");
    }
    assert_eq!(segments.at(job, 0, 0).expect("the store"), Some(segment));
    assert_eq!(results.tail_size(job, 0).expect("the store").0, 60);
    assert_eq!(results.last_tail(job, 0).expect("the store"), Some(90));
    let tail = results.tail(job, 0, 45, 2).expect("the store");
    assert_eq!(
        tail.iter().map(|tail| tail.first_row).collect::<Vec<_>>(),
        [40, 50]
    );
    segments.add(&segment).expect_err("it is there");
    segments.remove(&segment).expect("removed");
    let extent = segments.extent(job, 0).expect("the store");
    assert_eq!(
        (extent.rows_dropped, extent.first_ns, extent.last_ns),
        (40, Some(4), Some(9))
    );
    assert_eq!(segments.rows_dropped().expect("the store"), 40);
}

#[test]
fn jobs_with_rows_of_a_period_are_found_wherever_their_rows_are() {
    let test = TestStore::new();
    let jobs = [10, 20, 30].map(|at| {
        let job = test.job();
        let tail = [(1, rows(1, at))];
        test.store
            .frames
            .commit(job, &tail, &CommitProgress::default(), &[], &[])
            .expect("committed");
        job
    });
    let segment = HistorySegment {
        job: jobs[1],
        place: 1,
        first_row: 0,
        rows: 1,
        first_ns: 20,
        last_ns: 20,
        kept_ns: 1,
        bytes: 1,
        checksum: None,
    };
    test.store.segments.add(&segment).expect("added");
    let with_rows = |period| {
        test.store
            .results
            .jobs_with_rows(period)
            .expect("the store")
    };
    assert_eq!(with_rows((10, 30)), [jobs[1], jobs[0]]);
    assert_eq!(with_rows((11, 20)), []);
    assert_eq!(with_rows((i64::MIN, i64::MAX)), [jobs[2], jobs[1], jobs[0]]);
    assert!(
        test.store
            .results
            .jobs_with_tuples()
            .expect("the store")
            .is_empty()
    );
}

/// Queries over stored tuples need the periods of their agents.
#[test]
fn lanes_of_tuples_outlive_the_control_of_their_job() {
    let test = TestStore::new();
    let spec = JobSpec {
        keep: RetainedRows::Tuples,
        ..JobSpec::standing("PARSE http", "")
    };
    let new = NewJob {
        spec: &spec,
        owner: "a",
        outlets: Vec::new(),
        tuples: Some(TupleOrigin {
            parsers: vec![("http".into(), 1)],
            sample: "all".into(),
        }),
    };
    let tuples = test.store.jobs.add(&new, None).expect("a job").id;
    let results = test.job();
    for job in [tuples, results] {
        test.store
            .jobs
            .save_control(job, "1", b"order")
            .expect("saved");
        test.store
            .jobs
            .save_control(job, "2", b"another")
            .expect("saved");
        test.store
            .frames
            .append(&[frame(job, Some("a"), 5)], &[mark(job, "a", 1)])
            .expect("appended");
    }
    let saved = test
        .reopened()
        .jobs
        .unfinished_controls()
        .expect("the store");
    // The order of a job never changes.
    let saved: Vec<_> = saved
        .into_iter()
        .map(|of| (of.job, of.saved, of.body))
        .collect();
    let expected = [tuples, results].map(|job| (job, "2".to_owned(), b"order".to_vec()));
    assert_eq!(saved, expected);
    for (job, lanes) in [(tuples, 1), (results, 0)] {
        test.store.jobs.forget_control(job).expect("forgotten");
        assert_eq!(
            test.store.frames.lanes(job).expect("the store").len(),
            lanes
        );
        assert!(test.frames(job).is_empty());
    }
    assert!(
        test.store
            .jobs
            .unfinished_controls()
            .expect("the store")
            .is_empty()
    );
}
