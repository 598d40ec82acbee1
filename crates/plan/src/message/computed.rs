//! Serialization of computed columns. Redaction is identified by name, too: the method of the renamed column, or one
//! known to every program.

use std::sync::Arc;

use tuple::redact::{HASH, PATH};
use tuple::{DataType, Field, RedactionRule, Schema, TextFold, Unit};

use super::column_names::{ColumnNames, ColumnPlaces};
use super::enum_words::EnumWord;
use super::expression::{read_value, value};
use super::proto;
use super::refusal::{UnmetRequirements, shortened};
use crate::expr::{Column, ComputedField, Expr};

/// Maximum computed columns of a plan, and of the selection of each pipeline.
pub const COMPUTED_MAX: usize = 1024;

/// Encodes the list.
pub fn computed(list: &[ComputedField], names: ColumnNames<'_>) -> Vec<proto::ComputedProto> {
    let one = |computed: &ComputedField| proto::ComputedProto {
        name: computed.field.name.to_string(),
        data_type: computed.field.data_type.word().to_owned(),
        unit: computed.field.unit.word().to_owned(),
        doc: computed.field.doc.to_string(),
        fold: match &computed.field.redact {
            RedactionRule::Keep => None,
            RedactionRule::Fold(fold) => Some(fold.name.to_owned()),
            // No query creates such a column; the whole text is hashed.
            RedactionRule::Where(..) => Some(HASH.name.to_owned()),
        },
        text: computed.text.clone(),
        value: Some(value(&computed.expr, names)),
    };
    list.iter().map(one).collect()
}

/// Decodes a list; `field` returns the field of a column that is not computed.
pub fn read_computed(
    sent: &[proto::ComputedProto],
    places: ColumnPlaces<'_>,
    field: &dyn Fn(Column) -> Option<Field>,
    lacks: &mut UnmetRequirements,
) -> Option<Vec<ComputedField>> {
    lacks.at_most("computed columns", sent.len(), COMPUTED_MAX)?;
    let mut read: Vec<Option<ComputedField>> = Vec::new();
    for one in sent {
        let computed = {
            let known = |column: Column| match column.computed_place() {
                Some(place) => read
                    .get(place)
                    .cloned()
                    .flatten()
                    .map(|computed| computed.field),
                None => field(column),
            };
            read_one(one, places, &known, lacks)
        };
        read.push(computed);
    }
    read.into_iter().collect()
}

fn read_one(
    sent: &proto::ComputedProto,
    places: ColumnPlaces<'_>,
    field: &dyn Fn(Column) -> Option<Field>,
    lacks: &mut UnmetRequirements,
) -> Option<ComputedField> {
    let data_type = DataType::read(&sent.data_type, lacks);
    let unit = Unit::read(&sent.unit, lacks);
    let expr = match lacks.required(&sent.value, "the expression of a computed column") {
        Some(value) => read_value(value, places, lacks)?,
        None => return None,
    };
    let redact = match &sent.fold {
        Some(name) => match fold(name, &expr, field) {
            Some(fold) => RedactionRule::Fold(fold),
            None => return lacks.word("fold", &shortened(name)),
        },
        None => RedactionRule::Keep,
    };
    let field = Field {
        name: sent.name.clone().into(),
        data_type: data_type?,
        unit: unit?,
        doc: sent.doc.clone().into(),
        redact,
    };
    Some(ComputedField {
        field,
        text: sent.text.clone(),
        expr,
    })
}

/// Methods of two parsers may share a name: only that of the renamed column is accepted.
fn fold(name: &str, expr: &Expr, field: &dyn Fn(Column) -> Option<Field>) -> Option<TextFold> {
    let repeated = match expr {
        Expr::Column(column) => field(*column).map(|field| field.redact),
        _ => None,
    };
    match repeated {
        Some(RedactionRule::Fold(fold)) if fold.name == name => Some(fold),
        _ => [HASH, PATH].into_iter().find(|fold| fold.name == name),
    }
}

/// The field of an input column.
pub fn field_of(schemas: &[Option<Arc<Schema>>], column: Column) -> Option<Field> {
    let schema = schemas.get(usize::from(column.input))?.as_ref()?;
    schema.fields.get(usize::from(column.field.0)).cloned()
}
