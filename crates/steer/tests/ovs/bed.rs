//! Two Open vSwitches, each a process in its own network namespace, connected by a cable, with hosts at their ports and
//! a separate network for tunnels. Built once for all tests, which run one after the other.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use steer::{NetworkMap, OpenVSwitch, PortPlace, SwitchFabric, SwitchSite};
use testkit::namespaces::{TestNamespaces, ip, run};
use testkit::programs::{TestProgram, wait_for};

pub const BRIDGE: &str = "br0";
/// Ports of hosts at the first switch, and of its monitor; the switch's names have a prefix `v`.
pub const HOSTS: [u32; 3] = [1, 2, 3];
pub const MONITOR: u32 = 9;
/// A host at the second switch, and its monitor.
pub const FAR_HOST: u32 = 4;
pub const FAR_MONITOR: u32 = 19;
/// Port of the cable on both switches.
pub const CABLE: u32 = 20;
/// A host of the tunnels' network, and its address.
pub const TUNNEL_HOST: u32 = 77;
pub const TUNNEL_HOST_ADDRESS: [u8; 4] = [10, 8, 0, 3];

/// See the module documentation.
pub struct Bed {
    spaces: TestNamespaces,
    pub folder: PathBuf,
    daemons: Vec<TestProgram>,
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Near,
    Far,
}

impl Which {
    pub fn name(self) -> &'static str {
        if self == Which::Near { "near" } else { "far" }
    }
}

impl Bed {
    /// The bed in its initial state, with these rules on the first switch. `None` if this machine does not
    /// support it and `ALLOW_MISSING` names `openvswitch`.
    pub fn new(rules: &[&str]) -> Option<MutexGuard<'static, Bed>> {
        static BED: OnceLock<Option<Mutex<Bed>>> = OnceLock::new();
        let bed = BED.get_or_init(|| Bed::build().map(Mutex::new)).as_ref()?;
        // Remains of a failed test are removed.
        let bed = bed.lock().unwrap_or_else(PoisonError::into_inner);
        for which in [Which::Near, Which::Far] {
            for column in ["mirrors", "sflow", "ipfix", "netflow"] {
                bed.vsctl(which, &format!("clear bridge {BRIDGE} {column}"));
            }
        }
        for which in [Which::Near, Which::Far] {
            // Addresses learned in another test.
            run(Command::new("ovs-appctl")
                .args(["fdb/flush", BRIDGE])
                .env("OVS_RUNDIR", bed.sockets(which)))
            .expect("it does");
        }
        for (which, ports) in [
            (Which::Near, [1, 2, 3, MONITOR, CABLE].as_slice()),
            (Which::Far, &[FAR_HOST, FAR_MONITOR, CABLE]),
        ] {
            for port in ports {
                bed.vsctl(which, &format!("clear interface v{port} external_ids"));
                bed.flood(which, *port, "flood");
            }
        }
        bed.rules(Which::Near, rules);
        bed.rules(Which::Far, &["priority=0,actions=NORMAL"]);
        Some(bed)
    }

    fn build() -> Option<Bed> {
        testkit::require!(
            "ovs-vswitchd",
            "ovsdb-server",
            "ovs-vsctl",
            "ovs-ofctl",
            "ip",
            "ethtool",
            "tcpdump",
            "python3",
            "flock"
        );
        let spaces = TestNamespaces::new("st");
        let mut bed = Bed {
            folder: spaces.folder().to_owned(),
            spaces,
            daemons: Vec::new(),
        };
        testkit::require!("openvswitch" => bed.try_build());
        Some(bed)
    }

    fn try_build(&mut self) -> Result<(), String> {
        for which in [Which::Near, Which::Far] {
            self.spaces.add_quiet(which.name())?;
            self.start(which)?;
            self.vsctl(
                which,
                &format!(
                    "add-br {BRIDGE} -- set bridge {BRIDGE} datapath_type=netdev fail_mode=secure \
                     protocols=OpenFlow10,OpenFlow13"
                ),
            );
        }
        for port in HOSTS.into_iter().chain([MONITOR]) {
            self.host(Which::Near, port)?;
        }
        for port in [FAR_HOST, FAR_MONITOR] {
            self.host(Which::Far, port)?;
        }
        let near = self.ns("near");
        let far = self.ns("far");
        ip(&format!(
            "-n {near} link add v{CABLE} type veth peer name v{CABLE} netns {far}"
        ))?;
        for which in [Which::Near, Which::Far] {
            ip(&format!(
                "-n {} link set v{CABLE} up",
                self.ns(which.name())
            ))?;
            self.port(which, CABLE);
        }
        self.underlay()
    }

    /// Network of the tunnels.
    fn underlay(&self) -> Result<(), String> {
        let near = self.ns("near");
        let far = self.ns("far");
        self.spaces.add_quiet(&TUNNEL_HOST.to_string())?;
        let host = self.ns(&TUNNEL_HOST.to_string());
        ip(&format!(
            "-n {near} link add u0 mtu 2000 type veth peer name u0 mtu 2000 netns {far}"
        ))?;
        ip(&format!(
            "-n {far} link add u1 mtu 2000 type veth peer name e0 mtu 2000 netns {host}"
        ))?;
        for (ns, interface) in [(&near, "u0"), (&far, "u0"), (&far, "u1"), (&host, "e0")] {
            ip(&format!("-n {ns} link set {interface} up"))?;
        }
        let [a, b, c, d] = TUNNEL_HOST_ADDRESS;
        ip(&format!("-n {host} addr add {a}.{b}.{c}.{d}/24 dev e0"))?;
        run(self
            .within(TUNNEL_HOST, "ethtool")
            .args(["-K", "e0", "tx", "off"]))?;
        for (which, ports, last) in [
            (Which::Near, &["u0"][..], 1),
            (Which::Far, &["u0", "u1"], 2),
        ] {
            self.vsctl(
                which,
                "add-br br-phy -- set bridge br-phy datapath_type=netdev",
            );
            for port in ports {
                self.vsctl(which, &format!("add-port br-phy {port}"));
            }
            let ns = self.ns(which.name());
            ip(&format!("-n {ns} addr add 10.8.0.{last}/24 dev br-phy"))?;
            ip(&format!("-n {ns} link set br-phy up"))?;
        }
        Ok(())
    }

    fn host(&self, which: Which, port: u32) -> Result<(), String> {
        self.spaces.add_quiet(&port.to_string())?;
        let switch = self.ns(which.name());
        let ns = self.ns(&port.to_string());
        ip(&format!(
            "-n {switch} link add v{port} type veth peer name e0 netns {ns}"
        ))?;
        ip(&format!("-n {switch} link set v{port} up"))?;
        ip(&format!(
            "-n {ns} link set e0 up address 02:00:00:00:00:{port:02x}"
        ))?;
        if ![MONITOR, FAR_MONITOR].contains(&port) {
            ip(&format!("-n {ns} addr add 10.9.0.{port}/24 dev e0"))?;
        }
        run(self.within(port, "ethtool").args(["-K", "e0", "tx", "off"]))?;
        self.port(which, port);
        Ok(())
    }

    fn port(&self, which: Which, port: u32) {
        self.vsctl(
            which,
            &format!("add-port {BRIDGE} v{port} -- set interface v{port} ofport_request={port}"),
        );
    }

    pub fn ns(&self, name: &str) -> String {
        self.spaces.name(name)
    }

    /// Directory of a switch's sockets.
    pub fn sockets(&self, which: Which) -> PathBuf {
        self.folder.join(which.name())
    }

    /// The first switch.
    pub fn switch(&self) -> OpenVSwitch {
        self.switch_at(Which::Near)
    }

    pub fn switch_at(&self, which: Which) -> OpenVSwitch {
        OpenVSwitch::new(&self.sockets(which), BRIDGE)
    }

    /// Both switches, the cable, and the locations of hosts.
    pub fn fabric(&self, server: u16, lease: u16) -> SwitchFabric {
        fabric(&self.folder, server, lease)
    }

    /// Replaces all rules by foreign rules.
    pub fn rules(&self, which: Which, rules: &[&str]) {
        let bridge = format!("unix:{}/{BRIDGE}.mgmt", self.sockets(which).display());
        let ofctl = |words: &[&str]| {
            run(Command::new("ovs-ofctl")
                .args(["-O", "OpenFlow13"])
                .args(words))
            .expect("it does")
        };
        ofctl(&["del-flows", &bridge]);
        for rule in rules {
            ofctl(&["add-flow", &bridge, rule]);
        }
    }

    pub fn vsctl(&self, which: Which, words: &str) -> String {
        let database = format!("--db=unix:{}/db.sock", self.sockets(which).display());
        run(Command::new("ovs-vsctl")
            .arg(database)
            .args(words.split_whitespace()))
        .expect("it does")
    }

    /// Sets flooding to a port as the owner: `flood` or `no-flood`.
    pub fn flood(&self, which: Which, port: u32, word: &str) {
        let bridge = format!("unix:{}/{BRIDGE}.mgmt", self.sockets(which).display());
        run(Command::new("ovs-ofctl").args(["mod-port", &bridge, &format!("v{port}"), word]))
            .expect("it does");
    }

    /// Runs a command of `ovs-ofctl` for a switch.
    pub fn ofctl13(&self, which: Which, command: &str, more: &str) {
        let bridge = format!("unix:{}/{BRIDGE}.mgmt", self.sockets(which).display());
        let mut ofctl = Command::new("ovs-ofctl");
        ofctl
            .args(["-O", "OpenFlow13", command, &bridge])
            .args(Some(more).filter(|more| !more.is_empty()));
        run(&mut ofctl).expect("it does");
    }

    /// The whole state of a switch as its own tools print it, without counters and times.
    pub fn state(&self, which: Which) -> String {
        let bridge = format!("unix:{}/{BRIDGE}.mgmt", self.sockets(which).display());
        let ofctl = |version: &str, words: &[&str]| {
            run(Command::new("ovs-ofctl").args(["-O", version]).args(words)).expect("it does")
        };
        let mut state = ofctl("OpenFlow10", &["show", &bridge]);
        for words in [
            ["dump-groups", &bridge],
            ["dump-meters", &bridge],
            ["queue-get-config", &bridge],
        ] {
            state += &ofctl("OpenFlow13", &words);
        }
        let mut rows = ofctl("OpenFlow13", &["--no-stats", "dump-flows", &bridge]);
        for (table, columns) in [
            (
                "mirror",
                "_uuid,name,select_src_port,select_dst_port,output_port",
            ),
            ("qos", "_uuid,type"),
            ("queue", "_uuid,other_config"),
            ("port", "_uuid,name,tag,qos,external_ids"),
            ("bridge", "_uuid,name,mirrors,external_ids,other_config"),
            ("interface", "name,type,options,external_ids"),
        ] {
            rows += &self.vsctl(
                which,
                &format!("--format=csv --no-headings --columns={columns} list {table}"),
            );
        }
        // Independent of the order of output.
        let mut rows: Vec<&str> = rows.lines().collect();
        rows.sort_unstable();
        state += &rows.join("\n");
        let is_stable = |line: &&str| !line.contains("xid=");
        state
            .lines()
            .filter(is_stable)
            .map(|line| format!("{line}\n"))
            .collect()
    }

    /// Has switches forget the location of the other tunnel end, as after five minutes of silence; waits until they
    /// know it again.
    pub fn forget_addresses(&self) {
        let appctl = |which, command: &str| {
            let mut program = Command::new("ovs-appctl");
            run(program
                .args([command, "br-phy"])
                .env("OVS_RUNDIR", self.sockets(which)))
            .expect("it does")
        };
        for which in [Which::Near, Which::Far] {
            appctl(which, "fdb/flush");
        }
        for which in [Which::Near, Which::Far] {
            wait_for("the switches to be heard", || {
                let known = appctl(which, "fdb/show");
                // The output has a heading, and a line for each of the two switches.
                if known.lines().count() > 2 {
                    Ok(())
                } else {
                    Err(known)
                }
            });
        }
    }

    /// A command in a host's namespace.
    pub fn within(&self, host: u32, program: &str) -> Command {
        self.spaces.within(&host.to_string(), program)
    }

    /// A command in a switch's namespace.
    pub fn within_switch(&self, which: Which, program: &str) -> Command {
        self.spaces.within(which.name(), program)
    }

    /// Starts a capture at a host, with a filter of tcpdump.
    pub fn capture(&self, host: u32, filter: &str) -> Capture {
        self.capture_at(self.within(host, "tcpdump"), "e0", filter)
    }

    /// Starts a capture in the namespace of this tcpdump.
    pub fn capture_at(&self, mut command: Command, interface: &str, filter: &str) -> Capture {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let file = self
            .folder
            .join(format!("{}.pcap", NUMBER.fetch_add(1, Ordering::Relaxed)));
        // A small snapshot length: the ring buffer would hold too few frames of maximum size.
        command.args([
            "-i",
            interface,
            "-U",
            "--immediate-mode",
            "-n",
            "-s",
            "2048",
            "-B",
            "16384",
            "-w",
        ]);
        command.arg(&file).arg(filter);
        Capture::start(command, file)
    }

    /// Frames of a capture that pass a filter, according to tcpdump.
    pub fn capture_file(&self, capture: &Capture, filter: &str) -> Vec<Vec<u8>> {
        let file = self.folder.join("chosen.pcap");
        run(Command::new("tcpdump")
            .arg("-r")
            .arg(&capture.file)
            .arg("-w")
            .arg(&file)
            .arg(filter))
        .expect("tcpdump");
        frames(&file)
    }

    fn start(&mut self, which: Which) -> Result<(), String> {
        let folder = self.sockets(which);
        std::fs::create_dir(&folder).map_err(|e| e.to_string())?;
        let path = |name: &str| folder.join(name).display().to_string();
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        run(Command::new("ovsdb-tool").args(["create", &path("conf.db"), schema]))?;
        let start = |program: &str, words: &[&str]| {
            let mut command = self.within_switch(which, program);
            command.args(words);
            command
                .env("OVS_RUNDIR", &folder)
                .env("OVS_DBDIR", &folder)
                .env("OVS_LOGDIR", &folder);
            TestProgram::start(&mut command)
        };
        let there = |name: &str| {
            let file = folder.join(name);
            wait_for(name, || {
                file.exists()
                    .then_some(())
                    .ok_or_else(|| "it is not there".to_owned())
            });
        };
        let socket = path("db.sock");
        let database = self.start_database(which);
        there("db.sock");
        run(Command::new("ovs-vsctl").args([&format!("--db=unix:{socket}"), "--no-wait", "init"]))?;
        let pid = format!("--pidfile={}", path("ovs-vswitchd.pid"));
        let switch = start("ovs-vswitchd", &[&format!("unix:{socket}"), &pid]);
        there("ovs-vswitchd.pid");
        self.daemons.extend([switch, database]);
        Ok(())
    }
}

impl Bed {
    /// Starts the database of a switch again, with the state that it had. It ends with the bed's namespaces.
    pub fn restart_database(&self, which: Which) {
        std::mem::forget(self.start_database(which));
        let socket = self.sockets(which).join("db.sock");
        wait_for("the database", || {
            if socket.exists() {
                Ok(())
            } else {
                Err("it is not there".to_owned())
            }
        });
    }

    fn start_database(&self, which: Which) -> TestProgram {
        let folder = self.sockets(which);
        let path = |name: &str| folder.join(name).display().to_string();
        let mut command = self.within_switch(which, "ovsdb-server");
        command.args([
            path("conf.db"),
            format!("--remote=punix:{}", path("db.sock")),
            format!("--pidfile={}", path("ovsdb-server.pid")),
        ]);
        for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR"] {
            command.env(variable, &folder);
        }
        TestProgram::start(&mut command)
    }

    /// Ends the database of a switch.
    pub fn stop_database(&self, which: Which) {
        let file = self.sockets(which).join("ovsdb-server.pid");
        let pid = std::fs::read_to_string(&file).expect("it runs");
        run(Command::new("kill").arg(pid.trim())).expect("it runs");
        wait_for("the end of the database", || {
            if file.exists() {
                Err("it runs".to_owned())
            } else {
                Ok(())
            }
        });
    }

    /// All tables of a switch's database without counters, as its own tool prints them.
    pub fn database(&self, which: Which) -> String {
        let socket = format!("unix:{}/db.sock", self.sockets(which).display());
        let dump = run(Command::new("ovsdb-client").args(["--format=json", "dump", &socket]));
        let mut rows = Vec::new();
        for table in dump.expect("it does").lines() {
            let table: serde_json::Value = serde_json::from_str(table).expect("JSON");
            let titles = table["headings"].as_array().expect("titles");
            for row in table["data"].as_array().expect("rows") {
                let cells = titles.iter().zip(row.as_array().expect("cells"));
                let is_counter = |title: &serde_json::Value| {
                    let counters = [
                        "statistics",
                        "next_cfg",
                        "cur_cfg",
                        "status",
                        "is_connected",
                    ];
                    counters.iter().any(|counter| title == counter)
                };
                let cells = cells.filter(|(title, _)| !is_counter(title));
                let cells: Vec<String> = cells
                    .map(|(title, cell)| format!("{title}={cell}"))
                    .collect();
                rows.push(format!("{}: {}\n", table["caption"], cells.join(" ")));
            }
        }
        rows.sort();
        rows.concat()
    }
}

/// Both switches of the bed with this folder, usable by any process.
pub fn fabric(folder: &Path, server: u16, lease: u16) -> SwitchFabric {
    let cable = format!("v{CABLE}");
    let host = |which: Which, port: u32| {
        (
            [10, 9, 0, port as u8].into(),
            PortPlace::new(which.name(), &format!("v{port}")),
        )
    };
    let hosts = HOSTS.into_iter().map(|port| host(Which::Near, port));
    let map = NetworkMap {
        cables: vec![(
            PortPlace::new("near", &cable),
            PortPlace::new("far", &cable),
        )],
        hosts: hosts.chain([host(Which::Far, FAR_HOST)]).collect(),
    };
    fabric_of(folder, server, lease, map)
}

/// Like [`fabric`], with this map of the network.
pub fn fabric_of(folder: &Path, server: u16, lease: u16, map: NetworkMap) -> SwitchFabric {
    let site = |which: Which, last: u8| SwitchSite {
        name: which.name().to_owned(),
        backend: Box::new(OpenVSwitch::new(&folder.join(which.name()), BRIDGE)),
        tunnel_address: Some([10, 8, 0, last].into()),
    };
    SwitchFabric::new(
        server,
        lease,
        vec![site(Which::Near, 1), site(Which::Far, 2)],
        map,
    )
}

/// A running tcpdump and its file.
pub struct Capture {
    tcpdump: TestProgram,
    file: PathBuf,
}

impl Capture {
    fn start(mut command: Command, file: PathBuf) -> Capture {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tcpdump");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert_ne!(
                said.read_line(&mut line).expect("it speaks"),
                0,
                "tcpdump has ended"
            );
        }
        Capture {
            tcpdump: TestProgram(child),
            file,
        }
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Frames captured so far.
    pub fn frames(&self) -> Vec<Vec<u8>> {
        frames(&self.file)
    }

    /// Waits for `count` frames.
    pub fn wait(&self, count: usize) -> Vec<Vec<u8>> {
        wait_for(&format!("{count} frames"), || {
            let frames = self.frames();
            if frames.len() >= count {
                Ok(frames)
            } else {
                Err(format!("{} frames", frames.len()))
            }
        })
    }

    pub fn end(mut self) {
        self.tcpdump.kill();
    }
}

/// Frames of a file that may still grow.
fn frames(file: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(file).unwrap_or_default();
    let mut rest = bytes.get(24..).unwrap_or_default();
    let mut frames = Vec::new();
    while let Some(head) = rest.get(..16) {
        let len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let Some(frame) = rest.get(16..16 + len) else {
            break;
        };
        frames.push(frame.to_vec());
        rest = &rest[16 + len..];
    }
    frames
}
