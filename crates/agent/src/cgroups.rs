//! Memory and CPU limits of a monitor's process. If the agent may create control groups (cgroup v2), each monitor has
//! its own, limited by the kernel. In any case the agent also checks the monitor's memory and kills one above its
//! limit, so that no monitor exhausts the host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Limits of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessBounds {
    /// Memory in bytes.
    pub memory_max: u64,
    /// Number of cores.
    pub cores: u32,
}

/// The kernel's period of CPU bandwidth, in microseconds.
const PERIOD_US: u64 = 100_000;

/// A cgroup in which the agent may create children.
#[derive(Clone, Debug)]
pub struct CgroupRoot {
    root: PathBuf,
}

/// A monitor's cgroup; removed on drop.
#[derive(Debug)]
pub struct MonitorCgroup {
    folder: PathBuf,
}

impl CgroupRoot {
    /// Children of the agent's own cgroup, if it may create them and the kernel limits memory and CPU there. With
    /// systemd this requires `Delegate=yes` in the agent's unit.
    ///
    /// # Errors
    /// `io::Error` if a file of the cgroup cannot be read or written.
    pub fn of_this_process() -> io::Result<CgroupRoot> {
        let text = fs::read_to_string("/proc/self/cgroup")?;
        let own = text.lines().find_map(|line| line.strip_prefix("0::/"));
        let own =
            own.ok_or_else(|| io::Error::other("no control groups of version 2 are mounted"))?;
        CgroupRoot::below(&Path::new("/sys/fs/cgroup").join(own))
    }

    /// Children of a cgroup. The agent moves into a child, since only a cgroup without processes may limit its
    /// children; the kernel rejects this if other processes are in the cgroup.
    ///
    /// # Errors
    /// `io::Error` if a file of the cgroup cannot be read or written.
    pub fn below(own: &Path) -> io::Result<CgroupRoot> {
        let offered = fs::read_to_string(own.join("cgroup.controllers"))?;
        for controller in ["memory", "cpu"] {
            if !offered.split_whitespace().any(|name| name == controller) {
                return Err(io::Error::other(format!(
                    "the controller {controller} is not available to this group"
                )));
            }
        }
        let agent = own.join("agent");
        make(&agent)?;
        let us = std::process::id().to_string();
        if fs::read_to_string(own.join("cgroup.procs"))?
            .lines()
            .any(|pid| pid == us)
        {
            fs::write(agent.join("cgroup.procs"), us)?;
        }
        fs::write(own.join("cgroup.subtree_control"), "+memory +cpu")?;
        Ok(CgroupRoot {
            root: own.to_owned(),
        })
    }

    /// Creates a cgroup for a monitor with these limits. The process enters with [`MonitorCgroup::enter`].
    ///
    /// # Errors
    /// `io::Error` of the kernel.
    pub fn make(&self, name: &str, bounds: ProcessBounds) -> io::Result<MonitorCgroup> {
        let folder = self.root.join(format!("monitor-{name}"));
        make(&folder)?;
        let group = MonitorCgroup { folder };
        group.write("memory.max", &bounds.memory_max.to_string())?;
        group.write("memory.oom.group", "1")?;
        group.write(
            "cpu.max",
            &format!("{} {PERIOD_US}", u64::from(bounds.cores.max(1)) * PERIOD_US),
        )?;
        Ok(group)
    }
}

impl MonitorCgroup {
    /// Moves a process into the cgroup.
    ///
    /// # Errors
    /// `io::Error` of the kernel.
    pub fn enter(&self, pid: u32) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Number of the group's processes that the kernel killed for lack of memory.
    #[must_use]
    pub fn killed_for_memory(&self) -> u64 {
        let events = fs::read_to_string(self.folder.join("memory.events")).unwrap_or_default();
        let count = events
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "));
        count
            .and_then(|count| count.trim().parse().ok())
            .unwrap_or(0)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, text)
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
    }
}

impl Drop for MonitorCgroup {
    fn drop(&mut self) {
        // A cgroup with a process stays, and is reused when the same job starts again.
        let _ = fs::remove_dir(&self.folder);
    }
}

fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Anonymous memory of a process, in bytes; file mappings can be reclaimed and do not count. `None`: no such process.
#[must_use]
pub fn memory_of(pid: u32) -> Option<u64> {
    of_status(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn of_status(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of a folder in place of the kernel's.
    #[test]
    fn groups_limit_their_processes() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path();
        let write = |name: &str, text: &str| fs::write(own.join(name), text).expect("written");
        write("cgroup.controllers", "cpu io\n");
        let why = CgroupRoot::below(own)
            .expect_err("memory is not offered")
            .to_string();
        assert_eq!(why, "the controller memory is not available to this group");
        write("cgroup.controllers", "cpu io memory pids\n");
        write("cgroup.procs", &format!("17\n{}\n", std::process::id()));
        let groups = CgroupRoot::below(own).expect("groups");
        let read = |name: &str| fs::read_to_string(own.join(name)).expect(name);
        assert_eq!(read("agent/cgroup.procs"), std::process::id().to_string());
        assert_eq!(read("cgroup.subtree_control"), "+memory +cpu");
        let group = groups
            .make(
                "7",
                ProcessBounds {
                    memory_max: 1 << 20,
                    cores: 2,
                },
            )
            .expect("a group");
        group.enter(99).expect("entered");
        for (file, text) in [
            ("memory.max", "1048576"),
            ("cpu.max", "200000 100000"),
            ("cgroup.procs", "99"),
        ] {
            assert_eq!(read(&format!("monitor-7/{file}")), text);
        }
        assert_eq!(group.killed_for_memory(), 0);
        write("monitor-7/memory.events", "low 0\noom 3\noom_kill 2\n");
        assert_eq!(group.killed_for_memory(), 2);
    }

    /// The kernel's cgroup, in a test group.
    #[test]
    fn the_kernel_agrees() {
        let own =
            Path::new("/sys/fs/cgroup").join(format!("netalytics-test-{}", std::process::id()));
        let made = fs::create_dir(&own).and_then(|()| CgroupRoot::below(&own));
        if made.is_err() {
            let _ = fs::remove_dir(&own);
        }
        let groups = testkit::require!("cgroup2" => made);
        let group = groups
            .make(
                "7",
                ProcessBounds {
                    memory_max: 64 << 20,
                    cores: 1,
                },
            )
            .expect("a group");
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        group.enter(child.id()).expect("entered");
        let within = fs::read_to_string(format!("/proc/{}/cgroup", child.id())).expect("it exists");
        assert!(within.contains("monitor-7"), "{within}");
        assert_eq!(
            fs::read_to_string(group.folder.join("memory.max"))
                .expect("read")
                .trim(),
            "67108864"
        );
        child.kill().and_then(|()| child.wait()).expect("ended");
        drop(group);
        ["agent", ""]
            .iter()
            .for_each(|name| fs::remove_dir(own.join(name)).expect("empty"));
    }

    #[test]
    fn memory_equals_that_of_the_kernel() {
        assert!(memory_of(std::process::id()).expect("we are") > 100_000);
        assert_eq!(memory_of(u32::MAX), None);
        assert_eq!(
            of_status("VmRSS:\t 9 kB\nRssAnon:\t       5 kB\n"),
            Some(5120)
        );
    }
}
