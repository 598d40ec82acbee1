//! Event time of jobs in the simulation: how long windows wait for each agent, by [`control::JobPace`] and by a second,
//! simple implementation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use control::{AgentPresence, JobPace, PaceSettings, PaceState};

use crate::server::ServerProcess;
use crate::world::{MS, World};

const SETTINGS: PaceSettings = PaceSettings {
    patience_ns: 2000 * MS,
    behind_max_ns: 120_000 * MS,
    gap_ns: 1000 * MS,
};
/// Period in which the watermark of an agent that is waited for rises by at least the period minus the allowed delay.
const SPAN_NS: u64 = 9000 * MS;
/// The patience, an absence just below detection, a second patience after a return, and data in transit.
const DELAY_MAX_NS: u64 = 6500 * MS;

/// State of all jobs.
pub struct Paces {
    jobs: BTreeMap<u64, JobPace>,
    /// Watermarks by job and agent, with the time of observation.
    seen: BTreeMap<(u64, String), VecDeque<(u64, i64)>>,
    /// Time since when the server accepts records.
    serves_since_ns: u64,
    looked_ns: u64,
}

impl Paces {
    pub fn new(now_ns: u64) -> Self {
        Self {
            jobs: BTreeMap::new(),
            seen: BTreeMap::new(),
            serves_since_ns: now_ns,
            looked_ns: now_ns,
        }
    }
}

impl World {
    pub fn look_at_paces(&mut self, process: &mut ServerProcess) {
        let now = self.server_now();
        let takes = !self.server.is_full;
        let here: BTreeSet<String> = process
            .control
            .agents()
            .filter(|(_, presence, _)| !matches!(presence, AgentPresence::Absent { .. }))
            .map(|(agent, ..)| agent.to_owned())
            .collect();
        let mut positions: BTreeMap<u64, BTreeMap<&str, i64>> = BTreeMap::new();
        for ((agent, lane), row) in &self.server.lanes {
            if row.is_begun && !row.is_closed && here.contains(agent) {
                let least = positions
                    .entry(lane.job)
                    .or_default()
                    .entry(agent)
                    .or_insert(i64::MAX);
                *least = row.watermark_ns.min(*least);
            }
        }
        let paces = &mut process.paces;
        if !takes || self.now_ns - paces.looked_ns > 100 * MS {
            paces.serves_since_ns = self.now_ns;
        }
        paces.looked_ns = self.now_ns;
        for (job, agents) in &positions {
            let pace = paces
                .jobs
                .entry(*job)
                .or_insert_with(|| JobPace::new(SETTINGS));
            pace.look(agents, None, takes, now);
        }
        let is_settled = self.now_ns - paces.serves_since_ns > 2 * SPAN_NS;
        for (job, agents) in &positions {
            for (&agent, &watermark_ns) in agents {
                let seen = paces.seen.entry((*job, agent.to_owned())).or_default();
                seen.push_back((self.now_ns, watermark_ns));
                while seen
                    .front()
                    .is_some_and(|(at, _)| at + SPAN_NS < self.now_ns)
                {
                    seen.pop_front();
                }
            }
            // Whether an agent has advanced in the whole period; `None`: it was not connected all the time.
            let has_risen = |agent: &str| {
                let seen = &paces.seen[&(*job, agent.to_owned())];
                let &(at_ns, before_ns) = seen.front()?;
                let is_whole = at_ns + SPAN_NS - 100 * MS < self.now_ns && seen.len() > 100;
                let risen_ns = agents[agent]
                    .saturating_sub(before_ns)
                    .max(0)
                    .unsigned_abs();
                is_whole.then_some(risen_ns + DELAY_MAX_NS >= self.now_ns - at_ns)
            };
            let waited = |agent: &&&str| paces.jobs[job].wait(agent) == PaceState::Waited;
            let is_well =
                |agent: &&&str| self.is_honest_name(agent) && has_risen(agent) == Some(true);
            let front = agents
                .keys()
                .filter(waited)
                .filter(is_well)
                .map(|agent| agents[agent])
                .max();
            for (&agent, &watermark_ns) in agents
                .iter()
                .filter(|(agent, _)| is_settled && waited(agent))
            {
                let delays = front.is_some_and(|front| front > watermark_ns);
                self.check(!delays || has_risen(agent) != Some(false), || {
                    format!("{agent} delays job {job}: {:#?}", paces.jobs[job])
                });
            }
            paces
                .seen
                .retain(|(of, agent), _| of != job || agents.contains_key(&**agent));
        }
        paces.jobs.retain(|job, _| positions.contains_key(job));
        paces.seen.retain(|(job, _), _| positions.contains_key(job));
    }

    /// Without faults windows wait for all honest agents.
    pub fn check_nobody_is_left_behind(&self) {
        let Some(process) = &self.server.process else {
            return;
        };
        for (job, pace) in &process.paces.jobs {
            for agent in (0..self.hosts.len()).filter(|agent| self.is_honest(*agent)) {
                let agent = self.agent_name(agent);
                self.check(pace.wait(&agent) == PaceState::Waited, || {
                    format!("{agent} is left behind by job {job}: {pace:#?}")
                });
            }
        }
    }
}
