//! The structure of a query's text: clauses, lists, conditions. Names are as written and mean nothing yet.

use plan::Compare;

use crate::Span;

/// A query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// PARSE.
    pub parsers: Vec<Atom>,
    /// FROM.
    pub from: Vec<Atom>,
    /// TO.
    pub to: Vec<Atom>,
    /// Each WHERE.
    pub filters: Vec<Expr>,
    /// LIMIT.
    pub limits: Vec<Atom>,
    /// SAMPLE.
    pub sample: Option<Atom>,
    /// PROCESS.
    pub processors: Vec<Processor>,
}

/// A name, an address or a literal, as written; of quoted text, what is between the quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Atom {
    /// The text.
    pub text: String,
    /// Its place, quotes included.
    pub span: Span,
    /// Whether it stood in quotes.
    pub quoted: bool,
}

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// All of them; two or more.
    And(Vec<Expr>),
    /// Any of them; two or more.
    Or(Vec<Expr>),
    /// Not.
    Not(Box<Expr>),
    /// `left op right`.
    Compare(Atom, Compare, Atom),
    /// `column like 'pattern'`.
    Like(Atom, Atom),
    /// `column in (a, b)`.
    In(Atom, Vec<Atom>),
    /// `column is null`.
    IsNull(Atom),
    /// A column that is true or false by itself.
    Truth(Atom),
}

/// One processor of PROCESS.
#[derive(Clone, Debug, PartialEq)]
pub struct Processor {
    /// The chain of blocks: `diff-group`.
    pub name: Atom,
    /// Its arguments.
    pub args: Vec<Arg>,
}

/// An argument: `group=srcIP, destIP`.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// What stands before `=`.
    pub name: Atom,
    /// What stands behind it; one or more.
    pub values: Vec<Atom>,
}
