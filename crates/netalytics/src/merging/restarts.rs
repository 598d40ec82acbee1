//! Restarts of a failing job: each reason is reported once, and a job that makes no progress is given up. Pure: times
//! are arguments.

use std::time::{Duration, Instant};

/// So often in a row a job may start again for one reason before it is given up.
const MAX: usize = 5;
/// Restarts that are further apart are not in a row: it was at work between them.
const APART: Duration = Duration::from_secs(60);
/// Time for which it has to run again before that is reported.
const STEADY: Duration = Duration::from_secs(3);

/// See the module's text.
#[derive(Default)]
pub struct Restarts {
    why: String,
    /// Time of the last restart by the cluster's clock, if known.
    since_ms: Option<u64>,
    /// The same, by ours.
    at: Option<Instant>,
    /// How many in a row.
    times: usize,
    /// Since when it is at work again.
    up: Option<Instant>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// It works, and everybody knows.
    #[default]
    Up,
    /// Its failure was reported.
    Down,
}

/// What is to be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing that is not known.
    Nothing,
    /// Print this notice.
    Tell(String),
    /// The job comes to nothing; why.
    GiveUp(String),
}

impl Restarts {
    /// It is starting again, as the cluster says since then.
    pub fn down(&mut self, why: String, since_ms: Option<u64>, now: Instant) -> Verdict {
        let is_new = match since_ms {
            Some(_) => self.since_ms != since_ms,
            None => self.at.is_none() || self.up.is_some(),
        };
        self.up = None;
        if !is_new {
            return Verdict::Nothing;
        }
        let in_a_row = self.why == why && self.at.is_some_and(|at| now.duration_since(at) < APART);
        self.times = if in_a_row { self.times + 1 } else { 1 };
        (self.at, self.since_ms, self.stage) = (Some(now), since_ms, Stage::Down);
        if self.times >= MAX {
            return Verdict::GiveUp(why);
        }
        if in_a_row {
            return Verdict::Nothing;
        }
        let behind = if why.is_empty() { String::new() } else { format!(": {why}") };
        self.why = why;
        Verdict::Tell(format!("Flink starts the job again{behind}"))
    }

    /// It is at work.
    pub fn up(&mut self, now: Instant) -> Verdict {
        let up = *self.up.get_or_insert(now);
        if self.stage == Stage::Down && now.duration_since(up) >= STEADY {
            self.stage = Stage::Up;
            return Verdict::Tell("Flink's job is at work again, from its last checkpoint on".into());
        }
        Verdict::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_told_once_and_given_up_in_a_row() {
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let tell = |text: &str| Verdict::Tell(text.into());
        let again = "Flink's job is at work again, from its last checkpoint on";
        // A TaskManager that is gone for long is one restart, however often one looks.
        let mut one = Restarts::default();
        let lost = || "it is lost".to_owned();
        assert_eq!(one.up(at(0)), Verdict::Nothing);
        assert_eq!(one.down(lost(), Some(7), at(1)), tell("Flink starts the job again: it is lost"));
        assert!((2..50).all(|s| one.down(lost(), Some(7), at(s)) == Verdict::Nothing));
        assert_eq!((one.up(at(51)), one.up(at(53))), (Verdict::Nothing, Verdict::Nothing));
        assert_eq!((one.up(at(54)), one.up(at(55))), (tell(again), Verdict::Nothing));
        // Later it is news once more.
        assert_eq!(one.down(lost(), Some(99), at(200)), tell("Flink starts the job again: it is lost"));
        // Poison: again and again, whether one sees it at work in between or not.
        for sees_it_work in [true, false] {
            let mut one = Restarts::default();
            let mut seen = Vec::new();
            for s in 0..5 {
                seen.push(one.down("poison".into(), Some(100 + s), at(2 * s)));
                if sees_it_work {
                    assert_eq!(one.up(at(2 * s + 1)), Verdict::Nothing);
                }
            }
            let mut expected = vec![Verdict::Nothing; 5];
            expected[0] = tell("Flink starts the job again: poison");
            expected[4] = Verdict::GiveUp("poison".into());
            assert_eq!(seen, expected);
        }
        // Where the cluster's clock is not told, being at work in between tells restarts apart.
        let mut one = Restarts::default();
        assert_eq!(one.down(String::new(), None, at(0)), tell("Flink starts the job again"));
        assert_eq!(one.down(String::new(), None, at(1)), Verdict::Nothing);
        for s in 1..4 {
            assert_eq!(one.up(at(2 * s)), Verdict::Nothing);
            assert_eq!(one.down(String::new(), None, at(2 * s + 1)), Verdict::Nothing);
        }
        assert_eq!(one.up(at(8)), Verdict::Nothing);
        assert_eq!(one.down(String::new(), None, at(9)), Verdict::GiveUp(String::new()));
    }
}
