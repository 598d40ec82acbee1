//! Processors: the meaning of a chain of blocks and its arguments, with all defaults.

use std::sync::Arc;

use plan::{
    AggregateColumn, AggregateFunction, AggregatedValue, Column, GroupBy, Pipeline, Predicate,
    ResultSelection, ShareTotal, TopK, Window, result,
};
use tuple::{DataType, Schema, Unit};

use super::condition::{builtin, implies};
use super::names::{self, NameScope};
use super::rows;
use super::values::{ConditionChecker, kind};
use crate::ast::{self, Atom, ExprForm, ProcessorArg};
use crate::blocks::{self, ARGS, PlacedBlock, ProcessorBlock};
use crate::error::quoted;
use crate::literal::{self, LiteralError};
use crate::nearest::{did_you_mean, one_of};
use crate::{Diagnostic, TextSpan, aliases};

/// Maximum processors of a query: each uses part of the memory.
const PROCESSORS_MAX: usize = 100;
/// Default k of `top-k`.
pub(super) const K: usize = 10;
/// Maximum k of `top-k`.
pub(super) const K_MAX: i128 = 1_000_000;
/// Default quantiles of `quantile`.
const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];
/// Maximum values of a processor.
pub(super) const VALUES_MAX: usize = 16;
/// Maximum quantiles of a processor.
const QUANTILES_MAX: usize = 32;
/// Default lateness of windows.
const LATENESS_NS: i64 = 1_000_000_000;
/// Maximum windows per tuple.
const OVERLAP_MAX: i64 = 1000;
/// Default number of exact groups.
pub(crate) const GROUPS: usize = 100_000;
/// Maximum number of exact groups.
pub(super) const GROUPS_MAX: i128 = 100_000_000;

/// A processor with the properties that determine the selection of its tuples.
pub(super) struct CheckedProcessor {
    pub processor: Pipeline,
    /// The input for which success is counted, and its position.
    pub(super) success: Option<(usize, TextSpan)>,
}

/// The aggregates of a processor.
#[derive(Default)]
pub(super) struct ComputedAggregates {
    /// The columns that aggregates use.
    pub values: Vec<Column>,
    pub aggregates: Vec<AggregateColumn>,
    /// Index of the aggregate that `top-k` ranks by, unless `by=` names another.
    pub ranked: Option<usize>,
    /// The input for which success is counted, and its position.
    pub success: Option<(usize, TextSpan)>,
}

/// All valid processors.
pub(super) fn list(
    asts: &[ast::ProcessorClause],
    scope: &NameScope<'_>,
    filter: Option<&Predicate>,
    errors: &mut Vec<Diagnostic>,
) -> Vec<CheckedProcessor> {
    let mut checked = Vec::new();
    if let Some(ast) = asts.get(PROCESSORS_MAX) {
        let message = format!("more than {PROCESSORS_MAX} processors in one query");
        errors.push(Diagnostic::new(ast.name.span, message).hint("use several queries"));
    }
    for ast in asts.iter().take(PROCESSORS_MAX) {
        let errors_before = errors.len();
        let chain = blocks::chain(&ast.name, errors);
        let chain_is_whole = errors.len() == errors_before;
        let reader = ProcessorReader {
            scope,
            errors,
            ast,
            chain,
            chain_is_whole,
            errors_before,
        };
        checked.extend(reader.read());
    }
    if let Some(error) = parts_and_wholes(&checked, scope, filter) {
        errors.push(error);
    }
    checked
}

/// For each input the condition for tuples that represent a whole, if partial tuples must be excluded: in a join, and
/// if every processor reads only wholes.
pub(super) fn only_wholes(
    processors: &[CheckedProcessor],
    scope: &NameScope<'_>,
) -> Vec<Option<Predicate>> {
    let joined = scope.inputs.len() > 1;
    let every =
        |input| !processors.is_empty() && processors.iter().all(|p| p.looks_at_wholes(input));
    let condition = |input: usize| {
        (joined || every(input))
            .then(|| whole(scope, input))
            .flatten()
    };
    (0..scope.inputs.len()).map(condition).collect()
}

impl CheckedProcessor {
    fn looks_at_wholes(&self, input: usize) -> bool {
        self.processor.value_required || self.success.is_some_and(|(of, _)| of == input)
    }
}

fn whole(scope: &NameScope<'_>, input: usize) -> Option<Predicate> {
    let text = scope.inputs[input].facts.whole?;
    builtin(text, *scope, input)
}

/// Success is a property of whole connections; combined with a processor that also counts parts, one of the two would
/// be wrong.
fn parts_and_wholes(
    processors: &[CheckedProcessor],
    scope: &NameScope<'_>,
    filter: Option<&Predicate>,
) -> Option<Diagnostic> {
    let [schema] = scope.inputs else { return None };
    let needed = whole(scope, 0)?;
    let (_, span) = processors.iter().find_map(|p| p.success)?;
    if processors.iter().all(|p| p.looks_at_wholes(0)) || implies(filter, &needed) {
        return None;
    }
    let only = schema.facts.whole?;
    let message =
        format!("`success` uses only tuples with {only}, another processor of this query uses all");
    Some(Diagnostic::new(span, message).hint(format!("add WHERE {only}, or use two queries")))
}

/// Checks one processor.
pub(super) struct ProcessorReader<'a> {
    pub(super) scope: &'a NameScope<'a>,
    pub(super) errors: &'a mut Vec<Diagnostic>,
    pub(super) ast: &'a ast::ProcessorClause,
    pub(super) chain: Vec<PlacedBlock>,
    /// Whether every block of the name is known; otherwise a missing block may be among the unknown ones.
    pub(super) chain_is_whole: bool,
    /// Number of errors before this processor.
    pub(super) errors_before: usize,
}

impl<'a> ProcessorReader<'a> {
    /// Checks the processor; `None` if it has errors, which are recorded.
    fn read(mut self) -> Option<CheckedProcessor> {
        self.args_are_known();
        if self.has(ProcessorBlock::WorkloadProfile) {
            return self.workload_profile();
        }
        if self.has(ProcessorBlock::ServiceMap) {
            return self.service_map();
        }
        self.needs("k", ProcessorBlock::TopK);
        self.needs("by", ProcessorBlock::TopK);
        self.needs("of", ProcessorBlock::Ratio);
        self.needs("columns", ProcessorBlock::Aggregate);
        self.needs("q", ProcessorBlock::Quantile);
        self.needs("near", ProcessorBlock::WorkloadProfile);
        let (group, key_is_group) = self.group();
        let ComputedAggregates {
            values,
            aggregates,
            ranked,
            success,
        } = match self.has(ProcessorBlock::Aggregate) {
            true => self.called_aggregates(&group),
            false => self.block_aggregates(&group, key_is_group),
        };
        let window = self.window();
        let groups_max = self
            .whole_number("groups_max", GROUPS_MAX)
            .unwrap_or(GROUPS);
        let uses_value =
            aggregates.iter().any(|a| a.aggregate.takes_value()) || self.has(ProcessorBlock::Diff);
        let values = values.iter().filter(|_| uses_value);
        let mut processor = Pipeline {
            name: self.ast.name.text.clone(),
            values: values
                .map(|c| AggregatedValue {
                    column: *c,
                    unit: self.scope.field(*c).unit,
                })
                .collect(),
            value_required: self.has(ProcessorBlock::Diff),
            group: self.named(&group),
            aggregates,
            top_k: None,
            window,
            groups_max,
            selection: ResultSelection::default(),
            profile: None,
        };
        processor.top_k = self.top_k(&processor, ranked);
        processor.selection = self.selection(&processor);
        (!self.chain.is_empty()).then_some(CheckedProcessor { processor, success })
    }

    /// The aggregates of the chain's blocks.
    fn block_aggregates(&mut self, group: &[Column], key_is_group: bool) -> ComputedAggregates {
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

    fn args_are_known(&mut self) {
        let ast = self.ast;
        for (i, arg) in ast.args.iter().enumerate() {
            let name = &arg.name;
            if !ARGS.iter().any(|known| is_called(arg, known.name)) {
                let error = Diagnostic::new(
                    name.span,
                    format!("unknown argument {}", quoted(&name.text)),
                );
                let names = ARGS.iter().map(|a| a.name);
                let synonym = name
                    .text
                    .eq_ignore_ascii_case("window")
                    .then(|| "did you mean `w`?".to_owned());
                self.errors.push(
                    match synonym.or_else(|| did_you_mean(&name.text, names.clone())) {
                        Some(hint) => error.hint(hint),
                        None => error.expected(one_of(names)),
                    },
                );
            } else if ast.args[..i]
                .iter()
                .any(|other| is_called(other, &name.text))
            {
                let message = format!("argument {} is given twice", quoted(&name.text));
                self.errors.push(Diagnostic::new(name.span, message));
            }
        }
    }

    /// Reports an argument not used by any block.
    fn needs(&mut self, arg: &str, block: ProcessorBlock) {
        if let Some(arg) = self.arg(arg)
            && !self.has(block)
            && self.chain_is_whole
        {
            let error = Diagnostic::new(
                arg.name.span,
                format!("`{}` has no effect here", arg.name.text),
            );
            self.errors
                .push(error.hint(format!("it belongs to the block `{}`", block.name())));
        }
    }

    /// The group columns, and whether `key=` names them.
    fn group(&mut self) -> (Vec<Column>, bool) {
        let grouped = self.has(ProcessorBlock::Group) || self.has(ProcessorBlock::TopK);
        if let Some(arg) = self.arg("group") {
            if !grouped && self.chain_is_whole {
                let error = Diagnostic::new(arg.name.span, "`group=` without the block `group`");
                self.errors.push(error.hint(format!(
                    "write {}",
                    quoted(&format!("group-{}", self.ast.name.text))
                )));
            }
            return (self.columns(arg), false);
        }
        if !grouped {
            return (Vec::new(), false);
        }
        if let Some(arg) = self.arg("key") {
            return (self.columns(arg), true);
        }
        let key = self.default_of(|s| s.key);
        if key.is_none() && self.scope.is_complete() {
            let block = if self.has(ProcessorBlock::Group) {
                ProcessorBlock::Group
            } else {
                ProcessorBlock::TopK
            };
            let arg = if block == ProcessorBlock::Group {
                "group"
            } else {
                "key"
            };
            let error = Diagnostic::new(
                self.place(block).unwrap_or_default(),
                format!("`{}` needs `{arg}=`", block.name()),
            );
            let message = format!(
                "name the columns, as in {arg}={}",
                one_of(self.examples(|_| true))
            );
            self.errors.push(error.hint(message));
        }
        (key.into_iter().collect(), false)
    }

    /// Group columns named after their fields; with their parsers if two fields have the same name.
    fn named(&self, columns: &[Column]) -> Vec<GroupBy> {
        let name_of = |c: Column| self.scope.field(c).name.as_ref();
        let name = |c: Column| match columns
            .iter()
            .filter(|o| name_of(**o) == name_of(c))
            .count()
        {
            1 => name_of(c).to_owned(),
            _ => self.scope.full_name(c),
        };
        columns
            .iter()
            .map(|c| GroupBy {
                column: *c,
                name: name(*c),
            })
            .collect()
    }

    /// The columns to aggregate; `given` is from `value=`.
    fn values(&mut self, given: Option<(&ProcessorArg, &[Column])>) -> Vec<Column> {
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
    pub(super) fn measure_of(&mut self, block: ProcessorBlock, place: TextSpan) -> Option<Column> {
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
    fn difference(&mut self, given: Option<(&ProcessorArg, &[Column])>) -> Option<Column> {
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

    fn numeric(&mut self, name: &Atom, column: Column) -> Option<Column> {
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
    pub(super) fn usable_by(
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
    fn distinct(
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
    pub(super) fn differs_in_group(&mut self, place: TextSpan, column: Column, group: &[Column]) {
        if group.contains(&column) {
            let name = &self.scope.field(column).name;
            let error =
                Diagnostic::new(place, format!("within each `{name}` there is one `{name}`"));
            self.errors
                .push(error.hint("name another column to count with value="));
        }
    }

    /// The condition of success, and its input.
    pub(super) fn success_at(&mut self, place: TextSpan) -> Option<(usize, Predicate)> {
        let mut inputs: Vec<_> = self.scope.inputs.iter().enumerate().collect();
        // A response is more informative than the end of its connection, which is a partial tuple.
        inputs.sort_by_key(|(_, schema)| schema.facts.whole.is_some());
        let of_input = |(i, schema): (usize, &Arc<Schema>)| {
            Some((i, builtin(schema.facts.success?, *self.scope, i)?))
        };
        let found = inputs.into_iter().find_map(of_input);
        if found.is_none() && self.scope.is_complete() {
            let names = one_of(self.scope.who_know(|facts| facts.success.is_some()));
            let message = "`success` needs a parser whose tuples record success or failure";
            self.errors
                .push(Diagnostic::new(place, message).hint(format!("those are {names}")));
        }
        found
    }

    /// The aggregates, and the index of the one that `top-k` ranks by.
    fn aggregates(
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
    fn ratios(&mut self) -> Vec<AggregateColumn> {
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
    fn has_statistics(&self) -> bool {
        let written = self.chain.iter().any(|p| p.block.is_aggregate());
        !written && (self.has(ProcessorBlock::Diff) || !self.has(ProcessorBlock::TopK))
    }

    fn quantiles(&mut self) -> Vec<f64> {
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

    fn top_k(&mut self, processor: &Pipeline, by: Option<usize>) -> Option<TopK> {
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
    fn ranked_by(&mut self, arg: &ProcessorArg, processor: &Pipeline) -> Option<usize> {
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

    pub(super) fn window(&mut self) -> Option<Window> {
        let size = self.arg("w").map(|arg| self.duration(arg, 1));
        let slide = self.arg("slide").map(|arg| (arg, self.duration(arg, 1)));
        let lateness = self.arg("lateness").map(|arg| (arg, self.duration(arg, 0)));
        let Some(size) = size else {
            for (arg, _) in slide.into_iter().chain(lateness) {
                let error = Diagnostic::new(
                    arg.name.span,
                    format!("`{}` without a window", arg.name.text),
                );
                self.errors
                    .push(error.hint("give the window's length, as in w=10s"));
            }
            return None;
        };
        let size_ns = size?;
        let slide_ns = slide.map_or(Some(size_ns), |(_, slide)| slide)?;
        let place = slide.map(|(arg, _)| arg.values[0].span).unwrap_or_default();
        if size_ns % slide_ns != 0 {
            let message = if slide_ns > size_ns {
                "windows would leave gaps"
            } else {
                "windows would not line up"
            };
            self.errors
                .push(Diagnostic::new(place, message).expected("a `slide` that divides `w`"));
        } else if size_ns / slide_ns > OVERLAP_MAX {
            let message = format!("each tuple would be in {} windows", size_ns / slide_ns);
            self.errors
                .push(Diagnostic::new(place, message).expected(format!("at most {OVERLAP_MAX}")));
        }
        Some(Window {
            size_ns,
            slide_ns,
            lateness_ns: lateness.map_or(Some(LATENESS_NS), |(_, l)| l)?,
        })
    }

    fn duration(&mut self, arg: &ProcessorArg, min: i64) -> Option<i64> {
        let atom = self.single(arg)?;
        let result = literal::duration_ns(&atom.text);
        if let Ok(nanos) = result
            && nanos >= min
        {
            return Some(nanos);
        }
        let error = Diagnostic::new(
            atom.span,
            format!("{} is not a duration", quoted(&atom.text)),
        );
        let hint = (result == Err(LiteralError::NoUnit)).then(|| format!("write {}s", atom.text));
        self.errors.push(
            error
                .expected("a duration such as 10s or 500ms")
                .maybe_hint(hint),
        );
        None
    }

    /// The integer value of an argument, from 1 to `max`.
    pub(super) fn whole_number(&mut self, name: &str, max: i128) -> Option<usize> {
        let arg = self.arg(name)?;
        let atom = self.single(arg)?;
        let number = literal::whole(&atom.text)
            .ok()
            .filter(|n| (1..=max).contains(n));
        if number.is_none() {
            let error = Diagnostic::new(
                atom.span,
                format!("{} is not valid for `{name}`", quoted(&atom.text)),
            );
            self.errors
                .push(error.expected(format!("a whole number from 1 to {max}")));
        }
        number.and_then(|n| usize::try_from(n).ok())
    }

    fn columns(&mut self, arg: &ProcessorArg) -> Vec<Column> {
        let mut columns: Vec<Column> = Vec::new();
        for (name, named) in arg.values.iter().zip(&arg.columns) {
            match rows::column(named, self.scope, self.errors) {
                Some(column) if columns.contains(&column) => {
                    let full = self.scope.full_name(column);
                    self.errors.push(Diagnostic::new(
                        name.span,
                        format!("{} repeats `{full}`", quoted(&name.text)),
                    ));
                }
                Some(column) => columns.push(column),
                None => {}
            }
        }
        columns
    }

    pub(super) fn column(&mut self, arg: &ProcessorArg) -> Option<Column> {
        self.single(arg)?;
        let mut errors = Vec::new();
        let column = rows::column(arg.columns.first()?, self.scope, &mut errors);
        errors
            .into_iter()
            .for_each(|error| self.report_once(Some(error)));
        column
    }

    pub(super) fn single<'b>(&mut self, arg: &'b ProcessorArg) -> Option<&'b Atom> {
        let [one] = arg.values.as_slice() else {
            let last = arg.values.last().map_or(arg.name.span, |v| v.span);
            let error = Diagnostic::new(
                arg.name.span.to(last),
                format!("`{}` takes one value", arg.name.text),
            );
            self.report_once(Some(error));
            return None;
        };
        Some(one)
    }

    /// Reports an error of an argument used by two blocks only once.
    fn report_once(&mut self, error: Option<Diagnostic>) {
        let new = error.filter(|e| !self.errors.contains(e));
        self.errors.extend(new);
    }

    pub(super) fn arg(&self, name: &str) -> Option<&'a ProcessorArg> {
        self.ast.args.iter().find(|arg| is_called(arg, name))
    }

    pub(super) fn has(&self, block: ProcessorBlock) -> bool {
        self.place(block).is_some()
    }

    pub(super) fn place(&self, block: ProcessorBlock) -> Option<TextSpan> {
        self.chain.iter().find(|p| p.block == block).map(|p| p.span)
    }

    /// The key or measure of the first parser that has one.
    fn default_of(
        &self,
        which: impl Fn(&tuple::Schema) -> Option<tuple::FieldId>,
    ) -> Option<Column> {
        let of = |(i, schema): (usize, &std::sync::Arc<tuple::Schema>)| {
            Some(Column {
                input: i as u16,
                field: which(schema)?,
            })
        };
        self.scope.inputs.iter().enumerate().find_map(of)
    }

    /// Some columns for a hint, beginning with the parsers' own.
    fn examples(&self, fits: impl Fn(&tuple::Field) -> bool) -> Vec<&'a str> {
        let own = self
            .scope
            .inputs
            .iter()
            .flat_map(|s| s.fields.iter().skip(tuple::common::FIELDS.len()));
        let names = own.filter(|f| fits(f)).map(|f| f.name.as_ref());
        let common = ["server_ip", "client_ip"]
            .into_iter()
            .filter(|_| fits(&tuple::common::FIELDS[2]));
        names.take(3).chain(common).take(3).collect()
    }
}

fn is_called(arg: &ProcessorArg, name: &str) -> bool {
    arg.name.text.eq_ignore_ascii_case(name)
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

/// Aggregates computed by default.
pub(super) fn default_statistics() -> Vec<AggregateFunction> {
    let quantiles = QUANTILES.map(AggregateFunction::Quantile);
    [
        AggregateFunction::Count,
        AggregateFunction::Min,
        AggregateFunction::Avg,
        AggregateFunction::Max,
    ]
    .into_iter()
    .chain(quantiles)
    .collect()
}
