//! Jobs in a simulated network, which records the requests to its switches.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use plan::{AddressMatch, NetworkBudget, Plan};
use serde_json::{Value, json};
use server::{
    AgentShare, GatewayBackends, JobId, MirrorSession, NetworkBackend, NetworkView, PlannedJob,
};

use super::{Center, Crew, TOTALS, WHOLE, WINDOWS, patient, shop};

/// See the module documentation.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Sheet>>);

#[derive(Default)]
struct Sheet {
    /// Agents with parts, and their interfaces; empty: no plan.
    agents: Vec<(&'static str, &'static str)>,
    budget: NetworkBudget,
    /// Limitations of the result.
    lacks: Vec<String>,
    asked: Vec<&'static str>,
    /// Reason for a rejection by switches.
    refuses: Option<String>,
    /// Whether the control of switches panics.
    panics: bool,
    /// Whether switches have not installed the rules yet.
    waits: bool,
    /// Reason why mirroring has stopped.
    lost: Option<String>,
}

impl Paper {
    fn with<T>(&self, act: impl FnOnce(&mut Sheet) -> T) -> T {
        act(&mut self.0.lock().expect("a sheet"))
    }

    fn asked(&self) -> Vec<&'static str> {
        self.with(|sheet| sheet.asked.clone())
    }
}

impl NetworkBackend for Paper {
    fn plan(&self, _: JobId, _: &Plan, budget: NetworkBudget) -> Result<PlannedJob, String> {
        let agents = self.with(|sheet| {
            sheet.budget = budget;
            sheet.agents.clone()
        });
        if agents.is_empty() {
            return Err("there is no plan: 2.000 cores, and 1.000 are free there".into());
        }
        let port = |port: usize| AddressMatch {
            net: None,
            port: Some(8000 + port as u16),
        };
        let part = |(at, (agent, interface)): (usize, &(&str, &str))| AgentShare {
            agent: (*agent).to_owned(),
            clients: Vec::new(),
            servers: vec![port(at)],
            interfaces: vec![(*interface).to_owned()],
        };
        let parts = agents.iter().enumerate().map(part).collect();
        let lacks = self.with(|sheet| sheet.lacks.clone());
        Ok(PlannedJob {
            parts,
            lacks,
            is_mirrored: true,
            copies: Box::new(self.clone()),
        })
    }

    fn view(&self) -> NetworkView {
        NetworkView {
            is_known: true,
            ..NetworkView::default()
        }
    }
}

impl MirrorSession for Paper {
    fn begin(&mut self) -> Result<(), String> {
        assert!(
            !self.with(|sheet| sheet.panics),
            "an index is out of bounds"
        );
        self.with(|sheet| sheet.asked.push("begin"));
        while self.with(|sheet| sheet.waits) {
            sleep(Duration::from_millis(5));
        }
        self.with(|sheet| sheet.refuses.clone().map_or(Ok(()), Err))
    }

    fn lost(&mut self) -> Option<String> {
        self.with(|sheet| sheet.lost.clone())
    }

    fn end(&mut self) -> Result<(), String> {
        self.with(|sheet| sheet.asked.push("end"));
        Ok(())
    }
}

fn center(paper: &Paper) -> Center {
    Center::with(
        patient(),
        GatewayBackends {
            network: Some(Arc::new(paper.clone())),
            bus: None,
        },
    )
}

fn submit(center: &Center, query: &str) -> (u16, Value) {
    let body = json!({ "query": query, "kind": "standing", "redact": false, "network": true });
    center.ask("POST", "/api/v1/jobs", Some(&body))
}

fn job(center: &Center) -> String {
    let (status, made) = submit(center, WINDOWS);
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["network"], true);
    made["id"].as_str().expect("a number").to_owned()
}

fn until_asked(center: &Center, paper: &Paper, what: &[&str]) {
    center.until(&format!("{what:?}"), |_| {
        (paper.asked() == what).then_some(())
    });
}

fn until_state(center: &Center, job: &str, state: &str) {
    center.until(state, |center| {
        (center.show(job)["state"] == state).then_some(())
    });
}

#[test]
fn switches_copy_when_all_monitors_capture_and_until_the_job_ends() {
    let paper = Paper::default();
    let mut center = center(&paper);
    let crew = Crew::start(&center, WINDOWS, 3, 0);
    paper.with(|sheet| sheet.agents = vec![("agent-0", "eth0"), ("agent-1", "eth1")]);
    let first = job(&center);
    crew.say_one(0, 1);
    center.until("one has come", |center| {
        let (_, told) = center.ask("GET", &format!("/api/v1/jobs/{first}/agents"), None);
        let agents = told["agents"].as_array()?.clone();
        assert!(
            agents.iter().all(|agent| agent["agent"] != "agent-2"),
            "{told}"
        );
        agents
            .iter()
            .any(|agent| agent["state"] == "running")
            .then_some(())
    });
    // The other one does not capture yet.
    assert_eq!(
        (paper.asked(), center.show(&first)["state"].as_str()),
        (vec![], Some("arming"))
    );
    crew.say_one(1, 1);
    until_asked(&center, &paper, &["begin"]);
    until_state(&center, &first, "running");
    // A restarted server plans the same and continues.
    center.kill();
    center.begin();
    until_asked(&center, &paper, &["begin", "begin"]);
    until_state(&center, &first, "running");
    center.ask("DELETE", &format!("/api/v1/jobs/{first}"), None);
    assert_eq!(center.ended(&first)["reason"], "it was stopped");
    assert_eq!(paper.asked(), ["begin", "begin", "end"]);

    // A plan other than the agents' orders.
    let second = job(&center);
    until_state(&center, &second, "running");
    center.kill();
    paper.with(|sheet| sheet.agents = vec![("agent-0", "eth0"), ("agent-1", "eth2")]);
    center.begin();
    let ended = center.ended(&second);
    assert_eq!(ended["outcome"], "failed");
    assert!(
        ended["reason"]
            .as_str()
            .is_some_and(|why| why.contains("monitors elsewhere")),
        "{ended}"
    );
}

#[test]
fn jobs_end_when_switches_reject_or_lose_rules() {
    let paper = Paper::default();
    let center = center(&paper);
    let _crew = Crew::start(&center, WINDOWS, 2, 1);
    paper.with(|sheet| sheet.agents = vec![("agent-0", "eth0"), ("agent-1", "eth0")]);
    paper.with(|sheet| sheet.refuses = Some("switch s1: it has no port p9".into()));
    let ended = center.ended(&job(&center));
    assert_eq!(
        (&ended["outcome"], &ended["reason"]),
        (&json!("failed"), &json!("switch s1: it has no port p9"))
    );
    assert_eq!(paper.asked(), ["begin", "end"]);
    paper.with(|sheet| sheet.refuses = None);
    let second = job(&center);
    until_state(&center, &second, "running");
    paper.with(|sheet| sheet.lost = Some("switches no longer copy packets".into()));
    let ended = center.ended(&second);
    assert_eq!(
        (&ended["outcome"], &ended["reason"]),
        (&json!("failed"), &json!("switches no longer copy packets"))
    );
    paper.with(|sheet| {
        sheet.lost = None;
        sheet.panics = true;
    });
    let ended = center.ended(&job(&center));
    let why = ended["reason"].as_str().expect("a reason");
    assert!(
        why.starts_with(
            "the thread that configures switches has failed: an index is out of bounds; "
        ),
        "{why}"
    );
    assert_eq!(ended["outcome"], "failed");
}

#[test]
fn unplannable_jobs_are_rejected_with_a_reason() {
    let paper = Paper::default();
    let planned = center(&paper);
    let (status, refused) = submit(&planned, WINDOWS);
    assert_eq!(
        (status, refused["message"].as_str()),
        (
            409,
            Some("there is no plan: 2.000 cores, and 1.000 are free there")
        )
    );
    paper.with(|sheet| sheet.agents = vec![("agent-0", "eth0"), ("nobody", "eth0")]);
    let _crew = Crew::start(&planned, WINDOWS, 1, 0);
    let (_, refused) = submit(&planned, &format!("{WINDOWS} BUDGET cpu=5%"));
    let missing = "agent nobody, which the network's file names, is not connected to this server";
    assert_eq!(refused["message"], missing);
    assert_eq!(paper.with(|sheet| sheet.budget.cpu), Some(0.05));
    let on = json!({ "query": WINDOWS, "network": true, "on": { "role": "web" } });
    assert_eq!(planned.ask("POST", "/api/v1/jobs", Some(&on)).0, 400);
    assert_eq!(
        planned.ask("GET", "/api/v1/network", None).1["is_known"],
        true
    );
    let without = Center::start(patient());
    let (_, refused) = submit(&without, WINDOWS);
    assert_eq!(
        refused["message"],
        "this server has no network: serve --network FILE names one"
    );
    assert_eq!(
        without.ask("GET", "/api/v1/network", None).1["is_known"],
        false
    );
}

#[test]
fn missing_traffic_is_stated_in_the_job_and_at_its_end() {
    let paper = Paper::default();
    let mut center = center(&paper);
    let _crew = Crew::start(&center, WINDOWS, 1, 0);
    paper.with(|sheet| {
        sheet.agents = vec![("agent-0", "eth0")];
        sheet.lacks = vec![
            "connections that were open before".into(),
            "fragments".into(),
        ];
    });
    let id = job(&center);
    let lacking = "the result is incomplete: connections that were open before; the result is incomplete: fragments";
    let is_told = |center: &Center| (center.show(&id)["reason"] == lacking).then_some(());
    center.until("what it lacks", is_told);
    // Also after a restart, where it is planned again.
    center.kill();
    center.begin();
    center.until("what it lacks", is_told);
    center.ask("DELETE", &format!("/api/v1/jobs/{id}"), None);
    assert_eq!(
        center.ended(&id)["reason"],
        format!("it was stopped; {lacking}")
    );
}

/// The capture of the shop, a minute after now: later than the start of the mirroring.
fn later_shop(folder: &tempfile::TempDir) -> PathBuf {
    const HEAD: usize = 24;
    let mut bytes = std::fs::read(shop("in.pcap")).expect("a capture");
    let word = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    };
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs() as u32;
    let ahead = now + 60 - word(&bytes, HEAD);
    let mut at = HEAD;
    while at < bytes.len() {
        let moved = word(&bytes, at) + ahead;
        bytes[at..at + 4].copy_from_slice(&moved.to_le_bytes());
        at += 16 + word(&bytes, at + 8) as usize;
    }
    let path = folder.path().join("later.pcap");
    std::fs::write(&path, bytes).expect("a file");
    path
}

/// Whether each row is approximate.
fn approximate(center: &Center, job: &str) -> Vec<bool> {
    let path = format!("/api/v1/jobs/{job}/rows?limit=1000");
    let page = center.ask("GET", &path, None).1;
    let columns = page["columns"].as_array().expect("columns");
    let at = columns
        .iter()
        .position(|column| column["name"] == "approximate")
        .expect("a column");
    let rows = page["rows"].as_array().expect("rows");
    rows.iter().map(|row| row[at] == true).collect()
}

#[test]
fn windows_before_the_start_of_mirroring_are_approximate() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = later_shop(&folder);
    let paper = Paper::default();
    let mut center = center(&paper);
    let crew = Crew::start_over(&center, TOTALS, &capture, 2, 0);
    paper.with(|sheet| {
        sheet.agents = vec![("agent-0", "eth0"), ("agent-1", "eth0")];
        sheet.waits = true;
    });
    let (_, made) = submit(&center, TOTALS);
    let job = made["id"].as_str().expect("a number").to_owned();
    let reports = crew.feeds[0].len();
    let third = reports / 3;
    let last = reports - 1;
    crew.say(third);
    let before = center.until("windows without mirroring", |center| {
        let rows = approximate(center, &job);
        (rows.len() > 3).then_some(rows)
    });
    assert!(before.iter().all(|is| *is), "{before:?}");
    assert_eq!(center.show(&job)["state"], "arming");
    paper.with(|sheet| sheet.waits = false);
    until_state(&center, &job, "running");
    crew.say(2 * third);
    let rows = center.until("windows with mirroring", |center| {
        let rows = approximate(center, &job);
        (rows.len() > third + 3).then_some(rows)
    });
    let first = rows.iter().take_while(|is| **is).count();
    assert!(first >= before.len() && first <= third + 1, "{rows:?}");
    assert!(rows[first..].iter().all(|is| !is), "{rows:?}");
    // Rules may expire while there is no server.
    center.kill();
    center.begin();
    until_asked(&center, &paper, &["begin", "begin"]);
    until_state(&center, &job, "running");
    crew.say(last);
    let after = center.until("windows after a restart", |center| {
        let rows = approximate(center, &job);
        (rows.len() > 2 * third + 6).then_some(rows)
    });
    assert_eq!(after[..rows.len()], rows[..], "{after:?}");
    assert!(after[rows.len()..].contains(&true), "{after:?}");
    assert_eq!(after.last(), Some(&false), "{after:?}");
}

#[test]
fn totals_cover_the_time_of_mirroring_only_and_have_no_mark() {
    let paper = Paper::default();
    let center = center(&paper);
    let crew = Crew::start(&center, WHOLE, 1, 1);
    paper.with(|sheet| {
        sheet.agents = vec![("agent-0", "eth0")];
        sheet.waits = true;
    });
    let (_, made) = submit(&center, WHOLE);
    let job = made["id"].as_str().expect("a number").to_owned();
    until_asked(&center, &paper, &["begin"]);
    paper.with(|sheet| sheet.waits = false);
    until_state(&center, &job, "running");
    crew.say(usize::MAX);
    center.until("everything is said", |center| {
        let (_, told) = center.ask("GET", &format!("/api/v1/jobs/{job}/agents"), None);
        (told["agents"][0]["counters"]["packets"].as_u64()? as usize >= crew.feeds[0].len())
            .then_some(())
    });
    center.ask("DELETE", &format!("/api/v1/jobs/{job}"), None);
    center.ended(&job);
    let rows = approximate(&center, &job);
    assert!(!rows.is_empty() && rows.iter().all(|is| !is), "{rows:?}");
}

#[test]
fn a_limit_of_time_begins_with_mirroring() {
    let paper = Paper::default();
    let center = center(&paper);
    let _crew = Crew::start(&center, WINDOWS, 1, 1);
    paper.with(|sheet| {
        sheet.agents = vec![("agent-0", "eth0")];
        sheet.waits = true;
    });
    let (status, made) = submit(&center, &format!("{WINDOWS} LIMIT 1s"));
    assert_eq!(status, 201, "{made}");
    let job = made["id"].as_str().expect("a number");
    until_asked(&center, &paper, &["begin"]);
    // Longer than the limit and the time after which a monitor would be stopped.
    sleep(Duration::from_secs(4));
    assert_eq!(center.show(job)["state"], "arming");
    let begun = Instant::now();
    paper.with(|sheet| sheet.waits = false);
    let ended = center.ended(job);
    assert!(begun.elapsed() >= Duration::from_secs(1), "{ended}");
    assert_eq!(ended["reason"], "it reached its time limit", "{ended}");
    assert_eq!(paper.asked(), ["begin", "end"]);
}
