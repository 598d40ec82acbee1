//! Serialization of HAVING, ORDER BY, and LIMIT … ROWS: expressions over the result columns of a pipeline.

use tuple::Field;

use super::computed::{computed, read_computed};
use super::expression::{condition, read_condition};
use super::form;
use super::places::{Names, Places};
use super::refused::Lacks;
use super::words::Word;
use crate::dataflow::{Direction, Pipeline, Selection, SortKey};
use crate::expr::Column;
use crate::result;

/// Maximum sort keys of results.
const KEYS_MAX: usize = 4096;

/// Encodes the selection of a pipeline; `None` if all rows are output.
pub fn selection(pipeline: &Pipeline) -> Option<form::Selection> {
    let of = &pipeline.selection;
    if *of == Selection::default() {
        return None;
    }
    let shown = result::shown(pipeline);
    let names = Names::Result(&shown);
    let key = |key: &SortKey| form::SortKey {
        column: Some(names.sent(key.column)),
        direction: key.direction.word().to_owned(),
    };
    Some(form::Selection {
        computed: computed(&of.computed, names),
        having: of.having.as_ref().map(|having| condition(having, names)),
        order_by: of.order_by.iter().map(key).collect(),
        rows_max: of.rows_max.map(|max| max as u64),
    })
}

/// Decodes a selection for a pipeline that is otherwise complete; `field` returns the field of a column of the
/// dataflow.
pub fn read_selection(
    sent: &form::Selection,
    pipeline: &Pipeline,
    field: &dyn Fn(Column) -> Option<Field>,
    lacks: &mut Lacks,
) -> Option<Selection> {
    let shown = result::shown(pipeline);
    let places = Places::Result(&shown);
    let computed = read_computed(&sent.computed, places, &|column| grouped(pipeline, field, column), lacks);
    let having = match &sent.having {
        Some(having) => read_condition(having, places, lacks).map(Some),
        None => Some(None),
    };
    lacks.at_most("keys of an order", sent.order_by.len(), KEYS_MAX)?;
    let order_by: Vec<Option<SortKey>> =
        sent.order_by.iter().map(|key| read_key(key, places, lacks)).collect();
    let rows_max = match sent.rows_max.map(usize::try_from).transpose() {
        Ok(max) => max,
        Err(_) => return lacks.malformed("a number of rows"),
    };
    Some(Selection {
        computed: computed?,
        having: having?,
        order_by: order_by.into_iter().collect::<Option<_>>()?,
        rows_max,
    })
}

/// The field of a result column; group columns have the field of their input column.
fn grouped(pipeline: &Pipeline, field: &dyn Fn(Column) -> Option<Field>, column: Column) -> Option<Field> {
    match result::shown(pipeline).get(usize::from(column.field.0))? {
        result::Shown::Group(place) => field(pipeline.group.get(*place)?.column),
        _ => None,
    }
}

fn read_key(sent: &form::SortKey, places: Places<'_>, lacks: &mut Lacks) -> Option<SortKey> {
    let direction = Direction::read(&sent.direction, lacks);
    Some(SortKey { column: places.read(sent.column.as_ref(), lacks)?, direction: direction? })
}
