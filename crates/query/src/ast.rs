//! The syntax tree of a query: clauses, lists, and conditions. Names are as written and unresolved.

use plan::{Arithmetic, Case, Compare, Direction};

use crate::Span;

/// A query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// PARSE.
    pub parsers: Vec<Atom>,
    /// SELECT.
    pub select: Vec<Selected>,
    /// FROM.
    pub from: Vec<Atom>,
    /// TO.
    pub to: Vec<Atom>,
    /// Each WHERE.
    pub filters: Vec<Expr>,
    /// SINCE.
    pub since: Option<Atom>,
    /// UNTIL.
    pub until: Option<Atom>,
    /// BASELINE.
    pub baseline: Option<Baseline>,
    /// ORDER BY.
    pub order: Vec<(Expr, Direction)>,
    /// LIMIT: packets and durations.
    pub limits: Vec<Atom>,
    /// LIMIT n ROWS: all values of `n`.
    pub rows: Vec<Atom>,
    /// SAMPLE.
    pub sample: Option<Atom>,
    /// TAPS.
    pub taps: Option<Atom>,
    /// BUDGET.
    pub budget: Option<Budget>,
    /// PROCESS.
    pub processors: Vec<Processor>,
}

/// BUDGET: maximum resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Position of the keyword.
    pub span: Span,
    /// Limits such as `cpu=5%`.
    pub bounds: Vec<Bound>,
}

/// `name=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Name of the limit.
    pub name: Atom,
    /// Maximum.
    pub value: Atom,
}

/// BASELINE: an offset, or its own SINCE and UNTIL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// Position of the keyword.
    pub span: Span,
    /// `BASELINE 1d`.
    pub earlier: Option<Atom>,
    /// `BASELINE SINCE 2h`.
    pub since: Option<Atom>,
    /// `BASELINE SINCE 2h UNTIL 1h`.
    pub until: Option<Atom>,
}

/// A name, address, or literal as written; for quoted text, the content of the quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Atom {
    /// The text.
    pub text: String,
    /// Position, including quotes.
    pub span: Span,
    /// Whether it was quoted.
    pub quoted: bool,
}

/// An expression: a value, or a condition, which is a boolean value.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Form of the expression.
    pub form: Form,
    /// Position.
    pub span: Span,
}

/// The forms of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// A name or a literal.
    Atom(Atom),
    /// `-x`.
    Negative(Box<Expr>),
    /// `a op b`, nested by the usual precedence: `a + b * c`.
    Arithmetic(Box<Expr>, Arithmetic, Box<Expr>),
    /// `name(a, b)`.
    Call(Atom, Vec<Expr>),
    /// Conjunction of two or more.
    And(Vec<Expr>),
    /// Disjunction of two or more.
    Or(Vec<Expr>),
    /// Negation.
    Not(Box<Expr>),
    /// `left op right`.
    Compare(Box<Expr>, Compare, Box<Expr>),
    /// `value like 'pattern'`, or `ilike`.
    Like(Box<Expr>, Atom, Case),
    /// `value ~ 'pattern'`, or `~*`.
    Matches(Box<Expr>, Atom, Case),
    /// `value in (a, b)`.
    In(Box<Expr>, Vec<Atom>),
    /// `value is null`.
    IsNull(Box<Expr>),
}

/// An expression with an optional column name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The expression.
    pub expr: Expr,
    /// AS.
    pub name: Option<Atom>,
}

/// An item of SELECT.
#[derive(Clone, Debug, PartialEq)]
pub enum Selected {
    /// `*`.
    All(Span),
    /// A column.
    Column(Named),
}

impl Selected {
    /// Position.
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Selected::All(span) => *span,
            Selected::Column(named) => named.expr.span,
        }
    }
}

/// A processor of PROCESS with its selection of rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processor {
    /// The chain of blocks: `diff-group`.
    pub name: Atom,
    /// Its arguments.
    pub args: Vec<Arg>,
    /// HAVING.
    pub having: Option<Expr>,
    /// ORDER BY.
    pub order_by: Vec<(Expr, Direction)>,
    /// LIMIT n ROWS: `n`.
    pub rows_max: Option<Atom>,
}

/// An argument: `group=srcIP, destIP`.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// Name before `=`.
    pub name: Atom,
    /// Values after `=`, at least one. Expressions as text.
    pub values: Vec<Atom>,
    /// The values as expressions, for arguments with columns: one per value, otherwise empty.
    pub columns: Vec<Named>,
}
