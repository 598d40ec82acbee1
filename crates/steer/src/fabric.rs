//! Rules on the switches of a network, for jobs that start and stop. A job's rules, mirrors, tunnels, and interfaces
//! exist as long as its [`RunningCopies`] handle; a thread of the [`SwitchFabric`] renews their leases, so they are also removed
//! when the process is killed.
//!
//! A job is on all of its switches or on none: if a later switch rejects it, changes of earlier ones are undone. Before
//! any switch is changed, everything is proved over the whole path; afterward it is proved again with the switches'
//! actual rules, and some packets are traced through them.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use mirror::ProofResult;

use crate::backend::OwnedRules;
use crate::copy_job::{CopyJob, NetworkMap, SwitchSite};
use crate::install::JobStartError;
use crate::reconcile::{Lost, RuleReconciler};

/// Renewals per lease, so that some may fail.
const RENEWALS_IN_A_LEASE: u32 = 3;

/// See the module documentation.
pub struct SwitchFabric {
    shared: Arc<FabricShared>,
    /// The thread that renews ends when the last sender is dropped.
    end: Sender<()>,
}

/// State shared by the fabric and its jobs.
struct FabricShared {
    /// Locked while switches are changed.
    carrier: Mutex<RuleReconciler>,
    /// Last report of the thread, so that readers do not wait for a switch.
    told: Mutex<FabricStatus>,
}

/// State after the last change.
#[derive(Default)]
struct FabricStatus {
    ours: Vec<OwnedRules>,
    lost: Lost,
}

impl FabricShared {
    /// Runs a change, and publishes the state after it.
    fn change<T>(&self, act: impl FnOnce(&mut RuleReconciler) -> T) -> T {
        let mut carrier = lock(&self.carrier);
        let done = act(&mut carrier);
        *lock(&self.told) = FabricStatus {
            ours: carrier.ours(),
            lost: carrier.lost().clone(),
        };
        done
    }
}

impl SwitchFabric {
    /// A fabric on these switches. `server` (12 bits) is the owner number of its rules and must be unique among
    /// processes; `lease`: seconds for which rules outlive the process, at least 2. No switch is contacted yet.
    #[must_use]
    pub fn new(server: u16, lease: u16, sites: Vec<SwitchSite>, map: NetworkMap) -> SwitchFabric {
        let lease = lease.max(2);
        let carrier = Mutex::new(RuleReconciler::new(server & 0xfff, lease, sites, map));
        let shared = Arc::new(FabricShared {
            carrier,
            told: Mutex::default(),
        });
        let (end, ended) = mpsc::channel();
        let every = Duration::from_secs(lease.into()) / RENEWALS_IN_A_LEASE;
        let weak = Arc::downgrade(&shared);
        thread::spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let Some(shared) = Weak::upgrade(&weak) else {
                    break;
                };
                shared.change(RuleReconciler::renew);
            }
        });
        SwitchFabric { shared, end }
    }

    /// Adds a job's copies to those of other jobs. A job with the number of a running one replaces it.
    ///
    /// # Errors
    /// See [`JobStartError`]; the state is unchanged then.
    pub fn start(&self, job: CopyJob) -> Result<RunningCopies, JobStartError> {
        let id = job.id;
        let generation = job.generation;
        let start = |carrier: &mut RuleReconciler| {
            let proved = carrier.start(job)?;
            Ok((proved, carrier.interfaces(id), carrier.take_repaired()))
        };
        let (proved, interfaces, repaired) = self.shared.change(start)?;
        let shared = Arc::clone(&self.shared);
        let end = self.end.clone();
        Ok(RunningCopies {
            shared,
            _end: end,
            job: (id, generation),
            proved,
            interfaces,
            repaired,
        })
    }

    /// Our objects on the switches, as read after the last change; verified whenever leases are renewed.
    #[must_use]
    pub fn ours(&self) -> Vec<OwnedRules> {
        lock(&self.shared.told).ours.clone()
    }
}

/// A running job; removed when stopped or dropped.
pub struct RunningCopies {
    shared: Arc<FabricShared>,
    _end: Sender<()>,
    job: (u32, u8),
    proved: ProofResult,
    interfaces: BTreeMap<String, String>,
    repaired: Vec<String>,
}

impl RunningCopies {
    /// Result of the proof over the rules reported by the switches.
    #[must_use]
    pub fn proved(&self) -> &ProofResult {
        &self.proved
    }

    /// Interfaces created for monitors on the switches' own hosts, by monitor.
    #[must_use]
    pub fn interfaces(&self) -> &BTreeMap<String, String> {
        &self.interfaces
    }

    /// Removed objects of processes that no longer run, one sentence each.
    #[must_use]
    pub fn repaired(&self) -> &[String] {
        &self.repaired
    }

    /// Reason why the job was removed, if it was: rules of others have changed so that it would be harmful, or a switch
    /// is lost. Packets may have been missing before this is reported.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        lock(&self.shared.told).lost.get(&self.job).cloned()
    }

    /// Removes everything of the job. Dropping the handle does the same without reporting errors.
    ///
    /// # Errors
    /// The error of a switch that failed. Its rules expire with their leases, or, if other jobs continue, are removed
    /// when all switches answer.
    pub fn stop(self) -> Result<(), JobStartError> {
        self.shared.change(|carrier| carrier.stop(self.job))
    }
}

impl Drop for RunningCopies {
    fn drop(&mut self) {
        // Errors cannot be reported here; leases expire.
        let _ = self.shared.change(|carrier| carrier.stop(self.job));
    }
}

/// State is read again from the switches after a panic.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
