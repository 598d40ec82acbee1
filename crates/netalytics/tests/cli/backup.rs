//! The backup procedure of docs/server.md, as processes: a server with TLS is backed up while agents send, killed, its
//! data directory removed, restored, and restarted.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::service::wait;
use super::tls_server::{Heard, Server};
use super::{BINARY, Folder, ROOT, check};

const AGENTS: [&str; 2] = ["web-1", "web-2"];
/// Windows of both agents.
const WINDOWS: &str = "PARSE http PROCESS (group-count: group=path, w=1s)";

/// Commands of the documentation, with our folders.
fn commands(backup: &str, data: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(Path::new(ROOT).join("docs/server.md")).expect("the page");
    let section = text
        .split("## Backup and restore")
        .nth(1)
        .expect("its section");
    let block = section.split("```").nth(1).expect("its commands");
    let lines = block
        .lines()
        .filter_map(|line| line.strip_prefix("netalytics "));
    let own = |word: &str| match word {
        "/backup/2026-11-27" => backup.to_owned(),
        "/srv/netalytics" => data.to_owned(),
        word => word.to_owned(),
    };
    lines
        .map(|line| line.split(' ').map(own).collect())
        .collect()
}

fn start(server: &str, own: &str) -> Heard {
    let play = ["--demo", "captures/shop/in.pcap", "--demo-pause", "20ms"];
    Heard::start(
        &[BINARY],
        &[
            &["agent", "-v", "--server", server, "--folder", own][..],
            &play,
        ]
        .concat(),
    )
}

fn results(server: &Server, job: &str) -> Vec<Value> {
    server.rows(&["jobs", "results", job])
}

fn count(server: &Server, query: &str) -> u64 {
    let rows = server.rows(&["query", query, "-q"]);
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0]["count"]
        .as_u64()
        .or_else(|| rows[0]["count"].as_str()?.parse().ok())
        .expect("a count")
}

/// The time this many seconds ago.
fn ago(seconds: u32) -> String {
    let asked = [
        "-u",
        "-d",
        &format!("{seconds} seconds ago"),
        "+%Y-%m-%dT%H:%M:%SZ",
    ];
    let said = Command::new("date")
        .args(asked)
        .output()
        .expect("date runs")
        .stdout;
    String::from_utf8_lossy(&said).trim().to_owned()
}

fn are_connected(server: &Server) -> Result<(), String> {
    AGENTS
        .iter()
        .try_for_each(|agent| match server.is_connected(agent) {
            Ok(true) => Ok(()),
            other => Err(format!("{agent}: {other:?}")),
        })
}

#[test]
fn a_server_that_is_lost_comes_back_from_its_backup() {
    let folder = Folder::new();
    let server = Server::start(&folder, "server", &[]);
    let own: Vec<String> = AGENTS
        .iter()
        .map(|agent| server.enrolled(&folder, agent))
        .collect();
    let mut agents: Vec<Heard> = own.iter().map(|own| start(&server.url, own)).collect();
    wait("both agents come", || are_connected(&server));
    let begin = |args: &[&str]| {
        server.rows(&[&["jobs", "start"], args].concat())[0]["id"]
            .as_str()
            .expect("a number")
            .to_owned()
    };
    let windows = begin(&[WINDOWS, "--standing"]);
    let tuples = begin(&["PARSE packet", "--keep-tuples"]);
    let since = ago(60);
    let history = Path::new(&server.data).join("history").join(&tuples);
    wait("tuples move to Parquet files", || {
        match fs::read_dir(&history).map_or(0, Iterator::count) {
            0 | 1 => Err(format!("{:?}", server.rows(&["jobs"]))),
            _ => Ok(()),
        }
    });
    wait("windows are there", || {
        match results(&server, &windows).len() {
            0..10 => Err("not yet".into()),
            _ => Ok(()),
        }
    });
    // Queries before and after: agents have sent all of it by now.
    let until = ago(8);
    let total = format!("PARSE packet SINCE '{since}' UNTIL '{until}' PROCESS (count)");
    let before = results(&server, &windows);
    let counted = count(&server, &total);
    assert!(counted > 1000, "{counted}");
    let ca = fs::read(&server.ca).expect("the authority");

    let backup = folder.path("backup");
    let data = server.data.clone();
    let drill = commands(&backup, &data);
    let [back_up, restore] = &drill[..] else {
        panic!("two commands: {drill:?}")
    };
    let command = |words: &Vec<String>| {
        check(
            &words.iter().map(String::as_str).collect::<Vec<_>>(),
            0,
            &[],
        )
    };
    command(back_up);
    // The server continues: these rows are lost.
    wait("more windows come", || {
        if results(&server, &windows).len() > before.len() + 10 {
            Ok(())
        } else {
            Err("not yet".into())
        }
    });
    server.process.signal("KILL");
    let listen = server.url.trim_start_matches("https://").to_owned();
    drop(server);
    fs::remove_dir_all(&data).expect("removed");
    // One agent continues, the other is restarted.
    drop(agents.pop());
    command(restore);
    let server = Server::start(&folder, "server", &["--listen", &listen]);
    agents.push(start(&server.url, &own[1]));

    assert_eq!(fs::read(&server.ca).expect("the authority"), ca);
    let restored = results(&server, &windows);
    assert_eq!(restored[..before.len()], before);
    assert_eq!(count(&server, &total), counted);
    wait("both agents come again", || are_connected(&server));
    agents[0].says("is a different server");
    for agent in &agents {
        wait("they are taken", || {
            if agent
                .all()
                .iter()
                .any(|line| line.contains("has accepted this agent"))
            {
                Ok(())
            } else {
                Err(agent.all().join("\n"))
            }
        });
    }
    wait("rows go on, whole", || {
        let rows = results(&server, &windows);
        let is_whole = rows
            .last()
            .is_some_and(|row| row["agents_missing"].is_null());
        if rows.len() > restored.len() + 20 && is_whole {
            Ok(())
        } else {
            Err(format!("{:?}", rows.last()))
        }
    });
    let rows = results(&server, &windows);
    let mut seen = BTreeSet::new();
    for row in &rows {
        assert!(
            seen.insert((row["window_start"].to_string(), row["path"].to_string())),
            "twice: {row}"
        );
    }
    // The gap is reported in rows and in the job.
    let lacks = |agent: &str| {
        rows[before.len()..].iter().any(|row| {
            row["agents_missing"]
                .as_str()
                .is_some_and(|m| m.contains(agent))
        })
    };
    let reason = server.rows(&["jobs", "show", &windows])[0]["reason"].to_string();
    for agent in AGENTS {
        assert!(
            lacks(agent),
            "{agent} is named in the windows that lack it: {reason}"
        );
        assert!(reason.contains(agent), "{reason}");
    }
    // A lost segment of the history is an error that names it, not a 0.
    fs::remove_dir_all(&history).expect("removed");
    for asked in [&["query", &total][..], &["jobs", "results", &tuples]] {
        let ran = server.ask(asked);
        assert_eq!(ran.code, 1, "{asked:?}: {}{}", ran.out, ran.err);
        let named = format!("history/{tuples}/0-000000000000");
        assert!(
            ran.err.contains("cannot be read") && ran.err.contains(&named),
            "{asked:?}: {}",
            ran.err
        );
    }
}
