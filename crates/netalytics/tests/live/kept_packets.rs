//! Packets kept by an agent: those of a flow arrive at the server as tcpdump saw them, also after an alert has preserved
//! them; a policy that does not release them is respected; the recording process ends with its agent, and is started
//! again when it stands still or its disk was full.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::bed::{Bed, Process};
use crate::capture::signal;
use crate::net::shell;
use crate::servers::{Kind, Servers};
use crate::team::{SERVER_HOST, Team, children, is_alive, wait};

const NGINX_PORT: &str = "80";
/// More bytes than several parts of a reply.
const BODY_BYTES: usize = 500_000;

fn policy(role: &str, leaves: &str) -> String {
    format!(
        "labels = {{ role = \"{role}\" }}\ninterfaces = [\"eth0\"]\nleaves = \"{leaves}\"\nnetworks = [\"10.77.0.0/24\"]\n\
         [packets]\nbytes_max = 16777216\n"
    )
}

/// Files with packets of an agent.
fn kept(bed: &Bed, host: &str, part: &str) -> Vec<PathBuf> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let folder = bed.path(&format!("{host}.folder/packets/{part}"));
    entries(&folder)
        .flat_map(|run| entries(&run.path()))
        .map(|file| file.path())
        .collect()
}

/// Number of packets that tcpdump finds in a file with this port.
fn packets(file: &Path, port: &str) -> usize {
    let output = Command::new("tcpdump")
        .args(["-nn", "-r"])
        .arg(file)
        .args(["tcp", "port", port])
        .output()
        .expect("tcpdump runs");
    String::from_utf8_lossy(&output.stdout).lines().count()
}

/// The recording process of an agent.
fn recording(team: &mut Team<'_>, host: &str) -> u32 {
    let is_it = |pid: &u32| {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.contains("PARSE packet")
    };
    let found: Vec<u32> = children(team.agent(host).pid())
        .into_iter()
        .filter(is_it)
        .collect();
    assert_eq!(found.len(), 1);
    found[0]
}

/// Waits until agents record.
fn wait_for_files(bed: &Bed, team: &Team<'_>, hosts: &[&str]) {
    for host in hosts {
        team.wait_for_agent(host);
        wait("packets are recorded", || {
            let n = kept(bed, host, "current").len();
            (n > 0).then_some(()).ok_or_else(|| format!("{n} files"))
        });
    }
}

#[test]
fn packets_of_a_flow_come_from_the_agent_that_kept_them() {
    testkit::require!("tcpdump", "nginx", "curl", "socat");
    let Some(bed) = Bed::new(&[SERVER_HOST, "web", "shy", "client"]) else {
        return;
    };
    let address = bed.address("web");
    let _servers = Servers::at(&bed.ns("web"), &address, bed.folder(), &[Kind::Nginx]);
    let dump = bed.path("dump.pcap");
    let name = dump.display().to_string();
    let dumping = [
        "tcpdump", "-i", "eth0", "-U", "-w", &name, "tcp", "port", NGINX_PORT,
    ];
    let tcpdump = Process::start(&bed, "web", "tcpdump", &dumping, &[]);
    let mut team = Team::start(&bed, bed.path("data"));
    team.add_agent("web", &policy("web", "raw"), &[]);
    team.add_agent("shy", &policy("shy", "tuples"), &[]);
    wait_for_files(&bed, &team, &["web", "shy"]);
    let query = "PARSE http TO 10.77.0.0/24 PROCESS (count: w=1s)";
    let rule = json!({"name": "any / request", "query": query, "when": "count > 0", "on": {"role": "web"}});
    let (status, made) = team.api("POST", "/alert-rules", Some(rule));
    assert_eq!(status, 201, "{made}");
    wait("tcpdump captures", || {
        let said = tcpdump.said();
        said.contains("listening on").then_some(()).ok_or(said)
    });

    // Requests of one connection, until a window of the rule has them: its monitor starts at its own time.
    fs::write(bed.path("body"), vec![b'x'; BODY_BYTES]).expect("written");
    let mut ports = Vec::new();
    wait("the alert preserves packets", || {
        let ask = format!(
            "curl -sS -o /dev/null -w '%{{local_port}}\\n' http://{address}/item/1 && \
             curl -sS -o /dev/null --data-binary @{} -w '%{{local_port}}\\n' http://{address}/item/2",
            bed.path("body").display()
        );
        let output = shell(&bed.ns("client"), &ask).stdout;
        let text = String::from_utf8_lossy(&output).into_owned();
        ports.extend(text.lines().map(str::to_owned));
        let n = kept(&bed, "web", "alerts").len();
        (n > 0)
            .then_some(())
            .ok_or_else(|| format!("{n} files after {} requests", ports.len()))
    });
    let fetch = |port: &str, agent: Option<&str>| {
        let body = json!({
            "transport": "tcp", "client": format!("{}:{port}", bed.address("client")),
            "server": format!("{address}:{NGINX_PORT}"), "since_ns": "0", "until_ns": i64::MAX.to_string(), "agent": agent,
        });
        team.api("POST", "/packets", Some(body))
    };
    // The small and the large request of the first round, which precedes the alert.
    let check = |port: &str| {
        let mut answer = Value::Null;
        wait("all packets arrive", || {
            let (status, told) = fetch(port, None);
            let id = told["recording"]["id"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let file = bed.path("data/uploads").join(&id);
            let (found, expected) = (packets(&file, port), packets(&dump, port));
            answer = told;
            if status == 201 && found == expected && found > 8 {
                Ok(())
            } else {
                Err(format!("{status} {answer}: {found} of {expected} packets"))
            }
        });
        answer
    };
    for (port, (path, bytes)) in [
        (&ports[0], ("/item/1", 0)),
        (&ports[1], ("/item/2", BODY_BYTES)),
    ] {
        let answer = check(port);
        assert_eq!(answer["agent"], "web", "{answer}");
        let refusal =
            "agent shy: this host releases only tuples with redacted texts, not unredacted data";
        assert_eq!(answer["notes"], json!([refusal]), "{answer}");
        let ask = json!({"query": "PARSE http SELECT path, request_bytes", "recording": answer["recording"]["id"]});
        let (_, told) = team.api("POST", "/query", Some(ask));
        assert_eq!(
            told["results"][0]["rows"],
            json!([[path, bytes, null]]),
            "{told}"
        );
    }
    let (status, told) = fetch(&ports[0], Some("shy"));
    assert_eq!(
        (status, &told["code"]),
        (409, &json!("agents_unable")),
        "{told}"
    );
    let (status, told) = fetch("1", Some("web"));
    assert_eq!((status, &told["code"]), (409, &json!("no_agent")), "{told}");

    // What the alert preserved remains when the newest packets are gone.
    for file in kept(&bed, "web", "current") {
        fs::remove_file(file).expect("it is removed");
    }
    check(&ports[0]);

    let recording = recording(&mut team, "web");
    team.kill_agent("web");
    wait("the recording process ends", || {
        (!is_alive(recording))
            .then_some(())
            .ok_or_else(|| "it runs".into())
    });
}

/// One recording process stands still, the disk of the other is full: both are started again, and keep packets.
#[test]
fn recording_goes_on_after_a_stop_and_a_full_disk() {
    testkit::require!("curl", "socat");
    let hosts = ["stopped", "full"];
    let Some(bed) = Bed::new(&[SERVER_HOST, hosts[0], hosts[1], "client"]) else {
        return;
    };
    let mut team = Team::start(&bed, bed.path("data"));
    let disk = bed.small_disk("full.folder", 24 << 20);
    for host in hosts {
        team.add_agent(host, &policy(host, "raw"), &[]);
    }
    wait_for_files(&bed, &team, &hosts);
    signal(recording(&mut team, "stopped"), "STOP");
    let filler = disk.join("filler");
    let mut file = fs::File::create(&filler).expect("a file");
    while file.write_all(&[1; 4096]).is_ok() {}
    let send = |host: &str, port: u32| {
        let to = format!("UDP4-SENDTO:{}:9,sourceport={port}", bed.address(host));
        shell(&bed.ns("client"), &format!("echo one | socat - {to}"));
    };
    for (host, problem) in [("stopped", "does not respond"), ("full", "cannot write")] {
        wait("the problem is noticed", || {
            hosts.iter().for_each(|host| send(host, 5000));
            let said = team.agent(host).said();
            said.contains(problem).then_some(()).ok_or(said)
        });
    }
    drop(file);
    fs::remove_file(&filler).expect("it is removed");
    for host in hosts {
        wait("packets are kept again", || {
            send(host, 6000);
            let asked = json!({
                "transport": "udp", "client": format!("{}:6000", bed.address("client")),
                "server": format!("{}:9", bed.address(host)), "since_ns": "0",
                "until_ns": i64::MAX.to_string(), "agent": host,
            });
            let (status, told) = team.api("POST", "/packets", Some(asked));
            (status == 201)
                .then_some(())
                .ok_or_else(|| told.to_string())
        });
    }
}
