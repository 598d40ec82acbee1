//! Processors: the meaning of a chain of blocks and its arguments, with all defaults.

mod aggregates;
mod ranking;
mod total_time;

use plan::{
    AggregateColumn, AggregateFunction, AggregatedValue, Column, GroupBy, Pipeline, Predicate,
    ResultSelection, Window,
};

use super::condition::{builtin, implies};
use super::names::NameScope;
use super::rows;
use crate::ast::{self, Atom, ProcessorArg};
use crate::blocks::{self, ARGS, PlacedBlock, ProcessorBlock};
use crate::error::quoted;
use crate::literal::{self, LiteralError};
use crate::nearest::{did_you_mean, one_of};
use crate::{Diagnostic, TextSpan};

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

/// Rejects `success` next to a processor that counts parts of connections: success is a property of whole
/// connections, so one of the two results would be wrong.
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
        } = if self.has(ProcessorBlock::Aggregate) {
            self.called_aggregates(&group)
        } else {
            self.block_aggregates(&group, key_is_group)
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
        self.add_total_time(&mut processor);
        processor.top_k = self.top_k(&processor, ranked);
        processor.selection = self.selection(&processor);
        (!self.chain.is_empty()).then_some(CheckedProcessor { processor, success })
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
