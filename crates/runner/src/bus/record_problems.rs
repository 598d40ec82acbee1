//! Problems with records: reports the first ones with their position, and the reason for an early end of reading.

use crate::summary::InputError;

/// Maximum problems reported; counters have their total number.
const TOLD_MAX: usize = 10;

/// See the module documentation.
#[derive(Default)]
pub struct RecordProblems {
    of_records: Vec<(String, String)>,
    /// Place and reason of an early end.
    end: Option<(String, String)>,
}

impl RecordProblems {
    /// Notes an invalid record.
    pub fn note(&mut self, place: impl Into<String>, why: impl ToString) {
        if self.of_records.len() < TOLD_MAX {
            self.of_records.push((place.into(), why.to_string()));
        }
    }

    /// Notes an early end of reading.
    pub fn end(&mut self, place: &str, why: impl ToString) {
        self.end
            .get_or_insert_with(|| (place.to_owned(), why.to_string()));
    }

    /// Whether there were no problems.
    pub fn is_empty(&self) -> bool {
        self.of_records.is_empty() && self.end.is_none()
    }

    /// Reason of an early end, if any.
    pub fn cut_short(&self) -> Option<String> {
        self.end
            .as_ref()
            .map(|(place, why)| format!("{place}: {why}"))
    }

    /// Errors for the summary.
    pub fn told(&self) -> Vec<InputError> {
        let told = |(place, why): &(String, String)| InputError {
            path: place.clone(),
            offset: None,
            text: format!("{place}: {why}"),
            after_packets: 0,
        };
        self.of_records.iter().chain(&self.end).map(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_problems_are_reported() {
        let mut problems = RecordProblems::default();
        assert!(
            problems.is_empty() && problems.cut_short().is_none() && problems.told().is_empty()
        );
        (0..100).for_each(|n| problems.note(format!("partition {n}"), "no Avro"));
        let told = problems.told();
        assert_eq!(told.len(), TOLD_MAX);
        assert_eq!(
            (&*told[0].path, &*told[0].text),
            ("partition 0", "partition 0: no Avro")
        );
        assert!(!problems.is_empty() && problems.cut_short().is_none());
    }

    /// The cause of an end, not the errors that follow from it.
    #[test]
    fn the_first_reason_of_an_end_is_kept() {
        let mut problems = RecordProblems::default();
        (0..TOLD_MAX).for_each(|_| problems.note("partition 1", "no Avro"));
        problems.end("partition 2", "it was deleted");
        problems.end("partition 3", "no broker");
        assert_eq!(
            problems.cut_short().as_deref(),
            Some("partition 2: it was deleted")
        );
        let told = problems.told();
        assert_eq!(
            (told.len(), &*told[TOLD_MAX].text),
            (TOLD_MAX + 1, "partition 2: it was deleted")
        );
    }
}
