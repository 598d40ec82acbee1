//! Columns, conditions on them, and values computed of them. An expression is a plain value: the embedded engine evaluates it, other engines
//! print it in their own language.
//!
//! What it means: whole numbers are signed, of 64 bits (an unsigned column's value beyond that is null). Null in, null out,
//! but for [`Expr::Coalesce`], [`Expr::If`] and [`Expr::Test`]. What has no value is null: a division by zero, a result beyond 64 bits,
//! a real number that is not finite. Text is UTF-8, and places in it count characters.

use std::net::IpAddr;

use tuple::{Field, FieldId};

/// The input of columns that are computed: [`Column::field`] is then a place in [`crate::Dataflow::computed`].
pub const COMPUTED: u16 = u16::MAX;

/// A column of one of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// Which input.
    pub input: u16,
    /// Which of its fields.
    pub field: FieldId,
}

/// A condition on a tuple.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// All of them.
    And(Vec<Predicate>),
    /// Any of them.
    Or(Vec<Predicate>),
    /// Not.
    Not(Box<Predicate>),
    /// A column compared with a literal of its type.
    Compare {
        /// The column.
        column: Column,
        /// How.
        op: Compare,
        /// With what. `Net` goes with `Eq` and `Ne` only: inside, outside.
        literal: Literal,
    },
    /// SQL LIKE on text: `%` any run, `_` one character, `\` makes the next one literal.
    Like {
        /// The column.
        column: Column,
        /// The pattern.
        pattern: String,
        /// LIKE or ILIKE.
        case: Case,
    },
    /// A regular expression matches somewhere in the text.
    Matches {
        /// The column.
        column: Column,
        /// What matches.
        regex: Regex,
    },
    /// Equal to one of them.
    In {
        /// The column.
        column: Column,
        /// The list.
        literals: Vec<Literal>,
    },
    /// Is null.
    IsNull(Column),
}

/// Whether small and capital letters differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Case {
    /// They do.
    #[default]
    Sensitive,
    /// They do not.
    Ignored,
}

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// A constant, already of its column's type.
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

/// A column that no parser fills.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// Its name, type and unit.
    pub field: Field,
    /// As the query writes it.
    pub text: String,
    /// Its value. Of other computed columns it reads those before it only.
    pub expr: Expr,
}

/// An expression, its types checked.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A column's value.
    Column(Column),
    /// A constant: `I64`, `F64`, `Bool`, `Text`, or `Net` with the full prefix, which is an address.
    Literal(Literal),
    /// No value.
    Null,
    /// Arithmetic on two numbers: integers, or real numbers if one of them is real.
    Arithmetic(Box<Expr>, Arithmetic, Box<Expr>),
    /// Of two values of one type, or two numbers.
    Compare(Box<Expr>, Compare, Box<Expr>),
    /// Whether a condition is true; null where it is neither true nor false.
    Test(Box<Predicate>),
    /// The first where the condition is true, else the second.
    If(Box<Predicate>, Box<Expr>, Box<Expr>),
    /// The first that is not null.
    Coalesce(Vec<Expr>),
    /// The largest multiple of a whole number above 0 that is not larger.
    Trunc(Box<Expr>, i64),
    /// The network of an address, written `10.1.2.0/24`, with prefix lengths for IPv4 and IPv6.
    Subnet(Box<Expr>, u8, u8),
    /// A function of a text that gives a text.
    Text(Box<Expr>, TextFunction),
    /// How many characters a text has.
    Length(Box<Expr>),
}

/// Of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Sum.
    Add,
    /// Difference.
    Subtract,
    /// Product.
    Multiply,
    /// Quotient; of whole numbers the whole part (towards zero).
    Divide,
    /// Quotient as a real number.
    Ratio,
    /// Remainder, with the sign of the first.
    Remainder,
    /// The bits that both have; whole numbers only.
    BitAnd,
    /// The bits that either has; whole numbers only.
    BitOr,
}

/// Of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextFunction {
    /// In small letters, each character by itself.
    Lower,
    /// In capitals.
    Upper,
    /// The value of the first parameter of this name in a URL, or in a query string alone; `%XX` and `+` decoded. Null
    /// when there is none.
    UrlQuery(String),
    /// The piece between separators, counted from 1, or from the end with -1. Null when there are fewer.
    Split(String, i64),
    /// What the first group of a regular expression matches first; without groups what all of it does. Null when nothing does.
    Extract(Regex),
    /// Every match of a regular expression replaced by a text, in which `$1` is what the first group matched.
    Replace(Regex, String),
}

/// A regular expression in the syntax of RE2; linear time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regex {
    /// The pattern; it may match anywhere in a text.
    pub pattern: String,
    /// Whether small and capital letters differ.
    pub case: Case,
}

impl Regex {
    /// Most memory that one may take when it is compiled.
    pub const BYTES_MAX: usize = 1 << 20;

    /// The same, ready to match.
    ///
    /// # Errors
    /// When it is no regular expression, or too large.
    pub fn compile(&self) -> Result<regex::Regex, regex::Error> {
        regex::RegexBuilder::new(&self.pattern)
            .case_insensitive(self.case == Case::Ignored)
            .size_limit(Regex::BYTES_MAX)
            .build()
    }
}

impl Column {
    /// The `place`-th computed column.
    #[must_use]
    pub fn computed(place: usize) -> Column {
        Column { input: COMPUTED, field: FieldId(place as u16) }
    }

    /// Its place among the computed columns, if it is one.
    #[must_use]
    pub fn computed_place(self) -> Option<usize> {
        (self.input == COMPUTED).then_some(usize::from(self.field.0))
    }
}

impl Computed {
    /// Calls `read` with the columns of inputs that `columns` stand for: themselves, or what they are computed of.
    pub fn sources(all: &[Computed], column: Column, read: &mut dyn FnMut(Column)) {
        match column.computed_place().map(|place| &all[place]) {
            Some(computed) => computed.expr.columns(&mut |c| Computed::sources(all, c, read)),
            None => read(column),
        }
    }
}

impl Expr {
    /// Calls `read` with every column that it reads, those of its conditions among them.
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

    /// The same of other columns.
    #[must_use]
    pub fn renamed(&self, to: &dyn Fn(Column) -> Column) -> Expr {
        let boxed = |e: &Expr| Box::new(e.renamed(to));
        match self {
            Expr::Column(column) => Expr::Column(to(*column)),
            Expr::Literal(_) | Expr::Null => self.clone(),
            Expr::Arithmetic(a, op, b) => Expr::Arithmetic(boxed(a), *op, boxed(b)),
            Expr::Compare(a, op, b) => Expr::Compare(boxed(a), *op, boxed(b)),
            Expr::Test(condition) => Expr::Test(Box::new(condition.renamed(to))),
            Expr::If(condition, a, b) => Expr::If(Box::new(condition.renamed(to)), boxed(a), boxed(b)),
            Expr::Coalesce(list) => Expr::Coalesce(list.iter().map(|e| e.renamed(to)).collect()),
            Expr::Trunc(of, step) => Expr::Trunc(boxed(of), *step),
            Expr::Subnet(of, v4, v6) => Expr::Subnet(boxed(of), *v4, *v6),
            Expr::Text(of, function) => Expr::Text(boxed(of), function.clone()),
            Expr::Length(of) => Expr::Length(boxed(of)),
        }
    }
}

impl Predicate {
    /// Calls `read` with every column that it reads.
    pub fn columns(&self, read: &mut dyn FnMut(Column)) {
        match self {
            Predicate::And(parts) | Predicate::Or(parts) => parts.iter().for_each(|p| p.columns(read)),
            Predicate::Not(inner) => inner.columns(read),
            Predicate::Compare { column, .. }
            | Predicate::Like { column, .. }
            | Predicate::Matches { column, .. }
            | Predicate::In { column, .. }
            | Predicate::IsNull(column) => read(*column),
        }
    }

    /// The same of other columns.
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
