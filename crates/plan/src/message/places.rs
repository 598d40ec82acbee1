//! Identification of columns in a message. Positions in schemas differ between versions, so input columns are
//! identified by name, computed columns by their index in the list of the same message. Group columns and aggregates
//! of a result are identified by their index in the pipeline; only the columns common to all results are identified
//! by name, because other names depend on all columns.

use std::sync::Arc;

use tuple::{FieldId, Schema};

use super::form;
use super::refused::{Lack, Lacks, shortened};
use crate::dataflow::Input;
use crate::expr::Column;
use crate::result::Shown;

/// Result columns identified by name.
const OWN: [(Shown, &str); 6] = [
    (Shown::WindowStart, "window_start"),
    (Shown::WindowEnd, "window_end"),
    (Shown::Rank, "rank"),
    (Shown::Approximate, "approximate"),
    (Shown::ErrorBound, "error_bound"),
    (Shown::Lost, "lost"),
];

/// The scope of an expression's columns, for encoding.
#[derive(Clone, Copy)]
pub enum Names<'a> {
    /// The inputs of a dataflow.
    Inputs(&'a [Input]),
    /// The columns of a result.
    Result(&'a [Shown]),
}

/// The scope of an expression's columns, for decoding.
#[derive(Clone, Copy)]
pub enum Places<'a> {
    /// Columns of inputs; `None`: a missing schema, which has been reported.
    Inputs(&'a [Option<Arc<Schema>>]),
    /// The columns of a result.
    Result(&'a [Shown]),
}

impl Names<'_> {
    /// Encodes a column.
    pub fn sent(self, column: Column) -> form::Column {
        let field = usize::from(column.field.0);
        let of = match (column.computed_place(), self) {
            (Some(place), _) => form::ColumnOf::Computed(place as u32),
            (None, Names::Inputs(inputs)) => {
                let schema = inputs.get(usize::from(column.input)).map(|input| &input.schema);
                let name = schema.and_then(|schema| schema.fields.get(field)).map(|f| f.name.to_string());
                let input = u32::from(column.input);
                form::ColumnOf::Input(form::InputColumn { input, name: name.unwrap_or_default() })
            }
            (None, Names::Result(shown)) => match shown.get(field) {
                Some(Shown::Group(place)) => form::ColumnOf::Group(*place as u32),
                Some(Shown::Aggregate(place)) => form::ColumnOf::Aggregate(*place as u32),
                own => {
                    let name = OWN.iter().find(|(known, _)| Some(known) == own).map(|(_, name)| *name);
                    form::ColumnOf::Result(name.unwrap_or_default().to_owned())
                }
            },
        };
        form::Column { of: Some(of) }
    }
}

impl Places<'_> {
    /// Decodes a column.
    pub fn read(self, column: Option<&form::Column>, lacks: &mut Lacks) -> Option<Column> {
        let Some(of) = column.and_then(|column| column.of.as_ref()) else {
            return lacks.malformed("a column is missing, or of a kind that is not known here");
        };
        match (of, self) {
            // The index is checked later for the plan as a whole.
            (form::ColumnOf::Computed(place), _) => match u16::try_from(*place) {
                Ok(place) => Some(Column::computed(usize::from(place))),
                Err(_) => lacks.malformed("a computed column that there is not"),
            },
            (form::ColumnOf::Input(column), Places::Inputs(schemas)) => {
                let input = usize::try_from(column.input).ok().and_then(|input| schemas.get(input));
                let Some(schema) = input else {
                    return lacks.malformed(format!("input {} is not there", column.input));
                };
                let field = named(schema.as_deref()?, &column.name, lacks)?;
                Some(Column { input: u16::try_from(column.input).ok()?, field })
            }
            (form::ColumnOf::Group(place), Places::Result(shown)) => {
                result(shown, usize::try_from(*place).map(Shown::Group).ok(), lacks)
            }
            (form::ColumnOf::Aggregate(place), Places::Result(shown)) => {
                result(shown, usize::try_from(*place).map(Shown::Aggregate).ok(), lacks)
            }
            (form::ColumnOf::Result(name), Places::Result(shown)) => {
                match OWN.iter().find(|(_, known)| known == name) {
                    Some((own, _)) => result(shown, Some(*own), lacks),
                    None => lacks.word("column of results", name),
                }
            }
            _ => lacks.malformed("a column of an input stands for one of a result, or the other way round"),
        }
    }
}

/// The column of a schema; a missing one is recorded in `lacks`.
pub fn named(schema: &Schema, name: &str, lacks: &mut Lacks) -> Option<FieldId> {
    let found = schema.find(name);
    if found.is_none() {
        lacks.add(Lack::Column { parser: schema.name.to_string(), column: shortened(name) });
    }
    found
}

fn result(shown: &[Shown], wanted: Option<Shown>, lacks: &mut Lacks) -> Option<Column> {
    let place = wanted.and_then(|wanted| shown.iter().position(|column| *column == wanted));
    match place.and_then(|place| u16::try_from(place).ok()) {
        Some(field) => Some(Column { input: 0, field: FieldId(field) }),
        None => lacks.malformed("a column of a result that there is not"),
    }
}
