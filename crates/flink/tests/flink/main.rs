//! The client with a real Flink, its SQL Gateway and Kafka (`deploy/kafka-flink.sh`), each of which is killed, and with
//! servers that send malformed responses.

mod fake;
mod hostile;
mod jobs;
mod real;
mod stubborn;
mod survival;

use std::panic::{AssertUnwindSafe, catch_unwind};

type Scenario = fn(&real::Real);

/// One cluster for all tests, one after the other: it takes almost a gigabyte.
#[test]
fn a_real_flink_runs_and_ends_jobs_and_survives() {
    let Some(real) = real::Real::start() else {
        return;
    };
    let scenarios: [(&str, Scenario); 8] = [
        (
            "statements that fail are told by a sentence and a place",
            jobs::statements_that_fail,
        ),
        (
            "a job is drained: all that it held comes out, once",
            jobs::a_job_is_drained,
        ),
        (
            "a job is canceled, and another one found by its name",
            jobs::a_job_is_canceled,
        ),
        (
            "jobs of dead processes are ended, others left alone",
            jobs::jobs_of_the_dead_are_ended,
        ),
        (
            "a killed TaskManager is told, and got over",
            survival::a_killed_taskmanager,
        ),
        ("a killed gateway is got over", survival::a_killed_gateway),
        (
            "a session lives as long as somebody holds it",
            survival::sessions_are_held,
        ),
        (
            "a JobManager that was started anew knows no job",
            survival::a_jobmanager_started_anew,
        ),
    ];
    let mut failed = Vec::new();
    for (what, scenario) in scenarios {
        let begun = std::time::Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| scenario(&real)));
        eprintln!(
            "{}: {what}: {:.1?}",
            if outcome.is_ok() { "fine" } else { "FAILED" },
            begun.elapsed()
        );
        failed.extend(outcome.is_err().then_some(what));
    }
    assert!(failed.is_empty(), "{failed:#?}\n{}", real.logs());
}
