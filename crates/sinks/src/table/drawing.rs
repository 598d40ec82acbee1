//! Temporary lines at the end of a terminal's output.

/// The current drawing.
#[derive(Debug, Default)]
pub struct TerminalDrawing {
    lines: usize,
}

impl TerminalDrawing {
    /// Escape sequence that removes the drawing: moves the cursor to its first line and clears the rest.
    #[must_use]
    pub fn erase(&mut self) -> String {
        match std::mem::take(&mut self.lines) {
            0 => String::new(),
            lines => format!("\x1b[{lines}F\x1b[J"),
        }
    }

    /// Notes the number of lines drawn.
    pub fn stands(&mut self, lines: usize) {
        self.lines = lines;
    }
}
