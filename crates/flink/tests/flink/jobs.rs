//! Statements and jobs without failures.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flink::{
    FlinkError, FlinkJob, FlinkJobState, GatewayOptions, JobName, JobOwner, OwnerFate, SqlGateway,
};
use testkit::programs::TestProgram;

use crate::real::{PATIENCE, Real};

/// A source that never ends, and a sink that accepts everything.
pub fn endless(gateway: &SqlGateway) {
    for table in [
        "CREATE TABLE numbers (x BIGINT) WITH ('connector'='datagen','rows-per-second'='20')",
        "CREATE TABLE nowhere (x BIGINT) WITH ('connector'='blackhole')",
    ] {
        gateway.prepare(table).expect(table);
    }
}

/// A job that runs until it is ended.
pub fn run(gateway: &Arc<SqlGateway>, name: &JobName) -> FlinkJob {
    let job = FlinkJob::start(gateway, name, "INSERT INTO nowhere SELECT x FROM numbers")
        .expect("it starts");
    let state = job
        .wait(PATIENCE, |state| *state == FlinkJobState::Running)
        .expect("it is watched");
    assert_eq!(state, FlinkJobState::Running, "{name}");
    job
}

pub fn statements_that_fail(real: &Real) {
    let gateway = real.open(GatewayOptions::default());
    assert!(gateway.version() >= flink::OLDEST);
    assert!(
        gateway.cluster().is_some(),
        "learned from the gateway, which is on this machine"
    );
    endless(&gateway);
    gateway
        .execute("CREATE TABLE odd (x BIGINT) WITH ('connector'='kafkaa')")
        .expect("not looked at yet");
    for (statement, words, place) in [
        ("SELEC 1", "Non-query expression encountered", None),
        (
            "SELECT\n  x, nope FROM numbers",
            "Column 'nope' not found in any table",
            Some((2, 6)),
        ),
        (
            "SELECT 1,\n  2, nope( FROM numbers",
            "Incorrect syntax near the keyword 'FROM'",
            Some((2, 12)),
        ),
        (
            "INSERT INTO gone SELECT x FROM numbers",
            "Cannot find table '`default_catalog`",
            None,
        ),
        (
            "INSERT INTO nowhere SELECT 'a' FROM numbers",
            "Incompatible types for sink column 'x'",
            None,
        ),
        (
            "INSERT INTO odd SELECT x FROM numbers",
            "any factory for identifier 'kafkaa'",
            None,
        ),
        (
            "EXECUTE STATEMENT SET BEGIN\nINSERT INTO nowhere SELECT x FROM numbers;\nINSERT INTO nowhere SELECT nope FROM numbers;\nEND",
            "Column 'nope' not found",
            Some((3, 28)),
        ),
    ] {
        let error = match FlinkJob::start(&gateway, &real.name("fails"), statement) {
            Err(FlinkError::Statement(error)) => error,
            other => panic!("{statement}: {:?}", other.map(|job| job.id().to_owned())),
        };
        assert!(error.said.sentence.contains(words), "{statement}: {error}");
        assert_eq!(
            error.said.place.map(|place| (place.line, place.column)),
            place,
            "{statement}: {error}"
        );
        assert!(
            error.to_string().len() < 1000 && !error.to_string().contains("\tat "),
            "{error}"
        );
    }
    let rows = gateway.execute("SHOW TABLES").expect("tables");
    let mut tables: Vec<_> = rows
        .rows
        .iter()
        .flatten()
        .flatten()
        .map(String::as_str)
        .collect();
    tables.sort_unstable();
    assert_eq!(
        (rows.columns.as_slice(), tables),
        (
            &["table name".to_owned()][..],
            vec!["nowhere", "numbers", "odd"]
        )
    );
}

/// 1,000 records; windows of a day close only when the job is drained.
pub fn a_job_is_drained(real: &Real) {
    let gateway = real.open(GatewayOptions::default());
    let kafka = format!(
        "'connector'='kafka','properties.bootstrap.servers'='{}'",
        real.cluster.kafka
    );
    for table in [
        "CREATE TABLE thousand (x BIGINT) WITH ('connector'='datagen','fields.x.kind'='sequence','fields.x.start'='1','fields.x.end'='1000')".to_owned(),
        format!(
            "CREATE TABLE tuples (x BIGINT, et AS TO_TIMESTAMP_LTZ(x, 3), WATERMARK FOR et AS et) WITH ({kafka},'topic'='tuples','format'='avro','scan.startup.mode'='earliest-offset')"
        ),
        format!(
            "CREATE TABLE days (n BIGINT, total BIGINT) WITH ({kafka},'topic'='days','format'='json','sink.delivery-guarantee'='exactly-once','sink.transactional-id-prefix'='days','properties.transaction.timeout.ms'='60000')"
        ),
    ] {
        gateway.prepare(&table).expect(&table);
    }
    let filled = FlinkJob::start(
        &gateway,
        &real.name("fill"),
        "INSERT INTO tuples SELECT x FROM thousand",
    )
    .expect("it starts");
    assert_eq!(
        filled.wait(PATIENCE, |_| false).expect("watched"),
        FlinkJobState::Finished,
        "a bounded job ends by itself"
    );
    let job = FlinkJob::start(
        &gateway,
        &real.name("days"),
        "EXECUTE STATEMENT SET BEGIN INSERT INTO days SELECT COUNT(*), SUM(x) FROM TABLE(TUMBLE(TABLE tuples, DESCRIPTOR(et), INTERVAL '1' DAY)) GROUP BY window_start, window_end; END",
    )
    .expect("it starts");
    let begun = Instant::now();
    let progress = loop {
        let progress = job.progress().expect("figures");
        // Flink updates each metric at a different time.
        let is_complete = progress.records_read >= Some(1000)
            && progress.records_pending == Some(0)
            && progress.source_watermark_ms >= Some(1000)
            && progress.busy.is_some();
        if is_complete || begun.elapsed() > PATIENCE {
            break progress;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(
        (progress.records_read, progress.records_pending),
        (Some(1000), Some(0)),
        "{progress:?}"
    );
    assert_eq!(
        progress.source_watermark_ms,
        Some(1000),
        "the last record's time: {progress:?}"
    );
    assert!(
        progress.result_watermark_ms <= Some(1000) && progress.busy.is_some(),
        "{progress:?}"
    );
    // Checkpoints fail before all tasks run.
    let checkpoints = loop {
        let checkpoints = gateway
            .cluster()
            .expect("it")
            .checkpoints(job.id())
            .expect("asked")
            .expect("known");
        if checkpoints.completed > 0 || begun.elapsed() > PATIENCE {
            break checkpoints;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(
        checkpoints.completed > 0 && checkpoints.completed_ms.is_some(),
        "{checkpoints:?}"
    );

    let drained = job.stop_with_drain().expect("it is drained");
    assert_eq!(drained.state, FlinkJobState::Finished);
    assert!(
        drained
            .savepoint
            .is_some_and(|path| path.contains("savepoint-"))
    );
    assert_eq!(real.committed("days", 1), [r#"{"n":1000,"total":500500}"#]);
    assert_eq!(
        job.stop_with_drain().expect("it is over").state,
        FlinkJobState::Finished
    );
}

pub fn a_job_is_canceled(real: &Real) {
    let gateway = real.open(GatewayOptions::default());
    endless(&gateway);
    let one = run(&gateway, &real.name("it's one"));
    let other = run(&gateway, &real.name("other"));
    assert_eq!(one.cancel().expect("it ends"), FlinkJobState::Canceled);
    assert_eq!(one.cancel().expect("it has ended"), FlinkJobState::Canceled);
    assert_eq!(
        other.state().expect("watched"),
        FlinkJobState::Running,
        "of each other they know nothing"
    );
    // A later process needs only the id.
    let known = FlinkJob::known(
        &real.open(GatewayOptions::default()),
        other.id(),
        other.name(),
    )
    .expect("an id");
    assert_eq!(
        known.stop_with_drain().expect("it ends").state,
        FlinkJobState::Finished
    );
    assert_eq!(
        FlinkJob::known(&gateway, &"0".repeat(32), "none")
            .expect("an id")
            .state(),
        Ok(FlinkJobState::Gone)
    );
}

pub fn jobs_of_the_dead_are_ended(real: &Real) {
    let gateway = real.open(GatewayOptions::default());
    endless(&gateway);
    let client = || {
        Command::new("sleep")
            .arg("600")
            .stdin(Stdio::null())
            .spawn()
            .expect("sleep")
    };
    let mut dies = TestProgram(client());
    let lives = TestProgram(client());
    let owner = |program: &TestProgram| real.machine.process(program.0.id()).expect("it runs");
    let of = |owner: &JobOwner| run(&gateway, &JobName::new(owner, "left/over"));
    let dead = of(&owner(&dies));
    let elsewhere = JobOwner {
        boot: 1,
        space: 2,
        host: "elsewhere".into(),
        ..real.machine.owner().clone()
    };
    let living = of(&owner(&lives));
    let unseen = of(&elsewhere);
    let own = run(&gateway, &real.name("own"));
    dies.kill();

    let found = gateway
        .end_left_over(&real.machine)
        .expect("jobs are listed");
    let [ended] = &found.ended[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        (ended.id.as_str(), ended.name.job.as_str()),
        (dead.id(), "left/over")
    );
    assert_eq!(ended.outcome, Ok(FlinkJobState::Canceled));
    let [(id, name)] = &found.elsewhere[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        (id.as_str(), name.owner.host.as_str()),
        (unseen.id(), "elsewhere")
    );
    assert_eq!(real.machine.fate(&name.owner), OwnerFate::Unseen);
    for job in [living, unseen, own] {
        assert_eq!(
            job.state().expect("watched"),
            FlinkJobState::Running,
            "{}",
            job.name()
        );
        assert_eq!(job.cancel().expect("it ends"), FlinkJobState::Canceled);
    }
    let found = gateway.end_left_over(&real.machine).expect("listed");
    assert!(
        found.ended.is_empty() && found.elsewhere.is_empty(),
        "{found:?}"
    );
    // Flink still lists the job that was ended.
    let over: Vec<String> = found.over.iter().map(ToString::to_string).collect();
    assert_eq!(over, [dead.name()]);
}
