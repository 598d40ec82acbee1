//! Failures during a merge in Flink.

use std::process::Command;
use std::time::{Duration, Instant};

use testkit::cluster::TestCluster;
use testkit::programs::{PATIENCE, wait_for};

use super::records::{late_lane, strange, write};
use super::{Started, Traffic, as_set, assert_rows, counted, topics, undisturbed};
use crate::{Folder, Ran, run};

/// A busy machine starts a job slowly, and the end of a TaskManager is noticed late.
const END: Duration = Duration::from_secs(180);

fn flags(cluster: &TestCluster) -> Vec<&str> {
    let gateway = cluster.gateway.as_deref().expect("a gateway");
    let jobs = cluster.flink.as_deref().expect("Flink");
    vec![
        "--engine",
        "flink",
        "--flink-gateway",
        gateway,
        "--flink",
        jobs,
    ]
}

fn asks<'a>(cluster: &'a TestCluster, since: &'a str) -> Vec<&'a str> {
    let fixed = [
        "query",
        since,
        "--kafka",
        &cluster.kafka,
        "--published",
        "cells",
        "--format",
        "jsonl",
    ];
    [&fixed[..], &flags(cluster)].concat()
}

/// A publisher and a live query with Flink.
struct Scene {
    folder: Folder,
    traffic: Traffic,
    query: String,
    since: String,
    topic: String,
    publisher: Started,
    asker: Started,
}

impl Scene {
    /// Rows have arrived at the end of this.
    fn begin(cluster: &TestCluster, window: &str) -> Scene {
        let folder = Folder::new();
        let traffic = Traffic::stretched(20);
        let query = format!("PARSE http PROCESS (diff-group: group=url_template, w={window})");
        let since = format!("{query} SINCE 2001-01-01");
        // One partition: Flink does not wait for empty ones.
        let mut publisher = Started::publisher(
            &folder,
            "publisher",
            cluster,
            &query,
            &["--partitions", "1"],
        );
        publisher.says("publishing to partition");
        let said = publisher.said();
        let topic = said
            .split("partition 0 of ")
            .nth(1)
            .and_then(|rest| rest.split(';').next());
        let topic = topic.unwrap_or_else(|| panic!("{said}")).to_owned();
        let asker = Started::new(
            &folder,
            "asker",
            &[&asks(cluster, &since)[..], &["--follow"]].concat(),
        );
        publisher.feed(traffic.part(0.0, 0.5), Duration::from_secs(2));
        let begun = Instant::now();
        while asker.rows() == 0 {
            assert!(begun.elapsed() < END, "{}", asker.said());
            std::thread::sleep(Duration::from_millis(100));
        }
        Scene {
            folder,
            traffic,
            query,
            since,
            topic,
            publisher,
            asker,
        }
    }

    /// Publishes the rest; checks that nothing is missing or duplicated; returns the result.
    fn end(mut self, cluster: &TestCluster, rest: &[Vec<u8>], pause: Duration) -> Ran {
        self.publisher.feed(rest, Duration::from_secs(4));
        let published = self.publisher.ends(PATIENCE);
        assert_eq!(published.code, 0, "{}", published.err);
        std::thread::sleep(pause);
        let ran = self.asker.interrupted(END);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_rows(
            &ran.out,
            &undisturbed(&self.query, &self.traffic.file(&self.folder)),
            &ran.err,
        );
        nothing_is_left(cluster);
        ran
    }
}

/// Unfinished jobs.
fn jobs(cluster: &TestCluster) -> usize {
    let url = format!("{}/jobs/overview", cluster.flink.as_deref().expect("Flink"));
    let asked = Command::new("curl")
        .args(["-fsS", &url])
        .output()
        .expect("curl");
    let told: serde_json::Value = serde_json::from_slice(&asked.stdout).expect("JSON");
    let all = told["jobs"].as_array().expect("jobs");
    let is_over = |job: &&serde_json::Value| {
        matches!(
            job["state"].as_str(),
            Some("FINISHED" | "CANCELED" | "FAILED")
        )
    };
    all.len() - all.iter().filter(is_over).count()
}

#[track_caller]
fn nothing_is_left(cluster: &TestCluster) {
    assert_eq!(jobs(cluster), 0);
    wait_for("no topic of a job", || match topics(cluster) {
        all if all.contains("netalytics.merged") => Err(all),
        _ => Ok(()),
    });
}

/// Flink considers a source idle after five seconds without records; the last windows are reported nevertheless.
pub fn silent_topics(cluster: &TestCluster) {
    let scene = Scene::begin(cluster, "1900ms");
    let rest = scene.traffic.part(0.5, 1.0).to_vec();
    scene.end(cluster, &rest, Duration::from_secs(9));
}

pub fn a_killed_broker(cluster: &TestCluster) {
    let scene = Scene::begin(cluster, "2s");
    let folder = Folder::new();
    let fixed = [
        "query",
        &scene.since,
        "--follow",
        "--kafka",
        &cluster.kafka,
        "--format",
        "jsonl",
    ];
    let embedded = Started::new(&folder, "embedded", &fixed);
    wait_for("rows", || {
        if embedded.rows() > 0 {
            Ok(())
        } else {
            Err(embedded.said())
        }
    });
    cluster.kill("broker-2");
    let _again = Again(cluster);
    let expected = undisturbed(&scene.query, &scene.traffic.file(&scene.folder));
    let rest = scene.traffic.part(0.5, 1.0).to_vec();
    scene.end(cluster, &rest, Duration::from_secs(5));
    let ran = embedded.interrupted(PATIENCE);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_rows(&ran.out, &expected, &ran.err);
}

/// Restarts the second broker for later scenarios.
struct Again<'c>(&'c TestCluster);

impl Drop for Again<'_> {
    fn drop(&mut self) {
        self.0.start_again("broker-2");
    }
}

pub fn a_killed_taskmanager(cluster: &TestCluster) {
    let scene = Scene::begin(cluster, "2100ms");
    cluster.kill("taskmanager-1");
    scene.asker.says("note: Flink starts the job again: ");
    cluster.start_again("taskmanager-1");
    scene.asker.says("note: Flink's job is running again");
    let rest = scene.traffic.part(0.5, 1.0).to_vec();
    scene.end(cluster, &rest, Duration::from_secs(5));
}

pub fn a_killed_gateway(cluster: &TestCluster) {
    let mut scene = Scene::begin(cluster, "2200ms");
    cluster.kill("gateway");
    let rows = scene.asker.rows();
    let rest = scene
        .traffic
        .packets
        .split_off(scene.traffic.packets.len() / 2);
    scene.publisher.feed(&rest, Duration::from_secs(4));
    wait_for("rows without a gateway", || {
        if scene.asker.rows() > rows {
            Ok(())
        } else {
            Err(scene.asker.said())
        }
    });
    cluster.start_again("gateway");
    scene.traffic = Traffic::stretched(20);
    scene.end(cluster, &[], Duration::from_secs(3));
}

/// The next start ends the job of a killed process, and its rows are complete.
pub fn a_killed_asker(cluster: &TestCluster) {
    let mut scene = Scene::begin(cluster, "2300ms");
    scene.asker.signal("-KILL");
    scene
        .publisher
        .feed(scene.traffic.part(0.5, 1.0), Duration::ZERO);
    assert_eq!(jobs(cluster), 1, "it is left over");
    let Scene {
        folder,
        traffic,
        query,
        since,
        publisher,
        ..
    } = scene;
    assert_eq!(publisher.ends(PATIENCE).code, 0);
    let ran = run(&asks(cluster, &since));
    assert!(
        ran.code == 0 && ran.err.contains("note: canceled Flink's job netalytics/"),
        "{}",
        ran.err
    );
    assert_rows(
        &ran.out,
        &undisturbed(&query, &traffic.file(&folder)),
        &ran.err,
    );
    nothing_is_left(cluster);
}

/// Flink skips no record; that is reported, and the embedded engine answers.
pub fn poison(cluster: &TestCluster) {
    let scene = Scene::begin(cluster, "2400ms");
    write(cluster, &scene.topic, 0, &strange());
    let ran = scene.asker.ends(END);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err
            .contains("error: Flink: a record in the topic is not from netalytics"),
        "{}",
        ran.err
    );
    nothing_is_left(cluster);
    let mut publisher = scene.publisher;
    let traffic = scene.traffic;
    publisher.feed(traffic.part(0.5, 1.0), Duration::ZERO);
    assert_eq!(publisher.ends(PATIENCE).code, 0);
    let ran = run(&[
        "query",
        &scene.since,
        "--kafka",
        &cluster.kafka,
        "--published",
        "cells",
        "--format",
        "jsonl",
    ]);
    assert_eq!(
        (ran.code, counted(&ran, "malformed")),
        (1, 4),
        "{}",
        ran.err
    );
    assert_rows(
        &ran.out,
        &undisturbed(&scene.query, &traffic.file(&scene.folder)),
        &ran.err,
    );
}

pub fn late(cluster: &TestCluster) {
    let ran = late_lane(cluster, "w=2500ms", &flags(cluster));
    assert!(counted(&ran, "too late") > 0, "{}", ran.err);
    as_set(&ran.out);
    nothing_is_left(cluster);
}

pub fn deleted(cluster: &TestCluster) {
    let scene = Scene::begin(cluster, "2600ms");
    let tool = "org.apache.kafka.tools.TopicCommand";
    let deleted = cluster
        .kafka_tool(tool)
        .args(["--delete", "--topic", &scene.topic])
        .output()
        .expect("java");
    assert!(deleted.status.success());
    let ran = scene.asker.ends(END);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err.contains("does not exist at the brokers"),
        "{}",
        ran.err
    );
    let published = scene.publisher.ends(PATIENCE);
    assert!(
        published.code == 1 && published.err.contains("does not exist at the brokers"),
        "{}",
        published.err
    );
    nothing_is_left(cluster);
}

/// Ctrl-C while no broker responds: ends within a time limit, reports missing data, and leaves no job.
pub fn an_end_without_brokers(cluster: &TestCluster) {
    let scene = Scene::begin(cluster, "2700ms");
    ["broker-1", "broker-2", "broker-3"]
        .iter()
        .for_each(|broker| cluster.kill(broker));
    scene.asker.says("no broker responds at ");
    let begun = Instant::now();
    let ran = scene.asker.interrupted(END);
    eprintln!("  it ended {:.1?} after it was asked to", begun.elapsed());
    assert!(
        ran.code == 1
            && ran
                .err
                .contains("error: Flink: the last windows are missing: "),
        "{}",
        ran.err
    );
    assert_eq!(jobs(cluster), 0);
    scene.publisher.interrupted(Duration::from_secs(25));
}
