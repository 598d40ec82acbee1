//! A process that holds jobs until it is killed: this program, started again in the network namespace of a switch or
//! host. It receives commands to start and stop jobs, line by line.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use mirror::ovsdb::TunnelKind;
use mirror::{MirrorMode, PacketPart};
use steer::{CopyJob, CopyRoute, RunningCopies, SelectionMethod};

use crate::bed::{Bed, FAR_MONITOR, MONITOR, TUNNEL_HOST_ADDRESS, fabric};
use crate::fabrics::{far_port, tap};
use crate::packets::SERVES;

/// Environment variable with the bed's folder, for the holder process.
const FOLDER: &str = "STEER_HOLDER";
/// Prefix of its answers; the test harness writes to the same output.
const ANSWER: &str = ">> ";

/// Handle of the process.
pub struct Holder {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Holder {
    /// Starts a process with this server number, in a namespace that `command` enters.
    pub fn start(bed: &Bed, within: impl Fn(&str) -> Command, server: u16, lease: u16) -> Holder {
        let own = std::env::current_exe().expect("this program");
        let mut command = within(own.to_str().expect("a name in UTF-8"));
        let mut child = command
            .args(["--exact", "holder::holds", "--nocapture"])
            .env(FOLDER, &bed.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let to = child.stdin.take().expect("piped");
        let from = BufReader::new(child.stdout.take().expect("piped"));
        let mut holder = Holder { child, to, from };
        holder.say(&format!("{server} {lease}")).expect("it begins");
        holder
    }

    /// Sends a line.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.to, "{line}").expect("it listens");
    }

    /// Sends a line; returns the answer or error.
    pub fn say(&mut self, line: &str) -> Result<String, String> {
        self.tell(line);
        loop {
            let mut said = String::new();
            assert_ne!(
                self.from.read_line(&mut said).expect("it speaks"),
                0,
                "it has ended"
            );
            let Some((_, answer)) = said.trim_end().split_once(ANSWER) else {
                continue;
            };
            return match answer.split_once(' ') {
                Some(("failed", why)) => Err(why.to_owned()),
                _ => Ok(answer.to_owned()),
            };
        }
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is ours");
    }

    /// Ends it regularly.
    pub fn end(mut self) {
        drop(self.to);
        let ended = self.child.wait().expect("it is ours");
        assert!(ended.success());
    }
}

/// Not a test: the process started by [`Holder`]. Without a folder it does nothing.
#[test]
fn holds() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let mut lines = std::io::stdin().lines().map(|line| line.expect("text"));
    let first = lines.next().expect("a first line");
    let (server, lease) = first.split_once(' ').expect("two numbers");
    let fabric = fabric(
        Path::new(&folder),
        server.parse().expect("one"),
        lease.parse().expect("one"),
    );
    answer("ready");
    let mut running: HashMap<u32, RunningCopies> = HashMap::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["start", id, mode, way, port] => {
                let id = id.parse().expect("a number");
                match fabric.start(job(id, (mode, way), port.parse().expect("a number"))) {
                    Ok(started) => {
                        let interfaces: Vec<&str> =
                            started.interfaces().values().map(String::as_str).collect();
                        answer(&format!("started {}", interfaces.join(" ")));
                        running.insert(id, started);
                    }
                    Err(why) => answer(&format!("failed {}", why.to_string().replace('\n', " "))),
                }
            }
            ["stop", id] => {
                let stopped = running
                    .remove(&id.parse().expect("a number"))
                    .expect("it runs")
                    .stop();
                match stopped {
                    Ok(()) => answer("stopped"),
                    Err(why) => answer(&format!("failed {}", why.to_string().replace('\n', " "))),
                }
            }
            _ => panic!("{line}"),
        }
    }
}

fn answer(text: &str) {
    println!("{ANSWER}{text}");
}

/// A job for a port of the server, by the names of its mode and path.
fn job(id: u32, (mode, way): (&str, &str), port: u16) -> CopyJob {
    let host = IpAddr::from(TUNNEL_HOST_ADDRESS);
    let to = match way {
        "port" => CopyRoute::Port(format!("v{MONITOR}")),
        "interface" => CopyRoute::Interface,
        "vxlan" => CopyRoute::Switch(TunnelKind::Vxlan, far_port()),
        "gre" => CopyRoute::Switch(TunnelKind::Gre, far_port()),
        "host-vxlan" => CopyRoute::Host(TunnelKind::Vxlan, host),
        "host-gre" => CopyRoute::Host(TunnelKind::Gre, host),
        _ => panic!("{way}"),
    };
    let monitor = match way {
        "port" => format!("v{MONITOR}"),
        "vxlan" | "gre" => format!("v{FAR_MONITOR}"),
        _ => format!("{way} of {id}"),
    };
    let mode = match mode {
        "flow" => MirrorMode::FLOW,
        "ends" => MirrorMode::ENDS,
        "pushed" => MirrorMode::PUSHED,
        "heads" => MirrorMode::HEADS,
        "headers" => MirrorMode::HEADERS,
        "mirror" => {
            let all = tap(MirrorMode::PORT, Some(port), &monitor, to);
            let mirrored = SelectionMethod::Mirror(vec![format!("v{SERVES}")]);
            let taps = vec![steer::CopyTap {
                how: mirrored,
                part: PacketPart::Whole,
                ..all
            }];
            return CopyJob {
                id,
                generation: 1,
                taps,
            };
        }
        _ => panic!("{mode}"),
    };
    CopyJob {
        id,
        generation: 1,
        taps: vec![tap(mode, Some(port), &monitor, to)],
    }
}
