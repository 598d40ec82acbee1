//! Serialization of processors.

use tuple::{Field, Unit};

use super::expression::{condition, read_condition};
use super::form;
use super::places::{Names, Places};
use super::profile::{profile, read_profile};
use super::refused::Lacks;
use super::selection::{read_selection, selection};
use super::words::Word;
use crate::dataflow::{Aggregate, Aggregated, GroupBy, Pipeline, Selection, TopK, Total, Value, Window};
use crate::expr::Column;

/// Maximum pipelines of a plan.
pub const PIPELINES_MAX: usize = 256;
/// Maximum values, group columns, and aggregates per pipeline.
pub const PARTS_MAX: usize = 1024;

/// Aggregates without parameters.
const PLAIN: [(Aggregate, &str); 12] = [
    (Aggregate::Count, "count"),
    (Aggregate::Sum, "sum"),
    (Aggregate::Avg, "avg"),
    (Aggregate::Min, "min"),
    (Aggregate::Max, "max"),
    (Aggregate::Stddev, "stddev"),
    (Aggregate::Rate, "rate"),
    (Aggregate::Hist, "hist"),
    (Aggregate::Cdf, "cdf"),
    (Aggregate::Throughput, "throughput"),
    (Aggregate::Share(Total::Tuples), "share_of_tuples"),
    (Aggregate::Share(Total::Values), "share_of_values"),
];

/// Encodes a pipeline.
pub fn pipeline(of: &Pipeline, names: Names<'_>) -> form::Pipeline {
    let value = |value: &Value| form::Value {
        column: Some(names.sent(value.column)),
        unit: value.unit.word().to_owned(),
    };
    let group =
        |group: &GroupBy| form::GroupBy { column: Some(names.sent(group.column)), name: group.name.clone() };
    form::Pipeline {
        name: of.name.clone(),
        values: of.values.iter().map(value).collect(),
        value_required: of.value_required,
        group: of.group.iter().map(group).collect(),
        aggregates: of.aggregates.iter().map(|a| aggregated(a, names)).collect(),
        top_k: of.top_k.map(|top| form::TopK { k: top.k as u64, by: top.by as u32 }),
        window: of.window.map(|Window { size_ns, slide_ns, lateness_ns }| form::Window {
            size_ns,
            slide_ns,
            lateness_ns,
        }),
        groups_max: of.groups_max as u64,
        selection: selection(of),
        profile: of.profile.as_ref().map(|of| Box::new(profile(of, names))),
    }
}

fn aggregated(of: &Aggregated, names: Names<'_>) -> form::Aggregated {
    let mut sent =
        form::Aggregated { value: of.value as u32, name: of.name.clone(), ..form::Aggregated::default() };
    let word = match &of.aggregate {
        Aggregate::Distinct(column) => {
            sent.column = Some(names.sent(*column));
            "distinct"
        }
        Aggregate::Quantile(q) => {
            sent.quantile = Some(*q);
            "quantile"
        }
        Aggregate::Success(predicate) => {
            sent.condition = Some(condition(predicate, names));
            "success"
        }
        Aggregate::Ratio(predicate) => {
            sent.condition = Some(condition(predicate, names));
            "ratio"
        }
        plain => PLAIN.iter().find(|(known, _)| known == plain).map_or("", |(_, word)| word),
    };
    word.clone_into(&mut sent.aggregate);
    sent
}

/// Decodes a pipeline; `field` returns the field of a column of the dataflow.
pub fn read_pipeline(
    sent: &form::Pipeline,
    places: Places<'_>,
    field: &dyn Fn(Column) -> Option<Field>,
    lacks: &mut Lacks,
) -> Option<Pipeline> {
    let most = sent.values.len().max(sent.group.len()).max(sent.aggregates.len());
    lacks.at_most("values, columns of a group or aggregates", most, PARTS_MAX)?;
    let values: Vec<_> = sent.values.iter().map(|value| read_value(value, places, lacks)).collect();
    let group: Vec<_> = sent.group.iter().map(|group| read_group(group, places, lacks)).collect();
    let aggregates: Vec<_> = sent.aggregates.iter().map(|a| read_aggregated(a, places, lacks)).collect();
    let top_k = match &sent.top_k {
        Some(top) => Some(TopK { k: size(top.k, lacks)?, by: size(top.by.into(), lacks)? }),
        None => None,
    };
    let profile = match &sent.profile {
        Some(profile) => read_profile(profile, places, lacks).map(Some),
        None => Some(None),
    };
    let mut pipeline = Pipeline {
        name: sent.name.clone(),
        values: values.into_iter().collect::<Option<_>>()?,
        value_required: sent.value_required,
        group: group.into_iter().collect::<Option<_>>()?,
        aggregates: aggregates.into_iter().collect::<Option<_>>()?,
        top_k,
        window: sent.window.as_ref().map(|sent| Window {
            size_ns: sent.size_ns,
            slide_ns: sent.slide_ns,
            lateness_ns: sent.lateness_ns,
        }),
        groups_max: size(sent.groups_max, lacks)?,
        selection: Selection::default(),
        profile: profile?,
    };
    if let Some(selection) = &sent.selection {
        pipeline.selection = read_selection(selection, &pipeline, field, lacks)?;
    }
    Some(pipeline)
}

fn read_value(sent: &form::Value, places: Places<'_>, lacks: &mut Lacks) -> Option<Value> {
    let unit = Unit::read(&sent.unit, lacks);
    Some(Value { column: places.read(sent.column.as_ref(), lacks)?, unit: unit? })
}

fn read_group(sent: &form::GroupBy, places: Places<'_>, lacks: &mut Lacks) -> Option<GroupBy> {
    Some(GroupBy { column: places.read(sent.column.as_ref(), lacks)?, name: sent.name.clone() })
}

fn read_aggregated(sent: &form::Aggregated, places: Places<'_>, lacks: &mut Lacks) -> Option<Aggregated> {
    let form::Aggregated { aggregate: word, value, name, column, quantile, condition } = sent;
    let aggregate = match (word.as_str(), column, quantile, condition) {
        ("distinct", Some(column), None, None) => Aggregate::Distinct(places.read(Some(column), lacks)?),
        ("quantile", None, Some(q), None) => Aggregate::Quantile(*q),
        ("success", None, None, Some(condition)) => {
            Aggregate::Success(read_condition(condition, places, lacks)?)
        }
        ("ratio", None, None, Some(condition)) => Aggregate::Ratio(read_condition(condition, places, lacks)?),
        (word, None, None, None) => match PLAIN.iter().find(|(_, known)| *known == word) {
            Some((plain, _)) => plain.clone(),
            None => return lacks.word("aggregate", word),
        },
        (word, ..) => return lacks.word("aggregate", word),
    };
    Some(Aggregated { aggregate, value: size((*value).into(), lacks)?, name: name.clone() })
}

/// Converts a number to `usize`.
pub fn size(number: u64, lacks: &mut Lacks) -> Option<usize> {
    usize::try_from(number).ok().or_else(|| lacks.malformed("a number that is too large"))
}
