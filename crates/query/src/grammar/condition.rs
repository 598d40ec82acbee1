//! The grammar of WHERE. `not` binds closest, then `and`, then `or`.
//!
//! ```text
//! condition = conjunction {or conjunction}          conjunction = negation {and negation}
//! negation  = [not] ( "(" condition ")" | test )
//! test      = operand sign operand | column [not] like 'pattern' | column [not] in (literals)
//!           | column is [not] null | column
//! ```

use super::Reader;
use crate::Diagnostic;
use crate::ast::{Atom, Expr};
use crate::lexer::{Kind, Shape, Token};

/// Brackets within brackets that are followed.
const NESTING_MAX: u32 = 64;
/// How to say what other languages say otherwise.
const SAID_OTHERWISE: &[(&str, &str)] = &[
    ("between", "write `x >= a and x <= b`"),
    ("contains", "write `like '%text%'`"),
    ("matches", "write `like`, with % for any run of characters and _ for one"),
    ("ilike", "`like` heeds the case; there is no other"),
    ("~", "write `like`, with % for any run of characters and _ for one"),
    ("&", "write `and`"),
    ("|", "write `or`"),
    ("!", "write `not`"),
];

impl Reader<'_> {
    /// What follows WHERE; `None` when it has no structure.
    pub(super) fn condition_clause(&mut self) -> Option<Expr> {
        let condition = self.condition(0);
        let next = self.peek(Shape::Value);
        let ended = self.clause_of(&next).is_some() || matches!(next.kind, Kind::End | Kind::Mark(';'));
        if condition.is_some() && !ended {
            self.no_test(&next, "`and`, `or` or a clause");
        }
        if condition.is_none() || !ended {
            self.skip_to(&[';']);
        }
        condition
    }

    fn condition(&mut self, depth: u32) -> Option<Expr> {
        let mut any = vec![self.conjunction(depth)?];
        while self.eat_word("or").is_some() {
            any.push(self.conjunction(depth)?);
        }
        Some(if any.len() == 1 { any.remove(0) } else { Expr::Or(any) })
    }

    fn conjunction(&mut self, depth: u32) -> Option<Expr> {
        let mut all = vec![self.negation(depth)?];
        while self.eat_word("and").is_some() {
            all.push(self.negation(depth)?);
        }
        Some(if all.len() == 1 { all.remove(0) } else { Expr::And(all) })
    }

    fn negation(&mut self, depth: u32) -> Option<Expr> {
        let mut negated = false;
        while self.eat_word("not").is_some() {
            negated = !negated;
        }
        let inner = match self.eat('(') {
            Some(open) if depth >= NESTING_MAX => {
                self.report(Diagnostic::new(
                    open,
                    format!("more than {NESTING_MAX} brackets within each other"),
                ));
                return None;
            }
            Some(open) => {
                let inner = self.condition(depth + 1)?;
                self.close(Some(open), "`and`, `or` or `)`");
                inner
            }
            None => self.test()?,
        };
        Some(if negated { not(inner) } else { inner })
    }

    fn test(&mut self) -> Option<Expr> {
        let Some(left) = self.operand() else {
            let next = self.peek(Shape::Value);
            self.no_test(&next, "a condition such as `status >= 500`");
            return None;
        };
        let next = self.peek(Shape::Value);
        if let Kind::Compare(op) = next.kind {
            self.at = next.span.end;
            let right = self.operand();
            return self.or_expect(right, "a value").map(|right| Expr::Compare(left, op, right));
        }
        if self.eat_word("is").is_some() {
            return self.is_null(left);
        }
        let negated = self.eat_word("not").is_some();
        let test = if self.eat_word("like").is_some() {
            let pattern = self.atom(Shape::Value);
            Expr::Like(left, self.or_expect(pattern, "a pattern in quotes")?)
        } else if self.eat_word("in").is_some() {
            Expr::In(left, self.values()?)
        } else if negated || !self.ends_test() {
            let next = self.peek(Shape::Value);
            let expected = if negated { "`like` or `in`" } else { "=, !=, <, <=, >, >=, like, in or is" };
            self.no_test(&next, expected);
            return None;
        } else {
            Expr::Truth(left)
        };
        Some(if negated { not(test) } else { test })
    }

    fn is_null(&mut self, column: Atom) -> Option<Expr> {
        let negated = self.eat_word("not").is_some();
        if self.eat_word("null").is_none() {
            self.unexpected(if negated { "`null`" } else { "`null` or `not null`" });
            return None;
        }
        let test = Expr::IsNull(column);
        Some(if negated { not(test) } else { test })
    }

    /// `(a, b)`.
    fn values(&mut self) -> Option<Vec<Atom>> {
        if self.peek(Shape::Value).kind != Kind::Mark('(') {
            self.unexpected("a list in brackets, as in `in (200, 204)`");
            return None;
        }
        let errors_before = self.errors.len();
        let values = self.list(Shape::Value, "a value");
        (self.errors.len() == errors_before).then_some(values)
    }

    /// A column or a value, but no word that belongs to the grammar.
    fn operand(&mut self) -> Option<Atom> {
        let before = self.at;
        let atom = self.atom(Shape::Value)?;
        let reserved = ["and", "or", "not", "like", "in", "is"];
        if !atom.quoted && reserved.iter().any(|w| w.eq_ignore_ascii_case(&atom.text)) {
            self.at = before;
            return None;
        }
        Some(atom)
    }

    fn or_expect(&mut self, atom: Option<Atom>, expected: &str) -> Option<Atom> {
        if atom.is_none() {
            self.unexpected(expected);
        }
        atom
    }

    /// Whether what comes next may follow a whole test.
    fn ends_test(&self) -> bool {
        let next = self.peek(Shape::Value);
        let word = &self.text[next.span.range()];
        let joins = word.eq_ignore_ascii_case("and") || word.eq_ignore_ascii_case("or");
        joins || self.clause_of(&next).is_some() || matches!(next.kind, Kind::End | Kind::Mark(')' | ';'))
    }

    /// Notes that `next` does not continue a condition; with a hint where it does in other languages.
    fn no_test(&mut self, next: &Token, expected: &str) {
        let word = &self.text[next.span.range()];
        self.unexpected(expected);
        let said = SAID_OTHERWISE.iter().find(|(said, _)| said.eq_ignore_ascii_case(word));
        if let (Some((_, hint)), Some(error)) = (said, self.errors.last_mut()) {
            error.hint = Some((*hint).to_owned());
        }
    }
}

/// The opposite. Twice not is nothing, also where null is neither.
fn not(expr: Expr) -> Expr {
    match expr {
        Expr::Not(inner) => *inner,
        other => Expr::Not(Box::new(other)),
    }
}
