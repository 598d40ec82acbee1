//! Serialization of dataflows.

use std::sync::Arc;

use tuple::Schema;

use super::column_names::{ColumnNames, ColumnPlaces};
use super::computed::{computed, field_of, read_computed};
use super::enum_words::EnumWord;
use super::expression::{condition, read_condition};
use super::pipeline::{PIPELINES_MAX, pipeline, read_pipeline};
use super::proto;
use super::refusal::UnmetRequirements;
use super::schemas::{INPUTS_MAX, SchemaCatalog, read_columns, sent, sent_columns};
use crate::dataflow::{Dataflow, DataflowInput, RawRows, SortDirection};
use crate::expr::{Column, Predicate};

/// Maximum selected columns, and maximum sort keys.
pub const LISTED_MAX: usize = 4096;

/// Encodes a dataflow.
pub fn dataflow(of: &Dataflow) -> proto::DataflowProto {
    let names = ColumnNames::Inputs(&of.inputs);
    let input = |input: &DataflowInput| proto::InputProto {
        schema: Some(sent(&input.schema)),
        columns: sent_columns(&input.schema, &input.columns),
        filter: input.filter.as_ref().map(|filter| condition(filter, names)),
    };
    let columns = |list: &Vec<Column>| proto::ColumnsProto {
        list: list.iter().map(|c| names.sent(*c)).collect(),
    };
    proto::DataflowProto {
        inputs: of.inputs.iter().map(input).collect(),
        filter: of.filter.as_ref().map(|filter| condition(filter, names)),
        pipelines: of.pipelines.iter().map(|p| pipeline(p, names)).collect(),
        computed: computed(&of.computed, names),
        select: of.rows.select.as_ref().map(columns),
        order: of
            .rows
            .order
            .iter()
            .map(|(column, direction)| key(*column, *direction, names))
            .collect(),
        rows_max: of.rows.rows_max,
    }
}

fn key(column: Column, direction: SortDirection, names: ColumnNames<'_>) -> proto::SortKeyProto {
    proto::SortKeyProto {
        column: Some(names.sent(column)),
        direction: direction.word().to_owned(),
    }
}

/// Decodes a dataflow.
pub fn read_dataflow(
    sent: &proto::DataflowProto,
    registry: &mut SchemaCatalog<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<Dataflow> {
    lacks.at_most("inputs", sent.inputs.len(), INPUTS_MAX)?;
    let schemas: Vec<Option<Arc<Schema>>> = sent
        .inputs
        .iter()
        .map(|input| registry.read(input.schema.as_ref(), lacks))
        .collect();
    let places = ColumnPlaces::Inputs(&schemas);
    let inputs: Vec<Option<DataflowInput>> = sent
        .inputs
        .iter()
        .zip(&schemas)
        .map(|(i, schema)| input(i, schema, places, lacks))
        .collect();
    let filter = optional(&sent.filter, places, lacks);
    let computed = read_computed(
        &sent.computed,
        places,
        &|column| field_of(&schemas, column),
        lacks,
    );
    let rows = rows(sent, places, lacks);
    lacks.at_most("pipelines", sent.pipelines.len(), PIPELINES_MAX)?;
    let field = |column: Column| match column.computed_place() {
        Some(place) => computed
            .as_ref()
            .and_then(|list| list.get(place))
            .map(|c| c.field.clone()),
        None => field_of(&schemas, column),
    };
    let pipelines: Vec<_> = sent
        .pipelines
        .iter()
        .map(|p| read_pipeline(p, places, &field, lacks))
        .collect();
    Some(Dataflow {
        inputs: inputs.into_iter().collect::<Option<_>>()?,
        filter: filter?,
        pipelines: pipelines.into_iter().collect::<Option<_>>()?,
        computed: computed?,
        rows: rows?,
    })
}

/// `None` if something is missing; `Some(None)` without a condition.
pub fn optional(
    sent: &Option<proto::ExpressionProto>,
    places: ColumnPlaces<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<Option<Predicate>> {
    match sent {
        Some(sent) => read_condition(sent, places, lacks).map(Some),
        None => Some(None),
    }
}

fn input(
    sent: &proto::InputProto,
    schema: &Option<Arc<Schema>>,
    places: ColumnPlaces<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<DataflowInput> {
    let filter = optional(&sent.filter, places, lacks);
    let schema = schema.clone()?;
    let columns = read_columns(&schema, &sent.columns, lacks);
    Some(DataflowInput {
        schema,
        columns: columns?,
        filter: filter?,
    })
}

fn rows(
    sent: &proto::DataflowProto,
    places: ColumnPlaces<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<RawRows> {
    let selected = sent.select.as_ref().map_or(0, |columns| columns.list.len());
    lacks.at_most(
        "columns and keys",
        selected.max(sent.order.len()),
        LISTED_MAX,
    )?;
    let select = sent.select.as_ref().map(|columns| {
        columns
            .list
            .iter()
            .map(|column| places.read(Some(column), lacks))
            .collect::<Vec<_>>()
    });
    let order: Vec<_> = sent
        .order
        .iter()
        .map(|key| read_key(key, places, lacks))
        .collect();
    Some(RawRows {
        select: match select {
            Some(columns) => Some(columns.into_iter().collect::<Option<_>>()?),
            None => None,
        },
        order: order.into_iter().collect::<Option<_>>()?,
        rows_max: sent.rows_max,
    })
}

fn read_key(
    sent: &proto::SortKeyProto,
    places: ColumnPlaces<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<(Column, SortDirection)> {
    let direction = SortDirection::read(&sent.direction, lacks);
    Some((places.read(sent.column.as_ref(), lacks)?, direction?))
}
