//! What goes wrong while processes are at work, in words: the first of it; the rest is counted.

/// So many are kept.
const KEPT_MAX: usize = 100;

/// See the module's text.
#[derive(Debug, Default)]
pub struct Problems {
    kept: Vec<String>,
    more: u64,
}

impl Problems {
    /// One more.
    pub fn add(&mut self, text: String) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(text);
        } else {
            self.more += 1;
        }
    }

    /// Those that are kept, and how many there were besides.
    pub fn texts(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("{} more problems, which are not kept", self.more));
        self.kept.iter().cloned().chain(more).collect()
    }

    /// The same, and begins anew.
    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(self).texts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_kept_and_the_rest_is_counted() {
        let mut problems = Problems::default();
        (0..KEPT_MAX + 7).for_each(|nth| problems.add(nth.to_string()));
        let texts = problems.take();
        assert_eq!((texts.len(), texts[0].as_str()), (KEPT_MAX + 1, "0"));
        assert_eq!(texts[KEPT_MAX], "7 more problems, which are not kept");
        assert!(problems.texts().is_empty());
    }
}
