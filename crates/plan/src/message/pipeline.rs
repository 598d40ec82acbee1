//! Serialization of processors.

use tuple::{Field, Unit};

use super::column_names::{ColumnNames, ColumnPlaces};
use super::enum_words::EnumWord;
use super::expression::{condition, read_condition};
use super::profile::{profile, read_profile};
use super::proto;
use super::refusal::UnmetRequirements;
use super::selection::{read_selection, selection};
use crate::dataflow::{
    AggregateColumn, AggregateFunction, AggregatedValue, GroupBy, Pipeline, ResultSelection,
    ShareTotal, TopK, Window,
};
use crate::expr::Column;

/// Maximum pipelines of a plan.
pub const PIPELINES_MAX: usize = 256;
/// Maximum values, group columns, and aggregates per pipeline.
pub const PARTS_MAX: usize = 1024;

/// Aggregates without parameters.
const PLAIN: [(AggregateFunction, &str); 12] = [
    (AggregateFunction::Count, "count"),
    (AggregateFunction::Sum, "sum"),
    (AggregateFunction::Avg, "avg"),
    (AggregateFunction::Min, "min"),
    (AggregateFunction::Max, "max"),
    (AggregateFunction::Stddev, "stddev"),
    (AggregateFunction::Rate, "rate"),
    (AggregateFunction::Hist, "hist"),
    (AggregateFunction::Cdf, "cdf"),
    (AggregateFunction::Throughput, "throughput"),
    (
        AggregateFunction::Share(ShareTotal::Tuples),
        "share_of_tuples",
    ),
    (
        AggregateFunction::Share(ShareTotal::Values),
        "share_of_values",
    ),
];

/// Encodes a pipeline.
pub fn pipeline(of: &Pipeline, names: ColumnNames<'_>) -> proto::PipelineProto {
    let value = |value: &AggregatedValue| proto::ValueProto {
        column: Some(names.sent(value.column)),
        unit: value.unit.word().to_owned(),
    };
    let group = |group: &GroupBy| proto::GroupByProto {
        column: Some(names.sent(group.column)),
        name: group.name.clone(),
    };
    proto::PipelineProto {
        name: of.name.clone(),
        values: of.values.iter().map(value).collect(),
        value_required: of.value_required,
        group: of.group.iter().map(group).collect(),
        aggregates: of.aggregates.iter().map(|a| aggregated(a, names)).collect(),
        top_k: of.top_k.map(|top| proto::TopKProto {
            k: top.k as u64,
            by: top.by as u32,
        }),
        window: of.window.map(
            |Window {
                 size_ns,
                 slide_ns,
                 lateness_ns,
             }| proto::WindowProto {
                size_ns,
                slide_ns,
                lateness_ns,
            },
        ),
        groups_max: of.groups_max as u64,
        selection: selection(of),
        profile: of.profile.as_ref().map(|of| Box::new(profile(of, names))),
    }
}

fn aggregated(of: &AggregateColumn, names: ColumnNames<'_>) -> proto::AggregateProto {
    let mut sent = proto::AggregateProto {
        value: of.value as u32,
        name: of.name.clone(),
        ..proto::AggregateProto::default()
    };
    let word = match &of.aggregate {
        AggregateFunction::Distinct(column) => {
            sent.column = Some(names.sent(*column));
            "distinct"
        }
        AggregateFunction::Quantile(q) => {
            sent.quantile = Some(*q);
            "quantile"
        }
        AggregateFunction::Success(predicate) => {
            sent.condition = Some(condition(predicate, names));
            "success"
        }
        AggregateFunction::Ratio(predicate) => {
            sent.condition = Some(condition(predicate, names));
            "ratio"
        }
        plain => PLAIN
            .iter()
            .find(|(known, _)| known == plain)
            .map_or("", |(_, word)| word),
    };
    word.clone_into(&mut sent.aggregate);
    sent
}

/// Decodes a pipeline; `field` returns the field of a column of the dataflow.
pub fn read_pipeline(
    sent: &proto::PipelineProto,
    places: ColumnPlaces<'_>,
    field: &dyn Fn(Column) -> Option<Field>,
    lacks: &mut UnmetRequirements,
) -> Option<Pipeline> {
    let most = sent
        .values
        .len()
        .max(sent.group.len())
        .max(sent.aggregates.len());
    lacks.at_most("values, columns of a group or aggregates", most, PARTS_MAX)?;
    let values: Vec<_> = sent
        .values
        .iter()
        .map(|value| read_value(value, places, lacks))
        .collect();
    let group: Vec<_> = sent
        .group
        .iter()
        .map(|group| read_group(group, places, lacks))
        .collect();
    let aggregates: Vec<_> = sent
        .aggregates
        .iter()
        .map(|a| read_aggregated(a, places, lacks))
        .collect();
    let top_k = match &sent.top_k {
        Some(top) => Some(TopK {
            k: size(top.k, lacks)?,
            by: size(top.by.into(), lacks)?,
        }),
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
        selection: ResultSelection::default(),
        profile: profile?,
    };
    if let Some(selection) = &sent.selection {
        pipeline.selection = read_selection(selection, &pipeline, field, lacks)?;
    }
    Some(pipeline)
}

fn read_value(
    sent: &proto::ValueProto,
    places: ColumnPlaces<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<AggregatedValue> {
    let unit = Unit::read(&sent.unit, lacks);
    Some(AggregatedValue {
        column: places.read(sent.column.as_ref(), lacks)?,
        unit: unit?,
    })
}

fn read_group(
    sent: &proto::GroupByProto,
    places: ColumnPlaces<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<GroupBy> {
    Some(GroupBy {
        column: places.read(sent.column.as_ref(), lacks)?,
        name: sent.name.clone(),
    })
}

fn read_aggregated(
    sent: &proto::AggregateProto,
    places: ColumnPlaces<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<AggregateColumn> {
    let proto::AggregateProto {
        aggregate: word,
        value,
        name,
        column,
        quantile,
        condition,
    } = sent;
    let aggregate = match (word.as_str(), column, quantile, condition) {
        ("distinct", Some(column), None, None) => {
            AggregateFunction::Distinct(places.read(Some(column), lacks)?)
        }
        ("quantile", None, Some(q), None) => AggregateFunction::Quantile(*q),
        ("success", None, None, Some(condition)) => {
            AggregateFunction::Success(read_condition(condition, places, lacks)?)
        }
        ("ratio", None, None, Some(condition)) => {
            AggregateFunction::Ratio(read_condition(condition, places, lacks)?)
        }
        (word, None, None, None) => match PLAIN.iter().find(|(_, known)| *known == word) {
            Some((plain, _)) => plain.clone(),
            None => return lacks.word("aggregate", word),
        },
        (word, ..) => return lacks.word("aggregate", word),
    };
    Some(AggregateColumn {
        aggregate,
        value: size((*value).into(), lacks)?,
        name: name.clone(),
    })
}

/// Converts a number to `usize`.
pub fn size(number: u64, lacks: &mut UnmetRequirements) -> Option<usize> {
    usize::try_from(number)
        .ok()
        .or_else(|| lacks.malformed("a number that is too large"))
}
