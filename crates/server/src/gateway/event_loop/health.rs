//! State of the gateway, its agents and its jobs, for metrics.

use std::collections::BTreeMap;

use control::Degradation;

use super::{EventLoop, StoreCapacity};
use crate::gateway::fleet::{AgentHealth, FleetHealth, JobHealth};
use crate::gateway::job_runtime::JobRuntime;

impl EventLoop {
    /// State of the gateway.
    pub fn health(&self) -> FleetHealth {
        let agents = self.told_agents().into_iter().map(|agent| AgentHealth {
            counts: self.agents.health(&agent.name),
            name: agent.name,
            connected: agent.connected,
            clock_offset_ns: agent.clock_offset_ns,
        });
        FleetHealth {
            sessions: self.sessions.ids().len(),
            waiting_bytes: self.pending.bytes(),
            is_full: self.room == StoreCapacity::Full,
            agents: agents.collect(),
            jobs: self
                .works
                .values()
                .map(|work| self.job_health(work))
                .collect(),
        }
    }

    fn job_health(&self, work: &JobRuntime) -> JobHealth {
        let account = work.account();
        let degraded = self
            .driver
            .job(work.id)
            .map(|job| self.driver.control().degraded(job));
        let is_absent = |degraded: &&Degradation| matches!(degraded, Degradation::Absent { .. });
        JobHealth {
            id: work.id,
            agents_missing: degraded.iter().flatten().filter(is_absent).count(),
            late_tuples: work.progress.late,
            lost_records: work
                .lanes
                .known
                .values()
                .map(|known| known.facts.records_lost)
                .sum(),
            watermark_ns: account.watermark_ns,
            packets: account.received,
            lost_packets: account.lost_before_us,
            frames_bytes: work.frames_bytes,
        }
    }

    /// Handles the counters reported by an agent.
    pub fn hear_health(&mut self, session: u64, counts: BTreeMap<String, u64>) {
        let agent = self.sessions.get(session).map(|known| known.agent.clone());
        if let Some(agent) = agent {
            self.agents.take_health(&agent, counts);
        }
    }
}
