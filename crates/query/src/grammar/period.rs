//! SINCE, UNTIL and BASELINE: a time each, or of BASELINE the two others behind it.

use super::Reader;
use crate::ast::{Atom, Baseline};
use crate::lexer::Shape;
use crate::{Span, check};

impl Reader<'_> {
    /// A point in time, or how long before the end.
    pub(super) fn moment(&mut self) -> Option<Atom> {
        let atom = self.atom(Shape::Value);
        if atom.is_none() {
            self.unexpected(check::period::MOMENT);
        }
        atom
    }

    /// What stands behind BASELINE. SINCE and UNTIL right behind it are its own.
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
