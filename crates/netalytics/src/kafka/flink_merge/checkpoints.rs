//! Supervises Flink's checkpoints, which deliver rows: reports if the first one is missing. Pure: times are arguments.

use std::time::{Duration, Instant};

/// Time for the first one, in addition to ten intervals.
const FIRST: Duration = Duration::from_secs(20);

/// See the module documentation.
pub struct CheckpointWatch {
    patience: Duration,
    /// Time since which data wait for a checkpoint.
    awaited: Option<Instant>,
    stage: CheckpointStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckpointStage {
    Awaited,
    /// Reported as missing.
    Overdue,
    Completed,
}

impl CheckpointWatch {
    /// Checkpoints with this interval.
    pub fn new(every: Duration) -> CheckpointWatch {
        CheckpointWatch {
            patience: FIRST + 10 * every,
            awaited: None,
            stage: CheckpointStage::Awaited,
        }
    }

    /// Whether the first checkpoint is overdue.
    pub fn is_overdue(&self) -> bool {
        self.stage == CheckpointStage::Overdue
    }

    /// The next notice. `is_completed`: whether there was one; `None`: no data. `tasks`: running and total tasks, if
    /// not all are running.
    pub fn look(
        &mut self,
        is_completed: Option<bool>,
        tasks: Option<(u64, u64)>,
        now: Instant,
    ) -> Option<String> {
        let is_completed = is_completed?;
        let since = *self.awaited.get_or_insert(now);
        let before = self.stage;
        match (before, is_completed) {
            (_, true) => self.stage = CheckpointStage::Completed,
            (CheckpointStage::Awaited, false) if now.duration_since(since) >= self.patience => {
                self.stage = CheckpointStage::Overdue;
                let seconds = self.patience.as_secs();
                let tasks = tasks
                    .map(|(at_work, all)| format!(" ({at_work} of its {all} tasks are running)"));
                return Some(format!(
                    "Flink has completed no checkpoint of the job within {seconds} s{}, and rows arrive with checkpoints: see Flink's web page for the cause",
                    tasks.unwrap_or_default()
                ));
            }
            _ => {}
        }
        (before == CheckpointStage::Overdue && is_completed)
            .then(|| "Flink has completed a checkpoint".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_awaited() {
        let begun = Instant::now();
        // One observation per second, with records from the fifth second on, and the expected notices with their times.
        let said = |completed_at: u64| -> Vec<(u64, String)> {
            let mut checkpoints = CheckpointWatch::new(Duration::from_secs(1));
            let seen = |s: u64| (s >= 5).then_some(s >= completed_at);
            let look = |s: u64| {
                let now = begun + Duration::from_secs(s);
                Some((s, checkpoints.look(seen(s), Some((3, 8)), now)?))
            };
            (0..100).filter_map(look).collect()
        };
        assert_eq!(said(5), []);
        assert_eq!(said(34), []);
        let late = said(60);
        assert_eq!(late.iter().map(|(s, _)| *s).collect::<Vec<_>>(), [35, 60]);
        assert!(
            late[0]
                .1
                .contains("within 30 s (3 of its 8 tasks are running)"),
            "{late:?}"
        );
    }
}
