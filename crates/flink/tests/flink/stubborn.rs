//! A Flink that reports a job as stopped although it runs: the job's state counts, and the other way is used.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use flink::{
    FlinkError, FlinkJob, FlinkJobState, GatewayOptions, JobName, LocalMachine, SqlGateway,
};

use crate::fake::{Fake, Reply, fine};

const ID: &str = "1b127addaa935c75f9fb9966426351c8";

/// The server that executes requests.
#[derive(Clone, Copy, PartialEq)]
enum Heeds {
    Cluster,
    Nobody,
}

/// A gateway that answers `STOP JOB` with "OK" and does nothing, and a cluster.
fn stubborn(heeds: Heeds) -> (Fake, Fake) {
    let state = Arc::new(Mutex::new("RUNNING"));
    let shown = Arc::clone(&state);
    let told = state;
    let gateway = Fake::start(move |asked, body| match asked {
        "GET /v1/info" => fine(r#"{"productName":"Apache Flink","version":"1.19.1"}"#),
        "POST /v1/sessions" => fine(r#"{"sessionHandle":"5e"}"#),
        "GET /v1/sessions/5e" => fine(r#"{"properties":{}}"#),
        "POST /v1/sessions/5e/statements" if body.contains("SHOW JOBS") => {
            fine(r#"{"operationHandle":"10b5"}"#)
        }
        "POST /v1/sessions/5e/statements" => fine(r#"{"operationHandle":"09"}"#),
        "GET /v1/sessions/5e/operations/10b5/result/0" => {
            let state = *shown.lock().expect("whole");
            fine(&format!(
                r#"{{"results":{{"columns":[{{"name":"job id"}},{{"name":"job name"}},{{"name":"status"}}],"data":[{{"fields":["{ID}","n","{state}"]}}]}}}}"#
            ))
        }
        _ if asked.ends_with("/status") => fine(r#"{"status":"FINISHED"}"#),
        _ => fine(r#"{"results":{"columns":[{"name":"result"}],"data":[{"fields":["OK"]}]}}"#),
    });
    let cluster = Fake::start(move |asked, _| {
        let mut state = told.lock().expect("whole");
        let path = asked.replace(ID, "ID");
        match (path.as_str(), heeds) {
            ("GET /config", _) => fine(r#"{"flink-version":"1.19.1"}"#),
            ("GET /jobs/ID", _) => fine(&format!(r#"{{"state":"{state}"}}"#)),
            ("PATCH /jobs/ID?mode=cancel", Heeds::Cluster) => {
                *state = "CANCELED";
                fine("{}")
            }
            ("POST /jobs/ID/stop", _) => fine(r#"{"request-id":"7e"}"#),
            ("GET /jobs/ID/savepoints/7e", Heeds::Cluster) => {
                *state = "FINISHED";
                fine(
                    r#"{"status":{"id":"COMPLETED"},"operation":{"location":"file:/savepoint-1"}}"#,
                )
            }
            ("GET /jobs/ID/savepoints/7e", Heeds::Nobody) => fine(
                r#"{"status":{"id":"COMPLETED"},"operation":{"failure-cause":{"stack-trace":"a.B: c\nCaused by: a.C: Not all required tasks are currently running."}}}"#,
            ),
            _ => fine("{}"),
        }
    });
    (gateway, cluster)
}

fn job(gateway: &Fake, cluster: Option<&Fake>, ending: Duration) -> FlinkJob {
    let options = GatewayOptions {
        cluster: cluster.map(|fake| fake.url.clone()),
        ending,
        ..GatewayOptions::default()
    };
    let gateway = Arc::new(SqlGateway::open(&gateway.url, options).expect("a session"));
    FlinkJob::known(&gateway, ID, "n").expect("an id")
}

#[test]
fn jobs_are_canceled_at_the_cluster_if_the_gateway_fails() {
    let (gateway, cluster) = stubborn(Heeds::Cluster);
    let canceled = job(&gateway, Some(&cluster), Duration::from_secs(60)).cancel();
    assert_eq!(canceled, Ok(FlinkJobState::Canceled));
    let (gateway, cluster) = stubborn(Heeds::Cluster);
    let drained = job(&gateway, Some(&cluster), Duration::from_secs(60))
        .stop_with_drain()
        .expect("drained");
    assert_eq!(
        (drained.state, drained.savepoint.as_deref()),
        (FlinkJobState::Finished, Some("file:/savepoint-1"))
    );
}

#[test]
fn jobs_that_do_not_end_are_reported_in_time() {
    let (gateway, cluster) = stubborn(Heeds::Nobody);
    for cluster in [Some(&cluster), None] {
        let job = job(&gateway, cluster, Duration::from_secs(1));
        for (ended, words) in [
            (
                job.cancel().map(|_| ()),
                "is still running 1 s after it should have been canceled",
            ),
            (
                job.stop_with_drain().map(|_| ()),
                "is still running 1 s after it should have been drained",
            ),
        ] {
            let Err(FlinkError::StillRuns(sentence)) = ended else {
                panic!("{ended:?}")
            };
            assert!(
                sentence.contains(words) && sentence.contains(ID),
                "{sentence}"
            );
        }
    }
}

/// The gateway disconnects after it has received the statement; the job starts nevertheless and is found by its name.
#[test]
fn a_job_is_found_by_its_name_when_its_start_got_no_answer() {
    let machine = LocalMachine::this().expect("proc");
    for is_there in [true, false] {
        let name = JobName::new(machine.owner(), "lost");
        let shown = if is_there {
            name.to_string()
        } else {
            "another".to_owned()
        };
        let fake = Fake::start(move |asked, whole| match asked {
            "GET /v1/info" => fine(r#"{"productName":"Apache Flink","version":"2.2.1"}"#),
            "POST /v1/sessions" => fine(r#"{"sessionHandle":"5e"}"#),
            "GET /v1/sessions/5e" => fine(r#"{"properties":{}}"#),
            "POST /v1/sessions/5e/statements" if whole.contains("SHOW JOBS") => {
                fine(r#"{"operationHandle":"10b5"}"#)
            }
            "POST /v1/sessions/5e/statements" => fine(r#"{"operationHandle":"09"}"#),
            "GET /v1/sessions/5e/operations/10b5/status" => fine(r#"{"status":"FINISHED"}"#),
            "GET /v1/sessions/5e/operations/10b5/result/0" => fine(&format!(
                r#"{{"results":{{"columns":[{{"name":"job id"}},{{"name":"job name"}},{{"name":"status"}}],"data":[{{"fields":["{ID}","{shown}","RUNNING"]}}]}}}}"#
            )),
            _ => Reply::Json(500, r#"{"errors":["Session '5e' does not exist."]}"#.into()),
        });
        let gateway =
            Arc::new(SqlGateway::open(&fake.url, GatewayOptions::default()).expect("a session"));
        match FlinkJob::start(&gateway, &name, "INSERT INTO a SELECT 1") {
            Ok(job) => assert!(is_there && job.id() == ID),
            Err(error) => assert!(
                !is_there && matches!(error, FlinkError::Unclear(_)),
                "{error:?}"
            ),
        }
    }
}
