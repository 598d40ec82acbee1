//! Killed processes, and the effect on jobs and sessions.

use std::thread;
use std::time::{Duration, Instant};

use flink::{FlinkError, FlinkJob, FlinkJobState, GatewayOptions, SqlGateway};
use testkit::programs::wait_for;

use crate::jobs::{endless, run};
use crate::real::{PATIENCE, Real};

/// Without keepalives of the session.
fn silent() -> GatewayOptions {
    GatewayOptions {
        beat: Some(Duration::from_secs(3600)),
        ..GatewayOptions::default()
    }
}

pub fn a_killed_taskmanager(real: &Real) {
    let gateway = real.open(GatewayOptions::default());
    endless(&gateway);
    let job = run(&gateway, &real.name("restarts"));
    real.cluster.kill("taskmanager-1");
    let told = |state: &FlinkJobState| matches!(state, FlinkJobState::Restarting { why: Some(why), .. } if !why.sentence.is_empty());
    let state = job.wait(PATIENCE, told).expect("watched");
    let FlinkJobState::Restarting { why: Some(why), .. } = &state else {
        panic!("{state:?}")
    };
    assert!(
        why.sentence.contains("TaskManager") || why.sentence.contains("task manager"),
        "{why}"
    );
    real.cluster.start_again("taskmanager-2");
    let state = job
        .wait(PATIENCE, |state| *state == FlinkJobState::Running)
        .expect("watched");
    assert_eq!(state, FlinkJobState::Running);
    assert_eq!(job.cancel().expect("it ends"), FlinkJobState::Canceled);
}

pub fn a_killed_gateway(real: &Real) {
    let gateway = real.open(GatewayOptions {
        answer: Duration::from_secs(10),
        ..GatewayOptions::default()
    });
    endless(&gateway);
    gateway
        .execute("CREATE TABLE once (x BIGINT) WITH ('connector'='blackhole')")
        .expect("a table");
    let job = run(&gateway, &real.name("goes on"));
    real.cluster.configure(
        "sql-gateway",
        "session: {idle-timeout: 3 s, check-interval: 1 s}",
    );
    real.cluster.kill("gateway");
    assert_eq!(
        job.state().expect("a response of the cluster"),
        FlinkJobState::Running
    );
    // Threads of the ended process may hold its port a moment longer.
    let refused = wait_for("the end of its port", || {
        match SqlGateway::open(real.url(), GatewayOptions::default()) {
            Err(FlinkError::Unreachable(why)) if why.contains("nothing listens") => Ok(why),
            other => Err(format!("{:?}", other.map(|_| ()))),
        }
    });
    assert!(refused.contains(real.url()), "{refused}");
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_secs(1));
            real.cluster.start_again("gateway");
        });
        // Requests are retried until there is an answer, in a new session.
        let begun = Instant::now();
        let tables = gateway.execute("SHOW TABLES").expect("a new session");
        let names: Vec<_> = tables.rows.iter().flatten().flatten().collect();
        assert_eq!(
            names,
            ["nowhere", "numbers"],
            "prepared ones, in {:.1?}",
            begun.elapsed()
        );
    });
    let other = run(&gateway, &real.name("begun later"));
    for job in [job, other] {
        assert_eq!(
            job.stop_with_drain().expect("it ends").state,
            FlinkJobState::Finished
        );
    }
}

/// The gateway closes sessions after three seconds without requests.
pub fn sessions_are_held(real: &Real) {
    let held = real.open(GatewayOptions::default());
    let let_go = real.open(silent());
    for gateway in [&held, &let_go] {
        endless(gateway);
        gateway
            .execute("CREATE TABLE once (x BIGINT) WITH ('connector'='blackhole')")
            .expect("a table");
    }
    // Until the gateway itself has closed an idle session; a request would keep it alive.
    thread::sleep(Duration::from_secs(8));
    for (gateway, tables) in [
        (&held, vec!["nowhere", "numbers", "once"]),
        (&let_go, vec!["nowhere", "numbers"]),
    ] {
        let found = gateway.execute("SHOW TABLES").expect("a session");
        let mut found: Vec<_> = found
            .rows
            .iter()
            .flatten()
            .flatten()
            .map(String::as_str)
            .collect();
        found.sort_unstable();
        assert_eq!(found, tables);
    }
}

pub fn a_jobmanager_started_anew(real: &Real) {
    let gateway = real.open(GatewayOptions::default());
    endless(&gateway);
    let job = run(&gateway, &real.name("is lost"));
    real.cluster.kill("jobmanager");
    real.cluster.start_again("jobmanager");
    let begun = Instant::now();
    let state = loop {
        match job.wait(PATIENCE, |state| *state == FlinkJobState::Gone) {
            Ok(state) => break state,
            // During its start, the gateway has no cluster.
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(state, FlinkJobState::Gone);
    assert_eq!(
        FlinkJob::cancel(&job),
        Ok(FlinkJobState::Gone),
        "what is gone needs no end"
    );
}
