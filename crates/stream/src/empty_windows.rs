//! Windows without tuples, counted and listed. A grouped result has no rows for them, but can thus report them.

/// Maximum listed periods; windows of later ones are only counted.
pub const SILENT_STRETCHES_MAX: usize = 32;

/// The empty windows of one pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmptyWindows {
    /// Number of windows.
    pub windows: u64,
    /// Start of the first and end of the last window of each sequence of empty windows, in nanoseconds since 1970,
    /// ascending: the first [`SILENT_STRETCHES_MAX`] of them.
    pub stretches: Vec<(i64, i64)>,
}

impl EmptyWindows {
    /// Adds `windows` adjacent windows, later than all before.
    pub fn add(&mut self, windows: u64, (start_ns, end_ns): (i64, i64)) {
        self.windows = self.windows.saturating_add(windows);
        let is_full = self.is_full();
        match self.stretches.last_mut() {
            // Sliding windows overlap.
            Some((_, last_ns)) if start_ns <= *last_ns => *last_ns = end_ns.max(*last_ns),
            _ if !is_full => self.stretches.push((start_ns, end_ns)),
            _ => {}
        }
    }

    /// Whether the list is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.stretches.len() >= SILENT_STRETCHES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_are_one_stretch_and_the_list_is_bounded() {
        let mut silence = EmptyWindows::default();
        silence.add(2, (0, 20));
        silence.add(1, (20, 30));
        silence.add(1, (50, 60));
        assert_eq!(
            (silence.windows, silence.stretches.as_slice()),
            (4, &[(0, 30), (50, 60)][..])
        );
        (0..100).for_each(|i| silence.add(1, (100 + 20 * i, 110 + 20 * i)));
        assert_eq!(
            (silence.windows, silence.stretches.len()),
            (104, SILENT_STRETCHES_MAX)
        );
        assert!(silence.is_full());
    }
}
