//! The state of printing values and conditions: the scope of columns, and the unsupported parts.

use plan::Column;
use tuple::DataType;

/// A part of a query without equivalent Flink SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnprintablePart {
    /// The part.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// Prints values and conditions.
pub struct SqlPrinter<'a> {
    scope: &'a dyn Fn(Column) -> (String, DataType),
    /// Unsupported parts.
    pub refused: Vec<UnprintablePart>,
}

impl<'a> SqlPrinter<'a> {
    /// Creates a printer; `scope` returns the SQL and the type of a column.
    pub fn new(scope: &'a dyn Fn(Column) -> (String, DataType)) -> SqlPrinter<'a> {
        SqlPrinter {
            scope,
            refused: Vec::new(),
        }
    }

    /// The SQL and the type of a column.
    pub fn column(&self, column: Column) -> (String, DataType) {
        (self.scope)(column)
    }

    /// Records an unsupported part, once.
    pub fn refuse(&mut self, what: &str, why: &str) {
        let one = UnprintablePart {
            what: what.into(),
            why: why.into(),
        };
        if !self.refused.contains(&one) {
            self.refused.push(one);
        }
    }
}
