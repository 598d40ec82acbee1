//! The structure of a query's text: clauses, lists, conditions. Names are as written and mean nothing yet.

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
    /// LIMIT n ROWS: each `n`.
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

/// BUDGET: what may be taken at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// The word's place.
    pub span: Span,
    /// `cpu=5%`.
    pub bounds: Vec<Bound>,
}

/// `name=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// What is bounded.
    pub name: Atom,
    /// How much it may be.
    pub value: Atom,
}

/// BASELINE: how much earlier, or SINCE and UNTIL of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// The word's place.
    pub span: Span,
    /// `BASELINE 1d`.
    pub earlier: Option<Atom>,
    /// `BASELINE SINCE 2h`.
    pub since: Option<Atom>,
    /// `BASELINE SINCE 2h UNTIL 1h`.
    pub until: Option<Atom>,
}

/// A name, an address or a literal, as written; of quoted text, what is between the quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Atom {
    /// The text.
    pub text: String,
    /// Its place, quotes included.
    pub span: Span,
    /// Whether it stood in quotes.
    pub quoted: bool,
}

/// An expression: a value, or a condition, which is a value of true and false.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub form: Form,
    /// Its place.
    pub span: Span,
}

/// The forms of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// A name or a literal.
    Atom(Atom),
    /// `-x`.
    Negative(Box<Expr>),
    /// `a op b`; the one that has it all binds as people expect: `a + b * c`.
    Arithmetic(Box<Expr>, Arithmetic, Box<Expr>),
    /// `name(a, b)`.
    Call(Atom, Vec<Expr>),
    /// All of them; two or more.
    And(Vec<Expr>),
    /// Any of them; two or more.
    Or(Vec<Expr>),
    /// Not.
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

/// An expression, and the name that its column shall have.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The expression.
    pub expr: Expr,
    /// AS.
    pub name: Option<Atom>,
}

/// What SELECT lists.
#[derive(Clone, Debug, PartialEq)]
pub enum Selected {
    /// `*`.
    All(Span),
    /// A column.
    Column(Named),
}

impl Selected {
    /// Its place.
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Selected::All(span) => *span,
            Selected::Column(named) => named.expr.span,
        }
    }
}

/// One processor of PROCESS with its selection of rows.
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
    /// What stands before `=`.
    pub name: Atom,
    /// What stands behind it; one or more. Of an expression its text.
    pub values: Vec<Atom>,
    /// The same as expressions, where columns are meant: one for each value, or none at all.
    pub columns: Vec<Named>,
}
