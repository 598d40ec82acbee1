//! Identity of this machine and process, and the state of others. In containers, processes of the same host have PIDs
//! in different namespaces: a process that is not visible is never considered dead.

use std::fs;
use std::io;

use xxhash_rust::xxh3::xxh3_64;

use crate::job_name::JobOwner;

/// Initial PID namespace of a machine, outside of containers (the kernel's `PROC_PID_INIT_INO`).
const OUTERMOST: u64 = 0xeffffffc;

/// Identity of this machine, as in job names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalMachine {
    own: JobOwner,
}

/// State of a job's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerFate {
    /// Running on this machine.
    Lives,
    /// Ended, by itself or with the machine.
    Ended,
    /// Not visible from this process.
    Unseen,
}

impl LocalMachine {
    /// The current machine and process.
    ///
    /// # Errors
    /// `io::Error` if `/proc` cannot be read.
    pub fn this() -> io::Result<LocalMachine> {
        let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned());
        // The machine id is confidential; a part of its hash is sufficient.
        let folded = |text: &str| xxh3_64(text.as_bytes()) as u32;
        let space = fs::read_link("/proc/self/ns/pid")?
            .to_string_lossy()
            .into_owned();
        let pid = std::process::id();
        let start =
            start_of(pid).ok_or_else(|| io::Error::other("/proc has no data on this process"))?;
        let own = JobOwner {
            host: read("/proc/sys/kernel/hostname").unwrap_or_default(),
            machine: read("/etc/machine-id")
                .map(|id| if id.is_empty() { 0 } else { folded(&id) })
                .unwrap_or(0),
            boot: folded(&read("/proc/sys/kernel/random/boot_id")?),
            space: space
                .chars()
                .filter(char::is_ascii_digit)
                .collect::<String>()
                .parse()
                .unwrap_or(0),
            pid,
            start,
        };
        Ok(LocalMachine { own })
    }

    /// This process as an owner of jobs.
    #[must_use]
    pub fn owner(&self) -> &JobOwner {
        &self.own
    }

    /// Another process of this machine as an owner of jobs; `None`: no such process.
    #[must_use]
    pub fn process(&self, pid: u32) -> Option<JobOwner> {
        Some(JobOwner {
            pid,
            start: start_of(pid)?,
            ..self.own.clone()
        })
    }

    /// State of an owner.
    #[must_use]
    pub fn fate(&self, owner: &JobOwner) -> OwnerFate {
        let own = &self.own;
        if owner.boot == own.boot && owner.space == own.space {
            return if start_of(owner.pid) == Some(owner.start) {
                OwnerFate::Lives
            } else {
                OwnerFate::Ended
            };
        }
        // Hosts may share a name, and containers the machine id of their image; a machine has its own, and processes
        // from before its last boot have ended.
        let is_a_machine = own.machine != 0 && own.space == OUTERMOST;
        if is_a_machine
            && (own.machine, own.space, &own.host) == (owner.machine, owner.space, &owner.host)
        {
            OwnerFate::Ended
        } else {
            OwnerFate::Unseen
        }
    }
}

/// Start of a process, in kernel ticks since boot (`proc_pid_stat(5)`). A zombie has ended.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name may contain parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then_some(())?;
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_name::JobName;

    #[test]
    fn processes_that_cannot_be_seen_count_as_alive() {
        let this = LocalMachine::this().expect("proc");
        let own = this.owner().clone();
        let other = JobOwner {
            boot: !own.boot,
            ..own.clone()
        };
        let as_machine = |owner: &JobOwner| JobOwner {
            machine: 7,
            space: OUTERMOST,
            ..owner.clone()
        };
        let bare = LocalMachine {
            own: as_machine(&own),
        };
        let before = as_machine(&other);
        let contained = LocalMachine {
            own: JobOwner {
                space: 1,
                ..bare.own.clone()
            },
        };
        let anonymous = LocalMachine {
            own: JobOwner {
                machine: 0,
                ..bare.own.clone()
            },
        };
        for (what, machine, owner, fate) in [
            ("this process", &this, own.clone(), OwnerFate::Lives),
            (
                "init",
                &this,
                this.process(1).expect("init"),
                OwnerFate::Lives,
            ),
            (
                "its number was given again",
                &this,
                JobOwner {
                    start: own.start + 1,
                    ..own.clone()
                },
                OwnerFate::Ended,
            ),
            (
                "no such process",
                &this,
                JobOwner {
                    pid: u32::MAX,
                    ..own.clone()
                },
                OwnerFate::Ended,
            ),
            (
                "a container of this machine",
                &this,
                JobOwner {
                    space: 1,
                    ..own.clone()
                },
                OwnerFate::Unseen,
            ),
            (
                "before the machine was restarted",
                &bare,
                before.clone(),
                OwnerFate::Ended,
            ),
            (
                "another machine of that name",
                &bare,
                JobOwner {
                    machine: 8,
                    ..before.clone()
                },
                OwnerFate::Unseen,
            ),
            (
                "another name",
                &bare,
                JobOwner {
                    host: "other".into(),
                    ..before.clone()
                },
                OwnerFate::Unseen,
            ),
            (
                "containers of an image",
                &contained,
                JobOwner {
                    space: 1,
                    ..before.clone()
                },
                OwnerFate::Unseen,
            ),
            (
                "no machine has a number",
                &anonymous,
                JobOwner {
                    machine: 0,
                    ..before
                },
                OwnerFate::Unseen,
            ),
        ] {
            assert_eq!(machine.fate(&owner), fate, "{what}");
        }
    }

    #[test]
    fn names_are_read_back() {
        let owner = LocalMachine::this().expect("proc").own;
        for job in ["7", "a/b", ""] {
            let name = JobName::new(&owner, job);
            assert_eq!(JobName::parse(&name.to_string()), Some(name));
        }
        let odd = JobName::new(
            &JobOwner {
                host: "a/b 'ü".into(),
                ..owner
            },
            "1",
        );
        assert_eq!(odd.owner.host, "a_b___");
        assert_eq!(JobName::parse(&odd.to_string()), Some(odd));
        for text in [
            "",
            "netalytics",
            "netalytics/h/1/2/3",
            "other/h/1-1-1/1-1/j",
            "netalytics/h/1-1-1/x-1/j",
        ] {
            assert_eq!(JobName::parse(text), None, "{text}");
        }
    }
}
