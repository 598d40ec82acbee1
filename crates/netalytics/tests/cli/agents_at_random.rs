//! Agents, monitors and the server are killed, stopped and asked to end at random: no row is reported twice, and a row that lacks no agent
//! lacks no data.
//!
//! All agents play the same packets at the same times. So the count of a row without missing agents is a multiple of the number of agents,
//! and is not if some data of one agent are missing. A monitor that starts plays from the next round on, so windows that begin within a
//! round after a window with missing agents are not judged, nor are approximate rows: a monitor that started in a window may
//! lack data of it.
//!
//! Two jobs have the same query. They have monitors of their own at first, and share one on an agent that was restarted.
//!
//! The test prints its seed. `NETALYTICS_CHAOS=200` runs 200 steps instead of 4, `NETALYTICS_CHAOS_SEED=7` repeats those of seed 7.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use testkit::SeededRng;

use super::Folder;
use super::resilience::{children, is_connected, start};
use super::service::{Process, Server, counts, wait};
use super::stopped::{lacks_nobody, signal};

const QUERY: &str = "PARSE http PROCESS (group-count: group=path, w=1s)";
const AGENTS: [&str; 3] = ["one", "two", "three"];
/// Between two rounds of the capture. A monitor that is later than that leaves a round out, and on a busy machine some are.
const PAUSE: &str = "1500ms";
/// Longer than a round of the capture, 1.28 s and its pause, and a window.
const ROUND_NS: i64 = 4_000_000_000;
/// Time in which nothing happens, at the end of a step: longer than two rounds.
const SETTLED: Duration = Duration::from_secs(6);

/// Event of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    AgentKilled,
    AgentEnded,
    AgentStopped,
    MonitorKilled,
    MonitorEnded,
    ServerKilled,
    ServerStopped,
}

const EVENTS: [Event; 7] = [
    Event::AgentKilled,
    Event::AgentEnded,
    Event::AgentStopped,
    Event::MonitorKilled,
    Event::MonitorEnded,
    Event::ServerKilled,
    Event::ServerStopped,
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

fn arguments(server: &Server, folder: &Folder, name: &str) -> Vec<String> {
    let token = folder.path(&format!("{name}.token"));
    let own = folder.path(name);
    let play = [
        "--demo",
        "captures/shop/in.pcap",
        "--demo-pause",
        PAUSE,
        "--demo-in-step",
    ];
    let all = server.agent(name, &token, &own).into_iter().chain(play);
    all.map(str::to_owned).collect()
}

/// The sum of counts, and the agents that are missing, by window.
fn windows(rows: &[Value], from: i64) -> BTreeMap<i64, (u64, Option<String>)> {
    let mut windows = BTreeMap::new();
    for row in rows {
        let start = row["window_start"].as_i64().expect("a time");
        if start < from {
            continue;
        }
        let (_, count) = counts(std::slice::from_ref(row)).swap_remove(0);
        let window: &mut (u64, Option<String>) = windows.entry(start).or_default();
        *window = (
            window.0 + count,
            row["agents_missing"].as_str().map(str::to_owned),
        );
    }
    windows
}

/// Checks all rows; returns the numbers of windows that were complete, lacked agents, or followed such windows directly.
fn check(rows: &[Value], from: i64, words: &str) -> [usize; 3] {
    let windows = windows(rows, from);
    let is_behind = |start: i64| {
        windows
            .range(start - ROUND_NS..start)
            .any(|(_, (_, missing))| missing.is_some())
    };
    let mut seen = BTreeSet::new();
    for row in rows
        .iter()
        .filter(|row| row["window_start"].as_i64() >= Some(from))
    {
        let (path, count) = counts(std::slice::from_ref(row)).swap_remove(0);
        let start = row["window_start"].as_i64().expect("a time");
        assert!(seen.insert((start, path)), "twice: {row} after {words}");
        let is_whole =
            row["agents_missing"].is_null() && row["approximate"] != true && !is_behind(start);
        let lacks = is_whole && count % AGENTS.len() as u64 != 0;
        assert!(!lacks, "data are missing: {row} after {words}: {windows:?}");
    }
    let count = |is: &dyn Fn(i64, bool) -> bool| {
        windows
            .iter()
            .filter(|(start, (_, missing))| is(**start, missing.is_some()))
            .count()
    };
    [
        count(&|start, lacks| !lacks && !is_behind(start)),
        count(&|_, lacks| lacks),
        count(&|start, lacks| !lacks && is_behind(start)),
    ]
}

fn happen(
    event: Event,
    at: usize,
    pause: Duration,
    (server, agents): (&mut Server, &mut [Process]),
    folder: &Folder,
) {
    let agent = agents[at].0.id();
    let stop = |pid: u32| {
        signal(pid, "STOP");
        std::thread::sleep(pause);
        signal(pid, "CONT");
    };
    match event {
        Event::AgentKilled | Event::AgentEnded => {
            signal(
                agent,
                if event == Event::AgentKilled {
                    "KILL"
                } else {
                    "TERM"
                },
            );
            agents[at].0.wait().expect("it ends");
            std::thread::sleep(pause);
            agents[at] = start(&arguments(server, folder, AGENTS[at]));
            wait("it comes", || is_connected(server, AGENTS[at]));
        }
        Event::AgentStopped => stop(agent),
        Event::MonitorKilled | Event::MonitorEnded => {
            let name = if event == Event::MonitorKilled {
                "KILL"
            } else {
                "TERM"
            };
            children(agent)
                .into_iter()
                .for_each(|monitor| signal(monitor, name));
        }
        Event::ServerKilled => server.start_again(folder),
        Event::ServerStopped => stop(server.pid()),
    }
}

#[test]
fn agents_at_random_report_no_row_twice_and_no_loss_is_silent() {
    let steps = number("NETALYTICS_CHAOS").unwrap_or(4);
    let seed = number("NETALYTICS_CHAOS_SEED")
        .unwrap_or_else(|| SeededRng::new(std::process::id().into()).next_u64() >> 32);
    eprintln!("NETALYTICS_CHAOS_SEED={seed}");
    let folder = Folder::new();
    let mut rng = SeededRng::new(seed);
    let mut server = Server::start(&folder);
    let mut agents: Vec<Process> = AGENTS
        .iter()
        .map(|name| {
            server.token(&folder, name);
            start(&arguments(&server, &folder, name))
        })
        .collect();
    AGENTS
        .iter()
        .for_each(|name| wait("it comes", || is_connected(&server, name)));
    let jobs = [(); 2].map(|()| {
        let id = server.start_job(QUERY);
        wait("rows of all", || lacks_nobody(&server, &id));
        // The first windows began before the agents did.
        let rows = server.rows(&["jobs", "results", &id]);
        let from = rows
            .iter()
            .filter_map(|row| row["window_end"].as_i64())
            .max()
            .expect("rows");
        (id, from)
    });
    let mut events = BTreeMap::new();
    for step in 1..=steps {
        let event = EVENTS[rng.below(EVENTS.len() as u64) as usize];
        let at = rng.below(AGENTS.len() as u64) as usize;
        let pause = Duration::from_millis(rng.below(14_000));
        *events.entry(event).or_insert(0) += 1;
        happen(event, at, pause, (&mut server, &mut agents), &folder);
        for (id, _) in &jobs {
            let before = server.rows(&["jobs", "results", id]).len();
            wait("rows of all come again", || {
                match server.rows(&["jobs", "results", id]).len() {
                    n if n > before => lacks_nobody(&server, id),
                    n => Err(format!("{n} rows")),
                }
            });
        }
        // Windows that are judged.
        std::thread::sleep(SETTLED);
        let words = format!("step {step}: {event:?} {} {pause:?}", AGENTS[at]);
        for (id, from) in &jobs {
            let [whole, lacking, behind] =
                check(&server.rows(&["jobs", "results", id]), *from, &words);
            eprintln!(
                "{words}: job {id}: {whole} whole windows, {lacking} lack agents, {behind} not judged"
            );
        }
        let monitors = agents.iter().map(|agent| children(agent.0.id()).len());
        eprintln!("monitors: {:?}", monitors.collect::<Vec<_>>());
    }
    eprintln!("{steps} steps of seed {seed}: {events:?}");
}
