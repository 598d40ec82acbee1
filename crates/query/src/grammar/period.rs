//! SINCE, UNTIL, and BASELINE: a time each; BASELINE may instead have its own SINCE and UNTIL.

use super::Reader;
use crate::ast::{Atom, Baseline};
use crate::lexer::Shape;
use crate::{Span, check};

impl Reader<'_> {
    /// Parses a point in time, or a time before the end.
    pub(super) fn moment(&mut self) -> Option<Atom> {
        let atom = self.atom(Shape::Value);
        if atom.is_none() {
            self.unexpected(check::period::MOMENT);
        }
        atom
    }

    /// Parses BASELINE. SINCE and UNTIL directly after it belong to it.
    pub(super) fn baseline(&mut self) -> Baseline {
        let span = Span::new(self.at - "BASELINE".len(), self.at);
        let mut baseline = Baseline { span, ..Baseline::default() };
        if self.eat_word("SINCE").is_some() {
            baseline.since = self.moment();
            if self.eat_word("UNTIL").is_some() {
                baseline.until = self.moment();
            }
            return baseline;
        }
        baseline.earlier = self.atom(Shape::Value);
        if baseline.earlier.is_none() {
            self.unexpected("how much earlier, such as 1d, or SINCE and a time");
        }
        baseline
    }
}
