//! Clauses after a processor, HAVING, ORDER BY, and LIMIT … ROWS: conditions and keys over its result columns.

use std::sync::Arc;

use plan::{Pipeline, Predicate, ResultSelection, SortDirection, SortKey, result};
use tuple::{DataType, Schema};

use super::computed_fields::ComputedFields;
use super::names::NameScope;
use super::processor::{K_MAX, ProcessorReader};
use super::values::ConditionChecker;
use crate::ast::QueryExpr;
use crate::error::quoted;
use crate::{Diagnostic, literal};

impl ProcessorReader<'_> {
    /// The selection of the processor's result rows.
    pub(super) fn selection(&mut self, processor: &Pipeline) -> ResultSelection {
        let schema = result::schema(processor, result::IntervalMode::None, &|c| {
            self.scope.field(c).clone()
        });
        let schema = [Arc::new(Schema {
            name: processor.name.clone().into(),
            ..schema
        })];
        // If the processor has errors, a missing column may be a consequence.
        let is_whole = self.errors.len() == self.errors_before && self.scope.is_complete();
        let computing = ComputedFields::new();
        let scope = self.scope.of_results(&schema, is_whole, &computing);
        let having = self.having(processor, &scope);
        let order_by = self.order_by(processor, &scope);
        ResultSelection {
            having,
            order_by,
            rows_max: self.rows_max(),
            computed: computing.list(),
        }
    }

    fn having(&mut self, processor: &Pipeline, scope: &NameScope<'_>) -> Option<Predicate> {
        let condition = self.ast.having.as_ref()?;
        let condition = self.with_result_columns(condition, processor, &scope.inputs[0]);
        ConditionChecker::new(scope, self.errors).check(&condition)
    }

    fn order_by(&mut self, processor: &Pipeline, scope: &NameScope<'_>) -> Vec<SortKey> {
        let mut keys: Vec<SortKey> = Vec::new();
        for (expr, direction) in &self.ast.order_by {
            let expr = &self.with_result_columns(expr, processor, &scope.inputs[0]);
            let Some(key) = self.sort_key(expr, *direction, scope) else {
                continue;
            };
            if keys.iter().any(|other| other.column == key.column) {
                let text = &scope.text[expr.span.range()];
                let message = format!("{} is already a sort key", quoted(text));
                self.errors.push(Diagnostic::new(expr.span, message));
            } else {
                keys.push(key);
            }
        }
        keys
    }

    fn sort_key(
        &mut self,
        expr: &QueryExpr,
        direction: SortDirection,
        scope: &NameScope<'_>,
    ) -> Option<SortKey> {
        let column = ConditionChecker::new(scope, self.errors)
            .operand(expr)?
            .column;
        if scope.field(column).data_type == DataType::Json {
            self.errors.push(Diagnostic::new(
                expr.span,
                "a distribution cannot be ordered",
            ));
            return None;
        }
        Some(SortKey { column, direction })
    }

    fn rows_max(&mut self) -> Option<usize> {
        let atom = self.ast.rows_max.as_ref()?;
        let number = literal::whole(&atom.text)
            .ok()
            .filter(|n| (1..=K_MAX).contains(n));
        if number.is_none() {
            let error = Diagnostic::new(
                atom.span,
                format!("{} is not a number of rows", quoted(&atom.text)),
            );
            self.errors
                .push(error.expected(format!("a whole number from 1 to {K_MAX}")));
        }
        number.and_then(|n| usize::try_from(n).ok())
    }

    /// Reports a selection where none is allowed.
    pub(super) fn nothing_is_selected(&mut self) {
        let ast = self.ast;
        let clause = match (&ast.having, ast.order_by.as_slice(), &ast.rows_max) {
            (Some(_), ..) => "HAVING",
            (_, [_, ..], _) => "ORDER BY",
            (.., Some(_)) => "LIMIT n ROWS",
            _ => return,
        };
        let error = Diagnostic::new(
            ast.name.span,
            format!("{clause} has no effect with `workload-profile`"),
        );
        self.errors.push(
            error.hint("its rows have different meanings; k= sets the number of hottest entries"),
        );
    }
}
