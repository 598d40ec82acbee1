//! A broker with a full disk.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::cluster::ClusterParts;
use testkit::programs::PATIENCE;

use super::{Started, Traffic, assert_rows, cluster, counted, undisturbed};
use crate::{Folder, run};

/// A separate file system for a directory, whose content is moved to it.
struct Disk(String);

impl Disk {
    fn below(dir: &str) -> Option<Disk> {
        let aside = format!("{dir}.aside");
        let shell = format!(
            "mv {dir} {aside} && mkdir {dir} && mount -t tmpfs -o size=32m netalytics-faults {dir} && cp -a {aside}/. {dir}/"
        );
        let mounted = Command::new("sh")
            .args(["-c", &shell])
            .status()
            .expect("a shell")
            .success();
        testkit::require!("mount" => mounted);
        Some(Disk(dir.to_owned()))
    }

    fn fill(&self) {
        let shell = format!("cat /dev/zero >{}/filler", self.0);
        assert!(
            !Command::new("sh")
                .args(["-c", &shell])
                .status()
                .expect("a shell")
                .success()
        );
    }

    fn empty(&self) {
        fs::remove_file(Path::new(&self.0).join("filler")).expect("it exists");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}

pub fn a_full_disk() {
    let Some(cluster) = cluster("faults-disk", ClusterParts::Kafka(1)) else {
        return;
    };
    cluster.kill("broker-1");
    let Some(disk) = Disk::below(&cluster.property("broker-1", "log.dirs")) else {
        return;
    };
    cluster.start_again("broker-1");
    let folder = Folder::new();
    let traffic = Traffic::stretched(20);
    let query = "PARSE http PROCESS (diff-group: group=url_template, w=1s)";
    // The killed broker must be the first to start.
    std::thread::sleep(Duration::from_secs(8));
    let tuples = ["--publish", "tuples"];
    let mut publisher = Started::publisher(&folder, "publisher", &cluster, query, &tuples);
    publisher.says("publishing to partition");
    publisher.feed(traffic.part(0.0, 0.4), Duration::from_secs(2));
    disk.fill();
    publisher.feed(traffic.part(0.4, 0.8), Duration::from_secs(2));
    publisher.says("no broker has accepted a record for 5 s (");
    disk.empty();
    // The broker has ended by itself, like every broker whose only disk fails.
    cluster.start_again("broker-1");
    publisher.says("brokers accept records again; nothing was dropped");
    publisher.feed(traffic.part(0.8, 1.0), Duration::ZERO);
    let ran = publisher.ends(PATIENCE);
    let since = format!("{query} SINCE 2001-01-01");
    let asked = run(&[
        "query",
        &since,
        "--kafka",
        &cluster.kafka,
        "--published",
        "tuples",
        "--format",
        "jsonl",
    ]);
    assert_eq!(asked.code, 0, "{}", asked.err);
    // A broker with a full disk may reject one batch without a specific reason, which is reported.
    match counted(&ran, "dropped") {
        0 => {
            assert_eq!(ran.code, 0, "{}", ran.err);
            assert_rows(
                &asked.out,
                &undisturbed(query, &traffic.file(&folder)),
                "after a full disk",
            );
        }
        dropped => {
            assert_eq!(ran.code, 1, "{}", ran.err);
            let all: u64 = undisturbed(query, &traffic.file(&folder))
                .iter()
                .map(|row| count(row))
                .sum();
            let missing = all - asked.out.lines().map(count).sum::<u64>();
            assert!(
                (1..=dropped).contains(&missing),
                "{missing} tuples are missing:\n{}",
                ran.err
            );
        }
    }
}

/// Column `count` of a row.
fn count(row: &str) -> u64 {
    let row: serde_json::Value = serde_json::from_str(row).expect("a row is JSON");
    row["count"].as_u64().expect("rows have a count")
}
