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
    /// SAMPLE … ERROR.
    pub error: Option<ErrorBound>,
    /// TAPS.
    pub taps: Option<Atom>,
    /// BUDGET.
    pub budget: Option<BudgetClause>,
    /// PROCESS.
    pub processors: Vec<ProcessorClause>,
    /// Columns of a statement with names of their own, which WHERE does not know.
    pub aliases: Vec<NamedExpr>,
}

/// ERROR: maximum relative error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorBound {
    /// Position of the keyword.
    pub span: TextSpan,
    /// Maximum.
    pub value: Atom,
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
    /// `value between low and high`.
    Between(Box<QueryExpr>, Box<QueryExpr>, Box<QueryExpr>),
    /// `value is null`.
    IsNull(Box<QueryExpr>),
}

impl QueryExpr {
    /// The expressions that this one consists of.
    pub(crate) fn parts(&self) -> Vec<&QueryExpr> {
        match &self.form {
            ExprForm::Atom(_) => Vec::new(),
            ExprForm::Negative(inner) | ExprForm::Not(inner) | ExprForm::IsNull(inner) => {
                vec![inner]
            }
            ExprForm::Like(inner, ..) | ExprForm::Matches(inner, ..) | ExprForm::In(inner, _) => {
                vec![inner]
            }
            ExprForm::Arithmetic(left, _, right) | ExprForm::Compare(left, _, right) => {
                vec![left, right]
            }
            ExprForm::Between(value, low, high) => vec![value, low, high],
            ExprForm::Call(_, parts) | ExprForm::And(parts) | ExprForm::Or(parts) => {
                parts.iter().collect()
            }
        }
    }

    /// The same expression with every part replaced for which `replace` returns another.
    #[must_use]
    pub(crate) fn replaced(&self, replace: &dyn Fn(&QueryExpr) -> Option<QueryExpr>) -> QueryExpr {
        if let Some(other) = replace(self) {
            return other;
        }
        let one = |part: &QueryExpr| Box::new(part.replaced(replace));
        let all = |parts: &[QueryExpr]| parts.iter().map(|part| part.replaced(replace)).collect();
        let form = match &self.form {
            ExprForm::Atom(atom) => ExprForm::Atom(atom.clone()),
            ExprForm::Negative(inner) => ExprForm::Negative(one(inner)),
            ExprForm::Not(inner) => ExprForm::Not(one(inner)),
            ExprForm::IsNull(inner) => ExprForm::IsNull(one(inner)),
            ExprForm::Like(inner, pattern, case) => {
                ExprForm::Like(one(inner), pattern.clone(), *case)
            }
            ExprForm::Matches(inner, pattern, case) => {
                ExprForm::Matches(one(inner), pattern.clone(), *case)
            }
            ExprForm::In(inner, values) => ExprForm::In(one(inner), values.clone()),
            ExprForm::Between(value, low, high) => {
                ExprForm::Between(one(value), one(low), one(high))
            }
            ExprForm::Arithmetic(left, op, right) => {
                ExprForm::Arithmetic(one(left), *op, one(right))
            }
            ExprForm::Compare(left, op, right) => ExprForm::Compare(one(left), *op, one(right)),
            ExprForm::Call(name, args) => ExprForm::Call(name.clone(), all(args)),
            ExprForm::And(parts) => ExprForm::And(all(parts)),
            ExprForm::Or(parts) => ExprForm::Or(all(parts)),
        };
        QueryExpr {
            form,
            span: self.span,
        }
    }

    /// Whether the source has the expression as it is; false if a part was lowered from another syntax.
    #[must_use]
    pub(crate) fn is_written(&self, source: &str) -> bool {
        let is_there = |atom: &Atom| source[atom.span.range()].eq_ignore_ascii_case(&atom.text);
        let own = match &self.form {
            ExprForm::Atom(atom) => atom.quoted || is_there(atom),
            // `count(DISTINCT x)` is written so.
            ExprForm::Call(name, _) => is_there(name) || name.text == "distinct",
            _ => !self.is_test_of_case(source),
        };
        own && self.parts().iter().all(|part| part.is_written(source))
    }

    /// Whether it is the equality that CASE has in `CASE x WHEN y`.
    #[must_use]
    pub(crate) fn is_test_of_case(&self, source: &str) -> bool {
        let ExprForm::Compare(left, ComparisonOperator::Eq, right) = &self.form else {
            return false;
        };
        let between = source.get(left.span.end..right.span.start);
        between.is_some_and(|text| text.to_ascii_lowercase().contains("when"))
    }

    /// Whether another expression is the same except for positions and the case of names.
    #[must_use]
    pub(crate) fn means(&self, other: &QueryExpr) -> bool {
        let same_text = |a: &Atom, b: &Atom| match (a.quoted, b.quoted) {
            (true, true) => a.text == b.text,
            (a_quoted, b_quoted) => a_quoted == b_quoted && a.text.eq_ignore_ascii_case(&b.text),
        };
        let same_form = match (&self.form, &other.form) {
            (ExprForm::Atom(a), ExprForm::Atom(b)) => same_text(a, b),
            (ExprForm::Arithmetic(_, a, _), ExprForm::Arithmetic(_, b, _)) => a == b,
            (ExprForm::Compare(_, a, _), ExprForm::Compare(_, b, _)) => a == b,
            (ExprForm::Call(a, _), ExprForm::Call(b, _)) => same_text(a, b),
            (ExprForm::Like(_, a, x), ExprForm::Like(_, b, y))
            | (ExprForm::Matches(_, a, x), ExprForm::Matches(_, b, y)) => same_text(a, b) && x == y,
            (ExprForm::In(_, a), ExprForm::In(_, b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_text(a, b))
            }
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        };
        let mine = self.parts();
        let others = other.parts();
        same_form
            && mine.len() == others.len()
            && mine
                .iter()
                .zip(others)
                .all(|(mine, other)| mine.means(other))
    }
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
    /// Arguments of the processor.
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
