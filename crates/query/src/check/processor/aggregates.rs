//! Aggregates of a processor: its values, the conditions that it counts, ratios, and quantiles.

use std::sync::Arc;

use plan::{AggregateColumn, AggregateFunction, Column, Predicate, ShareTotal};
use tuple::{DataType, Schema, Unit};

use super::super::condition::builtin;
use super::super::values::{ConditionChecker, kind};
use super::{
    ComputedAggregates, ProcessorReader, QUANTILES, QUANTILES_MAX, VALUES_MAX, default_statistics,
};
use crate::ast::{Atom, ProcessorArg};
use crate::blocks::ProcessorBlock;
use crate::error::quoted;
use crate::nearest::one_of;
use crate::{Diagnostic, TextSpan, aliases, literal};

impl ProcessorReader<'_> {
    /// The aggregates of the chain's blocks.
    pub(in crate::check) fn block_aggregates(
        &mut self,
        group: &[Column],
        key_is_group: bool,
    ) -> ComputedAggregates {
        let given = self.arg("value").map(|arg| (arg, self.columns(arg)));
        let given = given
            .as_ref()
            .map(|(arg, columns)| (*arg, columns.as_slice()));
        let values = self.values(given);
        let distinct = self.distinct(group, key_is_group, given);
        let place = self.place(ProcessorBlock::Success);
        let success = place.and_then(|place| Some((self.success_at(place)?, place)));
        let condition = success
            .as_ref()
            .map(|((_, condition), _)| condition.clone());
        let (aggregates, ranked) = self.aggregates(&values, &distinct, condition);
        ComputedAggregates {
            values,
            aggregates,
            ranked,
            success: success.map(|((input, _), place)| (input, place)),
        }
    }

    /// The columns to aggregate; `given` is from `value=`.
    pub(in crate::check) fn values(
        &mut self,
        given: Option<(&ProcessorArg, &[Column])>,
    ) -> Vec<Column> {
        if given.is_some_and(|(arg, columns)| columns.len() < arg.values.len()) {
            return Vec::new();
        }
        if self.has(ProcessorBlock::Diff) {
            return self.difference(given).into_iter().collect();
        }
        let user = self.chain.iter().map(|p| p.block).find(|b| b.needs_value());
        let Some((arg, columns)) = given else {
            let block = if self.has(ProcessorBlock::Throughput) {
                Some(ProcessorBlock::Throughput)
            } else {
                user
            };
            let measure = match block {
                Some(block) => {
                    let place = self.place(block).unwrap_or_default();
                    self.measure_of(block, place)
                }
                None => self.default_of(|s| s.measure),
            };
            return measure.into_iter().collect();
        };
        if let Some(beyond) = arg.values.get(VALUES_MAX) {
            self.errors.push(Diagnostic::new(
                beyond.span,
                format!("more than {VALUES_MAX} values"),
            ));
        }
        if user.is_some() || self.has(ProcessorBlock::Share) || self.has_statistics() {
            let numeric = arg
                .values
                .iter()
                .zip(columns)
                .filter_map(|(atom, c)| self.numeric(atom, *c));
            return numeric.collect();
        }
        if !self.has(ProcessorBlock::Distinct) && self.chain_is_whole {
            let error = Diagnostic::new(
                arg.name.span,
                format!("no block in {} uses a value", quoted(&self.ast.name.text)),
            );
            self.errors.push(error.hint(format!(
                "add an aggregate, as in {}",
                quoted(&format!("sum-{}", self.ast.name.text))
            )));
        }
        columns.to_vec()
    }

    /// The column that a block aggregates by default.
    pub(in crate::check) fn measure_of(
        &mut self,
        block: ProcessorBlock,
        place: TextSpan,
    ) -> Option<Column> {
        let adds_up = block == ProcessorBlock::Throughput;
        let fits = |field: tuple::FieldId, s: &Schema| {
            !adds_up || s.field(field).unit != Unit::Nanoseconds
        };
        let measure = self.default_of(|s| s.measure.filter(|field| fits(*field, s)));
        if measure.is_none() && self.scope.is_complete() {
            let error = Diagnostic::new(place, format!("`{}` needs `value=`", block.name()));
            let is_number = |f: &tuple::Field| {
                matches!(f.data_type, DataType::U64 | DataType::I64 | DataType::F64)
            };
            let numbers = if adds_up {
                self.examples(|f| f.unit == Unit::Bytes)
            } else {
                self.examples(is_number)
            };
            self.errors
                .push(error.hint(format!("name the column, as in value={}", one_of(numbers))));
        }
        measure
    }

    /// The value of `diff`.
    pub(in crate::check) fn difference(
        &mut self,
        given: Option<(&ProcessorArg, &[Column])>,
    ) -> Option<Column> {
        if let Some((arg, &[column, ..])) = given {
            if let [_, second, ..] = arg.values.as_slice() {
                let error = Diagnostic::new(second.span, "`diff` has one value, the difference");
                self.errors
                    .push(error.hint("omit `diff`, or use several processors"));
            }
            let field = self.scope.field(column);
            if field.unit != Unit::Nanoseconds {
                let message = format!(
                    "`diff` is a difference of times, but `{}` is {}",
                    field.name,
                    kind(field)
                );
                self.errors
                    .push(Diagnostic::new(arg.values[0].span, message));
            }
            return Some(column);
        }
        let found = aliases::DIFFERENCES
            .iter()
            .find_map(|name| self.scope.exact(name));
        if found.is_none() && self.scope.is_complete() {
            let place = self.place(ProcessorBlock::Diff).unwrap_or_default();
            let message = "`diff` needs a parser that records two times: a connection's start and end, or a request and its response";
            self.errors.push(
                Diagnostic::new(place, message).hint("add tcp_conn_time to PARSE, or omit `diff`"),
            );
        }
        found
    }

    pub(in crate::check) fn numeric(&mut self, name: &Atom, column: Column) -> Option<Column> {
        let orders_only =
            |b: &ProcessorBlock| matches!(b, ProcessorBlock::Min | ProcessorBlock::Max);
        let blocks = || self.chain.iter().map(|p| p.block);
        let throughput = blocks().find(|b| *b == ProcessorBlock::Throughput);
        let block = throughput
            .or_else(|| blocks().find(|b| b.needs_value() && !orders_only(b)))
            .or_else(|| blocks().find(orders_only))
            .or_else(|| blocks().next())?;
        self.usable_by(block, name.span, column)
    }

    /// The column if the block can aggregate its values.
    pub(in crate::check) fn usable_by(
        &mut self,
        block: ProcessorBlock,
        place: TextSpan,
        column: Column,
    ) -> Option<Column> {
        let field = self.scope.field(column);
        let is_number = matches!(
            field.data_type,
            DataType::U64 | DataType::I64 | DataType::F64
        ) && field.unit != Unit::Id;
        let is_time = field.unit == Unit::EpochNanoseconds;
        let orders_only = matches!(block, ProcessorBlock::Min | ProcessorBlock::Max);
        let adds_durations = block == ProcessorBlock::Throughput && field.unit == Unit::Nanoseconds;
        if is_number && !adds_durations && (orders_only || !is_time) {
            return Some(column);
        }
        let message = format!(
            "`{}` cannot use `{}`, which is {}",
            block.name(),
            field.name,
            kind(field)
        );
        let error = Diagnostic::new(place, message);
        self.errors.push(if is_time {
            error.hint("points in time support only `min` and `max`")
        } else if adds_durations {
            error.expected("bytes, or another number that adds up")
        } else {
            error
                .expected("a column of numbers")
                .hint("`distinct` accepts any column")
        });
        None
    }

    /// The columns counted by `distinct`: `value=`, otherwise `key=`, otherwise the parser's key.
    pub(in crate::check) fn distinct(
        &mut self,
        group: &[Column],
        key_is_group: bool,
        value: Option<(&ProcessorArg, &[Column])>,
    ) -> Vec<Column> {
        let key = self.arg("key").filter(|_| !key_is_group);
        let Some(place) = self.place(ProcessorBlock::Distinct) else {
            if let Some(key) = key.filter(|_| self.chain_is_whole) {
                let error = Diagnostic::new(key.name.span, "`key=` has no effect here");
                let hint = if group.is_empty() {
                    "it belongs to the block `top-k`"
                } else {
                    "`group=` names the groups already"
                };
                self.errors.push(error.hint(hint));
            }
            return Vec::new();
        };
        let value = value
            .filter(|_| !self.has(ProcessorBlock::Diff))
            .map(|(_, columns)| columns.to_vec());
        let is_default = value.is_none() && key.is_none();
        let columns = match (value, key) {
            (Some(columns), _) => columns,
            (None, Some(key)) => self.column(key).into_iter().collect(),
            (None, None) => self.default_of(|s| s.key).into_iter().collect(),
        };
        if columns.is_empty() && is_default && self.scope.is_complete() {
            let hint = format!(
                "name the column, as in value={}",
                one_of(self.examples(|_| true))
            );
            self.errors
                .push(Diagnostic::new(place, "`distinct` needs `value=`").hint(hint));
        }
        for column in &columns {
            self.differs_in_group(place, *column, group);
        }
        columns
    }

    /// Reports that `distinct` counts a group column.
    pub(in crate::check) fn differs_in_group(
        &mut self,
        place: TextSpan,
        column: Column,
        group: &[Column],
    ) {
        if group.contains(&column) {
            let name = &self.scope.field(column).name;
            let error =
                Diagnostic::new(place, format!("within each `{name}` there is one `{name}`"));
            self.errors
                .push(error.hint("name another column to count with value="));
        }
    }

    /// The condition of success, and its input.
    pub(in crate::check) fn success_at(&mut self, place: TextSpan) -> Option<(usize, Predicate)> {
        let mut inputs: Vec<_> = self.scope.inputs.iter().enumerate().collect();
        // A response is more informative than the end of its connection, which is a partial tuple.
        inputs.sort_by_key(|(_, schema)| schema.facts.whole.is_some());
        let of_input = |(i, schema): (usize, &Arc<Schema>)| {
            Some((i, builtin(schema.facts.success?, *self.scope, i)?))
        };
        let found = inputs.into_iter().find_map(of_input);
        if found.is_none() && self.scope.is_complete() {
            let names = one_of(self.scope.parsers_with(|facts| facts.success.is_some()));
            let message = "`success` needs a parser whose tuples record success or failure";
            self.errors
                .push(Diagnostic::new(place, message).hint(format!("those are {names}")));
        }
        found
    }

    /// The aggregates, and the index of the one that `top-k` ranks by.
    pub(in crate::check) fn aggregates(
        &mut self,
        values: &[Column],
        distinct: &[Column],
        success: Option<Predicate>,
    ) -> (Vec<AggregateColumn>, Option<usize>) {
        let quantiles = self.quantiles();
        let ratios = self.ratios();
        let total = if self.arg("value").is_some() {
            ShareTotal::Values
        } else {
            ShareTotal::Tuples
        };
        let mut aggregates = Vec::new();
        let mut by = None;
        for block in self.chain.iter().map(|p| p.block) {
            let of_block: Vec<AggregateFunction> = match block {
                ProcessorBlock::Diff
                | ProcessorBlock::Group
                | ProcessorBlock::Aggregate
                | ProcessorBlock::WorkloadProfile
                | ProcessorBlock::ServiceMap => Vec::new(),
                ProcessorBlock::TopK => {
                    by = aggregates.len().checked_sub(1);
                    Vec::new()
                }
                ProcessorBlock::Count => vec![AggregateFunction::Count],
                ProcessorBlock::Sum => vec![AggregateFunction::Sum],
                ProcessorBlock::Avg => vec![AggregateFunction::Avg],
                ProcessorBlock::Min => vec![AggregateFunction::Min],
                ProcessorBlock::Max => vec![AggregateFunction::Max],
                ProcessorBlock::Stddev => vec![AggregateFunction::Stddev],
                ProcessorBlock::Rate => vec![AggregateFunction::Rate],
                ProcessorBlock::Hist => vec![AggregateFunction::Hist],
                ProcessorBlock::Cdf => vec![AggregateFunction::Cdf],
                ProcessorBlock::Throughput => vec![AggregateFunction::Throughput],
                ProcessorBlock::Share => vec![AggregateFunction::Share(total)],
                ProcessorBlock::Distinct => distinct
                    .iter()
                    .copied()
                    .map(AggregateFunction::Distinct)
                    .collect(),
                ProcessorBlock::Success => success
                    .clone()
                    .into_iter()
                    .map(AggregateFunction::Success)
                    .collect(),
                ProcessorBlock::Quantile => quantiles
                    .iter()
                    .copied()
                    .map(AggregateFunction::Quantile)
                    .collect(),
                ProcessorBlock::Ratio => {
                    aggregates.extend(ratios.iter().cloned());
                    Vec::new()
                }
            };
            of_values(of_block, values, &mut aggregates);
        }
        if self.chain.iter().any(|p| p.block.is_aggregate()) {
            return (aggregates, by);
        }
        let statistics = self.has_statistics() && !values.is_empty();
        let usual = if statistics {
            default_statistics()
        } else {
            vec![AggregateFunction::Count]
        };
        of_values(usual, values, &mut aggregates);
        (aggregates, Some(0))
    }

    /// The aggregates of `ratio`.
    pub(in crate::check) fn ratios(&mut self) -> Vec<AggregateColumn> {
        let Some(place) = self.place(ProcessorBlock::Ratio) else {
            return Vec::new();
        };
        let Some(arg) = self.arg("of") else {
            let error = Diagnostic::new(place, "`ratio` needs `of=`");
            self.errors.push(
                error.hint("name a condition in parentheses, as in of=(response_time > 100ms)"),
            );
            return Vec::new();
        };
        let mut ratios = Vec::new();
        for condition in &arg.columns {
            let checked = ConditionChecker::new(self.scope, self.errors).check(&condition.expr);
            let name = condition.name.as_ref().map(|name| name.text.clone());
            let aggregate = checked.map(AggregateFunction::Ratio);
            ratios.extend(aggregate.map(|aggregate| AggregateColumn {
                aggregate,
                value: 0,
                name,
            }));
        }
        ratios
    }

    /// Whether the chain contains no aggregate and implies the default ones.
    pub(in crate::check) fn has_statistics(&self) -> bool {
        let written = self.chain.iter().any(|p| p.block.is_aggregate());
        !written && (self.has(ProcessorBlock::Diff) || !self.has(ProcessorBlock::TopK))
    }

    pub(in crate::check) fn quantiles(&mut self) -> Vec<f64> {
        let Some(arg) = self.arg("q") else {
            return QUANTILES.to_vec();
        };
        let mut quantiles: Vec<f64> = Vec::new();
        for atom in &arg.values {
            let message = match literal::real(&atom.text) {
                Ok(q) if quantiles.contains(&q) => {
                    format!("quantile {} is named twice", quoted(&atom.text))
                }
                Ok(_) if quantiles.len() >= QUANTILES_MAX => {
                    format!("more than {QUANTILES_MAX} quantiles")
                }
                Ok(q) if (0.0..=1.0).contains(&q) => {
                    // `-0` would be a second zero.
                    quantiles.push(q.abs());
                    continue;
                }
                _ => format!("{} is not a quantile", quoted(&atom.text)),
            };
            self.errors.push(
                Diagnostic::new(atom.span, message)
                    .expected("numbers from 0 to 1, such as q=0.5, 0.99"),
            );
        }
        quantiles
    }
}

/// Appends each aggregate, once per value if it uses one.
fn of_values(aggregates: Vec<AggregateFunction>, values: &[Column], to: &mut Vec<AggregateColumn>) {
    for aggregate in aggregates {
        let times = if aggregate.takes_value() {
            values.len()
        } else {
            1
        };
        to.extend((0..times).map(|value| AggregateColumn {
            aggregate: aggregate.clone(),
            value,
            name: None,
        }));
    }
}
