//! Jobs, the keys of their requests, and their outlets.

use super::{TestStore, rows};
use crate::job::{JobEnding, JobId, JobOutcome, JobSpec, JobState};
use crate::store::sqlite::deliveries::DeliveryCounts;
use crate::store::sqlite::{CommitProgress, DeliveryPosition, JobQuery, KeyLookup, NewJob};

#[test]
fn an_ended_job_stays_ended() {
    let test = TestStore::new();
    let job = test.job();
    let set = |state: &JobState, reason| {
        test.store
            .jobs
            .set_state(job, state, reason)
            .expect("the store")
    };
    assert!(set(&JobState::Running, Some("late")));
    let ended = JobState::Ended(JobEnding::new(JobOutcome::Failed, "it failed"));
    assert!(set(&ended, None));
    for later in [
        JobState::Running,
        JobState::Planned,
        JobState::Ended("again".into()),
    ] {
        assert!(!set(&later, None));
    }
    let stored = test
        .reopened()
        .jobs
        .get(job)
        .expect("the store")
        .expect("a job");
    assert_eq!(
        (stored.state, stored.reason.as_deref()),
        (ended, Some("it failed"))
    );
    assert!(stored.ended_ns.is_some_and(|at| at >= stored.created_ns));
    assert!(
        !test
            .store
            .jobs
            .set_state(JobId(99), &JobState::Running, None)
            .expect("the store")
    );
}

#[test]
fn jobs_are_listed_newest_first_and_counted() {
    let test = TestStore::new();
    let jobs: Vec<JobId> = (0..6).map(|n| test.job_of(["a", "b"][n % 2])).collect();
    for job in &jobs[..2] {
        test.store
            .jobs
            .set_state(*job, &JobState::Ended("done".into()), None)
            .expect("set");
    }
    test.store
        .jobs
        .set_state(jobs[2], &JobState::Running, None)
        .expect("set");
    let list = |state: Option<&str>, before: Option<JobId>, limit| {
        let wanted = JobQuery {
            state: state.map(str::to_owned),
            before,
            limit,
        };
        let found = test.store.jobs.list(&wanted).expect("the store");
        found.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(list(None, None, usize::MAX).len(), 6);
    assert_eq!(list(None, Some(jobs[3]), 2), [jobs[2], jobs[1]]);
    assert_eq!(list(Some("ended"), None, 9), [jobs[1], jobs[0]]);
    assert_eq!(list(Some("later"), None, 9), []);
    let store = &test.store.jobs;
    let counts = store.count_by_state().expect("the store");
    assert_eq!(
        counts,
        [
            ("ended".to_owned(), 2),
            ("planned".into(), 3),
            ("running".into(), 1)
        ]
    );
    let of = |owner| store.unfinished_count_of(owner).expect("the store");
    assert_eq!(
        (
            store.unfinished_count().expect("the store"),
            of("a"),
            of("b"),
            of("c")
        ),
        (4, 2, 2, 0)
    );
    // A rejected job leaves its number only.
    store.remove(jobs[5]).expect("removed");
    assert!(test.job_of("a") > jobs[5]);
    assert_eq!(test.number("SELECT count(*) FROM outlets WHERE job = 6"), 0);
}

#[test]
fn a_request_that_is_repeated_within_a_day_is_the_same_job() {
    let test = TestStore::new();
    let spec = JobSpec::standing("PARSE http", "");
    let add = |owner, key, body: &[u8]| {
        let new = NewJob {
            spec: &spec,
            owner,
            outlets: Vec::new(),
            tuples: None,
        };
        test.store
            .jobs
            .add(&new, Some((key, body)))
            .map(|job| job.id)
    };
    let job = add("a", "k", b"body").expect("added");
    let lookup = |owner, key, body: &[u8]| {
        test.store
            .jobs
            .remembered(owner, key, body)
            .expect("the store")
    };
    assert_eq!(lookup("a", "k", b"body"), KeyLookup::Same(job));
    assert_eq!(lookup("a", "k", b"other"), KeyLookup::Other);
    assert_eq!(lookup("b", "k", b"body"), KeyLookup::New);
    // Two requests at once: the second one does not add a job.
    let jobs = test.number("SELECT count(*) FROM jobs");
    add("a", "k", b"body").expect_err("the key is used");
    assert_eq!(test.number("SELECT count(*) FROM jobs"), jobs);
    test.change("UPDATE idempotency SET at_ns = at_ns - 86400000000001");
    assert_eq!(lookup("a", "k", b"body"), KeyLookup::New);
    let again = add("a", "k", b"other").expect("added");
    assert_eq!(lookup("a", "k", b"other"), KeyLookup::Same(again));
}

#[test]
fn rows_behind_an_outlet_are_those_of_all_results() {
    let test = TestStore::new();
    let job = test.job();
    let tails = [(0, rows(100, 1)), (1, rows(50, 1))];
    test.store
        .frames
        .commit(job, &tails, &CommitProgress::default(), &[], &[])
        .expect("committed");
    let deliveries = &test.store.deliveries;
    assert_eq!(
        deliveries.position((job, 0), 1).expect("the store"),
        DeliveryPosition::default()
    );
    let position = DeliveryPosition {
        next_row: 60,
        until_row: 80,
        sums: DeliveryCounts {
            delivered: 40,
            refused: 10,
            backlog: 7,
            gone: 3,
        },
    };
    deliveries
        .set_position((job, 0), 0, &DeliveryPosition::default())
        .expect("set");
    deliveries
        .set_position((job, 0), 0, &position)
        .expect("set");
    deliveries
        .set_position((job, 0), 1, &position)
        .expect("set");
    let outlets = || {
        test.reopened()
            .deliveries
            .outlets(job, job)
            .expect("the store")
    };
    let all = outlets();
    let [first, second] = &all[..] else {
        panic!("two outlets")
    };
    assert_eq!(
        (first.behind, first.sums.delivered, first.sums.gone),
        (30, 80, 6)
    );
    assert_eq!(
        (second.behind, second.sums, second.run),
        (150, DeliveryCounts::default(), 2)
    );
    assert_eq!(
        test.reopened()
            .deliveries
            .position((job, 0), 1)
            .expect("the store"),
        position
    );
    assert_eq!(deliveries.unfinished_jobs().expect("the store"), [job]);
    deliveries.finish((job, 0)).expect("finished");
    assert_eq!(deliveries.unfinished_jobs().expect("the store"), [job]);
    deliveries.finish((job, 1)).expect("finished");
    assert!(deliveries.unfinished_jobs().expect("the store").is_empty());
    assert!(outlets().iter().all(|outlet| outlet.is_done));
}

#[test]
fn counters_of_agents_are_forgotten_some_time_after_the_end() {
    let test = TestStore::new();
    let [running, ended] = [test.job(), test.job()];
    for job in [running, ended] {
        test.store.jobs.keep_accounts(job, "[]").expect("kept");
    }
    test.store
        .jobs
        .set_state(ended, &JobState::Ended("done".into()), None)
        .expect("set");
    let accounts = |job| test.reopened().jobs.accounts(job).expect("the store");
    test.store.jobs.forget_accounts(0).expect("forgotten");
    assert!(accounts(ended).is_some());
    test.store
        .jobs
        .forget_accounts(i64::MAX)
        .expect("forgotten");
    assert_eq!(
        (accounts(running).as_deref(), accounts(ended)),
        (Some("[]"), None)
    );
    assert_eq!(accounts(JobId(99)), None);
}
