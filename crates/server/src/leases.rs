//! Leases of jobs: who asks for a job and wants it to end when he is gone gives it a lease, and renews that while he is there.
//! They are not kept: when the server was started again, all of them begin anew.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::job::JobId;

/// How long a lease lasts, and until when.
struct Lease {
    lasts: Duration,
    until: Instant,
}

/// See the module's text.
#[derive(Default)]
pub struct Leases {
    of: Mutex<BTreeMap<JobId, Lease>>,
}

impl Leases {
    /// A job with a lease begins; one without lasts as long as it likes.
    pub fn begin(&self, job: JobId, seconds: Option<u32>) {
        let Some(seconds) = seconds else { return };
        let lasts = Duration::from_secs(seconds.into());
        self.with(|of| of.insert(job, Lease { lasts, until: Instant::now() + lasts }));
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
        self.with(|of| of.iter().filter(|(_, lease)| lease.until <= now).map(|(job, _)| *job).collect())
    }

    /// The job has ended.
    pub fn forget(&self, job: JobId) {
        self.with(|of| of.remove(&job));
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<JobId, Lease>) -> T) -> T {
        act(&mut self.of.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lasts_until_nobody_renews_it() {
        let leases = Leases::default();
        for (job, seconds) in [(1, Some(0)), (2, Some(3600)), (3, None)] {
            leases.begin(JobId(job), seconds);
        }
        leases.renew(JobId(2));
        leases.renew(JobId(3));
        assert_eq!(leases.over(), [JobId(1)]);
        leases.forget(JobId(1));
        assert_eq!(leases.over(), []);
    }
}
