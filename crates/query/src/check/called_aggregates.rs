//! The block `aggregate`: aggregates as calls, as in `columns=count(*) AS n, p99(response_time)`. Each has its own
//! value and may have its own name; statements in SQL have no others.

use plan::{AggregateColumn, AggregateFunction, Column, Pipeline, ShareTotal, result};
use tuple::Schema;

use super::processor::{ComputedAggregates, ProcessorReader, VALUES_MAX};
use super::rows;
use super::values::ConditionChecker;
use crate::Diagnostic;
use crate::aggregates::{self, CalledAggregate};
use crate::ast::{Atom, ExprForm, NamedExpr, QueryExpr};
use crate::blocks::{BLOCKS, ProcessorBlock};
use crate::error::quoted;
use crate::literal;
use crate::nearest::{did_you_mean, one_of};

/// Maximum aggregates of a processor.
const AGGREGATES_MAX: usize = 64;

impl ProcessorReader<'_> {
    /// Checks the calls of `columns=`.
    pub(super) fn called_aggregates(&mut self, group: &[Column]) -> ComputedAggregates {
        let place = self.place(ProcessorBlock::Aggregate).unwrap_or_default();
        let other = self.chain.iter().find(|placed| {
            placed.block == ProcessorBlock::Diff
                || (placed.block.is_aggregate() && placed.block != ProcessorBlock::Aggregate)
        });
        if let Some(other) = other {
            let message = format!(
                "`{}` cannot be combined with `aggregate`",
                other.block.name()
            );
            self.errors
                .push(Diagnostic::new(other.span, message).hint("name all aggregates in columns="));
        }
        for name in ["value", "q", "of"] {
            if let Some(arg) = self.arg(name) {
                let message = format!("`{name}` has no effect with `aggregate`");
                self.errors.push(Diagnostic::new(arg.name.span, message));
            }
        }
        let mut computed = ComputedAggregates::default();
        let Some(arg) = self.arg("columns") else {
            let error = Diagnostic::new(place, "`aggregate` needs `columns=`");
            self.errors
                .push(error.hint("name aggregates, as in columns=count(*), avg(response_time)"));
            return computed;
        };
        if let Some(beyond) = arg.columns.get(AGGREGATES_MAX) {
            let message = format!("more than {AGGREGATES_MAX} aggregates");
            self.errors.push(Diagnostic::new(beyond.expr.span, message));
        }
        for named in arg.columns.iter().take(AGGREGATES_MAX) {
            let counted = counted_value(&named.expr);
            let call = counted.as_ref().unwrap_or(&named.expr);
            let Some((aggregate, value)) = self.called(call, group, &mut computed) else {
                continue;
            };
            let written = || match (&named.name, &counted) {
                (Some(name), _) => Some(name.text.clone()),
                (None, Some(_)) => Some(self.scope.text[named.expr.span.range()].to_owned()),
                (None, None) => None,
            };
            computed.aggregates.push(AggregateColumn {
                aggregate,
                value,
                name: written(),
            });
        }
        computed.ranked = computed.aggregates.len().checked_sub(1);
        computed
    }

    /// The aggregate of a call, and the index of its value.
    fn called(
        &mut self,
        call: &QueryExpr,
        group: &[Column],
        computed: &mut ComputedAggregates,
    ) -> Option<(AggregateFunction, usize)> {
        let ExprForm::Call(name, args) = &call.form else {
            let text = &self.scope.text[call.span.range()];
            let error = Diagnostic::new(call.span, format!("{} is not an aggregate", quoted(text)));
            self.errors
                .push(error.expected("a call such as count(*) or p99(response_time)"));
            return None;
        };
        let Some(called) = aggregates::named(&name.text) else {
            self.errors.push(unknown_aggregate(name));
            return None;
        };
        let block = match called {
            CalledAggregate::Block(block) => block,
            CalledAggregate::Quantile(_) => ProcessorBlock::Quantile,
        };
        let args_max = match called {
            CalledAggregate::Block(ProcessorBlock::Quantile) => 2,
            CalledAggregate::Block(
                ProcessorBlock::Count | ProcessorBlock::Rate | ProcessorBlock::Success,
            ) => 0,
            _ => 1,
        };
        let counts_rows = block == ProcessorBlock::Count && args.iter().all(is_one);
        if args.len() > args_max && !counts_rows {
            let message = format!("{} has too many arguments", quoted(&name.text));
            self.errors
                .push(Diagnostic::new(args[args_max].span, message));
            return None;
        }
        let function = match block {
            ProcessorBlock::Count => AggregateFunction::Count,
            ProcessorBlock::Rate => AggregateFunction::Rate,
            ProcessorBlock::Success => {
                let (input, condition) = self.success_at(name.span)?;
                computed.success = Some((input, name.span));
                AggregateFunction::Success(condition)
            }
            ProcessorBlock::Ratio => {
                let condition = self.argument(name, args.first(), "a condition")?;
                AggregateFunction::Ratio(
                    ConditionChecker::new(self.scope, self.errors).check(condition)?,
                )
            }
            ProcessorBlock::Distinct => {
                let column = self.argument(name, args.first(), "a column")?;
                let column = self.column_of(column)?;
                self.differs_in_group(name.span, column, group);
                AggregateFunction::Distinct(column)
            }
            ProcessorBlock::Share if args.is_empty() => {
                AggregateFunction::Share(ShareTotal::Tuples)
            }
            ProcessorBlock::Share => AggregateFunction::Share(ShareTotal::Values),
            ProcessorBlock::Sum => AggregateFunction::Sum,
            ProcessorBlock::Avg => AggregateFunction::Avg,
            ProcessorBlock::Min => AggregateFunction::Min,
            ProcessorBlock::Max => AggregateFunction::Max,
            ProcessorBlock::Stddev => AggregateFunction::Stddev,
            ProcessorBlock::Throughput => AggregateFunction::Throughput,
            ProcessorBlock::Hist => AggregateFunction::Hist,
            ProcessorBlock::Cdf => AggregateFunction::Cdf,
            _ => AggregateFunction::Quantile(self.quantile_of(name, called, args)?),
        };
        if !function.takes_value() {
            return Some((function, 0));
        }
        let column = match args.first() {
            Some(expr) => self.column_of(expr)?,
            None => self.measure_of(block, name.span)?,
        };
        let column = self.usable_by(block, args.first().map_or(name.span, |a| a.span), column)?;
        let known = computed.values.iter().position(|value| *value == column);
        if known.is_none() && computed.values.len() == VALUES_MAX {
            let message = format!("more than {VALUES_MAX} values");
            self.errors.push(Diagnostic::new(name.span, message));
            return None;
        }
        let value = known.unwrap_or_else(|| {
            computed.values.push(column);
            computed.values.len() - 1
        });
        Some((function, value))
    }

    fn quantile_of(
        &mut self,
        name: &Atom,
        called: CalledAggregate,
        args: &[QueryExpr],
    ) -> Option<f64> {
        if let CalledAggregate::Quantile(quantile) = called {
            return Some(quantile);
        }
        let of_hundred = name.text.to_ascii_lowercase().ends_with("percentile");
        let expected = if of_hundred {
            "a percentage from 0 to 100, as in percentile(response_time, 99)"
        } else {
            "a number from 0 to 1, as in quantile(response_time, 0.99)"
        };
        let number_of = |arg: &QueryExpr| match &arg.form {
            ExprForm::Atom(atom) => literal::real(&atom.text).ok(),
            _ => None,
        };
        let number = args.get(1).and_then(number_of);
        if let [first, second] = args
            && number.is_none()
            && number_of(first).is_some()
        {
            let text = |arg: &QueryExpr| &self.scope.text[arg.span.range()];
            let call = format!("{}({}, {})", name.text, text(second), text(first));
            let error = Diagnostic::new(
                first.span.to(second.span),
                "the value is the first argument",
            );
            self.errors.push(error.hint(format!("write {call}")));
            return None;
        }
        // Both ways of counting percentiles are in use.
        let quantile = number.map(|number| {
            if of_hundred && number > 1.0 {
                number / 100.0
            } else {
                number
            }
        });
        let valid = quantile.filter(|quantile| (0.0..=1.0).contains(quantile));
        if valid.is_none() {
            let span = args.get(1).map_or(name.span, |arg| arg.span);
            let message = format!("{} needs a quantile", quoted(&name.text));
            self.errors
                .push(Diagnostic::new(span, message).expected(expected));
        }
        valid.map(f64::abs)
    }

    /// The argument of a call, which is required.
    fn argument<'b>(
        &mut self,
        name: &Atom,
        arg: Option<&'b QueryExpr>,
        expected: &str,
    ) -> Option<&'b QueryExpr> {
        if arg.is_none() {
            let message = format!("{} needs an argument", quoted(&name.text));
            self.errors
                .push(Diagnostic::new(name.span, message).expected(expected));
        }
        arg
    }

    fn column_of(&mut self, expr: &QueryExpr) -> Option<Column> {
        let named = NamedExpr {
            expr: expr.clone(),
            name: None,
        };
        rows::column(&named, self.scope, self.errors)
    }

    /// HAVING and ORDER BY with the result columns in place of the calls and groups that compute them.
    pub(super) fn with_result_columns(
        &self,
        expr: &QueryExpr,
        processor: &Pipeline,
        results: &Schema,
    ) -> QueryExpr {
        if !self.has(ProcessorBlock::Aggregate) {
            return expr.clone();
        }
        let columns_of = |name: &str| {
            self.arg(name)
                .map(|arg| arg.columns.as_slice())
                .unwrap_or_default()
        };
        let first = result::first_aggregate(processor);
        let first_group = if processor.window.is_some() { 2 } else { 0 };
        let aggregates = columns_of("columns").iter().enumerate();
        let groups = columns_of("group").iter().enumerate();
        let columns: Vec<(&QueryExpr, usize)> = aggregates
            .map(|(i, named)| (&named.expr, first + i))
            .chain(groups.map(|(i, named)| (&named.expr, first_group + i)))
            .collect();
        expr.replaced(&|part| {
            let (_, place) = columns.iter().find(|(column, _)| column.means(part))?;
            let name = Atom {
                text: results.fields.get(*place)?.name.to_string(),
                span: part.span,
                quoted: false,
            };
            Some(QueryExpr {
                form: ExprForm::Atom(name),
                span: part.span,
            })
        })
    }
}

fn unknown_aggregate(name: &Atom) -> Diagnostic {
    let error = Diagnostic::new(
        name.span,
        format!("unknown aggregate {}", quoted(&name.text)),
    );
    let names = || {
        let is_listed =
            |block: ProcessorBlock| block.is_aggregate() && block != ProcessorBlock::Aggregate;
        BLOCKS
            .iter()
            .filter(move |doc| is_listed(doc.block))
            .map(|doc| doc.name)
    };
    match did_you_mean(&name.text, names()) {
        Some(hint) => error.hint(hint),
        None => error.expected(one_of(names())),
    }
}

/// `count(x)`, the number of values that are not null, as `sum(if(x is null, 0, 1))`.
fn counted_value(call: &QueryExpr) -> Option<QueryExpr> {
    let ExprForm::Call(name, args) = &call.form else {
        return None;
    };
    let counts =
        aggregates::named(&name.text) == Some(CalledAggregate::Block(ProcessorBlock::Count));
    let [value] = args.as_slice() else {
        return None;
    };
    if !counts || is_one(value) {
        return None;
    }
    let of = |form| QueryExpr {
        form,
        span: call.span,
    };
    let word = |text: &str| Atom {
        text: text.to_owned(),
        span: name.span,
        quoted: false,
    };
    let is_null = of(ExprForm::IsNull(Box::new(value.clone())));
    let number = |text: &str| of(ExprForm::Atom(word(text)));
    let choice = of(ExprForm::Call(
        word("if"),
        vec![is_null, number("0"), number("1")],
    ));
    Some(of(ExprForm::Call(
        word(ProcessorBlock::Sum.name()),
        vec![choice],
    )))
}

/// `1`, as in `count(1)`.
fn is_one(arg: &QueryExpr) -> bool {
    matches!(&arg.form, ExprForm::Atom(atom) if atom.text == "1")
}
