//! Agents and monitors that are suspended, asked to end, or killed repeatedly, as processes: the server's reports, and
//! recovery of all of them.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::resilience::{agent, agent_again, children, is_alive, is_connected, start};
use super::service::{Process, Server, wait};
use super::{Folder, run};

const QUERY: &str = "PARSE http PROCESS (group-count: group=path, w=1s)";

pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .status()
        .expect("kill runs");
    assert!(sent.success(), "{name} to {pid}");
}

fn reason(server: &Server, id: &str) -> String {
    server.rows(&["jobs", "show", id])[0]["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// The last rows by end of window, with their missing agents.
fn last_rows(server: &Server, id: &str) -> Vec<Value> {
    let rows = server.rows(&["jobs", "results", id]);
    let last = rows
        .iter()
        .filter_map(|row| row["window_end"].as_i64())
        .max();
    rows.into_iter()
        .filter(|row| row["window_end"].as_i64() == last)
        .collect()
}

fn lacks(server: &Server, id: &str, agent: &str) -> Result<(), String> {
    let rows = last_rows(server, id);
    if rows
        .iter()
        .any(|row| row["agents_missing"].to_string().contains(agent))
    {
        Ok(())
    } else {
        Err(format!("{rows:?}; {}", reason(server, id)))
    }
}

pub fn lacks_nobody(server: &Server, id: &str) -> Result<(), String> {
    let rows = last_rows(server, id);
    if !rows.is_empty() && rows.iter().all(|row| row["agents_missing"].is_null()) {
        Ok(())
    } else {
        Err(format!("{rows:?}; {}", reason(server, id)))
    }
}

/// The only monitor of an agent.
fn monitor(agent: &Process) -> Result<u32, String> {
    match children(agent.0.id()).as_slice() {
        [one] => Ok(*one),
        others => Err(format!("{others:?}")),
    }
}

/// A server, agents, and a standing job with rows from all of them.
fn at_work(folder: &Folder, names: &[&str]) -> (Server, Vec<Process>, String) {
    let server = Server::start(folder);
    let agents: Vec<Process> = names
        .iter()
        .map(|name| start(&agent(&server, folder, name)))
        .collect();
    names
        .iter()
        .for_each(|name| wait("it comes", || is_connected(&server, name)));
    let made = server.rows(&["jobs", "start", QUERY, "--standing"]);
    let id = made[0]["id"].as_str().expect("a number").to_owned();
    wait("rows of all", || lacks_nobody(&server, &id));
    (server, agents, id)
}

#[test]
fn a_monitor_that_is_stopped_is_named_and_works_again() {
    let folder = Folder::new();
    let (server, agents, id) = at_work(&folder, &["one", "two"]);
    let stopped = monitor(&agents[0]).expect("one monitor");
    signal(stopped, "STOP");
    wait("rows come without it", || lacks(&server, &id, "one"));
    let said = reason(&server, &id);
    assert!(
        said.contains("agent one is connected, but its results make no progress"),
        "{said}"
    );
    // Longer than the agent's lease.
    std::thread::sleep(Duration::from_secs(8));
    signal(stopped, "CONT");
    wait("rows come with it again", || lacks_nobody(&server, &id));
    wait("nothing is said of it any more", || {
        match reason(&server, &id) {
            said if said.contains("no progress") => Err(said),
            _ => Ok(()),
        }
    });
    monitor(&agents[0]).expect("one monitor");
}

#[test]
fn suspended_agents_deliver_their_monitors_results() {
    let folder = Folder::new();
    let (server, agents, id) = at_work(&folder, &["one", "two"]);
    let before = monitor(&agents[0]).expect("one monitor");
    signal(agents[0].0.id(), "STOP");
    wait("rows come without it", || lacks(&server, &id, "one"));
    wait("its monitor ends with its lease", || {
        if is_alive(before) {
            Err(reason(&server, &id))
        } else {
            Ok(())
        }
    });
    signal(agents[0].0.id(), "CONT");
    wait("rows come with it again", || lacks_nobody(&server, &id));
    let said = reason(&server, &id);
    assert!(
        said.contains("after their windows were closed") && !said.contains("unknown"),
        "{said}"
    );
}

#[test]
fn monitors_that_end_early_are_restarted() {
    let folder = Folder::new();
    let (server, agents, id) = at_work(&folder, &["one"]);
    let first = monitor(&agents[0]).expect("one monitor");
    signal(first, "TERM");
    wait("another takes its place", || match monitor(&agents[0])? {
        pid if pid == first => Err(format!("{pid}")),
        _ => Ok(()),
    });
    wait("the job says why", || match reason(&server, &id) {
        said if said.contains("SIGTERM") => Ok(()),
        said => Err(said),
    });
    let said = reason(&server, &id);
    assert!(!said.contains("lost"), "{said}");
    wait("rows come again", || lacks_nobody(&server, &id));
}

#[test]
fn a_monitor_that_is_killed_again_and_again_is_started_again() {
    let folder = Folder::new();
    let (server, agents, id) = at_work(&folder, &["one"]);
    let mut last = 0;
    for _ in 0..4 {
        wait("there is one", || match monitor(&agents[0])? {
            pid if pid == last => Err(format!("{pid}")),
            _ => Ok(()),
        });
        last = monitor(&agents[0]).expect("it exists");
        signal(last, "KILL");
    }
    wait("the job says why", || match reason(&server, &id) {
        said if said.contains("agent one cannot run it") && said.contains("signal: 9") => Ok(()),
        said => Err(said),
    });
    wait("another is there", || match monitor(&agents[0])? {
        pid if pid == last => Err(format!("{pid}")),
        _ => Ok(()),
    });
    wait("rows come again", || lacks_nobody(&server, &id));
}

#[test]
fn agents_end_without_losses_on_request() {
    let folder = Folder::new();
    let (server, mut agents, id) = at_work(&folder, &["one"]);
    let pid = agents[0].0.id();
    signal(pid, "TERM");
    agents[0].0.wait().expect("it ends");
    assert!(!is_alive(pid));
    wait("it is missed", || match reason(&server, &id) {
        said if said.contains("agent one is not connected") => Ok(()),
        said => Err(said),
    });
    let gone = reason(&server, &id);
    assert!(!gone.contains("lost"), "{gone}");
    let again = start(&agent_again(&server, &folder, "one"));
    wait("it comes", || is_connected(&server, "one"));
    wait("its monitor runs", || monitor(&again).map(drop));
    wait("rows come again", || lacks_nobody(&server, &id));
    let back = reason(&server, &id);
    assert!(!back.contains("lost"), "{back}");
}

#[test]
fn a_server_that_is_killed_twice_within_a_lease_loses_nothing() {
    let folder = Folder::new();
    let (mut server, _agents, id) = at_work(&folder, &["one", "two"]);
    let before = server.rows(&["jobs", "results", &id]).len();
    for _ in 0..2 {
        server.start_again(&folder);
        std::thread::sleep(Duration::from_millis(1500));
    }
    wait("rows come again", || {
        match server.rows(&["jobs", "results", &id]).len() {
            n if n > before + 20 => Ok(()),
            n => Err(format!("{n}")),
        }
    });
    let rows = server.rows(&["jobs", "results", &id]);
    let lacking: Vec<&Value> = rows
        .iter()
        .filter(|row| !row["agents_missing"].is_null())
        .collect();
    assert!(lacking.is_empty(), "{lacking:?}; {}", reason(&server, &id));
    assert!(!reason(&server, &id).contains("lost"));
}

#[test]
fn a_job_that_every_agent_refuses_ends_with_the_reasons() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let policy = folder.path("policy.toml");
    fs::write(&policy, "jobs_max = 0\n").expect("written");
    let mut arguments = agent(&server, &folder, "one");
    arguments.extend(["--policy".to_owned(), policy]);
    let _agent = start(&arguments);
    wait("it comes", || is_connected(&server, "one"));
    let asked = [
        "jobs",
        "start",
        QUERY,
        "--server",
        &server.url,
        "--token-file",
        &server.token,
    ];
    let ran = run(&asked);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("no agent could run the job: one: "),
        "{}",
        ran.err
    );
    assert!(ran.out.contains("ended"), "{}", ran.out);
}

/// A small tmpfs for the duration of the test.
struct SmallDisk(String);

impl SmallDisk {
    /// `None` without the permission to mount, if `ALLOW_MISSING` names `mount`.
    fn mount(path: &str) -> Option<SmallDisk> {
        fs::create_dir_all(path).expect("a folder");
        let mount = ["-t", "tmpfs", "-o", "size=6m,mode=700", "tmpfs", path];
        let mounted = Command::new("mount")
            .args(mount)
            .status()
            .is_ok_and(|status| status.success());
        testkit::require!("mount" => mounted);
        Some(SmallDisk(path.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}

#[test]
fn a_server_that_is_killed_while_its_disk_is_full_starts_again() {
    let folder = Folder::new();
    let Some(_disk) = SmallDisk::mount(&folder.path("server")) else {
        return;
    };
    let (mut server, _agents, id) = at_work(&folder, &["one"]);
    let filler = folder.path("server/filler");
    let fill = || {
        let mut file = fs::OpenOptions::new();
        let mut file = file
            .create(true)
            .append(true)
            .open(&filler)
            .expect("a file");
        assert!(
            std::io::copy(&mut std::io::repeat(0), &mut file).is_err(),
            "it gets full"
        );
    };
    fill();
    wait("the job says so", || match reason(&server, &id) {
        said if said.contains("disk is full") => Ok(()),
        said => Err(said),
    });
    let pid = server.pid();
    signal(pid, "KILL");
    wait("its end", || {
        if is_alive(pid) {
            Err(String::new())
        } else {
            Ok(())
        }
    });
    // The index of the write-ahead log is written anew at the start; its space is taken by others meanwhile.
    fs::remove_file(folder.path("server/store.sqlite-shm")).expect("it is there");
    fill();
    server.start_again(&folder);
    let said = reason(&server, &id);
    fs::remove_file(&filler).expect("removed");
    wait("rows come again", || {
        lacks_nobody(&server, &id).map_err(|why| format!("{why}; before: {said}"))
    });
}
