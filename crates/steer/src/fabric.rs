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
use crate::carry::{Carrier, Lost};
use crate::install::NotStarted;
use crate::order::{Job, Map, Site};

/// Leases are renewed this often while they last, so that some of it may fail.
const RENEWALS_IN_A_LEASE: u32 = 3;

/// See the module's text.
pub struct Fabric {
    shared: Arc<Shared>,
    /// The thread that renews ends when the last of these is gone.
    end: Sender<()>,
}

/// What the fabric and its jobs have in common.
struct Shared {
    /// Held for as long as switches are told something.
    carrier: Mutex<Carrier>,
    /// What it said last: nobody who only asks waits for a switch.
    told: Mutex<Told>,
}

/// How it is behind the last change.
#[derive(Default)]
struct Told {
    ours: Vec<Ours>,
    lost: Lost,
}

impl Shared {
    /// Has the switches told something, and notes how it is then.
    fn change<T>(&self, act: impl FnOnce(&mut Carrier) -> T) -> T {
        let mut carrier = lock(&self.carrier);
        let done = act(&mut carrier);
        *lock(&self.told) = Told { ours: carrier.ours(), lost: carrier.lost().clone() };
        done
    }
}

impl Fabric {
    /// Of these switches. `server` (12 bits) tells its rules from those of others, and is to be one that no other process has; `lease` is
    /// how many seconds rules outlive the process, at least 2. No switch is asked yet.
    #[must_use]
    pub fn new(server: u16, lease: u16, sites: Vec<Site>, map: Map) -> Fabric {
        let lease = lease.max(2);
        let carrier = Mutex::new(Carrier::new(server & 0xfff, lease, sites, map));
        let shared = Arc::new(Shared { carrier, told: Mutex::default() });
        let (end, ended) = mpsc::channel();
        let every = Duration::from_secs(lease.into()) / RENEWALS_IN_A_LEASE;
        let weak = Arc::downgrade(&shared);
        thread::spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let Some(shared) = Weak::upgrade(&weak) else { break };
                shared.change(Carrier::renew);
            }
        });
        Fabric { shared, end }
    }

    /// Has the switches copy what a job wants, beside what other jobs want. A job with the number of one that runs takes its place.
    ///
    /// # Errors
    /// See [`NotStarted`]; then all is as it was.
    pub fn start(&self, job: Job) -> Result<Running, NotStarted> {
        let (id, generation) = (job.id, job.generation);
        let start = |carrier: &mut Carrier| {
            let proved = carrier.start(job)?;
            Ok((proved, carrier.interfaces(id), carrier.take_repaired()))
        };
        let (proved, interfaces, repaired) = self.shared.change(start)?;
        let (shared, end) = (Arc::clone(&self.shared), self.end.clone());
        Ok(Running { shared, _end: end, job: (id, generation), proved, interfaces, repaired })
    }

    /// What the switches have of ours, as they said behind the last change; when leases are renewed, it is looked whether that still holds.
    #[must_use]
    pub fn ours(&self) -> Vec<Ours> {
        lock(&self.shared.told).ours.clone()
    }
}

/// A job whose packets are copied, until this is stopped or dropped.
pub struct Running {
    shared: Arc<Shared>,
    _end: Sender<()>,
    job: (u32, u8),
    proved: Proved,
    interfaces: BTreeMap<String, String>,
    repaired: Vec<String>,
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

    /// What was removed from switches of processes that no longer run: a sentence each.
    #[must_use]
    pub fn repaired(&self) -> &[String] {
        &self.repaired
    }

    /// Why it is not there any more, if so: rules of others have changed so that it would do harm, or a switch is lost. Until that is heard
    /// packets may have been missing.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        lock(&self.shared.told).lost.get(&self.job).cloned()
    }

    /// Takes away all that is the job's. What has been dropped instead is taken away too, but nobody hears whether that went well.
    ///
    /// # Errors
    /// What a switch says that did not do it. Its rules go when their leases end, or, where other jobs go on, when all switches answer.
    pub fn stop(self) -> Result<(), NotStarted> {
        self.shared.change(|carrier| carrier.stop(self.job))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nobody is there to hear of it; leases end.
        let _ = self.shared.change(|carrier| carrier.stop(self.job));
    }
}

/// What a thread left that panicked is asked of the switches anew.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
