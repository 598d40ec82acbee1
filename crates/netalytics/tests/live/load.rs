//! Known load on the servers of a bed, and their logs, compared with the counts of a server's jobs. Requests contain
//! the phase and second of the test, so a loss can be located.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bed::Bed;
use crate::capture::text;
use crate::net::within;
use crate::servers::{Kind, Servers};

/// A request to a host, with its second of a phase.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    pub second: u64,
    pub host: &'static str,
    pub what: String,
}

/// Counts of requests.
pub type Counts = BTreeMap<Asked, u64>;

/// Hosts with their servers. The second web server gets the same requests as the first.
pub const HOSTS: [(&str, Kind); 4] = [
    ("web1", Kind::Nginx),
    ("web2", Kind::Nginx),
    ("db", Kind::MariaDb),
    ("cache", Kind::Memcached),
];
/// Host of the clients.
pub const CLIENTS: &str = "clients";

/// Servers and clients.
pub struct Load {
    servers: BTreeMap<&'static str, Servers>,
    addresses: BTreeMap<String, &'static str>,
    asking: Child,
    answers: BufReader<ChildStdout>,
}

/// A phase of the test.
#[derive(Clone, Debug)]
pub struct Phase {
    pub name: &'static str,
    began: Instant,
}

impl Phase {
    /// Sleeps until this second of the phase, which paces the load.
    pub fn until(&self, seconds: u64) {
        std::thread::sleep(Duration::from_secs(seconds).saturating_sub(self.began.elapsed()));
    }

    /// Elapsed seconds.
    pub fn second(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// The second of the phase in a text that contains the phase's name, followed by a number.
    fn second_of(&self, text: &str) -> Option<u64> {
        let mut words = text
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty());
        words.find(|word| *word == self.name)?;
        words.next()?.parse().ok()
    }
}

impl Load {
    /// Starts all servers, and a client that waits for commands.
    pub fn start(bed: &Bed) -> Load {
        let start = |(host, kind): (&'static str, Kind)| {
            let ns = bed.ns(host);
            let address = bed.address(host);
            std::thread::scope(|scope| {
                scope
                    .spawn(|| (host, Servers::at(&ns, &address, bed.folder(), &[kind])))
                    .join()
                    .expect("it starts")
            })
        };
        let servers: BTreeMap<_, _> = HOSTS.into_iter().map(start).collect();
        let addresses = HOSTS
            .iter()
            .map(|(host, _)| (bed.address(host), *host))
            .collect();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live/load.py");
        let webs = format!("{},{}", bed.address("web1"), bed.address("web2"));
        let log = std::fs::File::create(bed.path("load.log")).expect("a log");
        let mut asking = within(&bed.ns(CLIENTS), "python3")
            .args([script, &webs, &bed.address("db"), &bed.address("cache")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("python runs");
        let answers = BufReader::new(asking.stdout.take().expect("piped"));
        Load {
            servers,
            addresses,
            asking,
            answers,
        }
    }

    fn tell(&mut self, line: &str) {
        let input = self.asking.stdin.as_mut().expect("piped");
        writeln!(input, "{line}")
            .and_then(|()| input.flush())
            .expect("an event");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("text");
        assert_eq!(answer, "ok\n", "the load has ended");
    }

    /// Starts a phase and its load.
    pub fn begin(&mut self, name: &'static str) -> Phase {
        let phase = Phase {
            name,
            began: Instant::now(),
        };
        self.tell(&format!("begin {name}"));
        phase
    }

    /// Ends the load after the last response.
    pub fn end(&mut self) {
        self.tell("end");
    }

    /// Requests in the servers' logs of a phase.
    pub fn logged(&self, phase: &Phase) -> Counts {
        let mut counts = Counts::new();
        for (host, kind) in HOSTS {
            let (log, what): (_, fn(&str) -> Option<String>) = match kind {
                Kind::Nginx => ("access.log", |line| {
                    Some(line.strip_prefix("GET ")?.to_owned())
                }),
                Kind::MariaDb => ("general.log", |line| {
                    Some(line.split_once(" Query\t")?.1.to_owned())
                }),
                Kind::Memcached => ("memcached.log", memcached_asked),
            };
            for what in self.servers[host]
                .log(log, 0)
                .iter()
                .filter_map(|line| what(line))
            {
                if let Some(second) = phase.second_of(&what) {
                    *counts.entry(Asked { second, host, what }).or_default() += 1;
                }
            }
        }
        counts
    }

    /// Requests in the rows of a phase: of jobs with counts ([`QUERIES`]), and with tuples.
    pub fn counted<'r>(&self, phase: &Phase, rows: impl IntoIterator<Item = &'r Value>) -> Counts {
        let mut counts = Counts::new();
        for row in rows {
            if let Some(asked) = self.asked(phase, row) {
                *counts.entry(asked).or_default() += row["count"].as_u64().unwrap_or(1);
            }
        }
        counts
    }

    /// Request of a row. `None`: of another phase, or without a status, because its monitor ended before the response.
    pub fn asked(&self, phase: &Phase, row: &Value) -> Option<Asked> {
        let what = if !row["path"].is_null() {
            if row["status"].is_null() {
                return None;
            }
            format!("{} {}", text(&row["path"]), text(&row["status"]))
        } else if !row["query"].is_null() {
            text(&row["query"])
        } else {
            format!("{} {}", text(&row["command"]), text(&row["cache_key"]))
        };
        let second = phase.second_of(&what)?;
        Some(Asked {
            second,
            host: self.addresses[&text(&row["server_ip"])],
            what,
        })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.asking.kill();
        let _ = self.asking.wait();
    }
}

/// `<28 get key`, `<28 set key 0 0 3`.
fn memcached_asked(line: &str) -> Option<String> {
    let mut words = line.strip_prefix('<')?.split(' ').skip(1);
    let command = words
        .next()
        .filter(|command| ["get", "set"].contains(command))?;
    Some(format!("{command} {}", words.next()?))
}

/// The standing jobs: label of their agents, and query.
pub const QUERIES: [(&str, &str); 3] = [
    (
        "web",
        "PARSE http TO *:80 PROCESS (group-count: group=server_ip, path, status, w=1s)",
    ),
    (
        "db",
        "PARSE mysql_query PROCESS (group-count: group=server_ip, query, w=1s)",
    ),
    (
        "cache",
        "PARSE memcached PROCESS (group-count: group=server_ip, command, cache_key, w=1s)",
    ),
];
