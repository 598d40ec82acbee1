//! Columns, conditions on them, and expressions over them. An expression is plain data: the embedded engine evaluates
//! it, other engines translate it.
//!
//! Semantics: integers are signed 64-bit (an unsigned column's value beyond that is null). Null operands yield null,
//! except in [`Expr::Coalesce`], [`Expr::If`], and [`Expr::Test`]. Undefined results are null: division by zero,
//! integer overflow, non-finite floating point numbers. Text is UTF-8, and positions count characters.

use std::net::IpAddr;

use tuple::{Field, FieldId};

/// The input number of computed columns: [`Column::field`] is then an index into [`crate::Dataflow::computed`].
pub const COMPUTED: u16 = u16::MAX;

/// A column of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// Input number.
    pub input: u16,
    /// Field of the input.
    pub field: FieldId,
}

/// A condition on a tuple.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// True if all are true.
    And(Vec<Predicate>),
    /// True if any is true.
    Or(Vec<Predicate>),
    /// Negation.
    Not(Box<Predicate>),
    /// A column compared with a literal of its type.
    Compare {
        /// The column.
        column: Column,
        /// Operator.
        op: ComparisonOperator,
        /// The literal. `NetProto` is valid only with `Eq` (inside) and `Ne` (outside).
        literal: Literal,
    },
    /// SQL LIKE on text: `%` any run, `_` one character, `\` makes the next one literal.
    Like {
        /// The column.
        column: Column,
        /// The pattern.
        pattern: String,
        /// LIKE or ILIKE.
        case: CaseSensitivity,
    },
    /// A regular expression that matches anywhere in the text.
    Matches {
        /// The column.
        column: Column,
        /// The regular expression.
        regex: RegexPattern,
    },
    /// A column equal to any literal of a list.
    In {
        /// The column.
        column: Column,
        /// The list.
        literals: Vec<Literal>,
    },
    /// Is null.
    IsNull(Column),
}

/// Case sensitivity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CaseSensitivity {
    /// Case is significant.
    #[default]
    Sensitive,
    /// Case is ignored.
    Ignored,
}

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ComparisonOperator {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// A constant of its column's type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Literal {
    Bool(bool),
    U64(u64),
    I64(i64),
    F64(f64),
    Text(String),
    /// A network; a single address has the full prefix length.
    Net(IpAddr, u8),
}

/// A computed column.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputedField {
    /// Name, type, and unit of the column.
    pub field: Field,
    /// Source text in the query.
    pub text: String,
    /// The expression. It reads only computed columns before this one.
    pub expr: Expr,
}

/// A type-checked expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A column's value.
    Column(Column),
    /// A constant: `I64`, `F64`, `Bool`, `Text`, or `NetProto` with the full prefix, which is an address.
    Literal(Literal),
    /// Null.
    Null,
    /// Arithmetic on two numbers: integers, or floating point if either operand is.
    Arithmetic(Box<Expr>, ArithmeticOperator, Box<Expr>),
    /// Comparison of two values of one type, or of two numbers.
    Compare(Box<Expr>, ComparisonOperator, Box<Expr>),
    /// Value of a condition; null if it is neither true nor false.
    Test(Box<Predicate>),
    /// The first value if the condition is true, otherwise the second.
    If(Box<Predicate>, Box<Expr>, Box<Expr>),
    /// The first non-null value.
    Coalesce(Vec<Expr>),
    /// The largest multiple of a positive integer not greater than the value.
    Trunc(Box<Expr>, i64),
    /// The network of an address, formatted as `10.1.2.0/24`, with prefix lengths for IPv4 and IPv6.
    Subnet(Box<Expr>, u8, u8),
    /// A text function with a text result.
    Text(Box<Expr>, TextFunction),
    /// Number of characters of a text.
    Length(Box<Expr>),
}

/// Arithmetic operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithmeticOperator {
    /// Sum.
    Add,
    /// Difference.
    Subtract,
    /// Product.
    Multiply,
    /// Quotient; for integers truncated toward zero.
    Divide,
    /// Quotient as floating point.
    Ratio,
    /// Remainder, with the sign of the dividend.
    Remainder,
    /// Bitwise AND; integers only.
    BitAnd,
    /// Bitwise OR; integers only.
    BitOr,
}

/// Text functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextFunction {
    /// Lowercase, character by character.
    Lower,
    /// Uppercase.
    Upper,
    /// The value of the first parameter with this name in a URL or query string, with `%XX` and `+` decoded. Null if
    /// there is none.
    UrlQuery(String),
    /// The part between separators, counted from 1, or from the end with -1. Null if there are fewer parts.
    Split(String, i64),
    /// The first match of the first group of a regular expression, or of the whole expression without groups. Null
    /// without a match.
    Extract(RegexPattern),
    /// Replaces every match of a regular expression with a text, in which `$1` is the match of the first group.
    Replace(RegexPattern, String),
}

/// A regular expression in the syntax of RE2; linear time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegexPattern {
    /// The pattern; it may match anywhere in a text.
    pub pattern: String,
    /// Case sensitivity.
    pub case: CaseSensitivity,
}

impl RegexPattern {
    /// Maximum memory of a compiled expression.
    pub const BYTES_MAX: usize = 1 << 20;

    /// Compiles the expression.
    ///
    /// # Errors
    /// If the pattern is invalid or too large.
    pub fn compile(&self) -> Result<regex::Regex, regex::Error> {
        regex::RegexBuilder::new(&self.pattern)
            .case_insensitive(self.case == CaseSensitivity::Ignored)
            .size_limit(RegexPattern::BYTES_MAX)
            .build()
    }
}

impl Column {
    /// The computed column at index `place`.
    #[must_use]
    pub fn computed(place: usize) -> Column {
        Column {
            input: COMPUTED,
            field: FieldId(place as u16),
        }
    }

    /// The index among the computed columns, if it is one.
    #[must_use]
    pub fn computed_place(self) -> Option<usize> {
        (self.input == COMPUTED).then_some(usize::from(self.field.0))
    }
}

impl ComputedField {
    /// Calls `read` with the input columns that `column` depends on, or with itself.
    pub fn sources(all: &[ComputedField], column: Column, read: &mut dyn FnMut(Column)) {
        match column.computed_place().map(|place| &all[place]) {
            Some(computed) => computed
                .expr
                .columns(&mut |c| ComputedField::sources(all, c, read)),
            None => read(column),
        }
    }
}

impl Expr {
    /// Calls `read` with every column read, including those in conditions.
    pub fn columns(&self, read: &mut dyn FnMut(Column)) {
        match self {
            Expr::Column(column) => read(*column),
            Expr::Literal(_) | Expr::Null => {}
            Expr::Arithmetic(a, _, b) | Expr::Compare(a, _, b) => {
                a.columns(read);
                b.columns(read);
            }
            Expr::Test(condition) => condition.columns(read),
            Expr::If(condition, a, b) => {
                condition.columns(read);
                a.columns(read);
                b.columns(read);
            }
            Expr::Coalesce(list) => list.iter().for_each(|e| e.columns(read)),
            Expr::Trunc(of, _) | Expr::Subnet(of, ..) | Expr::Text(of, _) | Expr::Length(of) => {
                of.columns(read)
            }
        }
    }

    /// The expression with columns replaced.
    #[must_use]
    pub fn renamed(&self, to: &dyn Fn(Column) -> Column) -> Expr {
        let boxed = |e: &Expr| Box::new(e.renamed(to));
        match self {
            Expr::Column(column) => Expr::Column(to(*column)),
            Expr::Literal(_) | Expr::Null => self.clone(),
            Expr::Arithmetic(a, op, b) => Expr::Arithmetic(boxed(a), *op, boxed(b)),
            Expr::Compare(a, op, b) => Expr::Compare(boxed(a), *op, boxed(b)),
            Expr::Test(condition) => Expr::Test(Box::new(condition.renamed(to))),
            Expr::If(condition, a, b) => {
                Expr::If(Box::new(condition.renamed(to)), boxed(a), boxed(b))
            }
            Expr::Coalesce(list) => Expr::Coalesce(list.iter().map(|e| e.renamed(to)).collect()),
            Expr::Trunc(of, step) => Expr::Trunc(boxed(of), *step),
            Expr::Subnet(of, v4, v6) => Expr::Subnet(boxed(of), *v4, *v6),
            Expr::Text(of, function) => Expr::Text(boxed(of), function.clone()),
            Expr::Length(of) => Expr::Length(boxed(of)),
        }
    }
}

impl Predicate {
    /// Calls `read` with every column read.
    pub fn columns(&self, read: &mut dyn FnMut(Column)) {
        match self {
            Predicate::And(parts) | Predicate::Or(parts) => {
                parts.iter().for_each(|p| p.columns(read))
            }
            Predicate::Not(inner) => inner.columns(read),
            Predicate::Compare { column, .. }
            | Predicate::Like { column, .. }
            | Predicate::Matches { column, .. }
            | Predicate::In { column, .. }
            | Predicate::IsNull(column) => read(*column),
        }
    }

    /// The predicate with columns replaced.
    #[must_use]
    pub fn renamed(&self, to: &dyn Fn(Column) -> Column) -> Predicate {
        let all = |parts: &[Predicate]| parts.iter().map(|p| p.renamed(to)).collect();
        let mut moved = self.clone();
        match &mut moved {
            Predicate::And(parts) | Predicate::Or(parts) => *parts = all(parts),
            Predicate::Not(inner) => **inner = inner.renamed(to),
            Predicate::Compare { column, .. }
            | Predicate::Like { column, .. }
            | Predicate::Matches { column, .. }
            | Predicate::In { column, .. }
            | Predicate::IsNull(column) => *column = to(*column),
        }
        moved
    }
}
