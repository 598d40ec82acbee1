//! What values and conditions are printed with: what columns are, and what could not be printed.

use plan::Column;
use tuple::DataType;

/// A part of a query that has no Flink SQL with the same meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprintable {
    /// The part.
    pub what: String,
    /// What stands against it.
    pub why: String,
}

/// Prints values and conditions.
pub struct Printer<'a> {
    scope: &'a dyn Fn(Column) -> (String, DataType),
    /// What could not be printed.
    pub refused: Vec<Unprintable>,
}

impl<'a> Printer<'a> {
    /// `scope` says what stands for a column, and what it holds.
    pub fn new(scope: &'a dyn Fn(Column) -> (String, DataType)) -> Printer<'a> {
        Printer { scope, refused: Vec::new() }
    }

    /// What stands for a column, and what it holds.
    pub fn column(&self, column: Column) -> (String, DataType) {
        (self.scope)(column)
    }

    /// Notes what cannot be printed, once.
    pub fn refuse(&mut self, what: &str, why: &str) {
        let one = Unprintable { what: what.into(), why: why.into() };
        if !self.refused.contains(&one) {
            self.refused.push(one);
        }
    }
}
