//! What stands behind a processor, HAVING, ORDER BY and LIMIT … ROWS: conditions and keys over the columns of its results.

use std::sync::Arc;

use plan::{Direction, Pipeline, Predicate, Selection, SortKey, result};
use tuple::{DataType, Schema};

use super::condition::Conditions;
use super::names::Scope;
use super::processor::{K_MAX, ProcessorReader};
use crate::ast::Atom;
use crate::error::quoted;
use crate::{Diagnostic, literal};

impl ProcessorReader<'_> {
    /// Which rows of the processor's results are shown.
    pub(super) fn selection(&mut self, processor: &Pipeline) -> Selection {
        let schema = result::schema(processor, result::Intervals::None, &|c| self.scope.field(c).clone());
        let schema = [Arc::new(Schema { name: processor.name.clone().into(), ..schema })];
        let is_whole = self.chain_is_whole && self.scope.is_complete();
        let scope = Scope::of_results(&schema, is_whole);
        Selection { having: self.having(&scope), order_by: self.order_by(&scope), rows_max: self.rows_max() }
    }

    fn having(&mut self, scope: &Scope<'_>) -> Option<Predicate> {
        let condition = self.ast.having.as_ref()?;
        Conditions::new(scope, self.hosts, self.errors).check(condition)
    }

    fn order_by(&mut self, scope: &Scope<'_>) -> Vec<SortKey> {
        let mut keys: Vec<SortKey> = Vec::new();
        for (name, direction) in &self.ast.order_by {
            match sort_key(name, *direction, scope) {
                Ok(key) if keys.iter().any(|other| other.column == key.column) => {
                    let message = format!("{} is sorted by already", quoted(&name.text));
                    self.errors.push(Diagnostic::new(name.span, message));
                }
                Ok(key) => keys.push(key),
                Err(error) => self.errors.extend(error),
            }
        }
        keys
    }

    fn rows_max(&mut self) -> Option<usize> {
        let atom = self.ast.rows_max.as_ref()?;
        let number = literal::whole(&atom.text).ok().filter(|n| (1..=K_MAX).contains(n));
        if number.is_none() {
            let error = Diagnostic::new(atom.span, format!("{} is no number of rows", quoted(&atom.text)));
            self.errors.push(error.expected(format!("a whole number from 1 to {K_MAX}")));
        }
        number.and_then(|n| usize::try_from(n).ok())
    }

    /// Complains of a selection where there can be none.
    pub(super) fn nothing_is_selected(&mut self) {
        let ast = self.ast;
        let clause = match (&ast.having, ast.order_by.as_slice(), &ast.rows_max) {
            (Some(_), ..) => "HAVING",
            (_, [_, ..], _) => "ORDER BY",
            (.., Some(_)) => "LIMIT n ROWS",
            _ => return,
        };
        let error = Diagnostic::new(ast.name.span, format!("{clause} is of no use with `workload-profile`"));
        self.errors
            .push(error.hint("its rows tell of different things; k= says how many of the hottest are shown"));
    }
}

fn sort_key(name: &Atom, direction: Direction, scope: &Scope<'_>) -> Result<SortKey, Option<Diagnostic>> {
    let column = scope.find(name)?.column;
    match scope.field(column).data_type {
        DataType::Json => Err(Some(Diagnostic::new(name.span, "a distribution has no order"))),
        _ => Ok(SortKey { column, direction }),
    }
}
