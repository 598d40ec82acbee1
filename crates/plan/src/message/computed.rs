//! Computed columns as they are sent. How one is redacted goes by name, too: the fold of the column that it repeats, or one that
//! every program knows.

use std::sync::Arc;

use tuple::redact::{HASH, PATH};
use tuple::{DataType, Field, Fold, Redact, Schema, Unit};

use super::expression::{read_value, value};
use super::form;
use super::places::{Names, Places};
use super::refused::{Lacks, shortened};
use super::words::Word;
use crate::expr::{Column, Computed, Expr};

/// Most columns that a plan computes, and the selection of each of its pipelines.
pub const COMPUTED_MAX: usize = 1024;

/// The list as it is sent.
pub fn computed(list: &[Computed], names: Names<'_>) -> Vec<form::Computed> {
    let one = |computed: &Computed| form::Computed {
        name: computed.field.name.to_string(),
        data_type: computed.field.data_type.word().to_owned(),
        unit: computed.field.unit.word().to_owned(),
        doc: computed.field.doc.to_string(),
        fold: match &computed.field.redact {
            Redact::Keep => None,
            Redact::Fold(fold) => Some(fold.name.to_owned()),
            // No query makes such a column; nothing of it is kept.
            Redact::Where(..) => Some(HASH.name.to_owned()),
        },
        text: computed.text.clone(),
        value: Some(value(&computed.expr, names)),
    };
    list.iter().map(one).collect()
}

/// A list that was sent; `field` says what is known of a column that is not computed.
pub fn read_computed(
    sent: &[form::Computed],
    places: Places<'_>,
    field: &dyn Fn(Column) -> Option<Field>,
    lacks: &mut Lacks,
) -> Option<Vec<Computed>> {
    lacks.at_most("computed columns", sent.len(), COMPUTED_MAX)?;
    let mut read: Vec<Option<Computed>> = Vec::new();
    for one in sent {
        let computed = {
            let known = |column: Column| match column.computed_place() {
                Some(place) => read.get(place).cloned().flatten().map(|computed| computed.field),
                None => field(column),
            };
            read_one(one, places, &known, lacks)
        };
        read.push(computed);
    }
    read.into_iter().collect()
}

fn read_one(
    sent: &form::Computed,
    places: Places<'_>,
    field: &dyn Fn(Column) -> Option<Field>,
    lacks: &mut Lacks,
) -> Option<Computed> {
    let (data_type, unit) = (DataType::read(&sent.data_type, lacks), Unit::read(&sent.unit, lacks));
    let expr = match lacks.required(&sent.value, "what a column is computed of") {
        Some(value) => read_value(value, places, lacks)?,
        None => return None,
    };
    let redact = match &sent.fold {
        Some(name) => match fold(name, &expr, field) {
            Some(fold) => Redact::Fold(fold),
            None => return lacks.word("fold", &shortened(name)),
        },
        None => Redact::Keep,
    };
    let field = Field {
        name: sent.name.clone().into(),
        data_type: data_type?,
        unit: unit?,
        doc: sent.doc.clone().into(),
        redact,
    };
    Some(Computed { field, text: sent.text.clone(), expr })
}

/// Folds of two parsers may have one name: only that of the very column is taken.
fn fold(name: &str, expr: &Expr, field: &dyn Fn(Column) -> Option<Field>) -> Option<Fold> {
    let repeated = match expr {
        Expr::Column(column) => field(*column).map(|field| field.redact),
        _ => None,
    };
    match repeated {
        Some(Redact::Fold(fold)) if fold.name == name => Some(fold),
        _ => [HASH, PATH].into_iter().find(|fold| fold.name == name),
    }
}

/// The field of a column of an input.
pub fn field_of(schemas: &[Option<Arc<Schema>>], column: Column) -> Option<Field> {
    let schema = schemas.get(usize::from(column.input))?.as_ref()?;
    schema.fields.get(usize::from(column.field.0)).cloned()
}
