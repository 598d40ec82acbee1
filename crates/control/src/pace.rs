//! The progress of a job's agents in event time: an agent that falls behind the others delays their windows for a limited time
//! only. A stopped process, a starved host, malformed records and watermarks that do not rise look the same here.
//!
//! Clocks of agents differ, so each agent is compared with itself: its delay is how much its watermark has fallen behind since
//! its best moment. An agent that is far behind the server's clock from the beginning is compared with that, where others are near it.

use std::collections::BTreeMap;

use link::SessionTime;

/// Limits of [`JobPace`].
#[derive(Debug, Clone, Copy)]
pub struct PaceSettings {
    /// Time for which windows wait for an agent without progress.
    pub patience_ns: u64,
    /// Maximum delay of an agent's watermark behind the server's clock while another agent is closer.
    pub behind_max_ns: u64,
    /// A longer interval between two calls counts as a pause of the server itself.
    pub gap_ns: u64,
}

impl Default for PaceSettings {
    fn default() -> Self {
        let second = 1_000_000_000;
        Self {
            patience_ns: 5 * second,
            behind_max_ns: 10 * second,
            gap_ns: 5 * second / 2,
        }
    }
}

/// Assumed maximum drift between clocks: one part in this number.
const DRIFT: i128 = 5000;
/// Maximum additional wait after the server has accepted no records for a time.
const CATCH_UP_MAX_NS: u64 = 60_000_000_000;

/// Whether windows wait for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaceState {
    /// Yes.
    Waited,
    /// No, until the agent has caught up.
    LeftBehind,
}

#[derive(Debug)]
struct AgentPace {
    /// Smallest distance of its watermark from the server's monotonic clock; drift is added.
    best_ns: i128,
    /// Current delay behind the smallest distance.
    delay_ns: i128,
    /// Time since which the agent has been too far behind the server's clock.
    apart_since_ns: Option<u64>,
    excused_until_ns: u64,
    wait: PaceState,
}

/// See the module documentation. One per job.
#[derive(Debug)]
pub struct JobPace {
    settings: PaceSettings,
    runners: BTreeMap<String, AgentPace>,
    looked_ns: Option<u64>,
    /// Time until which no agent is left behind, because the server itself accepted no records before.
    excused_until_ns: u64,
}

impl Default for JobPace {
    fn default() -> Self {
        Self::new(PaceSettings::default())
    }
}

impl JobPace {
    /// Without agents.
    #[must_use]
    pub fn new(settings: PaceSettings) -> Self {
        Self {
            settings,
            runners: BTreeMap::new(),
            looked_ns: None,
            excused_until_ns: 0,
        }
    }

    /// Restarts the timeout of an agent after an absence, unless it was already left behind.
    pub fn excuse(&mut self, agent: &str, now: SessionTime) {
        if let Some(runner) = self.runners.get_mut(agent)
            && runner.delay_ns <= i128::from(self.settings.patience_ns)
        {
            runner.excused_until_ns = now.monotonic_ns.saturating_add(self.settings.patience_ns);
        }
    }

    /// Whether windows wait for an agent.
    #[must_use]
    pub fn wait(&self, agent: &str) -> PaceState {
        self.runners
            .get(agent)
            .map_or(PaceState::Waited, |runner| runner.wait)
    }

    /// Agents without progress for longer than the timeout, whether or not others wait for them.
    pub fn silent(&self) -> impl Iterator<Item = &str> {
        let patience_ns = i128::from(self.settings.patience_ns);
        let is_silent = move |runner: &AgentPace| {
            runner.wait == PaceState::LeftBehind || runner.delay_ns > patience_ns
        };
        self.runners
            .iter()
            .filter(move |(_, runner)| is_silent(runner))
            .map(|(agent, _)| &**agent)
    }

    /// Updates the state with the lowest watermark of each working agent, and the highest of ended ones. Must be called
    /// at least once per second; returns the agents whose state changed. `takes`: whether the server accepts records
    /// now.
    pub fn look(
        &mut self,
        agents: &BTreeMap<&str, i64>,
        ended_ns: Option<i64>,
        takes: bool,
        now: SessionTime,
    ) -> Vec<(String, PaceState)> {
        let now_ns = now.monotonic_ns;
        let before_ns = self.looked_ns.replace(now_ns);
        let elapsed_ns = now_ns.saturating_sub(before_ns.unwrap_or(now_ns));
        if before_ns.is_none() || !takes || elapsed_ns > self.settings.gap_ns {
            let left = self
                .excused_until_ns
                .saturating_sub(now_ns.saturating_sub(elapsed_ns));
            let catch_up = left
                .saturating_add(elapsed_ns)
                .max(self.settings.patience_ns)
                .min(CATCH_UP_MAX_NS);
            self.excused_until_ns = now_ns.saturating_add(catch_up);
        }
        self.runners
            .retain(|agent, _| agents.contains_key(&**agent));
        for (agent, &watermark_ns) in agents {
            self.measure(agent, watermark_ns, elapsed_ns, now);
        }
        let near = self.near(agents, now);
        let front = agents
            .iter()
            .filter(|(agent, _)| self.wait(agent) == PaceState::Waited);
        let front = front
            .map(|(_, watermark)| *watermark)
            .chain(ended_ns)
            .max()
            .unwrap_or(i64::MIN);
        let least_delay = self
            .runners
            .values()
            .map(|runner| runner.delay_ns)
            .min()
            .unwrap_or(0);
        let patience_ns = i128::from(self.settings.patience_ns);
        let is_excused = now_ns < self.excused_until_ns;
        let mut changed = Vec::new();
        for (agent, runner) in &mut self.runners {
            let watermark_ns = agents[&**agent];
            let is_behind_ended = ended_ns.is_some_and(|ended_ns| ended_ns > watermark_ns);
            let delay_ns = runner.delay_ns - if is_behind_ended { 0 } else { least_delay };
            let is_apart = near > usize::from(is_near(watermark_ns, &self.settings, now))
                && is_behind(watermark_ns, &self.settings, now);
            if is_apart {
                runner.apart_since_ns.get_or_insert(now_ns);
            } else {
                runner.apart_since_ns = None
            }
            let apart_ns = runner
                .apart_since_ns
                .map_or(0, |since| now_ns.saturating_sub(since));
            let delays_others = front > watermark_ns;
            let before = runner.wait;
            match before {
                PaceState::Waited
                    if delays_others
                        && !is_excused
                        && runner.excused_until_ns <= now_ns
                        && (delay_ns > patience_ns || apart_ns > self.settings.patience_ns) =>
                {
                    runner.wait = PaceState::LeftBehind;
                }
                PaceState::LeftBehind
                    if !delays_others || (delay_ns <= patience_ns / 2 && !is_apart) =>
                {
                    runner.wait = PaceState::Waited;
                }
                _ => {}
            }
            if runner.wait != before {
                changed.push((agent.clone(), runner.wait));
            }
        }
        changed
    }

    fn measure(&mut self, agent: &str, watermark_ns: i64, elapsed_ns: u64, now: SessionTime) {
        let distance_ns = i128::from(now.monotonic_ns) - i128::from(watermark_ns);
        let fresh = AgentPace {
            best_ns: distance_ns,
            delay_ns: 0,
            apart_since_ns: None,
            excused_until_ns: 0,
            wait: PaceState::Waited,
        };
        let runner = self.runners.entry(agent.to_owned()).or_insert(fresh);
        runner.best_ns = (runner.best_ns + i128::from(elapsed_ns) / DRIFT).min(distance_ns);
        runner.delay_ns = distance_ns - runner.best_ns;
    }

    /// Number of agents close to the server's clock.
    fn near(&self, agents: &BTreeMap<&str, i64>, now: SessionTime) -> usize {
        agents
            .values()
            .filter(|watermark| is_near(**watermark, &self.settings, now))
            .count()
    }
}

fn is_near(watermark_ns: i64, settings: &PaceSettings, now: SessionTime) -> bool {
    now.wall_ns.abs_diff(watermark_ns) <= settings.behind_max_ns
}

fn is_behind(watermark_ns: i64, settings: &PaceSettings, now: SessionTime) -> bool {
    watermark_ns < now.wall_ns && !is_near(watermark_ns, settings, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    /// Watermarks per second of agents `a`, `b` and so on; returns the seconds at which windows stop (`-`) and resume
    /// (`+`) waiting for one.
    fn check(
        seconds: i64,
        at: impl Fn(usize, i64) -> i64,
        agents: usize,
        takes: impl Fn(i64) -> bool,
    ) -> String {
        check_with(seconds, at, agents, takes, |_| None)
    }

    /// Like [`check`], with an ended lane; `ended`: its watermark.
    fn check_with(
        seconds: i64,
        at: impl Fn(usize, i64) -> i64,
        agents: usize,
        takes: impl Fn(i64) -> bool,
        ended: impl Fn(i64) -> Option<i64>,
    ) -> String {
        let now = |second: i64| SessionTime {
            monotonic_ns: (second * S) as u64,
            wall_ns: (1000 + second) * S,
        };
        let mut pace = JobPace::default();
        let mut said = Vec::new();
        let names = ["a", "b", "c"];
        for second in 0..seconds {
            let all = (0..agents)
                .map(|agent| (names[agent], at(agent, second) * S))
                .collect();
            for (agent, wait) in pace.look(
                &all,
                ended(second).map(|s| s * S),
                takes(second),
                now(second),
            ) {
                said.push(format!(
                    "{second} {} {agent}",
                    if wait == PaceState::Waited { '+' } else { '-' }
                ));
            }
        }
        said.join(", ")
    }

    #[test]
    fn windows_wait_for_an_agent_only_so_long() {
        let always = |_| true;
        // A constant difference of clocks is not a delay if it is below the limit, or if no agent is close to the
        // server's clock.
        assert_eq!(
            check(100, |agent, t| 1000 + t - 9 * agent as i64, 2, always),
            ""
        );
        assert_eq!(
            check(100, |agent, t| 1000 + t + 900 * agent as i64, 2, always),
            ""
        );
        assert_eq!(
            check(100, |agent, t| 50 + t - 20 * agent as i64, 2, always),
            ""
        );
        // Paused from 20 to 40; stopped forever; slow; alone.
        let stopped = |agent, t| {
            1000 + if agent == 1 && (20..40).contains(&t) {
                20
            } else {
                t
            }
        };
        assert_eq!(check(100, stopped, 3, always), "26 - b, 40 + b");
        assert_eq!(
            check(
                100,
                |agent, t| 1000 + if agent == 1 { 0 } else { t },
                2,
                always
            ),
            "6 - b"
        );
        assert_eq!(
            check(
                100,
                |agent, t| 1000 + if agent == 1 { t / 2 } else { t },
                2,
                always
            ),
            "11 - b"
        );
        assert_eq!(check(100, |_, t| 1000 + t.min(20), 1, always), "");
        // Agent `a` alone, behind an agent that has ended.
        let ended = |t| (t > 10).then_some(1030);
        assert_eq!(
            check_with(100, |_, t| 1000 + t.min(20), 1, always, ended),
            "26 - a"
        );
        // All slow; and far behind from the start.
        assert_eq!(check(100, |_, t| 1000 + t / 3, 2, always), "");
        assert_eq!(
            check(100, |agent, t| 1000 + t - 3600 * agent as i64, 2, always),
            "6 - b"
        );
        // Malformed records are no progress.
        let unreadable = |agent, t| if agent == 1 { i64::MIN / S } else { 1000 + t };
        assert_eq!(check(20, unreadable, 2, always), "6 - b");
    }

    #[test]
    fn stalls_of_the_server_delay_no_agent() {
        // The server accepts nothing from 20 to 40; one agent needs 15 seconds to catch up.
        let takes = |t| !(20..40).contains(&t);
        let at = |agent, t| match t {
            20..40 => 1020,
            40..55 if agent == 1 => 1020 + (t - 40) * 2,
            _ => 1000 + t,
        };
        assert_eq!(check(100, at, 2, takes), "");
    }
}
