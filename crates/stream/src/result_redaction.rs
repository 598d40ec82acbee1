//! Redaction of texts in results that leave the machine. Conditions and values use the original texts; group keys,
//! distinct values, and lists of a profile use the output of a [`Redactor`]. The collector receives only redacted
//! texts and redacts nothing.

use plan::{AggregateFunction, Column, Dataflow, Expr, Pipeline};
use tuple::redact::{HASH, TextFold};
use tuple::{Batch, DataType, FieldId, RedactionRule, Redactor, Schema};

/// Tuples before and after redaction.
#[derive(Clone, Copy)]
pub struct RedactedTuples<'a> {
    /// The original batch.
    pub seen: &'a Batch,
    /// The batch with redacted texts, used for results; identical if nothing is redacted.
    pub told: &'a Batch,
}

impl<'a> RedactedTuples<'a> {
    /// Tuples without redaction.
    #[must_use]
    pub fn plain(batch: &'a Batch) -> RedactedTuples<'a> {
        RedactedTuples {
            seen: batch,
            told: batch,
        }
    }
}

/// Redacts the columns used in results.
pub struct ResultRedaction {
    redactor: Redactor,
    columns: Vec<(FieldId, TextFold)>,
}

impl ResultRedaction {
    /// Redaction for a dataflow with tuples of `schema` and computed columns from `base` on; `place` maps columns.
    #[must_use]
    pub fn new(
        redactor: Redactor,
        dataflow: &Dataflow,
        (schema, base): (&Schema, u16),
        place: &dyn Fn(Column) -> FieldId,
    ) -> ResultRedaction {
        let mut folds: Vec<Option<TextFold>> = Vec::new();
        for id in schema.ids() {
            let field = schema.field(id);
            let computed =
                id.0.checked_sub(base)
                    .map(|at| &dataflow.computed[usize::from(at)].expr);
            let inherits = || {
                computed
                    .is_some_and(|expr| says(expr, &|c| folds[usize::from(place(c).0)].is_some()))
            };
            folds.push(match &field.redact {
                _ if !matches!(field.data_type, DataType::Text | DataType::Json) => None,
                RedactionRule::Fold(fold) => Some(*fold),
                // The column that decides per row may be absent, so all rows are redacted.
                RedactionRule::Where(..) => Some(HASH),
                RedactionRule::Keep => inherits().then_some(HASH),
            });
        }
        let is_told = |id: &FieldId| match &dataflow.pipelines[..] {
            [] => true,
            pipelines => pipelines
                .iter()
                .flat_map(told)
                .any(|column| place(column) == *id),
        };
        let told = schema.ids().filter(is_told);
        let columns = told
            .filter_map(|id| Some((id, folds[usize::from(id.0)]?)))
            .collect();
        ResultRedaction { redactor, columns }
    }

    /// The batch with redacted texts.
    #[must_use]
    pub fn fold(&self, batch: &Batch) -> Batch {
        self.redactor.fold_columns(batch, &self.columns)
    }
}

/// The columns with values in the results of a pipeline.
fn told(pipeline: &Pipeline) -> impl Iterator<Item = Column> {
    let distinct = pipeline
        .aggregates
        .iter()
        .filter_map(|c| match c.aggregate {
            AggregateFunction::Distinct(column) => Some(column),
            _ => None,
        });
    let of_profile = pipeline.profile.iter().flat_map(plan::ProfileSpec::columns);
    pipeline
        .group
        .iter()
        .map(|group| group.column)
        .chain(distinct)
        .chain(of_profile)
}

/// Whether the text of an expression contains the value of a column for which `is_folded` is true. Conditions only
/// select and do not count.
fn says(expr: &Expr, is_folded: &dyn Fn(Column) -> bool) -> bool {
    match expr {
        Expr::Column(column) => is_folded(*column),
        Expr::Text(of, _) => says(of, is_folded),
        Expr::If(_, a, b) => says(a, is_folded) || says(b, is_folded),
        Expr::Coalesce(all) => all.iter().any(|expr| says(expr, is_folded)),
        Expr::Literal(_)
        | Expr::Null
        | Expr::Arithmetic(..)
        | Expr::Compare(..)
        | Expr::Test(_)
        | Expr::Trunc(..)
        | Expr::Subnet(..)
        | Expr::Length(_) => false,
    }
}
