//! Compares Redis commands with `redis.tsv` of every capture that has one: each row with command, key, error, and times
//! in nanoseconds; and unsolicited messages of the server. Differences are listed in [`DIFFERENCES`] and explained in
//! `docs/truth/redis.md`.

use std::path::Path;

use crate::support::{
    EVERYWHERE, ListedDifferences, Row, as_listed, check_others, compare_captures, nanos, run,
    run_spec, times, true_times, truth,
};

/// Captures over plain links.
const FOLDERS: &[&str] = &[
    "captures/redis",
    "captures/mixed",
    "derived",
    "live-captures",
    "bench",
];

/// Known differences: capture, and each difference in the format of [`compare`].
const DIFFERENCES: &ListedDifferences = &[
    // The reply starts, but its end was not captured.
    (
        "deepflow-redis.pcap",
        &[
            "missing: 127.0.0.1:60314 GET 1 at 1634895580012005000 - -",
            "surplus: 127.0.0.1:60314 GET 1 1 http://127.0.0.1:20013/v2/pod-groups at 1634895580012005000 62000 - - midstream",
        ],
    ),
    // The truth takes the confirmation of a subscription for the reply and for an unsolicited message.
    (
        "mixed_live.pcap.gz",
        &["missing: 10.78.0.2:50850 SUBSCRIBE news at 1795292997939769000 - 0"],
    ),
    (
        "redis_mix.pcap",
        &["missing: 10.77.0.2:35450 SUBSCRIBE news at 1795291202003591000 - 0"],
    ),
    (
        "redis_mix_lossy.pcap",
        &["missing: 10.78.0.2:47600 SUBSCRIBE news at 1795291237223481000 - 0"],
    ),
    // The server sent its message before it received the command: the message does not acknowledge it.
    (
        "zeek-attr.pcap",
        &[
            "missing: 127.0.0.1:62283 FAKE COMMAND at 1750951914986413000 14000 0",
            "missing: 127.0.0.1:62286 FAKE2 COMMAND2 at 1750951919084453000 22000 0",
            "surplus: 127.0.0.1:62283 - - at 1750951914986427000 - 0 - half",
            "surplus: 127.0.0.1:62283 FAKE COMMAND at 1750951914986413000 - - - half",
            "surplus: 127.0.0.1:62286 - - at 1750951919084475000 - 0 - half",
            "surplus: 127.0.0.1:62286 FAKE2 COMMAND2 at 1750951919084453000 - - - half",
        ],
    ),
    // The truth does not support commands that suppress their reply.
    (
        "zeek-client-skip-while-off.pcap",
        &[
            "missing: ::1:56348 CLIENT REPLY at 1730466818148446000 83000 0",
            "missing: ::1:56348 PING - at 1730466818148446000 - -",
            "surplus: ::1:56348 CLIENT - at 1730466818148446000 - - - exact",
            "surplus: ::1:56348 PING - at 1730466818148446000 83000 0 - exact",
        ],
    ),
    (
        "zeek-reply-off-on.pcap",
        &[
            "missing: ::1:60761 CLIENT REPLY at 1730136543237454000 91000 0",
            "missing: ::1:60761 PING - at 1730136543237454000 - -",
            "surplus: ::1:60761 CLIENT - at 1730136543237454000 - - - exact",
            "surplus: ::1:60761 PING - at 1730136543237454000 91000 0 - exact",
        ],
    ),
    // The capture starts with a reply, which the truth assigns to the first command; that command has its own.
    (
        "zeek-start-with-server.pcapng",
        &[
            "missing: 127.0.0.1:60206 SET hello at 1747342625663080000 - 0",
            "surplus: 127.0.0.1:60206 SET hello at 1747342625663080000 160000 0 - midstream",
        ],
    ),
];

/// A packet without a valid command; the truth has five commands for it.
const NONSENSE: &str = "tcpdump-resp_4_infiniteloop.pcapng";

#[test]
fn commands_agree_with_the_truth() {
    compare_captures(FOLDERS, 5_000, |capture, name| {
        let Some(mut expected) = truth(capture, "redis.tsv") else {
            return Ok(0);
        };
        if name == NONSENSE {
            expected.clear();
        }
        as_listed(name, &compare(capture, &expected), DIFFERENCES)?;
        Ok(expected.len())
    });
}

/// No other protocol is identified as Redis.
#[test]
fn other_protocols_have_no_tuples() {
    check_others(EVERYWHERE, "redis", "redis.tsv", &[]);
}

/// Data forwarded by a proxy after CONNECT is parsed as its own protocol.
#[test]
fn commands_relayed_by_a_proxy_are_parsed() {
    let mut talk = testkit::TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:3128");
    talk.handshake();
    talk.client()
        .send(b"CONNECT cache:6379 HTTP/1.1\r\nHost: cache:6379\r\n\r\n");
    talk.server().send(b"HTTP/1.1 200 OK\r\n\r\n");
    talk.client().send(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n");
    talk.server().send(b"$1\r\n1\r\n");
    talk.close();
    let path = std::env::temp_dir().join(format!("proxy-{}.pcap", std::process::id()));
    let file = testkit::pcap_bytes(
        talk.sent(),
        testkit::TimestampPrecision::Nanos,
        testkit::ByteOrder::Little,
    );
    std::fs::write(&path, file).expect("a file");
    let of = |name| {
        plan::ParserUse::all_columns(std::sync::Arc::new((parsers::registry::find(name)
            .expect("it exists")
            .schema)()))
    };
    let spec = plan::MonitorSpec {
        parsers: vec![of("http"), of("redis")],
        ..plan::MonitorSpec::default()
    };
    let rows = run_spec(&path, &spec).rows;
    std::fs::remove_file(&path).expect("the file");
    let told: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row.get("method").or(row.get("command")).map(String::as_str),
                &*row["quality"],
            )
        })
        .collect();
    assert_eq!(told, [(Some("CONNECT"), "exact"), (Some("GET"), "exact")]);
}

/// Every difference between the truth's rows and the tuples, as text.
fn compare(capture: &Path, expected: &[Row]) -> Vec<String> {
    let rows = run(capture, "redis").rows;
    let mut unused: Vec<Option<&Row>> = rows.iter().map(Some).collect();
    let mut found = Vec::new();
    for wanted in expected.iter().map(Wanted::of) {
        match unused
            .iter()
            .position(|row| row.is_some_and(|row| wanted.is(row)))
        {
            Some(place) => unused[place] = None,
            None => found.push(format!("missing: {}", wanted.describe())),
        }
    }
    found.extend(
        unused
            .into_iter()
            .flatten()
            .map(|row| format!("surplus: {}", describe(row))),
    );
    found
}

/// A tuple that the truth requires.
struct Wanted<'a> {
    client: String,
    command: String,
    /// The argument that the truth has first.
    argument: Option<&'a str>,
    is_push: bool,
    is_error: bool,
    times: [Option<i64>; 4],
}

impl Wanted<'_> {
    fn of(t: &Row) -> Wanted<'_> {
        let mut times = true_times(t);
        let is_push = t["command"] == "(push)";
        let mut arguments = t.get("args").map_or("", |args| args).split(' ');
        let command = if is_push {
            arguments.next().unwrap_or_default()
        } else {
            &t["command"]
        }
        .to_uppercase();
        if command == "PMESSAGE" {
            arguments.next();
        }
        if is_push {
            times[0] = t.get("t_resp_first").map(|time| nanos(time));
        }
        Wanted {
            client: format!("{}:{}", t["client"], t["cport"]),
            command,
            argument: arguments.next().filter(|argument| !argument.is_empty()),
            is_push,
            is_error: t
                .get("reply")
                .is_some_and(|reply| reply.starts_with("error")),
            times,
        }
    }

    fn is(&self, row: &Row) -> bool {
        let field = |name: &str| row.get(name).map(String::as_str);
        // A separate test covers the choice of the key argument.
        let key = field("key")
            .filter(|_| !["EVAL", "EVALSHA", "OBJECT", "XREAD"].contains(&&*self.command));
        self.client == format!("{}:{}", row["client_ip"], row["client_port"])
            && Some(&*self.command) == field("command")
            && key.is_none_or(|key| Some(key) == self.argument)
            && (field("push") == Some("true")) == self.is_push
            && field("error").is_some() == self.is_error
            && self.times == times(row)
    }

    fn describe(&self) -> String {
        let [ts, response, transfer, _] = self
            .times
            .map(|t| t.map_or("-".to_owned(), |t| t.to_string()));
        let argument = self.argument.unwrap_or("-");
        format!(
            "{} {} {argument} at {ts} {response} {transfer}",
            self.client, self.command
        )
    }
}

fn describe(row: &Row) -> String {
    let f = |name: &str| row.get(name).map_or("-", |v| v);
    format!(
        "{}:{} {} {} at {} {} {} {} {}",
        f("client_ip"),
        f("client_port"),
        f("command"),
        f("key"),
        f("ts"),
        f("response_time_ns"),
        f("transfer_time_ns"),
        f("error"),
        f("quality")
    )
}
