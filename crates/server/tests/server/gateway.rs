//! The gateway with real agents' sessions over loopback: the rows from three agents, each with a part of the flows,
//! equal those of one process; each row exactly once, also after kills.

mod agent;
mod both_taps;
mod center;
mod crowd;
mod feed;
mod network;
mod stalled;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use link::PayloadFormat;
use serde_json::{Value, json};
use server::GatewaySettings;

use crate::client::Server;
use crate::fleet::{TestFleet, Way, shop};
use agent::{FakeAgent, Host, Ways};
pub use center::Center;
use feed::{Said, feeds};
pub use feed::{plan_of, tuples};

const WINDOWS: &str = "PARSE http PROCESS (top-k: k=3, w=100ms, lateness=50ms)";
const TOTALS: &str = "PARSE http PROCESS (count: w=20ms, lateness=50ms)";
const SLIDING: &str =
    "PARSE http PROCESS (group-count: group=url_template, w=200ms, slide=50ms, lateness=50ms)";
const WHOLE: &str = "PARSE http PROCESS (group-count: group=url_template)";
const PROFILE: &str = "PARSE http PROCESS (workload-profile: w=200ms, lateness=50ms, k=3)";
const SORTED: &str = "PARSE http SELECT ts, url, status ORDER BY ts DESC LIMIT 7 ROWS";
const TUPLES: &str = "PARSE http";
const STEP_NS: i64 = 20_000_000;
const ALL: usize = usize::MAX;

/// Rows of one process over the same capture.
fn truth(query: &str) -> Vec<Value> {
    truth_of(query, Way::Replay(shop("in.pcap")))
}

/// Rows of one process over other captures.
fn truth_of(query: &str, way: Way) -> Vec<Value> {
    let server = Server::start(TestFleet::new(way));
    let body = json!({ "query": query, "redact": false });
    let rows = server.rows_at_end(&server.job_of(&body));
    rows.as_array().expect("rows").clone()
}

/// Long timeouts, so that no agent is missing on a busy machine.
fn patient() -> GatewaySettings {
    let settings = GatewaySettings::default();
    let minute_ns = 60_000_000_000;
    let control = control::ServerSettings {
        absent_after_ns: minute_ns,
        ..settings.control
    };
    let pace = control::PaceSettings {
        patience_ns: minute_ns,
        ..settings.pace
    };
    GatewaySettings {
        control,
        pace,
        first_report_ns: minute_ns,
        ..settings
    }
}

/// Agents of a server.
pub struct Crew {
    agents: Vec<FakeAgent>,
    up_to: Vec<Arc<AtomicUsize>>,
    tokens: Vec<String>,
    feeds: Vec<Arc<Vec<Said>>>,
}

fn ways(
    center: &Center,
    n: usize,
    token: &str,
    said: Arc<Vec<Said>>,
    up_to: &Arc<AtomicUsize>,
) -> Ways {
    Ways {
        name: format!("agent-{n}"),
        token: token.to_owned(),
        boot: 1000 + n as u64,
        form: PayloadFormat::Partial,
        said,
        up_to: up_to.clone(),
        server: center.address.clone(),
        ahead_ns: 0,
        way: Duration::ZERO,
        host: None,
    }
}

impl Crew {
    pub fn start(center: &Center, query: &str, agents: usize, up_to: usize) -> Crew {
        Crew::start_over(center, query, &shop("in.pcap"), agents, up_to)
    }

    /// Agents with the packets of a capture.
    fn start_over(
        center: &Center,
        query: &str,
        capture: &Path,
        agents: usize,
        up_to: usize,
    ) -> Crew {
        let feeds = feeds(query, capture, agents as u64, STEP_NS);
        let up_to: Vec<_> = (0..agents)
            .map(|_| Arc::new(AtomicUsize::new(up_to)))
            .collect();
        let tokens: Vec<_> = (0..agents)
            .map(|n| center.token(&format!("agent-{n}")))
            .collect();
        let start =
            |n: usize| FakeAgent::start(ways(center, n, &tokens[n], feeds[n].clone(), &up_to[n]));
        let crew = Crew {
            agents: (0..agents).map(start).collect(),
            up_to,
            tokens,
            feeds,
        };
        center.agents(agents);
        crew
    }

    pub fn say_one(&self, agent: usize, up_to: usize) {
        self.up_to[agent].store(up_to, Ordering::Relaxed);
    }

    /// Each agent sends half of its reports.
    pub fn say_half(&self, center: &Center, job: &str) {
        let half = self.feeds[0].len() / 2;
        self.say(half);
        center.until("everybody has said half", |center| {
            let (_, told) = center.ask("GET", &format!("/api/v1/jobs/{job}/agents"), None);
            let agents = told["agents"].as_array()?;
            let is_there = |of: &Value| of["counters"]["packets"].as_u64() >= Some(half as u64);
            (agents.len() == self.agents.len() && agents.iter().all(is_there)).then_some(())
        });
    }

    pub fn kill(&mut self, agent: usize) {
        self.agents[agent].kill();
    }

    fn say(&self, up_to: usize) {
        self.up_to
            .iter()
            .for_each(|of_agent| of_agent.store(up_to, Ordering::Relaxed));
    }
}

#[track_caller]
fn assert_rows(found: &[Value], expected: &[Value], what: &str) {
    assert!(
        !expected.is_empty(),
        "{what}: there is something to compare with"
    );
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert_eq!(a, b, "{what}: row {i}");
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}

/// Ignores the order.
fn sorted(rows: &[Value]) -> Vec<String> {
    let mut texts: Vec<String> = rows.iter().map(Value::to_string).collect();
    texts.sort();
    texts
}

#[test]
fn rows_of_three_agents_are_those_of_one_process() {
    for query in [WINDOWS, TOTALS, SLIDING, WHOLE, SORTED] {
        let center = Center::start(GatewaySettings::default());
        let crew = Crew::start(&center, query, 3, ALL);
        let job = center.job(query, "one_off");
        let ended = center.ended(&job);
        assert_eq!(ended["reason"], "all agents have finished", "{query}");
        assert_rows(&center.rows(&job, 0), &truth(query), query);
        drop(crew);
    }
}

#[test]
fn tuples_come_once_also_after_kills() {
    let mut center = Center::start(GatewaySettings::default());
    let crew = Crew::start(&center, TUPLES, 3, 2);
    let job = center.job(TUPLES, "one_off");
    for up_to in [4, 8, ALL] {
        center.until("rows", |center| {
            (!center.rows(&job, 0).is_empty()).then_some(())
        });
        crew.say(up_to);
        center.kill();
        center.begin();
    }
    center.ended(&job);
    assert_eq!(sorted(&center.rows(&job, 0)), sorted(&truth(TUPLES)));
}

#[test]
fn rows_are_exactly_once_over_kills_of_the_server() {
    for query in [WINDOWS, TOTALS, SLIDING, WHOLE, PROFILE, SORTED] {
        // A small limit, so that records are often replaced by partial results.
        let settings = GatewaySettings {
            frames_bytes: 1,
            ..patient()
        };
        let mut center = Center::start(settings);
        let crew = Crew::start(&center, query, 3, 1);
        let job = center.job(query, "one_off");
        let reports = crew.feeds[0].len();
        for kill in 1..=6 {
            crew.say(reports * kill / 7 + 1);
            // At arbitrary moments of the writes.
            std::thread::sleep(Duration::from_millis(37 * kill as u64 % 200 + 60));
            center.kill();
            center.begin();
        }
        crew.say(ALL);
        center.ended(&job);
        assert_rows(&center.rows(&job, 0), &truth(query), query);
        assert!(
            crew.agents
                .iter()
                .all(|agent| agent.connections.load(Ordering::Relaxed) > 1),
            "they came again"
        );
    }
}

#[test]
fn an_agent_that_vanishes_is_named_and_not_waited_for() {
    let mut center = Center::start(GatewaySettings::default());
    let mut crew = Crew::start(&center, TOTALS, 3, 1);
    let reports = crew.feeds[0].len();
    crew.say(reports / 2);
    let job = center.job(TOTALS, "standing");
    center.until("the job runs", |center| {
        (center.show(&job)["state"] == "running").then_some(())
    });
    center.until("rows", |center| {
        (!center.rows(&job, 0).is_empty()).then_some(())
    });
    let missing = |row: &Value| row.as_array().and_then(|cells| cells.last().cloned());
    crew.agents[1].kill();
    crew.say(reports * 3 / 4);
    let rows = center.until("rows without it", |center| {
        let rows = center.rows(&job, 0);
        (missing(rows.last()?) == Some(json!("agent-1"))).then_some(rows)
    });
    assert_eq!(missing(&rows[0]), Some(Value::Null));
    let reason = center.show(&job)["reason"].to_string();
    assert!(
        reason.contains("agent agent-1 is not connected"),
        "{reason}"
    );
    // The agent returns with another incarnation: data lost with the previous one remains missing, later data is
    // complete.
    let back = Ways {
        boot: 77,
        ..ways(
            &center,
            1,
            &crew.tokens[1],
            crew.feeds[1].clone(),
            &crew.up_to[1],
        )
    };
    crew.agents[1] = FakeAgent::start(back);
    crew.say(reports * 7 / 8);
    let is_whole = |center: &Center, before: usize| {
        let rows = center.rows(&job, 0);
        (rows.len() > before && missing(rows.last()?) == Some(Value::Null)).then_some(rows.len())
    };
    let whole = center.until("it is not missed any more", |center| is_whole(center, 0));
    // A restarted server remembers that.
    center.kill();
    center.begin();
    crew.say(ALL);
    center.until("it is not missed after that", |center| {
        is_whole(center, whole)
    });
    let (status, _) = center.ask("DELETE", &format!("/api/v1/jobs/{job}"), None);
    assert!(status < 300);
    assert_eq!(center.ended(&job)["reason"], "it was stopped");
}

#[test]
fn a_full_disk_holds_agents_back_and_loses_nothing() {
    let center = Center::start(GatewaySettings::default());
    let crew = Crew::start(&center, WINDOWS, 3, 3);
    let job = center.job(WINDOWS, "one_off");
    center.until("it runs", |center| {
        (center.show(&job)["state"] == "running").then_some(())
    });
    let store = center.service.as_ref().expect("it runs").store().clone();
    store
        .database
        .limit_pages(store.database.pages().expect("pages"))
        .expect("a bound");
    crew.say(ALL);
    let refused = center.until("the next job is refused", |center| {
        let (status, answer) = center.submit(WINDOWS, "standing");
        (status >= 400).then_some(answer)
    });
    assert!(refused.to_string().contains("full"), "{refused}");
    let admin =
        std::fs::read_to_string(center.folder.path().join("admin.token")).expect("the first token");
    let (status, answer) = center.ask(
        "POST",
        "/api/v1/login",
        Some(&json!({ "token": admin.trim() })),
    );
    assert_eq!(status, 200, "people get in: {answer}");
    let reason = center.until("its reason says so, in the list, too", |center| {
        let (_, listed) = center.ask("GET", "/api/v1/jobs", None);
        let shown = center.show(&job)["reason"].clone();
        let is_same = |of: &Value| of["id"] == job.as_str() && of["reason"] == shown;
        (shown.is_string() && listed["jobs"].as_array()?.iter().any(is_same))
            .then(|| shown.to_string())
    });
    assert!(reason.contains("the server's disk is full"), "{reason}");
    store.database.limit_pages(1 << 30).expect("no bound");
    let ended = center.ended(&job);
    assert_eq!(ended["reason"], "all agents have finished");
    assert_rows(&center.rows(&job, 0), &truth(WINDOWS), "after a full disk");
}

#[test]
fn a_store_that_rejects_writes_is_reported_with_its_cause() {
    let center = Center::start(GatewaySettings::default());
    let crew = Crew::start(&center, WINDOWS, 3, 3);
    let job = center.job(WINDOWS, "one_off");
    center.until("it runs", |center| {
        (center.show(&job)["state"] == "running").then_some(())
    });
    let store = center.service.as_ref().expect("it runs").store().clone();
    store.database.set_read_only(true).expect("read-only");
    crew.say(ALL);
    let reason = center.until("its reason has the cause", |center| {
        center.show(&job)["reason"].as_str().map(str::to_owned)
    });
    assert!(
        reason.contains("the server cannot store data (attempt to write a readonly database)")
            && !reason.contains("full"),
        "{reason}"
    );
    let (status, answer) = center.submit(WINDOWS, "standing");
    assert!(status >= 500, "{answer}");
    let admin =
        std::fs::read_to_string(center.folder.path().join("admin.token")).expect("the first token");
    let login = Some(json!({ "token": admin.trim() }));
    let (status, answer) = center.ask("POST", "/api/v1/login", login.as_ref());
    assert_eq!(status, 200, "logins work: {answer}");
    store.database.set_read_only(false).expect("writable");
    let ended = center.ended(&job);
    assert_eq!(ended["reason"], "all agents have finished");
    let rows = center.rows(&job, 0);
    assert_rows(&rows, &truth(WINDOWS), "after rejected writes");
}

#[test]
fn agent_accounts_are_kept_with_the_results() {
    let mut center = Center::start(GatewaySettings::default());
    let _crew = Crew::start(&center, WINDOWS, 3, ALL);
    let job = center.job(WINDOWS, "one_off");
    center.ended(&job);
    let told = |center: &Center| {
        center
            .ask("GET", &format!("/api/v1/jobs/{job}/agents"), None)
            .1
    };
    let before = told(&center);
    let agents = before["agents"].as_array().expect("agents");
    let packets: u64 = agents
        .iter()
        .filter_map(|agent| agent["counters"]["packets"].as_u64())
        .sum();
    assert!(agents.len() == 3 && packets > 0, "{before}");
    assert!(
        agents.iter().all(|agent| agent["state"] == "finished"),
        "{before}"
    );
    // A new server process has none of it in memory.
    center.kill();
    center.begin();
    assert_eq!(told(&center), before);
    let store = center.service.as_ref().expect("it runs").store();
    store.jobs.forget_accounts(0).expect("forgotten");
    let id = job.parse().expect("a number");
    assert!(
        store.jobs.accounts(id).expect("read").is_some(),
        "it ended later"
    );
    store.jobs.forget_accounts(i64::MAX).expect("forgotten");
    assert_eq!(store.jobs.accounts(id).expect("read"), None);
}

#[test]
fn agents_without_a_token_are_rejected() {
    let center = Center::start(GatewaySettings::default());
    let (status, refused) = center.submit(WINDOWS, "one_off");
    assert!(
        status >= 400 && refused.to_string().contains("no agent is connected"),
        "{refused}"
    );
    for (authorization, expected) in [(None, 401), (Some("Bearer nl_1"), 401)] {
        let url = format!(
            "http://{}/api/v1/agent",
            center.address.lock().expect("an address")
        );
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        let mut request = agent.get(url);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        assert_eq!(request.call().expect("an answer").status(), expected);
    }
    // The admin is not an agent, and an agent's token is valid for nothing else.
    assert_eq!(center.ask("GET", "/api/v1/agent", None).0, 403);
    let token = center.token("a");
    let url = format!(
        "http://{}/api/v1/jobs",
        center.address.lock().expect("an address")
    );
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let answer = agent
        .get(url)
        .header("authorization", format!("Bearer {token}"))
        .call()
        .expect("an answer");
    assert_eq!(answer.status(), 403);
}

#[test]
fn fifty_agents_are_no_trouble() {
    let center = Center::start(GatewaySettings::default());
    let _crew = Crew::start(&center, WINDOWS, 50, ALL);
    let job = center.job(WINDOWS, "one_off");
    center.ended(&job);
    assert_rows(&center.rows(&job, 0), &truth(WINDOWS), "fifty agents");
    let (_, told) = center.ask("GET", "/api/v1/agents", None);
    let names: BTreeMap<&str, &Value> = told["agents"]
        .as_array()
        .expect("agents")
        .iter()
        .map(|agent| {
            (
                agent["name"].as_str().expect("a name"),
                &agent["labels"]["name"],
            )
        })
        .collect();
    assert_eq!(names.len(), 50);
    assert!(names.iter().all(|(name, label)| *label == name));
}

#[test]
fn jobs_end_at_their_row_limit() {
    let query = "PARSE http LIMIT 5 ROWS";
    let mut center = Center::start(GatewaySettings::default());
    let crew = Crew::start(&center, query, 2, 1);
    let job = center.job(query, "standing");
    center.until("rows", |center| {
        (!center.rows(&job, 0).is_empty()).then_some(())
    });
    center.kill();
    center.begin();
    crew.say(ALL);
    assert_eq!(center.ended(&job)["reason"], "it reached its row limit");
    assert_eq!(center.rows(&job, 0).len(), 5);
}

#[test]
fn subscribers_receive_open_windows() {
    let query = "PARSE http PROCESS (top-k: k=3, w=1h)";
    let center = Center::start(GatewaySettings::default());
    let mut crew = Crew::start(&center, query, 2, 10);
    let job = center.job(query, "standing");
    let seen = center.watch(&job, "\"rows_left_out\"");
    assert!(
        seen.contains("event: window") && seen.contains("top-k"),
        "{seen}"
    );
    // Active agents that have not reached the window's end are not missing; a disconnected one is named.
    assert!(
        seen.contains("\"state\":\"open\"") && !seen.contains("agent-"),
        "{seen}"
    );
    crew.kill(1);
    center.watch(&job, "\"agent-1\"]");
    drop(crew);
}
