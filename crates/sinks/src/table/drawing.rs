//! Lines at the end of a terminal that give way to others.

/// What is drawn now.
#[derive(Debug, Default)]
pub struct Drawing {
    lines: usize,
}

impl Drawing {
    /// What takes the drawing away: the cursor goes up to its first line, and everything from there is cleared.
    #[must_use]
    pub fn erase(&mut self) -> String {
        match std::mem::take(&mut self.lines) {
            0 => String::new(),
            lines => format!("\x1b[{lines}F\x1b[J"),
        }
    }

    /// So many lines have been drawn.
    pub fn stands(&mut self, lines: usize) {
        self.lines = lines;
    }
}
