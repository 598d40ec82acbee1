//! SINCE, UNTIL, and BASELINE: a time each; BASELINE may instead have its own SINCE and UNTIL.

use super::QueryReader;
use crate::ast::{Atom, BaselineClause};
use crate::lexer::WordShape;
use crate::{TextSpan, check};

impl QueryReader<'_> {
    /// Parses a point in time, or a time before the end.
    pub(super) fn moment(&mut self) -> Option<Atom> {
        let atom = self.atom(WordShape::Value);
        if atom.is_none() {
            self.unexpected(check::period::MOMENT);
        }
        atom
    }

    /// Parses BASELINE. SINCE and UNTIL directly after it belong to it.
    pub(super) fn baseline(&mut self) -> BaselineClause {
        let span = TextSpan::new(self.at - "BASELINE".len(), self.at);
        let mut baseline = BaselineClause {
            span,
            ..BaselineClause::default()
        };
        if self.eat_word("SINCE").is_some() {
            baseline.since = self.moment();
            if self.eat_word("UNTIL").is_some() {
                baseline.until = self.moment();
            }
            return baseline;
        }
        baseline.earlier = self.atom(WordShape::Value);
        if baseline.earlier.is_none() {
            self.unexpected("an offset such as 1d, or SINCE and a time");
        }
        baseline
    }
}
