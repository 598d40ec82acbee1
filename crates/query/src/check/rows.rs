//! SELECT, ORDER BY, and LIMIT n ROWS: the output of tuples that are the result.

use plan::{Column, RawRows, SortDirection};
use tuple::common;

use super::condition::literal_of;
use super::names::NameScope;
use super::values::ConditionChecker;
use crate::ast::{self, Atom, ExprForm, NamedExpr, SelectItem};
use crate::error::quoted;
use crate::literal;
use crate::{Diagnostic, TextSpan};

/// Maximum rows stored for ORDER BY.
const ROWS_MAX: i128 = 100_000;

/// Maximum columns of SELECT, and maximum keys of ORDER BY.
const LISTED_MAX: usize = 256;

/// Checks the clauses; errors are added to `errors`.
pub(super) fn rows(
    ast: &ast::ParsedQuery,
    scope: &NameScope<'_>,
    errors: &mut Vec<Diagnostic>,
) -> RawRows {
    if !ast.processors.is_empty() {
        processed(ast, errors);
        return RawRows::default();
    }
    let spans = ast.select.iter().map(SelectItem::span);
    too_many(spans, "columns are selected", errors);
    too_many(
        ast.order.iter().map(|(key, _)| key.span),
        "sort keys",
        errors,
    );
    let select = (!ast.select.is_empty()).then(|| select(&ast.select, scope, errors));
    let order = order(&ast.order, scope, errors);
    let most = if ast.order.is_empty() {
        i64::MAX.into()
    } else {
        ROWS_MAX
    };
    let rows_max = count(&ast.rows, most, errors);
    if let (Some((first, _)), true) = (ast.order.first(), ast.rows.is_empty()) {
        let error = Diagnostic::new(first.span, "ORDER BY of tuples needs a limit of rows");
        errors.push(error.hint("add a limit, as in LIMIT 20 ROWS"));
    }
    RawRows {
        select,
        order,
        rows_max,
    }
}

fn too_many(mut places: impl Iterator<Item = TextSpan>, what: &str, errors: &mut Vec<Diagnostic>) {
    errors.extend(
        places
            .nth(LISTED_MAX)
            .map(|place| Diagnostic::new(place, format!("more than {LISTED_MAX} {what}"))),
    );
}

/// Reports clauses for raw tuples in a query with PROCESS.
fn processed(ast: &ast::ParsedQuery, errors: &mut Vec<Diagnostic>) {
    let selected = ast.select.first().map(SelectItem::span);
    let hint = "with PROCESS, name columns in `group=` and `value=`";
    errors.extend(selected.map(|span| {
        Diagnostic::new(span, "SELECT applies to tuples, not to results of PROCESS").hint(hint)
    }));
    let ordered = ast
        .order
        .first()
        .map(|(key, _)| key.span)
        .into_iter()
        .chain(ast.rows.first().map(|rows| rows.span));
    errors.extend(ordered.map(|span| {
        Diagnostic::new(
            span,
            "this ORDER BY applies to tuples, but PROCESS returns results",
        )
        .hint("put ORDER BY after the processor")
    }));
}

fn select(list: &[SelectItem], scope: &NameScope<'_>, errors: &mut Vec<Diagnostic>) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    let mut all_at = None;
    for selected in list.iter().take(LISTED_MAX) {
        match selected {
            SelectItem::All(span) if all_at.is_some() => {
                errors.push(Diagnostic::new(*span, "`*` occurs twice"))
            }
            SelectItem::All(_) => all_at = Some(columns.len()),
            SelectItem::Column(named) => {
                let Some(column) = column(named, scope, errors) else {
                    continue;
                };
                let place = named
                    .name
                    .as_ref()
                    .map_or(named.expr.span, |name| name.span);
                if columns
                    .iter()
                    .any(|c| shown_name(*c, scope) == shown_name(column, scope))
                {
                    let message = format!(
                        "two columns are named {}",
                        quoted(&shown_name(column, scope))
                    );
                    errors.push(Diagnostic::new(place, message).hint("rename one of them with AS"));
                } else {
                    columns.push(column);
                }
            }
        }
    }
    if let Some(at) = all_at {
        let names: Vec<String> = columns.iter().map(|c| shown_name(*c, scope)).collect();
        let mut others = every(scope);
        others.retain(|c| !columns.contains(c) && !names.contains(&shown_name(*c, scope)));
        columns.splice(at..at, others);
    }
    columns
}

/// Output name of a column.
fn shown_name(column: Column, scope: &NameScope<'_>) -> String {
    let name = &scope.field(column).name;
    let is_first = |schema: &tuple::Schema, input: usize| {
        input < usize::from(column.input) && schema.find(name).is_some()
    };
    let is_taken = column.computed_place().is_none()
        && scope.inputs.iter().enumerate().any(|(i, s)| is_first(s, i));
    if is_taken {
        scope.full_name(column)
    } else {
        name.to_string()
    }
}

/// The default output columns.
fn every(scope: &NameScope<'_>) -> Vec<Column> {
    let of = |(input, schema): (usize, &std::sync::Arc<tuple::Schema>)| {
        let ids: Vec<_> = schema
            .ids()
            .filter(|id| *id != common::SAMPLE_RATE)
            .collect();
        ids.into_iter().map(move |field| Column {
            input: input as u16,
            field,
        })
    };
    let is_same = |c: &Column| c.input > 0 && common::SAME_IN_ALL.contains(&c.field);
    scope
        .inputs
        .iter()
        .enumerate()
        .flat_map(of)
        .filter(|c| !is_same(c))
        .collect()
}

/// The column of a field, or a computed column; a renamed field is a computed column, too.
pub(super) fn column(
    named: &NamedExpr,
    scope: &NameScope<'_>,
    errors: &mut Vec<Diagnostic>,
) -> Option<Column> {
    let mut conditions = ConditionChecker::new(scope, errors);
    match (&named.expr.form, &named.name) {
        (ExprForm::Atom(atom), None) if literal_of(&named.expr).is_none() => {
            conditions.column(atom).map(|n| n.column)
        }
        (ExprForm::Atom(atom), Some(name)) if literal_of(&named.expr).is_none() => {
            let found = conditions.column(atom)?.column;
            if scope.field(found).name == name.text {
                return Some(found);
            }
            conditions
                .computed(&named.expr, Some(name))
                .map(|n| n.column)
        }
        (_, name) => conditions
            .computed(&named.expr, name.as_ref())
            .map(|n| n.column),
    }
}

fn order(
    keys: &[(ast::QueryExpr, SortDirection)],
    scope: &NameScope<'_>,
    errors: &mut Vec<Diagnostic>,
) -> Vec<(Column, SortDirection)> {
    let mut conditions = ConditionChecker::new(scope, errors);
    keys.iter()
        .take(LISTED_MAX)
        .filter_map(|(key, direction)| Some((conditions.operand(key)?.column, *direction)))
        .collect()
}

fn count(atoms: &[Atom], most: i128, errors: &mut Vec<Diagnostic>) -> Option<u64> {
    let mut max = None;
    for atom in atoms {
        match literal::whole(&atom.text) {
            Ok(n @ 1..) if n <= most && max.is_none() => max = Some(n as u64),
            Ok(n @ 1..) if n <= most => {
                errors.push(Diagnostic::new(atom.span, "a second limit of rows"))
            }
            _ => {
                let error = Diagnostic::new(
                    atom.span,
                    format!("{} is not a number of rows", quoted(&atom.text)),
                );
                errors.push(error.expected(format!("a whole number from 1 to {most}")));
            }
        }
    }
    max
}
