//! Decides for which agents the windows of a job wait.

use std::collections::BTreeMap;

use collect::{LaneActivity, LaneId};
use control::PaceState;
use link::{ObservedState, SessionTime};

use super::job_runtime::JobRuntime;
use super::lanes::LaneEnd;

impl JobRuntime {
    /// Marks agents as missing after their timeout. An agent that rejects the job does not take part in it and is not
    /// missing.
    pub fn give_up(&mut self, now_ns: u64, state_on: &dyn Fn(&str) -> Option<ObservedState>) {
        let mut given_up = Vec::new();
        let mut refused = Vec::new();
        for (agent, awaited) in &mut self.lanes.awaited {
            let state = state_on(agent);
            if state == Some(ObservedState::Refused) {
                awaited.until_ns = None;
                refused.push(awaited.id);
                continue;
            }
            let is_due =
                |until: u64| until <= now_ns || state.is_some_and(ObservedState::is_hopeless);
            if awaited.until_ns.take_if(|until| is_due(*until)).is_some() {
                given_up.push(awaited.id);
            }
        }
        self.turn(&given_up, LaneActivity::Idle);
        // The agent's previous losses end now.
        let until = self.progress.watermark_ns;
        let lost = self.lanes.known.iter_mut().filter(|(key, known)| {
            known.facts.end == LaneEnd::Lost && state_on(&key.agent) == Some(ObservedState::Refused)
        });
        refused.extend(lost.map(|(_, known)| {
            known.missed_until_ns = known.missed_until_ns.or(Some(until));
            known.id
        }));
        self.turn(&refused, LaneActivity::Finished);
    }

    /// Notes that an agent disconnected or reconnected.
    pub fn set_idle(&mut self, agent: &str, is_idle: bool, now: SessionTime) {
        if !is_idle {
            self.pace.excuse(agent, now);
        }
        let is_waited = !is_idle && self.pace.wait(agent) == PaceState::Waited;
        self.wait_for(agent, is_waited);
    }

    fn wait_for(&mut self, agent: &str, is_waited: bool) {
        let ids: Vec<LaneId> = self
            .lanes
            .open_of(agent)
            .map(|(_, known)| known.id)
            .collect();
        self.turn(
            &ids,
            if is_waited {
                LaneActivity::Active
            } else {
                LaneActivity::Idle
            },
        );
    }

    /// Marks agents without progress as missing, and waits again for those that have caught up. `is_here`: whether an
    /// agent is connected, or disconnected only recently.
    pub fn keep_pace(&mut self, is_here: &dyn Fn(&str) -> bool, takes: bool, now: SessionTime) {
        let mut positions: BTreeMap<&str, i64> = BTreeMap::new();
        for (key, known) in self
            .lanes
            .known
            .iter()
            .filter(|(_, known)| known.facts.end == LaneEnd::Open)
        {
            if is_here(&key.agent) {
                let least = positions.entry(&key.agent).or_insert(i64::MAX);
                *least = known.facts.watermark_ns.min(*least);
            }
        }
        let ended = self
            .lanes
            .known
            .values()
            .filter(|known| known.facts.end != LaneEnd::Open);
        let ended_ns = ended.map(|known| known.facts.watermark_ns).max();
        for (agent, wait) in self.pace.look(&positions, ended_ns, takes, now) {
            self.wait_for(&agent, wait == PaceState::Waited);
        }
    }
}
