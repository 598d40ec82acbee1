//! Two agents that see the same connections, at the clients and at the server. Expected: one process over two captures,
//! the second derived from the first with known delays, and a clock that is hours off.

use std::net::IpAddr;

use super::*;

const HOURS_US: i64 = 7 * 3_600_000_000;
const BETWEEN_NS: &str = "20000000";
const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 20, 0, 10));
const ROWS: &str = "PARSE http WHERE tap.server_time IS NOT NULL SELECT url, status, tap.seen, tap.client_time_ns, tap.network_time_ns";
const WINDOWED: &str = "PARSE http WHERE status < 400 AND tap.network_time > 5ms \
     PROCESS (group-count-sum-quantile: group=(url_template, tap.seen), value=tap.network_time, q=0.5, w=200ms, lateness=50ms)";
const IN_ORDER: &str = "PARSE memcached SELECT command, tap.seen, tap.network_time_ns, tap.request \
     ORDER BY tap.client_time_ns, tap.request LIMIT 1000 ROWS";

/// The two hosts, with their captures in a temporary folder.
struct Hosts {
    folder: tempfile::TempDir,
    /// Clock offsets.
    ahead_us: i64,
    /// Delay of messages to it.
    way: Duration,
}

impl Hosts {
    fn new(ahead_us: i64) -> Hosts {
        let hosts = Hosts {
            folder: tempfile::tempdir().expect("a folder"),
            ahead_us,
            way: Duration::ZERO,
        };
        let way = testkit::NetworkDelay {
            server: [10, 20, 0, 10],
            to_us: 12_000,
            back_us: 8_000,
            ahead_us,
        };
        let whole = std::fs::read(shop("in.pcap")).expect("the capture is there");
        let clients = testkit::at_the_clients(&whole, way, |_| {});
        std::fs::write(hosts.folder.path().join("client.pcap"), clients).expect("written");
        hosts
    }

    fn at_the_clients(&self) -> std::path::PathBuf {
        self.folder.path().join("client.pcap")
    }

    /// The agents at the clients and at the server.
    fn start(&self, center: &Center, up_to: usize) -> Crew {
        let clients = [21, 22, 23].map(|n| IpAddr::V4(std::net::Ipv4Addr::new(10, 20, 0, n)));
        let hosts = [
            (clients.to_vec(), self.at_the_clients()),
            (vec![SERVER], shop("in.pcap")),
        ];
        let up_to: Vec<_> = hosts
            .iter()
            .map(|_| Arc::new(AtomicUsize::new(up_to)))
            .collect();
        let tokens: Vec<_> = (0..2)
            .map(|n| center.token(&format!("agent-{n}")))
            .collect();
        let nothing: Arc<Vec<Said>> = Arc::default();
        let start = |(n, (addresses, capture))| {
            let host = Some(Host {
                addresses,
                capture,
                step_ns: STEP_NS,
            });
            let ahead_ns = if n == 0 { self.ahead_us * 1000 } else { 0 };
            let ways = ways(center, n, &tokens[n], nothing.clone(), &up_to[n]);
            let way = if n == 0 { self.way } else { Duration::ZERO };
            FakeAgent::start(Ways {
                host,
                ahead_ns,
                way,
                ..ways
            })
        };
        let agents = hosts.into_iter().enumerate().map(start).collect();
        center.agents(2);
        Crew {
            agents,
            up_to,
            tokens,
            feeds: Vec::new(),
        }
    }

    /// Rows of one process over both captures.
    fn truth(&self, query: &str) -> Vec<Value> {
        truth_of(query, Way::TwoTaps(self.at_the_clients(), shop("in.pcap")))
    }
}

fn settings() -> GatewaySettings {
    GatewaySettings {
        join_patience: Duration::from_millis(100),
        ..patient()
    }
}

fn counts(center: &Center, job: &str) -> [u64; 4] {
    let (_, told) = center.ask("GET", &format!("/api/v1/jobs/{job}/agents"), None);
    ["joined", "client_only", "server_only", "unkept"]
        .map(|name| told["taps"][name].as_u64().unwrap_or(0))
}

/// Number of server requests whose counterparts the clients' tap filters out.
fn left_out(query: &str) -> u64 {
    if query == WINDOWED {
        truth("PARSE http WHERE status >= 400 OR status IS NULL SELECT status").len() as u64
    } else {
        0
    }
}

#[test]
fn rows_of_both_taps_are_those_of_two_captures() {
    for (ahead_us, query) in [
        (-HOURS_US, ROWS),
        (3_000_000, WINDOWED),
        (-HOURS_US, WINDOWED),
        (0, IN_ORDER),
        (
            0,
            "PARSE mysql_query PROCESS (group-count-max: group=(fingerprint, tap.seen), value=tap.network_time)",
        ),
    ] {
        let hosts = Hosts::new(ahead_us);
        let center = Center::start(settings());
        let crew = hosts.start(&center, ALL);
        let job = center.job(query, "one_off");
        let ended = center.ended(&job);
        assert_eq!(ended["reason"], "all agents have finished", "{query}");
        let found = center.rows(&job, 0);
        let expected = hosts.truth(query);
        assert!(!expected.is_empty(), "{query}");
        assert_eq!(sorted(&found), sorted(&expected), "{query}");
        let [joined, client_only, server_only, unkept] = counts(&center, &job);
        assert!(joined > 30, "{query}: {joined}");
        assert_eq!(
            [client_only, server_only, unkept],
            [0, left_out(query), 0],
            "{query}"
        );
        if query == ROWS {
            let is_between = |row: &Value| row[2] == "both" && row[4] == BETWEEN_NS;
            assert!(found.iter().all(is_between), "{found:?}");
        }
        drop(crew);
    }
}

/// Each direction is assumed to take half of a round trip, but one took all of it: the clock seems to be ahead by 200
/// ms, twice the patience.
#[test]
fn joins_wait_for_the_uncertainty_of_clocks() {
    let hosts = Hosts {
        way: Duration::from_millis(400),
        ..Hosts::new(0)
    };
    let center = Center::start(settings());
    let crew = hosts.start(&center, 1);
    let job = center.job(ROWS, "one_off");
    crew.say_one(0, ALL);
    // The server's tap is always behind by the same number of reports.
    for reports in (2..=20).map(|n| 3 * n) {
        crew.say_one(1, reports);
        std::thread::sleep(Duration::from_millis(50));
    }
    crew.say(ALL);
    center.ended(&job);
    assert_eq!(sorted(&center.rows(&job, 0)), sorted(&hosts.truth(ROWS)));
    assert_eq!(counts(&center, &job)[1..], [0, 0, 0]);
}

#[test]
fn joined_rows_are_exactly_once_over_kills_of_the_server() {
    let hosts = Hosts::new(-HOURS_US);
    for query in [ROWS, WINDOWED, IN_ORDER] {
        // A small limit, so that records are often replaced by partial results.
        let mut center = Center::start(GatewaySettings {
            frames_bytes: 1,
            ..settings()
        });
        let crew = hosts.start(&center, 1);
        let job = center.job(query, "one_off");
        for kill in 1..=6_usize {
            // One is ahead of the other.
            crew.say_one(kill % 2, 10 * kill + 1);
            // At arbitrary moments of the writes.
            std::thread::sleep(Duration::from_millis(37 * kill as u64 % 200 + 60));
            center.kill();
            center.begin();
        }
        crew.say(ALL);
        check_ended(&center, &job, &hosts, query);
    }
}

/// Waits for the end of the job; checks that its rows are the truth and that no request was lost.
fn check_ended(center: &Center, job: &str, hosts: &Hosts, query: &str) {
    center.ended(job);
    let rows = center.rows(job, 0);
    assert_eq!(sorted(&rows), sorted(&hosts.truth(query)), "{query}");
    assert_eq!(counts(center, job)[1..], [0, left_out(query), 0], "{query}");
}

#[test]
fn a_full_disk_makes_no_joined_row_twice() {
    let hosts = Hosts::new(0);
    for query in [ROWS, WINDOWED] {
        let center = Center::start(settings());
        let crew = hosts.start(&center, 15);
        let job = center.job(query, "one_off");
        center.until("requests are joined", |center| {
            (counts(center, &job)[0] > 0).then_some(())
        });
        let store = center.service.as_ref().expect("it runs").store().clone();
        store
            .database
            .limit_pages(store.database.pages().expect("pages"))
            .expect("a bound");
        crew.say(ALL);
        center.until("the next job is refused", |center| {
            let (status, _) = center.submit(query, "standing");
            (status >= 400).then_some(())
        });
        store.database.limit_pages(1 << 30).expect("no bound");
        check_ended(&center, &job, &hosts, query);
    }
}

#[test]
fn a_tap_that_vanishes_is_waited_for_no_longer() {
    let hosts = Hosts::new(0);
    let control = control::ServerSettings {
        absent_after_ns: 500_000_000,
        ..GatewaySettings::default().control
    };
    let center = Center::start(GatewaySettings {
        control,
        ..settings()
    });
    let mut crew = hosts.start(&center, 20);
    let job = center.job("PARSE http SELECT url, tap.seen", "standing");
    let seen = |center: &Center, word: &str| {
        let rows = center.rows(&job, 0);
        rows.iter().filter(|row| row[1] == word).count()
    };
    center.until("joined rows", |center| {
        (seen(center, "both") > 0).then_some(())
    });
    crew.kill(1);
    crew.say_one(0, ALL);
    center.until("rows of the clients' tap", |center| {
        (seen(center, "client") > 0).then_some(())
    });
    center.until("they are counted", |center| {
        (counts(center, &job)[1] > 0).then_some(())
    });
    let [joined, client_only, ..] = counts(&center, &job);
    assert_eq!(
        (seen(&center, "both") as u64, seen(&center, "client") as u64),
        (joined, client_only)
    );
}

#[test]
fn a_flow_that_two_agents_see_counts_once() {
    let hosts = Hosts::new(0);
    let query = |taps: &str| {
        format!(
            "PARSE http {taps} PROCESS (group-count-sum: group=url_template, value=response_time)"
        )
    };
    let sum = |rows: &[Value]| rows.iter().filter_map(|row| row[1].as_u64()).sum::<u64>();
    let of_all = query("TAPS all");
    for (taps, capture) in [
        ("", shop("in.pcap")),
        ("TAPS client", hosts.at_the_clients()),
    ] {
        let center = Center::start(patient());
        let crew = hosts.start(&center, ALL);
        let query = query(taps);
        let job = center.job(&query, "one_off");
        center.ended(&job);
        let expected = truth_of(&query, Way::Replay(capture));
        assert_rows(&center.rows(&job, 0), &expected, &query);
        let job = center.job(&of_all, "one_off");
        center.ended(&job);
        assert_eq!(
            sum(&center.rows(&job, 0)),
            2 * sum(&expected),
            "where all tell"
        );
        drop(crew);
    }
}

#[test]
fn unsupported_queries_are_rejected() {
    let hosts = Hosts::new(0);
    let center = Center::start(settings());
    let _crew = hosts.start(&center, 1);
    for (query, redact, why) in [
        ("PARSE http TAPS all SELECT tap.seen", false, "omit TAPS"),
        (
            "PARSE http SAMPLE auto SELECT tap.seen",
            false,
            "SAMPLE 0.1",
        ),
        (
            "PARSE http, tcp_conn_time PROCESS (group-count: group=tap.seen)",
            false,
            "one parser",
        ),
        (
            "PARSE http WHERE url LIKE '/a%' OR tap.seen = 'both' SELECT tap.seen",
            true,
            "url is redacted",
        ),
    ] {
        let body = json!({ "query": query, "redact": redact });
        let (status, refused) = center.ask("POST", "/api/v1/jobs", Some(&body));
        assert!(
            status >= 400 && refused.to_string().contains(why),
            "{query}: {status} {refused}"
        );
    }
}
