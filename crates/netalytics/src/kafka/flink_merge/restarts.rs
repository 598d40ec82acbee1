//! Restarts of a failing job: each reason is reported once, and a job without progress is stopped. Pure: times are
//! arguments.

use std::time::{Duration, Instant};

/// Maximum consecutive restarts for one reason.
const MAX: usize = 5;
/// Interval after which a restart is not consecutive: the job was working in between.
const APART: Duration = Duration::from_secs(60);
/// Time for which the job must run again before the recovery is reported.
const STEADY: Duration = Duration::from_secs(3);

/// See the module documentation.
#[derive(Default)]
pub struct RestartTracker {
    why: String,
    /// Time of the last restart by the cluster's clock, if known.
    since_ms: Option<u64>,
    /// Time of the last restart by the local clock.
    at: Option<Instant>,
    /// Number of consecutive restarts.
    times: usize,
    /// Time since which the job has been working again.
    up: Option<Instant>,
    stage: RestartStage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RestartStage {
    /// Working, and reported as such.
    #[default]
    Up,
    /// The failure was reported.
    Down,
}

/// Result of an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartVerdict {
    /// No news.
    Nothing,
    /// Print this notice.
    Tell(String),
    /// Stop the job, with the reason.
    GiveUp(String),
}

impl RestartTracker {
    /// Handles a restart; `since_ms`: its time by the cluster's clock.
    pub fn down(&mut self, why: String, since_ms: Option<u64>, now: Instant) -> RestartVerdict {
        let is_new = match since_ms {
            Some(_) => self.since_ms != since_ms,
            None => self.at.is_none() || self.up.is_some(),
        };
        self.up = None;
        if !is_new {
            return RestartVerdict::Nothing;
        }
        let in_a_row = self.why == why && self.at.is_some_and(|at| now.duration_since(at) < APART);
        self.times = if in_a_row { self.times + 1 } else { 1 };
        self.at = Some(now);
        self.since_ms = since_ms;
        self.stage = RestartStage::Down;
        if self.times >= MAX {
            return RestartVerdict::GiveUp(why);
        }
        if in_a_row {
            return RestartVerdict::Nothing;
        }
        let behind = if why.is_empty() {
            String::new()
        } else {
            format!(": {why}")
        };
        self.why = why;
        RestartVerdict::Tell(format!("Flink starts the job again{behind}"))
    }

    /// Handles an observation of the working job.
    pub fn up(&mut self, now: Instant) -> RestartVerdict {
        let up = *self.up.get_or_insert(now);
        if self.stage == RestartStage::Down && now.duration_since(up) >= STEADY {
            self.stage = RestartStage::Up;
            return RestartVerdict::Tell(
                "Flink's job is running again, from its last checkpoint".into(),
            );
        }
        RestartVerdict::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_reported_once_and_limited() {
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let tell = |text: &str| RestartVerdict::Tell(text.into());
        let again = "Flink's job is running again, from its last checkpoint";
        // A missing TaskManager counts as one restart, however often it is observed.
        let mut one = RestartTracker::default();
        let lost = || "it is lost".to_owned();
        assert_eq!(one.up(at(0)), RestartVerdict::Nothing);
        assert_eq!(
            one.down(lost(), Some(7), at(1)),
            tell("Flink starts the job again: it is lost")
        );
        assert!((2..50).all(|s| one.down(lost(), Some(7), at(s)) == RestartVerdict::Nothing));
        assert_eq!(
            (one.up(at(51)), one.up(at(53))),
            (RestartVerdict::Nothing, RestartVerdict::Nothing)
        );
        assert_eq!(
            (one.up(at(54)), one.up(at(55))),
            (tell(again), RestartVerdict::Nothing)
        );
        // Reported again after a longer time.
        assert_eq!(
            one.down(lost(), Some(99), at(200)),
            tell("Flink starts the job again: it is lost")
        );
        // A permanent failure, whether or not the job is observed working in between.
        for sees_it_work in [true, false] {
            let mut one = RestartTracker::default();
            let mut seen = Vec::new();
            for s in 0..5 {
                seen.push(one.down("poison".into(), Some(100 + s), at(2 * s)));
                if sees_it_work {
                    assert_eq!(one.up(at(2 * s + 1)), RestartVerdict::Nothing);
                }
            }
            let mut expected = vec![RestartVerdict::Nothing; 5];
            expected[0] = tell("Flink starts the job again: poison");
            expected[4] = RestartVerdict::GiveUp("poison".into());
            assert_eq!(seen, expected);
        }
        // Without the cluster's clock, restarts are distinguished by the working state in between.
        let mut one = RestartTracker::default();
        assert_eq!(
            one.down(String::new(), None, at(0)),
            tell("Flink starts the job again")
        );
        assert_eq!(
            one.down(String::new(), None, at(1)),
            RestartVerdict::Nothing
        );
        for s in 1..4 {
            assert_eq!(one.up(at(2 * s)), RestartVerdict::Nothing);
            assert_eq!(
                one.down(String::new(), None, at(2 * s + 1)),
                RestartVerdict::Nothing
            );
        }
        assert_eq!(one.up(at(8)), RestartVerdict::Nothing);
        assert_eq!(
            one.down(String::new(), None, at(9)),
            RestartVerdict::GiveUp(String::new())
        );
    }
}
