//! A server and its agents under failures: killed parents, folders with invalid content or without space, two agents of
//! one name, very many jobs.

use std::fs;

use serde_json::{Value, json};

use super::Folder;
use super::service::{Process, Server, wait};

const CAPTURE: &str = "captures/shop/in.pcap";
const QUERY: &str = "PARSE http PROCESS (group-count: group=path, w=1s)";

/// Arguments of an agent that replays a capture, with a new token and its folder in `folder`.
pub fn agent(server: &Server, folder: &Folder, name: &str) -> Vec<String> {
    server.token(folder, name);
    agent_again(server, folder, name)
}

/// Arguments of an agent that replays a capture, with its existing token.
pub fn agent_again(server: &Server, folder: &Folder, name: &str) -> Vec<String> {
    let token = folder.path(&format!("{name}.token"));
    let own = folder.path(name);
    let play = ["-v", "--demo", CAPTURE, "--demo-pause", "100ms"];
    let all = server.agent(name, &token, &own).into_iter().chain(play);
    all.map(str::to_owned).collect()
}

pub fn start(arguments: &[String]) -> Process {
    Process::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

pub fn is_connected(server: &Server, name: &str) -> Result<(), String> {
    let agents = server.rows(&["agents"]);
    let is_there = |agent: &&Value| agent["name"] == name && agent["connected"] == true;
    agents
        .iter()
        .find(is_there)
        .map(drop)
        .ok_or_else(|| format!("{agents:?}"))
}

/// Child processes of `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let parent = |status: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
    };
    let processes = fs::read_dir("/proc").expect("it exists").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|child| {
        let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        parent(&status) == Some(pid)
    })
    .collect()
}

/// Whether the process exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status
        .lines()
        .any(|line| line.starts_with("State:") && !line.contains(['Z', 'X']))
}

fn kill(process: &mut Process) {
    process
        .0
        .kill()
        .and_then(|()| process.0.wait())
        .expect("it exists");
}

#[test]
fn the_agent_of_a_demonstration_ends_with_a_server_that_is_killed() {
    let mut process = Process::start(&["serve", "--demo", "--listen", "127.0.0.1:0"]);
    let command = process.says("in ten seconds: netalytics ");
    let folder = data_of(&command);
    let agent = children(process.0.id());
    assert_eq!(agent.len(), 1, "its agent");
    wait("it has monitors", || match children(agent[0]).len() {
        6 => Ok(()),
        n => Err(format!("{n}")),
    });
    let monitors = children(agent[0]);
    kill(&mut process);
    for pid in agent.into_iter().chain(monitors) {
        wait("they end, too", || {
            if is_alive(pid) {
                Err(format!("{pid} lives"))
            } else {
                Ok(())
            }
        });
    }
    // The next one removes its remains, and leaves folders in use.
    assert!(folder.is_dir(), "{}", folder.display());
    let mut next = Process::start(&["serve", "--demo", "--listen", "127.0.0.1:0"]);
    let command = next.says("in ten seconds: netalytics ");
    assert!(!folder.exists(), "{}", folder.display());
    let mut third = Process::start(&["serve", "--demo", "--listen", "127.0.0.1:0"]);
    third.says("in ten seconds: netalytics ");
    assert!(data_of(&command).is_dir(), "{command}");
    kill(&mut third);
}

/// Data directory of a demonstration, from the command it prints.
fn data_of(command: &str) -> std::path::PathBuf {
    let words: Vec<&str> = command.split_whitespace().collect();
    let at = words
        .iter()
        .position(|word| *word == "--token-file")
        .expect("it names its token");
    std::path::Path::new(words[at + 1])
        .parent()
        .expect("a folder")
        .to_owned()
}

#[test]
fn second_agent_with_the_same_name_waits() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let arguments = agent(&server, &folder, "one");
    let mut first = start(&arguments);
    wait("the first comes", || is_connected(&server, "one"));
    let id = server.start_job(QUERY);
    wait("its job runs", || server.is_running(&id));
    let elsewhere = folder.path("elsewhere");
    let mut second: Vec<String> = arguments.clone();
    let at = second
        .iter()
        .position(|word| word == "--folder")
        .expect("it has one");
    second[at + 1] = elsewhere;
    let mut second = start(&second);
    second.says("rejects this agent: another agent one is connected");
    assert_eq!(
        (children(first.0.id()).len(), children(second.0.id()).len()),
        (1, 0)
    );
    kill(&mut first);
    wait("the second takes its place", || {
        match children(second.0.id()).len() {
            1 => Ok(()),
            n => Err(format!("{n} monitors")),
        }
    });
}

#[test]
fn agents_send_no_data_of_one_server_to_another() {
    let folders = [Folder::new(), Folder::new()];
    let server = Server::start(&folders[0]);
    let first = agent(&server, &folders[0], "one");
    let process = start(&first);
    wait("it comes", || is_connected(&server, "one"));
    let id = server.start_job(QUERY);
    wait("it counts", || {
        if server.rows(&["jobs", "results", &id]).is_empty() {
            Err(server.rows(&["jobs", "show", &id])[0].to_string())
        } else {
            Ok(())
        }
    });
    drop((process, server));
    // The agent keeps its folder; another server with new job numbers listens at the address.
    let server = Server::start(&folders[1]);
    let mut again = agent(&server, &folders[1], "one");
    let at = again
        .iter()
        .position(|word| word == "--folder")
        .expect("it has one");
    again[at + 1] = folders[0].path("one");
    let mut process = start(&again);
    process.says("is a different server with its own jobs");
    wait("it comes", || is_connected(&server, "one"));
    let other =
        server.start_job("PARSE mysql_query PROCESS (group-count: group=fingerprint, w=1s)");
    assert_eq!(other, id, "both begin with the same number");
    wait("it counts", || {
        match server.rows(&["jobs", "results", &other]) {
            rows if rows.is_empty() => Err(server.rows(&["jobs", "show", &other])[0].to_string()),
            rows => {
                let is_own =
                    |row: &Value| row.get("fingerprint").is_some() && row.get("path").is_none();
                assert!(rows.iter().all(is_own), "{rows:?}");
                Ok(())
            }
        }
    });
    drop(process);
}

#[test]
fn agents_run_with_a_damaged_or_read_only_folder() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let arguments = agent(&server, &folder, "one");
    let spool = folder.path("one/spool");
    fs::create_dir_all(&spool).expect("a folder");
    // Random bytes in place of segments, the ledger and notes of starts; and folders in place of files.
    let mut rng = testkit::SeededRng::new(13);
    for (name, bytes) in [
        ("00000001.spool", 4000),
        ("00000002.spool", 3),
        ("ledger", 500),
        ("../starts", 80),
    ] {
        fs::write(format!("{spool}/{name}"), rng.bytes(bytes)).expect("written");
    }
    fs::create_dir(folder.path("one/starts.next")).expect("a folder");
    fs::create_dir(format!("{spool}/ledger.next")).expect("a folder");
    let process = start(&arguments);
    wait("it comes", || is_connected(&server, "one"));
    let id = server.start_job(QUERY);
    wait("it counts", || {
        if server.rows(&["jobs", "results", &id]).is_empty() {
            Err(server.rows(&["jobs", "show", &id])[0].to_string())
        } else {
            Ok(())
        }
    });
    drop(process);
}

/// Resources of a process: files, threads, KiB of anonymous memory.
fn held(pid: u32) -> (usize, usize, u64) {
    let count = |what| {
        fs::read_dir(format!("/proc/{pid}/{what}"))
            .expect("it exists")
            .count()
    };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it exists");
    let anonymous = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix("kB"));
    (
        count("fd"),
        count("task"),
        anonymous
            .and_then(|kib| kib.trim().parse().ok())
            .expect("a number"),
    )
}

#[test]
fn a_hundred_jobs_leave_nothing_behind() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let process = start(&agent(&server, &folder, "one"));
    wait("it comes", || is_connected(&server, "one"));
    let pids = [server.pid(), process.0.id()];
    let round = || {
        for _ in 0..10 {
            let job = server.post("/jobs", &json!({"query": QUERY, "kind": "standing"}));
            let id = job["id"].as_str().expect("a number").to_owned();
            server.delete(&format!("/jobs/{id}"));
        }
        wait("all have ended", || {
            match (server.open_jobs(), children(process.0.id()).len()) {
                (0, 0) => Ok(()),
                left => Err(format!("{left:?} jobs and monitors are left")),
            }
        });
    };
    round();
    let before = pids.map(held);
    (0..9).for_each(|_| round());
    for (before, pid) in before.into_iter().zip(pids) {
        wait("nothing is left", || {
            let after = held(pid);
            let has_grown =
                after.0 > before.0 + 4 || after.1 > before.1 + 4 || after.2 > before.2 + 16 * 1024;
            if has_grown {
                Err(format!("{before:?} became {after:?}"))
            } else {
                Ok(())
            }
        });
    }
}
