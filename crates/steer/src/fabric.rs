//! Rules over the switches of a network, for jobs that come and go. A job's rules, mirrors, tunnels and interfaces are there as long as its
//! [`Running`] lives; who renews their leases is a thread of the [`Fabric`], so that they go, too, when the process is killed.
//!
//! A job is on all of its switches or on none: what is already there is taken back when a later switch refuses. Before a switch is told
//! anything, all is proved over the whole way; afterwards it is proved again on what the switches say, and some packets are followed by them.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use mirror::Proved;

use crate::backend::Ours;
use crate::carry::Carrier;
use crate::install::NotStarted;
use crate::order::{Job, Map, Site};

/// Leases are renewed this often while they last, so that some of it may fail.
const RENEWALS_IN_A_LEASE: u32 = 3;

/// See the module's text.
pub struct Fabric {
    carrier: Arc<Mutex<Carrier>>,
    /// The thread that renews ends when the last of these is gone.
    end: Sender<()>,
}

impl Fabric {
    /// Of these switches. `server` (12 bits) tells its rules from those of others, and is to be one that no other process has; `lease` is
    /// how many seconds rules outlive the process, at least 2. No switch is asked yet.
    #[must_use]
    pub fn new(server: u16, lease: u16, sites: Vec<Site>, map: Map) -> Fabric {
        let lease = lease.max(2);
        let carrier = Arc::new(Mutex::new(Carrier::new(server & 0xfff, lease, sites, map)));
        let (end, ended) = mpsc::channel();
        let every = Duration::from_secs(lease.into()) / RENEWALS_IN_A_LEASE;
        let weak = Arc::downgrade(&carrier);
        thread::spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let Some(carrier) = Weak::upgrade(&weak) else { break };
                lock(&carrier).renew();
            }
        });
        Fabric { carrier, end }
    }

    /// Has the switches copy what a job wants, beside what other jobs want. A job with the number of one that runs takes its place.
    ///
    /// # Errors
    /// See [`NotStarted`]; then all is as it was.
    pub fn start(&self, job: Job) -> Result<Running, NotStarted> {
        let (id, generation) = (job.id, job.generation);
        let mut carrier = lock(&self.carrier);
        let proved = carrier.start(job)?;
        let interfaces = carrier.interfaces(id);
        drop(carrier);
        let (carrier, end) = (Arc::clone(&self.carrier), self.end.clone());
        Ok(Running { carrier, _end: end, job: (id, generation), proved, interfaces })
    }

    /// What the switches have of ours, as they said behind the last change; when leases are renewed, it is looked whether that still holds.
    #[must_use]
    pub fn ours(&self) -> Vec<Ours> {
        lock(&self.carrier).ours()
    }
}

/// A job whose packets are copied, until this is stopped or dropped.
pub struct Running {
    carrier: Arc<Mutex<Carrier>>,
    _end: Sender<()>,
    job: (u32, u8),
    proved: Proved,
    interfaces: BTreeMap<String, String>,
}

impl Running {
    /// What was proved of what the switches say that they have.
    #[must_use]
    pub fn proved(&self) -> &Proved {
        &self.proved
    }

    /// The interfaces that were made for monitors on the switches' own host, by the monitors' names.
    #[must_use]
    pub fn interfaces(&self) -> &BTreeMap<String, String> {
        &self.interfaces
    }

    /// Why it is not there any more, if so: rules of others have changed so that it would do harm, or a switch is lost. Until that is heard
    /// packets may have been missing.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        lock(&self.carrier).lost(self.job)
    }

    /// Takes away all that is the job's. What has been dropped instead is taken away too, but nobody hears whether that went well.
    ///
    /// # Errors
    /// What a switch says that did not do it; its rules go when their leases end.
    pub fn stop(self) -> Result<(), NotStarted> {
        lock(&self.carrier).stop(self.job)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nobody is there to hear of it; leases end.
        let _ = lock(&self.carrier).stop(self.job);
    }
}

/// What a thread left that panicked is asked of the switches anew.
fn lock(carrier: &Arc<Mutex<Carrier>>) -> MutexGuard<'_, Carrier> {
    carrier.lock().unwrap_or_else(PoisonError::into_inner)
}
