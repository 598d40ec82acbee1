//! Names of jobs. A job on a cluster outlives who started it; so its name says who that was: the machine, and the process on it.
//!
//! `netalytics/HOST/MACHINE-BOOT-SPACE/PID-START/JOB`

use std::fmt;

/// What all names of jobs of ours begin with.
const FIRST: &str = "netalytics";
/// Longest name of a host.
const HOST_MAX: usize = 64;

/// The process that a job belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The machine's name, for people.
    pub host: String,
    /// A number that the machine keeps when it starts anew; 0 where it has none.
    pub machine: u32,
    /// A number of its own each time it starts.
    pub boot: u32,
    /// The space in which the process has its number: containers of a machine have one each.
    pub space: u64,
    /// The process's number.
    pub pid: u32,
    /// When it began, as the kernel counts: numbers of processes are given again.
    pub start: u64,
}

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobName {
    /// Whose it is.
    pub owner: Owner,
    /// What the owner calls it.
    pub job: String,
}

impl JobName {
    /// A name; what no name of a host should have is replaced.
    #[must_use]
    pub fn new(owner: &Owner, job: impl Into<String>) -> JobName {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let host = owner.host.chars().take(HOST_MAX).map(plain).collect();
        JobName { owner: Owner { host, ..owner.clone() }, job: job.into() }
    }

    /// Parses a name as shown by Flink; `None`: another program's job.
    #[must_use]
    pub fn parse(text: &str) -> Option<JobName> {
        let mut parts = text.splitn(5, '/');
        let mut part = || parts.next();
        (part()? == FIRST).then_some(())?;
        let host = part()?.to_owned();
        let mut place = part()?.splitn(3, '-');
        let (machine, boot, space) = (place.next()?, place.next()?, place.next()?);
        let (pid, start) = part()?.split_once('-')?;
        let owner = Owner {
            host,
            machine: u32::from_str_radix(machine, 16).ok()?,
            boot: u32::from_str_radix(boot, 16).ok()?,
            space: space.parse().ok()?,
            pid: pid.parse().ok()?,
            start: start.parse().ok()?,
        };
        Some(JobName { owner, job: part()?.to_owned() })
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Owner { host, machine, boot, space, pid, start } = &self.owner;
        write!(f, "{FIRST}/{host}/{machine:08x}-{boot:08x}-{space}/{pid}-{start}/{}", self.job)
    }
}
