//! Ranking of a processor's groups: `top-k`.

use plan::{Pipeline, TopK, result};

use super::super::names;
use super::{K, K_MAX, ProcessorReader};
use crate::Diagnostic;
use crate::ast::{ExprForm, ProcessorArg};
use crate::blocks::ProcessorBlock;
use crate::error::quoted;
use crate::nearest::{did_you_mean, one_of};

impl ProcessorReader<'_> {
    pub(in crate::check) fn top_k(
        &mut self,
        processor: &Pipeline,
        by: Option<usize>,
    ) -> Option<TopK> {
        let placed = self
            .chain
            .iter()
            .find(|p| p.block == ProcessorBlock::TopK)
            .copied()?;
        let given = self.whole_number("k", K_MAX);
        if let (Some(named), Some(arg)) = (placed.k, self.arg("k")) {
            let message = format!("`top-{named}` already sets k");
            self.errors
                .push(Diagnostic::new(arg.name.span, message).hint("omit one of them"));
        }
        if placed.k.is_some_and(|k| k == 0 || k as i128 > K_MAX) {
            let error = Diagnostic::new(placed.span, "the number of groups is out of range");
            self.errors
                .push(error.expected(format!("a number from 1 to {K_MAX}")));
        }
        let k = placed.k.or(given).unwrap_or(K);
        if let Some(arg) = self.arg("by") {
            return Some(TopK {
                k,
                by: self.ranked_by(arg, processor)?,
            });
        }
        let by = by.or_else(|| {
            let first = self
                .chain
                .iter()
                .find(|p| p.block.is_aggregate() || p.block == ProcessorBlock::TopK);
            if self.chain_is_whole && first.is_some_and(|p| p.block == ProcessorBlock::TopK) {
                let error = Diagnostic::new(
                    placed.span,
                    "`top-k` before all aggregates has nothing to rank by",
                );
                let hint = "put it after an aggregate, as in `group-sum-top-k`, or add by=";
                self.errors.push(error.hint(hint));
            }
            None
        })?;
        if processor
            .aggregates
            .get(by)
            .is_some_and(|a| a.aggregate.is_distribution())
        {
            let error = Diagnostic::new(placed.span, "a distribution cannot be ranked");
            self.errors.push(
                error.hint("put `top-k` after another aggregate, as in `group-count-top-k-hist`"),
            );
        }
        Some(TopK { k, by })
    }

    /// The index of the aggregate named by `by=`.
    pub(in crate::check) fn ranked_by(
        &mut self,
        arg: &ProcessorArg,
        processor: &Pipeline,
    ) -> Option<usize> {
        self.single(arg)?;
        let schema = result::schema(processor, result::IntervalMode::None, &|c| {
            self.scope.field(c).clone()
        });
        let key = self.with_result_columns(&arg.columns.first()?.expr, processor, &schema);
        let name = match &key.form {
            ExprForm::Atom(atom) => atom,
            _ => arg.values.first()?,
        };
        let first = result::first_aggregate(processor);
        let columns = &schema.fields[first..first + processor.aggregates.len()];
        let is_ranked = |place: &usize| !processor.aggregates[*place].aggregate.is_distribution();
        let found = columns
            .iter()
            .position(|field| names::names_result(&name.text, field));
        if found.is_some_and(|place| is_ranked(&place)) || !self.chain_is_whole {
            return found;
        }
        let ranked = (0..columns.len())
            .filter(is_ranked)
            .map(|place| columns[place].name.as_ref());
        let message = match found {
            Some(_) => "a distribution cannot be ranked".to_owned(),
            None => format!(
                "{} is not a result of {}",
                quoted(&name.text),
                quoted(&processor.name)
            ),
        };
        let error = Diagnostic::new(name.span, message);
        self.errors.push(
            match did_you_mean(&name.text, ranked.clone()).filter(|_| found.is_none()) {
                Some(hint) => error.hint(hint),
                None => error.expected(one_of(ranked)),
            },
        );
        None
    }
}
