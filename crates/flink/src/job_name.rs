//! Names of jobs. A job on a cluster outlives its process; so its name contains its owner: the machine, and the process
//! on it.
//!
//! `netalytics/HOST/MACHINE-BOOT-SPACE/PID-START/JOB`

use std::fmt;

/// Prefix of all our job names.
const FIRST: &str = "netalytics";
/// Maximum length of a host name.
const HOST_MAX: usize = 64;

/// The process that owns a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobOwner {
    /// Host name, for people.
    pub host: String,
    /// Hash that identifies the machine across reboots; 0: none.
    pub machine: u32,
    /// Hash that identifies the boot.
    pub boot: u32,
    /// PID namespace: each container of a machine has its own.
    pub space: u64,
    /// Process id.
    pub pid: u32,
    /// Start time of the process in kernel ticks, since process ids are reused.
    pub start: u64,
}

/// See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobName {
    /// Owner.
    pub owner: JobOwner,
    /// Name given by the owner.
    pub job: String,
}

impl JobName {
    /// Creates a name; replaces characters not allowed in a host name.
    #[must_use]
    pub fn new(owner: &JobOwner, job: impl Into<String>) -> JobName {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        };
        let host = owner.host.chars().take(HOST_MAX).map(plain).collect();
        JobName {
            owner: JobOwner {
                host,
                ..owner.clone()
            },
            job: job.into(),
        }
    }

    /// Parses a name as shown by Flink; `None`: another program's job.
    #[must_use]
    pub fn parse(text: &str) -> Option<JobName> {
        let mut parts = text.splitn(5, '/');
        let mut part = || parts.next();
        (part()? == FIRST).then_some(())?;
        let host = part()?.to_owned();
        let mut place = part()?.splitn(3, '-');
        let machine = place.next()?;
        let boot = place.next()?;
        let space = place.next()?;
        let (pid, start) = part()?.split_once('-')?;
        let owner = JobOwner {
            host,
            machine: u32::from_str_radix(machine, 16).ok()?,
            boot: u32::from_str_radix(boot, 16).ok()?,
            space: space.parse().ok()?,
            pid: pid.parse().ok()?,
            start: start.parse().ok()?,
        };
        Some(JobName {
            owner,
            job: part()?.to_owned(),
        })
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JobOwner {
            host,
            machine,
            boot,
            space,
            pid,
            start,
        } = &self.owner;
        write!(
            f,
            "{FIRST}/{host}/{machine:08x}-{boot:08x}-{space}/{pid}-{start}/{}",
            self.job
        )
    }
}
