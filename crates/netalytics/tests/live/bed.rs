//! A bed for tests with many hosts: a network namespace per host, all at one bridge with the captured traffic (`eth0`),
//! and at another with the program's own connections (`eth1`).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testkit::namespaces::TestNamespaces;

use crate::net::{ip, within};
use crate::turn::TestTurn;

/// See the module documentation.
pub struct Bed {
    spaces: TestNamespaces,
    hosts: Vec<String>,
    _turn: TestTurn,
}

impl Bed {
    /// A bed with these hosts. `None` if this machine does not support them and `ALLOW_MISSING` names `namespaces`.
    pub fn new(hosts: &[&str]) -> Option<Bed> {
        let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
        let bed = Bed {
            spaces: TestNamespaces::new("nb"),
            hosts,
            _turn: TestTurn::wait(),
        };
        testkit::require!("namespaces" => bed.build());
        Some(bed)
    }

    fn build(&self) -> Result<(), String> {
        let switch = self.ns("switch");
        self.spaces.add("switch")?;
        for bridge in ["eth0", "eth1"] {
            ip(&format!("-n {switch} link add {bridge} up type bridge"))?;
        }
        for host in &self.hosts {
            let ns = self.ns(host);
            self.spaces.add(host)?;
            for (eth, address) in [
                ("eth0", self.address(host)),
                ("eth1", self.inner_address(host)),
            ] {
                let port = format!("{host}-{eth}");
                ip(&format!(
                    "-n {switch} link add {port} type veth peer name {eth} netns {ns}"
                ))?;
                ip(&format!("-n {switch} link set {port} master {eth} up"))?;
                // No host sees packets of others, even before the bridge has learned their location.
                ip(&format!(
                    "-n {switch} link set {port} type bridge_slave flood off"
                ))?;
                ip(&format!("-n {ns} addr add {address}/24 dev {eth}"))?;
                ip(&format!("-n {ns} link set {eth} up"))?;
            }
        }
        Ok(())
    }

    /// Namespace of a host.
    pub fn ns(&self, host: &str) -> String {
        self.spaces.name(host)
    }

    fn number(&self, host: &str) -> usize {
        let found = self.hosts.iter().position(|known| known == host);
        found.unwrap_or_else(|| panic!("there is no host {host}")) + 1
    }

    /// Address of a host on the captured bridge.
    pub fn address(&self, host: &str) -> String {
        format!("10.77.0.{}", self.number(host))
    }

    /// Address of a host on the other bridge.
    pub fn inner_address(&self, host: &str) -> String {
        format!("10.78.0.{}", self.number(host))
    }

    /// A file or folder of the bed.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Folder of the bed.
    pub fn folder(&self) -> &Path {
        self.spaces.folder()
    }

    /// A folder on its own file system of this size in bytes.
    pub fn small_disk(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir(&path).expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(&path)
            .status();
        assert!(mounted.expect("mount runs").success(), "a disk in memory");
        path
    }

    /// Disconnects a host's own processes from those of other hosts, or reconnects them; captured traffic is not
    /// affected.
    pub fn partition(&self, host: &str, state: Partition) {
        let state = if state == Partition::Cut {
            "down"
        } else {
            "up"
        };
        ip(&format!("-n {} link set eth1 {state}", self.ns(host))).expect("a link");
    }
}

/// Whether a host is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    Cut,
    Healed,
}

/// A program on a host, killed on drop; its output goes to a log.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program; appends its output to its log.
    pub fn start(
        bed: &Bed,
        host: &str,
        name: &str,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Process {
        let log = bed.path(&format!("{name}.log"));
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .expect("a log");
        let mut command = within(&bed.ns(host), args[0]);
        command.args(&args[1..]).envs(env.iter().copied());
        command
            .stdin(Stdio::null())
            .stdout(out.try_clone().expect("a second handle"))
            .stderr(out);
        Process {
            child: command.spawn().expect("it starts"),
            log,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        // If the child has ended, this only reaps it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Messages of the process so far, including those of earlier processes with that name.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Exit code, if the process has ended.
    pub fn code(&mut self) -> Option<i32> {
        self.child
            .try_wait()
            .expect("it can be waited for")
            .map(|status| status.code().unwrap_or(-1))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
