//! A process that holds jobs until it is killed: this program, started again in the network namespace of a switch or
//! host. It receives commands to start and stop jobs and exporters, line by line.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use mirror::exporter::{ExporterSettings, IpfixSettings, SflowSettings};
use mirror::ovsdb::TunnelKind;
use mirror::{MirrorMode, PacketPart};
use steer::{
    CopyJob, CopyRoute, ExporterSite, OpenVSwitch, RunningCopies, RunningExporters, SelectionMethod,
};

use crate::bed::{BRIDGE, Bed, FAR_MONITOR, MONITOR, TUNNEL_HOST_ADDRESS, fabric};
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

    /// Processes that wait for its end to remove its objects.
    pub fn keepers(&self) -> Vec<String> {
        let pid = self.child.id();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        let of_thread = |thread: std::io::Result<std::fs::DirEntry>| {
            let path = thread.expect("a thread").path().join("children");
            std::fs::read_to_string(path).unwrap_or_default()
        };
        let all: String = threads.map(of_thread).collect();
        all.split_whitespace().map(str::to_owned).collect()
    }

    /// Sends it a signal, and waits for its end.
    pub fn signal(mut self, signal: &str) {
        let pid = self.child.id().to_string();
        testkit::namespaces::run(Command::new("kill").args([signal, &pid])).expect("it runs");
        self.child.wait().expect("it is ours");
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
    let mut exporters: Option<RunningExporters> = None;
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["export", protocol, sampling, target] => {
                let sampling = sampling.parse().expect("a number");
                let target = target.parse().expect("an address");
                let site = exporter(Path::new(&folder), protocol, sampling, target);
                match RunningExporters::start(vec![site]) {
                    Ok(started) => {
                        answer(&format!("exporting {}", started.repaired().join("; ")));
                        exporters = Some(started);
                    }
                    Err(why) => answer(&format!("failed {why}")),
                }
            }
            ["sample", rate] => {
                let exporters = exporters.as_ref().expect("it exports");
                exporters.set_sampling(rate.parse().expect("a number"));
                answer("requested");
            }
            ["sampling"] => {
                let exporters = exporters.as_ref().expect("it exports");
                let lost = exporters.lost().unwrap_or_default();
                answer(&format!("1:{} {lost}", exporters.sampling()));
            }
            ["unexport"] => match exporters.take().expect("it exports").stop() {
                Ok(()) => answer("stopped"),
                Err(why) => answer(&format!("failed {why}")),
            },
            ["start", id, mode, way, port] => {
                let id = id.parse().expect("a number");
                match fabric.start(job(id, (mode, way), port.parse().expect("a number"))) {
                    Ok(started) => {
                        let interfaces: Vec<&str> =
                            started.interfaces().values().map(String::as_str).collect();
                        answer(&format!("started {}", interfaces.join(" ")));
                        for repaired in started.repaired() {
                            println!("{repaired}");
                        }
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

/// An exporter of the first switch.
fn exporter(folder: &Path, protocol: &str, sampling: u32, target: SocketAddr) -> ExporterSite {
    let settings = match protocol {
        "sflow" => ExporterSettings::Sflow(SflowSettings {
            target,
            agent: "lo".to_owned(),
            sampling,
            header: 128,
            polling: 10,
        }),
        _ => ExporterSettings::Ipfix(IpfixSettings {
            target,
            sampling,
            cache_active_timeout: 1,
            cache_max_flows: 1000,
            domain: 5,
            point: 6,
            template_interval: 1,
        }),
    };
    ExporterSite {
        name: "near".to_owned(),
        switch: OpenVSwitch::new(&folder.join("near"), BRIDGE),
        settings,
    }
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
