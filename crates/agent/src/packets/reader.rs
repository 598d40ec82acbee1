//! Requests of the server for kept packets: a process of this program selects the packets of the flows, and the file
//! that it writes is sent in parts, each requested by the server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use link::{PacketReply, PacketRequest};
use tokio::sync::mpsc::Sender;

use super::kept_files::{KeptFile, files, link_all, make};
use crate::process::{ProcessEvent, last_line};
use crate::selected_packets::SelectedPackets;

/// Maximum concurrent requests.
const REQUESTS_MAX: usize = 2;
/// Time limit of the process.
const TIME: Duration = Duration::from_secs(20);
/// Time after which a file that the server no longer reads is deleted.
const IDLE: Duration = Duration::from_secs(30);
/// Interval at which the process is checked for its exit.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Maximum delay between a packet and its write.
const WRITE_DELAY: Duration = Duration::from_secs(2);
/// Memory limit of the process.
const MEMORY_MAX: &str = "256M";

/// Requests in progress.
pub struct PacketReader {
    folder: PathBuf,
    program: PathBuf,
    /// Condition for flows that may leave the host.
    condition: Option<String>,
    news: Sender<ProcessEvent>,
    requests: BTreeMap<u64, RequestState>,
}

enum RequestState {
    /// The process runs.
    Selecting,
    /// The server reads the file; time of its last request.
    Sending(SelectedPackets, Instant),
}

impl PacketReader {
    /// Reads packets in `folder`, that of the recorder, of flows that meet `condition`; results go to `news`.
    pub fn new(
        folder: &Path,
        program: &Path,
        condition: Option<String>,
        news: Sender<ProcessEvent>,
    ) -> PacketReader {
        let reading = folder.join("reading");
        // Files of a process that was killed.
        let _ = fs::remove_dir_all(&reading);
        PacketReader {
            folder: folder.to_owned(),
            program: program.to_owned(),
            condition,
            news,
            requests: BTreeMap::new(),
        }
    }

    /// Handles a request; `None`: the reply follows, by [`PacketReader::selected`].
    pub fn ask(&mut self, request: &PacketRequest) -> Option<PacketReply> {
        let is_full = self.requests.len() >= REQUESTS_MAX;
        match self.requests.get_mut(&request.request) {
            Some(RequestState::Selecting) => None,
            Some(RequestState::Sending(packets, at)) => {
                *at = Instant::now();
                let reply = packets.part(request.request, request.offset);
                if reply.part.is_empty() {
                    self.requests.remove(&request.request);
                }
                Some(reply)
            }
            None if request.offset > 0 => Some(refusal(
                request.request,
                "the file of this request was deleted",
            )),
            None if is_full => Some(refusal(
                request.request,
                "this host reads packets for other requests",
            )),
            None if !is_community_id(&request.community_id) => {
                Some(refusal(request.request, "this is not a Community ID"))
            }
            None => {
                let found = self.begin(request);
                found
                    .err()
                    .map(|why| refusal(request.request, &why.to_string()))
            }
        }
    }

    /// Takes the result of the process of a request; returns the first part.
    pub fn selected(&mut self, number: u64, selected: io::Result<SelectedPackets>) -> PacketReply {
        self.requests.remove(&number);
        match selected {
            Err(why) => refusal(number, &why.to_string()),
            Ok(packets) => {
                let reply = packets.part(number, 0);
                if reply.total > reply.part.len() as u64 {
                    self.requests
                        .insert(number, RequestState::Sending(packets, Instant::now()));
                }
                reply
            }
        }
    }

    /// Deletes files that the server no longer reads. To be called every second.
    pub fn forget_idle(&mut self) {
        self.requests.retain(|_, state| match state {
            RequestState::Selecting => true,
            RequestState::Sending(_, at) => at.elapsed() < IDLE,
        });
    }

    /// Starts the process on a thread.
    fn begin(&mut self, request: &PacketRequest) -> io::Result<()> {
        let number = request.request;
        let folder = self.folder.join("reading").join(format!("{number:016x}"));
        make(&folder)?;
        let kept = ["current", "alerts"].map(|part| files(&self.folder.join(part)));
        let kept = of_period(kept.concat(), request);
        let program = self.program.clone();
        let condition = self.condition.iter().map(|also| format!(" and {also}"));
        let query = format!(
            "PARSE flow WHERE community_id = '{}'{}",
            request.community_id,
            condition.collect::<String>()
        );
        let bytes_max = request.bytes_max;
        let news = self.news.clone();
        thread::Builder::new()
            .name("packets".into())
            .spawn(move || {
                let selected = link_all(&kept, &folder)
                    .and_then(|files| select(&program, (&folder, files), &query, bytes_max));
                let _ = fs::remove_dir_all(&folder);
                // The channel is closed when the agent ends.
                let _ = news.blocking_send(ProcessEvent::Packets(number, selected));
            })?;
        self.requests.insert(number, RequestState::Selecting);
        Ok(())
    }
}

/// Reply to a request whose packets are not sent.
pub fn refusal(request: u64, why: &str) -> PacketReply {
    PacketReply {
        request,
        problem: why.to_owned(),
        ..PacketReply::default()
    }
}

/// Whether a text has the form of a Community ID, and can be quoted in a query.
fn is_community_id(text: &str) -> bool {
    let is_base64 = |c: u8| c.is_ascii_alphanumeric() || b"+/=".contains(&c);
    text.len() < 64
        && text
            .strip_prefix("1:")
            .is_some_and(|hash| !hash.is_empty() && hash.bytes().all(is_base64))
}

/// Files that may have packets of the period, each once. A file begins when the one before it in its folder ends; a new
/// one is empty at first.
fn of_period(all: Vec<KeptFile>, request: &PacketRequest) -> Vec<KeptFile> {
    let time = |ns: i64| UNIX_EPOCH + Duration::from_nanos(u64::try_from(ns).unwrap_or(0));
    let since = time(request.since_ns);
    let until = time(request.until_ns) + WRITE_DELAY;
    let mut seen = BTreeSet::new();
    let mut before: Option<KeptFile> = None;
    let mut found = Vec::new();
    for file in all {
        // After a backward step of the clock, or of another folder, the beginning is unknown.
        let begins = before.replace(file.clone()).filter(|before| {
            before.path.parent() == file.path.parent() && before.written <= file.written
        });
        let is_within =
            file.written >= since && begins.is_none_or(|before| before.written <= until);
        if file.bytes > 0 && is_within && seen.insert(file.identity) {
            found.push(file);
        }
    }
    found
}

/// Selects the packets of a query's flows from a folder's numbered files, of this number.
fn select(
    program: &Path,
    (folder, files): (&Path, usize),
    query: &str,
    bytes_max: u64,
) -> io::Result<SelectedPackets> {
    let nothing = SelectedPackets {
        file: None,
        total: 0,
        is_cut: false,
    };
    if files == 0 {
        return Ok(nothing);
    }
    let flows = folder.join("flows.jsonl");
    let out = folder.join("flow.pcapng");
    let mut child = Command::new(program)
        .args(["query", query, "--quiet", "--workers", "1"])
        .args(["--memory-max", MEMORY_MAX, "--format", "jsonl"])
        .arg("-o")
        .arg(&flows)
        .args([
            "--rotate".to_owned(),
            format!("{}KB", (bytes_max / 1024).max(1)),
        ])
        .arg("-w")
        .arg(&out)
        .arg("-r")
        .args((0..files).map(|n| folder.join(format!("{n:06}.pcapng"))))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let complaints = child.stderr.take().map(BufReader::new);
    let complaint = thread::spawn(move || complaints.map_or_else(String::new, last_line));
    let until = Instant::now() + TIME;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() > until => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(io::Error::other(format!(
                    "the packets were not read within {} s",
                    TIME.as_secs()
                )));
            }
            None => thread::sleep(LOOK_EVERY),
        }
    };
    let found = fs::metadata(&flows).map_or(0, |about| about.len());
    if found == 0 {
        let why = complaint.join().unwrap_or_default();
        return if status.success() {
            Ok(nothing)
        } else {
            Err(io::Error::other(why))
        };
    }
    // An error about a part of the input does not concern the packets that were found.
    let file = File::open(folder.join("flow-000001.pcapng"))?;
    let total = file.metadata()?.len();
    Ok(SelectedPackets {
        file: Some(file),
        total,
        is_cut: folder.join("flow-000002.pcapng").exists(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    fn file(path: &str, inode: u64, written: u64) -> KeptFile {
        KeptFile {
            path: path.into(),
            order: (0, 0),
            identity: (0, inode),
            bytes: 1,
            written: UNIX_EPOCH + Duration::from_secs(written),
        }
    }

    #[test]
    fn files_of_a_period_are_found_once() {
        let all = [
            file("current/1/a", 1, 10),
            file("current/1/b", 2, 20),
            file("current/1/c", 3, 30),
            // A later run: the time before its first file is unknown.
            file("current/2/a", 4, 50),
            file("alerts/x/0", 2, 20),
            KeptFile {
                bytes: 0,
                ..file("current/2/b", 5, 55)
            },
        ];
        let of = |since: i64, until: i64| -> Vec<u64> {
            let request = PacketRequest {
                since_ns: since * SECOND_NS,
                until_ns: until * SECOND_NS,
                ..PacketRequest::default()
            };
            let mut found: Vec<u64> = of_period(all.to_vec(), &request)
                .iter()
                .map(|file| file.identity.1)
                .collect();
            found.sort_unstable();
            found
        };
        assert_eq!(of(0, 5), [1, 2, 4]);
        assert_eq!(of(12, 15), [2, 4]);
        assert_eq!(of(25, 60), [3, 4]);
        assert_eq!(of(51, 60), [0; 0]);
        // The clock was set back by 18 s while the second file was written.
        let stepped = [file("current/1/a", 1, 20), file("current/1/b", 2, 7)];
        let request = PacketRequest {
            since_ns: 5 * SECOND_NS,
            until_ns: 6 * SECOND_NS,
            ..PacketRequest::default()
        };
        assert_eq!(of_period(stepped.to_vec(), &request).len(), 2);
    }

    #[test]
    fn only_community_ids_are_quoted_in_a_query() {
        assert!(is_community_id("1:LQU9qZlK+B5F3KDmev6m5PMibrg="));
        for text in ["", "1:", "2:LQU9", "1:a' or id != '", &"1:a".repeat(40)] {
            assert!(!is_community_id(text), "{text}");
        }
    }
}
