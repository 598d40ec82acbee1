//! Jobs over export messages: an agent receives sFlow and NetFlow once, and its jobs have the rows of `query` over the
//! same messages.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;

use capture::PacketBlock;
use serde_json::Value;
use wire::Packet;

use super::resilience::{children, is_connected, start};
use super::service::{Server, wait};
use super::{Folder, ROOT, check};

/// Exports of several exporters: NetFlow 9, IPFIX with options, and sFlow samples.
const CAPTURES: [&str; 3] = [
    "pmacct-101-NFv9-CISCO-traffic-00.pcap",
    "akvorado-data-1140.pcap",
    "wswiki-sFlow-v5-100-ping-per-second.pcap",
];
const FLOWS: &str = "PARSE flow PROCESS (group-sum: value=client_bytes, group=server_port)";
const PACKETS: &str = "PARSE packet PROCESS (group-count: group=dst_ip)";
/// Reads a column that only the file of names defines; in results, its values would be redacted.
const NAMED: &str = "PARSE flow WHERE field.ip_protocol = '6' PROCESS (group-sum: value=client_bytes, group=server_port)";
const NAMES: &[u8] = b"ip-protocol(4)<unsigned8>\n";

fn files() -> Vec<PathBuf> {
    let folder = PathBuf::from(ROOT).join("../shared/data/captures/flowexport");
    CAPTURES.iter().map(|name| folder.join(name)).collect()
}

/// Senders and datagrams of the captures.
fn datagrams() -> Vec<(SocketAddr, Vec<u8>)> {
    let mut all = Vec::new();
    let mut block = PacketBlock::default();
    let mut source = capture::open(&files());
    while source.next_block(&mut block) {
        for captured in block.packets() {
            let packet = Packet::decode(&captured).expect("a datagram");
            let from = packet.five_tuple.src;
            let from = SocketAddr::new(from.addr.to_ip(), from.port);
            all.push((from, packet.payload.to_vec()));
        }
    }
    assert!(all.len() > 20, "{}", all.len());
    all
}

fn free_port() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("an address")
}

/// Rows of `query` over the captures, by their texts, and the summary.
fn expected(folder: &Folder, query: &str) -> (Vec<String>, Value) {
    let summary = folder.path("summary.json");
    let names = folder.file("names", NAMES);
    let files = files();
    let files = files
        .iter()
        .flat_map(|path| ["-r", path.to_str().expect("text")]);
    let flags = [
        "--exports",
        "--elements",
        &names,
        "--format",
        "jsonl",
        "--summary-json",
        &summary,
    ];
    let arguments = ["query", query].into_iter().chain(flags).chain(files);
    let ran = check(&arguments.collect::<Vec<_>>(), 0, &[]);
    let rows = ran
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"));
    let summary = std::fs::read_to_string(&summary).expect("a summary");
    (
        comparable(rows),
        serde_json::from_str(&summary).expect("JSON"),
    )
}

/// Rows without times and the columns that only jobs have.
fn comparable(rows: impl Iterator<Item = Value>) -> Vec<String> {
    let text = |row: Value| {
        let own = [
            "id",
            "agents_missing",
            "approximate",
            "window_start",
            "window_end",
            "lost",
        ];
        let cells: BTreeMap<String, Value> = row
            .as_object()
            .expect("a row")
            .clone()
            .into_iter()
            .collect();
        let cells = cells
            .iter()
            .filter(|(name, _)| !own.contains(&name.as_str()));
        cells
            .map(|(name, cell)| format!("{name}={cell} "))
            .collect::<String>()
    };
    let mut texts: Vec<String> = rows.map(text).collect();
    texts.sort();
    texts
}

#[test]
fn jobs_over_exporters_have_the_rows_of_query() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let token = server.token(&folder, "one");
    let first = free_port();
    let second = free_port();
    let names = folder.file("names", NAMES);
    let policy = format!(
        "[exports]\nlisten = ['sflow://{first}', 'netflow://{second}']\nelements = '{names}'\n"
    );
    let own = folder.path("one");
    let policy = folder.file("policy.toml", policy.as_bytes());
    let arguments = [
        "agent",
        "--server",
        &server.url,
        "--token-file",
        &token,
        "--name",
        "one",
    ];
    let without = [&arguments[..], &["--folder", &own]].concat();

    // Without listeners in its policy, an agent does not take part.
    let texts = |all: &[&str]| {
        all.iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    let agent = start(&texts(&without));
    wait("it comes", || is_connected(&server, "one"));
    let said = server.refuses(&["jobs", "start", FLOWS, "--exports"]);
    assert!(
        said.contains("no connected agent receives export messages"),
        "{said}"
    );
    drop(agent);
    let agent = start(&texts(&[&without[..], &["--policy", &policy]].concat()));
    wait("it comes", || is_connected(&server, "one"));
    for (query, words) in [
        ("PARSE http", "response times cannot be derived"),
        (
            "PARSE flow WHERE handshake_ns > 5",
            "measured from every packet",
        ),
    ] {
        let said = server.refuses(&["jobs", "start", query, "--exports"]);
        assert!(said.contains(words), "{said}");
    }

    let job = |query: &str| {
        let started = server.rows(&["jobs", "start", query, "--exports", "--standing"]);
        assert_eq!(started[0]["source"], "exports");
        started[0]["id"].as_str().expect("a number").to_owned()
    };
    let jobs = [job(FLOWS), job(FLOWS), job(PACKETS), job(NAMED)];
    let counter = |job: &str, name: &str| -> u64 {
        let shown = server.rows(&["jobs", "show", job]);
        shown[0]["agents"][0]["counters"][name]
            .as_u64()
            .unwrap_or(0)
    };
    for job in &jobs {
        wait("it runs", || {
            let shown = server.rows(&["jobs", "show", job]);
            match shown[0]["agents"][0]["state"].as_str() {
                Some("running") => Ok(()),
                _ => Err(format!("{shown:?}")),
            }
        });
    }
    assert_eq!(
        children(agent.0.id()).len(),
        3,
        "the jobs of one query share a monitor"
    );

    // Each exporter has a socket of its own, as templates belong to its port.
    let mut senders: BTreeMap<SocketAddr, UdpSocket> = BTreeMap::new();
    let datagrams = datagrams();
    for (n, (from, datagram)) in datagrams.iter().enumerate() {
        let sender = senders
            .entry(*from)
            .or_insert_with(|| UdpSocket::bind("127.0.0.1:0").expect("a port"));
        // Any port accepts all protocols, but an exporter sends to one.
        let to = if from.port() % 2 == 0 { first } else { second };
        sender.send_to(datagram, to).expect("sent");
        if n % 16 == 15 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
    for job in &jobs {
        wait("all datagrams", || match counter(job, "packets") {
            all if all == datagrams.len() as u64 => Ok(()),
            some => Err(format!("{some} of {}", datagrams.len())),
        });
    }
    std::thread::sleep(std::time::Duration::from_millis(1500));
    for (job, query) in jobs.iter().zip([FLOWS, FLOWS, PACKETS, NAMED]) {
        server.ask(&["jobs", "stop", job]);
        wait("its end", || {
            let shown = server.rows(&["jobs", "show", job]);
            match shown[0]["state"].as_str() {
                Some("ended") => Ok(()),
                _ => Err(format!("{shown:?}")),
            }
        });
        let (rows, summary) = expected(&folder, query);
        assert!(rows.len() > 2, "{rows:?}");
        let found = comparable(server.rows(&["jobs", "results", job]).into_iter());
        assert_eq!(found, rows, "{query}");
        // The counters and losses of every exporter are those of the summary.
        for name in ["messages", "flow_records", "samples", "templates"] {
            let in_summary = summary["exports"][name].as_u64().unwrap_or(0);
            assert_eq!(
                counter(job, &format!("exports.{name}")),
                in_summary,
                "{name}"
            );
        }
        let shown = server.rows(&["jobs", "show", job]);
        let exporters = shown[0]["agents"][0]["exporters"]
            .as_array()
            .expect("a list");
        let by_exporter = summary["exports"]["by_exporter"]
            .as_array()
            .expect("a list");
        let sums =
            |all: &[Value], name: &str| all.iter().filter_map(|of| of[name].as_u64()).sum::<u64>();
        assert!(!exporters.is_empty());
        for name in ["received", "lost", "restarts"] {
            assert_eq!(sums(exporters, name), sums(by_exporter, name), "{name}");
        }
        let sheet = server.ask(&["jobs", "show", job]);
        for words in [
            "source          exports",
            "exporter",
            "netflow9",
            "flow_records",
        ] {
            assert!(sheet.contains(words), "{sheet}");
        }
    }
}
