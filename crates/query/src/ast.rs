//! The syntax tree of a query: clauses, lists, and conditions. Names are as written and unresolved.

use plan::{ArithmeticOperator, CaseSensitivity, ComparisonOperator, SortDirection};

use crate::TextSpan;

/// A query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedQuery {
    /// PARSE.
    pub parsers: Vec<Atom>,
    /// SELECT.
    pub select: Vec<SelectItem>,
    /// FROM.
    pub from: Vec<Atom>,
    /// TO.
    pub to: Vec<Atom>,
    /// Each WHERE.
    pub filters: Vec<QueryExpr>,
    /// SINCE.
    pub since: Option<Atom>,
    /// UNTIL.
    pub until: Option<Atom>,
    /// BASELINE.
    pub baseline: Option<BaselineClause>,
    /// ORDER BY.
    pub order: Vec<(QueryExpr, SortDirection)>,
    /// LIMIT: packets and durations.
    pub limits: Vec<Atom>,
    /// LIMIT n ROWS: all values of `n`.
    pub rows: Vec<Atom>,
    /// SAMPLE.
    pub sample: Option<Atom>,
    /// TAPS.
    pub taps: Option<Atom>,
    /// BUDGET.
    pub budget: Option<BudgetClause>,
    /// PROCESS.
    pub processors: Vec<ProcessorClause>,
}

/// BUDGET: maximum resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetClause {
    /// Position of the keyword.
    pub span: TextSpan,
    /// Limits such as `cpu=5%`.
    pub bounds: Vec<BudgetBound>,
}

/// `name=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetBound {
    /// Name of the limit.
    pub name: Atom,
    /// Maximum.
    pub value: Atom,
}

/// BASELINE: an offset, or its own SINCE and UNTIL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaselineClause {
    /// Position of the keyword.
    pub span: TextSpan,
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
    pub span: TextSpan,
    /// Whether it was quoted.
    pub quoted: bool,
}

/// An expression: a value, or a condition, which is a boolean value.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryExpr {
    /// Form of the expression.
    pub form: ExprForm,
    /// Position.
    pub span: TextSpan,
}

/// The forms of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprForm {
    /// A name or a literal.
    Atom(Atom),
    /// `-x`.
    Negative(Box<QueryExpr>),
    /// `a op b`, nested by the usual precedence: `a + b * c`.
    Arithmetic(Box<QueryExpr>, ArithmeticOperator, Box<QueryExpr>),
    /// `name(a, b)`.
    Call(Atom, Vec<QueryExpr>),
    /// Conjunction of two or more.
    And(Vec<QueryExpr>),
    /// Disjunction of two or more.
    Or(Vec<QueryExpr>),
    /// Negation.
    Not(Box<QueryExpr>),
    /// `left op right`.
    Compare(Box<QueryExpr>, ComparisonOperator, Box<QueryExpr>),
    /// `value like 'pattern'`, or `ilike`.
    Like(Box<QueryExpr>, Atom, CaseSensitivity),
    /// `value ~ 'pattern'`, or `~*`.
    Matches(Box<QueryExpr>, Atom, CaseSensitivity),
    /// `value in (a, b)`.
    In(Box<QueryExpr>, Vec<Atom>),
    /// `value is null`.
    IsNull(Box<QueryExpr>),
}

/// An expression with an optional column name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedExpr {
    /// The expression.
    pub expr: QueryExpr,
    /// AS.
    pub name: Option<Atom>,
}

/// An item of SELECT.
#[derive(Clone, Debug, PartialEq)]
pub enum SelectItem {
    /// `*`.
    All(TextSpan),
    /// A column.
    Column(NamedExpr),
}

impl SelectItem {
    /// Position.
    #[must_use]
    pub fn span(&self) -> TextSpan {
        match self {
            SelectItem::All(span) => *span,
            SelectItem::Column(named) => named.expr.span,
        }
    }
}

/// A processor of PROCESS with its selection of rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessorClause {
    /// The chain of blocks: `diff-group`.
    pub name: Atom,
    /// Its arguments.
    pub args: Vec<ProcessorArg>,
    /// HAVING.
    pub having: Option<QueryExpr>,
    /// ORDER BY.
    pub order_by: Vec<(QueryExpr, SortDirection)>,
    /// LIMIT n ROWS: `n`.
    pub rows_max: Option<Atom>,
}

/// An argument: `group=srcIP, destIP`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessorArg {
    /// Name before `=`.
    pub name: Atom,
    /// Values after `=`, at least one. Expressions as text.
    pub values: Vec<Atom>,
    /// The values as expressions, for arguments with columns: one per value, otherwise empty.
    pub columns: Vec<NamedExpr>,
}
