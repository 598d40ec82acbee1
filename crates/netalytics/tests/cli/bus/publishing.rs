//! Hosts that publish concurrently, each to its own partition.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};

use serde_json::Value;

use super::engines::TIMES;
use super::hosts::HEAD;
use crate::{BINARY, Folder};

/// Publishes the captures of all hosts; returns the number of late tuples.
pub fn publish(kafka: &str, query: &str, hosts: &[String], what: &str) -> u64 {
    let folder = Folder::new();
    let begin = || begin(kafka, query, hosts, what, &folder);
    let begun = (1..TIMES).fold(begin(), |begun, _| begun.or_else(|_| begin()));
    let publishers = begun.unwrap_or_else(|why| panic!("{query}: {why}"));
    // All must have a partition before one ends and releases its own.
    std::thread::scope(|scope| {
        for (publisher, host) in publishers.into_iter().zip(hosts) {
            scope.spawn(move || publisher.publish(host));
        }
    });
    (0..hosts.len())
        .map(|host| late(&folder.path(&host.to_string())))
        .sum()
}

/// All have a partition, and have published nothing; or the error of one that timed out.
fn begin(
    kafka: &str,
    query: &str,
    hosts: &[String],
    what: &str,
    folder: &Folder,
) -> Result<Vec<Publisher>, String> {
    let start = |(number, host): (usize, &String)| {
        let mut command = Command::new(BINARY);
        command.args([
            "publish",
            query,
            "-r",
            "-",
            "--no-redact",
            "--partitions",
            "3",
        ]);
        command.args(["--publish", what, "--kafka", kafka]);
        command.args(["--summary-json", &folder.path(&number.to_string())]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        Publisher::start(command.spawn().expect("the binary runs"), host)
    };
    let mut all: Vec<Publisher> = hosts.iter().enumerate().map(start).collect();
    all.iter_mut().try_for_each(Publisher::begins).map(|()| all)
}

/// A publisher fed by the test; killed on drop.
struct Publisher {
    child: Child,
    input: Option<ChildStdin>,
    says: Lines<BufReader<ChildStderr>>,
}

impl Publisher {
    /// Starts the publisher with the header of a capture, without which it does not begin.
    fn start(mut child: Child, capture: &str) -> Publisher {
        let mut input = child.stdin.take();
        let says = child.stderr.take().expect("piped");
        let all = fs::read(capture).expect("a capture");
        // The publisher may have ended, which its messages show.
        let _ = input.as_mut().expect("piped").write_all(&all[..HEAD]);
        Publisher {
            child,
            input,
            says: BufReader::new(says).lines(),
        }
    }

    fn begins(&mut self) -> Result<(), String> {
        let said = self.says.by_ref().map_while(Result::ok);
        let is_told = |line: &String| line.contains("publishing to") || line.contains("error");
        match { said }.find(is_told) {
            Some(line) if line.contains("publishing to") => Ok(()),
            why => Err(format!("{why:?}")),
        }
    }

    /// Publishes the complete capture.
    fn publish(mut self, capture: &str) {
        let all = fs::read(capture).expect("a capture");
        self.input
            .take()
            .expect("it reads")
            .write_all(&all[HEAD..])
            .expect("it reads");
        let said: Vec<String> = self.says.by_ref().map_while(Result::ok).collect();
        assert!(self.child.wait().expect("it ends").success(), "{said:?}");
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Number of late tuples in a summary; none for a failed run.
pub fn late(summary: &str) -> u64 {
    let read = |file| serde_json::from_reader(file).ok();
    let summary: Value = File::open(summary).ok().and_then(read).unwrap_or_default();
    let counts = ["/stream/tuples_late", "/published/late"].map(|place| summary.pointer(place));
    counts.into_iter().flatten().filter_map(Value::as_u64).sum()
}
