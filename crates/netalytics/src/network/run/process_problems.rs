//! Problems of processes during a run: stores the first ones and counts the rest.

/// Maximum stored problems.
const KEPT_MAX: usize = 100;

/// See the module documentation.
#[derive(Debug, Default)]
pub struct ProcessProblems {
    kept: Vec<String>,
    more: u64,
}

impl ProcessProblems {
    /// Adds a problem.
    pub fn add(&mut self, text: String) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(text);
        } else {
            self.more += 1;
        }
    }

    /// The stored problems, and a line with the number of others.
    pub fn texts(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("{} more problems omitted", self.more));
        self.kept.iter().cloned().chain(more).collect()
    }

    /// Returns and removes all problems.
    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(self).texts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_kept_and_the_rest_is_counted() {
        let mut problems = ProcessProblems::default();
        (0..KEPT_MAX + 7).for_each(|nth| problems.add(nth.to_string()));
        let texts = problems.take();
        assert_eq!((texts.len(), texts[0].as_str()), (KEPT_MAX + 1, "0"));
        assert_eq!(texts[KEPT_MAX], "7 more problems omitted");
        assert!(problems.texts().is_empty());
    }
}
