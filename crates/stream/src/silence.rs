//! Windows without a tuple, counted and listed, so that a grouped result, which has no row for them, can name them.

/// Most stretches that are listed; the windows of later ones are counted.
pub const SILENT_STRETCHES_MAX: usize = 32;

/// The windows of one pipeline that no tuple reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    /// Number of windows.
    pub windows: u64,
    /// Start of the first and end of the last window of each row of windows, in nanoseconds since 1970, ascending: the first
    /// [`SILENT_STRETCHES_MAX`] of them.
    pub stretches: Vec<(i64, i64)>,
}

impl Silence {
    /// Adds `windows` neighboring windows, which are later than those before.
    pub fn add(&mut self, windows: u64, (start_ns, end_ns): (i64, i64)) {
        self.windows = self.windows.saturating_add(windows);
        let is_full = self.is_full();
        match self.stretches.last_mut() {
            // Windows of a sliding pipeline overlap.
            Some((_, last_ns)) if start_ns <= *last_ns => *last_ns = end_ns.max(*last_ns),
            _ if !is_full => self.stretches.push((start_ns, end_ns)),
            _ => {}
        }
    }

    /// Whether the list lacks stretches.
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
        let mut silence = Silence::default();
        silence.add(2, (0, 20));
        silence.add(1, (20, 30));
        silence.add(1, (50, 60));
        assert_eq!((silence.windows, silence.stretches.as_slice()), (4, &[(0, 30), (50, 60)][..]));
        (0..100).for_each(|i| silence.add(1, (100 + 20 * i, 110 + 20 * i)));
        assert_eq!((silence.windows, silence.stretches.len()), (104, SILENT_STRETCHES_MAX));
        assert!(silence.is_full());
    }
}
