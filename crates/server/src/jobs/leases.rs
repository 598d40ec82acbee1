//! Leases of jobs: a job with a lease ends unless its client renews the lease. Leases are not stored: after a restart
//! of the server, all are restarted.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::job::JobId;

/// Duration and end of a lease.
struct JobLease {
    lasts: Duration,
    until: Instant,
}

/// See the module documentation.
#[derive(Default)]
pub struct JobLeases {
    of: Mutex<BTreeMap<JobId, JobLease>>,
}

impl JobLeases {
    /// Starts the lease of a job, if it has one.
    pub fn begin(&self, job: JobId, seconds: Option<u32>) {
        let Some(seconds) = seconds else { return };
        let lasts = Duration::from_secs(seconds.into());
        self.with(|of| {
            of.insert(
                job,
                JobLease {
                    lasts,
                    until: Instant::now() + lasts,
                },
            )
        });
    }

    /// Renews a job's lease.
    pub fn renew(&self, job: JobId) {
        self.with(|of| {
            if let Some(lease) = of.get_mut(&job) {
                lease.until = Instant::now() + lease.lasts;
            }
        });
    }

    /// Jobs whose leases have expired.
    pub fn over(&self) -> Vec<JobId> {
        let now = Instant::now();
        self.with(|of| {
            of.iter()
                .filter(|(_, lease)| lease.until <= now)
                .map(|(job, _)| *job)
                .collect()
        })
    }

    /// Removes the lease of an ended job.
    pub fn forget(&self, job: JobId) {
        self.with(|of| of.remove(&job));
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<JobId, JobLease>) -> T) -> T {
        act(&mut self.of.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_expire_unless_renewed() {
        let leases = JobLeases::default();
        for (job, seconds) in [(1, Some(0)), (2, Some(3600)), (3, None)] {
            leases.begin(JobId(job), seconds);
        }
        leases.renew(JobId(2));
        leases.renew(JobId(3));
        assert_eq!(leases.over(), [JobId(1)]);
        leases.forget(JobId(1));
        assert_eq!(leases.over(), []);
    }

    /// Of a lease that was started again, the last length counts.
    #[test]
    fn a_lease_has_its_last_length() {
        let leases = JobLeases::default();
        leases.begin(JobId(1), Some(0));
        leases.begin(JobId(2), Some(u32::MAX));
        leases.begin(JobId(1), Some(u32::MAX));
        leases.begin(JobId(2), Some(0));
        leases.renew(JobId(1));
        leases.renew(JobId(2));
        assert_eq!(leases.over(), [JobId(2)]);
        // A job without a lease keeps that of its earlier start.
        leases.begin(JobId(2), None);
        leases.forget(JobId(3));
        assert_eq!(leases.over(), [JobId(2)]);
    }
}
