//! Tap tables: the agents that capture for a job, and the addresses sent to each. An agent is excluded after an absence
//! longer than its leases, and when the job has ended or cannot run on it; then other agents report its flows.

use std::collections::BTreeMap;

use super::reconcile::has_ended;
use super::{AgentPeer, ServerControl};
use crate::job::ControlledJob;
use crate::taps::{self, Owners, TapAssignment};

impl ServerControl {
    /// Recomputes the tables and schedules changed ones to be sent.
    pub(super) fn update_tap_tables(&mut self, now_ns: u64) {
        let active = self
            .jobs
            .values()
            .filter(|job| job.state.is_active() && job.request.taps == TapAssignment::One);
        let owners: BTreeMap<u64, Owners> = active
            .map(|job| (job.id, self.owners_of(job, now_ns)))
            .filter(|(_, all)| !all.is_empty())
            .collect();
        for job in self.jobs.values().filter(|job| job.state.is_active()) {
            if owners.get(&job.id) != self.owners.get(&job.id) {
                for agent in job.agents.keys() {
                    self.peers
                        .get_mut(agent)
                        .into_iter()
                        .for_each(|peer| peer.is_outdated = true);
                }
            }
        }
        self.owners = owners;
    }

    fn owners_of(&self, job: &ControlledJob, now_ns: u64) -> Owners {
        let peers = job
            .agents
            .keys()
            .filter_map(|agent| self.peers.get_key_value(agent));
        let watching = peers.filter(|(_, peer)| self.watches(peer, job.id, now_ns));
        taps::owners(
            watching
                .map(|(agent, peer)| (agent, taps::seen(&peer.capacity, &job.request.interfaces))),
        )
    }

    fn watches(&self, peer: &AgentPeer, job: u64, now_ns: u64) -> bool {
        !self.is_written_off(peer, now_ns)
            && !peer
                .observed
                .get(&job)
                .is_some_and(|job| has_ended(job.state()))
    }

    /// The table for an agent; `None`: it reports every flow.
    pub(super) fn table(&self, job: u64, agent: &str) -> Option<link::TapTableMessage> {
        let table = taps::table(self.owners.get(&job)?, agent);
        (!table.others.is_empty()).then_some(table)
    }
}
