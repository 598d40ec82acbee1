//! An Open vSwitch in a network namespace with hosts at its ports, each a namespace of its own; all gone when dropped, and when the test
//! is killed: a keeper waits for the end of its standard input and takes everything away.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use steer::OpenVSwitch;
use testkit::programs::{Program, are_there, wait_for};

/// The namespaces are `$1…`, the folder is `$2`.
const KEEPER: &str = r#"
trap '' INT TERM HUP
read -r word
spaces() { ip netns list | cut -d' ' -f1 | grep "^$1"; }
for ns in $(spaces $1); do ip netns pids $ns | xargs -r kill -9; done
for ns in $(spaces $1); do ip netns del $ns; done
rm -rf "$2"
"#;

pub const BRIDGE: &str = "br0";
/// The ports of hosts, and of the monitor.
pub const HOSTS: [u32; 3] = [1, 2, 3];
pub const MONITOR: u32 = 9;

/// See the module's text.
pub struct Bed {
    prefix: String,
    pub folder: PathBuf,
    keeper: Child,
    _daemons: Vec<Program>,
}

impl Bed {
    /// A switch with hosts 1, 2 and 3 (10.9.0.N) and a monitor at port 9, that does NORMAL behind a table of ours, or in table 0.
    /// `None`, said loudly, where this machine cannot.
    pub fn new(rules: &[&str]) -> Option<Bed> {
        if !are_there(&[
            "ovs-vswitchd",
            "ovsdb-server",
            "ovs-vsctl",
            "ovs-ofctl",
            "ip",
            "ethtool",
            "tcpdump",
            "python3",
        ]) {
            return None;
        }
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("st{}-{}-", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::Builder::new().prefix("steer-").tempdir().expect("a folder").keep();
        let keeper = Command::new("bash")
            .args(["-c", KEEPER, "keeper", &prefix])
            .arg(&folder)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bash runs");
        let mut bed = Bed { prefix, folder, keeper, _daemons: Vec::new() };
        match bed.build(rules) {
            Ok(()) => Some(bed),
            Err(why) => {
                testkit::loudly(&format!("NO OPEN VSWITCH ({why}): this test has checked NOTHING"));
                None
            }
        }
    }

    fn build(&mut self, rules: &[&str]) -> Result<(), String> {
        let switch = self.ns("s");
        namespace(&switch)?;
        ip(&format!("-n {switch} link set lo up"))?;
        self._daemons = daemons(&switch, &self.folder)?;
        self.vsctl(&format!(
            "add-br {BRIDGE} -- set bridge {BRIDGE} datapath_type=netdev fail_mode=secure \
             protocols=OpenFlow10,OpenFlow13"
        ));
        for port in HOSTS.into_iter().chain([MONITOR]) {
            self.host(port)?;
        }
        self.rules(rules);
        Ok(())
    }

    fn host(&self, port: u32) -> Result<(), String> {
        let (switch, ns) = (self.ns("s"), self.ns(&port.to_string()));
        namespace(&ns)?;
        ip(&format!("-n {switch} link add v{port} type veth peer name e0 netns {ns}"))?;
        ip(&format!("-n {switch} link set v{port} up"))?;
        ip(&format!("-n {ns} link set lo up"))?;
        ip(&format!("-n {ns} link set e0 up address 02:00:00:00:00:{port:02x}"))?;
        if port != MONITOR {
            ip(&format!("-n {ns} addr add 10.9.0.{port}/24 dev e0"))?;
        }
        run(Command::new("ip").args(["netns", "exec", &ns, "ethtool", "-K", "e0", "tx", "off"]))?;
        self.vsctl(&format!("add-port {BRIDGE} v{port} -- set interface v{port} ofport_request={port}"));
        Ok(())
    }

    pub fn ns(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub fn switch(&self) -> OpenVSwitch {
        OpenVSwitch::new(&self.folder, BRIDGE)
    }

    /// Rules that are not ours, in the place of all others.
    pub fn rules(&self, rules: &[&str]) {
        let bridge = format!("unix:{}/{BRIDGE}.mgmt", self.folder.display());
        let ofctl = |words: &[&str]| {
            run(Command::new("ovs-ofctl").args(["-O", "OpenFlow13"]).args(words)).expect("it does")
        };
        ofctl(&["del-flows", &bridge]);
        for rule in rules {
            ofctl(&["add-flow", &bridge, rule]);
        }
    }

    pub fn vsctl(&self, words: &str) {
        let database = format!("--db=unix:{}/db.sock", self.folder.display());
        run(Command::new("ovs-vsctl").arg(database).args(words.split_whitespace())).expect("it does");
    }

    /// A command in a host's namespace.
    pub fn within(&self, host: u32, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.ns(&host.to_string()), program]).stdin(Stdio::null());
        command
    }

    /// Captures at a host from now on, with a filter of tcpdump.
    pub fn capture(&self, host: u32, filter: &str) -> Capture {
        let file = self.folder.join(format!("{host}-{}.pcap", self.captures()));
        let mut command = self.within(host, "tcpdump");
        // With room for short frames only, and many: of the longest that there could be few would have any.
        command.args(["-i", "e0", "-U", "--immediate-mode", "-n", "-s", "2048", "-B", "16384", "-w"]);
        command.arg(&file).arg(filter);
        Capture::start(command, file)
    }

    /// Frames of a capture that pass a filter, as tcpdump judges.
    pub fn capture_file(&self, capture: &Capture, filter: &str) -> Vec<Vec<u8>> {
        let file = self.folder.join("chosen.pcap");
        run(Command::new("tcpdump").arg("-r").arg(&capture.file).arg("-w").arg(&file).arg(filter))
            .expect("tcpdump");
        frames(&file)
    }

    fn captures(&self) -> u32 {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        NUMBER.fetch_add(1, Ordering::Relaxed)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

fn daemons(switch: &str, folder: &Path) -> Result<Vec<Program>, String> {
    let path = |name: &str| folder.join(name).display().to_string();
    let schema = "/usr/share/openvswitch/vswitch.ovsschema";
    run(Command::new("ovsdb-tool").args(["create", &path("conf.db"), schema]))?;
    let start = |program: &str, words: &[&str]| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", switch, program]).args(words);
        command.env("OVS_RUNDIR", folder).env("OVS_DBDIR", folder).env("OVS_LOGDIR", folder);
        Program::start(&mut command)
    };
    let socket = path("db.sock");
    let ovsdb = start(
        "ovsdb-server",
        &[
            &path("conf.db"),
            &format!("--remote=punix:{socket}"),
            &format!("--pidfile={}", path("ovsdb-server.pid")),
        ],
    );
    wait_for("ovsdb-server", || {
        folder.join("db.sock").exists().then_some(()).ok_or_else(|| "no socket".to_owned())
    });
    run(Command::new("ovs-vsctl").args([&format!("--db=unix:{socket}"), "--no-wait", "init"]))?;
    let vswitchd = start(
        "ovs-vswitchd",
        &[&format!("unix:{socket}"), &format!("--pidfile={}", path("ovs-vswitchd.pid"))],
    );
    let pid = folder.join("ovs-vswitchd.pid");
    wait_for("ovs-vswitchd", || pid.exists().then_some(()).ok_or_else(|| "no process".to_owned()));
    Ok(vec![vswitchd, ovsdb])
}

/// A running tcpdump; its file.
pub struct Capture {
    tcpdump: Program,
    file: PathBuf,
}

impl Capture {
    fn start(mut command: Command, file: PathBuf) -> Capture {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("tcpdump");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert_ne!(said.read_line(&mut line).expect("it speaks"), 0, "tcpdump has ended");
        }
        Capture { tcpdump: Program(child), file }
    }

    /// What it has taken so far: the frames.
    pub fn frames(&self) -> Vec<Vec<u8>> {
        frames(&self.file)
    }

    /// Waits for so many frames.
    pub fn wait(&self, count: usize) -> Vec<Vec<u8>> {
        wait_for(&format!("{count} frames"), || {
            let frames = self.frames();
            if frames.len() >= count { Ok(frames) } else { Err(format!("{} frames", frames.len())) }
        })
    }

    pub fn end(mut self) {
        self.tcpdump.kill();
    }
}

/// A namespace in which nobody speaks on its own, of IPv6.
pub fn namespace(name: &str) -> Result<(), String> {
    ip(&format!("netns add {name}"))?;
    for which in ["all", "default"] {
        let setting = format!("net.ipv6.conf.{which}.disable_ipv6=1");
        run(Command::new("ip").args(["netns", "exec", name, "sysctl", "-qw", &setting]))?;
    }
    Ok(())
}

/// The frames of a file that may still grow.
fn frames(file: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(file).unwrap_or_default();
    let mut rest = bytes.get(24..).unwrap_or_default();
    let mut frames = Vec::new();
    while let Some(head) = rest.get(..16) {
        let len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let Some(frame) = rest.get(16..16 + len) else { break };
        frames.push(frame.to_vec());
        rest = &rest[16 + len..];
    }
    frames
}

pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{command:?}: {e}"))?;
    let why = || format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()).ok_or_else(why)
}

pub fn ip(words: &str) -> Result<(), String> {
    run(Command::new("ip").args(words.split_whitespace())).map(drop)
}
