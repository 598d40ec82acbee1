//! Serialization of HAVING, ORDER BY, and LIMIT … ROWS: expressions over the result columns of a pipeline.

use tuple::Field;

use super::column_names::{ColumnNames, ColumnPlaces};
use super::computed::{computed, read_computed};
use super::enum_words::EnumWord;
use super::expression::{condition, read_condition};
use super::proto;
use super::refusal::UnmetRequirements;
use crate::dataflow::{Pipeline, ResultSelection, SortDirection, SortKey};
use crate::expr::Column;
use crate::result;

/// Maximum sort keys of results.
const KEYS_MAX: usize = 4096;

/// Encodes the selection of a pipeline; `None` if all rows are output.
pub fn selection(pipeline: &Pipeline) -> Option<proto::SelectionProto> {
    let of = &pipeline.selection;
    if *of == ResultSelection::default() {
        return None;
    }
    let shown = result::shown(pipeline);
    let names = ColumnNames::Result(&shown);
    let key = |key: &SortKey| proto::SortKeyProto {
        column: Some(names.sent(key.column)),
        direction: key.direction.word().to_owned(),
    };
    Some(proto::SelectionProto {
        computed: computed(&of.computed, names),
        having: of.having.as_ref().map(|having| condition(having, names)),
        order_by: of.order_by.iter().map(key).collect(),
        rows_max: of.rows_max.map(|max| max as u64),
    })
}

/// Decodes a selection for a pipeline that is otherwise complete; `field` returns the field of a column of the
/// dataflow.
pub fn read_selection(
    sent: &proto::SelectionProto,
    pipeline: &Pipeline,
    field: &dyn Fn(Column) -> Option<Field>,
    lacks: &mut UnmetRequirements,
) -> Option<ResultSelection> {
    let shown = result::shown(pipeline);
    let places = ColumnPlaces::Result(&shown);
    let computed = read_computed(
        &sent.computed,
        places,
        &|column| grouped(pipeline, field, column),
        lacks,
    );
    let having = match &sent.having {
        Some(having) => read_condition(having, places, lacks).map(Some),
        None => Some(None),
    };
    lacks.at_most("sort keys", sent.order_by.len(), KEYS_MAX)?;
    let order_by: Vec<Option<SortKey>> = sent
        .order_by
        .iter()
        .map(|key| read_key(key, places, lacks))
        .collect();
    let rows_max = match sent.rows_max.map(usize::try_from).transpose() {
        Ok(max) => max,
        Err(_) => return lacks.malformed("a number of rows"),
    };
    Some(ResultSelection {
        computed: computed?,
        having: having?,
        order_by: order_by.into_iter().collect::<Option<_>>()?,
        rows_max,
    })
}

/// The field of a result column; group columns have the field of their input column.
fn grouped(
    pipeline: &Pipeline,
    field: &dyn Fn(Column) -> Option<Field>,
    column: Column,
) -> Option<Field> {
    match result::shown(pipeline).get(usize::from(column.field.0))? {
        result::ResultColumn::Group(place) => field(pipeline.group.get(*place)?.column),
        _ => None,
    }
}

fn read_key(
    sent: &proto::SortKeyProto,
    places: ColumnPlaces<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<SortKey> {
    let direction = SortDirection::read(&sent.direction, lacks);
    Some(SortKey {
        column: places.read(sent.column.as_ref(), lacks)?,
        direction: direction?,
    })
}
