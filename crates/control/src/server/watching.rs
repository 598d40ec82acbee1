//! Which agents watch for a job, and what each is told of the addresses of the others. One that has been away until its leases ended, or
//! on which the job has ended or will never run, does not: from then on others tell of the flows that were its.

use std::collections::BTreeMap;

use super::reconcile::has_ended;
use super::{Peer, Server};
use crate::job::Job;
use crate::taps::{self, Owners, Taps};

impl Server {
    /// Makes the tables anew; where one has changed the job's agents are told.
    pub(super) fn look_who_watches(&mut self, now_ns: u64) {
        let active = self.jobs.values().filter(|job| job.state.is_active() && job.request.taps == Taps::One);
        let owners: BTreeMap<u64, Owners> = active
            .map(|job| (job.id, self.owners_of(job, now_ns)))
            .filter(|(_, all)| !all.is_empty())
            .collect();
        for job in self.jobs.values().filter(|job| job.state.is_active()) {
            if owners.get(&job.id) != self.owners.get(&job.id) {
                for agent in job.agents.keys() {
                    self.peers.get_mut(agent).into_iter().for_each(|peer| peer.is_outdated = true);
                }
            }
        }
        self.owners = owners;
    }

    fn owners_of(&self, job: &Job, now_ns: u64) -> Owners {
        let peers = job.agents.keys().filter_map(|agent| self.peers.get_key_value(agent));
        let watching = peers.filter(|(_, peer)| self.watches(peer, job.id, now_ns));
        taps::owners(
            watching.map(|(agent, peer)| (agent, taps::seen(&peer.capacity, &job.request.interfaces))),
        )
    }

    fn watches(&self, peer: &Peer, job: u64, now_ns: u64) -> bool {
        !self.is_written_off(peer, now_ns)
            && !peer.observed.get(&job).is_some_and(|job| has_ended(job.state()))
    }

    /// What an agent is told; `None`: it has not to ask whose a flow is.
    pub(super) fn table(&self, job: u64, agent: &str) -> Option<link::TapTable> {
        let table = taps::table(self.owners.get(&job)?, agent);
        (!table.others.is_empty()).then_some(table)
    }
}
