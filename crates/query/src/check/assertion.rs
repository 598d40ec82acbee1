//! Assertions about results: `p99 < 50ms`, `any(count > 100)`, `rows > 0`, `p99 < 50ms WHERE url_template = '/checkout'`.

use std::sync::Arc;

use plan::{ComputedField, Predicate};
use tuple::{DataType, Field, Schema, SchemaFacts, Unit};

use super::computed_fields::ComputedFields;
use super::names::NameScope;
use super::values::ConditionChecker;
use crate::ast::{ExprForm, QueryExpr};
use crate::{Diagnostic, HostTable, TextSpan, grammar};

/// A checked assertion.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    /// The rows for which it must hold.
    pub of: AssertionScope,
    /// Conditions that must all be true, with their positions in the text.
    pub conditions: Vec<(Predicate, TextSpan)>,
    /// WHERE: the rows to be tested; `None` for all.
    pub among: Option<Predicate>,
    /// Columns computed from result columns for the conditions.
    pub computed: Vec<ComputedField>,
}

/// The rows that must satisfy an assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssertionScope {
    /// All rows.
    All,
    /// At least one row.
    Any,
    /// The number of rows, which is the only column of [`rows_schema`].
    Number,
}

/// The schema for assertions about the number of rows.
#[must_use]
pub fn rows_schema() -> Arc<Schema> {
    let field = Field::new("rows", DataType::U64, Unit::None, "number of rows");
    let name = "rows".into();
    let doc = "the number of rows".into();
    let fields = vec![field];
    Arc::new(Schema {
        name,
        version: 1,
        doc,
        fields,
        measure: None,
        key: None,
        parts: &[],
        facts: &SchemaFacts::NONE,
    })
}

/// Checks an assertion about the results of a processor.
///
/// # Errors
/// All errors in the order of the text; [`crate::render`] formats them.
pub fn check_assertion(text: &str, results: &Arc<Schema>) -> Result<Assertion, Vec<Diagnostic>> {
    let (read, mut errors) = grammar::assertion::assertion(text);
    let Some((condition, among)) = read.filter(|_| errors.is_empty()) else {
        return Err(crate::error::in_order(errors));
    };
    let (of, condition) = quantified(condition, results);
    let schema = [if of == AssertionScope::Number {
        rows_schema()
    } else {
        results.clone()
    }];
    let hosts = HostTable::default();
    let of_query = ComputedFields::new();
    let computing = ComputedFields::new();
    let nothing = NameScope::new(&[], &[], false, text, &hosts, &of_query);
    let scope = nothing.of_results(&schema, true, &computing);
    let mut conditions = Vec::new();
    for part in parts(condition) {
        let checked = ConditionChecker::new(&scope, &mut errors).check(&part);
        conditions.extend(checked.map(|checked| (checked, part.span)));
    }
    let place = among.as_ref().map(|among| among.span);
    let among = among.and_then(|among| ConditionChecker::new(&scope, &mut errors).check(&among));
    if let (AssertionScope::Number, Some(place)) = (of, place) {
        errors.push(Diagnostic::new(place, "`rows` counts all rows: omit WHERE"));
    }
    if errors.is_empty() {
        Ok(Assertion {
            of,
            conditions,
            among,
            computed: computing.list(),
        })
    } else {
        Err(crate::error::in_order(errors))
    }
}

/// Checks a condition on individual result rows: an assertion without quantifier and not about the number of rows.
///
/// # Errors
/// As [`check_assertion`].
pub fn check_condition(text: &str, results: &Arc<Schema>) -> Result<Assertion, Vec<Diagnostic>> {
    let read = check_assertion(text, results)?;
    match read.of {
        AssertionScope::All => Ok(read),
        AssertionScope::Any | AssertionScope::Number => {
            let place = TextSpan::new(0, text.len());
            Err(vec![Diagnostic::new(
                place,
                "this condition is evaluated for each row: omit any() and rows",
            )])
        }
    }
}

/// The quantifier and the condition.
fn quantified(condition: QueryExpr, results: &Schema) -> (AssertionScope, QueryExpr) {
    let span = condition.span;
    match condition.form {
        ExprForm::Call(name, mut list)
            if list.len() == 1 && name.text.eq_ignore_ascii_case("any") =>
        {
            (AssertionScope::Any, list.remove(0))
        }
        ExprForm::Call(name, mut list)
            if list.len() == 1 && name.text.eq_ignore_ascii_case("all") =>
        {
            (AssertionScope::All, list.remove(0))
        }
        form => {
            let condition = QueryExpr { form, span };
            let is_number = results.find("rows").is_none() && mentions_rows(&condition);
            (
                if is_number {
                    AssertionScope::Number
                } else {
                    AssertionScope::All
                },
                condition,
            )
        }
    }
}

/// Splits a condition at `and`.
fn parts(condition: QueryExpr) -> Vec<QueryExpr> {
    match condition.form {
        ExprForm::And(parts) => parts,
        _ => vec![condition],
    }
}

fn mentions_rows(expr: &QueryExpr) -> bool {
    match &expr.form {
        ExprForm::Atom(atom) => !atom.quoted && atom.text.eq_ignore_ascii_case("rows"),
        _ => expr.parts().into_iter().any(mentions_rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Arc<Schema> {
        let field = |name: &'static str, data_type, unit| Field::new(name, data_type, unit, "");
        let fields = vec![
            field("url_template", DataType::Text, Unit::None),
            field("count", DataType::U64, Unit::None),
            field("p99_ns", DataType::F64, Unit::Nanoseconds),
            field("baseline_p99_ns", DataType::F64, Unit::Nanoseconds),
            field("differs_p99", DataType::Bool, Unit::None),
        ];
        Arc::new(Schema {
            name: "diff-group".into(),
            fields,
            ..Schema::clone(&rows_schema())
        })
    }

    #[test]
    fn assertions_select_rows() {
        for (text, of, conditions, has_where) in [
            ("p99 < 50ms", AssertionScope::All, 1, false),
            (
                "all(p99 < 50ms and count > 3)",
                AssertionScope::All,
                2,
                false,
            ),
            ("ANY(count >= 100)", AssertionScope::Any, 1, false),
            ("rows > 0", AssertionScope::Number, 1, false),
            ("rows > 0 and rows < 10", AssertionScope::Number, 2, false),
            ("p99 < 1.2 * baseline.p99", AssertionScope::All, 1, false),
            (
                "p99_ns < 50ms where url_template like '/cart%'",
                AssertionScope::All,
                1,
                true,
            ),
            (
                "not differs.p99 or p99 < baseline.p99",
                AssertionScope::All,
                1,
                false,
            ),
            (
                "not coalesce(differs.p99, false)",
                AssertionScope::All,
                1,
                false,
            ),
        ] {
            let found = check_assertion(text, &results())
                .unwrap_or_else(|e| panic!("{}", crate::render(&e, text)));
            assert_eq!(
                (found.of, found.conditions.len(), found.among.is_some()),
                (of, conditions, has_where),
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_assertions_are_reported_with_their_position() {
        for (text, place, says) in [
            ("p98 < 50ms", "p98", "have no column `p98`"),
            ("p99 < 50", "50", "a number needs a unit"),
            ("p99", "p99", "expected"),
            ("", "", "is incomplete"),
            ("p99 < 50ms LIMIT 3", "LIMIT", "the end of the assertion"),
            ("rows > 0 WHERE rows > 1", "rows > 1", "omit WHERE"),
            ("baseline.p97 > 1ms", "baseline.p97", "no column"),
        ] {
            let errors = check_assertion(text, &results()).expect_err(text);
            let rendered = crate::render(&errors, text);
            assert_eq!(&text[errors[0].span.range()], place, "{rendered}");
            assert!(rendered.contains(says), "{text}\n{rendered}");
        }
    }

    #[test]
    fn conditions_are_on_rows() {
        for (text, is_one) in [
            ("p99 > 50ms and count > 3", true),
            ("p99 > 50ms WHERE url_template = '/'", true),
            ("any(p99 > 50ms)", false),
            ("rows > 3", false),
        ] {
            assert_eq!(check_condition(text, &results()).is_ok(), is_one, "{text}");
        }
    }
}
