//! Requests open at the end of a publisher's capture end there, as in a query over that capture alone; with one capture
//! of all they would end with its last packet. Expected values by construction.

use std::collections::BTreeMap;

use testkit::cluster::TestCluster;

use super::periods::{START, counted, publish};
use super::rows::rows;
use crate::{Folder, run};

/// Packets of connections to port 80, with their seconds after `START`.
#[derive(Default)]
pub struct Traffic(Vec<(f64, Vec<u8>)>);

/// An endpoint of a connection: address, port, next sequence number.
type End = ([u8; 4], u16, u32);

impl Traffic {
    fn say(&mut self, at: f64, (from, to): (&mut End, &End), flags: u8, payload: &[u8]) {
        let mut frame = [[2; 6], [4; 6]].concat();
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((40 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend(from.0.into_iter().chain(to.0));
        frame.extend(from.1.to_be_bytes().into_iter().chain(to.1.to_be_bytes()));
        frame.extend(from.2.to_be_bytes().into_iter().chain(to.2.to_be_bytes()));
        frame.extend([0x50, flags, 255, 255, 0, 0, 0, 0]);
        frame.extend(payload);
        from.2 += payload.len() as u32 + u32::from(flags & 3 != 0);
        self.0.push((at, frame));
    }

    /// A connection from 10.`net`.0.1 that starts at a time: requests with a path and a header of that length, and
    /// their response times; optionally reset by the client.
    pub fn connection(
        &mut self,
        (net, port): (u8, u16),
        begin: f64,
        requests: &[(f64, &str, usize, Option<f64>)],
        reset: Option<f64>,
    ) {
        let mut client = ([10, net, 0, 1], port, 100);
        let mut server = ([10, net, 0, 2], 80, 500);
        self.say(begin, (&mut client, &server), 2, b"");
        self.say(begin, (&mut server, &client), 0x12, b"");
        self.say(begin, (&mut client, &server), 0x10, b"");
        for (at, path, header, answered) in requests {
            let request = format!("GET /{path} HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(*header));
            for part in request.as_bytes().chunks(1400) {
                self.say(*at, (&mut client, &server), 0x18, part);
                self.say(*at, (&mut server, &client), 0x10, b"");
            }
            if let Some(at) = answered {
                let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                self.say(*at, (&mut server, &client), 0x18, response);
            }
        }
        if let Some(at) = reset {
            self.say(at, (&mut client, &server), 0x14, b"");
        }
    }

    /// All packets as a capture.
    pub fn file(mut self, folder: &Folder, name: &str) -> String {
        self.0.sort_by(|one, other| one.0.total_cmp(&other.0));
        let head = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1];
        let mut file: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
        for (at, frame) in self.0 {
            let ns = (at * 1e9).round() as u64;
            let seconds = (START + ns / 1_000_000_000) as u32;
            let length = frame.len() as u32;
            let head = [seconds, (ns % 1_000_000_000) as u32, length, length];
            file.extend(head.iter().flat_map(|word| word.to_le_bytes()));
            file.extend(frame);
        }
        folder.file(name, &file)
    }
}

/// A request with a response, one without, one whose connection is reset, and one whose response is the last packet.
fn capture(folder: &Folder, net: u8, last: f64) -> String {
    let mut traffic = Traffic::default();
    traffic.connection(
        (net, 1001),
        1.0,
        &[(1.5, "answered", 1, Some(2.0)), (3.0, "open", 1, None)],
        None,
    );
    traffic.connection((net, 1002), 4.0, &[(5.0, "reset", 1, None)], Some(7.0));
    traffic.connection(
        (net, 1003),
        last - 1.0,
        &[(last - 0.5, "last", 1, Some(last))],
        None,
    );
    traffic.file(folder, &format!("ends-{net}.pcap"))
}

/// Requests by server and window, in seconds after `START`.
fn by_window(ran: &crate::Ran) -> BTreeMap<(String, u64), u64> {
    assert_eq!(ran.code, 0, "{}", ran.err);
    let rows = rows(ran);
    let of = |row: &super::rows::Row| {
        let start = row["window_start"].as_u64().expect("a time") / 1_000_000_000 - START;
        (
            (
                row["server_ip"].as_str().expect("a server").to_owned(),
                start,
            ),
            row["count"].as_u64().expect("a count"),
        )
    };
    rows.iter().map(of).collect()
}

pub fn are_those_of_publishers(cluster: &TestCluster) {
    let kafka = cluster.kafka.as_str();
    let folder = Folder::new();
    let query = "PARSE http PROCESS (group-count: group=server_ip, w=5s)";
    let files = [(2, 57.0), (1, 10.0)].map(|(net, last)| capture(&folder, net, last));
    let expected = |of_first: [u64; 4]| -> BTreeMap<(String, u64), u64> {
        let windows = |server: &str, counts: [u64; 4]| {
            let of = [0, 5, 10, 55]
                .into_iter()
                .zip(counts)
                .filter(|(_, count)| *count > 0);
            of.map(|(start, count)| ((server.to_owned(), start), count))
                .collect::<Vec<_>>()
        };
        [
            windows("10.1.0.2", of_first),
            windows("10.2.0.2", [1, 1, 0, 2]),
        ]
        .concat()
        .into_iter()
        .collect()
    };
    // The capture of the first server ends after 10 s, both together after 57 s.
    let [alone, together] = [expected([1, 2, 1, 0]), expected([1, 1, 1, 1])];
    let over_files = |files: &[String]| {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        by_window(&run(&[
            &["query", query, "--format", "jsonl", "-q", "-r"][..],
            &files,
        ]
        .concat()))
    };
    assert_eq!(over_files(&files), together);
    assert_eq!(
        files
            .iter()
            .flat_map(|file| over_files(std::slice::from_ref(file)))
            .collect::<BTreeMap<_, _>>(),
        alone
    );
    for (what, published) in [("tuples", "PARSE http"), ("cells", query)] {
        for file in &files {
            assert!(
                publish(kafka, published, what, file)
                    .status()
                    .expect("the binary runs")
                    .success()
            );
        }
        for engine in [&[][..], &super::flink(cluster)] {
            let since = format!("{query} SINCE 2001-01-01");
            let flags = [
                "query",
                &since,
                "--kafka",
                kafka,
                "--published",
                what,
                "--format",
                "jsonl",
                "-q",
            ];
            assert_eq!(
                by_window(&run(&[&flags[..], engine].concat())),
                alone,
                "{what}, {engine:?}"
            );
        }
    }
    // Without windows all are equal.
    let (counts, _) = counted(
        kafka,
        "PARSE http PROCESS (group-count: group=server_ip)",
        "tuples",
        &[],
    );
    assert_eq!(
        counts,
        ["10.1.0.2", "10.2.0.2"]
            .map(|server| (server.to_owned(), 4))
            .into()
    );
}
